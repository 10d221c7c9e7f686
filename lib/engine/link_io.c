/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between links and the PM core: removes and adds encapsulation (encap.c) and checksum, and hands
 * frames to the lane that owns their context. Runs on the lane.
 *
 * Design notes
 * 1. A data frame leaves in the application's own buffer: headers go into its headroom, and the
 *    link gets a reference. Each transmission writes the headers anew; a retransmission that finds
 *    the buffer still with a port sends a copy (a port may free it late, or never).
 * 2. Frames that a full link did not take wait in txq, and nothing more is pulled from the core
 *    until they are gone, so that the core's windows count what is really in the network.
 * 3. What is in the port's ring goes before all that the core has. If the link's rate is known, the
 *    port gets only what it sends within PACE_US, or PACE_FRAMES, and the core decides which frame
 *    goes next when there is room for it (lib/core/proto/send.c, note 1). Lanes share the port, and
 *    each does so by itself.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "base/bytes.h"
#include "engine/capture.h"
#include "engine/deliver.h"
#include "engine/encap.h"
#include "engine/frame.h"
#include "engine/link_io.h"
#include "engine/local.h"
#include "engine/neighbours.h"
#include "engine/rails.h"
#include "engine/sealed.h"

#define PACE_US     4
#define PACE_FRAMES 2  /* full ones */
#define PACE_SHIFT  24 /* of fractions */

/* ------------------------------------------------------------------ receive */

static bool
checksum_ok(struct engine *e, const struct rte_mbuf *m)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);

	if (!(h->flags & wire_be16(WIRE_F_CRC))) {
		if (h->type == WIRE_HELLO) /* the core refuses it, and knows whose setting it is */
			return true;
		ENGINE_COUNT(e, drop_no_checksum);
		return false;
	}
	if (h->crc != wire_be32(engine_frame_checksum(h, h + 1, m->data_len - WIRE_HDR_BYTES))) {
		ENGINE_COUNT(e, drop_checksum);
		return false;
	}
	return true;
}

/* Pass a frame that was sent to several nodes at once to the service for such frames, and drop this
 * lane's reference to it. Other lanes may have references too. */
static __rte_noinline void
multicast_in(struct engine *e, struct rte_mbuf *m)
{
	if (e->services->multicast != NULL)
		e->services->multicast(e, rte_pktmbuf_mtod(m, const void *));
	rte_pktmbuf_free(m);
}

static void link_ask(struct engine *e, uint16_t node, unsigned link, uint16_t lane, uint32_t round,
	bool asks);

/* Take in a question whether a link works, or the answer to one. Answer a question by the same
 * link. */
static __rte_noinline void
link_in(struct engine *e, struct rte_mbuf *m)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);

	if (e->rails != NULL && lane_rails_told(e, h))
		link_ask(e, wire_be16(h->src_node), e->rails->rx_link, wire_be16(h->src_ctx),
			wire_be32(h->seq), false);
	rte_pktmbuf_free(m);
}

#define TAKE_TURNS_S 120

/* Return the Ethernet address of the sender of a HELLO to all. Only links whose frames have an
 * Ethernet header carry such a HELLO. */
static uint64_t
sender_of(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth =
		(const struct rte_ether_hdr *)((const uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);

	return get_be(eth->src_addr.addr_bytes, RTE_ETHER_ADDR_LEN);
}

/* Note that a node has told its number, as each does now and then. Count it if the node that had
 * told this number before is soon back: then two nodes have the number. */
static __rte_noinline void
announced_in(struct engine *e, struct rte_mbuf *m)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	struct announced *a = &e->node->announced[wire_be16(h->src_node)];
	const uint32_t epoch = wire_be32(((const struct wire_hello *)(h + 1))->epoch);
	const uint32_t last = atomic_load(&a->epoch);
	const uint64_t mac = sender_of(m);

	rte_pktmbuf_free(m);
	if (epoch == last)
		return; /* also by another of its links */
	/* one that restarts, or moves, does so once */
	if (epoch == atomic_load(&a->epoch_before) &&
		e->now - atomic_load(&a->at) < TAKE_TURNS_S * rte_get_tsc_hz())
		atomic_fetch_add(&a->back, 1);
	atomic_store(&a->epoch_before, last);
	atomic_store(&a->epoch, epoch);
	atomic_store(&a->before, atomic_load(&a->mac));
	atomic_store(&a->mac, mac);
	atomic_store(&a->at, e->now);
}

