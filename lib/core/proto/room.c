/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The room of contexts' receive side: PM-R2 (no room: discard, Nack), and how the
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
#include "core/proto/internal.h"

#define BLOCKED_LINK(i) p->flows[i].blocked_next
#define RXD_LINK(i)     p->rxds[i].next

/* Move a list of received frames to `released`. Returns how many there were. */
uint32_t
rxds_release(struct proto *p, struct proto_list *l)
{
	uint32_t n = 0;

	for (; !list_empty(l); n++) {
		uint32_t i = l->head;

		LIST_POP(l, RXD_LINK);
		LIST_APPEND(&p->released, i, RXD_LINK);
		HAS(p, DELIVERIES);
	}
	return n;
}

/* Forget the frames held out of order; their sender will send them again. */
void
flow_drop_held(struct proto *p, struct flow *f)
{
	p->held -= rxds_release(p, &f->ooo);
	f->rcv_high = f->rcv_nxt;
	for (unsigned i = 0; i < WIRE_WINDOW_MAX / 64; i++)
		f->have[i] = 0;
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
		p->drain(p, f);
		ack_urgent(p, f, FLOW_UPDATE);
	}
}

/* Return whether there are descriptors for a message of `frames` frames, the first of which is
 * already held if `held` is set. If the context is a copied one, there must also be frames to
 * assemble the message in. */
bool
room_has_frames(const struct proto *p, const struct context *c, uint32_t frames, bool held)
{
	if (p->rxd_free_count < p->rxd_reserved + frames - held)
		return false;
	return likely(!c->copied || frames == 1) ||
		p->assembling + frames <= p->cfg.assembly_frames_max;
}

/* Let blocked flows go on that now can, after frames ran short: note 3. */
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

/* Drop the frames that this flow and those blocked with it hold out of order, because descriptors
 * ran short. These frames may be all that is missing; if the flows kept them, they would wait for
 * each other for ever. */
static void
drop_held(struct proto *p, struct flow *f)
{
	flow_drop_held(p, f);
	for (uint32_t i = p->ctxs[f->ctx].blocked.head; i != NIL; i = BLOCKED_LINK(i))
		flow_drop_held(p, &p->flows[i]);
}

/* Put off the flow's next message, which cannot begin because frames ran short. What was granted to
 * it goes back, because a sender that is told of credit asks again at once, and takes the path's
 * window from others. The flow keeps its turn. */
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
	struct proto_list *l = &p->ctxs[f->ctx].blocked;
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

/* Let others have the room of a flow whose sender is frozen. Its next message, which waits for room
 * or was granted some, comes again when it goes on. Others need not wait for that. */
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

/* Return how many frames beyond rcv_nxt there is room for. A flow that is told 0 waits in the list
 * of blocked flows to be told more. */
uint16_t
room_credit(struct proto *p, struct flow *f)
{
	const struct context *c = &p->ctxs[f->ctx];
	/* a parked context does not even take the rest of a message */
	uint32_t room = c->entries, n = c->frozen == CONTEXT_PARKED ? 0 : f->frags_left;

	if (unlikely(f->flags & FLOW_BLOCKED))
		return (uint16_t)(n < WIRE_WINDOW_MAX ? n : WIRE_WINDOW_MAX);
	/* a frozen context takes not even what it has set room aside for */
	if (unlikely(f->flags & FLOW_GRANTED) && !c->frozen)
		n += f->need_bulks ? f->need_bulks : 1;
	/* No buffer is left for a message like the last one that was refused; a short one may come.
	 * If a window of them came, all but one would be discarded. */
	if (c->bulks == 0 && f->need_bulks && room > 1)
		room = 1;
	if (c->bulks && c->bulks < room)
		room = c->bulks;
	n += room;
	if (unlikely(n == 0))
		room_wait(p, f, 0, false);
	return (uint16_t)(n < WIRE_WINDOW_MAX ? n : WIRE_WINDOW_MAX);
}
