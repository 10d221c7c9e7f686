/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks of what may happen and what may not; see sim.h. Each function returns or ends the run.
 */
#include "sim/internal.h"
#include <stdarg.h>
#include <stdio.h>

static struct sim *current; /* for the core's assertions; only one simulator runs at a time */

_Noreturn void
sim_violation(struct sim *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->error, sizeof(s->error), format, args);
	va_end(args);
	longjmp(*s->out, 1);
}

_Noreturn void
proto_assert_failed(const char *what, const char *file, int line)
{
	sim_violation(current, "the core's assertion %s failed, %s:%d", what, file, line);
}

/* Check that a fragment is the next one of its message at that context, and all of it. */
static void
check_fragment(struct sim *s, uint32_t node, const struct ident *id, const struct proto_delivery *d)
{
	const struct sim_context *c = &s->nodes[node].contexts[d->ctx];

	if (c->frag != 0 ? c->part.stream != id->stream || c->part.order != id->order
			 : id->frag != 0)
		sim_violation(s,
			"context %u.%u: fragment %u of message %u in the middle of another", node,
			d->ctx, id->frag, id->order);
	if (c->frag != id->frag)
		sim_violation(s, "context %u.%u: fragment %u of message %u instead of %u", node,
			d->ctx, id->frag, id->order, c->frag);
	uint64_t off = (uint64_t)id->frag * id->frag_len;
	uint32_t left = id->len - (uint32_t)off;

	if (d->msg_len != id->len || d->frag_off != off ||
		d->len != (left < id->frag_len ? left : id->frag_len) ||
		d->last != (left <= id->frag_len))
		sim_violation(s, "message %u of %u bytes: %u bytes at %u of %u were delivered",
			id->order, id->len, d->len, d->frag_off, d->msg_len);
}

/* Check a fragment that was delivered to an application. */
void
oracle_delivery(struct sim *s, uint32_t node, const struct ident *id,
	const struct proto_delivery *d)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_context *c = &n->contexts[d->ctx];
	struct sim_stream *t = &s->streams[id->stream];
	struct proto_path_stat path;

	if (id->message == NIL)
		sim_violation(s, "node %u delivered a frame that carries no payload", node);
	if (t->dst != node || t->dst_ctx != d->ctx || t->src != d->src_node ||
		t->src_ctx != d->src_ctx)
		sim_violation(s, "message %u of %u.%u to %u.%u was delivered as of %u.%u to %u.%u",
			id->order, t->src, t->src_ctx, t->dst, t->dst_ctx, d->src_node, d->src_ctx,
			node, d->ctx);
	if (!c->open)
		sim_violation(s, "a message was delivered to context %u.%u, which is closed", node,
			d->ctx);
	check_fragment(s, node, id, d);
	if (id->order < t->seen)
		sim_violation(s, "message %u from %u.%u to %u.%u was delivered %s", id->order,
			t->src, t->src_ctx, t->dst, t->dst_ctx,
			id->order + 1 == t->seen ? "twice" : "late");
	if (proto_path_stat(n->core, (uint16_t)t->src, &path) && path.peer_epoch != id->epoch)
		sim_violation(s, "message %u of node %u's life %08x was delivered in its life %08x",
			id->order, t->src, id->epoch, path.peer_epoch);
	const struct sim_message *sent = &s->messages[id->message];

	if (c->frozen && sent->used && sent->generation == id->generation &&
		sent->at > c->frozen_at)
		sim_violation(s,
			"message %u was sent to context %u.%u after that was frozen, and taken",
			id->order, node, d->ctx);
	c->part = *id;
	c->frag++;
	if (!d->last)
		return;
	c->frag = 0;
	t->seen = id->order + 1;
	struct sim_message *m = &s->messages[id->message];

	if (m->used && m->generation == id->generation)
		m->delivered = true;
	c->held_entries++;
	c->held_bulks += id->len > s->cfg.inline_max || id->len > id->frag_len ? id->frag + 1 : 0;
	if (c->held_entries > s->cfg.entries || c->held_bulks > s->cfg.bulks)
		sim_violation(s,
			"context %u.%u was given more than its room: %u entries, %u buffers", node,
			d->ctx, c->held_entries, c->held_bulks);
}

/* Check a frame of a message that leaves its node. */
void
oracle_frame(struct sim *s, uint32_t node, uint32_t slot)
{
	struct sim_message *m = &s->messages[slot];
	const uint16_t ctx = s->streams[m->stream].src_ctx;
	const struct sim_context *c = &s->nodes[node].contexts[ctx];

	if (c->held || (c->frozen && !m->begun))
		sim_violation(s, "context %u.%u is %s, and message %u %s", node, ctx,
			c->held ? "held" : "frozen", m->order, m->begun ? "goes on" : "begins");
	m->begun = true;
}

