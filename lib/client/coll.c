/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives, on the application's side: what is asked is checked here, planned (coll_plans.c),
 * described in memory that the engine can read, and submitted; the engine does the rest
 * (lib/engine/service/coll). Runs in the context's thread.
 *
 * Design notes
 * 1. One buffer of memory that both sides have mapped holds what a collective needs besides the
 *    application's own: the description, scratch, and copies of what it reads and writes where the
 *    engine could not get at it, or only by the kernel.
 * 2. A block of a plan is a place in the plan's order of ranks. Where each one lies in the
 *    application's buffer is in tables, so blocks of any lengths are the same.
 * 3. The engine cannot call a function of the application, so a reduction by one is a gather, or an
 *    allgather, to the collective's buffer, and combined from there at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/coll_plans.h"
#include "client/group.h"
#include "coll/combine.h"
#include "pmx/coll.h"
#include "rma/atomic.h"

#define BYTES_MAX (1ull << 40)
#define NOWHERE   UINT64_MAX
#define BOUNCES   8 /* of collectives, at once */
#define MEASURE   "auto"

/* As the operation of a reduction by a function: members that do something else differ. */
#define BY_FUNCTION UINT32_MAX

/* A collective that runs. */
struct coll_note {
	bool used;
	uint32_t uses;       /* how often the place was used */
	uint32_t request;    /* or NO_REQUEST */
	struct pmx_group *g; /* NULL: it is closed */
	unsigned sample;     /* of its adaptation, or NO_SAMPLE */
	void *bounce;
	/* what is copied to the application at the end: `copies` blocks of `results` */
	uint32_t copies;
	const uint64_t *begins, *homes; /* offsets there, addresses */
	uint64_t *lens;                 /* bytes */
	const uint8_t *results;
	/* or combined there, in the order of the ranks; homes are offsets then */
	struct by_function {
		pmx_combine combine; /* NULL: it is copied */
		void *arg, *out;
		uint64_t len;
	} by;
};

struct client_colls {
	struct coll_note notes[COLLS_OF_CONTEXT];
};

/* One of the buffers of a collective: whose blocks it has, and where. */
struct side {
	void *base;
	uint32_t blocks;            /* as many as the plan's: each rank's; 1: only the own one;
				     * 0: none */
	uint64_t each;              /* bytes of a block, if v is NULL */
	const struct pmx_blocks *v; /* by rank */
	bool copied;                /* the engine has a copy */
	bool relays;                /* ... with room for the blocks that are not had, too */
	uint64_t total;             /* bytes of all blocks */
	uint64_t span;              /* ... and from the first to the last one's end */
	uint32_t memory;            /* the engine's number of it, or MEMORY_COPIED: it is copied */
};

struct call {
	enum coll_kind kind;
	uint32_t root;
	uint64_t bytes; /* as of a plan */
	bool any;       /* blocks of any lengths */
	bool vector;    /* both sides are one vector, which the plan cuts */
	uint32_t operation;
	uint64_t predicted_ns; /* 0: nobody knows */
	struct side in, out;
	struct by_function by;
};

/* ------------------------------------------------------------------ blocks */

/* The rank that a plan's block is of. */
static uint32_t
rank_of(const struct coll_plan *p, uint32_t block)
{
	return p->block_count == p->ranks ? p->order[block] : 0;
}

/* Bytes of a block of a side, and where it begins there; NOWHERE: the side does not have it. */
static uint64_t
block_of(const struct pmx_group *g, const struct call *c, const struct side *s,
	const struct coll_plan *p, uint32_t block, uint64_t *begin)
{
	const uint32_t rank = rank_of(p, block);

	*begin = NOWHERE;
	if (s->blocks == 0)
		return 0;
	if (c->vector) {
		*begin = p->ends && block > 0 ? p->ends[block - 1] : 0;
		return (p->ends ? p->ends[block] : p->bytes) - *begin;
	}
	if (s->blocks == 1) {
		if (rank == g->rank)
			*begin = 0;
		return rank == g->rank ? s->each : 0;
	}
	*begin = s->v ? s->v->begins[rank] : rank * s->each;
	return s->v ? s->v->lens[rank] : s->each;
}

