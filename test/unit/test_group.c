/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups as a library (lib/group): random histories of some nodes whose network is the test. Each
 * pair of contexts has a flow that loses nothing and keeps its order, as the core's have; flows
 * wait for each other as they like. Processes are killed and nodes die at any step. The oracle: one
 * holder of a lock at a time, and a member; a barrier ends for nobody before all that live have
 * entered it, and alike for all; all copies of a shared region are equal, each update placed once
 * at each sharer and at nobody else, none while a newcomer copies the region; what was asked for
 * ends; in the end nothing is left.
 * GROUP_HISTORIES=N runs as many (the default is some seconds), GROUP_SEED=S that one alone.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group/group.h"

#define NODES   4
#define CTXS    3 /* of a node */
#define LIFE    5 /* of node 1, twice that of node 2; 0, not known, of node 0 */
#define ALL     (NODES * CTXS)
#define LOCKS   5
#define REGIONS 3
#define UPDATES 64 /* under way */
#define FRAMES  6
#define QUEUE   256
#define AIR     400 /* frames of multicasts under way */
#define CAST    200 /* frames of a multicast */
#define GIVE_UP 5000
#define JOIN    50
#define ID      7

enum life { ABSENT, MEMBER, LEAVING, AWAY, DEAD };

/* The state that a member has of a shared region. Its bytes are a set of updates. */
struct copy {
	uint32_t number; /* of the copying */
	bool asks, in, leaves, copying, copied;
	uint64_t sharers; /* ranks, as it is told */
	uint64_t sum;     /* of the updates in it */
	unsigned asked;   /* updates that it may not begin yet */
	unsigned wishes;  /* subscriptions of which the home is to be told */
};

/* An update under way: from whom, and at whom it is not yet. */
struct update {
	bool used;
	unsigned from;
	uint32_t region;
	uint64_t number, left; /* ranks */
};

/* A message between two contexts. */
struct packet {
	struct wire_group message;
	struct group_frame *frame; /* at its sender */
};

/* From one context to another. */
struct flow {
	struct packet queue[QUEUE];
	unsigned head, tail;
};

/* A multicast as its sender has it; its bytes are one a frame, and have all the same value. */
struct sent {
	bool runs;
	uint32_t value, frames, to;            /* to: ranks, bits */
	uint64_t lacks[ALL][(CAST + 63) / 64]; /* by rank */
};

/* A frame of one, to a node. */
struct airborne {
	bool used;
	uint16_t from, node; /* from: actor */
	uint32_t value;
	uint8_t payload[WIRE_MULTI_HEAD(ALL) + 1];
};

struct actor {
	enum life life;
	int place;
	uint16_t rank;
	bool opened, failed, ended, in_barrier;
	bool expelled;
	bool stopped; /* it does nothing, and its members send nothing */
	bool asks[LOCKS], holds[LOCKS];
	uint32_t entered, passed; /* barriers */
	struct copy copies[REGIONS];
	struct sent sent;
	uint32_t got[ALL][CAST]; /* by the sender's rank */
	unsigned to_do;          /* requests that it makes still */
};

static struct {
	struct groups *groups[NODES];
	void *memory[NODES], *other[NODES]; /* other: to which they may move */
	uint64_t counters[NODES][GROUP_COUNTERS];
	bool up[NODES];
	bool frozen[NODES]; /* it moves when the core has no frame */
	struct groups_config config;
	unsigned moves;
	struct flow flows[ALL][ALL];
	struct actor actors[ALL];
	uint16_t count; /* members: actors by rank */
	uint16_t who[ALL];
	uint64_t now, random;
	unsigned deaths;
	struct {
		bool known;
		uint8_t error;
		uint16_t because;
	} barriers[1000];
	uint32_t locks, regions; /* that are used */
	struct update updates[UPDATES];
	uint64_t update_number;
	bool torn[REGIONS]; /* a member has died in the midst of an update */
	struct airborne air[AIR];
	uint32_t cast_value;
} w;

static uint32_t
draw(uint32_t n)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return (uint32_t)(w.random >> 33) % n;
}

static uint16_t
node_of(unsigned a)
{
	return (uint16_t)(a / CTXS);
}

static uint16_t
ctx_of(unsigned a)
{
	return (uint16_t)(a % CTXS);
}

static unsigned
actor_at(struct group_addr a)
{
	return a.node * CTXS + a.ctx;
}

static struct group_addr
addr_of(unsigned a)
{
	return (struct group_addr){node_of(a), ctx_of(a)};
}

/* ------------------------------------------------------------------ the network */

static bool trace; /* GROUP_TRACE: what is delivered is printed */

static bool
has_membership(unsigned a)
{
	return w.up[node_of(a)] && w.actors[a].life != ABSENT && w.actors[a].life != AWAY;
}

/* Takes what groups have to send into the flows. */
static void
pull(uint16_t node)
{
	struct group_frame *f;

	while (w.up[node] && (f = groups_tx(w.groups[node])) != NULL) {
		unsigned from = node * CTXS + f->ctx, to = actor_at(f->to);
		struct flow *flow = &w.flows[from][to];

		if (draw(20) == 0) {
			groups_sent(w.groups[node], f, EAGAIN);
			return;
		}
		assert_true(flow->tail - flow->head < QUEUE);
		flow->queue[flow->tail++ % QUEUE] = (struct packet){f->message, f};
		groups_sent(w.groups[node], f, 0);
	}
}

/* The first message of a flow arrives, or fails since its receiver's node is dead. */
static bool
deliver(unsigned from, unsigned to)
{
	struct flow *flow = &w.flows[from][to];

	if (flow->head == flow->tail || !w.up[node_of(from)])
		return false;
	struct packet *p = &flow->queue[flow->head++ % QUEUE];
	bool arrives = w.up[node_of(to)] && has_membership(to);

	if (trace)
		fprintf(stderr,
			"%lu: rank %u to %u: op %u flags %u number %u ticket %u other %u b %u "
			"error %u%s\n",
			(unsigned long)w.now, w.actors[from].rank, w.actors[to].rank, p->message.op,
			p->message.flags, wire_be32(p->message.number),
			wire_be32(p->message.ticket), wire_be16(p->message.other),
			wire_be32(p->message.b), wire_be16(p->message.error),
			arrives ? "" : " lost");
	if (arrives)
		groups_message(w.groups[node_of(to)], ctx_of(to), addr_of(from),
			node_of(from) * LIFE, &p->message, sizeof(p->message));
	groups_acked(w.groups[node_of(from)], p->frame,
		arrives                     ? 0
			: w.up[node_of(to)] ? ECONNREFUSED
					    : ETIMEDOUT);
	return true;
}

/* ------------------------------------------------------------------ the oracle */

static bool
lives(unsigned a)
{
	return w.up[node_of(a)] && w.actors[a].life == MEMBER && !w.actors[a].expelled;
}

static void
passes(struct actor *a, const struct group_result *r)
{
	assert_true(a->in_barrier);
	assert_int_equal(r->number, a->entered);
	a->in_barrier = false;
	a->passed = r->number;
	if (a->ended)
		return;
	if (r->error == 0) {
		for (unsigned i = 0; i < w.count; i++) {
			const struct actor *other = &w.actors[w.who[i]];

			if (lives(w.who[i]) && !other->ended && other->entered < r->number) {
				print_error("rank %u passed barrier %u before rank %u entered\n",
					a->rank, r->number, i);
				fail();
			}
		}
	} else {
		assert_true(w.deaths > 0);
	}
	/* alike for all, but for those for whom the group has ended meanwhile */
	if (r->error == ECONNRESET && r->rank == 0)
		return;
	if (w.barriers[r->number].known)
		assert_int_equal(w.barriers[r->number].error != 0, r->error != 0);
	w.barriers[r->number].known = true;
	w.barriers[r->number].error = r->error;
}

