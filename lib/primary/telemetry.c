/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a node reports by rte_telemetry: /pmx/info, /pmx/stat, /pmx/drops, /pmx/peers,
 * /pmx/peer_counters, /pmx/links, /pmx/contexts, /pmx/groups, /pmx/memory, /pmx/regions; and
 * /pmx/reload, which alone changes something. Runs on the telemetry threads. Counters are not
 * locked, so a reader may see values of slightly different moments.
 *
 * Design note
 * 1. The node ends only when no answer is being made of it: each is made under a lock, which
 *    telemetry_serve() takes too. A reload has a lock of its own, since it waits for the lanes.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/neighbours.h"
#include "engine/rails.h"
#include "engine/sealed.h"
#include "group/engine/group.h"
#include "rma/engine/rma.h"
#include "node/keeper.h"
#include "node/reload.h"
#include "primary/attach.h"
#include "primary/discover.h"
#include "node/dpdk_names.h"
#include "primary/telemetry.h"

#define PIECE_BYTES 120

static const char *const modes[] = {"off", "auth", "seal"}; /* by enum seal_mode */

static struct node *node;                                /* NULL: none is served */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* note 1 */

static uint64_t
sum_proto(unsigned i)
{
	uint64_t sum = 0;

	for (unsigned l = 0; l < node->config.lanes; l++)
		sum += proto_counters(node->engines[l].proto)[i];
	return sum;
}

static uint64_t
sum_engine(unsigned i)
{
	uint64_t sum = 0;

	for (unsigned l = 0; l < node->config.lanes; l++)
		sum += node->engines[l].counters[i];
	return sum;
}

static int
add_counters(struct rte_tel_data *d, bool drops_only)
{
	rte_tel_data_start_dict(d);
	for (unsigned i = 0; i < ENGINE_COUNTER_COUNT; i++) {
		bool drop = strncmp(engine_counter_info[i].name, "drop_", 5) == 0 ||
			strncmp(engine_counter_info[i].name, "bad_", 4) == 0 ||
			i == ENGINE_tx_no_mbuf || i == ENGINE_tx_unknown_node ||
			i == ENGINE_tx_no_neighbour || i == ENGINE_tx_stuck;

		if (!drops_only || drop)
			rte_tel_data_add_dict_uint(d, engine_counter_info[i].name, sum_engine(i));
	}
	for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
		char name[RTE_TEL_MAX_STRING_LEN];
		bool drop = strncmp(proto_counter_info[i].name, "drop_", 5) == 0;

		if (drops_only && !drop)
			continue;
		snprintf(name, sizeof(name), "%s%s", drop ? "" : "proto_",
			proto_counter_info[i].name);
		rte_tel_data_add_dict_uint(d, name, sum_proto(i));
	}
	return 0;
}

static void
add_links(struct rte_tel_data *d)
{
	static const char *const names[] = {"rx_no_mbuf", "rx_too_long", "tx_refused", "faults"};

	for (unsigned i = 0; i < node->link_count; i++) {
		struct link_stats s = {0};
		char name[RTE_TEL_MAX_STRING_LEN];

		node->links[i].ops->stats(&node->links[i], &s);
		const uint64_t values[] = {s.rx_no_mbuf, s.rx_too_long, s.tx_refused, s.faults};

		for (unsigned k = 0; k < 4; k++) {
			snprintf(name, sizeof(name), "link%u_%s", i, names[k]);
			rte_tel_data_add_dict_uint(d, name, values[k]);
		}
	}
}

static int
tell_stat(const char *params, struct rte_tel_data *d)
{
	(void)params;
	return add_counters(d, false);
}

static int
tell_drops(const char *params, struct rte_tel_data *d)
{
	(void)params;
	add_counters(d, true);
	add_links(d);
	return 0;
}

