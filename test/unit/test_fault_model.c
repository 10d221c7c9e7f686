/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the fault model and of its options: no DPDK, no clock, one thread. The statistical
 * ones use fixed seeds, so they pass or fail always alike; bounds are some five standard
 * deviations of the number of events expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fault_model.h"

#define FRAMES  1000000u
#define LEN     1000u
#define GBIT_NS 8000u /* time of LEN bytes at 1 Gbit/s */

static void
assert_near(uint64_t value, uint64_t expected, uint64_t within)
{
	assert_in_range(value, expected - within, expected + within);
}

static void
assert_conserved(const struct fault_counters *c)
{
	uint64_t dropped = 0;
	int i;

	for (i = 0; i < FAULT_CAUSES; i++)
		dropped += c->dropped[i];
	assert_int_equal(c->dropped[FAULT_NONE], 0);
	assert_int_equal(c->frames + c->duplicated, c->delivered + dropped);
}

/* FRAMES frames, `gap_ns` apart. */
static struct fault_counters
run(const struct fault_config *config, uint64_t gap_ns)
{
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i;

	fault_model_init(&model, config);
	for (i = 0; i < FRAMES; i++)
		fault_model_frame(&model, i * gap_ns, LEN, &verdict);
	assert_int_equal(model.counters.frames, FRAMES);
	assert_conserved(&model.counters);
	return model.counters;
}

static const struct fault_config everything = {
	.loss_ppm = 50000,
	.burst_ppm = 1000,
	.burst_frames = 8,
	.duplicate_ppm = 20000,
	.reorder_ppm = 50000,
	.reorder_ns = 50000,
	.corrupt_ppm = 10000,
	.delay_ns = 10000,
	.jitter_ns = 3000,
	.rate_bps = 1000000000,
	.queue_bytes = 65536,
	.blackout_period_ns = 1000000,
	.blackout_ns = 100000,
	.seed = 7,
};

static int
same_verdict(const struct fault_verdict *a, const struct fault_verdict *b)
{
	uint32_t i;

	if (a->copies != b->copies || a->cause != b->cause)
		return 0;
	for (i = 0; i < a->copies; i++)
		if (a->copy[i].release_ns != b->copy[i].release_ns ||
			a->copy[i].flip_bit != b->copy[i].flip_bit)
			return 0;
	return 1;
}

/* Return how many of 10000 verdicts are the same for both configs. */
static uint32_t
count_same(const struct fault_config *a, const struct fault_config *b)
{
	struct fault_model model_a, model_b;
	struct fault_verdict verdict_a, verdict_b;
	uint32_t i, same = 0;

	fault_model_init(&model_a, a);
	fault_model_init(&model_b, b);
	for (i = 0; i < 10000; i++) {
		fault_model_frame(&model_a, i * 7000, 64 + i % 1400, &verdict_a);
		fault_model_frame(&model_b, i * 7000, 64 + i % 1400, &verdict_b);
		same += (uint32_t)same_verdict(&verdict_a, &verdict_b);
	}
	return same;
}

static void
fault_model_frame__same_seed_same_verdicts(void **state)
{
	(void)state;
	assert_int_equal(count_same(&everything, &everything), 10000);
}

static void
fault_model_frame__other_seed_other_verdicts(void **state)
{
	struct fault_config other = everything;

	(void)state;
	other.seed++;
	assert_in_range(count_same(&everything, &other), 0, 5000);
}

/* Seeds in a row must be independent: loss is common to both at 0.5 * 0.5 of the frames. */
static void
fault_model_frame__seeds_in_a_row_are_independent(void **state)
{
	struct fault_config a = {.loss_ppm = 500000, .seed = 1},
			    b = {.loss_ppm = 500000, .seed = 2};

	(void)state;
	assert_near(count_same(&a, &b), 5000, 250);
}

