/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies by a DMA device. All functions but dma_open and dma_close run on the lane.
 */
#ifndef PMX_RMA_DMA_H
#define PMX_RMA_DMA_H

#include "rma/engine/rma.h"

int dma_open(struct engine *e, char *error, size_t error_len);
void dma_close(struct engine *e);
bool dma_copy_begin(struct engine *e, struct channel *ch, const struct arrival *a,
	struct memory *memory, uint8_t *to);
/* Begin to copy a frame that came in a->m into memory that the engine has mapped, and keep a->m
 * until that is done. Return false if the CPU has to copy. */
static inline bool
dma_copy(struct engine *e, struct channel *ch, const struct arrival *a, struct memory *memory,
	uint8_t *to)
{
	return unlikely(rma_lane(e)->dma.device >= 0) && dma_copy_begin(e, ch, a, memory, to);
}

bool dma_queue(struct engine *e, struct channel *ch, const struct arrival *a);
unsigned dma_poll(struct engine *e);
/* Wait until all copies that were begun are done. */
void dma_drain(struct engine *e);

/* Delay dma.placed for a frame whose bytes are in place until all copies begun before it are done,
 * and keep a->m until then. Return false if no copy is under way any more. */
static inline bool
dma_later(struct engine *e, struct channel *ch, const struct arrival *a)
{
	const struct dma *d = &rma_lane(e)->dma;

	if (likely(d->head == d->tail))
		return false;
	if (dma_queue(e, ch, a))
		return true;
	dma_drain(e);
	return false;
}

#endif
