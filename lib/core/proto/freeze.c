/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts that are held up (PM-PREEMPT). Owner thread only.
 *
 * Design notes
 * 1. To its senders a frozen context is one without room: its free room is kept apart, so the paths
 *    of received frames need not know of it. What was refused waits in its list of blocked flows,
 *    and is let in by the room that comes back at the thaw.
 * 2. A frozen sender stops between messages, since the receiver of a part has set room aside for
 *    the whole of it.
 * 3. Once they are settled or held, its flows send nothing, for any time. A receiver would forget
 *    them, and give up what it keeps for their sender (flow.c, notes 2 and 3), so for each of them
 *    with something to send, and for each that is watched, an Ack with WIRE_F_ASK goes out every
 *    rto_max: "keep it, there is more to come".
 * 4. A parked context is a held one whose frames' memory is used for others. Its flows and
 *    descriptors stay, so Acks, RESETs and new lives of peers are handled as ever; only payloads
 *    are out of reach. So it takes nothing at all, not the rest of a message either, and forgets
 *    what came out of order, which is sent again.
 */
#include <errno.h>

#include "core/proto/internal.h"

/* Return how many frames a frozen flow may still send: the rest of the message that it has
 * begun. */
uint32_t
flow_rest(const struct proto *p, const struct flow *f)
{
	uint32_t n = 0;

	if (p->ctxs[f->ctx].frozen >= CONTEXT_HELD)
		return 0;
	for (uint32_t i = f->tx_next; i != NIL && p->txds[i].frag_off != 0; i = p->txds[i].next)
		n++;
	return n;
}

/* Return whether nothing of the flow is on its way, and nothing is to be sent without the
 * receiver's word. */
static bool
is_settled(const struct proto *p, const struct flow *f)
{
	if (f->asks != 0 && f->credit_end == f->snd_una + 1)
		return true; /* a question for room, which a receiver without any does not keep */
	if (f->snd_nxt - f->snd_una != f->lost + f->kept)
		return false;
	if (!wire_seq_before(f->snd_una, f->credit_end))
		return true; /* also the rest of a message whose first frame found no room */
	return f->lost == 0 && flow_rest(p, f) == 0;
}

/* Withdraw a question for room, the only frame of a settled flow that can be on its way. It was not
 * answered in time: it is not asked again, and it no longer takes of the window that the path's
 * flows share. */
static void
withdraw(struct proto *p, struct flow *f)
{
	if (f->snd_nxt - f->snd_una == f->lost + f->kept)
		return;
	flow_lose_flight(p, f, &p->paths[f->path]);
	path_activate(p, &p->paths[f->path]);
	f->credit_end = f->snd_una;
	flow_forbid_now(f);
}

/* Note 3. Returns false if the flow's timer has another meaning, because something is on its
 * way. */
bool
flow_frozen_timer(struct proto *p, struct flow *f, uint64_t now)
{
	if (p->ctxs[f->ctx].frozen < CONTEXT_HELD && !is_settled(p, f))
		return false;
	if (now >= f->rto_at) {
		f->rto_at = now + p->rto_max;
		withdraw(p, f);
		if ((f->tx_head != NIL || f->watchers) && f->tx_state != FLOW_TX_IDLE) {
			f->used_at = now;
			/* there may be more such flows than one turn can say it of */
			if (!flow_say(p, f, WIRE_ACK, WIRE_F_ASK, f->snd_una))
				f->rto_at = now + p->rto_min;
		}
	}
	timer_arm(p, flow_index(p, f), f->rto_at);
	return true;
}

/* Keep what was received of a flow whose sender says that it is frozen, and that the frame `seq` is
 * the next that it has no Ack of. Only that of the same life is kept: the flow of a later one has
 * not begun yet. The part of a message that is here is kept only while no other sender wants its
 * room, or no longer than that of a sender that is silent. */
void
flow_keep(struct proto *p, struct flow *f, uint32_t seq, uint64_t now)
{
	if (f->rx_state != FLOW_RX_OPEN || f->rcv_nxt - seq > WIRE_WINDOW_MAX)
		return;
	f->used_at = now;
	if (!flow_has_begun(f) || !room_is_wanted(p, f))
		f->heard_ts = stamp_of(p, now);
	room_pass(p, f);
}

/* Go on with what the flow has to send, as if it had just been heard of. */
static void
thaw(struct proto *p, struct flow *f, uint64_t now)
{
	struct path *t = &p->paths[f->path];

	f->flags &= ~FLOW_FROZEN;
	f->heard_ts = stamp_of(p, now);
	f->rto_at = 0;
	f->asks = f->probes = 0;
	timer_arm(p, flow_index(p, f), now + p->flow_idle);
	if (flow_holds(f))
		flow_watch(p, f);
	if (f->flags & FLOW_GRANTED || f->frags_left)
		ack_urgent(p, f, FLOW_UPDATE);
	if (f->tx_head == NIL) {
		flow_allow_now(f, t);
		return;
	}
	f->used_at = now;
	if (!wire_seq_before(f->snd_una, f->credit_end)) /* it may have room by now, so ask */
		f->credit_end = f->snd_una + 1;
	if (f->snd_una != f->snd_nxt) {
		f->rto_at = now + t->probe;
		timer_arm(p, flow_index(p, f), f->rto_at);
	}
	flow_activate(p, f);
}