static void
fault_model_frame__known_verdicts_of_seed_1(void **state)
{
	const struct fault_config config = {.loss_ppm = 250000, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i, lost = 0;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < 32; i++) {
		fault_model_frame(&model, 0, LEN, &verdict);
		lost |= (uint32_t)(verdict.copies == 0) << i;
	}
	/* If this changes, every seed in the bug reports loses its meaning. */
	assert_int_equal(lost, 0x00180030u);
}

static void
fault_model_frame__fault_added_leaves_others(void **state)
{
	struct fault_config lossy = {.loss_ppm = 50000, .seed = 3}, both = lossy;
	struct fault_model model_lossy, model_both;
	struct fault_verdict a, b;
	uint32_t i;

	(void)state;
	both.corrupt_ppm = both.duplicate_ppm = both.reorder_ppm = 300000;
	fault_model_init(&model_lossy, &lossy);
	fault_model_init(&model_both, &both);
	for (i = 0; i < 10000; i++) {
		fault_model_frame(&model_lossy, i, LEN, &a);
		fault_model_frame(&model_both, i, LEN, &b);
		assert_int_equal(a.cause, b.cause);
	}
}

static void
fault_model_frame__no_faults_pass_now(void **state)
{
	const struct fault_config config = {.seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint64_t now;

	(void)state;
	fault_model_init(&model, &config);
	for (now = 5; now < 1000; now++) {
		fault_model_frame(&model, now, LEN, &verdict);
		assert_int_equal(verdict.copies, 1);
		assert_int_equal(verdict.cause, FAULT_NONE);
		assert_int_equal(verdict.copy[0].release_ns, now);
		assert_int_equal(verdict.copy[0].flip_bit, FAULT_NO_FLIP);
	}
	assert_int_equal(model.counters.delayed, 0);
}

static void
fault_model_frame__rates_hold(void **state)
{
	const struct fault_config config = {
		.loss_ppm = 50000,
		.duplicate_ppm = 20000,
		.reorder_ppm = 100000,
		.reorder_ns = 20000,
		.corrupt_ppm = 10000,
		.seed = 1,
	};
	struct fault_counters c = run(&config, 1000);

	(void)state;
	assert_near(c.dropped[FAULT_LOSS], 50000, 1100);
	assert_near(c.duplicated, 19000, 700); /* of the 95 % that were not lost */
	assert_near(c.reordered, 96900, 1600); /* per copy: 95 % * 1.02 */
	assert_near(c.corrupted, 9690, 500);
	assert_int_equal(c.delayed, c.reordered);
}

static void
fault_model_frame__certain_loss_takes_all(void **state)
{
	const struct fault_config config = {.loss_ppm = FAULT_PPM, .seed = 9};

	(void)state;
	assert_int_equal(run(&config, 1).dropped[FAULT_LOSS], FRAMES);
}

static void
fault_model_frame__ten_ppm_is_rare_but_not_never(void **state)
{
	const struct fault_config config = {.loss_ppm = 10, .seed = 1};

	(void)state;
	assert_in_range(run(&config, 1).dropped[FAULT_LOSS], 1, 30);
}

static void
fault_model_frame__burst_lengths(void **state)
{
	const struct fault_config config = {.burst_ppm = 1000, .burst_frames = 8, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i, bursts = 0, lost = 0, longest = 0, length = 0;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < FRAMES; i++) {
		fault_model_frame(&model, i, LEN, &verdict);
		length = verdict.copies == 0 ? length + 1 : 0;
		bursts += length == 1;
		lost += length > 0;
		longest = length > longest ? length : longest;
		if (verdict.copies == 0)
			assert_int_equal(verdict.cause, FAULT_BURST);
	}
	assert_near(bursts, 992, 160);
	assert_near(lost * 100 / bursts, 800, 130);
	assert_in_range(longest, 30, 150);
}

static void
fault_model_frame__burst_of_one_is_single(void **state)
{
	const struct fault_config config = {.burst_ppm = FAULT_PPM, .burst_frames = 1, .seed = 1};

	(void)state;
	/* A burst that ends leaves one frame alone: every other frame is lost. */
	assert_int_equal(run(&config, 1).dropped[FAULT_BURST], FRAMES / 2);
}

static void
fault_model_frame__rate_spaces_releases(void **state)
{
	const struct fault_config config = {.rate_bps = 1000000000, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 1; i <= 1000; i++) {
		fault_model_frame(&model, 100, LEN, &verdict);
		assert_int_equal(verdict.copies, 1);
		assert_near(verdict.copy[0].release_ns, 100 + i * GBIT_NS, 1);
	}
	/* Idle again: only the frame's own time. */
	fault_model_frame(&model, 100000000, LEN, &verdict);
	assert_near(verdict.copy[0].release_ns, 100000000 + GBIT_NS, 1);
}

/* 64 B at 400 Gbit/s take 1.28 ns: the fractions must add up. */
static void
fault_model_frame__rate_keeps_fractions(void **state)
{
	const struct fault_config config = {.rate_bps = 400000000000, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < FRAMES; i++)
		fault_model_frame(&model, 0, 64, &verdict);
	assert_near(verdict.copy[0].release_ns, 1280000, 100);
}

static void
fault_model_frame__queue_drops_tail(void **state)
{
	const struct fault_config config = {
		.rate_bps = 1000000000,
		.queue_bytes = 10 * LEN,
		.seed = 1,
	};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < 15; i++) {
		fault_model_frame(&model, 0, LEN, &verdict);
		assert_int_equal(verdict.cause, i < 10 ? FAULT_NONE : FAULT_QUEUE);
	}
	/* One frame has left: room for one. */
	fault_model_frame(&model, GBIT_NS, LEN, &verdict);
	assert_int_equal(verdict.copies, 1);
	assert_near(verdict.copy[0].release_ns, 11 * GBIT_NS, 1);
	fault_model_frame(&model, GBIT_NS, LEN, &verdict);
	assert_int_equal(verdict.cause, FAULT_QUEUE);
	assert_int_equal(model.counters.dropped[FAULT_QUEUE], 6);
}

