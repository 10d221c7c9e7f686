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
	uint32_t *used; /* [ranks]: steps so far */
	bool counting;
	int error;
};

/* Add a step to a rank's list. Returns its number there. */
uint16_t coll_add(struct coll_builder *b, uint32_t rank, const struct coll_step *s);

/* Steps with no more than this: further fields are set by who calls. */
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

/* Returns how long a byte is to take on a line where it could take so long: some of that is left
 * for headers and permits; both: and for Acks of as much that comes the other way. Without it these
 * pile up in the host's port, which looks like a queue in the network and cuts windows. */
double coll_slack(const struct coll_task *task, double ns_per_byte, bool both);
/* How much each permit of a timetable adds, where so many bytes are under way: not so little that
 * the permits under way fill a window on their own way, and not so much that the port in front of
 * the node could not hold it. */
uint32_t coll_grain(const struct coll_builder *b, uint32_t node, double under_way);

/* A block is one piece, which may go without a permit. */
static inline bool
coll_is_eager(const struct coll_builder *b)
{
	const uint32_t eager = b->task->params.eager, piece = b->plan->lists[0].piece;

	return b->task->bytes <= (eager && eager < piece ? eager : piece);
}

/* The same of a run of so many blocks, which its receiver must be able to keep as well. */
static inline bool
coll_run_is_eager(const struct coll_builder *b, uint32_t blocks)
{
	const uint32_t eager = b->task->params.eager;

	return coll_is_eager(b) && (eager == 0 || blocks * b->task->bytes <= eager);
}

/* A rank's own part goes from IN to OUT. */
static inline uint16_t
coll_add_own(struct coll_builder *b, uint32_t rank, uint32_t block)
{
	const struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, block, 1);

	return coll_add(b, rank, &s);
}

/* An empty step that ends when both others have. */
static inline uint16_t
coll_add_join(struct coll_builder *b, uint32_t rank, uint16_t x, uint16_t y)
{
	struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, 0, 0);

	s.after[0] = x;
	s.after[1] = y;
	return coll_add(b, rank, &s);
}

/* A RECV to an area that an earlier one uses as well begins when room may be left. */
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
/* The last place of the cluster (coll_cluster) that begins there. */
uint32_t coll_cluster_end(const struct coll_builder *b, uint32_t first);
/* ns a byte of payload, as in a step. */
uint32_t coll_pace(const struct coll_plan *p, const struct coll_task *task, double ns_per_byte);

/* The generators: gather.c, tree.c, exchange.c. plan->order is the tour. */
void coll_gather_at_once(struct coll_builder *b);
void coll_gather_in_turn(struct coll_builder *b);
void coll_gather_permits(struct coll_builder *b);
void coll_gather_paper(struct coll_builder *b);
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
void coll_alltoall_at_once(struct coll_builder *b);
void coll_alltoall_phases(struct coll_builder *b);
void coll_allreduce_ring(struct coll_builder *b);
void coll_allreduce_doubling(struct coll_builder *b);
void coll_reduce_scatter_two_trees(struct coll_builder *b);
void coll_reduce_scatter_spread(struct coll_builder *b);
void coll_reduce_scatter_ring(struct coll_builder *b);
void coll_barrier_bruck(struct coll_builder *b);

#endif
