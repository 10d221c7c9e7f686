/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the latency histogram of pmx-perf: exactness of small values, the bound of the
 * relative error over the whole range, percentile ranks, merge and the two ends of the range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hist.h"

static struct hist a, b;

static int
setup(void **state)
{
	(void)state;
	hist_init(&a);
	hist_init(&b);
	return 0;
}

static void
hist_init__is_empty(void **state)
{
	(void)state;
	assert_int_equal(hist_count(&a), 0);
	assert_int_equal(hist_min(&a), 0);
	assert_int_equal(hist_max(&a), 0);
	assert_int_equal(hist_mean(&a), 0);
	assert_int_equal(hist_percentile(&a, 500000), 0);
}

static void
hist_index__is_dense_and_in_order(void **state)
{
	uint32_t last = hist_index(0);

	(void)state;
	assert_int_equal(last, 0);
	for (uint64_t v = 1; v < 1u << 20; v++) {
		uint32_t i = hist_index(v);

		assert_true(i == last || i == last + 1);
		last = i;
	}
	assert_int_equal(hist_index(HIST_VALUE_MAX), HIST_BUCKETS - 1);
	assert_int_equal(hist_index(UINT64_MAX), HIST_BUCKETS - 1);
}

static void
hist_percentile__small_values_exact(void **state)
{
	(void)state;
	for (uint64_t v = 1; v <= 100; v++)
		hist_record(&a, v);
	assert_int_equal(hist_percentile(&a, 0), 1);
	assert_int_equal(hist_percentile(&a, 10000), 1);
	assert_int_equal(hist_percentile(&a, 500000), 50);
	assert_int_equal(hist_percentile(&a, 500001), 51);
	assert_int_equal(hist_percentile(&a, 990000), 99);
	assert_int_equal(hist_percentile(&a, 999000), 100);
	assert_int_equal(hist_percentile(&a, 1000000), 100);
	assert_int_equal(hist_mean(&a), 50);
}

/* Three values of which the searched one is in the middle, so that min and max do not clamp it. */
static void
check_error_of(uint64_t v)
{
	uint64_t got;

	hist_init(&a);
	hist_record(&a, 0);
	hist_record(&a, v);
	hist_record(&a, UINT64_MAX);
	got = hist_percentile(&a, 500000);
	assert_true(got >= v);
	assert_true((got - v) * 1000 <= v * 16);
}

static void
hist_percentile__error_below_1_6_percent(void **state)
{
	(void)state;
	for (uint64_t v = 1; v < 100000000000; v += 1 + v / 997)
		check_error_of(v);
	for (unsigned int bit = 0; bit < 36; bit++) {
		check_error_of(UINT64_C(1) << bit);
		check_error_of((UINT64_C(2) << bit) - 2);
	}
}

static void
hist_percentile__never_beyond_max(void **state)
{
	(void)state;
	hist_record(&a, 1000001);
	assert_int_equal(hist_percentile(&a, 1), 1000001);
	assert_int_equal(hist_percentile(&a, 500000), 1000001);
	assert_int_equal(hist_percentile(&a, 999999), 1000001);
}

static void
hist_percentile__rank_of_rare_values(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 999; i++)
		hist_record(&a, 10);
	hist_record(&a, 100);
	assert_int_equal(hist_percentile(&a, 999000), 10);
	assert_int_equal(hist_percentile(&a, 999001), 100);
}

static void
hist_percentile__huge_count_does_not_overflow(void **state)
{
	(void)state;
	a.count = UINT64_C(1) << 60;
	a.min_ns = 5;
	a.max_ns = 7;
	a.buckets[5] = UINT64_C(1) << 59;
	a.buckets[7] = UINT64_C(1) << 59;
	assert_int_equal(hist_percentile(&a, 499999), 5);
	assert_int_equal(hist_percentile(&a, 500001), 7);
}

static void
hist_record__zero(void **state)
{
	(void)state;
	hist_record(&a, 0);
	assert_int_equal(hist_count(&a), 1);
	assert_int_equal(hist_percentile(&a, 500000), 0);
}

static void
hist_record__beyond_range(void **state)
{
	(void)state;
	hist_record(&a, 1);
	hist_record(&a, UINT64_C(1) << 40);
	hist_record(&a, UINT64_C(1) << 40);
	assert_int_equal(hist_max(&a), UINT64_C(1) << 40);
	assert_int_equal(hist_percentile(&a, 900000), UINT64_C(1) << 40);
}

static void
hist_merge__same_as_recorded_in_one(void **state)
{
	static struct hist all;
	uint64_t v = 12345;

	(void)state;
	hist_init(&all);
	for (uint32_t i = 0; i < 10000; i++) {
		v = v * 6364136223846793005u + 1442695040888963407u;
		hist_record(i % 3 ? &a : &b, v >> 40);
		hist_record(&all, v >> 40);
	}
	hist_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(a));
}

static void
hist_merge__with_empty(void **state)
{
	(void)state;
	hist_record(&a, 42);
	hist_merge(&a, &b);
	assert_int_equal(hist_count(&a), 1);
	assert_int_equal(hist_min(&a), 42);
	hist_merge(&b, &a);
	assert_int_equal(hist_min(&b), 42);
	assert_int_equal(hist_max(&b), 42);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(hist_init__is_empty, setup),
		cmocka_unit_test_setup(hist_index__is_dense_and_in_order, setup),
		cmocka_unit_test_setup(hist_percentile__small_values_exact, setup),
		cmocka_unit_test_setup(hist_percentile__error_below_1_6_percent, setup),
		cmocka_unit_test_setup(hist_percentile__never_beyond_max, setup),
		cmocka_unit_test_setup(hist_percentile__rank_of_rare_values, setup),
		cmocka_unit_test_setup(hist_percentile__huge_count_does_not_overflow, setup),
		cmocka_unit_test_setup(hist_record__zero, setup),
		cmocka_unit_test_setup(hist_record__beyond_range, setup),
		cmocka_unit_test_setup(hist_merge__same_as_recorded_in_one, setup),
		cmocka_unit_test_setup(hist_merge__with_empty, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
