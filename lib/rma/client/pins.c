/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache of this process (PIN-1 to PIN-5): memory of transfers that is not of
 * pmx_alloc() stays locked in RAM after its use (mlock). All contexts share one cache, behind a
 * spinlock, since munlock undoes the locks of all. Also watches registered memory of that kind, so
 * that the engine does not access it after it was unmapped or moved.
 *
 * Design notes
 * 1. The kernel reports pinned memory that is unmapped, moved or discarded (madvise) by events of a
 *    userfaultfd, which a thread reads. A thread that unmaps memory waits only until its event is
 *    read, not until it is handled. So the reader sets `reading` before it reads, and whoever uses
 *    the cache waits until that is cleared, and first takes the ranges that were found. The engine
 *    does not wait: a pull by another may still reach the memory until the event has been handled.
 * 2. The reader never takes the cache's lock: its holder may allocate, which may unmap memory and
 *    so wait for the reader itself. The ranges go through a ring; when that is full, the whole
 *    cache is invalidated.
 * 3. The pages are registered for write protection, which is never turned on: only the events are
 *    wanted. Mappings that the kernel cannot watch in this way (files), and changes by mprotect,
 *    are not noticed. No other memory is damaged by that: the engine copies by the addresses as
 *    they are mapped at that moment (lib/memory/pieces.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rma/client/rma.h"
#include "client/signals.h"

#define NEWS 1024 /* places for ranges that were found and not taken yet; a power of two */

struct pin_range {
	uint64_t addr, len;
};

struct news {
	struct pin_range at;
	bool moved; /* locked pages may have been moved to there */
};

/* A registered piece of memory that the engine accesses by the kernel, or an adopted one. Changed
 * only under both locks. */
struct watched {
	struct channel_shm *shm; /* NULL: the place is free */
	struct pin_range at;
	uint32_t ref; /* reference that keeps it pinned; PIN_NONE: adopted */
	bool doubted; /* pmx_invalidate() was called for it: invalidate it when the registration
		       * ends */
};

static struct {
	atomic_flag lock;
	struct pin_cache *cache;
	int fd;                      /* the userfaultfd; -1: nothing is watched */
	_Atomic bool reading;        /* the reader may have events that are not in the ring yet */
	_Atomic uint32_t head, tail; /* of the ring: head is changed under the lock, tail by the
				      * reader */
	_Atomic bool overflow;
	struct news news[NEWS];
	atomic_flag watched_lock; /* taken after `lock`; its holder must not allocate or unmap
				   * memory */
	struct watched watched[REGIONS_WATCHED];
} pins = {.lock = ATOMIC_FLAG_INIT, .fd = -1, .watched_lock = ATOMIC_FLAG_INIT};

/* Pause as rte_pause() does, which a build without DPDK does not have. */
static inline void
relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static void
take_lock(atomic_flag *lock)
{
	while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
		relax();
}

static void
leave_lock(atomic_flag *lock)
{
	atomic_flag_clear_explicit(lock, memory_order_release);
}

/* ------------------------------------------------------------------ pinning */

/* munlock() stops at the first page that is not mapped; what is behind it must not stay locked. */
static void
unlock(uint64_t addr, uint64_t len)
{
	if (munlock((void *)(uintptr_t)addr, len) == 0)
		return;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t at = addr; at < addr + len; at += page)
		munlock((void *)(uintptr_t)at, page);
}

/* Have the kernel report changes of that memory from now on. false: it does not, as for files:
 * note 3. */
static bool
watch_memory(uint64_t addr, uint64_t len)
{
	struct uffdio_register watch = {.range = {addr, len}, .mode = UFFDIO_REGISTER_MODE_WP};

	return pins.fd >= 0 && ioctl(pins.fd, UFFDIO_REGISTER, &watch) == 0;
}

static void
unpin(void *arg, uint64_t addr, uint64_t len)
{
	struct uffdio_range watch = {addr, len};

	(void)arg;
	unlock(addr, len);
	STEP();
	if (pins.fd >= 0)
		ioctl(pins.fd, UFFDIO_UNREGISTER, &watch);
}

static int
pin(void *arg, uint64_t addr, uint64_t len)
{
	unsigned char *resident;

	STEP();
	/* watched before it is locked, so that no change after the lock is missed; and again for
	 * what was mapped between the two */
	watch_memory(addr, len);
	if (mlock((void *)(uintptr_t)addr, len) != 0) {
		int error = errno;

		/* what is before the first page that is not mapped has been locked */
		unpin(arg, addr, len);
		/* is no memory mapped there, or is the limit of locked memory reached? */
		resident = error == ENOMEM ? malloc(len / 4096 + 1) : NULL;
		if (resident != NULL && mincore((void *)(uintptr_t)addr, len, resident) != 0)
			error = EFAULT;
		free(resident);
		return -error;
	}
	watch_memory(addr, len);
	return 0;
}

