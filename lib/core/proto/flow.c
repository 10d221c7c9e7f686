/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Flows: finding them by key, creating them on first use, ending their messages, forgetting idle
 * ones. Only the owner of the struct proto calls this.
 *
 * Design notes
 * 1. A flow whose sending or receiving half was given up stays for flow_idle and remembers its last
 *    sequence, so that a late duplicate of its old life is recognised as old.
 * 2. A receiver forgets a flow after flow_idle, or after 4 rto_max if it needs the place: an
 *    opening frame that it delivered may come again for as long as rto_max plus the time that the
 *    network holds a frame, and if its flow were forgotten by then, it would be taken for a new
 *    one. So the network must not hold frames longer than 3 rto_max. The sender opens the flow
 *    again after a silence of half of rto_max, or of half of flow_idle if that is less, so the
 *    receiver remembers a flow for longer than the sender relies on it. (A watched flow is opened
 *    again only after half of flow_idle: proto_flow_watch.)
 * 3. A sender that gives up says so once, and that may be lost. So what is set aside for it
 *    (granted room, the rest of a message) is given up once it has been silent for longer than all
 *    of its retries can take. Otherwise other senders would wait for that room for ever. Of a
 *    sender that was only to have room nothing is missing then, so it may come back: many flows
 *    that share a slow path can keep it from asking for longer than that.
 */
#include <errno.h>

#include "core/proto/internal.h"

#define HASH_LINK(i) p->flows[i].hash_next

bool
flow_has_begun(const struct flow *f)
{
	return f->frags_left || !list_empty(&f->ooo);
}

/* Return whether room, or anything else, is set aside for frames that the flow's sender has yet to
 * send. */
bool
flow_holds(const struct flow *f)
{
	return flow_has_begun(f) || f->flags & (FLOW_GRANTED | FLOW_DEMAND);
}

bool
flow_idle_enough(const struct proto *p, const struct flow *f, uint64_t now, uint64_t idle)
{
	(void)p;
	return f->tx_head == NIL && !flow_holds(f) &&
		!(f->flags & (FLOW_ACTIVE | FLOW_ACK_DUE | FLOW_URGENT | FLOW_BLOCKED)) &&
		now - f->used_at >= idle;
}

void
flow_forget(struct proto *p, uint32_t index)
{
	struct flow *f = &p->flows[index];
	uint32_t *link = &p->buckets[bucket_of(p, f->key)];
	struct path *t = &p->paths[f->path];

	while (*link != index)
		link = &p->flows[*link].hash_next;
	*link = f->hash_next;
	if (f->tx_state != FLOW_TX_IDLE && wire_seq_before(t->isn_floor, f->snd_end))
		t->isn_floor = f->snd_end;
	t->flow_count--;
	p->ctxs[f->ctx].flows--;
	timer_stop(p, index);
	f->key = f->wire_head = 0;
	f->tx_state = FLOW_TX_IDLE;
	f->hash_next = p->flow_free;
	p->flow_free = index;
	p->flow_count--;
	COUNT(p, flows_reclaimed);
}

/* Forget the flow that has been idle longest, of one context or of all (NIL). This scans all flows,
 * but only when no flow is free, which is rare. */
static bool
reclaim_one(struct proto *p, uint32_t ctx, uint64_t now)
{
	uint32_t best = NIL;

	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		const struct flow *f = &p->flows[i];

		if (f->key != 0 && (ctx == NIL || f->ctx == ctx) &&
			flow_idle_enough(p, f, now, p->memory) &&
			(best == NIL || f->used_at < p->flows[best].used_at))
			best = i;
	}
	if (best == NIL)
		return false;
	flow_forget(p, best);
	return true;
}

/* Hold up a flow whose context is held: what was in flight waits, and the flow's timer runs only
 * for note 3 of freeze.c. */
static void
flow_hold(struct proto *p, struct flow *f, uint64_t now)
{
	flow_lose_flight(p, f, &p->paths[f->path]);
	path_activate(p, &p->paths[f->path]);
	f->rto_at = now + p->rto_max;
	timer_arm(p, flow_index(p, f), f->rto_at);
}

void
flow_freeze(struct proto *p, struct flow *f, uint64_t now)
{
	f->flags |= FLOW_FROZEN;
	flow_forbid_now(f);
	timer_arm(p, flow_index(p, f), now + p->rto_max);
	if (p->ctxs[f->ctx].frozen >= CONTEXT_HELD)
		flow_hold(p, f, now);
}

