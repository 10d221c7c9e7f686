/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events, nodes, switches and cables; see sim.h. The checks are in oracle.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/seal.h"

#define BURST      32
#define ROUNDS_MAX 100000

/* The arguments and the result of one call from outside. */
struct sim_request {
	uint64_t at;
	uint32_t node, node2, len, tag;
	uint16_t ctx, ctx2;
	bool on, frozen, held, parked;
	enum sim_seal_act what;
	const struct fault_config *fault;
	int result;
};

/* Run `call` so that a violation in it returns here. Only the outermost call catches it; calls from
 * hooks pass it on. Returns false if there was a violation, now or earlier. */
static bool
guarded(struct sim *s, void (*call)(struct sim *, struct sim_request *), struct sim_request *r)
{
	jmp_buf here;

	if (s->error[0] != '\0')
		return false;
	if (s->out != NULL) {
		call(s, r);
		return true;
	}
	s->out = &here;
	sim_enter(s);
	if (setjmp(here) == 0)
		call(s, r);
	s->out = NULL;
	return s->error[0] == '\0';
}

/* ------------------------------------------------------------------ nodes wake */

/* Wake the node at that time. At most one such event is pending. */
static void
wake(struct sim *s, uint32_t node, uint64_t at)
{
	struct sim_node *n = &s->nodes[node];

	if (at < s->now)
		at = s->now;
	if (at >= n->wake_at)
		return;
	n->wake_at = at;
	if (at != SIM_NEVER)
		sim_schedule(s, at, EVENT_NODE, node);
}

/* ------------------------------------------------------------ nodes: what comes out of the core */

static void
give_room(struct sim *s, uint32_t node, uint16_t ctx, uint32_t entries, uint32_t bulks)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_context *c = &n->contexts[ctx];

	if (c->paused) {
		c->later_entries += entries;
		c->later_bulks += bulks;
		return;
	}
	c->held_entries -= entries;
	c->held_bulks -= bulks;
	proto_ctx_room(n->core, ctx, entries, bulks, sim_ticks(s, n));
}

static void
release_held(struct sim *s, uint32_t node, uint64_t handle)
{
	struct sim_held *h = &s->held[handle];

	if (handle >= s->held_count || !h->used || h->node != node)
		sim_violation(s, "node %u gave a received frame back a second time", node);
	h->used = false;
	if (h->kept) {
		s->nodes[node].kept--;
		s->kept--;
	}
	GIVE(s, held, held, (uint32_t)handle);
}

static void
deliver(struct sim *s, uint32_t node, const struct proto_delivery *d)
{
	if (s->nodes[node].contexts[d->ctx].parked || d->handle & PARKED_BIT)
		sim_violation(s, "context %u.%u is parked, and a message came to it", node, d->ctx);
	if (d->handle >= s->held_count || !s->held[d->handle].used ||
		s->held[d->handle].node != node)
		sim_violation(s, "node %u delivered a frame a second time", node);
	const struct ident id = s->held[d->handle].id;

	release_held(s, node, d->handle);
	oracle_delivery(s, node, &id, d);
	if (!d->last)
		return;
	sim_digest_add(s, (uint64_t)id.stream << 32 | id.order);
	uint32_t bulks = id.len > s->cfg.inline_max || id.len > id.frag_len ? id.frag + 1 : 0;

	give_room(s, node, d->ctx, d->ctx < s->cfg.kept ? 0 : 1, bulks);
	s->here = node;
	if (s->cfg.delivered != NULL)
		s->cfg.delivered(s->cfg.arg, s, d, id.tag);
}

static void
complete(struct sim *s, uint32_t node, struct proto_completion *c)
{
	c->handle &= ~PARKED_BIT; /* it was Acked or failed meanwhile */
	uint32_t slot = (uint32_t)(c->handle >> 32);

	oracle_completion(s, node, c);
	s->nodes[node].handles--;
	if (!c->last)
		return;
	struct sim_message *m = &s->messages[slot];
	uint32_t tag = m->tag;
	int error = m->error;

	m->used = false;
	m->generation++;
	s->pending--;
	GIVE(s, messages, message, slot);
	sim_digest_add(s, (uint64_t)error << 32 | slot);
	s->here = node;
	if (s->cfg.completed != NULL)
		s->cfg.completed(s->cfg.arg, s, node, tag, error);
}

