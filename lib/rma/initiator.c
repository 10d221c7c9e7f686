/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The initiator's side of remote memory: transfers that contexts asked for, from their submission
 * to their result (RHI-START, RHI-PUSH, RHI-PULL).
 *
 * Design notes
 * 1. Transfers take turns of RMA_BURST frames, so a short one does not wait behind a long one. An
 *    ordered transfer waits until no earlier one to the same context can be overtaken by it: for a
 *    push until the core, whose flows keep order, has all of it; for a pull until it ended.
 * 2. A transfer ends once: by its answer, by an error of one of its frames, or with its context.
 *    Whatever arrives for it later does not match the id in its place any more.
 */
#include "rma/internal.h"

struct op *
op_find(struct rma_context *c, uint32_t id)
{
	struct op *op = TRANSFER_PLACE(id) < c->ops_max ? &c->ops[TRANSFER_PLACE(id)] : NULL;

	return op != NULL && op->d.id == id && op->state != OP_FREE && op->state != OP_ENDED ? op
											     : NULL;
}

static struct op *
op_named(struct rma_context *c, const struct rma_message *m, uint8_t kind)
{
	uint64_t key = wire_be64(m->head->key);
	struct op *op = key <= UINT32_MAX ? op_find(c, (uint32_t)key) : NULL;

	return op != NULL && op->d.kind == kind && op->d.node == m->node && op->d.ctx == m->peer
		? op
		: NULL;
}

struct op *
op_of_sender(struct rma_context *c, const struct rma_message *m)
{
	return op_named(c, m, TRANSFER_OFFER);
}

struct op *
op_of_receiver(struct rma_context *c, const struct rma_message *m)
{
	return op_named(c, m, TRANSFER_ACCEPT);
}

/* Return whether a transfer is an offer that its receiver fetches, or may still fetch. */
static inline bool
is_offer(const struct op *op)
{
	return op->state == OP_OFFERED || op->state == OP_FETCHED;
}

/* ------------------------------------------------------------------ states */

static void
list_append(struct op_list *l, struct op *op)
{
	op->next = NULL;
	if (l->head == NULL)
		l->head = op;
	else
		l->tail->next = op;
	l->tail = op;
}

static void
list_remove(struct op_list *l, struct op *op)
{
	struct op **link = &l->head, *before = NULL;

	while (*link != op) {
		before = *link;
		link = &before->next;
	}
	*link = op->next;
	if (l->tail == op)
		l->tail = before;
}

/* Return the list that a transfer is in while it is OP_READY. */
static inline struct op_list *
ready_of(struct rma *r, const struct op *op)
{
	return unlikely(op->c->stopped) ? &r->stopped_ops : &r->ready;
}

/* Return whether a transfer is in the list of questions that are due. */
static bool
is_question(const struct rma *r, const struct op *op)
{
	for (const struct op *o = r->questions.head; o != NULL; o = o->next) {
		if (o == op)
			return true;
	}
	return false;
}

/* Take it out of the list that belongs to its state. */
static COLD void
op_leaves(struct rma *r, struct op *op)
{
	if (op->state == OP_READY)
		list_remove(ready_of(r, op), op);
	else if (op->state == OP_HELD)
		op->c->held--;
	else if (is_question(r, op))
		list_remove(&r->questions, op);
}

/* Change a transfer's state, and move it to the list that belongs to the new one. Nothing else
 * changes the state, except for the step from OP_ENDED to OP_FREE. */
static inline void
op_becomes(struct rma *r, struct op *op, enum op_state to)
{
	if (op->state == OP_READY && r->ready.head == op)
		r->ready.head = op->next;
	else if (unlikely(op->state == OP_READY || op->state == OP_HELD || op->asking))
		op_leaves(r, op);
	op->state = (uint8_t)to;
	if (to == OP_READY)
		list_append(ready_of(r, op), op);
	else if (to == OP_HELD)
		op->c->held++;
	else if (to == OP_ENDED)
		list_append(&r->ended, op);
}