uint32_t
flow_make(struct proto *p, uint16_t ctx, uint16_t node, uint16_t peer_ctx, uint32_t path,
	uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	if (p->cfg.context_flows != 0 && c->flows >= p->cfg.context_flows &&
		!reclaim_one(p, ctx, now)) {
		COUNT(p, flow_quota);
		return NIL;
	}
	if (p->flow_free == NIL && !reclaim_one(p, NIL, now))
		return NIL;
	uint32_t index = p->flow_free;
	struct flow *f = &p->flows[index];

	p->flow_free = f->hash_next;
	p->flow_count++;
	c->flows++;
	*f = (struct flow){
		.key = proto_flow_key(ctx, node, peer_ctx),
		.wire_head = wire_head(WIRE_DATA, node, p->cfg.node),
		.wire_ctxs = wire_ctxs(peer_ctx, ctx),
		.path = path,
		.life = flow_next_life(p),
		.tx_head = NIL,
		.tx_next = NIL,
		.tx_tail = NIL,
		.lost_cursor = NIL,
		.ooo = {NIL, NIL},
		.frags = {NIL, NIL},
		.used_at = now,
	};
	uint32_t *bucket = &p->buckets[bucket_of(p, f->key)];

	f->hash_next = *bucket;
	*bucket = index;
	p->paths[path].flow_count++;
	timer_arm(p, index, now + p->flow_idle);
	if (unlikely(c->frozen))
		flow_freeze(p, f, now);
	COUNT(p, flows_opened);
	return index;
}

/* End the first frame of the flow's queue. */
static void
fail_head(struct proto *p, struct flow *f, struct path *t, uint8_t error)
{
	uint32_t i = f->tx_head;
	struct txd *d = &p->txds[i];

	f->tx_head = d->next;
	if (d->state != TXD_UNSENT)
		txd_landed(f, t, d);
	d->done.dst_node = f->node;
	d->done.dst_ctx = f->peer_ctx;
	COUNT_PEER(t, messages_failed, d->done.last);
	txd_done(p, i, error);
}

/* End everything that the flow has to send. The next message opens it anew. */
void
flow_fail(struct proto *p, struct flow *f, uint8_t error)
{
	struct path *t = &p->paths[f->path];

	while (f->tx_head != NIL)
		fail_head(p, f, t, error);
	if (f->tx_state != FLOW_TX_IDLE && wire_seq_before(t->isn_floor, f->snd_end))
		t->isn_floor = f->snd_end;
	f->tx_next = f->tx_tail = f->lost_cursor = NIL;
	f->lost = f->kept = 0;
	f->snd_una = f->snd_nxt = f->snd_end;
	flow_forbid_now(f);
	f->rto_at = 0;
	f->retries = f->probes = f->asks = 0;
	f->flags &= ~FLOW_REFUSED;
	f->tx_state = FLOW_TX_IDLE;
	f->life = flow_next_life(p);
	if (t->state == PATH_OPEN)
		path_activate(p, t);
}

/* Open the flow anew to the receiver's next life, and let what is queued go there. The life to
 * which the flow was opened has ended, and nothing of what is queued came to it, but for a message
 * of which the first part did. That message ends. */
void
flow_reopen(struct proto *p, struct flow *f, uint64_t now)
{
	struct path *t = &p->paths[f->path];
	uint32_t i;

	while (f->tx_head != NIL && p->txds[f->tx_head].frag_off != 0)
		fail_head(p, f, t, ECONNRESET);
	if (f->tx_head == NIL) {
		flow_fail(p, f, ECONNRESET);
		return;
	}
	for (i = f->tx_head; i != NIL && p->txds[i].state != TXD_UNSENT; i = p->txds[i].next) {
		txd_landed(f, t, &p->txds[i]);
		p->txds[i].state = TXD_UNSENT;
	}
	f->life = flow_next_life(p);
	f->flags &= ~(FLOW_REFUSED | FLOW_PROBE);
	f->lost = f->kept = 0;
	f->lost_cursor = NIL;
	f->tx_next = f->tx_head;
	f->retries = f->probes = f->asks = 0;
	f->rto_at = 0;
	flow_begin_tx(p, f);
	for (i = f->tx_head; i != NIL; i = p->txds[i].next)
		p->txds[i].seq = f->snd_end++;
	f->used_at = now;
	flow_activate(p, f);
}

/* Give up what was received but not delivered, and the room set aside for it. */
void
flow_abort_rx(struct proto *p, struct flow *f, enum flow_rx_state state)
{
	uint32_t entries = 0, bulks = 0;

	if (f->flags & FLOW_BLOCKED)
		room_unblock(p, f);
	if (f->frags_left) {
		COUNT(p, messages_aborted);
		p->rxd_reserved -= f->frags_left;
		if (f->frags_bulks > 1 && p->ctxs[f->ctx].copied && !(f->flags & FLOW_PARKED))
			p->assembling -= f->frags_bulks;
		grant_end(p, f);
		entries++;
		bulks += f->frags_bulks;
	}
	if (f->flags & FLOW_GRANTED) {
		entries++;
		bulks += f->need_bulks;
	}
	rxds_release(p, &f->frags);
	flow_drop_held(p, f);
	f->frags_left = f->frags_bulks = 0;
	f->acks_owed = 0;
	f->flags &= ~(FLOW_NACK | FLOW_FULL | FLOW_UPDATE | FLOW_GRANTED | FLOW_PARKED);
	if (f->rx_state != FLOW_RX_NONE)
		f->rx_state = state;
	/* This comes last, because it lets other flows go on. */
	room_add(p, &p->ctxs[f->ctx], entries, bulks);
}

/* Note 3. */
void
flow_give_up_sender(struct proto *p, struct flow *f)
{
	flow_abort_rx(p, f, flow_has_begun(f) ? FLOW_RX_CLOSED : (enum flow_rx_state)f->rx_state);
}
