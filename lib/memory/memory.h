/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of applications, as the engine accesses it: in pieces that both processes have mapped, or
 * by the kernel (RMA-1, RMA-2). A space is of one context and belongs to its lane; pieces are made,
 * unmapped and reaped by other threads, as said at each function.
 */
#ifndef PMX_MEMORY_H
#define PMX_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rte_branch_prediction.h>
#include <rte_memory.h>

#include "channel/channel.h"

struct link;

enum memory_method {
	MEMORY_BY_KERNEL,   /* by process_vm_readv, process_vm_writev: any memory */
	MEMORY_SHARED,      /* pages of a sealed memfd that both have mapped: of pmx_alloc() */
	MEMORY_ADOPTED,     /* the same, mapped over what the application had there */
	MEMORY_SHARED_DMA,  /* SHARED, and the links' devices can read it: by physical addresses, or
			     * mapped in their IOMMU */
	MEMORY_ADOPTED_DMA, /* likewise */
	MEMORY_METHODS
};
extern const char *const memory_method_name[MEMORY_METHODS];

/* A piece that this process has mapped. */
struct memory {
	uint8_t *base;   /* where this process has it */
	uint64_t client; /* where the client has it */
	uint64_t len;
	rte_iova_t *pages;   /* bus addresses of its pages; NULL: the same as the virtual ones */
	struct memory *next; /* next in mappings.leaving or mappings.left */
	void *owner;         /* freed with it, by end_owner; may be NULL */
	void (*end_owner)(void *owner);
	int fd;                /* its descriptor, kept for a primary that takes over; 0: none */
	_Atomic uint32_t held; /* frames that refer to it */
	uint16_t watched;      /* ADOPTED: index of channel_shm.revoked; otherwise
				* REGIONS_WATCHED */
	uint8_t page_shift;    /* log2 of the page size of `pages` */
	bool for_devices;      /* the links' devices can read it */
};

/* All that a node has mapped of its applications. */
struct mappings {
	const struct link *links; /* the node's links, *link_count of them */
	const unsigned *link_count;
	pthread_mutex_t lock; /* held to unmap memory, and by threads other than lanes to read
			       * regions of thin clients */
	_Atomic(struct memory *) leaving; /* pieces that no context has any more, for
					   * memory_reap() */
	struct memory *left;              /* the same, but ports may still read them; used by the
					   * reaper only */
	int reaper;                       /* eventfd that wakes the reaper; 0: there is none, and
					   * memory_retire() reaps itself */
};

/* A context's memory: the pieces that it has shared, and the process that has the rest. */
struct memory_space {
	struct memory *pieces[MEMORIES_MAX]; /* NULL: the place is free */
	uint32_t count;                      /* places in use */
	uint64_t bytes, most;                /* of all pieces together; and their limit */
	int pid;                             /* process for process_vm_readv and
					      * process_vm_writev */
	int mm_fd; /* /proc/PID/mem of the process as it was at the open; -1: none */
};

/* A range of a context's memory. */
struct bytes {
	struct memory_space *space;
	struct memory *memory; /* NULL: accessed by the kernel */
	uint64_t at;           /* the client's address */
	uint64_t len;
};

/* ---------------------------------------------------------------- bytes (memory.c); on the lane */

/* Copy len bytes to the range, at `offset`. Return 0, or -EFAULT if not all of it is there; then an
 * unknown part of it was copied. */
int memory_write(const struct bytes *to, uint64_t offset, const void *from, uint32_t len);
/* Copy len bytes from the range, at `offset`. Return 0, or -EFAULT as memory_write() does. */
int memory_read(const struct bytes *from, uint64_t offset, void *to, uint32_t len);
/* Copy the runs of a frame to their places: positions begin at `offset`, and must be within
 * to->len. Add the bytes to *placed. Return 0, or EPROTO or EFAULT, perhaps after some runs were
 * placed. */
