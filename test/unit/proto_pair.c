/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See proto_pair.h. Here: nodes, their contexts, and what is sent.
 */
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "proto_pair.h"
#include "proto_pair_inside.h"

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
	const uint64_t x = mix64_next(&net->random);

	return below ? (uint32_t)(x >> 32) % below : 0;
}

uint64_t
net_ticks(const struct net *net, unsigned node)
{
	return (uint64_t)((unsigned __int128)net->now * net->nodes[node].cfg.ticks_per_sec /
		NET_SEC);
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

/* --- contexts --- */

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

/* --- parking --- */

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

	net_pull(net, node); /* what was completed or delivered before */
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

	net_pull(net, node); /* what was Acked or failed meanwhile */
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

/* --- messages --- */

/* Return the handles of as many payloads, which are made for the next message of a node. The caller
 * frees the array. */
static uint64_t *
new_payloads(struct net *net, unsigned src, uint32_t frags)
{
	uint64_t *handles = calloc(frags, sizeof(*handles));

	for (uint32_t i = 0; i < frags; i++) {
		GROW(net, payloads, payload_count, payload_cap);
		net->payloads[net->payload_count] = (struct net_payload){
			.frag = i,
			.message = net->message_count,
			.node = (uint16_t)src,
			.life = net->nodes[src].life,
		};
		handles[i] = net->payload_count++;
	}
	return handles;
}

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
	uint64_t *handles = new_payloads(net, src, frags);
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
		net_transmit(net, src, &now);
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