/* ------------------------------------------------------------------ memory */

/* Bytes that a side spans in the application. */
static uint64_t
span_of(const struct pmx_group *g, const struct side *s)
{
	uint64_t end = s->each * (s->blocks == 1 ? 1 : g->count);

	if (s->v == NULL)
		return s->blocks == 0 ? 0 : end;
	end = 0;
	for (uint32_t r = 0; r < g->count; r++) {
		const uint64_t e = s->v->begins[r] + s->v->lens[r];

		end = s->v->lens[r] > 0 && e > end ? e : end;
	}
	return end;
}

static uint64_t
rounded(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Where things are in a collective's buffer. */
struct room {
	uint64_t steps, ends, begins, homes, lens, scratch, in, out, all;
};

static struct room
room_for(const struct call *c, const struct coll_plan *p, const struct coll_list *l)
{
	const uint64_t table = p->block_count * sizeof(uint64_t);
	struct room r = {.steps = sizeof(struct coll_desc)};

	r.ends = r.steps + l->count * sizeof(struct coll_step);
	r.begins = r.ends + COLL_BUFFERS * table;
	r.homes = r.begins + 2 * table;
	r.lens = r.homes + table;
	r.scratch = rounded(r.lens + table);
	r.in = rounded(r.scratch + l->areas * l->area_bytes);
	r.out = rounded(r.in + (c->in.copied ? c->in.total : 0));
	r.all = r.out + (c->out.copied ? c->out.total : 0);
	return r;
}

/* Writes the tables of one side. */
static void
write_side(const struct pmx_group *g, const struct call *c, const struct side *s,
	const struct coll_plan *p, uint64_t *ends, uint64_t *begins)
{
	uint64_t end = 0;

	for (uint32_t b = 0; b < p->block_count; b++) {
		uint64_t len = block_of(g, c, s, p, b, &begins[b]);

		if (s->relays)
			len = p->bytes;
		if (s->relays || (s->copied && begins[b] != NOWHERE))
			begins[b] = end;
		end += len;
		ends[b] = end;
	}
}

/* ------------------------------------------------------------------ notes */

static struct coll_note *
free_note(struct pmx_context *ctx)
{
	uint32_t most = ctx->shm->collectives;

	if (ctx->colls == NULL)
		ctx->colls = calloc(1, sizeof(*ctx->colls));
	for (uint32_t i = 0; ctx->colls != NULL && i < most && i < COLLS_OF_CONTEXT; i++) {
		if (!ctx->colls->notes[i].used)
			return &ctx->colls->notes[i];
	}
	return NULL;
}

static void
note_ends(struct pmx_context *ctx, struct coll_note *n)
{
	bounce_put(ctx, n->bounce);
	n->used = false;
	n->uses++;
}

static uint32_t
ticket_of(const struct pmx_context *ctx, const struct coll_note *n)
{
	return (uint32_t)(n - ctx->colls->notes) | n->uses << 8;
}

static void
copy_out(const struct coll_note *n)
{
	for (uint32_t i = 0; i < n->copies; i++) {
		if (n->lens[i] > 0)
			memcpy((void *)(uintptr_t)n->homes[i], n->results + n->begins[i],
				n->lens[i]);
	}
}

static void
combine_all(const struct coll_note *n)
{
	const struct by_function *by = &n->by;
	uint64_t *begin_of = n->lens; /* by rank; the lengths are all the same */

	if (by->len == 0)
		return;
	for (uint32_t i = 0; i < n->copies; i++)
		begin_of[n->homes[i] / by->len] = n->begins[i];
	memcpy(by->out, n->results + begin_of[0], by->len);
	for (uint32_t r = 1; r < n->copies; r++)
		by->combine(by->out, n->results + begin_of[r], by->len, by->arg);
}

static void
results(struct pmx_context *ctx, const struct completion *r)
{
	const uint32_t ticket = r->item[0], index = ticket % 256;
	struct coll_note *n = ctx->colls != NULL && index < COLLS_OF_CONTEXT
		? &ctx->colls->notes[index]
		: NULL;
	const int error = -(int)(r->item[1] & 0xFF);

	if (n == NULL || !n->used || ticket_of(ctx, n) != ticket)
		return;
	if (n->g != NULL) {
		if (n->sample != NO_SAMPLE)
			adaptation_ended(n->g, n->sample);
		if (error == 0 && n->by.combine != NULL)
			combine_all(n);
		else if (error == 0)
			copy_out(n);
		ctx_group_request_ends(n->g, &n->request, error,
			error != 0 ? (uint16_t)(r->item[1] >> 16) : NOBODY, r->item[2]);
	}
	note_ends(ctx, n);
}

/* Loops over the collectives of a group. */
#define OF_GROUP(g, n)                                                                             \
	for (uint32_t i_ = 0; (g)->ctx->colls != NULL && i_ < COLLS_OF_CONTEXT; i_++)              \
		if (n = &(g)->ctx->colls->notes[i_], n->used && n->g == (g))

void
collectives_abandon(struct pmx_group *g)
{
	struct coll_note *n;

	OF_GROUP(g, n)
	ctx_group_request_ends(g, &n->request, -ECANCELED, NOBODY, 0);
}

void
collectives_end(struct pmx_group *g)
{
	struct coll_note *n;

	OF_GROUP(g, n)
	note_ends(g->ctx, n);
	adaptation_free(g);
	plans_free(g->plans);
	g->plans = NULL;
}

/* The engine that ran them is gone. */
static int
leave(struct pmx_context *ctx)
{
	for (uint32_t i = 0; ctx->colls != NULL && i < COLLS_OF_CONTEXT; i++) {
		struct coll_note *n = &ctx->colls->notes[i];

		if (!n->used)
			continue;
		ctx_group_request_ends(n->g, &n->request, -ECONNRESET, (uint16_t)n->g->rank, 0);
		note_ends(ctx, n);
	}
	return 0;
}

static void
free_all(struct pmx_context *ctx)
{
	free(ctx->colls);
	ctx->colls = NULL;
}

const struct client_service client_coll = {
	.name = "coll",
	.close = free_all,
	.completions = COMPLETION_COLL,
	.results = results,
	.leave = leave,
};

/* ------------------------------------------------------------------ beginning */

int
collectives_plans(const struct pmx_group *g, struct topology *topology, struct coll_plans **out,
	char *error, uint32_t error_len)
{
	struct pmx_addr *members = malloc(g->count * sizeof(*members));
	/* elements are not cut */
	const uint32_t piece = (g->ctx->frag_len - (uint32_t)sizeof(struct wire_coll)) & ~63u;
	int e;

	if (members == NULL) {
		topology_free(topology);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < g->count; r++)
		members[r] = g->members[r].addr;
	e = plans_open(out, members, g->count, g->rank, piece, topology, error, error_len);
	free(members);
	return e;
}

/* topology: passes to the plans, also if they cannot be made; NULL: nobody has described it. */
static int
open_plans(struct pmx_group *g, struct topology *topology, char *error, uint32_t error_len)
{
	const char *generators = getenv("PMX_COLL_GENERATORS");
	int e = collectives_plans(g, topology, &g->plans, error, error_len);

	if (e == 0 && generators != NULL)
		e = plans_ask_for(g->plans, generators, error, error_len);
	if (e != 0) {
		plans_free(g->plans);
		g->plans = NULL;
	}
	return e;
}

/* What is found by measuring, waiting for all. */
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

/* By what the environment says. What is wrong with it is written to stderr, as a collective's error
 * is no place for a sentence. */
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
		fprintf(stderr, "pmx: %s%s\n", path != NULL ? "PMX_TOPOLOGY=" : "", error);
	return e == 0 || e == -ENOMEM ? e : -EINVAL;
}

