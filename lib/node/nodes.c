/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads [nodes], here or in a file that several nodes share: their addresses and names.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cfgfile.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "discovery/discovery.h"
#include "keys/keys.h"
#include "node/check.h"
#include "node/config_file.h"
#include "node/reader.h"

/* rte_ether_unformat_addr() writes as it reads, and so changes its result even if the text is no
 * MAC address. So it reads into a copy. */
static bool
read_mac(const char *text, struct rte_ether_addr *out)
{
	struct rte_ether_addr mac;

	if (rte_ether_unformat_addr(text, &mac) != 0)
		return false;
	*out = mac;
	return true;
}

/* "0" or "0,1": links of this file, a bit each. 0 or -1. */
static int
read_link_list(const struct config_reader *r, const char *name, const char *text, uint32_t *links)
{
	uint32_t link;

	if (*links != 0)
		return reader_complain(r, "nodes", name, 0,
			"'link=%s': an address has one list of links", text);
	for (const char *one = text, *end; one != NULL; one = *end != 0 ? end + 1 : NULL) {
		char number[16];

		end = one + strcspn(one, ",");
		snprintf(number, sizeof(number), "%.*s", (int)(end - one), one);
		if (!whole_number(number, CONFIG_LINKS_MAX - 1, &link) ||
			!r->config->links[link].used)
			return reader_complain(r, "nodes", name, 0,
				"'link=%s': '%s' is no link of this file", text, number);
		if (*links >> link & 1)
			return reader_complain(r, "nodes", name, 0,
				"'link=%s': link %u is given twice", text, link);
		*links |= 1u << link;
	}
	return 0;
}

/* Return the number of another node that has the name, or UINT32_MAX. */
static uint32_t
who_has_name(const struct config *c, const struct config_peer *peer, const char *text)
{
	for (uint32_t i = 0; i < c->nodes_max; i++) {
		if (&c->peers[i] != peer && strcmp(c->peers[i].name, text) == 0)
			return i;
	}
	return UINT32_MAX;
}

/* Read a name by which applications find the node. No other node may have it. */
static int
read_peer_name(const struct config_reader *r, const char *name, const char *text,
	struct config_peer *peer)
{
	const uint32_t other = who_has_name(r->config, peer, text);

	if (!channel_name_ok(text))
		return reader_complain(r, "nodes", name, 0,
			"'%s' is no name: up to %d letters, digits, '.', '-', '_', with a letter",
			text, ATTACH_NAME_MAX - 1);
	if (other != UINT32_MAX)
		return reader_complain(r, "nodes", name, 0, "node %u has the name '%s'", other,
			text);
	snprintf(peer->name, sizeof(peer->name), "%s", text);
	return 0;
}

static int
read_peer_key(const struct config_reader *r, const char *name, const char *text,
	struct config_peer *peer)
{
	peer->has_key = key_from_text(text, peer->key);
	if (peer->has_key)
		return 0;
	return reader_complain(r, "nodes", name, 0,
		"key= has no public key, which is 44 characters and has no space before it: "
		"pmx-ctl key public FILE, on that node");
}

/* Read an option that follows an address: "link=N[,N...]", "mac=MAC", "name=NAME", "key=KEY". */
static int
read_peer_option(const struct config_reader *r, const char *name, const char *text, uint32_t *links,
	struct link_addr *addr, struct config_peer *peer)
{
	if (strncmp(text, "link=", 5) == 0)
		return read_link_list(r, name, text + 5, links);
	if (strncmp(text, "mac=", 4) == 0 && read_mac(text + 4, &addr->mac))
		return 0;
	if (strncmp(text, "name=", 5) == 0)
		return read_peer_name(r, name, text + 5, peer);
	if (strncmp(text, "key=", 4) == 0)
		return read_peer_key(r, name, text + 4, peer);
	if (r->found && strncmp(text, "at=", 3) == 0 && link_addr_parse(text + 3, &peer->host) >= 0)
		return 0;
	if (r->found && strncmp(text, "life=", 5) == 0 &&
		whole_number(text + 5, UINT32_MAX, &peer->generation))
		return 0;
	return reader_complain(r, "nodes", name, 0,
		"'%s' is neither link=N nor name=NAME nor key=KEY nor mac=MAC; MAC is the next "
		"hop's: the peer's, or that of the router in front of it (ip neigh)",
		text);
}

