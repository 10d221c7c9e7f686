/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The target's side of remote memory: what others ask this lane's contexts for, each access checked
 * against the table of regions before a byte is touched (RMA-3), and the answers. Runs on the lane.
 *
 * Design notes
 * 1. A frame of a push that is refused is answered at once, in the middle of it, and its asker
 *    stops. Its name is kept until its last frame: that must not be told of, though it may be right
 *    by itself. The table is small, and a name may be lost in it; the asker has the error in any
 *    case.
 */
#include <errno.h>
#include <string.h>

#include "engine/service/rma/dma.h"
#include "engine/service/rma/pinned.h"
#include "engine/service/rma/requests.h"
#include "engine/service/rma/targets.h"
#include "engine/service/rma/transfers.h"

/* What a verdict is to the initiator; pmx_strerror() has the sentences. */
static uint8_t
verdict_errno(enum region_verdict v)
{
	static const uint8_t numbers[] = {
		[REGION_OK] = 0,
		[REGION_UNKNOWN] = ENOKEY,
		[REGION_BOUNDS] = ERANGE,
		[REGION_RIGHTS] = EACCES,
		[REGION_STRANGER] = EPERM,
	};

	return numbers[v];
}

/* ------------------------------------------------------------------ access */

/* The region that a message names: by its key, or an area ID of the context that it is for. */
static void
name_region(const struct channel *ch, const struct arrival *a, struct region_access *access)
{
	uint64_t key = wire_be64(a->head->key);

	access->ctx = ch->ctx;
	access->key = a->head->flags & WIRE_T_AREA ? 0 : key;
	access->area = a->head->flags & WIRE_T_AREA && key < REGION_NO_AREA ? (uint32_t)key
									    : REGION_NO_AREA;
}

/* May `right` be had over len bytes at `at` of what the head names? 0 and where they are, or an
 * errno. */
static uint8_t
access_to(struct engine *e, struct channel *ch, const struct arrival *a, uint8_t right, uint64_t at,
	uint64_t len, struct bytes *where, uint64_t *key)
{
	const struct wire_transfer *h = a->head;
	const struct region *region;
	uint64_t offset;
	struct region_access access = {
		.right = right,
		.at = at,
		.len = len,
	};
	enum region_verdict v = REGION_UNKNOWN;

	if (h->flags & WIRE_T_OFFER) {
		struct op *op = transfer_named(ch, a,
			right == REGION_READ ? TRANSFER_OFFER : TRANSFER_ACCEPT);

		/* it has ended, or was fetched before */
		if (op == NULL || (right == REGION_READ && op->state != OP_OFFERED))
			return ECONNRESET;
		if (len > op->d.len)
			return ERANGE;
		op->seen_at = e->now;
		*where = op->local;
		where->len = len;
		if (key != NULL)
			*key = op->d.id;
		return 0;
	}
	name_region(ch, a, &access);
	v = region_check(&rma_lane(e)->regions, &access, &region, &offset);
	if (v != REGION_OK)
		return verdict_errno(v);
	if (region->watched < REGIONS_WATCHED &&
		atomic_load_explicit(&ch->shm->revoked[region->watched], memory_order_relaxed))
		return ENOKEY;
	*where = (struct bytes){&ch->space, region->memory, region->base + offset, len};
	if (key != NULL)
		*key = region->key;
	return 0;
}

/* Bytes that the runs span; false: they do not fit their frame. */
static bool
measure_runs(const uint8_t *p, uint32_t left, uint64_t *span)
{
	struct wire_runs r = {p, left, 0, 0, 0};

	while (wire_run_next(&r) != NULL)
		;
	*span = r.end;
	return r.left == 0;
}

/* kept: a device copies, target_placed comes later. */
static uint8_t
place(struct engine *e, struct channel *ch, const struct arrival *a, bool *kept)
{
	struct bytes to;
	uint64_t span = a->len, offset = wire_be64(a->head->offset), len = wire_be64(a->head->len);
	bool runs = a->head->flags & WIRE_T_RUNS;

	if ((runs && !measure_runs(a->bytes, a->len, &span)) || offset > len || span > len - offset)
		return EPROTO;
	/* all of the transfer, not just this frame: what is refused touches nothing */
	uint8_t error = access_to(e, ch, a, REGION_WRITE, wire_be64(a->head->at), len, &to, NULL);

	if (unlikely(error))
		return error;
	if (unlikely(runs))
		return memory_place(&to, offset, a->bytes, a->len, &span);
	if (to.memory != NULL &&
		dma_copy(e, ch, a, to.memory,
			to.memory->base + (to.at - to.memory->client) + offset)) {
		*kept = true;
		return 0;
	}
	return a->len != 0 && memory_write(&to, offset, a->bytes, a->len) != 0 ? EFAULT : 0;
}

