/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream over several links, of which some die and come back: rails.sh.
 *
 *   rails send INSTANCE NODE:CONTEXT   numbered messages of random lengths, until SIGTERM; then one
 *                                      that ends the stream; "sent N" or how one of them failed
 *   rails receive INSTANCE CONTEXT     until the end of the stream: each number once and in order;
 *                                      "gap END MS" for silences above 2 ms (END: s since 1970),
 *                                      "at N" for each thousandth, "received N"
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmx/pmx.h"

#include "helpers.h"

#define FLIGHT  256
#define LONGEST 8000
#define LAST    UINT64_MAX
#define GAP_US  2000
#define TELL    1000

static volatile sig_atomic_t stop;

static void
on_term(int signal)
{
	(void)signal;
	stop = 1;
}

static int64_t
real_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static struct pmx_context *
open_context(struct pmx_node **node, const char *instance, unsigned number)
{
	struct pmx_context *ctx;

	must_succeed("attaching", pmx_node_attach(node, instance, NULL));
	must_succeed("opening", pmx_context_open(&ctx, *node, number, NULL));
	puts("ready");
	return ctx;
}

/* Waits until the message is Acked. */
static void
see_off(struct pmx_context *ctx, pmx_send_id id)
{
	int r;

	while ((r = pmx_is_send_done(ctx, id)) == 0)
		usleep(100);
	if (r < 0)
		die("a message ended with %s", strerrorname_np(-r));
}

static void
put(struct pmx_context *ctx, struct pmx_addr to, const void *message, uint32_t len, pmx_send_id *id)
{
	int r;

	while ((r = pmx_send_copy(ctx, to, message, len, id)) == -EAGAIN || r == -ENOBUFS)
		usleep(100);
	must_succeed("sending", r);
}

static void
send_stream(struct pmx_context *ctx, struct pmx_addr to)
{
	static uint64_t message[LONGEST / 8];
	pmx_send_id flight[FLIGHT];
	uint64_t n = 0;

	for (; !stop; n++) {
		if (n >= FLIGHT)
			see_off(ctx, flight[n % FLIGHT]);
		message[0] = n;
		put(ctx, to, message, 8 + (uint32_t)rand() % (LONGEST - 8), &flight[n % FLIGHT]);
	}
	for (uint64_t i = n < FLIGHT ? 0 : n - FLIGHT; i < n; i++)
		see_off(ctx, flight[i % FLIGHT]);
	message[0] = LAST;
	put(ctx, to, message, 8, &flight[0]);
	see_off(ctx, flight[0]);
	printf("sent %llu\n", (unsigned long long)n);
}

static void
receive_stream(struct pmx_context *ctx)
{
	struct pmx_message m;
	uint64_t n = 0, number;
	int64_t last = 0;

	for (;;) {
		const int r = pmx_receive_wait(ctx, &m, 100000);

		must_succeed("receiving", r < 0 ? r : 0);
		if (r == 0)
			continue;
		const int64_t now = real_us();

		memcpy(&number, pmx_message_data(&m), sizeof(number));
		pmx_release_receive_buffer(ctx, &m);
		if (last != 0 && now - last > GAP_US)
			printf("gap %lld.%06lld %.1f\n", (long long)(now / 1000000),
				(long long)(now % 1000000), (double)(now - last) / 1e3);
		last = now;
		if (number == LAST)
			break;
		if (number != n)
			die("message %llu came, not %llu", (unsigned long long)number,
				(unsigned long long)n);
		if (++n % TELL == 0)
			printf("at %llu\n", (unsigned long long)n);
	}
	printf("received %llu\n", (unsigned long long)n);
}

int
main(int argc, char **argv)
{
	struct pmx_node *node;
	struct pmx_context *ctx;
	unsigned to_node, to_ctx;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, on_term);
	if (argc == 4 && strcmp(argv[1], "receive") == 0) {
		ctx = open_context(&node, argv[2], (unsigned)atoi(argv[3]));
		receive_stream(ctx);
	} else if (argc == 4 && strcmp(argv[1], "send") == 0 &&
		sscanf(argv[3], "%u:%u", &to_node, &to_ctx) == 2) {
		ctx = open_context(&node, argv[2], 2);
		send_stream(ctx, (struct pmx_addr){(uint16_t)to_node, (uint16_t)to_ctx});
	} else {
		die("usage: rails send INSTANCE NODE:CONTEXT | receive INSTANCE CONTEXT");
	}
	pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}
