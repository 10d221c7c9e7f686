/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching by the lane (engine.matching = engine): receives progress while their applications
 * compute (RHI-MSG; RHiNET, 1999, section 2.6). lib/match does the matching, as it does in the
 * client. Runs on the lane.
 *
 * Design notes
 * 1. The LHS ring is in the engine's own memory, so that the client cannot change what is matched.
 * 2. A receive has the index that its client gave it. A short message is copied to its place from
 *    where it landed; for an offer the lane begins a transfer of its own, in one of its own places
 *    in lib/rma. A receive that finds none free waits in a list, since those transfers end by
 *    themselves.
 * 3. The engine leaves runs (a diff) to the client: it reports that they are there, and the client
 *    receives them into a buffer of its own.
 * 4. Everything is allocated when the node starts, and cleared when a context opens.
 */
/* rte_vect_get_max_simd_bitwidth is experimental before DPDK 23.11 */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_random.h>
#include <rte_vect.h>

#include "engine/room.h"
#include "match/engine/match.h"
#include "rma/engine/rma.h"
#include "match/queue.h"

#define MATCH_SERVICE 2
#define NO_RECEIVE    UINT32_MAX

enum receive_state {
	RECEIVE_FREE,
	RECEIVE_POSTED, /* without a message */
	RECEIVE_READY,  /* it has an offer, but no place for the transfer */
	RECEIVE_FETCHES,
	RECEIVE_HOLDS, /* it holds a message that was taken */
};

struct engine_receive {
	struct bytes local;
	struct match_message message; /* HOLDS */
	uint64_t tag, len;            /* of the message */
	uint32_t source;
	uint32_t posted; /* number */
	uint32_t offer;  /* READY, FETCHES */
	uint32_t next;   /* READY */
	uint8_t state;   /* enum receive_state */
	uint8_t error;   /* that it ends with, whatever else happens */
	bool was_posted;
	uint8_t flags;      /* of the message: WIRE_M_* */
	uint16_t label;     /* WIRE_M_IMMEDIATE */
	uint64_t immediate; /* ... */
};

/* A result that the client is told. */
struct result {
	struct completion_receive receive;
	struct completion_immediate immediate; /* if receive.more is set */
};

struct matching {
	struct match_queue queue;
	uint8_t *ring;
	uint64_t ring_bytes;
	_Atomic uint32_t given;          /* entries given back to the writer: inlet.read */
	struct engine_receive *receives; /* array of max */
	uint32_t max;
	uint32_t ready_head, ready_tail;
	uint32_t uses;          /* counts the transfers begun here, from a random number
				 * on */
	struct result *results; /* not yet written: ring of results_mask + 1 */
	uint32_t results_head, results_tail, results_mask;
};

/* Return the matching of a context, or NULL if clients match on this node. */
static inline struct matching *
matcher_of(const struct channel *ch)
{
	return ch->service[MATCH_SERVICE];
}

/* ------------------------------------------------------------------ life */

static void fetched(struct engine *e, struct channel *ch, uint32_t number, uint8_t error);

static int
match_make(struct engine *e, char *error, size_t error_len)
{
	(void)error, (void)error_len;
	if (e->node->config.matching == MATCHING_ENGINE)
		e->attends |= 1u << MATCH_SERVICE;
	rma_lane(e)->fetched = fetched;
	return 0;
}

static int
match_make_context(struct node *n, struct channel *ch)
{
	const struct config *c = &n->config;

	if (c->matching != MATCHING_ENGINE)
		return 0;
	struct matching *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return -ENOMEM;
	ch->service[MATCH_SERVICE] = x;
	x->max = c->receives;
	x->results_mask = 2;
	/* a receive may end and a question about it be answered at the same time */
	while (x->results_mask < 2 * c->receives)
		x->results_mask *= 2;
	x->results = calloc(x->results_mask--, sizeof(*x->results));
	x->receives = calloc(x->max, sizeof(*x->receives));
	x->ring_bytes = (uint64_t)n->geometry.matched.entries * n->geometry.matched.entry_bytes;
	x->ring = mmap(NULL, x->ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		0);
	if (x->ring == MAP_FAILED)
		x->ring = NULL;
	if (x->results == NULL || x->receives == NULL || x->ring == NULL)
		return -ENOMEM;
	return match_queue_init(&x->queue, &n->geometry.matched, x->ring, NULL, c->unexpected,
		c->receives, rte_vect_get_max_simd_bitwidth());
}

