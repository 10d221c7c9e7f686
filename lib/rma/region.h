/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The regions of memory that others may access: a table in the owner's engine, and the one check
 * that every access from outside has to pass (RMA-3). A region is named by its key alone or by an
 * area ID of its context (RHI-AREA; RHiNET, 1999, section 2.2). The table lies in the caller's
 * memory and is used by one thread; nothing is allocated after region_table_init.
 *
 * Design notes
 * 1. A key consists of a place in the table (16 bits) and 48 random bits, which the caller draws
 *    anew for each region. So it cannot be guessed, and it is useless once its region is gone.
 * 2. An access is checked as a whole, before a byte of it is touched, and on a copy of its fields,
 *    because they come from the network.
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
	/* also for strangers who name it by its area ID, not only for its own context and the
	 * members of its group; a key is for whoever has it */
	REGION_ANYONE = 4,
};

/* The result of checking an access, which its initiator is told. */
enum region_verdict {
	REGION_OK,
	REGION_UNKNOWN,  /* no such key or area, or it is gone */
	REGION_BOUNDS,   /* reaches beyond the region */
	REGION_RIGHTS,   /* the region may not be read, or written, by others, or not by this one */
	REGION_STRANGER, /* it belongs to another context than the access names */
	REGION_OUTSIDER, /* it is a group's, of which this one is no member, or no longer */
};

struct region {
	uint64_t key;     /* 0: the place is free */
	uint64_t base;    /* address in its owner's process */
	uint64_t len;     /* 1..REGION_BYTES_MAX */
	uint32_t area;    /* ID, unique in its context and group, or REGION_NO_AREA */
	uint16_t ctx;     /* owner */
	uint8_t rights;   /* enum region_right */
	uint8_t method;   /* how its memory is accessed; for the caller */
	void *memory;     /* the caller's */
	uint32_t watched; /* the caller's */
	uint32_t group;   /* number of the area's group; 0: none */
};

struct region_table {
	struct region *regions;
	uint32_t count;     /* places, 1..65535 */
	uint32_t free_from; /* no place before this one is free */
};

/* An access from outside. */
struct region_access {
	uint64_t key; /* 0: by area */
	uint32_t area, group;
	bool insider;  /* by area: of that context, or of a member of the group */
	uint16_t ctx;  /* to which it is addressed */
	uint8_t right; /* the right that it needs */
	uint64_t at;   /* by key: address in the owner's process; by area: offset */
	uint64_t len;  /* 0.. */
};

/* Set up a table over `regions`: `count` zeroed elements that the caller owns and keeps as long as
 * the table is used. */
void region_table_init(struct region_table *t, struct region *regions, uint32_t count);

/* Add a copy of *r, with `random` in its key. Returns 0 and r->key; -EINVAL if len, rights or base
 * + len is out of range; -EEXIST if the context already has that area ID in
 * that group; -ENOSPC if the table is
 * full. */
int region_add(struct region_table *t, struct region *r, uint64_t random);
/* Return the region with that key, for its owner, or NULL. It is valid until it is removed. */
struct region *region_find(const struct region_table *t, uint64_t key);
void region_remove(struct region_table *t, struct region *r);
/* Return the next region of a context at or after place *at, and advance *at; NULL if there are no
 * more. */
struct region *region_of(const struct region_table *t, uint16_t ctx, uint32_t *at);

/* Return the region that an access names, whichever context owns it, or NULL. */
struct region *region_named(const struct region_table *t, const struct region_access *a);
/* Check whether the access is allowed. With REGION_OK, set *r and the offset in it. */
enum region_verdict region_check(const struct region_table *t, const struct region_access *a,
	const struct region **r, uint64_t *offset);

#endif
