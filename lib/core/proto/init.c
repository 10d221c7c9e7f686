/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out and starting a PM core in one block of memory; its counters and statistics. Called
 * once by the engine's owner, before its lcore polls.
 */
#include <errno.h>
#include <string.h>

#include "core/proto/internal.h"
#include "core/wire/siphash.h"

const struct proto_counter_info proto_counter_info[PROTO_COUNTER_COUNT] = {
#define PROTO_COUNTER_INFO(name, unit, help) {#name, unit, help},
	PROTO_COUNTERS(PROTO_COUNTER_INFO)
#undef PROTO_COUNTER_INFO
};

const struct proto_counter_info proto_peer_counter_info[PROTO_PEER_COUNTER_COUNT] = {
#define PROTO_PEER_INFO(name, unit, help) {#name, unit, help},
	PROTO_PEER_COUNTERS(PROTO_PEER_INFO)
#undef PROTO_PEER_INFO
};

_Static_assert(sizeof(struct flow) <= 256, "a flow's state");

size_t
proto_flow_bytes(void)
{
	return sizeof(struct flow);
}

/* The place of each array, from the start of the block. */
struct proto_layout {
	size_t txds, rxds, flows, paths, ctxs, buckets, path_of, timers, arrivals, links_of,
		strangers, end;
	uint32_t bucket_count;
};

static size_t
init_place(size_t *at, size_t size, size_t count)
{
	size_t here = (*at + 63) & ~(size_t)63;

	*at = here + size * count;
	return here;
}

static bool
config_ok(const struct proto_config *c)
{
	return c->node < c->nodes_max && c->nodes_max <= WIRE_NODES_MAX && c->epoch != 0 &&
		c->ticks_per_sec >= 1000 && c->ticks_per_sec <= 5000000000u &&
		c->contexts_max >= 1 && c->contexts_max <= WIRE_NODES_MAX && c->flows_max >= 1 &&
		c->paths_max >= 1 && c->tx_frames_max >= 1 && c->rx_frames_max >= 1 &&
		c->flows_max + c->paths_max < NIL && c->window_frames >= 1 &&
		c->window_frames <= WIRE_WINDOW_MAX && c->path_frames >= 1 && c->path_bytes >= 1 &&
		c->payload_max >= WIRE_HOLES_MAX && c->payload_max <= WIRE_PAYLOAD_MAX &&
		c->rto_min_us >= 1 && c->rto_max_us >= c->rto_min_us && c->retries >= 1 &&
		c->hello_us >= 1 && c->retries <= 200 && c->probes <= 7 && c->ack_every >= 1 &&
		c->flow_idle_us >= 1 && c->links <= PROTO_LINKS_MAX && c->cc != NULL;
}

static bool
init_lay_out(const struct proto_config *c, struct proto_layout *l)
{
	size_t at = sizeof(struct proto);

	if (!config_ok(c))
		return false;
	l->bucket_count = 16;
	while (l->bucket_count < 2 * c->flows_max)
		l->bucket_count *= 2;
	l->txds = init_place(&at, sizeof(struct txd), c->tx_frames_max);
	l->rxds = init_place(&at, sizeof(struct rxd), c->rx_frames_max);
	l->flows = init_place(&at, sizeof(struct flow), c->flows_max);
	l->paths = init_place(&at, sizeof(struct path), c->paths_max);
	l->ctxs = init_place(&at, sizeof(struct context), c->contexts_max);
	l->buckets = init_place(&at, sizeof(uint32_t), l->bucket_count);
	l->path_of = init_place(&at, sizeof(uint32_t), c->nodes_max);
	l->timers = init_place(&at, sizeof(struct timer), (size_t)c->flows_max + c->paths_max);
	l->arrivals = init_place(&at, sizeof(struct arrivals), c->links > 1 ? c->flows_max : 0);
	l->links_of = init_place(&at, sizeof(struct node_links), c->links > 1 ? c->nodes_max : 0);
	l->strangers = init_place(&at, sizeof(uint64_t), (c->nodes_max + 63) / 64);
	l->end = at;
	return true;
}