static void
fault_model_frame__idle_queue_takes_long_frame(void **state)
{
	const struct fault_config config = {.rate_bps = 1000000, .queue_bytes = 10, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;

	(void)state;
	fault_model_init(&model, &config);
	fault_model_frame(&model, 0, LEN, &verdict);
	assert_int_equal(verdict.copies, 1);
	fault_model_frame(&model, 1, LEN, &verdict);
	assert_int_equal(verdict.cause, FAULT_QUEUE);
}

/* Offered twice the rate, half gets through. */
static void
fault_model_frame__queue_halves_double_load(void **state)
{
	const struct fault_config config = {
		.rate_bps = 1000000000,
		.queue_bytes = 65536,
		.seed = 1,
	};
	struct fault_counters c = run(&config, GBIT_NS / 2);

	(void)state;
	assert_near(c.dropped[FAULT_QUEUE], FRAMES / 2, 100);
}

static void
fault_model_frame__blackout_edges(void **state)
{
	const struct fault_config config = {
		.blackout_period_ns = 1000,
		.blackout_ns = 100,
		.seed = 1,
	};
	static const struct {
		uint64_t now;
		enum fault_cause cause;
	} steps[] = {
		{0, FAULT_NONE},
		{899, FAULT_NONE},
		{900, FAULT_BLACKOUT},
		{999, FAULT_BLACKOUT},
		{1000, FAULT_NONE},
		{1899, FAULT_NONE},
		{1900, FAULT_BLACKOUT},
		{12345678999, FAULT_BLACKOUT},
		{12345679000, FAULT_NONE},
		{12345679900, FAULT_BLACKOUT},
	};
	struct fault_model model;
	struct fault_verdict verdict;
	size_t i;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		fault_model_frame(&model, steps[i].now, LEN, &verdict);
		assert_int_equal(verdict.cause, steps[i].cause);
	}
}

static void
fault_model_frame__blackout_for_ever(void **state)
{
	const struct fault_config config = {
		.blackout_period_ns = 1000,
		.blackout_ns = 1000,
		.seed = 1,
	};

	(void)state;
	assert_int_equal(run(&config, 77).dropped[FAULT_BLACKOUT], FRAMES);
}

