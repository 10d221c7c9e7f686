/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every command of pmx-ctl prints with, and reads answers with.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ctl.h"

int
complain(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return 1;
}

int
print_json(json_t *value)
{
	int result = json_dumpf(value, stdout, JSON_INDENT(2));

	json_decref(value);
	putchar('\n');
	return result == 0 ? 0 : complain("the answer could not be written as JSON");
}

char *
text(const char *fmt, ...)
{
	va_list args;
	char *s;

	va_start(args, fmt);
	int n = vasprintf(&s, fmt, args);

	va_end(args);
	if (n < 0) {
		complain("no memory");
		exit(1);
	}
	return s;
}

uint64_t
get_u64(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

const char *
get_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

const char *
get_long_text(const json_t *object, const char *key, char *out, size_t size)
{
	size_t used = (size_t)snprintf(out, size, "%s", get_text(object, key));

	for (unsigned i = 1; used < size; i++) {
		char next[64];

		snprintf(next, sizeof(next), "%s_%u", key, i);
		const char *piece = get_text(object, next);

		if (*piece == 0)
			break;
		used += (size_t)snprintf(out + used, size - used, "%s", piece);
	}
	return out;
}

const char *
time_text(uint64_t ns)
{
	static char buffers[4][24];
	static unsigned turn;
	char *s = buffers[turn++ % 4];

	if (ns == 0)
		return "-";
	if (ns < 10000000)
		snprintf(s, sizeof(buffers[0]), "%.1f us", (double)ns / 1e3);
	else if (ns >= 10000000000)
		snprintf(s, sizeof(buffers[0]), "%.1f s", (double)ns / 1e9);
	else
		snprintf(s, sizeof(buffers[0]), "%.1f ms", (double)ns / 1e6);
	return s;
}

const char *
bytes_text(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	static char buffers[8][24];
	static unsigned turn;
	char *s = buffers[turn++ % 8];
	double v = (double)bytes;
	unsigned u = 0;

	for (; v >= 10240 && u < 4; u++)
		v /= 1024;
	snprintf(s, sizeof(buffers[0]), "%.0f %s", v, units[u]);
	return s;
}
