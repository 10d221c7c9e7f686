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

struct options {
	const char *command, *name; /* name: of an experiment, NULL = all */
	uint64_t seeds, first;
	bool trace, json, quiet, quick;
	bool digest;     /* fuzz: a line a seed */
	bool transfers;  /* fuzz: of remote memory, not of messages */
	bool matching;   /* fuzz: of matched messages */
	const char *out; /* directory of CSV and SVG */
};

/* n hosts and one switch. */
struct topology *star(unsigned hosts, const char *bandwidth, const char *latency,
	const char *buffer);

/* Remote memory at every node of a simulator whose endpoints are 3 a context; transfers.c.
 * `frames`: that a node may have with its core at once; `entries`: room of each endpoint. begin:
 * some transfers of that node; restart: it is a new one, whose endpoints are all closed;
 * open_context: as soon as it can be. The rest is fed by the simulator's hooks. */
struct transfers;
struct transfers_count {
	uint64_t begun, done, failed;
};
#define TRANSFERS_SENDS 8    /* messages of a context's own that its core has at once, beside */
#define TRANSFERS_TICK  1000 /* tags of the timers that call transfers_tick, transfers_pump */
#define TRANSFERS_PUMP  1001
struct transfers *transfers_new(struct sim *s, uint32_t nodes, uint16_t contexts, uint32_t payload,
	uint32_t frames, uint32_t entries, uint64_t random);
void transfers_free(struct transfers *x);
void transfers_begin(struct transfers *x, uint32_t node);
void transfers_restart(struct transfers *x, uint32_t node);
void transfers_open_context(struct transfers *x, uint32_t node, uint16_t ctx);
void transfers_close_context(struct transfers *x, uint32_t node, uint16_t ctx, bool linger);
void transfers_heard(struct transfers *x, const struct proto_delivery *d, uint32_t tag);
void transfers_ended(struct transfers *x, uint32_t tag, int error);
void transfers_tick(struct transfers *x, uint32_t node);
void transfers_pump(struct transfers *x, uint32_t node);
/* Every application looks at what it is told from now on. */
void transfers_heal(struct transfers *x);
bool transfers_open(const struct transfers *x); /* something is under way */
/* At the end: NULL, or which rule was broken. excused: something happened that may end transfers
 * in an error. */
const char *transfers_judge(struct transfers *x, bool excused);
struct transfers_count transfers_counts(const struct transfers *x);

/* Matched messages at every context of a simulator; matching.c. act: some operations of that node,
 * by random bits; forget: the context is a new one; settle: all that arrived is received. */
struct matching;
struct matching_count {
	uint64_t operations, matched, cancelled, evacuated;
};
struct matching *matching_new(struct sim *s, uint32_t nodes, uint32_t contexts);
void matching_free(struct matching *x);
void matching_act(struct matching *x, uint32_t node, uint64_t random, uint32_t longest);
void matching_heard(struct matching *x, const struct proto_delivery *d, uint32_t tag);
void matching_forget(struct matching *x, uint32_t node, uint16_t ctx);
void matching_settle(struct matching *x);
const char *matching_wrong(const struct matching *x); /* NULL, or which rule was broken */
struct matching_count matching_counts(const struct matching *x);

/* Each returns an exit code. */
int run_fuzz(const struct options *o);
int run_experiments(const struct options *o);
int run_speed(const struct options *o);

#endif
