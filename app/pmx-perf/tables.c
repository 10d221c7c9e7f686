/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The report: one table a test with the medians of what several --json outputs say, with marks
 * where these cannot be believed as they stand, and below the tables what the marks say. On request
 * from where to where each figure goes, and the same as curves.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "plot/plot.h"

/* Ends a line of a table, so that none ends in blanks. */
struct text {
	char line[512];
	size_t len;
};

/* The lines below the tables are about these. */
struct table_seen {
	bool unsettled, beaten;
	unsigned fewest, most; /* repetitions of a cell */
};

static const struct {
	const char *test;
	enum figure figure;
	const char *title;
} tables[] = {
	{"latency", P50, "Round trip, microseconds: median and 99th percentile"},
	{"rate", RATE, "Message rate, millions a second, 64 bytes"},
	{"bandwidth", BANDWIDTH, "Bandwidth, Gb/s of payload, written and read by the application"},
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static __attribute__((format(printf, 2, 3))) void
add(struct text *t, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->line + t->len, sizeof(t->line) - t->len, format, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
	if (t->len >= sizeof(t->line))
		t->len = sizeof(t->line) - 1;
}

static void
line_end(struct text *t)
{
	while (t->len > 0 && t->line[t->len - 1] == ' ')
		t->len--;
	printf("%.*s\n", (int)t->len, t->line);
	t->len = 0;
}

/* Return how many decimals to print of a figure: so many that all figures fit a column. */
static int
decimals(enum figure f, double value)
{
	return value >= 1000 ? 0 : f == RATE ? 3 : 2;
}

/* Add a figure and its marks. */
static void
add_cell(struct text *t, const struct comparison *c, const struct group *g, const char *what,
	const char *test, enum figure f, uint32_t size, struct table_seen *seen)
{
	const struct compared_cell cell = cell_of(g, what, test, f, size);
	bool unsettled = cell_unsettled(&cell), beaten = beats_link(c, g, what, test, f, size);
	char marks[3];

	snprintf(marks, sizeof(marks), "%s%s", unsettled ? "*" : "", beaten ? "!" : "");
	add(t, " %s%-2s", figure_text(cell.median, 8, decimals(f, cell.median)), marks);
	seen->unsettled |= unsettled;
	seen->beaten |= beaten;
	if (cell.count == 0)
		return;
	if (seen->fewest == 0 || cell.count < seen->fewest)
		seen->fewest = cell.count;
	if (cell.count > seen->most)
		seen->most = cell.count;
}

/* Add a group's columns: the heading (size 0), or the figures of a size. A median round trip has
 * the 99th percentile beside it. */
static void
add_group(struct text *t, const struct comparison *c, const struct group *g, const char *test,
	enum figure f, uint32_t size, struct table_seen *seen)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		const char *what = columns[i].what;

		if (!group_has(g, what, test))
			continue;
		if (size == 0) {
			add(t, " %8s  ", columns[i].name);
			if (f == P50)
				add(t, " %8s  ", "p99");
			continue;
		}
		add_cell(t, c, g, what, test, f, size, seen);
		if (f == P50)
			add_cell(t, c, g, what, test, P99, size, seen);
	}
	add(t, "  ");
}

static int
width_of(const struct group *g, const char *test, enum figure f)
{
	int width = 0;

	for (size_t i = 0; i < COLUMNS; i++)
		width += group_has(g, columns[i].what, test) ? (f == P50 ? 22 : 11) : 0;
	return width;
}

static void
table(const struct comparison *c, const char *test, enum figure f, const char *title,
	struct table_seen *seen)
{
	uint32_t size = next_size(c, test, 0);
	struct text t = {.len = 0};

	if (size == 0)
		return;
	printf("\n%s\n", title);
	if (c->groups[0].name[0] != '\0' || c->count > 1) {
		add(&t, "%8s", "");
		for (unsigned k = 0; k < c->count; k++)
			add(&t, "   %-*s", width_of(&c->groups[k], test, f) - 1, c->groups[k].name);
		line_end(&t);
	}
	add(&t, "%8s", "bytes");
	for (unsigned k = 0; k < c->count; k++)
		add_group(&t, c, &c->groups[k], test, f, 0, seen);
	line_end(&t);
	for (; size != 0; size = next_size(c, test, size)) {
		add(&t, "%8u", size);
		for (unsigned k = 0; k < c->count; k++)
			add_group(&t, c, &c->groups[k], test, f, size, seen);
		line_end(&t);
	}
}

/* Print what the marks mean, a line each, and only for marks that stand above. */
static void
explain(const struct comparison *c, const struct table_seen *seen)
{
	const struct compared_cell line = line_of(c);

	if (seen->most <= 1 && !seen->beaten)
		return;
	printf("\n");
	if (seen->most > seen->fewest)
		printf("Medians of %u to %u turns.\n", seen->fewest, seen->most);
	else if (seen->most > 1)
		printf("Medians of %u turns.\n", seen->most);
	if (seen->unsettled)
		printf("* From turn to turn this figure differs by more than a third of itself; "
		       "--spread tells from where to where.\n");
	if (seen->beaten)
		printf("! Better than the raw link that carries it: the machine changed between "
		       "their turns, or the raw link has a faster way than those tried.\n");
	if ((seen->unsettled || seen->beaten) && line.highest > 1.5 * line.lowest)
		printf("In these turns a cache line took %.0f to %.0f ns from one CPU to the other "
		       "and back: they are not always equally near.\n",
			line.lowest, line.highest);
}