/* Where the engine finds a side's bytes: there, or in the copy, which is in the memory of
 * scratch. */
static void
say_where(struct coll_desc *d, enum coll_buffer buffer, const struct side *s, const void *copy)
{
	d->buffer[buffer].at = (uintptr_t)(s->copied ? copy : s->base);
	d->buffer[buffer].len = s->copied ? s->total : s->span;
	d->buffer[buffer].memory = s->copied ? d->buffer[COLL_SCRATCH].memory : s->memory;
}

/* Fills the collective's buffer. own: the engine's number of the memory that it is in. */
static void
describe(struct pmx_group *g, const struct call *c, const struct coll_plan *p,
	const struct coll_list *l, const struct room *r, uint32_t own, struct coll_note *n)
{
	uint8_t *at = n->bounce;
	struct coll_desc *d = n->bounce;
	uint64_t *begins = (uint64_t *)(at + r->begins), *homes = (uint64_t *)(at + r->homes);
	uint64_t *lens = (uint64_t *)(at + r->lens), *ends = (uint64_t *)(at + r->ends);
	const uint32_t count = p->block_count;

	memset(d, 0, sizeof(*d));
	d->hash = (uint32_t)(p->hash ^ p->hash >> 32) ^ c->operation * 0x9E3779B1u;
	d->steps = l->count;
	d->blocks = count;
	d->ends = 1u << COLL_IN | 1u << COLL_OUT | 1u << COLL_SCRATCH;
	d->piece = l->piece;
	d->send_pace = l->send_pace;
	d->areas = l->areas;
	d->operation = c->operation;
	d->area_bytes = l->area_bytes;
	d->window = l->window;
	d->grain = l->grain;
	memcpy(at + r->steps, l->steps, l->count * sizeof(struct coll_step));
	write_side(g, c, &c->in, p, ends, begins);
	write_side(g, c, &c->out, p, ends + count, begins + count);
	/* what goes through scratch are blocks as they are at both sides */
	for (uint32_t b = 0; b < count; b++)
		ends[2 * count + b] = p->ends ? p->ends[b] : (b + 1) * p->bytes;
	d->buffer[COLL_SCRATCH].at = (uintptr_t)at + r->scratch;
	d->buffer[COLL_SCRATCH].len = l->areas * l->area_bytes;
	d->buffer[COLL_SCRATCH].memory = own;
	say_where(d, COLL_IN, &c->in, at + r->in);
	say_where(d, COLL_OUT, &c->out, at + r->out);
	n->copies = c->out.copied ? count : 0;
	n->begins = begins + count;
	n->homes = homes;
	n->lens = lens;
	n->results = at + r->out;
	n->by = c->by;
	for (uint32_t b = 0; b < count; b++) {
		uint64_t begin;
		const uint64_t in_len = block_of(g, c, &c->in, p, b, &begin);

		if (c->in.copied && in_len > 0)
			memcpy(at + r->in + (b > 0 ? ends[b - 1] : 0),
				(const uint8_t *)c->in.base + begin, in_len);
		lens[b] = block_of(g, c, &c->out, p, b, &begin);
		homes[b] = (uintptr_t)c->out.base + begin;
	}
}

