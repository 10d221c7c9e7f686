/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages between contexts of one node. They use neither a link nor the protocol, but have the
 * same room and order as others. Runs on the lane that owns the context in question.
 *
 * Design notes
 * 1. A message travels as the chain of its mbufs, described in the private area of the first: from
 *    the sender's lane to the receiver's, and back as its completion. The receiver may return other
 *    mbufs: it keeps those with bulk and puts fresh ones in their place (zero copy).
 * 2. A message without room at its receiver waits in the receiver's local queue, which is bounded
 *    by the senders' buffers. A message to a context that is not open waits there as long as its
 *    sender wants to.
 * 3. An inbox has a place for every mbuf of the node, so posting to another lane never fails.
 */
#include <errno.h>
#include <string.h>

#include "engine/complete.h"
#include "engine/deliver.h"
#include "engine/local.h"

static void
post(struct engine *e, uint16_t ctx, struct rte_mbuf *m)
{
	struct engine *owner = node_lane(e->node, ctx);

	if (owner == e) {
		local_arrive(e, m);
		return;
	}
	rte_ring_enqueue(owner->inbox, m);
	engine_wake(owner);
}

void
local_send(struct engine *e, struct channel *src, uint16_t dst_ctx, uint16_t endpoint, uint32_t len,
	const uint16_t *bufs, unsigned count)
{
	struct rte_mbuf *first = NULL, *last = NULL;

	ENGINE_COUNT(e, local_messages);
	if (dst_ctx >= e->node->config.contexts) {
		const struct send_failure f = {endpoint, (uint16_t)e->node->config.id, dst_ctx,
			ECONNREFUSED};

		for (unsigned i = 0; i < count; i++)
			slot_failed(e, src, &src->slots[bufs[i]], &f);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		struct send_slot *s = &src->slots[bufs[i]];
		struct rte_mbuf *m = s->m;
		uint32_t left = len - i * src->frag_len;

		s->state = SEND_LOCAL;
		m->data_off = PAYLOAD_START;
		m->data_len = (uint16_t)(left < src->frag_len ? left : src->frag_len);
		m->next = NULL;
		buf_priv(m)->slot = bufs[i];
		src->terms[bufs[i]].to = dst_ctx | endpoint;
		if (first == NULL)
			first = m;
		else
			last->next = m;
		last = m;
	}
	struct buf_priv *p = buf_priv(first);

	p->msg_len = len;
	p->src_ctx = src->ctx;
	p->dst = dst_ctx | endpoint;
	p->generation = src->generation;
	p->back = false;
	p->error = 0;
	p->next_msg = NULL;
	p->until = e->now + src->open_wait;
	src->sent++;
	src->sent_bytes += len;
	post(e, dst_ctx, first);
}

/* Return the chain to its sender, which completes the message with the error, 0 if it was
 * delivered. */
static void
send_back(struct engine *e, struct rte_mbuf *m, uint8_t error)
{
	buf_priv(m)->back = true;
	buf_priv(m)->error = error;
	post(e, buf_priv(m)->src_ctx, m);
}

static void
come_back(struct engine *e, struct rte_mbuf *first)
{
	const struct buf_priv *p = buf_priv(first);
	struct channel *ch = &e->node->channels[p->src_ctx];
	const struct send_failure f = {wire_endpoint(p->dst), (uint16_t)e->node->config.id,
		p->dst % WIRE_CONTEXTS_MAX, p->error};
	bool stale = ch->generation != p->generation || ch->state == CHANNEL_CLOSED;

	for (struct rte_mbuf *m = first, *next; m != NULL; m = next) {
		uint16_t slot = buf_priv(m)->slot;

		next = m->next;
		if (stale) {
			m->next = NULL;
			m->nb_segs = 1;
			rte_pktmbuf_free(m);
			continue;
		}
		slot_set_buffer(ch, slot, m);
		if (likely(f.error == 0))
			slot_complete(e, ch, &ch->slots[slot], 0);
		else
			slot_failed(e, ch, &ch->slots[slot], &f);
	}
}

static unsigned
chain_length(const struct rte_mbuf *m)
{
	unsigned n = 0;

	for (; m != NULL; m = m->next)
		n++;
	return n;
}

/* Allocate fresh mbufs for the sender, to replace those that the receiver keeps. Return the first
 * of their chain, or NULL if there are not enough. */
static struct rte_mbuf *
swap_chain(struct engine *e, struct rte_mbuf *m, unsigned count)
{
	if (rte_pktmbuf_alloc_bulk(e->node->pool, e->swap, count) != 0)
		return NULL;
	for (unsigned i = 0; i < count; i++, m = m->next) {
		uint32_t number = buf_priv(e->swap[i])->number;

		*buf_priv(e->swap[i]) = *buf_priv(m);
		buf_priv(e->swap[i])->number = number;
		e->swap[i]->next = i + 1 < count ? e->swap[i + 1] : NULL;
	}
	return e->swap[0];
}