size_t
proto_memsize(const struct proto_config *config)
{
	struct proto_layout l;

	return init_lay_out(config, &l) ? (l.end + 63) & ~(size_t)63 : 0;
}

static void
init_pools(struct proto *p)
{
	const struct proto_config *c = &p->cfg;

	for (uint32_t i = 0; i < c->tx_frames_max; i++)
		p->txds[i].next = i + 1 < c->tx_frames_max ? i + 1 : NIL;
	for (uint32_t i = 0; i < c->rx_frames_max; i++)
		p->rxds[i].next = i + 1 < c->rx_frames_max ? i + 1 : NIL;
	for (uint32_t i = 0; i < c->flows_max; i++)
		p->flows[i].hash_next = i + 1 < c->flows_max ? i + 1 : NIL;
	for (uint32_t i = 0; i < c->paths_max; i++)
		p->paths[i].ctl_next = i + 1 < c->paths_max ? i + 1 : NIL;
	for (uint32_t i = 0; i < c->nodes_max; i++)
		p->path_of[i] = NIL;
	for (uint32_t i = 0; i <= p->bucket_mask; i++)
		p->buckets[i] = NIL;
	for (uint32_t i = 0; i < c->flows_max + c->paths_max; i++)
		p->timers[i].slot = TIMER_OFF;
	p->txd_free_count = c->tx_frames_max;
	p->rxd_free_count = c->rx_frames_max;
	p->ready[SEND_SHORT] = p->ready[SEND_LONG] = (struct proto_list){NIL, NIL};
	p->ctl = p->acks_due = p->acks_urgent = (struct proto_list){NIL, NIL};
	p->delivered = p->done = p->released = (struct proto_list){NIL, NIL};
}

static uint64_t
ticks_in(const struct proto_config *c, uint32_t us)
{
	uint64_t t = c->ticks_per_sec / 1000000 * us + c->ticks_per_sec % 1000000 * us / 1000000;

	return t ? t : 1;
}

static void
init_times(struct proto *p, uint64_t now)
{
	const struct proto_config *c = &p->cfg;

	p->ts_mult = ((uint64_t)WIRE_TSTAMP_HZ << 32) / c->ticks_per_sec;
	p->ticks_per_unit_q30 = (c->ticks_per_sec << 30) / WIRE_TSTAMP_HZ;
	p->rto_min = ticks_in(c, c->rto_min_us);
	p->rto_max = ticks_in(c, c->rto_max_us);
	p->rto_first = p->rto_min * 10 < p->rto_max ? p->rto_min * 10 : p->rto_max;
	p->ack_delay = ticks_in(c, c->ack_delay_us);
	p->keepalive = c->keepalive_us ? ticks_in(c, c->keepalive_us) : 0;
	p->hello = ticks_in(c, c->hello_us);
	p->memory = 4 * p->rto_max;
	uint64_t patience = ((uint64_t)c->retries + 4) * c->rto_max_us * UNITS_PER_US;

	p->patience = patience < UINT32_MAX / 2 ? (uint32_t)patience : UINT32_MAX / 2;
	p->flow_idle = ticks_in(c, c->flow_idle_us);
	/* the flow of a sender that still retries must not be forgotten */
	if (p->flow_idle < (c->retries + 4) * p->rto_max)
		p->flow_idle = (c->retries + 4) * p->rto_max;
	p->reopen = (p->flow_idle < p->rto_max ? p->flow_idle : p->rto_max) / 2;
	while ((32ull << p->wheel.shift) <= p->rto_min) /* a quarter of the shortest probe */
		p->wheel.shift++;
	p->wheel.cursor = now >> p->wheel.shift;
	p->due.tick_at = (p->wheel.cursor + 1) << p->wheel.shift;
	p->due.ack_at = UINT64_MAX;
	for (uint32_t i = 0; i < WHEEL_SLOTS; i++)
		p->wheel.head[i] = NIL;
}

