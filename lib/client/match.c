/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages, from the application's side (RHI-MSG; RHiNET, CPSY 2000, section 2.6): requests, eager messages, offers
 * and how they are fetched, probes. Runs in the context's thread; lib/match does the matching.
 *
 * Design notes
 * 1. A short message is copied into send buffers and out of the entry or the bulk buffers where it landed. A longer one
 *    is offered: its head says so, and it stays where it is. The receive that takes it fetches it (a pull), or, if it was
 *    posted before, lets it be pushed (RHI-MSG): an engine moves the bytes between the two buffers either way.
 * 2. A request has a place of a table, and each use of a place another generation. What has ended when the call
 *    returns has request 0 and takes no place.
 * 3. Messages that nobody waits for keep their entries and bulk buffers as long as there are enough: then the oldest
 *    heads move to a store (lib/match/heads), and bulk to the heap, up to a bound. Beyond it senders wait.
 * 4. Offers take at most half of the places for transfers: with all of them two contexts that offer to each other would
 *    never fetch.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_vect_get_max_simd_bitwidth is stable from 23.11 on */
#include <errno.h>
#include <stdlib.h>

#include <rte_vect.h>

#include "client/layout.h"
#include "match/queue.h"

#define REQUEST_ID(index, uses) ((uint64_t)(uses) << 32 | ((index) + 1))
#define EAGER_AUTO 16384
#define SPIN_US    200 /* of waiting, before sleeping */

enum request_state {
	REQUEST_FREE,
	REQUEST_POSTED,  /* a receive without a message */
	REQUEST_FETCHES, /* it has one, whose bytes have not come */
	REQUEST_OFFERED, /* a send that waits for being fetched */
	REQUEST_SENT,    /* a send that waits for its Ack */
	REQUEST_TAKEN,   /* a message that a probe took */
	REQUEST_ENDED,
};

struct request {
	uint32_t uses;
	uint32_t next;           /* free ones, those that start, those that were sent */
	uint8_t state;           /* enum request_state */
	bool quiet;              /* nobody will ask */
	bool was_posted;         /* before its message came */
	uint8_t flags;           /* of the message: WIRE_M_* */
	uint32_t offer;          /* FETCHES: the sender's transfer */
	uint32_t posted;         /* number of the posted receive */
	struct pmx_status status;
	struct layout layout;
	uint8_t *staging;        /* all of the message in one piece, where the layout is not; malloc */
	uint64_t staged;         /* bytes of it */
	pmx_send_id sent;
	struct match_message taken;
};

struct list {
	uint32_t head, tail;
};

struct match {
	struct match_queue queue;
	struct request *requests; /* `max` of them; memory is touched as it is needed */
	uint32_t max, used, free, live;
	struct list starting;    /* that have a message, and no place for the transfer yet */
	struct list sent;        /* REQUEST_SENT */
	uint32_t offers, offers_max;
	uint32_t eager_max;      /* bytes of a message that is copied */
	uint32_t one_max;        /* ... in one buffer */
	uint32_t published, publish; /* entries told to the engine to be its own again; after how many */
	uint32_t entries, buffers;
	uint32_t cursor;         /* bulk: places before it have been looked at */
	uint64_t renumbered;
	uint64_t heap, heap_max; /* bytes of bulk that was copied */
	struct pmx_match_stat stat;
};

/* ------------------------------------------------------------------ life */