static void
fault_model_frame__reorder_releases_later(void **state)
{
	const struct fault_config config = {
		.reorder_ppm = 50000,
		.reorder_ns = 20000,
		.delay_ns = 500,
		.seed = 1,
	};
	struct fault_model model;
	struct fault_verdict verdict;
	uint64_t now, late = 0;

	(void)state;
	fault_model_init(&model, &config);
	for (now = 0; now < 100000; now++) {
		fault_model_frame(&model, now, LEN, &verdict);
		if (verdict.copy[0].release_ns == now + 20500)
			late++;
		else
			assert_int_equal(verdict.copy[0].release_ns, now + 500);
	}
	assert_near(late, 5000, 350);
	assert_int_equal(late, model.counters.reordered);
}

static void
fault_model_frame__jitter_in_range(void **state)
{
	const struct fault_config config = {.delay_ns = 1000, .jitter_ns = 100, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i, seen[100] = {0};

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < 100000; i++) {
		fault_model_frame(&model, i, LEN, &verdict);
		assert_in_range(verdict.copy[0].release_ns, i + 1000, i + 1099);
		seen[verdict.copy[0].release_ns - i - 1000]++;
	}
	for (i = 0; i < 100; i++)
		assert_near(seen[i], 1000, 160);
}

static void
fault_model_frame__corrupt_positions_in_range(void **state)
{
	const struct fault_config config = {
		.corrupt_ppm = FAULT_PPM,
		.duplicate_ppm = FAULT_PPM,
		.seed = 1,
	};
	struct fault_model model;
	struct fault_verdict verdict;
	uint32_t i, k, seen[16] = {0}, differ = 0;

	(void)state;
	fault_model_init(&model, &config);
	for (i = 0; i < 10000; i++) {
		fault_model_frame(&model, i, 2, &verdict);
		assert_int_equal(verdict.copies, 2);
		for (k = 0; k < 2; k++) {
			assert_in_range(verdict.copy[k].flip_bit, 0, 15);
			seen[verdict.copy[k].flip_bit]++;
		}
		differ += verdict.copy[0].flip_bit != verdict.copy[1].flip_bit;
	}
	for (i = 0; i < 16; i++)
		assert_near(seen[i], 1250, 180);
	assert_near(differ, 9375, 130);
}

static void
fault_model_frame__empty_frame_is_not_corrupted(void **state)
{
	const struct fault_config config = {.corrupt_ppm = FAULT_PPM, .seed = 1};
	struct fault_model model;
	struct fault_verdict verdict;

	(void)state;
	fault_model_init(&model, &config);
	fault_model_frame(&model, 0, 0, &verdict);
	assert_int_equal(verdict.copy[0].flip_bit, FAULT_NO_FLIP);
	assert_int_equal(model.counters.corrupted, 0);
}

static void
fault_model_frame__everything_at_once_conserves(void **state)
{
	struct fault_counters c = run(&everything, 7000);
	int i;

	(void)state;
	assert_near(c.dropped[FAULT_BLACKOUT], FRAMES / 10, 1000);
	for (i = FAULT_LOSS; i < FAULT_CAUSES; i++)
		assert_true(c.dropped[i] > 0);
}

static void
fault_model_init__clamps(void **state)
{
	const struct fault_config config = {
		.loss_ppm = UINT32_MAX,
		.delay_ns = UINT64_MAX,
		.rate_bps = UINT64_MAX,
		.queue_bytes = UINT64_MAX,
		.blackout_ns = 5,
		.seed = 1,
	};

	(void)state;
	assert_int_equal(run(&config, 1).dropped[FAULT_LOSS], FRAMES);
}

