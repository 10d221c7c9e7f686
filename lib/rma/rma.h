/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory, sans-IO (RMA-1 to RMA-3; RHiNET, 1999, sections 2.2 to 2.5 and 2.7): what one
 * lane knows of its contexts' regions, of the transfers that they asked for, and of those that
 * others ask them for. One `struct rma` belongs to one lane of the engine (or to one simulated
 * node), and only that thread calls it. It is pushed submissions, messages, acknowledgements and
 * the time, and pulled for frames, placements, results and what a context is owed. It reads no
 * clock, touches no application's memory, allocates nothing after rma_init, and calls nothing but
 * mem* and the hooks of its configuration, which ask its caller.
 *
 * Design notes
 * 1. A context has two endpoints here: a target and an initiator (wire.h). Every frame of a
 *    transfer is a message of one frame from an initiator to a target or back, so order,
 *    retransmission, credit and shares are the core's. Initiators never hold what they receive, so
 *    answers always get through; a target holds an entry of its room for each question that it has
 *    not answered yet, so what waits is bounded and its askers wait.
 * 2. A frame of a push names its place itself and is placed from the buffer it came in, once.
 *    Nothing is kept of a push at its target but, at its last frame, the answer that is owed.
 * 3. A transfer whose answer is long in coming is asked for (WIRE_ASK). Either the question is not
 *    Acked, or the answer comes, or the target knows nothing of it: all three end it.
 * 4. Within a node the same frames go from hand to hand: the caller gives them to the other lane's
 *    rma_message, and acknowledges them itself.
 */
#ifndef PMX_RMA_H
#define PMX_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channel/channel.h"
#include "rma/region.h"
#include "wire/wire.h"

struct rma;

#define RMA_BURST   8   /* frames of one transfer before it is another one's turn */
#define RMA_REFUSED 256 /* pushes refused in part that are remembered at once */
#define RMA_PLACES  64  /* other contexts at which one may have pins */

/* What the library counts; the caller's array, by these. */
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
	uint32_t contexts_from, contexts_by; /* this lane's: from, from + by, from + 2 by, ... */
	uint32_t transfers_max;              /* of a context at once, by its client: 1..1024 */
	uint32_t fetches_max;                /* ... and by rma_fetch; together 1..1024 */
	uint32_t requests_max;  /* messages to a context's target that it may owe answers
				 * to: the entries of that endpoint's room */
	uint32_t regions_max;   /* of all contexts: 1..65535 */
	uint32_t frames_max;    /* of the lane, with the core at once; 8.. */
	uint32_t payload_max;   /* bytes of a frame behind a struct wire_transfer */
	uint64_t ticks_per_sec; /* rate of every `now` */
	uint32_t ask_us;        /* silence after which an answer is asked for */
	uint32_t ask_offer_us;  /* ... after which the receiver of an offer is */
	uint64_t *counters;     /* RMA_COUNTERS of them, the caller's */
	/* The life of another node, its epoch; 0: it is not there. */
	uint32_t (*life)(void *arg, uint16_t node);
	/* What changes when matched messages to that context, of any node, reach a later life of it
	 * (proto_flow_life); 0: that is not known now. It is asked for between BEGINS, unless that
	 * was 0, and ENDS. */
	uint32_t (*receiver)(void *arg, uint16_t ctx, uint16_t node, uint16_t peer,
		enum rma_watch watch, uint64_t now);
	/* The piece of that number of a context's memory, if [at, at + len) lies in it; NULL. */
	void *(*memory)(void *arg, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len);
	/* The memory of that region was taken away by its owner (struct region, watched). */
	bool (*revoked)(void *arg, uint16_t ctx, uint32_t watched);
	void *arg; /* of all of them */
};

/* Bytes of a context's memory. */
struct rma_bytes {
	void *memory; /* the caller's name of the piece that they lie in; NULL: of none */
	uint64_t at;  /* address in the client */
	uint64_t len;
	uint16_t ctx;
};

