/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file remote.h
 * Remote memory: memory that others may access, pushes, pulls, pins and atomic operations
 * (RHiNET, 1999; pin-down cache, SWoPP 1997). Part of pmx.h, whose head holds for all of it.
 */
#ifndef PMX_REMOTE_VERBS_H
#define PMX_REMOTE_VERBS_H

#include <stdint.h>
#include <pmx/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Others may pull from the memory. */
#define PMX_REMOTE_READ  0x1u
/** Others may push to the memory. */
#define PMX_REMOTE_WRITE 0x2u
/** pmx_register(): move the pages once into memory that the engine shares. */
#define PMX_ADOPT        0x4u
/** pmx_area_register(): whoever names the context and the ID may access it, on any node. */
#define PMX_ANYONE       0x8u

/** Memory that others may access. Plain data of 32 bytes: send it to those who are to access it. */
struct pmx_remote {
	struct pmx_addr owner; /**< the context that registered it */
	uint32_t zero;         /**< 0 */
	uint64_t key;          /**< cannot be guessed; valid until pmx_deregister() */
	uint64_t addr;         /**< first byte, in the owner's process */
	uint64_t len;          /**< bytes */
};

/**
 * Allocate memory that the engine shares with this process: pushes and pulls copy nothing on the
 * way from it, and once on the way to it. On hugepages where some are free; zeroed.
 * @param      ctx   the context whose transfers will use it
 * @param      len   bytes, 1..2^40; rounded up to whole pages
 * @param[out] addr  page-aligned; give it back with pmx_free(), or close the context.
 * @retval 0
 * @retval -ENOMEM  there is not enough free memory
 * @retval -ENOSPC  the context has 64 such pieces: allocate fewer, larger ones
 * @retval -EPIPE   the engine is gone
 *
 * Takes system calls and a request to the primary: some 100 us, and the time to zero the memory.
 */
PMX_API int pmx_alloc(struct pmx_context *ctx, uint64_t len, void **addr);

/**
 * Allocate memory like pmx_alloc(), but on ordinary pages, and with a descriptor by which it can be
 * mapped a second time, to be read and written by other rights there. When a lost primary has been
 * replaced (pmx_reattach()) the pages at addr are others than those of the descriptor.
 * @param      ctx   as pmx_alloc()
 * @param      len   as pmx_alloc()
 * @param[out] addr  as pmx_alloc()
 * @param[out] file  of the whole memory, from offset 0; to be closed by the caller. NULL:
 *                   pmx_alloc()
 */
PMX_API int pmx_alloc_file(struct pmx_context *ctx, uint64_t len, void **addr, int *file);

/** Give memory of pmx_alloc() back. Regions in it end, also those that others have pinned;
 * transfers that use it end with EFAULT. NULL is ignored. */
PMX_API void pmx_free(struct pmx_context *ctx, void *addr);

/**
 * Let others access memory of this process: any that is mapped, of pmx_alloc() or not.
 * @param      ctx     the context that their transfers are addressed to
 * @param      addr    first byte, at any alignment
 * @param      len     bytes, 1..2^40
 * @param      access  PMX_REMOTE_READ, PMX_REMOTE_WRITE, PMX_ADOPT; at least one
 * @param[out] remote  what others need to access it; with PMX_ADOPT alone nobody can: key 0
 * @retval 0
 * @retval -EINVAL    access, or len
 * @retval -EFAULT    it begins or ends in memory of pmx_alloc(), but is not all in it
 * @retval -ENOSPC    too many regions: limits.regions; or adopted and allocated pieces: 64
 * @retval -EOPNOTSUPP PMX_ADOPT, but the kernel does not report when memory is unmapped
 *                     (limits.pin_watch)
 * @retval -ENOMEM    the memory cannot be pinned: limits.pin_bytes, ulimit -l
 * @retval -EPIPE     the engine is gone
 *
 * Waits for the engine's answer, some microseconds; in an embedded node it polls the node. The
 * engine accesses memory of pmx_alloc() directly; other memory is copied by the kernel, which is
 * slower.
 *
 * PMX_ADOPT makes private anonymous memory (heap, stack, mmap) directly accessible to the engine:
 * all pages that [addr, addr + len) touches are copied into shared memory that is mapped at the
 * same addresses. Meanwhile no other thread may write there. From then on until it is unmapped it
 * is as fast as memory of pmx_alloc(), and a child of fork() shares it with its parent. Memory that
 * is not private, anonymous and writable is -EINVAL.
 *
 * It is for memory that the program maps and unmaps itself, not for that of an allocator: adopted
 * memory keeps its bytes when it is given back by madvise() with MADV_DONTNEED or MADV_FREE, while
 * allocators rely on zeros there. (So it is not for malloc(), but for a mapping of the program's
 * own, its stack, or what malloc() has mapped for one block alone and unmaps with it.)
 */
