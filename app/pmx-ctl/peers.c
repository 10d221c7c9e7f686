/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command peers: paths to other nodes; with --all, what went over them.
 */
#include <inttypes.h>
#include <string.h>

#include "core/proto/proto.h"
#include "core/wire/wire.h"
#include "ctl.h"
#include "engine/lane.h"

uint64_t
round_trips_below(const json_t *trips, double share)
{
	uint64_t all = 0, seen = 0;
	json_t *n;
	size_t i;

	json_array_foreach((json_t *)trips, i, n)
		all += (uint64_t)json_integer_value(n);
	json_array_foreach((json_t *)trips, i, n) {
		seen += (uint64_t)json_integer_value(n);
		if (all > 0 && (double)seen >= share * (double)all)
			return (uint64_t)(PROTO_ROUND_TRIP_NS * (double)(1ull << i));
	}
	return 0;
}

/* Write why there are no keys for a peer. */
static enum ctl_verdict
peer_keys_differ(const json_t *p, char *what, size_t size, const char **mend)
{
	const char *trouble = get_text(p, "keys_trouble"), *claim = get_text(p, "keys_claim");
	const bool none = strcmp(get_text(p, "keys"), "none") == 0;
	const bool silent = *trouble == 0 || strcmp(trouble, "no answer") == 0;
	char text[256];

	if (get_u64(p, "wants_keys")) {
		*mend = "the same security.mode on both";
		snprintf(what, size,
			"node %" PRIu64 " has security.mode, this one has not: no message passes",
			get_u64(p, "node"));
		return FAIL;
	}
	*mend = "pmx-ctl doctor there: it says the other half";
	/* that nobody answers has other reasons too, which others look for */
	if (silent && (*claim == 0 || !none))
		return OK;
	snprintf(what, size, "%s node %" PRIu64 ": %s: %s",
		none ? "no keys for" : "keys cannot be renewed with", get_u64(p, "node"),
		silent ? claim : trouble,
		get_long_text(p, silent ? "keys_claim_text" : "keys_trouble_text", text,
			sizeof(text)));
	return none ? FAIL : WARN;
}

enum ctl_verdict
peer_disagrees(const json_t *p, uint64_t payload, char *what, size_t size, const char **mend)
{
	const uint64_t its = get_u64(p, "says_payload");
	const bool on = strcmp(get_text(p, "says_checksum"), "on") == 0;

	if (get_u64(p, "other_version")) {
		*mend = "run one build on both";
		snprintf(what, size,
			"node %" PRIu64 " speaks version %" PRIu64 " of the protocol, this one %d: "
			"no message passes",
			get_u64(p, "node"), get_u64(p, "other_version"), WIRE_VERSION);
		return FAIL;
	}
	if (get_u64(p, "unanswered")) {
		*mend = "see whether that host runs, its address in [nodes], and link.gateway if "
			"it is a router";
		snprintf(what, size,
			"nobody on link %" PRIu64
			" answers ARP for %s, the next hop to node %" PRIu64 ", %s",
			get_u64(p, "link"), get_text(p, "next_hop_ip"), get_u64(p, "node"),
			get_text(p, "address"));
		return FAIL;
	}
	const enum ctl_verdict keys = peer_keys_differ(p, what, size, mend);

	if (keys != OK)
		return keys;
	if (get_u64(p, "unlike")) {
		*mend = "the same proto.checksum on both";
		snprintf(what, size,
			"node %" PRIu64 " '%s' has proto.checksum = %s, this one %s: no message "
			"passes",
			get_u64(p, "node"), get_text(p, "says_name"), on ? "on" : "off",
			on ? "off" : "on");
		return FAIL;
	}
	if (get_u64(p, "too_long")) {
		*mend = "a link.mtu that the network between the nodes passes";
		snprintf(what, size,
			"node %" PRIu64 " '%s' is reached, but not by frames with %" PRIu64
			" bytes of payload: what is longer than a frame of 1200 ends with EMSGSIZE",
			get_u64(p, "node"), get_text(p, "says_name"), get_u64(p, "too_long"));
		return FAIL;
	}
	if (its != 0 && its != payload) {
		*mend = "the same link.mtu on both";
		snprintf(what, size,
			"node %" PRIu64 " '%s' takes %" PRIu64 " bytes a frame, this one %" PRIu64
			": what is longer ends with EMSGSIZE",
			get_u64(p, "node"), get_text(p, "says_name"), its, payload);
		return WARN;
	}
	return OK;
}

