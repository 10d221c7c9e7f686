/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The executor of collectives' lists: which lists it refuses, which messages, random lists that
 * nobody would write, and when pieces leave by a list's pace.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "coll_random.h"

static const struct coll_blocks two_blocks[COLL_BUFFERS] = {{2, 100, NULL}, {2, 100, NULL},
	{2, 100, NULL}};

/* To be freed; NULL: it is refused. */
static struct coll_exec *
begun(const struct coll_list *l)
{
	void *memory = aligned_alloc(16, coll_exec_bytes(l));
	struct coll_exec *c = coll_exec_init(memory, l, two_blocks, 0);

	if (c == NULL)
		free(memory);
	return c;
}

static int
checked(const struct coll_step *steps, uint32_t count)
{
	const struct coll_list l = {
		.steps = steps,
		.count = count,
		.ranks = 3,
		.rank = 1,
		.piece = 64,
		.areas = 2,
		.area_bytes = 128,
	};
	uint32_t bad;

	if (coll_check(&l, two_blocks, &bad) != 0)
		return -EINVAL;
	struct coll_exec *c = begun(&l);
	const bool good = c != NULL;

	free(c);
	return good ? 0 : -EINVAL;
}

static void
coll_run_bytes__goes_around(void **state)
{
	const uint64_t ends[4] = {10, 10, 25, 30};
	const struct coll_blocks even = {4, 7, NULL}, uneven = {4, 0, ends};

	(void)state;
	for (uint32_t block = 0; block < 4; block++) {
		for (uint32_t blocks = 0; blocks <= 4; blocks++) {
			static const uint64_t lens[4] = {10, 0, 15, 5};
			uint64_t sum = 0;

			for (uint32_t i = 0; i < blocks; i++)
				sum += lens[(block + i) % 4];
			assert_int_equal(coll_run_bytes(&uneven, block, blocks), sum);
			assert_int_equal(coll_run_bytes(&even, block, blocks), 7 * blocks);
		}
	}
	/* no blocks are nowhere */
	assert_int_equal(coll_run_bytes(&uneven, UINT16_MAX, 0), 0);
}

#define NOTHING                                                                                    \
	{                                                                                          \
		COLL_NONE, COLL_NONE                                                               \
	}

static void
coll_check__refuses(void **state)
{
	struct coll_step s[2] = {
		{.op = COLL_RECV, .to = COLL_SCRATCH, .after = NOTHING, .blocks = 1},
		{
			.op = COLL_SEND,
			.flags = COLL_STREAM_0,
			.from = COLL_SCRATCH,
			.peer = 2,
			.after = {0, COLL_NONE},
			.blocks = 1,
		}};
	const struct coll_step good[2] = {s[0], s[1]};

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		memcpy(s, good, sizeof(s));                                                        \
		change;                                                                            \
		assert_int_equal(checked(s, 2), -EINVAL);                                          \
	} while (0)
	(void)state;
	assert_int_equal(checked(s, 2), 0);
	REFUSED(s[0].op = COLL_OPS);
	REFUSED(s[0].flags = 0x10);
	REFUSED(s[0].peer = 3);
	REFUSED(s[0].peer = 1);
	REFUSED(s[0].to = COLL_IN);
	REFUSED(s[0].to = COLL_BUFFERS);
	REFUSED(s[0].block = 2);
	REFUSED(s[0].blocks = 3);
	REFUSED(s[0].area = 2);
	REFUSED(s[0].flags = COLL_STREAM_0);
	REFUSED(s[0].early = 1);
	REFUSED(s[0].after[0] = 0);
	REFUSED(s[1].after[0] = 1);
	REFUSED(s[1].after[0] = COLL_NONE);
	REFUSED(s[1].flags = 0); /* from scratch, but not piece by piece */
	REFUSED(s[1].block = 1); /* other bytes than came */
	REFUSED(s[1].source = 1);
	REFUSED(s[1].after[1] = 0);
	REFUSED(s[1].from = COLL_OUT); /* nobody empties the area */
	REFUSED((s[0].flags = COLL_EAGER, s[0].blocks = s[1].blocks = 2)); /* does not fit it */
	assert_int_equal(checked(s, COLL_STEPS_MAX + 1), -EINVAL);
}

