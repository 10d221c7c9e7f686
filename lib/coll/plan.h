/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans of collectives: who sends what to whom, after what, for all ranks of a group on a known
 * topology. Generators write them, the evaluator runs them over the topology's links, and the
 * planner takes the fastest (contention-free adaptive collectives, SWoPP 2008). Used by
 * applications and the simulator; an engine only runs one rank's list (exec.h). Allocates; any
 * thread, one plan at a time.
 *
 * A block is what one rank contributes or gets; of bcast, reduce and allreduce, a part of the
 * vector. Lists count blocks by their place in plan->order.
 */
#ifndef PMX_COLL_PLAN_H
#define PMX_COLL_PLAN_H

#include <stdio.h>

#include "coll/exec.h"
#include "coll/topology.h"

enum coll_kind {
	COLL_GATHER,
	COLL_SCATTER,
	COLL_BCAST,
	COLL_REDUCE_TO, /* to the root */
	COLL_ALLGATHER,
	COLL_ALLTOALL,
	COLL_ALLREDUCE,
	COLL_REDUCE_SCATTER,
	COLL_BARRIER,
	COLL_KINDS
};

enum coll_generator {
	COLL_AT_ONCE,    /* all to all that they have to, with no order */
	COLL_IN_TURN,    /* gather: one sender after the other, each told by the root */
	COLL_PERMITS,    /* gather, scatter: by a timetable of the root's line; ours */
	COLL_PAPER,      /* gather: SWoPP 2008, section 4 */
	COLL_CHAIN,      /* along the tour of the tree */
	COLL_BINOMIAL,   /* along the tour of the tree */
	COLL_TWO_LEVEL,  /* within clusters, and between them and the root (MagPIe, PPoPP 1999) */
	COLL_TWO_TREES,  /* bcast, reduce: Sanders, Speck, Traeff, Parallel Computing 2009 */
	COLL_RING,       /* along the tour: Patarasuk and Yuan, JPDC 2009 */
	COLL_BRUCK,      /* Bruck et al., TPDS 1997; as a barrier: dissemination */
	COLL_PHASES,     /* alltoall: Faraj and Yuan, IPDPS 2005 */
	COLL_DOUBLING,   /* allreduce, short reduce_scatter: recursive doubling */
	COLL_SPREAD,     /* bcast, reduce, allreduce: two trees in each cluster; others are fed by
			  * as many hosts of the root's; ours */
	COLL_EARLIEST,   /* a tree over pairs that may connect (topology.h: talk), to which comes
			  * next whoever can be reached first: Bhat, Raghavendra, Prasanna, JPDC
			  * 2003 */
	COLL_PAPER_NEAR, /* gather: as the paper in the root's cluster, all others at once:
			  * SWoPP 2008, figure 9, pipeline + concurrent. To compare with: never
			  * planned */
	COLL_GENERATORS
};

/* The cost of frames, and what is known of the hosts. */
struct coll_params {
	uint32_t frame_payload;  /* most bytes of a message in a frame */
	uint32_t frame_overhead; /* bytes of a frame on the wire beside them */
	uint32_t frame_least;    /* shortest frame on the wire */
	uint32_t message_head;   /* bytes that a message has in front of a piece */
	uint32_t piece;          /* most bytes of a message; 0 = by size */
	uint32_t eager;          /* most bytes of a block that goes without permits; 0 = a piece */
	uint32_t flight_frames;  /* of a flow, that may be on their way; 0 = no bound */
	uint32_t message_ns;     /* of a message at a host of which the topology says nothing */
};

/* Return the bytes of the longest piece in a PM frame with so much payload that cuts no element of
 * a vector. */
uint32_t coll_piece_in(uint32_t frame_payload);
/* Return the parameters of engines that send pieces of that size, each in one PM frame on
 * Ethernet. */
struct coll_params coll_params_of_engines(uint32_t piece);

