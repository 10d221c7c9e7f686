/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiving half of the PM core. PM/UDP (IPSJ 1999) section 2: R1 (in sequence: store, Ack), R2
 * (no room: discard, Nack), R3 (old: discard, Ack again), R4 (gap: Nack naming what is expected),
 * R5 (recovery = go-back-n: discard until that arrives). Owner thread only.
 *
 * Design notes
 * 1. No field of a frame is trusted before wire_check (or wire_is_plain) passed and the session
 *    matched. What a peer may still get wrong, fragments that do not fit together, ends its flow
 *    and does not affect this node.
 * 2. Frames out of order are held in a list sorted by sequence (arrivals are nearly sorted, so the
 *    tail is compared first: mostly that is the only comparison), with a bitmap to recognise
 *    duplicates.
 */
#include <errno.h>

#include "core/proto/internal.h"

#define RXD_LINK(i) p->rxds[i].next

/* The fields of a data frame that the handlers need, in host order. */
struct received_data {
	uint32_t seq, msg_len, frag_off;
	uint16_t len;
};

/* Return how many frames the message has, as its first fragment tells. */
static inline uint32_t
fragment_count(const struct received_data *d)
{
	return likely(d->len == d->msg_len) ? 1 : (d->msg_len + d->len - 1) / d->len;
}

/* Take room for a whole message whose first fragment arrived. Return false if there is none now. */
static bool
begin_message(struct proto *p, struct flow *f, const struct received_data *d, bool held)
{
	struct context *c = &p->ctxs[f->ctx];
	uint32_t frags = fragment_count(d);
	uint32_t bulks = d->msg_len <= c->inline_max && frags == 1 ? 0 : frags;

	if (unlikely(c->frozen)) {
		room_wait(p, f, bulks, true);
		return false;
	}
	/* Descriptors for the rest are reserved too, so that a partly received message can be
	 * completed. */
	if (unlikely(!room_has_frames(p, c, frags, held))) {
		room_starve(p, f, bulks);
		return false;
	}
	if (!room_take(p, f, bulks)) {
		room_wait(p, f, bulks, true);
		return false;
	}
	f->frags_left = frags;
	if (frags > 1) {
		flow_watch(p, f);
		p->assembling += c->copied ? frags : 0;
		if (frags > SHORT_FRAMES)
			grant_begin(p, f);
	}
	f->frags_bulks = bulks;
	f->frag_len = d->len;
	p->rxd_reserved += frags;
	if (unlikely(f->flags & FLOW_BLOCKED)) {
		room_unblock(p, f);
		room_add(p, c, 0, 0);
	}
	return true;
}

static bool
fragment_fits(const struct proto *p, const struct flow *f, const struct received_data *d)
{
	if (f->frags_left == 0)
		return d->frag_off == 0 && fragment_count(d) <= p->cfg.rx_frames_max &&
			(d->len == d->msg_len || fragment_count(d) <= p->ctxs[f->ctx].bulks_max);
	if (list_empty(&f->frags))
		return d->frag_off == 0;
	const struct rxd *before = &p->rxds[f->frags.tail];

	return d->msg_len == before->msg_len && d->frag_off == before->frag_off + before->len &&
		(f->frags_left == 1 ? d->frag_off + d->len == d->msg_len : d->len == f->frag_len);
}

/* Append the flow's frame rcv_nxt to its message, and if that is complete, deliver the message to
 * its context. */
static void
append_fragment(struct proto *p, struct flow *f, uint32_t index)
{
	struct rxd *r = &p->rxds[index];

	f->rcv_nxt++;
	p->rxd_reserved--;
	r->last = --f->frags_left == 0;
	if (likely(r->last && list_empty(&f->frags))) {
		LIST_APPEND(&p->delivered, index, RXD_LINK);
		HAS(p, DELIVERIES);
		COUNT(p, messages_delivered);
		return;
	}
	LIST_APPEND(&f->frags, index, RXD_LINK);
	if (!r->last)
		return;
	grant_end(p, f);
	if (list_empty(&p->delivered))
		p->delivered.head = f->frags.head;
	else
		RXD_LINK(p->delivered.tail) = f->frags.head;
	p->delivered.tail = f->frags.tail;
	HAS(p, DELIVERIES);
	f->frags = (struct proto_list){NIL, NIL};
	p->assembling -= p->ctxs[f->ctx].copied ? f->frags_bulks : 0;
	f->frags_bulks = 0;
	COUNT(p, messages_delivered);
}

