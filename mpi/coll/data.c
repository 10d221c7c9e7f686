/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Types and operations of MPI, as bytes and as those of pmx. Data whose bytes do not lie one right
 * behind the other are packed, and unpacked at the end, by Open MPI's convertors.
 */
#include "coll_pmx.h"

#include <opal/datatype/opal_convertor.h>

#include <stdlib.h>
#include <string.h>

/* Return whether elements of the type are nothing but their bytes, one right behind the other. */
static bool
is_plain(const ompi_datatype_t *type)
{
	return type->super.true_lb == 0 &&
		opal_datatype_is_contiguous_memory_layout(&type->super, 2);
}

uint64_t
data_bytes(size_t count, const ompi_datatype_t *type)
{
	return (uint64_t)count * type->super.size;
}

static void
convert(void *at, size_t count, const ompi_datatype_t *type, void *packed, bool pack)
{
	opal_convertor_t c;
	struct iovec bytes = {packed, data_bytes(count, type)};
	size_t most = bytes.iov_len;
	uint32_t pieces = 1;

	if (most == 0)
		return;
	OBJ_CONSTRUCT(&c, opal_convertor_t);
	if (pack) {
		opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super,
			count, at, 0, &c);
		opal_convertor_pack(&c, &bytes, &pieces, &most);
	} else {
		opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super,
			count, at, 0, &c);
		opal_convertor_unpack(&c, &bytes, &pieces, &most);
	}
	OBJ_DESTRUCT(&c);
}

/* ------------------------------------------------------------------ one block */

static bool
data_make(struct call_data *d, const void *at, size_t count, ompi_datatype_t *type)
{
	*d = (struct call_data){
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

bool
data_in(struct call_data *d, const void *at, size_t count, ompi_datatype_t *type)
{
	if (!data_make(d, at, count, type))
		return false;
	if (d->packed)
		convert((void *)(uintptr_t)at, count, type, d->at, true);
	return true;
}

bool
data_out(struct call_data *d, void *at, size_t count, ompi_datatype_t *type, bool is_read)
{
	const bool made = (is_read ? data_in : data_make)(d, at, count, type);

	if (d->packed)
		d->home = at;
	return made;
}

bool
data_copy(struct call_data *d, const void *at, uint64_t bytes)
{
	*d = (struct call_data){.at = malloc(bytes + 1), .bytes = bytes, .packed = true};
	if (d->at != NULL)
		memcpy(d->at, at, bytes);
	return d->at != NULL;
}

/* ------------------------------------------------------------------ blocks of several ranks */

/* Return the least displacement of a block that has bytes: it may be below 0. */
static int
first_place(int ranks, const int counts[], const int places[])
{
	int first = 0;

	for (int r = 0; r < ranks; r++)
		first = counts[r] > 0 && places[r] < first ? places[r] : first;
	return first;
}

static bool
make_blocks(struct call_data *d, const void *at, int ranks, const int counts[], const int places[],
	ompi_datatype_t *type)
{
	const bool plain = is_plain(type);
	const ptrdiff_t first = plain ? first_place(ranks, counts, places) : 0;
	uint64_t *lens = calloc((size_t)ranks, sizeof(*lens));
	uint64_t *begins = calloc((size_t)ranks, sizeof(*begins));

	*d = (struct call_data){
		.at = (uint8_t *)(uintptr_t)at + first * (ptrdiff_t)type->super.size,
		.count = (size_t)ranks,
		.type = type,
		.counts = counts,
		.places = places,
		.blocks = {lens, begins},
	};
	if (lens == NULL || begins == NULL)
		return false;
	for (int r = 0; r < ranks; r++) {
		lens[r] = data_bytes((size_t)counts[r], type);
		if (!plain)
			begins[r] = d->bytes;
		else if (lens[r] > 0)
			begins[r] = data_bytes((size_t)(places[r] - first), type);
		d->bytes += lens[r];
	}
	if (plain)
		return true;
	d->at = malloc(d->bytes + 1);
	d->packed = true;
	return d->at != NULL;
}

/* Pack the blocks at `base`, or unpack them. */
static void
convert_blocks(const struct call_data *d, void *base, bool pack)
{
	ptrdiff_t low, extent;

	ompi_datatype_get_extent(d->type, &low, &extent);
	for (size_t r = 0; r < d->count; r++)
		convert((uint8_t *)base + d->places[r] * extent, (size_t)d->counts[r], d->type,
			(uint8_t *)d->at + d->blocks.begins[r], pack);
}

bool
data_in_blocks(struct call_data *d, const void *at, int ranks, const int counts[],
	const int places[], ompi_datatype_t *type)
{
	if (!make_blocks(d, at, ranks, counts, places, type))
		return false;
	if (d->packed)
		convert_blocks(d, (void *)(uintptr_t)at, true);
	return true;
}

bool
data_out_blocks(struct call_data *d, void *at, int ranks, const int counts[], const int places[],
	ompi_datatype_t *type, bool is_read)
{
	const bool made = (is_read ? data_in_blocks : make_blocks)(d, at, ranks, counts, places,
		type);

	if (d->packed)
		d->home = at;
	return made;
}

/* ------------------------------------------------------------------ the end */

void
data_end(struct call_data *d, bool has_been)
{
	if (has_been && d->home != NULL && d->counts == NULL)
		convert(d->home, d->count, d->type, d->at, false);
	else if (has_been && d->home != NULL)
		convert_blocks(d, d->home, false);
	if (d->packed)
		free(d->at);
	free((void *)(uintptr_t)d->blocks.lens);
	free((void *)(uintptr_t)d->blocks.begins);
	*d = (struct call_data){0};
}

/* ------------------------------------------------------------------ operations */

bool
data_operation(const ompi_op_t *op, const ompi_datatype_t *type, enum pmx_atomic_op *o,
	enum pmx_atomic_type *t)
{
	const struct {
		const ompi_op_t *mpi;
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
		const ompi_datatype_t *mpi;
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
