/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The states of the pages of one member (enum page_state), and the protection of its view that
 * follows them. The caller holds the mutex.
 *
 *     INVALID -> CLEAN -> DIRTY -> CLEAN    fetched, written, sent to its home at a release
 *     CLEAN, DIRTY -> FETCHED -> CLEAN       changed by others; changes of one's own are sent first
 *                     FETCHED -> INVALID     changed by others again, and not used in between
 *     OWN -> WATCHED -> WRITTEN -> OWN       at its home
 *
 * At its home a page becomes WATCHED at the first release after another member has asked for it,
 * and others are told of it then, since it may have been written before and since. When it is
 * WRITTEN they are told again, and it costs nothing until the next one asks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dsm/dsm.h"

/* Return how many pages of a sorted list, from the one at i on, follow each other and have one
 * home. */
static uint32_t
run_at(const struct pmx_dsm *d, const struct page_list *l, uint32_t i)
{
	uint32_t n = 1;

	while (i + n < l->count && l->pages[i + n] == l->pages[i] + n &&
		d->home[l->pages[i + n]] == d->home[l->pages[i]])
		n++;
	return n;
}

/* ------------------------------------------------------------------ protection */

static int
protect(struct pmx_dsm *d, uint32_t first, uint32_t count, int how)
{
	return mprotect(d->view + first * d->page_bytes, count * d->page_bytes, how) == 0 ? 0
											  : -errno;
}

static void
set_state(struct pmx_dsm *d, uint32_t first, uint32_t count, enum page_state state)
{
	memset(d->state + first, state, count);
}

/* ------------------------------------------------------------------ access */

/* Begin to fetch pages of one home, and tell it that they are wanted. */
static int
fetch(struct pmx_dsm *d, uint32_t first, uint32_t count)
{
	static const uint8_t ones[DSM_RUN] = {[0 ... DSM_RUN - 1] = 1};
	const uint64_t at = first * d->page_bytes;
	const uint64_t wanted_at = (uint64_t)((uint8_t *)d->wanted - d->area);
	int result = dsm_push(d, d->home[first], wanted_at + first, ones, count, NULL);

	d->stat.fetched += count;
	return result != 0 ? result
			   : dsm_pull(d, d->home[first], d->pages_at + at, d->pages + at,
				     count * d->page_bytes);
}

/* Fetch those of the pages that are not here, and wait for them. Their state is PAGE_FETCHED
 * then. */
static int
fetch_all(struct pmx_dsm *d, uint32_t first, uint32_t count)
{
	const uint32_t end = first + count;
	int result = 0;

	for (uint32_t i = first, n; i < end && result == 0; i += n) {
		n = 1;
		if (d->state[i] != PAGE_INVALID)
			continue;
		while (i + n < end && n < DSM_RUN && d->state[i + n] == PAGE_INVALID &&
			d->home[i + n] == d->home[i])
			n++;
		result = fetch(d, i, n);
	}
	result = result == 0 ? dsm_finish(d) : result;
	for (uint32_t i = first; i < end && result == 0; i++)
		d->state[i] = d->state[i] == PAGE_INVALID ? PAGE_FETCHED : d->state[i];
	return result;
}

/* Mark a page as used: read, or written to if `writes`. Keep a twin of a copy that is written
 * to. */
static void
use(struct pmx_dsm *d, uint32_t page, bool writes)
{
	const uint64_t at = page * d->page_bytes;

	if (d->state[page] == PAGE_FETCHED)
		d->state[page] = PAGE_CLEAN;
	if (!writes)
		return;
	if (d->state[page] == PAGE_CLEAN) {
		memcpy(d->twins + at, d->pages + at, d->page_bytes);
		d->state[page] = PAGE_DIRTY;
		dsm_list_add(&d->dirty, page);
	} else if (d->state[page] == PAGE_WATCHED) {
		d->state[page] = PAGE_WRITTEN;
		dsm_list_add(&d->written, page);
	}
}

static bool
is_writable(uint8_t state)
{
	return state == PAGE_DIRTY || state == PAGE_OWN || state == PAGE_WRITTEN;
}

int
dsm_access(struct pmx_dsm *d, uint32_t first, uint32_t count, bool writes)
{
	const uint32_t end = first + count;
	int result = d->error == 0 ? fetch_all(d, first, count) : d->error;

	for (uint32_t i = first; i < end && result == 0; i++)
		use(d, i, writes);
	for (uint32_t i = first, n; i < end && result == 0; i += n) {
		const bool writable = is_writable(d->state[i]);

		for (n = 1; i + n < end && is_writable(d->state[i + n]) == writable;)
			n++;
		result = protect(d, i, n, writable ? PROT_READ | PROT_WRITE : PROT_READ);
	}
	return result;
}

/* ------------------------------------------------------------------ release */

