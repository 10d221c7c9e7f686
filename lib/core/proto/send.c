/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sending half of the PM core: taking messages, choosing the next frame, building headers,
 * retransmission. PM/UDP (IPSJ 1999) section 2: S1 (sequence, keep until Ack), S3 (a Nack
 * retransmits), S4 (timeout); section 3: the window of advance messages. Owner thread only.
 *
 * Design notes
 * 1. Who sends next: flows that have little to send go before those that have much, so that a short
 *    message leaves after at most one frame of another flow's bulk, to whatever node; one turn in
 *    four is the others' all the same. Among equals paths take turns, and within a path flows, by
 *    bytes (deficit round robin, one full frame a turn). It is what is left to send that counts, so
 *    the end of a long message goes before the middle of another (shortest remaining first, as in
 *    Homa, SIGCOMM 2018, section 3.2).
 * 2. A frame may leave if its flow has credit and window and its path has window. A flow without
 *    credit or window leaves its path's list, and the Ack that brings them puts it back. A path
 *    without window, or whose session is not agreed yet, leaves the list of paths.
 * 3. After a timeout everything in flight counts as lost.
 * 4. Without credit the oldest frame is still sent now and then: it asks for room, and does no harm
 *    if it is refused. A lack of room at the receiver is neither congestion nor loss, so a question
 *    does not cut the window that the other flows share. Questions become rarer, down to one per
 *    rto_max, as they are answered with "none"; the receiver announces room by itself. Only a
 *    question without an answer counts as a timeout.
 * 5. Acks that wait for company (PM-ACKC) are too late for a small window, which would be used up
 *    meanwhile. So a flow that has more to send asks for an Ack when a quarter of its path's window
 *    or of its share has left since the last one came or was asked for, as does whoever uses up the
 *    rest.
 * 6. A long message begins with twice what fills the link, if that is known, and at most
 *    UNGRANTED_MAX frames. Then its receiver has told how much it may have in flight (grants.c).
 *    All of a path's window at once would wait in the receiver's port, with what others send.
 */
#include <errno.h>
#include <string.h>

#include "core/proto/internal.h"

/* most turns of short ones before one of the others: they leave these a quarter */
#define SHORT_TURNS 3

/* full frames; less is not worth an Ack: note 5 */
#define ASK_FRAMES 4

#define UNGRANTED_MAX 8 /* frames: note 6 */

#define FLOW_LINK(i) p->flows[i].active_next
#define PATH_LINK(i) p->paths[i].active_next[class]
#define TXD_LINK(i)  p->txds[i].next

/* Return whether the peer certainly remembers the flow still: flow.c, note 2. */
static inline bool
peer_remembers(const struct proto *p, const struct flow *f, uint64_t now)
{
	return now - f->used_at < (f->watchers ? p->flow_idle / 2 : p->reopen);
}

/* Open the flow, or open it again after a silence. */
static void
open_tx(struct proto *p, struct flow *f, uint64_t now)
{
	if (f->tx_state != FLOW_TX_OPEN || !peer_remembers(p, f, now))
		flow_begin_tx(p, f);
}

/* Append the descriptors `first` to `last`, which are linked, to the flow's queue. */
static inline void
txds_append(struct proto *p, struct flow *f, uint32_t first, uint32_t last)
{
	p->txds[last].next = NIL;
	if (f->tx_head == NIL)
		f->tx_head = first;
	else
		p->txds[f->tx_tail].next = first;
	f->tx_tail = last;
}

/* Append one frame of a message to the flow's queue. The caller must have checked that a descriptor
 * is free. */
static inline void
enqueue(struct proto *p, struct flow *f, const struct proto_message *m, uint64_t handle,
	uint32_t off, uint32_t len)
{
	uint32_t index = p->txd_free;
	struct txd *d = &p->txds[index];

	p->txd_free = d->next;
	p->txd_free_count--;
	txds_append(p, f, index, index);
	d->done = (struct proto_completion){
		.handle = handle,
		.ctx = m->ctx,
		.last = off + len == m->len,
	};
	d->seq = f->snd_end++;
	d->msg_len = m->len;
	d->frag_off = off;
	d->len = len;
	d->state = TXD_UNSENT;
	d->sent = false;
	if (f->tx_next == NIL)
		f->tx_next = index;
	flow_forbid_now(f);
}

static void
enqueue_fragments(struct proto *p, struct flow *f, const struct proto_message *m,
	const uint64_t *handles)
{
	for (uint32_t off = 0; off < m->len; off += m->frag_len, handles++) {
		uint32_t left = m->len - off;

		enqueue(p, f, m, *handles, off, left < m->frag_len ? left : m->frag_len);
	}
}

