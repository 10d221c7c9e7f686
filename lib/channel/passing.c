/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages with descriptors; see passing.h.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel/passing.h"

ssize_t
passing_send(int sock, const void *bytes, size_t len, const int *fds, unsigned n, int flags)
{
	char room[CMSG_SPACE(PASSING_MAX * sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n > 0) {
		m.msg_control = room;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(sock, &m, flags | MSG_NOSIGNAL);
}

ssize_t
passing_receive(int sock, void *bytes, size_t len, int *fds, unsigned max, unsigned *n)
{
	char room[CMSG_SPACE(PASSING_MAX * sizeof(int))];
	struct iovec iov = {bytes, len};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};
	ssize_t result = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_TRUNC);

	*n = 0;
	for (struct cmsghdr *c = result >= 0 ? CMSG_FIRSTHDR(&m) : NULL; c != NULL;
		c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
			at += sizeof(int)) {
			int given;

			memcpy(&given, CMSG_DATA(c) + at, sizeof(given));
			if (*n < max)
				fds[(*n)++] = given;
			else
				close(given);
		}
	}
	if (result >= 0 && m.msg_flags & MSG_CTRUNC) { /* the kernel had no number left for one */
		while (*n > 0)
			close(fds[--*n]);
		errno = EMFILE;
		return -1;
	}
	return result;
}
