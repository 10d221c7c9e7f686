/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What waits to be sent, and what was: the lists of paths and flows, opening a flow, what counts as
 * lost, answers about flows that there are none of. Owner thread only.
 */
#include "core/proto/internal.h"

#define FLOW_LINK(i) p->flows[i].active_next
#define PATH_LINK(i) p->paths[i].active_next[class]
#define TXD_LINK(i)  p->txds[i].next

void
path_activate(struct proto *p, struct path *t)
{
	uint32_t index = (uint32_t)(t - p->paths);

	const unsigned more = t->listed & ~t->active;

	if (more == 0 || t->state != PATH_OPEN)
		return;
	for (unsigned class = 0; class < SEND_CLASSES; class ++) {
		if (more >> class & 1)
			LIST_APPEND(&p->ready[class], index, PATH_LINK);
	}
	t->active |= t->listed;
	HAS(p, FRAMES);
}

/* Put a flow into the list of those that have as little to send as it has now. */
void
flow_append(struct proto *p, struct flow *f)
{
	const enum send_class class = flow_class(f);
	struct path *t = &p->paths[f->path];

	LIST_APPEND(&t->flows[class], flow_index(p, f), FLOW_LINK);
	t->listed |= (uint8_t)(1u << class);
}

void
flow_enlist(struct proto *p, struct flow *f)
{
	if (!(f->flags & FLOW_ACTIVE)) {
		f->flags |= FLOW_ACTIVE;
		f->deficit = 0;
		flow_append(p, f);
	}
	path_activate(p, &p->paths[f->path]);
}

/* Forget which flows of the path may send. */
void
path_unlist(struct path *t)
{
	for (unsigned i = 0; i < SEND_CLASSES; i++)
		t->flows[i] = (struct proto_list){NIL, NIL};
	t->listed = 0;
}

void
txd_done(struct proto *p, uint32_t index, uint8_t error)
{
	struct txd *d = &p->txds[index];

	d->done.error = error;
	if (d->done.last) {
		if (error)
			COUNT(p, messages_failed);
		else
			COUNT(p, messages_sent);
	}
	LIST_APPEND(&p->done, index, TXD_LINK);
	HAS(p, COMPLETIONS);
}

/* Have the flow opened anew by what it sends next, since its receiver may have forgotten it or may
 * have ended. Going on with the same flow would show whether the receiver has ended. */
void
flow_close_tx(struct proto *p, struct flow *f)
{
	struct path *t = &p->paths[f->path];

	if (f->watchers && f->tx_state == FLOW_TX_OPEN)
		f->life = flow_next_life(p); /* it can no longer be found out whether the receiver
					      * has ended */
	if (f->tx_state != FLOW_TX_IDLE && wire_seq_before(t->isn_floor, f->snd_end))
		t->isn_floor = f->snd_end;
	f->tx_state = FLOW_TX_IDLE;
	flow_forbid_now(f);
}

/* Open the flow anew. */
void
flow_begin_tx(struct proto *p, struct flow *f)
{
	flow_close_tx(p, f);
	f->snd_una = f->snd_nxt = f->snd_end = ++p->paths[f->path].isn_floor;
	f->credit_end = f->snd_una + 1;
	f->tx_state = FLOW_TX_OPENING;
}

/* Return how long to wait for an Ack: the time doubles with every timeout that the peer left
 * unanswered, and with every question for room that it answered with "none". */
uint64_t
flow_backoff(const struct proto *p, const struct flow *f)
{
	uint32_t times = (uint32_t)f->retries + f->asks;
	uint64_t wait = p->paths[f->path].rto << (times < ASKS_MAX ? times : ASKS_MAX);

	return wait < p->rto_max ? wait : p->rto_max;
}

/* Count all that is in flight as lost. */
void
flow_lose_flight(struct proto *p, struct flow *f, struct path *t)
{
	/* the peer may have dropped since what it kept, if it needed the descriptors */
	bool kept = f->retries > 1;

	for (uint32_t i = f->tx_head; i != f->tx_next; i = p->txds[i].next) {
		struct txd *d = &p->txds[i];

		if (d->state != TXD_INFLIGHT && !(kept && d->state == TXD_KEPT))
			continue;
		txd_lose(f, t, d);
	}
	f->lost_cursor = f->tx_head;
}

/* Answer a frame that belongs to no flow here. ended: NULL, or the flow that it was of; the answer
 * then tells what came of it. The queue is bounded: what does not fit in is not answered, and its
 * sender asks again after its timeout. */
void
stray_reply(struct proto *p, const struct wire_hdr *h, uint8_t type, uint16_t flags,
	const struct flow *ended)
{
	if (p->stray_tail - p->stray_head == STRAYS)
		return;
	HAS(p, FRAMES);
	p->strays[p->stray_tail++ % STRAYS] = (struct stray){
		.node = wire_be16(h->src_node),
		.src_ctx = wire_be16(h->dst_ctx),
		.dst_ctx = wire_be16(h->src_ctx),
		.flags = ended != NULL ? flags | WIRE_F_ACK : flags,
		.type = type,
		.link = p->rx_link,
		.session = wire_be32(h->session),
		.seq = wire_be32(h->seq),
		.echo = flags & WIRE_F_ABSENT ? wire_be32(h->tstamp) : 0,
		.ack = ended != NULL ? ended->rcv_nxt : 0,
	};
}

/* Send one frame about a flow for which there is no other way to be sent; bounded as above.
 * Returns false if the queue is full. */
bool
flow_say(struct proto *p, const struct flow *f, uint8_t type, uint16_t flags, uint32_t seq)
{
	const struct path *t = &p->paths[f->path];

	if (t->state != PATH_OPEN)
		return true; /* there is nobody to hear it */
	if (p->stray_tail - p->stray_head == STRAYS)
		return false;
	HAS(p, FRAMES);
	p->strays[p->stray_tail++ % STRAYS] = (struct stray){
		.node = f->node,
		.src_ctx = f->ctx,
		.dst_ctx = f->peer_ctx,
		.flags = flags,
		.type = type,
		.session = t->session,
		.seq = seq,
		.ack = seq,
	};
	return true;
}
