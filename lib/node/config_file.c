/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads a node's file by the table of keys (keys.c). Called before a node starts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
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
#include "node/reader.h"

#define IP4_AND_UDP 28 /* bytes of headers */
#define IP6_AND_UDP 48

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
set_number(const struct config_reader *r, const struct config_key *k, const char *section,
	const char *value, void *at)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(value, &end, 0);

	if (k->kind == KIND_AUTO && strcmp(value, "auto") == 0) {
		*(uint32_t *)at = k->min == 0 ? CONFIG_AUTO : 0;
		return 0;
	}
	if (errno || end == value || *end || *value == '-' || v < k->min || v > k->max)
		return reader_complain(r, section, k->name, 0,
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
set_key(const struct config_reader *r, const struct config_key *k, const char *section,
	const char *value, void *base)
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
			return reader_complain(r, section, k->name, 0, "'%s' is neither on nor off",
				value);
		*(bool *)at = choice;
		return 0;
	case KIND_CHOICE:
		choice = choice_index(k->unit, value);
		if (choice < 0)
			return reader_complain(r, section, k->name, 0, "'%s' is none of %s", value,
				k->unit);
		*(uint32_t *)at = (uint32_t)choice;
		return 0;
	case KIND_DRIVER:
		if (link_driver(value) == NULL)
			return reader_complain(r, section, k->name, 0, "'%s' is none of %s", value,
				k->unit);
		snprintf(at, LINK_NAME_MAX, "%s", value);
		return 0;
	case KIND_NAME:
	case KIND_TEXT:
		if (strlen(value) >= k->max)
			return reader_complain(r, section, k->name, 0,
				"'%s' is longer than %llu bytes", value,
				(unsigned long long)k->max - 1);
		if (k->kind == KIND_NAME && !instance_name_ok(value))
			return reader_complain(r, section, k->name, 0,
				"'%s' is no name: " INSTANCE_NAME_RULE, value);
		snprintf(at, k->max, "%s", value);
		return 0;
	case KIND_NETWORK:
		if (!read_network(value, at))
			return reader_complain(r, section, k->name, 0,
				"'%s' is not an IPv4 address, with or without /bits from 1 to 31",
				value);
		return 0;
	}
	return -1;
}

static int
set_defaults(const struct config_reader *r, const char *section, void *base)
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
unknown_key(const struct config_reader *r, const char *section, const char *kind, const char *key)
{
	char known[512] = "";

	for (size_t i = 0; i < node_config_key_count; i++) {
		if (strcmp(node_config_keys[i].section, kind) != 0)
			continue;
		size_t n = strlen(known);

		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
			node_config_keys[i].name);
	}
	return reader_complain(r, section, key, 0, "unknown key; [%s] has: %s", kind, known);
}

static int
read_section(const struct config_reader *r, struct rte_cfgfile *file, const char *section,
	const char *kind, void *base)
{
	int n = rte_cfgfile_section_num_entries(file, section);
	struct rte_cfgfile_entry entries[n > 0 ? n : 1];

	rte_cfgfile_section_entries(file, section, entries, n);
	for (int i = 0; i < n; i++) {
		const struct config_key *k = NULL;

		for (size_t j = 0; j < node_config_key_count; j++) {
			if (strcmp(node_config_keys[j].section, kind) == 0 &&
				strcmp(node_config_keys[j].name, entries[i].name) == 0)
				k = &node_config_keys[j];
		}
		if (k == NULL)
			return unknown_key(r, section, kind, entries[i].name);
		for (int j = 0; j < i; j++) {
			if (strcmp(entries[j].name, k->name) == 0)
				return reader_complain(r, section, k->name, 1, "given twice");
		}
		if (set_key(r, k, section, entries[i].value, base) != 0)
			return -1;
	}
	return 0;
}

static int
is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

