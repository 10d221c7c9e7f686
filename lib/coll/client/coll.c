/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives, on the application's side: the verbs. What is asked is checked here, planned
 * (plans.c), and described to the engine (submit.c). Runs in the context's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/client/submit.h"
#include "client/say.h"
#include "coll/combine.h"
#include "rma/atomic.h"

#define MEASURE "auto"

/* This stands for the operation of a reduction by a function, so that members that do something
 * else are found to differ. */
#define BY_FUNCTION UINT32_MAX

/* ------------------------------------------------------------------ plans */

/* topology: passes to the plans, also if they cannot be made; NULL: nobody has described it. */
static int
open_plans(struct pmx_group *g, struct topology *topology, char *error, uint32_t error_len)
{
	const char *generators = getenv("PMX_COLL_GENERATORS"), *files = getenv("PMX_COLL_PLANS");
	int e = collectives_plans(g, topology, &g->plans, error, error_len);

	if (e == 0 && generators != NULL)
		e = plans_ask_for(g->plans, generators, error, error_len);
	if (e == 0 && files != NULL)
		e = plans_load(g->plans, files, error, error_len);
	if (e != 0) {
		plans_free(g->plans);
		g->plans = NULL;
	}
	return e;
}

/* Measure the network together with all members, and wait for the end. Return 0 and *out, or an
 * error with a sentence in error. */
static int
measured(struct pmx_group *g, struct topology **out, char *error, uint32_t error_len)
{
	struct pmx_survey *s;
	char *text;
	int e = pmx_coll_survey(g, &s);

	if (e == 0)
		e = pmx_coll_survey_wait(s, &text);
	if (e != 1) {
		snprintf(error, error_len, "the network cannot be measured: %s", strerror(-e));
		return e;
	}
	e = topology_parse(text, out, error, error_len);
	free(text);
	return e;
}

int
pmx_coll_topology(struct pmx_group *g, const char *text, char *error, uint32_t error_len)
{
	struct topology *t = NULL;
	int e = 0;

	if (g->plans != NULL)
		return -EBUSY;
	if (error == NULL)
		error_len = 0;
	if (text != NULL)
		e = strcmp(text, MEASURE) == 0 ? measured(g, &t, error, error_len)
					       : topology_parse(text, &t, error, error_len);
	return e != 0 ? e : open_plans(g, t, error, error_len);
}

/* Open the plans by what the environment says. Write what is wrong with it to stderr, as a
 * collective's error is no place for a sentence. */
static int
plans_default(struct pmx_group *g)
{
	const char *path = getenv("PMX_TOPOLOGY"), *adapts = getenv("PMX_COLL_ADAPT");
	struct topology *t = NULL;
	char error[256] = "";
	int e = 0;

	if (path != NULL && strcmp(path, MEASURE) == 0)
		e = measured(g, &t, error, sizeof(error));
	else if (path != NULL)
		e = topology_read(path, &t, error, sizeof(error));
	if (e == 0)
		e = open_plans(g, t, error, sizeof(error));
	if (e == 0 && adapts != NULL && strcmp(adapts, "0") != 0)
		e = pmx_coll_adapt(g);
	if (error[0] != 0)
		client_say(PMX_LOG_WARNING, "%s%s", path != NULL ? "PMX_TOPOLOGY=" : "", error);
	return e == 0 || e == -ENOMEM ? e : -EINVAL;
}

static void
group_closes(struct pmx_group *g)
{
	collectives_abandon(g);
	client_survey_abandon(g);
}

static void
group_ends(struct pmx_group *g)
{
	collectives_end(g);
	pmx_coll_forget(g);
	adaptation_free(g);
	plans_free(g->plans);
	g->plans = NULL;
}

const struct client_service client_coll = {
	.name = "coll",
	.close = collectives_close,
	.completions = COMPLETION_COLL,
	.results = collectives_results,
	.group_closes = group_closes,
	.group_ends = group_ends,
	.leave = collectives_leave,
};

/* ------------------------------------------------------------------ beginning */

