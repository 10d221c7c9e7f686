/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers of contexts whose clients map nothing but their channel.
 */
#ifndef PMX_ENGINE_THIN_H
#define PMX_ENGINE_THIN_H

#include "engine/lane.h"

uint64_t thin_bytes(const struct node *n, const struct quotas *q);
/* Make the buffers in a client's memory: fd, of len bytes. flags: memory_make's. Return NULL with
 * errno: EINVAL if len does not fit the quotas. Not to be called on a lane. The result is freed
 * with its memory: by memory_discard, or by memory_retire once a lane had it. */
struct thin *thin_make(struct node *n, const struct quotas *q, int fd, uint64_t len,
	unsigned flags);
/* Copy what the client wrote for a message of len bytes into the mbufs of these send buffers. */
void thin_fill(struct channel *ch, const uint16_t *bufs, unsigned count, uint32_t len);
/* Copy a received payload into one of the client's buffers. Return where it is, and its number in
 * *number. */
uint8_t *thin_keep(struct thin *t, const uint8_t *payload, uint32_t len, uint32_t *number);

/* In the core's handle of a received frame: the payload lies in its client's memory (park.h). */
#define THIN_FRAME (1ull << 63)

/* Copy the payload of a frame of an unfinished message into one of the client's buffers, which
 * stays the engine's. Return the frame's new handle. */
uint64_t thin_frame_keep(struct channel *ch, const uint8_t *payload, uint32_t len);
/* Copy back the payload that thin_frame_keep() has kept, and free its buffer. */
void thin_frame_take(struct channel *ch, uint64_t handle, uint8_t *to, uint32_t len);
/* Free the buffer of a handle that the core has released. */
void thin_frame_free(struct node *n, uint64_t handle);

#endif