/* Add a text that may be longer than telemetry's 127 bytes: in pieces NAME, NAME_1, NAME_2. */
static void
add_long(struct rte_tel_data *d, const char *name, const char *text)
{
	const size_t len = strlen(text);

	for (unsigned i = 0; i == 0 || i * PIECE_BYTES < len; i++) {
		char key[32], piece[PIECE_BYTES + 1];

		snprintf(key, sizeof(key), i == 0 ? "%s" : "%s_%u", name, i);
		snprintf(piece, sizeof(piece), "%s", text + i * PIECE_BYTES);
		rte_tel_data_add_dict_string(d, key, piece);
	}
}

static int
tell_info(const char *params, struct rte_tel_data *d)
{
	static const char *const idle[] = {"spin", "pause", "yield", "adaptive", "sleep"};

	(void)params;
	const struct config *c = &node->config;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "version", PMX_VERSION);
	rte_tel_data_add_dict_string(d, "name", c->name);
	rte_tel_data_add_dict_uint(d, "node", c->id);
	rte_tel_data_add_dict_uint(d, "lanes", c->lanes);
	char numa[4 * CONFIG_LANES_MAX];
	int used = 0;

	for (unsigned l = 0; l < c->lanes && used < (int)sizeof(numa); l++)
		used += snprintf(numa + used, sizeof(numa) - (size_t)used, l > 0 ? " %d" : "%d",
			node->numa[l]);
	rte_tel_data_add_dict_string(d, "numa", numa);
	rte_tel_data_add_dict_int(d, "numa_mbufs", node->pool_numa);
	rte_tel_data_add_dict_string(d, "idle", idle[c->idle]);
	rte_tel_data_add_dict_string(d, "driver", c->links[0].link.driver);
	rte_tel_data_add_dict_uint(d, "dpdk_port", link_driver(c->links[0].link.driver)->port);
	rte_tel_data_add_dict_string(d, "port", c->links[0].link.port);
	struct link_stats unused;

	node->links[0].ops->stats(&node->links[0], &unused); /* updates links[0].up */
	rte_tel_data_add_dict_uint(d, "link_up", node->links[0].up);
	rte_tel_data_add_dict_uint(d, "mtu", c->links[0].link.mtu);
	rte_tel_data_add_dict_uint(d, "payload_max", node->frag_len);
	rte_tel_data_add_dict_uint(d, "contexts", c->contexts);
	rte_tel_data_add_dict_uint(d, "mbufs", c->mbufs);
	rte_tel_data_add_dict_uint(d, "mbufs_free", rte_mempool_avail_count(node->pool));
	int64_t left = atomic_load(&node->mbufs_left);

	rte_tel_data_add_dict_uint(d, "mbufs_unpromised", left > 0 ? (uint64_t)left : 0);
	uint64_t flows = 0;

	for (unsigned l = 0; l < c->lanes; l++)
		flows += proto_flows_used(node->engines[l].proto);
	rte_tel_data_add_dict_uint(d, "flows", flows);
	rte_tel_data_add_dict_string(d, "security", modes[c->security]);
	rte_tel_data_add_dict_uint(d, "certificate_until", keeper_certificate_until(node));
	return 0;
}

/* Add where frames to the peer go first, if it is reached with encap = udp. */
static void
add_next_hop(struct rte_tel_data *p, uint32_t number)
{
	const struct peer *peer = &node->peers[number];
	char mac[RTE_ETHER_ADDR_FMT_SIZE] = "", ip[INET_ADDRSTRLEN] = "";
	struct next_hop hop = {0};

	if (peer->encap_len == config_encap_bytes(LINK_ENCAP_UDP)) {
		hop = neighbour_hop(node, peer);
		rte_ether_format_addr(mac, sizeof(mac), &hop.mac);
	}
	const uint32_t be = rte_cpu_to_be_32(hop.ip);

	if (hop.ip != 0)
		inet_ntop(AF_INET, &be, ip, sizeof(ip));
	rte_tel_data_add_dict_string(p, "next_hop", mac);
	rte_tel_data_add_dict_string(p, "next_hop_ip", ip);
	rte_tel_data_add_dict_uint(p, "unanswered", hop.unanswered);
}

static int
tell_discovery(const char *params, struct rte_tel_data *d)
{
	(void)params;
	rte_tel_data_start_dict(d);
	discover_tell(d);
	return 0;
}

