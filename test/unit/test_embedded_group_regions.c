/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared regions by the public verbs, between embedded nodes whose link loses frames: sharers that
 * come, update and go, the home that is told of them, what is refused; which verb takes which part
 * of an area; and waiting for all that a group was asked for.
 */
#include <errno.h>
#include <string.h>

#include "embedded_members.h"

#define REGION 3 /* its home is rank 3 */

static uint8_t twins[ALL][AREA_BYTES];
static struct pmx_remote copies[ALL];

static void
registers(unsigned n, uint64_t len)
{
	assert_int_equal(pmx_group_area_register(group[n], PMX_REGION(REGION), areas[n], len,
				 PMX_REMOTE_READ | PMX_REMOTE_WRITE, &copies[n]),
		0);
}

static void
asks_to_share(unsigned n, unsigned flags)
{
	ended[n] = 1;
	assert_int_equal(
		pmx_group_subscribe(group[n], REGION, flags, &copies[n], twins[n], &request[n]), 0);
}

static void
subscribes(unsigned n)
{
	asks_to_share(n, 0);
}

static void
shares(unsigned n)
{
	registers(n, AREA_BYTES);
	subscribes(n);
	UNTIL(ended[n] != 1);
	assert_int_equal(ended[n], 0);
}

static void
unsubscribes(unsigned n)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_unsubscribe(group[n], REGION, &request[n]), 0);
	UNTIL(ended[n] != 1);
}

static void
updates(unsigned n, uint64_t at, uint64_t len, const struct pmx_part *part)
{
	const struct pmx_update u = {.region = REGION, .at = at, .len = len, .part = part};

	ended[n] = 1;
	assert_int_equal(pmx_group_update(group[n], &u, &request[n]), 0);
}

static void
all_open_for_regions(void)
{
	memset(areas, 0, sizeof(areas));
	memset(twins, 0, sizeof(twins));
	all_open(ALL);
}

