/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random collectives of MPI, each done twice with the same data: on a communicator whose
 * collectives coll/pmx may take, and on a copy of it whose collectives it may not. The results must
 * be the same, byte by byte. Kinds, counts, types (also ones with gaps, negative bounds and no
 * bytes), roots, operations (also the program's own, whose order counts) and communicators vary;
 * blocking or not, in place or not, several at once, types freed as soon as a nonblocking one has
 * begun.
 *
 * Usage: mpirun -np N collectives [CALLS [SEED]]
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMS   4
#define AT_ONCE 3
#define MOST    20000 /* elements */
#define MARGIN  64    /* bytes before what is given to MPI */

enum kind {
	BARRIER,
	BCAST,
	GATHER,
	SCATTER,
	ALLGATHER,
	ALLTOALL,
	GATHERV,
	SCATTERV,
	ALLGATHERV,
	ALLTOALLV,
	REDUCE,
	ALLREDUCE,
	REDUCE_SCATTER,
	REDUCE_SCATTER_BLOCK,
	KINDS
};

struct call {
	enum kind kind;
	int comm, root, count, size, rank;
	bool in_place, waits, frees;
	MPI_Datatype type;
	MPI_Op op;
	int in_counts[64], in_places[64], out_counts[64], out_places[64];
	size_t bytes; /* of each buffer */
	uint8_t *in, *out, *want;
	MPI_Request request;
};

static MPI_Comm comms[COMMS], others[COMMS]; /* others: their copies without coll/pmx */
static MPI_Datatype types[9], matrix;        /* matrix: two by two, mod a prime */
static int type_count;
static MPI_Op product; /* of matrices, which does not commute */
static uint64_t seed = 1;

/* Return a random number below n, which is the same at all ranks. */
static uint32_t
below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static void
multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
	int32_t *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *count; i++, a += 4, b += 4) {
		const int32_t c[4] = {(a[0] * b[0] + a[1] * b[2]) % 8191,
			(a[0] * b[1] + a[1] * b[3]) % 8191, (a[2] * b[0] + a[3] * b[2]) % 8191,
			(a[2] * b[1] + a[3] * b[3]) % 8191};

		memcpy(b, c, sizeof(c));
	}
}

static void
make_types(void)
{
	int lens[3] = {1, 2, 1}, places[3] = {0, 3, 7};
	MPI_Datatype pair;

	types[type_count++] = MPI_BYTE;
	types[type_count++] = MPI_INT;
	types[type_count++] = MPI_DOUBLE;
	MPI_Type_vector(3, 2, 4, MPI_SHORT, &types[type_count++]);
	MPI_Type_contiguous(5, MPI_INT, &types[type_count++]);
	MPI_Type_indexed(3, lens, places, MPI_FLOAT, &types[type_count++]);
	/* of 8 bytes in 24, the first of which lie before the address that is given */
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_create_resized(pair, -8, 24, &types[type_count++]);
	MPI_Type_free(&pair);
	MPI_Type_create_hvector(2, 1, -12, MPI_INT, &pair);
	MPI_Type_create_resized(pair, 0, 20, &types[type_count++]);
	MPI_Type_free(&pair);
	MPI_Type_contiguous(0, MPI_INT, &types[type_count++]);
	for (int i = 3; i < type_count; i++)
		MPI_Type_commit(&types[i]);
	MPI_Type_contiguous(4, MPI_INT, &matrix);
	MPI_Type_commit(&matrix);
	MPI_Op_create(multiply, 0, &product);
}

static void
make_comms(int rank)
{
	MPI_Info info;

	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
	MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &comms[3]);
	MPI_Info_create(&info);
	MPI_Info_set(info, "ompi_comm_coll_preference", "^pmx");
	for (int i = 0; i < COMMS; i++)
		MPI_Comm_dup_with_info(comms[i], info, &others[i]);
	MPI_Info_free(&info);
}

/* Integers whose sums and products are exact in any order. */
static void
fill(const struct call *c, uint8_t *at, int salt)
{
	if (c->type == MPI_INT || c->type == matrix) {
		for (size_t i = 0; i < c->bytes / 4; i++)
			((int32_t *)at)[i] = (int32_t)((i * 31 + (size_t)salt * 17) % 97);
	} else if (c->type == MPI_DOUBLE) {
		for (size_t i = 0; i < c->bytes / 8; i++)
			((double *)at)[i] = (double)((i * 31 + (size_t)salt * 17) % 97);
	} else {
		for (size_t i = 0; i < c->bytes; i++)
			at[i] = (uint8_t)(i * 7 + i / 251 + (size_t)salt);
	}
}

