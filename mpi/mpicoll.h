/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libpmx-mpicoll.so: collectives of unmodified MPI programs by pmx, through MPI's profiling
 * interface (PMPI), for LD_PRELOAD. What it does not take goes on to the MPI library.
 *
 * Design notes
 * 1. Whether a call is taken is decided by what all ranks of the communicator know: the kind, the
 *    bytes of a block, the operation and its basic type, and whether the communicator has a group,
 *    which all of its ranks agreed on. So they all decide the same.
 * 2. A communicator gets its group at its first blocking collective, which may synchronise;
 *    nonblocking ones before that go on to the MPI library.
 * 3. While a call waits, the MPI library is given turns, as any blocking call of MPI has to make
 *    progress for others.
 * 4. Data of types that are not contiguous are packed and unpacked by the MPI library.
 */
#ifndef PMX_MPICOLL_H
#define PMX_MPICOLL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmx/coll.h>

#define EXPORT __attribute__((visibility("default")))

/* ---------------------------------------------------------------- comm.c */

/* A communicator whose collectives are taken. */
struct comm {
	struct pmx_group *group;
	int size, rank;
	struct comm *next;
};

/* Return the communicator's group, or NULL: then the MPI library does the collective. blocking: the
 * group may be made now. */
struct comm *comm_of(MPI_Comm c, bool blocking);
/* Is a collective of that kind and block to be taken? An enum of the kinds, and their names for the
 * environment's PMX_MPICOLL. */
enum kind {
	KIND_BARRIER,
	KIND_BCAST,
	KIND_GATHER,
	KIND_SCATTER,
	KIND_ALLGATHER,
	KIND_ALLTOALL,
	KIND_REDUCE,
	KIND_ALLREDUCE,
	KIND_REDUCE_SCATTER,
	KIND_GATHERV,
	KIND_SCATTERV,
	KIND_ALLGATHERV,
	KIND_ALLTOALLV,
	KINDS
};
bool comm_takes(enum kind kind, uint64_t bytes);
#define ANY_BYTES (UINT64_MAX - 1) /* not known to all */
/* Return whether a collective has begun, where `error` is what its verb returned; false: call the
 * verb again. End the job if the collective cannot begin. */
bool comm_has_begun(const struct comm *c, int error);
/* Return whether a request has ended. End the job if it failed, since others wait for what will
 * never be. */
bool comm_test(const struct comm *c, pmx_request *request);
/* Give the MPI library a turn while nothing has ended. */
void comm_turn(void);

/* Let the engine reach memory of the program directly, if that is possible. */
void comm_adopt(const void *at, uint64_t bytes);

/* ---------------------------------------------------------------- adopt.c */

/* Note that contiguous data of the program are about to be read or written. */
void adopt_used(const void *at, uint64_t bytes);

/* ---------------------------------------------------------------- types.c */

/* Data as the application describes them. */
struct data {
	void *at; /* where the bytes begin */
	uint64_t bytes;
	bool packed; /* `at` is memory of this library: to be freed */
	void *home;  /* ... and unpacked there at the end, or NULL */
	int64_t count;
	MPI_Datatype type;
	bool owns_type; /* to be freed */
	/* blocks of several ranks: their counts and displacements, which the application keeps
	 * until the end, `count` of them; and as bytes, malloc()ed */
	const int *counts, *places;
	struct pmx_blocks blocks;
};

/* Return the bytes of `count` elements. */
uint64_t data_bytes(int64_t count, MPI_Datatype type);
/* Data that are read; that are written. false: out of memory, or an element that is not contiguous
 * is longer than 1 GiB. */
bool data_in(struct data *d, const void *at, int64_t count, MPI_Datatype type);
bool data_out(struct data *d, void *at, int64_t count, MPI_Datatype type);
/* Data that are written, and of which some are read before. */
bool data_both(struct data *d, void *at, int64_t count, MPI_Datatype type);
/* Describe data like data_in(), data_out() and data_both(), but in one block for each of `ranks`
 * ranks. */
bool data_in_blocks(struct data *d, const void *at, int ranks, const int counts[],
	const int places[], MPI_Datatype type);
bool data_out_blocks(struct data *d, void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type);
bool data_both_blocks(struct data *d, void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type);
/* End the use of the data after the collective: put what was written to its place, and free the
 * memory. */
void data_end(struct data *d);
/* Translate the operation and type of a reduction; false: pmx has no such one. */
bool data_operation(MPI_Op op, MPI_Datatype type, enum pmx_atomic_op *o, enum pmx_atomic_type *t);

#endif
