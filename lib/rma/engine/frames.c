/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The mbufs of transfers' frames: from lib/rma to the core or to a lane of this node, onto the
 * link, and back. Runs on the lane.
 *
 * Design note: a frame keeps its mbufs. If a port still has one of them when the frame is
 * completed, the frame gets others in their place, as send buffers do. What the port has may refer
 * to memory that must stay mapped, so it counts in memory.held until the port frees it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "memory/numa.h"
#include "rma/engine/frames.h"

#define REFER_MIN 512 /* bytes; fewer are copied: a second segment costs a descriptor */

/* The private area of an mbuf that is a second segment. */
struct place_priv {
	struct rte_mbuf_ext_shared_info info; /* fcb_opaque is the struct memory */
};

static inline struct place_priv *
place_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* Let go of the memory of a second segment whose last reference is gone: a port had it longer than
 * the frame. */
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

/* Set the frame's mbuf, where lib/rma writes its head from now on. */
static inline void
set_buffer(struct frame *f, struct rte_mbuf *m)
{
	f->m = m;
	f->f->head = (struct wire_transfer *)((uint8_t *)m->buf_addr + PAYLOAD_START);
}

/* ------------------------------------------------------------------ sources */

/* Make the frame refer to the source's bytes where they lie. Return false if a device cannot read
 * them there. */
static bool
frame_refer(struct frame *f)
{
	struct memory *m = f->f->source.memory;
	const uint64_t offset = f->f->source.at - m->client;
	const uint32_t len = (uint32_t)f->f->source.len;
	struct rte_mbuf *p = f->place;
	rte_iova_t iova = memory_iova(m, offset, len);

	if (unlikely(iova == RTE_BAD_IOVA))
		return false;
	p->buf_addr = m->base + offset;
	p->buf_iova = iova;
	p->buf_len = (uint16_t)len;
	p->data_off = 0;
	p->data_len = (uint16_t)len;
	p->ol_flags = RTE_MBUF_F_EXTERNAL;
	p->shinfo = &place_priv(p)->info;
	place_priv(p)->info.fcb_opaque = m;
	f->memory = m;
	f->f->in_place = true;
	atomic_fetch_add_explicit(&m->held, 1, memory_order_relaxed);
	return true;
}

/* Return whether frames to that node may refer to bytes in the client's memory. */
static inline bool
may_refer(const struct engine *e, uint16_t node, const struct memory *m)
{
	const struct node *n = e->node;

	if (node == n->config.id)
		return true;
	if (n->config.checksum || e->sealed != NULL || node >= e->nodes_max)
		return false;
	for (uint32_t left = n->config.peers[node].links; left != 0; left &= left - 1) {
		const struct link *l = &n->links[rte_bsf32(left)];

		if (!l->segments || (l->device != NULL && !m->for_devices))
			return false;
	}
	return true;
}

static struct bytes
source_of(struct engine *e, const struct rma_frame *f)
{
	return (struct bytes){&e->node->channels[f->source.ctx].space, f->source.memory,
		f->source.at, f->source.len};
}

/* Copy the sources of all frames from memory that is not mapped here, with one system call. */
static int
frames_gather(struct engine *e, struct rma_frame **out, unsigned n)
{
	struct scatter all;

	scatter_begin(&all, &e->node->channels[out[0]->source.ctx].space, false);
	for (unsigned i = 0; i < n; i++) {
		const struct rma_frame *f = out[i];

		if (f->source.len != 0) /* one that may be anywhere */
			scatter_add(&all, f->source.at, (uint8_t *)f->head + f->head_len,
				(uint32_t)f->source.len);
	}
	return scatter_end(&all);
}

/* Attach the frames' sources: by reference, or copied behind the heads. Return 0, or -EFAULT. */
static int
frames_fill(struct engine *e, struct rma_frame **out, unsigned n)
{
	struct memory *m = out[0]->source.memory;
	const uint16_t node = out[0]->node;

	if (unlikely(out[0]->runs)) {
		const struct bytes from = source_of(e, out[0]);

		return memory_fill(&from, out[0]->runs_from,
			(uint8_t *)out[0]->head + out[0]->head_len, out[0]->len - out[0]->head_len);
	}
	if (m == NULL)
		return frames_gather(e, out, n);
	bool refer = may_refer(e, node, m);

	for (unsigned i = 0; i < n; i++) {
		struct rma_frame *f = out[i];

		if (refer && f->source.len >= REFER_MIN && frame_refer(frame_of(f)))
			e->counters[ENGINE_tx_in_place] += node != e->node->config.id;
		else
			memcpy((uint8_t *)f->head + f->head_len,
				m->base + (f->source.at - m->client), f->source.len);
	}
	return 0;
}

/* ------------------------------------------------------------------ out */

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
		.dst_node = f->f->node,
		.dst_ctx = f->f->dst,
		.len = f->f->len,
		.ctx = f->f->src,
		.frag_len = e->node->frag_len,
	};

	return proto_send(e->proto, &m, &handle, e->now);
}

/* Undo frames_fill for frames that are not sent. */
static void
frames_unfill(struct rma_frame **out, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct frame *f = frame_of(out[i]);

		if (f->memory != NULL)
			memory_let_go(f->memory);
		f->memory = NULL;
	}
}

