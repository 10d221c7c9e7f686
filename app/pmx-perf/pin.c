/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cost of pinning memory, and of a hit in the pin-down cache (SWoPP 1997, table 2).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "rma/client/pin_cache.h"
#include "perf.h"

#define PAGE 4096u

/* Return the monotonic clock in ns. No EAL runs here, so the kernel's clock is asked. */
static int
lock_pages(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	return mlock((void *)(uintptr_t)addr, len) == 0 ? 0 : -errno;
}

static void
unlock_pages(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	munlock((void *)(uintptr_t)addr, len);
}

/* Return the nanoseconds of pinning and unpinning `pages` pages: the smallest of many
 * measurements. NAN: they cannot be pinned. */
static double
miss_ns(struct pin_cache *c, uint8_t *memory, uint64_t pages)
{
	double best = INFINITY;

	for (unsigned i = 0; i < 200; i++) {
		double start = (double)clock_ns();
		uint32_t ref;

		if (pin_cache_get(c, (uintptr_t)memory, pages * PAGE, &ref) != 0)
			return NAN;
		pin_cache_put(c, ref);
		pin_cache_flush(c);
		double ns = (double)clock_ns() - start;

		best = ns < best ? ns : best;
	}
	return best;
}

static double
hit_ns(struct pin_cache *c, uint8_t *memory, unsigned regions)
{
	const unsigned rounds = 1000000;
	double best = INFINITY;
	uint32_t ref, x = 1;

	for (unsigned i = 0; i < regions; i++) {
		if (pin_cache_get(c, (uintptr_t)memory + i * 4 * PAGE, PAGE, &ref) != 0)
			return NAN;
		pin_cache_put(c, ref);
	}
	for (unsigned k = 0; k < 5; k++) {
		double start = (double)clock_ns();

		for (unsigned i = 0; i < rounds; i++) {
			x = x * 1664525u + 1013904223u;
			pin_cache_get(c, (uintptr_t)memory + (x >> 16) % regions * 4 * PAGE, PAGE,
				&ref);
			pin_cache_put(c, ref);
		}
		double ns = ((double)clock_ns() - start) / rounds;

		best = ns < best ? ns : best;
	}
	return best;
}

/* Measure the paper's table 2 for this machine: a miss as a + b * pages, and a hit. Return the exit
 * code. */
int
run_pin(const struct perf_options *o)
{
	const struct pin_cache_config config = {
		.page_bytes = PAGE,
		.bytes_max = 256u << 20,
		.merge_bytes = 0,
		.entries_max = 1024,
		.ops = {lock_pages, unlock_pages, NULL},
	};
	struct pin_cache *c = pin_cache_new(&config);
	uint8_t *memory = aligned_alloc(PAGE, 1024 * PAGE);
	double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0;

	if (c == NULL || memory == NULL)
		return 1;
	if (cpu_pin(pthread_self(), o->cpu) != 0)
		return 1;
	madvise(memory, 1024 * PAGE, MADV_NOHUGEPAGE);
	memset(memory, 1, 1024 * PAGE);
	double hit = hit_ns(c, memory, 64), one = 0;

	pin_cache_flush(c);
	if (!o->json)
		printf("%10s %12s\n", "pages", "miss, us");
	for (uint64_t pages = 1; pages <= 1024; pages *= 2) {
		double ns = miss_ns(c, memory, pages), x = (double)pages;

		if (isnan(ns)) {
			fprintf(stderr, "pmx-perf: mlock of %lu pages: %s: raise ulimit -l\n",
				pages, strerror(errno));
			return 1;
		}
		one = pages == 1 ? ns : one;
		/* give each size the same weight: least squares of relative errors */
		double w = 1 / (ns * ns);

		n += w, sx += w * x, sy += w * ns, sxx += w * x * x, sxy += w * x * ns;
		if (o->json)
			json_line(json_pack("{s:s, s:s, s:I, s:o}", "what", "pin", "test", "miss",
				"pages", (json_int_t)pages, "ns", json_figure(ns)));
		else
			printf("%10lu %12.3f\n", pages, ns / 1e3);
	}
	double b = (n * sxy - sx * sy) / (n * sxx - sx * sx), a = (sy - b * sx) / n;

	if (o->json)
		json_line(json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "what", "pin", "test", "fit",
			"a_ns", json_figure(a), "b_ns", json_figure(b), "hit_ns", json_figure(hit),
			"ratio", json_figure(one / hit)));
	else
		printf("miss: %.2f us + %.3f us x pages\n"
		       "hit: %.1f ns (64 regions, random), %.0f times cheaper than a miss of one "
		       "page\n",
			a / 1e3, b / 1e3, hit, one / hit);
	free(memory);
	pin_cache_free(c);
	return 0;
}
