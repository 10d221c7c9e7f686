/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A relay of streams: TCP arranged like pmx with primaries. The application talks over a Unix
 * socket to a process of its own host, and that one over TCP to the process of the other host, just
 * as pmx-dpdk is between an application and the network. One connection at a time, until SIGTERM.
 * Plain sockets, no DPDK; one thread.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baseline.h"
#include "perf.h"

#define RELAY_BYTES (256u << 10) /* as much as the baseline's server reads at once */
#define LOOK_MS     50           /* time between two checks of `stop` while nobody connects */

/* The bytes under way in one direction. */
struct course {
	int from, to;
	size_t at, len; /* where in `bytes` is what was read and not written yet */
	bool ended;     /* the end of the stream was passed on */
	uint8_t *bytes;
};

static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	(void)number;
	stop = 1;
}

static bool
must_wait(ssize_t result)
{
	return result < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Move as much as is possible without waiting. Returns 1 if some bytes moved, 0 if none, or a
 * negative errno. */
static int
course_move(struct course *c)
{
	int moved = 0;

	if (c->len == 0 && !c->ended) {
		ssize_t n = recv(c->from, c->bytes, RELAY_BYTES, MSG_DONTWAIT);

		if (n < 0 && !must_wait(n))
			return -errno;
		if (n == 0) {
			c->ended = true;
			shutdown(c->to, SHUT_WR);
		}
		c->at = 0;
		c->len = n > 0 ? (size_t)n : 0;
		moved = n >= 0;
	}
	if (c->len > 0) {
		ssize_t n = send(c->to, c->bytes + c->at, c->len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && !must_wait(n))
			return -errno;
		c->at += n > 0 ? (size_t)n : 0;
		c->len -= n > 0 ? (size_t)n : 0;
		moved |= n > 0;
	}
	return moved;
}

/* Relay one connection from its beginning to its end. If it ends early, it is closed on both
 * sides. */
static void
relay_one(int from, int to, enum baseline_idle idle, uint8_t *bytes)
{
	struct course out = {.from = from, .to = to, .bytes = bytes};
	struct course back = {.from = to, .to = from, .bytes = bytes + RELAY_BYTES};
	int a = 0, b = 0;

	while (!stop && a >= 0 && b >= 0 &&
		!(out.ended && back.ended && out.len == 0 && back.len == 0)) {
		a = course_move(&out);
		b = a < 0 ? a : course_move(&back);
		if (a == 0 && b == 0 && idle != BASELINE_SPIN)
			sched_yield();
	}
}

int
run_relay(struct baseline *listens, struct baseline *connects)
{
	const struct sigaction action = {.sa_handler = on_signal};
	uint8_t *bytes = malloc(2 * RELAY_BYTES);
	int at = bytes == NULL ? -ENOMEM : baseline_listen(listens), result = 0;

	if (at < 0) {
		fprintf(stderr, "pmx-perf: relay: %s\n",
			bytes == NULL ? "out of memory" : listens->error);
		free(bytes);
		return 1;
	}
	memset(bytes, 0, 2 * RELAY_BYTES); /* so that no page fault is measured */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	while (!stop && result == 0) {
		struct pollfd p = {.fd = at, .events = POLLIN};
		int from = poll(&p, 1, LOOK_MS) == 1 ? accept(at, NULL, NULL) : -1, to;

		if (from < 0)
			continue;
		to = baseline_connect(connects);
		if (to >= 0) {
			relay_one(from, to, listens->idle, bytes);
			close(to);
		} else {
			fprintf(stderr, "pmx-perf: relay: %s\n", connects->error);
			result = 1;
		}
		close(from);
	}
	baseline_unlisten(listens, at);
	free(bytes);
	return result;
}
