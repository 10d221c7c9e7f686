/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives of groups (lib/coll/live.h): random histories of a group whose members begin
 * collectives when they like, with real bytes, over a network that keeps the order of each pair and
 * no other; with plans that differ, lists that cannot be run, bytes that cannot be accessed,
 * members that die or leave, and state that moves to other memory. Single cases:
 * test_colls_cases.c.
 *
 * COLLS_HISTORIES=N runs as many (the default is some seconds), COLLS_SEED=S that one alone;
 * COLLS_SHOW=1 prints each seed before its history.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "colls_world.h"

/* ------------------------------------------------------------------ plans */

static bool
fits(const struct coll_plan *p)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		if (p->lists[r].count > STEPS || p->lists[r].piece > MESSAGE - HEAD_BYTES)
			return false;
	}
	return true;
}

static uint64_t
random_bytes(void)
{
	switch (random_below(8)) {
	case 0:
		return 0;
	case 1:
		return 200 + random_below(50);
	case 2:
		return random_below(3000);
	default:
		return random_below(120);
	}
}

static struct coll_plan *
random_plan(void)
{
	static const uint32_t pieces[] = {64, 64, 64, 100, 224, 225, 1024, 1025};
	uint16_t nodes[RANKS];
	struct coll_plan *p;

	for (uint32_t r = 0; r < w.ranks; r++)
		nodes[r] = (uint16_t)random_below(w.topology->host_count);
	for (;;) {
		const enum coll_kind kind = random_below(COLL_KINDS);
		const enum coll_generator g = random_below(COLL_GENERATORS);
		const struct coll_task task = {
			.kind = kind,
			.topology = w.topology,
			.nodes = nodes,
			.ranks = w.ranks,
			.root = random_below(w.ranks),
			.bytes = kind == COLL_BARRIER ? 0 : random_bytes(),
			.params =
				{
					.frame_payload = 1450,
					.frame_overhead = 88,
					.frame_least = 84,
					.message_head = HEAD_BYTES,
					.piece = pieces[random_below(8)],
					.eager = WIRE_COLL_EAGER,
				},
			.only = COLL_NONE,
		};

		if ((random_below(16) == 0 ? coll_plan_best(&task, &p, NULL)
					   : coll_plan_make(g, &task, &p)) != 0)
			continue;
		if (fits(p))
			break;
		coll_plan_free(p);
	}
	if (random_below(2) == 0)
		without_times(p, 4ull * p->lists[0].piece, 2 * p->lists[0].piece);
	return p;
}

/* ------------------------------------------------------------------ moves */

/* All that the lane has goes to other memory, as it does when another process takes over. */
static void
move(struct lane *l)
{
	const struct colls_config config = lane_config(l);
	const size_t len = colls_memsize(&config);
	uint8_t *image = malloc(len);
	struct colls_span span;
	size_t at = 0;
	void *memory;

	for (uint32_t n = 0; colls_span(l->c, &n, &span); at += span.len) {
		HOLDS(at + span.len <= len);
		memcpy(image + at, span.bytes, span.len);
	}
	const size_t end = at;
	struct colls *c = lane_colls(l, &memory);
	const bool all = random_below(2) == 0;

	at = 0;
	for (uint32_t n = 0; colls_span(c, &n, &span); at += span.len) {
		HOLDS(at + span.len <= end);
		memcpy(span.bytes, image + at, span.len);
		colls_adopt(c, &config);
	}
	HOLDS(at == end);
	memset(l->memory, 0x5A, len);
	free(l->memory);
	free(image);
	l->memory = memory;
	l->c = c;
	for (uint32_t i = 0; i < LIVES; i++) {
		struct job *j = &l->jobs[i];
		const size_t bytes = j->list.count * sizeof(*j->steps);

		if (j->steps == NULL)
			continue;
		struct coll_step *steps = malloc(bytes + 1);

		memcpy(steps, j->steps, bytes);
		free(j->steps);
		j->steps = steps;
		j->list.steps = steps;
		if (colls_is_used(c, i) && (all || w.parts[j->number][j->rank].state == RUNS))
			colls_adopted(c, i, steps);
	}
}

static bool
may_move(const struct lane *l)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		if (&w.lane[m->lane] == l && colls_is_out(l->c, m->seat.place))
			return false;
	}
	return l->memory != NULL;
}

/* ------------------------------------------------------------------ histories */

static bool
act(void)
{
	struct lane *l = &w.lane[random_below(w.lanes)];

	switch (random_below(16)) {
	case 0:
	case 1:
		return world_begin_some(random_below(64) == 0);
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
		return world_deliver();
	case 7:
	case 8:
		return world_ack();
	case 9:
		if (random_below(8) == 0)
			world_time_passes(false);
		return false;
	case 10:
		return l->memory != NULL && lane_give(l, random_below(2) == 0);
	case 11:
		if (w.moves && random_below(4) == 0 && l->memory != NULL && may_move(l))
			move(l);
		return world_goes_wrong();
	default:
		return lane_run(l, 1 + random_below(20));
	}
}

/* A new world. The lanes are kept if they are the same as before: another group is at their places.
 */