PMX_API int pmx_register(struct pmx_context *ctx, void *addr, uint64_t len, unsigned access,
	struct pmx_remote *remote);

/** Register memory like pmx_register(), but with an area ID (RHiNET): others name (context, ID,
 * offset) instead of a key and an address, so that they can use the same ones for many receivers.
 * IDs can be guessed, so without PMX_ANYONE only the context itself can use it;
 * pmx_group_area_register() makes areas for the members of a group. The key in *remote is for
 * whoever has it. id: 0..2^32 - 2, unique in the context.
 * @retval -EEXIST  the context has that ID */
PMX_API int pmx_area_register(struct pmx_context *ctx, uint32_t id, void *addr, uint64_t len,
	unsigned access, struct pmx_remote *remote);

/**
 * End a registration; when it returns, nobody can access the memory by it any more.
 * @retval -EBUSY   others have it pinned (pmx_remote_pin()), nothing has changed: try again. If
 *                  they or their node have died, that is noticed meanwhile, if need be because of
 *                  this call
 * @retval -ENOKEY  no such registration of this context @retval -EPIPE the engine is gone
 *
 * To end it without waiting for others, give up the memory itself: pmx_free(), unmapping it, and
 * closing the context end registrations even if others have them pinned; transfers to them are
 * refused from then on.
 */
PMX_API int pmx_deregister(struct pmx_context *ctx, uint64_t key);

/**
 * Make the library forget that memory is pinned. Memory of transfers that is not of pmx_alloc()
 * stays pinned for its next use. Call this before such memory is unmapped, protected or given away,
 * where the kernel does not report that (see doc/guide/remote-memory.md). Regions registered in it
 * do not end. Any thread may call it.
 */
PMX_API void pmx_invalidate(const void *addr, uint64_t len);

/** Transfer: remote is an offset in the area whose ID is in key; of a group's area: the group's
 * number << 32 | ID. */
#define PMX_AREA    0x10u
/** Transfer: takes effect after all earlier ones of this context to the same one. */
#define PMX_ORDERED 0x20u
/** Transfer: when all bytes are where they go, the other side gets an event with `immediate`:
 * pmx_poll_event(). */
#define PMX_NOTIFY  0x40u
/** Transfer, send: this side gets an event when it has ended: pmx_poll_event(). */
#define PMX_EVENT   0x80u

/** Kinds of parts: they tell which bytes of a transfer move (RHiNET, 1999, section 2.7). Both sides
 * have the same layout. */
enum pmx_part_kind {
	PMX_PART_STRIDE = 1, /**< block bytes at every sum of i[d] * interval[d], 0 <= i[d] <
			      * count[d] */
	PMX_PART_BITMAP = 2, /**< unit bytes for each bit that is set */
	PMX_PART_DIFF = 3,   /**< push: bytes that differ from twin, which is then updated */
	PMX_PART_TWIN = 4,   /**< pull: all bytes, and a copy of them in twin */
};

