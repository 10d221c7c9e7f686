/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, leftovers: what primaries that were killed could not remove. Runtime directories keep
 * names taken; hugepage files keep memory taken; sockets and PID files occupy nothing, but mislead.
 *
 * Design notes
 * 1. An empty directory does not show that its primary is dead, since that of an embedded node is
 *    always empty. It occupies nothing either, so it is mentioned, but is no fault.
 * 2. A hugepage file is in use if its instance is not dead, or if anybody holds a lock on it: the
 *    EAL keeps a shared flock on each. /proc/locks shows that without taking a lock.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "ctl.h"

static const struct instance *instances;
static unsigned instance_count;
static unsigned left;

/* Report the files of a dead primary's directory. If it has none, add its prefix to *empty, which
 * is then reallocated. */
static void
check_directory(struct doctor *d, const char *prefix, char **empty)
{
	char *path = text("%s/dpdk/%s", eal_base(), prefix);
	size_t count = files_that(path, is_any, NULL, false);

	if (count > 0) {
		char *word = shell_word(path), *mend = text("rm -r %s", word);

		found(d, WARN, "leftover directory", mend, "%s: %zu files, no live primary", path,
			count);
		left++;
		free(mend);
		free(word);
	} else {
		char *longer = text("%s%s%s", *empty, **empty ? ", " : "", prefix);

		free(*empty);
		*empty = longer;
	}
	free(path);
}

static bool
is_alive(enum instance_state state)
{
	return state != INSTANCE_DEAD && state != INSTANCE_NONE;
}

/* Return the state of the instance whose name is the first `len` characters, in one of its
 * directories, or in the better one of both (-1). */
static enum instance_state
state_of(const char *name, size_t len, int directory)
{
	const int i = instance_find(instances, instance_count, name, len);

	return i < 0            ? INSTANCE_NONE
		: directory < 0 ? instances[i].state
				: instances[i].state_of[directory];
}

static bool
prefix_lives(const char *prefix, size_t len)
{
	const unsigned directory = instance_directory(prefix, len);

	return is_alive(state_of(prefix, len - directory, (int)directory));
}

static bool
is_locked(const char *path)
{
	char *line = NULL, *key;
	size_t size = 0;
	bool locked = false;
	struct stat st;

	if (stat(path, &st) != 0)
		return true; /* it is gone by now, or cannot be examined */
	FILE *f = fopen("/proc/locks", "r");

	key = text(" %02x:%02x:%" PRIu64 " ", major(st.st_dev), minor(st.st_dev),
		(uint64_t)st.st_ino);
	while (f != NULL && !locked && getline(&line, &size, f) > 0)
		locked = strstr(line, key) != NULL;
	free(key);
	free(line);
	if (f != NULL)
		fclose(f);
	return locked;
}

/* Escape a word for use in an extended regular expression. The caller frees the result. */
static char *
regex_word(const char *word, size_t len)
{
	char *out = text("%s", "");

	for (size_t i = 0; i < len; i++) {
		char *longer = text("%s%s%c", out, strchr(".+*?^$|()[]{}\\", word[i]) ? "\\" : "",
			word[i]);

		free(out);
		out = longer;
	}
	return out;
}

/* Report the hugepage files of one instance, with a command that removes them. The command must
 * match only files of this instance: of pmx0, but not of pmx0map_1. */
static void
report_pages(struct doctor *d, const char *dir, const char *prefix, size_t len, size_t count,
	uint64_t page_bytes)
{
	char *path = text("%s/%.*s", dir, (int)len, prefix),
	     *escaped = regex_word(path, strlen(path));
	char *pattern = text("%smap_[0-9]+", escaped), *word = shell_word(pattern),
	     *where = shell_word(dir);
	char *mend = text("find %s -maxdepth 1 -regextype posix-extended -regex %s -delete", where,
		word);

	found(d, WARN, "leftover hugepages", mend,
		"%smap_*: %zu files, %" PRIu64 " MiB, of no process", path, count,
		count * (page_bytes >> 20));
	left++;
	free(mend);
	free(where);
	free(word);
	free(pattern);
	free(escaped);
	free(path);
}

