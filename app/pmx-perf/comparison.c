/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads --json outputs and makes cells of their rows; comparison.h says what they are.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"

#define ROWS_MAX   4096
/* of a median, above which a cell is marked and measured again */
#define SPREAD_MAX (1.0 / 3)

const struct compared_column columns[COLUMNS] = {{"pmx", "pmx"}, {"raw", "raw link"},
	{"tcp", "TCP"}, {"udp", "UDP"}};

/* ------------------------------------------------------------------ reading */

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
	struct perf_row *r = &g->rows[g->count++];

	*r = (struct perf_row){
		.size = (uint32_t)json_count(line, "size"),
		.p50_ns = json_count(line, "p50_ns"),
		.p99_ns = json_count(line, "p99_ns"),
		.min_ns = json_count(line, "min_ns"),
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

int
comparison_read(struct comparison *c, const char *argument)
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

void
comparison_free(struct comparison *c)
{
	for (unsigned k = 0; k < c->count; k++)
		free(c->groups[k].rows);
}

/* ------------------------------------------------------------------ cells */

static double
figure_of(const struct perf_row *r, enum figure f)
{
	double value = 0;

	switch (f) {
	case P50:
		value = (double)r->p50_ns / 1e3;
		break;
	case P99:
		value = (double)r->p99_ns / 1e3;
		break;
	case RATE:
		value = r->per_second / 1e6;
		break;
	case BANDWIDTH:
		value = r->gbits;
		break;
	}
	return value > 0 ? value : NAN;
}

struct compared_cell
cell_of_values(double *values, unsigned n)
{
	if (n == 0)
		return (struct compared_cell){0, NAN, NAN, NAN};
	qsort(values, n, sizeof(values[0]), compare_figures);
	return (struct compared_cell){
		.count = n,
		.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
		.lowest = values[0],
		.highest = values[n - 1],
	};
}

struct compared_cell
cell_of(const struct group *g, const char *what, const char *test, enum figure f, uint32_t size)
{
	static double values[ROWS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < g->count; i++) {
		const struct perf_row *r = &g->rows[i];

		if (strcmp(r->what, what) == 0 && strcmp(r->test, test) == 0 && r->size == size &&
			isfinite(figure_of(r, f)))
			values[n++] = figure_of(r, f);
	}
	return cell_of_values(values, n);
}

struct compared_cell
line_of(const struct comparison *c)
{
	static double values[GROUPS_MAX * ROWS_MAX];
	unsigned n = 0;

	for (unsigned k = 0; k < c->count; k++) {
		for (unsigned i = 0; i < c->groups[k].count; i++) {
			const struct perf_row *r = &c->groups[k].rows[i];

			if (strcmp(r->what, "line") == 0 && r->min_ns > 0)
				values[n++] = (double)r->min_ns;
		}
	}
	return cell_of_values(values, n);
}

bool
group_has(const struct group *g, const char *what, const char *test)
{
	for (unsigned i = 0; i < g->count; i++) {
		if (strcmp(g->rows[i].what, what) == 0 && strcmp(g->rows[i].test, test) == 0)
			return true;
	}
	return false;
}

static bool
is_column(const char *what)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		if (strcmp(columns[i].what, what) == 0)
			return true;
	}
	return false;
}

uint32_t
next_size(const struct comparison *c, const char *test, uint32_t size)
{
	uint32_t next = 0;

	for (unsigned k = 0; k < c->count; k++) {
		for (unsigned i = 0; i < c->groups[k].count; i++) {
			const struct perf_row *r = &c->groups[k].rows[i];

			if (is_column(r->what) && strcmp(r->test, test) == 0 && r->size > size &&
				(next == 0 || r->size < next))
				next = r->size;
		}
	}
	return next;
}

/* ------------------------------------------------------------------ what to believe */

bool
cell_unsettled(const struct compared_cell *cell)
{
	return cell->count > 1 && cell->highest - cell->lowest > SPREAD_MAX * cell->median;
}

/* Return the group whose raw link carries what pmx has in g, or NULL. */
static const struct group *
link_of(const struct comparison *c, const struct group *g, const char *test)
{
	const struct group *found = NULL;

	if (group_has(g, columns[1].what, test))
		return g;
	for (unsigned k = 0; k < c->count; k++) {
		if (!group_has(&c->groups[k], columns[1].what, test))
			continue;
		if (found != NULL)
			return NULL;
		found = &c->groups[k];
	}
	return found;
}

bool
beats_link(const struct comparison *c, const struct group *g, const char *what, const char *test,
	enum figure f, uint32_t size)
{
	const struct group *carrier = link_of(c, g, test);
	struct compared_cell own, raw;

	if (carrier == NULL || strcmp(what, columns[0].what) != 0)
		return false;
	own = cell_of(g, what, test, f, size);
	raw = cell_of(carrier, columns[1].what, test, f, size);
	/* false if either is NAN */
	return f == P50 || f == P99 ? own.median < raw.median : own.median > raw.median;
}
