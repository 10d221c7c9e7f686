/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes by their pidfds.
 */
#ifndef PMX_BASE_PROCESS_H
#define PMX_BASE_PROCESS_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

/* Return whether the process of that pidfd has ended. */
static inline bool
process_has_ended(int pidfd)
{
	struct pollfd life = {.fd = pidfd, .events = POLLIN};
	int ready;

	do
		ready = poll(&life, 1, 0);
	while (ready < 0 && errno == EINTR); /* a signal that is handled here tells nothing */
	return ready != 0;
}

#endif
