/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory in the simulator: each node has one lane of the shipped library (lib/rma), which is
 * driven here like by the engine (lib/rma/engine), and applications that begin random
 * transfers: pushes, pulls of all bytes, of strides and of bitmaps, packed pushes, pins and offers,
 * some of them invalid. transfers_oracle.c checks what they leave behind.
 *
 * A context has three endpoints. Of a simulator with n contexts a node, c is the target of context
 * c, n + c its initiator, and 2 n + c its matched endpoint, where offers go.
 *
 * Design notes
 * 1. The simulator's payloads are identities. So the contents of a frame are kept separately, by
 *    the tag of its message, from the moment that the core has it.
 * 2. The bytes of a frame that is sent in place are read at the latest time at which a port could
 *    read them: when the frame arrives, or when the core gives it up.
 * 3. Nothing is sent before all failures up to that time were processed: a node gets its turn by a
 *    timer that expires at the same time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transfers.h"

#define TICK (2 * MS)

/* ------------------------------------------------------------------ transfers end */

static void
transfer_ended(struct sim_transfers *x, struct transfer *t, int error)
{
	const bool rendezvous = (t->form == FETCH || t->form == OFFER) && t->partner != NOBODY;
	bool excusable;
	const char *what = transfer_judge(t, rendezvous ? &x->all[t->partner] : NULL, error,
		&excusable);

	if (what != NULL)
		transfer_wrong(x, t, error, what);
	if (t->state != OPEN)
		transfer_wrong(x, t, error, "ended twice");
	t->state = error == 0 ? DONE : FAILED;
	x->open--;
	x->counts.done += error == 0 || error == t->expected;
	x->counts.failed += excusable;
	if (error == 0 && t->form == OFFER && t->refetch == 1 && t->partner != NOBODY) {
		const struct transfer *got = &x->all[t->partner];
		bool unused;

		what = got->state == OPEN || got->state == DONE ? transfer_judge(got, t, 0, &unused)
								: NULL;
		if (what != NULL)
			transfer_wrong(x, got, 0, what);
	}
}

static void
lane_result(struct sim_transfers *x, struct sim_lane *l, const struct rma_result *r)
{
	struct client *c = &l->clients[r->ctx];
	struct transfer *t = r->fetched ? &x->all[r->cookie] : transfer_of(x, c, r->place);

	if (t == NULL || t->node != l->node || t->ctx != r->ctx) {
		transfers_wrong(x, "context %u.%u has the result of a transfer that is not its own",
			l->node, r->ctx);
		return;
	}
	if (!r->fetched)
		c->places[r->place] = 0;
	transfer_ended(x, t, r->error);
	/* the fetch is repeated as long as the offer is open */
	if (t->form == FETCH && r->error != 0 && x->all[t->partner].state == OPEN &&
		x->all[t->partner].refetch < 20)
		offer_keep(c, t->partner);
}

static void
lane_settle(struct sim_transfers *x, struct sim_lane *l)
{
	const struct rma_result *r;
	struct rma_news news;

	while ((r = rma_result(l->rma)) != NULL)
		lane_result(x, l, r);
	while (rma_news(l->rma, &news)) {
		struct client *c = &l->clients[news.ctx];

		if (c->state == OPENED && news.room != 0)
			sim_room(x->sim, l->node, news.ctx, news.room);
		if (news.readers_gone && c->waits != 0) {
			area_reused(x->areas[c->waits - 1]);
			c->waits = 0;
		}
	}
}

/* ------------------------------------------------------------------ what arrives */

/* Return the transfer of that node's context that has that id now, or NULL. */
static struct transfer *
transfer_by_id(struct sim_transfers *x, uint32_t node, uint16_t ctx, uint32_t id)
{
	struct transfer *t = transfer_of(x, client_of(x, node, ctx), TRANSFER_PLACE(id));

	return t != NULL && t->desc.id == id ? t : NULL;
}

static void
target_place(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx, const struct rma_message *m,
	const struct rma_place *place)
{
	struct transfer *t = transfer_by_id(x, m->node, m->peer, wire_be32(m->head->id));
	uint64_t placed;
	uint8_t error = piece_place(x, place, m->bytes, m->len, &placed);

	if (t != NULL && t->form != OFFER)
		t->placed += (uint32_t)placed;
	rma_target_placed(l->rma, ctx, m, error);
}

