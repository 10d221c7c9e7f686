/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client of the test of preemption that does what lines on its standard input say, and tells of
 * each what came of it, with the errors' names:
 *
 *   open CONTEXT        "open: 0"
 *   send NODE:CONTEXT N "send: N": how many of N messages were taken at once
 *   fill NODE:CONTEXT N  "fill: N": the same, and tries again for a moment
 *   ended waits for all that was sent: "ended: 0", or how the first one ended that failed
 *   take N              waits for N messages: "take: N"; they must be in order
 *   fresh NODE:CONTEXT N  the same, if another process sends from there now
 *   none MS             "none: N": how many came in that time
 *   stop, park, start   "stop: 0"
 *   close               "close: 0"
 *   quit
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preempt.h"

#define PATIENCE_US 20000000ll
#define SENT_MAX    1024
#define LEN         600
#define NODES       4
#define CONTEXTS    8

static struct pmx_node *node;
static struct pmx_context *ctx;
static pmx_send_id sent[SENT_MAX];
static unsigned sent_count;
/* of each node and context: the next message there, and from there */
static uint32_t next_out[NODES][CONTEXTS], next_in[NODES][CONTEXTS];
static bool known[NODES][CONTEXTS]; /* a message has come from there */

static void
tell(const char *verb, int result)
{
	if (result < 0)
		printf("%s: %s\n", verb, strerrorname_np(-result));
	else
		printf("%s: %d\n", verb, result);
}

static int
open_context(unsigned number)
{
	sent_count = 0;
	return pmx_context_open(&ctx, node, number, NULL);
}

static int
send_all(struct pmx_addr to, unsigned n)
{
	uint32_t message[LEN / 4] = {0}, *next = &next_out[to.node % NODES][to.context % CONTEXTS];
	int taken = 0;

	for (unsigned i = 0; i < n && sent_count < SENT_MAX; i++) {
		message[0] = *next;
		const int r = pmx_send_copy(ctx, to, message, LEN, &sent[sent_count]);

		if (r == -EAGAIN || r == -ENOBUFS)
			break;
		if (r < 0)
			return r;
		sent_count++;
		++*next;
		taken++;
	}
	return taken;
}

static int
fill(struct pmx_addr to, unsigned n)
{
	int taken = 0;

	for (unsigned tries = 0; tries < 100; tries++) {
		const int r = send_all(to, n - (unsigned)taken);

		if (r < 0)
			return r;
		taken += r;
		usleep(1000);
	}
	return taken;
}

static int
see_off(void)
{
	const int64_t until = now_us() + PATIENCE_US;
	int error = 0;

	for (unsigned i = 0; i < sent_count;) {
		const int r = pmx_is_send_done(ctx, sent[i]);

		if (r != 0)
			i++;
		if (r < 0 && error == 0)
			error = r;
		if (now_us() > until)
			return -ETIME;
		if (r == 0)
			usleep(200);
	}
	sent_count = 0;
	return error;
}

/* Up to n messages, until then. */
static int
take(unsigned n, int64_t until)
{
	struct pmx_message m;
	unsigned got = 0;

	while (got < n && now_us() < until) {
		const int r = pmx_receive(ctx, &m);
		uint32_t number;

		if (r < 0)
			return r;
		if (r == 0) {
			usleep(200);
			continue;
		}
		memcpy(&number, pmx_message_data(&m), sizeof(number));
		pmx_release_receive_buffer(ctx, &m);
		const unsigned from = m.source.node % NODES, c = m.source.context % CONTEXTS;

		if (known[from][c] && number != next_in[from][c])
			return -EPROTO;
		known[from][c] = true;
		next_in[from][c] = number + 1;
		got++;
	}
	return (int)got;
}

static void
obey(const char *line)
{
	unsigned a = 0, b = 0, n = 0;
	char verb[16] = "";

	if (sscanf(line, "%15s", verb) != 1)
		return;
	if (sscanf(line, "open %u", &n) == 1)
		tell(verb, open_context(n));
	else if (sscanf(line, "send %u:%u %u", &a, &b, &n) == 3)
		tell(verb, send_all((struct pmx_addr){(uint16_t)a, (uint16_t)b}, n));
	else if (sscanf(line, "fill %u:%u %u", &a, &b, &n) == 3)
		tell(verb, fill((struct pmx_addr){(uint16_t)a, (uint16_t)b}, n));
	else if (strcmp(verb, "ended") == 0)
		tell(verb, see_off());
	else if (sscanf(line, "take %u", &n) == 1)
		tell(verb, take(n, now_us() + PATIENCE_US));
	else if (sscanf(line, "fresh %u:%u %u", &a, &b, &n) == 3) {
		known[a % NODES][b % CONTEXTS] = false;
		tell(verb, take(n, now_us() + PATIENCE_US));
	} else if (sscanf(line, "none %u", &n) == 1)
		tell(verb, take(UINT32_MAX, now_us() + n * 1000ll));
	else if (strcmp(verb, "stop") == 0)
		tell(verb, pmx_context_stop(ctx));
	else if (strcmp(verb, "park") == 0)
		tell(verb, pmx_context_park(ctx));
	else if (strcmp(verb, "start") == 0)
		tell(verb, pmx_context_start(ctx));
	else if (strcmp(verb, "close") == 0) {
		pmx_context_close(ctx);
		ctx = NULL;
		tell(verb, 0);
	} else {
		die("'%s' is no command", verb);
	}
}

int
client_main(int argc, char **argv)
{
	char line[128];

	(void)argc;
	must_succeed("attaching", pmx_node_attach(&node, argv[0], NULL));
	puts("ready");
	while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "quit\n") != 0)
		obey(line);
	if (ctx != NULL)
		pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}
