/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames to be sent, from a header and a payload to an mbuf with its encapsulation in a link's
 * queue: all but the common one, which link_io.h makes. Lane only.
 */
#ifndef PMX_ENGINE_FRAME_H
#define PMX_ENGINE_FRAME_H

#include "engine/lane.h"

/* Return the CRC32C of the header, with crc taken as 0, and the payload. */
uint32_t engine_frame_checksum(const struct wire_hdr *h, const void *payload, uint32_t len);
/* Return the mbuf that carries a frame of the core. NULL: there is none, and the frame is not
 * sent. */
struct rte_mbuf *engine_frame_make(struct engine *e, const struct proto_out *o,
	const struct peer *peer);
/* Write the frame's header, and the peer's encapsulation in front of it. */
void engine_frame_put_head(struct engine *e, struct rte_mbuf *m, const struct proto_out *o,
	const struct peer *peer);
/* Queue a frame for a link, which takes it; it is lost if there is no room. */
void engine_frame_queue(struct engine *e, unsigned link, struct rte_mbuf *m);
/* A frame of a handshake: a message, or, len 0, the first frame with new keys. */
struct keys_frame {
	const void *message;
	uint32_t len;
	uint16_t lane; /* of the peer */
	uint32_t turn; /* of the peer's links: the next one in each, since one of them may be
			* dead */
	bool open;     /* it must not be sealed, since the peer may have no keys */
};

void engine_send_keys(struct engine *e, uint16_t node, const struct keys_frame *f);

#endif