/* Return the flow of a message, made if there was none; NIL if none is free. */
static uint32_t
flow_for(struct proto *p, const struct proto_message *m, uint64_t now)
{
	uint32_t index = flow_search(p, proto_flow_key(m->ctx, m->dst_node, m->dst_ctx));

	if (index != NIL)
		return index;
	uint32_t path = path_get(p, m->dst_node, now);

	if (path == NIL)
		return NIL;
	return flow_make(p, m->ctx, m->dst_node, m->dst_ctx, path, now);
}

uint32_t
proto_flow_watch(struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx, uint64_t now)
{
	const struct proto_message m = {.ctx = ctx, .dst_node = node, .dst_ctx = dst_ctx};
	uint32_t index = node < p->cfg.nodes_max ? flow_for(p, &m, now) : NIL;

	if (index == NIL)
		return 0;
	struct flow *f = &p->flows[index];

	/* a flow that has been silent is opened anew now, which is no sign of the receiver's end */
	if (f->watchers == 0 && f->tx_state == FLOW_TX_OPEN && f->tx_head == NIL)
		open_tx(p, f, now);
	f->watchers++;
	return f->life;
}

uint32_t
proto_flow_life(const struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx)
{
	uint32_t index = flow_search(p, proto_flow_key(ctx, node, dst_ctx));

	return index != NIL ? p->flows[index].life : 0;
}

void
proto_flow_unwatch(struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx)
{
	uint32_t index = flow_search(p, proto_flow_key(ctx, node, dst_ctx));

	if (index != NIL && p->flows[index].watchers != 0) /* it may be another flow by now */
		p->flows[index].watchers--;
}

/* Bound what is sent of a long message before its receiver is heard: note 6. */
static void
begin_long(const struct proto *p, struct flow *f, const struct path *t)
{
	if (p->grants.frames_per_unit == 0 || f->tx_head != NIL || p->ctxs[f->ctx].permits)
		return;
	const uint32_t link = grant_link_frames(p, t);

	f->share = link < UNGRANTED_MAX / 2 ? (uint16_t)(2 * link) : UNGRANTED_MAX;
}

/* Send any message, after checking it in full. */
static APART int
send_checked(struct proto *p, const struct proto_message *m, const uint64_t *handles, uint64_t now)
{
	if (m->ctx >= p->cfg.contexts_max || !p->ctxs[m->ctx].open || m->frag_len == 0 ||
		m->frag_len > p->cfg.payload_max)
		return -EINVAL;
	if (m->dst_node >= p->cfg.nodes_max || m->dst_ctx == WIRE_NOBODY)
		return -EHOSTUNREACH;
	uint32_t frags = m->len <= m->frag_len ? 1 : (m->len + m->frag_len - 1) / m->frag_len;

	if (m->len > WIRE_MESSAGE_MAX || frags > p->cfg.tx_frames_max)
		return -EMSGSIZE;
	if (p->txd_free_count < frags)
		return -EAGAIN;
	uint32_t index = flow_for(p, m, now);

	if (index == NIL)
		return -EAGAIN;
	struct flow *f = &p->flows[index];
	struct path *t = &p->paths[f->path];

	if (t->state == PATH_OPEN && m->frag_len > t->payload_max && m->len > t->payload_max)
		return -EMSGSIZE;
	p->last_tx = index;
	if (f->tx_head == NIL)
		open_tx(p, f, now);
	if (frags > SHORT_FRAMES)
		begin_long(p, f, t);
	if (frags == 1)
		enqueue(p, f, m, *handles, 0, m->len);
	else
		enqueue_fragments(p, f, m, handles);
	p->ctxs[m->ctx].pending += frags;
	f->used_at = now;
	flow_activate(p, f);
	if (f->snd_una == f->snd_nxt && f->credit_end == f->snd_nxt)
		flow_await_credit(p, f, now);
	if (t->state == PATH_NEW)
		path_ask(p, t, m->ctx, m->dst_ctx, now);
	return 0;
}

int
proto_send(struct proto *p, const struct proto_message *m, const uint64_t *handles, uint64_t now)
{
	/* Fast path for the common message: one frame, on the open flow that the last message took.
	 * If a flow is open, so is its path. */
	struct flow *f = &p->flows[p->last_tx];
	const struct path *t = &p->paths[f->path];
	struct context *c = &p->ctxs[f->ctx];

	if (unlikely(f->tx_state != FLOW_TX_OPEN ||
		    f->key != proto_flow_key(m->ctx, m->dst_node, m->dst_ctx) ||
		    m->len > m->frag_len || m->len > t->payload_max || p->txd_free == NIL ||
		    !c->open || now - f->used_at >= p->reopen ||
		    (f->snd_una == f->snd_nxt && f->credit_end == f->snd_nxt)))
		return send_checked(p, m, handles, now);
	enqueue(p, f, m, *handles, 0, m->len);
	c->pending++;
	f->used_at = now;
	flow_activate(p, f);
	return 0;
}

