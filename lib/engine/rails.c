/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See rails.h.
 */
#include <errno.h>
#include <stdlib.h>

#include <rte_cycles.h>

#include "engine/rails.h"

/* Tell the core to expect frames of the peer by the links that are up. Frames that go by one link
 * at a time keep their order, so then the core is told of no links. */
static void
expect(struct engine *e, uint16_t node)
{
	const struct lane_rails *l = e->rails;

	proto_node_links(e->proto, node,
		l != NULL && l->config.spread ? rails_up(&l->of[node]) : 0);
}

static bool
has_rails(const struct engine *e, uint32_t node)
{
	const uint32_t links = node == e->node->config.id ? 0 : e->node->config.peers[node].links;

	return (links & (links - 1)) != 0;
}

static struct lane_rails *
rails_make(const struct engine *e)
{
	struct lane_rails *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->of = calloc(e->nodes_max, sizeof(*l->of));
	l->active = calloc(e->nodes_max, sizeof(*l->active));
	if (l->of != NULL && l->active != NULL)
		return l;
	free(l->of);
	free(l->active);
	free(l);
	return NULL;
}

/* Begin with all rails of the peers with several links up. */
static void
rails_begin(struct engine *e)
{
	struct lane_rails *l = e->rails;
	const struct config *c = &e->node->config;

	l->config = (struct rails_config){
		.ticks_per_us = rte_get_tsc_hz() / 1000000,
		.spread = c->links_by == LINKS_SPREAD && c->recovery == PROTO_SELECTIVE,
	};
	l->at = l->soonest = UINT64_MAX;
	l->count = l->next = 0;
	for (uint32_t i = 0; i < e->nodes_max; i++) {
		l->of[i] = (struct rails){
			.all = has_rails(e, i) ? c->peers[i].links : 0,
			.round = (uint32_t)node_secret(e->node, SECRET_ROUNDS, e->lane, i),
		};
	}
}

int
lane_rails_make(struct engine *e)
{
	bool any = false;

	if (config_link_count(&e->node->config) < 2)
		return 0;
	if (e->rails_memory == NULL)
		e->rails_memory = rails_make(e);
	if (e->rails_memory == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->nodes_max; i++)
		any |= has_rails(e, i);
	e->rails = any ? e->rails_memory : NULL;
	e->asks_links = any;
	e->checks_frames = any || e->hands_over || e->node->config.checksum || e->sealed != NULL;
	if (any)
		rails_begin(e);
	lane_rails_expect(e);
	return 0;
}

void
lane_rails_free(struct engine *e)
{
	e->rails = NULL;
	e->asks_links = false;
	if (e->rails_memory == NULL)
		return;
	free(e->rails_memory->of);
	free(e->rails_memory->active);
	free(e->rails_memory);
	e->rails_memory = NULL;
}

void
lane_rails_expect(struct engine *e)
{
	if (config_link_count(&e->node->config) < 2)
		return;
	for (uint32_t i = 0; i < e->nodes_max; i++)
		expect(e, (uint16_t)i);
}

uint32_t
lane_rails_up(const struct engine *e, uint16_t node)
{
	const struct lane_rails *l = e->rails;

	return l != NULL && l->of[node].all != 0 ? rails_up(&l->of[node])
						 : e->node->config.peers[node].links;
}

uint32_t
lane_rails_all_up(const struct node *n, uint16_t node)
{
	uint32_t up = n->config.peers[node].links;

	for (unsigned i = 0; i < n->config.lanes; i++)
		up &= lane_rails_up(&n->engines[i], node);
	return up;
}

uint32_t
lane_rails_first(const struct engine *e, uint16_t node)
{
	const struct peer *peer = &e->peers[node];

	return peer->several ? rte_bsf32(rails_usable(&e->rails->of[node])) : peer->link;
}

const struct peer *
lane_rails_choose(struct engine *e, uint16_t node)
{
	struct lane_rails *l = e->rails;

	return node_peer(e->node, node, rails_choose(&l->of[node], &l->config));
}

void
lane_rails_sent(struct engine *e, uint16_t node, const struct peer *peer, uint32_t bytes)
{
	struct lane_rails *l = e->rails;
	const uint64_t soon = e->now + RAILS_STEP_US * l->config.ticks_per_us;

	if (unlikely(rails_sent(&l->of[node], peer->link, bytes, e->now)))
		l->active[l->count++] = node;
	if (l->at > soon)
		l->at = soon;
}

const struct peer *
lane_rails_route(struct engine *e, const struct proto_out *o)
{
	const bool data = o->handle != PROTO_NO_HANDLE;
	const struct peer *peer = data
		? lane_rails_choose(e, o->node)
		: node_peer(e->node, o->node, rails_answer(&e->rails->of[o->node], o->link));

	lane_rails_sent(e, o->node, peer, data ? o->head_len + o->len : 0);
	return peer;
}

void
lane_rails_hear(struct engine *e, unsigned link, const struct wire_hdr *h)
{
	const uint16_t node = wire_be16(h->src_node);

	e->rails->rx_link = link;
	proto_rx_link(e->proto, link);
	/* whoever sends on that link could have sent others */
	if (likely(node < e->nodes_max && e->rails->of[node].all >> link & 1 && h->session != 0 &&
		    h->session == wire_be32(proto_session(e->proto, node))))
		rails_heard(&e->rails->of[node], link);
}

bool
lane_rails_told(struct engine *e, const struct wire_hdr *h)
{
	const uint16_t node = wire_be16(h->src_node);
	const unsigned link = e->rails->rx_link;

	if (!(e->rails->of[node].all >> link & 1))
		return false;
	if (h->flags & wire_be16(WIRE_F_ASK))
		return true;
	if (rails_answered(&e->rails->of[node], link, wire_be32(h->seq), e->now))
		expect(e, node);
	return false;
}

bool
lane_rails_next(struct engine *e, struct lane_question *q)
{
	struct lane_rails *l = e->rails;

	while (l->next < l->count) {
		struct rails *r = &l->of[l->active[l->next]];
		struct proto_path_stat path;
		bool changed = false;

		q->node = l->active[l->next];
		q->links = rails_step(r, &l->config, e->now, &changed);
		q->round = r->round;
		if (proto_path_stat(e->proto, q->node, &path))
			rails_window(r, path.cwnd_bytes);
		if (changed)
			expect(e, q->node);
		if (r->active) {
			const uint64_t at = rails_deadline(r, &l->config, e->now);

			l->soonest = at < l->soonest ? at : l->soonest;
			l->next++;
		} else {
			l->active[l->next] = l->active[--l->count];
		}
		if (q->links != 0)
			return true;
	}
	l->at = l->soonest;
	l->next = 0;
	l->soonest = UINT64_MAX;
	return false;
}
