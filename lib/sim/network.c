/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cables and switches: frames queue in ports, are lost there, copied, delayed, and arrive.
 */
#include "sim/internal.h"
#include <string.h>

#define FRAME_MIN 84 /* bytes of the shortest Ethernet frame on the wire */
#define LONG      1000

/* ------------------------------------------------------------------ network */

uint64_t
net_serialisation(const struct edge *e, uint32_t bytes)
{
	return (uint64_t)(((unsigned __int128)bytes * e->ns_per_byte) >> 20);
}

uint64_t
net_backlog(const struct sim *s, const struct edge *e)
{
	if (e->free_at <= s->now)
		return 0;
	return (uint64_t)(((unsigned __int128)(e->free_at - s->now) << 20) / e->ns_per_byte);
}

/* Return the one of the node's ports that has the longest queue. */
const struct edge *
net_port(const struct sim *s, uint32_t node)
{
	const struct edge *most = &s->edges[s->nodes[node].uplink];

	for (uint32_t i = 1; i < s->cfg.links; i++) {
		const struct edge *e = &s->edges[s->nodes[node].uplink + i * s->edge_count];

		if (e->free_at > most->free_at)
			most = e;
	}
	return most;
}

bool
sim_port_is_full(const struct sim *s, uint32_t node)
{
	return net_backlog(s, net_port(s, node)) >= s->cfg.nic_bytes;
}

void
net_drop(struct sim *s, uint32_t packet)
{
	GIVE(s, packets, packet, packet);
}

static uint32_t
sender_of(const struct packet *k)
{
	return wire_be16(((const struct wire_hdr *)k->head)->src_node);
}

/* Count how many senders have frames to the same destination in a switch's port, where a long frame
 * came in that leaves at e->free_at. Keep the largest number in e->stat.senders_max. */
static void
count_senders(const struct sim *s, struct edge *e, const struct packet *k)
{
	const uint32_t src = sender_of(k);
	const unsigned places = sizeof(e->queued) / sizeof(e->queued[0]);
	const unsigned last = (e->queued_next + places - 1) % places;
	uint32_t senders[9], n = 1; /* this one, and one of each place */

	if (e->queued[last].src == src && e->queued[last].dst == k->dst) {
		e->queued[last].until = e->free_at;
		return;
	}
	senders[0] = src;
	for (unsigned i = 0; i < places; i++) {
		uint32_t known = 0;

		/* what is on the line, or right behind it, does not wait */
		if (e->queued[i].until <= s->now + 2 * net_serialisation(e, LONG) ||
			e->queued[i].dst != k->dst)
			continue;
		while (known < n && senders[known] != e->queued[i].src)
			known++;
		if (known == n)
			senders[n++] = e->queued[i].src;
	}
	e->queued[e->queued_next].src = src;
	e->queued[e->queued_next].dst = k->dst;
	e->queued[e->queued_next].until = e->free_at;
	e->queued_next = (e->queued_next + 1) % places;
	if (n > e->stat.senders_max)
		e->stat.senders_max = n;
}

/* Put a packet into the queue of an edge, and schedule its arrival at the end. */
void
net_enter(struct sim *s, uint32_t edge, uint32_t packet)
{
	struct edge *e = &s->edges[edge];
	struct packet *k = &s->packets[packet];
	uint32_t bytes = k->len + WIRE_FRAME_EXTRA;
	uint64_t queued = net_backlog(s, e);

	if (bytes < FRAME_MIN)
		bytes = FRAME_MIN;
	if (e->buffer_bytes && queued + bytes > e->buffer_bytes) {
		e->stat.drops++;
		net_drop(s, packet);
		return;
	}
	if (queued + bytes > e->stat.queue_max)
		e->stat.queue_max = queued + bytes;
	e->stat.frames++;
	e->stat.bytes += bytes;
	if (e->free_at < s->now) {
		if (s->now - e->free_at > e->stat.idle_max)
			e->stat.idle_max = s->now - e->free_at;
		e->free_at = s->now;
	}
	e->free_at += net_serialisation(e, bytes);
	if (e->from_host == NIL && bytes >= LONG && k->dst != NIL)
		count_senders(s, e, k);
	k->edge = edge;
	uint64_t leaves = e->free_at;

	if (e->pair_free_at != NULL && k->dst != NIL) {
		uint64_t *free_at = &e->pair_free_at[sender_of(k) * s->node_count + k->dst];

		if (*free_at > leaves)
			leaves = *free_at;
		*free_at = leaves + ((bytes * e->pair_ns_per_byte) >> 20);
	}
	sim_schedule(s, leaves + e->latency_ns, EVENT_ARRIVAL, packet);
}