static int
coll_client_begin(struct pmx_group *g, struct coll_call *c, pmx_request *request)
{
	const struct coll_plan *p;
	int e = ctx_group_check_ask(g, request);

	if (e == 0 && c->root >= g->count)
		e = -EINVAL;
	if (e == 0 && c->bytes > COLL_BYTES_MAX)
		e = -EMSGSIZE;
	if (e == 0 && unlikely(g->adaptation != NULL))
		e = adaptation_due(g);
	if (e == 0 && unlikely(g->survey != NULL))
		e = -EBUSY;
	if (e == 0 && unlikely(g->plans == NULL))
		e = plans_default(g);
	if (e != 0)
		return e;
	e = c->any ? plans_get_any(g->plans, c->kind, c->root, &p)
		   : plans_get(g->plans, c->kind, c->root, c->bytes, &p);
	if (e != 0)
		return e == -ENOMEM || e == -EHOSTUNREACH || e == -EOPNOTSUPP ? e : -EMSGSIZE;
	if (unlikely(g->adaptation != NULL) && !c->any)
		c->ended_ns = adaptation_begins(g,
			plans_predicted(g->plans, c->kind, c->root, c->bytes));
	e = coll_call_begin(g, c, p, request);
	if (c->ended_ns != NULL && (e != 0 || request == PMX_COLL_PREPARE))
		adaptation_has_not_begun(g);
	return e;
}

/* ------------------------------------------------------------------ verbs */

static struct side
side_of(const void *base, const struct pmx_blocks *v)
{
	return (struct side){.base = (void *)(uintptr_t)base, .blocks = UINT32_MAX, .v = v};
}

static const void *
at(const void *base, uint64_t offset)
{
	return (const uint8_t *)base + offset;
}

uint32_t
pmx_coll_limit(const struct pmx_context *ctx)
{
	return ctx->shm->collectives < BOUNCES_MAX ? ctx->shm->collectives : BOUNCES_MAX;
}

int
pmx_coll_barrier(struct pmx_group *g, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_BARRIER};

	return coll_client_begin(g, &c, request);
}

