/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages of a context: what the verbs (match.c) share with the matching, which is done
 * either by this thread, over the LHS ring (ring.c), or by the engine (engine.c). All
 * of it belongs to the context's thread.
 */
#ifndef PMX_CLIENT_MATCH_H
#define PMX_CLIENT_MATCH_H

#include <stdlib.h>

#include "match/client/layout.h"
#include "match/queue.h"
#include "rma/client/rma.h"

enum request_state {
	REQUEST_FREE,
	REQUEST_POSTED,  /* a receive without a message */
	REQUEST_FETCHES, /* a receive with a message whose bytes have not come yet */
	REQUEST_OFFERED, /* a send that waits to be fetched */
	REQUEST_SENT,    /* a send that waits for its Ack */
	REQUEST_ASKS,    /* a probe that waits for the engine's answer */
	REQUEST_TAKEN,   /* a message that a probe took */
	REQUEST_LENT,    /* what it is for is known to another service */
	REQUEST_ENDED,
};

struct match_request {
	uint32_t uses;
	uint32_t next;   /* next in its list: free, match.starting, sent, or ended */
	uint8_t state;   /* enum request_state */
	bool quiet;      /* the caller wanted no request: freed when it ends */
	bool queued;     /* PMX_QUEUED: goes to match.ended when it ends */
	bool was_posted; /* it was posted before its message came */
	uint8_t flags;   /* of the message: WIRE_M_* */
	uint32_t offer;  /* FETCHES: the sender's transfer */
	uint32_t posted; /* number of the posted receive */
	uint32_t pin;    /* of the local memory, or PIN_NONE */
	uint8_t kind;    /* enum receive_kind: what the engine is asked */
	uint8_t answer;  /* enum receive_result, 0: none yet */
	struct pmx_status status;
	uint64_t cookie; /* PMX_QUEUED */
	struct match_layout layout;
	uint8_t *staging; /* the message in one piece if the layout is not; malloc()ed */
	uint64_t staged;  /* its bytes */
	pmx_send_id sent;
	struct match_want want; /* for the engine */
	struct match_message taken;
};

struct match_list {
	uint32_t head, tail;
};

struct match {
	struct match_queue queue; /* used when this thread matches */
	bool by_engine;
	struct match_request *requests; /* array of max; memory is touched only as needed */
	uint32_t max, used, free, live;
	uint32_t receive_max;       /* receives leave the others to sends and probes */
	struct match_list starting; /* requests that wait for a place for their transfer, or for
				     * room in the submission ring */
	struct match_list sent;     /* REQUEST_SENT */
	struct match_list ended;    /* REQUEST_ENDED, PMX_QUEUED: for pmx_poll_ended() */
	uint32_t offers, offers_max, expected_max; /* expected_max: also of PMX_EXPECTED */
	uint32_t eager_max;          /* longest message that is sent eagerly (copied), bytes */
	uint32_t eager_most;         /* rendezvous = auto: upper limit of eager_max; otherwise 0 */
	double copy_rate;            /* bytes a nanosecond */
	uint32_t one_max;            /* longest eager message in one buffer, bytes */
	uint32_t published, publish; /* entries that the engine was told are free; told after this
				      * many */
	uint32_t buffers;
	uint32_t cursor; /* copy_bulk(): places before this one have been looked at */
	uint64_t renumbered;
	uint64_t heap, heap_max; /* bytes of bulk that was copied to the heap, and their limit */
	struct pmx_match_stat stat;
};

static inline void
list_append(struct match *x, struct match_list *l, uint32_t i)
{
	x->requests[i].next = NO_REQUEST;
	if (l->head == NO_REQUEST)
		l->head = i;
	else
		x->requests[l->tail].next = i;
	l->tail = i;
}

/* Note how the caller is told of the end of what m describes. wanted: it wants a request. */
static inline void
request_told(struct match_request *r, const struct pmx_matched *m, bool wanted)
{
	r->queued = (m->flags & PMX_QUEUED) != 0;
	r->quiet = !wanted && !r->queued;
	r->cookie = m->cookie;
}

