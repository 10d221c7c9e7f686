/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching by the application's thread: every call that could receive takes in what landed in the
 * context's LHS ring (LHS-6 to LHS-9; IPSJ 2007). lib/match does the matching.
 *
 * Design notes
 * 1. Unexpected messages keep their entries and bulk buffers as long as there are enough. Then the
 *    oldest heads move to a store (lib/match/heads.c), and bulk to the heap, up to a limit. Beyond
 *    it senders wait.
 */
#include <errno.h>

#include "client/pairs.h"
#include "match/client/match.h"

#define ASIDE_BURST   64 /* messages of a pair in one look */
/* Looks without a receive that is posted after which messages of a pair leave its ring: this side
 * may want to send first, as the other does. */
#define UNPOSTED_MOST 32
/* With WIRE_M_*, of an offer that came by a pair, whose serial is in its field `zero`. */
#define ASIDE_OFFER   0x80

/* Return the copy of a message whose bulk was moved to the heap, or NULL: see copy_bulk(). */
static inline uint8_t *
heap_of(const struct match *x, const struct lhs_entry *e)
{
	return e->bulk == LHS_NO_BULK && e->len > x->queue.heads.ring.split
		? (uint8_t *)(uintptr_t)e->bulk_off
		: NULL;
}

int
ring_open(struct pmx_context *ctx)
{
	const struct channel_shm *shm = ctx->shm;
	struct match *x = ctx->match;

	x->buffers = shm->matched_buffers;
	x->publish = shm->matched_room / 8 ? shm->matched_room / 8 : 1;
	x->heap_max = shm->unexpected_bytes;
	return match_queue_init(&x->queue, &shm->matched, channel_matched(ctx->shm), ctx->shm,
		shm->unexpected, shm->receives, ctx->node->way->simd_bits());
}

void
ring_close(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	const struct match_unexpected *u = &x->queue.unexpected;

	for (uint32_t at = match_unexpected_next(u, 0); at != MATCH_NONE;
		at = match_unexpected_next(u, at + 1))
		free(heap_of(x, match_head_at(&x->queue.heads, u->places[at].where)));
	for (uint32_t i = 0; i < x->used; i++) {
		if (x->requests[i].state == REQUEST_TAKEN)
			free(heap_of(x, x->requests[i].taken.entry));
	}
	match_queue_free(&x->queue);
}

/* ------------------------------------------------------------------ bytes of eager messages */

/* Copy a message to its place, as receive_place(), but from bulk buffers, whose first `head` bytes
 * are skipped. */
static int
place_bulk(struct pmx_context *ctx, struct match_request *r, const struct pmx_message *msg,
	uint32_t head)
{
	struct pmx_segment seg = {0};
	struct cursor c;
	uint64_t done = 0;
	uint32_t skip = head;

	cursor_begin(&c, &r->layout);
	while (pmx_message_segment(ctx, msg, &seg)) {
		uint32_t cut = seg.len < skip ? seg.len : skip;
		uint64_t n = seg.len - cut,
			 k = cursor_scatter(&c, (const uint8_t *)seg.data + cut, n);

		done += k;
		skip -= cut;
		if (k < n)
			return -EMSGSIZE;
	}
	return done + head == msg->len ? 0 : -EMSGSIZE;
}

/* Fill in a message in bulk buffers as pmx_receive() would. */
static void
message_of(const struct pmx_context *ctx, const struct lhs_entry *e, struct pmx_message *msg)
{
	msg->data = (const uint8_t *)ctx->shm + e->bulk_off;
	msg->len = msg->seg_len = e->len;
	msg->bulk = e->bulk ^ ctx->life;
	if (e->bulk & LHS_CHAINED) {
		struct bulk_link link;

		memcpy(&link, (const uint8_t *)msg->data - sizeof(link), sizeof(link));
		msg->seg_len = link.len;
	}
}