static void
match_free_context(struct channel *ch)
{
	struct matching *x = matcher_of(ch);

	if (x == NULL)
		return;
	match_queue_free(&x->queue);
	if (x->ring != NULL)
		munmap(x->ring, x->ring_bytes);
	free(x->results);
	free(x->receives);
	free(x);
}

/* Make messages land in the engine's ring. A thin client matches by itself, since the engine copies
 * as little as possible into its memory. */
static void
match_join(struct node *n, struct channel *ch)
{
	struct matching *x = matcher_of(ch);

	(void)n;
	if (x == NULL || ch->thin != NULL)
		return;
	ch->engine_matches = true;
	memset(x->ring, 0, x->ring_bytes);
	ch->matched.lhs.base = x->ring;
	ch->matched.read = &x->given;
	atomic_store_explicit(&x->given, 0, memory_order_relaxed);
	match_queue_clear(&x->queue);
	for (uint32_t i = 0; i < x->max; i++)
		x->receives[i].state = RECEIVE_FREE;
	x->ready_head = NO_RECEIVE;
	x->results_head = x->results_tail = 0;
	x->uses = (uint32_t)rte_rand();
}

/* Drop the receives that wait for a transfer, as the context ends. */
static void
match_close(struct engine *e, struct channel *ch, bool linger)
{
	(void)e, (void)linger;
	if (ch->engine_matches)
		matcher_of(ch)->ready_head = NO_RECEIVE;
}

/* ------------------------------------------------------------------ results */

static void
match_engine_tell(struct engine *e, struct channel *ch, uint32_t index, enum receive_result result,
	uint8_t error)
{
	struct matching *x = matcher_of(ch);
	const struct engine_receive *r = &x->receives[index];

	if (unlikely(x->results_tail - x->results_head > x->results_mask)) {
		ch->bad++; /* the client asks, but does not take the answers */
		return;
	}
	x->results[x->results_tail++ & x->results_mask] = (struct result){
		.receive =
			{
				.index = index,
				.result = (uint8_t)result,
				.error = error,
				.runs = (r->flags & WIRE_M_RUNS) != 0,
				.more = (r->flags & WIRE_M_IMMEDIATE) != 0,
				.source = r->source,
				.tag = r->tag,
				.len = r->len,
			},
		.immediate = {r->immediate, r->label},
	};
	service_has_results(e, ch, MATCH_SERVICE);
}

static void
match_engine_end(struct engine *e, struct channel *ch, struct engine_receive *r, uint8_t error)
{
	r->state = RECEIVE_FREE;
	match_engine_tell(e, ch, (uint32_t)(r - matcher_of(ch)->receives), RECEIVE_ENDED,
		r->error ? r->error : error);
}

static bool
match_results(struct engine *e, struct channel *ch)
{
	struct matching *x = matcher_of(ch);

	(void)e;
	while (x->results_head != x->results_tail) {
		if (!slot_room(&ch->com, 1))
			return false;
		struct completion *c = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;
		uint32_t n = 0;

		for (bool alone = false; n < 2 && !alone && x->results_head != x->results_tail;) {
			const struct result *r = &x->results[x->results_head & x->results_mask];
			uint8_t *to = (uint8_t *)c->item + n * sizeof(r->receive);

			alone = r->receive.more;
			if (alone && n != 0)
				break;
			memcpy(to, &r->receive, sizeof(r->receive));
			if (alone)
				memcpy(to + sizeof(r->receive), &r->immediate,
					sizeof(r->immediate));
			x->results_head++;
			n++;
		}
		c->count = COMPLETION_RECEIVES | n;
		slot_publish(&ch->com, ch->com.pos++);
	}
	return true;
}

/* ------------------------------------------------------------------ bytes */

/* Free a message's entry and bulk buffers. */
static void
done_with(struct engine *e, struct channel *ch, const struct match_message *m)
{
	uint32_t bulk = m->entry->bulk;

	match_queue_done(&matcher_of(ch)->queue, m);
	if (bulk != LHS_NO_BULK)
		inlet_release(e, ch, &bulk, 1, true);
}

/* Copy the bytes of an eager message behind its head, as many as fit, to their place. 0, or
 * EFAULT. */
