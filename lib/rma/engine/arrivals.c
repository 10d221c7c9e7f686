/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What arrives: messages of transfers from the core and from this node, and frames that are
 * completed.
 */
#include <errno.h>
#include <string.h>

#include "rma/engine/arrivals.h"
#include "rma/engine/dma.h"
#include "rma/engine/frames.h"
#include "rma/engine/results.h"

/* Place bytes of a partial transfer (runs), or bytes for memory that is not mapped here. */
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

void
arrival_placed(struct engine *e, struct channel *ch, const struct arrival *a)
{
	rma_target_placed(rma_lane(e)->rma, ch->ctx, &a->msg, 0);
	if (unlikely(a->msg.head->flags & WIRE_T_NOTIFY))
		events_pass(e, ch);
	service_rma_called(e);
}

/* Report that the bytes of a message to a target are in place, or why they are not. Return true if
 * a->m is kept. */
static inline bool
target_placed(struct engine *e, struct channel *ch, const struct arrival *a, uint8_t error)
{
	if (unlikely(error != 0))
		rma_target_placed(rma_lane(e)->rma, ch->ctx, &a->msg, error);
	else if (dma_later(e, ch, a))
		return true;
	else
		arrival_placed(e, ch, a);
	return false;
}

/* ------------------------------------------------------------------ written by the kernel */

/* Write what is late, and free its mbufs. */
static __rte_noinline void
write_late(struct engine *e)
{
	struct late *x = &rma_lane(e)->late;
	struct channel *ch = x->ch;
	struct scatter all;
	unsigned n = x->count;

	x->count = 0;
	scatter_begin(&all, &ch->space, true);
	for (unsigned i = 0; i < n; i++)
		scatter_add(&all, x->at[i], (void *)(uintptr_t)x->arrivals[i].msg.bytes,
			x->arrivals[i].msg.len);
	const bool together = scatter_end(&all) == 0;

	for (unsigned i = 0; i < n; i++) {
		const struct arrival *a = &x->arrivals[i];
		const struct bytes to = {&ch->space, NULL, x->at[i], a->msg.len};
		/* one by one, to find out which it was */
		const uint8_t error = together ||
				memory_write(&to, 0, a->msg.bytes, a->msg.len) == 0
			? 0
			: EFAULT;

		if (!x->at_target)
			rma_initiator_placed(rma_lane(e)->rma, ch->ctx, &a->msg, a->msg.len, error);
		else if (target_placed(e, ch, a, error))
			continue;
		rte_mbuf_raw_free(a->m);
	}
}

void
arrivals_write_late(struct engine *e)
{
	if (unlikely(rma_lane(e)->late.count != 0))
		write_late(e);
}

static_assert(LATE_MAX <= SCATTER_MAX, "one system call");

/* Write the bytes of a->m later, and keep it. Return false if they have to be written now. */
static bool
write_later(struct engine *e, struct channel *ch, const struct arrival *a,
	const struct rma_place *place, bool at_target)
{
	struct late *x = &rma_lane(e)->late;

	if (a->m == NULL || place->runs || a->msg.len == 0)
		return false;
	x->ch = ch;
	x->at_target = at_target;
	x->at[x->count] = place->to.at;
	x->arrivals[x->count++] = *a;
	if (x->count == LATE_MAX)
		write_late(e);
	return true;
}

/* Write what is late before this message is handled, unless the message continues it: is one more
 * frame of bytes for the same endpoint. */
static inline void
late_before(struct engine *e, const struct channel *ch, const struct rma_message *m, bool at_target)
{
	const struct late *x = &rma_lane(e)->late;

	if (unlikely(x->count != 0) &&
		(x->ch != ch || x->at_target != at_target ||
			m->head->op != (at_target ? WIRE_PUSH : WIRE_PULLED)))
		write_late(e);
}

/* ------------------------------------------------------------------ messages */

/* Do an atomic operation on memory that is mapped here, or on a copy of it: the lane is the only
 * one that changes the context's memory for others. */
static __rte_noinline void
change(struct engine *e, struct channel *ch, const struct rma_place *place,
	const struct rma_message *m)
{
	const struct bytes to = {&ch->space, place->to.memory, place->to.at, place->to.len};
	const uint32_t len = (uint32_t)to.len;
	uint64_t before[WIRE_ATOMIC_BYTES / 8], now[WIRE_ATOMIC_BYTES / 8];
	int error = 0;

	if (to.memory != NULL) {
		rma_change(place, m, address_of(place), before);
	} else {
		error = memory_read(&to, 0, now, len);
		if (error == 0)
			rma_change(place, m, now, before);
		if (error == 0 && memcmp(now, before, len) != 0)
			error = memory_write(&to, 0, now, len);
	}
	rma_target_changed(rma_lane(e)->rma, ch->ctx, m, place, before, error == 0 ? 0 : EFAULT);
}