static void
fault_cause_name__all(void **state)
{
	(void)state;
	assert_string_equal(fault_cause_name(FAULT_NONE), "none");
	assert_string_equal(fault_cause_name(FAULT_LOSS), "loss");
	assert_string_equal(fault_cause_name(FAULT_BURST), "burst");
	assert_string_equal(fault_cause_name(FAULT_QUEUE), "queue");
	assert_string_equal(fault_cause_name(FAULT_BLACKOUT), "blackout");
	assert_string_equal(fault_cause_name((enum fault_cause)99), "unknown");
}

static void
fault_config_parse__all_keys(void **state)
{
	struct fault_config c;
	char error[256];

	(void)state;
	assert_int_equal(fault_config_parse(&c,
				 "loss=5%, reorder=5%+50us ,duplicate=2%,"
				 "corrupt=200ppm,delay=10us,jitter=1.5ms,rate=1G,queue=64K,"
				 "blackout=100ms/1s,"
				 "burst=0.1%x8,seed=0x7",
				 error, sizeof(error)),
		0);
	assert_int_equal(c.loss_ppm, 50000);
	assert_int_equal(c.reorder_ppm, 50000);
	assert_int_equal(c.reorder_ns, 50000);
	assert_int_equal(c.duplicate_ppm, 20000);
	assert_int_equal(c.corrupt_ppm, 200);
	assert_int_equal(c.delay_ns, 10000);
	assert_int_equal(c.jitter_ns, 1500000);
	assert_int_equal(c.rate_bps, 1000000000);
	assert_int_equal(c.queue_bytes, 65536);
	assert_int_equal(c.blackout_ns, 100000000);
	assert_int_equal(c.blackout_period_ns, 1000000000);
	assert_int_equal(c.burst_ppm, 1000);
	assert_int_equal(c.burst_frames, 8);
	assert_int_equal(c.seed, 7);
}

static void
fault_config_parse__spellings(void **state)
{
	static const struct {
		const char *text;
		uint32_t ppm;
	} good[] = {
		{"loss=0.05", 50000},
		{"loss=1", 1000000},
		{"loss=100%", 1000000},
		{"loss=0", 0},
		{"loss=0%", 0},
		{"loss=1ppm", 1},
		{"loss=.5%", 5000},
		{"loss=0.0001%", 1},
		{"loss=33.3333%", 333333},
		{" loss=5%\n", 50000},
	};
	struct fault_config c;
	char error[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(fault_config_parse(&c, good[i].text, error, sizeof(error)), 0);
		assert_int_equal(c.loss_ppm, good[i].ppm);
	}
}

static void
fault_config_parse__defaults(void **state)
{
	struct fault_config c;
	char error[256];

	(void)state;
	assert_int_equal(fault_config_parse(&c, "", error, sizeof(error)), 0);
	assert_int_equal(c.seed, 1);
	assert_int_equal(c.loss_ppm, 0);
	assert_int_equal(fault_config_parse(&c, "reorder=1%", error, sizeof(error)), 0);
	assert_int_equal(c.reorder_ns, FAULT_REORDER_NS);
}

