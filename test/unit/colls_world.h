/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group of members that run collectives of lib/coll/live.h with real bytes, each at a lane, over
 * a network that keeps the order of each pair and no other. What goes wrong is one fault a world.
 * Of each part of a member it is checked that it ends, how, and with which bytes. Used by
 * test_colls*.c, one thread; a failure names the world's seed.
 */
#ifndef PMX_TEST_COLLS_WORLD_H
#define PMX_TEST_COLLS_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "coll/live.h"
#include "coll_random.h"

#define RANKS      8
#define OPS        100
#define STEPS      256
#define LIVES      (RANKS * 6)
#define PLACES     (RANKS + 2)
#define STUCK_NS   20000000000ull
#define STALL_NS   90000000ull /* before plans are compared again */
#define ACKS       65536
#define MESSAGE    1500
#define NOBODY     UINT32_MAX
#define HEAD_BYTES sizeof(struct wire_coll)

enum fault {
	NO_FAULT,
	OTHER_HASH, /* of the same plan */
	OTHER_PLAN,
	BAD_LIST,
	NO_ACCESS, /* colls_fail */
	DEATH,
	LEAVES,
	FAULTS
};

/* A message on its way. */
struct flight {
	struct flight *next;
	uint32_t len;
	uint8_t bytes[MESSAGE];
};

/* The record that the caller of colls keeps of each index. */
struct job {
	struct coll_list list;
	struct coll_step *steps;
	struct coll_blocks blocks[COLL_BUFFERS];
	const struct coll_plan *plan; /* of which the list is, as it was begun last */
	uint32_t rank, number;
};

struct lane {
	void *memory; /* NULL: there is none, or it has died */
	struct colls *c;
	uint64_t counters[COLLS_COUNTERS];
	struct job jobs[LIVES];
	uint32_t to_give[LIVES]; /* that have ended */
	uint32_t to_give_count;
	bool busy; /* something has been called since it had nothing to do */
};

enum part_state { NOT_YET, RUNS, ENDED, GONE };

/* A member's part in a collective. */
struct part {
	enum part_state state;
	uint8_t error;
	uint16_t because;
	bool is_late; /* it was begun when an earlier one had failed here */
	uint32_t index;
	uint8_t *buffers[COLL_BUFFERS];
};

struct member {
	uint32_t lane;
	struct colls_seat seat;
	uint32_t begun, running, running_most;
	uint32_t last; /* index */
	bool is_slow;  /* it begins as late as it can */
	bool has_failed, is_dead, has_left, is_told;
};

struct ack {
	uint32_t lane;
	uint16_t place;
	uint64_t key;
};

struct world {
	uint64_t seed, now, progress_ns;
	uint32_t ranks, ops, lanes;
	struct topology *topology;
	struct coll_plan *plans[OPS + 1]; /* the last: of who has another one */
	struct coll_plan *plan_of[OPS];
	uint32_t hash_of[OPS];
	struct lane lane[RANKS];
	struct member members[RANKS];
	struct part parts[OPS][RANKS];
	struct flight *first[RANKS][RANKS], **last[RANKS][RANKS];
	uint32_t flights;
	struct ack acks[ACKS];
	uint32_t ack_count;
	bool local_at_once; /* what goes to another member of the lane is there at once */
	bool moves;
	enum fault fault;
	uint32_t fault_n, fault_rank; /* NOBODY: it has not happened yet */
	uint32_t left_part;
	bool refuses;   /* the next access to the bytes of fault_rank fails */
	uint32_t named; /* the rank because of which, as the first one has heard */
};

extern struct world w;

#define HOLDS(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s:%d: seed %lu (COLLS_SEED): not true: %s", __FILE__, __LINE__, \
				(unsigned long)w.seed, #x);                                        \
	} while (0)

struct colls_config lane_config(struct lane *l);
/* New state for a lane; *memory: to be freed. */
struct colls *lane_colls(struct lane *l, void **memory);
/* Do a REDUCE or COPY. */
void lane_work(struct lane *l, const struct colls_do *d);
/* Put a message on its way. */
void lane_departs(struct lane *l, const struct colls_do *d);
/* Do at most so much of what there is to do; whether there was anything. */
bool lane_run(struct lane *l, uint32_t most);
/* Take the collectives that have ended, and check them; whether there were any. */
bool lane_pull_ends(struct lane *l);
/* Give one index back, or all, of what has ended; whether there were any. */
bool lane_give(struct lane *l, bool all);

/* Begin a member's next collective. */
void member_begins(struct member *m);
/* Check that the lane knows which is the first collective that has not ended at the member. */
void member_check_part(const struct member *m);
void part_free(struct part *p);

/* Each of these does one thing, if there is any: whether there was. slow_too: even a member begins
 * that likes to be late. */
bool world_begin_some(bool slow_too);
bool world_deliver(void);
bool world_ack(void);
bool world_goes_wrong(void);
/* Do everything that can happen without the time; whether there was anything. */
bool world_act_all(void);
/* Let time pass; idle: nothing can happen without it. */
void world_time_passes(bool idle);
/* Return whether all members have begun all that they may, and all of it has ended. */
bool world_has_ended(void);
/* Let all that is under way get there. */
void world_settles(void);
/* Drop what is on its way from one member to another, but for the first `keep` messages. */
void world_drop(uint32_t from, uint32_t to, uint32_t keep);

#endif
