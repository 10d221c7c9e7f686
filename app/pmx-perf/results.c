/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads, writes and tabulates the document that results.h describes.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "perf.h"
#include "results.h"

const struct measure measures[MEASURES] = {
	{"latency", "p50_ns", "Round trip, median", "us", 1e-3, true},
	{"latency", "p99_ns", "Round trip, 99th percentile", "us", 1e-3, true},
	{"latency", "p999_ns", "Round trip, 99.9th percentile", "us", 1e-3, true},
	{"latency", "p9999_ns", "Round trip, 99.99th percentile", "us", 1e-3, true},
	{"rate", "per_second", "Messages", "M/s", 1e-6, false},
	{"bandwidth", "gbits", "Bandwidth", "Gb/s", 1, false},
};

json_t *
results_load(const char *path)
{
	char inside[4096];
	json_error_t error;
	struct stat st;
	json_t *d;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(inside, sizeof(inside), "%s/results.json", path);
		path = inside;
	}
	d = json_load_file(path, 0, &error);
	if (d == NULL) {
		fprintf(stderr, "pmx-perf: %s: %s\n", path, error.text);
		return NULL;
	}
	if (!json_is_array(json_object_get(d, "results")) ||
		!json_is_array(json_object_get(d, "columns"))) {
		fprintf(stderr, "pmx-perf: %s: it is no results.json of pmx-perf suite\n", path);
		json_decref(d);
		return NULL;
	}
	return d;
}

int
results_save(const json_t *document, const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/results.json", dir);
	errno = 0;
	if (json_dump_file(document, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0)
		return 0;
	fprintf(stderr, "pmx-perf: %s: %s\n", path, errno ? strerror(errno) : "not written");
	return 1;
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* Return a figure of a result in the measure's unit, or NAN. */
static double
figure_of(const json_t *result, const struct measure *m)
{
	const double value = json_number_value(json_object_get(result, m->key));

	return strcmp(text_of(result, "test"), m->test) == 0 && value > 0 ? value * m->scale : NAN;
}

static bool
is_of(const json_t *result, const struct series *s)
{
	return strcmp(text_of(result, "column"), s->column) == 0 &&
		strcmp(text_of(result, "what"), s->what) == 0;
}

unsigned
results_series(const json_t *document, const struct measure *m, struct series out[SERIES_MAX])
{
	const json_t *results = json_object_get(document, "results");
	const json_t *result, *column;
	unsigned n = 0;
	size_t i, k;

	/* in the order of the columns in the suite, which is not that of their turns */
	json_array_foreach(json_object_get(document, "columns"), k, column) {
		const char *name = text_of(column, "name");
		const unsigned first = n;

		json_array_foreach(results, i, result) {
			const struct series s = {name, text_of(result, "what"), ""};
			bool known = !is_of(result, &s) || isnan(figure_of(result, m));

			for (unsigned j = first; j < n && !known; j++)
				known = is_of(result, &out[j]);
			if (!known && n < SERIES_MAX)
				out[n++] = s;
		}
		for (unsigned j = first; j < n; j++) {
			if (n - first == 1)
				snprintf(out[j].name, sizeof(out[j].name), "%s", name);
			else
				snprintf(out[j].name, sizeof(out[j].name), "%s: %s", name,
					out[j].what);
		}
	}
	return n;
}

uint32_t
results_next_size(const json_t *document, const struct measure *m, uint32_t size)
{
	uint32_t next = 0;
	json_t *result;
	size_t i;

	json_array_foreach(json_object_get(document, "results"), i, result) {
		const json_int_t n = json_integer_value(json_object_get(result, "size"));

		if (text_of(result, "column")[0] != '\0' && !isnan(figure_of(result, m)) &&
			n > size && n <= UINT32_MAX && (next == 0 || n < next))
			next = (uint32_t)n;
	}
	return next;
}

struct repeated
results_figure(const json_t *document, const struct series *s, const struct measure *m,
	uint32_t size)
{
	struct repeated r;
	unsigned n = 0;
	json_t *result;
	size_t i;

	json_array_foreach(json_object_get(document, "results"), i, result) {
		const double value = figure_of(result, m);

		if (is_of(result, s) && !isnan(value) &&
			json_integer_value(json_object_get(result, "size")) == size &&
			n < sizeof(r.values) / sizeof(r.values[0]))
			r.values[n++] = value;
	}
	r.cell = cell_of_values(r.values, n);
	return r;
}

void
results_cpus(const json_t *document, char *out, size_t room)
{
	static const struct series line = {"", "line", ""}, away = {"", "away", ""};
	static const struct measure trip = {"latency", "p50_ns", "", "", 1, true},
				    times = {"away", "per_second", "", "", 1, true},
				    length = {"away", "p50_ns", "", "", 1e-3, true};
	const json_t *m = json_object_get(document, "machine");
	const char *const keys[] = {"cpu0", "cpu1"};
	const struct compared_cell ns = results_figure(document, &line, &trip, 64).cell;
	int n = 0;

	out[0] = '\0';
	if (ns.count != 0)
		n = snprintf(out, room,
			"A cache line took %.0f ns (%.0f to %.0f) from one CPU to the other and "
			"back.",
			ns.median, ns.lowest, ns.highest);
	for (size_t i = 0; i < 2 && n >= 0 && (size_t)n < room; i++) {
		const uint32_t cpu = (uint32_t)json_integer_value(json_object_get(m, keys[i]));
		const struct compared_cell a = results_figure(document, &away, &times, cpu).cell,
					   b = results_figure(document, &away, &length, cpu).cell;

		if (a.count != 0)
			n += snprintf(out + n, room - (size_t)n,
				"%sThe machine took CPU %u away from whoever spins on it %.0f "
				"times a second, for %.1f us in the median.",
				n ? " " : "", cpu, a.median, b.median);
	}
}

void
results_print(const json_t *document)
{
	struct series s[SERIES_MAX];
	bool marked = false;
	char cpus[512];

	for (size_t k = 0; k < MEASURES; k++) {
		const struct measure *m = &measures[k];
		const unsigned n = results_series(document, m, s);
		uint32_t size = results_next_size(document, m, 0);

		if (n == 0 || size == 0)
			continue;
		printf("\n%s, %s\n%10s", m->title, m->unit, "bytes");
		for (unsigned i = 0; i < n; i++)
			printf("  %16.16s", s[i].name);
		printf("\n");
		for (; size != 0; size = results_next_size(document, m, size)) {
			printf("%10u", size);
			for (unsigned i = 0; i < n; i++) {
				const struct compared_cell c =
					results_figure(document, &s[i], m, size).cell;
				const bool mark = cell_unsettled(&c);

				marked |= mark;
				printf(" %s%s", figure_text(c.median, 16, c.median < 1000 ? 2 : 0),
					mark ? "*" : " ");
			}
			printf("\n");
		}
	}
	results_cpus(document, cpus, sizeof(cpus));
	if (cpus[0] != '\0')
		printf("\n%s\n", cpus);
	if (marked)
		printf("\n* From turn to turn this figure differs by more than a third of itself: "
		       "report.html says from where to where.\n");
}
