/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives by the public verbs, between embedded nodes whose link loses and reorders frames:
 * every verb with random lengths, roots, types and memory, several at once, begun in any order of
 * the members; members whose plan differs, that leave or whose node dies; and descriptions that the
 * library would not make.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>

#include "group/client/group.h"
#include "coll/exec.h"
#include "engine/lane.h"
#include "node/node.h"
#include "pmx/coll.h"

#define NODES      2
#define CTXS       3 /* of a node */
#define ALL        (NODES * CTXS)
#define PATIENCE_S 60
#define NUMBER     78
#define RUNNING    3 /* at once */

static struct pmx_node *nodes[NODES];
static struct pmx_context *ctx[ALL];
static struct pmx_group *group[ALL];
static pmx_request opening[ALL];
static uint32_t members; /* of the group */

/* One collective at one member. */
struct share {
	pmx_request request;
	int ended; /* 1: it has not */
	struct pmx_status said;
	uint8_t *in, *out, *want;
	uint64_t in_bytes, out_bytes, want_from, want_bytes;
	bool shared; /* of pmx_alloc */
};

static struct share parts[RUNNING][ALL];

/* ------------------------------------------------------------------ running */

static void
poll_all(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_poll(nodes[n]);
	}
	for (unsigned n = 0; n < ALL; n++) {
		for (unsigned k = 0; ctx[n] != NULL && k < RUNNING; k++) {
			struct share *p = &parts[k][n];

			if (p->request == 0 || p->ended != 1)
				continue;
			const int e = pmx_test(ctx[n], &p->request, &p->said);

			p->ended = e == 0 ? 1 : e == 1 ? 0 : e;
		}
	}
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE_S;                                             \
		while (!(condition)) {                                                             \
			assert_true(time(NULL) < end_);                                            \
			poll_all();                                                                \
		}                                                                                  \
	} while (0)

static struct pmx_addr
member(unsigned n)
{
	return (struct pmx_addr){(uint16_t)(n / CTXS), (uint16_t)(n % CTXS)};
}

static bool
all_opened(int *results, uint32_t count)
{
	bool all = true;

	for (unsigned n = 0; n < count; n++) {
		if (results[n] == 0)
			results[n] = pmx_test(ctx[n], &opening[n], NULL);
		all &= results[n] != 0;
	}
	return all;
}

static void
open_group(uint32_t count)
{
	struct pmx_addr list[ALL];
	int results[ALL] = {0};
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = NUMBER,
		.count = count,
		.members = list,
	};

	members = count;
	for (unsigned n = 0; n < count; n++)
		list[n] = member(n);
	for (unsigned n = 0; n < count; n++)
		assert_int_equal(pmx_group_open(ctx[n], &p, 30000000, &group[n], &opening[n]), 0);
	/* all of them ask: who has just left a group of that number joins the next one by its
	 * calls */
	UNTIL(all_opened(results, count));
	for (unsigned n = 0; n < count; n++)
		assert_int_equal(results[n], 1);
}

static int
start(void **state)
{
	(void)state;
	memset(parts, 0, sizeof(parts));
	memset(group, 0, sizeof(group));
	for (unsigned n = 0; n < NODES; n++) {
		char text[600], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = coll%u\n[link 0]\ndriver = loop\nport = coll\n"
			"encap = none\nfault = loss=5%%,reorder=5%%,seed=%u\n"
			"[nodes]\n0 = auto\n1 = auto\n"
			"[proto]\nkeepalive_ms = 100\n[limits]\ncontexts = 4\nmbufs = 8192\n"
			"groups = 2\ngroup_members = 8\ntransfers = 8\n",
			n, n, n + 1);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
			print_error("%s\n", error);
			return -1;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (pmx_context_open(&ctx[n], nodes[n / CTXS], n % CTXS, NULL) != 0)
			return -1;
	}
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	for (unsigned n = 0; n < ALL; n++) {
		pmx_group_close(group[n]);
		group[n] = NULL;
	}
	for (unsigned i = 0; i < 100000; i++)
		poll_all();
	for (unsigned n = 0; n < ALL; n++) {
		if (ctx[n] != NULL)
			pmx_context_close(ctx[n]);
		ctx[n] = NULL;
	}
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return 0;
}

/* ------------------------------------------------------------------ random calls */

static uint64_t seed = 1;

static uint32_t
below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static uint64_t
some_bytes(void)
{
	switch (below(5)) {
	case 0:
		return below(9);
	case 1:
		return below(300);
	case 2:
		return below(6000);
	case 3:
		return below(100000);
	}
	return 8 * below(200);
}

static uint8_t *
memory(unsigned n, struct share *p, uint64_t bytes)
{
	void *at = NULL;

	if (p->shared && pmx_alloc(ctx[n], bytes + 1, &at) != 0)
		fail();
	if (!p->shared)
		at = malloc(bytes + 1);
	memset(at, 0xEE, bytes + 1);
	return at;
}

static void
give(unsigned n, struct share *p, void *at)
{
	if (p->shared)
		pmx_free(ctx[n], at);
	else
		free(at);
}

/* Byte i of what rank r brings along. */
static uint8_t
brought(unsigned call, unsigned r, uint64_t i)
{
	return (uint8_t)(call * 13 + r * 37 + i * 11 + (i >> 8) * 3 + 5);
}