static void
eager_bulk(struct pmx_context *ctx, struct match_request *r, const struct match_message *m)
{
	const struct lhs_entry *e = m->entry;
	const uint32_t head = wire_match_head(r->flags), len = e->len - head;
	struct match *x = ctx->match;
	uint8_t *heap = heap_of(x, e);
	struct pmx_message msg;
	int error;

	if (heap != NULL) {
		error = receive_place(r, heap + head, len);
		x->heap -= e->len;
		free(heap);
		match_queue_done(&x->queue, m);
		receive_complete(ctx, r, error);
		return;
	}
	message_of(ctx, e, &msg);
	if (!(r->flags & WIRE_M_RUNS)) {
		error = place_bulk(ctx, r, &msg, head);
	} else if (msg.seg_len == msg.len) {
		error = receive_place(r, (const uint8_t *)msg.data + head, len);
	} else {
		uint8_t *flat = malloc(e->len);

		error = flat != NULL ? pmx_message_read(ctx, &msg, 0, flat, e->len) : -ENOMEM;
		if (error == 0)
			error = receive_place(r, flat + head, len);
		free(flat);
	}
	match_queue_done(&x->queue, m);
	pmx_release_receive_buffer(ctx, &msg);
	receive_complete(ctx, r, error);
}

/* ------------------------------------------------------------------ offers */

/* Begin to fetch what was offered. false: not now. */
static bool
fetch(struct pmx_context *ctx, uint32_t i)
{
	struct match *x = ctx->match;
	struct match_request *r = &x->requests[i];
	struct pmx_transfer t = {
		.peer = r->status.source,
		.key = r->offer,
		.local = r->staging,
		.len = r->staged,
	};
	uint32_t id;

	if (r->staging == NULL)
		t.local = r->layout.data;
	int result = transfers_request(ctx, r->was_posted ? TRANSFER_ACCEPT : TRANSFER_PULL, &t, i,
		&id);

	if (result == -EAGAIN || result == -EPIPE)
		return false;
	if (result != 0) {
		/* fetch 0 bytes, so that the sender does not wait for ever */
		r->status.error = result;
		t.len = 0;
		if (transfers_request(ctx, TRANSFER_PULL, &t, i, &id) != 0)
			return false;
	}
	return true;
}

static void
ring_start(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	while (x->starting.head != NO_REQUEST && fetch(ctx, x->starting.head))
		x->starting.head = x->requests[x->starting.head].next;
}

/* Take the offer that a receive has matched. front: the message. */
static void
take_offer(struct pmx_context *ctx, struct match_request *r, const uint8_t *front)
{
	struct match *x = ctx->match;
	uint32_t i = (uint32_t)(r - x->requests);
	struct wire_offer offer;

	memcpy(&offer, front + wire_match_head(r->flags), sizeof(offer));
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
	if (runs || !is_direct(&r->layout)) {
		r->staging = malloc(r->staged ? r->staged : 1);
		if (r->staging == NULL) {
			r->status.error = -ENOMEM;
			r->staged = 0;
		}
	}
	if (unlikely(r->flags & ASIDE_OFFER)) {
		int error = pairs_fetch(ctx, offer.zero, r->offer,
			r->staging != NULL ? r->staging : r->layout.data, r->staged);

		ring_fetched(ctx, r, (uint8_t)error);
		return;
	}
	if (x->starting.head != NO_REQUEST || !fetch(ctx, i))
		list_append(x, &x->starting, i);
}

void
ring_fetched(struct pmx_context *ctx, struct match_request *r, uint8_t error)
{
	int result = r->status.error != 0 ? r->status.error : -(int)error;

	if (error == 0 && r->staging != NULL) {
		int placed = receive_place(r, r->staging, r->staged);

		result = result != 0 ? result : placed;
	}
	receive_complete(ctx, r, result);
}

/* ------------------------------------------------------------------ what landed */

/* End a receive with the bytes of an eager message, which are in one piece. */
static inline void
receive_bytes(struct pmx_context *ctx, struct match_request *r, const uint8_t *bytes, uint32_t len)
{
	if (unlikely(!layout_is_plain(&r->layout) || len > r->layout.len ||
		    r->flags & WIRE_M_RUNS)) {
		receive_complete(ctx, r, receive_place(r, bytes, len));
		return;
	}
	if (likely(len <= LHS_ENTRY_MAX))
		lhs_copy(r->layout.data, bytes, len);
	else
		memcpy(r->layout.data, bytes, len);
	request_end(ctx, r, 0);
}

