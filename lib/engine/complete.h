/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completions: of the core to send buffers, and of both to clients. On the lane.
 */
#ifndef PMX_ENGINE_COMPLETE_H
#define PMX_ENGINE_COMPLETE_H

#include "engine/lane.h"

/* What the core is done with goes back to whom it is of. */
unsigned engine_complete(struct engine *e);
/* A send buffer is its client's again, which is told the error. */
void slot_complete(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error);
/* ... after the service of the endpoint that it was sent from has heard of it. */
void slot_failed(struct engine *e, struct channel *ch, struct send_slot *s,
	const struct send_failure *f);
/* The end of a turn: what happened in channels becomes visible to their clients. */
void engine_flush(struct engine *e);

#endif
