/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See proto_pair.h.
 */
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto_pair.h"

#define RX_TAG (1ull << 40)
/* In a handle: its frame is of a parked context, and its payload is out of reach. */
#define PARKED (1ull << 50)

struct net_payload {
	uint32_t message, frag, life;
	uint16_t node;
	bool parked, back;
};

struct net_rx {
	uint32_t payload, life; /* payload: number, or NIL for what a test injected */
	uint16_t node;
	bool kept, parked, back;
};

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

#define GROW(net, array, count, cap)                                                               \
	do {                                                                                       \
		if ((net)->count == (net)->cap) {                                                  \
			(net)->cap = (net)->cap ? 2 * (net)->cap : 64;                             \
			(net)->array = realloc((net)->array, (net)->cap * sizeof(*(net)->array));  \
		}                                                                                  \
	} while (0)

static const struct net *current;

_Noreturn void
proto_assert_failed(const char *what, const char *file, int line)
{
	net_fail(current, "assertion %s in %s:%d", what, file, line);
}

_Noreturn void
net_fail(const struct net *net, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fail_msg("seed %llu, %llu ns: %s", net ? (unsigned long long)net->seed : 0,
		net ? (unsigned long long)net->now : 0, text);
	abort();
}

uint32_t
net_random(struct net *net, uint32_t below)
{
	uint64_t x = (net->random += 0x9E3779B97F4A7C15u);

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 27) * 0x94D049BB133111EBu;
	return below ? (uint32_t)((x ^ x >> 31) >> 32) % below : 0;
}

uint64_t
net_ticks(const struct net *net, unsigned node)
{
	return (uint64_t)((unsigned __int128)net->now * net->nodes[node].cfg.ticks_per_sec /
		NET_SEC);
}

/* The first moment at which the node's clock shows this. */
static uint64_t
moment_of(const struct net_node *n, uint64_t ticks)
{
	if (ticks == UINT64_MAX)
		return UINT64_MAX;
	return (uint64_t)(((unsigned __int128)ticks * NET_SEC + n->cfg.ticks_per_sec - 1) /
		n->cfg.ticks_per_sec);
}

struct proto_config
net_config(void)
{
	return (struct proto_config){
		.ticks_per_sec = NET_SEC,
		.nodes_max = NET_NODES,
		.contexts_max = NET_CTXS,
		.flows_max = 64,
		.paths_max = NET_NODES,
		.tx_frames_max = 4096,
		.rx_frames_max = 4096,
		.window_frames = 256,
		.path_frames = 256,
		.path_bytes = 1 << 20,
		.payload_max = 1024,
		.rto_min_us = 500,
		.rto_max_us = 50000,
		.retries = 8,
		.hello_us = 400000,
		.probes = 3,
		.ack_delay_us = 50,
		.ack_every = 16,
		.keepalive_us = 0,
		.flow_idle_us = 2000000,
		.cc_target_us = 100,
		.share_target_us = 4,
		.recovery = PROTO_SELECTIVE,
		.cc = &cc_delay,
	};
}

static void
start_node(struct net *net, unsigned i)
{
	struct net_node *n = &net->nodes[i];
	size_t size;

	n->cfg.node = (uint16_t)i;
	n->cfg.epoch = net_random(net, UINT32_MAX - 1) + 1;
	n->cfg.key[0] = net_random(net, UINT32_MAX);
	size = proto_memsize(&n->cfg);
	if (size == 0)
		net_fail(net, "configuration refused");
	void *memory = aligned_alloc(64, size);

	memset(memory, 0, size);
	n->p = proto_init(memory, &n->cfg, net_ticks(net, i));
	n->life++;
	n->tx_out = n->rx_out = 0;
	for (unsigned c = 0; c < NET_CTXS; c++) {
		n->apps[c].open = n->apps[c].frozen = false;
		n->apps[c].held = n->apps[c].parked = false;
		n->apps[c].generation++;
		n->apps[c].held_entries = n->apps[c].held_bulks = n->apps[c].message = 0;
	}
}

struct net *
net_new(unsigned nodes, const struct proto_config *cfg, uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));

	current = net;
	net->count = nodes;
	net->seed = net->random = seed;
	net->now = 10 * NET_SEC;
	net->delay = 5 * NET_US;
	net->logging = net->audit = true;
	for (unsigned i = 0; i < nodes; i++) {
		net->nodes[i].cfg = *cfg;
		net->nodes[i].burst = 32;
		start_node(net, i);
	}
	return net;
}

