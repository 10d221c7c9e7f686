/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, leftovers: what primaries that were killed could not remove. Runtime directories keep
 * names taken; hugepage files keep memory taken.
 *
 * Design notes
 * 1. An empty directory is no sign of death: an embedded node keeps nothing in its own. It takes
 *    nothing either, so it is named, but not complained of.
 * 2. A hugepage file is in use if its instance is not dead, or if anybody holds a lock on it: the
 *    EAL keeps a shared flock on each. /proc/locks tells without taking one.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "channel/channel.h"
#include "ctl.h"

static const struct instance *instances;
static unsigned instance_count;
static unsigned left;

static size_t
count_files(const char *dir)
{
	char pattern[CTL_PATH_MAX];
	glob_t files = {0};

	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	size_t count = glob(pattern, GLOB_NOSORT, NULL, &files) == 0 ? files.gl_pathc : 0;

	globfree(&files);
	return count;
}

/* Adds the name to `empty`, which it may replace, or reports. */
static void
check_directory(struct doctor *d, const struct instance *i, char **empty)
{
	char *path = text("%s/dpdk/%s", eal_base(), i->name);
	size_t count = count_files(path);

	if (count > 0) {
		char *word = shell_word(path), *mend = text("rm -r %s", word);

		found(d, WARN, "leftover directory", mend, "%s: %zu files, no live primary", path,
			count);
		left++;
		free(mend);
		free(word);
	} else {
		char *longer = text("%s%s%s", *empty, **empty ? ", " : "", i->name);

		free(*empty);
		*empty = longer;
	}
	free(path);
}

static bool
is_alive(const char *name, size_t len)
{
	for (unsigned i = 0; i < instance_count; i++) {
		if (strlen(instances[i].name) == len && strncmp(instances[i].name, name, len) == 0)
			return instances[i].state != INSTANCE_DEAD;
	}
	return false;
}

static bool
is_locked(const char *path)
{
	char *line = NULL, *key;
	size_t size = 0;
	bool locked = false;
	struct stat st;

	if (stat(path, &st) != 0)
		return true; /* gone meanwhile, or not ours to judge */
	FILE *f = fopen("/proc/locks", "r");

	key = text(
		" %02x:%02x:%" PRIu64 " ", major(st.st_dev), minor(st.st_dev), (uint64_t)st.st_ino);
	while (f != NULL && !locked && getline(&line, &size, f) > 0)
		locked = strstr(line, key) != NULL;
	free(key);
	free(line);
	if (f != NULL)
		fclose(f);
	return locked;
}

/* Files of one prefix: they stand next to each other in the sorted list. */
static size_t
check_prefix(struct doctor *d, const char *dir, char **paths, size_t count, uint64_t page_bytes)
{
	const char *first = strrchr(paths[0], '/') + 1;
	const char *end = first;
	bool used;
	size_t same = 1;

	for (const char *s = first; (s = strstr(s, "map_")) != NULL; s++)
		end = s;
	size_t len = (size_t)(end - first);

	used = is_alive(first, len) || is_locked(paths[0]);
	while (same < count && strncmp(strrchr(paths[same], '/') + 1, first, len + 4) == 0) {
		used = used || is_locked(paths[same]);
		same++;
	}
	if (used)
		return same;
	char *prefix = text("%s/%.*s", dir, (int)len, first), *word = shell_word(prefix);
	char *mend = text("rm %smap_*", word);

	found(d, WARN, "leftover hugepages", mend,
		"%smap_*: %zu files, %" PRIu64 " MiB, of no process", prefix, same,
		same * (page_bytes >> 20));
	left++;
	free(mend);
	free(word);
	free(prefix);
	return same;
}

static void
check_mount(struct doctor *d, const char *dir, uint64_t page_bytes)
{
	char pattern[CTL_PATH_MAX];
	glob_t files = {0};

	snprintf(pattern, sizeof(pattern), "%s/*map_*", dir);
	if (glob(pattern, 0, NULL, &files) == 0) {
		for (size_t i = 0; i < files.gl_pathc;)
			i += check_prefix(d, dir, files.gl_pathv + i, files.gl_pathc - i,
				page_bytes ? page_bytes : 2u << 20);
	}
	globfree(&files);
}

void
doctor_left(struct doctor *d, const struct instance *list, unsigned count)
{
	char *empty = text("%s", "");

	instances = list;
	instance_count = count;
	left = 0;
	for (unsigned i = 0; i < count; i++) {
		if (list[i].state == INSTANCE_DEAD)
			check_directory(d, &list[i], &empty);
	}
	each_huge_mount(d, check_mount);
	if (left == 0)
		found(d, OK, "leftovers", NULL, "none of dead primaries%s%s",
			*empty ? "; empty directories, harmless: " : "", empty);
	free(empty);
}
