/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One application of the sleeping test: a ping-pong in which both sides sleep for every message,
 * in epoll on pmx_get_fd() or in pmx_receive_wait(). sleepers.sh starts them and looks at the
 * counters of the primaries.
 *
 * What is judged is how often it went to sleep, and how much CPU time each round took at most: a
 * program that looks for messages all the time needs that of the whole pause between two. Neither
 * depends on who else wants the CPU.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "pmx/pmx.h"

#define PATIENCE_MS 20000
#define PAUSE_US    20000
/* CPU time of both sides may be so much in all, and so much a round */
#define CPU_S       0.2
#define CPU_ROUND_S 0.002

static struct pmx_context *ctx;
static bool use_epoll;
/* times that it went to sleep for a message, that something woke it, that the message was there */
static unsigned slept, woken, at_once;

static double
seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The one by which pmx_receive_wait() sleeps; the thread that watches the primary has no limit. */
int
poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	const struct timespec t = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};

	slept += timeout_ms > 0;
	return ppoll(fds, n, timeout_ms < 0 ? NULL : &t, NULL);
}

/* The next message, asleep until it comes. */
static int
next_message(struct pmx_message *m)
{
	static int poller = -1;
	struct epoll_event event = {.events = EPOLLIN};
	double end = seconds_of(CLOCK_MONOTONIC) + PATIENCE_MS / 1e3;
	int r = pmx_receive(ctx, m);

	at_once += r == 1;
	if (r != 0)
		return r;
	if (!use_epoll)
		return pmx_receive_wait(ctx, m, PATIENCE_MS * 1000);
	if (poller < 0) {
		poller = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(poller, EPOLL_CTL_ADD, pmx_get_fd(ctx), &event);
	}
	while ((r = pmx_receive(ctx, m)) == 0 && seconds_of(CLOCK_MONOTONIC) < end) {
		if (pmx_before_select(ctx) != 0)
			continue;
		slept++;
		woken += epoll_wait(poller, &event, 1, PATIENCE_MS) == 1;
		pmx_after_select(ctx);
	}
	return r;
}

static int
answer(unsigned rounds)
{
	struct pmx_message m;

	for (unsigned i = 0; i < rounds; i++) {
		int r = next_message(&m);

		if (r == 1)
			r = pmx_send_copy(ctx, m.source, pmx_message_data(&m), m.len, NULL);
		if (r != 0) {
			printf("failed answering %u: %d %s\n", i, r, pmx_strerror(r));
			return 1;
		}
		pmx_release_receive_buffer(ctx, &m);
	}
	return pmx_send_wait(ctx, PATIENCE_MS * 1000) == 0 ? 0 : 1;
}

static int
ask(struct pmx_addr to, unsigned rounds)
{
	struct pmx_message m;
	double worst = 0;

	for (unsigned i = 0; i < rounds; i++) {
		double began = seconds_of(CLOCK_MONOTONIC);
		pmx_send_id id;
		int r = pmx_send_copy(ctx, to, &i, sizeof(i), &id);

		if (r == 0)
			r = next_message(&m);
		if (r != 1 || m.len != sizeof(i) ||
			memcmp(pmx_message_data(&m), &i, sizeof(i)) != 0) {
			printf("failed round %u: %d %s; the send: %s\n", i, r, pmx_strerror(r),
				pmx_strerror(pmx_is_send_done(ctx, id)));
			return 1;
		}
		pmx_release_receive_buffer(ctx, &m);
		double took = seconds_of(CLOCK_MONOTONIC) - began;

		worst = took > worst ? took : worst;
		usleep(PAUSE_US);
	}
	printf("worst round trip %.3f ms\n", worst * 1e3);
	return 0;
}

int
main(int argc, char **argv)
{
	struct pmx_node *node;
	unsigned a = 0, b = 0;

	bool answers = argc == 6 && strcmp(argv[3], "answer") == 0;

	if (argc != 6 || (!answers && sscanf(argv[3], "%u:%u", &a, &b) != 2)) {
		fputs("Usage: sleepers INSTANCE CONTEXT answer|NODE:CONTEXT epoll|wait ROUNDS\n",
			stderr);
		return 2;
	}

	use_epoll = strcmp(argv[4], "epoll") == 0;
	int r = pmx_node_attach(&node, argv[1], NULL);

	if (r == 0)
		r = pmx_context_open(&ctx, node, atoi(argv[2]), NULL);
	if (r != 0) {
		printf("failed attaching: %s\n", pmx_strerror(r));
		return 1;
	}
	puts("ready");
	fflush(stdout);
	double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), wall = seconds_of(CLOCK_MONOTONIC);
	const unsigned rounds = (unsigned)atoi(argv[5]);

	slept = 0;
	r = answers ? answer(rounds) : ask((struct pmx_addr){(uint16_t)a, (uint16_t)b}, rounds);
	cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = seconds_of(CLOCK_MONOTONIC) - wall;
	printf("cpu %.3f of %.1f s, %u sleeps, %u times woken, %u messages were there at once\n",
		cpu, wall, slept, woken, at_once);
	pmx_node_close(node);
	/* a message may be there before it looks for one, where others want the CPU */
	const bool sleeps = slept >= rounds / 4;
	const bool spares = cpu <= CPU_S + rounds * CPU_ROUND_S;

	if (!sleeps)
		puts("failed: it did not sleep");
	if (!spares)
		puts("failed: it used too much of the CPU");
	return r != 0 || !sleeps || !spares;
}
