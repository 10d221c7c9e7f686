/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies of a lane's frames for a reader outside: `pmx-ctl capture`. While nobody captures, a lane
 * looks once for each burst whether somebody does.
 */
#ifndef PMX_ENGINE_CAPTURE_H
#define PMX_ENGINE_CAPTURE_H

#include "channel/capture.h"
#include "engine/lane.h"

/* A capture of a node. Made before the lanes know of it; then each lane writes its own ring. */
struct capture {
	struct capture_ring *rings; /* memory that the reader maps too */
	uint64_t written[CAPTURE_RINGS];
	uint16_t peer, context; /* CAPTURE_ALL: frames of all, and those of other protocols */
	uint32_t keep;          /* bytes of a frame */
	uint64_t base_tsc, base_ns;
};

/* Begin, with rings that are all 0; or end, with NULL. While no lane polls. */
void capture_set(struct node *n, struct capture *c);
/* A frame that is taken in, and the counters before that. */
struct capture_look {
	struct capture_record *record; /* NULL: it is not captured */
	uint64_t engine[ENGINE_COUNTER_COUNT], core[PROTO_COUNTER_COUNT];
};
/* Copy a frame that a link has received, before it is taken in, and afterwards note why it was
 * dropped, if it was. */
void capture_in_begins(struct engine *e, const struct link *l, const struct rte_mbuf *m,
	struct capture_look *look);
void capture_in_ends(struct engine *e, const struct capture_look *look);
/* Copy those of the first `to` frames of a link's queue that were not copied yet. */
void capture_out(struct engine *e, unsigned link, struct tx_queue *q, unsigned to);

#endif