/* The home is told of who wants it to be, once until it takes the event; nobody waits for that. */
static void
rhi_sig__the_home_is_told_of_a_sharer(void **state)
{
	(void)state;
	all_open_for_regions();
	shares(3);
	for (unsigned n = 0; n < ALL; n += 5) { /* on another node, and on its own */
		registers(n, AREA_BYTES);
		asks_to_share(n, PMX_NOTIFY);
		UNTIL(ended[n] != 1 && events[3] == 1 + n / 5);
		assert_int_equal(ended[n], 0);
		assert_int_equal(event[3].kind, PMX_EVENT_SHARED);
		assert_int_equal(event[3].peer.node, member(n).node);
		assert_int_equal(event[3].peer.context, member(n).context);
		assert_int_equal(event[3].len, n);
		assert_int_equal(event[3].immediate,
			(uint64_t)pmx_group_id(group[n]) << 32 | REGION);
		unsubscribes(n);
	}
	subscribes(0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	poll_some();
	assert_int_equal(events[3], 2);
	unsubscribes(0);
	takes_none = 3;
	for (unsigned i = 0; i < 10; i++) {
		asks_to_share(i % 2 * 5, PMX_NOTIFY);
		UNTIL(ended[i % 2 * 5] != 1);
		assert_int_equal(ended[i % 2 * 5], 0);
		unsubscribes(i % 2 * 5);
	}
	takes_none = ALL;
	poll_some();
	assert_int_equal(events[3], 4);
}

/* The home's bytes are what a region begins with, whoever asks first; updates of any sharer reach
 * all others, and nobody else. */
static void
rhi_sub__copies_are_equal(void **state)
{
	static const unsigned sharers[] = {0, 3, 5};

	(void)state;
	all_open_for_regions();
	registers(0, AREA_BYTES);
	subscribes(0);
	poll_some();
	assert_int_equal(ended[0], 1); /* the home does not share it yet */
	fill(areas[3], 1);
	shares(3);
	assert_memory_equal(twins[3], areas[3], AREA_BYTES);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	assert_int_equal(said[0].tag, REGION);
	assert_memory_equal(areas[0], areas[3], AREA_BYTES);
	assert_memory_equal(twins[0], areas[3], AREA_BYTES);
	shares(5);
	for (unsigned i = 0; i < 3; i++) {
		const unsigned n = sharers[i];

		memset(areas[n] + 100 * i, 0xA0 + (int)i, 50 + 5000 * i);
		updates(n, 100 * i, 50 + 5000 * i, NULL);
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
		for (unsigned k = 0; k < 3; k++)
			assert_memory_equal(areas[sharers[k]], areas[n], AREA_BYTES);
	}
	assert_int_equal(areas[1][0] | areas[2][0] | areas[4][0], 0);
	/* who shares it no more gets nothing, and may come back */
	unsubscribes(0);
	assert_int_equal(ended[0], 0);
	areas[5][7] = 77;
	updates(5, 7, 1, NULL);
	UNTIL(ended[5] != 1);
	assert_int_equal(areas[3][7], 77);
	assert_int_not_equal(areas[0][7], 77);
	subscribes(0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	assert_memory_equal(areas[0], areas[3], AREA_BYTES);
}

/* Several members write different bytes of the same pages at once, by diffs; others come and go
 * meanwhile. In the end all copies are equal. */
static void
rhi_sub__writers_at_once(void **state)
{
	const struct pmx_part diff[ALL] = {
		{.kind = PMX_PART_DIFF, .twin = twins[0]},
		{.kind = PMX_PART_DIFF, .twin = twins[1]},
		{.kind = PMX_PART_DIFF, .twin = twins[2]},
		{.kind = PMX_PART_DIFF, .twin = twins[3]},
		{.kind = PMX_PART_DIFF, .twin = twins[4]},
		{.kind = PMX_PART_DIFF, .twin = twins[5]},
	};
	static uint8_t wanted[AREA_BYTES];
	bool comes = true;

	(void)state;
	all_open_for_regions();
	for (unsigned n = 0; n < ALL; n++) {
		registers(n, AREA_BYTES);
		subscribes(n);
	}
	for (unsigned n = 0; n < ALL; n++) {
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
	}
	for (unsigned round = 1; round <= 100; round++) {
		for (unsigned n = 0; n < 4; n++) {
			for (unsigned i = n; i < AREA_BYTES; i += 4 * (1 + round % 50))
				wanted[i] = areas[n][i] = (uint8_t)(areas[n][i] + round + n);
			updates(n, 0, AREA_BYTES, &diff[n]);
		}
		comes = !comes;
		for (unsigned n = 4; n < 6; n++) {
			if (!comes) {
				ended[n] = 1;
				assert_int_equal(
					pmx_group_unsubscribe(group[n], REGION, &request[n]), 0);
			} else {
				subscribes(n);
			}
		}
		for (unsigned n = 0; n < ALL; n++) {
			UNTIL(ended[n] != 1);
			assert_int_equal(ended[n], 0);
		}
		for (unsigned n = 0; n < (comes ? 6u : 4u); n++)
			assert_memory_equal(areas[n], wanted, AREA_BYTES);
		/* the others' bytes are no changes of one's own */
		for (unsigned n = 0; n < 4; n++)
			memcpy(twins[n], areas[n], AREA_BYTES);
	}
}

/* A sharer that goes holds nobody up; with the home the region ends, and the copies stay. */
static void
rhi_sub__sharers_end(void **state)
{
	(void)state;
	all_open_for_regions();
	fill(areas[3], 9);
	shares(3);
	for (unsigned n = 0; n < 3; n++)
		shares(n);
	closes(2);
	areas[1][0] = 200;
	updates(1, 0, 1, NULL);
	UNTIL(ended[1] != 1); /* it may have begun before this one was known to go */
	assert_int_equal(areas[0][0], 200);
	assert_int_equal(areas[3][0], 200);
	UNTIL(events[1] == 1);
	updates(1, 0, 100, NULL);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], 0);
	closes(3);
	UNTIL(events[1] == 2);
	updates(1, 0, 100, NULL);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -EHOSTDOWN);
	assert_int_equal(said[1].label, 3);
	assert_memory_equal(areas[0], areas[1], AREA_BYTES);
	registers(4, AREA_BYTES);
	subscribes(4);
	UNTIL(ended[4] != 1);
	assert_int_equal(ended[4], -EHOSTDOWN);
	unsubscribes(0);
	assert_int_equal(ended[0], 0);
	closes(0); /* ... and the group */
	UNTIL(events[1] == 3 || events[1] == 4);
	const struct pmx_update u = {.region = REGION, .len = 1};

	UNTIL(pmx_group_update(group[1], &u, &request[1]) == -ECONNRESET);
}

