/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cost of copying on this machine, by the alignment of source and destination (SWoPP 1997,
 * table 1: lowest and highest bandwidth, memory larger than the caches). It uses memcpy of the C
 * library, as applications do for messages. Needs no node.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf.h"
#include "plot/plot.h"

#define LINE        64u
#define LEAST_BYTES (64u << 20)
#define MOST_BYTES  (512u << 20)

/* Offsets from the start of a cache line, bytes. */
static const uint32_t offsets[] = {0, 1, 2, 4, 8, 16, 24, 32, 48, 63};
#define TURNS   3
#define OFFSETS (sizeof(offsets) / sizeof(offsets[0]))

/* Return the monotonic clock in ns. No EAL runs here, so the kernel's clock is asked. */
/* Return twice the size of the largest cache, within LEAST_BYTES and MOST_BYTES. */
static size_t
beyond_caches(void)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	size_t bytes = cache > 0 ? 2 * (size_t)cache : 0;

	return bytes < LEAST_BYTES ? LEAST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

/* Return the MB/s of copying `bytes` as often as `seconds` allow, at least once. */
static double
copy_rate(uint8_t *to, const uint8_t *from, size_t bytes, double seconds)
{
	double start = (double)clock_ns(), end = start + seconds * 1e9, now;
	uint64_t n = 0;

	do {
		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
		n++;
	} while ((now = (double)clock_ns()) < end);
	return (double)n * (double)bytes * 1e3 / (now - start);
}

static void
copy_print(const struct perf_options *o, const struct plot *p, size_t bytes, double lowest,
	double highest, double spread)
{
	if (o->json)
		json_line(json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "what", "copy", "size",
			(json_int_t)bytes, "aligned_mb_per_second", json_figure(p->y[0][0]),
			"lowest_mb_per_second", json_figure(lowest), "highest_mb_per_second",
			json_figure(highest), "spread", json_figure(spread)));
	else
		plot_print(p);
	if (!o->json)
		printf("%zu bytes, medians of %d turns: lowest %.0f MB/s, highest %.0f, both on "
		       "lines %.0f; widest spread %.0f %%\n",
			bytes, TURNS, lowest, highest, p->y[0][0], spread * 100);
}

int
run_copy(const struct perf_options *o)
{
	static struct plot p = {
		.name = "copy",
		.title = "memcpy of memory beyond the caches",
		.x_label = "source: bytes beyond a cache line",
		.y_label = "MB/s, median",
		.curves = OFFSETS,
	};
	size_t bytes = o->size_count ? o->sizes[0] : beyond_caches();
	uint8_t *from = aligned_alloc(4096, (bytes + 2 * 4096) & ~4095ul),
		*to = aligned_alloc(4096, (bytes + 2 * 4096) & ~4095ul);
	double lowest = 0, highest = 0, spread = 0;
	static double rates[OFFSETS][OFFSETS][TURNS];

	if (from == NULL || to == NULL) {
		fprintf(stderr, "pmx-perf: copy: no memory for 2 x %zu bytes\n", bytes);
		return 1;
	}
	if (cpu_pin(pthread_self(), o->cpu) != 0)
		return 1;
	memset(from, 1, bytes + LINE);
	memset(to, 2, bytes + LINE);
	/* every turn measures all of them, so that a disturbance of one turn affects all */
	for (unsigned turn = 0; turn < TURNS; turn++) {
		for (unsigned i = 0; i < OFFSETS * OFFSETS; i++)
			rates[i / OFFSETS][i % OFFSETS][turn] = copy_rate(to + offsets[i % OFFSETS],
				from + offsets[i / OFFSETS], bytes, o->seconds / 20);
	}
	for (unsigned c = 0; c < OFFSETS; c++)
		snprintf(p.label[c], sizeof(p.label[c]), "to %u", offsets[c]);
	for (unsigned i = 0; i < OFFSETS; i++) {
		double *y = plot_row(&p, offsets[i]);

		for (unsigned c = 0; c < OFFSETS; c++) {
			double *r = rates[i][c];

			qsort(r, TURNS, sizeof(*r), compare_figures);
			y[c] = r[TURNS / 2];
			lowest = lowest == 0 || y[c] < lowest ? y[c] : lowest;
			highest = y[c] > highest ? y[c] : highest;
			spread = (r[TURNS - 1] - r[0]) / y[c] > spread
				? (r[TURNS - 1] - r[0]) / y[c]
				: spread;
			if (o->json)
				json_line(json_pack("{s:s, s:I, s:I, s:I, s:o}", "what", "copy",
					"size", (json_int_t)bytes, "from_offset",
					(json_int_t)offsets[i], "to_offset", (json_int_t)offsets[c],
					"mb_per_second", json_figure(y[c])));
		}
	}
	copy_print(o, &p, bytes, lowest, highest, spread);
	free(from);
	free(to);
	return o->figure != NULL && !plot_write(&p, o->figure);
}
