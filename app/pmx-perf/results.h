/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What `pmx-perf suite` has measured, as a JSON document:
 *
 *   {"pmx_perf", "commit", "title", "begun", "suite", "turns",
 *    "machine": {"cpu", "cpus", "kernel", "dpdk", "cpu0", "cpu1", "distance"},
 *    "columns": [{"name", "commands": [...], "absent"}],
 *    "results": [{"column", "turn", "what", "test", "size", "p50_ns", ...}]}
 *
 * A result is what `--json` prints, with its column and its turn. The column "" has what a cache
 * line took between the two CPUs, and how often each of them was away. Single-threaded.
 */
#ifndef PMX_PERF_RESULTS_H
#define PMX_PERF_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "comparison.h"

/* A figure of results: which tests have it, and what makes one better than another. */
struct measure {
	const char *test, *key; /* of results */
	const char *title, *unit;
	double scale; /* to that unit */
	bool less;    /* is better */
};
#define MEASURES 6
extern const struct measure measures[MEASURES];

/* A column, or one of several things that a column measures. */
struct series {
	const char *column, *what;
	char name[80];
};
#define SERIES_MAX 24

/* The repetitions of one figure, in the measure's unit. */
struct repeated {
	struct compared_cell cell;
	double values[64]; /* cell.count of them, sorted */
};

/* Read DIR/results.json, or that file. Return a new reference, or NULL after printing why. */
json_t *results_load(const char *path);
/* Write DIR/results.json. Return 0, or 1 after printing why. */
int results_save(const json_t *document, const char *dir);
/* Find all series that have that figure. Return how many. */
unsigned results_series(const json_t *document, const struct measure *m,
	struct series out[SERIES_MAX]);
/* Return the next larger size for which there is that figure, or 0. */
uint32_t results_next_size(const json_t *document, const struct measure *m, uint32_t size);
struct repeated results_figure(const json_t *document, const struct series *s,
	const struct measure *m, uint32_t size);
/* Write what is known of the two CPUs in that time, in a sentence or two. */
void results_cpus(const json_t *document, char *out, size_t room);
/* Print a table of each measure's medians, with a * where the turns differ by over a third. */
void results_print(const json_t *document);
/* Write DIR/report.html, which needs nothing else. Return 0, or 1 after printing why. */
int results_page(const json_t *document, const char *dir);

#endif
