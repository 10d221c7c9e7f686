/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a simulation is asked, and the configuration that its nodes have unless told otherwise.
 */
#include "sim/internal.h"

/* ------------------------------------------------------------------ looking */

struct proto_config
sim_defaults(uint32_t nodes, uint32_t mtu)
{
	return (struct proto_config){
		.ticks_per_sec = NS_PER_SEC,
		.nodes_max = nodes,
		.contexts_max = 4,
		.flows_max = 4 * nodes + 16,
		.paths_max = nodes,
		.tx_frames_max = 4096,
		.rx_frames_max = 4096,
		.window_frames = 512,
		.path_frames = 1024,
		.path_bytes = 4u << 20,
		.payload_max = mtu - WIRE_HDR_BYTES,
		.rto_min_us = 4000,
		.rto_max_us = 500000,
		.retries = 16,
		.hello_us = 8000000,
		.probes = 3,
		.ack_delay_us = 25,
		.ack_every = 32,
		.keepalive_us = 0,
		.flow_idle_us = 60000000,
		.cc_target_us = 15,
		.share_target_us = 4,
		.port_bps = SIM_RATE_OF_LINK,
		.recovery = PROTO_SELECTIVE,
		.cc = &cc_delay,
	};
}

uint64_t
sim_now(const struct sim *s)
{
	return s->now;
}

uint32_t
sim_watch(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx, bool on)
{
	struct sim_node *n = &s->nodes[src];

	if (!on) {
		proto_flow_unwatch(n->core, src_ctx, (uint16_t)dst, dst_ctx);
		return 0;
	}
	return proto_flow_watch(n->core, src_ctx, (uint16_t)dst, dst_ctx, sim_ticks(s, n));
}

const struct proto *
sim_core(const struct sim *s, uint32_t node)
{
	return s->nodes[node].core;
}

uint32_t
sim_here(const struct sim *s)
{
	return s->here;
}

const char *
sim_error(const struct sim *s)
{
	return s->error[0] ? s->error : NULL;
}

void
sim_edge_reset(struct sim *s, uint32_t edge)
{
	struct edge *e = &s->edges[edge];

	e->stat = (struct sim_edge_stat){0};
	e->free_at = e->free_at > s->now ? e->free_at : s->now;
}

void
sim_edge_rate(struct sim *s, uint32_t edge, uint64_t bandwidth_bps)
{
	s->edges[edge].ns_per_byte = net_ns_per_byte(bandwidth_bps);
}

const struct sim_edge_stat *
sim_edge(const struct sim *s, uint32_t edge)
{
	return &s->edges[edge].stat;
}

uint64_t
sim_frames(const struct sim *s)
{
	return s->frames;
}

uint64_t
sim_pending(const struct sim *s)
{
	return s->pending;
}

uint64_t
sim_digest(const struct sim *s)
{
	return s->digest;
}
