/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bounce buffers. Where the engine cannot reach an application's private memory (a thin client's),
 * transfers to and from it go through memory that both map, and are copied here. Buffers are kept
 * for later transfers. Runs in the context's thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "rma/client/rma.h"

#define LEAST (64u << 10)

static uint64_t
bounce_rounded(uint64_t len)
{
	uint64_t all = LEAST;

	while (all < len)
		all *= 2;
	return all;
}

/* Free a buffer that is not in use. Return whether there was one. */
static bool
free_idle(struct pmx_context *ctx, struct bounce *b)
{
	if (b == NULL || b->at == NULL)
		return false;
	pmx_free(ctx, b->at);
	b->at = NULL;
	return true;
}

/* Return the user's longest buffer that is not in use, or NULL. */
static struct bounce *
longest_idle(struct pmx_context *ctx, enum bounce_user user)
{
	struct bounce *longest = NULL;

	for (unsigned i = 0; i < BOUNCES_MAX; i++) {
		struct bounce *b = &ctx->rma->bounces[user][i];

		if (b->at != NULL && !b->used && (longest == NULL || b->len > longest->len))
			longest = b;
	}
	return longest;
}

int
bounce_get(struct pmx_context *ctx, enum bounce_user user, uint64_t len, unsigned most, void **at)
{
	struct bounce *empty = NULL, *spare = NULL;
	unsigned used = 0;

	for (unsigned i = 0; i < BOUNCES_MAX; i++) {
		struct bounce *b = &ctx->rma->bounces[user][i];

		used += b->used;
		if (b->used)
			continue;
		if (b->at == NULL)
			empty = b;
		else if (b->len >= len && b->len <= 4 * bounce_rounded(len))
			spare = b;
		else if (empty == NULL)
			empty = b; /* of an unsuitable size: may be replaced */
	}
	if (used >= most)
		return -EAGAIN;
	if (spare != NULL) {
		spare->used = true;
		*at = spare->at;
		return 0;
	}
	/* pmx_free() below needs a slot to tell the engine */
	if (empty == NULL || !slot_room(&ctx->sub, 1))
		return -EAGAIN;
	bool freed = free_idle(ctx, empty);
	int result = pmx_alloc(ctx, bounce_rounded(len), &empty->at);

	/* others that are idle may hold the memory */
	while (result != 0 && result != -EPIPE && slot_room(&ctx->sub, 1) &&
		free_idle(ctx, longest_idle(ctx, user))) {
		freed = true;
		result = pmx_alloc(ctx, bounce_rounded(len), &empty->at);
	}
	if (result != 0) {
		empty->at = NULL;
		/* a later attempt may succeed: buffers in use come back, or the engine has not yet
		 * read what was freed */
		return result == -EPIPE || !(used != 0 || freed) ? result : -EAGAIN;
	}
	empty->len = bounce_rounded(len);
	empty->used = true;
	*at = empty->at;
	return 0;
}

void
bounce_put(struct pmx_context *ctx, enum bounce_user user, const void *at)
{
	struct bounce *b = ctx->rma->bounces[user];

	for (unsigned i = 0; i < BOUNCES_MAX; i++, b++) {
		if (b->at == at) {
			b->used = false;
			return;
		}
	}
}

void
bounces_leave(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	for (unsigned i = 0; i < BOUNCE_USERS * BOUNCES_MAX; i++) {
		struct bounce *b = &rma->bounces[i / BOUNCES_MAX][i % BOUNCES_MAX];

		if (b->at != NULL)
			piece_unmap(ctx, b->at);
		*b = (struct bounce){0};
	}
}
