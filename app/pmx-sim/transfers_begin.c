/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Applications begin random transfers: pushes, pulls of all bytes, of strides and of bitmaps,
 * packed pushes, pins and offers, some of them invalid.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfers.h"

static bool
transfer_submit(struct sim_transfers *x, struct transfer *t)
{
	static const uint8_t kinds[] = {TRANSFER_PUSH, TRANSFER_PULL, TRANSFER_PACKED, TRANSFER_PIN,
		TRANSFER_UNPIN, TRANSFER_OFFER};
	struct client *c = client_of(x, t->node, t->ctx);
	uint32_t place = 0;

	while (place < PLACES && c->places[place] != 0)
		place++;
	if (place == PLACES)
		return false;
	if (t->form != FETCH)
		t->desc.kind = kinds[t->form];
	t->desc.id = TRANSFER_ID(place, c->uses++);
	t->desc.node = (uint16_t)t->peer;
	t->desc.ctx = t->target;
	t->desc.local = t->local.base;
	t->desc.memory = transfers_draw(x) % 2 ? t->number : MEMORY_COPIED;
	c->places[place] = t->number + 1;
	if (!rma_submit(x->lanes[t->node].rma, t->ctx, place, &t->desc, sim_now(x->sim))) {
		transfer_wrong(x, t, 0, "was not taken");
		return false;
	}
	return true;
}

static struct transfer *
transfer_new(struct sim_transfers *x, enum transfer_form form, uint32_t node, uint16_t ctx,
	uint32_t peer, uint16_t target, uint32_t len)
{
	struct transfer *t = &x->all[x->count];

	if (x->count == (form == FETCH ? 8 * ROOM : ROOM))
		return NULL;
	*t = (struct transfer){
		.form = form,
		.number = x->count,
		.node = node,
		.peer = peer,
		.ctx = ctx,
		.target = target,
		.len = len,
		.partner = NOBODY,
		.began = x->count,
		.local.base = LOCAL_PIECES | (uint64_t)x->count << PIECE_SHIFT,
	};
	t->desc.len = len;
	return t;
}

/* Undo a transfer for which there was no place. */
static void
transfer_not_begun(struct sim_transfers *x, struct transfer *t)
{
	x->open--;
	x->counts.begun--;
	t->state = GONE;
}

static void
transfer_begins(struct sim_transfers *x, struct transfer *t)
{
	transfer_fill(t);
	x->count++;
	x->open++;
	x->counts.begun++;
	if (t->form == FETCH && t->desc.kind == 0)
		return; /* begun by rma_fetch */
	if (!transfer_submit(x, t))
		transfer_not_begun(x, t);
}

/* Make the transfer do something that is not allowed. */
static void
make_mistake(struct sim_transfers *x, struct transfer *t)
{
	const uint32_t other = (t->target + 1u) % x->contexts;
	const bool pushes = t->form == PUSH || t->form == PACKED;
	const struct area *a;

	switch (transfers_below(x, 4)) {
	case 0: /* bounds */
		if (t->len == 0)
			return;
		t->desc.at += AREA_BYTES - t->at - t->len / 2;
		t->expected = ERANGE;
		return;
	case 1: /* rights */
		a = client_of(x, t->peer, t->target)->areas[pushes ? 1 : 0];
		if (a == NULL || !a->registered || t->form == PIN) /* PIN is satisfied by either
								    * right */
			break;
		t->desc.flags &= (uint8_t)~TRANSFER_AREA;
		t->desc.key = a->key;
		t->desc.at = a->piece.base;
		t->expected = EACCES;
		return;
	case 2: /* the region of another context */
		a = client_of(x, t->peer, (uint16_t)other)->areas[2];
		if (a == NULL || other == t->target || !a->registered)
			break;
		t->desc.flags &= (uint8_t)~TRANSFER_AREA;
		t->desc.key = a->key;
		t->desc.at = a->piece.base;
		t->expected = EPERM;
		return;
	}
	t->desc.key ^= 1ull << 20;
	t->expected = ENOKEY;
}

