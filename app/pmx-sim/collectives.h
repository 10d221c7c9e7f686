/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives that run in the simulator, for experiments: collectives_world.c.
 */
#ifndef PMX_SIM_COLLECTIVES_H
#define PMX_SIM_COLLECTIVES_H

#include "coll/adapt.h"
#include "coll/tour.h"
#include "sims.h"

#define MTU 1500u

#define RUNS         2    /* collectives at once */
#define BACKGROUND   1000 /* tag of timers of other traffic */
#define PER_HOST_MAX 64

struct coll_sent {
	struct coll_out out;
	uint32_t run, from;
	uint32_t next_free;
};

struct coll_rank {
	struct coll_exec *exec;
	uint64_t tick_at; /* of its timer */
	uint64_t done_at;
	double local_free_ns; /* when it can give its node the next message for another one there */
	bool done;
};

/* A collective that runs. */
struct coll_run {
	const struct coll_plan *plan; /* NULL: none */
	struct coll_rank *ranks;
	uint32_t left; /* ranks that are not done */
	uint64_t done_at;
};

/* There is one world at a time, in which collectives run. */
extern struct coll_world {
	struct sim *sim;
	uint32_t per_node;
	struct coll_run runs[RUNS];
	struct coll_sent *sent; /* by tag */
	uint32_t sent_count, sent_cap, sent_free;
	uint32_t left;             /* collectives that are not done */
	uint64_t background_ns;    /* 0: nothing else; otherwise between two messages of a host */
	const uint32_t *neighbour; /* [hosts]: to whom it sends these */
} world;

/* A run shows this. */
struct outcome {
	enum coll_generator generator;
	double ns, predicted_ns, part; /* part: ns over the bound */
	uint64_t drops;                /* frames lost in ports */
	uint64_t queue_bytes;          /* the longest queue of a switch's port */
	uint32_t senders;              /* sim_edge_stat.senders_max of all ports */
};

void world_fail(const char *what);
void world_connect(const struct coll_plan *p);
void run_begin(uint32_t run, const struct coll_plan *p);
void run_end(uint32_t run);
void run_all(void);
uint64_t run_once(const struct coll_plan *p, uint64_t *ns);
struct outcome run_plan(const struct coll_plan *p, const struct topology *t,
	const struct proto_config *proto);
struct coll_task coll_task_of(enum coll_kind kind, const struct topology *t, uint64_t bytes);
struct coll_plan *coll_planned(enum coll_generator g, const struct coll_task *task);
void world_open(const struct topology *t, uint32_t per_node, const struct proto_config *proto,
	bool permits);
void world_close(void);

#endif
