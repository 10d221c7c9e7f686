/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicasts by the public verbs, between embedded nodes whose link loses frames: all bytes and
 * parts of them, several at once and in order, members that have not what was sent, and a group
 * that ends meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "embedded_members.h"

#define AREA 5

/* All are in a group, with an area each. */
static void
all_have_areas(void)
{
	struct pmx_remote unused;

	memset(areas, 0, sizeof(areas));
	all_open(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_group_area_register(group[n], AREA, areas[n], AREA_BYTES,
					 PMX_REMOTE_WRITE, &unused),
			0);
}

static void
multicasts(unsigned n, const struct pmx_multicast *m)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_multicast(group[n], m, &request[n]), 0);
	UNTIL(ended[n] != 1);
}

/* All bytes, whole frames of them and none; to oneself as well; notifications. */
static void
group__multicast(void **state)
{
	static const uint64_t lens[] = {0, 1, 1000, AREA_BYTES};
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {5, 1, 2, 3};
	uint64_t failed = UINT64_MAX;

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(2, 4, ranks);

	for (unsigned i = 0; i < 4; i++) {
		const struct pmx_multicast m = {
			.set = set,
			.flags = PMX_NOTIFY,
			.area = AREA,
			.remote = AREA_BYTES - lens[i],
			.local = local,
			.len = lens[i],
			.immediate = 100 + i,
			.failed = &failed,
		};
		fill(local, i);
		memset(events, 0, sizeof(events));
		multicasts(2, &m);
		assert_int_equal(ended[2], 0);
		assert_int_equal(failed, 0);
		for (unsigned k = 0; k < 4; k++) {
			UNTIL(events[ranks[k]] == 1);
			assert_int_equal(event[ranks[k]].kind, PMX_EVENT_PUSHED);
			assert_int_equal(event[ranks[k]].immediate, 100 + i);
			assert_memory_equal(areas[ranks[k]] + m.remote, local, lens[i]);
		}
	}
	/* those that are not in it have nothing */
	for (unsigned i = 0; i < AREA_BYTES; i++)
		assert_int_equal(areas[0][i] | areas[4][i], 0);
	pmx_group_set_free(set);
}

/* Stride, bitmap, diff: each receiver has those bytes, and no others have changed. */
static void
group__multicast_in_parts(void **state)
{
	static uint8_t local[AREA_BYTES], twin[AREA_BYTES], wanted[AREA_BYTES];
	static uint64_t bits[AREA_BYTES / 8 / 64 + 1];
	const uint32_t ranks[] = {0, 1, 2, 3, 4, 5};
	const struct pmx_part parts[] = {
		{
			.kind = PMX_PART_STRIDE,
			.dims = 1,
			.block = 10,
			.interval = {100},
			.count = {200},
		},
		{.kind = PMX_PART_BITMAP, .unit = 8, .bits = bits},
		{.kind = PMX_PART_DIFF, .twin = twin},
	};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(3, ALL, ranks);

	for (unsigned k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
			.part = &parts[k],
		};

		memset(areas, 0xEE, sizeof(areas));
		memset(wanted, 0xEE, sizeof(wanted));
		fill(local, k);
		memcpy(twin, local, sizeof(twin));
		for (unsigned i = 0; i < AREA_BYTES; i++) {
			const bool is_set = i % 1000 < 500 && i / 8 % 3 == 0;

			bits[i / 8 / 64] |= (uint64_t)is_set << i / 8 % 64;
			if (k == 2 && i % 999 < 20)
				local[i]++;
			if (k == 0               ? i % 100 < 10
					: k == 1 ? bits[i / 512] >> i / 8 % 64 & 1
						 : i % 999 < 20)
				wanted[i] = local[i];
		}
		multicasts(3, &m);
		assert_int_equal(ended[3], 0);
		for (unsigned n = 0; n < ALL; n++)
			assert_memory_equal(areas[n], wanted, AREA_BYTES);
		if (k == 2)
			assert_memory_equal(twin, local, AREA_BYTES);
	}
	pmx_group_set_free(set);
}