/* One frame of a transfer, from rma_tx_* to rma_acked. There are frames_max of them. */
struct rma_frame {
	/* the caller's, set once for each frame and again when its buffer changes: where the head
	 * is written; sizeof(struct wire_transfer) + payload_max bytes, aligned to 8 */
	struct wire_transfer *head;
	void *user; /* the caller's */
	/* bytes to put at head + head_len; len 0: none. runs: what follows head_len are runs
	 * (struct wire_run) of run_len bytes in all, whose own bytes are to be put behind each of
	 * them; they lie at source.at + the run's offset */
	struct rma_bytes source;
	uint64_t runs_from;      /* offset in the source at which the first run's skip begins */
	uint32_t head_len;       /* bytes that the library wrote */
	uint32_t len;            /* bytes of the message, all */
	uint32_t id;             /* of the transfer, if it is a context's own */
	uint16_t src, node, dst; /* own endpoint; where to */
	bool runs;
	bool in_place;   /* the caller's, before rma_sent: nothing was copied, the link reads the
			  * source where it lies */
	bool own;        /* of an initiator: it shall hear of errors */
	bool asks;       /* WIRE_ASK */
	bool out;        /* not in the free list */
	bool marked;     /* a registration's end waits for it */
	bool retried;    /* its flow was reset, and it was sent again */
	bool ends_offer; /* the last of an answer to a PULL of an offer, which is `id` */
	struct rma_frame *next; /* in the free list */
};

/* A message of a transfer: its head, and what is behind it, which may lie elsewhere. */
struct rma_message {
	const struct wire_transfer *head;
	const uint8_t *bytes;
	uint32_t len;        /* of the bytes */
	uint16_t node, peer; /* whose: the context without its endpoint */
};

/* Where the bytes of a message go. */
struct rma_place {
	struct rma_bytes to; /* from to.at on */
	uint64_t offset;     /* runs: in `to`, where the first one's skip begins */
	bool runs;           /* the bytes are runs; one that does not fit `to` is EPROTO */
};

enum rma_heard {
	RMA_HEARD, /* all is said */
	RMA_PLACE, /* its bytes go to a place */
};

/* A transfer of a client that ended, or one of rma_fetch. */
struct rma_result {
	const struct transfer_desc *desc; /* as it was copied */
	uint32_t cookie;                  /* rma_fetch: its */
	uint16_t ctx;
	uint16_t place; /* its place of the channel's table */
	uint8_t error;  /* 0 or an errno */
	bool fetched;   /* it was begun by rma_fetch */
};

/* A context is owed something, or heard that it is not. */
struct rma_news {
	uint16_t ctx;
	uint32_t room;     /* entries of its target's room come back (proto_ctx_room) */
	bool readers_gone; /* a deregistration that waited has ended */
};

/* What of that there is to pull. */
#define RMA_HAS_RESULTS 0x1u  /* rma_result */
#define RMA_HAS_NEWS    0x2u  /* rma_news */
#define RMA_HAS_ANSWERS 0x4u  /* rma_tx_answers */
#define RMA_HAS_EVENTS  0x8u  /* rma_event, of some context */
#define RMA_HAS_WORK    0x10u /* transfers are under way: rma_tx_transfers, rma_tick */

/* What a lane fetches for a receive that matched an offer. */
struct rma_fetch {
	uint8_t kind; /* TRANSFER_PULL, TRANSFER_ACCEPT */
	uint16_t node, ctx;
	uint32_t offer, use;
	uint64_t len;
	struct rma_bytes local;
	uint32_t cookie; /* comes back with its result */
};

struct rma_stat {
	uint32_t transfers;       /* under way */
	uint64_t pushed, pulled;  /* bytes, of own transfers that ended well */
	uint64_t failed;          /* own transfers that did not */
	uint64_t served, refused; /* transfers of others */
};