/** A part of a transfer. Borrowed, with what it points at, until the transfer has ended. */
struct pmx_part {
	enum pmx_part_kind kind; /**< selects the fields that are used */
	uint32_t dims;           /**< STRIDE: 1..3, innermost first */
	uint64_t block;          /**< STRIDE: bytes, at least 1 */
	uint64_t interval[3];    /**< STRIDE: bytes, at least the extent of what it repeats */
	uint64_t count[3];       /**< STRIDE: at least 1 each */
	uint32_t unit;           /**< BITMAP: bytes, a power of two, 4..4096 */
	const uint64_t *bits;    /**< BITMAP: one for each unit that begins in the transfer, lowest
				  * first */
	void *twin;              /**< DIFF, TWIN: len bytes */
};

/** A push or pull; zero-initialise, then set what it needs. */
struct pmx_transfer {
	struct pmx_addr peer;        /**< the context whose memory it is */
	uint32_t flags;              /**< PMX_AREA, PMX_ORDERED, PMX_NOTIFY, PMX_EVENT */
	uint64_t key;                /**< of struct pmx_remote; with PMX_AREA the area's ID */
	uint64_t remote;             /**< address there; with PMX_AREA offset in the area */
	void *local;                 /**< address here: any memory */
	uint64_t len;                /**< bytes that it spans, 0..2^40 */
	uint64_t immediate;          /**< PMX_NOTIFY: for the other side */
	uint64_t cookie;             /**< PMX_EVENT: for this side */
	volatile int32_t *status;    /**< NULL, or a word that is 1 from the call on, and 0 or a
				      * negative errno when the transfer has ended. In memory of
				      * pmx_alloc() the engine writes it, after the bytes: load it
				      * with acquire before reading those; elsewhere the next call
				      * of this library on the context writes it. */
	const struct pmx_part *part; /**< NULL: all bytes */
};

/** Identifies a transfer, for pmx_transfer_done(). */
typedef uint64_t pmx_transfer_id;

/**
 * Remote write: copy local bytes to the peer's memory; no call on its side is needed. The local
 * bytes must not change until it has ended.
 * @param      ctx  the context that transfers
 * @param      t    see there; borrowed for the call
 * @param[out] id   for pmx_transfer_done(), may be NULL
 * @retval 0        it is under way
 * @retval -EAGAIN  limits.transfers are under way, or the submission ring is full: poll, then try
 *                  again
 * @retval -EINVAL  flags, len, or a part that does not fit: pmx_part_problem() says which
 * @retval -EOPNOTSUPP a kind of part that only pulls can have
 * @retval -ENOMEM  the local memory cannot be pinned
 * @retval -EFAULT  the local memory begins or ends in memory of pmx_alloc(), but is not all in it
 * @retval -EPIPE   the engine is gone
 *
 * Parts, and pushes that fit one frame, are packed by this library in send buffers, as these become
 * free, so call it now and then (any call on the context will do). The engine does all else by
 * itself.
 */
PMX_API int pmx_push(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id);

/** Remote read: as pmx_push(), the other way. The local bytes are complete when it has ended.
 * With PMX_NOTIFY it ends when the other side has its event: with -ENOBUFS if that reads no events,
 * though the bytes are here; by a bitmap it is -EOPNOTSUPP. */
PMX_API int pmx_pull(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id);

/** Return a text that says what is wrong with a part over len bytes; NULL: nothing. Static
 * storage. */
PMX_API const char *pmx_part_problem(const struct pmx_part *part, uint64_t len);

/**
 * Ask for memory of others to be pinned, and to stay so until pmx_remote_unpin() (RHiNET, 1999,
 * section 2.5): as a push or pull that moves nothing. Its owner cannot end that registration
 * meanwhile, and its pages stay where they are. Pins of the same region are counted. When this
 * context ends, for whatever reason, all its pins are released.
 * Uses peer, flags, key, remote, len, status, cookie. A pin is of the whole region that they name,
 * which must have [remote, remote + len).
 * Errors of pmx_pull(), and, when it has ended, of pmx_transfer_done(); among them -ENOSPC: its
 * owner has no room for more pins (limits.regions), or this context has pins at 64 other contexts.
 */
