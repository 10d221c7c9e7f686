/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts open, close and end. Functions run on the lane that owns the context unless they say
 * otherwise.
 */
#ifndef PMX_ENGINE_CONTEXTS_H
#define PMX_ENGINE_CONTEXTS_H

#include "engine/lane.h"

/* Opens a context in a lane that takes over, from its channel as it is, before the lane polls.
 * parked: without mbufs. 0, or -ENOSPC. */
int context_resume(struct engine *e, struct channel *ch, const struct quotas *q, struct thin *t,
	bool parked);
/* A parked context that is resumed had kept the mbuf of that send slot: it gets one. false: there
 * is none. */
bool context_keeps(struct node *n, struct channel *ch, uint16_t slot);
/* Closes the channels of secondaries, which cannot move to another primary. */
void contexts_end_secondaries(struct engine *e);
/* The descriptor on which the client of an open context sleeps: an epoll of the channel's eventfd,
 * with one edge for each wake-up. The caller owns it. -errno on failure. */
int context_bell(const struct channel *ch);
/* Ends the use of a thin client's memory, if the channel has any: back to the node's own region. */
void thin_end(struct node *n, struct channel *ch);
void engine_command(struct engine *e, struct command *cmd);
/* One more step towards the end of a context that is no longer open: takes what it submitted, then
 * waits for what is on its way. Returns how much it moved. */
unsigned context_reap(struct engine *e, struct channel *ch);

#endif