enum verb {
	BARRIER,
	BCAST,
	GATHER,
	SCATTER,
	ALLGATHER,
	ALLTOALL,
	GATHERV,
	SCATTERV,
	ALLGATHERV,
	ALLTOALLV,
	REDUCE,
	ALLREDUCE,
	REDUCE_SCATTER,
	VERBS
};

struct call {
	enum verb verb;
	unsigned number, root;
	uint64_t bytes;
	uint64_t lens[ALL][ALL], begins[ALL][ALL]; /* from, to; of v: lens[r][0] */
	bool in_place;
};

static void
make_call(struct call *c, unsigned number)
{
	memset(c, 0, sizeof(*c));
	c->verb = (enum verb)below(VERBS);
	c->number = number;
	c->root = below(members);
	c->bytes = some_bytes();
	if (c->verb == ALLTOALL || c->verb == ALLTOALLV)
		c->bytes = c->bytes > 20000 ? 20000 : c->bytes;
	c->in_place = below(4) == 0;
	for (unsigned r = 0; r < members; r++) {
		for (unsigned q = 0; q < members; q++)
			c->lens[r][q] = below(3) == 0 ? 0 : below((uint32_t)c->bytes + 1);
	}
}

/* Set where the blocks of all members begin, with a gap behind each. Return where the last gap
 * ends. */
static uint64_t
spread(const uint64_t *lens, uint64_t *begins)
{
	uint64_t end = 0;

	for (unsigned r = 0; r < members; r++) {
		begins[r] = end;
		end += lens[r] + 3;
	}
	return end;
}

static void
want(struct share *p, uint64_t bytes)
{
	p->want = malloc(bytes + 1);
	memset(p->want, 0xEE, bytes + 1);
	p->want_bytes = bytes;
}

