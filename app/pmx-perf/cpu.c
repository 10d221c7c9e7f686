/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which CPU this program polls on: the one that --cpu names, or one that no other poller of this
 * host uses (lib/node/pollers.c). Called by the main thread, before the EAL starts.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "node/pollers.h"
#include "perf.h"

#define CPUS_MAX CPU_SETSIZE

/* Return the CPUs that this process was allowed to use when it began; pinning narrows what the
 * kernel returns later. */
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

/* Write the allowed CPUs in the form "0-3,8". */
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
		at += (size_t)snprintf(out + at, size - at, first == last ? "%s%d" : "%s%d-%d",
			at ? "," : "", first, last);
		if (at >= size)
			return;
		first = last;
	}
}

int
cpu_other(int but)
{
	cpu_set_t others = *allowed();

	if (but >= 0 && CPU_COUNT(&others) > 1)
		CPU_CLR(but, &others); /* shared only if there is no other */
	return poller_cpu(&others);
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

/* Return the EAL argument that places the EAL's threads (-l, -c or --lcores), or NULL. */
static const char *
eal_placement(const struct perf_options *o)
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
place_eal(struct perf_options *o)
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
	o->eal_argv = argv; /* allocated for the life of the process */
	o->eal_argc += 2;
	return 0;
}

int
cpu_settle(struct perf_options *o, bool eal)
{
	const char *placed = eal ? eal_placement(o) : NULL;
	char text[256];

	if (o->cpu >= 0 && (o->cpu >= CPUS_MAX || !CPU_ISSET(o->cpu, allowed()))) {
		allowed_text(text, sizeof(text));
		fprintf(stderr, "pmx-perf: --cpu %d: this process may run on CPUs %s\n", o->cpu,
			text);
		return -EINVAL;
	}
	if (o->cpu >= 0 && placed != NULL) {
		fprintf(stderr,
			"pmx-perf: --cpu %d and the EAL argument %s both say where to run: give "
			"one of them\n",
			o->cpu, placed);
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

/* Return the name of the nearest thing that two CPUs share. Groups are parts of a package, or of
 * the machine. */
static const char *
shared_name(hwloc_obj_t shared, bool one_numa)
{
	static char text[64];

	if (hwloc_obj_type_is_cache(shared->type)) {
		snprintf(text, sizeof(text), "they share an L%u cache", shared->attr->cache.depth);
		return text;
	}
	while (shared->type == HWLOC_OBJ_GROUP && shared->parent != NULL)
		shared = shared->parent;
	switch (shared->type) {
	case HWLOC_OBJ_PU:
		return "one CPU";
	case HWLOC_OBJ_CORE:
		return "two threads of one core";
	case HWLOC_OBJ_DIE:
		return "cores of one die";
	case HWLOC_OBJ_PACKAGE:
		return one_numa ? "cores of one package" : "NUMA nodes of one package";
	default:
		return one_numa ? "different packages of one NUMA node"
				: "different packages and NUMA nodes";
	}
}

const char *
cpu_distance(int a, int b)
{
	const char *text = "it is not known how far apart";
	hwloc_topology_t t;

	if (hwloc_topology_init(&t) != 0)
		return text;
	if (hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
		hwloc_topology_load(t) == 0) {
		hwloc_obj_t x = hwloc_get_pu_obj_by_os_index(t, (unsigned)a),
			    y = hwloc_get_pu_obj_by_os_index(t, (unsigned)b);

		if (x != NULL && y != NULL)
			text = shared_name(hwloc_get_common_ancestor_obj(t, x, y),
				hwloc_bitmap_isequal(x->nodeset, y->nodeset));
	}
	hwloc_topology_destroy(t);
	return text;
}
