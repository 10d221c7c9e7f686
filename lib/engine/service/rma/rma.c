/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a service of the engine: what comes from the core, from clients and from other
 * lanes goes to lib/rma, and what that has for them goes to frames (frames.c), memory, rings and
 * the core. Runs on the lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rte_cycles.h>

#include "engine/complete.h"
#include "engine/image.h"
#include "engine/service/rma/dma.h"
#include "engine/service/rma/frames.h"
#include "engine/service/rma/rma.h"
#include "engine/thin.h"

#define INITIATOR_ROOM 65536   /* never used up: entries come back as they are taken */
#define ASK_EVERY_US   100000u /* while a transfer waits */

/* ------------------------------------------------------------------ what lib/rma has for others */

static void
write_status(struct channel *ch, const struct rma_result *result)
{
	const uint64_t status = result->desc->status;
	const struct memory *m = space_at(&ch->space, result->desc->status_memory, status,
		sizeof(int32_t));

	/* release: the bytes that came before the word that says so */
	if (m != NULL)
		atomic_store_explicit((_Atomic int32_t *)(m->base + (status - m->client)),
			-(int32_t)result->error, memory_order_release);
}

static void
pass_results(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	const struct rma_result *result;

	while ((result = rma_result(x->rma)) != NULL) {
		struct channel *ch = &e->node->channels[result->ctx];
		struct rma_channel *c = rma_channel(ch);

		if (unlikely(ch->state != CHANNEL_OPEN))
			continue;
		if (unlikely(result->fetched)) {
			x->fetched(e, ch, result->cookie, result->error);
			continue;
		}
		if (result->desc->status != 0)
			write_status(ch, result);
		c->ended[c->ended_tail++ & c->ended_mask] = COMPLETION_ITEM(result->place,
			result->error);
		/* a client that uses places before it has read their results loses these */
		if (unlikely(c->ended_tail - c->ended_head > c->ended_mask + 1))
			c->ended_head++;
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

static void
settle(struct engine *e)
{
	const unsigned has = rma_has(rma_lane(e)->rma);

	if (has & RMA_HAS_NEWS)
		pass_news(e);
	if (has & RMA_HAS_RESULTS)
		pass_results(e);
}

/* The application is notified, as far as its ring has room. */
static void
pass_events(struct engine *e, struct channel *ch)
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

static void
pass_all_events(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++)
		pass_events(e, e->open[i]);
}

/* ------------------------------------------------------------------ messages */

/* Runs, or memory that is not mapped here. */
static __rte_noinline uint8_t
place_slowly(struct channel *ch, const struct rma_place *place, const struct rma_message *m,
	uint64_t *placed)
{
	const struct bytes to = {&ch->space, place->to.memory, place->to.at, place->to.len};

	if (!place->runs)
		return m->len != 0 && memory_write(&to, 0, m->bytes, m->len) != 0 ? EFAULT : 0;
	*placed = 0;
	return memory_place(&to, place->offset, m->bytes, m->len, placed);
}

static inline uint8_t *
address_of(const struct rma_place *place)
{
	const struct memory *m = place->to.memory;

	return m->base + (place->to.at - m->client);
}

/* The bytes of a frame to a target are in their place. */
static void
placed(struct engine *e, struct channel *ch, const struct arrival *a)
{
	rma_target_placed(rma_lane(e)->rma, ch->ctx, &a->msg, 0);
	if (unlikely(a->msg.head->flags & WIRE_T_NOTIFY))
		pass_events(e, ch);
	service_rma_called(e);
}

/* true: a->m is kept. */
static bool
target_message(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct rma *rma = rma_lane(e)->rma;
	const struct rma_message *m = &a->msg;
	struct rma_place place;
	uint64_t bytes;
	uint8_t error = 0;

	service_rma_called(e);
	/* what comes after pushes finds their bytes in place, and its answer behind theirs */
	if (m->head->op != WIRE_PUSH || a->m == NULL)
		dma_drain(e);
	if (rma_target_message(rma, ch->ctx, m, &place, e->now) == RMA_HEARD)
		return false;
	if (unlikely(place.runs || place.to.memory == NULL))
		error = place_slowly(ch, &place, m, &bytes);
	else if (dma_copy(e, ch, a, place.to.memory, address_of(&place)))
		return true;
	else
		memcpy(address_of(&place), m->bytes, m->len);
	if (unlikely(error != 0))
		rma_target_placed(rma, ch->ctx, m, error);
	else if (dma_later(e, ch, a))
		return true;
	else
		placed(e, ch, a);
	return false;
}

static void
initiator_message(struct engine *e, struct channel *ch, const struct rma_message *m)
{
	struct rma *rma = rma_lane(e)->rma;
	struct rma_place place;
	uint64_t bytes = m->len;
	uint8_t error = 0;

	service_rma_called(e);
	if (rma_initiator_message(rma, ch->ctx, m, &place, e->now) == RMA_HEARD)
		return;
	if (unlikely(place.runs || place.to.memory == NULL))
		error = place_slowly(ch, &place, m, &bytes);
	else
		memcpy(address_of(&place), m->bytes, m->len);
	rma_initiator_placed(rma, ch->ctx, m, bytes, error);
}

static void
rma_heard(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod(m, const struct wire_hdr *);
	const uint8_t *payload = (const uint8_t *)h + WIRE_HDR_BYTES;
	const uint16_t to = wire_be16(h->dst_ctx), from = wire_be16(h->src_ctx);
	const bool to_target = wire_endpoint(to) == WIRE_TARGET;
	const struct arrival a = {
		.msg =
			{
				.head = (const struct wire_transfer *)payload,
				.bytes = payload + sizeof(struct wire_transfer),
				.len = len - (uint32_t)sizeof(struct wire_transfer),
				.node = wire_be16(h->src_node),
				.peer = from % WIRE_CONTEXTS_MAX,
			},
		.m = m,
	};

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
		initiator_message(e, ch, &a.msg);
	}
	rte_mbuf_raw_free(m); /* one segment, one reference: our own */
}

