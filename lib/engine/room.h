/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room of receivers comes back: entries that were read, buffers that were given back. On the lane.
 */
#ifndef PMX_ENGINE_ROOM_H
#define PMX_ENGINE_ROOM_H

#include "engine/lane.h"

/* Looks how many entries the reader took since the last time. */
void inlet_room(struct engine *e, struct inlet *in);
/* Received messages go back, by the numbers that the client was told; of those that the lane
 * matches only it says so itself (matching). */
void inlet_release(struct engine *e, struct channel *ch, const uint32_t *numbers, unsigned n,
	bool matching);

#endif