/* Return the fields that every frame of a flow has. */
static inline struct wire_fields
flow_fields(const struct proto *p, const struct flow *f, uint8_t type, uint32_t now_ts)
{
	return (struct wire_fields){
		.type = type,
		.src_node = p->cfg.node,
		.dst_node = f->node,
		.src_ctx = f->ctx,
		.dst_ctx = f->peer_ctx,
		.session = p->paths[f->path].session,
		.tstamp = now_ts,
	};
}

/* Piggyback the Ack that is owed to the reverse flow on this frame. */
static inline void
put_ack(struct proto *p, struct wire_fields *w, struct flow *f, uint32_t now_ts)
{
	if (f->rx_state != FLOW_RX_OPEN)
		return;
	w->ack = f->rcv_nxt;
	w->credit = flow_credit(p, f);
	if (unlikely((p->share.each | p->grants.count) && !p->ctxs[f->ctx].permits)) {
		w->share = grant_share(p, f, now_ts);
		COUNT_N(p, tx_shares, w->share != 0);
	}
	w->flags |= WIRE_F_ACK;
	/* A Nack needs its echo even if a data frame has taken the Ack with it: ack.c, note 2. */
	if (f->acks_owed || w->type == WIRE_NACK) {
		w->flags |= WIRE_F_ECHO;
		w->echo = f->echo_base + now_ts;
		f->acks_owed = 0;
	}
	if (f->flags & FLOW_ACK_DUE)
		ack_unlist(p, f);
	f->flags &= ~FLOW_UPDATE;
}

static inline bool
path_has_window(const struct path *t)
{
	return t->inflight_bytes < t->cc.window_bytes && t->inflight_frames < t->cc.window_frames;
}

/* Write the frame of a descriptor; `w` has what the frames of a turn have in common. */
static inline void
put_data(struct proto_out *o, struct txd *d, struct wire_fields *w, uint32_t now_ts)
{
	w->payload_len = (uint16_t)d->len;
	w->seq = d->seq;
	w->msg_len = d->msg_len;
	w->frag_off = d->frag_off;
	wire_put(o->head, w);
	o->handle = d->done.handle;
	o->len = d->len;
	o->node = w->dst_node;
	o->head_len = WIRE_HDR_BYTES;
	o->again = d->sent;
	d->state = TXD_INFLIGHT;
	d->sent_ts = now_ts;
	d->sent = true;
}

static APART void
flow_timer_start(struct proto *p, struct flow *f, const struct path *t, uint64_t now)
{
	f->rto_at = now + (f->retries || f->probes ? flow_backoff(p, f) : t->probe);
	timer_arm(p, flow_index(p, f), f->rto_at);
}

/* Begin a flow's turn, and return what its data frames have in common. To be called only if the
 * turn sends something. */
static inline struct wire_fields
begin_turn(struct proto *p, struct flow *f, const struct path *t, uint32_t now_ts, uint64_t now)
{
	struct wire_fields w = flow_fields(p, f, WIRE_DATA, now_ts);

	put_ack(p, &w, f, now_ts);
	if (unlikely(f->tx_state == FLOW_TX_OPENING)) {
		w.flags |= WIRE_F_FIRST;
		if (p->ctxs[f->ctx].domain != 0) {
			w.flags &= (uint16_t)~WIRE_F_ECHO;
			w.echo = p->ctxs[f->ctx].domain;
		}
	}
	if (f->rto_at == 0)
		flow_timer_start(p, f, t, now);
	return w;
}

/* Return whether the flow has as many frames in flight as its receiver allows. A probe may go all
 * the same, because frames believed to be in flight may be lost. */
static inline bool
share_used(const struct flow *f)
{
	return f->share && f->snd_nxt - f->snd_una - f->kept - f->lost >= f->share &&
		!(f->flags & FLOW_PROBE);
}

/* Send messages at once, as many of n as fit into `room` bytes of window; the first one does. Their
 * descriptors are linked already, because they come from the free list. Return how many left. This
 * is inlined for one message and for several, because one is common and needs much less. */
