/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes that the application watches (lib/engine/watch.h): events are made here, from what the
 * engine says of each now and what the last event told.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/client.h"
#include "core/wire/wire.h"

/* of a word of channel_shm.watch */
#define NODE_OF(word) ((uint16_t)((word) >> 48))
#define IS_UP(word)   (((word) >> 32 & WATCH_UP) != 0)
#define IS_DOWN(word) (((word) >> 32 & WATCH_DOWN) != 0)

/* Return the node that is watched by that place, or WIRE_NOBODY. */
static uint16_t
node_at(const struct pmx_context *ctx, uint32_t place)
{
	return NODE_OF(ctx->watch_seen[place]);
}

/* Return what the engine says now of the node that is watched by that place; 0: nothing yet. */
static uint64_t
word_at(const struct pmx_context *ctx, uint32_t place)
{
	const uint64_t word = atomic_load_explicit(&ctx->shm->watch[place], memory_order_acquire);

	return NODE_OF(word) == node_at(ctx, place) && (IS_UP(word) || IS_DOWN(word)) ? word : 0;
}

/* Return whether there is something to tell of that place. */
static bool
has_news(const struct pmx_context *ctx, uint32_t place)
{
	const uint64_t word = word_at(ctx, place);

	return word != 0 && word != ctx->watch_seen[place] &&
		(IS_UP(word) || !IS_DOWN(ctx->watch_seen[place]));
}

static bool
watch_landed(struct pmx_context *ctx)
{
	for (uint32_t i = 0; i < ctx->watches; i++) {
		if (has_news(ctx, i))
			return true;
	}
	return false;
}

static bool
watch_event(struct pmx_context *ctx, struct pmx_event *event)
{
	for (uint32_t i = 0; i < ctx->watches; i++) {
		if (!has_news(ctx, i))
			continue;
		const uint64_t word = word_at(ctx, i);
		const uint16_t node = node_at(ctx, i);
		/* up in another life than was told: it has been down meanwhile */
		const bool up = IS_UP(word) && !IS_UP(ctx->watch_seen[i]);

		ctx->watch_seen[i] = up ? word : WATCH_WORD(node, WATCH_DOWN, 0);
		*event = (struct pmx_event){up ? PMX_EVENT_NODE_UP : PMX_EVENT_NODE_DOWN,
			{node, PMX_ANY_CONTEXT}, 0, 0, up ? 0 : -EHOSTUNREACH};
		return true;
	}
	return false;
}

/* Have the engine look at the watched nodes; there is room in the ring. */
static void
watch_submit(struct pmx_context *ctx)
{
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = SUBMIT_WATCH;
	s->count = 0;
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx_doorbell(ctx);
}

static void
set_place(struct pmx_context *ctx, uint32_t place, uint16_t node)
{
	atomic_store_explicit(&ctx->shm->watched[place], node, memory_order_relaxed);
	ctx->watch_seen[place] = WATCH_WORD(node, 0, 0);
	/* what the engine said when the place was last used; it says so again if it is true */
	atomic_store_explicit(&ctx->shm->watch[place], 0, memory_order_relaxed);
}

/* Return the place that watches the node, or a free one if the node is WIRE_NOBODY; ctx->watches:
 * there is no such place. */
static uint32_t
watch_place_of(const struct pmx_context *ctx, uint16_t node)
{
	uint32_t i = 0;

	while (i < ctx->watches && node_at(ctx, i) != node)
		i++;
	return i;
}

int
pmx_context_watch(struct pmx_context *ctx, uint16_t node)
{
	if (ctx_gone(ctx))
		return -EPIPE;
	if (node == WIRE_NOBODY)
		return -EINVAL;
	if (watch_place_of(ctx, node) < ctx->watches)
		return 0;
	const uint32_t place = watch_place_of(ctx, WIRE_NOBODY);

	if (place == WATCHES_MAX)
		return -ENOSPC;
	if (!slot_room(&ctx->sub, 1))
		return -EAGAIN;
	if (ctx->watch_seen == NULL &&
		(ctx->watch_seen = calloc(WATCHES_MAX, sizeof(*ctx->watch_seen))) == NULL)
		return -ENOMEM;
	set_place(ctx, place, node);
	if (place == ctx->watches)
		ctx->watches++;
	atomic_store_explicit(&ctx->shm->watches, ctx->watches, memory_order_release);
	watch_submit(ctx);
	return 0;
}

int
pmx_context_unwatch(struct pmx_context *ctx, uint16_t node)
{
	const uint32_t place = node != WIRE_NOBODY ? watch_place_of(ctx, node) : ctx->watches;

	if (place == ctx->watches)
		return -ENOENT;
	set_place(ctx, place, WIRE_NOBODY);
	while (ctx->watches > 0 && node_at(ctx, ctx->watches - 1) == WIRE_NOBODY)
		ctx->watches--;
	atomic_store_explicit(&ctx->shm->watches, ctx->watches, memory_order_release);
	return 0;
}

/* Have the new channel watch what the old one did; what was told stays so. */
static void
watch_rejoined(struct pmx_context *ctx)
{
	if (ctx->watches == 0)
		return;
	for (uint32_t i = 0; i < ctx->watches; i++)
		atomic_store_explicit(&ctx->shm->watched[i], node_at(ctx, i), memory_order_relaxed);
	atomic_store_explicit(&ctx->shm->watches, ctx->watches, memory_order_release);
	watch_submit(ctx);
}

static void
watch_close(struct pmx_context *ctx)
{
	free(ctx->watch_seen);
}

const struct client_service client_watch = {
	.name = "watch",
	.close = watch_close,
	.landed = watch_landed,
	.event = watch_event,
	.rejoined = watch_rejoined,
};
