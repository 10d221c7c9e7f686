/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pushes and pulls of remote memory, on the application's side. What the engine is to do is written
 * to a place of the channel's table; what is short or in parts is packed here, in send buffers.
 * Runs in the context's thread.
 *
 * Design notes
 * 1. A transfer has a place, by whose number the engine knows it, until it has ended and its event
 *    was taken. Each use of a place has another generation, so that a late answer to an earlier
 *    transfer is recognised.
 * 2. Whole transfers longer than a frame are left to the engine. Pushes in parts are packed here
 *    frame by frame as send buffers become free (transfers_progress); so are pushes that fit one
 *    frame, whose memory then need not be pinned. A pull by a bitmap that is too long for one
 *    request is split.
 * 3. The engine keeps the order of what was submitted to it (PMX_ORDERED). The rest is ordered
 *    here: an ordered push in parts waits until all earlier transfers to that context have ended,
 *    other ordered transfers until all earlier ones are submitted.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rma/client/rma.h"
#include "core/wire/wire.h"

/* in send_note.next: a frame of a transfer, which is not counted as a message */
#define TRANSFER_BUFFER 0xFFFE
#define OF_AN_OFFER     0x80000000u /* in pmx_transfer.flags: key is the number of an offer */

static inline uint32_t
id_of(const struct pmx_context *ctx, uint16_t place)
{
	return TRANSFER_ID(place, ctx->rma->transfers[place].ended.uses);
}

/* ------------------------------------------------------------------ places */

/* Use the channel that is there now. */
static int
transfers_join(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;
	struct channel_shm *shm = ctx->shm;

	rma->no_kernel = !shm->kernel_copies;
	rma->transfer_payload = shm->frag_len - (uint32_t)sizeof(struct wire_transfer);
	slot_end_init(&rma->events, channel_events(shm), shm->events, &shm->events_pos);
	return 0;
}

static int
transfers_open(struct pmx_context *ctx)
{
	struct channel_shm *shm = ctx->shm;
	struct client_rma *rma = ctx->rma = calloc(1, sizeof(*rma));

	if (rma == NULL)
		return -ENOMEM;
	rma->transfer_count = shm->transfers;
	rma->transfers = calloc(shm->transfers, sizeof(*rma->transfers));
	rma->places = calloc(shm->transfers, sizeof(*rma->places));
	if (rma->transfers == NULL || rma->places == NULL)
		return -ENOMEM;
	/* begin at random, so that another life of this context number does not accept answers to
	 * this one */
	uint32_t life;

	if (getrandom(&life, sizeof(life), 0) != sizeof(life))
		return -EAGAIN;
	for (uint32_t i = shm->transfers; i-- > 0;) {
		rma->transfers[i].ended.uses = life;
		rma->places[rma->places_free++] = (uint16_t)i;
	}
	return transfers_join(ctx);
}

/* Return whether the library has more to submit of a transfer in that state. */
static bool
is_unfinished(enum note_state s)
{
	return 1u << s & (1u << NOTE_HELD | 1u << NOTE_PACKS | 1u << NOTE_ASKS);
}

static bool
is_under_way(const struct transfer_note *n)
{
	return n->state != NOTE_FREE && n->state != NOTE_ENDED;
}

/* Change a transfer's state. It goes from FREE to SUBMITTED, or to a state in which the library
 * still has to submit something; from there to SUBMITTED; and in the end, from any, to ENDED or
 * FREE. */
static void
note_becomes(struct pmx_context *ctx, struct transfer_note *n, enum note_state to)
{
	ctx->unfinished += is_unfinished(to);
	ctx->unfinished -= is_unfinished(n->state);
	n->state = (uint8_t)to;
}

static void
transfers_close(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	for (uint32_t i = 0; rma != NULL && rma->transfers != NULL && i < rma->transfer_count;
		i++) {
		if (rma->transfers[i].state != NOTE_FREE && rma->transfers[i].pin != PIN_NONE)
			pins_put(rma->transfers[i].pin);
	}
}

static uint16_t
take_place(struct pmx_context *ctx, const struct pmx_transfer *t)
{
	struct client_rma *rma = ctx->rma;
	uint16_t place = rma->places[--rma->places_free];
	struct transfer_note *n = &rma->transfers[place];

	note_becomes(ctx, n, NOTE_SUBMITTED);
	n->age = ++rma->transfer_age;
	n->parent = NO_PLACE;
	n->left = 0;
	n->first_error = 0;
	n->pin = PIN_NONE;
	n->bounced = n->fetches = false;
	n->status = NULL;
	n->cookie = t->cookie;
	n->request = NO_REQUEST;
	n->t = *t;
	return place;
}