static uint32_t
smaller(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

static int
match_open(struct pmx_context *ctx)
{
	const struct channel_shm *shm = ctx->shm;
	struct match *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return -ENOMEM;
	x->requests = calloc(shm->receives, sizeof(*x->requests));
	if (x->requests == NULL || match_queue_init(&x->queue, &shm->matched, channel_matched(ctx->shm), shm->frag_len,
					   shm->unexpected, shm->receives, rte_vect_get_max_simd_bitwidth()) != 0) {
		free(x->requests);
		free(x);
		return -ENOMEM;
	}
	x->max = shm->receives;
	x->free = x->starting.head = x->sent.head = NO_REQUEST;
	x->entries = shm->matched.entries;
	x->buffers = shm->matched_buffers;
	x->publish = x->entries / 8 ? x->entries / 8 : 1;
	x->offers_max = ctx->transfer_count / 2;
	/* half of what the receiver has: if it is like this one */
	uint64_t most = (uint64_t)(shm->matched_buffers / 2) * shm->frag_len;

	most = smaller(most > shm->frag_len ? most : shm->frag_len, ctx->max_message) - sizeof(struct wire_match);
	x->eager_max = smaller(shm->rendezvous == RENDEZVOUS_AUTO ? EAGER_AUTO : shm->rendezvous, most);
	x->one_max = smaller(x->eager_max, ctx->one_max - sizeof(struct wire_match));
	x->heap_max = shm->unexpected_bytes;
	ctx->match = x;
	return 0;
}

/* Bytes that were copied off the bulk buffers: see copy_bulk. */
static inline uint8_t *
heap_of(const struct match *x, const struct lhs_entry *e)
{
	return e->bulk == LHS_NO_BULK && e->len > x->queue.heads.ring.split ? (uint8_t *)(uintptr_t)e->bulk_off : NULL;
}

void
match_close(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (x == NULL)
		return;
	const struct match_unexpected *u = &x->queue.unexpected;

	for (uint32_t at = match_unexpected_next(u, 0); at != MATCH_NONE; at = match_unexpected_next(u, at + 1))
		free(heap_of(x, match_head_at(&x->queue.heads, u->places[at].where)));
	for (uint32_t i = 0; i < x->used; i++) {
		if (x->requests[i].state == REQUEST_TAKEN)
			free(heap_of(x, x->requests[i].taken.entry));
		free(x->requests[i].staging);
	}
	match_queue_free(&x->queue);
	free(x->requests);
	free(x);
	ctx->match = NULL;
}

bool
match_landed(const struct pmx_context *ctx)
{
	return ctx->match != NULL && lhs_peek(&ctx->match->queue.heads.ring) != NULL;
}

/* ------------------------------------------------------------------ requests */

static void
append(struct match *x, struct list *l, uint32_t i)
{
	x->requests[i].next = NO_REQUEST;
	if (l->head == NO_REQUEST)
		l->head = i;
	else
		x->requests[l->tail].next = i;
	l->tail = i;
}

/* NO_REQUEST: all are in use. */
static inline uint32_t
request_take(struct match *x, bool quiet)
{
	uint32_t i = x->free;

	if (likely(i != NO_REQUEST))
		x->free = x->requests[i].next;
	else if (x->used < x->max)
		i = x->used++;
	else
		return NO_REQUEST;
	struct request *r = &x->requests[i];

	r->quiet = quiet;
	r->was_posted = false;
	r->staging = NULL;
	r->status.error = 0;
	x->live++;
	return i;
}

static inline void
request_free(struct match *x, uint32_t i)
{
	struct request *r = &x->requests[i];

	r->state = REQUEST_FREE;
	r->uses++;
	r->next = x->free;
	x->free = i;
	x->live--;
}

static inline pmx_request
request_id(const struct match *x, uint32_t i)
{
	return REQUEST_ID(i, x->requests[i].uses);
}

static inline struct request *
request_of(struct match *x, pmx_request id)
{
	uint32_t i = (uint32_t)id - 1;

	if (x == NULL || i >= x->used || x->requests[i].uses != (uint32_t)(id >> 32) || x->requests[i].state == REQUEST_FREE)
		return NULL;
	return &x->requests[i];
}

static inline void
request_end(struct match *x, struct request *r, int error)
{
	if (unlikely(error != 0) && r->status.error == 0)
		r->status.error = error;
	if (unlikely(r->staging != NULL)) {
		free(r->staging);
		r->staging = NULL;
	}
	r->state = REQUEST_ENDED;
	if (!r->quiet)
		return;
	x->stat.errors += r->status.error != 0;
	request_free(x, (uint32_t)(r - x->requests));
}

/* ------------------------------------------------------------------ what was received goes to its place */

/* All of a message of len bytes is at `bytes`, in one piece. */
static int
place(struct request *r, const uint8_t *bytes, uint64_t len)
{
	const struct layout *l = &r->layout;
	struct cursor c;

	if (unlikely(r->flags & WIRE_M_RUNS)) {
		if (l->iov != NULL || (l->part != NULL && l->part->kind != PMX_PART_TWIN))
			return -EOPNOTSUPP;
		return layout_place(l, bytes, len, &r->status.len);
	}
	cursor_begin(&c, l);
	return cursor_scatter(&c, bytes, len) < len ? -EMSGSIZE : 0;
}

/* The same, from bulk buffers: the first `skip` bytes are not the message's. */
static int
place_bulk(struct pmx_context *ctx, struct request *r, const struct pmx_message *msg, uint32_t skip)
{
	struct pmx_segment seg = {0};
	struct cursor c;
	uint64_t done = 0;

	cursor_begin(&c, &r->layout);
	while (pmx_message_segment(ctx, msg, &seg)) {
		const uint8_t *bytes = (const uint8_t *)seg.data + skip;
		uint64_t n = seg.len - skip, k = cursor_scatter(&c, bytes, n);

		done += k;
		skip = 0;
		if (k < n)
			return -EMSGSIZE;
	}
	return done + sizeof(struct wire_match) == msg->len ? 0 : -EMSGSIZE;
}

/* The twin, and the request, after the bytes. */
static void
received(struct match *x, struct request *r, int error)
{
	const struct layout *l = &r->layout;

	if (l->part != NULL && l->part->kind == PMX_PART_TWIN && (error == 0 || error == -EMSGSIZE))
		memcpy(l->part->twin, l->data, l->len);
	request_end(x, r, error);
}

/* A message in bulk buffers as pmx_receive would give it. */
static void
message_of(const struct pmx_context *ctx, const struct lhs_entry *e, struct pmx_message *msg)
{
	msg->data = (const uint8_t *)ctx->shm + e->bulk_off;
	msg->len = msg->seg_len = e->len;
	msg->bulk = e->bulk;
	if (e->bulk & LHS_CHAINED) {
		struct bulk_link link;

		memcpy(&link, (const uint8_t *)msg->data - sizeof(link), sizeof(link));
		msg->seg_len = link.len;
	}
}

static void
eager_bulk(struct pmx_context *ctx, struct request *r, const struct lhs_entry *e)
{
	const uint32_t head = sizeof(struct wire_match), len = e->len - head;
	struct match *x = ctx->match;
	uint8_t *heap = heap_of(x, e);
	struct pmx_message msg;
	int error;

	if (heap != NULL) {
		error = place(r, heap + head, len);
		x->heap -= e->len;
		free(heap);
		received(x, r, error);
		return;
	}
	message_of(ctx, e, &msg);
	if (!(r->flags & WIRE_M_RUNS)) {
		error = place_bulk(ctx, r, &msg, head);
	} else if (msg.seg_len == msg.len) {
		error = place(r, (const uint8_t *)msg.data + head, len);
	} else {
		uint8_t *flat = malloc(e->len);

		error = flat != NULL ? pmx_message_read(ctx, &msg, 0, flat, e->len) : -ENOMEM;
		if (error == 0)
			error = place(r, flat + head, len);
		free(flat);
	}
	pmx_release_receive_buffer(ctx, &msg);
	received(x, r, error);
}

/* ------------------------------------------------------------------ offers */

/* Fetch what was offered; false: not now. */
static bool
fetch(struct pmx_context *ctx, uint32_t i)
{
	struct match *x = ctx->match;
	struct request *r = &x->requests[i];
	struct pmx_transfer t = {.peer = r->status.source, .key = r->offer, .local = r->staging, .len = r->staged};
	uint32_t id;

	if (r->staging == NULL)
		t.local = r->layout.data;
	int result = transfers_request(ctx, r->was_posted ? TRANSFER_ACCEPT : TRANSFER_PULL, &t, i, &id);

	if (result == -EAGAIN || result == -EPIPE)
		return false;
	if (result != 0) {
		/* the sender shall not wait for ever: nothing is fetched */
		r->status.error = result;
		t.len = 0;
		if (transfers_request(ctx, TRANSFER_PULL, &t, i, &id) != 0)
			return false;
	}
	return true;
}

static void
start(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	while (x->starting.head != NO_REQUEST && fetch(ctx, x->starting.head))
		x->starting.head = x->requests[x->starting.head].next;
}

/* A receive has got an offer. */
static void
take_offer(struct pmx_context *ctx, struct request *r, const struct lhs_entry *e)
{
	struct match *x = ctx->match;
	uint32_t i = (uint32_t)(r - x->requests);
	struct wire_offer offer;

	memcpy(&offer, e->front + sizeof(struct wire_match), sizeof(offer));
	r->state = REQUEST_FETCHES;
	r->offer = wire_be32(offer.id);
	r->status.len = wire_be64(offer.len);
	bool runs = r->flags & WIRE_M_RUNS;

	r->staged = runs || r->status.len < r->layout.total ? r->status.len : r->layout.total;
	if (!runs && r->status.len > r->layout.total)
		r->status.error = -EMSGSIZE;
	if (r->staged > PART_BYTES_MAX || (runs && r->staged > UINT32_MAX)) {
		r->status.error = -EPROTO;
		r->staged = 0;
	}
	if (runs || !(layout_is_plain(&r->layout) || (r->layout.part != NULL && r->layout.part->kind == PMX_PART_TWIN))) {
		r->staging = malloc(r->staged ? r->staged : 1);
		if (r->staging == NULL) {
			r->status.error = -ENOMEM;
			r->staged = 0;
		}
	}
	if (x->starting.head != NO_REQUEST || !fetch(ctx, i))
		append(x, &x->starting, i);
}

void
match_transfer_ended(struct pmx_context *ctx, uint32_t request, uint8_t error)
{
	struct match *x = ctx->match;
	struct request *r = &x->requests[request];

	if (r->state == REQUEST_OFFERED) {
		x->offers--;
		request_end(x, r, -(int)error);
		return;
	}
	int result = r->status.error != 0 ? r->status.error : -(int)error;

	if (error == 0 && r->staging != NULL) {
		int placed = place(r, r->staging, r->staged);

		result = result != 0 ? result : placed;
	}
	received(x, r, result);
}

/* ------------------------------------------------------------------ what landed */

static inline struct pmx_addr
addr_of(uint32_t source)
{
	return (struct pmx_addr){(uint16_t)(source >> 16), (uint16_t)source};
}

/* The request gets the message. */
static void
receive(struct pmx_context *ctx, struct request *r, const struct match_message *m)
{
	struct match *x = ctx->match;
	const struct lhs_entry *e = m->entry;
	const struct wire_match *h = (const struct wire_match *)e->front;

	x->stat.matched++;
	r->flags = h->flags;
	r->status.source = addr_of(m->key.source);
	r->status.tag = m->key.tag;
	if (unlikely(h->op == WIRE_OFFER)) {
		take_offer(ctx, r, e);
		match_queue_done(&x->queue, m);
		return;
	}
	uint32_t len = e->len - (uint32_t)sizeof(*h);

	r->status.len = len;
	if (unlikely(e->len > x->queue.heads.ring.split)) {
		eager_bulk(ctx, r, e);
	} else if (likely(layout_is_plain(&r->layout) && len <= r->layout.len && r->flags == 0)) {
		lhs_copy(r->layout.data, e->front + sizeof(*h), len);
		request_end(x, r, 0);
	} else {
		received(x, r, place(r, e->front + sizeof(*h), len));
	}
	match_queue_done(&x->queue, m);
}

/* Bulk buffers run short: the oldest messages that wait are copied off theirs. */
static APART void
copy_bulk(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	struct match_queue *q = &x->queue;
	struct match_unexpected *u = &q->unexpected;

	if (x->renumbered != u->renumbered)
		x->cursor = 0;
	x->renumbered = u->renumbered;
	for (; q->bulks > x->buffers / 4; x->cursor++) {
		uint32_t at = match_unexpected_next(u, x->cursor);

		if (at == MATCH_NONE)
			return;
		x->cursor = at;
		const struct lhs_entry *e = match_head_at(&q->heads, u->places[at].where);

		if (e->bulk == LHS_NO_BULK)
			continue;
		uint8_t *bytes = x->heap + e->len <= x->heap_max ? malloc(e->len) : NULL;
		uint32_t kept = bytes != NULL ? match_head_keep(&q->heads, u->places[at].where) : MATCH_NONE;
		struct pmx_message msg;

		if (kept == MATCH_NONE) {
			free(bytes);
			return;
		}
		u->places[at].where = kept;
		struct lhs_entry *mine = match_head_kept(&q->heads, kept);

		message_of(ctx, mine, &msg);
		pmx_message_read(ctx, &msg, 0, bytes, msg.len);
		pmx_release_receive_buffer(ctx, &msg);
		q->bulks -= match_bulks(q, mine);
		mine->bulk = LHS_NO_BULK;
		mine->bulk_off = (int64_t)(uintptr_t)bytes;
		x->heap += msg.len;
		x->stat.bulk_copied++;
	}
}

static void
publish(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (x->queue.heads.given - x->published < x->publish)
		return;
	x->published = x->queue.heads.given;
	/* release: our reads of the entries before the engine writes them again */
	atomic_store_explicit(&ctx->shm->matched_pos, x->published, memory_order_release);
	context_doorbell(ctx);
}

/* Sends that were Acked. */
static APART void
look_at_sent(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	struct list all = x->sent;

	x->sent.head = NO_REQUEST;
	for (uint32_t i = all.head, next; i != NO_REQUEST; i = next) {
		struct request *r = &x->requests[i];
		int result = pmx_is_send_done(ctx, r->sent);

		next = r->next;
		if (result == 0)
			append(x, &x->sent, i);
		else
			request_end(x, r, result < 0 ? result : 0);
	}
}

/* All that landed is matched, or waits. 0, -EPIPE. */
static int
progress(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	struct match_message m;
	uint64_t handle;
	uint32_t before = x->queue.heads.ring.pos;

	while (match_queue_next(&x->queue, &m, &handle)) {
		if (likely(handle != MATCH_MALFORMED)) {
			receive(ctx, &x->requests[handle], &m);
			continue;
		}
		struct pmx_message msg;

		if (m.entry->bulk != LHS_NO_BULK) {
			message_of(ctx, m.entry, &msg);
			pmx_release_receive_buffer(ctx, &msg);
		}
		match_queue_done(&x->queue, &m);
	}
	if (unlikely(match_heads_held(&x->queue.heads) > x->entries / 2))
		match_heads_spare(&x->queue.heads, &x->queue.unexpected, x->entries / 4);
	if (unlikely(x->queue.bulks > x->buffers / 2))
		copy_bulk(ctx);
	publish(ctx);
	if (unlikely(x->sent.head != NO_REQUEST))
		look_at_sent(ctx);
	if (unlikely(x->starting.head != NO_REQUEST))
		start(ctx);
	return before == x->queue.heads.ring.pos ? context_idle(ctx) : 0;
}

/* ------------------------------------------------------------------ send */

static inline void
put_head(void *to, const struct pmx_matched *m, uint8_t op, uint8_t flags)
{
	const struct wire_match h = {op, flags, 0, wire_be32(m->comm), wire_be64(m->tag)};

	memcpy(to, &h, sizeof(h));
}

/* A message in send buffers: head, then what the cursor gathers, or `bytes`. */
static int
send_eager(struct pmx_context *ctx, const struct pmx_matched *m, uint8_t flags, struct cursor *c, const uint8_t *bytes,
	uint64_t len, pmx_send_id *id)
{
	struct pmx_buffer buf;
	int result = pmx_get_send_buffer(ctx, (uint32_t)(sizeof(struct wire_match) + len), &buf);
	uint32_t skip = sizeof(struct wire_match);

	if (result != 0)
		return result;
	put_head(buf.data, m, WIRE_EAGER, flags);
	for (uint32_t i = 0, n; i < buf.segments; i++, skip = 0) {
		uint8_t *to = pmx_buffer_segment(ctx, &buf, i, &n);

		if (c != NULL) {
			cursor_gather(c, to + skip, n - skip);
		} else if (n > skip) {
			memcpy(to + skip, bytes, n - skip);
			bytes += n - skip;
		}
	}
	result = context_send_matched(ctx, m->peer, &buf, id);
	if (result != 0)
		pmx_discard_buffer(ctx, &buf);
	return result;
}

/* len bytes at `bytes` wait for being fetched. */
static int
send_offer(struct pmx_context *ctx, const struct pmx_matched *m, uint8_t flags, void *bytes, uint64_t len, uint32_t request)
{
	const struct pmx_transfer t = {.peer = m->peer, .local = bytes, .len = len};
	struct match *x = ctx->match;
	struct pmx_buffer buf;
	uint32_t id;

	int result = pmx_get_send_buffer(ctx, sizeof(struct wire_match) + sizeof(struct wire_offer), &buf);

	if (result != 0)
		return result;
	if (x->offers == x->offers_max || !slot_room(&ctx->sub, 2))
		context_completions(ctx);
	result = x->offers == x->offers_max || !slot_room(&ctx->sub, 2) ? -EAGAIN :
		/* before its head, so that nobody asks for what the engine does not know */
		transfers_request(ctx, TRANSFER_OFFER, &t, request, &id);
	if (result != 0) {
		pmx_discard_buffer(ctx, &buf);
		return result == -EAGAIN && context_gone(ctx) ? -EPIPE : result;
	}
	const struct wire_offer offer = {wire_be64(len), wire_be32(id), 0};

	put_head(buf.data, m, WIRE_OFFER, flags);
	memcpy((uint8_t *)buf.data + sizeof(struct wire_match), &offer, sizeof(offer));
	x->offers++;
	x->requests[request].state = REQUEST_OFFERED;
	/* there was room; others of this library may have taken it meanwhile */
	while ((result = context_send_matched(ctx, m->peer, &buf, NULL)) == -EAGAIN && !context_gone(ctx))
		context_wait(ctx);
	return result == -EAGAIN ? -EPIPE : result;
}

static int
sent(struct match *x, uint32_t request, pmx_send_id id)
{
	x->requests[request].state = REQUEST_SENT;
	x->requests[request].sent = id;
	append(x, &x->sent, request);
	return 0;
}

/* Any message, with a request. */
static int
send_any(struct pmx_context *ctx, const struct pmx_matched *m, const struct layout *l, uint32_t request)
{
	struct match *x = ctx->match;
	struct request *r = &x->requests[request];
	bool diff = l->part != NULL && l->part->kind == PMX_PART_DIFF;
	uint8_t *bytes = l->data, *staging = NULL, flags = diff ? WIRE_M_RUNS : 0;
	uint64_t len = l->total;
	struct cursor c;
	pmx_send_id id;
	int result;

	if (diff) {
		int64_t n = layout_diff(l, &staging);

		if (n < 0)
			return (int)n;
		bytes = staging;
		len = (uint64_t)n;
	}
	cursor_begin(&c, l);
	if (len <= x->eager_max && !(m->flags & PMX_SYNC)) {
		result = send_eager(ctx, m, flags, diff ? NULL : &c, bytes, len, &id);
		if (result == 0)
			result = m->flags & PMX_DELIVERED ? sent(x, request, id) : (request_end(x, r, 0), 0);
	} else {
		if (!layout_is_plain(l) && !diff) {
			bytes = staging = malloc(len ? len : 1);
			if (staging == NULL)
				return -ENOMEM;
			cursor_gather(&c, staging, len);
		}
		result = send_offer(ctx, m, flags, bytes, len, request);
	}
	if (result == 0 && diff)
		layout_sent(l, staging, len);
	if (result == 0 && r->state == REQUEST_OFFERED)
		r->staging = staging;
	else
		free(staging);
	return result;
}

static APART int
send_checked(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct layout l;
	int result = layout_make(&l, m, true);

	if (result == 0 && (m->flags & ~(PMX_SYNC | PMX_DELIVERED) || m->peer.context >= WIRE_CONTEXTS_MAX))
		result = -EINVAL;
	if (result == 0 && ctx->match == NULL)
		result = match_open(ctx);
	if (result != 0)
		return result;
	struct match *x = ctx->match;
	uint32_t i = request_take(x, request == NULL);

	if (i == NO_REQUEST)
		return context_gone(ctx) ? -EPIPE : -EAGAIN;
	if (request != NULL)
		*request = request_id(x, i);
	result = send_any(ctx, m, &l, i);
	if (result != 0) {
		request_free(x, i);
		return result;
	}
	if (request != NULL && x->requests[i].state == REQUEST_ENDED) {
		request_free(x, i);
		*request = 0;
	}
	return 0;
}

int
pmx_isend(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	/* the common message: in one piece and one buffer, and done with when it was copied */
	if (unlikely(ctx->match == NULL || m->iov != NULL || m->part != NULL || m->flags != 0 || m->len > ctx->match->one_max ||
		    m->peer.context >= WIRE_CONTEXTS_MAX || (m->data == NULL && m->len > 0)))
		return send_checked(ctx, m, request);
	struct pmx_buffer buf;
	int result = pmx_get_send_buffer(ctx, (uint32_t)(sizeof(struct wire_match) + m->len), &buf);

	if (unlikely(result != 0))
		return result;
	put_head(buf.data, m, WIRE_EAGER, 0);
	if (likely(m->len != 0))
		memcpy((uint8_t *)buf.data + sizeof(struct wire_match), m->data, m->len);
	result = context_send_matched(ctx, m->peer, &buf, NULL);
	if (unlikely(result != 0)) {
		pmx_discard_buffer(ctx, &buf);
		return result;
	}
	if (request != NULL)
		*request = 0;
	return 0;
}

/* ------------------------------------------------------------------ receive */

static inline struct match_want
want_of(const struct pmx_matched *m)
{
	bool any = m->peer.node == 0xFFFF && m->peer.context == 0xFFFF;

	return (struct match_want){m->comm, any ? MATCH_ANY_SOURCE : (uint32_t)m->peer.node << 16 | m->peer.context, m->tag,
		m->ignore};
}

int
pmx_irecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct layout l;
	int result = layout_make(&l, m, false);

	if (unlikely(result == 0 && m->flags != 0))
		result = -EINVAL;
	if (unlikely(result == 0 && ctx->match == NULL))
		result = match_open(ctx);
	if (unlikely(result != 0 || (result = progress(ctx)) != 0))
		return result;
	struct match *x = ctx->match;
	uint32_t i = request_take(x, request == NULL);

	if (unlikely(i == NO_REQUEST))
		return -EAGAIN;
	const struct match_want want = want_of(m);
	struct request *r = &x->requests[i];
	struct match_message message;
	uint32_t found = match_queue_find(&x->queue, &want, &message);

	r->layout = l;
	if (request != NULL)
		*request = request_id(x, i);
	if (found != MATCH_NONE) {
		match_unexpected_take(&x->queue.unexpected, found);
		x->stat.unexpected++;
		receive(ctx, r, &message);
		publish(ctx);
		return 0;
	}
	r->state = REQUEST_POSTED;
	r->was_posted = true;
	r->posted = match_posted_add(&x->queue.posted, &want, i); /* as many places as requests */
	return 0;
}