static ALWAYS_INLINE unsigned
send_run(struct proto *p, struct flow *f, struct path *t, const struct proto_now *m, unsigned n,
	uint32_t room, uint64_t now)
{
	uint32_t now_ts = stamp_of(p, now), first = p->txd_free, last = first, next = first;
	uint32_t bytes = 0;
	struct wire_fields w = {.session = t->session, .seq = f->snd_nxt, .tstamp = now_ts};
	unsigned k = 0;

	put_ack(p, &w, f, now_ts);
	do {
		struct txd *d = &p->txds[next];

		w.payload_len = (uint16_t)m[k].len;
		w.msg_len = m[k].len;
		wire_put_flow(m[k].head, f->wire_head, f->wire_ctxs, &w);
		w.flags &= ~WIRE_F_ECHO;
		d->done.handle = m[k].handle;
		d->done.ctx = f->ctx;
		d->done.error = 0;
		d->done.last = true;
		d->seq = w.seq++;
		d->msg_len = d->len = m[k].len;
		d->frag_off = 0;
		d->sent_ts = now_ts;
		d->state = TXD_INFLIGHT;
		d->sent = true;
		bytes += m[k].len + WIRE_HDR_BYTES;
		last = next;
		next = d->next;
		k++;
	} while (k < n && m[k].len <= t->payload_max && bytes + m[k].len + WIRE_HDR_BYTES < room);
	p->txd_free = next;
	p->txd_free_count -= k;
	txds_append(p, f, first, last);
	f->snd_end = f->snd_nxt = w.seq;
	f->used_at = now;
	t->inflight_bytes += bytes;
	t->inflight_frames += k;
	p->ctxs[f->ctx].pending += k;
	COUNT_N(p, tx_data, k);
	COUNT_N(p, tx_frames, k);
	COUNT_PEER(t, tx_frames, k);
	COUNT_PEER(t, tx_bytes, bytes);
	return k;
}

unsigned
proto_send_now(struct proto *p, uint64_t flow_key, const struct proto_now *messages, unsigned n,
	uint64_t now)
{
	struct flow *f = &p->flows[p->last_tx];

	if (f->key != flow_key) {
		uint32_t index = flow_search(p, flow_key);

		if (unlikely(index == NIL))
			return 0;
		p->last_tx = index;
		f = &p->flows[index];
	}
	struct path *t = &p->paths[f->path];
	/* The last frame that uses up the flow's credit or window or the path's would have to ask
	 * for an Ack, so it does not leave here. */
	uint32_t flow_left = f->now_end - f->snd_nxt;
	uint32_t path_left = t->cc.window_frames - 1 - t->inflight_frames;
	uint32_t room = t->cc.window_bytes - t->inflight_bytes;

	if (unlikely((int32_t)flow_left <= 0 || (int32_t)path_left <= 0 ||
		    (int32_t)room <= (int32_t)(messages->len + WIRE_HDR_BYTES) || any_ready(p) ||
		    p->txd_free == NIL || messages->len > t->payload_max ||
		    now - f->used_at >= p->reopen))
		return 0;
	if (unlikely(f->rto_at == 0))
		flow_timer_start(p, f, t, now);
	if (n == 1)
		return send_run(p, f, t, messages, 1, room, now);
	if (n > flow_left)
		n = flow_left;
	if (n > path_left)
		n = path_left;
	if (n > p->txd_free_count)
		n = p->txd_free_count;
	return send_run(p, f, t, messages, n, room, now);
}

/* Send lost frames again, oldest first, as far as the flow's turn, its credit and the path's window
 * allow (PM-S3). */
static unsigned
send_lost(struct proto *p, struct flow *f, struct path *t, struct proto_out *out, unsigned n,
	uint32_t now_ts, uint64_t now)
{
	struct wire_fields w = {.flags = 0};
	unsigned k = 0;

	if (unlikely(p->ctxs[f->ctx].frozen >= CONTEXT_HELD))
		return 0;
	while (k < n && f->lost && f->deficit > 0 && path_has_window(t) && !share_used(f)) {
		uint32_t i = f->lost_cursor;

		while (p->txds[i].state != TXD_LOST)
			i = p->txds[i].next;
		f->lost_cursor = i;
		struct txd *d = &p->txds[i];
		uint32_t size = d->len + WIRE_HDR_BYTES;

		if (!wire_seq_before(d->seq, f->credit_end))
			break;
		if (k == 0)
			w = begin_turn(p, f, t, now_ts, now);
		f->lost--;
		f->flags &= ~FLOW_PROBE;
		f->deficit -= (int32_t)size;
		t->inflight_bytes += size;
		t->inflight_frames++;
		if (!path_has_window(t) || share_used(f) || f->snd_nxt == f->credit_end ||
			f->snd_nxt - f->snd_una >= t->window)
			w.flags |= WIRE_F_ASK;
		put_data(&out[k++], d, &w, now_ts);
		w.flags &= ~(WIRE_F_ECHO | WIRE_F_ASK);
		COUNT_OF(p, t, tx_retransmits);
	}
	return k;
}

/* Return whether so much has been sent since an Ack was asked for that it is time to: note 5. */
static inline bool
asks_now(const struct flow *f, const struct path *t)
{
	if (unlikely(f->share != 0 && f->snd_end - f->snd_nxt > SHORT_FRAMES &&
		    (t->unasked >= f->share * t->cc.step / 4 ||
			    t->unasked >= ASK_SHARE_MAX * t->cc.step)))
		return true;
	return t->unasked >= t->cc.window_bytes / 4 && t->unasked >= ASK_FRAMES * t->cc.step;
}

