/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs of a node as its operator sees them: which there are, and which are stopped. All functions
 * are called with the lock of attach.c.
 */
#ifndef PMX_PREEMPT_JOBS_H
#define PMX_PREEMPT_JOBS_H

#include "engine/lane.h"

#define JOBS_NOBODY (-1) /* of connections */

/* The process that asks. */
struct jobs_asker {
	int connection; /* that may hold jobs, by its number */
	int pid;
	uint32_t uid;
	bool all; /* it acts on everybody's contexts */
};

/* user_of: who opened a context last. process_of: a pidfd of the process that has it, or 0. */
void jobs_begin(struct node *n, uint32_t (*user_of)(uint16_t ctx), int (*process_of)(uint16_t ctx));
/* Let the processes that this primary stopped go on when it ends, unless another primary takes
 * over. */
void jobs_end(bool given);
/* Answer ATTACH_JOBS. Return 0 or -errno. */
int jobs_answer(const struct jobs_asker *who, const struct attach_request *request,
	struct attach_reply *reply);
/* Return whether contexts that this user opens for the job open parked. */
bool jobs_parks(uint32_t job, uint32_t uid);
/* Stop a context that was just opened if its job is stopped. */
void jobs_opened(uint16_t ctx);
/* Answer ATTACH_STOP, for a context of the process that asks. */
int jobs_stop_one(uint16_t ctx, const struct attach_request *request, struct attach_reply *reply);
/* Let the jobs that a connection held go on, since it has ended. A parked job that cannot be loaded
 * stays parked. */
void jobs_gone(int connection);

#endif
