/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages whose end is told by an event, with the caller's cookie: told.c.
 */
#ifndef PMX_CLIENT_TOLD_H
#define PMX_CLIENT_TOLD_H

#include "client/client.h"

/* Queue the event of a message that has ended, for pmx_poll_event(). The message's last buffer is
 * `buf`, which is SEND_TELLS. */
static inline void
told_ended(struct pmx_context *ctx, uint16_t buf)
{
	struct send_note *n = &ctx->notes[buf];

	n->told = SEND_TOLD;
	n->next = NO_BUFFER;
	if (ctx->told_count++ == 0)
		ctx->told_first = buf;
	else
		ctx->notes[ctx->told_last].next = buf;
	ctx->told_last = buf;
	ctx->tells--;
}

#endif
