/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See text.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/text.h"

int
coll_text_complain(const struct coll_text *t, const char *format, ...)
{
	int at = t->line ? snprintf(t->error, t->error_len, "line %u: ", t->line) : 0;
	va_list args;

	va_start(args, format);
	if (at >= 0 && (uint32_t)at < t->error_len)
		vsnprintf(t->error + at, t->error_len - (uint32_t)at, format, args);
	va_end(args);
	return -EINVAL;
}

int
coll_text_read(const char *path, char **text)
{
	FILE *f = fopen(path, "r");
	size_t room = 0;
	int e = 0;

	*text = NULL;
	if (f == NULL)
		return -errno;
	if (getdelim(text, &room, '\0', f) < 0) {
		e = ferror(f) ? -errno : 0;
		free(*text);
		*text = e == 0 ? strdup("") : NULL;
		e = e == 0 && *text == NULL ? -ENOMEM : e;
	}
	fclose(f);
	return e;
}
