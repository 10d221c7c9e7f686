/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Values that are derived from a configuration. Pure functions, except for config_socket_path() and
 * config_found_path(), which use the process's user and environment.
 */
#include <stdio.h>
#include <stdlib.h>

#include "channel/instance.h"
#include "config/config.h"
#include "core/wire/wire.h"

void
config_free(struct config *c)
{
	free(c->peers);
	c->peers = NULL;
}

const struct config_range *
config_range(const struct config *c, uint32_t ctx)
{
	for (uint32_t i = 0; i < c->range_count; i++) {
		if (ctx >= c->ranges[i].first && ctx <= c->ranges[i].last)
			return &c->ranges[i];
	}
	return NULL;
}

void
config_socket_path(const struct config *c, char *out, size_t size)
{
	char dir[RUN_DIR_MAX];

	run_dir(dir, sizeof(dir));
	if (*c->socket)
		snprintf(out, size, "%s", c->socket);
	else
		snprintf(out, size, "%s/%s.sock", dir, c->name);
}

void
config_found_path(const struct config *c, char *out, size_t size)
{
	char dir[RUN_DIR_MAX];

	run_dir(dir, sizeof(dir));
	snprintf(out, size, "%s/%s.nodes", dir, c->name);
}

void
config_made_up_mac(uint32_t node, struct rte_ether_addr *mac)
{
	*mac = (struct rte_ether_addr){{0x02, 0x50, 0x4D, 0, (uint8_t)(node >> 8), (uint8_t)node}};
}

uint32_t
config_encap_bytes(enum link_encap encap)
{
	static const uint32_t bytes[] = {
		[LINK_ENCAP_ETHER] = 14,
		[LINK_ENCAP_VLAN] = 18,
		[LINK_ENCAP_UDP] = 42,
		[LINK_ENCAP_NONE] = 0,
	};

	return bytes[encap];
}

uint32_t
config_seal_bytes(const struct config *c)
{
	return c->security != SEAL_OFF ? SEAL_TRAILER_BYTES : 0;
}

uint32_t
config_payload_max(const struct config *c)
{
	const uint32_t seal = config_seal_bytes(c);
	uint32_t payload = WIRE_PAYLOAD_MAX;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		const struct link_config *l = &c->links[i].link;

		if (!c->links[i].used)
			continue;
		uint32_t head = config_encap_bytes(l->encap), ether = head >= 14 ? 14 : 0;
		uint32_t room = l->mtu - (head - ether) - WIRE_HDR_BYTES - seal;

		payload = room < payload ? room : payload;
	}
	return payload & ~7u;
}

uint32_t
config_link_count(const struct config *c)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++)
		n += c->links[i].used;
	return n;
}