/* ------------------------------------------------------------------ order */

/* Could a later transfer to the same context overtake `op`? */
static bool
unsettled(const struct op *op)
{
	if (op->state == OP_FREE || op->state == OP_ENDED || op->d.kind == TRANSFER_OFFER ||
		op->d.kind == TRANSFER_ACCEPT || op->d.flags & TRANSFER_OFFERED)
		return false;
	return op->d.kind == TRANSFER_PULL || op->state < OP_WAITS;
}

static bool
must_wait(const struct rma *r, const struct rma_context *c, const struct op *op)
{
	for (uint32_t i = 0; i < r->cfg.transfers_max; i++) {
		const struct op *o = &c->ops[i];

		if (o != op && o->age < op->age && unsettled(o) && o->d.node == op->d.node &&
			o->d.ctx == op->d.ctx)
			return true;
	}
	return false;
}

/* Make held transfers ready, oldest first, if they need not wait any more. */
static COLD void
release_held(struct rma *r, struct rma_context *c)
{
	while (c->held) {
		struct op *oldest = NULL;

		for (uint32_t i = 0; i < r->cfg.transfers_max; i++) {
			struct op *o = &c->ops[i];

			if (o->state == OP_HELD && !must_wait(r, c, o) &&
				(oldest == NULL || o->age < oldest->age))
				oldest = o;
		}
		if (oldest == NULL)
			return;
		op_becomes(r, oldest, OP_READY);
	}
}

/* ------------------------------------------------------------------ begin and end */

static COLD bool
atomic_ok(const struct transfer_desc *d)
{
	const unsigned op = TRANSFER_OP(d->unit), type = TRANSFER_TYPE(d->unit);

	return d->status % sizeof(int32_t) == 0 && d->ctx < WIRE_CONTEXTS_MAX &&
		!(d->flags & ~(TRANSFER_AREA | TRANSFER_ORDERED | TRANSFER_FETCH)) &&
		atomic_is_valid(op, type) && atomic_len_is_valid(type, d->len);
}

static bool
desc_ok(const struct transfer_desc *d)
{
	if (unlikely(d->kind == TRANSFER_ATOMIC))
		return atomic_ok(d);
	return d->status % sizeof(int32_t) == 0 && d->kind >= TRANSFER_PUSH &&
		d->kind <= TRANSFER_ACCEPT && !(d->flags & (~TRANSFER_ALL | TRANSFER_FETCH)) &&
		d->len <= REGION_BYTES_MAX && d->ctx < WIRE_CONTEXTS_MAX &&
		(d->kind == TRANSFER_PULL || !(d->flags & (TRANSFER_STRIDE | TRANSFER_BITMAP))) &&
		(d->kind == TRANSFER_PUSH || d->kind == TRANSFER_PACKED ||
			!(d->flags & TRANSFER_NOTIFY) ||
			(d->kind == TRANSFER_PULL && !(d->flags & TRANSFER_BITMAP))) &&
		(d->kind != TRANSFER_ACCEPT || d->flags == TRANSFER_OFFERED) &&
		(d->kind != TRANSFER_OFFER || d->flags == 0) &&
		(!(d->flags & TRANSFER_OFFERED) ||
			((d->kind == TRANSFER_PULL || d->kind == TRANSFER_ACCEPT) &&
				d->flags == TRANSFER_OFFERED)) &&
		(d->flags & (TRANSFER_STRIDE | TRANSFER_BITMAP)) !=
		(TRANSFER_STRIDE | TRANSFER_BITMAP);
}

static uint32_t
receiver_of(const struct rma *r, const struct op *op, enum rma_watch watch, uint64_t now)
{
	return r->cfg.receiver(r->cfg.arg, op->c->ctx, op->d.node, op->d.ctx, watch, now);
}

static void
op_begin(struct rma *r, struct rma_context *c, struct op *op, uint64_t now)
{
	op->c = c;
	op->sent = 0;
	op->asking = op->watches = false;
	op->seen_at = now;
	op->age = ++c->kept.next_age;
	c->ops_used++;
	r->waiting++;
}

