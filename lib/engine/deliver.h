/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the core into channels, and to services. All functions run on the lane.
 */
#ifndef PMX_ENGINE_DELIVER_H
#define PMX_ENGINE_DELIVER_H

#include "engine/lane.h"

/* Deliver what the core has in order, and free the mbufs that it releases. Return how many
 * fragments were delivered. */
unsigned engine_deliver(struct engine *e);
/* Deliver a frame that is a whole message (PROTO_RX_MESSAGE). */
void engine_message(struct engine *e, struct rte_mbuf *m);
/* Pass one fragment, in order, to the inlet, which must have room for it. Its payload begins
 * payload_off bytes into the mbuf's data. */
void inlet_put(struct engine *e, struct inlet *in, uint16_t src_node, uint16_t src_ctx,
	struct rte_mbuf *m, uint32_t payload_off, uint32_t len, uint32_t msg_len, bool last);

#endif