/* Send new frames, as far as the flow's turn and limit and the path's window allow. */
static unsigned
send_new(struct proto *p, struct flow *f, struct path *t, struct proto_out *out, unsigned n,
	uint32_t now_ts, uint64_t now)
{
	uint32_t left = flow_limit(f, t) - f->snd_nxt, i = f->tx_next;
	uint32_t path_left = t->cc.window_frames - t->inflight_frames;
	uint32_t room = t->cc.window_bytes - t->inflight_bytes, bytes = 0;
	uint32_t most = room < (uint32_t)f->deficit ? room : (uint32_t)f->deficit;
	unsigned k = 0;

	if (i == NIL || (int32_t)left <= 0 || n == 0 || f->deficit <= 0 || !path_has_window(t))
		return 0;
	if (path_left < left)
		left = path_left;
	if (unlikely(f->flags & FLOW_FROZEN)) {
		const uint32_t rest = flow_rest(p, f);

		if (rest == 0)
			return 0;
		left = rest < left ? rest : left;
	}
	if (n > left)
		n = left;
	struct wire_fields w = begin_turn(p, f, t, now_ts, now);

	do {
		struct txd *d = &p->txds[i];

		bytes += d->len + WIRE_HDR_BYTES;
		put_data(&out[k++], d, &w, now_ts);
		w.flags &= ~WIRE_F_ECHO;
		i = d->next;
	} while (i != NIL && k < n && bytes < most);
	f->tx_next = i;
	f->snd_nxt += k;
	t->unasked += bytes;
	if (unlikely(k == left || bytes >= room || (i != NIL && asks_now(f, t)))) {
		t->unasked = 0;
		wire_add_flags(out[k - 1].head, WIRE_F_ASK);
	}
	flow_allow_now(f, t);
	f->deficit -= (int32_t)bytes;
	t->inflight_bytes += bytes;
	t->inflight_frames += k;
	COUNT_N(p, tx_data, k);
	COUNT_PEER(t, tx_frames, k);
	COUNT_PEER(t, tx_bytes, bytes);
	return k;
}

/* Return whether there is nothing that this flow could send, even if the path had window. */
static inline bool
flow_done(const struct proto *p, const struct flow *f, const struct path *t)
{
	if (unlikely(f->lost)) /* the cursor may be before the first lost frame, but not behind
				* it */
		return share_used(f) ||
			!wire_seq_before(p->txds[f->lost_cursor].seq, f->credit_end) ||
			p->ctxs[f->ctx].frozen >= CONTEXT_HELD;
	return f->tx_next == NIL || (int32_t)(flow_limit(f, t) - f->snd_nxt) <= 0 ||
		unlikely(f->flags & FLOW_FROZEN && flow_rest(p, f) == 0);
}

/* Give the path's first flow a turn; it leaves the list if it has nothing more to send now. */
static unsigned
flow_turn(struct proto *p, struct path *t, enum send_class class, struct proto_out *out, unsigned n,
	uint32_t now_ts, uint64_t now)
{
	struct proto_list *flows = &t->flows[class];
	uint32_t self = flows->head;
	struct flow *f = &p->flows[self];
	unsigned k = 0;

	if (f->deficit <= 0)
		f->deficit += (int32_t)t->cc.step;
	if (unlikely(f->lost))
		k = send_lost(p, f, t, out, n, now_ts, now);
	if (likely(!f->lost))
		k += send_new(p, f, t, out + k, n - k, now_ts, now);
	const bool done = flow_done(p, f, t);

	if (!done && (f->deficit > 0 || (flows->tail == self && flow_class(f) == class)))
		return k;
	LIST_POP(flows, FLOW_LINK);
	if (list_empty(flows))
		t->listed &= (uint8_t) ~(1u << class);
	if (done) {
		f->flags &= ~FLOW_ACTIVE;
	} else {
		flow_append(p, f);
		path_activate(p, t);
	}
	return k;
}

/* Take the first path out of a list; requeue: put it to the end, if it may go on. */
static void
pop_path(struct proto *p, enum send_class class, bool requeue)
{
	struct path *t = &p->paths[p->ready[class].head];

	LIST_POP(&p->ready[class], PATH_LINK);
	t->active &= (uint8_t) ~(1u << class);
	if (requeue)
		path_activate(p, t);
}

/* Return whose turn it is: note 1. */
static inline enum send_class
next_class(const struct proto *p)
{
	if (list_empty(&p->ready[SEND_LONG]))
		return SEND_SHORT;
	return list_empty(&p->ready[SEND_SHORT]) || p->short_turns >= SHORT_TURNS ? SEND_LONG
										  : SEND_SHORT;
}

