/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMX_IMMEDIATE: a matched message's number and label reach its receive's status and probes, at
 * every length, in one piece or several, whoever does the matching; messages without them are told
 * to have none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "embedded_pair.h"

#define LONGEST 100000

static const char *const matchings[] = {"client", "engine"};
static const uint32_t lens[] = {0, 1, 8, 16, 17, 24, 25, 40, 1000, 1400, 1500, 5000, 16384, 16385,
	40000, LONGEST};
static uint8_t out[LONGEST], in[LONGEST];

static void
send_one(uint32_t len, unsigned number, bool has, bool pieces)
{
	const struct iovec iov[2] = {{out, len / 3}, {out + len / 3, len - len / 3}};
	const struct pmx_matched m = {
		.peer = {1, 0},
		.tag = number,
		.flags = has ? PMX_IMMEDIATE : 0,
		.data = out,
		.len = len,
		.iov = pieces ? iov : NULL,
		.iov_count = 2,
		.immediate = 0x0123456789ABCDEF + number,
		.label = (uint16_t)(0xFFFF - number),
	};
	pmx_request r = 0;

	bytes_fill(out, len, number);
	UNTIL(pmx_isend(ctx[0][0], &m, &r) == 0);
	/* a long one ends when it is fetched */
	if (len <= 16384)
		UNTIL(pmx_test(ctx[0][0], &r, NULL) == 1);
}

static void
is_described(const struct pmx_status *s, uint32_t len, unsigned number, bool has)
{
	assert_int_equal(s->len, len);
	assert_int_equal(s->tag, number);
	assert_int_equal(s->flags, has ? PMX_IMMEDIATE : 0);
	if (!has)
		return;
	assert_int_equal(s->immediate, 0x0123456789ABCDEF + number);
	assert_int_equal(s->label, (uint16_t)(0xFFFF - number));
}

enum take { POSTED, UNEXPECTED, PROBED, TAKEN, TAKES };

static void
receive_one(enum take how, uint32_t len, unsigned number, bool has, bool pieces)
{
	const struct pmx_matched m = {
		.peer = PMX_ANY_SOURCE,
		.tag = number,
		.data = in,
		.len = LONGEST,
	};
	struct pmx_status status;
	pmx_request r = 0;

	memset(in, 0, len);
	memset(&status, 0xFF, sizeof(status));
	if (how == POSTED)
		UNTIL(pmx_irecv(ctx[1][0], &m, &r) == 0);
	send_one(len, number, has, pieces);
	if (how == PROBED) {
		UNTIL(pmx_iprobe(ctx[1][0], &m, &status) == 1);
		is_described(&status, len, number, has);
	}
	if (how == TAKEN) {
		UNTIL(pmx_improbe(ctx[1][0], &m, &r, &status) == 1);
		is_described(&status, len, number, has);
		assert_int_equal(pmx_imrecv(ctx[1][0], &m, &r), 0);
	} else if (how != POSTED) {
		for (unsigned i = 0; i < 20; i++)
			pair_poll();
		UNTIL(pmx_irecv(ctx[1][0], &m, &r) == 0);
	}
	memset(&status, 0xFF, sizeof(status));
	UNTIL(pmx_test(ctx[1][0], &r, &status) == 1);
	is_described(&status, len, number, has);
	bytes_fill(out, len, number);
	assert_memory_equal(in, out, len);
}

static void
immediate__reaches_status_and_probes(void **state)
{
	(void)state;
	for (unsigned who = 0; who < 2; who++) {
		unsigned number = 0;

		pair_start(matchings[who], "");
		for (unsigned how = 0; how < TAKES; how++) {
			for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
				receive_one(how, lens[i], number++, true, false);
				receive_one(how, lens[i], number++, false, false);
				receive_one(how, lens[i], number++, true, true);
			}
		}
		UNTIL(pair_is_quiet());
		assert_int_equal(pair_stop(state), 0);
	}
}

/* Two that end at once: the engine tells two in a slot, but not of these. */
static void
immediate__several_end_at_once(void **state)
{
	enum { MANY = 40 };
	uint64_t bytes[MANY];
	pmx_request r[MANY];

	(void)state;
	for (unsigned who = 0; who < 2; who++) {
		pair_start(matchings[who], "");
		for (unsigned i = 0; i < MANY; i++) {
			const struct pmx_matched m = {
				.peer = PMX_ANY_SOURCE,
				.tag = i,
				.data = &bytes[i],
				.len = 8,
			};

			assert_int_equal(pmx_irecv(ctx[1][0], &m, &r[i]), 0);
		}
		for (unsigned i = 0; i < MANY; i++)
			send_one(8, i, i % 3 != 0, false);
		for (unsigned i = 0; i < MANY; i++) {
			struct pmx_status status;

			UNTIL(pmx_test(ctx[1][0], &r[i], &status) == 1);
			is_described(&status, 8, i, i % 3 != 0);
			bytes_fill(out, 8, i);
			assert_memory_equal(&bytes[i], out, 8);
		}
		assert_int_equal(pair_stop(state), 0);
	}
}

/* A diff has them as well. */
static void
immediate__of_a_diff(void **state)
{
	static uint8_t twin[1000];

	(void)state;
	for (unsigned who = 0; who < 2; who++) {
		const struct pmx_part diff = {.kind = PMX_PART_DIFF, .twin = twin};
		const struct pmx_matched send = {
			.peer = {1, 0},
			.flags = PMX_IMMEDIATE,
			.data = out,
			.len = sizeof(twin),
			.part = &diff,
			.immediate = 7,
			.label = 9,
		};
		const struct pmx_matched receive = {
			.peer = PMX_ANY_SOURCE,
			.data = in,
			.len = sizeof(twin),
		};
		struct pmx_status status;
		pmx_request r;

		pair_start(matchings[who], "");
		memset(twin, 0, sizeof(twin));
		memset(in, 0, sizeof(twin));
		memset(out, 0, sizeof(twin));
		out[3] = 1;
		out[900] = 2;
		assert_int_equal(pmx_irecv(ctx[1][0], &receive, &r), 0);
		assert_int_equal(pmx_isend(ctx[0][0], &send, NULL), 0);
		UNTIL(pmx_test(ctx[1][0], &r, &status) == 1);
		assert_int_equal(status.flags, PMX_IMMEDIATE);
		assert_int_equal(status.immediate, 7);
		assert_int_equal(status.label, 9);
		assert_memory_equal(in, out, sizeof(twin));
		assert_int_equal(pair_stop(state), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(immediate__reaches_status_and_probes),
		cmocka_unit_test(immediate__several_end_at_once),
		cmocka_unit_test(immediate__of_a_diff),
	};

	if (pair_eal("test_embedded_immediate") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_immediate", tests, NULL, NULL);
}
