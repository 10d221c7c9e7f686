/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attaching to a primary as a DPDK secondary: the EAL, the handshake over rte_mp, mapping one
 * channel. Called from the application's thread; nothing here is on the data path.
 *
 * Design notes
 * 1. The handshake compares the interface's version before anything shared is touched.
 * 2. A primary that died leaves files to which a secondary attaches "successfully": only an answer
 *    to the handshake proves that it lives.
 * 3. A secondary does not call rte_eal_cleanup: it frees on the shared heap, and an application
 *    killed inside would leave its lock held. It removes its own files instead.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memzone.h>

#include "client/client.h"

#define HANDSHAKE_PATIENCE_S 5

static struct {
	bool running;
	char instance[64];
} eal;

/* Where the EAL of `instance` keeps its files; the rule of rte_eal_get_runtime_dir. */
static void
runtime_dir(char *out, size_t size, const char *instance)
{
	const char *base = getenv("RUNTIME_DIRECTORY");

	if (base == NULL)
		base = getuid() == 0 ? "/var/run" : getenv("XDG_RUNTIME_DIR");
	snprintf(out, size, "%s/dpdk/%s", base ? base : "/tmp", instance);
}

static int
start_eal(const char *instance, int cpu)
{
	char dir[PATH_MAX], config[PATH_MAX + 16], prefix[96], lcores[32];
	cpu_set_t before;

	if (eal.running)
		return strcmp(eal.instance, instance) == 0 ? 0 : -EALREADY;
	runtime_dir(dir, sizeof(dir), instance);
	snprintf(config, sizeof(config), "%s/config", dir);
	if (access(config, F_OK) != 0)
		return -ENOENT;
	snprintf(prefix, sizeof(prefix), "--file-prefix=%s", instance);
	snprintf(lcores, sizeof(lcores), "0@%d", cpu < 0 ? 0 : cpu);
	char *argv[] = {"pmx", "--proc-type=secondary", prefix, "--no-pci", "--no-telemetry",
		"--lcores", lcores, "--log-level=*:error",
		"--force-max-simd-bitwidth=512" /* what searches may use: lib/match/scan.c */, NULL};

	CPU_ZERO(&before);
	sched_getaffinity(0, sizeof(before), &before);
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0)
		return rte_errno == EALREADY ? -EALREADY : -ENODEV;
	if (cpu < 0)
		sched_setaffinity(0, sizeof(before), &before);
	eal.running = true;
	snprintf(eal.instance, sizeof(eal.instance), "%s", instance);
	return 0;
}

/* One question to the primary, with a descriptor or -1. fds: two descriptors of the reply, or -1; may be NULL. */
static int
ask(const struct attach_request *request, int give, struct attach_reply *reply, int *fds)
{
	struct rte_mp_msg msg = {.len_param = sizeof(*request)};
	struct rte_mp_reply replies = {0};
	struct timespec patience = {.tv_sec = HANDSHAKE_PATIENCE_S};
	int result = -ENOENT;

	snprintf(msg.name, sizeof(msg.name), "%s", ATTACH_ACTION);
	memcpy(msg.param, request, sizeof(*request));
	msg.fds[0] = give;
	msg.num_fds = give >= 0;
	if (rte_mp_request_sync(&msg, &replies, &patience) != 0 || replies.nb_received != 1)
		goto out;
	const struct rte_mp_msg *m = &replies.msgs[0];

	result = -EPROTO;
	if (m->len_param != sizeof(*reply))
		goto out;
	memcpy(reply, m->param, sizeof(*reply));
	if (reply->abi != CHANNEL_ABI)
		goto out;
	result = reply->result;
	for (int i = 0; i < m->num_fds; i++) {
		if (fds != NULL && i < 2 && result == 0)
			fds[i] = m->fds[i];
		else
			close(m->fds[i]);
	}
out:
	free(replies.msgs);
	return result;
}

int
pmx_node_attach(struct pmx_node **node, const char *instance, int cpu)
{
	const struct attach_request hello = {
		.abi = CHANNEL_ABI, .op = ATTACH_HELLO, .pid = getpid()};
	struct attach_reply reply;
	int result = start_eal(instance, cpu);

	if (result != 0 || (result = ask(&hello, -1, &reply, NULL)) != 0)
		return result;
	struct pmx_node *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return -ENOMEM;
	n->number = reply.node;
	*node = n;
	return 0;
}

int
attach_open(struct pmx_context **out, struct pmx_node *node,
	const struct pmx_context_params *params)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_OPEN,
		.pid = getpid(),
		.ctx = params->context,
		.send_buffers = params->send_buffers,
		.receive_buffers = params->receive_buffers,
	};
	struct attach_reply reply;
	int fds[2] = {-1, -1};
	int result = ask(&request, -1, &reply, fds);

	if (result == -ENOENT)
		return -EPIPE;
	if (result != 0)
		return result;
	const struct rte_memzone *zone = rte_memzone_lookup(reply.zone);

	if (zone == NULL || channel_check(zone->addr) != NULL)
		return -EPROTO;
	return context_make(out, node, zone->addr, fds[0], fds[1]);
}

int
attach_memory(struct pmx_context *ctx, int fd, void *addr, uint64_t len, int watched, uint32_t *number)
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
	int result = ask(&request, fd, &reply, NULL);

	if (result == 0)
		*number = reply.memory;
	return result == -ENOENT ? -EPIPE : result;
}

void
attach_close(struct pmx_context *ctx)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_CLOSE,
		.pid = getpid(),
		.ctx = ctx->ctx,
		.generation = ctx->generation,
	};
	struct attach_reply reply;

	if (atomic_load(&ctx->shm->state) == CHANNEL_OPEN)
		ask(&request, -1, &reply, NULL); /* a primary that is gone has closed it already */
	close(ctx->event_fd);
	close(ctx->doorbell);
}

/* Remove what this process's EAL left in the primary's directory. */
void
attach_end(struct pmx_node *node)
{
	static const char *const patterns[] = {"%s/fbarray_*_%d", "%s/mp_socket_%d_*"};
	char dir[PATH_MAX - 64], pattern[PATH_MAX];

	(void)node;
	runtime_dir(dir, sizeof(dir), eal.instance);
	for (size_t i = 0; i < 2; i++) {
		glob_t found;

		snprintf(pattern, sizeof(pattern), patterns[i], dir, getpid());
		if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++)
			unlink(found.gl_pathv[k]);
		globfree(&found);
	}
}
