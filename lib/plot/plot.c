/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See plot.h. The SVG is self-contained: no script, and only the viewer's fonts.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plot/plot.h"

#define WIDTH  760
#define HEIGHT 420
#define LEFT   70
#define RIGHT  200
#define TOP    40
#define BOTTOM 50

/* curves can be told apart without colours too: each has its own dashes */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9",
	"#e69f00", "#000000", "#999999", "#8b4513", "#6a3d9a", "#b15928", "#1b9e77"};
static const char *const dashes[] = {"none", "7 3", "2 3", "9 3 2 3", "none", "7 3", "2 3",
	"9 3 2 3", "none", "7 3", "2 3", "9 3 2 3"};

double *
plot_row(struct plot *p, double x)
{
	unsigned i = p->rows < PLOT_ROWS ? p->rows++ : PLOT_ROWS - 1;

	p->x[i] = x;
	for (unsigned c = 0; c < PLOT_CURVES; c++)
		p->y[i][c] = NAN;
	return p->y[i];
}

void
plot_print(const struct plot *p)
{
	printf("%s\n%-14s", p->title, p->x_label);
	for (unsigned c = 0; c < p->curves; c++)
		printf(" %18s", p->label[c]);
	printf("\n");
	for (unsigned i = 0; i < p->rows; i++) {
		printf("%-14g", p->x[i]);
		for (unsigned c = 0; c < p->curves; c++) {
			if (!isfinite(p->y[i][c]))
				printf(" %18s", "-");
			else
				printf(" %18.4g", p->y[i][c]);
		}
		printf("\n");
	}
	printf("\n");
}

static FILE *
create(const struct plot *p, const char *dir, const char *ending)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.%s", dir, p->name, ending);
	FILE *f = fopen(path, "w");

	if (f == NULL)
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path,
			strerror(errno));
	return f;
}

/* Write a field, quoted according to RFC 4180 if it contains a comma or a quote. */
static void
write_field(FILE *f, const char *text)
{
	if (strpbrk(text, ",\"\n") == NULL) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

static void
write_csv(const struct plot *p, FILE *f)
{
	write_field(f, p->x_label);
	for (unsigned c = 0; c < p->curves; c++) {
		fputc(',', f);
		write_field(f, p->label[c]);
	}
	fprintf(f, "\n");
	for (unsigned i = 0; i < p->rows; i++) {
		fprintf(f, "%g", p->x[i]);
		for (unsigned c = 0; c < p->curves; c++)
			isfinite(p->y[i][c]) ? fprintf(f, ",%g", p->y[i][c]) : fprintf(f, ",");
		fprintf(f, "\n");
	}
}

/* ------------------------------------------------------------------ SVG */

/* Write text between tags, with special characters escaped. */
static void
write_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", f);
		else if (*text == '<')
			fputs("&lt;", f);
		else
			fputc(*text, f);
	}
}

struct axis {
	double low, high;
	bool log;
	double from, to; /* pixels */
};

static double
plot_place(const struct axis *a, double v)
{
	double low = a->low, high = a->high;

	if (a->log) {
		v = log10(v > 0 ? v : low);
		low = log10(low);
		high = log10(high);
	}
	double part = high > low ? (v - low) / (high - low) : 0.5;

	part = part < 0 ? 0 : part > 1 ? 1 : part;
	return a->from + part * (a->to - a->from);
}

static double
nice_step(double span)
{
	double raw = span / 5, base = pow(10, floor(log10(raw)));

	return raw / base < 1.5    ? base
		: raw / base < 3.5 ? 2 * base
		: raw / base < 7.5 ? 5 * base
				   : 10 * base;
}

static void
tick(FILE *f, const struct axis *a, bool horizontal, double v)
{
	double at = plot_place(a, v);

	if (horizontal)
		fprintf(f,
			"<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' class='grid'/>"
			"<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
			at, TOP, at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 16, v);
	else
		fprintf(f,
			"<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' class='grid'/>"
			"<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n",
			LEFT, at, WIDTH - RIGHT, at, LEFT - 6, at + 4, v);
}

/* Draw the ticks of an axis. A logarithmic one has powers of ten; if these are too few, also twice
 * and five times them. */
