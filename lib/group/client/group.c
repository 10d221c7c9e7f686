/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups, on the application's side (RHI-GRP, RHI-LOCK, RHI-BAR): what it asks is checked here and
 * submitted to the engine, which does the rest (lib/group/engine). Runs in the context's
 * thread.
 *
 * Design notes
 * 1. A group has one of a few handles of its context. It stays in use until the engine says that
 *    the group is closed, even though the application has forgotten it by then.
 * 2. Barriers, locks and opening are requests of the same table as messages, so one wait covers all
 *    of them.
 * 3. Opening takes several submissions, and closing must not fail, so these wait in the group while
 *    the ring is full; opening also while the engine has another one of that number.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/params.h"
#include "group/client/group.h"
#include "group/group.h"
#include "pmx/group.h"
#include "rma/region.h"

struct client_groups {
	struct pmx_group *of[GROUPS_OF_CONTEXT]; /* by handle */
};

/* Loops over the groups of a context; the current one may be freed meanwhile. */
#define OF_CONTEXT(c, g)                                                                           \
	for (unsigned h_ = 0; (c)->groups != NULL && h_ < GROUPS_OF_CONTEXT; h_++)                 \
		if ((g = (c)->groups->of[h_]) != NULL)

/* ------------------------------------------------------------------ submissions */

static bool
submit_open(struct pmx_group *g)
{
	struct submission *s = ctx_group_begin(g, GROUP_OPEN);

	if (s == NULL)
		return false;
	s->group.rank = (uint16_t)g->rank;
	s->group.members = (uint16_t)g->count;
	s->group.number = g->id;
	s->group.value = g->random;
	s->group.timeout_us = (uint64_t)g->timeout_us;
	ctx_group_end(g);
	g->listed = 0;
	return true;
}

static bool
submit_list(struct pmx_group *g)
{
	struct submission *s = ctx_group_begin(g, GROUP_LIST);
	uint16_t n = 0;

	if (s == NULL)
		return false;
	for (; n < SUBMIT_GROUP_LIST && g->listed < g->count; n++) {
		const struct pmx_addr a = g->members[g->listed++].addr;

		s->group.list[n] = (uint32_t)a.node << 16 | a.context;
	}
	s->group.members = n;
	ctx_group_end(g);
	return true;
}

static void
set_waits(struct pmx_group *g, bool waits)
{
	g->ctx->unfinished += waits;
	g->ctx->unfinished -= g->waits;
	g->waits = waits;
}

/* Return whether the engine still has a group of that number that the application has closed. */
static bool
is_held(const struct pmx_group *g)
{
	const struct pmx_group *other;

	OF_CONTEXT(g->ctx, other) {
		if (other != g && other->id == g->id && other->state == GROUP_CLOSES &&
			!other->engine_closed)
			return true;
	}
	return false;
}

/* Submit what waits, as far as it can be. */
static void
proceed(struct pmx_group *g)
{
	set_waits(g, true);
	if (g->listed == NO_REQUEST && (is_held(g) || !submit_open(g)))
		return;
	while (g->listed < g->count && g->state != GROUP_CLOSES) {
		if (!submit_list(g))
			return;
	}
	if (g->state == GROUP_CLOSES && !g->close_submitted) {
		if (ctx_group_submit(g, GROUP_CLOSE, 0) != 0)
			return;
		g->close_submitted = true;
	}
	set_waits(g, false);
}

/* ------------------------------------------------------------------ results */

/* End all that the application waits for. */
static void
requests_end(struct pmx_group *g, int error)
{
	ctx_group_request_ends(g, &g->opening, error, g->because, 0);
	ctx_group_request_ends(g, &g->barrier, error, g->because, 0);
	for (uint32_t l = 0; l < g->lock_count; l++)
		ctx_group_request_ends(g, &g->locks[l].request, error, g->because, l);
	shares_end(g, error);
	multicasts_abandon(g, error);
}

static void
group_free(struct pmx_group *g)
{
	set_waits(g, false);
	multicasts_free(g);
	shares_free(g);
	for (const struct client_service *const *s = g->ctx->node->services; *s != NULL; s++) {
		if ((*s)->group_ends != NULL)
			(*s)->group_ends(g);
	}
	g->ctx->groups->of[g->handle] = NULL;
	free(g->locks);
	free(g->members);
	free(g->gone);
	free(g);
}

/* Free the group, which neither the engine nor the application has any more, unless a multicast of
 * it is in use still. */
