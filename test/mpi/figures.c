/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Figures of MPI between ranks 0 and 1: half a round trip of 8 B to 1 MiB, the rate of 8 bytes in
 * windows of 64, and the bandwidth of 64 KiB and 1 MiB in windows of 8. Each is measured twice, and
 * the second time counts. Every byte is checked once. Prints a line for each: name, figure, unit.
 * The other ranks wait.
 *
 * Usage: mpirun -np 2 figures [TIMES], a factor for all repetitions (1)
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST   (1 << 20)
#define WINDOW 64

static int rank;
static unsigned char *mine, *theirs;
static double factor = 1;

static unsigned char
byte_of(int from, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + (size_t)from);
}

/* Exchanges one message of that size, and ends the job if a byte is wrong. */
static void
check(size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(rank, i);
	memset(theirs, 0, bytes);
	MPI_Sendrecv(mine, (int)bytes, MPI_BYTE, !rank, 1, theirs, (int)bytes, MPI_BYTE, !rank, 1,
		MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < bytes; i++) {
		if (theirs[i] == byte_of(!rank, i))
			continue;
		fprintf(stderr, "figures: byte %zu of %zu is wrong\n", i, bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void
ping_pong(int bytes, int times)
{
	for (int i = 0; i < times; i++) {
		if (rank == 0)
			MPI_Send(mine, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(theirs, bytes, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(mine, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
}

/* Messages from rank 0 to rank 1, `window` at once, then an answer. */
static void
stream(int bytes, int window, int times)
{
	MPI_Request requests[WINDOW];

	for (int i = 0; i < times; i++) {
		for (int k = 0; k < window; k++) {
			if (rank == 0)
				MPI_Isend(mine, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
					&requests[k]);
			else
				MPI_Irecv(theirs + (size_t)k * (size_t)bytes, bytes, MPI_BYTE, 0, 0,
					MPI_COMM_WORLD, &requests[k]);
		}
		MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(theirs, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(mine, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
	}
}

/* The seconds that it takes to do it so often. */
static double
seconds(int bytes, int window, int times)
{
	double begin = 0;

	for (int turn = 0; turn < 2; turn++) {
		begin = MPI_Wtime();
		if (window == 0)
			ping_pong(bytes, times);
		else
			stream(bytes, window, times);
	}
	return MPI_Wtime() - begin;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name, *unit;
		int bytes, window, times;
		double scale; /* of the seconds of one; negative: of how many in a second */
	} figures[] = {
		{"latency_8", "us", 8, 0, 10000, 0.5e6},
		{"latency_1024", "us", 1024, 0, 10000, 0.5e6},
		{"latency_65536", "us", 65536, 0, 2000, 0.5e6},
		{"latency_1048576", "us", 1048576, 0, 200, 0.5e6},
		{"rate_8", "M/s", 8, 64, 1000, -64e-6},
		{"bandwidth_65536", "MB/s", 65536, 8, 500, -8 * 65536e-6},
		{"bandwidth_1048576", "MB/s", 1048576, 8, 50, -8 * 1048576e-6},
	};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc > 1)
		factor = atof(argv[1]);
	mine = malloc(MOST);
	theirs = malloc(8 * MOST);
	if (mine == NULL || theirs == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	memset(mine, 1, MOST);
	memset(theirs, 1, 8 * MOST);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]) && rank < 2; i++) {
		int times = (int)(figures[i].times * factor) + 1;

		check((size_t)figures[i].bytes);
		double each = seconds(figures[i].bytes, figures[i].window, times) / times;

		if (rank == 0)
			printf("%s %.3f %s\n", figures[i].name,
				figures[i].scale > 0 ? each * figures[i].scale
						     : -figures[i].scale / each,
				figures[i].unit);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	free(mine);
	free(theirs);
	MPI_Finalize();
	return 0;
}
