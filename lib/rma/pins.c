/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote pins (RHI-PIN; RHiNET, 1999, section 2.5): which contexts asked for a region of ours to
 * stay pinned, and at which contexts our own have asked for it. Memory is pinned by its
 * registration; a remote pin keeps that registration until its asker releases it.
 *
 * Design notes
 * 1. The owner counts: its table says which asker pins which region, and how often. There are as
 *    many records as places for regions, and the regions of one context may have half of them at
 *    most, as the context may have half of the places.
 * 2. The asker's side knows only where its context may have pins. A place (struct pin_place) is
 *    taken before the PIN is sent. So, however the context ends, every owner that may have pinned
 *    for it is told: by a last UNPIN in the same flow, behind all of the context's requests. The
 *    place is free again when the owner says, in answer to an UNPIN, that no pin is left.
 * 3. A node that died does not say so. So before a record stands in the way of anything, the owner
 *    checks whether the asker's node is still in the same life; if it is not, the record is
 *    dropped. If the node seems to be there, the owner tells the asker again that it has pinned:
 *    that changes nothing, but if it is not Acked, the node or the context is gone.
 * 4. Within a node the last UNPIN cannot be lost and takes no room, so it arrives even if the
 *    target's room is used up by answers that it owes.
 */
#include "rma/internal.h"

/* ------------------------------------------------------------------ the owner */

/* Drop a record; the last one in use is moved to its place. */
static void
drop(struct rma *r, struct pin *p)
{
	rma_count(r, RMA_PINS_RELEASED, p->count);
	r->contexts[p->ctx]->pins--;
	r->tells -= p->tell;
	*p = r->pins[--r->pins_used];
}

/* Return the current life of the asker's node; 0: it is not there. Within this node nothing is lost
 * (note 4), so its life never changes. */
static uint32_t
life_of(const struct rma *r, uint16_t node)
{
	return node == r->cfg.node ? 1 : r->cfg.life(r->cfg.arg, node);
}

static bool
is_stale(const struct rma *r, const struct pin *p)
{
	return life_of(r, p->node) != p->life;
}

static struct pin *
find_pin(struct rma *r, const struct rma_message *m, uint64_t key)
{
	for (uint32_t i = 0; i < r->pins_used; i++) {
		struct pin *p = &r->pins[i];

		if (p->key != key || p->node != m->node || p->peer != m->peer)
			continue;
		if (!is_stale(r, p))
			return p;
		drop(r, p);
		return NULL;
	}
	return NULL;
}

static void
drop_stale(struct rma *r)
{
	for (uint32_t i = r->pins_used; i-- > 0;) {
		if (is_stale(r, &r->pins[i]))
			drop(r, &r->pins[i]);
	}
}

/* Return a free record for a region of the context, or NULL. */
static struct pin *
new_pin(struct rma *r, const struct rma_context *c)
{
	uint32_t all = r->cfg.regions_max, each = (all + 1) / 2;

	if (c->pins >= each || r->pins_used == all)
		drop_stale(r);
	return c->pins < each && r->pins_used < all ? &r->pins[r->pins_used] : NULL;
}

uint8_t
remote_pin_grant(struct rma *r, struct rma_context *c, const struct rma_message *m, uint64_t key)
{
	struct pin *p = find_pin(r, m, key);

	if (p == NULL) {
		p = new_pin(r, c);
		if (p == NULL)
			return ENOSPC;
		*p = (struct pin){
			.key = key,
			.life = life_of(r, m->node),
			.ctx = c->ctx,
			.node = m->node,
			.peer = m->peer,
		};
		r->pins_used++;
		c->pins++;
	}
	p->id = wire_be32(m->head->id);
	p->count++;
	rma_count(r, RMA_PINS_GRANTED, 1);
	return 0;
}

/* Return WIRE_NONE_LEFT if the asker has no pins of this context's regions any more, otherwise
 * 0. */
static uint32_t
none_left(const struct rma *r, const struct rma_context *c, const struct rma_message *m)
{
	for (uint32_t i = 0; i < r->pins_used; i++) {
		const struct pin *p = &r->pins[i];

		if (p->ctx == c->ctx && p->node == m->node && p->peer == m->peer)
			return 0;
	}
	return WIRE_NONE_LEFT;
}

uint32_t
remote_pin_release(struct rma *r, struct rma_context *c, const struct rma_message *m, uint64_t key)
{
	struct pin *p = key != 0 ? find_pin(r, m, key) : NULL;

	if (p == NULL)
		return ENOKEY | none_left(r, c, m);
	if (--p->count == 0)
		drop(r, p);
	rma_count(r, RMA_PINS_RELEASED, 1);
	return none_left(r, c, m);
}

void
remote_pins_lost(struct rma *r, struct rma_context *c, uint16_t node, uint16_t peer)
{
	for (uint32_t i = c->pins != 0 ? r->pins_used : 0; i-- > 0;) {
		struct pin *p = &r->pins[i];

		if (p->ctx == c->ctx && p->node == node && p->peer == peer)
			drop(r, p);
	}
}