int
pmx_bcast(struct pmx_group *g, uint32_t root, void *buffer, uint64_t len, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_BCAST, .root = root, .bytes = len, .vector = true};

	c.in = coll_side(buffer, g->rank == root, len);
	c.out = coll_side(buffer, 1, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_gather(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_request *request)
{
	struct coll_call c = {.kind = COLL_GATHER, .root = root, .bytes = len};

	c.in = coll_side(in == PMX_IN_PLACE ? at(out, g->rank * len) : in, 1, len);
	c.out = coll_side(out, g->rank == root ? UINT32_MAX : 0, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_scatter(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_request *request)
{
	struct coll_call c = {.kind = COLL_SCATTER, .root = root, .bytes = len};

	c.in = coll_side(in, g->rank == root ? UINT32_MAX : 0, len);
	c.out = coll_side(out == NULL ? at(in, g->rank * len) : out, 1, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_allgather(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLGATHER, .bytes = len};

	c.in = coll_side(in == PMX_IN_PLACE ? at(out, g->rank * len) : in, 1, len);
	c.out = coll_side(out, UINT32_MAX, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_alltoall(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLTOALL, .bytes = len};

	c.in = coll_side(in == PMX_IN_PLACE ? out : in, UINT32_MAX, len);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = coll_side(out, UINT32_MAX, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_gatherv(struct pmx_group *g, uint32_t root, const void *in, uint64_t len, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_GATHER, .root = root, .any = true};

	c.in = in == PMX_IN_PLACE
		? coll_side(at(out, out_blocks->begins[g->rank]), 1, out_blocks->lens[g->rank])
		: coll_side(in, 1, len);
	if (g->rank == root)
		c.out = side_of(out, out_blocks);
	return coll_client_begin(g, &c, request);
}

int
pmx_scatterv(struct pmx_group *g, uint32_t root, const void *in, const struct pmx_blocks *in_blocks,
	void *out, uint64_t len, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_SCATTER, .root = root, .any = true};

	if (g->rank == root)
		c.in = side_of(in, in_blocks);
	c.out = g->rank == root && out == NULL
		? coll_side(at(in, in_blocks->begins[root]), 1, in_blocks->lens[root])
		: coll_side(out, 1, len);
	return coll_client_begin(g, &c, request);
}

int
pmx_allgatherv(struct pmx_group *g, const void *in, uint64_t len, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLGATHER, .any = true};

	c.in = in == PMX_IN_PLACE
		? coll_side(at(out, out_blocks->begins[g->rank]), 1, out_blocks->lens[g->rank])
		: coll_side(in, 1, len);
	c.out = side_of(out, out_blocks);
	return coll_client_begin(g, &c, request);
}

int
pmx_alltoallv(struct pmx_group *g, const void *in, const struct pmx_blocks *in_blocks, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLTOALL, .any = true};

	c.in = in == PMX_IN_PLACE ? side_of(out, out_blocks) : side_of(in, in_blocks);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = side_of(out, out_blocks);
	return coll_client_begin(g, &c, request);
}

/* Set the operation and the bytes of a reduction. Return 0; -EINVAL: there is no such operation;
 * -EMSGSIZE. */
static int
reduces(struct coll_call *c, uint64_t count, enum pmx_atomic_type type, enum pmx_atomic_op op)
{
	if ((unsigned)op > COLL_COMBINES_LAST || !atomic_is_valid(op, type))
		return -EINVAL;
	if (count > COLL_BYTES_MAX)
		return -EMSGSIZE;
	c->operation = TRANSFER_OPERATION(op, type);
	c->bytes = count * atomic_bytes(type);
	return 0;
}

int
pmx_reduce(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_REDUCE_TO, .root = root, .vector = true};
	const int e = reduces(&c, count, type, op);

	c.in = coll_side(in == PMX_IN_PLACE ? out : in, 1, c.bytes);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = coll_side(out, g->rank == root, c.bytes);
	return e != 0 ? e : coll_client_begin(g, &c, request);
}

int
pmx_allreduce(struct pmx_group *g, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLREDUCE, .vector = true};
	const int e = reduces(&c, count, type, op);

	c.in = coll_side(in == PMX_IN_PLACE ? out : in, 1, c.bytes);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = coll_side(out, 1, c.bytes);
	return e != 0 ? e : coll_client_begin(g, &c, request);
}

int
pmx_reduce_scatter(struct pmx_group *g, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_REDUCE_SCATTER};
	const int e = in == PMX_IN_PLACE ? -EINVAL : reduces(&c, count, type, op);

	c.in = coll_side(in, UINT32_MAX, c.bytes);
	c.out = coll_side(out, 1, c.bytes);
	return e != 0 ? e : coll_client_begin(g, &c, request);
}

/* Describe a reduction by a function. The parts that come are kept in the collective's buffer, as
 * c->out has no memory of its own. */
static void
reduces_by(struct coll_call *c, const void *in, void *out, uint64_t len)
{
	const bool gets = c->by.combine != NULL;

	c->bytes = len;
	c->operation = BY_FUNCTION;
	c->by.out = out;
	c->by.len = len;
	c->in = coll_side(in == PMX_IN_PLACE ? out : in, 1, len);
	c->out = coll_side(NULL, gets ? UINT32_MAX : 0, len);
	c->out.copied = gets;
}

int
pmx_reduce_by(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_combine combine, void *arg, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_GATHER, .root = root};

	if (g->rank == root)
		c.by = (struct by_function){.combine = combine, .arg = arg};
	reduces_by(&c, in, out, len);
	return g->rank == root && combine == NULL ? -EINVAL : coll_client_begin(g, &c, request);
}

int
pmx_allreduce_by(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_combine combine,
	void *arg, pmx_request *request)
{
	struct coll_call c = {.kind = COLL_ALLGATHER, .by = {.combine = combine, .arg = arg}};

	reduces_by(&c, in, out, len);
	return combine == NULL ? -EINVAL : coll_client_begin(g, &c, request);
}
