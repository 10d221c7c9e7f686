/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completions: from the core to send buffers and services, and from both to clients. All functions
 * run on the lane.
 */
#ifndef PMX_ENGINE_COMPLETE_H
#define PMX_ENGINE_COMPLETE_H

#include "engine/lane.h"

/* Take completions from the core and pass each to its client or service. Return how many there
 * were. */
unsigned engine_complete(struct engine *e);
/* Return a send buffer to its client with the error, 0 if it was Acked. Do so later if a port still
 * has the mbuf and no other is free. */
void slot_complete(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error);
/* Tell the service of the endpoint that a failed send buffer was sent from. Then return the buffer
 * to its client as slot_complete() does. */
void slot_failed(struct engine *e, struct channel *ch, struct send_slot *s,
	const struct send_failure *f);
/* Write completions and results, and wake clients that sleep. Called at the end of a turn. */
void engine_flush(struct engine *e);

#endif
