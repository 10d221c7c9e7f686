/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane that is frozen begins nothing new and sees off what was begun, so that its state can be
 * given to another primary (lib/serve/takeover.h).
 */
#ifndef PMX_ENGINE_FREEZE_H
#define PMX_ENGINE_FREEZE_H

#include "engine/lane.h"

/* On the lane: begin nothing new. */
static inline void
freeze_begin(struct engine *e)
{
	atomic_store(&e->drained, false);
	atomic_store(&e->frozen, true);
	e->freezes = true;
}

/* On a lane that was frozen, at the end of each turn: when everything has ended that must
 * (engine.drained) it waits here for engine.stop, or for engine.frozen to be taken back. */
void freeze_step(struct engine *e);
/* All contexts go on: what was kept from them may come again. */
void freeze_end(struct engine *e);

#endif
