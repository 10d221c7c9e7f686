/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See interface.h. Reads what the kernel says of the interface, and changes nothing.
 *
 * Design notes
 * 1. An interface with an address gets `driver = udp`: it needs no port, passes routers, and is the
 *    fastest way for all but the shortest messages, since the kernel takes 64 KiB at once
 *    (doc/performance.md, over one veth pair). Without an address it gets frames of our own by
 *    AF_PACKET, which has shorter round trips there than AF_XDP in its copying mode.
 * 2. Nodes find their numbers without asking anybody: the number is the host's part of the address,
 *    so all of a network agree, and each may talk to each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "interface.h"

#define UDP_PORT   18515 /* that of link.listen, if [nodes] names none */
#define HOST_BITS  10    /* so that host parts are below limits.nodes, by default 1024 */
#define ETHER_MTU  1500
#define MTU_MOST   9000
#define IPV4_BYTES 28 /* of headers of IP and UDP */
#define IPV6_BYTES 48
#define NODES_MOST 256

/* The kernel says this of it. */
struct interface {
	unsigned flags, mtu;
	bool has4, has6;
	struct in_addr ip4, mask;
	struct in6_addr ip6;
	char text[INET6_ADDRSTRLEN]; /* of its address */
};

static int wrong(char *error, size_t error_len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int
wrong(char *error, size_t error_len, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error, error_len, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* ------------------------------------------------------------------ what is there */

bool
interface_ask(const char *name, unsigned long what, struct ifreq *r)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(r, 0, sizeof(*r));
	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", name);
	const bool told = fd >= 0 && ioctl(fd, what, r) == 0;

	if (fd >= 0)
		close(fd);
	return told;
}

static void
list_interfaces(char *out, size_t size)
{
	struct if_nameindex *all = if_nameindex();
	size_t used = 0;

	out[0] = 0;
	for (struct if_nameindex *i = all; i != NULL && i->if_index != 0 && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
			i->if_name);
	if_freenameindex(all);
}

static void
note_address(struct interface *f, const struct ifaddrs *a)
{
	if (a->ifa_addr->sa_family == AF_INET && !f->has4) {
		f->has4 = true;
		f->ip4 = ((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
		f->mask = ((const struct sockaddr_in *)(const void *)a->ifa_netmask)->sin_addr;
	} else if (a->ifa_addr->sa_family == AF_INET6 && !f->has6) {
		f->ip6 = ((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr;
		f->has6 = !IN6_IS_ADDR_LINKLOCAL(&f->ip6);
	}
}

static int
look_at(const char *name, struct interface *f, char *error, size_t error_len)
{
	char others[256];
	struct ifreq r = {0};
	struct ifaddrs *all;
	const bool there = strlen(name) < IFNAMSIZ && interface_ask(name, SIOCGIFFLAGS, &r);

	*f = (struct interface){.mtu = ETHER_MTU, .flags = (unsigned short)r.ifr_flags};
	if (there && interface_ask(name, SIOCGIFMTU, &r))
		f->mtu = (unsigned)r.ifr_mtu;
	if (!there) {
		list_interfaces(others, sizeof(others));
		return wrong(error, error_len, "--link %s: no such interface here, but %s", name,
			others);
	}
	if (!(f->flags & IFF_UP))
		return wrong(error, error_len,
			"--link %s: the interface is down: ip link set %s up", name, name);
	if (getifaddrs(&all) != 0)
		return wrong(error, error_len, "--link %s: %s", name, strerror(errno));
	for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
		if (a->ifa_addr != NULL && strcmp(a->ifa_name, name) == 0)
			note_address(f, a);
	}
	freeifaddrs(all);
	if (f->has4)
		inet_ntop(AF_INET, &f->ip4, f->text, sizeof(f->text));
	else if (f->has6)
		inet_ntop(AF_INET6, &f->ip6, f->text, sizeof(f->text));
	return 0;
}

/* ------------------------------------------------------------------ nodes */

/* Return whether the host, an address or a name, has the interface's address. */
static bool
is_own(const struct interface *f, const char *host)
{
	const struct addrinfo hints = {
		.ai_family = f->has4 ? AF_INET : AF_INET6,
		.ai_socktype = SOCK_DGRAM,
	};
	struct addrinfo *all = NULL;
	bool own = false;

	if (getaddrinfo(host, NULL, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *a = all; a != NULL; a = a->ai_next) {
		own |= f->has4
			? ((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr.s_addr ==
				f->ip4.s_addr
			: memcmp(&((const struct sockaddr_in6 *)(const void *)a->ai_addr)
					  ->sin6_addr,
				  &f->ip6, sizeof(f->ip6)) == 0;
	}
	freeaddrinfo(all);
	return own;
}

static bool
read_number(const char *text, long *number)
{
	char *end;

	*number = strtol(text, &end, 10);
	return *text != 0 && *end == 0 && *number >= 0;
}

/* Write the nodes that the user has listed to `table`, and this one's number to *own. */
static int
listed_nodes(const struct interface_wish *w, const struct interface *f, FILE *table, long *own,
	char *error, size_t error_len)
{
	char *list = strdup(w->nodes), *save = NULL;
	long n = 0;

	*own = -1;
	for (char *host = list != NULL ? strtok_r(list, ", ", &save) : NULL; host != NULL;
		host = strtok_r(NULL, ", ", &save), n++) {
		if (*own < 0 && is_own(f, host))
			*own = n;
		fprintf(table, "%ld = %s\n", n, host);
	}
	free(list);
	if (n > NODES_MOST)
		return wrong(error, error_len, "--nodes: %ld nodes, and %d are the most here", n,
			NODES_MOST);
	if (w->node != NULL && !read_number(w->node, own))
		return wrong(error, error_len, "--node %s: not a number", w->node);
	if (*own < 0 || *own >= n)
		return wrong(error, error_len,
			"--nodes %s: none of them is this host, whose %s has %s: add it, or say "
			"which it is with --node",
			w->nodes, w->name, f->text);
	return 0;
}

/* Set this node's number, if the other nodes are found by a seed. */
static int
found_nodes(const struct interface_wish *w, const struct interface *f, long *own, char *error,
	size_t error_len)
{
	const uint32_t hosts = ~ntohl(f->mask.s_addr);

	if (w->nodes != NULL)
		return wrong(error, error_len, "--seed %s: not together with --nodes", w->seed);
	if (w->node == NULL && (!f->has4 || hosts < 2 || hosts >= 1u << HOST_BITS))
		return wrong(error, error_len,
			"--seed %s: say this node's number, which no other node has: --node N",
			w->seed);
	*own = ntohl(f->ip4.s_addr) & hosts;
	if (w->node != NULL && !read_number(w->node, own))
		return wrong(error, error_len, "--node %s: not a number", w->node);
	return 0;
}

/* Write all hosts of the interface's network to `table`: the host's part of the address is the
 * number. */
static int
network_nodes(const struct interface_wish *w, const struct interface *f, FILE *table, long *own,
	char *error, size_t error_len)
{
	const uint32_t ip = ntohl(f->ip4.s_addr), mask = ntohl(f->mask.s_addr), hosts = ~mask;
	char text[INET_ADDRSTRLEN];

	if (w->node != NULL)
		return wrong(error, error_len,
			"--node %s: without --nodes numbers are those of the addresses on %s: list "
			"the nodes for others",
			w->node, w->name);
	if (hosts < 2 || hosts >= 1u << HOST_BITS)
		return wrong(error, error_len,
			"--link %s: the network of %s/%d is too %s for node numbers out of its "
			"addresses: list its nodes, in the same order on each: --nodes %s,...",
			w->name, f->text, __builtin_popcount(mask), hosts < 2 ? "small" : "large",
			f->text);
	for (uint32_t n = 1; n < hosts; n++) {
		const struct in_addr a = {htonl((ip & mask) | n)};

		fprintf(table, "%u = %s\n", n, inet_ntop(AF_INET, &a, text, sizeof(text)));
	}
	*own = ip & hosts;
	return 0;
}

/* Write the lines of [nodes] for driver udp to `table`, and this node's number to *own. */
static int
write_nodes(const struct interface_wish *w, const struct interface *f, FILE *table, long *own,
	char *error, size_t error_len)
{
	if (!f->has4 && !f->has6)
		return wrong(error, error_len, "--link %s: driver udp needs an address on it",
			w->name);
	if (w->seed != NULL)
		return found_nodes(w, f, own, error, error_len);
	if (w->nodes != NULL)
		return listed_nodes(w, f, table, own, error, error_len);
	if (f->has4)
		return network_nodes(w, f, table, own, error, error_len);
	return wrong(error, error_len,
		"--link %s: node numbers come from IPv4 addresses, and it has none: list its "
		"nodes, in the same order on each: --nodes %s,...",
		w->name, f->text);
}

/* ------------------------------------------------------------------ choices */

/* Write the sections [discovery] and [security], as far as they are wanted. */
static void
write_wishes(const struct interface_wish *w, FILE *ini, FILE *why)
{
	char path[PATH_MAX];

	if (w->seed != NULL) {
		fprintf(why, "%s: the other nodes are found by %s\n", w->name, w->seed);
		fprintf(ini, "[discovery]\nseed = %s\n", w->seed);
	}
	if (w->seal != NULL) {
		fprintf(why, "%s: frames are sealed: only nodes with a copy of %s are spoken to\n",
			w->name, w->seal);
		fprintf(ini, "[security]\nmode = seal\ncluster = %s\n",
			realpath(w->seal, path) != NULL ? path : w->seal);
	}
}

static int
by_udp(const struct interface_wish *w, const struct interface *f, FILE *ini, FILE *why, char *error,
	size_t error_len)
{
	char *table = NULL;
	size_t len;
	FILE *t = open_memstream(&table, &len);
	const unsigned headers = f->has4 ? IPV4_BYTES : IPV6_BYTES;
	const unsigned mtu = (f->mtu < MTU_MOST ? f->mtu : MTU_MOST) - headers;
	long own = 0;

	if (t == NULL)
		return wrong(error, error_len, "%s", strerror(errno));
	const int result = write_nodes(w, f, t, &own, error, error_len);

	fclose(t);
	if (result == 0) {
		fprintf(why,
			"%s: driver udp, since it has the address %s: frames pass routers, and the "
			"kernel takes long messages in pieces of 64 KiB\n",
			w->name, f->text);
		fprintf(why, "%s: this is node %ld, by %s\n", w->name, own,
			w->node != NULL            ? "--node"
				: w->nodes != NULL ? "its place in --nodes"
				: w->seed != NULL  ? "the host's part of its address"
						   : "the host's part of its address; each host of "
						     "the network may be one");
		if (f->mtu != ETHER_MTU)
			fprintf(why,
				"%s: its MTU is %u, so frames are of %u bytes, as they must be on "
				"all nodes\n",
				w->name, f->mtu, mtu);
		fprintf(ini, "[node]\nid = %ld\nname = %s\n", own, w->instance);
		fprintf(ini, "[link 0]\ndriver = udp\nlisten = %s%s%s:%d\n", f->has4 ? "" : "[",
			f->text, f->has4 ? "" : "]", UDP_PORT);
		if (f->mtu != ETHER_MTU)
			fprintf(ini, "mtu = %u\n", mtu);
		write_wishes(w, ini, why);
		fprintf(ini, "[nodes]\n%s", table);
	}
	free(table);
	return result;
}

static int
by_frames(const struct interface_wish *w, const struct interface *f, char *vdev, const char *driver,
	FILE *ini, FILE *why, char *error, size_t error_len)
{
	long own;

	if (w->nodes != NULL)
		return wrong(error, error_len,
			"--nodes %s: frames on %s go to the one host at its other end; for more "
			"write a configuration with their MAC addresses",
			w->nodes, w->name);
	if (w->seed != NULL && w->node == NULL)
		return found_nodes(w, &(struct interface){0}, &own, error, error_len);
	if (w->seed == NULL &&
		(w->node == NULL || (strcmp(w->node, "0") != 0 && strcmp(w->node, "1") != 0)))
		return wrong(error, error_len,
			"--link %s: %s, so frames go to the one host at its other end: say which "
			"of the two this is, --node 0 or --node 1",
			w->name,
			w->driver != NULL ? "of this driver nodes have no addresses"
					  : "it has no address");
	snprintf(vdev, VDEV_BYTES, "--vdev=net_%s0,iface=%s", driver, w->name);
	fprintf(why, "%s: driver %s, %s\n", w->name, driver,
		w->driver != NULL ? "as asked for"
				  : "since it has no address: frames of our own; its round trips "
				    "are shorter than af_xdp's where that copies");
	fprintf(why, "%s: this is node %s%s\n", w->name, w->node,
		w->seed != NULL ? "" : " of the two at its ends");
	fprintf(ini, "[node]\nid = %s\nname = %s\n", w->node, w->instance);
	fprintf(ini, "[link 0]\ndriver = ethdev\nport = net_%s0\n", driver);
	if (f->mtu != ETHER_MTU)
		fprintf(ini, "mtu = %u\n", f->mtu < MTU_MOST ? f->mtu : MTU_MOST);
	write_wishes(w, ini, why);
	if (w->seed == NULL)
		fprintf(ini, "[nodes]\n0 = auto\n1 = auto\n");
	return 0;
}

int
interface_choose(const struct interface_wish *w, char *vdev, FILE *ini, FILE *why, char *error,
	size_t error_len)
{
	struct interface f;
	int result = look_at(w->name, &f, error, error_len);

	vdev[0] = 0;
	if (result != 0)
		return result;
	const char *driver = w->driver != NULL ? w->driver : f.has4 || f.has6 ? "udp" : "af_packet";

	fprintf(ini, "# for %s, by pmx-dpdk --link\n", w->name);
	if (strcmp(driver, "udp") == 0)
		return by_udp(w, &f, ini, why, error, error_len);
	if (strcmp(driver, "af_packet") == 0 || strcmp(driver, "af_xdp") == 0)
		return by_frames(w, &f, vdev, driver, ini, why, error, error_len);
	return wrong(error, error_len, "--driver %s: udp, af_packet or af_xdp", driver);
}
