/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which bytes of a region a partial transfer moves (RHI-PART; RHiNET, 1999, section 2.7): all of
 * them, blocks at equal distances, units by a bitmap, or what changed since a twin was kept. Each
 * of these is a sequence of runs in ascending order that do not touch; packed one after the other
 * they are what is sent. These are pure functions over the caller's memory; an iterator is used by
 * one thread.
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
	PART_DIFF,   /* the bytes that differ from `twin` */
};

struct part {
	enum part_kind kind;
	uint64_t bytes; /* of the region: 1..PART_BYTES_MAX; all runs lie in it */
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
			const uint64_t *bits; /* a bit for each unit that begins in the region,
					       * lowest bit first */
		} bitmap;
		struct {
			const void *now, *twin; /* `bytes` each */
		} diff;
	};
};

struct part_run {
	uint64_t offset, len;
};

/* The state of an iteration, in the caller's memory, set up by part_begin. */
struct part_iterator {
	struct part part;              /* normalised */
	uint64_t at;                   /* BITMAP: unit; DIFF: byte */
	uint64_t index[PART_DIMS_MAX]; /* STRIDE, BASIC */
	bool done;
};

/* Return NULL if *p is valid, otherwise a static sentence that says what is wrong. */
const char *part_check(const struct part *p);
/* Begin an iteration over *p, which must have passed part_check. *p is copied; what it points at is
 * not. */
void part_begin(struct part_iterator *it, const struct part *p);
/* Leave out runs that end before byte `from` of the region, as far as that can be done at once:
 * runs before it may still come. */
void part_seek(struct part_iterator *it, uint64_t from);
/* Get the next run. Returns false if there are no more. DIFF: bytes that change during the
 * iteration may or may not be found. */
bool part_next(struct part_iterator *it, struct part_run *run);
/* Return the bytes of all runs together. DIFF: this compares all bytes. */
uint64_t part_total(const struct part *p);

#endif
