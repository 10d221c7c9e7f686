/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Locks and barriers of Open SHMEM, as pmx-perf group measures those of groups: a lock that nobody
 * else wants, and its release; one that all want all the time, from one holder to the next; a
 * barrier of all. Medians of some repetitions, in ns.
 * Usage: oshrun -n PROCESSES shmem_lock [COUNT]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPETITIONS 9

static long lock_alone, lock_wanted; /* symmetric */

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void
barriers(long count)
{
	for (long i = 0; i < count; i++)
		shmem_barrier_all();
}

static void
locks(long *lock, long count)
{
	for (long i = 0; i < count; i++) {
		shmem_set_lock(lock);
		shmem_clear_lock(lock);
	}
}

static int
compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
	const long count = argc > 1 ? atol(argv[1]) : 5000;
	double barrier[REPETITIONS], single[REPETITIONS], wanted[REPETITIONS];

	shmem_init();
	const int me = shmem_my_pe(), all = shmem_n_pes();

	for (int i = 0; i < REPETITIONS; i++) {
		shmem_barrier_all();
		double start = now_ns();

		barriers(count);
		barrier[i] = (now_ns() - start) / (double)count;
		start = now_ns();
		if (me == all - 1)
			locks(&lock_alone, count);
		single[i] = (now_ns() - start) / (double)count;
		shmem_barrier_all();
		start = now_ns();
		locks(&lock_wanted, count);
		shmem_barrier_all();
		wanted[i] = (now_ns() - start) / (double)count / all;
	}
	if (me == all - 1) {
		qsort(barrier, REPETITIONS, sizeof(double), compare);
		qsort(single, REPETITIONS, sizeof(double), compare);
		qsort(wanted, REPETITIONS, sizeof(double), compare);
		printf("shmem %d barrier %.0f free %.0f hand-over %.0f\n", all,
			barrier[REPETITIONS / 2], single[REPETITIONS / 2], wanted[REPETITIONS / 2]);
	}
	shmem_finalize();
	return 0;
}
