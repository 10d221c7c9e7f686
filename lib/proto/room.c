/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Local contexts and the room of their receive side: PM-R2 (no room: discard, Nack), and how the
 * refused message is received later. Owner thread only.
 *
 * Design notes
 * 1. A refused message waits its turn: its flow enters the context's list of blocked flows, and
 *    while that list is not empty no other flow's new message is taken. When room comes, the first
 *    in the list is granted what it needs; the grant is kept for it until the frame comes again. So
 *    a large message is not starved by small ones. Messages that need no bulk buffer may overtake,
 *    as long as an entry is left for the first in the list, so that short messages are not delayed
 *    by long ones from other sources (LHS-6). The first in the list may also take room that is
 *    already free, because it may have waited for descriptors.
 * 2. A flow that was merely told credit 0 waits in the same list, but gets no grant: it may have
 *    nothing to send.
 * 3. Free descriptors belong to no context, and neither do the frames that copied contexts share.
 *    So flows that were refused for lack of them are looked for when timers run (room_feed), and
 *    are told as if room had come, because their senders ask ever more rarely.
 */
#include <errno.h>

#include "proto/internal.h"

#define BLOCKED_LINK(i) p->flows[i].blocked_next

int
proto_ctx_open(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, uint32_t inline_max,
	uint64_t now)
{
	(void)now;
	if (ctx >= p->cfg.contexts_max)
		return -EINVAL;
	struct context *c = &p->ctxs[ctx];

	if (c->open)
		return -EBUSY;
	*c = (struct context){
		.open = true,
		.entries = entries,
		.bulks = bulks,
		.bulks_max = bulks,
		.inline_max = inline_max,
		.blocked = {NIL, NIL},
		.pending = c->pending,
		.flows = c->flows,
	};
	/* a new life of the context: what it sends opens its flows anew, whatever became of the
	 * receivers of its last life */
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->ctx != ctx)
			continue;
		f->flags &= ~FLOW_CLOSING;
		if (f->tx_head == NIL && f->tx_state != FLOW_TX_IDLE)
			flow_fail(p, f, 0); /* no message is pending, so the error is not used */
	}
	return 0;
}

void
proto_ctx_close(struct proto *p, uint16_t ctx, bool linger, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	PROTO_ASSERT(ctx < p->cfg.contexts_max);
	/* who waits for what lingers may say it in every turn, and there are many flows to look
	 * at */
	if (!c->open && (!c->closing || linger))
		return;
	linger = linger && c->frozen != CONTEXT_PARKED; /* the payloads are out of reach */
	c->open = false;
	c->closing = true;
	flow_thaw_all(p, ctx, now);
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->ctx != ctx)
			continue;
		f->flags |= FLOW_CLOSING;
		flow_forbid_now(f);
		if (f->rx_state == FLOW_RX_OPEN && f->acks_owed)
			flow_say(p, f, WIRE_ACK, WIRE_F_ACK, f->rcv_nxt);
		flow_abort_rx(p, f, FLOW_RX_CLOSED);
		if (linger || f->tx_head == NIL)
			continue;
		flow_fail(p, f, ECONNRESET);
		/* so that the peer need not wait for the rest */
		flow_say(p, f, WIRE_RESET, WIRE_F_SENDER, f->snd_end);
	}
	c->entries = c->bulks = 0;
	c->blocked = (struct list){NIL, NIL};
}

uint32_t
proto_ctx_pending(const struct proto *p, uint16_t ctx)
{
	return p->ctxs[ctx].pending;
}

void
proto_ctx_room(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	(void)now;
	if (c->open)
		room_add(p, c, entries, bulks);
}

bool
proto_ctx_take(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, bool jump)
{
	struct context *c = &p->ctxs[ctx];

	if (!c->open || c->frozen || (!jump && !list_empty(&c->blocked)) || c->entries < entries ||
		c->bulks < bulks)
		return false;
	c->entries -= entries;
	c->bulks -= bulks;
	return true;
}

void
room_add(struct proto *p, struct context *c, uint32_t entries, uint32_t bulks)
{
	if (unlikely(c->frozen)) {
		c->kept_entries += entries;
		c->kept_bulks += bulks;
		return;
	}
	c->entries += entries;
	c->bulks += bulks;
	while (unlikely(!list_empty(&c->blocked) && c->open)) {
		struct flow *f = &p->flows[c->blocked.head];

		if (c->entries == 0 || c->bulks < f->need_bulks)
			return;
		LIST_POP(&c->blocked, BLOCKED_LINK);
		f->flags &= ~FLOW_BLOCKED;
		if (f->flags & FLOW_DEMAND) {
			c->entries--;
			c->bulks -= f->need_bulks;
			f->flags = (f->flags & ~FLOW_DEMAND) | FLOW_GRANTED;
		}
		flow_drain(p, f);
		ack_urgent(p, f, FLOW_UPDATE);
	}
}

void
proto_ctx_copied(struct proto *p, uint16_t ctx)
{
	PROTO_ASSERT(p->ctxs[ctx].bulks_max <= p->cfg.assembly_frames_max);
	p->ctxs[ctx].copied = true;
}

void
proto_ctx_permits(struct proto *p, uint16_t ctx)
{
	p->ctxs[ctx].permits = true;
}

void
proto_ctx_open_wait(struct proto *p, uint16_t ctx, uint32_t wait_us)
{
	uint64_t units = (uint64_t)wait_us * UNITS_PER_US;

	PROTO_ASSERT(wait_us <= PROTO_OPEN_WAIT_MAX_US);
	if (p->ctxs[ctx].open)
		p->ctxs[ctx].open_wait = (uint16_t)((units + COARSE_MAX) >> COARSE_SHIFT);
}

