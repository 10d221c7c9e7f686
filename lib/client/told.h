/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages whose end is told by an event, with the caller's cookie: told.c.
 */
#ifndef PMX_CLIENT_TOLD_H
#define PMX_CLIENT_TOLD_H

#include <stdint.h>

struct pmx_context;

/* The message whose last buffer that is, SEND_TELLS, has ended. */
void told_ended(struct pmx_context *ctx, uint16_t buf);

#endif