static uint8_t
match_engine_place(struct engine *e, const struct channel *ch, const struct engine_receive *r,
	const struct lhs_entry *entry)
{
	const uint32_t head = wire_match_head(r->flags);
	uint32_t number = entry->bulk & ~LHS_CHAINED, skip = head;
	uint64_t at = 0;

	if (entry->bulk == LHS_NO_BULK) {
		uint64_t n = entry->len - head;

		n = n < r->local.len ? n : r->local.len;
		return n && memory_write(&r->local, 0, entry->front + head, (uint32_t)n) != 0
			? EFAULT
			: 0;
	}
	while (number != UINT32_MAX && at < r->local.len) {
		const struct buf_state *b = &e->node->bufs[number];
		const uint8_t *bytes = entry->bulk & LHS_CHAINED
			? rte_pktmbuf_mtod(b->m, const uint8_t *)
			: (const uint8_t *)ch->shm + entry->bulk_off;
		struct bulk_link link;
		uint64_t n = entry->len;

		if (entry->bulk & LHS_CHAINED) {
			/* the client can overwrite this, but harms only itself: the length is
			 * limited to a buffer */
			memcpy(&link, bytes - sizeof(link), sizeof(link));
			n = link.len < e->node->frag_len ? link.len : e->node->frag_len;
		}
		n = n > skip ? n - skip : 0;
		n = n < r->local.len - at ? n : r->local.len - at;
		if (n && memory_write(&r->local, at, bytes + skip, (uint32_t)n) != 0)
			return EFAULT;
		at += n;
		skip = 0;
		number = b->next;
	}
	return 0;
}

/* ------------------------------------------------------------------ offers */

/* End the offers to a context to which a message was not Acked: everything offered to it before is
 * lost, with the flow or with the receiver. */
static void
message_failed(struct engine *e, struct channel *ch, const struct send_slot *s,
	const struct send_failure *f)
{
	(void)s;
	if (f->error == EINVAL || f->error == EMSGSIZE) /* it was never sent */
		return;
	rma_offers_lost(rma_lane(e)->rma, ch->ctx, f->node, f->peer, f->error);
	service_rma_called(e);
}

static bool
fetch(struct engine *e, struct channel *ch, struct engine_receive *r)
{
	struct matching *x = matcher_of(ch);
	const struct rma_fetch f = {
		.kind = r->was_posted && !r->error ? TRANSFER_ACCEPT : TRANSFER_PULL,
		.node = (uint16_t)(r->source >> 16),
		.ctx = (uint16_t)r->source,
		.from = r->offer,
		.use = x->uses + 1,
		/* an error here is reported to the sender by fetching 0 bytes */
		.len = r->error && r->error != EMSGSIZE ? 0
			: r->len < r->local.len         ? r->len
							: r->local.len,
		.local = {r->local.memory, r->local.at, r->local.len, ch->ctx},
		.cookie = (uint32_t)(r - x->receives),
	};

	if (!rma_fetch(rma_lane(e)->rma, &f, e->now))
		return false;
	x->uses++;
	r->state = RECEIVE_FETCHES;
	service_rma_called(e);
	return true;
}

static void
fetch_ready(struct engine *e, struct channel *ch)
{
	struct matching *x = matcher_of(ch);

	while (x->ready_head != NO_RECEIVE) {
		struct engine_receive *r = &x->receives[x->ready_head];

		if (!fetch(e, ch, r))
			return;
		x->ready_head = r->next;
	}
}

/* End the receive that began a transfer, which has ended, and begin transfers that waited for a
 * place. */
static void
fetched(struct engine *e, struct channel *ch, uint32_t number, uint8_t error)
{
	if (matcher_of(ch) == NULL)
		return; /* the client matches */
	struct engine_receive *r = number != RMA_NO_COOKIE ? &matcher_of(ch)->receives[number]
							   : NULL;

	if (r != NULL && r->state == RECEIVE_FETCHES)
		match_engine_end(e, ch, r, error);
	fetch_ready(e, ch);
}

/* ------------------------------------------------------------------ a receive has a message */

static void
match_engine_describe(struct engine_receive *r, const struct match_message *m)
{
	r->source = m->key.source;
	r->tag = m->key.tag;
	const struct wire_match *h = (const struct wire_match *)m->entry->front;
	struct wire_immediate immediate;

	r->len = match_message_len(m->entry);
	r->flags = h->flags;
	if (likely(!(h->flags & WIRE_M_IMMEDIATE)))
		return;
	memcpy(&immediate, m->entry->front + sizeof(*h), sizeof(immediate));
	r->label = wire_be16(h->label);
	r->immediate = wire_be64(immediate.value);
}

