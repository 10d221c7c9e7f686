/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The target's side of remote memory: requests from others to our contexts. Each access is checked
 * against the table of regions before a byte is touched (RMA-3).
 *
 * Design notes
 * 1. A refused frame of a push is answered at once, even in the middle of the push, and the
 *    initiator stops. The push is remembered until its last frame, which must not notify the
 *    application, though it may be valid by itself. The table is small and may forget a push; the
 *    initiator has been told of the error in any case.
 */
#include "rma/internal.h"

/* Return the errno by which the initiator is told of a verdict; pmx_strerror() has the
 * sentences. */
static uint8_t
verdict_errno(enum region_verdict v)
{
	static const uint8_t numbers[] = {
		[REGION_OK] = 0,
		[REGION_UNKNOWN] = ENOKEY,
		[REGION_BOUNDS] = ERANGE,
		[REGION_RIGHTS] = EACCES,
		[REGION_STRANGER] = EPERM,
		[REGION_OUTSIDER] = ENOTCONN,
	};

	return numbers[v];
}

/* ------------------------------------------------------------------ access */

/* Return whether the message's sender may use areas of the context and group: it is that context,
 * or a member. */
static bool
is_insider(const struct rma *r, const struct rma_context *c, const struct rma_message *m,
	uint32_t group)
{
	return (m->node == r->cfg.node && m->peer == c->ctx) ||
		(group != 0 && r->cfg.member(r->cfg.arg, c->ctx, group, m->node, m->peer));
}

/* Fill in which region a message names: by its key, or by an area ID of the context it is for. */
static void
name_region(const struct rma *r, const struct rma_context *c, const struct rma_message *m,
	struct region_access *access)
{
	uint64_t key = wire_be64(m->head->key);

	access->ctx = c->ctx;
	if (m->head->flags & WIRE_T_AREA) {
		access->key = 0;
		access->area = (uint32_t)key;
		access->group = (uint32_t)(key >> 32);
		access->insider = is_insider(r, c, m, access->group);
	} else {
		access->key = key;
		access->area = REGION_NO_AREA;
	}
}

/* Check an access with `right` to len bytes of an offer. The receiver reads the sender's bytes; the
 * sender writes to the memory into which the receiver accepts them. Returns 0 and where the bytes
 * are, or an errno. */
static uint8_t
access_to_offer(struct rma_context *c, const struct rma_message *m, uint8_t right, uint64_t len,
	struct rma_bytes *where, uint64_t *key, uint64_t now)
{
	struct op *op = right == REGION_READ ? op_of_sender(c, m) : op_of_receiver(c, m);

	/* the offer has ended, or is being fetched already */
	if (op == NULL || (right == REGION_READ && op->state != OP_OFFERED))
		return ECONNRESET;
	if (len > op->d.len)
		return ERANGE;
	op->seen_at = now;
	*where = op->local;
	where->len = len;
	*key = op->d.id;
	return 0;
}

/* Check an access with `right` to len bytes at `at` of what the head names. Returns 0 and where the
 * bytes are, or an errno. */
static uint8_t
access_to(struct rma *r, struct rma_context *c, const struct rma_message *m, uint8_t right,
	uint64_t at, uint64_t len, struct rma_bytes *where, uint64_t *key, uint64_t now)
{
	const struct region *region;
	uint64_t offset;
	struct region_access access = {
		.right = right,
		.at = at,
		.len = len,
	};

	if (m->head->flags & WIRE_T_OFFER)
		return access_to_offer(c, m, right, len, where, key, now);
	name_region(r, c, m, &access);
	enum region_verdict v = region_check(&r->regions, &access, &region, &offset);

	if (v != REGION_OK)
		return verdict_errno(v);
	if (region->watched < REGIONS_WATCHED &&
		r->cfg.revoked(r->cfg.arg, c->ctx, region->watched))
		return ENOKEY;
	*where = (struct rma_bytes){region->memory, region->base + offset, len, c->ctx};
	*key = region->key;
	return 0;
}

/* Compute how many bytes of the transfer the runs span. Returns false if they do not fit their
 * frame. */
static bool
measure_runs(const uint8_t *p, uint32_t left, uint64_t *span)
{
	struct wire_runs runs = {p, left, 0, 0, 0};

	while (wire_run_next(&runs) != NULL)
		;
	*span = runs.end;
	return runs.left == 0;
}

