/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The same search as pmx-perf unexpected, in an MPI library: N messages of 8 bytes wait, the
 * youngest is probed for, by its key and from any source; then all are received in reverse. ns. Two
 * ranks; mpi_match.sh compiles and runs it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WANTS 2

static double
probe_ns(int n, int source, MPI_Comm comm)
{
	int times = n < 1000 ? 1000 : n < 20000 ? 50 : 5, found;
	double best = 1e18;
	MPI_Status status;

	for (int turn = 0; turn < 9; turn++) {
		double start = MPI_Wtime();

		for (int i = 0; i < times; i++) {
			MPI_Iprobe(source, n - 1, comm, &found, &status);
			if (!found)
				return -1;
		}
		double ns = (MPI_Wtime() - start) * 1e9 / times;

		best = ns < best ? ns : best;
	}
	return best;
}

static void
row(const char *name, int n, int rank, MPI_Comm marks)
{
	long word = 7;
	int mark = 0, found;

	if (rank == 1) {
		for (int i = 0; i < n; i++)
			MPI_Send(&word, 8, MPI_BYTE, 0, i, MPI_COMM_WORLD);
		MPI_Send(&mark, 1, MPI_INT, 0, 1, marks);
		MPI_Recv(&mark, 1, MPI_INT, 0, 2, marks, MPI_STATUS_IGNORE);
		return;
	}
	double best = 1e18;

	for (int turn = 0; turn < 9; turn++) { /* nobody sends with that tag */
		double start = MPI_Wtime();

		for (int i = 0; i < 1000; i++)
			MPI_Iprobe(1, 32000, marks, &found, MPI_STATUS_IGNORE);
		best = MPI_Wtime() - start < best ? MPI_Wtime() - start : best;
	}
	MPI_Recv(&mark, 1, MPI_INT, 1, 1, marks, MPI_STATUS_IGNORE);
	double exact = probe_ns(n, 1, MPI_COMM_WORLD),
	       any = probe_ns(n, MPI_ANY_SOURCE, MPI_COMM_WORLD);
	double start = MPI_Wtime();

	for (int i = n; i-- > 0;)
		MPI_Recv(&word, 8, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	double reverse = (MPI_Wtime() - start) * 1e9 / n;

	printf("%-18s %8d %9.1f %11.1f %11.1f %11.1f\n", name, n, best * 1e6, exact, any, reverse);
	fflush(stdout);
	MPI_Send(&mark, 1, MPI_INT, 1, 2, marks);
}

int
main(int argc, char **argv)
{
	static const int depths[] = {1, 10, 100, 1000, 4096, 10000, 32768, 100000};
	int rank, most = argc > 2 ? atoi(argv[2]) : 100000;
	MPI_Comm marks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &marks);
	for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]) && depths[i] <= most; i++)
		row(argc > 1 ? argv[1] : "mpi", depths[i], rank, marks);
	MPI_Finalize();
	return 0;
}
