/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory there is. A page that is written for the first time when none is left gets the
 * process killed, so who is about to fill much asks first. Any thread; reads files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

#define PATH_BYTES 4200

/* Return the number behind `key` in a file, or the first number of its first line if `key` is
 * empty; UINT64_MAX if there is none, as where the file says "max". */
static uint64_t
number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	uint64_t found = UINT64_MAX;
	char line[256], *end;

	while (f != NULL && found == UINT64_MAX && fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		const unsigned long long n = strtoull(line + strlen(key), &end, 10);

		found = end != line + strlen(key) ? n : UINT64_MAX;
		if (*key == 0)
			break;
	}
	if (f != NULL)
		fclose(f);
	return found;
}

/* Return the bytes that are left of the limit of one group; UINT64_MAX: it has no limit. Cached
 * files do not count as used: the kernel drops them before it kills. */
static uint64_t
left_in(const char *group)
{
	char path[PATH_BYTES + 20];

	snprintf(path, sizeof(path), "%s/memory.max", group);
	const uint64_t most = number_in(path, "");

	snprintf(path, sizeof(path), "%s/memory.current", group);
	const uint64_t used = number_in(path, "");

	snprintf(path, sizeof(path), "%s/memory.stat", group);
	const uint64_t cached = number_in(path, "inactive_file ");

	if (most == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	const uint64_t pinned = cached != UINT64_MAX && cached < used ? used - cached : used;

	return most > pinned ? most - pinned : 0;
}

/* Return the bytes that are left of the limits of this process's group and of those around it
 * (cgroup v2); UINT64_MAX: none has a limit. */
static uint64_t
left_in_groups(void)
{
	static const char top[] = "/sys/fs/cgroup";
	FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t least = UINT64_MAX;
	char line[PATH_BYTES - sizeof(top)], group[PATH_BYTES], *slash;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(group, sizeof(group), "%s%s", top, line + 3);
		do {
			const uint64_t left = left_in(group);

			least = left < least ? left : least;
			slash = strrchr(group, '/');
			if (slash != NULL)
				*slash = 0;
		} while (slash != NULL && strlen(group) >= sizeof(top) - 1);
	}
	if (f != NULL)
		fclose(f);
	return least;
}

uint64_t
available_memory(void)
{
	const uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
	const uint64_t host = kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
	const uint64_t groups = left_in_groups();

	return host < groups ? host : groups;
}
