/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When a core counts as contended: lib/base/contended.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/contended.h"

#define US      1000 /* a clock of nanoseconds */
#define SHORTLY (CONTENDED_YIELD_US * US)
#define LONG    (SHORTLY + 1)

/* Yield at `at`, which takes so long. Return for how long the core counts as contended then. */
static uint64_t
yielded(struct contended *c, uint64_t at, uint64_t takes)
{
	contended_learn(c, at, at + takes, US);
	return c->until > at + takes ? c->until - (at + takes) : 0;
}

static void
contended__a_short_yield_tells_nothing(void **state)
{
	struct contended c = {0};

	(void)state;
	assert_int_equal(yielded(&c, 1000, SHORTLY), 0);
	assert_false(is_contended(&c, 1000 + SHORTLY));
	assert_false(is_contended(&c, 0));
}

static void
contended__single_long_yields_tell_nothing(void **state)
{
	struct contended c = {0};

	(void)state;
	for (unsigned i = 1; i < 100; i++)
		assert_int_equal(yielded(&c, i * 3 * LONG, LONG), 0);
}

static void
contended__long_yields_that_take_half_of_the_time_do(void **state)
{
	struct contended c = {0};
	uint64_t now = 1000, taken = 0, lasts;

	(void)state;
	while ((lasts = yielded(&c, now, LONG)) == 0) {
		now += LONG + LONG / 4;
		taken += LONG;
		assert_true(taken < 4 * CONTENDED_LEVEL_US * US);
	}
	assert_true(taken > CONTENDED_LEVEL_US * US);
	assert_int_equal(lasts, CONTENDED_LEAST_US * US);
	assert_true(is_contended(&c, now + LONG));
	assert_true(is_contended(&c, c.until - 1));
	assert_false(is_contended(&c, c.until));
}

static void
contended__the_while_doubles_up_to_a_bound(void **state)
{
	struct contended c = {0};
	uint64_t expected = CONTENDED_LEAST_US * US;

	(void)state;
	while (yielded(&c, c.until, 4 * LONG) == 0) {
	}
	for (unsigned i = 0; i < 10; i++) {
		expected = expected * 2 < CONTENDED_MOST_US * US ? expected * 2
								 : CONTENDED_MOST_US * US;
		assert_int_equal(yielded(&c, c.until, LONG), expected);
	}
	assert_int_equal(expected, CONTENDED_MOST_US * US);
}

static void
contended__short_yields_end_it(void **state)
{
	struct contended c = {0};
	uint64_t now;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		yielded(&c, c.until, 4 * LONG);
	/* one that was short by chance halves what the next long one brings */
	assert_int_equal(yielded(&c, c.until, 300), 0);
	assert_int_equal(yielded(&c, c.until, LONG), CONTENDED_MOST_US * US);
	now = c.until;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(yielded(&c, now += 1000, 300), 0);
	assert_int_equal(yielded(&c, now, LONG), 0);
}

static void
contended__runnable_ones_are_counted(void **state)
{
	(void)state;
	assert_int_equal(contended_runnable("0.00 0.01 0.05 3/93 1234\n"), 3);
	assert_int_equal(contended_runnable("12.50 10.01 9.05 412/1093 65534\n"), 412);
	assert_int_equal(contended_runnable(""), 0);
	assert_int_equal(contended_runnable("1 2"), 0);
	assert_int_equal(contended_runnable("1 2 3 what"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contended__a_short_yield_tells_nothing),
		cmocka_unit_test(contended__single_long_yields_tell_nothing),
		cmocka_unit_test(contended__long_yields_that_take_half_of_the_time_do),
		cmocka_unit_test(contended__the_while_doubles_up_to_a_bound),
		cmocka_unit_test(contended__short_yields_end_it),
		cmocka_unit_test(contended__runnable_ones_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