/* Check the files of one prefix, which begin at names[0]. Return how many they are. */
static size_t
check_prefix(struct doctor *d, const char *dir, struct dirent **names, size_t count,
	uint64_t page_bytes)
{
	const char *first = names[0]->d_name;
	size_t len = eal_map_owner(first), same = 0;
	bool used = prefix_lives(first, len);

	while (same < count && eal_map_owner(names[same]->d_name) == len &&
		strncmp(names[same]->d_name, first, len) == 0) {
		char *path = text("%s/%s", dir, names[same++]->d_name);

		used = used || is_locked(path);
		free(path);
	}
	if (!used)
		report_pages(d, dir, first, len, same, page_bytes);
	return same;
}

static int
is_map(const struct dirent *e)
{
	return eal_map_owner(e->d_name) > 0;
}

/* Order files by their prefixes, so that those of one instance are adjacent. */
static int
by_owner(const struct dirent **a, const struct dirent **b)
{
	size_t x = eal_map_owner((*a)->d_name), y = eal_map_owner((*b)->d_name);
	int order = strncmp((*a)->d_name, (*b)->d_name, x < y ? x : y);

	return order != 0 ? order : x < y ? -1 : x > y;
}

static void
check_mount(void *doctor, const char *dir, uint64_t page_bytes)
{
	struct doctor *d = doctor;
	struct dirent **names;
	int n = scandir(dir, &names, is_map, by_owner);

	for (int i = 0; i < n;)
		i += (int)check_prefix(d, dir, names + i, (size_t)(n - i), page_bytes);
	for (int i = 0; i < n; i++)
		free(names[i]);
	if (n >= 0)
		free(names);
}

static void
check_file(struct doctor *d, const char *path, const char *check, const char *why, bool dead)
{
	if (!dead)
		return;
	char *word = shell_word(path), *mend = text("rm %s", word);

	found(d, WARN, check, mend, "%s: %s", path, why);
	left++;
	free(mend);
	free(word);
}

static void
check_socket(struct doctor *d, const char *path)
{
	check_file(d, path, "leftover socket", "nobody listens", is_stale_socket(path));
}

/* Check the socket of a dead primary whose access.socket was not the default path. */
static void
check_attach_link(struct doctor *d, const char *prefix)
{
	char *link = text("%s/dpdk/%s/" ATTACH_LINK, eal_base(), prefix), path[CTL_PATH_MAX];
	ssize_t n = readlink(link, path, sizeof(path) - 1);

	free(link);
	if (n <= 0)
		return;
	path[n] = 0;
	if (strstr(path, "/pmx-dpdk/") == NULL)
		check_socket(d, path);
}

static int
is_checked_name(const struct dirent *e)
{
	const char *dot = strchr(e->d_name, '.') ? strrchr(e->d_name, '.') : "";

	return strcmp(dot, ".sock") == 0 || strcmp(dot, ".new") == 0 || strcmp(dot, ".nodes") == 0;
}

/* Return whether the file, NAME.nodes, is of a primary that runs. */
static bool
is_of_live(const char *file)
{
	return is_alive(state_of(file, (size_t)(strstr(file, ".nodes") - file), -1));
}

/* Check the files in the directory where primaries of this user keep sockets, process numbers, and
 * what they have found. The next primary removes numbers that nobody holds. */
static void
check_run(struct doctor *d)
{
	char dir[RUN_DIR_MAX];
	struct dirent **names;

	run_dir(dir, sizeof(dir));
	int n = scandir(dir, &names, is_checked_name, alphasort);

	for (int i = 0; i < n; i++) {
		char *path = text("%s/%s", dir, names[i]->d_name);

		if (strstr(names[i]->d_name, ".nodes") != NULL)
			check_file(d, path, "leftover file", "found nodes of a dead primary",
				!is_of_live(names[i]->d_name));
		else
			check_socket(d, path);
		free(path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

void
doctor_left(struct doctor *d, const struct instance *list, unsigned count)
{
	char *empty = text("%s", "");

	instances = list;
	instance_count = count;
	left = 0;
	for (unsigned i = 0; i < count * INSTANCE_DIRECTORIES; i++) {
		const struct instance *one = &list[i / INSTANCE_DIRECTORIES];
		char *prefix = instance_prefix(one->name, i % INSTANCE_DIRECTORIES);

		if (one->state_of[i % INSTANCE_DIRECTORIES] == INSTANCE_DEAD) {
			check_attach_link(d, prefix);
			check_directory(d, prefix, &empty);
		}
		free(prefix);
	}
	each_huge_mount(check_mount, d);
	check_run(d);
	if (left == 0)
		found(d, OK, "leftovers", NULL, "none of dead primaries%s%s",
			*empty ? "; empty directories, harmless: " : "", empty);
	free(empty);
}
