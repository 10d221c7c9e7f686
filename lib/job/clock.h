/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The time by which a job's processes and pmx-run wait for each other.
 */
#ifndef PMX_JOB_CLOCK_H
#define PMX_JOB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
job_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static inline int64_t
job_now_ms(void)
{
	return job_now_us() / 1000;
}

#endif
