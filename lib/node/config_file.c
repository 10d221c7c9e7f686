/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads a node's file by the table of keys (keys.c). Called before a node starts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cfgfile.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "node/check.h"
#include "node/config_file.h"
#include "node/gateway.h"
#include "node/keys.h"

#define IP4_AND_UDP 28 /* bytes of headers */
#define IP6_AND_UDP 48

/* The file that is being read. */
struct reader {
	struct config *config;
	const char *path; /* to open */
	const char *name; /* for messages */
	char *error;
	uint32_t error_len;
};

/* Return the line of the nth (0 = first) occurrence of a key in a section, or of the section if key
 * is NULL; 0: there is none. */
static int
find_line(const char *path, const char *section, const char *key, int nth)
{
	FILE *f = fopen(path, "r");
	char line[1024], head[80];
	int number = 0, found = 0;
	bool inside = false;

	if (f == NULL)
		return 0;
	snprintf(head, sizeof(head), "[%s]", section);
	while (!found && fgets(line, sizeof(line), f)) {
		char *s = line + strspn(line, " \t");

		number++;
		if (*s == '[') {
			inside = strncmp(s, head, strlen(head)) == 0;
			if (inside && key == NULL && nth-- == 0)
				found = number;
		} else if (inside && key != NULL && strncmp(s, key, strlen(key)) == 0) {
			s += strlen(key);
			s += strspn(s, " \t");
			if (*s == '=' && nth-- == 0)
				found = number;
		}
	}
	fclose(f);
	return found;
}

static __attribute__((format(printf, 5, 6))) int
complain(const struct reader *r, const char *section, const char *key, int nth, const char *fmt,
	...)
{
	va_list args;
	int line = find_line(r->path, section, key, nth);

	if (line == 0) /* the key is not there: show its section */
		line = find_line(r->path, section, NULL, 0);
	int n = snprintf(r->error, r->error_len, "%s:%d: [%s] %s%s", r->name, line, section,
		key ? key : "", key ? ": " : "");

	if (n < 0 || (uint32_t)n >= r->error_len)
		return -1;
	va_start(args, fmt);
	vsnprintf(r->error + n, r->error_len - (uint32_t)n, fmt, args);
	va_end(args);
	return -1;
}

static int
choice_index(const char *choices, const char *value)
{
	size_t len = strlen(value);

	for (int i = 0; *choices; i++) {
		size_t n = strcspn(choices, "|");

		if (n == len && strncmp(choices, value, n) == 0)
			return i;
		choices += n;
		if (*choices == '|')
			choices++;
	}
	return -1;
}

static int
set_number(const struct reader *r, const struct key *k, const char *section, const char *value,
	void *at)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(value, &end, 0);

	if (k->kind == KIND_AUTO && strcmp(value, "auto") == 0) {
		*(uint32_t *)at = 0;
		return 0;
	}
	if (errno || end == value || *end || *value == '-' || v < k->min || v > k->max)
		return complain(r, section, k->name, 0,
			"'%s' is not a number from %llu to %llu (%s)%s", value,
			(unsigned long long)k->min, (unsigned long long)k->max, k->unit,
			k->kind == KIND_AUTO ? ", nor auto" : "");
	if (k->kind == KIND_U16)
		*(uint16_t *)at = (uint16_t)v;
	else
		*(uint32_t *)at = (uint32_t)v;
	return 0;
}

/* Read "IPv4" or "IPv4/bits". */
static bool
read_network(const char *text, struct link_net *net)
{
	char address[INET_ADDRSTRLEN];
	const size_t len = strcspn(text, "/");
	struct in_addr ip;

	snprintf(address, sizeof(address), "%.*s", (int)len, text);
	net->bits = 0;
	if (len >= sizeof(address) || inet_pton(AF_INET, address, &ip) != 1 ||
		(text[len] != 0 &&
			(!whole_number(text + len + 1, 31, &net->bits) || net->bits == 0)))
		return false;
	net->ip = ntohl(ip.s_addr);
	return true;
}

