/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory in the engine (RMA-1 to RMA-3; RHiNET, 1999, sections 2.2 to 2.5 and 2.7): what
 * a lane keeps of its contexts' memory, of the transfers that they asked for, and of those that others
 * ask them for. All of it belongs to the lane.
 *
 * Design notes
 * 1. A context has three endpoints in the core: messages, a target and an initiator (wire.h). Every
 *    frame of a transfer is a message of one frame from an initiator to a target or back, so
 *    order, retransmission, credit and shares are the core's. Initiators never hold what they receive, so
 *    answers always get through; a target holds an entry of its room for each question that it
 *    has not answered yet, so what waits is bounded and its askers wait.
 * 2. A frame of a push names its place itself and is placed from the mbuf it came in, once. Nothing is
 *    kept of a push at its target but, at its last frame, the answer that is owed.
 * 3. A frame refers to the application's memory where the engine has mapped it and the link can send two
 *    segments, for a device if it was mapped for that too. Otherwise the bytes are copied behind the head, by
 *    memcpy or by the kernel.
 * 4. A transfer whose answer is long in coming is asked for (WIRE_ASK). Either the question is
 *    not Acked, or the answer comes, or the target knows nothing of it: all three end it.
 * 5. Within a node the same frames go from hand to hand, through the inbox of the target's lane if it is
 *    another one, and back: the target reads the bytes where they lie.
 */
#ifndef PMX_ENGINE_TRANSFER_H
#define PMX_ENGINE_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "channel/channel.h"
#include "memory/memory.h"
#include "proto/proto.h"
#include "wire/wire.h"
#include "rma/part.h"
#include "rma/region.h"

struct engine;
struct node;
struct channel;
struct peer;

#define FRAMES_BURST 8 /* frames of one transfer before it is another one's turn */

struct command;

/* One frame of a transfer, from the pool to its Ack. The core's handle of it is its address | 1. */
struct frame {
	struct rte_mbuf *m;     /* headers, and what was copied */
	struct rte_mbuf *place; /* second segment: bytes where they lie; its private area is its shared info */
	struct memory *memory;  /* whose they are, NULL: all is in m */
	struct frame *next;     /* in the free list */
	uint32_t head_len;      /* payload bytes in m, when there is a second segment */
	uint32_t len;           /* payload bytes, all */
	uint32_t id;            /* of the transfer, if it is a context's own */
	uint16_t src, node, dst; /* own endpoint; where to */
	bool own;               /* of an initiator: it shall hear of errors */
	bool asks;              /* WIRE_ASK */
	bool out;               /* with the core, or on its way within the node */
	bool marked;            /* a registration's end waits for it */
	bool retried;           /* its flow was reset, and it was sent again */
	bool ends_offer;        /* the last frame of an answer to a PULL of an offer, which is `id` */
	bool back;              /* within this node: it was there */
	uint8_t error;
};

enum op_state {
	OP_FREE,
	OP_HELD,   /* waits for earlier ones to the same context */
	OP_READY,  /* in the lane's list: has frames to send */
	OP_WAITS,  /* for bytes, or for the answer */
	OP_PACKED, /* the client sends its frames */
	OP_OFFERED, /* waits for the other side to fetch it; then WAITS, or READY to be pushed */
};

/* A transfer that a context asked for. */
struct op {
	struct transfer_desc d; /* our copy */
	struct op *next;        /* in the lane's list, when it is READY */
	struct channel *ch;     /* whose it is */
	struct bytes local;
	uint64_t sent;          /* PUSH: bytes given to the core; PULL: bytes that came */
	uint64_t seen_at;       /* last sign of life, tsc */
	uint64_t age;           /* order of submission */
	struct memory *status_memory;
	uint8_t state;          /* enum op_state */
	bool last_sent;         /* all of it is with the core */
	bool asking;            /* WIRE_ASK is on its way */
	uint32_t generation;    /* OFFER to a context of this node: of its channel */
	bool own;               /* the lane's: of a receive */
	uint32_t receive;       /* ... which */
	bool asks_pin;          /* it is counted in remote.pin_places */
};

enum request_kind {
	REQUEST_ENDED, /* tell the initiator that its transfer ended */
	REQUEST_PULL,  /* send it what it asked for */
	REQUEST_EVENT, /* tell our application first: its ring was full */
};

/* What is owed to the initiator of a transfer. */
struct request {
	struct request *next;
	struct bytes source;    /* PULL */
	struct part_iterator it; /* ... in parts */
	struct part_run run;    /* ... of which this is left */
	uint64_t bits[TRANSFER_UNITS / 64];
	uint64_t base;          /* ... which begin here in the transfer */
	uint64_t sent;          /* bytes of it */
	uint64_t key;           /* region it reads, or the id of an offer */
	struct event_slot event;
	uint32_t id;
	uint32_t error;         /* of wire_ended */
	uint16_t ctx, node, peer; /* ours; whose it is */
	uint8_t kind;
	bool in_parts;
	bool of_offer;
};

