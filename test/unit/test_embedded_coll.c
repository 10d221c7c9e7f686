/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives by the public verbs, between embedded nodes whose link loses and reorders frames:
 * every verb with random lengths, roots, types and memory, several at once, begun in any order of
 * the members; members whose plan differs, that leave or whose node dies; and descriptions that the
 * library would not make. Plans and surveys: test_embedded_coll_plans.c.
 *
 * COLL_CALLS=N test_embedded_coll: so many random calls instead of 300.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/exec.h"
#include "embedded_team.h"
#include "engine/lane.h"
#include "group/client/group.h"
#include "node/node.h"

/* ------------------------------------------------------------------ calls */

static void
coll__random_calls(void **state)
{
	const char *calls = getenv("COLL_CALLS");

	(void)state;
	team_open(ALL);
	team_random_calls(calls != NULL ? (unsigned)atoi(calls) : 300);
}

/* Neither commutative nor associative: only one order gives the result. */
static void
times_three(void *into, const void *from, uint64_t len, void *arg)
{
	uint8_t *a = into;
	const uint8_t *b = from;

	for (uint64_t i = 0; i < len; i++)
		a[i] = (uint8_t)(3 * a[i] + b[i]);
	++*(unsigned *)arg;
}

static uint8_t
contribution(unsigned n, uint64_t i)
{
	return (uint8_t)(n * 41 + i * 7 + (i >> 8));
}

/* Begins it at all members; root: ALL for an allreduce. */
static void
begin_by_function(uint32_t root, uint64_t len, bool in_place, unsigned *calls)
{
	for (unsigned n = 0; n < members; n++) {
		struct share *p = &parts[0][n];
		const bool gets = root == ALL || n == root;
		const void *in;

		*p = (struct share){.ended = 1, .in = malloc(len + 1), .out = malloc(len + 1)};
		in = in_place && gets ? PMX_IN_PLACE : p->in;
		memset(p->out, 0xEE, len + 1);
		for (uint64_t i = 0; i < len; i++)
			(in == PMX_IN_PLACE ? p->out : p->in)[i] = contribution(n, i);
		const int e = root == ALL ? pmx_allreduce_by(group[n], in, p->out, len, times_three,
						    calls, &p->request)
					  : pmx_reduce_by(group[n], root, in, p->out, len,
						    gets ? times_three : NULL, calls, &p->request);

		assert_int_equal(e, 0);
	}
}

static void
coll__by_a_function(void **state)
{
	static const uint64_t lens[] = {0, 1, 24, 300, 5000, 100000};
	pmx_request r;
	uint8_t bytes[8];

	(void)state;
	team_open(5);
	assert_int_equal(pmx_reduce_by(group[0], 0, bytes, bytes, 8, NULL, NULL, &r), -EINVAL);
	assert_int_equal(pmx_allreduce_by(group[0], bytes, bytes, 8, NULL, NULL, &r), -EINVAL);
	for (unsigned i = 0; i < 24; i++) {
		const uint64_t len = lens[i % 6];
		const uint32_t root = i % 4 == 0 ? ALL : i % 5;
		unsigned calls = 0;

		begin_by_function(root, len, i >= 12, &calls);
		UNTIL(team_all_ended(0));
		assert_int_equal(calls, len == 0 ? 0 : root == ALL ? 5 * 4 : 4);
		for (unsigned n = 0; n < members; n++) {
			struct share *p = &parts[0][n];

			assert_int_equal(p->ended, 0);
			assert_int_equal(p->out[len], 0xEE);
			for (uint64_t k = 0; k < len && (root == ALL || n == root); k++) {
				uint8_t want = contribution(0, k);

				for (unsigned from = 1; from < members; from++)
					want = (uint8_t)(3 * want + contribution(from, k));
				assert_int_equal(p->out[k], want);
			}
			free(p->in);
			free(p->out);
		}
	}
}

