/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Embedded nodes: the engine runs in the application's process, with the same channel code. The
 * thread that calls pmx_node_poll is the lane; contexts are opened and closed by that thread, or
 * while no thread polls.
 */
/* rte_vect_get_max_simd_bitwidth is experimental before DPDK 23.11 */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_vect.h>

#include "client/client.h"
#include "client/inherit.h"
#include "client/signals.h"
#include "engine/quotas.h"
#include "engine/contexts.h"
#include "engine/loop.h"
#include "node/config_file.h"
#include "client/say.h"
#include "interrupts.h"
#include "log/log.h"
#include "node/memif_socket.h"
#include "node/node.h"

#define CLOSE_PATIENCE_S 10

static const struct way way_embedded;

static int
read_config(struct config *config, const struct pmx_node_params *params, char *error,
	uint32_t error_len)
{
	if (params->config_file != NULL)
		return node_config_read(config, params->config_file, error, error_len);
	if (params->config_text != NULL)
		return node_config_read_text(config, params->config_text, error, error_len);
	snprintf(error, error_len, "neither config_file nor config_text is given");
	return -1;
}

/* Start the EAL, if arguments for it are given. Return false, with a sentence, if it did not
 * start. */
static bool
eal_start(struct pmx_node *n, const struct pmx_node_params *params, char *error, uint32_t error_len)
{
	if (params->eal_argc <= 0)
		return true;
	node_memif_sockets_clear(params->eal_argc, params->eal_argv);
	sigset_t signals = signals_block();
	const int started = rte_eal_init(params->eal_argc, params->eal_argv);

	signals_restore(signals);
	n->owns_eal = started >= 0;
	if (started < 0)
		snprintf(error, error_len, "the DPDK EAL did not start: %s",
			rte_strerror(rte_errno));
	return started >= 0;
}

/* Pass a line of the node to the application. DPDK's levels are one above those of syslog. */
static int
pass(uint32_t level, const char *line)
{
	return client_pass((enum pmx_log_level)(level > 1 ? level - 1 : 0), line);
}

static int
embedded_start(struct pmx_node *n, const struct pmx_node_params *params, char *error,
	uint32_t error_len)
{
	struct config config;
	int result = -ENODEV;

	if (read_config(&config, params, error, error_len) != 0)
		return -EINVAL;
	if (config.discovers) {
		snprintf(error, error_len,
			"[discovery], and an IP address in [nodes] for a link with Ethernet "
			"addresses, are for pmx-dpdk: an embedded node has no thread for it");
		config_free(&config);
		return -EINVAL;
	}
	config.lanes = 1;
	log_pass_to(pass);
	inherit_begin();
	if (eal_start(n, params, error, error_len))
		result = node_start(&n->embedded, &config, error, error_len);
	inherit_end();
	config_free(&config);
	if (result != 0) {
		if (n->owns_eal)
			interrupts_end_eal();
		return result;
	}
	n->way = &way_embedded;
	n->number = (uint16_t)n->embedded->config.id;
	return 0;
}

static unsigned
poll(struct pmx_node *node)
{
	/* a child of this process has it in its memory too, and must not run it */
	return node->foreign ? 0 : engine_poll(&node->embedded->engines[0]);
}

static uint16_t
free_number(const struct node *n)
{
	for (uint32_t i = 0; i < n->config.contexts; i++) {
		if (n->channels[i].state == CHANNEL_CLOSED && !n->channels[i].dirty)
			return (uint16_t)i;
	}
	return PMX_ANY_CONTEXT;
}

static int
embedded_open_context(struct pmx_context **out, struct pmx_node *node, uint16_t number,
	const struct pmx_context_params *params)
{
	struct node *n = node->embedded;
	struct command cmd = {
		.op = COMMAND_OPEN,
		.ctx = number == PMX_ANY_CONTEXT ? free_number(n) : number,
		.job = node->job,
		.domain = node->domain,
		.open_wait_us = params->open_wait_us,
	};

	if (cmd.ctx == PMX_ANY_CONTEXT)
		return -EBUSY;
	int result = quotas_of(n, cmd.ctx, params->send_buffers, params->receive_buffers, false,
		false, &cmd.quotas);

	if (result == 0)
		result = node_command(n, &cmd, false);
	if (result != 0)
		return result;
	struct channel *ch = &n->channels[cmd.ctx];

	/* client and engine run in one thread, so no doorbell is needed */
	ch->shm->engine_may_sleep = 0;
	int bell = context_bell(ch);

	if (bell < 0) {
		cmd.op = COMMAND_ABORT;
		node_command(n, &cmd, false);
		return bell;
	}
	result = ctx_make(out, node, params, ch->shm, bell, -1);
	if (result != 0) {
		cmd.op = COMMAND_ABORT;
		node_command(n, &cmd, false);
	}
	return result;
}

static void
close_context(struct pmx_context *ctx)
{
	struct node *n = ctx->node->embedded;
	struct command cmd = {.op = COMMAND_CLOSE, .ctx = ctx->ctx, .generation = ctx->generation};
	uint64_t end = rte_rdtsc() + CLOSE_PATIENCE_S * rte_get_tsc_hz();

	if (node_command(n, &cmd, false) != 0)
		return;
	/* nobody else runs this engine, so run it until the last messages are sent */
	while (n->channels[ctx->ctx].state != CHANNEL_CLOSED && rte_rdtsc() < end)
		engine_poll(&n->engines[0]);
}

static int
give_memory(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched,
	uint32_t *number)
{
	struct command cmd = {.ctx = ctx->ctx, .generation = ctx->generation};
	int result = node_map_memory(ctx->node->embedded, &cmd, false, fd, len, (uintptr_t)addr,
		(uint16_t)(watched + 1));

	if (result < 0)
		return result;
	*number = (uint32_t)result;
	return 0;
}

static void
embedded_end(struct pmx_node *node)
{
	bool owns_eal = node->owns_eal;

	node_stop(node->embedded);
	if (owns_eal)
		interrupts_end_eal();
}

static int
stop(struct pmx_context *ctx, uint32_t drain_us, enum attach_stop what, bool *settled)
{
	struct node *n = ctx->node->embedded;
	uint64_t contexts[WIRE_CONTEXTS_MAX / 64] = {0};
	struct command cmd = {
		.op = what == ATTACH_STOP_START    ? COMMAND_START
			: what == ATTACH_STOP_STOP ? COMMAND_STOP
						   : COMMAND_PARK,
		.ctx = ctx->ctx,
		.contexts = contexts,
		.drain_us = drain_us,
	};

	contexts[ctx->ctx / 64] = 1ull << ctx->ctx % 64;
	int result = node_command(n, &cmd, false);

	*settled = n->channels[ctx->ctx].preempted >= PREEMPTED_HELD;
	return result < 0 ? result : 0;
}

static const struct way way_embedded = {embedded_open_context, close_context, give_memory,
	embedded_end, rte_vect_get_max_simd_bitwidth, stop, poll, way_dpdk_page, inherit_forks,
	NULL, NULL};

const struct dpdk_part dpdk_part = {PMX_VERSION, secondary_attach, embedded_start};
