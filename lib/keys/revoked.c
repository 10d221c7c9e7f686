/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keys.h: lists of revoked keys.
 *
 * Design notes
 * 1. A list is replaced by a rename, so a lock on the file itself would be one on a file that is
 *    gone when the next one gets it: who adds locks the folder.
 * 2. One wrong line makes a list wrong as a whole: a key that was meant to be revoked and has a
 *    mistake must not stay good in silence.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "keys/files.h"
#include "keys/keys.h"

#define HEAD "# Public keys of nodes that are revoked, one a line: see pmx-ctl key revoke.\n"

/* Take the keys out of a text, which has `room` for them. Return how many there are, or -EINVAL. */
static int
take_keys(const char *path, const char *text, uint8_t (*keys)[KEY_BYTES], char *error,
	uint32_t error_len)
{
	unsigned number = 0;
	int count = 0;

	while (*text != 0) {
		const char *const line = text + strspn(text, " \t");
		const size_t end = strcspn(line, "\n"), said = strcspn(line, "#\n");
		size_t len = said;

		number++;
		while (len > 0 && strchr(" \t\r", line[len - 1]) != NULL)
			len--;
		if (len > 0 && !key_decode(line, len, keys[count], KEY_BYTES))
			return key_fail(-EINVAL, error, error_len,
				"%s:%u: it is no public key, which has %d characters of base64, "
				"nor a comment, which begins with #",
				path, number, KEY_TEXT_MAX - 1);
		count += len > 0;
		text = line + end + (line[end] != 0);
	}
	return count;
}

/* Return how many lines a text has, the last one also without its end. */
static size_t
lines_of(const char *text)
{
	size_t lines = 1;

	while ((text = strchr(text, '\n')) != NULL) {
		text++;
		lines++;
	}
	return lines;
}

/* Read a list: its text and its keys, which the caller frees. Return how many keys there are, or
 * -errno, and then nothing is left to be freed. */
static int
read_list(const char *path, char **text, uint8_t (**keys)[KEY_BYTES], char *error,
	uint32_t error_len)
{
	int result = -ENOMEM;

	*keys = NULL;
	*text = malloc(REVOKED_FILE_MAX + 1);
	if (*text != NULL)
		result = key_file_text(path, KEY_GUARDED, *text, REVOKED_FILE_MAX + 1, error,
			error_len);
	if (result >= 0) {
		*keys = malloc(lines_of(*text) * sizeof(**keys));
		result = *keys == NULL ? -ENOMEM : take_keys(path, *text, *keys, error, error_len);
	}
	if (result >= 0)
		return result;
	if (result == -ENOMEM)
		key_fail(result, error, error_len, "%s: no memory", path);
	free(*keys);
	free(*text);
	return result;
}

int
revoked_read(const char *path, uint8_t (**keys)[KEY_BYTES], uint32_t *count, char *error,
	uint32_t error_len)
{
	uint8_t(*found)[KEY_BYTES];
	char *text;
	const int result = read_list(path, &text, &found, error, error_len);

	if (result < 0)
		return result;
	free(text);
	*keys = found;
	*count = (uint32_t)result;
	return 0;
}

static bool
has_key(uint8_t (*keys)[KEY_BYTES], int count, const uint8_t key[KEY_BYTES])
{
	for (int i = 0; i < count; i++) {
		if (memcmp(keys[i], key, KEY_BYTES) == 0)
			return true;
	}
	return false;
}

/* Write a list with one key more than its text has. Return 0 or -errno. */
static int
write_longer(const char *path, const char *text, const uint8_t key[KEY_BYTES], char *error,
	uint32_t error_len)
{
	const size_t len = strlen(text), room = len + 1 + KEY_TEXT_MAX + 1;
	char *longer = malloc(room), *at = longer;
	int result;

	if (longer == NULL)
		return key_fail(-ENOMEM, error, error_len, "%s: no memory", path);
	at = stpcpy(at, text);
	if (len > 0 && at[-1] != '\n')
		*at++ = '\n';
	key_to_text(key, at);
	at = stpcpy(at + KEY_TEXT_MAX - 1, "\n");
	if (at - longer > REVOKED_FILE_MAX)
		result = key_fail(-EFBIG, error, error_len,
			"%s: with one more it would have more than %d bytes: take out keys whose "
			"certificates have expired",
			path, REVOKED_FILE_MAX);
	else
		result = key_file_replace(path, longer, (size_t)(at - longer), error, error_len);
	free(longer);
	return result;
}

int
revoked_add(const char *path, const uint8_t public_key[KEY_BYTES], char *error, uint32_t error_len)
{
	uint8_t(*keys)[KEY_BYTES] = NULL;
	char *text = NULL;
	const int folder = key_folder_open(path, error, error_len);
	int result;

	if (folder < 0)
		return folder;
	while (flock(folder, LOCK_EX) != 0) {
		if (errno != EINTR)
			break; /* a file system without locks: nobody else adds just now, in all
				* likelihood */
	}
	result = read_list(path, &text, &keys, error, error_len);
	if (result == -ENOENT)
		result = write_longer(path, HEAD, public_key, error, error_len);
	else if (result >= 0) {
		result = has_key(keys, result, public_key)
			? 0
			: write_longer(path, text, public_key, error, error_len);
		free(keys);
		free(text);
	}
	close(folder);
	return result;
}
