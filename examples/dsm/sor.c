/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Successive over-relaxation: the temperature of a plate whose upper edge is warm, by red and black
 * points in turns. Each member computes a band of rows, whose pages it is the home of, and reads
 * one row of each neighbour. Rank 0 does the same alone, and compares: the bits are equal.
 */
#include <string.h>
#include <unistd.h>

#include "cluster.h"

static unsigned n = 1024, turns = 100;

/* Every second point of rows from..to - 1; colour: 0 or 1. */
static void
relax(float *plate, unsigned from, unsigned to, unsigned colour)
{
	for (unsigned y = from > 1 ? from : 1; y < to && y < n - 1; y++) {
		float *row = plate + (size_t)y * n;
		const float *above = row - n, *below = row + n;

		for (unsigned x = 1 + (y + colour) % 2; x < n - 1; x += 2)
			row[x] += 0.8f *
				((above[x] + below[x] + row[x - 1] + row[x + 1]) * 0.25f - row[x]);
	}
}

static void
warm(float *plate)
{
	for (unsigned x = 0; x < n; x++)
		plate[x] = 100.0f;
}

static double
alone(float *plate)
{
	double start;

	warm(plate);
	start = seconds();
	for (unsigned t = 0; t < 2 * turns; t++)
		relax(plate, 0, n, t % 2);
	return seconds() - start;
}

int
main(int argc, char **argv)
{
	struct cluster c;
	void *memory;
	int opt;

	while ((opt = getopt(argc, argv, "n:t:")) != -1) {
		if (opt == 'n')
			n = (unsigned)strtoul(optarg, NULL, 10);
		if (opt == 't')
			turns = (unsigned)strtoul(optarg, NULL, 10);
	}
	const size_t bytes = (size_t)n * n * sizeof(float);

	cluster_join(&c, argc - optind, argv + optind, "sor [-n SIZE] [-t TURNS]", bytes);
	must("memory", pmx_dsm_alloc(c.dsm, bytes, PMX_DSM_BLOCKS, &memory));
	float *plate = memory;
	const unsigned from = n * c.rank / c.size, to = n * (c.rank + 1) / c.size;

	if (c.rank == 0)
		warm(plate);
	must("barrier", pmx_dsm_barrier(c.dsm));
	const double start = seconds();

	for (unsigned t = 0; t < 2 * turns; t++) {
		relax(plate, from, to, t % 2);
		must("barrier", pmx_dsm_barrier(c.dsm));
	}
	const double together = seconds() - start;
	int wrong = 0;

	if (c.rank == 0) {
		float *check = calloc((size_t)n * n, sizeof(float));
		const double one = alone(check);

		must("fetch", pmx_dsm_fetch(c.dsm, plate, bytes, false));
		wrong = memcmp(plate, check, bytes) != 0;
		printf("sor %u x %u, %u turns, %u processes: %.1f ms, alone %.1f ms, %.2f times as "
		       "fast, %s\n",
			n, n, turns, c.size, together * 1e3, one * 1e3, one / together,
			wrong ? "WRONG" : "the same result");
		free(check);
	}
	cluster_leave(&c);
	return wrong;
}