static void
submit(struct pmx_group *g, const struct coll_note *n, uint32_t own, uint64_t len)
{
	struct slot_end *sub = &g->ctx->sub;
	struct submission *s = (struct submission *)slot_at(sub, sub->pos)->body;

	s->op = SUBMIT_COLL;
	s->pad = 0;
	s->count = 0;
	s->coll.handle = g->handle;
	s->coll.zero = 0;
	s->coll.ticket = ticket_of(g->ctx, n);
	s->coll.memory = own;
	s->coll.len = (uint32_t)len;
	s->coll.at = (uintptr_t)n->bounce;
	slot_publish(sub, sub->pos++);
	ctx_doorbell(g->ctx);
}

/* Bytes of a side's blocks, and whether the engine shall have a copy of it: all memory that it has
 * not mapped. Returns -EMSGSIZE if it is too long. */
static int
measure(struct pmx_group *g, struct side *s)
{
	s->total = s->each * (s->blocks == 0 ? 0 : s->blocks == 1 ? 1 : g->count);
	if (s->v != NULL) {
		s->total = 0;
		for (uint32_t r = 0; r < g->count; r++) {
			if (s->v->lens[r] > BYTES_MAX || s->v->begins[r] > BYTES_MAX)
				return -EMSGSIZE;
			s->total += s->v->lens[r];
		}
	}
	s->span = span_of(g, s);
	const int64_t number = s->span > 0 ? piece_of(g->ctx, s->base, s->span) : MEMORY_COPIED;

	s->memory = number < 0 ? MEMORY_COPIED : (uint32_t)number;
	s->copied |= s->total > 0 && s->memory == MEMORY_COPIED;
	return 0;
}

