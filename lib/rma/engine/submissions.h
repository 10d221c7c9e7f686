/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Submissions of clients. All functions run on the lane, and are service_submit unless they say
 * otherwise.
 */
#ifndef PMX_ENGINE_RMA_SUBMISSIONS_H
#define PMX_ENGINE_RMA_SUBMISSIONS_H

#include "rma/engine/rma.h"

unsigned submission_transfer(struct engine *e, struct channel *ch, const struct submission *s);
unsigned submission_frame(struct engine *e, struct channel *ch, const struct submission *s);
unsigned submission_region(struct engine *e, struct channel *ch, const struct submission *s);
unsigned submission_cancel(struct engine *e, struct channel *ch, const struct submission *s);
/* End the transfer of a frame that the client packed and that was not Acked. This is
 * service_ops.send_failed. */
void submission_failed(struct engine *e, struct channel *ch, const struct send_slot *s,
	const struct send_failure *f);

#endif
