/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Returns room of receivers: entries that were read, and buffers that were given back (LHS-2,
 * LHS-4). Local senders that wait and the core's flows take turns at it. Runs on the lane.
 */
#include "engine/local.h"
#include "engine/room.h"

/* Distribute freed room: local senders that wait and the core's flows take turns at it. */
static void
inlet_give(struct engine *e, struct inlet *in, uint32_t entries, uint32_t bulks)
{
	if (unlikely(in->local_head != NULL)) {
		in->local_turn = !in->local_turn;
		if (in->local_turn)
			local_drain(e, in, &entries, &bulks);
	}
	if (entries | bulks)
		proto_ctx_room(e->proto, in->endpoint, entries, bulks, e->now);
	if (unlikely(in->local_head != NULL))
		local_drain(e, in, NULL, NULL);
}

void
inlet_room(struct engine *e, struct inlet *in)
{
	/* acquire: the reader's last reads of an entry come before the engine writes it again */
	uint32_t pos = atomic_load_explicit(in->read, memory_order_acquire);
	uint32_t freed = pos - in->lhs_pos;

	if (freed == 0)
		return;
	if (unlikely(freed > in->lhs.pos - in->lhs_pos)) {
		ENGINE_COUNT(e, bad_positions);
		in->ch->bad++;
		return;
	}
	in->lhs_pos = pos;
	inlet_give(e, in, freed, 0);
}

/* Collects mbufs to return them to the pool in bursts. */
struct freed {
	struct rte_mbuf *m[BURST_MAX];
	unsigned n;
	uint32_t plain, matched; /* totals of each inlet */
};

static inline void
freed_flush(struct engine *e, struct freed *f)
{
	/* each has one segment and one reference */
	rte_mempool_put_bulk(e->node->pool, (void **)f->m, f->n);
	f->n = 0;
}

/* Free the buffers of one received message. Return false if the client does not own it. */
static inline bool
release_message(struct engine *e, const struct channel *ch, uint32_t number, struct freed *f,
	bool matching)
{
	struct buf_state *bufs = ch->bufs;
	uint32_t count = 0;

	number &= ~LHS_CHAINED;
	if (unlikely(number >= ch->bufs_count || bufs[number].owner != ch->ctx ||
		    !bufs[number].head || (bufs[number].matched && !matching)))
		return false;
	uint32_t *total = bufs[number].matched ? &f->matched : &f->plain;

	bufs[number].head = false;
	do {
		struct buf_state *b = &bufs[number];

		b->owner = BUF_FREE;
		count++;
		if (unlikely(ch->thin != NULL)) {
			ch->thin->free[ch->thin->free_count++] = number;
		} else {
			f->m[f->n++] = b->m;
			if (unlikely(f->n == BURST_MAX))
				freed_flush(e, f);
		}
		number = b->next;
	} while (unlikely(number != UINT32_MAX));
	*total += count;
	return true;
}

void
inlet_release(struct engine *e, struct channel *ch, const uint32_t *numbers, unsigned n,
	bool matching)
{
	struct freed f;

	f.n = f.plain = f.matched = 0;
	for (unsigned i = 0; i < n; i++) {
		if (unlikely(!release_message(e, ch, numbers[i], &f, matching))) {
			ENGINE_COUNT(e, bad_releases);
			ch->bad++;
		}
	}
	if (f.n)
		freed_flush(e, &f);
	ch->plain.bulk_out -= f.plain;
	ch->matched.bulk_out -= f.matched;
	if (f.plain)
		inlet_give(e, &ch->plain, 0, f.plain);
	if (f.matched)
		inlet_give(e, &ch->matched, 0, f.matched);
}
