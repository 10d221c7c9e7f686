/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast by a list (RHI-MC, multicast B; RHiNET, 1999, section 2.8): a push to each member of a
 * set, as one request. An update of a shared region is one to those that share it (share.c). Runs
 * in the context's thread.
 *
 * Design notes
 * 1. The engine sends a few frames of each push in turns, so all receivers get piece by piece, and
 *    the bytes of a piece are still in the cache for the next receiver. They are read in place, or
 *    packed here, as of any push.
 * 2. Multicasts leave half of the context's transfers to others, but each has one under way.
 * 3. A multicast is in use until its last push has ended, even if the group is closed before, since
 *    their status words are in it.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/group.h"
#include "rma/region.h"

#define MULTICASTS_MAX 8 /* under way of a group */

struct pmx_group_set {
	uint32_t count;
	uint16_t ranks[];
};

struct multicast {
	bool used;
	uint32_t region;              /* an update of that one, or NO_REGION */
	uint32_t number;              /* updates: their order */
	bool held;                    /* an update that is not granted yet */
	uint32_t request;             /* or NO_REQUEST */
	uint32_t count, begun, ended; /* of the receivers: all; whose push was begun; the first of
				       * those has not ended, or all have */
	struct pmx_multicast m;
	uint16_t *ranks; /* `count` of the receivers */
	int32_t *status; /* of their pushes: 1: it has not ended */
};

/* An update of which the engine must hear that it has ended. */
static bool
owes_updated(const struct pmx_group *g, const struct multicast *c)
{
	return c->region != NO_REGION && !c->held && g->state == GROUP_IS_OPEN;
}

/* ------------------------------------------------------------------ sets */

int
pmx_group_set(struct pmx_group *g, const uint32_t *ranks, uint32_t count,
	struct pmx_group_set **set)
{
	if (count == 0 || count > g->count || ranks == NULL)
		return -EINVAL;
	struct pmx_group_set *s = malloc(sizeof(*s) + count * sizeof(s->ranks[0]));
	uint8_t *seen = calloc(g->count, 1);
	int result = s == NULL || seen == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < count && result == 0; i++) {
		if (ranks[i] >= g->count || seen[ranks[i]]++)
			result = -EINVAL;
		else
			s->ranks[i] = (uint16_t)ranks[i];
	}
	free(seen);
	if (result != 0) {
		free(s);
		return result;
	}
	s->count = count;
	*set = s;
	return 0;
}

void
pmx_group_set_free(struct pmx_group_set *set)
{
	free(set);
}

/* ------------------------------------------------------------------ under way */

/* Begins the push to receiver i. false: not now. */
static bool
begin_one(struct pmx_group *g, struct multicast *c, uint32_t i)
{
	const struct member_note *member = &g->members[c->ranks[i]];
	const struct pmx_transfer t = {
		.peer = member->addr,
		.flags = PMX_AREA | TRANSFER_KEEPS_TWIN | c->m.flags,
		.key = (uint64_t)g->id << 32 | c->m.area,
		.remote = c->m.remote,
		.local = c->m.local,
		.len = c->m.len,
		.immediate = c->m.immediate,
		.status = &c->status[i],
		.part = c->m.part,
	};
	int result = member_check(member);

	if (result == 0)
		result = transfers_push(g->ctx, &t, NULL);

	if (result == -EAGAIN)
		return false;
	if (result != 0)
		c->status[i] = result;
	return true;
}

/* How many of the pushes that were begun have not ended. */
static uint32_t
under_way(struct multicast *c)
{
	uint32_t n = 0;

	while (c->ended < c->begun && c->status[c->ended] <= 0)
		c->ended++;
	for (uint32_t i = c->ended; i < c->begun; i++)
		n += c->status[i] > 0;
	return n;
}

static void
put_back(struct pmx_group *g, struct multicast *c)
{
	free(c->ranks);
	free(c->status);
	*c = (struct multicast){.request = NO_REQUEST};
	g->multicasting--;
	g->ctx->unfinished--;
}

/* All pushes have ended. */
static void
finish(struct pmx_group *g, struct multicast *c)
{
	int error = 0;
	uint16_t because = NOBODY;

	for (uint32_t i = c->count; i-- > 0;) {
		if (c->status[i] == 0)
			continue;
		error = c->status[i];
		because = c->ranks[i];
	}
	if (c->request != NO_REQUEST) {
		for (uint32_t i = 0; i < c->count && c->m.failed != NULL; i++) {
			const uint64_t bit = (uint64_t)(c->status[i] != 0) << i % 64;

			c->m.failed[i / 64] = (i % 64 == 0 ? 0 : c->m.failed[i / 64]) | bit;
		}
		if (c->m.part != NULL && c->m.part->kind == PMX_PART_DIFF)
			memcpy(c->m.part->twin, c->m.local, c->m.len);
	}
	if (owes_updated(g, c))
		ctx_group_submit(g, GROUP_UPDATED, c->region);
	ctx_group_request_ends(g, &c->request, error, because, 0);
	put_back(g, c);
}

