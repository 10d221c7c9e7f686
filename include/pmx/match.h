/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file match.h
 * Matched messages: receives that say which messages they take, by source, tag and communicator, as
 * MPI's point-to-point messages. Part of pmx.h, whose head holds for all of it.
 */
#ifndef PMX_MATCH_VERBS_H
#define PMX_MATCH_VERBS_H

#include <stdbool.h>
#include <stdint.h>
#include <pmx/context.h>
#include <pmx/remote.h>

#ifdef __cplusplus
extern "C" {
#endif

/** pmx_matched.peer of a receive: any context of any node. */
#define PMX_ANY_SOURCE ((struct pmx_addr){0xFFFF, 0xFFFF})
/** pmx_matched.ignore: any tag. */
#define PMX_ANY_TAG    UINT64_MAX

/** Send: ends when a receive has taken it, not already when its bytes may change. */
#define PMX_SYNC      0x100u
/** Send: ends when it was Acked, so that the request reports its errors. */
#define PMX_DELIVERED 0x200u
/** Send or receive: pmx_poll_ended() tells its end, once, with `cookie`; pmx_test() does not. */
#define PMX_QUEUED    0x400u
/** Send: the bytes may change when the call returns, however long the message is. */
#define PMX_COPY      0x800u
/** Send: with `immediate` and `label`, which the receive's status and probes tell. In a status:
 * they are there. */
#define PMX_IMMEDIATE 0x1000u
/** Send: the receive that takes the message is posted, so it ends without anything more of this
 * side. Places and memory that long messages without this flag leave free are for these. */
#define PMX_EXPECTED  0x2000u

/**
 * A send or a receive; zero-initialise, then set what it needs. A receive takes the oldest message
 * of its communicator, from `peer` or anyone, whose tag is equal in all bits that it does not
 * ignore. Messages of one source in one communicator match in the order sent, receives in the order
 * posted. (RHiNET, 1999, section 2.6; the search after IPSJ 2007.)
 */
struct pmx_matched {
	struct pmx_addr peer;    /**< destination; or source of the message, or PMX_ANY_SOURCE */
	uint32_t comm;           /**< communicator: messages of different ones never match */
	uint32_t flags;          /**< PMX_QUEUED; send: PMX_SYNC, PMX_DELIVERED, PMX_COPY,
				  * PMX_IMMEDIATE, PMX_EXPECTED */
	uint64_t tag;            /**< tag of the message, or of the messages that the receive
				  * takes */
	uint64_t ignore;         /**< receive: bits of the tag that may differ; PMX_ANY_TAG: all */
	void *data;              /**< the bytes; with iov NULL */
	uint64_t len;            /**< bytes from data on, 0..2^40 */
	const struct iovec *iov; /**< NULL, or pieces that are used one after the other instead of
				  * data and len; borrowed until it has ended */
	uint32_t iov_count;      /**< number of pieces */
	const struct pmx_part *part; /**< NULL, or which bytes of [data, data + len): stride and
				      * bitmap; send: diff; receive: twin. Borrowed until it has
				      * ended. Those bytes are the message. What a diff finds is
				      * written to the same places of the receive, which must be one
				      * piece, [data, data + len). */
	uint64_t cookie;             /**< PMX_QUEUED: for pmx_poll_ended() */
	uint64_t immediate;          /**< PMX_IMMEDIATE: any number, for the receiver */
	uint16_t label;              /**< PMX_IMMEDIATE: another one */
};

/** A send or a receive that was begun, or what a group was asked for (group.h, coll.h); 0: it has
 * ended without an error. */
typedef uint64_t pmx_request;

/** The result of a receive or a probe: the message that it got or found. */
struct pmx_status {
	struct pmx_addr source; /**< who sent it */
	uint16_t flags;         /**< PMX_IMMEDIATE: the message has the following */
	uint16_t label;         /**< of the sender's pmx_matched */
	uint64_t immediate;     /**< of the sender's pmx_matched */
	uint64_t tag;           /**< of the message */
	uint64_t len;  /**< bytes of the message, even if it was longer than the receive; of a diff:
			* the bytes that it spans */
	int32_t error; /**< 0 or a negative errno, as pmx_test() says */
};

/**
 * Begin to send. The bytes must not change until the request has ended (PMX_COPY: until the call
 * returns): short messages have been copied when the call returns, and *request is 0; those longer
 * than the config's engine.rendezvous wait for their receive, and are then fetched, or pushed if
 * the receive was there first. A request ends when its bytes may change, unless flags say
 * otherwise.
 * @param      ctx      the sending context
 * @param      m        see there; borrowed for the call
 * @param[out] request  for pmx_test() and its variants, which end it; NULL: it ends by itself, and
 *                      its error is only counted. With PMX_QUEUED for pmx_cancel() alone
 * @retval 0        it is under way, or has ended
 * @retval -EAGAIN  limits.receives requests or limits.transfers transfers are under way, or the
 *                  submission ring is full: poll, then try again
 * @retval -ENOBUFS all send buffers wait for their Acks: poll, then try again
 * @retval -EINVAL  flags, len, peer, or a part that does not fit: pmx_part_problem() says which
 * @retval -EOPNOTSUPP a kind of part that only receives can have
 * @retval -ENOMEM  no memory, or the bytes cannot be pinned
 * @retval -EFAULT  the bytes begin or end in memory of pmx_alloc(), but are not all in it
 * @retval -EPIPE   the engine is gone
 *
 * A message in pieces or parts that is longer than engine.rendezvous is copied into one piece
 * first.
 */
PMX_API int pmx_isend(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request);

/** Post a receive: as pmx_isend(), the other way. A message that came before is taken at once.
 * Receives leave a 64th of limits.receives, at most 64, to sends and probes. */
PMX_API int pmx_irecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *request);