/* Whether a list writes blocks of OUT that are not this rank's, to pass them on. */
static bool
is_relay(const struct pmx_group *g, const struct call *c, const struct coll_plan *p)
{
	const struct coll_list *l = &p->lists[g->rank];
	uint64_t begin;

	for (uint32_t i = 0; i < l->count; i++) {
		const struct coll_step *s = &l->steps[i];

		if (s->to != COLL_OUT || s->op == COLL_SEND)
			continue;
		for (uint32_t k = 0, b = s->block; k < s->blocks; k++) {
			block_of(g, c, &c->out, p, b, &begin);
			if (begin == NOWHERE)
				return true;
			b = b + 1 < p->block_count ? b + 1 : 0;
		}
	}
	return false;
}

static int
begin_by(struct pmx_group *g, struct call *c, const struct coll_plan *p, pmx_request *request)
{
	struct coll_note *n;
	int e = measure(g, &c->in);

	if (e == 0)
		e = measure(g, &c->out);
	if (e != 0)
		return e;
	if (is_relay(g, c, p)) {
		c->out.copied = c->out.relays = true;
		c->out.total = p->block_count * p->bytes;
	}
	n = free_note(g->ctx);
	if (n == NULL)
		return g->ctx->colls == NULL ? -ENOMEM : -EAGAIN;
	const struct coll_list *l = &p->lists[g->rank];
	const struct room r = room_for(c, p, l);

	e = bounce_get(g->ctx, r.all, BOUNCES, &n->bounce);
	if (e != 0)
		return e;
	/* a buffer that was replaced has taken a slot */
	e = slot_room(&g->ctx->sub, 1) ? lend_request(g->ctx, &n->request, request) : -EAGAIN;
	if (e != 0) {
		bounce_put(g->ctx, n->bounce);
		return e;
	}
	n->used = true;
	n->g = g;
	n->sample = g->adaptation != NULL ? adaptation_begun(g, c->predicted_ns) : NO_SAMPLE;
	const uint32_t own = (uint32_t)piece_of(g->ctx, n->bounce, r.all);

	describe(g, c, p, l, &r, own, n);
	submit(g, n, own, r.homes);
	return 0;
}

static int
begin(struct pmx_group *g, struct call *c, pmx_request *request)
{
	const struct coll_plan *p;
	int e = ctx_group_check_ask(g, request);

	if (e == 0 && c->root >= g->count)
		e = -EINVAL;
	if (e == 0 && c->bytes > BYTES_MAX)
		e = -EMSGSIZE;
	if (e == 0 && unlikely(g->adaptation != NULL))
		e = adaptation_due(g);
	if (e == 0 && g->survey != NULL)
		e = -EBUSY;
	if (e == 0 && g->plans == NULL)
		e = plans_default(g);
	if (e != 0)
		return e;
	e = c->any ? plans_get_any(g->plans, c->kind, c->root, &p)
		   : plans_get(g->plans, c->kind, c->root, c->bytes, &p);
	if (e != 0)
		return e == -ENOMEM ? e : -EMSGSIZE;
	if (unlikely(g->adaptation != NULL) && !c->any)
		c->predicted_ns = plans_predicted(g->plans, c->kind, c->root, c->bytes);
	return begin_by(g, c, p, request);
}

