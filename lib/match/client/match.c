/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages, on the application's side (RHI-MSG; RHiNET, 1999, section 2.6): requests, eager
 * messages, offers and how they are fetched, probes. Runs in the context's thread. The matching
 * itself is in ring.c and engine.c.
 *
 * Design notes
 * 1. A short message is copied into send buffers, and out of the entry or the bulk buffers where it
 *    landed. A longer one is offered: only its head is sent, and the bytes stay where they are. The
 *    receive that takes it fetches it (a pull), or, if it was posted before, lets it be pushed
 *    (RHI-MSG): either way an engine moves the bytes between the two buffers.
 * 2. A request is a place in a table, and each use of a place has another generation. A call that
 *    ends at once returns request 0, which takes no place.
 * 3. Offers take at most half of the places for transfers: if they took all, two contexts that
 *    offer to each other could never fetch. Those that are expected may have a quarter more, since
 *    they are fetched even if none of the others is.
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "client/pairs.h"
#include "match/client/match.h"

#define REQUEST_ID(index, uses) ((uint64_t)(uses) << 32 | ((index) + 1))
/* bytes; used until a round-trip time is known, and the least after that */
#define EAGER_AUTO              16384
/* ... and the most: copying costs the application's time, a transfer the engine's */
#define EAGER_MOST              65536
/* requests that receives leave to sends and probes, at most: a 64th of all */
#define SEND_REQUESTS           64

/* ------------------------------------------------------------------ life */

