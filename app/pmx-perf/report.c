/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Results as table lines, as JSON lines, and the comparison table made of several JSON files.
 */
#include <stdlib.h>
#include <string.h>

#include "perf.h"

#define ROWS_MAX 512

void
row_latency(struct row *r, const struct hist *h)
{
	r->p50_ns = hist_percentile(h, 500000);
	r->p99_ns = hist_percentile(h, 990000);
	r->p999_ns = hist_percentile(h, 999000);
	r->min_ns = hist_min(h);
	r->max_ns = hist_max(h);
}

void
row_head(const struct options *o, const char *what)
{
	(void)what;
	if (!o->json)
		printf("%-10s %-10s %8s %10s %10s %10s %12s %9s\n", "what", "test", "bytes", "p50 us",
			"p99 us", "p99.9 us", "Mmsg/s", "Gb/s");
}

void
row_print(const struct options *o, const struct row *r)
{
	if (o->json) {
		printf("{\"what\": \"%s\", \"test\": \"%s\", \"size\": %u, \"p50_ns\": %lu, "
		       "\"p99_ns\": %lu, \"p999_ns\": %lu, \"min_ns\": %lu, \"max_ns\": %lu, "
		       "\"per_second\": %.1f, \"gbits\": %.4f, \"lost\": %lu}\n",
			r->what, r->test, r->size, r->p50_ns, r->p99_ns, r->p999_ns, r->min_ns,
			r->max_ns, r->per_second, r->gbits, r->lost);
	} else if (strcmp(r->test, "latency") == 0) {
		printf("%-10s %-10s %8u %10.2f %10.2f %10.2f %12s %9s\n", r->what, r->test, r->size,
			(double)r->p50_ns / 1e3, (double)r->p99_ns / 1e3, (double)r->p999_ns / 1e3,
			"", "");
	} else {
		printf("%-10s %-10s %8u %10s %10s %10s %12.3f %9.2f\n", r->what, r->test, r->size, "",
			"", "", r->per_second / 1e6, r->gbits);
	}
	fflush(stdout);
}

static int
read_rows(const char *path, struct row *rows, unsigned *count)
{
	FILE *f = fopen(path, "r");
	char line[512];

	if (f == NULL) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		struct row r = {0};

		if (sscanf(line,
			    "{\"what\": \"%15[^\"]\", \"test\": \"%15[^\"]\", \"size\": %u, "
			    "\"p50_ns\": %lu, \"p99_ns\": %lu, \"p999_ns\": %lu, \"min_ns\": %lu, "
			    "\"max_ns\": %lu, \"per_second\": %lf, \"gbits\": %lf, \"lost\": %lu",
			    r.what, r.test, &r.size, &r.p50_ns, &r.p99_ns, &r.p999_ns, &r.min_ns,
			    &r.max_ns, &r.per_second, &r.gbits, &r.lost) == 11 &&
			*count < ROWS_MAX)
			rows[(*count)++] = r;
	}
	fclose(f);
	return 0;
}

/* The row of that kind, with the size that stands beside `size`: a floor's frame carries it. */
static const struct row *
find(const struct row *rows, unsigned n, const char *what, const char *test, uint32_t size)
{
	const struct row *best = NULL;

	for (unsigned i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		if (strcmp(r->what, what) != 0 || strcmp(r->test, test) != 0)
			continue;
		if (r->size == size)
			return r;
		/* no frame is longer than the longest: bulk goes in full frames */
		if (strcmp(what, "floor") == 0 && (best == NULL || r->size > best->size) &&
			(r->size <= size || best == NULL))
			best = r;
	}
	return strcmp(test, "latency") == 0 && size > 9000 ? NULL : best;
}

static void
cell(const struct row *r, int column)
{
	if (r == NULL)
		printf(" %9s", "-");
	else if (column == 0)
		printf(" %9.2f", (double)r->p50_ns / 1e3);
	else if (column == 1)
		printf(" %9.3f", r->per_second / 1e6);
	else
		printf(" %9.2f", r->gbits);
}

static void
table(const struct row *rows, unsigned n, const char *test, int column, const char *title)
{
	printf("\n%s\n%10s %9s %9s %9s %9s %9s\n", title, "bytes",
		column == 0 ? "pmx p50" : "pmx", column == 0 ? "p99" : "", column == 0 ? "p99.9" : "",
		"raw link", "TCP");
	for (unsigned i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		if (strcmp(r->what, "pmx") != 0 || strcmp(r->test, test) != 0)
			continue;
		printf("%10u", r->size);
		cell(r, column);
		if (column == 0)
			printf(" %9.2f %9.2f", (double)r->p99_ns / 1e3, (double)r->p999_ns / 1e3);
		else
			printf(" %9s %9s", "", "");
		cell(find(rows, n, "floor", test, r->size), column);
		cell(find(rows, n, "tcp", test, r->size), column);
		printf("\n");
	}
}

int
report(const struct options *o)
{
	struct row *rows = calloc(ROWS_MAX, sizeof(*rows));
	unsigned n = 0;
	int result = 0;

	if (rows == NULL)
		return 1;
	for (int i = 0; i < o->file_count; i++)
		result |= read_rows(o->files[i], rows, &n);
	table(rows, n, "latency", 0, "Round trip, microseconds (raw link: an echoed frame of that size)");
	table(rows, n, "rate", 1, "Message rate, millions a second, 64 bytes");
	table(rows, n, "bandwidth", 2,
		"Bandwidth, Gb/s of payload, written and read by the application (raw link: full frames)");
	free(rows);
	return result;
}
