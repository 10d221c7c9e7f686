/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed frames: both libraries make the same of all lengths, every changed bit is noticed, and no
 * frame is taken twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mix.h"
#include "seal/seal.h"

#define FRAME_MAX (WIRE_HDR_BYTES + 9000)

static const struct cipher *const ciphers[] = {&cipher_ipsec_mb, &cipher_openssl};

/* One end that seals and one that opens. */
struct ends {
	const struct cipher *c;
	struct seal_tx tx;
	struct seal_rx rx;
};

static void *
key_new(const struct cipher *c, uint8_t first)
{
	const uint8_t secret[CIPHER_KEY_BYTES] = {first, 2, 3, 4, 5, 6, 7, 8, 9};
	void *key = aligned_alloc(64, (c->key_bytes + 63) / 64 * 64);

	assert_non_null(key);
	assert_true(c->key_make(key, secret));
	return key;
}

static struct ends *
ends_new(const struct cipher *c)
{
	struct ends *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->c = c;
	e->tx = (struct seal_tx){key_new(c, 1), 1, 0xABCDEF10};
	e->rx.key = key_new(c, 1);
	return e;
}

static void
ends_free(struct ends *e)
{
	e->c->key_end(e->tx.key);
	e->c->key_end(e->rx.key);
	free(e->tx.key);
	free(e->rx.key);
	free(e);
}

static uint32_t
frame_make(uint8_t *frame, uint32_t payload, uint64_t seed)
{
	const struct wire_fields f = {
		.type = WIRE_DATA,
		.src_node = 1,
		.dst_node = 2,
		.payload_len = (uint16_t)payload,
		.session = (uint32_t)mix64(seed) | 1,
		.seq = (uint32_t)seed,
	};

	wire_put(frame, &f);
	for (uint32_t i = 0; i < payload; i++)
		frame[WIRE_HDR_BYTES + i] = (uint8_t)mix64(seed + i);
	return WIRE_HDR_BYTES + payload;
}

static void
seal__all_lengths_are_the_same_by_both_libraries(void **state)
{
	(void)state;
	if (!cipher_ipsec_mb.works()) {
		print_message("# skipped: no instructions for AES on this CPU\n");
		skip();
	}
	struct ends *a = ends_new(&cipher_ipsec_mb), *b = ends_new(&cipher_openssl);
	static uint8_t frame[FRAME_MAX], by_a[FRAME_MAX + 64], by_b[FRAME_MAX + 64];

	for (enum seal_mode mode = SEAL_AUTH; mode <= SEAL_SEAL; mode++) {
		for (uint32_t payload = 0; payload <= 9000; payload++) {
			const uint32_t len = frame_make(frame, payload, payload);
			const uint32_t sealed = seal_frame(a->c, &a->tx, mode, frame, len, by_a);

			assert_int_equal(sealed, len + SEAL_TRAILER_BYTES);
			assert_int_equal(seal_frame(b->c, &b->tx, mode, frame, len, by_b), sealed);
			assert_memory_equal(by_a, by_b, sealed);
			/* each opens the other's */
			assert_int_equal(seal_open(b->c, &b->rx, mode, by_a, sealed), SEAL_OK);
			assert_memory_equal(by_a, frame, len);
			assert_int_equal(seal_open(a->c, &a->rx, mode, by_b, sealed), SEAL_OK);
			assert_memory_equal(by_b, frame, len);
		}
	}
	ends_free(a);
	ends_free(b);
}

static void
seal__hides_the_payload_and_auth_does_not(void **state)
{
	struct ends *e = ends_new(cipher_best());
	uint8_t frame[WIRE_HDR_BYTES + 64], out[sizeof(frame) + SEAL_TRAILER_BYTES];
	const uint32_t len = frame_make(frame, 64, 7);

	(void)state;
	seal_frame(e->c, &e->tx, SEAL_AUTH, frame, len, out);
	assert_memory_equal(out + WIRE_HDR_BYTES, frame + WIRE_HDR_BYTES, 64);
	seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, out);
	for (unsigned i = 0; i + 8 <= 64; i++)
		assert_memory_not_equal(out + WIRE_HDR_BYTES + i, frame + WIRE_HDR_BYTES + i, 8);
	ends_free(e);
}