/* What a status tells of a message that waits. */
static void
describe(const struct match_message *m, struct pmx_status *status)
{
	const struct wire_match *h = (const struct wire_match *)m->entry->front;
	struct wire_offer offer;

	*status = (struct pmx_status){
		.source = addr_of(m->key.source), .tag = m->key.tag, .len = m->entry->len - (uint32_t)sizeof(*h)};
	if (h->op == WIRE_OFFER) {
		memcpy(&offer, h + 1, sizeof(offer));
		status->len = wire_be64(offer.len);
	}
}

/* The place of a message that such a receive would take, MATCH_NONE; or a negative errno. */
static int64_t
probe(struct pmx_context *ctx, const struct pmx_matched *m, struct match_message *message)
{
	const struct match_want want = want_of(m);
	int result = ctx->match == NULL ? match_open(ctx) : 0;

	if (result == 0)
		result = progress(ctx);
	uint32_t found = ctx->match != NULL ? match_queue_find(&ctx->match->queue, &want, message) : MATCH_NONE;

	return found == MATCH_NONE && result != 0 ? (int64_t)result : (int64_t)found;
}

int
pmx_iprobe(struct pmx_context *ctx, const struct pmx_matched *m, struct pmx_status *status)
{
	struct match_message message;
	int64_t found = probe(ctx, m, &message);

	if (found < 0 || found == MATCH_NONE)
		return found < 0 ? (int)found : 0;
	if (status != NULL)
		describe(&message, status);
	return 1;
}

