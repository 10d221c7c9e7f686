/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See discover.h. lib/discovery says what is sent and learnt.
 *
 * Design notes
 * 1. Found nodes are checked and taken one by one (lib/node/reload.h): one that this node cannot
 *    reach is left out, and does not keep others from being taken.
 * 2. They are also written into a file beside the primary's socket, which a primary that takes over
 *    begins with.
 * 3. Names of seeds are looked up on a thread of their own, which nobody waits for: a resolver may
 *    be silent for a long time.
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
#include "node/dpdk_names.h"
#include "primary/health.h"

#define TAKE_EVERY    20   /* ms from one change of the node's table to the next */
#define TAKE_AGAIN    1000 /* ms, if a lane did not answer */
#define TAKE_MOST     64   /* nodes at once: the lanes stand still meanwhile */
#define RESOLVE_EVERY 5000 /* ms, while names of seeds are not known */
#define SETTLE_MS     2000 /* for which a node waits for seeds that are silent */
#define DECISION_MS   5000 /* ... that run, and ask whether another has its number */
#define BIND_WAIT     50   /* ms, while another primary has the socket */
#define IN_A_TURN     64   /* datagrams */
#define LOOKUP_MOST   64   /* addresses of all seeds */

enum lookup_state {
	LOOKUP_RUNS,
	LOOKUP_DONE,
	LOOKUP_ABANDONED, /* who asked does not wait any more */
};

/* A look for the addresses of seeds. Whoever is the last to need it frees it. */
struct lookup {
	_Atomic int state; /* enum lookup_state */
	int wake;          /* eventfd, written when it is done */
	bool v6;
	char names[256], unknown[256]; /* unknown: those without an address, and why */
	struct discovery_addr found[LOOKUP_MOST];
	uint32_t count;
};

static struct {
	struct node *node;
	struct discovery *d;
	control_thread thread;
	int fd, stop, wake;
	struct link_addr listen;
	struct lookup *lookup; /* NULL: none is under way */
	uint64_t resolve_at;   /* ms */
	uint64_t take_at;      /* ms: when what has changed may be taken */
	uint8_t *changed;      /* by number: since it was taken */
	bool any_changed;
	uint32_t claimed_by; /* generation of the last node that was refused */
	char name[DISCOVERY_NAME_MAX], unknown[256];
	_Atomic bool lanes_run; /* else nobody would let the lanes stand still */
	_Atomic uint32_t found, seeds, answered, undecided;
} own = {.fd = -1, .stop = -1, .wake = -1};

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
note_seed(struct lookup *l, const struct discovery_addr *seed)
{
	if (l->count < LOOKUP_MOST)
		l->found[l->count++] = *seed;
}

/* Find all addresses of HOST or HOST:PORT. Return 0, or an error of getaddrinfo(). */
static int
resolve(struct lookup *l, const char *text)
{
	const struct addrinfo hints = {
		.ai_family = l->v6 ? AF_INET6 : AF_INET,
		.ai_socktype = SOCK_DGRAM,
		.ai_flags = l->v6 ? AI_V4MAPPED : 0,
	};
	struct link_addr numeric = {.port = DISCOVERY_PORT};
	const char *colon = strchr(text, ':');
	struct addrinfo *found;
	char host[256];
	uint32_t port = DISCOVERY_PORT;

	if (link_addr_parse(text, &numeric) >= 0) {
		const struct discovery_addr seed = from_link_addr(&numeric);

		note_seed(l, &seed);
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
		note_seed(l, &seed);
	}
	freeaddrinfo(found);
	return 0;
}

static void
lookup_free(struct lookup *l)
{
	close(l->wake);
	free(l);
}

static control_result
lookup_run(void *arg)
{
	struct lookup *l = arg;
	char *save = NULL;

	for (char *one = strtok_r(l->names, ", \t", &save); one;
		one = strtok_r(NULL, ", \t", &save)) {
		const int e = resolve(l, one);
		const size_t used = strlen(l->unknown);

		if (e != 0)
			snprintf(l->unknown + used, sizeof(l->unknown) - used, "%s%s: %s",
				used ? "; " : "", one, gai_strerror(e));
	}
	eventfd_write(l->wake, 1);
	if (atomic_exchange(&l->state, LOOKUP_DONE) == LOOKUP_ABANDONED)
		lookup_free(l);
	return 0;
}

