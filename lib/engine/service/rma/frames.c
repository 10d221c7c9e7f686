/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of transfers: from a lane's pool to the core or to a lane of this node, onto the link, and
 * back to the pool. Runs on the lane.
 *
 * Design notes
 * 1. A frame keeps its mbufs. When it is done with and a port still has one of them, the frame gets
 *    another in its place, as send buffers do; what the port has refers to memory that must stay
 *    mapped, so its shared info counts in memory.held until the port lets go.
 * 2. What a lane asks and what it answers each leave a quarter of the pool to the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "engine/service/rma/frames.h"

#define REFER_MIN 512 /* bytes; fewer are copied: a second segment costs a descriptor */

/* In the private area of an mbuf that is a second segment. */
struct place_priv {
	struct rte_mbuf_ext_shared_info info; /* its opaque is the struct memory */
};

static inline struct place_priv *
place_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* The last reference of a second segment is gone: a port had it longer than we. */
static void
place_freed(void *addr, void *opaque)
{
	(void)addr;
	memory_let_go(opaque);
}

static struct rte_mbuf *
new_place(struct rma_lane *x)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(x->places);

	if (m != NULL)
		place_priv(m)->info = (struct rte_mbuf_ext_shared_info){
			.free_cb = place_freed,
			.refcnt = 1,
		};
	return m;
}

struct frame *
frame_take(struct engine *e, bool own)
{
	struct rma_lane *x = rma_lane(e);
	struct frame *f = x->free_frames;

	if (f == NULL || (own ? x->own_out : x->answers_out) >= x->frames_max - x->frames_max / 4)
		return NULL;
	x->free_frames = f->next;
	x->frames_free--;
	*(own ? &x->own_out : &x->answers_out) += 1;
	f->asks = f->out = f->marked = f->retried = f->ends_offer = false;
	f->memory = NULL;
	f->own = own;
	f->back = false;
	f->error = 0;
	return f;
}

/* Frames for the next `left` bytes, at most FRAMES_BURST, at least one though there be no bytes;
 * len[i] of them each. Fewer, or none: the pool has no more. */
unsigned
frames_take(struct engine *e, bool own, uint64_t left, struct frame **f, uint32_t *len)
{
	uint32_t payload = rma_lane(e)->payload;
	unsigned n = 0;

	do {
		f[n] = frame_take(e, own);
		if (f[n] == NULL)
			break;
		len[n] = left < payload ? (uint32_t)left : payload;
		left -= len[n++];
	} while (n < FRAMES_BURST && left > 0);
	return n;
}

/* Frames from..n - 1 are not sent after all. */
void
frames_put(struct engine *e, struct frame **f, unsigned from, unsigned n)
{
	for (unsigned i = from; i < n; i++) {
		if (f[i]->memory)
			memory_let_go(f[i]->memory);
		frame_put(e, f[i]);
	}
}

/* The frame's bytes behind head_len are the client's, where they lie: nothing is copied. false: a
 * device cannot read them there. */
static bool
frame_refer(struct frame *f, struct memory *m, uint64_t client, uint32_t head_len, uint32_t len)
{
	struct rte_mbuf *p = f->place;
	rte_iova_t iova = memory_iova(m, client - m->client, len);

	if (unlikely(iova == RTE_BAD_IOVA))
		return false;
	p->buf_addr = m->base + (client - m->client);
	p->buf_iova = iova;
	p->buf_len = (uint16_t)len;
	p->data_off = 0;
	p->data_len = (uint16_t)len;
	p->ol_flags = RTE_MBUF_F_EXTERNAL;
	p->shinfo = &place_priv(p)->info;
	place_priv(p)->info.fcb_opaque = m;
	f->memory = m;
	f->head_len = head_len;
	atomic_fetch_add_explicit(&m->held, 1, memory_order_relaxed);
	return true;
}

/* May the frames to that node have their bytes where the client has them? */
static inline bool
may_refer(const struct engine *e, uint16_t node, const struct memory *m)
{
	const struct node *n = e->node;

	if (node == n->config.id)
		return true;
	if (n->config.checksum || node >= e->nodes_max)
		return false;
	const struct link *l = &n->links[e->peers[node].link];

	return l->segments && (l->device == NULL || m->for_devices);
}

