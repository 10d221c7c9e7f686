/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The library of groups (lib/group), fed a program: contexts that open groups, leave them and end,
 * barriers, locks and shared regions as a hostile client asks for them, messages of hostile members
 * and of strangers, frames that go and do not go, acknowledgements and errors, nodes that die,
 * time. Whatever comes: only what was asked for ends, and once; who is no member, or has not the
 * key, changes not a byte; and when all contexts have ended nothing is left over.
 *
 * Design note
 * 1. Keys and hashes are not guessed: an input's bytes choose among right values and wrong ones.
 */
#include <errno.h>

#include "group/group.h"
#include "input.h"

#define CTXS    3 /* own, of node 0 */
#define NODES   3
#define GROUPS  4
#define MEMBERS 4
#define LOCKS   5
#define REGIONS 5
#define FRAMES  6
#define BAD_KEY 7 /* no group has it */

static const struct group_addr stranger = {2, 99};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The state of a context in the group at a place. */
struct own {
	bool used, listed, closed, opened, in_barrier, casts;
	uint16_t ctx, count;
	uint32_t id;
	bool asked[LOCKS];
	struct {
		bool comes, goes, in, copies;
		uint32_t number;           /* of the copy */
		unsigned asked, under_way; /* updates */
	} regions[REGIONS];
};

struct world {
	struct input in;
	struct groups *groups;
	struct own own[GROUPS];
	bool ended[CTXS]; /* the context has, and waits until it may be another's */
	struct group_frame *out[FRAMES];
	unsigned out_count;
	uint64_t counters[GROUP_COUNTERS];
	uint64_t now, hash; /* hash: of the last list with which somebody joined */
	size_t bytes;
	uint8_t *before; /* a copy of all memory */
};

/* ------------------------------------------------------------------ a client */

/* The member of that rank, if it is not the own one. */
static struct group_addr
other_member(unsigned rank, uint8_t how)
{
	return (struct group_addr){(uint16_t)(how >> rank & 1), (uint16_t)(10 + rank)};
}

static void
opens(struct world *w, uint16_t ctx)
{
	const uint8_t how = take8(&w->in), list = take8(&w->in);
	const struct group_params p = {
		.id = how % 3, /* 0 is none */
		.rank = how / 4 % MEMBERS,
		.count = (uint16_t)(1 + how / 16 % (MEMBERS + 1)),
		.user = how,
		.random = 42,
		.give_up = w->now + list,
	};
	const struct group_addr self = {0, ctx};
	int place = group_open(w->groups, ctx, &p);

	if (place < 0)
		return;
	struct own *o = &w->own[place];

	MUST(place < GROUPS && !o->used && p.id != 0 && p.rank < p.count && p.count <= MEMBERS);
	*o = (struct own){.used = true, .ctx = ctx, .id = p.id, .count = p.count};
	for (uint16_t r = 0; r < p.count; r++) {
		/* sometimes a wrong one, and sometimes not all */
		struct group_addr a = r == p.rank && list != 255 ? self : other_member(r, list);

		if (list == 254 && r + 1 == p.count)
			return;
		if (group_list(w->groups, ctx, (uint32_t)place, &self, &a, 1, w->now) != 0)
			return;
	}
	o->listed = true;
}

static void
asks(struct world *w, unsigned place, unsigned what)
{
	struct own *o = &w->own[place];
	const uint8_t how = take8(&w->in);
	/* also of a place that is not its own */
	const uint16_t ctx = how < 250 ? o->ctx : how % CTXS;
	const bool mine = o->used && ctx == o->ctx && !w->ended[ctx];
	const uint32_t lock = how % (LOCKS + 1);
	int64_t result;

	switch (what) {
	case 0:
		result = group_close(w->groups, ctx, place);
		MUST(result != 0 || (mine && !o->closed));
		o->closed |= result == 0;
		break;
	case 1:
		result = group_barrier(w->groups, ctx, place);
		MUST(result < 0 || (mine && !o->in_barrier && !o->closed));
		o->in_barrier |= result > 0;
		break;
	case 2:
		result = group_lock(w->groups, ctx, place, lock, how & 64);
		MUST(result != 0 || (mine && lock < LOCKS && !o->asked[lock]));
		if (result == 0)
			o->asked[lock] = true;
		break;
	default:
		result = group_unlock(w->groups, ctx, place, lock);
		MUST(result != 0 || (mine && lock < LOCKS));
	}
}

/* The next copy of a region begins. */
static void
copies(struct world *w)
{
	struct group_copy c;

	if (!groups_copy(w->groups, &c))
		return;
	struct own *o = &w->own[c.place];

	group_copying(w->groups, &c);
	MUST(c.place < GROUPS && c.region < REGIONS && c.ctx < CTXS);
	MUST(w->ended[c.ctx] || o->closed ||
		(o->used && o->id == c.id && o->regions[c.region].comes));
	o->regions[c.region].copies = true;
	o->regions[c.region].number = c.number;
}

