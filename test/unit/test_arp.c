/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lib/core/arp: frames byte by byte, the table, and frames that nobody means well with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/arp/arp.h"

#define SIZE    8
#define MS      1000 /* ticks */
#define OUR_MAC 0x020000000001u
#define MAC_B   0x020000000002u
#define IP(d)   (0x0A090000u + (d))

static const struct arp_port own = {.mac = OUR_MAC, .ip = IP(1), .link = 2};
static struct arp a;
static void *memory;

static int
setup(void **state)
{
	(void)state;
	memory = calloc(1, arp_bytes(SIZE));
	arp_init(&a, memory, SIZE, MS);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

/* A question of 10.9.0.2 for 10.9.0.1, as Linux sends it. */
static const uint8_t question[ARP_FRAME_BYTES] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0,
	2, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 9, 0, 2, 0, 0, 0, 0, 0, 0, 10,
	9, 0, 1};
static const uint8_t reply[ARP_FRAME_BYTES] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1,
	8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 9, 0, 1, 2, 0, 0, 0, 0, 2, 10, 9, 0, 2};

static void
arp_in__a_question_for_us_is_answered(void **state)
{
	uint8_t answer[ARP_FRAME_BYTES];
	uint64_t from = 0;

	(void)state;
	assert_int_equal(arp_in(&a, &own, question, sizeof(question), 5, answer, &from),
		ARP_ANSWER);
	assert_memory_equal(answer, reply, sizeof(reply));
	assert_int_equal(from, MAC_B);
}

static void
arp_question__golden(void **state)
{
	uint8_t frame[ARP_FRAME_BYTES], expected[ARP_FRAME_BYTES];
	const struct arp_port b = {.mac = MAC_B, .ip = IP(2), .link = 0};

	(void)state;
	memcpy(expected, question, sizeof(question));
	arp_question(frame, &b, IP(1));
	assert_memory_equal(frame, expected, sizeof(frame));
}

static void
arp_in__questions_and_answers_teach_an_address_in_use(void **state)
{
	const uint32_t n = arp_use(&a, own.link, IP(2));
	uint8_t frame[ARP_FRAME_BYTES], answer[ARP_FRAME_BYTES];
	const struct arp_port b = {.mac = MAC_B, .ip = IP(2)},
			      c = {.mac = 0x02000000000C, .ip = IP(3)};
	uint64_t from;

	(void)state;
	assert_int_equal(atomic_load(&arp_neighbour(&a, n)->mac), 0);
	arp_question(frame, &c, IP(1));
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 5, answer, &from), ARP_ANSWER);
	assert_int_equal(a.count, 1); /* a stranger makes no entry */
	arp_question(frame, &b, IP(77));
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 6, answer, &from), ARP_LEARNT);
	assert_int_equal(atomic_load(&arp_neighbour(&a, n)->mac), MAC_B);
	/* it moves, and says so to all */
	const struct arp_port moved = {.mac = 0x0200000000BB, .ip = IP(2)};

	arp_question(frame, &moved, IP(2));
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 7, answer, &from), ARP_LEARNT);
	assert_int_equal(atomic_load(&arp_neighbour(&a, n)->mac), 0x0200000000BB);
}

static void
arp_in__the_same_address_on_another_link_is_another(void **state)
{
	const uint32_t n = arp_use(&a, own.link + 1, IP(2));
	uint8_t answer[ARP_FRAME_BYTES];
	uint64_t from;

	(void)state;
	arp_in(&a, &own, question, sizeof(question), 5, answer, &from);
	assert_int_equal(atomic_load(&arp_neighbour(&a, n)->mac), 0);
}

static void
arp_in__our_address_at_another(void **state)
{
	const struct arp_port thief = {.mac = MAC_B, .ip = IP(1)}, self = own;
	uint8_t frame[ARP_FRAME_BYTES], answer[ARP_FRAME_BYTES];
	uint64_t from = 0;

	(void)state;
	arp_question(frame, &thief, IP(1));
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 5, answer, &from), ARP_TAKEN);
	assert_int_equal(from, MAC_B);
	/* what a switch sends back of our own */
	arp_question(frame, &self, IP(1));
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 5, answer, &from), ARP_IGNORED);
}

static void
arp_in__malformed(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} wrong[] = {{14, 9}, {15, 6}, {16, 9}, {17, 1}, {18, 8}, {19, 6}, {20, 1}, {21, 0},
		{21, 3}, {22, 0xFF}};
	uint8_t frame[ARP_FRAME_BYTES], answer[ARP_FRAME_BYTES];
	uint64_t from;

	(void)state;
	arp_use(&a, own.link, IP(2));
	for (uint32_t len = 0; len < sizeof(question); len++)
		assert_int_equal(arp_in(&a, &own, question, len, 5, answer, &from), ARP_IGNORED);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(frame, question, sizeof(frame));
		frame[wrong[i].at] = wrong[i].value;
		assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 5, answer, &from),
			ARP_IGNORED);
	}
	memcpy(frame, question, sizeof(frame));
	memset(frame + 22, 0, 6);
	assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 5, answer, &from), ARP_IGNORED);
	assert_int_equal(atomic_load(&arp_neighbour(&a, 1)->mac), 0);
}

