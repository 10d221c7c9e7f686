/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory, sans-IO (RMA-1 to RMA-3; RHiNET, 1999, sections 2.2 to 2.5 and 2.7): the state
 * that one lane keeps of its contexts' regions, of the transfers that they started, and of those
 * that others start with them. One `struct rma` belongs to one lane of the engine (or to one
 * simulated node), and only that thread calls it. The caller passes in submissions, messages,
 * acknowledgements and the time, and pulls frames, placements, results and room to give back. The
 * library reads no clock, touches no application's memory, allocates nothing after rma_init, and
 * calls nothing but mem* and the hooks of its configuration, by which it asks its caller.
 *
 * Design notes
 * 1. A context has two endpoints here: a target and an initiator (wire.h). Every frame of a
 *    transfer is a message of one frame from an initiator to a target or back, so order,
 *    retransmission, credit and shares are the core's. Initiators never hold what they receive, so
 *    answers always get through. A target holds an entry of its room for each request that it has
 *    not answered yet, so its queue is bounded, and when it is full the initiators wait.
 * 2. A frame of a push carries its own destination address, so its bytes are copied once, straight
 *    from the buffer in which they arrived. A target keeps no state of a push but, once the last
 *    frame has come, the answer that it owes.
 * 3. When an answer is long in coming, the initiator asks the target about the transfer (WIRE_ASK).
 *    Then the question is not Acked, or the answer comes, or the target says that it does not know
 *    the transfer: each of these ends it.
 * 4. Within a node the same frames bypass the core: the caller passes them to the message functions
 *    of the other lane's rma, and acknowledges them itself.
 */
#ifndef PMX_RMA_H
#define PMX_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channel/channel.h"
#include "rma/region.h"
#include "core/wire/wire.h"

struct rma;

#define RMA_BURST   8   /* most frames of one transfer before another gets its turn */
#define RMA_REFUSED 256 /* pushes with refused frames that are remembered at once */
#define RMA_PLACES  64  /* other contexts at which one context may have pins */

/* Indices of the counters in the caller's array. */
enum rma_counter {
	RMA_BAD_TRANSFERS,    /* malformed messages to transfer endpoints */
	RMA_REFUSED_ACCESSES, /* accesses that a region's owner did not allow */
	RMA_PINS_GRANTED,
	RMA_PINS_RELEASED,
	RMA_PINS_REFUSED,
	RMA_COUNTERS
};

enum rma_watch {
	RMA_WATCH_BEGINS,
	RMA_WATCH_GOES_ON,
	RMA_WATCH_ENDS,
};

/* All limits are fixed at init. */
struct rma_config {
	uint16_t node;                       /* own number */
	uint32_t contexts_max;               /* numbers of contexts: 0..contexts_max - 1 */
	uint32_t contexts_from, contexts_by; /* this lane's contexts: from, from + by, from + 2 by,
					      * ... */
	uint32_t transfers_max;              /* transfers under way of a context, by its client:
					      * 1..1024 */
	uint32_t fetches_max;                /* ... and by rma_fetch; at most 1024 together */
	uint32_t requests_max;  /* requests to a context's target that may await their answers: the
				 * entries of that endpoint's room */
	uint32_t regions_max;   /* of all contexts: 1..65535 */
	uint32_t frames_max;    /* frames of the lane that the core may have at once; 8.. */
	uint32_t payload_max;   /* bytes of a frame behind a struct wire_transfer */
	uint64_t ticks_per_sec; /* rate of every `now` */
	uint32_t ask_us;        /* silence after which an answer is asked for */
	uint32_t ask_offer_us;  /* silence after which the receiver of an offer is asked */
	uint64_t *counters;     /* RMA_COUNTERS of them, the caller's */
	/* Returns the epoch of another node's current life; 0: it is not there. */
	uint32_t (*life)(void *arg, uint16_t node);
	/* Returns a number that changes when matched messages to that context, of any node, reach a
	 * later life of it (proto_flow_life); 0: it is not known now. Each offer calls it with
	 * BEGINS first, then with GOES_ON any number of times and, unless BEGINS returned 0, with
	 * ENDS. */
	uint32_t (*receiver)(void *arg, uint16_t ctx, uint16_t node, uint16_t peer,
		enum rma_watch watch, uint64_t now);
	/* Returns the piece of a context's memory with that number if [at, at + len) lies in it;
	 * otherwise NULL. */
	void *(*memory)(void *arg, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len);
	/* Has the region's owner taken its memory away (`watched` of struct region)? */
	bool (*revoked)(void *arg, uint16_t ctx, uint32_t watched);
	/* Is that other context, of any node, a member of a group of this one? */
	bool (*member)(void *arg, uint16_t ctx, uint32_t group, uint16_t node, uint16_t peer);
	void *arg; /* of all of them */
};

