/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The requests of the attach handshake (lib/channel/channel.h), for any transport: a secondary
 * sends them by rte_mp, a thin client over a socket. Called from the application's thread; nothing
 * here is on the data path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"

int
attach_hello(struct pmx_node *node, attach_ask ask, int *pid)
{
	const struct attach_request hello = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_HELLO,
		.pid = getpid(),
	};
	struct attach_reply reply;
	int result = ask(node, &hello, -1, &reply, NULL);

	if (result == 0)
		node->number = reply.node;
	if (result == 0 && pid != NULL)
		*pid = reply.pid;
	return result;
}

uint32_t
attach_job(void)
{
	const char *text = getenv("PMX_JOB");
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return 0;
	const unsigned long job = strtoul(text, &end, 10);

	return *end == 0 && job <= UINT32_MAX ? (uint32_t)job : 0;
}

struct attach_request
attach_open_request(const struct pmx_node *node, uint16_t number,
	const struct pmx_context_params *params)
{
	return (struct attach_request){
		.abi = CHANNEL_ABI,
		.op = ATTACH_OPEN,
		.pid = getpid(),
		.ctx = number,
		.send_buffers = params->send_buffers,
		.receive_buffers = params->receive_buffers,
		.addr = node->job | (uint64_t)node->domain << 32,
		.open_wait_us = params->open_wait_us,
	};
}

int
attach_preempt(struct pmx_context *ctx, uint32_t drain_us, enum attach_stop what, bool *settled)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_STOP,
		.pid = getpid(),
		.ctx = ctx->ctx,
		.generation = ctx->generation,
		.addr = what,
		.len = drain_us,
	};
	struct attach_reply reply;
	int result = ctx->node->way->ask(ctx->node, &request, -1, &reply, NULL);

	if (result == 0)
		*settled = reply.bytes != 0;
	return result == -ENOENT ? -EPIPE : result;
}

int
attach_memory(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched,
	uint32_t *number)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_MEMORY,
		.pid = getpid(),
		.ctx = ctx->ctx,
		.adopted = (uint16_t)(watched + 1),
		.generation = ctx->generation,
		.addr = (uintptr_t)addr,
		.len = len,
	};
	struct attach_reply reply;
	int result = ctx->node->way->ask(ctx->node, &request, fd, &reply, NULL);

	if (result == 0)
		*number = reply.memory;
	return result == -ENOENT ? -EPIPE : result;
}

static void
close_one(struct pmx_node *node, attach_ask ask, uint16_t ctx, uint32_t generation)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_CLOSE,
		.pid = getpid(),
		.ctx = ctx,
		.generation = generation,
	};
	struct attach_reply reply;

	ask(node, &request, -1, &reply, NULL);
}

void
attach_give_back(struct pmx_node *node, attach_ask ask, const struct attach_reply *opened)
{
	close_one(node, ask, opened->ctx, opened->generation);
}

void
attach_close(struct pmx_context *ctx)
{
	if (atomic_load(&ctx->shm->state) == CHANNEL_OPEN)
		/* if not, the primary is gone or has closed it already */
		close_one(ctx->node, ctx->node->way->ask, ctx->ctx, ctx->generation);
	STEP();
}