/* Give the message to the request. */
static void
match_ring_receive(struct pmx_context *ctx, struct match_request *r, const struct match_message *m)
{
	struct match *x = ctx->match;
	const struct lhs_entry *e = m->entry;
	const struct wire_match *h = (const struct wire_match *)e->front;

	x->stat.matched++;
	r->flags = h->flags;
	status_describe(&r->status, &m->key, e->front);
	if (unlikely(h->op == WIRE_OFFER)) {
		take_offer(ctx, r, e->front);
		match_queue_done(&x->queue, m);
		return;
	}
	uint32_t head = wire_match_head(h->flags), len = e->len - head;

	r->status.len = len;
	if (unlikely(e->len > x->queue.heads.ring.split)) {
		eager_bulk(ctx, r, m);
		return;
	}
	receive_bytes(ctx, r, e->front + head, len);
	match_queue_done(&x->queue, m);
}

/* Move a waiting message out of its entry and its buffers: the head to the store, bulk to the heap.
 * Update *where. false: no memory, or the store is full. */
static bool
move_off(struct pmx_context *ctx, uint32_t *where)
{
	struct match *x = ctx->match;
	struct match_queue *q = &x->queue;
	const struct lhs_entry *e = match_head_at(&q->heads, *where);
	bool has_bulk = e->bulk != LHS_NO_BULK;
	uint8_t *bytes = has_bulk ? malloc(e->len) : NULL;
	uint32_t kept = !has_bulk || bytes != NULL ? match_head_keep(&q->heads, *where)
						   : MATCH_NONE;
	struct pmx_message msg;

	if (kept == MATCH_NONE) {
		free(bytes);
		return false;
	}
	*where = kept;
	if (!has_bulk)
		return true;
	struct lhs_entry *mine = match_head_kept(&q->heads, kept);

	message_of(ctx, mine, &msg);
	pmx_message_read(ctx, &msg, 0, bytes, msg.len);
	q->bulks -= match_bulks(q, mine);
	pmx_release_receive_buffer(ctx, &msg);
	mine->bulk = LHS_NO_BULK;
	mine->bulk_off = (int64_t)(uintptr_t)bytes;
	x->heap += msg.len;
	x->stat.bulk_copied++;
	return true;
}

/* Copy the oldest waiting messages out of their bulk buffers, as these run short. */
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

		if (e->bulk != LHS_NO_BULK &&
			(x->heap + e->len > x->heap_max || !move_off(ctx, &u->places[at].where)))
			return;
	}
}

/* ------------------------------------------------------------------ messages of pairs */

/* A message in a ring that both sides map, whose head is here, where the sender cannot change
 * it. */
struct aside {
	struct match_key key;
	const uint8_t *bytes; /* behind the head */
	uint32_t len, head_len;
	uint32_t slot; /* of a long one, otherwise PAIR_LONGS */
	/* as it waits: front is filled in */
	_Alignas(struct lhs_entry) uint8_t entry[LHS_ENTRY_MAX];
};

#define ASIDE_FRONT (LHS_ENTRY_MAX - LHS_ENVELOPE_BYTES)

/* Give the message of a pair to the request. */
static void
receive_aside(struct pmx_context *ctx, struct match_request *r, const struct aside *a)
{
	const uint8_t *front = a->entry + LHS_ENVELOPE_BYTES, *bytes = a->bytes;
	const struct wire_match *h = (const struct wire_match *)front;
	uint32_t len = a->len - a->head_len;

	ctx->match->stat.matched++;
	r->flags = h->flags;
	status_describe(&r->status, &a->key, front);
	if (unlikely(h->op == WIRE_OFFER)) {
		take_offer(ctx, r, front);
		return;
	}
	r->status.len = len;
	if (likely(!(r->flags & WIRE_M_RUNS))) {
		receive_bytes(ctx, r, bytes, len);
		return;
	}
	/* what the runs say must not change while they are followed */
	uint8_t *flat = malloc(len ? len : 1);
	int error = -ENOMEM;

	if (flat != NULL) {
		memcpy(flat, bytes, len);
		error = receive_place(r, flat, len);
		free(flat);
	}
	receive_complete(ctx, r, error);
}

/* Let the message of a pair wait, as one whose head was moved to the store and its bytes to the
 * heap. false: it must stay where it is. */
