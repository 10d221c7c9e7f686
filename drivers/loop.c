/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The loop link: joins two nodes of one process without a network, for tests, benchmarks and
 * embedded nodes. Two links that open with the same config.port form a pair; both may belong to the
 * same node. Owns the list of pairs and, for each end, the inbox of frames that wait for it. Open,
 * close and stats run on control threads; tx and rx of queue q on the lcore of q's engine at either
 * end.
 *
 * Design notes
 * 1. tx copies the frame into an mbuf of the receiver's pool, so that rx need not: the sending
 *    engine may rewrite the header of a frame that it still holds, and a receiving engine accepts
 *    only mbufs of its own pool. Everything in an inbox belongs to the inbox's end, so the ends can
 *    close in any order. Rejected: passing references and copying in rx, because the header could
 *    change while it is read.
 * 2. The receiver's pool is used by both engines; DPDK's mempools allow that.
 * 3. An end reaches its peer through an atomic pointer: the acquire in tx pairs with the release in
 *    loop_open, since one end may already poll while the other one opens. Closing an end needs both
 *    ends' polling stopped.
 * 4. A full inbox is not a loss but backpressure, as from a port with no free descriptors.
 */
#include "link.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include <rte_malloc.h>
#include <rte_ring.h>

#define LOOP_BURST        32
#define LOOP_RING_DEFAULT 1024
#define LOOP_RING_MAX     (1u << 20)

/* The frames under way to one queue of an end: the peer's queue fills it, the end empties it. */
struct loop_inbox {
	struct rte_ring *ring; /* SP/SC; mbufs of the end's pool */
	/* Written by the peer's engine. */
	uint64_t no_mbuf __rte_cache_aligned; /* frames lost: the end's pool was empty */
	uint64_t too_long;                    /* frames lost: longer than the end's mbufs */
	/* Written by the end's engine. */
	uint64_t rx_frames __rte_cache_aligned;
	uint64_t rx_bytes;
	/* Sent from this end's same queue; written by the end's engine. */
	uint64_t tx_frames, tx_bytes;
	uint64_t tx_refused; /* frames lost: no peer */
} __rte_cache_aligned;

struct loop_end {
	_Atomic(struct loop_end *) peer; /* note 3; NULL: not open */
	struct rte_mempool *pool;        /* pool of the end's node */
	struct loop_pair *pair;
	uint16_t queues;
	struct loop_inbox inbox[];
};

struct loop_pair {
	LIST_ENTRY(loop_pair) next;
	char name[LINK_NAME_MAX];
	struct loop_end *end[2]; /* NULL: not open */
};

static LIST_HEAD(, loop_pair) pairs = LIST_HEAD_INITIALIZER(pairs);
/* Protects `pairs` and its elements; taken by open and close only. */
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;

/* Copy a frame into m. Returns false if it does not fit. */
static inline bool
copy_frame(struct rte_mbuf *m, const struct rte_mbuf *frame)
{
	if (unlikely(frame->pkt_len > rte_pktmbuf_tailroom(m)))
		return false;
	m->data_len = (uint16_t)frame->pkt_len;
	m->pkt_len = frame->pkt_len;
	memcpy(rte_pktmbuf_mtod(m, void *), rte_pktmbuf_mtod(frame, const void *), frame->data_len);
	if (unlikely(frame->nb_segs > 1))
		memcpy(rte_pktmbuf_mtod_offset(m, void *, frame->data_len),
			rte_pktmbuf_mtod(frame->next, const void *), frame->next->data_len);
	return true;
}

/* Allocate n mbufs, or fewer if the pool runs dry. Returns how many. */
static inline uint16_t
alloc_copies(struct rte_mempool *pool, struct rte_mbuf **copies, uint16_t n)
{
	uint16_t i;

	if (n > 1 && likely(rte_pktmbuf_alloc_bulk(pool, copies, n) == 0))
		return n;
	for (i = 0; i < n; i++) {
		copies[i] = rte_pktmbuf_alloc(pool);
		if (copies[i] == NULL)
			break;
	}
	return i;
}

/* Drop the link's reference. A data frame is its sender's too, until it is Acked. */
static inline void
drop_reference(struct rte_mbuf *m)
{
	if (likely(m->nb_segs == 1 && rte_mbuf_refcnt_read(m) > 1))
		rte_mbuf_refcnt_update(m, -1);
	else
		rte_pktmbuf_free(m);
}

/* Put copies of n <= LOOP_BURST frames into an inbox, which has room; count those that are lost, as
 * at the receiver behind a real port. */