/* Read the address of the link's socket. Return false if it has none, or one that cannot be
 * read. */
static bool
socket_address(const struct link_config *l, struct link_addr *own)
{
	*own = (struct link_addr){0};
	return link_peers(l) == LINK_PEERS_IP && link_addr_parse(l->listen, own) >= 0;
}

/* Return whether peers on the link have Ethernet addresses. Then an IP address in [nodes] is where
 * discovery asks for them. */
static bool
is_asked(const struct link_config *l)
{
	return link_peers(l) == LINK_PEERS_MAC && !link_by_ip(l);
}

/* Check that a peer's address has the family of the link's socket, as those of all its peers must.
 * Faults of listen are reported when the link is opened. */
static int
check_family(const struct config_reader *r, const char *name, const char *value, uint32_t link,
	const struct link_addr *addr)
{
	const struct link_config *l = &r->config->links[link].link;
	struct link_addr own;

	if (socket_address(l, &own) && own.v6 != addr->v6)
		return reader_complain(r, "nodes", name, 0,
			"'%s' is IPv%c, and [link %u] listen = %s is IPv%c: a link has one of "
			"them; give the peer's other address, or a link of its own (link=N)",
			value, addr->v6 ? '6' : '4', link, l->listen, own.v6 ? '6' : '4');
	if (l->encap == LINK_ENCAP_UDP && addr->v6)
		return reader_complain(r, "nodes", name, 0,
			"'%s' is IPv6, which is for driver = udp; encap = udp has IPv4", value);
	return 0;
}

/* Find the address of a host by its name, with or without a port, as the system's resolver knows
 * it. Give the node the host's name if it has no other one, and no other node has it. Return 2 or
 * -1. */
static int
read_peer_host(const struct config_reader *r, const char *name, const char *where, uint32_t link,
	struct config_peer *peer, struct link_addr *addr)
{
	const struct link_config *l = &r->config->links[link].link;
	const char *colon = strchr(where, ':');
	struct link_addr own;
	const bool v6 = is_asked(l) ? r->config->discovery_listen[0] == '['
				    : socket_address(l, &own) && own.v6;
	const struct addrinfo hints = {
		.ai_family = v6 ? AF_INET6 : AF_INET,
		.ai_socktype = SOCK_DGRAM,
	};
	struct addrinfo *found;
	char host[256], text[INET6_ADDRSTRLEN];
	uint32_t port = addr->port;

	snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - where) : (int)strlen(where),
		where);
	if (colon != NULL && (!whole_number(colon + 1, UINT16_MAX, &port) || port == 0))
		return reader_complain(r, "nodes", name, 0,
			"'%s': the port is not a number from 1 to %d", where, UINT16_MAX);
	int e = getaddrinfo(host, NULL, &hints, &found);

	if (e != 0)
		return reader_complain(r, "nodes", name, 0,
			"'%s': no IPv%c address of that host: %s", where, v6 ? '6' : '4',
			gai_strerror(e));
	e = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
		NI_NUMERICHOST);
	freeaddrinfo(found);
	if (e != 0 || link_addr_parse(text, addr) != 0)
		return reader_complain(r, "nodes", name, 0, "'%s': its address cannot be used",
			where);
	addr->port = (uint16_t)port;
	if (*peer->name == 0 && who_has_name(r->config, peer, host) == UINT32_MAX)
		snprintf(peer->name, sizeof(peer->name), "%s", host);
	return 2;
}

/* Return whether the text is a host's name, with or without a port, for a link that has IP
 * addresses. */
static bool
is_host(const struct link_config *l, const char *where)
{
	char host[256];

	if (where == NULL || link_peers(l) == LINK_PEERS_NONE)
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(where, ":"), where);
	return channel_name_ok(host);
}