/* Return whether the engine itself moves bytes for this transfer. */
static inline bool
has_bytes(const struct transfer_desc *d)
{
	return d->kind != TRANSFER_PACKED && d->kind != TRANSFER_PIN && d->kind != TRANSFER_UNPIN &&
		d->kind != TRANSFER_ATOMIC;
}

bool
rma_submit(struct rma *r, uint16_t ctx, uint32_t place, const struct transfer_desc *shared,
	uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];
	struct op *op = &c->ops[place];
	const struct transfer_desc *d = &op->d;

	if (unlikely(place >= r->cfg.transfers_max || op->state != OP_FREE))
		return false;
	/* copied once, because the client may change the original at any time */
	memcpy(&op->d, shared, offsetof(struct transfer_desc, offset));
	if (unlikely(d->flags & (TRANSFER_STRIDE | TRANSFER_BITMAP) || d->kind == TRANSFER_ATOMIC))
		memcpy(&op->d.offset, &shared->offset,
			sizeof(*d) - offsetof(struct transfer_desc, offset));
	if (unlikely(!desc_ok(d) || TRANSFER_PLACE(d->id) != place))
		return false;
	op_begin(r, c, op, now);
	/* what a transfer before it used may go, and does not concern it */
	op->local = (struct rma_bytes){NULL, d->local, d->len, ctx};
	if (d->kind == TRANSFER_PACKED) {
		op_becomes(r, op, OP_PACKED);
		return true;
	}
	if (d->memory != MEMORY_COPIED && has_bytes(d)) {
		op->local.memory = r->cfg.memory(r->cfg.arg, ctx, d->memory, d->local, d->len);
		if (unlikely(op->local.memory == NULL)) {
			op_end(r, c, op, EFAULT);
			return true;
		}
	}
	if (unlikely(d->kind == TRANSFER_PIN && !pinning_begins(c, op))) {
		op_end(r, c, op, ENOSPC);
	} else if (d->kind == TRANSFER_OFFER) {
		op->life = receiver_of(r, op, RMA_WATCH_BEGINS, now);
		op->watches = op->life != 0;
		op_becomes(r, op, OP_OFFERED);
	} else if (d->flags & TRANSFER_ORDERED && must_wait(r, c, op)) {
		op_becomes(r, op, OP_HELD);
	} else {
		op_becomes(r, op, OP_READY);
	}
	return true;
}

bool
rma_fetch(struct rma *r, const struct rma_fetch *f, uint64_t now)
{
	struct rma_context *c = r->contexts[f->local.ctx];
	struct op *op = NULL;

	for (uint32_t i = r->cfg.transfers_max; i < c->ops_max && op == NULL; i++)
		op = c->ops[i].state == OP_FREE ? &c->ops[i] : NULL;
	if (op == NULL)
		return false;
	op->d.kind = f->kind;
	op->d.flags = f->area ? TRANSFER_AREA : TRANSFER_OFFERED;
	op->d.node = f->node;
	op->d.ctx = f->ctx;
	op->d.id = TRANSFER_ID(op - c->ops, f->use);
	op->d.key = f->from;
	op->d.at = 0;
	op->d.len = f->len;
	op->local = f->local;
	op->result.cookie = f->cookie;
	op_begin(r, c, op, now);
	op_becomes(r, op, OP_READY);
	return true;
}

/* Do what the end of a PIN, an UNPIN or an OFFER takes in addition. */
static COLD void
special_ends(struct rma *r, struct rma_context *c, struct op *op, uint8_t error)
{
	if (op->d.kind != TRANSFER_OFFER) {
		pinning_ends(c, op, error);
		return;
	}
	requests_offer_ends(r, c, op->d.id);
	if (op->watches)
		receiver_of(r, op, RMA_WATCH_ENDS, 0);
	op->watches = false;
}