/* Check what depends on more than one key. */
static int
check_together(const struct config_reader *r)
{
	struct config *c = r->config;
	const struct lhs_config_check {
		uint32_t room;
	} lhs = {c->lhs_size_offset == 4          ? c->lhs_entry_bytes - 24
			: c->lhs_size_offset < 24 ? 0
						  : c->lhs_size_offset - 24};

	if (c->id >= c->nodes_max)
		return reader_complain(r, "node", "id", 0, "%u is not below limits.nodes = %u",
			c->id, c->nodes_max);
	if (!is_power_of_two(c->lhs_entries))
		return reader_complain(r, "limits", "lhs_entries", 0, "%u is not a power of two",
			c->lhs_entries);
	if (!is_power_of_two(c->matched_entries))
		return reader_complain(r, "limits", "matched_entries", 0,
			"%u is not a power of two", c->matched_entries);
	if (!is_power_of_two(c->submissions))
		return reader_complain(r, "limits", "submissions", 0, "%u is not a power of two",
			c->submissions);
	if (c->lhs_entry_bytes != 64 && c->lhs_entry_bytes != 128)
		return reader_complain(r, "limits", "lhs_entry_bytes", 0,
			"%u is neither 64 nor 128", c->lhs_entry_bytes);
	if (c->lhs_size_offset % 4 || c->lhs_size_offset > c->lhs_entry_bytes - 4 ||
		(c->lhs_size_offset != 4 && c->lhs_size_offset < 24))
		return reader_complain(r, "limits", "lhs_size_offset", 0,
			"%u is neither 4 nor a multiple of 4 from 24 to %u", c->lhs_size_offset,
			c->lhs_entry_bytes - 4);
	if (c->lhs_split > lhs.room)
		return reader_complain(r, "limits", "lhs_split", 0,
			"%u is more than the %u bytes left", c->lhs_split, lhs.room);
	if (c->proto.rto_min_us > c->proto.rto_max_us)
		return reader_complain(r, "proto", "rto_min_us", 0, "%u is above rto_max_us = %u",
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
read_links(const struct config_reader *r, struct rte_cfgfile *file)
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
			return reader_complain(r, section, "encap", 0,
				"none is for driver udp and loop");
		if (gateway_read(&l->link, why, sizeof(why)) != 0)
			return reader_complain(r, section, "gateway", 0, "%s", why);
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
read_ids(const struct config_reader *r, const char *section, const char *key, const char *value,
	bool (*find)(const char *, uint32_t *), uint32_t *ids, uint32_t *count)
{
	char text[CFG_VALUE_LEN], *save = NULL;

	snprintf(text, sizeof(text), "%s", value);
	for (const char *name = strtok_r(text, ", ", &save); name;
		name = strtok_r(NULL, ", ", &save)) {
		if (*count == CONFIG_IDS_MAX)
			return reader_complain(r, section, key, 0, "more than %d", CONFIG_IDS_MAX);
		if (!find(name, &ids[*count]))
			return reader_complain(r, section, key, 0,
				"'%s' is neither a name that this host knows nor a number", name);
		(*count)++;
	}
	return 0;
}

static int
read_access(const struct config_reader *r)
{
	struct config *c = r->config;
	char *end;

	c->owner = c->group = UINT32_MAX;
	if (*c->socket_mode == 0)
		snprintf(c->socket_mode, sizeof(c->socket_mode), "%s",
			*c->socket_group ? "0660" : "0600");
	unsigned long mode = strtoul(c->socket_mode, &end, 8);

	if (*end || end == c->socket_mode || mode > 0777)
		return reader_complain(r, "access", "mode", 0,
			"'%s' is not an octal number from 0 to 0777", c->socket_mode);
	c->mode = (uint32_t)mode;
	if (*c->socket_owner && !find_user(c->socket_owner, &c->owner))
		return reader_complain(r, "access", "owner", 0, "no user '%s' on this host",
			c->socket_owner);
	if (*c->socket_group && !find_group(c->socket_group, &c->group))
		return reader_complain(r, "access", "group", 0, "no group '%s' on this host",
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
read_range(const struct config_reader *r, struct rte_cfgfile *file, const char *section)
{
	struct config *c = r->config;
	struct config_range *g = &c->ranges[c->range_count];

	range_of(section, &g->first, &g->last);
	if (c->range_count == CONFIG_RANGES_MAX)
		return reader_complain(r, section, NULL, 0, " more than %d such sections",
			CONFIG_RANGES_MAX);
	if (g->first > g->last || g->last >= c->contexts)
		return reader_complain(r, section, NULL, 0,
			" contexts are 0 to %u (limits.contexts), the lower one first",
			c->contexts - 1);
	for (uint32_t i = 0; i < c->range_count; i++) {
		if (g->first <= c->ranges[i].last && c->ranges[i].first <= g->last)
			return reader_complain(r, section, NULL, 0, " overlaps [contexts %u-%u]",
				c->ranges[i].first, c->ranges[i].last);
	}
	if (set_defaults(r, "contexts", g) != 0 ||
		read_section(r, file, section, "contexts", g) != 0 ||
		read_ids(r, section, "uid", g->uid, find_user, g->uids, &g->uid_count) != 0 ||
		read_ids(r, section, "gid", g->gid, find_group, g->gids, &g->gid_count) != 0)
		return -1;
	if (g->send_buffers > c->send_buffers)
		return reader_complain(r, section, "send_buffers", 0,
			"is more than limits.send_buffers = %u", c->send_buffers);
	c->range_count++;
	return 0;
}

static int
read_ranges(const struct config_reader *r, struct rte_cfgfile *file)
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
check_sections(const struct config_reader *r, struct rte_cfgfile *file)
{
	static const char *const known[] = {"node", "engine", "proto", "limits", "access",
		"discovery", "security", "nodes"};
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
			return reader_complain(r, names[i], NULL, 0,
				" unknown section; there are: node, engine, link 0..%d, proto, "
				"limits, access, discovery, security, contexts FIRST-LAST, nodes",
				CONFIG_LINKS_MAX - 1);
		for (int j = 0; j < i; j++) {
			if (strcmp(names[j], names[i]) == 0)
				return reader_complain(r, names[i], NULL, 1, "given twice");
		}
	}
	return 0;
}

/* Read what [security] names as files: as the whole path. */
static int
read_security(const struct config_reader *r, struct rte_cfgfile *file)
{
	struct config *c = r->config;
	char *const files[] = {c->security_key, c->security_cluster, c->security_authority,
		c->security_certificate, c->security_revoked};
	uint8_t key[KEY_BYTES];
	bool given = false;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char whole[sizeof(c->security_key) + 256];

		if (*files[i] == 0 ||
			(files[i] == c->security_authority && key_from_text(files[i], key)))
			continue;
		given = true;
		/* what it is must not get into a log */
		if (strncmp(files[i], "pmx-", 4) == 0 || key_from_text(files[i], key))
			return reader_complain(r, "security", NULL, 0,
				" has a key itself where the name of its file belongs (it is not "
				"shown here)");
		reader_beside(r, files[i], whole, sizeof(whole));
		if (strlen(whole) >= sizeof(c->security_key))
			return reader_complain(r, "security", NULL, 0, " %s: is too long a path",
				whole);
		memcpy(files[i], whole, strlen(whole) + 1);
	}
	if (given && !rte_cfgfile_has_entry(file, "security", "mode"))
		return reader_complain(r, "security", "mode", 0,
			"must be given beside keys: seal, auth or off");
	if (c->security != SEAL_OFF)
		c->checksum = false; /* the seal shows more */
	return 0;
}

static int
read_all(const struct config_reader *r, struct rte_cfgfile *file)
{
	struct config *c = r->config;
	static const char *const flat[] = {"node", "engine", "proto", "limits", "access",
		"discovery", "security"};
	struct config_fault fault;

	if (reader_check_lines(r) != 0 || check_sections(r, file) != 0)
		return -1;
	for (size_t i = 0; i < sizeof(flat) / sizeof(flat[0]); i++) {
		if (set_defaults(r, flat[i], c) != 0)
			return -1;
		if (rte_cfgfile_has_section(file, flat[i]) &&
			read_section(r, file, flat[i], flat[i], c) != 0)
			return -1;
	}
	if (!rte_cfgfile_has_entry(file, "node", "id"))
		return reader_complain(r, "node", "id", 0, "must be given: this node's number");
	c->discovers = rte_cfgfile_has_section(file, "discovery");
	if (read_access(r) != 0 || read_security(r, file) != 0 || read_ranges(r, file) != 0 ||
		read_links(r, file) != 0 || check_together(r) != 0 || reader_nodes(r, file) != 0)
		return -1;
	c->proto.hello_us = c->hello_ms * 1000;
	c->proto.keepalive_us = c->keepalive_ms * 1000;
	c->proto.flow_idle_us = c->flow_idle_ms * 1000;
	c->proto.recovery = (enum proto_recovery)c->recovery;
	c->proto.cc = c->cc == 0 ? &cc_delay : &cc_pm;
	if (node_config_check(c, &fault) != 0)
		return reader_complain(r, fault.section, *fault.key ? fault.key : NULL, 0, "%s",
			fault.text);
	return 0;
}

static int
read_as(struct config *c, const char *path, const char *name, char *error, uint32_t error_len)
{
	const struct config_reader r = {c, path, name, error, error_len, false};
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