static bool
keep_aside(struct pmx_context *ctx, struct aside *a)
{
	struct match *x = ctx->match;
	const uint32_t split = x->queue.heads.ring.split;
	struct lhs_entry *e = (struct lhs_entry *)(void *)a->entry;
	uint8_t *bytes = NULL;

	if (a->len > split && e->front[0] != WIRE_OFFER) {
		bytes = x->heap + a->len <= x->heap_max ? malloc(a->len) : NULL;
		if (bytes == NULL)
			return false;
		memcpy(bytes, e->front, a->head_len);
		memcpy(bytes + a->head_len, a->bytes, a->len - a->head_len);
	}
	e->len = a->len;
	e->src_node = (uint16_t)(a->key.source >> 16);
	e->src_ctx = (uint16_t)a->key.source;
	e->bulk = LHS_NO_BULK;
	e->bulk_off = (int64_t)(uintptr_t)bytes;
	if (!match_queue_add(&x->queue, &a->key, e)) {
		free(bytes);
		return false;
	}
	x->heap += bytes != NULL ? a->len : 0;
	return true;
}

/* Read the description of a long message at `at`, behind which its head is. */
static enum pair_found
read_long(const struct pair *p, struct aside *a, const uint8_t *at)
{
	uint8_t *front = a->entry + LHS_ENVELOPE_BYTES;
	struct pair_long l;
	struct wire_match h;

	memcpy(&l, at, sizeof(l));
	memcpy(front, at + sizeof(l), WIRE_MATCH_HEAD_MAX);
	memcpy(&h, front, sizeof(h));
	a->head_len = wire_match_head(h.flags);
	a->len = a->head_len + l.len;
	a->slot = l.slot;
	if (!pair_long_ok(&l) || h.op != WIRE_EAGER || wire_match_check(front, a->len) != WIRE_OK)
		return PAIR_BROKEN;
	a->bytes = p->shm->longs[!p->side] + l.start;
	const uint32_t more = ASIDE_FRONT - a->head_len;

	memcpy(front + a->head_len, a->bytes, l.len < more ? l.len : more);
	return PAIR_FOUND;
}

/* Read and check a message in the ring. */
static enum pair_found
read_short(const struct pair *p, struct aside *a, const uint8_t *message)
{
	uint8_t *front = a->entry + LHS_ENVELOPE_BYTES;
	struct wire_match h;

	memcpy(front, message, a->len < ASIDE_FRONT ? a->len : ASIDE_FRONT);
	if (wire_match_check(front, a->len) != WIRE_OK)
		return PAIR_BROKEN;
	memcpy(&h, front, sizeof(h));
	if (h.op == WIRE_OFFER) {
		struct wire_offer offer;
		uint8_t *at = front + wire_match_head(h.flags);

		memcpy(&offer, at, sizeof(offer));
		offer.zero = p->serial;
		memcpy(at, &offer, sizeof(offer));
		front[offsetof(struct wire_match, flags)] |= ASIDE_OFFER;
	}
	a->head_len = wire_match_head(h.flags);
	a->bytes = message + a->head_len;
	a->slot = PAIR_LONGS;
	return PAIR_FOUND;
}

/* Read and check the next message of a pair. */
static enum pair_found
read_aside(const struct pmx_context *ctx, struct pair *p, struct aside *a, uint64_t *word)
{
	const uint8_t *message;
	enum pair_found found = pair_peek(&p->flow[PAIR_MATCHED].in, word, &message, &a->len);
	struct wire_match h;

	if (found == PAIR_FOUND)
		found = read_short(p, a, message);
	else if (found == PAIR_FOUND_LONG)
		found = read_long(p, a, message);
	if (found != PAIR_FOUND)
		return found;
	memcpy(&h, a->entry + LHS_ENVELOPE_BYTES, sizeof(h));
	a->key = (struct match_key){wire_be32(h.comm), (uint32_t)ctx->node->number << 16 | p->ctx,
		wire_be64(h.tag)};
	return PAIR_FOUND;
}

/* Match the messages that landed in a pair's ring. While no receive is posted they stay there,
 * where they cost no copy, unless `all` of them shall wait with the others. Return whether there
 * may be more now; otherwise the pair may be gone. */
