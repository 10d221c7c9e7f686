/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Returns room of receivers: entries that were read, and buffers that were given back. All
 * functions run on the lane.
 */
#ifndef PMX_ENGINE_ROOM_H
#define PMX_ENGINE_ROOM_H

#include "engine/lane.h"

/* Returns the room of the entries that the reader has taken since the last call. */
void inlet_room(struct engine *e, struct inlet *in);
/* Takes back n received messages, by the numbers that the client was told. A number that the client
 * does not own is counted and skipped. Only the lane itself (matching) may give back messages of
 * the matched inlet that it matches. */
void inlet_release(struct engine *e, struct channel *ch, const uint32_t *numbers, unsigned n,
	bool matching);

#endif