/* Check that the same sums have the same bits at all members and in every run, on a link that loses
 * and reorders. */
static void
floats_have_the_same_bits(uint64_t count_max)
{
	enum { COUNT = 5000 };
	static float in[ALL][COUNT], out[ALL][COUNT], first[COUNT];

	team_open(ALL);
	for (unsigned n = 0; n < members; n++) {
		for (unsigned i = 0; i < COUNT; i++)
			in[n][i] = (float)(random_below(1000000) + 1) /
				(float)(random_below(1000) + 1) * (random_below(2) ? 1.0f : -1.0f);
	}
	for (unsigned run = 0; run < 100; run++) {
		const uint64_t count = run % 2 ? count_max : 9;

		for (unsigned n = 0; n < members; n++) {
			parts[0][n].ended = 1;
			assert_int_equal(pmx_allreduce(group[n], in[n], out[n], count, PMX_FLOAT,
						 PMX_ATOMIC_SUM, &parts[0][n].request),
				0);
		}
		UNTIL(team_all_ended(0));
		if (run == 1)
			memcpy(first, out[0], sizeof(first));
		for (unsigned n = 0; n < members; n++) {
			assert_int_equal(parts[0][n].ended, 0);
			assert_memory_equal(out[n], out[0], count * sizeof(float));
			if (run % 2)
				assert_memory_equal(out[n], first, count * sizeof(float));
		}
	}
}

static void
coll__floats_have_the_same_bits(void **state)
{
	(void)state;
	floats_have_the_same_bits(5000);
}

/* ... where all sum up for themselves. */
static void
coll__floats_have_the_same_bits_at_once(void **state)
{
	(void)state;
	setenv("PMX_COLL_GENERATORS", "allreduce=at_once", 1);
	floats_have_the_same_bits(200);
	unsetenv("PMX_COLL_GENERATORS");
}

/* ------------------------------------------------------------------ failures */

/* All have ended because of member 4, which has another plan. some: but for those that had nothing
 * more to do, and have ended before. */
static void
names_the_odd_one(bool some)
{
	for (unsigned n = 0; n < members; n++) {
		const struct share *p = &parts[0][n];

		if (some && p->ended == 0)
			continue;
		assert_int_equal(p->ended, -EPROTO);
		assert_int_equal(p->said.label, 4);
		assert_int_equal(p->said.source.context, team_addr(4).context);
	}
}

/* One member gathers other lengths than the others: all name it, and there is no further one. */
static void
coll__plans_that_differ(void **state)
{
	uint8_t in[ALL][5000], out[ALL * 5000];

	(void)state;
	team_open(ALL);
	team_random_calls(5);
	for (unsigned n = 0; n < members; n++) {
		parts[0][n].ended = 1;
		assert_int_equal(pmx_gather(group[n], 1, in[n], out, n == 4 ? 4999 : 5000,
					 &parts[0][n].request),
			0);
	}
	UNTIL(team_all_ended(0));
	names_the_odd_one(true);
	assert_int_equal(parts[0][1].ended, -EPROTO);
	assert_int_equal(parts[0][4].ended, -EPROTO);
	team_barriers(0);
	UNTIL(team_all_ended(0));
	names_the_odd_one(false);
}

/* Plans that wait for each other without a message: who is odd is found nevertheless. */
static void
coll__plans_that_say_nothing(void **state)
{
	static uint8_t in[ALL][64], out[ALL][64], long_in[ALL * 5000], long_out[ALL][5000];

	(void)state;
	for (unsigned which = 0; which < 3; which++) {
		team_open(ALL);
		for (unsigned n = 0; n < members; n++) {
			struct share *p = &parts[0][n];
			int e;

			memset(p, 0, sizeof(*p));
			p->ended = 1;
			e = which == 0 ? pmx_gather(group[n], n == 4 ? 4 : 0, in[n], out[n], 8,
						 &p->request)
				: which == 1 ? pmx_scatter(group[n], 0, long_in, long_out[n],
						       n == 4 ? 200 : 5000, &p->request)
					     : pmx_reduce(group[n], n == 4 ? 5 : 2, in[n], out[n],
						       8, PMX_UINT64, PMX_ATOMIC_SUM, &p->request);
			assert_int_equal(e, 0);
		}
		UNTIL(team_all_ended(0));
		names_the_odd_one(true);
		assert_int_equal(parts[0][4].ended, -EPROTO);
		for (unsigned n = 0; n < members; n++) {
			pmx_group_close(group[n]);
			group[n] = NULL;
		}
		for (unsigned i = 0; i < 20000; i++)
			team_poll();
	}
}

