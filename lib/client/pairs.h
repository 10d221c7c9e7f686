/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages between two applications of one user on one host, by memory that both map
 * (lib/channel/pair.h) and past the engine (PM-MPI: ranks of a host). What they are to each other
 * is agreed on through the primary, which introduces them and has no part in what follows: such a
 * pair outlives take-overs and restarts. All of it belongs to the context's thread. What is here
 * serves both kinds of messages; plain ones go on in plain.c, matched ones in lib/match/client.
 *
 * Design notes
 * 1. Order: a sender begins each kind with a mark by the engine, and the receiver reads that ring
 *    only from the mark on. So all that went by the engine before is received before, and nothing
 *    is waited for. From then on every message of the kind goes by the ring. What comes by the
 *    engine after the mark is of the number's next owner, so the ring is read first.
 * 2. A long matched message is offered, its head by the ring, and the receive that takes it copies
 *    the bytes from the sender's memory, once. So matched messages go by pairs only where the
 *    kernel lets both sides read each other's memory: processes of one user and one PID namespace,
 *    and where Yama restricts that (kernel.yama.ptrace_scope), root's. An engine could not fetch
 *    them: the head would come before it knows of the offer.
 * 3. The primary gives each side an end of a socket, by which they exchange the memory, which is
 *    sealed, and what shows that the other lives (a pidfd). The socket also wakes who sleeps: what
 *    the other side sends there can only be a byte too many, while a descriptor of its own choice
 *    could make a write wait for ever.
 * 4. Sockets and descriptors are looked at after LOOK_EVERY messages and looks for some, at most
 *    once in LOOK_US, since it takes a system call, and by who sends after PAIRS_STALE_MS. What was
 *    sent in between to a process that was killed is lost with what else that process had not
 *    received; one that closes its context says so at once.
 */
#ifndef PMX_CLIENT_PAIRS_H
#define PMX_CLIENT_PAIRS_H

#include <sys/socket.h>

#include "base/clock.h"
#include "channel/pair.h"
#include "client/client.h"
#include "core/wire/wire.h"

enum pair_state {
	PAIR_JOINS, /* the other side has not said hello yet */
	PAIR_OPEN,
	PAIR_ENDED, /* the other side is gone; what it sent is still received */
	PAIR_LEFT,  /* nothing is received any more, but messages in its memory are still held */
};

/* The messages of one kind. */
struct pair_flow {
	struct pair_end out, in;
	bool sends, receives; /* after the mark */
	bool marking;         /* the mark is under way: */
	pmx_send_id mark;
};

struct pair {
	struct pair *next; /* all of a context */
	struct pair_flow flow[PAIR_KINDS];
	struct pair_longs longs;
	uint64_t held;       /* slots of long messages that the application holds, a bit each ... */
	uint32_t held_bytes; /* ... and their bytes */
	struct pair_shm *shm; /* NULL: side 1, and the other has not given it yet */
	uint8_t side;
	uint8_t state; /* enum pair_state */
	bool reads;    /* the kernel lets this process read the other's memory */
	bool in_place; /* and this process is not protected from the other */
	uint16_t ctx;  /* the other side */
	int socket, process;
	int pid; /* the other side's, by the primary's word */
	uint64_t id, word;
	uint32_t serial;                /* of the pairs of this context */
	bool full;                      /* no place was free for its next plain message ... */
	uint32_t full_at;               /* ... when so many had been given back */
	uint32_t unposted;              /* looks at matched messages without a posted receive */
	uint32_t fetched;               /* the other side's pair_side.fetched when last looked at */
	uint64_t offered;               /* offers of this side under way, a bit each */
	uint32_t requests[PAIR_OFFERS]; /* whose they are */
};

struct pairs {
	struct {
		struct pair *pair; /* not ENDED; NULL: none */
		uint16_t left;     /* messages until it is asked for */
	} of[WIRE_CONTEXTS_MAX];   /* by the other side's context */
	struct pair *all;
	uint32_t count, asked, turns, serial;
	int64_t looked_at; /* base/clock.h */
	int64_t heard_at;  /* the same, by clock_coarse_ms() */
	int64_t ask_at;    /* when those are answered again who could not be */
	struct pair *left; /* those that are PAIR_LEFT, linked by next */
	struct pair *from; /* whose plain messages are received next; NULL: of the first */
};

