/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The library of remote memory (lib/rma), fed a program: contexts that open and close, regions,
 * transfers of every kind as a hostile client describes them, messages of a hostile peer to targets
 * and initiators, frames that go, do not go or go in part, acknowledgements and errors, time.
 * Whatever comes: what is to be placed lies in memory that may be written, what is to be sent in
 * memory that may be read, each entry of room comes back once, and when all is closed and
 * acknowledged nothing is left over.
 *
 * Design notes
 * 1. Addresses are numbers here: the library must not touch what they name. A context's memory has
 *    four pieces; at most the first two are registered, the others are for its own transfers.
 * 2. An input's bytes choose among right values and wrong ones of each field: right keys and ids
 *    are not guessed.
 */
#include <errno.h>

#include "input.h"
#include "rma/atomic.h"
#include "rma/rma.h"

#define CTXS     3
#define NODES    3 /* 0: our own */
#define PIECES   4
#define BYTES    4096u
#define PLACES   6
#define FETCHES  2
#define REQUESTS 5
#define LATE     4
#define REGIONS  6
#define FRAMES   12
#define PAYLOAD  200
#define OPS_MAX  1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct piece {
	uint64_t key; /* 0: not registered */
	uint8_t rights;
};

struct client {
	struct piece pieces[PIECES];
	uint32_t ids[PLACES + FETCHES]; /* of the last transfer there */
	uint32_t uses;
	uint32_t held; /* entries of its target's room */
	bool open, ending;
};

/* A message whose bytes are put into their place later. */
struct late {
	struct wire_transfer h;
	uint8_t bytes[PAYLOAD];
	struct rma_message m;
};

struct world {
	struct input in;
	struct rma *rma;
	struct client clients[CTXS];
	struct rma_frame *out[FRAMES]; /* with the core */
	unsigned out_count;
	uint64_t counters[RMA_COUNTERS];
	uint64_t now;
	uint32_t life;
	bool revoked;
	/* of one endpoint of one context, in order */
	struct late late[LATE];
	unsigned late_count;
	uint16_t late_ctx;
	bool late_to_target;
};

static uint64_t
base_of(uint16_t ctx, unsigned piece)
{
	return ((uint64_t)ctx + 1) << 32 | (uint64_t)piece << 16;
}