static int
set_key(const struct reader *r, const struct key *k, const char *section, const char *value,
	void *base)
{
	void *at = (char *)base + k->offset;
	int choice;

	switch (k->kind) {
	case KIND_U32:
	case KIND_U16:
	case KIND_AUTO:
		return set_number(r, k, section, value, at);
	case KIND_BOOL:
		choice = choice_index("off|on", value);
		if (choice < 0)
			return complain(r, section, k->name, 0, "'%s' is neither on nor off",
				value);
		*(bool *)at = choice;
		return 0;
	case KIND_CHOICE:
		choice = choice_index(k->unit, value);
		if (choice < 0)
			return complain(r, section, k->name, 0, "'%s' is none of %s", value,
				k->unit);
		*(uint32_t *)at = (uint32_t)choice;
		return 0;
	case KIND_DRIVER:
		if (link_driver(value) == NULL)
			return complain(r, section, k->name, 0, "'%s' is none of %s", value,
				k->unit);
		snprintf(at, LINK_NAME_MAX, "%s", value);
		return 0;
	case KIND_NAME:
	case KIND_TEXT:
		if (strlen(value) >= k->max)
			return complain(r, section, k->name, 0, "'%s' is longer than %llu bytes",
				value, (unsigned long long)k->max - 1);
		if (k->kind == KIND_NAME && !instance_name_ok(value))
			return complain(r, section, k->name, 0,
				"'%s' is no name: " INSTANCE_NAME_RULE, value);
		snprintf(at, k->max, "%s", value);
		return 0;
	case KIND_NETWORK:
		if (!read_network(value, at))
			return complain(r, section, k->name, 0,
				"'%s' is not an IPv4 address, with or without /bits from 1 to 31",
				value);
		return 0;
	}
	return -1;
}

static int
set_defaults(const struct reader *r, const char *section, void *base)
{
	for (size_t i = 0; i < node_config_key_count; i++) {
		if (strcmp(node_config_keys[i].section, section) == 0 &&
			node_config_keys[i].fallback != NULL &&
			set_key(r, &node_config_keys[i], section, node_config_keys[i].fallback,
				base) != 0)
			return -1;
	}
	return 0;
}

static int
unknown_key(const struct reader *r, const char *section, const char *kind, const char *key)
{
	char known[512] = "";

	for (size_t i = 0; i < node_config_key_count; i++) {
		if (strcmp(node_config_keys[i].section, kind) != 0)
			continue;
		size_t n = strlen(known);

		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
			node_config_keys[i].name);
	}
	return complain(r, section, key, 0, "unknown key; [%s] has: %s", kind, known);
}

