/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes that clients watch: channel_shm.watched tells which, and the lane writes what it knows of
 * each to channel_shm.watch. Both are states, not messages: nothing is lost or grows if nobody
 * looks, and a lane that takes over from another primary goes on with them. Runs on the lane.
 */
#ifndef PMX_ENGINE_WATCH_H
#define PMX_ENGINE_WATCH_H

#include "engine/lane.h"

/* Have the lane look, in this turn, at what the client watches. To be called when the client has
 * changed that, or when the context has come from another primary. */
void watch_begin(struct engine *e, struct channel *ch);
/* Look at all that is watched. Called at engine.watch_at while engine.watches is set. */
void watch_step(struct engine *e);

#endif
