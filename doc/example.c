/* Answers three hellos: example INSTANCE.  Sends them: example INSTANCE NODE. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <pmx/pmx.h>

static void
check(const char *doing, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "example: %s: %s\n", doing, pmx_strerror(error));
	exit(1); /* the engine takes back what this process held */
}

int
main(int argc, char **argv)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.open_wait_us = 10 * 1000 * 1000, /* the other side may come later */
	};
	struct pmx_addr to = {.node = argc > 2 ? (uint16_t)atoi(argv[2]) : 0, .context = 7};
	struct pmx_node *node;
	struct pmx_context *ctx;
	struct pmx_message msg;
	pmx_send_id id;

	if (argc < 2 || argc > 3) {
		fputs("Usage: example INSTANCE         answers three hellos\n"
		      "       example INSTANCE NODE    sends them to that node\n",
			stderr);
		return 2;
	}
	check("attach", pmx_node_attach(&node, argv[1], NULL));
	check("open", pmx_context_open(&ctx, node, argc > 2 ? PMX_ANY_CONTEXT : 7, &params));
	for (int i = 0; i < 3; i++) {
		if (argc > 2) {
			check("send", pmx_send_copy(ctx, to, "hello", 5, &id));
			check("send", pmx_send_wait(ctx, 10 * 1000 * 1000));
			check("send", pmx_is_send_done(ctx, id)); /* whether it arrived */
		}
		int got = pmx_receive_wait(ctx, &msg, 10 * 1000 * 1000);
		check("receive", got == 0 ? -ETIMEDOUT : got);
		printf("%.*s from node %u context %u\n", (int)msg.seg_len,
			(const char *)pmx_message_data(&msg), msg.source.node, msg.source.context);
		if (argc <= 2)
			check("reply", pmx_send_copy(ctx, msg.source, "hello back", 10, NULL));
		pmx_release_receive_buffer(ctx, &msg);
	}
	check("send", pmx_send_wait(ctx, 1000 * 1000));
	pmx_context_close(ctx);
	pmx_node_close(node);
	return 0;
}
