/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file coll.h
 * Collectives of groups (contention-free adaptive collectives, SWoPP 2008): what all members do
 * together. They run in the engines, so a member whose application computes or sleeps delays
 * nobody, and messages are sent in an order in which they do not meet in switches' ports.
 *
 * All members begin the same collectives of a group in the same order, with the same root, lengths,
 * types and operations; several may run at once (limits.collectives). Each is a request, which
 * pmx_test() and its variants end. Until then its buffers must stay, and what is read must not
 * change. A rank's result is there when its own request has ended; the others' may end later, but
 * for pmx_coll_barrier().
 *
 * A request ends with 0, or with an error that is the same at all members whose own part has not
 * ended, and a status whose `source` and `label` (rank) name the member because of which:
 *   -ENOTCONN, -ECONNRESET: it left the group, its process or its node ended
 *   -EPROTO:  it has begun another collective than rank 0, or with other arguments
 *   -EFAULT:  its buffer is not in its memory
 *   -EINVAL:  its library is at fault; or it would have to relay more blocks than its engine takes
 *             steps, 8 for each of limits.group_members (an alltoall of 60 members by one gateway)
 * After that the group has no further collectives: they end with the same error. The status's `tag`
 * is the number of the collective in its group, from 0.
 *
 * A member may leave the group when its own part has ended, and the others finish theirs. But if
 * rank 0 leaves, the group ends, with all that runs: let a barrier be before that.
 *
 * What the network looks like decides how it is done: pmx_coll_topology().
 *
 * Functions that begin a collective return 0, or
 *   -EINVAL:     root, type, operation, or request is NULL
 *   -EMSGSIZE:   more than 2^40 bytes of a member, or the group has too many members for it
 *   -EAGAIN:     limits.collectives of this context run, limits.receives requests are under way, or
 *                the submission ring is full: poll, then try again. Also pmx_coll_adapt()
 *   -ENOMEM:     out of memory, also of that which the engine can reach
 *   -EBUSY:      a survey is going on
 *   -EHOSTUNREACH: by the topology (its `talk` lines), some members may not connect, and cannot
 *                reach each other by way of others either
 *   -EOPNOTSUPP: lengths that differ by member, where some may not connect: who relays a block has
 *                to know its length
 *   -ECONNRESET: the group is not open any more
 *   -EPIPE:      the engine is gone
 * and then nothing has begun. When a group is closed first, its requests end with -ECANCELED, and
 * their buffers may still be written to until pmx_group_close() has been followed by the end of the
 * context, so wait for collectives before.
 *
 * Thread safety: as of groups.
 */
#ifndef PMX_COLL_VERBS_H
#define PMX_COLL_VERBS_H

#include <pmx/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The `in` of a collective that has both `in` and `out`, to say that this member's contribution is
 * where its result will be. */
#define PMX_IN_PLACE ((const void *)(uintptr_t)1)

/** The `request` of a collective that is not to begin, but to have its memory ready: the group
 * takes now what the collective would need here, and keeps it for its next one, which does not fail
 * for want of it if it has the same arguments. Members can thus agree on a long one before any of
 * them sends. The errors are the same. pmx_coll_forget() gives the memory back. */
#define PMX_COLL_PREPARE ((pmx_request *)(uintptr_t)1)

/**
 * Say what the network between the members' nodes looks like. The same at all members, before the
 * group's first collective: a difference is -EPROTO. Without it, and without a file that the
 * environment's PMX_TOPOLOGY names, it is taken for one switch.
 * @param      group the group
 * @param      text  as doc/internals/collectives.md says; its hosts are nodes 0, 1, 2 ...
 *                   Borrowed for the call. "auto": it is measured now (pmx_coll_survey()), so the
 *                   call waits until all members have called it; likewise the first collective, if
 *                   that is what PMX_TOPOLOGY says
 * @param[out] error what is wrong with it, may be NULL
 * @param      error_len bytes
 * @retval 0
 * @retval -EINVAL   the text is wrong, or a member's node is not in it
 * @retval -EBUSY    the group has had a collective
 * @retval -ENOMEM   out of memory
 *
 * Also the errors of pmx_coll_survey_test(), if it is measured.
 */
PMX_API int pmx_coll_topology(struct pmx_group *group, const char *text, char *error,
	uint32_t error_len);

/** A survey of the network, which is going on. */
struct pmx_survey;