static void
fill_rxd(struct rxd *r, const struct flow *f, const struct received_data *d, uint64_t handle)
{
	r->handle = handle;
	r->seq = d->seq;
	r->msg_len = d->msg_len;
	r->frag_off = d->frag_off;
	r->len = d->len;
	r->ctx = f->ctx;
	r->src_node = f->node;
	r->src_ctx = f->peer_ctx;
}

/* End this direction of the flow and tell its sender, because the peer's fragments do not fit
 * together. */
static void
refuse_flow(struct proto *p, struct flow *f, const struct received_data *d)
{
	uint32_t frags = fragment_count(d);
	bool too_long = frags > p->ctxs[f->ctx].bulks_max || frags > p->cfg.rx_frames_max;

	flow_abort_rx(p, f, FLOW_RX_CLOSED);
	flow_say(p, f, WIRE_RESET, too_long ? WIRE_F_FULL : 0, f->rcv_nxt);
}

/* Accept held frames that are now next in order, as far as there is room. */
void
flow_drain(struct proto *p, struct flow *f)
{
	while (unlikely(!list_empty(&f->ooo)) && p->rxds[f->ooo.head].seq == f->rcv_nxt) {
		uint32_t i = f->ooo.head;
		struct rxd *r = &p->rxds[i];
		const struct received_data d = {r->seq, r->msg_len, r->frag_off, r->len};

		if (!fragment_fits(p, f, &d)) {
			refuse_flow(p, f, &d);
			return;
		}
		if (f->frags_left == 0 && !begin_message(p, f, &d, true))
			return;
		LIST_POP(&f->ooo, RXD_LINK);
		p->held--;
		have_clear(f, d.seq);
		append_fragment(p, f, i);
	}
}

/* PM-R1, PM-R2 */
static enum proto_rx_result
rx_in_order(struct proto *p, struct flow *f, const struct received_data *d, uint64_t handle,
	uint64_t now)
{
	if (unlikely(!fragment_fits(p, f, d))) {
		COUNT(p, drop_field);
		refuse_flow(p, f, d);
		return PROTO_RX_DONE;
	}
	if (f->frags_left == 0 ? unlikely(!begin_message(p, f, d, false))
			       : unlikely(p->ctxs[f->ctx].frozen == CONTEXT_PARKED)) {
		FLOW_COUNT(p, f, drop_full);
		ack_urgent(p, f, FLOW_NACK | FLOW_FULL);
		f->acks_owed++; /* the Nack carries an echo */
		return PROTO_RX_DONE;
	}
	uint32_t i = rxd_take(p);

	fill_rxd(&p->rxds[i], f, d, handle);
	append_fragment(p, f, i);
	ack_owe(p, f, now);
	if (unlikely(p->arrivals != NULL))
		order_next(p, f, d->seq);
	flow_drain(p, f);
	if (p->cfg.recovery == PROTO_GO_BACK_N || wire_seq_before(f->rcv_high, f->rcv_nxt))
		f->rcv_high = f->rcv_nxt;
	COUNT(p, rx_accepted);
	return PROTO_RX_KEPT;
}

static void
receive_hold(struct proto *p, struct flow *f, uint32_t index)
{
	uint32_t seq = p->rxds[index].seq, before = NIL, i = f->ooo.head;

	if (!list_empty(&f->ooo) && wire_seq_before(p->rxds[f->ooo.tail].seq, seq)) {
		LIST_APPEND(&f->ooo, index, RXD_LINK);
		return;
	}
	while (i != NIL && wire_seq_before(p->rxds[i].seq, seq)) {
		before = i;
		i = p->rxds[i].next;
	}
	p->rxds[index].next = i;
	if (before == NIL)
		f->ooo.head = index;
	else
		p->rxds[before].next = index;
	if (i == NIL)
		f->ooo.tail = index;
}

