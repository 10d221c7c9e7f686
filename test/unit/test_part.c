/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Partial transfers: which runs come out, against a model that marks every byte; two writers of one
 * region by diff.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rma/part.h"

static uint64_t seed = 1;

static uint32_t
below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

/* The runs of p are ascending and apart, lie inside, and are the marked bytes exactly. */
static void
assert_runs(const struct part *p, const uint8_t *marked)
{
	struct part_iterator it;
	struct part_run run;
	uint64_t at = 0, total = 0;
	bool first = true;

	assert_null(part_check(p));
	part_begin(&it, p);
	while (part_next(&it, &run)) {
		assert_true(run.len > 0 && run.offset + run.len <= p->bytes);
		/* touching runs: only where a stride's outer dimension continues its inner one */
		assert_true(
			first || run.offset > at || (p->kind == PART_STRIDE && run.offset == at));
		for (; at < run.offset; at++)
			assert_false(marked[at]);
		for (; at < run.offset + run.len; at++)
			assert_true(marked[at]);
		total += run.len;
		first = false;
	}
	assert_false(part_next(&it, &run));
	for (; at < p->bytes; at++)
		assert_false(marked[at]);
	/* from somewhere on: nothing is left out that is behind it */
	const uint64_t from = below((uint32_t)p->bytes);

	part_begin(&it, p);
	part_seek(&it, from);
	for (at = from; part_next(&it, &run);) {
		for (; at < run.offset; at++)
			assert_false(marked[at]);
		if (run.offset + run.len > at)
			at = run.offset + run.len;
	}
	for (; at < p->bytes; at++)
		assert_false(marked[at]);
	assert_int_equal(part_total(p), total);
}

static void
part_basic__is_one_run(void **state)
{
	struct part p = {.kind = PART_BASIC, .bytes = 1ull << 40};
	struct part_iterator it;
	struct part_run run;

	(void)state;
	assert_null(part_check(&p));
	part_begin(&it, &p);
	assert_true(part_next(&it, &run));
	assert_int_equal(run.offset, 0);
	assert_int_equal(run.len, 1ull << 40);
	assert_false(part_next(&it, &run));
}

static void
part_stride__random_cases(void **state)
{
	static uint8_t marked[1 << 16];

	(void)state;
	for (int round = 0; round < 100000; round++) {
		struct part p = {
			.kind = PART_STRIDE,
			.stride = {.dims = 1 + below(3), .block = 1 + below(20)},
		};
		uint64_t extent = p.stride.block;

		for (uint32_t d = 0; d < p.stride.dims; d++) {
			p.stride.count[d] = 1 + below(6);
			p.stride.interval[d] = extent + (below(2) ? below(30) : 0);
			extent += (p.stride.count[d] - 1) * p.stride.interval[d];
		}
		p.bytes = extent + below(10);
		assert_true(p.bytes <= sizeof(marked));
		memset(marked, 0, p.bytes);
		for (uint64_t i = 0; i < p.stride.count[0]; i++) {
			for (uint64_t k = 0; k < (p.stride.dims > 1 ? p.stride.count[1] : 1); k++) {
				for (uint64_t l = 0;
					l < (p.stride.dims > 2 ? p.stride.count[2] : 1); l++)
					memset(marked + i * p.stride.interval[0] +
							k * p.stride.interval[1] +
							l * p.stride.interval[2],
						1, p.stride.block);
			}
		}
		assert_runs(&p, marked);
	}
}

static void
part_bitmap__random_cases(void **state)
{
	static uint8_t marked[1 << 16];
	static uint64_t bits[(1 << 16) / PART_UNIT_MIN / 64 + 1];

	(void)state;
	for (int round = 0; round < 100000; round++) {
		struct part p = {
			.kind = PART_BITMAP,
			.bytes = 1 + below(below(10) ? 600 : 20000),
			.bitmap =
				{
					.unit = PART_UNIT_MIN << below(below(10) ? 4 : 11),
					.bits = bits,
				},
		};
		uint32_t units = (uint32_t)((p.bytes + p.bitmap.unit - 1) / p.bitmap.unit),
			 dense = below(101);

		/* also beyond the last unit */
		memset(bits, 0xFF, (units / 64 + 1) * sizeof(*bits));
		for (uint32_t i = 0; i < units; i++) {
			bool set = below(100) < dense;

			if (!set)
				bits[i / 64] &= ~(1ull << i % 64);
			for (uint64_t b = (uint64_t)i * p.bitmap.unit;
				b < (i + 1ull) * p.bitmap.unit && b < p.bytes; b++)
				marked[b] = set;
		}
		assert_runs(&p, marked);
	}
}