/* Bytes of a context's memory. */
struct rma_bytes {
	void *memory; /* the caller's handle of the piece that they lie in; NULL: none */
	uint64_t at;  /* address in the client */
	uint64_t len;
	uint16_t ctx;
};

/* One frame of a transfer, in use from rma_tx_* until rma_acked. There are frames_max of them. */
struct rma_frame {
	/* set by the caller once for each frame, and again when its buffer changes: where the head
	 * is written; sizeof(struct wire_transfer) + payload_max bytes, aligned to 8 */
	struct wire_transfer *head;
	void *user; /* the caller's */
	/* bytes to copy to head + head_len; len 0: none. If `runs` is set, runs follow head_len up
	 * to `len`: each is a struct wire_run that is already written, with room behind it to which
	 * its bytes are to be copied from source.at + the run's offset */
	struct rma_bytes source;
	uint64_t runs_from;      /* offset in the source at which the first run's skip begins */
	uint32_t head_len;       /* bytes that the library wrote */
	uint32_t len;            /* bytes of the message, all */
	uint32_t id;             /* of the transfer, if a context of this lane started it */
	uint16_t src, node, dst; /* own endpoint; where to */
	bool runs;
	bool in_place;   /* set by the caller before rma_sent: nothing was copied, the link reads
			  * the source in place */
	bool own;        /* sent by an initiator, which is told of errors */
	bool asks;       /* WIRE_ASK */
	bool out;        /* not in the free list */
	bool marked;     /* a deregistration waits for it */
	bool retried;    /* it was sent again after its flow was reset, or must not be */
	bool ends_offer; /* the last of an answer to a PULL of an offer, which is `id` */
	struct rma_frame *next; /* in the free list */
};

/* A message of a transfer: its head, and the bytes that follow it, which may lie elsewhere. */
struct rma_message {
	const struct wire_transfer *head;
	const uint8_t *bytes;
	uint32_t len;        /* of the bytes */
	uint16_t node, peer; /* the sender: its context number without the endpoint bits */
};

/* The place to which the bytes of a message go. */
struct rma_place {
	struct rma_bytes to; /* starting at to.at */
	uint64_t offset;     /* with runs: offset in `to` from which the first run's skip counts */
	bool runs;           /* the bytes are runs; one that does not fit `to` is EPROTO */
	uint8_t op, type;    /* RMA_CHANGE: enum wire_atomic_op, wire_atomic_type */
};

enum rma_heard {
	RMA_HEARD,  /* nothing more to do */
	RMA_PLACE,  /* its bytes are to be put into *place */
	RMA_CHANGE, /* rma_change() is to be applied to the bytes of *place */
};

/* A transfer that ended: a client's, or one begun by rma_fetch. */
struct rma_result {
	const struct transfer_desc *desc; /* the copy made at the submission */
	uint32_t cookie;                  /* that of struct rma_fetch */
	uint16_t ctx;
	uint16_t place; /* its place in the channel's table */
	uint8_t error;  /* 0 or an errno */
	bool fetched;   /* it was begun by rma_fetch */
};

