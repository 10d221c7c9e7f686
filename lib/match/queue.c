/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See queue.h. Owner thread only.
 */
#include "match/queue.h"

#define BURST 32

int
match_queue_init(struct match_queue *q, const struct lhs_config *c, void *ring, const void *base,
	uint32_t unexpected, uint32_t receives, unsigned simd_bits)
{
	*q = (struct match_queue){.base = base, .near = MATCH_NONE};
	int result = match_heads_init(&q->heads, c, ring, unexpected);

	if (result == 0)
		result = match_unexpected_init(&q->unexpected, unexpected, simd_bits);
	if (result == 0)
		result = match_posted_init(&q->posted, receives);
	if (result != 0)
		match_queue_free(q);
	return result;
}

void
match_queue_free(struct match_queue *q)
{
	match_heads_free(&q->heads);
	match_unexpected_free(&q->unexpected);
	match_posted_free(&q->posted);
}

void
match_queue_clear(struct match_queue *q)
{
	match_heads_clear(&q->heads);
	match_unexpected_clear(&q->unexpected);
	match_posted_clear(&q->posted);
	q->bulks = 0;
	q->malformed = 0;
}

static inline bool
read_key(const struct lhs_entry *e, struct match_key *key)
{
	uint64_t head, tag;

	memcpy(&head, e->front, sizeof(head));
	memcpy(&tag, e->front + sizeof(head), sizeof(tag));
	*key = (struct match_key){wire_be32((uint32_t)(head >> 32)),
		(uint32_t)e->src_node << 16 | e->src_ctx, wire_be64(tag)};
	/* fast path for a plain eager message: its op, no flags, and the field that must be 0 is
	 * 0 */
	if (__builtin_expect((uint32_t)head == WIRE_EAGER && e->len >= sizeof(struct wire_match),
		    1))
		return true;
	return wire_match_check(e->front, e->len) == WIRE_OK;
}

bool
match_queue_next(struct match_queue *q, struct match_message *m, uint64_t *handle)
{
	struct match_heads *h = &q->heads;
	struct match_unexpected *u = &q->unexpected;
	struct match_key keys[BURST];
	uint32_t where[BURST], n = 0;
	const uint32_t begin = h->ring.pos;
	const struct lhs_entry *e;
	bool found = false;

	while ((e = lhs_peek(&h->ring)) != NULL) {
		if (__builtin_expect(e->src_node == q->near, 0) && h->ring.pos != begin) {
			*handle = MATCH_NEAR;
			found = true;
			break;
		}
		__builtin_prefetch(lhs_at(&h->ring, h->ring.pos + 4));
		bool good = read_key(e, &keys[n]);

		found = good && q->posted.count != 0 &&
			match_posted_take(&q->posted, &keys[n], handle);
		if (good && !found && u->live + n == u->max)
			break;
		where[n] = h->ring.pos++ & h->ring.mask;
		q->bulks += match_bulks(q, e);
		if (found) {
			*m = (struct match_message){e, where[n], keys[n]};
			break;
		}
		if (__builtin_expect(!good, 0)) {
			bool aside = e->len == sizeof(struct wire_match) &&
				e->front[0] == WIRE_ASIDE;

			q->malformed += !aside;
			*m = (struct match_message){e, where[n], keys[n]};
			*handle = aside ? MATCH_ASIDE : MATCH_MALFORMED;
			found = true;
			break;
		}
		if (++n == BURST) {
			match_unexpected_add(u, keys, where, n);
			n = 0;
		}
	}
	if (n != 0)
		match_unexpected_add(u, keys, where, n);
	return found;
}

bool
match_queue_add(struct match_queue *q, const struct match_key *key, const struct lhs_entry *e)
{
	uint32_t where = q->unexpected.live == q->unexpected.max ? MATCH_NONE
								 : match_head_add(&q->heads, e);

	return where != MATCH_NONE && match_unexpected_add(&q->unexpected, key, &where, 1) == 1;
}

uint32_t
match_queue_find(const struct match_queue *q, const struct match_want *want,
	struct match_message *m)
{
	const struct match_unexpected *u = &q->unexpected;
	uint32_t place = match_unexpected_find(u, want);

	if (place == MATCH_NONE)
		return place;
	const struct match_place *p = &u->places[place];

	*m = (struct match_message){match_head_at(&q->heads, p->where), p->where,
		{p->comm, p->source, u->tag[place]}};
	return place;
}

uint32_t
match_chain_bulks(const void *base, const struct lhs_entry *e)
{
	struct {
		int64_t next_off;
		uint32_t len, pad;
	} link;
	int64_t off = e->bulk_off;
	uint32_t n = 0;

	do {
		memcpy(&link, (const uint8_t *)base + off - sizeof(link), sizeof(link));
		off = link.next_off;
	} while (++n < 1u << 16 && off != 0);
	return n;
}

void
match_queue_done(struct match_queue *q, const struct match_message *m)
{
	q->bulks -= match_bulks(q, m->entry);
	match_head_done(&q->heads, m->where);
}