uint32_t
net_packet(struct sim *s)
{
	uint32_t packet;

	TAKE(s, packets, packet, packet);
	s->packets[packet].sealed_len = 0;
	return packet;
}

/* Return a new packet that is as another one. */
static uint32_t
twin_of(struct sim *s, uint32_t packet)
{
	const uint32_t twin = net_packet(s);

	s->packets[twin] = s->packets[packet];
	if (s->packets[twin].sealed_len != 0)
		s->wrapping->twin(s, twin, packet);
	return twin;
}

/* Flip a bit of a frame. Return false if it is lost by that: a checksum drops it. */
static bool
flip(struct sim *s, uint32_t packet, uint32_t bit)
{
	if (bit == FAULT_NO_FLIP)
		return true;
	if (s->packets[packet].sealed_len == 0)
		return false;
	s->wrapping->flip(s, packet, bit);
	return true;
}

/* Apply a cable's fault model. Returns false if the packet does not go on now. */
static bool
network_judge(struct sim *s, struct fault_model *model, uint32_t packet)
{
	struct fault_verdict v;

	fault_model_frame(model, s->now, s->packets[packet].len, &v);
	for (uint32_t i = 1; i < v.copies; i++) {
		const uint32_t twin = twin_of(s, packet);

		if (flip(s, twin, v.copy[i].flip_bit))
			sim_schedule(s, v.copy[i].release_ns, EVENT_ARRIVAL, twin);
		else
			net_drop(s, twin);
	}
	if (v.copies == 0 || !flip(s, packet, v.copy[0].flip_bit)) {
		net_drop(s, packet);
		return false;
	}
	if (v.copy[0].release_ns <= s->now)
		return true;
	sim_schedule(s, v.copy[0].release_ns, EVENT_ARRIVAL, packet);
	return false;
}

/* Copy a frame to all ports of a switch but the one that it came from. Topologies have no loops. */
static void
flood(struct sim *s, uint32_t vertex, uint32_t packet)
{
	const struct topology *t = s->cfg.topology;
	const struct topology_vertex *v = &t->vertices[vertex];
	const uint32_t edge = s->packets[packet].edge, network = edge - edge % s->edge_count;
	const uint32_t back = t->edges[edge % s->edge_count].reverse;

	for (uint32_t i = v->first_edge; i < v->first_edge + v->edge_count; i++) {
		if (i != back)
			net_enter(s, network + i, twin_of(s, packet));
	}
	net_drop(s, packet);
}

/* Let a node's processor work on a packet when it is through with all before. Return when it is
 * through. A packet that carries no message costs nothing. */
static uint64_t
host_works(struct sim *s, uint32_t node, const struct packet *k)
{
	struct sim_node *n = &s->nodes[node];
	const struct wire_hdr *h = (const struct wire_hdr *)k->head;

	if (h->type != WIRE_DATA && h->type != WIRE_MULTI)
		return s->now;
	const double ns = topology_message_ns(s->cfg.topology, node, k->len - k->head_len);

	if (ns == 0)
		return s->now;
	n->busy_until = (n->busy_until > s->now ? n->busy_until : s->now) + (uint64_t)ns;
	return n->busy_until;
}

/* Send a packet to the first edge of its way, when the node's processor is through with it. */
void
net_leave(struct sim *s, uint32_t node, uint32_t edge, uint32_t packet)
{
	struct packet *k = &s->packets[packet];
	const uint64_t at = host_works(s, node, k);

	if (s->wrapping != NULL)
		s->wrapping->leaves(s, node, packet);
	k->edge = edge;
	k->taken = false;
	if (at > s->now)
		sim_schedule(s, at, EVENT_LEAVES, packet);
	else
		net_enter(s, edge, packet);
}

/* Return the link that leads to the network which the packet is in. */
uint32_t
net_link_of(const struct sim *s, const struct packet *k)
{
	return k->edge / s->edge_count;
}

