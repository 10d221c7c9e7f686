/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote pins (RHI-PIN; RHiNET, 1999, section 2.5): who asked for a region of ours to stay pinned,
 * and where our own contexts have asked for it. Memory is pinned by its registration; a pin keeps
 * the registration, until its asker releases it. Runs on the lane: of the region's owner, or of the
 * asker.
 *
 * Design notes
 * 1. The owner counts: its table says which asker pins which region, and how often. There are as
 *    many records as regions, and one context's regions have half of them at most, as it has of the
 *    places for regions.
 * 2. The asker's engine knows only where its context may have pins. A place is taken before the
 *    question goes out, so whatever becomes of the context, who may have pinned for it is told that
 *    it ended: by a last UNPIN in the same flow, behind all that it asked for. It is free again
 *    when the owner says, in answer to an UNPIN, that none is left.
 * 3. Nobody tells of a node that died. So whoever is stopped by a record asks whether its node is
 *    still the same, and there: another epoch, or a path that is no longer established, and the
 *    record goes. To a node that seems to be there the owner says again that it has pinned, which
 *    changes nothing, but whose want of an Ack shows that the node, or the context, is not.
 * 4. Within a node the last UNPIN cannot be lost, and takes no room: it gets through whatever the
 *    target owes.
 */
#include <errno.h>

#include <rte_cycles.h>

#include "engine/service/rma/frames.h"
#include "engine/service/rma/pinned.h"

#define TELL_EVERY_MS 100

/* ------------------------------------------------------------------ the owner */

/* The last one takes its place. */
static void
drop(struct engine *e, struct pin *p)
{
	struct rma_lane *x = rma_lane(e);

	ENGINE_COUNT_N(e, pins_released, p->count);
	rma_context(&e->node->channels[p->ctx])->pins--;
	*p = x->pins[--x->pins_used];
}

/* Of the asker's node, as it is now; 0: it is not there. Within this node nothing is lost: note
 * 4. */
static uint32_t
epoch_of(const struct engine *e, uint16_t node)
{
	struct proto_path_stat stat;

	if (node == e->node->config.id)
		return 1;
	return proto_path_stat(e->proto, node, &stat) && stat.established ? stat.peer_epoch : 0;
}

static bool
is_stale(const struct engine *e, const struct pin *p)
{
	return epoch_of(e, p->node) != p->epoch;
}

static struct pin *
find_pin(struct engine *e, const struct arrival *a, uint64_t key)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = 0; i < x->pins_used; i++) {
		struct pin *p = &x->pins[i];

		if (p->key != key || p->node != a->node || p->peer != a->peer)
			continue;
		if (!is_stale(e, p))
			return p;
		drop(e, p);
		return NULL;
	}
	return NULL;
}

static void
drop_stale(struct engine *e)
{
	for (uint32_t i = rma_lane(e)->pins_used; i-- > 0;) {
		if (is_stale(e, &rma_lane(e)->pins[i]))
			drop(e, &rma_lane(e)->pins[i]);
	}
}

/* A free record for a region of that context; NULL: there is none. */
static struct pin *
new_pin(struct engine *e, const struct channel *ch)
{
	struct rma_lane *x = rma_lane(e);
	uint32_t all = e->node->config.regions, each = (all + 1) / 2;

	if (rma_context(ch)->pins >= each || x->pins_used == all)
		drop_stale(e);
	return rma_context(ch)->pins < each && x->pins_used < all ? &x->pins[x->pins_used] : NULL;
}

uint8_t
pinned_grant(struct engine *e, struct channel *ch, const struct arrival *a, uint64_t key)
{
	struct pin *p = find_pin(e, a, key);

	if (p == NULL) {
		p = new_pin(e, ch);
		if (p == NULL)
			return ENOSPC;
		*p = (struct pin){
			.key = key,
			.epoch = epoch_of(e, a->node),
			.ctx = ch->ctx,
			.node = a->node,
			.peer = a->peer,
		};
		rma_lane(e)->pins_used++;
		rma_context(ch)->pins++;
	}
	p->id = wire_be32(a->head->id);
	p->count++;
	ENGINE_COUNT(e, pins_granted);
	return 0;
}

/* Has that asker others, of regions of this context? */
static uint32_t
none_left(const struct engine *e, const struct channel *ch, const struct arrival *a)
{
	const struct rma_lane *x = rma_lane(e);

	for (uint32_t i = 0; i < x->pins_used; i++) {
		const struct pin *p = &x->pins[i];

		if (p->ctx == ch->ctx && p->node == a->node && p->peer == a->peer)
			return 0;
	}
	return WIRE_NONE_LEFT;
}

uint32_t
pinned_release(struct engine *e, struct channel *ch, const struct arrival *a, uint64_t key)
{
	struct pin *p = key != 0 ? find_pin(e, a, key) : NULL;

	if (p == NULL)
		return ENOKEY | none_left(e, ch, a);
	ENGINE_COUNT(e, pins_released);
	if (--p->count == 0)
		drop(e, p);
	return none_left(e, ch, a);
}

