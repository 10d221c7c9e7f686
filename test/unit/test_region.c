/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of regions: every access from outside is judged as a model with a mark for every byte
 * judges it; keys are not guessed, and die with their region.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rma/region.h"

#define BASE 0x7f0000001000ull

static struct region places[8];
static struct region_table table;
static uint64_t seed = 1;

static uint64_t
draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed ^ seed >> 29;
}

static void
fresh(void)
{
	memset(places, 0, sizeof(places));
	region_table_init(&table, places, 8);
}

static struct region
added(uint16_t ctx, uint64_t base, uint64_t len, uint8_t rights, uint32_t area)
{
	struct region r = {.base = base, .len = len, .area = area, .ctx = ctx, .rights = rights};

	assert_int_equal(region_add(&table, &r, draw()), 0);
	return r;
}

static enum region_verdict
check(const struct region_access *a)
{
	const struct region *r = NULL;
	uint64_t offset = 0;
	enum region_verdict v = region_check(&table, a, &r, &offset);

	if (v == REGION_OK) {
		assert_non_null(r);
		assert_true(offset + a->len <= r->len);
		assert_int_equal(offset, a->key ? a->at - r->base : a->at);
	}
	return v;
}

static void
rma_3__bounds(void **state)
{
	fresh();
	struct region r = added(3, BASE, 100, REGION_READ | REGION_WRITE, 7);
	const struct {
		uint64_t offset, len;
		enum region_verdict says;
	} cases[] = {
		{0, 0, REGION_OK},
		{0, 100, REGION_OK},
		{99, 1, REGION_OK},
		{100, 0, REGION_OK},
		{0, 101, REGION_BOUNDS},
		{100, 1, REGION_BOUNDS},
		{101, 0, REGION_BOUNDS},
		{(uint64_t)-1, 1, REGION_BOUNDS},
		{(uint64_t)-1, 2, REGION_BOUNDS},
		{50, UINT64_MAX, REGION_BOUNDS},
		{50, UINT64_MAX - 49, REGION_BOUNDS},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct region_access a = {
			.key = r.key,
			.ctx = 3,
			.right = REGION_WRITE,
			.at = BASE + cases[i].offset,
			.len = cases[i].len,
		};

		assert_int_equal(check(&a), cases[i].says);
		a.key = 0;
		a.area = 7;
		a.insider = true;
		a.at = cases[i].offset;
		assert_int_equal(check(&a), cases[i].says);
	}
}

static void
rma_3__rights_and_owner(void **state)
{
	fresh();
	struct region r = added(3, BASE, 100, REGION_READ, REGION_NO_AREA);
	struct region_access a = {
		.key = r.key,
		.ctx = 3,
		.right = REGION_READ,
		.at = BASE,
		.len = 10,
	};

	(void)state;
	assert_int_equal(check(&a), REGION_OK);
	a.right = REGION_WRITE;
	assert_int_equal(check(&a), REGION_RIGHTS);
	a.right = REGION_READ | REGION_WRITE;
	assert_int_equal(check(&a), REGION_RIGHTS);
	a.right = REGION_READ;
	a.ctx = 4;
	assert_int_equal(check(&a), REGION_STRANGER);
	a.ctx = 3;
	a.key = 0;
	a.area = REGION_NO_AREA; /* that is no name */
	assert_int_equal(check(&a), REGION_UNKNOWN);
}

static void
rma_3__keys_die_with_their_region(void **state)
{
	fresh();
	struct region r = added(3, BASE, 100, REGION_READ, 1), other;
	struct region_access a = {
		.key = r.key,
		.ctx = 3,
		.right = REGION_READ,
		.at = BASE,
		.len = 10,
	};

	(void)state;
	for (uint32_t bit = 0; bit < 64; bit++) { /* none next to it is one */
		a.key = r.key ^ 1ull << bit;
		assert_int_equal(check(&a), REGION_UNKNOWN);
	}
	a.key = r.key;
	region_remove(&table, region_find(&table, r.key));
	assert_int_equal(check(&a), REGION_UNKNOWN);
	other = added(3, BASE, 100, REGION_READ, 1); /* in the same place */
	assert_int_equal(other.key & 0xFFFF, r.key & 0xFFFF);
	assert_int_equal(check(&a), REGION_UNKNOWN);
	a.key = other.key;
	assert_int_equal(check(&a), REGION_OK);
	/* random bits that are all 0 still make a key */
	region_remove(&table, region_find(&table, other.key));
	r = (struct region){.base = BASE, .len = 1, .area = 1, .ctx = 3, .rights = REGION_READ};
	assert_int_equal(region_add(&table, &r, 0), 0);
	assert_true(r.key >= 1 << 16);
}

