/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching: receives that were posted and messages that nobody waited for yet (LHS-6 to LHS-9;
 * RHI-MSG). A message has a key (communicator, source, tag); a receive wants a communicator, a
 * source or any, and those bits of a tag that it does not ignore. Messages of one source and
 * communicator match in the order they came, receives in the order posted (MPI's rule). Each queue
 * belongs to one thread.
 *
 * Design notes
 * 1. What carries a message, its LHS entry, is never searched. Its key goes into arrays in order of
 *    arrival, and into a hash table with a FIFO for each key. A search with an exact key asks the
 *    table; one for any source, any tag or both compares 16-bit fingerprints of what is left of the
 *    key; one that ignores some bits of the tag compares the fingerprint without the tag, and tags.
 *    So a wildcard reads 2 bytes a message, an odd mask 10.
 * 2. What a search finds is the first in arrival order, so it is the head of its own key's FIFO as
 *    well, whatever was asked: taking it needs no search in the chain.
 * 3. Whatever was taken leaves a hole, fingerprint 0, that scans pass without looking. When the
 *    arrays are full and at least half of them are holes, what is left moves together and the table
 *    is made anew; otherwise they double. Both cost some ns for each message added before.
 * 4. Memory is reserved once for the most that may ever wait and touched as it is needed; it never
 *    moves.
 * 5. Rejected: a list of messages (18 to 51 ns each to search), hash chains by bucket (a popular
 *    key slows down its neighbours), a hash for each wildcard (three random places to write for
 *    each message instead of three in a row).
 */
#ifndef PMX_MATCH_H
#define PMX_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_ANY_SOURCE UINT32_MAX /* no endpoint has that number */
#define MATCH_ANY_TAG    UINT64_MAX /* as `ignore`: all of the tag */
#define MATCH_NONE       UINT32_MAX

struct match_key {
	uint32_t comm;   /* communicator */
	uint32_t source; /* endpoint: node << 16 | context */
	uint64_t tag;
};

struct match_want {
	uint32_t comm;
	uint32_t source; /* or MATCH_ANY_SOURCE */
	uint64_t tag;
	uint64_t ignore; /* bits of the tag that need not be equal */
};

/* The table of FIFOs by key: chains.h. A cache line. */
struct match_group {
	uint32_t hash[5]; /* 0: no chain */
	uint32_t head[5], tail[5];
	uint32_t passed; /* chains that found it full */
};

struct match_table {
	struct match_group *groups;
	uint32_t mask; /* groups - 1, power of two */
};

/* -------------------------------------------------------------- messages that nobody waited for */

/* How arrays are compared: scan.h. */
struct match_scan;

/* What scans do not need. */
struct match_place {
	uint32_t source, comm;
	uint32_t next;  /* of the same key, MATCH_NONE: the last */
	uint32_t where; /* the caller's: where the message lies */
};

struct match_unexpected {
	/* by place: order of arrival, first..end - 1 */
	/* fingerprints of what is left; 0: a hole */
	uint16_t *without_source, *without_tag, *without_both;
	uint64_t *tag;
	struct match_place *places;
	struct match_table table;
	const struct match_scan *scan;
	uint32_t first; /* no message waits before this place */
	uint32_t end;
	uint32_t room; /* places in use at most until note 3 */
	uint32_t live, max;
	uint64_t moves;      /* places moved, ever (note 3) */
	uint64_t renumbered; /* grows when places do not mean the same any more */
	void *memory;
	size_t bytes;
};

/* For at most max (1..2^27) messages. simd_bits: 512, 256 or less, as
 * rte_vect_get_max_simd_bitwidth says; what the CPU does not have is not used. 0, or -ENOMEM. */
int match_unexpected_init(struct match_unexpected *u, uint32_t max, unsigned simd_bits);
void match_unexpected_free(struct match_unexpected *u);
/* All of them leave. */
void match_unexpected_clear(struct match_unexpected *u);
/* The n youngest, in order. Returns how many there was room for: max messages wait then. A burst
 * hides the table's cache misses behind each other. */
uint32_t match_unexpected_add(struct match_unexpected *u, const struct match_key *keys,
	const uint32_t *where, uint32_t n);
/* The oldest that matches: its place, MATCH_NONE: none. Valid until the next add or take. */
uint32_t match_unexpected_find(const struct match_unexpected *u, const struct match_want *want);
/* It leaves; `place` as found. Its `where`. */
uint32_t match_unexpected_take(struct match_unexpected *u, uint32_t place);
/* The first place at or after `place` where one waits, MATCH_NONE: none. */
uint32_t match_unexpected_next(const struct match_unexpected *u, uint32_t place);

/* Bytes of memory in use: it grows with the most that ever waited. */
static inline uint64_t
match_unexpected_bytes(const struct match_unexpected *u)
{
	const uint64_t place = 3 * sizeof(*u->without_both) + sizeof(*u->tag) + sizeof(*u->places);

	return u->room * place + (u->table.mask + 1ull) * sizeof(*u->table.groups);
}

/* ------------------------------------------------------------------ receives */

enum match_class {
	MATCH_EXACT,
	MATCH_NO_SOURCE,
	MATCH_NO_TAG,
	MATCH_NEITHER,
	MATCH_CLASSES,
	MATCH_MASKED = MATCH_CLASSES, /* some bits of the tag */
};

struct match_receive {
	struct match_want want;
	uint64_t order;          /* of posting */
	uint64_t handle;         /* the caller's */
	uint32_t next, previous; /* of its chain, or of the free ones */
	uint8_t kind;            /* enum match_class */
	bool posted;
};

struct match_posted {
	struct match_receive *receives; /* `max` of them */
	struct match_table table;
	uint32_t max, count;
	uint32_t used, free; /* places ever used; a list of those that are free again */
	uint32_t only;       /* the one that is posted, if it is the only one: not in the table
			      * yet; MATCH_NONE */
	size_t bytes;
	uint32_t of[MATCH_CLASSES + 1]; /* how many are posted of each */
	uint32_t masked_head, masked_tail;
	uint64_t orders;
};

/* For at most max (1..2^27) receives. 0, or -ENOMEM. */
int match_posted_init(struct match_posted *p, uint32_t max);
void match_posted_free(struct match_posted *p);
void match_posted_clear(struct match_posted *p);
/* The youngest. Its number, for match_posted_cancel; MATCH_NONE: max are posted. */
uint32_t match_posted_add(struct match_posted *p, const struct match_want *want, uint64_t handle);
/* The oldest that takes such a message leaves, and *handle is its own; false: none. */
bool match_posted_take(struct match_posted *p, const struct match_key *key, uint64_t *handle);
/* It leaves; false: it is not posted any more. */
bool match_posted_cancel(struct match_posted *p, uint32_t number);

/* The only receive that is posted leaves. */
static inline void
match_posted_leave_only(struct match_posted *p)
{
	struct match_receive *r = &p->receives[p->only];

	r->posted = false;
	r->next = p->free;
	p->free = p->only;
	p->only = MATCH_NONE;
	p->count = 0;
}

/* match_posted_add, with the common case in line: no other is posted. */
static inline uint32_t
match_posted_put(struct match_posted *p, const struct match_want *want, uint64_t handle)
{
	uint32_t number = p->free;

	if (__builtin_expect(p->count != 0 || number == MATCH_NONE, 0))
		return match_posted_add(p, want, handle);
	struct match_receive *r = &p->receives[number];

	p->free = r->next;
	r->want = *want;
	r->order = p->orders++;
	r->handle = handle;
	r->posted = true;
	p->count = 1;
	p->only = number;
	return number;
}

static inline bool
match_accepts(const struct match_want *want, const struct match_key *key)
{
	return want->comm == key->comm &&
		(want->source == MATCH_ANY_SOURCE || want->source == key->source) &&
		((want->tag ^ key->tag) & ~want->ignore) == 0;
}

#endif