static int
read_section(const struct reader *r, struct rte_cfgfile *file, const char *section,
	const char *kind, void *base)
{
	int n = rte_cfgfile_section_num_entries(file, section);
	struct rte_cfgfile_entry entries[n > 0 ? n : 1];

	rte_cfgfile_section_entries(file, section, entries, n);
	for (int i = 0; i < n; i++) {
		const struct key *k = NULL;

		for (size_t j = 0; j < node_config_key_count; j++) {
			if (strcmp(node_config_keys[j].section, kind) == 0 &&
				strcmp(node_config_keys[j].name, entries[i].name) == 0)
				k = &node_config_keys[j];
		}
		if (k == NULL)
			return unknown_key(r, section, kind, entries[i].name);
		for (int j = 0; j < i; j++) {
			if (strcmp(entries[j].name, k->name) == 0)
				return complain(r, section, k->name, 1, "given twice");
		}
		if (set_key(r, k, section, entries[i].value, base) != 0)
			return -1;
	}
	return 0;
}

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
read_link_list(const struct reader *r, const char *name, const char *text, uint32_t *links)
{
	uint32_t link;

	if (*links != 0)
		return complain(r, "nodes", name, 0, "'link=%s': an address has one list of links",
			text);
	for (const char *one = text, *end; one != NULL; one = *end != 0 ? end + 1 : NULL) {
		char number[16];

		end = one + strcspn(one, ",");
		snprintf(number, sizeof(number), "%.*s", (int)(end - one), one);
		if (!whole_number(number, CONFIG_LINKS_MAX - 1, &link) ||
			!r->config->links[link].used)
			return complain(r, "nodes", name, 0,
				"'link=%s': '%s' is no link of this file", text, number);
		if (*links >> link & 1)
			return complain(r, "nodes", name, 0, "'link=%s': link %u is given twice",
				text, link);
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
read_peer_name(const struct reader *r, const char *name, const char *text, struct config_peer *peer)
{
	const uint32_t other = who_has_name(r->config, peer, text);

	if (!channel_name_ok(text))
		return complain(r, "nodes", name, 0,
			"'%s' is no name: up to %d letters, digits, '.', '-', '_', with a letter",
			text, ATTACH_NAME_MAX - 1);
	if (other != UINT32_MAX)
		return complain(r, "nodes", name, 0, "node %u has the name '%s'", other, text);
	snprintf(peer->name, sizeof(peer->name), "%s", text);
	return 0;
}

/* Read an option that follows an address: "link=N[,N...]", "mac=MAC", "name=NAME". */
static int
read_peer_option(const struct reader *r, const char *name, const char *text, uint32_t *links,
	struct link_addr *addr, struct config_peer *peer)
{
	if (strncmp(text, "link=", 5) == 0)
		return read_link_list(r, name, text + 5, links);
	if (strncmp(text, "mac=", 4) == 0 && read_mac(text + 4, &addr->mac))
		return 0;
	if (strncmp(text, "name=", 5) == 0)
		return read_peer_name(r, name, text + 5, peer);
	return complain(r, "nodes", name, 0,
		"'%s' is neither link=N nor name=NAME nor mac=MAC; MAC is the next hop's: the "
		"peer's, or that of the router in front of it (ip neigh)",
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

/* Check that a peer's address has the family of the link's socket, as those of all its peers must.
 * Faults of listen are reported when the link is opened. */
static int
check_family(const struct reader *r, const char *name, const char *value, uint32_t link,
	const struct link_addr *addr)
{
	const struct link_config *l = &r->config->links[link].link;
	struct link_addr own;

	if (socket_address(l, &own) && own.v6 != addr->v6)
		return complain(r, "nodes", name, 0,
			"'%s' is IPv%c, and [link %u] listen = %s is IPv%c: a link has one of "
			"them; give the peer's other address, or a link of its own (link=N)",
			value, addr->v6 ? '6' : '4', link, l->listen, own.v6 ? '6' : '4');
	if (link_peers(l) == LINK_PEERS_MAC && addr->v6)
		return complain(r, "nodes", name, 0,
			"'%s' is IPv6, which is for driver = udp; encap = udp has IPv4", value);
	return 0;
}

/* Find the address of a host by its name, with or without a port, as the system's resolver knows
 * it. Give the node the host's name if it has no other one, and no other node has it. Return 2 or
 * -1. */
static int
read_peer_host(const struct reader *r, const char *name, const char *where, uint32_t link,
	struct config_peer *peer, struct link_addr *addr)
{
	const struct link_config *l = &r->config->links[link].link;
	const char *colon = strchr(where, ':');
	struct link_addr own;
	const bool v6 = socket_address(l, &own) && own.v6;
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
		return complain(r, "nodes", name, 0, "'%s': the port is not a number from 1 to %d",
			where, UINT16_MAX);
	int e = getaddrinfo(host, NULL, &hints, &found);

	if (e != 0)
		return complain(r, "nodes", name, 0, "'%s': no IPv%c address of that host: %s",
			where, v6 ? '6' : '4', gai_strerror(e));
	e = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
		NI_NUMERICHOST);
	freeaddrinfo(found);
	if (e != 0 || link_addr_parse(text, addr) != 0)
		return complain(r, "nodes", name, 0, "'%s': its address cannot be used", where);
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

	if (where == NULL || (link_peers(l) != LINK_PEERS_IP && l->encap != LINK_ENCAP_UDP))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(where, ":"), where);
	return channel_name_ok(host);
}

/* Read the address of a peer: "auto" | MAC | address[:port]. Return 0; 1: it is the own line, which
 * is not used and may name another host's interface; 2: it is an IP address, whose family
 * check_family() looks at; -1. */
static int
read_peer_address(const struct reader *r, uint32_t node, const char *name, const char *where,
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
		return complain(r, "nodes", name, 0, "'%s': this host has no such interface",
			value);
	if (e == 1 && addr->port == 0)
		return complain(r, "nodes", name, 0, "'%s': port 0 is nobody's", value);
	if (e < 0)
		return complain(r, "nodes", name, 0,
			"'%s' is neither a MAC address (02:00:00:00:00:01), nor IPv4[:port], IPv6, "
			"[IPv6]:port, nor a host's name where the link has IP addresses, nor auto",
			value);
	return 2;
}

/* Set the peer's address on each of the links that it is for. */
static int
add_peer_links(const struct reader *r, uint32_t node, const char *name, const char *where,
	const char *value, uint32_t links, const struct link_addr *addr)
{
	struct config_peer *peer = &r->config->peers[node];

	for (; links != 0; links &= links - 1) {
		const uint32_t link = (uint32_t)__builtin_ctz(links);
		struct link_addr *at = &peer->addr[link];

		if (peer->links >> link & 1)
			return complain(r, "nodes", name, 0,
				"'%s': link %u is given twice: each address needs links of its own",
				value, link);
		*at = *addr;
		at->port = r->config->links[link].link.udp_port;
		/* with encap = udp it is found by ARP */
		if (r->config->links[link].link.encap != LINK_ENCAP_UDP &&
			rte_is_zero_ether_addr(&at->mac))
			config_made_up_mac(node, &at->mac);
		int kind = read_peer_address(r, node, name, where, value, link, at);

		if (kind < 0 || (kind == 2 && check_family(r, name, value, link, at) != 0))
			return -1;
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
read_peer(const struct reader *r, uint32_t node, const char *name, const char *value)
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

static int read_node_file(const struct reader *r, const char *value);

/* Read the lines of [nodes]. shared: they are those of the file that the configuration names. */
static int
read_peer_lines(const struct reader *r, struct rte_cfgfile *file, bool shared)
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
			return complain(r, "nodes", name, 0,
				"not a node number from 0 to %u (limits.nodes)", c->nodes_max - 1);
		if (c->peers[node].links != 0)
			return complain(r, "nodes", name, 1, "node %u is given twice", node);
		if (read_peer(r, node, name, entries[i].value) != 0)
			return -1;
	}
	return 0;
}

/* Make the path of a file that the configuration names: relative ones begin where the configuration
 * is. */
static void
beside(char *out, size_t size, const char *config, const char *value)
{
	const char *slash = strrchr(config, '/');

	if (*value == '/' || slash == NULL || strncmp(config, "/proc/self/fd/", 14) == 0)
		snprintf(out, size, "%s", value);
	else
		snprintf(out, size, "%.*s/%s", (int)(slash - config), config, value);
}

static int check_lines(const struct reader *r);

/* Read the [nodes] of another file, which several nodes share. */
static int
read_node_file(const struct reader *r, const char *value)
{
	struct config *c = r->config;
	const struct reader there = {c, c->node_file, c->node_file, r->error, r->error_len};
	struct rte_cfgfile_parameters params = {.comment_character = '#'};

	if (*c->node_file != 0)
		return complain(r, "nodes", "file", 1, "one file can be given");
	if (strlen(value) + strlen(r->path) + 2 > sizeof(c->node_file))
		return complain(r, "nodes", "file", 0, "'%s' is too long", value);
	beside(c->node_file, sizeof(c->node_file), r->path, value);
	if (access(c->node_file, R_OK) != 0)
		return complain(r, "nodes", "file", 0, "%s: cannot be read: %s", c->node_file,
			strerror(errno));
	if (check_lines(&there) != 0)
		return -1;
	struct rte_cfgfile *file = rte_cfgfile_load_with_params(c->node_file, 0, &params);

	if (file == NULL || !rte_cfgfile_has_section(file, "nodes") ||
		rte_cfgfile_num_sections(file, "", 0) != 1) {
		if (file != NULL)
			rte_cfgfile_close(file);
		return complain(r, "nodes", "file", 0,
			"%s: is to have a section [nodes], and no other", c->node_file);
	}
	int result = read_peer_lines(&there, file, true);

	rte_cfgfile_close(file);
	return result;
}

static int
read_peers(const struct reader *r, struct rte_cfgfile *file)
{
	struct config *c = r->config;

	c->peers = calloc(c->nodes_max, sizeof(*c->peers));
	if (c->peers == NULL)
		return complain(r, "limits", "nodes", 0, "no memory for %u nodes", c->nodes_max);
	return read_peer_lines(r, file, false);
}

static int
is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

/* Check what depends on more than one key. */
static int
check_together(const struct reader *r)
{
	struct config *c = r->config;
	const struct lhs_config_check {
		uint32_t room;
	} lhs = {c->lhs_size_offset == 4          ? c->lhs_entry_bytes - 24
			: c->lhs_size_offset < 24 ? 0
						  : c->lhs_size_offset - 24};

	if (c->id >= c->nodes_max)
		return complain(r, "node", "id", 0, "%u is not below limits.nodes = %u", c->id,
			c->nodes_max);
	if (!is_power_of_two(c->lhs_entries))
		return complain(r, "limits", "lhs_entries", 0, "%u is not a power of two",
			c->lhs_entries);
	if (!is_power_of_two(c->matched_entries))
		return complain(r, "limits", "matched_entries", 0, "%u is not a power of two",
			c->matched_entries);
	if (!is_power_of_two(c->submissions))
		return complain(r, "limits", "submissions", 0, "%u is not a power of two",
			c->submissions);
	if (c->lhs_entry_bytes != 64 && c->lhs_entry_bytes != 128)
		return complain(r, "limits", "lhs_entry_bytes", 0, "%u is neither 64 nor 128",
			c->lhs_entry_bytes);
	if (c->lhs_size_offset % 4 || c->lhs_size_offset > c->lhs_entry_bytes - 4 ||
		(c->lhs_size_offset != 4 && c->lhs_size_offset < 24))
		return complain(r, "limits", "lhs_size_offset", 0,
			"%u is neither 4 nor a multiple of 4 from 24 to %u", c->lhs_size_offset,
			c->lhs_entry_bytes - 4);
	if (c->lhs_split > lhs.room)
		return complain(r, "limits", "lhs_split", 0, "%u is more than the %u bytes left",
			c->lhs_split, lhs.room);
	if (c->proto.rto_min_us > c->proto.rto_max_us)
		return complain(r, "proto", "rto_min_us", 0, "%u is above rto_max_us = %u",
			c->proto.rto_min_us, c->proto.rto_max_us);
	return 0;
}

/* Return the longest frame that passes an Ethernet of 1500 bytes. */
static uint32_t
default_mtu(const struct link_config *l)
{
	if (link_peers(l) != LINK_PEERS_IP)
		return RTE_ETHER_MTU;
	return RTE_ETHER_MTU - (l->listen[0] == '[' ? IP6_AND_UDP : IP4_AND_UDP);
}

static int
read_links(const struct reader *r, struct rte_cfgfile *file)
{
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		struct config_link *l = &r->config->links[i];
		char section[16], why[256];

		snprintf(section, sizeof(section), "link %u", i);
		if (!rte_cfgfile_has_section(file, section))
			continue;
		l->used = true;
		if (set_defaults(r, "link", l) != 0 ||
			read_section(r, file, section, "link", l) != 0)
			return -1;
		if (link_peers(&l->link) != LINK_PEERS_MAC)
			l->link.encap = LINK_ENCAP_NONE;
		else if (l->link.encap == LINK_ENCAP_NONE)
			return complain(r, section, "encap", 0, "none is for driver udp and loop");
		if (gateway_read(&l->link, why, sizeof(why)) != 0)
			return complain(r, section, "gateway", 0, "%s", why);
		if (l->link.mtu == 0)
			l->link.mtu = default_mtu(&l->link);
	}
	return 0;
}

/* ------------------------------------------------------------------ access */

/* UINT32_MAX is no valid number: chown() leaves the owner as it is. */
static bool
find_user(const char *name, uint32_t *id)
{
	const struct passwd *p = getpwnam(name);

	if (p == NULL)
		return whole_number(name, UINT32_MAX - 1, id);
	*id = p->pw_uid;
	return true;
}

static bool
find_group(const char *name, uint32_t *id)
{
	const struct group *g = getgrnam(name);

	if (g == NULL)
		return whole_number(name, UINT32_MAX - 1, id);
	*id = g->gr_gid;
	return true;
}

/* Translate comma-separated names to numbers. */
static int
read_ids(const struct reader *r, const char *section, const char *key, const char *value,
	bool (*find)(const char *, uint32_t *), uint32_t *ids, uint32_t *count)
{
	char text[CFG_VALUE_LEN], *save = NULL;

	snprintf(text, sizeof(text), "%s", value);
	for (const char *name = strtok_r(text, ", ", &save); name;
		name = strtok_r(NULL, ", ", &save)) {
		if (*count == CONFIG_IDS_MAX)
			return complain(r, section, key, 0, "more than %d", CONFIG_IDS_MAX);
		if (!find(name, &ids[*count]))
			return complain(r, section, key, 0,
				"'%s' is neither a name that this host knows nor a number", name);
		(*count)++;
	}
	return 0;
}

static int
read_access(const struct reader *r)
{
	struct config *c = r->config;
	char *end;

	c->owner = c->group = UINT32_MAX;
	unsigned long mode = strtoul(c->socket_mode, &end, 8);

	if (*end || end == c->socket_mode || mode > 0777)
		return complain(r, "access", "mode", 0,
			"'%s' is not an octal number from 0 to 0777", c->socket_mode);
	c->mode = (uint32_t)mode;
	if (*c->socket_owner && !find_user(c->socket_owner, &c->owner))
		return complain(r, "access", "owner", 0, "no user '%s' on this host",
			c->socket_owner);
	if (*c->socket_group && !find_group(c->socket_group, &c->group))
		return complain(r, "access", "group", 0, "no group '%s' on this host",
			c->socket_group);
	return 0;
}

/* Parse [contexts FIRST-LAST] and [contexts NUMBER]. Return false if the section is neither. */
static bool
range_of(const char *section, uint32_t *first, uint32_t *last)
{
	char text[CFG_NAME_LEN];
	uint32_t from, to;

	if (strncmp(section, "contexts ", 9) != 0)
		return false;
	snprintf(text, sizeof(text), "%s", section + 9);
	char *dash = strchr(text, '-');

	if (dash != NULL)
		*dash = 0;
	if (!whole_number(text, UINT32_MAX, &from) ||
		(dash != NULL && !whole_number(dash + 1, UINT32_MAX, &to)))
		return false;
	*first = from;
	*last = dash != NULL ? to : from;
	return true;
}

static int
read_range(const struct reader *r, struct rte_cfgfile *file, const char *section)
{
	struct config *c = r->config;
	struct config_range *g = &c->ranges[c->range_count];

	range_of(section, &g->first, &g->last);
	if (c->range_count == CONFIG_RANGES_MAX)
		return complain(r, section, NULL, 0, " more than %d such sections",
			CONFIG_RANGES_MAX);
	if (g->first > g->last || g->last >= c->contexts)
		return complain(r, section, NULL, 0,
			" contexts are 0 to %u (limits.contexts), the lower one first",
			c->contexts - 1);
	for (uint32_t i = 0; i < c->range_count; i++) {
		if (g->first <= c->ranges[i].last && c->ranges[i].first <= g->last)
			return complain(r, section, NULL, 0, " overlaps [contexts %u-%u]",
				c->ranges[i].first, c->ranges[i].last);
	}
	if (set_defaults(r, "contexts", g) != 0 ||
		read_section(r, file, section, "contexts", g) != 0 ||
		read_ids(r, section, "uid", g->uid, find_user, g->uids, &g->uid_count) != 0 ||
		read_ids(r, section, "gid", g->gid, find_group, g->gids, &g->gid_count) != 0)
		return -1;
	if (g->send_buffers > c->send_buffers)
		return complain(r, section, "send_buffers", 0,
			"is more than limits.send_buffers = %u", c->send_buffers);
	c->range_count++;
	return 0;
}

static int
read_ranges(const struct reader *r, struct rte_cfgfile *file)
{
	int n = rte_cfgfile_num_sections(file, NULL, 0);
	char *names[n > 0 ? n : 1];
	char space[n > 0 ? n : 1][CFG_NAME_LEN];
	uint32_t first, last;

	for (int i = 0; i < n; i++)
		names[i] = space[i];
	n = rte_cfgfile_sections(file, names, n);
	for (int i = 0; i < n; i++) {
		if (range_of(names[i], &first, &last) && read_range(r, file, names[i]) != 0)
			return -1;
	}
	return 0;
}

static int
check_sections(const struct reader *r, struct rte_cfgfile *file)
{
	static const char *const known[] = {"node", "engine", "proto", "limits", "access", "nodes"};
	int n = rte_cfgfile_num_sections(file, NULL, 0);
	char *names[n > 0 ? n : 1];
	char space[n > 0 ? n : 1][CFG_NAME_LEN];

	for (int i = 0; i < n; i++)
		names[i] = space[i];
	n = rte_cfgfile_sections(file, names, n);
	for (int i = 0; i < n; i++) {
		uint32_t link, first, last;
		bool ok = (strncmp(names[i], "link ", 5) == 0 &&
				  whole_number(names[i] + 5, CONFIG_LINKS_MAX - 1, &link)) ||
			range_of(names[i], &first, &last);

		for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++)
			ok |= strcmp(names[i], known[j]) == 0;
		if (!ok)
			return complain(r, names[i], NULL, 0,
				" unknown section; there are: node, engine, link 0..%d, proto, "
				"limits, access, contexts FIRST-LAST, nodes",
				CONFIG_LINKS_MAX - 1);
		for (int j = 0; j < i; j++) {
			if (strcmp(names[j], names[i]) == 0)
				return complain(r, names[i], NULL, 1, "given twice");
		}
	}
	return 0;
}

