/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the PM core into channels, where the head of a message goes into its LHS entry and bulk is
 * passed by reference (LHS-1 to LHS-5), and to services. Runs on the lane.
 *
 * Design notes
 * 1. The core takes room before it accepts a message, so a delivery always fits.
 * 2. A bulk message stays in the mbufs that the link wrote. Fragments are linked by a bulk_link in
 *    the 16 bytes before each payload, where the header was. The engine has its own chain in
 *    bufs[], so a client that overwrites these links harms only itself.
 */
#include <string.h>

#include "engine/deliver.h"
#include "engine/thin.h"

static inline int64_t
offset_of(const struct channel *ch, const void *payload)
{
	return (const uint8_t *)payload - (const uint8_t *)ch->shm;
}

/* Free an mbuf of one segment and one reference. It is out of line to keep the callers' hot path
 * small. */
static __rte_noinline void
free_one(struct rte_mbuf *m)
{
	rte_mbuf_raw_free(m);
}

/* Make the context the owner of a payload. Return where its client reads it, and in *number the
 * number by which the client gives it back. */
static inline uint8_t *
own(struct inlet *in, struct rte_mbuf *m, uint8_t *payload, uint32_t len, bool head,
	uint32_t *number)
{
	struct channel *ch = in->ch;
	struct buf_state *b;

	if (unlikely(ch->thin != NULL)) {
		payload = thin_keep(ch->thin, payload, len, number);
		free_one(m);
		m = NULL;
	} else {
		*number = buf_priv(m)->number;
	}
	b = &ch->bufs[*number];
	b->owner = ch->ctx;
	b->head = head;
	b->matched = in->endpoint >= WIRE_CONTEXTS_MAX;
	b->m = m;
	b->next = UINT32_MAX;
	in->bulk_out++;
	return payload;
}

static void
write_link(uint8_t *payload, int64_t next_off, uint32_t len)
{
	const struct bulk_link link = {.next_off = next_off, .len = len};

	memcpy(payload - sizeof(link), &link, sizeof(link));
}

/* Pass one fragment of a message of several to the inlet. With the last one, write the LHS entry of
 * the whole message. */
static __rte_noinline void
put_fragment(struct inlet *in, uint16_t src_node, uint16_t src_ctx, struct rte_mbuf *m,
	uint8_t *payload, uint32_t len, uint32_t msg_len, bool last)
{
	uint32_t number;

	/* from here on the mbuf's data is its payload only */
	m->data_off = (uint16_t)(payload - (uint8_t *)m->buf_addr);
	payload = own(in, m, payload, len, in->chain_count == 0, &number);
	write_link(payload, 0, len);
	if (in->chain_count++ == 0) {
		in->chain_first = number;
		in->chain_len = len;
		in->chain = payload;
	} else {
		int64_t off = offset_of(in->ch, payload);

		in->ch->bufs[in->chain_last].next = number;
		memcpy(in->chain_at - sizeof(struct bulk_link), &off, sizeof(off));
	}
	in->chain_last = number;
	in->chain_at = payload;
	if (!last)
		return;
	/* a first fragment may be shorter than the split: earlier contents of the buffer must not
	 * leak */
	uint8_t front[LHS_ENTRY_MAX] = {0};

	memcpy(front, in->chain, in->chain_len < in->lhs.split ? in->chain_len : in->lhs.split);
	lhs_write(&in->lhs, src_node, src_ctx, msg_len, in->chain_first | LHS_CHAINED,
		offset_of(in->ch, in->chain), front, in->lhs.split);
	in->chain_count = 0;
	in->ch->received++;
	in->ch->received_bytes += msg_len;
}

/* Pass one fragment, in order, to the inlet. Its payload begins payload_off bytes into the mbuf's
 * data. */
static __rte_always_inline void
put(struct engine *e, struct inlet *in, uint16_t src_node, uint16_t src_ctx, struct rte_mbuf *m,
	uint32_t payload_off, uint32_t len, uint32_t msg_len, bool last)
{
	uint8_t *payload = rte_pktmbuf_mtod_offset(m, uint8_t *, payload_off);
	uint32_t number;

	channel_touch(e, in->ch);
	if (unlikely(!last || len != msg_len)) {
		put_fragment(in, src_node, src_ctx, m, payload, len, msg_len, last);
		return;
	}
	in->ch->received++;
	in->ch->received_bytes += msg_len;
	if (len <= in->lhs.split) {
		lhs_write(&in->lhs, src_node, src_ctx, len, LHS_NO_BULK, 0, payload, len);
		free_one(m);
		return;
	}
	payload = own(in, m, payload, len, true, &number);
	lhs_write(&in->lhs, src_node, src_ctx, len, number, offset_of(in->ch, payload), payload,
		in->lhs.split);
}

