/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers of contexts whose clients map nothing but their channel.
 */
#ifndef PMX_ENGINE_THIN_H
#define PMX_ENGINE_THIN_H

#include "engine/lane.h"

uint64_t thin_bytes(const struct node *n, const struct quotas *q);
/* From a client's descriptor of len bytes, not the lane's to call; flags: memory_make's. NULL with
 * errno. Ends with its memory: memory_discard, or memory_retire once a lane had it. */
struct thin *thin_make(struct node *n, const struct quotas *q, int fd, uint64_t len,
	unsigned flags);
/* What the client wrote for a message in these buffers becomes the engine's own. */
void thin_fill(struct channel *ch, const uint16_t *bufs, unsigned count, uint32_t len);
/* A received payload into one of the client's buffers: where it is, and its number. */
uint8_t *thin_keep(struct thin *t, const uint8_t *payload, uint32_t len, uint32_t *number);

#endif