/* Take a free request. Return its index, or NO_REQUEST if all are in use. */
static inline uint32_t
request_take(struct match *x)
{
	uint32_t i = x->free;

	if (likely(i != NO_REQUEST))
		x->free = x->requests[i].next;
	else if (x->used < x->max)
		i = x->used++;
	else
		return NO_REQUEST;
	struct match_request *r = &x->requests[i];

	r->quiet = r->queued = false;
	r->was_posted = false;
	r->flags = 0;
	r->staging = NULL;
	r->pin = PIN_NONE;
	r->status.error = 0;
	x->live++;
	return i;
}

/* Take a free request for a receive, as request_take(), but not one of the last: if receives had
 * all of them, what they wait for could never be asked for. */
static inline uint32_t
request_take_receive(struct match *x)
{
	return likely(x->live < x->receive_max) ? request_take(x) : NO_REQUEST;
}

static inline void
request_free(struct match *x, uint32_t i)
{
	struct match_request *r = &x->requests[i];

	r->state = REQUEST_FREE;
	r->uses++;
	r->next = x->free;
	x->free = i;
	x->live--;
}

static inline void
request_end(struct pmx_context *ctx, struct match_request *r, int error)
{
	struct match *x = ctx->match;

	if (unlikely(error != 0) && r->status.error == 0)
		r->status.error = error;
	if (unlikely(r->staging != NULL)) {
		free(r->staging);
		r->staging = NULL;
	}
	r->state = REQUEST_ENDED;
	ctx->news = true;
	if (r->queued) {
		list_append(x, &x->ended, (uint32_t)(r - x->requests));
	} else if (r->quiet) {
		x->stat.errors += r->status.error != 0;
		request_free(x, (uint32_t)(r - x->requests));
	}
}

static inline struct pmx_addr
addr_of(uint32_t source)
{
	return (struct pmx_addr){(uint16_t)(source >> 16), (uint16_t)source};
}

/* match.c: lend a request for what is not of a message. Give its index, and what the application is
 * to name it by. 0, -EAGAIN, -ENOMEM, -EPIPE. */
int lend_request(struct pmx_context *ctx, uint32_t *index, pmx_request *request);
/* End a lent request, with that status. */
void lent_request_ends(struct pmx_context *ctx, uint32_t index, const struct pmx_status *status);

/* request.c */
/* Copy a whole message of len bytes, in one piece at `bytes`, to its place. Return 0, or the error
 * that pmx_test() reports. */
int receive_place(struct match_request *r, const uint8_t *bytes, uint64_t len);
/* End a receive after its bytes have been placed, and update its twin if it has one. */
void receive_complete(struct pmx_context *ctx, struct match_request *r, int error);
/* Return whether the engine writes the message's bytes directly to their place; otherwise it writes
 * them into `staging`. */
static inline bool
is_direct(const struct match_layout *l)
{
	return layout_is_plain(l) || (l->part != NULL && l->part->kind == PMX_PART_TWIN);
}

/* Set what a status says of a message by its head, which the message has been checked to have. */
static inline void
status_describe(struct pmx_status *s, const struct match_key *key, const uint8_t *front)
{
	const struct wire_match *h = (const struct wire_match *)front;
	struct wire_immediate immediate;

	s->source = addr_of(key->source);
	s->flags = s->label = 0;
	s->tag = key->tag;
	if (likely(!(h->flags & WIRE_M_IMMEDIATE)))
		return;
	memcpy(&immediate, front + sizeof(*h), sizeof(immediate));
	s->flags = PMX_IMMEDIATE;
	s->label = wire_be16(h->label);
	s->immediate = wire_be64(immediate.value);
}

/* ring.c */
int ring_open(struct pmx_context *ctx);
void ring_close(struct pmx_context *ctx);
int ring_progress(struct pmx_context *ctx);
/* Move everything that waits out of the channel, which ends. 0, -ENOBUFS, or -ENOMEM. */
int ring_leave(struct pmx_context *ctx);
void ring_rejoin(struct pmx_context *ctx);
/* Begin a receive: it takes the oldest waiting message that matches, or is posted. */
void ring_receive(struct pmx_context *ctx, uint32_t i, const struct match_want *want);
/* Look for a waiting message. 1: *status describes it, and unless `take` is NO_REQUEST that request
 * has it now; 0: there is none; -ENOBUFS. */
