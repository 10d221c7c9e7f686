/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Some nodes with groups (lib/group), whose network is the test, for test_group*.c. Each pair of
 * contexts has a flow that loses nothing and keeps its order, as the core's have; flows wait for
 * each other as they like. Actors, one for each context, are the members of one group. All that
 * they hear goes by the oracle of group_oracle.h.
 */
#ifndef GROUP_WORLD_H
#define GROUP_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/group.h"

#define NODES   4
#define CTXS    3 /* of a node */
#define LIFE    5 /* of node 1, twice that of node 2; 0, not known, of node 0 */
#define ALL     (NODES * CTXS)
#define LOCKS   5
#define REGIONS 3
#define UPDATES 64 /* under way */
#define FRAMES  6
#define QUEUE   256
#define AIR     400 /* frames of multicasts under way */
#define CAST    200 /* frames of a multicast */
#define GIVE_UP 5000
#define JOIN    50
#define ID      7

enum life { ABSENT, MEMBER, LEAVING, AWAY, DEAD };

/* The state that a member has of a shared region. Its bytes are a set of updates. */
struct copy {
	uint32_t number; /* of the copying */
	bool asks, in, leaves, copying, copied;
	uint64_t sharers; /* ranks, as it is told */
	uint64_t sum;     /* of the updates in it */
	unsigned asked;   /* updates that it may not begin yet */
	unsigned wishes;  /* subscriptions of which the home is to be told */
};

/* An update under way: from whom, and at whom it is not yet. */
struct update {
	bool used;
	unsigned from;
	uint32_t region;
	uint64_t number, left; /* ranks */
};

/* A message between two contexts. */
struct packet {
	struct wire_group message;
	struct group_frame *frame; /* at its sender */
};

/* From one context to another. */
struct flow {
	struct packet queue[QUEUE];
	unsigned head, tail;
};

/* A multicast as its sender has it; its bytes are one a frame, and have all the same value. */
struct sent {
	bool runs;
	uint32_t value, frames, to;            /* to: ranks, bits */
	uint64_t lacks[ALL][(CAST + 63) / 64]; /* by rank */
};

/* A frame of one, to a node. */
struct airborne {
	bool used;
	uint16_t from, node; /* from: actor */
	uint32_t value;
	uint8_t payload[WIRE_MULTI_HEAD(ALL) + 1];
};

struct actor {
	enum life life;
	int place;
	uint16_t rank;
	bool opened, failed, ended, in_barrier;
	bool expelled;
	bool stopped; /* it does nothing, and its members send nothing */
	bool asks[LOCKS], holds[LOCKS];
	uint32_t entered, passed; /* barriers */
	struct copy copies[REGIONS];
	struct sent sent;
	uint32_t got[ALL][CAST]; /* by the sender's rank */
	unsigned to_do;          /* requests that it makes still */
};

struct world {
	struct groups *groups[NODES];
	void *memory[NODES], *other[NODES]; /* other: to which they may move */
	uint64_t counters[NODES][GROUP_COUNTERS];
	bool up[NODES];
	bool frozen[NODES]; /* it moves when the core has no frame */
	struct groups_config config;
	unsigned moves;
	struct flow flows[ALL][ALL];
	struct actor actors[ALL];
	uint16_t count; /* members: actors by rank */
	uint16_t who[ALL];
	uint64_t now, random;
	unsigned deaths;
	struct {
		bool known;
		uint8_t error;
		uint16_t because;
	} barriers[1000];
	uint32_t locks, regions; /* that are used */
	struct update updates[UPDATES];
	uint64_t update_number;
	bool torn[REGIONS]; /* a member has died in the midst of an update */
	struct airborne air[AIR];
	uint32_t cast_value;
};

extern struct world w;
extern bool trace; /* what is delivered is printed */

static inline uint16_t
node_of(unsigned a)
{
	return (uint16_t)(a / CTXS);
}

static inline uint16_t
ctx_of(unsigned a)
{
	return (uint16_t)(a % CTXS);
}

static inline unsigned
actor_at(struct group_addr a)
{
	return a.node * CTXS + a.ctx;
}

static inline struct group_addr
addr_of(unsigned a)
{
	return (struct group_addr){node_of(a), ctx_of(a)};
}

/* A number below n, by the world's seed. */
uint32_t draw(uint32_t n);
/* Everything anew; who is a member, and how many locks and regions there are, is by the seed. */
void world_begins(uint64_t seed);
/* Free what worlds have needed; the teardown of a program's tests. */
int world_ends(void **state);
/* Return whether the actor is a member that others are to reckon with. */
bool lives(unsigned a);
bool has_membership(unsigned a);

/* Takes what groups have to send into the flows. */
void pull(uint16_t node);
/* The first message of a flow arrives, or fails since its receiver's node is dead; whether there
 * was one. */
bool deliver(unsigned from, unsigned to);
/* An actor takes all results that there are for it. */
void hear(unsigned n);

/* An actor joins the group; enters the next barrier, if it is in none; dies, its node does not;
 * leaves the group. */
void joins(unsigned n);
void enters(unsigned n);
void dies(unsigned n);
void closes(unsigned n);
/* An actor is stopped, or runs again if it is. */
void stops(unsigned n);
/* Start a member again if it is stopped: it has to run before it can end. */
void goes_on(unsigned n);

/* One step of the network and the clock, after which all hear what there is. */
void step(void);
/* Steps, until nothing is under way any more. */
void settle(void);
/* Keepalive finds out which nodes are dead. */
void notice(void);
/* All unlock, and enter the barrier that somebody is in; then nobody waits for anything. */
void all_ends(void);
/* All go, and nothing is left. */
void all_go(void);

#endif
