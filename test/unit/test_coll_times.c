/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans of collectives by the clock, as the evaluator has it: windows that end, members that are
 * far apart or at one node, how busy plans keep the lines of their hosts, and timetables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "coll/tour.h"
#include "coll_random.h"
#include "core/wire/wire.h"

/* ------------------------------------------------------------------ windows and distances */

/* Takes the timetable of a plan away, and it still comes to its end with a window. */
static void
ends_with_window(const struct coll_task *task, enum coll_generator g, uint64_t window,
	uint32_t grain, uint64_t area)
{
	struct coll_plan *p;
	struct coll_cost cost;

	if (coll_plan_make(g, task, &p) != 0)
		return;
	without_times(p, window, grain);
	for (uint32_t r = 0; r < p->ranks; r++) {
		if (p->lists[r].area_bytes < area)
			p->lists[r].area_bytes = area;
	}
	if (coll_plan_evaluate(p, task, &cost) != 0)
		fail_msg("%s %s of %u, window %lu: does not end", coll_generator_name[g],
			coll_kind_name[task->kind], task->ranks, (unsigned long)window);
	coll_plan_free(p);
}

/* Whatever later steps of a list permit, the window is no reason for an earlier one to wait. */
static void
coll_plan__windows_end(void **state)
{
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-7]\n"
				    "link h[0-3] s0 bandwidth=100G latency=1us\n"
				    "link h[4-7] s1 bandwidth=100G latency=1us\n"
				    "link s0 s1 bandwidth=100G latency=1us\n");
	struct coll_task task = {
		.topology = t,
		.params = {1450, 88, 84, sizeof(struct wire_coll), 1400, WIRE_COLL_EAGER},
		.only = COLL_NONE,
	};

	(void)state;
	for (task.ranks = 2; task.ranks <= 8; task.ranks++) {
		for (unsigned i = 0; i < COLL_GENERATORS * COLL_KINDS; i++) {
			task.kind = i % COLL_KINDS;
			task.bytes = task.kind == COLL_BARRIER ? 0 : 600000;
			ends_with_window(&task, i / COLL_KINDS, 256 << 10, 32 << 10, 128 << 10);
			task.bytes /= 10;
			ends_with_window(&task, i / COLL_KINDS, 4 * 1400, 2 * 1400, 0);
		}
	}
	topology_free(t);
}

/* Clusters far apart: whatever the collective, its plan does not pay for the distance again and
 * again, and what has waited for a permit from afar does not overrun a port. */