static inline void
deliver(struct loop_inbox *inbox, struct rte_mempool *pool, struct rte_mbuf **bufs, uint16_t n)
{
	struct rte_mbuf *copies[LOOP_BURST];
	uint16_t have = alloc_copies(pool, copies, n);
	unsigned good = 0;

	for (uint16_t i = 0; i < have; i++) {
		if (likely(copy_frame(copies[i], bufs[i]))) {
			copies[good++] = copies[i];
		} else {
			rte_pktmbuf_free(copies[i]);
			inbox->too_long++;
		}
	}
	if (unlikely(have < n))
		inbox->no_mbuf += (uint64_t)(n - have);
	rte_ring_sp_enqueue_bulk(inbox->ring, (void **)copies, good, NULL);
}

static uint16_t
loop_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct loop_end *end = l->priv;
	struct loop_end *peer = atomic_load_explicit(&end->peer, memory_order_acquire);
	struct loop_inbox *mine = &end->inbox[queue];
	uint32_t room;

	if (unlikely(peer == NULL)) {
		mine->tx_refused += n;
		rte_pktmbuf_free_bulk(bufs, n);
		return n;
	}
	/* This queue is the ring's only producer, so the room can only grow. */
	room = rte_ring_free_count(peer->inbox[queue].ring);
	if (unlikely(n > room))
		n = (uint16_t)room;
	for (uint16_t i = 0; i < n; i = (uint16_t)(i + LOOP_BURST))
		deliver(&peer->inbox[queue], peer->pool, bufs + i,
			n - i < LOOP_BURST ? (uint16_t)(n - i) : LOOP_BURST);
	for (uint16_t i = 0; i < n; i++) {
		mine->tx_bytes += bufs[i]->pkt_len;
		drop_reference(bufs[i]);
	}
	mine->tx_frames += n;
	return n;
}

static uint16_t
loop_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct loop_end *end = l->priv;
	struct loop_inbox *inbox = &end->inbox[queue];
	uint16_t i, got;

	if (rte_ring_empty(inbox->ring))
		return 0;
	got = (uint16_t)rte_ring_sc_dequeue_burst(inbox->ring, (void **)bufs, n, NULL);
	for (i = 0; i < got; i++)
		inbox->rx_bytes += bufs[i]->data_len;
	inbox->rx_frames += got;
	return got;
}

/* Free an end that belongs to no pair, with the frames that wait for it. */
static void
free_end(struct loop_end *end)
{
	void *m;
	uint16_t i;

	for (i = 0; i < end->queues; i++) {
		struct rte_ring *ring = end->inbox[i].ring;

		while (ring != NULL && rte_ring_sc_dequeue(ring, &m) == 0)
			rte_pktmbuf_free(m);
		rte_free(ring);
	}
	rte_free(end);
}

/* Make a ring in memory of our own; unlike rte_ring_create, this needs no unique name and no
 * memzone. */
static struct rte_ring *
make_ring(uint32_t frames)
{
	const uint32_t count = rte_align32pow2(frames + 1);
	struct rte_ring *ring = rte_zmalloc("pmx_loop", (size_t)rte_ring_get_memsize(count),
		RTE_CACHE_LINE_SIZE);

	if (ring == NULL)
		return NULL;
	if (rte_ring_init(ring, "pmx_loop", frames,
		    RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ) != 0) {
		rte_free(ring);
		return NULL;
	}
	return ring;
}

static struct loop_end *
make_end(struct rte_mempool *pool, uint16_t queues, uint32_t frames)
{
	struct loop_end *end;
	uint16_t i;

	end = rte_zmalloc("pmx_loop", sizeof(*end) + queues * sizeof(end->inbox[0]),
		RTE_CACHE_LINE_SIZE);
	if (end == NULL)
		return NULL;
	atomic_init(&end->peer, NULL);
	end->pool = pool;
	end->queues = queues;
	for (i = 0; i < queues; i++) {
		end->inbox[i].ring = make_ring(frames);
		if (end->inbox[i].ring == NULL) {
			free_end(end);
			return NULL;
		}
	}
	return end;
}

/* Return the pair of that name, and make it on first use; NULL if there is no memory. Called under
 * the lock. */
static struct loop_pair *
get_pair(const char *name)
{
	struct loop_pair *pair;

	for (pair = LIST_FIRST(&pairs); pair != NULL; pair = LIST_NEXT(pair, next))
		if (strncmp(pair->name, name, LINK_NAME_MAX) == 0)
			return pair;
	pair = rte_zmalloc("pmx_loop", sizeof(*pair), 0);
	if (pair == NULL)
		return NULL;
	snprintf(pair->name, sizeof(pair->name), "%s", name);
	LIST_INSERT_HEAD(&pairs, pair, next);
	return pair;
}

/* Free a pair without ends. Called under the lock. */
static void
put_pair(struct loop_pair *pair)
{
	if (pair->end[0] != NULL || pair->end[1] != NULL)
		return;
	LIST_REMOVE(pair, next);
	rte_free(pair);
}