static unsigned
pull(struct sim *s, uint32_t node)
{
	struct proto *core = s->nodes[node].core;
	struct proto_delivery d[BURST];
	struct proto_completion c[BURST];
	uint64_t handles[BURST];
	unsigned all = 0, k;

	while ((k = proto_deliver(core, d, BURST)) > 0) {
		for (unsigned i = 0; i < k; i++)
			deliver(s, node, &d[i]);
		all += k;
	}
	while ((k = proto_complete(core, c, BURST)) > 0) {
		for (unsigned i = 0; i < k; i++)
			complete(s, node, &c[i]);
		all += k;
	}
	while ((k = proto_release(core, handles, BURST)) > 0) {
		for (unsigned i = 0; i < k; i++)
			release_held(s, node, handles[i] & ~PARKED_BIT);
		all += k;
	}
	return all;
}

/* Move frames from the core to the host's port, as far as the port accepts them. */
static unsigned
push(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];
	struct proto_out out[BURST];
	const struct edge *e = net_port(s, node);
	unsigned all = 0;

	for (;; e = net_port(s, node)) {
		uint64_t queued = net_backlog(s, e);

		if (queued >= s->cfg.nic_bytes) {
			wake(s, node, e->free_at - net_serialisation(e, s->cfg.nic_bytes / 2));
			return all;
		}
		uint64_t room = (s->cfg.nic_bytes - queued) /
				(n->cfg.payload_max + WIRE_HDR_BYTES + WIRE_FRAME_EXTRA) +
			1;
		unsigned ask = room < BURST ? (unsigned)room : BURST;
		unsigned k = proto_tx(n->core, out, ask, sim_ticks(s, n));

		for (unsigned i = 0; i < k; i++)
			net_transmit(s, node, &out[i], links_choose(s, node, &out[i]));
		all += k;
		if (k < ask)
			return all;
	}
}

static void
step(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];
	unsigned rounds = 0;

	proto_tick(n->core, sim_ticks(s, n));
	while (pull(s, node) + push(s, node) > 0) {
		if (++rounds > ROUNDS_MAX)
			sim_violation(s, "node %u never comes to an end", node);
	}
	if (n->rails != NULL)
		links_step(s, node);
	if (s->cfg.audit)
		oracle_books(s, node);
	uint64_t at = sim_moment(n, proto_deadline(n->core));

	/* frames that the port did not accept are no missed deadline: push() asked to be called
	 * again */
	if (at <= s->now && n->wake_at > s->now && !sim_port_is_full(s, node))
		sim_violation(s, "node %u has a deadline in the past and nothing to do", node);
	if (at > s->now)
		wake(s, node, at);
	if (n->rails != NULL)
		wake(s, node, n->rails_at);
}

