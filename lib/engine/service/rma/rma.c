/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a service of the engine: what comes from the core, from clients and from other
 * lanes goes to initiators (transfers.c), targets (targets.c) and frames (frames.c). Runs on the
 * lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "engine/complete.h"
#include "engine/image.h"
#include "engine/service/rma/dma.h"
#include "engine/service/rma/frames.h"
#include "engine/service/rma/pinned.h"
#include "engine/service/rma/regions.h"
#include "engine/service/rma/requests.h"
#include "engine/service/rma/rma.h"
#include "engine/service/rma/targets.h"
#include "engine/service/rma/transfers.h"
#include "engine/thin.h"

#define INITIATOR_ROOM 65536 /* never used up: entries come back as they are taken */

/* Answers, and what answers an offer, may be sent twice: who they are not for does not know their
 * id. */
static inline bool
may_repeat(struct frame *f)
{
	return !f->own || frame_head(f)->flags & WIRE_T_OFFER;
}

/* A frame whose flow was reset: by the end of the context that it was for, or of the one that had
 * that number before and the same flow. Frames come back in order, and before anything new is
 * sent. */
static bool
send_again(struct engine *e, struct channel *ch, struct frame *f)
{
	if (f->retried || !may_repeat(f) || ch->state != CHANNEL_OPEN ||
		f->node == e->node->config.id)
		return false;
	f->retried = true;
	return (!frame_is_with_port(f) || frame_copy_from_port(e, f)) && frame_to_core(e, f) == 0;
}

/* The core, or the other lane, is done with it. */
static void
frame_done(struct engine *e, struct channel *ch, struct frame *f, uint8_t error)
{
	if (unlikely(error == ECONNRESET) && send_again(e, ch, f))
		return;
	bool queued = frame_is_with_port(f);

	if (unlikely(queued) && !frame_leave_to_port(e, f)) {
		f->error = error;
		f->next = rma_lane(e)->lingering;
		rma_lane(e)->lingering = f;
		service_busy(e, RMA_SERVICE);
		return;
	}
	if (f->memory && !queued)
		memory_let_go(f->memory);
	frame_count(ch, f, (uint32_t)-1);
	if (unlikely(f->ends_offer)) {
		struct op *op = transfer_find(ch, f->id);

		f->ends_offer = false;
		if (op != NULL && op->d.kind == TRANSFER_OFFER)
			transfer_end(e, ch, op, error);
	}
	if (unlikely(f->marked))
		registration_unmarked(e, ch);
	if (unlikely(f->own && (error || f->asks))) {
		struct op *op = transfer_find(ch, f->id);

		if (op != NULL)
			op->asking = false;
		if (op != NULL && error)
			transfer_end(e, ch, op, error);
	} else if (unlikely(error)) {
		target_peer_failed(e, ch, f->node, f->dst % WIRE_CONTEXTS_MAX, error);
	}
	frame_put(e, f);
}

/* Frames that a port had, when there was no mbuf to leave to it. */
static void
frames_recheck(struct engine *e)
{
	struct frame *f = rma_lane(e)->lingering;

	rma_lane(e)->lingering = NULL;
	while (f != NULL) {
		struct frame *next = f->next;

		frame_done(e, &e->node->channels[f->src % WIRE_CONTEXTS_MAX], f, f->error);
		f = next;
	}
}