/* ------------------------------------------------------------------ frames come back */

/* A frame whose flow was reset: by the end of the context that it was for, or of the one that had
 * that number before and the same flow. Frames come back in order, and before anything new is
 * sent. */
static bool
send_again(struct engine *e, struct frame *f)
{
	return rma_again(rma_lane(e)->rma, f->f) &&
		(!frame_is_with_port(f) || frame_copy_from_port(e, f)) && frame_to_core(e, f) == 0;
}

/* The core, or the other lane, is done with it. */
static void
frame_done(struct engine *e, struct frame *f, uint8_t error)
{
	if (unlikely(error == ECONNRESET) && send_again(e, f))
		return;
	bool queued = frame_is_with_port(f);

	if (unlikely(queued) && !frame_leave_to_port(e, f)) {
		if (error)
			rma_lost(rma_lane(e)->rma, f->f);
		f->error = error;
		f->next = rma_lane(e)->lingering;
		rma_lane(e)->lingering = f;
		service_busy(e, RMA_SERVICE);
		return;
	}
	if (f->memory && !queued)
		memory_let_go(f->memory);
	f->memory = NULL;
	f->back = false;
	rma_acked(rma_lane(e)->rma, f->f, error);
	service_rma_called(e);
}

static void
rma_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	(void)ch;
	frame_done(e, frame_of_handle(handle), error);
}

/* Frames that a port had, when there was no mbuf to leave to it. */
static void
frames_recheck(struct engine *e)
{
	struct frame *f = rma_lane(e)->lingering;

	rma_lane(e)->lingering = NULL;
	while (f != NULL) {
		struct frame *next = f->next;

		frame_done(e, f, f->error);
		f = next;
	}
}

/* ------------------------------------------------------------------ within this node */

/* false: its target has no room now. */
static bool
take_local(struct engine *e, struct frame *f)
{
	const uint16_t ctx = f->f->dst % WIRE_CONTEXTS_MAX;
	struct channel *ch = &e->node->channels[ctx]; /* looked at only if there is one */
	const struct wire_transfer *head = f->f->head;
	const struct arrival a = {
		.msg = {
			.head = head,
			.bytes = f->memory ? f->place->buf_addr : (const uint8_t *)(head + 1),
			.len = f->f->len - (uint32_t)sizeof(*head),
			.node = (uint16_t)e->node->config.id,
			.peer = f->f->src % WIRE_CONTEXTS_MAX,
		}};

	f->error = 0;
	if (ctx >= e->node->config.contexts || ch->state != CHANNEL_OPEN) {
		f->error = ECONNREFUSED;
	} else if (f->f->dst & WIRE_INITIATOR) {
		initiator_message(e, ch, &a.msg);
	} else if (proto_ctx_take(e->proto, f->f->dst, 1, 0, false)) {
		target_message(e, ch, &a);
	} else {
		if (head->op != WIRE_UNPIN || !(head->flags & WIRE_T_LAST))
			return false;
		/* is not answered, and waits for no room: lib/rma/pins.c, note 4 */
		rma_peer_left(rma_lane(e)->rma, ctx, a.msg.node, a.msg.peer);
	}
	return true;
}

static void
send_back(struct engine *e, struct frame *f)
{
	f->back = true;
	frame_hand_over(e, f, f->f->src % WIRE_CONTEXTS_MAX);
}

/* A frame of this node is in the lane of its target, or came back to its own. Answers never
 * wait. */