void
net_free(struct net *net)
{
	for (unsigned i = 0; i < net->count; i++)
		free(net->nodes[i].p);
	free(net->messages);
	free(net->payloads);
	free(net->rxs);
	free(net->packets);
	free(net->returns);
	free(net->log);
	free(net);
	current = NULL;
}

void
net_restart(struct net *net, unsigned node)
{
	for (uint32_t i = 0; i < net->message_count; i++) {
		struct net_message *m = &net->messages[i];

		if (m->src == node && m->completed < m->frags)
			m->gone = true;
	}
	free(net->nodes[node].p);
	start_node(net, node);
}

static uint64_t
count_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	uint32_t *counts = arg;

	(void)len;
	counts[sent]++;
	return handle;
}

void
net_move(struct net *net, unsigned node)
{
	struct net_node *n = &net->nodes[node];
	size_t size = proto_memsize(&n->cfg);
	struct proto_config other = n->cfg;
	uint32_t counts[2] = {0};
	void *there = aligned_alloc(64, size);

	memcpy(there, n->p, size);
	memset(n->p, 0xA5, size);
	free(n->p);
	other.epoch = 1;
	other.key[0] = 99;
	n->p = proto_adopt(there, &other);
	if (n->p == NULL)
		net_fail(net, "node %u: its core is not adopted", node);
	proto_swap_handles(n->p, count_handle, counts);
	/* every frame that the core has, once */
	if (counts[1] != n->tx_out || counts[0] != n->rx_out)
		net_fail(net, "node %u: %u of %u handles sent, %u of %u received were swapped",
			node, counts[1], n->tx_out, counts[0], n->rx_out);
}

void
net_open(struct net *net, unsigned node, unsigned ctx, uint32_t entries, uint32_t bulks)
{
	struct net_app *a = &net->nodes[node].apps[ctx];
	const struct net_app fresh = {
		.entries = entries,
		.bulks = bulks,
		.inline_max = 64,
		.generation = a->generation + 1,
		.hold = a->hold,
		.open = true,
	};

	*a = fresh;
	assert_int_equal(proto_ctx_open(net->nodes[node].p, (uint16_t)ctx, entries, bulks,
				 a->inline_max, net_ticks(net, node)),
		0);
}

void
net_open_all(struct net *net, uint32_t entries, uint32_t bulks)
{
	for (unsigned i = 0; i < net->count; i++) {
		for (unsigned c = 0; c < NET_CTXS; c++)
			net_open(net, i, c, entries, bulks);
	}
}

void
net_close(struct net *net, unsigned node, unsigned ctx, bool linger)
{
	struct net_app *a = &net->nodes[node].apps[ctx];

	a->open = a->frozen = a->held = a->parked = false;
	a->generation++;
	proto_ctx_close(net->nodes[node].p, (uint16_t)ctx, linger, net_ticks(net, node));
}

void
net_freeze(struct net *net, unsigned node, unsigned ctx)
{
	struct net_app *a = &net->nodes[node].apps[ctx];

	proto_ctx_freeze(net->nodes[node].p, (uint16_t)ctx, net_ticks(net, node));
	if (a->open && !a->frozen) {
		a->frozen = true;
		a->frozen_at = net->now;
	}
}

void
net_hold(struct net *net, unsigned node, unsigned ctx)
{
	struct net_app *a = &net->nodes[node].apps[ctx];

	proto_ctx_hold(net->nodes[node].p, (uint16_t)ctx, net_ticks(net, node));
	a->held = a->frozen;
}

/* The argument that net_park and net_load give to the core: the node, and how many handles there
 * were. */
struct swapping {
	struct net *net;
	unsigned node;
	uint32_t sent, received;
};

/* Marks a handle or takes its mark away, and returns the new one. */
static uint64_t
mark(const struct swapping *s, uint64_t handle, bool sent, bool parked)
{
	uint64_t plain = handle & ~PARKED, i = sent ? plain : plain - RX_TAG;
	bool known = i < (sent ? s->net->payload_count : s->net->rx_count);
	struct net_payload *d = &s->net->payloads[sent && known ? i : 0];
	struct net_rx *r = &s->net->rxs[!sent && known ? i : 0];

	if (!known || (sent ? d->node != s->node || d->back : r->node != s->node || r->back) ||
		(sent ? d->parked : r->parked) != !!(handle & PARKED) ||
		(parked && handle & PARKED))
		net_fail(s->net, "node %u swaps a handle that it does not hold so", s->node);
	if (sent)
		d->parked = parked;
	else
		r->parked = parked;
	return parked ? plain | PARKED : plain;
}

static uint64_t
mark_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct swapping *s = arg;

	(void)len;
	s->sent += sent;
	s->received += !sent;
	return mark(s, handle, sent, true);
}

