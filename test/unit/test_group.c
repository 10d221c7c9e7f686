/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups as a library (lib/group), single cases between the nodes of group_world.h: who becomes a
 * member, who ceases to be one and by whose word, barriers that a node's members enter together,
 * locks, and what strangers send. Random histories are in test_group_histories.c.
 */
#include <errno.h>
#include <string.h>

#include "group_world.h"

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

/* The next message from one to another arrives. */
static void
arrives(unsigned from, unsigned to)
{
	while (!deliver(from, to))
		pull(node_of(from));
}

/* ------------------------------------------------------------------ membership */

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

/* ------------------------------------------------------------------ barriers and locks */

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

/* ------------------------------------------------------------------ what is refused */

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

/* ------------------------------------------------------------------ multicasts */

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
	};

	return cmocka_run_group_tests(tests, NULL, world_ends);
}