static void
deliver(struct engine *e, struct inlet *in, struct rte_mbuf *first, struct rte_mbuf *back)
{
	const struct buf_priv *p = buf_priv(first);
	uint16_t node = (uint16_t)e->node->config.id, src = p->src_ctx;
	uint32_t len = p->msg_len;

	if (back == first) {
		/* all of it fits into the entry, and the sender's buffer is returned as it is */
		lhs_write(&in->lhs, node, src, len, LHS_NO_BULK, 0, rte_pktmbuf_mtod(first, void *),
			len);
		in->ch->received++;
		in->ch->received_bytes += len;
		channel_touch(e, in->ch);
		return;
	}
	for (struct rte_mbuf *m = first, *next; m != NULL; m = next) {
		next = m->next;
		m->next = NULL;
		inlet_put(e, in, node, src, m, 0, m->data_len, len, next == NULL);
	}
}

/* Take room for a message: first from the budget in *entries and *bulks (NULL: none), and what is
 * missing from the core's room. Return false, having taken nothing, if there is too little. */
static bool
take_room(struct engine *e, const struct inlet *in, uint32_t *entries, uint32_t *bulks,
	uint32_t need)
{
	uint32_t have_entry = entries && *entries ? 1 : 0;
	uint32_t have_bulks = bulks ? (*bulks < need ? *bulks : need) : 0;

	if (!proto_ctx_take(e->proto, in->endpoint, 1 - have_entry, need - have_bulks,
		    entries != NULL))
		return false;
	if (have_entry)
		*entries -= 1;
	if (have_bulks)
		*bulks -= have_bulks;
	return true;
}

/* Deliver one message, or refuse it if it can never fit, or if its sender may not send to this
 * context. Return false if there is no room now. */
static bool
try_deliver(struct engine *e, struct inlet *in, struct rte_mbuf *m, uint32_t *entries,
	uint32_t *bulks)
{
	uint32_t len = buf_priv(m)->msg_len;
	unsigned count = chain_length(m), need = len <= in->lhs.split && count == 1 ? 0 : count;
	struct rte_mbuf *back = m;

	if (unlikely(!channel_admits(e->node, in->ch, buf_priv(m)->src_ctx))) {
		send_back(e, m, ECONNREFUSED);
		return true;
	}
	if (need > in->bulk_quota) {
		send_back(e, m, EMSGSIZE);
		return true;
	}
	if (!take_room(e, in, entries, bulks, need))
		return false;
	if (need && (back = swap_chain(e, m, count)) == NULL) {
		proto_ctx_room(e->proto, in->endpoint, 1, need, e->now);
		return false;
	}
	deliver(e, in, m, back);
	send_back(e, back, 0);
	return true;
}

void
local_drain(struct engine *e, struct inlet *in, uint32_t *entries, uint32_t *bulks)
{
	while (in->local_head != NULL) {
		struct rte_mbuf *m = in->local_head, *next = buf_priv(m)->next_msg;

		if (!try_deliver(e, in, m, entries, bulks))
			return;
		in->local_head = next;
	}
}

static void
wait_in(struct inlet *in, struct rte_mbuf *m)
{
	buf_priv(m)->next_msg = NULL;
	if (in->local_head == NULL)
		in->local_head = m;
	else
		buf_priv(in->local_tail)->next_msg = m;
	in->local_tail = m;
}

/* Return whether the message has waited for its receiver as long as its sender wanted. */
static bool
is_over(const struct engine *e, struct rte_mbuf *m)
{
	return (int64_t)(e->now - buf_priv(m)->until) >= 0;
}

void
local_arrive(struct engine *e, struct rte_mbuf *m)
{
	struct buf_priv *p = buf_priv(m);

	if (p->back) {
		come_back(e, m);
		return;
	}
	struct channel *ch = &e->node->channels[p->dst % WIRE_CONTEXTS_MAX];
	struct inlet *in = channel_inlet(ch, p->dst);

	if (likely(ch->state == CHANNEL_OPEN)) {
		if (likely(in->local_head == NULL && try_deliver(e, in, m, NULL, NULL)))
			return;
	} else if (is_over(e, m)) {
		send_back(e, m, ECONNREFUSED);
		return;
	}
	wait_in(in, m);
	e->local_waiting = true;
}

/* Refuse messages for a context that is not open: those that have waited for long enough, or
 * all. */