/* Bytes of memory that a rma of this configuration needs; 0 if the configuration is wrong. */
size_t rma_memsize(const struct rma_config *config);
/* Build one in `memory` (64-byte aligned, zeroed, rma_memsize bytes, owned by the caller). */
struct rma *rma_init(void *memory, const struct rma_config *config);
/* Frame i of frames_max, for its caller's part: before the first pull. */
struct rma_frame *rma_frame(struct rma *r, uint32_t i);

/* ------------------------------------------------------------------ a context's life */

/* Nothing is registered, nothing under way; it is open from now on. */
void rma_open(struct rma *r, uint16_t ctx);
/* It ends, and all that was under way with it, without results. Its frames are still acknowledged.
 */
void rma_close(struct rma *r, uint16_t ctx);
/* Others may have pinned for the context that closed: rma_tx_leaving gives, one by one, the frames
 * that say to them that it left, as rma_tx_answers gives answers. */
bool rma_leaves(const struct rma *r, uint16_t ctx);
struct rma_frame **rma_tx_leaving(struct rma *r, uint16_t ctx, unsigned *n);
/* Has it frames with the core? */
bool rma_has_frames(const struct rma *r, uint16_t ctx);
/* That piece of its memory goes: what reads or writes it ends. */
void rma_memory_gone(struct rma *r, uint16_t ctx, const void *memory);

/* 0 and *key; -EINVAL, -EEXIST, -ENOSPC (region_add; or the context has half of all). random: in
 * the key. *region: base, len, area, rights, memory, method and watched. */
int rma_register(struct rma *r, uint16_t ctx, const struct region *region, uint64_t random,
	uint64_t *key);
/* 0: it ended; 1: it ended for others, and rma_news says when no frame reads it any more; -ENOKEY;
 * -EBUSY: others pin it. */
int rma_deregister(struct rma *r, uint16_t ctx, uint64_t key, uint64_t now);

/* ------------------------------------------------------------------ transfers */

/* Begin the transfer of a place of the client's table, whose description is *shared: it is copied
 * once, then judged. false: there is no such place, it is in use, or the description is malformed:
 * nothing was begun. */
bool rma_submit(struct rma *r, uint16_t ctx, uint32_t place, const struct transfer_desc *shared,
	uint64_t now);
/* Fetch what was offered. false: all places are taken. */
bool rma_fetch(struct rma *r, const struct rma_fetch *f, uint64_t now);

/* Of a transfer whose frames the client packs: is it still under way? */
bool rma_is_packed(const struct rma *r, uint16_t ctx, uint32_t place);
/* ... the core has all frames of it. */
void rma_packed(struct rma *r, uint16_t ctx, uint32_t place, uint64_t now);
/* ... the client cannot go on with it. */
void rma_packed_cancel(struct rma *r, uint16_t ctx, uint32_t place);
/* ... one of its frames, of the transfer of that id, was not Acked. */
void rma_packed_failed(struct rma *r, uint16_t ctx, uint32_t id, uint8_t error);
/* A message between matched endpoints was not Acked: what was offered to that context until then is
 * lost, for offers go by the same flow, or its receiver is. */
void rma_offers_lost(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer, uint8_t error);
/* A frame to carry one within this node: len bytes that the caller copies to head. It is out. NULL:
 * not now. */
struct rma_frame *rma_packed_copy(struct rma *r, uint16_t ctx, uint16_t dst_ctx, uint32_t id,
	uint32_t len);

/* ------------------------------------------------------------------ frames */

/* A turn begins: each transfer and answer has its chance again. */
void rma_turn(struct rma *r);
/* Pull: *n frames of one transfer, at most RMA_BURST, with their heads written. NULL: nothing
 * (more) in this turn. The caller puts each one's source behind its head, gives them in order to
 * the core or to the other lane of this node, and calls rma_sent before anything else of this rma;
 * frames of this node are handed on after that. */