/* ------------------------------------------------------------------ pushes */

static struct refusal *
refusal_of(struct rma *r, const struct rma_context *c, const struct rma_message *m)
{
	uint32_t id = wire_be32(m->head->id);

	return &r->refused[(id ^ id >> 16 ^ c->ctx * 5u ^ m->node * 11u ^ m->peer * 17u) %
		RMA_REFUSED];
}

static bool
is_refusal(const struct refusal *f, const struct rma_context *c, const struct rma_message *m)
{
	return f->error && f->id == wire_be32(m->head->id) && f->ctx == c->ctx &&
		f->node == m->node && f->peer == m->peer;
}

static void
push_refuse(struct rma *r, struct rma_context *c, const struct rma_message *m, uint8_t error)
{
	struct refusal *f = refusal_of(r, c, m);

	rma_count(r, RMA_REFUSED_ACCESSES, 1);
	c->kept.refused += !is_refusal(f, c, m);
	*f = (struct refusal){wire_be32(m->head->id), c->ctx, m->node, m->peer, error};
	if (m->head->flags & WIRE_T_LAST)
		f->error = 0;
	request_answer(r, c, m, error);
}

/* End a push whose last frame is placed: answer it, or let its event be told first. */
static void
push_ends(struct rma *r, struct rma_context *c, const struct rma_message *m)
{
	struct refusal *refusal = refusal_of(r, c, m);

	if (unlikely(is_refusal(refusal, c, m))) { /* this frame is valid, but an earlier one was
						    * refused */
		request_answer(r, c, m, refusal->error);
		refusal->error = 0;
		return;
	}
	c->kept.served++;
	if (m->head->flags & WIRE_T_OFFER) {
		struct op *op = op_of_receiver(c, m);

		if (op != NULL)
			op_end(r, c, op, 0);
	}
	if (!(m->head->flags & WIRE_T_NOTIFY)) {
		request_answer(r, c, m, 0);
		return;
	}
	if (c->events_waiting > 0 && c->events_waiting >= r->cfg.requests_max / 2) {
		request_answer(r, c, m, ENOBUFS);
		return;
	}
	const struct event_slot event = {
		.imm = wire_be64(m->head->imm),
		.len = wire_be64(m->head->len) | (m->head->flags & WIRE_T_TAKEN ? EVENT_TAKEN : 0),
		.node = m->node,
		.ctx = m->peer,
	};

	request_event(r, c, m, &event);
}

static enum rma_heard
push_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m,
	struct rma_place *place, uint64_t now)
{
	uint64_t span = m->len, key, offset = wire_be64(m->head->offset),
		 len = wire_be64(m->head->len);
	const uint8_t right = m->head->flags & WIRE_T_TAKEN ? REGION_READ : REGION_WRITE;
	bool runs = m->head->flags & WIRE_T_RUNS;
	uint8_t error = EPROTO;

	/* check all of the transfer, not just this frame, so that a refused push touches nothing */
	if ((!runs || measure_runs(m->bytes, m->len, &span)) && offset <= len &&
		span <= len - offset)
		error = access_to(r, c, m, right, wire_be64(m->head->at), len, &place->to, &key,
			now);
	if (unlikely(error)) {
		push_refuse(r, c, m, error);
		return RMA_HEARD;
	}
	place->offset = offset;
	place->runs = runs;
	if (likely(!runs))
		place->to.at += offset;
	return RMA_PLACE;
}

void
rma_target_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint8_t error)
{
	struct rma_context *c = r->contexts[ctx];

	if (unlikely(error))
		push_refuse(r, c, m, error);
	else if (m->head->flags & WIRE_T_LAST)
		push_ends(r, c, m);
	else
		context_gives_room(r, c);
}

/* ------------------------------------------------------------------ pulls */

static void
read_stride(struct part *part, const uint8_t *bytes)
{
	struct wire_stride s;

	memcpy(&s, bytes, sizeof(s));
	part->kind = PART_STRIDE;
	part->stride.dims = wire_be32(s.dims);
	part->stride.block = wire_be64(s.block);
	for (unsigned i = 0; i < PART_DIMS_MAX; i++) {
		part->stride.interval[i] = wire_be64(s.interval[i]);
		part->stride.count[i] = wire_be64(s.count[i]);
	}
}

