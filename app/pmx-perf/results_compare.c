/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-perf compare: whether one run of a suite is better or worse than another, or one column of a
 * run than another. Of each figure that both have: the ratio of the medians, and an interval in
 * which 99 % of such ratios lie when the turns of both are drawn anew (bootstrap, Efron 1979). A
 * figure is worse if its ratio is by more than the threshold and none of the interval says
 * otherwise. With less than five turns of each nothing is judged: the interval is too short then.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "perf.h"
#include "results.h"

#define DRAWS     2000
#define TURNS_MIN 5

/* Two runs, or one run and two of its columns. */
struct two {
	const json_t *old, *new;
	char old_column[64], new_column[64]; /* "": each with itself */
};

struct ratio {
	double ratio, low, high; /* above 1: the second one is better */
	int verdict;             /* 1: better, -1: worse, 0: neither */
};

static double
median_drawn(const struct repeated *r, uint64_t *state)
{
	double drawn[sizeof(r->values) / sizeof(r->values[0])];

	for (unsigned i = 0; i < r->cell.count; i++)
		drawn[i] = r->values[mix64_next(state) % r->cell.count];
	return cell_of_values(drawn, r->cell.count).median;
}

static struct ratio
ratio_of(const struct repeated *a, const struct repeated *b, bool less, double threshold)
{
	static double drawn[DRAWS];
	uint64_t state = 1; /* the same figures have the same interval */
	struct ratio r;

	for (unsigned i = 0; i < DRAWS; i++) {
		const double x = median_drawn(a, &state), y = median_drawn(b, &state);

		drawn[i] = less ? x / y : y / x;
	}
	qsort(drawn, DRAWS, sizeof(drawn[0]), compare_figures);
	r.ratio = less ? a->cell.median / b->cell.median : b->cell.median / a->cell.median;
	r.low = drawn[DRAWS / 200];
	r.high = drawn[DRAWS - 1 - DRAWS / 200];
	r.verdict = a->cell.count < TURNS_MIN || b->cell.count < TURNS_MIN ? 0
		: r.ratio < 1 / (1 + threshold) && r.high < 1              ? -1
		: r.ratio > 1 + threshold && r.low > 1                     ? 1
									   : 0;
	return r;
}

static void
print_ratio(const struct perf_options *o, const struct series *s, const struct measure *m,
	uint32_t size, const struct repeated *a, const struct repeated *b, const struct ratio *r)
{
	static const char *const words[] = {"WORSE", "", "better"};

	if (o->json)
		json_line(json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i}",
			"column", s->name, "test", m->test, "figure", m->key, "size",
			(json_int_t)size, "old", a->cell.median, "new", b->cell.median, "ratio",
			r->ratio, "low", r->low, "high", r->high, "turns_old", (int)a->cell.count,
			"turns_new", (int)b->cell.count, "verdict", r->verdict));
	else
		printf("%-20.20s %-32s %8u %s %s %8.3f %6.3f to %-6.3f %s\n", s->name, m->title,
			size, figure_text(a->cell.median, 10, 2),
			figure_text(b->cell.median, 10, 2), r->ratio, r->low, r->high,
			words[r->verdict + 1]);
}

/* Compare all figures that both have. Returns how many that are; *worse: how many of them are. */
static unsigned
compare_all(const struct perf_options *o, const struct two *two, unsigned *worse)
{
	struct series s[SERIES_MAX];
	unsigned compared = 0;

	for (size_t k = 0; k < MEASURES; k++) {
		const struct measure *m = &measures[k];
		const unsigned n = results_series(two->new, m, s);

		for (unsigned i = 0; i < n; i++) {
			struct series before = s[i];

			if (two->new_column[0] != '\0') {
				if (strcmp(s[i].column, two->new_column) != 0)
					continue;
				before.column = two->old_column;
			}
			for (uint32_t size = results_next_size(two->new, m, 0); size != 0;
				size = results_next_size(two->new, m, size)) {
				const struct repeated a = results_figure(two->old, &before, m,
					size);
				const struct repeated b = results_figure(two->new, &s[i], m, size);

				if (a.cell.count == 0 || b.cell.count == 0)
					continue;
				const struct ratio r = ratio_of(&a, &b, m->less, o->threshold);

				print_ratio(o, &s[i], m, size, &a, &b, &r);
				*worse += r.verdict < 0;
				compared++;
			}
		}
	}
	return compared;
}

/* Say so if the two were not measured on the same machine, or if that was not the same. */
static void
look_at_machines(const struct two *two)
{
	static const char *const facts[] = {"cpu", "kernel", "dpdk", "distance"};
	char a_cpus[512], b_cpus[512];

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		const char *a = json_string_value(
				   json_object_get(json_object_get(two->old, "machine"), facts[i])),
			   *b = json_string_value(
				   json_object_get(json_object_get(two->new, "machine"), facts[i]));

		if (a != NULL && b != NULL && strcmp(a, b) != 0)
			fprintf(stderr, "pmx-perf: compare: %s differs: %s; %s\n", facts[i], a, b);
	}
	results_cpus(two->old, a_cpus, sizeof(a_cpus));
	results_cpus(two->new, b_cpus, sizeof(b_cpus));
	if (two->old == two->new)
		fprintf(stderr, "%s\n", a_cpus);
	else
		fprintf(stderr, "old: %s\nnew: %s\n", a_cpus, b_cpus);
}

/* Read what the arguments name. Return 0, or 2 after printing why. */
static int
two_of(const struct perf_options *o, struct two *two)
{
	const char *comma = o->columns != NULL ? strchr(o->columns, ',') : NULL;

	if (o->file_count != (o->columns != NULL ? 1 : 2) ||
		(o->columns != NULL && comma == NULL)) {
		fprintf(stderr,
			"pmx-perf: compare: two runs of a suite, compare OLD NEW, each what --out "
			"named; or two columns of one, compare RUN --columns OLD,NEW\n");
		return 2;
	}
	if (comma != NULL) {
		snprintf(two->old_column, sizeof(two->old_column), "%.*s",
			(int)(comma - o->columns), o->columns);
		snprintf(two->new_column, sizeof(two->new_column), "%s", comma + 1);
	}
	two->old = results_load(o->files[0]);
	two->new = o->file_count == 2 ? results_load(o->files[1]) : two->old;
	return two->old != NULL && two->new != NULL ? 0 : 2;
}

int
run_compare(const struct perf_options *o)
{
	struct two two = {.old = NULL};
	unsigned worse = 0, compared = 0;
	int result = two_of(o, &two);

	if (result == 0) {
		look_at_machines(&two);
		if (!o->json)
			printf("%-20s %-32s %8s %10s %10s %8s %16s\n", "column", "figure", "bytes",
				"old", "new", "ratio", "99 % of draws");
		compared = compare_all(o, &two, &worse);
		if (compared == 0) {
			fprintf(stderr, "pmx-perf: compare: they have no figure in common\n");
			result = 2;
		} else {
			result = worse != 0;
			if (!o->json)
				printf("\n%u of %u figures are worse by more than %g %%; a ratio "
				       "above 1 is better.\n",
					worse, compared, o->threshold * 100);
		}
	}
	if (two.new != two.old)
		json_decref((json_t *)two.new);
	json_decref((json_t *)two.old);
	return result;
}