/* An area ID can be guessed, so it names nothing to who is neither its context nor a member of its
 * group. */
static void
rhi_area__is_for_insiders(void **state)
{
	fresh();
	struct region r = added(3, BASE, 100, REGION_READ, 7);
	struct region_access a = {.area = 7, .ctx = 3, .right = REGION_READ, .len = 10};

	(void)state;
	assert_int_equal(check(&a), REGION_RIGHTS);
	a.insider = true;
	assert_int_equal(check(&a), REGION_OK);
	a.group = 1; /* the group's areas have IDs of their own */
	assert_int_equal(check(&a), REGION_UNKNOWN);
	struct region of_group = {
		.base = BASE + 1000,
		.len = 100,
		.area = 7,
		.group = 1,
		.ctx = 3,
		.rights = REGION_READ,
	};
	assert_int_equal(region_add(&table, &of_group, draw()), 0);
	assert_int_equal(check(&a), REGION_OK);
	a.insider = false;
	assert_int_equal(check(&a), REGION_OUTSIDER);
	/* a key cannot be guessed */
	a = (struct region_access){.key = r.key, .ctx = 3, .right = REGION_READ, .at = BASE};
	assert_int_equal(check(&a), REGION_OK);
	added(3, BASE, 100, REGION_READ | REGION_ANYONE, 8);
	a = (struct region_access){.area = 8, .ctx = 3, .right = REGION_READ, .len = 10};
	assert_int_equal(check(&a), REGION_OK);
	a.right = REGION_WRITE;
	assert_int_equal(check(&a), REGION_RIGHTS);
}

static void
region_add__refuses(void **state)
{
	struct region r = {.base = BASE, .len = 10, .area = 5, .ctx = 1, .rights = REGION_READ},
		      bad;

	(void)state;
	fresh();
	bad = r, bad.rights = REGION_ANYONE;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	bad = r, bad.len = 0;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	bad = r, bad.len = REGION_BYTES_MAX + 1;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	bad = r, bad.base = UINT64_MAX - 5;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	bad = r, bad.rights = 0;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	bad = r, bad.rights = 4;
	assert_int_equal(region_add(&table, &bad, 1), -EINVAL);
	assert_int_equal(region_add(&table, &r, 1), 0);
	bad = r;
	assert_int_equal(region_add(&table, &bad, 1), -EEXIST);
	bad.ctx = 2; /* IDs are each context's own */
	assert_int_equal(region_add(&table, &bad, 1), 0);
	r.area = REGION_NO_AREA;
	for (int i = 2; i < 8; i++)
		assert_int_equal(region_add(&table, &r, (uint64_t)i), 0);
	assert_int_equal(region_add(&table, &r, 9), -ENOSPC);
}

/* Random regions and accesses against a byte for byte model of a small memory. */
static void
rma_3__random_accesses(void **state)
{
	enum { BYTES = 64 };
	struct region have[8];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		unsigned n = 0;

		fresh();
		while (n < 8 && draw() % 8) {
			uint64_t begin = draw() % BYTES, len = 1 + draw() % (BYTES - begin);

			have[n] = added((uint16_t)(draw() % 2), BASE + begin, len,
				(uint8_t)(1 + draw() % 3), n);
			n++;
		}
		for (int i = 0; i < 100 && n; i++) {
			const struct region *r = &have[draw() % n];
			struct region_access a = {
				.key = r->key,
				.ctx = (uint16_t)(draw() % 2),
				.right = (uint8_t)(1 + draw() % 2),
				.at = BASE + draw() % BYTES,
				.len = draw() % BYTES,
			};
			bool inside = true;

			for (uint64_t b = a.at; b < a.at + a.len; b++)
				inside &= b >= r->base && b < r->base + r->len;
			inside &= a.at >= r->base && a.at <= r->base + r->len;
			enum region_verdict v = check(&a);

			assert_int_equal(v == REGION_OK,
				inside && r->ctx == a.ctx && r->rights & a.right);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rma_3__bounds),
		cmocka_unit_test(rma_3__rights_and_owner),
		cmocka_unit_test(rma_3__keys_die_with_their_region),
		cmocka_unit_test(rhi_area__is_for_insiders),
		cmocka_unit_test(region_add__refuses),
		cmocka_unit_test(rma_3__random_accesses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
