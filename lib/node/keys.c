/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of configuration keys: section, key, default, unit, range, meaning; its page for
 * people, and which keys two configurations agree in.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "channel/instance.h"
#include "node/config_file.h"
#include "node/keys.h"

/* The place where a key's value is stored, and what may become of it. Links and ranges may differ
 * between two primaries, since they are not part of channels. */
#define AGREES(field)   offsetof(struct config, field), RULE_AGREES
#define DIFFERS(field)  offsetof(struct config, field), 0
#define LIVE(field)     offsetof(struct config, field), RULE_LIVE
#define OF_LINK(field)  offsetof(struct config_link, link.field), 0
#define OF_RANGE(field) offsetof(struct config_range, field), 0
#define TEXT(t, f)      0, sizeof(((struct t *)0)->f)

#define DRIVER_NAME(name, what) #name
#define DRIVER_TEXT(name, what) #name ": " what

const struct config_key node_config_keys[] = {
	{"node", "id", KIND_U32, AGREES(id), 0, WIRE_NODES_MAX - 1, NULL, "number",
		"this node's number; the same in every node's [nodes]"},
	{"node", "name", KIND_NAME, DIFFERS(name), TEXT(config, name), "pmx0", "name",
		"of the instance: what applications attach to, and the EAL's file "
		"prefix; " INSTANCE_NAME_RULE},
	{"engine", "lanes", KIND_U32, AGREES(lanes), 1, CONFIG_LANES_MAX, "1", "lcores",
		"poll-mode lcores; contexts are spread over them by number. The EAL gets as many "
		"(-l); embedded nodes have one"},
	{"engine", "idle", KIND_CHOICE, LIVE(idle), 0, 0, "adaptive",
		"spin|pause|yield|adaptive|sleep",
		"what an lcore with nothing to do does: spin for latency on a core of its own, "
		"adaptive where cores are shared"},
	{"engine", "idle_us", KIND_U32, LIVE(idle_us), 1, 1000000, "1000", "us",
		"idle = adaptive: silence after which the lcore sleeps"},
	{"engine", "burst", KIND_U32, DIFFERS(burst), 1, 64, "32", "frames",
		"most frames moved in one step"},
	{"engine", "matching", KIND_CHOICE, DIFFERS(matching), 0, 0, "client", "client|engine",
		"who matches what pmx_isend sends with receives: client is faster for short "
		"messages, with engine transfers go on while the application computes"},
	{"engine", "multicast", KIND_CHOICE, DIFFERS(multicast), 0, 0, "auto", "auto|list|network",
		"how multicasts in groups go to several nodes: by the network's own copies where "
		"links can, or by one for each receiver"},
	{"engine", "links", KIND_CHOICE, DIFFERS(links_by), 0, 0, "spread", "spread|failover",
		"peers that [nodes] gives several links: frames go by all that work, which should "
		"be alike, or by the first that works; with recovery = go-back-n always the "
		"latter"},
	{"engine", "rendezvous", KIND_AUTO, DIFFERS(rendezvous), 1, WIRE_MESSAGE_MAX, "auto",
		"bytes",
		"messages of pmx_isend longer than this wait for their receive and are not copied "
		"on the way; auto: where that takes no longer, as measured"},
	{"engine", "dma", KIND_TEXT, DIFFERS(dma), TEXT(config, dma), "", "names",
		"DMA devices that place the bytes of remote writes, one for each lcore, with "
		"commas between; none: the lcore copies"},
	{"link", "driver", KIND_DRIVER, OF_LINK(driver), 0, 0, "ethdev",
		LINK_DRIVERS(DRIVER_NAME, "|"), LINK_DRIVERS(DRIVER_TEXT, "; ")},
	{"link", "port", KIND_TEXT, OF_LINK(port), TEXT(link_config, port), "", "text",
		"ethdev: port name (net_memif0) or PCI address; loop: name of the pair"},
	{"link", "listen", KIND_TEXT, OF_LINK(listen), TEXT(link_config, listen), "",
		"address:port",
		"udp: own address, IPv4 or IPv6 ([2001:db8::1]:18515, [fe80::1%eth0]:18515); port "
		"0: any"},
	{"link", "encap", KIND_CHOICE, OF_LINK(encap), 0, 0, "ether", "ether|vlan|udp|none",
		"frames on the wire: raw Ethernet, tagged, or in UDP/IPv4; none for driver udp and "
		"loop"},
	{"link", "ethertype", KIND_U16, OF_LINK(ethertype), 0x0600, 0xFFFF, "0x88B5", "EtherType",
		"of raw frames; the default is the IEEE's for local experiments"},
	{"link", "vlan", KIND_U16, OF_LINK(vlan), 1, 4094, "1", "VLAN id", "encap = vlan"},
	{"link", "udp_port", KIND_U16, OF_LINK(udp_port), 1, 65535, "18515", "port", "encap = udp"},
	{"link", "ip", KIND_NETWORK, OF_LINK(net), 0, 0, "0.0.0.0", "IPv4[/bits]",
		"encap = udp: own address, which the kernel must not have, and its network; "
		"without bits all peers are taken to be in it"},
	{"link", "gateway", KIND_TEXT, OF_LINK(gateway_text), TEXT(link_config, gateway_text),
		"auto", "IPv4|MAC|auto",
		"encap = udp: the router to peers outside that network; auto: the one of the "
		"kernel's default route, if it is in the network"},
	{"link", "mtu", KIND_AUTO, OF_LINK(mtu), 256, 65000, "auto", "bytes",
		"longest frame behind the Ethernet header; driver udp: longest datagram, without "
		"IP and UDP headers; the same on all nodes; auto: what fits Ethernet's 1500, for "
		"driver udp 1472, or 1452 for IPv6; 9000 for jumbo"},
	{"link", "rx_descriptors", KIND_U32, OF_LINK(rx_descriptors), 32, 32768, "1024", "frames",
		"receive queue"},
	{"link", "tx_descriptors", KIND_U32, OF_LINK(tx_descriptors), 32, 32768, "1024", "frames",
		"transmit queue"},
	{"link", "rate_mbps", KIND_AUTO, OF_LINK(rate_mbps), 0, 800000, "auto", "Mbit/s",
		"what the link carries: then short messages need not wait for long ones in the "
		"port, and those to this node are granted; 0: not known; auto: what the device "
		"says, but for virtual ones"},
	{"link", "fault", KIND_TEXT, OF_LINK(fault), TEXT(link_config, fault), "", "text",
		"faults for tests, e.g. loss=5%,reorder=5%,duplicate=2%,corrupt=1%,seed=7"},
	{"proto", "recovery", KIND_CHOICE, AGREES(recovery), 0, 0, "selective",
		"selective|go-back-n",
		"keep what arrives out of order, or discard it as the paper's R5"},
	{"proto", "cc", KIND_CHOICE, AGREES(cc), 0, 0, "delay", "delay|pm",
		"congestion control: by measured delay (after Swift), or the paper's"},
	{"proto", "cc_target_us", KIND_AUTO, DIFFERS(proto.cc_target_us), 1, 1000000, "auto", "us",
		"cc = delay: queueing delay that is accepted, and on slow links that of six "
		"frames; auto: 15, over DPDK's virtual devices 25, "
		"over the link udp or several links 200"},
	{"proto", "share_target_us", KIND_AUTO, DIFFERS(proto.share_target_us), 0, 1000000, "auto",
		"us",
		"queueing delay that all senders to this node may cause together; 0 = no window "
		"shares; auto: 4, over the link udp 200"},
	{"proto", "window", KIND_U32, AGREES(proto.window_frames), 1, WIRE_WINDOW_MAX, "512",
		"frames", "most frames of one flow between expected and newest"},
	{"proto", "path_frames", KIND_U32, AGREES(proto.path_frames), 1, 65535, "1024", "frames",
		"most frames in flight to one node (PM-ADV)"},
	{"proto", "path_bytes", KIND_U32, AGREES(proto.path_bytes), 256, 1u << 30, "4194304",
		"bytes", "most bytes in flight to one node (PM-ADV)"},
	{"proto", "rto_min_us", KIND_U32, AGREES(proto.rto_min_us), 10, 1000000, "4000", "us",
		"shortest wait for an Ack before sending again"},
	{"proto", "rto_max_us", KIND_U32, AGREES(proto.rto_max_us), 1000, 60000000, "500000", "us",
		"longest such wait"},
	{"proto", "retries", KIND_U32, AGREES(proto.retries), 1, 100, "16", "timeouts",
		"unanswered timeouts before a send ends in an error"},
	{"proto", "hello_ms", KIND_U32, AGREES(hello_ms), 10, 4000000, "1000", "ms",
		"silence of a node that is asked for the first time, after which a send to it ends "
		"with an error"},
	{"proto", "ack_delay_us", KIND_U32, AGREES(proto.ack_delay_us), 0, 100000, "25", "us",
		"longest wait of an Ack for data to ride on"},
	{"proto", "ack_every", KIND_AUTO, DIFFERS(proto.ack_every), 1, 256, "auto", "frames",
		"frames received before an Ack goes at once; auto: 32, over the link udp 64"},
	{"proto", "keepalive_ms", KIND_U32, AGREES(keepalive_ms), 0, 4000000, "1000", "ms",
		"silence of a peer in use before it is asked; 0 = never"},
	{"proto", "flow_idle_ms", KIND_U32, AGREES(flow_idle_ms), 10, 4000000, "60000", "ms",
		"silence after which a flow is forgotten"},
	{"proto", "checksum", KIND_BOOL, DIFFERS(checksum), 0, 0, "off", "on|off",
		"CRC32C over header and payload; the same on all nodes"},
	{"limits", "contexts", KIND_U32, AGREES(contexts), 1, 1024, "64", "contexts",
		"endpoints of this node; their channels exist from the start"},
	{"limits", "resident", KIND_U32, AGREES(resident), 0, 1024, "0", "contexts",
		"of these, how many have packet buffers at once; the others are of jobs that are "
		"parked (pmx-ctl park); 0: all"},
	{"limits", "nodes", KIND_U32, AGREES(nodes_max), 1, WIRE_NODES_MAX, "1024", "nodes",
		"node numbers are below this"},
	{"limits", "peers", KIND_U32, AGREES(proto.paths_max), 1, WIRE_NODES_MAX, "256", "nodes",
		"peer nodes at once"},
	{"limits", "flows", KIND_U32, AGREES(proto.flows_max), 1, 1u << 20, "4096", "flows",
		"pairs of contexts that talk at once, for each lcore"},
	{"limits", "context_flows", KIND_U32, AGREES(proto.context_flows), 1, 1u << 20, "1024",
		"flows",
		"most of one context for each kind of message (plain, matched, remote memory), so "
		"that one that sends to all of the world leaves some for others; what would need "
		"more waits"},
	{"limits", "mbufs", KIND_AUTO, AGREES(mbufs), 256, 1u << 22, "auto", "buffers",
		"packet buffers of the node, each as large as the longest frame; auto: enough for "
		"limits.resident contexts (0: limits.contexts) with all their buffers, as far as "
		"the EAL's memory (-m) goes"},
	{"limits", "send_buffers", KIND_U32, AGREES(send_buffers), 1, 32768, "256", "buffers",
		"of one context, unless it asks for less; also the most that one may have"},
	{"limits", "receive_buffers", KIND_U32, AGREES(receive_buffers), 1, 1u << 20, "512",
		"buffers",
		"that one context's received messages may hold, unless it asks for another number"},
	{"limits", "submissions", KIND_U32, AGREES(submissions), 4, 32768, "512", "slots",
		"submission ring of a context, power of two"},
	{"limits", "lhs_entries", KIND_U32, AGREES(lhs_entries), 1, 1u << 20, "1024", "entries",
		"LHS ring of a context, power of two"},
	{"limits", "lhs_entry_bytes", KIND_U32, AGREES(lhs_entry_bytes), 64, 128, "64", "bytes",
		"size of an LHS entry: 64 or 128"},
	{"limits", "lhs_split", KIND_U32, AGREES(lhs_split), 0, 104, "40", "bytes",
		"first bytes of a message that its entry holds: at most lhs_entry_bytes - 24"},
	{"limits", "lhs_size_offset", KIND_U32, AGREES(lhs_size_offset), 4, 124, "4", "bytes",
		"place of the size field in an LHS entry: 4, or behind the front part"},
	{"limits", "transfers", KIND_U32, AGREES(transfers), 2, 512, "64", "transfers",
		"remote memory transfers of one context under way"},
	{"limits", "requests", KIND_U32, AGREES(requests), 2, 65535, "512", "transfers",
		"of others, that wait for one context's answer; also frames in flight to it"},
	{"limits", "regions", KIND_U32, AGREES(regions), 1, 65535, "1024", "regions",
		"of memory that others may reach, of all contexts of an lcore"},
	{"limits", "transfer_frames", KIND_U32, AGREES(transfer_frames), 16, 65535, "256", "frames",
		"of transfers in flight, for each lcore; a packet buffer each"},
	{"limits", "events", KIND_U32, AGREES(events), 1, 32768, "256", "events",
		"notifications that wait for one context, power of two"},
	{"limits", "pin_cache", KIND_BOOL, DIFFERS(pin_cache), 0, 0, "on", "on|off",
		"memory of transfers stays pinned after its use; off: pinned and unpinned each "
		"time"},
	{"limits", "pin_watch", KIND_BOOL, DIFFERS(pin_watch), 0, 0, "on", "on|off",
		"be told by the kernel (userfaultfd) when pinned memory is unmapped; needs root or "
		"vm.unprivileged_userfaultfd = 1"},
	{"limits", "pin_bytes", KIND_U32, DIFFERS(pin_bytes), 4096, UINT32_MAX, "268435456",
		"bytes", "most that the pin-down cache of one process keeps pinned"},
	{"limits", "pin_entries", KIND_U32, DIFFERS(pin_entries), 1, 1u << 20, "1024", "regions",
		"... in how many pieces"},
	{"limits", "shared_bytes", KIND_U32, DIFFERS(shared_bytes), 0, UINT32_MAX, "1073741824",
		"bytes",
		"most memory of one thin client that the engine maps beside its channel: by "
		"pmx_alloc and PMX_ADOPT"},
	{"limits", "matched_entries", KIND_U32, AGREES(matched_entries), 2, 1u << 20, "1024",
		"entries", "LHS ring of a context's matched messages (pmx_isend), power of two"},
	{"limits", "matched_buffers", KIND_U32, AGREES(matched_buffers), 1, 1u << 20, "256",
		"buffers",
		"that those of one context may hold until they are received; at most half of its "
		"receive_buffers"},
	{"limits", "unexpected", KIND_U32, DIFFERS(unexpected), 1, 1u << 24, "65536", "messages",
		"that came before their receive, of one context; more wait in the ring and with "
		"their senders"},
	{"limits", "unexpected_bytes", KIND_U32, DIFFERS(unexpected_bytes), 0, UINT32_MAX,
		"67108864", "bytes",
		"of them that are copied off their buffers, of one context, when buffers run "
		"short"},
	{"limits", "receives", KIND_U32, DIFFERS(receives), 1, 1u << 20, "4096", "requests",
		"isends and irecvs of one context that did not end; irecvs leave a 64th of them, "
		"at most 64, to isends"},
	{"limits", "groups", KIND_U32, AGREES(groups), 1, GROUPS_OF_CONTEXT, "16", "groups",
		"that one context may be in"},
	{"limits", "group_members", KIND_U32, AGREES(group_members), 1, WIRE_GROUP_MEMBERS_MAX,
		"1024", "members", "of one group"},
	{"limits", "group_locks", KIND_U32, AGREES(group_locks), 1, WIRE_GROUP_LOCKS_MAX, "64",
		"locks", "of one group"},
	{"limits", "group_regions", KIND_U32, AGREES(group_regions), 1, WIRE_GROUP_REGIONS_MAX,
		"64", "regions", "of one group, that its members can share"},
	{"limits", "collectives", KIND_U32, AGREES(collectives), 1, COLLS_OF_CONTEXT, "16",
		"collectives", "of one context that run at once"},
	{"limits", "message_max", KIND_U32, AGREES(message_max), 64, WIRE_MESSAGE_MAX, "8388608",
		"bytes", "longest message, as far as send_buffers and receive_buffers allow"},
	{"access", "socket", KIND_TEXT, DIFFERS(socket), TEXT(config, socket), "", "path",
		"where thin clients attach; empty: /run/pmx-dpdk/NAME.sock "
		"($XDG_RUNTIME_DIR/pmx-dpdk/NAME.sock if not root runs it), off: nowhere"},
	{"access", "owner", KIND_TEXT, DIFFERS(socket_owner), TEXT(config, socket_owner), "",
		"user", "the socket's, by name or number; empty: who runs the primary"},
	{"access", "group", KIND_TEXT, DIFFERS(socket_group), TEXT(config, socket_group), "",
		"group", "the socket's, by name or number; empty: that of who runs the primary"},
	{"access", "mode", KIND_TEXT, DIFFERS(socket_mode), TEXT(config, socket_mode), "", "octal",
		"the socket's: who may write to it may attach, and look at the node by pmx-ctl; "
		"empty: 0600, or 0660 if `group` is given"},
	{"access", "user_contexts", KIND_U32, DIFFERS(user_contexts), 0, WIRE_CONTEXTS_MAX, "0",
		"contexts",
		"most of one user who is neither root nor the primary's, at once; 0: all, but "
		"where `mode` lets a group or others in the last free eighth is for those who have "
		"less than an eighth"},
	{"access", "direct", KIND_CHOICE, DIFFERS(direct), 0, 0, "user", "user|off",
		"messages between applications of one user by memory that both map"},
	{"discovery", "listen", KIND_TEXT, DIFFERS(discovery_listen),
		TEXT(config, discovery_listen), "0.0.0.0:18514", "address:port",
		"own address for discovery, by the kernel's UDP"},
	{"discovery", "seed", KIND_TEXT, DIFFERS(discovery_seed), TEXT(config, discovery_seed), "",
		"hosts",
		"nodes to ask who else is there, HOST or HOST:PORT with commas between; the same "
		"line may be given to all nodes"},
	{"discovery", "name", KIND_TEXT, DIFFERS(discovery_name), TEXT(config, discovery_name), "",
		"name", "by which other nodes know this one; empty: the host's"},
	{"discovery", "cluster", KIND_TEXT, DIFFERS(discovery_cluster),
		TEXT(config, discovery_cluster), "", "name",
		"nodes of another cluster are left alone; no secret"},
	{"security", "mode", KIND_CHOICE, AGREES(security), 0, 0, "off", "off|auth|seal",
		"frames between nodes: as they are; authenticated; also encrypted. The same on all "
		"nodes"},
	{"security", "key", KIND_TEXT, LIVE(security_key), TEXT(config, security_key), "", "file",
		"this node's secret key: pmx-ctl key generate; empty: made from cluster's, so that "
		"each node has the others' as well"},
	{"security", "cluster", KIND_TEXT, LIVE(security_cluster), TEXT(config, security_cluster),
		"", "file",
		"a secret that all nodes share: pmx-ctl key generate --kind cluster; without key "
		"it is all that they need"},
	{"security", "authority", KIND_TEXT, LIVE(security_authority),
		TEXT(config, security_authority), "", "key",
		"public key of who certifies nodes, or a file with it; empty: [nodes] has the key "
		"of each"},
	{"security", "certificate", KIND_TEXT, LIVE(security_certificate),
		TEXT(config, security_certificate), "", "file",
		"this node's certificate: pmx-ctl key certify"},
	{"security", "revoked", KIND_TEXT, LIVE(security_revoked), TEXT(config, security_revoked),
		"", "file", "keys that are refused whatever certifies them: pmx-ctl key revoke"},
	{"contexts", "uid", KIND_TEXT, OF_RANGE(uid), TEXT(config_range, uid), "", "users",
		"who may open these as a thin client, and no other contexts, by names or numbers "
		"with commas between"},
	{"contexts", "gid", KIND_TEXT, OF_RANGE(gid), TEXT(config_range, gid), "", "groups",
		"the same by their groups; both empty: whoever may open the socket and is named by "
		"no other range"},
	{"contexts", "send_buffers", KIND_U32, OF_RANGE(send_buffers), 0, 32768, "0", "buffers",
		"most of one context; 0: limits.send_buffers"},
	{"contexts", "receive_buffers", KIND_U32, OF_RANGE(receive_buffers), 0, 1u << 20, "0",
		"buffers",
		"most of one context, and its default; 0: limits.receive_buffers is the default"},
	{"contexts", "lhs_entries", KIND_U32, OF_RANGE(lhs_entries), 0, 1u << 20, "0", "entries",
		"most messages of one context that landed and were not received; 0: "
		"limits.lhs_entries, and matched_entries for matched ones"},
	{"contexts", "burst", KIND_U32, OF_RANGE(burst), 0, 64, "0", "submissions",
		"share of the engine's time: most that one turn takes of one context; 0: "
		"engine.burst"},
	{"contexts", "pin_bytes", KIND_U32, OF_RANGE(pin_bytes), 0, UINT32_MAX, "0", "bytes",
		"of one context's pin-down cache; 0: limits.pin_bytes"},
	{"contexts", "shared_bytes", KIND_U32, OF_RANGE(shared_bytes), 0, UINT32_MAX, "0", "bytes",
		"of one context; 0: limits.shared_bytes"},
};

