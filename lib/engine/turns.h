/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which channels a lane looks at in its turns. All open and closing channels of a lane are in
 * engine.open: first the busy ones, which every turn looks at, then the idle ones, of which each
 * turn looks at a few. So an idle context costs nothing, and what it submits at last waits for as
 * many turns as it takes to come round.
 *
 * Design notes
 * 1. Nobody else has to say anything: no shared word for clients to write, and so none that one
 *    client could write in another's name.
 * 2. A channel becomes busy by a submission, and by what happens in it (engine_flush). It becomes
 *    idle when neither was seen for SWEEP turns. A lane with few channels has no idle ones.
 * 3. engine_sleeps is set in an idle channel all the time, so its client rings the doorbell with
 *    what it submits first. So a lane that sleeps, and one that wakes, has to do with the busy
 *    channels alone, however many there are. Clients that attached while engine.idle did not sleep
 *    never ring; while there are such, the lane looks at all channels.
 */
#ifndef PMX_ENGINE_TURNS_H
#define PMX_ENGINE_TURNS_H

#include "engine/lane.h"

#define TURNS_SWEEP 4096 /* turns between looks for channels that have become idle */
#define TURNS_FEW   1    /* so many are always busy */
#define TURNS_IDLE  2    /* idle channels that a turn looks at */

static inline void
turns_swap(struct engine *e, uint32_t a, uint32_t b)
{
	struct channel *ch = e->open[a];

	e->open[a] = e->open[b];
	e->open[b] = ch;
	e->open[a]->place = a;
	e->open[b]->place = b;
}

/* Make the channel a busy one: every turn looks at it from now on. */
static inline void
turns_busy(struct engine *e, struct channel *ch)
{
	ch->stirred = true;
	if (likely(ch->place < e->busy_count))
		return;
	turns_swap(e, ch->place, e->busy_count++);
	atomic_store_explicit(&ch->shm->engine_sleeps, ENGINE_AWAKE, memory_order_relaxed);
}

/* Make a busy channel an idle one, unless it has submitted something just now. */
static inline void
turns_idle(struct engine *e, struct channel *ch)
{
	turns_swap(e, ch->place, --e->busy_count);
	atomic_store_explicit(&ch->shm->engine_sleeps, ENGINE_SLEEPS, memory_order_relaxed);
	/* full fence: either its client sees the flag, or the lane the submission; pairs with
	 * ctx_doorbell's */
	atomic_thread_fence(memory_order_seq_cst);
	if (slot_filled(&ch->sub, ch->sub.pos))
		turns_busy(e, ch);
}

static inline void
turns_add(struct engine *e, struct channel *ch)
{
	ch->place = e->open_count;
	e->open[e->open_count++] = ch;
	ch->rings = ch->shm->engine_may_sleep; /* as its client has it */
	e->mute_count += !ch->rings;
	ch->low = true; /* it may go on with a ring of before */
	turns_busy(e, ch);
}

static inline void
turns_remove(struct engine *e, struct channel *ch)
{
	if (ch->place < e->busy_count)
		turns_swap(e, ch->place, --e->busy_count);
	turns_swap(e, ch->place, --e->open_count);
	e->mute_count -= !ch->rings;
}

#endif