/* Return a counter of the peer if it is one of dropped frames, else 0. */
static uint64_t
drops_by(const json_t *peer, const struct proto_counter_info *c)
{
	return strncmp(c->name, "drop_", 5) == 0 ? get_u64(peer, c->name) : 0;
}

uint64_t
peer_drops(const json_t *peer)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PROTO_PEER_COUNTER_COUNT; i++)
		sum += drops_by(peer, &proto_peer_counter_info[i]);
	for (unsigned i = 0; i < SEALED_COUNTER_COUNT; i++)
		sum += drops_by(peer, sealed_counter_info[i]);
	return sum;
}

/* Show the counters of each peer that was ever met. */
static int
show_counters(struct ctl_session *s, const struct ctl_options *o)
{
	struct table t;
	size_t i;
	int result;
	json_t *p,
		*list = ask_rows(s, o, "/pmx/peer_counters", "node", "no peer was met yet",
			&result);

	if (list == NULL)
		return result;
	table_begin(&t,
		">node|>frames sent|>bytes|>again|>timeouts|>failed|>frames received|>bytes|"
		">dropped|>round trips below, half|>99 %|>silent");
	json_array_foreach(list, i, p) {
		const json_t *trips = json_object_get(p, "round_trips");

		table_row(&t,
			"%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%" PRIu64 "\t%s\t%" PRIu64 "\t%s\t%s\t%s",
			get_u64(p, "node"), get_u64(p, "tx_frames"),
			bytes_text(get_u64(p, "tx_bytes")), get_u64(p, "tx_retransmits"),
			get_u64(p, "timeouts"), get_u64(p, "messages_failed"),
			get_u64(p, "rx_frames"), bytes_text(get_u64(p, "rx_bytes")), peer_drops(p),
			time_text(round_trips_below(trips, 0.5)),
			time_text(round_trips_below(trips, 0.99)),
			time_text(get_u64(p, "silent_ms") * 1000000));
	}
	table_end(&t, stdout);
	json_decref(list);
	return 0;
}

int
show_peers(struct ctl_session *s, const struct ctl_options *o)
{
	struct table t;
	size_t i;
	int result;

	if (o->all)
		return show_counters(s, o);
	json_t *p,
		*list = ask_rows(s, o, "/pmx/peers", "node",
			"no peers: [nodes] names none but this node, and discovery, if it is on, "
			"has found none",
			&result);

	if (list == NULL)
		return result;
	table_begin(&t,
		">node|state|address|>epoch|>rtt|>rtt var|>rto|>cwnd bytes|"
		">cwnd frames|>bytes in flight|>flows|name|keys");
	json_array_foreach(list, i, p) {
		table_row(&t,
			"%" PRIu64 "\t%s\t%s\t%08" PRIx64 "\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64
			"\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s",
			get_u64(p, "node"), get_text(p, "state"), get_text(p, "address"),
			get_u64(p, "epoch"), time_text(get_u64(p, "rtt_ns")),
			time_text(get_u64(p, "rtt_var_ns")), time_text(get_u64(p, "rto_ns")),
			get_u64(p, "cwnd_bytes"), get_u64(p, "cwnd_frames"),
			get_u64(p, "inflight_bytes"), get_u64(p, "flows"), get_text(p, "name"),
			*get_text(p, "keys_trouble") != 0 ? get_text(p, "keys_trouble")
							  : get_text(p, "keys"));
	}
	table_end(&t, stdout);
	json_decref(list);
	return 0;
}