/* Rank 0, which has the last word, begins when all others have complained. */
static void
coll__rank_0_begins_last(void **state)
{
	static uint8_t in[ALL][5000], out[ALL * 5000];

	(void)state;
	team_open(ALL);
	for (unsigned n = ALL; n-- > 0;) {
		struct share *p = &parts[0][n];

		memset(p, 0, sizeof(*p));
		p->ended = 1;
		assert_int_equal(
			pmx_gather(group[n], 1, in[n], out, n == 4 ? 4999 : 5000, &p->request), 0);
		for (unsigned i = 0; i < 20000; i++)
			team_poll();
	}
	UNTIL(team_all_ended(0));
	assert_int_equal(parts[0][1].ended, -EPROTO);
	assert_int_equal(parts[0][1].said.label, 4);
	team_barriers(0);
	UNTIL(team_all_ended(0));
	names_the_odd_one(false);
}

/* A member leaves when its own part has ended: the others finish theirs. What it has not taken part
 * in ends at all with its name. */
static void
coll__a_member_leaves(void **state)
{
	static uint8_t in[ALL][60000], out[ALL * 60000];

	(void)state;
	team_open(ALL);
	for (unsigned n = 0; n < members; n++) {
		memset(in[n], (int)n + 1, sizeof(in[n]));
		parts[0][n].ended = 1;
		assert_int_equal(
			pmx_gather(group[n], 0, in[n], out, sizeof(in[n]), &parts[0][n].request),
			0);
	}
	UNTIL(parts[0][5].ended != 1);
	assert_int_equal(parts[0][5].ended, 0);
	pmx_group_close(group[5]);
	group[5] = NULL;
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < members; n++)
		assert_int_equal(parts[0][n].ended, 0);
	for (unsigned i = 0; i < sizeof(out); i++)
		assert_int_equal(out[i], i / 60000 + 1);
	members--;
	team_barriers(0);
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < members; n++) {
		assert_int_equal(parts[0][n].ended, -ENOTCONN);
		assert_int_equal(parts[0][n].said.label, 5);
	}
}

/* A node dies in the midst: all others end, with the same member of it. */
static void
coll__a_node_dies(void **state)
{
	(void)state;
	team_open(ALL);
	team_random_calls(3);
	team_barriers(0);
	UNTIL(team_all_ended(0));
	team_barriers(0);
	struct pmx_node *dead = nodes[1];

	nodes[1] = NULL; /* it is not polled any more */
	UNTIL(parts[0][0].ended != 1 && parts[0][1].ended != 1 && parts[0][2].ended != 1);
	for (unsigned n = 0; n < CTXS; n++) {
		if (parts[0][n].ended == 0)
			continue;
		assert_int_equal(parts[0][n].ended, -ECONNRESET);
		assert_in_range(parts[0][n].said.label, CTXS, ALL - 1);
		assert_int_equal(parts[0][n].said.label, parts[0][0].said.label);
	}
	team_barriers(0);
	UNTIL(parts[0][0].ended != 1 && parts[0][1].ended != 1 && parts[0][2].ended != 1);
	for (unsigned n = 0; n < CTXS; n++)
		assert_int_equal(parts[0][n].ended, -ECONNRESET);
	nodes[1] = dead;
}

