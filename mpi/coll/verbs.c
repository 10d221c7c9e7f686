/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives of MPI that pmx has. Each one has a function that describes its data and returns
 * whether it is taken; its verb of include/pmx/coll.h; and at the end of this file the functions of
 * a module, blocking and nonblocking, which run it (call.c), or let it go on.
 */
#include "coll_pmx.h"

#define OF_IDUP 2 /* ints that MPI_Comm_idup() reduces, at most */

/* Note whether the data could be described. Return true: the call is taken. */
static bool
described(struct mpi_call *x, bool good)
{
	x->no_memory = !good;
	return true;
}

/* ------------------------------------------------------------------ one block */

static int
verb_barrier(struct mpi_call *x, pmx_request *request)
{
	return pmx_coll_barrier(x->module->group, request);
}

static bool
barrier(struct mpi_call *x)
{
	x->verb = verb_barrier;
	return call_takes(x, KIND_BARRIER, ANY_BYTES);
}

static int
verb_bcast(struct mpi_call *x, pmx_request *request)
{
	return pmx_bcast(x->module->group, x->root, x->out.at, x->out.bytes, request);
}

static bool
bcast(struct mpi_call *x, void *buffer, int count, ompi_datatype_t *type, int root)
{
	x->verb = verb_bcast;
	x->root = (uint32_t)root;
	if (!call_takes(x, KIND_BCAST, data_bytes((size_t)count, type)))
		return false;
	return described(x,
		x->module->rank == root ? data_in(&x->out, buffer, (size_t)count, type)
					: data_out(&x->out, buffer, (size_t)count, type, false));
}

/* Return the data that this rank reads, as verbs are told: in place if there are none. */
static const void *
in_of(const struct mpi_call *x)
{
	return x->in.type == NULL ? PMX_IN_PLACE : x->in.at;
}

static int
verb_gather(struct mpi_call *x, pmx_request *request)
{
	return pmx_gather(x->module->group, x->root, in_of(x), x->out.at, x->bytes, request);
}

static bool
gather(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	int out_count, ompi_datatype_t *out_type, int root)
{
	const bool is_root = x->module->rank == root, there = is_root && in == MPI_IN_PLACE;
	const size_t all = (size_t)out_count * (size_t)x->module->size;

	x->verb = verb_gather;
	x->root = (uint32_t)root;
	if (!call_takes(x, KIND_GATHER,
		    is_root ? data_bytes((size_t)out_count, out_type)
			    : data_bytes((size_t)in_count, in_type)))
		return false;
	return described(x,
		(!is_root || data_out(&x->out, out, all, out_type, there)) &&
			(there || data_in(&x->in, in, (size_t)in_count, in_type)));
}

static int
verb_scatter(struct mpi_call *x, pmx_request *request)
{
	return pmx_scatter(x->module->group, x->root, x->in.at,
		x->out.type == NULL ? NULL : x->out.at, x->bytes, request);
}

static bool
scatter(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	int out_count, ompi_datatype_t *out_type, int root)
{
	const bool is_root = x->module->rank == root, there = is_root && out == MPI_IN_PLACE;
	const size_t all = (size_t)in_count * (size_t)x->module->size;

	x->verb = verb_scatter;
	x->root = (uint32_t)root;
	if (!call_takes(x, KIND_SCATTER,
		    is_root ? data_bytes((size_t)in_count, in_type)
			    : data_bytes((size_t)out_count, out_type)))
		return false;
	return described(x,
		(!is_root || data_in(&x->in, in, all, in_type)) &&
			(there || data_out(&x->out, out, (size_t)out_count, out_type, false)));
}

static int
verb_allgather(struct mpi_call *x, pmx_request *request)
{
	return pmx_allgather(x->module->group, in_of(x), x->out.at, x->bytes, request);
}

static bool
allgather(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	int out_count, ompi_datatype_t *out_type)
{
	const bool there = in == MPI_IN_PLACE;
	const size_t all = (size_t)out_count * (size_t)x->module->size;

	x->verb = verb_allgather;
	if (!call_takes(x, KIND_ALLGATHER, data_bytes((size_t)out_count, out_type)))
		return false;
	return described(x,
		data_out(&x->out, out, all, out_type, there) &&
			(there || data_in(&x->in, in, (size_t)in_count, in_type)));
}

