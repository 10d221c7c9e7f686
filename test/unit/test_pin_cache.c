/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pin-down cache: its rules one by one, and random histories against a model that has a mark
 * for every page.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rma/client/pin_cache.h"

#define PAGE  4096ull
#define PAGES 256

/* The record of what the cache did with the pages of a pretended memory at BASE. */
#define BASE 0x7f0000000000ull
static bool pinned[PAGES];
static unsigned pins, unpins, pages_left; /* pages_left: that may be pinned before a limit */
static int pin_error;

static uint32_t
page_of(uint64_t addr)
{
	assert_true(addr >= BASE && addr < BASE + PAGES * PAGE && addr % PAGE == 0);
	return (uint32_t)((addr - BASE) / PAGE);
}

static int
pin(void *arg, uint64_t addr, uint64_t len)
{
	uint32_t first = page_of(addr), n = (uint32_t)(len / PAGE);

	(void)arg;
	assert_true(len > 0 && len % PAGE == 0 && first + n <= PAGES);
	if (pin_error)
		return pin_error;
	if (n > pages_left)
		return -ENOMEM;
	pages_left -= n;
	pins++;
	for (uint32_t i = first; i < first + n; i++) {
		assert_false(pinned[i]);
		pinned[i] = true;
	}
	return 0;
}

static void
unpin(void *arg, uint64_t addr, uint64_t len)
{
	uint32_t first = page_of(addr), n = (uint32_t)(len / PAGE);

	(void)arg;
	assert_true(len > 0 && len % PAGE == 0 && first + n <= PAGES);
	pages_left += n;
	unpins++;
	for (uint32_t i = first; i < first + n; i++) {
		assert_true(pinned[i]);
		pinned[i] = false;
	}
}

static struct pin_cache_config
config(void)
{
	memset(pinned, 0, sizeof(pinned));
	pins = unpins = 0;
	pages_left = PAGES;
	pin_error = 0;
	return (struct pin_cache_config){
		.page_bytes = PAGE,
		.bytes_max = 64 * PAGE,
		.merge_bytes = 64 * PAGE,
		.entries_max = 16,
		.ops = {pin, unpin, NULL},
	};
}

static uint32_t
get(struct pin_cache *c, uint32_t page, uint32_t n)
{
	uint32_t ref = PIN_NONE;

	assert_int_equal(pin_cache_get(c, BASE + page * PAGE + 7, n * PAGE - 7, &ref), 0);
	return ref;
}

static void
use(struct pin_cache *c, uint32_t page, uint32_t n)
{
	pin_cache_put(c, get(c, page, n));
}

static struct pin_cache_stat
stat_of(struct pin_cache *c)
{
	struct pin_cache_stat s;

	pin_cache_stat(c, &s);
	return s;
}

static void
end(struct pin_cache *c)
{
	assert_int_equal(stat_of(c).in_use, 0);
	pin_cache_free(c);
	for (uint32_t i = 0; i < PAGES; i++)
		assert_false(pinned[i]);
}

/* ------------------------------------------------------------------ one by one */

static void
pin_1__what_is_contained_is_a_hit(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);
	uint32_t ref;

	(void)state;
	use(c, 10, 5);
	assert_int_equal(pins, 1);
	use(c, 10, 5);
	use(c, 12, 1);
	assert_int_equal(pin_cache_get(c, BASE + 15 * PAGE - 1, 1, &ref), 0); /* its last byte */
	pin_cache_put(c, ref);
	assert_int_equal(pins, 1);
	assert_int_equal(stat_of(c).hits, 3);
	assert_int_equal(stat_of(c).misses, 1);
	assert_int_equal(pin_cache_get(c, BASE + 15 * PAGE - 1, 2, &ref), 0); /* and one beyond */
	pin_cache_put(c, ref);
	assert_int_equal(stat_of(c).misses, 2);
	assert_int_equal(stat_of(c).entries, 1);
	assert_int_equal(stat_of(c).pinned_bytes, 6 * PAGE);
	end(c);
}

static void
pin_1__neighbours_become_one_entry(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);

	(void)state;
	use(c, 0, 4);
	use(c, 8, 4);
	use(c, 4, 4);
	assert_int_equal(stat_of(c).entries, 1);
	assert_int_equal(pins, 3);
	use(c, 0, 12);
	assert_int_equal(pins, 3);
	/* only what is missing is pinned */
	use(c, 20, 2);
	use(c, 30, 2);
	use(c, 10, 30);
	assert_int_equal(pins, 5 + 3);
	assert_int_equal(stat_of(c).pinned_bytes, 40 * PAGE);
	end(c);
}

static void
pin_1__merge_bytes_is_a_bound(void **state)
{
	struct pin_cache_config cfg = config();

	(void)state;
	cfg.merge_bytes = 6 * PAGE;
	struct pin_cache *c = pin_cache_new(&cfg);

	use(c, 0, 4);
	use(c, 4, 4);
	assert_int_equal(stat_of(c).entries, 2);
	use(c, 8, 2);
	assert_int_equal(stat_of(c).entries, 2);
	use(c, 2, 4); /* overlaps both: must be one */
	assert_int_equal(stat_of(c).entries, 1);
	end(c);
}

