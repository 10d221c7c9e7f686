/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks whether a node with this configuration would start. node_config_check() is called when a
 * configuration is read; node_config_check_start(), which also knows the host and the EAL
 * arguments, by pmx-dpdk before its EAL starts, at a start as well as by --check, so that both have
 * the same result. Opens and allocates nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/un.h>

#include "channel/channel.h"
#include "handshake/handshake.h"
#include "node/check.h"
#include "node/sizes.h"

#define MIB(bytes) (((bytes) + (1u << 20) - 1) >> 20)

static __attribute__((format(printf, 4, 5))) int
refuse(struct config_fault *f, const char *section, const char *key, const char *fmt, ...)
{
	va_list args;

	snprintf(f->section, sizeof(f->section), "%s", section);
	snprintf(f->key, sizeof(f->key), "%s", key ? key : "");
	va_start(args, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, args);
	va_end(args);
	return -1;
}

/* ------------------------------------------------------------------ links and addresses */

/* Return whether two links use the same port, by the driver's name of it. */
static bool
same_port(const struct link_config *a, const struct link_config *b)
{
	const struct link_ops *ops = link_driver(a->driver);

	return ops == link_driver(b->driver) && ops->clashes != NULL && ops->clashes(a, b);
}

static int
check_link(const struct config *c, unsigned i, struct config_fault *f)
{
	const struct link_config *l = &c->links[i].link;
	char section[16], why[LINK_ERROR_MAX];

	snprintf(section, sizeof(section), "link %u", i);
	if (i > 0 && !c->links[i - 1].used)
		return refuse(f, section, NULL, "without [link %u]: number links from 0", i - 1);
	if (link_check(l, why, sizeof(why)) != 0)
		return refuse(f, section, NULL, "%s", why);
	if (l->encap == LINK_ENCAP_UDP && l->net.ip == 0)
		return refuse(f, section, "ip",
			"with encap = udp the own address must be given: ip = IPv4/bits");
	for (unsigned k = 0; k < i; k++) {
		if (same_port(l, &c->links[k].link))
			return refuse(f, section, NULL, "has the same port as [link %u]", k);
	}
	return 0;
}

/* Check that a peer's address on a link fits that link. */
static int
check_peer(const struct config *c, uint32_t node, const struct config_peer *peer, uint32_t link,
	struct config_fault *f)
{
	const struct link_addr *addr = &peer->addr[link];
	const struct link_config *l = &c->links[link].link;
	const enum link_peers peers = link_peers(l);
	bool sockets = peers == LINK_PEERS_IP, by_ip = link_by_ip(l);
	char name[16];

	snprintf(name, sizeof(name), "%u", node);
	if (!c->links[link].used)
		return refuse(f, "nodes", name, "[link %u] does not exist", link);
	if (peers == LINK_PEERS_NONE)
		return 0;
	if (by_ip && addr->ip == 0 && !addr->v6)
		return refuse(f, "nodes", name,
			"is reached over [link %u], %s: give its %s address, as 10.0.0.2 or "
			"10.0.0.2:18515",
			link, sockets ? "driver = udp" : "encap = udp", sockets ? "IP" : "IPv4");
	if (l->encap == LINK_ENCAP_UDP && !link_is_near(&l->net, addr->ip) &&
		rte_is_zero_ether_addr(&addr->mac) && l->gateway.ip == 0 &&
		rte_is_zero_ether_addr(&l->gateway.mac))
		return refuse(f, "nodes", name,
			"is outside the network of [link %u] ip, and no router is known: give "
			"link.gateway = IPv4",
			link);
	if (by_ip && addr->port == 0)
		return refuse(f, "nodes", name, "port 0 is nobody's");
	if (!by_ip && (addr->ip != 0 || addr->v6))
		return refuse(f, "nodes", name,
			"is reached over [link %u], encap = %s: give its MAC address, or auto",
			link, l->encap == LINK_ENCAP_VLAN ? "vlan" : "ether");
	return 0;
}

int
node_config_check_peer(const struct config *c, uint32_t node, const struct config_peer *peer,
	struct config_fault *f)
{
	for (uint32_t left = peer->links; left != 0; left &= left - 1) {
		if (check_peer(c, node, peer, (uint32_t)__builtin_ctz(left), f) != 0)
			return -1;
	}
	return 0;
}

static int
check_peers(const struct config *c, struct config_fault *f)
{
	for (uint32_t i = 0; i < c->nodes_max; i++) {
		/* the node's own line is not used */
		if (i != c->id && node_config_check_peer(c, i, &c->peers[i], f) != 0)
			return -1;
	}
	return 0;
}

static int
check_discovery(const struct config *c, struct config_fault *f)
{
	struct link_addr listen = {0};
	const int e = link_addr_parse(c->discovery_listen, &listen);

	if (e != 1 || listen.port == 0)
		return refuse(f, "discovery", "listen",
			"'%s' is not address:port, as 0.0.0.0:18514 or [::]:18514",
			c->discovery_listen);
	if (*c->discovery_name != 0 && !channel_name_ok(c->discovery_name))
		return refuse(f, "discovery", "name",
			"'%s' is no name: up to %d letters, digits, '.', '-', '_', with a letter",
			c->discovery_name, ATTACH_NAME_MAX - 1);
	return 0;
}

