/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that are no longer to be sent: at once, or when their time is over. Only one of which
 * nothing was sent yet can be withdrawn, since what was sent must arrive for those behind it to be
 * in order; or one that waits for a context of this lane. It ends with the error that was asked
 * for, is never delivered, and those behind it go on. Runs on the lane.
 */
#ifndef PMX_ENGINE_WITHDRAW_H
#define PMX_ENGINE_WITHDRAW_H

#include "engine/lane.h"

/* A client's SUBMIT_WITHDRAW: it is tried in the next look, or in one of the next if many are. Of a
 * message that has ended, or left, nothing happens. */
void withdraw(struct engine *e, struct channel *ch, const struct submission *s);
/* Withdraws what has expired. Called at engine.expire_at while engine.expires. */
void withdraw_expired(struct engine *e);

#endif
