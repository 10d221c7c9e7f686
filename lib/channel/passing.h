/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages with descriptors (SCM_RIGHTS) over a Unix socket that keeps their bounds: what attaching
 * and taking over are said with. Any thread.
 */
#ifndef PMX_PASSING_H
#define PMX_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define PASSING_MAX 253 /* descriptors of a message: the kernel's SCM_MAX_FD */

/* As send(): len bytes, and n (0..PASSING_MAX) descriptors, which stay the caller's. Never
 * SIGPIPE. */
ssize_t passing_send(int sock, const void *bytes, size_t len, const int *fds, unsigned n,
	int flags);
/* As recv() with MSG_TRUNC: the message's length, whatever of it fits. *n: descriptors that came,
 * the caller's from now on, closed by exec; more than max (0..PASSING_MAX) are closed. */
ssize_t passing_receive(int sock, void *bytes, size_t len, int *fds, unsigned max, unsigned *n);

#endif
