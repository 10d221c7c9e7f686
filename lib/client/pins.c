/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache of this process (PIN-1 to PIN-5): memory that transfers use and pmx_alloc did not give
 * stays locked in RAM after its use (mlock). One for all contexts, since what one of them unlocks is unlocked
 * for all; behind a spinlock.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

static struct {
	atomic_flag lock;
	struct pin_cache *cache;
} pins = {ATOMIC_FLAG_INIT, NULL};

static void
take_lock(void)
{
	while (atomic_flag_test_and_set_explicit(&pins.lock, memory_order_acquire))
		__builtin_ia32_pause();
}

static void
leave_lock(void)
{
	atomic_flag_clear_explicit(&pins.lock, memory_order_release);
}

static int
lock_pages(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	return mlock((void *)(uintptr_t)addr, len) == 0 ? 0 : -errno;
}

static void
unlock_pages(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	munlock((void *)(uintptr_t)addr, len);
}

static struct pin_cache *
make_cache(const struct channel_shm *shm)
{
	const struct pin_cache_config config = {
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.bytes_max = shm->pin_bytes,
		.merge_bytes = shm->pin_bytes / 8,
		.entries_max = shm->pin_entries,
		.off = !shm->pin_cache,
		.ops = {lock_pages, unlock_pages, NULL},
	};

	return pin_cache_new(&config);
}

int
pins_get(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t *ref)
{
	struct pin_cache_stat before, after;
	int result = -ENOMEM;

	take_lock();
	if (pins.cache == NULL)
		pins.cache = make_cache(ctx->shm);
	if (pins.cache != NULL) {
		pin_cache_stat(pins.cache, &before);
		result = pin_cache_get(pins.cache, (uintptr_t)addr, len, ref);
		pin_cache_stat(pins.cache, &after);
		struct pin_counters *c = &ctx->shm->pins;

		c->hits += after.hits - before.hits;
		c->misses += after.misses - before.misses;
		c->evictions += after.evictions - before.evictions;
		c->invalidations = after.invalidations;
		c->pinned_bytes = after.pinned_bytes;
	}
	leave_lock();
	return result;
}

void
pmx_invalidate(const void *addr, uint64_t len)
{
	take_lock();
	if (pins.cache != NULL)
		pin_cache_invalidate(pins.cache, (uintptr_t)addr, len, false);
	leave_lock();
}

void
pins_put(uint32_t ref)
{
	take_lock();
	pin_cache_put(pins.cache, ref);
	leave_lock();
}
