/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A hash table of FIFOs, one for each key that is in use: open addressing, linear probing, and no traces of what left.
 * Chains are of numbers of the caller, who compares keys. Private to lib/match.
 */
#ifndef PMX_MATCH_CHAINS_H
#define PMX_MATCH_CHAINS_H

#include <string.h>

#include "match/match.h"

#define MATCH_MULTIPLIER 0x9E3779B97F4A7C15ull

/* Multiply and fold: every bit of the key counts in every bit of the result. */
static inline uint64_t
match_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product =
		(unsigned __int128)(a ^ MATCH_MULTIPLIER) * (b ^ 0xD1342543DE82EF95ull);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t
match_hash(const struct match_key *key)
{
	return (uint32_t)match_mix(key->tag, (uint64_t)key->comm << 32 | key->source);
}

static inline void
match_table_clear(struct match_table *t)
{
	memset(t->slots, 0xFF, ((size_t)t->mask + 1) * sizeof(*t->slots)); /* head = MATCH_NONE */
}

/* The slot where a chain of that hash begins or would be put: the caller goes on with next_slot until his key, or an
 * empty one. */
static inline struct match_chain *
first_slot(const struct match_table *t, uint32_t hash)
{
	return &t->slots[hash & t->mask];
}

static inline struct match_chain *
next_slot(const struct match_table *t, const struct match_chain *slot)
{
	return &t->slots[((uint32_t)(slot - t->slots) + 1) & t->mask];
}

/* Empty the slot; those behind it that were put off come nearer to where they belong. */
static inline void
match_table_remove(struct match_table *t, struct match_chain *slot)
{
	uint32_t hole = (uint32_t)(slot - t->slots), at = hole;

	for (;;) {
		at = (at + 1) & t->mask;
		const struct match_chain *s = &t->slots[at];

		if (s->head == MATCH_NONE)
			break;
		/* may it move to the hole? Only if it does not come before its own place */
		if (((at - s->hash) & t->mask) < ((at - hole) & t->mask))
			continue;
		t->slots[hole] = *s;
		hole = at;
	}
	t->slots[hole].head = MATCH_NONE;
}

#endif
