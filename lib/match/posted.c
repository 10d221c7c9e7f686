/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives that were posted and have no message yet. Owner thread only.
 *
 * Design notes
 * 1. Receives that want all or none of the bits of a tag, from one source or any, are in a hash
 *    table of FIFOs by what they want. A message is looked up in it at most four times, once for
 *    each class of which any are posted, and takes the oldest that it finds. Receives that want
 *    some bits of a tag are in a list of their own, which is searched only for older ones than
 *    that.
 * 2. All share one order of posting, so exact receives and wildcards compete as MPI requires.
 * 3. Most programs wait with a single receive posted, so it enters the table only when a second one
 *    is posted.
 */
#include <errno.h>
#include <sys/mman.h>

#include "match/chains.h"

/* Normalise what a receive of that class wants, so that all that want the same have equal keys. */
static inline struct match_key
class_key(uint8_t class, uint32_t comm, uint32_t source, uint64_t tag)
{
	return (struct match_key){
		.comm = comm,
		.source = class == MATCH_NO_SOURCE || class == MATCH_NEITHER ? MATCH_ANY_SOURCE
									     : source,
		.tag = class == MATCH_NO_TAG || class == MATCH_NEITHER ? 0 : tag,
	};
}

static inline uint32_t
class_hash(uint8_t class, const struct match_key *key)
{
	uint32_t hash = match_hash(key) + class * 0x85EBCA6Bu;

	return hash ? hash : 1;
}

static inline bool
is_receive(const void *queue, uint32_t number, const struct match_key *key, uint32_t class)
{
	const struct match_receive *r = &((const struct match_posted *)queue)->receives[number];

	return r->kind == class && r->want.tag == key->tag && r->want.source == key->source &&
		r->want.comm == key->comm;
}

static inline struct match_where
chain_of(const struct match_posted *p, uint8_t class, const struct match_key *key, uint32_t hash)
{
	return match_chain_find(&p->table, hash, is_receive, p, key, class);
}

int
match_posted_init(struct match_posted *p, uint32_t max)
{
	uint32_t groups = 1;

	if (max == 0 || max > 1u << 27)
		return -ENOMEM;
	while (groups * MATCH_GROUP_ROOM < max)
		groups *= 2;
	*p = (struct match_posted){
		.max = max,
		.free = MATCH_NONE,
		.only = MATCH_NONE,
		.masked_head = MATCH_NONE,
		.masked_tail = MATCH_NONE,
	};
	p->bytes = groups * sizeof(struct match_group) + max * sizeof(*p->receives);
	/* pages are allocated on first touch; a zeroed table is empty */
	void *memory = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	p->table = (struct match_table){memory, groups - 1};
	p->receives = (struct match_receive *)(p->table.groups + groups);
	return 0;
}

void
match_posted_clear(struct match_posted *p)
{
	if (p->used != 0)
		match_table_clear(&p->table, p->table.mask + 1);
	p->used = p->count = 0;
	p->free = p->only = p->masked_head = p->masked_tail = MATCH_NONE;
	memset(p->of, 0, sizeof(p->of));
}

void
match_posted_free(struct match_posted *p)
{
	if (p->receives != NULL)
		munmap(p->table.groups, p->bytes);
	p->receives = NULL;
}

/* ------------------------------------------------------------------ in */

