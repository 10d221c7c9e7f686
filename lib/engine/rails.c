/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See rails.h.
 */
#include <errno.h>
#include <stdlib.h>

#include <rte_cycles.h>

#include "engine/rails.h"

/* Frames of the peer are to be expected by the links that are up. Those of one that uses one link
 * at a time keep their order. */
static void
expect(struct engine *e, uint16_t node)
{
	const struct lane_rails *l = e->rails;

	proto_node_links(e->proto, node, l->config.spread ? rails_up(&l->of[node]) : 0);
}

static bool
has_rails(const struct engine *e, uint32_t node)
{
	const uint32_t links = node == e->node->config.id ? 0 : e->node->config.peers[node].links;

	return (links & (links - 1)) != 0;
}

static struct lane_rails *
make(const struct engine *e)
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

int
lane_rails_make(struct engine *e)
{
	const struct config *c = &e->node->config;
	bool any = false;

	lane_rails_free(e);
	for (uint32_t i = 0; i < e->nodes_max; i++) {
		any |= has_rails(e, i);
		if (e->node->peers_by_link != NULL)
			proto_node_links(e->proto, (uint16_t)i, 0);
	}
	if (!any)
		return 0;
	e->rails = make(e);
	if (e->rails == NULL)
		return -ENOMEM;
	e->rails->config = (struct rails_config){
		.ticks_per_us = rte_get_tsc_hz() / 1000000,
		.spread = c->links_by == LINKS_SPREAD && c->recovery == PROTO_SELECTIVE,
	};
	e->rails->at = UINT64_MAX;
	e->asks_links = true;
	for (uint32_t i = 0; i < e->nodes_max; i++) {
		if (!has_rails(e, i))
			continue;
		e->rails->of[i].all = c->peers[i].links;
		expect(e, (uint16_t)i);
	}
	return 0;
}

void
lane_rails_free(struct engine *e)
{
	if (e->rails == NULL)
		return;
	free(e->rails->of);
	free(e->rails->active);
	free(e->rails);
	e->rails = NULL;
	e->asks_links = false;
}

uint32_t
lane_rails_up(const struct engine *e, uint16_t node)
{
	const struct lane_rails *l = e->rails;

	return l != NULL && l->of[node].all != 0 ? rails_up(&l->of[node])
						 : e->node->config.peers[node].links;
}

uint32_t
lane_rails_first(const struct engine *e, uint16_t node)
{
	const struct peer *peer = &e->peers[node];

	return peer->several ? rte_bsf32(rails_usable(&e->rails->of[node])) : peer->link;
}

/* Something is sent to the peer, so its rails are watched. */
static void
watch(struct engine *e, uint16_t node)
{
	struct lane_rails *l = e->rails;
	struct rails *r = &l->of[node];

	if (likely(r->active))
		return;
	r->active = true;
	r->check_at = e->now;
	l->active[l->count++] = node;
	if (l->at == UINT64_MAX)
		l->at = e->now + RAILS_STEP_US * l->config.ticks_per_us;
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
	watch(e, node);
	rails_sent(&e->rails->of[node], peer->link, bytes, e->now);
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
	if (likely(node < e->nodes_max && e->rails->of[node].all >> link & 1))
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
		bool changed = false;

		q->node = l->active[l->next];
		q->links = rails_step(r, &l->config, e->now, &changed);
		q->round = r->round;
		if (changed)
			expect(e, q->node);
		if (r->active)
			l->next++;
		else
			l->active[l->next] = l->active[--l->count];
		if (q->links != 0)
			return true;
	}
	l->next = 0;
	l->at = l->count != 0 ? e->now + RAILS_STEP_US * l->config.ticks_per_us : UINT64_MAX;
	return false;
}
