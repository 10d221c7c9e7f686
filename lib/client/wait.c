/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for messages, for completions, and for either with a descriptor.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

#define SPIN_US      200 /* waiting time before sleeping */
#define NAP_MS       100 /* between looks whether the engine has gone */
#define SENDS_NAP_MS 1   /* the engine does not wake who waits for what it has sent */

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

int
pmx_before_select(struct pmx_context *ctx)
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
	ctx_doorbell(ctx);
	services_sleep(ctx, true);
	/* full fence: the flag must be visible before the last look; pairs with engine_flush's */
	atomic_thread_fence(memory_order_seq_cst);
	bool ended = ctx->tells != 0 && slot_filled(&ctx->com, ctx->com.pos);

	if (ctx->selects && lhs_peek(&ctx->lhs) == NULL && !ctx->news && !ended &&
		!ctx_services_landed(ctx) && !ctx_gone(ctx))
		return 0;
	ctx->news = false;
	pmx_after_select(ctx);
	return 1;
}

void
pmx_after_select(struct pmx_context *ctx)
{
	struct epoll_event event;

	atomic_store_explicit(&ctx->shm->wake_client, 0, memory_order_relaxed);
	/* edge-triggered: this consumes the event if there is one */
	epoll_wait(ctx->event_fd, &event, 1, 0);
	services_sleep(ctx, false);
}

/* Sleep until something comes, at most until `deadline`, and at most for `most` milliseconds. With
 * an embedded engine, run a turn of it instead. */
static void
nap(struct pmx_context *ctx, int64_t deadline, int most)
{
	struct pollfd p = {.fd = ctx->event_fd, .events = POLLIN};

	if (ctx->node->embedded != NULL) {
		if (ctx->node->way->poll(ctx->node) == 0)
			sched_yield();
		return;
	}
	if (pmx_before_select(ctx) != 0)
		return;
	poll(&p, 1, clock_poll_ms(deadline, most));
	pmx_after_select(ctx);
}

void
ctx_sleep(struct pmx_context *ctx, int64_t deadline)
{
	nap(ctx, deadline, NAP_MS);
}

bool
ctx_wait_turn(struct pmx_context *ctx, struct waiting *w, int64_t timeout_us)
{
	const int64_t now = clock_us();

	if (w->spin_until == 0) {
		w->deadline = clock_after(now, timeout_us);
		w->spin_until = now + SPIN_US;
	}
	if (now >= w->deadline)
		return false;
	if (now < w->spin_until)
		ctx_wait(ctx);
	else
		nap(ctx, w->deadline, w->of_sends ? SENDS_NAP_MS : NAP_MS);
	return true;
}

int
pmx_receive_wait(struct pmx_context *ctx, struct pmx_message *msg, int64_t timeout_us)
{
	int64_t deadline = clock_deadline(timeout_us);
	int result;

	while ((result = pmx_receive(ctx, msg)) == 0) {
		if (clock_left(deadline) == 0)
			return 0;
		ctx_sleep(ctx, deadline);
	}
	return result;
}

int
pmx_send_wait(struct pmx_context *ctx, int64_t timeout_us)
{
	struct waiting w = {.of_sends = true};

	while (pmx_sends_pending(ctx) != 0) {
		if (ctx_gone(ctx))
			return -EPIPE;
		if (!ctx_wait_turn(ctx, &w, timeout_us))
			return -ETIMEDOUT;
	}
	return 0;
}

int
pmx_progress(struct pmx_context *ctx)
{
	if (ctx->node->embedded != NULL)
		ctx->node->way->poll(ctx->node);
	ctx_completions(ctx);
	return ctx_gone(ctx) ? -EPIPE : 0;
}

void
ctx_wait(struct pmx_context *ctx)
{
	if (ctx->node->embedded == NULL || ctx->node->way->poll(ctx->node) == 0)
		sched_yield();
}
