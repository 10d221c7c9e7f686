/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events: what others have done with the context's memory, and the ends of its own transfers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rma/client/rma.h"

/* Return whether notifications of the previous life were not taken yet. */
static bool
has_kept(const struct client_rma *rma)
{
	return rma->kept_events_head != rma->kept_events_tail;
}

/* Copy notifications that came and were not taken to private memory. */
static int
events_keep(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;
	uint32_t left = rma->kept_events_tail - rma->kept_events_head, n = left;

	while (slot_filled(&rma->events, rma->events.pos + (n - left)))
		n++;
	if (n == left)
		return 0;
	struct event_slot *kept = malloc(n * sizeof(*kept));

	if (kept == NULL)
		return -ENOMEM;
	if (left > 0)
		memcpy(kept, rma->kept_events + rma->kept_events_head, left * sizeof(*kept));
	for (uint32_t i = left; i < n; i++)
		memcpy(&kept[i], slot_at(&rma->events, rma->events.pos + (i - left))->body,
			sizeof(*kept));
	free(rma->kept_events);
	rma->kept_events = kept;
	rma->kept_events_head = 0;
	rma->kept_events_tail = n;
	return 0;
}

int
pmx_poll_event(struct pmx_context *ctx, struct pmx_event *event)
{
	struct client_rma *rma = ctx->rma;
	const bool kept = has_kept(rma);

	if (kept || slot_filled(&rma->events, rma->events.pos)) {
		struct event_slot e;

		if (kept) {
			e = rma->kept_events[rma->kept_events_head++];
		} else {
			memcpy(&e, slot_at(&rma->events, rma->events.pos)->body, sizeof(e));
			slot_take(&rma->events, 1, false);
		}
		*event = (struct pmx_event){e.len & EVENT_TAKEN ? PMX_EVENT_PULLED
								: PMX_EVENT_PUSHED,
			{e.node, e.ctx}, e.len & ~EVENT_TAKEN, e.imm, 0};
		ctx_doorbell(ctx);
		return 1;
	}
	if (rma->events_waiting == 0)
		ctx_completions(ctx);
	if (rma->events_waiting != 0)
		return transfers_ended(ctx, event);
	if ((ctx->groups != NULL || ctx->told_count != 0 || ctx->watches != 0) &&
		ctx_services_event(ctx, event))
		return 1;
	return ctx_gone(ctx) ? -EPIPE : 0;
}

static bool
events_landed(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	return rma->events_waiting != 0 || has_kept(rma) ||
		slot_filled(&rma->events, rma->events.pos);
}

const struct client_service client_events = {
	.name = "events",
	.landed = events_landed,
	.leave = events_keep,
};
