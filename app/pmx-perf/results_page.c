/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The report of a suite as one HTML file: what was measured where, curves, and all figures. It has
 * no script, and nothing in it is fetched.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "plot/plot.h"
#include "results.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
	"body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }\n"
	"table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }\n"
	"th, td { border-bottom: 1px solid #ccc; padding: 0.2em 0.8em; text-align: right }\n"
	"th:first-child, td:first-child { text-align: left }\n"
	"td small { color: #666 }\n"
	"svg { max-width: 100%; height: auto }\n"
	"code { overflow-wrap: anywhere }\n"
	"</style>\n<title>";

static void
put_text(FILE *f, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else
			fputc(*text, f);
	}
}

static void
put_facts(FILE *f, const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		if (!json_is_string(value) && !json_is_integer(value))
			continue;
		fprintf(f, "<tr><td>%s</td><td>", key);
		if (json_is_string(value))
			put_text(f, json_string_value(value));
		else
			fprintf(f, "%lld", (long long)json_integer_value(value));
		fprintf(f, "</td></tr>\n");
	}
}

/* Draw one measure of all series over the size, if there is more than one size. */
static void
results_page_draw(FILE *f, const json_t *document, const struct measure *m, const struct series *s,
	unsigned n)
{
	static struct plot p;
	char y_label[64];

	snprintf(y_label, sizeof(y_label), "%s, %s", m->title, m->unit);
	p = (struct plot){
		.x_label = "bytes",
		.y_label = y_label,
		.x_log = true,
		.y_log = true,
		.curves = n < PLOT_CURVES ? n : PLOT_CURVES,
	};
	snprintf(p.title, sizeof(p.title), "%s", m->title);
	for (unsigned i = 0; i < p.curves; i++)
		snprintf(p.label[i], sizeof(p.label[i]), "%.39s", s[i].name);
	for (uint32_t size = results_next_size(document, m, 0); size != 0;
		size = results_next_size(document, m, size)) {
		double *y = plot_row(&p, size);

		for (unsigned i = 0; i < p.curves; i++)
			y[i] = results_figure(document, &s[i], m, size).cell.median;
	}
	if (p.rows > 1)
		plot_svg(&p, f);
}

static void
put_table(FILE *f, const json_t *document, const struct measure *m, const struct series *s,
	unsigned n)
{
	fprintf(f, "<table>\n<tr><th>bytes</th>");
	for (unsigned i = 0; i < n; i++) {
		fprintf(f, "<th>");
		put_text(f, s[i].name);
		fprintf(f, "</th>");
	}
	fprintf(f, "</tr>\n");
	for (uint32_t size = results_next_size(document, m, 0); size != 0;
		size = results_next_size(document, m, size)) {
		fprintf(f, "<tr><td>%u</td>", size);
		for (unsigned i = 0; i < n; i++) {
			const struct repeated r = results_figure(document, &s[i], m, size);

			if (r.cell.count == 0)
				fprintf(f, "<td>-</td>");
			else
				fprintf(f, "<td>%.4g <small>%.4g to %.4g</small></td>",
					r.cell.median, r.cell.lowest, r.cell.highest);
		}
		fprintf(f, "</tr>\n");
	}
	fprintf(f, "</table>\n");
}

static void
put_columns(FILE *f, const json_t *document)
{
	json_t *column, *command;
	size_t i, k;

	fprintf(f, "<h2>Commands</h2>\n<table>\n");
	json_array_foreach(json_object_get(document, "columns"), i, column) {
		const char *absent = json_string_value(json_object_get(column, "absent"));

		fprintf(f, "<tr><td>");
		put_text(f, json_string_value(json_object_get(column, "name")));
		fprintf(f, "</td><td style=\"text-align: left\">");
		if (absent != NULL) {
			fprintf(f, "left out: ");
			put_text(f, absent);
		}
		json_array_foreach(json_object_get(column, "commands"), k, command) {
			fprintf(f, "%s<code>", k ? "<br>" : "");
			put_text(f, json_string_value(command));
			fprintf(f, "</code>");
		}
		fprintf(f, "</td></tr>\n");
	}
	fprintf(f, "</table>\n");
}

int
results_page(const json_t *document, const char *dir)
{
	const char *title = json_string_value(json_object_get(document, "title"));
	struct series s[SERIES_MAX];
	char path[4096], cpus[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/report.html", dir);
	f = fopen(path, "w");
	if (f == NULL) {
		fprintf(stderr, "pmx-perf: %s: %s\n", path, strerror(errno));
		return 1;
	}
	fputs(head, f);
	put_text(f, title != NULL ? title : "pmx-perf suite");
	fprintf(f, "</title>\n</head>\n<body>\n<h1>");
	put_text(f, title != NULL ? title : "pmx-perf suite");
	results_cpus(document, cpus, sizeof(cpus));
	fprintf(f, "</h1>\n<p>Medians of the turns, and from where to where they go. ");
	put_text(f, cpus);
	fprintf(f, "</p>\n");
	for (size_t k = 0; k < MEASURES; k++) {
		const unsigned n = results_series(document, &measures[k], s);

		if (n == 0)
			continue;
		fprintf(f, "<h2>%s, %s</h2>\n", measures[k].title, measures[k].unit);
		results_page_draw(f, document, &measures[k], s, n);
		put_table(f, document, &measures[k], s, n);
	}
	fprintf(f, "<h2>Machine and programs</h2>\n<table>\n");
	put_facts(f, json_object_get(document, "machine"));
	put_facts(f, document);
	fprintf(f, "</table>\n");
	put_columns(f, document);
	fprintf(f, "</body>\n</html>\n");
	if (fclose(f) == 0)
		return 0;
	fprintf(stderr, "pmx-perf: %s: %s\n", path, strerror(errno));
	return 1;
}
