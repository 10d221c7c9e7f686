/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the heads of unexpected messages lie (LHS-6; IPSJ 2007, section 3.2.3): in the LHS ring,
 * where they landed, as long as the ring has entries to spare; otherwise the oldest move to a
 * store, which grows with what it holds, up to a bound. Bulk data never moves. One thread, the
 * ring's reader.
 *
 * Design notes
 * 1. Entries go back to the writer in order. One that was taken from the middle is marked, and goes
 *    back when all before it have.
 * 2. Messages wait in the index in the order of the ring, so those that still lie in the ring are
 *    behind those in the store: who makes room goes on in the index where it stopped.
 */
#ifndef PMX_MATCH_HEADS_H
#define PMX_MATCH_HEADS_H

#include "lhs/lhs.h"
#include "match/match.h"

#define MATCH_STORED 0x80000000u /* in `where`: a place of the store, otherwise of the ring */

struct match_heads {
	struct lhs_end ring; /* ring.pos: the next entry to take in */
	uint32_t given;      /* entries before this position are the writer's again */
	uint64_t *done;      /* by ring place: not needed any more, and not given yet */
	uint8_t *store;
	uint32_t entry_bytes;
	uint32_t stored, used, max; /* places of the store that hold one, that ever did, that there
				     * are */
	uint32_t free;              /* of those used: a list through their first word; MATCH_NONE:
				     * none */
	uint32_t cursor;            /* note 2 */
	uint64_t renumbered;        /* the index's then */
	uint64_t evacuated;         /* heads that moved, ever */
};

/* c: the ring's; memory: its entries; max (1..2^31 - 1): places of the store. 0, or -ENOMEM. */
int match_heads_init(struct match_heads *h, const struct lhs_config *c, void *memory, uint32_t max);
void match_heads_free(struct match_heads *h);
/* The ring begins anew, and nothing is stored. */
void match_heads_clear(struct match_heads *h);

/* The next message that landed, or NULL; *where is its own from now on, until match_head_done. */
const struct lhs_entry *match_head_next(struct match_heads *h, uint32_t *where);
static inline const struct lhs_entry *
match_head_at(const struct match_heads *h, uint32_t where)
{
	if (where & MATCH_STORED)
		return (const struct lhs_entry *)(h->store +
			(size_t)(where & ~MATCH_STORED) * h->entry_bytes);
	return lhs_at(&h->ring, where);
}
/* It moves to the store, if it is not there, so that it holds up nobody: its `where` from now on;
 * MATCH_NONE: the store is full. */
uint32_t match_head_keep(struct match_heads *h, uint32_t where);
/* One that is kept, to be written. */
static inline struct lhs_entry *
match_head_kept(struct match_heads *h, uint32_t where)
{
	return (struct lhs_entry *)(h->store + (size_t)(where & ~MATCH_STORED) * h->entry_bytes);
}
/* The next one, which match_head_next would give, is taken in and needed no more. */
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
/* It is needed no more. */
void match_head_done(struct match_heads *h, uint32_t where);

/* Entries that the writer does not have. */
static inline uint32_t
match_heads_held(const struct match_heads *h)
{
	return h->ring.pos - h->given;
}

/* Move the oldest of u's heads until at most `most` entries are held; u's `where` follow. false:
 * the store is full, or what is held is not u's. */
bool match_heads_spare(struct match_heads *h, struct match_unexpected *u, uint32_t most);

#endif
