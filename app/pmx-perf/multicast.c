/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of a group of eight, four contexts a side: a barrier of all and a lock that all want
 * beside a round trip; and multicasts to one, two and four contexts of the other side, by the
 * network or by a list as engine.multicast says, beside as many pushes at once.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "members.h"

#define GROUP      4 /* number of the group */
#define AREA       1
#define WANTED     1 /* lock; a member of the initiator's side is its manager */
#define HERE       MEMBERS_A_SIDE
#define BATCH      200
#define TRIP_BYTES 64

/* The things that both sides do at once: struct order.depth says which one is next. */
enum { OPEN, AREAS, BARRIERS, LOCKS, CLOSE };

static struct members members;
static void *memory[HERE]; /* the responder's areas */
static const uint32_t receivers[] = {1, 2, 4};

#define SETS (sizeof(receivers) / sizeof(receivers[0]))

/* ------------------------------------------------------------------ both sides */

static void
multicast_end(struct perf_session *s)
{
	(void)s;
	for (unsigned k = 0; k < members.here; k++) {
		pmx_free(members.contexts[k], memory[k]);
		memory[k] = NULL;
	}
	members_close(&members);
}

/* Let all members here enter a barrier, and wait for its end. */
static int
barrier(struct perf_session *s)
{
	pmx_request r[HERE];
	int e = 0;

	for (unsigned k = 0; k < HERE && e == 0; k++) {
		while ((e = pmx_group_barrier(members.groups[k], &r[k])) == -EAGAIN)
			session_idle(s);
	}
	return e == 0 ? members_wait(&members, s, r) : e;
}

/* `count` barriers of all; h gets how long each took, NULL: nothing. The first one also waits for
 * the other side. */
static int
barriers(struct perf_session *s, uint64_t count, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i <= count && e == 0; i++) {
		const uint64_t start = rte_rdtsc();

		e = barrier(s);
		if (h != NULL && i > 0)
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	return e;
}