/* Begin a look for the seeds of the section. */
static void
lookup_begin(void)
{
	struct lookup *l = calloc(1, sizeof(*l));
	control_thread thread;

	if (l == NULL)
		return;
	l->v6 = own.listen.v6;
	l->wake = dup(own.wake);
	snprintf(l->names, sizeof(l->names), "%s", own.node->config.discovery_seed);
	if (l->wake < 0 || control_thread_create(&thread, "pmx-resolve", lookup_run, l) != 0) {
		free(l);
		return;
	}
	control_thread_detach(thread);
	own.lookup = l;
}

/* Take what a look has found, if it is done. */
static void
lookup_take(uint64_t now)
{
	struct lookup *l = own.lookup;

	if (l == NULL || atomic_load(&l->state) != LOOKUP_DONE)
		return;
	own.lookup = NULL;
	discovery_seeds(own.d, l->found, l->count, now);
	if (*l->unknown != 0 && strcmp(l->unknown, own.unknown) != 0)
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"discovery: no address of a seed, which is tried again: %s", l->unknown);
	memcpy(own.unknown, l->unknown, sizeof(own.unknown));
	own.resolve_at = *l->unknown != 0 ? now + RESOLVE_EVERY : UINT64_MAX;
	lookup_free(l);
}

/* Add a node of [nodes] that is to be asked for its addresses. */
static void
add_host(void *arg, uint32_t number, const struct config_peer *peer)
{
	const uint64_t *now = arg;
	const struct discovery_addr seed = from_link_addr(&peer->host);

	if (number != own.node->config.id && peer->host.port != 0 && !peer->found)
		discovery_seeds(own.d, &seed, 1, *now);
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
		own.changed[node->number] = 1;
		own.any_changed = true;
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

/* Make the node's entry of the table: its addresses on the links that this node has too. */
static void
make_peer(struct config_peer *peer, const struct discovery_record *r)
{
	const struct config *c = &own.node->config;
	struct link_addr listen;

	*peer = (struct config_peer){.host = to_link_addr(&r->at), .generation = r->generation};
	/* this node's own name is nobody else's */
	if (channel_name_ok(r->name) && strcmp(r->name, own.name) != 0)
		snprintf(peer->name, sizeof(peer->name), "%s", r->name);
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		const struct link_config *l = &c->links[i].link;
		const bool by_ip = link_by_ip(l);
		const struct link_addr a = to_link_addr(&r->link[i]);

		if (!c->links[i].used || link_peers(l) == LINK_PEERS_NONE ||
			r->kind[i] != (by_ip ? DISCOVERY_IP : DISCOVERY_MAC))
			continue;
		listen = (struct link_addr){0};
		link_addr_parse(l->listen, &listen);
		if (by_ip && a.v6 != listen.v6)
			continue;
		if (by_ip)
			peer->addr[i] = a;
		else
			memcpy(&peer->addr[i].mac, r->link[i].ip, sizeof(peer->addr[i].mac));
		peer->links |= (uint8_t)(1u << i);
	}
}

/* Write a found node as a line of [nodes]. */
static void
write_node(void *file, uint32_t number, const struct config_peer *peer)
{
	char text[LINK_ADDR_MAX];

	if (!peer->found)
		return;
	fprintf(file, "%u =", number);
	for (uint32_t left = peer->links; left != 0; left &= left - 1) {
		const unsigned link = (unsigned)__builtin_ctz(left);

		link_peer_text(&own.node->config.links[link].link, &peer->addr[link], text);
		fprintf(file, " %s link=%u", text, link);
	}
	if (*peer->name != 0)
		fprintf(file, " name=%s", peer->name);
	link_addr_text(&peer->host, text);
	fprintf(file, " at=%s life=%u\n", text, peer->generation);
	atomic_fetch_add(&own.found, 1);
}

