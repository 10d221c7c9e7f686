/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The matching of one context: its LHS ring, unexpected messages and posted receives (RHI-MSG;
 * RHiNET, 1999, section 2.6). The reader of the ring owns it: the application's thread, or the
 * context's lane.
 *
 * Design notes
 * 1. Before a receive searches for its message, all messages that landed in the ring are taken in.
 *    Otherwise one that is still in the ring could be overtaken by a later one that finds the
 *    receive posted.
 * 2. Messages of one source are in order in the ring, because the source has one flow.
 */
#ifndef PMX_MATCH_QUEUE_H
#define PMX_MATCH_QUEUE_H

#include "match/heads.h"
#include "core/wire/wire.h"

/* The handles that match_queue_next gives for what is only to be passed to match_queue_done: a
 * malformed message; a WIRE_ASIDE, whose id is the key's tag. MATCH_NEAR: no message, but the next
 * one is of the node `near`. */
#define MATCH_MALFORMED UINT64_MAX
#define MATCH_ASIDE     (UINT64_MAX - 1)
#define MATCH_NEAR      (UINT64_MAX - 2)

/* A message that landed. */
struct match_message {
	const struct lhs_entry *entry;
	uint32_t where; /* where its head is, valid until match_queue_done */
	struct match_key key;
};

struct match_queue {
	struct match_heads heads;
	struct match_unexpected unexpected;
	struct match_posted posted;
	const void *base;   /* base of lhs_entry.bulk_off, for counting the buffers of chained
			     * messages; NULL: they are not counted */
	uint32_t bulks;     /* bulk buffers of messages that were taken in and are not done yet */
	uint64_t malformed; /* malformed messages ever seen */
	uint32_t near;      /* the caller looks elsewhere before each message of this node;
			     * MATCH_NONE: of none */
};

/* Set up a queue. ring: memory of c->entries entries; unexpected, receives: the most that may wait;
 * simd_bits: see match_unexpected_init. Returns 0 or -ENOMEM. */
int match_queue_init(struct match_queue *q, const struct lhs_config *c, void *ring,
	const void *base, uint32_t unexpected, uint32_t receives, unsigned simd_bits);
void match_queue_free(struct match_queue *q);
/* Forget all messages and receives, and begin anew with an empty ring. */
void match_queue_clear(struct match_queue *q);

/* Take in messages that landed, up to the next one that a receive waits for. Returns true with the
 * message in *m and the receive's handle, MATCH_MALFORMED, or MATCH_ASIDE in *handle, or with
 * MATCH_NEAR behind the first message; false if all that landed is taken in, or if no more messages
 * can wait. */
bool match_queue_next(struct match_queue *q, struct match_message *m, uint64_t *handle);
/* Let a message wait that did not land in the ring, but was taken over in order from elsewhere. e:
 * its entry, of as many bytes as those of the ring. Returns false if no more messages can wait. */
bool match_queue_add(struct match_queue *q, const struct match_key *key, const struct lhs_entry *e);
/* Find the oldest waiting message that `want` accepts. Returns its place, or MATCH_NONE. */
uint32_t match_queue_find(const struct match_queue *q, const struct match_want *want,
	struct match_message *m);
/* Note that the head and the buffers of a message are not needed any more. The caller gives the
 * buffers back afterwards. */
void match_queue_done(struct match_queue *q, const struct match_message *m);

/* Move the head of a message to the store, so that it does not hold up the ring, however long it
 * stays. Returns false if the store is full. */
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

/* Move the oldest heads to the store, when more than half of the entries are held, until the writer
 * has three quarters of the ring. Return false if there were enough entries. */
static inline bool
match_queue_spare(struct match_queue *q)
{
	uint32_t entries = q->heads.ring.mask + 1;

	if (__builtin_expect(match_heads_held(&q->heads) <= entries / 2, 1))
		return false;
	match_heads_spare(&q->heads, &q->unexpected, entries / 4);
	return true;
}

/* Return how many bytes a checked message has, whether they follow its head or are offered. */
static inline uint64_t
match_message_len(const struct lhs_entry *e)
{
	const struct wire_match *h = (const struct wire_match *)e->front;
	struct wire_offer offer;

	uint32_t head = wire_match_head(h->flags);

	if (h->op != WIRE_OFFER)
		return e->len - head;
	memcpy(&offer, e->front + head, sizeof(offer));
	return wire_be64(offer.len);
}

/* Return how many bytes of memory messages have touched while they waited. */
static inline uint64_t
match_queue_bytes(const struct match_queue *q)
{
	return match_unexpected_bytes(&q->unexpected) +
		(uint64_t)q->heads.used * q->heads.entry_bytes;
}

/* Return how many bulk buffers a message has that has several, linked by struct bulk_link
 * (lib/channel/channel.h). */
uint32_t match_chain_bulks(const void *base, const struct lhs_entry *e);

/* Return how many bulk buffers a message has; to be called before they are given back. */
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
