/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane's turn, its loop, and its idling. All functions run on the lane's own thread.
 */
#ifndef PMX_ENGINE_LOOP_H
#define PMX_ENGINE_LOOP_H

#include "engine/lane.h"

/* Take one turn of a lane. Return how much it moved; 0: there was nothing to do. */
unsigned engine_poll(struct engine *e);
/* Poll until e->stop, idling by the configured policy. */
void engine_run(struct engine *e);

#endif