void
op_end(struct rma *r, struct rma_context *c, struct op *op, uint8_t error)
{
	if (unlikely(op->d.kind >= TRANSFER_PIN && op->d.kind <= TRANSFER_OFFER))
		special_ends(r, c, op, error);
	c->ops_used--;
	r->waiting--;
	op->result.error = error;
	if (unlikely(error != 0))
		c->kept.failed++;
	else if (op->d.kind == TRANSFER_PULL)
		c->kept.pulled += op->sent;
	else if (!(op->d.flags & TRANSFER_TAKEN))
		c->kept.pushed += op->d.len;
	op_becomes(r, op, likely(c->open) ? OP_ENDED : OP_FREE);
	if (unlikely(c->held != 0) && c->open)
		release_held(r, c);
}

const struct rma_result *
rma_result(struct rma *r)
{
	struct op *op = r->ended.head;

	if (op == NULL)
		return NULL;
	r->ended.head = op->next;
	op->state = OP_FREE;
	return &op->result;
}

void
op_fetched(struct rma *r, struct op *offer)
{
	op_becomes(r, offer, OP_FETCHED);
}

void
op_accepted(struct rma *r, struct op *offer, uint32_t id, uint64_t len)
{
	offer->d.flags |= TRANSFER_OFFERED;
	offer->d.key = id;
	offer->d.len = len < offer->d.len ? len : offer->d.len;
	op_becomes(r, offer, OP_READY);
}

/* End all transfers of a context that ends, and drop results that were not pulled. */
void
ops_close(struct rma *r, struct rma_context *c)
{
	for (uint32_t i = 0; i < c->ops_max; i++) {
		struct op *op = &c->ops[i];

		if (op->state == OP_ENDED) {
			list_remove(&r->ended, op);
			op->state = OP_FREE;
		} else if (op->state != OP_FREE) {
			op_end(r, c, op, ECONNRESET);
		}
	}
}

void
ops_memory_gone(struct rma *r, struct rma_context *c, const void *memory)
{
	for (uint32_t i = 0; i < c->ops_max; i++) {
		struct op *op = &c->ops[i];

		if (op->state != OP_FREE && op->state != OP_ENDED && op->local.memory == memory)
			op_end(r, c, op, EFAULT);
	}
}

/* ------------------------------------------------------------------ packed by the client */

bool
rma_is_packed(const struct rma *r, uint16_t ctx, uint32_t place)
{
	return place < r->cfg.transfers_max && r->contexts[ctx]->ops[place].state == OP_PACKED;
}

void
rma_packed(struct rma *r, uint16_t ctx, uint32_t place, uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];
	struct op *op = &c->ops[place];

	if (unlikely(!rma_is_packed(r, ctx, place)))
		return;
	op->seen_at = now;
	op_becomes(r, op, OP_WAITS);
	if (unlikely(c->held != 0))
		release_held(r, c);
}

void
rma_packed_failed(struct rma *r, uint16_t ctx, uint32_t id, uint8_t error)
{
	struct rma_context *c = r->contexts[ctx];
	struct op *op = op_find(c, id);

	if (op != NULL && op->d.kind == TRANSFER_PACKED)
		op_end(r, c, op, error);
}

void
rma_offers_lost(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer, uint8_t error)
{
	struct rma_context *c = r->contexts[ctx];

	for (uint32_t i = 0; c->ops_used != 0 && i < c->ops_max; i++) {
		struct op *op = &c->ops[i];

		if (is_offer(op) && op->d.node == node && op->d.ctx == peer)
			op_end(r, c, op, error);
	}
}

void
rma_packed_cancel(struct rma *r, uint16_t ctx, uint32_t place)
{
	if (rma_is_packed(r, ctx, place))
		op_end(r, r->contexts[ctx], &r->contexts[ctx]->ops[place], EFAULT);
}

/* ------------------------------------------------------------------ frames out */