/* Check that what differs from one twin may go to two sets at once: neither ends the other's. */
static void
group__multicasts_of_one_twin(void **state)
{
	static uint8_t local[AREA_BYTES], twin[AREA_BYTES];
	const uint32_t ranks[2][3] = {{3, 4, 5}, {1, 2, 0}};
	const struct pmx_part part = {.kind = PMX_PART_DIFF, .twin = twin};
	struct pmx_group_set *sets[2];
	pmx_request r[2] = {0};

	(void)state;
	all_have_areas();
	for (unsigned i = 0; i < AREA_BYTES; i += 10)
		local[i] = 7;
	for (unsigned k = 0; k < 2; k++) {
		sets[k] = set_of(0, 3, ranks[k]);
		const struct pmx_multicast m = {
			.set = sets[k],
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
			.part = &part,
		};

		assert_int_equal(pmx_group_multicast(group[0], &m, &r[k]), 0);
	}
	for (unsigned k = 0; k < 2; k++) {
		UNTIL((ended[0] = pmx_test(ctx[0], &r[k], NULL)) != 0);
		assert_int_equal(ended[0], 1);
		pmx_group_set_free(sets[k]);
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_memory_equal(areas[n], local, AREA_BYTES);
	assert_memory_equal(twin, local, AREA_BYTES);
}

/* More receivers than the context may have transfers, several at once, beside own transfers. */
static void
group__multicasts_at_once(void **state)
{
	static uint8_t local[8][AREA_BYTES / 8];
	const uint32_t ranks[] = {0, 1, 2, 3, 4, 5};
	pmx_request r[9] = {0};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, ALL, ranks);

	for (unsigned i = 0; i < 9; i++) {
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.remote = i * sizeof(local[0]),
			.local = local[i % 8],
			.len = sizeof(local[0]),
		};

		memset(local[i % 8], 0x11 * (int)i + 1, sizeof(local[0]));
		assert_int_equal(pmx_group_multicast(group[0], &m, &r[i]), i < 8 ? 0 : -EAGAIN);
	}
	/* a set may be freed while it is used */
	pmx_group_set_free(set);
	assert_int_equal(pushes(0, 4, (uint64_t)NUMBER << 32 | AREA), 1);
	for (unsigned i = 0; i < 8; i++) {
		UNTIL((ended[0] = pmx_test(ctx[0], &r[i], NULL)) != 0);
		assert_int_equal(ended[0], 1);
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_memory_equal(areas[n] + 8, &local[0][8], sizeof(local) - 8);
}

/* Long ones and short ones, to all: with PMX_ORDERED each receiver is told of them in the order in
 * which they were begun, and has the bytes of those before. */
static void
group__multicasts_in_order(void **state)
{
	static uint8_t local[8][AREA_BYTES / 8];
	const uint32_t ranks[] = {1, 2, 3, 4, 5};
	unsigned told[ALL] = {0}, before[ALL];
	pmx_request r[8];

	(void)state;
	all_have_areas();
	memcpy(before, events, sizeof(before));
	struct pmx_group_set *set = set_of(0, ALL - 1, ranks);

	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 8; i++) {
			const struct pmx_multicast m = {
				.set = set,
				.flags = PMX_NOTIFY | PMX_ORDERED,
				.area = AREA,
				.remote = i * sizeof(local[0]),
				.local = local[i],
				.len = i % 2 != 0 ? 8 : sizeof(local[0]),
				.immediate = 8 * round + i,
			};

			memset(local[i], (int)(0x10 * round + i + 1), sizeof(local[0]));
			assert_int_equal(pmx_group_multicast(group[0], &m, &r[i]), 0);
		}
		for (bool all = false; !all;) {
			all = true;
			poll_all(); /* takes one event of each */
			for (unsigned n = 1; n < ALL; n++) {
				if (events[n] - before[n] != told[n]) {
					assert_int_equal(event[n].kind, PMX_EVENT_PUSHED);
					assert_int_equal(event[n].immediate, told[n]);
					const unsigned i = told[n]++ % 8;

					assert_int_equal(areas[n][i * sizeof(local[0])],
						0x10 * round + i + 1);
				}
				all &= told[n] == 8 * round + 8;
			}
			pmx_progress(ctx[0]);
		}
		for (unsigned i = 0; i < 8; i++) {
			UNTIL((ended[0] = pmx_test(ctx[0], &r[i], NULL)) != 0);
			assert_int_equal(ended[0], 1);
		}
	}
	pmx_group_set_free(set);
}

/* Check that a multicast names the member that has left, or has no such area, and that the others
 * have the bytes. */
