/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx_atomic(): each operation on each type of element, whoever owns the memory and however the
 * engine reaches it; done exactly once, also where frames are lost; atomic to each other and to
 * this process; in order where that is asked for; and what is refused touches nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embedded_pair.h"

#define PAGES (1u << 16)
#define BOTH  (PMX_REMOTE_READ | PMX_REMOTE_WRITE)

static const unsigned bytes_of[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

static void *
memory_of(struct pmx_context *owner, bool kernels)
{
	void *p = NULL;

	if (!kernels)
		assert_int_equal(pmx_alloc(owner, PAGES, &p), 0);
	else
		assert_int_equal(posix_memalign(&p, 4096, PAGES), 0);
	memset(p, 0, PAGES);
	return p;
}

static struct pmx_atomic_transfer
asked(const struct pmx_remote *r, enum pmx_atomic_op op, enum pmx_atomic_type type)
{
	return (struct pmx_atomic_transfer){
		.peer = r->owner,
		.key = r->key,
		.remote = r->addr,
		.op = op,
		.type = type,
		.count = 1,
	};
}

static int
ends(struct pmx_context *from, const struct pmx_atomic_transfer *a)
{
	pmx_transfer_id id;
	int result;

	UNTIL((result = pmx_atomic(from, a, &id)) != -EAGAIN);
	if (result != 0)
		return result;
	UNTIL((result = pmx_transfer_done(from, id)) != 0);
	return result;
}

/* A number as an element of that type. */
static void
element(enum pmx_atomic_type type, int64_t number, void *to)
{
	const float f = (float)number;
	const double d = (double)number;

	if (type == PMX_FLOAT)
		memcpy(to, &f, sizeof(f));
	else if (type == PMX_DOUBLE)
		memcpy(to, &d, sizeof(d));
	else
		memcpy(to, &number, bytes_of[type]); /* little-endian */
}

/* 6, with the operand 3, compared with 6; and what it is then. */
static const struct {
	enum pmx_atomic_op op;
	int then;
	bool bits;
} table[] = {
	{PMX_ATOMIC_MIN, 3, false},
	{PMX_ATOMIC_MAX, 6, false},
	{PMX_ATOMIC_SUM, 9, false},
	{PMX_ATOMIC_PROD, 18, false},
	{PMX_ATOMIC_LOR, 1, false},
	{PMX_ATOMIC_LAND, 1, false},
	{PMX_ATOMIC_BOR, 7, true},
	{PMX_ATOMIC_BAND, 2, true},
	{PMX_ATOMIC_LXOR, 0, false},
	{PMX_ATOMIC_BXOR, 5, true},
	{PMX_ATOMIC_READ, 6, false},
	{PMX_ATOMIC_WRITE, 3, false},
	{PMX_ATOMIC_CSWAP, 3, false},
	{PMX_ATOMIC_CSWAP_NE, 6, false},
	{PMX_ATOMIC_CSWAP_LE, 3, false},
	{PMX_ATOMIC_CSWAP_LT, 6, false},
	{PMX_ATOMIC_CSWAP_GE, 3, false},
	{PMX_ATOMIC_CSWAP_GT, 6, false},
	{PMX_ATOMIC_MSWAP, 2, true},
};

/* Do every operation on every type, on as many elements as go at once, in the midst of others that
 * must stay. */
static void
all_operations(struct pmx_context *from, const struct pmx_remote *r, uint8_t *at)
{
	for (unsigned t = PMX_INT8; t <= PMX_DOUBLE; t++) {
		const unsigned each = bytes_of[t], count = PMX_ATOMIC_BYTES / each;
		uint8_t six[64], three[64], then[64], before[64];

		for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct pmx_atomic_transfer a = asked(r, table[i].op,
				(enum pmx_atomic_type)t);

			if (table[i].bits && t >= PMX_FLOAT) {
				assert_int_equal(pmx_atomic(from, &a, NULL), -EOPNOTSUPP);
				continue;
			}
			for (unsigned k = 0; k < count; k++) {
				element((enum pmx_atomic_type)t, 6, six + k * each);
				element((enum pmx_atomic_type)t, 3, three + k * each);
				element((enum pmx_atomic_type)t, table[i].then, then + k * each);
			}
			memset(at, 0xA5, 192);
			memcpy(at + 64, six, 64);
			memset(before, 0, sizeof(before));
			a.remote += 64;
			a.count = count;
			a.operands = table[i].op != PMX_ATOMIC_READ ? three : NULL;
			a.compared = table[i].op >= PMX_ATOMIC_CSWAP ? six : NULL;
			a.before = before;
			assert_int_equal(ends(from, &a), 1);
			assert_memory_equal(before, six, 64);
			assert_memory_equal(at + 64, then, 64);
			for (unsigned k = 0; k < 64; k++)
				assert_true(at[k] == 0xA5 && at[128 + k] == 0xA5);
			/* here, and without fetching what was there */
			memcpy(at + 64, six, 64);
			if (table[i].op != PMX_ATOMIC_READ) {
				assert_int_equal(pmx_atomic_here(a.op, a.type, at + 64, count,
							 a.operands, a.compared, NULL),
					0);
				assert_memory_equal(at + 64, then, 64);
				memcpy(at + 64, six, 64);
				a.before = NULL;
				assert_int_equal(ends(from, &a), 1);
				assert_memory_equal(at + 64, then, 64);
			}
		}
	}
}

