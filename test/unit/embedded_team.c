/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See embedded_team.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>

#include "embedded_team.h"

struct pmx_node *nodes[NODES];
struct pmx_context *ctx[ALL];
struct pmx_group *group[ALL];
uint32_t members; /* of the group */
struct share parts[AT_ONCE][ALL];
static pmx_request opening[ALL];

int
team_eal(const char *program)
{
	char *eal[] = {(char *)(uintptr_t)program, "--no-huge", "-m", "512", "--no-shconf",
		"--no-pci", "--no-telemetry", "--log-level=*:error", NULL};

	return rte_eal_init(8, eal);
}

void
team_poll(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_poll(nodes[n]);
	}
	for (unsigned n = 0; n < ALL; n++) {
		for (unsigned k = 0; ctx[n] != NULL && k < AT_ONCE; k++) {
			struct share *p = &parts[k][n];

			if (p->request == 0 || p->ended != 1)
				continue;
			const int e = pmx_test(ctx[n], &p->request, &p->said);

			p->ended = e == 0 ? 1 : e == 1 ? 0 : e;
		}
	}
}

struct pmx_addr
team_addr(unsigned n)
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

void
team_open(uint32_t count)
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
		list[n] = team_addr(n);
	for (unsigned n = 0; n < count; n++)
		assert_int_equal(pmx_group_open(ctx[n], &p, 30000000, &group[n], &opening[n]), 0);
	/* all of them ask: who has just left a group of that number joins the next one by its
	 * calls */
	UNTIL(all_opened(results, count));
	for (unsigned n = 0; n < count; n++)
		assert_int_equal(results[n], 1);
}

int
team_start(void **state)
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