static void
put_place(struct pmx_context *ctx, uint16_t place)
{
	struct client_rma *rma = ctx->rma;

	note_becomes(ctx, &rma->transfers[place], NOTE_FREE);
	rma->places[rma->places_free++] = place;
}

/* ------------------------------------------------------------------ bounce buffers */

/* Replace the transfer's local memory by a bounce buffer, if fewer than `most` are in use. in: the
 * transfer writes to it. */
static int
bounce(struct pmx_context *ctx, struct transfer_note *n, unsigned most, bool in)
{
	void *at;
	int result = bounce_get(ctx, BOUNCE_TRANSFER, n->t.len, most, &at);

	if (result != 0)
		return result;
	/* making room for it may have used slots that the caller needs */
	if (!slot_room(&ctx->sub, 2)) {
		bounce_put(ctx, BOUNCE_TRANSFER, at);
		return -EAGAIN;
	}
	n->bounced = true;
	n->home = in ? n->t.local : NULL;
	if (!in)
		memcpy(at, n->t.local, n->t.len);
	n->t.local = at;
	return 0;
}

/* Copy what arrived to the application's memory, and free the bounce buffer. */
static void
unbounce(struct pmx_context *ctx, struct transfer_note *n, uint8_t error)
{
	uint8_t *home = n->home;
	const uint8_t *at = n->t.local;
	struct part p = {.kind = PART_BASIC, .bytes = n->t.len};
	struct part_iterator it;
	struct part_run run;

	n->bounced = false;
	bounce_put(ctx, BOUNCE_TRANSFER, at);
	if (home == NULL || (error != 0 && error != EMSGSIZE))
		return;
	if (n->t.part != NULL)
		layout_part(n->t.part, at, n->t.len, &p);
	for (part_begin(&it, &p); part_next(&it, &run);)
		memcpy(home + run.offset, at + run.offset, run.len);
	n->t.local = home;
}

/* End a transfer, or a part of one. */
static void
transfer_end(struct pmx_context *ctx, uint16_t place, uint8_t error)
{
	struct client_rma *rma = ctx->rma;
	struct transfer_note *n = &rma->transfers[place];

	note_becomes(ctx, n, NOTE_SUBMITTED);
	if (n->pin != PIN_NONE)
		pins_put(n->pin);
	n->pin = PIN_NONE;
	if (n->bounced)
		unbounce(ctx, n, error);
	if (unlikely(n->fetches) && error == 0)
		memcpy(n->home, channel_transfers(ctx->shm)[place].bits, n->t.len);
	if (n->request != NO_REQUEST) {
		rma->requested--;
		outcome_add(&n->ended, error);
		put_place(ctx, place);
		ctx->request_ended(ctx, n->request, error);
		return;
	}
	if (n->parent != NO_PLACE) {
		struct transfer_note *p = &rma->transfers[n->parent];
		uint16_t parent = n->parent;

		p->first_error = p->first_error ? p->first_error : error;
		outcome_add(&n->ended, error);
		put_place(ctx, place);
		if (--p->left == 0 && p->state == NOTE_SUBMITTED)
			transfer_end(ctx, parent, p->first_error);
		return;
	}
	if (error == 0 && n->t.part != NULL && n->t.part->kind == PMX_PART_TWIN)
		memcpy(n->t.part->twin, n->t.local, n->t.len);
	outcome_add(&n->ended, error);
	if (n->status != NULL)
		*n->status = -(int32_t)error;
	if (n->t.flags & PMX_EVENT) {
		note_becomes(ctx, n, NOTE_ENDED);
		rma->events_waiting++;
	} else {
		put_place(ctx, place);
	}
}

/* Handle results that the engine wrote. */
static void
transfers_results(struct pmx_context *ctx, const struct completion *c)
{
	struct client_rma *rma = ctx->rma;

	if (c->count & COMPLETION_REGION) {
		rma->answer.ticket = c->item[0];
		rma->answer.error = c->item[1];
		rma->answer.key = (uint64_t)c->item[3] << 32 | c->item[2];
		rma->answer.here = true;
		return;
	}
	for (uint32_t i = 0; i < (c->count & 0xFFFF) && i < COMPLETION_BUFS; i++) {
		uint32_t place = c->item[i] & 0xFFFFFF;

		if (place < rma->transfer_count && is_under_way(&rma->transfers[place]))
			transfer_end(ctx, (uint16_t)place, (uint8_t)(c->item[i] >> 24));
	}
}

