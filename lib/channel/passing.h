/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages with file descriptors (SCM_RIGHTS) over a Unix socket that preserves message boundaries,
 * for attaching and taking over. Any thread may call these.
 */
#ifndef PMX_PASSING_H
#define PMX_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define PASSING_MAX 253 /* descriptors of a message: the kernel's SCM_MAX_FD */

/* Like send(), with len bytes and n (0..PASSING_MAX) descriptors, which remain the caller's. Never
 * raises SIGPIPE. */
ssize_t passing_send(int sock, const void *bytes, size_t len, const int *fds, unsigned n,
	int flags);
/* Like recv() with MSG_TRUNC: returns the message's length, of which at most len bytes are stored.
 * *n: descriptors received, which the caller owns from now on, with close-on-exec set. Descriptors
 * beyond max (0..PASSING_MAX) are closed. If this process may not open as many as came, none is
 * kept: -1 with EMFILE, and the bytes are stored. */
ssize_t passing_receive(int sock, void *bytes, size_t len, int *fds, unsigned max, unsigned *n);

#endif