static bool
progress_pair(struct pmx_context *ctx, struct pair *p, bool all)
{
	struct match *x = ctx->match;
	enum pair_found found;
	struct aside a;
	uint64_t word, handle;

	if (x->queue.posted.count != 0)
		p->unposted = 0;
	for (unsigned i = 0; i < ASIDE_BURST; i++) {
		if (x->queue.posted.count == 0 && !all && pair_has(ctx, p, PAIR_MATCHED) &&
			p->unposted++ < UNPOSTED_MOST)
			return false;
		found = read_aside(ctx, p, &a, &word);
		if (found != PAIR_FOUND)
			break;
		if (x->queue.posted.count != 0 &&
			match_posted_take(&x->queue.posted, &a.key, &handle))
			receive_aside(ctx, &x->requests[handle], &a);
		else if (!keep_aside(ctx, &a))
			return false;
		pair_take(&p->flow[PAIR_MATCHED].in, word);
		if (a.slot != PAIR_LONGS)
			pair_long_give(&p->shm->side[p->side], a.slot);
		x->stat.paired++;
	}
	if (likely(found == PAIR_FOUND || (found == PAIR_NOTHING && p->state != PAIR_ENDED)))
		return found == PAIR_FOUND;
	x->queue.malformed += found != PAIR_NOTHING;
	pair_is_read(ctx, p, found != PAIR_NOTHING);
	return false;
}

/* Count what came by pairs since `before` messages had. */
static void
count_paired(struct pmx_context *ctx, uint64_t before)
{
	const uint64_t came = ctx->match->stat.paired - before;

	if (came != 0) {
		ctx->shm->paired.received += came;
		ctx_not_idle();
	}
}

/* Match what came by pairs with that context, or let it wait with the others. Return whether there
 * is more, for which there is no room. */
static APART bool
read_before(struct pmx_context *ctx, uint16_t peer)
{
	const uint64_t before = ctx->match->stat.paired;

	for (struct pair *p = ctx->pairs->all, *next; p != NULL; p = next) {
		next = p->next;
		while (pair_precedes(p, peer, PAIR_MATCHED) &&
			pair_receives(ctx, p, PAIR_MATCHED, true) && progress_pair(ctx, p, true))
			;
	}
	count_paired(ctx, before);
	for (const struct pair *p = ctx->pairs->all; p != NULL; p = p->next) {
		if (pair_precedes(p, peer, PAIR_MATCHED))
			return true;
	}
	return false;
}

static APART void
progress_pairs(struct pmx_context *ctx, bool all)
{
	const struct match *x = ctx->match;
	const uint64_t before = x->stat.paired;

	pairs_look(ctx);
	for (struct pair *p = ctx->pairs->all, *next; p != NULL; p = next) {
		next = p->next;
		if (p->offered != 0)
			pair_fetched(ctx, p);
		if (pair_receives(ctx, p, PAIR_MATCHED, lhs_peek(&x->queue.heads.ring) != NULL))
			progress_pair(ctx, p, all);
	}
	count_paired(ctx, before);
}

/* Match what pairs brought before the next entry of the ring. Return whether there is still some,
 * which finds no room. */
static inline bool
pairs_precede(struct pmx_context *ctx)
{
	const struct lhs_entry *e = lhs_peek(&ctx->match->queue.heads.ring);

	return e != NULL && unlikely(e->src_node == ctx->near_node) && read_before(ctx, e->src_ctx);
}

/* Match all that landed, or let it wait. 0, or -EPIPE. */
int
ring_progress(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	struct match_message m;
	uint64_t handle;

	const struct lhs_entry *e = lhs_peek(&x->queue.heads.ring);
	uint32_t before = x->queue.heads.ring.pos;

	if (e == NULL) {
		if (ctx->pairs != NULL)
			progress_pairs(ctx, false);
		if (match_queue_spare(&x->queue))
			ring_publish(ctx);
		if (unlikely(x->starting.head != NO_REQUEST))
			ring_start(ctx);
		return ctx_idle(ctx);
	}
	x->queue.near = ctx->near_node;
	if (x->queue.posted.only != MATCH_NONE && ring_receive_only(ctx, e))
		return 0; /* there may be more, but whoever waits for it calls again */
	while (!pairs_precede(ctx) && match_queue_next(&x->queue, &m, &handle)) {
		if (likely(handle < MATCH_NEAR)) {
			match_ring_receive(ctx, &x->requests[handle], &m);
			continue;
		}
		if (handle == MATCH_NEAR)
			continue;
		if (handle == MATCH_ASIDE && m.entry->src_node == ctx->node->number)
			pairs_mark(ctx, m.entry->src_ctx, m.key.tag, PAIR_MATCHED);
		uint32_t bulk = m.entry->bulk;

		match_queue_done(&x->queue, &m);
		if (bulk != LHS_NO_BULK)
			ctx_release(ctx, bulk);
	}
	if (ctx->pairs != NULL)
		progress_pairs(ctx, false);
	match_queue_spare(&x->queue);
	if (unlikely(x->queue.bulks > x->buffers / 2))
		copy_bulk(ctx);
	ring_publish(ctx);
	if (unlikely(x->starting.head != NO_REQUEST))
		ring_start(ctx);
	/* without room for what landed only further calls of the application help, unless the
	 * engine is gone */
	return unlikely(x->queue.heads.ring.pos == before) && ctx_gone(ctx) ? -EPIPE : 0;
}

