/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel UDP link: frames as datagrams of ordinary sockets, without root and without a DPDK
 * port. Owns one socket for each queue, the mbufs that wait for the next datagrams, and the table
 * of peers' addresses. tx and rx of queue q run on the lcore of q's engine, the rest on the control
 * thread. The cost of this driver is its system calls, so it makes one for each burst.
 *
 * Design notes
 * 1. A single frame costs less with recv and sendto than with recvmmsg and sendmmsg, and so does an
 *    empty poll (measured on Linux 6.18, loopback: empty poll 175 against 260 ns, round trip of a
 *    frame 1.6 against 2.0 us); many frames cost less with the latter. So rx calls recv until two
 *    polls in a row brought a frame, then recvmmsg until one brings less than two.
 * 2. Several queues share the port by SO_REUSEPORT: the kernel picks a socket by a hash of both
 *    addresses, so what one peer's queue sends always arrives at the same queue.
 * 3. The sockets stay unconnected: a connected one sends faster, but receives from one peer only.
 * 4. The kernel may fragment: DF stays off (IP_PMTUDISC_DONT), so an mtu larger than the path's
 *    works. With IPv6 the sending host fragments, to the path MTU that routers report; the same
 *    setting keeps these reports from becoming errors of the socket.
 * 5. A link is either IPv4 or IPv6, like its own address, so IPv6 sockets are IPV6_V6ONLY.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* recvmmsg, sendmmsg */
#endif
#include "link.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_malloc.h>

#define UDP_BURST        32    /* datagrams of one system call */
#define UDP_MTU_MAX      65507 /* 65535 without IPv4 and UDP headers */
#define UDP_NODES        65536 /* every node number */
/* buffer size requested of the kernel for each direction of a socket */
#define UDP_BUFFER_BYTES (8 << 20)
#define UDP_BUSY_POLLS   2 /* note 1: polls with a frame before recvmmsg is used */

struct udp_queue {
	int fd;         /* -1: not open */
	uint32_t ready; /* mbufs in bufs[], at its start, for the next datagrams */
	uint32_t busy;  /* polls in a row that brought a frame, up to UDP_BUSY_POLLS */
	struct link_stats stats;
	struct rte_mbuf *bufs[UDP_BURST];
	struct mmsghdr rx_msgs[UDP_BURST], tx_msgs[UDP_BURST]; /* [i] points to iov [i] */
	struct iovec rx_iov[UDP_BURST], tx_iov[UDP_BURST];
} __rte_cache_aligned;

union udp_addr {
	struct sockaddr any; /* sa_family 0: unknown */
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct udp_link {
	uint32_t room; /* of an mbuf, bytes */
	uint16_t queue_count;
	bool v6;
	socklen_t addr_len;    /* length of each address: a link has one family */
	union udp_addr *peers; /* by node number */
	struct udp_queue *queues;
};

/* Allocate mbufs for the next datagrams; fewer, or none, if the pool is empty: then datagrams wait
 * in the socket. */
static void
refill(struct udp_queue *q, struct rte_mempool *pool)
{
	if (likely(rte_pktmbuf_alloc_bulk(pool, &q->bufs[q->ready], UDP_BURST - q->ready) == 0)) {
		q->ready = UDP_BURST;
		return;
	}
	while (q->ready < UDP_BURST && (q->bufs[q->ready] = rte_pktmbuf_alloc(pool)) != NULL)
		q->ready++;
}

/* Give a filled mbuf to the engine, or drop a datagram that was cut off. Returns frames given. */
static uint16_t
accept_frame(struct udp_queue *q, struct rte_mbuf *m, uint32_t len_bytes, bool too_long,
	struct rte_mbuf **out)
{
	if (unlikely(too_long)) {
		q->stats.rx_too_long++;
		rte_pktmbuf_free(m);
		return 0;
	}
	m->data_len = (uint16_t)len_bytes;
	m->pkt_len = len_bytes;
	q->stats.rx_frames++;
	q->stats.rx_bytes += len_bytes;
	*out = m;
	return 1;
}

static uint16_t
rx_one(struct udp_queue *q, uint32_t room, struct rte_mbuf **bufs)
{
	struct rte_mbuf *m = q->bufs[q->ready - 1];
	/* MSG_TRUNC returns the datagram's own length even where it exceeds the room. */
	ssize_t len = recv(q->fd, rte_pktmbuf_mtod(m, void *), room, MSG_TRUNC);

	if (len < 0) {
		q->busy = 0;
		return 0;
	}
	q->busy++;
	q->ready--;
	return accept_frame(q, m, (uint32_t)len, (size_t)len > room, bufs);
}

static uint16_t
rx_many(struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	uint32_t i, want = RTE_MIN(n, q->ready);
	uint16_t accepted = 0;
	int got;

	/* From the end, so that the mbufs that stay are at the start. */
	for (i = 0; i < want; i++)
		q->rx_iov[i].iov_base = rte_pktmbuf_mtod(q->bufs[q->ready - 1 - i], void *);
	got = recvmmsg(q->fd, q->rx_msgs, want, 0, NULL);
	if (got < 2)
		q->busy = 0;
	for (i = 0; (int)i < got; i++)
		accepted += accept_frame(q, q->bufs[--q->ready], q->rx_msgs[i].msg_len,
			q->rx_msgs[i].msg_hdr.msg_flags & MSG_TRUNC, &bufs[accepted]);
	return accepted;
}

/*
 * Errors of recv are ignored: EAGAIN is an empty poll, and a pending error from an ICMP message
 * (ECONNREFUSED) is cleared by the call.
 */
static uint16_t
udp_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct udp_link *u = l->priv;
	struct udp_queue *q = &u->queues[queue];