static inline struct rma_frame *
op_frame(struct rma *r, struct rma_frame *f, const struct op *op, uint8_t kind, uint32_t extra,
	uint32_t len)
{
	if (unlikely(f == NULL))
		return NULL;
	*f->head = (struct wire_transfer){
		.op = kind,
		.flags = (op->d.flags & TRANSFER_AREA ? WIRE_T_AREA : 0) |
			(op->d.flags & TRANSFER_OFFERED ? WIRE_T_OFFER : 0),
		.id = wire_be32(op->d.id),
		.key = wire_be64(op->d.key),
		.at = wire_be64(op->d.at),
		.len = wire_be64(op->d.len),
	};
	f->id = op->d.id;
	frame_out(r, f, op->c, WIRE_INITIATOR, op->d.node, op->d.ctx | WIRE_TARGET,
		(uint32_t)sizeof(*f->head) + extra, (uint32_t)sizeof(*f->head) + extra + len);
	return f;
}

/* Make the next frames of a push. */
static void
push(struct rma *r, struct op *op)
{
	uint64_t offset = op->sent, left;

	r->turn.kind = TURN_PUSH;
	r->turn.bytes = 0;
	do {
		left = op->d.len - offset;
		uint32_t len = left < r->cfg.payload_max ? (uint32_t)left : r->cfg.payload_max;
		struct rma_frame *f = op_frame(r, frame_take(r, true), op, WIRE_PUSH, 0, len);

		if (unlikely(f == NULL))
			return;
		f->head->offset = wire_be64(offset);
		f->source = op->local;
		f->source.at += offset;
		f->source.len = len;
		offset += len;
		r->turn.bytes += len;
		if (len == left && op->d.flags & TRANSFER_NOTIFY) {
			f->head->imm = wire_be64(op->d.imm);
			f->head->flags |= WIRE_T_LAST | WIRE_T_NOTIFY |
				(op->d.flags & TRANSFER_TAKEN ? WIRE_T_TAKEN : 0);
		} else if (len == left) {
			f->head->flags |= WIRE_T_LAST;
		}
	} while (r->turn.n < RMA_BURST && offset < op->d.len);
}

/* Return the bytes that follow the head of a request. */
static uint32_t
part_bytes(const struct transfer_desc *d)
{
	if (d->kind == TRANSFER_ATOMIC)
		return (uint32_t)sizeof(struct wire_atomic) +
			atomic_operands(TRANSFER_OP(d->unit), (uint32_t)d->len);
	return d->flags & TRANSFER_STRIDE    ? sizeof(struct wire_stride)
		: d->flags & TRANSFER_BITMAP ? sizeof(struct wire_bitmap)
					     : 0;
}

static void
put_part(const struct transfer_desc *d, struct wire_transfer *h)
{
	if (d->flags & TRANSFER_STRIDE) {
		struct wire_stride *s = (struct wire_stride *)(h + 1);

		*s = (struct wire_stride){.dims = wire_be32(d->dims), .block = wire_be64(d->block)};
		for (unsigned i = 0; i < TRANSFER_DIMS_MAX; i++) {
			s->interval[i] = wire_be64(d->interval[i]);
			s->count[i] = wire_be64(d->count[i]);
		}
		h->flags |= WIRE_T_STRIDE;
	} else if (d->flags & TRANSFER_BITMAP) {
		struct wire_bitmap *b = (struct wire_bitmap *)(h + 1);

		h->offset = wire_be64(d->offset);
		b->unit = wire_be32(d->unit);
		b->zero = 0;
		/* little-endian words have the byte order of the wire format */
		memcpy(b->bits, d->bits, sizeof(b->bits));
		h->flags |= WIRE_T_BITMAP;
	}
}

static COLD void
put_atomic(const struct transfer_desc *d, struct wire_transfer *h)
{
	struct wire_atomic *what = (struct wire_atomic *)(h + 1);
	const unsigned op = TRANSFER_OP(d->unit);
	uint8_t *operands = (uint8_t *)(what + 1);

	*what = (struct wire_atomic){.op = (uint8_t)op, .type = (uint8_t)TRANSFER_TYPE(d->unit)};
	if (op != WIRE_A_READ)
		memcpy(operands, d->bits, d->len);
	if (atomic_compares(op))
		memcpy(operands + d->len, d->bits + TRANSFER_COMPARED, d->len);
	h->flags |= d->flags & TRANSFER_FETCH ? WIRE_T_FETCH : 0;
}

