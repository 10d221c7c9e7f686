/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a service of the engine: its turns, its life, and take-over. arrivals.c passes
 * what comes from the core and from other lanes to lib/rma, and submissions.c what clients submit;
 * frames.c and results.c pass on what lib/rma has for them. Runs on the lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "engine/complete.h"
#include "engine/image.h"
#include "rma/engine/arrivals.h"
#include "rma/engine/dma.h"
#include "rma/engine/frames.h"
#include "rma/engine/results.h"
#include "rma/engine/submissions.h"

#define INITIATOR_ROOM 65536   /* never used up, since each entry is given back at once */
#define COPIES         2       /* shared regions that a context copies at once */
#define ASK_EVERY_US   100000u /* while a transfer waits */

/* ------------------------------------------------------------------ turns */

static unsigned
answers_send(struct engine *e)
{
	struct rma_frame **out;
	unsigned work = 0, n;

	while (work < e->node->config.burst && (out = rma_tx_answers(rma_lane(e)->rma, &n)) != NULL)
		work += frames_send(e, out, n);
	return work;
}

static unsigned
transfers_send(struct engine *e)
{
	struct rma_frame **out;
	unsigned work = 0, n;

	while (work < e->node->config.burst &&
		(out = rma_tx_transfers(rma_lane(e)->rma, &n)) != NULL)
		work += frames_send(e, out, n);
	return work;
}

/* End the service's turns when it has nothing to do, so that the lane may sleep. */
static void
rest(struct engine *e)
{
	const struct rma_lane *x = rma_lane(e);
	const unsigned has = rma_has(x->rma);

	if (!(has & RMA_HAS_ANSWERS))
		service_owes_nothing(e, RMA_SERVICE);
	if (!(has & (RMA_HAS_ANSWERS | RMA_HAS_EVENTS | RMA_HAS_WORK)) && x->local_waiting == 0 &&
		x->dma.head == x->dma.tail && x->lingering == NULL)
		service_idle(e, RMA_SERVICE);
}

static unsigned
rma_step(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	/* errors first: what is sent after a lost frame must not look like the end of its
	 * transfer */
	unsigned work = engine_complete(e);

	if (unlikely(x->lingering != NULL))
		frames_recheck(e);
	work += dma_poll(e);
	if (unlikely(x->local_waiting))
		work += frames_take_local(e);
	if (unlikely(rma_has(x->rma) & RMA_HAS_EVENTS))
		events_pass_all(e);
	rma_turn(x->rma);
	work += answers_send(e);
	work += transfers_send(e);
	if (e->now >= rma_deadline(x->rma)) {
		rma_tick(x->rma, e->now);
		work += transfers_send(e);
	}
	results_settle(e);
	rest(e);
	return work;
}

static unsigned
rma_answer(struct engine *e)
{
	unsigned work = 0;

	arrivals_write_late(e);
	if (rma_has(rma_lane(e)->rma) & RMA_HAS_ANSWERS) {
		work = engine_complete(e);
		rma_turn(rma_lane(e)->rma);
		work += answers_send(e);
	}
	results_settle(e);
	rest(e);
	return work;
}

static bool
rma_awake(const struct engine *e)
{
	const struct rma_lane *x = rma_lane(e);

	return x->lingering != NULL || x->dma.head != x->dma.tail;
}

/* ------------------------------------------------------------------ life */

static uint32_t
life_of(void *engine, uint16_t node)
{
	const struct engine *e = engine;

	return proto_peer_epoch(e->proto, node);
}

static uint32_t
receiver_of(void *engine, uint16_t ctx, uint16_t node, uint16_t peer, enum rma_watch watch,
	uint64_t now)
{
	struct engine *e = engine;

	if (node == e->node->config.id)
		return peer < e->node->config.contexts ? e->node->channels[peer].generation : 0;
	ctx |= WIRE_MATCHED;
	peer |= WIRE_MATCHED;
	if (watch == RMA_WATCH_BEGINS)
		return proto_flow_watch(e->proto, ctx, node, peer, now);
	if (watch == RMA_WATCH_ENDS)
		proto_flow_unwatch(e->proto, ctx, node, peer);
	return proto_flow_life(e->proto, ctx, node, peer);
}

static void *
memory_of(void *engine, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len)
{
	const struct engine *e = engine;

	return space_at(&e->node->channels[ctx].space, number, at, len);
}

static bool
is_member(void *engine, uint16_t ctx, uint32_t group, uint16_t node, uint16_t peer)
{
	const struct engine *e = engine;

	return e->services->has_member != NULL &&
		e->services->has_member(e, ctx, group, node, peer);
}

static bool
is_revoked(void *engine, uint16_t ctx, uint32_t watched)
{
	const struct engine *e = engine;

	return atomic_load_explicit(&e->node->channels[ctx].shm->revoked[watched],
		memory_order_relaxed);
}

