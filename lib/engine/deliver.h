/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the core into channels, and to services. On the lane.
 */
#ifndef PMX_ENGINE_DELIVER_H
#define PMX_ENGINE_DELIVER_H

#include "engine/lane.h"

/* What the core holds in order, and what it lets go of. */
unsigned engine_deliver(struct engine *e);
/* A frame that is a whole message, as the core said. */
void engine_message(struct engine *e, struct rte_mbuf *m);
/* One fragment in order becomes the inlet's, which has room for it: payload_off bytes into the
 * mbuf's data. */
void inlet_put(struct engine *e, struct inlet *in, uint16_t src_node, uint16_t src_ctx,
	struct rte_mbuf *m, uint32_t payload_off, uint32_t len, uint32_t msg_len, bool last);

#endif
