/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file job.h
 * Jobs: processes that were started together and find each other, without numbers that people wrote
 * down.
 *
 * A job is started by pmx-run, or by what else tells its processes who they are by PMIx (mpirun,
 * srun --mpi=pmix). Each of its processes has a rank; pmx_job_init() opens a context for it, tells
 * the others its address, and opens a group of all. A process that nobody started as part of a job
 * is a job of one.
 *
 * Thread safety: a job, its context and its group are used by one thread at a time.
 */
#ifndef PMX_JOB_VERBS_H
#define PMX_JOB_VERBS_H

#include <pmx/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A job as one of its processes has it. */
struct pmx_job;

/** Parameters that say how to take part in a job. */
struct pmx_job_params {
	uint32_t size;        /**< sizeof(struct pmx_job_params) */
	bool no_group;        /**< open no group of all */
	bool no_domain;       /**< others than the job's processes may send to this context too */
	const char *instance; /**< of pmx_node_attach(), where NULL is possible too */
	const struct pmx_context_params *context; /**< of pmx_context_open(); NULL: defaults */
};

/**
 * Take part in the job that this process was started for: attach to the primary of this host, open
 * a context, exchange addresses with all others, and open a group of all. Every process of the job
 * calls it, once.
 * @param[out] job        end it with pmx_job_finalize()
 * @param      params     see there; borrowed for the call; NULL: defaults
 * @param      timeout_us how long to wait for the other processes
 * @param[out] error      a sentence that names what failed and what to do, if not NULL
 * @param      error_len  bytes of error
 * @retval 0
 * @retval -EALREADY    this process takes part already
 * @retval -EPIPE       pmx-run has ended, or ends the job
 * @retval -ETIMEDOUT   another process has not called it in time
 * @retval -EOPNOTSUPP  the job was started by something that offers no exchange of addresses
 * @retval -EPROTO      pmx-run is of another version
 * @retval -ENOENT      no primary runs on this host
 *
 * Others as of pmx_node_attach(), pmx_context_open() and pmx_group_open(). Waits for the others.
 */
PMX_API int pmx_job_init(struct pmx_job **job, const struct pmx_job_params *params,
	int64_t timeout_us, char *error, uint32_t error_len);

/** Leave: close the group, the context and the attachment. Waits for nobody. NULL is ignored. */
PMX_API void pmx_job_finalize(struct pmx_job *job);

/** Return the job's number, 1..2^32 - 1, by which jobs that run at the same time differ. It is also
 * the number of its group. */
PMX_API uint32_t pmx_job_number(const struct pmx_job *job);
/** Return this process's own rank, 0..size - 1. */
PMX_API uint32_t pmx_job_rank(const struct pmx_job *job);
/** Return how many processes the job has. */
PMX_API uint32_t pmx_job_size(const struct pmx_job *job);
/** Return the process's attachment to the primary. */
PMX_API struct pmx_node *pmx_job_node(const struct pmx_job *job);
/** Return the process's context in the job. It has the address that the others know. */
PMX_API struct pmx_context *pmx_job_context(const struct pmx_job *job);
/** Return the group of all processes, in the order of their ranks; NULL with
 * pmx_job_params.no_group. */
PMX_API struct pmx_group *pmx_job_group(const struct pmx_job *job);

/**
 * Look up the address of a process of the job.
 * @retval -EINVAL there is no such rank
 */
PMX_API int pmx_job_address(const struct pmx_job *job, uint32_t rank, struct pmx_addr *address);

/** Longest key of pmx_job_put(), bytes. */
#define PMX_JOB_KEY_MAX   63
/** Longest value of pmx_job_put(), bytes. */
#define PMX_JOB_VALUE_MAX 65536

/**
 * Offer a value to the others, who have it when all have called pmx_job_fence(). One of the same
 * key replaces the one before.
 * @param job    the job
 * @param key    1 to PMX_JOB_KEY_MAX characters
 * @param value  borrowed for the call
 * @param len    0..PMX_JOB_VALUE_MAX
 * @retval 0
 * @retval -EINVAL key or len
 * @retval -EPIPE  pmx-run has ended, or ends the job
 * @retval -ENOMEM out of memory
 */
PMX_API int pmx_job_put(struct pmx_job *job, const char *key, const void *value, uint32_t len);

/**
 * Wait until all processes of the job have called it as often, and have what they have put before.
 * @param job        the job
 * @param timeout_us how long
 * @retval 0
 * @retval -ETIMEDOUT not all have. It goes on: the next call waits for the same
 * @retval -EPIPE     pmx-run has ended, or ends the job; a process has ended
 *
 * Contexts of the job make no progress meanwhile where engines are embedded.
 */
PMX_API int pmx_job_fence(struct pmx_job *job, int64_t timeout_us);

/**
 * Read a value that a process had put before the last pmx_job_fence().
 * @param      job   the job
 * @param      rank  whose
 * @param      key   see pmx_job_put()
 * @param[out] value at most len bytes of it
 * @param      len   room, bytes
 * @return     how many bytes it has, also if that is more than len; or
 * @retval -ENOENT  that process has put nothing by that key
 * @retval -EINVAL  there is no such rank
 */
PMX_API int pmx_job_get(struct pmx_job *job, uint32_t rank, const char *key, void *value,
	uint32_t len);

#ifdef __cplusplus
}
#endif

#endif
