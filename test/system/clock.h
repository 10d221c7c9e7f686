/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The time, for tests in C.
 */
#ifndef PMX_TEST_CLOCK_H
#define PMX_TEST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline int64_t
now_us(void)
{
	return now_ns() / 1000;
}

static inline double
now_s(void)
{
	return (double)now_ns() / 1e9;
}

static inline void
sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000l};

	while (nanosleep(&t, &t) != 0)
		;
}

#endif