/* End a transfer without the engine: its status word is written here, even if the engine was to do
 * that. */
static void
end_here(struct pmx_context *ctx, uint16_t place, uint8_t error)
{
	struct transfer_note *n = &ctx->rma->transfers[place];

	if (n->parent == NO_PLACE && n->request == NO_REQUEST && n->status == NULL)
		n->status = n->t.status;
	transfer_end(ctx, place, error);
}

static int
transfers_leave(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	/* parts first: when they end, so may what they are parts of */
	for (int whole = 0; whole < 2; whole++) {
		for (uint32_t i = 0; i < rma->transfer_count; i++) {
			const struct transfer_note *n = &rma->transfers[i];

			if (is_under_way(n) && (whole || n->parent != NO_PLACE))
				end_here(ctx, (uint16_t)i, ECONNRESET);
		}
	}
	bounces_leave(ctx);
	return 0;
}

/* ------------------------------------------------------------------ submitting */

/* Return whether a status word is aligned. The engine writes only aligned ones; the library writes
 * the others. */
static bool
is_aligned(const volatile int32_t *word)
{
	return (uintptr_t)word % sizeof(*word) == 0;
}

static uint8_t
desc_flags(const struct pmx_transfer *t)
{
	return (t->flags & PMX_AREA ? TRANSFER_AREA : 0) |
		(t->flags & PMX_ORDERED ? TRANSFER_ORDERED : 0) |
		(t->flags & PMX_NOTIFY ? TRANSFER_NOTIFY : 0) |
		(t->flags & OF_AN_OFFER ? TRANSFER_OFFERED : 0);
}

/* Fill in the place's descriptor and submit it; the caller has checked that the ring has room. */
static void
submit_desc(struct pmx_context *ctx, uint16_t place, uint8_t kind, int64_t memory)
{
	struct transfer_note *n = &ctx->rma->transfers[place];
	const struct pmx_transfer *t = &n->t;
	struct transfer_desc *d = &channel_transfers(ctx->shm)[place];
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	STEP();
	d->kind = kind;
	d->flags = desc_flags(t);
	d->node = t->peer.node;
	d->ctx = t->peer.context;
	d->id = id_of(ctx, place);
	d->memory = (uint32_t)memory;
	d->key = t->key;
	d->at = t->remote;
	d->len = t->len;
	d->imm = t->immediate;
	d->local = (uintptr_t)t->local;
	d->status = 0;
	if (t->status != NULL && n->parent == NO_PLACE) {
		int64_t where = piece_of(ctx, (const void *)(uintptr_t)t->status,
			sizeof(*t->status));

		*t->status = 1;
		if (where >= 0 && where != MEMORY_COPIED && is_aligned(t->status) && n->left == 0 &&
			(t->part == NULL || t->part->kind != PMX_PART_TWIN)) {
			d->status = (uintptr_t)t->status;
			d->status_memory = (uint32_t)where;
		} else {
			n->status = t->status;
		}
	}
	if (kind == TRANSFER_PULL && t->part != NULL && t->part->kind == PMX_PART_STRIDE) {
		d->flags |= TRANSFER_STRIDE;
		d->dims = t->part->dims;
		d->block = t->part->block;
		memcpy(d->interval, t->part->interval, sizeof(d->interval));
		memcpy(d->count, t->part->count, sizeof(d->count));
	}
	if (n->parent != NO_PLACE) /* ask_on() has written its bits */
		d->flags |= TRANSFER_BITMAP;
	if (n->fetches)
		d->flags |= TRANSFER_FETCH;
	s->op = SUBMIT_TRANSFER;
	s->count = 0;
	s->transfer = place;
	slot_publish(&ctx->sub, ctx->sub.pos++);
}

/* Submit a frame that is in send buffer `buf`. */
static void
submit_frame(struct pmx_context *ctx, uint16_t place, uint16_t buf, uint32_t len, bool last)
{
	const struct pmx_transfer *t = &ctx->rma->transfers[place].t;
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = SUBMIT_FRAME;
	s->count = last;
	s->frame.dst_node = t->peer.node;
	s->frame.dst_ctx = t->peer.context;
	s->frame.len = (uint32_t)sizeof(struct wire_transfer) + len;
	s->frame.buf = buf;
	s->frame.transfer = place;
	slot_publish(&ctx->sub, ctx->sub.pos++);
}

