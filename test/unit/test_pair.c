/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the ring that two contexts share: messages of all lengths across its end, full and
 * empty, words and positions that the other side made up, and both ends in two threads. And of the
 * room for long messages beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "channel/pair.h"

static struct pair_shm shm;
static struct pair_end writer, reader;

static int
setup(void **state)
{
	(void)state;
	memset(&shm, 0, sizeof(shm));
	writer = reader = (struct pair_end){
		.ring = shm.ring[0][0],
		.taken = &shm.side[1].say[0].taken,
	};
	return 0;
}

static uint64_t
draw(void)
{
	static uint64_t x = 1;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static bool
put(uint32_t len, uint8_t first)
{
	uint8_t *to = pair_begin(&writer, len);

	if (to == NULL)
		return false;
	assert_in_range((uintptr_t)to, (uintptr_t)shm.ring[0][0],
		(uintptr_t)shm.ring[0][0] + PAIR_RING_BYTES - len);
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)(first + i);
	pair_publish(&writer, len);
	return true;
}

/* The next message, which must be there. */
static const uint8_t *
find(uint64_t *word, uint32_t *len)
{
	const uint8_t *message;

	if (pair_peek(&reader, word, &message, len) == PAIR_FOUND)
		return message;
	fail();
	abort();
}

static void
take(uint32_t len, uint8_t first)
{
	uint64_t word;
	uint32_t got;
	const uint8_t *message = find(&word, &got);

	assert_int_equal(got, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(message[i], (uint8_t)(first + i));
	pair_take(&reader, word);
}

static enum pair_found
peek(void)
{
	const uint8_t *message;
	uint64_t word;
	uint32_t len;

	return pair_peek(&reader, &word, &message, &len);
}

/* Random numbers of messages of random lengths, over many laps. */
static void
pair_ring__every_length_across_the_end(void **state)
{
	uint32_t lens[4096];
	uint8_t n = 0, taken = 0;

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		unsigned sent = 0, most = (unsigned)(1 + draw() % 60);

		while (sent < most) {
			lens[sent] = (uint32_t)(draw() %
				(draw() % 8 == 0             ? PAIR_MESSAGE + 1
						: draw() % 4 ? 100
							     : 3000));
			if (!put(lens[sent], n))
				break;
			sent++;
			n++;
		}
		assert_true(sent > 0); /* all has been taken, so there is room for any message */
		for (unsigned i = 0; i < sent; i++)
			take(lens[i], taken++);
		assert_int_equal(peek(), PAIR_NOTHING);
	}
	assert_true(writer.pos > 10 * PAIR_RING_BYTES);
}

static void
pair_ring__full(void **state)
{
	uint32_t n = 0;

	(void)state;
	while (put(56, (uint8_t)n))
		n++;
	/* one line stays free, so that the reader finds an end */
	assert_int_equal(n, PAIR_RING_BYTES / PAIR_LINE - 1);
	for (uint32_t i = 0; i < n; i++)
		take(56, (uint8_t)i);
	assert_int_equal(peek(), PAIR_NOTHING);
	assert_true(put(PAIR_MESSAGE, 7));
	take(PAIR_MESSAGE, 7);
}

/* Check that what an earlier lap left is never taken for a word. */
static void
pair_ring__old_bytes_are_no_words(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4 * PAIR_RING_BYTES / 1024; i++) {
		uint8_t *to = pair_begin(&writer, 1000);
		uint64_t word;
		uint32_t len;

		assert_non_null(to);
		memset(to, 0x41, 1000);
		pair_publish(&writer, 1000);
		find(&word, &len);
		pair_take(&reader, word);
		assert_int_equal(peek(), PAIR_NOTHING);
	}
}

static void
set_word(uint64_t word)
{
	atomic_store(pair_word(&reader, reader.pos), word);
}

