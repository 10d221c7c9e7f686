/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See frame.h.
 */
#include <string.h>

#include <rte_ethdev.h>
#include <rte_hash_crc.h>

#include "engine/encap.h"
#include "engine/frame.h"
#include "engine/neighbours.h"

/* rte_hash_crc needs aligned words, but a header may be at any even address. */
static uint32_t
crc_add(uint32_t crc, const void *from, uint32_t len)
{
	const uint8_t *at = from;
	uint64_t word;

	for (; len >= sizeof(word); len -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		crc = rte_hash_crc_8byte(word, crc);
	}
	while (len-- > 0)
		crc = rte_hash_crc_1byte(*at++, crc);
	return crc;
}

uint32_t
engine_frame_checksum(const struct wire_hdr *h, const void *payload, uint32_t len)
{
	const uint32_t zero = 0;
	uint32_t crc = crc_add(0xFFFFFFFF, h, offsetof(struct wire_hdr, crc));

	crc = crc_add(crc, &zero, sizeof(zero));
	return ~crc_add(crc, payload, len);
}

/* Return a copy of a buffer that is to be retransmitted while a port still has it, or NULL if there
 * is no mbuf. The copy is sent instead, whether the buffer is freed late or really waits: its
 * headers must not change. */
static struct rte_mbuf *
copy_queued(struct engine *e, const struct rte_mbuf *queued, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);

	ENGINE_COUNT(e, tx_still_queued);
	if (m != NULL)
		memcpy((uint8_t *)m->buf_addr + PAYLOAD_START,
			(const uint8_t *)queued->buf_addr + PAYLOAD_START, len);
	return m;
}

struct rte_mbuf *
engine_frame_make(struct engine *e, const struct proto_out *o, const struct peer *peer)
{
	struct rte_mbuf *m;
	uint32_t head = peer->encap_len + o->head_len;

	if (o->handle != PROTO_NO_HANDLE && o->handle & SERVICE_TAG)
		return e->services->numbered[o->handle & SERVICE_TAG]->frame(e, o, peer);
	if (o->handle != PROTO_NO_HANDLE) {
		m = ((const struct send_slot *)(uintptr_t)o->handle)->m;
		if (unlikely(o->again) && rte_mbuf_refcnt_read(m) > 1)
			m = copy_queued(e, m, o->len);
		else
			rte_mbuf_refcnt_update(m, 1);
		if (unlikely(m == NULL))
			return NULL;
		m->data_off = (uint16_t)(PAYLOAD_START - head);
	} else {
		m = rte_pktmbuf_alloc(e->node->pool);
		if (unlikely(m == NULL)) {
			ENGINE_COUNT(e, tx_no_mbuf);
			return NULL;
		}
		if (o->len != 0)
			memset(rte_pktmbuf_mtod_offset(m, void *, head), 0, o->len);
	}
	m->data_len = (uint16_t)(head + o->len);
	m->pkt_len = m->data_len;
	m->port = o->node; /* link.h, note 5 */
	return m;
}

void
engine_frame_put_head(struct engine *e, struct rte_mbuf *m, const struct proto_out *o,
	const struct peer *peer)
{
	uint8_t *at = rte_pktmbuf_mtod(m, uint8_t *);
	struct wire_hdr *h = (struct wire_hdr *)(at + peer->encap_len);

	/* the encapsulation ends where the header begins; the constant length may write into the
	 * headroom before it */
	memcpy((uint8_t *)h - LINK_ENCAP_MAX, peer->encap, LINK_ENCAP_MAX);
	if (likely(o->head_len == WIRE_HDR_BYTES))
		memcpy(h, o->head, WIRE_HDR_BYTES); /* of known size: no call */
	else
		memcpy(h, o->head, o->head_len);
	if (unlikely(e->node->config.checksum)) {
		h->flags |= wire_be16(WIRE_F_CRC);
		h->crc = wire_be32(engine_frame_checksum(h, h + 1,
			m->data_len - peer->encap_len - WIRE_HDR_BYTES));
	}
	if (peer->encap_len == 42) {
		if (peer->neighbour != 0)
			neighbour_put(e, peer, at);
		encap_finish(at, m->pkt_len - peer->encap_len);
	}
}

void
engine_frame_queue(struct engine *e, unsigned link, struct rte_mbuf *m)
{
	struct tx_queue *q = &e->txq[link];

	if (q->n >= TX_QUEUE - BURST_MAX) {
		rte_pktmbuf_free(m);
		return;
	}
	q->m[q->n++] = m;
	e->tx_waiting = true;
}

void
engine_send_keys(struct engine *e, uint16_t node, const struct keys_frame *f)
{
	const struct peer *peer = &e->peers[node];
	struct proto_out o = {
		.handle = PROTO_NO_HANDLE,
		.node = node,
		.head_len = WIRE_HDR_BYTES,
		.len = (uint16_t)f->len,
	};
	const struct wire_fields w = {
		.type = WIRE_KEYS,
		.src_node = (uint16_t)e->node->config.id,
		.dst_node = node,
		.src_ctx = (uint16_t)e->lane,
		.dst_ctx = f->lane,
		.payload_len = (uint16_t)f->len,
		.seq = f->open,
	};

	if (peer->known && peer->several) {
		uint32_t links = e->node->config.peers[node].links;
		uint32_t skip = f->turn % (uint32_t)__builtin_popcount(links);

		for (; skip > 0; skip--)
			links &= links - 1;
		peer = node_peer(e->node, node, rte_bsf32(links));
	}
	if (!peer->known || (peer->neighbour != 0 && !neighbour_ready(e, peer)))
		return;
	struct rte_mbuf *m = engine_frame_make(e, &o, peer);

	if (m == NULL)
		return;
	wire_put(o.head, &w);
	engine_frame_put_head(e, m, &o, peer);
	if (f->len != 0)
		memcpy(rte_pktmbuf_mtod_offset(m, void *, peer->encap_len + WIRE_HDR_BYTES),
			f->message, f->len);
	engine_frame_queue(e, peer->link, m);
}