/* Note that another node has this one's number. Tell that node so, and whoever watches this
 * node. */
static __rte_noinline void
twin_in(struct engine *e, struct rte_mbuf *m)
{
	const struct wire_hello *hello = rte_pktmbuf_mtod_offset(m, const struct wire_hello *,
		WIRE_HDR_BYTES);
	struct twin *t = &e->node->twin;
	atomic_store(&t->mac, sender_of(m));
	atomic_store(&t->age_ms, wire_be32(hello->age));
	atomic_store(&t->own_age_ms, proto_age_ms(e->proto));
	atomic_store(&t->epoch, wire_be32(hello->epoch));
	rte_pktmbuf_free(m);
	if (e->now - atomic_load(&t->at) >= rte_get_tsc_hz() / 10) {
		atomic_store(&t->at, e->now);
		engine_announce(e);
	}
	atomic_fetch_add(&t->seen, 1);
}

/* Hand over to the other lanes a frame that was sent to several nodes. Its receivers may be on any
 * lane, so each lane gets a reference. */
static void
multicast_hand_over(struct engine *e, struct rte_mbuf *m)
{
	struct node *n = e->node;

	buf_priv(m)->src_ctx = WIRE_NOBODY; /* a frame, not a local message */
	for (unsigned i = 0; i < n->config.lanes; i++) {
		struct engine *lane = &n->engines[i];

		if (lane == e)
			continue;
		rte_mbuf_refcnt_update(m, 1);
		if (rte_ring_enqueue(lane->inbox, m) == 0) {
			engine_wake(lane);
			ENGINE_COUNT(e, handed_over);
		} else {
			rte_mbuf_refcnt_update(m, -1);
			ENGINE_COUNT(e, drop_inbox);
		}
	}
}

/* Pass a frame to the core, and do what the core says with it. The mbuf's data begins with the PM
 * header. */
static inline void
frame_to_core(struct engine *e, struct rte_mbuf *m)
{
	enum proto_rx_result r = proto_rx(e->proto, rte_pktmbuf_mtod(m, const void *), m->data_len,
		(uintptr_t)m, e->now);

	if (likely(r == PROTO_RX_MESSAGE))
		engine_message(e, m);
	else if (r == PROTO_RX_DONE)
		rte_mbuf_raw_free(m); /* one segment, and nobody else's */
	else if (unlikely(r == PROTO_RX_MULTI))
		multicast_in(e, m);
	else if (unlikely(r == PROTO_RX_LINK))
		link_in(e, m);
	else if (unlikely(r == PROTO_RX_TWIN))
		twin_in(e, m);
	else if (unlikely(r == PROTO_RX_ANNOUNCED))
		announced_in(e, m);
}

/* Note the link by which a frame came, which a peer with several links may have sent. Then pass the
 * frame to the core. */
static void
frame_by_link(struct engine *e, unsigned link, struct rte_mbuf *m)
{
	if (unlikely(e->sealed != NULL) && !sealed_in(e, m))
		return;
	if (unlikely(e->rails != NULL))
		lane_rails_hear(e, link, rte_pktmbuf_mtod(m, const struct wire_hdr *));
	frame_to_core(e, m);
}

