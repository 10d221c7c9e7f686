/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives of MPI that pmx has, blocking and nonblocking, what ends the requests of the
 * latter, and what has to wait for them. Each one here decides, describes its data, begins the verb
 * of include/pmx/coll.h, and waits; or leaves all of it to the MPI library.
 */
#include <stdlib.h>
#include <string.h>

#include "mpicoll.h"

/* A collective that runs. */
struct running {
	struct comm *comm;
	pmx_request request;
	MPI_Request mpi; /* nonblocking: the generalised request that ends with it */
	struct data in, out;
	struct running *next;
};

static struct running *pending; /* nonblocking ones that have not ended */

/* ------------------------------------------------------------------ requests */

static int
query(void *extra, MPI_Status *status)
{
	(void)extra;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return MPI_SUCCESS;
}

static int
freed(void *extra)
{
	(void)extra;
	return MPI_SUCCESS;
}

static int
cancelled(void *extra, int complete)
{
	(void)extra, (void)complete;
	return MPI_SUCCESS; /* collectives cannot be cancelled */
}

static void
over(struct running *x)
{
	data_end(&x->out);
	data_end(&x->in);
}

/* Finish a collective that has begun. If `mpi` is NULL, wait for its end. Otherwise set *mpi to an
 * MPI request, and keep the collective until look() finds it ended. */
static int
go(struct running *x, MPI_Request *mpi)
{
	if (mpi == NULL) {
		while (!comm_test(x->comm, &x->request))
			comm_turn();
		over(x);
		return MPI_SUCCESS;
	}
	struct running *kept = malloc(sizeof(*kept));

	PMPI_Grequest_start(query, freed, cancelled, NULL, &x->mpi);
	*mpi = x->mpi;
	if (kept == NULL) { /* it has begun, so it is waited for */
		go(x, NULL);
		PMPI_Grequest_complete(*mpi);
		return MPI_SUCCESS;
	}
	*kept = *x;
	kept->next = pending;
	pending = kept;
	return MPI_SUCCESS;
}

/* End the pending nonblocking collectives whose pmx requests have ended, and complete their MPI
 * requests. */
static void
look(void)
{
	for (struct running **at = &pending, *x; (x = *at) != NULL;) {
		if (!comm_test(x->comm, &x->request)) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		over(x);
		PMPI_Grequest_complete(x->mpi);
		free(x);
	}
}

static bool
is_pending(MPI_Request r)
{
	for (const struct running *x = pending; x != NULL; x = x->next) {
		if (x->mpi == r)
			return true;
	}
	return false;
}

static void
wait_for(MPI_Request r)
{
	while (pending != NULL && is_pending(r)) {
		look();
		comm_turn();
	}
}

EXPORT int
MPI_Wait(MPI_Request *r, MPI_Status *s)
{
	wait_for(*r);
	return PMPI_Wait(r, s);
}

EXPORT int
MPI_Waitall(int n, MPI_Request r[], MPI_Status s[])
{
	for (int i = 0; pending != NULL && i < n; i++)
		wait_for(r[i]);
	return PMPI_Waitall(n, r, s);
}

EXPORT int
MPI_Test(MPI_Request *r, int *flag, MPI_Status *s)
{
	look();
	return PMPI_Test(r, flag, s);
}

EXPORT int
MPI_Testall(int n, MPI_Request r[], int *flag, MPI_Status s[])
{
	look();
	return PMPI_Testall(n, r, flag, s);
}

EXPORT int
MPI_Testany(int n, MPI_Request r[], int *index, int *flag, MPI_Status *s)
{
	look();
	return PMPI_Testany(n, r, index, flag, s);
}

EXPORT int
MPI_Testsome(int n, MPI_Request r[], int *count, int indices[], MPI_Status s[])
{
	look();
	return PMPI_Testsome(n, r, count, indices, s);
}

