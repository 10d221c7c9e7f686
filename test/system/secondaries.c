/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a secondary begins: what would go wrong inside the EAL is found before it. secondaries.sh
 * runs it.
 *
 *   secondaries lcore INSTANCE     attaches, prints its lcore number, and stays until it is killed
 *   secondaries occupied INSTANCE  attaches in a process that uses the primary's addresses
 *   secondaries interrupted INSTANCE  attaches while signals are handled, and is gone
 *   secondaries other INSTANCE attaches to what pretends to be a primary of another DPDK: prints
 *   the error
 *   secondaries again INSTANCE     attaches, waits until its primary ends, and attaches again
 *   secondaries pretend SOCKET     pretends to be one, for one question
 *   secondaries dies INSTANCE      attaches, and is killed while it holds DPDK's lock of memory for
 *   reading, as each secondary does while its EAL begins
 *   secondaries locks INSTANCE     attaches, and takes that lock for writing
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal_memconfig.h>
#include <rte_lcore.h>
#include <rte_version.h>

#include "channel/channel.h"
#include "helpers.h"
#include "pmx/pmx.h"

static int
pretend(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct attach_request request;
	struct attach_reply reply = {
		.abi = CHANNEL_ABI,
		.lcore = 100,
		.mempool_ops = "ring_mp_mc",
		.dpdk = "DPDK 99.11.0",
	};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0)
		return 1;
	int peer = accept(fd, NULL, NULL);

	return peer < 0 || recv(peer, &request, sizeof(request), 0) != (ssize_t)sizeof(request) ||
		send(peer, &reply, sizeof(reply), 0) != (ssize_t)sizeof(reply);
}

static int
again(struct pmx_node *node)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.send_buffers = 8,
		.receive_buffers = 8,
	};
	struct pmx_context *ctx = NULL; /* the primary may end before it is open */
	struct pmx_message m;
	int result = pmx_context_open(&ctx, node, 14, &params);

	while (result == 0)
		result = pmx_receive_wait(ctx, &m, 1000000);
	printf("noticed %s\n", pmx_strerror(result));
	fflush(stdout);
	result = result == -EPIPE ? pmx_reattach(node, 20000000) : result;
	if (result == 0 && ctx == NULL)
		result = pmx_context_open(&ctx, node, 14, &params);
	if (result == 0)
		result = pmx_send_copy(ctx, pmx_context_addr(ctx), "x", 1, NULL);
	if (result == 0)
		result = pmx_receive_wait(ctx, &m, 20000000) == 1 ? 0 : -ETIMEDOUT;
	printf("again %s\n", pmx_strerror(result));
	return result != 0;
}

int
main(int argc, char **argv)
{
	struct pmx_node *node;

	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "pretend") == 0)
		return pretend(argv[2]);
	/* where DPDK puts a primary's memory unless told otherwise */
	if (strcmp(argv[1], "occupied") == 0 &&
		mmap((void *)0x100800000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			-1, 0) == MAP_FAILED)
		return 1;
	interrupt_every(strcmp(argv[1], "interrupted") == 0 ? 20 : 0);
	int result = pmx_node_attach(&node, argv[2], NULL);

	interrupt_every(0);
	printf("%d %s\n", result, pmx_strerror(result));
	if (result != 0)
		return 1;
	const char *as = getenv("PMX_ATTACH");

	printf("lcore %u\n", as != NULL && strcmp(as, "secondary") == 0 ? rte_lcore_id() : 0);
	fflush(stdout);
	if (strcmp(argv[1], "lcore") == 0)
		pause();
	if (strcmp(argv[1], "again") == 0)
		return again(node);
	if (strcmp(argv[1], "dies") == 0) {
		for (unsigned i = 0; i < 3; i++)
			rte_mcfg_mem_read_lock();
		raise(SIGKILL);
	}
	if (strcmp(argv[1], "locks") == 0) {
		rte_mcfg_mem_write_lock();
		rte_mcfg_mem_write_unlock();
		puts("locked");
	}
	pmx_node_close(node);
	return 0;
}
