/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of transfers, and frames that come back. On the lane.
 */
#ifndef PMX_ENGINE_RMA_ARRIVALS_H
#define PMX_ENGINE_RMA_ARRIVALS_H

#include "engine/service/rma/rma.h"

/* service_ops.message, completed, handed_over */
void arrival_heard(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len);
void frame_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error);
void frame_handed_over(struct engine *e, uint64_t handle);
/* The bytes of a frame to a target are in their place. */
void arrival_placed(struct engine *e, struct channel *ch, const struct arrival *a);
/* Frames that a port had, when there was no mbuf to leave to it. */
void frames_recheck(struct engine *e);
/* Frames of this node that waited for room at a target of this lane. Returns how many went. */
unsigned frames_take_local(struct engine *e);

#endif
