/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives that were posted and have no message yet. Owner thread only.
 *
 * Design notes
 * 1. Receives that want all of a tag or nothing of it, of one source or of any, are in a table of FIFOs by what they want:
 *    a message asks it at most four times, once for each class of which any are posted, and takes the oldest of
 *    what it finds. Those that want some bits of a tag are in a list of their own, walked as far as the
 *    oldest found elsewhere.
 * 2. All have one order of posting, so an exact receive and a wildcard compete as MPI wants it.
 */
#include <errno.h>
#include <stdlib.h>

#include "match/chains.h"

/* What a receive of that class wants is made equal for all that want the same. */
static inline struct match_key
class_key(uint8_t class, uint32_t comm, uint32_t source, uint64_t tag)
{
	return (struct match_key){
		.comm = comm,
		.source = class == MATCH_NO_SOURCE || class == MATCH_NEITHER ? MATCH_ANY_SOURCE : source,
		.tag = class == MATCH_NO_TAG || class == MATCH_NEITHER ? 0 : tag,
	};
}

static inline uint32_t
class_hash(uint8_t class, const struct match_key *key)
{
	return match_hash(key) + class * 0x85EBCA6Bu;
}

static inline bool
is_receive(const struct match_receive *r, uint8_t class, const struct match_key *key)
{
	return r->kind == class && r->want.tag == key->tag && r->want.source == key->source && r->want.comm == key->comm;
}

/* The chain of that class and key, or the empty slot where it would be. */
static inline struct match_chain *
chain_of(const struct match_posted *p, uint8_t class, const struct match_key *key, uint32_t hash)
{
	struct match_chain *s = first_slot(&p->table, hash);

	while (s->head != MATCH_NONE && (s->hash != hash || !is_receive(&p->receives[s->head], class, key)))
		s = next_slot(&p->table, s);
	return s;
}

int
match_posted_init(struct match_posted *p, uint32_t max)
{
	uint32_t slots = 16;

	if (max == 0 || max > 1u << 27)
		return -ENOMEM;
	while (slots / 2 < max)
		slots *= 2;
	*p = (struct match_posted){.max = max, .masked_head = MATCH_NONE, .masked_tail = MATCH_NONE};
	p->table.mask = slots - 1;
	p->receives = calloc(max, sizeof(*p->receives));
	p->table.slots = malloc(slots * sizeof(*p->table.slots));
	if (p->receives == NULL || p->table.slots == NULL) {
		match_posted_free(p);
		return -ENOMEM;
	}
	match_table_clear(&p->table);
	for (uint32_t i = 0; i < max; i++)
		p->receives[i].next = i + 1 < max ? i + 1 : MATCH_NONE;
	return 0;
}

void
match_posted_free(struct match_posted *p)
{
	free(p->receives);
	free(p->table.slots);
	p->receives = NULL;
	p->table.slots = NULL;
}

/* ------------------------------------------------------------------ in */

static void
append(struct match_posted *p, uint32_t number, uint32_t *head, uint32_t *tail)
{
	struct match_receive *r = &p->receives[number];

	r->previous = *tail;
	r->next = MATCH_NONE;
	if (*tail == MATCH_NONE)
		*head = number;
	else
		p->receives[*tail].next = number;
	*tail = number;
}

static uint8_t
class_of(const struct match_want *want)
{
	if (want->ignore == 0)
		return want->source == MATCH_ANY_SOURCE ? MATCH_NO_SOURCE : MATCH_EXACT;
	if (want->ignore == MATCH_ANY_TAG)
		return want->source == MATCH_ANY_SOURCE ? MATCH_NEITHER : MATCH_NO_TAG;
	return MATCH_MASKED;
}

uint32_t
match_posted_add(struct match_posted *p, const struct match_want *want, uint64_t handle)
{
	uint32_t number = p->free;

	if (p->count == p->max)
		return MATCH_NONE;
	struct match_receive *r = &p->receives[number];

	p->free = r->next;
	*r = (struct match_receive){.want = *want, .order = p->orders++, .handle = handle, .kind = class_of(want),
		.posted = true};
	p->count++;
	p->of[r->kind]++;
	if (r->kind == MATCH_MASKED) {
		append(p, number, &p->masked_head, &p->masked_tail);
		return number;
	}
	const struct match_key key = class_key(r->kind, want->comm, want->source, want->tag);
	uint32_t hash = class_hash(r->kind, &key);
	struct match_chain *s = chain_of(p, r->kind, &key, hash);

	r->want.tag = key.tag;
	if (s->head == MATCH_NONE)
		*s = (struct match_chain){MATCH_NONE, MATCH_NONE, hash};
	append(p, number, &s->head, &s->tail);
	return number;
}

/* ------------------------------------------------------------------ out */

static void
leave(struct match_posted *p, uint32_t number, uint32_t *head, uint32_t *tail)
{
	struct match_receive *r = &p->receives[number];

	if (r->previous == MATCH_NONE)
		*head = r->next;
	else
		p->receives[r->previous].next = r->next;
	if (r->next == MATCH_NONE)
		*tail = r->previous;
	else
		p->receives[r->next].previous = r->previous;
	r->posted = false;
	r->next = p->free;
	p->free = number;
	p->count--;
	p->of[r->kind]--;
}

static void
leave_chain(struct match_posted *p, uint32_t number, struct match_chain *s)
{
	leave(p, number, &s->head, &s->tail);
	if (s->head == MATCH_NONE)
		match_table_remove(&p->table, s);
}

bool
match_posted_take(struct match_posted *p, const struct match_key *key, uint64_t *handle)
{
	struct match_chain *best_chain = NULL;
	uint32_t best = MATCH_NONE;
	uint64_t order = UINT64_MAX;

	for (uint8_t class = 0; class < MATCH_CLASSES; class++) {
		if (p->of[class] == 0)
			continue;
		const struct match_key k = class_key(class, key->comm, key->source, key->tag);
		struct match_chain *s = chain_of(p, class, &k, class_hash(class, &k));

		if (s->head == MATCH_NONE || p->receives[s->head].order > order)
			continue;
		best = s->head;
		best_chain = s;
		order = p->receives[best].order;
	}
	for (uint32_t i = p->masked_head; i != MATCH_NONE && p->receives[i].order < order; i = p->receives[i].next) {
		if (!match_accepts(&p->receives[i].want, key))
			continue;
		best = i;
		best_chain = NULL;
		break;
	}
	if (best == MATCH_NONE)
		return false;
	*handle = p->receives[best].handle;
	if (best_chain != NULL)
		leave_chain(p, best, best_chain);
	else
		leave(p, best, &p->masked_head, &p->masked_tail);
	return true;
}

bool
match_posted_cancel(struct match_posted *p, uint32_t number)
{
	if (number >= p->max || !p->receives[number].posted)
		return false;
	struct match_receive *r = &p->receives[number];

	if (r->kind == MATCH_MASKED) {
		leave(p, number, &p->masked_head, &p->masked_tail);
		return true;
	}
	const struct match_key key = class_key(r->kind, r->want.comm, r->want.source, r->want.tag);

	leave_chain(p, number, chain_of(p, r->kind, &key, class_hash(r->kind, &key)));
	return true;
}
