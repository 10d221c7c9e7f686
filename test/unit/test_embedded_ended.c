/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMX_COPY, and pmx_poll_ended(): what was begun with PMX_QUEUED is told once, in the order in
 * which it ended, with its cookie and its error, whoever does the matching.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "embedded_pair.h"

#define LONG_BYTES 40000 /* is offered */

static const char *const matchings[] = {"client", "engine"};

static struct pmx_matched
queued(struct pmx_addr peer, uint64_t tag, void *data, uint64_t len, uint64_t cookie)
{
	return (struct pmx_matched){
		.peer = peer,
		.tag = tag,
		.data = data,
		.len = len,
		.flags = PMX_QUEUED,
		.cookie = cookie,
	};
}

static struct pmx_matched
receive_of(uint64_t tag, void *data, uint64_t len)
{
	return queued(PMX_ANY_SOURCE, tag, data, len, 1000 + tag);
}

static struct pmx_matched
send_of(uint64_t tag, void *data, uint64_t len)
{
	return queued((struct pmx_addr){1, 0}, tag, data, len, 2000 + tag);
}

/* The next one that ends. */
static struct pmx_ended
next_of(struct pmx_context *x)
{
	struct pmx_ended e;

	UNTIL(pmx_poll_ended(x, &e, 1) == 1);
	return e;
}

static void
nothing_more(struct pmx_context *x)
{
	struct pmx_ended e;

	for (unsigned i = 0; i < 50; i++) {
		pair_poll();
		assert_int_equal(pmx_poll_ended(x, &e, 1), 0);
	}
}

static void
ended__in_the_order_in_which_they_end(void **state)
{
	static const unsigned order[] = {3, 1, 5, 2, 4};
	uint8_t in[6][64], out[64];

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		struct pmx_ended e[8];
		unsigned n = 0;

		pair_start(matchings[way], "");
		for (unsigned tag = 1; tag <= 5; tag++) {
			const struct pmx_matched m = receive_of(tag, in[tag], sizeof(in[tag]));
			pmx_request r = 0;

			assert_int_equal(pmx_irecv(ctx[1][0], &m, tag % 2 ? &r : NULL), 0);
			/* its request is for pmx_cancel() alone */
			if (tag % 2)
				assert_int_equal(pmx_test(ctx[1][0], &r, NULL), -EINVAL);
		}
		for (unsigned k = 0; k < 5; k++) {
			const struct pmx_matched m = send_of(order[k], out, 10 + order[k]);

			bytes_fill(out, sizeof(out), order[k]);
			assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
		}
		while (n < 5) {
			int got;

			pair_poll();
			got = pmx_poll_ended(ctx[1][0], e + n, 8 - n);
			assert_true(got >= 0);
			n += (unsigned)got;
		}
		assert_int_equal(n, 5);
		for (unsigned k = 0; k < 5; k++) {
			assert_int_equal(e[k].cookie, 1000 + order[k]);
			assert_int_equal(e[k].status.tag, order[k]);
			assert_int_equal(e[k].status.len, 10 + order[k]);
			assert_int_equal(e[k].status.error, 0);
			assert_int_equal(e[k].status.source.node, 0);
			bytes_fill(out, sizeof(out), order[k]);
			assert_memory_equal(in[order[k]], out, 10 + order[k]);
		}
		/* short sends end in their calls, and are told in the order of these */
		for (unsigned k = 0; k < 5; k++) {
			const struct pmx_ended s = next_of(ctx[0][0]);

			assert_int_equal(s.cookie, 2000 + order[k]);
			assert_int_equal(s.status.error, 0);
		}
		nothing_more(ctx[0][0]);
		nothing_more(ctx[1][0]);
		assert_int_equal(pair_stop(state), 0);
	}
}