/* Take in a frame of which everything has to be checked, or that may be for another lane. */
static __rte_noinline void
frame_in_checked(struct engine *e, const struct link *l, struct rte_mbuf *m)
{
	struct node *n = e->node;
	uint32_t encap = 0;

	if (unlikely(m->nb_segs != 1)) {
		ENGINE_COUNT(e, drop_segmented);
		goto drop;
	}
	if (l->config.encap != LINK_ENCAP_NONE) {
		encap = encap_bytes(e, l, m);
		if (unlikely(encap == 0))
			goto drop;
	}
	if (unlikely(m->data_len < encap + WIRE_HDR_BYTES)) {
		ENGINE_COUNT(e, drop_short);
		goto drop;
	}
	m->data_off = (uint16_t)(m->data_off + encap);
	m->data_len = (uint16_t)(m->data_len - encap);
	m->pkt_len = m->data_len;
	if (unlikely(n->config.checksum) && !checksum_ok(e, m))
		goto drop;
	if (unlikely(e->hands_over)) {
		const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
		struct engine *owner = node_lane(n, wire_be16(h->dst_ctx));

		m->port = (uint16_t)(l - n->links); /* for inbox_in */
		if (h->type == WIRE_MULTI && e->sealed == NULL) {
			multicast_hand_over(e, m);
		} else if (owner != e) {
			/* marks it as a frame, not a local message */
			buf_priv(m)->src_ctx = WIRE_NOBODY;
			if (rte_ring_enqueue(owner->inbox, m) == 0) {
				engine_wake(owner);
				ENGINE_COUNT(e, handed_over);
				return;
			}
			ENGINE_COUNT(e, drop_inbox);
			goto drop;
		}
	}
	frame_by_link(e, (unsigned)(l - n->links), m);
	return;
drop:
	rte_pktmbuf_free(m);
}

/* Take in the frames of one link. Most are one mbuf of the expected encapsulation, which is
 * Ethernet's or none. */
static void
frames_in(struct engine *e, const struct link *l, struct rte_mbuf **m, unsigned n)
{
	const uint32_t encap = l->config.encap == LINK_ENCAP_ETHER ? RTE_ETHER_HDR_LEN : 0;
	const uint16_t type = rte_cpu_to_be_16(l->config.ethertype);
	const bool simple = !e->checks_frames && (encap != 0 || l->config.encap == LINK_ENCAP_NONE);

	for (unsigned j = 1; j < n && j < 4; j++)
		rte_prefetch0(rte_pktmbuf_mtod(m[j], void *));
	for (unsigned j = 0; j < n; j++) {
		const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m[j],
			const struct rte_ether_hdr *);

		if (j + 4 < n)
			rte_prefetch0(rte_pktmbuf_mtod(m[j + 4], void *));
		if (unlikely(!simple || m[j]->nb_segs != 1 ||
			    m[j]->data_len < encap + WIRE_HDR_BYTES ||
			    (encap != 0 && eth->ether_type != type))) {
			frame_in_checked(e, l, m[j]);
			continue;
		}
		m[j]->data_off = (uint16_t)(m[j]->data_off + encap);
		m[j]->data_len = (uint16_t)(m[j]->data_len - encap);
		m[j]->pkt_len = m[j]->data_len;
		frame_to_core(e, m[j]);
	}
	if (unlikely(n == e->burst))
		proto_backlog(e->proto);
	ENGINE_COUNT_N(e, rx_frames, n);
}

static __rte_noinline void
frames_in_captured(struct engine *e, const struct link *l, struct rte_mbuf **m, unsigned n)
{
	struct capture_look look;

	for (unsigned i = 0; i < n; i++) {
		capture_in_begins(e, l, m[i], &look);
		frames_in(e, l, &m[i], 1);
		capture_in_ends(e, &look);
	}
	if (n == e->burst)
		proto_backlog(e->proto);
}

void
engine_frames(struct engine *e, const struct link *l, struct rte_mbuf **m, unsigned n)
{
	lane_begin(e);
	if (l->slow)
		e->now = rte_rdtsc();
	if (unlikely(e->capture != NULL))
		frames_in_captured(e, l, m, n);
	else
		frames_in(e, l, m, n);
}