/* Return the pair by which messages of that kind are to be sent to that context, or do what leads
 * to one. NULL: not now. The kind's mark, which is sent before the first, begins with that word. */
struct pair *pairs_begin(struct pmx_context *ctx, struct pmx_addr to, enum pair_kind kind,
	uint64_t first);
/* Note that a message of len bytes goes by the engine: a long one is reason enough to ask for a
 * pair soon. */
void pairs_hasten(struct pmx_context *ctx, struct pmx_addr to, uint64_t len);
/* Answer, now and then, who asks for a pair, go on with those that begin, and end those
 * whose other side is gone. To be called with each look for messages. */
void pairs_look(struct pmx_context *ctx);
/* Return whether matched messages to that context may soon go by a pair. */
bool pairs_may_begin(const struct pmx_context *ctx, struct pmx_addr to);
/* Read the ring of that kind of the pair with that ID from now on: the other side's mark has come.
 */
void pairs_mark(struct pmx_context *ctx, uint16_t peer, uint64_t id, enum pair_kind kind);
/* Note that there is no message to read in one of the pair's rings, or (broken) that it holds what
 * no writer makes. The pair is gone afterwards if it is broken, or has ended and all of it was
 * read. */
void pair_is_read(struct pmx_context *ctx, struct pair *p, bool broken);
/* Free a pair that is PAIR_LEFT and of which nothing is held any more. */
void pairs_free_left(struct pmx_context *ctx, struct pair *p);
/* Return whether a matched message has landed in a ring, or an offer has been fetched. */
bool pairs_landed(const struct pmx_context *ctx);
/* Leave the pairs, which are the parent's, in a child of fork(). */
void pairs_forget(struct pmx_context *ctx);
/* Wake the other side, which sleeps. */
void pair_wake(struct pair *p);
/* Offer bytes for a request. Return the number to send with the head, or PAIR_NONE: as many as can
 * be are under way. expected: it will be fetched even if no other is. */
uint32_t pair_offer(struct pair *p, const void *bytes, uint32_t request, bool expected);
/* Copy what the pair of that serial offers by that number, and tell its other side of it. 0, or an
 * errno. */
int pairs_fetch(struct pmx_context *ctx, uint32_t serial, uint32_t offer, void *to, uint64_t len);
/* End the requests whose offers the other side has fetched. */
void pair_fetched(struct pmx_context *ctx, struct pair *p);

/* Longest message, without its head, that is copied through the ring; through the memory beside it,
 * where a copy uses the same lines of the caches as the one before. Longer matched ones are
 * offered. */
#define PAIR_SHORT 1024
#define PAIR_EAGER 16384

/* Return whether the other side has closed its context. */
static inline bool
pair_is_closed(const struct pair *p)
{
	return atomic_load_explicit(&p->shm->side[!p->side].closed, memory_order_relaxed) != 0;
}

/* Return whether the context is stopped (lib/preempt). */
static inline bool
ctx_stopped(const struct pmx_context *ctx)
{
	return unlikely(atomic_load_explicit(&ctx->shm->stopped, memory_order_relaxed) != 0);
}

/* Return whether messages of that kind are to be read from the pair's ring: the other side's mark
 * has come, or never will. */
static inline bool
pair_is_marked(const struct pair *p, enum pair_kind kind)
{
	return likely(p->flow[kind].receives) ||
		(p->shm != NULL && atomic_load(&p->shm->side[!p->side].say[kind].engines));
}

/* Return whether messages of that kind may be read from the pair's ring now. landed: some that came
 * by engines are still to be received. */
static inline bool
pair_receives(const struct pmx_context *ctx, struct pair *p, enum pair_kind kind, bool landed)
{
	struct pair_flow *f = &p->flow[kind];

	if (unlikely(!f->receives) && !landed)
		f->receives = pair_is_marked(p, kind);
	return f->receives && likely(p->state != PAIR_JOINS) && !ctx_stopped(ctx);
}