/* PM-R4: Nack at once when a hole is new, again when the last Nack seems to have been lost; not
 * while what is missing may come yet by another link. */
static void
nack_gap(struct proto *p, struct flow *f, bool new_hole, uint64_t now)
{
	const struct path *t = &p->paths[f->path];
	uint32_t silence = stamp_of(p, now) - f->nack_ts;
	const uint32_t patience = order_is_mixed(p, f->node) ? order_wait(t)
							     : t->srtt / 4 + WIRE_TSTAMP_HZ / 20000;

	if (p->cfg.recovery == PROTO_SELECTIVE && order_lost_end(p, f) == f->rcv_nxt)
		return;
	f->acks_owed++;
	if (new_hole || silence > patience)
		ack_urgent(p, f, FLOW_NACK);
	else
		f->acks_owed--;
}

static enum proto_rx_result
rx_out_of_order(struct proto *p, struct flow *f, const struct received_data *d, uint64_t handle,
	uint64_t now)
{
	bool new_hole = p->cfg.recovery == PROTO_GO_BACK_N ? f->rcv_high == f->rcv_nxt
							   : wire_seq_before(f->rcv_high, d->seq);

	if (p->cfg.recovery == PROTO_GO_BACK_N) {
		if (wire_seq_before(f->rcv_high, d->seq + 1))
			f->rcv_high = d->seq + 1;
		FLOW_COUNT(p, f, drop_gap);
		nack_gap(p, f, new_hole, now);
		return PROTO_RX_DONE;
	}
	/* Held frames never take the descriptors that half-received messages need, nor those that
	 * the refused message before them may wait for. */
	if (f->flags & (FLOW_GRANTED | FLOW_DEMAND) || p->ctxs[f->ctx].frozen == CONTEXT_PARKED ||
		(p->cfg.hold_frames_max && p->held >= p->cfg.hold_frames_max) ||
		p->rxd_free_count <= p->rxd_reserved + p->cfg.rx_frames_max / 8) {
		FLOW_COUNT(p, f, drop_no_hold);
		return PROTO_RX_DONE;
	}
	uint32_t i = rxd_take(p);

	if (unlikely(p->arrivals != NULL))
		order_hold(p, f, d->seq);
	fill_rxd(&p->rxds[i], f, d, handle);
	receive_hold(p, f, i);
	p->held++;
	flow_watch(p, f);
	have_set(f, d->seq);
	if (wire_seq_before(f->rcv_high, d->seq + 1))
		f->rcv_high = d->seq + 1;
	if (unlikely(p->arrivals != NULL))
		new_hole = order_new_hole(p, f);
	p->share.holes += new_hole;
	nack_gap(p, f, new_hole, now);
	COUNT(p, rx_accepted);
	return PROTO_RX_KEPT;
}

/* Return whether the frame's flow is open, so that its sequence can be judged. An opening frame
 * opens the flow. */
static bool
flow_is_open(struct proto *p, struct flow *f, const struct wire_hdr *h, uint32_t seq)
{
	bool first = h->flags & wire_be16(WIRE_F_FIRST);

	if (likely(f->rx_state == FLOW_RX_OPEN)) {
		if (likely(!first) || !wire_seq_before(f->rcv_nxt, seq))
			return true;
		flow_abort_rx(p, f, FLOW_RX_CLOSED); /* its sender opened it anew */
	} else if (!first || (f->rx_state == FLOW_RX_CLOSED && !wire_seq_before(f->rcv_nxt, seq))) {
		COUNT(p, drop_unopened);
		stray_reply(p, h, WIRE_RESET, 0, f->rx_state == FLOW_RX_CLOSED ? f : NULL);
		return false;
	}
	f->rx_state = FLOW_RX_OPEN;
	f->rcv_nxt = f->rcv_high = seq;
	if (!(h->flags & wire_be16(WIRE_F_ACK)))
		flow_peer_began(p, f);
	return true;
}