/* Send the changes of all dirty pages to their homes, and wait until they are there. */
static int
send_changes(struct pmx_dsm *d)
{
	int result = 0;

	dsm_list_sort(&d->dirty);
	for (uint32_t i = 0, n; i < d->dirty.count && result == 0; i += n) {
		const uint32_t first = d->dirty.pages[i];
		const uint64_t at = first * d->page_bytes;
		const struct pmx_part diff = {.kind = PMX_PART_DIFF, .twin = d->twins + at};

		n = run_at(d, &d->dirty, i);
		result = protect(d, first, n, PROT_READ);
		set_state(d, first, n, PAGE_CLEAN);
		if (result == 0)
			result = dsm_push(d, d->home[first], d->pages_at + at, d->pages + at,
				n * d->page_bytes, &diff);
	}
	for (uint32_t i = 0; i < d->dirty.count; i++)
		dsm_list_add(&d->told, d->dirty.pages[i]);
	d->stat.sent += d->dirty.count;
	d->dirty.count = 0;
	return result == 0 ? dsm_finish(d) : result;
}

/* Look at the pages whose home is here: note those that were written while others may have copies,
 * and watch those that others have asked for. The others are told of both. */
static int
look_at_wanted(struct pmx_dsm *d)
{
	const uint32_t end = (uint32_t)(d->allocated / d->page_bytes);
	const uint8_t *wanted = (const uint8_t *)d->wanted;
	int result = 0;

	for (uint32_t i = 0; i < d->written.count; i++) {
		const uint32_t page = d->written.pages[i];

		/* cleared before others are told: who asks from here on is seen next time */
		atomic_store_explicit(&d->wanted[page], 0, memory_order_seq_cst);
		d->state[page] = PAGE_OWN;
		dsm_list_add(&d->told, page);
	}
	d->written.count = 0;
	for (uint32_t i = 0; i < end && result == 0; i++) {
		const uint8_t *next = memchr(wanted + i, 1, end - i);

		if (next == NULL)
			break;
		i = (uint32_t)(next - wanted);
		if (d->state[i] != PAGE_OWN)
			continue;
		result = protect(d, i, 1, PROT_READ);
		d->state[i] = PAGE_WATCHED;
		dsm_list_add(&d->told, i);
	}
	return result;
}

int
dsm_release(struct pmx_dsm *d)
{
	int result = d->error == 0 ? send_changes(d) : d->error;

	if (result == 0)
		result = look_at_wanted(d);
	dsm_tell(d);
	return d->error = result;
}

/* ------------------------------------------------------------------ acquire */

static void
doubt_all(struct pmx_dsm *d)
{
	d->doubted.count = 0;
	for (uint32_t i = 0; i < d->page_count; i++) {
		if (dsm_has_copy(d, i))
			dsm_list_add(&d->doubted, i);
	}
}

static bool
any_dirty(const struct pmx_dsm *d)
{
	for (uint32_t i = 0; i < d->doubted.count; i++) {
		if (d->state[d->doubted.pages[i]] == PAGE_DIRTY)
			return true;
	}
	return false;
}

/* Check that no member has gone, since it would have taken pages with it. Return 0 or
 * -ECONNRESET. */
static int
check_members(const struct pmx_dsm *d)
{
	for (uint32_t r = 0; r < d->size; r++) {
		if (pmx_group_member(d->group, r, NULL) != 0)
			return -ECONNRESET;
	}
	return 0;
}

/* Fetch those of the doubted pages again that were used, and forget the others. */
static int
renew(struct pmx_dsm *d)
{
	uint32_t used = 0;
	int result = 0;

	for (uint32_t i = 0, n; i < d->doubted.count && result == 0; i += n) {
		n = run_at(d, &d->doubted, i);
		result = protect(d, d->doubted.pages[i], n, PROT_NONE);
	}
	d->stat.dropped += d->doubted.count;
	for (uint32_t i = 0; i < d->doubted.count; i++) {
		const uint32_t page = d->doubted.pages[i];

		if (d->state[page] != PAGE_FETCHED)
			d->doubted.pages[used++] = page;
		d->state[page] = PAGE_INVALID;
	}
	d->doubted.count = used;
	for (uint32_t i = 0, n; i < used && result == 0; i += n) {
		n = run_at(d, &d->doubted, i);
		n = n < DSM_RUN ? n : DSM_RUN;
		result = fetch(d, d->doubted.pages[i], n);
	}
	result = result == 0 ? dsm_finish(d) : result;
	for (uint32_t i = 0; i < used && result == 0; i++)
		d->state[d->doubted.pages[i]] = PAGE_FETCHED;
	return result;
}

int
dsm_acquire(struct pmx_dsm *d)
{
	int result = d->error == 0 ? check_members(d) : d->error;
	const int known = result == 0 ? dsm_ask(d) : result;

	result = known < 0 ? known : 0;
	if (known == 1)
		doubt_all(d);
	dsm_list_sort(&d->doubted);
	if (result == 0 && any_dirty(d))
		result = send_changes(d);
	if (result == 0)
		result = renew(d);
	d->doubted.count = 0;
	return d->error = result;
}
