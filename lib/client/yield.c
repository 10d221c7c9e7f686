/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the library does with the CPU when it finds nothing.
 *
 * PM/UDP (IPSJ 1999) section 3: a library that polls yields the CPU where others need it. Where
 * others run, this yields after one empty poll of each context; otherwise only every 256 polls
 * more, to save system calls. On a contended core (base/contended.h) it sleeps shortly instead.
 */
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/contended.h"
#include "client/client.h"

#define YIELD_EVERY 256 /* empty polls between yields, when nobody else ran at the last one */
/* a yield that took longer let others run; without any it takes 200 to 500 ns */
#define CROWDED_NS  1500

/* Statistics of this thread's recent polls, over all contexts. */
static _Thread_local struct {
	uint32_t empty; /* empty polls since it yielded, or took a message past an engine: such
			 * answers come sooner than a yield would take */
	bool crowded;   /* others ran when it last yielded */
	struct contended contended;
	uint32_t moved; /* what the context had submitted and received at the last nap */
	unsigned nap_us;
} thread;

static uint32_t
contexts_of(const struct pmx_context *ctx)
{
	return atomic_load_explicit(&ctx->node->context_count, memory_order_relaxed);
}

/* Yield the CPU. Return false, and do nothing, if a yield takes too long here. */
static bool
yielded(void)
{
	const uint64_t before = (uint64_t)clock_ns();

	thread.empty = 0;
	if (is_contended(&thread.contended, before))
		return false;
	sched_yield();
	const uint64_t after = (uint64_t)clock_ns();

	thread.crowded = after - before > CROWDED_NS;
	contended_yielded(&thread.contended, before, after, 1000);
	return true;
}

void
ctx_pause(struct pmx_context *ctx)
{
	const struct timespec t = {.tv_nsec = CONTENDED_NAP_US * 1000};

	if (yielded())
		return;
	ctx_ring_before_sleep(ctx);
	nanosleep(&t, NULL);
}

/* Return how long to nap: the double of the last time while the context moves nothing, unless the
 * node's other contexts would wait for it. */
static unsigned
nap_us(const struct pmx_context *ctx)
{
	const uint32_t moved = ctx->sub.pos + ctx->lhs.pos + ctx->com.pos;
	const unsigned twice = thread.nap_us * 2;

	thread.nap_us = moved != thread.moved || twice == 0 || contexts_of(ctx) > 1
		? CONTENDED_NAP_US
		: twice < CONTENDED_NAP_MOST_US ? twice
						: CONTENDED_NAP_MOST_US;
	thread.moved = moved;
	return thread.nap_us;
}

void
ctx_step_aside(struct pmx_context *ctx)
{
	if (!ctx->yields)
		return;
	/* no descriptor; or somebody waits for it, or is about to */
	if (ctx->node->embedded != NULL || ctx->armed)
		ctx_pause(ctx);
	else if (!yielded())
		ctx_nap(ctx, nap_us(ctx));
}

void
ctx_yield(struct pmx_context *ctx)
{
	const uint32_t turn = contexts_of(ctx);

	if (ctx->yields && ++thread.empty >= (thread.crowded ? turn : turn + YIELD_EVERY))
		ctx_step_aside(ctx);
}

void
ctx_not_idle(void)
{
	thread.empty = 0;
}
