/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The initiator's side of remote memory: transfers that this lane's contexts asked for, from their
 * submission to the word that says how they ended (RHI-START, RHI-PUSH, RHI-PULL). Runs on the
 * lane.
 *
 * Design notes
 * 1. Transfers take turns of FRAMES_BURST frames, so a short one does not wait behind a long one.
 *    One that shall be ordered waits until earlier ones to the same context cannot overtake it any
 *    more: pushes until all of them is with the core, whose flows keep order, pulls until they
 *    ended.
 * 2. A transfer ends once: by its answer, by an error of one of its frames, or with its context.
 *    What comes later finds another generation in its place.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "engine/complete.h"
#include "engine/service/rma/frames.h"
#include "engine/service/rma/pinned.h"
#include "engine/service/rma/requests.h"
#include "engine/service/rma/transfers.h"

/* While a transfer waits. Offers are asked for sooner where proto.rto_max_us is short: a flow that
 * was silent for half of that is opened anew, and a later life of the receiver would take it for
 * its own. */
#define ASK_EVERY_US 100000u

struct op *
transfer_find(struct channel *ch, uint32_t id)
{
	uint32_t place = TRANSFER_PLACE(id);
	struct op *op = place < rma_context(ch)->all_ops ? &rma_context(ch)->ops[place] : NULL;

	return op != NULL && op->state != OP_FREE && op->d.id == id ? op : NULL;
}

struct op *
transfer_named(struct channel *ch, const struct arrival *a, uint8_t kind)
{
	uint64_t key = wire_be64(a->head->key);
	struct op *op = key <= UINT32_MAX ? transfer_find(ch, (uint32_t)key) : NULL;

	return op != NULL && op->d.kind == kind && op->d.node == a->node && op->d.ctx == a->peer
		? op
		: NULL;
}

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

/* ------------------------------------------------------------------ order */

/* Could `op` be overtaken by what is submitted after it, to the same context? */
static bool
unsettled(const struct op *op)
{
	if (op->state == OP_FREE || op->d.kind >= TRANSFER_OFFER || op->d.flags & TRANSFER_OFFERED)
		return false;
	return op->d.kind == TRANSFER_PULL || !op->last_sent;
}

static bool
must_wait(const struct channel *ch, const struct op *op)
{
	const struct rma_context *r = rma_context(ch);

	for (uint32_t i = 0; i < r->transfers; i++) {
		const struct op *o = &r->ops[i];

		if (o != op && o->age < op->age && unsettled(o) && o->d.node == op->d.node &&
			o->d.ctx == op->d.ctx)
			return true;
	}
	return false;
}

static void
start(struct engine *e, struct op *op)
{
	op->state = OP_READY;
	list_append(&rma_lane(e)->ready, op);
}

/* Those that waited for others, oldest first. */
static void
release_held(struct engine *e, struct channel *ch)
{
	struct rma_context *r = rma_context(ch);

	while (r->held) {
		struct op *oldest = NULL;

		for (uint32_t i = 0; i < r->transfers; i++) {
			struct op *o = &r->ops[i];

			if (o->state == OP_HELD && !must_wait(ch, o) &&
				(oldest == NULL || o->age < oldest->age))
				oldest = o;
		}
		if (oldest == NULL)
			return;
		r->held--;
		start(e, oldest);
	}
}

/* ------------------------------------------------------------------ begin and end */

static bool
desc_ok(const struct transfer_desc *d)
{
	return d->status % sizeof(int32_t) == 0 && d->kind >= TRANSFER_PUSH &&
		d->kind <= TRANSFER_ACCEPT && !(d->flags & ~TRANSFER_ALL) &&
		d->len <= REGION_BYTES_MAX && d->ctx < WIRE_CONTEXTS_MAX &&
		(d->kind == TRANSFER_PULL || !(d->flags & (TRANSFER_STRIDE | TRANSFER_BITMAP))) &&
		(d->kind == TRANSFER_PUSH || d->kind == TRANSFER_PACKED ||
			!(d->flags & TRANSFER_NOTIFY)) &&
		(d->kind != TRANSFER_ACCEPT || d->flags == TRANSFER_OFFERED) &&
		(d->kind != TRANSFER_OFFER || d->flags == 0) &&
		(!(d->flags & TRANSFER_OFFERED) ||
			((d->kind == TRANSFER_PULL || d->kind == TRANSFER_ACCEPT) &&
				d->flags == TRANSFER_OFFERED)) &&
		(d->flags & (TRANSFER_STRIDE | TRANSFER_BITMAP)) !=
		(TRANSFER_STRIDE | TRANSFER_BITMAP);
}

