/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the library has to say to people: to stderr, or where pmx_log_to() leads it. Any thread.
 */
#ifndef PMX_CLIENT_SAY_H
#define PMX_CLIENT_SAY_H

#include "client/dpdk.h"
#include "pmx/pmx.h"

/* Say a line, which has no end of line. */
void client_say(enum pmx_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Say a line that is complete. Return whether the application takes lines. */
int client_pass(enum pmx_log_level level, const char *line) DPDK_PART(client_pass);

#endif