static void
sim_receive(struct sim *s, uint32_t packet)
{
	struct packet *k = &s->packets[packet];
	uint32_t node = k->dst, index;
	struct sim_node *n = &s->nodes[node];

	TAKE(s, held, held, index);
	s->held[index] = (struct sim_held){.id = k->id, .node = node, .used = true};
	s->frames++;
	sim_digest_add(s, s->now ^ (uint64_t)node << 48);
	if (s->cfg.trace != NULL)
		net_trace(s, "got ", k);
	const uint32_t src = wire_be16(((const struct wire_hdr *)k->head)->src_node);

	if (n->rails != NULL && src < s->node_count) {
		proto_rx_link(n->core, net_link_of(s, k));
		rails_heard(&n->rails[src], net_link_of(s, k));
	}
	enum proto_rx_result r = proto_rx(n->core, k->head, k->len, index, sim_ticks(s, n));

	if (r == PROTO_RX_DONE || r == PROTO_RX_TWIN || r == PROTO_RX_ANNOUNCED) {
		release_held(s, node, index);
	} else if (r == PROTO_RX_LINK) {
		release_held(s, node, index);
		links_hear(s, node, net_link_of(s, k), (const struct wire_hdr *)k->head);
		k = &s->packets[packet];
	} else if (r == PROTO_RX_MULTI) {
		const struct wire_hdr *h = (const struct wire_hdr *)k->head;

		release_held(s, node, index);
		s->here = node;
		if (s->cfg.multicast != NULL)
			s->cfg.multicast(s->cfg.arg, s, wire_be16(h->src_node), k->id.tag);
	} else if (k->id.message == NIL) {
		sim_violation(s, "node %u kept a frame that carries no payload", node);
	} else if (r == PROTO_RX_KEPT) {
		const struct wire_hdr *h = (const struct wire_hdr *)k->head;

		if (n->contexts[wire_be16(h->dst_ctx)].parked)
			sim_violation(s, "node %u kept a frame for a parked context", node);
		s->held[index].kept = true;
		n->kept++;
		s->kept++;
	} else {
		const struct wire_hdr *h = (const struct wire_hdr *)k->head;
		const struct proto_delivery d = {
			.handle = index,
			.msg_len = wire_be32(h->msg_len),
			.len = wire_be16(h->payload_len),
			.ctx = wire_be16(h->dst_ctx),
			.src_node = wire_be16(h->src_node),
			.src_ctx = wire_be16(h->src_ctx),
			.last = true,
		};

		deliver(s, node, &d);
	}
	net_drop(s, packet);
	step(s, node);
}

/* Take in a packet that has arrived, as far as its seal is sound. */
static void
take_in(struct sim *s, uint32_t packet)
{
	if (s->seals == NULL || seal_in(s, packet))
		sim_receive(s, packet);
	else
		net_drop(s, packet);
}

/* ------------------------------------------------------------------ making and ending */

static uint32_t
links(const struct sim_config *c)
{
	return c->links > 1 ? c->links : 1;
}

static void
start_node(struct sim *s, uint32_t i)
{
	struct sim_node *n = &s->nodes[i];

	n->cfg = s->cfg.proto;
	n->cfg.node = (uint16_t)i;
	n->cfg.epoch = (uint32_t)sim_random(s) | 1;
	n->cfg.key[0] = sim_random(s);
	n->cfg.links = s->cfg.links;
	if (n->cfg.port_bps == SIM_RATE_OF_LINK)
		n->cfg.port_bps = s->cfg.links > 1
			? 0
			: s->cfg.topology->edges[n->uplink].bandwidth_bps;
	if (s->cfg.configure != NULL)
		s->cfg.configure(s->cfg.arg, i, &n->cfg);
	size_t size = proto_memsize(&n->cfg);
	void *memory = size ? aligned_alloc(64, size) : NULL;

	if (memory == NULL)
		sim_violation(s,
			size ? "out of memory" : "the core refuses the configuration of node %u",
			i);
	memset(memory, 0, size);
	n->offset = sim_random(s) >> 8;
	n->rate = n->cfg.ticks_per_sec;
	if (s->cfg.drift_ppm) {
		uint64_t part = (unsigned __int128)n->rate * s->cfg.drift_ppm / 1000000;

		n->rate += sim_random(s) % (2 * part + 1) - part;
	}
	n->core = proto_init(memory, &n->cfg, sim_ticks(s, n));
	n->rails_at = SIM_NEVER;
	for (uint32_t k = 0; n->rails != NULL && k < s->node_count; k++) {
		n->rails[k] = (struct rails){.all = (uint8_t)((1u << s->cfg.links) - 1)};
		links_expect(s, i, k);
	}
	n->handles = n->kept = 0;
	memset(n->contexts, 0, s->cfg.proto.contexts_max * sizeof(*n->contexts));
}