/* Begins a call at a member. */
static void
begin(const struct call *c, unsigned n, struct share *p)
{
	struct pmx_group *g = group[n];
	const uint64_t len = c->bytes;
	const bool root = n == c->root;
	uint64_t begins[ALL], lens[ALL], other[ALL], other_lens[ALL], all;
	const struct pmx_blocks v = {lens, begins}, w = {other_lens, other};
	int e = -1;

	memset(p, 0, sizeof(*p));
	p->ended = 1;
	p->shared = below(3) == 0;
	for (unsigned r = 0; r < members; r++)
		lens[r] = c->lens[r][0];
	switch (c->verb) {
	case BARRIER:
		want(p, 0);
		e = pmx_coll_barrier(g, &p->request);
		break;
	case BCAST:
		p->out = memory(n, p, len);
		want(p, len);
		for (uint64_t i = 0; i < len; i++) {
			p->want[i] = brought(c->number, c->root, i);
			if (root)
				p->out[i] = p->want[i];
		}
		e = pmx_bcast(g, c->root, p->out, len, &p->request);
		break;
	case GATHER:
	case ALLGATHER: {
		const bool gets = c->verb == ALLGATHER || root;
		const bool there = c->in_place && gets;

		p->out = gets ? memory(n, p, members * len) : NULL;
		p->in = memory(n, p, len);
		want(p, gets ? members * len : 0);
		for (uint64_t i = 0; i < len; i++) {
			(there ? p->out + n * len : p->in)[i] = brought(c->number, n, i);
			for (unsigned r = 0; gets && r < members; r++)
				p->want[r * len + i] = brought(c->number, r, i);
		}
		e = c->verb == GATHER
			? pmx_gather(g, c->root, there ? PMX_IN_PLACE : p->in, p->out, len,
				  &p->request)
			: pmx_allgather(g, there ? PMX_IN_PLACE : p->in, p->out, len, &p->request);
		break;
	}
	case SCATTER:
		p->in = memory(n, p, members * len);
		p->out = memory(n, p, len);
		want(p, c->in_place && root ? 0 : len);
		for (uint64_t i = 0; i < members * len; i++)
			p->in[i] = brought(c->number, c->root, i);
		for (uint64_t i = 0; i < p->want_bytes; i++)
			p->want[i] = brought(c->number, c->root, n * len + i);
		e = pmx_scatter(g, c->root, p->in, c->in_place && root ? NULL : p->out, len,
			&p->request);
		break;
	case ALLTOALL:
		p->in = memory(n, p, members * len);
		p->out = memory(n, p, members * len);
		want(p, members * len);
		for (uint64_t i = 0; i < members * len; i++)
			(c->in_place ? p->out : p->in)[i] = brought(c->number, n, i);
		for (unsigned r = 0; r < members; r++) {
			for (uint64_t i = 0; i < len; i++)
				p->want[r * len + i] = brought(c->number, r, n * len + i);
		}
		e = pmx_alltoall(g, c->in_place ? PMX_IN_PLACE : p->in, p->out, len, &p->request);
		break;
	case GATHERV:
	case ALLGATHERV: {
		const bool gets = c->verb == ALLGATHERV || root;
		const bool there = c->in_place && gets;

		all = spread(lens, begins);
		p->out = gets ? memory(n, p, all) : NULL;
		p->in = memory(n, p, lens[n]);
		want(p, gets ? all : 0);
		for (uint64_t i = 0; i < lens[n]; i++)
			(there ? p->out + begins[n] : p->in)[i] = brought(c->number, n, i);
		for (unsigned r = 0; gets && r < members; r++) {
			for (uint64_t i = 0; i < lens[r]; i++)
				p->want[begins[r] + i] = brought(c->number, r, i);
		}
		e = c->verb == GATHERV ? pmx_gatherv(g, c->root, there ? PMX_IN_PLACE : p->in,
						 lens[n], p->out, &v, &p->request)
				       : pmx_allgatherv(g, there ? PMX_IN_PLACE : p->in, lens[n],
						 p->out, &v, &p->request);
		break;
	}
	case SCATTERV:
		all = spread(lens, begins);
		p->in = memory(n, p, all);
		p->out = memory(n, p, lens[n]);
		want(p, lens[n]);
		for (uint64_t i = 0; i < all; i++)
			p->in[i] = brought(c->number, c->root, i);
		for (uint64_t i = 0; i < lens[n]; i++)
			p->want[i] = brought(c->number, c->root, begins[n] + i);
		e = pmx_scatterv(g, c->root, p->in, &v, p->out, lens[n], &p->request);
		break;
	case ALLTOALLV:
		for (unsigned r = 0; r < members; r++) {
			lens[r] = c->lens[n][r];
			other_lens[r] = c->lens[r][n];
		}
		all = spread(lens, begins);
		p->in = memory(n, p, all);
		for (unsigned r = 0; r < members; r++) {
			for (uint64_t i = 0; i < lens[r]; i++)
				p->in[begins[r] + i] = brought(c->number, n * ALL + r, i);
		}
		all = spread(other_lens, other);
		p->out = memory(n, p, all);
		want(p, all);
		for (unsigned r = 0; r < members; r++) {
			for (uint64_t i = 0; i < other_lens[r]; i++)
				p->want[other[r] + i] = brought(c->number, r * ALL + n, i);
		}
		e = pmx_alltoallv(g, p->in, &v, p->out, &w, &p->request);
		break;
	case REDUCE:
	case ALLREDUCE: {
		const bool gets = c->verb == ALLREDUCE || root;
		const bool there = c->in_place && gets;
		const uint64_t count = len / 4;

		p->in = memory(n, p, len);
		p->out = gets ? memory(n, p, len) : NULL;
		want(p, gets ? count * 4 : 0);
		for (uint64_t i = 0; i < count; i++) {
			uint32_t sum = 0, own = brought(c->number, n, i) * 0x01010101u;

			for (unsigned r = 0; r < members; r++)
				sum += brought(c->number, r, i) * 0x01010101u;
			memcpy((there ? p->out : p->in) + 4 * i, &own, 4);
			if (gets)
				memcpy(p->want + 4 * i, &sum, 4);
		}
		e = c->verb == REDUCE ? pmx_reduce(g, c->root, there ? PMX_IN_PLACE : p->in, p->out,
						count, PMX_UINT32, PMX_ATOMIC_SUM, &p->request)
				      : pmx_allreduce(g, there ? PMX_IN_PLACE : p->in, p->out,
						count, PMX_UINT32, PMX_ATOMIC_SUM, &p->request);
		break;
	}
	case REDUCE_SCATTER: {
		const uint64_t count = len;

		p->in = memory(n, p, members * count);
		p->out = memory(n, p, count);
		want(p, count);
		for (uint64_t i = 0; i < members * count; i++)
			p->in[i] = brought(c->number, n, i);
		for (uint64_t i = 0; i < count; i++) {
			p->want[i] = 0;
			for (unsigned r = 0; r < members; r++) {
				const uint8_t x = brought(c->number, r, n * count + i);

				p->want[i] = x > p->want[i] ? x : p->want[i];
			}
		}
		e = pmx_reduce_scatter(g, p->in, p->out, count, PMX_UINT8, PMX_ATOMIC_MAX,
			&p->request);
		break;
	}
	case VERBS:
		break;
	}
	assert_int_equal(e, 0);
}

static void
check(const struct call *c, unsigned n, struct share *p)
{
	if (p->ended != 0)
		fail_msg("call %u, verb %u of %lu bytes, root %u%s, rank %u: error %d of rank %u",
			c->number, c->verb, c->bytes, c->root, c->in_place ? " in place" : "", n,
			p->ended, p->said.label);
	assert_int_equal(p->said.tag, c->number);
	for (uint64_t i = 0; i < p->want_bytes; i++) {
		if (p->out[i] != p->want[i])
			fail_msg("call %u, verb %u, %lu bytes, root %u, rank %u: byte %lu is %02x, "
				 "not %02x",
				c->number, c->verb, c->bytes, c->root, n, i, p->out[i], p->want[i]);
	}
	if (p->out != NULL && c->verb != SCATTER)
		assert_int_equal(p->out[p->want_bytes], 0xEE);
	if (p->in != NULL)
		give(n, p, p->in);
	if (p->out != NULL)
		give(n, p, p->out);
	free(p->want);
	p->request = 0;
}

/* Several collectives at once, which each member begins in the order of their numbers, but at any
 * time. */
