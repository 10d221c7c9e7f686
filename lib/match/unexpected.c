/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unexpected messages, in order of arrival; see match.h, notes 1 to 4. Owner thread only.
 */
#include <errno.h>
#include <sys/mman.h>

#include "match/chains.h"
#include "match/scan.h"

#define GROUPS_MIN 256
#define ALIGNMENT  64
#define BURST      32

/* ------------------------------------------------------------------ keys and fingerprints */

static inline uint16_t
fingerprint(uint64_t hash)
{
	uint16_t f = (uint16_t)(hash >> 48);

	return f ? f : 1; /* 0 is a hole */
}

static inline uint16_t
without_source(uint32_t comm, uint64_t tag)
{
	return fingerprint(match_mix(tag, comm));
}

static inline uint16_t
without_tag(uint32_t comm, uint32_t source)
{
	return fingerprint(((uint64_t)comm << 32 | source) * MATCH_MULTIPLIER ^ comm);
}

static inline uint16_t
without_both(uint32_t comm)
{
	return fingerprint((comm + 1ull) * MATCH_MULTIPLIER);
}

static inline struct match_key
key_at(const struct match_unexpected *u, uint32_t place)
{
	return (struct match_key){u->places[place].comm, u->places[place].source, u->tag[place]};
}

static inline bool
is_key(const void *queue, uint32_t place, const struct match_key *key, uint32_t class)
{
	const struct match_unexpected *u = queue;
	const struct match_place *p = &u->places[place];

	(void)class;
	return u->tag[place] == key->tag && p->source == key->source && p->comm == key->comm;
}

static inline struct match_where
chain_of(const struct match_unexpected *u, const struct match_key *key, uint32_t hash)
{
	return match_chain_find(&u->table, hash, is_key, u, key, 0);
}

/* Append a place, whose `next` is MATCH_NONE, to the chain of its key. */
static inline void
append(struct match_unexpected *u, const struct match_key *key, uint32_t hash, uint32_t place)
{
	struct match_where chain = chain_of(u, key, hash);

	if (__builtin_expect(chain.group == NULL, 1)) {
		match_chain_new(&u->table, hash, place);
	} else {
		u->places[chain.group->tail[chain.i]].next = place;
		chain.group->tail[chain.i] = place;
	}
}

/* ------------------------------------------------------------------ memory */

static uint32_t
room_of(uint32_t groups)
{
	return groups * MATCH_GROUP_ROOM;
}