/* Add the peer's address on its first link; beside an IP address, also the MAC address of the next
 * hop. */
static void
add_address(struct rte_tel_data *p, uint32_t number)
{
	const struct config_peer *peer = &node->config.peers[number];
	const unsigned first = config_peer_link(peer);
	char text[LINK_ADDR_MAX];

	link_peer_text(&node->config.links[first].link, &peer->addr[first], text);
	rte_tel_data_add_dict_string(p, "address", text);
	add_next_hop(p, number);
	rte_tel_data_add_dict_uint(p, "link", first);
}

/* Add what is known of the keys that this node and the peer have, or why they have none. */
static void
add_keys(struct rte_tel_data *p, uint32_t number)
{
	struct keeper_view v;

	if (!keeper_view(node, (uint16_t)number, &v))
		return;
	rte_tel_data_add_dict_string(p, "keys", v.has_keys ? modes[node->config.security] : "none");
	rte_tel_data_add_dict_uint(p, "keys_age_s", v.has_keys ? v.age_s : 0);
	rte_tel_data_add_dict_string(p, "keys_trouble",
		v.trouble != HANDSHAKE_FINE ? handshake_trouble_name(v.trouble) : "");
	add_long(p, "keys_trouble_text",
		v.trouble != HANDSHAKE_FINE ? handshake_trouble_text(v.trouble) : "");
	rte_tel_data_add_dict_string(p, "keys_claim",
		v.claim != HANDSHAKE_FINE ? handshake_trouble_name(v.claim) : "");
	add_long(p, "keys_claim_text",
		v.claim != HANDSHAKE_FINE ? handshake_trouble_text(v.claim) : "");
	rte_tel_data_add_dict_uint(p, "keys_agreed", v.agreed);
	rte_tel_data_add_dict_uint(p, "keys_refused", v.refused);
	rte_tel_data_add_dict_uint(p, "keys_unreadable", v.unreadable);
}

static void
add_peer(struct rte_tel_data *d, uint32_t number)
{
	struct rte_tel_data *p = rte_tel_data_alloc();
	struct proto_path_stat s = {0};
	char name[16];
	bool known = false;

	if (p == NULL)
		return;
	/* each lane makes its own handshake: prefer one that has */
	for (unsigned l = 0; l < node->config.lanes && !s.established; l++)
		known |= proto_path_stat(node->engines[l].proto, (uint16_t)number, &s);
	rte_tel_data_start_dict(p);
	rte_tel_data_add_dict_string(p, "state",
		s.established    ? "up"
			: s.dead ? "down"
			: known  ? "asking"
				 : "unused");
	rte_tel_data_add_dict_string(p, "name", node->config.peers[number].name);
	rte_tel_data_add_dict_uint(p, "found", node->config.peers[number].found);
	add_address(p, number);
	rte_tel_data_add_dict_uint(p, "epoch", s.peer_epoch);
	rte_tel_data_add_dict_uint(p, "rtt_ns", s.rtt_ns);
	rte_tel_data_add_dict_uint(p, "rtt_var_ns", s.rtt_var_ns);
	rte_tel_data_add_dict_uint(p, "rto_ns", s.rto_ns);
	rte_tel_data_add_dict_uint(p, "cwnd_bytes", s.cwnd_bytes);
	rte_tel_data_add_dict_uint(p, "cwnd_frames", s.cwnd_frames);
	rte_tel_data_add_dict_uint(p, "inflight_bytes", s.inflight_bytes);
	rte_tel_data_add_dict_uint(p, "flows", s.flows);
	rte_tel_data_add_dict_string(p, "says_name", s.name);
	rte_tel_data_add_dict_uint(p, "says_payload", s.payload_max);
	rte_tel_data_add_dict_uint(p, "too_long", s.too_long);
	rte_tel_data_add_dict_uint(p, "says_lanes", s.lanes);
	rte_tel_data_add_dict_string(p, "says_checksum", s.checksum ? "on" : "off");
	rte_tel_data_add_dict_uint(p, "unlike", s.unlike);
	rte_tel_data_add_dict_uint(p, "other_version", s.other_version);
	rte_tel_data_add_dict_uint(p, "wants_keys", s.wants_keys);
	add_keys(p, number);
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, p, 0);
}

