/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passes on what lib/rma has for others: results, events, room. All functions run on the lane.
 */
#ifndef PMX_ENGINE_RMA_RESULTS_H
#define PMX_ENGINE_RMA_RESULTS_H

#include "rma/engine/rma.h"

/* Pass on results and room. This is to be called at the end of a turn in which lib/rma was
 * called. */
void results_settle(struct engine *e);
/* Write results of transfers and registrations to the client. Return false if its ring is full. */
bool results_write(struct engine *e, struct channel *ch);
/* Notify an application, or each of them, of what was pushed to it, as far as its ring has room. */
void events_pass(struct engine *e, struct channel *ch);
void events_pass_all(struct engine *e);

#endif