/* Take in the Ack that a data frame for a closing context carries. Such a context takes no data,
 * but the Acks on it end what it still sends. */
static void
rx_late_ack(struct proto *p, const struct wire_hdr *h, uint64_t now)
{
	uint32_t index = flow_find(p, wire_be16(h->dst_ctx), wire_be16(h->src_node),
		wire_be16(h->src_ctx));

	if (index != NIL && h->flags & wire_be16(WIRE_F_ACK))
		ack_received(p, &p->flows[index], h, now);
}

/* Answer a frame for a context that is not open. If it was received before the context closed, it
 * is Acked again (PM-R3). */
static void
rx_absent(struct proto *p, struct path *t, const struct wire_hdr *h, uint32_t seq, uint64_t now)
{
	uint32_t i = flow_find(p, wire_be16(h->dst_ctx), wire_be16(h->src_node),
		wire_be16(h->src_ctx));
	struct flow *ended = i != NIL && p->flows[i].rx_state == FLOW_RX_CLOSED ? &p->flows[i]
										: NULL;

	if (ended != NULL && wire_seq_before(seq, ended->rcv_nxt)) {
		FLOW_COUNT(p, ended, drop_old);
		flow_say(p, ended, WIRE_ACK, WIRE_F_ACK, ended->rcv_nxt);
		return;
	}
	COUNT_OF(p, t, drop_absent);
	rx_late_ack(p, h, now);
	stray_reply(p, h, WIRE_NACK, WIRE_F_ABSENT, ended);
}

/* Send an Ack at once, or a Nack if there are holes, because the sender asks for the state of the
 * flow. */
static void
answer_now(struct proto *p, struct flow *f)
{
	ack_urgent(p, f,
		wire_seq_before(f->rcv_nxt, order_lost_end(p, f)) ? FLOW_NACK : FLOW_UPDATE);
}

/* Return whether the sender of an opening frame may send to the context. */
static bool
is_of_domain(const struct context *c, const struct wire_hdr *h)
{
	return c->domain == 0 ||
		(!(h->flags & wire_be16(WIRE_F_ECHO)) && wire_be32(h->echo) == c->domain);
}

/* Note that the flow's sender is there: its frame came now, and its time goes back with the next
 * Ack. */
static inline void
flow_heard(struct proto *p, struct flow *f, const struct wire_hdr *h)
{
	f->heard_ts = p->stamp;
	f->echo_base = wire_be32(h->tstamp) - f->heard_ts;
	f->echo_gap = gap_of(p);
	f->rx_link = p->rx_link;
}

/* Take a frame that was received before: answer, so that its sender hears of it. */
static void
rx_again(struct proto *p, struct flow *f, const struct wire_hdr *h, bool expected, uint64_t now)
{
	FLOW_COUNT(p, f, drop_old);
	stamp_of(p, now); /* by which answer_now judges what is late */
	/* a frame that is held, because it lacked room or descriptors: its sender asks */
	if (expected) {
		flow_heard(p, f, h);
		flow_drain(p, f);
	}
	if (f->acks_owed == 0)
		f->rx_link = p->rx_link; /* the answer has no echo, of another link's */
	answer_now(p, f);
}