/* Handle a message to a target. Return true if a->m is kept, false if the caller has to free it. */
static bool
arrival_at_target(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct rma *rma = rma_lane(e)->rma;
	const struct rma_message *m = &a->msg;
	struct rma_place place;
	uint64_t bytes;
	uint8_t error = 0;

	service_rma_called(e);
	late_before(e, ch, m, true);
	/* anything that follows pushes must find their bytes in place, and be answered after
	 * them */
	if (m->head->op != WIRE_PUSH || a->m == NULL)
		dma_drain(e);
	const enum rma_heard heard = rma_target_message(rma, ch->ctx, m, &place, e->now);

	if (unlikely(heard == RMA_CHANGE))
		change(e, ch, &place, m);
	if (heard != RMA_PLACE)
		return false;
	if (unlikely(place.to.memory == NULL) && write_later(e, ch, a, &place, true))
		return true;
	arrivals_write_late(e);
	if (unlikely(place.runs || place.to.memory == NULL))
		error = place_slowly(ch, &place, m, &bytes);
	else if (dma_copy(e, ch, a, place.to.memory, address_of(&place)))
		return true;
	else
		memcpy(address_of(&place), m->bytes, m->len);
	return target_placed(e, ch, a, error);
}

/* Handle a message to an initiator. Return true if a->m is kept, false if the caller has to free
 * it. */
static bool
arrival_at_initiator(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct rma *rma = rma_lane(e)->rma;
	const struct rma_message *m = &a->msg;
	struct rma_place place;
	uint64_t bytes = m->len;
	uint8_t error = 0;

	service_rma_called(e);
	late_before(e, ch, m, false);
	if (rma_initiator_message(rma, ch->ctx, m, &place, e->now) == RMA_HEARD)
		return false;
	if (unlikely(place.to.memory == NULL) && write_later(e, ch, a, &place, false))
		return true;
	arrivals_write_late(e);
	if (unlikely(place.runs || place.to.memory == NULL))
		error = place_slowly(ch, &place, m, &bytes);
	else
		memcpy(address_of(&place), m->bytes, m->len);
	rma_initiator_placed(rma, ch->ctx, m, bytes, error);
	return false;
}

void
arrival_heard(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len)
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
		if (arrival_at_target(e, ch, &a))
			return;
	} else {
		proto_ctx_room(e->proto, to, 1, 0, e->now);
		if (arrival_at_initiator(e, ch, &a))
			return;
	}
	rte_mbuf_raw_free(m); /* it has one segment and one reference */
}

bool
arrivals_place(struct engine *e, struct channel *ch, const struct rma_area_range *range,
	const void *bytes, bool runs)
{
	struct wire_runs r = {bytes, (uint32_t)range->len, 0, 0, 0};
	struct rma_area_range all = *range;
	struct rma_bytes there;
	uint64_t placed = 0;

	while (runs && wire_run_next(&r) != NULL)
		;
	/* what they reach, and not what they are */
	all.len = runs ? r.end : range->len;
	if (runs && (r.left > sizeof(struct wire_run) || r.end == 0))
		return false;
	/* what arrived before must not be written later */
	dma_drain(e);
	arrivals_write_late(e);
	if (!rma_area_writable(rma_lane(e)->rma, ch->ctx, &all, &there))
		return false;
	const struct bytes to = {&ch->space, there.memory, there.at, there.len};

	return runs ? memory_place(&to, 0, bytes, (uint32_t)range->len - r.left, &placed) == 0
		    : memory_write(&to, 0, bytes, (uint32_t)there.len) == 0;
}

/* ------------------------------------------------------------------ frames come back */

/* Send a frame again whose flow was reset by the end of a context: the one that it was for, or an
 * earlier one that had the same number and so the same flow. Return whether it was sent. The order
 * is kept, since frames come back in order and before anything new is sent. */
static bool
send_again(struct engine *e, struct frame *f)
{
	return rma_again(rma_lane(e)->rma, f->f) &&
		(!frame_is_with_port(f) || frame_copy_from_port(e, f)) && frame_to_core(e, f) == 0;
}

/* Complete a frame that the core, or the other lane, is done with. If its flow was reset, it may be
 * sent again instead. If a port still has its mbufs and there are no others for it, it lingers. */
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

void
frame_completed(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error)
{
	(void)ch;
	frame_done(e, frame_of_handle(handle), error);
}

void
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

/* Deliver a frame from this node. Return false if its target has no room now. */
static bool
take_local(struct engine *e, struct frame *f)
{
	const uint16_t ctx = f->f->dst % WIRE_CONTEXTS_MAX;
	struct channel *ch = &e->node->channels[ctx]; /* used only if there is such a context */
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
	if (ctx >= e->node->config.contexts || ch->state != CHANNEL_OPEN ||
		!channel_admits(e->node, ch, a.msg.peer)) {
		f->error = ECONNREFUSED;
	} else if (f->f->dst & WIRE_INITIATOR) {
		arrival_at_initiator(e, ch, &a);
	} else if (proto_ctx_take(e->proto, f->f->dst, 1, 0, false)) {
		arrival_at_target(e, ch, &a);
	} else {
		if (head->op != WIRE_UNPIN || !(head->flags & WIRE_T_LAST))
			return false;
		/* the last UNPIN is not answered, and needs no room: lib/rma/pins.c, note 4 */
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

/* Take a frame from this node that reached the lane of its target, or came back to its own. Answers
 * never wait. */
void
frame_handed_over(struct engine *e, uint64_t handle)
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

unsigned
frames_take_local(struct engine *e)
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
