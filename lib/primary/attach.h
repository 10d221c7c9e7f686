/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lets applications attach to a primary, and watches their processes. Works on threads of its own,
 * which access lanes only by commands.
 */
#ifndef PMX_SERVE_ATTACH_H
#define PMX_SERVE_ATTACH_H

#include "engine/lane.h"
#include "primary/takeover.h"

/* Start to answer attach requests and to watch processes. One node per process. door: attachments
 * of the previous primary, or NULL. Return 0 or -errno. */
int attach_serve(struct node *n, const struct takeover_attachments *door);
/* Stop answering and watching, but keep what is open, which attach_save() gives to another
 * primary. */
void attach_pause(void);
void attach_save(struct takeover_attachments *door);
void attach_stop(void);
/* Return the user who has the context open; UINT32_MAX: not known, since it is a secondary's. Any
 * thread. */
uint32_t attach_user(uint16_t ctx);

#endif