static void
shares(struct world *w, unsigned place)
{
	struct own *o = &w->own[place];
	const uint8_t how = take8(&w->in);
	const uint16_t ctx = how < 250 ? o->ctx : how % CTXS;
	const bool mine = o->used && ctx == o->ctx && !w->ended[ctx] && !o->closed;
	const uint32_t r = how / 8 % (REGIONS + 1);
	int result = -EINVAL;

	switch (how % 8) {
	case 0:
	case 1:
		result = group_subscribe(w->groups, ctx, place, r, how % 3 * 100, how % 2);
		MUST(result != 0 || (mine && r < REGIONS && !o->regions[r].comes));
		if (result == 0)
			o->regions[r].comes = true;
		break;
	case 2:
		result = group_unsubscribe(w->groups, ctx, place, r);
		MUST(result != 0 || (mine && r < REGIONS && !o->regions[r].goes));
		if (result == 0)
			o->regions[r].goes = true;
		break;
	case 3:
	case 4:
		result = group_update(w->groups, ctx, place, r);
		MUST(result != 0 || (mine && r < REGIONS));
		if (result == 0)
			o->regions[r].asked++;
		break;
	case 5:
		result = group_updated(w->groups, ctx, place, r);
		MUST(result != 0 || (mine && o->regions[r].under_way > 0));
		if (result == 0)
			o->regions[r].under_way--;
		break;
	case 6:
		copies(w);
		break;
	default:
		if (r < REGIONS && o->regions[r].copies)
			group_copied(w->groups, ctx, place, r, o->regions[r].number,
				how & 64 ? EIO : 0);
		if (r < REGIONS && ctx == o->ctx)
			o->regions[r].copies = false;
	}
}

static void
region_result(struct own *o, const struct group_result *r)
{
	MUST(r->number < REGIONS && !o->closed);
	switch (r->kind) {
	case GROUP_SUBSCRIBED:
		MUST(o->regions[r->number].comes);
		o->regions[r->number].comes = false;
		o->regions[r->number].in = r->error == 0;
		break;
	case GROUP_UNSUBSCRIBED:
		MUST(o->regions[r->number].goes);
		o->regions[r->number].goes = false;
		o->regions[r->number].in &= r->error != 0;
		break;
	case GROUP_UPDATE:
		MUST(o->regions[r->number].in && o->regions[r->number].asked > 0);
		o->regions[r->number].asked--;
		o->regions[r->number].under_way += r->error == 0;
		break;
	default:
		MUST(o->regions[r->number].in && r->rank == 0 && r->bits < 1u << o->count);
	}
}

static void
results(struct world *w, uint16_t ctx)
{
	struct group_result r;

	while (group_result(w->groups, ctx, &r)) {
		struct own *o = &w->own[r.place];

		MUST(r.place < GROUPS && o->used && o->ctx == ctx && !w->ended[ctx]);
		MUST(r.rank == UINT16_MAX || r.rank < o->count || r.kind == GROUP_SHARERS);
		switch (r.kind) {
		case GROUP_OPENED:
			MUST(o->listed && !o->opened && !o->closed);
			o->opened = true;
			break;
		case GROUP_GONE:
		case GROUP_ENDED:
			MUST(o->opened && !o->closed);
			break;
		case GROUP_BARRIER:
			MUST(o->in_barrier && !o->closed);
			o->in_barrier = false;
			break;
		case GROUP_LOCKED:
			MUST(r.number < LOCKS && o->asked[r.number] && !o->closed);
			o->asked[r.number] = false;
			break;
		case GROUP_SUBSCRIBED:
		case GROUP_UNSUBSCRIBED:
		case GROUP_UPDATE:
		case GROUP_SHARERS:
			region_result(o, &r);
			break;
		case GROUP_SHARER:
			MUST(r.number < REGIONS && o->opened && !o->closed);
			break;
		case GROUP_LACKS:
			MUST(o->casts && r.bits != 0 && r.rank < o->count && !o->closed);
			break;
		case GROUP_CAST:
			MUST(o->casts && !o->closed);
			o->casts = false;
			break;
		case GROUP_CLOSED:
			MUST(o->closed);
			o->used = false;
			break;
		default:
			MUST(false);
		}
	}
}

