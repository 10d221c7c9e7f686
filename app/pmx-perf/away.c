/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-perf floor away: how often, and for how long, the machine takes a CPU away from a program
 * that does nothing but read the clock. Interrupts, other programs and a hypervisor do that, and no
 * program on that CPU has a tail that is shorter.
 */
#include <rte_cycles.h>

#include "perf.h"

#define AWAY_NS 2000 /* between two looks at the clock, which are some 10 ns apart */

int
run_away(const struct perf_options *o)
{
	const uint64_t least = AWAY_NS * perf_hz() / 1000000000;
	struct perf_row r = {.what = "away", .test = "away"};
	struct hist h;
	uint64_t begin, before, now;

	if (cpu_pin(pthread_self(), o->cpu) != 0)
		return 1;
	hist_init(&h);
	begin = before = rte_rdtsc();
	do {
		now = rte_rdtsc();
		if (now - before > least)
			hist_record(&h, (uint64_t)perf_ns(now - before));
		before = now;
	} while (perf_ns(now - begin) < o->seconds * 1e9);
	row_latency(&r, &h);
	r.seconds = perf_ns(now - begin) / 1e9;
	r.size = (uint32_t)o->cpu;
	r.per_second = (double)hist_count(&h) / r.seconds;
	if (o->json)
		row_print(o, &r);
	else
		printf("CPU %d was away %.0f times a second: for %.1f us in the median, %.1f in "
		       "the 99th percentile, at most %.1f\n",
			o->cpu, r.per_second, (double)r.p50_ns / 1e3, (double)r.p99_ns / 1e3,
			(double)r.max_ns / 1e3);
	return 0;
}