/* Behind the heads of n frames, len[i] bytes each, from `offset` on: where they lie, or copied. 0,
 * -EFAULT. */
int
frames_fill(struct engine *e, const struct bytes *b, uint64_t offset, uint16_t node,
	struct frame **f, const uint32_t *len, unsigned n)
{
	const uint32_t head = sizeof(struct wire_transfer);
	struct iovec local[FRAMES_BURST];

	if (b->memory == NULL) {
		uint64_t all = 0;

		for (unsigned i = 0; i < n; i++) {
			local[i] = (struct iovec){(uint8_t *)frame_head(f[i]) + head, len[i]};
			all += len[i];
		}
		return all == 0 ? 0 : memory_gather(b, offset, local, n, all);
	}
	bool refer = may_refer(e, node, b->memory);

	for (unsigned i = 0; i < n; i++) {
		if (refer && len[i] >= REFER_MIN &&
			frame_refer(f[i], b->memory, b->at + offset, head, len[i]))
			e->counters[ENGINE_tx_in_place] += node != e->node->config.id;
		else
			memory_read(b, offset, (uint8_t *)frame_head(f[i]) + head, len[i]);
		offset += len[i];
	}
	return 0;
}

/* ------------------------------------------------------------------ out */

/* To the lane of a context of this node. */
void
frame_hand_over(struct engine *e, struct frame *f, uint16_t ctx)
{
	struct engine *lane = node_lane(e->node, ctx);

	if (lane == e) {
		e->services->numbered[RMA_SERVICE]->handed_over(e, frame_handle(f));
		return;
	}
	rte_ring_enqueue(lane->inbox, (void *)frame_handle(f));
	engine_wake(lane);
}

int
frame_to_core(struct engine *e, const struct frame *f)
{
	const uint64_t handle = frame_handle(f);
	const struct proto_message m = {
		.dst_node = f->node,
		.dst_ctx = f->dst,
		.len = f->len,
		.ctx = f->src,
		.frag_len = e->node->frag_len,
	};

	return proto_send(e->proto, &m, &handle, e->now);
}

/* Give it to whom it is for. 0; -EAGAIN: not now, the frame is still the caller's; or what is wrong
 * with it, and the frame is still the caller's. */
int
frame_send(struct engine *e, struct channel *ch, struct frame *f, uint16_t src_endpoint,
	uint16_t node, uint16_t dst, uint32_t len)
{
	f->src = ch->ctx | src_endpoint;
	f->node = node;
	f->dst = dst;
	f->len = len;
	if (unlikely(node == e->node->config.id)) {
		frame_count(ch, f, 1);
		frame_hand_over(e, f, dst % WIRE_CONTEXTS_MAX);
		return 0;
	}
	if (unlikely(node >= e->nodes_max || !e->peers[node].known))
		return -EHOSTUNREACH;
	int result = frame_to_core(e, f);

	if (likely(result == 0))
		frame_count(ch, f, 1);
	return result;
}

/* A copy in one piece: its first transmission is still with a port. */
static struct rte_mbuf *
copy_frame(struct engine *e, const struct frame *f)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);
	uint32_t head = f->memory ? f->head_len : f->len;

	ENGINE_COUNT(e, tx_still_queued);
	if (m == NULL)
		return NULL;
	uint8_t *to = (uint8_t *)m->buf_addr + PAYLOAD_START;

	memcpy(to, frame_head((struct frame *)(uintptr_t)f), head);
	if (f->memory)
		memcpy(to + head, f->place->buf_addr, f->len - head);
	return m;
}

