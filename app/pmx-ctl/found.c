/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of the doctor look with, and how they report what they found.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static const char *const verdicts[] = {"ok", "warn", "FAIL"};

void
found(struct doctor *d, enum ctl_verdict v, const char *check, const char *mend, const char *fmt,
	...)
{
	va_list args;
	char *what;

	va_start(args, fmt);
	int n = vasprintf(&what, fmt, args);

	va_end(args);
	if (n < 0)
		return;
	json_array_append_new(d->lines,
		json_pack("{s:s, s:s, s:s, s:s}", "check", check, "state", verdicts[v], "found",
			what, "mend", mend ? mend : ""));
	d->count[v]++;
	free(what);
}

bool
read_line(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "r");

	*out = 0;
	if (f == NULL)
		return false;
	bool got = fgets(out, (int)size, f) != NULL;

	fclose(f);
	out[strcspn(out, "\n")] = 0;
	return got;
}

uint64_t
read_u64(const char *path, uint64_t fallback)
{
	char line[64], *end;

	if (!read_line(path, line, sizeof(line)))
		return fallback;
	uint64_t v = strtoull(line, &end, 10);

	return end == line ? fallback : v;
}

char *
shell_word(const char *word)
{
	bool plain = *word != 0;
	char *quoted;

	for (const char *s = word; *s; s++)
		plain = plain && (isalnum((unsigned char)*s) || strchr("._-+,:@%/", *s));
	if (plain)
		return text("%s", word);
	quoted = text("'");
	for (const char *s = word; *s; s++) {
		char *longer = *s == '\'' ? text("%s'\\''", quoted) : text("%s%c", quoted, *s);

		free(quoted);
		quoted = longer;
	}
	char *whole = text("%s'", quoted);

	free(quoted);
	return whole;
}