struct coll_plan {
	enum coll_kind kind;
	enum coll_generator generator;
	uint32_t ranks, root;
	uint64_t bytes;          /* of a rank's block; bcast, reduce, allreduce: of the vector */
	uint32_t block_count;    /* blocks of each buffer */
	uint16_t *order;         /* [ranks]: the rank at each place */
	uint64_t *ends;          /* [block_count]: NULL if all blocks have `bytes` */
	struct coll_list *lists; /* [ranks] */
	struct coll_step *steps; /* of all ranks, one after the other */
	uint64_t step_count;
	uint64_t bound_ns; /* the busiest edge's time, and the longest path: what plans are
			    * measured by. Where the far come first it can be undercut */
	uint64_t hash;     /* of all of it */
	/* of the paper's generator: when each rank's block is at the root */
	uint64_t *paper_ns; /* [ranks] */
};

/* A collective that is to be planned. */
struct coll_task {
	enum coll_kind kind;
	const struct topology *topology;
	const uint16_t *nodes; /* [ranks]: the node of each rank; NULL: rank = node */
	uint32_t ranks, root;
	uint64_t bytes;
	struct coll_params params;
	uint32_t only; /* make this rank's list alone; COLL_NONE: all */
};

/* The cost of a plan on the topology, as the evaluator finds it. */
struct coll_cost {
	uint64_t ns;
	uint64_t backlog_bytes; /* most that waited in a switch's port */
	uint32_t backlog_edge;  /* ... this one */
	uint32_t senders_most;  /* most senders of one destination that waited in one port */
	bool fits;              /* every port's buffer held its backlog */
};

extern const char *const coll_kind_name[COLL_KINDS];
extern const char *const coll_generator_name[COLL_GENERATORS];
extern const char *const coll_op_name[COLL_OPS];
extern const char *const coll_buffer_name[COLL_BUFFERS];
/* Return the kind, or the generator, of that name; COLL_KINDS, COLL_GENERATORS: there is none. */
enum coll_kind coll_kind_named(const char *name);
enum coll_generator coll_generator_named(const char *name);

/* Return whether a generator makes plans of that kind. */
bool coll_generator_does(enum coll_generator g, enum coll_kind kind);
/* Make a plan. Returns 0 and *out, to be freed with coll_plan_free; -ENOMEM; -EOPNOTSUPP: this
 * generator does not do that, or not without sending more than params.eager unasked, or between
 * hosts that may not connect; -EINVAL: ranks, root or a node out of range; -E2BIG: a rank would
 * have more than COLL_STEPS_MAX steps; -EHOSTUNREACH: some ranks may not connect, and cannot reach
 * each other by way of other ranks either, or only by one that would have more than 63 of them to
 * add up. */
int coll_plan_make(enum coll_generator g, const struct coll_task *task, struct coll_plan **out);
/* Take the fastest plan whose backlog fits the switches' buffers; of each considered generator, its
 * cost goes to costs[] (ns = 0: not considered), which may be NULL. Errors as above. */
int coll_plan_best(const struct coll_task *task, struct coll_plan **out,
	struct coll_cost costs[COLL_GENERATORS]);
void coll_plan_free(struct coll_plan *p);
/* Fill in the tables of the blocks, which are the same for all ranks. */
void coll_plan_blocks(const struct coll_plan *p, struct coll_blocks blocks[COLL_BUFFERS]);
/* Write a plan of all ranks as a text, which can be read again (plan_text.c says what is in it).
 * Returns 0 or -EIO. */
int coll_plan_write(const struct coll_plan *p, FILE *f);
/* Read one. It is checked, but for whether it comes to its end, which coll_plan_evaluate tells; its
 * bound is not known. Returns 0 and *out, to be freed with coll_plan_free; or -EINVAL or -ENOMEM,
 * with a sentence in error that names the line, or the rank and its step. */
int coll_plan_read(const char *text, struct coll_plan **out, char *error, uint32_t error_len);
/* Run the plan over the topology. Returns 0; -ENOMEM; -EDEADLK: it does not come to its end;
 * -EINVAL: what a rank receives into scratch is emptied by no step, or by two. */
int coll_plan_evaluate(const struct coll_plan *p, const struct coll_task *task,
	struct coll_cost *out);
#endif
