/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs of shared memory: opening, allocation, locks and barriers.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/params.h"
#include "dsm/dsm.h"

#define ADDRESS   ((void *)0x480000000000)
#define BYTES_MAX (1ull << 38)
#define SLICE_US  2000 /* of waiting, between which other threads can fault */

/* ------------------------------------------------------------------ waiting */

/* Wait for a request that begin_result says was begun. Called with the mutex; let it go in between.
 * Return 0 or the request's error. timeout_us: -1: for ever. */
static int
wait_request(struct pmx_dsm *d, int begin_result, pmx_request r, int64_t timeout_us)
{
	int result = begin_result;

	if (result != 0)
		return result;
	const int64_t deadline = clock_deadline(timeout_us);

	while ((result = pmx_wait(d->ctx, &r, NULL, SLICE_US)) == -ETIMEDOUT) {
		if (clock_left(deadline) == 0)
			return -ETIMEDOUT;
		pthread_mutex_unlock(&d->mutex);
		sched_yield();
		pthread_mutex_lock(&d->mutex);
	}
	return result == 1 ? 0 : result;
}

/* ------------------------------------------------------------------ opening */

/* Add a word to the hash (FNV-1a) of all that this member asked for; all members must agree on
 * it. */
static void
layout_add(struct pmx_dsm *d, uint64_t word)
{
	d->layout = (d->layout ^ word) * 0x100000001B3ull;
}

static uint64_t
round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Reserve the addresses of the shared memory, make this member's own memory, divide it up, and map
 * its pages a second time. Return 0 or a negative errno. */