void
transfer_begin(struct engine *e, struct channel *ch, struct op *op)
{
	op->ch = ch;
	op->sent = 0;
	op->last_sent = op->asking = false;
	op->seen_at = e->now;
	op->age = ++rma_context(ch)->next_age;
	op->status_memory = NULL;
	rma_context(ch)->ops_used++;
	rma_lane(e)->waiting++;
	service_busy(e, RMA_SERVICE);
	start(e, op);
}

/* Of the channel that is offered to, if it is of this node. */
static uint32_t
generation_of(const struct engine *e, const struct transfer_desc *d)
{
	return d->node == e->node->config.id && d->ctx < e->node->config.contexts
		? e->node->channels[d->ctx].generation
		: 0;
}

/* For the client, which weighs it against copying. */
static void
tell_rtt(struct engine *e, struct channel *ch, uint16_t node)
{
	struct proto_path_stat stat;

	if (node < e->nodes_max && proto_path_stat(e->proto, node, &stat) &&
		stat.rtt_ns < UINT32_MAX)
		atomic_store_explicit(&ch->shm->rtt_ns, (uint32_t)stat.rtt_ns,
			memory_order_relaxed);
}

/* false: malformed. */
bool
transfer_submit(struct engine *e, struct channel *ch, uint32_t place)
{
	struct rma_context *r = rma_context(ch);
	struct op *op = place < r->transfers ? &r->ops[place] : NULL;

	if (op == NULL || op->state != OP_FREE)
		return false;
	memcpy(&op->d, &r->descs[place], sizeof(op->d));
	struct transfer_desc *d = &op->d;

	if (!desc_ok(d) || TRANSFER_PLACE(d->id) != place)
		return false;
	op->ch = ch;
	op->local = (struct bytes){.space = &ch->space, .at = d->local, .len = d->len};
	op->sent = 0;
	op->last_sent = op->asking = false;
	op->seen_at = e->now;
	op->age = ++r->next_age;
	op->status_memory = d->status
		? space_at(&ch->space, d->status_memory, d->status, sizeof(int32_t))
		: NULL;
	op->state = OP_PACKED;
	r->ops_used++;
	rma_lane(e)->waiting++;
	service_busy(e, RMA_SERVICE);
	if (d->memory != MEMORY_COPIED && d->kind != TRANSFER_PIN && d->kind != TRANSFER_UNPIN &&
		d->kind != TRANSFER_PACKED) {
		op->local.memory = space_at(&ch->space, d->memory, d->local, d->len);
		if (op->local.memory == NULL) {
			transfer_end(e, ch, op, EFAULT);
			return true;
		}
	}
	if (d->kind == TRANSFER_PACKED)
		return true;
	if (d->kind == TRANSFER_PIN && !pinning_begins(ch, op)) {
		transfer_end(e, ch, op, ENOSPC);
		return true;
	}
	if (d->kind == TRANSFER_OFFER) {
		tell_rtt(e, ch, d->node);
		op->state = OP_OFFERED;
		op->generation = generation_of(e, d);
		op->last_sent = true; /* it can be asked for */
		return true;
	}
	if (d->flags & TRANSFER_ORDERED && must_wait(ch, op)) {
		op->state = OP_HELD;
		r->held++;
		return true;
	}
	start(e, op);
	return true;
}

static void
write_status(const struct op *op, uint8_t error)
{
	int32_t status = -(int32_t)error;

	/* release: the bytes that came before the word that says so */
	if (op->status_memory != NULL)
		atomic_store_explicit((_Atomic int32_t *)(op->status_memory->base +
					      (op->d.status - op->status_memory->client)),
			status, memory_order_release);
}

void
transfer_end(struct engine *e, struct channel *ch, struct op *op, uint8_t error)
{
	struct rma_context *r = rma_context(ch);

	if (op->state == OP_READY)
		list_remove(&rma_lane(e)->ready, op);
	if (op->state == OP_HELD)
		r->held--;
	op->state = OP_FREE;
	if (op->d.kind == TRANSFER_OFFER)
		requests_offer_ends(e, ch, op->d.id);
	else if (op->d.kind == TRANSFER_PIN || op->d.kind == TRANSFER_UNPIN)
		pinning_ends(ch, op, error);
	r->ops_used--;
	rma_lane(e)->waiting--;
	if (error)
		r->failed++;
	else if (op->d.kind == TRANSFER_PULL)
		r->pulled += op->sent;
	else
		r->pushed += op->d.len;
	if (ch->state != CHANNEL_OPEN)
		return;
	if (op->own) {
		op->ended(e, ch, op, error);
		return;
	}
	write_status(op, error);
	r->ended[r->ended_tail++ & r->ended_mask] = COMPLETION_ITEM(op - r->ops, error);
	service_has_results(e, ch, RMA_SERVICE);
	release_held(e, ch);
}