/* Reject malformed lines, which rte_cfgfile ignores. */
static int
check_lines(const struct reader *r)
{
	FILE *f = fopen(r->path, "r");
	char line[1024];
	int result = 0;

	for (int number = 1; f != NULL && result == 0 && fgets(line, sizeof(line), f); number++) {
		const char *s = line + strspn(line, " \t\r\n");

		line[strcspn(line, "\r\n")] = 0;
		if (*s == 0 || *s == '#' || *s == '[' || strchr(s, '=') != NULL)
			continue;
		snprintf(r->error, r->error_len,
			"%s:%d: '%s' is none of '[section]', 'key = value', '# comment'", r->name,
			number, s);
		result = -1;
	}
	if (f != NULL)
		fclose(f);
	return result;
}

static int
read_all(const struct reader *r, struct rte_cfgfile *file)
{
	struct config *c = r->config;
	static const char *const flat[] = {"node", "engine", "proto", "limits", "access"};
	struct config_fault fault;

	if (check_lines(r) != 0 || check_sections(r, file) != 0)
		return -1;
	for (size_t i = 0; i < sizeof(flat) / sizeof(flat[0]); i++) {
		if (set_defaults(r, flat[i], c) != 0)
			return -1;
		if (rte_cfgfile_has_section(file, flat[i]) &&
			read_section(r, file, flat[i], flat[i], c) != 0)
			return -1;
	}
	if (!rte_cfgfile_has_entry(file, "node", "id"))
		return complain(r, "node", "id", 0, "must be given: this node's number");
	if (read_access(r) != 0 || read_ranges(r, file) != 0 || read_links(r, file) != 0 ||
		check_together(r) != 0 || read_peers(r, file) != 0)
		return -1;
	c->proto.hello_us = c->hello_ms * 1000;
	c->proto.keepalive_us = c->keepalive_ms * 1000;
	c->proto.flow_idle_us = c->flow_idle_ms * 1000;
	c->proto.recovery = (enum proto_recovery)c->recovery;
	c->proto.cc = c->cc == 0 ? &cc_delay : &cc_pm;
	if (node_config_check(c, &fault) != 0)
		return complain(r, fault.section, *fault.key ? fault.key : NULL, 0, "%s",
			fault.text);
	return 0;
}

