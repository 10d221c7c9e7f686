/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a program's step takes that consists of a collective and a barrier, from beginning to end:
 * unlike a collective's own time, which is short where a slow barrier has let its ranks go one
 * after the other. Prints a line for each: kind, bytes of a block, microseconds of a step.
 *
 * Usage: mpirun -np N loops TIMES BYTES...
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char *in, *out;

static void
nothing(int n)
{
	(void)n;
}

static void
bcast(int n)
{
	MPI_Bcast(in, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void
gather(int n)
{
	MPI_Gather(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void
scatter(int n)
{
	MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void
allgather(int n)
{
	MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
}

static void
alltoall(int n)
{
	MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
}

static void
reduce(int n)
{
	MPI_Reduce(in, out, n / 4, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void
allreduce(int n)
{
	MPI_Allreduce(in, out, n / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void
reduce_scatter(int n)
{
	MPI_Reduce_scatter_block(in, out, n / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* The microseconds of a step. */
static double
step_us(void (*collective)(int), int bytes, int times)
{
	double begin = 0;

	for (int i = -times / 10 - 2; i < times; i++) {
		if (i == 0)
			begin = MPI_Wtime();
		collective(bytes);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - begin) * 1e6 / times;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*collective)(int);
	} kinds[] = {{"bcast", bcast}, {"gather", gather}, {"scatter", scatter},
		{"allgather", allgather}, {"alltoall", alltoall}, {"reduce", reduce},
		{"allreduce", allreduce}, {"reduce_scatter", reduce_scatter}};
	const int times = argc > 2 ? atoi(argv[1]) : 0;
	int most = 1, rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 2; i < argc; i++)
		most = atoi(argv[i]) > most ? atoi(argv[i]) : most;
	in = calloc((size_t)ranks, (size_t)most);
	out = calloc((size_t)ranks, (size_t)most);
	if (times < 1 || in == NULL || out == NULL) {
		fprintf(stderr, "usage: loops TIMES BYTES...\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	const double barrier = step_us(nothing, 0, times);

	if (rank == 0)
		printf("barrier 0 %.2f\n", barrier);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (int i = 2; i < argc; i++) {
			const int bytes = atoi(argv[i]);
			const double us = step_us(kinds[k].collective, bytes,
				bytes < 65536 ? times : times / 5 + 1);

			if (rank == 0)
				printf("%s %d %.2f\n", kinds[k].name, bytes, us);
		}
	}
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
