/* SPDX-License-Identifier: BSD-3-Clause
 *
 * `pmx-perf floor line`: the round trip of a cache line between two CPUs, the floor under all that
 * two processes of a host tell each other. A hypervisor may move CPUs while something is measured,
 * so a measurement says where they were only if this stands before and behind it. Needs no node and
 * no EAL.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "perf.h"

#define SAMPLES     32
#define TRIPS       4000 /* of a sample */
#define WARM_UP     2    /* samples that do not count: the other thread may still be starting */
#define PATIENCE_NS 5e9

/* The number of the trip; each side writes it in turn, the answer with the other sign. */
static struct {
	_Alignas(64) _Atomic int64_t value;
	_Alignas(64) _Atomic bool stop;
} line;

static void *
line_answer(void *arg)
{
	int64_t seen = 0;

	(void)arg;
	while (!atomic_load_explicit(&line.stop, memory_order_relaxed)) {
		int64_t v = atomic_load_explicit(&line.value, memory_order_acquire);

		if (v <= seen)
			continue;
		seen = v;
		atomic_store_explicit(&line.value, -v, memory_order_release);
	}
	return NULL;
}

/* Send the cache line to the other thread and back TRIPS times. *ns gets the mean time of a trip.
 * Return false if the other thread stayed away. */
static bool
sample(int64_t *trip, double *ns)
{
	double start = (double)clock_ns();

	for (unsigned i = 0; i < TRIPS; i++) {
		uint64_t tries = 0;

		atomic_store_explicit(&line.value, ++*trip, memory_order_release);
		while (atomic_load_explicit(&line.value, memory_order_acquire) != -*trip) {
			if (++tries % (1 << 20) == 0 && (double)clock_ns() - start > PATIENCE_NS)
				return false;
		}
	}
	*ns = ((double)clock_ns() - start) / TRIPS;
	return true;
}

static int
line_measure(struct hist *h)
{
	int64_t trip = 0;
	double ns;

	for (unsigned i = 0; i < SAMPLES + WARM_UP; i++) {
		if (!sample(&trip, &ns)) {
			fprintf(stderr,
				"pmx-perf: floor line: the thread on the other CPU did not "
				"run for 5 s: does something else poll there?\n");
			return 1;
		}
		if (i >= WARM_UP)
			hist_record(h, (uint64_t)ns);
	}
	return 0;
}

int
run_line(const struct perf_options *o)
{
	const int other = o->other >= 0 ? o->other : cpu_other(o->cpu);
	struct perf_row r = {.what = "line", .test = "latency", .size = 64};
	struct hist h;
	pthread_t thread;
	int e;

	if (other == o->cpu) {
		fprintf(stderr,
			"pmx-perf: floor line: needs two CPUs, and both would be %d: --cpu and "
			"--other name them\n",
			other);
		return 1;
	}
	hist_init(&h);
	if (pthread_create(&thread, NULL, line_answer, NULL) != 0)
		return perf_complain("floor line: thread", -EAGAIN);
	e = cpu_pin(thread, other) != 0 || cpu_pin(pthread_self(), o->cpu) != 0 ||
		line_measure(&h) != 0;
	atomic_store(&line.stop, true);
	pthread_join(thread, NULL);
	if (e != 0)
		return 1;
	row_latency(&r, &h);
	if (o->json) {
		row_print(o, &r);
	} else {
		printf("a cache line from CPU %d to CPU %d and back: %lu ns, %lu to %lu in %d "
		       "samples of %d (%s)\n",
			o->cpu, other, r.p50_ns, r.min_ns, r.max_ns, SAMPLES, TRIPS,
			cpu_distance(o->cpu, other));
	}
	return 0;
}
