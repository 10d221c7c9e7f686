/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A hash table of FIFOs ("chains"), one for each key in use. Their elements are numbers of the
 * caller, who links them and compares keys. Private to lib/match.
 *
 * Design notes
 * 1. A group is a cache line with 5 chains, whose hashes are compared at once, and a count of the
 *    chains that found the group full and went on to the next one (as in Folly's F14). So a search
 *    ends at the first group that no chain passed by, and removing a chain needs no tombstone and
 *    moves nothing.
 * 2. Rejected: linear probing of single chains, with 4 to 8 comparisons and branches when three
 *    quarters are in use (17 ns per message instead of 10 at that load); 15 hashes in one cache
 *    line and their chains in two others.
 */
#ifndef PMX_MATCH_CHAINS_H
#define PMX_MATCH_CHAINS_H

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "match/match.h"

#define MATCH_MULTIPLIER 0x9E3779B97F4A7C15ull
#define MATCH_GROUP      5 /* chains */
#define MATCH_GROUP_ROOM 4 /* average chains of a group at which the table doubles */

/* Multiply and fold: every bit of the key affects every bit of the result. */
static inline uint64_t
match_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)(a ^ MATCH_MULTIPLIER) *
		(b ^ 0xD1342543DE82EF95ull);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Return the hash of a key: never 0, which marks an empty place. */
static inline uint32_t
match_hash(const struct match_key *key)
{
	uint32_t hash = (uint32_t)match_mix(key->tag, (uint64_t)key->comm << 32 | key->source);

	return hash ? hash : 1;
}

/* Make the table empty, with so many groups, whose memory is aligned to 64. */
static inline void
match_table_clear(struct match_table *t, uint32_t groups)
{
	t->mask = groups - 1;
	memset(t->groups, 0, groups * sizeof(*t->groups));
}

/* The position of a chain in the table. */
struct match_where {
	struct match_group *group; /* NULL: none */
	uint32_t i;
};

static inline struct match_group *
match_home(const struct match_table *t, uint32_t hash)
{
	return &t->groups[hash & t->mask];
}

/* Return a mask whose bit i says whether hash i of the group is equal. */
static inline uint32_t
match_equal(const struct match_group *g, uint32_t hash)
{
	uint32_t bits = (uint32_t)(g->hash[4] == hash) << 4;
#ifdef __SSE2__
	__m128i equal = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)g->hash),
		_mm_set1_epi32((int)hash));

	bits |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(equal));
#else
	for (unsigned i = 0; i < 4; i++)
		bits |= (uint32_t)(g->hash[i] == hash) << i;
#endif
	return bits;
}

/* Does the chain that begins with `head` belong to the key? */
typedef bool match_is_key(const void *queue, uint32_t head, const struct match_key *key,
	uint32_t class);

/* Return the key's chain; group is NULL if there is none. */
static inline __attribute__((always_inline)) struct match_where
match_chain_find(const struct match_table *t, uint32_t hash, match_is_key *is_key,
	const void *queue, const struct match_key *key, uint32_t class)
{
	for (uint32_t at = hash & t->mask;; at = (at + 1) & t->mask) {
		struct match_group *g = &t->groups[at];

		for (uint32_t hits = match_equal(g, hash); hits != 0; hits &= hits - 1) {
			uint32_t i = (uint32_t)__builtin_ctz(hits);

			if (is_key(queue, g->head[i], key, class))
				return (struct match_where){g, i};
		}
		if (g->passed == 0)
			return (struct match_where){NULL, 0};
	}
}

/* Make a chain for a key that has none, with `number` as its only element. The caller makes sure
 * that there is room. */
static inline void
match_chain_new(struct match_table *t, uint32_t hash, uint32_t number)
{
	uint32_t at = hash & t->mask, empty;

	while ((empty = match_equal(&t->groups[at], 0)) == 0) {
		t->groups[at].passed++;
		at = (at + 1) & t->mask;
	}
	struct match_group *g = &t->groups[at];
	uint32_t i = (uint32_t)__builtin_ctz(empty);

	g->hash[i] = hash;
	g->head[i] = g->tail[i] = number;
}

static inline void
match_chain_remove(struct match_table *t, struct match_where chain)
{
	uint32_t *hash = &chain.group->hash[chain.i];

	for (struct match_group *g = match_home(t, *hash); g != chain.group;
		g = g == &t->groups[t->mask] ? t->groups : g + 1)
		g->passed--;
	*hash = 0;
}

#endif