static void
set_fault(struct sim *s, uint32_t node, const struct fault_config *fault)
{
	struct sim_node *n = &s->nodes[node];
	struct fault_config f = *fault;

	f.seed ^= sim_random(s);
	n->faulty_out = n->faulty_in = f.loss_ppm || f.burst_ppm || f.duplicate_ppm ||
		f.reorder_ppm || f.corrupt_ppm || f.delay_ns || f.jitter_ns || f.rate_bps ||
		f.blackout_period_ns;
	fault_model_init(&n->fault_out, &f);
	f.seed ^= sim_random(s);
	fault_model_init(&n->fault_in, &f);
}

static void
sim_make(struct sim *s, struct sim_request *r)
{
	const struct topology *t = s->cfg.topology;

	(void)r;

	for (uint32_t i = 0; i < links(&s->cfg) * t->edge_count; i++) {
		const struct topology_edge *e = &t->edges[i % t->edge_count];

		s->edges[i] = (struct edge){
			.ns_per_byte = net_ns_per_byte(e->bandwidth_bps),
			.latency_ns = e->latency_ns + i / t->edge_count * s->cfg.link_skew_ns,
			.buffer_bytes = t->vertices[e->from].buffer_bytes,
			.to = e->to,
			.to_host = t->vertices[e->to].host,
			.from_host = t->vertices[e->from].host,
		};
		if (e->stream_bps > 0) {
			s->edges[i].pair_ns_per_byte = net_ns_per_byte(e->stream_bps);
			s->edges[i].pair_free_at = calloc((size_t)s->node_count * s->node_count,
				sizeof(uint64_t));
		}
	}
	for (uint32_t i = 0; i < s->node_count; i++) {
		s->nodes[i].uplink = t->vertices[t->hosts[i]].first_edge;
		s->nodes[i].wake_at = SIM_NEVER;
		s->nodes[i].contexts = calloc(s->cfg.proto.contexts_max,
			sizeof(struct sim_context));
		if (links(&s->cfg) > 1)
			s->nodes[i].rails = calloc(s->node_count, sizeof(struct rails));
		set_fault(s, i, &s->cfg.fault);
		start_node(s, i);
	}
	if (s->cfg.seal != NULL)
		seals_make(s);
}

struct sim *
sim_new(const struct sim_config *config)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->cfg = *config;
	s->random = config->seed;
	s->node_count = config->topology->host_count;
	s->nodes = calloc(s->node_count, sizeof(*s->nodes));
	s->edge_count = config->topology->edge_count;
	s->edges = calloc(links(config) * s->edge_count, sizeof(*s->edges));
	s->rails = (struct rails_config){.ticks_per_us = 1000, .spread = config->spread};
	s->stream_mask = 1023;
	s->stream_table = calloc(s->stream_mask + 1, sizeof(*s->stream_table));
	s->message_free = s->held_free = s->packet_free = s->timer_free = NIL;
	if (s->nodes == NULL || s->edges == NULL || s->stream_table == NULL) {
		sim_free(s);
		return NULL;
	}
	guarded(s, sim_make, &(struct sim_request){0});
	return s;
}

void
sim_free(struct sim *s)
{
	seals_free(s);
	for (uint32_t i = 0; s->nodes != NULL && i < s->node_count; i++) {
		free(s->nodes[i].core);
		free(s->nodes[i].contexts);
		free(s->nodes[i].rails);
	}
	for (uint32_t i = 0; s->edges != NULL && i < links(&s->cfg) * s->edge_count; i++)
		free(s->edges[i].pair_free_at);
	free(s->nodes);
	free(s->edges);
	free(s->events);
	free(s->messages);
	free(s->streams);
	free(s->held);
	free(s->packets);
	free(s->timers);
	free(s->stream_table);
	free(s);
}

