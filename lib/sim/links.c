/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes with several links: which one a frame takes, and what they ask each other about them.
 */
#include "sim/internal.h"

/* Choose the link by which the next frame to o->node leaves. */
uint32_t
links_choose(struct sim *s, uint32_t node, const struct proto_out *o)
{
	struct sim_node *n = &s->nodes[node];

	if (n->rails == NULL || o->node >= s->node_count || o->node == node)
		return 0;
	struct rails *r = &n->rails[o->node];
	const bool data = o->handle != PROTO_NO_HANDLE;
	const uint32_t link = data ? rails_choose(r, &s->rails) : rails_answer(r, o->link);

	rails_sent(r, link, data ? o->head_len + o->len : 0, s->now);
	if (s->now + RAILS_STEP_US * 1000 < n->rails_at)
		n->rails_at = s->now + RAILS_STEP_US * 1000;
	return link;
}

/* Ask, or answer, whether that link works. */
static void
say_link(struct sim *s, uint32_t node, uint32_t peer, uint32_t link, uint16_t flags, uint32_t round)
{
	const struct wire_fields w = {
		.type = WIRE_LINK,
		.flags = flags,
		.src_node = (uint16_t)node,
		.dst_node = (uint16_t)peer,
		.session = proto_session(s->nodes[node].core, (uint16_t)peer),
		.seq = round,
	};
	struct proto_out o = {
		.handle = PROTO_NO_HANDLE,
		.node = (uint16_t)peer,
		.head_len = WIRE_HDR_BYTES,
	};

	wire_put(o.head, &w);
	net_transmit(s, node, &o, link);
}

void
links_expect(struct sim *s, uint32_t node, uint32_t peer)
{
	struct sim_node *n = &s->nodes[node];

	proto_node_links(n->core, (uint16_t)peer, s->rails.spread ? rails_up(&n->rails[peer]) : 0);
}

/* Ask the peers of a node about their links, where the time for that has come. */
void
links_step(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];
	uint64_t at, soonest = SIM_NEVER;

	if (s->now < n->rails_at)
		return;
	for (uint32_t i = 0; i < s->node_count; i++) {
		struct rails *r = &n->rails[i];
		bool changed = false;

		if (!r->active)
			continue;
		uint32_t ask = rails_step(r, &s->rails, s->now, &changed);
		struct proto_path_stat path;

		if (proto_path_stat(n->core, (uint16_t)i, &path))
			rails_window(r, path.cwnd_bytes);
		if (changed)
			links_expect(s, node, i);
		for (uint32_t link = 0; link < s->cfg.links; link++) {
			if (ask >> link & 1)
				say_link(s, node, i, link, WIRE_F_ASK, r->round);
		}
		at = r->active ? rails_deadline(r, &s->rails, s->now) : SIM_NEVER;
		soonest = at < soonest ? at : soonest;
	}
	n->rails_at = soonest;
}

void
links_hear(struct sim *s, uint32_t node, uint32_t link, const struct wire_hdr *h)
{
	const uint32_t peer = wire_be16(h->src_node);

	if (h->flags & wire_be16(WIRE_F_ASK))
		say_link(s, node, peer, link, 0, wire_be32(h->seq));
	else if (rails_answered(&s->nodes[node].rails[peer], link, wire_be32(h->seq), s->now))
		links_expect(s, node, peer);
}
