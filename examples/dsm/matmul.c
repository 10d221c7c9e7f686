/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A product of matrices: each member computes a band of rows of c = a * b, and fetches what it
 * needs of b at once. Rank 0 does the same alone, and compares.
 */
#include <string.h>
#include <unistd.h>

#include "cluster.h"

static unsigned n = 512;

static void
multiply(const double *a, const double *b, double *c, unsigned from, unsigned to)
{
	for (unsigned y = from; y < to; y++) {
		memset(c + (size_t)y * n, 0, n * sizeof(double));
		for (unsigned k = 0; k < n; k++) {
			const double factor = a[(size_t)y * n + k];

			for (unsigned x = 0; x < n; x++)
				c[(size_t)y * n + x] += factor * b[(size_t)k * n + x];
		}
	}
}

static void
fill(double *m, unsigned from, unsigned to, unsigned salt)
{
	for (size_t i = (size_t)from * n; i < (size_t)to * n; i++)
		m[i] = (double)((i * 2654435761u + salt) % 1000) * 1e-3;
}

/* The product that one process makes, and whether `c` is the same. */
static bool
is_right(const double *c, double together, unsigned processes)
{
	const size_t bytes = (size_t)n * n * sizeof(double);
	double *a = malloc(bytes), *b = malloc(bytes), *alone = malloc(bytes);

	fill(a, 0, n, 1);
	fill(b, 0, n, 2);
	const double start = seconds();

	multiply(a, b, alone, 0, n);
	const double one = seconds() - start;
	const bool right = memcmp(c, alone, bytes) == 0;

	printf("matmul %u x %u, %u processes: %.1f ms, alone %.1f ms, %.2f times as fast, %s\n", n,
		n, processes, together * 1e3, one * 1e3, one / together,
		right ? "the same result" : "WRONG");
	free(a);
	free(b);
	free(alone);
	return right;
}

int
main(int argc, char **argv)
{
	struct cluster c;
	void *m[3];
	int opt;

	while ((opt = getopt(argc, argv, "n:")) != -1)
		n = (unsigned)strtoul(optarg, NULL, 10);
	const size_t bytes = (size_t)n * n * sizeof(double);

	cluster_join(&c, argc - optind, argv + optind, "matmul [-n SIZE]", 3 * (bytes + 65536));
	for (unsigned i = 0; i < 3; i++)
		must("memory", pmx_dsm_alloc(c.dsm, bytes, PMX_DSM_BLOCKS, &m[i]));
	const unsigned from = n * c.rank / c.size, to = n * (c.rank + 1) / c.size;

	fill(m[0], from, to, 1);
	fill(m[1], from, to, 2);
	must("barrier", pmx_dsm_barrier(c.dsm));
	const double start = seconds();

	must("fetch", pmx_dsm_fetch(c.dsm, m[1], bytes, false));
	multiply(m[0], m[1], m[2], from, to);
	must("barrier", pmx_dsm_barrier(c.dsm));
	const double together = seconds() - start;
	bool right = true;

	if (c.rank == 0) {
		must("fetch", pmx_dsm_fetch(c.dsm, m[2], bytes, false));
		right = is_right(m[2], together, c.size);
	}
	cluster_leave(&c);
	return !right;
}