/* The context ends, or another one may have its number. */
static void
life(struct world *w, uint16_t ctx)
{
	if (w->ended[ctx]) {
		w->ended[ctx] = !groups_left(w->groups, ctx);
		return;
	}
	groups_leave(w->groups, ctx);
	w->ended[ctx] = true;
	for (unsigned i = 0; i < GROUPS; i++)
		w->own[i].used &= w->own[i].ctx != ctx;
}

/* ------------------------------------------------------------------ the network */

static void
message(struct world *w, uint16_t ctx)
{
	const uint8_t how = take8(&w->in), what = take8(&w->in), more = take8(&w->in);
	const uint64_t keys[] = {42, 42, 42, 43, w->hash, w->hash, 0, BAD_KEY};
	const uint16_t rank = how % (MEMBERS + 1);
	const struct group_addr from = how >= 240 ? stranger : other_member(rank, how / 8);
	struct wire_group h = {
		.op = what % (WIRE_GROUP_OPS + 1),
		.flags = what / 32,
		.rank = wire_be16(rank),
		.group = wire_be32(1 + more / 128),
		.key = wire_be64(keys[more % 8]),
		.number = wire_be32(more / 8 % (LOCKS + 1)),
		.ticket = wire_be32(take8(&w->in) % 4),
		.b = wire_be32(what % 4),
		.other = wire_be16(more / 32 % (MEMBERS + 1)),
		.error = wire_be16(what & 64 ? ETIMEDOUT : 0),
	};
	const bool keyless = h.op == WIRE_G_JOIN || h.op == WIRE_G_OPEN || h.op == WIRE_G_LEAVE ||
		h.op == WIRE_G_LEFT;
	const bool nothing = how >= 240 || (more % 8 == 7 && !keyless);

	if (h.op == WIRE_G_OPEN && more % 8 == 7)
		h.key = wire_be64(43);
	if (nothing)
		memcpy(w->before, w->groups, w->bytes);
	groups_message(w->groups, ctx, from, more % 3, &h, sizeof(h) - (what == 255));
	MUST(!nothing || memcmp(w->before, w->groups, w->bytes) == 0);
}

/* A frame that is sent to several nodes at once; those of strangers change nothing but a
 * counter. */
static void
frame(struct world *w)
{
	const uint8_t how = take8(&w->in), what = take8(&w->in), more = take8(&w->in);
	const uint16_t rank = how % (MEMBERS + 1);
	const struct group_addr from = how >= 240 ? stranger : other_member(rank, how / 8);
	const uint64_t ranks = wire_be64(what & 8 ? ~0ull : more);
	struct wire_multi h = {
		.group = wire_be32(1 + more / 128),
		.number = wire_be32(what / 32 + (more & 1 ? 0 : UINT32_MAX - 3)),
		.rank = wire_be16(rank),
		.frame = more % 8,
		.last = what % 8,
		.area = wire_be32(7),
		.words = wire_be16(what & 8 ? 1 : more % 20),
		.flags = wire_be16(more / 64 % 2),
		.at = wire_be64(1000),
	};
	uint8_t payload[sizeof(h) + sizeof(ranks) + 1] = {0};
	struct group_cast_place p;
	const bool nothing = how >= 240 || what & 16;

	memcpy(payload, &h, sizeof(h));
	memcpy(payload + sizeof(h), &ranks, sizeof(ranks));
	h.tag = wire_be32(wire_multi_tag(what & 16 ? 41 : 42, payload, h.words != 0));
	memcpy(payload, &h, sizeof(h));
	if (nothing)
		memcpy(w->before, w->groups, w->bytes);
	for (uint32_t at = 0;
		groups_cast_heard(w->groups, &at, from, payload, sizeof(payload), &p, w->now);) {
		MUST(!nothing && p.ctx < CTXS && !w->ended[p.ctx] && p.at == 1000 && p.area == 7);
		MUST(p.head_len < sizeof(payload) && p.id == wire_be32(h.group));
		if (more % 3 != 0)
			group_cast_placed(w->groups, &p);
	}
	MUST(!nothing || memcmp(w->before, w->groups, w->bytes) == 0);
}

static void
casts(struct world *w, unsigned i)
{
	const uint8_t how = take8(&w->in);
	struct own *o = &w->own[i];
	const bool mine = o->used && !o->closed && !w->ended[o->ctx];
	const struct group_cast c = {
		.len = how / 4 * 4,
		.unit = how % 3,
		.memory = 5,
		.links = i,
	};
	struct group_cast_frame f;
	int result;

	switch (how % 4) {
	case 0:
		result = group_cast_to(w->groups, o->ctx, i, how / 64, how / 4);
		MUST(result != 0 || mine);
		break;
	case 1:
		result = group_cast(w->groups, o->ctx, i, &c);
		MUST(result != 0 || (mine && !o->casts && c.len > 0 && c.unit > 0));
		o->casts |= result == 0;
		break;
	case 2:
		if (groups_cast_tx(w->groups, &f, w->now)) {
			MUST(wire_multi_check(f.head, f.head_len + f.len) == WIRE_OK);
			MUST(f.ctx < CTXS && f.memory == 5 && f.links < GROUPS && f.len > 0);
			MUST(w->own[f.links].casts && w->own[f.links].ctx == f.ctx);
		}
		break;
	default:
		frame(w);
	}
}