static_assert(ENGINE_bad_transfers + RMA_REFUSED_ACCESSES == ENGINE_refused_accesses &&
		ENGINE_bad_transfers + RMA_PINS_GRANTED == ENGINE_pins_granted &&
		ENGINE_bad_transfers + RMA_PINS_RELEASED == ENGINE_pins_released &&
		ENGINE_bad_transfers + RMA_PINS_REFUSED == ENGINE_pins_refused,
	"lib/rma counts there");

/* Return the most transfers of a context that the lane may begin by itself: those that receives
 * begin, if the engine matches, and those that copy shared regions. */
static uint32_t
fetches_max(const struct config *c)
{
	return c->matching == MATCHING_ENGINE ? c->transfers : COPIES;
}

/* Make the lane's lib/rma. With a short proto.rto_max_us offers are asked after more often: a flow
 * that was silent for half of that time is opened anew, and a later life of the receiver would take
 * the offer for its own. */
static int
library_make(struct engine *e)
{
	const struct config *c = &e->node->config;
	const struct rma_config config = {
		.node = (uint16_t)c->id,
		.contexts_max = c->contexts,
		.contexts_from = e->lane,
		.contexts_by = c->lanes,
		.transfers_max = c->transfers,
		.fetches_max = fetches_max(c),
		.requests_max = c->requests,
		.regions_max = c->regions,
		.frames_max = c->transfer_frames,
		.payload_max = e->node->frag_len - (uint32_t)sizeof(struct wire_transfer),
		.ticks_per_sec = rte_get_tsc_hz(),
		.ask_us = ASK_EVERY_US,
		.ask_offer_us = RTE_MIN(c->proto.rto_max_us / 4, ASK_EVERY_US),
		.counters = &e->counters[ENGINE_bad_transfers],
		.life = life_of,
		.receiver = receiver_of,
		.memory = memory_of,
		.revoked = is_revoked,
		.member = is_member,
		.arg = e,
	};
	size_t bytes = rma_memsize(&config);
	void *memory = bytes != 0 ? aligned_alloc(64, bytes) : NULL;

	if (memory == NULL)
		return -ENOMEM;
	memset(memory, 0, bytes);
	rma_lane(e)->rma = rma_init(memory, &config);
	return 0;
}

static int
rma_make(struct engine *e, char *error, size_t error_len)
{
	const struct config *c = &e->node->config;

	e->service[RMA_SERVICE] = calloc(1, sizeof(struct rma_lane));
	if (e->service[RMA_SERVICE] == NULL || library_make(e) != 0 || frames_make(e) != 0) {
		snprintf(error, error_len,
			"no memory for limits.transfer_frames = %u or limits.regions = %u of lane "
			"%u: lower them, or reserve more hugepages",
			c->transfer_frames, c->regions, e->lane);
		return -ENOMEM;
	}
	rma_lane(e)->dma.placed = arrival_placed;
	return dma_open(e, error, error_len);
}

static void
rma_free(struct engine *e)
{
	if (rma_lane(e) == NULL)
		return;
	dma_close(e);
	frames_free(e);
	free(rma_lane(e)->rma);
	free(rma_lane(e));
}

static int
rma_make_context(struct node *n, struct channel *ch)
{
	struct rma_channel *c = ch->service[RMA_SERVICE] = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->ended_mask = rte_align32pow2(n->config.transfers) - 1;
	c->ended = calloc(c->ended_mask + 1, sizeof(*c->ended));
	return c->ended == NULL ? -ENOMEM : 0;
}

static void
rma_free_context(struct channel *ch)
{
	if (rma_channel(ch) == NULL)
		return;
	free(rma_channel(ch)->ended);
	free(rma_channel(ch));
}

/* Reset the channel: nothing is registered, and nothing is under way. */
static void
rma_join(struct node *n, struct channel *ch)
{
	struct rma_channel *c = rma_channel(ch);

	*c = (struct rma_channel){
		.rma = rma_lane(node_lane(n, ch->ctx))->rma,
		.descs = channel_part(ch, n->layout.transfers),
		.ended = c->ended,
		.ended_mask = c->ended_mask,
	};
	slot_end_init(&c->events, channel_part(ch, n->layout.events), n->geometry.events,
		&ch->shm->events_pos);
	rma_open(c->rma, ch->ctx);
}

static void
endpoints_open(struct engine *e, struct channel *ch)
{
	const struct node *n = e->node;

	proto_ctx_open(e->proto, ch->ctx | WIRE_TARGET, n->config.requests, 0, n->frag_len, e->now);
	proto_ctx_open(e->proto, ch->ctx | WIRE_INITIATOR, INITIATOR_ROOM, 0, n->frag_len, e->now);
}

