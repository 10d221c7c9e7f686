/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Surveys of networks that are only calculated: flows share each link fairly, what is short takes
 * the latency of its way, and all of it takes a little longer by chance. What is found is compared
 * with what there is. That the rounds' plans are right for the engine is checked as well; that they
 * run, in the simulator and on nodes (test/system/simulator.sh, survey.sh).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "coll/adapt.h"
#include "coll/survey.h"
#include "coll/tour.h"
#include "topology_text.h"

#define HOSTS_MOST 64

static const struct coll_params params = {
	.frame_payload = 1460,
	.frame_overhead = 78,
	.frame_least = 84,
	.message_head = 24,
	.piece = 1436,
	.eager = 224,
};

/* The network as it is. */
static struct {
	struct topology *t;
	uint64_t random;
	double chance; /* by which part times may be longer */
} world;

static double
draw(void)
{
	world.random ^= world.random << 13;
	world.random ^= world.random >> 7;
	world.random ^= world.random << 17;
	return (double)(world.random >> 11) / (double)(1ull << 53);
}

struct model_flow {
	uint32_t from, to;
	double rate; /* bytes a ns; 0: not known yet */
};

static bool
crosses(const struct model_flow *f, uint32_t edge)
{
	const struct topology *t = world.t;

	for (uint32_t v = t->hosts[f->from]; v != t->hosts[f->to];) {
		const uint32_t next = topology_route(t, v, f->to);

		if (next == edge)
			return true;
		v = t->edges[next].to;
	}
	return false;
}

/* Shares of all flows, max-min fair: the link that has least for each of its flows is full. */
static void
share(struct model_flow *flows, uint32_t count)
{
	for (uint32_t left = count; left > 0;) {
		double least = 0;
		uint32_t full = TOPOLOGY_NONE;

		for (uint32_t e = 0; e < world.t->edge_count; e++) {
			double free = 1 / coll_edge_ns_per_byte(world.t, e);
			uint32_t n = 0;

			for (uint32_t i = 0; i < count; i++) {
				if (!crosses(&flows[i], e))
					continue;
				free -= flows[i].rate;
				n += flows[i].rate == 0;
			}
			if (n > 0 && (full == TOPOLOGY_NONE || free / n < least)) {
				full = e;
				least = free / n;
			}
		}
		assert_int_not_equal(full, TOPOLOGY_NONE);
		for (uint32_t i = 0; i < count; i++) {
			if (flows[i].rate == 0 && crosses(&flows[i], full)) {
				flows[i].rate = least;
				left--;
			}
		}
	}
}

static double
latency(uint32_t x, uint32_t y)
{
	double ns = 0;

	for (uint32_t v = world.t->hosts[x]; v != world.t->hosts[y];) {
		const struct topology_edge *e = &world.t->edges[topology_route(world.t, v, y)];

		ns += (double)e->latency_ns;
		v = e->to;
	}
	return ns;
}

/* Compute how long each rank's part of a plan takes, in nanoseconds. `nodes` has the node of each
 * rank. */
static void
run(const struct coll_plan *p, const uint16_t *nodes, uint64_t *ns)
{
	struct model_flow flows[HOSTS_MOST];
	uint32_t count = 0, ranks[HOSTS_MOST][2];
	struct coll_blocks blocks[COLL_BUFFERS];
	uint32_t bad;

	coll_plan_blocks(p, blocks);
	for (uint32_t r = 0; r < p->ranks; r++) {
		const struct coll_list *l = &p->lists[r];

		ns[r] = 0;
		assert_int_equal(coll_check(l, blocks, &bad), 0);
		if (l->count > 0 && l->steps[0].op == COLL_SEND) {
			ranks[count][0] = r;
			ranks[count][1] = l->steps[0].peer;
			flows[count++] = (struct model_flow){nodes[r], nodes[l->steps[0].peer], 0};
		}
	}
	share(flows, count);
	for (uint32_t i = 0; i < count; i++) {
		const double way = latency(flows[i].from, flows[i].to);
		const uint32_t rank = ranks[i][0], peer = ranks[i][1];
		const uint32_t steps = p->lists[rank].count;
		const double wire = (double)coll_block_wire(&params, params.piece, p->bytes);
		const double took = (steps > 1 ? way * steps / 2 : 2 * way + wire / flows[i].rate) *
			(1 + world.chance * draw());

		if ((uint64_t)took > ns[rank])
			ns[rank] = (uint64_t)took;
		if ((uint64_t)took > ns[peer])
			ns[peer] = (uint64_t)took;
	}
}

