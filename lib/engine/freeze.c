/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a lane stops beginning anything new before another primary takes over: see freeze.h.
 */
#include <unistd.h>

#include "engine/contexts.h"
#include "engine/freeze.h"
#include "engine/local.h"

#define VERDICT_US 50

void
freeze_end(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++) {
		SERVICE_FOREACH(ops, e->services) {
			if (ops->thaw != NULL)
				ops->thaw(e, e->open[i]);
		}
	}
}

static void
services_freeze(struct engine *e, struct channel *ch)
{
	SERVICE_FOREACH(ops, e->services) {
		if (ops->freeze != NULL)
			ops->freeze(e, ch);
	}
}

/* Note for people what has not ended, of the context, or of the lane if ch is NULL. Return
 * false. */
static bool
undrained(struct engine *e, const struct channel *ch, const char *what)
{
	atomic_store_explicit(&e->undrained_ctx, ch != NULL ? ch->ctx : -1, memory_order_relaxed);
	atomic_store_explicit(&e->undrained, what, memory_order_release);
	return false;
}

/* Return whether everything that services have under way and that cannot be moved has ended: of the
 * context, or of the lane if ch is NULL. */
static bool
services_drained(struct engine *e, const struct channel *ch)
{
	SERVICE_FOREACH(ops, e->services) {
		if (ops->drained != NULL && !ops->drained(e, ch))
			return undrained(e, ch, ops->name);
	}
	return true;
}

static bool
is_drained(struct engine *e, const struct channel *ch)
{
	if (ch->state != CHANNEL_OPEN)
		return undrained(e, ch, "the end");
	if (ch->plain.local_head != NULL || ch->matched.local_head != NULL)
		return undrained(e, ch, "messages within the node");
	return services_drained(e, ch);
}

/* Have the services freeze all contexts. Return whether everything has ended that must before this
 * lane can be handed to another primary. */
static bool
drained(struct engine *e)
{
	bool secondaries = false;

	for (unsigned i = 0; i < e->open_count; i++)
		services_freeze(e, e->open[i]);
	for (unsigned i = 0; i < e->open_count; i++) {
		secondaries |= e->open[i]->thin == NULL;
		if (e->open[i]->thin != NULL && !is_drained(e, e->open[i]))
			return false;
	}
	if (!services_drained(e, NULL))
		return false;
	/* The rest cannot be moved, so it is ended here: last, since it does not come back if the
	 * take-over is called off. */
	local_refuse(e);
	if (secondaries)
		contexts_end_secondaries(e);
	return (!secondaries && !e->local_waiting) ||
		undrained(e, NULL, secondaries ? "secondaries" : "messages within the node");
}

void
freeze_step(struct engine *e)
{
	if (atomic_load(&e->frozen)) {
		if (!drained(e))
			return;
		atomic_store(&e->drained, true);
		while (atomic_load(&e->frozen) && !atomic_load(&e->stop))
			usleep(VERDICT_US);
		if (atomic_load(&e->stop))
			return;
	}
	e->freezes = false;
	atomic_store(&e->drained, false);
	freeze_end(e);
}
