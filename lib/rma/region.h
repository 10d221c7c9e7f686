/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The regions of memory that others may reach: a table at their owner's engine, and the one check
 * that every access from outside passes (RMA-3). A region is named by its key alone or by an area
 * ID of its context (RHI-AREA; RHiNET, 1999, section 2.2). The caller's memory, one thread; nothing
 * is allocated after region_table_init.
 *
 * Design notes
 * 1. A key is a place in the table (16 bits) and 48 random bits, which the caller draws anew for
 *    each region: it can be neither guessed nor used again after its region is gone.
 * 2. An access is checked as a whole, before a byte of it is touched, against a copy of its words:
 *    they come from the network.
 */
#ifndef PMX_RMA_REGION_H
#define PMX_RMA_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_NO_AREA   UINT32_MAX
#define REGION_BYTES_MAX (1ull << 40)

enum region_right {
	REGION_READ = 1,  /* pull */
	REGION_WRITE = 2, /* push */
};

/* What may be wrong with an access; goes to its initiator. */
enum region_verdict {
	REGION_OK,
	REGION_UNKNOWN,  /* no such key or area, or no longer */
	REGION_BOUNDS,   /* reaches beyond the region */
	REGION_RIGHTS,   /* the region may not be read, or written, by others */
	REGION_STRANGER, /* of another context than the access names */
};

struct region {
	uint64_t key;     /* 0: the place is free */
	uint64_t base;    /* address in its owner's process */
	uint64_t len;     /* 1..REGION_BYTES_MAX */
	uint32_t area;    /* ID, unique in its context, or REGION_NO_AREA */
	uint16_t ctx;     /* owner */
	uint8_t rights;   /* enum region_right */
	uint8_t method;   /* how its memory is reached: the caller's */
	void *memory;     /* the caller's */
	uint32_t watched; /* the caller's */
};

struct region_table {
	struct region *regions;
	uint32_t count;     /* places, 1..65535 */
	uint32_t free_from; /* no place before this one is free */
};

/* An access from outside. */
struct region_access {
	uint64_t key; /* 0: by area */
	uint32_t area;
	uint16_t ctx;  /* whom it is addressed to */
	uint8_t right; /* that it needs */
	uint64_t at;   /* by key: address in the owner's process; by area: offset */
	uint64_t len;  /* 0.. */
};

/* regions: `count` of them, zeroed, the caller's as long as the table is used. */
void region_table_init(struct region_table *t, struct region *regions, uint32_t count);

/* Add *r, with `random` in its key. 0 and r->key; -EINVAL: len, rights or base + len out of range;
 * -EEXIST: the context has that area ID; -ENOSPC: the table is full. */
int region_add(struct region_table *t, struct region *r, uint64_t random);
/* The region of a key, for its owner; NULL. Valid until it is removed. */
struct region *region_find(const struct region_table *t, uint64_t key);
void region_remove(struct region_table *t, struct region *r);
/* The next region of a context at or after place *at, which moves on; NULL: no more. */
struct region *region_of(const struct region_table *t, uint16_t ctx, uint32_t *at);

/* The region that an access names, whoever's it is; NULL. */
struct region *region_named(const struct region_table *t, const struct region_access *a);
/* May that be done? With REGION_OK, *r and the offset in it. */
enum region_verdict region_check(const struct region_table *t, const struct region_access *a,
	const struct region **r, uint64_t *offset);

#endif