/**
 * Find out what the network between the members' nodes looks like, by measuring: which hosts share
 * a switch, how far they are, and what their lines and the links between switches carry. A
 * collective: all members begin it at the same place among their collectives, and no other until
 * theirs has ended. One member of each node sends, to one other at a time, for some milliseconds in
 * each of about as many rounds as there are nodes; with 8 nodes it takes some 0.3 s, with 56 some 4
 * s (doc/internals/collectives.md). What else the network carries meanwhile is measured with it.
 * @param      group  the group
 * @param[out] survey its end is asked for with pmx_coll_survey_test() or pmx_coll_survey_wait(),
 *                    which also make it go on
 * @retval 0
 * @retval -EBUSY   one is going on
 * @retval -E2BIG   more than 1,024 nodes, or one with a number above some 8,000
 * @retval -ENOMEM  out of memory, also of that which the engine can reach
 * @retval -ECONNRESET  the group is not open any more
 * @retval -EPIPE   the engine is gone
 */
PMX_API int pmx_coll_survey(struct pmx_group *group, struct pmx_survey **survey);

/**
 * Go on, and ask whether it has ended. When it has, also with an error, the survey is no more.
 * @param      survey of pmx_coll_survey()
 * @param[out] text   what was found, as pmx_coll_topology() and `pmx-ctl topology` take it, the
 *                    same at all members; to be freed with free()
 * @retval 0 not yet
 * @retval 1 *text is there
 * @retval -ECANCELED the group was closed
 *
 * Also what collectives end with, and -ENOMEM.
 */
PMX_API int pmx_coll_survey_test(struct pmx_survey *survey, char **text);

/** Wait until a survey has ended. Arguments and results as of pmx_coll_survey_test(), but never
 * 0. */
PMX_API int pmx_coll_survey_wait(struct pmx_survey *survey, char **text);

/**
 * Let plans follow the network: where its topology is known, and three long collectives (predicted
 * to take 1 ms and more) one after the other took 1.12 of the time predicted, the members measure
 * what its lines and links carry, which takes some 0.1 to 0.5 s, and plan by that from then on. If
 * that changes nothing, it is not done again for that reason; after a change it is done again after
 * 64 long collectives, then ever more rarely, in case more goes again. Who begins late, or waits
 * elsewhere, makes no collective slow. Rank 0 writes a line to the standard error when plans
 * change.
 *
 * All members must call this, before the same collective; or let the environment say
 * PMX_COLL_ADAPT=1. From then on the beginning of any collective may return -EAGAIN for as long as
 * members tell each other, or measure: try again, and let the group's other members that the same
 * thread serves do so, too.
 * @retval 0
 * @retval -ENOMEM  out of memory
 */
PMX_API int pmx_coll_adapt(struct pmx_group *group);

/** Return how often pmx_coll_adapt() has changed plans. */
PMX_API uint32_t pmx_coll_adapted(const struct pmx_group *group);

/** Give back the memory that PMX_COLL_PREPARE has taken for the group, if it has. */
PMX_API void pmx_coll_forget(struct pmx_group *group);

/** Return how many collectives of the context may run at once: limits.collectives, at most 16. */
PMX_API uint32_t pmx_coll_limit(const struct pmx_context *ctx);

/**
 * Wait for all: the request ends when all members have called this. Unlike pmx_group_barrier(),
 * which goes through rank 0, it takes the logarithm of the members in rounds.
 */
PMX_API int pmx_coll_barrier(struct pmx_group *group, pmx_request *request);

/** Copy len bytes from the root's buffer to all others'. */
PMX_API int pmx_bcast(struct pmx_group *group, uint32_t root, void *buffer, uint64_t len,
	pmx_request *request);

/**
 * Collect len bytes of each member at the root, in the order of their ranks.
 * in: len bytes; PMX_IN_PLACE at the root: they are in their place of `out`
 * out: at the root size * len bytes; elsewhere not used
 */
PMX_API int pmx_gather(struct pmx_group *group, uint32_t root, const void *in, void *out,
	uint64_t len, pmx_request *request);

/**
 * Distribute the root's blocks of len bytes each to all members, in the order of their ranks.
 * in: at the root size * len bytes; elsewhere not used
 * out: len bytes; NULL at the root: they stay where they are
 */
PMX_API int pmx_scatter(struct pmx_group *group, uint32_t root, const void *in, void *out,
	uint64_t len, pmx_request *request);

/** Gather at all members. in: len bytes or PMX_IN_PLACE; out: size * len bytes. */
PMX_API int pmx_allgather(struct pmx_group *group, const void *in, void *out, uint64_t len,
	pmx_request *request);

