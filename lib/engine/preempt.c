/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See preempt.h.
 */
#include <errno.h>

#include <rte_cycles.h>

#include "engine/local.h"
#include "engine/park.h"
#include "engine/preempt.h"
#include "engine/turns.h"

#define SETTLE_US 20

static enum preempted
state_of(const struct channel *ch)
{
	return atomic_load_explicit(&ch->preempted, memory_order_relaxed);
}

static void
becomes(struct engine *e, struct channel *ch, enum preempted state)
{
	e->draining += (state == PREEMPTED_DRAINS) - (state_of(ch) == PREEMPTED_DRAINS);
	ch->stopped = state != PREEMPTED_NOT;
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

void
preempt_stop(struct engine *e, struct channel *ch, uint32_t drain_us)
{
	if (ch->state != CHANNEL_OPEN || ch->stopped)
		return;
	proto_ctx_freeze(e->proto, ch->plain.endpoint, e->now);
	proto_ctx_freeze(e->proto, ch->matched.endpoint, e->now);
	stop_services(e, ch);
	becomes(e, ch, PREEMPTED_DRAINS);
	ch->drain_until = e->now + rte_get_tsc_hz() / 1000000 * drain_us;
	e->settle_at = e->now;
	preempt_step(e);
}

void
preempt_resume(struct engine *e, struct channel *ch, enum preempted state)
{
	if (state == PREEMPTED_NOT)
		return;
	stop_services(e, ch);
	becomes(e, ch, state);
	ch->drain_until = e->now;
}

void
preempt_park(struct engine *e, struct channel *ch, uint32_t drain_us)
{
	preempt_stop(e, ch, drain_us);
	ch->parks = ch->stopped;
	if (ch->parks && state_of(ch) == PREEMPTED_HELD) {
		park_context(e, ch);
		becomes(e, ch, PREEMPTED_PARKED);
	}
}

int
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
	turns_busy(e, ch); /* for what it has submitted meanwhile */
	local_drain(e, &ch->plain, NULL, NULL);
	local_drain(e, &ch->matched, NULL, NULL);
}

int
preempt_start(struct engine *e, struct channel *ch)
{
	if (!ch->stopped)
		return 0;
	if (preempt_load(e, ch) != 0)
		return -ENOSPC;
	go_on(e, ch);
	return 0;
}

bool
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

void
preempt_step(struct engine *e)
{
	if (e->now < e->settle_at)
		return;
	e->settle_at = e->now + rte_get_tsc_hz() / 1000000 * SETTLE_US;
	for (unsigned i = 0; i < e->open_count && e->draining != 0; i++) {
		struct channel *ch = e->open[i];

		if (state_of(ch) != PREEMPTED_DRAINS ||
			(e->now < ch->drain_until && !is_settled(e, ch)))
			continue;
		proto_ctx_hold(e->proto, ch->plain.endpoint, e->now);
		proto_ctx_hold(e->proto, ch->matched.endpoint, e->now);
		becomes(e, ch, PREEMPTED_HELD);
		if (ch->parks)
			preempt_park(e, ch, 0);
	}
}