/* Runs all rounds of a survey. nodes: of the ranks. */
static void
measure(struct survey *s, uint32_t ranks, const uint16_t *nodes)
{
	for (unsigned phases = 0; survey_rounds(s) > 0; phases++) {
		const uint32_t rounds = survey_rounds(s);
		uint64_t *ns = calloc((size_t)ranks * rounds, sizeof(*ns)), took[4 * HOSTS_MOST];

		assert_true(phases < 20);
		for (uint32_t round = 0; round < rounds; round++) {
			struct coll_plan *p;

			assert_int_equal(survey_plan(s, round, COLL_NONE, &p), 0);
			assert_true(p->bytes <= survey_bytes(s));
			run(p, nodes, took);
			coll_plan_free(p);
			for (uint32_t r = 0; r < ranks; r++)
				ns[(size_t)r * rounds + round] = took[r];
		}
		assert_int_equal(survey_measured(s, ns), 0);
		free(ns);
	}
}

/* Return what a survey finds that has `each` ranks on every host; but the first `gap` hosts have
 * none. */
static struct topology *
surveyed(uint32_t each, uint32_t gap)
{
	uint16_t nodes[4 * HOSTS_MOST];
	const uint32_t ranks = (world.t->host_count - gap) * each;
	struct survey_config c = {.ranks = ranks, .nodes = nodes, .params = params};
	struct survey *s;
	struct topology *found;
	char *text, error[200];

	for (uint32_t r = 0; r < ranks; r++)
		nodes[r] = (uint16_t)(gap + r % (world.t->host_count - gap));
	assert_int_equal(survey_open(&s, &c), 0);
	measure(s, ranks, nodes);
	assert_int_equal(survey_text(s, &text), 0);
	survey_close(s);
	if (topology_parse(text, &found, error, sizeof(error)) != 0)
		fail_msg("%s in:\n%s", error, text);
	free(text);
	assert_int_equal(found->host_count, world.t->host_count);
	return found;
}

static void
world_is(const char *text, double chance)
{
	world.t = parsed(text);
	world.random = 88172645463325252ull;
	world.chance = chance;
}

static const struct topology_edge *
line_of(const struct topology *t, uint32_t host)
{
	return &t->edges[t->vertices[t->hosts[host]].first_edge];
}

static uint32_t
switches(const struct topology *t)
{
	return t->vertex_count - t->host_count;
}

/* Hosts share a switch as they do in the world, and their lines are as fast. */
static void
expect_the_same(const struct topology *found, uint32_t gap)
{
	for (uint32_t x = gap; x < found->host_count; x++) {
		const double is = (double)line_of(world.t, x)->bandwidth_bps;
		const double seems = (double)line_of(found, x)->bandwidth_bps;

		if (seems < 0.8 * is || seems > 1.2 * is)
			fail_msg("host %u: %.0f, not %.0f bit/s", x, seems, is);
		for (uint32_t y = gap; y < x; y++) {
			if ((line_of(found, x)->to == line_of(found, y)->to) !=
				(line_of(world.t, x)->to == line_of(world.t, y)->to))
				fail_msg("hosts %u and %u: %s", x, y,
					line_of(found, x)->to == line_of(found, y)->to
						? "not at one switch"
						: "at one switch");
		}
	}
}

/* The slowest link between two hosts. */
static double
slowest(const struct topology *t, uint32_t x, uint32_t y)
{
	double bps = 1e18;

	for (uint32_t v = t->hosts[x]; v != t->hosts[y];) {
		const struct topology_edge *e = &t->edges[topology_route(t, v, y)];

		bps = (double)e->bandwidth_bps < bps ? (double)e->bandwidth_bps : bps;
		v = e->to;
	}
	return bps;
}

/* ------------------------------------------------------------------ cases */

static const char *const networks[] = {
	/* two hosts, one switch, and a slow host */
	"switch s\nhost h[0-1]\nlink h[0-1] s bandwidth=1G latency=5us\n",
	"switch s\nhost h[0-15]\nlink h[0-15] s bandwidth=10G latency=1us\n",
	"switch s\nhost h[0-8]\nhost x\nlink h[0-8] s bandwidth=1G latency=5us\n"
	"link x s bandwidth=100M latency=5us\n",
	/* trunks that are as fast as lines, slower, faster but shared */
	"switch s[0-1]\nhost h[0-3]\nhost i[0-4]\nlink h[0-3] s0 bandwidth=1G latency=5us\n"
	"link i[0-4] s1 bandwidth=1G latency=5us\nlink s0 s1 bandwidth=1G latency=1us\n",
	"switch s[0-2]\nhost h[0-9]\nhost i[0-7]\nhost k[0-7]\n"
	"link h[0-9] s0 bandwidth=1G latency=5us\nlink i[0-7] s1 bandwidth=1G latency=5us\n"
	"link k[0-7] s2 bandwidth=1G latency=5us\nlink s[1-2] s0 bandwidth=200M latency=5us\n",
	"switch t\nswitch s[0-3]\nhost a[0-7]\nhost b[0-7]\nhost c[0-7]\nhost d[0-7]\n"
	"link a[0-7] s0 bandwidth=10G latency=1us\nlink b[0-7] s1 bandwidth=10G latency=1us\n"
	"link c[0-7] s2 bandwidth=10G latency=1us\nlink d[0-7] s3 bandwidth=10G latency=1us\n"
	"link s[0-3] t bandwidth=20G latency=1us\n",
	/* far from each other, and nothing is held up */
	"switch t\nswitch s[0-2]\nhost a[0-5]\nhost b[0-5]\nhost c[0-5]\n"
	"link a[0-5] s0 bandwidth=1G latency=5us\nlink b[0-5] s1 bandwidth=1G latency=5us\n"
	"link c[0-5] s2 bandwidth=1G latency=5us\nlink s0 t bandwidth=10G latency=50us\n"
	"link s1 t bandwidth=10G latency=1ms\nlink s2 t bandwidth=10G latency=5ms\n",
};
#define NETWORKS (sizeof(networks) / sizeof(networks[0]))