static void
world_begins(uint64_t seed, bool again)
{
	static struct world fresh;
	const uint32_t ranks = w.ranks;

	if (!again) {
		w = fresh;
		w.seed = seed;
		state_of_random = seed * 7919 + 1;
		w.ranks = 1 + random_below(RANKS);
		w.lanes = random_below(2) ? w.ranks : 1 + random_below(w.ranks);
		for (uint32_t i = 0; i < w.lanes; i++)
			w.lane[i].c = lane_colls(&w.lane[i], &w.lane[i].memory);
	}
	for (uint32_t r = 0; r < w.ranks; r++) {
		struct member *m = &w.members[r];

		*m = (struct member){
			.lane = r < w.lanes ? r
				: again     ? m->lane
					    : random_below(w.lanes),
			.seat =
				{
					.place = again ? m->seat.place : (uint16_t)(r + 1),
					.ctx = (uint16_t)(20 + r),
					.rank = (uint16_t)r,
					.count = (uint16_t)w.ranks,
					.group = 77 + again,
					.key = 0x123456789ABCDEF0u + again,
				},
			.running_most = 1 + random_below(6),
			.is_slow = random_below(5) == 0,
		};
		for (uint32_t k = 0; k < w.ranks; k++)
			w.last[r][k] = &w.first[r][k];
	}
	HOLDS(!again || ranks == w.ranks);
	w.topology = random_tree(1 + random_below(8), 3);
	w.ops = random_below(20) == 0 ? 70 + random_below(OPS - 70) : 1 + random_below(16);
	for (uint32_t n = 0; n < w.ops; n++) {
		if (n > 0 && random_below(2))
			w.plan_of[n] = w.plan_of[random_below(n)];
		else
			w.plan_of[n] = w.plans[n] = random_plan();
		w.hash_of[n] = (uint32_t)w.plan_of[n]->hash;
	}
	w.local_at_once = random_below(2) == 0;
	w.moves = random_below(3) == 0;
	w.fault = random_below(2) ? NO_FAULT : random_below(FAULTS);
	w.fault_rank = w.fault == NO_FAULT ? NOBODY : random_below(w.ranks);
	w.fault_n = w.fault == NO_FAULT || w.fault == NO_ACCESS || w.fault == DEATH
		? NOBODY
		: random_below(w.ops);
	w.named = NOBODY;
	w.left_part = 0;
	w.refuses = false;
	if (w.fault == OTHER_PLAN)
		w.plans[OPS] = random_plan();
	memset(w.parts, 0, sizeof(w.parts));
}

/* The bytes that go, and what is left at the end. */
static void
group_ends(void)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		member_check_part(m);
		for (uint32_t n = 0; n < w.ops && !m->is_dead && !m->has_left; n++)
			HOLDS(w.parts[n][r].state == ENDED);
		for (uint32_t n = 0; n < w.fault_n && n < w.ops && m->has_left; n++)
			HOLDS(w.parts[n][r].state == ENDED);
	}
	if (w.fault == OTHER_HASH && w.ranks > 1)
		HOLDS(w.named != NOBODY);
	if ((w.fault == BAD_LIST || w.fault == NO_ACCESS) && w.fault_n != NOBODY)
		HOLDS(w.parts[w.fault_n][w.fault_rank].error != 0);
	for (uint32_t n = 0; n <= OPS; n++) {
		coll_plan_free(w.plans[n]);
		w.plans[n] = NULL;
	}
	for (uint32_t i = 0; i < w.lanes; i++) {
		for (uint32_t k = 0; k < LIVES; k++)
			w.lane[i].jobs[k].plan = NULL;
	}
	topology_free(w.topology);
}

static void
world_ends(void)
{
	for (uint32_t i = 0; i < w.lanes; i++) {
		struct lane *l = &w.lane[i];

		for (uint32_t k = 0; l->memory != NULL && k < LIVES; k++)
			HOLDS(!colls_is_used(l->c, k));
		if (l->memory != NULL)
			HOLDS(colls_is_quiet(l->c));
		for (uint16_t k = 0; l->memory != NULL && k < PLACES; k++)
			HOLDS(!colls_is_out(l->c, k));
		free(l->memory);
		for (uint32_t k = 0; k < LIVES; k++)
			free(l->jobs[k].steps);
	}
}

static void
history(uint64_t seed)
{
	world_begins(seed, false);
	for (unsigned again = 0;; again++) {
		for (unsigned n = 100 + random_below(4000); n > 0 && !world_has_ended(); n--)
			act();
		world_settles();
		for (uint32_t i = 0; i < w.lanes; i++) {
			if (w.lane[i].counters[COLLS_BAD_MESSAGES] != 0)
				fail_msg("seed %lu (COLLS_SEED): bad messages, fault %u",
					(unsigned long)seed, w.fault);
		}
		const bool last = again || w.fault == DEATH || random_below(2);

		group_ends();
		if (last)
			break;
		world_begins(seed, true);
	}
	world_ends();
}

static void
colls__histories(void **state)
{
	const char *asked = getenv("COLLS_HISTORIES"), *one = getenv("COLLS_SEED");
	const unsigned n = asked != NULL ? (unsigned)atoi(asked) : 1500;

	(void)state;
	if (one != NULL) {
		history(strtoull(one, NULL, 0));
		return;
	}
	for (unsigned i = 1; i <= n; i++) {
		if (getenv("COLLS_SHOW") != NULL)
			fprintf(stderr, "seed %u\n", i);
		history(i);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(colls__histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