static void
locked(struct actor *a, const struct group_result *r)
{
	uint32_t l = r->number;

	assert_true(a->asks[l]);
	a->asks[l] = false;
	if (r->error != 0 && r->error != EOWNERDEAD) {
		assert_true(r->error == EBUSY || w.deaths > 0);
		return;
	}
	for (unsigned i = 0; i < w.count; i++) {
		if (lives(w.who[i]) && w.actors[w.who[i]].holds[l]) {
			print_error("ranks %u and %u hold lock %u\n", i, a->rank, l);
			fail();
		}
	}
	assert_true(r->error == 0 || w.deaths > 0);
	a->holds[l] = true;
}

/* ------------------------------------------------------------------ shared regions */

static struct copy *
copy_of(uint16_t rank, uint32_t region)
{
	return &w.actors[w.who[rank]].copies[region];
}

static unsigned
under_way(uint32_t region)
{
	unsigned n = 0;

	for (unsigned i = 0; i < UPDATES; i++)
		n += w.updates[i].used && w.updates[i].region == region;
	return n;
}

/* An update may begin: it goes to all that share the region, and is here at once. */
static void
update_begins(unsigned n, uint32_t region)
{
	struct copy *c = &w.actors[n].copies[region];
	unsigned i = 0;

	while (w.updates[i].used)
		assert_true(++i < UPDATES);
	c->asked--;
	assert_true(c->sharers >> w.actors[n].rank & 1);
	for (uint16_t rank = 0; rank < w.count; rank++) {
		if (copy_of(rank, region)->copying && lives(w.who[rank])) {
			print_error("rank %u updates region %u while rank %u copies it\n",
				w.actors[n].rank, region, rank);
			fail();
		}
	}
	w.updates[i] = (struct update){
		.used = true,
		.from = n,
		.region = region,
		.number = ++w.update_number * 0x9E3779B97F4A7C15ull,
		.left = c->sharers & ~(1ull << w.actors[n].rank),
	};
	c->sum += w.updates[i].number;
}

/* One more sharer gets the update, or it ends. */
static void
update_goes_on(struct update *u)
{
	if (!lives(u->from) || w.actors[u->from].ended) {
		w.torn[u->region] |= u->left != 0;
		u->used = false;
		return;
	}
	if (u->left == 0) {
		struct actor *a = &w.actors[u->from];

		u->used = false;
		assert_int_equal(group_updated(w.groups[node_of(u->from)], ctx_of(u->from),
					 (uint32_t)a->place, u->region),
			0);
		return;
	}
	uint16_t rank = (uint16_t)__builtin_ctzll(u->left);
	struct copy *c = copy_of(rank, u->region);

	u->left &= u->left - 1;
	if (!lives(w.who[rank]) || w.actors[w.who[rank]].ended)
		return;
	if (!c->in && !c->copied) {
		/* who has heard that the home has ended shares it no more at once */
		if (!lives(w.who[u->region % w.count]))
			return;
		print_error("an update of rank %u reaches rank %u, which does not share region "
			    "%u\n",
			w.actors[u->from].rank, rank, u->region);
		fail();
	}
	c->sum += u->number;
}

