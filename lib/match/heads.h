/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the heads of unexpected messages are kept (LHS-6; IPSJ 2007, section 3.2.3): in the LHS
 * ring, where they landed, as long as the ring has entries to spare. Otherwise the oldest are moved
 * to a store, which grows as needed, up to a bound. Bulk data never moves. Used by one thread, the
 * ring's reader.
 *
 * Design notes
 * 1. Entries are given back to the writer in order. An entry that was taken out of order is marked,
 *    and given back once all before it have been.
 * 2. Messages wait in the index in the order of the ring, so those whose heads are still in the
 *    ring come after those in the store, and making room continues in the index where it stopped
 *    last.
 */
#ifndef PMX_MATCH_HEADS_H
#define PMX_MATCH_HEADS_H

#include "core/lhs/lhs.h"
#include "match/match.h"

#define MATCH_STORED 0x80000000u /* in `where`: a place in the store, otherwise one in the ring */

struct match_heads {
	struct lhs_end ring; /* ring.pos: the next entry to take in */
	uint32_t given;      /* entries before this position were given back to the writer */
	uint64_t *done;      /* bitmap by ring place: not needed any more, but not given back yet */
	uint8_t *store;
	uint32_t entry_bytes;
	uint32_t stored, used, max; /* places of the store: in use, ever used, existing */
	uint32_t free;              /* list of used places that are free again, linked through their
				     * first word; MATCH_NONE: empty */
	uint32_t cursor;            /* where making room stopped: note 2 */
	uint64_t renumbered;        /* `renumbered` of the index at that time */
	uint64_t evacuated;         /* heads ever moved to the store */
};

/* Set up. c: configuration of the ring; memory: its entries; max (1..2^31 - 1): places of the
 * store. Returns 0 or -ENOMEM. */
int match_heads_init(struct match_heads *h, const struct lhs_config *c, void *memory, uint32_t max);
void match_heads_free(struct match_heads *h);
/* Begin anew with an empty ring and an empty store. */
void match_heads_clear(struct match_heads *h);

/* Return the next message that landed, or NULL. *where identifies it until match_head_done. */
const struct lhs_entry *match_head_next(struct match_heads *h, uint32_t *where);
static inline const struct lhs_entry *
match_head_at(const struct match_heads *h, uint32_t where)
{
	if (where & MATCH_STORED)
		return (const struct lhs_entry *)(h->store +
			(size_t)(where & ~MATCH_STORED) * h->entry_bytes);
	return lhs_at(&h->ring, where);
}
/* Move a head to the store, if it is not there yet, so that it does not hold up the ring. Returns
 * its new `where`, or MATCH_NONE if the store is full. */
uint32_t match_head_keep(struct match_heads *h, uint32_t where);
/* Copy an entry, of as many bytes as those of the ring, to the store. Returns its `where`, or
 * MATCH_NONE if the store is full. */
uint32_t match_head_add(struct match_heads *h, const struct lhs_entry *e);
/* Return a head in the store, for writing. */
static inline struct lhs_entry *
match_head_kept(struct match_heads *h, uint32_t where)
{
	return (struct lhs_entry *)(h->store + (size_t)(where & ~MATCH_STORED) * h->entry_bytes);
}
/* Take in the next message, the one that match_head_next would return, and be done with it. */
static inline void
match_head_skip(struct match_heads *h)
{
	if (__builtin_expect(h->given == h->ring.pos, 1)) {
		h->given = ++h->ring.pos;
		return;
	}
	uint32_t place = h->ring.pos++ & h->ring.mask;

	h->done[place / 64] |= 1ull << place % 64;
}
/* Give back a head that is not needed any more. */
void match_head_done(struct match_heads *h, uint32_t where);

/* Return how many entries have been taken in and not given back. */
static inline uint32_t
match_heads_held(const struct match_heads *h)
{
	return h->ring.pos - h->given;
}

/* Move the oldest heads of `u` to the store until at most `most` entries are held; `where` in `u`
 * is updated. Returns false if the store is full, or if other entries than those of `u` are
 * held. */
bool match_heads_spare(struct match_heads *h, struct match_unexpected *u, uint32_t most);

#endif
