/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is done when time passes: proto_tick visits the wheel (wheel.c). All timers are listed at
 * the top of internal.h.
 *
 * Design notes
 * 1. A thread that did not run for a while finds expired timers and the Acks that these wait for at
 *    the same time. So timers run after received frames are handled, and are put off, for a bounded
 *    time, while more frames wait in a link.
 * 2. What such a thread sent just before or just after its absence cannot be Acked yet, though its
 *    time stamps are old. So after an absence of more than a quarter of rto_min, timers wait for
 *    half of rto_min.
 */
#include "core/proto/internal.h"

#define PUT_OFF_MAX 64 /* turns */

static void
visit_slot(struct proto *p, uint32_t slot, uint64_t now)
{
	/* This ends, because handlers arm timers in later slots only. */
	while (p->wheel.head[slot] != NIL) {
		uint32_t index = p->wheel.head[slot];

		timer_stop(p, index);
		if (index < p->cfg.flows_max)
			flow_rto(p, index, now);
		else
			path_timer(p, index - p->cfg.flows_max, now);
	}
}

void
proto_begin(struct proto *p, uint64_t before, uint64_t now)
{
	uint64_t away = now - before;

	p->waited = away + (unlikely(p->backlog) ? p->waited : 0);
	p->begun_at = now;
	p->backlog = false;
	/* Note 3. This does not repeat before timers have run: a thread that is always slow must
	 * run them too. */
	if (unlikely(away > p->rto_min / 4) && now - p->grace_from > p->rto_min + p->rto_min / 2 &&
		!p->graced) {
		p->grace_from = now;
		p->graced = true;
	}
}

void
proto_backlog(struct proto *p)
{
	p->backlog = true;
}

bool
proto_run_timers(struct proto *p, uint64_t now)
{
	struct wheel *w = &p->wheel;
	uint64_t target = now >> w->shift;

	if (now - p->grace_from < p->rto_min / 2)
		return false;
	if (p->backlog && p->put_off++ < PUT_OFF_MAX)
		return false;
	p->put_off = 0;
	p->graced = false;
	if (unlikely(p->starved))
		room_feed(p);
	uint64_t from = w->cursor + 1;

	if (target - from >= WHEEL_SLOTS)
		from = target - WHEEL_SLOTS + 1;
	for (uint64_t s = from; s <= target; s++) {
		uint32_t slot = s % WHEEL_SLOTS;

		w->cursor = s;
		if (w->busy[slot / 64] >> (slot % 64) & 1)
			visit_slot(p, slot, now);
	}
	p->due.tick_at = (w->cursor + 1) << w->shift;
	return true;
}

/* Return the first busy slot after the cursor, as a slot number; 0 = none. */
static uint64_t
next_busy(const struct wheel *w)
{
	for (uint32_t i = 1; i < WHEEL_SLOTS;) {
		uint32_t slot = (w->cursor + i) % WHEEL_SLOTS;
		uint64_t word = w->busy[slot / 64] >> (slot % 64);

		if (word != 0)
			return w->cursor + i + (uint32_t)__builtin_ctzll(word);
		i += 64 - slot % 64;
	}
	return 0;
}

uint64_t
proto_deadline(const struct proto *p)
{
	uint64_t busy = next_busy(&p->wheel);
	uint64_t at = busy ? busy << p->wheel.shift : UINT64_MAX;

	if (p->acks_urgent.head != NIL || p->ctl.head != NIL || p->stray_head != p->stray_tail)
		return 0;
	if (p->acks_due.head != NIL && p->flows[p->acks_due.head].ack_at < at)
		at = p->flows[p->acks_due.head].ack_at;
	return at;
}
