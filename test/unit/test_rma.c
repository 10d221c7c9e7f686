/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory as a library (lib/rma): one lane, whose core and whose peers are the test.
 * Histories of many lanes: pmx-sim fuzz --transfers; arbitrary input: test/fuzz/fuzz_rma.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rma/rma.h"

#define CTXS    2
#define PAYLOAD 200
#define FRAMES  16
#define ENTRIES 4
#define PEER    1 /* node */
#define BASE    0x10000u
#define BYTES   4096u
#define PIECE   5 /* of the client's memory */

static char piece;

struct lane {
	struct rma *rma;
	uint64_t counters[RMA_COUNTERS], now;
	uint8_t heads[FRAMES][sizeof(struct wire_transfer) + PAYLOAD] __attribute__((aligned(8)));
	struct rma_frame *out[FRAMES];
	unsigned count;
	uint32_t receiver; /* its life */
	int watched;       /* offers that are */
};

static uint32_t
life(void *arg, uint16_t node)
{
	(void)arg;
	return node == PEER;
}

static uint32_t
receiver(void *arg, uint16_t ctx, uint16_t node, uint16_t peer, enum rma_watch watch, uint64_t now)
{
	struct lane *l = arg;

	(void)ctx, (void)node, (void)peer, (void)now;
	l->watched += watch == RMA_WATCH_BEGINS ? 1 : watch == RMA_WATCH_ENDS ? -1 : 0;
	return l->receiver;
}

static void *
memory(void *arg, uint16_t ctx, uint32_t number, uint64_t at, uint64_t len)
{
	(void)arg, (void)ctx, (void)at, (void)len;
	return number == PIECE ? &piece : NULL;
}

static bool
member(void *arg, uint16_t ctx, uint32_t group, uint16_t node, uint16_t peer)
{
	(void)arg, (void)ctx, (void)group, (void)node, (void)peer;
	return false;
}

static bool
revoked(void *arg, uint16_t ctx, uint32_t watched)
{
	(void)arg, (void)ctx, (void)watched;
	return false;
}

static int
setup(void **state)
{
	struct lane *l = calloc(1, sizeof(*l));
	const struct rma_config config = {
		.contexts_max = CTXS,
		.contexts_by = 1,
		.transfers_max = 8,
		.fetches_max = 2,
		.requests_max = ENTRIES,
		.regions_max = 8,
		.frames_max = FRAMES,
		.payload_max = PAYLOAD,
		.ticks_per_sec = 1000000,
		.ask_us = 10000,
		.ask_offer_us = 5000,
		.counters = l->counters,
		.life = life,
		.receiver = receiver,
		.memory = memory,
		.revoked = revoked,
		.member = member,
		.arg = l,
	};
	size_t bytes = rma_memsize(&config);
	void *block = aligned_alloc(64, bytes);

	memset(block, 0, bytes);
	l->rma = rma_init(block, &config);
	l->receiver = 1;
	for (uint32_t i = 0; i < FRAMES; i++)
		rma_frame(l->rma, i)->head = (struct wire_transfer *)l->heads[i];
	rma_open(l->rma, 0);
	*state = l;
	return 0;
}

static int
teardown(void **state)
{
	struct lane *l = *state;

	free(l->rma);
	free(l);
	return 0;
}

/* At place 0..7 of context 0. */
static void
submit_from(struct lane *l, uint32_t place, uint8_t kind, uint64_t len, uint32_t number)
{
	const struct transfer_desc d = {
		.kind = kind,
		.node = PEER,
		.ctx = 1,
		.id = TRANSFER_ID(place, 1),
		.memory = number,
		.key = 77,
		.local = BASE,
		.len = len,
	};

	assert_true(rma_submit(l->rma, 0, place, &d, l->now));
}

static void
submit(struct lane *l, uint32_t place, uint8_t kind, uint64_t len)
{
	submit_from(l, place, kind, len, MEMORY_COPIED);
}

/* All frames that there are go to the core. Returns how many. */
static unsigned
turn(struct lane *l)
{
	unsigned n, before = l->count;
	struct rma_frame **out;

	rma_turn(l->rma);
	for (unsigned kind = 0; kind < 2; kind++) {
		while ((out = kind ? rma_tx_transfers(l->rma, &n) : rma_tx_answers(l->rma, &n)) !=
			NULL) {
			memcpy(&l->out[l->count], out, n * sizeof(struct rma_frame *));
			l->count += n;
			rma_sent(l->rma, n, 0, l->now);
		}
	}
	return l->count - before;
}

