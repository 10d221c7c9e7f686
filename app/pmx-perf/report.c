/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints results as table lines or JSON lines, and makes the comparison table of several JSON
 * files.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "plot/plot.h"

#define ROWS_MAX 4096

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
row_head(const struct options *o)
{
	if (!o->json)
		printf("%-10s %-10s %8s %10s %10s %10s %12s %9s\n", "what", "test", "bytes",
			"p50 us", "p99 us", "p99.9 us", "Mmsg/s", "Gb/s");
}

void
row_print(const struct options *o, const struct row *r)
{
	if (o->json) {
		json_line(json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}",
			"what", r->what, "test", r->test, "size", (json_int_t)r->size, "p50_ns",
			json_ns(r->p50_ns), "p99_ns", json_ns(r->p99_ns), "p999_ns",
			json_ns(r->p999_ns), "min_ns", json_ns(r->min_ns), "max_ns",
			json_ns(r->max_ns), "per_second", json_figure(measured(r->per_second)),
			"gbits", json_figure(measured(r->gbits)), "lost", (json_int_t)r->lost));
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

/* ------------------------------------------------------------------ the comparison */

/* A group of columns of the comparison: GROUP=FILE puts a file's rows into that group; files
 * without a name are one group. */
#define GROUPS_MAX 4

struct group {
	char name[64];
	struct row *rows;
	unsigned count;
};

struct comparison {
	struct group groups[GROUPS_MAX];
	unsigned count;
};

static uint64_t
json_count(const json_t *line, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(line, key));
}

static void
add_row(struct group *g, const json_t *line)
{
	const char *what = json_string_value(json_object_get(line, "what")),
		   *test = json_string_value(json_object_get(line, "test"));

	if (what == NULL || test == NULL || g->count == ROWS_MAX)
		return;
	struct row *r = &g->rows[g->count++];

	*r = (struct row){
		.size = (uint32_t)json_count(line, "size"),
		.p50_ns = json_count(line, "p50_ns"),
		.p99_ns = json_count(line, "p99_ns"),
		.per_second = json_number_value(json_object_get(line, "per_second")),
		.gbits = json_number_value(json_object_get(line, "gbits")),
	};
	snprintf(r->what, sizeof(r->what), "%s", what);
	snprintf(r->test, sizeof(r->test), "%s", test);
}

static int
read_rows(const char *path, struct group *g)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	unsigned before = g->count;

	if (f == NULL) {
		fprintf(stderr, "pmx-perf: %s: %s\n", path, strerror(errno));
		return 1;
	}
	while (getline(&line, &room, f) > 0) {
		/* such files have other lines too */
		json_t *object = json_loads(line, 0, NULL);

		add_row(g, object);
		json_decref(object);
	}
	free(line);
	fclose(f);
	if (g->count == before)
		fprintf(stderr, "pmx-perf: %s: no result of pmx-perf --json is in it\n", path);
	return g->count == before;
}

static struct group *
group_named(struct comparison *c, const char *name, size_t len)
{
	for (unsigned i = 0; i < c->count; i++) {
		if (strlen(c->groups[i].name) == len && strncmp(c->groups[i].name, name, len) == 0)
			return &c->groups[i];
	}
	if (c->count == GROUPS_MAX)
		return NULL;
	struct group *g = &c->groups[c->count];

	g->rows = calloc(ROWS_MAX, sizeof(*g->rows));
	if (g->rows == NULL)
		return NULL;
	snprintf(g->name, sizeof(g->name), "%.*s", (int)len, name);
	c->count++;
	return g;
}

static int
read_file(struct comparison *c, const char *argument)
{
	const char *equals = strchr(argument, '=');
	struct group *g = group_named(c, argument, equals ? (size_t)(equals - argument) : 0);

	if (g == NULL) {
		fprintf(stderr, "pmx-perf: report: '%s': %u groups at most\n", argument,
			GROUPS_MAX);
		return 1;
	}
	return read_rows(equals ? equals + 1 : argument, g);
}

enum figure { P50, P99, RATE, BANDWIDTH };

static double
figure_of(const struct row *r, enum figure f)
{
	switch (f) {
	case P50:
		return measured((double)r->p50_ns / 1e3);
	case P99:
		return measured((double)r->p99_ns / 1e3);
	case RATE:
		return measured(r->per_second / 1e6);
	case BANDWIDTH:
		return measured(r->gbits);
	}
	return NAN;
}

int
compare_figures(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Returns the median of the rows of that kind and size, NAN if there is none. *spread: the
 * difference between highest and lowest as a part of the median. */
static double
median_of(const struct group *g, const char *what, const char *test, enum figure f, uint32_t size,
	double *spread)
{
	static double values[ROWS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < g->count; i++) {
		const struct row *r = &g->rows[i];

		if (strcmp(r->what, what) == 0 && strcmp(r->test, test) == 0 && r->size == size &&
			isfinite(figure_of(r, f)))
			values[n++] = figure_of(r, f);
	}
	if (n == 0)
		return NAN;
	qsort(values, n, sizeof(values[0]), compare_figures);
	*spread = n > 1 ? (values[n - 1] - values[0]) / values[n / 2] : NAN;
	return values[n / 2];
}

static bool
has(const struct group *g, const char *what, const char *test)
{
	for (unsigned i = 0; i < g->count; i++) {
		if (strcmp(g->rows[i].what, what) == 0 && strcmp(g->rows[i].test, test) == 0)
			return true;
	}
	return false;
}

/* The columns of a test. */
static const struct {
	const char *what, *name;
} columns[] = {{"pmx", "pmx"}, {"raw", "raw link"}, {"tcp", "TCP"}, {"udp", "UDP"}};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Print a group's columns: the heading (size 0), or the figures of a size. */
static void
print_group(const struct group *g, const char *test, enum figure f, uint32_t size, double *spread)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		const char *what = columns[i].what;
		double s = NAN, ignored;

		if (!has(g, what, test))
			continue;
		if (size == 0)
			printf(" %9s", columns[i].name);
		else
			printf(" %s",
				figure_text(median_of(g, what, test, f, size, &s), 9,
					f == RATE ? 3 : 2));
		*spread = isfinite(s) && s > *spread ? s : *spread;
		if (i == 0 && f == P50)
			size == 0
				? printf(" %9s", "pmx p99")
				: printf(" %s",
					  figure_text(median_of(g, what, test, P99, size, &ignored),
						  9, 2));
	}
	printf("   ");
}

