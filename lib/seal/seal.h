/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed frames: from a frame of the protocol core to what goes over the wire, and back. The
 * receiver knows who sent a frame, that nobody has changed it, and that it has not had it before;
 * with SEAL_SEAL nobody else can read its payload.
 *
 *     | header, 50 bytes | payload | session, 4 bytes | tag, 16 bytes |
 *
 * On the wire `session` of the header is the number by which the receiver knows the key, and `crc`
 * the low 32 bits of the frame's count; the session itself is in front of the tag. All of it is
 * authenticated: header and session always, the payload as well.
 *
 * Design notes
 * 1. The nonce is the session and the frame's count: as long as counts of a key only grow, none is
 *    used twice.
 * 2. The count's upper half is not sent: it is the one with which the count lies nearest to the
 *    highest one that was received. That is right as long as fewer than 2^31 frames are lost in a
 *    row.
 * 3. Frames that were received are noted in a ring of bits (RFC 6479), as wide as frames overtake
 *    each other on several links. A frame that is too old or was noted costs no decryption.
 *
 * Pure. A struct seal_tx or seal_rx belongs to one thread.
 */
#ifndef PMX_SEAL_SEAL_H
#define PMX_SEAL_SEAL_H

#include "core/wire/wire.h"
#include "seal/cipher.h"

/* In the order of security.mode's choices. */
enum seal_mode {
	SEAL_OFF,
	SEAL_AUTH, /* payloads can be read by others */
	SEAL_SEAL,
};

#define SEAL_TRAILER_BYTES (4 + CIPHER_TAG_BYTES)
#define SEAL_WINDOW        8192 /* bits of the ring; frames this far back, less a word, count */
/* A key seals at most so many frames, and is to be replaced before. */
#define SEAL_COUNT_SOON    (UINT64_C(1) << 40)
#define SEAL_COUNT_MAX     (SEAL_COUNT_SOON + (UINT64_C(1) << 32))

/* The end of a key that seals. There is one for each lane of the sender and each of the
 * receiver. */
struct seal_tx {
	void *key;      /* of the cipher */
	uint64_t count; /* of the next frame, from 1 */
	uint32_t index; /* by which the receiver knows the key */
};

struct seal_rx {
	void *key;
	uint64_t highest; /* count of a frame that was received; 0: none was */
	uint64_t ring[SEAL_WINDOW / 64];
};

enum seal_verdict {
	SEAL_OK,
	SEAL_SHORT,    /* shorter than any frame */
	SEAL_REPLAYED, /* it was received before, or is too old to know */
	SEAL_FORGED,   /* not from who has the key, or changed on its way */
};

/* Seal a frame of len bytes, header and payload, whose header has no checksum. `to` has room for
 * SEAL_TRAILER_BYTES more than len, and may be `frame`. Return the bytes in `to`; 0: the key must
 * not be used any more. */
uint32_t seal_frame(const struct cipher *c, struct seal_tx *tx, enum seal_mode mode,
	const void *frame, uint32_t len, void *to);
/* Open a frame where it lies. With SEAL_OK it is as its sender's core wrote it, and
 * SEAL_TRAILER_BYTES shorter; otherwise it means nothing. */
enum seal_verdict seal_open(const struct cipher *c, struct seal_rx *rx, enum seal_mode mode,
	void *frame, uint32_t len);

#endif