static void
restart(struct sim *s, struct sim_request *r)
{
	uint32_t node = r->node;
	struct sim_node *n = &s->nodes[node];

	for (uint32_t i = 0; i < s->message_count; i++) {
		struct sim_message *m = &s->messages[i];

		if (!m->used || s->streams[m->stream].src != node)
			continue;
		m->used = false;
		m->generation++;
		s->pending--;
		GIVE(s, messages, message, i);
	}
	for (uint32_t i = 0; i < s->held_count; i++) {
		if (s->held[i].used && s->held[i].node == node)
			release_held(s, node, i);
	}
	free(n->core);
	start_node(s, node);
	if (s->seals != NULL)
		seal_begin(s, node, true);
	wake(s, node, s->now);
}

/* ------------------------------------------------------------------ sending */

static uint32_t
stream_of(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx)
{
	uint64_t key = (uint64_t)src << 48 | (uint64_t)src_ctx << 32 | (uint64_t)dst << 16 |
		dst_ctx;
	uint32_t at = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & s->stream_mask;

	for (; s->stream_table[at] != 0; at = (at + 1) & s->stream_mask) {
		if (s->streams[s->stream_table[at] - 1].key == key)
			return s->stream_table[at] - 1;
	}
	s->streams = sim_grown(s, s->streams, s->stream_count, &s->stream_cap, sizeof(*s->streams));
	s->streams[s->stream_count] = (struct sim_stream){
		.key = key,
		.src = src,
		.dst = dst,
		.src_ctx = src_ctx,
		.dst_ctx = dst_ctx,
	};
	s->stream_table[at] = ++s->stream_count;
	if (s->stream_count > s->stream_mask / 2) {
		free(s->stream_table);
		s->stream_mask = 2 * s->stream_mask + 1;
		s->stream_table = calloc(s->stream_mask + 1, sizeof(*s->stream_table));
		if (s->stream_table == NULL)
			sim_violation(s, "out of memory");
		for (uint32_t i = 0; i < s->stream_count; i++) {
			at = (uint32_t)((s->streams[i].key * 0x9E3779B97F4A7C15u) >> 32) &
				s->stream_mask;
			while (s->stream_table[at] != 0)
				at = (at + 1) & s->stream_mask;
			s->stream_table[at] = i + 1;
		}
	}
	return s->stream_count - 1;
}

/* Note a message that its node's core has taken. */
static void
message_sent(struct sim *s, const struct sim_request *r, uint32_t slot, uint32_t frags)
{
	struct sim_node *n = &s->nodes[r->node];
	const uint32_t stream = stream_of(s, r->node, r->ctx, r->node2, r->ctx2);

	s->messages[slot] = (struct sim_message){
		.generation = s->messages[slot].generation,
		.stream = stream,
		.order = s->streams[stream].sent++,
		.len = r->len,
		.frags = frags,
		.frag_len = n->cfg.payload_max,
		.tag = r->tag,
		.epoch = n->cfg.epoch,
		.at = s->now,
		.used = true,
	};
	n->handles += frags;
	s->pending++;
}

static void
send_message(struct sim *s, struct sim_request *r)
{
	struct sim_node *n = &s->nodes[r->node];
	const struct proto_message m = {
		.dst_node = (uint16_t)r->node2,
		.dst_ctx = r->ctx2,
		.len = r->len,
		.ctx = r->ctx,
		.frag_len = n->cfg.payload_max,
	};
	uint32_t frags = r->len ? (r->len + m.frag_len - 1) / m.frag_len : 1, slot;
	uint64_t few[64], *handles = few;

	r->result = frags > 0xFFFF ? -EMSGSIZE : -ENOMEM;
	if (frags > 0xFFFF || (frags > 64 && (handles = malloc(frags * sizeof(*handles))) == NULL))
		return;
	TAKE(s, messages, message, slot);
	uint32_t generation = s->messages[slot].generation;

	for (uint32_t i = 0; i < frags; i++)
		handles[i] = (uint64_t)slot << 32 | (uint64_t)(generation & 0xFFFF) << 16 | i;
	struct proto_out now = {
		.handle = handles[0],
		.len = r->len,
		.node = (uint16_t)r->node2,
		.head_len = WIRE_HDR_BYTES,
	};
	const struct proto_now one = {handles[0], now.head, m.len};
	/* half of the messages try both ways, as an engine's do that finds its port full now and
	 * then */
	bool sent = frags == 1 && slot % 2 == 0 && !sim_port_is_full(s, r->node) &&
		proto_send_now(n->core, proto_flow_key(m.ctx, m.dst_node, m.dst_ctx), &one, 1,
			sim_ticks(s, n)) == 1;

	r->result = sent ? 0 : proto_send(n->core, &m, handles, sim_ticks(s, n));
	if (handles != few)
		free(handles);
	if (r->result != 0) {
		GIVE(s, messages, message, slot);
		return;
	}
	message_sent(s, r, slot, frags);
	if (sent)
		net_transmit(s, r->node, &now, links_choose(s, r->node, &now));
	wake(s, r->node, s->now);
}

