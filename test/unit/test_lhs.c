/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the LHS ring: what an entry holds (LHS-1), its settings (LHS-2), order and laps
 * (LHS-3), envelope and front in one piece (LHS-5), marks over the wrap of positions, and writer
 * and reader in two threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "core/lhs/lhs.h"

#define ENTRIES 8

static _Alignas(64) uint8_t memory[1024 * LHS_ENTRY_MAX];
static struct lhs_end writer, reader;

static void
make(const struct lhs_config *c)
{
	assert_true(lhs_config_ok(c));
	memset(memory, 0, sizeof(memory));
	lhs_end_init(&writer, c, memory);
	lhs_end_init(&reader, c, memory);
}

static void
make_default(void)
{
	make(&(struct lhs_config){ENTRIES, 64, 40, LHS_SIZE_OFFSET});
}

static void
write_number(uint32_t i)
{
	lhs_write(&writer, 1, 2, sizeof(i), LHS_NO_BULK, 0, &i, sizeof(i));
}

static uint32_t
read_number(void)
{
	const struct lhs_entry *e = lhs_peek(&reader);
	uint32_t i;

	assert_non_null(e);
	memcpy(&i, e->front, sizeof(i));
	reader.pos++;
	return i;
}

static void
lhs_1__short_message_is_whole_in_its_entry(void **state)
{
	uint8_t bytes[40];

	(void)state;
	make_default();
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	lhs_write(&writer, 3, 4, sizeof(bytes), LHS_NO_BULK, 0, bytes, sizeof(bytes));
	const struct lhs_entry *e = lhs_peek(&reader);

	assert_non_null(e);
	assert_int_equal(lhs_len(&reader, e), sizeof(bytes));
	assert_int_equal(e->src_node, 3);
	assert_int_equal(e->src_ctx, 4);
	assert_int_equal(e->bulk, LHS_NO_BULK);
	assert_memory_equal(e->front, bytes, sizeof(bytes));
}

static void
lhs_1__long_message_leaves_front_and_place_of_the_rest(void **state)
{
	uint8_t bytes[1000];

	(void)state;
	make_default();
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	lhs_write(&writer, 3, 4, sizeof(bytes), 77, -123456789012, bytes, reader.split);
	const struct lhs_entry *e = lhs_peek(&reader);

	assert_non_null(e);
	assert_int_equal(lhs_len(&reader, e), sizeof(bytes));
	assert_int_equal(e->bulk, 77);
	assert_true(e->bulk_off == -123456789012);
	assert_memory_equal(e->front, bytes, reader.split);
}

static void
lhs_1__empty_message(void **state)
{
	(void)state;
	make_default();
	lhs_write(&writer, 0, 0, 0, LHS_NO_BULK, 0, NULL, 0);
	assert_non_null(lhs_peek(&reader));
	assert_int_equal(lhs_len(&reader, lhs_peek(&reader)), 0);
}

static void
lhs_2__entry_of_128_bytes_holds_104(void **state)
{
	uint8_t bytes[104];

	(void)state;
	make(&(struct lhs_config){ENTRIES, 128, 104, LHS_SIZE_OFFSET});
	memset(bytes, 0xA5, sizeof(bytes));
	lhs_write(&writer, 1, 1, 104, LHS_NO_BULK, 0, bytes, 104);
	lhs_write(&writer, 1, 2, 104, LHS_NO_BULK, 0, bytes, 104);
	assert_memory_equal(lhs_peek(&reader)->front, bytes, 104);
	reader.pos++;
	assert_int_equal(lhs_peek(&reader)->src_ctx, 2);
	assert_ptr_equal(lhs_peek(&reader), memory + 128);
}

static void
lhs_2__size_stands_where_it_is_configured(void **state)
{
	uint32_t len, off;

	(void)state;
	for (off = 28; off <= 60; off += 4) {
		make(&(struct lhs_config){ENTRIES, 64, off - LHS_ENVELOPE_BYTES, off});
		lhs_write(&writer, 1, 2, 123456, 5, 64, "0123456789012345678901234567890123456789",
			off - LHS_ENVELOPE_BYTES);
		memcpy(&len, memory + off, sizeof(len));
		assert_int_equal(len, 123456);
		assert_int_equal(lhs_len(&reader, lhs_peek(&reader)), 123456);
		assert_memory_equal(lhs_peek(&reader)->front,
			"0123456789012345678901234567890123456789", off - LHS_ENVELOPE_BYTES);
	}
}

static void
lhs_2__split_of_0(void **state)
{
	(void)state;
	make(&(struct lhs_config){ENTRIES, 64, 0, LHS_SIZE_OFFSET});
	lhs_write(&writer, 1, 2, 1, 9, 64, NULL, 0);
	assert_int_equal(lhs_peek(&reader)->bulk, 9);
}