static struct wire_transfer *
frame_in(struct pmx_context *ctx, uint16_t buf)
{
	return (struct wire_transfer *)((uint8_t *)ctx->shm +
		atomic_load_explicit(&ctx->send_off[buf], memory_order_relaxed));
}

static void
put_head(struct pmx_context *ctx, uint16_t place, struct wire_transfer *h, uint64_t offset,
	uint8_t flags)
{
	const struct pmx_transfer *t = &ctx->rma->transfers[place].t;
	bool last = flags & WIRE_T_LAST;

	*h = (struct wire_transfer){
		.op = WIRE_PUSH,
		.flags = flags | (t->flags & PMX_AREA ? WIRE_T_AREA : 0) |
			(last && t->flags & PMX_NOTIFY ? WIRE_T_NOTIFY : 0),
		.id = wire_be32(id_of(ctx, place)),
		.key = wire_be64(t->key),
		.at = wire_be64(t->remote),
		.len = wire_be64(t->len),
		.offset = wire_be64(offset),
		.imm = last && t->flags & PMX_NOTIFY ? wire_be64(t->immediate) : 0,
	};
}

static bool
has_buffer(struct pmx_context *ctx)
{
	if (ctx->free_count == 0)
		ctx_completions(ctx);
	return ctx->free_count != 0;
}

static uint16_t
take_buffer(struct pmx_context *ctx)
{
	uint16_t b = ctx->free[--ctx->free_count];

	ctx->notes[b].next = TRANSFER_BUFFER;
	return b;
}

/* ------------------------------------------------------------------ order */

/* Return whether an earlier transfer to the same context is under way; with unfinished_only, one
 * that is not fully submitted. */
static bool
has_earlier(const struct pmx_context *ctx, const struct pmx_transfer *t, uint64_t age,
	bool unfinished_only)
{
	struct client_rma *rma = ctx->rma;

	for (uint32_t i = 0; i < rma->transfer_count; i++) {
		const struct transfer_note *n = &rma->transfers[i];

		if (is_under_way(n) && n->request == NO_REQUEST && n->age < age &&
			n->t.peer.node == t->peer.node && n->t.peer.context == t->peer.context &&
			(is_unfinished(n->state) || !unfinished_only))
			return true;
	}
	return false;
}

static bool
must_hold(const struct pmx_context *ctx, const struct pmx_transfer *t, uint64_t age, uint8_t kind)
{
	return t->flags & PMX_ORDERED && has_earlier(ctx, t, age, kind != TRANSFER_PACKED);
}

/* ------------------------------------------------------------------ parts */

/* Fill one frame with runs. Return its bytes; *at: offset of the first run. */
static uint32_t
pack(struct pmx_context *ctx, struct transfer_note *n, uint8_t *to, uint64_t *at)
{
	uint8_t *twin = n->t.part != NULL && n->t.part->kind == PMX_PART_DIFF &&
			!(n->t.flags & TRANSFER_KEEPS_TWIN)
		? n->t.part->twin
		: NULL;

	if (!runs_next(&n->runs, at))
		*at = 0;
	uint64_t end = *at;
	const uint32_t used = runs_pack(&n->runs, to, ctx->rma->transfer_payload, &end);
	struct wire_runs r = {to, used, *at, 0, 0};
	const uint8_t *bytes;

	/* from the frame, since the application may change its bytes meanwhile */
	while (twin != NULL && (bytes = wire_run_next(&r)) != NULL)
		memcpy(twin + r.at, bytes, r.len);
	return used;
}

/* Pack and submit more frames of a push, as far as there are buffers and slots. */
static void
pack_on(struct pmx_context *ctx, uint16_t place)
{
	struct transfer_note *n = &ctx->rma->transfers[place];
	bool last = false;

	while (!last && ctx->free_count != 0 && slot_room(&ctx->sub, 1)) {
		uint16_t buf = take_buffer(ctx);
		struct wire_transfer *h = frame_in(ctx, buf);
		uint64_t at, next;
		uint32_t len = pack(ctx, n, (uint8_t *)(h + 1), &at);

		last = !runs_next(&n->runs, &next);
		put_head(ctx, place, h, at, WIRE_T_RUNS | (last ? WIRE_T_LAST : 0));
		submit_frame(ctx, place, buf, len, last);
	}
	if (last)
		note_becomes(ctx, n, NOTE_SUBMITTED);
}

