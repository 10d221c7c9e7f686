/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attaching without an EAL: the channel is memory of this process, whose descriptor the primary
 * gets over a Unix socket, and nothing else is shared. All it needs is the right to open that
 * socket: no root, no hugepages, no DPDK. It also works from other mount and PID namespaces. Called
 * from the application's thread, not on the data path.
 *
 * Design notes
 * 1. The connection shows each side that the other lives: when it ends, the primary ends the
 *    client's contexts, and the client takes the primary to be gone.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "channel/instance.h"
#include "channel/passing.h"
#include "client/client.h"

#define OPEN_TRIES 64

/* ------------------------------------------------------------------ questions */

static int
read_reply(int sock, struct attach_reply *reply, int *fds, unsigned wanted)
{
	const int64_t deadline = clock_deadline(ATTACH_PATIENCE_S * 1000000);
	struct pollfd p = {.fd = sock, .events = POLLIN};
	unsigned count;
	int got[2], ready, result;

	do
		ready = poll(&p, 1, clock_poll_ms(deadline, ATTACH_PATIENCE_S * 1000));
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return -ETIMEDOUT;
	STEP();
	ssize_t n = passing_receive(sock, reply, sizeof(*reply), got, 2, &count);

	STEP();
	if (n <= 0)
		result = n < 0 && errno == EMFILE ? -EMFILE : -EPIPE;
	else if (n != (ssize_t)sizeof(*reply) || reply->abi != CHANNEL_ABI)
		result = -EPROTO;
	else
		result = reply->result;
	if (result == 0 && fds != NULL && count != wanted)
		result = -EPROTO;
	for (unsigned i = 0; i < count; i++) {
		if (fds != NULL && result == 0)
			fds[i] = got[i];
		else
			close(got[i]);
	}
	return result;
}

int
way_thin_ask(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds)
{
	STEP();
	/* several threads may use one connection */
	pthread_mutex_lock(&node->asking);
	ssize_t n = passing_send(node->socket, request, sizeof(*request), &give, give >= 0, 0);

	STEP();
	int result = n != (ssize_t)sizeof(*request)
		? -EPIPE
		: read_reply(node->socket, reply, fds,
			  request->op == ATTACH_PAIR || request->op == ATTACH_TELL ? 1 : 2);

	/* a late reply would be taken for that of the next request, so the attachment ends here */
	if (result == -ETIMEDOUT || result == -EPROTO)
		shutdown(node->socket, SHUT_RDWR);
	pthread_mutex_unlock(&node->asking);
	return result;
}

/* ------------------------------------------------------------------ contexts */

static void
unmap(void *at, uint64_t len)
{
	if (at != NULL)
		munmap(at, len);
}

/* Allocate pages and have the primary open a channel in them. */
static int
open_with(struct pmx_node *node, struct attach_request *request, struct attach_reply *reply,
	void **at, uint64_t *len, int *fds)
{
	struct attach_request question = *request;

	question.op = ATTACH_BYTES;
	int result = way_thin_ask(node, &question, -1, reply, NULL);

	if (result != 0)
		return result;
	*len = reply->bytes;
	int fd = pages_alloc(len, at);

	if (fd < 0)
		return fd == -EMFILE ? fd : -ENOMEM;
	request->len = *len;
	request->ctx = reply->ctx;
	result = way_thin_ask(node, request, fd, reply, fds);
	close(fd);
	if (result == 0 && channel_check(*at) != NULL) {
		result = -EPROTO;
		close(fds[0]);
		close(fds[1]);
		attach_give_back(node, way_thin_ask, reply);
	} else if (result == -EMFILE && reply->result == 0) {
		/* the context is open, but its descriptors did not get here */
		attach_give_back(node, way_thin_ask, reply);
	}
	if (result != 0)
		unmap(*at, *len);
	return result;
}

