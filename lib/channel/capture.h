/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory by which a primary's lanes hand copies of their frames to `pmx-ctl capture`: a ring of
 * bytes for each lane, which it alone writes. The reader makes the memory, and passes it by
 * ATTACH_CAPTURE; it is root or the primary's own user, so it is trusted with its positions, which
 * are checked all the same.
 */
#ifndef PMX_CHANNEL_CAPTURE_H
#define PMX_CHANNEL_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_RINGS      16          /* one for each lane that a node may have */
#define CAPTURE_RING_BYTES (4u << 20)  /* of frames; a power of two */
#define CAPTURE_FRAME_MAX  (64u << 10) /* bytes of a frame that are kept, at most */
#define CAPTURE_ALL        0xFFFF      /* filters: every peer, every context */

struct capture_ring {
	_Atomic uint64_t written; /* position of the lane, bytes */
	uint8_t pad0[56];
	_Atomic uint64_t read; /* position of the reader */
	uint8_t pad1[56];
	_Atomic uint64_t skipped; /* frames for which there was no room */
	uint8_t pad2[56];
	uint8_t bytes[CAPTURE_RING_BYTES];
};

#define CAPTURE_BYTES (CAPTURE_RINGS * sizeof(struct capture_ring))

enum capture_direction {
	CAPTURE_IN = 1,
	CAPTURE_OUT = 2,
};

/* Precedes the bytes of each frame. Records begin at multiples of 8, and none goes over the end of
 * the ring: one of `kept` CAPTURE_PADDING fills it up. */
struct capture_record {
	uint32_t bytes; /* of the record, with this head */
	uint32_t kept;  /* bytes of the frame that follow */
	uint32_t len;   /* of the frame */
	uint8_t link, direction;
	uint16_t lane;
	uint64_t ns;      /* since 1970 */
	char dropped[40]; /* counter of the reason for which it was dropped; "": it was not */
};
#define CAPTURE_PADDING UINT32_MAX

/* Return attach_request.addr of ATTACH_CAPTURE. */
static inline uint64_t
capture_filter(uint16_t peer, uint16_t context, uint32_t keep)
{
	return (uint64_t)keep << 32 | (uint32_t)context << 16 | peer;
}

#endif