/* Read the address of a peer: "auto" | MAC | address[:port]. Return 0; 1: it is the own line, which
 * is not used and may name another host's interface; 2: it is an IP address, whose family
 * check_family() looks at; -1. */
static int
read_peer_address(const struct config_reader *r, uint32_t node, const char *name, const char *where,
	const char *value, uint32_t link, struct link_addr *addr)
{
	if (where && (strcmp(where, "auto") == 0 || read_mac(where, &addr->mac)))
		return 0;
	int e = where ? link_addr_parse(where, addr) : -EINVAL;
	bool host = e == -EINVAL && is_host(&r->config->links[link].link, where);

	if (node == r->config->id && (e >= 0 || e == -ENODEV || host))
		return 1;
	if (host)
		return read_peer_host(r, name, where, link, &r->config->peers[node], addr);
	if (e == -ENODEV)
		return reader_complain(r, "nodes", name, 0, "'%s': this host has no such interface",
			value);
	if (e == 1 && addr->port == 0)
		return reader_complain(r, "nodes", name, 0, "'%s': port 0 is nobody's", value);
	if (e < 0)
		return reader_complain(r, "nodes", name, 0,
			"'%s' is neither a MAC address (02:00:00:00:00:01), nor IPv4[:port], IPv6, "
			"[IPv6]:port, nor a host's name where the link has IP addresses, nor auto",
			value);
	return 2;
}

/* Set the peer's address on each of the links that it is for. */
static int
add_peer_links(const struct config_reader *r, uint32_t node, const char *name, const char *where,
	const char *value, uint32_t links, const struct link_addr *addr)
{
	struct config_peer *peer = &r->config->peers[node];

	for (; links != 0; links &= links - 1) {
		const uint32_t link = (uint32_t)__builtin_ctz(links);
		const struct link_config *l = &r->config->links[link].link;
		struct link_addr *at = &peer->addr[link];

		if (peer->links >> link & 1)
			return reader_complain(r, "nodes", name, 0,
				"'%s': link %u is given twice: each address needs links of its own",
				value, link);
		*at = *addr;
		at->port = is_asked(l) ? DISCOVERY_PORT : l->udp_port;
		/* with encap = udp it is found by ARP */
		if (l->encap != LINK_ENCAP_UDP && rte_is_zero_ether_addr(&at->mac))
			config_made_up_mac(node, &at->mac);
		int kind = read_peer_address(r, node, name, where, value, link, at);

		if (kind < 0 || (kind == 2 && check_family(r, name, value, link, at) != 0))
			return -1;
		if (kind == 2 && is_asked(l)) {
			peer->host = *at;
			*at = (struct link_addr){0};
			r->config->discovers = true;
			continue;
		}
		peer->links |= (uint8_t)(1u << link);
	}
	return 0;
}

static bool
is_peer_option(const char *word)
{
	return strchr(word, '=') != NULL;
}

/* Read a line of [nodes]: an address, then options; then another address on other links. */
static int
read_peer(const struct config_reader *r, uint32_t node, const char *name, const char *value)
{
	char text[CFG_VALUE_LEN], *save = NULL;

	snprintf(text, sizeof(text), "%s", value);
	char *word = strtok_r(text, " \t", &save);

	do {
		const char *where = word;
		struct link_addr addr = {0};
		uint32_t links = 0;

		while ((word = strtok_r(NULL, " \t", &save)) != NULL && is_peer_option(word)) {
			if (read_peer_option(r, name, word, &links, &addr,
				    &r->config->peers[node]) != 0)
				return -1;
		}
		if (add_peer_links(r, node, name, where, value, links ? links : 1, &addr) != 0)
			return -1;
	} while (word != NULL);
	return 0;
}

static int read_node_file(const struct config_reader *r, const char *value);

