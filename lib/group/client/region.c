/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared regions, on the application's side (RHI-SUB; RHiNET, 1999, section 2.9): subscribing and
 * unsubscribing are the engines' work (lib/group/region.c); an update is a multicast from here, to
 * those that share the region when the engine grants it. Runs in the context's thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "group/client/group.h"
#include "group/group.h"

enum region_state { REGION_OUT, REGION_COMES, REGION_IN, REGION_GOES };

/* Make the notes of all regions. false: memory is short. */
static bool
make_notes(struct pmx_group *g)
{
	const uint32_t count = g->ctx->shm->group_regions, words = (g->count + 31) / 32;

	if (g->regions != NULL)
		return true;
	g->regions = calloc(count, sizeof(*g->regions));
	uint32_t *all = calloc((size_t)count * words * 2, sizeof(*all));

	if (g->regions == NULL || all == NULL) {
		free(g->regions);
		free(all);
		g->regions = NULL;
		return false;
	}
	for (uint32_t r = 0; r < count; r++) {
		g->regions[r].request = NO_REQUEST;
		g->regions[r].sharers = all + (size_t)r * words * 2;
		g->regions[r].came = g->regions[r].sharers + words;
	}
	return true;
}

void
shares_free(struct pmx_group *g)
{
	if (g->regions != NULL)
		free(g->regions[0].sharers);
	free(g->regions);
	g->regions = NULL;
}

void
shares_end(struct pmx_group *g, int error)
{
	for (uint32_t r = 0; g->regions != NULL && r < g->ctx->shm->group_regions; r++)
		ctx_group_request_ends(g, &g->regions[r].request, error, g->because, r);
}

/* Return the region if it is shared here, or NULL. */
static struct region_note *
shared(struct pmx_group *g, uint32_t region)
{
	struct region_note *n = g->regions != NULL && region < g->ctx->shm->group_regions
		? &g->regions[region]
		: NULL;

	return n != NULL && n->state == REGION_IN ? n : NULL;
}

static void
subscribed(struct pmx_group *g, struct region_note *n, uint32_t region, int error, uint16_t because)
{
	n->state = error == 0 ? REGION_IN : REGION_OUT;
	if (error == 0 && n->twin != NULL)
		memcpy(n->twin, (const void *)(uintptr_t)n->addr, n->len);
	ctx_group_request_ends(g, &n->request, error, because, region);
}

static void
came(struct pmx_group *g, struct region_note *n, uint16_t rank)
{
	const uint32_t bit = 1u << rank % 32;

	if (rank >= g->count || n->came[rank / 32] & bit)
		return;
	n->came[rank / 32] |= bit;
	g->came++;
}

void
shares_next_that_came(struct pmx_group *g, uint32_t *region, uint16_t *rank)
{
	*region = 0;
	*rank = 0;
	while (!(g->regions[*region].came[*rank / 32] >> *rank % 32 & 1)) {
		if (++*rank == g->count) {
			*rank = 0;
			++*region;
		}
	}
	g->regions[*region].came[*rank / 32] &= ~(1u << *rank % 32);
	g->came--;
}

void
shares_result(struct pmx_group *g, const struct completion *c)
{
	const uint32_t region = c->item[2], word = c->item[1];
	const int error = -(int)(uint8_t)(c->item[0] >> 8);

	if (g->regions == NULL || region >= g->ctx->shm->group_regions)
		return;
	struct region_note *n = &g->regions[region];

	switch ((uint8_t)c->item[0]) {
	case GROUP_SUBSCRIBED:
		subscribed(g, n, region, error, (uint16_t)c->item[1]);
		break;
	case GROUP_SHARER:
		came(g, n, (uint16_t)word);
		break;
	case GROUP_SHARERS:
		if (word < (g->count + 31) / 32)
			n->sharers[word] = c->item[3];
		break;
	case GROUP_UPDATE:
		multicast_granted(g, region, n->sharers, error, (uint16_t)c->item[1]);
		break;
	case GROUP_UNSUBSCRIBED:
		n->state = error == 0 ? REGION_OUT : REGION_IN;
		ctx_group_request_ends(g, &n->request, error, NOBODY, region);
		break;
	}
}

/* ------------------------------------------------------------------ verbs */

int
pmx_group_subscribe(struct pmx_group *g, uint32_t region, unsigned flags,
	const struct pmx_remote *copy, void *twin, pmx_request *request)
{
	int result = ctx_group_check_ask(g, request);

	if (result != 0)
		return result;
	if (region >= g->ctx->shm->group_regions || flags & ~PMX_NOTIFY || copy == NULL ||
		copy->len == 0)
		return -EINVAL;
	if (!make_notes(g))
		return -ENOMEM;
	struct region_note *n = &g->regions[region];

	if (n->state != REGION_OUT)
		return -EEXIST;
	result = lend_request(g->ctx, &n->request, request);
	if (result != 0)
		return result;
	n->state = REGION_COMES;
	n->addr = copy->addr;
	n->len = copy->len;
	n->twin = twin;
	struct submission *s = ctx_group_begin(g, GROUP_SUBSCRIBE); /* there is room */

	s->group.number = region;
	s->group.value = g->id | (flags & PMX_NOTIFY ? SUBSCRIBE_NOTIFY : 0);
	ctx_group_end(g);
	return 0;
}

int
pmx_group_unsubscribe(struct pmx_group *g, uint32_t region, pmx_request *request)
{
	int result = ctx_group_check_ask(g, request);

	if (result != 0)
		return result;
	struct region_note *n = shared(g, region);

	if (n == NULL)
		return -EINVAL;
	result = lend_request(g->ctx, &n->request, request);
	if (result != 0)
		return result;
	n->state = REGION_GOES;
	return ctx_group_submit(g, GROUP_UNSUBSCRIBE, region);
}

int
pmx_group_update(struct pmx_group *g, const struct pmx_update *u, pmx_request *request)
{
	int result = ctx_group_check(g);

	if (result != 0)
		return result;
	const struct region_note *n = shared(g, u->region);

	if (n == NULL || u->at > n->len || u->len > n->len - u->at)
		return -EINVAL;
	const struct pmx_multicast m = {
		.flags = u->flags,
		.area = PMX_REGION(u->region),
		.remote = u->at,
		.local = (void *)(uintptr_t)(n->addr + u->at),
		.len = u->len,
		.immediate = u->immediate,
		.part = u->part,
	};

	return multicast_update(g, u->region, &m, request);
}
