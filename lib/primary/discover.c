/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See discover.h. lib/discovery says what is sent and learnt. What it has found is written into a
 * file beside the primary's socket, in the form of [nodes], which a reload then takes: so found
 * nodes are checked, changed and taken over as those of [nodes] are.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "channel/instance.h"
#include "discovery/discovery.h"
#include "log/log.h"
#include "node/reload.h"
#include "primary/discover.h"
#include "primary/dpdk_names.h"
#include "primary/health.h"

#define TAKE_EVERY    20   /* ms from one reload to the next */
#define RESOLVE_EVERY 5000 /* ms, while names of seeds are not known */
#define BIND_WAIT     50   /* ms, while another primary has the socket */
#define IN_A_TURN     64   /* datagrams */

static struct {
	struct node *node;
	struct discovery *d;
	control_thread thread;
	int fd, stop;
	struct link_addr listen;
	struct discovery_addr seeds[DISCOVERY_SEEDS_MAX];
	uint32_t seed_count;
	uint64_t resolve_at; /* ms; UINT64_MAX: all names are known */
	uint64_t taken_at;   /* of the last reload */
	bool changed;        /* since the last reload */
	uint32_t claimed_by; /* generation of the last node that was refused */
	char unknown[256];   /* names of seeds that have no address */
	_Atomic uint32_t found, answered;
} own = {.fd = -1, .stop = -1};

static uint64_t
now_ms(void)
{
	return (uint64_t)clock_us() / 1000;
}

/* ------------------------------------------------------------------ addresses */

static struct discovery_addr
from_link_addr(const struct link_addr *a)
{
	struct discovery_addr d = {.port = a->port};

	if (a->v6) {
		memcpy(d.ip, a->ip6, sizeof(d.ip));
		return d;
	}
	d.ip[10] = d.ip[11] = 0xFF;
	for (unsigned i = 0; i < 4; i++)
		d.ip[12 + i] = (uint8_t)(a->ip >> (24 - 8 * i));
	return d;
}

static struct link_addr
to_link_addr(const struct discovery_addr *d)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	struct link_addr a = {.port = d->port};

	a.v6 = memcmp(d->ip, mapped, sizeof(mapped)) != 0;
	memcpy(a.ip6, d->ip, sizeof(a.ip6));
	for (unsigned i = 0; i < 4; i++)
		a.ip = a.ip << 8 | d->ip[12 + i];
	return a;
}

static socklen_t
to_sockaddr(const struct discovery_addr *d, struct sockaddr_storage *s)
{
	const struct link_addr a = to_link_addr(d);
	struct sockaddr_in *four = (struct sockaddr_in *)s;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)s;

	memset(s, 0, sizeof(*s));
	if (a.v6) {
		six->sin6_family = AF_INET6;
		six->sin6_port = rte_cpu_to_be_16(a.port);
		six->sin6_scope_id = own.listen.zone;
		memcpy(&six->sin6_addr, a.ip6, sizeof(a.ip6));
		return sizeof(*six);
	}
	four->sin_family = AF_INET;
	four->sin_port = rte_cpu_to_be_16(a.port);
	four->sin_addr.s_addr = rte_cpu_to_be_32(a.ip);
	return sizeof(*four);
}

static struct discovery_addr
from_sockaddr(const struct sockaddr *s)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)s;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)s;
	struct link_addr a = {0};

	a.v6 = s->sa_family == AF_INET6;
	if (a.v6)
		memcpy(a.ip6, &six->sin6_addr, sizeof(a.ip6));
	else
		a.ip = rte_be_to_cpu_32(four->sin_addr.s_addr);
	a.port = rte_be_to_cpu_16(a.v6 ? six->sin6_port : four->sin_port);
	return from_link_addr(&a);
}

static const char *
addr_text(const struct discovery_addr *d, char text[LINK_ADDR_MAX])
{
	const struct link_addr a = to_link_addr(d);

	link_addr_text(&a, text);
	return text;
}

/* ------------------------------------------------------------------ seeds */