static struct rma_message
message_of(struct sim_transfers *x, uint32_t tag, uint16_t node, uint16_t peer)
{
	struct transfer_sent *s = &x->sent[tag];
	const struct rma_message m = {&s->head, sent_bytes(s), s->len, node, peer};

	return m;
}

static void
lane_place_all(struct sim_transfers *x, struct sim_lane *l)
{
	struct later *p;

	while ((p = l->later_head) != NULL) {
		const struct rma_message m = message_of(x, p->tag, (uint16_t)p->node, p->peer);

		l->later_head = p->next;
		target_place(x, l, p->ctx, &m, &p->place);
		free(p);
	}
}

static void
lane_place_later(struct sim_lane *l, uint32_t tag, uint16_t ctx, const struct rma_message *m,
	const struct rma_place *place)
{
	struct later *p = malloc(sizeof(*p));

	*p = (struct later){NULL, tag, m->node, ctx, m->peer, *place};
	if (l->later_head == NULL)
		l->later_head = p;
	else
		l->later_tail->next = p;
	l->later_tail = p;
}

static void
at_target(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx, uint32_t tag,
	const struct rma_message *m)
{
	struct rma_place place;

	if (l->clients[ctx].state != OPENED) {
		sim_room(x->sim, l->node, ctx, 1);
		return;
	}
	if (m->head->op != WIRE_PUSH)
		lane_place_all(x, l);
	if (rma_target_message(l->rma, ctx, m, &place, sim_now(x->sim)) != RMA_PLACE)
		return;
	if (x->late && transfers_draw(x) % 2)
		lane_place_later(l, tag, ctx, m, &place);
	else {
		lane_place_all(x, l);
		target_place(x, l, ctx, m, &place);
	}
}

static void
at_initiator(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx, const struct rma_message *m)
{
	struct rma_place place;
	uint64_t placed;

	if (l->clients[ctx].state != OPENED)
		return;
	lane_place_all(x, l);
	if (rma_initiator_message(l->rma, ctx, m, &place, sim_now(x->sim)) != RMA_PLACE)
		return;
	uint8_t error = piece_place(x, &place, m->bytes, m->len, &placed);

	rma_initiator_placed(l->rma, ctx, m, placed, error);
}

void
transfers_heard(struct sim_transfers *x, const struct proto_delivery *d, uint32_t tag)
{
	struct sim_lane *l = &x->lanes[sim_here(x->sim)];
	const uint16_t ctx = d->ctx % x->contexts;
	struct rma_message m = message_of(x, tag, d->src_node, d->src_ctx % x->contexts);

	switch (d->ctx / x->contexts) {
	case 0:
		at_target(x, l, ctx, tag, &m);
		break;
	case 1:
		at_initiator(x, l, ctx, &m);
		break;
	default:
		if (m.head->op == WIRE_OFFER && l->clients[ctx].state == OPENED)
			offer_keep(&l->clients[ctx], x->sent[tag].transfer);
	}
	lane_pump_soon(x, l->node);
}

void
transfers_ended(struct sim_transfers *x, uint32_t tag, int error)
{
	struct transfer_sent *s = &x->sent[tag];
	struct sim_lane *l = &x->lanes[s->node];
	const uint16_t ctx = s->src % WIRE_CONTEXTS_MAX;

	if (s->frame == NULL) {
		struct client *c = &l->clients[ctx];

		c->sent--;
		if (error != 0 && c->life == s->life && c->state == OPENED)
			client_send_failed(x, &x->all[s->transfer], (uint8_t)error);
		lane_pump_soon(x, s->node);
		return;
	}
	sent_bytes(s);
	if (error == ECONNRESET && rma_again(l->rma, s->frame)) {
		struct transfer_sent again = *s;

		again.bytes = malloc(s->len + 1);
		memcpy(again.bytes, s->bytes, s->len);
		if (sent_give(x, &again) == 0)
			return;
		free(again.bytes);
		s = &x->sent[tag];
	}
	rma_acked(l->rma, s->frame, (uint8_t)error);
	lane_pump_soon(x, s->node);
}

