/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of multicasts by the network: from clients' memory onto links, and from links into areas
 * of members here. What they promise, and to whom they go again, is decided by lib/group.
 */
#include <errno.h>
#include <string.h>

#include <rte_mbuf.h>

#include "engine/link_io.h"
#include "engine/rails.h"
#include "group/engine/cast.h"
#include "rma/engine/arrivals.h"
#include "rma/engine/rma.h"

#define FRAMES_A_TURN 8 /* as others have turns too */

/* Return the link by which multicasts get to that node, or NULL. */
static const struct link *
way_to(const struct engine *e, uint16_t node)
{
	if (node == e->node->config.id || node >= e->nodes_max || !e->peers[node].known)
		return NULL;
	const struct link *l = &e->node->links[lane_rails_first(e, node)];

	return l->multicast ? l : NULL;
}

uint32_t
service_cast_reaches(const struct engine *e, uint16_t ctx, uint32_t place, uint32_t word)
{
	struct group_addr a;
	uint32_t ranks = 0;

	for (uint32_t i = 0; i < 32 && e->node->config.multicast != MULTICAST_LIST; i++) {
		if (group_member_at(group_lane(e)->groups, ctx, place, word * 32 + i, &a) &&
			way_to(e, a.node) != NULL)
			ranks |= 1u << i;
	}
	return ranks;
}

int
service_cast_to(struct engine *e, struct channel *ch, uint32_t place, const struct submission *s,
	uint32_t *links)
{
	const struct groups *g = group_lane(e)->groups;
	const uint32_t word = s->group.number, ranks = (uint32_t)s->group.value;
	struct group_addr a;

	if (word >= WIRE_GROUP_MEMBERS_MAX / 32)
		return -EINVAL;
	for (uint32_t left = ranks; left != 0; left &= left - 1) {
		const struct link *way = group_member_at(g, ch->ctx, place,
						 word * 32 + rte_bsf32(left), &a)
			? way_to(e, a.node)
			: NULL;

		if (way == NULL)
			return -EINVAL;
		*links |= 1u << (way - e->node->links);
	}
	return group_cast_to(group_lane(e)->groups, ch->ctx, place, word, ranks);
}

int
service_cast_begin(struct engine *e, struct channel *ch, uint32_t place, const struct submission *s,
	uint32_t links)
{
	const struct group_cast c = {
		.area = s->group.cast.area,
		.at = s->group.cast.at,
		.from = s->group.cast.from,
		.len = s->group.cast.len,
		.unit = s->group.cast.unit,
		.memory = s->group.cast.memory,
		.links = links,
		.runs = s->group.cast.runs != 0,
	};

	if (c.unit > e->node->frag_len ||
		c.unit + group_cast_head(group_lane(e)->groups, ch->ctx, place) > e->node->frag_len)
		return -EINVAL;
	return group_cast(group_lane(e)->groups, ch->ctx, place, &c);
}

/* Copy the frame's bytes. false: they cannot be had, which is as if the frame were lost. What
 * replaces it says what is wrong. */
static bool
fill(struct engine *e, const struct group_cast_frame *f, uint8_t *to)
{
	struct channel *ch = &e->node->channels[f->ctx];
	struct memory *memory = f->memory != MEMORY_COPIED
		? space_at(&ch->space, f->memory, f->from, f->len)
		: NULL;
	const struct bytes from = {&ch->space, memory, f->from, f->len};

	return (memory != NULL || f->memory == MEMORY_COPIED) &&
		memory_read(&from, 0, to, f->len) == 0;
}

unsigned
service_casts_send(struct engine *e)
{
	struct group_cast_frame f;
	unsigned n = 0;

	for (; n < FRAMES_A_TURN && engine_multicast_room(e) &&
		groups_cast_tx(group_lane(e)->groups, &f, e->now);
		n++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);
		const uint32_t len = f.head_len + f.len;

		if (m == NULL) {
			ENGINE_COUNT(e, tx_no_mbuf);
			continue;
		}
		uint8_t *payload = (uint8_t *)m->buf_addr + PAYLOAD_START;

		memcpy(payload, f.head, f.head_len);
		m->data_off = PAYLOAD_START;
		m->data_len = (uint16_t)len;
		m->pkt_len = len;
		if (fill(e, &f, payload + f.head_len))
			engine_multicast(e, f.links, f.id, f.ctx, m, len);
		else
			rte_pktmbuf_free(m);
	}
	return n;
}

void
service_cast_heard(struct engine *e, const struct wire_hdr *h)
{
	struct groups *g = group_lane(e)->groups;
	const uint16_t src = wire_be16(h->src_ctx);
	const struct group_addr from = {wire_be16(h->src_node), src & (WIRE_CONTEXTS_MAX - 1)};
	const uint32_t len = wire_be16(h->payload_len);
	struct group_cast_place p;

	if (wire_endpoint(src) != WIRE_GROUP) {
		ENGINE_COUNT(e, refused_groups);
		return;
	}
	for (uint32_t at = 0; groups_cast_heard(g, &at, from, h + 1, len, &p, e->now);) {
		struct channel *ch = &e->node->channels[p.ctx];
		const struct rma_area_range range = {p.id, p.area, p.at, len - p.head_len};

		if (ch->state == CHANNEL_OPEN &&
			arrivals_place(e, ch, &range, (const uint8_t *)(h + 1) + p.head_len,
				p.runs))
			group_cast_placed(g, &p);
	}
	if (groups_is_quiet(g))
		return;
	service_busy(e, GROUP_SERVICE);
	service_owes(e, GROUP_SERVICE);
}