static void
rma_handed_over(struct engine *e, uint64_t handle)
{
	struct frame *f = frame_of_handle(handle);
	const uint16_t ctx = f->f->dst % WIRE_CONTEXTS_MAX;
	struct rma_channel *c = ctx < e->node->config.contexts
		? rma_channel(&e->node->channels[ctx])
		: NULL;

	if (f->back) {
		frame_done(e, f, f->error);
		return;
	}
	if ((c == NULL || c->local_head == NULL || f->f->dst & WIRE_INITIATOR) &&
		take_local(e, f)) {
		send_back(e, f);
		return;
	}
	f->next = NULL;
	if (c->local_head == NULL)
		c->local_head = f;
	else
		c->local_tail->next = f;
	c->local_tail = f;
	rma_lane(e)->local_waiting++;
	service_busy(e, RMA_SERVICE);
}

/* Frames of this node that waited for room at a target of this lane. */
static unsigned
frames_local(struct engine *e)
{
	unsigned work = 0;

	for (uint32_t i = e->lane; i < e->node->config.contexts; i += e->node->config.lanes) {
		struct rma_channel *c = rma_channel(&e->node->channels[i]);

		while (c->local_head != NULL) {
			struct frame *f = c->local_head, *next = f->next;

			if (!take_local(e, f))
				break;
			c->local_head = next;
			rma_lane(e)->local_waiting--;
			send_back(e, f);
			work++;
		}
	}
	return work;
}

/* ------------------------------------------------------------------ to and from clients */

/* A frame that the client packed was not Acked. */
static void
packed_failed(struct engine *e, struct channel *ch, const struct send_slot *s,
	const struct send_failure *f)
{
	struct wire_transfer h;

	/* the client may have written there since; it harms itself */
	memcpy(&h, send_payload(s), sizeof(h));
	rma_packed_failed(rma_lane(e)->rma, ch->ctx, wire_be32(h.id), f->error);
	service_rma_called(e);
}

/* A frame that the client packed for a context of this node, in its buffer. 1: it went; -EAGAIN. */
static int
packed_copy(struct engine *e, struct channel *ch, const struct send_slot *slot, uint16_t dst_ctx,
	uint32_t len)
{
	struct wire_transfer h;

	memcpy(&h, send_payload(slot), sizeof(h));
	struct rma_frame *f = rma_packed_copy(rma_lane(e)->rma, ch->ctx, dst_ctx, wire_be32(h.id),
		len);

	if (f == NULL)
		return -EAGAIN;
	memcpy(f->head, send_payload(slot), len);
	frame_hand_over(e, frame_of(f), dst_ctx);
	return 1;
}

/* A frame of a transfer that the client packed: to another node in the client's buffer, within this
 * node as a copy. Returns slots consumed, 0 = not now. */
static unsigned
rma_submit_frame(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct rma *rma = rma_lane(e)->rma;
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
	if (!rma_is_packed(rma, ch->ctx, s->frame.transfer)) {
		slot_complete(e, ch, slot, 0);
		return 1;
	}
	if (s->frame.dst_node == e->node->config.id)
		result = packed_copy(e, ch, slot, s->frame.dst_ctx, s->frame.len);
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
		packed_failed(e, ch, slot, &(struct send_failure){.error = (uint8_t)-result});
	if (s->count != 0)
		rma_packed(rma, ch->ctx, s->frame.transfer, e->now);
	if (result != 0)
		slot_complete(e, ch, slot, result < 0 ? (uint8_t)-result : 0);
	return 1;
}

/* For the client, which weighs an offer against copying. */
static void
tell_rtt(struct engine *e, struct channel *ch, uint16_t node)
{
	struct proto_path_stat stat;

	if (node < e->nodes_max && proto_path_stat(e->proto, node, &stat) &&
		stat.rtt_ns < UINT32_MAX)
		atomic_store_explicit(&ch->shm->rtt_ns, (uint32_t)stat.rtt_ns,
			memory_order_relaxed);
}

static unsigned
rma_submit_transfer(struct engine *e, struct channel *ch, const struct submission *s)
{
	const struct transfer_desc *shared = &rma_channel(ch)->descs[s->transfer];

	if (unlikely(!rma_submit(rma_lane(e)->rma, ch->ctx, s->transfer, shared, e->now)))
		submission_bad(e, ch);
	else if (unlikely(shared->kind == TRANSFER_OFFER))
		tell_rtt(e, ch, shared->node);
	service_rma_called(e);
	return 1;
}

static unsigned
rma_submit_cancel(struct engine *e, struct channel *ch, const struct submission *s)
{
	rma_packed_cancel(rma_lane(e)->rma, ch->ctx, s->transfer);
	service_rma_called(e);
	return 1;
}