static void
take_offer(struct engine *e, struct channel *ch, struct engine_receive *r,
	const struct match_message *m)
{
	struct matching *x = matcher_of(ch);
	struct wire_offer offer;

	memcpy(&offer, m->entry->front + wire_match_head(r->flags), sizeof(offer));
	r->offer = wire_be32(offer.id);
	match_queue_done(&x->queue, m);
	if (x->ready_head == NO_RECEIVE && fetch(e, ch, r))
		return;
	r->state = RECEIVE_READY;
	r->next = NO_RECEIVE;
	if (x->ready_head == NO_RECEIVE)
		x->ready_head = (uint32_t)(r - x->receives);
	else
		x->receives[x->ready_tail].next = (uint32_t)(r - x->receives);
	x->ready_tail = (uint32_t)(r - x->receives);
}

/* Give a message to a receive. taken: the client knows what it is, and has a place for it. */
static void
match_engine_receive(struct engine *e, struct channel *ch, struct engine_receive *r,
	const struct match_message *m, bool taken)
{
	const struct wire_match *h = (const struct wire_match *)m->entry->front;

	match_engine_describe(r, m);
	if (unlikely(r->flags & WIRE_M_RUNS) && !taken) {
		r->message = *m;
		/* this cannot fail: the store has a place for each message that may wait, and one
		 * less waits now */
		match_queue_keep(&matcher_of(ch)->queue, &r->message);
		r->state = RECEIVE_HOLDS;
		match_engine_tell(e, ch, (uint32_t)(r - matcher_of(ch)->receives), RECEIVE_WAITS,
			0);
		return;
	}
	if (r->len > r->local.len && !r->error)
		r->error = EMSGSIZE;
	if (h->op == WIRE_OFFER) {
		take_offer(e, ch, r, m);
		return;
	}
	uint8_t error = match_engine_place(e, ch, r, m->entry);

	done_with(e, ch, m);
	r->error = error ? error : r->error;
	match_engine_end(e, ch, r, 0);
}

/* ------------------------------------------------------------------ what landed */

static void
take_in(struct engine *e, struct channel *ch)
{
	struct matching *x = matcher_of(ch);
	struct match_message m;
	uint64_t handle;

	while (match_queue_next(&x->queue, &m, &handle)) {
		if (likely(handle < MATCH_ASIDE))
			match_engine_receive(e, ch, &x->receives[handle], &m, false);
		else
			done_with(e, ch, &m);
	}
	match_queue_spare(&x->queue);
	atomic_store_explicit(&x->given, x->queue.heads.given, memory_order_relaxed);
}

/* Match all that landed in channels that were touched. */
static void
match_landed(struct engine *e)
{
	bool more;

	/* room that is freed at one channel lets local messages land, which may add channels to the
	 * list */
	do {
		more = false;
		for (unsigned i = 0; i < e->dirty_count; i++) {
			struct channel *ch = e->dirty[i];
			uint32_t before;

			if (!ch->engine_matches)
				continue;
			before = matcher_of(ch)->queue.heads.ring.pos;
			if (ch->state != CHANNEL_OPEN ||
				lhs_peek(&matcher_of(ch)->queue.heads.ring) == NULL)
				continue;
			take_in(e, ch);
			more |= matcher_of(ch)->queue.heads.ring.pos != before;
		}
	} while (more);
}

/* ------------------------------------------------------------------ what the client asks */

static bool
set_local(struct channel *ch, struct engine_receive *r, const struct submission *s)
{
	r->local =
		(struct bytes){.space = &ch->space, .at = s->receive.local, .len = s->receive.len};
	r->error = 0;
	if (s->receive.len > REGION_BYTES_MAX)
		return false;
	if (s->receive.memory == MEMORY_COPIED || s->receive.len == 0)
		return true;
	r->local.memory = space_at(&ch->space, s->receive.memory, s->receive.local, s->receive.len);
	if (r->local.memory == NULL) {
		r->error = EFAULT;
		r->local.len = 0;
	}
	return true;
}

