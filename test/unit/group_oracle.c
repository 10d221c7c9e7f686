/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See group_oracle.h.
 */
#include <errno.h>
#include <string.h>

#include "group_oracle.h"

void
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

void
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

unsigned
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

void
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

void
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

void
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

/* ------------------------------------------------------------------ multicasts */

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

void
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

void
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

void
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
