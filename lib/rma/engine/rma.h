/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a service of the engine: carries out what lib/rma (RMA-1 to RMA-3) decides, with
 * mbufs, applications' memory and rings. All of it belongs to the lane.
 *
 * Design notes
 * 1. A frame refers to the application's memory if the engine has mapped it and the link can send
 *    two segments; a link with a device also needs it mapped for the device. Otherwise the bytes
 *    are copied behind the head, by memcpy or by the kernel.
 * 2. Within a node the same frames are handed to the target's lane and back, through inboxes if it
 *    is another lane: the target reads the bytes where they lie.
 */
#ifndef PMX_ENGINE_RMA_H
#define PMX_ENGINE_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "channel/channel.h"
#include "engine/lane.h"
#include "memory/memory.h"
#include "rma/rma.h"

#define RMA_SERVICE 1

/* The mbufs of a frame of lib/rma, whose `user` points here. The core's handle of the frame is the
 * address of this structure, tagged. */
struct frame {
	struct rma_frame *f;
	struct rte_mbuf *m;     /* headers, and bytes that were copied */
	struct rte_mbuf *place; /* second segment, which refers to bytes in place; its shared info
				 * is in its private area */
	struct memory *memory;  /* that place refers to; NULL: all is in m */
	struct frame *next;     /* in a list of waiting frames */
	bool back;              /* within this node: it returns from its target */
	uint8_t error;
};

/* State of a channel, besides lib/rma's context. */
struct rma_channel {
	struct rma *rma;             /* of its lane */
	struct transfer_desc *descs; /* the client's table, in shared memory */
	uint32_t *ended;             /* results not yet written: ring of ended_mask + 1 */
	uint32_t ended_head, ended_tail, ended_mask;
	struct slot_end events;
	struct {
		bool due, waits; /* waits: until no frame reads it any more */
		uint32_t ticket, error;
		uint64_t key;
	} region;                              /* answer to SUBMIT_REGISTER or SUBMIT_DEREGISTER */
	struct frame *local_head, *local_tail; /* frames of this node that wait for room here */
	bool leaves;                           /* it ended, but not all who pinned memory for it
						* have been told */
	uint32_t withheld; /* room for others' transfers that a frozen lane has taken away */
};

/* A message of a transfer, and the mbuf that it came in. */
struct arrival {
	struct rma_message msg;
	struct rte_mbuf *m; /* NULL: from this node */
};

#define LATE_MAX 32

#define DMA_COPIES 256  /* most copies under way */
#define DMA_MIN    1024 /* bytes; fewer are copied by the CPU */

/* A frame that waits for a copy: of its own bytes, or of those of earlier frames. */
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
	/* called when the bytes of a frame are in their place */
	void (*placed)(struct engine *e, struct channel *ch, const struct arrival *a);
	int device;          /* -1: none */
	uint32_t head, tail; /* of jobs */
	uint64_t begun;      /* copies in total */
	struct dma_job jobs[DMA_COPIES];
};

/* Frames whose bytes go to memory that only the kernel can write, of one context and one of its
 * endpoints, in the order of their arrival. They are written together, by one system call: at the
 * end of the burst that brought them, or before anything else arrives. */
struct late {
	struct channel *ch;
	bool at_target;
	unsigned count;
	struct arrival arrivals[LATE_MAX];
	uint64_t at[LATE_MAX]; /* the client's address of each one's bytes */
};

#define RMA_COOKIE_COPY 0x80000000u
#define RMA_NO_COOKIE   UINT32_MAX

typedef void(rma_fetched)(struct engine *e, struct channel *ch, uint32_t cookie, uint8_t error);

/* State of a lane. */
struct rma_lane {
	struct rma *rma;
	struct frame *frames;       /* array of limits.transfer_frames */
	struct frame *lingering;    /* completed, but a port still has their mbufs */
	uint32_t local_waiting;     /* frames from this node that wait for room at targets of this
				     * lane */
	struct rte_mempool *places; /* mbufs without a data room, for second segments */
	/* called when a transfer that another service began with rma_fetch has ended: with its
	 * cookie, or with RMA_NO_COOKIE if it was the other one's, so that there is a place again;
	 * NULL: none does that */
	rma_fetched *fetched; /* of matching: cookies below RMA_COOKIE_COPY */
	rma_fetched *copied;  /* of groups: the others */
	struct dma dma;
	struct late late;
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

static inline struct rma_channel *
rma_channel(const struct channel *ch)
{
	return ch->service[RMA_SERVICE];
}

extern const struct service_ops service_rma;
/* Have what lib/rma produced passed on before the turn ends. This is to be called after calls of
 * lib/rma. */
static inline void
service_rma_called(struct engine *e)
{
	service_busy(e, RMA_SERVICE);
	service_owes(e, RMA_SERVICE);
}

#endif