/* Set up the iteration over the parts of the granted bytes that a PULL asks for. Returns 0 or an
 * errno. */
static uint8_t
parts_of(struct rma_request *q, const struct rma_message *m)
{
	struct part part = {.bytes = q->source.len};

	if (m->head->flags & WIRE_T_STRIDE) {
		read_stride(&part, m->bytes);
	} else {
		const struct wire_bitmap *b = (const struct wire_bitmap *)m->bytes;

		part.kind = PART_BITMAP;
		part.bitmap.unit = wire_be32(b->unit);
		part.bitmap.bits = q->bits;
		memcpy(q->bits, b->bits, sizeof(q->bits));
		q->base = wire_be64(m->head->offset);
		if (q->base > q->source.len)
			return EINVAL;
		q->source.at += q->base;
		q->source.len -= q->base;
		part.bytes = (uint64_t)part.bitmap.unit * WIRE_BITMAP_UNITS;
		if (part.bytes > q->source.len)
			part.bytes = q->source.len;
	}
	if (part_check(&part) != NULL)
		return EINVAL;
	part_begin(&q->it, &part);
	q->run = (struct part_run){0, 0};
	return 0;
}

static void
pull_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m, uint64_t now)
{
	struct rma_request *q = request_take(r, c, m, REQUEST_PULL);

	if (q == NULL)
		return;
	q->in_parts = m->head->flags & (WIRE_T_STRIDE | WIRE_T_BITMAP);
	q->of_offer = m->head->flags & WIRE_T_OFFER;
	q->sent = q->base = 0;
	q->error = access_to(r, c, m, REGION_READ, wire_be64(m->head->at), wire_be64(m->head->len),
		&q->source, &q->key, now);
	if (q->error == 0 && q->in_parts)
		q->error = parts_of(q, m);
	if (q->error == 0) {
		if (q->of_offer)
			op_fetched(r, op_of_sender(c, m));
		c->kept.served++;
		return;
	}
	rma_count(r, RMA_REFUSED_ACCESSES, 1);
	c->kept.refused++;
	q->kind = REQUEST_ENDED;
}

/* ------------------------------------------------------------------ atomic operations */

static enum rma_heard
atomic_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m,
	struct rma_place *place, uint64_t now)
{
	struct wire_atomic what;
	const uint64_t at = wire_be64(m->head->at), len = wire_be64(m->head->len);
	uint64_t key;
	uint8_t error = EPROTO;

	memcpy(&what, m->bytes, sizeof(what));
	if (atomic_is_valid(what.op, what.type) && atomic_len_is_valid(what.type, len) &&
		m->len == sizeof(what) + atomic_operands(what.op, (uint32_t)len))
		error = access_to(r, c, m, REGION_READ | REGION_WRITE, at, len, &place->to, &key,
			now);
	if (error == 0 && place->to.at % atomic_bytes(what.type) != 0)
		error = EINVAL;
	if (error == 0) {
		place->op = what.op;
		place->type = what.type;
		return RMA_CHANGE;
	}
	rma_count(r, RMA_REFUSED_ACCESSES, 1);
	c->kept.refused++;
	request_answer(r, c, m, error);
	return RMA_HEARD;
}

void
rma_change(const struct rma_place *place, const struct rma_message *m, void *at, void *before)
{
	const uint8_t *operands = m->bytes + sizeof(struct wire_atomic);

	atomic_apply(place->op, place->type, at, place->to.len, operands, operands + place->to.len,
		before);
}

void
rma_target_changed(struct rma *r, uint16_t ctx, const struct rma_message *m,
	const struct rma_place *place, const void *before, uint8_t error)
{
	struct rma_context *c = r->contexts[ctx];

	c->kept.served += error == 0;
	if (error != 0 || !(m->head->flags & WIRE_T_FETCH)) {
		request_answer(r, c, m, error);
		return;
	}
	struct rma_request *q = request_take(r, c, m, REQUEST_FETCH);

	if (q == NULL)
		return;
	q->source.len = place->to.len;
	memcpy(q->bits, before, place->to.len);
}

/* ------------------------------------------------------------------ other questions */

