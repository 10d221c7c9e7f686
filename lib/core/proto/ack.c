/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Acks and Nacks, both ends. PM/UDP (IPSJ 1999) section 2: S2 (an Ack frees what it covers), S3 (a
 * Nack retransmits what it names); section 3: Ack compression, windows shrunk by Nacks and restored
 * by Acks. Owner thread only.
 *
 * Design notes
 * 1. An echo is the time stamp of the newest frame plus the time for which it was held. So the
 *    measured round trip is the network's, however long the Ack was delayed.
 * 2. A frame that a Nack names counts as lost only if it was sent no later than the frame that
 *    revealed the gap (the echo). So a second Nack for the same hole does not send the frame a
 *    third time.
 * 3. A receiver without room for a frame discards those behind it too. So what was sent with them
 *    is sent again in order once there is room. If it counted as kept or in flight, it would make a
 *    hole then, which looks like congestion.
 */
#include <errno.h>

#include "core/proto/internal.h"

#define ACK_LINK(i) p->flows[i].ack_next

/* PM-S2, when no frame counts as lost or kept: all are in flight, so they are freed in one piece.
 * Returns their bytes. */
static inline uint32_t
free_flight(struct proto *p, struct flow *f, struct path *t, uint32_t ack)
{
	uint32_t first = f->tx_head, i = first, last, bytes = 0, messages = 0;
	uint32_t frames = ack - f->snd_una;

	do {
		const struct txd *d = &p->txds[i];

		last = i;
		bytes += d->len + WIRE_HDR_BYTES;
		messages += d->done.last;
		i = d->next;
	} while (++f->snd_una != ack);
	f->tx_head = i;
	if (i == NIL)
		f->tx_tail = NIL;
	p->txds[last].next = NIL;
	if (list_empty(&p->done))
		p->done.head = first;
	else
		p->txds[p->done.tail].next = first;
	p->done.tail = last;
	HAS(p, COMPLETIONS);
	t->inflight_bytes -= bytes;
	t->inflight_frames -= frames;
	COUNT_N(p, messages_sent, messages);
	return bytes;
}

/* PM-S2. Returns the bytes that were Acked. */
static uint32_t
free_acked(struct proto *p, struct flow *f, struct path *t, uint32_t ack)
{
	uint32_t bytes = 0;

	if (likely(f->lost == 0 && f->kept == 0))
		return free_flight(p, f, t, ack);
	while (f->snd_una != ack) {
		uint32_t i = f->tx_head;
		struct txd *d = &p->txds[i];

		f->tx_head = d->next;
		f->snd_una++;
		if (unlikely(f->lost_cursor == i))
			f->lost_cursor = d->next;
		if (d->state == TXD_LOST)
			f->lost--; /* it was not lost, only late */
		else
			txd_landed(f, t, d);
		bytes += d->len + WIRE_HDR_BYTES;
		txd_done(p, i, 0);
	}
	if (f->tx_head == NIL)
		f->tx_tail = f->lost_cursor = NIL;
	return bytes;
}

/* Measure the round trip that the frame's echo tells. Return the part of it that congestion control
 * gets; 0 if there is no echo. The timeout is computed from the whole round trip, and the smallest
 * one is what the network takes when nothing waits. Congestion control gets the round trip without
 * the time that the frame and its Ack may have waited for the two hosts to poll, because a host
 * that shares its CPU does not mean a congested network. After a long absence that is less than the
 * network can take, so it says nothing of the smallest round trip. */
static uint32_t
measure_rtt(struct proto *p, struct path *t, const struct wire_hdr *h, uint32_t now_ts)
{
	uint32_t rtt = now_ts - wire_be32(h->echo);
	uint32_t hosts = gap_of(p) + (h->type == WIRE_DATA ? 0 : wire_be32(h->msg_len));

	if (!(h->flags & wire_be16(WIRE_F_ECHO)) || rtt > UINT32_MAX / 8)
		return 0;
	path_rtt(p, t, rtt);
	if (unlikely(p->arrivals != NULL))
		rtt = order_rtt(p, t->node, h->type != WIRE_DATA, rtt);
	if (t->cc.base_rtt == 0 || rtt < t->cc.base_rtt)
		t->cc.base_rtt = rtt ? rtt : 1;
	return t->cc.last_rtt = rtt > hosts ? rtt - hosts : 1;
}

/* Start the timer by which the flow asks for credit, if it lacks some: the Ack that brings credit
 * may be lost. To be called when nothing is in flight. */
void
flow_await_credit(struct proto *p, struct flow *f, uint64_t now)
{
	if (f->tx_next == NIL || wire_seq_before(f->snd_nxt, f->credit_end)) {
		f->rto_at = 0;
	} else if (f->rto_at == 0) {
		f->rto_at = now + flow_backoff(p, f);
		timer_arm(p, flow_index(p, f), f->rto_at);
	}
}