int
sim_send(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx,
	uint32_t len, uint32_t tag)
{
	struct sim_request r = {
		.node = src,
		.ctx = src_ctx,
		.node2 = dst,
		.ctx2 = dst_ctx,
		.len = len,
		.tag = tag,
	};

	return guarded(s, send_message, &r) ? r.result : -EPIPE;
}

void
sim_permitted(struct sim *s, uint32_t src, uint32_t dst, uint32_t len)
{
	proto_path_permitted(s->nodes[src].core, (uint16_t)dst, len);
}

static void
send_multicast(struct sim *s, struct sim_request *r)
{
	const struct wire_hdr h = {
		.version = WIRE_VERSION,
		.type = WIRE_MULTI,
		.src_node = wire_be16((uint16_t)r->node),
		.dst_node = wire_be16(WIRE_NOBODY),
		.src_ctx = wire_be16(r->ctx),
		.dst_ctx = wire_be16(WIRE_NOBODY),
		.payload_len = wire_be16((uint16_t)r->len),
	};
	r->result = -EAGAIN;
	if (sim_port_is_full(s, r->node))
		return;
	const uint32_t packet = net_packet(s);
	struct packet *k = &s->packets[packet];

	k->id = (struct ident){.message = NIL, .tag = r->tag};
	k->dst = NIL;
	k->len = WIRE_HDR_BYTES + r->len;
	k->head_len = WIRE_HDR_BYTES;
	k->judged_out = k->judged_in = false;
	memcpy(k->head, &h, sizeof(h));
	r->result = 0;
	if (s->cfg.trace != NULL)
		net_trace(s, "sent", k);
	net_leave(s, r->node, s->nodes[r->node].uplink, packet);
}

int
sim_multicast(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t len, uint32_t tag)
{
	struct sim_request r = {.node = src, .ctx = src_ctx, .len = len, .tag = tag};

	return guarded(s, send_multicast, &r) ? r.result : -EPIPE;
}

/* ------------------------------------------------------------------ the outside's other calls */

static void
sim_open_context(struct sim *s, struct sim_request *r)
{
	struct sim_node *n = &s->nodes[r->node];

	r->result = proto_ctx_open(n->core, r->ctx, s->cfg.entries, s->cfg.bulks, s->cfg.inline_max,
		sim_ticks(s, n));
	if (r->result == 0)
		n->contexts[r->ctx] = (struct sim_context){.open = true};
	if (r->result == 0 && s->cfg.permits)
		proto_ctx_permits(n->core, r->ctx);
	wake(s, r->node, s->now);
}

int
sim_open(struct sim *s, uint32_t node, uint16_t ctx)
{
	struct sim_request r = {.node = node, .ctx = ctx};

	return guarded(s, sim_open_context, &r) ? r.result : -EPIPE;
}

static void
close_context(struct sim *s, struct sim_request *r)
{
	struct sim_node *n = &s->nodes[r->node];

	pull(s, r->node); /* deliver what was received before */
	n->contexts[r->ctx].open = n->contexts[r->ctx].frozen = false;
	n->contexts[r->ctx].held = n->contexts[r->ctx].parked = false;
	proto_ctx_close(n->core, r->ctx, r->on, sim_ticks(s, n));
	wake(s, r->node, s->now);
}

