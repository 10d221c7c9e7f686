/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Types and operations of MPI, as bytes and as those of pmx.
 */
#include <limits.h>
#include <stdlib.h>

#include "mpicoll.h"

#define PART (1u << 30) /* bytes */

/* Return whether elements of the type are nothing but their bytes, one right behind the other. */
static bool
is_plain(MPI_Datatype type)
{
	int integers, addresses, types, combiner, size;
	MPI_Aint low, extent, true_low, true_extent;

	PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
	if (combiner != MPI_COMBINER_NAMED)
		return false;
	PMPI_Type_size(type, &size);
	PMPI_Type_get_extent(type, &low, &extent);
	PMPI_Type_get_true_extent(type, &true_low, &true_extent);
	return low == 0 && true_low == 0 && extent == size && true_extent == size;
}

uint64_t
data_bytes(int64_t count, MPI_Datatype type)
{
	MPI_Count size;

	PMPI_Type_size_x(type, &size);
	return (uint64_t)count * (uint64_t)size;
}

/* Call `convert` for the `count` elements at `at` and their packed bytes, in parts, since the MPI
 * library counts bytes as int. Return false if one element is longer than a part. */
static bool
in_parts(void *at, int64_t count, MPI_Datatype type, uint8_t *packed,
	void (*convert)(void *at, int count, MPI_Datatype type, void *packed, int bytes))
{
	const uint64_t each = data_bytes(1, type);
	MPI_Aint low, extent;

	if (each > PART)
		return false;
	const int64_t most = each != 0 ? (int64_t)(PART / each) : INT_MAX;

	PMPI_Type_get_extent(type, &low, &extent);
	for (int64_t i = 0; i < count; i += most) {
		const int n = (int)(count - i < most ? count - i : most);

		convert((uint8_t *)at + i * extent, n, type, packed + (uint64_t)i * each,
			(int)((uint64_t)n * each));
	}
	return true;
}

static void
pack(void *at, int count, MPI_Datatype type, void *packed, int bytes)
{
	int position = 0;

	PMPI_Pack(at, count, type, packed, bytes, &position, MPI_COMM_SELF);
}

static void
unpack(void *at, int count, MPI_Datatype type, void *packed, int bytes)
{
	int position = 0;

	PMPI_Unpack(packed, bytes, &position, at, count, type, MPI_COMM_SELF);
}

static bool
make(struct data *d, const void *at, int64_t count, MPI_Datatype type)
{
	*d = (struct data){
		.at = (void *)(uintptr_t)at,
		.bytes = data_bytes(count, type),
		.count = count,
		.type = type,
	};
	if (is_plain(type) || d->bytes == 0) {
		adopt_used(at, d->bytes);
		return true;
	}
	d->at = malloc(d->bytes);
	d->packed = true;
	return d->at != NULL;
}

/* Note that data_end() is to unpack the data to `home`, if they are packed. The program may free
 * their type as soon as a nonblocking collective has begun, so they get one of their own. */
static void
unpack_at(struct data *d, void *home)
{
	if (!d->packed)
		return;
	d->home = home;
	d->owns_type = PMPI_Type_dup(d->type, &d->type) == MPI_SUCCESS;
}

bool
data_in(struct data *d, const void *at, int64_t count, MPI_Datatype type)
{
	return make(d, at, count, type) &&
		(!d->packed || in_parts((void *)(uintptr_t)at, count, type, d->at, pack));
}

bool
data_out(struct data *d, void *at, int64_t count, MPI_Datatype type)
{
	if (!make(d, at, count, type))
		return false;
	unpack_at(d, at);
	return true;
}

bool
data_both(struct data *d, void *at, int64_t count, MPI_Datatype type)
{
	if (!data_in(d, at, count, type))
		return false;
	unpack_at(d, at);
	return true;
}

static bool
make_blocks(struct data *d, const void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type)
{
	const bool plain = is_plain(type);
	uint64_t *lens = calloc((size_t)ranks, sizeof(*lens));
	uint64_t *begins = calloc((size_t)ranks, sizeof(*begins));

	*d = (struct data){
		.at = (void *)(uintptr_t)at,
		.count = ranks,
		.type = type,
		.counts = counts,
		.places = places,
		.blocks = {lens, begins},
	};
	if (lens == NULL || begins == NULL)
		return false;
	for (int r = 0; r < ranks; r++) {
		lens[r] = data_bytes(counts[r], type);
		begins[r] = plain ? data_bytes(places[r], type) : d->bytes;
		d->bytes += lens[r];
	}
	if (plain)
		return true;
	d->at = malloc(d->bytes + 1);
	d->packed = true;
	return d->at != NULL;
}

