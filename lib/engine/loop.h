/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane's turn, its loop, and what it does when there is nothing to do. On the thread that is the
 * lane.
 */
#ifndef PMX_ENGINE_LOOP_H
#define PMX_ENGINE_LOOP_H

#include "engine/lane.h"

/* One turn of a lane; returns what it moved. */
unsigned engine_poll(struct engine *e);
/* Poll until e->stop, idling by the config's policy. */
void engine_run(struct engine *e);

#endif
