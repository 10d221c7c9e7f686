/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notices: which pages a member has changed. Each appends them to its own log, and others pull what
 * is new to them. The last few stand in the head of the control area, so one pull mostly does.
 *
 * A notice is a word: its number modulo 2^24, the number of pages and the first of them. So a
 * reader knows by the word itself whether it has been overwritten meanwhile.
 */
#include <errno.h>
#include <stddef.h>

#include "dsm/dsm.h"

#define COUNT_SHIFT  28
#define NUMBER_SHIFT 40

static uint64_t
notice(uint64_t number, uint32_t first, uint32_t count)
{
	return number << NUMBER_SHIFT | (uint64_t)count << COUNT_SHIFT | first;
}

static bool
has_number(uint64_t notice, uint64_t number)
{
	return notice >> NUMBER_SHIFT == (number & ((1u << (64 - NUMBER_SHIFT)) - 1));
}

static void
append(struct pmx_dsm *d, uint32_t first, uint32_t count)
{
	const uint64_t n = atomic_load_explicit(&d->head->count, memory_order_relaxed);
	const uint64_t word = notice(n, first, count);

	d->log[n % DSM_LOG] = d->head->recent[n % DSM_RECENT] = word;
	/* release: who sees the count finds the notice; its reader is the engine */
	atomic_store_explicit(&d->head->count, n + 1, memory_order_release);
	d->stat.notices++;
}

void
dsm_tell(struct pmx_dsm *d)
{
	const uint32_t *p = d->told.pages;

	dsm_list_sort(&d->told);
	for (uint32_t i = 0, n; i < d->told.count; i += n) {
		n = 1;
		while (i + n < d->told.count && n < DSM_RUN && p[i + n] == p[i] + n)
			n++;
		append(d, p[i], n);
	}
	d->told.count = 0;
}

/* Add the copies of pages that the notice names to the doubted ones. Return false if the word no
 * longer has that number: the notice has been overwritten. */
static bool
notices_take(struct pmx_dsm *d, uint64_t notice, uint64_t number)
{
	const uint32_t first = notice & ((1u << COUNT_SHIFT) - 1);
	const uint32_t count = (notice >> COUNT_SHIFT) & DSM_RUN;

	if (!has_number(notice, number) || first + count > d->page_count)
		return false;
	for (uint32_t i = first; i < first + count; i++) {
		if (dsm_has_copy(d, i))
			dsm_list_add(&d->doubted, i);
	}
	return true;
}

/* Pull the notices from..to of a member's log to d->slice. Return 0 or a negative errno. */
static int
pull_log(struct pmx_dsm *d, uint32_t rank, uint64_t from, uint64_t to)
{
	const uint64_t log_at = (uint64_t)((uint8_t *)d->log - d->area);
	int result = 0;

	for (uint64_t i = from; i < to && result == 0;) {
		uint64_t at = i % DSM_LOG, n = to - i < DSM_LOG - at ? to - i : DSM_LOG - at;

		result = dsm_pull(d, rank, log_at + at * 8, d->slice + at, n * 8);
		i += n;
	}
	return result == 0 ? dsm_finish(d) : result;
}

/* Collect the new notices of one member, whose head has been pulled. Return as dsm_ask() does. */
static int
ask_one(struct pmx_dsm *d, uint32_t rank)
{
	const struct control_head *h = &d->got[rank];
	const uint64_t from = d->seen[rank];
	const uint64_t to = atomic_load_explicit(&h->count, memory_order_relaxed);
	const uint64_t *words = h->recent;
	uint64_t places = DSM_RECENT;

	d->seen[rank] = to;
	if (to - from > DSM_LOG)
		return 1;
	if (to - from > DSM_RECENT) {
		int result = pull_log(d, rank, from, to);

		if (result != 0)
			return result;
		words = d->slice;
		places = DSM_LOG;
	}
	for (uint64_t i = from; i < to; i++) {
		if (!notices_take(d, words[i % places], i))
			return 1;
	}
	return 0;
}

int
dsm_ask(struct pmx_dsm *d)
{
	int result = 0, unknown = 0;

	for (uint32_t r = 0; r < d->size && result == 0; r++) {
		if (r != d->rank)
			result = dsm_pull(d, r, 0, &d->got[r], sizeof(d->got[r]));
	}
	result = result == 0 ? dsm_finish(d) : result;
	for (uint32_t r = 0; r < d->size && result >= 0; r++) {
		if (r != d->rank) {
			result = ask_one(d, r);
			unknown |= result == 1;
		}
	}
	return result < 0 ? result : unknown;
}