/**
 * Block i of `in` goes to rank i, where it is block [own rank] of `out`.
 * in: size * len bytes; PMX_IN_PLACE: `out` has them, which takes a copy
 * out: size * len bytes
 */
PMX_API int pmx_alltoall(struct pmx_group *group, const void *in, void *out, uint64_t len,
	pmx_request *request);

/** Blocks of any lengths in a buffer: that of rank i has lens[i] bytes, at offset begins[i]. */
struct pmx_blocks {
	const uint64_t *lens;   /**< size of the group: bytes */
	const uint64_t *begins; /**< likewise: where they begin */
};

/**
 * Collect blocks like pmx_gather(), but of any lengths, also 0: len is this member's own.
 * out_blocks: of all, borrowed for the call; used at the root only
 */
PMX_API int pmx_gatherv(struct pmx_group *group, uint32_t root, const void *in, uint64_t len,
	void *out, const struct pmx_blocks *out_blocks, pmx_request *request);

/** Distribute blocks like pmx_scatter(), but of any lengths, also 0: len is this member's own.
 * in_blocks: borrowed for the call; used at the root only. */
PMX_API int pmx_scatterv(struct pmx_group *group, uint32_t root, const void *in,
	const struct pmx_blocks *in_blocks, void *out, uint64_t len, pmx_request *request);

/** Gather blocks at all members like pmx_allgather(), but of any lengths, also 0: len is this
 * member's own. out_blocks: borrowed for the call; the same lengths at all members. */
PMX_API int pmx_allgatherv(struct pmx_group *group, const void *in, uint64_t len, void *out,
	const struct pmx_blocks *out_blocks, pmx_request *request);

/**
 * Exchange blocks like pmx_alltoall(), but of any lengths, also 0. in_blocks->lens[i] here is
 * out_blocks->lens[own rank] at rank i. Both are borrowed for the call.
 * in: PMX_IN_PLACE: `out` has what is sent, in out_blocks
 */
PMX_API int pmx_alltoallv(struct pmx_group *group, const void *in,
	const struct pmx_blocks *in_blocks, void *out, const struct pmx_blocks *out_blocks,
	pmx_request *request);

/**
 * Combine count elements of each member at the root: out[i] = in[i] of all. The order in which that
 * is done is the same in every run on the same topology, so floats have the same bits.
 * in: count elements, of any alignment; PMX_IN_PLACE at the root: they are in `out`
 * out: at the root count elements; elsewhere not used
 * op: PMX_ATOMIC_MIN to PMX_ATOMIC_BXOR
 */
PMX_API int pmx_reduce(struct pmx_group *group, uint32_t root, const void *in, void *out,
	uint64_t count, enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request);

/** Combine elements like pmx_reduce(), but at all members, with the same bits. in: count elements
 * or PMX_IN_PLACE. */
PMX_API int pmx_allreduce(struct pmx_group *group, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request);

/**
 * Combine size * count elements, of which rank i gets those from i * count on.
 * in: size * count elements
 * out: count elements; it may not be in `in`
 */
PMX_API int pmx_reduce_scatter(struct pmx_group *group, const void *in, void *out, uint64_t count,
	enum pmx_atomic_type type, enum pmx_atomic_op op, pmx_request *request);

/**
 * An operation of the application's own: into = into op from, of len bytes each, which have any
 * alignment. It is called in the context's thread, by the call that finds the request ended, and
 * must not use that context.
 */
typedef void (*pmx_combine)(void *into, const void *from, uint64_t len, void *arg);

/**
 * Combine blocks like pmx_reduce(), but by a function, and in the order of the ranks, whether that
 * matters or not: ((0 op 1) op 2) ... The engine cannot call the function, so all contributions
 * come to the root, size * len bytes; they are combined when the request ends.
 * in: len bytes; PMX_IN_PLACE at the root: they are in `out`
 * out: at the root len bytes; elsewhere not used
 * combine, arg: of the root; elsewhere not used
 * @retval -EINVAL combine is NULL at the root
 */
PMX_API int pmx_reduce_by(struct pmx_group *group, uint32_t root, const void *in, void *out,
	uint64_t len, pmx_combine combine, void *arg, pmx_request *request);

/** Combine blocks like pmx_reduce_by(), but at all members, each of which combines all for itself.
 * in: len bytes or PMX_IN_PLACE. */
PMX_API int pmx_allreduce_by(struct pmx_group *group, const void *in, void *out, uint64_t len,
	pmx_combine combine, void *arg, pmx_request *request);

#ifdef __cplusplus
}
#endif
#endif
