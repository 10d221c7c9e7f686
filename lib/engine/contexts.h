/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts open, close and end. On the lane that owns the context, but for what is said.
 */
#ifndef PMX_ENGINE_CONTEXTS_H
#define PMX_ENGINE_CONTEXTS_H

#include "engine/lane.h"

/* What an open of that context with these wishes (0: the default) gets: 0, or -EINVAL: too many. A
 * default is less when few are left, down to QUOTAS_LEAST; a wish is not. */
int quotas_of(const struct node *n, uint16_t ctx, uint32_t send_buffers, uint32_t receive_buffers,
	bool thin, struct quotas *q);
/* The engine's own view of a channel as it is; a lane that takes over, before it polls. 0,
 * -ENOSPC. */
int context_resume(struct engine *e, struct channel *ch, const struct quotas *q, struct thin *t);
/* Channels of secondaries end: who takes over cannot have them. On the lane. */
void contexts_end_secondaries(struct engine *e);
/* What the client of an open context sleeps on: an epoll of the channel's eventfd, one edge a
 * wake-up. The caller's; -errno. */
int context_bell(const struct channel *ch);
/* Nobody uses a thin context any more. */
void thin_end(struct node *n, struct channel *ch);
void engine_command(struct engine *e, struct command *cmd);
/* A context that is no longer open: one more step towards its end. Returns what it moved. */
unsigned context_reap(struct engine *e, struct channel *ch);

#endif