enum verb { PUSH, MULTICAST, UPDATE, ISEND, PULL, IRECV, VERBS };

/* Member 0 begins that with a part, and member 3 does what it needs for it. Returns how it ended,
 * or that it did not begin. */
static int
tries(enum verb verb, const struct pmx_part *part, const struct pmx_group_set *set)
{
	static uint8_t local[512], other[512];
	const struct pmx_transfer t = {
		.peer = member(3),
		.flags = PMX_AREA,
		.key = (uint64_t)NUMBER << 32 | PMX_REGION(REGION),
		.local = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_multicast m = {
		.set = set,
		.area = PMX_REGION(REGION),
		.local = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_update u = {.region = REGION, .len = sizeof(local), .part = part};
	const struct pmx_matched own = {
		.peer = member(3),
		.data = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_matched theirs = {
		.peer = member(0),
		.data = other,
		/* as long as what is received */
		.len = verb != IRECV || part == NULL    ? sizeof(other)
			: part->kind == PMX_PART_STRIDE ? part->block * part->count[0]
			: part->kind == PMX_PART_BITMAP ? 4 * part->unit
							: sizeof(other),
	};
	pmx_transfer_id id;
	int result;

	local[16]++; /* it differs from its twin */
	if (verb == PUSH || verb == PULL) {
		result = verb == PUSH ? pmx_push(ctx[0], &t, &id) : pmx_pull(ctx[0], &t, &id);
		if (result != 0)
			return result;
		UNTIL((result = pmx_transfer_done(ctx[0], id)) != 0);
		return result == 1 ? 0 : result;
	}
	result = verb == MULTICAST ? pmx_group_multicast(group[0], &m, &request[0])
		: verb == UPDATE   ? pmx_group_update(group[0], &u, &request[0])
		: verb == ISEND    ? pmx_isend(ctx[0], &own, &request[0])
				   : pmx_irecv(ctx[0], &own, &request[0]);
	if (result != 0)
		return result;
	if (verb == ISEND || verb == IRECV)
		assert_int_equal(verb == ISEND ? pmx_irecv(ctx[3], &theirs, &request[3])
					       : pmx_isend(ctx[3], &theirs, &request[3]),
			0);
	ended[0] = request[0] != 0; /* short ones may have ended at once */
	UNTIL(ended[0] != 1 && request[3] == 0);
	return ended[0];
}

/* Table 1, row by row: which verb takes which part. Subscribing has a twin as an argument, and can
 * say nothing else. */
static void
rhi_t1__which_verb_takes_which_part(void **state)
{
	static const uint64_t bits = 0x0F; /* four units */
	static uint8_t twin[512];
	static const uint32_t ranks[] = {3, 4, 5}; /* by the network */
	const struct pmx_part stride = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {30},
	};
	const struct pmx_part bitmap = {.kind = PMX_PART_BITMAP, .unit = 8, .bits = &bits},
			      diff = {.kind = PMX_PART_DIFF, .twin = twin},
			      with_twin = {.kind = PMX_PART_TWIN, .twin = twin};

	(void)state;
	all_open_for_regions();
	for (unsigned n = 3; n < ALL; n++)
		shares(n);
	shares(0);
	struct pmx_group_set *set = set_of(0, 3, ranks);

	for (enum verb v = PUSH; v < VERBS; v++) {
		const bool reads = v == PULL || v == IRECV;

		assert_int_equal(tries(v, NULL, set), 0);
		assert_int_equal(tries(v, &stride, set), 0);
		assert_int_equal(tries(v, &bitmap, set), 0);
		assert_int_equal(tries(v, &diff, set), reads ? -EOPNOTSUPP : 0);
		assert_int_equal(tries(v, &with_twin, set), reads ? 0 : -EOPNOTSUPP);
	}
	pmx_group_set_free(set);
}

static void
rhi_sub__refuses(void **state)
{
	const struct pmx_remote none = {.addr = (uintptr_t)areas[1], .len = AREA_BYTES};
	struct pmx_update u = {.region = REGION, .at = AREA_BYTES - 10, .len = 11};
	pmx_request r;

	(void)state;
	all_open_for_regions();
	shares(3);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, &copies[3], NULL, &r), -EEXIST);
	assert_int_equal(pmx_group_subscribe(group[3], 64, 0, &copies[3], NULL, &r), -EINVAL);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, NULL, NULL, &r), -EINVAL);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, &copies[3], NULL, NULL), -EINVAL);
	assert_int_equal(pmx_group_unsubscribe(group[2], REGION, &r), -EINVAL);
	assert_int_equal(pmx_group_update(group[3], &u, &r), -EINVAL);
	u.len = 1;
	assert_int_equal(pmx_group_update(group[2], &u, &r), -EINVAL);
	u.flags = PMX_EVENT;
	assert_int_equal(pmx_group_update(group[3], &u, &r), -EINVAL);
	u.flags = 0;
	assert_int_equal(pmx_group_update(group[3], &u, NULL), -EINVAL);
	/* another length, and no area at all */
	registers(2, AREA_BYTES - 1);
	subscribes(2);
	UNTIL(ended[2] != 1);
	assert_int_equal(ended[2], -EPROTO);
	ended[1] = 1;
	assert_int_equal(pmx_group_subscribe(group[1], REGION, 0, &none, NULL, &request[1]), 0);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -EFAULT);
	shares(0);
	ended[3] = 1;
	assert_int_equal(pmx_group_unsubscribe(group[3], REGION, &request[3]), 0);
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], -EBUSY);
	/* it goes on */
	areas[3][5] = 5;
	updates(3, 5, 1, NULL);
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], 0);
	assert_int_equal(areas[0][5], 5);
	unsubscribes(0);
	unsubscribes(3);
	assert_int_equal(ended[3], 0);
	/* the area is an ordinary one again */
	assert_int_equal(pmx_deregister(ctx[3], copies[3].key), 0);
}

