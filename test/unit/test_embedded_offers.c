/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long matched messages between two embedded nodes (RHI-MSG): who moves one, the sender that pushes
 * or the receiver that pulls, and how an offer ends whose receiver is not there, closes, or is
 * opened anew; with matching by the client and by the engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "embedded_pair.h"

/* ------------------------------------------------------------ RHI-MSG: who moves a long message */

#define LONG 100000u

static uint8_t from_bytes[LONG], to_bytes[LONG];

static void
exchange(const char *matching, bool receive_first)
{
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 5, .data = to_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending, receiving;

	pair_start(matching, "");
	bytes_fill(from_bytes, LONG, receive_first);
	memset(to_bytes, 0, LONG);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	else
		assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	/* what the one side has begun is at the other before that begins */
	for (unsigned i = 0; i < 200; i++)
		pair_poll();
	if (!receive_first) {
		assert_int_equal(pmx_iprobe(ctx[1][0], &r, &status), 1);
		assert_int_equal(status.len, LONG);
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	} else {
		assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	}
	UNTIL(pmx_test(ctx[1][0], &receiving, &status) == 1);
	UNTIL(pmx_test(ctx[0][0], &sending, NULL) == 1);
	assert_int_equal(status.len, LONG);
	assert_memory_equal(to_bytes, from_bytes, LONG);
	if (receive_first) { /* "receive pending: push" */
		assert_true(sent_ops[1][WIRE_ACCEPT] >= 1);
		assert_int_equal(sent_ops[1][WIRE_PULL], 0);
		assert_true(sent_ops[0][WIRE_PUSH] >= LONG / 1500);
		assert_int_equal(sent_ops[0][WIRE_PULLED], 0);
	} else { /* "send pending: pull" */
		assert_true(sent_ops[1][WIRE_PULL] >= 1);
		assert_int_equal(sent_ops[1][WIRE_ACCEPT], 0);
		assert_true(sent_ops[0][WIRE_PULLED] >= LONG / 1500);
		assert_int_equal(sent_ops[0][WIRE_PUSH], 0);
	}
}

static void
rhi_msg__receive_pending_is_pushed_client(void **state)
{
	(void)state;
	exchange("client", true);
}

static void
rhi_msg__receive_pending_is_pushed_engine(void **state)
{
	(void)state;
	exchange("engine", true);
}

static void
rhi_msg__send_pending_is_pulled_client(void **state)
{
	(void)state;
	exchange("client", false);
}

static void
rhi_msg__send_pending_is_pulled_engine(void **state)
{
	(void)state;
	exchange("engine", false);
}

/* A context is opened again under its number, and offers to one that has a flow to its former life:
 * who answers the offer does so by that flow, whose reset is no answer. */
static void
reopened(const char *matching, bool receive_first, unsigned which, bool late_port)
{
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 5, .data = to_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending, receiving;

	exchange(matching, receive_first);
	assert_true(pair_is_quiet());
	pmx_context_close(ctx[which][0]);
	assert_int_equal(pmx_context_open(&ctx[which][0], nodes[which], 0, NULL), 0);
	if (which == 1) { /* it is heard of: what is sent to it is not sent to its former life */
		struct pmx_matched hello = {.peer = {0, 0}, .tag = 6, .data = "hello", .len = 6};

		assert_int_equal(pmx_isend(ctx[1][0], &hello, NULL), 0);
		UNTIL(pmx_iprobe(ctx[0][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 6},
			      NULL) == 1);
	}
	keep_and_lose = late_port ? UINT32_MAX : 0;
	bytes_fill(from_bytes, LONG, 99);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	for (unsigned i = 0; i < 200; i++)
		pair_poll();
	if (!receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	UNTIL(pmx_test(ctx[1][0], &receiving, &status) != 0);
	assert_int_equal(status.error, 0);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, 0);
	assert_memory_equal(to_bytes, from_bytes, LONG);
}

/* An offer goes by the flow to a life that ended: it ends with that flow, though the new life would
 * answer whoever asks it. */
static void
offered_to_a_former_life(const char *matching)
{
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending;

	exchange(matching, false);
	assert_true(pair_is_quiet());
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], 0, NULL), 0);
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, -ECONNRESET);
}

/* Check that what was offered to a context ends with it, though its next life is the first to
 * speak. */
