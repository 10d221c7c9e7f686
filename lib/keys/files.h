/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sources of lib/keys share: files as texts, texts as bytes. Errors are as in keys.h.
 */
#ifndef PMX_KEYS_FILES_H
#define PMX_KEYS_FILES_H

#include <stddef.h>

#include "keys/keys.h"

/* word, space, base64 of a certificate, end of line, and some more to find rubbish by */
#define KEY_LINE_MAX 256

/* Each demand on a file that is read. */
enum key_demand {
	KEY_ANYBODYS, /* nothing: what it holds is public, and signed or checked by a person */
	KEY_GUARDED,  /* its owner, this user or root, alone may write it */
	KEY_SECRET,   /* ... and read it */
};

/* Write a sentence into error and return result. */
int key_fail(int result, char *error, uint32_t error_len, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Read exactly `bytes` bytes, CERTIFICATE_BYTES at most, from `len` characters of base64. Return
 * false, and leave out as it is, if they are anything else. */
bool key_decode(const char *text, size_t len, uint8_t *out, size_t bytes);

/* Read a whole file of less than `room` bytes without a 0 among them, and put a 0 behind it. Return
 * its length, -EFBIG if it is longer, or an error as key_read(). */
int key_file_text(const char *path, enum key_demand demand, char *text, size_t room, char *error,
	uint32_t error_len);
/* Read the one line of a file of that kind. Return 0 or an error as key_read(). */
int key_file_line(enum key_file what, const char *path, uint8_t *out, size_t bytes, char *error,
	uint32_t error_len);
/* Write a line as key_file_line() reads it; it has KEY_LINE_MAX bytes. */
void key_line(enum key_file what, const uint8_t *in, size_t bytes, char *line);
/* Write a text into a file of mode 0644 that takes the place of what is there. */
int key_file_replace(const char *path, const char *text, size_t len, char *error,
	uint32_t error_len);
/* Open the folder that a file is in, or will be. Return a descriptor, which the caller closes, or
 * -errno. */
int key_folder_open(const char *path, char *error, uint32_t error_len);

#endif
