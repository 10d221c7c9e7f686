/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses of peers as text: for the configuration, the udp driver and telemetry.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

bool
whole_number(const char *text, uint32_t max, uint32_t *out)
{
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > 10 || text[digits] != '\0' || (*text == '0' && digits > 1))
		return false;
	unsigned long long v = strtoull(text, NULL, 10);

	if (v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

/* "IPv6" or "IPv6%interface" */
static int
parse_ip6(const char *text, struct link_addr *addr)
{
	char ip[INET6_ADDRSTRLEN];
	size_t len = strcspn(text, "%");
	struct in6_addr ip6;
	uint32_t zone = 0;

	if (len >= sizeof(ip))
		return -EINVAL;
	snprintf(ip, sizeof(ip), "%.*s", (int)len, text);
	/* an IPv4-mapped address would go to IPv4 sockets: it has to be written as IPv4 */
	if (inet_pton(AF_INET6, ip, &ip6) != 1 || IN6_IS_ADDR_V4MAPPED(&ip6) ||
		(text[len] == '%' && !IN6_IS_ADDR_LINKLOCAL(&ip6)))
		return -EINVAL;
	if (text[len] == '%' && (zone = if_nametoindex(text + len + 1)) == 0 &&
		(!whole_number(text + len + 1, INT32_MAX, &zone) || zone == 0))
		return -ENODEV;
	addr->v6 = true;
	memcpy(addr->ip6, &ip6, sizeof(addr->ip6));
	addr->zone = zone;
	return 0;
}

static int
parse_ip4(const char *text, struct link_addr *addr)
{
	struct in_addr ip;

	if (inet_pton(AF_INET, text, &ip) != 1)
		return -EINVAL;
	addr->v6 = false;
	addr->ip = ntohl(ip.s_addr);
	return 0;
}

int
link_addr_parse(const char *text, struct link_addr *addr)
{
	struct link_addr found = *addr;
	bool bracket = *text == '[';
	/* without brackets, an IPv6 address has no port: it could not be told from the last
	 * group */
	const char *colon = bracket ? strchr(text, ']') : strchr(text, ':');
	char ip[LINK_ADDR_MAX];
	uint32_t port = addr->port;
	int e;

	if (bracket) {
		if (colon++ == NULL || (*colon != ':' && *colon != '\0'))
			return -EINVAL;
	} else if (colon == NULL || strchr(colon + 1, ':') != NULL) {
		colon = text + strlen(text);
	}
	if (*colon == ':' && !whole_number(colon + 1, UINT16_MAX, &port))
		return -EINVAL;
	size_t len = (size_t)(colon - text) - 2 * bracket;

	if (len >= sizeof(ip))
		return -EINVAL;
	snprintf(ip, sizeof(ip), "%.*s", (int)len, text + bracket);
	e = bracket || strchr(ip, ':') != NULL ? parse_ip6(ip, &found) : parse_ip4(ip, &found);
	if (e != 0)
		return e;
	found.port = (uint16_t)port;
	*addr = found;
	return *colon == ':';
}

void
link_addr_text(const struct link_addr *addr, char *out)
{
	char ip[INET6_ADDRSTRLEN], zone[IF_NAMESIZE + 1] = "";
	const struct in_addr ip4 = {htonl(addr->ip)};

	if (!addr->v6) {
		snprintf(out, LINK_ADDR_MAX, "%s:%u", inet_ntop(AF_INET, &ip4, ip, sizeof(ip)),
			addr->port);
		return;
	}
	if (addr->zone != 0) {
		zone[0] = '%';
		if (if_indextoname(addr->zone, zone + 1) == NULL)
			snprintf(zone + 1, IF_NAMESIZE, "%u", addr->zone);
	}
	/* the longest one is 39 + 16 characters and "[]:65535", because a link-local address
	 * contains no IPv4 */
	snprintf(out, LINK_ADDR_MAX, "[%.39s%s]:%u", inet_ntop(AF_INET6, addr->ip6, ip, sizeof(ip)),
		zone, addr->port);
}
