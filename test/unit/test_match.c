/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lib/match against a reference model: two lists that are searched from the front. Every width of
 * vector that this CPU has.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mix.h"
#include "match/chains.h"
#include "match/heads.h"
#include "match/match.h"
#include "match/scan.h"

static const unsigned widths[] = {0, 256, 512};
#define WIDTHS (sizeof(widths) / sizeof(widths[0]))
#ifdef FEWER /* histories of the same length, moves: an emulator's build says how many */
#elif defined(__SANITIZE_ADDRESS__)
#define FEWER 4
#else
#define FEWER 1
#endif

static uint64_t random_state;

static uint32_t
below(uint32_t n)
{
	return (uint32_t)((mix64_next(&random_state) >> 32) * n >> 32);
}

/* ------------------------------------------------------------------ scans */

static void
scan__as_the_portable_one(void **state)
{
	static _Alignas(64) uint16_t prints[1024 + SCAN_SLACK];
	static _Alignas(64) uint64_t tags[1024 + SCAN_SLACK];
	const struct match_scan *plain = match_scan_for(0);

	(void)state;
	assert_string_equal(plain->name, "portable");
	random_state = 1;
	for (unsigned round = 0; round < 20000; round++) {
		const struct match_scan *scan = match_scan_for(widths[round % WIDTHS]);
		uint32_t kinds = 1 + below(200), end = below(1025), from = end ? below(end) : 0;
		uint64_t care = (uint64_t)below(4) << 62 | below(4);

		for (unsigned i = 0; i < 1024 + SCAN_SLACK; i++) {
			prints[i] = (uint16_t)below(kinds);
			tags[i] = (uint64_t)below(4) << 62 | below(4);
		}
		uint16_t want = (uint16_t)below(kinds);

		assert_int_equal(scan->equal(prints, from, end, want),
			plain->equal(prints, from, end, want));
		assert_int_equal(scan->masked(prints, tags, from, end, want, tags[0], care),
			plain->masked(prints, tags, from, end, want, tags[0], care));
	}
}

/* ------------------------------------------------------------------ unexpected */

struct message {
	struct match_key key;
	uint32_t where;
};

/* The model: what waits, oldest first. */
struct list {
	struct message *all;
	uint32_t n;
};

static int
list_find(const struct list *l, const struct match_want *want)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (match_accepts(want, &l->all[i].key))
			return (int)i;
	}
	return -1;
}

static void
list_remove(struct list *l, uint32_t i)
{
	memmove(&l->all[i], &l->all[i + 1], (--l->n - i) * sizeof(l->all[0]));
}

/* Few values, so that much matches; some with high bits. */
static struct match_key
some_key(uint32_t kinds)
{
	return (struct match_key){
		.comm = below(3) * 0x40000001u,
		.source = below(kinds),
		.tag = (uint64_t)below(kinds) << (below(2) ? 40 : 0),
	};
}

static struct match_want
some_want(uint32_t kinds)
{
	static const uint64_t ignores[] = {0, 0, 0, MATCH_ANY_TAG, MATCH_ANY_TAG, 1, 0xFFFFFFFF,
		0xFull << 40, ~1ull};
	const struct match_key k = some_key(kinds);

	return (struct match_want){
		.comm = k.comm,
		.source = below(3) == 0 ? MATCH_ANY_SOURCE : k.source,
		.tag = k.tag,
		.ignore = ignores[below(sizeof(ignores) / sizeof(ignores[0]))],
	};
}

static bool
add(struct match_unexpected *u, struct match_key key, uint32_t where)
{
	return match_unexpected_add(u, &key, &where, 1) == 1;
}

static void
find_both(struct match_unexpected *u, struct list *l, const struct match_want *want, bool take)
{
	int i = list_find(l, want);
	uint32_t place = match_unexpected_find(u, want);

	assert_int_equal(place == MATCH_NONE, i < 0);
	if (i < 0)
		return;
	assert_int_equal(u->places[place].where, l->all[i].where);
	if (!take)
		return;
	assert_int_equal(match_unexpected_take(u, place), l->all[i].where);
	list_remove(l, (uint32_t)i);
}

static void
check_order(const struct match_unexpected *u, const struct list *l)
{
	uint32_t place = match_unexpected_next(u, 0);

	for (uint32_t i = 0; i < l->n; i++, place = match_unexpected_next(u, place + 1))
		assert_int_equal(u->places[place].where, l->all[i].where);
	assert_int_equal(place, MATCH_NONE);
	assert_int_equal(u->live, l->n);
}

static void
check_empty(const struct match_table *t)
{
	for (uint32_t i = 0; i <= t->mask; i++) {
		assert_int_equal(t->groups[i].passed, 0);
		assert_int_equal(match_equal(&t->groups[i], 0), (1u << MATCH_GROUP) - 1);
	}
}

