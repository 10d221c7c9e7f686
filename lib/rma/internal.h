/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of remote memory, shared by the sources of lib/rma. One thread.
 */
#ifndef PMX_RMA_INTERNAL_H
#define PMX_RMA_INTERNAL_H

#include <errno.h>
#include <string.h>

#include "base/likely.h"
#include "rma/atomic.h"
#include "rma/part.h"
#include "rma/rma.h"

#define COLD __attribute__((noinline, cold))

/* The state of a transfer; only op_becomes() changes it.
 *
 *     FREE -> HELD -> READY -> WAITS -> ENDED -> FREE     push, pull, pin, unpin, accept, atomic
 *     FREE -> PACKED -> WAITS -> ENDED                    frames packed by the client
 *     FREE -> OFFERED -> FETCHED -> ENDED                 offer, pulled by its receiver
 *             OFFERED -> READY -> WAITS -> ENDED          offer, granted by an ACCEPT: pushed
 *
 * An error takes a transfer from any state to ENDED, the end of its context to FREE. */
enum op_state {
	OP_FREE,
	OP_HELD,    /* waits for earlier transfers to the same context */
	OP_READY,   /* in the list of transfers with frames to send */
	OP_PACKED,  /* the client sends its frames, and the core does not have all of them yet */
	OP_WAITS,   /* the core has all of its frames: waits for bytes, or for the answer */
	OP_OFFERED, /* waits for the other side to fetch it */
	OP_FETCHED, /* the other side's PULL is being answered */
	OP_ENDED,   /* its result has not been pulled yet */
};

/* A transfer that a context asked for. */
struct op {
	struct transfer_desc d; /* our copy */
	struct rma_result result;
	struct op *next;       /* in the list that belongs to its state */
	struct rma_context *c; /* the context that asked for it */
	struct rma_bytes local;
	uint64_t sent;    /* PUSH: bytes given to the core; PULL: bytes received */
	uint64_t seen_at; /* when the other side last showed a sign of life */
	uint64_t age;     /* order of submission */
	uint32_t life;    /* OFFER: its receiver's life at the submission */
	uint8_t state;    /* enum op_state */
	bool asking;      /* a question about it is under way, or due */
	bool asks_pin;    /* it is counted in pin_places */
	bool watches;     /* OFFER: watches its receiver, since RMA_WATCH_BEGINS */
};

enum request_kind {
	REQUEST_ENDED, /* tell the initiator that its transfer ended */
	REQUEST_PULL,  /* send it what it asked for */
	REQUEST_FETCH, /* send it what an atomic operation found, which is in bits */
	REQUEST_EVENT, /* tell our application of the push first */
};

/* An answer that is owed to the initiator of a transfer. */
struct rma_request {
	struct rma_request *next;
	struct rma_context *c;   /* the target that owes it */
	struct rma_bytes source; /* PULL */
	struct part_iterator it; /* ... the iteration over its parts */
	struct part_run run;     /* ... what is left of the current run */
	uint64_t bits[TRANSFER_UNITS / 64];
	uint64_t base; /* ... the parts begin at this offset in the transfer */
	uint64_t sent; /* bytes of it that were sent */
	uint64_t key;  /* the region that it reads, or the id of an offer */
	struct event_slot event;
	uint32_t id;
	uint32_t error;      /* for wire_ended */
	uint16_t node, peer; /* the initiator that asked */
	uint8_t kind;        /* enum request_kind */
	bool in_parts;
	bool of_offer;
};

/* The pins that one asker has on one of our regions. */
struct pin {
	uint64_t key;        /* the region's */
	uint64_t told_at;    /* see pins.c */
	uint32_t count;      /* 1.. */
	uint32_t life;       /* of the asker's node */
	uint32_t id;         /* of its last PIN */
	uint16_t ctx;        /* the region's owner */
	uint16_t node, peer; /* the asker */
	bool tell;           /* the asker is to be told again that it has pinned */
};

/* A context of another node, or of this one, at which one of ours may have pins. */
struct pin_place {
	uint16_t node, ctx;
	uint32_t asked; /* PINs under way */
	bool held;      /* pins may be held there, as far as we know */
};

/* A push, one of whose frames was refused. */
struct refusal {
	uint32_t id;
	uint16_t ctx, node, peer;
	uint8_t error; /* 0: the place is free */
};

/* The part of a context's state that moves with it to another process. */
struct context_kept {
	uint64_t next_age, pushed, pulled, failed, served, refused;
	uint32_t regions;
	struct pin_place pin_places[RMA_PLACES];
};

struct rma_context {
	struct op *ops; /* the client's by place, then those of rma_fetch */
	struct rma_request *requests, *free_requests;
	struct rma_request *event_head, *event_tail; /* pushes to tell the application of, in
						      * order */
	struct rma_context *news;                    /* next in the list of contexts with news */
	uint32_t frames, own_frames;                 /* with the core; of these, those of own
						      * transfers */
	uint32_t ops_max, ops_used, held; /* length of ops; in use; of these, in OP_HELD */
	uint32_t events_waiting;
	uint32_t pins;    /* records of the pins that others have on its regions */
	uint32_t readers; /* frames that a deregistration waits for */
	uint32_t room;    /* entries to give back */
	uint16_t ctx;
	bool open;
	bool stopped; /* rma_stop */
	bool has_news, readers_gone;
	struct context_kept kept;
};