/* Note that the longest of so many frames that were Acked, from `first` on, passes. */
static void
learn_length(struct proto *p, struct path *t, uint32_t first, uint32_t frames)
{
	for (uint32_t i = first; frames-- > 0; i = p->txds[i].next) {
		if (p->txds[i].len > t->passes)
			path_passes(t, p->txds[i].len);
	}
}

void
ack_received(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	struct path *t = &p->paths[f->path];
	uint32_t ack = wire_be32(h->ack), now_ts = stamp_of(p, now);
	uint16_t credit = wire_be16(h->credit);

	if (f->tx_state == FLOW_TX_IDLE || wire_seq_before(ack, f->snd_una) ||
		wire_seq_before(f->snd_nxt, ack))
		return;
	uint32_t rtt = measure_rtt(p, t, h, now_ts);

	if (ack != f->snd_una) {
		bool used = t->inflight_bytes >= t->cc.window_bytes / 2 ||
			t->inflight_frames >= t->cc.window_frames / 2;
		const uint32_t first = f->tx_head, frames = ack - f->snd_una;
		uint32_t bytes = free_acked(p, f, t, ack);

		/* what is long on average has a long one */
		if (unlikely(bytes > PAYLOAD_SURE + WIRE_HDR_BYTES) && t->passes < t->payload_max &&
			(t->probe_len != 0 || bytes > frames * (PAYLOAD_SURE + WIRE_HDR_BYTES)))
			learn_length(p, t, first, frames);
		bool late = f->retries != 0;

		t->unasked = 0;

		f->tx_state = FLOW_TX_OPEN;
		f->retries = 0;
		f->flags &= ~FLOW_REFUSED;
		f->probes = f->asks = 0;
		f->rto_at = f->snd_una == f->snd_nxt ? 0 : now + t->probe;
		if (unlikely(late)) {
			path_acked_late(p, t, flow_index(p, f), h);
			if (f->rto_at)
				/* the timer is armed for a time after backoff */
				timer_arm(p, flow_index(p, f), f->rto_at);
		}
		p->cfg.cc->on_ack(&t->cc, used ? bytes : 0, rtt, t->srtt / 8, now_ts);
	} else if (credit == 0) {
		f->retries = 0; /* the peer is alive, but has no room */
	}
	if (unlikely(f->tx_state == FLOW_TX_OPENING && credit > 1))
		credit = 1; /* the opening frame goes alone until it is Acked */
	if (credit)
		f->asks = 0;
	f->credit_end = ack + credit;
	f->share = wire_be16(h->share);
	flow_allow_now(f, t);
	if (f->snd_una == f->snd_nxt)
		flow_await_credit(p, f, now);
	if (f->tx_next != NIL || f->lost)
		flow_activate(p, f);
	else
		path_activate(p, t);
}

static void
lose(struct flow *f, struct path *t, struct txd *d, uint32_t index)
{
	txd_lose(f, t, d);
	if (f->lost == 1 || f->lost_cursor == NIL)
		f->lost_cursor = index;
}

/* PM-S3: returns how many frames were found lost. Behind one that there was no room for, all are
 * that the receiver does not hold: note 3. */
static uint32_t
lose_named(struct proto *p, struct flow *f, struct path *t, const struct wire_hdr *h)
{
	const uint8_t *map = (const uint8_t *)(h + 1);
	uint32_t bits = wire_be16(h->payload_len) * 8u, ack = wire_be32(h->ack);
	uint32_t echo = wire_be32(h->echo), found = 0;
	bool back_n = p->cfg.recovery == PROTO_GO_BACK_N;
	bool full = h->flags & wire_be16(WIRE_F_FULL);

	for (uint32_t i = f->tx_head; i != NIL && i != f->tx_next; i = p->txds[i].next) {
		struct txd *d = &p->txds[i];
		uint32_t bit = d->seq - ack;
		bool named = back_n || (bit < bits ? map[bit / 8] >> bit % 8 & 1 : full);

		if (!back_n && !full && bit >= bits)
			break;
		if (!named) {
			if (d->state == TXD_INFLIGHT) {
				txd_landed(f, t, d);
				d->state = TXD_KEPT;
				f->kept++;
				flow_forbid_now(f);
			}
			continue;
		}
		if ((d->state == TXD_INFLIGHT || d->state == TXD_KEPT) &&
			!wire_seq_before(echo, d->sent_ts)) {
			lose(f, t, d, i);
			found++;
		}
	}
	if (found)
		f->lost_cursor = f->tx_head;
	return found;
}

/* Take in the Ack of what had come to the life of the receiver to which the flow was opened, and
 * which has ended. Return false if the frame has no such Ack, or if it is old. */