unsigned
engine_inbox(struct engine *e)
{
	void *m[BURST_MAX];
	unsigned n = rte_ring_dequeue_burst(e->inbox, m, BURST_MAX, NULL);

	for (unsigned i = 0; i < n; i++) {
		unsigned number = (uintptr_t)m[i] & SERVICE_TAG;

		if (number != 0)
			e->services->numbered[number]->handed_over(e, (uintptr_t)m[i]);
		else if (buf_priv(m[i])->src_ctx == WIRE_NOBODY)
			frame_by_link(e, ((struct rte_mbuf *)m[i])->port, m[i]);
		else
			local_arrive(e, m[i]);
	}
	return n;
}

/* Bound what waits in a port of that rate: note 3. */
static void
pace_set(struct pace *pace, uint64_t bps, uint32_t mtu)
{
	const uint64_t hz = rte_get_tsc_hz();
	const uint64_t frame_ticks = 8 * (mtu + WIRE_FRAME_EXTRA) * hz / bps + 1;

	pace->byte_ticks = (8 * hz << PACE_SHIFT) / bps;
	pace->frames_per_tick = (UINT64_C(1) << PACE_SHIFT) / frame_ticks;
	pace->most = RTE_MAX(PACE_FRAMES * frame_ticks, hz / 1000000 * PACE_US);
}

void
engine_links(struct engine *e)
{
	struct node *n = e->node;

	e->rx_link_count = 0;
	for (unsigned i = 0; i < n->link_count; i++) {
		if (e->lane < n->links[i].rx_queues)
			e->rx_links[e->rx_link_count++] = &n->links[i];
		if (e->lane == 0 && n->links[i].multicast)
			encap_multicast(n, (uint8_t)i);
	}
	e->pace = (struct pace){0};
	if (n->link_count == 1 && n->links[0].rate_bps != 0)
		pace_set(&e->pace, n->links[0].rate_bps, n->links[0].mtu);
	e->burst = n->config.burst;
	e->hands_over = n->config.lanes > 1;
	e->checks_frames = e->hands_over || n->config.checksum || e->sealed != NULL;
}

/* ------------------------------------------------------------------ transmit */

static __rte_noinline void
frame_out_checked(struct engine *e, const struct proto_out *o, const struct peer *peer,
	struct tx_queue *q)
{
	struct rte_mbuf *m;

	if (unlikely(!peer->known)) {
		ENGINE_COUNT(e, tx_unknown_node);
		return;
	}
	if (unlikely(peer->several)) {
		peer = lane_rails_route(e, o);
		q = &e->txq[peer->link];
	}
	if (unlikely(peer->neighbour != 0) && !neighbour_ready(e, peer))
		return;
	m = engine_frame_make(e, o, peer);
	if (unlikely(m == NULL))
		return;
	engine_frame_put_head(e, m, o, peer);
	q->m[q->n++] = m;
}

/* Queue a frame for its link. This is the fast path of the common frames, with a plain
 * encapsulation: data that is sent for the first time, and an Ack. */
static inline void
frame_out(struct engine *e, const struct proto_out *o, const struct peer *peer, struct tx_queue *q)
{
	const struct frame_head head = frame_head_of(peer, o->node);
	struct rte_mbuf *m;

	if (likely(peer->plain && o->handle == PROTO_NO_HANDLE && o->head_len == WIRE_HDR_BYTES &&
		    o->len == 0)) {
		m = rte_pktmbuf_alloc(e->node->pool);
		if (unlikely(m == NULL)) {
			ENGINE_COUNT(e, tx_no_mbuf);
			return;
		}
		/* PROTO_NO_HANDLE is odd as well */
	} else if (unlikely(!peer->plain || o->handle & SERVICE_TAG || o->again)) {
		frame_out_checked(e, o, peer, q);
		return;
	} else {
		m = ((const struct send_slot *)(uintptr_t)o->handle)->m;
		rte_mbuf_refcnt_update(m, 1);
	}
	memcpy(slot_header(m), o->head, WIRE_HDR_BYTES);
	frame_ready(m, &head, o->len);
	q->m[q->n++] = m;
}