/* The other side has a place for what was offered to it: its own transfer `id`. */
void
transfer_accepted(struct engine *e, struct op *op, uint32_t id, uint64_t len)
{
	op->d.flags |= TRANSFER_OFFERED;
	op->d.key = id;
	op->d.len = len < op->d.len ? len : op->d.len;
	op->last_sent = false;
	start(e, op);
}

/* The context ends, and with it all that it asked for. */
void
transfer_close(struct engine *e, struct channel *ch)
{
	for (uint32_t i = 0; i < rma_context(ch)->all_ops; i++) {
		if (rma_context(ch)->ops[i].state != OP_FREE)
			transfer_end(e, ch, &rma_context(ch)->ops[i], ECONNRESET);
	}
}

/* The client cannot go on with a transfer whose frames it packs. */
void
transfer_cancel(struct engine *e, struct channel *ch, uint32_t place)
{
	if (place <= UINT16_MAX && transfer_is_packed(ch, (uint16_t)place))
		transfer_end(e, ch, &rma_context(ch)->ops[place], EFAULT);
}

void
transfer_memory_gone(struct engine *e, struct channel *ch, const struct memory *m)
{
	for (uint32_t i = 0; i < rma_context(ch)->all_ops; i++) {
		struct op *op = &rma_context(ch)->ops[i];

		if (op->status_memory == m)
			op->status_memory = NULL;
		if (op->state != OP_FREE && op->local.memory == m)
			transfer_end(e, ch, op, EFAULT);
	}
}

/* A frame that the client packed, in m, was not Acked. */
void
transfer_packed_failed(struct engine *e, struct channel *ch, const struct rte_mbuf *m,
	uint8_t error)
{
	struct wire_transfer h;

	/* the client may have written there since; it harms itself */
	memcpy(&h, (const uint8_t *)m->buf_addr + PAYLOAD_START, sizeof(h));
	struct op *op = transfer_find(ch, wire_be32(h.id));

	if (op != NULL && op->state == OP_PACKED)
		transfer_end(e, ch, op, error);
}

/* Is that transfer one whose frames the client packs, and still under way? */
bool
transfer_is_packed(const struct channel *ch, uint16_t place)
{
	return place < rma_context(ch)->transfers && rma_context(ch)->ops[place].state == OP_PACKED;
}

/* The core has another frame of those that the client packs. */
void
transfer_packed(struct engine *e, struct channel *ch, uint16_t place, bool last)
{
	struct op *op = &rma_context(ch)->ops[place];

	if (!transfer_is_packed(ch, place))
		return;
	op->seen_at = e->now;
	if (last) {
		op->last_sent = true;
		release_held(e, ch);
	}
}

/* ------------------------------------------------------------------ frames out */

static struct wire_transfer *
put_head(struct frame *f, const struct op *op, uint8_t kind)
{
	struct wire_transfer *h = frame_head(f);

	*h = (struct wire_transfer){
		.op = kind,
		.flags = (op->d.flags & TRANSFER_AREA ? WIRE_T_AREA : 0) |
			(op->d.flags & TRANSFER_OFFERED ? WIRE_T_OFFER : 0),
		.id = wire_be32(op->d.id),
		.key = wire_be64(op->d.key),
		.at = wire_be64(op->d.at),
		.len = wire_be64(op->d.len),
	};
	f->id = op->d.id;
	return h;
}

static int
send(struct engine *e, struct channel *ch, const struct op *op, struct frame *f, uint32_t len)
{
	return frame_send(e, ch, f, WIRE_INITIATOR, op->d.node, op->d.ctx | WIRE_TARGET,
		(uint32_t)sizeof(struct wire_transfer) + len);
}

static void
all_sent(struct engine *e, struct channel *ch, struct op *op)
{
	list_remove(&rma_lane(e)->ready, op);
	op->state = OP_WAITS;
	op->last_sent = true;
	op->seen_at = e->now;
	release_held(e, ch);
}