static void
add_seed(const struct discovery_addr *seed)
{
	for (uint32_t i = 0; i < own.seed_count; i++) {
		if (discovery_same_addr(&own.seeds[i], seed))
			return;
	}
	if (own.seed_count < DISCOVERY_SEEDS_MAX)
		own.seeds[own.seed_count++] = *seed;
}

/* Add all addresses of HOST or HOST:PORT. Return 0, or an error of getaddrinfo(). */
static int
resolve(const char *text)
{
	const struct addrinfo hints = {
		.ai_family = own.listen.v6 ? AF_INET6 : AF_INET,
		.ai_socktype = SOCK_DGRAM,
		.ai_flags = own.listen.v6 ? AI_V4MAPPED : 0,
	};
	struct link_addr numeric = {.port = DISCOVERY_PORT};
	const char *colon = strchr(text, ':');
	struct addrinfo *found;
	char host[256];
	uint32_t port = DISCOVERY_PORT;

	if (link_addr_parse(text, &numeric) >= 0) {
		const struct discovery_addr seed = from_link_addr(&numeric);

		add_seed(&seed);
		return 0;
	}
	snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
	if (colon != NULL && !whole_number(colon + 1, UINT16_MAX, &port))
		return EAI_SERVICE;
	const int e = getaddrinfo(host, NULL, &hints, &found);

	if (e != 0)
		return e;
	for (const struct addrinfo *i = found; i != NULL; i = i->ai_next) {
		struct discovery_addr seed = from_sockaddr(i->ai_addr);

		seed.port = (uint16_t)port;
		add_seed(&seed);
	}
	freeaddrinfo(found);
	return 0;
}

/* Find the addresses of all seeds: those of the section, and those of nodes of [nodes] that are to
 * be asked. */
static void
resolve_all(uint64_t now)
{
	const struct config *c = &own.node->config;
	char text[sizeof(c->discovery_seed)], unknown[sizeof(own.unknown)] = "", *save = NULL;
	const uint32_t before = own.seed_count;

	snprintf(text, sizeof(text), "%s", c->discovery_seed);
	for (char *one = strtok_r(text, ", \t", &save); one; one = strtok_r(NULL, ", \t", &save)) {
		const int e = resolve(one);

		if (e == 0)
			continue;
		const size_t used = strlen(unknown);

		snprintf(unknown + used, sizeof(unknown) - used, "%s%s: %s", used ? "; " : "", one,
			gai_strerror(e));
	}
	for (uint32_t i = 0; i < c->nodes_max; i++) {
		const struct discovery_addr seed = from_link_addr(&c->peers[i].host);

		if (i != c->id && c->peers[i].host.port != 0)
			add_seed(&seed);
	}
	if (*unknown != 0 && strcmp(unknown, own.unknown) != 0)
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"discovery: no address of a seed, which is tried again: %s", unknown);
	snprintf(own.unknown, sizeof(own.unknown), "%s", unknown);
	own.resolve_at = *unknown != 0 ? now + RESOLVE_EVERY : UINT64_MAX;
	if (own.seed_count != before)
		discovery_seeds(own.d, own.seeds, own.seed_count, now);
}

/* ------------------------------------------------------------------ what it says */

static void
send_to(void *arg, const struct discovery_addr *to, const uint8_t *bytes, uint32_t len)
{
	struct sockaddr_storage s;
	const socklen_t size = to_sockaddr(to, &s);

	(void)arg;
	/* lost, if it cannot be sent: it is repeated */
	(void)!sendto(own.fd, bytes, len, MSG_DONTWAIT, (struct sockaddr *)&s, size);
}

static void
refused(const struct discovery_record *holder, const char *where)
{
	log_say(LOG_NODE, RTE_LOG_ERR,
		"discovery: number %u is that of node '%s' at %s, which has run for longer than "
		"this one. Give one of them another node.id",
		holder->number, holder->name, where);
	health_end_young(own.node);
}