/* Take the mark from a handle: what was sent while the context was parked has none. */
static uint64_t
unmark_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct swapping *s = arg;

	(void)len;
	s->sent += sent;
	s->received += !sent;
	return mark(s, handle, sent, false);
}

static unsigned pull(struct net *net, unsigned node);

/* Every frame of the context that was not given back is swapped; of those it received, no more than
 * are. */
static void
check_swapping(struct net *net, const struct swapping *s, unsigned ctx, bool all)
{
	const struct net_node *n = &net->nodes[s->node];

	if (all ? s->sent != proto_ctx_pending(n->p, (uint16_t)ctx) || s->received > n->rx_out
		: s->sent || s->received)
		net_fail(net, "node %u ctx %u: %u handles sent and %u received were swapped",
			s->node, ctx, s->sent, s->received);
}

bool
net_park(struct net *net, unsigned node, unsigned ctx)
{
	struct net_app *a = &net->nodes[node].apps[ctx];
	struct swapping s = {.net = net, .node = node};

	pull(net, node); /* what was completed or delivered before */
	bool did = proto_ctx_park(net->nodes[node].p, (uint16_t)ctx, mark_handle, &s);

	check_swapping(net, &s, ctx, did);
	if (did != (a->held && !a->parked))
		net_fail(net, "node %u ctx %u is%s parked", node, ctx, did ? "" : " not");
	a->parked |= did;
	return did;
}

int
net_load(struct net *net, unsigned node, unsigned ctx)
{
	struct net_app *a = &net->nodes[node].apps[ctx];
	struct swapping s = {.net = net, .node = node};

	pull(net, node); /* what was Acked or failed meanwhile */
	int rc = proto_ctx_load(net->nodes[node].p, (uint16_t)ctx, unmark_handle, &s);

	check_swapping(net, &s, ctx, rc == 0 && a->parked);
	if (rc == 0)
		a->parked = false;
	return rc;
}

void
net_thaw(struct net *net, unsigned node, unsigned ctx)
{
	if (net_load(net, node, ctx) != 0)
		net_fail(net, "node %u ctx %u finds no frames when it is loaded", node, ctx);
	proto_ctx_thaw(net->nodes[node].p, (uint16_t)ctx, net_ticks(net, node));
	net->nodes[node].apps[ctx].frozen = net->nodes[node].apps[ctx].held = false;
}

static void transmit(struct net *net, unsigned node, const struct proto_out *o);

int
net_send(struct net *net, unsigned src, unsigned src_ctx, unsigned dst, unsigned dst_ctx,
	uint32_t len)
{
	struct net_node *n = &net->nodes[src];
	struct proto_message m = {
		.ctx = (uint16_t)src_ctx,
		.dst_node = (uint16_t)dst,
		.dst_ctx = (uint16_t)dst_ctx,
		.len = len,
		.frag_len = n->cfg.payload_max,
	};
	uint32_t frags = len ? (len + m.frag_len - 1) / m.frag_len : 1;
	uint32_t first = net->payload_count;
	uint64_t *handles = calloc(frags, sizeof(*handles));

	for (uint32_t i = 0; i < frags; i++) {
		GROW(net, payloads, payload_count, payload_cap);
		net->payloads[net->payload_count] = (struct net_payload){
			.frag = i,
			.message = net->message_count,
			.node = (uint16_t)src,
			.life = n->life,
		};
		handles[i] = net->payload_count++;
	}
	struct proto_out now = {
		.handle = handles[0],
		.len = len,
		.node = (uint16_t)dst,
		.head_len = WIRE_HDR_BYTES,
	};
	const struct proto_now one = {handles[0], now.head, len};
	bool left = net->at_once && frags == 1 &&
		proto_send_now(n->p, proto_flow_key(m.ctx, m.dst_node, m.dst_ctx), &one, 1,
			net_ticks(net, src)) == 1;
	int rc = left ? 0 : proto_send(n->p, &m, handles, net_ticks(net, src));

	free(handles);
	if (rc < 0) {
		net->payload_count = first;
		return rc;
	}
	GROW(net, messages, message_count, message_cap);
	net->messages[net->message_count] = (struct net_message){
		.src = (uint16_t)src,
		.src_ctx = (uint16_t)src_ctx,
		.dst = (uint16_t)dst,
		.dst_ctx = (uint16_t)dst_ctx,
		.life = n->life,
		.len = len,
		.frags = frags,
		.last = net->payload_count - 1,
		.sent_at = net->now,
	};
	n->tx_out += frags;
	net->message_count++;
	if (left) {
		net->left_at_once++;
		transmit(net, src, &now);
	}
	return (int)net->message_count - 1;
}

