/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See reader.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/reader.h"

/* Return the line of the nth (0 = first) occurrence of a key in a section, or of the section if key
 * is NULL; 0: there is none. */
static int
find_line(const char *path, const char *section, const char *key, int nth)
{
	FILE *f = fopen(path, "r");
	char line[1024], head[80];
	int number = 0, found = 0;
	bool inside = false;

	if (f == NULL)
		return 0;
	snprintf(head, sizeof(head), "[%s]", section);
	while (!found && fgets(line, sizeof(line), f)) {
		char *s = line + strspn(line, " \t");

		number++;
		if (*s == '[') {
			inside = strncmp(s, head, strlen(head)) == 0;
			if (inside && key == NULL && nth-- == 0)
				found = number;
		} else if (inside && key != NULL && strncmp(s, key, strlen(key)) == 0) {
			s += strlen(key);
			s += strspn(s, " \t");
			if (*s == '=' && nth-- == 0)
				found = number;
		}
	}
	fclose(f);
	return found;
}

int
reader_complain(const struct config_reader *r, const char *section, const char *key, int nth,
	const char *fmt, ...)
{
	va_list args;
	int line = find_line(r->path, section, key, nth);

	if (line == 0) /* the key is not there: show its section */
		line = find_line(r->path, section, NULL, 0);
	int n = snprintf(r->error, r->error_len, "%s:%d: [%s] %s%s", r->name, line, section,
		key ? key : "", key ? ": " : "");

	if (n < 0 || (uint32_t)n >= r->error_len)
		return -1;
	va_start(args, fmt);
	vsnprintf(r->error + n, r->error_len - (uint32_t)n, fmt, args);
	va_end(args);
	return -1;
}

void
reader_beside(const struct config_reader *r, const char *value, char *out, size_t size)
{
	const char *slash = strrchr(r->path, '/');

	if (*value == '/' || slash == NULL || strncmp(r->path, "/proc/self/fd/", 14) == 0)
		snprintf(out, size, "%s", value);
	else
		snprintf(out, size, "%.*s/%s", (int)(slash - r->path), r->path, value);
}

int
reader_check_lines(const struct config_reader *r)
{
	FILE *f = fopen(r->path, "r");
	char line[1024];
	int result = 0;

	for (int number = 1; f != NULL && result == 0 && fgets(line, sizeof(line), f); number++) {
		const char *s = line + strspn(line, " \t\r\n");

		line[strcspn(line, "\r\n")] = 0;
		if (*s == 0 || *s == '#' || *s == '[' || strchr(s, '=') != NULL)
			continue;
		snprintf(r->error, r->error_len,
			"%s:%d: '%s' is none of '[section]', 'key = value', '# comment'", r->name,
			number, s);
		result = -1;
	}
	if (f != NULL)
		fclose(f);
	return result;
}