static void
atomic__every_operation_on_every_type(void **state)
{
	struct pmx_remote r;

	(void)state;
	for (unsigned kernels = 0; kernels < 2; kernels++) {
		for (unsigned owner = 0; owner < NODES; owner++) {
			pair_start("client", "");
			uint8_t *at = memory_of(ctx[owner][1], kernels);

			assert_int_equal(pmx_register(ctx[owner][1], at, PAGES, BOTH, &r), 0);
			all_operations(ctx[0][0], &r, at);
			UNTIL(pair_is_quiet());
			assert_int_equal(pmx_deregister(ctx[owner][1], r.key), 0);
			assert_int_equal(pair_stop(state), 0);
			if (kernels)
				free(at);
		}
	}
}

/* Signs matter, and integers wrap around. */
static void
atomic__signs(void **state)
{
	static const struct {
		enum pmx_atomic_op op;
		enum pmx_atomic_type type;
		int64_t was, operand, then;
	} cases[] = {
		{PMX_ATOMIC_MIN, PMX_INT8, -6, 3, -6},
		{PMX_ATOMIC_MIN, PMX_UINT8, -6, 3, 3},
		{PMX_ATOMIC_MAX, PMX_INT16, -6, 3, 3},
		{PMX_ATOMIC_MAX, PMX_UINT16, -6, 3, -6},
		{PMX_ATOMIC_MIN, PMX_INT64, INT64_MIN, 1, INT64_MIN},
		{PMX_ATOMIC_MIN, PMX_UINT64, INT64_MIN, 1, 1},
		{PMX_ATOMIC_MIN, PMX_DOUBLE, -6, 3, -6},
		{PMX_ATOMIC_SUM, PMX_INT8, 127, 1, -128},
		{PMX_ATOMIC_SUM, PMX_UINT32, -1, 2, 1},
		{PMX_ATOMIC_SUM, PMX_INT64, INT64_MAX, 1, INT64_MIN},
		{PMX_ATOMIC_PROD, PMX_INT32, INT32_MAX, 2, -2},
		{PMX_ATOMIC_SUM, PMX_FLOAT, -6, 3, -3},
	};
	struct pmx_remote r;

	(void)state;
	pair_start("client", "");
	uint8_t *at = memory_of(ctx[1][0], false);

	assert_int_equal(pmx_register(ctx[1][0], at, PAGES, BOTH, &r), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pmx_atomic_transfer a = asked(&r, cases[i].op, cases[i].type);
		uint8_t operand[8], then[8];

		element(a.type, cases[i].was, at);
		element(a.type, cases[i].operand, operand);
		element(a.type, cases[i].then, then);
		a.operands = operand;
		assert_int_equal(ends(ctx[0][0], &a), 1);
		assert_memory_equal(at, then, bytes_of[a.type]);
	}
	UNTIL(pair_is_quiet());
}

/* ------------------------------------------------------------------ exactly once */

static _Atomic bool counting;
static uint64_t *counter;
static uint64_t counted_here;

static void *
count_here(void *arg)
{
	const uint64_t one = 1;

	(void)arg;
	while (counting) {
		pmx_atomic_here(PMX_ATOMIC_SUM, PMX_UINT64, counter, 1, &one, NULL, NULL);
		counted_here++;
		usleep(1);
	}
	return NULL;
}

/* All contexts add to one counter, of which a thread of its owner takes part where it can; each
 * number is found once. */