static void
pin_2__the_least_recently_used_goes(void **state)
{
	struct pin_cache_config cfg = config();

	(void)state;
	cfg.bytes_max = 4 * PAGE;
	struct pin_cache *c = pin_cache_new(&cfg);

	use(c, 0, 2);
	use(c, 10, 2);
	use(c, 0, 1);
	use(c, 20, 2);
	assert_true(pinned[0] && pinned[20]);
	assert_false(pinned[10]);
	assert_int_equal(stat_of(c).evictions, 1);
	end(c);
}

static void
pin_2__entries_are_bounded_too(void **state)
{
	struct pin_cache_config cfg = config();

	(void)state;
	cfg.entries_max = 3;
	struct pin_cache *c = pin_cache_new(&cfg);

	for (uint32_t i = 0; i < 20; i++)
		use(c, 3 * i, 1);
	assert_int_equal(stat_of(c).entries, 3);
	assert_int_equal(stat_of(c).evictions, 17);
	end(c);
}

static void
pin_2__what_is_in_use_stays(void **state)
{
	struct pin_cache_config cfg = config();
	uint32_t ref;

	(void)state;
	cfg.bytes_max = 4 * PAGE;
	struct pin_cache *c = pin_cache_new(&cfg);
	uint32_t a = get(c, 0, 2), b = get(c, 10, 2);

	assert_int_equal(pin_cache_get(c, BASE + 20 * PAGE, 1, &ref), -ENOMEM);
	assert_int_equal(stat_of(c).refusals, 1);
	pin_cache_put(c, a);
	assert_int_equal(pin_cache_get(c, BASE + 20 * PAGE, 1, &ref), 0);
	assert_false(pinned[0]);
	pin_cache_put(c, b);
	pin_cache_put(c, ref);
	end(c);
}

static void
pin_2__limits_of_the_system_count(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);
	uint32_t ref;

	(void)state;
	pages_left = 4;
	use(c, 0, 2);
	use(c, 10, 2);
	use(c, 20, 3); /* both go */
	assert_int_equal(stat_of(c).evictions, 2);
	assert_int_equal(pin_cache_get(c, BASE, 5 * PAGE, &ref), -ENOMEM);
	pin_error = -EPERM;
	assert_int_equal(pin_cache_get(c, BASE, 1, &ref), -EPERM);
	pin_error = 0;
	end(c);
}

static void
pin_3__putting_back_unpins_nothing(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);

	(void)state;
	use(c, 0, 2);
	assert_int_equal(unpins, 0);
	pin_cache_flush(c);
	assert_int_equal(unpins, 1);
	assert_int_equal(stat_of(c).pinned_bytes, 0);
	end(c);
}

static void
pin_4__unmapped_memory_is_not_found(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);

	(void)state;
	use(c, 0, 10);
	for (uint32_t i = 3; i < 5; i++) { /* the kernel's doing */
		pinned[i] = false;
		pages_left++;
	}
	pin_cache_invalidate(c, BASE + 3 * PAGE, 2 * PAGE, true);
	assert_int_equal(unpins, 0);
	assert_int_equal(stat_of(c).entries, 2);
	assert_int_equal(stat_of(c).pinned_bytes, 8 * PAGE);
	use(c, 0, 3);
	use(c, 5, 5);
	assert_int_equal(pins, 1);
	use(c, 2, 2); /* pinned anew */
	assert_int_equal(pins, 2);
	assert_true(pinned[3]);
	end(c);
}

static void
pin_4__even_while_in_use(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);
	uint32_t a = get(c, 0, 10), b = get(c, 0, 4);

	(void)state;
	pin_cache_invalidate(c, BASE + 4 * PAGE, PAGE, false);
	assert_false(pinned[4]);
	uint32_t d = get(c, 4, 1);

	assert_true(pinned[4]);
	pin_cache_put(c, b);
	pin_cache_flush(c);
	assert_true(pinned[0] && pinned[9]); /* a holds what is left of its entry */
	pin_cache_put(c, d);
	pin_cache_put(c, a);
	pin_cache_flush(c);
	assert_false(pinned[0] || pinned[9]);
	end(c);
}

/* Check that what was unmapped while it was in use keeps its place only until it is put back. */
static void
pin_4__unmapped_in_use_leaves_no_place_taken(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);
	size_t before = 0;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t a = get(c, 0, 10);

		pin_cache_invalidate(c, BASE, 10 * PAGE, false);
		pin_cache_put(c, a);
		if (i == 100)
			before = mallinfo2().uordblks;
	}
	assert_true(mallinfo2().uordblks <= before);
	end(c);
}

static void
pin_5__off_pins_each_time(void **state)
{
	struct pin_cache_config cfg = config();

	(void)state;
	cfg.off = true;
	struct pin_cache *c = pin_cache_new(&cfg);

	for (int i = 0; i < 5; i++)
		use(c, 0, 2);
	assert_int_equal(pins, 5);
	assert_int_equal(unpins, 5);
	assert_int_equal(stat_of(c).hits, 0);
	end(c);
}

