/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file group.h
 * Groups of contexts: who is there, barriers, locks, multicast, shared regions (RHiNET, 1999,
 * section 2).
 *
 * The members of a group are contexts of any nodes, also several of one. All give the same list; a
 * member's rank is its place in it. Rank 0 manages the group: if it ends, so does the group. The
 * engines do the work, so members make progress while their applications compute or sleep, and end
 * what is asked when one dies: nothing waits for ever.
 *
 * What takes time is a request, which pmx_test() and its variants end, together with those of
 * messages. When it ended because of a member, its status names it: `source` is its address,
 * `label` its rank.
 *
 * Thread safety: a group is used by the thread that uses its context.
 */
#ifndef PMX_GROUP_VERBS_H
#define PMX_GROUP_VERBS_H

#include <pmx/pmx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A group as one of its members has it. */
struct pmx_group;

/** Parameters that say which group to join. */
struct pmx_group_params {
	uint32_t size;  /**< sizeof(struct pmx_group_params) */
	uint32_t id;    /**< the group's number, the same at all members: 1..2^32 - 1; no two groups
			 * of a context have the same */
	uint32_t count; /**< members: 1..limits.group_members */
	const struct pmx_addr *members; /**< in the order of their ranks, each once, one of them
					 * this context; the same at all members. Borrowed for the
					 * call */
};

/**
 * Join a group. It is open when all members have joined, which is when the request ends. Until then
 * only pmx_group_close() is possible.
 * @param      ctx     the member
 * @param      params  see there; borrowed for the call
 * @param      timeout_us  how long to wait for the others
 * @param[out] group   end it with pmx_group_close(), also when it did not open
 * @param[out] request for pmx_test() and its variants
 * @retval 0          it is under way; the request ends with 0, or with
 *                    -ETIMEDOUT:  a member, which the status names, did not join in time; rank 0 is
 *                                 named also if it came too late to know who is missing
 *                    -EPROTO:     that member has given another list
 *                    -ECONNRESET: that member left or died before all were there
 *                    -EEXIST:     this context is in a group with that number
 *                    -ENOSPC:     the node has no room for another group
 * @retval -EINVAL    the size of params; the number is 0; the list: empty, too long, a member
 *                    twice, or this context is not in it
 * @retval -ENOSPC    the context is in limits.groups groups; those that it closed count until the
 *                    others know
 * @retval -EAGAIN    limits.receives requests are under way
 * @retval -ENOMEM    out of memory
 * @retval -EPIPE     the engine is gone
 */
PMX_API int pmx_group_open(struct pmx_context *ctx, const struct pmx_group_params *params,
	int64_t timeout_us, struct pmx_group **group, pmx_request *request);

/**
 * Leave a group. Returns at once: the engine tells the others. The locks that this member holds go
 * on, as if it had died; requests that have not ended end with -ECANCELED; events of it that were
 * not taken are lost. `group` is invalid afterwards. NULL is ignored. Closing the context leaves
 * all its groups.
 */
PMX_API void pmx_group_close(struct pmx_group *group);

/** Return the context that is the group's member here. */
PMX_API struct pmx_context *pmx_group_context(const struct pmx_group *group);

/** Return the group's number. */
PMX_API uint32_t pmx_group_id(const struct pmx_group *group);

/** Return this member's own rank, 0..size - 1. */
PMX_API uint32_t pmx_group_rank(const struct pmx_group *group);

/** Return the number of members that the group was opened with. */
PMX_API uint32_t pmx_group_size(const struct pmx_group *group);

/**
 * Ask who has a rank, and whether it is a member still, by the events that this side has heard of
 * so far.
 * @param      group   the group
 * @param      rank    0..size - 1
 * @param[out] member  its address, also if it has gone; may be NULL
 * @retval 0           it is
 * @retval -ENOTCONN   it left, or its process ended
 * @retval -ECONNRESET its node ended, or cannot be reached; also others, of pmx_is_send_done()
 * @retval -EINVAL     there is no such rank
 */
PMX_API int pmx_group_member(const struct pmx_group *group, uint32_t rank, struct pmx_addr *member);

/**
 * Let the group's members access memory of this process, and nobody else, by an ID: as
 * pmx_area_register(). They name it by PMX_AREA with the group's number << 32 | id as key. It ends
 * by pmx_deregister(), and is of no use to members that have gone, nor after the group has ended.
 * Each access is checked here. id: unique among this context's areas of the group: 0..0xFFFEFFFF;
 * those above are PMX_REGION(), and of libraries on top of groups (dsm.h).
 */
PMX_API int pmx_group_area_register(struct pmx_group *group, uint32_t id, void *addr, uint64_t len,
	unsigned access, struct pmx_remote *remote);

