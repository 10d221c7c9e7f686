/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cold half of the latency histogram: reset, merge and read-out. hist.h has the layout and
 * the hot half. Called by the reporting code of pmx-perf on its main thread, when nobody records.
 */
#include <string.h>

#include "hist.h"

#define MILLION UINT64_C(1000000)

void
hist_init(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

void
hist_merge(struct hist *to, const struct hist *from)
{
	to->count += from->count;
	to->sum_ns += from->sum_ns;
	if (from->min_ns < to->min_ns)
		to->min_ns = from->min_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

/* Return the largest value that falls into a bucket: the inverse of hist_index(). */
static uint64_t
bucket_upper(uint32_t index)
{
	uint32_t shift;
	uint64_t top;

	if (index < 2 * HIST_SUB)
		return index;
	shift = (index >> HIST_SUB_BITS) - 1;
	top = HIST_SUB + (index & (HIST_SUB - 1));
	return ((top + 1) << shift) - 1;
}

/* ceil(count * per_million / 1,000,000) without overflow of the product, at least 1. */
static uint64_t
rank_of(uint64_t count, uint32_t per_million)
{
	uint64_t rank = count / MILLION * per_million;

	rank += (count % MILLION * per_million + MILLION - 1) / MILLION;
	return rank ? rank : 1;
}

uint64_t
hist_percentile(const struct hist *h, uint32_t per_million)
{
	uint64_t rank, seen = 0;

	if (h->count == 0)
		return 0;
	if (per_million == 0)
		return h->min_ns;
	if (per_million >= MILLION)
		return h->max_ns;
	rank = rank_of(h->count, per_million);
	for (uint32_t i = 0; i < HIST_BUCKETS - 1; i++) {
		seen += h->buckets[i];
		if (seen >= rank) {
			uint64_t upper = bucket_upper(i);

			return upper < h->max_ns ? upper : h->max_ns;
		}
	}
	/* The last bucket also holds what was too long for it: only the maximum is known there. */
	return h->max_ns;
}

uint64_t
hist_min(const struct hist *h)
{
	return h->count ? h->min_ns : 0;
}

uint64_t
hist_max(const struct hist *h)
{
	return h->max_ns;
}

uint64_t
hist_mean(const struct hist *h)
{
	return h->count ? h->sum_ns / h->count : 0;
}

uint64_t
hist_count(const struct hist *h)
{
	return h->count;
}
