/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program as any other: what it is told by MPI must be right. Usage:
 *   mpirun -np N ofi_mpi            every case
 *   mpirun -np N ofi_mpi forever    the ring again and again
 *   mpirun -np N ofi_mpi lossy      every case, for a link that loses frames: other names
 * Prints "ok NAME" of rank 0, and the name of the message layer is no matter of this program.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static const char *way = "";

static void
check(int good, const char *what, long which)
{
	if (good)
		return;
	fprintf(stderr, "ofi_mpi: rank %d of %d: %s (%ld)\n", rank, ranks, what, which);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
done(const char *name)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("ok ofi_mpi_%d%s__%s\n", ranks, way, name);
	fflush(stdout);
}

static uint8_t
byte_of(int from, size_t len, size_t at)
{
	return (uint8_t)(from * 17 + len * 5 + at * 3 + (at >> 9));
}

/* Around the ring, every power of two and its neighbours. */
static void
ring(void)
{
	enum { LONGEST = 4 << 20 };
	uint8_t *out = malloc(LONGEST + 1), *in = malloc(LONGEST + 1);
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

	for (size_t base = 1; base <= LONGEST; base *= 2) {
		for (int off = -1; off <= 1; off++) {
			size_t len = base + (size_t)off;
			MPI_Status status;
			int got;

			for (size_t i = 0; i < len; i++)
				out[i] = byte_of(rank, len, i);
			MPI_Sendrecv(out, (int)len, MPI_BYTE, to, (int)(len % 1000), in,
				LONGEST + 1, MPI_BYTE, MPI_ANY_SOURCE, (int)(len % 1000),
				MPI_COMM_WORLD, &status);
			MPI_Get_count(&status, MPI_BYTE, &got);
			check((size_t)got == len && status.MPI_SOURCE == from, "another message",
				got);
			for (size_t i = 0; i < len; i++)
				check(in[i] == byte_of(from, len, i), "a wrong byte", (long)i);
		}
	}
	free(out);
	free(in);
	done("ring");
}

/* All begin to send before any receives, long messages first; the short ones are received first. */
static void
flood(void)
{
	enum { SHORT = 2000, LONG = 50, LEN = 1 << 20 };
	uint8_t *bulk = malloc(LEN), *in = malloc(LEN);
	static int values[SHORT], got[SHORT];
	MPI_Request *all = malloc((size_t)ranks * (SHORT + LONG) * sizeof(*all));
	int n = 0;

	memset(bulk, rank + 1, LEN);
	for (int i = 0; i < SHORT; i++)
		values[i] = rank * SHORT + i;
	for (int peer = 0; peer < ranks; peer++) {
		for (int i = 0; i < LONG && peer != rank; i++)
			MPI_Isend(bulk, LEN, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &all[n++]);
		for (int i = 0; i < SHORT && peer != rank; i++)
			MPI_Isend(&values[i], 1, MPI_INT, peer, 8, MPI_COMM_WORLD, &all[n++]);
	}
	for (int peer = 0; peer < ranks; peer++) {
		if (peer == rank)
			continue;
		for (int i = 0; i < SHORT; i++)
			MPI_Recv(&got[i], 1, MPI_INT, peer, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < SHORT; i++)
			check(got[i] == peer * SHORT + i, "short messages out of order", i);
		for (int i = 0; i < LONG; i++) {
			MPI_Recv(in, LEN, MPI_BYTE, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(in[0] == peer + 1 && in[LEN - 1] == peer + 1, "a wrong long message",
				i);
		}
	}
	MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
	free(all);
	free(bulk);
	free(in);
	done("flood");
}

static void
collectives(void)
{
	static long out[1000], in[64 * 1000];

	for (int turn = 0; turn < 50; turn++) {
		long sum = 0, most = rank * 10 + turn, value = turn;

		MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
		check(most == (ranks - 1) * 10 + turn, "MPI_Allreduce", most);
		MPI_Reduce(&value, &sum, 1, MPI_LONG, MPI_SUM, turn % ranks, MPI_COMM_WORLD);
		check(rank != turn % ranks || sum == (long)turn * ranks, "MPI_Reduce", sum);
		value = rank == turn % ranks ? 4711 + turn : 0;
		MPI_Bcast(&value, 1, MPI_LONG, turn % ranks, MPI_COMM_WORLD);
		check(value == 4711 + turn, "MPI_Bcast", value);
		for (int i = 0; i < 1000; i++)
			out[i] = rank * 100000 + i;
		MPI_Allgather(out, 1000, MPI_LONG, in, 1000, MPI_LONG, MPI_COMM_WORLD);
		for (int i = 0; i < ranks * 1000; i++)
			check(in[i] == i / 1000 * 100000 + i % 1000, "MPI_Allgather", i);
		for (int i = 0; i < ranks; i++)
			out[i] = rank * 100 + i;
		MPI_Alltoall(out, 1, MPI_LONG, in, 1, MPI_LONG, MPI_COMM_WORLD);
		for (int i = 0; i < ranks; i++)
			check(in[i] == i * 100 + rank, "MPI_Alltoall", i);
	}
	done("collectives");
}

/* Probes, wildcards, communicators that do not mix, a cancelled receive, synchronous sends. */
static void
rest(void)
{
	MPI_Comm other;
	MPI_Request request;
	MPI_Status status;
	int value = rank, got = -1, flag, count;

	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Isend(&value, 1, MPI_INT, 0, 1, other, &request);
	if (rank == 0) {
		for (int i = 0; i < ranks; i++) {
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
			check(!flag, "a message of another communicator", i);
			MPI_Probe(MPI_ANY_SOURCE, 1, other, &status);
			MPI_Get_count(&status, MPI_INT, &count);
			check(count == 1 && status.MPI_TAG == 1, "MPI_Probe", count);
			MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 1, other, &status);
			check(got == status.MPI_SOURCE, "another rank's message", got);
		}
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 99, other, &request);
	MPI_Cancel(&request);
	MPI_Wait(&request, &status);
	MPI_Test_cancelled(&status, &flag);
	check(flag, "MPI_Cancel", flag);
	MPI_Irecv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 5, other, &request);
	MPI_Ssend(&value, 1, MPI_INT, (rank + 1) % ranks, 5, other);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	check(got == (rank + ranks - 1) % ranks, "MPI_Ssend", got);
	MPI_Comm_free(&other);
	done("probe_cancel_ssend");
}