static uint32_t
smaller(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Return the rate at which this thread copies cached memory, in bytes per nanosecond. */
static double
copy_rate(void)
{
	enum { BYTES = 65536, TIMES = 8 };
	uint8_t *from = malloc(2 * BYTES);
	int64_t best = INT64_MAX;

	if (from == NULL)
		return 1;
	memset(from, 1, 2 * BYTES);
	for (unsigned i = 0; i < TIMES; i++) {
		const int64_t begin = clock_ns();

		memcpy(from + BYTES, from, BYTES);
		__asm__ volatile("" : : "r"(from) : "memory");
		const int64_t ns = clock_ns() - begin;

		best = ns < best ? ns : best;
	}
	free(from);
	return best > 0 ? (double)BYTES / (double)best : 1;
}

/* Set, for rendezvous = auto, up to which length messages are sent eagerly: an offer costs an
 * additional round trip, an eager message two additional copies. */
static void
weigh(struct pmx_context *ctx)
{
	struct match *x = ctx->match;
	uint32_t rtt = atomic_load_explicit(&ctx->shm->rtt_ns, memory_order_relaxed);
	double bytes = rtt * x->copy_rate / 2;

	if (rtt == 0 || x->eager_most == 0)
		return;
	x->eager_max = bytes < EAGER_AUTO ? EAGER_AUTO
		: bytes > x->eager_most   ? x->eager_most
					  : (uint32_t)bytes;
	x->eager_max = smaller(x->eager_max, x->eager_most);
	x->one_max = smaller(x->eager_max, ctx->one_max - sizeof(struct wire_match));
}

/* Set which messages are sent eagerly, by what the engine of this attachment has. */
static void
set_sizes(struct pmx_context *ctx)
{
	const struct channel_shm *shm = ctx->shm;
	struct match *x = ctx->match;
	/* half of the receiver's buffers, assuming that it has as many as this context */
	uint64_t most = (uint64_t)(shm->matched_buffers / 2) * shm->frag_len;

	most = smaller(most > shm->frag_len ? most : shm->frag_len, ctx->max_message) -
		WIRE_MATCH_HEAD_MAX;
	x->eager_max = smaller(shm->rendezvous == RENDEZVOUS_AUTO ? EAGER_AUTO : shm->rendezvous,
		most);
	if (shm->rendezvous == RENDEZVOUS_AUTO) {
		x->eager_most = smaller(most, EAGER_MOST);
		x->copy_rate = copy_rate();
	}
	x->one_max = smaller(x->eager_max, ctx->one_max - sizeof(struct wire_match));
}

static void
match_close(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (x == NULL)
		return;
	if (!x->by_engine)
		ring_close(ctx);
	for (uint32_t i = 0; i < x->used; i++) {
		if (x->requests[i].state == REQUEST_FREE)
			continue;
		free(x->requests[i].staging);
		if (x->requests[i].pin != PIN_NONE)
			pins_put(x->requests[i].pin);
	}
	free(x->requests);
	free(x);
	ctx->match = NULL;
}

/* Return whether something has come by the engine that a receive must know of before it begins. */
static bool
match_landed(struct pmx_context *ctx)
{
	const struct match *x = ctx->match;

	if (x == NULL)
		return false;
	if (x->by_engine ? x->live != 0 && slot_filled(&ctx->com, ctx->com.pos)
			 : lhs_peek(&x->queue.heads.ring) != NULL)
		return true;
	return x->starting.head != NO_REQUEST; /* nothing wakes us when there is room for it */
}

/* Return whether the application has something to take. */
static bool
match_waits(struct pmx_context *ctx)
{
	return match_landed(ctx) ||
		(ctx->match != NULL &&
			((ctx->pairs != NULL && pairs_landed(ctx)) ||
				ctx->match->ended.head != NO_REQUEST));
}

/* ---------------------------------------------------------- the channel ends, and another comes */

static int
match_leave(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (x == NULL)
		return 0;
	if (!x->by_engine)
		return ring_leave(ctx);
	/* it is not known which of them the engine had matched */
	x->starting.head = NO_REQUEST;
	for (uint32_t i = 0; i < x->used; i++) {
		struct match_request *r = &x->requests[i];

		if (r->state != REQUEST_POSTED && r->state != REQUEST_FETCHES &&
			r->state != REQUEST_ASKS)
			continue;
		if (r->pin != PIN_NONE)
			pins_put(r->pin);
		r->pin = PIN_NONE;
		request_end(ctx, r, -ECONNRESET);
	}
	return 0;
}

static int
match_rejoin(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (x == NULL)
		return 0;
	set_sizes(ctx);
	if (!x->by_engine) {
		ring_rejoin(ctx);
		return 0;
	}
	/* from now on this is a thin client, which matches by itself */
	int result = ring_open(ctx);

	x->by_engine = result != 0;
	return result;
}

/* ------------------------------------------------------------------ requests */

static inline pmx_request
request_id(const struct match *x, uint32_t i)
{
	return REQUEST_ID(i, x->requests[i].uses);
}

static void
match_transfer_ended(struct pmx_context *ctx, uint32_t request, uint8_t error)
{
	struct match *x = ctx->match;
	struct match_request *r = &x->requests[request];

	if (r->state != REQUEST_OFFERED) {
		ring_fetched(ctx, r, error);
		return;
	}
	x->offers--;
	request_end(ctx, r, -(int)error);
	weigh(ctx);
}

static int
match_open(struct pmx_context *ctx)
{
	const struct channel_shm *shm = ctx->shm;
	struct match *x = ctx_gone(ctx) ? NULL : calloc(1, sizeof(*x));

	if (x == NULL)
		return ctx_gone(ctx) ? -EPIPE : -ENOMEM;
	ctx->match = x;
	ctx->request_ended = match_transfer_ended;
	x->by_engine = shm->engine_matches;
	x->requests = calloc(shm->receives, sizeof(*x->requests));
	if (x->requests == NULL || (!x->by_engine && ring_open(ctx) != 0)) {
		free(x->requests);
		free(x);
		ctx->match = NULL;
		return -ENOMEM;
	}
	if (x->by_engine)
		x->queue.posted.only = MATCH_NONE; /* nothing is posted in this thread */
	x->max = shm->receives;
	x->receive_max = x->max - smaller(x->max / 64, SEND_REQUESTS);
	x->offers_max = ctx->rma->transfer_count / 2;
	x->expected_max = x->offers_max + ctx->rma->transfer_count / 4;
	set_sizes(ctx);
	x->free = x->starting.head = x->sent.head = x->ended.head = NO_REQUEST;
	return 0;
}

int
lend_request(struct pmx_context *ctx, uint32_t *index, pmx_request *request)
{
	const int result = ctx->match == NULL ? match_open(ctx) : 0;

	if (result != 0)
		return result;
	const uint32_t i = request_take(ctx->match);

	if (i == NO_REQUEST)
		return -EAGAIN;
	ctx->match->requests[i].state = REQUEST_LENT;
	ctx->rma->lent++;
	*index = i;
	*request = request_id(ctx->match, i);
	return 0;
}

void
lent_request_ends(struct pmx_context *ctx, uint32_t index, const struct pmx_status *status)
{
	struct match_request *r = &ctx->match->requests[index];

	r->status = *status;
	ctx->rma->lent--;
	request_end(ctx, r, 0);
}

/* End requests whose messages were Acked. This runs after every look at completions, since the
 * result of a send is known only until a later one in its buffer has failed. */
static void
match_sent(struct pmx_context *ctx)
{
	if (ctx->tracked == 0)
		return;
	struct match *x = ctx->match;
	struct match_list all = x->sent;

	x->sent.head = NO_REQUEST;
	for (uint32_t i = all.head, next; i != NO_REQUEST; i = next) {
		struct match_request *r = &x->requests[i];
		int result = ctx_send_result(ctx, r->sent);

		next = r->next;
		if (result == 0) {
			list_append(x, &x->sent, i);
			continue;
		}
		ctx->tracked--;
		request_end(ctx, r, result < 0 ? result : 0);
	}
}

/* ------------------------------------------------------------------ send */

/* Write the head, of wire_match_head(flags) bytes, and return where it ends. */
static inline uint8_t *
put_head(void *to, const struct pmx_matched *m, uint8_t op, uint8_t flags)
{
	const struct wire_immediate immediate = {wire_be64(m->immediate)};
	bool has = flags & WIRE_M_IMMEDIATE;
	const struct wire_match h = {op, flags, has ? wire_be16(m->label) : 0, wire_be32(m->comm),
		wire_be64(m->tag)};

	memcpy(to, &h, sizeof(h));
	if (has)
		memcpy((uint8_t *)to + sizeof(h), &immediate, sizeof(immediate));
	return (uint8_t *)to + wire_match_head(flags);
}

/* Return the pair by which messages to `to` go, or NULL: by the engine. */
static inline struct pair *
pair_to(struct pmx_context *ctx, struct pmx_addr to)
{
	if (likely(to.node != ctx->pair_node))
		return NULL;
	struct pair *p = ctx->pairs->of[to.context].pair;

	return pair_sends(ctx, p, PAIR_MATCHED) ? p
						: pairs_begin(ctx, to, PAIR_MATCHED, WIRE_ASIDE);
}

/* Send a message as send_eager() does, but by the memory shared with its receiver. -ENOBUFS: it
 * must be offered. */
static int
send_aside(struct pmx_context *ctx, struct pair *p, const struct pmx_matched *m, uint8_t flags,
	struct cursor *c, const uint8_t *bytes, uint32_t len)
{
	const uint32_t head = wire_match_head(flags);
	const bool beside = len > PAIR_SHORT;
	uint8_t *at, *to = NULL;
	int result = beside ? pair_long_message(ctx, p, PAIR_MATCHED, head, len, &at, &to)
			    : pair_message(ctx, p, PAIR_MATCHED, head + len, &at);

	if (result != 0)
		return result;
	at = put_head(at, m, WIRE_EAGER, flags);
	to = beside ? to : at;
	if (c != NULL)
		cursor_gather(c, to, len);
	else if (len != 0)
		memcpy(to, bytes, len);
	if (beside)
		pair_send_long(ctx, p, PAIR_MATCHED, head);
	else
		pair_send(ctx, p, PAIR_MATCHED, head + len);
	return 0;
}

/* Send a short message, whose head is in words, by the memory shared with its receiver. */
static APART int
send_words(struct pmx_context *ctx, struct pair *p, const uint64_t *head, uint32_t head_len,
	const void *data, uint32_t len)
{
	uint8_t *to;
	int result = pair_message(ctx, p, PAIR_MATCHED, head_len + len, &to);

	if (unlikely(result != 0))
		return result;
	memcpy(to, head, head_len);
	if (len <= 64)
		lhs_copy(to + head_len, data, len);
	else
		memcpy(to + head_len, data, len);
	pair_send(ctx, p, PAIR_MATCHED, head_len + len);
	return 0;
}

/* Send a message in send buffers: the head, then what the cursor gathers, or `bytes` if c is
 * NULL. */
static int
send_eager(struct pmx_context *ctx, const struct pmx_matched *m, uint8_t flags, struct cursor *c,
	const uint8_t *bytes, uint64_t len, pmx_send_id *id)
{
	struct pmx_buffer buf;
	uint32_t skip = wire_match_head(flags);
	int result = pmx_get_send_buffer(ctx, (uint32_t)(skip + len), &buf);

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
	result = ctx_submit(ctx, m->peer, &buf, SUBMIT_MATCHED, id);
	if (result != 0)
		pmx_discard_buffer(ctx, &buf);
	return result;
}

/* Offer len bytes at `bytes`, which the receiver fetches. */
static int
send_offer(struct pmx_context *ctx, const struct pmx_matched *m, uint8_t flags, void *bytes,
	uint64_t len, uint32_t request)
{
	const struct pmx_transfer t = {
		.peer = m->peer,
		.local = bytes,
		.len = len,
		.flags = m->flags & PMX_EXPECTED,
	};
	struct match *x = ctx->match;
	uint32_t most = m->flags & PMX_EXPECTED ? x->expected_max : x->offers_max;
	struct pmx_buffer buf;
	uint32_t id;

	int result = pmx_get_send_buffer(ctx, wire_match_head(flags) + sizeof(struct wire_offer),
		&buf);

	if (result != 0)
		return result;
	if (x->offers >= most)
		ctx_completions(ctx);
	result = x->offers >= most ? -EAGAIN :
				   /* the engine must know of the offer before its head is sent, so
				    * that nobody fetches it too early */
		transfers_request(ctx, TRANSFER_OFFER, &t, request, &id);
	if (result != 0) {
		pmx_discard_buffer(ctx, &buf);
		return result == -EAGAIN && ctx_gone(ctx) ? -EPIPE : result;
	}
	const struct wire_offer offer = {wire_be64(len), wire_be32(id), 0};

	memcpy(put_head(buf.data, m, WIRE_OFFER, flags), &offer, sizeof(offer));
	x->offers++;
	x->requests[request].state = REQUEST_OFFERED;
	/* transfers_request() has left a slot for it */
	result = ctx_submit(ctx, m->peer, &buf, SUBMIT_MATCHED, NULL);
	/* the transfer has begun; if the engine is gone, it ends with all others that are under
	 * way */
	return result == -EPIPE ? 0 : result;
}

/* Offer len bytes at `bytes` by a head in the memory shared with the receiver, which copies the
 * bytes itself. */
static int
offer_aside(struct pmx_context *ctx, struct pair *p, const struct pmx_matched *m, uint8_t flags,
	const void *bytes, uint64_t len, uint32_t request)
{
	struct match *x = ctx->match;
	const uint32_t all = wire_match_head(flags) + (uint32_t)sizeof(struct wire_offer);
	uint8_t *to;
	int result = pair_message(ctx, p, PAIR_MATCHED, all, &to);

	if (result != 0)
		return result;
	uint32_t id = pair_offer(p, bytes, request, (m->flags & PMX_EXPECTED) != 0);

	if (id == PAIR_NONE)
		return -EAGAIN;
	const struct wire_offer offer = {wire_be64(len), wire_be32(id), 0};

	memcpy(put_head(to, m, WIRE_OFFER, flags), &offer, sizeof(offer));
	x->offers++;
	x->requests[request].state = REQUEST_OFFERED;
	pair_send(ctx, p, PAIR_MATCHED, all);
	return 0;
}

static int
sent(struct pmx_context *ctx, uint32_t request, pmx_send_id id)
{
	struct match *x = ctx->match;

	ctx->tracked++;
	x->requests[request].state = REQUEST_SENT;
	x->requests[request].sent = id;
	list_append(x, &x->sent, request);
	return 0;
}

/* Send a message, with a request, by the general path. */
static int
send_any(struct pmx_context *ctx, const struct pmx_matched *m, const struct match_layout *l,
	uint32_t request)
{
	struct match *x = ctx->match;
	struct match_request *r = &x->requests[request];
	bool diff = l->part != NULL && l->part->kind == PMX_PART_DIFF;
	uint8_t *bytes = l->data, *staging = NULL;
	uint8_t flags = (diff ? WIRE_M_RUNS : 0) |
		(m->flags & PMX_IMMEDIATE ? WIRE_M_IMMEDIATE : 0);
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
	struct pair *p = pair_to(ctx, m->peer);

	if (p == NULL && len > PAIR_EAGER)
		pairs_hasten(ctx, m->peer, len);
	if (p != NULL && len <= PAIR_EAGER && !(m->flags & PMX_SYNC)) {
		result = send_aside(ctx, p, m, flags, diff ? NULL : &c, bytes, (uint32_t)len);
		if (result == 0)
			request_end(ctx, r, 0);
	} else if (p == NULL && len <= x->eager_max && !(m->flags & PMX_SYNC)) {
		result = send_eager(ctx, m, flags, diff ? NULL : &c, bytes, len, &id);
		if (result == 0)
			result = m->flags & PMX_DELIVERED ? sent(ctx, request, id)
							  : (request_end(ctx, r, 0), 0);
	} else {
		if ((!layout_is_plain(l) || m->flags & PMX_COPY) && !diff) {
			bytes = staging = malloc(len ? len : 1);
			if (staging == NULL)
				return -ENOMEM;
			cursor_gather(&c, staging, len);
		}
		result = p != NULL ? offer_aside(ctx, p, m, flags, bytes, len, request)
				   : send_offer(ctx, m, flags, bytes, len, request);
	}
	/* the engine needs the bytes in memory that it maps, which has a limit; a pair does not */
	if (result == -ENOMEM && p == NULL && pairs_may_begin(ctx, m->peer))
		result = -EAGAIN;
	if (result == 0 && diff)
		layout_sent(l, staging, len);
	if (result == 0 && r->state == REQUEST_OFFERED)
		r->staging = staging;
	else
		free(staging);
	return result;
}

/* Return whether this is the common message: from one piece into one buffer or submission, which
 * ends it. */
static inline bool
is_short(const struct match *x, const struct pmx_matched *m)
{
	return x != NULL && m->iov == NULL && m->part == NULL && m->len <= x->one_max &&
		m->peer.context < WIRE_CONTEXTS_MAX && (m->data != NULL || m->len == 0);
}

static inline int
send_short(struct pmx_context *ctx, const struct pmx_matched *m)
{
	const uint64_t head[2] = {(uint64_t)wire_be32(m->comm) << 32 | WIRE_EAGER,
		wire_be64(m->tag)};
	struct pair *p = pair_to(ctx, m->peer);

	if (unlikely(p != NULL))
		return send_words(ctx, p, head, sizeof(head), m->data, (uint32_t)m->len);
	return ctx_send_short(ctx, m->peer, head, m->data, (uint32_t)m->len);
}

/* Return whether this is a short message with an immediate, which is as common in programs that use
 * any (MPI over libfabric). */
static inline bool
is_short_immediate(const struct match *x, const struct pmx_matched *m)
{
	return is_short(x, m) && (m->flags & ~PMX_COPY) == PMX_IMMEDIATE &&
		m->len + sizeof(struct wire_immediate) <= x->one_max;
}

static int
send_immediate(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	const uint64_t head[3] = {(uint64_t)wire_be32(m->comm) << 32 |
			(uint64_t)wire_be16(m->label) << 16 | WIRE_M_IMMEDIATE << 8 | WIRE_EAGER,
		wire_be64(m->tag), wire_be64(m->immediate)};
	struct pair *p = pair_to(ctx, m->peer);
	int result = unlikely(p != NULL)
		? send_words(ctx, p, head, sizeof(head), m->data, (uint32_t)m->len)
		: ctx_send_immediate(ctx, m->peer, head, m->data, (uint32_t)m->len);

	if (result == 0 && request != NULL)
		*request = 0;
	return result;
}

/* Send a short message with PMX_QUEUED. */
static int
send_queued(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct match *x = ctx->match;
	uint32_t i = request_take(x);

	if (i == NO_REQUEST)
		return ctx_gone(ctx) ? -EPIPE : -EAGAIN;
	int result = send_short(ctx, m);

	request_told(&x->requests[i], m, request != NULL);
	if (result != 0) {
		request_free(x, i);
		return result;
	}
	request_end(ctx, &x->requests[i], 0);
	if (request != NULL)
		*request = request_id(x, i);
	return 0;
}

static APART int
send_checked(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct match_layout l;
	int result;

	if (is_short_immediate(ctx->match, m))
		return send_immediate(ctx, m, request);
	if (is_short(ctx->match, m) && (m->flags & ~PMX_COPY) == PMX_QUEUED)
		return send_queued(ctx, m, request);
	result = layout_make(&l, m, true);

	if (result == 0 &&
		(m->flags &
				~(PMX_SYNC | PMX_DELIVERED | PMX_QUEUED | PMX_COPY | PMX_IMMEDIATE |
					PMX_EXPECTED) ||
			m->peer.context >= WIRE_CONTEXTS_MAX))
		result = -EINVAL;
	if (result == 0 && ctx->match == NULL)
		result = match_open(ctx);
	if (result != 0)
		return result;
	struct match *x = ctx->match;
	uint32_t i = request_take(x);

	if (i == NO_REQUEST) {
		ctx_completions(ctx);
		i = request_take(x);
	}
	if (i == NO_REQUEST)
		return ctx_gone(ctx) ? -EPIPE : -EAGAIN;
	request_told(&x->requests[i], m, request != NULL);
	result = send_any(ctx, m, &l, i);
	if (result != 0) {
		request_free(x, i);
		return result;
	}
	if (request == NULL)
		return 0;
	if (x->requests[i].state == REQUEST_ENDED && !x->requests[i].queued) {
		request_free(x, i);
		*request = 0;
	} else {
		*request = request_id(x, i);
	}
	return 0;
}

int
pmx_isend(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	if (unlikely(!is_short(ctx->match, m) || m->flags & ~PMX_COPY))
		return send_checked(ctx, m, request);
	int result = send_short(ctx, m);

	if (likely(result == 0) && request != NULL)
		*request = 0;
	return result;
}

/* ------------------------------------------------------------------ receive */

static inline struct match_want
want_of(const struct pmx_matched *m)
{
	bool any = m->peer.node == 0xFFFF && m->peer.context == 0xFFFF;

	return (struct match_want){m->comm,
		any ? MATCH_ANY_SOURCE : (uint32_t)m->peer.node << 16 | m->peer.context, m->tag,
		m->ignore};
}

/* Take in everything that has landed, which must come before a receive looks for its message: see
 * lib/match/queue.h. */
static inline int
match_client_settle(struct pmx_context *ctx)
{
	int result = 0;

	while (match_landed(ctx) && result == 0) {
		uint32_t before = ctx->match->queue.heads.ring.pos;

		result = match_progress(ctx);
		if (ctx->match->by_engine || ctx->match->queue.heads.ring.pos == before)
			break; /* as many as may wait do wait */
	}
	return result;
}

/* Begin a receive by the general path. */
static APART int
receive_checked(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct match_layout l;
	int result = layout_make(&l, m, false);

	if (result == 0 && m->flags & ~PMX_QUEUED)
		result = -EINVAL;
	if (result == 0 && ctx->match == NULL)
		result = match_open(ctx);
	if (result != 0)
		return result;
	struct match *x = ctx->match;

	/* messages that came before the primary ended are still received */
	if ((result = match_client_settle(ctx)) != 0 && (x->by_engine || result != -EPIPE))
		return result;
	uint32_t i = request_take_receive(x);

	if (i == NO_REQUEST)
		return -EAGAIN;
	struct match_request *r = &x->requests[i];
	pmx_request id = request_id(x, i);

	request_told(r, m, request != NULL);
	r->layout = l;
	r->want = want_of(m);
	if (!x->by_engine) {
		ring_receive(ctx, i, &r->want);
	} else if ((result = offload_receive(ctx, i)) != 0) {
		request_free(x, i);
		return result;
	}
	if (request != NULL)
		*request = id;
	return 0;
}

int
pmx_irecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request)
{
	struct match *x = ctx->match;

	/* fast path of the common one: into one piece, and no message is there that it could
	 * match */
	if (unlikely(x == NULL || x->by_engine || x->queue.unexpected.live != 0 ||
		    match_landed(ctx) || request == NULL || m->iov != NULL || m->part != NULL ||
		    m->flags & ~PMX_QUEUED || m->len > PART_BYTES_MAX ||
		    (m->data == NULL && m->len > 0)))
		return receive_checked(ctx, m, request);
	const struct match_want want = want_of(m);
	uint32_t i = request_take_receive(x);

	if (unlikely(i == NO_REQUEST))
		return -EAGAIN;
	struct match_request *r = &x->requests[i];

	request_told(r, m, true);
	r->layout.data = m->data;
	r->layout.len = r->layout.total = m->len;
	r->layout.iov = NULL;
	r->layout.part = NULL;
	r->state = REQUEST_POSTED;
	r->was_posted = true;
	/* cannot fail: there are as many places as requests */
	r->posted = match_posted_put(&x->queue.posted, &want, i);
	*request = request_id(x, i);
	return 0;
}

