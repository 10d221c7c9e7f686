/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See stream.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "job/stream.h"

#define READ_BYTES 65536 /* at least so much room for a read */

void
stream_head(uint8_t *head, uint8_t op, uint32_t rank, uint32_t len)
{
	stream_put_u32(head, len);
	stream_put_u32(head + 4, rank);
	memset(head + 8, 0, 4);
	head[8] = op;
}

/* Write some of the bytes. To a socket, write them without a signal when its other side has gone.
 * Pipes cannot do that, so pmx-run and its agents ignore SIGPIPE, and a process of a job has a
 * socket. */
static ssize_t
write_some(int fd, struct iovec *iov, int n)
{
	const struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)n};
	ssize_t r = sendmsg(fd, &m, MSG_NOSIGNAL);

	if (r < 0 && errno == ENOTSOCK)
		r = writev(fd, iov, n);
	return r;
}

int
stream_write(int fd, uint8_t op, uint32_t rank, const void *body, uint32_t len)
{
	uint8_t head[STREAM_HEAD];
	struct iovec iov[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)body, len}};
	unsigned at = 0;

	stream_head(head, op, rank, len);
	while (at < 2) {
		ssize_t n = write_some(fd, iov + at, 2 - (int)at);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = {fd, POLLOUT, 0};

			poll(&p, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (; at < 2 && (size_t)n >= iov[at].iov_len; at++)
			n -= (ssize_t)iov[at].iov_len;
		if (at < 2) {
			iov[at].iov_base = (uint8_t *)iov[at].iov_base + n;
			iov[at].iov_len -= (size_t)n;
		}
	}
	return 0;
}

int
stream_read(int fd, struct stream_in *in)
{
	if (in->taken != 0)
		memmove(in->bytes, in->bytes + in->taken, in->have - in->taken);
	in->have -= in->taken;
	in->taken = 0;
	if (in->room - in->have < READ_BYTES) {
		const size_t room = in->have + 2 * READ_BYTES > 2 * in->room
			? in->have + 2 * READ_BYTES
			: 2 * in->room;
		uint8_t *more = realloc(in->bytes, room);

		if (more == NULL)
			return -ENOMEM;
		in->bytes = more;
		in->room = room;
	}
	ssize_t n = read(fd, in->bytes + in->have, in->room - in->have);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : errno == ECONNRESET ? 0 : -errno;
	in->have += (size_t)n;
	return n > 0;
}

int
stream_next(struct stream_in *in, struct stream_message *m)
{
	const uint8_t *at = in->bytes + in->taken;

	if (in->have - in->taken < STREAM_HEAD)
		return 0;
	m->len = stream_u32(at);
	m->rank = stream_u32(at + 4);
	m->op = at[8];
	m->body = at + STREAM_HEAD;
	if (m->len > STREAM_MAX || m->op == 0 || m->op > STREAM_VALUES)
		return -EPROTO;
	if (in->have - in->taken < STREAM_HEAD + m->len)
		return 0;
	in->taken += STREAM_HEAD + m->len;
	return 1;
}

void
stream_free(struct stream_in *in)
{
	free(in->bytes);
	*in = (struct stream_in){0};
}
