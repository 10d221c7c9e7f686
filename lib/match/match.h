/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching of posted receives with unexpected messages (LHS-6 to LHS-9; RHI-MSG). A message has a
 * key (communicator, source, tag). A receive wants a communicator, one source or any, and a tag, of
 * which it may ignore some or all bits. Messages of one source and communicator match in the order
 * of arrival, and receives in the order of posting (MPI's rule). Each queue belongs to one thread.
 *
 * Design notes
 * 1. A search never touches the LHS entries that carry messages. The key of a message goes into
 *    arrays in order of arrival, and into a hash table with a FIFO for each key. A search with an
 *    exact key uses the table. A search for any source, any tag or both compares 16-bit
 *    fingerprints of the rest of the key. A search that ignores some bits of the tag compares the
 *    fingerprint without the tag, and then tags. So a wildcard reads 2 bytes per message, another
 *    mask at most 10.
 * 2. A search finds the first match in arrival order, so whatever was searched for, it is also the
 *    head of its own key's FIFO: taking it needs no search in the chain.
 * 3. A message that was taken leaves a hole with the fingerprint 0, which no scan matches. When the
 *    arrays are full and at least half of the places are holes, they are compacted and the table is
 *    rebuilt; otherwise they double. Amortised, both cost some ns per message added.
 * 4. Address space is reserved once for the most messages that may ever wait, and touched as
 *    needed; it never moves.
 * 5. Rejected: a list of messages (18 to 51 ns each to search), hash chains by bucket (a popular
 *    key slows down its neighbours), a hash table for each kind of wildcard (three writes to random
 *    places for each message instead of three sequential ones).
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
	uint32_t passed; /* chains that passed it on because it was full: chains.h */
};

struct match_table {
	struct match_group *groups;
	uint32_t mask; /* groups - 1, power of two */
};

/* -------------------------------------------------------------- messages that nobody waited for */

/* The functions that compare arrays: scan.h. */
struct match_scan;

/* The part of a message's record that scans do not read. */
struct match_place {
	uint32_t source, comm;
	uint32_t next;  /* next place with the same key, MATCH_NONE: this is the last */
	uint32_t where; /* for the caller: where the message lies */
};

struct match_unexpected {
	/* arrays by place, which is in order of arrival: first..end - 1 */
	/* fingerprints of the rest of the key; 0: a hole */
	uint16_t *without_source, *without_tag, *without_both;
	uint64_t *tag;
	struct match_place *places;
	struct match_table table;
	const struct match_scan *scan;
	uint32_t first; /* no message waits before this place */
	uint32_t end;
	uint32_t room; /* most places until make_room(): note 3 */
	uint32_t live, max;
	uint64_t moves;      /* places ever moved (note 3) */
	uint64_t renumbered; /* incremented when places are renumbered */
	void *memory;
	size_t bytes;
};

/* Set up a queue of at most max (1..2^27) messages. simd_bits: 512, 256 or less, as
 * rte_vect_get_max_simd_bitwidth returns; what the CPU does not support is not used. Returns 0 or
 * -ENOMEM. */
int match_unexpected_init(struct match_unexpected *u, uint32_t max, unsigned simd_bits);
void match_unexpected_free(struct match_unexpected *u);
/* Remove all messages. */
void match_unexpected_clear(struct match_unexpected *u);
/* Append n messages, in order of arrival. Returns how many of them there was room for: after fewer
 * than n, max messages wait. Adding several at once overlaps the cache misses of the table. */
uint32_t match_unexpected_add(struct match_unexpected *u, const struct match_key *keys,
	const uint32_t *where, uint32_t n);
/* Return the place of the oldest message that matches, or MATCH_NONE. It is valid until the next
 * add or take. */
uint32_t match_unexpected_find(const struct match_unexpected *u, const struct match_want *want);
/* Remove the message at a place that match_unexpected_find returned. Returns its `where`. */
uint32_t match_unexpected_take(struct match_unexpected *u, uint32_t place);
/* Return the first place at or after `place` at which a message waits, or MATCH_NONE. */
uint32_t match_unexpected_next(const struct match_unexpected *u, uint32_t place);

/* Return the bytes of memory in use, which grow with the most messages that ever waited. */
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
	MATCH_MASKED = MATCH_CLASSES, /* ignores some bits of the tag */
};

struct match_receive {
	struct match_want want;
	uint64_t order;          /* of posting */
	uint64_t handle;         /* the caller's */
	uint32_t next, previous; /* links in its chain; next also in the list of free places */
	uint8_t kind;            /* enum match_class */
	bool posted;
};

struct match_posted {
	struct match_receive *receives; /* `max` of them */
	struct match_table table;
	uint32_t max, count;
	uint32_t used, free; /* places ever used; head of a list of those that are free again */
	uint32_t only;       /* the only receive that is posted, if it is not in the table yet
			      * (posted.c, note 3); MATCH_NONE */
	size_t bytes;
	uint32_t of[MATCH_CLASSES + 1]; /* how many are posted of each class, with MATCH_MASKED */
	uint32_t masked_head, masked_tail;
	uint64_t orders;
};

/* Set up a queue of at most max (1..2^27) receives. Returns 0 or -ENOMEM. */
int match_posted_init(struct match_posted *p, uint32_t max);
void match_posted_free(struct match_posted *p);
void match_posted_clear(struct match_posted *p);
/* Post a receive. Returns its number, for match_posted_cancel, or MATCH_NONE if max are posted. */
uint32_t match_posted_add(struct match_posted *p, const struct match_want *want, uint64_t handle);
/* Remove the oldest receive that accepts a message with that key, and set *handle to its handle.
 * Returns false if there is none. */
bool match_posted_take(struct match_posted *p, const struct match_key *key, uint64_t *handle);
/* Remove a receive. Returns false if it is not posted any more. */
bool match_posted_cancel(struct match_posted *p, uint32_t number);

/* Remove the receive that is posted as the only one. */
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

/* match_posted_add with the common case inline: no other receive is posted. */
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