static void
seal__every_changed_bit_is_noticed(void **state)
{
	uint8_t frame[WIRE_HDR_BYTES + 40], sealed[sizeof(frame) + SEAL_TRAILER_BYTES];

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		if (!ciphers[k]->works())
			continue;
		struct ends *e = ends_new(ciphers[k]);

		for (enum seal_mode mode = SEAL_AUTH; mode <= SEAL_SEAL; mode++) {
			const uint32_t len = frame_make(frame, 40, k);
			const uint32_t n = seal_frame(e->c, &e->tx, mode, frame, len, sealed);

			for (uint32_t bit = 0; bit < n * 8; bit++) {
				uint8_t changed[sizeof(sealed)];

				memcpy(changed, sealed, n);
				changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
				assert_int_not_equal(seal_open(e->c, &e->rx, mode, changed, n),
					SEAL_OK);
			}
			/* none of these counts as received */
			assert_int_equal(seal_open(e->c, &e->rx, mode, sealed, n), SEAL_OK);
			assert_int_equal(seal_open(e->c, &e->rx, mode, sealed, n), SEAL_REPLAYED);
		}
		ends_free(e);
	}
}

static void
seal__frames_that_are_too_short(void **state)
{
	struct ends *e = ends_new(cipher_best());
	uint8_t frame[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES] = {0};

	(void)state;
	for (uint32_t len = 0; len < sizeof(frame); len++)
		assert_int_equal(seal_open(e->c, &e->rx, SEAL_SEAL, frame, len), SEAL_SHORT);
	ends_free(e);
}

static void
seal__other_keys_and_modes_do_not_open(void **state)
{
	struct ends *e = ends_new(cipher_best());
	uint8_t frame[WIRE_HDR_BYTES + 8], sealed[sizeof(frame) + SEAL_TRAILER_BYTES];
	uint8_t copy[sizeof(sealed)];
	struct seal_rx other = {.key = key_new(e->c, 9)};
	const uint32_t len = frame_make(frame, 8, 3);
	const uint32_t n = seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, sealed);

	(void)state;
	memcpy(copy, sealed, n);
	assert_int_equal(seal_open(e->c, &other, SEAL_SEAL, copy, n), SEAL_FORGED);
	memcpy(copy, sealed, n);
	assert_int_equal(seal_open(e->c, &e->rx, SEAL_AUTH, copy, n), SEAL_FORGED);
	assert_int_equal(seal_open(e->c, &e->rx, SEAL_SEAL, sealed, n), SEAL_OK);
	e->c->key_end(other.key);
	free(other.key);
	ends_free(e);
}

/* Open a frame of that count, whatever else is in it. */
static enum seal_verdict
open_count(struct ends *e, uint64_t count)
{
	uint8_t frame[WIRE_HDR_BYTES], sealed[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES];
	const uint32_t len = frame_make(frame, 0, 1);

	e->tx.count = count;
	return seal_open(e->c, &e->rx, SEAL_SEAL, sealed,
		seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, sealed));
}

static void
window__takes_each_frame_once(void **state)
{
	struct ends *e = ends_new(cipher_best());
	static bool had[40000];
	uint64_t highest = 0;

	(void)state;
	/* random walks forwards with jumps back, against a list of all that came */
	for (uint64_t i = 0, at = 1; i < 200000 && at < 39000; i++) {
		const uint64_t r = mix64(i);
		const uint64_t back = r % 5 == 0 ? r / 5 % 9000 : 0;
		const uint64_t count = at > back ? at - back : 1;
		const bool old = highest >= count && highest - count >= SEAL_WINDOW - 64;
		const enum seal_verdict v = open_count(e, count);

		assert_int_equal(v, old || had[count] ? SEAL_REPLAYED : SEAL_OK);
		had[count] |= v == SEAL_OK;
		highest = count > highest && v == SEAL_OK ? count : highest;
		at += r % 7 == 0 ? r / 7 % 300 : r % 2;
	}
	assert_true(highest > 30000);
	ends_free(e);
}