/* ------------------------------------------------------------------ receives and probes */

void
ring_receive(struct pmx_context *ctx, uint32_t i, const struct match_want *want)
{
	struct match *x = ctx->match;
	struct match_request *r = &x->requests[i];
	struct match_message message;
	uint32_t found = match_queue_find(&x->queue, want, &message);

	if (found != MATCH_NONE) {
		match_unexpected_take(&x->queue.unexpected, found);
		x->stat.unexpected++;
		match_ring_receive(ctx, r, &message);
		ring_publish(ctx);
		return;
	}
	r->state = REQUEST_POSTED;
	r->was_posted = true;
	/* cannot fail: there are as many places as requests */
	r->posted = match_posted_add(&x->queue.posted, want, i);
}

/* Describe a waiting message in a status. */
static void
ring_describe(const struct match_message *m, struct pmx_status *status)
{
	*status = (struct pmx_status){.len = match_message_len(m->entry)};
	status_describe(status, &m->key, m->entry->front);
}

int
ring_probe(struct pmx_context *ctx, const struct match_want *want, struct pmx_status *status,
	uint32_t take)
{
	struct match *x = ctx->match;
	struct match_message message;
	uint32_t found = match_queue_find(&x->queue, want, &message);

	if (found == MATCH_NONE && ctx->pairs != NULL) {
		progress_pairs(ctx, true);
		found = match_queue_find(&x->queue, want, &message);
	}
	if (found == MATCH_NONE)
		return 0;
	ring_describe(&message, status);
	if (take == NO_REQUEST)
		return 1;
	if (!match_queue_keep(&x->queue, &message))
		return -ENOBUFS;
	match_unexpected_take(&x->queue.unexpected, found);
	x->requests[take].taken = message;
	return 1;
}

void
ring_receive_taken(struct pmx_context *ctx, struct match_request *r)
{
	const struct match_message taken = r->taken;

	ctx->match->stat.unexpected++;
	match_ring_receive(ctx, r, &taken);
	ring_publish(ctx);
}

bool
ring_cancel(struct pmx_context *ctx, struct match_request *r)
{
	return match_posted_cancel(&ctx->match->queue.posted, r->posted);
}

/* ---------------------------------------------------------- the channel ends, and another comes */

int
ring_leave(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	struct match_unexpected *u = &x->queue.unexpected;
	uint32_t before;

	do {
		before = x->queue.heads.ring.pos;
		ring_progress(ctx);
	} while (x->queue.heads.ring.pos != before);
	if (lhs_peek(&x->queue.heads.ring) != NULL)
		return -ENOBUFS;
	for (uint32_t at = match_unexpected_next(u, 0); at != MATCH_NONE;
		at = match_unexpected_next(u, at + 1)) {
		if (!move_off(ctx, &u->places[at].where))
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < x->used; i++) {
		struct match_message *m = &x->requests[i].taken;

		if (x->requests[i].state != REQUEST_TAKEN)
			continue;
		if (!move_off(ctx, &m->where))
			return -ENOMEM;
		m->entry = match_head_at(&x->queue.heads, m->where);
	}
	return 0;
}

void
ring_rejoin(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	lhs_end_init(&x->queue.heads.ring, &ctx->shm->matched, channel_matched(ctx->shm));
	x->queue.heads.given = x->published = 0;
	x->queue.base = ctx->shm;
	x->buffers = ctx->shm->matched_buffers;
	x->publish = ctx->shm->matched_room / 8 ? ctx->shm->matched_room / 8 : 1;
}