static void
refuse(struct engine *e, struct inlet *in, bool all)
{
	struct rte_mbuf *m = in->local_head, *next;

	in->local_head = NULL;
	for (; m != NULL; m = next) {
		next = buf_priv(m)->next_msg;
		if (all || is_over(e, m))
			send_back(e, m, ECONNREFUSED);
		else
			wait_in(in, m);
	}
}

/* Take the messages that src has sent out of the inlet's queue. src NULL: take those whose senders
 * were aborted. Return the first, which the others follow by next_msg, or NULL if there is none. */
static struct rte_mbuf *
pick(const struct engine *e, struct inlet *in, const struct channel *src)
{
	struct rte_mbuf *m = in->local_head, *next, *first = NULL, **end = &first;

	in->local_head = NULL;
	for (; m != NULL; m = next) {
		struct buf_priv *p = buf_priv(m);

		next = p->next_msg;
		if (src != NULL ? p->src_ctx == src->ctx && p->generation == src->generation
				: atomic_load_explicit(&e->node->channels[p->src_ctx].aborted,
					  memory_order_relaxed)) {
			p->next_msg = NULL;
			*end = m;
			end = &p->next_msg;
		} else {
			wait_in(in, m);
		}
	}
	return first;
}

/* End the waiting messages whose senders were aborted. */
static void
forget_dead(struct engine *e, struct inlet *in)
{
	for (struct rte_mbuf *m = pick(e, in, NULL), *next; m != NULL; m = next) {
		next = buf_priv(m)->next_msg;
		send_back(e, m, ECONNRESET);
	}
}

static void
recall(struct engine *e, struct inlet *in, const struct channel *src,
	void (*take)(void *arg, struct rte_mbuf *first), void *arg)
{
	for (struct rte_mbuf *m = pick(e, in, src), *next; m != NULL; m = next) {
		next = buf_priv(m)->next_msg;
		take(arg, m);
	}
}

void
local_recall(struct engine *e, const struct channel *src,
	void (*take)(void *arg, struct rte_mbuf *first), void *arg)
{
	const struct config *c = &e->node->config;

	for (uint32_t i = e->lane; i < c->contexts && e->local_waiting; i += c->lanes) {
		recall(e, &e->node->channels[i].plain, src, take, arg);
		recall(e, &e->node->channels[i].matched, src, take, arg);
	}
}

bool
local_withdraw(struct engine *e, const struct channel *src, const struct send_slot *last,
	uint8_t error)
{
	const uint16_t dst = (uint16_t)src->terms[last->number].to;
	struct channel *ch = &e->node->channels[dst % WIRE_CONTEXTS_MAX];
	struct inlet *in = channel_inlet(ch, dst);
	struct rte_mbuf *m, *next, *found = NULL;

	if (node_lane(e->node, ch->ctx) != e)
		return false;
	m = in->local_head;
	in->local_head = NULL;
	for (; m != NULL; m = next) {
		next = buf_priv(m)->next_msg;
		if (buf_priv(m)->src_ctx == src->ctx && rte_pktmbuf_lastseg(m) == last->m)
			found = m;
		else
			wait_in(in, m);
	}
	if (found != NULL)
		send_back(e, found, error);
	return found != NULL;
}

/* Retry or refuse what waits in the inlet. Return true if some messages still wait. */
static bool
housekeep(struct engine *e, struct inlet *in)
{
	if (in->local_head == NULL)
		return false;
	if (in->ch->state == CHANNEL_OPEN)
		local_drain(e, in, NULL, NULL);
	else
		refuse(e, in, false);
	return in->local_head != NULL;
}

void
local_housekeep(struct engine *e)
{
	const struct config *c = &e->node->config;
	uint32_t aborts = atomic_load_explicit(&e->node->aborts, memory_order_acquire);
	bool died = aborts != e->aborts_seen;

	e->local_waiting = false;
	e->aborts_seen = aborts;
	for (uint32_t i = e->lane; i < c->contexts; i += c->lanes) {
		struct channel *ch = &e->node->channels[i];

		if (unlikely(died)) {
			forget_dead(e, &ch->plain);
			forget_dead(e, &ch->matched);
		}
		e->local_waiting |= housekeep(e, &ch->plain);
		e->local_waiting |= housekeep(e, &ch->matched);
	}
}

void
local_refuse(struct engine *e)
{
	const struct config *c = &e->node->config;

	for (uint32_t i = e->lane; i < c->contexts && e->local_waiting; i += c->lanes) {
		struct channel *ch = &e->node->channels[i];

		if (ch->state == CHANNEL_OPEN)
			continue;
		refuse(e, &ch->plain, true);
		refuse(e, &ch->matched, true);
	}
}