static int
thin_open_context(struct pmx_context **out, struct pmx_node *node, uint16_t number,
	const struct pmx_context_params *params)
{
	struct attach_request request;
	struct attach_reply reply;
	uint64_t len = 0;
	int fds[2] = {-1, -1}, result = -EBUSY;
	void *at = NULL;

	/* between the two requests the context may have been taken, or the number of free buffers,
	 * and so the needed bytes, may have changed */
	for (int i = 0; i < OPEN_TRIES && (result == -EBUSY || result == -EINVAL); i++) {
		request = attach_open_request(node, number, params);
		result = open_with(node, &request, &reply, &at, &len, fds);
		if (result == -EBUSY && number != PMX_ANY_CONTEXT)
			break;
	}
	if (result != 0)
		return result;
	result = ctx_make(out, node, params, at, fds[0], fds[1]);
	if (result == 0) {
		(*out)->mapped = len;
		return 0;
	}
	attach_give_back(node, way_thin_ask, &reply);
	unmap(at, len);
	return result;
}

int
way_thin_rejoin(struct pmx_context *ctx)
{
	const struct pmx_context_params params = {
		.send_buffers = ctx->send_buffers,
		.receive_buffers = ctx->receive_buffers,
		.open_wait_us = ctx->open_wait_us,
	};
	struct attach_request request = attach_open_request(ctx->node, ctx->ctx, &params);
	struct attach_reply reply;
	uint64_t len;
	int fds[2] = {-1, -1};
	void *at;
	int result = open_with(ctx->node, &request, &reply, &at, &len, fds);

	if (result != 0)
		return result;
	result = ctx_rejoin(ctx, at, len, fds[0], fds[1]);
	if (result != 0)
		attach_give_back(ctx->node, way_thin_ask, &reply);
	if (ctx->shm == at)
		/* the context has the channel; if that failed, it later tries again with another */
		return result;
	close(fds[0]);
	close(fds[1]);
	unmap(at, len);
	return result;
}

static void
client_thin_end(struct pmx_node *node)
{
	STEP();
	life_end(node);
	STEP();
	close(node->socket);
	STEP();
}

/* ------------------------------------------------------------------ attaching */

static uint16_t
simd_bits(void)
{
	return 512; /* no limit: the CPU decides */
}

static uint64_t
page(const void *shm)
{
	(void)shm;
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

const struct way way_thin = {thin_open_context, attach_close, attach_memory, client_thin_end,
	simd_bits, attach_preempt, NULL, page, NULL, way_thin_ask, NULL};

int
way_thin_connect(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd;

	if ((size_t)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	STEP();
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
		STEP();
		return fd;
	}
	int error = errno;

	close(fd);
	/* ECONNREFUSED: the file is there, but nobody listens any more */
	return error == ECONNREFUSED ? -ENOENT : error == EPERM ? -EACCES : -error;
}

int
way_thin_attach(struct pmx_node *node, const char *instance)
{
	char dir[128], path[256];
	int fd;

	if (strchr(instance, '/') != NULL) {
		fd = way_thin_connect(instance);
	} else {
		snprintf(path, sizeof(path), ATTACH_SOCKET, instance);
		fd = way_thin_connect(path);
		if (fd == -ENOENT && own_sockets(dir, sizeof(dir)) &&
			(size_t)snprintf(path, sizeof(path), "%s/%s.sock", dir, instance) <
				sizeof(path))
			fd = way_thin_connect(path);
	}
	if (fd < 0)
		return fd;
	node->way = &way_thin;
	node->socket = fd;
	int result = attach_hello(node, way_thin_ask, NULL);

	if (result != 0)
		close(fd);
	return result;
}

int
pmx_context_process(struct pmx_node *node, uint16_t context)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_OWNER,
		.pid = getpid(),
		.ctx = context,
	};
	struct attach_reply reply;

	if (node->way != &way_thin)
		return -EOPNOTSUPP;
	int result = way_thin_ask(node, &request, -1, &reply, NULL);

	return result != 0 ? result : reply.pid;
}