/* false: its target has no room now. */
static bool
take_local(struct engine *e, struct frame *f)
{
	uint16_t ctx = f->dst % WIRE_CONTEXTS_MAX;
	struct channel *ch = &e->node->channels[ctx]; /* looked at only if there is one */
	const struct arrival a = {
		.head = frame_head(f),
		.bytes = f->memory ? f->place->buf_addr
				   : (uint8_t *)frame_head(f) + sizeof(struct wire_transfer),
		.len = f->len - (uint32_t)sizeof(struct wire_transfer),
		.node = (uint16_t)e->node->config.id,
		.peer = f->src % WIRE_CONTEXTS_MAX,
	};

	if (ctx >= e->node->config.contexts || ch->state != CHANNEL_OPEN) {
		f->error = ECONNREFUSED;
		return true;
	}
	if (f->dst & WIRE_INITIATOR) {
		transfer_answer(e, ch, &a);
		return true;
	}
	if (!proto_ctx_take(e->proto, f->dst, 1, 0, false)) {
		if (a.head->op != WIRE_UNPIN || !(a.head->flags & WIRE_T_LAST))
			return false;
		/* is not answered, and waits for no room: pinned.c, note 4 */
		pinned_lost(e, ch, a.node, a.peer);
		return true;
	}
	target_message(e, ch, &a);
	return true;
}

static void
send_back(struct engine *e, struct frame *f)
{
	f->back = true;
	frame_hand_over(e, f, f->src % WIRE_CONTEXTS_MAX);
}

/* A frame of this node is in the lane of its target, or came back to its own. Answers never
 * wait. */
static void
frame_arrive(struct engine *e, struct frame *f)
{
	uint16_t ctx = f->dst % WIRE_CONTEXTS_MAX;
	struct rma_context *r = ctx < e->node->config.contexts
		? rma_context(&e->node->channels[ctx])
		: NULL;

	if (f->back) {
		frame_done(e, &e->node->channels[f->src % WIRE_CONTEXTS_MAX], f, f->error);
		return;
	}
	if ((r == NULL || r->local_head == NULL || f->dst & WIRE_INITIATOR) && take_local(e, f)) {
		send_back(e, f);
		return;
	}
	f->next = NULL;
	if (r->local_head == NULL)
		r->local_head = f;
	else
		r->local_tail->next = f;
	r->local_tail = f;
	rma_lane(e)->local_waiting++;
	service_busy(e, RMA_SERVICE);
}

/* Frames of this node that waited for room at a target of this lane. */
static unsigned
frames_local(struct engine *e)
{
	unsigned work = 0;

	for (uint32_t i = e->lane; i < e->node->config.contexts; i += e->node->config.lanes) {
		struct rma_context *r = rma_context(&e->node->channels[i]);

		while (r->local_head != NULL) {
			struct frame *f = r->local_head, *next = f->next;

			if (!take_local(e, f))
				break;
			r->local_head = next;
			rma_lane(e)->local_waiting--;
			send_back(e, f);
			work++;
		}
	}
	return work;
}

/* ------------------------------------------------------------------ to and from the core */

static void
rma_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	frame_done(e, ch, frame_of_handle(handle), error);
}

static void
rma_message(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	const uint8_t *payload = (const uint8_t *)h + WIRE_HDR_BYTES;
	const uint16_t to = wire_be16(h->dst_ctx), from = wire_be16(h->src_ctx);
	const struct arrival a = {
		.head = (const struct wire_transfer *)payload,
		.bytes = payload + sizeof(struct wire_transfer),
		.len = len - (uint32_t)sizeof(struct wire_transfer),
		.node = wire_be16(h->src_node),
		.peer = from % WIRE_CONTEXTS_MAX,
		.m = m,
	};
	bool to_target = wire_endpoint(to) == WIRE_TARGET;

	if (unlikely(len < sizeof(struct wire_transfer) ||
		    wire_endpoint(from) != (to_target ? WIRE_INITIATOR : WIRE_TARGET))) {
		ENGINE_COUNT(e, bad_transfers);
		proto_ctx_room(e->proto, to, 1, 0, e->now);
	} else if (unlikely(ch->state != CHANNEL_OPEN)) {
		proto_ctx_room(e->proto, to, 1, 0, e->now);
	} else if (to_target) {
		if (target_message(e, ch, &a))
			return;
	} else {
		proto_ctx_room(e->proto, to, 1, 0, e->now);
		transfer_answer(e, ch, &a);
	}
	rte_mbuf_raw_free(m); /* one segment, one reference: our own */
}