/* Join the end to the pair of its name. Returns 0 or a negative errno. */
static int
join(struct link *l, struct loop_end *end)
{
	const char *name = l->config.port;
	struct loop_pair *pair;
	struct loop_end *peer;
	int rc = 0, side;

	pthread_mutex_lock(&pairs_lock);
	pair = get_pair(name);
	if (pair == NULL) {
		snprintf(l->error, sizeof(l->error), "loop %s: no memory", name);
		rc = -ENOMEM;
		goto unlock;
	}
	side = pair->end[0] != NULL;
	peer = pair->end[!side];
	if (pair->end[side] != NULL) {
		snprintf(l->error, sizeof(l->error),
			"loop %s: both ends are taken; a loop joins "
			"two links, give the others another port name",
			name);
		rc = -EBUSY;
	} else if (peer != NULL && peer->queues != end->queues) {
		snprintf(l->error, sizeof(l->error),
			"loop %s: the other end has %u queues and "
			"this one %u; allowed are equal numbers",
			name, peer->queues, end->queues);
		rc = -EINVAL;
	} else {
		pair->end[side] = end;
		end->pair = pair;
		atomic_store_explicit(&end->peer, peer, memory_order_relaxed);
		/* Pairs with the acquire in loop_tx: this end is complete. */
		if (peer != NULL)
			atomic_store_explicit(&peer->peer, end, memory_order_release);
	}
unlock:
	pthread_mutex_unlock(&pairs_lock);
	return rc;
}

static int
loop_check(const struct link_config *config, char *error, size_t error_size)
{
	if (config->port[0] != '\0')
		return 0;
	snprintf(error, error_size, "loop: port is not set; give both links the same name");
	return -EINVAL;
}

static int
loop_open(struct link *l)
{
	const uint32_t room = rte_pktmbuf_data_room_size(l->pool) - RTE_PKTMBUF_HEADROOM;
	struct link_config *config = &l->config;
	struct loop_end *end;
	uint32_t frames;
	int rc;

	if (config->mtu == 0 || config->mtu > room) {
		snprintf(l->error, sizeof(l->error),
			"loop %s: mtu %u; allowed is 1..%u, what an "
			"mbuf holds",
			config->port, config->mtu, room);
		return -EINVAL;
	}
	frames = RTE_MIN(config->rx_descriptors, LOOP_RING_MAX);
	config->encap = LINK_ENCAP_NONE;
	config->queues = RTE_MAX(RTE_MIN(config->queues, (uint32_t)UINT16_MAX), 1u);
	end = make_end(l->pool, (uint16_t)config->queues, frames != 0 ? frames : LOOP_RING_DEFAULT);
	if (end == NULL) {
		snprintf(l->error, sizeof(l->error),
			"loop %s: no memory for %u rings; give EAL "
			"more (-m)",
			config->port, config->queues);
		return -ENOMEM;
	}
	rc = join(l, end);
	if (rc != 0) {
		free_end(end);
		return rc;
	}
	l->priv = end;
	l->rx_queues = end->queues;
	l->tx_queues = end->queues;
	l->mtu = (uint16_t)config->mtu;
	l->segments = true;
	l->multicast = true;
	l->up = true;
	return 0;
}

static void
loop_close(struct link *l)
{
	struct loop_end *end = l->priv;
	struct loop_pair *pair = end->pair;
	struct loop_end *peer;
	int side;

	pthread_mutex_lock(&pairs_lock);
	side = pair->end[1] == end;
	peer = pair->end[!side];
	if (peer != NULL)
		atomic_store_explicit(&peer->peer, NULL, memory_order_relaxed);
	pair->end[side] = NULL;
	put_pair(pair);
	pthread_mutex_unlock(&pairs_lock);
	free_end(end);
}

static int
loop_rx_fd(struct link *l, uint16_t queue)
{
	RTE_SET_USED(l);
	RTE_SET_USED(queue);
	return -1;
}

static void
loop_stats(struct link *l, struct link_stats *out)
{
	struct loop_end *end = l->priv;
	uint16_t i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < end->queues; i++) {
		const struct loop_inbox *inbox = &end->inbox[i];

		out->rx_frames += inbox->rx_frames;
		out->rx_bytes += inbox->rx_bytes;
		out->tx_frames += inbox->tx_frames;
		out->tx_bytes += inbox->tx_bytes;
		out->rx_no_mbuf += inbox->no_mbuf;
		out->rx_too_long += inbox->too_long;
		out->tx_refused += inbox->tx_refused;
	}
}

/* Return the bytes of a lane's ring. */
static uint64_t
loop_lane_bytes(const struct link_config *config)
{
	return (uint64_t)rte_align32pow2(config->rx_descriptors + 1) * sizeof(void *);
}

const struct link_ops link_loop_ops = {
	.name = "loop",
	.peers = LINK_PEERS_NONE,
	.lane_bytes = loop_lane_bytes,
	.check = loop_check,
	.open = loop_open,
	.close = loop_close,
	.rx = loop_rx,
	.tx = loop_tx,
	.add_peer = NULL,
	.rx_fd = loop_rx_fd,
	.stats = loop_stats,
};