/* Check the completion of a fragment. */
void
oracle_completion(struct sim *s, uint32_t node, const struct proto_completion *c)
{
	uint32_t slot = (uint32_t)(c->handle >> 32), frag = c->handle & 0xFFFF;
	struct sim_message *m = &s->messages[slot];

	if (slot >= s->message_count || !m->used ||
		(m->generation & 0xFFFF) != (c->handle >> 16 & 0xFFFF))
		sim_violation(s, "node %u completed a send a second time", node);
	const struct sim_stream *t = &s->streams[m->stream];

	if (t->src != node || t->src_ctx != c->ctx)
		sim_violation(s, "node %u.%u completed a send of %u.%u", node, c->ctx, t->src,
			t->src_ctx);
	if (frag != m->completed)
		sim_violation(s, "node %u completed fragment %u of message %u instead of %u", node,
			frag, m->order, m->completed);
	m->completed++;
	if (c->error)
		m->error = c->error;
	if (c->last != (m->completed == m->frags))
		sim_violation(s, "message %u of %u fragments: 'last' at fragment %u", m->order,
			m->frags, frag);
	if (c->last && m->error == 0 && !m->delivered)
		sim_violation(s, "message %u from %u.%u to %u.%u was completed and never delivered",
			m->order, t->src, t->src_ctx, t->dst, t->dst_ctx);
}

/* Check that received = accepted + every kind of drop, and that the core has as many handles and
 * frames as it was given. */
void
oracle_books(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];
	const uint64_t *c = proto_counters(n->core);
	uint64_t sum = c[PROTO_rx_accepted] + c[PROTO_rx_multi] + c[PROTO_rx_link];

	for (int i = PROTO_drop_truncated; i <= PROTO_drop_no_hold; i++)
		sum += c[i];
	if (sum != c[PROTO_rx_frames])
		sim_violation(s, "node %u received %llu frames, %llu of them are accounted for",
			node, (unsigned long long)c[PROTO_rx_frames], (unsigned long long)sum);
	if (proto_tx_free(n->core) + n->handles != n->cfg.tx_frames_max)
		sim_violation(s, "node %u: %u send descriptors free and %u handles out, of %u",
			node, proto_tx_free(n->core), n->handles, n->cfg.tx_frames_max);
	if (proto_rx_free(n->core) + n->kept != n->cfg.rx_frames_max)
		sim_violation(s, "node %u: %u receive descriptors free and %u frames held, of %u",
			node, proto_rx_free(n->core), n->kept, n->cfg.rx_frames_max);
	if (proto_flows_used(n->core) > n->cfg.flows_max)
		sim_violation(s, "node %u has %u flows of %u", node, proto_flows_used(n->core),
			n->cfg.flows_max);
	if (n->steps++ % 64 != 0)
		return; /* what follows takes time */
	for (uint32_t i = 0; i < s->node_count; i++) {
		struct proto_path_stat p;
		uint32_t frame = n->cfg.payload_max + WIRE_HDR_BYTES;

		if (!proto_path_stat(n->core, (uint16_t)i, &p))
			continue;
		if (p.inflight_frames > n->cfg.path_frames ||
			p.inflight_frames > n->cfg.tx_frames_max ||
			(p.inflight_frames > 1 && p.inflight_bytes > n->cfg.path_bytes + frame &&
				p.inflight_bytes > 3 * frame))
			sim_violation(s, "node %u has %u frames, %u bytes in flight to node %u",
				node, p.inflight_frames, p.inflight_bytes, i);
	}
}

/* Check that nothing is left. */
void
oracle_clean(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];

	if (n->handles != 0 || n->kept != 0)
		sim_violation(s,
			"node %u at rest: %u handles of sends, %u received frames are missing",
			node, n->handles, n->kept);
	for (uint32_t i = 0; i < s->node_count; i++) {
		struct proto_path_stat p;

		if (proto_path_stat(n->core, (uint16_t)i, &p) &&
			(p.inflight_frames || p.inflight_bytes))
			sim_violation(s,
				"node %u at rest: %u frames, %u bytes count as in flight to node "
				"%u",
				node, p.inflight_frames, p.inflight_bytes, i);
	}
	oracle_books(s, node);
}

void
sim_enter(struct sim *s)
{
	current = s;
	if (s->wrapping != NULL)
		s->wrapping->enter(s);
}