/* [at, at + len) lies in that piece of the context. */
static bool
in_piece(uint16_t ctx, uint64_t at, uint64_t len, unsigned *piece)
{
	for (unsigned i = 0; i < PIECES; i++) {
		uint64_t base = base_of(ctx, i);

		*piece = i;
		if (at >= base && at - base <= BYTES && len <= BYTES - (at - base))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ what the library asks */

static uint32_t
life_of(void *world, uint16_t node)
{
	const struct world *w = world;

	return node % 2 ? w->life : 0;
}

static uint32_t
receiver_of(void *world, uint16_t ctx, uint16_t node, uint16_t peer, enum rma_watch watch,
	uint64_t now)
{
	const struct world *w = world;

	(void)watch, (void)now;
	MUST(ctx < CTXS);
	return node == 0 || peer % 2 ? w->life : 0;
}

static void *
memory_of(void *world, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len)
{
	struct world *w = world;
	unsigned piece;

	MUST(ctx < CTXS);
	return in_piece(ctx, at, len, &piece) && piece == number ? &w->clients[ctx].pieces[piece]
								 : NULL;
}

/* Return whether the peer is in the group: it is if the sum of their numbers is odd. */
static bool
is_member(void *world, uint16_t ctx, uint32_t group, uint16_t node, uint16_t peer)
{
	(void)world, (void)ctx, (void)node;
	return (group + peer) % 2;
}

static bool
is_revoked(void *world, uint16_t ctx, uint32_t watched)
{
	const struct world *w = world;

	MUST(ctx < CTXS && watched < PIECES);
	return w->revoked;
}

/* ------------------------------------------------------------------ what comes of it */

/* Bytes that a client described itself may lie anywhere: that its memory does not hold them is for
 * whoever copies to find out. In a piece that was looked up they lie in it. */
static void
check_bytes(struct world *w, const struct rma_bytes *b, uint64_t at, uint64_t len)
{
	unsigned piece;

	MUST(b->ctx < CTXS);
	if (b->memory == NULL)
		return;
	MUST(in_piece(b->ctx, at, len, &piece));
	MUST(b->memory == &w->clients[b->ctx].pieces[piece]);
}

static void
news(struct world *w)
{
	struct rma_news n;
	const struct rma_result *r;

	while (rma_news(w->rma, &n)) {
		MUST(n.ctx < CTXS);
		struct client *c = &w->clients[n.ctx];

		MUST(!c->open || n.room <= c->held);
		c->held -= c->open ? n.room : 0;
	}
	while ((r = rma_result(w->rma)) != NULL) {
		MUST(r->ctx < CTXS && w->clients[r->ctx].open && r->place < PLACES + FETCHES);
		MUST(r->fetched == (r->place >= PLACES));
	}
}

static void
events(struct world *w)
{
	for (uint16_t c = 0; c < CTXS; c++) {
		while (w->clients[c].open && rma_event(w->rma, c) != NULL)
			rma_event_told(w->rma, c);
	}
}

static void
check_frame(struct world *w, const struct rma_frame *f)
{
	MUST(f->out && f->len <= sizeof(struct wire_transfer) + PAYLOAD && f->head_len <= f->len);
	MUST(f->src % WIRE_CONTEXTS_MAX < CTXS);
	MUST(f->head_len == f->len || f->source.len != 0);
	if (f->source.len == 0)
		return;
	MUST(f->runs || f->head_len + f->source.len == f->len);
	check_bytes(w, &f->source, f->source.at, f->source.len);
	if (!f->runs)
		return;
	struct wire_runs runs = {(const uint8_t *)f->head + f->head_len, f->len - f->head_len,
		f->runs_from, 0, 0};

	while (wire_run_next(&runs) != NULL)
		check_bytes(w, &f->source, f->source.at + runs.at, runs.len);
	MUST(runs.left == 0);
}

/* Some of the frames of a turn go. */
static void
send(struct world *w, struct rma_frame **frames, unsigned n)
{
	static const uint8_t errors[] = {EAGAIN, EAGAIN, EHOSTUNREACH, EFAULT};
	uint8_t how = take8(&w->in);
	unsigned went = how < 128 ? n : how % (n + 1);

	MUST(n <= RMA_BURST);
	for (unsigned i = 0; i < n; i++) {
		check_frame(w, frames[i]);
		frames[i]->in_place = how & 1;
	}
	for (unsigned i = 0; i < went; i++) {
		MUST(w->out_count < FRAMES);
		w->out[w->out_count++] = frames[i];
	}
	rma_sent(w->rma, went, went == n ? 0 : errors[how / 4 % 4], w->now);
}

static void
turn(struct world *w)
{
	struct rma_frame **out;
	unsigned n, rounds = 0;

	events(w);
	rma_turn(w->rma);
	while ((out = rma_tx_answers(w->rma, &n)) != NULL && rounds++ < 1000)
		send(w, out, n);
	while ((out = rma_tx_transfers(w->rma, &n)) != NULL && rounds++ < 1000)
		send(w, out, n);
	MUST(rounds < 1000);
	rma_tick(w->rma, w->now);
	news(w);
}

static void
acknowledge(struct world *w, uint8_t error)
{
	if (w->out_count == 0)
		return;
	struct rma_frame *f = w->out[0];

	if (error == ECONNRESET && rma_again(w->rma, f))
		return;
	memmove(w->out, w->out + 1, --w->out_count * sizeof(struct rma_frame *));
	rma_acked(w->rma, f, error);
	news(w);
}

/* ------------------------------------------------------------------ clients */

static void
submit(struct world *w, uint16_t ctx)
{
	struct client *c = &w->clients[ctx];
	struct transfer_desc d;
	uint8_t how = take8(&w->in);
	uint32_t place = take8(&w->in) % (PLACES + 1);

	take(&w->in, &d, sizeof(d));
	if (how & 1) { /* mostly right */
		d.kind = 1 + d.kind % TRANSFER_ATOMIC;
		d.flags &= d.kind == TRANSFER_PULL ? TRANSFER_AREA | TRANSFER_ORDERED |
				(how & 2 ? TRANSFER_STRIDE : TRANSFER_BITMAP)
			: d.kind == TRANSFER_ACCEPT ? TRANSFER_OFFERED
			: d.kind == TRANSFER_OFFER  ? 0
						    : TRANSFER_AREA | TRANSFER_ORDERED;
		d.flags |= d.kind == TRANSFER_ACCEPT ? TRANSFER_OFFERED : 0;
		d.len %= BYTES + 1;
		d.status &= ~3ull;
		d.node %= NODES;
		d.ctx %= CTXS;
		d.memory = how & 4 ? d.memory % PIECES : MEMORY_COPIED;
		d.local = base_of(ctx, d.memory % PIECES) + d.local % 8;
		d.unit = 4u << d.unit % 4;
	}
	if (how & 1 && d.kind == TRANSFER_ATOMIC) {
		d.unit = TRANSFER_OPERATION(d.dims % WIRE_A_OPS, d.dims / 64 % WIRE_A_TYPES);
		d.flags |= how & 2 ? TRANSFER_FETCH : 0;
		d.len = 8 * (d.len % 9);
	}
	if (how & 8)
		d.id = TRANSFER_ID(place, c->uses++);
	if (rma_submit(w->rma, ctx, place, &d, w->now))
		c->ids[place] = d.id;
	if (how & 16 && rma_is_packed(w->rma, ctx, place))
		rma_packed(w->rma, ctx, place, w->now);
	if (how & 32)
		rma_packed_cancel(w->rma, ctx, place % PLACES);
	if (how & 64)
		rma_packed_failed(w->rma, ctx, d.id, ETIMEDOUT);
	news(w);
}

static void
fetch(struct world *w, uint16_t ctx)
{
	const struct rma_fetch f = {
		.kind = take8(&w->in) & 1 ? TRANSFER_PULL : TRANSFER_ACCEPT,
		.node = take8(&w->in) % NODES,
		.ctx = take8(&w->in) % CTXS,
		.from = take32(&w->in),
		.use = w->clients[ctx].uses++,
		.len = take16(&w->in) % (BYTES + 1),
		.local = {&w->clients[ctx].pieces[3], base_of(ctx, 3), BYTES, ctx},
	};

	if (!rma_fetch(w->rma, &f, w->now))
		return;
	for (unsigned i = PLACES; i < PLACES + FETCHES; i++)
		w->clients[ctx].ids[i] = TRANSFER_ID(i, f.use);
}

static void
registration(struct world *w, uint16_t ctx)
{
	const unsigned piece = take8(&w->in) % 2;
	struct piece *p = &w->clients[ctx].pieces[piece];
	const uint8_t how = take8(&w->in);

	if (p->key == 0) {
		const struct region r = {
			.base = base_of(ctx, piece),
			.len = BYTES,
			.area = how & 4 ? piece : REGION_NO_AREA,
			.rights = (uint8_t)(1 + how % 3 + (how & 32 ? 0 : REGION_ANYONE)),
			.group = how & 64 ? 1 : 0,
			.memory = p,
			.watched = how & 8 ? piece : REGIONS_WATCHED,
		};

		p->rights = r.rights & (REGION_READ | REGION_WRITE);
		if (rma_register(w->rma, ctx, &r, take32(&w->in), &p->key) != 0)
			p->key = 0;
	} else if (how & 1) {
		if (rma_deregister(w->rma, ctx, p->key, w->now) >= 0)
			p->key = 0;
	} else {
		rma_memory_gone(w->rma, ctx, p);
		p->key = 0;
	}
	news(w);
}

static void
life(struct world *w, uint16_t ctx)
{
	struct client *c = &w->clients[ctx];
	struct rma_frame **out;
	unsigned n;

	if (!c->open && !rma_has_frames(w->rma, ctx) && !rma_leaves(w->rma, ctx)) {
		rma_open(w->rma, ctx);
		*c = (struct client){.open = true, .uses = c->uses};
	} else if (c->open) {
		rma_close(w->rma, ctx);
		memset(c->pieces, 0, sizeof(c->pieces));
		c->open = false;
		c->held = 0;
	} else {
		while ((out = rma_tx_leaving(w->rma, ctx, &n)) != NULL && w->out_count < FRAMES) {
			unsigned before = w->out_count;

			send(w, out, n);
			if (w->out_count == before)
				break;
		}
	}
	news(w);
}

/* ------------------------------------------------------------------ a hostile peer */

/* Right as often as not. */
static uint64_t
some_key(struct world *w, uint16_t ctx, uint8_t how)
{
	const struct client *c = &w->clients[ctx];

	switch (how % 6) {
	case 0:
		return c->pieces[0].key;
	case 1:
		return c->pieces[1].key;
	case 2:
		return w->clients[(ctx + 1) % CTXS].pieces[0].key;
	case 3:
		return how / 6 % 2; /* an area */
	case 4:
		return c->ids[how / 6 % (PLACES + FETCHES)];
	}
	return (uint64_t)take32(&w->in) << 32 | take32(&w->in);
}

static void
placed(struct world *w, uint16_t ctx, bool to_target, const struct rma_message *m, uint8_t error)
{
	if (to_target)
		rma_target_placed(w->rma, ctx, m, error);
	else
		rma_initiator_placed(w->rma, ctx, m, error ? 0 : m->len, error);
}

static void
place_late(struct world *w)
{
	for (unsigned i = 0; i < w->late_count; i++) {
		struct late *l = &w->late[i];

		l->m.head = &l->h;
		l->m.bytes = l->bytes;
		placed(w, w->late_ctx, w->late_to_target, &l->m, l->h.id % 8 == 0 ? EFAULT : 0);
	}
	w->late_count = 0;
}

static void
place_later(struct world *w, uint16_t ctx, bool to_target, const struct rma_message *m)
{
	if (w->late_count == LATE)
		place_late(w);
	struct late *l = &w->late[w->late_count++];

	l->h = *m->head;
	memcpy(l->bytes, m->bytes, m->len);
	l->m = *m;
	w->late_ctx = ctx;
	w->late_to_target = to_target;
}

/* Check that a message goes into memory of that context, and may. Return the error of its runs. */
static uint8_t
check_place(struct world *w, uint16_t ctx, bool to_target, const struct rma_message *m,
	const struct rma_place *place)
{
	uint8_t error = 0;

	MUST(place->to.ctx == ctx);
	if (!place->runs)
		check_bytes(w, &place->to, place->to.at, m->len);
	if (to_target && place->to.memory != NULL && !(m->head->flags & WIRE_T_OFFER)) {
		const struct piece *p = place->to.memory;
		/* that all of a pull has been taken is said by a push of no bytes */
		const bool taken = m->head->flags & WIRE_T_TAKEN;

		MUST(p->key != 0 && p->rights & (taken ? REGION_READ : REGION_WRITE));
		MUST(!taken || m->len == 0);
	}
	if (place->runs) {
		struct wire_runs runs = {m->bytes, m->len, place->offset, 0, 0};

		while (wire_run_next(&runs) != NULL)
			error = runs.end > place->to.len ? EPROTO : error;
		error = runs.left != 0 ? EPROTO : error;
	}
	return error;
}

/* Carry an atomic operation out, on bytes that are nobody's, and check whose they would be. */
static void
change(struct world *w, uint16_t ctx, bool to_target, const struct rma_message *m,
	const struct rma_place *place, uint8_t error)
{
	uint64_t there[WIRE_ATOMIC_BYTES / 8] = {0}, before[WIRE_ATOMIC_BYTES / 8];
	const struct piece *p = place->to.memory;

	MUST(to_target && place->to.ctx == ctx && place->to.len <= WIRE_ATOMIC_BYTES);
	check_bytes(w, &place->to, place->to.at, place->to.len);
	MUST(p == NULL || (p->key != 0 && p->rights == (REGION_READ | REGION_WRITE)));
	rma_change(place, m, there, before);
	rma_target_changed(w->rma, ctx, m, place, before, error);
}

static void
message(struct world *w, uint16_t ctx, bool to_target)
{
	struct client *c = &w->clients[ctx];
	uint8_t bytes[PAYLOAD] __attribute__((aligned(8)));
	struct wire_transfer h = {.op = take8(&w->in) % (WIRE_TRANSFER_OPS + 1)};
	const uint8_t how = take8(&w->in);
	struct rma_message m = {
		.head = &h,
		.bytes = bytes,
		.len = take8(&w->in) % (PAYLOAD + 1),
		.node = 1 + how % (NODES - 1),
		.peer = how / 4 % CTXS,
	};
	struct rma_place place;

	if (to_target && c->held == REQUESTS)
		return; /* the core would not */
	h.flags = take8(&w->in);
	h.id = wire_be32(c->ids[how / 2 % (PLACES + FETCHES)]);
	h.key = wire_be64(some_key(w, ctx, take8(&w->in)));
	h.at = wire_be64(how & 64 ? base_of(ctx, how & 1) + take16(&w->in) : take16(&w->in));
	h.len = wire_be64(how & 128 ? take16(&w->in) % (BYTES + 9) : m.len);
	h.offset = wire_be64(how & 32 ? take16(&w->in) % BYTES : 0);
	take(&w->in, bytes, m.len);
	if (h.op == WIRE_ATOMIC && how & 128) { /* mostly right */
		bytes[0] %= WIRE_A_OPS;
		bytes[1] %= WIRE_A_TYPES;
		h.len = wire_be64(8);
		m.len = (uint32_t)sizeof(struct wire_atomic) + atomic_operands(bytes[0], 8);
	}
	if (!c->open)
		return;
	/* as the engine does: only more bytes for the same endpoint may come in between */
	if (w->late_ctx != ctx || w->late_to_target != to_target ||
		h.op != (to_target ? WIRE_PUSH : WIRE_PULLED))
		place_late(w);
	c->held += to_target;
	enum rma_heard heard = to_target ? rma_target_message(w->rma, ctx, &m, &place, w->now)
					 : rma_initiator_message(w->rma, ctx, &m, &place, w->now);

	if (heard == RMA_PLACE) {
		const uint8_t error = check_place(w, ctx, to_target, &m, &place);

		if (how & 16 && !place.runs) {
			place_later(w, ctx, to_target, &m);
		} else {
			place_late(w);
			placed(w, ctx, to_target, &m, error);
		}
	}
	if (heard == RMA_CHANGE)
		change(w, ctx, to_target, &m, &place, how & 4 ? EFAULT : 0);
	if (w->late_count == 0)
		news(w);
}

/* ------------------------------------------------------------------ */

static void
step(struct world *w)
{
	static const uint8_t errors[] = {0, 0, 0, 0, ECONNRESET, ECONNREFUSED, ETIMEDOUT};
	const uint8_t what = take8(&w->in);
	const uint16_t ctx = what / 16 % CTXS;
	const bool open = w->clients[ctx].open;

	w->now += take8(&w->in);
	if (what % 16 < 6 || what % 16 > 10)
		place_late(w);
	switch (what % 16) {
	case 0:
		life(w, ctx);
		break;
	case 1:
	case 2:
		if (open)
			registration(w, ctx);
		break;
	case 3:
	case 4:
		if (open)
			submit(w, ctx);
		break;
	case 5:
		if (open)
			fetch(w, ctx);
		break;
	case 6:
	case 7:
	case 8:
		message(w, ctx, true);
		break;
	case 9:
	case 10:
		message(w, ctx, false);
		break;
	case 11:
		acknowledge(w, errors[take8(&w->in) % sizeof(errors)]);
		break;
	case 12:
		w->now += 1000 * take8(&w->in);
		w->life += what / 64;
		w->revoked = what & 128;
		break;
	case 13:
		if (open)
			rma_offers_lost(w->rma, ctx, 1, what / 64 % CTXS, ECONNRESET);
		news(w);
		break;
	default:
		turn(w);
	}
}

static bool
is_leaving(const struct world *w)
{
	return rma_leaves(w->rma, 0) || rma_leaves(w->rma, 1) || rma_leaves(w->rma, 2);
}

/* Everything closes, and every frame comes back. */
static void
end(struct world *w)
{
	w->in.left = 0;
	place_late(w);
	for (uint16_t c = 0; c < CTXS; c++) {
		if (w->clients[c].open)
			life(w, c);
	}
	for (unsigned i = 0; i < 1000 && (w->out_count != 0 || is_leaving(w)); i++) {
		acknowledge(w, 0);
		for (uint16_t c = 0; c < CTXS; c++) {
			if (rma_leaves(w->rma, c))
				life(w, c);
		}
		turn(w);
	}
	MUST(w->out_count == 0 && rma_frames_free(w->rma) == FRAMES);
	MUST(rma_is_drained(w->rma, RMA_ALL) && rma_deadline(w->rma) == UINT64_MAX);
	for (uint16_t c = 0; c < CTXS; c++)
		MUST(rma_is_drained(w->rma, c));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {.in = {data, size}, .now = 1, .life = 1};
	const struct rma_config config = {
		.contexts_max = CTXS,
		.contexts_by = 1,
		.transfers_max = PLACES,
		.fetches_max = FETCHES,
		.requests_max = REQUESTS,
		.regions_max = REGIONS,
		.frames_max = FRAMES,
		.payload_max = PAYLOAD,
		.ticks_per_sec = 1000000,
		.ask_us = 1000,
		.ask_offer_us = 500,
		.counters = w.counters,
		.life = life_of,
		.receiver = receiver_of,
		.memory = memory_of,
		.revoked = is_revoked,
		.member = is_member,
		.arg = &w,
	};
	const size_t bytes = rma_memsize(&config), frame = sizeof(struct wire_transfer) + PAYLOAD;
	uint8_t *heads = malloc(FRAMES * frame);
	void *memory = aligned_alloc(64, bytes);

	memset(memory, 0, bytes);
	w.rma = rma_init(memory, &config);
	for (uint32_t i = 0; i < FRAMES; i++)
		rma_frame(w.rma, i)->head = (struct wire_transfer *)(heads + i * frame);
	for (uint16_t c = 0; c < CTXS; c++)
		life(&w, c);
	for (unsigned i = 0; i < OPS_MAX && w.in.left != 0; i++)
		step(&w);
	end(&w);
	free(memory);
	free(heads);
	return 0;
}