const size_t node_config_key_count = sizeof(node_config_keys) / sizeof(node_config_keys[0]);

void
node_config_print_doc(FILE *out)
{
	const char *section = "";

	for (size_t i = 0; i < node_config_key_count; i++) {
		const struct config_key *k = &node_config_keys[i];

		if (strcmp(section, k->section) != 0) {
			section = k->section;
			fprintf(out,
				"\n## [%s%s]\n\n"
				"| key | default | unit or values | range | reload | meaning |\n"
				"|---|---|---|---|---|---|\n",
				section,
				strcmp(section, "link") == 0               ? " 0] .. [link 3"
					: strcmp(section, "contexts") == 0 ? " FIRST-LAST"
									   : "");
		}
		fprintf(out, "| `%s` | %s | ", k->name,
			k->fallback == NULL    ? "must be given"
				: *k->fallback ? k->fallback
					       : "(empty)");
		for (const char *s = k->unit; *s; s++)
			fprintf(out, "%s%c", *s == '|' ? "\\" : "", *s);
		if (k->kind == KIND_U32 || k->kind == KIND_U16 || k->kind == KIND_AUTO)
			fprintf(out, " | %llu .. %llu", (unsigned long long)k->min,
				(unsigned long long)k->max);
		else
			fprintf(out, " | ");
		fprintf(out, " | %s | %s |\n", k->rules & RULE_LIVE ? "yes" : "", k->help);
	}
}

