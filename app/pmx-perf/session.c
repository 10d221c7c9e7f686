/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A context to measure with, and what all tests over pmx have in common.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>

#include "base/clock.h"
#include "perf.h"

/* The two sides are started one after the other, by people or scripts. */
#define PARTNER_US 5000000

int
session_open(struct perf_session *s, const struct perf_options *o)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.idle = o->idle == PERF_SPIN ? PMX_IDLE_SPIN : PMX_IDLE_AUTO,
		.open_wait_us = PARTNER_US,
	};
	const struct pmx_attach_params attach = {
		.size = sizeof(attach),
		.pin = o->cpu >= 0,
		.cpu = (uint16_t)o->cpu,
	};
	char error[512] = "";
	int e;

	*s = (struct perf_session){.idle = o->idle, .embedded = o->embedded != NULL};
	if (s->embedded) {
		/* virtio_user may write to a vhost backend that has ended */
		signal(SIGPIPE, SIG_IGN);
		const struct pmx_node_params node = {
			.size = sizeof(node),
			.config_file = o->embedded,
			.eal_argc = o->eal_argc,
			.eal_argv = o->eal_argv,
		};

		e = pmx_node_start(&s->node, &node, error, sizeof(error));
	} else {
		e = pmx_node_attach(&s->node, o->instance, &attach);
		snprintf(error, sizeof(error), "attaching to '%s': %s", o->instance,
			pmx_strerror(e));
	}
	if (e != 0) {
		fprintf(stderr, "pmx-perf: %s\n", error);
		return e;
	}
	e = pmx_context_open(&s->ctx, s->node, o->context, &params);
	if (e != 0) {
		fprintf(stderr,
			"pmx-perf: context %u: %s (contexts are 0 to limits.contexts - 1)\n",
			o->context, pmx_strerror(e));
		pmx_node_close(s->node);
	}
	return e;
}

void
session_close(struct perf_session *s)
{
	pmx_context_close(s->ctx);
	pmx_node_close(s->node);
}

void
session_idle(struct perf_session *s)
{
	struct pollfd p = {.fd = pmx_get_fd(s->ctx), .events = POLLIN};

	if (s->embedded && pmx_node_poll(s->node) != 0)
		return;
	if (s->idle == PERF_SPIN)
		return;
	if (s->embedded) {
		sched_yield();
		return;
	}
	if (s->idle == PERF_YIELD) {
		pmx_progress(s->ctx);
		return;
	}
	/* only a millisecond, because we may be waiting for send buffers */
	if (pmx_before_select(s->ctx) == 0) {
		poll(&p, 1, 1);
		pmx_after_select(s->ctx);
	}
}

void
session_polled(struct perf_session *s)
{
	/* a second yield would give the CPU away when the message may be there */
	if (s->embedded || s->idle == PERF_BLOCK)
		session_idle(s);
}

int
perf_complain(const char *doing, int error)
{
	fprintf(stderr, "pmx-perf: %s: %s\n", doing, pmx_strerror(error));
	return 1;
}

int
perf_send(struct perf_session *s, struct pmx_addr to, const void *data, uint32_t len)
{
	int e;

	while ((e = pmx_send_copy(s->ctx, to, data, len, &s->sent)) == -ENOBUFS || e == -EAGAIN)
		session_idle(s);
	return e;
}

uint64_t
perf_hz(void)
{
	static uint64_t hz;
	struct timespec wait = {.tv_nsec = 20000000};

	if (hz != 0)
		return hz;
	hz = rte_get_tsc_hz();
	if (hz != 0)
		return hz;
	const int64_t begin = clock_ns();
	uint64_t start = rte_rdtsc();

	nanosleep(&wait, NULL);
	const int64_t ns = clock_ns() - begin;

	hz = (uint64_t)((double)(rte_rdtsc() - start) * 1e9 / (double)ns);
	return hz;
}

/* Return the error with which one of the messages whose results nobody asked for has failed since
 * the last call; 0: none has. */
static int
send_failed(struct perf_session *s)
{
	struct pmx_context_stat stat;
	uint64_t before = s->send_errors;

	pmx_sends_pending(s->ctx);
	pmx_context_read_stat(s->ctx, &stat);
	s->send_errors = stat.send_errors;
	return stat.send_errors != before ? stat.last_error : 0;
}

int
perf_receive(struct perf_session *s, struct pmx_message *m, uint64_t end)
{
	int e;

	for (unsigned i = 1; (e = pmx_receive(s->ctx, m)) == 0; i++) {
		session_polled(s);
		/* reading the clock costs as much as a poll */
		if (i % 256 != 0)
			continue;
		e = pmx_is_send_done(s->ctx, s->sent);
		if (e >= 0 || e == -ESTALE)
			e = send_failed(s);
		if (e < 0)
			return e;
		if (rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return e;
}

double
perf_ns(uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)perf_hz();
}

void *
memory_take(struct perf_session *s, uint64_t len, bool private)
{
	void *p = NULL;

	if (private)
		p = aligned_alloc(4096, (len + 4095) & ~4095ull);
	else if (pmx_alloc(s->ctx, len, &p) != 0)
		p = NULL;
	if (p != NULL)
		memset(p, 1, len);
	return p;
}

void
memory_put(struct perf_session *s, void *p, bool private)
{
	if (private)
		free(p);
	else
		pmx_free(s->ctx, p);
}
