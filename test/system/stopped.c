/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What others notice when an application is stopped, and what an application notices when its
 * engine is: stopped.sh says who is stopped when. Usage:
 *   stopped INSTANCE CONTEXT hold    opens, says "ready", receives nothing until a line comes; then
 *                                    counts
 *   stopped INSTANCE CONTEXT flood NODE:CONTEXT
 *                                    sends all that goes until a line comes; then sees it off
 *   stopped INSTANCE CONTEXT calls   every call that may not wait, while the engine does not run
 *   stopped INSTANCE CONTEXT poll    looks for messages all the time, POLLS times and until a line
 *                                    comes; tells how often it gave up its CPU
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <pmx/pmx.h>

#include "helpers.h"

#define PATIENCE_S 30
#define POLLS      10000
/* bulk messages that are held when the engine stops: the ring has 64 slots */
#define MESSAGES   100
#define LEN        600

static struct pmx_node *node;
static struct pmx_context *ctx;
static unsigned yields, naps;

/* Those that the library calls. */
int
sched_yield(void)
{
	yields++;
	return (int)syscall(SYS_sched_yield);
}

int
ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left = *timeout;

	naps++;
	return (int)syscall(SYS_ppoll, fds, n, &left, mask, _NSIG / 8);
}

static bool
line_came(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

static void
await_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static void
say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static int
hold(void)
{
	struct pmx_message m;
	unsigned n = 0;
	int got;

	say("ready");
	await_line();
	while ((got = pmx_receive_wait(ctx, &m, 1000000)) == 1) {
		unsigned number;

		memcpy(&number, pmx_message_data(&m), sizeof(number));
		if (number != n)
			fail("message %u came where %u was due", number, n);
		n++;
		pmx_release_receive_buffer(ctx, &m);
	}
	printf("received %u\n", n);
	return failed;
}

static int
flood(struct pmx_addr to)
{
	char bytes[LEN] = {0};
	unsigned n = 0;

	while (!line_came()) {
		memcpy(bytes, &n, sizeof(n));
		int r = pmx_send_copy(ctx, to, bytes, sizeof(bytes), NULL);

		if (r == 0)
			n++;
		else if (r == -EAGAIN || r == -ENOBUFS)
			usleep(1000);
		else
			return fail("send %u: %s", n, pmx_strerror(r)), 1;
	}
	if (pmx_send_wait(ctx, PATIENCE_S * 1000000ll) != 0)
		fail("what was sent did not end within %d s", PATIENCE_S);
	printf("sent %u\n", n);
	return failed;
}

/* Messages to itself, all held. */
static void
receive_bulk(struct pmx_message *m)
{
	char bytes[LEN] = {0};
	double until = now_s() + PATIENCE_S;
	unsigned sent = 0, got = 0;

	while (got < MESSAGES && now_s() < until) {
		if (sent < MESSAGES &&
			pmx_send_copy(ctx, pmx_context_addr(ctx), bytes, LEN, NULL) == 0)
			sent++;
		int r = pmx_receive(ctx, &m[got]);

		if (r < 0)
			fail("receive: %s", pmx_strerror(r));
		got += r == 1;
	}
	if (got < MESSAGES)
		fail("%u of %u messages came", got, MESSAGES);
}

static void
release_bulk(struct pmx_message *m)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		pmx_release_receive_buffer(ctx, &m[i]);
}

/* Receive and release what is there. Return what the last pmx_receive() says. */
static int
receive_all(void)
{
	struct pmx_message m;
	int result;

	while ((result = pmx_receive(ctx, &m)) == 1)
		pmx_release_receive_buffer(ctx, &m);
	return result;
}

static int
poll_on(void)
{
	struct pmx_message m;
	unsigned polls = 0;

	say("ready");
	yields = naps = 0;
	while (++polls < POLLS || polls % 256 != 0 || !line_came()) {
		if (pmx_receive(ctx, &m) == 1)
			pmx_release_receive_buffer(ctx, &m);
	}
	printf("polls %u yields %u naps %u\n", polls, yields, naps);
	return 0;
}

static double began;

/* A call came back: how long it took, and what it said. One that waits for the engine does not come
 * back, or says so when its patience with a primary has ended. */
static void
returned(const char *what, int result)
{
	double took = now_s() - began;

	printf("%-28s %6d  %.3f ms\n", what, result, took * 1e3);
	fflush(stdout);
	if (result < 0 && result != -EAGAIN && result != -ENOBUFS)
		fail("%s: %s, after %.1f s", what, pmx_strerror(result), took);
	began = now_s();
}