/* ------------------------------------------------------------------ a node's turn */

/* Check an event: the application of a context is told of a push. If the push was ordered, all
 * earlier ones to that context must have been placed. */
static void
lane_event(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx,
	const struct event_slot *event)
{
	struct transfer *t = event->imm < x->count ? &x->all[event->imm] : NULL;

	if (t == NULL || t->peer != l->node || t->target != ctx || t->node != event->node ||
		t->ctx != event->ctx || event->len != t->len ||
		!(t->desc.flags & TRANSFER_NOTIFY)) {
		transfers_wrong(x, "context %u.%u is told of a push that is not for it", l->node,
			ctx);
		return;
	}
	t->events++;
	for (uint32_t i = 0; t->desc.flags & TRANSFER_ORDERED && i < t->number; i++) {
		const struct transfer *o = &x->all[i];

		if ((o->form == PUSH || o->form == PACKED) && o->node == t->node &&
			o->ctx == t->ctx && o->peer == t->peer && o->target == ctx &&
			o->placed < transfer_moves(o) && o->expected == 0 && o->state == OPEN &&
			o->area->registered && !o->area->revoked && !o->local.over &&
			x->disorder[0] == '\0')
			snprintf(x->disorder, sizeof(x->disorder),
				"push %u was told of before push %u had arrived", t->number, i);
	}
}

static void
lane_events(struct sim_transfers *x, struct sim_lane *l)
{
	for (uint16_t c = 0; c < x->contexts; c++) {
		const struct event_slot *event;

		while (l->clients[c].state == OPENED && (x->healed || !l->clients[c].full) &&
			(event = rma_event(l->rma, c)) != NULL) {
			lane_event(x, l, c, event);
			rma_event_told(l->rma, c);
		}
	}
}

static void
context_opens(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx)
{
	struct client *c = &l->clients[ctx];

	for (unsigned kind = 0; kind < 3; kind++)
		sim_open(x->sim, l->node, (uint16_t)(kind * x->contexts + ctx));
	c->state = OPENED;
	c->reopen = false;
	c->life++;
	c->waits = 0;
	rma_open(l->rma, ctx);
}

/* Close a context like the engine: those who pinned memory for it are told, then its last endpoint
 * closes. */
static void
context_closes(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx)
{
	struct client *c = &l->clients[ctx];
	const uint16_t initiator = (uint16_t)(x->contexts + ctx);
	struct rma_frame **out;
	unsigned n;

	if (c->leaves) {
		while ((out = rma_tx_leaving(l->rma, ctx, &n)) != NULL &&
			lane_send(x, l, out, n) != 0)
			;
		c->leaves = rma_leaves(l->rma, ctx);
		if (!c->leaves)
			sim_close(x->sim, l->node, initiator, true);
	}
	if (!c->leaves && !rma_has_frames(l->rma, ctx) && c->sent == 0)
		c->state = CLOSED;
}

static void
contexts_step(struct sim_transfers *x, struct sim_lane *l)
{
	for (uint16_t i = 0; i < x->contexts; i++) {
		struct client *c = &l->clients[i];

		if (c->state == CLOSING)
			context_closes(x, l, i);
		if (c->state == CLOSED && c->reopen)
			context_opens(x, l, i);
	}
}

static void
lane_turn(struct sim_transfers *x, struct sim_lane *l)
{
	struct rma_frame **out;
	unsigned n, work;

	do {
		work = 0;
		lane_events(x, l);
		rma_turn(l->rma);
		while ((out = rma_tx_answers(l->rma, &n)) != NULL)
			work += lane_send(x, l, out, n);
		while ((out = rma_tx_transfers(l->rma, &n)) != NULL)
			work += lane_send(x, l, out, n);
		if (sim_now(x->sim) >= rma_deadline(l->rma)) {
			rma_tick(l->rma, sim_now(x->sim));
			while ((out = rma_tx_transfers(l->rma, &n)) != NULL)
				work += lane_send(x, l, out, n);
		}
		lane_settle(x, l);
	} while (work != 0);
}

