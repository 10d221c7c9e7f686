/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a service of the engine: what lib/rma (RMA-1 to RMA-3) asks for and tells,
 * carried out with mbufs, applications' memory and rings. All of it belongs to the lane.
 *
 * Design notes
 * 1. A frame refers to the application's memory where the engine has mapped it and the link can
 *    send two segments, for a device if it was mapped for that too. Otherwise the bytes are copied
 *    behind the head, by memcpy or by the kernel.
 * 2. Within a node the same frames go from hand to hand, through the inbox of the target's lane if
 *    it is another one, and back: the target reads the bytes where they lie.
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

/* What carries a frame of lib/rma, whose `user` it is. The core's handle of it is its address,
 * tagged. */
struct frame {
	struct rma_frame *f;
	struct rte_mbuf *m;     /* headers, and what was copied */
	struct rte_mbuf *place; /* second segment: bytes where they lie; its private area is its
				 * shared info */
	struct memory *memory;  /* whose they are, NULL: all is in m */
	struct frame *next;     /* in a list of those that wait */
	bool back;              /* within this node: it was there */
	uint8_t error;
};

/* What a channel has of it, beside lib/rma's context. */
struct rma_channel {
	struct rma *rma;             /* of its lane */
	struct transfer_desc *descs; /* the client's table, in shared memory */
	uint32_t *ended;             /* results not yet written: ring of limits.transfers */
	uint32_t ended_head, ended_tail, ended_mask;
	struct slot_end events;
	struct {
		bool due, waits; /* waits: for frames that still read it */
		uint32_t ticket, error;
		uint64_t key;
	} region;                              /* answer to REGISTER, DEREGISTER */
	struct frame *local_head, *local_tail; /* frames of this node that wait for room here */
	bool leaves;                           /* it ended, and not all heard it who pin for it */
	uint32_t withheld; /* room for others' transfers that a frozen lane keeps from
			    * them */
};

/* A message of a transfer, and what it came in. */
struct arrival {
	struct rma_message msg;
	struct rte_mbuf *m; /* NULL: from this node */
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

/* What a lane has of it. */
struct rma_lane {
	struct rma *rma;
	struct frame *frames;       /* limits.transfer_frames of them */
	struct frame *lingering;    /* done with, but a port has their mbufs */
	uint32_t local_waiting;     /* frames of this node, for targets of this lane that have no
				     * room */
	struct rte_mempool *places; /* mbufs without room, for second segments */
	/* a transfer that another service began with rma_fetch has ended; NULL: none does */
	void (*fetched)(struct engine *e, struct channel *ch, uint32_t cookie, uint8_t error);
	struct dma dma;
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
/* After a call of lib/rma: what it has for others goes to them before the turn ends. */
static inline void
service_rma_called(struct engine *e)
{
	service_busy(e, RMA_SERVICE);
	service_owes(e, RMA_SERVICE);
}

#endif