/* Pins of one asker, of one region of ours. */
struct pin {
	uint64_t key;           /* the region's */
	uint64_t told_at;       /* tsc; see pinned.c */
	uint32_t count;         /* 1.. */
	uint32_t epoch;         /* of the asker's node */
	uint32_t id;            /* of its last question */
	uint16_t ctx;           /* whose region it is */
	uint16_t node, peer;    /* the asker */
};

#define PIN_PLACES 64 /* other contexts at which one may have pins */

/* Where a context of ours may have pins. */
struct pin_place {
	uint16_t node, ctx;
	uint32_t asked;         /* questions under way */
	bool held;              /* as far as we know */
};

/* What a channel has of it. */
struct remote {
	struct transfer_desc *descs; /* the client's table, in shared memory */
	struct op *ops;              /* all of them: the client's by place, then the lane's own for receives */
	uint32_t transfers, all_ops; /* the client's; all */
	struct request *requests;    /* limits.requests of them */
	struct request *free_requests;
	uint32_t *ended;             /* results not yet written: ring of limits.transfers */
	uint32_t ended_head, ended_tail, ended_mask;
	struct slot_end events;
	struct {
		bool due;
		uint32_t waits;          /* for so many frames that still read it */
		uint32_t ticket, error;
		uint64_t key;
	} region;                    /* answer to REGISTER, DEREGISTER */
	uint32_t frames, own_frames; /* with the core, or on their way within the node; of them own transfers' */
	uint32_t ops_used, held;     /* ops in use; of them OP_HELD */
	struct frame *local_head, *local_tail; /* frames of this node that wait for room here */
	uint32_t events_waiting, regions;
	uint32_t pins;               /* records of others' pins, of its regions */
	struct pin_place pin_places[PIN_PLACES];
	bool leaves;                 /* it ended, and some of those are not told yet */
	struct request *event_head, *event_tail; /* that wait for their ring, in order */
	uint64_t pushed, pulled;     /* bytes, of own transfers that ended well */
	uint64_t failed;             /* own transfers that did not */
	uint64_t served, refused;    /* transfers of others */
	uint64_t next_age;
	uint32_t withheld;           /* room for others' transfers that a frozen lane keeps from them */
};

/* A push of which a frame was refused. */
struct refusal {
	uint32_t id;
	uint16_t ctx, node, peer;
	uint8_t error;          /* 0: the place is free */
};
#define REFUSALS 256

/* A message of a transfer: its head, and what is behind it, which may lie elsewhere. */
struct arrival {
	const struct wire_transfer *head;
	const uint8_t *bytes;
	uint32_t len;           /* of the bytes */
	uint16_t node, peer;    /* whose: the context without WIRE_TARGET, WIRE_INITIATOR */
	struct rte_mbuf *m;     /* that it came in; NULL: from this node */
};

#define DMA_COPIES 256  /* under way */
#define DMA_MIN    1024 /* bytes; fewer are copied by the CPU */

/* A frame whose bytes, or those before it, are being copied. */
struct dma_job {
	struct rte_mbuf *m;
	struct memory *memory;
	uint8_t *to;
	struct arrival a;
	uint32_t generation;    /* of the channel */
	uint16_t ctx;
	bool copies;
};

struct dma {
	int device;             /* -1: none */
	uint32_t head, tail;    /* of the jobs */
	uint64_t begun;         /* copies, ever */
	struct dma_job jobs[DMA_COPIES];
};

struct op_list {
	struct op *head, *tail;
};

/* What a lane has of it. */
struct transfers {
	struct region_table regions;
	struct pin *pins;            /* limits.regions of them, those in use first */
	uint32_t pins_used;
	struct frame *frames, *free_frames;
	uint32_t frames_free, frames_max, own_out, answers_out;
	struct op_list ready;
	struct frame *lingering;     /* done with, but a port has their mbufs */
	uint32_t local_waiting;      /* frames of this node, for targets of this lane that have no room */
	struct {
		struct request *head, *tail;
	} requests;
	struct refusal refused[REFUSALS]; /* pushes that were refused in part, until their last frame */
	uint32_t events_waiting;     /* of all contexts */
	uint32_t waiting;            /* ops whose answer may have to be asked for */
	uint64_t look_at;            /* tsc of the next look at those */
	struct rte_mempool *places;  /* mbufs without room, for second segments */
	struct dma dma;
	uint32_t payload;            /* most bytes of a frame behind a struct wire_transfer */
};

/* Frames whose handle this is are ours. */
static inline bool
is_transfer(uint64_t handle)
{
	return handle & 1;
}

static inline struct frame *
frame_of_handle(uint64_t handle)
{
	return (struct frame *)(uintptr_t)(handle & ~(uint64_t)1);
}

/* transfers.c: what the contexts of this lane asked for */
bool transfer_submit(struct engine *e, struct channel *ch, uint32_t place);
/* The lane's own: op->d and op->local are set. */
void transfer_begin(struct engine *e, struct channel *ch, struct op *op);
void transfer_answer(struct engine *e, struct channel *ch, const struct arrival *a);
void transfer_end(struct engine *e, struct channel *ch, struct op *op, uint8_t error);
/* The transfer that a message with WIRE_T_OFFER names, if it is one that its sender may name: what was offered to it, or
 * what it was told to push to. NULL. */
