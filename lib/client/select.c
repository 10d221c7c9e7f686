/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sleeping until something comes for the context: its descriptor, and what is to be done before and
 * after.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/contended.h"
#include "client/client.h"

int
pmx_get_fd(const struct pmx_context *ctx)
{
	return ctx->event_fd;
}

static void
services_sleep(struct pmx_context *ctx, bool sleeps)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->sleeps != NULL)
			(*s)->sleeps(ctx, sleeps);
	}
}

/* Have the context's descriptor made readable by what comes from now on. Return whether nothing
 * has come before. The descriptor stays as it is where the submission ring has no room
 * (ctx->selects). */
static bool
select_begin(struct pmx_context *ctx)
{
	ctx_flush_releases(ctx);
	ctx_completions(ctx);
	if (unlikely(ctx->unread) && lhs_peek(&ctx->lhs) == NULL)
		ctx_take_ring(ctx);
	STEP();
	atomic_store_explicit(&ctx->shm->wake_client, 1, memory_order_relaxed);
	STEP();
	if (!ctx->selects && slot_room(&ctx->sub, 1)) {
		struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

		s->op = SUBMIT_SELECT;
		s->count = 0;
		slot_publish(&ctx->sub, ctx->sub.pos++);
		ctx->selects = true;
	}
	ctx_ring_before_sleep(ctx);
	services_sleep(ctx, true);
	/* full fence: the flag must be visible before the last look; pairs with engine_flush's */
	atomic_thread_fence(memory_order_seq_cst);
	bool ended = ctx->tells != 0 && slot_filled(&ctx->com, ctx->com.pos);

	return lhs_peek(&ctx->lhs) == NULL && !ended && !ctx_services_landed(ctx) && !ctx_gone(ctx);
}

int
pmx_before_select(struct pmx_context *ctx)
{
	if (select_begin(ctx) && ctx->selects && !ctx->news) {
		ctx->armed = true;
		return 0;
	}
	ctx->news = false;
	pmx_after_select(ctx);
	return 1;
}

void
pmx_after_select(struct pmx_context *ctx)
{
	struct epoll_event event;

	ctx->armed = false;
	atomic_store_explicit(&ctx->shm->wake_client, 0, memory_order_relaxed);
	/* edge-triggered: this consumes the event if there is one */
	epoll_wait(ctx->event_fd, &event, 1, 0);
	services_sleep(ctx, false);
}

void
ctx_nap(struct pmx_context *ctx, unsigned us)
{
	const struct timespec t = {.tv_nsec = us * 1000L};
	const struct timespec shortly = {.tv_nsec = CONTENDED_NAP_US * 1000L};
	struct pollfd p = {.fd = ctx->event_fd, .events = POLLIN};
	const bool news = ctx->news;

	ctx->news = false;
	if (select_begin(ctx) && !ctx->news)
		ppoll(&p, 1, &t, NULL);
	else if (!ctx->news) /* something is there that the caller does not take */
		nanosleep(&shortly, NULL);
	pmx_after_select(ctx);
	ctx->news |= news;
}
