/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache (SWoPP 1997, section 4:
 * "ピンダウンキャッシュを用いたユーザレベルゼロコピー通信"): memory stays pinned after its use, so
 * that the next use of it costs a lookup and no system call. The caller provides the functions that
 * pin (struct pin_ops). Used by one thread at a time, or under the caller's lock. It allocates, so
 * it is not for an engine's loop.
 *
 * Rules: PIN-1, memory inside a pinned entry is a hit. PIN-2, if room is needed, the least recently
 * used entry that is not in use is evicted. PIN-3, putting back a reference does not unpin. PIN-4,
 * invalidation: memory that was unmapped or moved is never found again, even while in use.
 *
 * Design notes
 * 1. Entries are ranges of whole pages that do not overlap, sorted by address: a lookup is a binary
 *    search over 8-byte numbers. A miss pins only the pages that no entry has. It becomes one entry
 *    with all entries that it overlaps, and with adjacent ones as long as the result is no larger
 *    than merge_bytes.
 * 2. A reference is the number of the slot that was current when it was given. When an entry in use
 *    is merged, its slot stays and points to the new one; when it is invalidated, its slot stays
 *    and holds what is left of it. So references never have to be updated.
 */
#ifndef PMX_PIN_CACHE_H
#define PMX_PIN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define PIN_NONE UINT32_MAX

struct pin_cache;

/* Called with whole pages, each of which is pinned at most once at a time. */
struct pin_ops {
	/* 0; or a negative errno, and nothing is pinned. After -ENOMEM or -EAGAIN, a limit, another
	 * entry is evicted and it is called again. */
	int (*pin)(void *arg, uint64_t addr, uint64_t len);
	void (*unpin)(void *arg, uint64_t addr, uint64_t len);
	void *arg;
};

struct pin_cache_config {
	uint64_t page_bytes;  /* a power of two */
	uint64_t bytes_max;   /* limit of pinned bytes, in use or not */
	uint64_t merge_bytes; /* note 1 */
	uint32_t entries_max; /* 1.. */
	bool off;             /* no cache: pin and unpin each time */
	struct pin_ops ops;
};

struct pin_cache_stat {
	uint64_t hits, misses, evictions;
	uint64_t invalidations; /* entries that an invalidation touched */
	uint64_t refusals;      /* failures because all room was in use */
	uint64_t pinned_bytes;
	uint32_t entries;
	uint32_t in_use; /* references that were not put back */
};

/* Make a cache. Return NULL if there is no memory, or the configuration is out of range. */
struct pin_cache *pin_cache_new(const struct pin_cache_config *config);
/* Unpin everything and free the cache; nothing may be in use. NULL is ignored. */
void pin_cache_free(struct pin_cache *c);

/* Pin [addr, addr + len), len at least 1. Return 0 with a reference in *ref, to be put back once;
 * -ENOMEM if what is in use reaches the limits, or without memory; -EFAULT if the range wraps; or
 * the error of ops.pin. */
int pin_cache_get(struct pin_cache *c, uint64_t addr, uint64_t len, uint32_t *ref);
void pin_cache_put(struct pin_cache *c, uint32_t ref);

/* Forget all pages of [addr, addr + len), which are no longer what was pinned: they are not found
 * again. gone: the kernel has unpinned them already (munmap); otherwise they are unpinned here, at
 * once, even if in use. */
void pin_cache_invalidate(struct pin_cache *c, uint64_t addr, uint64_t len, bool gone);
/* Unpin everything that is not in use. */
void pin_cache_flush(struct pin_cache *c);

void pin_cache_stat(const struct pin_cache *c, struct pin_cache_stat *out);

#endif
