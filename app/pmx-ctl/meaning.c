/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Units and meanings of counters. These come from the tables of the counters (engine_counter_info,
 * proto_counter_info); only what telemetry adds is described here.
 */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "engine/lane.h"

/* Values of /pmx/info, and those of links in /pmx/drops, without their prefix "linkN_". */
static const struct proto_counter_info more[] = {
	{"version", "", "of pmx-dpdk"},
	{"name", "", "node.name, the instance"},
	{"node", "number", "node.id"},
	{"lanes", "lcores", "engine.lanes"},
	{"numa", "",
		"NUMA node of each lane's CPU: of its memory too, unless the log says otherwise"},
	{"numa_mbufs", "", "NUMA node where the packet buffers are"},
	{"idle", "", "engine.idle"},
	{"driver", "", "of link 0"},
	{"dpdk_port", "", "1: link 0 is a port of DPDK, which can be captured"},
	{"port", "", "of link 0"},
	{"link_up", "", "1: link 0 has a carrier"},
	{"mtu", "bytes", "longest frame of link 0 behind the Ethernet header"},
	{"payload_max", "bytes", "payload of a frame that every link carries"},
	{"contexts", "contexts", "limits.contexts"},
	{"mbufs", "buffers", "limits.mbufs"},
	{"mbufs_free", "buffers", "in the pool now"},
	{"mbufs_unpromised", "buffers", "not promised to contexts or queues"},
	{"flows", "flows", "pairs of contexts that talk now"},
	{"rx_no_mbuf", "frames", "lost by the link: no mbuf was free"},
	{"rx_too_long", "frames", "lost by the link: longer than an mbuf"},
	{"tx_refused", "frames", "not taken by the port; the protocol sends them again"},
	{"faults", "frames", "dropped, doubled, delayed or changed by link.fault"},
};

static const struct proto_counter_info *
meaning_find(const struct proto_counter_info *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}

/* Return the unit and meaning of a counter by its name in telemetry, where counters of the protocol
 * begin with "proto_", except for drops. */
struct meaning
counter_meaning(const char *name)
{
	const struct proto_counter_info *c;
	const size_t more_count = sizeof(more) / sizeof(more[0]);
	bool proto = strncmp(name, "proto_", 6) == 0;
	unsigned link;
	int skip = 0;

	if (proto || strncmp(name, "drop_", 5) == 0) {
		c = meaning_find(proto_counter_info, PROTO_COUNTER_COUNT, name + (proto ? 6 : 0));
		if (c != NULL)
			return (struct meaning){c->unit, c->help};
	}
	c = meaning_find(engine_counter_info, ENGINE_COUNTER_COUNT, name);
	if (c == NULL && sscanf(name, "link%u_%n", &link, &skip) == 1 && skip > 0)
		c = meaning_find(more, more_count, name + skip);
	if (c == NULL)
		c = meaning_find(more, more_count, name);
	if (c != NULL)
		return (struct meaning){c->unit, c->help};
	return (struct meaning){"", "(of another version than this pmx-ctl)"};
}
