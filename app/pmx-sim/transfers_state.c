/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What all that simulates remote memory does with its state: random numbers, finding a client or a
 * transfer, saying which rule was broken, asking for a turn.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mix.h"
#include "transfers.h"

void
transfers_wrong(struct sim_transfers *x, const char *format, ...)
{
	va_list args;

	if (x->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(x->wrong, sizeof(x->wrong), format, args);
	va_end(args);
}

static const char *const names[] = {"push", "pull", "packed push", "pin", "unpin", "offer",
	"fetch"};

void
transfer_wrong(struct sim_transfers *x, const struct transfer *t, int error, const char *what)
{
	transfers_wrong(x, "%s %u of %u.%u to %u.%u, %u bytes (%s, expected: %s) %s",
		names[t->form], t->number, t->node, t->ctx, t->peer, t->target, t->len,
		strerror(error), strerror(t->expected), what);
}

uint64_t
transfers_draw(struct sim_transfers *x)
{
	return mix64_next(&x->random);
}

/* Return a random number in 0..n - 1. */
uint32_t
transfers_below(struct sim_transfers *x, uint32_t n)
{
	return (uint32_t)((transfers_draw(x) >> 32) * n >> 32);
}

struct client *
client_of(struct sim_transfers *x, uint32_t node, uint16_t ctx)
{
	return &x->lanes[node].clients[ctx];
}

struct transfer *
transfer_of(struct sim_transfers *x, const struct client *c, uint32_t place)
{
	return place < PLACES && c->places[place] != 0 ? &x->all[c->places[place] - 1] : NULL;
}

void
lane_pump_soon(struct sim_transfers *x, uint32_t node)
{
	struct sim_lane *l = &x->lanes[node];

	if (!l->pumping)
		sim_at(x->sim, sim_now(x->sim), node, TRANSFERS_PUMP);
	l->pumping = true;
}
