/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Admission of contexts: which mbufs are whose.
 *
 * Design notes
 * 1. A context is resident, and so may send and receive, only if all the mbufs that it may hold at
 *    once can be reserved, so that one context never starves another or the links. A thin context
 *    holds no mbufs of received messages, since these are copied.
 * 2. Some mbufs are kept back for each context that is not open, so that all limits.resident can be
 *    (limits.contexts, if that is 0): when fewer are left than a default context has, it gets
 *    fewer, and is told how many.
 * 3. A parked context (park.h) is not resident. It has its quotas, which its client relies on, and
 *    takes the mbufs for them when it is loaded. Nor is one that has closed: it keeps the mbufs of
 *    what it has sent until that is delivered.
 */
#ifndef PMX_ENGINE_QUOTAS_H
#define PMX_ENGINE_QUOTAS_H

#include "engine/lane.h"

/* Compute the quotas of a context that is to be opened with so many buffers, 0 meaning the default.
 * Return 0, or -EINVAL if it asks for more than is allowed. A default is reduced when few buffers
 * are left, down to QUOTAS_LEAST; an explicit request is not. parked: it opens parked, so what
 * matters is what there is for one context when all have as many. Any thread may call it. */
int quotas_of(const struct node *n, uint16_t ctx, uint32_t send_buffers, uint32_t receive_buffers,
	bool thin, bool parked, struct quotas *q);
/* Give these quotas to a context that has none; ch->thin must be set. */
void quotas_set(struct channel *ch, const struct quotas *q);
/* Return whether what the context receives is copied off its mbufs. All such contexts share those
 * mbufs, so it has none of its own for that. */
bool quotas_are_copied(const struct node *n, const struct channel *ch);
/* Return whether the context's quotas are more than there can be for one context when all have as
 * many. */
bool quotas_exceed(const struct node *n, const struct channel *ch);
/* Reserve the mbufs of the context's quotas. Return 0, or -ENOSPC: they are not there, or
 * limits.resident contexts have theirs. */
int quotas_take(struct node *n, struct channel *ch);
/* Give the context's mbufs back, all but `kept`. */
void quotas_give(struct node *n, struct channel *ch, uint32_t kept);

#endif