/* Bytes that are to be copied from a home begin to be, and those that are being copied are. */
static void
copies_go_on(void)
{
	struct group_copy c;

	for (uint16_t node = 0; node < NODES; node++) {
		while (w.up[node] && draw(3) == 0 && groups_copy(w.groups[node], &c)) {
			unsigned n = actor_at((struct group_addr){node, c.ctx});

			group_copying(w.groups[node], &c);
			if (!lives(n))
				continue;
			w.actors[n].copies[c.region].copying = true;
			w.actors[n].copies[c.region].number = c.number;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		for (uint32_t r = 0; r < REGIONS; r++) {
			struct copy *mine = &w.actors[n].copies[r];
			unsigned home = w.who[r % w.count];

			if (!mine->copying || draw(20) != 0)
				continue;
			mine->copying = false;
			if (!lives(n))
				continue;
			mine->copied = lives(home) && w.actors[home].copies[r].in && draw(10) != 0;
			mine->sum = w.actors[home].copies[r].sum;
			group_copied(w.groups[node_of(n)], ctx_of(n), (uint32_t)w.actors[n].place,
				r, mine->number, mine->copied ? 0 : EIO);
		}
	}
}

static void
region_hears(unsigned n, const struct group_result *r)
{
	struct copy *c = &w.actors[n].copies[r->number];

	switch (r->kind) {
	case GROUP_SUBSCRIBED:
		assert_true(c->asks);
		assert_true(r->error == 0 || r->error == EIO || w.deaths > 0);
		c->asks = c->copied = false;
		c->in = r->error == 0;
		break;
	case GROUP_SHARER: /* as often as it was wished, or less often */
		c = &w.actors[w.who[r->rank]].copies[r->number];
		assert_true(r->number % w.count == w.actors[n].rank && c->wishes > 0);
		c->wishes--;
		break;
	case GROUP_SHARERS:
		assert_true(c->in);
		c->sharers = (c->sharers & ~(0xFFFFFFFFull << r->rank * 32)) |
			(uint64_t)r->bits << r->rank * 32;
		break;
	case GROUP_UPDATE:
		assert_true(c->in && c->asked > 0);
		if (r->error == 0)
			update_begins(n, r->number);
		else
			c->asked--;
		assert_true(r->error == 0 || w.deaths > 0);
		break;
	case GROUP_UNSUBSCRIBED:
		assert_true(c->leaves);
		c->leaves = false;
		c->in = r->error != 0;
		break;
	}
}

static void
shares(unsigned n)
{
	const uint32_t r = draw(w.regions), place = (uint32_t)w.actors[n].place;
	struct groups *g = w.groups[node_of(n)];
	struct copy *c = &w.actors[n].copies[r];

	if (c->asks || c->leaves)
		return;
	if (!c->in) {
		if (draw(3) == 0) {
			const bool notify = draw(2);

			assert_int_equal(group_subscribe(g, ctx_of(n), place, r, 100, notify), 0);
			c->wishes += notify;
			c->asks = true;
			c->sharers = 0;
			c->sum = 0;
		}
	} else if (draw(6) != 0) {
		if (c->asked < 3 && under_way(r) < UPDATES / REGIONS / 2) {
			assert_int_equal(group_update(g, ctx_of(n), place, r), 0);
			c->asked++;
		}
	} else if (c->asked == 0) {
		assert_int_equal(group_unsubscribe(g, ctx_of(n), place, r), 0);
		c->leaves = true;
	}
}

/* All that share a region have the same updates. */
static void
copies_are_equal(void)
{
	for (uint32_t r = 0; r < w.regions; r++) {
		unsigned home = w.who[r % w.count];

		if (w.torn[r] || !lives(home) || w.actors[home].ended)
			continue;
		for (unsigned n = 0; n < ALL; n++) {
			const struct copy *c = &w.actors[n].copies[r];

			if (!lives(n) || w.actors[n].ended)
				continue;
			if (c->asks && w.actors[home].copies[r].in) {
				print_error("rank %u waits to share region %u\n", w.actors[n].rank,
					r);
				fail();
			}
			assert_false(c->leaves || c->asked > 0);
			if (c->in && c->sum != w.actors[home].copies[r].sum) {
				print_error("rank %u has other bytes of region %u than its home\n",
					w.actors[n].rank, r);
				fail();
			}
		}
	}
}

/* ------------------------------------------------------------------ multicasts */

static void
casts(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct groups *g = w.groups[node_of(n)];
	const uint32_t place = (uint32_t)a->place, to = draw(1u << w.count);

	if (a->sent.runs)
		return;
	a->sent = (struct sent){
		.runs = true,
		.value = ++w.cast_value,
		.frames = 1 + draw(draw(2) ? 10 : CAST),
		.to = to,
	};
	const struct group_cast c = {
		.at = a->rank * CAST,
		.from = 1000,
		.len = a->sent.frames,
		.unit = 1,
	};

	assert_int_equal(group_cast_to(g, ctx_of(n), place, 0, to & 0xF), 0);
	assert_int_equal(group_cast_to(g, ctx_of(n), place, 0, to & ~0xFu), 0);
	assert_int_equal(group_cast(g, ctx_of(n), place, &c), 0);
	assert_int_equal(group_cast(g, ctx_of(n), place, &c), -EBUSY);
}

/* Takes frames from a node into the air, to all nodes: some are lost, some doubled. */
static void
cast_frames(uint16_t node)
{
	struct group_cast_frame f;

	for (unsigned k = 0; k < 8 && w.up[node] && groups_cast_tx(w.groups[node], &f, w.now);
		k++) {
		const unsigned from = node * CTXS + f.ctx;

		struct wire_multi head;

		assert_int_equal(f.len, 1);
		assert_int_equal(f.head_len, WIRE_MULTI_HEAD(w.count));
		memcpy(&head, f.head, sizeof(head));
		assert_int_equal(f.from - 1000 + w.actors[from].rank * CAST, wire_be64(head.at));
		for (uint16_t to = 0; to < NODES; to++) {
			unsigned copies = draw(10) == 0 ? 0 : draw(20) == 0 ? 2 : 1;

			for (unsigned i = 0; i < AIR && copies > 0; i++) {
				if (w.air[i].used)
					continue;
				copies--;
				w.air[i] = (struct airborne){true, (uint16_t)from, to,
					w.actors[from].sent.value, {0}};
				memcpy(w.air[i].payload, f.head, f.head_len);
			}
		}
	}
}

/* One frame arrives. */
static void
cast_arrives(struct airborne *f)
{
	struct groups *g = w.groups[f->node];
	struct group_cast_place p;

	f->used = false;
	if (!w.up[f->node])
		return;
	for (uint32_t at = 0; groups_cast_heard(g, &at, addr_of(f->from), f->payload,
		     sizeof(f->payload), &p, w.now);) {
		const unsigned n = f->node * CTXS + p.ctx;
		const uint16_t rank = w.actors[f->from].rank;
		uint32_t *cell = &w.actors[n].got[rank][p.at - rank * CAST];

		assert_true(lives(n));
		assert_int_equal(p.id, ID);
		if (*cell > f->value) {
			print_error("a late frame of rank %u overwrites what is newer\n", rank);
			fail();
		}
		*cell = f->value;
		if (draw(50) != 0) /* else the area is not there */
			group_cast_placed(g, &p);
		else
			*cell = 0;
	}
}

static void
casts_go_on(void)
{
	for (uint16_t n = 0; n < NODES; n++)
		cast_frames(n);
	for (unsigned k = 0; k < 60; k++) {
		struct airborne *f = &w.air[draw(AIR)];

		if (f->used)
			cast_arrives(f);
	}
}

/* All have answered: who is said to have a frame has it, and the others get it by a push. */
static void
cast_ends(unsigned n, uint32_t frames, uint8_t error)
{
	struct actor *a = &w.actors[n];

	assert_true(frames <= a->sent.frames);
	assert_true(a->sent.runs);
	a->sent.runs = false;
	if (error != 0) { /* the group has ended, of which all hear one after the other */
		assert_true(error == ECONNRESET && frames == 0 && w.deaths > 0);
		for (uint16_t rank = 0; rank < w.count; rank++) {
			for (uint32_t f = 0; f < a->sent.frames; f++)
				w.actors[w.who[rank]].got[a->rank][f] = a->sent.value;
		}
		return;
	}
	assert_true(frames > 0);
	for (uint16_t rank = 0; rank < w.count; rank++) {
		struct actor *to = &w.actors[w.who[rank]];

		if (!(a->sent.to >> rank & 1) || to == a || !lives(w.who[rank]) || to->ended)
			continue;
		for (uint32_t f = 0; f < a->sent.frames; f++) {
			const bool lacks = f >= frames || a->sent.lacks[rank][f / 64] >> f % 64 & 1;

			if ((to->got[a->rank][f] == a->sent.value) == lacks) {
				print_error("rank %u %s frame %u of %u of rank %u\n", rank,
					lacks ? "has" : "lacks", f, a->sent.frames, a->rank);
				fail();
			}
			to->got[a->rank][f] = a->sent.value;
		}
	}
}

static void
cast_lacks(unsigned n, const struct group_result *r)
{
	struct sent *s = &w.actors[n].sent;

	assert_true(s->runs && r->bits != 0 && s->to >> r->rank & 1);
	for (uint32_t i = 0; i < 32; i++) {
		const uint32_t f = r->number + i;

		if (!(r->bits >> i & 1))
			continue;
		assert_true(f < s->frames);
		assert_false(s->lacks[r->rank][f / 64] >> f % 64 & 1);
		s->lacks[r->rank][f / 64] |= 1ull << f % 64;
	}
}

/* ------------------------------------------------------------------ results */

static void
hear(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct group_result r;

	uint32_t at = 0;
	uint16_t any;

	if (!groups_tells(w.groups[node_of(n)], &at, &any))
		return;
	while (w.up[node_of(n)] && group_result(w.groups[node_of(n)], ctx_of(n), &r)) {
		assert_int_equal(r.place, a->place);
		switch (r.kind) {
		case GROUP_OPENED:
			assert_false(a->opened || a->failed);
			a->opened = r.error == 0;
			a->failed = r.error != 0;
			assert_true(r.error == 0 || w.deaths > 0);
			break;
		case GROUP_GONE:
			assert_false(lives(w.who[r.rank]));
			break;
		case GROUP_ENDED:
			assert_true(w.deaths > 0 && (r.rank == 0 || a->expelled));
			a->ended = true;
			break;
		case GROUP_BARRIER:
			passes(a, &r);
			break;
		case GROUP_LOCKED:
			locked(a, &r);
			break;
		case GROUP_SUBSCRIBED:
		case GROUP_SHARER:
		case GROUP_SHARERS:
		case GROUP_UPDATE:
		case GROUP_UNSUBSCRIBED:
			region_hears(n, &r);
			break;
		case GROUP_LACKS:
			cast_lacks(n, &r);
			break;
		case GROUP_CAST:
			cast_ends(n, r.number, r.error);
			break;
		case GROUP_CLOSED:
			assert_int_equal(a->life, LEAVING);
			a->life = AWAY;
			/* its number may become somebody else's now: nobody takes it for a member,
			 * but where all learn one by one that rank 0 has gone */
			for (unsigned i = 0; i < ALL; i++)
				assert_false(lives(i) && lives(w.who[0]) && w.actors[i].opened &&
					group_has_member(w.groups[node_of(i)], ctx_of(i),
						(uint32_t)w.actors[i].place, a->rank));
			break;
		}
	}
}

/* ------------------------------------------------------------------ what actors do */

static void
joins(unsigned n)
{
	struct actor *a = &w.actors[n];
	const struct group_params p = {
		.id = ID,
		.rank = a->rank,
		.count = w.count,
		.random = 12345,
		.give_up = w.now + GIVE_UP,
	};
	const struct group_addr own = addr_of(n);

	a->place = group_open(w.groups[node_of(n)], ctx_of(n), &p);
	assert_true(a->place >= 0);
	a->life = MEMBER;
	for (unsigned i = 0; i < w.count; i++) {
		const struct group_addr member = addr_of(w.who[i]);

		assert_int_equal(group_list(w.groups[node_of(n)], ctx_of(n), (uint32_t)a->place,
					 &own, &member, 1, w.now),
			0);
	}
}

static void
asks(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct groups *g = w.groups[node_of(n)];
	uint32_t l = draw(w.locks);

	if (a->holds[l]) {
		int result = group_unlock(g, ctx_of(n), (uint32_t)a->place, l);

		assert_true(result == 0 || (result == -EHOSTDOWN && w.deaths > 0));
		a->holds[l] = false;
	} else if (!a->asks[l] && a->to_do > 0) {
		a->to_do--;
		assert_int_equal(group_lock(g, ctx_of(n), (uint32_t)a->place, l, draw(4) == 0), 0);
		a->asks[l] = true;
	}
}

static void
enters(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (a->in_barrier)
		return;
	int64_t number = group_barrier(w.groups[node_of(n)], ctx_of(n), (uint32_t)a->place);

	assert_int_equal(number, a->entered + 1);
	a->entered = (uint32_t)number;
	a->in_barrier = true;
}

static void
stops(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (!w.up[node_of(n)] || a->life == ABSENT)
		return;
	a->stopped = !a->stopped;
	if (a->stopped)
		groups_stop(w.groups[node_of(n)], ctx_of(n), w.now);
	else
		groups_start(w.groups[node_of(n)], ctx_of(n), w.now);
}

/* Start a member again if it is stopped: it has to run before it can end. */
static void
goes_on(unsigned n)
{
	if (w.actors[n].stopped)
		stops(n);
}

static void
dies(unsigned n)
{
	w.deaths++;
	goes_on(n);
	groups_leave(w.groups[node_of(n)], ctx_of(n));
	w.actors[n].life = DEAD;
}

static void
closes(unsigned n)
{
	w.deaths++; /* others may notice */
	goes_on(n);
	assert_int_equal(group_close(w.groups[node_of(n)], ctx_of(n), (uint32_t)w.actors[n].place),
		0);
	w.actors[n].life = LEAVING;
}

/* All of a node is gone at once; the others notice when their messages fail, or by keepalive. */
static void
node_dies(uint16_t node)
{
	w.deaths++;
	w.up[node] = false;
	for (unsigned a = node * CTXS; a < (node + 1u) * CTXS; a++)
		w.actors[a].life = w.actors[a].life == ABSENT ? ABSENT : DEAD;
	/* what it has sent may arrive still, or not */
	for (unsigned a = node * CTXS; a < (node + 1u) * CTXS; a++) {
		for (unsigned to = 0; to < ALL; to++) {
			struct flow *f = &w.flows[a][to];

			while (f->head != f->tail && draw(2) == 0 && has_membership(to)) {
				groups_message(w.groups[node_of(to)], ctx_of(to), addr_of(a), 0,
					&f->queue[f->head % QUEUE].message,
					sizeof(struct wire_group));
				f->head++;
			}
			f->head = f->tail;
		}
	}
}

static void
act(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (!w.up[node_of(n)] || a->life != MEMBER || a->stopped)
		return;
	if (a->failed || a->ended) {
		if (draw(3) == 0)
			closes(n);
		return;
	}
	if (!a->opened)
		return;
	switch (draw(4)) {
	case 0:
		enters(n);
		break;
	case 1:
		asks(n);
		break;
	case 2:
		casts(n);
		break;
	default:
		shares(n);
	}
}

/* ------------------------------------------------------------------ histories */

static void
world_begins(uint64_t seed)
{
	struct groups_config c = {
		.groups_max = 4,
		.members_max = ALL,
		.locks_max = LOCKS,
		.regions_max = REGIONS,
		.frames_max = FRAMES,
		.join_ticks = JOIN,
		.wait_ticks = 5,
		.round_ticks = 40,
	};
	void *memory[NODES], *other[NODES];

	memcpy(memory, w.memory, sizeof(memory));
	memcpy(other, w.other, sizeof(other));
	memset(&w, 0, sizeof(w));
	memcpy(w.memory, memory, sizeof(memory));
	memcpy(w.other, other, sizeof(other));
	w.random = seed * 0x9E3779B97F4A7C15ull | 1;
	for (unsigned i = 0; i < 8; i++)
		draw(2);
	for (unsigned n = 0; n < NODES; n++) {
		size_t bytes = groups_memsize(&c);

		c.counters = w.counters[n];
		bytes = groups_memsize(&c);
		if (w.memory[n] == NULL) {
			assert_int_equal(posix_memalign(&w.memory[n], 64, bytes), 0);
			assert_int_equal(posix_memalign(&w.other[n], 64, bytes), 0);
		}
		memset(w.memory[n], 0, bytes);
		w.groups[n] = groups_init(w.memory[n], &c);
		assert_non_null(w.groups[n]);
		w.up[n] = true;
	}
	w.config = c;
	w.count = (uint16_t)(1 + draw(ALL));
	w.locks = 1 + draw(LOCKS);
	w.regions = 1 + draw(REGIONS);
	for (unsigned i = 0; i < ALL; i++)
		w.who[i] = (uint16_t)i;
	for (unsigned i = 0; i < ALL; i++) {
		unsigned j = i + draw(ALL - i);
		uint16_t other = w.who[j];

		w.who[j] = w.who[i];
		w.who[i] = other;
		w.actors[other].rank = (uint16_t)i;
		w.actors[other].to_do = 5 + draw(40);
	}
}

/* Another process goes on with a node's groups, in other memory. */
static void
moves(unsigned n)
{
	const size_t bytes = groups_memsize(&w.config);
	struct groups_config c = w.config;
	struct group_span from, to;
	void *old = w.memory[n];

	c.counters = w.counters[n];
	memset(w.other[n], 0, bytes);
	struct groups *next = groups_init(w.other[n], &c);

	assert_non_null(next);
	for (uint32_t at = 0, there = 0; groups_span(w.groups[n], &at, &from);) {
		assert_true(groups_span(next, &there, &to));
		assert_int_equal(from.len, to.len);
		memcpy(to.bytes, from.bytes, from.len);
		groups_adopt(next, &c);
		assert_int_equal(at, there);
	}
	memset(old, 0xA5, bytes);
	w.groups[n] = next;
	w.memory[n] = w.other[n];
	w.other[n] = old;
	w.moves++;
}

/* One step of the network and the clock, after which all hear what there is. */
static void
step(void)
{
	unsigned from = draw(ALL), to = draw(ALL);

	w.now++;
	for (uint16_t n = 0; n < NODES; n++) {
		if (w.up[n] && w.now >= groups_deadline(w.groups[n]))
			groups_tick(w.groups[n], w.now);
		w.frozen[n] |= w.up[n] && draw(200) == 0;
		if (!w.frozen[n])
			pull(n);
		if (w.frozen[n] && !groups_out(w.groups[n])) {
			moves(n);
			w.frozen[n] = false;
		}
	}
	for (unsigned tries = 0; tries < ALL * ALL && !deliver(from, to); tries++) {
		to = (to + 1) % ALL;
		from = to == 0 ? (from + 1) % ALL : from;
	}
	for (unsigned n = 0; n < ALL; n++)
		hear(n);
	for (unsigned i = 0; i < UPDATES; i++) {
		if (w.updates[i].used && draw(10) == 0)
			update_goes_on(&w.updates[i]);
	}
	copies_go_on();
	casts_go_on();
}

/* Nothing is under way, and nobody waits. */
static bool
is_idle(void)
{
	for (unsigned a = 0; a < ALL; a++) {
		for (unsigned b = 0; b < ALL; b++) {
			if (w.flows[a][b].head != w.flows[a][b].tail && w.up[node_of(a)])
				return false;
		}
		for (uint32_t r = 0; r < REGIONS; r++) {
			if (w.actors[a].copies[r].copying)
				return false;
		}
		if (lives(a) && !w.actors[a].ended && w.actors[a].sent.runs)
			return false;
	}
	for (unsigned i = 0; i < AIR; i++) {
		if (w.air[i].used)
			return false;
	}
	for (uint32_t r = 0; r < REGIONS; r++) {
		if (under_way(r) > 0)
			return false;
	}
	return true;
}

static void
settle(void)
{
	for (unsigned idle = 0, steps = 0; idle < 300; steps++) {
		step();
		idle = is_idle() ? idle + 1 : 0;
		assert_true(steps < 1000000);
	}
}

/* Keepalive finds out which nodes are dead. */
static void
notice(void)
{
	for (unsigned at = 0; at < NODES * NODES; at++) {
		uint16_t n = (uint16_t)(at / NODES), dead = (uint16_t)(at % NODES);

		if (w.up[n] && !w.up[dead])
			groups_node_gone(w.groups[n], dead, 0);
	}
}

/* All unlock, and enter the barrier that somebody is in; then nobody waits for anything. */
static void
all_ends(void)
{
	for (unsigned round = 0; round < 60; round++) {
		uint32_t last = 0;

		notice();
		settle();
		for (unsigned n = 0; n < ALL; n++)
			last = w.actors[n].entered > last ? w.actors[n].entered : last;
		for (unsigned n = 0; n < ALL; n++) {
			struct actor *a = &w.actors[n];

			if (!lives(n) || !a->opened || a->ended)
				continue;
			if (!a->in_barrier && a->entered < last)
				enters(n);
			for (uint32_t l = 0; l < LOCKS; l++) {
				if (a->holds[l])
					group_unlock(w.groups[node_of(n)], ctx_of(n),
						(uint32_t)a->place, l);
				a->holds[l] = false;
			}
		}
	}
	settle();
	for (unsigned n = 0; n < ALL; n++) {
		const struct actor *a = &w.actors[n];

		if (!lives(n))
			continue;
		if (!a->opened && !a->failed) {
			print_error("rank %u waits for the group to open\n", a->rank);
			fail();
		}
		if (a->in_barrier) {
			print_error("rank %u waits in barrier %u\n", a->rank, a->entered);
			fail();
		}
		for (uint32_t l = 0; l < LOCKS; l++) {
			if (a->asks[l]) {
				print_error("rank %u waits for lock %u\n", a->rank, l);
				fail();
			}
		}
	}
}

/* All go, and nothing is left. */
static void
all_go(void)
{
	for (unsigned n = 0; n < ALL; n++) {
		if (lives(n))
			closes(n);
		if (draw(3) == 0)
			settle();
	}
	notice();
	settle();
	for (unsigned n = 0; n < ALL; n++) {
		if (!w.up[node_of(n)] || w.actors[n].life == ABSENT)
			continue;
		if (!groups_left(w.groups[node_of(n)], ctx_of(n))) {
			print_error("rank %u has not left\n", w.actors[n].rank);
			fail();
		}
		assert_true(w.actors[n].life == AWAY || w.actors[n].life == DEAD);
	}
}

static void
history(uint64_t seed, unsigned deaths, bool stopping)
{
	unsigned joined = 0;

	world_begins(seed);
	for (unsigned steps = 200 + draw(3000); steps > 0; steps--) {
		if (joined < w.count && draw(10) == 0)
			joins(w.who[joined++]);
		if (deaths > 0 && draw(2000 / (1 + deaths)) == 0) {
			unsigned n = w.who[draw(w.count)];

			deaths--;
			switch (draw(3)) {
			case 0:
				if (w.up[node_of(n)])
					node_dies(node_of(n));
				break;
			case 1:
				if (lives(n))
					dies(n);
				break;
			default:
				if (lives(n))
					closes(n);
			}
		}
		if (w.deaths > 0 && draw(500) == 0)
			notice();
		act(draw(ALL));
		if (stopping && draw(50) == 0)
			stops(draw(ALL));
		step();
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (w.up[node_of(n)])
			goes_on(n);
	}
	while (joined < w.count) {
		unsigned n = w.who[joined++];

		if (w.up[node_of(n)])
			joins(n);
	}
	all_ends();
	copies_are_equal();
	all_go();
}

static unsigned
histories(unsigned usual)
{
	const char *asked = getenv("GROUP_HISTORIES");

	return asked != NULL ? (unsigned)atoi(asked) : usual;
}

static void
run(unsigned deaths, bool stopping)
{
	const char *one = getenv("GROUP_SEED");

	trace = getenv("GROUP_TRACE") != NULL;

	for (unsigned i = 1; i <= histories(100); i++) {
		uint64_t seed = one != NULL ? strtoull(one, NULL, 0) : i;

		if (one != NULL || getenv("GROUP_SHOW") != NULL)
			fprintf(stderr, "seed %lu\n", (unsigned long)seed);
		history(seed, deaths, stopping);
		if (one != NULL)
			break;
	}
}

static void
group__histories(void **state)
{
	(void)state;
	run(0, false);
}

static void
group__histories_with_deaths(void **state)
{
	(void)state;
	run(3, false);
}

static void
group__histories_with_many_deaths(void **state)
{
	(void)state;
	run(9, false);
}

static void
group__histories_with_stops(void **state)
{
	(void)state;
	run(2, true);
}

/* ------------------------------------------------------------------ single cases */

/* The group's members are the first `count` actors, in order. */
static void
world_of(uint16_t count)
{
	world_begins(1);
	w.count = count;
	for (uint16_t i = 0; i < ALL; i++) {
		w.who[i] = i;
		w.actors[i].rank = i;
	}
}

/* The next result of an actor, when everything has settled. */
static struct group_result
hears(unsigned n)
{
	struct group_result r = {.kind = UINT8_MAX};

	for (unsigned steps = 0; steps < 4000; steps++) {
		w.now++;
		for (uint16_t node = 0; node < NODES; node++) {
			if (w.now >= groups_deadline(w.groups[node]))
				groups_tick(w.groups[node], w.now);
			pull(node);
		}
		for (unsigned i = 0; i < ALL * ALL; i++)
			deliver(i / ALL, i % ALL);
	}
	assert_true(group_result(w.groups[node_of(n)], ctx_of(n), &r));
	return r;
}

static void
group__names_who_has_another_list(void **state)
{
	const struct group_params p = {.id = ID, .rank = 2, .count = 3, .give_up = 1000000};
	const struct group_addr other[] = {addr_of(0), addr_of(3), addr_of(2)}, own = addr_of(2);

	(void)state;
	world_of(3);
	w.deaths = 1;
	joins(0);
	joins(1);
	w.actors[2].life = MEMBER;
	w.actors[2].place = group_open(w.groups[0], 2, &p);
	assert_int_equal(group_list(w.groups[0], 2, (uint32_t)w.actors[2].place, &own, other, 3, 0),
		0);
	for (unsigned n = 0; n < 3; n++) {
		struct group_result r = hears(n);

		assert_int_equal(r.kind, GROUP_OPENED);
		assert_int_equal(r.error, EPROTO);
		assert_int_equal(r.rank, 2);
	}
}

static void
group__names_who_does_not_come(void **state)
{
	(void)state;
	world_of(4);
	for (unsigned n = 0; n < 4; n++) {
		if (n != 2)
			joins(n);
	}
	for (unsigned i = 0; i < 2; i++) /* until all have given up */
		while (groups_deadline(w.groups[0]) < GIVE_UP) {
			w.now = groups_deadline(w.groups[0]);
			step();
		}
	w.now = GIVE_UP;
	struct group_result r = hears(0);

	assert_int_equal(r.error, ETIMEDOUT);
	assert_int_equal(r.rank, 2);
}

/* The next message from one to another arrives. */
static void
arrives(unsigned from, unsigned to)
{
	while (!deliver(from, to))
		pull(node_of(from));
}

/* Two nodes of three members each, and their group is open. */
static void
two_houses(void)
{
	world_of(2 * CTXS);
	for (unsigned n = 0; n < w.count; n++)
		joins(n);
	settle();
	for (unsigned n = 0; n < w.count; n++)
		assert_true(w.actors[n].opened);
}

/* Messages that are on their way between nodes. */
static unsigned
messages_out(void)
{
	unsigned n = 0;

	for (unsigned from = 0; from < ALL; from++) {
		for (unsigned to = 0; to < ALL; to++)
			n += node_of(from) != node_of(to)
				? (unsigned)(w.flows[from][to].tail - w.flows[from][to].head)
				: 0;
	}
	return n;
}

/* However many members a node has, one message says that they enter, and one that it has ended. */
static void
group__a_house_enters_by_one_message(void **state)
{
	unsigned told = 0;

	(void)state;
	two_houses();
	for (unsigned n = CTXS; n < 2 * CTXS; n++) {
		assert_int_equal(messages_out(), 0);
		enters(n);
		pull(1);
	}
	assert_int_equal(messages_out(), 1);
	for (unsigned n = 0; n < CTXS; n++)
		enters(n);
	for (unsigned steps = 0; !w.actors[2 * CTXS - 1].passed; steps++) {
		assert_true(steps < 10000);
		pull(0);
		for (unsigned at = 0; at < ALL * ALL; at++) {
			const bool ends = at / ALL < CTXS && at % ALL >= CTXS;

			told += deliver(at / ALL, at % ALL) && ends;
		}
		for (unsigned n = 0; n < w.count; n++)
			hear(n);
	}
	assert_int_equal(told, 1);
	settle();
	for (unsigned n = 0; n < w.count; n++)
		assert_int_equal(w.actors[n].passed, 1);
	all_go();
}

/* One that is stopped when it was to say that all of its house enter: another one does. So does one
 * that is not stopped any more, if all were. */
static void
group__a_stopped_speaker_holds_nobody_up(void **state)
{
	(void)state;
	for (unsigned stopped = 1; stopped <= CTXS; stopped++) {
		two_houses();
		for (unsigned n = CTXS; n < 2 * CTXS; n++)
			enters(n);
		for (unsigned n = CTXS; n < CTXS + stopped; n++)
			stops(n);
		for (unsigned n = 0; n < CTXS; n++)
			enters(n);
		settle();
		assert_int_equal(w.actors[0].passed, stopped < CTXS);
		if (stopped == CTXS) {
			stops(2 * CTXS - 1);
			settle();
		}
		for (unsigned n = 0; n < w.count; n++)
			assert_int_equal(w.actors[n].passed, 1);
		for (unsigned n = CTXS; n < 2 * CTXS; n++)
			goes_on(n);
		all_go();
	}
}

/* A barrier ends, because a member has gone, before it was said of some that they enter it: what
 * was to be said is not said of the next one (history 2486 of those with many deaths). */
static void
group__a_company_enters_no_later_barrier(void **state)
{
	(void)state;
	two_houses();
	for (unsigned n = CTXS; n < 2 * CTXS; n++) /* whose node sends nothing yet */
		enters(n);
	for (unsigned n = 0; n < CTXS - 1; n++)
		enters(n);
	dies(CTXS - 1);
	for (unsigned steps = 0; !w.actors[CTXS].passed; steps++) {
		assert_true(steps < 10000);
		pull(0);
		for (unsigned from = 0; from < CTXS; from++) {
			for (unsigned to = 0; to <= CTXS; to++)
				deliver(from, to);
		}
		hear(CTXS);
	}
	enters(CTXS); /* the others of its house have not heard yet that they may */
	for (unsigned i = 0; i < 100; i++)
		pull(1);
	assert_int_equal(w.flows[CTXS][0].head, w.flows[CTXS][0].tail);
	all_ends();
	all_go();
}

/* The next barrier ends, because a member has gone, while the end of the last one is on its way to
 * a speaker: its company hears of them in this order. */
static void
group__a_company_hears_of_one_after_the_other(void **state)
{
	(void)state;
	two_houses();
	for (unsigned n = 0; n < w.count; n++)
		enters(n);
	arrives(CTXS, 0);
	arrives(0, 0);
	for (unsigned n = 0; n < CTXS; n++) {
		hear(n);
		assert_int_equal(w.actors[n].passed, 1);
		enters(n);
	}
	while (w.flows[0][CTXS].head == w.flows[0][CTXS].tail)
		pull(0);
	arrives(0, 0);
	dies(CTXS - 1);
	for (unsigned i = 0; i < 100; i++) {
		pull(0);
		for (unsigned from = 0; from < CTXS; from++) {
			for (unsigned to = 0; to < 2 * CTXS; to++) {
				if (to != CTXS) /* its messages take longer */
					deliver(from, to);
			}
		}
		for (unsigned n = 0; n < 2 * CTXS; n++)
			hear(n);
	}
	assert_int_equal(w.actors[CTXS + 1].passed, 0);
	all_ends();
	assert_int_equal(w.actors[CTXS + 1].passed, 2);
	all_go();
}

/* One that was to say that all of its house enter is a member no more, and the others have heard of
 * that before it has: they enter without it. */
static void
group__a_speaker_that_is_expelled_holds_nobody_up(void **state)
{
	(void)state;
	two_houses();
	w.deaths = 1;
	for (unsigned n = CTXS; n < 2 * CTXS; n++)
		enters(n);
	w.actors[CTXS].expelled = true;
	group_unreachable(w.groups[0], 0, (uint32_t)w.actors[0].place, CTXS);
	for (unsigned i = 0; i < 100; i++) /* the other node sends nothing yet */
		pull(0);
	for (unsigned n = CTXS + 1; n < 2 * CTXS; n++)
		while (deliver(0, n))
			;
	while (deliver(0, CTXS))
		;
	for (unsigned n = 0; n < CTXS; n++)
		enters(n);
	settle();
	for (unsigned n = 0; n < w.count; n++)
		assert_int_equal(w.actors[n].passed, 1);
	assert_true(w.actors[CTXS].ended);
	closes(CTXS);
	all_go();
}

/* Check that a member that gives up while the key is on its way to it is a member for the others
 * until they know, and only then is told that it is closed (history 1787 of those with many
 * deaths). */
static void
group__is_not_closed_before_all_know(void **state)
{
	(void)state;
	world_of(3);
	for (unsigned n = 0; n < 3; n++)
		joins(n);
	for (unsigned n = 0; n < 3; n++)
		arrives(n, 0);
	while (w.flows[0][2].head == w.flows[0][2].tail)
		pull(0);
	closes(2);
	arrives(0, 2);
	arrives(0, 1);
	arrives(0, 1);
	hear(0);
	hear(1);
	assert_true(w.actors[1].opened);
	arrives(2, 0);
	hear(2); /* checks whom others take for a member if it is told that it is closed */
	settle();
	assert_int_equal(w.actors[2].life, AWAY);
	assert_false(group_has_member(w.groups[0], 1, (uint32_t)w.actors[1].place, 2));
	all_go();
}

/* Check what happens when a member dies that is to hand a lock on, and has come to wait for it
 * again: the next one gets it from the manager, since it does not take what the dead one has sent
 * (history 920 of those with deaths). */
static void
group__the_giver_waits_again(void **state)
{
	(void)state;
	world_of(3);
	for (unsigned n = 0; n < 3; n++)
		joins(n);
	settle();
	for (unsigned n = 1; n < 3; n++) {
		assert_int_equal(
			group_lock(w.groups[0], (uint16_t)n, (uint32_t)w.actors[n].place, 0, false),
			0);
		w.actors[n].asks[0] = true;
		arrives(n, 0);
		if (n == 1)
			settle();
	}
	assert_true(w.actors[1].holds[0]);
	/* who comes next is on its way to the one that gives the lock back */
	while (w.flows[0][1].head == w.flows[0][1].tail)
		pull(0);
	assert_int_equal(group_unlock(w.groups[0], 1, (uint32_t)w.actors[1].place, 0), 0);
	w.actors[1].holds[0] = false;
	arrives(1, 0);
	arrives(0, 1);
	while (w.flows[1][2].head == w.flows[1][2].tail)
		pull(0); /* the lock, to the next one */
	assert_int_equal(group_lock(w.groups[0], 1, (uint32_t)w.actors[1].place, 0, false), 0);
	w.actors[1].asks[0] = true;
	arrives(1, 0);
	dies(1);
	arrives(1, 0);
	arrives(0, 2);
	settle();
	assert_true(w.actors[2].holds[0]);
}

static void
group__refuses_a_wrong_list(void **state)
{
	const struct group_addr own = addr_of(0), twice[] = {own, own}, other = addr_of(1);
	struct group_params p = {.id = ID, .rank = 0, .count = 2, .random = 1, .give_up = 100};

	(void)state;
	world_of(2);
	assert_int_equal(group_open(w.groups[0], 0, &p), 0);
	assert_int_equal(group_open(w.groups[0], 0, &p), -EEXIST);
	assert_int_equal(group_list(w.groups[0], 0, 0, &own, twice, 2, 0), -EINVAL);
	assert_int_equal(group_close(w.groups[0], 0, 0), 0);
	p.id++;
	assert_int_equal(group_open(w.groups[0], 0, &p), 1);
	assert_int_equal(group_list(w.groups[0], 0, 1, &own, &other, 1, 0), -EINVAL);
	assert_int_equal(group_list(w.groups[0], 0, 1, &own, &own, 1, 0), 0);
	assert_int_equal(group_barrier(w.groups[0], 0, 1), -EINVAL);
	p.count = ALL + 1;
	p.id++;
	assert_int_equal(group_open(w.groups[0], 0, &p), -EINVAL);
	p.count = 0;
	assert_int_equal(group_open(w.groups[0], 0, &p), -EINVAL);
	p = (struct group_params){.id = ID + 3, .rank = 0, .count = 1};
	assert_int_equal(group_open(w.groups[0], 0, &p), -EINVAL); /* rank 0 has no key */
	for (unsigned i = 2; i < 4; i++) {
		p = (struct group_params){.id = ID + 2 + i, .rank = 1, .count = 2};
		assert_int_equal(group_open(w.groups[0], 0, &p), (int)i);
	}
	p.id++;
	assert_int_equal(group_open(w.groups[0], 0, &p), -ENOSPC);
}

/* Check that what strangers and members without the key send changes nothing, and is counted. */
static void
group__refuses_strangers(void **state)
{
	struct wire_group h = {.op = WIRE_G_GRANT, .rank = wire_be16(0), .group = wire_be32(ID)};
	uint64_t refused;

	(void)state;
	world_of(3);
	for (unsigned n = 0; n < 3; n++)
		joins(n);
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(hears(n).error, 0);
		assert_int_equal(
			group_key(w.groups[node_of(n)], ctx_of(n), (uint32_t)w.actors[n].place),
			12345);
	}
	assert_int_equal(group_lock(w.groups[0], 0, (uint32_t)w.actors[0].place, 1, false), 0);
	assert_int_equal(hears(0).error, 0);
	assert_int_equal(group_lock(w.groups[0], 1, (uint32_t)w.actors[1].place, 1, false), 0);
	pull(0);
	h.number = wire_be32(1);
	h.ticket = wire_be32(1);
	refused = w.counters[0][GROUP_REFUSED];
	/* without the key, of somebody else's rank, of a rank that is none, of another group */
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h));
	h.key = wire_be64(12345);
	groups_message(w.groups[0], 1, addr_of(5), 0, &h, sizeof(h));
	h.rank = wire_be16(77);
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h));
	h.rank = 0;
	h.group = wire_be32(ID + 1);
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h));
	assert_int_equal(w.counters[0][GROUP_REFUSED], refused + 4);
	/* malformed, or of a lock that there is not, or what only the manager may say */
	h.group = wire_be32(ID);
	refused = w.counters[0][GROUP_BAD_MESSAGES];
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h) - 1);
	h.number = wire_be32(LOCKS);
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h));
	h.number = wire_be32(1);
	h.op = WIRE_G_NEXT;
	groups_message(w.groups[0], 0, addr_of(0), 0, &h, sizeof(h));
	h.op = WIRE_GROUP_OPS;
	groups_message(w.groups[0], 1, addr_of(0), 0, &h, sizeof(h));
	h.op = WIRE_G_DONE;
	h.rank = wire_be16(2);
	groups_message(w.groups[0], 1, addr_of(2), 0, &h, sizeof(h));
	assert_int_equal(w.counters[0][GROUP_BAD_MESSAGES], refused + 5);
	/* a member that is to grant it nothing cannot: it does not know the ticket */
	h.op = WIRE_G_GRANT;
	for (uint32_t ticket = 0; ticket < 1000; ticket++) {
		h.ticket = wire_be32(ticket);
		groups_message(w.groups[0], 1, addr_of(2), 0, &h, sizeof(h));
	}
	struct group_result r;

	assert_false(group_result(w.groups[0], 1, &r));
}

