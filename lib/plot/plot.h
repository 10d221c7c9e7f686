/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A table of curves as text, CSV and an SVG line plot. Each row has an x and, for each curve, a y,
 * which is NAN if it was not measured.
 */
#ifndef PMX_PLOT_H
#define PMX_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#define PLOT_CURVES 12
#define PLOT_ROWS   512

struct plot {
	const char *name; /* name of the files: NAME.csv, NAME.svg */
	char title[128];
	const char *x_label, *y_label;
	bool x_log, y_log;
	double y_max; /* 0 = by the data */
	unsigned curves, rows;
	char label[PLOT_CURVES][40];
	double x[PLOT_ROWS], y[PLOT_ROWS][PLOT_CURVES];
};

/* Append a row and return its y values, which are NAN until the caller sets them. After PLOT_ROWS
 * rows it overwrites the last one. */
double *plot_row(struct plot *p, double x);
/* Print the curves as a table to stdout. */
void plot_print(const struct plot *p);
/* Write NAME.csv and NAME.svg into a directory. Returns false, with a message on stderr, if that
 * failed. */
bool plot_write(const struct plot *p, const char *dir);
/* Write the curves as one element svg. */
void plot_svg(const struct plot *p, FILE *f);

#endif
