/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts open, close and end. Functions run on the lane that owns the context unless they say
 * otherwise.
 */
#ifndef PMX_ENGINE_CONTEXTS_H
#define PMX_ENGINE_CONTEXTS_H

#include "engine/lane.h"

/* Open a context in a lane that takes over, from its channel as it is, before the lane polls.
 * parked: it opens without mbufs. Return 0, or -ENOSPC. */
int context_resume(struct engine *e, struct channel *ch, const struct quotas *q, struct thin *t,
	bool parked);
/* Give an mbuf to a send slot of a parked context that is resumed. To be called for a slot that had
 * kept its mbuf when the context was parked. Return false if no mbuf is free. */
bool context_keeps(struct node *n, struct channel *ch, uint16_t slot);
/* Close the channels of secondaries, which cannot move to another primary. */
void contexts_end_secondaries(struct engine *e);
/* Return a descriptor on which the client of an open context can sleep, or -errno. It is an epoll
 * of the channel's eventfd, with one edge for each wake-up. The caller owns it. */
int context_bell(const struct channel *ch);
/* End the use of a thin client's memory, if the channel has any, and go back to the node's own
 * region. */
void thin_end(struct node *n, struct channel *ch);
void engine_command(struct engine *e, struct command *cmd);
/* Take one more step towards the end of a context that is no longer open: take what it submitted,
 * then wait for what is on its way. Return how much was moved. */
unsigned context_reap(struct engine *e, struct channel *ch);

#endif