static void
acked(struct lane *l, unsigned i, uint8_t error)
{
	rma_acked(l->rma, l->out[i], error);
	memmove(&l->out[i], &l->out[i + 1], (--l->count - i) * sizeof(struct rma_frame *));
}

static void
pass(struct lane *l, uint64_t us)
{
	l->now += us;
	rma_tick(l->rma, l->now);
}

/* The result of that place, and no other. */
static void
expect_result(struct lane *l, uint16_t place, uint8_t error)
{
	const struct rma_result *r = rma_result(l->rma);

	assert_non_null(r);
	assert_int_equal(r->place, place);
	assert_int_equal(r->error, error);
	assert_null(rma_result(l->rma));
}

static void
expect_rest(struct lane *l)
{
	assert_int_equal(rma_frames_free(l->rma), FRAMES);
	assert_true(rma_is_drained(l->rma, RMA_ALL) && rma_is_drained(l->rma, 0));
	assert_int_equal(rma_deadline(l->rma), UINT64_MAX);
	assert_int_equal(turn(l), 0);
}

static enum rma_heard
hear_ended(struct lane *l, uint32_t place, uint32_t error)
{
	const struct wire_ended item = {wire_be32(TRANSFER_ID(place, 1)), wire_be32(error)};
	const struct wire_transfer h = {.op = WIRE_ENDED, .len = wire_be64(1)};
	const struct rma_message m = {&h, (const uint8_t *)&item, sizeof(item), PEER, 1};
	struct rma_place unused;

	return rma_initiator_message(l->rma, 0, &m, &unused, l->now);
}

/* ------------------------------------------------------------------ initiators */

static void
push__ends_with_its_answer(void **state)
{
	struct lane *l = *state;

	submit(l, 3, TRANSFER_PUSH, 2 * PAYLOAD + 1);
	assert_int_equal(turn(l), 3);
	assert_int_equal(l->out[2]->source.at, BASE + 2 * PAYLOAD);
	assert_int_equal(l->out[2]->source.len, 1);
	assert_true(l->out[2]->head->flags & WIRE_T_LAST);
	while (l->count != 0)
		acked(l, 0, 0);
	assert_null(rma_result(l->rma));
	hear_ended(l, 3, 0);
	expect_result(l, 3, 0);
	expect_rest(l);
}

static void
push__ends_once(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_PUSH, 3 * PAYLOAD);
	turn(l);
	acked(l, 0, ETIMEDOUT);
	acked(l, 0, ETIMEDOUT);
	hear_ended(l, 0, 0);
	acked(l, 0, ETIMEDOUT);
	expect_result(l, 0, ETIMEDOUT);
	expect_rest(l);
}

/* It does not concern a transfer that the client packs, whatever used its place before. */
static void
memory__goes_with_its_transfers_only(void **state)
{
	struct lane *l = *state;

	submit_from(l, 2, TRANSFER_PUSH, PAYLOAD, PIECE);
	turn(l);
	acked(l, 0, 0);
	hear_ended(l, 2, 0);
	expect_result(l, 2, 0);
	submit(l, 2, TRANSFER_PACKED, PAYLOAD);
	submit_from(l, 3, TRANSFER_PULL, PAYLOAD, PIECE);
	rma_memory_gone(l->rma, 0, &piece);
	expect_result(l, 3, EFAULT);
	assert_true(rma_is_packed(l->rma, 0, 2));
	rma_packed_cancel(l->rma, 0, 2);
	expect_result(l, 2, EFAULT);
	expect_rest(l);
}

/* The seed that found it sent the end of a push again, and not its middle. */
static void
again__not_behind_what_was_lost(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_OFFER, 3 * PAYLOAD);
	const struct wire_transfer accept = {
		.op = WIRE_ACCEPT,
		.flags = WIRE_T_OFFER,
		.id = wire_be32(5),
		.key = wire_be64(TRANSFER_ID(0, 1)),
		.len = wire_be64(3 * PAYLOAD),
	};
	const struct rma_message m = {&accept, NULL, 0, PEER, 1};
	struct rma_place unused;

	rma_target_message(l->rma, 0, &m, &unused, l->now);
	assert_int_equal(turn(l), 3);
	assert_true(rma_again(l->rma, l->out[0]));
	/* the core had no place for the second */
	assert_true(rma_again(l->rma, l->out[1]));
	acked(l, 1, ECONNRESET);
	assert_false(rma_again(l->rma, l->out[1]));
}

