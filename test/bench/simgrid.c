/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One collective as an MPI library does it, for SimGrid's SMPI (simgrid.sh): KIND BYTES. Bytes are
 * of each rank's block, or of the vector. Prints how long the second one takes, ms of virtual time,
 * until the last rank is through.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
collective(const char *kind, const char *in, char *out, int bytes)
{
	const MPI_Comm all = MPI_COMM_WORLD;

	if (strcmp(kind, "gather") == 0)
		MPI_Gather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, all);
	else if (strcmp(kind, "scatter") == 0)
		MPI_Scatter(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, all);
	else if (strcmp(kind, "bcast") == 0)
		MPI_Bcast(out, bytes, MPI_BYTE, 0, all);
	else if (strcmp(kind, "reduce") == 0)
		MPI_Reduce(in, out, bytes, MPI_CHAR, MPI_SUM, 0, all);
	else if (strcmp(kind, "allgather") == 0)
		MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, all);
	else if (strcmp(kind, "alltoall") == 0)
		MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, all);
	else if (strcmp(kind, "allreduce") == 0)
		MPI_Allreduce(in, out, bytes, MPI_CHAR, MPI_SUM, all);
	else if (strcmp(kind, "reduce_scatter") == 0)
		MPI_Reduce_scatter_block(in, out, bytes, MPI_CHAR, MPI_SUM, all);
	else
		MPI_Barrier(all);
}

int
main(int argc, char **argv)
{
	int rank, ranks;
	double begin, took, most;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	const int bytes = atoi(argv[2]);
	char *in = calloc((size_t)ranks, (size_t)bytes + 1);
	char *out = calloc((size_t)ranks, (size_t)bytes + 1);

	for (unsigned i = 0; i < 2; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		begin = MPI_Wtime();
		collective(argv[1], in, out, bytes);
		took = MPI_Wtime() - begin;
	}
	MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("took %.6f\n", most * 1e3);
	MPI_Finalize();
	return 0;
}
