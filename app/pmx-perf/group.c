/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of a group of both sides: a barrier, a lock that nobody wants, and one that both
 * want all the time; beside the round trip of messages, from which a barrier would be made.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "match.h"
#include "pmx/group.h"

#define GROUP      1 /* number of the group */
#define FREE_LOCK  1 /* the responder is its manager */
#define BOTH_WANT  0
#define BATCH      500
#define TRIP_BYTES 64

/* What both sides do at once; struct order.depth. */
enum { OPEN, BARRIERS, CONTEND, CLOSE };

static struct pmx_group *group;

/* ------------------------------------------------------------------ both sides */

int
perf_group_open(struct session *s, uint32_t id, struct pmx_addr initiator,
	struct pmx_addr responder, struct pmx_group **g)
{
	const struct pmx_addr members[2] = {initiator, responder};
	const struct pmx_group_params p = {.id = id, .count = 2, .members = members};
	pmx_request r;
	int e = pmx_group_open(s->ctx, &p, g, &r);

	return e == 0 ? request_wait(s, &r) : e;
}

static void
close_group(void)
{
	pmx_group_close(group);
	group = NULL;
}

static int
barrier(struct session *s)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_barrier(group, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
lock(struct session *s, uint32_t number)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_lock(group, number, 0, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
unlock(struct session *s, uint32_t number)
{
	int e;

	while ((e = pmx_group_unlock(group, number)) == -EAGAIN)
		session_idle(s);
	return e;
}

/* Does something `count` times; h gets how long each took, NULL: nothing. */
static int
repeat(struct session *s, uint64_t count, int (*once)(struct session *s), struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		uint64_t start = rte_rdtsc();

		e = once(s);
		if (h != NULL)
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	return e;
}

static int
contend_once(struct session *s)
{
	int e = lock(s, BOTH_WANT);

	return e == 0 ? unlock(s, BOTH_WANT) : e;
}

/* ------------------------------------------------------------------ responder */

static int
answer(struct session *s, struct pmx_message *m)
{
	struct order o;
	int e = 0;

	if (*(const uint8_t *)pmx_message_data(m) != KIND_GROUP)
		return PERF_NOT_MINE;
	if (m->len != sizeof(o))
		return -EPROTO;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	switch (o.depth) {
	case OPEN:
		e = perf_group_open(s, GROUP, m->source, pmx_context_addr(s->ctx), &group);
		break;
	case BARRIERS:
		e = repeat(s, o.count, barrier, NULL);
		break;
	case CONTEND:
		e = barrier(s);
		e = e == 0 ? repeat(s, o.count, contend_once, NULL) : e;
		e = e == 0 ? barrier(s) : e; /* the other side may still want it */
		break;
	case CLOSE:
		close_group();
		break;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

static void
end(struct session *s)
{
	(void)s;
	close_group();
}

const struct responder group_responder = {.answer = answer, .end = end};

/* ------------------------------------------------------------------ initiator */

static int
order(struct session *s, const struct options *o, uint16_t what, uint64_t count)
{
	const struct order order = {.kind = KIND_GROUP, .depth = what, .count = count};

	return order_send(s, o->to, &order);
}

static const struct options *options; /* of the test that runs */

static int
trip_once(struct session *s)
{
	const uint8_t bytes[TRIP_BYTES] = {KIND_PING};
	struct pmx_message m;
	int e = perf_send(s, options->to, bytes, sizeof(bytes));

	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	pmx_release_receive_buffer(s->ctx, &m);
	return 0;
}

static int
free_lock_once(struct session *s)
{
	return lock(s, FREE_LOCK);
}

/* Locks what the other side does not want. A round trip between lets the release be over. */
static int
free_locks(struct session *s, uint64_t count, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		e = repeat(s, 1, free_lock_once, h);
		e = e == 0 ? unlock(s, FREE_LOCK) : e;
		e = e == 0 ? trip_once(s) : e;
	}
	return e;
}

/* Both take the lock `count` times; h gets the time from one to the next. */
static int
contend(struct session *s, uint64_t count, struct hist *h)
{
	uint64_t start;
	int e = order(s, options, CONTEND, count);

	e = e == 0 ? barrier(s) : e;
	start = rte_rdtsc();
	e = e == 0 ? repeat(s, count, contend_once, NULL) : e;
	if (e == 0 && h != NULL)
		hist_record(h, (uint64_t)(perf_ns(rte_rdtsc() - start) / (2 * (double)count)));
	return e == 0 ? barrier(s) : e;
}

enum { TRIP, BARRIER, FREE, HAND_OVER, FIGURES };

static int
turn(struct session *s, uint64_t batch, struct hist *h)
{
	int e = repeat(s, batch, trip_once, h ? &h[TRIP] : NULL);

	e = e == 0 ? order(s, options, BARRIERS, batch + 1) : e;
	/* the first one also waits for the order */
	e = e == 0 ? barrier(s) : e;
	e = e == 0 ? repeat(s, batch, barrier, h ? &h[BARRIER] : NULL) : e;
	e = e == 0 ? free_locks(s, batch, h ? &h[FREE] : NULL) : e;
	return e == 0 ? contend(s, batch, h ? &h[HAND_OVER] : NULL) : e;
}

int
test_group(struct session *s, const struct options *o)
{
	static const char *const names[FIGURES] = {"round trip", "barrier", "free lock",
		"hand-over"};
	static struct hist h[FIGURES];
	const uint64_t batch = o->rounds < BATCH ? o->rounds : BATCH;
	int e;

	options = o;
	for (unsigned i = 0; i < FIGURES; i++)
		hist_init(&h[i]);
	e = order(s, o, OPEN, 0);
	e = e == 0 ? perf_group_open(s, GROUP, pmx_context_addr(s->ctx), o->to, &group) : e;
	for (uint64_t i = 0; i < o->rounds + batch && e == 0; i += batch)
		e = turn(s, batch, i ? h : NULL);
	e = e == 0 ? order(s, o, CLOSE, 0) : e;
	close_group();
	if (e != 0)
		return e;
	row_head(o);
	for (unsigned i = 0; i < FIGURES; i++) {
		struct row r = {.test = "latency", .size = i == TRIP ? TRIP_BYTES : 0};

		snprintf(r.what, sizeof(r.what), "%s", names[i]);
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	return 0;
}