static int
verb_alltoall(struct mpi_call *x, pmx_request *request)
{
	return pmx_alltoall(x->module->group, in_of(x), x->out.at, x->bytes, request);
}

static bool
alltoall(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	int out_count, ompi_datatype_t *out_type)
{
	const bool there = in == MPI_IN_PLACE;
	const size_t size = (size_t)x->module->size;

	x->verb = verb_alltoall;
	if (!call_takes(x, KIND_ALLTOALL, data_bytes((size_t)out_count, out_type)))
		return false;
	return described(x,
		data_out(&x->out, out, (size_t)out_count * size, out_type, there) &&
			(there || data_in(&x->in, in, (size_t)in_count * size, in_type)));
}

/* ------------------------------------------------------------------ blocks of any lengths */

static int
verb_gatherv(struct mpi_call *x, pmx_request *request)
{
	return pmx_gatherv(x->module->group, x->root, in_of(x), x->in.bytes, x->out.at,
		&x->out.blocks, request);
}

static bool
gatherv(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	const int counts[], const int places[], ompi_datatype_t *out_type, int root)
{
	const bool is_root = x->module->rank == root, there = is_root && in == MPI_IN_PLACE;

	x->verb = verb_gatherv;
	x->root = (uint32_t)root;
	if (!call_takes(x, KIND_GATHERV, ANY_BYTES))
		return false;
	return described(x,
		(!is_root ||
			data_out_blocks(&x->out, out, x->module->size, counts, places, out_type,
				there)) &&
			(there || data_in(&x->in, in, (size_t)in_count, in_type)));
}

static int
verb_scatterv(struct mpi_call *x, pmx_request *request)
{
	return pmx_scatterv(x->module->group, x->root, x->in.at, &x->in.blocks,
		x->out.type == NULL ? NULL : x->out.at, x->out.bytes, request);
}

static bool
scatterv(struct mpi_call *x, const void *in, const int counts[], const int places[],
	ompi_datatype_t *in_type, void *out, int out_count, ompi_datatype_t *out_type, int root)
{
	const bool is_root = x->module->rank == root, there = is_root && out == MPI_IN_PLACE;

	x->verb = verb_scatterv;
	x->root = (uint32_t)root;
	if (!call_takes(x, KIND_SCATTERV, ANY_BYTES))
		return false;
	return described(x,
		(!is_root ||
			data_in_blocks(&x->in, in, x->module->size, counts, places, in_type)) &&
			(there || data_out(&x->out, out, (size_t)out_count, out_type, false)));
}

static int
verb_allgatherv(struct mpi_call *x, pmx_request *request)
{
	return pmx_allgatherv(x->module->group, in_of(x), x->in.bytes, x->out.at, &x->out.blocks,
		request);
}

static bool
allgatherv(struct mpi_call *x, const void *in, int in_count, ompi_datatype_t *in_type, void *out,
	const int counts[], const int places[], ompi_datatype_t *out_type)
{
	const bool there = in == MPI_IN_PLACE;

	x->verb = verb_allgatherv;
	if (!call_takes(x, KIND_ALLGATHERV, ANY_BYTES))
		return false;
	return described(x,
		data_out_blocks(&x->out, out, x->module->size, counts, places, out_type, there) &&
			(there || data_in(&x->in, in, (size_t)in_count, in_type)));
}

static int
verb_alltoallv(struct mpi_call *x, pmx_request *request)
{
	return pmx_alltoallv(x->module->group, in_of(x), &x->in.blocks, x->out.at, &x->out.blocks,
		request);
}

static bool
alltoallv(struct mpi_call *x, const void *in, const int in_counts[], const int in_places[],
	ompi_datatype_t *in_type, void *out, const int out_counts[], const int out_places[],
	ompi_datatype_t *out_type)
{
	const bool there = in == MPI_IN_PLACE;
	const int size = x->module->size;

	x->verb = verb_alltoallv;
	if (!call_takes(x, KIND_ALLTOALLV, ANY_BYTES))
		return false;
	return described(x,
		data_out_blocks(&x->out, out, size, out_counts, out_places, out_type, there) &&
			(there || data_in_blocks(&x->in, in, size, in_counts, in_places, in_type)));
}

