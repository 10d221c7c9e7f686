/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints tables: columns are as wide as their widest cell, numbers are right-aligned, and the last
 * cell of a row is not padded.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static void
add_row(struct table *t, char *row)
{
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->rows = realloc(t->rows, t->room * sizeof(*t->rows));
		if (t->rows == NULL) {
			complain("no memory for %u rows", t->room);
			exit(1);
		}
	}
	t->rows[t->count++] = row;
}

void
table_begin(struct table *t, const char *heads)
{
	char *row = text("%s", heads), *to = row;
	unsigned column = 0;

	*t = (struct table){0};
	for (const char *s = heads; *s; s++) {
		if (*s == '>' && column < TABLE_COLUMNS_MAX)
			t->right[column] = true;
		else
			*to++ = *s == '|' ? '\t' : *s;
		column += *s == '|';
	}
	*to = 0;
	add_row(t, row);
}

void
table_row(struct table *t, const char *fmt, ...)
{
	va_list args;
	char *row;

	va_start(args, fmt);
	int n = vasprintf(&row, fmt, args);

	va_end(args);
	if (n < 0) {
		complain("no memory for a row");
		exit(1);
	}
	add_row(t, row);
}

static void
print_row(const struct table *t, const char *row, const size_t *widths, FILE *out)
{
	for (unsigned c = 0;; c++) {
		size_t n = strcspn(row, "\t");
		bool last = row[n] == 0;
		int pad = c < TABLE_COLUMNS_MAX && widths[c] > n ? (int)(widths[c] - n) : 0;
		bool right = c < TABLE_COLUMNS_MAX && t->right[c];

		fprintf(out, "%*s%.*s%*s", right ? pad : 0, "", (int)n, row,
			right || last ? 0 : pad, "");
		if (last)
			break;
		fputs("  ", out);
		row += n + 1;
	}
	fputc('\n', out);
}

void
table_end(struct table *t, FILE *out)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0};

	for (unsigned i = 0; i < t->count; i++) {
		const char *s = t->rows[i];

		for (unsigned c = 0; c < TABLE_COLUMNS_MAX; c++) {
			size_t n = strcspn(s, "\t");

			widths[c] = n > widths[c] ? n : widths[c];
			if (s[n] == 0)
				break;
			s += n + 1;
		}
	}
	for (unsigned i = 0; i < t->count; i++) {
		print_row(t, t->rows[i], widths, out);
		free(t->rows[i]);
	}
	free(t->rows);
	*t = (struct table){0};
}