void
inlet_put(struct engine *e, struct inlet *in, uint16_t src_node, uint16_t src_ctx,
	struct rte_mbuf *m, uint32_t payload_off, uint32_t len, uint32_t msg_len, bool last)
{
	put(e, in, src_node, src_ctx, m, payload_off, len, msg_len, last);
}

/* Pass a message to the service that owns its endpoint. There always is one, since the core has no
 * other such endpoints open. */
static inline void
service_in(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint16_t to, uint32_t len)
{
	e->services->endpoint[to / WIRE_CONTEXTS_MAX]->message(e, ch, m, len);
}

/* Pass one fragment, in order, to a matched endpoint. Drop it if the context is not open any more.
 * Drop WIRE_NOTHING too, which is no message, and give its room back. */
static inline void
matched_in(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer, struct rte_mbuf *m,
	uint32_t len, uint32_t msg_len, bool last)
{
	if (unlikely(ch->state != CHANNEL_OPEN)) {
		rte_pktmbuf_free(m);
	} else if (unlikely(msg_len == sizeof(struct wire_match) &&
			   *rte_pktmbuf_mtod_offset(m, const uint8_t *, WIRE_HDR_BYTES) ==
				   WIRE_NOTHING)) {
		proto_ctx_room(e->proto, ch->matched.endpoint, 1, ch->matched.lhs.split < msg_len,
			e->now);
		rte_pktmbuf_free(m);
	} else {
		put(e, &ch->matched, node, peer % WIRE_CONTEXTS_MAX, m, WIRE_HDR_BYTES, len,
			msg_len, last);
	}
}

/* Deliver a frame that is a whole message for another endpoint than the plain one. */
static __rte_noinline void
other_message(struct engine *e, struct rte_mbuf *m, uint16_t ctx, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	struct channel *ch = &e->node->channels[ctx % WIRE_CONTEXTS_MAX];

	if (wire_endpoint(ctx) == WIRE_MATCHED)
		matched_in(e, ch, wire_be16(h->src_node), wire_be16(h->src_ctx), m, len, len, true);
	else
		service_in(e, ch, m, ctx, len);
}

/* Deliver one fragment, in order, for another endpoint than the plain one. */
static __rte_noinline void
other_in(struct engine *e, const struct proto_delivery *d)
{
	struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)d->handle;
	struct channel *ch = &e->node->channels[d->ctx % WIRE_CONTEXTS_MAX];

	if (wire_endpoint(d->ctx) == WIRE_MATCHED)
		matched_in(e, ch, d->src_node, d->src_ctx, m, d->len, d->msg_len, d->last);
	else
		service_in(e, ch, m, d->ctx, d->len);
}

void
engine_message(struct engine *e, struct rte_mbuf *m)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	uint16_t ctx = wire_be16(h->dst_ctx);
	struct channel *ch = &e->node->channels[ctx];
	uint32_t len = m->data_len - (uint32_t)WIRE_HDR_BYTES;

	if (unlikely(ctx >= WIRE_CONTEXTS_MAX)) {
		other_message(e, m, ctx, len);
		return;
	}
	if (likely(ch->state == CHANNEL_OPEN))
		put(e, &ch->plain, wire_be16(h->src_node), wire_be16(h->src_ctx), m, WIRE_HDR_BYTES,
			len, len, true);
	else
		rte_pktmbuf_free(m);
}

unsigned
engine_deliver(struct engine *e)
{
	struct proto_delivery d[BURST_MAX];
	unsigned n, work = 0;
	uint64_t handles[BURST_MAX];

	do {
		n = proto_deliver(e->proto, d, BURST_MAX);
		for (unsigned i = 0; i < n; i++) {
			struct channel *ch = &e->node->channels[d[i].ctx];
			struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)d[i].handle;

			if (unlikely(d[i].ctx >= WIRE_CONTEXTS_MAX))
				other_in(e, &d[i]);
			else if (unlikely(ch->state != CHANNEL_OPEN))
				rte_pktmbuf_free(m);
			else
				inlet_put(e, &ch->plain, d[i].src_node, d[i].src_ctx, m,
					WIRE_HDR_BYTES, d[i].len, d[i].msg_len, d[i].last);
		}
		work += n;
	} while (n == BURST_MAX);
	while (unlikely((n = proto_release(e->proto, handles, BURST_MAX)) != 0)) {
		for (unsigned i = 0; i < n; i++) {
			if (unlikely(handles[i] & THIN_FRAME))
				thin_frame_free(e->node, handles[i]);
			else
				rte_pktmbuf_free((struct rte_mbuf *)(uintptr_t)handles[i]);
		}
	}
	return work;
}