static size_t
value_bytes(const struct config_key *k, const char *at)
{
	switch (k->kind) {
	case KIND_BOOL:
		return sizeof(bool);
	case KIND_U16:
		return sizeof(uint16_t);
	case KIND_TEXT:
	case KIND_NAME:
	case KIND_DRIVER:
		return strlen(at) + 1;
	case KIND_U32:
	case KIND_AUTO:
	case KIND_CHOICE:
		break;
	case KIND_NETWORK:
		return sizeof(struct link_net);
	}
	return sizeof(uint32_t);
}

void
node_config_agreed(const struct config *c, void (*value)(void *arg, const void *bytes, size_t len),
	void *arg)
{
	for (size_t i = 0; i < node_config_key_count; i++) {
		const struct config_key *k = &node_config_keys[i];
		const char *at = (const char *)c + k->offset;

		if (k->rules & RULE_AGREES)
			value(arg, at, value_bytes(k, at));
	}
}

/* Return whether a key of some section has the same value in both. */
static bool
is_same(const struct config_key *k, const void *before, const void *after)
{
	const char *a = (const char *)before + k->offset, *b = (const char *)after + k->offset;
	const size_t len = value_bytes(k, a);

	return len == value_bytes(k, b) && memcmp(a, b, len) == 0;
}

bool
node_config_may_become(const struct config *before, const struct config *after, char *error,
	uint32_t error_len)
{
	for (size_t i = 0; i < node_config_key_count; i++) {
		const struct config_key *k = &node_config_keys[i];
		const bool of_link = strcmp(k->section, "link") == 0;

		if (k->rules & RULE_LIVE || strcmp(k->section, "contexts") == 0)
			continue;
		for (unsigned l = 0; l < (of_link ? CONFIG_LINKS_MAX : 1); l++) {
			if (of_link ? is_same(k, &before->links[l], &after->links[l])
				    : is_same(k, before, after))
				continue;
			snprintf(error, error_len,
				"[%s%s%.*u] %s differs: it cannot change in a running node, so "
				"start another primary (--take-over), or take it back",
				k->section, of_link ? " " : "", of_link, l, k->name);
			return false;
		}
	}
	if (before->range_count == after->range_count &&
		memcmp(before->ranges, after->ranges, sizeof(before->ranges)) == 0)
		return true;
	snprintf(error, error_len, "[contexts]: ranges cannot change in a running node");
	return false;
}
