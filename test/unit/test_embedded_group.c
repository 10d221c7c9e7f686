/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups by the public verbs, between embedded nodes whose link loses frames: opening, barriers,
 * locks, areas, members that leave and a node that dies; and submissions that the library would not
 * make.
 */
#include <errno.h>
#include <string.h>

#include "embedded_members.h"

static void
group__barriers(void **state)
{
	(void)state;
	all_open(ALL);
	for (unsigned b = 1; b <= 200; b++) {
		for (unsigned n = 0; n < ALL; n++) {
			enters(n);
			poll_all();
			for (unsigned i = 0; i <= n && n < ALL - 1; i++)
				assert_int_equal(ended[i], 1);
		}
		for (unsigned n = 0; n < ALL; n++) {
			UNTIL(ended[n] != 1);
			assert_int_equal(said[n].tag, b);
			assert_int_equal(ended[n], 0);
		}
	}
}

/* All want the same three locks again and again. */
static void
group__locks(void **state)
{
	unsigned had[ALL] = {0}, all = 0, holder[3] = {ALL, ALL, ALL};
	bool asked[ALL] = {false};
	time_t end = time(NULL) + PATIENCE_S;

	(void)state;
	all_open(ALL);
	for (unsigned step = 0; all < 600; step++) {
		unsigned n = step % ALL, l = step / ALL % 3;

		assert_true(time(NULL) < end);
		if (holder[l] == n) {
			assert_int_equal(pmx_group_unlock(group[n], l), 0);
			holder[l] = ALL;
		} else if (!asked[n]) {
			asks(n, l, 0);
			asked[n] = true;
		}
		poll_all();
		for (unsigned i = 0; i < ALL; i++) {
			if (!asked[i] || ended[i] == 1)
				continue;
			assert_int_equal(ended[i], 0);
			assert_int_equal(holder[said[i].tag], ALL);
			asked[i] = false;
			holder[said[i].tag] = i;
			had[i]++;
			all++;
		}
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_true(had[n] > 0);
}

static void
group__tries(void **state)
{
	(void)state;
	all_open(3);
	asks(1, 5, 0);
	UNTIL(ended[1] == 0);
	asks(2, 5, PMX_TRY);
	UNTIL(ended[2] != 1);
	assert_int_equal(ended[2], -EBUSY);
	assert_int_equal(pmx_group_unlock(group[1], 5), 0);
	do {
		asks(2, 5, PMX_TRY);
		UNTIL(ended[2] != 1);
	} while (ended[2] == -EBUSY);
	assert_int_equal(ended[2], 0);
}

/* Check that what is wrong is refused by the library, with a reason, and that nothing happens. */
static void
group__refuses_what_is_wrong(void **state)
{
	struct pmx_addr twice[] = {member(0), member(1), member(0)}, other[] = {member(1)};
	struct pmx_group_params p = {.size = sizeof(p), .id = 1, .count = 3, .members = twice};
	struct pmx_group *g;
	pmx_request r;

	(void)state;
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p = (struct pmx_group_params){.size = sizeof(p), .id = 1, .count = 1, .members = other};
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p.count = 0;
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p.count = 7; /* limits.group_members = 6 */
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	/* without a number */
	p = (struct pmx_group_params){.size = sizeof(p), .count = 2, .members = twice};
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	all_open(3);
	assert_int_equal(pmx_group_barrier(group[0], NULL), -EINVAL);
	assert_int_equal(pmx_group_lock(group[0], 8, 0, &r), -EINVAL);
	assert_int_equal(pmx_group_lock(group[0], 0, 8, &r), -EINVAL);
	assert_int_equal(pmx_group_unlock(group[0], 8), -EINVAL);
	assert_int_equal(pmx_group_unlock(group[0], 0), -EPERM);
	asks(0, 0, 0);
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &r), -EDEADLK);
	UNTIL(ended[0] == 0);
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &r), -EDEADLK);
	enters(0);
	assert_int_equal(pmx_group_barrier(group[0], &r), -EBUSY);
	assert_int_equal(pmx_group_member(group[0], 3, NULL), -EINVAL);
	assert_int_equal(pmx_group_member(group[0], 2, &twice[0]), 0);
	assert_true(is_member(twice[0], 2));
	/* the same number again: the engine knows it; a third group: limits.groups = 2 */
	pmx_request mine = request[0];
	struct pmx_group *first = group[0];

	assert_int_equal(opens(0, 3, 0), 0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EEXIST);
	p = (struct pmx_group_params){.size = sizeof(p), .id = 2, .count = 3, .members = twice};
	twice[0] = member(0), twice[2] = member(2);
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -ENOSPC);
	closes(0);
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), 0);
	pmx_group_close(g);
	assert_int_equal(pmx_test(ctx[0], &r, NULL), -ECANCELED);
	group[0] = first;
	request[0] = mine;
	enters(1);
	enters(2);
	UNTIL(ended[0] == 0 && ended[1] == 0 && ended[2] == 0);
}