static void
append(struct match_posted *p, uint32_t number, uint32_t *tail)
{
	p->receives[number].previous = *tail;
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

/* Put a receive into the table, or into the list. */
static void
enter(struct match_posted *p, uint32_t number)
{
	struct match_receive *r = &p->receives[number];

	r->kind = class_of(&r->want);
	r->next = r->previous = MATCH_NONE;
	p->of[r->kind]++;
	if (r->kind == MATCH_MASKED) {
		if (p->masked_head != MATCH_NONE)
			append(p, number, &p->masked_tail);
		else
			p->masked_head = p->masked_tail = number;
		return;
	}
	const struct match_key key = class_key(r->kind, r->want.comm, r->want.source, r->want.tag);
	uint32_t hash = class_hash(r->kind, &key);
	struct match_where chain = chain_of(p, r->kind, &key, hash);

	r->want.tag = key.tag;
	if (chain.group == NULL)
		match_chain_new(&p->table, hash, number);
	else
		append(p, number, &chain.group->tail[chain.i]);
}

uint32_t
match_posted_add(struct match_posted *p, const struct match_want *want, uint64_t handle)
{
	uint32_t number = p->free;

	if (p->count == p->max)
		return MATCH_NONE;
	if (number == MATCH_NONE)
		number = p->used++;
	else
		p->free = p->receives[number].next;
	struct match_receive *r = &p->receives[number];

	r->want = *want;
	r->order = p->orders++;
	r->handle = handle;
	r->posted = true;
	if (p->count++ == 0) {
		p->only = number;
		return number;
	}
	if (p->only != MATCH_NONE) {
		enter(p, p->only);
		p->only = MATCH_NONE;
	}
	enter(p, number);
	return number;
}

/* ------------------------------------------------------------------ out */

static void
posted_leave(struct match_posted *p, uint32_t number, uint32_t *head, uint32_t *tail)
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
leave_chain(struct match_posted *p, uint32_t number, struct match_where chain)
{
	posted_leave(p, number, &chain.group->head[chain.i], &chain.group->tail[chain.i]);
	if (chain.group->head[chain.i] == MATCH_NONE)
		match_chain_remove(&p->table, chain);
}

bool
match_posted_take(struct match_posted *p, const struct match_key *key, uint64_t *handle)
{
	struct match_where best_chain = {NULL, 0};
	uint32_t best = MATCH_NONE;
	uint64_t order = UINT64_MAX;

	if (p->only != MATCH_NONE) {
		if (!match_accepts(&p->receives[p->only].want, key))
			return false;
		*handle = p->receives[p->only].handle;
		match_posted_leave_only(p);
		return true;
	}
	if (p->of[MATCH_EXACT] == p->count) {
		const struct match_where chain = chain_of(p, MATCH_EXACT, key,
			class_hash(MATCH_EXACT, key));

		if (chain.group == NULL)
			return false;
		best = chain.group->head[chain.i];
		*handle = p->receives[best].handle;
		leave_chain(p, best, chain);
		return true;
	}
	for (uint8_t class = 0; class < MATCH_CLASSES; class ++) {
		if (p->of[class] == 0)
			continue;
		const struct match_key k = class_key(class, key->comm, key->source, key->tag);
		struct match_where chain = chain_of(p, class, &k, class_hash(class, &k));

		if (chain.group == NULL || p->receives[chain.group->head[chain.i]].order > order)
			continue;
		best = chain.group->head[chain.i];
		best_chain = chain;
		order = p->receives[best].order;
	}
	for (uint32_t i = p->masked_head; i != MATCH_NONE && p->receives[i].order < order;
		i = p->receives[i].next) {
		if (!match_accepts(&p->receives[i].want, key))
			continue;
		best = i;
		best_chain.group = NULL;
		break;
	}
	if (best == MATCH_NONE)
		return false;
	*handle = p->receives[best].handle;
	if (best_chain.group != NULL)
		leave_chain(p, best, best_chain);
	else
		posted_leave(p, best, &p->masked_head, &p->masked_tail);
	return true;
}

bool
match_posted_cancel(struct match_posted *p, uint32_t number)
{
	if (number >= p->max || !p->receives[number].posted)
		return false;
	struct match_receive *r = &p->receives[number];

	if (number == p->only) {
		match_posted_leave_only(p);
		return true;
	}
	if (r->kind == MATCH_MASKED) {
		posted_leave(p, number, &p->masked_head, &p->masked_tail);
		return true;
	}
	const struct match_key key = class_key(r->kind, r->want.comm, r->want.source, r->want.tag);

	leave_chain(p, number, chain_of(p, r->kind, &key, class_hash(r->kind, &key)));
	return true;
}