/* Make the one frame of a request. */
static void
question(struct rma *r, struct op *op)
{
	static const uint8_t wire_op[] = {
		[TRANSFER_PULL] = WIRE_PULL,
		[TRANSFER_PIN] = WIRE_PIN,
		[TRANSFER_UNPIN] = WIRE_UNPIN,
		[TRANSFER_ACCEPT] = WIRE_ACCEPT,
		[TRANSFER_ATOMIC] = WIRE_ATOMIC,
	};
	struct rma_frame *f = op_frame(r, frame_take(r, true), op, wire_op[op->d.kind],
		part_bytes(&op->d), 0);

	r->turn.kind = TURN_QUESTION;
	if (f == NULL)
		return;
	if (op->d.kind == TRANSFER_PIN)
		f->head->flags |= WIRE_T_HOLD;
	if (unlikely(op->d.kind == TRANSFER_ATOMIC))
		put_atomic(&op->d, f->head);
	else
		put_part(&op->d, f->head);
}

/* Ask whether the other side still knows a transfer. The id names it; for the sender of an offer
 * that is being fetched, the key does. */
static void
initiator_ask(struct rma *r, struct op *op)
{
	struct rma_frame *f = op_frame(r, frame_take_ask(r), op, WIRE_ASK, 0, 0);
	bool fetches = op->d.kind != TRANSFER_OFFER && op->d.flags & TRANSFER_OFFERED;

	if (f == NULL)
		return;
	f->asks = true;
	f->head->at = f->head->len = 0;
	f->head->flags = fetches ? WIRE_T_OFFER : 0;
	if (!fetches)
		f->head->key = 0;
}

/* Ask whether the receiver of an offer is still there. The question takes the flow that the offer
 * took, so a later life of the receiver refuses it. */
static void
ping(struct rma *r, struct op *op)
{
	struct rma_frame *f = frame_take_ask(r);

	if (f == NULL)
		return;
	memcpy(f->head, &(struct wire_match){.op = WIRE_NOTHING}, sizeof(struct wire_match));
	f->id = op->d.id;
	f->asks = true;
	frame_out(r, f, op->c, WIRE_MATCHED, op->d.node, op->d.ctx | WIRE_MATCHED,
		sizeof(struct wire_match), sizeof(struct wire_match));
}

/* Send the next question that is due. */
static void
ask_next(struct rma *r)
{
	struct op *op = r->questions.head;

	r->turn.kind = TURN_ASK;
	r->turn.op = op;
	if (is_offer(op))
		ping(r, op);
	else
		initiator_ask(r, op);
	list_remove(&r->questions, op);
	op->asking = r->turn.n != 0;
}

/* Move the transfer at the head, which has had its turn, to the end of the list. If it is alone and
 * sent nothing, nothing more can be sent in this turn. */
static void
rotate(struct rma *r, struct op *op, bool sent)
{
	if (r->ready.head == op && op->next != NULL) {
		list_remove(&r->ready, op);
		list_append(&r->ready, op);
	} else if (!sent) {
		r->pushes = 64;
	}
}

struct rma_frame **
rma_tx_transfers(struct rma *r, unsigned *n)
{
	struct turn *t = &r->turn;

	t->n = 0;
	while (r->ready.head != NULL && r->pushes < 64) {
		struct op *op = r->ready.head;

		t->op = op;
		r->pushes++;
		if (op->c->own_frames < r->cfg.frames_max / 2) {
			if (op->d.kind == TRANSFER_PUSH || op->d.kind == TRANSFER_OFFER)
				push(r, op);
			else
				question(r, op);
		}
		if (likely(t->n != 0))
			break;
		rotate(r, op, false);
	}
	while (unlikely(r->questions.head != NULL) && t->n == 0)
		ask_next(r);
	*n = t->n;
	return t->n != 0 ? t->frames : NULL;
}