/* Submissions that the library never makes: the engine counts them, and goes on. */
static void
group__the_engine_refuses(void **state)
{
	static const struct submission bad[] = {
		{.op = SUBMIT_GROUP, .count = GROUP_OPEN, .group = {.handle = 0, .members = 3}},
		{.op = SUBMIT_GROUP, .count = GROUP_OPEN, .group = {.handle = 99, .members = 3}},
		{.op = SUBMIT_GROUP, .count = GROUP_LIST, .group = {.handle = 0, .members = 60}},
		{.op = SUBMIT_GROUP, .count = GROUP_LIST, .group = {.handle = 0, .members = 1}},
		{.op = SUBMIT_GROUP, .count = GROUP_LOCK, .group = {.handle = 0, .number = 8}},
		{.op = SUBMIT_GROUP, .count = GROUP_UNLOCK, .group = {.handle = 0, .number = 0}},
		{.op = SUBMIT_GROUP, .count = GROUP_CLOSE, .group = {.handle = 1}},
		{.op = SUBMIT_GROUP, .count = GROUP_ENTER, .group = {.handle = 65535}},
		{.op = SUBMIT_GROUP, .count = 77, .group = {.handle = 0}},
	};

	(void)state;
	all_open(3);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct slot_end *sub = &ctx[2]->sub;

		assert_true(slot_room(sub, 1));
		memcpy(slot_at(sub, sub->pos)->body, &bad[i], sizeof(bad[i]));
		slot_publish(sub, sub->pos++);
		poll_some();
	}
	assert_int_equal(events[0] + events[1] + events[2], 0);
	for (unsigned n = 0; n < 3; n++)
		enters(n);
	UNTIL(ended[0] == 0 && ended[1] == 0 && ended[2] == 0);
}

static void
group__does_not_open_without_all(void **state)
{
	const unsigned there[] = {0, 1, 3};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(opens(there[i], 4, 2000000), 0);
	for (unsigned i = 0; i < 3; i++) {
		unsigned n = there[i];

		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], -ETIMEDOUT);
		assert_int_equal(pmx_group_barrier(group[n], &request[n]), -ECONNRESET);
		closes(n);
	}
	assert_int_equal(said[0].label, 2);
	assert_true(is_member(said[0].source, 2));
}

/* One that leaves hands its lock on, and ends the barrier that the others are in. */
static void
group__a_member_ends(void **state)
{
	(void)state;
	all_open(ALL);
	asks(4, 1, 0);
	UNTIL(ended[4] == 0);
	asks(5, 1, 0);
	for (unsigned n = 0; n < 4; n++)
		enters(n);
	poll_some();
	assert_int_equal(ended[5], 1);
	/* as when its context ends; pmx_context_close() would wait here for a node that this thread
	 * polls */
	closes(4);
	UNTIL(ended[5] != 1);
	assert_int_equal(ended[5], -EOWNERDEAD);
	for (unsigned n = 0; n < 4; n++) {
		UNTIL(ended[n] != 1 && events[n] == 1);
		assert_int_equal(ended[n], -ECONNRESET);
		assert_int_equal(said[n].label, 4);
		assert_int_equal(event[n].kind, PMX_EVENT_GONE);
		assert_int_equal(event[n].len, 4);
		assert_int_equal(event[n].immediate, NUMBER);
		assert_int_equal(event[n].error, 0);
		assert_int_equal(pmx_group_member(group[n], 4, NULL), -ENOTCONN);
	}
	/* those that are left go on */
	assert_int_equal(pmx_group_unlock(group[5], 1), 0);
	enters(5);
	UNTIL(ended[5] != 1);
	assert_int_equal(ended[5], -ECONNRESET);
	for (unsigned n = 0; n < ALL; n++) {
		if (n != 4)
			enters(n);
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (n != 4)
			UNTIL(ended[n] == 0);
	}
	/* its lock is nobody's */
	asks(0, 4, 0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EHOSTDOWN);
	assert_int_equal(said[0].label, 4);
}

