/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file dsm.h
 * Distributed shared memory: memory that the members of a group share by loads and stores, as
 * programs for TreadMarks or SCASH (Harada et al., 1999) expect it.
 *
 * All members have the same memory at the same address. What one wrote another one sees once both
 * have synchronised: the writer has left a lock that the reader then took, or both have passed a
 * barrier (lazy release consistency). Several members may write different bytes of the same page
 * meanwhile. A program whose accesses are ordered in this way runs as on one machine.
 *
 * Each page has a home, the member whose copy is always whole. The first touch of a page fetches it
 * from there, the first write keeps a copy of it, and when a member leaves a lock or enters a
 * barrier, the bytes that it changed go to their homes. When it takes a lock, or leaves a barrier,
 * it learns which pages others have changed, and forgets those.
 *
 * Thread safety: any thread may access the memory. The functions are called by one thread at a
 * time. The context of the group may be used for other things, by the same thread.
 *
 * Signals: the first accesses are noticed by SIGSEGV. Its handler is installed by the first
 * pmx_dsm_open(), and passes on what is not of such memory to the handler that was there before. A
 * program that installs one later passes on in the same way. The kernel does not raise it for
 * buffers of system calls, which fail with EFAULT then; and functions of this library on the same
 * context must not fault in what they are given: see pmx_dsm_fetch().
 */
#ifndef PMX_DSM_VERBS_H
#define PMX_DSM_VERBS_H

#include <stdbool.h>

#include <pmx/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Shared memory as one of its members has it. */
struct pmx_dsm;

/** Says what to share; it is the same at all members. */
struct pmx_dsm_params {
	uint32_t size;  /**< sizeof(struct pmx_dsm_params) */
	uint64_t bytes; /**< of all memory that will be allocated, 1..2^38; each member has that
			 * much of its own memory for it */
	void *address;  /**< where it begins; NULL: 0x480000000000 */
};

/**
 * Share memory with the members of an open group. All of them call it, for a group at most one at a
 * time. Waits for the others.
 * @param      group  open; to be closed after pmx_dsm_close()
 * @param      params see there; borrowed for the call
 * @param      timeout_us how long to wait for the others
 * @param[out] dsm    end it with pmx_dsm_close()
 * @retval 0
 * @retval -EINVAL     the size of params, or bytes
 * @retval -EEXIST     something is mapped at that address, or 16 such memories are open
 * @retval -ENOMEM     not enough memory
 * @retval -EPROTO     a member has given other parameters
 * @retval -ETIMEDOUT  a member has not called it
 * @retval -ECONNRESET a member has gone
 *
 * Others as of memory that is allocated and registered (pmx.h).
 */
PMX_API int pmx_dsm_open(struct pmx_group *group, const struct pmx_dsm_params *params,
	int64_t timeout_us, struct pmx_dsm **dsm);

/** Unmap the memory. The other members may still need pages whose home is here, so this waits until
 * all of them call it, or one has gone; except when the memory is lost already. NULL is ignored. */
PMX_API void pmx_dsm_close(struct pmx_dsm *dsm);

/** Home of memory: its pages are those of all members, in equal pieces, in the order of their
 * ranks. */
#define PMX_DSM_BLOCKS (-1)
/** Home of memory: the pages are those of one member after the other. */
#define PMX_DSM_CYCLIC (-2)

/**
 * Allocate shared memory, zeroed. All members call it in the same order with the same arguments,
 * and get the same address; which is checked by the next barrier.
 * @param      dsm   see there
 * @param      bytes 1.., rounded up to whole pages
 * @param      home  a rank, PMX_DSM_BLOCKS or PMX_DSM_CYCLIC. Pages whose home is the member that
 *                   writes them most cost least
 * @param[out] addr  page-aligned; valid until pmx_dsm_close()
 * @retval 0
 * @retval -EINVAL bytes or home
 * @retval -ENOSPC all of the memory is allocated
 * @retval -ENOMEM too many mappings (sysctl vm.max_map_count): allocate in larger pieces
 */
PMX_API int pmx_dsm_alloc(struct pmx_dsm *dsm, uint64_t bytes, int home, void **addr);

/**
 * Take a lock of the group, and with it see what those wrote who had it before. Waits for it.
 * @param dsm   see there
 * @param lock  0..limits.group_locks - 1
 * @param flags 0 or PMX_TRY
 * @retval 0
 * @retval -EBUSY      PMX_TRY: another one has it
 * @retval -EDEADLK    this member has it
 * @retval -EINVAL     no such lock, or flags
 * @retval -ECONNRESET a member has gone, and with it pages: the memory is lost
 * @retval -EPIPE      the engine is gone, and so is the memory
 */
PMX_API int pmx_dsm_lock(struct pmx_dsm *dsm, uint32_t lock, unsigned flags);

/**
 * Leave a lock. What was written before is at its homes then.
 * @retval 0
 * @retval -EPERM this member does not have it; others as of pmx_dsm_lock()
 */
PMX_API int pmx_dsm_unlock(struct pmx_dsm *dsm, uint32_t lock);

/**
 * Wait until all members have come here. Then each sees what the others wrote before.
 * @retval 0
 * @retval -EPROTO the members' allocations differ; others as of pmx_dsm_lock()
 */
PMX_API int pmx_dsm_barrier(struct pmx_dsm *dsm);

/**
 * Fetch memory now, many pages at once, instead of with the first access of each. Until the next
 * lock or barrier it then can be passed to system calls and to functions of this library.
 * @param dsm    see there
 * @param addr   first byte
 * @param bytes  0..
 * @param writes it will be written too
 * @retval 0
 * @retval -EINVAL not all of it is allocated; others as of pmx_dsm_lock()
 */
PMX_API int pmx_dsm_fetch(struct pmx_dsm *dsm, const void *addr, uint64_t bytes, bool writes);

/** The costs that the memory has caused at a member since it was opened. */
struct pmx_dsm_stat {
	uint64_t reads;   /**< first reads that faulted */
	uint64_t writes;  /**< first writes that faulted */
	uint64_t fetched; /**< pages fetched from their homes */
	uint64_t sent;    /**< changed pages whose changes went to their homes */
	uint64_t dropped; /**< copies of pages that others had changed */
	uint64_t notices; /**< runs of changed pages that this member told others of */
};

/** Copy the statistics into *stat. */
PMX_API void pmx_dsm_read_stat(const struct pmx_dsm *dsm, struct pmx_dsm_stat *stat);

#ifdef __cplusplus
}
#endif
#endif