/* Some frames of a push. Returns how many, 0 = none now. */
static unsigned
push(struct engine *e, struct channel *ch, struct op *op)
{
	struct frame *f[FRAMES_BURST];
	uint32_t len[FRAMES_BURST];
	uint64_t offset = op->sent;
	unsigned n = frames_take(e, true, op->d.len - op->sent, f, len), i;

	if (n == 0)
		return 0;
	if (frames_fill(e, &op->local, offset, op->d.node, f, len, n) != 0) {
		frames_put(e, f, 0, n);
		transfer_end(e, ch, op, EFAULT);
		return 1;
	}
	for (i = 0; i < n && op->state == OP_READY; i++) {
		struct wire_transfer *h = put_head(f[i], op, WIRE_PUSH);
		bool last = offset + len[i] == op->d.len;

		h->offset = wire_be64(offset);
		if (last && op->d.flags & TRANSFER_NOTIFY)
			h->imm = wire_be64(op->d.imm);
		if (last)
			h->flags |= op->d.flags & TRANSFER_NOTIFY ? WIRE_T_LAST | WIRE_T_NOTIFY
								  : WIRE_T_LAST;
		int result = send(e, ch, op, f[i], len[i]);

		if (result != 0) {
			frames_put(e, f, i, n);
			if (result == -EAGAIN)
				return i;
			transfer_end(e, ch, op, (uint8_t)-result);
			return 1;
		}
		offset += len[i];
		if (op->state == OP_READY)
			op->sent = offset;
		if (last && op->state == OP_READY) {
			all_sent(e, ch, op);
			i++;
			break;
		}
	}
	frames_put(e, f, i, n);
	return n;
}

static uint32_t
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
		return sizeof(*s);
	}
	if (d->flags & TRANSFER_BITMAP) {
		struct wire_bitmap *b = (struct wire_bitmap *)(h + 1);

		h->offset = wire_be64(d->offset);
		b->unit = wire_be32(d->unit);
		b->zero = 0;
		/* little-endian words are bytes in order */
		memcpy(b->bits, d->bits, sizeof(b->bits));
		h->flags |= WIRE_T_BITMAP;
		return sizeof(*b);
	}
	return 0;
}

/* A frame that the client packed for a context of this node, in its buffer m. 1: it went;
 * -EAGAIN. */
int
transfer_copy(struct engine *e, struct channel *ch, const struct rte_mbuf *m,
	const struct proto_message *message)
{
	struct frame *f = frame_take(e, true);

	if (f == NULL)
		return -EAGAIN;
	memcpy(frame_head(f), (const uint8_t *)m->buf_addr + PAYLOAD_START, message->len);
	f->id = wire_be32(frame_head(f)->id);
	frame_send(e, ch, f, WIRE_INITIATOR, message->dst_node, message->dst_ctx, message->len);
	return 1;
}

/* The one frame of a question. */
static unsigned
ask(struct engine *e, struct channel *ch, struct op *op, uint8_t kind)
{
	struct frame *f = frame_take(e, true);
	uint32_t extra = 0;

	if (f == NULL)
		return 0;
	struct wire_transfer *h = put_head(f, op, kind);

	f->asks = kind == WIRE_ASK;
	if (kind == WIRE_PIN)
		h->flags |= WIRE_T_HOLD;
	if (f->asks) {
		op->asking = true;
		h->at = h->len = 0; /* the id says it; to whom offered, the key */
		h->flags = op->d.kind != TRANSFER_OFFER && h->flags & WIRE_T_OFFER ? WIRE_T_OFFER
										   : 0;
		if (!h->flags)
			h->key = 0;
	} else {
		extra = put_part(&op->d, h);
	}
	int result = send(e, ch, op, f, extra);

	if (result == 0)
		return 1;
	frame_put(e, f);
	op->asking = false;
	if (result != -EAGAIN)
		transfer_end(e, ch, op, (uint8_t)-result);
	return result == -EAGAIN ? 0 : 1;
}

/* Is whom it was offered to still there? What offers it went by the same flow: a later life of the
 * receiver refuses this. */
static void
ping(struct engine *e, struct channel *ch, struct op *op)
{
	struct frame *f = op->d.node != e->node->config.id ? frame_take(e, true) : NULL;

	if (f == NULL)
		return;
	memcpy(frame_head(f), &(struct wire_match){.op = WIRE_NOTHING}, sizeof(struct wire_match));
	f->id = op->d.id;
	f->asks = op->asking = true;
	int result = frame_send(e, ch, f, WIRE_MATCHED, op->d.node, op->d.ctx | WIRE_MATCHED,
		sizeof(struct wire_match));

	if (result == 0)
		return;
	frame_put(e, f);
	op->asking = false;
	if (result != -EAGAIN)
		transfer_end(e, ch, op, (uint8_t)-result);
}

static const uint8_t wire_op[] = {
	[TRANSFER_PULL] = WIRE_PULL,
	[TRANSFER_PIN] = WIRE_PIN,
	[TRANSFER_UNPIN] = WIRE_UNPIN,
	[TRANSFER_ACCEPT] = WIRE_ACCEPT,
};