/* Look for the message that such a receive would take; with take, request *i gets it. */
static int
probe(struct pmx_context *ctx, const struct pmx_matched *m, struct pmx_status *status, bool take,
	uint32_t *i)
{
	const struct match_want want = want_of(m);
	int result = ctx->match == NULL ? match_open(ctx) : 0, gone;
	struct match *x = ctx->match;

	if (result != 0)
		return result;
	gone = match_landed(ctx) ? match_client_settle(ctx) : match_progress(ctx);
	*i = NO_REQUEST;
	if ((take || x->by_engine) && (*i = request_take(x)) == NO_REQUEST)
		return -EAGAIN;
	result = x->by_engine ? offload_probe(ctx, &want, status, *i, take)
			      : ring_probe(ctx, &want, status, *i);
	if (*i != NO_REQUEST) {
		if (result == 1 && take)
			x->requests[*i].state = REQUEST_TAKEN;
		else
			request_free(x, *i);
	}
	return result == 0 ? gone : result;
}

int
pmx_iprobe(struct pmx_context *ctx, const struct pmx_matched *m, struct pmx_status *status)
{
	struct pmx_status unused;
	uint32_t i = NO_REQUEST;

	return probe(ctx, m, status != NULL ? status : &unused, false, &i);
}

int
pmx_improbe(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message,
	struct pmx_status *status)
{
	struct pmx_status unused;
	uint32_t i = NO_REQUEST;
	int result = probe(ctx, m, status != NULL ? status : &unused, true, &i);