void
pinned_lost(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = rma_context(ch)->pins != 0 ? x->pins_used : 0; i-- > 0;) {
		struct pin *p = &x->pins[i];

		if (p->ctx == ch->ctx && p->node == node && p->peer == peer)
			drop(e, p);
	}
}

void
pinned_ends(struct engine *e, struct channel *ch, uint64_t key)
{
	struct rma_lane *x = rma_lane(e);

	for (uint32_t i = rma_context(ch)->pins != 0 ? x->pins_used : 0; i-- > 0;) {
		if (x->pins[i].ctx == ch->ctx && (key == 0 || x->pins[i].key == key))
			drop(e, &x->pins[i]);
	}
}

/* Once more what its asker was told: note 3. */
static void
tell_again(struct engine *e, struct channel *ch, struct pin *p)
{
	const struct wire_ended item = {wire_be32(p->id), 0};

	if (p->node == e->node->config.id ||
		e->now - p->told_at < rte_get_tsc_hz() / 1000 * TELL_EVERY_MS)
		return;
	struct frame *f = frame_take(e, false);

	if (f == NULL)
		return;
	struct wire_transfer *h = frame_head(f);

	*h = (struct wire_transfer){.op = WIRE_ENDED, .len = wire_be64(1)};
	memcpy(h + 1, &item, sizeof(item));
	if (frame_send(e, ch, f, WIRE_TARGET, p->node, p->peer | WIRE_INITIATOR,
		    sizeof(*h) + sizeof(item)) != 0) {
		frame_put(e, f);
		return;
	}
	p->told_at = e->now;
}

bool
pinned_by_others(struct engine *e, struct channel *ch, uint64_t key)
{
	struct rma_lane *x = rma_lane(e);
	bool pinned = false;

	for (uint32_t i = rma_context(ch)->pins != 0 ? x->pins_used : 0; i-- > 0;) {
		struct pin *p = &x->pins[i];

		if (p->key != key)
			continue;
		if (is_stale(e, p)) {
			drop(e, p);
			continue;
		}
		tell_again(e, ch, p);
		pinned = true;
	}
	return pinned;
}

uint32_t
pinned_count(const struct rma_lane *x, uint64_t key)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->pins_used; i++)
		n += x->pins[i].key == key ? x->pins[i].count : 0;
	return n;
}

/* ------------------------------------------------------------------ the asker */

static bool
is_free(const struct pin_place *p)
{
	return p->asked == 0 && !p->held;
}

static struct pin_place *
find_place(struct rma_context *r, uint16_t node, uint16_t ctx, bool take)
{
	struct pin_place *unused = NULL;

	for (unsigned i = 0; i < PIN_PLACES; i++) {
		struct pin_place *p = &r->pin_places[i];

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
pinning_begins(struct channel *ch, struct op *op)
{
	struct pin_place *p = find_place(rma_context(ch), op->d.node, op->d.ctx, true);

	op->asks_pin = p != NULL;
	if (p != NULL)
		p->asked++;
	return p != NULL;
}

void
pinning_ends(struct channel *ch, struct op *op, uint8_t error)
{
	struct pin_place *p = find_place(rma_context(ch), op->d.node, op->d.ctx, false);
	bool asked = op->asks_pin;

	op->d.len = 0; /* bytes that were moved */
	op->asks_pin = false;
	if (p == NULL)
		return;
	p->asked -= asked;
	if (error == ECONNREFUSED) /* nobody is there who would have pinned */
		p->held = false;
	else if (asked && (error == 0 || error == ECONNRESET || error == ETIMEDOUT))
		p->held = true; /* or the answer is not known */
}

void
pinning_none_left(struct channel *ch, const struct op *op)
{
	struct pin_place *p = find_place(rma_context(ch), op->d.node, op->d.ctx, false);

	if (p != NULL)
		p->held = false;
}

bool
pinning_any(const struct channel *ch)
{
	for (unsigned i = 0; i < PIN_PLACES; i++) {
		if (!is_free(&rma_context(ch)->pin_places[i]))
			return true;
	}
	return false;
}

bool
pinning_leaves(struct engine *e, struct channel *ch)
{
	for (unsigned i = 0; i < PIN_PLACES; i++) {
		struct pin_place *p = &rma_context(ch)->pin_places[i];
		struct frame *f = is_free(p) ? NULL : frame_take(e, true);

		if (is_free(p))
			continue;
		if (f == NULL)
			return false;
		*frame_head(f) = (struct wire_transfer){.op = WIRE_UNPIN, .flags = WIRE_T_LAST};
		f->id = 0;
		int result = frame_send(e, ch, f, WIRE_INITIATOR, p->node, p->ctx | WIRE_TARGET,
			sizeof(struct wire_transfer));

		if (result != 0)
			frame_put(e, f);
		if (result == -EAGAIN)
			return false;
		*p = (struct pin_place){0};
	}
	return true;
}
