/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sorting with a shared queue of work: a member takes a piece of the array from the queue, which a
 * lock guards, and sorts it, or if it is long divides it and puts one half back. Who has what piece
 * changes all the time, so pages wander, and pieces end anywhere in them.
 */
#include <string.h>
#include <unistd.h>

#include "cluster.h"

#define QUEUE 0 /* the lock */
#define SHORT 4096
#define MOST  1024 /* pieces in the queue */

static unsigned n = 1 << 18;

/* In shared memory. */
struct work {
	uint32_t pieces, sorted;
	struct piece {
		uint32_t from, to;
	} piece[MOST];
};

static int
compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Divides a piece: below `middle` nothing is larger than what is from there on. Both parts have
 * something. */
static uint32_t
divide(uint32_t *v, struct piece p)
{
	const uint32_t pivot = v[p.from + (p.to - p.from) / 2];
	int64_t i = (int64_t)p.from - 1, j = p.to;

	for (;;) {
		while (v[++i] < pivot)
			;
		while (v[--j] > pivot)
			;
		if (i >= j)
			return (uint32_t)j + 1;
		const uint32_t x = v[i];

		v[i] = v[j];
		v[j] = x;
	}
}

/* Takes a piece. false: there is none now; *done: nor will there be. */
static bool
take(struct cluster *c, struct work *w, struct piece *p, bool *done)
{
	must("lock", pmx_dsm_lock(c->dsm, QUEUE, 0));
	const bool got = w->pieces > 0;

	if (got)
		*p = w->piece[--w->pieces];
	*done = w->sorted == n;
	must("unlock", pmx_dsm_unlock(c->dsm, QUEUE));
	return got;
}

/* Puts a piece back, if it has one, and tells how many are in their places. false: no room. */
static bool
give(struct cluster *c, struct work *w, const struct piece *p, uint32_t sorted)
{
	must("lock", pmx_dsm_lock(c->dsm, QUEUE, 0));
	const bool room = w->pieces < MOST;

	if (p != NULL && room)
		w->piece[w->pieces++] = *p;
	w->sorted += sorted;
	must("unlock", pmx_dsm_unlock(c->dsm, QUEUE));
	return room;
}

static void
sort_piece(struct cluster *c, struct work *w, uint32_t *v, struct piece p)
{
	while (p.to - p.from > SHORT) {
		const uint32_t middle = divide(v, p);
		const struct piece upper = {middle, p.to};

		if (!give(c, w, &upper, 0))
			break;
		p.to = middle;
	}
	qsort(v + p.from, p.to - p.from, sizeof(*v), compare);
	give(c, w, NULL, p.to - p.from);
}

static void
fill(uint32_t *v)
{
	for (uint32_t i = 0; i < n; i++)
		v[i] = (i * 2654435761u) ^ (i >> 3);
}

/* Rank 0 sorts the same alone. */
static bool
is_right(const uint32_t *v, double together, unsigned processes)
{
	uint32_t *check = malloc(n * sizeof(*check));

	fill(check);
	const double start = seconds();

	qsort(check, n, sizeof(*check), compare);
	const double one = seconds() - start;
	const bool right = memcmp(v, check, n * sizeof(*check)) == 0;

	printf("sort of %u, %u processes: %.1f ms, alone %.1f ms, %.2f times as fast, %s\n", n,
		processes, together * 1e3, one * 1e3, one / together,
		right ? "the same result" : "WRONG");
	free(check);
	return right;
}

int
main(int argc, char **argv)
{
	struct cluster c;
	struct piece p;
	void *memory, *values;
	bool done = false, right = true;
	int opt;

	while ((opt = getopt(argc, argv, "n:")) != -1)
		n = (unsigned)strtoul(optarg, NULL, 10);
	const size_t bytes = n * sizeof(uint32_t);

	cluster_join(&c, argc - optind, argv + optind, "sort [-n NUMBERS]", bytes + 65536);
	must("memory", pmx_dsm_alloc(c.dsm, sizeof(struct work), 0, &memory));
	must("memory", pmx_dsm_alloc(c.dsm, bytes, PMX_DSM_BLOCKS, &values));
	struct work *w = memory;

	if (c.rank == 0) {
		fill(values);
		w->piece[w->pieces++] = (struct piece){0, n};
	}
	must("barrier", pmx_dsm_barrier(c.dsm));
	const double start = seconds();

	while (!done) {
		if (take(&c, w, &p, &done))
			sort_piece(&c, w, values, p);
	}
	must("barrier", pmx_dsm_barrier(c.dsm));
	const double together = seconds() - start;

	if (c.rank == 0) {
		must("fetch", pmx_dsm_fetch(c.dsm, values, bytes, false));
		right = is_right(values, together, c.size);
	}
	cluster_leave(&c);
	return !right;
}