static void
rma_end(struct engine *e, struct channel *ch, bool linger)
{
	struct rma *rma = rma_lane(e)->rma;
	struct rma_channel *c = rma_channel(ch);

	dma_drain(e);
	rma_close(rma, ch->ctx);
	results_settle(e);
	proto_ctx_close(e->proto, ch->ctx | WIRE_TARGET, linger, e->now);
	c->leaves = rma_leaves(rma, ch->ctx);
	if (!c->leaves || !linger)
		proto_ctx_close(e->proto, ch->ctx | WIRE_INITIATOR, linger, e->now);
	if (c->leaves && !linger) /* it is still needed for rma_tx_leaving */
		proto_ctx_open(e->proto, ch->ctx | WIRE_INITIATOR, INITIATOR_ROOM, 0,
			e->node->frag_len, e->now);
	proto_ctx_domain(e->proto, ch->ctx | WIRE_INITIATOR, ch->domain);
}

/* Tell those who pinned memory for the context that it ends; then close the last endpoint. Return
 * whether no frame of the context is left. */
static bool
rma_closed(struct engine *e, struct channel *ch)
{
	struct rma *rma = rma_lane(e)->rma;
	struct rma_channel *c = rma_channel(ch);
	struct rma_frame **out;
	unsigned n;

	if (unlikely(c->leaves)) {
		while ((out = rma_tx_leaving(rma, ch->ctx, &n)) != NULL &&
			frames_send(e, out, n) != 0)
			;
		c->leaves = rma_leaves(rma, ch->ctx);
		if (!c->leaves)
			proto_ctx_close(e->proto, ch->ctx | WIRE_INITIATOR, true, e->now);
	}
	return !c->leaves && !rma_has_frames(rma, ch->ctx) && c->local_head == NULL;
}

static void
rma_forget_memory(struct engine *e, struct channel *ch, const struct memory *m)
{
	rma_memory_gone(rma_lane(e)->rma, ch->ctx, m);
	service_rma_called(e);
}

/* ------------------------------------------------------------------ preemption */

static void
rma_stops(struct engine *e, struct channel *ch)
{
	rma_stop(rma_lane(e)->rma, ch->ctx);
}

static void
rma_starts(struct engine *e, struct channel *ch)
{
	rma_start(rma_lane(e)->rma, ch->ctx, e->now);
	service_busy(e, RMA_SERVICE);
	service_owes(e, RMA_SERVICE);
}

static bool
rma_settled(const struct engine *e, const struct channel *ch)
{
	/* not what others have begun, nor offers: those are of the matched endpoint, where they may
	 * wait for room at a context that is stopped as well */
	return proto_ctx_settled(e->proto, ch->ctx | WIRE_INITIATOR);
}

/* ------------------------------------------------------------------ another primary takes over */

/* Take away all room for others' requests, so that they wait at their senders until the context
 * goes on. */
static void
rma_freeze(struct engine *e, struct channel *ch)
{
	/* what it has under way cannot move, so it ends */
	rma_start(rma_lane(e)->rma, ch->ctx, e->now);
	while (proto_ctx_take(e->proto, ch->ctx | WIRE_TARGET, 1, 0, true))
		rma_channel(ch)->withheld++;
}

static void
rma_thaw(struct engine *e, struct channel *ch)
{
	uint32_t n = rma_channel(ch)->withheld;

	if (ch->stopped)
		rma_stop(rma_lane(e)->rma, ch->ctx);
	rma_channel(ch)->withheld = 0;
	if (n > 0)
		proto_ctx_room(e->proto, ch->ctx | WIRE_TARGET, n, 0, e->now);
}

static bool
rma_drained(const struct engine *e, const struct channel *ch)
{
	const struct rma_lane *x = rma_lane(e);

	if (ch == NULL)
		return rma_is_drained(x->rma, RMA_ALL) && x->lingering == NULL &&
			x->local_waiting == 0 && x->dma.head == x->dma.tail;
	const struct rma_channel *c = rma_channel(ch);

	return rma_is_drained(x->rma, ch->ctx) && !c->region.due && !c->region.waits &&
		c->local_head == NULL;
}

struct saved_context {
	uint32_t event_pos, event_other, ended, withheld;
};

/* Return the number of a region's memory; MEMORY_COPIED: it has none. */
static uint32_t
region_memory_number(const struct node *n, const struct region *r)
{
	for (uint32_t i = 0; r->key != 0 && i < MEMORIES_MAX; i++) {
		if (n->channels[r->ctx].space.pieces[i] == r->memory && r->memory != NULL)
			return i;
	}
	return MEMORY_COPIED;
}

