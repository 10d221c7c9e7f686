/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Network preemption (PM-PREEMPT): contexts are held up for any time, and go on where they were.
 * Functions run on the lane that owns the context unless they say otherwise.
 *
 * Design notes
 * 1. A stopped context's submissions stay in its ring. Its plain and matched endpoints are frozen
 *    in the core (proto_ctx_freeze); each service stops what the context itself begins
 *    (service_ops.stop). What others begin with its memory goes on, since that needs nothing of the
 *    application: so nobody who is not stopped ever waits for room in a service's pool that
 *    messages to a stopped context take.
 * 2. It drains until nothing of it is on its way, or for as long as the command says; then it is
 *    held. The lane looks every SETTLE_US.
 * 3. Once it is held it may be parked (park.h), and must be loaded before it goes on.
 */
#ifndef PMX_PREEMPT_PREEMPT_H
#define PMX_PREEMPT_PREEMPT_H

#include "engine/lane.h"

#define PREEMPT_SERVICE 5

extern const struct service_ops service_preempt;

/* Put the context into the state that it had with the previous primary, in a lane that takes over
 * from that. */
void preempt_resume(struct engine *e, struct channel *ch, enum preempted state);

#endif
