/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What several --json outputs say, for pmx-perf report: the repetitions of each figure, their
 * median, and whether it can be believed. Single-threaded; comparison.c has no output but errors.
 */
#ifndef PMX_PERF_COMPARISON_H
#define PMX_PERF_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf.h"

#define GROUPS_MAX 4

/* A group of columns: GROUP=FILE puts a file's rows into that group; files without a name are one
 * group. */
struct group {
	char name[64];
	struct perf_row *rows;
	unsigned count;
};

struct comparison {
	struct group groups[GROUPS_MAX];
	unsigned count;
};

/* The columns of a test. */
struct compared_column {
	const char *what, *name;
};
#define COLUMNS 4
extern const struct compared_column columns[COLUMNS]; /* the first is pmx, the second what carries
						       * it */

enum figure {
	P50,       /* us */
	P99,       /* us */
	RATE,      /* million messages a second */
	BANDWIDTH, /* Gb/s */
};

/* The repetitions of one figure of one size. */
struct compared_cell {
	unsigned count;                 /* 0: not measured, and the rest is NAN */
	double median, lowest, highest; /* median: with an even count the mean of the middle two */
};

/* Read the rows of a file, GROUP=FILE or FILE. Returns 0, or 1 after printing why. */
int comparison_read(struct comparison *c, const char *argument);
void comparison_free(struct comparison *c);

/* Return whether a group has that column for a test. */
bool group_has(const struct group *g, const char *what, const char *test);
/* Return the next larger size that any column has, or 0. */
uint32_t next_size(const struct comparison *c, const char *test, uint32_t size);
struct compared_cell cell_of(const struct group *g, const char *what, const char *test,
	enum figure f, uint32_t size);
/* Return the cell of n values, which it sorts. */
struct compared_cell cell_of_values(double *values, unsigned n);
/* Return whether the highest and lowest repetition differ by over a third of the median. */
bool cell_unsettled(const struct compared_cell *cell);
/* Return whether pmx's figure is better than the raw link's: its own group's or, if that has
 * none, the only group's that has one. A link cannot be slower than what it carries. */
bool beats_link(const struct comparison *c, const struct group *g, const char *what,
	const char *test, enum figure f, uint32_t size);
/* Return how long a cache line took between the two CPUs, in ns: the least of each repetition.
 * The result's count is 0 where nobody measured it. */
struct compared_cell line_of(const struct comparison *c);

#endif