static void
group_over(struct pmx_group *g)
{
	g->engine_closed = true;
	if (g->multicasting == 0)
		group_free(g);
}

static void
opened(struct pmx_group *g, int error, uint16_t because, bool no_place)
{
	g->no_place = no_place;
	g->state = error == 0 ? GROUP_IS_OPEN : GROUP_IS_OVER;
	g->error = error;
	g->because = because;
	g->over_told = error != 0;
	ctx_group_request_ends(g, &g->opening, error, because, 0);
}

static void
gone(struct pmx_group *g, uint16_t rank, uint8_t why)
{
	if (rank >= g->count || g->members[rank].gone)
		return;
	g->members[rank].gone = true;
	g->members[rank].why = why;
	g->gone[g->gone_count++] = rank;
}

static void
is_over(struct pmx_group *g, int error, uint16_t because)
{
	g->state = GROUP_IS_OVER;
	g->error = error;
	g->because = because;
	multicasts_over(g);
}

static void
locked(struct pmx_group *g, uint32_t lock, int error, uint16_t because)
{
	if (lock >= g->lock_count)
		return;
	g->locks[lock].held = error == 0 || error == -EOWNERDEAD;
	ctx_group_request_ends(g, &g->locks[lock].request, error, because, lock);
}

static void
progress(struct pmx_context *ctx)
{
	struct pmx_group *g;

	OF_CONTEXT(ctx, g) {
		if (g->waits)
			proceed(g);
		if (g->multicasting > 0)
			multicasts_proceed(g);
		if (g->engine_closed && g->multicasting == 0)
			group_free(g);
	}
}

static void
results(struct pmx_context *ctx, const struct completion *c)
{
	const uint32_t handle = c->item[0] >> 16, number = c->item[2];
	const uint16_t rank = (uint16_t)c->item[1];
	const int error = -(int)(uint8_t)(c->item[0] >> 8);
	struct pmx_group *g = handle < GROUPS_OF_CONTEXT && ctx->groups != NULL
		? ctx->groups->of[handle]
		: NULL;
	const uint8_t kind = (uint8_t)c->item[0];

	if (g == NULL)
		return;
	if (kind == GROUP_CLOSED || (g->state == GROUP_CLOSES && kind == GROUP_OPENED && number)) {
		group_over(g);
		return;
	}
	if (g->state == GROUP_CLOSES)
		return;
	switch (kind) {
	case GROUP_OPENED:
		opened(g, error, rank, number != 0);
		break;
	case GROUP_GONE:
		gone(g, rank, (uint8_t)-error);
		break;
	case GROUP_ENDED:
		is_over(g, error, rank);
		break;
	case GROUP_BARRIER:
		ctx_group_request_ends(g, &g->barrier, error, rank, number);
		break;
	case GROUP_LOCKED:
		locked(g, number, error, rank);
		break;
	case GROUP_SUBSCRIBED:
	case GROUP_SHARER:
	case GROUP_SHARERS:
	case GROUP_UPDATE:
	case GROUP_UNSUBSCRIBED:
		shares_result(g, c);
		break;
	case GROUP_LACKS:
	case GROUP_CAST:
	case GROUP_REACHES:
		multicasts_result(g, c);
		break;
	}
}

static bool
has_event(const struct pmx_group *g)
{
	return g->state != GROUP_CLOSES &&
		(g->came > 0 || g->gone_told < g->gone_count ||
			(g->state == GROUP_IS_OVER && !g->over_told));
}

static bool
next_event(struct pmx_context *ctx, struct pmx_event *event)
{
	struct pmx_group *g;
	uint16_t rank;

	OF_CONTEXT(ctx, g) {
		if (!has_event(g))
			continue;
		if (g->came > 0) {
			uint32_t region;

			shares_next_that_came(g, &region, &rank);
			*event = (struct pmx_event){PMX_EVENT_SHARED, g->members[rank].addr, rank,
				(uint64_t)g->id << 32 | region, 0};
		} else if (g->gone_told < g->gone_count) {
			rank = g->gone[g->gone_told++];
			*event = (struct pmx_event){PMX_EVENT_GONE, g->members[rank].addr, rank,
				g->id, -(int32_t)g->members[rank].why};
		} else {
			g->over_told = true;
			*event = (struct pmx_event){PMX_EVENT_GROUP,
				g->because < g->count ? g->members[g->because].addr
						      : PMX_ANY_SOURCE,
				g->because, g->id, g->error};
		}
		return true;
	}
	return false;
}