static void
make_call(struct call *c)
{
	const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_SUM};
	MPI_Aint low, extent;
	int world;

	memset(c, 0, sizeof(*c));
	MPI_Comm_rank(MPI_COMM_WORLD, &world);
	c->kind = (enum kind)below(KINDS);
	c->comm = (int)below(COMMS);
	MPI_Comm_size(comms[c->comm], &c->size);
	MPI_Comm_rank(comms[c->comm], &c->rank);
	c->root = (int)below(64) % c->size;
	c->count = (int)below(4) == 0 ? (int)below(MOST) : (int)below(60);
	c->in_place = below(4) == 0;
	c->waits = below(2);
	c->type = types[below((uint32_t)type_count)];
	c->op = ops[below(4)];
	if (c->kind >= REDUCE) {
		c->type = below(2) ? MPI_INT : MPI_DOUBLE;
		c->in_place = c->in_place && c->kind != REDUCE_SCATTER;
		if (below(6) == 0) {
			c->type = matrix;
			c->op = product;
		}
	}
	c->frees = below(2);
	/* what rank x of the communicator sends y is the same function at both */
	const uint32_t salt = below(1000000);
	int in_end = 0, out_end = 0;

	for (int r = 0; r < c->size; r++) {
		const uint32_t out = salt + (uint32_t)(c->rank * 64 + r) * 2654435761u;
		const uint32_t in = salt + (uint32_t)(r * 64 + c->rank) * 2654435761u;
		const uint32_t all = salt + (uint32_t)r * 2654435761u;
		const bool pairs = c->kind == ALLTOALLV && !c->in_place;

		c->in_counts[r] = (int)((pairs ? out : all) % (uint32_t)(c->count + 1));
		c->out_counts[r] = (int)((pairs ? in : all) % (uint32_t)(c->count + 1));
		if (c->kind == ALLTOALLV && c->in_place)
			c->in_counts[r] = c->out_counts[r] = c->count;
		if (c->kind == REDUCE_SCATTER && salt % 2)
			c->in_counts[r] = c->count;
		c->in_places[r] = in_end;
		c->out_places[r] = out_end;
		in_end += c->in_counts[r] + 1;
		out_end += c->out_counts[r] + 1;
	}
	MPI_Type_get_extent(c->type, &low, &extent);
	c->bytes = (size_t)(c->count + 2) * (size_t)c->size * (size_t)extent + 64;
	c->bytes += MARGIN;
	c->in = malloc(c->bytes);
	c->out = malloc(c->bytes);
	c->want = malloc(c->bytes);
	fill(c, c->in, world);
	fill(c, c->out, world + 1000);
	memcpy(c->want, c->out, c->bytes);
}

/* The buffers of a call, and who takes part. */
struct place {
	const void *given;   /* what this rank has for it */
	const void *in;      /* ... or MPI_IN_PLACE */
	const void *root_in; /* ... which only the root may say */
	void *out;
	void *root_out; /* ... or MPI_IN_PLACE, at the root */
	MPI_Comm comm;
	MPI_Datatype type;
	MPI_Request *request; /* NULL: it blocks */
};

#define ONE(Name, name, ...)                                                                       \
	do {                                                                                       \
		if (p->request == NULL)                                                            \
			MPI_##Name(__VA_ARGS__);                                                   \
		else                                                                               \
			MPI_I##name(__VA_ARGS__, p->request);                                      \
	} while (0)

static void
call_equal_parts(const struct call *c, const struct place *p)
{
	MPI_Datatype t = p->type;
	const int n = c->count, root = c->root;

	switch (c->kind) {
	case BARRIER:
		ONE(Barrier, barrier, p->comm);
		break;
	case BCAST:
		ONE(Bcast, bcast, p->out, n, t, root, p->comm);
		break;
	case GATHER:
		ONE(Gather, gather, p->root_in, n, t, p->out, n, t, root, p->comm);
		break;
	case SCATTER:
		ONE(Scatter, scatter, p->given, n, t, p->root_out, n, t, root, p->comm);
		break;
	case ALLGATHER:
		ONE(Allgather, allgather, p->in, n, t, p->out, n, t, p->comm);
		break;
	case ALLTOALL:
		ONE(Alltoall, alltoall, p->in, n, t, p->out, n, t, p->comm);
		break;
	default:
		break;
	}
}