static void
ended__offers_when_they_are_fetched(void **state)
{
	static uint8_t out[LONG_BYTES], in[LONG_BYTES];

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		const struct pmx_matched send = send_of(7, out, sizeof(out));
		struct pmx_matched receive = receive_of(7, in, sizeof(in));
		struct pmx_matched small = send_of(8, out, 8);
		struct pmx_status found;
		pmx_request taken;
		struct pmx_ended e;

		pair_start(matchings[way], "");
		bytes_fill(out, sizeof(out), way);
		memset(in, 0, sizeof(in));
		assert_int_equal(pmx_isend(ctx[0][0], &send, NULL), 0);
		assert_int_equal(pmx_isend(ctx[0][0], &small, NULL), 0);
		/* the short one ends first */
		assert_int_equal(next_of(ctx[0][0]).cookie, 2008);
		nothing_more(ctx[0][0]);
		/* a message that a probe took */
		UNTIL(pmx_improbe(ctx[1][0], &receive, &taken, &found) == 1);
		assert_int_equal(found.len, sizeof(out));
		assert_int_equal(pmx_imrecv(ctx[1][0], &receive, &taken), 0);
		e = next_of(ctx[1][0]);
		assert_int_equal(e.cookie, 1007);
		assert_int_equal(e.status.len, sizeof(out));
		assert_memory_equal(in, out, sizeof(out));
		e = next_of(ctx[0][0]);
		assert_int_equal(e.cookie, 2007);
		assert_int_equal(e.status.error, 0);
		receive = receive_of(8, in, 8);
		assert_int_equal(pmx_irecv(ctx[1][0], &receive, NULL), 0);
		assert_int_equal(next_of(ctx[1][0]).cookie, 1008);
		assert_int_equal(pair_stop(state), 0);
	}
}

static void
ended__errors_are_told(void **state)
{
	static uint8_t out[64], in[64];

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		struct pmx_matched m = receive_of(1, in, 8);
		pmx_request r, other;
		struct pmx_ended e;

		pair_start(matchings[way], "");
		/* cancelled */
		assert_int_equal(pmx_irecv(ctx[1][0], &m, &r), 0);
		m = receive_of(2, in, 8);
		assert_int_equal(pmx_irecv(ctx[1][0], &m, &other), 0);
		assert_int_equal(pmx_cancel(ctx[1][0], r), 0);
		e = next_of(ctx[1][0]);
		assert_int_equal(e.cookie, 1001);
		assert_int_equal(e.status.error, -ECANCELED);
		assert_int_equal(pmx_cancel(ctx[1][0], r), -EINVAL);
		/* longer than its receive */
		m = send_of(2, out, 32);
		assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
		e = next_of(ctx[1][0]);
		assert_int_equal(e.cookie, 1002);
		assert_int_equal(e.status.error, -EMSGSIZE);
		assert_int_equal(e.status.len, 32);
		assert_int_equal(next_of(ctx[0][0]).cookie, 2002);
		/* to a node that is not there, by its Ack */
		m = send_of(3, out, 8);
		m.peer.node = 7;
		m.flags |= PMX_DELIVERED;
		assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
		e = next_of(ctx[0][0]);
		assert_int_equal(e.cookie, 2003);
		assert_int_equal(e.status.error, -EHOSTUNREACH);
		nothing_more(ctx[0][0]);
		nothing_more(ctx[1][0]);
		assert_int_equal(pair_stop(state), 0);
	}
}

/* Those that were not taken need limits.receives; then there is room again. */
static void
ended__wait_to_be_taken(void **state)
{
	uint8_t byte = 0;

	(void)state;
	pair_start("client", "receives = 16");
	for (unsigned round = 0; round < 3; round++) {
		struct pmx_matched m = send_of(0, &byte, 1);
		struct pmx_ended e[16];

		for (unsigned i = 0; i < 16; i++) {
			m.cookie = i;
			assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
		}
		assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), -EAGAIN);
		/* nobody sleeps while there is something to take */
		assert_int_equal(pmx_before_select(ctx[0][0]), 1);
		assert_int_equal(pmx_before_select(ctx[0][0]), 1);
		assert_int_equal(pmx_poll_ended(ctx[0][0], e, 0), 0);
		assert_int_equal(pmx_poll_ended(ctx[0][0], e, 10), 10);
		assert_int_equal(pmx_poll_ended(ctx[0][0], e + 10, 16), 6);
		for (unsigned i = 0; i < 16; i++)
			assert_int_equal(e[i].cookie, i);
		m = receive_of(0, &byte, 1);
		for (unsigned i = 0; i < 16; i++) {
			assert_int_equal(pmx_irecv(ctx[1][0], &m, NULL), 0);
			assert_int_equal(next_of(ctx[1][0]).cookie, 1000);
		}
	}
	assert_int_equal(pmx_before_select(ctx[0][0]), 0);
	pmx_after_select(ctx[0][0]);
}