static int
read_as(struct config *c, const char *path, const char *name, char *error, uint32_t error_len)
{
	const struct reader r = {c, path, name, error, error_len};
	struct rte_cfgfile_parameters params = {.comment_character = '#'};

	memset(c, 0, sizeof(*c));
	if (access(path, R_OK) != 0) {
		snprintf(error, error_len, "%s: cannot be read: %s", name, strerror(errno));
		return -1;
	}
	struct rte_cfgfile *file = rte_cfgfile_load_with_params(path, 0, &params);

	if (file == NULL) {
		snprintf(error, error_len,
			"%s: not an INI file: lines are '[section]', 'key = value', or '# comment'",
			name);
		return -1;
	}
	int result = read_all(&r, file);

	rte_cfgfile_close(file);
	if (result != 0)
		config_free(c);
	return result;
}

int
node_config_read(struct config *c, const char *path, char *error, uint32_t error_len)
{
	return read_as(c, path, path, error, error_len);
}

int
node_config_read_text(struct config *c, const char *text, char *error, uint32_t error_len)
{
	char path[64];
	int fd = memfd_create("pmx-config", MFD_CLOEXEC);
	size_t len = strlen(text);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
		snprintf(error, error_len, "no memory file for the configuration: %s",
			strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int result = read_as(c, path, "(text)", error, error_len);

	close(fd);
	return result;
}
