/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What MPI programs do beside answering each other; each is measured, and a line printed for each
 * figure: name, figure, unit (host.sh makes a table of them).
 *
 * Usage: mpirun -np N shapes WHAT
 *   meet             a barrier, that is all
 *   collectives      barrier and alltoall of 8 B to 64 KiB, microseconds a call
 *   remote           messages of 8 bytes, half a round trip, and put, get, fetch-and-op and
 *                    compare-and-swap of 8 bytes, each with its flush; ranks 0 and 1, microseconds
 *   waiting N        N receives from any source wait at rank 1, and are met from the last one on:
 *                    microseconds a message
 *   flood LONG SHORT ranks 0 and 1 post so many messages of 1 MiB and of 8 bytes to each other
 *                    before any receive: seconds
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_BYTES (1 << 20)

static int rank, ranks;

static void *
must(void *p)
{
	if (p == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return p;
}

static void
right(int is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "shapes: rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
say(const char *name, double figure, const char *unit)
{
	if (rank == 0)
		printf("%s %.3f %s\n", name, figure, unit);
}

/* ------------------------------------------------------------------ all of them together */

static void
collectives(void)
{
	static const int sizes[] = {8, 1024, 16384, 65536};
	const int times = 300;
	unsigned char *out = must(malloc((size_t)ranks << 16)),
		      *in = must(malloc((size_t)ranks << 16));
	double begin = 0;

	for (int turn = 0; turn < 2; turn++) {
		begin = MPI_Wtime();
		for (int i = 0; i < times; i++)
			MPI_Barrier(MPI_COMM_WORLD);
	}
	say("barrier", (MPI_Wtime() - begin) * 1e6 / times, "us");
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		char name[32];

		for (int to = 0; to < ranks; to++)
			memset(out + (size_t)to * (size_t)sizes[s], rank * 16 + to,
				(size_t)sizes[s]);
		for (int turn = 0; turn < 2; turn++) {
			MPI_Barrier(MPI_COMM_WORLD);
			begin = MPI_Wtime();
			for (int i = 0; i < times; i++)
				MPI_Alltoall(out, sizes[s], MPI_BYTE, in, sizes[s], MPI_BYTE,
					MPI_COMM_WORLD);
		}
		double took = MPI_Wtime() - begin;

		for (size_t i = 0; i < (size_t)ranks * (size_t)sizes[s]; i++)
			right(in[i] == (unsigned char)(i / (size_t)sizes[s] * 16 + (size_t)rank),
				"a byte of the alltoall is wrong");
		snprintf(name, sizeof(name), "alltoall_%d", sizes[s]);
		say(name, took * 1e6 / times, "us");
	}
	free(out);
	free(in);
}

/* ------------------------------------------------------------------ one-sided */

enum { PUT, GET, FETCH, SWAP };

static void
one(MPI_Win win, int what, uint64_t *mine, uint64_t *found)
{
	static uint64_t expected;

	switch (what) {
	case PUT:
		MPI_Put(mine, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, win);
		break;
	case GET:
		MPI_Get(found, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, win);
		break;
	case FETCH:
		MPI_Fetch_and_op(mine, found, MPI_UINT64_T, 1, 1, MPI_SUM, win);
		break;
	case SWAP:
		MPI_Compare_and_swap(mine, &expected, found, MPI_UINT64_T, 1, 2, win);
		break;
	}
	MPI_Win_flush(1, win);
}

static void
remote(void)
{
	static const char *const names[] = {"put_8", "get_8", "fetch_and_op_8",
		"compare_and_swap_8"};
	const int times = 3000;
	uint64_t *memory, mine = 1, found = 0;
	double begin = 0;
	MPI_Win win;

	for (int turn = 0; turn < 2 && rank < 2; turn++) {
		begin = MPI_Wtime();
		for (int i = 0; i < times; i++) {
			if (rank == 0)
				MPI_Send(&mine, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(&found, 8, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (rank == 1)
				MPI_Send(&mine, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
	}
	say("message_8", (MPI_Wtime() - begin) * 0.5e6 / times, "us");
	memory = must(calloc(1, 4096));
	/* not of MPI_Win_allocate, with which Open MPI's compare-and-swap by btl/ofi crashes */
	MPI_Win_create(memory, 4096, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int what = PUT; what <= SWAP; what++) {
		for (int turn = 0; turn < 2 && rank == 0; turn++) {
			begin = MPI_Wtime();
			for (int i = 0; i < times; i++)
				one(win, what, &mine, &found);
		}
		say(names[what], (MPI_Wtime() - begin) * 1e6 / times, "us");
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	right(rank != 1 || (memory[0] == 1 && memory[1] == (uint64_t)2 * times && memory[2] == 1),
		"the window holds other numbers");
	MPI_Win_free(&win);
	free(memory);
}

/* ------------------------------------------------------------------ what waits */

static void
waiting(int n)
{
	MPI_Request *requests = must(malloc((size_t)n * sizeof(MPI_Request)));
	uint64_t *to = must(malloc((size_t)n * 8));
	double begin;

	for (int i = 0; i < n; i++) {
		if (rank == 1)
			MPI_Irecv(&to[i], 8, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
				&requests[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	for (int i = n; i-- > 0;) {
		uint64_t value = (uint64_t)i;

		if (rank == 0)
			MPI_Send(&value, 8, MPI_BYTE, 1, i, MPI_COMM_WORLD);
	}
	if (rank == 1)
		MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < n && rank == 1; i++)
		right(to[i] == (uint64_t)i, "a receive has another one's bytes");
	MPI_Barrier(MPI_COMM_WORLD);
	say("waiting", (MPI_Wtime() - begin) * 1e6 / n, "us");
	free(requests);
	free(to);
}

static void
flood(int longs, int shorts)
{
	MPI_Request *requests = must(malloc((size_t)(longs + shorts) * sizeof(MPI_Request)));
	unsigned char *out = must(malloc(LONG_BYTES)), *in = must(malloc(LONG_BYTES));
	double begin = MPI_Wtime();
	uint64_t value;

	memset(out, rank + 1, LONG_BYTES);
	for (int i = 0; i < longs; i++)
		MPI_Isend(out, LONG_BYTES, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < shorts; i++)
		MPI_Isend(out, 8, MPI_BYTE, !rank, 2, MPI_COMM_WORLD, &requests[longs + i]);
	for (int i = 0; i < shorts; i++)
		MPI_Recv(&value, 8, MPI_BYTE, !rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < longs; i++) {
		MPI_Recv(in, LONG_BYTES, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		right(in[0] == !rank + 1 && in[LONG_BYTES - 1] == !rank + 1,
			"bytes of the flood are wrong");
	}
	MPI_Waitall(longs + shorts, requests, MPI_STATUSES_IGNORE);
	say("flood", MPI_Wtime() - begin, "s");
	free(requests);
	free(out);
	free(in);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (strcmp(what, "collectives") == 0)
		collectives();
	else if (strcmp(what, "remote") == 0)
		remote();
	else if (strcmp(what, "waiting") == 0 && argc > 2)
		waiting(atoi(argv[2]));
	else if (strcmp(what, "flood") == 0 && argc > 3)
		flood(atoi(argv[2]), atoi(argv[3]));
	else
		right(strcmp(what, "meet") == 0,
			"usage: meet | collectives | remote | waiting N | flood LONG SHORT");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
