/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory and descriptors that a node with a configuration needs: the numbers that node.c uses,
 * and their sum. Used to start a node, and to check whether one would start.
 */
#include <string.h>
#include <sys/resource.h>

#include <rte_lcore.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "engine/lane.h"
#include "node/node.h"
#include "node/sizes.h"

#define BUFFERS_MOST (1ull << 22)
/* of each context, even if closed: the eventfds that wake its client and the lane */
#define OWN_FDS      2
#define SPARE_FDS    64         /* of the EAL, lanes and links */
#define PLACE_BYTES  64         /* private area of an mbuf of rma_lane.places (frames.c) */
#define EAL_BYTES    (4u << 20) /* the EAL's tables, services, telemetry, and those of ports */
#define PAGES_BYTES  (8u << 20) /* unused rests of the last hugepages of large pieces */

/* proto.ack_every = auto: where an Ack costs a system call, the frames of a long message wait for
 * one less */
#define ACK_EVERY      32
#define ACK_EVERY_SLOW 64
/* proto.cc_target_us = auto: frames of a port without a device wait for those that a processor
 * copies before them; what comes by one of several links waits for what comes by a slower one; and
 * a burst that the kernel takes at once waits for itself, and for its receiver's turn on a CPU */
#define CC_US          15
#define CC_US_COPIED   25
#define CC_US_SLOW     200
/* proto.share_target_us = auto */
#define SHARE_US       4
#define SHARE_US_SLOW  200

uint32_t
node_config_link_buffers(const struct config *c)
{
	uint32_t need = (2 * POOL_CACHE + c->transfer_frames) * c->lanes;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		const struct config_link *l = &c->links[i];

		if (l->used)
			need += (l->link.rx_descriptors + l->link.tx_descriptors) * c->lanes;
	}
	return need;
}

uint32_t
node_config_frame_room(const struct config *c)
{
	uint32_t encap = 0;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		uint32_t bytes = config_encap_bytes(c->links[i].link.encap);

		if (c->links[i].used && bytes > encap)
			encap = bytes;
	}
	uint32_t room = encap + WIRE_HDR_BYTES + config_payload_max(c) + config_seal_bytes(c);

	room = (room + 63) & ~63u;

	/* some PMDs need more than the frame: af_packet for its ring's header, memif for its
	 * bsize */
	return room < 2048 ? 2048 : room + 256;
}

struct channel_geometry
node_config_geometry(const struct config *c)
{
	return (struct channel_geometry){
		.submissions = c->submissions,
		.completions = 64,
		.send_buffers = c->send_buffers,
		.transfers = c->transfers,
		.events = rte_align32pow2(c->events),
		.lhs = {c->lhs_entries, c->lhs_entry_bytes, c->lhs_split, c->lhs_size_offset},
		/* its front parts must hold a struct wire_match, whatever the size of the plain
		 * ring's */
		.matched = {c->matched_entries, c->lhs_entry_bytes,
			c->lhs_entry_bytes - LHS_ENVELOPE_BYTES, LHS_SIZE_OFFSET},
	};
}

/* ------------------------------------------------------------------ buffers */

/* Return the buffers for unfinished messages to thin contexts: those of a default one; contexts
 * that ask for more have their own. */
static uint32_t
assembly_frames(const struct config *c)
{
	return c->receive_buffers + RTE_MIN(c->matched_buffers, c->receive_buffers / 2 + 1);
}

void
node_config_divide_buffers(const struct config *c, struct buffer_shares *s)
{
	const struct quotas least = QUOTAS_LEAST;
	uint32_t rest = c->mbufs - node_config_link_buffers(c);

	s->hold = rest / 8 / c->lanes + 1;
	s->assembly = RTE_MIN(assembly_frames(c), rest / 4 / c->lanes);
	s->contexts = (int64_t)rest - (int64_t)(s->hold + s->assembly) * c->lanes;
	/* nothing is kept back of a pool that was configured too small for that */
	s->context_least = s->contexts >= (int64_t)quotas_buffers(&least) * config_residents(c)
		? quotas_buffers(&least)
		: 0;
}

uint32_t
node_config_buffers_wanted(const struct config *c)
{
	const struct quotas q = {c->send_buffers, c->receive_buffers, c->matched_buffers,
		channel_inline_sends(c->send_buffers)};
	uint64_t wanted = (uint64_t)config_residents(c) * quotas_buffers(&q) +
		(uint64_t)assembly_frames(c) * c->lanes;

	/* an eighth of the mbufs is for frames out of order */
	return (uint32_t)RTE_MIN(node_config_link_buffers(c) + wanted * 8 / 7 + c->lanes + 1,
		BUFFERS_MOST);
}

uint32_t
node_config_buffers_least(const struct config *c)
{
	return node_config_link_buffers(c) + 2 * (assembly_frames(c) * c->lanes + c->send_buffers);
}

uint32_t
node_config_buffers_fit(const struct config *c, uint64_t bytes, uint64_t page_bytes)
{
	uint32_t low = node_config_buffers_least(c), high = node_config_buffers_wanted(c);
	struct config sized = *c;
	struct config_memory m;

	while (low < high) {
		sized.mbufs = low + (high - low + 1) / 2;
		node_config_memory(&sized, page_bytes, &m);
		if (m.all <= bytes)
			low = sized.mbufs;
		else
			high = sized.mbufs - 1;
	}
	return low;
}

/* ------------------------------------------------------------------ the core */

/* Return the number at which the highest endpoint of the engine or of a service begins, as the core
 * numbers contexts. */
