/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completions: from the core to send buffers and services, and from both to clients. All functions
 * run on the lane.
 */
#ifndef PMX_ENGINE_COMPLETE_H
#define PMX_ENGINE_COMPLETE_H

#include "engine/lane.h"

/* Takes completions from the core and passes each to its client or service. Returns how many. */
unsigned engine_complete(struct engine *e);
/* Returns a send buffer to its client with the error, 0 if it was Acked; later, if a port still has
 * the mbuf and no other is free. */
void slot_complete(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error);
/* The same for a failed one, after telling the service of the endpoint that it was sent from. */
void slot_failed(struct engine *e, struct channel *ch, struct send_slot *s,
	const struct send_failure *f);
/* At the end of a turn: writes completions and results, and wakes clients that sleep. */
void engine_flush(struct engine *e);

#endif