EXPORT int
MPI_Waitany(int n, MPI_Request r[], int *index, MPI_Status *s)
{
	int flag = 0, e = MPI_SUCCESS;

	if (pending == NULL)
		return PMPI_Waitany(n, r, index, s);
	while (e == MPI_SUCCESS && !flag) {
		look();
		e = PMPI_Testany(n, r, index, &flag, s);
	}
	return e;
}

EXPORT int
MPI_Waitsome(int n, MPI_Request r[], int *count, int indices[], MPI_Status s[])
{
	int e = MPI_SUCCESS;

	if (pending == NULL)
		return PMPI_Waitsome(n, r, count, indices, s);
	for (*count = 0; e == MPI_SUCCESS && *count == 0;) {
		look();
		e = PMPI_Testsome(n, r, count, indices, s);
	}
	return e;
}

EXPORT int
MPI_Request_get_status(MPI_Request r, int *flag, MPI_Status *s)
{
	look();
	return PMPI_Request_get_status(r, flag, s);
}

/* Return whether a nonblocking collective uses the communicator. */
static bool
is_used(const struct comm *c)
{
	for (const struct running *x = pending; x != NULL; x = x->next) {
		if (x->comm == c)
			return true;
	}
	return false;
}

/* Wait before a communicator is freed. Its group ends when its rank 0 leaves, so no rank leaves
 * before all have what they wait for; all have begun their collectives before they come here. */
static void
wait_before_free(MPI_Comm c)
{
	const struct comm *x = comm_of(c, false);

	if (x == NULL)
		return;
	while (is_used(x)) {
		look();
		comm_turn();
	}
	PMPI_Barrier(c);
}

EXPORT int
MPI_Comm_free(MPI_Comm *c)
{
	wait_before_free(*c);
	return PMPI_Comm_free(c);
}

EXPORT int
MPI_Comm_disconnect(MPI_Comm *c)
{
	wait_before_free(*c);
	return PMPI_Comm_disconnect(c);
}

/* ------------------------------------------------------------------ what they have in common */

/* Begins a verb, again and again until there is room for it. */
#define BEGIN(x, verb)                                                                             \
	do {                                                                                       \
		while (!comm_has_begun((x)->comm, verb))                                           \
			look();                                                                    \
	} while (0)

static int
no_memory(struct running *x, MPI_Comm c)
{
	x->out.home = NULL; /* nothing was written */
	over(x);
	/* as the program has it: others wait for what this rank cannot do */
	PMPI_Comm_call_errhandler(c, MPI_ERR_NO_MEM);
	return MPI_ERR_NO_MEM;
}

/* Return the communicator's group if pmx is to do a collective of this kind and size; otherwise
 * NULL. */
static struct comm *
takes(MPI_Comm c, enum kind kind, uint64_t bytes, const MPI_Request *mpi)
{
	struct comm *x = comm_of(c, mpi == NULL);

	return x != NULL && comm_takes(kind, bytes) ? x : NULL;
}

/* ------------------------------------------------------------------ collectives */

/* Each has a function that does both forms. mpi: NULL: the blocking one. `*done`: false: it is the
 * MPI library's. */