int
pmx_improbe(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message, struct pmx_status *status)
{
	struct match_message found;
	int64_t place = probe(ctx, m, &found);

	if (place < 0 || place == MATCH_NONE)
		return place < 0 ? (int)place : 0;
	struct match *x = ctx->match;
	uint32_t kept = match_head_keep(&x->queue.heads, found.where); /* it may stay long */

	if (kept == MATCH_NONE)
		return -ENOBUFS;
	x->queue.unexpected.places[place].where = kept;
	uint32_t i = request_take(x, false);

	if (i == NO_REQUEST)
		return -EAGAIN;
	struct request *r = &x->requests[i];

	match_unexpected_take(&x->queue.unexpected, (uint32_t)place);
	r->state = REQUEST_TAKEN;
	r->taken = (struct match_message){match_head_at(&x->queue.heads, kept), kept, found.key};
	*message = request_id(x, i);
	if (status != NULL)
		describe(&r->taken, status);
	return 1;
}

int
pmx_imrecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message)
{
	struct request *r = request_of(ctx->match, *message);
	struct layout l;
	int result = layout_make(&l, m, false);

	if (r == NULL || r->state != REQUEST_TAKEN || result != 0)
		return result != 0 ? result : -EINVAL;
	const struct match_message taken = r->taken;

	r->layout = l;
	ctx->match->stat.unexpected++;
	receive(ctx, r, &taken);
	return 0;
}