/* Let each member here have the lock `count` times; each wants it all the time. */
static int
take_turns(struct perf_session *s, uint64_t count)
{
	const uint64_t end = rte_rdtsc() + PATIENCE_S * perf_hz();
	pmx_request r[HERE] = {0};
	uint64_t left[HERE];
	unsigned over = 0;
	int e = 0;

	for (unsigned k = 0; k < HERE; k++)
		left[k] = count;
	for (unsigned i = 0; over < HERE && e == 0; i++) {
		const unsigned k = i % HERE;

		if (left[k] == 0)
			continue;
		if (r[k] == 0) {
			e = pmx_group_lock(members.groups[k], WANTED, 0, &r[k]);
			e = e == -EAGAIN ? 0 : e;
		} else if ((e = pmx_test(members.contexts[k], &r[k], NULL)) == 1) {
			while ((e = pmx_group_unlock(members.groups[k], WANTED)) == -EAGAIN)
				session_idle(s);
			over += --left[k] == 0;
			r[k] = 0;
		}
		session_polled(s);
		if (i % 1024 == 0 && rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return e;
}

/* Let all members contend for a lock. h gets the mean time from one holder to the next; NULL:
 * nothing is recorded. */
static int
contend(struct perf_session *s, uint64_t count, struct hist *h)
{
	int e = barrier(s);
	const uint64_t start = rte_rdtsc();

	e = e == 0 ? take_turns(s, count) : e;
	e = e == 0 ? barrier(s) : e;
	if (h != NULL)
		hist_record(h, (uint64_t)perf_ns((rte_rdtsc() - start) / (2 * HERE * count)));
	return e;
}

/* ------------------------------------------------------------------ responder */

static int
areas(uint32_t bytes)
{
	struct pmx_remote remote;
	int e = 0;

	for (unsigned k = 0; k < HERE && e == 0; k++) {
		e = pmx_alloc(members.contexts[k], bytes, &memory[k]);
		if (e == 0)
			e = pmx_group_area_register(members.groups[k], AREA, memory[k], bytes,
				PMX_REMOTE_WRITE, &remote);
	}
	return e;
}

static int
multicast_answer(struct perf_session *s, struct pmx_message *m)
{
	struct order o;
	int e = 0;

	if (*(const uint8_t *)pmx_message_data(m) != KIND_MULTICAST)
		return PERF_NOT_MINE;
	if (m->len < sizeof(o))
		return -EPROTO;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	switch (o.depth) {
	case OPEN:
		e = members_join(&members, s, m);
		break;
	case AREAS:
		e = areas(o.size);
		e = e == 0 ? barrier(s) : e;
		break;
	case BARRIERS:
		e = barriers(s, o.count, NULL);
		break;
	case LOCKS:
		e = contend(s, o.count, NULL);
		break;
	case CLOSE:
		multicast_end(s);
		break;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder multicast_responder = {.answer = multicast_answer, .end = multicast_end};

/* ------------------------------------------------------------------ initiator */

static int
order(struct perf_session *s, const struct perf_options *o, uint16_t what, uint32_t size,
	uint64_t count)
{
	const struct order order = {
		.kind = KIND_MULTICAST,
		.depth = what,
		.size = size,
		.count = count,
	};

	return order_send(s, o->to, &order);
}

static int
multicast(struct perf_session *s, const struct pmx_group_set *set, void *data, uint32_t bytes)
{
	const struct pmx_multicast m = {.set = set, .area = AREA, .local = data, .len = bytes};
	pmx_request r;
	int e;

	while ((e = pmx_group_multicast(members.groups[0], &m, &r)) == -EAGAIN)
		session_idle(s);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
pushes(struct perf_session *s, uint32_t count, void *data, uint32_t bytes)
{
	volatile int32_t status[HERE];
	int e = 0;

	for (uint32_t i = 0; i < count && e == 0; i++) {
		const struct pmx_transfer t = {
			.peer = members.all[HERE + i],
			.flags = PMX_AREA,
			.key = (uint64_t)GROUP << 32 | AREA,
			.local = data,
			.len = bytes,
			.status = &status[i],
		};

		status[i] = 1;
		while ((e = pmx_push(s->ctx, &t, NULL)) == -EAGAIN)
			session_idle(s);
	}
	while (pmx_transfers_pending(s->ctx) > 0)
		session_idle(s);
	for (uint32_t i = 0; i < count && e == 0; i++)
		e = status[i];
	return e;
}

static void
print(const struct perf_options *o, const char *what, uint32_t to, uint32_t size,
	const struct hist *h)
{
	struct perf_row r = {.test = "latency", .size = size};

	if (to == 0)
		snprintf(r.what, sizeof(r.what), "%s", what);
	else
		snprintf(r.what, sizeof(r.what), "%s to %u", what, to);
	row_latency(&r, h);
	row_print(o, &r);
}

/* Measure multicasts and pushes of one size to all sets of receivers. The sets take turns, so that
 * what changes meanwhile concerns all. */
static int
one_size(struct perf_session *s, const struct perf_options *o,
	struct pmx_group_set *const sets[SETS], void *data, uint32_t bytes)
{
	static struct hist h[2][SETS];
	const uint64_t rounds = o->rounds / (1 + bytes / 1024) + 2;
	int e = 0;

	for (unsigned k = 0; k < SETS; k++) {
		hist_init(&h[0][k]);
		hist_init(&h[1][k]);
	}
	for (uint64_t i = 0; i < rounds && e == 0; i++) {
		for (unsigned k = 0; k < SETS && e == 0; k++) {
			const uint64_t start = rte_rdtsc();

			e = multicast(s, sets[k], data, bytes);
			const uint64_t middle = rte_rdtsc();

			e = e == 0 ? pushes(s, receivers[k], data, bytes) : e;
			if (i < rounds / 8 + 1) /* until caches and windows are as they stay */
				continue;
			hist_record(&h[0][k], (uint64_t)perf_ns(middle - start));
			hist_record(&h[1][k], (uint64_t)perf_ns(rte_rdtsc() - middle));
		}
	}
	for (unsigned k = 0; k < SETS && e == 0; k++) {
		print(o, "multicast", receivers[k], bytes, &h[0][k]);
		print(o, "pushes", receivers[k], bytes, &h[1][k]);
	}
	return e;
}

/* Measure barriers and locks of all eight members beside round trips, in turns, and print them. */
static int
rows_of_eight(struct perf_session *s, const struct perf_options *o)
{
	static struct hist trips, all, next;
	int e = 0;

	hist_init(&trips);
	hist_init(&all);
	hist_init(&next);
	for (uint64_t done = 0; done < o->rounds + BATCH && e == 0; done += BATCH) {
		for (unsigned i = 0; i < BATCH && e == 0; i++) {
			const uint64_t start = rte_rdtsc();

			e = perf_trip(s, o->to, TRIP_BYTES);
			if (done > 0)
				hist_record(&trips, (uint64_t)perf_ns(rte_rdtsc() - start));
		}
		e = e == 0 ? order(s, o, BARRIERS, 0, BATCH) : e;
		e = e == 0 ? barriers(s, BATCH, done > 0 ? &all : NULL) : e;
		e = e == 0 ? order(s, o, LOCKS, 0, BATCH / HERE) : e;
		e = e == 0 ? contend(s, BATCH / HERE, done > 0 ? &next : NULL) : e;
	}
	if (e == 0) {
		print(o, "round trip", 0, TRIP_BYTES, &trips);
		print(o, "barrier of 8", 0, 0, &all);
		print(o, "hand-over of 8", 0, 0, &next);
	}
	return e;
}

int
test_multicast(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t defaults[] = {64, 4096, 65536, 1048576};
	const unsigned sizes = o->size_count ? o->size_count
					     : sizeof(defaults) / sizeof(defaults[0]);
	const struct order open = {
		.kind = KIND_MULTICAST,
		.depth = OPEN,
		.size = HERE,
		.count = GROUP,
	};
	struct pmx_group_set *sets[SETS] = {NULL};
	uint32_t most = 0;
	void *data = NULL;
	int e = members_open(&members, s, o->to, &open);

	for (unsigned i = 0; i < sizes; i++) {
		const uint32_t size = o->size_count ? o->sizes[i] : defaults[i];

		most = size > most ? size : most;
	}
	e = e == 0 ? order(s, o, AREAS, most, 0) : e;
	e = e == 0 ? barrier(s) : e;
	e = e == 0 ? pmx_alloc(s->ctx, most, &data) : e;
	for (unsigned k = 0; k < SETS && e == 0; k++) {
		static const uint32_t ranks[HERE] = {HERE, HERE + 1, HERE + 2, HERE + 3};

		e = pmx_group_set_make(members.groups[0], ranks, receivers[k], &sets[k]);
	}
	if (e == 0) {
		memset(data, 1, most);
		row_head(o);
		e = rows_of_eight(s, o);
	}
	for (unsigned i = 0; i < sizes && e == 0; i++)
		e = one_size(s, o, sets, data, o->size_count ? o->sizes[i] : defaults[i]);
	for (unsigned k = 0; k < SETS; k++)
		pmx_group_set_free(sets[k]);
	pmx_free(s->ctx, data);
	e = e == 0 ? order(s, o, CLOSE, 0, 0) : e;
	multicast_end(s);
	return e;
}
