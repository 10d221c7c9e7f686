/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See proto_pair.h. Here: the network, what comes back from a core, and time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto_pair.h"
#include "proto_pair_inside.h"

struct net_packet {
	uint64_t at;
	uint32_t order, payload, len;
	uint16_t dst, head_len;
	uint8_t head[WIRE_HDR_BYTES + WIRE_HOLES_MAX + 14];
};

struct net_return {
	uint64_t at;
	uint32_t generation, bulks;
	uint16_t node, ctx;
};

/* --- room that is given back --- */

static void
give_back(struct net *net, const struct net_return *r)
{
	struct net_node *n = &net->nodes[r->node];
	struct net_app *a = &n->apps[r->ctx];

	if (r->generation != a->generation)
		return;
	a->held_entries--;
	a->held_bulks -= r->bulks;
	proto_ctx_room(n->p, r->ctx, 1, r->bulks, net_ticks(net, r->node));
}

void
net_give_room(struct net *net, unsigned node, unsigned ctx)
{
	for (uint32_t i = 0; i < net->return_count;) {
		if (net->returns[i].node != node || net->returns[i].ctx != ctx) {
			i++;
			continue;
		}
		struct net_return r = net->returns[i];

		net->returns[i] = net->returns[--net->return_count];
		give_back(net, &r);
	}
}

static void
give_due_room(struct net *net)
{
	for (uint32_t i = 0; i < net->return_count;) {
		struct net_return r = net->returns[i];

		if (r.at > net->now || net->nodes[r.node].apps[r.ctx].paused) {
			i++;
			continue;
		}
		net->returns[i] = net->returns[--net->return_count];
		give_back(net, &r);
	}
}

/* --- the network: packets in a binary heap by (at, order) --- */

