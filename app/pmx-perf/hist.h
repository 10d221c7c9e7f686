/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Latency histogram of pmx-perf: counts of nanosecond values in log-linear buckets, 64 to each
 * power of two, so that a percentile is at most 1/64 = 1.6 % above the true value. One thread
 * records into one histogram; histograms of several threads are merged after these have ended.
 * Fixed memory (16 KiB), no allocation; hist_record() is some twenty instructions without a branch.
 */
#ifndef PMX_PERF_HIST_H
#define PMX_PERF_HIST_H

#include <stdint.h>

#define HIST_SUB_BITS  6 /* 64 buckets to a power of two */
#define HIST_SUB       (1u << HIST_SUB_BITS)
/* 137 s: longer ones fall into the last bucket */
#define HIST_VALUE_MAX ((UINT64_C(1) << 37) - 1)
#define HIST_BUCKETS   ((37 - HIST_SUB_BITS + 1) * HIST_SUB)

struct hist {
	uint64_t count;                 /* values recorded */
	uint64_t sum_ns;                /* of all values; wraps after 584 years of latency */
	uint64_t min_ns;                /* UINT64_MAX while empty */
	uint64_t max_ns;                /* exact, even beyond HIST_VALUE_MAX */
	uint64_t buckets[HIST_BUCKETS]; /* values below 128 ns are exact */
};

/* Bucket of a value. A value of more than 7 bits is cut to its upper 7 bits, 64..127, and each bit
 * that is cut off moves it 64 buckets up. Values below 128 are their own bucket number. */
static inline uint32_t
hist_index(uint64_t ns)
{
	uint32_t shift;

	if (ns > HIST_VALUE_MAX)
		ns = HIST_VALUE_MAX;
	shift = 63 - (uint32_t)__builtin_clzll(ns | HIST_SUB) - HIST_SUB_BITS;
	return (shift << HIST_SUB_BITS) + (uint32_t)(ns >> shift);
}

static inline void
hist_record(struct hist *h, uint64_t ns)
{
	h->count++;
	h->sum_ns += ns;
	if (ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->buckets[hist_index(ns)]++;
}

/* Empty the histogram. Must be called before the first hist_record(). */
void hist_init(struct hist *h);

/* Add all values of `from` to `to`. */
void hist_merge(struct hist *to, const struct hist *from);

/* Return the smallest value, in ns, that at least per_million / 1,000,000 of all values do not
 * exceed: 500000 is the median, 999000 p99.9, 0 the minimum, 1000000 (or more) the maximum. The
 * answer is the upper end of the value's bucket, never outside min..max. 0 if the histogram is
 * empty. */
uint64_t hist_percentile(const struct hist *h, uint32_t per_million);

/* Return the least, the greatest and the mean of all values, in ns, and their number; 0 if the
 * histogram is empty. */
uint64_t hist_min(const struct hist *h);
uint64_t hist_max(const struct hist *h);
uint64_t hist_mean(const struct hist *h);
uint64_t hist_count(const struct hist *h);

#endif
