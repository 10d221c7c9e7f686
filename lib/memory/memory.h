/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of applications, as the engine reaches it: by pieces that both processes have mapped, or
 * by the kernel (RMA-1, RMA-2). A space is one context's and belongs to its lane; making, unmapping
 * and reaping are other threads', as said.
 */
#ifndef PMX_MEMORY_H
#define PMX_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_memory.h>

#include "channel/channel.h"

struct iovec;
struct link;

enum memory_method {
	MEMORY_BY_KERNEL,   /* process_vm_readv, process_vm_writev: any memory */
	MEMORY_SHARED,      /* pages of a sealed memfd that both have mapped: of pmx_alloc */
	MEMORY_ADOPTED,     /* the same, in the place of what the application had there */
	MEMORY_SHARED_DMA,  /* ... which the links' devices read as well: by physical addresses, or
			     * mapped in */
	MEMORY_ADOPTED_DMA, /* their IOMMU */
	MEMORY_METHODS
};
extern const char *const memory_method_name[MEMORY_METHODS];

/* A piece that is mapped here. */
struct memory {
	uint8_t *base;   /* our mapping */
	uint64_t client; /* where the client has it */
	uint64_t len;
	rte_iova_t *pages;   /* bus addresses of its pages; NULL: as the virtual ones */
	struct memory *next; /* in the list of those that leave */
	void *owner;         /* what ends with it, by end_owner; NULL */
	void (*end_owner)(void *owner);
	int fd;                /* for a primary that takes over; 0: none */
	_Atomic uint32_t held; /* frames that refer to it */
	uint16_t watched;      /* ADOPTED: index of channel_shm.revoked; otherwise
				* REGIONS_WATCHED */
	uint8_t page_shift;    /* of pages */
	bool for_devices;      /* the links' devices may read it */
};

/* What a node has mapped of all its applications. */
struct mappings {
	const struct link *links; /* whose devices may read it: *link_count of them */
	const unsigned *link_count;
	pthread_mutex_t lock; /* regions of thin clients are unmapped with it, and read by other
			       * threads than lanes */
	_Atomic(struct memory *) leaving; /* no context has these any more: memory_reap */
	struct memory *left;              /* ... and ports may still read these; the reaper's */
	int reaper;                       /* eventfd that calls who reaps; 0: who retires reaps */
};

/* A context's memory: the pieces that it has given, and whom the kernel is asked for the rest. */
struct memory_space {
	struct memory *pieces[MEMORIES_MAX]; /* NULL: the place is free */
	uint32_t count;                      /* of them used */
	uint64_t bytes, most;                /* of them together; and how many they may have */
	int pid;                             /* whom process_vm_* shall ask */
	int mm_fd; /* of the memory that its process had at the open; -1: our own */
};

/* Bytes of a context's memory. */
struct bytes {
	struct memory_space *space;
	struct memory *memory; /* NULL: by the kernel */
	uint64_t at;           /* the client's address */
	uint64_t len;
};

/* ---------------------------------------------------------------- bytes (memory.c); on the lane */

/* 0, -EFAULT: not (all) there; nothing says how much of it was copied. */
int memory_write(const struct bytes *to, uint64_t offset, const void *from, uint32_t len);
/* The runs of a frame go to their places, which lie in to->len from `offset` on; their bytes are
 * added to *placed. 0, or what is wrong: EPROTO, EFAULT, perhaps behind some that were placed. */
uint8_t memory_place(const struct bytes *to, uint64_t offset, const uint8_t *runs, uint32_t len,
	uint64_t *placed);
/* The other way: from `offset` on behind the heads of the runs of a frame, which fit it. 0,
 * -EFAULT.
 */
int memory_fill(const struct bytes *from, uint64_t offset, uint8_t *runs, uint32_t len);
/* From `offset` on into n pieces, `all` bytes together; `from` is not mapped. */
int memory_gather(const struct bytes *from, uint64_t offset, const struct iovec *pieces, unsigned n,
	uint64_t all);

/* ------------------------------------------------------------------ pieces (pieces.c) */

void mappings_init(struct mappings *x, const struct link *links, const unsigned *link_count);
/* At the end, when nothing refers to any. */
void mappings_free(struct mappings *x);

/* A descriptor of an application, mapped, for the links' devices as well if they can; no context's
 * yet. adopted: as attach_request.adopted. NULL with errno, EINVAL: the descriptor is at fault. Any
 * thread but a lane that others wait for. */
enum {
	MEMORY_OF_THIN = 1, /* its client is not trusted */
	MEMORY_AGAIN = 2,   /* the primary before had it */
};
struct memory *memory_make(struct mappings *x, int fd, uint64_t len, uint64_t client,
	uint16_t adopted, unsigned flags);
/* Unmapped at once; or when ports have given back what refers to it. */
void memory_discard(struct mappings *x, struct memory *m);
void memory_retire(struct mappings *x, struct memory *m);
/* Frees what left and nothing refers to; true: there is more. One thread: mappings.reaper's, if
 * there is one. */
bool memory_reap(struct mappings *x);
enum memory_method memory_method(const struct memory *m);
/* A frame, or a port, refers to it no longer. Any thread. */
void memory_let_go(struct memory *m);

/* The context has this piece from now on: its number, -ENOSPC, -ENOMEM: more bytes than it may
 * have. */
int space_add(struct memory_space *s, struct memory *m);
/* The piece of that number if [at, at + len) lies in it; NULL. */
struct memory *space_at(const struct memory_space *s, uint32_t number, uint64_t at, uint64_t len);
/* The piece, or all of them, is no longer the context's. */
void space_remove(struct mappings *x, struct memory_space *s, uint32_t number);
void space_end(struct mappings *x, struct memory_space *s);

/* What a device calls the bytes at `offset`; RTE_BAD_IOVA: they are not in one piece for it. */
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