static bool
earlier(const struct net_packet *a, const struct net_packet *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
push_packet(struct net *net, const struct net_packet *k)
{
	GROW(net, packets, packet_count, packet_cap);
	uint32_t i = net->packet_count++;

	while (i > 0 && earlier(k, &net->packets[(i - 1) / 2])) {
		net->packets[i] = net->packets[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	net->packets[i] = *k;
}

static struct net_packet
pop_packet(struct net *net)
{
	struct net_packet top = net->packets[0], last = net->packets[--net->packet_count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < net->packet_count) {
		if (child + 1 < net->packet_count &&
			earlier(&net->packets[child + 1], &net->packets[child]))
			child++;
		if (!earlier(&net->packets[child], &last))
			break;
		net->packets[i] = net->packets[child];
		i = child;
	}
	net->packets[i] = last;
	return top;
}

static struct net_frame
describe(const struct net *net, const struct proto_out *o, unsigned src)
{
	struct wire_hdr h;

	memcpy(&h, o->head, sizeof(h));
	return (struct net_frame){
		.at = net->now,
		.src = (uint16_t)src,
		.dst = o->node,
		.src_ctx = wire_be16(h.src_ctx),
		.dst_ctx = wire_be16(h.dst_ctx),
		.type = h.type,
		.flags = wire_be16(h.flags),
		.credit = wire_be16(h.credit),
		.len = wire_be16(h.payload_len),
		.session = wire_be32(h.session),
		.seq = wire_be32(h.seq),
		.ack = wire_be32(h.ack),
		.msg_len = wire_be32(h.msg_len),
		.frag_off = wire_be32(h.frag_off),
	};
}

/* A frame of a message leaves. */
static void
begin_message(struct net *net, uint32_t message)
{
	struct net_message *m = &net->messages[message];
	const struct net_app *a = &net->nodes[m->src].apps[m->src_ctx];

	if (a->held || (a->frozen && !m->begun))
		net_fail(net, "node %u ctx %u is %s, and message %u %s", m->src, m->src_ctx,
			a->held ? "held" : "frozen", message, m->begun ? "goes on" : "begins");
	m->begun = true;
}

void
net_transmit(struct net *net, unsigned src, const struct proto_out *o)
{
	struct net_frame f = describe(net, o, src);
	struct net_packet k = {
		.payload = NIL,
		.dst = o->node,
		.head_len = o->head_len,
		.len = o->head_len + o->len,
	};
	enum net_verdict v = NET_PASS;

	if (o->handle != PROTO_NO_HANDLE) {
		const struct net_payload *d = &net->payloads[o->handle & ~PARKED];

		if (o->handle & PARKED)
			net_fail(net, "node %u sends a payload of a parked context", src);
		if (o->handle >= net->payload_count || d->node != src || d->back)
			net_fail(net, "node %u sends a payload it does not hold", src);
		begin_message(net, d->message);
		k.payload = (uint32_t)o->handle;
	}
	if (wire_check(o->head, k.len, WIRE_PAYLOAD_MAX) != WIRE_OK)
		net_fail(net, "node %u sent a bad frame, type %u", src, f.type);
	f.delay = net->delay + net_random(net, (uint32_t)net->jitter);
	if (net->script)
		v = net->script(net, &f);
	if (net->logging) {
		GROW(net, log, log_count, log_cap);
		net->log[net->log_count++] = f;
	}
	if (v == NET_DROP || net_random(net, 1000) < net->loss || f.dst >= net->count)
		return;
	memcpy(k.head, o->head, o->head_len);
	k.at = net->now + f.delay;
	k.order = net->order++;
	push_packet(net, &k);
	if (v == NET_DUP || net_random(net, 1000) < net->dup) {
		k.at += net_random(net, (uint32_t)net->jitter * 4 + 1);
		k.order = net->order++;
		push_packet(net, &k);
	}
}

/* --- what comes back from a core --- */

static void
take_completion(struct net *net, unsigned node, const struct proto_completion *c)
{
	uint64_t handle = c->handle & ~PARKED;
	struct net_payload *d = &net->payloads[handle];

	if (handle >= net->payload_count || d->node != node || d->back ||
		d->parked != !!(c->handle & PARKED) || d->life != net->nodes[node].life)
		net_fail(net, "node %u completes a handle it does not hold", node);
	struct net_message *m = &net->messages[d->message];

	d->back = true;
	net->nodes[node].tx_out--;
	if (c->ctx != m->src_ctx || d->frag != m->completed)
		net_fail(net, "completion out of order");
	m->completed++;
	if (c->error)
		m->error = c->error;
	if (c->last != (m->completed == m->frags))
		net_fail(net, "wrong last in a completion");
	if (c->last && m->error == ECONNREFUSED && m->arrived == m->frags)
		net_fail(net, "message %u was refused, and arrived", d->message);
	m->done_at = net->now;
}

static struct net_rx *
take_rx(struct net *net, unsigned node, uint64_t handle)
{
	uint64_t i = (handle & ~PARKED) - RX_TAG;
	struct net_rx *r = &net->rxs[i];

	if (i >= net->rx_count || r->node != node || !r->kept || r->back ||
		r->parked != !!(handle & PARKED) || r->life != net->nodes[node].life)
		net_fail(net, "node %u gives back a received handle it does not hold", node);
	r->back = true;
	net->nodes[node].rx_out--;
	return r;
}

static void
finish_message(struct net *net, const struct net_message *m, struct net_app *a)
{
	uint32_t bulks = m->len <= a->inline_max && m->frags == 1 ? 0 : m->frags;

	a->message = 0;
	if (!a->open)
		return;
	a->held_entries++;
	a->held_bulks += bulks;
	if (a->held_entries > a->entries || a->held_bulks > a->bulks)
		net_fail(net, "node %u ctx %u was given more than its room", m->dst, m->dst_ctx);
	GROW(net, returns, return_count, return_cap);
	net->returns[net->return_count++] = (struct net_return){
		.at = net->now + a->hold,
		.generation = a->generation,
		.bulks = bulks,
		.node = m->dst,
		.ctx = m->dst_ctx,
	};
}

static void
take_delivery(struct net *net, unsigned node, const struct proto_delivery *d)
{
	const struct net_rx *r = take_rx(net, node, d->handle);
	struct net_app *a = &net->nodes[node].apps[d->ctx];

	if (a->parked || r->parked)
		net_fail(net, "node %u ctx %u is parked, and a message came to it", node, d->ctx);
	if (r->payload == NIL) { /* injected: short, in one piece */
		proto_ctx_room(net->nodes[node].p, d->ctx, 1, 0, net_ticks(net, node));
		return;
	}
	const struct net_payload *y = &net->payloads[r->payload];
	struct net_message *m = &net->messages[y->message];
	uint32_t *seen = &net->last_seen[m->src][m->src_ctx][node][d->ctx];

	if (m->dst != node || m->dst_ctx != d->ctx || m->src != d->src_node ||
		m->src_ctx != d->src_ctx)
		net_fail(net, "message %u delivered to the wrong place", y->message);
	if (m->life != net->nodes[m->src].life)
		net_fail(net, "message %u of an old life delivered", y->message);
	if (a->message ? a->message != y->message + 1 || a->frag != y->frag : y->frag != 0)
		net_fail(net, "message %u fragment %u delivered out of turn", y->message, y->frag);
	uint32_t frag_len = net->nodes[m->src].cfg.payload_max, left = m->len - d->frag_off;

	if (d->msg_len != m->len || d->frag_off != y->frag * frag_len ||
		d->len != (left < frag_len ? left : frag_len) ||
		d->last != (y->frag + 1 == m->frags))
		net_fail(net, "message %u fragment %u has wrong bounds", y->message, y->frag);
	if (y->message + 1 <= *seen)
		net_fail(net, "message %u delivered twice or out of order", y->message);
	if (a->frozen && m->sent_at > a->frozen_at)
		net_fail(net, "message %u was sent to a frozen context, and taken", y->message);
	m->arrived++;
	a->message = y->message + 1;
	a->frag = y->frag + 1;
	if (!d->last)
		return;
	*seen = y->message + 1;
	finish_message(net, m, a);
}

unsigned
net_pull(struct net *net, unsigned node)
{
	struct net_node *n = &net->nodes[node];
	struct proto_delivery deliveries[8];
	struct proto_completion completions[8];
	uint64_t handles[8];
	unsigned all = 0, k;

	while ((k = proto_deliver(n->p, deliveries, 8)) > 0) {
		for (unsigned i = 0; i < k; i++)
			take_delivery(net, node, &deliveries[i]);
		all += k;
	}
	while ((k = proto_complete(n->p, completions, 8)) > 0) {
		for (unsigned i = 0; i < k; i++)
			take_completion(net, node, &completions[i]);
		all += k;
	}
	while ((k = proto_release(n->p, handles, 8)) > 0) {
		for (unsigned i = 0; i < k; i++)
			take_rx(net, node, handles[i]);
		all += k;
	}
	return all;
}

/* --- time --- */

/* The first moment at which the node's clock shows this. */
static uint64_t
moment_of(const struct net_node *n, uint64_t ticks)
{
	if (ticks == UINT64_MAX)
		return UINT64_MAX;
	return (uint64_t)(((unsigned __int128)ticks * NET_SEC + n->cfg.ticks_per_sec - 1) /
		n->cfg.ticks_per_sec);
}

static enum proto_rx_result
receive(struct net *net, unsigned node, const void *frame, uint32_t len, uint32_t payload)
{
	struct net_node *n = &net->nodes[node];
	const struct wire_hdr *h = frame;
	uint32_t i = net->rx_count;

	GROW(net, rxs, rx_count, rx_cap);
	net->rxs[net->rx_count++] =
		(struct net_rx){.payload = payload, .node = (uint16_t)node, .life = n->life};
	enum proto_rx_result r = proto_rx(n->p, frame, len, RX_TAG + i, net_ticks(net, node));

	if (r == PROTO_RX_KEPT || r == PROTO_RX_MESSAGE) {
		if (n->apps[wire_be16(h->dst_ctx)].parked)
			net_fail(net, "node %u keeps a frame for a parked context", node);
		net->rxs[i].kept = true;
		n->rx_out++;
	}
	if (r == PROTO_RX_MESSAGE) {
		take_delivery(net, node,
			&(struct proto_delivery){
				.handle = RX_TAG + i,
				.msg_len = wire_be32(h->msg_len),
				.len = wire_be16(h->payload_len),
				.ctx = wire_be16(h->dst_ctx),
				.src_node = wire_be16(h->src_node),
				.src_ctx = wire_be16(h->src_ctx),
				.last = true,
			});
	}
	return r;
}

enum proto_rx_result
net_inject(struct net *net, unsigned node, const void *frame, uint32_t len)
{
	return receive(net, node, frame, len, NIL);
}

static void
arrive(struct net *net, const struct net_packet *k)
{
	/* A copy of exact size, so that a sanitizer sees any read beyond the header. */
	void *frame = malloc(k->head_len);

	memcpy(frame, k->head, k->head_len);
	if (receive(net, k->dst, frame, k->len, k->payload) != PROTO_RX_DONE && k->payload == NIL)
		net_fail(net, "node %u kept a control frame", k->dst);
	free(frame);
}

static void
poll_node(struct net *net, unsigned node)
{
	struct net_node *n = &net->nodes[node];
	struct proto_out out[64];
	unsigned did, rounds = 0;

	if (n->dead)
		return;
	proto_tick(n->p, net_ticks(net, node));
	do {
		unsigned k = proto_tx(n->p, out, n->burst, net_ticks(net, node));

		if (k > n->burst)
			net_fail(net, "node %u was asked for %u frames and gave %u", node, n->burst,
				k);
		for (unsigned i = 0; i < k; i++)
			net_transmit(net, node, &out[i]);
		did = k + net_pull(net, node);
		give_due_room(net);
		if (++rounds > 100000)
			net_fail(net, "node %u never stops sending", node);
	} while (did);
	if (moment_of(n, proto_deadline(n->p)) <= net->now)
		net_fail(net, "node %u has a deadline in the past and nothing to do", node);
	if (net->audit)
		net_check_books(net, node);
}

static uint64_t
next_event(const struct net *net)
{
	uint64_t at = net->packet_count ? net->packets[0].at : UINT64_MAX;

	for (unsigned i = 0; i < net->count; i++) {
		uint64_t d = net->nodes[i].dead
			? UINT64_MAX
			: moment_of(&net->nodes[i], proto_deadline(net->nodes[i].p));

		at = d < at ? d : at;
	}
	for (uint32_t i = 0; i < net->return_count; i++) {
		const struct net_return *r = &net->returns[i];

		if (!net->nodes[r->node].apps[r->ctx].paused && r->at < at)
			at = r->at;
	}
	return at;
}

static void
poll_all(struct net *net)
{
	give_due_room(net);
	for (unsigned i = 0; i < net->count; i++)
		poll_node(net, i);
}

void
net_run(struct net *net, uint64_t ns)
{
	uint64_t end = net->now + ns;

	poll_all(net);
	for (uint64_t at = next_event(net); at <= end; at = next_event(net)) {
		net->now = at > net->now ? at : net->now;
		while (net->packet_count && net->packets[0].at <= net->now) {
			struct net_packet k = pop_packet(net);

			if (!net->nodes[k.dst].dead)
				arrive(net, &k);
		}
		poll_all(net);
	}
	net->now = end;
	poll_all(net);
}

static uint32_t
unfinished(const struct net *net)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < net->count; i++)
		n += net->nodes[i].tx_out;
	return n;
}

void
net_settle(struct net *net, uint64_t limit_ns)
{
	uint64_t end = net->now + limit_ns;

	poll_all(net);
	while (unfinished(net)) {
		if (net->now >= end)
			net_fail(net, "%u frames are still not completed", unfinished(net));
		net_run(net, NET_MS);
	}
	net_run(net, NET_MS);
}
