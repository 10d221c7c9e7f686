/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Experiments with sealed frames: how long it takes until nodes that begin at once have keys.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mix.h"
#include "sims.h"

#define OTHERS_MAX 9
#define LIMIT      (60 * SEC)

struct talk {
	uint32_t nodes, pair_count, delivered;
	uint32_t (*pairs)[2];
};

enum pattern {
	ONE_SAYS,   /* a ring and 8 random pairs a node; one of each pair says something */
	BOTH_SAY,   /* ... both do, at once */
	ALL_TO_ONE, /* all say something to node 0 */
};

static const char *const pattern_name[] = {"9 pairs a node, one says", "9 pairs a node, both say",
	"all to one"};

static void
heard(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct talk *t = arg;

	(void)s;
	(void)d;
	(void)tag;
	t->delivered++;
}

/* Draw which nodes talk. */
static void
draw_pairs(struct talk *t, enum pattern pattern)
{
	uint64_t random = t->nodes;

	t->pairs = calloc((size_t)t->nodes * OTHERS_MAX, sizeof(*t->pairs));
	t->pair_count = 0;
	if (t->pairs == NULL)
		exit(1);
	for (uint32_t i = 0; i < t->nodes; i++) {
		const uint32_t others = pattern == ALL_TO_ONE ? i != 0 : OTHERS_MAX;

		for (uint32_t k = 0; k < others; k++) {
			const uint32_t step = k == 0
				? 1
				: 1 + (uint32_t)(mix64_next(&random) % (t->nodes - 1));

			t->pairs[t->pair_count][0] = i;
			t->pairs[t->pair_count++][1] = pattern == ALL_TO_ONE
				? 0
				: (i + step) % t->nodes;
		}
	}
}

static struct sim *
sim_seals_make(struct talk *t, struct topology *network, const struct sim_seal *seal)
{
	struct sim_config c = {
		.topology = network,
		.proto = sim_defaults(t->nodes, 1500),
		.entries = 4096,
		.bulks = 512,
		.inline_max = 104,
		.nic_bytes = 65536,
		.seed = t->nodes,
		.seal = seal,
		.delivered = heard,
		.arg = t,
	};

	c.proto.tx_frames_max = c.proto.rx_frames_max = 1024;
	c.proto.contexts_max = 1;
	return sim_new(&c);
}

/* Run until everybody has heard everything, and as far as frames are sealed all have keys. Return
 * when that was, ns. */
static uint64_t
seals_run(struct talk *t, struct sim *s, bool seals, uint32_t says)
{
	uint32_t first = 0; /* all before have keys */

	while (sim_now(s) < LIMIT) {
		if (!sim_run(s, sim_now(s) + 100 * US)) {
			printf("e14: %s\n", sim_error(s));
			exit(1);
		}
		while (seals && first < t->pair_count &&
			sim_is_sealed(s, t->pairs[first][0], t->pairs[first][1]) &&
			sim_is_sealed(s, t->pairs[first][1], t->pairs[first][0]))
			first++;
		if ((!seals || first == t->pair_count) && t->delivered == says)
			break;
	}
	return sim_now(s);
}

static void
print_row(const struct talk *t, enum pattern pattern, uint64_t took, uint64_t open,
	const struct sim_seal_count *n)
{
	printf("e14: %5u nodes, %-25s: %6u messages heard and all sealed after %8.1f ms, without "
	       "keys %5.1f ms; %.2f handshakes a pair that talks, of %.1f messages each\n",
		t->nodes, pattern_name[pattern], t->delivered, (double)took / 1e6,
		(double)open / 1e6, (double)n->agreed / 2 / t->pair_count,
		(double)n->messages * 2 / (double)n->agreed);
	fflush(stdout);
}

static void
begin_at_once(uint32_t nodes, enum pattern pattern)
{
	const struct sim_seal seal = {
		.mode = SEAL_SEAL,
		.speed = 1,
		.keeper_ns = 20 * US,
		.dh_ns = 60 * US,
	};
	struct topology *network = star(nodes, "10G", "2us", "4M");
	struct sim_seal_count n = {0};
	uint64_t took[2];
	struct talk t = {.nodes = nodes};

	draw_pairs(&t, pattern);
	const uint32_t says = t.pair_count * (pattern == BOTH_SAY ? 2 : 1);

	for (int seals = 0; seals < 2; seals++) {
		struct sim *s = sim_seals_make(&t, network, seals ? &seal : NULL);

		t.delivered = 0;
		for (uint32_t i = 0; i < nodes; i++)
			sim_open(s, i, 0);
		for (uint32_t i = 0; i < t.pair_count; i++) {
			sim_send(s, t.pairs[i][0], 0, t.pairs[i][1], 0, 64, 0);
			if (pattern == BOTH_SAY)
				sim_send(s, t.pairs[i][1], 0, t.pairs[i][0], 0, 64, 0);
		}
		took[seals] = seals_run(&t, s, seals, says);
		if (seals)
			n = sim_seal_counts(s);
		sim_free(s);
	}
	print_row(&t, pattern, took[1], took[0], &n);
	free(t.pairs);
	topology_free(network);
}

/* Measure how long it takes until nodes that begin at once have keys for all that they talk to. */
int
e14(const struct sim_options *o)
{
	static const uint32_t numbers[] = {10, 100, 1000};

	for (unsigned i = 0; i < (o->quick ? 2 : 3); i++) {
		for (enum pattern p = ONE_SAYS; p <= ALL_TO_ONE; p++)
			begin_at_once(numbers[i], p);
	}
	printf("\n");
	return 0;
}
