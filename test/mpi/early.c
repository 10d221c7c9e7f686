/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Things that MPI lets a program free while a nonblocking collective uses them, and programs that
 * end with communicators that were never used, or never freed.
 *
 * Usage: mpirun -np N early types | comms | nothing | unused | self
 *   types    a type with gaps is freed as soon as MPI_Ibcast has begun
 *   comms    a communicator is freed as soon as MPI_Iallreduce has begun on it
 *   nothing  MPI_Init() and MPI_Finalize()
 *   unused   communicators are made and no collective is called
 *   self     collectives on MPI_COMM_WORLD, MPI_COMM_SELF and a copy that is not freed
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 200
#define COUNT 102 /* elements of a type: each other int */

static int rank, size;

static void
must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "early: rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
free_types(void)
{
	int data[2 * COUNT];

	for (int k = 0; k < TIMES; k++) {
		MPI_Datatype type;
		MPI_Request r;

		for (int i = 0; i < 2 * COUNT; i++)
			data[i] = rank == k % size ? k + i : -1;
		MPI_Type_vector(COUNT, 1, 2, MPI_INT, &type);
		MPI_Type_commit(&type);
		MPI_Ibcast(data, 1, type, k % size, MPI_COMM_WORLD, &r);
		MPI_Type_free(&type);
		/* another one may get its handle */
		MPI_Type_vector(2, 1, 5, MPI_CHAR, &type);
		MPI_Type_commit(&type);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		MPI_Type_free(&type);
		for (int i = 0; i < 2 * COUNT; i += 2)
			must(data[i] == k + i, "an int of a freed type is wrong");
		for (int i = 1; rank != k % size && i < 2 * COUNT - 1; i += 2)
			must(data[i] == -1, "a gap was written");
	}
}

static void
free_comms(void)
{
	for (int k = 0; k < 8; k++) {
		int mine = rank + k, sum = 0;
		MPI_Comm c;
		MPI_Request r;

		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Barrier(c);
		MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, c, &r);
		MPI_Comm_free(&c);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		must(sum == size * k + size * (size - 1) / 2, "the sum of a freed communicator");
	}
}

static void
use_self(void)
{
	int mine = rank, sum = 0;
	MPI_Comm c;

	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	must(sum == size * (size - 1) / 2, "the sum of all");
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	must(sum == rank, "the sum of one");
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Barrier(c);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	MPI_Comm unused[2];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (strcmp(what, "types") == 0) {
		MPI_Barrier(MPI_COMM_WORLD);
		free_types();
	} else if (strcmp(what, "comms") == 0) {
		free_comms();
	} else if (strcmp(what, "self") == 0) {
		use_self();
	} else if (strcmp(what, "unused") == 0) {
		MPI_Comm_dup(MPI_COMM_WORLD, &unused[0]);
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &unused[1]);
	} else if (strcmp(what, "nothing") != 0) {
		fputs("usage: early types | comms | nothing | unused | self\n", stderr);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Finalize();
	printf("early: rank %d is through\n", rank);
	return 0;
}