void
proto_ctx_domain(struct proto *p, uint16_t ctx, uint32_t domain)
{
	if (p->ctxs[ctx].open)
		p->ctxs[ctx].domain = domain;
}

/* Are there descriptors for a message of `frames` frames, the first of which is already held if
 * `held` is set? And, if the context is a copied one, are there frames to assemble the message
 * in? */
bool
room_has_frames(const struct proto *p, const struct context *c, uint32_t frames, bool held)
{
	if (p->rxd_free_count < p->rxd_reserved + frames - held)
		return false;
	return likely(!c->copied || frames == 1) ||
		p->assembling + frames <= p->cfg.assembly_frames_max;
}

/* Frames ran short: let blocked flows that now can go on do so: note 3. */
void
room_feed(struct proto *p)
{
	p->starved = false;
	for (uint32_t i = 0; i < p->cfg.contexts_max; i++) {
		struct context *c = &p->ctxs[i];

		if (!c->open || c->frozen || list_empty(&c->blocked))
			continue;
		uint32_t need = p->flows[c->blocked.head].need_bulks;

		if (room_has_frames(p, c, need ? need : 1, false))
			room_add(p, c, 0, 0);
		p->starved |= !list_empty(&c->blocked);
	}
}

/* Take one entry and `bulks` buffers for the flow's next message. Returns false if there is no room
 * now. */
bool
room_take(struct proto *p, struct flow *f, uint32_t bulks)
{
	struct context *c = &p->ctxs[f->ctx];

	if (unlikely(f->flags & FLOW_GRANTED)) {
		f->flags &= ~FLOW_GRANTED;
		if (bulks <= f->need_bulks) {
			c->bulks += f->need_bulks - bulks;
			return true;
		}
		c->entries++;
		c->bulks += f->need_bulks;
	} else if (unlikely(!list_empty(&c->blocked) && c->blocked.head != flow_index(p, f)) &&
		(bulks != 0 || c->entries < 2)) {
		return false;
	}
	if (c->entries == 0 || c->bulks < bulks)
		return false;
	c->entries--;
	c->bulks -= bulks;
	return true;
}

void
room_wait(struct proto *p, struct flow *f, uint32_t bulks, bool demand)
{
	if (f->flags & FLOW_GRANTED)
		return; /* it has room, but is frozen */
	if (demand) {
		f->need_bulks = bulks;
		f->flags |= FLOW_DEMAND;
		flow_watch(p, f);
	} else if (!(f->flags & FLOW_BLOCKED)) {
		f->need_bulks = 0;
	}
	if (f->flags & FLOW_BLOCKED)
		return;
	f->flags |= FLOW_BLOCKED;
	LIST_APPEND(&p->ctxs[f->ctx].blocked, flow_index(p, f), BLOCKED_LINK);
}

/* Descriptors ran short. The frames that this flow and those blocked with it hold out of order may
 * be all that is missing; if they kept them, they would wait for each other for ever. */
static void
drop_held(struct proto *p, struct flow *f)
{
	flow_drop_held(p, f);
	for (uint32_t i = p->ctxs[f->ctx].blocked.head; i != NIL; i = BLOCKED_LINK(i))
		flow_drop_held(p, &p->flows[i]);
}

/* The flow's next message cannot begin, because frames ran short. What was granted to it goes back,
 * because a sender that is told of credit asks again at once, and takes the path's window from
 * others. It keeps its turn. */
void
room_starve(struct proto *p, struct flow *f, uint32_t bulks)
{
	struct context *c = &p->ctxs[f->ctx];

	p->starved = true;
	if (f->flags & FLOW_GRANTED) {
		f->flags = (f->flags & ~FLOW_GRANTED) | FLOW_BLOCKED;
		c->entries++;
		c->bulks += f->need_bulks;
		f->blocked_next = c->blocked.head;
		if (list_empty(&c->blocked))
			c->blocked.tail = flow_index(p, f);
		c->blocked.head = flow_index(p, f);
	}
	room_wait(p, f, bulks, true);
	drop_held(p, f);
}

bool
room_is_wanted(const struct proto *p, const struct flow *f)
{
	return !p->ctxs[f->ctx].frozen && (!list_empty(&p->ctxs[f->ctx].blocked) || p->starved);
}

void
room_unblock(struct proto *p, struct flow *f)
{
	struct list *l = &p->ctxs[f->ctx].blocked;
	uint32_t self = flow_index(p, f), before = NIL;

	for (uint32_t i = l->head; i != self; i = p->flows[i].blocked_next)
		before = i;
	if (before == NIL)
		l->head = f->blocked_next;
	else
		p->flows[before].blocked_next = f->blocked_next;
	if (l->tail == self)
		l->tail = before;
	f->flags &= ~(FLOW_BLOCKED | FLOW_DEMAND);
}

/* The flow's sender is frozen: its next message, which waits for room or was granted some, comes
 * again when it goes on. Others need not wait for that. */
void
room_pass(struct proto *p, struct flow *f)
{
	struct context *c = &p->ctxs[f->ctx];

	if (f->flags & FLOW_GRANTED) {
		f->flags &= ~FLOW_GRANTED;
		room_add(p, c, 1, f->need_bulks);
	} else if (f->flags & FLOW_DEMAND) {
		room_unblock(p, f);
		room_add(p, c, 0, 0);
	}
}