static void
rma_save(const struct engine *e, struct image_out *o)
{
	struct region_table *t = rma_regions(rma_lane(e)->rma);
	struct rma_span spans[RMA_SPANS];

	rma_spans(rma_lane(e)->rma, spans);
	for (unsigned i = 0; i < RMA_SPANS; i++)
		image_put(o, spans[i].bytes, spans[i].len);
	image_put(o, &t->free_from, sizeof(t->free_from));
	for (uint32_t i = 0; i < t->count; i++) {
		struct region r = t->regions[i];

		r.memory = (void *)(uintptr_t)region_memory_number(e->node, &r);
		image_put(o, &r, sizeof(r));
	}
}

static bool
rma_restore(struct engine *e, struct image_in *in)
{
	struct region_table *t = rma_regions(rma_lane(e)->rma);
	struct rma_span spans[RMA_SPANS];

	rma_spans(rma_lane(e)->rma, spans);
	for (unsigned i = 0; i < RMA_SPANS; i++) {
		if (!image_get(in, spans[i].bytes, spans[i].len))
			return false;
	}
	return image_get(in, &t->free_from, sizeof(t->free_from)) &&
		image_get(in, t->regions, t->count * sizeof(*t->regions));
}

static void
rma_save_context(const struct channel *ch, struct image_out *o)
{
	const struct rma_channel *c = rma_channel(ch);
	const struct rma_span kept = rma_context_span(c->rma, ch->ctx);
	const struct saved_context s = {
		.event_pos = c->events.pos,
		.event_other = c->events.other,
		.ended = c->ended_tail - c->ended_head,
		.withheld = c->withheld,
	};

	image_put(o, &s, sizeof(s));
	image_put(o, kept.bytes, kept.len);
	for (uint32_t i = c->ended_head; i != c->ended_tail; i++)
		image_put(o, &c->ended[i & c->ended_mask], sizeof(*c->ended));
}

static bool
rma_restore_context(struct channel *ch, struct image_in *in)
{
	struct rma_channel *c = rma_channel(ch);
	const struct rma_span kept = rma_context_span(c->rma, ch->ctx);
	struct saved_context s;

	if (!image_get(in, &s, sizeof(s)) || !image_get(in, kept.bytes, kept.len) ||
		s.ended > c->ended_mask + 1 ||
		!image_get(in, c->ended, s.ended * sizeof(*c->ended)))
		return false;
	c->events.pos = s.event_pos;
	c->events.other = s.event_other;
	c->ended_tail = s.ended;
	ch->results |= s.ended != 0 ? 1u << RMA_SERVICE : 0;
	c->withheld = s.withheld;
	return true;
}

/* Replace the numbers of regions' memory by pointers, now that the memory is there, and let lib/rma
 * check and count what was restored. */
static bool
rma_restore_end(struct engine *e)
{
	struct region_table *t = rma_regions(rma_lane(e)->rma);

	for (uint32_t i = 0; i < t->count; i++) {
		struct region *r = &t->regions[i];
		uint32_t number = (uint32_t)(uintptr_t)r->memory;

		if (r->key != 0 && r->ctx >= e->node->config.contexts)
			return false;
		r->memory = r->key != 0 && number < MEMORIES_MAX
			? e->node->channels[r->ctx].space.pieces[number]
			: NULL;
	}
	return rma_restored(rma_lane(e)->rma);
}

const struct service_ops service_rma = {
	.name = "rma",
	.number = RMA_SERVICE,
	.endpoints = 1u << WIRE_TARGET / WIRE_CONTEXTS_MAX |
		1u << WIRE_INITIATOR / WIRE_CONTEXTS_MAX,
	.sends = 1u << WIRE_INITIATOR / WIRE_CONTEXTS_MAX,
	.image_form = sizeof(struct saved_context) + sizeof(struct region) + RMA_IMAGE_FORM,
	.make = rma_make,
	.free = rma_free,
	.make_context = rma_make_context,
	.free_context = rma_free_context,
	.join = rma_join,
	.open = endpoints_open,
	.close = rma_end,
	.closed = rma_closed,
	.memory_gone = rma_forget_memory,
	.message = arrival_heard,
	.frame = frame_mbuf,
	.completed = frame_completed,
	.send_failed = submission_failed,
	.handed_over = frame_handed_over,
	.submit =
		{
			[SUBMIT_TRANSFER] = submission_transfer,
			[SUBMIT_FRAME] = submission_frame,
			[SUBMIT_REGISTER] = submission_region,
			[SUBMIT_DEREGISTER] = submission_region,
			[SUBMIT_CANCEL] = submission_cancel,
		},
	.results = results_write,
	.step = rma_step,
	.answer = rma_answer,
	.awake = rma_awake,
	.stop = rma_stops,
	.start = rma_starts,
	.settled = rma_settled,
	.freeze = rma_freeze,
	.thaw = rma_thaw,
	.drained = rma_drained,
	.save = rma_save,
	.restore = rma_restore,
	.save_context = rma_save_context,
	.restore_context = rma_restore_context,
	.restored = rma_restore_end,
};