static enum proto_rx_result
rx_data(struct proto *p, uint32_t path, const struct wire_hdr *h, uint64_t handle, uint64_t now)
{
	uint16_t ctx = wire_be16(h->dst_ctx);
	const struct received_data d = {wire_be32(h->seq), wire_be32(h->msg_len),
		wire_be32(h->frag_off), wire_be16(h->payload_len)};

	if (unlikely(ctx >= p->cfg.contexts_max || !p->ctxs[ctx].open)) {
		rx_absent(p, &p->paths[path], h, d.seq, now);
		return PROTO_RX_DONE;
	}
	if (unlikely(h->flags & wire_be16(WIRE_F_FIRST) && !is_of_domain(&p->ctxs[ctx], h))) {
		COUNT_OF(p, &p->paths[path], drop_domain);
		stray_reply(p, h, WIRE_NACK, WIRE_F_ABSENT, NULL);
		return PROTO_RX_DONE;
	}
	uint16_t node = wire_be16(h->src_node), peer = wire_be16(h->src_ctx);
	uint32_t index = flow_find(p, ctx, node, peer);

	if (unlikely(index == NIL)) {
		index = flow_make(p, ctx, node, peer, path, now);
		if (index == NIL) {
			COUNT(p, drop_no_flow);
			return PROTO_RX_DONE;
		}
	}
	struct flow *f = &p->flows[index];
	bool other = index != p->last_flow;

	p->last_flow = index;
	f->used_at = now;
	if (h->flags & wire_be16(WIRE_F_ACK))
		ack_received(p, f, h, now);
	if (unlikely(!flow_is_open(p, f, h, d.seq)))
		return PROTO_RX_DONE;
	uint32_t ahead = d.seq - f->rcv_nxt;

	if (unlikely((int32_t)ahead < 0 || (ahead < WIRE_WINDOW_MAX && have_test(f, d.seq)))) {
		rx_again(p, f, h, ahead == 0, now);
		return PROTO_RX_DONE;
	}
	if (unlikely(ahead >= p->cfg.window_frames)) {
		FLOW_COUNT(p, f, drop_beyond);
		return PROTO_RX_DONE;
	}
	stamp_of(p, now);
	if (other && share_wants(p, f))
		share_look(p, f, h);
	flow_heard(p, f, h);
	enum proto_rx_result r = likely(ahead == 0) ? rx_in_order(p, f, &d, handle, now)
						    : rx_out_of_order(p, f, &d, handle, now);

	if (unlikely(h->flags & wire_be16(WIRE_F_FIRST | WIRE_F_ASK))) {
		p->share.asks++;
		answer_now(p, f);
	}
	return r;
}

/* End one direction of a flow, because the peer says that it has ended. */
static void
rx_reset(struct proto *p, const struct wire_hdr *h, uint64_t now)
{
	uint32_t index = flow_find(p, wire_be16(h->dst_ctx), wire_be16(h->src_node),
		wire_be16(h->src_ctx));
	uint32_t seq = wire_be32(h->seq);

	COUNT(p, rx_accepted);
	if (index == NIL)
		return;
	struct flow *f = &p->flows[index];

	if (h->flags & wire_be16(WIRE_F_SENDER)) {
		if (f->rx_state != FLOW_RX_OPEN || wire_seq_before(seq, f->rcv_nxt))
			return;
		flow_abort_rx(p, f, FLOW_RX_CLOSED);
		f->rcv_nxt = f->rcv_high = seq;
	} else if (f->tx_state != FLOW_TX_IDLE && !wire_seq_before(seq, f->snd_una) &&
		wire_seq_before(seq, f->snd_nxt) && !flow_go_on(p, f, h, now)) {
		flow_fail(p, f, h->flags & wire_be16(WIRE_F_FULL) ? EMSGSIZE : ECONNRESET);
	}
}

static enum proto_rx_result
rx_control(struct proto *p, struct path *t, const struct wire_hdr *h, uint64_t now)
{
	uint32_t index;

	switch ((enum wire_type)h->type) {
	case WIRE_ACK:
	case WIRE_NACK:
		index = flow_find(p, wire_be16(h->dst_ctx), wire_be16(h->src_node),
			wire_be16(h->src_ctx));
		COUNT(p, rx_accepted);
		if (index == NIL)
			break;
		if (h->type == WIRE_ACK && h->flags & wire_be16(WIRE_F_ASK)) {
			flow_keep(p, &p->flows[index], wire_be32(h->ack), now);
			break;
		}
		p->flows[index].used_at = now;
		if (h->type == WIRE_NACK) {
			nack_received(p, &p->flows[index], h, now);
		} else {
			COUNT(p, rx_acks);
			if (h->flags & wire_be16(WIRE_F_ACK))
				ack_received(p, &p->flows[index], h, now);
		}
		break;
	case WIRE_PING:
		COUNT(p, rx_accepted);
		stray_reply(p, h, WIRE_PONG, 0, NULL);
		break;
	case WIRE_PONG:
		COUNT(p, rx_accepted);
		path_answered(p, t, wire_be32(h->seq));
		break;
	case WIRE_RESET:
		rx_reset(p, h, now);
		break;
	case WIRE_KEYS:
		COUNT(p, drop_sealed);
		break;
	case WIRE_DATA:
	case WIRE_HELLO:
	case WIRE_MULTI:
	case WIRE_LINK:
	case WIRE_TYPE_COUNT:
		break;
	}
	return PROTO_RX_DONE;
}