/* Add what a lane has counted of the peer's seals to sum. Return whether there is anything. */
static bool
add_sealed(const struct engine *e, uint32_t number, uint64_t sum[SEALED_COUNTER_COUNT])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SEALED_COUNTER_COUNT && e->sealed != NULL; i++) {
		sum[i] += e->sealed->peers[number].counters[i];
		any |= sum[i];
	}
	return any != 0;
}

/* Add the peer's counters, those of all lanes together. */
static void
add_peer_counters(struct rte_tel_data *d, uint32_t number)
{
	struct rte_tel_data *p = rte_tel_data_alloc(), *trips = rte_tel_data_alloc();
	struct proto_peer_counts counts = {0};
	const uint64_t hz = rte_get_tsc_hz();
	uint64_t sealed[SEALED_COUNTER_COUNT] = {0};
	bool known = false;
	char name[16];

	for (unsigned l = 0; l < node->config.lanes; l++) {
		known |= proto_peer_add(node->engines[l].proto, (uint16_t)number, &counts);
		known |= add_sealed(&node->engines[l], number, sealed);
	}
	if (!known || p == NULL || trips == NULL) {
		rte_tel_data_free(p);
		rte_tel_data_free(trips);
		return;
	}
	rte_tel_data_start_dict(p);
	for (unsigned i = 0; i < PROTO_PEER_COUNTER_COUNT; i++)
		rte_tel_data_add_dict_uint(p, proto_peer_counter_info[i].name, counts.counters[i]);
	for (unsigned i = 0; i < SEALED_COUNTER_COUNT && node->config.security != SEAL_OFF; i++)
		rte_tel_data_add_dict_uint(p, sealed_counter_info[i]->name, sealed[i]);
	if (counts.heard_at != 0)
		rte_tel_data_add_dict_uint(p, "silent_ms",
			(rte_rdtsc() - counts.heard_at) / (hz / 1000));
	rte_tel_data_start_array(trips, RTE_TEL_UINT_VAL);
	for (unsigned i = 0; i < PROTO_ROUND_TRIPS; i++)
		rte_tel_data_add_array_uint(trips, counts.round_trips[i]);
	rte_tel_data_add_dict_container(p, "round_trips", trips, 0);
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, p, 0);
}

/* Add `most` of the peers, or of those with several links, from the number in params on. Telemetry
 * omits entries, even in the middle, that do not fit its longest reply, 16 KiB. */
static int
tell_nodes(const char *params, struct rte_tel_data *d, bool several, uint32_t most,
	void (*add)(struct rte_tel_data *, uint32_t))
{
	uint32_t from = params ? (uint32_t)strtoul(params, NULL, 10) : 0, shown = 0;

	rte_tel_data_start_dict(d);
	for (uint32_t i = from; i < node->config.nodes_max && shown < most; i++) {
		if (several ? !node->peers[i].several : !node->peers[i].known)
			continue;
		add(d, i);
		shown++;
	}
	return 0;
}

static int
tell_peers(const char *params, struct rte_tel_data *d)
{
	return tell_nodes(params, d, false, 32, add_peer); /* so many with long addresses fit */
}

static int
tell_peer_counters(const char *params, struct rte_tel_data *d)
{
	/* so many with large ones fit */
	return tell_nodes(params, d, false, 12, add_peer_counters);
}