/* One-sided: sums by all at all, puts, gets, swaps that only one of all can win. */
static void
one_sided(void)
{
	enum { LEN = 30000, FIRST = 100, TURNS = 300 };
	static long memory[2 * LEN + FIRST], out[LEN], in[LEN];
	const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	long one = 1, was, sum = 0, won = 0, zero = 0, mine = rank + 1;
	MPI_Win window;

	MPI_Win_create(memory, sizeof(memory), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
		&window);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < TURNS; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_LONG, i % ranks, 0, MPI_SUM, window);
		MPI_Win_flush(i % ranks, window);
	}
	/* osc/rdma of Open MPI 4.1.4 gives btl/ofi no handle of the remote memory for it, and
	 * crashes, over every provider */
	was = rank;
	if (strcmp(way, "_rma") != 0) {
		MPI_Compare_and_swap(&mine, &zero, &was, MPI_LONG, 0, 1, window);
		MPI_Win_flush(0, window);
	}
	won = was == 0;
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	sum = memory[0];
	MPI_Win_unlock(rank, window);
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, &won, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	check(sum == (long)TURNS * ranks, "MPI_Fetch_and_op", sum);
	check(won == 1, "MPI_Compare_and_swap", won);
	for (int i = 0; i < LEN; i++)
		out[i] = rank * 1000000 + i;
	for (long len = 1; len <= LEN; len = len * 5 + 1) {
		MPI_Win_fence(0, window);
		MPI_Put(out, (int)len, MPI_LONG, next, FIRST, (int)len, MPI_LONG, window);
		MPI_Win_fence(0, window);
		for (long i = 0; i < len; i++)
			check(memory[FIRST + i] == before * 1000000 + i, "MPI_Put", i);
		MPI_Get(in, (int)len, MPI_LONG, next, FIRST, (int)len, MPI_LONG, window);
		MPI_Win_fence(0, window);
		for (long i = 0; i < len; i++)
			check(in[i] == rank * 1000000 + i, "MPI_Get", i);
	}
	MPI_Win_fence(0, window);
	MPI_Accumulate(out, 1000, MPI_LONG, 0, FIRST + LEN, 1000, MPI_LONG, MPI_SUM, window);
	MPI_Win_fence(0, window);
	for (long i = 0; rank == 0 && i < 1000; i++)
		check(memory[FIRST + LEN + i] == ranks * (ranks - 1) / 2 * 1000000l + ranks * i,
			"MPI_Accumulate", i);
	MPI_Win_free(&window);
	done("one_sided");
}

int
main(int argc, char **argv)
{
	bool forever = argc > 1 && strcmp(argv[1], "forever") == 0;

	if (argc > 1 && !forever)
		way = argv[1];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	do
		ring();
	while (forever);
	flood();
	collectives();
	rest();
	one_sided();
	MPI_Finalize();
	return 0;
}
