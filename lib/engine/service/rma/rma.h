/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory in the engine (RMA-1 to RMA-3; RHiNET, 1999, sections 2.2 to 2.5 and 2.7): what
 * a lane keeps of its contexts' memory, of the transfers that they asked for, and of those that
 * others ask them for. All of it belongs to the lane.
 *
 * Design notes
 * 1. A context has three endpoints in the core: messages, a target and an initiator (wire.h). Every
 *    frame of a transfer is a message of one frame from an initiator to a target or back, so
 *    order, retransmission, credit and shares are the core's. Initiators never hold what they
 *    receive, so answers always get through; a target holds an entry of its room for each question
 *    that it has not answered yet, so what waits is bounded and its askers wait.
 * 2. A frame of a push names its place itself and is placed from the mbuf it came in, once. Nothing
 *    is kept of a push at its target but, at its last frame, the answer that is owed.
 * 3. A frame refers to the application's memory where the engine has mapped it and the link can
 *    send two segments, for a device if it was mapped for that too. Otherwise the bytes are copied
 *    behind the head, by memcpy or by the kernel.
 * 4. A transfer whose answer is long in coming is asked for (WIRE_ASK). Either the question is
 *    not Acked, or the answer comes, or the target knows nothing of it: all three end it.
 * 5. Within a node the same frames go from hand to hand, through the inbox of the target's lane if
 *    it is another one, and back: the target reads the bytes where they lie.
 */
#ifndef PMX_RMA_H
#define PMX_RMA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "channel/channel.h"
#include "engine/lane.h"
#include "memory/memory.h"
#include "rma/part.h"
#include "rma/region.h"

#define RMA_SERVICE  1
#define FRAMES_BURST 8 /* frames of one transfer before it is another one's turn */

/* One frame of a transfer, from the pool to its Ack. The core's handle of it is its address,
 * tagged. */
struct frame {
	struct rte_mbuf *m;      /* headers, and what was copied */
	struct rte_mbuf *place;  /* second segment: bytes where they lie; its private area is its
				  * shared info */
	struct memory *memory;   /* whose they are, NULL: all is in m */
	struct frame *next;      /* in the free list */
	uint32_t head_len;       /* payload bytes in m, when there is a second segment */
	uint32_t len;            /* payload bytes, all */
	uint32_t id;             /* of the transfer, if it is a context's own */
	uint16_t src, node, dst; /* own endpoint; where to */
	bool own;                /* of an initiator: it shall hear of errors */
	bool asks;               /* WIRE_ASK */
	bool out;                /* with the core, or on its way within the node */
	bool marked;             /* a registration's end waits for it */
	bool retried;            /* its flow was reset, and it was sent again */
	bool ends_offer;         /* the last frame of an answer to a PULL of an offer, which is
				  * `id` */
	bool back;               /* within this node: it was there */
	uint8_t error;
};

enum op_state {
	OP_FREE,
	OP_HELD,    /* waits for earlier ones to the same context */
	OP_READY,   /* in the lane's list: has frames to send */
	OP_WAITS,   /* for bytes, or for the answer */
	OP_PACKED,  /* the client sends its frames */
	OP_OFFERED, /* waits for the other side to fetch it; then WAITS, or READY to be pushed */
};

/* A transfer that a context asked for. */
struct op {
	struct transfer_desc d; /* our copy */
	struct op *next;        /* in the lane's list, when it is READY */
	struct channel *ch;     /* whose it is */
	struct bytes local;
	uint64_t sent;    /* PUSH: bytes given to the core; PULL: bytes that came */
	uint64_t seen_at; /* last sign of life, tsc */
	uint64_t age;     /* order of submission */
	struct memory *status_memory;
	uint8_t state;       /* enum op_state */
	bool last_sent;      /* all of it is with the core */
	bool asking;         /* WIRE_ASK is on its way */
	uint32_t generation; /* OFFER to a context of this node: of its channel */
	bool own;            /* the lane's: of a receive */
	uint32_t receive;    /* ... which */
	/* ... and who hears how it ended */
	void (*ended)(struct engine *e, struct channel *ch, struct op *op, uint8_t error);
	bool asks_pin; /* it is counted in remote.pin_places */
};

enum request_kind {
	REQUEST_ENDED, /* tell the initiator that its transfer ended */
	REQUEST_PULL,  /* send it what it asked for */
	REQUEST_EVENT, /* tell our application first: its ring was full */
};

/* What is owed to the initiator of a transfer. */
struct request {
	struct request *next;
	struct bytes source;     /* PULL */
	struct part_iterator it; /* ... in parts */
	struct part_run run;     /* ... of which this is left */
	uint64_t bits[TRANSFER_UNITS / 64];
	uint64_t base; /* ... which begin here in the transfer */
	uint64_t sent; /* bytes of it */
	uint64_t key;  /* region it reads, or the id of an offer */
	struct event_slot event;
	uint32_t id;
	uint32_t error;           /* of wire_ended */
	uint16_t ctx, node, peer; /* ours; whose it is */
	uint8_t kind;
	bool in_parts;
	bool of_offer;
};