/* Return the address of a rank's block in the application's memory at `base`. */
static void *
block_at(const struct data *d, const void *base, int rank)
{
	MPI_Aint low, extent;

	PMPI_Type_get_extent(d->type, &low, &extent);
	return (uint8_t *)(uintptr_t)base + d->places[rank] * extent;
}

bool
data_in_blocks(struct data *d, const void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type)
{
	if (!make_blocks(d, at, ranks, counts, places, type))
		return false;
	for (int r = 0; d->packed && r < ranks; r++) {
		if (!in_parts(block_at(d, at, r), counts[r], type,
			    (uint8_t *)d->at + d->blocks.begins[r], pack))
			return false;
	}
	return true;
}

bool
data_out_blocks(struct data *d, void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type)
{
	if (!make_blocks(d, at, ranks, counts, places, type))
		return false;
	unpack_at(d, at);
	return true;
}

bool
data_both_blocks(struct data *d, void *at, int ranks, const int counts[], const int places[],
	MPI_Datatype type)
{
	if (!data_in_blocks(d, at, ranks, counts, places, type))
		return false;
	unpack_at(d, at);
	return true;
}

void
data_end(struct data *d)
{
	/* the data could be packed, or would not be here */
	if (d->home != NULL && d->counts == NULL)
		in_parts(d->home, d->count, d->type, d->at, unpack);
	for (int r = 0; d->home != NULL && d->counts != NULL && r < d->count; r++)
		in_parts(block_at(d, d->home, r), d->counts[r], d->type,
			(uint8_t *)d->at + d->blocks.begins[r], unpack);
	if (d->owns_type)
		PMPI_Type_free(&d->type);
	if (d->packed)
		free(d->at);
	free((void *)(uintptr_t)d->blocks.lens);
	free((void *)(uintptr_t)d->blocks.begins);
	*d = (struct data){0};
}

bool
data_operation(MPI_Op op, MPI_Datatype type, enum pmx_atomic_op *o, enum pmx_atomic_type *t)
{
	const struct {
		MPI_Op mpi;
		enum pmx_atomic_op pmx;
	} ops[] = {
		{MPI_MIN, PMX_ATOMIC_MIN},
		{MPI_MAX, PMX_ATOMIC_MAX},
		{MPI_SUM, PMX_ATOMIC_SUM},
		{MPI_PROD, PMX_ATOMIC_PROD},
		{MPI_LOR, PMX_ATOMIC_LOR},
		{MPI_LAND, PMX_ATOMIC_LAND},
		{MPI_LXOR, PMX_ATOMIC_LXOR},
		{MPI_BOR, PMX_ATOMIC_BOR},
		{MPI_BAND, PMX_ATOMIC_BAND},
		{MPI_BXOR, PMX_ATOMIC_BXOR},
	};
	const struct {
		MPI_Datatype mpi;
		enum pmx_atomic_type pmx;
	} types[] = {
		{MPI_FLOAT, PMX_FLOAT},
		{MPI_DOUBLE, PMX_DOUBLE},
		{MPI_INT, PMX_INT32},
		{MPI_LONG, PMX_INT64},
		{MPI_UNSIGNED, PMX_UINT32},
		{MPI_UNSIGNED_LONG, PMX_UINT64},
		{MPI_LONG_LONG, PMX_INT64},
		{MPI_UNSIGNED_LONG_LONG, PMX_UINT64},
		{MPI_SHORT, PMX_INT16},
		{MPI_UNSIGNED_SHORT, PMX_UINT16},
		{MPI_SIGNED_CHAR, PMX_INT8},
		{MPI_UNSIGNED_CHAR, PMX_UINT8},
		{MPI_INT8_T, PMX_INT8},
		{MPI_UINT8_T, PMX_UINT8},
		{MPI_INT16_T, PMX_INT16},
		{MPI_UINT16_T, PMX_UINT16},
		{MPI_INT32_T, PMX_INT32},
		{MPI_UINT32_T, PMX_UINT32},
		{MPI_INT64_T, PMX_INT64},
		{MPI_UINT64_T, PMX_UINT64},
		/* of Fortran, as its compilers have them */
		{MPI_INTEGER, PMX_INT32},
		{MPI_REAL, PMX_FLOAT},
		{MPI_DOUBLE_PRECISION, PMX_DOUBLE},
	};
	unsigned i = 0, k = 0;

	while (i < sizeof(ops) / sizeof(ops[0]) && ops[i].mpi != op)
		i++;
	while (k < sizeof(types) / sizeof(types[0]) && types[k].mpi != type)
		k++;
	if (i == sizeof(ops) / sizeof(ops[0]) || k == sizeof(types) / sizeof(types[0]) ||
		pmx_atomic_bytes(ops[i].pmx, types[k].pmx) != data_bytes(1, type))
		return false;
	*o = ops[i].pmx;
	*t = types[k].pmx;
	return true;
}