int
pmx_cancel(struct pmx_context *ctx, pmx_request request)
{
	struct request *r = request_of(ctx->match, request);

	if (r == NULL)
		return request == 0 ? -EALREADY : -EINVAL;
	if (r->state != REQUEST_POSTED || !match_posted_cancel(&ctx->match->queue.posted, r->posted))
		return -EALREADY;
	request_end(ctx->match, r, -ECANCELED);
	return 0;
}

/* ------------------------------------------------------------------ did it end? */

/* Of a request that has: its result, and it means nothing any more. */
static int
finish(struct match *x, struct request *r, pmx_request *request, struct pmx_status *status)
{
	int error = r->status.error;

	if (status != NULL)
		*status = r->status;
	*request = 0;
	request_free(x, (uint32_t)(r - x->requests));
	return error != 0 ? error : 1;
}

static inline bool
has_ended(struct match *x, pmx_request id)
{
	const struct request *r = request_of(x, id);

	return r == NULL || r->state == REQUEST_ENDED;
}

int
pmx_test(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status)
{
	struct request *r = request_of(ctx->match, *request);

	if (*request == 0)
		return 1;
	if (unlikely(r == NULL || r->state == REQUEST_TAKEN))
		return -EINVAL;
	if (r->state != REQUEST_ENDED) {
		int result = progress(ctx);

		if (r->state != REQUEST_ENDED)
			return result;
	}
	return finish(ctx->match, r, request, status);
}

