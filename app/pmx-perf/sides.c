/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The two sides of every test over pmx: the initiator finds out whether the responder is there,
 * runs its test and ends the responder; the responder passes each message to the tests, one of
 * which may know it. Both run in the application's thread, as does the engine of an embedded node.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "perf.h"

#define REPLY_PATIENCE_S 20
#define GREET_PATIENCE_S 5
#define AT_ONCE_S        0.5 /* the engine never gives up a node that is down so soon */
#define LAST_ACKS_MS     50
#define RESPONDERS_MAX   8

/* Send a message of 64 bytes of that kind. */
static int
short_send(struct perf_session *s, struct pmx_addr to, uint8_t kind)
{
	const uint8_t bytes[64] = {kind};

	return perf_send(s, to, bytes, sizeof(bytes));
}

/* ------------------------------------------------------------------ initiator */

static int
greet(struct perf_session *s, const struct perf_options *o)
{
	struct pmx_message m;
	uint64_t hz = perf_hz(), start = rte_rdtsc(), end = start + REPLY_PATIENCE_S * hz;
	int e = short_send(s, o->to, KIND_PING);

	/* the engine gives up by its own clock; a message that was delivered is answered soon */
	if (e == 0) {
		do {
			e = perf_receive(s, &m, rte_rdtsc() + GREET_PATIENCE_S * hz);
		} while (e == -ETIMEDOUT && pmx_is_send_done(s->ctx, s->sent) == 0 &&
			rte_rdtsc() < end);
	}
	double waited = (double)(rte_rdtsc() - start) / (double)hz;

	if (e == 1) {
		pmx_release_receive_buffer(s->ctx, &m);
		return 0;
	}
	fprintf(stderr, "pmx-perf: --to %u:%u: ", o->to.node, o->to.context);
	/* an unknown node is reported at once, one that does not answer after all that it was
	 * asked */
	if (e == -EHOSTUNREACH && waited < AT_ONCE_S)
		fprintf(stderr, "node %u is not in [nodes] of this node's configuration\n",
			o->to.node);
	else if (e == -EHOSTUNREACH || (e == -ETIMEDOUT && pmx_is_send_done(s->ctx, s->sent) != 1))
		fprintf(stderr,
			"node %u did not answer for %.1f s: does it run, and is it in [nodes] of "
			"this node's configuration, with the right address?\n",
			o->to.node, waited);
	else if (e == -ECONNREFUSED)
		fprintf(stderr,
			"node %u has no context %u open: start 'pmx-perf respond' there, or check "
			"the number\n",
			o->to.node, o->to.context);
	else if (e == -ETIMEDOUT)
		fprintf(stderr,
			"it took the message, and sent nothing back for %.1f s: does 'pmx-perf "
			"respond' run there, and nothing else?\n",
			waited);
	else
		fprintf(stderr, "%s\n", pmx_strerror(e));
	return 1;
}

int
run_test(const struct perf_options *o)
{
	struct perf_session s;
	int e, result = session_open(&s, o) == 0 ? 0 : 1;

	if (result != 0)
		return result;
	result = greet(&s, o);
	if (result == 0 && (e = o->command->test(&s, o)) != 0)
		result = e < 0 ? perf_complain(o->command->name, e) : 1;
	if (result == 0) {
		e = short_send(&s, o->to, KIND_QUIT);
		if (e == 0)
			e = pmx_send_wait(s.ctx, REPLY_PATIENCE_S * 1000000);
		result = e == 0 ? 0 : perf_complain("ending the responder", e);
		/* an embedded responder polls for LAST_ACKS_MS more. Wait twice as long before
		 * closing: ports whose peer closes before them (vhost's clients) can end their
		 * process */
		if (s.embedded)
			usleep(2 * LAST_ACKS_MS * 1000);
	}
	session_close(&s);
	return result;
}

/* ------------------------------------------------------------------ responder */

/* Collect the responders of all commands, each once. */
static unsigned
responders_find(const struct perf_command *commands, const struct responder *all[RESPONDERS_MAX])
{
	unsigned n = 0;

	for (const struct perf_command *c = commands; c->name != NULL; c++) {
		if (c->responder != NULL && (n == 0 || all[n - 1] != c->responder) &&
			n < RESPONDERS_MAX)
			all[n++] = c->responder;
	}
	return n;
}

/* Answer a message. One that no test knows is dropped. */
static int
sides_answer(struct perf_session *s, const struct responder *const all[], unsigned count,
	struct pmx_message *m)
{
	int e = PERF_NOT_MINE;

	for (unsigned i = 0; i < count && e == PERF_NOT_MINE; i++)
		e = all[i]->answer(s, m);
	pmx_release_receive_buffer(s->ctx, m);
	return e == PERF_NOT_MINE ? PERF_ANSWERED : e;
}

static int
answer_until_quit(struct perf_session *s, const struct responder *const all[], unsigned count)
{
	struct pmx_message m[32];
	int e = PERF_ANSWERED, n;

	while (e == PERF_ANSWERED) {
		n = pmx_receive_burst(s->ctx, m, 32);
		if (n < 0)
			return n;
		if (n == 0)
			session_polled(s);
		for (int i = 0; i < n && e == PERF_ANSWERED; i++)
			e = sides_answer(s, all, count, &m[i]);
		if (n != 0 && s->embedded)
			pmx_node_poll(s->node);
	}
	return e == PERF_QUIT ? 0 : e;
}

int
run_respond(const struct perf_options *o)
{
	const struct responder *all[RESPONDERS_MAX] = {0};
	unsigned count = responders_find(o->commands, all);
	struct perf_session s;
	int e;

	if (session_open(&s, o) != 0)
		return 1;
	e = answer_until_quit(&s, all, count);
	for (unsigned i = 0; i < count; i++) {
		if (all[i]->end != NULL)
			all[i]->end(&s);
	}
	if (e == 0 && s.embedded) {
		/* its engine still has to send the last Acks */
		uint64_t end = rte_rdtsc() + perf_hz() / 1000 * LAST_ACKS_MS;

		while (rte_rdtsc() < end)
			pmx_node_poll(s.node);
		usleep(3 * LAST_ACKS_MS * 1000);
	}
	session_close(&s);
	return e == 0 ? 0 : perf_complain("answering", e);
}