struct op_list {
	struct op *head, *tail;
};
struct request_list {
	struct rma_request *head, *tail;
};

/* The kind of the frames that were pulled last, which struct turn keeps until rma_sent. */
enum turn_kind {
	TURN_NONE,
	TURN_PUSH,     /* op */
	TURN_QUESTION, /* op: its one frame */
	TURN_ASK,      /* op: WIRE_ASK, or for an offer WIRE_NOTHING */
	TURN_PIECE,    /* request: bytes */
	TURN_PARTS,    /* request: runs */
	TURN_FETCH,    /* request: what it found */
	TURN_ENDED,    /* request and those behind it in the list: `items` answers */
	TURN_TOLD,     /* pin */
	TURN_LEAVES,   /* place */
};

struct turn {
	enum turn_kind kind;
	unsigned n;
	struct rma_frame *frames[RMA_BURST];
	struct op *op;
	struct rma_request *request;
	struct pin *pin;
	struct pin_place *place;
	struct part_iterator it; /* PARTS: the iteration as it stands behind the frame */
	struct part_run run;
	uint64_t bytes; /* PUSH, PIECE, PARTS: of all frames */
	uint32_t items;
	bool last;
};

struct rma {
	struct rma_config cfg;
	struct rma_context **contexts; /* by number; NULL: another lane's */
	struct rma_context *all;       /* contexts_count of them */
	uint32_t contexts_count;
	struct rma_frame *frames, *free_frames;
	uint32_t frames_free, own_out, answers_out, quota;
	uint32_t waiting; /* transfers under way */
	struct op_list ready, questions, ended;
	struct request_list requests;
	/* of stopped contexts: transfers in OP_READY, and REQUEST_PULLs */
	struct op_list stopped_ops;
	struct request_list stopped_requests;
	uint32_t events_waiting; /* of all contexts */
	uint32_t tells;          /* pins whose asker is to be told again */
	struct rma_context *news;
	uint64_t look_at; /* when ops_look() runs next */
	uint64_t ask_ticks, ask_offer_ticks, tell_ticks, look_ticks;
	struct turn turn;
	const struct rma_request *first_put_off; /* in this turn */
	unsigned answers, pushes;                /* attempts in this turn */
	struct region_table regions;
	struct pin *pins; /* regions_max of them; the first pins_used are in use */
	uint32_t pins_used;
	struct refusal refused[RMA_REFUSED];
};

static inline void
rma_count(const struct rma *r, enum rma_counter what, uint64_t n)
{
	r->cfg.counters[what] += n;
}

static inline void
context_has_news(struct rma *r, struct rma_context *c)
{
	if (c->has_news)
		return;
	c->has_news = true;
	c->news = r->news;
	r->news = c;
}

/* Give back the entry of the target's room that a message took. */
static inline void
context_gives_room(struct rma *r, struct rma_context *c)
{
	c->room++;
	context_has_news(r, c);
}

/* ---------------------------------------------------------------- frames (rma.c) */

/* Take a frame. Returns NULL if none is free, or if `most` of its kind (own or answers) are in
 * use. */
static inline struct rma_frame *
frame_take_below(struct rma *r, bool own, uint32_t most)
{
	struct rma_frame *f = r->free_frames;
	uint32_t *out = own ? &r->own_out : &r->answers_out;

	if (unlikely(f == NULL || *out >= most))
		return NULL;
	r->free_frames = f->next;
	r->frames_free--;
	*out += 1;
	f->out = true;
	f->own = own;
	f->runs = f->in_place = f->asks = f->marked = f->retried = f->ends_offer = false;
	f->source.memory = NULL;
	f->source.len = 0;
	return f;
}

/* Take a frame for an own transfer or for an answer. Each of these kinds leaves a quarter of the
 * frames to the other. */
static inline struct rma_frame *
frame_take(struct rma *r, bool own)
{
	return frame_take_below(r, own, r->quota);
}

/* Take a frame for a question whether another is still there. Questions must not be late, so they
 * may use half of the quarter that is left to answers. */
static inline struct rma_frame *
frame_take_ask(struct rma *r)
{
	return frame_take_below(r, true, r->quota + r->cfg.frames_max / 8);
}

/* Address the frame and add it to those of this turn. */
static inline void
frame_out(struct rma *r, struct rma_frame *f, const struct rma_context *c, uint16_t endpoint,
	uint16_t node, uint16_t dst, uint32_t head_len, uint32_t len)
{
	f->src = c->ctx | endpoint;
	f->node = node;
	f->dst = dst;
	f->head_len = head_len;
	f->len = len;
	r->turn.frames[r->turn.n++] = f;
}

/* ---------------------------------------------------------------- transfers (initiator.c) */