struct op *transfer_named(struct channel *ch, const struct arrival *a, uint8_t kind);
/* What was offered, and not taken by an ACCEPT. */
static inline bool
is_offer(const struct op *op)
{
	return op->d.kind == TRANSFER_OFFER && !(op->d.flags & TRANSFER_OFFERED);
}
void transfer_accepted(struct engine *e, struct op *op, uint32_t id, uint64_t len);
struct op *transfer_find(struct channel *ch, uint32_t id);
void transfer_close(struct engine *e, struct channel *ch);
void transfer_memory_gone(struct engine *e, struct channel *ch, const struct memory *m);
void transfer_packed(struct engine *e, struct channel *ch, uint16_t place, bool last);
int transfer_copy(struct engine *e, struct channel *ch, const struct rte_mbuf *m, const struct proto_message *message);
void transfer_packed_failed(struct engine *e, struct channel *ch, const struct rte_mbuf *m, uint8_t error);
bool transfer_is_packed(const struct channel *ch, uint16_t place);
void transfer_cancel(struct engine *e, struct channel *ch, uint32_t place);
unsigned transfer_step(struct engine *e);
void transfer_look(struct engine *e);

/* targets.c: what others ask the contexts of this lane for */
/* true: a->m is kept */
bool target_message(struct engine *e, struct channel *ch, const struct arrival *a);
void target_placed(struct engine *e, struct channel *ch, const struct arrival *a);
unsigned target_step(struct engine *e);
void target_close(struct engine *e, struct channel *ch);
/* Nobody fetches that offer any more. */
void target_offer_ends(struct engine *e, struct channel *ch, uint32_t id);
void target_memory_gone(struct engine *e, struct channel *ch, const struct memory *m);
void target_unmarked(struct engine *e, struct channel *ch);
void target_peer_failed(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer, uint8_t error);
void target_region(struct engine *e, struct channel *ch, const struct submission *s);

/* pinned.c: regions that others have pinned. a: the asker's message, or its answer. */
/* 0, or ENOSPC. */
uint8_t pinned_grant(struct engine *e, struct channel *ch, const struct arrival *a, uint64_t key);
/* For the answer: 0, ENOKEY, WIRE_NONE_LEFT. key 0: there is no such region. */
uint32_t pinned_release(struct engine *e, struct channel *ch, const struct arrival *a, uint64_t key);
/* An asker ended, or is out of reach. */
void pinned_lost(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer);
/* The region ends, whoever has pinned it; key 0: all of the context's. */
void pinned_ends(struct engine *e, struct channel *ch, uint64_t key);
/* Does somebody who is still there pin it? */
bool pinned_by_others(struct engine *e, struct channel *ch, uint64_t key);
/* How often it is pinned; any thread, for information. */
uint32_t pinned_count(const struct transfers *x, uint64_t key);
/* ... and what a context of ours has pinned elsewhere. false: at too many others. */
bool pinning_begins(struct channel *ch, struct op *op);
/* A PIN or UNPIN ended. */
void pinning_ends(struct channel *ch, struct op *op, uint8_t error);
/* ... and none is left where op went. */
void pinning_none_left(struct channel *ch, const struct op *op);
bool pinning_any(const struct channel *ch);
/* The context ended: those who may have pinned for it are told. true: all of them are. */
bool pinning_leaves(struct engine *e, struct channel *ch);

/* dma.c: copies by a device */
int dma_open(struct engine *e, char *error, size_t error_len);
void dma_close(struct engine *e);
bool dma_copy(struct engine *e, struct channel *ch, const struct arrival *a, struct memory *memory, uint8_t *to);
bool dma_later(struct engine *e, struct channel *ch, const struct arrival *a);
unsigned dma_poll(struct engine *e);
void dma_drain(struct engine *e);

/* carry.c: frames of transfers, to the core and back */
int frames_fill(struct engine *e, const struct bytes *b, uint64_t offset, uint16_t node, struct frame **f,
	const uint32_t *len, unsigned n);
unsigned frames_take(struct engine *e, bool own, uint64_t left, struct frame **f, uint32_t *len);
void frames_put(struct engine *e, struct frame **f, unsigned from, unsigned n);
struct frame *frame_take(struct engine *e, bool own);
void frame_put(struct engine *e, struct frame *f);
struct wire_transfer *frame_head(struct frame *f);
int frame_send(struct engine *e, struct channel *ch, struct frame *f, uint16_t src_endpoint, uint16_t node,
	uint16_t dst, uint32_t len);
struct rte_mbuf *frame_mbuf(struct engine *e, const struct proto_out *o, const struct peer *peer);
void frame_done(struct engine *e, struct frame *f, uint8_t error);
void frame_arrive(struct engine *e, struct frame *f);
unsigned frames_local(struct engine *e);
void frames_recheck(struct engine *e);
int transfers_make(struct engine *e);
void transfers_free(struct engine *e);

#endif
