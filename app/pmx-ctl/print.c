/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every command of pmx-ctl prints with, and reads answers with.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "ctl.h"

int
complain(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("pmx-ctl: ", stderr);
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