static void
random_calls(unsigned calls)
{
	struct call running[RUNNING];
	unsigned begun[ALL] = {0}, first = 0, last = 0;

	while (first < calls) {
		while (last < calls && last < first + RUNNING) {
			make_call(&running[last % RUNNING], last);
			last++;
		}
		for (unsigned n = 0; n < members; n++) {
			if (begun[n] < last && below(20) == 0) {
				const unsigned k = begun[n]++ % RUNNING;

				begin(&running[k], n, &parts[k][n]);
			}
		}
		poll_all();
		bool all = true;

		for (unsigned n = 0; n < members; n++)
			all = all && begun[n] > first && parts[first % RUNNING][n].ended != 1;
		if (!all)
			continue;
		for (unsigned n = 0; n < members; n++)
			check(&running[first % RUNNING], n, &parts[first % RUNNING][n]);
		first++;
	}
}

static void
coll__random_calls(void **state)
{
	const char *calls = getenv("COLL_CALLS");

	(void)state;
	open_group(ALL);
	random_calls(calls != NULL ? (unsigned)atoi(calls) : 300);
}

/* All begin a barrier; a member whose request has ended is looked at. */
static void
barriers(unsigned from)
{
	for (unsigned n = from; n < members; n++) {
		memset(&parts[0][n], 0, sizeof(parts[0][n]));
		parts[0][n].ended = 1;
		assert_int_equal(pmx_coll_barrier(group[n], &parts[0][n].request), 0);
	}
}

static bool
all_ended(unsigned from)
{
	for (unsigned n = from; n < members; n++) {
		if (parts[0][n].ended == 1)
			return false;
	}
	return true;
}

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
		assert_int_equal(p->said.source.context, member(4).context);
	}
}

/* One member gathers other lengths than the others: all name it, and there is no further one. */
static void
coll__plans_that_differ(void **state)
{
	uint8_t in[ALL][5000], out[ALL * 5000];

	(void)state;
	open_group(ALL);
	random_calls(5);
	for (unsigned n = 0; n < members; n++) {
		parts[0][n].ended = 1;
		assert_int_equal(pmx_gather(group[n], 1, in[n], out, n == 4 ? 4999 : 5000,
					 &parts[0][n].request),
			0);
	}
	UNTIL(all_ended(0));
	names_the_odd_one(true);
	assert_int_equal(parts[0][1].ended, -EPROTO);
	assert_int_equal(parts[0][4].ended, -EPROTO);
	barriers(0);
	UNTIL(all_ended(0));
	names_the_odd_one(false);
}

/* Plans that wait for each other without a message: who is odd is found nevertheless. */
static void
coll__plans_that_say_nothing(void **state)
{
	static uint8_t in[ALL][64], out[ALL][64], long_in[ALL * 5000], long_out[ALL][5000];

	(void)state;
	for (unsigned which = 0; which < 3; which++) {
		open_group(ALL);
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
		UNTIL(all_ended(0));
		names_the_odd_one(true);
		assert_int_equal(parts[0][4].ended, -EPROTO);
		for (unsigned n = 0; n < members; n++) {
			pmx_group_close(group[n]);
			group[n] = NULL;
		}
		for (unsigned i = 0; i < 20000; i++)
			poll_all();
	}
}

/* Rank 0, which has the last word, begins when all others have complained. */
static void
coll__rank_0_begins_last(void **state)
{
	static uint8_t in[ALL][5000], out[ALL * 5000];

	(void)state;
	open_group(ALL);
	for (unsigned n = ALL; n-- > 0;) {
		struct share *p = &parts[0][n];

		memset(p, 0, sizeof(*p));
		p->ended = 1;
		assert_int_equal(
			pmx_gather(group[n], 1, in[n], out, n == 4 ? 4999 : 5000, &p->request), 0);
		for (unsigned i = 0; i < 20000; i++)
			poll_all();
	}
	UNTIL(all_ended(0));
	assert_int_equal(parts[0][1].ended, -EPROTO);
	assert_int_equal(parts[0][1].said.label, 4);
	barriers(0);
	UNTIL(all_ended(0));
	names_the_odd_one(false);
}

/* A member leaves when its own part has ended: the others finish theirs. What it has not taken part
 * in ends at all with its name. */