/* ------------------------------------------------------------------ reductions */

/* Note what is reduced. Return whether it is taken: pmx has its operation and type. */
static bool
reduces(struct mpi_call *x, enum call_kind kind, const void *in, void *out, int count,
	ompi_datatype_t *type, ompi_op_t *op)
{
	x->from = in == MPI_IN_PLACE ? PMX_IN_PLACE : in;
	x->into = out;
	x->count = (uint64_t)count;
	return data_operation(op, type, &x->op, &x->type) &&
		call_takes(x, kind, data_bytes((size_t)count, type));
}

static int
verb_reduce(struct mpi_call *x, pmx_request *request)
{
	return pmx_reduce(x->module->group, x->root, x->from, x->into, x->count, x->type, x->op,
		request);
}

static bool
reduce(struct mpi_call *x, const void *in, void *out, int count, ompi_datatype_t *type,
	ompi_op_t *op, int root)
{
	x->verb = verb_reduce;
	x->root = (uint32_t)root;
	if (!reduces(x, KIND_REDUCE, in, out, count, type, op))
		return false;
	adopt_used(in == MPI_IN_PLACE ? out : in, x->bytes);
	return true;
}

static int
verb_allreduce(struct mpi_call *x, pmx_request *request)
{
	return pmx_allreduce(x->module->group, x->from, x->into, x->count, x->type, x->op, request);
}

static bool
allreduce(struct mpi_call *x, const void *in, void *out, int count, ompi_datatype_t *type,
	ompi_op_t *op)
{
	x->verb = verb_allreduce;
	if (!x->blocks && type == MPI_INT && count <= OF_IDUP)
		return false;
	if (!reduces(x, KIND_ALLREDUCE, in, out, count, type, op))
		return false;
	if (in != MPI_IN_PLACE)
		adopt_used(in, x->bytes);
	adopt_used(out, x->bytes);
	return true;
}

static int
verb_reduce_scatter(struct mpi_call *x, pmx_request *request)
{
	return pmx_reduce_scatter(x->module->group, x->from, x->into, x->count, x->type, x->op,
		request);
}

static bool
reduce_scatter_block(struct mpi_call *x, const void *in, void *out, int count,
	ompi_datatype_t *type, ompi_op_t *op)
{
	x->verb = verb_reduce_scatter;
	if (!reduces(x, KIND_REDUCE_SCATTER, in, out, count, type, op))
		return false;
	if (in != MPI_IN_PLACE)
		return true;
	/* all parts are in `out`, whose first one is replaced */
	const bool copied = data_copy(&x->in, out, x->bytes * (uint64_t)x->module->size);

	x->from = x->in.at;
	return described(x, copied);
}

/* Take a reduction to parts of any lengths if they are all the same, as all ranks know. */
static bool
reduce_scatter(struct mpi_call *x, const void *in, void *out, const int counts[],
	ompi_datatype_t *type, ompi_op_t *op)
{
	for (int r = 1; r < x->module->size; r++) {
		if (counts[r] != counts[0])
			return false;
	}
	return reduce_scatter_block(x, in, out, counts[0], type, op);
}

/* ------------------------------------------------------------------ functions of a module */

#define LIST(...) __VA_ARGS__
/* Define both forms of a collective. */
#define DEFINE(name, parameters, arguments)                                                        \
	static int coll_##name(parameters, struct ompi_communicator_t *comm,                       \
		mca_coll_base_module_t *module)                                                    \
	{                                                                                          \
		struct module *m = (struct module *)module;                                        \
		struct mpi_call x = {.module = m, .comm = comm, .blocks = true};                   \
		int error;                                                                         \
                                                                                                   \
		if (group_is_open(m, comm, true) && name(&x, arguments) &&                         \
			call_run(&x, NULL, &error))                                                \
			return error;                                                              \
		return m->before.coll_##name(arguments, comm, m->before.coll_##name##_module);     \
	}                                                                                          \
	static int coll_i##name(parameters, struct ompi_communicator_t *comm,                      \
		ompi_request_t **request, mca_coll_base_module_t *module)                          \
	{                                                                                          \
		struct module *m = (struct module *)module;                                        \
		struct mpi_call x = {.module = m, .comm = comm};                                   \
		int error;                                                                         \
                                                                                                   \
		if (group_is_open(m, comm, false) && name(&x, arguments) &&                        \
			call_run(&x, request, &error))                                             \
			return error;                                                              \
		return m->before.coll_i##name(arguments, comm, request,                            \
			m->before.coll_i##name##_module);                                          \
	}