static void
survey__finds_what_there_is(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NETWORKS; i++) {
		for (unsigned k = 0; k < 3; k++) {
			world_is(networks[i], 0.05 * k);
			struct topology *found = surveyed(1, 0);

			expect_the_same(found, 0);
			for (uint32_t x = 0; x < found->host_count; x++) {
				for (uint32_t y = 0; y < x; y++)
					assert_true(slowest(found, x, y) >
							0.75 * slowest(world.t, x, y) &&
						slowest(found, x, y) <
							1.25 * slowest(world.t, x, y));
			}
			topology_free(found);
			topology_free(world.t);
		}
	}
}

/* Without chance in it, ways are as long as they are. */
static void
survey__finds_latencies(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NETWORKS; i++) {
		world_is(networks[i], 0);
		struct topology *found = surveyed(1, 0), *real = world.t;

		for (uint32_t x = 0; x < real->host_count; x++) {
			for (uint32_t y = 0; y < x; y++) {
				const double is = latency(x, y);

				world.t = found;
				const double seems = latency(x, y);

				world.t = real;
				if (seems < 0.9 * is || seems > 1.1 * is)
					fail_msg("network %u, %u and %u: %.0f, not %.0f ns", i, x,
						y, seems, is);
			}
		}
		topology_free(found);
		topology_free(real);
	}
}

/* A switch whose link holds nobody up, and that is no farther, cannot be told from none. */
static void
survey__leaves_out_what_makes_no_difference(void **state)
{
	(void)state;
	world_is(
		"switch s[0-1]\nhost h[0-7]\nhost i[0-7]\n"
		"link h[0-7] s0 bandwidth=1G latency=5us\n"
		"link i[0-7] s1 bandwidth=1G latency=5us\nlink s0 s1 bandwidth=100G latency=10ns\n",
		0);
	struct topology *found = surveyed(1, 0);

	assert_int_equal(switches(found), 1);
	topology_free(found);
	topology_free(world.t);
}

static void
survey__several_ranks_of_a_node_and_nodes_without(void **state)
{
	(void)state;
	for (unsigned i = 1; i < NETWORKS; i++) {
		world_is(networks[i], 0);
		struct topology *found = surveyed(3, 0), *late = surveyed(2, 1);

		expect_the_same(found, 0);
		expect_the_same(late, 1);
		topology_free(found);
		topology_free(late);
		topology_free(world.t);
	}
}

/* Measure what is known again: `is` differs from `said` in some rates. Return whether that was
 * seen; afterwards they are the same, or the test fails. */
static bool
measured_again(const char *said, const char *is, double chance)
{
	uint16_t nodes[HOSTS_MOST];
	struct topology *known = parsed(said);
	struct survey_config c = {.ranks = known->host_count, .nodes = nodes, .params = params};
	struct survey *s;

	world_is(is, chance);
	for (uint32_t r = 0; r < known->host_count; r++)
		nodes[r] = (uint16_t)r;
	assert_int_equal(survey_again(&s, &c, known), 0);
	measure(s, c.ranks, nodes);
	const bool changed = survey_rates(s, known);

	for (uint32_t e = 0; e < known->edge_count; e++) {
		const double a = (double)known->edges[e].bandwidth_bps;
		const double b = (double)world.t->edges[e].bandwidth_bps;

		if (a < 0.88 * b || a > 1.12 * b)
			fail_msg("from %s to %s: %.0f, not %.0f bit/s",
				known->vertices[known->edges[e].from].name,
				known->vertices[known->edges[e].to].name, a, b);
	}
	survey_close(s);
	topology_free(known);
	topology_free(world.t);
	return changed;
}