static void
frames_out(struct engine *e, unsigned n)
{
	uint16_t to = e->out[0].node;
	const struct peer *peer = &e->peers[to];
	struct tx_queue *q = &e->txq[peer->link];

	for (unsigned i = 0; i < n; i++) {
		const struct proto_out *o = &e->out[i];

		if (unlikely(o->node != to)) {
			to = o->node;
			peer = &e->peers[to];
			q = &e->txq[peer->link];
		}
		frame_out(e, o, peer, q);
	}
}

/* Lane 0 fetches the frames that lanes without a transmit queue left for it. */
static void
take_handover(struct engine *e, unsigned link, struct tx_queue *q)
{
	struct node *n = e->node;

	while (unlikely(e->sealed != NULL) && q->sealed < q->n) /* each lane seals its own */
		sealed_out(e, link, q);
	unsigned k = rte_ring_dequeue_burst(n->handover[link], (void **)&q->m[q->n],
		TX_QUEUE - q->n, NULL);

	q->n += k;
	q->sealed = q->n;
}

static unsigned
give_handover(struct node *n, unsigned link, struct rte_mbuf **m, unsigned count)
{
	unsigned k = rte_ring_enqueue_burst(n->handover[link], (void **)m, count, NULL);

	engine_wake(&n->engines[0]);
	return k;
}

bool
engine_multicast_room(const struct engine *e)
{
	for (unsigned i = 0; i < e->node->link_count; i++) {
		if (e->txq[i].n >= TX_QUEUE - BURST_MAX) /* the core's frames need room too */
			return false;
	}
	return true;
}

void
engine_multicast(struct engine *e, uint32_t links, uint32_t group, uint16_t ctx, struct rte_mbuf *m,
	uint32_t len)
{
	struct wire_hdr h = {
		.version = WIRE_VERSION,
		.type = WIRE_MULTI,
		.src_node = wire_be16((uint16_t)e->node->config.id),
		.dst_node = wire_be16(WIRE_NOBODY),
		.src_ctx = wire_be16(ctx | WIRE_GROUP),
		.dst_ctx = wire_be16(WIRE_NOBODY),
		.payload_len = wire_be16((uint16_t)len),
	};
	struct proto_out o = {.head_len = WIRE_HDR_BYTES, .len = (uint16_t)len};

	memcpy(o.head, &h, sizeof(h));
	while (links != 0) {
		struct peer to = e->node->multicast[rte_bsf32(links)];
		struct tx_queue *q = &e->txq[to.link];

		links &= links - 1;
		struct rte_mbuf *copy = links != 0 ? rte_pktmbuf_copy(m, e->node->pool, 0, len) : m;

		if (copy == NULL)
			continue; /* as if it were lost */
		copy->data_off = (uint16_t)(PAYLOAD_START - to.encap_len - WIRE_HDR_BYTES);
		copy->data_len = (uint16_t)(to.encap_len + WIRE_HDR_BYTES + len);
		copy->pkt_len = copy->data_len;
		copy->port = WIRE_NOBODY;
		encap_to_group(to.encap + LINK_ENCAP_MAX - to.encap_len, to.encap_len, group);
		engine_frame_put_head(e, copy, &o, &to);
		q->m[q->n++] = copy;
	}
	e->tx_waiting = true;
}

/* Send a question whether that link to the node works, or the answer to one. It is of that round,
 * and for the lane of that number there. If there is no room or no buffer now, it counts as
 * lost. */