/* Make a stride of blocks at equal distances within the transfer. */
static void
make_stride(struct sim_transfers *x, struct transfer *t)
{
	struct transfer_desc *d = &t->desc;
	uint32_t gap = transfers_below(x, 50), rows = 1 + transfers_below(x, 4);

	d->flags |= TRANSFER_STRIDE;
	d->dims = 1 + transfers_below(x, 2);
	if (d->dims == 1 || t->len < rows)
		rows = 1;
	uint32_t row = t->len / rows; /* bytes of a row, with the gap behind its blocks */

	d->block = 1 + transfers_below(x, row < 90 ? row : 90);
	d->interval[0] = d->block + gap;
	d->count[0] = 1 + (row - d->block) / d->interval[0];
	d->interval[1] = row;
	d->count[1] = rows;
}

static void
make_bitmap(struct sim_transfers *x, struct transfer *t)
{
	struct transfer_desc *d = &t->desc;

	d->flags |= TRANSFER_BITMAP;
	d->unit = 4u << transfers_below(x, 7);
	d->offset = transfers_draw(x) % 2 ? 0 : transfers_below(x, t->len);
	for (unsigned i = 0; i < TRANSFER_UNITS / 64; i++)
		d->bits[i] = transfers_draw(x) & transfers_draw(x);
	d->bits[0] |= 1; /* at least one unit */
}

/* Begin a transfer that names a region of its peer. */
static void
begin_access(struct sim_transfers *x, enum transfer_form form, uint32_t node, uint16_t ctx,
	uint32_t peer, uint16_t target, uint32_t len)
{
	const unsigned slot = transfers_below(x, 3) == 0 ? 2 : form == PULL || form == PIN ? 1 : 0;
	struct transfer *t = transfer_new(x, form, node, ctx, peer, target, len);

	if (t == NULL || (t->area = area_take(x, peer, target, slot, len, &t->at)) == NULL)
		return;
	t->desc.key = t->area->key;
	t->desc.at = t->area->piece.base + t->at;
	if (slot == 2 && transfers_draw(x) % 2) {
		t->desc.flags |= TRANSFER_AREA;
		t->desc.key = t->area->id;
		t->desc.at = t->at;
	}
	if (form != PACKED && transfers_draw(x) % 4 == 0) /* packed ones are not held by the
							   * library, but by the client */
		t->desc.flags |= TRANSFER_ORDERED;
	if ((form == PUSH || form == PACKED) && transfers_draw(x) % 3 == 0) {
		t->desc.flags |= TRANSFER_NOTIFY;
		t->desc.imm = t->number;
	}
	if (form == PULL && len > 1 && transfers_draw(x) % 2)
		transfers_draw(x) % 2 ? make_stride(x, t) : make_bitmap(x, t);
	if (transfers_draw(x) % 8 == 0)
		make_mistake(x, t);
	transfer_begins(x, t);
}

/* Begin an UNPIN for an existing pin. */
static void
begin_unpin(struct sim_transfers *x, uint32_t node)
{
	for (uint32_t i = 0; i < x->count; i++) {
		struct transfer *p = &x->all[i];
		struct transfer *t;

		/* `partner` of a PIN: its UNPIN */
		if (p->form != PIN || p->node != node || p->state != DONE || p->partner != NOBODY ||
			client_of(x, node, p->ctx)->state != OPENED ||
			(t = transfer_new(x, UNPIN, node, p->ctx, p->peer, p->target, 0)) == NULL)
			continue;
		p->partner = t->number;
		t->area = p->area;
		t->desc.flags = p->desc.flags & TRANSFER_AREA;
		t->desc.key = p->desc.key;
		transfer_begins(x, t);
		return;
	}
}

static void
begin_fetch(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx, struct transfer *offer)
{
	const bool accept = transfers_draw(x) % 2, mine = transfers_draw(x) % 2;
	uint32_t len = offer->len;

	if (len > 1 && transfers_draw(x) % 4 == 0)
		len = 1 + transfers_below(x, len - 1);
	else if (transfers_draw(x) % 8 == 0)
		len += 5;
	struct transfer *t = transfer_new(x, FETCH, l->node, ctx, offer->node, offer->ctx, len);

	if (t == NULL)
		return;
	t->partner = offer->number;
	t->expected = len > offer->len && !accept ? ERANGE : 0;
	if (mine) {
		t->desc.kind = accept ? TRANSFER_ACCEPT : TRANSFER_PULL;
		t->desc.flags = TRANSFER_OFFERED;
		t->desc.key = offer->desc.id;
	}
	transfer_begins(x, t);
	const struct rma_fetch f = {
		.kind = accept ? TRANSFER_ACCEPT : TRANSFER_PULL,
		.node = (uint16_t)offer->node,
		.ctx = offer->ctx,
		.from = offer->desc.id,
		.use = l->clients[ctx].uses++,
		.len = len,
		.local = {&t->local, t->local.base, len, ctx},
		.cookie = t->number,
	};

	if (t->state == OPEN && (mine || rma_fetch(l->rma, &f, sim_now(x->sim)))) {
		offer->refetch++;
		if (t->expected == 0)
			offer->partner = t->number;
		return;
	}
	if (t->state == OPEN)
		transfer_not_begun(x, t);
	offer_keep(&l->clients[ctx], offer->number); /* to be fetched later */
}