static void
rma_send_failed(struct engine *e, struct channel *ch, const struct send_slot *s, uint8_t error)
{
	transfer_packed_failed(e, ch, s->m, error);
}

static void
rma_handed_over(struct engine *e, uint64_t handle)
{
	frame_arrive(e, frame_of_handle(handle));
}

/* ------------------------------------------------------------------ to and from clients */

/* A frame of a transfer that the client packed: to another node in the client's buffer, within this
 * node as a copy. Returns slots consumed, 0 = not now. */
static unsigned
rma_submit_frame(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct send_slot *slot = s->frame.buf < ch->send_buffers ? &ch->slots[s->frame.buf] : NULL;
	const struct proto_message m = {
		.dst_node = s->frame.dst_node,
		.dst_ctx = s->frame.dst_ctx | WIRE_TARGET,
		.len = s->frame.len,
		.ctx = ch->ctx | WIRE_INITIATOR,
		.frag_len = ch->frag_len,
	};
	const uint64_t handle = (uintptr_t)slot;
	int result;

	if (slot == NULL || slot->state != SEND_CLIENT || s->frame.len > ch->frag_len ||
		s->frame.len < sizeof(struct wire_transfer) ||
		s->frame.dst_ctx >= WIRE_CONTEXTS_MAX) {
		submission_bad(e, ch);
		return 1;
	}
	if (ch->thin != NULL) {
		thin_fill(ch, &s->frame.buf, 1, s->frame.len);
		/* what else it may ask for, it asks the engine for, which keeps count of its
		 * pins */
		if (unlikely(((const struct wire_transfer *)send_payload(slot))->op != WIRE_PUSH)) {
			submission_bad(e, ch);
			return 1;
		}
	}
	/* first what went wrong before: what follows a lost frame must not look like its transfer's
	 * end */
	engine_complete(e);
	slot->state = SEND_QUEUED;
	ch->busy_slots++;
	if (!transfer_is_packed(ch, s->frame.transfer)) {
		slot_complete(e, ch, slot, 0);
		return 1;
	}
	if (s->frame.dst_node == e->node->config.id)
		result = transfer_copy(e, ch, slot->m, &m);
	else if (s->frame.dst_node >= e->nodes_max || !e->peers[s->frame.dst_node].known)
		result = -EHOSTUNREACH;
	else
		result = proto_send(e->proto, &m, &handle, e->now);
	if (result == -EAGAIN) {
		slot->state = SEND_CLIENT;
		ch->busy_slots--;
		return 0;
	}
	if (result < 0)
		transfer_packed_failed(e, ch, slot->m, (uint8_t)-result);
	transfer_packed(e, ch, s->frame.transfer, s->count != 0);
	if (result != 0)
		slot_complete(e, ch, slot, result < 0 ? (uint8_t)-result : 0);
	return 1;
}

static unsigned
rma_submit_transfer(struct engine *e, struct channel *ch, const struct submission *s)
{
	if (unlikely(!transfer_submit(e, ch, s->transfer)))
		submission_bad(e, ch);
	return 1;
}

static unsigned
rma_submit_cancel(struct engine *e, struct channel *ch, const struct submission *s)
{
	transfer_cancel(e, ch, s->transfer);
	return 1;
}

static unsigned
rma_submit_region(struct engine *e, struct channel *ch, const struct submission *s)
{
	const struct rma_context *r = rma_context(ch);

	if (ch->state != CHANNEL_OPEN)
		return 1; /* nobody would hear the answer */
	if (r->region.due || r->region.waits)
		return 0;
	registration_submit(e, ch, s);
	return 1;
}