static void
all_sent(struct rma *r, struct op *op, uint64_t now)
{
	op_becomes(r, op, OP_WAITS);
	op->seen_at = now;
	if (unlikely(op->c->held != 0))
		release_held(r, op->c);
}

void
op_sent(struct rma *r, unsigned count, uint8_t error, uint64_t now)
{
	struct turn *t = &r->turn;
	struct op *op = t->op;

	if (t->kind == TURN_ASK)
		op->asking = count != 0;
	if (unlikely(error != 0 && error != EAGAIN)) {
		op_end(r, op->c, op, error);
		return;
	}
	if (t->kind == TURN_ASK)
		return;
	if (t->kind == TURN_PUSH) /* all frames of a transfer but the last are full */
		op->sent += count == t->n ? t->bytes : (uint64_t)count * r->cfg.payload_max;
	if (count != 0 && (t->kind == TURN_QUESTION || op->sent == op->d.len))
		all_sent(r, op, now);
	else
		rotate(r, op, count != 0);
}

static bool
same_receiver(const struct rma *r, struct op *op, uint64_t now)
{
	uint32_t life = receiver_of(r, op, RMA_WATCH_GOES_ON, now);

	if (op->life == 0)
		op->life = life;
	return life == 0 || life == op->life;
}

/* Restart the wait of each offer to that context, since one question serves them all. */
static void
offers_seen(struct rma_context *c, const struct op *op, uint64_t now)
{
	for (uint32_t i = 0; i < c->ops_max; i++) {
		struct op *o = &c->ops[i];

		if (is_offer(o) && o->d.node == op->d.node && o->d.ctx == op->d.ctx)
			o->seen_at = now;
	}
}

/* Queue questions about the transfers whose answers are long in coming. */
void
ops_look(struct rma *r, uint64_t now)
{
	for (uint32_t k = 0; k < r->contexts_count; k++) {
		struct rma_context *c = &r->all[k];

		for (uint32_t i = 0; c->ops_used != 0 && !c->stopped && i < c->ops_max; i++) {
			struct op *op = &c->ops[i];

			if (op->state < OP_WAITS || op->state == OP_ENDED || op->asking)
				continue;
			if (is_offer(op) && !same_receiver(r, op, now)) {
				op_end(r, c, op, ECONNRESET);
				continue;
			}
			if (now - op->seen_at < (is_offer(op) ? r->ask_offer_ticks : r->ask_ticks))
				continue;
			if (is_offer(op))
				offers_seen(c, op, now);
			op->seen_at = now;
			if (is_offer(op) && op->d.node == r->cfg.node)
				continue; /* within this node, `life` tells whether the receiver
					   * ended */
			op->asking = true;
			list_append(&r->questions, op);
		}
	}
}

/* ------------------------------------------------------------------ stop and go on */

/* Move the transfers of the context that are ready from one list to the other. */
static void
ops_move(struct op_list *from, struct op_list *to, const struct rma_context *c)
{
	struct op *op = from->head;

	*from = (struct op_list){NULL, NULL};
	while (op != NULL) {
		struct op *next = op->next;

		list_append(op->c == c ? to : from, op);
		op = next;
	}
}

void
ops_stop(struct rma *r, struct rma_context *c)
{
	ops_move(&r->ready, &r->stopped_ops, c);
}

void
ops_start(struct rma *r, struct rma_context *c, uint64_t now)
{
	ops_move(&r->stopped_ops, &r->ready, c);
	/* nobody could have answered: ops_look() waits as long as ever */
	for (uint32_t i = 0; i < c->ops_max; i++)
		c->ops[i].seen_at = now;
}

/* ------------------------------------------------------------------ answers in */

/* Take the answer to an atomic operation, which holds what was there before, and end the
 * operation. */
static COLD void
fetched(struct rma *r, struct rma_context *c, struct op *op, const struct rma_message *m)
{
	bool right = op->d.flags & TRANSFER_FETCH && m->len == op->d.len &&
		m->head->flags == WIRE_T_LAST;

	if (right)
		memcpy(op->d.bits, m->bytes, m->len);
	op_end(r, c, op, right ? 0 : EPROTO);
}

