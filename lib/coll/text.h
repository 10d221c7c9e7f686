/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the readers of topologies and plans say of a text.
 */
#ifndef PMX_COLL_TEXT_H
#define PMX_COLL_TEXT_H

#include <stdint.h>

struct coll_text {
	unsigned line; /* that is being read; 0: none */
	char *error;   /* where the sentence goes */
	uint32_t error_len;
};

/* Write a sentence that begins with the number of the line. Return -EINVAL. */
int coll_text_complain(const struct coll_text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Read a file up to its first byte 0. Return 0 and *text, to be freed, or -errno. An empty file
 * gives an empty text. */
int coll_text_read(const char *path, char **text);

#endif