/* Handle a packet at the end of its edge. Return true if its destination takes it now. */
bool
net_arrive(struct sim *s, uint32_t packet)
{
	struct packet *k = &s->packets[packet];
	const struct edge *e = &s->edges[k->edge];

	if (e->from_host != NIL && !k->judged_out) {
		struct sim_node *n = &s->nodes[e->from_host];

		k->judged_out = true;
		if (n->cut_out || n->links_cut_out >> net_link_of(s, k) & 1) {
			net_drop(s, packet);
			return false;
		}
		if (n->faulty_out && !network_judge(s, &n->fault_out, packet))
			return false;
		k = &s->packets[packet];
	}
	if (e->to_host == NIL && k->dst == NIL) {
		flood(s, e->to, packet);
		return false;
	}
	if (e->to_host == NIL) {
		uint32_t next = topology_route(s->cfg.topology, e->to, k->dst);

		net_enter(s, k->edge - k->edge % s->edge_count + next, packet);
		return false;
	}
	k->dst = e->to_host;
	struct sim_node *n = &s->nodes[e->to_host];

	if (!k->judged_in) {
		k->judged_in = true;
		if (n->cut_in || n->links_cut_in >> net_link_of(s, k) & 1) {
			net_drop(s, packet);
			return false;
		}
		if (n->faulty_in && !network_judge(s, &n->fault_in, packet))
			return false;
	}
	k = &s->packets[packet];
	const uint64_t at = k->taken ? s->now : host_works(s, k->dst, k);

	if (at > s->now) {
		k->taken = true;
		sim_schedule(s, at, EVENT_ARRIVAL, packet);
		return false;
	}
	return true;
}

void
net_trace(const struct sim *s, const char *what, const struct packet *k)
{
	const struct wire_hdr *h = (const struct wire_hdr *)k->head;
	static const char *const types[WIRE_TYPE_COUNT] = {"?", "DATA", "ACK", "NACK", "HELLO",
		"PING", "PONG", "RESET", "MULTI", "LINK", "KEYS"};

	fprintf(s->cfg.trace,
		"%12.3f us %s %-5s %u.%u > %u.%u flags %02x seq %u ack %u credit %u share %u len "
		"%u off %u of %u\n",
		(double)s->now / 1e3, what, types[h->type % WIRE_TYPE_COUNT],
		wire_be16(h->src_node), wire_be16(h->src_ctx), wire_be16(h->dst_node),
		wire_be16(h->dst_ctx), wire_be16(h->flags), wire_be32(h->seq), wire_be32(h->ack),
		wire_be16(h->credit), wire_be16(h->share), wire_be16(h->payload_len),
		wire_be32(h->frag_off), wire_be32(h->msg_len));
}

/* Return the nanoseconds that a byte takes, times 2^20. */
uint64_t
net_ns_per_byte(uint64_t bandwidth_bps)
{
	return (8 * NS_PER_SEC << 20) / bandwidth_bps;
}

void
net_transmit(struct sim *s, uint32_t node, const struct proto_out *o, uint32_t link)
{
	const uint32_t packet = net_packet(s);
	struct packet *k = &s->packets[packet];

	k->id.message = NIL;
	k->dst = o->node;
	k->len = o->head_len + o->len;
	k->head_len = o->head_len;
	k->judged_out = k->judged_in = false;
	memcpy(k->head, o->head, o->head_len);
	if (o->handle != PROTO_NO_HANDLE) {
		uint32_t slot = (uint32_t)(o->handle >> 32);
		const struct sim_message *m = &s->messages[slot];

		if (o->handle & PARKED_BIT)
			sim_violation(s, "node %u sent a payload of a parked context", node);
		if (!m->used || (m->generation & 0xFFFF) != (o->handle >> 16 & 0xFFFF))
			sim_violation(s, "node %u sent a payload that it had given back", node);
		k->id = (struct ident){slot, m->generation, m->stream, m->order,
			(uint32_t)(o->handle & 0xFFFF), m->frag_len, m->len, m->epoch, m->tag};
		oracle_frame(s, node, slot);
	}
	if (s->cfg.trace != NULL)
		net_trace(s, "sent", k);
	if (o->node >= s->node_count || o->node == node) {
		net_drop(s, packet);
		return;
	}
	if (s->wrapping == NULL || s->wrapping->out(s, node, link, packet))
		net_leave(s, node, s->nodes[node].uplink + link * s->edge_count, packet);
}