int
pmx_test_any(struct pmx_context *ctx, pmx_request *requests, unsigned n, unsigned *index, struct pmx_status *status)
{
	int result = -ENOENT;

	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < n; i++) {
			if (requests[i] == 0)
				continue;
			struct request *r = request_of(ctx->match, requests[i]);

			if (r == NULL || r->state == REQUEST_TAKEN || r->state == REQUEST_ENDED) {
				*index = i;
				return pmx_test(ctx, &requests[i], status);
			}
			result = 0;
		}
		if (result != 0 || turn > 0)
			return result;
		result = progress(ctx);
		if (result != 0)
			return result;
	}
	return result;
}

int
pmx_test_all(struct pmx_context *ctx, pmx_request *requests, unsigned n, struct pmx_status *statuses)
{
	bool looked = false;
	int first = 1;

	for (unsigned i = 0; i < n; i++) {
		if (requests[i] == 0 || has_ended(ctx->match, requests[i]))
			continue;
		int result = looked ? 0 : progress(ctx);

		looked = true;
		if (!has_ended(ctx->match, requests[i]))
			return result;
	}
	for (unsigned i = 0; i < n; i++) {
		int result = pmx_test(ctx, &requests[i], statuses != NULL ? &statuses[i] : NULL);

		first = first < 0 ? first : result;
	}
	return first;
}