DEFINE(bcast, LIST(void *buffer, int count, ompi_datatype_t *type, int root),
	LIST(buffer, count, type, root))
DEFINE(gather,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, int out_count,
		ompi_datatype_t *out_type, int root),
	LIST(in, in_count, in_type, out, out_count, out_type, root))
DEFINE(scatter,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, int out_count,
		ompi_datatype_t *out_type, int root),
	LIST(in, in_count, in_type, out, out_count, out_type, root))
DEFINE(allgather,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, int out_count,
		ompi_datatype_t *out_type),
	LIST(in, in_count, in_type, out, out_count, out_type))
DEFINE(alltoall,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, int out_count,
		ompi_datatype_t *out_type),
	LIST(in, in_count, in_type, out, out_count, out_type))
DEFINE(gatherv,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, const int counts[],
		const int places[], ompi_datatype_t *out_type, int root),
	LIST(in, in_count, in_type, out, counts, places, out_type, root))
DEFINE(scatterv,
	LIST(const void *in, const int counts[], const int places[], ompi_datatype_t *in_type,
		void *out, int out_count, ompi_datatype_t *out_type, int root),
	LIST(in, counts, places, in_type, out, out_count, out_type, root))
DEFINE(allgatherv,
	LIST(const void *in, int in_count, ompi_datatype_t *in_type, void *out, const int counts[],
		const int places[], ompi_datatype_t *out_type),
	LIST(in, in_count, in_type, out, counts, places, out_type))
DEFINE(alltoallv,
	LIST(const void *in, const int in_counts[], const int in_places[], ompi_datatype_t *in_type,
		void *out, const int out_counts[], const int out_places[],
		ompi_datatype_t *out_type),
	LIST(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type))
DEFINE(reduce,
	LIST(const void *in, void *out, int count, ompi_datatype_t *type, ompi_op_t *op, int root),
	LIST(in, out, count, type, op, root))
DEFINE(allreduce, LIST(const void *in, void *out, int count, ompi_datatype_t *type, ompi_op_t *op),
	LIST(in, out, count, type, op))
DEFINE(reduce_scatter_block,
	LIST(const void *in, void *out, int count, ompi_datatype_t *type, ompi_op_t *op),
	LIST(in, out, count, type, op))
DEFINE(reduce_scatter,
	LIST(const void *in, void *out, const int counts[], ompi_datatype_t *type, ompi_op_t *op),
	LIST(in, out, counts, type, op))

static int
coll_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	struct module *m = (struct module *)module;
	struct mpi_call x = {.module = m, .comm = comm, .blocks = true};
	int error;

	if (group_is_open(m, comm, true) && barrier(&x) && call_run(&x, NULL, &error))
		return error;
	return m->before.coll_barrier(comm, m->before.coll_barrier_module);
}

static int
coll_ibarrier(struct ompi_communicator_t *comm, ompi_request_t **request,
	mca_coll_base_module_t *module)
{
	struct module *m = (struct module *)module;
	struct mpi_call x = {.module = m, .comm = comm};
	int error;

	if (group_is_open(m, comm, false) && barrier(&x) && call_run(&x, request, &error))
		return error;
	return m->before.coll_ibarrier(comm, request, m->before.coll_ibarrier_module);
}

#define SET(name)                                                                                  \
	m->coll_##name = coll_##name;                                                              \
	m->coll_i##name = coll_i##name;

void
verbs_set(mca_coll_base_module_t *m)
{
	COLLECTIVES(SET)
}