/* Start node n: nodes 1 and 2 look for each other where nobody listens. */
static struct pmx_node *
start_apart(unsigned n, unsigned port)
{
	struct pmx_node *node;
	char text[600], error[256] = "";
	const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = apart%u\n[link 0]\ndriver = udp\n"
		"listen = 127.0.0.1:%u\n[proto]\nretries = 3\nrto_max_us = 8000\n"
		"[limits]\ncontexts = 1\nmbufs = 4096\n[nodes]\n"
		"0 = 127.0.0.1:%u\n1 = 127.0.0.1:%u\n2 = 127.0.0.1:%u\n",
		n, n, port + n, port, port + (n == 2 ? 9 : 1), port + (n == 1 ? 9 : 2));
	if (pmx_node_start(&node, &params, error, sizeof(error)) != 0)
		fail_msg("%s", error);
	return node;
}

/* Rank 0 reaches all, but two others do not reach each other: nobody waits for what was lost
 * between them. */
static void
coll__two_nodes_that_do_not_reach_each_other(void **state)
{
	enum { LONELY = 3 };
	const unsigned port = 20000 + (unsigned)getpid() % 800 * 16;
	struct pmx_node *apart[LONELY];
	struct pmx_context *c[LONELY];
	struct pmx_group *g[LONELY];
	struct pmx_addr list[LONELY];
	struct pmx_status said[LONELY];
	pmx_request r[LONELY];
	int ended[LONELY] = {0};
	uint8_t in[LONELY][LONELY * 8] = {{0}}, out[LONELY][LONELY * 8];
	time_t end = time(NULL) + PATIENCE_S;
	const struct pmx_group_params p = {sizeof(p), NUMBER, .count = LONELY, .members = list};

	(void)state;
	for (unsigned n = 0; n < LONELY; n++) {
		apart[n] = start_apart(n, port);
		assert_int_equal(pmx_context_open(&c[n], apart[n], 0, NULL), 0);
		list[n] = (struct pmx_addr){(uint16_t)n, 0};
	}
	for (unsigned step = 0; step < 2; step++) {
		for (unsigned n = 0; n < LONELY; n++) {
			ended[n] = 0;
			assert_int_equal(step == 0
					? pmx_group_open(c[n], &p, 30000000, &g[n], &r[n])
					: pmx_alltoall(g[n], in[n], out[n], 8, &r[n]),
				0);
		}
		while (ended[0] == 0 || ended[1] == 0 || ended[2] == 0) {
			assert_true(time(NULL) < end);
			for (unsigned n = 0; n < LONELY; n++) {
				pmx_node_poll(apart[n]);
				if (ended[n] == 0)
					ended[n] = pmx_test(c[n], &r[n], &said[n]);
			}
		}
		for (unsigned n = 0; n < LONELY && step == 0; n++)
			assert_int_equal(ended[n], 1);
	}
	/* rank 0 has had its bytes, and expels one of the two, whom the others hear of */
	assert_int_equal(pmx_coll_barrier(g[0], &r[0]), 0);
	for (ended[0] = 0; ended[0] == 0; ended[0] = pmx_test(c[0], &r[0], &said[0])) {
		assert_true(time(NULL) < end);
		pmx_node_poll(apart[0]);
	}
	assert_int_equal(ended[0], -ECONNRESET);
	assert_in_range(said[0].label, 1, 2);
	const unsigned expelled = said[0].label, stays = 3 - expelled;

	assert_int_equal(ended[stays], -ECONNRESET);
	assert_int_equal(said[stays].label, expelled);
	assert_true(ended[expelled] < 0);
	for (unsigned n = 0; n < LONELY; n++)
		pmx_node_close(apart[n]);
}

/* ------------------------------------------------------------------ refusals */

#define HOST_A "switch s\nhost a\nlink a s bandwidth=1G latency=1us\n"

