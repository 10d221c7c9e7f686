/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll/pmx: a component of Open MPI that gives its collectives to pmx's engines. What it does not
 * take goes on to the components that Open MPI would have taken without it.
 *
 * Design notes
 * 1. Whether a call is taken is decided by what all ranks of the communicator know: the kind, the
 *    bytes of a block, the operation and its basic type, whether it blocks, and whether the
 *    communicator has a group, which all of its ranks agreed on. So they all decide the same.
 * 2. A communicator gets its group at its first blocking collective, which may synchronise;
 *    nonblocking ones before that go on.
 * 3. A long collective needs much of the memory that the engine reaches. All ranks get theirs, and
 *    agree that all have it, before any of them sends; otherwise the collective goes on.
 * 4. Allreductions of an int or two that do not block go on: Open MPI's own MPI_Comm_idup() makes
 *    them on the program's communicator, at moments of which the program knows nothing.
 * 5. A rank leaves a group by a barrier of its members, which nobody waits for: rank 0's end is the
 *    group's, so it must not be before the others have all that they wait for.
 * 6. Collectives of different communicators may begin in other orders at other ranks, as MPI
 *    allows: slots.c.
 * 7. While a call waits, Open MPI has its turns, as any blocking call of MPI has to make progress
 *    for others.
 * 8. With MPI_THREAD_MULTIPLE one lock is around each use of the context, and never held while
 *    something waits, nor while Open MPI is called.
 */
#ifndef PMX_MPI_COLL_H
#define PMX_MPI_COLL_H

#include <ompi_config.h>

#include <mpi.h>
#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/coll/base/coll_base_util.h>
#include <ompi/mca/coll/coll.h>
#include <ompi/request/request.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmx/coll.h>

/* ---------------------------------------------------------------- context.c */

struct context_options {
	bool has_threads; /* threads of the program may call at once */
	bool is_verbose;
	const char *instance;  /* of the primary; NULL: any */
	int (*progress)(void); /* looks at what is under way, and returns how much has ended */
};

void context_set(const struct context_options *o);
/* Attach to the primary, and open a context, if that was not tried yet. Return whether there is
 * one; if not, a line on stderr has said why, or there is no primary. */
bool context_attach(void);
/* Return the context, or NULL if there is none. */
struct pmx_context *context_get(void);
void context_close(void);
bool context_is_verbose(void);
bool context_has_threads(void);
/* Enter and leave the part that one thread at a time may be in. */
void context_lock(void);
void context_unlock(void);
/* Give the context and Open MPI a turn while nothing has ended. Not under the lock. */
void context_turn(void);
/* Return the milliseconds of a clock that never goes back. */
int64_t context_ms(void);
/* Note that one thing more, or less, is under way at which Open MPI's progress is to look. */
void context_watch(bool more);

/* ---------------------------------------------------------------- choices.c */