/* Return whether the application has something to take, or has to call again for what waits
 * here. */
static bool
landed(struct pmx_context *ctx)
{
	struct pmx_group *g;

	OF_CONTEXT(ctx, g) {
		if (slot_filled(&ctx->com, ctx->com.pos) || (g->waits && !is_held(g)) ||
			has_event(g))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ life */

/* End all groups, as the engine that knows of them is gone. */
static int
group_client_leave(struct pmx_context *ctx)
{
	struct pmx_group *g;

	OF_CONTEXT(ctx, g) {
		multicasts_unpack(g);
		if (g->state == GROUP_CLOSES) {
			group_over(g);
			continue;
		}
		if (g->state != GROUP_IS_OVER) {
			is_over(g, -ECONNRESET, (uint16_t)g->rank);
			requests_end(g, -ECONNRESET);
		}
		set_waits(g, false);
		g->no_place = true;
	}
	return 0;
}

static void
free_all(struct pmx_context *ctx)
{
	struct pmx_group *g;

	OF_CONTEXT(ctx, g)
		group_free(g);
	free(ctx->groups);
	ctx->groups = NULL;
}

const struct client_service client_group = {
	.name = "group",
	.close = free_all,
	.completions = COMPLETION_GROUP,
	.results = results,
	.progress = progress,
	.landed = landed,
	.event = next_event,
	.leave = group_client_leave,
};

/* ------------------------------------------------------------------ opening and closing */

static int
by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pmx_addr));
}

/* Return the own rank, or -EINVAL if the list cannot be that of a group of this context;
 * -ENOMEM. */
static int
own_rank(const struct pmx_context *ctx, const struct pmx_group_params *p)
{
	const struct pmx_addr self = pmx_context_addr(ctx);
	int rank = -EINVAL;

	if (p->id == 0 || p->count == 0 || p->count > ctx->shm->group_members || p->members == NULL)
		return -EINVAL;
	struct pmx_addr *sorted = malloc(p->count * sizeof(*sorted));

	if (sorted == NULL)
		return -ENOMEM;
	memcpy(sorted, p->members, p->count * sizeof(*sorted));
	qsort(sorted, p->count, sizeof(*sorted), by_address);
	for (uint32_t i = 0; i < p->count; i++) {
		if (by_address(&p->members[i], &self) == 0)
			rank = (int)i;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		if (sorted[i].context >= WIRE_CONTEXTS_MAX ||
			(i > 0 && by_address(&sorted[i - 1], &sorted[i]) == 0))
			rank = -EINVAL;
	}
	free(sorted);
	return rank;
}

/* Return a free handle, or -ENOSPC. */
static int
free_handle(const struct pmx_context *ctx)
{
	for (unsigned h = 0; h < GROUPS_OF_CONTEXT && h < ctx->shm->groups; h++) {
		if (ctx->groups->of[h] == NULL)
			return (int)h;
	}
	return -ENOSPC;
}

static struct pmx_group *
group_client_make(struct pmx_context *ctx, const struct pmx_group_params *p, int64_t timeout_us,
	uint32_t rank, uint16_t handle)
{
	const uint32_t locks = ctx->shm->group_locks;
	struct pmx_group *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	*g = (struct pmx_group){
		.ctx = ctx,
		.handle = handle,
		.id = p->id,
		.rank = rank,
		.count = p->count,
		.timeout_us = timeout_us,
		.listed = NO_REQUEST,
		.because = NOBODY,
		.opening = NO_REQUEST,
		.barrier = NO_REQUEST,
		.locks = calloc(locks, sizeof(*g->locks)),
		.lock_count = locks,
		.members = calloc(p->count, sizeof(*g->members)),
		.gone = calloc(p->count, sizeof(*g->gone)),
	};
	ctx->groups->of[handle] = g;
	if (g->locks == NULL || g->members == NULL || g->gone == NULL) {
		group_free(g);
		return NULL;
	}
	for (uint32_t i = 0; i < p->count; i++)
		g->members[i].addr = p->members[i];
	for (uint32_t l = 0; l < locks; l++)
		g->locks[l].request = NO_REQUEST;
	while (rank == 0 && g->random == 0) {
		if (getrandom(&g->random, sizeof(g->random), 0) != sizeof(g->random))
			g->random = 0; /* a signal came */
	}
	return g;
}