/* A node that is not polled any more is dead for the others, in the time that keepalive takes. */
static void
group__a_node_dies(void **state)
{
	struct pmx_node *dead = nodes[1];

	(void)state;
	all_open(ALL);
	asks(5, 1, 0);
	UNTIL(ended[5] == 0);
	asks(0, 1, 0);
	enters(1);
	poll_some();
	nodes[1] = NULL;
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EOWNERDEAD);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -ECONNRESET);
	UNTIL(events[0] == CTXS);
	assert_true(event[0].error < 0);
	for (unsigned n = 0; n < CTXS; n++)
		closes(n);
	/* when all have left, another one can be opened with that number */
	all_open(CTXS);
	nodes[1] = dead;
}

/* Areas of a group are for its members, others for who owns them, unless they are for anyone. */
static void
group__areas(void **state)
{
	const uint64_t key = (uint64_t)NUMBER << 32 | 5;
	struct pmx_remote unused;
	static uint64_t bytes[3];

	(void)state;
	all_open(4); /* 4 and 5 are strangers, on the owner's node */
	assert_int_equal(pmx_area_register(ctx[3], 5, &bytes[0], 8, PMX_REMOTE_WRITE, &unused), 0);
	assert_int_equal(
		pmx_group_area_register(group[3], 5, &bytes[1], 8, PMX_REMOTE_WRITE, &unused), 0);
	assert_int_equal(
		pmx_area_register(ctx[3], 6, &bytes[2], 8, PMX_ANYONE | PMX_REMOTE_WRITE, &unused),
		0);
	assert_int_equal(pushes(0, 3, 5), -EACCES);
	assert_int_equal(pushes(4, 3, 5), -EACCES);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(pushes(3, 3, 5), 1);
	assert_true(bytes[0] != 0);
	assert_int_equal(pushes(4, 3, key), -ENOTCONN);
	assert_int_equal(pushes(5, 3, key), -ENOTCONN);
	assert_int_equal(pushes(0, 3, key + (1ull << 32)), -ENOKEY);
	assert_int_equal(bytes[1], 0);
	assert_int_equal(pushes(0, 3, key), 1);
	assert_int_equal(pushes(2, 3, key), 1);
	assert_int_equal(pushes(3, 3, key), 1);
	assert_true(bytes[1] != 0);
	assert_int_equal(pushes(5, 3, 6), 1);
	assert_int_equal(pushes(0, 3, 6), 1);
	/* who left is a stranger */
	closes(2);
	UNTIL(events[3] == 1);
	assert_int_equal(pushes(2, 3, key), -ENOTCONN);
	assert_int_equal(pushes(1, 3, key), 1);
	closes(0);
	UNTIL(events[3] == 2);
	assert_int_equal(pushes(1, 3, key), -ENOTCONN);
	assert_int_equal(
		pmx_group_area_register(group[3], 9, &bytes[1], 8, PMX_REMOTE_WRITE, &unused),
		-ECONNRESET);
	assert_int_equal(pmx_register(ctx[3], bytes, 8, PMX_ANYONE | PMX_REMOTE_WRITE, &unused),
		-EINVAL);
	assert_int_equal(pmx_area_register(ctx[3], 9, bytes, 8, PMX_ANYONE, &unused), -EINVAL);
}

/* The group ends for all when rank 0 does. */
static void
group__rank_0_ends(void **state)
{
	(void)state;
	all_open(4);
	asks(2, 3, 0);
	UNTIL(ended[2] == 0);
	enters(3);
	closes(0);
	for (unsigned n = 1; n < 4; n++) {
		UNTIL(events[n] == 1);
		assert_int_equal(event[n].kind, PMX_EVENT_GROUP);
		assert_int_equal(event[n].len, 0);
		assert_int_equal(event[n].error, -ECONNRESET);
	}
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], -ECONNRESET);
	assert_int_equal(said[3].label, 0);
	assert_int_equal(pmx_group_unlock(group[2], 3), -EHOSTDOWN);
	assert_int_equal(pmx_group_unlock(group[2], 3), -EPERM);
	for (unsigned n = 1; n < 4; n++)
		closes(n);
	/* and another one can be opened */
	all_open(4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(group__barriers, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__locks, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__tries, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__refuses_what_is_wrong, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__the_engine_refuses, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__does_not_open_without_all, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__a_member_ends, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__a_node_dies, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__areas, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__rank_0_ends, members_start, members_stop),
	};

	if (members_eal("test_embedded_group") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