static void
link_ask(struct engine *e, uint16_t node, unsigned link, uint16_t lane, uint32_t round, bool asks)
{
	const struct peer *peer = node_peer(e->node, node, link);
	struct tx_queue *q = &e->txq[link];
	struct proto_out o = {
		.handle = PROTO_NO_HANDLE,
		.node = node,
		.head_len = WIRE_HDR_BYTES,
	};
	const struct wire_fields w = {
		.type = WIRE_LINK,
		.flags = asks ? WIRE_F_ASK : 0,
		.src_node = (uint16_t)e->node->config.id,
		.dst_node = node,
		.src_ctx = (uint16_t)e->lane,
		.dst_ctx = lane,
		.session = proto_session(e->proto, node),
		.seq = round,
	};
	if (peer->neighbour != 0 && !neighbour_ready(e, peer))
		return;
	struct rte_mbuf *m = q->n < TX_QUEUE - BURST_MAX ? engine_frame_make(e, &o, peer) : NULL;

	if (m == NULL)
		return;
	wire_put(o.head, &w);
	engine_frame_put_head(e, m, &o, peer);
	q->m[q->n++] = m;
	e->tx_waiting = true;
}

void
engine_announce(struct engine *e)
{
	struct node *n = e->node;

	for (unsigned i = 0; i < n->link_count; i++) {
		struct peer all = n->multicast[i];
		struct tx_queue *q = &e->txq[i];
		struct proto_out o = {
			.handle = PROTO_NO_HANDLE,
			.node = WIRE_NOBODY,
			.head_len = WIRE_HDR_BYTES + sizeof(struct wire_hello),
		};
		const enum link_encap encap = n->links[i].config.encap;
		struct rte_mbuf *m;

		/* who has the same IP address is found by ARP */
		if (encap == LINK_ENCAP_UDP)
			neighbour_announce(e, i);
		if (!n->links[i].multicast ||
			(encap != LINK_ENCAP_ETHER && encap != LINK_ENCAP_VLAN) ||
			q->n >= TX_QUEUE - BURST_MAX ||
			(m = engine_frame_make(e, &o, &all)) == NULL)
			continue;
		memset(all.encap + LINK_ENCAP_MAX - all.encap_len, 0xFF, RTE_ETHER_ADDR_LEN);
		proto_announce(e->proto, o.head, e->now);
		engine_frame_put_head(e, m, &o, &all);
		q->m[q->n++] = m;
		e->tx_waiting = true;
	}
}

void
engine_ask_links(struct engine *e)
{
	struct lane_question q;

	while (lane_rails_next(e, &q)) {
		for (; q.links != 0; q.links &= q.links - 1)
			link_ask(e, q.node, rte_bsf32(q.links), (uint16_t)e->lane, q.round, true);
	}
}

/* Drop the frames of a queue if its link took none for a while, as if the network had lost them.
 * Such a link is dead, and must not keep frames from the node's other links. The link has just
 * taken `sent` of the queue's frames, and not all. Return whether the others were dropped. */
static __rte_noinline bool
drop_stuck(struct engine *e, struct tx_queue *q, unsigned sent)
{
	if (sent != 0) {
		q->stuck_at = 0;
		return false;
	}
	if (q->stuck_at == 0)
		q->stuck_at = e->now;
	if (e->now - q->stuck_at < rte_get_tsc_hz() / 1000)
		return false;
	ENGINE_COUNT_N(e, tx_stuck, q->n);
	rte_pktmbuf_free_bulk(q->m, q->n);
	q->n = q->captured = q->sealed = 0;
	return true;
}

/* Give a link, or lane 0, the frames of a queue from one on, up to another. Return how many it
 * took. */
static inline unsigned
give(struct engine *e, unsigned link, struct tx_queue *q, unsigned from, unsigned to)
{
	struct link *l = &e->node->links[link];
	const bool own = e->lane < l->tx_queues;

	/* lane 0 captures what others leave for it */
	if (unlikely(e->capture != NULL) && own)
		capture_out(e, link, q, to);
	return likely(own) ? l->ops->tx(l, (uint16_t)e->lane, &q->m[from], (uint16_t)(to - from))
			   : give_handover(e->node, link, &q->m[from], to - from);
}

/* Give all frames of a queue in this way, each of which is sealed before. */
static __rte_noinline unsigned
give_sealed(struct engine *e, unsigned link, struct tx_queue *q)
{
	unsigned sent = 0;

	do {
		sealed_out(e, link, q);
		sent += give(e, link, q, sent, q->sealed);
	} while (sent == q->sealed && sent < q->n);
	return sent;
}