void
sim_close(struct sim *s, uint32_t node, uint16_t ctx, bool linger)
{
	guarded(s, close_context, &(struct sim_request){.node = node, .ctx = ctx, .on = linger});
}

static void
add_timer(struct sim *s, struct sim_request *r)
{
	uint32_t i;

	TAKE(s, timers, timer, i);
	s->timers[i].node = r->node;
	s->timers[i].tag = r->tag;
	sim_schedule(s, r->at > s->now ? r->at : s->now, EVENT_TIMER, i);
}

void
sim_at(struct sim *s, uint64_t at, uint32_t node, uint32_t tag)
{
	guarded(s, add_timer, &(struct sim_request){.at = at, .node = node, .tag = tag});
}

static void
return_room(struct sim *s, struct sim_request *r)
{
	if (!s->nodes[r->node].contexts[r->ctx].open)
		return;
	give_room(s, r->node, r->ctx, r->len, 0);
	wake(s, r->node, s->now);
}

void
sim_room(struct sim *s, uint32_t node, uint16_t ctx, uint32_t entries)
{
	guarded(s, return_room, &(struct sim_request){.node = node, .ctx = ctx, .len = entries});
}

static void
pause_context(struct sim *s, struct sim_request *r)
{
	struct sim_context *c = &s->nodes[r->node].contexts[r->ctx];
	uint32_t entries = c->later_entries, bulks = c->later_bulks;

	c->paused = r->on;
	if (r->on || !c->open)
		return;
	c->later_entries = c->later_bulks = 0;
	give_room(s, r->node, r->ctx, entries, bulks);
	wake(s, r->node, s->now);
}

void
sim_pause(struct sim *s, uint32_t node, uint16_t ctx, bool paused)
{
	guarded(s, pause_context, &(struct sim_request){.node = node, .ctx = ctx, .on = paused});
}

/* Put the payload of a parked context's frame out of reach, until the context is loaded. */
static uint64_t
park_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct sim *s = arg;

	(void)len;
	(void)sent;
	if (handle & PARKED_BIT)
		sim_violation(s, "a frame was parked twice");
	return handle | PARKED_BIT;
}

static uint64_t
load_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	(void)arg;
	(void)len;
	(void)sent; /* what was sent meanwhile waits, and was never parked */
	return handle & ~PARKED_BIT;
}

static void
freeze_context(struct sim *s, struct sim_request *r)
{
	struct sim_node *n = &s->nodes[r->node];
	struct sim_context *c = &n->contexts[r->ctx];

	if (!c->open)
		return;
	pull(s, r->node); /* what was received before */
	if (r->held && c->frozen) {
		proto_ctx_hold(n->core, r->ctx, sim_ticks(s, n));
		if (!proto_ctx_settled(n->core, r->ctx))
			sim_violation(s, "context %u.%u is held, and not settled", r->node, r->ctx);
		c->held = true;
		if (r->parked && proto_ctx_park(n->core, r->ctx, park_handle, s))
			c->parked = true;
	} else if (r->frozen) {
		proto_ctx_freeze(n->core, r->ctx, sim_ticks(s, n));
		if (!c->frozen)
			c->frozen_at = s->now;
		c->frozen = true;
	} else if (!r->held) {
		if (proto_ctx_load(n->core, r->ctx, load_handle, NULL) != 0)
			sim_violation(s, "context %u.%u finds no frames when it is loaded", r->node,
				r->ctx);
		c->parked = false;
		proto_ctx_thaw(n->core, r->ctx, sim_ticks(s, n));
		c->frozen = c->held = false;
	}
	wake(s, r->node, s->now);
}

void
sim_freeze(struct sim *s, uint32_t node, uint16_t ctx)
{
	guarded(s, freeze_context, &(struct sim_request){.node = node, .ctx = ctx, .frozen = true});
}

void
sim_hold(struct sim *s, uint32_t node, uint16_t ctx)
{
	guarded(s, freeze_context, &(struct sim_request){.node = node, .ctx = ctx, .held = true});
}