static void
add_link(struct rte_tel_data *d, unsigned number)
{
	struct link *l = &node->links[number];
	struct rte_tel_data *c = rte_tel_data_alloc();
	struct link_stats s = {0};
	char name[16];

	if (c == NULL)
		return;
	l->ops->stats(l, &s); /* updates l->up */
	rte_tel_data_start_dict(c);
	rte_tel_data_add_dict_string(c, "driver", l->config.driver);
	rte_tel_data_add_dict_string(c, "port",
		*l->config.port ? l->config.port : l->config.listen);
	rte_tel_data_add_dict_uint(c, "up", l->up);
	rte_tel_data_add_dict_uint(c, "ethernet", l->config.encap != LINK_ENCAP_NONE);
	rte_tel_data_add_dict_uint(c, "mtu", l->config.mtu);
	rte_tel_data_add_dict_uint(c, "rx_frames", s.rx_frames);
	rte_tel_data_add_dict_uint(c, "rx_bytes", s.rx_bytes);
	rte_tel_data_add_dict_uint(c, "tx_frames", s.tx_frames);
	rte_tel_data_add_dict_uint(c, "tx_bytes", s.tx_bytes);
	rte_tel_data_add_dict_uint(c, "rx_lost", s.rx_no_mbuf + s.rx_too_long);
	rte_tel_data_add_dict_uint(c, "tx_refused", s.tx_refused);
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

static int
tell_links(const char *params, struct rte_tel_data *d)
{
	(void)params;
	rte_tel_data_start_dict(d);
	for (unsigned i = 0; i < node->link_count; i++)
		add_link(d, i);
	return 0;
}

/* Add a peer with several links: its address on each, and whether that link works. */
static void
add_rails(struct rte_tel_data *d, uint32_t number)
{
	const struct config_peer *peer = &node->config.peers[number];
	struct rte_tel_data *c = rte_tel_data_alloc();
	const uint32_t up = lane_rails_all_up(node, (uint16_t)number);
	char name[32], text[LINK_ADDR_MAX];

	if (c == NULL)
		return;
	rte_tel_data_start_dict(c);
	for (uint32_t left = peer->links; left != 0; left &= left - 1) {
		const unsigned link = (unsigned)__builtin_ctz(left);

		link_peer_text(&node->config.links[link].link, &peer->addr[link], text);
		snprintf(name, sizeof(name), "link%u_address", link);
		rte_tel_data_add_dict_string(c, name, text);
		snprintf(name, sizeof(name), "link%u_up", link);
		rte_tel_data_add_dict_uint(c, name, up >> link & 1);
	}
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

static int
tell_rails(const char *params, struct rte_tel_data *d)
{
	return tell_nodes(params, d, true, 32, add_rails);
}

/* Copy len bytes that a client writes at that offset of its channel: the memory of a thin one must
 * not be unmapped meanwhile. */
static void
copy_from_channel(const struct channel *ch, size_t offset, void *to, size_t len)
{
	pthread_mutex_lock(&node->mappings.lock);
	memcpy(to, (const uint8_t *)ch->shm + offset, len);
	pthread_mutex_unlock(&node->mappings.lock);
}

/* Replace what a client wrote into a text and what cannot be printed. */
static void
make_printable(char *text)
{
	for (; *text != 0; text++) {
		if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
			*text = '?';
	}
}

static void
add_context(struct rte_tel_data *d, const struct channel *ch)
{
	struct rte_tel_data *c = rte_tel_data_alloc();
	static const char *const states[] = {"closed", "open", "closing", "ending"};
	struct pair_counters paired;
	char name[CONTEXT_NAME_MAX + 1] = "";
	const uint32_t user = attach_user(ch->ctx);

	if (c == NULL)
		return;
	copy_from_channel(ch, offsetof(struct channel_shm, paired), &paired, sizeof(paired));
	copy_from_channel(ch, offsetof(struct channel_shm, name), name, CONTEXT_NAME_MAX);
	rte_tel_data_start_dict(c);
	make_printable(name);
	rte_tel_data_add_dict_string(c, "name", name);
	if (user != UINT32_MAX)
		rte_tel_data_add_dict_uint(c, "uid", user);
	rte_tel_data_add_dict_string(c, "state",
		ch->state == CHANNEL_OPEN && ch->stopped ? "stopped" : states[ch->state & 3]);
	rte_tel_data_add_dict_uint(c, "job", ch->job);
	rte_tel_data_add_dict_uint(c, "pid", (uint64_t)ch->pid);
	rte_tel_data_add_dict_string(c, "attached",
		ch->thin          ? "thin"
			: ch->pid ? "secondary"
				  : "embedded");
	rte_tel_data_add_dict_uint(c, "sent", ch->sent);
	rte_tel_data_add_dict_uint(c, "received", ch->received);
	rte_tel_data_add_dict_uint(c, "sent_bytes", ch->sent_bytes);
	rte_tel_data_add_dict_uint(c, "received_bytes", ch->received_bytes);
	rte_tel_data_add_dict_uint(c, "send_buffers", ch->send_buffers);
	rte_tel_data_add_dict_uint(c, "send_busy", ch->busy_slots);
	rte_tel_data_add_dict_uint(c, "receive_buffers", ch->plain.bulk_quota);
	rte_tel_data_add_dict_uint(c, "receive_held", ch->plain.bulk_out);
	rte_tel_data_add_dict_uint(c, "matched_held", ch->matched.bulk_out);
	rte_tel_data_add_dict_uint(c, "matched_waiting", ch->matched.lhs.pos - ch->matched.lhs_pos);
	rte_tel_data_add_dict_uint(c, "lhs_waiting", ch->plain.lhs.pos - ch->plain.lhs_pos);
	rte_tel_data_add_dict_uint(c, "bad", ch->bad);
	rte_tel_data_add_dict_uint(c, "pairs", paired.pairs);
	rte_tel_data_add_dict_uint(c, "paired_sent", paired.sent);
	rte_tel_data_add_dict_uint(c, "paired_received", paired.received);
	snprintf(name, sizeof(name), "%u", ch->ctx);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

/* Add 64 of the open contexts, from the number in params on. */
static int
tell_open(const char *params, struct rte_tel_data *d,
	void (*add)(struct rte_tel_data *, const struct channel *))
{
	uint32_t from = params ? (uint32_t)strtoul(params, NULL, 10) : 0, shown = 0;

	rte_tel_data_start_dict(d);
	for (uint32_t i = from; i < node->config.contexts && shown < 64; i++) {
		if (node->channels[i].state == CHANNEL_CLOSED)
			continue;
		add(d, &node->channels[i]);
		shown++;
	}
	return 0;
}

static int
tell_contexts(const char *params, struct rte_tel_data *d)
{
	return tell_open(params, d, add_context);
}

/* Add the remote memory of a context: its own transfers, those of others to it, and its process's
 * pins. */
static void
add_remote(struct rte_tel_data *d, const struct channel *ch)
{
	struct rte_tel_data *c = rte_tel_data_alloc();
	struct rma_stat r;
	struct pin_counters pins;
	char name[16];

	copy_from_channel(ch, offsetof(struct channel_shm, pins), &pins, sizeof(pins));

	rma_stat(rma_channel(ch)->rma, ch->ctx, &r);
	if (c == NULL)
		return;
	rte_tel_data_start_dict(c);
	rte_tel_data_add_dict_uint(c, "transfers", r.transfers);
	rte_tel_data_add_dict_uint(c, "pushed_bytes", r.pushed);
	rte_tel_data_add_dict_uint(c, "pulled_bytes", r.pulled);
	rte_tel_data_add_dict_uint(c, "failed", r.failed);
	rte_tel_data_add_dict_uint(c, "served", r.served);
	rte_tel_data_add_dict_uint(c, "refused", r.refused);
	rte_tel_data_add_dict_uint(c, "mapped_pieces", ch->space.count);
	rte_tel_data_add_dict_uint(c, "mapped_bytes", ch->space.bytes);
	rte_tel_data_add_dict_uint(c, "pin_hits", pins.hits);
	rte_tel_data_add_dict_uint(c, "pin_misses", pins.misses);
	rte_tel_data_add_dict_uint(c, "pin_evictions", pins.evictions);
	rte_tel_data_add_dict_uint(c, "pin_invalidations", pins.invalidations);
	rte_tel_data_add_dict_uint(c, "pinned_bytes", pins.pinned_bytes);
	snprintf(name, sizeof(name), "%u", ch->ctx);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

static int
tell_memory(const char *params, struct rte_tel_data *d)
{
	return tell_open(params, d, add_remote);
}

static void
add_region(struct rte_tel_data *d, const struct rma *rma, const struct region *r, uint32_t number)
{
	static const char *const rights[] = {"none", "read", "write", "read, write"};
	struct rte_tel_data *c = rte_tel_data_alloc();
	char name[16];

	if (c == NULL)
		return;
	rte_tel_data_start_dict(c);
	rte_tel_data_add_dict_uint(c, "context", r->ctx);
	rte_tel_data_add_dict_uint(c, "addr", r->base);
	rte_tel_data_add_dict_uint(c, "bytes", r->len);
	if (r->area != REGION_NO_AREA)
		rte_tel_data_add_dict_uint(c, "area", r->area);
	rte_tel_data_add_dict_string(c, "access", rights[r->rights & 3]);
	rte_tel_data_add_dict_string(c, "method", memory_method_name[r->method % MEMORY_METHODS]);
	rte_tel_data_add_dict_uint(c, "pins", rma_pins(rma, r->key));
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

/* Add 64 of the regions, which are numbered through the tables of all lanes, from the number in
 * params on. Keys are secrets, and are not reported. */
static int
tell_regions(const char *params, struct rte_tel_data *d)
{
	uint32_t from = params ? (uint32_t)strtoul(params, NULL, 10) : 0, shown = 0;

	uint32_t each = node->config.regions;

	rte_tel_data_start_dict(d);
	for (uint32_t i = from; i < each * node->config.lanes && shown < 64; i++) {
		struct rma *rma = rma_lane(&node->engines[i / each])->rma;
		const struct region *r = &rma_regions(rma)->regions[i % each];

		if (r->key == 0)
			continue;
		add_region(d, rma, r, i);
		shown++;
	}
	return 0;
}

#define RANKS_SHOWN 8 /* of a lock's queue, or of those who share a region */

typedef uint32_t(ranks_of)(const struct groups *g, uint32_t place, uint32_t number, uint16_t *ranks,
	uint32_t n);

/* Add locks with their queues, or regions with their sharers, as texts of ranks: of those that the
 * member manages and that are in use. */
static void
add_ranks(struct rte_tel_data *d, const char *what, ranks_of *of, uint32_t count,
	const struct groups *g, uint32_t place)
{
	struct rte_tel_data *c = rte_tel_data_alloc();
	uint16_t ranks[RANKS_SHOWN];
	char name[16], text[RANKS_SHOWN * 8 + 16];

	if (c == NULL)
		return;
	rte_tel_data_start_dict(c);
	for (uint32_t k = 0; k < count; k++) {
		uint32_t n = of(g, place, k, ranks, RANKS_SHOWN), at = 0;

		if (n == 0)
			continue;
		for (uint32_t i = 0; i < n && i < RANKS_SHOWN; i++)
			at += (uint32_t)snprintf(text + at, sizeof(text) - at, "%s%u",
				i > 0 ? " " : "", ranks[i]);
		if (n > RANKS_SHOWN)
			snprintf(text + at, sizeof(text) - at, " and %u", n - RANKS_SHOWN);
		snprintf(name, sizeof(name), "%u", k);
		rte_tel_data_add_dict_string(c, name, text);
	}
	rte_tel_data_add_dict_container(d, what, c, 0);
}

static void
add_group(struct rte_tel_data *d, const struct groups *g, uint32_t place,
	const struct group_stat *s, uint32_t number)
{
	struct rte_tel_data *c = rte_tel_data_alloc();
	char name[16];

	if (c == NULL)
		return;
	rte_tel_data_start_dict(c);
	rte_tel_data_add_dict_uint(c, "group", s->id);
	rte_tel_data_add_dict_uint(c, "context", s->ctx);
	rte_tel_data_add_dict_uint(c, "rank", s->rank);
	rte_tel_data_add_dict_uint(c, "size", s->count);
	rte_tel_data_add_dict_uint(c, "gone", s->gone);
	rte_tel_data_add_dict_string(c, "state", s->state);
	rte_tel_data_add_dict_uint(c, "barrier", s->barrier);
	rte_tel_data_add_dict_uint(c, "in_barrier", s->in_barrier);
	rte_tel_data_add_dict_uint(c, "held", s->held);
	add_ranks(c, "locks", group_queue, node->config.group_locks, g, place);
	add_ranks(c, "regions", group_sharers, node->config.group_regions, g, place);
	snprintf(name, sizeof(name), "%u", number);
	rte_tel_data_add_dict_container(d, name, c, 0);
}

/* Add 32 of the memberships, which are numbered through the tables of all lanes, from the number in
 * params on. Keys are secrets, and are not reported. */
static int
tell_groups(const char *params, struct rte_tel_data *d)
{
	uint32_t from = params ? (uint32_t)strtoul(params, NULL, 10) : 0, shown = 0;

	uint32_t each = groups_places(group_lane(&node->engines[0])->groups);

	rte_tel_data_start_dict(d);
	for (uint32_t i = from; i < each * node->config.lanes && shown < 32; i++) {
		const struct groups *g = group_lane(&node->engines[i / each])->groups;
		struct group_stat s;

		if (!group_stat(g, i % each, &s))
			continue;
		add_group(d, g, i % each, &s, i);
		shown++;
	}
	return 0;
}

static int
tell_reload(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct reload_result r;
	char error[512] = "";

	(void)cmd, (void)params;
	pthread_mutex_lock(&lock);
	const bool served = node != NULL;

	pthread_mutex_unlock(&lock);
	if (!served)
		return -1;
	const int e = reload(&r, error, sizeof(error));

	rte_tel_data_start_dict(d);
	add_long(d, "error", e != 0 ? error : "");
	rte_tel_data_add_dict_uint(d, "added", r.added);
	rte_tel_data_add_dict_uint(d, "removed", r.removed);
	rte_tel_data_add_dict_uint(d, "moved", r.moved);
	rte_tel_data_add_dict_uint(d, "pause_us", r.pause_us);
	return 0;
}

static const struct {
	const char *command;
	int (*tell)(const char *params, struct rte_tel_data *d);
	const char *help;
} commands[] = {
	{"/pmx/info", tell_info, "The node: name, link, limits, use."},
	{"/pmx/stat", tell_stat, "All counters of engine and protocol."},
	{"/pmx/drops", tell_drops, "Every reason for a lost frame."},
	{"/pmx/peers", tell_peers, "Paths to peer nodes, 32 from node number N on. Parameter: N"},
	{"/pmx/peer_counters", tell_peer_counters,
		"Counters of peer nodes, 12 from node number N on. Parameter: N"},
	{"/pmx/discovery", tell_discovery, "Seeds that answered, and how many nodes were found."},
	{"/pmx/links", tell_links, "Links of this node: state and traffic. No parameters"},
	{"/pmx/rails", tell_rails,
		"Peers with several links, 32 from node number N on: which work. Parameter: N"},
	{"/pmx/memory", tell_memory,
		"Remote memory of open contexts, 64 from number N on. Parameter: N"},
	{"/pmx/groups", tell_groups, "Members of groups here, 32 from number N on. Parameter: N"},
	{"/pmx/regions", tell_regions,
		"Memory that others may reach, 64 from number N on. Parameter: N"},
	{"/pmx/contexts", tell_contexts, "Open contexts, 64 from number N on. Parameter: N"},
};

/* Answer a command of the table. */
static int
telemetry_tell(const char *cmd, const char *params, struct rte_tel_data *d)
{
	int result = -1;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; node != NULL && i < RTE_DIM(commands); i++) {
		if (strcmp(commands[i].command, cmd) == 0)
			result = commands[i].tell(params, d);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void
telemetry_serve(struct node *n)
{
	static bool registered;

	pthread_mutex_lock(&lock);
	node = n;
	pthread_mutex_unlock(&lock);
	if (registered || n == NULL)
		return;
	registered = true;
	for (size_t i = 0; i < RTE_DIM(commands); i++)
		rte_telemetry_register_cmd(commands[i].command, telemetry_tell, commands[i].help);
	rte_telemetry_register_cmd("/pmx/reload", tell_reload,
		"Takes [nodes] of the configuration, and the files of [security], as they are now. "
		"No parameters");
}
