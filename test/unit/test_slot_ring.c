/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the slot ring: full and empty, the consumer's lazy position, groups that appear at
 * once, positions that the other side made up, the wrap of 32 bits, and both ends in two threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "channel/slot_ring.h"

#define SLOTS 16

static struct slot slots[1024];
static _Atomic uint32_t published;
static struct slot_end producer, consumer;

static void
make(uint32_t count)
{
	memset(slots, 0, sizeof(slots));
	atomic_store(&published, 0);
	slot_end_init(&producer, slots, count, &published);
	slot_end_init(&consumer, slots, count, &published);
}

static int
setup(void **state)
{
	(void)state;
	make(SLOTS);
	return 0;
}

static void
put(uint32_t i)
{
	memcpy(slot_at(&producer, producer.pos)->body, &i, sizeof(i));
	slot_publish(&producer, producer.pos++);
}

static uint32_t
take(bool now)
{
	uint32_t i;

	assert_true(slot_filled(&consumer, consumer.pos));
	memcpy(&i, slot_at(&consumer, consumer.pos)->body, sizeof(i));
	slot_take(&consumer, 1, now);
	return i;
}

static void
slot_filled__empty(void **state)
{
	(void)state;
	assert_false(slot_filled(&consumer, 0));
	assert_true(slot_room(&producer, SLOTS));
	assert_false(slot_room(&producer, SLOTS + 1));
}

static void
slot_room__full(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_true(slot_room(&producer, 1));
		put(i);
	}
	assert_false(slot_room(&producer, 1));
	take(true);
	assert_true(slot_room(&producer, 1));
	assert_false(slot_room(&producer, 2));
}

static void
slot_take__publishes_late(void **state)
{
	(void)state;
	assert_int_equal(consumer.publish, SLOTS / 8);
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i);
	take(false);
	assert_int_equal(atomic_load(&published), 0);
	assert_false(slot_room(&producer, 1));
	take(false);
	assert_int_equal(atomic_load(&published), 2);
	assert_true(slot_room(&producer, 2));
	take(false);
	assert_int_equal(atomic_load(&published), 2);
	take(true);
	assert_int_equal(atomic_load(&published), 4);
}

static void
slot_end_init__smallest_publishes_each(void **state)
{
	(void)state;
	make(4);
	assert_int_equal(consumer.publish, 1);
}

static void
slot_publish__group_appears_at_once(void **state)
{
	(void)state;
	/* the second and third are filled first, the first one last */
	slot_publish(&producer, 1);
	slot_publish(&producer, 2);
	assert_false(slot_filled(&consumer, 0));
	slot_publish(&producer, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(slot_filled(&consumer, i));
	assert_false(slot_filled(&consumer, 3));
}

static void
slot_filled__old_lap(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5 * SLOTS; i++) {
		assert_false(slot_filled(&consumer, consumer.pos));
		assert_true(slot_room(&producer, 1));
		put(i);
		assert_int_equal(take(false), i);
	}
}

static void
slot_room__impossible_positions_look_full(void **state)
{
	static const uint32_t wrong[] = {SLOTS + 1, 1000, 0x80000000u, UINT32_MAX - SLOTS};

	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		atomic_store(&published, wrong[i]);
		assert_false(slot_room(&producer, 1));
		assert_int_equal(producer.other, 0);
	}
	/* and a right one is believed again */
	atomic_store(&published, 3);
	assert_true(slot_room(&producer, 3));
}

static void
slot_room__position_that_goes_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i);
	for (uint32_t i = 0; i < SLOTS; i++)
		take(true);
	assert_true(slot_room(&producer, SLOTS));
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i);
	atomic_store(&published, 2);
	assert_false(slot_room(&producer, 1));
}

static void
positions__wrap(void **state)
{
	(void)state;
	producer.pos = producer.other = consumer.pos = consumer.other = UINT32_MAX - SLOTS - 5;
	atomic_store(&published, producer.pos);
	for (uint32_t i = 0; i < 8 * SLOTS; i += 4) {
		for (uint32_t k = 0; k < 4; k++) {
			assert_true(slot_room(&producer, 1));
			put(i + k);
		}
		for (uint32_t k = 0; k < 4; k++)
			assert_int_equal(take(false), i + k);
	}
	assert_true(producer.pos < 8 * SLOTS);
}

/* ------------------------------------------------------------------ two threads */

#define LITMUS_N 3000000u

static void *
produce(void *arg)
{
	uint32_t i = 0;

	(void)arg;
	while (i < LITMUS_N) {
		uint32_t group = 1 + i % 3;

		if (!slot_room(&producer, group)) {
			sched_yield();
			continue;
		}
		/* a group: the first is published last */
		for (uint32_t k = group; k-- > 0;) {
			uint32_t *body = (uint32_t *)slot_at(&producer, producer.pos + k)->body;

			for (uint32_t w = 0; w < 15; w++)
				body[w] = (i + k) * 15 + w;
			slot_publish(&producer, producer.pos + k);
		}
		producer.pos += group;
		i += group;
	}
	return NULL;
}

static void
litmus__consumer_never_sees_half_a_slot_or_group(void **state)
{
	pthread_t thread;
	uint32_t i = 0, wrong = 0;

	(void)state;
	make(256);
	producer.pos = producer.other = consumer.pos = consumer.other = UINT32_MAX - LITMUS_N / 2;
	atomic_store(&published, producer.pos);
	assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
	while (i < LITMUS_N) {
		uint32_t group = 1 + i % 3;

		if (!slot_filled(&consumer, consumer.pos)) {
			sched_yield();
			continue;
		}
		for (uint32_t k = 0; k < group; k++) {
			wrong += !slot_filled(&consumer, consumer.pos + k);
			const uint32_t *body =
				(const uint32_t *)slot_at(&consumer, consumer.pos + k)->body;

			for (uint32_t w = 0; w < 15; w++)
				wrong += body[w] != (i + k) * 15 + w;
		}
		slot_take(&consumer, group, false);
		i += group;
	}
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(slot_filled__empty, setup),
		cmocka_unit_test_setup(slot_room__full, setup),
		cmocka_unit_test_setup(slot_take__publishes_late, setup),
		cmocka_unit_test_setup(slot_end_init__smallest_publishes_each, setup),
		cmocka_unit_test_setup(slot_publish__group_appears_at_once, setup),
		cmocka_unit_test_setup(slot_filled__old_lap, setup),
		cmocka_unit_test_setup(slot_room__impossible_positions_look_full, setup),
		cmocka_unit_test_setup(slot_room__position_that_goes_back, setup),
		cmocka_unit_test_setup(positions__wrap, setup),
		cmocka_unit_test(litmus__consumer_never_sees_half_a_slot_or_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