static void
proceed(struct pmx_group *g, struct multicast *c)
{
	if (c->held)
		return;
	uint32_t out = under_way(c);

	while (c->begun < c->count &&
		(out == 0 || g->ctx->places_free > g->ctx->transfer_count / 2) &&
		begin_one(g, c, c->begun)) {
		out += c->status[c->begun] > 0;
		c->begun++;
	}
	if (c->begun == c->count && under_way(c) == 0 &&
		(!owes_updated(g, c) || slot_room(&g->ctx->sub, 1)))
		finish(g, c);
}

void
multicasts_proceed(struct pmx_group *g)
{
	if (g->multicasts == NULL || g->proceeding)
		return; /* beginning a push takes completions, and these come here */
	g->proceeding = true;
	for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
		if (g->multicasts[i].used)
			proceed(g, &g->multicasts[i]);
	}
	g->proceeding = false;
}

void
multicasts_abandon(struct pmx_group *g, int error)
{
	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		struct multicast *c = &g->multicasts[i];

		if (!c->used)
			continue;
		ctx_group_request_ends(g, &c->request, error, g->because, 0);
		/* no more are begun */
		c->count = c->begun;
		c->held = false;
		c->region = NO_REGION;
	}
	multicasts_proceed(g);
}

void
multicasts_free(struct pmx_group *g)
{
	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		if (g->multicasts[i].used)
			put_back(g, &g->multicasts[i]);
	}
	free(g->multicasts);
}

/* ------------------------------------------------------------------ the verb */

static struct multicast *
take(struct pmx_group *g)
{
	for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
		if (!g->multicasts[i].used)
			return &g->multicasts[i];
	}
	return NULL;
}

static int
check(const struct pmx_multicast *m)
{
	const struct pmx_transfer t = {
		.flags = PMX_AREA | m->flags,
		.local = m->local,
		.len = m->len,
		.part = m->part,
	};

	return m->flags & ~PMX_NOTIFY ? -EINVAL : transfers_push_check(&t);
}

/* Takes one with places for so many receivers, but none yet. 0, or an error of the verb. */
static int
make(struct pmx_group *g, const struct pmx_multicast *m, uint32_t room, pmx_request *request,
	struct multicast **made)
{
	if (g->multicasts == NULL)
		g->multicasts = calloc(MULTICASTS_MAX, sizeof(*g->multicasts));
	if (g->multicasts == NULL)
		return -ENOMEM;
	ctx_completions(g->ctx);
	struct multicast *c = take(g);

	if (c == NULL)
		return -EAGAIN;
	*c = (struct multicast){
		.region = NO_REGION,
		.request = NO_REQUEST,
		.m = *m,
		.ranks = malloc(room * sizeof(*c->ranks)),
		.status = malloc(room * sizeof(*c->status)),
	};
	int result = c->ranks == NULL || c->status == NULL
		? -ENOMEM
		: lend_request(g->ctx, &c->request, request);

	if (result != 0) {
		free(c->ranks);
		free(c->status);
		*c = (struct multicast){0};
		return result;
	}
	for (uint32_t i = 0; i < room; i++)
		c->status[i] = 1;
	c->used = true;
	g->multicasting++;
	g->ctx->unfinished++;
	*made = c;
	return 0;
}

int
pmx_group_multicast(struct pmx_group *g, const struct pmx_multicast *m, pmx_request *request)
{
	struct multicast *c;
	int result = m->set == NULL || m->area == REGION_NO_AREA ? -EINVAL : check(m);

	result = result == 0 ? ctx_group_check(g) : result;
	if (result == 0 && request == NULL)
		result = -EINVAL;
	if (result == 0)
		result = make(g, m, m->set->count, request, &c);
	if (result != 0)
		return result;
	c->count = m->set->count;
	memcpy(c->ranks, m->set->ranks, c->count * sizeof(*c->ranks));
	multicasts_proceed(g);
	return 0;
}

/* ------------------------------------------------------------------ updates */

int
multicast_update(struct pmx_group *g, uint32_t region, const struct pmx_multicast *m,
	pmx_request *request)
{
	struct multicast *c;
	int result = check(m);

	result = result == 0 ? ctx_group_check_ask(g, request) : result;
	if (result == 0)
		result = make(g, m, g->count, request, &c);
	if (result != 0)
		return result;
	c->region = region;
	c->held = true;
	c->number = g->updates++;
	/* there is room: only this thread submits, and making it submits nothing */
	return ctx_group_submit(g, GROUP_UPDATES, region);
}

void
multicast_granted(struct pmx_group *g, uint32_t region, const uint32_t *sharers, int error)
{
	struct multicast *c = NULL;

	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		struct multicast *other = &g->multicasts[i];

		if (other->used && other->held && other->region == region &&
			(c == NULL || (int32_t)(other->number - c->number) < 0))
			c = other;
	}
	if (c == NULL)
		return;
	c->held = false;
	if (error != 0) {
		c->region = NO_REGION; /* the engine has not begun it */
		ctx_group_request_ends(g, &c->request, error, (uint16_t)(region % g->count), 0);
		put_back(g, c);
		return;
	}
	for (uint32_t rank = 0; rank < g->count; rank++) {
		if (rank != g->rank && sharers[rank / 32] >> rank % 32 & 1)
			c->ranks[c->count++] = (uint16_t)rank;
	}
}