static void
acknowledge(struct world *w, uint8_t error)
{
	if (w->out_count == 0)
		return;
	unsigned i = take8(&w->in) % w->out_count;
	struct group_frame *f = w->out[i];

	w->out[i] = w->out[--w->out_count];
	groups_acked(w->groups, f, error);
}

/* Takes a frame out: it goes, does not go now, or at all; within the node it arrives. */
static bool
pull(struct world *w, uint8_t how)
{
	struct group_frame *f = groups_tx(w->groups);

	if (f == NULL)
		return false;
	MUST(wire_group_check(&f->message, sizeof(f->message)) == WIRE_OK);
	MUST(f->ctx < CTXS && w->out_count < FRAMES);
	if (f->message.op == WIRE_G_JOIN)
		w->hash = wire_be64(f->message.key);
	if (how % 8 == 0) {
		groups_sent(w->groups, f, EAGAIN);
		return false;
	}
	if (how % 8 == 1) {
		groups_sent(w->groups, f, EHOSTUNREACH);
		return true;
	}
	groups_sent(w->groups, f, 0);
	w->out[w->out_count++] = f;
	if (f->to.node == 0 && f->to.ctx < CTXS)
		groups_message(w->groups, f->to.ctx, (struct group_addr){0, f->ctx}, 0, &f->message,
			sizeof(f->message));
	return true;
}

static void
step(struct world *w)
{
	static const uint8_t errors[] = {0, 0, 0, ECONNRESET, ECONNREFUSED};
	const uint8_t what = take8(&w->in);
	const uint16_t ctx = what / 16 % CTXS;

	w->now++;
	switch (what % 16) {
	case 0:
		if (take8(&w->in) % 4 == 0 || w->ended[ctx])
			life(w, ctx);
		break;
	case 1:
		if (!w->ended[ctx])
			opens(w, ctx);
		break;
	case 2:
	case 3:
	case 4:
	case 5:
		asks(w, what / 16 % GROUPS, what % 16 - 2);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		message(w, ctx);
		break;
	case 10:
		acknowledge(w, errors[take8(&w->in) % sizeof(errors)]);
		break;
	case 11:
		groups_node_gone(w->groups, what / 16 % NODES, take8(&w->in) % 3);
		break;
	case 12:
		w->now += take8(&w->in);
		if (w->now >= groups_deadline(w->groups))
			groups_tick(w->groups, w->now);
		break;
	case 13:
		if (!w->ended[ctx])
			results(w, ctx);
		break;
	case 14:
		if (what / 16 / GROUPS % 2 == 0)
			shares(w, what / 16 % GROUPS);
		else
			casts(w, what / 16 % GROUPS);
		break;
	default:
		pull(w, take8(&w->in));
	}
}

/* All contexts end, and every other node is dead. */
static void
end(struct world *w)
{
	bool left = false;

	w->in.left = 0;
	for (uint16_t c = 0; c < CTXS; c++) {
		if (!w->ended[c])
			life(w, c);
	}
	for (unsigned i = 0; i < 1000 && !left; i++) {
		for (uint16_t n = 0; n < NODES; n++)
			groups_node_gone(w->groups, n, 0);
		acknowledge(w, ECONNREFUSED);
		while (w->out_count < FRAMES && pull(w, 2))
			;
		left = w->out_count == 0;
		for (uint16_t c = 0; c < CTXS; c++)
			left &= groups_left(w->groups, c);
	}
	MUST(left && groups_is_quiet(w->groups) && groups_deadline(w->groups) == UINT64_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {.in = {data, size}, .now = 1};
	const struct groups_config config = {
		.groups_max = GROUPS,
		.members_max = MEMBERS,
		.locks_max = LOCKS,
		.regions_max = REGIONS,
		.frames_max = FRAMES,
		.join_ticks = 5,
		.wait_ticks = 3,
		.round_ticks = 7,
		.counters = w.counters,
	};

	w.bytes = groups_memsize(&config);
	void *memory = aligned_alloc(64, w.bytes);

	w.before = malloc(w.bytes);
	memset(memory, 0, w.bytes);
	w.groups = groups_init(memory, &config);
	while (w.in.left > 0)
		step(&w);
	end(&w);
	free(w.before);
	free(memory);
	return 0;
}