/* Results of transfers and registrations. */
static bool
rma_results(struct engine *e, struct channel *ch)
{
	struct rma_context *r = rma_context(ch);

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

/* ------------------------------------------------------------------ turns */

static unsigned
rma_step(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	/* errors first: what would follow a lost answer must not look like its end */
	unsigned work = engine_complete(e);

	if (unlikely(x->lingering != NULL))
		frames_recheck(e);
	work += dma_poll(e);
	if (x->local_waiting)
		work += frames_local(e);
	work += requests_step(e);
	work += transfer_step(e);
	if (x->waiting != 0 && e->now >= x->look_at) {
		x->look_at = e->now + rte_get_tsc_hz() / 1000;
		transfer_look(e);
	}
	if (!rma_is_busy(x))
		service_idle(e, RMA_SERVICE);
	return work;
}

static unsigned
rma_answer(struct engine *e)
{
	unsigned work = engine_complete(e) + requests_step(e);

	if (!rma_is_busy(rma_lane(e)))
		service_idle(e, RMA_SERVICE);
	return work;
}

static bool
rma_awake(const struct engine *e)
{
	const struct rma_lane *x = rma_lane(e);

	return x->lingering != NULL || x->dma.head != x->dma.tail;
}

/* ------------------------------------------------------------------ life */

static int
rma_make(struct engine *e, char *error, size_t error_len)
{
	const struct config *c = &e->node->config;

	e->service[RMA_SERVICE] = calloc(1, sizeof(struct rma_lane));
	if (e->service[RMA_SERVICE] == NULL || frames_make(e) != 0) {
		snprintf(error, error_len,
			"no memory for limits.transfer_frames = %u or limits.regions = %u of lane "
			"%u: lower them, or reserve more hugepages",
			c->transfer_frames, c->regions, e->lane);
		return -ENOMEM;
	}
	rma_lane(e)->dma.placed = target_placed;
	return dma_open(e, error, error_len);
}

static void
rma_free(struct engine *e)
{
	if (rma_lane(e) == NULL)
		return;
	dma_close(e);
	frames_free(e);
	free(rma_lane(e));
}

static int
rma_make_context(struct node *n, struct channel *ch)
{
	const struct config *c = &n->config;
	uint32_t ops = c->transfers * (c->matching == MATCHING_ENGINE ? 2 : 1);
	struct rma_context *r = ch->service[RMA_SERVICE] = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->ended_mask = rte_align32pow2(c->transfers) - 1;
	r->ops = aligned_alloc(64, ops * sizeof(*r->ops));
	r->all_ops = ops;
	r->requests = calloc(c->requests, sizeof(*r->requests));
	r->ended = calloc(r->ended_mask + 1, sizeof(*r->ended));
	if (r->ops == NULL || r->requests == NULL || r->ended == NULL)
		return -ENOMEM;
	memset(r->ops, 0, ops * sizeof(*r->ops));
	return 0;
}

static void
rma_free_context(struct channel *ch)
{
	struct rma_context *r = rma_context(ch);

	if (r == NULL)
		return;
	free(r->ops);
	free(r->requests);
	free(r->ended);
	free(r);
}

/* Nothing is registered, nothing under way. */
static void
rma_join(struct node *n, struct channel *ch)
{
	struct rma_context *r = rma_context(ch);
	struct rma_context fresh = {
		.descs = channel_part(ch, n->layout.transfers),
		.ops = r->ops,
		.transfers = n->config.transfers,
		.all_ops = r->all_ops,
		.requests = r->requests,
		.ended = r->ended,
		.ended_mask = r->ended_mask,
	};

	for (uint32_t i = 0; i < n->config.requests; i++) {
		r->requests[i].next = fresh.free_requests;
		fresh.free_requests = &r->requests[i];
	}
	*r = fresh;
	slot_end_init(&r->events, channel_part(ch, n->layout.events), n->geometry.events,
		&ch->shm->events_pos);
}

static void
rma_open(struct engine *e, struct channel *ch)
{
	const struct node *n = e->node;

	proto_ctx_open(e->proto, ch->ctx | WIRE_TARGET, n->config.requests, 0, n->frag_len, e->now);
	proto_ctx_open(e->proto, ch->ctx | WIRE_INITIATOR, INITIATOR_ROOM, 0, n->frag_len, e->now);
}

static void
rma_close(struct engine *e, struct channel *ch, bool linger)
{
	struct rma_context *r = rma_context(ch);

	dma_drain(e);
	regions_close(e, ch);
	requests_close(e, ch);
	transfer_close(e, ch);
	proto_ctx_close(e->proto, ch->ctx | WIRE_TARGET, linger, e->now);
	r->leaves = pinning_any(ch);
	if (!r->leaves || !linger)
		proto_ctx_close(e->proto, ch->ctx | WIRE_INITIATOR, linger, e->now);
	if (r->leaves && !linger) /* it goes on for a few words: pinning_leaves */
		proto_ctx_open(e->proto, ch->ctx | WIRE_INITIATOR, INITIATOR_ROOM, 0,
			e->node->frag_len, e->now);
}

/* Those who pinned memory for it are told; then the last endpoint closes. */
static bool
rma_closed(struct engine *e, struct channel *ch)
{
	struct rma_context *r = rma_context(ch);

	if (unlikely(r->leaves) && pinning_leaves(e, ch)) {
		r->leaves = false;
		proto_ctx_close(e->proto, ch->ctx | WIRE_INITIATOR, true, e->now);
	}
	return !r->leaves && r->frames == 0 && r->local_head == NULL;
}

static void
rma_memory_gone(struct engine *e, struct channel *ch, const struct memory *m)
{
	transfer_memory_gone(e, ch, m);
	regions_memory_gone(e, ch, m);
}

/* ------------------------------------------------------------------ another primary takes over */

/* Others' questions wait with them: there is no room for any until the context goes on. */
static void
rma_freeze(struct engine *e, struct channel *ch)
{
	while (proto_ctx_take(e->proto, ch->ctx | WIRE_TARGET, 1, 0, true))
		rma_context(ch)->withheld++;
}

static void
rma_thaw(struct engine *e, struct channel *ch)
{
	uint32_t n = rma_context(ch)->withheld;

	rma_context(ch)->withheld = 0;
	if (n > 0)
		proto_ctx_room(e->proto, ch->ctx | WIRE_TARGET, n, 0, e->now);
}

static bool
rma_drained(const struct engine *e, const struct channel *ch)
{
	const struct rma_lane *x = rma_lane(e);

	if (ch == NULL)
		return x->requests.head == NULL && x->lingering == NULL && x->local_waiting == 0 &&
			x->dma.head == x->dma.tail;
	const struct rma_context *r = rma_context(ch);

	return r->frames == 0 && r->ops_used == 0 && !r->region.due && !r->region.waits &&
		r->events_waiting == 0 && r->local_head == NULL;
}

struct saved_context {
	uint32_t event_pos, event_other, ended;
	uint64_t next_age, pushed, pulled, failed, served, refused;
	uint32_t regions, withheld;
	struct pin_place pin_places[PIN_PLACES];
};

/* A region's memory by its number, MEMORY_COPIED: none. */
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
	const struct rma_lane *x = rma_lane(e);

	image_put(o, x->refused, sizeof(x->refused));
	image_put(o, &x->regions.free_from, sizeof(x->regions.free_from));
	for (uint32_t i = 0; i < e->node->config.regions; i++) {
		struct region r = x->regions.regions[i];

		r.memory = (void *)(uintptr_t)region_memory_number(e->node, &x->regions.regions[i]);
		image_put(o, &r, sizeof(r));
	}
	image_put(o, &x->pins_used, sizeof(x->pins_used));
	image_put(o, x->pins, e->node->config.regions * sizeof(*x->pins));
}