static void
pin_cache_get__refuses_what_wraps(void **state)
{
	struct pin_cache_config cfg = config();
	struct pin_cache *c = pin_cache_new(&cfg);
	uint32_t ref;

	(void)state;
	assert_int_equal(pin_cache_get(c, UINT64_MAX - 100, 200, &ref), -EFAULT);
	assert_int_equal(pin_cache_get(c, UINT64_MAX - 100, 50, &ref), -EFAULT);
	assert_int_equal(pin_cache_get(c, BASE, 0, &ref), -EFAULT);
	end(c);
}

/* ------------------------------------------------------------------ random histories */

#define REFS 24

struct held {
	bool used;
	uint32_t ref, page, n;
	bool cut[PAGES]; /* invalidated since */
};

static uint64_t seed;

static uint32_t
below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

/* Invalidate pages, whoever holds them: gone without a call, or to be unpinned. */
static void
invalidate(struct pin_cache *c, struct held *held, uint32_t page, uint32_t n)
{
	bool gone = below(2);

	for (uint32_t i = page; gone && i < page + n; i++) {
		pages_left += pinned[i];
		pinned[i] = false;
	}
	pin_cache_invalidate(c, BASE + page * PAGE, n * PAGE, gone);
	for (uint32_t i = page; i < page + n; i++) {
		assert_false(pinned[i]);
		for (int k = 0; k < REFS; k++)
			held[k].cut[i] |= held[k].used;
	}
}

/* Check that what is pinned is counted, and that what is held is pinned or was invalidated. */
static void
check_pinned(struct pin_cache *c, const struct held *held, uint64_t bytes_max)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < PAGES; i++)
		total += pinned[i];
	struct pin_cache_stat s = stat_of(c);

	assert_int_equal(s.pinned_bytes, total * PAGE);
	assert_true(s.pinned_bytes <= bytes_max);
	for (int k = 0; k < REFS; k++) {
		for (uint32_t i = held[k].page; held[k].used && i < held[k].page + held[k].n; i++)
			assert_true(pinned[i] || held[k].cut[i]);
	}
}

static void
one_history(uint64_t number)
{
	struct pin_cache_config cfg = config();
	struct held held[REFS] = {0};

	seed = number;
	cfg.bytes_max = (1 + below(PAGES)) * PAGE;
	cfg.entries_max = 1 + below(30);
	cfg.merge_bytes = below(2) ? cfg.bytes_max : below(20) * PAGE;
	cfg.off = below(20) == 0;
	pages_left = below(3) ? PAGES : 1 + below(PAGES);
	struct pin_cache *c = pin_cache_new(&cfg);

	for (int step = 0; step < 400; step++) {
		struct held *h = &held[below(REFS)];
		uint32_t page = below(PAGES), n = 1 + below(below(2) ? 4 : 40), what = below(10);

		n = page + n > PAGES ? PAGES - page : n;
		if (what < 7 && !h->used) {
			struct pin_cache_stat before = stat_of(c);
			int r = pin_cache_get(c, BASE + page * PAGE + below(PAGE),
				(n - 1) * PAGE + 1, &h->ref);

			assert_true(r == 0 || r == -ENOMEM);
			if (r != 0)
				continue;
			*h = (struct held){.used = true, .ref = h->ref, .page = page, .n = n};
			struct pin_cache_stat after = stat_of(c);

			assert_int_equal(after.hits + after.misses,
				before.hits + before.misses + 1);
		} else if (what < 9 && h->used) {
			pin_cache_put(c, h->ref);
			h->used = false;
		} else if (what == 9 && below(3) == 0) {
			invalidate(c, held, page, n);
		}
		check_pinned(c, held, cfg.bytes_max);
	}
	for (int k = 0; k < REFS; k++) {
		if (held[k].used)
			pin_cache_put(c, held[k].ref);
	}
	assert_true(stat_of(c).entries <= cfg.entries_max);
	end(c);
}

static void
pin_cache__random_histories(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 3000; i++)
		one_history(i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pin_1__what_is_contained_is_a_hit),
		cmocka_unit_test(pin_1__neighbours_become_one_entry),
		cmocka_unit_test(pin_1__merge_bytes_is_a_bound),
		cmocka_unit_test(pin_2__the_least_recently_used_goes),
		cmocka_unit_test(pin_2__entries_are_bounded_too),
		cmocka_unit_test(pin_2__what_is_in_use_stays),
		cmocka_unit_test(pin_2__limits_of_the_system_count),
		cmocka_unit_test(pin_3__putting_back_unpins_nothing),
		cmocka_unit_test(pin_4__unmapped_memory_is_not_found),
		cmocka_unit_test(pin_4__even_while_in_use),
		cmocka_unit_test(pin_4__unmapped_in_use_leaves_no_place_taken),
		cmocka_unit_test(pin_5__off_pins_each_time),
		cmocka_unit_test(pin_cache_get__refuses_what_wraps),
		cmocka_unit_test(pin_cache__random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