/* Return whether a message of that kind is in the pair's ring. */
static inline bool
pair_is_filled(const struct pair *p, enum pair_kind kind)
{
	const struct pair_end *in = &p->flow[kind].in;

	return atomic_load_explicit(pair_word(in, in->pos), memory_order_acquire) != 0;
}

/* Return whether a message of that kind is in the pair's ring, and may be received. */
static inline bool
pair_has(const struct pmx_context *ctx, const struct pair *p, enum pair_kind kind)
{
	return pair_is_marked(p, kind) && p->state != PAIR_JOINS && !ctx_stopped(ctx) &&
		pair_is_filled(p, kind);
}

/* Return whether the pair is with that context and brought messages of that kind which are to be
 * received before the next one that came from there by the engine: note 1. */
static inline bool
pair_precedes(const struct pair *p, uint16_t peer, enum pair_kind kind)
{
	return p->ctx == peer && p->flow[kind].receives && pair_is_filled(p, kind);
}

/* A process that was killed is noticed so soon at least by who only sends to it. */
#define PAIRS_STALE_MS 20

/* Return whether messages of that kind go by the pair, whose other side reads them, as far as is
 * known. */
static inline bool
pair_sends(const struct pmx_context *ctx, const struct pair *p, enum pair_kind kind)
{
	return likely(p != NULL && p->flow[kind].sends && !pair_is_closed(p) &&
		clock_coarse_ms() - ctx->pairs->heard_at < PAIRS_STALE_MS);
}

/* Set *at to where a message of len bytes is to be written, for pair_send(). 0; -EPIPE: the engine
 * is gone; -EAGAIN: the ring is full, and the pair may have ended, or the context is stopped. */
static inline int
pair_message(struct pmx_context *ctx, struct pair *p, enum pair_kind kind, uint32_t len,
	uint8_t **at)
{
	if (unlikely(ctx_gone(ctx)))
		return -EPIPE;
	if (ctx_stopped(ctx))
		return -EAGAIN;
	*at = pair_begin(&p->flow[kind].out, len);
	if (likely(*at != NULL))
		return 0;
	pairs_look(ctx);
	return -EAGAIN;
}

/* Do what pair_message() does, for a message whose len bytes lie beside the ring, and are to be
 * written at *bytes, and a head of head_len bytes at *at; for pair_send_long(). -EAGAIN also if
 * there is no room beside the ring. */
static inline int
pair_long_message(struct pmx_context *ctx, struct pair *p, enum pair_kind kind, uint32_t head_len,
	uint32_t len, uint8_t **at, uint8_t **bytes)
{
	struct pair_long l;
	int result = pair_message(ctx, p, kind, sizeof(l) + head_len, at);

	if (unlikely(result != 0))
		return result;
	if (unlikely(!pair_long_begin(&p->longs, len, &l))) {
		pairs_look(ctx);
		return -EAGAIN;
	}
	memcpy(*at, &l, sizeof(l));
	*at += sizeof(l);
	*bytes = p->longs.at + l.start;
	return 0;
}

/* Wake the other side if it sleeps. To be called after something was written that it looks for. */
static inline void
pair_tell(struct pair *p)
{
	/* full fence: it must be visible before the flag is read; pairs with
	 * pmx_before_select's */
	atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&p->shm->side[!p->side].sleeps, memory_order_relaxed)))
		pair_wake(p);
	STEP();
}

static inline void
pair_sent(struct pmx_context *ctx, struct pair *p)
{
	ctx->stat.sent++;
	ctx->shm->paired.sent++;
	ctx->pairs->turns++;
	pair_tell(p);
}

static inline void
pair_send(struct pmx_context *ctx, struct pair *p, enum pair_kind kind, uint32_t len)
{
	pair_publish(&p->flow[kind].out, len);
	pair_sent(ctx, p);
}

static inline void
pair_send_long(struct pmx_context *ctx, struct pair *p, enum pair_kind kind, uint32_t head_len)
{
	pair_publish_as(&p->flow[kind].out, (uint32_t)sizeof(struct pair_long) + head_len,
		PAIR_LONG);
	pair_sent(ctx, p);
}

extern const struct client_service client_pairs;

#endif