/* Fill the ring, release what is held, and receive. */
static void
call_sends(struct pmx_message *held, const void *bytes)
{
	int result, sent = 0;

	while ((result = pmx_send_copy(ctx, pmx_context_addr(ctx), bytes, 10, NULL)) == 0)
		sent++;
	if (sent == 0 || result != -EAGAIN)
		fail("the ring was to fill: %d sends, then %s", sent, pmx_strerror(result));
	returned("pmx_send_copy", result);
	release_bulk(held);
	returned("pmx_release_receive_buffer", 0);
	result = receive_all();
	returned("pmx_receive", result);
}

/* memory: of pmx_alloc, len bytes. */
static void
call_matched(void *bytes, void *memory, uint64_t len)
{
	const struct pmx_addr self = pmx_context_addr(ctx);
	struct pmx_status status;
	pmx_request r[3];
	const struct pmx_matched eager = {
		.peer = self,
		.comm = 1,
		.tag = 1,
		.data = bytes,
		.len = 100,
	};
	const struct pmx_matched offer = {
		.peer = self,
		.comm = 1,
		.tag = 2,
		.data = memory,
		.len = len,
	};
	const struct pmx_matched in = {
		.peer = PMX_ANY_SOURCE,
		.comm = 1,
		.tag = 3,
		.data = bytes,
		.len = 100,
	};

	returned("pmx_isend, eager", pmx_isend(ctx, &eager, &r[0]));
	returned("pmx_isend, offer", pmx_isend(ctx, &offer, &r[1]));
	returned("pmx_irecv", pmx_irecv(ctx, &in, &r[2]));
	returned("pmx_iprobe", pmx_iprobe(ctx, &in, &status));
}

/* memory: what `remote` names, len bytes. */
static void
call_transfers(void *memory, const struct pmx_remote *remote, uint64_t len)
{
	struct pmx_event event;
	pmx_transfer_id id;
	const struct pmx_transfer t = {
		.peer = pmx_context_addr(ctx),
		.key = remote->key,
		.remote = remote->addr,
		.local = memory,
		.len = len,
	};

	returned("pmx_push", pmx_push(ctx, &t, &id));
	returned("pmx_pull", pmx_pull(ctx, &t, &id));
	returned("pmx_poll_event", pmx_poll_event(ctx, &event));
	returned("pmx_sends_pending", (int)pmx_sends_pending(ctx));
	returned("pmx_transfers_pending", (int)pmx_transfers_pending(ctx));
}

static void
call_select(void)
{
	int result = pmx_before_select(ctx);

	returned("pmx_before_select", result);
	pmx_after_select(ctx);
	returned("pmx_after_select", 0);
}

static int
calls(void)
{
	static struct pmx_message m[MESSAGES];
	static char mine[1 << 17];
	struct pmx_remote remote;
	void *memory;

	if (pmx_alloc(ctx, sizeof(mine), &memory) != 0 ||
		pmx_register(ctx, memory, sizeof(mine), PMX_REMOTE_READ | PMX_REMOTE_WRITE,
			&remote) != 0)
		return fail("no memory to transfer"), 1;
	receive_bulk(m);
	say("ready");
	await_line();
	alarm(PATIENCE_S); /* a call that never returns */
	began = now_s();
	call_sends(m, mine);
	call_matched(mine, memory, sizeof(mine));
	call_transfers(memory, &remote, sizeof(mine));
	call_select();
	say("called");
	await_line();
	/* the engine runs again: all that was given back is there */
	while (pmx_send_wait(ctx, 10000) != 0)
		receive_all();
	receive_all();
	for (int round = 0; round < 8 && !failed; round++) {
		receive_bulk(m);
		release_bulk(m);
	}
	return failed;
}

int
main(int argc, char **argv)
{
	unsigned a = 0, b = 0;

	if (argc < 4 || (argc == 5 && sscanf(argv[4], "%u:%u", &a, &b) != 2)) {
		fputs("Usage: stopped INSTANCE CONTEXT hold|flood|calls|poll [NODE:CONTEXT]\n",
			stderr);
		return 2;
	}
	int r = pmx_node_attach(&node, argv[1], NULL);

	if (r == 0)
		r = pmx_context_open(&ctx, node, atoi(argv[2]), NULL);
	if (r != 0)
		return fail("attaching: %s", pmx_strerror(r)), 1;
	r = strcmp(argv[3], "hold") == 0       ? hold()
		: strcmp(argv[3], "poll") == 0 ? poll_on()
		: strcmp(argv[3], "calls") == 0
		? calls()
		: flood((struct pmx_addr){(uint16_t)a, (uint16_t)b});
	pmx_context_close(ctx);
	pmx_node_close(node);
	return r;
}