static unsigned
tx_data(struct proto *p, struct proto_out *out, unsigned n, uint32_t now_ts, uint64_t now)
{
	unsigned k = 0;

	while (k < n && any_ready(p)) {
		const enum send_class class = next_class(p);
		const struct proto_list *paths = &p->ready[class];
		struct path *t = &p->paths[paths->head];

		if (t->state != PATH_OPEN || list_empty(&t->flows[class]) || !path_has_window(t)) {
			pop_path(p, class, false);
			continue;
		}
		const unsigned sent = flow_turn(p, t, class, out + k, n - k, now_ts, now);

		k += sent;
		if (sent > 0)
			p->short_turns = class == SEND_SHORT ? p->short_turns + 1 : 0;
		if (paths->head != paths->tail)
			pop_path(p, class, true);
	}
	return k;
}

/* Write which frames are missing, as a bitmap from rcv_nxt on; returns the bytes used. If there was
 * no room for the first of them, those behind it are discarded as well, by whatever link they come,
 * so a bit is clear only for what is held. */
static uint16_t
put_holes(const struct proto *p, const struct flow *f, uint8_t *map)
{
	const bool full = f->flags & FLOW_FULL;
	uint32_t span = (full ? f->rcv_high : order_lost_end(p, f)) - f->rcv_nxt;
	uint16_t bytes;

	if (span == 0 || p->cfg.recovery == PROTO_GO_BACK_N)
		span = 1;
	bytes = (uint16_t)((span + 7) / 8);
	memset(map, 0, bytes);
	if (full && span % 8)
		map[bytes - 1] = (uint8_t)(0xFF << span % 8);
	for (uint32_t i = 0; i < span; i++) {
		if (!have_test(f, f->rcv_nxt + i))
			map[i / 8] |= (uint8_t)(1 << i % 8);
	}
	return bytes;
}

/* Return whether a Nack has something to name. What it was to name may have come meanwhile, or may
 * yet come by another link. */
static bool
is_missing(const struct proto *p, const struct flow *f)
{
	return p->arrivals == NULL || f->flags & FLOW_FULL || p->cfg.recovery == PROTO_GO_BACK_N ||
		order_lost_end(p, f) != f->rcv_nxt;
}

static void
emit_ack(struct proto *p, struct flow *f, struct proto_out *o, uint32_t now_ts, uint64_t now)
{
	struct wire_fields w = {
		.type = WIRE_ACK,
		.session = p->paths[f->path].session,
		.tstamp = now_ts,
		.msg_len = f->echo_gap,
	};

	if (unlikely(f->flags & FLOW_NACK && is_missing(p, f))) {
		w.type = WIRE_NACK;
		w.payload_len = put_holes(p, f, o->head + WIRE_HDR_BYTES);
		w.flags = f->flags & FLOW_FULL ? WIRE_F_FULL : 0;
		f->nack_ts = now_ts;
		COUNT(p, tx_nacks);
	} else {
		COUNT(p, tx_acks);
	}
	put_ack(p, &w, f, now_ts);
	wire_put_flow(o->head, wire_head_as(f->wire_head, w.type), f->wire_ctxs, &w);
	/* It renews what the peer remembers of the flow (flow.c, note 2), but it is no news of what
	 * the peer has forgotten. */
	if (unlikely(
		    f->tx_state == FLOW_TX_OPEN && f->tx_head == NIL && !peer_remembers(p, f, now)))
		flow_close_tx(p, f);
	f->used_at = now;
	f->flags &= ~(FLOW_NACK | FLOW_FULL);
	o->handle = PROTO_NO_HANDLE;
	o->len = 0;
	o->node = f->node;
	o->head_len = (uint16_t)(WIRE_HDR_BYTES + w.payload_len);
	o->again = false;
	o->link = f->rx_link;
}

/* Send the Acks that are due: those needed at once, and those that have waited long enough. */
static unsigned
tx_acks(struct proto *p, struct proto_out *out, unsigned n, uint32_t now_ts, uint64_t now)
{
	unsigned k = 0;

	while (k < n && !list_empty(&p->acks_urgent)) {
		struct flow *f = &p->flows[p->acks_urgent.head];

		ack_unlist(p, f);
		if (f->rx_state == FLOW_RX_OPEN &&
			(f->acks_owed || f->flags & (FLOW_NACK | FLOW_UPDATE)))
			emit_ack(p, f, &out[k++], now_ts, now);
	}
	while (k < n && !list_empty(&p->acks_due)) {
		struct flow *f = &p->flows[p->acks_due.head];

		if (f->acks_owed && now < f->ack_at)
			break;
		ack_unlist(p, f);
		if (f->acks_owed && f->rx_state == FLOW_RX_OPEN)
			emit_ack(p, f, &out[k++], now_ts, now);
	}
	return k;
}