/* Pins of one asker, of one region of ours. */
struct pin {
	uint64_t key;        /* the region's */
	uint64_t told_at;    /* tsc; see pinned.c */
	uint32_t count;      /* 1.. */
	uint32_t epoch;      /* of the asker's node */
	uint32_t id;         /* of its last question */
	uint16_t ctx;        /* whose region it is */
	uint16_t node, peer; /* the asker */
};

#define PIN_PLACES 64 /* other contexts at which one may have pins */

/* Where a context of ours may have pins. */
struct pin_place {
	uint16_t node, ctx;
	uint32_t asked; /* questions under way */
	bool held;      /* as far as we know */
};

/* What a channel has of it. */
struct rma_context {
	struct transfer_desc *descs; /* the client's table, in shared memory */
	struct op *ops;              /* all of them: the client's by place, then the lane's own for
				      * receives */
	uint32_t transfers, all_ops; /* the client's; all */
	struct request *requests;    /* limits.requests of them */
	struct request *free_requests;
	uint32_t *ended; /* results not yet written: ring of limits.transfers */
	uint32_t ended_head, ended_tail, ended_mask;
	struct slot_end events;
	struct {
		bool due;
		uint32_t waits; /* for so many frames that still read it */
		uint32_t ticket, error;
		uint64_t key;
	} region;                    /* answer to REGISTER, DEREGISTER */
	uint32_t frames, own_frames; /* with the core, or on their way within the node; of them own
				      * transfers' */
	uint32_t ops_used, held;     /* ops in use; of them OP_HELD */
	struct frame *local_head, *local_tail; /* frames of this node that wait for room here */
	uint32_t events_waiting, regions;
	uint32_t pins; /* records of others' pins, of its regions */
	struct pin_place pin_places[PIN_PLACES];
	bool leaves;                             /* it ended, and some of those are not told yet */
	struct request *event_head, *event_tail; /* that wait for their ring, in order */
	uint64_t pushed, pulled;                 /* bytes, of own transfers that ended well */
	uint64_t failed;                         /* own transfers that did not */
	uint64_t served, refused;                /* transfers of others */
	uint64_t next_age;
	uint32_t withheld; /* room for others' transfers that a frozen lane keeps from
			    * them */
};

/* A push of which a frame was refused. */
struct refusal {
	uint32_t id;
	uint16_t ctx, node, peer;
	uint8_t error; /* 0: the place is free */
};
#define REFUSALS 256

/* A message of a transfer: its head, and what is behind it, which may lie elsewhere. */
struct arrival {
	const struct wire_transfer *head;
	const uint8_t *bytes;
	uint32_t len;        /* of the bytes */
	uint16_t node, peer; /* whose: the context without WIRE_TARGET, WIRE_INITIATOR */
	struct rte_mbuf *m;  /* that it came in; NULL: from this node */
};

#define DMA_COPIES 256  /* under way */
#define DMA_MIN    1024 /* bytes; fewer are copied by the CPU */

/* A frame whose bytes, or those before it, are being copied. */
struct dma_job {
	struct rte_mbuf *m;
	struct memory *memory;
	uint8_t *to;
	struct arrival a;
	uint32_t generation; /* of the channel */
	uint16_t ctx;
	bool copies;
};

struct dma {
	/* the bytes of a frame are in their place */
	void (*placed)(struct engine *e, struct channel *ch, const struct arrival *a);
	int device;          /* -1: none */
	uint32_t head, tail; /* of the jobs */
	uint64_t begun;      /* copies, ever */
	struct dma_job jobs[DMA_COPIES];
};

struct op_list {
	struct op *head, *tail;
};

/* What a lane has of it. */
struct rma_lane {
	struct region_table regions;
	struct pin *pins; /* limits.regions of them, those in use first */
	uint32_t pins_used;
	struct frame *frames, *free_frames;
	uint32_t frames_free, frames_max, own_out, answers_out;
	struct op_list ready;
	struct frame *lingering; /* done with, but a port has their mbufs */
	uint32_t local_waiting;  /* frames of this node, for targets of this lane that have no
				  * room */
	struct {
		struct request *head, *tail;
	} requests;
	struct refusal refused[REFUSALS]; /* pushes that were refused in part, until their last
					   * frame */
	uint32_t events_waiting;          /* of all contexts */
	uint32_t waiting;                 /* ops whose answer may have to be asked for */
	uint64_t look_at;                 /* tsc of the next look at those */
	struct rte_mempool *places;       /* mbufs without room, for second segments */
	struct dma dma;
	uint32_t payload; /* most bytes of a frame behind a struct wire_transfer */
};

static inline uint64_t
frame_handle(const struct frame *f)
{
	return (uintptr_t)f | RMA_SERVICE;
}

static inline struct frame *
frame_of_handle(uint64_t handle)
{
	return (struct frame *)(uintptr_t)(handle & ~(uint64_t)SERVICE_TAG);
}

static inline struct rma_lane *
rma_lane(const struct engine *e)
{
	return e->service[RMA_SERVICE];
}

static inline struct rma_context *
rma_context(const struct channel *ch)
{
	return ch->service[RMA_SERVICE];
}

/* What is under way that needs turns. */
static inline bool
rma_is_busy(const struct rma_lane *x)
{
	return x->waiting != 0 || x->requests.head != NULL || x->local_waiting != 0 ||
		x->dma.head != x->dma.tail || x->events_waiting != 0 || x->lingering != NULL;
}

extern const struct service_ops service_rma;

#endif
