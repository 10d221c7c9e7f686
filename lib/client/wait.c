/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for messages and for completions.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "client/client.h"

#define SPIN_US      200 /* waiting time before sleeping */
#define NAP_MS       100 /* between looks whether the engine has gone */
#define SENDS_NAP_MS 1   /* the engine does not wake who waits for what it has sent */

/* Sleep until something comes, at most until `deadline`, and at most for `most` milliseconds. With
 * an embedded engine, run a turn of it instead. */
static void
wait_asleep(struct pmx_context *ctx, int64_t deadline, int most)
{
	struct pollfd p = {.fd = ctx->event_fd, .events = POLLIN};

	if (ctx->node->embedded != NULL) {
		ctx_wait(ctx);
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
	wait_asleep(ctx, deadline, NAP_MS);
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
		wait_asleep(ctx, w->deadline, w->of_sends ? SENDS_NAP_MS : NAP_MS);
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
	const unsigned work = ctx->node->embedded != NULL ? ctx->node->way->poll(ctx->node) : 0;
	const uint32_t ends = ctx->com.pos;

	ctx_completions(ctx);
	if (ctx_gone(ctx))
		return -EPIPE;
	if (work == 0 && ctx->com.pos == ends)
		ctx_step_aside(ctx);
	return 0;
}

void
ctx_wait(struct pmx_context *ctx)
{
	if (ctx->node->embedded == NULL || ctx->node->way->poll(ctx->node) == 0)
		ctx_pause(ctx);
}
