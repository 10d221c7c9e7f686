/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies by a DMA device. On the lane, but for opening and closing.
 */
#ifndef PMX_RMA_DMA_H
#define PMX_RMA_DMA_H

#include "engine/service/rma/rma.h"

int dma_open(struct engine *e, char *error, size_t error_len);
void dma_close(struct engine *e);
bool dma_copy_begin(struct engine *e, struct channel *ch, const struct arrival *a,
	struct memory *memory, uint8_t *to);
/* A copy into memory that the engine has mapped, of a frame that came in a->m. false: the CPU shall
 * do it. */
static inline bool
dma_copy(struct engine *e, struct channel *ch, const struct arrival *a, struct memory *memory,
	uint8_t *to)
{
	return unlikely(rma_lane(e)->dma.device >= 0) && dma_copy_begin(e, ch, a, memory, to);
}

bool dma_queue(struct engine *e, struct channel *ch, const struct arrival *a);
/* What is said of a frame whose bytes are there, when what was begun before is done. false: it can
 * be said now. */
static inline bool
dma_later(struct engine *e, struct channel *ch, const struct arrival *a)
{
	const struct dma *d = &rma_lane(e)->dma;

	return unlikely(d->head != d->tail) && dma_queue(e, ch, a);
}

unsigned dma_poll(struct engine *e);
void dma_drain(struct engine *e);

#endif