/* Post, probe or take: find the oldest waiting message that matches, if there is one. */
static void
look_for(struct engine *e, struct channel *ch, struct engine_receive *r, const struct submission *s)
{
	struct matching *x = matcher_of(ch);
	const struct match_want want = {s->receive.comm, s->receive.source, s->receive.tag,
		s->receive.ignore};
	uint32_t index = (uint32_t)(r - x->receives);
	struct match_message m;

	take_in(e, ch);
	uint32_t found = match_queue_find(&x->queue, &want, &m);

	r->was_posted = false;
	if (found == MATCH_NONE) {
		if (s->count != RECEIVE_POST) {
			match_engine_tell(e, ch, index, RECEIVE_NONE, 0);
			return;
		}
		r->was_posted = true;
		r->state = RECEIVE_POSTED;
		r->posted = match_posted_add(&x->queue.posted, &want, index);
		/* as many messages may have waited as can, and its own be in the ring still */
		take_in(e, ch);
		return;
	}
	if (s->count == RECEIVE_PROBE) {
		match_engine_describe(r, &m);
		match_engine_tell(e, ch, index, RECEIVE_FOUND, 0);
		return;
	}
	if (s->count == RECEIVE_POST) {
		match_unexpected_take(&x->queue.unexpected, found);
		match_engine_receive(e, ch, r, &m, false);
		return;
	}
	match_engine_describe(r, &m);
	if (!match_queue_keep(&x->queue, &m)) {
		match_engine_tell(e, ch, index, RECEIVE_NONE, ENOBUFS);
		return;
	}
	match_unexpected_take(&x->queue.unexpected, found);
	r->message = m;
	r->state = RECEIVE_HOLDS;
	match_engine_tell(e, ch, index, RECEIVE_FOUND, 0);
}

/* Do what the client submits about receives. false: malformed. */
static bool
receive_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct matching *x = matcher_of(ch);
	struct engine_receive *r = s->receive.index < x->max ? &x->receives[s->receive.index]
							     : NULL;

	if (r == NULL)
		return false;
	switch (s->count) {
	case RECEIVE_POST:
	case RECEIVE_PROBE:
	case RECEIVE_TAKE:
		if (r->state != RECEIVE_FREE && s->count != RECEIVE_POST) {
			/* the client must get an answer, or it would wait for ever */
			match_engine_tell(e, ch, s->receive.index, RECEIVE_NONE, EBUSY);
			return false;
		}
		if (r->state != RECEIVE_FREE || !set_local(ch, r, s))
			return false;
		look_for(e, ch, r, s);
		break;
	case RECEIVE_TAKEN: {
		const struct match_message m = r->message;

		if (r->state != RECEIVE_HOLDS || !set_local(ch, r, s))
			return false;
		match_engine_receive(e, ch, r, &m, true);
		break;
	}
	case RECEIVE_CANCEL:
		if (r->state == RECEIVE_POSTED && match_posted_cancel(&x->queue.posted, r->posted))
			match_engine_end(e, ch, r, ECANCELED);
		else
			match_engine_tell(e, ch, s->receive.index, RECEIVE_LATE, 0);
		break;
	default:
		return false;
	}
	atomic_store_explicit(&x->given, x->queue.heads.given, memory_order_relaxed);
	return true;
}

/* End posted receives into the memory, and let those that wait for a place fail: they would begin
 * transfers with it. This runs before lib/rma's service forgets the memory. */
static void
match_memory_gone(struct engine *e, struct channel *ch, const struct memory *m)
{
	struct matching *x = matcher_of(ch);

	if (!ch->engine_matches)
		return;
	for (uint32_t i = 0; i < x->max; i++) {
		struct engine_receive *r = &x->receives[i];

		if (r->local.memory != m)
			continue;
		if (r->state == RECEIVE_POSTED) {
			match_posted_cancel(&x->queue.posted, r->posted);
			match_engine_end(e, ch, r, EFAULT);
		} else if (r->state == RECEIVE_READY) {
			r->error = EFAULT;
			r->local.memory = NULL;
			r->local.len = 0;
		}
	}
}

static unsigned
match_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	if (!ch->engine_matches || !receive_submit(e, ch, s))
		submission_bad(e, ch);
	return 1;
}

const struct service_ops service_match = {
	.name = "match",
	.number = MATCH_SERVICE,
	.sends = 1u << WIRE_MATCHED / WIRE_CONTEXTS_MAX,
	.make = match_make,
	.make_context = match_make_context,
	.free_context = match_free_context,
	.join = match_join,
	.close = match_close,
	.memory_gone = match_memory_gone,
	.submit = {[SUBMIT_RECEIVE] = match_submit},
	.results = match_results,
	.landed = match_landed,
	.send_failed = message_failed,
};