#define TREE(line, slow, trunk, other)                                                             \
	"switch s[0-2]\nhost h[0-5]\nhost i[0-4]\nhost k[0-4]\nhost x\n"                           \
	"link h[0-5] s0 bandwidth=" line " latency=5us\nlink i[0-4] s1 bandwidth=" line            \
	" latency=5us\nlink k[0-4] s2 bandwidth=" line " latency=5us\nlink x s2 bandwidth=" slow   \
	" latency=5us\n"                                                                           \
	"link s1 s0 bandwidth=" trunk " latency=5us\nlink s2 s0 bandwidth=" other " latency=5us\n"

static void
survey_again__finds_what_has_changed(void **state)
{
	(void)state;
	for (double chance = 0; chance < 0.11; chance += 0.05) {
		assert_false(measured_again(TREE("1G", "1G", "1G", "1G"),
			TREE("1G", "1G", "1G", "1G"), chance / 4));
		assert_true(measured_again(TREE("1G", "1G", "1G", "1G"),
			TREE("1G", "1G", "500M", "1G"), chance / 4));
		assert_true(measured_again(TREE("1G", "1G", "500M", "1G"),
			TREE("1G", "1G", "1G", "1G"), chance / 4));
		assert_true(measured_again(TREE("1G", "1G", "1G", "1G"),
			TREE("1G", "100M", "1G", "1G"), chance / 4));
		assert_true(measured_again(TREE("1G", "100M", "1G", "200M"),
			TREE("1G", "1G", "200M", "1G"), chance / 4));
		/* what nobody can fill stays as it is said to be */
		assert_false(measured_again(TREE("1G", "1G", "100G", "40G"),
			TREE("1G", "1G", "100G", "40G"), chance / 4));
	}
	/* one switch, and no switch: nothing but lines, or nothing at all */
	assert_true(measured_again(networks[1],
		"switch s\nhost h[0-15]\nlink h[0-15] s bandwidth=1G latency=1us\n", 0));
	assert_false(measured_again("host a\nhost b\nlink a b bandwidth=1G latency=1us\n",
		"host a\nhost b\nlink a b bandwidth=1G latency=1us\n", 0));
}

/* It is measured after three slow ones, but not again if nothing was found; and some time after it
 * was slower it is looked whether it still is. */
static void
adapt__asks_when_it_is_worth_it(void **state)
{
	struct adapt a = {0};
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_false(adapt_took(&a, 1000, 1110));
	assert_false(adapt_took(&a, 1000, 2000));
	assert_false(adapt_took(&a, 1000, 2000));
	assert_false(adapt_took(&a, 1000, 1100));
	assert_false(adapt_took(&a, 1000, 2000));
	assert_false(adapt_took(&a, 1000, 2000));
	assert_true(adapt_took(&a, 1000, 2000));
	adapt_measured(&a, false);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(adapt_took(&a, 1000, 2000));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(adapt_took(&a, 1000, 4000), i == 2);
	adapt_measured(&a, true);
	for (unsigned i = 0; i < 10000; i++) {
		if (!adapt_took(&a, 1000, 1000))
			continue;
		asked++;
		adapt_measured(&a, false);
	}
	assert_in_range(asked, 6, 8);
}

static void
survey__refuses(void **state)
{
	static uint16_t nodes[COLL_RANKS_MAX];
	struct survey_config c = {.params = params, .nodes = nodes};
	struct survey *s;
	char *text;

	(void)state;
	assert_int_equal(survey_open(&s, &c), -EINVAL);
	c.ranks = COLL_RANKS_MAX + 1;
	assert_int_equal(survey_open(&s, &c), -EINVAL);
	c.ranks = SURVEY_HOSTS_MAX + 1;
	for (uint32_t r = 0; r < c.ranks; r++)
		nodes[r] = (uint16_t)r;
	assert_int_equal(survey_open(&s, &c), -E2BIG);
	c.ranks = 2;
	nodes[1] = 40000;
	assert_int_equal(survey_open(&s, &c), -E2BIG);
	/* one host alone: nothing to measure */
	nodes[1] = 0;
	assert_int_equal(survey_open(&s, &c), 0);
	assert_int_equal(survey_rounds(s), 0);
	assert_int_equal(survey_text(s, &text), 0);
	topology_free(parsed(text));
	free(text);
	survey_close(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survey__finds_what_there_is),
		cmocka_unit_test(survey__finds_latencies),
		cmocka_unit_test(survey__leaves_out_what_makes_no_difference),
		cmocka_unit_test(survey__several_ranks_of_a_node_and_nodes_without),
		cmocka_unit_test(survey_again__finds_what_has_changed),
		cmocka_unit_test(adapt__asks_when_it_is_worth_it),
		cmocka_unit_test(survey__refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
