/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes that may open few descriptors, one more each: attaching and opening either succeed, and
 * then a message comes by the context's descriptor, or end with EMFILE. fork.sh runs it.
 *
 * Usage: descriptors INSTANCE
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmx/pmx.h"

#define FEWEST   4
#define MOST     48
#define CONTEXTS 10

static int
complain(const char *what, rlim_t limit, int e)
{
	printf("# with %u descriptors %s: %s\n", (unsigned)limit, what, pmx_strerror(e));
	fflush(stdout);
	return 1;
}

/* A message of a context to itself. */
static int
echo(struct pmx_context *ctx)
{
	struct pmx_message msg;
	int e = pmx_get_fd(ctx) >= 0 ? 0 : -EBADF;

	if (e == 0)
		e = pmx_send_copy(ctx, pmx_context_addr(ctx), "x", 1, NULL);
	if (e == 0)
		e = pmx_receive_wait(ctx, &msg, 20000000) == 1 ? 0 : -ETIMEDOUT;
	if (e == 0)
		pmx_release_receive_buffer(ctx, &msg);
	return e;
}

/* Returns 0, or 1 after a complaint. */
static int
live_with(rlim_t limit, const char *instance)
{
	const struct rlimit few = {limit, limit};
	struct pmx_context *ctx;
	struct pmx_node *node;

	if (setrlimit(RLIMIT_NOFILE, &few) != 0)
		return complain("setrlimit", limit, -errno);
	int e = pmx_node_attach(&node, instance, NULL);

	if (e != 0)
		return e == -EMFILE ? 0 : complain("attaching", limit, e);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		e = pmx_context_open(&ctx, node, PMX_ANY_CONTEXT, NULL);
		if (e != 0 && e != -EMFILE)
			return complain("opening", limit, e);
		if (e != 0)
			break;
		e = echo(ctx);
		if (e != 0)
			return complain("a message", limit, e);
	}
	if (e != 0 && limit == MOST)
		return complain("opening all", limit, e);
	pmx_node_close(node);
	return 0;
}

int
main(int argc, char **argv)
{
	unsigned bad = 0;
	int status;

	if (argc != 2)
		return 2;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (rlim_t limit = FEWEST; limit <= MOST; limit++) {
		pid_t child = fork();

		if (child == 0)
			_exit(live_with(limit, argv[1]));
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
			WEXITSTATUS(status) != 0)
			bad++;
	}
	return bad != 0;
}
