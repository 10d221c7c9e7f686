/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes by their pidfds.
 */
#ifndef PMX_BASE_PROCESS_H
#define PMX_BASE_PROCESS_H

#include <poll.h>
#include <stdbool.h>

/* Return whether the process of that pidfd has ended. */
static inline bool
process_has_ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

#endif
