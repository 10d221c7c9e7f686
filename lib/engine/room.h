/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Returns room of receivers: entries that were read, and buffers that were given back. All
 * functions run on the lane.
 */
#ifndef PMX_ENGINE_ROOM_H
#define PMX_ENGINE_ROOM_H

#include "engine/lane.h"

/* Return whether more than half of the ring's entries have not been given back by the reader. */
static inline bool
inlet_is_low(const struct inlet *in)
{
	return in->lhs.pos - in->lhs_pos > in->lhs_size / 2;
}

static inline bool
channel_is_low(const struct channel *ch)
{
	return inlet_is_low(&ch->plain) || inlet_is_low(&ch->matched);
}

/* Give back the room of the entries that the reader has taken since the last call. */
void inlet_room(struct engine *e, struct inlet *in);
/* Take back n received messages, by the numbers that the client was told. A number that the client
 * does not own is counted and skipped. Only the lane itself (matching) may give back messages of
 * the matched inlet that it matches. */
void inlet_release(struct engine *e, struct channel *ch, const uint32_t *numbers, unsigned n,
	bool matching);

#endif
