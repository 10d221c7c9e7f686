/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel UDP link: frames as datagrams of ordinary sockets, without root and without a DPDK
 * port. Owns one socket for each queue, the mbufs that wait for the next datagrams, and the table
 * of peers' addresses. This file opens, closes and counts, on the control thread; udp_rx.c and
 * udp_tx.c move frames. The cost of this driver is its system calls and the kernel's way of each
 * datagram, so it makes few of both.
 *
 * Design notes
 * 1. Several queues share the port by SO_REUSEPORT: the kernel picks a socket by a hash of both
 *    addresses, so what one peer's queue sends always arrives at the same queue.
 * 2. The sockets that receive stay unconnected: a connected one receives from one peer only. The
 *    first peers have a second one for sending, which is connected (udp_tx.c, note 4).
 * 3. The kernel may fragment: DF stays off (IP_PMTUDISC_DONT), so an mtu larger than the path's
 *    works. With IPv6 the sending host fragments, to the path MTU that routers report; the same
 *    setting keeps these reports from becoming errors of the socket.
 * 4. A link is either IPv4 or IPv6, like its own address, so IPv6 sockets are IPV6_V6ONLY.
 */
#include "udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_malloc.h>

/* buffer size requested of the kernel for each direction of a socket */
#define UDP_BUFFER_BYTES (8 << 20)
#define UDP_CONNECTIONS  64 /* most sockets for sending of a link: they count against ulimit -n */

static socklen_t
addr_len(bool v6)
{
	return v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void
put_addr(union udp_addr *to, const struct link_addr *from)
{
	memset(to, 0, sizeof(*to));
	if (from->v6) {
		to->v6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6,
			.sin6_port = htons(from->port),
			.sin6_scope_id = from->zone,
		};
		memcpy(&to->v6.sin6_addr, from->ip6, sizeof(from->ip6));
	} else {
		to->v4 = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(from->port),
			.sin_addr.s_addr = htonl(from->ip),
		};
	}
}

static bool
needs_zone(const union udp_addr *at)
{
	return at->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&at->v6.sin6_addr) &&
		at->v6.sin6_scope_id == 0;
}

/* Return whether nothing can be sent to the address. */
static bool
is_nowhere(const union udp_addr *at)
{
	return at->any.sa_family == AF_INET6
		? at->v6.sin6_port == 0 || IN6_IS_ADDR_UNSPECIFIED(&at->v6.sin6_addr)
		: at->v4.sin_port == 0 || at->v4.sin_addr.s_addr == 0;
}

static int
udp_check(const struct link_config *config, char *error, size_t error_size)
{
	struct link_addr addr = {0};
	union udp_addr at;
	int e = link_addr_parse(config->listen, &addr);

	if (e != 1) {
		snprintf(error, error_size,
			"udp: listen \"%s\"%s; allowed is IPv4-address:port or "
			"[IPv6-address]:port, such as 0.0.0.0:4791 or [::]:4791, port 0 = any",
			config->listen, e == -ENODEV ? " names no interface of this host" : "");
		return -EINVAL;
	}
	put_addr(&at, &addr);
	if (needs_zone(&at)) {
		snprintf(error, error_size,
			"udp: listen \"%s\"; a link-local address is one of an interface, as in "
			"[fe80::1%%eth0]:4791",
			config->listen);
		return -EINVAL;
	}
	return 0;
}

/* Check that a datagram and the pool's mbufs hold the longest frame. Returns 0, or -EINVAL with
 * l->error. */
static int
check_room(struct link *l)
{
	const uint32_t room = rte_pktmbuf_data_room_size(l->pool) - RTE_PKTMBUF_HEADROOM;
	const uint32_t most = RTE_MIN(room, (uint32_t)UDP_MTU_MAX);

	if (l->config.mtu != 0 && l->config.mtu <= most)
		return 0;
	snprintf(l->error, sizeof(l->error),
		"udp %s: mtu %u; allowed is 1..%u, what an "
		"mbuf and a datagram hold",
		l->config.listen, l->config.mtu, most);
	return -EINVAL;
}

