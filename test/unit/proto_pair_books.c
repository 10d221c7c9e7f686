/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See proto_pair.h. Here: whether the books of the cores balance, and questions of the tests.
 */
#include "proto_pair.h"

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

/* Check that the core tells of what waits in it, since its engine would not ask for it else. */
static void
check_due(struct net *net, unsigned node)
{
	const struct proto *p = net->nodes[node].p;
	const uint64_t ack_at = list_empty(&p->acks_due) ? UINT64_MAX
							 : p->flows[p->acks_due.head].ack_at;
	unsigned has = 0;

	if (any_ready(p) || !list_empty(&p->ctl) || !list_empty(&p->acks_urgent) ||
		p->stray_head != p->stray_tail)
		has |= PROTO_HAS_FRAMES;
	if (!list_empty(&p->done))
		has |= PROTO_HAS_COMPLETIONS;
	if (!list_empty(&p->delivered) || !list_empty(&p->released))
		has |= PROTO_HAS_DELIVERIES;
	if ((p->due.has & has) != has)
		net_fail(net, "node %u has %#x and tells of %#x", node, has, p->due.has);
	if (p->due.ack_at != ack_at)
		net_fail(net, "node %u does not tell when its next Ack goes", node);
	if (p->due.tick_at != (p->wheel.cursor + 1) << p->wheel.shift)
		net_fail(net, "node %u does not tell when its timers are next", node);
}

void
net_check_books(struct net *net, unsigned node)
{
	struct net_node *n = &net->nodes[node];

	check_counters(net, node);
	check_due(net, node);
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