/* Ranks give or get as many as they say. */
static void
call_own_counts(const struct call *c, const struct place *p)
{
	MPI_Datatype t = p->type;
	const int root = c->root, own = c->out_counts[c->rank];

	switch (c->kind) {
	case GATHERV:
		ONE(Gatherv, gatherv, p->root_in, own, t, p->out, c->out_counts, c->out_places, t,
			root, p->comm);
		break;
	case SCATTERV:
		ONE(Scatterv, scatterv, p->given, c->in_counts, c->in_places, t, p->root_out,
			c->in_counts[c->rank], t, root, p->comm);
		break;
	case ALLGATHERV:
		ONE(Allgatherv, allgatherv, p->in, own, t, p->out, c->out_counts, c->out_places, t,
			p->comm);
		break;
	case ALLTOALLV:
		ONE(Alltoallv, alltoallv, p->in, c->in_counts, c->in_places, t, p->out,
			c->out_counts, c->out_places, t, p->comm);
		break;
	default:
		break;
	}
}

static void
call_reduction(const struct call *c, const struct place *p)
{
	MPI_Datatype t = p->type;
	const int n = c->count, root = c->root;

	switch (c->kind) {
	case REDUCE:
		ONE(Reduce, reduce, p->root_in, p->out, n, t, c->op, root, p->comm);
		break;
	case ALLREDUCE:
		ONE(Allreduce, allreduce, p->in, p->out, n, t, c->op, p->comm);
		break;
	case REDUCE_SCATTER:
		ONE(Reduce_scatter, reduce_scatter, p->in, p->out, c->in_counts, t, c->op, p->comm);
		break;
	case REDUCE_SCATTER_BLOCK:
		ONE(Reduce_scatter_block, reduce_scatter_block, p->in, p->out, n, t, c->op,
			p->comm);
		break;
	default:
		break;
	}
}

#undef ONE

/* Call it, with its result in `whole`. own: without coll/pmx. */
static void
call(struct call *c, uint8_t *whole, bool own, MPI_Request *request)
{
	uint8_t *out = whole + MARGIN, *given = c->in + MARGIN;
	const void *in = c->in_place ? MPI_IN_PLACE : (const void *)given;
	const bool is_root = c->rank == c->root;
	const bool frees = request != NULL && c->frees;
	struct place p = {
		.given = given,
		.in = in,
		.root_in = is_root ? in : (const void *)given,
		.out = out,
		.root_out = c->in_place && is_root ? MPI_IN_PLACE : (void *)out,
		.comm = own ? others[c->comm] : comms[c->comm],
		.type = c->type,
		.request = request,
	};

	/* reductions of the predefined operations are of the predefined types */
	if (frees && c->kind < REDUCE)
		MPI_Type_dup(c->type, &p.type);
	if (c->kind >= REDUCE)
		call_reduction(c, &p);
	else if (c->kind >= GATHERV)
		call_own_counts(c, &p);
	else
		call_equal_parts(c, &p);
	if (p.type != c->type)
		MPI_Type_free(&p.type);
}

static void
check(struct call *c, int number)
{
	size_t bytes = c->bytes;

	/* in place, all but the own part of `out` is not said */
	if (c->kind == REDUCE_SCATTER_BLOCK && c->in_place)
		bytes = MARGIN +
			(size_t)c->count *
				(c->type == MPI_INT                 ? 4
						: c->type == matrix ? 16
								    : 8);
	for (size_t i = 0; i < bytes; i++) {
		if (c->out[i] == c->want[i])
			continue;
		fprintf(stderr,
			"collectives: call %d, kind %d, count %d, comm %d of %d, root %d, rank "
			"%d%s%s: byte %zu is %02x, not %02x\n",
			number, c->kind, c->count, c->comm, c->size, c->root, c->rank,
			c->in_place ? ", in place" : "", c->waits ? "" : ", nonblocking", i,
			c->out[i], c->want[i]);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	free(c->in);
	free(c->out);
	free(c->want);
}

int
main(int argc, char **argv)
{
	struct call calls[AT_ONCE];
	MPI_Request requests[AT_ONCE];
	int rank, most = argc > 1 ? atoi(argv[1]) : 500;

	MPI_Init(&argc, &argv);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	make_types();
	make_comms(rank);
	for (int done = 0; done < most;) {
		const int n = 1 + (int)below(AT_ONCE);

		for (int i = 0; i < n; i++) {
			make_call(&calls[i]);
			requests[i] = MPI_REQUEST_NULL;
			call(&calls[i], calls[i].out, false, calls[i].waits ? NULL : &requests[i]);
		}
		switch (below(3)) {
		case 0:
			MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
			break;
		case 1:
			for (int i = 0; i < n; i++)
				MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
			break;
		case 2:
			for (int i = 0, flag; i < n; i++) {
				for (flag = 0; !flag;)
					MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
			}
			break;
		}
		for (int i = 0; i < n; i++) {
			call(&calls[i], calls[i].want, true, NULL);
			check(&calls[i], done + i);
		}
		done += n;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("collectives: %d calls were right\n", most);
	MPI_Finalize();
	return 0;
}