PMX_API int pmx_remote_pin(struct pmx_context *ctx, const struct pmx_transfer *t,
	pmx_transfer_id *id);

/**
 * Release a pin, with the same arguments with which it was made. Ends with -ENOKEY if this context
 * has no pin of that region: it was released, or the region ended, or its owner has heard nothing
 * of this node for too long. A context can release only its own pins. The release comes after the
 * pin if that has ended, or with PMX_ORDERED.
 */
PMX_API int pmx_remote_unpin(struct pmx_context *ctx, const struct pmx_transfer *t,
	pmx_transfer_id *id);

/** Atomic operations, with the value that an element v gets. x: the operation's operand; c: the
 * value that v is compared with. Integers wrap around. */
enum pmx_atomic_op {
	PMX_ATOMIC_MIN,
	PMX_ATOMIC_MAX,
	PMX_ATOMIC_SUM,
	PMX_ATOMIC_PROD,
	PMX_ATOMIC_LOR,      /**< v || x; results of logic are 0 or 1 */
	PMX_ATOMIC_LAND,     /**< v && x */
	PMX_ATOMIC_BOR,      /**< v | x; operations on bits are for integers only */
	PMX_ATOMIC_BAND,     /**< v & x */
	PMX_ATOMIC_LXOR,     /**< !v != !x */
	PMX_ATOMIC_BXOR,     /**< v ^ x */
	PMX_ATOMIC_READ,     /**< v stays, and is fetched; it has no operand */
	PMX_ATOMIC_WRITE,    /**< x */
	PMX_ATOMIC_CSWAP,    /**< x if c == v, otherwise v stays */
	PMX_ATOMIC_CSWAP_NE, /**< x if c != v */
	PMX_ATOMIC_CSWAP_LE, /**< x if c <= v */
	PMX_ATOMIC_CSWAP_LT, /**< x if c < v */
	PMX_ATOMIC_CSWAP_GE, /**< x if c >= v */
	PMX_ATOMIC_CSWAP_GT, /**< x if c > v */
	PMX_ATOMIC_MSWAP,    /**< the bits of x where c has ones, those of v where it has zeros */
};

/** Elements: integers of as many bits, and IEEE 754 of 32 and 64 bits. */
enum pmx_atomic_type {
	PMX_INT8,
	PMX_UINT8,
	PMX_INT16,
	PMX_UINT16,
	PMX_INT32,
	PMX_UINT32,
	PMX_INT64,
	PMX_UINT64,
	PMX_FLOAT,
	PMX_DOUBLE,
};

/** Return the bytes of an element of that type; 0: there is no such operation on such elements. Any
 * thread. */
PMX_API uint32_t pmx_atomic_bytes(enum pmx_atomic_op op, enum pmx_atomic_type type);

/** Most bytes of the elements of one atomic operation. */
#define PMX_ATOMIC_BYTES 64

/** An atomic operation on memory of others. */
struct pmx_atomic_transfer {
	struct pmx_addr peer;      /**< the owner of the region */
	uint32_t flags;            /**< PMX_AREA, PMX_ORDERED, PMX_EVENT */
	uint64_t key;              /**< as of struct pmx_transfer */
	uint64_t remote;           /**< likewise; a multiple of an element */
	enum pmx_atomic_op op;     /**< what it does to each element */
	enum pmx_atomic_type type; /**< of the elements */
	uint32_t count;            /**< elements: 1 to PMX_ATOMIC_BYTES / their size */
	const void *operands;      /**< as many elements; read in the call. READ: not used */
	const void *compared;      /**< CSWAP to MSWAP: as many elements, read in the call */
	void *before;              /**< NULL, or where the elements as they were are put when it has
				    * ended, by a call of this library on the context; any memory */
	uint64_t cookie;           /**< PMX_EVENT: for this side */
	volatile int32_t *status;  /**< as of struct pmx_transfer */
};

