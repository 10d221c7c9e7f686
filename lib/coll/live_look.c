/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a lane's collectives are asked, and contexts that stop and start.
 */
#include "coll/live_state.h"

static void
set_stopped(struct colls *c, uint16_t ctx, bool stopped)
{
	for (uint32_t i = 0; i < c->cfg.places_max; i++) {
		if (c->seats[i].of.key != 0 && c->seats[i].of.ctx == ctx)
			c->seats[i].stopped = stopped;
	}
	c->load_changes = true;
}

void
colls_stop(struct colls *c, uint16_t ctx)
{
	set_stopped(c, ctx, true);
}

void
colls_start(struct colls *c, uint16_t ctx)
{
	set_stopped(c, ctx, false);
}

bool
colls_is_quiet(const struct colls *c)
{
	return c->running == 0 && c->out == 0 && c->work == NONE && c->ended == NONE;
}

bool
colls_is_out(const struct colls *c, uint16_t place)
{
	const struct live_seat *s = &c->seats[place];

	return s->of.key != 0 && (s->out > 0 || owes_verdict(s));
}

bool
colls_ctx_is_out(const struct colls *c, uint16_t ctx)
{
	for (uint32_t place = 0; place < c->cfg.places_max; place++) {
		if (c->seats[place].of.ctx == ctx && colls_is_out(c, (uint16_t)place))
			return true;
	}
	return false;
}

bool
colls_is_used(const struct colls *c, uint32_t index)
{
	return c->lives[index].state != LIVE_FREE;
}

uint32_t
colls_part(const struct colls *c, uint16_t place)
{
	const struct live_seat *s = &c->seats[place];
	uint32_t first = s->next;

	if (s->of.key == 0)
		return 0;
	for (uint16_t i = s->lives; i != NONE; i = c->lives[i].next)
		first = before(c->lives[i].number, first) ? c->lives[i].number : first;
	return first;
}

bool
colls_running(const struct colls *c, uint32_t *at, struct colls_live *out)
{
	if (*at >= c->running)
		return false;
	const uint16_t i = c->runs[(*at)++];
	const struct live *l = &c->lives[i];

	*out = (struct colls_live){
		.index = i,
		.number = l->number,
		.ctx = l->ctx,
		.place = l->place,
	};
	return true;
}