/* Take an array from the block at `base`; base NULL: only compute the size. */
static void *
array(uint8_t *base, size_t *at, size_t elements, size_t bytes)
{
	void *a = base != NULL ? base + *at : NULL;

	*at += (elements * bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return a;
}

static size_t
unexpected_lay_out(struct match_unexpected *u, uint8_t *base, uint32_t groups_max)
{
	size_t at = 0, places = (size_t)room_of(groups_max) + SCAN_SLACK;

	u->without_source = array(base, &at, places, sizeof(*u->without_source));
	u->without_tag = array(base, &at, places, sizeof(*u->without_tag));
	u->without_both = array(base, &at, places, sizeof(*u->without_both));
	u->tag = array(base, &at, places, sizeof(*u->tag));
	u->places = array(base, &at, places, sizeof(*u->places));
	u->table.groups = array(base, &at, groups_max, sizeof(*u->table.groups));
	return at;
}

int
match_unexpected_init(struct match_unexpected *u, uint32_t max, unsigned simd_bits)
{
	uint32_t groups = GROUPS_MIN;

	if (max == 0 || max > 1u << 27)
		return -ENOMEM;
	/* room for all that may wait and as many holes, so at least `max` messages are added before
	 * each move (note 3) */
	while (room_of(groups) < 2 * max)
		groups *= 2;
	*u = (struct match_unexpected){.max = max, .scan = match_scan_for(simd_bits)};
	u->bytes = unexpected_lay_out(u, NULL, groups);
	u->memory = mmap(NULL, u->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (u->memory == MAP_FAILED) {
		u->memory = NULL;
		return -ENOMEM;
	}
	unexpected_lay_out(u, u->memory, groups);
	u->room = room_of(GROUPS_MIN);
	match_table_clear(&u->table, GROUPS_MIN);
	return 0;
}

void
match_unexpected_clear(struct match_unexpected *u)
{
	if (u->end != 0 || u->room != room_of(GROUPS_MIN))
		match_table_clear(&u->table, GROUPS_MIN);
	u->room = room_of(GROUPS_MIN);
	u->live = u->first = u->end = 0;
	u->renumbered++;
}

void
match_unexpected_free(struct match_unexpected *u)
{
	if (u->memory != NULL)
		munmap(u->memory, u->bytes);
	u->memory = NULL;
}

/* Move a message from one place to another that is not behind it. */
static inline void
move(struct match_unexpected *u, uint32_t from, uint32_t to)
{
	u->without_source[to] = u->without_source[from];
	u->without_tag[to] = u->without_tag[from];
	u->without_both[to] = u->without_both[from];
	u->tag[to] = u->tag[from];
	u->places[to] = u->places[from];
}

/* Make room by compacting or doubling the arrays: note 3. */
static __attribute__((noinline, cold)) void
make_room(struct match_unexpected *u)
{
	uint32_t to = 0;

	uint32_t groups = u->table.mask + 1;

	if (u->live > u->room / 2)
		groups *= 2;
	u->room = room_of(groups);
	match_table_clear(&u->table, groups);
	for (uint32_t from = u->first; from < u->end; from++) {
		if (u->without_both[from] == 0)
			continue;
		move(u, from, to);
		u->places[to].next = MATCH_NONE;
		const struct match_key key = key_at(u, to);

		append(u, &key, match_hash(&key), to++);
	}
	u->moves += to;
	u->renumbered++;
	u->first = 0;
	u->end = to;
}

/* ------------------------------------------------------------------ in, found, out */

/* Add n <= BURST messages, for which there is room. */
static inline void
add_some(struct match_unexpected *u, const struct match_key *keys, const uint32_t *where,
	uint32_t n)
{
	uint32_t hash[BURST], place = u->end;

	for (uint32_t i = 0; i < n; i++) {
		hash[i] = match_hash(&keys[i]);
		__builtin_prefetch(match_home(&u->table, hash[i]), 1);
	}
	for (uint32_t i = 0; i < n; i++, place++) {
		const struct match_key *key = &keys[i];

		u->without_source[place] = without_source(key->comm, key->tag);
		u->without_tag[place] = without_tag(key->comm, key->source);
		u->without_both[place] = without_both(key->comm);
		u->tag[place] = key->tag;
		u->places[place] = (struct match_place){key->source, key->comm, MATCH_NONE,
			where[i]};
		append(u, key, hash[i], place);
	}
	u->end = place;
	u->live += n;
}

uint32_t
match_unexpected_add(struct match_unexpected *u, const struct match_key *keys,
	const uint32_t *where, uint32_t n)
{
	uint32_t done = 0;

	while (done < n && u->live < u->max) {
		uint32_t some = n - done < BURST ? n - done : BURST;

		if (__builtin_expect(u->end == u->room, 0))
			make_room(u);
		some = some < u->room - u->end ? some : u->room - u->end;
		some = some < u->max - u->live ? some : u->max - u->live;
		add_some(u, keys + done, where + done, some);
		done += some;
	}
	return done;
}

/* Find the oldest message for a receive that ignores the source, or some or all of the tag.
 * Fingerprints may collide, so each hit is compared with the full key. */
static uint32_t
find_wild(const struct match_unexpected *u, const struct match_want *want)
{
	bool any_source = want->source == MATCH_ANY_SOURCE;
	uint64_t care = ~want->ignore;
	uint32_t place = u->first;

	for (;; place++) {
		if (care == ~0ull)
			place = u->scan->equal(u->without_source, place, u->end,
				without_source(want->comm, want->tag));
		else if (care == 0)
			place = any_source ? u->scan->equal(u->without_both, place, u->end,
						     without_both(want->comm))
					   : u->scan->equal(u->without_tag, place, u->end,
						     without_tag(want->comm, want->source));
		else
			place = any_source
				? u->scan->masked(u->without_both, u->tag, place, u->end,
					  without_both(want->comm), want->tag, care)
				: u->scan->masked(u->without_tag, u->tag, place, u->end,
					  without_tag(want->comm, want->source), want->tag, care);
		if (place >= u->end)
			return MATCH_NONE;
		const struct match_key key = key_at(u, place);

		if (match_accepts(want, &key))
			return place;
	}
}

uint32_t
match_unexpected_find(const struct match_unexpected *u, const struct match_want *want)
{
	if (u->live == 0)
		return MATCH_NONE;
	if (want->ignore != 0 || want->source == MATCH_ANY_SOURCE)
		return find_wild(u, want);
	const struct match_key key = {want->comm, want->source, want->tag};

	struct match_where chain = chain_of(u, &key, match_hash(&key));

	return chain.group == NULL ? MATCH_NONE : chain.group->head[chain.i];
}

uint32_t
match_unexpected_take(struct match_unexpected *u, uint32_t place)
{
	const struct match_key key = key_at(u, place);
	struct match_where chain = chain_of(u, &key, match_hash(&key));
	uint32_t next = u->places[place].next;

	if (next != MATCH_NONE)
		chain.group->head[chain.i] = next; /* it was the head: note 2 */
	else
		match_chain_remove(&u->table, chain);
	u->without_source[place] = u->without_tag[place] = u->without_both[place] = 0;
	if (--u->live == 0) {
		u->first = u->end = 0; /* the table is empty as well */
		u->renumbered++;
	}
	while (u->first < u->end && u->without_both[u->first] == 0)
		u->first++;
	return u->places[place].where;
}

uint32_t
match_unexpected_next(const struct match_unexpected *u, uint32_t place)
{
	if (place < u->first)
		place = u->first;
	while (place < u->end && u->without_both[place] == 0)
		place++;
	return place < u->end ? place : MATCH_NONE;
}