static void
pair_peek__made_up_words(void **state)
{
	static const uint64_t wrong[] = {
		PAIR_WORD(0, 1),
		PAIR_WORD(63, 1),
		PAIR_WORD(64, 57),
		PAIR_WORD(64, UINT32_MAX - 2),
		PAIR_WORD(0, PAIR_LONG),
		PAIR_WORD(PAIR_RING_BYTES, PAIR_LONG),
		PAIR_WORD(PAIR_RING_BYTES, 1),
		PAIR_WORD(PAIR_RING_BYTES / 4 + 64, 1),
		PAIR_WORD(64, PAIR_EMPTY),
		PAIR_WORD(PAIR_RING_BYTES, PAIR_EMPTY),
		PAIR_WORD(UINT32_MAX & ~63u, 1),
		UINT64_MAX,
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set_word(wrong[i]);
		assert_int_equal(peek(), PAIR_BROKEN);
	}
	/* a record that goes beyond the end */
	reader.pos = PAIR_RING_BYTES - 64;
	set_word(PAIR_WORD(128, 1));
	assert_int_equal(peek(), PAIR_BROKEN);
	/* whatever stands there, what is found lies in the ring */
	for (unsigned i = 0; i < 1000000; i++) {
		const uint8_t *message;
		uint64_t word;
		uint32_t len;

		reader.pos = (uint32_t)(draw() % (PAIR_RING_BYTES / 64)) * 64;
		set_word(draw() % 2 ? draw()
				    : PAIR_WORD(64 * (draw() % 600),
					      draw() % 4 ? draw() % 40000 : PAIR_EMPTY));
		if (pair_peek(&reader, &word, &message, &len) != PAIR_FOUND)
			continue;
		assert_in_range((uintptr_t)message, (uintptr_t)shm.ring[0][0],
			(uintptr_t)shm.ring[0][0] + PAIR_RING_BYTES - len);
	}
}

static void
pair_begin__made_up_position(void **state)
{
	(void)state;
	while (put(56, 0))
		;
	atomic_store(&shm.side[1].say[0].taken, writer.pos + 64);
	assert_null(pair_begin(&writer, 8));
	atomic_store(&shm.side[1].say[0].taken, writer.pos - PAIR_RING_BYTES - 64);
	assert_null(pair_begin(&writer, 8));
	atomic_store(&shm.side[1].say[0].taken, writer.pos);
	assert_non_null(pair_begin(&writer, 8));
}

#define MESSAGES 300000

static void *
write_all(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < MESSAGES; i++) {
		uint32_t len = (uint32_t)(8 + i * 37 % 500);
		uint8_t *to;

		while ((to = pair_begin(&writer, len)) == NULL)
			sched_yield();
		memcpy(to, &i, sizeof(i));
		memset(to + 8, (int)i, len - 8);
		pair_publish(&writer, len);
	}
	return NULL;
}

static void
pair_ring__two_threads(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, write_all, NULL), 0);
	for (uint64_t i = 0, got; i < MESSAGES; i++) {
		uint64_t word;
		uint32_t len;

		while (peek() == PAIR_NOTHING)
			sched_yield();
		const uint8_t *message = find(&word, &len);

		memcpy(&got, message, sizeof(got));
		assert_int_equal(got, i);
		assert_int_equal(len, 8 + i * 37 % 500);
		for (uint32_t k = 8; k < len; k++)
			assert_int_equal(message[k], (uint8_t)i);
		pair_take(&reader, word);
	}
	pthread_join(thread, NULL);
}

/* ------------------------------------------------------------------ long messages */

static struct pair_longs longs;
/* The messages under way, by slot; len 0: none. */
static struct pair_long live[PAIR_LONGS];

static int
setup_longs(void **state)
{
	setup(state);
	memset(&longs, 0, sizeof(longs));
	memset(live, 0, sizeof(live));
	longs.at = shm.longs[0];
	longs.given = &shm.side[1].longs;
	return 0;
}

static bool
add_long(uint32_t len)
{
	struct pair_long l;

	if (!pair_long_begin(&longs, len, &l))
		return false;
	assert_true(pair_long_ok(&l));
	assert_int_equal(l.len, len);
	assert_int_equal(live[l.slot].len, 0);
	for (unsigned i = 0; i < PAIR_LONGS; i++) {
		if (live[i].len != 0 && live[i].start < l.start + l.len &&
			l.start < live[i].start + live[i].len)
			fail_msg("[%u, +%u) lies over [%u, +%u)", l.start, l.len, live[i].start,
				live[i].len);
	}
	live[l.slot] = l;
	return true;
}

static void
give_long(uint32_t slot)
{
	pair_long_give(&shm.side[1], slot);
	live[slot].len = 0;
}

