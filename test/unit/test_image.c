/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the image that a primary hands to the one that takes over: what was put comes back,
 * in its order, and what is not there is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/image.h"

static void
image__comes_back_in_its_order(void **state)
{
	struct image_out out = {0};
	uint8_t bytes[300], copy[300];

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	for (uint32_t len = 0; len < sizeof(bytes); len++) {
		image_put(&out, &len, sizeof(len));
		image_put(&out, bytes, len);
	}
	assert_false(out.failed);
	struct image_in in = {out.at, out.at + out.len};

	for (uint32_t len = 0, got; len < sizeof(bytes); len++) {
		assert_true(image_get(&in, &got, sizeof(got)));
		assert_int_equal(got, len);
		assert_true(image_get(&in, copy, len));
		assert_memory_equal(copy, bytes, len);
	}
	assert_ptr_equal(in.at, in.end);
	free(out.at);
}

static void
image__refuses_what_is_not_there(void **state)
{
	const uint8_t bytes[] = {1, 2, 3};
	uint8_t copy[4] = {9, 9, 9, 9};
	struct image_in in = {bytes, bytes + sizeof(bytes)};

	(void)state;
	assert_false(image_get(&in, copy, 4));
	assert_null(image_part(&in, SIZE_MAX));
	assert_ptr_equal(in.at, bytes);
	assert_int_equal(copy[0], 9);
	assert_ptr_equal(image_part(&in, 3), bytes);
	assert_non_null(image_part(&in, 0));
	assert_false(image_get(&in, copy, 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(image__comes_back_in_its_order),
		cmocka_unit_test(image__refuses_what_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