static bool
lane_is_busy(const struct sim_transfers *x, const struct sim_lane *l)
{
	for (uint16_t i = 0; i < x->contexts; i++) {
		const struct client *c = &l->clients[i];

		if (c->state == CLOSING || c->reopen || c->offers != NULL)
			return true;
	}
	return rma_has(l->rma) != 0;
}

static void
lane_pump(struct sim_transfers *x, struct sim_lane *l)
{
	lane_place_all(x, l);
	for (uint16_t c = 0; c < x->contexts; c++) {
		for (uint32_t i = 0; i < PLACES; i++) {
			struct transfer *t = transfer_of(x, &l->clients[c], i);

			if (t != NULL && t->form == PACKED)
				packed_send(x, l, t);
			else if (t != NULL && t->form == OFFER && t->given == 0)
				offer_say(x, t);
		}
	}
	lane_turn(x, l);
	contexts_step(x, l);
	if (!l->ticking && lane_is_busy(x, l)) {
		uint64_t at = sim_now(x->sim) + TICK, due = rma_deadline(l->rma);

		l->ticking = true;
		sim_at(x->sim, due < at ? due : at, l->node, TRANSFERS_TICK);
	}
}

void
transfers_pump(struct sim_transfers *x, uint32_t node)
{
	x->lanes[node].pumping = false;
	lane_pump(x, &x->lanes[node]);
}

void
transfers_tick(struct sim_transfers *x, uint32_t node)
{
	struct sim_lane *l = &x->lanes[node];

	l->ticking = false;
	for (uint16_t c = 0; c < x->contexts; c++) {
		if (l->clients[c].state == OPENED && l->clients[c].offers != NULL &&
			transfers_draw(x) % 8 == 0)
			offers_fetch(x, l, c);
		l->clients[c].full &= transfers_draw(x) % 16 != 0;
	}
	lane_pump(x, l);
}

/* ------------------------------------------------------------------ lives */

static void
client_forget(struct sim_transfers *x, uint32_t node, uint16_t ctx)
{
	struct client *c = client_of(x, node, ctx);
	struct offer *o;

	for (unsigned i = 0; i < AREAS; i++) {
		if (c->areas[i] != NULL) {
			c->areas[i]->registered = false;
			c->areas[i]->piece.over = true;
		}
		c->areas[i] = NULL;
	}
	while ((o = c->offers) != NULL) {
		c->offers = o->next;
		free(o);
	}
	for (uint32_t i = 0; i < x->count; i++) {
		struct transfer *t = &x->all[i];

		if (t->node != node || t->ctx != ctx || t->state != OPEN)
			continue;
		t->state = GONE;
		t->local.over = true;
		x->open--;
		x->counts.failed++;
	}
	memset(c->places, 0, sizeof(c->places));
	c->state = CLOSED;
	c->full = c->leaves = false;
	c->waits = 0;
}

void
transfers_open_context(struct sim_transfers *x, uint32_t node, uint16_t ctx)
{
	struct client *c = client_of(x, node, ctx);

	c->reopen = c->state != OPENED;
	lane_pump_soon(x, node);
}

void
transfers_close_context(struct sim_transfers *x, uint32_t node, uint16_t ctx, bool linger)
{
	struct sim_lane *l = &x->lanes[node];
	struct client *c = &l->clients[ctx];
	const uint16_t initiator = (uint16_t)(x->contexts + ctx);

	if (c->state != OPENED)
		return;
	lane_place_all(x, l);
	lane_settle(x, l);
	rma_close(l->rma, ctx);
	lane_settle(x, l);
	client_forget(x, node, ctx);
	c->state = CLOSING;
	c->leaves = rma_leaves(l->rma, ctx);
	sim_close(x->sim, node, (uint16_t)(2 * x->contexts + ctx), linger);
	sim_close(x->sim, node, ctx, linger);
	if (!c->leaves || !linger)
		sim_close(x->sim, node, initiator, linger);
	if (c->leaves && !linger) /* to tell others that the context left */
		sim_open(x->sim, node, initiator);
	lane_pump_soon(x, node);
}