static int
map_memory(struct pmx_dsm *d, void *address)
{
	const uint64_t log_at = sizeof(struct control_head), wanted_at = log_at + DSM_LOG * 8ull;
	const uint64_t got_at = round_up(wanted_at + d->page_count, 64);
	const uint64_t slice_at = got_at + d->size * sizeof(struct control_head);
	uint8_t *twins;
	int file, result;

	d->pages_at = round_up(slice_at + DSM_LOG * 8ull, d->page_bytes);
	d->area_bytes = d->pages_at + d->bytes;
	d->view = mmap(address, d->bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (d->view == MAP_FAILED)
		return errno == EEXIST ? -EEXIST : -ENOMEM;
	result = pmx_alloc_file(d->ctx, d->area_bytes, (void **)&d->area, &file);
	if (result != 0)
		return result;
	/* over the reserved addresses */
	void *view = mmap(d->view, d->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
		(off_t)d->pages_at);

	close(file);
	twins = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	d->twins = twins == MAP_FAILED ? NULL : twins;
	if (view == MAP_FAILED || twins == MAP_FAILED)
		return -ENOMEM;
	d->head = (struct control_head *)d->area;
	d->log = (uint64_t *)(d->area + log_at);
	d->wanted = (_Atomic uint8_t *)(d->area + wanted_at);
	d->got = (struct control_head *)(d->area + got_at);
	d->slice = (uint64_t *)(d->area + slice_at);
	d->pages = d->area + d->pages_at;
	return 0;
}

static int
make_tables(struct pmx_dsm *d)
{
	struct page_list *lists[] = {&d->dirty, &d->written, &d->told, &d->doubted};

	d->state = calloc(d->page_count, 1);
	d->home = calloc(d->page_count, sizeof(*d->home));
	d->seen = calloc(d->size, sizeof(*d->seen));
	if (d->state == NULL || d->home == NULL || d->seen == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		lists[i]->most = d->page_count * 2;
		lists[i]->pages = calloc(lists[i]->most, sizeof(uint32_t));
		if (lists[i]->pages == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int
enter_barrier(struct pmx_dsm *d, int64_t timeout_us)
{
	pmx_request r;
	int begun;

	while ((begun = pmx_group_barrier(d->group, &r)) == -EAGAIN)
		pmx_sends_pending(d->ctx);
	return wait_request(d, begun, r, timeout_us);
}

/* Check that all members had the same memory at the same place when they entered that barrier.
 * Return 0, or -EPROTO, which is also the memory's error from then on. */
static int
check_layout(struct pmx_dsm *d, unsigned parity)
{
	for (uint32_t r = 0; r < d->size; r++) {
		if (r != d->rank && d->got[r].layout[parity] != d->head->layout[parity])
			return d->error = -EPROTO;
	}
	return 0;
}

static int
meet(struct pmx_dsm *d, int64_t timeout_us)
{
	int result;

	pthread_mutex_lock(&d->mutex);
	const unsigned parity = d->barriers++ % 2;

	result = dsm_release(d);
	d->head->layout[parity] = d->layout;
	result = result == 0 ? enter_barrier(d, timeout_us) : result;
	result = result == 0 ? dsm_acquire(d) : result;
	result = result == 0 ? check_layout(d, parity) : result;
	pthread_mutex_unlock(&d->mutex);
	return result;
}

static void
dsm_free(struct pmx_dsm *d)
{
	dsm_unwatch(d);
	if (d->registered.key != 0)
		pmx_deregister(d->ctx, d->registered.key);
	if (d->view != MAP_FAILED)
		munmap(d->view, d->bytes);
	pmx_free(d->ctx, d->area);
	if (d->twins != NULL)
		munmap(d->twins, d->bytes);
	pthread_mutex_destroy(&d->mutex);
	free(d->dirty.pages);
	free(d->written.pages);
	free(d->told.pages);
	free(d->doubted.pages);
	free(d->seen);
	free(d->home);
	free(d->state);
	free(d);
}

/* Wait for all members before this one leaves: they may still fetch from here what the last
 * synchronisation told them of. It also lets all of them find that they do not have the same
 * memory. */
static void
wait_for_others(struct pmx_dsm *d)
{
	if (d->error == 0 || d->error == -EPROTO)
		enter_barrier(d, -1);
}

int
pmx_dsm_open(struct pmx_group *group, const struct pmx_dsm_params *params, int64_t timeout_us,
	struct pmx_dsm **dsm)
{
	struct pmx_dsm_params p;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct pmx_dsm *d;
	int result = params_read(&p, sizeof(p), params);

	if (result != 0)
		return result;
	if (p.bytes == 0 || p.bytes > BYTES_MAX)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	*d = (struct pmx_dsm){
		.ctx = pmx_group_context(group),
		.group = group,
		.rank = pmx_group_rank(group),
		.size = pmx_group_size(group),
		.key = (uint64_t)pmx_group_id(group) << 32 | DSM_AREA,
		.page_bytes = page,
		.bytes = round_up(p.bytes, page),
		.page_count = (uint32_t)(round_up(p.bytes, page) / page),
	};
	pthread_mutexattr_t checks;

	pthread_mutexattr_init(&checks);
	pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&d->mutex, &checks);
	result = map_memory(d, p.address != NULL ? p.address : ADDRESS);
	result = result == 0 ? make_tables(d) : result;
	result = result == 0 ? pmx_group_area_register(group, DSM_AREA, d->area, d->area_bytes,
				       PMX_REMOTE_READ | PMX_REMOTE_WRITE, &d->registered)
			     : result;
	result = result == 0 ? dsm_watch(d) : result;
	if (result == 0) {
		layout_add(d, d->bytes);
		layout_add(d, (uintptr_t)d->view);
		result = meet(d, timeout_us);
	}
	if (result != 0) {
		if (result == -EPROTO)
			wait_for_others(d);
		dsm_free(d);
		return result;
	}
	*dsm = d;
	return 0;
}

void
pmx_dsm_close(struct pmx_dsm *d)
{
	if (d == NULL)
		return;
	pthread_mutex_lock(&d->mutex);
	wait_for_others(d);
	pthread_mutex_unlock(&d->mutex);
	dsm_free(d);
}

/* ------------------------------------------------------------------ allocation */

static uint16_t
home_of(const struct pmx_dsm *d, int home, uint32_t page, uint32_t count)
{
	if (home == PMX_DSM_CYCLIC)
		return (uint16_t)(page % d->size);
	if (home == PMX_DSM_BLOCKS)
		return (uint16_t)((uint64_t)page * d->size / count);
	return (uint16_t)home;
}

int
pmx_dsm_alloc(struct pmx_dsm *d, uint64_t bytes, int home, void **addr)
{
	const uint32_t first = (uint32_t)(d->allocated / d->page_bytes);
	int result = 0;

	if (bytes == 0 || home < PMX_DSM_CYCLIC || home >= (int)d->size)
		return -EINVAL;
	if (bytes > d->bytes - d->allocated)
		return -ENOSPC;
	const uint32_t count = (uint32_t)(round_up(bytes, d->page_bytes) / d->page_bytes);

	pthread_mutex_lock(&d->mutex);
	for (uint32_t i = 0; i < count; i++) {
		d->home[first + i] = home_of(d, home, i, count);
		d->state[first + i] = d->home[first + i] == d->rank ? PAGE_OWN : PAGE_INVALID;
	}
	for (uint32_t i = 0, n; i < count && result == 0; i += n) {
		for (n = 1; i + n < count && d->home[first + i + n] == d->home[first + i];)
			n++;
		if (d->state[first + i] == PAGE_OWN &&
			mprotect(d->view + (first + i) * d->page_bytes, n * d->page_bytes,
				PROT_READ | PROT_WRITE) != 0)
			result = -errno;
	}
	if (result == 0) {
		layout_add(d, count);
		layout_add(d, (uint64_t)(int64_t)home);
		d->allocated += count * d->page_bytes;
		*addr = d->view + first * d->page_bytes;
	}
	pthread_mutex_unlock(&d->mutex);
	return result;
}

/* ------------------------------------------------------------------ synchronising */

int
pmx_dsm_barrier(struct pmx_dsm *d)
{
	return meet(d, -1);
}

int
pmx_dsm_lock(struct pmx_dsm *d, uint32_t lock, unsigned flags)
{
	pmx_request r;
	int result;

	pthread_mutex_lock(&d->mutex);
	while ((result = d->error != 0 ? d->error : pmx_group_lock(d->group, lock, flags, &r)) ==
		-EAGAIN)
		pmx_sends_pending(d->ctx);
	result = wait_request(d, result, r, -1);
	if (result == 0 || result == -EOWNERDEAD)
		result = dsm_acquire(d);
	pthread_mutex_unlock(&d->mutex);
	return result;
}

int
pmx_dsm_unlock(struct pmx_dsm *d, uint32_t lock)
{
	int result, unlocked;

	pthread_mutex_lock(&d->mutex);
	result = dsm_release(d);
	while ((unlocked = pmx_group_unlock(d->group, lock)) == -EAGAIN)
		pmx_sends_pending(d->ctx);
	pthread_mutex_unlock(&d->mutex);
	return result != 0 ? result : unlocked;
}

int
pmx_dsm_fetch(struct pmx_dsm *d, const void *addr, uint64_t bytes, bool writes)
{
	const uint64_t at = (uint64_t)((const uint8_t *)addr - d->view);
	int result = 0;

	if ((const uint8_t *)addr < d->view || at > d->allocated || bytes > d->allocated - at)
		return -EINVAL;
	if (bytes == 0)
		return 0;
	const uint32_t first = (uint32_t)(at / d->page_bytes);

	pthread_mutex_lock(&d->mutex);
	result = dsm_access(d, first, (uint32_t)((at + bytes - 1) / d->page_bytes) - first + 1,
		writes);
	pthread_mutex_unlock(&d->mutex);
	return result;
}

void
pmx_dsm_read_stat(const struct pmx_dsm *d, struct pmx_dsm_stat *stat)
{
	*stat = d->stat;
}