unsigned
transfer_step(struct engine *e)
{
	struct op_list *ready = &rma_lane(e)->ready;
	unsigned work = 0, burst = e->node->config.burst;

	for (unsigned turn = 0; ready->head != NULL && work < burst && turn < 64; turn++) {
		struct op *op = ready->head;
		struct channel *ch = op->ch;
		unsigned k = 0;

		if (rma_context(ch)->own_frames < rma_lane(e)->frames_max / 2) {
			if (op->d.kind == TRANSFER_PUSH || op->d.kind == TRANSFER_OFFER) {
				k = push(e, ch, op);
			} else {
				uint32_t id = op->d.id;

				k = ask(e, ch, op, wire_op[op->d.kind]);
				if (k && op->state == OP_READY && op->d.id == id)
					all_sent(e, ch, op);
			}
		}
		work += k;
		if (ready->head == op && op->next != NULL) {
			list_remove(ready, op);
			list_append(ready, op);
		} else if (k == 0) {
			break;
		}
	}
	return work;
}

/* Are those whose answers are long in coming still known where they went? */
void
transfer_look(struct engine *e)
{
	uint64_t us = rte_get_tsc_hz() / 1000000;
	uint64_t patience = us * ASK_EVERY_US;
	uint64_t of_offers = us * RTE_MIN(e->node->config.proto.rto_max_us / 4, ASK_EVERY_US);

	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];

		for (uint32_t k = 0; rma_context(ch)->ops_used && k < rma_context(ch)->all_ops;
			k++) {
			struct op *op = &rma_context(ch)->ops[k];

			if (op->state < OP_WAITS || !op->last_sent || op->asking)
				continue;
			if (is_offer(op) && op->generation != generation_of(e, &op->d)) {
				transfer_end(e, ch, op, ECONNRESET);
				continue;
			}
			if (e->now - op->seen_at < (is_offer(op) ? of_offers : patience))
				continue;
			op->seen_at = e->now;
			if (is_offer(op))
				ping(e, ch, op);
			else
				ask(e, ch, op, WIRE_ASK);
		}
	}
}

/* ------------------------------------------------------------------ answers in */

static void
pulled(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct op *op = transfer_find(ch, wire_be32(a->head->id));
	uint64_t at = wire_be64(a->head->offset);
	uint8_t error = 0;

	if (op == NULL || op->d.kind != TRANSFER_PULL || op->state != OP_WAITS ||
		op->d.node != a->node || op->d.ctx != a->peer)
		return; /* it ended before */
	op->seen_at = e->now;
	if (at > op->d.len || (!(a->head->flags & WIRE_T_RUNS) && a->len > op->d.len - at))
		error = EPROTO;
	else if (a->head->flags & WIRE_T_RUNS)
		error = memory_place(&op->local, at, a->bytes, a->len, &op->sent);
	else if (memory_write(&op->local, at, a->bytes, a->len) != 0)
		error = EFAULT;
	else
		op->sent += a->len;
	if (error)
		transfer_end(e, ch, op, error);
	else if (a->head->flags & WIRE_T_LAST)
		transfer_end(e, ch, op,
			op->d.flags & (TRANSFER_STRIDE | TRANSFER_BITMAP) || op->sent == op->d.len
				? 0
				: EPROTO);
}

/* What an item says beside an errno: 0, or the errno. */
static uint8_t
odd_answer(struct channel *ch, const struct op *op, uint32_t error)
{
	if (op->d.kind != TRANSFER_UNPIN || (error & ~WIRE_NONE_LEFT) > UINT8_MAX)
		return EPROTO;
	pinning_none_left(ch, op);
	return (uint8_t)error;
}

void
transfer_answer(struct engine *e, struct channel *ch, const struct arrival *a)
{
	if (wire_transfer_check(a->head, (uint32_t)sizeof(*a->head) + a->len, false) != WIRE_OK) {
		ENGINE_COUNT(e, bad_transfers);
		return;
	}
	if (a->head->op == WIRE_PULLED) {
		pulled(e, ch, a);
		return;
	}
	for (uint32_t i = 0; i < a->len / sizeof(struct wire_ended); i++) {
		struct wire_ended item;

		memcpy(&item, a->bytes + i * sizeof(item), sizeof(item));
		struct op *op = transfer_find(ch, wire_be32(item.id));
		uint32_t error = wire_be32(item.error);

		if (op != NULL && op->d.node == a->node && op->d.ctx == a->peer &&
			op->state != OP_HELD && !is_offer(op))
			transfer_end(e, ch, op,
				likely(error < 256) ? (uint8_t)error : odd_answer(ch, op, error));
	}
}