static void
lane_begin(struct sim_transfers *x, uint32_t node)
{
	struct sim_lane *l = &x->lanes[node];
	struct rma_config cfg = x->cfg;

	memset(l->memory, 0, x->rma_bytes);
	cfg.node = (uint16_t)node;
	cfg.counters = l->counters;
	cfg.arg = l;
	l->rma = rma_init(l->memory, &cfg);
	for (uint32_t i = 0; i < cfg.frames_max; i++)
		rma_frame(l->rma, i)->head = (struct wire_transfer *)((uint8_t *)l->heads +
			i * (size_t)(sizeof(struct wire_transfer) + ((cfg.payload_max + 7) & ~7u)));
}

/* Begin a new life of a node that died: all that its core had is gone without completions. */
void
transfers_restart(struct sim_transfers *x, uint32_t node)
{
	struct sim_lane *l = &x->lanes[node];
	struct later *p;

	for (uint32_t i = 0; i < x->sent_count; i++) {
		if (x->sent[i].node == node)
			sent_bytes(&x->sent[i]);
	}
	while ((p = l->later_head) != NULL) {
		l->later_head = p->next;
		free(p);
	}
	lane_begin(x, node);
	for (uint16_t c = 0; c < x->contexts; c++) {
		client_forget(x, node, c);
		l->clients[c].sent = 0;
		context_opens(x, l, c);
	}
}

/* ------------------------------------------------------------------ the library's hooks */

static uint32_t
life_of(void *lane, uint16_t node)
{
	const struct sim_lane *l = lane;
	struct proto_path_stat stat;

	return proto_path_stat(sim_core(l->x->sim, l->node), node, &stat) && stat.established
		? stat.peer_epoch
		: 0;
}

static uint32_t
receiver_of(void *lane, uint16_t ctx, uint16_t node, uint16_t peer, enum rma_watch watch,
	uint64_t now)
{
	const struct sim_lane *l = lane;
	const uint16_t matched = (uint16_t)(2 * l->x->contexts);

	(void)now; /* `now` is of another clock than the core's */
	ctx += matched;
	peer += matched;
	if (watch == RMA_WATCH_BEGINS)
		return sim_watch(l->x->sim, l->node, ctx, node, peer, true);
	if (watch == RMA_WATCH_ENDS)
		sim_watch(l->x->sim, l->node, ctx, node, peer, false);
	return proto_flow_life(sim_core(l->x->sim, l->node), ctx, node, peer);
}

static void *
memory_of(void *lane, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len)
{
	const struct sim_lane *l = lane;
	struct transfer *t = number < l->x->count ? &l->x->all[number] : NULL;

	return t != NULL && t->node == l->node && t->ctx == ctx && !t->local.over &&
			at == t->local.base && len <= t->local.len
		? &t->local
		: NULL;
}

/* Return false, since there are no groups here; the areas are for anyone. */
static bool
is_member(void *lane, uint16_t ctx, uint32_t group, uint16_t node, uint16_t peer)
{
	(void)lane, (void)ctx, (void)group, (void)node, (void)peer;
	return false;
}

static bool
is_revoked(void *lane, uint16_t ctx, uint32_t watched)
{
	const struct sim_lane *l = lane;
	const struct area *a = l->clients[ctx].areas[watched];

	return a != NULL && a->revoked;
}

/* ------------------------------------------------------------------ outside */

void
transfers_heal(struct sim_transfers *x)
{
	x->healed = true;
}

bool
transfers_open(const struct sim_transfers *x)
{
	bool busy = x->open != 0;

	for (uint32_t i = 0; i < x->nodes && !busy; i++)
		busy = lane_is_busy(x, &x->lanes[i]);
	return busy;
}

/* Check that nothing is left of what has ended. */
static void
look_for_leaks(struct sim_transfers *x)
{
	for (uint32_t i = 0; i < x->nodes; i++) {
		const struct sim_lane *l = &x->lanes[i];
		uint32_t free = rma_frames_free(l->rma);

		if (free != x->cfg.frames_max)
			transfers_wrong(x, "node %u has %u of its %u frames", i, free,
				x->cfg.frames_max);
		if (!rma_is_drained(l->rma, RMA_ALL))
			transfers_wrong(x, "node %u still owes something", i);
		for (uint16_t c = 0; c < x->contexts; c++) {
			if (!rma_is_drained(l->rma, c))
				transfers_wrong(x, "context %u.%u still has something under way", i,
					c);
		}
	}
}