bool
net_withdraw(struct net *net, int message)
{
	const struct net_message *m = &net->messages[message];
	const bool done = !m->gone &&
		proto_withdraw(net->nodes[m->src].p, proto_flow_key(m->src_ctx, m->dst, m->dst_ctx),
			m->last, ECANCELED);

	if (done && m->begun)
		net_fail(net, "message %d was taken back after it had begun", message);
	return done;
}

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

static void
transmit(struct net *net, unsigned src, const struct proto_out *o)
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

static unsigned
pull(struct net *net, unsigned node)
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
			transmit(net, node, &out[i]);
		did = k + pull(net, node);
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

/* --- books --- */

static void
check_counters(struct net *net, unsigned node)
{
	const uint64_t *c = proto_counters(net->nodes[node].p);
	uint64_t sum = c[PROTO_rx_accepted] + c[PROTO_rx_multi] + c[PROTO_rx_link];

	for (int i = PROTO_drop_truncated; i <= PROTO_drop_no_hold; i++)
		sum += c[i];
	if (sum != c[PROTO_rx_frames])
		net_fail(net, "node %u: received is not accepted + drops", node);
}

static void
check_flow(struct net *net, struct proto *p, const struct flow *f, uint32_t *bytes,
	uint32_t *frames)
{
	uint32_t lost = 0, kept = 0, seq = f->snd_una;

	for (uint32_t i = f->tx_head; i != NIL; i = p->txds[i].next, seq++) {
		const struct txd *d = &p->txds[i];

		if (d->seq != seq || (seq == f->snd_nxt) != (i == f->tx_next))
			net_fail(net, "a send queue is not consecutive");
		lost += d->state == TXD_LOST;
		kept += d->state == TXD_KEPT;
		if (d->state == TXD_INFLIGHT) {
			*bytes += d->len + WIRE_HDR_BYTES;
			(*frames)++;
		}
	}
	if (seq != f->snd_end || lost != f->lost || kept != f->kept)
		net_fail(net, "a send queue does not match its flow");
}

static void
check_paths(struct net *net, struct proto *p)
{
	uint32_t bytes[NET_NODES] = {0}, frames[NET_NODES] = {0}, flows[NET_NODES] = {0};

	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		const struct flow *f = &p->flows[i];

		if (f->key == 0)
			continue;
		flows[f->path]++;
		check_flow(net, p, f, &bytes[f->path], &frames[f->path]);
	}
	for (uint32_t i = 0; i < p->cfg.paths_max && i < NET_NODES; i++) {
		const struct path *t = &p->paths[i];

		if (t->used &&
			(t->inflight_bytes != bytes[i] || t->inflight_frames != frames[i] ||
				t->flow_count != flows[i]))
			net_fail(net, "a path's flight does not match its flows");
	}
}

static void
check_rooms(struct net *net, unsigned node)
{
	const struct net_node *n = &net->nodes[node];
	uint32_t reserved = 0, held = 0, assembling = 0, entries[NET_CTXS] = {0},
		 bulks[NET_CTXS] = {0};

	for (uint32_t i = 0; i < n->cfg.flows_max; i++) {
		const struct flow *f = &n->p->flows[i];

		if (f->key == 0)
			continue;
		reserved += f->frags_left;
		for (uint32_t k = f->ooo.head; k != NIL; k = n->p->rxds[k].next)
			held++;
		if (n->p->ctxs[f->ctx].frozen == CONTEXT_PARKED ? !list_empty(&f->ooo)
								: f->flags & FLOW_PARKED)
			net_fail(net, "node %u: a flow of ctx %u is %s parked", node, f->ctx,
				f->flags & FLOW_PARKED ? "still" : "not all");
		if (f->frags_left && f->frags_bulks > 1 && n->p->ctxs[f->ctx].copied &&
			n->p->ctxs[f->ctx].frozen != CONTEXT_PARKED)
			assembling += f->frags_bulks;
		if (f->frags_left) {
			entries[f->ctx]++;
			bulks[f->ctx] += f->frags_bulks;
		}
		if (f->flags & FLOW_GRANTED) {
			entries[f->ctx]++;
			bulks[f->ctx] += f->need_bulks;
		}
	}
	if (reserved != n->p->rxd_reserved || n->p->rxd_free_count < reserved)
		net_fail(net, "node %u: descriptors set aside do not add up", node);
	if (held != n->p->held || (n->cfg.hold_frames_max && held > n->cfg.hold_frames_max))
		net_fail(net, "node %u holds %u frames out of order, counts %u", node, held,
			n->p->held);
	if (assembling != n->p->assembling || assembling > n->cfg.assembly_frames_max)
		net_fail(net, "node %u puts together %u frames, counts %u", node, assembling,
			n->p->assembling);
	for (unsigned c = 0; c < NET_CTXS && c < n->cfg.contexts_max; c++) {
		const struct net_app *a = &n->apps[c];
		const struct context *x = &n->p->ctxs[c];

		if (a->open &&
			(x->entries + x->kept_entries + entries[c] + a->held_entries !=
					a->entries ||
				x->bulks + x->kept_bulks + bulks[c] + a->held_bulks != a->bulks))
			net_fail(net, "node %u ctx %u: room does not add up", node, c);
		if (x->frozen ? x->entries || x->bulks : x->kept_entries || x->kept_bulks)
			net_fail(net, "node %u ctx %u: room of a frozen context", node, c);
		if (a->parked != (x->frozen == CONTEXT_PARKED))
			net_fail(net, "node %u ctx %u: whether it is parked", node, c);
	}
}