static void
history(unsigned width, uint32_t max, uint32_t ops, uint32_t kinds)
{
	struct match_unexpected u;
	struct list l = {malloc(max * sizeof(struct message)), 0};
	uint32_t next = 0, level = max / 2;

	assert_int_equal(match_unexpected_init(&u, max, width), 0);
	for (uint32_t i = 0; i < ops; i++) {
		if (below(1000) == 0)
			level = below(4) == 0 ? max + 5 : below(max);
		if (below(10) < (l.n < level ? 7u : 3u)) {
			uint32_t n = below(3) ? 1 : below(100), done, where[100];
			struct match_key keys[100];

			for (uint32_t k = 0; k < n; k++) {
				keys[k] = some_key(kinds);
				where[k] = next++;
			}
			done = match_unexpected_add(&u, keys, where, n);
			assert_int_equal(done, n < max - l.n ? n : max - l.n);
			for (uint32_t k = 0; k < done; k++)
				l.all[l.n++] = (struct message){keys[k], where[k]};
			continue;
		}
		/* often of one that is there */
		struct match_want want = some_want(kinds);

		if (l.n && below(2)) {
			const struct match_key *k = &l.all[below(l.n)].key;

			want.comm = k->comm;
			want.tag = k->tag;
			want.source = want.source == MATCH_ANY_SOURCE ? want.source : k->source;
		}
		find_both(&u, &l, &want, below(4) != 0);
		if (below(500) == 0)
			check_order(&u, &l);
	}
	check_order(&u, &l);
	while (l.n > 0) { /* the youngest first */
		const struct match_key k = l.all[l.n - 1].key;

		find_both(&u, &l, &(struct match_want){k.comm, k.source, k.tag, 0}, true);
	}
	assert_int_equal(u.live, 0);
	check_empty(&u.table);
	match_unexpected_free(&u);
	free(l.all);
}

static void
unexpected__as_the_model(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 120 / FEWER; i++) {
		random_state = i;
		history(widths[i % WIDTHS], 1 + below(i % 2 ? 40 : 4000), 20000,
			1 + below(i % 3 ? 8 : 3000));
	}
}