static void
told(void *arg, enum discovery_event event, const struct discovery_record *node,
	const struct discovery_record *other)
{
	char where[LINK_ADDR_MAX], its[LINK_ADDR_MAX];

	(void)arg;
	addr_text(&node->at, where);
	switch (event) {
	case DISCOVERY_LEARNT:
	case DISCOVERY_LEFT:
		own.changed = true;
		log_say(LOG_PEER, RTE_LOG_INFO, "discovery: node %u '%s' at %s %s", node->number,
			node->name, where, event == DISCOVERY_LEARNT ? "found" : "has ended");
		break;
	case DISCOVERY_REFUSED:
		refused(node, where);
		break;
	case DISCOVERY_CLAIMED:
		if (own.claimed_by == other->generation)
			break;
		own.claimed_by = other->generation;
		log_say(LOG_PEER, RTE_LOG_ERR,
			"discovery: node '%s' at %s has number %u, which is that of node '%s' at "
			"%s: it is refused. Give it another node.id",
			other->name, addr_text(&other->at, its), node->number, node->name,
			to_link_addr(&node->at).port != 0 ? where : "this host");
		break;
	case DISCOVERY_OTHER:
		log_say(LOG_NODE, RTE_LOG_ERR,
			"discovery: the node at %s is not of cluster '%s': give all nodes the same "
			"discovery.cluster",
			where, own.node->config.discovery_cluster);
		break;
	case DISCOVERY_FULL:
		log_say(LOG_PEER, RTE_LOG_ERR,
			"discovery: node '%s' at %s has number %u, which is not below limits.nodes "
			"= %u",
			node->name, where, node->number, own.node->config.nodes_max);
		break;
	case DISCOVERY_SEED:
		log_say(LOG_NODE, RTE_LOG_INFO, "discovery: seed %s answers", where);
		break;
	}
}

/* ------------------------------------------------------------------ what it has found */

/* Return whether another node, of [nodes] or found before, has that name. */
static bool
has_other(uint32_t number, const char *name)
{
	const struct config *c = &own.node->config;

	for (uint32_t i = 0; i < c->nodes_max; i++) {
		const struct discovery_record *r = discovery_node(own.d, i);

		if (i != number &&
			((!c->peers[i].found && strcmp(c->peers[i].name, name) == 0) ||
				(i < number && r != NULL && strcmp(r->name, name) == 0)))
			return true;
	}
	return false;
}

/* Write the node's addresses on the links that this node has too, as a line of [nodes]. */
static void
write_node(FILE *f, const struct discovery_record *r)
{
	const struct config *c = &own.node->config;
	char line[512] = "", text[LINK_ADDR_MAX];
	struct link_addr listen;
	size_t used = 0;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX && used < sizeof(line) - 128; i++) {
		const struct link_config *l = &c->links[i].link;
		const bool by_ip = link_peers(l) == LINK_PEERS_IP || l->encap == LINK_ENCAP_UDP;

		if (!c->links[i].used || link_peers(l) == LINK_PEERS_NONE ||
			r->kind[i] != (by_ip ? DISCOVERY_IP : DISCOVERY_MAC))
			continue;
		const struct link_addr a = to_link_addr(&r->link[i]);

		if (by_ip) {
			listen = (struct link_addr){0};
			link_addr_parse(l->listen, &listen);
			if (a.v6 != listen.v6)
				continue;
			link_addr_text(&a, text);
		} else {
			rte_ether_format_addr(text, sizeof(text),
				(const struct rte_ether_addr *)r->link[i].ip);
		}
		used += (size_t)snprintf(line + used, sizeof(line) - used, " %s link=%u", text, i);
	}
	if (used == 0)
		return;
	fprintf(f, "%u =%s", r->number, line);
	if (*r->name != 0 && channel_name_ok(r->name) && !has_other(r->number, r->name))
		fprintf(f, " name=%s", r->name);
	fputc('\n', f);
}

