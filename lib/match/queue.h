/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The matching of one context: its LHS ring, what came before its receive, receives before their
 * message (RHI-MSG; RHiNET, 1999, section 2.6). Whoever reads the ring owns it: the application's
 * thread, or its lane.
 *
 * Design notes
 * 1. Before a receive searches, all that landed is taken in: otherwise a message behind it in the
 *    ring would be overtaken by a later one that finds the receive posted.
 * 2. The order of one source is that of the ring, for it has one flow.
 */
#ifndef PMX_MATCH_QUEUE_H
#define PMX_MATCH_QUEUE_H

#include "match/heads.h"
#include "wire/wire.h"

/* as a handle: the message is none, and only to be done with */
#define MATCH_MALFORMED UINT64_MAX

/* A message that landed. */
struct match_message {
	const struct lhs_entry *entry;
	uint32_t where; /* its head's, until match_queue_done */
	struct match_key key;
};

struct match_queue {
	struct match_heads heads;
	struct match_unexpected unexpected;
	struct match_posted posted;
	const void *base;   /* of lhs_entry.bulk_off, for counting the buffers of messages of
			     * several; NULL: they are not counted */
	uint32_t bulks;     /* buffers of messages that landed and are not done with */
	uint64_t malformed; /* messages that are none, ever */
};

/* ring: memory of c->entries entries. unexpected, receives: most that wait. simd_bits: see
 * match_unexpected_init. 0, or -ENOMEM. */
int match_queue_init(struct match_queue *q, const struct lhs_config *c, void *ring,
	const void *base, uint32_t unexpected, uint32_t receives, unsigned simd_bits);
void match_queue_free(struct match_queue *q);
/* Nothing waits any more; the ring begins anew. */
void match_queue_clear(struct match_queue *q);

/* Take in what landed, up to the next message that a receive waits for: true, and *handle is the
 * receive's, or MATCH_MALFORMED. false: all that landed is taken in, or there is no room for more
 * to wait. */
bool match_queue_next(struct match_queue *q, struct match_message *m, uint64_t *handle);
/* The oldest message that waits and that `want` accepts: its place; MATCH_NONE. */
uint32_t match_queue_find(const struct match_queue *q, const struct match_want *want,
	struct match_message *m);
/* Its head and its buffers are needed no more; the buffers are given back by the caller,
 * afterwards. */
void match_queue_done(struct match_queue *q, const struct match_message *m);

/* Its head moves to the store, so that it holds up nobody, however long it stays. false: the store
 * is full. */
static inline bool
match_queue_keep(struct match_queue *q, struct match_message *m)
{
	uint32_t kept = match_head_keep(&q->heads, m->where);

	if (kept == MATCH_NONE)
		return false;
	m->where = kept;
	m->entry = match_head_at(&q->heads, kept);
	return true;
}

/* Entries run short: the oldest heads move to the store, until the writer has three quarters of the
 * ring. false: there were enough. */
static inline bool
match_queue_spare(struct match_queue *q)
{
	uint32_t entries = q->heads.ring.mask + 1;

	if (__builtin_expect(match_heads_held(&q->heads) <= entries / 2, 1))
		return false;
	match_heads_spare(&q->heads, &q->unexpected, entries / 4);
	return true;
}

/* Bytes of a message that was checked, behind its head or offered. */
static inline uint64_t
match_message_len(const struct lhs_entry *e)
{
	const struct wire_match *h = (const struct wire_match *)e->front;
	struct wire_offer offer;

	if (h->op != WIRE_OFFER)
		return e->len - (uint32_t)sizeof(*h);
	memcpy(&offer, h + 1, sizeof(offer));
	return wire_be64(offer.len);
}

/* Bytes of memory that messages and receives take while they wait: what was touched. */
static inline uint64_t
match_queue_bytes(const struct match_queue *q)
{
	return match_unexpected_bytes(&q->unexpected) +
		(uint64_t)q->heads.used * q->heads.entry_bytes;
}

/* Of a message of several: they are linked, as lib/channel/channel.h has it. */
uint32_t match_chain_bulks(const void *base, const struct lhs_entry *e);

/* Bulk buffers of a message; before they are given back. */
static inline uint32_t
match_bulks(const struct match_queue *q, const struct lhs_entry *e)
{
	if (e->bulk == LHS_NO_BULK)
		return 0;
	return __builtin_expect((e->bulk & LHS_CHAINED) == 0 || q->base == NULL, 1)
		? 1
		: match_chain_bulks(q->base, e);
}

#endif