unsigned
proto_tx(struct proto *p, struct proto_out *out, unsigned n, uint64_t now)
{
	uint32_t now_ts = stamp_of(p, now);
	unsigned k = 0;

	if (unlikely(p->ctl.head != NIL || p->stray_head != p->stray_tail))
		k = control_tx(p, out, n, now_ts);
	/* Data goes first, because an Ack may be piggybacked on it. But while Acks wait, data never
	 * fills the last quarter of a burst, because the delay of Acks is bounded (PM-ACKC). */
	unsigned spare = list_empty(&p->acks_due) && list_empty(&p->acks_urgent) ? 0
										 : (n - k + 3) / 4;

	if (any_ready(p) && k + spare < n)
		k += tx_data(p, out + k, n - k - spare, now_ts, now);
	if (k < n)
		k += tx_acks(p, out + k, n - k, now_ts, now);
	if (unlikely(spare && k < n && any_ready(p)))
		k += tx_data(p, out + k, n - k, now_ts, now);
	COUNT_N(p, tx_frames, k);
	if (!any_ready(p) && list_empty(&p->ctl) && list_empty(&p->acks_urgent) &&
		p->stray_head == p->stray_tail)
		p->due.has &= ~PROTO_HAS_FRAMES;
	return k;
}

/* Send the newest frame again when nothing was heard for about two round trips. The last frames may
 * be lost, and no Nack will report that, because nothing follows them. The newest one's Ack or Nack
 * tells, long before the timeout, which has to allow for pauses of the hosts (after TLP, RFC 8985
 * section 7). */
static void
send_probe(struct proto *p, struct flow *f, struct path *t)
{
	uint32_t newest = NIL;

	f->flags |= FLOW_PROBE;
	if (f->lost) { /* losses are known, but the share is used up: send one of them again */
		flow_activate(p, f);
		return;
	}
	for (uint32_t i = f->tx_head; i != f->tx_next; i = p->txds[i].next) {
		if (p->txds[i].state == TXD_INFLIGHT)
			newest = i;
	}
	if (newest == NIL)
		return;
	txd_lose(f, t, &p->txds[newest]);
	f->lost_cursor = newest;
	COUNT(p, tx_probes);
	flow_activate(p, f);
}

/* Count a timeout without an answer. Return true if there were too many, and the flow has ended. */
static bool
give_up(struct proto *p, struct flow *f, uint64_t now)
{
	uint8_t *times = f->flags & FLOW_REFUSED ? &f->unanswered : &f->retries;

	if (f->flags & FLOW_FROZEN)
		return false;
	if (times != &f->retries)
		f->retries += f->retries != UINT8_MAX; /* for flow_backoff */
	if (++*times <= p->cfg.retries)
		return false;
	p->paths[f->path].passes = PAYLOAD_SURE; /* the way may be another one by now */
	flow_fail(p, f, ETIMEDOUT);
	timer_arm(p, flow_index(p, f), now + p->flow_idle);
	return true;
}

/* Ask the receiver for room. It had none when it was last heard from, or was asked and did not
 * answer: note 4. */
static void
ask_for_room(struct proto *p, struct flow *f, uint64_t now)
{
	struct path *t = &p->paths[f->path];

	if (f->flags & FLOW_FROZEN && !wire_seq_before(f->snd_una, f->credit_end)) {
		flow_lose_flight(p, f, t);
		path_activate(p, t);
		f->rto_at = now + flow_backoff(p, f);
		timer_arm(p, flow_index(p, f), f->rto_at);
		return;
	}
	if (wire_seq_before(f->snd_una, f->credit_end)) { /* only because the last question raised
							   * it: it was not answered */
		FLOW_COUNT(p, f, timeouts);
		if (give_up(p, f, now))
			return;
	} else if (f->asks < ASKS_MAX) {
		f->asks++;
	}
	COUNT(p, room_questions);
	flow_lose_flight(p, f, t);
	if (p->txds[f->tx_head].state == TXD_KEPT) /* the peer holds it, but it needs room: it is
						    * the question */
		txd_lose(f, t, &p->txds[f->tx_head]);
	f->credit_end = f->snd_una + 1;
	flow_forbid_now(f);
	f->rto_at = now + flow_backoff(p, f);
	timer_arm(p, flow_index(p, f), f->rto_at);
	flow_activate(p, f);
}

/* Probe, if it is too early for a timeout: at 1, 3, 7 times t->probe, and the timeout is at t->rto.
 * Return false if it is not too early. */
static bool
flow_probes(struct proto *p, struct flow *f, struct path *t, uint64_t now)
{
	if (f->retries != 0 || f->asks != 0 || f->probes >= p->cfg.probes)
		return false;
	uint64_t waited = t->probe * ((2u << f->probes) - 1), next = t->probe << ++f->probes;

	if (waited >= t->rto)
		return false;
	f->rto_at = now + (next < t->rto - waited ? next : t->rto - waited);
	if (f->snd_una != f->snd_nxt && f->tx_state == FLOW_TX_OPEN)
		send_probe(p, f, t);
	timer_arm(p, flow_index(p, f), f->rto_at);
	return true;
}

