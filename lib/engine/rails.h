/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rails of a lane: by which link the next frame to a peer with several links goes, and the
 * questions by which dead links are found (lib/core/rails). Each lane finds out for itself, since
 * only its own frames show what its queues can reach. All functions run on the lane unless said
 * otherwise.
 */
#ifndef PMX_ENGINE_RAILS_H
#define PMX_ENGINE_RAILS_H

#include "engine/lane.h"
#include "core/rails/rails.h"

struct lane_rails {
	struct rails_config config;
	unsigned rx_link; /* of the frame that is passed to the core */
	uint64_t at;      /* tsc of the next turn; UINT64_MAX: nobody is watched */
	uint32_t count;   /* of `active` */
	uint32_t next;    /* of them, the next one to be looked at in this turn */
	uint64_t soonest; /* when one of those that were looked at wants the next turn */
	uint16_t *active; /* the nodes whose rails are watched */
	struct rails *of; /* by node number; all = 0: a peer with one link */
};

/* A question to a node: whether these links to it work, a bit each. */
struct lane_question {
	uint16_t node;
	uint32_t links, round;
};

/* Make the rails of the peers with several links anew, all of them up, or take them away if there
 * is no such peer. Called while the lane does not run. Their memory stays the same, since other
 * threads may be reading it. Return 0, or the first time -ENOMEM. */
int lane_rails_make(struct engine *e);
void lane_rails_free(struct engine *e);
/* Tell the core by which links frames of each peer are to be expected, after it was taken over. */
void lane_rails_expect(struct engine *e);
/* Return the links of that node that are not known to be dead, a bit each. Any thread may call
 * it. */
uint32_t lane_rails_up(const struct engine *e, uint16_t node);
/* Return the links of that node that no lane knows to be dead, a bit each. Any thread may call
 * it. */
uint32_t lane_rails_all_up(const struct node *n, uint16_t node);

/* Return the first link by which the node is reached now. The node is known. */
uint32_t lane_rails_first(const struct engine *e, uint16_t node);
/* Return by which link the next frame with a payload goes to a peer with several links. */
const struct peer *lane_rails_choose(struct engine *e, uint16_t node);
/* Note that frames of so many bytes in all go to the node that way. */
void lane_rails_sent(struct engine *e, uint16_t node, const struct peer *peer, uint32_t bytes);
/* Return by which link a frame of the core goes to a peer with several links, and note that it goes
 * there. */
const struct peer *lane_rails_route(struct engine *e, const struct proto_out *o);
/* Note that a frame came by that link, and is passed to the core next. */
void lane_rails_hear(struct engine *e, unsigned link, const struct wire_hdr *h);
/* Take in a WIRE_LINK frame that lane_rails_hear() was told of: a question or an answer. Return
 * whether it is to be answered, by the same link. */
bool lane_rails_told(struct engine *e, const struct wire_hdr *h);
/* Find another node that is to be asked. Return false if there is none. To be called at
 * e->rails->at until it returns false. */
bool lane_rails_next(struct engine *e, struct lane_question *q);

#endif
