/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Corners of MPI's collectives: what a program may free while a nonblocking one uses it, how it may
 * end, who else calls them than C of one thread, what it may ask for in error, and what is long.
 *
 * Usage: mpirun -np N corners WHAT [BYTES]
 *   types    a type with gaps is freed as soon as MPI_Ibcast has begun
 *   comms    a communicator is freed as soon as MPI_Iallreduce has begun on it
 *   nothing  MPI_Init() and MPI_Finalize()
 *   unused   communicators are made and no collective is called
 *   self     collectives on MPI_COMM_WORLD, MPI_COMM_SELF and a copy that is not freed
 *   fortran  collectives by the names that Fortran's compilers call
 *   errors   arguments in error return, as the communicator's error handler asks
 *   threads  four threads with MPI_THREAD_MULTIPLE, each with a communicator of its own
 *   orders   nonblocking collectives of many communicators, begun in another order by each rank
 *   idup     communicators copied by MPI_Comm_idup() while collectives go on
 *   held     a communicator that one rank has freed while a receive of another's holds it
 *   many     more communicators, one after the other, than limits.groups
 *   matched  synchronous sends that MPI_Mprobe() finds, many that wait for their receives, messages
 *            that are cut, cancelled, and a rank's own
 *   big      a message of BYTES from each rank to the next
 *   long     an allgather of BYTES a rank, a reduce_scatter_block in place of BYTES in all, and a
 *            broadcast of one element of BYTES
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 200
#define COUNT 102 /* elements of a type: each other int */

static int rank, size, provided;
static size_t bytes; /* a multiple of 4096 */

static void
must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "corners: rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
free_types(void)
{
	int data[2 * COUNT];

	MPI_Barrier(MPI_COMM_WORLD);
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
		long mine = rank + k, sum = 0;
		MPI_Comm c;
		MPI_Request r;

		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Barrier(c);
		MPI_Iallreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, c, &r);
		MPI_Comm_free(&c);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		must(sum == size * k + size * (size - 1) / 2, "the sum of a freed communicator");
	}
}

static void
leave_unused(void)
{
	MPI_Comm unused[2];

	MPI_Comm_dup(MPI_COMM_WORLD, &unused[0]);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &unused[1]);
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

/* ------------------------------------------------------------------ who calls */

/* These are the names that compilers of Fortran call, with all arguments by reference and an error
 * at the end. */
void mpi_allreduce_(const void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
	const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *error);
void mpi_ibarrier_(const MPI_Fint *comm, MPI_Fint *request, MPI_Fint *error);
void mpi_wait_(MPI_Fint *request, MPI_Fint *status, MPI_Fint *error);

static void
call_as_fortran(void)
{
	const MPI_Fint comm = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_INTEGER);
	const MPI_Fint op = MPI_Op_c2f(MPI_SUM), one = 1;
	MPI_Fint mine = rank, sum = 0, error = -1, request;

	for (int k = 0; k < 100; k++) {
		mpi_allreduce_(&mine, &sum, &one, &type, &op, &comm, &error);
		must(error == MPI_SUCCESS && sum == size * (size - 1) / 2, "Fortran's sum");
	}
	mpi_ibarrier_(&comm, &request, &error);
	must(error == MPI_SUCCESS, "Fortran's barrier");
	mpi_wait_(&request, MPI_F_STATUS_IGNORE, &error);
	must(error == MPI_SUCCESS, "Fortran's wait");
}

static void *
thread_calls(void *arg)
{
	const MPI_Comm c = *(const MPI_Comm *)arg;

	for (int k = 0; k < 500; k++) {
		int mine = rank + k, sum = 0, all[64];
		long own = mine, late = 0;
		MPI_Request r;

		MPI_Iallreduce(&own, &late, 1, MPI_LONG, MPI_MAX, c, &r);
		MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, c);
		must(sum == size * k + size * (size - 1) / 2, "a thread's sum");
		MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, c);
		for (int i = 0; i < size; i++)
			must(all[i] == i + k, "what a thread gathers");
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		must(late == size - 1 + k, "a thread's greatest");
	}
	return NULL;
}

static void
use_threads(void)
{
	pthread_t threads[4];
	MPI_Comm comms[4];

	must(provided == MPI_THREAD_MULTIPLE, "no MPI_THREAD_MULTIPLE");
	must(size <= 64, "too many ranks");
	for (int i = 0; i < 4; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < 4; i++)
		must(pthread_create(&threads[i], NULL, thread_calls, &comms[i]) == 0, "no thread");
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		MPI_Comm_free(&comms[i]);
	}
}

/* ------------------------------------------------------------------ errors and limits */

static void
make_errors(void)
{
	int x = 0, class = MPI_SUCCESS;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Error_class(MPI_Bcast(&x, 1, MPI_INT, 99, MPI_COMM_WORLD), &class);
	must(class == MPI_ERR_ROOT, "a root that is none");
	MPI_Error_class(MPI_Bcast(&x, -1, MPI_INT, 0, MPI_COMM_WORLD), &class);
	must(class == MPI_ERR_COUNT, "a count that is none");
	MPI_Error_class(MPI_Gather(&x, 1, MPI_INT, NULL, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF),
		&class);
	must(class == MPI_ERR_TYPE, "a type that is none");
	MPI_Barrier(MPI_COMM_WORLD);
}

