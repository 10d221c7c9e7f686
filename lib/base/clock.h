/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The time by which callers of the library wait, and until when. Microseconds of CLOCK_MONOTONIC,
 * which no change of the date moves. Used everywhere, any thread.
 */
#ifndef PMX_BASE_CLOCK_H
#define PMX_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The deadline that never comes. */
#define CLOCK_NEVER INT64_MAX

static inline int64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline int64_t
clock_us(void)
{
	return clock_ns() / 1000;
}

static inline int64_t
clock_ms(void)
{
	return clock_us() / 1000;
}

/* Return milliseconds, with an error of a few: cheaper than the others. */
static inline int64_t
clock_coarse_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Return the deadline of what began at `now` and may take timeout_us. timeout_us is any number;
 * below 0: for ever. */
static inline int64_t
clock_after(int64_t now, int64_t timeout_us)
{
	return timeout_us < 0 || timeout_us > CLOCK_NEVER - now ? CLOCK_NEVER : now + timeout_us;
}

/* ... of what begins now. */
static inline int64_t
clock_deadline(int64_t timeout_us)
{
	return clock_after(clock_us(), timeout_us);
}

/* Return the microseconds that are left until the deadline; 0: it has passed. */
static inline int64_t
clock_left(int64_t deadline)
{
	if (deadline == CLOCK_NEVER)
		return CLOCK_NEVER;
	int64_t left = deadline - clock_us();

	return left > 0 ? left : 0;
}

/* Return the moment, on CLOCK_MONOTONIC, that comes after so many microseconds. */
static inline struct timespec
clock_moment(int64_t timeout_us)
{
	const int64_t us = clock_us() + timeout_us;

	return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

/* Return the time that is left until the deadline in milliseconds, as poll() takes it: rounded up,
 * and `most` at most. */
static inline int
clock_poll_ms(int64_t deadline, int most)
{
	int64_t left = clock_left(deadline);

	return left < most * INT64_C(1000) ? (int)((left + 999) / 1000) : most;
}

#endif