/* Pass frames to the core. Return 0, or why not all of them went; *went counts those that did. */
static int
frames_to_core(struct engine *e, struct rma_frame **out, unsigned n, unsigned *went)
{
	const uint16_t node = out[0]->node;

	if (unlikely(node >= e->nodes_max || !e->peers[node].known))
		return -EHOSTUNREACH;
	for (; *went < n; ++*went) {
		int result = frame_to_core(e, frame_of(out[*went]));

		if (unlikely(result != 0))
			return result;
	}
	return 0;
}

/* Hand frames to a context of this node; n is 0 if their source could not be read. They are copied
 * first, since what they cause may pull other frames into the same list. */
static __rte_noinline void
frames_hand_over(struct engine *e, struct rma_frame **out, unsigned n)
{
	struct rma_frame *f[RMA_BURST];

	memcpy(f, out, n * sizeof(*f));
	rma_sent(rma_lane(e)->rma, n, n != 0 ? 0 : EFAULT, e->now);
	for (unsigned i = 0; i < n; i++)
		frame_hand_over(e, frame_of(f[i]), f[i]->dst % WIRE_CONTEXTS_MAX);
}

unsigned
frames_send(struct engine *e, struct rma_frame **out, unsigned n)
{
	const bool local = out[0]->node == e->node->config.id;
	int result = out[0]->source.len != 0 ? frames_fill(e, out, n) : 0;
	unsigned went = 0;

	if (likely(result == 0 && !local))
		result = frames_to_core(e, out, n, &went);
	else if (result == 0)
		went = n;
	if (unlikely(went != n))
		frames_unfill(out + went, n - went);
	if (unlikely(local))
		frames_hand_over(e, out, went);
	else
		rma_sent(rma_lane(e)->rma, went, (uint8_t)-result, e->now);
	return went;
}

/* Return a copy of a frame in one mbuf, for use while its first transmission is still with a
 * port. */
static struct rte_mbuf *
copy_frame(struct engine *e, const struct frame *f)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);
	uint32_t head = f->memory ? f->f->head_len : f->f->len;

	ENGINE_COUNT(e, tx_still_queued);
	if (m == NULL)
		return NULL;
	uint8_t *to = (uint8_t *)m->buf_addr + PAYLOAD_START;

	memcpy(to, f->f->head, head);
	if (f->memory)
		memcpy(to + head, f->place->buf_addr, f->f->len - head);
	return m;
}

/* service_ops.frame */
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
			m->data_len = (uint16_t)(head + f->f->head_len);
		}
	}
	m->data_off = (uint16_t)(PAYLOAD_START - head);
	m->pkt_len = head + o->len;
	m->port = o->node;
	return m;
}

/* ------------------------------------------------------------------ back */

bool
frame_leave_to_port(struct engine *e, struct frame *f)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool), *place = new_place(rma_lane(e));

	if (m == NULL || place == NULL) {
		rte_pktmbuf_free(m);
		rte_pktmbuf_free(place);
		return false;
	}
	if (f->memory == NULL) { /* the port does not have the second segment */
		rte_pktmbuf_free(place);
		place = f->place;
		f->m->next = NULL;
		f->m->nb_segs = 1;
	}
	rte_pktmbuf_free(f->m); /* with its second segment, if it has one */
	set_buffer(f, m);
	f->place = place;
	return true;
}

bool
frame_copy_from_port(struct engine *e, struct frame *f)
{
	struct rte_mbuf *copy = copy_frame(e, f);

	if (copy == NULL || !frame_leave_to_port(e, f)) {
		rte_pktmbuf_free(copy);
		return false;
	}
	rte_pktmbuf_free(f->m);
	set_buffer(f, copy);
	f->memory = NULL; /* the port's reference lets it go */
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
	const uint32_t count = n->config.transfer_frames;
	char name[32];

	x->frames = calloc(count, sizeof(*x->frames));
	if (x->frames == NULL)
		return -ENOMEM;
	snprintf(name, sizeof(name), "pmx_%u_places_%u", n->config.id, e->lane);
	/* as many again may be with ports, plus what devices have sent and not yet freed */
	x->places = numa_pool(name, 2 * count + 64 + sent_not_back(n), 32,
		RTE_ALIGN(sizeof(struct place_priv), 64), 0, n->numa[e->lane]);
	if (x->places == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct frame *f = &x->frames[i];
		struct rte_mbuf *m = rte_pktmbuf_alloc(n->pool);

		f->f = rma_frame(x->rma, i);
		f->f->user = f;
		f->place = new_place(x);
		if (m == NULL || f->place == NULL) {
			rte_pktmbuf_free(m);
			return -ENOMEM;
		}
		set_buffer(f, m);
	}
	return 0;
}

void
frames_free(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = 0; x->frames != NULL && i < e->node->config.transfer_frames; i++) {
		struct frame *f = &x->frames[i];

		if (f->m == NULL)
			continue;
		f->m->next = NULL;
		f->m->nb_segs = 1;
		rte_pktmbuf_free(f->m);
	}
	free(x->frames);
	rte_mempool_free(x->places);
}