/**
 * Enter the group's next barrier. The request ends when all members have entered it: what they have
 * waited for before, all know to be done. Its status has the barrier's number in `tag`, from 1.
 * @retval 0            it is under way; the request ends with 0, or with
 *                      -ECONNRESET: a member, which the status names, left or died before it
 *                      entered: then this barrier ends so for all. Later ones are of those that are
 *                      left. Or rank 0 ended, and the group with it: pmx_poll_event() tells
 * @retval -EBUSY       this member's last barrier has not ended
 * @retval -EINVAL      request is NULL
 * @retval -ECONNRESET  the group is not open any more
 * @retval -EAGAIN      limits.receives requests are under way, or the submission ring is full:
 *                      poll, then try again
 * @retval -EPIPE       the engine is gone
 */
PMX_API int pmx_group_barrier(struct pmx_group *group, pmx_request *request);

/** pmx_group_lock(): if another member has the lock or waits for it, end with -EBUSY. */
#define PMX_TRY 0x4000u

/**
 * Ask for a lock of the group: of its members one at a time has it, in the order in which they ask
 * its manager, rank lock % size. Whoever has it hands it to the next in one message.
 * @param      group   the group
 * @param      lock    its number, 0..limits.group_locks - 1
 * @param      flags   0 or PMX_TRY
 * @param[out] request for pmx_test() and its variants; its status has the lock's number in `tag`
 * @retval 0            it is under way; the request ends with 0: this member has the lock; or with
 *                      -EOWNERDEAD: it has the lock, but one that had it died or left with it, so
 *                      what it guards may be half done
 *                      -EBUSY: PMX_TRY
 *                      -EHOSTDOWN: its manager has gone; nobody can have this lock any more
 *                      -ECONNRESET: the group has ended
 * @retval -EDEADLK     this member has it, or waits for it
 * @retval -EINVAL      no such lock; flags; or request is NULL
 *
 * Others as of pmx_group_barrier().
 */
PMX_API int pmx_group_lock(struct pmx_group *group, uint32_t lock, unsigned flags,
	pmx_request *request);

/**
 * Give a lock back.
 * @retval 0          the next one gets it
 * @retval -EPERM     this member does not have it
 * @retval -EHOSTDOWN its manager or the group ended while this member had it: it guarded nothing
 *                    since
 * @retval -EINVAL    no such lock
 * @retval -EAGAIN    the submission ring is full: poll, then try again
 * @retval -EPIPE     the engine is gone
 */
PMX_API int pmx_group_unlock(struct pmx_group *group, uint32_t lock);

/** Members of a group that get the same bytes. */
struct pmx_group_set;

/**
 * Make a set, which any number of multicasts can use.
 * @param      group the group; the set is to be freed before it is closed
 * @param      ranks count of them, each once; borrowed for the call
 * @param      count 1..size of the group
 * @param[out] set   free it with pmx_group_set_free()
 * @retval 0
 * @retval -EINVAL   no such rank, or one twice; count
 * @retval -ENOMEM   out of memory
 */
PMX_API int pmx_group_set_make(struct pmx_group *group, const uint32_t *ranks, uint32_t count,
	struct pmx_group_set **set);

/** Free a set. Multicasts that use it go on. NULL is ignored. */
PMX_API void pmx_group_set_free(struct pmx_group_set *set);

/** A multicast; zero-initialise, then set what it needs. */
struct pmx_multicast {
	const struct pmx_group_set *set; /**< who gets it */
	uint32_t flags;                  /**< PMX_NOTIFY, PMX_ORDERED */
	uint32_t area;                   /**< ID of an area of the group at each receiver */
	uint64_t remote;                 /**< offset in it */
	void *local;                     /**< address here: any memory */
	uint64_t len;                    /**< bytes that it spans, 0..2^40 */
	uint64_t immediate;              /**< PMX_NOTIFY: for the receivers */
	const struct pmx_part *part;     /**< NULL: all bytes; STRIDE, BITMAP, or DIFF, whose twin
					  * is updated at the end */
	uint64_t *failed; /**< NULL, or a bit for each place in the set, (count + 63) / 64 words,
			   * which are written when it ends: 1: that receiver may not have it */
};

/**
 * Write the same bytes to the same place at all members of a set (RHiNET, 1999, section 2.8). One
 * start, one end. A receiver that cannot be reached does not hold the others up. The bytes go by
 * the network (multicast A: one frame, which switches copy) to members on other nodes whom it
 * reaches so, if there are several of them, and what gets lost goes again to that member alone;
 * otherwise by a list (multicast B): pushes to all of them, which the engine sends a piece to each
 * in turns. engine.multicast of the configuration says if so. The bytes of a part are packed for
 * the network, in memory of pmx_alloc(); one that takes more than 16 MiB there, or spans 4 GiB,
 * goes by the list. All that a multicast spans must lie in the area, also what its part leaves out.
 *
 * Multicasts of a member that are under way at a time may arrive in any order. One with PMX_ORDERED
 * is begun when all that this member began before in the group have ended, so every receiver has
 * it, and its notification, after these; the price is a round trip each. Nobody is flooded: 8 are
 * under way of a member in a group, more are -EAGAIN; the bytes go to memory that the receivers
 * gave for it, and a notification that a receiver does not take (limits.events wait there) is not
 * lost without a word, but ends the multicast with -ENOBUFS for that receiver.
 * @param      group   the group
 * @param      m       see there; borrowed for the call. Its part, local bytes and `failed` must
 *                     stay until it has ended
 * @param[out] request for pmx_test() and its variants; it ends with 0 when all have it, or with the
 *                     error of the first in the set that has not; its status names that one
 *                     (-ENOTCONN: it has left, or the group has ended there). When the group is
 *                     closed first, with -ECANCELED, and `failed` is not written
 * @retval 0           it is under way
 * @retval -EINVAL     flags, len, or a part that does not fit: pmx_part_problem() says which
 * @retval -EOPNOTSUPP a kind of part that only pulls can have
 * @retval -EAGAIN     8 multicasts of the group, or limits.receives requests are under way: poll,
 *                     then try again
 * @retval -ENOMEM     out of memory
 *
 * Others as of pmx_group_barrier(). This library begins the pushes as there is room for them
 * (limits.transfers), so call it now and then (any call on the context will do).
 */
