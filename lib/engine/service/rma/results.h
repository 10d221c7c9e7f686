/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What lib/rma has for others: results, events, room. On the lane.
 */
#ifndef PMX_ENGINE_RMA_RESULTS_H
#define PMX_ENGINE_RMA_RESULTS_H

#include "engine/service/rma/rma.h"

/* Results and room: at the end of a turn in which lib/rma was called. */
void results_settle(struct engine *e);
/* Results of transfers and registrations go to the client. false: its ring is full. */
bool results_write(struct engine *e, struct channel *ch);
/* An application, or each, is told of what was pushed to it, as far as its ring has room. */
void events_pass(struct engine *e, struct channel *ch);
void events_pass_all(struct engine *e);

#endif