static bool
ack_from_the_ended(struct proto *p, struct flow *f, const struct wire_hdr *h)
{
	struct path *t = &p->paths[f->path];
	uint32_t ack = wire_be32(h->ack);

	if (!(h->flags & wire_be16(WIRE_F_ACK)) || f->tx_state == FLOW_TX_IDLE ||
		wire_seq_before(ack, f->snd_una) || wire_seq_before(f->snd_nxt, ack))
		return false;
	if (ack != f->snd_una) {
		free_acked(p, f, t, ack);
		path_activate(p, t);
	}
	if (f->tx_head == NIL)
		f->rto_at = 0;
	return true;
}

/* Return whether messages of the flow that did not come to one life of the receiver may go to the
 * next. Those of a watched flow may not, nor may those that belong to earlier ones. */
static bool
may_go_on(const struct flow *f)
{
	uint16_t endpoint = wire_endpoint(f->peer_ctx);

	return f->watchers == 0 && (endpoint == 0 || endpoint == WIRE_MATCHED);
}

/* Go on with another life of the receiver, after the frame told that the last one has ended. Return
 * whether the flow goes on with that. */
bool
flow_go_on(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	if (!ack_from_the_ended(p, f, h) || !may_go_on(f))
		return false;
	flow_reopen(p, f, now);
	return true;
}

/* Take in that the peer's context is not open, as it answers to the frame that was sent at `echo`.
 * End the flow's messages if they do not wait for longer. */
static void
refused(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	ack_from_the_ended(p, f, h);
	/* another copy of the frame may yet find the context open */
	if (f->snd_una == f->snd_nxt || wire_be32(h->seq) != f->snd_una ||
		wire_seq_before(wire_be32(h->echo), p->txds[f->tx_head].sent_ts))
		return;
	if (!(f->flags & FLOW_REFUSED)) {
		f->flags |= FLOW_REFUSED;
		f->refused_at = coarse_of(p, now);
	}
	f->unanswered = 0;
	uint16_t waited = (uint16_t)(coarse_of(p, now) - f->refused_at);

	/* a group's members ask again by themselves whom they wait for */
	if (wire_endpoint(f->peer_ctx) >= WIRE_GROUP || waited >= p->ctxs[f->ctx].open_wait)
		flow_fail(p, f, ECONNREFUSED);
}

void
nack_received(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	struct path *t = &p->paths[f->path];

	COUNT(p, rx_nacks);
	if (h->flags & wire_be16(WIRE_F_ABSENT)) {
		refused(p, f, h, now);
		return;
	}
	if (!(h->flags & wire_be16(WIRE_F_ACK)) || !(h->flags & wire_be16(WIRE_F_ECHO)))
		return;
	ack_received(p, f, h, now);
	if (wire_be32(h->ack) != f->snd_una || f->tx_head == NIL)
		return;
	if (h->flags & wire_be16(WIRE_F_FULL))
		f->retries = 0; /* the peer is alive, but has no room */
	uint32_t lost = lose_named(p, f, t, h);

	if (lost == 0)
		return;
	/* A lack of room is no congestion. The paper's algorithm cuts the window all the same, but
	 * not for each question. */
	bool cuts = !(h->flags & wire_be16(WIRE_F_FULL)) || (p->cfg.cc->full_cuts && !f->asks);
	bool many = lost >= 4 && lost * 3 > t->inflight_frames + lost;

	if (cuts && p->cfg.cc->on_nack(&t->cc, many, t->srtt / 8, stamp_of(p, now)))
		COUNT_OF(p, t, window_cuts);
	flow_activate(p, f);
}

/* Take in that the peer opens its direction of the flow and has no receive state for ours: the life
 * of the peer to which we opened the flow may have ended. */
void
flow_peer_began(struct proto *p, struct flow *f)
{
	bool refused = f->flags & FLOW_REFUSED;

	f->flags &= ~FLOW_REFUSED;
	if (f->tx_state == FLOW_TX_OPEN) {
		/* Frames in flight that were not refused may have crossed the peer's frame. So may
		 * frames that were Acked, which matters only if the flow is watched. */
		if (refused && may_go_on(f))
			flow_reopen(p, f, p->stamp_at);
		else if (refused || (f->tx_head == NIL && f->watchers == 0))
			flow_fail(p, f, ECONNRESET);
	} else if (refused && f->tx_head != NIL && p->txds[f->tx_head].state == TXD_INFLIGHT) {
		lose(f, &p->paths[f->path], &p->txds[f->tx_head], f->tx_head);
		f->retries = f->probes = f->asks = 0;
		f->credit_end = f->snd_una + 1; /* its former life may have had no room */
		/* an answer to the frame before may yet close the credit again, so the timer runs
		 * before the frame is sent anew */
		f->rto_at = p->stamp_at + p->paths[f->path].probe;
		timer_arm(p, flow_index(p, f), f->rto_at);
		flow_activate(p, f);
	}
}