/* ------------------------------------------------------------------ events of the kernel */

/* Revoke what was registered or adopted of that memory. */
static void
revoke_range(uint64_t addr, uint64_t len)
{
	take_lock(&pins.watched_lock);
	for (uint32_t i = 0; i < REGIONS_WATCHED; i++) {
		const struct watched *w = &pins.watched[i];

		if (w->shm != NULL && addr < w->at.addr + w->at.len && w->at.addr < addr + len)
			atomic_store_explicit(&w->shm->revoked[i], 1, memory_order_relaxed);
	}
	leave_lock(&pins.watched_lock);
}

static void
put_news(uint64_t addr, uint64_t len, bool moved)
{
	uint32_t tail = atomic_load_explicit(&pins.tail, memory_order_relaxed);

	revoke_range(addr, len);
	if (tail - atomic_load_explicit(&pins.head, memory_order_acquire) == NEWS) {
		atomic_store_explicit(&pins.overflow, true, memory_order_release);
		return;
	}
	pins.news[tail % NEWS] = (struct news){{addr, len}, moved};
	atomic_store_explicit(&pins.tail, tail + 1, memory_order_release);
}

static void
understand(const struct uffd_msg *m)
{
	if (m->event == UFFD_EVENT_UNMAP || m->event == UFFD_EVENT_REMOVE) {
		put_news(m->arg.remove.start, m->arg.remove.end - m->arg.remove.start, false);
	} else if (m->event == UFFD_EVENT_REMAP) {
		put_news(m->arg.remap.from, m->arg.remap.len, false);
		put_news(m->arg.remap.to, m->arg.remap.len, true);
	}
}

static void *
rma_pins_watch(void *arg)
{
	struct pollfd p = {.fd = pins.fd, .events = POLLIN};
	struct uffd_msg m[16];
	ssize_t n;

	(void)arg;
	for (;;) {
		if (poll(&p, 1, -1) < 0)
			continue;
		/* full fence: must be visible before the read lets an unmapping thread go on; pairs
		 * with the load in rma_pins_settle() */
		atomic_store(&pins.reading, true);
		while ((n = read(p.fd, m, sizeof(m))) > 0) {
			for (size_t i = 0; i < (size_t)n / sizeof(m[0]); i++)
				understand(&m[i]);
		}
		atomic_store(&pins.reading, false);
	}
	return NULL;
}

/* Bring the cache up to date with all that happened before this call. The caller holds the lock. */
static void
rma_pins_settle(void)
{
	while (unlikely(atomic_load(&pins.reading)))
		relax();
	uint32_t head = atomic_load_explicit(&pins.head, memory_order_relaxed);

	while (unlikely(head != atomic_load_explicit(&pins.tail, memory_order_acquire))) {
		struct news n = pins.news[head % NEWS];

		pin_cache_invalidate(pins.cache, n.at.addr, n.at.len, false);
		if (n.moved)
			unlock(n.at.addr, n.at.len);
		atomic_store_explicit(&pins.head, ++head, memory_order_release);
	}
	if (unlikely(atomic_exchange(&pins.overflow, false)))
		pin_cache_invalidate(pins.cache, 0, UINT64_MAX & ~(uint64_t)0xFFF, false);
}

static void
begin_watch(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
			UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	/* without privileges only this mode is allowed; faults of the kernel are not needed */
	if (fd < 0 && errno == EPERM)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	pthread_t thread;

	if (fd < 0)
		return; /* not supported by this kernel */
	if (ioctl(fd, UFFDIO_API, &api) != 0) {
		close(fd);
		return;
	}
	pins.fd = fd;
	sigset_t before = signals_block();

	if (pthread_create(&thread, NULL, rma_pins_watch, NULL) == 0) {
		pthread_setname_np(thread, "pmx-pins");
		pthread_detach(thread);
	} else {
		close(fd);
		pins.fd = -1;
	}
	signals_restore(before);
}

/* Forget all pins and watches in a child of fork(): nothing is locked or watched there, and the
 * contexts are the parent's. */
static void
forget_all(void)
{
	pins.cache = NULL;
	memset(pins.watched, 0, sizeof(pins.watched));
	if (pins.fd >= 0)
		close(pins.fd);
	pins.fd = -1;
	atomic_store(&pins.reading, false);
	atomic_flag_clear(&pins.lock);
	atomic_flag_clear(&pins.watched_lock);
}