void
remote_pins_end(struct rma *r, struct rma_context *c, uint64_t key)
{
	for (uint32_t i = c->pins != 0 ? r->pins_used : 0; i-- > 0;) {
		if (r->pins[i].ctx == c->ctx && (key == 0 || r->pins[i].key == key))
			drop(r, &r->pins[i]);
	}
}

/* Have the asker told once more what it was told before: note 3. */
static void
tell_again(struct rma *r, struct pin *p, uint64_t now)
{
	if (p->tell || p->node == r->cfg.node || now - p->told_at < r->tell_ticks)
		return;
	p->tell = true;
	r->tells++;
}

bool
remote_pins_of_others(struct rma *r, struct rma_context *c, uint64_t key, uint64_t now)
{
	bool pinned = false;

	for (uint32_t i = c->pins != 0 ? r->pins_used : 0; i-- > 0;) {
		struct pin *p = &r->pins[i];

		if (p->key != key)
			continue;
		if (is_stale(r, p)) {
			drop(r, p);
			continue;
		}
		tell_again(r, p, now);
		pinned = true;
	}
	return pinned;
}

void
remote_pins_tell(struct rma *r)
{
	struct pin *p = r->pins;
	struct rma_frame *f = frame_take(r, false);

	if (f == NULL)
		return;
	while (!p->tell)
		p++;
	const struct wire_ended item = {wire_be32(p->id), 0};

	*f->head = (struct wire_transfer){.op = WIRE_ENDED, .len = wire_be64(1)};
	memcpy(f->head + 1, &item, sizeof(item));
	r->turn.kind = TURN_TOLD;
	r->turn.pin = p;
	frame_out(r, f, r->contexts[p->ctx], WIRE_TARGET, p->node, p->peer | WIRE_INITIATOR,
		sizeof(*f->head) + sizeof(item), sizeof(*f->head) + sizeof(item));
}

void
remote_pin_told(struct rma *r, unsigned count, uint64_t now)
{
	struct pin *p = r->turn.pin;

	p->tell = false;
	r->tells--;
	if (count != 0)
		p->told_at = now;
}

uint32_t
rma_pins(const struct rma *r, uint64_t key)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->pins_used; i++)
		n += r->pins[i].key == key ? r->pins[i].count : 0;
	return n;
}

/* ------------------------------------------------------------------ the asker */

static bool
is_free(const struct pin_place *p)
{
	return p->asked == 0 && !p->held;
}

static struct pin_place *
find_place(struct rma_context *c, uint16_t node, uint16_t ctx, bool take)
{
	struct pin_place *unused = NULL;

	for (unsigned i = 0; i < RMA_PLACES; i++) {
		struct pin_place *p = &c->kept.pin_places[i];

		if (is_free(p))
			unused = p;
		else if (p->node == node && p->ctx == ctx)
			return p;
	}
	if (!take || unused == NULL)
		return NULL;
	*unused = (struct pin_place){.node = node, .ctx = ctx};
	return unused;
}

bool
pinning_begins(struct rma_context *c, struct op *op)
{
	struct pin_place *p = find_place(c, op->d.node, op->d.ctx, true);

	op->asks_pin = p != NULL;
	if (p != NULL)
		p->asked++;
	return p != NULL;
}

void
pinning_ends(struct rma_context *c, struct op *op, uint8_t error)
{
	struct pin_place *p = find_place(c, op->d.node, op->d.ctx, false);
	bool asked = op->asks_pin;

	op->d.len = 0; /* no bytes were moved */
	op->asks_pin = false;
	if (p == NULL)
		return;
	p->asked -= asked;
	if (error == ECONNREFUSED) /* there is no context that could have pinned */
		p->held = false;
	else if (asked && (error == 0 || error == ECONNRESET || error == ETIMEDOUT))
		p->held = true; /* it pinned, or its answer is not known */
}

void
pinning_none_left(struct rma_context *c, const struct op *op)
{
	struct pin_place *p = find_place(c, op->d.node, op->d.ctx, false);

	if (p != NULL)
		p->held = false;
}

bool
pinning_any(const struct rma_context *c)
{
	for (unsigned i = 0; i < RMA_PLACES; i++) {
		if (!is_free(&c->kept.pin_places[i]))
			return true;
	}
	return false;
}

struct rma_frame **
rma_tx_leaving(struct rma *r, uint16_t ctx, unsigned *n)
{
	struct rma_context *c = r->contexts[ctx];
	struct pin_place *p = c->kept.pin_places;
	struct rma_frame *f = pinning_any(c) ? frame_take(r, true) : NULL;

	if (f == NULL)
		return NULL;
	while (is_free(p))
		p++;
	*f->head = (struct wire_transfer){.op = WIRE_UNPIN, .flags = WIRE_T_LAST};
	f->id = 0;
	r->turn.kind = TURN_LEAVES;
	r->turn.n = 0;
	r->turn.place = p;
	frame_out(r, f, c, WIRE_INITIATOR, p->node, p->ctx | WIRE_TARGET, sizeof(*f->head),
		sizeof(*f->head));
	*n = 1;
	return r->turn.frames;
}

void
pinning_left(struct rma *r, unsigned count, uint8_t error)
{
	if (count != 0 || (error != 0 && error != EAGAIN)) /* sent, or there is nobody to tell */
		*r->turn.place = (struct pin_place){0};
}
