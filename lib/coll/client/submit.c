/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives, on the application's side: a call and its plan are described in memory that the
 * engine can read, and submitted; the engine does the rest (lib/coll/engine). Runs in the
 * context's thread.
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
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "coll/client/submit.h"
#include "rma/atomic.h"

#define NOWHERE UINT64_MAX

/* A collective that runs. */
struct coll_note {
	bool used;
	uint32_t uses;       /* how often the place was used */
	uint32_t request;    /* or NO_REQUEST */
	struct pmx_group *g; /* NULL: it is closed */
	uint64_t *ended_ns;  /* of its call */
	void *bounce;
	/* what is copied to the application at the end: `copies` blocks of `results` */
	uint32_t copies;
	const uint64_t *begins, *homes; /* offsets there, addresses */
	uint64_t *lens;                 /* bytes */
	const uint8_t *results;
	/* or combined there, in the order of the ranks; homes are offsets then */
	struct by_function by;
};

/* A buffer for a group's next collective. */
struct prepared {
	const struct pmx_group *g;
	void *at; /* NULL: none */
	uint64_t bytes;
};

struct client_colls {
	struct coll_note notes[COLLS_OF_CONTEXT];
	struct prepared prepared[BOUNCES_MAX];
};

uint64_t
coll_clock_ns(void)
{
	return (uint64_t)clock_ns();
}

/* ------------------------------------------------------------------ blocks */

/* Return the rank to which a plan's block belongs. */
static uint32_t
rank_of(const struct coll_plan *p, uint32_t block)
{
	return p->block_count == p->ranks ? p->order[block] : 0;
}

/* Return the bytes of a block of a side. *begin: where it begins in that side; NOWHERE: the side
 * does not have it. */
