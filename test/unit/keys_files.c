/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keys_files.h.
 */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keys_files.h"

char keys_dir[64], keys_error[512];

int
keys_setup(void **state)
{
	(void)state;
	umask(022);
	keys_error[0] = 0;
	strcpy(keys_dir, "/tmp/pmx-keys.XXXXXX");
	return mkdtemp(keys_dir) == NULL;
}

static int
remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
	(void)s;
	(void)type;
	(void)f;
	return remove(path);
}

int
keys_teardown(void **state)
{
	(void)state;
	umask(022);
	return nftw(keys_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *
at(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned turn;
	char *path = paths[turn++ % 4];

	snprintf(path, PATH_MAX, "%s/%s", keys_dir, name);
	return path;
}

const uint8_t *
hex(const char *text)
{
	static uint8_t all[4][CERTIFICATE_BYTES];
	static unsigned turn;
	uint8_t *bytes = all[turn++ % 4];

	assert_true(strlen(text) / 2 <= CERTIFICATE_BYTES);
	for (size_t i = 0; i < strlen(text) / 2; i++) {
		unsigned byte;

		assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
		bytes[i] = (uint8_t)byte;
	}
	return bytes;
}

void
put(const char *name, const char *text, mode_t mode)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(at(name), mode), 0);
}

const char *
content(const char *name)
{
	static char text[4096];
	FILE *f = fopen(at(name), "r");

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	return text;
}

mode_t
mode_of(const char *name)
{
	struct stat s;

	assert_int_equal(lstat(at(name), &s), 0);
	return s.st_mode;
}
