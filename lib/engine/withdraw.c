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
#define LEFT_MOST_US (UINT64_C(1) << 32) /* more than pmx_send_params.expire_us can say */

static void
take_back(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error)
{
	if (s->state == SEND_QUEUED)
		proto_withdraw(e->proto, buf_priv(s->m)->flow, (uintptr_t)s, error);
	else if (s->state == SEND_LOCAL)
		local_withdraw(e, ch, s, error);
}

void
withdraw(struct engine *e, struct channel *ch, const struct submission *s)
{
	const uint8_t error = s->withdraw.error == ETIMEDOUT ? ETIMEDOUT : ECANCELED;
	const int64_t now_us = clock_us();
	uint64_t left = s->withdraw.at_us > now_us ? (uint64_t)(s->withdraw.at_us - now_us) : 0;

	if (s->withdraw.buf >= ch->send_buffers) {
		submission_bad(e, ch);
		return;
	}
	struct send_slot *slot = &ch->slots[s->withdraw.buf];

	if ((slot->state != SEND_QUEUED && slot->state != SEND_LOCAL) ||
		slot_is_absent(e->node, slot)) /* it is parked */
		return;
	if (left == 0) {
		take_back(e, ch, slot, error);
		return;
	}
	left = left < LEFT_MOST_US ? left : LEFT_MOST_US;
	slot->expires = ch->expires = e->expires = true;
	buf_priv(slot->m)->expires = e->now + left * (rte_get_tsc_hz() / 1000000);
	buf_priv(slot->m)->expired_error = error;
}

static void
look_at(struct engine *e, struct channel *ch)
{
	ch->expires = false;
	for (uint32_t i = 0; i < ch->send_buffers; i++) {
		struct send_slot *s = &ch->slots[i];

		if (!s->expires)
			continue;
		if ((int64_t)(e->now - buf_priv(s->m)->expires) < 0) {
			ch->expires = true;
			continue;
		}
		s->expires = false;
		take_back(e, ch, s, buf_priv(s->m)->expired_error);
	}
}

void
withdraw_expired(struct engine *e)
{
	e->expires = false;
	e->expire_at = e->now + rte_get_tsc_hz() / 1000000 * LOOK_US;
	for (unsigned i = 0; i < e->open_count; i++) {
		if (e->open[i]->expires)
			look_at(e, e->open[i]);
		e->expires |= e->open[i]->expires;
	}
}