/* Make the sender of a frame of a session that is not ours shake hands, at most once per
 * rto_min. */
static void
greet_stranger(struct proto *p, uint32_t path, const struct wire_hdr *h, uint64_t now)
{
	if (path == NIL)
		path = path_of_sender(p, wire_be16(h->src_node), now);
	if (path == NIL)
		return;
	struct path *t = &p->paths[path];

	if (now < t->ask_at)
		return;
	t->ask_at = now + p->rto_min;
	path_greet(p, t, wire_be16(h->dst_ctx), wire_be16(h->src_ctx), true);
}

/* Drop a frame of no session that is ours. */
static void
stranger(struct proto *p, uint32_t path, const struct wire_hdr *h, uint64_t now)
{
	if (h->type == WIRE_KEYS) {
		COUNT(p, drop_sealed);
		if (path == NIL)
			path = path_of_sender(p, wire_be16(h->src_node), now);
		if (path != NIL)
			p->paths[path].wants_keys = true;
		return;
	}
	COUNT(p, drop_session);
	if (path != NIL)
		COUNT_PEER(&p->paths[path], drop_session, 1);
	greet_stranger(p, path, h, now);
}

static void
count_verdict(struct proto *p, enum wire_verdict v)
{
	static const enum proto_counter counter[] = {
		[WIRE_TRUNCATED] = PROTO_drop_truncated,
		[WIRE_OVERSIZED] = PROTO_drop_oversized,
		[WIRE_BAD_VERSION] = PROTO_drop_version,
		[WIRE_BAD_TYPE] = PROTO_drop_type,
		[WIRE_BAD_FLAGS] = PROTO_drop_flags,
		[WIRE_BAD_FIELD] = PROTO_drop_field,
	};

	p->counters[counter[v]]++;
}

/* Note for people that a frame of another version of the protocol came, and of which peer it claims
 * to be. That version has the numbers of nodes where ours has them. */
static void
note_version(struct proto *p, const struct wire_hdr *h)
{
	const uint16_t node = wire_be16(h->src_node);

	if (h->dst_node == wire_be16(p->cfg.node) && node < p->cfg.nodes_max &&
		p->path_of[node] != NIL && p->paths[p->path_of[node]].state != PATH_OPEN)
		p->paths[p->path_of[node]].other_version = h->version;
}

/* Return whether the frame is one by which a node says to all which number it has. */
static bool
is_announcement(const struct wire_hdr *h)
{
	struct wire_hello hello;

	if (h->type != WIRE_HELLO || h->src_node != h->dst_node)
		return false;
	memcpy(&hello, h + 1, sizeof(hello));
	return hello.nonce == 0;
}

static enum proto_rx_result
rx_announcement(const struct proto *p, const struct wire_hdr *h)
{
	struct wire_hello hello;

	memcpy(&hello, h + 1, sizeof(hello));
	if (h->src_node != wire_be16(p->cfg.node))
		return wire_be16(h->src_node) < p->cfg.nodes_max ? PROTO_RX_ANNOUNCED
								 : PROTO_RX_DONE;
	return hello.epoch != wire_be32(p->cfg.epoch) ? PROTO_RX_TWIN : PROTO_RX_DONE;
}

/* Note that a frame of the peer's session came. */
static inline void
path_heard(struct path *t, uint32_t len, uint64_t now)
{
	t->heard_at = t->count.heard_at = now;
	COUNT_PEER(t, rx_frames, 1);
	COUNT_PEER(t, rx_bytes, len);
}