/* Write the file of what was found. Return false if that cannot be. */
static bool
write_found(const char *path)
{
	char temporary[RUN_DIR_MAX + INSTANCE_NAME_MAX + 16], dir[RUN_DIR_MAX];
	uint32_t found = 0;

	if (run_dir_make(dir, sizeof(dir)) != 0)
		return false;
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	FILE *f = fopen(temporary, "we");

	if (f == NULL)
		return false;
	fputs("# The nodes that this primary has found. It writes this file by itself.\n[nodes]\n",
		f);
	for (uint32_t i = 0; i < own.node->config.nodes_max; i++) {
		const struct discovery_record *r = discovery_node(own.d, i);

		if (r == NULL)
			continue;
		write_node(f, r);
		found++;
	}
	atomic_store(&own.found, found);
	const bool written = fflush(f) == 0 && fchmod(fileno(f), 0644) == 0;

	return fclose(f) == 0 && written && rename(temporary, path) == 0;
}

/* Let the node know what was found. */
static void
take_found(uint64_t now)
{
	char path[RUN_DIR_MAX + INSTANCE_NAME_MAX + 8], error[512];
	struct reload_result result;

	own.changed = false;
	own.taken_at = now;
	config_found_path(&own.node->config, path, sizeof(path));
	if (!write_found(path))
		log_say(LOG_NODE, RTE_LOG_ERR, "discovery: %s: %s", path, strerror(errno));
	else if (reload(&result, error, sizeof(error)) != 0)
		log_say(LOG_NODE, RTE_LOG_ERR, "discovery: found nodes are not taken: %s", error);
}

/* ------------------------------------------------------------------ the thread */

static struct discovery_record
self(const struct node *n)
{
	const struct config *c = &n->config;
	struct discovery_record r = {
		.number = (uint16_t)c->id,
		.generation = n->epoch,
		.age_ms = proto_age_ms(n->engines[0].proto),
	};

	snprintf(r.name, sizeof(r.name), "%s", c->discovery_name);
	if (*r.name == 0 && gethostname(r.name, sizeof(r.name) - 1) == 0)
		r.name[strcspn(r.name, ".")] = 0;
	if (!channel_name_ok(r.name))
		*r.name = 0;
	for (unsigned i = 0; i < n->link_count; i++) {
		const struct link_config *l = &n->links[i].config;
		struct link_addr a = {.ip = l->net.ip, .port = l->udp_port};

		if (link_peers(l) == LINK_PEERS_NONE)
			continue;
		if (link_peers(l) == LINK_PEERS_IP || l->encap == LINK_ENCAP_UDP) {
			if (link_peers(l) == LINK_PEERS_IP)
				link_addr_parse(l->listen, &a);
			r.kind[i] = a.port != 0 ? DISCOVERY_IP : DISCOVERY_NO_LINK;
			r.link[i] = from_link_addr(&a);
		} else {
			r.kind[i] = DISCOVERY_MAC;
			memcpy(r.link[i].ip, &n->links[i].mac, RTE_ETHER_ADDR_LEN);
		}
	}
	return r;
}

/* Open the socket. Return 0 or -errno. */
static int
open_socket(void)
{
	const struct discovery_addr at = from_link_addr(&own.listen);
	struct sockaddr_storage s;
	const socklen_t size = to_sockaddr(&at, &s);
	const int fd = socket(own.listen.v6 ? AF_INET6 : AF_INET,
		SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&s, size) != 0) {
		const int e = -errno;

		close(fd);
		return e;
	}
	own.fd = fd;
	return 0;
}

static void
receive_all(void)
{
	for (unsigned i = 0; i < IN_A_TURN; i++) {
		struct sockaddr_storage from;
		socklen_t size = sizeof(from);
		uint8_t bytes[DISCOVERY_BYTES + 1];
		const ssize_t len = recvfrom(own.fd, bytes, sizeof(bytes), 0,
			(struct sockaddr *)&from, &size);

		if (len < 0)
			return;
		const struct discovery_addr at = from_sockaddr((struct sockaddr *)&from);

		discovery_in(own.d, &at, bytes, (uint32_t)len, now_ms());
	}
}