struct rma_frame **rma_tx_answers(struct rma *r, unsigned *n);
struct rma_frame **rma_tx_transfers(struct rma *r, unsigned *n);
/* So many of the frames went. error: why the next did not: 0 or EAGAIN: not now; otherwise what is
 * wrong with its destination, or EFAULT: the source of the frames is not there. */
void rma_sent(struct rma *r, unsigned count, uint8_t error, uint64_t now);
/* A frame whose flow was reset: may it be sent once more, as it is? true once, and not if one
 * before it of its transfer was lost. */
bool rma_again(struct rma *r, struct rma_frame *f);
/* A frame was not Acked, and rma_acked comes later, but before anything new is sent. */
void rma_lost(struct rma *r, const struct rma_frame *f);
/* The core, or the other lane, is done with it. error: 0 or a positive errno. */
void rma_acked(struct rma *r, struct rma_frame *f, uint8_t error);
/* Let timers run; at rma_deadline, which is UINT64_MAX if nothing waits. */
void rma_tick(struct rma *r, uint64_t now);
uint64_t rma_deadline(const struct rma *r);

/* ------------------------------------------------------------------ messages */

/* A message to the context's target. The core has given an entry of its room for it. RMA_PLACE: put
 * its bytes in their place, then call rma_target_placed; that may be later, as long as nothing but
 * pushes is heard until then, and in their order. error: 0; EFAULT, EPROTO: why they are not
 * there. */
enum rma_heard rma_target_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now);
void rma_target_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint8_t error);
/* ... and to its initiator; RMA_PLACE: put its bytes in their place and call rma_initiator_placed
 * before anything else. placed: how many bytes they were. */
enum rma_heard rma_initiator_message(struct rma *r, uint16_t ctx, const struct rma_message *m,
	struct rma_place *place, uint64_t now);
void rma_initiator_placed(struct rma *r, uint16_t ctx, const struct rma_message *m, uint64_t placed,
	uint8_t error);
/* An initiator within this node ends; said without room. */
void rma_peer_left(struct rma *r, uint16_t ctx, uint16_t node, uint16_t peer);

/* ------------------------------------------------------------------ pulling what there is */

/* RMA_HAS_*. */
unsigned rma_has(const struct rma *r);
/* NULL: none. Until the next call for that context. */
const struct rma_result *rma_result(struct rma *r);
bool rma_news(struct rma *r, struct rma_news *out);
/* What the application is to be told of next, NULL: nothing; then rma_event_told, with room in its
 * ring. */
const struct event_slot *rma_event(const struct rma *r, uint16_t ctx);
void rma_event_told(struct rma *r, uint16_t ctx);

/* ------------------------------------------------------------------ looking; any thread, for
 * information */

void rma_stat(const struct rma *r, uint16_t ctx, struct rma_stat *out);
/* How often others have pinned that region. */
uint32_t rma_pins(const struct rma *r, uint64_t key);
struct region_table *rma_regions(struct rma *r);
uint32_t rma_frames_free(const struct rma *r);

/* ------------------------------------------------------------------ going on elsewhere */

/* Has all ended that cannot be moved: of the context; of all (RMA_ALL)? */
#define RMA_ALL UINT32_MAX
bool rma_is_drained(const struct rma *r, uint32_t ctx);
/* What must be kept then, to be copied out, and into another rma of the same configuration: of all,
 * but the regions (rma_regions); of each context. */
struct rma_span {
	void *bytes;
	size_t len;
};
#define RMA_SPANS 3
void rma_spans(struct rma *r, struct rma_span out[RMA_SPANS]);
struct rma_span rma_context_span(struct rma *r, uint16_t ctx);
/* All of it is there. false: it cannot be what another one had. */
bool rma_restored(struct rma *r);
/* Differs if the form of what the spans hold does. */
#define RMA_IMAGE_FORM 1u

#endif
