/* SPDX-License-Identifier: BSD-3-Clause
 *
 * As many contexts as are configured, all with the defaults, and all that each was granted is there
 * at once: its receive buffers hold messages while its send buffers are taken, and then messages
 * still go both ways. Usage:
 *   promise hold INSTANCE COUNT opens them; says what each was granted, then "ready"; lines make it
 *   go on
 *   promise fill INSTANCE NODE reads what was granted from standard input, and sends that many
 *   messages to each
 *   promise alone COUNT -- EAL arguments  both in one embedded node
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <pmx/pmx.h>

#include "helpers.h"

#define CONTEXTS_MAX 1024
#define PATIENCE_US  30000000ll
#define LEN          600 /* more than an entry holds: each takes a buffer */

static struct pmx_node *node;
static struct pmx_context *ctx[CONTEXTS_MAX];
static unsigned count;

static struct pmx_context_stat
stat_of(struct pmx_context *c)
{
	struct pmx_context_stat s;

	pmx_context_read_stat(c, &s);
	return s;
}

static void
open_all(void)
{
	for (unsigned i = 0; i < count && !failed; i++) {
		int r = pmx_context_open(&ctx[i], node, PMX_ANY_CONTEXT, NULL);

		if (r != 0) {
			fail("context %u of %u: %s", i + 1, count, pmx_strerror(r));
			return;
		}
		if (stat_of(ctx[i]).send_buffers < 32 || stat_of(ctx[i]).receive_buffers < 64)
			fail("context %u has %u send and %u receive buffers", i,
				stat_of(ctx[i]).send_buffers, stat_of(ctx[i]).receive_buffers);
	}
}

/* Send that many messages to one context, and wait until all are Acked. */
static void
fill(struct pmx_context *from, struct pmx_addr to, unsigned messages)
{
	static const char bytes[LEN];

	for (unsigned i = 0; i < messages && !failed;) {
		int r = pmx_send_copy(from, to, bytes, LEN, NULL);

		if (r == 0)
			i++;
		else if (r != -ENOBUFS && r != -EAGAIN)
			fail("send to context %u: %s", to.context, pmx_strerror(r));
		else if (pmx_send_wait(from, PATIENCE_US) != 0)
			fail("context %u takes %u messages of %u", to.context,
				i - pmx_sends_pending(from), messages);
	}
	if (!failed && pmx_send_wait(from, PATIENCE_US) != 0)
		fail("context %u takes %u messages of %u", to.context,
			messages - pmx_sends_pending(from), messages);
	if (!failed && stat_of(from).send_errors != 0)
		fail("%u sends ended in an error", (unsigned)stat_of(from).send_errors);
}

static void
receive(struct pmx_context *c, struct pmx_message *m, unsigned n, const char *what)
{
	for (unsigned i = 0; i < n && !failed; i++) {
		int r = pmx_receive_wait(c, &m[i], PATIENCE_US);

		if (r != 1)
			fail("%s: message %u of %u of context %u: %s", what, i, n,
				pmx_context_addr(c).context, pmx_strerror(r));
	}
}

/* All that they were granted is in use. */
static struct pmx_message **
hold_all(void)
{
	struct pmx_message **held = must(calloc(count, sizeof(*held)));
	unsigned sends = 0, receives = 0;

	for (unsigned i = 0; i < count && !failed; i++) {
		unsigned n = stat_of(ctx[i]).receive_buffers, k = 0;
		struct pmx_buffer b;

		held[i] = must(calloc(n, sizeof(**held)));
		receive(ctx[i], held[i], n, "what was granted");
		receives += n;
		while (pmx_get_send_buffer(ctx[i], 10, &b) == 0)
			k++;
		if (k != stat_of(ctx[i]).send_buffers)
			fail("context %u has %u send buffers of %u", i, k,
				stat_of(ctx[i]).send_buffers);
		sends += k;
	}
	printf("%u contexts hold %u received messages and %u send buffers\n", count, receives,
		sends);
	return held;
}

static void
say_granted(void)
{
	for (unsigned i = 0; i < count; i++)
		printf("granted %u %u %u\n", pmx_context_addr(ctx[i]).context,
			stat_of(ctx[i]).send_buffers, stat_of(ctx[i]).receive_buffers);
}

static void
await_line(const char *said)
{
	char c;

	puts(said);
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static int
hold(void)
{
	struct pmx_message more;

	open_all();
	if (failed)
		return 1;
	say_granted();
	await_line("ready");
	struct pmx_message **held = hold_all();

	for (unsigned i = 0; i < count && !failed; i++)
		pmx_release_receive_buffer(ctx[i], &held[i][0]);
	for (unsigned i = 0; i < count && !failed; i++)
		pmx_receive(ctx[i], &more); /* what was given back is told */
	await_line("full");
	for (unsigned i = 0; i < count && !failed; i++)
		receive(ctx[i], &more, 1, "one more");
	return failed;
}

static int
fill_from(const char *instance, uint16_t to)
{
	unsigned context, messages;
	int r = pmx_node_attach(&node, instance, NULL);

	if (r == 0)
		r = pmx_context_open(&ctx[0], node, PMX_ANY_CONTEXT, NULL);
	if (r != 0)
		return fail("attaching: %s", pmx_strerror(r)), 1;
	while (!failed && scanf("granted %u %*u %u ", &context, &messages) == 2)
		fill(ctx[0], (struct pmx_addr){to, (uint16_t)context}, messages);
	return failed;
}

static int
alone(int eal_argc, char **eal_argv)
{
	static const char config[] = "[node]\nid = 0\n[link 0]\ndriver = loop\nport = promise\n"
				     "[nodes]\n0 = auto\n1 = auto\n";
	const struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = config,
		.eal_argc = eal_argc,
		.eal_argv = eal_argv,
	};
	char error[512];

	if (pmx_node_start(&node, &params, error, sizeof(error)) != 0)
		return fail("%s", error), 1;
	open_all();
	if (failed)
		return 1;
	/* the last one fills the others, and itself as long as it has buffers to send from */
	struct pmx_context *last = ctx[count - 1];

	for (unsigned i = 0; i < count && !failed; i++)
		fill(last, pmx_context_addr(ctx[i]), stat_of(ctx[i]).receive_buffers);
	hold_all();
	if (!failed)
		printf("the first has %u and %u of them, the last %u and %u\n",
			stat_of(ctx[0]).receive_buffers, stat_of(ctx[0]).send_buffers,
			stat_of(last).receive_buffers, stat_of(last).send_buffers);
	return failed;
}

int
main(int argc, char **argv)
{
	if (argc >= 4 && strcmp(argv[1], "hold") == 0) {
		count = (unsigned)atoi(argv[3]);
		int r = pmx_node_attach(&node, argv[2], NULL);

		return r != 0 ? fail("attaching: %s", pmx_strerror(r)), 1 : hold();
	}
	if (argc >= 4 && strcmp(argv[1], "fill") == 0)
		return fill_from(argv[2], (uint16_t)atoi(argv[3]));
	if (argc >= 4 && strcmp(argv[1], "alone") == 0) {
		count = (unsigned)atoi(argv[2]);
		argv[3] = argv[0];
		return alone(argc - 3, argv + 3);
	}
	fputs("Usage: promise hold INSTANCE COUNT | fill INSTANCE NODE | alone COUNT -- EAL "
	      "arguments\n",
		stderr);
	return 2;
}
