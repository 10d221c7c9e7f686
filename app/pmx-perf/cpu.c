/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which CPU this program polls on: the one that --cpu names, or one that no other poller of this host has. A
 * poller is a thread of pmx-dpdk or pmx-perf that may run on one CPU only, as /proc says: the engines of
 * primaries, and what pmx-perf pinned before. Called by the main thread, before the EAL starts.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"

#define CPUS_MAX CPU_SETSIZE

/* What this process might use when it began; pinning narrows what the kernel says. */
static const cpu_set_t *
allowed(void)
{
	static cpu_set_t set;
	static bool asked;

	if (!asked && sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_ZERO(&set);
	asked = true;
	return &set;
}

/* As "0-3,8". */
static void
allowed_text(char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (int first = 0; first < CPUS_MAX; first++) {
		int last = first;

		if (!CPU_ISSET(first, allowed()))
			continue;
		while (last + 1 < CPUS_MAX && CPU_ISSET(last + 1, allowed()))
			last++;
		at += (size_t)snprintf(out + at, size - at, first == last ? "%s%d" : "%s%d-%d", at ? "," : "", first, last);
		if (at >= size)
			return;
		first = last;
	}
}

/* ------------------------------------------------------------------ who polls where */

/* The value of a key in a file of /proc, or its first line if key is ""; NULL: none. */
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

/* The CPU that a thread polls on, or -1. The EAL's control threads do not poll: where two CPUs are and one is polled, they too
 * may use one only. */
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

/* The process counts once on each CPU that it has a thread of its own on. */
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
cpu_other(int but)
{
	static unsigned pollers[CPUS_MAX];
	DIR *proc = opendir("/proc");
	struct dirent *d;
	char own[16];
	int best = -1;

	memset(pollers, 0, sizeof(pollers));
	if (but >= 0)
		pollers[but] = UINT16_MAX; /* shared only if there is no other */
	snprintf(own, sizeof(own), "%d", getpid());
	while (proc != NULL && (d = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)d->d_name[0]) && strcmp(d->d_name, own) != 0 && is_ours(d->d_name))
			count_process(d->d_name, pollers);
	}
	if (proc != NULL)
		closedir(proc);
	for (int i = 0; i < CPUS_MAX; i++) {
		if (CPU_ISSET(i, allowed()) && (best < 0 || pollers[i] < pollers[best]))
			best = i;
	}
	return best;
}

/* ------------------------------------------------------------------ using it */

int
cpu_pin(pthread_t thread, int cpu)
{
	cpu_set_t one;
	int e;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	e = pthread_setaffinity_np(thread, sizeof(one), &one);
	if (e != 0)
		fprintf(stderr, "pmx-perf: CPU %d: %s\n", cpu, strerror(e));
	return -e;
}

/* -l, -c and --lcores place the EAL's threads. */
static const char *
eal_placement(const struct options *o)
{
	for (int i = 1; i < o->eal_argc; i++) {
		const char *a = o->eal_argv[i];

		if (strncmp(a, "--lcores", 8) == 0 || (a[0] == '-' && (a[1] == 'l' || a[1] == 'c')))
			return a;
	}
	return NULL;
}

/* Put "--lcores 0@CPU" before the other EAL arguments. */
static int
place_eal(struct options *o)
{
	static char lcores[32];
	char **argv = calloc((size_t)o->eal_argc + 3, sizeof(*argv));

	if (argv == NULL)
		return -ENOMEM;
	snprintf(lcores, sizeof(lcores), "0@%d", o->cpu);
	argv[0] = o->eal_argv[0];
	argv[1] = "--lcores";
	argv[2] = lcores;
	memcpy(argv + 3, o->eal_argv + 1, (size_t)(o->eal_argc - 1) * sizeof(*argv));
	o->eal_argv = argv; /* for the life of the process */
	o->eal_argc += 2;
	return 0;
}

int
cpu_settle(struct options *o, bool eal)
{
	const char *placed = eal ? eal_placement(o) : NULL;
	char text[256];

	if (o->cpu >= 0 && (o->cpu >= CPUS_MAX || !CPU_ISSET(o->cpu, allowed()))) {
		allowed_text(text, sizeof(text));
		fprintf(stderr, "pmx-perf: --cpu %d: this process may run on CPUs %s\n", o->cpu, text);
		return -EINVAL;
	}
	if (o->cpu >= 0 && placed != NULL) {
		fprintf(stderr, "pmx-perf: --cpu %d and the EAL argument %s both say where to run: give one of them\n", o->cpu,
			placed);
		return -EINVAL;
	}
	if (placed != NULL)
		return 0;
	if (o->cpu < 0)
		o->cpu = cpu_other(-1);
	if (o->progress)
		fprintf(stderr, "on CPU %d\n", o->cpu);
	return eal && o->cpu >= 0 ? place_eal(o) : 0;
}