/* Wait for a datagram, for the next thing that is due, or for the end. Return false at the end. */
static bool
wait_until(uint64_t next)
{
	struct pollfd fds[2] = {{.fd = own.stop, .events = POLLIN},
		{.fd = own.fd, .events = POLLIN}};
	const uint64_t now = now_ms();

	if (own.fd < 0)
		next = now + BIND_WAIT;
	if (next > own.resolve_at)
		next = own.resolve_at;
	if (own.changed && next > own.taken_at + TAKE_EVERY)
		next = own.taken_at + TAKE_EVERY;
	poll(fds, own.fd < 0 ? 1 : 2, next > now ? (int)RTE_MIN(next - now, 10000u) : 0);
	return !(fds[0].revents & POLLIN);
}

static control_result
run(void *unused)
{
	uint64_t next = 0;

	(void)unused;
	while (wait_until(next)) {
		uint64_t now = now_ms();

		if (own.fd < 0 && open_socket() != 0)
			continue;
		if (now >= own.resolve_at)
			resolve_all(now);
		receive_all();
		next = discovery_tick(own.d, now_ms());
		atomic_store(&own.answered, discovery_seeds_answered(own.d));
		now = now_ms();
		if (own.changed && now >= own.taken_at + TAKE_EVERY)
			take_found(now);
	}
	return 0;
}

/* ------------------------------------------------------------------ begin and end */

int
discover_begin(struct node *n, bool waits, char *error, uint32_t error_len)
{
	struct discovery_config c = {
		.nodes_max = n->config.nodes_max,
		.send = send_to,
		.tell = told,
	};
	void *memory;
	int e;

	if (!n->config.discovers)
		return 0;
	own.node = n;
	link_addr_parse(n->config.discovery_listen, &own.listen);
	e = open_socket();
	if (e != 0 && !(waits && e == -EADDRINUSE)) {
		snprintf(error, error_len, "discovery.listen = %s: %s", n->config.discovery_listen,
			strerror(-e));
		return e;
	}
	c.self = self(n);
	snprintf(c.cluster, sizeof(c.cluster), "%s", n->config.discovery_cluster);
	memory = calloc(1, discovery_bytes(c.nodes_max));
	own.stop = eventfd(0, EFD_CLOEXEC);
	e = memory == NULL || own.stop < 0 || getrandom(c.key, sizeof(c.key), 0) != sizeof(c.key)
		? -ENOMEM
		: 0;
	if (e == 0) {
		own.d = discovery_init(memory, &c, now_ms());
		own.resolve_at = 0;
		e = control_thread_create(&own.thread, "pmx-discover", run, NULL);
	}
	if (e == 0)
		return 0;
	snprintf(error, error_len, "discovery: no memory, descriptor or thread");
	free(memory);
	own.d = NULL;
	return e;
}

void
discover_end(bool leaves)
{
	char path[RUN_DIR_MAX + INSTANCE_NAME_MAX + 8];

	if (own.d == NULL)
		return;
	if (eventfd_write(own.stop, 1) == 0)
		control_thread_join(own.thread);
	if (leaves && own.fd >= 0)
		discovery_leave(own.d);
	config_found_path(&own.node->config, path, sizeof(path));
	if (leaves)
		unlink(path);
	close(own.stop);
	if (own.fd >= 0)
		close(own.fd);
	own.fd = -1;
	free(own.d);
	own.d = NULL;
}

void
discover_tell(struct rte_tel_data *d)
{
	if (own.d == NULL)
		return;
	const struct config *c = &own.node->config;

	rte_tel_data_add_dict_string(d, "listen", c->discovery_listen);
	rte_tel_data_add_dict_string(d, "seed", c->discovery_seed);
	rte_tel_data_add_dict_string(d, "cluster", c->discovery_cluster);
	rte_tel_data_add_dict_string(d, "unknown", own.unknown);
	rte_tel_data_add_dict_uint(d, "seeds", own.seed_count);
	rte_tel_data_add_dict_uint(d, "answered", atomic_load(&own.answered));
	rte_tel_data_add_dict_uint(d, "found", atomic_load(&own.found));
}
