/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma/part.h"

#include <string.h>

static const char *
check_stride(const struct part *p)
{
	uint64_t extent = p->stride.block;

	if (p->stride.dims < 1 || p->stride.dims > PART_DIMS_MAX)
		return "a stride has 1 to 3 dimensions";
	if (p->stride.block == 0)
		return "a stride's block has no bytes";
	for (uint32_t d = 0; d < p->stride.dims; d++) {
		if (p->stride.count[d] == 0)
			return "a stride's count is 0";
		if (p->stride.interval[d] < extent)
			return "a stride's interval is shorter than what it repeats";
		if (p->stride.interval[d] > PART_BYTES_MAX ||
			p->stride.count[d] - 1 > (PART_BYTES_MAX - extent) / p->stride.interval[d])
			return "a stride reaches beyond its region";
		extent += (p->stride.count[d] - 1) * p->stride.interval[d];
	}
	return extent > p->bytes ? "a stride reaches beyond its region" : NULL;
}

const char *
part_check(const struct part *p)
{
	if (p->bytes == 0 || p->bytes > PART_BYTES_MAX)
		return "a region has 1 to 2^40 bytes";
	switch (p->kind) {
	case PART_BASIC:
		return NULL;
	case PART_STRIDE:
		return check_stride(p);
	case PART_BITMAP:
		if (p->bitmap.unit < PART_UNIT_MIN || p->bitmap.unit > PART_UNIT_MAX ||
			p->bitmap.unit & (p->bitmap.unit - 1))
			return "a bitmap's unit is a power of two, 4 to 4096 bytes";
		return p->bitmap.bits ? NULL : "there is no bitmap";
	case PART_DIFF:
		return p->diff.now && p->diff.twin ? NULL : "there is no twin to compare with";
	}
	return "no such kind of partial transfer";
}

/* Drop dimensions with a count of 1, and merge adjacent blocks into one. */
static void
normalise(struct part *p)
{
	uint32_t dims = 0;

	for (uint32_t d = 0; d < p->stride.dims; d++) {
		uint64_t count = p->stride.count[d], interval = p->stride.interval[d];

		if (count == 1)
			continue;
		if (dims == 0 && interval == p->stride.block) {
			p->stride.block *= count;
			continue;
		}
		p->stride.count[dims] = count;
		p->stride.interval[dims++] = interval;
	}
	p->stride.dims = dims;
}

void
part_begin(struct part_iterator *it, const struct part *p)
{
	*it = (struct part_iterator){.part = *p};
	if (p->kind == PART_BASIC) {
		it->part.kind = PART_STRIDE;
		it->part.stride.dims = 0;
		it->part.stride.block = p->bytes;
		it->done = p->bytes == 0;
	} else if (p->kind == PART_STRIDE) {
		normalise(&it->part);
	}
}

void
part_seek(struct part_iterator *it, uint64_t from)
{
	if (it->part.kind == PART_DIFF)
		it->at = from < it->part.bytes ? from : it->part.bytes;
	else if (it->part.kind == PART_BITMAP)
		it->at = from / it->part.bitmap.unit;
}

static bool
next_stride(struct part_iterator *it, struct part_run *run)
{
	const struct part *p = &it->part;
	uint32_t d = 0;

	*run = (struct part_run){0, p->stride.block};
	for (uint32_t i = 0; i < p->stride.dims; i++)
		run->offset += it->index[i] * p->stride.interval[i];
	while (d < p->stride.dims && ++it->index[d] == p->stride.count[d])
		it->index[d++] = 0;
	it->done = d == p->stride.dims;
	return true;
}

/* Return the first unit at or after `at` whose bit is `value`, or `units`. */
static uint64_t
find_bit(const uint64_t *bits, uint64_t at, uint64_t units, bool value)
{
	while (at < units) {
		uint64_t word = (value ? bits[at / 64] : ~bits[at / 64]) >> at % 64;

		if (word) {
			at += (uint64_t)__builtin_ctzll(word);
			return at < units ? at : units;
		}
		at += 64 - at % 64;
	}
	return units;
}

static bool
next_bitmap(struct part_iterator *it, struct part_run *run)
{
	const struct part *p = &it->part;
	uint64_t unit = p->bitmap.unit, units = (p->bytes + unit - 1) / unit;
	uint64_t first = find_bit(p->bitmap.bits, it->at, units, true), end;

	if (first == units)
		return false;
	it->at = find_bit(p->bitmap.bits, first, units, false);
	end = it->at * unit < p->bytes ? it->at * unit : p->bytes;
	*run = (struct part_run){first * unit, end - first * unit};
	return true;
}

#define CHUNK 128 /* bytes compared at once */

/* Sixteen bytes of any alignment. */
typedef uint64_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));

static inline bool
chunks_equal(const uint8_t *a, const uint8_t *b)
{
	const bytes16 *x = (const bytes16 *)a, *y = (const bytes16 *)b;
	bytes16 d = (x[0] ^ y[0]) | (x[1] ^ y[1]), e = (x[2] ^ y[2]) | (x[3] ^ y[3]);
	bytes16 f = (x[4] ^ y[4]) | (x[5] ^ y[5]), g = (x[6] ^ y[6]) | (x[7] ^ y[7]);

	d = (d | e) | (f | g);
	return (d[0] | d[1]) == 0;
}

static inline uint64_t
load(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t
find_different(const uint8_t *a, const uint8_t *b, uint64_t at, uint64_t end)
{
	while (end - at >= CHUNK && chunks_equal(a + at, b + at))
		at += CHUNK;
	for (; end - at >= 8; at += 8) {
		uint64_t x = load(a + at) ^ load(b + at);

		if (x)
			return at + (uint64_t)__builtin_ctzll(x) / 8;
	}
	while (at < end && a[at] == b[at])
		at++;
	return at;
}

static uint64_t
find_equal(const uint8_t *a, const uint8_t *b, uint64_t at, uint64_t end)
{
	const uint64_t low = 0x0101010101010101u, high = 0x8080808080808080u;

	for (; end - at >= 8; at += 8) {
		uint64_t x = load(a + at) ^ load(b + at), zero = (x - low) & ~x & high;

		if (zero) /* the lowest bit set lies in the first byte that is 0 */
			return at + (uint64_t)__builtin_ctzll(zero) / 8;
	}
	while (at < end && a[at] != b[at])
		at++;
	return at;
}

static bool
next_diff(struct part_iterator *it, struct part_run *run)
{
	const struct part *p = &it->part;
	uint64_t first = find_different(p->diff.now, p->diff.twin, it->at, p->bytes);

	it->at = first;
	if (first == p->bytes)
		return false;
	it->at = find_equal(p->diff.now, p->diff.twin, first, p->bytes);
	if (it->at == first)
		it->at++; /* the byte changed back during the comparison */
	*run = (struct part_run){first, it->at - first};
	return true;
}

bool
part_next(struct part_iterator *it, struct part_run *run)
{
	if (it->done)
		return false;
	switch (it->part.kind) {
	case PART_BITMAP:
		return next_bitmap(it, run);
	case PART_DIFF:
		return next_diff(it, run);
	default:
		return next_stride(it, run);
	}
}

uint64_t
part_total(const struct part *p)
{
	struct part_iterator it;
	struct part_run run;
	uint64_t total = 0;

	if (p->kind == PART_BASIC)
		return p->bytes;
	if (p->kind == PART_STRIDE) {
		total = p->stride.block;
		for (uint32_t d = 0; d < p->stride.dims; d++)
			total *= p->stride.count[d];
		return total;
	}
	part_begin(&it, p);
	while (part_next(&it, &run))
		total += run.len;
	return total;
}