static void
fault_config_parse__bad_is_named(void **state)
{
	/* Text, and what the error must mention. */
	static const char *const bad[][3] = {
		{"lose=5%", "\"lose\"", "blackout"},
		{"loss", "loss", "probability"},
		{"loss=", "loss=", "probability"},
		{"loss=101%", "loss=101%", "100%"},
		{"loss=1.1", "loss=1.1", "100%"},
		{"loss=5", "loss=5", "probability"},
		{"loss=-1%", "loss=-1%", "probability"},
		{"loss=5%%", "loss=5%%", "probability"},
		{"loss=1000001ppm", "loss=1000001ppm", "probability"},
		{"loss=0.1ppm", "loss=0.1ppm", "probability"},
		{"loss=nan", "loss=nan", "probability"},
		{"loss=0x1", "loss=0x1", "probability"},
		{"loss=5%,loss=6%", "loss=6%", "twice"},
		{"loss=5%,", "unknown key", "allowed"},
		{"burst=1%", "burst=1%", "0.1%x8"},
		{"burst=1%x0", "burst=1%x0", "65535"},
		{"burst=1%x65536", "burst=1%x65536", "65535"},
		{"reorder=5%+0", "reorder=5%+0", "time"},
		{"delay=10", "delay=10", "unit"},
		{"delay=5s", "delay=5s", "4s"},
		{"jitter=1h", "jitter=1h", "unit"},
		{"rate=999", "rate=999", "1K"},
		{"rate=2T", "rate=2T", "1T"},
		{"rate=1G,queue=0", "queue=0", "bytes"},
		{"queue=64K", "queue=65536", "rate"},
		{"blackout=1s", "blackout=1s", "period"},
		{"blackout=2s/1s", "blackout=2s/1s", "period"},
		{"blackout=0/0", "blackout=0/0", "period"},
		{"seed=-1", "seed=-1", "whole number"},
		{"seed=18446744073709551616", "seed=1844", "2^64"},
		{"seed=7x", "seed=7x", "whole number"},
	};
	struct fault_config c;
	char error[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&c, 0x55, sizeof(c));
		if (fault_config_parse(&c, bad[i][0], error, sizeof(error)) == 0)
			fail_msg("%s was taken", bad[i][0]);
		if (strstr(error, bad[i][1]) == NULL || strstr(error, bad[i][2]) == NULL)
			fail_msg("%s: error is: %s", bad[i][0], error);
		assert_int_equal(c.seed, UINT64_C(0x5555555555555555));
	}
}

static void
fault_config_parse__too_long_part(void **state)
{
	struct fault_config c;
	char text[300], error[256], tiny[8];

	(void)state;
	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "seed=", 5);
	assert_true(fault_config_parse(&c, text, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, "too long"));
	assert_true(fault_config_parse(&c, "loss=9", tiny, sizeof(tiny)) < 0);
	assert_string_equal(tiny, "fault: ");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_model_frame__same_seed_same_verdicts),
		cmocka_unit_test(fault_model_frame__other_seed_other_verdicts),
		cmocka_unit_test(fault_model_frame__seeds_in_a_row_are_independent),
		cmocka_unit_test(fault_model_frame__known_verdicts_of_seed_1),
		cmocka_unit_test(fault_model_frame__fault_added_leaves_others),
		cmocka_unit_test(fault_model_frame__no_faults_pass_now),
		cmocka_unit_test(fault_model_frame__rates_hold),
		cmocka_unit_test(fault_model_frame__certain_loss_takes_all),
		cmocka_unit_test(fault_model_frame__ten_ppm_is_rare_but_not_never),
		cmocka_unit_test(fault_model_frame__burst_lengths),
		cmocka_unit_test(fault_model_frame__burst_of_one_is_single),
		cmocka_unit_test(fault_model_frame__rate_spaces_releases),
		cmocka_unit_test(fault_model_frame__rate_keeps_fractions),
		cmocka_unit_test(fault_model_frame__queue_drops_tail),
		cmocka_unit_test(fault_model_frame__idle_queue_takes_long_frame),
		cmocka_unit_test(fault_model_frame__queue_halves_double_load),
		cmocka_unit_test(fault_model_frame__blackout_edges),
		cmocka_unit_test(fault_model_frame__blackout_for_ever),
		cmocka_unit_test(fault_model_frame__reorder_releases_later),
		cmocka_unit_test(fault_model_frame__jitter_in_range),
		cmocka_unit_test(fault_model_frame__corrupt_positions_in_range),
		cmocka_unit_test(fault_model_frame__empty_frame_is_not_corrupted),
		cmocka_unit_test(fault_model_frame__everything_at_once_conserves),
		cmocka_unit_test(fault_model_init__clamps),
		cmocka_unit_test(fault_cause_name__all),
		cmocka_unit_test(fault_config_parse__all_keys),
		cmocka_unit_test(fault_config_parse__spellings),
		cmocka_unit_test(fault_config_parse__defaults),
		cmocka_unit_test(fault_config_parse__bad_is_named),
		cmocka_unit_test(fault_config_parse__too_long_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