static void
all_count(const char *limits, unsigned lose, bool kernels)
{
	enum { EACH = 300, ALL = NODES * CONTEXTS * EACH };
	static uint64_t before[ALL];
	static bool found[1u << 22];
	const uint64_t one = 1;
	struct pmx_remote r;
	pthread_t thread;
	unsigned begun = 0;

	pair_start("client", limits);
	keep_and_lose = lose;
	counter = memory_of(ctx[1][1], kernels);
	counted_here = 0;
	counting = !kernels;
	assert_int_equal(pmx_register(ctx[1][1], counter, PAGES, BOTH, &r), 0);
	if (!kernels)
		assert_int_equal(pthread_create(&thread, NULL, count_here, NULL), 0);
	while (begun < ALL) {
		for (unsigned c = 0; c < NODES * CONTEXTS && begun < ALL; c++) {
			struct pmx_atomic_transfer a = asked(&r, PMX_ATOMIC_SUM, PMX_UINT64);

			a.operands = &one;
			a.before = &before[begun];
			int result = pmx_atomic(ctx[c / CONTEXTS][c % CONTEXTS], &a, NULL);

			assert_true(result == 0 || result == -EAGAIN);
			begun += result == 0;
		}
		pair_poll();
	}
	for (unsigned c = 0; c < NODES * CONTEXTS; c++)
		UNTIL(pmx_transfers_pending(ctx[c / CONTEXTS][c % CONTEXTS]) == 0);
	counting = false;
	if (!kernels)
		pthread_join(thread, NULL);
	assert_int_equal(*counter, ALL + counted_here);
	memset(found, 0, sizeof(found));
	for (unsigned i = 0; i < ALL; i++) {
		assert_true(before[i] < ALL + counted_here);
		if (before[i] < sizeof(found)) {
			assert_false(found[before[i]]);
			found[before[i]] = true;
		}
	}
	UNTIL(pair_is_quiet());
	assert_int_equal(pmx_deregister(ctx[1][1], r.key), 0);
	assert_int_equal(pair_stop(NULL), 0);
	if (kernels)
		free(counter);
}

static void
atomic__exactly_once_and_at_once(void **state)
{
	(void)state;
	all_count("", 0, false);
	all_count("", 0, true);
	all_count("transfers = 4", 0, false);
}

static void
atomic__exactly_once_over_a_bad_link(void **state)
{
	(void)state;
	all_count("", 7, false);
	all_count("", 3, true);
}

/* ------------------------------------------------------------------ order, ends, refusals */

/* Check that what is ordered comes after all that was before it: the last number stays. */
static void
atomic__ordered(void **state)
{
	enum { TIMES = 50 };
	struct pmx_remote r;

	(void)state;
	pair_start("client", "");
	uint64_t *at = memory_of(ctx[1][0], false), *mine = memory_of(ctx[0][0], false);

	assert_int_equal(pmx_register(ctx[1][0], at, PAGES, BOTH, &r), 0);
	for (uint64_t i = 1; i <= TIMES; i++) {
		struct pmx_atomic_transfer add = asked(&r, PMX_ATOMIC_SUM, PMX_UINT64);
		uint64_t before = 0, one = 1, pulled = 0;
		struct pmx_transfer t = {
			.peer = r.owner,
			.key = r.key,
			.remote = r.addr,
			.flags = PMX_ORDERED,
			.local = mine,
			.len = i % 2 == 0 ? 8 : 20000,
		};

		*mine = 1000 * i;
		add.operands = &one;
		add.before = &before;
		add.flags = PMX_ORDERED;
		UNTIL(pmx_push(ctx[0][0], &t, NULL) == 0);
		UNTIL(pmx_atomic(ctx[0][0], &add, NULL) == 0);
		t.local = &pulled;
		t.len = 8;
		UNTIL(pmx_pull(ctx[0][0], &t, NULL) == 0);
		UNTIL(pmx_transfers_pending(ctx[0][0]) == 0);
		assert_int_equal(before, 1000 * i);
		assert_int_equal(pulled, 1000 * i + 1);
	}
	UNTIL(pair_is_quiet());
}

static void
atomic__tells_of_its_end(void **state)
{
	struct pmx_remote r;
	struct pmx_event event;
	uint32_t one = 1, before = 0;
	volatile int32_t status = 7;

	(void)state;
	pair_start("client", "");
	uint32_t *at = memory_of(ctx[1][0], false);

	assert_int_equal(pmx_register(ctx[1][0], at, PAGES, BOTH, &r), 0);
	*at = 41;
	struct pmx_atomic_transfer a = asked(&r, PMX_ATOMIC_SUM, PMX_INT32);

	a.operands = &one;
	a.before = &before;
	a.flags = PMX_EVENT;
	a.cookie = 99;
	a.status = &status;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), 0);
	assert_int_equal(status, 1);
	UNTIL(pmx_poll_event(ctx[0][0], &event) == 1);
	assert_int_equal(event.kind, PMX_EVENT_ENDED);
	assert_int_equal(event.immediate, 99);
	assert_int_equal(event.error, 0);
	assert_int_equal(status, 0);
	assert_int_equal(before, 41);
	assert_int_equal(*at, 42);
	UNTIL(pair_is_quiet());
}