uint8_t memory_place(const struct bytes *to, uint64_t offset, const uint8_t *runs, uint32_t len,
	uint64_t *placed);
/* Copy the bytes of the runs, from `offset` on, behind their heads in a frame: memory_place() the
 * other way. The runs must be in the range. Return 0, or -EFAULT. */
int memory_fill(const struct bytes *from, uint64_t offset, uint8_t *runs, uint32_t len);

/* Copies by the kernel between memory here and ranges of one space, gathered so that many take one
 * system call. */
#define SCATTER_MAX 64
struct scatter {
	struct memory_space *space;
	uint64_t total; /* bytes that were added and not copied yet */
	unsigned mine_count, theirs_count;
	bool write; /* to the space; otherwise from it */
	struct iovec mine[SCATTER_MAX], theirs[SCATTER_MAX];
};

void scatter_begin(struct scatter *s, struct memory_space *space, bool write);
/* Add a range at the client's address `at`; `mine` is used until scatter_end(). When SCATTER_MAX
 * have been added, copy these first. Return 0, or -EFAULT as scatter_end() does. */
int scatter_add(struct scatter *s, uint64_t at, void *mine, uint32_t len);
/* Copy what was added. Return 0, or -EFAULT if not all of it is there; then an unknown part of it
 * was copied. */
int scatter_end(struct scatter *s);

/* ------------------------------------------------------------------ pieces (pieces.c) */

void mappings_init(struct mappings *x, const struct link *links, const unsigned *link_count);
/* Unmap all that was retired, at the end, when nothing refers to it any more. */
void mappings_free(struct mappings *x);

/* Maps an application's descriptor, for the links' devices as well if they can read it. client:
 * address in the application's process. adopted: as attach_request.adopted. The result is of no
 * context yet. NULL with errno, EINVAL: the descriptor is unsuitable. Not to be called on a lane
 * that others wait for. */
enum {
	MEMORY_OF_THIN = 1, /* of a thin client, which is not trusted */
	MEMORY_AGAIN = 2,   /* the previous primary had it */
};
struct memory *memory_make(struct mappings *x, int fd, uint64_t len, uint64_t client,
	uint16_t adopted, unsigned flags);
/* memory_discard unmaps a piece at once, memory_retire when ports have given back all frames that
 * refer to it. */
void memory_discard(struct mappings *x, struct memory *m);
void memory_retire(struct mappings *x, struct memory *m);
/* Unmap retired pieces that nothing refers to. Return true if some are left. It is called by one
 * thread: the one that waits on mappings.reaper, if there is one. */
bool memory_reap(struct mappings *x);
enum memory_method memory_method(const struct memory *m);
/* Let go of a piece to which a frame, or a port, does not refer any more. Any thread may call
 * this. */
void memory_let_go(struct memory *m);

/* Add a piece to the context, which owns it from then on. Return its number; -ENOSPC if all places
 * are used, -ENOMEM if the context would have more bytes than it may. */
int space_add(struct memory_space *s, struct memory *m);
/* Return the piece of that number if [at, at + len), at the client's addresses, is in it; otherwise
 * NULL. */
struct memory *space_at(const struct memory_space *s, uint32_t number, uint64_t at, uint64_t len);
/* Remove one piece, or all, from the context, and retire them. */
void space_remove(struct mappings *x, struct memory_space *s, uint32_t number);
void space_end(struct mappings *x, struct memory_space *s);

/* Return the bus address of the bytes at `offset`; RTE_BAD_IOVA: they are not contiguous for
 * devices. */
static inline rte_iova_t
memory_iova(const struct memory *m, uint64_t offset, uint32_t len)
{
	if (likely(m->pages == NULL))
		return (rte_iova_t)(uintptr_t)(m->base + offset);
	if (offset >> m->page_shift != (offset + len - 1) >> m->page_shift)
		return RTE_BAD_IOVA;
	return m->pages[offset >> m->page_shift] + (offset & ((1ull << m->page_shift) - 1));
}

#endif