/* Submit more requests of a pull by a bitmap, as far as there are places and slots. */
static void
ask_on(struct pmx_context *ctx, uint16_t place)
{
	struct client_rma *rma = ctx->rma;
	struct transfer_note *n = &rma->transfers[place];
	uint64_t unit = n->t.part->unit, units = (n->t.len + unit - 1) / unit;

	while (n->at < units && n->first_error == 0) {
		if (rma->places_free == 0 || !slot_room(&ctx->sub, 1))
			return;
		uint64_t words = (units - n->at + 63) / 64;
		struct pmx_transfer piece = n->t;

		piece.flags &= PMX_AREA | PMX_ORDERED;
		piece.part = NULL;
		uint16_t child = take_place(ctx, &piece);
		struct transfer_desc *d = &channel_transfers(ctx->shm)[child];

		rma->transfers[child].parent = place;
		n->left++;
		if (words > TRANSFER_UNITS / 64)
			words = TRANSFER_UNITS / 64;
		memset(d->bits, 0, sizeof(d->bits));
		memcpy(d->bits, n->t.part->bits + n->at / 64, words * 8);
		d->unit = n->t.part->unit;
		d->offset = n->at * unit;
		submit_desc(ctx, child, TRANSFER_PULL, piece_of(ctx, piece.local, piece.len));
		n->at += TRANSFER_UNITS;
	}
	note_becomes(ctx, n, NOTE_SUBMITTED);
	if (n->left == 0)
		transfer_end(ctx, place, n->first_error);
}

/* Begin a transfer that was held. */
static void
transfer_release(struct pmx_context *ctx, uint16_t place)
{
	struct transfer_note *n = &ctx->rma->transfers[place];

	if (n->kind == TRANSFER_PULL && n->t.part != NULL && n->t.part->kind == PMX_PART_BITMAP) {
		note_becomes(ctx, n, NOTE_ASKS);
		ask_on(ctx, place);
		return;
	}
	submit_desc(ctx, place, n->kind, piece_of(ctx, n->t.local, n->t.len));
	if (n->kind == TRANSFER_PACKED) {
		note_becomes(ctx, n, NOTE_PACKS);
		pack_on(ctx, place);
		return;
	}
	note_becomes(ctx, n, NOTE_SUBMITTED);
}

/* End transfers of that memory that the library has not begun, or of which it would read more. */
static void
transfers_forget(struct pmx_context *ctx, const void *addr, uint64_t len)
{
	struct client_rma *rma = ctx->rma;
	const uint8_t *begin = addr, *end_of = begin + len;

	for (uint32_t i = 0; ctx->unfinished && i < rma->transfer_count; i++) {
		struct transfer_note *n = &rma->transfers[i];
		const uint8_t *local = n->t.local;
		const uint8_t *twin = n->t.part != NULL ? n->t.part->twin : NULL;

		if (!is_unfinished(n->state) ||
			!((local < end_of && begin < local + n->t.len) ||
				(twin != NULL && twin < end_of && begin < twin + n->t.len)))
			continue;
		if (n->state == NOTE_HELD) {
			end_here(ctx, (uint16_t)i, EFAULT);
			continue;
		}
		bool asks = n->state == NOTE_ASKS;

		note_becomes(ctx, n, NOTE_SUBMITTED);
		if (asks) { /* its requests end by themselves */
			n->first_error = EFAULT;
			if (n->left == 0)
				transfer_end(ctx, (uint16_t)i, EFAULT);
			continue;
		}
		while (!slot_room(&ctx->sub, 1) && !ctx_gone(ctx))
			ctx_wait(ctx);
		if (ctx_gone(ctx))
			return;
		struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

		s->op = SUBMIT_CANCEL;
		s->count = 0;
		s->transfer = i;
		slot_publish(&ctx->sub, ctx->sub.pos++);
	}
}