static void
coll__refuses_what_is_wrong(void **state)
{
	uint8_t bytes[64];
	pmx_request r[COLLS_OF_CONTEXT];
	char error[200] = "";
	unsigned begun = 0;

	(void)state;
	team_open(2);
	assert_int_equal(pmx_bcast(group[0], 2, bytes, 8, &r[0]), -EINVAL);
	assert_int_equal(pmx_bcast(group[0], 0, bytes, 8, NULL), -EINVAL);
	assert_int_equal(pmx_bcast(group[0], 0, bytes, 1ull << 50, &r[0]), -EMSGSIZE);
	assert_int_equal(
		pmx_allreduce(group[0], bytes, bytes, 2, PMX_FLOAT, PMX_ATOMIC_BXOR, &r[0]),
		-EINVAL);
	assert_int_equal(
		pmx_allreduce(group[0], bytes, bytes, 2, PMX_INT8, PMX_ATOMIC_CSWAP, &r[0]),
		-EINVAL);
	assert_int_equal(
		pmx_coll_topology(group[1], HOST_A "link a b bandwidth=1G\n", error, sizeof(error)),
		-EINVAL);
	assert_non_null(strstr(error, "line 4"));
	/* one without the other member's node is taken: both are at node 0 */
	assert_int_equal(pmx_coll_topology(group[1], HOST_A, error, sizeof(error)), 0);
	assert_int_equal(pmx_coll_topology(group[0], HOST_A, error, sizeof(error)), 0);
	assert_int_equal(pmx_coll_topology(group[0], NULL, NULL, 0), -EBUSY);
	/* with a buffer that is kept for it, the first is as the others */
	assert_int_equal(pmx_coll_barrier(group[0], PMX_COLL_PREPARE), 0);
	assert_int_equal(pmx_coll_barrier(group[0], PMX_COLL_PREPARE), 0);
	pmx_coll_forget(group[0]);
	assert_int_equal(pmx_coll_barrier(group[0], PMX_COLL_PREPARE), 0);
	/* more at once than limits.collectives */
	while (begun < COLLS_OF_CONTEXT && pmx_coll_barrier(group[0], &r[begun]) == 0)
		begun++;
	assert_int_equal(begun, 16);
	assert_int_equal(pmx_coll_limit(ctx[0]), 16);
	/* nor is there a buffer for another: none is prepared, and nothing is lost by asking */
	assert_int_equal(pmx_coll_barrier(group[0], PMX_COLL_PREPARE), -EAGAIN);
	pmx_coll_forget(group[0]);
	assert_int_equal(pmx_coll_barrier(group[0], &r[begun]), -EAGAIN);
	for (unsigned i = 0; i < begun; i++) {
		team_barriers(1);
		UNTIL(team_all_ended(1));
		assert_int_equal(parts[0][1].ended, 0);
		assert_int_equal(parts[0][1].said.tag, i);
	}
	for (unsigned i = 0; i < begun; i++) {
		int e;

		UNTIL((e = pmx_test(ctx[0], &r[i], NULL)) != 0);
		assert_int_equal(e, 1);
	}
}

/* Return how many submissions the engine of a node counted as bad. What it did not count as bad, it
 * did. */
static uint64_t
bad_submissions(unsigned n)
{
	return nodes[n]->embedded->engines[0].counters[ENGINE_bad_submissions];
}

static void
close_groups(void)
{
	for (unsigned n = 0; n < ALL; n++) {
		pmx_group_close(group[n]);
		group[n] = NULL;
	}
	for (unsigned i = 0; i < 3000; i++)
		team_poll();
}