static void
point_at(struct proto *p, const struct proto_layout *l)
{
	char *base = (char *)p;

	p->drain = flow_drain;
	p->txds = (void *)(base + l->txds);
	p->rxds = (void *)(base + l->rxds);
	p->flows = (void *)(base + l->flows);
	p->paths = (void *)(base + l->paths);
	p->ctxs = (void *)(base + l->ctxs);
	p->buckets = (void *)(base + l->buckets);
	p->path_of = (void *)(base + l->path_of);
	p->timers = (void *)(base + l->timers);
	p->arrivals = p->cfg.links > 1 ? (void *)(base + l->arrivals) : NULL;
	p->links_of = (void *)(base + l->links_of);
	p->strangers = (void *)(base + l->strangers);
}

static void
set_share_target(struct proto *p, const struct proto_config *config)
{
	p->share.target = config->share_target_us * UNITS_PER_US;
	p->share.aim = p->share.target;
}

/* Note the rate of the port, by which long messages to this node are granted. */
static void
set_port_rate(struct proto *p, const struct proto_config *config)
{
	const uint64_t frame_bits = 8u * (config->payload_max + WIRE_HDR_BYTES + WIRE_FRAME_EXTRA);

	p->grants.frames_per_unit =
		(uint32_t)((config->port_bps << 16) / WIRE_TSTAMP_HZ / frame_bits);
}

struct proto *
proto_init(void *memory, const struct proto_config *config, uint64_t now)
{
	struct proto_layout l;
	struct proto *p = memory;

	if (!init_lay_out(config, &l))
		return NULL;
	p->cfg = *config;
	point_at(p, &l);
	p->bucket_mask = l.bucket_count - 1;
	init_pools(p);
	init_times(p, now);
	p->born_at = p->begun_at = now;
	p->share = (struct proto_share){
		.life = 1,
		.window = 16 * 32,
		.random = (uint32_t)proto_random(p) | 1,
	};
	set_share_target(p, config);
	set_port_rate(p, config);
	p->grace_from = now - 2 * p->rto_min;
	p->stamp_at = now;
	p->stamp = units_of(p, now);
	return p;
}

/* ------------------------------------------------------------------ moving */

#define CONFIG_TERMS 24
_Static_assert(sizeof(struct proto_config) == 200,
	"a field of struct proto_config came or went: shall config_terms compare it?");

/* Write to `terms` the parts of a configuration that must be equal for a core to move from one to
 * the other, besides the algorithm. When Acks are sent, and what waits at most, may differ. */
static void
config_terms(const struct proto_config *c, uint64_t terms[CONFIG_TERMS])
{
	const uint64_t all[CONFIG_TERMS] = {c->node, c->nodes_max, c->contexts_max, c->flows_max,
		c->context_flows, c->paths_max, c->tx_frames_max, c->rx_frames_max,
		c->hold_frames_max, c->assembly_frames_max, c->window_frames, c->path_frames,
		c->path_bytes, c->payload_max, c->rto_min_us, c->rto_max_us, c->retries,
		c->hello_us, c->probes, c->ack_delay_us, c->keepalive_us, c->flow_idle_us, c->links,
		c->recovery};

	memcpy(terms, all, sizeof(all));
}

struct proto *
proto_adopt(void *memory, const struct proto_config *config)
{
	struct proto *p = memory;
	uint64_t mine[CONFIG_TERMS], its[CONFIG_TERMS], rate = p->cfg.ticks_per_sec;
	struct proto_layout l;

	/* two processes measure the rate of the same clock, and get slightly different values */
	if (rate - config->ticks_per_sec + rate / 64 > rate / 32)
		return NULL;
	config_terms(config, mine);
	config_terms(&p->cfg, its);
	if (!init_lay_out(config, &l) || memcmp(mine, its, sizeof(mine)) != 0)
		return NULL;
	p->cfg.cc = config->cc;
	p->cfg.ack_every = config->ack_every;
	p->cfg.share_target_us = config->share_target_us;
	p->cfg.cc_target_us = config->cc_target_us;
	p->cfg.port_bps = config->port_bps;
	set_share_target(p, config);
	set_port_rate(p, config);
	point_at(p, &l);
	for (uint32_t i = 0; i < config->paths_max; i++)
		p->paths[i].cc.target = p->paths[i].cc.target_max = config->cc_target_us *
			UNITS_PER_US;
	return p;
}

