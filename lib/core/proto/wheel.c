/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The timer wheel: one entry for each flow and path. Owner thread only.
 *
 * Design notes
 * 1. Arming is lazy: an entry stays in its slot when its deadline moves later, and the handler that
 *    finds itself too early arms it again. So the hot path only stores a deadline.
 * 2. An entry whose deadline lies beyond the wheel's horizon waits in the last slot, and is armed
 *    again there.
 */
#include "core/proto/internal.h"

static void
unlink_timer(struct proto *p, uint32_t index)
{
	struct timer *t = &p->timers[index];
	struct wheel *w = &p->wheel;

	if (t->prev != NIL)
		p->timers[t->prev].next = t->next;
	else
		w->head[t->slot] = t->next;
	if (t->next != NIL)
		p->timers[t->next].prev = t->prev;
	if (w->head[t->slot] == NIL)
		w->busy[t->slot / 64] &= ~(1ull << (t->slot % 64));
	t->slot = TIMER_OFF;
}

void
timer_arm(struct proto *p, uint32_t index, uint64_t at)
{
	struct timer *t = &p->timers[index];
	struct wheel *w = &p->wheel;
	uint64_t visit = (at >> w->shift) + 1; /* not before `at` */

	if (visit <= w->cursor)
		visit = w->cursor + 1;
	else if (visit > w->cursor + WHEEL_SLOTS - 1)
		visit = w->cursor + WHEEL_SLOTS - 1;
	if (t->slot != TIMER_OFF) {
		if (t->at <= visit)
			return;
		unlink_timer(p, index);
	}
	t->at = visit;
	t->slot = visit % WHEEL_SLOTS;
	t->prev = NIL;
	t->next = w->head[t->slot];
	if (t->next != NIL)
		p->timers[t->next].prev = index;
	w->head[t->slot] = index;
	w->busy[t->slot / 64] |= 1ull << (t->slot % 64);
}

void
timer_stop(struct proto *p, uint32_t index)
{
	if (p->timers[index].slot != TIMER_OFF)
		unlink_timer(p, index);
}