static void
arp_question_due__times(void **state)
{
	const uint32_t n = arp_use(&a, own.link, IP(2));
	uint8_t answer[ARP_FRAME_BYTES];
	uint64_t now = 1000000, from;

	(void)state;
	assert_true(arp_question_due(&a, n, now));
	assert_false(arp_question_due(&a, n, now + ARP_AGAIN_MS * MS - 1));
	now += ARP_AGAIN_MS * MS;
	assert_true(arp_question_due(&a, n, now));
	arp_in(&a, &own, question, sizeof(question), now, answer, &from);
	assert_false(arp_question_due(&a, n, now + ARP_AGAIN_MS * MS));
	assert_false(arp_question_due(&a, n, now + ARP_FRESH_MS * MS - 1));
	now += ARP_FRESH_MS * MS;
	assert_true(arp_question_due(&a, n, now));
	assert_false(arp_question_due(&a, n, now + 1));
	assert_int_equal(atomic_load(&arp_neighbour(&a, n)->mac), MAC_B); /* still in use */
}

static void
arp_use__as_many_as_there_are_users(void **state)
{
	(void)state;
	const uint32_t first = arp_use(&a, 0, IP(9));

	assert_int_equal(arp_use(&a, 0, IP(9)), first);
	for (uint32_t i = 0; i < SIZE - 1; i++)
		assert_int_not_equal(arp_use(&a, 0, IP(8 - i)), 0);
	assert_int_equal(arp_use(&a, 0, IP(100)), 0);
	arp_unuse(&a, first);
	assert_int_equal(arp_use(&a, 0, IP(100)), 0);
	arp_unuse(&a, first);
	assert_int_equal(arp_use(&a, 0, IP(100)), first);
	assert_int_equal(atomic_load(&arp_neighbour(&a, first)->asked), 0);
}

/* Compares the table with a list of 64 addresses that come and go, and are heard, at random. */
static void
arp_table__random(void **state)
{
	struct {
		uint32_t users, number;
		uint64_t mac;
	} model[64] = {0};
	uint32_t used = 0;
	uint8_t frame[ARP_FRAME_BYTES], answer[ARP_FRAME_BYTES];
	uint64_t from;

	(void)state;
	srand(7);
	for (int step = 0; step < 200000; step++) {
		const uint32_t i = (uint32_t)rand() % 64;
		const struct arp_port who = {
			.mac = 0x020000000000u + (uint32_t)rand() % 255 + 2,
			.ip = IP(100 + i),
		};

		if (rand() % 3 == 0) {
			const uint32_t number = arp_use(&a, own.link, who.ip);

			assert_int_equal(number != 0, model[i].users != 0 || used < SIZE);
			if (number == 0)
				continue;
			if (model[i].users++ == 0) {
				used++;
				model[i].number = number;
				model[i].mac = 0;
			}
			assert_int_equal(number, model[i].number);
		} else if (rand() % 2 == 0 && model[i].users != 0) {
			arp_unuse(&a, model[i].number);
			used -= --model[i].users == 0;
		} else {
			arp_question(frame, &who, IP(50));
			assert_int_equal(arp_in(&a, &own, frame, sizeof(frame), 1, answer, &from),
				model[i].users != 0 ? ARP_LEARNT : ARP_IGNORED);
			if (model[i].users != 0)
				model[i].mac = who.mac;
		}
		if (model[i].users != 0)
			assert_int_equal(atomic_load(&arp_neighbour(&a, model[i].number)->mac),
				model[i].mac);
	}
}

static void
arp_in__random_bytes(void **state)
{
	uint8_t answer[ARP_FRAME_BYTES];
	uint64_t from;

	(void)state;
	srand(8);
	arp_use(&a, own.link, IP(2));
	for (int i = 0; i < 1000000; i++) {
		const uint32_t len = (uint32_t)rand() % 64;
		uint8_t *frame = malloc(len + 1); /* of its own, for sanitizers */

		for (uint32_t k = 0; k < len; k++)
			frame[k] = (uint8_t)(rand() % 3 != 0 && k < sizeof(question) ? question[k]
										     : rand());
		const enum arp_result r = arp_in(&a, &own, frame, len, 5, answer, &from);
		const uint64_t mac = atomic_load(&arp_neighbour(&a, 1)->mac);

		assert_true(r == ARP_IGNORED || (from != 0 && from != own.mac));
		assert_false(mac & (1ull << 40));
		free(frame);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(arp_in__a_question_for_us_is_answered, setup,
			teardown),
		cmocka_unit_test_setup_teardown(arp_question__golden, setup, teardown),
		cmocka_unit_test_setup_teardown(
			arp_in__questions_and_answers_teach_an_address_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(arp_in__the_same_address_on_another_link_is_another,
			setup, teardown),
		cmocka_unit_test_setup_teardown(arp_in__our_address_at_another, setup, teardown),
		cmocka_unit_test_setup_teardown(arp_in__malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(arp_question_due__times, setup, teardown),
		cmocka_unit_test_setup_teardown(arp_use__as_many_as_there_are_users, setup,
			teardown),
		cmocka_unit_test_setup_teardown(arp_table__random, setup, teardown),
		cmocka_unit_test_setup_teardown(arp_in__random_bytes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