static void
transfers_progress(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;
	uint32_t left = ctx->unfinished;

	if (left == 0)
		return;
	for (uint32_t i = 0; left > 0 && i < rma->transfer_count; i++) {
		struct transfer_note *n = &rma->transfers[i];

		if (!is_unfinished(n->state))
			continue;
		left--;
		if (n->state == NOTE_PACKS)
			pack_on(ctx, (uint16_t)i);
		else if (n->state == NOTE_ASKS)
			ask_on(ctx, (uint16_t)i);
		else if (slot_room(&ctx->sub, 1) && !must_hold(ctx, &n->t, n->age, n->kind))
			transfer_release(ctx, (uint16_t)i);
	}
	ctx_doorbell(ctx);
}

/* ------------------------------------------------------------------ the verbs */

static int
transfer_check(const struct pmx_transfer *t, bool push)
{
	const uint32_t flags = PMX_AREA | PMX_ORDERED | PMX_EVENT | PMX_NOTIFY;

	if (t->flags & ~flags || t->len > PART_BYTES_MAX || (t->local == NULL && t->len > 0) ||
		t->peer.context >= WIRE_CONTEXTS_MAX)
		return -EINVAL;
	if (t->part == NULL)
		return 0;
	/* a pull by a bitmap is several for the engine */
	if (t->part->kind == (push ? PMX_PART_TWIN : PMX_PART_DIFF) ||
		(!push && t->flags & PMX_NOTIFY && t->part->kind == PMX_PART_BITMAP))
		return -EOPNOTSUPP;
	return pmx_part_problem(t->part, t->len) ? -EINVAL : 0;
}

/* Make sure that there are places, and room in the ring for n submissions. Return 0, -EAGAIN or
 * -EPIPE. */
static int
room_for(struct pmx_context *ctx, uint32_t places, uint32_t n)
{
	struct client_rma *rma = ctx->rma;

	if (ctx_gone(ctx))
		return -EPIPE;
	if (unlikely(rma->sweep))
		pieces_sweep(ctx);
	if (rma->places_free < places || !slot_room(&ctx->sub, n))
		ctx_completions(ctx);
	if (rma->places_free >= places && slot_room(&ctx->sub, n))
		return 0;
	return -EAGAIN;
}

/* Hold a transfer, which transfer_release() begins later. */
static void
transfer_hold(struct pmx_context *ctx, uint16_t place, uint8_t kind)
{
	struct transfer_note *n = &ctx->rma->transfers[place];

	n->kind = kind;
	n->at = 0;
	note_becomes(ctx, n, NOTE_HELD);
	if (n->t.status != NULL)
		*n->t.status = 1;
	if (kind == TRANSFER_PULL && n->t.part != NULL && n->t.part->kind == PMX_PART_BITMAP)
		n->status = n->t.status;
}

/* Write what an atomic operation takes to the place's descriptor, which has room for it. */
static void
put_operands(struct pmx_context *ctx, uint16_t place, const struct pmx_atomic_transfer *a)
{
	struct transfer_note *n = &ctx->rma->transfers[place];
	struct transfer_desc *d = &channel_transfers(ctx->shm)[place];

	d->unit = TRANSFER_OPERATION(a->op, a->type);
	if (a->operands != NULL)
		memcpy(d->bits, a->operands, n->t.len);
	if (a->compared != NULL)
		memcpy(d->bits + TRANSFER_COMPARED, a->compared, n->t.len);
	n->home = a->before;
	n->fetches = a->before != NULL;
}

static int
rma_transfer_begin(struct pmx_context *ctx, const struct pmx_transfer *t, uint8_t kind,
	const struct pmx_atomic_transfer *atomic, pmx_transfer_id *id)
{
	struct client_rma *rma = ctx->rma;
	bool moves = kind != TRANSFER_PIN && kind != TRANSFER_UNPIN && kind != TRANSFER_ATOMIC;
	int64_t memory = moves ? piece_of(ctx, t->local, t->len) : MEMORY_COPIED;
	uint32_t pin = PIN_NONE;

	if (memory < 0)
		return (int)memory;
	bool by_way = moves && memory == MEMORY_COPIED && t->len > 0,
	     bounces = by_way && rma->no_kernel;

	if (by_way && !bounces) {
		int result = pins_get(ctx, t->local, t->len, &pin);

		if (result != 0)
			return result;
	}
	uint16_t place = take_place(ctx, t);
	struct transfer_note *n = &rma->transfers[place];

	if (bounces) {
		int result = bounce(ctx, n, BOUNCES_MAX, kind == TRANSFER_PULL);

		if (result != 0) {
			put_place(ctx, place);
			return result;
		}
		t = &n->t;
		memory = piece_of(ctx, t->local, t->len);
	}
	n->pin = pin;
	if (atomic != NULL)
		put_operands(ctx, place, atomic);
	if (id != NULL)
		*id = n->ended.uses << 16 | place;
	if (must_hold(ctx, t, n->age, kind)) {
		transfer_hold(ctx, place, kind);
	} else if (kind == TRANSFER_PULL && t->part != NULL && t->part->kind == PMX_PART_BITMAP) {
		n->status = t->status;
		if (n->status != NULL)
			*n->status = 1;
		n->at = 0;
		note_becomes(ctx, n, NOTE_ASKS);
		ask_on(ctx, place);
	} else {
		submit_desc(ctx, place, kind, memory);
	}
	ctx_doorbell(ctx);
	return 0;
}

