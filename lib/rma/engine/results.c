/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passes on what lib/rma has for others: results and events to applications, room to the core.
 */
#include <errno.h>
#include <string.h>

#include "rma/engine/results.h"

static void
write_status(struct channel *ch, const struct rma_result *result)
{
	const uint64_t status = result->desc->status;
	const struct memory *m = space_at(&ch->space, result->desc->status_memory, status,
		sizeof(int32_t));

	/* release: the transfer's bytes must be visible before the status word */
	if (m != NULL)
		atomic_store_explicit((_Atomic int32_t *)(m->base + (status - m->client)),
			-(int32_t)result->error, memory_order_release);
}

/* Pass on the results of transfers. Transfers tend to end in runs of one context, so its channel is
 * found once a run. */
static void
pass_results(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	const struct rma_result *result;
	struct channel *ch = NULL;
	struct rma_channel *c = NULL;

	while ((result = rma_result(x->rma)) != NULL) {
		if (ch == NULL || ch->ctx != result->ctx) {
			ch = &e->node->channels[result->ctx];
			c = rma_channel(ch);
		}
		if (unlikely(ch->state != CHANNEL_OPEN))
			continue;
		if (unlikely(result->fetched)) {
			const bool copy = result->cookie >= RMA_COOKIE_COPY;

			if (copy)
				x->copied(e, ch, result->cookie, result->error);
			if (x->fetched != NULL)
				x->fetched(e, ch, copy ? RMA_NO_COOKIE : result->cookie,
					result->error);
			continue;
		}
		if (unlikely(result->desc->flags & TRANSFER_FETCH)) /* for the client to copy */
			memcpy(c->descs[result->place].bits, result->desc->bits, WIRE_ATOMIC_BYTES);
		if (result->desc->status != 0)
			write_status(ch, result);
		/* a client that reuses a place before it has read its result loses the oldest
		 * results */
		if (unlikely(c->ended_tail - c->ended_head > c->ended_mask))
			c->ended_head++;
		c->ended[c->ended_tail++ & c->ended_mask] = COMPLETION_ITEM(result->place,
			result->error);
		service_has_results(e, ch, RMA_SERVICE);
	}
}

static void
pass_news(struct engine *e)
{
	struct rma_news news;

	while (rma_news(rma_lane(e)->rma, &news)) {
		struct channel *ch = &e->node->channels[news.ctx];
		struct rma_channel *c = rma_channel(ch);

		if (news.room != 0)
			proto_ctx_room(e->proto, news.ctx | WIRE_TARGET, news.room, 0, e->now);
		if (unlikely(news.readers_gone && c->region.waits)) {
			c->region.waits = false;
			c->region.due = true;
			service_has_results(e, ch, RMA_SERVICE);
		}
	}
}

void
results_settle(struct engine *e)
{
	const unsigned has = rma_has(rma_lane(e)->rma);

	if (has & RMA_HAS_NEWS)
		pass_news(e);
	if (has & RMA_HAS_RESULTS)
		pass_results(e);
}

void
events_pass(struct engine *e, struct channel *ch)
{
	struct rma *rma = rma_lane(e)->rma;
	struct slot_end *end = &rma_channel(ch)->events;
	const struct event_slot *event;

	while ((event = rma_event(rma, ch->ctx)) != NULL && slot_room(end, 1)) {
		memcpy(slot_at(end, end->pos)->body, event, sizeof(*event));
		slot_publish(end, end->pos++);
		channel_touch(e, ch);
		rma_event_told(rma, ch->ctx);
	}
}

void
events_pass_all(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++)
		events_pass(e, e->open[i]);
}

bool
results_write(struct engine *e, struct channel *ch)
{
	struct rma_channel *r = rma_channel(ch);

	(void)e;
	while (r->ended_head != r->ended_tail || r->region.due) {
		if (!slot_room(&ch->com, 1))
			return false;
		struct completion *c = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;

		if (r->region.due) {
			c->count = COMPLETION_REGION;
			c->item[0] = r->region.ticket;
			c->item[1] = r->region.error;
			c->item[2] = (uint32_t)r->region.key;
			c->item[3] = (uint32_t)(r->region.key >> 32);
			r->region.due = false;
		} else {
			uint32_t n = 0;

			while (n < COMPLETION_BUFS && r->ended_head != r->ended_tail)
				c->item[n++] = r->ended[r->ended_head++ & r->ended_mask];
			c->count = COMPLETION_TRANSFERS | n;
		}
		slot_publish(&ch->com, ch->com.pos++);
	}
	return true;
}