/* Handle the flow's timer: probe, retransmission (PM-S4), question for room, or reclaim. */
void
flow_rto(struct proto *p, uint32_t index, uint64_t now)
{
	struct flow *f = &p->flows[index];
	struct path *t = &p->paths[f->path];

	if (f->key == 0)
		return;
	if (unlikely(f->flags & FLOW_FROZEN) && flow_frozen_timer(p, f, now))
		return;
	if (flow_holds(f)) {
		if (stamp_of(p, now) - f->heard_ts >= p->patience)
			flow_give_up_sender(p, f);
		else
			timer_arm(p, index, now + p->memory);
	}
	if (f->rto_at == 0) {
		if (flow_idle_enough(p, f, now, p->flow_idle)) {
			flow_forget(p, index);
			return;
		}
		timer_arm(p, index, now + (f->flags & FLOW_FROZEN ? p->rto_max : p->flow_idle));
		return;
	}
	if (now < f->rto_at) {
		timer_arm(p, index, f->rto_at);
		return;
	}
	if (flow_probes(p, f, t, now))
		return;
	if (f->asks || !wire_seq_before(f->snd_una, f->credit_end)) {
		ask_for_room(p, f, now);
		return;
	}
	FLOW_COUNT(p, f, timeouts);
	if (f->tx_head != NIL)
		path_probe_size(p, t, p->txds[f->tx_head].len);
	if (give_up(p, f, now))
		return;
	/* if many flows of a path time out together, that is one congestion event, not many */
	bool fresh = stamp_of(p, now) - t->cc.last_cut >= t->srtt / 8 + t->rttvar;

	if (fresh)
		path_timeout(p, t, index, stamp_of(p, now));
	flow_lose_flight(p, f, t);
	f->rto_at = now + flow_backoff(p, f);
	timer_arm(p, index, f->rto_at);
	flow_activate(p, f);
}

/* Take descriptors out of the flow's queue, `count` from `first` to `last`, which come right behind
 * `before` (NIL: none). None of them was ever sent, so those behind get their sequences. */
static void
txds_remove(struct proto *p, struct flow *f, uint32_t before, uint32_t first, uint32_t last,
	uint32_t count)
{
	const uint32_t behind = p->txds[last].next;

	if (before == NIL)
		f->tx_head = behind;
	else
		p->txds[before].next = behind;
	if (f->tx_next == first)
		f->tx_next = behind;
	if (behind == NIL)
		f->tx_tail = before;
	for (uint32_t i = behind; i != NIL; i = p->txds[i].next)
		p->txds[i].seq -= count;
	f->snd_end -= count;
	if (f->tx_head == NIL) { /* nothing waits for credit */
		f->rto_at = 0;
		f->asks = f->probes = 0;
	}
}

bool
proto_withdraw(struct proto *p, uint64_t flow_key, uint64_t handle, uint8_t error)
{
	const uint32_t index = flow_search(p, flow_key);
	uint32_t before = NIL, first = NIL, behind = NIL, count = 0, i;

	if (index == NIL)
		return false;
	struct flow *f = &p->flows[index];

	for (i = f->tx_head; i != NIL; behind = i, i = p->txds[i].next) {
		const struct txd *d = &p->txds[i];

		if (d->frag_off == 0) {
			before = behind;
			/* of a message that has begun to leave all of it has to, also to another
			 * life of its receiver */
			first = !d->sent && !wire_seq_before(d->seq, f->snd_nxt) ? i : NIL;
			count = 0;
		}
		count++;
		if (d->done.last && d->done.handle == handle)
			break;
	}
	if (i == NIL || first == NIL)
		return false;
	txds_remove(p, f, before, first, i, count);
	for (uint32_t d = first, next; count-- > 0; d = next) {
		next = p->txds[d].next;
		p->txds[d].done.dst_node = f->node;
		p->txds[d].done.dst_ctx = f->peer_ctx;
		COUNT_PEER(&p->paths[f->path], messages_failed, p->txds[d].done.last);
		txd_done(p, d, error);
	}
	return true;
}

/* Pull completions. Their descriptors go to the free list in one piece, because they are linked
 * already. */
unsigned
proto_complete(struct proto *p, struct proto_completion *out, unsigned n)
{
	uint32_t first = p->done.head, i = first, last = NIL;
	unsigned k = 0;

	while (k < n && i != NIL) {
		const struct txd *d = &p->txds[i];

		out[k++] = d->done;
		p->ctxs[d->done.ctx].pending--;
		last = i;
		i = d->next;
	}
	if (i == NIL)
		p->due.has &= ~PROTO_HAS_COMPLETIONS;
	if (k == 0)
		return 0;
	p->done.head = i;
	p->txds[last].next = p->txd_free;
	p->txd_free = first;
	p->txd_free_count += k;
	return k;
}
