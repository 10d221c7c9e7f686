/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The primary's side of attaching: the handshake over rte_mp, and a thread that watches the
 * processes behind contexts (pidfd), has a dead one's contexts aborted at once, and frees memory that
 * contexts had. The handler runs on the EAL's mp thread, the watcher on its own; lanes do the work by
 * command.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "engine/serve.h"

/* Events of the watcher that are no processes. */
#define STOP    UINT64_MAX
#define REAP    (UINT64_MAX - 1)
#define LEFT_MS 100 /* until memory is looked at again that ports still read */

static struct {
	struct node *node;
	int epoll, stop;
	pthread_t watcher;
	int pidfd[WIRE_NODES_MAX]; /* by context, 0 = none */
} server;

/* ------------------------------------------------------------------ death */

static void
forget(uint16_t ctx)
{
	if (server.pidfd[ctx] == 0)
		return;
	epoll_ctl(server.epoll, EPOLL_CTL_DEL, server.pidfd[ctx], NULL);
	close(server.pidfd[ctx]);
	server.pidfd[ctx] = 0;
}

static int
watch(uint16_t ctx, uint32_t generation, int pid)
{
	struct epoll_event event = {
		.events = EPOLLIN, .data.u64 = (uint64_t)generation << 16 | ctx};
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return -errno;
	forget(ctx);
	server.pidfd[ctx] = fd;
	return epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static bool
stopping(void)
{
	struct pollfd p = {.fd = server.stop, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void *
watch_processes(void *arg)
{
	struct epoll_event event;
	bool memory_left = false;
	int n;

	(void)arg;
	while ((n = epoll_wait(server.epoll, &event, 1, memory_left ? LEFT_MS : -1)) >= 0 || errno == EINTR) {
		if (n > 0 && event.data.u64 == STOP)
			break;
		if (n <= 0 || event.data.u64 == REAP) {
			eventfd_t times;

			(void)eventfd_read(server.node->reaper, &times);
			memory_left = memory_reap(server.node);
			continue;
		}
		struct command cmd = {
			.op = COMMAND_ABORT,
			.ctx = event.data.u64 & 0xFFFF,
			.generation = (uint32_t)(event.data.u64 >> 16),
		};

		epoll_ctl(server.epoll, EPOLL_CTL_DEL, server.pidfd[cmd.ctx], NULL);
		/* a lane that has no CPU now does it later: nobody else would */
		while (node_command(server.node, &cmd, true) == -ETIMEDOUT && !stopping())
			;
	}
	return NULL;
}

/* ------------------------------------------------------------------ handshake */

static int
open_any(struct command *cmd)
{
	int result = -EBUSY;

	for (uint32_t i = 0; i < server.node->config.contexts && result == -EBUSY; i++) {
		if (server.node->channels[i].state != CHANNEL_CLOSED)
			continue;
		cmd->ctx = (uint16_t)i;
		result = node_command(server.node, cmd, true);
	}
	return result;
}

static int
open_for(const struct attach_request *request, struct attach_reply *reply, struct rte_mp_msg *msg)
{
	struct command cmd = {
		.op = COMMAND_OPEN,
		.ctx = request->ctx,
		.send_buffers = request->send_buffers,
		.receive_buffers = request->receive_buffers,
		.pid = request->pid,
	};
	struct node *n = server.node;
	char path[32];

	/* the memory of this process in this life: after exec or death it reads as empty */
	snprintf(path, sizeof(path), "/proc/%d/mem", request->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cmd.mm_fd = fd > 0 ? fd : 0;
	int result = request->ctx == 0xFFFF ? open_any(&cmd) : node_command(n, &cmd, true);

	if (result != 0) {
		if (fd > 0)
			close(fd);
		return result;
	}
	struct channel *ch = &n->channels[cmd.ctx];

	result = watch(cmd.ctx, cmd.generation, request->pid);
	if (result != 0) {
		cmd.op = COMMAND_ABORT;
		node_command(n, &cmd, true);
		return result;
	}
	reply->ctx = cmd.ctx;
	reply->generation = cmd.generation;
	snprintf(reply->zone, sizeof(reply->zone), "%s", ch->zone);
	msg->fds[0] = ch->event_fd;
	msg->fds[1] = node_lane(n, cmd.ctx)->doorbell;
	msg->num_fds = 2;
	return 0;
}

/* Map what a client gave. */
static int
map_for(const struct attach_request *request, const struct rte_mp_msg *msg, struct attach_reply *reply)
{
	struct command cmd = {
		.ctx = request->ctx,
		.generation = request->generation,
	};

	if (msg->num_fds != 1)
		return -EPROTO;
	int result = memory_open(server.node, &cmd, true, msg->fds[0], request->len, request->addr, request->adopted);

	if (result < 0)
		return result;
	reply->memory = (uint32_t)result;
	return 0;
}

static int
answer(const struct rte_mp_msg *msg, const void *peer)
{
	struct attach_request request;
	struct attach_reply reply = {.abi = CHANNEL_ABI, .node = (uint16_t)server.node->config.id};
	struct rte_mp_msg out = {.len_param = sizeof(reply)};
	struct command cmd;

	if (msg->len_param != sizeof(request))
		return -1;
	memcpy(&request, msg->param, sizeof(request));
	if (request.abi != CHANNEL_ABI)
		request.op = 0; /* the reply's abi says it */
	switch (request.op) {
	case ATTACH_HELLO:
		break;
	case ATTACH_OPEN:
		reply.result = open_for(&request, &reply, &out);
		break;
	case ATTACH_CLOSE:
		cmd = (struct command){.op = COMMAND_CLOSE, .ctx = request.ctx,
			.generation = request.generation};
		reply.result = node_command(server.node, &cmd, true);
		break;
	case ATTACH_MEMORY:
		reply.result = map_for(&request, msg, &reply);
		break;
	default:
		reply.result = -EPROTO;
	}
	for (int i = 0; i < msg->num_fds; i++)
		close(msg->fds[i]);
	snprintf(out.name, sizeof(out.name), "%s", ATTACH_ACTION);
	memcpy(out.param, &reply, sizeof(reply));
	return rte_mp_reply(&out, peer);
}

int
attach_serve(struct node *n)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = STOP};
	int e;

	server.node = n;
	server.epoll = epoll_create1(EPOLL_CLOEXEC);
	server.stop = eventfd(0, EFD_CLOEXEC);
	n->reaper = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server.epoll < 0 || server.stop < 0 || n->reaper < 0)
		return -errno;
	epoll_ctl(server.epoll, EPOLL_CTL_ADD, server.stop, &event);
	event.data.u64 = REAP;
	epoll_ctl(server.epoll, EPOLL_CTL_ADD, n->reaper, &event);
	e = rte_ctrl_thread_create(&server.watcher, "pmx-watch", NULL, watch_processes, NULL);
	if (e != 0)
		return e;
	e = rte_mp_action_register(ATTACH_ACTION, answer);
	return e == 0 ? 0 : -1;
}

void
attach_stop(void)
{
	if (server.node == NULL)
		return;
	rte_mp_action_unregister(ATTACH_ACTION);
	if (eventfd_write(server.stop, 1) == 0)
		pthread_join(server.watcher, NULL);
	for (uint32_t i = 0; i < server.node->config.contexts; i++)
		forget((uint16_t)i);
	close(server.epoll);
	close(server.stop);
	close(server.node->reaper);
	server.node->reaper = 0;
	server.node = NULL;
}