static void
window__borders(void **state)
{
	const uint64_t edge = SEAL_WINDOW - 64;

	(void)state;
	for (uint64_t high = 20000; high < 20000 + 130; high++) {
		struct ends *e = ends_new(cipher_best());

		assert_int_equal(open_count(e, high), SEAL_OK);
		assert_int_equal(open_count(e, high - edge), SEAL_REPLAYED);
		assert_int_equal(open_count(e, high - edge + 1), SEAL_OK);
		assert_int_equal(open_count(e, high - edge + 1), SEAL_REPLAYED);
		assert_int_equal(open_count(e, high - 1), SEAL_OK);
		assert_int_equal(open_count(e, high), SEAL_REPLAYED);
		assert_int_equal(open_count(e, high + SEAL_WINDOW * 3), SEAL_OK);
		assert_int_equal(open_count(e, high + SEAL_WINDOW * 3 - edge + 1), SEAL_OK);
		ends_free(e);
	}
}

static void
seal__counts_pass_32_bits(void **state)
{
	static const uint64_t steps[] = {1, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x100000001,
		0x0FFFFFFF0, 0x17FFFFFFF, 0x1FFFFFFFE, 0x200000005, SEAL_COUNT_SOON};
	struct ends *e = ends_new(cipher_best());

	(void)state;
	assert_int_equal(open_count(e, 0x7FFFFFFF), SEAL_OK);
	for (size_t i = 1; i < sizeof(steps) / sizeof(steps[0]) - 1; i++) {
		assert_int_equal(open_count(e, steps[i]), SEAL_OK);
		assert_int_equal(open_count(e, steps[i]), SEAL_REPLAYED);
	}
	/* more than 2^31 lost in a row: not even an authentic frame is taken */
	assert_int_equal(open_count(e, steps[9]), SEAL_FORGED);
	ends_free(e);
}

static void
seal__a_key_ends_before_its_counts_do(void **state)
{
	struct ends *e = ends_new(cipher_best());
	uint8_t frame[WIRE_HDR_BYTES], sealed[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES];
	const uint32_t len = frame_make(frame, 0, 1);

	(void)state;
	e->tx.count = SEAL_COUNT_MAX;
	assert_int_not_equal(seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, sealed), 0);
	assert_int_equal(seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, sealed), 0);
	assert_int_equal(seal_frame(e->c, &e->tx, SEAL_SEAL, frame, len, sealed), 0);
	ends_free(e);
}

static void
seal__works_where_the_frame_lies(void **state)
{
	struct ends *e = ends_new(cipher_best());
	uint8_t frame[WIRE_HDR_BYTES + 100], at[sizeof(frame) + SEAL_TRAILER_BYTES];
	const uint32_t len = frame_make(frame, 100, 5);

	(void)state;
	memcpy(at, frame, len);
	const uint32_t n = seal_frame(e->c, &e->tx, SEAL_SEAL, at, len, at);

	assert_int_equal(seal_open(e->c, &e->rx, SEAL_SEAL, at, n), SEAL_OK);
	assert_memory_equal(at, frame, len);
	ends_free(e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seal__all_lengths_are_the_same_by_both_libraries),
		cmocka_unit_test(seal__hides_the_payload_and_auth_does_not),
		cmocka_unit_test(seal__every_changed_bit_is_noticed),
		cmocka_unit_test(seal__frames_that_are_too_short),
		cmocka_unit_test(seal__other_keys_and_modes_do_not_open),
		cmocka_unit_test(window__takes_each_frame_once),
		cmocka_unit_test(window__borders),
		cmocka_unit_test(seal__counts_pass_32_bits),
		cmocka_unit_test(seal__a_key_ends_before_its_counts_do),
		cmocka_unit_test(seal__works_where_the_frame_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