static bool
rma_restore(struct engine *e, struct image_in *in)
{
	struct rma_lane *x = rma_lane(e);
	const uint32_t regions = e->node->config.regions;

	return image_get(in, x->refused, sizeof(x->refused)) &&
		image_get(in, &x->regions.free_from, sizeof(x->regions.free_from)) &&
		image_get(in, x->regions.regions, regions * sizeof(*x->regions.regions)) &&
		image_get(in, &x->pins_used, sizeof(x->pins_used)) && x->pins_used <= regions &&
		image_get(in, x->pins, regions * sizeof(*x->pins));
}

static void
rma_save_context(const struct channel *ch, struct image_out *o)
{
	const struct rma_context *r = rma_context(ch);
	struct saved_context s = {
		.event_pos = r->events.pos,
		.event_other = r->events.other,
		.ended = r->ended_tail - r->ended_head,
		.next_age = r->next_age,
		.pushed = r->pushed,
		.pulled = r->pulled,
		.failed = r->failed,
		.served = r->served,
		.refused = r->refused,
		.regions = r->regions,
		.withheld = r->withheld,
	};

	memcpy(s.pin_places, r->pin_places, sizeof(s.pin_places));
	image_put(o, &s, sizeof(s));
	for (uint32_t i = r->ended_head; i != r->ended_tail; i++)
		image_put(o, &r->ended[i & r->ended_mask], sizeof(*r->ended));
}