/* Best effort: the limit of an unprivileged process is net.core.[rw]mem_max. */
static void
enlarge_buffers(int fd)
{
	const int bytes = UDP_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static int
set_options(int fd, bool v6, bool shared)
{
	const int on = 1, pmtu = v6 ? IPV6_PMTUDISC_DONT : IP_PMTUDISC_DONT;

	if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
		return -1;
	if (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
		return -1;
	return v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &pmtu, sizeof(pmtu))
		  : setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &pmtu, sizeof(pmtu));
}

/* Open a socket and bind it to *addr. Return its descriptor, or a negative errno. Port 0 in *addr
 * is replaced by the port that the kernel chose. */
static int
open_socket(struct link_addr *addr, bool shared)
{
	socklen_t size = addr_len(addr->v6);
	union udp_addr at;
	int fd, rc;

	put_addr(&at, addr);
	fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (set_options(fd, addr->v6, shared) != 0 || bind(fd, &at.any, size) != 0 ||
		getsockname(fd, &at.any, &size) != 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	addr->port = ntohs(addr->v6 ? at.v6.sin6_port : at.v4.sin_port);
	enlarge_buffers(fd);
	return fd;
}

static void
free_queue(struct udp_queue *q)
{
	rte_pktmbuf_free_bulk(q->bufs, q->ready);
	rte_pktmbuf_free_bulk(q->wait + q->waiting_at, q->waiting);
	for (uint32_t node = 0; q->connected != NULL && node < UDP_NODES; node++)
		if (q->connected[node] != 0)
			close(q->connected[node] - 1);
	if (q->fd >= 0)
		close(q->fd);
	free(q->connected);
	free(q->spill);
	free(q->linear);
	free(q->joined);
}

/* Free a link that may be partly open. */
static void
free_link(struct udp_link *u)
{
	uint16_t i;

	for (i = 0; u->queues != NULL && i < u->queue_count; i++)
		free_queue(&u->queues[i]);
	rte_free(u->queues);
	free(u->peers);
	rte_free(u);
}

/* Allocate the memory of a queue, from libc: zero pages that take no memory until they are used.
 * Return false if there is none. */
static bool
make_queue(struct udp_queue *q)
{
	q->fd = -1;
	q->connected = calloc(UDP_NODES, sizeof(q->connected[0]));
	q->spill = calloc(UDP_BURST, UDP_SPILL);
	q->linear = calloc(1, UDP_SPILL);
	q->joined = calloc(1, UDP_JOINED);
	return q->connected != NULL && q->spill != NULL && q->linear != NULL && q->joined != NULL;
}

/* Make a link without sockets. Return it, or NULL. */
static struct udp_link *
make_link(uint16_t queues, uint32_t room, bool v6)
{
	struct udp_link *u = rte_zmalloc("pmx_udp", sizeof(*u), 0);
	bool made = true;

	if (u == NULL)
		return NULL;
	u->room = room;
	u->queue_count = queues;
	u->v6 = v6;
	u->addr_len = addr_len(v6);
	u->peers = calloc(UDP_NODES, sizeof(u->peers[0]));
	u->queues = rte_zmalloc("pmx_udp", queues * sizeof(u->queues[0]), RTE_CACHE_LINE_SIZE);
	for (uint16_t i = 0; u->queues != NULL && i < queues; i++)
		made = make_queue(&u->queues[i]) && made;
	if (u->peers == NULL || u->queues == NULL || !made) {
		free_link(u);
		return NULL;
	}
	return u;
}

static int
open_sockets(struct link *l, struct udp_link *u, struct link_addr *addr)
{
	uint16_t i;
	int fd;

	for (i = 0; i < u->queue_count; i++) {
		fd = open_socket(addr, u->queue_count > 1);
		if (fd < 0) {
			snprintf(l->error, sizeof(l->error),
				"udp %s: %s; choose an address of this "
				"host and a port that is free",
				l->config.listen, strerror(-fd));
			return fd;
		}
		u->queues[i].fd = fd;
	}
	/* So that the caller learns the port if it asked for any. */
	link_addr_text(addr, l->config.listen);
	return 0;
}

static int
udp_open(struct link *l)
{
	struct link_addr addr = {0};
	struct udp_link *u;
	int rc;

	rc = check_room(l);
	if (rc != 0)
		return rc;
	link_addr_parse(l->config.listen, &addr); /* udp_check allowed it */
	l->config.encap = LINK_ENCAP_NONE;
	l->config.queues = RTE_MAX(RTE_MIN(l->config.queues, (uint32_t)UINT16_MAX), 1u);
	u = make_link((uint16_t)l->config.queues,
		rte_pktmbuf_data_room_size(l->pool) - RTE_PKTMBUF_HEADROOM, addr.v6);
	if (u == NULL) {
		snprintf(l->error, sizeof(l->error), "udp %s: no memory; give EAL more (-m)",
			l->config.listen);
		return -ENOMEM;
	}
	rc = open_sockets(l, u, &addr);
	if (rc != 0) {
		free_link(u);
		return rc;
	}
	l->priv = u;
	for (uint16_t i = 0; i < u->queue_count; i++)
		udp_rx_begin(l, &u->queues[i]);
	l->rx_queues = u->queue_count;
	l->tx_queues = u->queue_count;
	l->mtu = (uint16_t)l->config.mtu;
	l->up = true;
	return 0;
}

static void
udp_close(struct link *l)
{
	free_link(l->priv);
}

/* Open a socket of this host's address and any port for the queue, and connect it to the peer, if
 * the link may have one more. Without it the queue's own socket sends. */
static void
connect_queue(struct link *l, struct udp_queue *q, uint16_t node)
{
	struct udp_link *u = l->priv;
	struct link_addr own = {0};
	const int none = 0;

	if (q->connected[node] != 0) {
		close(q->connected[node] - 1);
		q->connected[node] = 0;
		u->connections--;
	}
	if (u->connections == UDP_CONNECTIONS)
		return;
	link_addr_parse(l->config.listen, &own); /* udp_open wrote it */
	own.port = 0;
	int fd = open_socket(&own, false);

	if (fd < 0)
		return;
	if (connect(fd, &u->peers[node].addr.any, u->addr_len) != 0) {
		close(fd);
		return;
	}
	/* what comes for it is not wanted */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &none, sizeof(none));
	q->connected[node] = fd + 1;
	u->connections++;
}