/* A question that waits for its turn when another frame of its transfer fails goes with it. */
static void
ask__ends_with_its_transfer(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_PUSH, PAYLOAD);
	turn(l);
	pass(l, 20000); /* it is to be asked for */
	acked(l, 0, ETIMEDOUT);
	expect_result(l, 0, ETIMEDOUT);
	expect_rest(l);
}

static void
ask__once_until_it_is_acked(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_PULL, 100);
	assert_int_equal(turn(l), 1);
	acked(l, 0, 0);
	pass(l, 9000);
	assert_int_equal(turn(l), 0);
	pass(l, 2000);
	assert_int_equal(turn(l), 1);
	assert_int_equal(l->out[0]->head->op, WIRE_ASK);
	pass(l, 50000);
	assert_int_equal(turn(l), 0);
	acked(l, 0, 0);
	pass(l, 11000);
	assert_int_equal(turn(l), 1);
	acked(l, 0, ECONNREFUSED);
	expect_result(l, 0, ECONNREFUSED);
	expect_rest(l);
}

/* ------------------------------------------------------------------ offers */

static void
offer__ends_with_its_receivers_life(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_OFFER, 100);
	assert_int_equal(l->watched, 1);
	pass(l, 2000);
	assert_null(rma_result(l->rma));
	l->receiver = 2;
	pass(l, 2000);
	expect_result(l, 0, ECONNRESET);
	assert_int_equal(l->watched, 0);
	expect_rest(l);
}

/* One question is for all that was offered to a context, and so is its answer. */
static void
offer__one_question_for_all(void **state)
{
	struct lane *l = *state;
	unsigned ended = 0;

	for (uint32_t i = 0; i < 3; i++)
		submit(l, i, TRANSFER_OFFER, 100);
	pass(l, 6000);
	assert_int_equal(turn(l), 1);
	acked(l, 0, ECONNREFUSED);
	for (const struct rma_result *r; (r = rma_result(l->rma)) != NULL; ended++)
		assert_int_equal(r->error, ECONNREFUSED);
	assert_int_equal(ended, 3);
	assert_int_equal(l->watched, 0);
	expect_rest(l);
}

static void
offer__lost_with_a_message_of_its_flow(void **state)
{
	struct lane *l = *state;

	submit(l, 0, TRANSFER_OFFER, 100);
	rma_offers_lost(l->rma, 0, PEER, 0, ETIMEDOUT);
	assert_null(rma_result(l->rma));
	rma_offers_lost(l->rma, 0, PEER, 1, ETIMEDOUT);
	expect_result(l, 0, ETIMEDOUT);
	expect_rest(l);
}

/* ------------------------------------------------------------------ targets */

/* Every message to a target gives its entry back once, whatever it says. */
static void
room__of_every_message(void **state)
{
	struct lane *l = *state;
	uint8_t bytes[64] = {0};
	unsigned took = 0, back = 0;
	struct rma_news news;

	for (unsigned op = 0; op <= WIRE_TRANSFER_OPS; op++) {
		for (unsigned flags = 0; flags < 256; flags++) {
			const struct wire_transfer h = {
				.op = (uint8_t)op,
				.flags = (uint8_t)flags,
				.id = wire_be32(flags),
				.key = wire_be64(123),
				.len = wire_be64(8),
			};
			const struct rma_message m = {&h, bytes, flags % 3 ? 8 : 0, PEER, 1};
			struct rma_place place;

			took++;
			if (rma_target_message(l->rma, 0, &m, &place, l->now) == RMA_PLACE)
				rma_target_placed(l->rma, 0, &m, 0);
			turn(l);
			while (l->count != 0)
				acked(l, 0, 0);
			while (rma_news(l->rma, &news))
				back += news.room;
			assert_int_equal(back, took);
		}
	}
	expect_rest(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(push__ends_with_its_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(push__ends_once, setup, teardown),
		cmocka_unit_test_setup_teardown(memory__goes_with_its_transfers_only, setup,
			teardown),
		cmocka_unit_test_setup_teardown(again__not_behind_what_was_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(ask__ends_with_its_transfer, setup, teardown),
		cmocka_unit_test_setup_teardown(ask__once_until_it_is_acked, setup, teardown),
		cmocka_unit_test_setup_teardown(offer__ends_with_its_receivers_life, setup,
			teardown),
		cmocka_unit_test_setup_teardown(offer__one_question_for_all, setup, teardown),
		cmocka_unit_test_setup_teardown(offer__lost_with_a_message_of_its_flow, setup,
			teardown),
		cmocka_unit_test_setup_teardown(room__of_every_message, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