int
pmx_group_open(struct pmx_context *ctx, const struct pmx_group_params *params, int64_t timeout_us,
	struct pmx_group **group, pmx_request *request)
{
	struct pmx_group_params p;
	int rank, handle, result = params_read(&p, sizeof(p), params);

	if (result != 0)
		return result;

	if (ctx_gone(ctx))
		return -EPIPE;
	if (request == NULL)
		return -EINVAL;
	rank = own_rank(ctx, &p);
	if (rank < 0)
		return rank;
	if (ctx->groups == NULL)
		ctx->groups = calloc(1, sizeof(*ctx->groups));
	if (ctx->groups == NULL)
		return -ENOMEM;
	ctx_completions(ctx);
	handle = free_handle(ctx);
	if (handle < 0)
		return handle;
	struct pmx_group *g = group_client_make(ctx, &p, timeout_us, (uint32_t)rank,
		(uint16_t)handle);

	if (g == NULL)
		return -ENOMEM;
	result = lend_request(ctx, &g->opening, request);
	if (result != 0) {
		group_free(g);
		return result;
	}
	proceed(g);
	*group = g;
	return 0;
}

void
pmx_group_close(struct pmx_group *g)
{
	if (g == NULL)
		return;
	g->because = NOBODY;
	requests_end(g, -ECANCELED);
	for (const struct client_service *const *s = g->ctx->node->services; *s != NULL; s++) {
		if ((*s)->group_closes != NULL)
			(*s)->group_closes(g);
	}
	g->state = GROUP_CLOSES;
	if (g->no_place || g->listed == NO_REQUEST)
		group_over(g);
	else
		proceed(g);
}

/* ------------------------------------------------------------------ asking */

struct pmx_context *
pmx_group_context(const struct pmx_group *g)
{
	return g->ctx;
}

uint32_t
pmx_group_id(const struct pmx_group *g)
{
	return g->id;
}

uint32_t
pmx_group_rank(const struct pmx_group *g)
{
	return g->rank;
}

uint32_t
pmx_group_size(const struct pmx_group *g)
{
	return g->count;
}

int
pmx_group_member(const struct pmx_group *g, uint32_t rank, struct pmx_addr *member)
{
	if (rank >= g->count)
		return -EINVAL;
	const struct member_note *m = &g->members[rank];

	if (member != NULL)
		*member = m->addr;
	return member_check(m);
}

int
pmx_group_area_register(struct pmx_group *g, uint32_t id, void *addr, uint64_t len, unsigned access,
	struct pmx_remote *remote)
{
	if (id == REGION_NO_AREA || access & PMX_ANYONE)
		return -EINVAL;
	int result = ctx_group_check(g);

	return result != 0 ? result : ctx_register(g->ctx, g->id, id, addr, len, access, remote);
}

int
pmx_group_barrier(struct pmx_group *g, pmx_request *request)
{
	int result = ctx_group_check_ask(g, request);

	if (result != 0)
		return result;
	if (g->barrier != NO_REQUEST)
		return -EBUSY;
	result = lend_request(g->ctx, &g->barrier, request);
	return result != 0 ? result : ctx_group_submit(g, GROUP_ENTER, 0);
}

int
pmx_group_lock(struct pmx_group *g, uint32_t lock, unsigned flags, pmx_request *request)
{
	if (lock >= g->lock_count || flags & ~PMX_TRY)
		return -EINVAL;
	int result = ctx_group_check_ask(g, request);
	struct lock_note *l = &g->locks[lock];

	if (result != 0)
		return result;
	if (l->held || l->request != NO_REQUEST)
		return -EDEADLK;
	result = lend_request(g->ctx, &l->request, request);
	return result != 0 ? result
			   : ctx_group_submit(g, flags & PMX_TRY ? GROUP_TRY : GROUP_LOCK, lock);
}

int
pmx_group_unlock(struct pmx_group *g, uint32_t lock)
{
	if (lock >= g->lock_count)
		return -EINVAL;
	struct lock_note *l = &g->locks[lock];
	const bool manager_gone = g->members[lock % g->count].gone;

	if (!l->held)
		return -EPERM;
	if (ctx_gone(g->ctx))
		return -EPIPE;
	if (g->state == GROUP_IS_OPEN && ctx_group_submit(g, GROUP_UNLOCK, lock) != 0)
		return -EAGAIN;
	l->held = false;
	return g->state != GROUP_IS_OPEN || manager_gone ? -EHOSTDOWN : 0;
}
