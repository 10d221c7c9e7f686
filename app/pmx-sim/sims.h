/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of pmx-sim share: options, and the entry of each command.
 */
#ifndef PMX_SIM_SIMS_H
#define PMX_SIM_SIMS_H

#include "sim/sim.h"

#define US  1000ull
#define MS  1000000ull
#define SEC 1000000000ull

struct sim_options {
	const char *command, *name; /* name: that of an experiment; NULL = all */
	uint64_t seeds, first;
	bool trace, json, quiet, quick;
	bool digest;     /* fuzz: print a line for each seed */
	bool transfers;  /* fuzz: histories of remote memory, not of messages */
	bool matching;   /* fuzz: histories of matched messages */
	bool preempt;    /* fuzz: contexts are frozen and go on */
	bool links;      /* fuzz: nodes have several links */
	bool seal;       /* fuzz: frames are sealed */
	const char *out; /* directory for CSV and SVG files */
	const char *topology, *kind, *generator; /* collective */
	uint32_t root;
	uint32_t per_host; /* ranks of each host */
	uint64_t size;     /* bytes */
};

/* network.c: returns the topology of a text, which is right, or the program ends. */
struct topology *parsed(const char *text);
/* Return a topology of n hosts and one switch. */
struct topology *star(unsigned hosts, const char *bandwidth, const char *latency,
	const char *buffer);
/* Run until then; the program ends if a rule is broken. */
void must_run(struct sim *s, uint64_t until);

/* Remote memory at every node of a simulator whose contexts have 3 endpoints each; transfers.c.
 * frames: how many of a node's frames its core may have at once; entries: room of each endpoint.
 * transfers_begin() begins some transfers of a node. transfers_restart() says that the node is in a
 * new life, with all endpoints closed. transfers_open_context() opens a context as soon as
 * possible. The other functions are to be called from the simulator's hooks. */
struct sim_transfers;
struct transfers_count {
	uint64_t begun, done, failed;
};
/* messages of a context's client that the core may have in addition */
#define TRANSFERS_SENDS 8
#define TRANSFERS_TICK  1000 /* tags of the timers that call transfers_tick, transfers_pump */
#define TRANSFERS_PUMP  1001
struct sim_transfers *transfers_new(struct sim *s, uint32_t nodes, uint16_t contexts,
	uint32_t payload, uint32_t frames, uint32_t entries, uint64_t random);
void transfers_free(struct sim_transfers *x);
void transfers_begin(struct sim_transfers *x, uint32_t node);
void transfers_restart(struct sim_transfers *x, uint32_t node);
void transfers_open_context(struct sim_transfers *x, uint32_t node, uint16_t ctx);
void transfers_close_context(struct sim_transfers *x, uint32_t node, uint16_t ctx, bool linger);
void transfers_heard(struct sim_transfers *x, const struct proto_delivery *d, uint32_t tag);
void transfers_ended(struct sim_transfers *x, uint32_t tag, int error);
void transfers_tick(struct sim_transfers *x, uint32_t node);
void transfers_pump(struct sim_transfers *x, uint32_t node);
/* Let every application read its events from now on. */
void transfers_heal(struct sim_transfers *x);
bool transfers_open(const struct sim_transfers *x); /* is anything under way? */
/* Judge all transfers; call this at the end. Return NULL, or which rule was broken. excused:
 * something happened that may make transfers end in an error. */
const char *transfers_judge(struct sim_transfers *x, bool excused);
struct transfers_count transfers_counts(const struct sim_transfers *x);

/* Matched messages at every context of a simulator; matching.c. matching_act() does some operations
 * of a node, chosen by random bits. matching_forget() says that a context is in a new life.
 * matching_settle() receives all that arrived. */
struct matching_world;
struct matching_count {
	uint64_t operations, matched, cancelled, evacuated;
};
struct matching_world *matching_new(struct sim *s, uint32_t nodes, uint32_t contexts);
void matching_free(struct matching_world *x);
void matching_act(struct matching_world *x, uint32_t node, uint64_t random, uint32_t longest);
void matching_heard(struct matching_world *x, const struct proto_delivery *d, uint32_t tag);
void matching_forget(struct matching_world *x, uint32_t node, uint16_t ctx);
void matching_settle(struct matching_world *x);
const char *matching_wrong(const struct matching_world *x); /* NULL, or which rule was broken */
struct matching_count matching_counts(const struct matching_world *x);

/* Run a command or an experiment of pmx-sim. Each returns an exit code. */
int run_fuzz(const struct sim_options *o);
int run_experiments(const struct sim_options *o);
int e6(const struct sim_options *o); /* groups.c */
int e7(const struct sim_options *o);
int e8(const struct sim_options *o); /* collectives.c */
int e9(const struct sim_options *o);
int e10(const struct sim_options *o);
int e11(const struct sim_options *o);
int e12(const struct sim_options *o);
int e13(const struct sim_options *o);
int e14(const struct sim_options *o); /* seals.c */
int e15(const struct sim_options *o); /* loads.c */
/* baselines.c: make a node TCP-like, as in e1; other congestion controls. */
void tcp_apply(struct proto_config *c);
extern const struct cc_ops cc_tcp, cc_dctcp;
extern const struct cc_ops cc_fixed; /* windows stay as they are configured */
int run_speed(const struct sim_options *o);
int run_collective(const struct sim_options *o); /* collectives.c */
int run_survey(const struct sim_options *o);

#endif