static void
coll__a_member_leaves(void **state)
{
	static uint8_t in[ALL][60000], out[ALL * 60000];

	(void)state;
	open_group(ALL);
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
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < members; n++)
		assert_int_equal(parts[0][n].ended, 0);
	for (unsigned i = 0; i < sizeof(out); i++)
		assert_int_equal(out[i], i / 60000 + 1);
	members--;
	barriers(0);
	UNTIL(all_ended(0));
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
	open_group(ALL);
	random_calls(3);
	barriers(0);
	UNTIL(all_ended(0));
	barriers(0);
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
	barriers(0);
	UNTIL(parts[0][0].ended != 1 && parts[0][1].ended != 1 && parts[0][2].ended != 1);
	for (unsigned n = 0; n < CTXS; n++)
		assert_int_equal(parts[0][n].ended, -ECONNRESET);
	nodes[1] = dead;
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
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = NUMBER,
		.count = LONELY,
		.members = list,
	};

	(void)state;
	for (unsigned n = 0; n < LONELY; n++) {
		char text[600], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		/* where nobody listens, for nodes 1 and 2 of each other */
		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = apart%u\n[link 0]\ndriver = udp\n"
			"listen = 127.0.0.1:%u\n[proto]\nretries = 3\nrto_max_us = 8000\n"
			"[limits]\ncontexts = 1\nmbufs = 4096\n[nodes]\n"
			"0 = 127.0.0.1:%u\n1 = 127.0.0.1:%u\n2 = 127.0.0.1:%u\n",
			n, n, port + n, port, port + (n == 2 ? 9 : 1), port + (n == 1 ? 9 : 2));
		if (pmx_node_start(&apart[n], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
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
	/* rank 0 has had all that it was to get, and expels one of the two, whom the others hear
	 * of */
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

static void
coll__refuses_what_is_wrong(void **state)
{
	uint8_t bytes[64];
	pmx_request r[COLLS_OF_CONTEXT];
	char error[200] = "";
	unsigned begun = 0;

	(void)state;
	open_group(2);
	assert_int_equal(pmx_bcast(group[0], 2, bytes, 8, &r[0]), -EINVAL);
	assert_int_equal(pmx_bcast(group[0], 0, bytes, 8, NULL), -EINVAL);
	assert_int_equal(pmx_bcast(group[0], 0, bytes, 1ull << 50, &r[0]), -EMSGSIZE);
	assert_int_equal(
		pmx_allreduce(group[0], bytes, bytes, 2, PMX_FLOAT, PMX_ATOMIC_BXOR, &r[0]),
		-EINVAL);
	assert_int_equal(
		pmx_allreduce(group[0], bytes, bytes, 2, PMX_INT8, PMX_ATOMIC_CSWAP, &r[0]),
		-EINVAL);
	assert_int_equal(pmx_coll_topology(group[1],
				 "switch s\nhost a\nlink a s bandwidth=1G "
				 "latency=1us\nlink a b bandwidth=1G\n",
				 error, sizeof(error)),
		-EINVAL);
	assert_non_null(strstr(error, "line 4"));
	/* a topology without the other member's node */
	assert_int_equal(pmx_coll_topology(group[1],
				 "switch s\nhost a\nlink a s bandwidth=1G "
				 "latency=1us\n",
				 error, sizeof(error)),
		0); /* both are at node 0 */
	assert_int_equal(pmx_coll_topology(group[0],
				 "switch s\nhost a\nlink a s bandwidth=1G "
				 "latency=1us\n",
				 error, sizeof(error)),
		0);
	assert_int_equal(pmx_coll_topology(group[0], NULL, NULL, 0), -EBUSY);
	/* more at once than limits.collectives */
	while (begun < COLLS_OF_CONTEXT && pmx_coll_barrier(group[0], &r[begun]) == 0)
		begun++;
	assert_int_equal(begun, 4);
	assert_int_equal(pmx_coll_barrier(group[0], &r[begun]), -EAGAIN);
	for (unsigned i = 0; i < begun; i++) {
		barriers(1);
		UNTIL(all_ended(1));
		assert_int_equal(parts[0][1].ended, 0);
		assert_int_equal(parts[0][1].said.tag, i);
	}
	for (unsigned i = 0; i < begun; i++) {
		int e;

		UNTIL((e = pmx_test(ctx[0], &r[i], NULL)) != 0);
		assert_int_equal(e, 1);
	}
}

/* All members find out the same about their network, and plan by it; meanwhile nobody begins
 * anything else. */
static void
coll__survey(void **state)
{
	struct pmx_survey *survey[ALL], *another;
	int results[ALL] = {0};
	char *texts[ALL] = {NULL}, error[200];
	pmx_request r;
	unsigned left = ALL;

	(void)state;
	open_group(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_coll_survey(group[n], &survey[n]), 0);
	assert_int_equal(pmx_coll_survey(group[0], &another), -EBUSY);
	assert_int_equal(pmx_coll_barrier(group[0], &r), -EBUSY);
	for (const time_t end = time(NULL) + PATIENCE_S; left > 0;) {
		assert_true(time(NULL) < end);
		poll_all();
		for (unsigned n = 0; n < ALL; n++) {
			if (results[n] != 0)
				continue;
			results[n] = pmx_coll_survey_test(survey[n], &texts[n]);
			left -= results[n] != 0;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(results[n], 1);
		assert_string_equal(texts[n], texts[0]);
		assert_int_equal(pmx_coll_topology(group[n], texts[n], error, sizeof(error)), 0);
	}
	assert_non_null(strstr(texts[0], "host n[0-1]"));
	for (unsigned n = 0; n < ALL; n++)
		free(texts[n]);
	barriers(0);
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(parts[0][n].ended, 0);
}

/* A group that is closed, or of which a member's node goes, ends a survey. */
static void
coll__survey_ends_with_its_group(void **state)
{
	struct pmx_survey *survey[ALL];
	char *text;
	int e;

	(void)state;
	open_group(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_coll_survey(group[n], &survey[n]), 0);
	for (unsigned i = 0; i < 50; i++) {
		poll_all();
		for (unsigned n = 0; n < ALL; n++)
			assert_int_equal(pmx_coll_survey_test(survey[n], &text), 0);
	}
	pmx_group_close(group[1]);
	group[1] = NULL;
	assert_int_equal(pmx_coll_survey_test(survey[1], &text), -ECANCELED);
	UNTIL((e = pmx_coll_survey_test(survey[2], &text)) != 0);
	assert_int_equal(e, -ENOTCONN);
	for (unsigned n = 0; n < ALL; n++) {
		if (n == 1 || n == 2)
			continue;
		UNTIL((e = pmx_coll_survey_test(survey[n], &text)) != 0);
		assert_int_equal(e, -ENOTCONN);
	}
}

/* Begins an allreduce at all members, as soon as each one's adaptation lets it. */
static void
allreduces(uint64_t *in, uint64_t *out, uint64_t count)
{
	bool begun[ALL] = {false};

	for (unsigned left = members; left > 0; poll_all()) {
		for (unsigned n = 0; n < members; n++) {
			struct share *p = &parts[0][n];

			if (begun[n])
				continue;
			*p = (struct share){.ended = 1};
			const int e = pmx_allreduce(group[n], in, &out[n * count], count,
				PMX_UINT64, PMX_ATOMIC_SUM, &p->request);

			assert_true(e == 0 || e == -EAGAIN);
			begun[n] = e == 0;
			left -= begun[n];
		}
	}
}

/* A network that is slower than it is said to be: all members measure it, and plan anew. */
static void
coll__adapts(void **state)
{
	static uint64_t in[200000], out[ALL * 200000];
	const uint64_t count = sizeof(in) / sizeof(*in);
	unsigned rounds = 0;

	(void)state;
	open_group(ALL);
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(pmx_coll_topology(group[n],
					 "switch s\nhost h[0-1]\n"
					 "link h[0-1] s bandwidth=20G latency=1us\n",
					 NULL, 0),
			0);
		assert_int_equal(pmx_coll_adapted(group[n]), 0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
	}
	for (uint64_t i = 0; i < count; i++)
		in[i] = i;
	while (pmx_coll_adapted(group[0]) == 0) {
		assert_true(rounds++ < 200);
		allreduces(in, out, count);
		UNTIL(all_ended(0));
		for (uint64_t i = 0; i < count; i++) {
			assert_int_equal(out[i], ALL * i);
			assert_int_equal(out[(ALL - 1) * count + i], ALL * i);
		}
	}
	for (unsigned n = 1; n < ALL; n++)
		assert_int_equal(pmx_coll_adapted(group[n]), 1);
	allreduces(in, out, count);
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(parts[0][n].ended, 0);
}

/* Begins the next one at a member that waits for none, if it may. Returns whether it may not
 * yet. */
static bool
goes_on(unsigned n, const uint64_t *in, uint64_t *out, uint64_t count)
{
	struct share *p = &parts[0][n];

	if (p->ended == 1 && p->request != 0)
		return false;
	*p = (struct share){.ended = 1};
	const int e = pmx_allreduce(group[n], in, &out[n * count], count, PMX_UINT64,
		PMX_ATOMIC_SUM, &p->request);

	assert_true(e == 0 || e == -EAGAIN);
	return e == -EAGAIN;
}

/* A member goes when the others have tried so often to begin one, while they tell each other, or
 * measure: what they begin then ends with the error that tells so. */
static void
adapts_until(unsigned most)
{
	static uint64_t in[100000], out[ALL * 100000];
	const uint64_t count = sizeof(in) / sizeof(*in);
	unsigned agains = 0, left = ALL - 1;

	open_group(ALL);
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(pmx_coll_topology(group[n],
					 "switch s\nhost h[0-1]\n"
					 "link h[0-1] s bandwidth=5G latency=1us\n",
					 NULL, 0),
			0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
	}
	for (const time_t end = time(NULL) + PATIENCE_S; agains < most; poll_all()) {
		assert_true(time(NULL) < end);
		for (unsigned n = 0; n < ALL; n++)
			agains += goes_on(n, in, out, count);
	}
	pmx_group_close(group[ALL - 1]);
	group[ALL - 1] = NULL;
	for (const time_t end = time(NULL) + PATIENCE_S; left > 0; poll_all()) {
		assert_true(time(NULL) < end);
		left = ALL - 1;
		for (unsigned n = 0; n < ALL - 1; n++) {
			const bool is_over = parts[0][n].ended < 0;

			left -= is_over;
			if (!is_over)
				goes_on(n, in, out, count);
		}
	}
	for (unsigned n = 0; n < ALL - 1; n++)
		assert_int_equal(parts[0][n].ended, -ENOTCONN);
}

static void
coll__adapts_until_a_member_leaves_at_once(void **state)
{
	(void)state;
	adapts_until(1);
}

static void
coll__adapts_until_a_member_leaves_soon(void **state)
{
	(void)state;
	adapts_until(300);
}

static void
coll__adapts_until_a_member_leaves_late(void **state)
{
	(void)state;
	adapts_until(3000);
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
	open_group(5);
	assert_int_equal(pmx_reduce_by(group[0], 0, bytes, bytes, 8, NULL, NULL, &r), -EINVAL);
	assert_int_equal(pmx_allreduce_by(group[0], bytes, bytes, 8, NULL, NULL, &r), -EINVAL);
	for (unsigned i = 0; i < 24; i++) {
		const uint64_t len = lens[i % 6];
		const uint32_t root = i % 4 == 0 ? ALL : i % 5;
		unsigned calls = 0;

		begin_by_function(root, len, i >= 12, &calls);
		UNTIL(all_ended(0));
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

/* Check what the environment says of plans: what is wrong is refused, and then may be mended. */
static void
coll__environment(void **state)
{
	static const char *const wrong[] = {"barrier", "barrier=", "barrier=chain", "gather=trees",
		"all=ring", "gather=chain,bcast"};
	char error[200] = "";
	pmx_request r;

	(void)state;
	open_group(2);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		setenv("PMX_COLL_GENERATORS", wrong[i], 1);
		assert_int_equal(pmx_coll_topology(group[0], NULL, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, "PMX_COLL_GENERATORS"));
		assert_int_equal(pmx_coll_barrier(group[0], &r), -EINVAL);
	}
	setenv("PMX_COLL_GENERATORS", "gather=chain,barrier=bruck", 1);
	setenv("PMX_TOPOLOGY", "/nowhere/at/all", 1);
	assert_int_equal(pmx_coll_barrier(group[0], &r), -EINVAL);
	unsetenv("PMX_TOPOLOGY");
	barriers(0);
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < members; n++)
		assert_int_equal(parts[0][n].ended, 0);
	unsetenv("PMX_COLL_GENERATORS");
}

/* A file with that text, by which plans are made at a member, or not. */
static int
with_plan(unsigned n, const char *text, char *error, uint32_t error_len)
{
	char path[] = "/tmp/pmx_plan_XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("PMX_COLL_PLANS", path, 1);
	const int e = pmx_coll_topology(group[n], NULL, error, error_len);

	unlink(path);
	return e;
}

/* Plans from files: what is there is done, and what cannot be here is said. */
static void
coll__plans_from_files(void **state)
{
	static const char head[] = "plan bcast chain ranks=3 root=0 bytes=1100 blocks=1\n"
				   "order 0 1 2\n";
	static const char *const wrong[][2] = {
		{"plan bcast chain ranks=2 root=0 bytes=1100 blocks=1\norder 0 1\n"
		 "rank 0 piece=1100\nrank 1 piece=1100\n",
			"a plan of 2 ranks, but the group has 3"},
		{"rank 0 piece=100000\nrank 1 piece=100000\nrank 2 piece=100000\n",
			"pieces of 100000 bytes, but frames take"},
		{"rank 0 piece=1100\nsend peer=1 from=in eager\nrank 1 piece=1100\n"
		 "receive peer=0 to=out eager\nrank 2 piece=1100\n",
			"step 0 sends more than 1024 bytes unasked"},
		{"rank 0\n", "rank 0: its numbers cannot be"},
	};
	/* what no generator makes: rank 2 is forgotten */
	static const char odd[] = "rank 0 piece=1100\ncopy from=in to=out\nsend peer=1 from=in\n"
				  "rank 1 piece=1100\nreceive peer=0 to=out\nrank 2 piece=1100\n";
	uint8_t bytes[3][1100];
	char text[600], error[300] = "";

	(void)state;
	open_group(3);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(text, sizeof(text), "%s%s", i > 0 ? head : "", wrong[i][0]);
		if (i == 3)
			strcat(text, "rank 1\nrank 2\n");
		assert_int_equal(with_plan(0, text, error, sizeof(error)), -EINVAL);
		if (strstr(error, wrong[i][1]) == NULL)
			fail_msg("'%s', not '%s'", error, wrong[i][1]);
	}
	setenv("PMX_COLL_PLANS", "/nowhere/at/all", 1);
	assert_int_equal(pmx_coll_topology(group[0], NULL, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "/nowhere/at/all: No such file"));
	snprintf(text, sizeof(text), "%s%s", head, odd);
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(with_plan(n, text, error, sizeof(error)), 0);
		memset(bytes[n], (int)(n + 1), sizeof(bytes[n]));
		parts[0][n] = (struct share){.ended = 1};
		assert_int_equal(pmx_bcast(group[n], 0, bytes[n], 1100, &parts[0][n].request), 0);
	}
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(parts[0][n].ended, 0);
		assert_int_equal(bytes[n][1099] == 1, n < 2);
	}
	/* other lengths are planned as ever */
	for (unsigned n = 0; n < 3; n++) {
		parts[0][n] = (struct share){.ended = 1};
		assert_int_equal(pmx_bcast(group[n], 0, bytes[n], 1099, &parts[0][n].request), 0);
	}
	UNTIL(all_ended(0));
	for (unsigned n = 0; n < 3; n++)
		assert_int_equal(bytes[n][1098], 1);
	unsetenv("PMX_COLL_PLANS");
}