/* 0 and the region's key, or -errno. */
static int
region_register(struct engine *e, struct channel *ch, const struct submission *s, uint64_t *key)
{
	struct region region = {
		.base = s->region.addr,
		.len = s->region.len,
		.area = s->region.area,
		.rights = s->region.rights < 4 ? (uint8_t)s->region.rights : 0,
		.method = MEMORY_BY_KERNEL,
		.watched = s->region.watched,
	};
	uint64_t random;

	if (s->region.memory != MEMORY_COPIED) {
		struct memory *m = space_at(&ch->space, s->region.memory, region.base, region.len);

		if (m == NULL)
			return -EFAULT;
		region.memory = m;
		region.method = memory_method(m);
		region.watched = m->watched;
	}
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	return rma_register(rma_lane(e)->rma, ch->ctx, &region, random, key);
}

/* A client registers a region, or ends it. */
static unsigned
rma_submit_region(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct rma_channel *c = rma_channel(ch);
	uint64_t key = s->region.key;
	int result;

	if (ch->state != CHANNEL_OPEN)
		return 1; /* nobody would hear the answer */
	if (c->region.due || c->region.waits)
		return 0;
	if (s->op == SUBMIT_REGISTER) {
		result = region_register(e, ch, s, &key);
	} else {
		dma_drain(e);
		result = rma_deregister(rma_lane(e)->rma, ch->ctx, key, e->now);
	}
	c->region.waits = result > 0;
	c->region.due = result <= 0;
	c->region.ticket = s->region.ticket;
	c->region.error = result < 0 ? (uint32_t)-result : 0;
	c->region.key = key;
	if (c->region.due)
		service_has_results(e, ch, RMA_SERVICE);
	service_rma_called(e);
	return 1;
}

/* Results of transfers and registrations. */
static bool
rma_results(struct engine *e, struct channel *ch)
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

/* A lane without work for it sleeps. */
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
	/* errors first: what would follow a lost answer must not look like its end */
	unsigned work = engine_complete(e);

	if (unlikely(x->lingering != NULL))
		frames_recheck(e);
	work += dma_poll(e);
	if (unlikely(x->local_waiting))
		work += frames_local(e);
	if (unlikely(rma_has(x->rma) & RMA_HAS_EVENTS))
		pass_all_events(e);
	rma_turn(x->rma);
	work += answers_send(e);
	work += transfers_send(e);
	if (e->now >= rma_deadline(x->rma)) {
		rma_tick(x->rma, e->now);
		work += transfers_send(e);
	}
	settle(e);
	rest(e);
	return work;
}

static unsigned
rma_answer(struct engine *e)
{
	unsigned work = 0;

	if (rma_has(rma_lane(e)->rma) & RMA_HAS_ANSWERS) {
		work = engine_complete(e);
		rma_turn(rma_lane(e)->rma);
		work += answers_send(e);
	}
	settle(e);
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
	struct proto_path_stat stat;

	return proto_path_stat(e->proto, node, &stat) && stat.established ? stat.peer_epoch : 0;
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

/* Places for what receives fetch, where the engine matches. */
static uint32_t
fetches_max(const struct config *c)
{
	return c->matching == MATCHING_ENGINE ? c->transfers : 0;
}

/* Offers are asked for sooner where proto.rto_max_us is short: a flow that was silent for half of
 * that is opened anew, and a later life of the receiver would take it for its own. */
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
	rma_lane(e)->dma.placed = placed;
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

/* Nothing is registered, nothing under way. */
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
	settle(e);
	proto_ctx_close(e->proto, ch->ctx | WIRE_TARGET, linger, e->now);
	c->leaves = rma_leaves(rma, ch->ctx);
	if (!c->leaves || !linger)
		proto_ctx_close(e->proto, ch->ctx | WIRE_INITIATOR, linger, e->now);
	if (c->leaves && !linger) /* it goes on for a few words: rma_tx_leaving */
		proto_ctx_open(e->proto, ch->ctx | WIRE_INITIATOR, INITIATOR_ROOM, 0,
			e->node->frag_len, e->now);
}

/* Those who pinned memory for it are told; then the last endpoint closes. */
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

/* ------------------------------------------------------------------ another primary takes over */

/* Others' questions wait with them: there is no room for any until the context goes on. */
static void
rma_freeze(struct engine *e, struct channel *ch)
{
	while (proto_ctx_take(e->proto, ch->ctx | WIRE_TARGET, 1, 0, true))
		rma_channel(ch)->withheld++;
}

static void
rma_thaw(struct engine *e, struct channel *ch)
{
	uint32_t n = rma_channel(ch)->withheld;

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

/* Numbers of memory become memory, which is there now; regions that others have pinned are
 * counted. */
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
	.message = rma_heard,
	.frame = frame_mbuf,
	.completed = rma_completed,
	.send_failed = packed_failed,
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
	.restored = rma_restore_end,
};
