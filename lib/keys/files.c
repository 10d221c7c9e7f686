/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keys.h: files of keys. See files.h: files as texts.
 *
 * Design notes
 * 1. What a file is, whose, and who may read it is asked of the open file, never of its path: what
 *    the path leads to may change in between. It is opened so that a FIFO or a terminal does not
 *    make the caller wait.
 * 2. Where a file has an ACL, the bits of the group are the most that the ACL gives anyone: so they
 *    tell of those users too.
 * 3. Messages never quote what a file holds: it may be a secret, or be made to confuse a terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "keys/files.h"
#include "keys/keys.h"

static const struct {
	const char *word, *name;
} kinds[KEY_FILES] = {
	[KEY_FILE_NODE] = {"pmx-node-secret ", "the secret of a node"},
	[KEY_FILE_AUTHORITY] = {"pmx-authority-secret ", "the secret of an authority"},
	[KEY_FILE_CLUSTER] = {"pmx-cluster-secret ", "the secret of a cluster"},
	[KEY_FILE_CERTIFICATE] = {"pmx-certificate ", "a certificate"},
	[KEY_FILE_PUBLIC] = {"", "a public key"},
};

int
key_fail(int result, char *error, uint32_t error_len, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error, error_len, fmt, args);
	va_end(args);
	return result;
}

/* ------------------------------------------------------------------ reading */

/* Check that an open file is what is demanded. Return 0 or -errno. */
static int
check_file(int fd, const char *path, enum key_demand demand, char *error, uint32_t error_len)
{
	const mode_t forbidden = demand == KEY_SECRET ? 0066 : demand == KEY_GUARDED ? 0022 : 0;
	struct stat s;

	if (fstat(fd, &s) != 0)
		return key_fail(-errno, error, error_len, "%s: %s", path, strerror(errno));
	if (!S_ISREG(s.st_mode))
		return key_fail(-EINVAL, error, error_len, "%s: it is no regular file", path);
	if (demand != KEY_ANYBODYS && s.st_uid != geteuid() && s.st_uid != 0)
		return key_fail(-EPERM, error, error_len,
			"%s: it belongs to user %u, and must to user %u, who reads it, or to root: "
			"chown it",
			path, s.st_uid, geteuid());
	if (s.st_mode & forbidden)
		return key_fail(-EPERM, error, error_len,
			demand == KEY_SECRET
				? "%s: others than its owner may read or write it (mode %04o): "
				  "chmod 600 it, and make a new secret if somebody may have read "
				  "it"
				: "%s: others than its owner may write it (mode %04o): chmod 644 "
				  "it",
			path, s.st_mode & 07777);
	return 0;
}

/* Read all of an open file. Return its length, or -errno. */
static int
read_all(int fd, char *text, size_t room)
{
	size_t len = 0;

	while (len < room) {
		const ssize_t n = read(fd, text + len, room - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return (int)len;
		len += (size_t)n;
	}
	return -EFBIG;
}

int
key_file_text(const char *path, enum key_demand demand, char *text, size_t room, char *error,
	uint32_t error_len)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return key_fail(-errno, error, error_len, "%s: %s", path, strerror(errno));
	int len = check_file(fd, path, demand, error, error_len);

	if (len == 0) {
		len = read_all(fd, text, room);
		if (len == -EFBIG)
			key_fail(len, error, error_len,
				"%s: it has %zu bytes or more, which no such file has", path, room);
		else if (len < 0)
			key_fail(len, error, error_len, "%s: %s", path, strerror(-len));
		else if (memchr(text, 0, (size_t)len) != NULL)
			len = key_fail(-EINVAL, error, error_len, "%s: it is no text", path);
		else
			text[len] = 0;
	}
	close(fd);
	return len;
}

/* Read the text of a file of one line and find out what it holds. Return its length without the end
 * of the line, or -errno. */
static int
files_look(const char *path, enum key_demand demand, char *text, enum key_file *what, char *error,
	uint32_t error_len)
{
	uint8_t key[KEY_BYTES];
	int len = key_file_text(path, demand, text, KEY_LINE_MAX, error, error_len);
	unsigned k = 0;

	if (len < 0 && len != -EFBIG)
		return len;
	if (len > 0 && text[len - 1] == '\n')
		text[--len] = 0;
	if (len > 0 && text[len - 1] == '\r')
		text[--len] = 0;
	while (len >= 0 && k < KEY_FILE_PUBLIC &&
		strncmp(text, kinds[k].word, strlen(kinds[k].word)) != 0)
		k++;
	/* what has no word is a public key if it is one */
	if (len < 0 || (k == KEY_FILE_PUBLIC && !key_from_text(text, key)))
		return key_fail(-EINVAL, error, error_len,
			"%s: it is no file of pmx-ctl key, which has one line: pmx-node-secret, "
			"pmx-authority-secret, pmx-cluster-secret or pmx-certificate and base64; "
			"or a public key alone",
			path);
	*what = k;
	return len;
}