static void
unexpected__first_of_equals(void **state)
{
	const struct match_key key = {7, 3, 5};
	struct match_unexpected u;

	(void)state;
	assert_int_equal(match_unexpected_init(&u, 100, 512), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(add(&u, key, i));
	assert_false(add(&u, key, 0));
	for (uint32_t i = 0; i < 100; i++) {
		const struct match_want want = {7, i % 2 ? MATCH_ANY_SOURCE : 3, i % 3 ? 5 : 99,
			i % 3 ? 0 : MATCH_ANY_TAG};

		assert_int_equal(match_unexpected_take(&u, match_unexpected_find(&u, &want)), i);
	}
	assert_int_equal(match_unexpected_find(&u,
				 &(struct match_want){7, MATCH_ANY_SOURCE, 0, MATCH_ANY_TAG}),
		MATCH_NONE);
	match_unexpected_free(&u);
}

static void
unexpected__other_communicators_do_not_match(void **state)
{
	struct match_unexpected u;

	(void)state;
	assert_int_equal(match_unexpected_init(&u, 10, 512), 0);
	assert_true(add(&u, (struct match_key){1, 2, 3}, 0));
	assert_int_equal(match_unexpected_find(&u,
				 &(struct match_want){2, MATCH_ANY_SOURCE, 3, MATCH_ANY_TAG}),
		MATCH_NONE);
	assert_int_equal(match_unexpected_find(&u, &(struct match_want){2, 2, 3, 0}), MATCH_NONE);
	match_unexpected_free(&u);
}

/* LHS-9; must-show 7 of matching: at most 64 bytes a message beyond its entry, at any number of
 * them. */
static void
unexpected__bytes_a_message(void **state)
{
	struct match_unexpected u;

	(void)state;
	assert_int_equal(match_unexpected_init(&u, 1 << 20, 512), 0);
	for (uint32_t i = 0; i < 300000; i++) {
		assert_true(add(&u, (struct match_key){1, i, i}, i));
		const size_t place = 30;
		size_t touched = u.end * place +
			((size_t)u.table.mask + 1) * sizeof(struct match_group);

		if (i > 1024)
			assert_true(touched <= 64ull * (i + 1));
	}
	match_unexpected_free(&u);
}

/* Note 3: what is moved is bounded by what was added. */
static void
unexpected__moves_are_paid_for(void **state)
{
	struct match_unexpected u;
	uint64_t added = 0;

	(void)state;
	assert_int_equal(match_unexpected_init(&u, 10000, 512), 0);
	for (uint32_t i = 0; i < 10000; i++, added++)
		assert_true(add(&u, (struct match_key){1, i, i}, i));
	/* full, and always a hole in the middle */
	for (uint32_t i = 0; i < 300000 / FEWER; i++, added++) {
		uint32_t place = match_unexpected_next(&u, u.first + 5000);

		match_unexpected_take(&u, place);
		assert_true(add(&u, (struct match_key){1, i, i + 1000000}, i));
	}
	assert_true(u.moves <= 3 * added);
	match_unexpected_free(&u);
}

/* ------------------------------------------------------------------ heads */

#define RING 256

struct sender {
	struct lhs_end end;
	_Alignas(64) uint8_t memory[RING * 64];
	uint32_t landed;
};

/* Some messages land, as many as have room; each says which it is. */
static void
land(struct sender *s, const struct match_heads *h, uint32_t n)
{
	for (; n > 0 && s->landed - h->given < RING; n--, s->landed++)
		lhs_write(&s->end, 1, 2, 4, LHS_NO_BULK, 0, &s->landed, sizeof(s->landed));
}

static uint32_t
message_at(const struct match_heads *h, uint32_t where)
{
	uint32_t number;

	memcpy(&number, match_head_at(h, where)->front, sizeof(number));
	return number;
}

/* The index by numbers: message i has tag i % kinds, and waits. */
static void
heads_history(uint64_t seed, uint32_t max, uint32_t ops)
{
	const struct lhs_config c = {RING, 64, LHS_SPLIT, LHS_SIZE_OFFSET};
	struct sender *s = aligned_alloc(64, sizeof(*s));
	struct match_unexpected u;
	struct match_heads h;
	uint32_t taken = 0, where, got;

	random_state = seed;
	memset(s, 0, sizeof(*s));
	lhs_end_init(&s->end, &c, s->memory);
	assert_int_equal(match_unexpected_init(&u, max + RING, 512), 0);
	assert_int_equal(match_heads_init(&h, &c, s->memory, max), 0);
	for (uint32_t i = 0; i < ops; i++) {
		land(s, &h, below(40));
		while ((match_head_next(&h, &where)) != NULL) {
			uint32_t number = message_at(&h, where);

			assert_true(add(&u, (struct match_key){1, 1, number}, where));
		}
		/* now and then one from anywhere, which leaves a hole; or the oldest */
		for (uint32_t k = below(2 * 40); k > 0 && u.live > 0; k--) {
			uint32_t place = match_unexpected_next(&u,
				below(4) ? u.first : u.first + below(u.end - u.first));

			if (place == MATCH_NONE)
				continue;
			got = (uint32_t)u.tag[place];
			where = match_unexpected_take(&u, place);
			assert_int_equal(message_at(&h, where), got);
			match_head_done(&h, where);
			taken++;
		}
		uint32_t most = below(RING);
		bool spared = match_heads_spare(&h, &u, most);

		assert_int_equal(spared, match_heads_held(&h) <= most);
		if (!spared)
			assert_int_equal(h.stored, max);
	}
	while (u.live > 0) {
		uint32_t place = match_unexpected_next(&u, 0);

		got = (uint32_t)u.tag[place];
		where = match_unexpected_take(&u, place);
		assert_int_equal(message_at(&h, where), got);
		match_head_done(&h, where);
		taken++;
	}
	assert_int_equal(taken, s->landed);
	assert_int_equal(match_heads_held(&h), 0);
	assert_int_equal(h.stored, 0);
	assert_true(h.used <= max);
	match_heads_free(&h);
	match_unexpected_free(&u);
	free(s);
}

static void
heads__each_is_where_its_message_says(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 60 / FEWER; i++)
		heads_history(i, i % 3 ? 5000 : 50, 3000);
}

static void
heads__a_full_store_keeps_the_ring(void **state)
{
	const struct lhs_config c = {RING, 64, LHS_SPLIT, LHS_SIZE_OFFSET};
	static struct sender s;
	struct match_unexpected u;
	struct match_heads h;
	uint32_t where;

	(void)state;
	lhs_end_init(&s.end, &c, s.memory);
	assert_int_equal(match_unexpected_init(&u, 1000, 0), 0);
	assert_int_equal(match_heads_init(&h, &c, s.memory, 10), 0);
	land(&s, &h, RING);
	while (match_head_next(&h, &where) != NULL)
		assert_true(add(&u, (struct match_key){1, 1, message_at(&h, where)}, where));
	assert_false(match_heads_spare(&h, &u, 100));
	assert_int_equal(match_heads_held(&h), RING - 10);
	assert_int_equal(h.evacuated, 10);
	for (uint32_t i = 0; i < RING; i++) {
		where = match_unexpected_take(&u, match_unexpected_next(&u, 0));
		assert_int_equal(where & MATCH_STORED ? 1 : 0, i < 10);
		assert_int_equal(message_at(&h, where), i);
		match_head_done(&h, where);
	}
	assert_int_equal(match_heads_held(&h), 0);
	match_heads_free(&h);
	match_unexpected_free(&u);
}