/* Handle any frame, after checking it in full. */
static APART enum proto_rx_result
rx_checked(struct proto *p, const struct wire_hdr *h, uint32_t len, uint64_t handle, uint64_t now)
{
	enum wire_verdict v = wire_check(h, len, p->cfg.payload_max);

	if (v != WIRE_OK) {
		count_verdict(p, v);
		if (v == WIRE_BAD_VERSION)
			note_version(p, h);
		return PROTO_RX_DONE;
	}
	if (unlikely(is_announcement(h))) {
		COUNT(p, rx_accepted);
		return rx_announcement(p, h);
	}
	if (unlikely(h->type == WIRE_MULTI ? h->dst_node != wire_be16(WIRE_NOBODY)
					   : h->dst_node != wire_be16(p->cfg.node))) {
		COUNT(p, drop_not_mine);
		return PROTO_RX_DONE;
	}
	uint16_t node = wire_be16(h->src_node);

	if (unlikely(node >= p->cfg.nodes_max)) {
		COUNT(p, drop_no_node);
		return PROTO_RX_DONE;
	}
	if (unlikely(h->type == WIRE_MULTI)) {
		COUNT(p, rx_multi);
		return PROTO_RX_MULTI;
	}
	if (unlikely(h->type == WIRE_HELLO)) {
		path_rx_hello(p, h, now);
		return PROTO_RX_DONE;
	}
	uint32_t path = p->path_of[node];
	const bool known = path != NIL && p->paths[path].state == PATH_OPEN &&
		h->session == wire_be32(p->paths[path].session);

	if (unlikely(h->type == WIRE_LINK)) {
		if (!known && h->session != 0)
			greet_stranger(p, path, h, now);
		if (!known && !(h->flags & wire_be16(WIRE_F_ASK)) && path != NIL &&
			p->paths[path].state == PATH_OPEN) {
			COUNT_OF(p, &p->paths[path], drop_session);
			return PROTO_RX_DONE;
		}
		COUNT(p, rx_link);
		return PROTO_RX_LINK;
	}
	if (unlikely(!known)) {
		stranger(p, path, h, now);
		return PROTO_RX_DONE;
	}
	path_heard(&p->paths[path], len, now);
	if (likely(h->type == WIRE_DATA))
		return rx_data(p, path, h, handle, now);
	return rx_control(p, &p->paths[path], h, now);
}

/* Handle the Ack that a plain frame carries, and the Ack that is owed for it. */
static APART enum proto_rx_result
rx_plain_acks(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	ack_owe(p, f, now);
	if (h->flags & wire_be16(WIRE_F_ACK))
		ack_received(p, f, h, now);
	return PROTO_RX_MESSAGE;
}

/* Handle an Ack that comes alone. An open flow's path is open. */
static APART enum proto_rx_result
rx_ack(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now)
{
	path_heard(&p->paths[f->path], WIRE_HDR_BYTES, now);
	f->used_at = now;
	COUNT(p, rx_accepted);
	COUNT(p, rx_acks);
	ack_received(p, f, h, now);
	return PROTO_RX_DONE;
}

/* Return whether the Ack that a data frame carries says something new. Those behind the first one
 * of a burst mostly do not. */
static inline bool
ack_is_news(const struct flow *f, const struct wire_hdr *h)
{
	const uint32_t ack = wire_be32(h->ack), credit = wire_be16(h->credit);

	return h->flags & wire_be16(WIRE_F_ECHO) || ack != f->snd_una || credit == 0 || f->asks ||
		ack + credit != f->credit_end || wire_be16(h->share) != f->share;
}

/* Handle the common frame by the fast path: a whole message, next in order, of a flow with nothing
 * in its way. If a flow is open, so is its path. other: the frame before it was of another flow. */