/* Check that, without misfortunes, a region is pinned as often as PINs less UNPINs say. */
static void
count_pins(struct sim_transfers *x)
{
	for (uint32_t i = 0; i < x->area_count; i++) {
		const struct area *a = x->areas[i];
		const uint32_t n = area_pins(x, a, false);

		if (a->registered && rma_pins(x->lanes[a->node].rma, a->key) != n)
			transfers_wrong(x, "region %u is pinned %u times, and should be %u times",
				i, rma_pins(x->lanes[a->node].rma, a->key), n);
	}
}

const char *
transfers_judge(struct sim_transfers *x, bool excused)
{
	for (uint32_t i = 0; i < x->count; i++) {
		if (x->all[i].state == OPEN)
			transfer_wrong(x, &x->all[i], 0, "never ended");
		if (x->all[i].events > 1)
			transfer_wrong(x, &x->all[i], 0, "was told of twice");
	}
	look_for_leaks(x);
	if (!excused) {
		count_pins(x);
		if (x->counts.failed != 0)
			transfers_wrong(x, "a transfer failed, and nothing had happened");
		if (x->disorder[0])
			return x->disorder;
	}
	return x->wrong[0] ? x->wrong : NULL;
}

struct transfers_count
transfers_counts(const struct sim_transfers *x)
{
	return x->counts;
}

struct sim_transfers *
transfers_new(struct sim *s, uint32_t nodes, uint16_t contexts, uint32_t payload, uint32_t frames,
	uint32_t entries, uint64_t random)
{
	struct sim_transfers *x = aligned_alloc(_Alignof(struct sim_transfers), sizeof(*x));
	uint64_t counters[RMA_COUNTERS];

	memset(x, 0, sizeof(*x));
	x->sim = s;
	x->nodes = nodes;
	x->contexts = contexts;
	x->random = random;
	x->place_all = lane_place_all;
	x->late = transfers_draw(x) % 2;
	x->cfg = (struct rma_config){
		.contexts_max = contexts,
		.contexts_by = 1,
		.transfers_max = PLACES,
		.fetches_max = FETCHES,
		.requests_max = entries,
		.regions_max = 8u * contexts,
		.frames_max = frames,
		.payload_max = payload - (uint32_t)sizeof(struct wire_transfer),
		.ticks_per_sec = SEC,
		.ask_us = 100000,
		.ask_offer_us = 40000,
		.counters = counters,
		.life = life_of,
		.receiver = receiver_of,
		.memory = memory_of,
		.revoked = is_revoked,
		.member = is_member,
	};
	x->rma_bytes = rma_memsize(&x->cfg);
	x->lanes = calloc(nodes, sizeof(*x->lanes));
	for (uint32_t i = 0; i < nodes; i++) {
		struct sim_lane *l = &x->lanes[i];

		l->x = x;
		l->node = i;
		l->memory = aligned_alloc(64, x->rma_bytes);
		l->heads = malloc(frames * (size_t)(payload + 8));
		l->clients = calloc(contexts, sizeof(*l->clients));
		lane_begin(x, i);
		for (uint16_t c = 0; c < contexts; c++) {
			l->clients[c].uses = (uint32_t)transfers_draw(x);
			context_opens(x, l, c);
		}
	}
	return x;
}

void
transfers_free(struct sim_transfers *x)
{
	struct later *p;

	for (uint32_t i = 0; i < x->nodes; i++) {
		struct sim_lane *l = &x->lanes[i];

		for (uint16_t c = 0; c < x->contexts; c++)
			client_forget(x, i, c);
		while ((p = l->later_head) != NULL) {
			l->later_head = p->next;
			free(p);
		}
		free(l->memory);
		free(l->heads);
		free(l->clients);
	}
	for (uint32_t i = 0; i < x->area_count; i++) {
		free(x->areas[i]->piece.bytes);
		free(x->areas[i]);
	}
	for (uint32_t i = 0; i < x->sent_count; i++)
		free(x->sent[i].bytes);
	for (uint32_t i = 0; i < x->count; i++)
		free(x->all[i].local.bytes);
	free(x->areas);
	free(x->sent);
	free(x->lanes);
	free(x);
}