/* ------------------------------------------------------------------ from where to where */

static void
add_range(struct text *t, const struct compared_cell *cell, enum figure f)
{
	char range[40] = "-";

	if (cell->count > 0)
		snprintf(range, sizeof(range), "%.*f-%.*f", decimals(f, cell->lowest), cell->lowest,
			decimals(f, cell->highest), cell->highest);
	add(t, " %17s", range);
}

static void
spread_of_group(const struct comparison *c, const struct group *g, const char *test, enum figure f,
	const char *title)
{
	struct text t = {.len = 0};

	printf("\n%s%s%s: lowest to highest\n", g->name, g->name[0] ? ": " : "", title);
	add(&t, "%8s", "bytes");
	for (size_t i = 0; i < COLUMNS; i++) {
		if (group_has(g, columns[i].what, test))
			add(&t, " %17s%s", columns[i].name, f == P50 ? "               p99" : "");
	}
	line_end(&t);
	for (uint32_t size = next_size(c, test, 0); size != 0; size = next_size(c, test, size)) {
		add(&t, "%8u", size);
		for (size_t i = 0; i < COLUMNS; i++) {
			const char *what = columns[i].what;
			struct compared_cell cell = cell_of(g, what, test, f, size);

			if (!group_has(g, what, test))
				continue;
			add_range(&t, &cell, f);
			if (f != P50)
				continue;
			cell = cell_of(g, what, test, P99, size);
			add_range(&t, &cell, P99);
		}
		line_end(&t);
	}
}

static void
spreads(const struct comparison *c)
{
	for (size_t i = 0; i < TABLES; i++) {
		for (unsigned k = 0; k < c->count; k++) {
			bool any = false;

			for (size_t j = 0; j < COLUMNS; j++)
				any |= group_has(&c->groups[k], columns[j].what, tables[i].test);
			if (any)
				spread_of_group(c, &c->groups[k], tables[i].test, tables[i].figure,
					tables[i].title);
		}
	}
}

/* Return whether one of a column's figures has not settled. The 99th percentile does not count:
 * a machine that others use too never has the same twice. */
static bool
column_unsettled(const struct comparison *c, const struct group *g, const char *what)
{
	for (size_t i = 0; i < TABLES; i++) {
		for (uint32_t size = next_size(c, tables[i].test, 0); size != 0;
			size = next_size(c, tables[i].test, size)) {
			const struct compared_cell cell = cell_of(g, what, tables[i].test,
				tables[i].figure, size);

			if (cell_unsettled(&cell))
				return true;
		}
	}
	return false;
}

/* Print the columns that another turn would do good, as GROUP.WHAT, for scripts. */
static void
list_unsettled(const struct comparison *c)
{
	for (unsigned k = 0; k < c->count; k++) {
		for (size_t i = 0; i < COLUMNS; i++) {
			if (column_unsettled(c, &c->groups[k], columns[i].what))
				printf("%s.%s\n", c->groups[k].name, columns[i].what);
		}
	}
}

/* ------------------------------------------------------------------ curves */

/* Draw the same as curves: DIR/NAME.csv, .svg. */
static int
tables_draw(const struct comparison *c, const char *dir, const char *test, enum figure f,
	struct plot *p)
{
	for (unsigned k = 0; k < c->count; k++) {
		for (size_t i = 0; i < COLUMNS && p->curves < PLOT_CURVES; i++) {
			const struct group *g = &c->groups[k];

			if (group_has(g, columns[i].what, test))
				snprintf(p->label[p->curves++], sizeof(p->label[0]), "%s%s%.*s",
					columns[i].name, g->name[0] ? ", " : "",
					(int)sizeof(p->label[0]) - 16, g->name);
		}
	}
	for (uint32_t size = next_size(c, test, 0); size != 0 && p->rows < PLOT_ROWS;
		size = next_size(c, test, size)) {
		double *y = plot_row(p, size);
		unsigned curve = 0;

		for (unsigned k = 0; k < c->count; k++) {
			for (size_t i = 0; i < COLUMNS && curve < p->curves; i++) {
				if (group_has(&c->groups[k], columns[i].what, test))
					y[curve++] = cell_of(&c->groups[k], columns[i].what, test,
						f, size)
							     .median;
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

	return tables_draw(c, dir, "latency", P50, &round_trip) |
		tables_draw(c, dir, "bandwidth", BANDWIDTH, &bandwidth);
}

int
run_report(const struct perf_options *o)
{
	static struct comparison c;
	struct table_seen seen = {.most = 0};
	int result = 0;

	if (o->file_count == 0) {
		fprintf(stderr, "pmx-perf: report: of which files? They are what --json printed\n");
		return 2;
	}
	for (int i = 0; i < o->file_count; i++)
		result |= comparison_read(&c, o->files[i]);
	if (o->unsettled) {
		list_unsettled(&c);
		comparison_free(&c);
		return result;
	}
	for (size_t i = 0; i < TABLES; i++)
		table(&c, tables[i].test, tables[i].figure, tables[i].title, &seen);
	explain(&c, &seen);
	if (o->spread)
		spreads(&c);
	if (o->figure != NULL)
		result |= figures(&c, o->figure);
	comparison_free(&c);
	return result;
}
