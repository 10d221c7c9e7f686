/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frozen lane begins nothing new and finishes what it had begun, so that its state can be handed
 * to another primary (lib/primary/takeover.h).
 */
#ifndef PMX_ENGINE_FREEZE_H
#define PMX_ENGINE_FREEZE_H

#include "engine/lane.h"

/* Freeze the lane. Called on the lane. */
static inline void
freeze_begin(struct engine *e)
{
	atomic_store(&e->drained, false);
	atomic_store(&e->undrained, NULL);
	atomic_store(&e->frozen, true);
	e->freezes = true;
}

/* Called at the end of each turn of a frozen lane. When everything has ended that must, it sets
 * engine.drained and waits here for engine.stop to be set or engine.frozen to be cleared. */
void freeze_step(struct engine *e);
/* Let all contexts go on: services undo what they did to hold them up. */
void freeze_end(struct engine *e);

#endif