/* ------------------------------------------------------------------ verbs */

static struct side
side(const void *base, uint32_t blocks, uint64_t each)
{
	return (struct side){.base = (void *)(uintptr_t)base, .blocks = blocks, .each = each};
}

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

int
collectives_begin(struct pmx_group *g, const struct coll_plan *p, const void *in, void *out,
	pmx_request *request)
{
	struct call c = {.kind = p->kind, .bytes = p->bytes};
	const int e = ctx_group_check_ask(g, request);

	c.vector = p->kind == COLL_ALLTOALL || p->kind == COLL_ALLREDUCE;
	if (p->kind == COLL_ALLREDUCE)
		c.operation = TRANSFER_OPERATION(PMX_ATOMIC_MAX, PMX_UINT64);
	if (p->kind != COLL_BARRIER) {
		c.in = side(in, 1, p->bytes);
		c.out = side(out, c.vector ? 1 : UINT32_MAX, p->bytes);
	}
	return e != 0 ? e : begin_by(g, &c, p, request);
}

int
pmx_coll_barrier(struct pmx_group *g, pmx_request *request)
{
	struct call c = {.kind = COLL_BARRIER};

	return begin(g, &c, request);
}

int
pmx_bcast(struct pmx_group *g, uint32_t root, void *buffer, uint64_t len, pmx_request *request)
{
	struct call c = {.kind = COLL_BCAST, .root = root, .bytes = len, .vector = true};

	c.in = side(buffer, g->rank == root, len);
	c.out = side(buffer, 1, len);
	return begin(g, &c, request);
}

int
pmx_gather(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_request *request)
{
	struct call c = {.kind = COLL_GATHER, .root = root, .bytes = len};

	c.in = side(in == PMX_IN_PLACE ? at(out, g->rank * len) : in, 1, len);
	c.out = side(out, g->rank == root ? UINT32_MAX : 0, len);
	return begin(g, &c, request);
}

int
pmx_scatter(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_request *request)
{
	struct call c = {.kind = COLL_SCATTER, .root = root, .bytes = len};

	c.in = side(in, g->rank == root ? UINT32_MAX : 0, len);
	c.out = side(out == NULL ? at(in, g->rank * len) : out, 1, len);
	return begin(g, &c, request);
}

int
pmx_allgather(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLGATHER, .bytes = len};

	c.in = side(in == PMX_IN_PLACE ? at(out, g->rank * len) : in, 1, len);
	c.out = side(out, UINT32_MAX, len);
	return begin(g, &c, request);
}

int
pmx_alltoall(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLTOALL, .bytes = len};

	c.in = side(in == PMX_IN_PLACE ? out : in, UINT32_MAX, len);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = side(out, UINT32_MAX, len);
	return begin(g, &c, request);
}

int
pmx_gatherv(struct pmx_group *g, uint32_t root, const void *in, uint64_t len, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct call c = {.kind = COLL_GATHER, .root = root, .any = true};

	c.in = in == PMX_IN_PLACE
		? side(at(out, out_blocks->begins[g->rank]), 1, out_blocks->lens[g->rank])
		: side(in, 1, len);
	if (g->rank == root)
		c.out = side_of(out, out_blocks);
	return begin(g, &c, request);
}

int
pmx_scatterv(struct pmx_group *g, uint32_t root, const void *in, const struct pmx_blocks *in_blocks,
	void *out, uint64_t len, pmx_request *request)
{
	struct call c = {.kind = COLL_SCATTER, .root = root, .any = true};

	if (g->rank == root)
		c.in = side_of(in, in_blocks);
	c.out = g->rank == root && out == NULL
		? side(at(in, in_blocks->begins[root]), 1, in_blocks->lens[root])
		: side(out, 1, len);
	return begin(g, &c, request);
}