int ring_probe(struct pmx_context *ctx, const struct match_want *want, struct pmx_status *status,
	uint32_t take);
void ring_receive_taken(struct pmx_context *ctx, struct match_request *r);
bool ring_cancel(struct pmx_context *ctx, struct match_request *r);
void ring_fetched(struct pmx_context *ctx, struct match_request *r, uint8_t error);

/* Give entries that are no longer needed back to the engine, when there are enough of them. */
static inline void
ring_publish(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	if (likely(x->queue.heads.given - x->published < x->publish))
		return;
	x->published = x->queue.heads.given;
	/* release: this thread's reads of the entries come before the engine writes them again */
	STEP();
	atomic_store_explicit(&ctx->shm->matched_pos, x->published, memory_order_release);
	STEP();
	ctx_doorbell(ctx);
}

/* Receive by the fast path in the common case: a single receive is posted, into one piece, and the
 * next entry is a message that it takes, in its entry or one buffer. To be called only if one is
 * posted. false: not this case, and nothing has changed. */
static inline bool
ring_receive_only(struct pmx_context *ctx, const struct lhs_entry *e)
{
	struct match *x = ctx->match;
	struct match_posted *p = &x->queue.posted;
	const struct match_receive *posted = &p->receives[p->only];
	struct match_request *r = &x->requests[posted->handle];
	uint32_t len = e->len - (uint32_t)sizeof(struct wire_match), bulk = e->bulk;
	uint64_t head, tag;

	memcpy(&head, e->front, sizeof(head));
	memcpy(&tag, e->front + sizeof(head), sizeof(tag));
	const struct match_key key = {wire_be32((uint32_t)(head >> 32)),
		(uint32_t)e->src_node << 16 | e->src_ctx, wire_be64(tag)};

	/* compares op, and that the flags and the reserved field are 0 */
	if (unlikely((uint32_t)head != WIRE_EAGER || len > r->layout.len ||
		    e->src_node == ctx->near_node || !layout_is_plain(&r->layout) ||
		    (bulk == LHS_NO_BULK ? len > x->queue.heads.ring.split
					 : (bulk & LHS_CHAINED) != 0) ||
		    !match_accepts(&posted->want, &key)))
		return false;
	if (likely(bulk == LHS_NO_BULK)) {
		lhs_copy(r->layout.data, e->front + sizeof(struct wire_match), len);
	} else {
		memcpy(r->layout.data,
			(const uint8_t *)ctx->shm + e->bulk_off + sizeof(struct wire_match), len);
		ctx_release(ctx, bulk);
	}
	match_posted_leave_only(p);
	match_head_skip(&x->queue.heads);
	ring_publish(ctx);
	x->stat.matched++;
	r->status.source = addr_of(key.source);
	r->status.flags = r->status.label = 0;
	r->status.tag = key.tag;
	r->status.len = len;
	request_end(ctx, r, 0);
	return true;
}

/* engine.c: the counterparts */
int offload_progress(struct pmx_context *ctx);
int offload_receive(struct pmx_context *ctx, uint32_t i);
int offload_probe(struct pmx_context *ctx, const struct match_want *want, struct pmx_status *status,
	uint32_t i, bool take);
int offload_receive_taken(struct pmx_context *ctx, struct match_request *r);
bool offload_cancel(struct pmx_context *ctx, struct match_request *r);
void offload_results(struct pmx_context *ctx, const struct completion *c);

/* Return the request of that number, or NULL if it has been freed. */
static inline struct match_request *
request_of(struct match *x, pmx_request id)
{
	uint32_t i = (uint32_t)id - 1;

	if (x == NULL || i >= x->used || x->requests[i].uses != (uint32_t)(id >> 32) ||
		x->requests[i].state == REQUEST_FREE)
		return NULL;
	return &x->requests[i];
}

/* Look at everything that could end requests. 0, or -EPIPE if the engine is gone. */
static inline int
match_progress(struct pmx_context *ctx)
{
	return unlikely(ctx->match->by_engine) ? offload_progress(ctx) : ring_progress(ctx);
}

extern const struct client_service client_match;

#endif
