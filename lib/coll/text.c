/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See text.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

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
