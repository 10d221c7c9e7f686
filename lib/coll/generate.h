/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What generators share: adding steps to the ranks' lists. Each generator runs twice: first its
 * steps are counted, then written.
 */
#ifndef PMX_COLL_GENERATE_H
#define PMX_COLL_GENERATE_H

#include "coll/tour.h"

#define AREA_PIECES 8 /* of scratch, at least */

struct coll_builder {
	struct coll_plan *plan;
	const struct coll_task *task;
	uint32_t *used;            /* [ranks]: steps so far */
	struct coll_blocks blocks; /* of all buffers */
	bool counting;
	int error;
	const uint16_t *parent; /* of COLL_EARLIEST, by place: of the tree; NULL of others */
};

/* Add a step to a rank's list. Returns its number there. */
uint16_t coll_add(struct coll_builder *b, uint32_t rank, const struct coll_step *s);

/* Return a SEND with these fields alone, as coll_recv() returns a RECV and coll_local() a step of
 * local work. The caller sets further fields. */
static inline struct coll_step
coll_send(uint32_t peer, enum coll_buffer from, uint32_t block, uint32_t blocks)
{
	return (struct coll_step){
		.op = COLL_SEND,
		.from = (uint8_t)from,
		.peer = (uint16_t)peer,
		.after = {COLL_NONE, COLL_NONE},
		.block = (uint16_t)block,
		.blocks = (uint16_t)blocks,
	};
}

static inline struct coll_step
coll_recv(uint32_t peer, enum coll_buffer to, uint32_t block, uint32_t blocks)
{
	return (struct coll_step){
		.op = COLL_RECV,
		.to = (uint8_t)to,
		.peer = (uint16_t)peer,
		.after = {COLL_NONE, COLL_NONE},
		.block = (uint16_t)block,
		.blocks = (uint16_t)blocks,
	};
}

static inline struct coll_step
coll_local(enum coll_op op, enum coll_buffer from, enum coll_buffer to, uint32_t block,
	uint32_t blocks)
{
	return (struct coll_step){
		.op = (uint8_t)op,
		.from = (uint8_t)from,
		.to = (uint8_t)to,
		.after = {COLL_NONE, COLL_NONE},
		.block = (uint16_t)block,
		.blocks = (uint16_t)blocks,
	};
}

/* Return how many ns a byte is to take on a line where it could take ns_per_byte: more, so that
 * some of the line is left for headers and permits; both: and for Acks of as much that comes the
 * other way. Without it these pile up in the host's port, which looks like a queue in the network
 * and cuts windows. */
double coll_slack(const struct coll_task *task, double ns_per_byte, bool both);
/* Return how many bytes each permit of a timetable adds, where so many bytes are under way: not so
 * few that the permits under way fill a window on their own way, and not so many that the port in
 * front of the node could not hold them. */
uint32_t coll_grain(const struct coll_builder *b, uint32_t node, double under_way);

/* Return whether a block is one piece, which may go without a permit. */
static inline bool
coll_is_eager(const struct coll_builder *b)
{
	const uint32_t eager = b->task->params.eager, piece = b->plan->lists[0].piece;

	return b->task->bytes <= (eager && eager < piece ? eager : piece);
}

/* Return whether a run of so many blocks may go without a permit: each block may, and the receiver
 * is able to keep all of the run. */
static inline bool
coll_run_is_eager(const struct coll_builder *b, uint32_t blocks)
{
	const uint32_t eager = b->task->params.eager;

	return coll_is_eager(b) && (eager == 0 || blocks * b->task->bytes <= eager);
}

/* Add a step that copies a rank's own part from IN to OUT. Return its number. */
static inline uint16_t
coll_add_own(struct coll_builder *b, uint32_t rank, uint32_t block)
{
	const struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, block, 1);

	return coll_add(b, rank, &s);
}

/* Add an empty step that ends when both others have. Return its number. */
static inline uint16_t
coll_add_join(struct coll_builder *b, uint32_t rank, uint16_t x, uint16_t y)
{
	struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, 0, 0);

	s.after[0] = x;
	s.after[1] = y;
	return coll_add(b, rank, &s);
}

/* Return `early` of a RECV to an area that an earlier RECV uses as well: it begins when room may be
 * left. */
static inline uint32_t
coll_early(const struct coll_list *l)
{
	return l->area_bytes < UINT32_MAX ? (uint32_t)l->area_bytes : UINT32_MAX;
}

/* Make the areas of a relay's scratch as large as what is under way from that child, or its line
 * would run dry; most: bytes that ever are there at once. */
void coll_widen_area(struct coll_builder *b, uint32_t relay, uint32_t child, uint64_t most);
/* Gather by the root's timetable (COLL_PERMITS). got: [ranks] by place: the root's steps by which
 * it has their blocks. */
void coll_collect(struct coll_builder *b, uint16_t *got);
/* Gather by the tree of an overlay. got: as of coll_collect(), or NULL. */
void coll_overlay_collect(struct coll_builder *b, uint16_t *got);
/* Make areas of scratch smaller where many children have one each: all that they hold may be under
 * way at once, and comes by one line. */
