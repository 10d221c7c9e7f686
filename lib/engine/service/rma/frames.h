/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of transfers: a lane's pool of them, filled, sent, and copied. On the lane.
 */
#ifndef PMX_RMA_FRAMES_H
#define PMX_RMA_FRAMES_H

#include "engine/service/rma/rma.h"

static inline struct wire_transfer *
frame_head(struct frame *f)
{
	return (struct wire_transfer *)((uint8_t *)f->m->buf_addr + PAYLOAD_START);
}

int frames_fill(struct engine *e, const struct bytes *b, uint64_t offset, uint16_t node,
	struct frame **f, const uint32_t *len, unsigned n);
unsigned frames_take(struct engine *e, bool own, uint64_t left, struct frame **f, uint32_t *len);
void frames_put(struct engine *e, struct frame **f, unsigned from, unsigned n);
struct frame *frame_take(struct engine *e, bool own);
/* Back to the pool. */
static inline void
frame_put(struct engine *e, struct frame *f)
{
	struct rma_lane *x = rma_lane(e);

	f->next = x->free_frames;
	x->free_frames = f;
	x->frames_free++;
	*(f->own ? &x->own_out : &x->answers_out) -= 1;
	f->out = false;
}
int frame_send(struct engine *e, struct channel *ch, struct frame *f, uint16_t src_endpoint,
	uint16_t node, uint16_t dst, uint32_t len);
struct rte_mbuf *frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer);
int frames_make(struct engine *e);
void frames_free(struct engine *e);
/* To the core; 0, or what proto_send returns. */
int frame_to_core(struct engine *e, const struct frame *f);
/* To the lane of a context of this node. */
void frame_hand_over(struct engine *e, struct frame *f, uint16_t ctx);
/* One more of the context's is on its way (by 1), or one less (by -1). */
static inline void
frame_count(struct channel *ch, struct frame *f, uint32_t by)
{
	rma_context(ch)->frames += by;
	f->out = by == 1;
	if (f->own)
		rma_context(ch)->own_frames += by;
}

/* A port still has an mbuf of the frame. */
static inline bool
frame_is_with_port(const struct frame *f)
{
	return rte_mbuf_refcnt_read(f->m) > 1 || (f->memory && rte_mbuf_refcnt_read(f->place) > 1);
}

/* The port keeps what it has, and the frame gets other mbufs: empty, or with a copy. false: there
 * are none. */
bool frame_leave_to_port(struct engine *e, struct frame *f);
bool frame_copy_from_port(struct engine *e, struct frame *f);

#endif