static int
width_of(const struct group *g, const char *test, enum figure f)
{
	int width = f == P50 && has(g, "pmx", test) ? 10 : 0;

	for (size_t i = 0; i < COLUMNS; i++)
		width += has(g, columns[i].what, test) ? 10 : 0;
	return width;
}

/* Returns the next larger size that any group measured, or 0. */
static uint32_t
next_size(const struct comparison *c, const char *test, uint32_t size)
{
	uint32_t next = 0;

	for (unsigned k = 0; k < c->count; k++) {
		for (unsigned i = 0; i < c->groups[k].count; i++) {
			const struct row *r = &c->groups[k].rows[i];

			if (strcmp(r->what, "floor") != 0 && strcmp(r->test, test) == 0 &&
				r->size > size && (next == 0 || r->size < next))
				next = r->size;
		}
	}
	return next;
}

static void
table(const struct comparison *c, const char *test, enum figure f, const char *title)
{
	uint32_t size = next_size(c, test, 0);
	double spread = 0;

	if (size == 0)
		return;
	printf("\n%s\n", title);
	if (c->groups[0].name[0] != '\0' || c->count > 1) {
		printf("%10s", "");
		for (unsigned k = 0; k < c->count; k++)
			printf(" %-*s  ", width_of(&c->groups[k], test, f), c->groups[k].name);
		printf("\n");
	}
	printf("%10s", "bytes");
	for (unsigned k = 0; k < c->count; k++)
		print_group(&c->groups[k], test, f, 0, &spread);
	printf("\n");
	for (; size != 0; size = next_size(c, test, size)) {
		printf("%10u", size);
		for (unsigned k = 0; k < c->count; k++)
			print_group(&c->groups[k], test, f, size, &spread);
		printf("\n");
	}
	if (spread > 0)
		printf("medians of repetitions; the widest spread, highest less lowest, is %.0f %% "
		       "of its median\n",
			spread * 100);
}

/* Draw the same as curves: DIR/NAME.csv, .svg. */
static int
draw(const struct comparison *c, const char *dir, const char *test, enum figure f, struct plot *p)
{
	for (unsigned k = 0; k < c->count; k++) {
		for (size_t i = 0; i < COLUMNS && p->curves < PLOT_CURVES; i++) {
			const struct group *g = &c->groups[k];

			if (has(g, columns[i].what, test))
				snprintf(p->label[p->curves++], sizeof(p->label[0]), "%s%s%.*s",
					columns[i].name, g->name[0] ? ", " : "",
					(int)sizeof(p->label[0]) - 16, g->name);
		}
	}
	for (uint32_t size = next_size(c, test, 0); size != 0 && p->rows < PLOT_ROWS;
		size = next_size(c, test, size)) {
		double *y = plot_row(p, size), ignored;
		unsigned curve = 0;

		for (unsigned k = 0; k < c->count; k++) {
			for (size_t i = 0; i < COLUMNS && curve < p->curves; i++) {
				if (has(&c->groups[k], columns[i].what, test))
					y[curve++] = median_of(&c->groups[k], columns[i].what, test,
						f, size, &ignored);
			}
		}
	}
	return p->rows > 0 && !plot_write(p, dir);
}

static int
figures(const struct comparison *c, const char *dir)
{
	static struct plot round_trip = {
		.name = "round_trip",
		.title = "Round trip of messages",
		.x_label = "bytes",
		.y_label = "us, median",
		.x_log = true,
		.y_log = true,
	};
	static struct plot bandwidth = {
		.name = "bandwidth",
		.title = "Bandwidth of messages sent in a burst",
		.x_label = "bytes",
		.y_label = "Gb/s that arrive",
		.x_log = true,
		.y_log = true,
	};

	return draw(c, dir, "latency", P50, &round_trip) |
		draw(c, dir, "bandwidth", BANDWIDTH, &bandwidth);
}

int
run_report(const struct options *o)
{
	static struct comparison c;
	int result = 0;

	if (o->file_count == 0) {
		fprintf(stderr, "pmx-perf: report: of which files? They are what --json printed\n");
		return 2;
	}
	for (int i = 0; i < o->file_count; i++)
		result |= read_file(&c, o->files[i]);
	table(&c, "latency", P50,
		"Round trip, microseconds: median, and for pmx the 99th percentile");
	table(&c, "rate", RATE, "Message rate, millions a second, 64 bytes");
	table(&c, "bandwidth", BANDWIDTH,
		"Bandwidth, Gb/s of payload, written and read by the application");
	if (o->figure != NULL)
		result |= figures(&c, o->figure);
	for (unsigned k = 0; k < c.count; k++)
		free(c.groups[k].rows);
	return result;
}