static void
pair_long__random(void **state)
{
	unsigned full = 0;

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		const uint32_t most = draw() % 64 == 0 ? PAIR_LONG_BYTES / 3 : 50000;
		const uint32_t slot = (uint32_t)(draw() % PAIR_LONGS);

		/* for some time more comes than is given back, then the other way round */
		if (draw() % 4 < (i / 1000 % 2 ? 3 : 1))
			full += !add_long(1 + (uint32_t)(draw() % most));
		else if (live[slot].len != 0)
			give_long(slot);
	}
	assert_in_range(full, 1000, 200000);
	for (uint32_t i = 0; i < PAIR_LONGS; i++) {
		if (live[i].len != 0)
			give_long(i);
	}
	assert_true(add_long(PAIR_LONG_BYTES));
	assert_false(add_long(1));
	assert_false(add_long(PAIR_LONG_BYTES + 1));
}

/* A stream whose reader keeps up uses the same memory again, for short messages after a few. */
static void
pair_long__stays_near(void **state)
{
	(void)state;
	for (uint32_t len = 2048; len <= 1 << 20; len *= 2) {
		for (unsigned i = 0; i < 1000; i++) {
			struct pair_long l = {0};

			assert_true(pair_long_begin(&longs, len, &l));
			assert_in_range(l.start, 0, len <= PAIR_NEAR ? 2 * PAIR_NEAR : 2 * len);
			pair_long_give(&shm.side[1], l.slot);
		}
	}
}

/* Bytes run out before slots do where lengths are mixed; what is given back then is found. */
static void
pair_long__mixed_lengths(void **state)
{
	(void)state;
	assert_true(add_long(2048));
	assert_true(add_long(2 << 20));
	assert_true(add_long(2 << 20));
	assert_true(add_long(2 << 20));
	assert_false(add_long(3 << 20));
	for (uint32_t i = 0; i < PAIR_LONGS; i++) {
		if (live[i].len != 0)
			give_long(i);
	}
	assert_true(add_long(3 << 20));
}

static void
pair_long__made_up_returns(void **state)
{
	struct pair_long l;

	(void)state;
	for (unsigned i = 0; i < PAIR_LONGS; i++)
		assert_true(add_long(100));
	assert_false(add_long(100));
	for (unsigned i = 0; i < 100000; i++) {
		/* whatever it says, what is begun lies inside, and at most as many are under way */
		atomic_store(&shm.side[1].longs, draw());
		if (pair_long_begin(&longs, (uint32_t)(draw() % PAIR_LONG_BYTES), &l))
			assert_true(pair_long_ok(&l));
		assert_in_range(longs.count, 0, PAIR_LONGS);
		assert_int_equal(longs.count, __builtin_popcountll(longs.used));
	}
}

static void
pair_long__made_up_places(void **state)
{
	static const struct pair_long wrong[] = {
		{0, PAIR_LONG_BYTES + 1, 0, 0},
		{1, PAIR_LONG_BYTES, 0, 0},
		{UINT32_MAX, 1, 0, 0},
		{UINT32_MAX - 9, 10, 0, 0},
		{10, UINT32_MAX - 9, 0, 0},
		{0, 1, PAIR_LONGS, 0},
		{0, 1, UINT32_MAX, 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(pair_long_ok(&wrong[i]));
	assert_true(pair_long_ok(&(struct pair_long){PAIR_LONG_BYTES - 1, 1, PAIR_LONGS - 1, 0}));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pair_ring__every_length_across_the_end, setup),
		cmocka_unit_test_setup(pair_ring__full, setup),
		cmocka_unit_test_setup(pair_ring__old_bytes_are_no_words, setup),
		cmocka_unit_test_setup(pair_peek__made_up_words, setup),
		cmocka_unit_test_setup(pair_begin__made_up_position, setup),
		cmocka_unit_test_setup(pair_ring__two_threads, setup),
		cmocka_unit_test_setup(pair_long__random, setup_longs),
		cmocka_unit_test_setup(pair_long__stays_near, setup_longs),
		cmocka_unit_test_setup(pair_long__mixed_lengths, setup_longs),
		cmocka_unit_test_setup(pair_long__made_up_returns, setup_longs),
		cmocka_unit_test_setup(pair_long__made_up_places, setup_longs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