/* Check that a step may not stream with one that does not use the scratch: it would empty the
 * scratch before anything came. */
static void
coll_check__streams_with_another(void **state)
{
	struct coll_step s[3] = {
		{.op = COLL_RECV, .to = COLL_SCRATCH, .after = NOTHING, .blocks = 1},
		{.op = COLL_REDUCE, .to = COLL_SCRATCH, .after = {0, COLL_NONE}, .blocks = 1},
		{
			.op = COLL_SEND,
			.flags = COLL_STREAM_0,
			.from = COLL_SCRATCH,
			.peer = 2,
			.after = {1, COLL_NONE},
			.blocks = 1,
		}};

	(void)state;
	s[1].flags = COLL_STREAM_0;
	assert_int_equal(checked(s, 3), 0);
	s[1].to = COLL_OUT;
	assert_int_equal(checked(s, 3), -EINVAL);
	s[1].flags = 0;
	s[1].after[0] = COLL_NONE;
	assert_int_equal(checked(s, 3), -EINVAL);
}

/* A receiver of two senders: what comes without a permit, twice, or beyond one is refused. */
static void
coll_heard__refuses(void **state)
{
	const struct coll_step s[2] = {
		{.op = COLL_RECV, .to = COLL_OUT, .peer = 0, .after = NOTHING, .blocks = 1},
		{
			.op = COLL_RECV,
			.to = COLL_OUT,
			.peer = 2,
			.after = {0, COLL_NONE},
			.block = 1,
			.blocks = 1,
		}};
	const struct coll_list l = {
		.steps = s,
		.count = 2,
		.ranks = 3,
		.rank = 1,
		.piece = 64,
		.window = 64,
	};
	struct coll_exec *c = begun(&l);
	struct coll_out o;

	(void)state;
	assert_int_equal(coll_heard(c, 0, 0, 0, 10), -EPROTO); /* not permitted yet */
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.go, COLL_GO_PERMIT);
	assert_int_equal(o.peer, 0);
	assert_int_equal(o.len, 64);
	assert_false(coll_next(c, &o, 0)); /* the window */
	assert_int_equal(coll_heard(c, 0, 0, 0, 65), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 1, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 1, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 2, 0, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 3, 0, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 0, 0), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 0, 10), -EPROTO); /* there is no SEND */
	assert_int_equal(coll_permitted(c, 9, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 0, 64), 0);
	coll_arrived(c, 0, 64);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 100);
	assert_false(coll_next(c, &o, 0)); /* the other's turn has not come */
	assert_int_equal(coll_heard(c, 0, 0, 64, 36), 0);
	coll_arrived(c, 0, 36);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.peer, 2);
	assert_false(coll_is_done(c));
	free(c);
}

static void
coll_permitted__refuses(void **state)
{
	const struct coll_step s[1] = {
		{.op = COLL_SEND, .from = COLL_IN, .peer = 0, .after = NOTHING, .blocks = 1}};
	const struct coll_list l = {.steps = s, .count = 1, .ranks = 3, .rank = 1, .piece = 64};
	struct coll_exec *c = begun(&l);
	struct coll_out o;

	(void)state;
	assert_false(coll_next(c, &o, 0));
	assert_int_equal(coll_permitted(c, 0, 0, 101), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 1, 10), -EPROTO);
	assert_int_equal(coll_permitted(c, 2, 0, 10), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 0, 70), 70);
	assert_int_equal(coll_permitted(c, 0, 0, 60), -EPROTO); /* taken back */
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 64);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.offset, 64);
	assert_int_equal(o.len, 6);
	assert_false(coll_next(c, &o, 0));
	assert_int_equal(coll_permitted(c, 0, 0, 100), 30);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 30);
	assert_true(coll_is_done(c));
	free(c);
}