/* ------------------------------------------------------------------ pushes */

static struct refusal *
refusal_of(struct engine *e, const struct channel *ch, const struct arrival *a)
{
	uint32_t id = wire_be32(a->head->id);

	return &rma_lane(e)
			->refused[(id ^ id >> 16 ^ ch->ctx * 5u ^ a->node * 11u ^ a->peer * 17u) %
				REFUSALS];
}

static bool
is_refusal(const struct refusal *r, const struct channel *ch, const struct arrival *a)
{
	return r->error && r->id == wire_be32(a->head->id) && r->ctx == ch->ctx &&
		r->node == a->node && r->peer == a->peer;
}

/* The last frame of a push is placed. */
static void
push_ends(struct engine *e, struct channel *ch, const struct arrival *a)
{
	const struct event_slot event = {
		.imm = wire_be64(a->head->imm),
		.len = wire_be64(a->head->len),
		.node = a->node,
		.ctx = a->peer,
	};
	struct rma_context *remote = rma_context(ch);
	struct refusal *refusal = refusal_of(e, ch, a);

	if (unlikely(is_refusal(refusal, ch, a))) { /* but not all before it was */
		request_answer(e, ch, a, refusal->error);
		refusal->error = 0;
		return;
	}
	remote->served++;
	if (a->head->flags & WIRE_T_OFFER) {
		struct op *op = transfer_named(ch, a, TRANSFER_ACCEPT);

		if (op != NULL)
			transfer_end(e, ch, op, 0);
	}
	if (!(a->head->flags & WIRE_T_NOTIFY) ||
		(remote->events_waiting == 0 && event_put(e, ch, &event))) {
		request_answer(e, ch, a, 0);
		return;
	}
	if (remote->events_waiting >= e->node->config.requests / 2) {
		request_answer(e, ch, a, ENOBUFS);
		return;
	}
	request_event(e, ch, a, &event);
}

/* The bytes of a frame of a push are in their place. */
void
target_placed(struct engine *e, struct channel *ch, const struct arrival *a)
{
	if (a->head->flags & WIRE_T_LAST)
		push_ends(e, ch, a);
	else
		request_room(e, ch);
}

/* true: a->m is kept. */
static bool
push_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	bool kept = false;
	uint8_t error = place(e, ch, a, &kept);

	if (unlikely(error)) {
		struct refusal *refusal = refusal_of(e, ch, a);

		ENGINE_COUNT(e, refused_accesses);
		rma_context(ch)->refused += !is_refusal(refusal, ch, a);
		*refusal = (struct refusal){wire_be32(a->head->id), ch->ctx, a->node, a->peer,
			error};
		if (a->head->flags & WIRE_T_LAST)
			refusal->error = 0;
		request_answer(e, ch, a, error);
		return false;
	}
	if (kept || dma_later(e, ch, a))
		return true;
	target_placed(e, ch, a);
	return false;
}

/* Which bytes of what was granted: 0, or an errno. */
static uint8_t
parts_of(struct request *r, const struct arrival *a)
{
	struct part part = {.bytes = r->source.len};

	if (a->head->flags & WIRE_T_STRIDE) {
		struct wire_stride s;

		memcpy(&s, a->bytes, sizeof(s));
		part.kind = PART_STRIDE;
		part.stride.dims = wire_be32(s.dims);
		part.stride.block = wire_be64(s.block);
		for (unsigned i = 0; i < PART_DIMS_MAX; i++) {
			part.stride.interval[i] = wire_be64(s.interval[i]);
			part.stride.count[i] = wire_be64(s.count[i]);
		}
	} else {
		const struct wire_bitmap *b = (const struct wire_bitmap *)a->bytes;

		part.kind = PART_BITMAP;
		part.bitmap.unit = wire_be32(b->unit);
		part.bitmap.bits = r->bits;
		memcpy(r->bits, b->bits, sizeof(r->bits));
		r->base = wire_be64(a->head->offset);
		if (r->base > r->source.len)
			return EINVAL;
		r->source.at += r->base;
		r->source.len -= r->base;
		part.bytes = (uint64_t)part.bitmap.unit * WIRE_BITMAP_UNITS;
		if (part.bytes > r->source.len)
			part.bytes = r->source.len;
	}
	if (part_check(&part) != NULL)
		return EINVAL;
	part_begin(&r->it, &part);
	r->run = (struct part_run){0, 0};
	return 0;
}