int
key_file_look(const char *path, enum key_file *what, char *error, uint32_t error_len)
{
	char text[KEY_LINE_MAX];
	const int len = files_look(path, KEY_ANYBODYS, text, what, error, error_len);

	key_forget(text, sizeof(text));
	return len < 0 ? len : 0;
}

int
key_file_line(enum key_file what, const char *path, uint8_t *out, size_t bytes, char *error,
	uint32_t error_len)
{
	const size_t word = strlen(kinds[what].word);
	char text[KEY_LINE_MAX], unused[1];
	enum key_file found;
	int result = files_look(path, what <= KEY_FILE_CLUSTER ? KEY_SECRET : KEY_ANYBODYS, text,
		&found, error, error_len);

	/* who gives a wrong file need not hear of its mode */
	if (result == -EPERM &&
		files_look(path, KEY_ANYBODYS, text, &found, unused, sizeof(unused)) >= 0 &&
		found != what)
		result = 0;
	if (result >= 0 && found != what)
		result = key_fail(-EINVAL, error, error_len, "%s: it is %s, and %s is needed", path,
			kinds[found].name, kinds[what].name);
	else if (result >= 0 && !key_decode(text + word, (size_t)result - word, out, bytes))
		result = key_fail(-EINVAL, error, error_len,
			"%s: it was cut or changed: %s is one line, '%s' and %zu characters of "
			"base64",
			path, kinds[what].name, kinds[what].word, (bytes + 2) / 3 * 4);
	key_forget(text, sizeof(text));
	return result < 0 ? result : 0;
}

int
key_read(enum key_kind kind, const char *path, uint8_t secret[KEY_BYTES], char *error,
	uint32_t error_len)
{
	return key_file_line((enum key_file)kind, path, secret, KEY_BYTES, error, error_len);
}

int
key_read_public(const char *path, uint8_t public_key[KEY_BYTES], char *error, uint32_t error_len)
{
	return key_file_line(KEY_FILE_PUBLIC, path, public_key, KEY_BYTES, error, error_len);
}

/* ------------------------------------------------------------------ writing */

void
key_line(enum key_file what, const uint8_t *in, size_t bytes, char *line)
{
	char *at = stpcpy(line, kinds[what].word);

	at += EVP_EncodeBlock((uint8_t *)at, in, (int)bytes);
	strcpy(at, "\n");
}

/* Write all of a text into an open file, which gets that mode, and close it when it is on the disk.
 * Return 0 or -errno. */
static int
write_all(int fd, mode_t mode, const char *text, size_t len)
{
	int result = fchmod(fd, mode) == 0 ? 0 : -errno; /* the umask does not count */

	while (result == 0 && len > 0) {
		const ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			result = -errno;
		else if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	if (result == 0 && fsync(fd) != 0)
		result = -errno;
	if (close(fd) != 0 && result == 0)
		result = -errno;
	return result;
}

int
key_folder_open(const char *path, char *error, uint32_t error_len)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".";

	if (slash != NULL)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path);
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : key_fail(-errno, error, error_len, "%s: %s", folder, strerror(errno));
}

int
key_write(enum key_kind kind, const char *path, const uint8_t secret[KEY_BYTES], char *error,
	uint32_t error_len)
{
	char line[KEY_LINE_MAX];
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return key_fail(-errno, error, error_len, "%s: %s", path,
			errno == EEXIST ? "it is there, and no secret is written over it: take "
					  "another name, or remove it"
					: strerror(errno));
	key_line((enum key_file)kind, secret, KEY_BYTES, line);
	const int result = write_all(fd, 0600, line, strlen(line));

	key_forget(line, sizeof(line));
	if (result != 0) {
		unlink(path);
		return key_fail(result, error, error_len, "%s: %s", path, strerror(-result));
	}
	return 0;
}

int
key_file_replace(const char *path, const char *text, size_t len, char *error, uint32_t error_len)
{
	char next[PATH_MAX];
	const int folder = key_folder_open(path, error, error_len);
	int fd, result;

	if (folder < 0)
		return folder;
	if (snprintf(next, sizeof(next), "%s.XXXXXX", path) >= (int)sizeof(next))
		result = -ENAMETOOLONG;
	else if ((fd = mkostemp(next, O_CLOEXEC)) < 0)
		result = -errno;
	else {
		result = write_all(fd, 0644, text, len);
		if (result == 0 && rename(next, path) != 0)
			result = -errno;
		if (result != 0)
			unlink(next);
		else
			fsync(folder); /* some file systems cannot, and nothing is lost by it */
	}
	close(folder);
	return result == 0 ? 0
			   : key_fail(result, error, error_len, "%s: it cannot be written: %s",
				     path, strerror(-result));
}