static void
pins_begin(const struct channel_shm *shm)
{
	static bool registered;
	const struct pin_cache_config config = {
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.bytes_max = shm->pin_bytes,
		.merge_bytes = shm->pin_bytes / 8,
		.entries_max = shm->pin_entries,
		.off = !shm->pin_cache,
		.ops = {pin, unpin, NULL},
	};

	if (!registered)
		registered = pthread_atfork(NULL, NULL, forget_all) == 0;
	if (shm->pin_watch)
		begin_watch();
	pins.cache = pin_cache_new(&config);
}

/* ---------------------------------------------------------------- for the library's other files */

int
pins_get(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t *ref)
{
	struct pin_counters *c = &ctx->shm->pins;
	static struct pin_cache_stat before;
	struct pin_cache_stat after;
	int result = -ENOMEM;

	take_lock(&pins.lock);
	if (unlikely(pins.cache == NULL))
		pins_begin(ctx->shm);
	if (likely(pins.cache != NULL)) {
		rma_pins_settle();
		result = pin_cache_get(pins.cache, (uintptr_t)addr, len, ref);
		pin_cache_stat(pins.cache, &after);
		c->hits += after.hits - before.hits;
		c->misses += after.misses - before.misses;
		c->evictions += after.evictions - before.evictions;
		c->invalidations = after.invalidations;
		c->pinned_bytes = after.pinned_bytes;
		before = after;
	}
	leave_lock(&pins.lock);
	return result;
}

void
pins_put(uint32_t ref)
{
	take_lock(&pins.lock);
	if (pins.cache != NULL)
		pin_cache_put(pins.cache, ref);
	leave_lock(&pins.lock);
}

void
pins_stat(struct pin_cache_stat *stat)
{
	*stat = (struct pin_cache_stat){0};
	take_lock(&pins.lock);
	if (pins.cache != NULL) {
		rma_pins_settle();
		pin_cache_stat(pins.cache, stat);
	}
	leave_lock(&pins.lock);
}

int
pins_tell(struct pmx_context *ctx, const void *addr, uint64_t len)
{
	take_lock(&pins.lock);
	if (pins.cache == NULL)
		pins_begin(ctx->shm);
	leave_lock(&pins.lock);
	return watch_memory((uintptr_t)addr, len) ? 0 : -EOPNOTSUPP;
}

void
pins_settle(void)
{
	while (unlikely(atomic_load(&pins.reading)))
		relax();
}

/* Pin registered memory anew after an invalidation, since others may rely on that. */
static void
pin_registered(uint64_t addr, uint64_t len)
{
	for (uint32_t i = 0; i < REGIONS_WATCHED; i++) {
		struct watched *w = &pins.watched[i];
		uint32_t ref;

		if (w->shm == NULL || w->ref == PIN_NONE || addr >= w->at.addr + w->at.len ||
			w->at.addr >= addr + len)
			continue;
		w->doubted = true;
		if (pin_cache_get(pins.cache, w->at.addr, w->at.len, &ref) != 0)
			continue; /* it is not mapped any more */
		pin_cache_put(pins.cache, w->ref);
		w->ref = ref;
	}
}

void
pmx_invalidate(const void *addr, uint64_t len)
{
	take_lock(&pins.lock);
	if (pins.cache != NULL) {
		rma_pins_settle();
		pin_cache_invalidate(pins.cache, (uintptr_t)addr, len, false);
		pin_registered((uintptr_t)addr, len);
	}
	leave_lock(&pins.lock);
}

int
pins_watch(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t ref)
{
	int place = -ENOSPC;

	pins_settle(); /* earlier events of these addresses must not revoke it */
	take_lock(&pins.lock);
	take_lock(&pins.watched_lock);
	for (int i = 0; i < REGIONS_WATCHED && place < 0; i++) {
		if (pins.watched[i].shm != NULL)
			continue;
		pins.watched[i] = (struct watched){ctx->shm, {(uintptr_t)addr, len}, ref, false};
		atomic_store_explicit(&ctx->shm->revoked[i], 0, memory_order_relaxed);
		place = i;
	}
	leave_lock(&pins.watched_lock);
	leave_lock(&pins.lock);
	return place;
}

void
pins_unwatch(struct pmx_context *ctx, int place)
{
	struct watched w;

	take_lock(&pins.lock);
	take_lock(&pins.watched_lock);
	w = pins.watched[place];
	if (w.shm == ctx->shm)
		pins.watched[place].shm = NULL;
	leave_lock(&pins.watched_lock);
	if (w.shm == ctx->shm && w.ref != PIN_NONE && pins.cache != NULL) {
		pin_cache_put(pins.cache, w.ref);
		if (w.doubted)
			pin_cache_invalidate(pins.cache, w.at.addr, w.at.len, false);
	}
	leave_lock(&pins.lock);
}