/* Check that what a group was asked for counts like a transfer in pmx_sync_wait(). */
static void
rhi_sync__waits_for_groups(void **state)
{
	(void)state;
	all_open_for_regions();
	shares(3);
	assert_int_equal(pmx_sync_wait(ctx[3], 0), 0);
	asks(3, 0, 0);
	UNTIL(ended[3] == 0); /* rank 3 has the lock, so rank 0 waits for it */
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &request[0]), 0);
	poll_some();
	assert_int_equal(pmx_sync_wait(ctx[0], 0), -ETIMEDOUT);
	assert_int_equal(pmx_group_unlock(group[3], 0), 0);
	UNTIL(pmx_sync_wait(ctx[0], 0) == 0);
	for (unsigned n = 0; n < ALL; n++)
		enters(n);
	UNTIL(pmx_sync_wait(ctx[0], 0) == 0);
	updates(3, 0, AREA_BYTES, NULL);
	UNTIL(pmx_sync_wait(ctx[3], 0) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rhi_sub__copies_are_equal, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(rhi_sig__the_home_is_told_of_a_sharer,
			members_start, members_stop),
		cmocka_unit_test_setup_teardown(rhi_sub__writers_at_once, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(rhi_sub__sharers_end, members_start, members_stop),
		cmocka_unit_test_setup_teardown(rhi_t1__which_verb_takes_which_part, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(rhi_sub__refuses, members_start, members_stop),
		cmocka_unit_test_setup_teardown(rhi_sync__waits_for_groups, members_start,
			members_stop),
	};

	if (members_eal("test_embedded_group_regions") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