/* PMX_COPY: the bytes change right after the call, also those of messages that are offered. */
static void
copy__bytes_may_change_at_once(void **state)
{
	static const uint32_t lengths[] = {0, 8, 2000, LONG_BYTES};
	static uint8_t out[LONG_BYTES], in[LONG_BYTES], expected[LONG_BYTES];

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		pair_start(matchings[way], "");
		for (unsigned i = 0; i < 2 * 4; i++) {
			uint32_t len = lengths[i / 2];
			struct pmx_matched m = {
				.peer = {1, 0},
				.tag = i,
				.data = out,
				.len = len,
				.flags = PMX_COPY | (i % 2 ? PMX_SYNC | PMX_QUEUED : 0),
				.cookie = i,
			};

			bytes_fill(out, len, i);
			memcpy(expected, out, len);
			assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
			memset(out, 0xEE, sizeof(out));
			for (unsigned k = 0; k < 20; k++)
				pair_poll();
			m = receive_of(i, in, sizeof(in));
			assert_int_equal(pmx_irecv(ctx[1][0], &m, NULL), 0);
			assert_int_equal(next_of(ctx[1][0]).status.len, len);
			assert_memory_equal(in, expected, len);
			if (i % 2)
				assert_int_equal(next_of(ctx[0][0]).cookie, i);
		}
		assert_int_equal(pair_stop(state), 0);
	}
}

/* Any number of receives and sends under way, of any length: each is told once. */
static void
ended__each_once(void **state)
{
	enum { ALL = 4000, MOST = 48 };
	static uint8_t out[LONG_BYTES], in[MOST][LONG_BYTES];
	static uint8_t told[2][ALL];

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		unsigned sent = 0, posted = 0, ended[2] = {0, 0};
		struct pmx_ended e[8];

		pair_start(matchings[way], "");
		memset(told, 0, sizeof(told));
		srand(way + 1);
		UNTIL(({
			if (sent < ALL && rand() % 2) {
				struct pmx_matched m = send_of(0, out,
					rand() % 8 ? (unsigned)rand() % 3000 : LONG_BYTES);

				m.cookie = sent;
				sent += pmx_isend(ctx[0][0], &m, NULL) == 0;
			}
			if (posted < ALL && posted - ended[1] < MOST && rand() % 2) {
				struct pmx_matched m = receive_of(0, in[posted % MOST], LONG_BYTES);

				m.cookie = posted;
				posted += pmx_irecv(ctx[1][0], &m, NULL) == 0;
			}
			for (unsigned side = 0; side < 2; side++) {
				int got = pmx_poll_ended(ctx[side][0], e, 1 + (unsigned)rand() % 8);

				assert_true(got >= 0);
				for (int i = 0; i < got; i++) {
					assert_int_equal(e[i].status.error, 0);
					assert_in_range(e[i].cookie, 0, ALL - 1);
					assert_int_equal(told[side][e[i].cookie]++, 0);
					ended[side]++;
				}
			}
			ended[0] == ALL &&ended[1] == ALL;
		}));
		nothing_more(ctx[0][0]);
		nothing_more(ctx[1][0]);
		assert_int_equal(pair_stop(state), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ended__in_the_order_in_which_they_end),
		cmocka_unit_test(ended__offers_when_they_are_fetched),
		cmocka_unit_test(ended__errors_are_told),
		cmocka_unit_test_teardown(ended__wait_to_be_taken, pair_stop),
		cmocka_unit_test(ended__each_once),
		cmocka_unit_test(copy__bytes_may_change_at_once),
	};

	if (pair_eal("test_embedded_ended") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_ended", tests, NULL, NULL);
}