static uint32_t
endpoint_highest(void)
{
	uint32_t highest = WIRE_MATCHED;

	for (unsigned i = 0; features_engine[i] != NULL; i++) {
		uint32_t last = features_engine[i]->endpoints
			? 31 - (uint32_t)__builtin_clz(features_engine[i]->endpoints)
			: 0;

		highest = RTE_MAX(highest, last * WIRE_CONTEXTS_MAX);
	}
	return highest;
}

/* Return whether frames of some link are sent by system calls. */
static bool
has_slow_link(const struct config *c)
{
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		if (c->links[i].used && link_driver(c->links[i].link.driver)->slow)
			return true;
	}
	return false;
}

static uint32_t
cc_target_us(const struct config *c)
{
	if (has_slow_link(c) || config_link_count(c) > 1)
		return CC_US_SLOW;
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		/* DPDK's names of virtual devices */
		if (c->links[i].used && strncmp(c->links[i].link.port, "net_", 4) == 0)
			return CC_US_COPIED;
	}
	return CC_US;
}

struct proto_config
node_config_core(const struct config *c)
{
	struct proto_config p = c->proto;
	struct buffer_shares shares;

	node_config_divide_buffers(c, &shares);
	p.node = (uint16_t)c->id;
	p.nodes_max = c->nodes_max;
	p.contexts_max = endpoint_highest() + c->contexts;
	p.tx_frames_max = c->contexts * node_send_slots(c) + c->transfer_frames;
	/* frames of parked contexts have descriptors, but no buffers */
	uint32_t parked = c->contexts - config_residents(c);

	if (p.tx_frames_max > c->mbufs + parked * node_send_slots(c))
		p.tx_frames_max = c->mbufs + parked * node_send_slots(c);
	p.rx_frames_max = c->mbufs + parked * assembly_frames(c);
	p.hold_frames_max = shares.hold;
	p.assembly_frames_max = shares.assembly;
	p.payload_max = config_payload_max(c);
	if (p.ack_every == 0)
		p.ack_every = has_slow_link(c) ? ACK_EVERY_SLOW : ACK_EVERY;
	if (p.cc_target_us == 0)
		p.cc_target_us = cc_target_us(c);
	if (p.share_target_us == CONFIG_AUTO)
		p.share_target_us = has_slow_link(c) ? SHARE_US_SLOW : SHARE_US;
	p.links = config_link_count(c);
	p.probes = 3;
	p.lanes = (uint8_t)c->lanes;
	p.checksum = c->checksum;
	strncpy(p.name, c->name, sizeof(p.name));
	return p;
}

size_t
node_config_core_bytes(const struct config *c)
{
	struct proto_config p = node_config_core(c);

	p.epoch = 1;
	p.ticks_per_sec = 1000000000;
	return proto_memsize(&p);
}

uint32_t
node_config_inbox_entries(const struct config *c)
{
	return rte_align32pow2(c->mbufs + c->lanes * c->transfer_frames + 1);
}

/* Return the bytes of a mempool, as rte_mempool_op_calc_mem_size_default() does: no object crosses
 * a page border. */
static uint64_t
pool_bytes(uint32_t count, uint32_t element_bytes, uint64_t page_bytes)
{
	uint64_t object = rte_mempool_calc_obj_size(element_bytes, 0, NULL);
	uint64_t each = page_bytes / object;
	uint64_t objects = each ? (count + each - 1) / each * page_bytes
				: RTE_ALIGN_CEIL(object, page_bytes) * count;

	return objects + (uint64_t)rte_align32pow2(count + 1) * sizeof(void *) +
		RTE_MAX_LCORE * sizeof(struct rte_mempool_cache);
}

void
node_config_memory(const struct config *c, uint64_t page_bytes, struct config_memory *m)
{
	const struct channel_geometry g = node_config_geometry(c);
	uint32_t places = 2 * c->transfer_frames + 64;

	memset(m, 0, sizeof(*m));
	m->mbufs = pool_bytes(c->mbufs,
		(uint32_t)(sizeof(struct rte_mbuf) + RTE_ALIGN(sizeof(struct buf_priv), 64)) +
			RTE_PKTMBUF_HEADROOM + node_config_frame_room(c),
		page_bytes);
	m->channels = (channel_bytes(&g) + 256) * c->contexts;
	m->cores = (uint64_t)node_config_core_bytes(c) * c->lanes;
	m->rest = EAL_BYTES + (page_bytes > 4096 ? PAGES_BYTES : 0) +
		(uint64_t)c->nodes_max * sizeof(struct peer) *
			(config_link_count(c) > 1 ? 1 + CONFIG_LINKS_MAX : 1);
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		const struct config_link *l = &c->links[i];

		if (!l->used)
			continue;
		places += l->link.tx_descriptors;
		m->rest += HANDOVER_RING * sizeof(void *);
		const struct link_ops *ops = link_driver(l->link.driver);

		if (ops->lane_bytes != NULL)
			m->rest += ops->lane_bytes(&l->link) * c->lanes;
	}
	m->rest += c->lanes *
		(sizeof(struct engine) + sizeof(struct proto_out) * BURST_MAX +
			(uint64_t)node_config_inbox_entries(c) * sizeof(void *) +
			pool_bytes(places, (uint32_t)sizeof(struct rte_mbuf) + PLACE_BYTES,
				page_bytes));
	m->all = m->mbufs + m->channels + m->cores + m->rest;
}

uint64_t
node_config_descriptors(const struct config *c)
{
	return (uint64_t)c->contexts * OWN_FDS + SPARE_FDS;
}

uint64_t
descriptors_raise(uint64_t want)
{
	struct rlimit r, more = {want, want};

	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want)
		return want;
	if (r.rlim_max < want && setrlimit(RLIMIT_NOFILE, &more) == 0)
		return want;
	r.rlim_cur = r.rlim_max < want ? r.rlim_max : want;
	return setrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_cur : 0;
}