/* The things that the caller is to do for a context. */
struct rma_news {
	uint16_t ctx;
	uint32_t room;     /* entries of its target's room to give back (proto_ctx_room) */
	bool readers_gone; /* a deregistration that waited has ended */
};

/* Results of rma_has: what there is to pull. */
#define RMA_HAS_RESULTS 0x1u  /* rma_result */
#define RMA_HAS_NEWS    0x2u  /* rma_news */
#define RMA_HAS_ANSWERS 0x4u  /* rma_tx_answers */
#define RMA_HAS_EVENTS  0x8u  /* rma_event, of some context */
#define RMA_HAS_WORK    0x10u /* transfers are under way: rma_tx_transfers, rma_tick */

/* A pull that a lane does by itself: for a receive that matched an offer, or of an area. */
struct rma_fetch {
	uint8_t kind; /* TRANSFER_PULL, TRANSFER_ACCEPT */
	uint16_t node, ctx;
	bool area;     /* from the beginning of the area that `from` names as in a message */
	uint64_t from; /* otherwise: the offer */
	uint32_t use;  /* a number that changes from one to the next of the context */
	uint64_t len;
	struct rma_bytes local;
	uint32_t cookie; /* returned with its result */
};

struct rma_stat {
	uint32_t transfers;       /* under way */
	uint64_t pushed, pulled;  /* bytes of own transfers that succeeded */
	uint64_t failed;          /* own transfers that failed */
	uint64_t served, refused; /* transfers of others */
};

/* Return the bytes of memory that an rma of this configuration needs; 0 if the configuration is
 * invalid. */
size_t rma_memsize(const struct rma_config *config);
/* Build an rma in `memory` (64-byte aligned, zeroed, rma_memsize bytes, owned by the caller).
 * Returns NULL if the configuration is invalid. */
struct rma *rma_init(void *memory, const struct rma_config *config);
/* Return frame i of frames_max, so that the caller can fill in its own fields before the first
 * pull. */
struct rma_frame *rma_frame(struct rma *r, uint32_t i);

/* ------------------------------------------------------------------ a context's life */

/* Open the context, with nothing registered and nothing under way. */
void rma_open(struct rma *r, uint16_t ctx);
/* Close the context and end everything under way with it, without results. Frames that the core
 * still has are acknowledged later all the same.
 */
void rma_close(struct rma *r, uint16_t ctx);
/* Network preemption: until rma_start the context's own transfers send nothing more, and it answers
 * no pull. What others push arrives, since its memory is there; so do atomic operations.
 * Idempotent. */
void rma_stop(struct rma *r, uint16_t ctx);
void rma_start(struct rma *r, uint16_t ctx, uint64_t now);
/* Return whether a context that closed has to tell others that it left, because they may hold pins
 * for it. rma_tx_leaving gives the frames that tell them, one per call; use it like
 * rma_tx_answers. */
bool rma_leaves(const struct rma *r, uint16_t ctx);
struct rma_frame **rma_tx_leaving(struct rma *r, uint16_t ctx, unsigned *n);
/* Return whether the core still has frames of the context. */
bool rma_has_frames(const struct rma *r, uint16_t ctx);
/* End the regions in a piece of the context's memory that goes away, and all that reads or writes
 * it. */
void rma_memory_gone(struct rma *r, uint16_t ctx, const void *memory);

/* Register a region. Of *region, the fields base, len, area, rights, memory, method and watched are
 * used; `random` becomes part of the key. Returns 0 and *key, or -EINVAL, -EEXIST or -ENOSPC (as
 * region_add does; -ENOSPC also if the context has half of all places). */
int rma_register(struct rma *r, uint16_t ctx, const struct region *region, uint64_t random,
	uint64_t *key);
