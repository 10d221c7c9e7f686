/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-sim: the protocol core in virtual time, see sim.h. Options and commands; no privileges, no
 * network, no DPDK.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "coll/topology.h"
#include "sims.h"

static const char usage_text[] =
	"Usage: pmx-sim COMMAND [options]\n"
	"\n"
	"  fuzz                 random histories of random networks; ends at the first that breaks "
	"a rule\n"
	"    --seeds N (1000)   how many\n"
	"    --first S (1)      from that seed on; --first S --seeds 1 --trace shows one, frame by "
	"frame\n"
	"    --digest           a line a seed: a digest of all frames and of what came of them\n"
	"    --matching         of messages that receives match\n"
	"    --preempt          with contexts that freeze and go on\n"
	"    --links            with several links a node, which die and come back\n"
	"    --seal             with frames that are sealed, and somebody who wants in\n"
	"    --transfers        of remote memory's questions and answers, not of messages\n"
	"  experiment [e1 .. e15]  gather, alltoall, loss, short beside long, fairness, barriers, "
	"multicast, collectives, a data centre under load: doc/internals/simulator.md\n"
	"    --out DIR          CSV and SVG there, made if need be   --quick: fewer points\n"
	"  collective           one collective on a network: what is predicted, what is simulated\n"
	"    --topology FILE --kind KIND --size BYTES [--root RANK] [--generator G]\n"
	"    [--ranks-per-host N]\n"
	"                       BYTES: also with K, M, G\n"
	"  survey               what measuring a network finds out about it: a topology's text\n"
	"    --topology FILE\n"
	"  speed                frames a second of this simulator on this machine\n"
	"\n"
	"  --json  a line a result (speed)   --quiet  nothing but failures (fuzz)\n";

/* ------------------------------------------------------------------ how fast the simulator is */

struct load {
	uint32_t nodes, len;
};

static void
again(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	const struct load *l = arg;

	(void)error;
	sim_send(s, node, 0, (node + tag) % l->nodes, 0, l->len, tag);
}

static void
speed(const struct sim_options *o, uint32_t nodes, uint32_t len, uint64_t ns)
{
	struct topology *t = star(nodes, "100G", "1us", "1M");
	struct load l = {nodes, len};
	struct sim_config c = {
		.topology = t,
		.proto = sim_defaults(nodes, 1500),
		.entries = 1024,
		.bulks = 512,
		.inline_max = 40,
		.nic_bytes = 65536,
		.seed = 1,
		.completed = again,
		.arg = &l,
	};

	c.proto.tx_frames_max = c.proto.rx_frames_max = nodes > 100 ? 256 : 4096;
	struct sim *s = sim_new(&c);

	for (uint32_t i = 0; i < nodes; i++)
		sim_open(s, i, 0);
	for (uint32_t i = 0; i < nodes; i++) {
		for (int k = 0; k < 64; k++)
			sim_send(s, i, 0, (i + 1) % nodes, 0, len, 1);
	}
	const int64_t begin = clock_ns();
	const bool ok = sim_run(s, ns);
	const double took = (double)(clock_ns() - begin) / 1e9;

	if (!ok)
		printf("%s\n", sim_error(s));
	printf(o->json ? "{\"nodes\": %u, \"bytes\": %u, \"frames\": %llu, \"seconds\": %.3f, "
			 "\"per_second\": %.0f}\n"
		       : "%5u nodes %6u bytes %10llu frames %7.3f s %10.0f frames/s\n",
		nodes, len, (unsigned long long)sim_frames(s), took, (double)sim_frames(s) / took);
	sim_free(s);
	topology_free(t);
}

int
run_speed(const struct sim_options *o)
{
	speed(o, 2, 64, 100 * MS);
	speed(o, 2, 1400, 100 * MS);
	speed(o, 16, 1400, 20 * MS);
	speed(o, 1000, 1400, 2 * MS);
	return 0;
}

/* ------------------------------------------------------------------ options */

/* Return the switch that an option without a value sets, or NULL. */
static bool *
switch_of(struct sim_options *o, int letter)
{
	switch (letter) {
	case 't':
		return &o->trace;
	case 'j':
		return &o->json;
	case 'q':
		return &o->quiet;
	case 'k':
		return &o->quick;
	case 'x':
		return &o->transfers;
	case 'm':
		return &o->matching;
	case 'P':
		return &o->preempt;
	case 'L':
		return &o->links;
	case 's':
		return &o->seal;
	case 'd':
		return &o->digest;
	default:
		return NULL;
	}
}

/* Handle an option of getopt. Return false if it is unknown. */
static bool
option_set(struct sim_options *o, int letter, const char *value)
{
	bool *on = switch_of(o, letter);

	if (on != NULL) {
		*on = true;
		return true;
	}
	switch (letter) {
	case 'n':
		o->seeds = strtoull(value, NULL, 0);
		return true;
	case 'f':
		o->first = strtoull(value, NULL, 0);
		return true;
	case 'o':
		o->out = value;
		return true;
	case 'T':
		o->topology = value;
		return true;
	case 'K':
		o->kind = value;
		return true;
	case 'G':
		o->generator = value;
		return true;
	case 'R':
		o->root = (uint32_t)strtoul(value, NULL, 0);
		return true;
	case 'N':
		o->per_host = (uint32_t)strtoul(value, NULL, 0);
		return o->per_host > 0;
	case 'S':
		return topology_size(value, &o->size);
	default:
		return false;
	}
}

int
main(int argc, char **argv)
{
	static const struct option names[] = {{"seeds", 1, NULL, 'n'}, {"first", 1, NULL, 'f'},
		{"trace", 0, NULL, 't'}, {"json", 0, NULL, 'j'}, {"quiet", 0, NULL, 'q'},
		{"quick", 0, NULL, 'k'}, {"out", 1, NULL, 'o'}, {"transfers", 0, NULL, 'x'},
		{"matching", 0, NULL, 'm'}, {"preempt", 0, NULL, 'P'}, {"links", 0, NULL, 'L'},
		{"seal", 0, NULL, 's'}, {"digest", 0, NULL, 'd'}, {"topology", 1, NULL, 'T'},
		{"kind", 1, NULL, 'K'}, {"generator", 1, NULL, 'G'}, {"root", 1, NULL, 'R'},
		{"size", 1, NULL, 'S'}, {"ranks-per-host", 1, NULL, 'N'}, {"help", 0, NULL, 'h'},
		{0}};
	struct sim_options o = {.seeds = 1000, .first = 1};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		if (c == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (!option_set(&o, c, optarg)) {
			fputs(usage_text, stderr);
			return 2;
		}
	}
	if (optind < argc)
		o.command = argv[optind++];
	if (optind < argc)
		o.name = argv[optind++];
	if (o.command == NULL || optind < argc) {
		fputs(usage_text, stderr);
		return 2;
	}
	if (strcmp(o.command, "fuzz") == 0)
		return run_fuzz(&o);
	if (strcmp(o.command, "experiment") == 0)
		return run_experiments(&o);
	if (strcmp(o.command, "collective") == 0)
		return run_collective(&o);
	if (strcmp(o.command, "survey") == 0)
		return run_survey(&o);
	if (strcmp(o.command, "speed") == 0)
		return run_speed(&o);
	fprintf(stderr, "pmx-sim: unknown command '%s'\n", o.command);
	return 2;
}