static void
lhs_config_ok__refuses(void **state)
{
	static const struct lhs_config bad[] = {
		{8, 32, 0, 4}, {8, 96, 0, 4}, {8, 256, 0, 4},          /* entry_bytes */
		{0, 64, 40, 4}, {6, 64, 40, 4}, {1u << 21, 64, 40, 4}, /* entries */
		{8, 64, 41, 4}, {8, 128, 105, 4},                      /* split */
		{8, 64, 0, 0}, {8, 64, 0, 8}, {8, 64, 0, 20},          /* in the envelope */
		{8, 64, 0, 26}, {8, 64, 0, 62}, {8, 64, 0, 64},        /* not aligned, beyond */
		{8, 64, 8, 28}, {8, 64, 37, 60},                       /* front over size */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(lhs_config_ok(&bad[i]));
	assert_true(lhs_config_ok(&(struct lhs_config){1u << 20, 128, 100, 124}));
	assert_true(lhs_config_ok(&(struct lhs_config){1, 64, 0, 24}));
}

static void
lhs_3__entries_stand_in_order_at_line_stride(void **state)
{
	(void)state;
	make_default();
	for (uint32_t i = 0; i < ENTRIES; i++)
		write_number(i);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		assert_ptr_equal(lhs_peek(&reader), memory + i * 64);
		assert_int_equal(read_number(), i);
	}
	assert_null(lhs_peek(&reader));
}

static void
lhs_3__old_lap_is_never_valid(void **state)
{
	(void)state;
	make_default();
	for (uint32_t lap = 0; lap < 5; lap++) {
		for (uint32_t i = 0; i < ENTRIES; i++)
			write_number(lap * ENTRIES + i);
		for (uint32_t i = 0; i < ENTRIES; i++)
			assert_int_equal(read_number(), lap * ENTRIES + i);
		assert_null(lhs_peek(&reader));
	}
}

static void
lhs_3__positions_wrap(void **state)
{
	(void)state;
	make_default();
	writer.pos = reader.pos = UINT32_MAX - 2 * ENTRIES + 1;
	for (uint32_t i = 0; i < 4 * ENTRIES; i++) {
		assert_null(lhs_peek(&reader));
		write_number(i);
		assert_int_equal(read_number(), i);
	}
	assert_int_equal(reader.pos, 2 * ENTRIES);
}

static void
lhs_4__unfinished_entry_is_not_seen(void **state)
{
	(void)state;
	make_default();
	write_number(1);
	struct lhs_entry *e = lhs_at(&writer, 1);

	e->len = 4;
	e->bulk = LHS_NO_BULK;
	assert_int_equal(read_number(), 1);
	assert_null(lhs_peek(&reader)); /* no mark yet */
}

static void
lhs_5__envelope_and_front_are_in_one_line(void **state)
{
	(void)state;
	make_default();
	assert_true(offsetof(struct lhs_entry, front) + reader.split == 64);
	for (uint32_t i = 0; i < ENTRIES; i++)
		assert_int_equal((uintptr_t)lhs_at(&reader, i) % 64, 0);
}

/* ------------------------------------------------------------------ two threads */

#define LITMUS_N       3000000u
#define LITMUS_ENTRIES 1024

static _Atomic uint32_t taken;

static void *
write_many(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < LITMUS_N; i++) {
		uint32_t bytes[10];

		while (i - atomic_load_explicit(&taken, memory_order_acquire) >= LITMUS_ENTRIES)
			sched_yield();
		for (unsigned k = 0; k < 10; k++)
			bytes[k] = i * 10 + k;
		lhs_write(&writer, (uint16_t)i, (uint16_t)(i >> 16), i, i, (int64_t)i * 64, bytes,
			40);
	}
	return NULL;
}

static void
litmus__reader_never_sees_half_an_entry(void **state)
{
	pthread_t thread;
	uint32_t i = 0, wrong = 0;

	(void)state;
	make(&(struct lhs_config){LITMUS_ENTRIES, 64, 40, LHS_SIZE_OFFSET});
	writer.pos = reader.pos = UINT32_MAX - LITMUS_N / 2;
	atomic_store(&taken, 0);
	assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
	while (i < LITMUS_N) {
		const struct lhs_entry *e = lhs_peek(&reader);
		uint32_t bytes[10];

		if (e == NULL) {
			sched_yield();
			continue;
		}
		memcpy(bytes, e->front, sizeof(bytes));
		wrong += lhs_len(&reader, e) != i || e->bulk != i ||
			e->bulk_off != (int64_t)i * 64 || e->src_node != (uint16_t)i ||
			e->src_ctx != (uint16_t)(i >> 16);
		for (unsigned k = 0; k < 10; k++)
			wrong += bytes[k] != i * 10 + k;
		reader.pos++;
		if (++i % 64 == 0)
			atomic_store_explicit(&taken, i, memory_order_release);
	}
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
	assert_null(lhs_peek(&reader));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lhs_1__short_message_is_whole_in_its_entry),
		cmocka_unit_test(lhs_1__long_message_leaves_front_and_place_of_the_rest),
		cmocka_unit_test(lhs_1__empty_message),
		cmocka_unit_test(lhs_2__entry_of_128_bytes_holds_104),
		cmocka_unit_test(lhs_2__size_stands_where_it_is_configured),
		cmocka_unit_test(lhs_2__split_of_0),
		cmocka_unit_test(lhs_config_ok__refuses),
		cmocka_unit_test(lhs_3__entries_stand_in_order_at_line_stride),
		cmocka_unit_test(lhs_3__old_lap_is_never_valid),
		cmocka_unit_test(lhs_3__positions_wrap),
		cmocka_unit_test(lhs_4__unfinished_entry_is_not_seen),
		cmocka_unit_test(lhs_5__envelope_and_front_are_in_one_line),
		cmocka_unit_test(litmus__reader_never_sees_half_an_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
