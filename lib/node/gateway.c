/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads link.gateway: the router to peers outside the network of link.ip.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/gateway.h"

#define ROUTES     "/proc/net/route"
#define TO_GATEWAY 0x2u /* RTF_GATEWAY of linux/route.h */

/* Return the router of the kernel's default route that lies in that network and has the least
 * metric, or 0. */
static uint32_t
kernels_router(const struct link_net *net)
{
	FILE *f = fopen(ROUTES, "r");
	char line[256];
	uint32_t to, via, flags, metric, mask, best = 0, best_metric = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line,
			    "%*s %" SCNx32 " %" SCNx32 " %" SCNx32 " %*u %*u %" SCNu32 " %" SCNx32,
			    &to, &via, &flags, &metric, &mask) != 5 ||
			to != 0 || mask != 0 || !(flags & TO_GATEWAY) ||
			!link_is_near(net, ntohl(via)) || (best != 0 && metric >= best_metric))
			continue;
		best = ntohl(via);
		best_metric = metric;
	}
	if (f != NULL)
		fclose(f);
	return best;
}

int
gateway_read(struct link_config *l, char *error, size_t error_size)
{
	const char *text = l->gateway_text;
	struct link_gateway *g = &l->gateway;
	struct in_addr ip;

	*g = (struct link_gateway){0};
	if (strcmp(text, "auto") == 0) {
		if (l->net.bits != 0)
			g->ip = kernels_router(&l->net);
		return 0;
	}
	struct rte_ether_addr mac;

	if (l->encap == LINK_ENCAP_UDP && l->net.bits == 0) {
		snprintf(error, error_size,
			"is for peers outside the network, and link.ip says of none: give it as "
			"IPv4/bits");
		return -1;
	}
	if (rte_ether_unformat_addr(text, &mac) == 0 && rte_is_valid_assigned_ether_addr(&mac)) {
		g->mac = mac;
		return 0;
	}
	if (inet_pton(AF_INET, text, &ip) != 1 || ip.s_addr == 0) {
		snprintf(error, error_size,
			"'%s' is neither the IPv4 address of a router, nor its MAC address, nor "
			"auto",
			text);
		return -1;
	}
	g->ip = ntohl(ip.s_addr);
	if (link_is_near(&l->net, g->ip) && g->ip != l->net.ip)
		return 0;
	snprintf(error, error_size,
		"'%s' is %s: a router is another host of the network of link.ip", text,
		g->ip == l->net.ip ? "link.ip itself" : "outside the network of link.ip");
	return -1;
}
