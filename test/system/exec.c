/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that registered memory calls exec, and its new program has other memory at the same
 * address: nobody writes there. The target is this program twice, without address space
 * randomisation; the pusher attaches to the same primary. exec.sh runs it.
 *
 * Usage: exec INSTANCE
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "pmx/pmx.h"

#define BYTES 65536u

static uint8_t memory[BYTES] __attribute__((aligned(4096)));
static const char *self;

static struct pmx_context *
attach(const char *instance)
{
	struct pmx_node *node;
	struct pmx_context *ctx;
	int e = pmx_node_attach(&node, instance, NULL);

	if (e == 0)
		e = pmx_context_open(&ctx, node, PMX_ANY_CONTEXT, NULL);
	if (e == 0)
		return ctx;
	fprintf(stderr, "exec: attaching: %s\n", pmx_strerror(e));
	exit(2);
}

/* The target's first life; says where its memory is, and waits for a word. */
static void
first(const char *instance, int out, int in)
{
	char out_text[16], in_text[16];
	struct pmx_context *ctx = attach(instance);
	struct pmx_remote remote;
	char word;
	int e = pmx_register(ctx, memory, BYTES, PMX_REMOTE_WRITE, &remote);

	if (e != 0 || write(out, &remote, sizeof(remote)) != sizeof(remote) ||
		read(in, &word, 1) != 1) {
		fprintf(stderr, "exec: the target: %s\n", pmx_strerror(e));
		exit(2);
	}
	snprintf(out_text, sizeof(out_text), "%d", out);
	snprintf(in_text, sizeof(in_text), "%d", in);
	execl(self, self, "second", out_text, in_text, NULL);
	exit(2);
}

/* Its second life: the memory is another, and must stay as it is, also when the pusher says that it
 * has pushed again. */
static int
second(int out, int in)
{
	char word;

	if (write(out, "2", 1) != 1 || read(in, &word, 1) != 1)
		return 2;
	for (uint32_t i = 0; i < BYTES; i++) {
		if (memory[i] != 0) {
			fprintf(stderr, "exec: byte %u of the new program's memory was written\n",
				i);
			return 1;
		}
	}
	return 0;
}

static int
push(struct pmx_context *ctx, const struct pmx_remote *r, uint8_t *bytes)
{
	const struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = r->addr,
		.local = bytes,
		.len = BYTES,
	};
	pmx_transfer_id id;
	int e = pmx_push(ctx, &t, &id);

	for (int i = 0; e == 0 && i < 10000; i++) {
		e = pmx_transfer_done(ctx, id);
		sleep_ms(e == 0);
	}
	return e;
}

int
main(int argc, char **argv)
{
	int up[2], down[2], status, before, after;
	char word;
	static uint8_t bytes[BYTES];
	struct pmx_remote remote;

	if (argc == 4 && strcmp(argv[1], "second") == 0)
		return second(atoi(argv[2]), atoi(argv[3]));
	if (argc != 2)
		return 2;
	self = argv[0];
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv(argv[0], argv);
	}
	if (pipe(up) != 0 || pipe(down) != 0)
		return 2;
	pid_t child = fork();

	if (child == 0)
		first(argv[1], up[1], down[0]);
	close(up[1]); /* so that an end of the target is seen */
	struct pmx_context *ctx = attach(argv[1]);

	if (read(up[0], &remote, sizeof(remote)) != sizeof(remote))
		return 2;
	memset(bytes, 0xAB, BYTES);
	before = push(ctx, &remote, bytes);
	if (write(down[1], "x", 1) != 1 || read(up[0], &word, 1) != 1)
		return 2;
	after = push(ctx, &remote, bytes);
	if (write(down[1], "x", 1) != 1)
		return 2;
	waitpid(child, &status, 0);
	printf("# before exec: %s; after: %s\n", before == 1 ? "done" : pmx_strerror(before),
		pmx_strerror(after));
	return before == 1 && after < 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