/* Return the ticks that a link takes for the frames of a queue. */
static uint64_t
time_of(const struct pace *pace, const struct tx_queue *q)
{
	uint32_t bytes = q->n * (WIRE_FRAME_EXTRA - RTE_ETHER_HDR_LEN);

	for (unsigned i = 0; i < q->n; i++)
		bytes += q->m[i]->pkt_len;
	return bytes * pace->byte_ticks >> PACE_SHIFT;
}

/* Give the links the frames that wait for them. Return true if all went. */
static bool
flush_links(struct engine *e)
{
	struct node *n = e->node;
	bool all = true;

	for (unsigned i = 0; i < n->link_count; i++) {
		struct tx_queue *q = &e->txq[i];

		if (unlikely(n->handover[i] != NULL) && e->lane == 0)
			take_handover(e, i, q);
		if (q->n == 0)
			continue;
		if (unlikely(e->pace.byte_ticks != 0)) /* there is one link */
			e->pace.free_at = RTE_MAX(e->pace.free_at, e->now) + time_of(&e->pace, q);
		const unsigned sent = likely(e->sealed == NULL) ? give(e, i, q, 0, q->n)
								: give_sealed(e, i, q);

		if (likely(sent == q->n)) {
			q->n = q->captured = q->sealed = 0;
			q->stuck_at = 0;
			continue;
		}
		memmove(q->m, q->m + sent, (q->n - sent) * sizeof(q->m[0]));
		q->n -= sent;
		q->captured -= sent < q->captured ? sent : q->captured;
		q->sealed -= sent < q->sealed ? sent : q->sealed;
		if (unlikely(e->rails != NULL) && drop_stuck(e, q, sent))
			continue;
		all = false;
	}
	return all;
}

/* Return how many of so many frames may go to the link's port now: note 3. */
static inline unsigned
pace_allows(const struct engine *e, unsigned burst)
{
	const struct pace *pace = &e->pace;

	if (likely(pace->byte_ticks == 0))
		return burst;
	const uint64_t waits = pace->free_at > e->now ? pace->free_at - e->now : 0;

	if (waits >= pace->most)
		return 0;
	const uint64_t n = ((pace->most - waits) * pace->frames_per_tick >> PACE_SHIFT) + 1;

	return n < burst ? (unsigned)n : burst;
}

/* Return whether some link's queue has no room for another burst. */
static inline bool
queues_full(const struct engine *e)
{
	for (unsigned i = 0; i < e->node->link_count; i++) {
		if (unlikely(e->txq[i].n > TX_QUEUE - BURST_MAX))
			return true;
	}
	return false;
}

void
engine_tx_queued(struct engine *e)
{
	e->tx_waiting = !flush_links(e);
	e->straight = 0;
	e->now = rte_rdtsc();
}

unsigned
engine_tx(struct engine *e)
{
	unsigned burst = e->burst, work = 0;

	e->straight = 0;
	for (unsigned turn = 0; turn < 4; turn++) {
		/* The copying above takes time, so the clock is read again: frames stamped too
		 * early would make the network look slow. */
		if (turn > 0)
			e->now = rte_rdtsc();
		if (e->tx_waiting || e->hands_over)
			e->tx_waiting = !flush_links(e);
		/* even after a flush, a burst of the core must fit behind what still waits */
		e->tx_waiting |= queues_full(e);
		if (e->tx_waiting || !(proto_has(e->proto, e->now) & PROTO_HAS_FRAMES))
			break;
		burst = pace_allows(e, burst);
		if (burst == 0)
			break;
		unsigned k = proto_tx(e->proto, e->out, burst, e->now);

		if (k) {
			frames_out(e, k);
			e->tx_waiting = true;
		}
		work += k;
		if (k < burst) {
			if (k)
				e->tx_waiting = !flush_links(e);
			break;
		}
	}
	return work;
}