int
transfers_request(struct pmx_context *ctx, uint8_t kind, const struct pmx_transfer *t,
	uint32_t request, uint32_t *id)
{
	struct client_rma *rma = ctx->rma;
	struct pmx_transfer mine = *t;
	uint32_t pin = PIN_NONE;
	/* an offer's head is submitted right after it */
	int result = room_for(ctx, 1, kind == TRANSFER_OFFER ? 2 : 1);

	if (result != 0)
		return result;
	int64_t memory = t->len > 0 ? piece_of(ctx, t->local, t->len) : MEMORY_COPIED;

	if (memory < 0)
		return (int)memory;
	bool by_way = memory == MEMORY_COPIED && t->len > 0;

	if (by_way && !rma->no_kernel && (result = pins_get(ctx, t->local, t->len, &pin)) != 0)
		return result;
	mine.flags = kind == TRANSFER_OFFER ? 0 : OF_AN_OFFER;
	uint16_t place = take_place(ctx, &mine);
	struct transfer_note *n = &rma->transfers[place];

	if (by_way && rma->no_kernel) {
		/* as many as of the places: lib/match/client/match.c, note 3 */
		unsigned most = kind != TRANSFER_OFFER ? BOUNCES_MAX
			: t->flags & PMX_EXPECTED      ? BOUNCES_MAX * 3 / 4
						       : BOUNCES_MAX / 2;

		result = bounce(ctx, n, most, kind != TRANSFER_OFFER);
		if (result != 0) {
			put_place(ctx, place);
			return result;
		}
		memory = piece_of(ctx, n->t.local, n->t.len);
	}

	n->pin = pin;
	n->request = request;
	rma->requested++;
	*id = id_of(ctx, place);
	submit_desc(ctx, place, kind, memory);
	ctx_doorbell(ctx);
	return 0;
}

/* Begin a push that this library packs: in one frame; in parts; or whole but frame by frame, if the
 * engine cannot reach the memory. */
static int
push_packed(struct pmx_context *ctx, const struct pmx_transfer *t, const struct part_run *within,
	pmx_transfer_id *id)
{
	struct client_rma *rma = ctx->rma;
	uint16_t place = take_place(ctx, t);
	struct transfer_note *n = &rma->transfers[place];

	if (id != NULL)
		*id = n->ended.uses << 16 | place;
	bool held = must_hold(ctx, t, n->age, TRANSFER_PACKED);
	bool whole = !held && t->part == NULL && t->len <= rma->transfer_payload;

	if (!held)
		submit_desc(ctx, place, TRANSFER_PACKED, MEMORY_COPIED);
	if (whole) {
		uint16_t buf = take_buffer(ctx);
		struct wire_transfer *h = frame_in(ctx, buf);

		put_head(ctx, place, h, 0, WIRE_T_LAST);
		memcpy(h + 1, t->local, t->len);
		submit_frame(ctx, place, buf, (uint32_t)t->len, true);
	} else {
		runs_begin(&n->runs, t->part, t->local, t->len, within);
		if (held) {
			transfer_hold(ctx, place, TRANSFER_PACKED);
		} else {
			note_becomes(ctx, n, NOTE_PACKS);
			pack_on(ctx, place);
		}
	}
	ctx_doorbell(ctx);
	return 0;
}

int
transfers_push_check(const struct pmx_transfer *t)
{
	return transfer_check(t, true);
}

