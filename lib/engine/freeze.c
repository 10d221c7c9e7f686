/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane that begins nothing new, before another primary takes over: see freeze.h.
 */
#include <unistd.h>

#include "engine/freeze.h"

#define VERDICT_US 50

/* Others' questions wait with them: there is no room for any until the contexts go on. */
static void
withhold(struct engine *e, struct channel *ch)
{
	while (proto_ctx_take(e->proto, ch->ctx | WIRE_TARGET, 1, 0, true))
		ch->remote->withheld++;
}

void
freeze_give_room(struct engine *e, struct channel *ch)
{
	uint32_t n = ch->remote->withheld;

	ch->remote->withheld = 0;
	if (n > 0)
		proto_ctx_room(e->proto, ch->ctx | WIRE_TARGET, n, 0, e->now);
}

static bool
is_drained(const struct channel *ch)
{
	const struct remote *r = ch->remote;

	return ch->state == CHANNEL_OPEN && r->frames == 0 && r->ops_used == 0 && !r->region.due && !r->region.waits &&
		r->events_waiting == 0 && r->local_head == NULL && ch->plain.local_head == NULL && ch->matched.local_head == NULL;
}

/* Has everything ended that must, before this lane can be given? */
static bool
drained(struct engine *e)
{
	const struct transfers *x = &e->transfers;
	bool secondaries = false;

	for (unsigned i = 0; i < e->open_count; i++)
		withhold(e, e->open[i]);
	for (unsigned i = 0; i < e->open_count; i++) {
		secondaries |= e->open[i]->thin == NULL;
		if (e->open[i]->thin != NULL && !is_drained(e->open[i]))
			return false;
	}
	if (x->requests.head != NULL || x->lingering != NULL || x->local_waiting != 0 || x->dma.head != x->dma.tail)
		return false;
	/* what cannot be moved ends when nothing else stands in the way, for it does not come back by itself */
	local_refuse(e);
	if (secondaries)
		contexts_end_secondaries(e);
	return !secondaries && !e->local_waiting;
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
	for (unsigned i = 0; i < e->open_count; i++)
		freeze_give_room(e, e->open[i]);
}
