/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Acks that are owed: at once, or within the delay that lets one Ack stand for many (PM-ACKC).
 * Owner thread only.
 */
#include "core/proto/internal.h"

#define ACK_LINK(i) p->flows[i].ack_next

static void
enlist(struct proto *p, struct flow *f, struct proto_list *l, uint16_t flag)
{
	f->flags |= flag;
	f->ack_prev = list_empty(l) ? NIL : l->tail;
	LIST_APPEND(l, flow_index(p, f), ACK_LINK);
}

/* Take the flow out of the list of Acks that it is in. The two lists share one pair of links. */
void
ack_unlist(struct proto *p, struct flow *f)
{
	struct proto_list *l = f->flags & FLOW_URGENT ? &p->acks_urgent : &p->acks_due;

	if (f->ack_prev == NIL)
		l->head = f->ack_next;
	else
		ACK_LINK(f->ack_prev) = f->ack_next;
	if (f->ack_next == NIL)
		l->tail = f->ack_prev;
	else
		p->flows[f->ack_next].ack_prev = f->ack_prev;
	if (f->ack_prev == NIL && f->flags & FLOW_ACK_DUE)
		p->due.ack_at = f->ack_next != NIL ? p->flows[f->ack_next].ack_at : UINT64_MAX;
	f->flags &= ~(FLOW_URGENT | FLOW_ACK_DUE);
}

void
ack_urgent(struct proto *p, struct flow *f, uint16_t flags)
{
	f->flags |= flags;
	if (f->flags & FLOW_URGENT || f->rx_state != FLOW_RX_OPEN)
		return;
	if (f->flags & FLOW_ACK_DUE)
		ack_unlist(p, f);
	enlist(p, f, &p->acks_urgent, FLOW_URGENT);
	HAS(p, FRAMES);
}

/* Owe an Ack for a frame that was received. The Ack may be delayed (PM-ACKC). acks_due is ordered
 * by ack_at. */
void
ack_owe(struct proto *p, struct flow *f, uint64_t now)
{
	if (++f->acks_owed >= p->cfg.ack_every) {
		ack_urgent(p, f, 0);
	} else if (!(f->flags & (FLOW_ACK_DUE | FLOW_URGENT))) {
		f->ack_at = now + p->ack_delay;
		if (list_empty(&p->acks_due))
			p->due.ack_at = f->ack_at;
		enlist(p, f, &p->acks_due, FLOW_ACK_DUE);
	}
}