int
pmx_allgatherv(struct pmx_group *g, const void *in, uint64_t len, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLGATHER, .any = true};

	c.in = in == PMX_IN_PLACE
		? side(at(out, out_blocks->begins[g->rank]), 1, out_blocks->lens[g->rank])
		: side(in, 1, len);
	c.out = side_of(out, out_blocks);
	return begin(g, &c, request);
}

int
pmx_alltoallv(struct pmx_group *g, const void *in, const struct pmx_blocks *in_blocks, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLTOALL, .any = true};

	c.in = in == PMX_IN_PLACE ? side_of(out, out_blocks) : side_of(in, in_blocks);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = side_of(out, out_blocks);
	return begin(g, &c, request);
}

/* 0; -EINVAL: there is no such operation; -EMSGSIZE. */
static int
reduces(struct call *c, uint64_t count, enum pmx_atomic_type type, enum pmx_atomic_op op)
{
	if ((unsigned)op > COLL_COMBINES_LAST || !atomic_is_valid(op, type))
		return -EINVAL;
	if (count > BYTES_MAX)
		return -EMSGSIZE;
	c->operation = TRANSFER_OPERATION(op, type);
	c->bytes = count * atomic_bytes(type);
	return 0;
}

int
pmx_reduce(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct call c = {.kind = COLL_REDUCE_TO, .root = root, .vector = true};
	const int e = reduces(&c, count, type, op);

	c.in = side(in == PMX_IN_PLACE ? out : in, 1, c.bytes);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = side(out, g->rank == root, c.bytes);
	return e != 0 ? e : begin(g, &c, request);
}

int
pmx_allreduce(struct pmx_group *g, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLREDUCE, .vector = true};
	const int e = reduces(&c, count, type, op);

	c.in = side(in == PMX_IN_PLACE ? out : in, 1, c.bytes);
	c.in.copied = in == PMX_IN_PLACE;
	c.out = side(out, 1, c.bytes);
	return e != 0 ? e : begin(g, &c, request);
}

int
pmx_reduce_scatter(struct pmx_group *g, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request)
{
	struct call c = {.kind = COLL_REDUCE_SCATTER};
	const int e = in == PMX_IN_PLACE ? -EINVAL : reduces(&c, count, type, op);

	c.in = side(in, UINT32_MAX, c.bytes);
	c.out = side(out, 1, c.bytes);
	return e != 0 ? e : begin(g, &c, request);
}

/* What comes is kept in the collective's buffer: the side has no memory of its own. */
static void
reduces_by(struct call *c, const void *in, void *out, uint64_t len)
{
	const bool gets = c->by.combine != NULL;

	c->bytes = len;
	c->operation = BY_FUNCTION;
	c->by.out = out;
	c->by.len = len;
	c->in = side(in == PMX_IN_PLACE ? out : in, 1, len);
	c->out = side(NULL, gets ? UINT32_MAX : 0, len);
	c->out.copied = gets;
}

int
pmx_reduce_by(struct pmx_group *g, uint32_t root, const void *in, void *out, uint64_t len,
	pmx_combine combine, void *arg, pmx_request *request)
{
	struct call c = {.kind = COLL_GATHER, .root = root};

	if (g->rank == root)
		c.by = (struct by_function){.combine = combine, .arg = arg};
	reduces_by(&c, in, out, len);
	return g->rank == root && combine == NULL ? -EINVAL : begin(g, &c, request);
}

int
pmx_allreduce_by(struct pmx_group *g, const void *in, void *out, uint64_t len, pmx_combine combine,
	void *arg, pmx_request *request)
{
	struct call c = {.kind = COLL_ALLGATHER, .by = {.combine = combine, .arg = arg}};

	reduces_by(&c, in, out, len);
	return combine == NULL ? -EINVAL : begin(g, &c, request);
}
