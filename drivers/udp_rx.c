/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receiving of the kernel UDP link: one system call a poll. rx of queue q runs on the lcore of q's
 * engine.
 *
 * Design notes
 * 1. Three ways to receive, by what comes. A single frame and an empty poll cost least with recv
 *    (measured on Linux 6.18, loopback: an empty poll 175 ns, with recvmsg 230, with recvmmsg 260).
 *    After four polls in a row that brought a frame, recvmmsg fetches what waits, and the kernel is
 *    told to join datagrams of equal length from one sender (UDP_GRO). When it has joined some,
 *    recvmsg puts the frames of a joined datagram where they belong, an mbuf each.
 * 2. That works if the length of the frames is known before they come, and it mostly is that of the
 *    datagram before. Otherwise the datagram is cut up anew, by a copy.
 * 3. A poll leaves each of the last two ways when it has brought nothing worth it several times.
 *    The kernel is told to stop joining before recv is used again, because recv does not tell
 *    joined frames apart. Nor does recvmmsg then, even of what was joined before: so if anything
 *    waits, joining goes on first. What the kernel is just about to queue at that moment may still
 *    come joined, and the core refuses it, as too long for its header.
 */
#include <netinet/udp.h>
#include <string.h>

#include "udp.h"

#define BUSY_POLLS  4  /* polls with a frame before recvmmsg is used */
#define QUIET_POLLS 64 /* polls with less than two frames before recv is used again */
#define APART_POLLS 16 /* datagrams that were not joined before recvmmsg is used again */

static void
join_datagrams(struct udp_queue *q, bool on)
{
	const int value = on;

	/* a kernel that cannot do it does not join any */
	(void)setsockopt(q->fd, SOL_UDP, UDP_GRO, &value, sizeof(value));
}

/* Allocate mbufs for the next frames; fewer, or none, if the pool is empty: then datagrams wait in
 * the socket. */
static void
refill(struct udp_queue *q, struct rte_mempool *pool)
{
	const uint32_t want = q->mode == UDP_RX_SCATTER ? UDP_FRAMES : UDP_BURST;

	q->laid = 0;
	if (likely(rte_pktmbuf_alloc_bulk(pool, &q->bufs[q->ready], want - q->ready) == 0)) {
		q->ready = want;
		return;
	}
	while (q->ready < want && (q->bufs[q->ready] = rte_pktmbuf_alloc(pool)) != NULL)
		q->ready++;
}

/* Give a filled mbuf to the engine. */
static inline void
accept_frame(struct udp_queue *q, struct rte_mbuf *m, uint32_t len, struct rte_mbuf **out)
{
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	q->stats.rx_frames++;
	q->stats.rx_bytes += len;
	*out = m;
}

/* The place where received frames go: to the caller, and those that it has no room for into
 * q->wait, which is empty at first. */
struct sink {
	struct rte_mbuf **out;
	uint16_t n, got;
};

static inline void
sink_frame(struct udp_queue *q, struct sink *s, struct rte_mbuf *m, uint32_t len)
{
	accept_frame(q, m, len, s->got < s->n ? &s->out[s->got++] : &q->wait[q->waiting++]);
}

static bool
sink_full(const struct udp_queue *q, const struct sink *s)
{
	return s->got == s->n && q->waiting == UDP_WAIT;
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
	if (unlikely((size_t)len > room)) {
		q->stats.rx_too_long++;
		return 0;
	}
	q->ready--;
	accept_frame(q, m, (uint32_t)len, bufs);
	return 1;
}

/* Return the length of the frames that the kernel joined to this datagram; 0 if it is a single
 * frame. */