/* Read the lines of [nodes]. shared: they are those of the file that the configuration names. */
static int
read_peer_lines(const struct config_reader *r, struct rte_cfgfile *file, bool shared)
{
	struct config *c = r->config;
	int n = rte_cfgfile_section_num_entries(file, "nodes");
	struct rte_cfgfile_entry entries[n > 0 ? n : 1];

	if (n > 0)
		rte_cfgfile_section_entries(file, "nodes", entries, n);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i].name;
		uint32_t node;

		if (strcmp(name, "file") == 0 && !shared) {
			if (read_node_file(r, entries[i].value) != 0)
				return -1;
			continue;
		}
		/* 01 would hide a second 1 */
		if (!whole_number(name, c->nodes_max - 1, &node))
			return reader_complain(r, "nodes", name, 0,
				"not a node number from 0 to %u (limits.nodes)", c->nodes_max - 1);
		if (c->peers[node].links != 0)
			return reader_complain(r, "nodes", name, 1, "node %u is given twice", node);
		if (read_peer(r, node, name, entries[i].value) != 0)
			return -1;
	}
	return 0;
}

/* Read the [nodes] of another file, which several nodes share. */
static int
read_node_file(const struct config_reader *r, const char *value)
{
	struct config *c = r->config;
	const struct config_reader there = {c, c->node_file, c->node_file, r->error, r->error_len,
		false};
	struct rte_cfgfile_parameters params = {.comment_character = '#'};

	if (*c->node_file != 0)
		return reader_complain(r, "nodes", "file", 1, "one file can be given");
	if (strlen(value) + strlen(r->path) + 2 > sizeof(c->node_file))
		return reader_complain(r, "nodes", "file", 0, "'%s' is too long", value);
	reader_beside(r, value, c->node_file, sizeof(c->node_file));
	if (access(c->node_file, R_OK) != 0)
		return reader_complain(r, "nodes", "file", 0, "%s: cannot be read: %s",
			c->node_file, strerror(errno));
	if (reader_check_lines(&there) != 0)
		return -1;
	struct rte_cfgfile *file = rte_cfgfile_load_with_params(c->node_file, 0, &params);

	if (file == NULL || !rte_cfgfile_has_section(file, "nodes") ||
		rte_cfgfile_num_sections(file, "", 0) != 1) {
		if (file != NULL)
			rte_cfgfile_close(file);
		return reader_complain(r, "nodes", "file", 0,
			"%s: is to have a section [nodes], and no other", c->node_file);
	}
	int result = read_peer_lines(&there, file, true);

	rte_cfgfile_close(file);
	return result;
}

int
reader_nodes(const struct config_reader *r, struct rte_cfgfile *file)
{
	struct config *c = r->config;

	c->peers = calloc(c->nodes_max, sizeof(*c->peers));
	if (c->peers == NULL)
		return reader_complain(r, "limits", "nodes", 0, "no memory for %u nodes",
			c->nodes_max);
	return read_peer_lines(r, file, false);
}

void
node_config_read_found(struct config *c)
{
	struct rte_cfgfile_parameters params = {.comment_character = '#'};
	char path[RUN_DIR_MAX + INSTANCE_NAME_MAX + 8], unused[256];
	const struct config_reader there = {c, path, path, unused, sizeof(unused), true};
	struct rte_cfgfile *file = NULL;
	struct config_fault fault;
	uint32_t node;

	config_found_path(c, path, sizeof(path));
	if (c->discovers && access(path, R_OK) == 0)
		file = rte_cfgfile_load_with_params(path, 0, &params);
	if (file == NULL)
		return;
	const int n = rte_cfgfile_section_num_entries(file, "nodes");
	struct rte_cfgfile_entry entries[n > 0 ? n : 1];

	if (n > 0)
		rte_cfgfile_section_entries(file, "nodes", entries, n);
	for (int i = 0; i < n; i++) {
		if (!whole_number(entries[i].name, c->nodes_max - 1, &node) || node == c->id ||
			c->peers[node].links != 0)
			continue;
		const struct config_peer before = c->peers[node];

		c->peers[node].found = true;
		if (read_peer(&there, node, entries[i].name, entries[i].value) != 0 ||
			node_config_check_peer(c, node, &c->peers[node], &fault) != 0)
			c->peers[node] = before;
	}
	rte_cfgfile_close(file);
}