static void
part_diff__random_cases(void **state)
{
	static uint8_t now[1 << 12], twin[1 << 12], marked[1 << 12];

	(void)state;
	for (int round = 0; round < 100000; round++) {
		struct part p = {
			.kind = PART_DIFF,
			.bytes = 1 + below(below(10) ? 300 : sizeof(now)),
			.diff = {now, twin},
		};
		uint32_t changes = below(below(2) ? 4 : 60);

		for (uint64_t i = 0; i < p.bytes; i++)
			now[i] = twin[i] = (uint8_t)below(256);
		while (changes-- > 0) {
			uint32_t at = below((uint32_t)p.bytes), n = 1 + below(20);

			for (uint64_t i = at; i < at + n && i < p.bytes; i++)
				now[i] = (uint8_t)below(below(2) ? 256 : 2);
		}
		for (uint64_t i = 0; i < p.bytes; i++)
			marked[i] = now[i] != twin[i];
		assert_runs(&p, marked);
	}
}

/* Each of two writers has a copy and a twin, changes other bytes than the other, and pushes what
 * differs: the home has all changes, whichever pushed last. */
static void
part_diff__two_writers(void **state)
{
	enum { BYTES = 4096 };
	static uint8_t home[BYTES], model[BYTES], copy[2][BYTES], twin[2][BYTES];

	(void)state;
	for (int round = 0; round < 10000; round++) {
		for (int w = 0; w < 2; w++) { /* pull with twin */
			memcpy(copy[w], home, BYTES);
			memcpy(twin[w], home, BYTES);
		}
		for (uint32_t i = below(40); i > 0; i--) {
			/* interleaved, never the same byte */
			uint32_t at = below(BYTES), w = (at / 3) & 1;

			copy[w][at] = model[at] = (uint8_t)below(256);
		}
		for (int turn = 0; turn < 2; turn++) {
			int w = turn ^ (round & 1);
			struct part p = {
				.kind = PART_DIFF,
				.bytes = BYTES,
				.diff = {copy[w], twin[w]},
			};
			struct part_iterator it;
			struct part_run run;

			part_begin(&it, &p);
			while (part_next(&it, &run))
				memcpy(home + run.offset, copy[w] + run.offset, run.len);
		}
		assert_memory_equal(home, model, BYTES);
	}
}

static void
part_check__names_what_is_wrong(void **state)
{
	const uint64_t bits[1] = {0};
	const struct {
		struct part part;
		const char *says;
	} cases[] = {
		{{.kind = PART_BASIC, .bytes = 0}, "2^40"},
		{{.kind = PART_BASIC, .bytes = PART_BYTES_MAX + 1}, "2^40"},
		{{.kind = 17, .bytes = 1}, "no such kind"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {.dims = 0, .block = 1}},
			"dimensions"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {.dims = 4, .block = 1}},
			"dimensions"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 0, {4}, {2}}}, "no bytes"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 4, {4}, {0}}}, "count is 0"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 4, {3}, {2}}}, "shorter"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 4, {8}, {2}}}, "beyond"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 1, {1ull << 63}, {3}}}, "beyond"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, 1, {1ull << 20}, {UINT64_MAX}}},
			"beyond"},
		{{.kind = PART_STRIDE, .bytes = 100, .stride = {2, 4, {8, 10}, {3, 2}}}, "shorter"},
		{{.kind = PART_STRIDE, .bytes = 10, .stride = {1, UINT64_MAX, {UINT64_MAX}, {1}}},
			"beyond"},
		{{.kind = PART_BITMAP, .bytes = 10, .bitmap = {2, bits}}, "power of two"},
		{{.kind = PART_BITMAP, .bytes = 10, .bitmap = {8192, bits}}, "power of two"},
		{{.kind = PART_BITMAP, .bytes = 10, .bitmap = {12, bits}}, "power of two"},
		{{.kind = PART_BITMAP, .bytes = 10, .bitmap = {4, NULL}}, "no bitmap"},
		{{.kind = PART_DIFF, .bytes = 10, .diff = {bits, NULL}}, "no twin"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *said = part_check(&cases[i].part);

		if (said == NULL || strstr(said, cases[i].says) == NULL)
			fail_msg("case %u says '%s', not '%s'", i, said ? said : "nothing",
				cases[i].says);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(part_basic__is_one_run),
		cmocka_unit_test(part_stride__random_cases),
		cmocka_unit_test(part_bitmap__random_cases),
		cmocka_unit_test(part_diff__random_cases),
		cmocka_unit_test(part_diff__two_writers),
		cmocka_unit_test(part_check__names_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