int
team_stop(void **state)
{
	(void)state;
	for (unsigned n = 0; n < ALL; n++) {
		pmx_group_close(group[n]);
		group[n] = NULL;
	}
	for (unsigned i = 0; i < 100000; i++)
		team_poll();
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

static uint64_t
some_bytes(void)
{
	switch (random_below(5)) {
	case 0:
		return random_below(9);
	case 1:
		return random_below(300);
	case 2:
		return random_below(6000);
	case 3:
		return random_below(100000);
	}
	return 8 * random_below(200);
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
	c->verb = (enum verb)random_below(VERBS);
	c->number = number;
	c->root = random_below(members);
	c->bytes = some_bytes();
	if (c->verb == ALLTOALL || c->verb == ALLTOALLV)
		c->bytes = c->bytes > 20000 ? 20000 : c->bytes;
	c->in_place = random_below(4) == 0;
	for (unsigned r = 0; r < members; r++) {
		for (unsigned q = 0; q < members; q++)
			c->lens[r][q] = random_below(3) == 0 ? 0
							     : random_below((uint32_t)c->bytes + 1);
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

static int
begin_barrier(const struct call *c, unsigned n, struct share *p)
{
	(void)c;
	want(p, 0);
	return pmx_coll_barrier(group[n], &p->request);
}

static int
begin_bcast(const struct call *c, unsigned n, struct share *p)
{
	const uint64_t len = c->bytes;

	p->out = memory(n, p, len);
	want(p, len);
	for (uint64_t i = 0; i < len; i++) {
		p->want[i] = brought(c->number, c->root, i);
		if (n == c->root)
			p->out[i] = p->want[i];
	}
	return pmx_bcast(group[n], c->root, p->out, len, &p->request);
}

/* Begin GATHER or ALLGATHER. */
static int
begin_gather(const struct call *c, unsigned n, struct share *p)
{
	const uint64_t len = c->bytes;
	const bool gets = c->verb == ALLGATHER || n == c->root;
	const bool there = c->in_place && gets;

	p->out = gets ? memory(n, p, members * len) : NULL;
	p->in = memory(n, p, len);
	want(p, gets ? members * len : 0);
	for (uint64_t i = 0; i < len; i++) {
		(there ? p->out + n * len : p->in)[i] = brought(c->number, n, i);
		for (unsigned r = 0; gets && r < members; r++)
			p->want[r * len + i] = brought(c->number, r, i);
	}
	return c->verb == GATHER
		? pmx_gather(group[n], c->root, there ? PMX_IN_PLACE : p->in, p->out, len,
			  &p->request)
		: pmx_allgather(group[n], there ? PMX_IN_PLACE : p->in, p->out, len, &p->request);
}

static int
begin_scatter(const struct call *c, unsigned n, struct share *p)
{
	const uint64_t len = c->bytes;
	const bool there = c->in_place && n == c->root;

	p->in = memory(n, p, members * len);
	p->out = memory(n, p, len);
	want(p, there ? 0 : len);
	for (uint64_t i = 0; i < members * len; i++)
		p->in[i] = brought(c->number, c->root, i);
	for (uint64_t i = 0; i < p->want_bytes; i++)
		p->want[i] = brought(c->number, c->root, n * len + i);
	return pmx_scatter(group[n], c->root, p->in, there ? NULL : p->out, len, &p->request);
}

static int
begin_alltoall(const struct call *c, unsigned n, struct share *p)
{
	const uint64_t len = c->bytes;

	p->in = memory(n, p, members * len);
	p->out = memory(n, p, members * len);
	want(p, members * len);
	for (uint64_t i = 0; i < members * len; i++)
		(c->in_place ? p->out : p->in)[i] = brought(c->number, n, i);
	for (unsigned r = 0; r < members; r++) {
		for (uint64_t i = 0; i < len; i++)
			p->want[r * len + i] = brought(c->number, r, n * len + i);
	}
	return pmx_alltoall(group[n], c->in_place ? PMX_IN_PLACE : p->in, p->out, len, &p->request);
}

/* Begin GATHERV or ALLGATHERV. */
static int
begin_gatherv(const struct call *c, unsigned n, struct share *p)
{
	const bool gets = c->verb == ALLGATHERV || n == c->root;
	const bool there = c->in_place && gets;
	uint64_t begins[ALL], lens[ALL], all;
	const struct pmx_blocks v = {lens, begins};

	for (unsigned r = 0; r < members; r++)
		lens[r] = c->lens[r][0];
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
	return c->verb == GATHERV ? pmx_gatherv(group[n], c->root, there ? PMX_IN_PLACE : p->in,
					    lens[n], p->out, &v, &p->request)
				  : pmx_allgatherv(group[n], there ? PMX_IN_PLACE : p->in, lens[n],
					    p->out, &v, &p->request);
}

static int
begin_scatterv(const struct call *c, unsigned n, struct share *p)
{
	uint64_t begins[ALL], lens[ALL], all;
	const struct pmx_blocks v = {lens, begins};

	for (unsigned r = 0; r < members; r++)
		lens[r] = c->lens[r][0];
	all = spread(lens, begins);
	p->in = memory(n, p, all);
	p->out = memory(n, p, lens[n]);
	want(p, lens[n]);
	for (uint64_t i = 0; i < all; i++)
		p->in[i] = brought(c->number, c->root, i);
	for (uint64_t i = 0; i < lens[n]; i++)
		p->want[i] = brought(c->number, c->root, begins[n] + i);
	return pmx_scatterv(group[n], c->root, p->in, &v, p->out, lens[n], &p->request);
}

static int
begin_alltoallv(const struct call *c, unsigned n, struct share *p)
{
	uint64_t in_begins[ALL], in_lens[ALL], out_begins[ALL], out_lens[ALL], all;
	const struct pmx_blocks in = {in_lens, in_begins}, out = {out_lens, out_begins};

	for (unsigned r = 0; r < members; r++) {
		in_lens[r] = c->lens[n][r];
		out_lens[r] = c->lens[r][n];
	}
	all = spread(in_lens, in_begins);
	p->in = memory(n, p, all);
	for (unsigned r = 0; r < members; r++) {
		for (uint64_t i = 0; i < in_lens[r]; i++)
			p->in[in_begins[r] + i] = brought(c->number, n * ALL + r, i);
	}
	all = spread(out_lens, out_begins);
	p->out = memory(n, p, all);
	want(p, all);
	for (unsigned r = 0; r < members; r++) {
		for (uint64_t i = 0; i < out_lens[r]; i++)
			p->want[out_begins[r] + i] = brought(c->number, r * ALL + n, i);
	}
	return pmx_alltoallv(group[n], p->in, &in, p->out, &out, &p->request);
}

/* Begin REDUCE or ALLREDUCE. */
static int
begin_reduce(const struct call *c, unsigned n, struct share *p)
{
	const bool gets = c->verb == ALLREDUCE || n == c->root;
	const bool there = c->in_place && gets;
	const uint64_t count = c->bytes / 4;

	p->in = memory(n, p, c->bytes);
	p->out = gets ? memory(n, p, c->bytes) : NULL;
	want(p, gets ? count * 4 : 0);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t sum = 0, own = brought(c->number, n, i) * 0x01010101u;

		for (unsigned r = 0; r < members; r++)
			sum += brought(c->number, r, i) * 0x01010101u;
		memcpy((there ? p->out : p->in) + 4 * i, &own, 4);
		if (gets)
			memcpy(p->want + 4 * i, &sum, 4);
	}
	return c->verb == REDUCE ? pmx_reduce(group[n], c->root, there ? PMX_IN_PLACE : p->in,
					   p->out, count, PMX_UINT32, PMX_ATOMIC_SUM, &p->request)
				 : pmx_allreduce(group[n], there ? PMX_IN_PLACE : p->in, p->out,
					   count, PMX_UINT32, PMX_ATOMIC_SUM, &p->request);
}

static int
begin_reduce_scatter(const struct call *c, unsigned n, struct share *p)
{
	const uint64_t count = c->bytes;

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
	return pmx_reduce_scatter(group[n], p->in, p->out, count, PMX_UINT8, PMX_ATOMIC_MAX,
		&p->request);
}

/* Begin a call at a member. */
static void
begin(const struct call *c, unsigned n, struct share *p)
{
	static int (*const verbs[VERBS])(const struct call *, unsigned, struct share *) = {
		[BARRIER] = begin_barrier,
		[BCAST] = begin_bcast,
		[GATHER] = begin_gather,
		[ALLGATHER] = begin_gather,
		[SCATTER] = begin_scatter,
		[ALLTOALL] = begin_alltoall,
		[GATHERV] = begin_gatherv,
		[ALLGATHERV] = begin_gatherv,
		[SCATTERV] = begin_scatterv,
		[ALLTOALLV] = begin_alltoallv,
		[REDUCE] = begin_reduce,
		[ALLREDUCE] = begin_reduce,
		[REDUCE_SCATTER] = begin_reduce_scatter,
	};

	memset(p, 0, sizeof(*p));
	p->ended = 1;
	p->shared = random_below(3) == 0;
	assert_int_equal(verbs[c->verb](c, n, p), 0);
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

void
team_random_calls(unsigned calls)
{
	struct call running[AT_ONCE];
	unsigned begun[ALL] = {0}, first = 0, last = 0;

	while (first < calls) {
		while (last < calls && last < first + AT_ONCE) {
			make_call(&running[last % AT_ONCE], last);
			last++;
		}
		for (unsigned n = 0; n < members; n++) {
			if (begun[n] < last && random_below(20) == 0) {
				const unsigned k = begun[n]++ % AT_ONCE;

				begin(&running[k], n, &parts[k][n]);
			}
		}
		team_poll();
		bool all = true;

		for (unsigned n = 0; n < members; n++)
			all = all && begun[n] > first && parts[first % AT_ONCE][n].ended != 1;
		if (!all)
			continue;
		for (unsigned n = 0; n < members; n++)
			check(&running[first % AT_ONCE], n, &parts[first % AT_ONCE][n]);
		first++;
	}
}

void
team_barriers(unsigned from)
{
	for (unsigned n = from; n < members; n++) {
		memset(&parts[0][n], 0, sizeof(parts[0][n]));
		parts[0][n].ended = 1;
		assert_int_equal(pmx_coll_barrier(group[n], &parts[0][n].request), 0);
	}
}

bool
team_all_ended(unsigned from)
{
	for (unsigned n = from; n < members; n++) {
		if (parts[0][n].ended == 1)
			return false;
	}
	return true;
}