static inline enum proto_rx_result
rx_plain(struct proto *p, struct flow *f, const struct wire_hdr *h, uint32_t len, uint64_t handle,
	uint64_t now, bool other)
{
	struct path *t = &p->paths[f->path];
	struct context *c = &p->ctxs[f->ctx];
	uint32_t msg_len = len - WIRE_HDR_BYTES, bulks = msg_len > c->inline_max;

	if (unlikely(h->session != wire_be32(t->session) || h->seq != wire_be32(f->rcv_nxt) ||
		    msg_len > p->cfg.payload_max || f->rx_state != FLOW_RX_OPEN || f->frags_left ||
		    !list_empty(&f->ooo) || f->flags & (FLOW_GRANTED | FLOW_BLOCKED) ||
		    !list_empty(&c->blocked) || c->entries == 0 || c->bulks < bulks ||
		    !list_empty(&p->delivered)))
		return rx_checked(p, h, len, handle, now);
	if (other) {
		p->last_flow = flow_index(p, f);
		stamp_of(p, now);
		if (share_wants(p, f))
			share_look(p, f, h);
	}
	path_heard(t, len, now);
	f->used_at = now;
	c->entries--;
	c->bulks -= bulks;
	f->rcv_high = ++f->rcv_nxt;
	stamp_of(p, now);
	flow_heard(p, f, h);
	COUNT(p, messages_delivered);
	COUNT(p, rx_accepted);
	if ((h->flags & wire_be16(WIRE_F_ACK) && ack_is_news(f, h)) || !(f->flags & FLOW_ACK_DUE) ||
		f->acks_owed + 1 >= p->cfg.ack_every)
		return rx_plain_acks(p, f, h, now);
	f->acks_owed++;
	return PROTO_RX_MESSAGE;
}

/* Handle a frame that is not the common one of the flow that the last frame was of. */
static APART enum proto_rx_result
rx_other(struct proto *p, const struct wire_hdr *h, uint32_t len, uint64_t handle, uint64_t now)
{
	uint32_t index = len < WIRE_HDR_BYTES
		? NIL
		: flow_find(p, wire_be16(h->dst_ctx), wire_be16(h->src_node),
			  wire_be16(h->src_ctx));

	if (unlikely(index == NIL))
		return rx_checked(p, h, len, handle, now);
	struct flow *f = &p->flows[index];

	if (likely(wire_is_plain(h, len, f->wire_head, f->wire_ctxs)))
		return rx_plain(p, f, h, len, handle, now, true);
	if (wire_is_ack(h, len, f->wire_head, f->wire_ctxs) &&
		h->session == wire_be32(p->paths[f->path].session))
		return rx_ack(p, f, h, now);
	return rx_checked(p, h, len, handle, now);
}

enum proto_rx_result
proto_rx(struct proto *p, const void *frame, uint32_t len, uint64_t handle, uint64_t now)
{
	struct flow *f = &p->flows[p->last_flow];

	COUNT(p, rx_frames);
	if (likely(wire_is_plain(frame, len, f->wire_head, f->wire_ctxs)))
		return rx_plain(p, f, frame, len, handle, now, false);
	return rx_other(p, frame, len, handle, now);
}

static void
deliveries_pulled(struct proto *p)
{
	if (list_empty(&p->delivered) && list_empty(&p->released))
		p->due.has &= ~PROTO_HAS_DELIVERIES;
}

unsigned
proto_deliver(struct proto *p, struct proto_delivery *out, unsigned n)
{
	unsigned k = 0;

	for (; k < n && !list_empty(&p->delivered); k++) {
		uint32_t i = p->delivered.head;
		const struct rxd *r = &p->rxds[i];

		LIST_POP(&p->delivered, RXD_LINK);
		out[k] = (struct proto_delivery){
			.handle = r->handle,
			.msg_len = r->msg_len,
			.frag_off = r->frag_off,
			.len = r->len,
			.ctx = r->ctx,
			.src_node = r->src_node,
			.src_ctx = r->src_ctx,
			.last = r->last,
		};
		rxd_put(p, i);
	}
	deliveries_pulled(p);
	return k;
}

unsigned
proto_release(struct proto *p, uint64_t *handles, unsigned n)
{
	unsigned k = 0;

	for (; k < n && !list_empty(&p->released); k++) {
		uint32_t i = p->released.head;

		LIST_POP(&p->released, RXD_LINK);
		handles[k] = p->rxds[i].handle;
		rxd_put(p, i);
	}
	deliveries_pulled(p);
	return k;
}