static void
begin_in_orders(void)
{
	enum { COMMS = 20, DEEP = 5 };
	MPI_Comm comms[COMMS];
	MPI_Request requests[COMMS * DEEP];
	long mine[COMMS * DEEP], sums[COMMS * DEEP];

	for (int i = 0; i < COMMS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		MPI_Barrier(comms[i]);
	}
	for (int i = 0; i < COMMS; i++) {
		const int c = rank % 2 ? COMMS - 1 - i : (i + rank) % COMMS;

		for (int k = 0; k < DEEP; k++) {
			mine[c * DEEP + k] = rank + c * k;
			MPI_Iallreduce(&mine[c * DEEP + k], &sums[c * DEEP + k], 1, MPI_LONG,
				MPI_SUM, comms[c], &requests[c * DEEP + k]);
		}
	}
	/* this one waits for its turn behind the others of its communicator */
	MPI_Barrier(comms[0]);
	MPI_Waitall(COMMS * DEEP, requests, MPI_STATUSES_IGNORE);
	for (int c = 0; c < COMMS; c++) {
		for (int k = 0; k < DEEP; k++)
			must(sums[c * DEEP + k] == size * c * k + size * (size - 1) / 2,
				"the sum of one of many orders");
		MPI_Comm_free(&comms[c]);
	}
}

static void
copy_meanwhile(void)
{
	for (int k = 0; k < 100; k++) {
		int mine = k + rank, most = -1;
		MPI_Comm copy;
		MPI_Request r;

		if (rank % 2 && k % 3 == 0)
			MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &most, MPI_STATUS_IGNORE);
		MPI_Comm_idup(MPI_COMM_WORLD, &copy, &r);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
		must(most == k + size - 1, "the greatest while a communicator is copied");
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MIN, copy);
		must(most == k, "the least of a copy");
		MPI_Comm_free(&copy);
	}
}

static void
hold_freed(void)
{
	for (int k = 0; k < 20; k++) {
		MPI_Comm held, next;
		MPI_Request r = MPI_REQUEST_NULL;
		int got = -1;

		MPI_Comm_dup(MPI_COMM_WORLD, &held);
		MPI_Comm_dup(MPI_COMM_WORLD, &next);
		MPI_Barrier(held);
		if (rank == size - 1)
			MPI_Irecv(&got, 1, MPI_INT, 0, 5, held, &r);
		if (rank == 0)
			MPI_Send(&k, 1, MPI_INT, size - 1, 5, held);
		MPI_Comm_free(&held);
		MPI_Barrier(next);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		must(rank != size - 1 || got == k, "what came by a freed communicator");
		MPI_Comm_free(&next);
	}
}

static void
make_many(void)
{
	for (int k = 0; k < 200; k++) {
		int mine = rank, sum = 0;
		MPI_Comm c;

		MPI_Comm_split(MPI_COMM_WORLD, k % 3 == 0 ? rank % 2 : 0, rank, &c);
		MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, c);
		must(k % 3 == 0 || sum == size * (size - 1) / 2, "the sum of one of many");
		MPI_Comm_free(&c);
	}
}

static signed char
byte_of(int of, size_t i)
{
	return (signed char)((i * 31 + i / 4093 + (size_t)of * 7) % 61);
}

static void
make_long(void)
{
	const size_t part = bytes / (size_t)size;
	signed char *mine = malloc(bytes), *all = malloc(bytes * (size_t)size);
	MPI_Datatype half, type;

	must(mine != NULL && all != NULL, "out of memory");
	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(rank, i);
	MPI_Type_contiguous((int)(bytes / 4096), MPI_SIGNED_CHAR, &half);
	MPI_Type_contiguous(4096, half, &type);
	MPI_Type_commit(&type);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Allgather(mine, 1, type, all, 1, type, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		for (size_t i = 0; i < bytes; i++)
			must(all[(size_t)r * bytes + i] == byte_of(r, i), "what is gathered");
	}
	MPI_Bcast(all, 1, type, size - 1, MPI_COMM_WORLD);
	for (size_t i = 0; i < bytes; i++)
		must(all[i] == byte_of(0, i), "what is broadcast");
	MPI_Reduce_scatter_block(MPI_IN_PLACE, mine, (int)part, MPI_SIGNED_CHAR, MPI_MAX,
		MPI_COMM_WORLD);
	for (size_t i = 0; i < part; i++) {
		signed char want = 0;

		for (int r = 0; r < size; r++) {
			const signed char b = byte_of(r, (size_t)rank * part + i);

			want = b > want ? b : want;
		}
		must(mine[i] == want, "what is reduced");
	}
	MPI_Type_free(&half);
	MPI_Type_free(&type);
	free(mine);
	free(all);
}