enum call_kind {
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
#define ANY_BYTES (UINT64_MAX - 1) /* not known to all */

/* Read what is to be taken: all, off, or a list of KIND=LEAST-MOST, KIND=all, KIND=off. Say what is
 * none of these. */
void choices_read(const char *choices);
/* Return whether a collective of that kind and block is to be taken, and count it. */
bool choices_take(enum call_kind kind, uint64_t bytes);
/* Note that a collective which was to be taken goes on after all. */
void choices_give_back(enum call_kind kind);
/* Return a number that says which collectives are taken, below 2^62. */
int64_t choices_hash(void);
/* Say how many were taken. */
void choices_say(void);

/* ---------------------------------------------------------------- slots.c */

/* A group's part of the slots. */
struct mpi_seat {
	unsigned running; /* collectives of the group that have begun and not ended */
};

/* Note how many collectives may run at once. */
void slots_set(unsigned count);
/* Take a slot for a group. Return false if there is none. */
bool slots_reserve(void);
/* Give back the slot of a group of which nothing runs. */
void slots_give_back(void);
/* Return whether one more collective of the group may begin. */
bool slots_may_begin(const struct mpi_seat *s);
/* Note that a collective of the group has begun; that it has ended. */
void slots_begun(struct mpi_seat *s);
void slots_ended(struct mpi_seat *s);

/* ---------------------------------------------------------------- group.c */

/* A communicator's part. */
struct module {
	mca_coll_base_module_t super;
	mca_coll_base_comm_coll_t before; /* who does what goes on */
	int rank, size;
	bool is_asked;           /* whether it can have a group */
	unsigned tries;          /* of asking that */
	struct pmx_group *group; /* or NULL */
	struct mpi_seat seat;
	unsigned queued; /* collectives that wait for those before them, or for a slot */
	bool is_blocked; /* while the queue is gone through: none of them may begin */
};

/* Let all ranks agree on the values by an operation: over messages, and not by whom the
 * communicator would ask, since coll/han of Open MPI 5 makes communicators in its first collective,
 * which waits for those that a rank is copying just then. Return MPI_SUCCESS, or an error. */
int agree(struct ompi_communicator_t *comm, void *values, int count, MPI_Datatype type, MPI_Op op);
/* Return whether the communicator has a group. blocking: it may be made now. */
bool group_is_open(struct module *m, struct ompi_communicator_t *comm, bool blocking);
/* Begin to leave a group whose communicator is gone. */
void group_leave(struct pmx_group *group);
/* Go on with leaving groups; under the lock. Return whether all are left. */
bool group_leave_move(void);

/* ---------------------------------------------------------------- data.c */

/* Data as the application describes them. */
struct call_data {
	void *at; /* where the bytes begin */
	uint64_t bytes;
	bool packed; /* `at` is memory of this component: to be freed */
	void *home;  /* ... and unpacked there at the end, or NULL */
	size_t count;
	ompi_datatype_t *type;
	/* blocks of several ranks: their counts and displacements, which the application keeps
	 * until the end, `count` of them; and as bytes, malloc()ed */
	const int *counts, *places;
	struct pmx_blocks blocks;
};

/* Return the bytes of `count` elements. */
uint64_t data_bytes(size_t count, const ompi_datatype_t *type);
/* Describe data that are read. Return false if out of memory. */
bool data_in(struct call_data *d, const void *at, size_t count, ompi_datatype_t *type);
/* Describe data that are written; is_read: and of which some are read before. */
bool data_out(struct call_data *d, void *at, size_t count, ompi_datatype_t *type, bool is_read);
/* Describe data like data_in() and data_out(), but in one block for each of `ranks` ranks. */
bool data_in_blocks(struct call_data *d, const void *at, int ranks, const int counts[],
	const int places[], ompi_datatype_t *type);
bool data_out_blocks(struct call_data *d, void *at, int ranks, const int counts[],
	const int places[], ompi_datatype_t *type, bool is_read);
/* Describe contiguous bytes of which a copy is read. */
bool data_copy(struct call_data *d, const void *at, uint64_t bytes);
/* End the use of the data: put what was written to its place if the collective has been, and free
 * the memory. */
void data_end(struct call_data *d, bool has_been);
/* Translate the operation and type of a reduction. Return false if pmx has no such one. */
bool data_operation(const ompi_op_t *op, const ompi_datatype_t *type, enum pmx_atomic_op *o,
	enum pmx_atomic_type *t);

/* ---------------------------------------------------------------- call.c */

/* A collective that is to begin, or runs. */
struct mpi_call {
	struct module *module;
	struct ompi_communicator_t *comm;
	bool blocks, no_memory;
	enum call_kind kind;
	/* Begin it, or have it prepared (PMX_COLL_PREPARE). */
	int (*verb)(struct mpi_call *x, pmx_request *request);
	uint32_t root;
	uint64_t bytes; /* of a block, or of what is reduced; ANY_BYTES */
	struct call_data in, out;
	/* of a reduction */
	const void *from;
	void *into;
	uint64_t count;
	enum pmx_atomic_op op;
	enum pmx_atomic_type type;
};

/* Return whether a call of that kind and size is to be taken, and note both. */
bool call_takes(struct mpi_call *x, enum call_kind kind, uint64_t bytes);
/* Do a collective whose data are described. Return false if it goes on, with nothing left behind;
 * otherwise set *error to its result for MPI. request: NULL: wait for its end. Otherwise set
 * *request to what ends with it. */
bool call_run(struct mpi_call *x, ompi_request_t **request, int *error);
/* Look at the nonblocking collectives under way, and complete the requests of those that have
 * ended. Return how many. */
int call_progress(void);

/* ---------------------------------------------------------------- verbs.c */

/* Set the functions of a module to those of this component. */
void verbs_set(mca_coll_base_module_t *m);

/* ---------------------------------------------------------------- adopt.c */

/* Note that long buffers are to become memory that the engine reaches. */
void adopt_set(bool on);
/* Note that contiguous data of the program are about to be read or written. */
void adopt_used(const void *at, uint64_t bytes);

/* All collectives that pmx has, each blocking and, with an i before its name, not. */
#define COLLECTIVES(X)                                                                             \
	X(barrier)                                                                                 \
	X(bcast)                                                                                   \
	X(gather)                                                                                  \
	X(scatter)                                                                                 \
	X(allgather)                                                                               \
	X(alltoall)                                                                                \
	X(gatherv)                                                                                 \
	X(scatterv)                                                                                \
	X(allgatherv)                                                                              \
	X(alltoallv)                                                                               \
	X(reduce)                                                                                  \
	X(allreduce)                                                                               \
	X(reduce_scatter)                                                                          \
	X(reduce_scatter_block)

#endif