/* Check that what cannot be asked for is refused at once. a: what can. */
static void
check_arguments(struct pmx_atomic_transfer a)
{
	const void *operands = a.operands;
	void *before = a.before;

	a.count = 0;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.count = 9;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.count = 1;
	a.flags = PMX_NOTIFY;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.flags = 0;
	a.operands = NULL;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.operands = operands;
	a.op = PMX_ATOMIC_CSWAP;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.op = PMX_ATOMIC_READ;
	a.before = NULL;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EINVAL);
	a.before = before;
	a.op = (enum pmx_atomic_op)99;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EOPNOTSUPP);
	a.op = PMX_ATOMIC_WRITE;
	a.type = (enum pmx_atomic_type)10;
	assert_int_equal(pmx_atomic(ctx[0][0], &a, NULL), -EOPNOTSUPP);
}

static void
atomic__refused(void **state)
{
	struct pmx_remote r, read_only;
	const uint64_t x[8] = {5};
	uint64_t before[8] = {77};

	(void)state;
	pair_start("client", GIVES_UP_SOON);
	uint64_t *at = memory_of(ctx[1][0], false);

	assert_int_equal(pmx_register(ctx[1][0], at, 4096, BOTH, &r), 0);
	assert_int_equal(pmx_register(ctx[1][0], at, 4096, PMX_REMOTE_READ, &read_only), 0);
	struct pmx_atomic_transfer a = asked(&read_only, PMX_ATOMIC_WRITE, PMX_UINT64);

	a.operands = x;
	a.before = before;
	assert_int_equal(ends(ctx[0][0], &a), -EACCES);
	a.key = r.key;
	a.remote = r.addr + 4;
	assert_int_equal(ends(ctx[0][0], &a), -EINVAL);
	a.remote = r.addr + 4096;
	assert_int_equal(ends(ctx[0][0], &a), -ERANGE);
	a.remote = r.addr + 4088;
	a.count = 2;
	assert_int_equal(ends(ctx[0][0], &a), -ERANGE);
	a.remote = r.addr;
	a.key = r.key ^ 1ull << 40;
	assert_int_equal(ends(ctx[0][0], &a), -ENOKEY);
	a.key = r.key;
	a.peer.context = 1;
	assert_int_equal(ends(ctx[0][0], &a), -EPERM);
	a.peer.context = 0;
	check_arguments(a);
	assert_int_equal(before[0], 77);
	assert_int_equal(pmx_atomic_bytes(PMX_ATOMIC_BOR, PMX_UINT16), 2);
	assert_int_equal(pmx_atomic_bytes(PMX_ATOMIC_BOR, PMX_DOUBLE), 0);
	assert_int_equal(pmx_atomic_bytes((enum pmx_atomic_op)99, PMX_INT8), 0);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(at[i], 0);
	assert_int_equal(
		pmx_atomic_here(PMX_ATOMIC_WRITE, PMX_UINT64, (uint8_t *)at + 4, 1, x, NULL, NULL),
		-EINVAL);
	assert_int_equal(pmx_atomic_here(PMX_ATOMIC_BOR, PMX_FLOAT, at, 1, x, NULL, NULL),
		-EOPNOTSUPP);
	/* the owner goes */
	pmx_context_close(ctx[1][0]);
	ctx[1][0] = NULL;
	UNTIL(pair_is_quiet());
	int result = ends(ctx[0][0], &a);

	assert_true(result == -ECONNREFUSED || result == -ENOKEY || result == -ECONNRESET);
	assert_int_equal(before[0], 77);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic__every_operation_on_every_type),
		cmocka_unit_test_teardown(atomic__signs, pair_stop),
		cmocka_unit_test(atomic__exactly_once_and_at_once),
		cmocka_unit_test(atomic__exactly_once_over_a_bad_link),
		cmocka_unit_test_teardown(atomic__ordered, pair_stop),
		cmocka_unit_test_teardown(atomic__tells_of_its_end, pair_stop),
		cmocka_unit_test_teardown(atomic__refused, pair_stop),
	};

	(void)argc;
	if (pair_eal(argv[0]) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