/* Begin to push an offer whose receiver has memory for it, and asks for the bytes. */
static void
accept_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m)
{
	struct op *offer = op_of_sender(c, m);

	if (offer == NULL || offer->state != OP_OFFERED) {
		request_answer(r, c, m, ECONNRESET);
		return;
	}
	op_accepted(r, offer, wire_be32(m->head->id), wire_be64(m->head->len));
	context_gives_room(r, c);
}

static bool
is_in(const struct rma_request *q, const struct rma_context *c, const struct rma_message *m)
{
	for (; q != NULL; q = q->next) {
		if (q->c == c && q->node == m->node && q->peer == m->peer &&
			q->id == wire_be32(m->head->id))
			return true;
	}
	return false;
}

/* Answer the question whether a transfer is still known. A transfer that is still to be answered
 * needs no other answer to the question. */
static void
ask_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m)
{
	/* an offer that has not ended: its bytes are under way, or soon will be */
	if ((m->head->flags & WIRE_T_OFFER && op_of_sender(c, m) != NULL) ||
		is_in(r->requests.head, c, m) || is_in(r->stopped_requests.head, c, m) ||
		is_in(c->event_head, c, m))
		context_gives_room(r, c);
	else
		request_answer(r, c, m, ECONNRESET);
}

/* Answer a PIN. Memory that can be accessed is pinned already; a PIN with HOLD keeps it so. */
static void
pin_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m, uint64_t now)
{
	uint64_t at = wire_be64(m->head->at), len = wire_be64(m->head->len), key;
	struct rma_bytes where;
	uint8_t error = access_to(r, c, m, REGION_READ, at, len, &where, &key, now);

	if (error == EACCES)
		error = access_to(r, c, m, REGION_WRITE, at, len, &where, &key, now);
	if (error == 0 && m->head->flags & WIRE_T_HOLD)
		error = remote_pin_grant(r, c, m, key);
	rma_count(r, RMA_PINS_REFUSED, error != 0);
	request_answer(r, c, m, error);
}

static void
unpin_arrives(struct rma *r, struct rma_context *c, const struct rma_message *m)
{
	struct region_access access = {0};

	if (m->head->flags & WIRE_T_LAST) {
		remote_pins_lost(r, c, m->node, m->peer);
		context_gives_room(r, c);
		return;
	}
	name_region(r, c, m, &access);
	const struct region *region = region_named(&r->regions, &access);
	bool ours = region != NULL && region->ctx == c->ctx;

	request_answer(r, c, m, remote_pin_release(r, c, m, ours ? region->key : 0));
}

/* ------------------------------------------------------------------ in */

enum rma_heard
rma_target_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];

	if (unlikely(wire_transfer_check(m->head, (uint32_t)sizeof(*m->head) + m->len, true) !=
		    WIRE_OK)) {
		rma_count(r, RMA_BAD_TRANSFERS, 1);
		context_gives_room(r, c);
		return RMA_HEARD;
	}
	switch ((enum wire_transfer_op)m->head->op) {
	case WIRE_PUSH:
		return push_arrives(r, c, m, place, now);
	case WIRE_PULL:
		pull_arrives(r, c, m, now);
		break;
	case WIRE_ACCEPT:
		accept_arrives(r, c, m);
		break;
	case WIRE_ASK:
		ask_arrives(r, c, m);
		break;
	case WIRE_PIN:
		pin_arrives(r, c, m, now);
		break;
	case WIRE_UNPIN:
		unpin_arrives(r, c, m);
		break;
	case WIRE_ATOMIC:
		return atomic_arrives(r, c, m, place, now);
	default:
		context_gives_room(r, c);
	}
	return RMA_HEARD;
}

void
rma_peer_left(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer)
{
	remote_pins_lost(r, r->contexts[ctx], node, peer);
}

struct peer_name {
	uint16_t node, ctx;
};

static bool
is_for(const struct rma_request *q, const void *peer)
{
	const struct peer_name *p = peer;

	return q->node == p->node && q->peer == p->ctx;
}

void
target_peer_failed(struct rma *r, struct rma_context *c, uint16_t node, uint16_t peer,
	uint8_t error)
{
	const struct peer_name name = {node, peer};

	requests_fail(r, c, is_for, &name, ECONNRESET);
	if (error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH)
		remote_pins_lost(r, c, node, peer);
}
