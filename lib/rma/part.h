/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which bytes of a region a partial transfer moves (RHI-PART; RHiNET, 1999, section 2.7): all of
 * them, blocks at equal distances, units by a bitmap, or what changed since a twin was kept. Each
 * is a sequence of runs, ascending and apart; packed one after the other they are what travels.
 * Pure functions over the caller's memory; one iterator belongs to one thread.
 */
#ifndef PMX_RMA_PART_H
#define PMX_RMA_PART_H

#include <stdbool.h>
#include <stdint.h>

#define PART_BYTES_MAX (1ull << 40) /* of a region */
#define PART_DIMS_MAX  3
#define PART_UNIT_MIN  4
#define PART_UNIT_MAX  4096

enum part_kind {
	PART_BASIC,
	PART_STRIDE, /* block bytes at every sum of i[d] * interval[d], 0 <= i[d] < count[d] */
	PART_BITMAP, /* unit bytes for each bit that is set */
	PART_DIFF,   /* what differs from `twin`, byte by byte */
};

struct part {
	enum part_kind kind;
	uint64_t bytes; /* of the region: 1..PART_BYTES_MAX; runs lie inside */
	union {
		struct {
			uint32_t dims;  /* 1..PART_DIMS_MAX, innermost first */
			uint64_t block; /* 1.. */
			/* at least the extent of what it repeats */
			uint64_t interval[PART_DIMS_MAX];
			uint64_t count[PART_DIMS_MAX]; /* 1.. */
		} stride;
		struct {
			uint32_t unit;        /* power of two, PART_UNIT_MIN..PART_UNIT_MAX */
			const uint64_t *bits; /* one for each unit begun in the region, lowest
					       * first */
		} bitmap;
		struct {
			const void *now, *twin; /* `bytes` each */
		} diff;
	};
};

struct part_run {
	uint64_t offset, len;
};

/* Where an iteration stands; the caller's memory, set up by part_begin. */
struct part_iterator {
	struct part part;              /* normalised */
	uint64_t at;                   /* BITMAP: unit; DIFF: byte */
	uint64_t index[PART_DIMS_MAX]; /* STRIDE, BASIC */
	bool done;
};

/* NULL, or what is wrong with it, as a sentence. */
const char *part_check(const struct part *p);
/* p must have passed part_check; it is copied, what it points at is not. */
void part_begin(struct part_iterator *it, const struct part *p);
/* The next run; false: there is none. DIFF: bytes that change meanwhile may be missed or not. */
bool part_next(struct part_iterator *it, struct part_run *run);
/* All runs together, bytes. DIFF: looks at all of them. */
uint64_t part_total(const struct part *p);

#endif
