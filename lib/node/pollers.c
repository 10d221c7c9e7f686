/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts the pollers on the CPUs of this host, from /proc. A poller is a thread of pmx-dpdk or
 * pmx-perf that may run on one CPU only: lanes of primaries, and threads that pmx-perf pinned.
 * Called before the EAL starts.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/pollers.h"

#define CPUS_MAX CPU_SETSIZE

/* Find the value of a key in a file of /proc, or the file's first line if key is "". Return NULL if
 * there is none. */
static const char *
proc_line(const char *pid, const char *file, const char *thread, const char *key, char line[256])
{
	char path[96];
	const char *found = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/task/%.16s/%s", pid, thread, file);
	f = fopen(path, "r");
	if (f == NULL)
		return NULL;
	while (found == NULL && fgets(line, 256, f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, key, strlen(key)) == 0)
			found = line + strlen(key);
	}
	fclose(f);
	return found;
}

static bool
is_name(const char *name)
{
	return strcmp(name, "pmx-dpdk") == 0 || strcmp(name, "pmx-perf") == 0;
}

static bool
is_ours(const char *pid)
{
	char line[256];
	const char *name = proc_line(pid, "comm", pid, "", line);

	return name != NULL && is_name(name);
}

/* Return the CPU that a thread polls on, or -1. The EAL's control threads do not poll, though on a
 * host with two CPUs they too may be restricted to one. */
static int
polled_cpu(const char *pid, const char *thread)
{
	char line[256], *end;
	const char *text = proc_line(pid, "comm", thread, "", line);

	if (text == NULL || (!is_name(text) && strstr(text, "worker") == NULL))
		return -1;
	text = proc_line(pid, "status", thread, "Cpus_allowed_list:", line);
	if (text == NULL)
		return -1;
	long value = strtol(text, &end, 10);

	return *end == '\0' && value < CPUS_MAX ? (int)value : -1;
}

/* Count the process once on each CPU on which one of its threads polls. */
static void
count_process(const char *pid, unsigned *pollers)
{
	char path[64];
	cpu_set_t has;
	struct dirent *d;
	DIR *threads;

	CPU_ZERO(&has);
	snprintf(path, sizeof(path), "/proc/%.16s/task", pid);
	threads = opendir(path);
	if (threads == NULL)
		return;
	while ((d = readdir(threads)) != NULL) {
		int cpu = isdigit((unsigned char)d->d_name[0]) ? polled_cpu(pid, d->d_name) : -1;

		if (cpu >= 0 && !CPU_ISSET(cpu, &has)) {
			CPU_SET(cpu, &has);
			pollers[cpu]++;
		}
	}
	closedir(threads);
}

int
poller_cpu(const cpu_set_t *allowed)
{
	static unsigned pollers[CPUS_MAX];
	DIR *proc = opendir("/proc");
	struct dirent *d;
	char own[16];
	int best = -1;

	memset(pollers, 0, sizeof(pollers));
	snprintf(own, sizeof(own), "%d", getpid());
	while (proc != NULL && (d = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)d->d_name[0]) && strcmp(d->d_name, own) != 0 &&
			is_ours(d->d_name))
			count_process(d->d_name, pollers);
	}
	if (proc != NULL)
		closedir(proc);
	for (int i = 0; i < CPUS_MAX; i++) {
		if (CPU_ISSET(i, allowed) && (best < 0 || pollers[i] < pollers[best]))
			best = i;
	}
	return best;
}