/* Remove a region. Returns 0 if it is gone; 1 if no new access can reach it, but frames that still
 * read it are under way, whose end rma_news reports; -ENOKEY; or -EBUSY if others have pinned
 * it. */
int rma_deregister(struct rma *r, uint16_t ctx, uint64_t key, uint64_t now);

/* ------------------------------------------------------------------ transfers */

/* Begin the transfer at a place of the client's table, whose description is *shared: it is copied
 * once, then checked. Returns false, with nothing begun, if there is no such place, if it is in
 * use, or if the description is malformed. */
bool rma_submit(struct rma *r, uint16_t ctx, uint32_t place, const struct transfer_desc *shared,
	uint64_t now);
/* Begin to fetch. Returns false if all places for fetches are taken. */
bool rma_fetch(struct rma *r, const struct rma_fetch *f, uint64_t now);
struct rma_area_range {
	uint32_t group, area;
	uint64_t at, len;
};
/* Find the bytes of that range of a context's area, if members of the group may write it. Return
 * false if there is no such area, it is shorter, or nobody may write it. */
bool rma_area_writable(const struct rma *r, uint16_t ctx, const struct rma_area_range *range,
	struct rma_bytes *bytes);
/* Find the bytes of a context's area. Return false if it has no such area. */
bool rma_area(const struct rma *r, uint16_t ctx, uint32_t group, uint32_t area,
	struct rma_bytes *bytes);

/* Return whether this is the place of a transfer whose frames the client packs, and not all of
 * which the core has yet. */
bool rma_is_packed(const struct rma *r, uint16_t ctx, uint32_t place);
/* Take note that the core now has all frames of such a transfer. */
void rma_packed(struct rma *r, uint16_t ctx, uint32_t place, uint64_t now);
/* End such a transfer with EFAULT, because the client cannot go on with it. */
void rma_packed_cancel(struct rma *r, uint16_t ctx, uint32_t place);
/* End the packed transfer `id` with `error`, because a frame of it was not Acked. */
void rma_packed_failed(struct rma *r, uint16_t ctx, uint32_t id, uint8_t error);
/* End the offers made to that context until now with `error`, because a message between matched
 * endpoints was not Acked. They went through the same flow, so they are lost, or their receiver
 * is. */
void rma_offers_lost(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer, uint8_t error);
/* Take a frame to carry a packed one within this node: the caller copies len bytes to its head. It
 * counts as sent. Returns NULL if no frame can be had now. */
struct rma_frame *rma_packed_copy(struct rma *r, uint16_t ctx, uint16_t dst_ctx, uint32_t id,
	uint32_t len);

/* ------------------------------------------------------------------ frames */

/* Begin a turn, in which each transfer and each answer may send again. */
void rma_turn(struct rma *r);
/* Pull *n frames of one transfer, at most RMA_BURST, with their heads written. Returns NULL if
 * there are none, or no more in this turn. The caller puts each frame's source behind its head,
 * gives the frames in order to the core or to the other lane of this node, and calls rma_sent
 * before it calls any other function of this rma. Frames to this node are passed on only after
 * that. */
struct rma_frame **rma_tx_answers(struct rma *r, unsigned *n);
struct rma_frame **rma_tx_transfers(struct rma *r, unsigned *n);
/* `count` of the pulled frames were sent. `error` says why the next one was not: 0 or EAGAIN if it
 * cannot be sent now, EFAULT if the frames' source is not there, otherwise what is wrong with the
 * destination. */
void rma_sent(struct rma *r, unsigned count, uint8_t error, uint64_t now);
/* Return whether a frame whose flow was reset may be sent once more, unchanged: at most once for a
 * frame, and never if an earlier frame of its transfer was lost. */
bool rma_again(struct rma *r, struct rma_frame *f);
/* Take note that a frame was not Acked. Its rma_acked comes later, but before anything new is
 * sent. */
