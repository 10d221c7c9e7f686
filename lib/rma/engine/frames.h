/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The mbufs of transfers' frames: filled, sent, and copied. All functions run on the lane.
 */
#ifndef PMX_ENGINE_RMA_FRAMES_H
#define PMX_ENGINE_RMA_FRAMES_H

#include "rma/engine/rma.h"

static inline struct frame *
frame_of(const struct rma_frame *f)
{
	return f->user;
}

/* Return whether a port still has an mbuf of the frame. */
static inline bool
frame_is_with_port(const struct frame *f)
{
	return rte_mbuf_refcnt_read(f->m) > 1 || (f->memory && rte_mbuf_refcnt_read(f->place) > 1);
}

/* Send frames that were pulled from lib/rma, with their sources behind their heads, to the core or
 * to a lane of this node. Return how many went. */
unsigned frames_send(struct engine *e, struct rma_frame **out, unsigned n);
/* Pass a frame to the core. Return 0, or what proto_send returns. */
int frame_to_core(struct engine *e, const struct frame *f);
/* Pass a frame to the lane of a context of this node. */
void frame_hand_over(struct engine *e, struct frame *f, uint16_t ctx);
struct rte_mbuf *frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer);
/* Leave the frame's mbufs to the port that still has them, and give the frame others: empty ones,
 * or with a copy of its bytes. Return false if there are none. */
bool frame_leave_to_port(struct engine *e, struct frame *f);
bool frame_copy_from_port(struct engine *e, struct frame *f);
/* Allocate mbufs for all of lib/rma's frames, before the lane polls. Return 0, or -ENOMEM.
 * frames_free also undoes a part of it. */
int frames_make(struct engine *e);
void frames_free(struct engine *e);

#endif