#define FORM 10 /* counted up when a field of these gets another place or meaning */

uint32_t
proto_form(void)
{
	return (uint32_t)(FORM << 24 ^ sizeof(struct proto) ^ sizeof(struct flow) << 3 ^
		sizeof(struct path) << 6 ^ sizeof(struct txd) << 9 ^ sizeof(struct rxd) << 12 ^
		sizeof(struct context) << 15);
}

const uint64_t *
proto_counters(const struct proto *p)
{
	return p->counters;
}

uint32_t
proto_flows_used(const struct proto *p)
{
	return p->flow_count;
}

uint32_t
proto_tx_free(const struct proto *p)
{
	return p->txd_free_count;
}

uint32_t
proto_rx_free(const struct proto *p)
{
	return p->rxd_free_count;
}

bool
proto_path_stat(const struct proto *p, uint16_t node, struct proto_path_stat *out)
{
	if (node >= p->cfg.nodes_max || p->path_of[node] == NIL)
		return false;
	const struct path *t = &p->paths[p->path_of[node]];
	const uint64_t hz = p->cfg.ticks_per_sec, ns_per_unit_q4 = 1000; /* 62.5 ns, in 1/16 ns */

	*out = (struct proto_path_stat){
		.peer_epoch = t->peer_epoch,
		.established = t->state == PATH_OPEN,
		.dead = t->dead,
		.unlike = t->unlike,
		.wants_keys = t->wants_keys,
		.too_long = t->too_long,
		.other_version = t->other_version,
		.rtt_ns = t->srtt / 8 * ns_per_unit_q4 / 16,
		.rtt_var_ns = t->rttvar / 4 * ns_per_unit_q4 / 16,
		.rto_ns = t->rto / hz * 1000000000u + t->rto % hz * 1000000000u / hz,
		.cwnd_bytes = t->cc.window_bytes,
		.cwnd_frames = t->cc.window_frames,
		.inflight_bytes = t->inflight_bytes,
		.inflight_frames = t->inflight_frames,
		.flows = t->flow_count,
		.payload_max = wire_be16(t->told.payload_max),
		.window = wire_be16(t->told.window),
		.lanes = t->told.lanes,
		.checksum = t->told.flags & WIRE_H_CHECKSUM,
	};
	for (unsigned i = 0; i < WIRE_NAME_BYTES && t->told.name[i] != 0; i++)
		out->name[i] = (char)(t->told.name[i] > ' ' && t->told.name[i] < 127
				? t->told.name[i]
				: '?');
	return true;
}

bool
proto_peer_add(const struct proto *p, uint16_t node, struct proto_peer_counts *out)
{
	if (node >= p->cfg.nodes_max || p->path_of[node] == NIL)
		return false;
	const struct path *t = &p->paths[p->path_of[node]];

	for (unsigned i = 0; i < PROTO_PEER_COUNTER_COUNT; i++)
		out->counters[i] += t->count.counters[i];
	for (unsigned i = 0; i < PROTO_ROUND_TRIPS; i++)
		out->round_trips[i] += t->count.round_trips[i];
	if (t->count.heard_at > out->heard_at)
		out->heard_at = t->count.heard_at;
	return true;
}

/* Return the path to that node if there is a session; otherwise NULL. */
static const struct path *
open_path(const struct proto *p, uint16_t node)
{
	const struct path *t = node < p->cfg.nodes_max && p->path_of[node] != NIL
		? &p->paths[p->path_of[node]]
		: NULL;

	return t != NULL && t->state == PATH_OPEN ? t : NULL;
}

uint32_t
proto_session(const struct proto *p, uint16_t node)
{
	const struct path *t = open_path(p, node);

	return t != NULL ? t->session : 0;
}

uint32_t
proto_peer_epoch(const struct proto *p, uint16_t node)
{
	const struct path *t = open_path(p, node);

	return t != NULL ? t->peer_epoch : 0;
}
