/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See preempt.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>

#include "engine/local.h"
#include "engine/turns.h"
#include "preempt/engine/park.h"
#include "preempt/engine/preempt.h"

#define SETTLE_US 20 /* between looks at contexts that drain */
#define SLEEP_US  50 /* ... of a lane that sleeps */

/* The state of a lane. */
struct draining {
	unsigned count;     /* its contexts that are PREEMPTED_DRAINS */
	uint64_t settle_at; /* tsc of the next look at them */
	uint64_t until[];   /* tsc until which each may drain, by context */
};

static struct draining *
draining_of(const struct engine *e)
{
	return e->service[PREEMPT_SERVICE];
}

static uint64_t
ticks(uint32_t us)
{
	return rte_get_tsc_hz() / 1000000 * us;
}

static enum preempted
state_of(const struct channel *ch)
{
	return atomic_load_explicit(&ch->preempted, memory_order_relaxed);
}

static void
becomes(struct engine *e, struct channel *ch, enum preempted state)
{
	draining_of(e)->count += (state == PREEMPTED_DRAINS) - (state_of(ch) == PREEMPTED_DRAINS);
	if (state == PREEMPTED_DRAINS)
		service_busy(e, PREEMPT_SERVICE);
	ch->stopped = state != PREEMPTED_NOT;
	atomic_store_explicit(&ch->shm->stopped, ch->stopped, memory_order_relaxed);
	atomic_store_explicit(&ch->preempted, state, memory_order_release);
}

static void
stop_services(struct engine *e, struct channel *ch)
{
	SERVICE_FOREACH(ops, e->services) {
		if (ops->stop != NULL)
			ops->stop(e, ch);
	}
}

static void preempt_engine_settle(struct engine *e);

/* Stop the context, or do nothing if it is stopped or not open. drain_us: how long what it has
 * under way may take. */
static void
preempt_stop(struct engine *e, struct channel *ch, uint32_t drain_us)
{
	if (ch->state != CHANNEL_OPEN || ch->stopped)
		return;
	proto_ctx_freeze(e->proto, ch->plain.endpoint, e->now);
	proto_ctx_freeze(e->proto, ch->matched.endpoint, e->now);
	stop_services(e, ch);
	becomes(e, ch, PREEMPTED_DRAINS);
	draining_of(e)->until[ch->ctx] = e->now + ticks(drain_us);
	preempt_engine_settle(e);
}

void
preempt_resume(struct engine *e, struct channel *ch, enum preempted state)
{
	if (state == PREEMPTED_NOT)
		return;
	stop_services(e, ch);
	becomes(e, ch, state);
	draining_of(e)->until[ch->ctx] = e->now;
}

/* Stop the context likewise, and park it once it is held. It must be one that park_can() allows. */
static void
preempt_park(struct engine *e, struct channel *ch, uint32_t drain_us)
{
	preempt_stop(e, ch, drain_us);
	ch->parks = ch->stopped;
	if (ch->parks && state_of(ch) == PREEMPTED_HELD) {
		park_context(e, ch);
		becomes(e, ch, PREEMPTED_PARKED);
	}
}

/* Load the context if it is parked: it stays stopped. Return 0, or -ENOSPC: it stays parked. */
static int
preempt_load(struct engine *e, struct channel *ch)
{
	ch->parks = false;
	if (state_of(ch) != PREEMPTED_PARKED)
		return 0;
	if (park_load(e, ch) != 0) {
		ch->parks = true;
		return -ENOSPC;
	}
	becomes(e, ch, PREEMPTED_HELD);
	return 0;
}

static void
go_on(struct engine *e, struct channel *ch)
{
	ch->parks = false;
	becomes(e, ch, PREEMPTED_NOT);
	SERVICE_FOREACH(ops, e->services) {
		if (ops->start != NULL)
			ops->start(e, ch);
	}
	proto_ctx_thaw(e->proto, ch->plain.endpoint, e->now);
	proto_ctx_thaw(e->proto, ch->matched.endpoint, e->now);
	turns_busy(e, ch);    /* for what it has submitted meanwhile */
	channel_touch(e, ch); /* it may sleep, while messages past the engine wait */
	local_drain(e, &ch->plain, NULL, NULL);
	local_drain(e, &ch->matched, NULL, NULL);
}

/* Let the context go on, if it is stopped, after loading it if it is parked. Return 0, or -ENOSPC:
 * it stays parked. */
