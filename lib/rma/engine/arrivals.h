/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of transfers that arrive, and frames that are completed. All functions run on the lane.
 */
#ifndef PMX_ENGINE_RMA_ARRIVALS_H
#define PMX_ENGINE_RMA_ARRIVALS_H

#include "rma/engine/rma.h"

/* Take a message, a completed frame, or a frame that stays within this node. These are
 * service_ops.message, completed and handed_over. */
void arrival_heard(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len);
void frame_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error);
void frame_handed_over(struct engine *e, uint64_t handle);
/* Report that the bytes of a frame to a target are in their place. */
void arrival_placed(struct engine *e, struct channel *ch, const struct arrival *a);
/* Write the bytes that wait to be written together. This is to be called after a burst of
 * messages. */
void arrivals_write_late(struct engine *e);
/* Try to complete the lingering frames: a port had them, and there was no mbuf to replace
 * theirs. */
void frames_recheck(struct engine *e);
/* Deliver frames from this node that waited for room at a target of this lane. Return how many. */
unsigned frames_take_local(struct engine *e);

/* Write bytes into an area of the context's for a member of the area's group, outside of any
 * transfer. runs: they are runs, as WIRE_MULTI_RUNS has them, whose first skip begins at range->at.
 * Return false if that is not allowed, or the memory is not there. */
bool arrivals_place(struct engine *e, struct channel *ch, const struct rma_area_range *range,
	const void *bytes, bool runs);

#endif
