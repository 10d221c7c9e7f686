/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs of a node as its operator sees them: which there are, and which are stopped. All functions
 * are called with the lock of attach.c.
 */
#ifndef PMX_SERVE_JOBS_H
#define PMX_SERVE_JOBS_H

#include "engine/lane.h"
#include "primary/socket.h"

/* user_of: who opened a context last. process_of: a pidfd of the process that has it, or 0. */
void jobs_begin(struct node *n, uint32_t (*user_of)(uint16_t ctx), int (*process_of)(uint16_t ctx));
/* This primary ends: processes that it stopped go on, unless another primary takes over. */
void jobs_end(bool given);
/* Answers ATTACH_JOBS. uid: who asks; all: he acts on everybody's contexts. 0 or -errno. */
int jobs_answer(const struct asker *who, uint32_t uid, bool all,
	const struct attach_request *request, struct attach_reply *reply);
/* Whether contexts that this user opens for the job open parked. */
bool jobs_parks(uint32_t job, uint32_t uid);
/* Stops a context that was opened if its job is stopped. */
void jobs_opened(uint16_t ctx);
/* Answers ATTACH_STOP, for a context of who asks. */
int jobs_stop_one(uint16_t ctx, const struct attach_request *request, struct attach_reply *reply);
/* A connection has ended: what it held goes on. */
void jobs_gone(int connection);

#endif