static int
barrier(MPI_Comm c, MPI_Request *mpi, bool *done)
{
	struct running x = {.comm = takes(c, KIND_BARRIER, ANY_BYTES, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	BEGIN(&x, pmx_coll_barrier(x.comm->group, &x.request));
	return go(&x, mpi);
}

static int
bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm c, MPI_Request *mpi,
	bool *done)
{
	struct running x = {.comm = takes(c, KIND_BCAST, data_bytes(count, type), mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (!(x.comm->rank == root ? data_in(&x.out, buffer, count, type)
				   : data_out(&x.out, buffer, count, type)))
		return no_memory(&x, c);
	BEGIN(&x, pmx_bcast(x.comm->group, (uint32_t)root, x.out.at, x.out.bytes, &x.request));
	return go(&x, mpi);
}

static int
gather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
	MPI_Datatype out_type, int root, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	struct comm *comm = comm_of(c, mpi == NULL);
	const bool is_root = comm != NULL && comm->rank == root;
	const bool there = is_root && in == MPI_IN_PLACE;
	const uint64_t bytes = is_root ? data_bytes(out_count, out_type)
				       : data_bytes(in_count, in_type);
	struct running x = {.comm = takes(c, KIND_GATHER, bytes, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if ((is_root &&
		    !(there ? data_both : data_out)(&x.out, out, (int64_t)out_count * comm->size,
			    out_type)) ||
		(!there && !data_in(&x.in, in, in_count, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_gather(comm->group, (uint32_t)root, there ? PMX_IN_PLACE : x.in.at, x.out.at,
			bytes, &x.request));
	return go(&x, mpi);
}

static int
scatter(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
	MPI_Datatype out_type, int root, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	struct comm *comm = comm_of(c, mpi == NULL);
	const bool is_root = comm != NULL && comm->rank == root;
	const bool there = is_root && out == MPI_IN_PLACE;
	const uint64_t bytes = is_root ? data_bytes(in_count, in_type)
				       : data_bytes(out_count, out_type);
	struct running x = {.comm = takes(c, KIND_SCATTER, bytes, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if ((is_root && !data_in(&x.in, in, (int64_t)in_count * comm->size, in_type)) ||
		(!there && !data_out(&x.out, out, out_count, out_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_scatter(comm->group, (uint32_t)root, x.in.at, there ? NULL : x.out.at, bytes,
			&x.request));
	return go(&x, mpi);
}

static int
allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
	MPI_Datatype out_type, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	const bool there = in == MPI_IN_PLACE;
	const uint64_t bytes = data_bytes(out_count, out_type);
	struct running x = {.comm = takes(c, KIND_ALLGATHER, bytes, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (!(there ? data_both : data_out)(&x.out, out, (int64_t)out_count * x.comm->size,
		    out_type) ||
		(!there && !data_in(&x.in, in, in_count, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_allgather(x.comm->group, there ? PMX_IN_PLACE : x.in.at, x.out.at, bytes,
			&x.request));
	return go(&x, mpi);
}

static int
alltoall(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
	MPI_Datatype out_type, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	const bool there = in == MPI_IN_PLACE;
	const uint64_t bytes = data_bytes(out_count, out_type);
	struct running x = {.comm = takes(c, KIND_ALLTOALL, bytes, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (!(there ? data_both : data_out)(&x.out, out, (int64_t)out_count * x.comm->size,
		    out_type) ||
		(!there && !data_in(&x.in, in, (int64_t)in_count * x.comm->size, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_alltoall(x.comm->group, there ? PMX_IN_PLACE : x.in.at, x.out.at, bytes,
			&x.request));
	return go(&x, mpi);
}

static int
gatherv(const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[],
	const int places[], MPI_Datatype out_type, int root, MPI_Comm c, MPI_Request *mpi,
	bool *done)
{
	struct running x = {.comm = takes(c, KIND_GATHERV, ANY_BYTES, mpi)};
	const bool is_root = x.comm != NULL && x.comm->rank == root;
	const bool there = is_root && in == MPI_IN_PLACE;

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if ((is_root &&
		    !(there ? data_both_blocks : data_out_blocks)(&x.out, out, x.comm->size, counts,
			    places, out_type)) ||
		(!there && !data_in(&x.in, in, in_count, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_gatherv(x.comm->group, (uint32_t)root, there ? PMX_IN_PLACE : x.in.at,
			x.in.bytes, x.out.at, &x.out.blocks, &x.request));
	return go(&x, mpi);
}

static int
scatterv(const void *in, const int counts[], const int places[], MPI_Datatype in_type, void *out,
	int out_count, MPI_Datatype out_type, int root, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	struct running x = {.comm = takes(c, KIND_SCATTERV, ANY_BYTES, mpi)};
	const bool is_root = x.comm != NULL && x.comm->rank == root;
	const bool there = is_root && out == MPI_IN_PLACE;

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if ((is_root && !data_in_blocks(&x.in, in, x.comm->size, counts, places, in_type)) ||
		(!there && !data_out(&x.out, out, out_count, out_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_scatterv(x.comm->group, (uint32_t)root, x.in.at, &x.in.blocks,
			there ? NULL : x.out.at, x.out.bytes, &x.request));
	return go(&x, mpi);
}

static int
allgatherv(const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[],
	const int places[], MPI_Datatype out_type, MPI_Comm c, MPI_Request *mpi, bool *done)
{
	const bool there = in == MPI_IN_PLACE;
	struct running x = {.comm = takes(c, KIND_ALLGATHERV, ANY_BYTES, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (!(there ? data_both_blocks : data_out_blocks)(&x.out, out, x.comm->size, counts, places,
		    out_type) ||
		(!there && !data_in(&x.in, in, in_count, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_allgatherv(x.comm->group, there ? PMX_IN_PLACE : x.in.at, x.in.bytes, x.out.at,
			&x.out.blocks, &x.request));
	return go(&x, mpi);
}

static int
alltoallv(const void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
	void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
	MPI_Comm c, MPI_Request *mpi, bool *done)
{
	const bool there = in == MPI_IN_PLACE;
	struct running x = {.comm = takes(c, KIND_ALLTOALLV, ANY_BYTES, mpi)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (!(there ? data_both_blocks : data_out_blocks)(&x.out, out, x.comm->size, out_counts,
		    out_places, out_type) ||
		(!there && !data_in_blocks(&x.in, in, x.comm->size, in_counts, in_places, in_type)))
		return no_memory(&x, c);
	BEGIN(&x,
		pmx_alltoallv(x.comm->group, there ? PMX_IN_PLACE : x.in.at, &x.in.blocks, x.out.at,
			&x.out.blocks, &x.request));
	return go(&x, mpi);
}

/* Return the communicator's group if pmx is to do this reduction and has its operation and type;
 * otherwise NULL. */
static struct comm *
reduces(MPI_Comm c, enum kind kind, int count, MPI_Datatype type, MPI_Op op, const MPI_Request *mpi,
	enum pmx_atomic_op *o, enum pmx_atomic_type *t)
{
	return data_operation(op, type, o, t) ? takes(c, kind, data_bytes(count, type), mpi) : NULL;
}

static int
reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm c,
	MPI_Request *mpi, bool *done)
{
	enum pmx_atomic_op o;
	enum pmx_atomic_type t;
	struct running x = {.comm = reduces(c, KIND_REDUCE, count, type, op, mpi, &o, &t)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	adopt_used(in == MPI_IN_PLACE ? out : in, data_bytes(count, type));
	BEGIN(&x,
		pmx_reduce(x.comm->group, (uint32_t)root, in == MPI_IN_PLACE ? PMX_IN_PLACE : in,
			out, (uint64_t)count, t, o, &x.request));
	return go(&x, mpi);
}

static int
allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c,
	MPI_Request *mpi, bool *done)
{
	enum pmx_atomic_op o;
	enum pmx_atomic_type t;
	struct running x = {.comm = reduces(c, KIND_ALLREDUCE, count, type, op, mpi, &o, &t)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	adopt_used(in == MPI_IN_PLACE ? out : in, data_bytes(count, type));
	adopt_used(out, data_bytes(count, type));
	BEGIN(&x,
		pmx_allreduce(x.comm->group, in == MPI_IN_PLACE ? PMX_IN_PLACE : in, out,
			(uint64_t)count, t, o, &x.request));
	return go(&x, mpi);
}

static int
reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c,
	MPI_Request *mpi, bool *done)
{
	enum pmx_atomic_op o;
	enum pmx_atomic_type t;
	struct running x = {.comm = reduces(c, KIND_REDUCE_SCATTER, count, type, op, mpi, &o, &t)};

	*done = x.comm != NULL;
	if (!*done)
		return MPI_SUCCESS;
	if (in == MPI_IN_PLACE) { /* all parts are in `out`, whose first one is replaced */
		x.in.bytes = data_bytes((int64_t)count * x.comm->size, type);
		x.in.at = malloc(x.in.bytes + 1);
		x.in.packed = true;
		if (x.in.at == NULL)
			return no_memory(&x, c);
		memcpy(x.in.at, out, x.in.bytes);
		in = x.in.at;
	}
	BEGIN(&x, pmx_reduce_scatter(x.comm->group, in, out, (uint64_t)count, t, o, &x.request));
	return go(&x, mpi);
}

/* ------------------------------------------------------------------ MPI's names */

#define LIST(...) __VA_ARGS__
/* Defines both forms of a collective. */
#define DEFINE(Name, name, parameters, arguments)                                                  \
	EXPORT int MPI_##Name(parameters)                                                          \
	{                                                                                          \
		bool done;                                                                         \
		const int e = name(arguments, NULL, &done);                                        \
                                                                                                   \
		return done ? e : PMPI_##Name(arguments);                                          \
	}                                                                                          \
	EXPORT int MPI_I##name(parameters, MPI_Request *request)                                   \
	{                                                                                          \
		bool done;                                                                         \
		const int e = name(arguments, request, &done);                                     \
                                                                                                   \
		return done ? e : PMPI_I##name(arguments, request);                                \
	}

DEFINE(Barrier, barrier, LIST(MPI_Comm c), LIST(c))
DEFINE(Bcast, bcast, LIST(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm c),
	LIST(buffer, count, type, root, c))
DEFINE(Gather, gather,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
		MPI_Datatype out_type, int root, MPI_Comm c),
	LIST(in, in_count, in_type, out, out_count, out_type, root, c))
DEFINE(Scatter, scatter,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
		MPI_Datatype out_type, int root, MPI_Comm c),
	LIST(in, in_count, in_type, out, out_count, out_type, root, c))
DEFINE(Allgather, allgather,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
		MPI_Datatype out_type, MPI_Comm c),
	LIST(in, in_count, in_type, out, out_count, out_type, c))
DEFINE(Alltoall, alltoall,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
		MPI_Datatype out_type, MPI_Comm c),
	LIST(in, in_count, in_type, out, out_count, out_type, c))
DEFINE(Gatherv, gatherv,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[],
		const int places[], MPI_Datatype out_type, int root, MPI_Comm c),
	LIST(in, in_count, in_type, out, counts, places, out_type, root, c))
DEFINE(Scatterv, scatterv,
	LIST(const void *in, const int counts[], const int places[], MPI_Datatype in_type,
		void *out, int out_count, MPI_Datatype out_type, int root, MPI_Comm c),
	LIST(in, counts, places, in_type, out, out_count, out_type, root, c))
DEFINE(Allgatherv, allgatherv,
	LIST(const void *in, int in_count, MPI_Datatype in_type, void *out, const int counts[],
		const int places[], MPI_Datatype out_type, MPI_Comm c),
	LIST(in, in_count, in_type, out, counts, places, out_type, c))
DEFINE(Alltoallv, alltoallv,
	LIST(const void *in, const int in_counts[], const int in_places[], MPI_Datatype in_type,
		void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type,
		MPI_Comm c),
	LIST(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, c))
DEFINE(Reduce, reduce,
	LIST(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
		MPI_Comm c),
	LIST(in, out, count, type, op, root, c))
DEFINE(Allreduce, allreduce,
	LIST(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c),
	LIST(in, out, count, type, op, c))
DEFINE(Reduce_scatter_block, reduce_scatter_block,
	LIST(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c),
	LIST(in, out, count, type, op, c))

/* Parts of any lengths; pmx has it if they are all the same, as all ranks know. */
static int
reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op,
	MPI_Comm c, MPI_Request *mpi, bool *done)
{
	int size;

	PMPI_Comm_size(c, &size);
	*done = false;
	for (int r = 1; r < size; r++) {
		if (counts[r] != counts[0])
			return MPI_SUCCESS;
	}
	return reduce_scatter_block(in, out, counts[0], type, op, c, mpi, done);
}

DEFINE(Reduce_scatter, reduce_scatter,
	LIST(const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op,
		MPI_Comm c),
	LIST(in, out, counts, type, op, c))