/**
 * Have the engine of the owner's node change memory of a region, which was registered for
 * PMX_REMOTE_READ and PMX_REMOTE_WRITE. Each element is changed at once, and exactly once: such
 * operations are atomic to each other, whoever asks for them. To the processors of the owner's
 * host they are where the memory is of pmx_alloc() or registered with PMX_ADOPT
 * (pmx_atomic_here()); other memory the engine reads and then writes.
 * @param      ctx  the context that asks
 * @param      a    see there; borrowed for the call
 * @param[out] id   for pmx_transfer_done(), may be NULL
 * @retval 0        it is under way; it ends as a pull does, and then also with
 *                  -EINVAL: remote is no multiple of an element, or
 *                  -ECONNRESET: the owner has ended, and whether it was done is not known
 * @retval -EOPNOTSUPP there is no such operation on such elements
 * @retval -EINVAL  flags, count, or operands that are missing
 * @retval -EAGAIN  as of pmx_push()
 * @retval -EPIPE   the engine is gone
 */
PMX_API int pmx_atomic(struct pmx_context *ctx, const struct pmx_atomic_transfer *a,
	pmx_transfer_id *id);

/**
 * Do an atomic operation like pmx_atomic(), but on memory of this process. It is atomic to the
 * operations of others on that memory, and to the processors' own. Any thread.
 * @param op       what it does to each element
 * @param type     of the elements
 * @param at       the first element; a multiple of an element
 * @param count    elements: any number
 * @param operands as many elements; READ: not used
 * @param compared CSWAP to MSWAP: as many elements
 * @param before   NULL, or where the elements as they were are put
 * @return 0; -EOPNOTSUPP and -EINVAL as of pmx_atomic()
 */
PMX_API int pmx_atomic_here(enum pmx_atomic_op op, enum pmx_atomic_type type, void *at,
	uint64_t count, const void *operands, const void *compared, void *before);

/**
 * Ask whether a transfer has ended.
 * @retval 0             not yet
 * @retval 1             it has ended without an error
 * @retval -ENOKEY       there is no such region, or no longer; or no such pin
 * @retval -ERANGE       it reaches beyond the region
 * @retval -EACCES       the region was not registered for this, or not for this context
 * @retval -ENOTCONN     the area is a group's, of which this context is no member there, or no
 *                       longer
 * @retval -EPERM        the region belongs to another context
 * @retval -EFAULT       memory that was registered, or the local memory, is gone. (In a thin client
 *                       the thread that calls copies local memory that is not of pmx_alloc(), as
 *                       sends do: what may not be accessed there is SIGSEGV, as of memcpy())
 * @retval -ENOSPC       no room for another pin: see pmx_remote_pin()
 * @retval -EINVAL       a part that does not fit the region; pmx_atomic(): see there
 * @retval -ENOBUFS      the bytes are there, but the notification was lost, since its receiver does
 *                       not take any
 * @retval -ECONNRESET   the other side has ended; the transfer may or may not have been done
 * @retval -ESTALE       the result is no longer known: its place has been used twice again, and a
 *                       later transfer there has failed
 *
 * Also the errors of pmx_is_send_done().
 */
PMX_API int pmx_transfer_done(struct pmx_context *ctx, pmx_transfer_id id);

/** Return the number of transfers that have not ended. */
PMX_API uint32_t pmx_transfers_pending(struct pmx_context *ctx);

/** Wait until all transfers of the context have ended, and what it has asked its groups for:
 * opening, barriers, locks, multicasts, updates, shared regions, collectives (RHiNET, 1999, table
 * 2: sync). Requests of groups are to be tested all the same.
 * @retval 0 they ended @retval -ETIMEDOUT some did not @retval -EPIPE the engine is gone */
PMX_API int pmx_sync_wait(struct pmx_context *ctx, int64_t timeout_us);

#ifdef __cplusplus
}
#endif
#endif