void
offer_keep(struct client *c, uint32_t transfer)
{
	struct offer *o = malloc(sizeof(*o));

	*o = (struct offer){transfer, c->offers};
	c->offers = o;
}

void
offers_fetch(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx)
{
	struct offer *o = l->clients[ctx].offers;

	l->clients[ctx].offers = NULL;
	while (o != NULL) {
		struct offer *next = o->next;
		struct transfer *offer = &x->all[o->transfer];

		if (offer->state == OPEN)
			begin_fetch(x, l, ctx, offer);
		free(o);
		o = next;
	}
}

static void
begin_one(struct sim_transfers *x, uint32_t node)
{
	static const uint8_t forms[] = {PUSH, PUSH, PUSH, PUSH, PULL, PULL, PULL, PULL, PACKED,
		PACKED, PIN, UNPIN, OFFER, OFFER};
	const enum transfer_form form = forms[transfers_below(x, sizeof(forms))];
	const uint32_t peer = (node + 1 + transfers_below(x, x->nodes - 1)) % x->nodes;
	const uint16_t ctx = (uint16_t)transfers_below(x, x->contexts);
	const uint16_t target = (uint16_t)transfers_below(x, x->contexts);
	const uint32_t frames = transfers_draw(x) % 16 ? 3 : 20;
	uint64_t most = (uint64_t)frames * x->cfg.payload_max;
	uint32_t len = transfers_draw(x) % 8
		? 1 + transfers_below(x, most < 70000 ? (uint32_t)most : 70000)
		: transfers_below(x, 40);

	if (client_of(x, node, ctx)->state != OPENED)
		return;
	if (form == UNPIN) {
		begin_unpin(x, node);
	} else if (form == OFFER) {
		struct transfer *t = transfer_new(x, OFFER, node, ctx, peer, target, len + 1);

		if (t != NULL)
			transfer_begins(x, t);
	} else {
		begin_access(x, form, node, ctx, peer, target,
			form == PACKED || form == PIN ? len + 1 : len);
	}
}

/* Let an application do something besides transfers. */
static void
disturb(struct sim_transfers *x, uint32_t node)
{
	struct client *c = client_of(x, node, (uint16_t)transfers_below(x, x->contexts));
	const unsigned slot = transfers_below(x, AREAS);

	c->full = transfers_draw(x) % 4 == 0;
	if (c->state != OPENED || c->areas[slot] == NULL)
		return;
	switch (transfers_below(x, 12)) {
	case 0:
		area_end(x, c, slot, false);
		break;
	case 1:
		area_end(x, c, slot, true);
		break;
	case 2:
		c->areas[slot]->revoked = true;
		break;
	case 3: /* it frees the buffer of one of its transfers */
		for (uint32_t i = 0; i < PLACES; i++) {
			struct transfer *t = transfer_of(x, c, i);

			if (t == NULL || t->desc.memory == MEMORY_COPIED || t->state != OPEN)
				continue;
			x->place_all(x, &x->lanes[node]);
			t->local.over = true;
			rma_memory_gone(x->lanes[node].rma, t->ctx, &t->local);
			break;
		}
		break;
	}
}

void
transfers_begin(struct sim_transfers *x, uint32_t node)
{
	const unsigned n = transfers_below(x, 12) == 0 ? 40 : 1 + transfers_below(x, 4);

	for (unsigned i = 0; i < n; i++)
		begin_one(x, node);
	disturb(x, node);
	for (uint16_t c = 0; c < x->contexts; c++) {
		if (client_of(x, node, c)->state == OPENED)
			offers_fetch(x, &x->lanes[node], c);
	}
	lane_pump_soon(x, node);
}
