/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints results as table lines or JSON lines.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

void
row_latency(struct perf_row *r, const struct hist *h)
{
	r->p50_ns = hist_percentile(h, 500000);
	r->p99_ns = hist_percentile(h, 990000);
	r->p999_ns = hist_percentile(h, 999000);
	r->p9999_ns = hist_percentile(h, 999900);
	r->min_ns = hist_min(h);
	r->max_ns = hist_max(h);
}

void
json_line(json_t *object)
{
	char *text = json_dumps(object, JSON_REAL_PRECISION(9));

	if (text == NULL) {
		fprintf(stderr, "pmx-perf: no memory for a line of JSON\n");
		exit(1);
	}
	puts(text);
	fflush(stdout);
	free(text);
	json_decref(object);
}

json_t *
json_figure(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

const char *
figure_text(double value, int width, int decimals)
{
	static char texts[4][32];
	static unsigned turn;
	char *out = texts[turn++ % 4];

	if (isfinite(value))
		snprintf(out, sizeof(texts[0]), "%*.*f", width, decimals, value);
	else
		snprintf(out, sizeof(texts[0]), "%*s", width, "-");
	return out;
}

static double
measured(double value)
{
	return value > 0 ? value : NAN;
}

static json_t *
json_ns(uint64_t ns)
{
	return ns ? json_integer((json_int_t)ns) : json_null();
}

void
row_head(const struct perf_options *o)
{
	if (!o->json)
		printf("%-10s %-10s %8s %10s %10s %10s %12s %9s\n", "what", "test", "bytes",
			"p50 us", "p99 us", "p99.9 us", "Mmsg/s", "Gb/s");
}

void
row_print(const struct perf_options *o, const struct perf_row *r)
{
	if (o->json) {
		json_line(json_pack(
			"{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "what",
			r->what, "test", r->test, "size", (json_int_t)r->size, "p50_ns",
			json_ns(r->p50_ns), "p99_ns", json_ns(r->p99_ns), "p999_ns",
			json_ns(r->p999_ns), "p9999_ns", json_ns(r->p9999_ns), "min_ns",
			json_ns(r->min_ns), "max_ns", json_ns(r->max_ns), "per_second",
			json_figure(measured(r->per_second)), "gbits",
			json_figure(measured(r->gbits)), "seconds",
			json_figure(measured(r->seconds)), "lost", (json_int_t)r->lost));
		return;
	}
	printf("%-10s %-10s %8u", r->what, r->test, r->size);
	if (strcmp(r->test, "latency") == 0)
		printf(" %s %s %s %12s %9s\n",
			figure_text(measured((double)r->p50_ns / 1e3), 10, 2),
			figure_text(measured((double)r->p99_ns / 1e3), 10, 2),
			figure_text(measured((double)r->p999_ns / 1e3), 10, 2), "", "");
	else
		printf(" %10s %10s %10s %s %s\n", "", "", "",
			figure_text(measured(r->per_second / 1e6), 12, 3),
			figure_text(measured(r->gbits), 9, 2));
	fflush(stdout);
}

int
compare_figures(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}
