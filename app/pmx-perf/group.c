/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of a group of both sides: a barrier, a lock that nobody wants, and one that both
 * want all the time, beside the round trip of messages, from which these would be made; an update
 * of a shared region beside a push, and coming to share one beside a pull of its bytes.
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
#define SHORT      64    /* bytes of a short update */
#define BYTES      65536 /* of a region */
#define OWN        0     /* regions: whose home is the initiator, the responder */
#define OTHER      1
#define FEWER      16 /* so many times fewer of what takes long */

/* The things that both sides do at once: struct order.depth says which one is next. */
enum { OPEN, BARRIERS, CONTEND, CLOSE };

static struct pmx_group *group;
static struct pmx_remote copies[2]; /* of OWN and OTHER */
static struct pmx_addr other_side;

/* ------------------------------------------------------------------ both sides */

int
perf_group_open(struct perf_session *s, uint32_t id, struct pmx_addr initiator,
	struct pmx_addr responder, struct pmx_group **g)
{
	const struct pmx_addr members[2] = {initiator, responder};
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = 2,
		.members = members,
	};
	pmx_request r;
	int e = pmx_group_open(s->ctx, &p, 10000000, g, &r);

	return e == 0 ? request_wait(s, &r) : e;
}

static int
subscribe(struct perf_session *s, uint32_t region)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_subscribe(group, region, 0, &copies[region], NULL, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
unsubscribe(struct perf_session *s, uint32_t region)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_unsubscribe(group, region, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

/* Open the group, and share the region whose home is here, then the other one. */
static int
perf_group_begin(struct perf_session *s, struct pmx_addr initiator, struct pmx_addr responder,
	uint32_t home)
{
	int e = perf_group_open(s, GROUP, initiator, responder, &group);
	void *memory[2];

	other_side = home == OWN ? responder : initiator;
	for (uint32_t r = OWN; r <= OTHER && e == 0; r++) {
		e = pmx_alloc(s->ctx, BYTES, &memory[r]);
		if (e == 0)
			e = pmx_group_area_register(group, PMX_REGION(r), memory[r], BYTES,
				PMX_REMOTE_READ | PMX_REMOTE_WRITE, &copies[r]);
	}
	e = e == 0 ? subscribe(s, home) : e;
	return e == 0 ? subscribe(s, 1 - home) : e;
}

static void
close_group(void)
{
	pmx_group_close(group);
	group = NULL;
}

static int
barrier(struct perf_session *s)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_barrier(group, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
lock(struct perf_session *s, uint32_t number)
{
	pmx_request r;
	int e;

	while ((e = pmx_group_lock(group, number, 0, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
unlock(struct perf_session *s, uint32_t number)
{
	int e;

	while ((e = pmx_group_unlock(group, number)) == -EAGAIN)
		session_idle(s);
	return e;
}

/* Do something `count` times. h gets how long each took; NULL: nothing is recorded. */
static int
repeat(struct perf_session *s, uint64_t count, int (*once)(struct perf_session *s), struct hist *h)
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
contend_once(struct perf_session *s)
{
	int e = lock(s, BOTH_WANT);

	return e == 0 ? unlock(s, BOTH_WANT) : e;
}

/* ------------------------------------------------------------------ responder */

static int
perf_group_answer(struct perf_session *s, struct pmx_message *m)
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
		e = perf_group_begin(s, m->source, pmx_context_addr(s->ctx), OTHER);
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
perf_group_end(struct perf_session *s)
{
	(void)s;
	close_group();
}

const struct responder group_responder = {.answer = perf_group_answer, .end = perf_group_end};

/* ------------------------------------------------------------------ initiator */

static int
order(struct perf_session *s, const struct perf_options *o, uint16_t what, uint64_t count)
{
	const struct order order = {.kind = KIND_GROUP, .depth = what, .count = count};

	return order_send(s, o->to, &order);
}

static const struct perf_options *options; /* of the test that runs */

static int
trip_once(struct perf_session *s)
{
	return perf_trip(s, options->to, TRIP_BYTES);
}

static int
free_lock_once(struct perf_session *s)
{
	return lock(s, FREE_LOCK);
}

/* Take `count` times a lock that the other side does not want. A round trip between lets the
 * release be over. */
static int
free_locks(struct perf_session *s, uint64_t count, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		e = repeat(s, 1, free_lock_once, h);
		e = e == 0 ? unlock(s, FREE_LOCK) : e;
		e = e == 0 ? trip_once(s) : e;
	}
	return e;
}

/* Take the lock `count` times while the other side does so as well. h gets the mean time from one
 * holder to the next; NULL: nothing is recorded. */
static int
contend(struct perf_session *s, uint64_t count, struct hist *h)
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

static uint64_t length; /* of the updates and transfers that are measured */

static int
update_once(struct perf_session *s)
{
	const struct pmx_update u = {.region = OWN, .len = length};
	pmx_request r;
	int e;

	while ((e = pmx_group_update(group, &u, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
transfer_once(struct perf_session *s, bool pulls)
{
	volatile int32_t status = 1;
	const struct pmx_transfer t = {
		.peer = other_side,
		.flags = PMX_AREA,
		.key = (uint64_t)GROUP << 32 | PMX_REGION(OWN),
		.local = (void *)(uintptr_t)copies[OWN].addr,
		.len = length,
		.status = &status,
	};
	int e;

	while ((e = pulls ? pmx_pull(s->ctx, &t, NULL) : pmx_push(s->ctx, &t, NULL)) == -EAGAIN)
		session_idle(s);
	while (e == 0 && pmx_transfers_pending(s->ctx) > 0)
		session_idle(s);
	return e == 0 ? status : e;
}

static int
push_once(struct perf_session *s)
{
	return transfer_once(s, false);
}

static int
pull_once(struct perf_session *s)
{
	return transfer_once(s, true);
}

/* Leave the other side's region and come to share it again, `count` times. h gets how long each
 * coming took; NULL: nothing is recorded. */
static int
share(struct perf_session *s, uint64_t count, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		e = unsubscribe(s, OTHER);
		uint64_t start = rte_rdtsc();

		e = e == 0 ? subscribe(s, OTHER) : e;
		if (h != NULL)
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	return e;
}

enum {
	TRIP,
	BARRIER,
	FREE,
	HAND_OVER,
	PUSH,
	UPDATE,
	PUSH_LONG,
	UPDATE_LONG,
	PULL_LONG,
	SUBSCRIBE,
	FIGURES
};

/* Measure a batch of each operation on regions. The other side need only make progress. */
static int
region_turn(struct perf_session *s, uint64_t batch, struct hist *h)
{
	int e;

	length = SHORT;
	e = repeat(s, batch, push_once, h ? &h[PUSH] : NULL);
	e = e == 0 ? repeat(s, batch, update_once, h ? &h[UPDATE] : NULL) : e;
	length = BYTES;
	batch = batch / FEWER + 1;
	e = e == 0 ? repeat(s, batch, push_once, h ? &h[PUSH_LONG] : NULL) : e;
	e = e == 0 ? repeat(s, batch, update_once, h ? &h[UPDATE_LONG] : NULL) : e;
	e = e == 0 ? repeat(s, batch, pull_once, h ? &h[PULL_LONG] : NULL) : e;
	return e == 0 ? share(s, batch, h ? &h[SUBSCRIBE] : NULL) : e;
}

static int
perf_group_turn(struct perf_session *s, uint64_t batch, struct hist *h)
{
	int e = repeat(s, batch, trip_once, h ? &h[TRIP] : NULL);

	e = e == 0 ? order(s, options, BARRIERS, batch + 1) : e;
	/* the first one also waits for the order */
	e = e == 0 ? barrier(s) : e;
	e = e == 0 ? repeat(s, batch, barrier, h ? &h[BARRIER] : NULL) : e;
	e = e == 0 ? free_locks(s, batch, h ? &h[FREE] : NULL) : e;
	e = e == 0 ? contend(s, batch, h ? &h[HAND_OVER] : NULL) : e;
	return e == 0 ? region_turn(s, batch, h) : e;
}

int
test_group(struct perf_session *s, const struct perf_options *o)
{
	static const struct {
		const char *name;
		uint64_t size;
	} rows[FIGURES] = {
		[TRIP] = {"round trip", TRIP_BYTES},
		[BARRIER] = {"barrier", 0},
		[FREE] = {"free lock", 0},
		[HAND_OVER] = {"hand-over", 0},
		[PUSH] = {"push", SHORT},
		[UPDATE] = {"update", SHORT},
		[PUSH_LONG] = {"push", BYTES},
		[UPDATE_LONG] = {"update", BYTES},
		[PULL_LONG] = {"pull", BYTES},
		[SUBSCRIBE] = {"subscribe", BYTES},
	};
	static struct hist h[FIGURES];
	const uint64_t batch = o->rounds < BATCH ? o->rounds : BATCH;
	int e;

	options = o;
	for (unsigned i = 0; i < FIGURES; i++)
		hist_init(&h[i]);
	e = order(s, o, OPEN, 0);
	e = e == 0 ? perf_group_begin(s, pmx_context_addr(s->ctx), o->to, OWN) : e;
	for (uint64_t i = 0; i < o->rounds + batch && e == 0; i += batch)
		e = perf_group_turn(s, batch, i ? h : NULL);
	e = e == 0 ? order(s, o, CLOSE, 0) : e;
	close_group();
	if (e != 0)
		return e;
	row_head(o);
	for (unsigned i = 0; i < FIGURES; i++) {
		struct perf_row r = {.test = "latency", .size = rows[i].size};

		snprintf(r.what, sizeof(r.what), "%s", rows[i].name);
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	return 0;
}