int
transfers_push(struct pmx_context *ctx, const struct pmx_transfer *t, const struct part_run *within,
	pmx_transfer_id *id)
{
	struct client_rma *rma = ctx->rma;

	/* one that must wait for others is left to the engine, which knows when they end, unless it
	 * cannot reach the memory */
	bool packed = t->part != NULL ||
		(rma->no_kernel && piece_of(ctx, t->local, t->len) == MEMORY_COPIED) ||
		(t->len <= rma->transfer_payload &&
			!(t->flags & PMX_ORDERED && has_earlier(ctx, t, UINT64_MAX, false)));

	int result = room_for(ctx, 1, packed ? 2 : 1);

	if (result != 0)
		return result;
	if (!packed)
		return rma_transfer_begin(ctx, t, TRANSFER_PUSH, NULL, id);
	/* taking completions may have continued other transfers, which used places and slots */
	if (!has_buffer(ctx) || rma->places_free == 0 || !slot_room(&ctx->sub, 2))
		return -EAGAIN;
	return push_packed(ctx, t, within, id);
}

int
pmx_push(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	int result = transfer_check(t, true);

	return result != 0 ? result : transfers_push(ctx, t, NULL, id);
}

int
pmx_pull(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	int result = transfer_check(t, false);

	/* One that is split takes a place besides those of its parts. It must not take the last
	 * one, or they could never begin. */
	if (result == 0) {
		bool several = t->part != NULL && t->part->kind == PMX_PART_BITMAP;

		result = room_for(ctx, several ? 2 : 1, 1);
	}
	return result != 0 ? result : rma_transfer_begin(ctx, t, TRANSFER_PULL, NULL, id);
}

int
transfers_ask(struct pmx_context *ctx, const struct pmx_transfer *t, uint8_t kind,
	const struct pmx_atomic_transfer *atomic, pmx_transfer_id *id)
{
	struct pmx_transfer q = *t;

	q.part = NULL;
	q.local = &q;
	int result = q.flags & PMX_NOTIFY ? -EINVAL : transfer_check(&q, false);

	q.local = NULL; /* it has no local memory, even while it is held */
	if (result == 0)
		result = room_for(ctx, 1, 1);
	return result != 0 ? result : rma_transfer_begin(ctx, &q, kind, atomic, id);
}

int
pmx_transfer_done(struct pmx_context *ctx, pmx_transfer_id id)
{
	struct client_rma *rma = ctx->rma;
	uint32_t place = id & 0xFFFF;

	if (place >= rma->transfer_count)
		return -EINVAL;
	const struct outcomes *o = &rma->transfers[place].ended;
	int result = outcome_of(o, id >> 16);

	if (result == 0) {
		ctx_completions(ctx);
		result = outcome_of(o, id >> 16);
	}
	return result == 0 && ctx_gone(ctx) ? -EPIPE : result;
}

uint32_t
pmx_transfers_pending(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	ctx_completions(ctx);
	return rma->transfer_count - rma->places_free - rma->events_waiting - rma->requested;
}

int
pmx_sync_wait(struct pmx_context *ctx, int64_t timeout_us)
{
	struct waiting w = {.of_sends = true};

	while (pmx_transfers_pending(ctx) + ctx->rma->lent != 0) {
		if (ctx_gone(ctx))
			return -EPIPE;
		if (!ctx_wait_turn(ctx, &w, timeout_us))
			return -ETIMEDOUT;
	}
	return 0;
}

int
transfers_ended(struct pmx_context *ctx, struct pmx_event *event)
{
	struct client_rma *rma = ctx->rma;

	for (uint32_t i = 0; i < rma->transfer_count; i++) {
		struct transfer_note *n = &rma->transfers[i];

		if (n->state != NOTE_ENDED)
			continue;
		*event = (struct pmx_event){PMX_EVENT_ENDED, n->t.peer, n->t.len, n->cookie,
			-(int32_t)outcome_last(&n->ended)};
		rma->events_waiting--;
		put_place(ctx, (uint16_t)i);
		return 1;
	}
	return 0;
}

static bool
transfers_landed(struct pmx_context *ctx)
{
	return ctx->rma->places_free != ctx->rma->transfer_count &&
		slot_filled(&ctx->com, ctx->com.pos);
}

const struct client_service client_transfer = {
	.name = "transfer",
	.open = transfers_open,
	.close = transfers_close,
	.completions = COMPLETION_TRANSFERS | COMPLETION_REGION,
	.results = transfers_results,
	.progress = transfers_progress,
	.landed = transfers_landed,
	.forget = transfers_forget,
	.leave = transfers_leave,
	.rejoin = transfers_join,
};
