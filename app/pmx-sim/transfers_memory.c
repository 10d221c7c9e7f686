/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that applications have registered, and access to its bytes. Every address that the library
 * uses must belong to an existing piece.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfers.h"

/* Return the bytes at an address that the library uses. Every such address must belong to an
 * existing piece. */
uint8_t *
piece_bytes(struct sim_transfers *x, const struct rma_bytes *b, uint64_t at, uint64_t len,
	bool write)
{
	struct sim_piece *p = NULL;
	uint64_t number = at >> PIECE_SHIFT;

	if (at >= LOCAL_PIECES) {
		number -= LOCAL_PIECES >> PIECE_SHIFT;
		p = number < x->count ? &x->all[number].local : NULL;
	} else if (number > 0 && number <= x->area_count) {
		p = &x->areas[number - 1]->piece;
	}
	if (p == NULL || at < p->base || len > p->len || at - p->base > p->len - len ||
		(b->memory != NULL && b->memory != p)) {
		transfers_wrong(x, "context %u names %llu bytes at %llx, which are nobody's",
			b->ctx, (unsigned long long)len, (unsigned long long)at);
		return NULL;
	}
	if (write && p->over) {
		transfers_wrong(x, "context %u writes to memory that is not registered any more",
			b->ctx);
		return NULL;
	}
	return p->bytes + (at - p->base);
}

uint8_t
piece_place(struct sim_transfers *x, const struct rma_place *p, const uint8_t *bytes, uint32_t len,
	uint64_t *placed)
{
	struct wire_runs runs = {bytes, len, p->offset, 0, 0};
	const uint8_t *run;
	uint8_t *to;

	*placed = 0;
	if (!p->runs) {
		*placed = len;
		to = piece_bytes(x, &p->to, p->to.at, len, true);
		if (to != NULL)
			memcpy(to, bytes, len);
		return 0;
	}
	while ((run = wire_run_next(&runs)) != NULL) {
		if (runs.at > p->to.len || runs.len > p->to.len - runs.at)
			return EPROTO;
		to = piece_bytes(x, &p->to, p->to.at + runs.at, runs.len, true);
		if (to == NULL)
			return EFAULT;
		memcpy(to, run, runs.len);
		*placed += runs.len;
	}
	return runs.left != 0 ? EPROTO : 0;
}

static struct area *
area_new(struct sim_transfers *x, uint32_t node, uint16_t ctx, unsigned slot)
{
	static const uint8_t rights[AREAS] = {REGION_WRITE, REGION_READ,
		REGION_READ | REGION_WRITE};
	struct area *a = calloc(1, sizeof(*a));

	if ((x->area_count & (x->area_count - 1)) == 0)
		x->areas = realloc(x->areas, (2 * x->area_count + 1) * sizeof(struct area *));
	a->number = x->area_count;
	x->areas[x->area_count++] = a;
	a->piece = (struct sim_piece){
		.base = (uint64_t)x->area_count << PIECE_SHIFT,
		.len = AREA_BYTES,
		.bytes = calloc(1, AREA_BYTES),
	};
	a->node = node;
	a->ctx = ctx;
	a->rights = rights[slot];
	a->id = slot == 2 ? 7 + a->number : REGION_NO_AREA;
	const struct region region = {
		.base = a->piece.base,
		.len = a->piece.len,
		.area = a->id,
		.rights = a->rights | REGION_ANYONE,
		.memory = &a->piece,
		.watched = slot,
	};

	a->registered = rma_register(x->lanes[node].rma, ctx, &region, transfers_draw(x),
				&a->key) == 0;
	return a;
}

void
area_reused(struct area *a)
{
	a->piece.over = true;
	memset(a->piece.bytes, 0xEE, a->used);
}

uint32_t
area_pins(const struct sim_transfers *x, const struct area *a, bool asked)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->count; i++) {
		const struct transfer *t = &x->all[i];

		if (t->area != a)
			continue;
		if (t->form == PIN && (t->state == DONE || (asked && t->state == OPEN)))
			n++;
		else if (t->form == UNPIN && t->state == DONE)
			n--;
	}
	return n;
}

/* End a registration of the context's; from now on the context has another region in its place. */
void
area_end(struct sim_transfers *x, struct client *c, unsigned slot, bool memory)
{
	struct area *a = c->areas[slot];
	struct sim_lane *l = &x->lanes[a->node];

	if (!a->registered || c->waits != 0)
		return;
	x->place_all(x, l);
	if (memory) {
		rma_memory_gone(l->rma, a->ctx, &a->piece);
		a->piece.over = true;
	} else {
		int result = rma_deregister(l->rma, a->ctx, a->key, sim_now(x->sim));

		if (result == -EBUSY) {
			if (area_pins(x, a, true) == 0 && x->disorder[0] == '\0')
				snprintf(x->disorder, sizeof(x->disorder),
					"region %u cannot end, and nobody pins it", a->number);
			lane_pump_soon(x, a->node);
			return;
		}
		if (result < 0)
			transfers_wrong(x, "the end of region %u: %s", a->number,
				strerror(-result));
		if (result == 0)
			area_reused(a);
		else
			c->waits = a->number + 1;
	}
	a->registered = false;
	c->areas[slot] = NULL;
	lane_pump_soon(x, a->node);
}

struct area *
area_take(struct sim_transfers *x, uint32_t node, uint16_t ctx, unsigned slot, uint32_t len,
	uint32_t *at)
{
	struct client *c = client_of(x, node, ctx);
	struct area *a = c->areas[slot];

	if (a != NULL && a->used + len > a->piece.len)
		area_end(x, c, slot, false);
	if (c->areas[slot] == NULL && c->state == OPENED)
		c->areas[slot] = area_new(x, node, ctx, slot);
	a = c->areas[slot];
	if (a == NULL || a->used + len > a->piece.len)
		return NULL;
	*at = a->used;
	a->used += len;
	area_fill(a, *at, len);
	return a;
}