/* Frames of a multicast: of members with the group's key, from their address, for those that they
 * name. */
static void
group__multicast_refuses_strangers(void **state)
{
	struct group_cast_frame f;
	struct group_cast_place p;
	uint8_t frame[sizeof(f.head) + 1];
	uint32_t at;

	(void)state;
	world_of(3);
	for (unsigned n = 0; n < 3; n++)
		joins(n);
	settle();
	const struct group_cast c = {.len = 5, .unit = 1};
	struct groups *g = w.groups[0];
	const uint32_t place = (uint32_t)w.actors[0].place;

	assert_int_equal(group_cast_to(g, 0, place, 0, 1u << 1), 0);
	assert_int_equal(group_cast_to(g, 0, place, 1, 1), -EINVAL);
	assert_int_equal(group_cast(g, 0, place, &c), 0);
	assert_int_equal(group_cast_to(g, 0, place, 0, 1u << 2), -EINVAL);
	assert_true(groups_cast_tx(g, &f, w.now));
	memcpy(frame, f.head, f.head_len);
	/* another sender; the tag; cut short */
	for (unsigned bad = 0; bad < 3; bad++) {
		const uint64_t refused = w.counters[0][GROUP_REFUSED] +
			w.counters[0][GROUP_BAD_MESSAGES];

		frame[4] ^= bad == 1;
		at = 0;
		assert_false(groups_cast_heard(g, &at, addr_of(bad == 0 ? 2 : 0), frame,
			f.head_len + (bad != 2), &p, w.now));
		frame[4] ^= bad == 1;
		assert_true(
			w.counters[0][GROUP_REFUSED] + w.counters[0][GROUP_BAD_MESSAGES] > refused);
	}
	/* for actor 1 alone, once */
	at = 0;
	assert_true(groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
	assert_int_equal(p.ctx, 1);
	assert_int_equal(p.head_len, f.head_len);
	group_cast_placed(g, &p);
	assert_false(groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
	at = 0;
	assert_false(groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
}

/* In parts: frames say that they are runs, all from the same place on; of their bytes nothing is
 * known here. */
static void
group__multicast_of_runs(void **state)
{
	const struct group_cast c = {.at = 77, .from = 1000, .len = 5, .unit = 2, .runs = true};
	const uint32_t lens[] = {2, 2, 1};
	struct group_cast_frame f;
	struct group_cast_place p;
	uint8_t frame[sizeof(f.head) + 1];

	(void)state;
	world_of(2);
	for (unsigned n = 0; n < 2; n++)
		joins(n);
	settle();
	struct groups *g = w.groups[0];
	const uint32_t place = (uint32_t)w.actors[0].place;

	assert_int_equal(group_cast_to(g, 0, place, 0, 1u << 1), 0);
	assert_int_equal(group_cast(g, 0, place, &c), 0);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t at = 0;

		assert_true(groups_cast_tx(g, &f, w.now));
		assert_int_equal(f.from, 1000 + 2 * i);
		assert_int_equal(f.len, lens[i]);
		memcpy(frame, f.head, f.head_len);
		assert_true(
			groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
		assert_true(p.runs);
		assert_int_equal(p.at, 77);
	}
	assert_false(groups_cast_tx(g, &f, w.now));
	/* a flag that there is not */
	uint32_t at = 0;

	frame[22] = 2;
	const uint64_t bad = w.counters[0][GROUP_BAD_MESSAGES];

	assert_false(groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
	assert_int_equal(w.counters[0][GROUP_BAD_MESSAGES], bad + 1);
}

/* Check that what a member says of a chunk far ahead takes nobody's answer away: ROUND is answered
 * for any. */
static void
group__multicast_rounds_are_answered(void **state)
{
	struct group_cast_frame f;
	struct group_cast_place p;
	struct group_frame *m;
	uint8_t frame[sizeof(f.head) + 1];
	struct wire_multi h;
	uint32_t at = 0;

	(void)state;
	world_of(2);
	for (unsigned n = 0; n < 2; n++)
		joins(n);
	settle();
	struct groups *g = w.groups[0];
	const struct group_cast c = {.len = 5, .unit = 1};
	const uint32_t place = (uint32_t)w.actors[0].place;

	assert_int_equal(group_cast_to(g, 0, place, 0, 1u << 1), 0);
	assert_int_equal(group_cast(g, 0, place, &c), 0);
	assert_true(groups_cast_tx(g, &f, w.now));
	memcpy(frame, f.head, f.head_len);
	memcpy(&h, frame, sizeof(h));
	h.number = wire_be32(1000);
	memcpy(frame, &h, sizeof(h));
	h.tag = wire_be32(wire_multi_tag(12345, frame, wire_be16(h.words)));
	memcpy(frame, &h, sizeof(h));
	assert_true(groups_cast_heard(g, &at, addr_of(0), frame, f.head_len + 1, &p, w.now));
	const struct wire_group round = {
		.op = WIRE_G_ROUND,
		.group = wire_be32(ID),
		.key = wire_be64(12345),
		.number = wire_be32(1),
		.b = wire_be32(5),
	};
	groups_message(g, 1, addr_of(0), 0, &round, sizeof(round));
	while ((m = groups_tx(g)) != NULL && m->message.op != WIRE_G_GOT)
		groups_sent(g, m, 0);
	assert_non_null(m);
	assert_int_equal(wire_be32(m->message.number), 1);
	assert_int_equal(wire_group_wide(&m->message), 31);
	groups_sent(g, m, 0);
}

/* Member `from` says to rank 0 that it cannot reach that one. */
static void
accuses(unsigned from, uint16_t other)
{
	const struct wire_group h = {
		.op = WIRE_G_SUSPECT,
		.rank = wire_be16((uint16_t)from),
		.group = wire_be32(ID),
		.key = wire_be64(12345),
		.other = wire_be16(other),
	};

	groups_message(w.groups[0], 0, addr_of(from), 0, &h, sizeof(h));
}

/* Nobody expels a member that lives by what it says of it. */
static void
group__who_accuses_one_that_answers_goes(void **state)
{
	(void)state;
	world_of(CTXS + 2);
	for (unsigned n = 0; n < w.count; n++)
		joins(n);
	settle();
	const uint64_t bad = w.counters[0][GROUP_BAD_MESSAGES];

	accuses(1, 0); /* rank 0 itself, oneself, nobody */
	accuses(1, 1);
	accuses(1, 5);
	assert_int_equal(w.counters[0][GROUP_BAD_MESSAGES], bad + 3);
	w.deaths = 1;
	accuses(1, CTXS);
	w.actors[1].expelled = true;
	settle();
	assert_true(w.actors[1].ended);
	assert_true(group_has_member(w.groups[0], 0, (uint32_t)w.actors[0].place, CTXS));
	assert_false(group_has_member(w.groups[0], 0, (uint32_t)w.actors[0].place, 1));
	closes(1);
	all_go();
}

static void
group__who_does_not_answer_goes(void **state)
{
	const struct groups *g;

	(void)state;
	world_of(CTXS + 1);
	for (unsigned n = 0; n < w.count; n++)
		joins(n);
	settle();
	g = w.groups[0];
	const uint32_t place = (uint32_t)w.actors[0].place;

	w.deaths = 1;
	accuses(1, CTXS);
	for (unsigned i = 0; i < 100; i++)
		pull(0);
	groups_tick(w.groups[0], w.now);
	assert_true(groups_deadline(g) > w.now);
	assert_true(group_has_member(g, 0, place, CTXS));
	w.actors[CTXS].expelled = true;
	w.now = groups_deadline(g);
	groups_tick(w.groups[0], w.now);
	assert_false(group_has_member(g, 0, place, CTXS));
	assert_true(group_has_member(g, 0, place, 1));
	settle();
	assert_true(w.actors[CTXS].ended);
	closes(CTXS);
	all_go();
}

/* Whoever is alone, from the start or since the others left, can leave. */
static void
group__the_last_one_leaves(void **state)
{
	(void)state;
	for (uint16_t count = 1; count <= 2; count++) {
		world_of(count);
		for (unsigned n = 0; n < count; n++)
			joins(n);
		for (unsigned n = 0; n < count; n++)
			assert_int_equal(hears(n).error, 0);
		for (unsigned n = count; n-- > 0;) {
			assert_int_equal(group_close(w.groups[node_of(n)], ctx_of(n),
						 (uint32_t)w.actors[n].place),
				0);
			assert_int_equal(hears(n).kind, GROUP_CLOSED);
		}
		assert_true(groups_is_quiet(w.groups[0]));
	}
}

/* Members have gone that were let in in another life of their node, and no others. */
static void
group__knows_lives(void **state)
{
	(void)state;
	world_of(CTXS + 1);
	for (unsigned n = 0; n <= CTXS; n++)
		joins(n);
	for (unsigned n = 0; n <= CTXS; n++)
		assert_int_equal(hears(n).error, 0);
	groups_node_gone(w.groups[0], 1, LIFE);
	groups_node_gone(w.groups[1], 0, LIFE + 1); /* of rank 0's no life is known */
	assert_true(group_has_member(w.groups[0], 0, (uint32_t)w.actors[0].place, CTXS));
	assert_true(group_has_member(w.groups[1], 0, (uint32_t)w.actors[CTXS].place, 0));
	groups_node_gone(w.groups[0], 1, LIFE + 1);
	assert_false(group_has_member(w.groups[0], 0, (uint32_t)w.actors[0].place, CTXS));
	assert_int_equal(hears(1).kind, GROUP_GONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(group__the_giver_waits_again),
		cmocka_unit_test(group__multicast_refuses_strangers),
		cmocka_unit_test(group__multicast_of_runs),
		cmocka_unit_test(group__multicast_rounds_are_answered),
		cmocka_unit_test(group__who_accuses_one_that_answers_goes),
		cmocka_unit_test(group__who_does_not_answer_goes),
		cmocka_unit_test(group__the_last_one_leaves),
		cmocka_unit_test(group__knows_lives),
		cmocka_unit_test(group__names_who_has_another_list),
		cmocka_unit_test(group__names_who_does_not_come),
		cmocka_unit_test(group__is_not_closed_before_all_know),
		cmocka_unit_test(group__refuses_a_wrong_list),
		cmocka_unit_test(group__refuses_strangers),
		cmocka_unit_test(group__a_house_enters_by_one_message),
		cmocka_unit_test(group__a_stopped_speaker_holds_nobody_up),
		cmocka_unit_test(group__a_company_enters_no_later_barrier),
		cmocka_unit_test(group__a_company_hears_of_one_after_the_other),
		cmocka_unit_test(group__a_speaker_that_is_expelled_holds_nobody_up),
		cmocka_unit_test(group__histories),
		cmocka_unit_test(group__histories_with_deaths),
		cmocka_unit_test(group__histories_with_many_deaths),
		cmocka_unit_test(group__histories_with_stops),
	};
	int result = cmocka_run_group_tests(tests, NULL, NULL);

	for (unsigned n = 0; n < NODES; n++)
		free(w.memory[n]);
	return result;
}
