/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Applications attach to a primary, and their processes are watched. Answers on threads of its own,
 * which reach lanes only by commands.
 */
#ifndef PMX_SERVE_ATTACH_H
#define PMX_SERVE_ATTACH_H

#include "engine/lane.h"
#include "serve/takeover.h"

/* Answer attach requests and watch the processes behind them. One node a process. door: what the
 * primary before had, or NULL. 0 or -errno. */
int attach_serve(struct node *n, const struct takeover_attachments *door);
/* Answer and watch no more; what is open stays so, for another: attach_save. */
void attach_pause(void);
void attach_save(struct takeover_attachments *door);
void attach_stop(void);

#endif