static uint32_t
joined_of(struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int len = 0;

	if (c != NULL && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
		memcpy(&len, CMSG_DATA(c), sizeof(len));
	return len > 0 ? (uint32_t)len : 0;
}

/* Copy what lies in the pieces into one. */
static void
gather(uint8_t *to, const struct iovec *pieces, uint32_t len)
{
	while (len > 0) {
		uint32_t n = RTE_MIN(len, (uint32_t)pieces->iov_len);

		memcpy(to, pieces->iov_base, n);
		to += n;
		len -= n;
		pieces++;
	}
}

/* Cut `len` bytes into frames of `each` bytes, the last one maybe shorter. Frames that find no mbuf
 * or fit into none are counted. */
static void
udp_rx_cut(struct link *l, struct udp_queue *q, const uint8_t *from, uint32_t len, uint32_t each,
	struct sink *s)
{
	const struct udp_link *u = l->priv;

	for (uint32_t n; len > 0; from += n, len -= n) {
		struct rte_mbuf *m;

		n = RTE_MIN(len, each);
		if (unlikely(n > u->room)) {
			q->stats.rx_too_long++;
			continue;
		}
		m = sink_full(q, s) ? NULL : rte_pktmbuf_alloc(l->pool);
		if (unlikely(m == NULL)) {
			q->stats.rx_no_mbuf++;
			continue;
		}
		memcpy(rte_pktmbuf_mtod(m, void *), from, n);
		sink_frame(q, s, m, n);
	}
}

/* Take what waits, a burst at most. Returns how many datagrams that was, 0 or less: none. */
static int
fetch_many(struct link *l, struct udp_queue *q, struct sink *s)
{
	const struct udp_link *u = l->priv;
	uint32_t want = RTE_MIN(RTE_MIN((uint32_t)s->n - s->got, (uint32_t)UDP_BURST), q->ready);
	int got;

	/* From the end, so that the mbufs that stay are at the start. */
	for (uint32_t i = 0; i < want; i++) {
		q->rx_iov[2 * i].iov_base = rte_pktmbuf_mtod(q->bufs[q->ready - 1 - i], void *);
		q->rx_msgs[i].msg_hdr.msg_controllen = UDP_CONTROL;
	}
	got = recvmmsg(q->fd, q->rx_msgs, want, 0, NULL);
	for (int i = 0; i < got; i++) {
		uint32_t len = q->rx_msgs[i].msg_len, each = joined_of(&q->rx_msgs[i].msg_hdr);
		struct rte_mbuf *m = q->bufs[--q->ready];

		if (likely(each == 0 && len <= u->room && !sink_full(q, s))) {
			sink_frame(q, s, m, len);
			continue;
		}
		gather(q->linear, &q->rx_iov[2 * i], len);
		rte_pktmbuf_free(m);
		udp_rx_cut(l, q, q->linear, len, each ? each : len, s);
		if (each != 0 && each <= u->room) {
			q->mode = UDP_RX_SCATTER;
			q->piece = each;
			q->quiet = q->laid = 0;
		}
	}
	return got;
}

static uint16_t
rx_many(struct link *l, struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	struct sink s = {bufs, n, 0};

	q->quiet = fetch_many(l, q, &s) < 2 ? q->quiet + 1 : 0;
	return s.got;
}

/* Lay out the ready mbufs as one long buffer, and behind them room for what is longer. */
static void
udp_rx_lay_out(struct udp_queue *q)
{
	uint32_t i;

	for (i = 0; i < q->ready; i++)
		q->scatter[i] = (struct iovec){
			.iov_base = rte_pktmbuf_mtod(q->bufs[q->ready - 1 - i], void *),
			.iov_len = q->piece,
		};
	q->scatter[i] = (struct iovec){.iov_base = q->spill, .iov_len = UDP_SPILL};
	q->laid = q->ready;
}

static uint16_t
rx_scatter(struct link *l, struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	const struct udp_link *u = l->priv;
	struct sink s = {bufs, n, 0};

	if (q->laid != q->ready)
		udp_rx_lay_out(q);
	struct msghdr h = {
		.msg_iov = q->scatter,
		.msg_iovlen = q->laid + 1,
		.msg_control = q->rx_control[0],
		.msg_controllen = UDP_CONTROL,
	};
	ssize_t got = recvmsg(q->fd, &h, 0);
	uint32_t len = (uint32_t)got, each;

	if (got < 0) {
		q->quiet++;
		return 0;
	}
	each = joined_of(&h);
	q->quiet = each ? 0 : q->quiet + 1;
	if (each == 0)
		each = len;
	if (likely((each == len && len <= q->piece) ||
		    (each == q->piece && len <= q->laid * each))) {
		do {
			uint32_t part = RTE_MIN(len, q->piece);

			sink_frame(q, &s, q->bufs[--q->ready], part);
			len -= part;
		} while (len > 0);
		/* others send short ones meanwhile: one a poll would not keep up with them */
		if (each == (uint32_t)got && s.got < n && q->ready != 0)
			fetch_many(l, q, &s);
		return s.got;
	}
	gather(q->linear, q->scatter, len);
	udp_rx_cut(l, q, q->linear, len, each, &s);
	q->piece = RTE_MIN(each, u->room);
	q->laid = 0;
	return s.got;
}

static uint16_t
take_waiting(struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t k = (uint16_t)RTE_MIN(n, q->waiting);

	memcpy(bufs, q->wait + q->waiting_at, k * sizeof(bufs[0]));
	q->waiting -= k;
	q->waiting_at = q->waiting ? q->waiting_at + k : 0;
	return k;
}

/* Back to recvmmsg, which needs fewer mbufs. */
static void
scatter_end(struct udp_queue *q)
{
	q->mode = UDP_RX_MANY;
	q->quiet = 0;
	while (q->ready > UDP_BURST)
		rte_pktmbuf_free(q->bufs[--q->ready]);
}

/* Choose the mode of the next poll by what the last ones brought. */
static void
mode_follow(struct udp_queue *q)
{
	if (q->mode == UDP_RX_ONE && q->busy >= BUSY_POLLS) {
		q->mode = UDP_RX_MANY;
		q->quiet = 0;
		join_datagrams(q, true);
	} else if (q->mode == UDP_RX_SCATTER && q->quiet >= APART_POLLS) {
		scatter_end(q);
	}
}

/* Go back to recv, unless something still waits in the socket: note 3. In that case receive it with
 * recvmmsg. */
static uint16_t
rx_last(struct link *l, struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	join_datagrams(q, false);
	if (recv(q->fd, NULL, 0, MSG_PEEK) >= 0) {
		join_datagrams(q, true);
		return rx_many(l, q, bufs, n);
	}
	q->mode = UDP_RX_ONE;
	q->busy = 0;
	return 0;
}

/*
 * Receive up to n frames in the queue's mode. Errors of recv are ignored: EAGAIN is an empty poll,
 * and a pending error from an ICMP message (ECONNREFUSED) is cleared by the call.
 */
uint16_t
udp_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct udp_link *u = l->priv;
	struct udp_queue *q = &u->queues[queue];

	if (q->waiting)
		return take_waiting(q, bufs, n);
	mode_follow(q);
	if (q->ready < (q->mode == UDP_RX_SCATTER ? UDP_FRAMES * 3 / 4 : UDP_BURST / 2))
		refill(q, l->pool);
	if (unlikely(q->ready == 0 || n == 0))
		return 0;
	if (likely(q->mode == UDP_RX_ONE))
		return rx_one(q, u->room, bufs);
	if (q->mode == UDP_RX_SCATTER)
		return rx_scatter(l, q, bufs, n);
	if (unlikely(q->quiet >= QUIET_POLLS))
		return rx_last(l, q, bufs, n);
	return rx_many(l, q, bufs, n);
}

void
udp_rx_begin(struct link *l, struct udp_queue *q)
{
	const struct udp_link *u = l->priv;

	for (uint32_t i = 0; i < UDP_BURST; i++) {
		q->rx_iov[2 * i].iov_len = u->room;
		q->rx_iov[2 * i + 1] = (struct iovec){
			.iov_base = q->spill + (size_t)i * UDP_SPILL,
			.iov_len = UDP_SPILL,
		};
		q->rx_msgs[i].msg_hdr = (struct msghdr){
			.msg_iov = &q->rx_iov[2 * i],
			.msg_iovlen = 2,
			.msg_control = q->rx_control[i],
		};
	}
	refill(q, l->pool);
}