static bool
rma_restore_context(struct channel *ch, struct image_in *in)
{
	struct rma_context *r = rma_context(ch);
	struct saved_context s;

	if (!image_get(in, &s, sizeof(s)) || s.ended > r->ended_mask + 1 ||
		!image_get(in, r->ended, s.ended * sizeof(*r->ended)))
		return false;
	memcpy(r->pin_places, s.pin_places, sizeof(s.pin_places));
	r->events.pos = s.event_pos;
	r->events.other = s.event_other;
	r->ended_tail = s.ended;
	ch->results |= s.ended != 0 ? 1u << RMA_SERVICE : 0;
	r->next_age = s.next_age;
	r->pushed = s.pushed;
	r->pulled = s.pulled;
	r->failed = s.failed;
	r->served = s.served;
	r->refused = s.refused;
	r->regions = s.regions;
	r->withheld = s.withheld;
	return true;
}

/* Numbers of memory become memory, which is there now; regions that others have pinned are
 * counted. */
static void
rma_restored(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = 0; i < e->node->config.regions; i++) {
		struct region *r = &x->regions.regions[i];
		uint32_t number = (uint32_t)(uintptr_t)r->memory;

		r->memory = r->key != 0 && number < MEMORIES_MAX
			? e->node->channels[r->ctx].space.pieces[number]
			: NULL;
	}
	for (uint32_t i = 0; i < x->pins_used; i++)
		rma_context(&e->node->channels[x->pins[i].ctx])->pins++;
}

const struct service_ops service_rma = {
	.name = "rma",
	.number = RMA_SERVICE,
	.endpoints = 1u << WIRE_TARGET / WIRE_CONTEXTS_MAX |
		1u << WIRE_INITIATOR / WIRE_CONTEXTS_MAX,
	.image_form = sizeof(struct saved_context) + sizeof(struct region) + sizeof(struct pin) +
		sizeof(struct refusal),
	.make = rma_make,
	.free = rma_free,
	.make_context = rma_make_context,
	.free_context = rma_free_context,
	.join = rma_join,
	.open = rma_open,
	.close = rma_close,
	.closed = rma_closed,
	.memory_gone = rma_memory_gone,
	.message = rma_message,
	.frame = frame_mbuf,
	.completed = rma_completed,
	.send_failed = rma_send_failed,
	.handed_over = rma_handed_over,
	.submit =
		{
			[SUBMIT_TRANSFER] = rma_submit_transfer,
			[SUBMIT_FRAME] = rma_submit_frame,
			[SUBMIT_REGISTER] = rma_submit_region,
			[SUBMIT_DEREGISTER] = rma_submit_region,
			[SUBMIT_CANCEL] = rma_submit_cancel,
		},
	.results = rma_results,
	.step = rma_step,
	.answer = rma_answer,
	.awake = rma_awake,
	.freeze = rma_freeze,
	.thaw = rma_thaw,
	.drained = rma_drained,
	.save = rma_save,
	.restore = rma_restore,
	.save_context = rma_save_context,
	.restore_context = rma_restore_context,
	.restored = rma_restored,
};