/* Return how many submissions the engine of a node counted as bad. What it did not count as bad, it
 * did. */
static uint64_t
bad_submissions(unsigned n)
{
	return nodes[n]->embedded->engines[0].counters[ENGINE_bad_submissions];
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
			for (unsigned n = 0; n < ALL; n++) {
				pmx_group_close(group[n]);
				group[n] = NULL;
			}
			for (unsigned i = 0; i < 3000; i++)
				poll_all();
			open_group(3);
		}
		struct coll_desc d = {
			.hash = 1,
			.steps = below(4) == 0 ? below(100000) : below(6),
			.blocks = below(4) == 0 ? below(100000) : below(4),
			.ends = below(9),
			.piece = below(3000),
			.areas = below(80),
			.operation = below(70000),
			.area_bytes = below(2) ? below(100000) : UINT64_MAX - below(1000),
			.window = below(100000),
			.each = below(2) ? below(3000) : UINT64_MAX - below(1000),
		};
		struct coll_step *steps = (struct coll_step *)(memory + sizeof(d));

		for (unsigned b = 0; b < 3; b++) {
			d.buffer[b].at = below(2) ? (uintptr_t)memory + below(70000)
						  : UINT64_MAX - below(100000);
			d.buffer[b].len = below(2) ? below(100000) : UINT64_MAX;
			d.buffer[b].memory = below(3);
		}
		memcpy(memory, &d, sizeof(d));
		for (unsigned i = 0; i < 10; i++)
			steps[i] = (struct coll_step){
				.op = (uint8_t)below(5),
				.flags = (uint8_t)below(16),
				.from = (uint8_t)below(4),
				.to = (uint8_t)below(4),
				.peer = (uint16_t)below(4),
				.after = {below(2) ? COLL_NONE : (uint16_t)below(10), COLL_NONE},
				.block = (uint16_t)below(4),
				.blocks = (uint16_t)below(4),
				.source = (uint16_t)below(10),
				.area = (uint8_t)below(3),
			};
		for (uint8_t *at = (uint8_t *)(steps + 10); at < memory + 65536; at++)
			*at = (uint8_t)below(256);
		if (slot_room(sub, 1)) {
			struct submission *s = (struct submission *)slot_at(sub, sub->pos)->body;

			memset(s, 0, sizeof(*s));
			s->op = SUBMIT_COLL;
			s->coll.handle = good_group ? group[1]->handle : (uint16_t)below(65536);
			s->coll.ticket = below(1000);
			s->coll.memory = below(8) == 0 ? below(100)
						       : (uint32_t)piece_of(ctx[1], memory, 1);
			s->coll.len = below(4) == 0 ? below(1000000) : 65536;
			s->coll.at = (uintptr_t)memory + (below(8) == 0 ? below(100000) : 0);
			slot_publish(sub, sub->pos++);
		}
		for (unsigned i = 0; i < 200; i++)
			poll_all();
	}
	assert_true(bad_submissions(0) > before);
	/* the node goes on */
	for (unsigned n = 0; n < ALL; n++) {
		pmx_group_close(group[n]);
		group[n] = NULL;
	}
	for (unsigned i = 0; i < 3000; i++)
		poll_all();
	open_group(ALL);
	random_calls(20);
}