void
net_check_books(struct net *net, unsigned node)
{
	struct net_node *n = &net->nodes[node];

	check_counters(net, node);
	check_paths(net, n->p);
	check_rooms(net, node);
	if (n->cfg.tx_frames_max - proto_tx_free(n->p) != n->tx_out ||
		n->cfg.rx_frames_max - proto_rx_free(n->p) != n->rx_out)
		net_fail(net, "node %u: handles and descriptors differ", node);
}

void
net_check_clean(struct net *net)
{
	for (unsigned i = 0; i < net->count; i++) {
		struct net_node *n = &net->nodes[i];
		struct proto_path_stat s;

		if (n->dead)
			continue;
		net_check_books(net, i);
		if (n->tx_out || n->rx_out)
			net_fail(net, "node %u keeps %u sent and %u received", i, n->tx_out,
				n->rx_out);
		for (uint16_t k = 0; k < n->cfg.nodes_max; k++) {
			if (proto_path_stat(n->p, k, &s) && (s.inflight_bytes || s.inflight_frames))
				net_fail(net, "node %u has flight to %u", i, k);
		}
	}
}

/* --- questions of the tests --- */

uint64_t
net_count(const struct net *net, unsigned node, enum proto_counter c)
{
	return proto_counters(net->nodes[node].p)[c];
}

struct flow *
net_flow(struct net *net, unsigned node, unsigned ctx, unsigned peer, unsigned peer_ctx)
{
	struct proto *p = net->nodes[node].p;
	uint32_t i = flow_find(p, (uint16_t)ctx, (uint16_t)peer, (uint16_t)peer_ctx);

	return i == NIL ? NULL : &p->flows[i];
}

struct path *
net_path(struct net *net, unsigned node, unsigned peer)
{
	struct proto *p = net->nodes[node].p;

	return p->path_of[peer] == NIL ? NULL : &p->paths[p->path_of[peer]];
}

struct wire_hdr
net_data(const struct net *net, unsigned src, unsigned dst, uint32_t seq, uint16_t len,
	uint16_t flags)
{
	return (struct wire_hdr){
		.version = WIRE_VERSION,
		.type = WIRE_DATA,
		.flags = wire_be16(flags),
		.src_node = wire_be16((uint16_t)src),
		.dst_node = wire_be16((uint16_t)dst),
		.payload_len = wire_be16(len),
		.session = wire_be32(proto_session(net->nodes[dst].p, (uint16_t)src)),
		.seq = wire_be32(seq),
		.msg_len = wire_be32(len),
	};
}

uint32_t
net_logged(const struct net *net, unsigned src, unsigned type, uint16_t flags)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < net->log_count; i++) {
		const struct net_frame *f = &net->log[i];

		n += f->src == src && f->type == type && (f->flags & flags) == flags;
	}
	return n;
}

bool
net_delivered(const struct net *net, int message)
{
	return net->messages[message].arrived == net->messages[message].frags;
}

void
net_expect_delivered(struct net *net, int message)
{
	assert_true(message >= 0);
	const struct net_message *m = &net->messages[message];

	if (m->arrived != m->frags || m->completed != m->frags || m->error)
		net_fail(net, "message %d: %u of %u arrived, %u completed, error %u", message,
			m->arrived, m->frags, m->completed, m->error);
}

void
net_expect_error(struct net *net, int message, int error)
{
	assert_true(message >= 0);
	const struct net_message *m = &net->messages[message];

	if (m->completed != m->frags || m->error != error)
		net_fail(net, "message %d: %u of %u completed, error %u instead of %d", message,
			m->completed, m->frags, m->error, error);
}