/* Fill memory with a description of ten steps, and 64 KiB in all. */
static void
random_description(uint8_t *memory)
{
	struct coll_desc d = {
		.hash = 1,
		.steps = random_below(4) == 0 ? random_below(100000) : random_below(6),
		.blocks = random_below(4) == 0 ? random_below(100000) : random_below(4),
		.ends = random_below(9),
		.piece = random_below(3000),
		.areas = random_below(80),
		.operation = random_below(70000),
		.area_bytes = random_below(2) ? random_below(100000)
					      : UINT64_MAX - random_below(1000),
		.window = random_below(100000),
		.each = random_below(2) ? random_below(3000) : UINT64_MAX - random_below(1000),
	};
	struct coll_step *steps = (struct coll_step *)(memory + sizeof(d));

	for (unsigned b = 0; b < 3; b++) {
		d.buffer[b].at = random_below(2) ? (uintptr_t)memory + random_below(70000)
						 : UINT64_MAX - random_below(100000);
		d.buffer[b].len = random_below(2) ? random_below(100000) : UINT64_MAX;
		d.buffer[b].memory = random_below(3);
	}
	memcpy(memory, &d, sizeof(d));
	for (unsigned i = 0; i < 10; i++)
		steps[i] = (struct coll_step){
			.op = (uint8_t)random_below(5),
			.flags = (uint8_t)random_below(16),
			.from = (uint8_t)random_below(4),
			.to = (uint8_t)random_below(4),
			.peer = (uint16_t)random_below(4),
			.after = {random_below(2) ? COLL_NONE : (uint16_t)random_below(10),
				COLL_NONE},
			.block = (uint16_t)random_below(4),
			.blocks = (uint16_t)random_below(4),
			.source = (uint16_t)random_below(10),
			.area = (uint8_t)random_below(3),
		};
	for (uint8_t *at = (uint8_t *)(steps + 10); at < memory + 65536; at++)
		*at = (uint8_t)random_below(256);
}

/* Submit what is in memory, mostly. good_group: to the context's own group. */
static void
submit_random(struct slot_end *sub, uint8_t *memory, bool good_group)
{
	struct submission *s = (struct submission *)slot_at(sub, sub->pos)->body;

	memset(s, 0, sizeof(*s));
	s->op = SUBMIT_COLL;
	s->coll.handle = good_group ? group[1]->handle : (uint16_t)random_below(65536);
	s->coll.ticket = random_below(1000);
	s->coll.memory = random_below(8) == 0 ? random_below(100)
					      : (uint32_t)piece_of(ctx[1], memory, 1);
	s->coll.len = random_below(4) == 0 ? random_below(1000000) : 65536;
	s->coll.at = (uintptr_t)memory + (random_below(8) == 0 ? random_below(100000) : 0);
	slot_publish(sub, sub->pos++);
}

/* Descriptions that the library never makes: the engine refuses them, or the group's members end
 * with an error, and nothing is read or written where it should not be. */
static void
coll__the_engine_refuses(void **state)
{
	struct slot_end *sub = &ctx[1]->sub;
	uint8_t *memory;
	const uint64_t before = bad_submissions(0);

	(void)state;
	assert_int_equal(pmx_alloc(ctx[1], 65536, (void **)&memory), 0);
	for (unsigned k = 0; k < 200; k++) {
		const bool good_group = k % 4 != 0;

		if (k % 20 == 0) {
			close_groups();
			team_open(3);
		}
		random_description(memory);
		if (slot_room(sub, 1))
			submit_random(sub, memory, good_group);
		for (unsigned i = 0; i < 200; i++)
			team_poll();
	}
	assert_true(bad_submissions(0) > before);
	/* the node goes on */
	close_groups();
	team_open(ALL);
	team_random_calls(20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(coll__random_calls, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__plans_that_differ, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__plans_that_say_nothing, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__rank_0_begins_last, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__a_member_leaves, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__refuses_what_is_wrong, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__by_a_function, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__the_engine_refuses, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__floats_have_the_same_bits, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__floats_have_the_same_bits_at_once, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__a_node_dies, team_start, team_stop),
		cmocka_unit_test(coll__two_nodes_that_do_not_reach_each_other),
	};

	if (team_eal("embedded_coll") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_coll", tests, NULL, NULL);
}