/* Write the file of what was found. */
static void
write_found(void)
{
	char path[RUN_DIR_MAX + INSTANCE_NAME_MAX + 8];
	char temporary[RUN_DIR_MAX + INSTANCE_NAME_MAX + 16], dir[RUN_DIR_MAX];
	FILE *f = NULL;
	int e = run_dir_make(dir, sizeof(dir));

	config_found_path(&own.node->config, path, sizeof(path));
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	if (e == 0 && (f = fopen(temporary, "we")) == NULL)
		e = -errno;
	if (e == 0) {
		fputs("# The nodes that this primary has found. It writes this file by itself.\n"
		      "[nodes]\n",
			f);
		atomic_store(&own.found, 0);
		reload_each_peer(write_node, f);
		if (fchmod(fileno(f), 0644) != 0 || fflush(f) != 0)
			e = -errno;
		fclose(f);
	}
	if (e == 0 && rename(temporary, path) != 0)
		e = -errno;
	if (e != 0)
		log_say(LOG_NODE, RTE_LOG_ERR,
			"discovery: %s: %s: a primary that takes over will not know what was found",
			path, strerror(-e));
}

/* Let the node know what has changed. */
static void
take_changed(uint64_t now)
{
	static struct reload_found found[TAKE_MOST]; /* of the one thread that discovers */
	char error[512] = "";
	uint32_t count = 0;
	bool more = false;

	for (uint32_t i = 0; i < own.node->config.nodes_max && !more; i++) {
		const struct discovery_record *r = discovery_node(own.d, i);

		more = own.changed[i] && count == TAKE_MOST;
		if (!own.changed[i] || more)
			continue;
		found[count] = (struct reload_found){.number = (uint16_t)i};
		if (r != NULL)
			make_peer(&found[count].peer, r);
		count++;
	}
	const int e = reload_take_found(found, count, error, sizeof(error));

	own.take_at = now + TAKE_EVERY;
	if (e == -ETIMEDOUT || e == -ESHUTDOWN) {
		own.take_at = now + TAKE_AGAIN;
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		own.changed[found[i].number] = 0;
	own.any_changed = more;
	if (e != 0)
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"discovery: a found node is left out, since this one cannot reach it: %s",
			error);
	write_found();
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
	snprintf(own.name, sizeof(own.name), "%s", r.name);
	for (unsigned i = 0; i < n->link_count; i++) {
		const struct link_config *l = &n->links[i].config;
		struct link_addr a = {.ip = l->net.ip, .port = l->udp_port};

		if (link_peers(l) == LINK_PEERS_NONE)
			continue;
		if (link_by_ip(l)) {
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
	struct pollfd fds[3] = {
		{.fd = own.stop, .events = POLLIN},
		{.fd = own.wake, .events = POLLIN},
		{.fd = own.fd, .events = POLLIN},
	};
	const uint64_t now = now_ms();
	eventfd_t unused;

	if (own.fd < 0)
		next = now + BIND_WAIT;
	if (own.lookup == NULL && next > own.resolve_at)
		next = own.resolve_at;
	if (own.any_changed && atomic_load(&own.lanes_run) && next > own.take_at)
		next = own.take_at;
	poll(fds, own.fd < 0 ? 2 : 3, next > now ? (int)RTE_MIN(next - now, 10000u) : 0);
	if (fds[1].revents & POLLIN)
		eventfd_read(own.wake, &unused);
	return !(fds[0].revents & POLLIN);
}

static control_result
discover_run(void *unused)
{
	uint64_t next = 0, hosts_at = 0;

	(void)unused;
	while (wait_until(next)) {
		uint64_t now = now_ms();

		if (own.fd < 0 && open_socket() != 0)
			continue;
		lookup_take(now);
		if (own.lookup == NULL && now >= own.resolve_at)
			lookup_begin();
		if (now >= hosts_at) {
			hosts_at = now + RESOLVE_EVERY; /* a reload may bring others */
			reload_each_peer(add_host, &now);
		}
		receive_all();
		next = discovery_tick(own.d, now_ms());
		atomic_store(&own.answered, discovery_seeds_answered(own.d));
		atomic_store(&own.undecided, discovery_seeds_undecided(own.d));
		atomic_store(&own.seeds, discovery_seeds_known(own.d));
		now = now_ms();
		if (own.any_changed && now >= own.take_at && atomic_load(&own.lanes_run))
			take_changed(now);
	}
	return 0;
}

/* ------------------------------------------------------------------ begin and end */

/* Remember a node that an earlier primary has found. */
static void
remember(void *arg, uint32_t number, const struct config_peer *peer)
{
	const uint64_t *now = arg;
	struct discovery_record r = {
		.number = (uint16_t)number,
		.generation = peer->generation,
		.at = from_link_addr(&peer->host),
	};

	if (!peer->found)
		return;
	snprintf(r.name, sizeof(r.name), "%s", peer->name);
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++) {
		if (!(peer->links >> i & 1))
			continue;
		r.kind[i] = link_by_ip(&own.node->config.links[i].link) ? DISCOVERY_IP
									: DISCOVERY_MAC;
		if (r.kind[i] == DISCOVERY_IP)
			r.link[i] = from_link_addr(&peer->addr[i]);
		else
			memcpy(r.link[i].ip, &peer->addr[i].mac, RTE_ETHER_ADDR_LEN);
	}
	discovery_remember(own.d, &r, *now);
}

/* Free what discover_begin() made. The thread does not run. */
static void
free_all(void)
{
	struct lookup *l = own.lookup;

	if (l != NULL && atomic_exchange(&l->state, LOOKUP_ABANDONED) == LOOKUP_DONE)
		lookup_free(l);
	own.lookup = NULL;
	for (int *fd = &own.fd;; fd = fd == &own.fd ? &own.stop : &own.wake) {
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		if (fd == &own.wake)
			break;
	}
	free(own.changed);
	free(own.d);
	own.changed = NULL;
	own.d = NULL;
}

int
discover_begin(struct node *n, bool waits, char *error, uint32_t error_len)
{
	struct discovery_config c = {
		.nodes_max = n->config.nodes_max,
		.send = send_to,
		.tell = told,
	};
	const uint64_t now = now_ms();
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
	own.changed = calloc(c.nodes_max, 1);
	own.stop = eventfd(0, EFD_CLOEXEC);
	own.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e = memory == NULL || own.changed == NULL || own.stop < 0 || own.wake < 0 ||
			getrandom(c.key, sizeof(c.key), 0) != sizeof(c.key)
		? -ENOMEM
		: 0;
	if (e == 0) {
		own.d = discovery_init(memory, &c, now);
		own.resolve_at = 0;
		reload_each_peer(remember, (void *)&now);
		e = control_thread_create(&own.thread, "pmx-discover", discover_run, NULL);
	}
	if (e == 0)
		return 0;
	snprintf(error, error_len, "discovery: no memory, descriptor or thread");
	if (own.d == NULL)
		free(memory);
	free_all();
	return e;
}

void
discover_end(bool leaves)
{
	if (own.d == NULL)
		return;
	if (eventfd_write(own.stop, 1) == 0)
		control_thread_join(own.thread);
	if (leaves && own.fd >= 0)
		discovery_leave(own.d);
	if (leaves)
		discover_forget(&own.node->config);
	free_all();
}

/* Return whether a seed may still refuse this node, which has waited for so long. Without seeds
 * nobody refuses. */
static bool
may_be_refused(uint64_t waited_ms)
{
	if (*own.node->config.discovery_seed == 0 || own.node->ends_as_twin ||
		atomic_load(&own.node->engines[0].stop))
		return false;
	if (atomic_load(&own.undecided) > 0)
		return waited_ms < DECISION_MS;
	return waited_ms < SETTLE_MS &&
		(atomic_load(&own.seeds) == 0 ||
			atomic_load(&own.answered) != atomic_load(&own.seeds));
}

void
discover_settle(bool waits)
{
	if (own.d == NULL)
		return;
	const uint64_t began = now_ms();

	while (waits && may_be_refused(now_ms() - began))
		usleep(1000);
	atomic_store(&own.lanes_run, true);
	eventfd_write(own.wake, 1);
}

void
discover_forget(const struct config *c)
{
	char path[RUN_DIR_MAX + INSTANCE_NAME_MAX + 16];

	config_found_path(c, path, sizeof(path));
	unlink(path);
	strcat(path, ".new");
	unlink(path);
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
	rte_tel_data_add_dict_uint(d, "seeds", atomic_load(&own.seeds));
	rte_tel_data_add_dict_uint(d, "answered", atomic_load(&own.answered));
	rte_tel_data_add_dict_uint(d, "found", atomic_load(&own.found));
}