static uint64_t
block_of(const struct pmx_group *g, const struct coll_call *c, const struct side *s,
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

/* Return how many bytes of the application's memory a side spans. */
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
submit_rounded(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* The places of things in a collective's buffer; all: its length. */
struct room {
	uint64_t steps, ends, begins, homes, lens, scratch, in, out, all;
};

static struct room
room_for(const struct coll_call *c, const struct coll_plan *p, const struct coll_list *l)
{
	const uint64_t table = p->block_count * sizeof(uint64_t);
	struct room r = {.steps = sizeof(struct coll_desc)};

	r.ends = r.steps + l->count * sizeof(struct coll_step);
	r.begins = r.ends + COLL_BUFFERS * table;
	r.homes = r.begins + 2 * table;
	r.lens = r.homes + table;
	r.scratch = submit_rounded(r.lens + table);
	r.in = submit_rounded(r.scratch + l->areas * l->area_bytes);
	r.out = submit_rounded(r.in + (c->in.copied ? c->in.total : 0));
	r.all = r.out + (c->out.copied ? c->out.total : 0);
	return r;
}

/* Write the tables of one side: where its blocks end, and where they begin in its memory. */
static void
write_side(const struct pmx_group *g, const struct coll_call *c, const struct side *s,
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

static bool
has_colls(struct pmx_context *ctx)
{
	if (ctx->colls == NULL)
		ctx->colls = calloc(1, sizeof(*ctx->colls));
	return ctx->colls != NULL;
}

static struct coll_note *
free_note(struct pmx_context *ctx)
{
	uint32_t most = ctx->shm->collectives;

	if (!has_colls(ctx))
		return NULL;
	for (uint32_t i = 0; i < most && i < COLLS_OF_CONTEXT; i++) {
		if (!ctx->colls->notes[i].used)
			return &ctx->colls->notes[i];
	}
	return NULL;
}

static void
note_ends(struct pmx_context *ctx, struct coll_note *n)
{
	bounce_put(ctx, BOUNCE_COLL, n->bounce);
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

void
collectives_results(struct pmx_context *ctx, const struct completion *r)
{
	const uint32_t ticket = r->item[0], index = ticket % 256;
	struct coll_note *n = ctx->colls != NULL && index < COLLS_OF_CONTEXT
		? &ctx->colls->notes[index]
		: NULL;
	const int error = -(int)(r->item[1] & 0xFF);

	if (n == NULL || !n->used || ticket_of(ctx, n) != ticket)
		return;
	if (n->g != NULL) {
		if (n->ended_ns != NULL)
			*n->ended_ns = coll_clock_ns();
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
}

/* End all collectives of the context with -ECONNRESET, as the engine that ran them is gone. Return
 * 0. */
int
collectives_leave(struct pmx_context *ctx)
{
	if (ctx->colls != NULL) /* the buffers go with the engine */
		memset(ctx->colls->prepared, 0, sizeof(ctx->colls->prepared));
	for (uint32_t i = 0; ctx->colls != NULL && i < COLLS_OF_CONTEXT; i++) {
		struct coll_note *n = &ctx->colls->notes[i];

		if (!n->used)
			continue;
		ctx_group_request_ends(n->g, &n->request, -ECONNRESET, (uint16_t)n->g->rank, 0);
		note_ends(ctx, n);
	}
	return 0;
}

void
collectives_close(struct pmx_context *ctx)
{
	free(ctx->colls);
	ctx->colls = NULL;
}

/* ------------------------------------------------------------------ beginning */

int
collectives_plans(const struct pmx_group *g, struct topology *topology, struct coll_plans **out,
	char *error, uint32_t error_len)
{
	struct pmx_addr *members = malloc(g->count * sizeof(*members));
	int e;

	if (members == NULL) {
		topology_free(topology);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < g->count; r++)
		members[r] = g->members[r].addr;
	e = plans_open(out, members, g->count, g->rank, coll_piece_in(g->ctx->frag_len), topology,
		error, error_len);
	free(members);
	return e;
}

/* Tell the engine where it finds a side's bytes: in the application's memory, or in the copy, which
 * is in the memory of scratch. */
static void
say_where(struct coll_desc *d, enum coll_buffer buffer, const struct side *s, const void *copy)
{
	d->buffer[buffer].at = (uintptr_t)(s->copied ? copy : s->base);
	d->buffer[buffer].len = s->copied ? s->total : s->span;
	d->buffer[buffer].memory = s->copied ? d->buffer[COLL_SCRATCH].memory : s->memory;
}

/* Fill the collective's buffer, and note what is to be done with it at the end. own: the engine's
 * number of the memory that the buffer is in. */
static void
submit_describe(struct pmx_group *g, const struct coll_call *c, const struct coll_plan *p,
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
	d->load_in = l->load_in;
	d->load_out = l->load_out;
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

/* Note how many bytes a side's blocks have, and whether the engine shall have a copy of them: it
 * has one of all memory that it has not mapped. Return 0, or -EMSGSIZE if the side is too long. */
static int
submit_measure(struct pmx_group *g, struct side *s)
{
	s->total = s->each * (s->blocks == 0 ? 0 : s->blocks == 1 ? 1 : g->count);
	if (s->v != NULL) {
		s->total = 0;
		for (uint32_t r = 0; r < g->count; r++) {
			if (s->v->lens[r] > COLL_BYTES_MAX || s->v->begins[r] > COLL_BYTES_MAX)
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

/* Return whether a list writes blocks of OUT that are not this rank's, to pass them on. */
static bool
is_relay(const struct pmx_group *g, const struct coll_call *c, const struct coll_plan *p)
{
	const struct coll_list *l = &p->lists[g->rank];
	uint64_t begin;

	if (c->vector && c->out.blocks > 0) /* all of it is */
		return false;
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

/* Return what is prepared for the group, or where nothing is, for NULL; or NULL. */
static struct prepared *
prepared_of(const struct pmx_context *ctx, const struct pmx_group *g)
{
	for (unsigned i = 0; ctx->colls != NULL && i < BOUNCES_MAX; i++) {
		struct prepared *p = &ctx->colls->prepared[i];

		if (g == NULL ? p->at == NULL : p->at != NULL && p->g == g)
			return p;
	}
	return NULL;
}

void
pmx_coll_forget(struct pmx_group *g)
{
	struct prepared *p = prepared_of(g->ctx, g);

	if (p == NULL)
		return;
	bounce_put(g->ctx, BOUNCE_COLL, p->at);
	p->at = NULL;
}

/* Get a buffer of so many bytes: what is prepared, if it is as long. */
static int
get_buffer(struct pmx_group *g, uint64_t bytes, void **at)
{
	struct prepared *p = unlikely(g->has_prepared) ? prepared_of(g->ctx, g) : NULL;

	g->has_prepared = false;
	if (p != NULL && p->bytes >= bytes) {
		*at = p->at;
		p->at = NULL;
		return 0;
	}
	if (p != NULL)
		pmx_coll_forget(g);
	return bounce_get(g->ctx, BOUNCE_COLL, bytes, BOUNCES_MAX, at);
}

/* Get a buffer of so many bytes, and keep it for the group's next collective. */
static int
prepare(struct pmx_group *g, uint64_t bytes)
{
	void *at;

	if (!has_colls(g->ctx))
		return -ENOMEM;
	const int e = get_buffer(g, bytes, &at);

	if (e != 0)
		return e;
	/* there are as many places as buffers */
	struct prepared *p = prepared_of(g->ctx, NULL);

	*p = (struct prepared){.g = g, .at = at, .bytes = bytes};
	g->has_prepared = true;
	return 0;
}

int
coll_call_begin(struct pmx_group *g, struct coll_call *c, const struct coll_plan *p,
	pmx_request *request)
{
	struct coll_note *n;
	int e = submit_measure(g, &c->in);

	if (e == 0)
		e = submit_measure(g, &c->out);
	if (e != 0)
		return e;
	if (is_relay(g, c, p)) {
		c->out.copied = c->out.relays = true;
		c->out.total = p->block_count * p->bytes;
	}
	const struct coll_list *l = &p->lists[g->rank];
	const struct room r = room_for(c, p, l);

	if (request == PMX_COLL_PREPARE)
		return prepare(g, r.all);
	n = free_note(g->ctx);
	if (n == NULL)
		return g->ctx->colls == NULL ? -ENOMEM : -EAGAIN;
	e = get_buffer(g, r.all, &n->bounce);
	if (e != 0)
		return e;
	/* a buffer that was replaced has taken a slot */
	e = slot_room(&g->ctx->sub, 1) ? lend_request(g->ctx, &n->request, request) : -EAGAIN;
	if (e != 0) {
		bounce_put(g->ctx, BOUNCE_COLL, n->bounce);
		return e;
	}
	n->used = true;
	n->g = g;
	n->ended_ns = c->ended_ns;
	const uint32_t own = (uint32_t)piece_of(g->ctx, n->bounce, r.all);

	submit_describe(g, c, p, l, &r, own, n);
	submit(g, n, own, r.homes);
	return 0;
}

int
collectives_begin(struct pmx_group *g, const struct coll_plan *p, const void *in, void *out,
	pmx_request *request)
{
	struct coll_call c = {.kind = p->kind, .bytes = p->bytes};
	const int e = ctx_group_check_ask(g, request);

	c.vector = p->kind == COLL_ALLTOALL || p->kind == COLL_ALLREDUCE;
	if (p->kind == COLL_ALLREDUCE)
		c.operation = TRANSFER_OPERATION(PMX_ATOMIC_MAX, PMX_UINT64);
	if (p->kind != COLL_BARRIER) {
		c.in = coll_side(in, 1, p->bytes);
		c.out = coll_side(out, c.vector ? 1 : UINT32_MAX, p->bytes);
	}
	return e != 0 ? e : coll_call_begin(g, &c, p, request);
}