static void
pull_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct request *r = request_take(e, ch, a, REQUEST_PULL);

	if (r == NULL)
		return;
	r->in_parts = a->head->flags & (WIRE_T_STRIDE | WIRE_T_BITMAP);
	r->of_offer = a->head->flags & WIRE_T_OFFER;
	r->sent = r->base = 0;
	r->error = access_to(e, ch, a, REGION_READ, wire_be64(a->head->at), wire_be64(a->head->len),
		&r->source, &r->key);
	if (r->error == 0 && r->in_parts)
		r->error = parts_of(r, a);
	if (r->error == 0) {
		if (r->of_offer)
			transfer_named(ch, a, TRANSFER_OFFER)->state = OP_WAITS;
		rma_context(ch)->served++;
		return;
	}
	ENGINE_COUNT(e, refused_accesses);
	rma_context(ch)->refused++;
	r->kind = REQUEST_ENDED;
}

/* ------------------------------------------------------------------ in */

/* Somebody has a place for what was offered to it. */
static void
accept_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct op *op = transfer_named(ch, a, TRANSFER_OFFER);

	if (op == NULL || op->state != OP_OFFERED) {
		request_answer(e, ch, a, ECONNRESET);
		return;
	}
	transfer_accepted(e, op, wire_be32(a->head->id), wire_be64(a->head->len));
	request_room(e, ch);
}

/* Is that transfer among those that are still owed something? */
static bool
is_known(const struct engine *e, struct channel *ch, const struct arrival *a)
{
	if (a->head->flags & WIRE_T_OFFER) {
		const struct op *op = transfer_named(ch, a, TRANSFER_OFFER);

		if (op != NULL)
			return true; /* the bytes are on their way, or soon will be */
	}
	for (const struct request *r = rma_lane(e)->requests.head; r != NULL; r = r->next) {
		if (r->ctx == ch->ctx && r->node == a->node && r->peer == a->peer &&
			r->id == wire_be32(a->head->id))
			return true;
	}
	for (const struct request *r = rma_context(ch)->event_head; r != NULL; r = r->next) {
		if (r->node == a->node && r->peer == a->peer && r->id == wire_be32(a->head->id))
			return true;
	}
	return false;
}

/* Memory that can be reached is pinned; it stays so if that is asked for. */
static void
pin_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	uint64_t at = wire_be64(a->head->at), len = wire_be64(a->head->len), key;
	struct bytes where;
	uint8_t error = access_to(e, ch, a, REGION_READ, at, len, &where, &key);

	if (error == EACCES)
		error = access_to(e, ch, a, REGION_WRITE, at, len, &where, &key);
	if (error == 0 && a->head->flags & WIRE_T_HOLD)
		error = pinned_grant(e, ch, a, key);
	ENGINE_COUNT_N(e, pins_refused, error != 0);
	request_answer(e, ch, a, error);
}

static void
unpin_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct region_access access;

	if (a->head->flags & WIRE_T_LAST) {
		pinned_lost(e, ch, a->node, a->peer);
		request_room(e, ch);
		return;
	}
	name_region(ch, a, &access);
	const struct region *region = region_named(&rma_lane(e)->regions, &access);

	request_answer(e, ch, a,
		pinned_release(e, ch, a,
			region != NULL && region->ctx == ch->ctx ? region->key : 0));
}

/* A message to a target, whose entry the core has taken. */
bool
target_message(struct engine *e, struct channel *ch, const struct arrival *a)
{
	bool kept = false;

	if (unlikely(wire_transfer_check(a->head, (uint32_t)sizeof(*a->head) + a->len, true) !=
		    WIRE_OK)) {
		ENGINE_COUNT(e, bad_transfers);
		request_room(e, ch);
		return false;
	}
	/* what comes after pushes finds their bytes in place, and its answer behind theirs */
	if (a->head->op != WIRE_PUSH || a->m == NULL)
		dma_drain(e);
	switch ((enum wire_transfer_op)a->head->op) {
	case WIRE_PUSH:
		kept = push_arrives(e, ch, a);
		break;
	case WIRE_PULL:
		pull_arrives(e, ch, a);
		break;
	case WIRE_ACCEPT:
		accept_arrives(e, ch, a);
		break;
	case WIRE_ASK:
		if (is_known(e, ch, a))
			request_room(e, ch);
		else
			request_answer(e, ch, a, ECONNRESET);
		break;
	case WIRE_PIN:
		pin_arrives(e, ch, a);
		break;
	case WIRE_UNPIN:
		unpin_arrives(e, ch, a);
		break;
	default:
		request_room(e, ch);
	}
	return kept;
}

struct peer_name {
	uint16_t node, ctx;
};

static bool
is_for(const struct request *r, const void *peer)
{
	const struct peer_name *p = peer;

	return r->node == p->node && r->peer == p->ctx;
}

/* An answer was not Acked: what follows it must not look like all of it. */
void
target_peer_failed(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer,
	uint8_t error)
{
	const struct peer_name name = {node, peer};

	requests_fail(e, ch, is_for, &name, ECONNRESET);
	if (error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH)
		pinned_lost(e, ch, node, peer);
}
