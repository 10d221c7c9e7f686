/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of pmx-sim share: options, and the entry of each command.
 */
#ifndef PMX_SIM_SIMS_H
#define PMX_SIM_SIMS_H

#include "sim/sim.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

struct options {
	const char *command, *name; /* name: of an experiment, NULL = all */
	uint64_t seeds, first;
	bool trace, json, quiet, quick;
	const char *out;            /* directory of CSV and SVG */
};

/* n hosts and one switch. */
struct topology *star(unsigned hosts, const char *bandwidth, const char *latency, const char *buffer);

/* Each returns an exit code. */
int run_fuzz(const struct options *o);
int run_experiments(const struct options *o);
int run_speed(const struct options *o);

#endif