/* Return the first flow of the context from that index on, or NIL. *seen counts those that were
 * found, so that the search ends with the last one. */
static uint32_t
next_flow(const struct proto *p, uint16_t ctx, uint32_t from, uint32_t *seen)
{
	if (*seen == p->ctxs[ctx].flows)
		return NIL;
	for (uint32_t i = from; i < p->cfg.flows_max; i++) {
		if (p->flows[i].key != 0 && p->flows[i].ctx == ctx) {
			++*seen;
			return i;
		}
	}
	return NIL;
}

static void
each_flow(struct proto *p, uint16_t ctx, void (*act)(struct proto *, struct flow *, uint64_t),
	uint64_t now)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; (i = next_flow(p, ctx, i, &seen)) != NIL; i++)
		act(p, &p->flows[i], now);
}

void
proto_ctx_freeze(struct proto *p, uint16_t ctx, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	if (!c->open || c->frozen)
		return;
	c->frozen = CONTEXT_DRAINS;
	c->kept_entries = c->entries;
	c->kept_bulks = c->bulks;
	c->entries = c->bulks = 0;
	each_flow(p, ctx, flow_freeze, now);
}

bool
proto_ctx_settled(const struct proto *p, uint16_t ctx)
{
	const struct context *c = &p->ctxs[ctx];

	uint32_t seen = 0;

	if (!c->open || c->frozen >= CONTEXT_HELD || c->pending == 0)
		return true;
	for (uint32_t i = 0; (i = next_flow(p, ctx, i, &seen)) != NIL; i++) {
		if (!is_settled(p, &p->flows[i]))
			return false;
	}
	return true;
}

void
proto_ctx_hold(struct proto *p, uint16_t ctx, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	if (!c->open || c->frozen != CONTEXT_DRAINS)
		return;
	c->frozen = CONTEXT_HELD;
	each_flow(p, ctx, flow_freeze, now);
}

void
flow_thaw_all(struct proto *p, uint16_t ctx, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	if (!c->frozen)
		return;
	c->frozen = CONTEXT_GOES;
	each_flow(p, ctx, thaw, now);
	room_add(p, c, c->kept_entries, c->kept_bulks);
	c->kept_entries = c->kept_bulks = 0;
}

void
proto_ctx_thaw(struct proto *p, uint16_t ctx, uint64_t now)
{
	if (p->ctxs[ctx].open && p->ctxs[ctx].frozen != CONTEXT_PARKED)
		flow_thaw_all(p, ctx, now);
}

/* ------------------------------------------------------------------ parking: note 4 */

/* Return how many frames of the flow's unfinished message count in proto.assembling. */
static uint32_t
assembles(const struct proto *p, const struct flow *f)
{
	return p->ctxs[f->ctx].copied && f->frags_left && f->frags_bulks > 1 ? f->frags_bulks : 0;
}

bool
proto_ctx_park(struct proto *p, uint16_t ctx, proto_swap swap, void *arg)
{
	struct context *c = &p->ctxs[ctx];
	uint32_t seen = 0;

	if (!c->open || c->frozen != CONTEXT_HELD)
		return false;
	c->frozen = CONTEXT_PARKED;
	for (uint32_t i = 0; (i = next_flow(p, ctx, i, &seen)) != NIL; i++) {
		struct flow *f = &p->flows[i];

		flow_drop_held(p, f);
		flow_swap_handles(p, f, swap, arg);
		p->assembling -= assembles(p, f);
		f->flags |= FLOW_PARKED;
	}
	return true;
}

int
proto_ctx_load(struct proto *p, uint16_t ctx, proto_swap swap, void *arg)
{
	struct context *c = &p->ctxs[ctx];
	uint32_t assembling = p->assembling, seen = 0;

	if (!c->open || c->frozen != CONTEXT_PARKED)
		return 0;
	for (uint32_t i = 0; (i = next_flow(p, ctx, i, &seen)) != NIL; i++)
		assembling += p->flows[i].flags & FLOW_PARKED ? assembles(p, &p->flows[i]) : 0;
	if (assembling > p->cfg.assembly_frames_max && assembling != p->assembling)
		return -ENOSPC;
	p->assembling = assembling;
	c->frozen = CONTEXT_HELD;
	seen = 0;
	for (uint32_t i = 0; (i = next_flow(p, ctx, i, &seen)) != NIL; i++) {
		flow_swap_handles(p, &p->flows[i], swap, arg);
		p->flows[i].flags &= ~FLOW_PARKED;
	}
	return 0;
}
