/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Giving receive buffers back.
 *
 * Up to 14 are given back in one submission; at the latest when the application finds nothing to
 * receive, or sleeps. The list has a place for each buffer that the application may hold, so giving
 * one back never waits for the engine.
 */
#include "client/client.h"

void
ctx_flush_releases(struct pmx_context *ctx)
{
	if (ctx->release_count == 0 || !slot_room(&ctx->sub, 1))
		return;
	do {
		struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;
		uint32_t n = ctx->release_count < SUBMIT_RELEASE_BUFS ? ctx->release_count
								      : SUBMIT_RELEASE_BUFS;

		ctx->release_count -= n;
		s->op = SUBMIT_RELEASE;
		s->count = (uint16_t)n;
		memcpy(s->release, ctx->release + ctx->release_count, n * sizeof(ctx->release[0]));
		slot_publish(&ctx->sub, ctx->sub.pos++);
	} while (unlikely(ctx->release_count != 0 && slot_room(&ctx->sub, 1)));
	ctx_doorbell(ctx);
}

static APART void
release_checked(struct pmx_context *ctx, uint32_t bulk)
{
	/* if the list is full, the application gave some back twice, which the engine would
	 * refuse */
	if (ctx->release_count < ctx->release_room)
		ctx->release[ctx->release_count++] = bulk;
	if (ctx->release_count >= ctx->release_most)
		ctx_flush_releases(ctx);
}

static inline void
receive_release(struct pmx_context *ctx, uint32_t bulk)
{
	if (unlikely(ctx->release_count + 1 >= ctx->release_most))
		release_checked(ctx, bulk);
	else
		ctx->release[ctx->release_count++] = bulk;
}

/* Give back a message that does not lie in this channel's buffers. */
static APART void
release_other(struct pmx_context *ctx, struct pmx_message *msg)
{
	if (ctx->plain != NULL)
		ctx->aside->give_back(ctx, msg);
	msg->bulk = LHS_NO_BULK;
}

void
pmx_release_receive_buffer(struct pmx_context *ctx, struct pmx_message *msg)
{
	uint32_t bulk = msg->bulk;

	if (bulk == LHS_NO_BULK)
		return;
	if (unlikely(((bulk ^ ctx->life) & BULK_LIFE_MASK) != 0)) {
		release_other(ctx, msg);
		return;
	}
	msg->bulk = LHS_NO_BULK;
	receive_release(ctx, bulk & ~BULK_LIFE_MASK);
}

void
ctx_release(struct pmx_context *ctx, uint32_t bulk)
{
	receive_release(ctx, bulk);
}