/* k: how many are before it. */
static struct coll_step
random_step(uint32_t k)
{
	return (struct coll_step){
		.op = (uint8_t)random_below(4),
		.flags = (uint8_t)(random_below(2) ? random_below(16) : 0),
		.from = (uint8_t)random_below(3),
		.to = (uint8_t)random_below(3),
		.peer = (uint16_t)(2 * random_below(2)),
		.after = {(uint16_t)(random_below(2) ? random_below(k + 1) : COLL_NONE),
			(uint16_t)(random_below(4) ? COLL_NONE : random_below(k + 1))},
		.block = (uint16_t)random_below(2),
		.blocks = (uint16_t)random_below(3),
		.source = (uint16_t)random_below(k + 1),
		.target = (uint16_t)random_below(k + 1),
		.area = (uint8_t)random_below(2),
	};
}

/* Random bytes as a list: it is refused, or runs without touching what is not its own. */
static void
coll_check__random_lists(void **state)
{
	enum { STEPS = 6 };
	unsigned good = 0;

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		struct coll_step s[STEPS];
		struct coll_list l = {
			.steps = s,
			.count = 1 + random_below(STEPS),
			.ranks = 3,
			.rank = 1,
			.piece = 1 + random_below(100),
			.areas = 2,
			.area_bytes = 100 + random_below(100),
			.window = random_below(2) * 150,
		};
		uint32_t bad;

		for (uint32_t k = 0; k < l.count; k++)
			s[k] = random_step(k);
		if (coll_check(&l, two_blocks, &bad) != 0)
			continue;
		struct coll_exec *c = begun(&l);
		struct coll_out o;

		good += c != NULL;
		for (unsigned k = 0; c != NULL && k < 40; k++) {
			const uint32_t peer = random_below(3), ordinal = random_below(2);
			const uint64_t len = random_below(120);

			while (coll_next(c, &o, k)) {
				assert_true(o.step < l.count);
				assert_true(o.offset + o.len <= 200 || o.go == COLL_GO_PERMIT);
			}
			coll_permitted(c, peer, ordinal, random_below(220));
			const int step = coll_heard(c, peer, ordinal, random_below(3) * 50, len);

			if (step >= 0) {
				assert_int_equal(s[step].op, COLL_RECV);
				coll_arrived(c, (uint32_t)step, len);
			}
		}
		free(c);
	}
	assert_true(good > 1000);
}

/* When the line's next piece leaves, ns, if nobody looks before `now`; UINT64_MAX: none. */
static uint64_t
leaves(struct coll_exec *c, uint64_t now)
{
	struct coll_out out;

	for (;;) {
		if (coll_next(c, &out, now)) {
			assert_int_equal(out.go, COLL_GO_PIECE);
			return now;
		}
		if (coll_deadline(c) == COLL_NEVER)
			return UINT64_MAX;
		now = coll_deadline(c);
	}
}

/* A piece that waits for the line and is looked after late delays none after it; but what has not
 * waited, or is very late, is not made up for. */
static void
coll_next__late_pieces_are_made_up_for(void **state)
{
	static const struct coll_step steps[] = {
		{.op = COLL_SEND, .peer = 1, .after = {COLL_NONE, COLL_NONE}, .blocks = 2},
		{.op = COLL_SEND, .peer = 2, .after = {COLL_NONE, COLL_NONE}, .blocks = 2},
	};
	const struct coll_list l = {
		.steps = steps,
		.count = 2,
		.ranks = 3,
		.piece = 10,
		.send_pace = 1000u << 16, /* 10 us a piece */
	};
	struct coll_exec *c = begun(&l);

	(void)state;
	assert_int_equal(leaves(c, 5000), UINT64_MAX);
	assert_int_equal(coll_permitted(c, 1, 0, 200), 200);
	/* the first one does not wait */
	assert_int_equal(leaves(c, 7000), 7000);
	assert_int_equal(leaves(c, 7001), 17000);
	/* 13 us late: the next one is not, and the one after it is on time */
	assert_int_equal(leaves(c, 40000), 40000);
	assert_int_equal(leaves(c, 40001), 40001);
	assert_int_equal(leaves(c, 40002), 47000);
	/* 53 us late */
	assert_int_equal(leaves(c, 110000), 110000);
	assert_int_equal(leaves(c, 110001), 120000);
	for (unsigned i = 7; i < 20; i++)
		assert_int_equal(leaves(c, 120001), 120000 + (i - 6) * 10000);
	/* nothing waits for 15 us */
	assert_int_equal(leaves(c, 250001), UINT64_MAX);
	assert_int_equal(coll_permitted(c, 2, 0, 200), 200);
	assert_int_equal(leaves(c, 275000), 275000);
	assert_int_equal(leaves(c, 275001), 285000);
	free(c);
}