/* Check that the same sums have the same bits at all members and in every run, on a link that loses
 * and reorders. */
static void
floats_have_the_same_bits(uint64_t count_max)
{
	enum { COUNT = 5000 };
	static float in[ALL][COUNT], out[ALL][COUNT], first[COUNT];

	open_group(ALL);
	for (unsigned n = 0; n < members; n++) {
		for (unsigned i = 0; i < COUNT; i++)
			in[n][i] = (float)(below(1000000) + 1) / (float)(below(1000) + 1) *
				(below(2) ? 1.0f : -1.0f);
	}
	for (unsigned run = 0; run < 100; run++) {
		const uint64_t count = run % 2 ? count_max : 9;

		for (unsigned n = 0; n < members; n++) {
			parts[0][n].ended = 1;
			assert_int_equal(pmx_allreduce(group[n], in[n], out[n], count, PMX_FLOAT,
						 PMX_ATOMIC_SUM, &parts[0][n].request),
				0);
		}
		UNTIL(all_ended(0));
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(coll__random_calls, start, stop),
		cmocka_unit_test_setup_teardown(coll__plans_that_differ, start, stop),
		cmocka_unit_test_setup_teardown(coll__plans_that_say_nothing, start, stop),
		cmocka_unit_test_setup_teardown(coll__rank_0_begins_last, start, stop),
		cmocka_unit_test_setup_teardown(coll__a_member_leaves, start, stop),
		cmocka_unit_test_setup_teardown(coll__refuses_what_is_wrong, start, stop),
		cmocka_unit_test_setup_teardown(coll__survey, start, stop),
		cmocka_unit_test_setup_teardown(coll__survey_ends_with_its_group, start, stop),
		cmocka_unit_test_setup_teardown(coll__adapts, start, stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_at_once, start,
			stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_soon, start,
			stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_late, start,
			stop),
		cmocka_unit_test_setup_teardown(coll__by_a_function, start, stop),
		cmocka_unit_test_setup_teardown(coll__environment, start, stop),
		cmocka_unit_test_setup_teardown(coll__plans_from_files, start, stop),
		cmocka_unit_test_setup_teardown(coll__the_engine_refuses, start, stop),
		cmocka_unit_test_setup_teardown(coll__floats_have_the_same_bits, start, stop),
		cmocka_unit_test_setup_teardown(coll__floats_have_the_same_bits_at_once, start,
			stop),
		cmocka_unit_test_setup_teardown(coll__a_node_dies, start, stop),
		cmocka_unit_test(coll__two_nodes_that_do_not_reach_each_other),
	};

	char *eal[] = {"embedded_coll", "--no-huge", "-m", "512", "--no-shconf", "--no-pci",
		"--no-telemetry", "--log-level=*:error"};

	if (rte_eal_init(8, eal) < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_coll", tests, NULL, NULL);
}
