/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A hash table of FIFOs, one for each key that is in use. Chains are of numbers of the caller, who
 * compares keys. Private to lib/match.
 *
 * Design notes
 * 1. A group is a cache line of 5 chains, whose hashes are compared at once, and how many chains
 *    found it full and went on to the next group (as Folly's F14 counts them). So a search ends at
 *    the first group that none passed by, and a chain that leaves leaves no trace: nothing moves,
 *    nothing is marked.
 * 2. Rejected: one chain after the other, with 4 to 8 compares and branches when three quarters are
 *    taken (17 ns for each message instead of 10 at that load); 15 hashes in a line and their
 *    chains in two others.
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
#define MATCH_GROUP_ROOM 4 /* of which are used before the table doubles */

/* Multiply and fold: every bit of the key counts in every bit of the result. */
static inline uint64_t
match_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)(a ^ MATCH_MULTIPLIER) *
		(b ^ 0xD1342543DE82EF95ull);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Never 0: that is an empty place. */
static inline uint32_t
match_hash(const struct match_key *key)
{
	uint32_t hash = (uint32_t)match_mix(key->tag, (uint64_t)key->comm << 32 | key->source);

	return hash ? hash : 1;
}

/* Empty, over memory of so many groups, aligned to 64. */
static inline void
match_table_clear(struct match_table *t, uint32_t groups)
{
	t->mask = groups - 1;
	memset(t->groups, 0, groups * sizeof(*t->groups));
}

/* A chain: where it stands. */
struct match_where {
	struct match_group *group; /* NULL: none */
	uint32_t i;
};

static inline struct match_group *
match_home(const struct match_table *t, uint32_t hash)
{
	return &t->groups[hash & t->mask];
}

/* Bit i: hash i of the group is that. */
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

/* Is the chain that begins with `head` the key's? */
typedef bool match_is_key(const void *queue, uint32_t head, const struct match_key *key,
	uint32_t class);

/* The key's chain. */
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

/* A chain for a key that has none; both ends are `number`. There is room: the caller counts. */
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