/* ------------------------------------------------------------------ posted */

struct receive {
	struct match_want want;
	uint64_t handle;
	uint32_t number;
};

static int
posted_find(const struct receive *all, uint32_t n, const struct match_key *key)
{
	for (uint32_t i = 0; i < n; i++) {
		if (match_accepts(&all[i].want, key))
			return (int)i;
	}
	return -1;
}

static void
posted_history(uint32_t max, uint32_t ops, uint32_t kinds)
{
	struct receive *all = malloc(max * sizeof(*all));
	struct match_posted p;
	uint64_t handle, next = 1;
	uint32_t n = 0;

	assert_int_equal(match_posted_init(&p, max), 0);
	for (uint32_t i = 0; i < ops; i++) {
		uint32_t what = below(10);

		if (what < 5) {
			struct receive r = {some_want(kinds), next++, 0};

			r.number = match_posted_add(&p, &r.want, r.handle);
			assert_int_equal(r.number == MATCH_NONE, n == max);
			if (n < max)
				all[n++] = r;
		} else if (what < 9) {
			const struct match_key key = some_key(kinds);
			int at = posted_find(all, n, &key);

			assert_int_equal(match_posted_take(&p, &key, &handle), at >= 0);
			if (at < 0)
				continue;
			assert_int_equal(handle, all[at].handle);
			memmove(&all[at], &all[at + 1], (--n - (uint32_t)at) * sizeof(*all));
		} else if (n > 0) {
			uint32_t at = below(n);

			assert_true(match_posted_cancel(&p, all[at].number));
			assert_false(match_posted_cancel(&p, all[at].number));
			memmove(&all[at], &all[at + 1], (--n - at) * sizeof(*all));
		}
		assert_int_equal(p.count, n);
	}
	while (n > 0)
		assert_true(match_posted_cancel(&p, all[--n].number));
	check_empty(&p.table);
	assert_int_equal(p.masked_head, MATCH_NONE);
	match_posted_free(&p);
	free(all);
}

static void
posted__as_the_model(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100 / FEWER; i++) {
		random_state = 1000 + i;
		posted_history(1 + below(i % 2 ? 10 : 1000), 20000, 1 + below(i % 3 ? 6 : 500));
	}
}

static void
posted__exact_and_wildcard_in_the_order_posted(void **state)
{
	const struct match_key key = {1, 2, 3};
	struct match_posted p;
	uint64_t handle;

	(void)state;
	assert_int_equal(match_posted_init(&p, 8), 0);
	match_posted_add(&p, &(struct match_want){1, MATCH_ANY_SOURCE, 0, MATCH_ANY_TAG}, 10);
	match_posted_add(&p, &(struct match_want){1, 2, 3, 0}, 11);
	match_posted_add(&p, &(struct match_want){1, 2, 2, 1}, 12);
	match_posted_add(&p, &(struct match_want){1, 2, 77, MATCH_ANY_TAG}, 13);
	match_posted_add(&p, &(struct match_want){1, MATCH_ANY_SOURCE, 3, 0}, 14);
	for (uint64_t i = 10; i < 15; i++) {
		assert_true(match_posted_take(&p, &key, &handle));
		assert_int_equal(handle, i);
	}
	assert_false(match_posted_take(&p, &key, &handle));
	match_posted_free(&p);
}

static void
posted__as_many_as_numbers_allow(void **state)
{
	struct match_posted p;

	(void)state;
	assert_int_equal(match_posted_init(&p, 0), -ENOMEM);
	assert_int_equal(match_posted_init(&p, (1u << 27) + 1), -ENOMEM);
	assert_int_equal(match_posted_init(&p, 1), 0);
	match_posted_free(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scan__as_the_portable_one),
		cmocka_unit_test(unexpected__as_the_model),
		cmocka_unit_test(unexpected__first_of_equals),
		cmocka_unit_test(unexpected__other_communicators_do_not_match),
		cmocka_unit_test(unexpected__bytes_a_message),
		cmocka_unit_test(unexpected__moves_are_paid_for),
		cmocka_unit_test(heads__each_is_where_its_message_says),
		cmocka_unit_test(heads__a_full_store_keeps_the_ring),
		cmocka_unit_test(posted__as_the_model),
		cmocka_unit_test(posted__exact_and_wildcard_in_the_order_posted),
		cmocka_unit_test(posted__as_many_as_numbers_allow),
	};

	return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