static void
ticks(FILE *f, const struct axis *a, bool horizontal)
{
	static const double parts[] = {1, 2, 5};
	double step = a->log ? 0 : nice_step(a->high - a->low);

	if (!a->log) {
		for (double v = ceil(a->low / step - 1e-9) * step; v <= a->high * (1 + 1e-9);
			v += step)
			tick(f, a, horizontal, v);
		return;
	}
	for (double v = pow(10, floor(log10(a->low))); v <= a->high * (1 + 1e-9); v *= 10) {
		for (unsigned i = 0; i < (a->high < 200 * a->low ? 3 : 1); i++) {
			double at = parts[i] * v;

			if (at >= a->low * (1 - 1e-9) && at <= a->high * (1 + 1e-9))
				tick(f, a, horizontal, at);
		}
	}
}

/* Give an axis with one value, or none, a length too. */
static void
widen(struct axis *a)
{
	if (!isfinite(a->low) || !isfinite(a->high))
		a->low = a->high = 1;
	if (a->high <= a->low)
		a->high = a->low + 1;
}

static void
bounds(const struct plot *p, struct axis *x, struct axis *y)
{
	*x = (struct axis){INFINITY, -INFINITY, p->x_log, LEFT, WIDTH - RIGHT};
	*y = (struct axis){p->y_log ? INFINITY : 0, -INFINITY, p->y_log, HEIGHT - BOTTOM, TOP};
	for (unsigned i = 0; i < p->rows; i++) {
		if (!p->x_log || p->x[i] > 0) {
			x->low = fmin(x->low, p->x[i]);
			x->high = fmax(x->high, p->x[i]);
		}
		for (unsigned c = 0; c < p->curves; c++) {
			double v = p->y[i][c];

			if (!isfinite(v) || (p->y_log && v <= 0))
				continue;
			y->low = fmin(y->low, v);
			y->high = fmax(y->high, v);
		}
	}
	if (p->y_max > 0)
		y->high = p->y_max;
	widen(x);
	widen(y);
}

static void
curve(FILE *f, const struct plot *p, unsigned c, const struct axis *x, const struct axis *y)
{
	fprintf(f,
		"<polyline fill='none' stroke='%s' stroke-width='2' stroke-dasharray='%s' points='",
		colours[c], dashes[c]);
	for (unsigned i = 0; i < p->rows; i++) {
		if (isfinite(p->y[i][c]))
			fprintf(f, "%.1f,%.1f ", plot_place(x, p->x[i]), plot_place(y, p->y[i][c]));
	}
	fprintf(f,
		"'/>\n"
		"<line x1='%d' y1='%u' x2='%d' y2='%u' stroke='%s' stroke-width='2' "
		"stroke-dasharray='%s'/><text x='%d' y='%u'>",
		WIDTH - RIGHT + 12, TOP + 10 + 20 * c, WIDTH - RIGHT + 42, TOP + 10 + 20 * c,
		colours[c], dashes[c], WIDTH - RIGHT + 48, TOP + 14 + 20 * c);
	write_text(f, p->label[c]);
	fprintf(f, "</text>\n");
}

void
plot_svg(const struct plot *p, FILE *f)
{
	struct axis x, y;

	bounds(p, &x, &y);
	fprintf(f,
		"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' "
		"font-family='sans-serif' font-size='12'>\n"
		"<style>.grid{stroke:#ddd}</style><rect width='100%%' height='100%%' "
		"fill='white'/>\n"
		"<text x='%d' y='22' font-size='14'>",
		WIDTH, HEIGHT, LEFT);
	write_text(f, p->title);
	fprintf(f, "</text>\n");
	ticks(f, &x, true);
	ticks(f, &y, false);
	fprintf(f,
		"<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#666'/>\n"
		"<text x='%d' y='%d' text-anchor='middle'>%s</text>\n"
		"<text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>%s</text>\n",
		LEFT, TOP, WIDTH - RIGHT - LEFT, HEIGHT - BOTTOM - TOP, (LEFT + WIDTH - RIGHT) / 2,
		HEIGHT - 12, p->x_label, (TOP + HEIGHT - BOTTOM) / 2, p->y_label);
	for (unsigned c = 0; c < p->curves; c++)
		curve(f, p, c, &x, &y);
	fprintf(f, "</svg>\n");
}

bool
plot_write(const struct plot *p, const char *dir)
{
	FILE *f = create(p, dir, "csv");

	if (f == NULL)
		return false;
	write_csv(p, f);
	fclose(f);
	f = create(p, dir, "svg");
	if (f == NULL)
		return false;
	plot_svg(p, f);
	fclose(f);
	return true;
}