static int
preempt_start(struct engine *e, struct channel *ch)
{
	if (!ch->stopped)
		return 0;
	if (preempt_load(e, ch) != 0)
		return -ENOSPC;
	go_on(e, ch);
	return 0;
}

/* Let a context that ends go on as preempt_start() does. If it cannot be loaded, nothing of it is
 * sent any more. Return whether what it has sent can still be delivered. */
static bool
preempt_end(struct engine *e, struct channel *ch)
{
	if (preempt_start(e, ch) == 0)
		return true;
	go_on(e, ch); /* all but what is parked: that ends when the endpoints close */
	park_abandon(e, ch);
	return false;
}

static bool
is_settled(struct engine *e, struct channel *ch)
{
	SERVICE_FOREACH(ops, e->services) {
		if (ops->settled != NULL && !ops->settled(e, ch))
			return false;
	}
	return proto_ctx_settled(e->proto, ch->plain.endpoint) &&
		proto_ctx_settled(e->proto, ch->matched.endpoint);
}

/* Hold the contexts that have drained, or that may no longer. */
static void
preempt_engine_settle(struct engine *e)
{
	struct draining *d = draining_of(e);

	d->settle_at = e->now + ticks(SETTLE_US);
	for (unsigned i = 0; i < e->open_count && d->count != 0; i++) {
		struct channel *ch = e->open[i];

		if (state_of(ch) != PREEMPTED_DRAINS ||
			(e->now < d->until[ch->ctx] && !is_settled(e, ch)))
			continue;
		proto_ctx_hold(e->proto, ch->plain.endpoint, e->now);
		proto_ctx_hold(e->proto, ch->matched.endpoint, e->now);
		becomes(e, ch, PREEMPTED_HELD);
		if (ch->parks)
			preempt_park(e, ch, 0);
	}
}

static unsigned
preempt_step(struct engine *e)
{
	const struct draining *d = draining_of(e);

	if (d->count != 0 && e->now >= d->settle_at)
		preempt_engine_settle(e);
	if (d->count == 0)
		service_idle(e, PREEMPT_SERVICE);
	return 0;
}

static uint64_t
preempt_deadline(const struct engine *e)
{
	return draining_of(e)->settle_at + ticks(SLEEP_US - SETTLE_US);
}

/* ------------------------------------------------------------------ commands and lives */

/* Do a command for one context. */
static int
command_one(struct engine *e, struct channel *ch, const struct command *cmd)
{
	switch (cmd->op) {
	case COMMAND_STOP:
		preempt_stop(e, ch, cmd->drain_us);
		return 0;
	case COMMAND_PARK:
		if (!park_can(e->node, ch))
			return -EOPNOTSUPP;
		preempt_park(e, ch, cmd->drain_us);
		return 0;
	case COMMAND_LOAD:
		return preempt_load(e, ch);
	default:
		return preempt_start(e, ch);
	}
}

/* Do it for those contexts of the command that are of this lane. Return how many they are, or the
 * first error. */
static int
preempt_command(struct engine *e, const struct command *cmd)
{
	int n = 0, error = 0;

	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];

		if (ch->state != CHANNEL_OPEN || !(cmd->contexts[ch->ctx / 64] >> ch->ctx % 64 & 1))
			continue;
		const int result = command_one(e, ch, cmd);

		n++;
		if (error == 0)
			error = result;
	}
	return error != 0 ? error : n;
}

static void
preempt_open(struct engine *e, struct channel *ch)
{
	if (ch->parks)
		preempt_park(e, ch, 0);
}

static int
lane_make(struct engine *e, char *error, size_t error_len)
{
	e->service[PREEMPT_SERVICE] = calloc(1,
		sizeof(struct draining) + e->node->config.contexts * sizeof(uint64_t));
	if (draining_of(e) != NULL)
		return 0;
	snprintf(error, error_len, "out of memory");
	return -ENOMEM;
}

static void
lane_free(struct engine *e)
{
	free(e->service[PREEMPT_SERVICE]);
}

const struct service_ops service_preempt = {
	.name = "preemption",
	.number = PREEMPT_SERVICE,
	.make = lane_make,
	.free = lane_free,
	.open = preempt_open,
	.ending = preempt_end,
	.command = preempt_command,
	.step = preempt_step,
	.deadline = preempt_deadline,
};
