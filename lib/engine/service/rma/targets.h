/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The target's side of remote memory: what others ask this lane's contexts for. On the lane.
 */
#ifndef PMX_RMA_TARGETS_H
#define PMX_RMA_TARGETS_H

#include "engine/service/rma/rma.h"

/* A message to a target, whose entry the core has taken. true: a->m is kept. */
bool target_message(struct engine *e, struct channel *ch, const struct arrival *a);
/* The bytes of a frame of a push are in their place. */
void target_placed(struct engine *e, struct channel *ch, const struct arrival *a);
/* An answer was not Acked: what follows it must not look like all of it. */
void target_peer_failed(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer,
	uint8_t error);

#endif