/* Another turn of waiting that began at `began`, for at most timeout_us. false: time is over. */
static bool
wait_on(struct pmx_context *ctx, int64_t began, int64_t timeout_us)
{
	int64_t passed = context_now_us() - began;

	if (timeout_us >= 0 && passed >= timeout_us)
		return false;
	if (passed < SPIN_US)
		context_wait(ctx);
	else
		context_sleep(ctx, timeout_us < 0 ? -1 : timeout_us - passed);
	return true;
}

int
pmx_wait(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status, int64_t timeout_us)
{
	int64_t began = -1;
	int result;

	while ((result = pmx_test(ctx, request, status)) == 0) {
		if (began < 0)
			began = context_now_us();
		if (!wait_on(ctx, began, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}

int
pmx_wait_any(struct pmx_context *ctx, pmx_request *requests, unsigned n, unsigned *index, struct pmx_status *status,
	int64_t timeout_us)
{
	int64_t began = -1;
	int result;

	while ((result = pmx_test_any(ctx, requests, n, index, status)) == 0) {
		if (began < 0)
			began = context_now_us();
		if (!wait_on(ctx, began, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}

int
pmx_wait_all(struct pmx_context *ctx, pmx_request *requests, unsigned n, struct pmx_status *statuses, int64_t timeout_us)
{
	int64_t began = -1;
	int result;

	while ((result = pmx_test_all(ctx, requests, n, statuses)) == 0) {
		if (began < 0)
			began = context_now_us();
		if (!wait_on(ctx, began, timeout_us))
			return -ETIMEDOUT;
	}
	return result;
}

void
pmx_match_stat(const struct pmx_context *ctx, struct pmx_match_stat *stat)
{
	const struct match *x = ctx->match;

	*stat = (struct pmx_match_stat){0};
	if (x == NULL)
		return;
	*stat = x->stat;
	stat->evacuated = x->queue.heads.evacuated;
	stat->malformed = x->queue.malformed;
	stat->waiting = x->queue.unexpected.live;
	stat->posted = x->queue.posted.count;
	stat->bytes = match_queue_bytes(&x->queue) + x->heap;
}
