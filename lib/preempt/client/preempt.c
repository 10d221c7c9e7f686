/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preemption by applications and operators: requests to the primary, or to the engine of an
 * embedded node. Called from the application's thread; nothing here is on the data path.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <pmx/preempt.h>

#include "base/clock.h"
#include "client/client.h"

#define LOOK_NS   50000 /* between looks whether a context has settled */
#define MARGIN_US 1000000

/* ------------------------------------------------------------------ contexts */

/* Stop or park a context, and wait until that is so. */
static int
stop(struct pmx_context *ctx, enum attach_stop what)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	const int64_t deadline = clock_deadline(PMX_DRAIN_US + MARGIN_US);
	bool settled = false;
	int result;

	if (ctx_gone(ctx))
		return -EPIPE;
	while ((result = ctx->node->way->stop(ctx, PMX_DRAIN_US, what, &settled)) == 0 &&
		!settled) {
		if (clock_left(deadline) == 0)
			return -ETIMEDOUT;
		if (ctx->node->embedded == NULL)
			nanosleep(&pause, NULL);
		else
			pmx_node_poll(ctx->node);
	}
	return result;
}

int
pmx_context_stop(struct pmx_context *ctx)
{
	return stop(ctx, ATTACH_STOP_STOP);
}

int
pmx_context_park(struct pmx_context *ctx)
{
	return stop(ctx, ATTACH_STOP_PARK);
}

int
pmx_context_start(struct pmx_context *ctx)
{
	bool settled;

	if (ctx_gone(ctx))
		return -EPIPE;
	return ctx->node->way->stop(ctx, 0, ATTACH_STOP_START, &settled);
}

void
pmx_node_set_job(struct pmx_node *node, uint32_t job)
{
	node->job = job;
}

/* ------------------------------------------------------------------ jobs */

struct pmx_jobs {
	struct pmx_node node; /* what it asks by; it has no contexts */
};

int
pmx_jobs_open(struct pmx_jobs **jobs, const char *instance)
{
	struct pmx_jobs *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return -ENOMEM;
	pthread_mutex_init(&j->node.asking, NULL);
	int result = way_thin_attach(&j->node, instance);

	if (result != 0) {
		free(j);
		return result;
	}
	*jobs = j;
	return 0;
}

void
pmx_jobs_close(struct pmx_jobs *jobs)
{
	if (jobs == NULL)
		return;
	close(jobs->node.socket);
	free(jobs);
}

static int
preempt_client_ask(struct pmx_jobs *jobs, enum attach_jobs verb, uint32_t job, uint64_t len,
	struct pmx_job_state *state)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_JOBS,
		.pid = getpid(),
		.ctx = (uint16_t)verb,
		.addr = job,
		.len = len,
	};
	struct attach_reply reply;
	int result = way_thin_ask(&jobs->node, &request, -1, &reply, NULL);

	if (result == 0 && state != NULL)
		*state = (struct pmx_job_state){
			.job = reply.generation,
			.contexts = reply.memory,
			.stopped = (uint32_t)reply.bytes,
			.settled = (uint32_t)(reply.bytes >> 32),
			.parked = (uint32_t)reply.shm,
		};
	return result;
}

int
pmx_jobs_stop(struct pmx_jobs *jobs, uint32_t job, uint32_t drain_us, unsigned flags,
	struct pmx_job_state *state)
{
	if (job == 0 || drain_us > ATTACH_DRAIN_MOST_US ||
		flags & ~(unsigned)(PMX_JOBS_HOLD | PMX_JOBS_PROCESSES | PMX_JOBS_PARK))
		return -EINVAL;
	return preempt_client_ask(jobs, flags & PMX_JOBS_PARK ? ATTACH_JOBS_PARK : ATTACH_JOBS_STOP,
		job,
		drain_us | (flags & PMX_JOBS_HOLD ? ATTACH_HOLD : 0) |
			(flags & PMX_JOBS_PROCESSES ? ATTACH_PROCESSES : 0),
		state);
}

int
pmx_jobs_start(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state)
{
	return job == 0 ? -EINVAL : preempt_client_ask(jobs, ATTACH_JOBS_START, job, 0, state);
}

int
pmx_jobs_load(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state)
{
	return job == 0 ? -EINVAL : preempt_client_ask(jobs, ATTACH_JOBS_LOAD, job, 0, state);
}

int
pmx_jobs_state(struct pmx_jobs *jobs, uint32_t job, struct pmx_job_state *state)
{
	return job == 0 ? -EINVAL : preempt_client_ask(jobs, ATTACH_JOBS_STATE, job, 0, state);
}

int
pmx_jobs_next(struct pmx_jobs *jobs, uint32_t after, struct pmx_job_state *state)
{
	return preempt_client_ask(jobs, ATTACH_JOBS_NEXT, after, 0, state);
}