static void
group__multicast_says_who_has_it_not(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {1, 5, 4, 2};
	uint64_t failed = 0;

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, 4, ranks);
	struct pmx_multicast m = {
		.set = set,
		.area = AREA,
		.local = local,
		.len = AREA_BYTES,
		.failed = &failed,
	};

	fill(local, 3);
	closes(4);
	multicasts(0, &m);
	assert_true(ended[0] < 0);
	assert_int_equal(failed, 4);
	assert_int_equal(said[0].label, 4);
	assert_true(is_member(said[0].source, 4));
	for (unsigned i = 0; i < 4; i++) {
		if (ranks[i] != 4)
			assert_memory_equal(areas[ranks[i]], local, AREA_BYTES);
	}
	/* known before */
	UNTIL(pmx_group_member(group[0], 4, NULL) == -ENOTCONN);
	multicasts(0, &m);
	assert_int_equal(ended[0], -ENOTCONN);
	assert_int_equal(failed, 4);
	m.area = AREA + 1;
	multicasts(0, &m);
	assert_int_equal(ended[0], -ENOKEY);
	assert_int_equal(said[0].label, 1);
	assert_int_equal(failed, 15);
	m = (struct pmx_multicast){
		.set = set,
		.area = AREA,
		.local = local,
		.remote = 1,
		.len = AREA_BYTES,
	};
	multicasts(0, &m);
	assert_int_equal(ended[0], -ERANGE);
	pmx_group_set_free(set);
}

static void
group__multicast_refuses(void **state)
{
	static uint8_t local[64], twin[64];
	const uint32_t twice[] = {1, 2, 1}, none[] = {ALL};
	const struct pmx_part part = {.kind = PMX_PART_TWIN, .twin = twin},
			      stride = {.kind = PMX_PART_STRIDE, .dims = 4};
	struct pmx_group_set *set;
	pmx_request r;

	(void)state;
	all_have_areas();
	assert_int_equal(pmx_group_set_make(group[0], twice, 3, &set), -EINVAL);
	assert_int_equal(pmx_group_set_make(group[0], none, 1, &set), -EINVAL);
	assert_int_equal(pmx_group_set_make(group[0], twice, 0, &set), -EINVAL);
	set = set_of(0, 2, twice);
	const struct pmx_multicast good = {.set = set, .area = AREA, .local = local, .len = 64};
	struct pmx_multicast m = good;

	assert_int_equal(pmx_group_multicast(group[0], &good, NULL), -EINVAL);
	m.set = NULL;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.flags = PMX_EVENT;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.local = NULL;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.part = &part;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EOPNOTSUPP);
	m = good, m.part = &stride;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	pmx_group_set_free(set);
	pmx_group_set_free(NULL);
}

/* Rank 0 goes, and the group with it, at any moment of a multicast: it ends. */
static void
group__ends_under_a_multicast(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {3, 4, 5, 2};

	(void)state;
	for (unsigned moment = 0; moment < 12; moment++) {
		all_have_areas();
		struct pmx_group_set *set = set_of(1, 4, ranks);
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
		};

		ended[1] = 1;
		assert_int_equal(pmx_group_multicast(group[1], &m, &request[1]), 0);
		for (unsigned i = 0; i < moment * moment; i++)
			poll_all();
		closes(0);
		UNTIL(ended[1] != 1);
		pmx_group_set_free(set);
		assert_int_equal(members_stop(NULL), 0);
		assert_int_equal(members_start(NULL), 0);
	}
}

/* The group is closed under a multicast, whose request ends; and another one is opened. */
static void
group__is_closed_under_a_multicast(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {3, 4, 5};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, 3, ranks);
	const struct pmx_multicast m = {
		.set = set,
		.area = AREA,
		.local = local,
		.len = AREA_BYTES,
	};

	assert_int_equal(pmx_group_multicast(group[0], &m, &request[0]), 0);
	pmx_group_set_free(set);
	closes(0);
	assert_int_equal(pmx_test(ctx[0], &request[0], NULL), -ECANCELED);
	for (unsigned n = 1; n < ALL; n++)
		UNTIL(events[n] != 0);
	for (unsigned n = 1; n < ALL; n++)
		closes(n);
	UNTIL(pmx_transfers_pending(ctx[0]) == 0);
	all_open(ALL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(group__multicast, members_start, members_stop),
		cmocka_unit_test_setup_teardown(group__multicast_in_parts, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__multicasts_of_one_twin, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__multicasts_at_once, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__multicasts_in_order, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__multicast_says_who_has_it_not, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__multicast_refuses, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__is_closed_under_a_multicast, members_start,
			members_stop),
		cmocka_unit_test_setup_teardown(group__ends_under_a_multicast, members_start,
			members_stop),
	};

	if (members_eal("test_embedded_group_multicast") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
