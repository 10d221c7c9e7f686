/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parking (PM-PREEMPT): a stopped context of a thin client gives its mbufs to others, for any time.
 * Functions run on the lane that owns the context unless they say otherwise.
 *
 * Design notes
 * 1. A thin client has the payload of all that it has submitted in its own memory, from where it
 *    was copied into mbufs, and a place there for whatever comes to it. So nothing has to be stored
 *    anywhere else: what is under way keeps its descriptors in the core, and its payloads lie with
 *    the client, those of frames of an unfinished message too. An image of 100 bytes a frame in the
 *    primary's memory, or a file, would save nothing.
 * 2. What is scarce are mbufs: those of the send buffers and of unfinished messages, and the right
 *    to have them (quotas.h). Flows, descriptors and the state of services belong to the context's
 *    number, and are a hundredth of that; so peers, and whoever pushes to its memory, find a parked
 *    context as they find a stopped one.
 * 3. In the slots of its send buffers stands node.absent, which looks like an mbuf that nobody else
 *    has, so completions need not know of parking.
 * 4. Messages to contexts of the same node lie in the senders' mbufs until there is room for them.
 *    They are taken back, and sent again when the context is loaded. Those that wait at another
 *    lane stay there, with their mbufs.
 */
#ifndef PMX_PREEMPT_PARK_H
#define PMX_PREEMPT_PARK_H

#include "engine/lane.h"

/* Return whether the context can be parked: its client is thin, and has no more receive buffers
 * than a default one, since the core has descriptors for so many. Any thread may call it. */
bool park_can(const struct node *n, const struct channel *ch);
/* Park a context that is held in the core. */
void park_context(struct engine *e, struct channel *ch);
/* Take the context's mbufs again, after which it is held. Return 0, or -ENOSPC if there are too
 * few, or if a primary that took over could not map its memory: then it stays parked. */
int park_load(struct engine *e, struct channel *ch);
/* End with ECONNRESET what the context has sent to contexts of this node. To be called when it ends
 * before it was loaded. */
void park_abandon(struct engine *e, struct channel *ch);

#endif
