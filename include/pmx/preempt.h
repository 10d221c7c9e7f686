/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file preempt.h
 * Network preemption (PM/UDP, IPSJ 1999, sections 1 and 2): contexts, and whole jobs, are stopped
 * for any time and go on where they were. Their peers see delay: no message is lost or doubled, and
 * none ends in an error because of it.
 *
 * A stopped context begins nothing. What it submits waits: pmx_send() takes messages until its ring
 * is full, and gives -EAGAIN then; nothing is received. Messages to it wait at their senders, who
 * count no retry. Its transfers stop between frames, its members of groups and collectives send
 * nothing. Others may still push to its memory, and change it by atomic operations, since that is
 * one-sided.
 *
 * A stopped context can be parked too: its packet buffers, and its right to have them, are for
 * others until it is loaded again, so that jobs that run in turns need not have memory for all of
 * them at once (limits.resident). That is for thin clients, whose payloads lie in their own memory.
 * Peers notice no difference.
 *
 * A job is a number that contexts of any nodes have in common. Who stops it at several nodes need
 * not do it at once, nor in an order: see pmx-gang(1).
 *
 * Thread safety: pmx_context_stop() and pmx_context_start() as the other calls of a context; a
 * struct pmx_jobs is used by one thread at a time.
 */
#ifndef PMX_PREEMPT_H
#define PMX_PREEMPT_H

#include <pmx/pmx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The time that what is under way may take when a context stops, in microseconds. For
 * pmx_jobs_stop() it is a good choice. */
#define PMX_DRAIN_US 50000

/**
 * Stop a context, and wait until nothing of it is on its way: for PMX_DRAIN_US, after which what is
 * left is sent again when the context goes on. Idempotent.
 * @retval 0           it is stopped, and settled
 * @retval -EPIPE      the engine is gone
 * @retval -ETIMEDOUT  the lane has no CPU; it stops when it has one
 */
PMX_API int pmx_context_stop(struct pmx_context *ctx);

/**
 * Stop a context and park it: as pmx_context_stop(), and its packet buffers are for others until
 * pmx_context_start(). Idempotent.
 * @retval 0            it is parked
 * @retval -EOPNOTSUPP  the client is not thin, or has more receive buffers than a default context;
 *                      nothing happened
 * @retval -EPIPE, -ETIMEDOUT as of pmx_context_stop()
 */
PMX_API int pmx_context_park(struct pmx_context *ctx);

/**
 * Let a context go on, after loading it if it is parked. Idempotent. If its job is stopped too, the
 * context goes on all the same.
 * @retval 0
 * @retval -ENOSPC  it stays parked: others have the packet buffers, try again when they have ended
 *                  or are parked
 * @retval -EPIPE, -ETIMEDOUT as of pmx_context_stop()
 */
PMX_API int pmx_context_start(struct pmx_context *ctx);

/**
 * Say to which job contexts belong that are opened at this node from now on; 0: to none. Until it
 * is called, that is the number in the environment variable PMX_JOB, which pmx-run sets.
 */
PMX_API void pmx_node_set_job(struct pmx_node *node, uint32_t job);

/** A connection to a primary, for the jobs of its node. */
struct pmx_jobs;

/** A job at one node. */
struct pmx_job_state {
	uint32_t job;      /**< its number */
	uint32_t contexts; /**< of it, open here */
	uint32_t stopped;  /**< of these */
	uint32_t settled;  /**< of these, with nothing on its way */
	uint32_t parked;   /**< of these, without packet buffers */
};

/**
 * Connect to a primary of this host, by its name or the path of its socket, as pmx_node_attach()
 * does for thin clients. Who runs as root or as the primary's user acts on contexts of all users,
 * others on their own.
 * @param[out] jobs      end it with pmx_jobs_close()
 * @param      instance  as for pmx_node_attach()
 * @retval 0
 * @retval -ENOENT, -EACCES, -EPROTO, -EPIPE as of pmx_node_attach()
 * @retval -ENOMEM out of memory
 */
PMX_API int pmx_jobs_open(struct pmx_jobs **jobs, const char *instance);

/**
 * Disconnect. Jobs that were stopped to be held by this connection go on, as they do when the
 * process ends in any other way.
 */
PMX_API void pmx_jobs_close(struct pmx_jobs *jobs);

/** Flags of pmx_jobs_stop(). */
enum pmx_jobs_flag {
	PMX_JOBS_HOLD = 0x10000, /**< the job goes on when the connection ends */
	/** its processes are stopped as well, by SIGSTOP, and go on with it, by SIGCONT */
	PMX_JOBS_PROCESSES = 0x20000,
	/** its contexts are parked as soon as they have settled, and open parked */
	PMX_JOBS_PARK = 0x40000,
};

/**
 * Stop a job at this node: its contexts, and those that it opens until it is started. Returns when
 * it is stopped; *state tells whether it is settled and parked, which pmx_jobs_state() tells later.
 * One that is parked stays so until pmx_jobs_load() or pmx_jobs_start().
 * @param      jobs      the connection
 * @param      job       1..
 * @param      drain_us  how long what it has under way may take, e.g. PMX_DRAIN_US; 0: no time
 * @param      flags     enum pmx_jobs_flag
 * @param[out] state     may be NULL
 * @retval 0           also if it has no context here
 * @retval -EINVAL     job 0, drain_us above a minute, or other flags
 * @retval -EOPNOTSUPP a context of it cannot be parked (pmx_context_park()); nothing happened
 * @retval -ENOSPC     more jobs are stopped here than the primary can note (256)
 * @retval -ETIMEDOUT  a lane has no CPU
 * @retval -EPIPE      the primary is gone
 */
PMX_API int pmx_jobs_stop(struct pmx_jobs *jobs, uint32_t job, uint32_t drain_us, unsigned flags,
	struct pmx_job_state *state);

/**
 * Load a parked job at this node: all of its contexts get their packet buffers, or none does. It
 * stays stopped. Arguments and other errors as of pmx_jobs_stop().
 * @retval 0       also if it is not parked
 * @retval -ENOSPC others have the buffers: park or end another job first; nothing happened
 */
PMX_API int pmx_jobs_load(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state);

/** Let a job go on at this node, after loading it. Arguments and errors as of pmx_jobs_load(). */
PMX_API int pmx_jobs_start(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state);

/** Ask for the state of a job at this node. Arguments and errors as of pmx_jobs_stop(). */
PMX_API int pmx_jobs_state(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state);

/**
 * Find the job with the next higher number that has contexts here or is stopped.
 * @param      jobs   the connection
 * @param      after  0 begins
 * @param[out] state  of that job
 * @retval 0
 * @retval -ENOENT  there is none
 * @retval -EPIPE   the primary is gone
 */
PMX_API int pmx_jobs_next(struct pmx_jobs *jobs, uint32_t after, struct pmx_job_state *state);

#ifdef __cplusplus
}
#endif

#endif
