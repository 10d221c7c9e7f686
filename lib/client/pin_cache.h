/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache (SWoPP 1997, section 4:
 * "ピンダウンキャッシュを用いたユーザレベルゼロコピー通信"): what was pinned stays pinned after its
 * use, so that the next use of the same memory costs a lookup and no system call. How memory is
 * pinned is the caller's (struct pin_ops). One thread at a time, or the caller's lock; allocates,
 * so not for an engine's loop.
 *
 * Rules: PIN-1, memory inside a pinned entry is a hit. PIN-2, for want of room the entry that was
 * used least recently and is not in use goes. PIN-3, putting back only marks. PIN-4, invalidation:
 * memory that was unmapped or moved is never found again, even while in use.
 *
 * Design notes
 * 1. Entries are ranges of whole pages that do not overlap, sorted by address: a lookup is a binary
 *    search over 8-byte numbers. A miss pins only the pages that no entry has, and becomes one
 *    entry with all that it overlaps, and with what it touches as long as the result is no larger
 *    than merge_bytes.
 * 2. A reference names the slot that was current when it was given. When an entry in use is merged,
 *    its slot stays and leads to the new one; when it is invalidated, its slot stays and holds what
 *    is left of it. So references never need to be told.
 */
#ifndef PMX_PIN_CACHE_H
#define PMX_PIN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define PIN_NONE UINT32_MAX

struct pin_cache;

/* Called with whole pages, each of which is pinned at most once at a time. */
struct pin_ops {
	/* 0; or a negative errno, and nothing is pinned. -ENOMEM, -EAGAIN: a limit; another entry
	 * is given up and it is tried again. */
	int (*pin)(void *arg, uint64_t addr, uint64_t len);
	void (*unpin)(void *arg, uint64_t addr, uint64_t len);
	void *arg;
};

struct pin_cache_config {
	uint64_t page_bytes;  /* a power of two */
	uint64_t bytes_max;   /* pinned, in use or not */
	uint64_t merge_bytes; /* note 1 */
	uint32_t entries_max; /* 1.. */
	bool off;             /* pin and unpin each time: for comparison, and for those who must */
	struct pin_ops ops;
};

struct pin_cache_stat {
	uint64_t hits, misses, evictions;
	uint64_t invalidations; /* entries that were touched by one */
	uint64_t refusals;      /* for want of room, all of it in use */
	uint64_t pinned_bytes;
	uint32_t entries;
	uint32_t in_use; /* references given and not put back */
};

/* NULL: no memory, or a configuration outside its ranges. */
struct pin_cache *pin_cache_new(const struct pin_cache_config *config);
/* Unpins all; nothing may be in use. NULL is ignored. */
void pin_cache_free(struct pin_cache *c);

/* Pin [addr, addr + len), len at least 1. 0 with a reference in *ref, to be put back once; -ENOMEM:
 * the limits are reached by what is in use; -EFAULT: the range wraps; or what ops.pin said. */
int pin_cache_get(struct pin_cache *c, uint64_t addr, uint64_t len, uint32_t *ref);
void pin_cache_put(struct pin_cache *c, uint32_t ref);

/* [addr, addr + len), whole pages of it, is no longer what was pinned: not found again. gone: the
 * kernel unpinned it already (munmap); otherwise it is unpinned here, at once, even if in use. */
void pin_cache_invalidate(struct pin_cache *c, uint64_t addr, uint64_t len, bool gone);
/* Unpin all that is not in use. */
void pin_cache_flush(struct pin_cache *c);

void pin_cache_stat(const struct pin_cache *c, struct pin_cache_stat *out);

#endif