	if (result == 1)
		*message = request_id(ctx->match, i);
	return result;
}

int
pmx_imrecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message)
{
	struct match_request *r = request_of(ctx->match, *message);
	struct match_layout l;
	int result = layout_make(&l, m, false);

	if (r == NULL || r->state != REQUEST_TAKEN || m->flags & ~PMX_QUEUED || result != 0)
		return result != 0 ? result : -EINVAL;
	request_told(r, m, true);
	r->layout = l;
	if (ctx->match->by_engine)
		return offload_receive_taken(ctx, r);
	ring_receive_taken(ctx, r);
	return 0;
}

int
pmx_cancel(struct pmx_context *ctx, pmx_request request)
{
	struct match_request *r = request_of(ctx->match, request);

	if (r == NULL)
		return request == 0 ? -EINPROGRESS : -EINVAL;
	if (r->state != REQUEST_POSTED)
		return -EINPROGRESS;
	if (ctx->match->by_engine)
		return offload_cancel(ctx, r) ? 0 : -EINPROGRESS;
	if (!ring_cancel(ctx, r))
		return -EINPROGRESS;
	request_end(ctx, r, -ECANCELED);
	return 0;
}

/* ------------------------------------------------------------------ looking */

void
pmx_match_read_stat(const struct pmx_context *ctx, struct pmx_match_stat *stat)
{
	const struct match *x = ctx->match;

	*stat = (struct pmx_match_stat){0};
	if (x == NULL)
		return;
	*stat = x->stat;
	if (x->by_engine)
		return;
	stat->evacuated = x->queue.heads.evacuated;
	stat->malformed = x->queue.malformed;
	stat->waiting = x->queue.unexpected.live;
	stat->posted = x->queue.posted.count;
	stat->bytes = match_queue_bytes(&x->queue) + x->heap;
}

const struct client_service client_match = {
	.name = "match",
	.close = match_close,
	.completions = COMPLETION_RECEIVES,
	.results = offload_results,
	.progress = match_sent,
	.landed = match_waits,
	.leave = match_leave,
	.rejoin = match_rejoin,
};