/** Ask whether there is a message that such a receive would take. Uses peer, comm, tag, ignore.
 * @retval 1 *status describes it @retval 0 none @retval -EPIPE none, and the engine is gone */
PMX_API int pmx_iprobe(struct pmx_context *ctx, const struct pmx_matched *m,
	struct pmx_status *status);

/** Ask for a message like pmx_iprobe(), and take it: only pmx_imrecv() with *message receives it.
 * @retval -EAGAIN limits.receives @retval -ENOBUFS limits.unexpected */
PMX_API int pmx_improbe(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message,
	struct pmx_status *status);

/** Receive what pmx_improbe() took; uses data, len, iov, part. *message becomes the receive's
 * request.
 * @retval -EINVAL not such a message; otherwise as pmx_irecv() */
PMX_API int pmx_imrecv(struct pmx_context *ctx, const struct pmx_matched *m, pmx_request *message);

/** Cancel a receive that no message has matched; its request ends with -ECANCELED.
 * @retval 0 done @retval -EINPROGRESS too late, or a send @retval -EINVAL no such request */
PMX_API int pmx_cancel(struct pmx_context *ctx, pmx_request request);

/**
 * Ask whether a request has ended. If so, it is freed, and *request becomes 0.
 * @param      ctx     the context of the request
 * @param      request of pmx_isend(), pmx_irecv(), pmx_imrecv(); 0: it has ended
 * @param[out] status  of a receive that ended, may be NULL
 * @retval 0           not yet
 * @retval 1           it has ended without an error
 * @retval -EMSGSIZE   the message was longer than the receive: its first bytes are there
 * @retval -ECANCELED  pmx_cancel()
 * @retval -EOPNOTSUPP a diff was received in pieces or parts
 * @retval -EINVAL     no such request
 *
 * Also the errors of pmx_is_send_done() and pmx_transfer_done().
 */
PMX_API int pmx_test(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status);

/** Ask whether one of the requests has ended. *index says which; those that are 0 are skipped.
 * @retval -ENOENT all are 0; otherwise as pmx_test() */
PMX_API int pmx_test_any(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	unsigned *index, struct pmx_status *status);

/** Ask whether all of the requests have ended. They become 0 only together with the last; statuses
 * may be NULL.
 * @retval 1 all, without an error @retval 0 not all; otherwise the error of the first that has one,
 *           and all ended */
PMX_API int pmx_test_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses);

/** A send or receive that was begun with PMX_QUEUED and has ended. */
struct pmx_ended {
	uint64_t cookie;          /**< of its pmx_matched */
	struct pmx_status status; /**< of a send only `error` */
};

/**
 * Take what was begun with PMX_QUEUED and has ended, in the order in which it ended. The cost is
 * that of what is returned, however many are under way. A send that ended within its call is told
 * as well. Until it is taken each needs one of limits.receives.
 * @param      ctx    the context
 * @param[out] ended  array of n
 * @param      n      most to take
 * @retval 0..n   how many
 * @retval -EPIPE none, and the engine is gone
 */
PMX_API int pmx_poll_ended(struct pmx_context *ctx, struct pmx_ended *ended, unsigned n);

/** Wait until a request has ended.
 * @retval -ETIMEDOUT it did not @retval -EPIPE the engine is gone; otherwise as pmx_test(), never
 *                    0 */
PMX_API int pmx_wait(struct pmx_context *ctx, pmx_request *request, struct pmx_status *status,
	int64_t timeout_us);

/** Wait for one of the requests: as pmx_test_any() and pmx_wait(). */
PMX_API int pmx_wait_any(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	unsigned *index, struct pmx_status *status, int64_t timeout_us);

/** Wait for all of the requests: as pmx_test_all() and pmx_wait(). */
PMX_API int pmx_wait_all(struct pmx_context *ctx, pmx_request *requests, unsigned n,
	struct pmx_status *statuses, int64_t timeout_us);

/** Statistics of matching since the context was opened. */
struct pmx_match_stat {
	uint64_t matched;     /**< messages that receives took */
	uint64_t unexpected;  /**< those of them that came before their receive */
	uint64_t evacuated;   /**< unmatched heads that were moved out of the LHS ring to make
			       * room */
	uint64_t bulk_copied; /**< unmatched messages that were copied out of their bulk buffers to
			       * free these */
	uint64_t malformed;   /**< malformed messages of peers */
	uint64_t errors;      /**< errors of requests that were begun without `request` */
	uint32_t waiting;     /**< messages that no receive took yet; this and the following are 0
			       * if the engine matches */
	uint32_t posted;      /**< receives that no message matched yet */
	uint64_t bytes;       /**< bytes of memory of waiting messages, without their entries and
			       * buffers */
	uint64_t paired;      /**< messages that came by memory shared with their sender, a thin
			       * client of this host, and past the engine */
};
/** Copy the statistics of matching into *stat. */
PMX_API void pmx_match_read_stat(const struct pmx_context *ctx, struct pmx_match_stat *stat);

#ifdef __cplusplus
}
#endif
#endif
