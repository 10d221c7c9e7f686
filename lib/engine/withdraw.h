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

/* Note a client's SUBMIT_WITHDRAW. It is tried in the next look after its time has come, or in a
 * later one if there are many. Nothing happens to a message that has ended, or left. */
void withdraw(struct engine *e, struct channel *ch, const struct submission *s);
/* Withdraw what has expired. Called at engine.expire_at while engine.expires is set. */
void withdraw_expired(struct engine *e);

#endif