static enum rma_heard
pulled(struct rma *r, struct rma_context *c, const struct rma_message *m, struct rma_place *place,
	uint64_t now)
{
	struct op *op = op_find(c, wire_be32(m->head->id));
	uint64_t at = wire_be64(m->head->offset);
	bool runs = m->head->flags & WIRE_T_RUNS;

	if (op == NULL || (op->d.kind != TRANSFER_PULL && op->d.kind != TRANSFER_ATOMIC) ||
		op->state != OP_WAITS || op->d.node != m->node || op->d.ctx != m->peer)
		return RMA_HEARD; /* it has ended already */
	if (unlikely(op->d.kind == TRANSFER_ATOMIC)) {
		fetched(r, c, op, m);
		return RMA_HEARD;
	}
	op->seen_at = now;
	if (at > op->d.len || (!runs && m->len > op->d.len - at)) {
		op_end(r, c, op, EPROTO);
		return RMA_HEARD;
	}
	place->to = op->local;
	place->offset = at;
	place->runs = runs;
	if (!runs)
		place->to.at += at;
	return RMA_PLACE;
}

/* Tell the target of a pull, of which all bytes are here, by a push of nothing. */
static COLD void
tell_taken(struct rma *r, struct rma_context *c, struct op *op)
{
	c->kept.pulled += op->sent;
	op->d.kind = TRANSFER_PUSH;
	op->d.flags = (op->d.flags & (TRANSFER_AREA | TRANSFER_NOTIFY)) | TRANSFER_TAKEN;
	op->sent = op->d.len;
	op_becomes(r, op, OP_READY);
}

void
rma_initiator_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint64_t placed,
	uint8_t error)
{
	struct rma_context *c = r->contexts[ctx];
	struct op *op = op_find(c, wire_be32(m->head->id));

	if (unlikely(op == NULL || op->state != OP_WAITS))
		return; /* a message behind it has ended the transfer */
	bool in_parts = op->d.flags & (TRANSFER_STRIDE | TRANSFER_BITMAP);

	op->sent += placed;
	if (unlikely(error)) {
		op_end(r, c, op, error);
	} else if (m->head->flags & WIRE_T_LAST) {
		const bool right = in_parts || op->sent == op->d.len;

		if (unlikely(right && op->d.flags & TRANSFER_NOTIFY))
			tell_taken(r, c, op);
		else
			op_end(r, c, op, right ? 0 : EPROTO);
	}
}

/* Take an item's error that is no plain errno. Returns the errno to end the transfer with, or 0. */
static uint8_t
odd_answer(struct rma_context *c, const struct op *op, uint32_t error)
{
	if (op->d.kind != TRANSFER_UNPIN || (error & ~WIRE_NONE_LEFT) > UINT8_MAX)
		return EPROTO;
	pinning_none_left(c, op);
	return (uint8_t)error;
}

enum rma_heard
rma_initiator_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];

	if (unlikely(wire_transfer_check(m->head, (uint32_t)sizeof(*m->head) + m->len, false) !=
		    WIRE_OK)) {
		rma_count(r, RMA_BAD_TRANSFERS, 1);
		return RMA_HEARD;
	}
	if (m->head->op == WIRE_PULLED)
		return pulled(r, c, m, place, now);
	for (uint32_t i = 0; i < m->len / sizeof(struct wire_ended); i++) {
		struct wire_ended item;

		memcpy(&item, m->bytes + i * sizeof(item), sizeof(item));
		struct op *op = op_find(c, wire_be32(item.id));
		uint32_t error = wire_be32(item.error);

		if (op != NULL && op->d.node == m->node && op->d.ctx == m->peer &&
			op->state != OP_HELD && !is_offer(op))
			op_end(r, c, op,
				likely(error < 256) ? (uint8_t)error : odd_answer(c, op, error));
	}
	return RMA_HEARD;
}