PMX_API int pmx_group_multicast(struct pmx_group *group, const struct pmx_multicast *m,
	pmx_request *request);

/** ID of the area that is a member's copy of a shared region. */
#define PMX_REGION(region) (0xFFFF0000u + (region))

/**
 * Share a region: memory of which each sharer has a copy, kept equal by updates (RHiNET, 1999,
 * section 2.9). Its home is rank region % size, which is the first to share it: the bytes of its
 * copy then are those that the region begins with. Those who share it later get them; their own
 * engine copies, and nobody updates the region meanwhile. Who asks before the home does waits for
 * it.
 * @param      group   the group
 * @param      region  its number, 0..limits.group_regions - 1
 * @param      flags   0, or PMX_NOTIFY: the home has an event PMX_EVENT_SHARED when this member
 *                     shares it; one, if it came several times before the home took it
 * @param      copy    of pmx_group_area_register() with the ID PMX_REGION(region), to be read and
 *                     written; of the same length at all. Borrowed for the call; the area must stay
 *                     until this member has unsubscribed
 * @param      twin    NULL, or copy->len bytes that the region's are copied to as well, for
 *                     updates by PMX_PART_DIFF (RHI-PART)
 * @param[out] request for pmx_test() and its variants; its status has the region's number in `tag`
 * @retval 0            it is under way; the request ends with 0: the bytes are here; or with
 *                      -EPROTO: the home's copy has another length
 *                      -EFAULT: there is no such area here
 *                      -EHOSTDOWN: the home has gone
 *                      or as a pull from the home's copy
 * @retval -EEXIST      it is shared already, or about to be
 * @retval -EINVAL      no such region; flags; copy; or request is NULL
 * @retval -ENOMEM      out of memory
 *
 * Others as of pmx_group_barrier().
 */
PMX_API int pmx_group_subscribe(struct pmx_group *group, uint32_t region, unsigned flags,
	const struct pmx_remote *copy, void *twin, pmx_request *request);

/**
 * Share a region no more. When the request has ended nobody writes to its copy any more.
 * @retval 0       it is under way; the request ends with 0, or with -EBUSY: its home is here, and
 *                 others share it: it goes on
 * @retval -EINVAL it is not shared; or request is NULL
 *
 * Others as of pmx_group_barrier().
 */
PMX_API int pmx_group_unsubscribe(struct pmx_group *group, uint32_t region, pmx_request *request);

/** An update of a shared region; zero-initialise, then set what it needs. */
struct pmx_update {
	uint32_t region;             /**< its number */
	uint32_t flags;              /**< PMX_NOTIFY */
	uint64_t at;                 /**< offset of what is written */
	uint64_t len;                /**< ... and its bytes */
	uint64_t immediate;          /**< PMX_NOTIFY: for the others */
	const struct pmx_part *part; /**< NULL: all of these bytes; otherwise as of a multicast */
};

/**
 * Write bytes of this member's copy of a region to all other copies. The request ends when all have
 * them, also those that have come to share the region meanwhile: who then leaves a lock, and who
 * takes it, have the same bytes. Updates of the same bytes by several members that are not ordered
 * in such a way leave the copies unequal; so does one whose member dies in its midst.
 * @param      group   the group
 * @param      update  see there; borrowed for the call. Its part must stay, and its bytes
 *                     unchanged, until the request has ended
 * @param[out] request it ends with 0, or with the error of the first rank that may not have it;
 *                     -EHOSTDOWN: the region's home has gone: no copy was written, and none will be
 * @retval 0       it is under way
 * @retval -EINVAL the region is not shared; the bytes are not all in it; flags; or request is NULL
 * @retval -EAGAIN 8 updates and multicasts of the group are under way
 *
 * Others as of pmx_group_multicast(). Who wants to share the region waits until this has ended, so
 * call the library until then.
 */
PMX_API int pmx_group_update(struct pmx_group *group, const struct pmx_update *update,
	pmx_request *request);

#ifdef __cplusplus
}
#endif
#endif