static void
coll_plan__far_clusters(void **state)
{
	static const struct {
		enum coll_kind kind;
		uint64_t bytes;
		double most; /* of the bound */
	} cases[] = {{COLL_BCAST, 8, 1.1}, {COLL_BCAST, 1 << 20, 1.7}, {COLL_REDUCE_TO, 8, 1.1},
		{COLL_REDUCE_TO, 1 << 20, 1.8}, {COLL_ALLREDUCE, 8, 2.1},
		{COLL_ALLREDUCE, 1 << 20, 1.8}, {COLL_ALLGATHER, 8, 3.1},
		{COLL_ALLGATHER, 64 << 10, 1.4}, {COLL_REDUCE_SCATTER, 8, 3.1},
		{COLL_REDUCE_SCATTER, 64 << 10, 2.0}};
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-3] buffer=128K\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s[1-2] wide bandwidth=10G latency=2ms\n"
				    "link s3 wide bandwidth=10G latency=5ms\n"
				    "host a[0-11]\nhost b[0-11]\nhost c[0-11]\nhost d[0-11]\n"
				    "link a[0-11] s0 bandwidth=1G latency=5us\n"
				    "link b[0-11] s1 bandwidth=1G latency=5us\n"
				    "link c[0-11] s2 bandwidth=1G latency=5us\n"
				    "link d[0-11] s3 bandwidth=1G latency=5us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.ranks = t->host_count,
			.bytes = cases[i].bytes,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		assert_int_equal(coll_plan_best(&task, &p, NULL), 0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		if (!cost.fits || ratio > cases[i].most)
			fail_msg("%s of %lu bytes by %s: %.2f of the bound, %lu bytes wait",
				coll_kind_name[p->kind], (unsigned long)p->bytes,
				coll_generator_name[p->generator], ratio,
				(unsigned long)cost.backlog_bytes);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Check which blocks come without permits: of short ones from afar as many as fit half of the least
 * port, the farthest ones; within a cluster none do, and no long ones. */
static void
coll_plan__unasked_from_afar(void **state)
{
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-1] buffer=32K\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s1 wide bandwidth=10G latency=5ms\n"
				    "host a[0-19]\nhost b[0-19]\n"
				    "link a[0-19] s0 bandwidth=1G latency=5us\n"
				    "link b[0-19] s1 bandwidth=1G latency=5us\n");
	static const struct {
		uint64_t bytes;
		uint32_t unasked; /* of 16384 bytes, each with 88 and a head */
	} cases[] = {{8, 20}, {1000, 14}, {1024, 14}, {1025, 0}, {20000, 0}};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct coll_task task = {
			.kind = COLL_GATHER,
			.topology = t,
			.ranks = t->host_count,
			.bytes = cases[i].bytes,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;
		uint32_t unasked = 0;

		task.params.eager = 1024;
		assert_int_equal(coll_plan_make(COLL_PERMITS, &task, &p), 0);
		for (uint32_t k = 0; k < p->lists[0].count; k++) {
			const struct coll_step *s = &p->lists[0].steps[k];

			if (s->op != COLL_RECV || !(s->flags & COLL_EAGER))
				continue;
			assert_true(s->peer >= 20);
			unasked++;
		}
		assert_int_equal(unasked, cases[i].unasked);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		assert_true(cost.fits);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Members of one node take nothing of its line: neither of its time, nor of the root's
 * timetable. */
static void
coll_plan__within_a_node(void **state)
{
	static const struct {
		enum coll_kind kind;
		enum coll_generator generator;
	} cases[] = {{COLL_GATHER, COLL_PERMITS}, {COLL_GATHER, COLL_IN_TURN},
		{COLL_SCATTER, COLL_PERMITS}, {COLL_ALLTOALL, COLL_PHASES}};
	static const uint16_t nodes[] = {0, 0, 1, 1, 2, 2, 3, 3};
	struct topology *t = parsed("switch s buffer=128K\nhost h[0-3]\n"
				    "link h[0-3] s bandwidth=100M latency=20us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.nodes = nodes,
			.ranks = 8,
			.bytes = 1000000,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		assert_int_equal(coll_plan_make(cases[i].generator, &task, &p), 0);
		for (uint32_t r = 0; r < 8; r++) {
			for (uint32_t k = 0; k < p->lists[r].count; k++) {
				const struct coll_step *s = &p->lists[r].steps[k];

				assert_int_equal((s->flags & COLL_NEAR) != 0,
					s->op == COLL_SEND && nodes[r] == nodes[s->peer]);
			}
		}
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		if (ratio > 1.05)
			fail_msg("%s by %s: %.2f of the bound", coll_kind_name[p->kind],
				coll_generator_name[p->generator], ratio);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* ------------------------------------------------------------------ lines and timetables */

/* Check what plans say of how busy they keep lines. */
static void
coll_plan__says_how_busy_lines_are(void **state)
{
	static const struct {
		enum coll_kind kind;
		enum coll_generator generator;
		uint64_t bytes;
		/* percent, least and most, of rank 0's and of rank 7's line, which is at the other
		 * switch */
		unsigned in_0[2], out_0[2], in_7[2], out_7[2];
	} cases[] = {
		{COLL_GATHER, COLL_PERMITS, 100000, {95, 100}, {1, 15}, {0, 0}, {45, 60}},
		{COLL_SCATTER, COLL_PERMITS, 100000, {0, 0}, {95, 100}, {45, 60}, {0, 5}},
		{COLL_ALLTOALL, COLL_PHASES, 100000, {95, 100}, {95, 100}, {95, 100}, {95, 100}},
		{COLL_ALLGATHER, COLL_RING, 100000, {95, 100}, {95, 100}, {95, 100}, {95, 100}},
		{COLL_ALLREDUCE, COLL_DOUBLING, 8, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, /* eager */
	};
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-7]\n"
				    "link h[0-3] s0 bandwidth=1G latency=1us\n"
				    "link h[4-7] s1 bandwidth=1G latency=1us\n"
				    "link s0 s1 bandwidth=1G latency=1us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.ranks = 8,
			.bytes = cases[i].bytes,
			.params = coll_params_of_engines(1408),
			.only = COLL_NONE,
		};
		struct coll_plan *p;

		assert_int_equal(coll_plan_make(cases[i].generator, &task, &p), 0);
		const struct coll_list *l = p->lists;
		const unsigned says[4] = {l[0].load_in, l[0].load_out, l[7].load_in, l[7].load_out};
		const unsigned *range[4] = {cases[i].in_0, cases[i].out_0, cases[i].in_7,
			cases[i].out_7};

		for (unsigned k = 0; k < 4; k++) {
			const unsigned percent = says[k] * 100 / COLL_WHOLE;

			if (percent < range[k][0] || percent > range[k][1])
				fail_msg("case %u, load %u: %u percent", i, k, percent);
		}
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Check that what goes a slower way than its host's line goes at the rate of that way. */
static void
coll_plan__paces_slower_ways(void **state)
{
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-3]\n"
				    "link h[0-1] s0 bandwidth=1G latency=1us\n"
				    "link h[2-3] s1 bandwidth=1G latency=1us\n"
				    "link s0 s1 bandwidth=250M latency=1us\n");
	struct coll_task task = {
		.topology = t,
		.ranks = 4,
		.bytes = 100000,
		.params = coll_params_of_engines(1408),
		.only = COLL_NONE,
	};
	const double line = 8 * 1538 / 1408.0 * 65536;
	struct coll_plan *p;
	uint32_t across = 0;

	(void)state;
	task.kind = COLL_ALLTOALL;
	assert_int_equal(coll_plan_make(COLL_PHASES, &task, &p), 0);
	for (uint32_t r = 0; r < 4; r++) {
		assert_true(p->lists[r].send_pace > line && p->lists[r].send_pace < 1.1 * line);
		for (uint32_t i = 0; i < p->lists[r].count; i++) {
			const struct coll_step *s = &p->lists[r].steps[i];

			if (s->op != COLL_SEND || s->peer / 2 == r / 2)
				continue;
			across++;
			assert_true(s->pace > 4 * line && s->pace < 4.4 * line);
		}
	}
	assert_int_equal(across, 8);
	coll_plan_free(p);
	/* who sends nothing but that has no other pace */
	task.kind = COLL_ALLGATHER;
	assert_int_equal(coll_plan_make(COLL_RING, &task, &p), 0);
	across = 0;
	for (uint32_t r = 0; r < 4; r++)
		across += p->lists[r].send_pace > 4 * line && p->lists[r].send_pace < 4.4 * line;
	assert_int_equal(across, 2);
	coll_plan_free(p);
	topology_free(t);
}

/* Timetables of random trees, whose links are slower and faster than the root's line, and slower
 * behind slower ones: each is done in little more than the busiest link takes, and fills no port of
 * 64K. Where ten lanes end at nearly the same time, what comes next waits for all of them. */
static void
coll_plan__timetables_of_any_tree(void **state)
{
	enum { TREES = 400 };
	/* some seeds of such lanes */
	static const uint32_t alike[] = {2668, 3279, 5047, 7769, 9664, 11265, 11759, 33259};
	const uint32_t alike_count = sizeof(alike) / sizeof(alike[0]);
	double sum = 0;

	(void)state;
	for (unsigned i = 0; i < TREES; i++) {
		const uint32_t seed = i < alike_count ? alike[i] : i;

		state_of_random = 9000000 + seed;
		const uint32_t hosts = 2 + random_below(24);
		struct topology *t = random_tree(hosts, 6);
		const struct coll_task task = {
			.kind = seed % 2 ? COLL_GATHER : COLL_SCATTER,
			.topology = t,
			.ranks = hosts,
			.root = random_below(hosts),
			.bytes = 200000 + random_below(300000),
			.params = coll_params_of_engines(1408),
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		/* the planner finds no other plan to be better that is worse */
		assert_int_equal(i % 8 < 2 ? coll_plan_best(&task, &p, NULL)
					   : coll_plan_make(COLL_PERMITS, &task, &p),
			0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		double farthest_ns = 0;

		for (uint32_t r = 0; r < hosts; r++) {
			const double ns = r == task.root
				? 0
				: coll_path_between(&task, r, task.root).latency_ns;

			farthest_ns = ns > farthest_ns ? ns : farthest_ns;
		}
		/* permits go first */
		if ((double)cost.ns > 1.1 * (double)p->bound_ns + 2 * farthest_ns ||
			cost.backlog_bytes > 60000)
			fail_msg("tree %u, %s: %.2f of the bound, %lu bytes wait", seed,
				coll_kind_name[task.kind], ratio, cost.backlog_bytes);
		sum += ratio;
		coll_plan_free(p);
		topology_free(t);
	}
	assert_true(sum / TREES < 1.02);
}

/* Blocks from so far that one flow alone does not fill the line come several at a time, and those
 * from near before and after them: together they never come faster than the line. */
static void
coll_plan__streams_from_afar(void **state)
{
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-2] buffer=128K\n"
				    "host a[0-3]\nhost b[0-3]\nhost c[0-4]\n"
				    "link a[0-3] s0 bandwidth=1G latency=5us\n"
				    "link b[0-3] s1 bandwidth=1G latency=5us\n"
				    "link c[0-4] s2 bandwidth=1G latency=5us\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s1 wide bandwidth=10G latency=2ms\n"
				    "link s2 wide bandwidth=10G latency=5ms\n");
	struct coll_task task = {
		.kind = COLL_GATHER,
		.topology = t,
		.ranks = 13,
		.params = coll_params_of_engines(1408),
		.only = COLL_NONE,
	};

	(void)state;
	for (task.bytes = 100000; task.bytes < 10000000; task.bytes += task.bytes / 3) {
		struct coll_plan *p;
		struct coll_cost cost;
		uint32_t slow = 0;

		assert_int_equal(coll_plan_make(COLL_PERMITS, &task, &p), 0);
		const struct coll_list *l = &p->lists[0];

		for (uint32_t i = 0; i < l->count; i++) {
			const double at = l->steps[i].at_us + 1, line = 8 * 1538 / 1408.0 * 65536;
			double rate = 0; /* of what comes then, in lines */

			if (l->steps[i].op != COLL_RECV)
				continue;
			slow += l->steps[i].pace > 1.5 * line;
			for (uint32_t k = 0; k < l->count; k++) {
				const struct coll_step *s = &l->steps[k];
				const double takes = (double)s->pace / 65536e3 * (double)task.bytes;

				if (s->op == COLL_RECV && s->at_us <= at &&
					at < s->at_us + takes - 2)
					rate += line / s->pace;
			}
			assert_true(rate > 0.98 && rate < 1.01);
		}
		/* 480 frames are on their way in one of two flows over 10 ms; beside the last of
		 * the five comes one from near */
		assert_in_range(slow, task.bytes > 480 * 1408 ? 5 : 0,
			task.bytes > 480 * 1408 ? 6 : 0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		assert_true(cost.fits);
		assert_true((double)cost.ns < 1.05 * (double)p->bound_ns);
		coll_plan_free(p);
	}
	topology_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coll_plan__windows_end),
		cmocka_unit_test(coll_plan__far_clusters),
		cmocka_unit_test(coll_plan__unasked_from_afar),
		cmocka_unit_test(coll_plan__within_a_node),
		cmocka_unit_test(coll_plan__says_how_busy_lines_are),
		cmocka_unit_test(coll_plan__paces_slower_ways),
		cmocka_unit_test(coll_plan__streams_from_afar),
		cmocka_unit_test(coll_plan__timetables_of_any_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