struct op *op_find(struct rma_context *c, uint32_t id);
void op_end(struct rma *r, struct rma_context *c, struct op *op, uint8_t error);
/* Return the transfer that a message with WIRE_T_OFFER names, if its sender may name it:
 * op_of_sender the context's offer to it; op_of_receiver the context's ACCEPT, into which it
 * pushes. NULL: there is none. In the rendezvous of a message (OFFER) the sides change roles: who
 * offers is the target of the receiver's PULL or ACCEPT, and after an ACCEPT the initiator of the
 * pushes. */
struct op *op_of_sender(struct rma_context *c, const struct rma_message *m);
struct op *op_of_receiver(struct rma_context *c, const struct rma_message *m);
/* Begin to push an offer, of which the receiver accepts at most len bytes as its own transfer
 * `id`. */
void op_accepted(struct rma *r, struct op *offer, uint32_t id, uint64_t len);
/* Take note that the receiver pulls what was offered. */
void op_fetched(struct rma *r, struct op *offer);
void ops_close(struct rma *r, struct rma_context *c);
void ops_memory_gone(struct rma *r, struct rma_context *c, const void *memory);
void ops_stop(struct rma *r, struct rma_context *c);
void ops_start(struct rma *r, struct rma_context *c, uint64_t now);
void ops_look(struct rma *r, uint64_t now);
void op_sent(struct rma *r, unsigned count, uint8_t error, uint64_t now);

/* ---------------------------------------------------------------- answers (answers.c) */

/* Take a request for a message, whose entry of room it keeps, and append it to the list of those to
 * answer. Returns NULL if none is free. */
struct rma_request *request_take(struct rma *r, struct rma_context *c, const struct rma_message *m,
	enum request_kind kind);
/* Answer that the message's transfer ended: with an errno, or 0 (wire_ended). */
void request_answer(struct rma *r, struct rma_context *c, const struct rma_message *m,
	uint32_t error);
/* Answer that the message's transfer ended without an error, once the application has been told of
 * the event. */
void request_event(struct rma *r, struct rma_context *c, const struct rma_message *m,
	const struct event_slot *event);
/* Fail those pulls of `c` for which `gone` returns true, because what they read is gone. */
void requests_fail(struct rma *r, struct rma_context *c,
	bool (*gone)(const struct rma_request *, const void *), const void *what, uint8_t error);
/* Fail the pulls that read the offer `id`, which has ended. */
void requests_offer_ends(struct rma *r, struct rma_context *c, uint32_t id);
void requests_sort(struct rma *r, struct request_list *l);
void requests_close(struct rma *r, struct rma_context *c);
void request_sent(struct rma *r, unsigned count, uint8_t error);

/* ---------------------------------------------------------------- targets (target.c) */

/* Fail the other pulls of an initiator to which an answer was not Acked, or their remaining frames
 * could pass for all of the answer. If `error` says that it cannot be reached, drop its pins as
 * well. */
void target_peer_failed(struct rma *r, struct rma_context *c, uint16_t node, uint16_t peer,
	uint8_t error);

/* ---------------------------------------------------------------- regions (registration.c) */

void registration_close(struct rma *r, struct rma_context *c);
void registration_memory_gone(struct rma *r, struct rma_context *c, const void *memory);

/* ---------------------------------------------------------------- pins (pins.c) */

/* Count a pin of the region `key` for the message's sender. Return 0, or ENOSPC. */
uint8_t remote_pin_grant(struct rma *r, struct rma_context *c, const struct rma_message *m,
	uint64_t key);
/* Release a pin of the region `key` for the message's sender. Return what to answer: 0 or ENOKEY,
 * with WIRE_NONE_LEFT if no pins are left. key 0: there is no such region. */
uint32_t remote_pin_release(struct rma *r, struct rma_context *c, const struct rma_message *m,
	uint64_t key);
/* Drop the pins that an asker has of the context's regions, because it ended, or cannot be
 * reached. */
void remote_pins_lost(struct rma *r, struct rma_context *c, uint16_t node, uint16_t peer);
/* Drop all pins of a region that ends; key 0: of all regions of the context. */
void remote_pins_end(struct rma *r, struct rma_context *c, uint64_t key);
/* Return whether the region is pinned by anyone whose node is still in the same life. Such askers
 * are told again that they have pinned it (pins.c, note 3). */
bool remote_pins_of_others(struct rma *r, struct rma_context *c, uint64_t key, uint64_t now);
/* Make the frame for a pin whose asker is to be told again. */
void remote_pins_tell(struct rma *r);
void remote_pin_told(struct rma *r, unsigned count, uint64_t now);
/* Take note that a context of ours begins to pin elsewhere. Return false if it may already have
 * pins at too many other contexts. */
bool pinning_begins(struct rma_context *c, struct op *op);
/* Take note that a PIN or UNPIN ended. */
void pinning_ends(struct rma_context *c, struct op *op, uint8_t error);
/* Take note that no pins are left where op went, as the answer said. */
void pinning_none_left(struct rma_context *c, const struct op *op);
bool pinning_any(const struct rma_context *c);
void pinning_left(struct rma *r, unsigned count, uint8_t error);

#endif