static void
offered_and_reopened(const char *matching)
{
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched hello = {.peer = {0, 0}, .tag = 6, .data = "hello", .len = 6};
	struct pmx_status status;
	pmx_request sending;

	pair_start(matching, "");
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	UNTIL(pmx_iprobe(ctx[1][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 5},
		      NULL) == 1);
	for (unsigned i = 0; i < 200; i++)
		pair_poll();
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], 0, NULL), 0);
	assert_int_equal(pmx_isend(ctx[1][0], &hello, NULL), 0);
	UNTIL(pmx_iprobe(ctx[0][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 6},
		      NULL) == 1);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, -ECONNRESET);
}

/* ... and one to a context that is not open, or not there, when that is sure. */
static void
offered_to_nobody(const char *matching)
{
	struct pmx_matched s = {.peer = {0, 1}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending;

	pair_start(matching, "[proto]\nrto_min_us = 200\nrto_max_us = 1000\nretries = 3");
	for (unsigned i = 0; i < 3; i++) {
		s.peer = (struct pmx_addr){i / 2 * 77, i == 1 ? 3000 : 2};
		if (pmx_isend(ctx[0][0], &s, &sending) != 0)
			continue;
		UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
		assert_true(status.error == -ECONNREFUSED || status.error == -EHOSTUNREACH);
	}
}

static void
rhi_msg__an_offer_to_nobody_ends_client(void **state)
{
	(void)state;
	offered_to_nobody("client");
}

static void
rhi_msg__an_offer_to_nobody_ends_engine(void **state)
{
	(void)state;
	offered_to_nobody("engine");
}

static void
rhi_msg__an_offer_to_a_former_life_ends_client(void **state)
{
	(void)state;
	offered_to_a_former_life("client");
}

static void
rhi_msg__an_offer_to_a_former_life_ends_engine(void **state)
{
	(void)state;
	offered_to_a_former_life("engine");
}

static void
rhi_msg__an_offer_ends_with_its_receiver_client(void **state)
{
	(void)state;
	offered_and_reopened("client");
}

static void
rhi_msg__an_offer_ends_with_its_receiver_engine(void **state)
{
	(void)state;
	offered_and_reopened("engine");
}

static void
rhi_msg__a_new_life_that_offers_is_answered_client(void **state)
{
	(void)state;
	reopened("client", false, 0, false);
}

static void
rhi_msg__a_new_life_that_offers_is_answered_engine(void **state)
{
	(void)state;
	reopened("engine", false, 0, false);
}

static void
rhi_msg__a_new_life_has_a_place_for_what_is_offered(void **state)
{
	(void)state;
	reopened("client", true, 0, false);
}

static void
rhi_msg__a_new_life_is_pushed_what_it_accepts(void **state)
{
	(void)state;
	reopened("client", true, 1, false);
}

static void
rhi_msg__a_new_life_pulls_what_it_is_offered(void **state)
{
	(void)state;
	reopened("client", false, 1, false);
}

static void
rhi_msg__what_a_new_life_is_pushed_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", true, 1, true);
}

static void
rhi_msg__what_a_new_life_pulls_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", false, 1, true);
}

static void
rhi_msg__what_answers_a_new_life_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", false, 0, true);
}

/* ------------------------------------------------------------------ */

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(rhi_msg__receive_pending_is_pushed_client, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__receive_pending_is_pushed_engine, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__send_pending_is_pulled_client, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__send_pending_is_pulled_engine, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_nobody_ends_client, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_nobody_ends_engine, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_a_former_life_ends_client,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_a_former_life_ends_engine,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_that_offers_is_answered_client,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_that_offers_is_answered_engine,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_has_a_place_for_what_is_offered,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_ends_with_its_receiver_client,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_ends_with_its_receiver_engine,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_is_pushed_what_it_accepts, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_pulls_what_it_is_offered, pair_stop),
		cmocka_unit_test_teardown(rhi_msg__what_a_new_life_is_pushed_the_port_still_has,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__what_a_new_life_pulls_the_port_still_has,
			pair_stop),
		cmocka_unit_test_teardown(rhi_msg__what_answers_a_new_life_the_port_still_has,
			pair_stop),
	};

	if (pair_eal("test_embedded_offers") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
