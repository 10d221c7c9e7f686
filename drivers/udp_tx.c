/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending of the kernel UDP link: one system call for all frames of a burst to one peer. tx of
 * queue q runs on the lcore of q's engine.
 *
 * Design notes
 * 1. Frames to the same peer are brought together, and those of equal length, with at most one
 *    shorter one behind them, leave as one datagram that the kernel splits (UDP_SEGMENT): so they
 *    pass its stack once. Frames to one peer never overtake each other.
 * 2. The frames of such a datagram are copied into one piece: the kernel takes some 200 ns for each
 *    piece of it (Linux 6.18), and the copy of a short frame a tenth of that. Longer ones stay.
 * 3. The kernel does not split what would have to be fragmented as well, or what a device cannot
 *    compute checksums for: then frames to that peer leave as a datagram each from then on.
 * 4. A socket that is connected to the peer sends without looking for a route, which takes 3 to 8 %
 *    of a round trip. It only sends, and the kernel chose its port: if it shared the link's, what
 *    the peer sends would arrive at it, and each would have to be polled. If it fails (the address
 *    that it was bound to may be gone), it is closed and the link's own socket takes over.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "udp.h"

#define DATAGRAM_MAX 65000 /* bytes of frames in one datagram */
#define COPY_MAX     4096  /* bytes of a frame that is copied: note 2 */

/* Bring frames to the first one's peer to the front, in their order. Returns how many there are. */
static uint16_t
bring_together(struct rte_mbuf **bufs, uint16_t n)
{
	const uint16_t to = bufs[0]->port;
	uint16_t run = 1;

	for (uint16_t i = 1; i < n; i++) {
		struct rte_mbuf *m = bufs[i];

		if (m->port != to)
			continue;
		if (unlikely(i != run))
			memmove(&bufs[run + 1], &bufs[run], (i - run) * sizeof(bufs[0]));
		bufs[run++] = m;
	}
	return run;
}

/* Return how many of the frames may leave as one datagram. */
static uint16_t
datagram_of(struct rte_mbuf **bufs, uint16_t n)
{
	const uint32_t len = bufs[0]->data_len;
	uint32_t total = len;
	uint16_t k = 1;

	while (k < n && bufs[k]->data_len <= len && total + bufs[k]->data_len <= DATAGRAM_MAX) {
		total += bufs[k++]->data_len;
		if (bufs[k - 1]->data_len < len)
			break;
	}
	return k;
}

/* Have the kernel split the datagram into frames of `len` bytes. */
static void
split_at(struct msghdr *h, uint8_t *control, uint16_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)control;

	h->msg_control = control;
	h->msg_controllen = CMSG_SPACE(sizeof(len));
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(len));
	memcpy(CMSG_DATA(c), &len, sizeof(len));
}

/* Describe k frames in iov: in one piece at `to`, of room for all of them, or as they lie if that
 * is NULL. Returns the number of pieces. */
static uint16_t
udp_tx_describe(struct iovec *iov, struct rte_mbuf **bufs, uint16_t k, uint8_t *to)
{
	iov->iov_base = to;
	iov->iov_len = 0;
	for (uint16_t i = 0; i < k; i++) {
		void *frame = rte_pktmbuf_mtod(bufs[i], void *);
		const uint32_t len = bufs[i]->data_len;

		if (to == NULL) {
			iov[i] = (struct iovec){.iov_base = frame, .iov_len = len};
		} else {
			memcpy(to + iov->iov_len, frame, len);
			iov->iov_len += len;
		}
	}
	return to != NULL ? 1 : k;
}

/* Put 1..UDP_FRAMES frames to one peer into at most UDP_BURST datagrams. Returns the datagrams;
 * frames_of: how many frames each has. */