/* The mbuf that carries a frame, with room for its headers and a reference for the link. */
struct rte_mbuf *
frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer)
{
	const struct frame *f = frame_of_handle(o->handle);
	uint32_t head = peer->encap_len + o->head_len;
	struct rte_mbuf *m = f->m;

	if (unlikely(o->again) && rte_mbuf_refcnt_read(m) > 1) {
		m = copy_frame(e, f);
		if (m == NULL)
			return NULL;
		m->data_len = (uint16_t)(head + o->len);
	} else {
		rte_mbuf_refcnt_update(m, 1);
		m->next = NULL;
		m->nb_segs = 1;
		m->data_len = (uint16_t)(head + o->len);
		if (f->memory) {
			rte_mbuf_refcnt_update(f->place, 1);
			m->next = f->place;
			m->nb_segs = 2;
			m->data_len = (uint16_t)(head + f->head_len);
		}
	}
	m->data_off = (uint16_t)(PAYLOAD_START - head);
	m->pkt_len = head + o->len;
	m->port = o->node;
	return m;
}

/* ------------------------------------------------------------------ back */

/* A port still has an mbuf of the frame: the port keeps it. false: none to put in its place. */
bool
frame_leave_to_port(struct engine *e, struct frame *f)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool), *place = new_place(rma_lane(e));

	if (m == NULL || place == NULL) {
		rte_pktmbuf_free(m);
		rte_pktmbuf_free(place);
		return false;
	}
	if (f->memory == NULL) { /* the second segment is not the port's */
		rte_pktmbuf_free(place);
		place = f->place;
		f->m->next = NULL;
		f->m->nb_segs = 1;
	}
	rte_pktmbuf_free(f->m); /* with its second segment, if it has one */
	f->m = m;
	f->place = place;
	return true;
}

/* What the port has it keeps, and the frame gets a copy. false: there are no mbufs. */
bool
frame_copy_from_port(struct engine *e, struct frame *f)
{
	struct rte_mbuf *copy = copy_frame(e, f);

	if (copy == NULL || !frame_leave_to_port(e, f)) {
		rte_pktmbuf_free(copy);
		return false;
	}
	rte_pktmbuf_free(f->m);
	f->m = copy;
	f->memory = NULL; /* let go by the port */
	return true;
}

static unsigned
sent_not_back(const struct node *n)
{
	unsigned all = 0;

	for (unsigned i = 0; i < n->link_count; i++)
		all += n->links[i].device != NULL ? n->links[i].config.tx_descriptors : 0;
	return all;
}

int
frames_make(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	struct node *n = e->node;
	const struct config *c = &n->config;
	char name[32];

	x->own_out = c->transfer_frames; /* frame_put takes them off */

	x->payload = n->frag_len - (uint32_t)sizeof(struct wire_transfer);
	x->frames_max = c->transfer_frames;
	x->frames = calloc(x->frames_max, sizeof(*x->frames));
	x->pins = calloc(c->regions, sizeof(*x->pins));
	struct region *regions = calloc(c->regions, sizeof(*regions));

	if (x->frames == NULL || x->pins == NULL || regions == NULL) {
		free(regions);
		return -ENOMEM;
	}
	region_table_init(&x->regions, regions, c->regions);
	snprintf(name, sizeof(name), "pmx_%u_places_%u", c->id, e->lane);
	/* as many again may be with ports, and what their devices have sent and not given back */
	x->places = rte_pktmbuf_pool_create(name, 2 * x->frames_max + 64 + sent_not_back(n), 32,
		RTE_ALIGN(sizeof(struct place_priv), 64), 0, (int)rte_socket_id());
	if (x->places == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < x->frames_max; i++) {
		struct frame *f = &x->frames[i];

		f->own = true;
		f->m = rte_pktmbuf_alloc(n->pool);
		f->place = new_place(x);
		if (f->m == NULL || f->place == NULL)
			return -ENOMEM;
		frame_put(e, f);
	}
	return 0;
}

void
frames_free(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = 0; x->frames != NULL && i < x->frames_max; i++) {
		struct frame *f = &x->frames[i];

		if (f->m == NULL)
			continue;
		f->m->next = NULL;
		f->m->nb_segs = 1;
		rte_pktmbuf_free(f->m);
	}
	free(x->frames);
	free(x->regions.regions);
	free(x->pins);
	rte_mempool_free(x->places);
}