/* Two that share a line: each one's pieces take twice as long, from the moment on at which that is
 * so. */
static void
coll_exec_share__slows_the_clock(void **state)
{
	static const struct coll_step sends[] = {
		{
			.op = COLL_SEND,
			.flags = COLL_EAGER,
			.peer = 1,
			.after = {COLL_NONE, COLL_NONE},
			.blocks = 2,
		},
	};
	const struct coll_list l = {
		.steps = sends,
		.count = 1,
		.ranks = 3,
		.piece = 10,
		.send_pace = 1000u << 16, /* 10 us a piece */
	};
	struct coll_exec *c = begun(&l);
	struct coll_out out;

	(void)state;
	assert_int_equal(leaves(c, 0), 0);
	assert_int_equal(leaves(c, 1), 10000);
	coll_exec_share(c, 2 * COLL_WHOLE, 15000);
	assert_int_equal(leaves(c, 15000), 25000); /* half of 10 us was over */
	assert_int_equal(leaves(c, 25000), 45000);
	coll_exec_share(c, COLL_WHOLE, 50000);
	assert_int_equal(leaves(c, 50000), 57500); /* a quarter was over */
	/* whatever the share, it is time when the deadline says so */
	uint64_t last = 57500;

	for (uint32_t share = 270; share < 300; share += 3) {
		coll_exec_share(c, share, last);
		assert_false(coll_next(c, &out, last));
		const uint64_t at = coll_deadline(c);

		assert_false(coll_next(c, &out, at - 1));
		assert_true(coll_next(c, &out, at));
		assert_in_range(at - last, 10000ull * share / COLL_WHOLE - 2,
			10000ull * share / COLL_WHOLE + 2);
		last = at;
	}
	free(c);
}

/* Check that the window of one that shares its line is half as large, and that no list may take
 * more than the line. */
static void
coll_exec_share__halves_the_window(void **state)
{
	static const struct coll_step steps[] = {
		{
			.op = COLL_RECV,
			.to = COLL_OUT,
			.peer = 1,
			.after = {COLL_NONE, COLL_NONE},
			.blocks = 1,
			.at_us = 100,
			.pace = 1000u << 16,
		},
	};
	struct coll_list l = {
		.steps = steps,
		.count = 1,
		.ranks = 3,
		.piece = 10,
		.window = 40,
		.grain = 10,
	};
	struct coll_exec *c = begun(&l);
	struct coll_out out;

	(void)state;
	coll_exec_share(c, 2 * COLL_WHOLE, 0);
	assert_false(coll_next(c, &out, 199999));
	for (unsigned i = 0; i < 2; i++) { /* two grains of ten */
		assert_true(coll_next(c, &out, 200000 + i * 20000));
		assert_int_equal(out.go, COLL_GO_PERMIT);
	}
	assert_false(coll_next(c, &out, 1000000));
	assert_int_equal(coll_outstanding(c), 20);
	coll_exec_share(c, COLL_WHOLE, 1000000);
	assert_true(coll_next(c, &out, 1000000));
	assert_true(coll_next(c, &out, 1000000));
	assert_false(coll_next(c, &out, 1000000));
	assert_int_equal(coll_outstanding(c), 40);
	free(c);

	l.load_in = COLL_WHOLE + 1; /* of which a client could take more than its share */
	uint32_t step;

	assert_int_equal(coll_check(&l, two_blocks, &step), -EINVAL);
	assert_int_equal(step, l.count);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coll_run_bytes__goes_around),
		cmocka_unit_test(coll_check__refuses),
		cmocka_unit_test(coll_check__streams_with_another),
		cmocka_unit_test(coll_heard__refuses),
		cmocka_unit_test(coll_permitted__refuses),
		cmocka_unit_test(coll_check__random_lists),
		cmocka_unit_test(coll_next__late_pieces_are_made_up_for),
		cmocka_unit_test(coll_exec_share__slows_the_clock),
		cmocka_unit_test(coll_exec_share__halves_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