/* ------------------------------------------------------------------ messages */

/* Many synchronous sends, and a plain one that is received before them. */
static void
wait_behind_others(int to, int from)
{
	enum { MANY = 300 };
	MPI_Request sends[MANY];
	int numbers[MANY], got, number = 0;
	MPI_Message message;
	MPI_Status s;

	for (int i = 0; i < MANY; i++) {
		numbers[i] = i;
		MPI_Issend(&numbers[i], 1, MPI_INT, to, 7, MPI_COMM_WORLD, &sends[i]);
	}
	MPI_Send(&rank, 1, MPI_INT, to, 8, MPI_COMM_WORLD);
	MPI_Recv(&got, 1, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	must(got == from, "what came behind many");
	MPI_Testall(MANY, sends, &got, MPI_STATUSES_IGNORE);
	must(!got || from == to, "a synchronous send ended without a receive");
	MPI_Barrier(MPI_COMM_WORLD); /* nobody receives before all have looked */
	for (int i = 0; i < MANY; i++) {
		MPI_Mprobe(i % 2 ? from : MPI_ANY_SOURCE, i % 3 ? 7 : MPI_ANY_TAG, MPI_COMM_WORLD,
			&message, &s);
		must(s.MPI_SOURCE == from && s.MPI_TAG == 7, "what was probed");
		MPI_Get_count(&s, MPI_INT, &got);
		must(got == 1, "how long that is");
		MPI_Mrecv(&number, 1, MPI_INT, &message, &s);
		must(number == i, "the order of what was probed");
	}
	MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
}

static void
cut_and_cancel(int to, int from)
{
	int four[4] = {1, 2, 3, rank}, two[4] = {0, 0, -1, -1}, flag, class;
	MPI_Request r;
	MPI_Status s;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Irecv(two, 2, MPI_INT, from, 9, MPI_COMM_WORLD, &r);
	MPI_Send(four, 4, MPI_INT, to, 9, MPI_COMM_WORLD);
	MPI_Error_class(MPI_Wait(&r, &s), &class);
	must(class == MPI_ERR_TRUNCATE, "no error of a message that is cut");
	must(two[0] == 1 && two[1] == 2 && two[2] == -1, "what is left of it");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Irecv(two, 2, MPI_INT, MPI_ANY_SOURCE, 10, MPI_COMM_WORLD, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &flag);
	must(flag, "a receive was not cancelled");
	MPI_Sendrecv(four, 4, MPI_INT, rank, 11, two, 4, MPI_INT, rank, 11, MPI_COMM_WORLD, &s);
	must(two[3] == rank, "a rank's own message");
}

static void
send_big(void)
{
	const int to = (rank + 1) % size, from = (rank + size - 1) % size;
	signed char *mine = malloc(bytes), *its = malloc(bytes);
	MPI_Datatype type;
	MPI_Request r;

	must(mine != NULL && its != NULL, "out of memory");
	for (size_t i = 0; i < bytes; i++)
		mine[i] = byte_of(rank, i);
	MPI_Type_contiguous((int)(bytes / 4096), MPI_SIGNED_CHAR, &type);
	MPI_Type_commit(&type);
	MPI_Irecv(its, 4096, type, from, 0, MPI_COMM_WORLD, &r);
	MPI_Send(mine, 4096, type, to, 0, MPI_COMM_WORLD);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < bytes; i++)
		must(its[i] == byte_of(from, i), "a byte of a big message");
	MPI_Type_free(&type);
	free(mine);
	free(its);
}

static void
match(void)
{
	for (int far = 0; far < size; far++) {
		MPI_Barrier(MPI_COMM_WORLD); /* any source is this round's */
		wait_behind_others((rank + far) % size, (rank + size - far) % size);
		cut_and_cancel((rank + far) % size, (rank + size - far) % size);
	}
}

/* ------------------------------------------------------------------ beginning */

static void
do_nothing(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_bytes;
} corners[] = {
	{"types", free_types},
	{"comms", free_comms},
	{"nothing", do_nothing},
	{"unused", leave_unused},
	{"self", use_self},
	{"fortran", call_as_fortran},
	{"errors", make_errors},
	{"threads", use_threads},
	{"orders", begin_in_orders},
	{"idup", copy_meanwhile},
	{"held", hold_freed},
	{"many", make_many},
	{"matched", match},
	{"big", send_big, true},
	{"long", make_long, true},
};

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const size_t count = sizeof(corners) / sizeof(corners[0]);
	size_t i = 0;

	MPI_Init_thread(&argc, &argv,
		strcmp(what, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	bytes = argc > 2 ? strtoull(argv[2], NULL, 0) / 4096 * 4096 : 0;
	while (i < count && strcmp(corners[i].name, what) != 0)
		i++;
	if (i == count || (corners[i].needs_bytes && bytes == 0)) {
		fputs("usage: corners WHAT [BYTES]\n", stderr);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	corners[i].run();
	MPI_Finalize();
	printf("corners: rank %d is through\n", rank);
	return 0;
}