void
sim_park(struct sim *s, uint32_t node, uint16_t ctx)
{
	guarded(s, freeze_context,
		&(struct sim_request){.node = node, .ctx = ctx, .held = true, .parked = true});
}

void
sim_thaw(struct sim *s, uint32_t node, uint16_t ctx)
{
	guarded(s, freeze_context, &(struct sim_request){.node = node, .ctx = ctx});
}

void
sim_restart(struct sim *s, uint32_t node)
{
	guarded(s, restart, &(struct sim_request){.node = node});
}

static void
act_on_seals(struct sim *s, struct sim_request *r)
{
	seal_act(s, r->node, r->node2, r->what);
}

void
sim_seal_act(struct sim *s, uint32_t node, uint32_t peer, enum sim_seal_act what)
{
	guarded(s, act_on_seals, &(struct sim_request){.node = node, .node2 = peer, .what = what});
}

void
sim_fault(struct sim *s, uint32_t node, const struct fault_config *fault)
{
	set_fault(s, node, fault);
}

void
sim_cut(struct sim *s, uint32_t node, bool out, bool in)
{
	s->nodes[node].cut_out = out;
	s->nodes[node].cut_in = in;
}

void
sim_cut_link(struct sim *s, uint32_t node, uint32_t link, bool out, bool in)
{
	struct sim_node *n = &s->nodes[node];

	n->links_cut_out = (uint8_t)((n->links_cut_out & ~(1u << link)) | (uint32_t)out << link);
	n->links_cut_in = (uint8_t)((n->links_cut_in & ~(1u << link)) | (uint32_t)in << link);
}

/* ------------------------------------------------------------------ time */

static void
happen(struct sim *s)
{
	const struct sim_event e = sim_next_event(s);

	s->now = e.at;
	switch ((enum event_kind)e.kind) {
	case EVENT_ARRIVAL:
		if (net_arrive(s, e.index))
			take_in(s, e.index);
		break;
	case EVENT_LEAVES:
		net_enter(s, s->packets[e.index].edge, e.index);
		break;
	case EVENT_KEEPER:
		keeper_turn(s, e.index, e.at);
		break;
	case EVENT_NODE:
		if (s->nodes[e.index].wake_at != e.at)
			break; /* it was woken earlier */
		s->nodes[e.index].wake_at = SIM_NEVER;
		step(s, e.index);
		break;
	case EVENT_TIMER: {
		const struct app_timer t = s->timers[e.index];

		GIVE(s, timers, timer, e.index);
		s->here = t.node;
		if (s->cfg.timer != NULL)
			s->cfg.timer(s->cfg.arg, s, t.node, t.tag);
		break;
	}
	}
}

static void
run_until(struct sim *s, uint64_t until)
{
	while (s->event_count > 0 && s->events[0].at <= until)
		happen(s);
	if (until != SIM_NEVER && until > s->now)
		s->now = until;
}

static void
run(struct sim *s, struct sim_request *r)
{
	run_until(s, r->at);
}

bool
sim_run(struct sim *s, uint64_t until)
{
	return guarded(s, run, &(struct sim_request){.at = until});
}

static void
settle(struct sim *s, struct sim_request *r)
{
	uint64_t end = s->now + r->at;

	do {
		while ((s->pending > 0 || s->kept > 0) && s->event_count > 0 &&
			s->events[0].at <= end)
			happen(s);
		if (s->pending > 0)
			sim_violation(s, "%llu sends are not completed after %.3f s",
				(unsigned long long)s->pending, (double)r->at / 1e9);
		/* let the last Acks arrive, and what is still on cables, which may be kept in
		 * turn */
		run_until(s, s->now + s->cfg.proto.rto_max_us * 1000ull);
	} while (s->kept > 0 && s->now < end);
	for (uint32_t i = 0; i < s->node_count; i++) {
		pull(s, i);
		oracle_clean(s, i);
	}
}

bool
sim_settle(struct sim *s, uint64_t within_ns)
{
	return guarded(s, settle, &(struct sim_request){.at = within_ns});
}
