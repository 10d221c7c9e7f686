/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A table of curves as text, CSV and an SVG line plot. One x for each row, one y for each curve; a
 * y that was not measured is NAN.
 */
#ifndef PMX_PLOT_H
#define PMX_PLOT_H

#include <stdbool.h>

#define PLOT_CURVES 12
#define PLOT_ROWS   512

struct plot {
	const char *name; /* of the files: NAME.csv, NAME.svg */
	char title[128];
	const char *x_label, *y_label;
	bool x_log, y_log;
	double y_max; /* 0 = by the data */
	unsigned curves, rows;
	char label[PLOT_CURVES][40];
	double x[PLOT_ROWS], y[PLOT_ROWS][PLOT_CURVES];
};

/* A new row; its y are NAN until set. */
double *plot_row(struct plot *p, double x);
/* As a table to stdout. */
void plot_print(const struct plot *p);
/* NAME.csv and NAME.svg in the directory; false: not written, with a message to stderr. */
bool plot_write(const struct plot *p, const char *dir);

#endif
