/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See withdraw.h. What expires is found by looking through the send slots of the contexts that have
 * such messages, since few have, and few at a time.
 */
#include <errno.h>

#include "base/clock.h"
#include "engine/complete.h"
#include "engine/local.h"
#include "engine/withdraw.h"

#define LOOK_US      1000
#define LEFT_MOST_US (UINT64_C(1) << 40) /* two weeks; in ticks it is a number of 64 bits */
/* Most in a look: each takes as long as its flow has frames, and others wait meanwhile. */
#define LOOK_MOST    32

static void
take_back(struct engine *e, struct channel *ch, struct send_slot *s)
{
	const struct send_terms *t = &ch->terms[s->number];

	s->expires = false;
	if (s->state == SEND_QUEUED)
		proto_withdraw(e->proto, t->to, (uintptr_t)s, t->error);
	else if (s->state == SEND_LOCAL)
		local_withdraw(e, ch, s, t->error);
}

void
withdraw(struct engine *e, struct channel *ch, const struct submission *s)
{
	const int64_t now_us = clock_us();
	uint64_t left = s->withdraw.at_us > now_us ? (uint64_t)(s->withdraw.at_us - now_us) : 0;

	if (s->withdraw.buf >= ch->send_buffers) {
		submission_bad(e, ch);
		return;
	}
	struct send_slot *slot = &ch->slots[s->withdraw.buf];
	struct send_terms *t = &ch->terms[s->withdraw.buf];

	if (slot->state != SEND_QUEUED && slot->state != SEND_LOCAL)
		return;
	left = left < LEFT_MOST_US ? left : LEFT_MOST_US;
	t->expires = e->now + left * (rte_get_tsc_hz() / 1000000);
	t->error = s->withdraw.error == ETIMEDOUT ? ETIMEDOUT : ECANCELED;
	slot->expires = ch->expires = e->expires = true;
}

/* Take back the channel's messages that have expired, at most *budget of them. */
static void
look_at(struct engine *e, struct channel *ch, unsigned *budget)
{
	ch->expires = false;
	for (uint32_t i = 0; i < ch->send_buffers; i++) {
		struct send_slot *s = &ch->slots[i];

		if (!s->expires)
			continue;
		/* of a parked context the core has other handles until it is loaded */
		if ((int64_t)(e->now - ch->terms[i].expires) < 0 || slot_is_absent(e->node, s) ||
			*budget == 0) {
			ch->expires = true;
			continue;
		}
		--*budget;
		take_back(e, ch, s);
	}
}

void
withdraw_expired(struct engine *e)
{
	unsigned budget = LOOK_MOST;

	e->expires = false;
	e->expire_at = e->now + rte_get_tsc_hz() / 1000000 * LOOK_US;
	for (unsigned i = 0; i < e->open_count; i++) {
		if (e->open[i]->expires)
			look_at(e, e->open[i], &budget);
		e->expires |= e->open[i]->expires;
	}
	if (budget != LOOK_MOST)
		engine_complete(e); /* the lane may sleep next */
}