void coll_overlay_areas(struct coll_builder *b);
/* Gather by relays. parent: of each place the place of its parent, which is lower; blocks come in
 * the order of places. turns: a relay lets a child begin when the child before it has sent its last
 * block, and otherwise all send as relays have room. got: as of coll_collect(), or NULL. */
void coll_gather_by(struct coll_builder *b, const uint16_t *parent, bool turns, uint16_t *got);

/* Blocks that are relayed, one after the other, each by all of its hops. */
struct coll_hops {
	struct coll_builder *b;
	bool turns;
	/* of each place and area (place * COLL_HOP_AREAS + area): its newest RECV, and from whom */
	uint16_t *last, *from;
};
#define COLL_HOP_AREAS 8

/* Begin to relay blocks. turns: as of coll_gather_by(). Return false if there is no memory; call
 * coll_hops_end() in any case. */
bool coll_hops_make(struct coll_hops *h, struct coll_builder *b, bool turns);
void coll_hops_end(struct coll_hops *h);
/* Send a block that place p has by step got (COLL_NONE: it is in IN) to place q, where it stays, or
 * is relayed by way of that area of its scratch. sent, kept: the block's numbers at p, and at q.
 * Return the step by which q has it. */
uint16_t coll_hop(struct coll_hops *h, uint32_t p, uint32_t q, uint32_t sent, uint32_t kept,
	uint16_t got, bool stays, uint32_t area);
/* Make the tree of an overlay: write the ranks in depth-first order from the root, and the place of
 * each one's parent. Return 0, -ENOMEM or -EHOSTUNREACH. */
int coll_overlay_tree(const struct coll_task *task, uint32_t piece, uint16_t *order,
	uint16_t *parent);
/* Return the last place of the cluster (coll_cluster()) that begins at place `first`. */
uint32_t coll_cluster_end(const struct coll_builder *b, uint32_t first);
/* ns a byte of payload, as in a step. */
uint32_t coll_pace(const struct coll_plan *p, const struct coll_task *task, double ns_per_byte);

/* Add the steps of all ranks to their lists. This and all functions below are the generators:
 * gather.c, tree.c, exchange.c, overlay.c. plan->order is the tour or, for overlays, the tree. */
void coll_gather_at_once(struct coll_builder *b);
void coll_gather_in_turn(struct coll_builder *b);
void coll_gather_permits(struct coll_builder *b);
void coll_gather_paper(struct coll_builder *b);
void coll_gather_near(struct coll_builder *b);
void coll_gather_chain(struct coll_builder *b);
void coll_gather_binomial(struct coll_builder *b);
void coll_gather_two_level(struct coll_builder *b);
void coll_scatter_at_once(struct coll_builder *b);
void coll_scatter_permits(struct coll_builder *b);
void coll_scatter_binomial(struct coll_builder *b);
void coll_bcast_binomial(struct coll_builder *b);
void coll_bcast_chain(struct coll_builder *b);
void coll_bcast_two_trees(struct coll_builder *b);
void coll_bcast_two_level(struct coll_builder *b);
void coll_bcast_spread(struct coll_builder *b);
void coll_reduce_binomial(struct coll_builder *b);
void coll_reduce_chain(struct coll_builder *b);
void coll_reduce_two_trees(struct coll_builder *b);
void coll_reduce_two_level(struct coll_builder *b);
void coll_reduce_spread(struct coll_builder *b);
void coll_allreduce_binomial(struct coll_builder *b);
void coll_allreduce_two_trees(struct coll_builder *b);
void coll_allreduce_two_level(struct coll_builder *b);
void coll_allreduce_spread(struct coll_builder *b);
void coll_allgather_ring(struct coll_builder *b);
void coll_allgather_two_trees(struct coll_builder *b);
void coll_allgather_spread(struct coll_builder *b);
void coll_allgather_bruck(struct coll_builder *b);
void coll_allgather_at_once(struct coll_builder *b);
void coll_allreduce_at_once(struct coll_builder *b);
void coll_reduce_scatter_at_once(struct coll_builder *b);
void coll_alltoall_at_once(struct coll_builder *b);
void coll_alltoall_phases(struct coll_builder *b);
void coll_allreduce_ring(struct coll_builder *b);
void coll_allreduce_doubling(struct coll_builder *b);
void coll_reduce_scatter_doubling(struct coll_builder *b);
void coll_reduce_scatter_two_trees(struct coll_builder *b);
void coll_reduce_scatter_spread(struct coll_builder *b);
void coll_reduce_scatter_ring(struct coll_builder *b);
void coll_barrier_bruck(struct coll_builder *b);
void coll_gather_overlay(struct coll_builder *b);
void coll_scatter_overlay(struct coll_builder *b);
void coll_bcast_overlay(struct coll_builder *b);
void coll_reduce_overlay(struct coll_builder *b);
void coll_allreduce_overlay(struct coll_builder *b);
void coll_allgather_overlay(struct coll_builder *b);
void coll_alltoall_overlay(struct coll_builder *b);
void coll_reduce_scatter_overlay(struct coll_builder *b);
void coll_barrier_overlay(struct coll_builder *b);

#endif
