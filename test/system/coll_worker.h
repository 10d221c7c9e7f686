/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of coll_worker.c share: members, which are processes; memory in which they tell
 * each other and the parent what they have done; and random collectives, whose bytes are checked
 * (coll_worker_calls.c).
 */
#ifndef PMX_TEST_COLL_WORKER_H
#define PMX_TEST_COLL_WORKER_H

#include <pmx/coll.h>
#include <pmx/pmx.h>

#include "helpers.h"

#define MEMBERS     8
#define SLOTS       4    /* collectives of a member at once, as coll.sh sets limits.collectives */
#define NUMBERS     8192 /* collectives of which the board tells */
/* what has not ended then hangs, on a machine that is loaded, too */
#define PATIENCE_US 30000000ll
#define NO_RANK     UINT32_MAX   /* of nobody */
#define LEN_MAX     (200u << 10) /* bytes of a block */

/* The end of a collective at a member. */
struct outcome {
	int64_t began_ns, ended_ns; /* 0: it did not */
	int32_t error;
	uint32_t rank; /* because of which; NO_RANK */
};

struct board_member {
	_Atomic uint32_t begun, ended, over; /* collectives; over: it has been told of an error */
	int64_t error_ns;                    /* when */
	struct outcome outcome[NUMBERS];
};

/* In memory of all processes. */
struct board {
	_Atomic uint32_t arrived, expected; /* board_meet() */
	_Atomic uint32_t ready, stop, said; /* of the cases */
	struct board_member member[MEMBERS];
};

/* A member, in its process. */
struct member {
	struct board *board;
	struct board_member *own;
	uint32_t rank; /* in groups of all */
	struct pmx_addr list[MEMBERS];
	struct pmx_node *node;
	struct pmx_context *ctx;
	struct pmx_group *group;
	uint32_t id; /* of the next group */
	uint32_t option;
};

enum verb {
	BARRIER,
	BCAST,
	GATHER,
	SCATTER,
	ALLGATHER,
	ALLTOALL,
	GATHERV,
	SCATTERV,
	ALLGATHERV,
	ALLTOALLV,
	REDUCE,
	ALLREDUCE,
	REDUCE_SCATTER,
	VERBS
};
extern const char *const verb_names[VERBS];

/* A collective: what all members draw alike, and what is each one's own. */
struct call {
	enum verb verb;
	uint64_t key; /* of its data */
	uint32_t number, root, size, rank;
	uint64_t len; /* bytes of a block, or elements */
	enum pmx_atomic_type type;
	enum pmx_atomic_op op;
	uint64_t lens[MEMBERS][MEMBERS]; /* of blocks from, to */
	bool symmetric;
	/* own */
	bool in_place;
	uint8_t *in, *out;        /* NULL: not used */
	uint64_t in_len, out_len; /* bytes there, with what is between and around blocks */
	uint64_t *in_lens, *in_begins, *out_lens, *out_begins;
	uint8_t *want_in, *want; /* what is to be there at the end */
	struct pmx_blocks in_blocks, out_blocks;
	pmx_request request;
};

/* Memory of the buffers of SLOTS collectives. */
void calls_init(struct pmx_context *ctx, uint64_t len_max);
/* Draw the collective of that number; len_max: as of calls_init. */
void call_draw(struct call *c, uint64_t series, uint32_t number, struct pmx_group *group,
	uint64_t len_max);
/* Make the collective of that number with that verb, root, and length, where call_draw() would draw
 * them. */
void call_set(struct call *c, enum verb verb, uint32_t root, uint64_t len, uint32_t number,
	struct pmx_group *group);
/* Put its data there and begin it; 0 or an error. slot: below SLOTS. */
int call_begin(struct call *c, struct pmx_group *group, unsigned slot);
/* It has ended without an error: its bytes must be right. */
void call_check(struct call *c);
void call_free(struct call *c);

/* Wait until as many have come here as are expected. */
void board_meet(struct member *m);
void member_attach(struct member *m, const char *const *names);
/* Open a group of those of all members that are not `without`; NO_RANK. */
void member_open(struct member *m, uint32_t without);
void member_close(struct member *m);
void member_end(struct member *m);
/* Wait for a collective; the outcome goes to the board, by its number, and to *out. */
void member_wait(struct member *m, struct call *c, struct outcome *out);
/* Begin one, as soon as there is room; an error of that is an outcome, too. */
bool member_begin(struct member *m, struct call *c, unsigned slot, struct outcome *out);
const char *error_name(int error);

/* A case: what each member does, and what the parent does meanwhile (NULL: nothing). */
struct world;
struct test_case {
	const char *name;
	void (*member)(struct member *m);
	void (*parent)(struct world *w);
};
extern const struct test_case cases[];

/* The parent's view. */
struct world {
	struct board *board;
	const char *names[2];
	uint32_t option;
	int pids[MEMBERS];
	uint32_t turn; /* which group numbers are free */
};
/* Begin all members. */
void world_start(struct world *w, const struct test_case *c);
/* Wait for the end of all but `without`; what hangs or fails is told. */
void world_ends(struct world *w, uint32_t without);

#endif