static unsigned
pack(struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n, bool whole, uint16_t *frames_of)
{
	unsigned datagrams = 0;
	uint32_t used = 0; /* bytes of q->joined */
	uint16_t i = 0;

	while (i < n && datagrams < UDP_BURST) {
		struct msghdr *h = &q->tx_msgs[datagrams].msg_hdr;
		const uint16_t k = whole ? 1 : datagram_of(bufs + i, (uint16_t)(n - i));
		const uint32_t len = bufs[i]->data_len;
		uint8_t *to = NULL;

		if (k > 1 && len <= COPY_MAX && used + k * len <= UDP_JOINED) {
			to = q->joined + used;
			used += k * len;
		}
		*h = (struct msghdr){.msg_iov = &q->tx_iov[i]};
		h->msg_iovlen = udp_tx_describe(&q->tx_iov[i], bufs + i, k, to);
		if (k > 1)
			split_at(h, q->tx_control[datagrams], (uint16_t)len);
		frames_of[datagrams++] = k;
		i += k;
	}
	return datagrams;
}

/* Send a single frame. */
static int
send_one(const struct udp_link *u, const struct udp_queue *q, struct rte_mbuf *m)
{
	const int connected = q->connected[m->port] - 1;
	ssize_t sent = connected >= 0 ? send(connected, rte_pktmbuf_mtod(m, void *), m->data_len, 0)
				      : sendto(q->fd, rte_pktmbuf_mtod(m, void *), m->data_len, 0,
						&u->peers[m->port].addr.any, u->addr_len);

	return sent < 0 ? -1 : 1;
}

/* Send 1..UDP_FRAMES frames to one known peer. Returns how many were sent, or -1 with the errno of
 * the first. */
static int
send_run(const struct udp_link *u, struct udp_queue *q, struct rte_mbuf **bufs, uint16_t n)
{
	struct udp_peer *peer = &u->peers[bufs[0]->port];
	int fd = q->connected[bufs[0]->port] - 1, sent, frames = 0;
	uint16_t frames_of[UDP_BURST];

	if (n == 1)
		return send_one(u, q, bufs[0]);
	unsigned datagrams = pack(q, bufs, n, peer->whole, frames_of);

	if (fd < 0) {
		fd = q->fd;
		for (unsigned i = 0; i < datagrams; i++) {
			q->tx_msgs[i].msg_hdr.msg_name = &peer->addr;
			q->tx_msgs[i].msg_hdr.msg_namelen = u->addr_len;
		}
	}
	sent = sendmmsg(fd, q->tx_msgs, datagrams, 0);
	if (sent < 0)
		return -1;
	for (int i = 0; i < sent; i++)
		frames += frames_of[i];
	return frames;
}

/*
 * Return whether sending may succeed if the frame is offered again. It may if there is no room now,
 * or if the error belongs to an earlier frame. Any other error (no route, forbidden, too long)
 * would recur.
 */
static bool
worth_retry(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM ||
		error == EINTR || error == ECONNREFUSED;
}

/* Do without what the error may be about: notes 3 and 4. Returns false if there is nothing left to
 * do without. */
static bool
do_without(struct udp_link *u, struct udp_queue *q, uint16_t node, uint16_t frames, int error)
{
	struct udp_peer *peer = &u->peers[node];

	if (frames > 1 && !peer->whole &&
		(error == EINVAL || error == EMSGSIZE || error == EIO || error == EOPNOTSUPP)) {
		peer->whole = true;
		return true;
	}
	if (q->connected[node] != 0 && (error == EINVAL || error == EADDRNOTAVAIL)) {
		close(q->connected[node] - 1);
		q->connected[node] = 0;
		return true;
	}
	return false;
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

uint16_t
udp_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct udp_link *u = l->priv;
	struct udp_queue *q = &u->queues[queue];
	uint16_t taken = 0, run;
	bool refused = false;

	while (taken < n) {
		const uint16_t node = bufs[taken]->port;

		if (unlikely(u->peers[node].addr.any.sa_family == 0)) {
			refuse(q, bufs[taken++]);
			continue;
		}
		run = bring_together(bufs + taken, (uint16_t)RTE_MIN(n - taken, UDP_FRAMES));
		int sent = send_run(u, q, bufs + taken, run);

		if (likely(sent > 0)) {
			count_sent(q, bufs + taken, (uint16_t)sent);
			taken = (uint16_t)(taken + sent);
		} else if (errno == ECONNREFUSED && !refused) {
			refused = true; /* that was about an earlier frame */
		} else if (worth_retry(errno)) {
			break;
		} else if (!do_without(u, q, node, run, errno)) {
			refuse(q, bufs[taken++]);
		}
	}
	return taken;
}