static int
udp_add_peer(struct link *l, uint16_t node, const struct link_addr *addr)
{
	struct udp_link *u = l->priv;
	union udp_addr at;

	put_addr(&at, addr);
	if (is_nowhere(&at))
		return -EINVAL;
	if (addr->v6 != u->v6)
		return -EAFNOSUPPORT;
	u->peers[node] = (struct udp_peer){.addr = at};
	for (uint16_t i = 0; i < u->queue_count; i++)
		connect_queue(l, &u->queues[i], node);
	return 0;
}

static int
udp_rx_fd(struct link *l, uint16_t queue)
{
	struct udp_link *u = l->priv;

	return u->queues[queue].fd;
}

/* Return how many datagrams the kernel has dropped since the socket was opened because it had no
 * room. */
static uint64_t
kernel_drops(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) != 0)
		return 0;
	return info[SK_MEMINFO_DROPS];
}

static void
udp_stats(struct link *l, struct link_stats *out)
{
	struct udp_link *u = l->priv;
	uint16_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < u->queue_count; i++) {
		const struct link_stats *stats = &u->queues[i].stats;

		out->rx_frames += stats->rx_frames;
		out->rx_bytes += stats->rx_bytes;
		out->tx_frames += stats->tx_frames;
		out->tx_bytes += stats->tx_bytes;
		out->rx_too_long += stats->rx_too_long;
		out->tx_refused += stats->tx_refused;
		/* An empty pool, or an engine that polls too seldom, fills the socket: the loss
		 * happens there and only the kernel can count it. */
		out->rx_no_mbuf += stats->rx_no_mbuf + kernel_drops(u->queues[i].fd);
	}
}

/* Say whether both listen at the same address; port 0 is any. */
static bool
udp_clashes(const struct link_config *a, const struct link_config *b)
{
	return strcmp(a->listen, b->listen) == 0 && strcmp(strrchr(a->listen, ':'), ":0") != 0;
}

const struct link_ops link_udp_ops = {
	.name = "udp",
	.peers = LINK_PEERS_IP,
	.slow = true,
	.clashes = udp_clashes,
	.check = udp_check,
	.open = udp_open,
	.close = udp_close,
	.rx = udp_rx,
	.tx = udp_tx,
	.add_peer = udp_add_peer,
	.rx_fd = udp_rx_fd,
	.stats = udp_stats,
};