	if (q->ready < UDP_BURST / 2)
		refill(q, l->pool);
	if (unlikely(q->ready == 0 || n == 0))
		return 0;
	if (q->busy < UDP_BUSY_POLLS)
		return rx_one(q, u->room, bufs);
	return rx_many(q, bufs, n);
}

/* Send 1..UDP_BURST frames to known peers. Returns how many were sent, or -1 with the errno of the
 * first. */
static int
send_run(const struct udp_link *u, struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t i;

	if (n == 1) {
		ssize_t sent = sendto(q->fd, rte_pktmbuf_mtod(bufs[0], void *), bufs[0]->data_len,
			0, &u->peers[bufs[0]->port].any, u->addr_len);

		return sent < 0 ? -1 : 1;
	}
	for (i = 0; i < n; i++) {
		q->tx_iov[i].iov_base = rte_pktmbuf_mtod(bufs[i], void *);
		q->tx_iov[i].iov_len = bufs[i]->data_len;
		q->tx_msgs[i].msg_hdr.msg_name = &u->peers[bufs[i]->port];
	}
	return sendmmsg(q->fd, q->tx_msgs, n, 0);
}

/*
 * May sending succeed if the frame is offered again? Yes if there is no room now, or if the error
 * belongs to an earlier frame. Any other error (no route, forbidden, too long) would recur.
 */
static bool
worth_retry(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ||
		error == EINTR || error == ECONNREFUSED;
}

static void
refuse(struct udp_queue *q, struct rte_mbuf *m)
{
	q->stats.tx_refused++;
	rte_pktmbuf_free(m);
}

static void
count_sent(struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++)
		q->stats.tx_bytes += bufs[i]->data_len;
	q->stats.tx_frames += n;
	rte_pktmbuf_free_bulk(bufs, n);
}

static uint16_t
udp_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct udp_link *u = l->priv;
	struct udp_queue *q = &u->queues[queue];
	uint16_t taken = 0, run;
	int sent;

	while (taken < n) {
		const uint16_t limit = (uint16_t)RTE_MIN(n - taken, UDP_BURST);

		for (run = 0; run < limit && u->peers[bufs[taken + run]->port].any.sa_family != 0;
			run++)
			;
		if (unlikely(run == 0)) {
			refuse(q, bufs[taken++]);
			continue;
		}
		sent = send_run(u, q, bufs + taken, run);
		if (likely(sent > 0)) {
			count_sent(q, bufs + taken, (uint16_t)sent);
			taken = (uint16_t)(taken + sent);
		} else if (worth_retry(errno)) {
			break;
		} else {
			refuse(q, bufs[taken++]);
		}
	}
	return taken;
}

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

/* Is it an address to which nothing can be sent? */
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

/* Returns a bound socket, or a negative errno. Port 0 in *addr is replaced by the port that the
 * kernel chose. */
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

/* Set up what is the same in every message. */
static void
init_messages(struct udp_queue *q, const struct udp_link *u)
{
	uint32_t i;

	for (i = 0; i < UDP_BURST; i++) {
		q->rx_iov[i].iov_len = u->room;
		q->rx_msgs[i].msg_hdr.msg_iov = &q->rx_iov[i];
		q->rx_msgs[i].msg_hdr.msg_iovlen = 1;
		q->tx_msgs[i].msg_hdr.msg_iov = &q->tx_iov[i];
		q->tx_msgs[i].msg_hdr.msg_iovlen = 1;
		q->tx_msgs[i].msg_hdr.msg_namelen = u->addr_len;
	}
}

/* Free a link that may be partly open. */
static void
free_link(struct udp_link *u)
{
	uint16_t i;

	for (i = 0; u->queues != NULL && i < u->queue_count; i++) {
		rte_pktmbuf_free_bulk(u->queues[i].bufs, u->queues[i].ready);
		if (u->queues[i].fd >= 0)
			close(u->queues[i].fd);
	}
	rte_free(u->queues);
	free(u->peers);
	rte_free(u);
}

/* Returns a link without sockets, or NULL. */
static struct udp_link *
make_link(uint16_t queues, uint32_t room, bool v6)
{
	struct udp_link *u = rte_zmalloc("pmx_udp", sizeof(*u), 0);
	uint16_t i;

	if (u == NULL)
		return NULL;
	u->room = room;
	u->queue_count = queues;
	u->v6 = v6;
	u->addr_len = addr_len(v6);
	/* From libc: zero pages that take no memory until a peer is added. */
	u->peers = calloc(UDP_NODES, sizeof(u->peers[0]));
	u->queues = rte_zmalloc("pmx_udp", queues * sizeof(u->queues[0]), RTE_CACHE_LINE_SIZE);
	for (i = 0; u->queues != NULL && i < queues; i++) {
		u->queues[i].fd = -1;
		init_messages(&u->queues[i], u);
	}
	if (u->peers == NULL || u->queues == NULL) {
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
		refill(&u->queues[i], l->pool);
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
	u->peers[node] = at;
	return 0;
}

static int
udp_rx_fd(struct link *l, uint16_t queue)
{
	struct udp_link *u = l->priv;

	return u->queues[queue].fd;
}

/* Returns how many datagrams the kernel dropped since the socket was opened, because it had no
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
		out->rx_no_mbuf += kernel_drops(u->queues[i].fd);
	}
}

const struct link_ops link_udp_ops = {
	.name = "udp",
	.check = udp_check,
	.open = udp_open,
	.close = udp_close,
	.rx = udp_rx,
	.tx = udp_tx,
	.add_peer = udp_add_peer,
	.rx_fd = udp_rx_fd,
	.stats = udp_stats,
};