static int
check_security(const struct config *c, struct config_fault *f)
{
	char name[16];

	if (c->security == SEAL_OFF)
		return 0;
	if (*c->security_key == 0 && *c->security_cluster == 0)
		return refuse(f, "security", NULL,
			" mode = %s needs cluster, one secret of all nodes (pmx-ctl key generate "
			"FILE --kind cluster), or key, a secret of each (pmx-ctl key generate "
			"FILE)",
			c->security == SEAL_AUTH ? "auth" : "seal");
	if (config_payload_max(c) < HANDSHAKE_MESSAGE_MAX)
		return refuse(f, "security", "mode",
			"needs frames of %zu bytes of payload, for handshakes: raise link.mtu",
			HANDSHAKE_MESSAGE_MAX);
	for (uint32_t i = 0;
		i < c->nodes_max && *c->security_authority == 0 && *c->security_key != 0; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (i != c->id && c->peers[i].links != 0 && !c->peers[i].has_key)
			return refuse(f, "nodes", name,
				"has no key: give its public key, key=KEY, or security.authority "
				"that certifies the nodes");
	}
	return 0;
}

int
node_config_check(const struct config *c, struct config_fault *f)
{
	char path[256];

	if (!c->links[0].used && !c->links[1].used && !c->links[2].used && !c->links[3].used)
		return refuse(f, "link 0", NULL, "is missing: a node has one link at least");
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		if (c->links[i].used && check_link(c, i, f) != 0)
			return -1;
	}
	if (check_peers(c, f) != 0 || check_discovery(c, f) != 0 || check_security(c, f) != 0)
		return -1;
	uint32_t buffers = node_config_link_buffers(c);

	if (c->mbufs != 0 && c->mbufs < buffers + 2)
		return refuse(f, "limits", "mbufs",
			"%u is too few: the links' queues alone take %u; raise it, or lower "
			"link.rx_descriptors and link.tx_descriptors",
			c->mbufs, buffers);
	const struct channel_geometry g = node_config_geometry(c);

	if (!lhs_config_ok(&g.lhs) || !lhs_config_ok(&g.matched))
		return refuse(f, "limits", "lhs_entries", "limits.lhs_* do not go together");
	struct config sized = *c;

	sized.mbufs = c->mbufs ? c->mbufs : node_config_buffers_wanted(c);
	if (node_config_core_bytes(&sized) == 0)
		return refuse(f, "limits", "flows", "limits and [proto] do not go together");
	if (strcmp(c->socket, "off") == 0)
		return 0;
	config_socket_path(c, path, sizeof(path));
	if (*path != '/')
		return refuse(f, "access", "socket",
			"'%s' is neither off nor a path that begins with /", path);
	/* the socket is made as PATH.new */
	if (strlen(path) + 5 > sizeof(((struct sockaddr_un *)0)->sun_path))
		return refuse(f, "access", "socket", "%s: longer than %zu bytes", path,
			sizeof(((struct sockaddr_un *)0)->sun_path) - 5);
	return 0;
}

/* ------------------------------------------------------------------ with the host */

static int
check_memory(const struct config *c, const struct config_host *h, char *error, uint32_t len)
{
	struct config sized = *c;
	struct config_memory m;
	int n;

	sized.mbufs = c->mbufs ? c->mbufs : node_config_buffers_least(c);
	node_config_memory(&sized, h->page_bytes, &m);
	if (m.all <= h->memory_free)
		return 0;
	/* memory that others use now may be free at the next attempt */
	bool never = m.all > h->memory_most;

	n = snprintf(error, len,
		"the node needs %" PRIu64 " MiB of %s: %" PRIu64 " for limits.mbufs = %u, %" PRIu64
		" for the channels of limits.contexts = %u, %" PRIu64
		" for the protocol (limits.flows, peers), %" PRIu64 " for the rest; ",
		MIB(m.all), h->memory_of, MIB(m.mbufs), sized.mbufs, MIB(m.channels), c->contexts,
		MIB(m.cores), MIB(m.rest));
	if (n < 0 || (uint32_t)n >= len)
		return -EINVAL;
	if (never)
		snprintf(error + n, len - (uint32_t)n,
			"there are %" PRIu64 ". Lower the limits, or %s", h->memory_most >> 20,
			h->memory_more);
	else
		snprintf(error + n, len - (uint32_t)n,
			"of %" PRIu64 " only %" PRIu64 " are free now", h->memory_most >> 20,
			h->memory_free >> 20);
	return never ? -EINVAL : -EAGAIN;
}

int
node_config_check_start(const struct config *c, const struct config_host *h, char *error,
	uint32_t len)
{
	uint64_t descriptors = node_config_descriptors(c) + h->page_files;

	if (h->lcores < c->lanes) {
		snprintf(error, len,
			"engine.lanes = %u, but the EAL has %u lcores: give it more with -l",
			c->lanes, h->lcores);
		return -EINVAL;
	}
	int result = check_memory(c, h, error, len);

	if (result == 0 && descriptors > h->descriptors) {
		snprintf(error, len,
			"limits.contexts = %u and %" PRIu64 " hugepages take %" PRIu64
			" descriptors, but this process may have %" PRIu64
			": raise ulimit -n, or lower them",
			c->contexts, h->page_files, descriptors, h->descriptors);
		return -EINVAL;
	}
	return result;
}
