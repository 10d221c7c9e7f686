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
#ifndef PMX_ENGINE_PREEMPT_H
#define PMX_ENGINE_PREEMPT_H

#include "engine/lane.h"

/* Stop the context, or do nothing if it is stopped or not open. drain_us: how long what it has
 * under way may take. */
void preempt_stop(struct engine *e, struct channel *ch, uint32_t drain_us);
/* Stop the context likewise, and park it once it is held. It must be one that park_can() allows. */
void preempt_park(struct engine *e, struct channel *ch, uint32_t drain_us);
/* Load the context if it is parked: it stays stopped. Return 0, or -ENOSPC: it stays parked. */
int preempt_load(struct engine *e, struct channel *ch);
/* Let the context go on, if it is stopped, after loading it if it is parked. Return 0, or -ENOSPC:
 * it stays parked. */
int preempt_start(struct engine *e, struct channel *ch);
/* Let a context that ends go on as preempt_start() does. If it cannot be loaded, nothing of it is
 * sent any more. Return whether what it has sent can still be delivered. */
bool preempt_end(struct engine *e, struct channel *ch);
/* Put the context into the state that it had with the previous primary, in a lane that takes over
 * from that. */
void preempt_resume(struct engine *e, struct channel *ch, enum preempted state);
/* Called in each turn while engine.draining is not 0. */
void preempt_step(struct engine *e);

#endif