void rma_lost(struct rma *r, const struct rma_frame *f);
/* Take back a frame that the core, or the other lane, no longer needs. error: 0 or a positive
 * errno. */
void rma_acked(struct rma *r, struct rma_frame *f, uint8_t error);
/* Run the timers; to be called at rma_deadline, which is UINT64_MAX if nothing waits. */
void rma_tick(struct rma *r, uint64_t now);
uint64_t rma_deadline(const struct rma *r);

/* ------------------------------------------------------------------ messages */

/* Take a message to the context's target, for which the core has already taken an entry of the
 * target's room. If it returns RMA_PLACE, the caller puts the bytes into *place and then calls
 * rma_target_placed. It may do so later, as long as only pushes are passed in meanwhile and the
 * calls keep their order. error: 0, or EFAULT or EPROTO if the bytes could not be placed. */
enum rma_heard rma_target_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now);
void rma_target_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint8_t error);
/* Apply an atomic operation to the bytes of *place, at `at` where they or a copy of them lie. If
 * rma_target_message returns RMA_CHANGE, the caller does this, and then calls rma_target_changed,
 * before it does anything else. before: WIRE_ATOMIC_BYTES, for what was there. error: 0 or
 * EFAULT. */
void rma_change(const struct rma_place *place, const struct rma_message *m, void *at, void *before);
void rma_target_changed(struct rma *r, uint16_t ctx, const struct rma_message *m,
	const struct rma_place *place, const void *before, uint8_t error);
/* Take a message to the context's initiator. If it returns RMA_PLACE, the caller puts the bytes
 * into *place and calls rma_initiator_placed. It may do so later, as long as only messages to the
 * context's initiator are passed in meanwhile and the calls keep their order. placed: how many
 * bytes they were. */
enum rma_heard rma_initiator_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now);
void rma_initiator_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint64_t placed,
	uint8_t error);
/* Drop the pins of an initiator within this node that ends. Unlike a message, this takes no entry
 * of the target's room. */
void rma_peer_left(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer);

/* ------------------------------------------------------------------ pulling what there is */

/* Return a set of RMA_HAS_*. */
unsigned rma_has(const struct rma *r);
/* Return the next result, valid until the next call for its context; NULL if there is none. */
const struct rma_result *rma_result(struct rma *r);
bool rma_news(struct rma *r, struct rma_news *out);
/* Return the next event for the context's application, or NULL. Once it is in the application's
 * ring, call rma_event_told. */
const struct event_slot *rma_event(const struct rma *r, uint16_t ctx);
void rma_event_told(struct rma *r, uint16_t ctx);

/* ------------------------------------------------------------------ looking; any thread, for
 * information */

void rma_stat(const struct rma *r, uint16_t ctx, struct rma_stat *out);
/* Return how often others have pinned the region. */
uint32_t rma_pins(const struct rma *r, uint64_t key);
struct region_table *rma_regions(struct rma *r);
uint32_t rma_frames_free(const struct rma *r);

/* ------------------------------------------------------------------ going on elsewhere */

/* Has everything ended that cannot be moved: of one context, or of what all contexts share
 * (RMA_ALL)? */
#define RMA_ALL UINT32_MAX
bool rma_is_drained(const struct rma *r, uint32_t ctx);
/* The state that moves then: copy it out, and into another rma of the same configuration. rma_spans
 * gives what all contexts share, except for the regions (rma_regions); rma_context_span gives what
 * belongs to one context. */
struct rma_span {
	void *bytes;
	size_t len;
};
#define RMA_SPANS 3
void rma_spans(struct rma *r, struct rma_span out[RMA_SPANS]);
struct rma_span rma_context_span(struct rma *r, uint16_t ctx);
/* Call when all of it has been copied in. Returns false if it is not consistent. */
bool rma_restored(struct rma *r);
/* Changed whenever the layout of what the spans hold changes. */
#define RMA_IMAGE_FORM 2u

#endif
