/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Distributed shared memory, private parts (SCASH: Harada et al., 1999; home-based lazy release
 * consistency: Zhou, Iftode, Li, OSDI 1996), over areas of groups, pushes and pulls, locks and
 * barriers of the public verbs only.
 *
 * Design notes
 * 1. A member's copy is mapped twice: `view` is the application's, whose protection follows the
 *    states of the pages; `pages` is the library's and the engine's, an area of the group that
 *    others push to and pull from, always readable and writable. So a page is filled without
 *    being visible, by whatever thread, and no byte is copied but by the transfer.
 * 2. A fault is a signal in the thread that accesses, which fetches the page itself. With
 *    userfaultfd another thread would be woken for that and would wake the first one again: two
 *    switches in place of a signal.
 * 3. Who changed what is told by a log of each member in its control area (notices.c), which the
 *    others pull when they synchronise. A log tells of all that happened before in any order of
 *    locks, so a member that reads all logs learns at least what it must.
 * 4. At its home a page costs nothing until another member has asked for it (PAGE_OWN).
 * 5. A page that was used since it was fetched, and that others have changed, is fetched again when
 *    that is learnt, with all others of the kind: then their homes are in this library as well, and
 *    one answer brings many. It stays inaccessible, so that one that is not used any more is
 *    noticed, and not fetched again.
 */
#ifndef PMX_DSM_H
#define PMX_DSM_H

#include <pthread.h>
#include <stdatomic.h>

#include "pmx/dsm.h"

#define DSM_AREA    0xFFFFFFF0u /* of the group: control, and behind it the pages */
#define DSM_BATCH   32          /* transfers that are waited for together */
#define DSM_RECENT  61
#define DSM_LOG     16384 /* notices that a member may be late by */
#define DSM_RUN     4095  /* most pages of a notice */
#define DSM_WAIT_US 60000000

/* The states that a page can have at this member. */
enum page_state {
	PAGE_INVALID, /* not accessible: to be fetched from its home */
	PAGE_FETCHED, /* not accessible: a copy is here already, but was not used yet */
	PAGE_CLEAN,   /* readable; a fetched copy */
	PAGE_DIRTY,   /* writable; the twin has what was fetched; in `dirty` */
	PAGE_OWN,     /* home: writable; nobody has been told of a copy */
	PAGE_WATCHED, /* home: readable; others may have copies */
	PAGE_WRITTEN, /* home: writable, was WATCHED; in `written` */
};

/* The beginning of the area of each member; the rest follows at offsets that all compute. */
struct control_head {
	_Atomic uint64_t count;      /* notices since the beginning */
	uint64_t layout[2];          /* pmx_dsm.layout at the last two barriers, by their parity:
				      * who is fast may be in the next one already */
	uint64_t recent[DSM_RECENT]; /* the last notices, by number modulo DSM_RECENT */
};

/* Pages, some of them twice; most is at least twice the number of all. */
struct page_list {
	uint32_t *pages;
	uint32_t count, most;
};

struct pmx_dsm {
	struct pmx_context *ctx;
	struct pmx_group *group;
	uint32_t rank, size;
	pthread_mutex_t mutex; /* of all below; taken in the signal handler, too */
	int error;             /* 0, or why the memory is lost */
	uint64_t key;          /* of the areas, for transfers */
	struct pmx_remote registered;
	uint64_t layout;   /* changes with each allocation, the same at all members */
	uint64_t barriers; /* that were entered */

	/* own memory: control head, log, wanted, heads of others, pages */
	uint8_t *area;
	uint64_t area_bytes;
	struct control_head *head;
	uint64_t *log;            /* notice n at n % DSM_LOG */
	_Atomic uint8_t *wanted;  /* by page, written by others: one of them fetches it */
	struct control_head *got; /* by rank: the heads of the others as they were pulled */
	uint64_t *slice;          /* notices pulled from another's log, DSM_LOG of them */
	uint8_t *pages;
	uint64_t pages_at; /* offset of pages in the area */

	uint8_t *view, *twins;
	uint64_t page_bytes, bytes, allocated;
	uint32_t page_count;
	uint8_t *state;                        /* by page: enum page_state */
	uint16_t *home;                        /* by page: rank */
	struct page_list dirty, written, told; /* told: to be told of at the next release */
	struct page_list doubted;              /* during an acquire: changed by others */
	uint64_t *seen;                        /* by rank: notices that were read */

	/* transfers under way */
	int32_t status[DSM_BATCH];
	struct pmx_part parts[DSM_BATCH];
	unsigned begun;

	struct pmx_dsm_stat stat;
};

/* ---------------------------------------------------------------- transfers (transfer.c) */

/* Begin to push or pull between `local` and the area of another member. part: NULL, or copied. */
int dsm_push(struct pmx_dsm *d, uint32_t rank, uint64_t at, const void *local, uint64_t len,
	const struct pmx_part *part);
int dsm_pull(struct pmx_dsm *d, uint32_t rank, uint64_t at, void *local, uint64_t len);
/* Wait until all have ended. Returns 0 or the first error. */
int dsm_finish(struct pmx_dsm *d);

/* ---------------------------------------------------------------- pages (pages.c) */

/* Make pages accessible, fetched from their homes where that is needed; all are allocated. */
int dsm_access(struct pmx_dsm *d, uint32_t first, uint32_t count, bool writes);
/* Have all changes at their homes, and tell the others of them. */
int dsm_release(struct pmx_dsm *d);
/* Forget what others have changed. */
int dsm_acquire(struct pmx_dsm *d);
/* Return whether this member has a copy of a page whose home is elsewhere. */
static inline bool
dsm_has_copy(const struct pmx_dsm *d, uint32_t page)
{
	return d->state[page] == PAGE_FETCHED || d->state[page] == PAGE_CLEAN ||
		d->state[page] == PAGE_DIRTY;
}
void dsm_list_add(struct page_list *l, uint32_t page);
void dsm_list_sort(struct page_list *l);

/* ---------------------------------------------------------------- notices (notices.c) */

/* Tell others of the pages in `told`, and empty it. */
void dsm_tell(struct pmx_dsm *d);
/* Collect the pages that others have told of since the last time in `doubted`. Returns 1 if that
 * cannot be known any more: they are all doubted; 0; or an error. */
int dsm_ask(struct pmx_dsm *d);

/* ---------------------------------------------------------------- faults (fault.c) */

/* Have faults in its view handled. 0; -EEXIST: too many. */
int dsm_watch(struct pmx_dsm *d);
void dsm_unwatch(struct pmx_dsm *d);

#endif
