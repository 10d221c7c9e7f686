/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between links and the core: frames in and out, checksums. All functions run on the lane.
 */
#ifndef PMX_ENGINE_LINK_IO_H
#define PMX_ENGINE_LINK_IO_H

#include "engine/lane.h"

/* Return where the PM header of a frame in a send buffer stands: right before the payload. */
static inline uint8_t *
slot_header(const struct rte_mbuf *m)
{
	return (uint8_t *)m->buf_addr + PAYLOAD_START - WIRE_HDR_BYTES;
}

/* All that the frames to one plain peer have in common. */
struct frame_head {
	uint8_t encap[16]; /* the last bytes of it stand before the PM header */
	uint32_t bytes;    /* with the PM header */
	uint16_t node;
};

static inline struct frame_head
frame_head_of(const struct peer *peer, uint16_t node)
{
	struct frame_head h = {.bytes = peer->encap_len + WIRE_HDR_BYTES, .node = node};

	memcpy(h.encap, peer->encap + LINK_ENCAP_MAX - sizeof(h.encap), sizeof(h.encap));
	return h;
}

/* Make a frame of `len` bytes of payload, whose PM header is written, ready for its link. The
 * link gets the caller's reference. */
static inline void
frame_ready(struct rte_mbuf *m, const struct frame_head *h, uint32_t len)
{
	m->data_off = (uint16_t)(PAYLOAD_START - h->bytes);
	m->data_len = (uint16_t)(h->bytes + len);
	m->pkt_len = m->data_len;
	m->port = h->node; /* link.h, note 5 */
	memcpy(slot_header(m) - sizeof(h->encap), h->encap, sizeof(h->encap));
}

/* Prepare the lane for the node's links. To be called when these are open, before the lane
 * polls. */
void engine_links(struct engine *e);
/* Pass frames that came from a link to the core. */
void engine_frames(struct engine *e, const struct link *l, struct rte_mbuf **m, unsigned n);
/* Pass what other lanes put into this one's inbox to whomever it is for. Return how much. */
unsigned engine_inbox(struct engine *e);

/* Take in what has come to this lane's receive queues, and from other lanes. Return how much. */
static inline unsigned
engine_rx(struct engine *e)
{
	unsigned work = 0;

	for (unsigned i = 0; i < e->rx_link_count; i++) {
		struct link *l = e->rx_links[i];
		unsigned k = l->ops->rx(l, (uint16_t)e->lane, e->arrived, (uint16_t)e->burst);

		if (likely(k == 0))
			continue;
		engine_frames(e, l, e->arrived, k);
		work += k;
	}
	if (unlikely(e->hands_over))
		work += engine_inbox(e);
	return work;
}

/* Pass frames from the core to the links. Return how many. */
unsigned engine_tx(struct engine *e);
/* Send a frame to several nodes at once, over those links (a bit each), which can do that. m: its
 * data is the frame's payload of len bytes, at PAYLOAD_START. m passes to the link. There must be
 * room: engine_multicast_room. */
void engine_multicast(struct engine *e, uint32_t links, uint32_t group, uint16_t ctx,
	struct rte_mbuf *m, uint32_t len);
bool engine_multicast_room(const struct engine *e);
/* Give the links what waits for them, as far as they take it, and read the clock. To be called when
 * a burst of frames waits, and instead of engine_tx() when the core has nothing to send. */
void engine_tx_queued(struct engine *e);
/* Tell all nodes on the links, as far as these can, which number this node has. Whoever has the
 * same one answers in the same way. */
void engine_announce(struct engine *e);
/* Ask the peers with several links whether these work. To be called at e->rails->at. */
void engine_ask_links(struct engine *e);

#endif
