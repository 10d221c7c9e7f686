/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of collectives of four members, two contexts of each side, beside what a message
 * takes one way between the sides, and between contexts of one side: the rounds of which the best
 * algorithms consist. All members begin at once; a time is that of the initiator's, from its
 * beginning to the end at both of its contexts. Where there is a root, roots alternate between the
 * sides, so each waits for the other.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "members.h"
#include "pmx/coll.h"

#define GROUP   3 /* number of the group */
#define MEMBERS 4
#define HERE    2 /* of them at each side */
#define BATCH   200
#define SHORT   8

/* The things that both sides do at once: struct order.depth says which one is next. */
enum { OPEN, RUN, CLOSE };

enum what { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, WHATS };

static const char *const names[WHATS] = {"barrier", "bcast", "gather", "scatter", "allgather",
	"alltoall", "reduce", "allreduce"};

static struct members members;

/* The buffers with which this side's members send and receive. */
static struct {
	uint8_t *in[HERE], *out[HERE];
	uint32_t bytes; /* of a block, that these have room for */
} side;

/* ------------------------------------------------------------------ both sides */

static void
give_memory(void)
{
	for (unsigned k = 0; k < HERE && side.bytes > 0; k++) {
		pmx_free(members.contexts[k], side.in[k]);
		pmx_free(members.contexts[k], side.out[k]);
	}
	side.bytes = 0;
}

static int
take_memory(uint32_t bytes)
{
	int e = 0;

	if (side.bytes >= bytes)
		return 0;
	give_memory();
	for (unsigned k = 0; k < HERE && e == 0; k++) {
		e = pmx_alloc(members.contexts[k], (uint64_t)MEMBERS * bytes, (void **)&side.in[k]);
		if (e == 0)
			e = pmx_alloc(members.contexts[k], (uint64_t)MEMBERS * bytes,
				(void **)&side.out[k]);
	}
	side.bytes = e == 0 ? bytes : 0;
	return e;
}

static void
perf_coll_end(struct perf_session *s)
{
	give_memory();
	members_close(&members);
	(void)s;
}

static int
perf_coll_begin(enum what what, unsigned k, uint32_t root, uint32_t bytes, pmx_request *r)
{
	struct pmx_group *g = members.groups[k];
	void *in = side.in[k], *out = side.out[k];

	switch (what) {
	case BARRIER:
		return pmx_coll_barrier(g, r);
	case BCAST:
		return pmx_bcast(g, root, out, bytes, r);
	case GATHER:
		return pmx_gather(g, root, in, out, bytes, r);
	case SCATTER:
		return pmx_scatter(g, root, in, out, bytes, r);
	case ALLGATHER:
		return pmx_allgather(g, in, out, bytes, r);
	case ALLTOALL:
		return pmx_alltoall(g, in, out, bytes, r);
	case REDUCE:
		return pmx_reduce(g, root, in, out, bytes / 8, PMX_INT64, PMX_ATOMIC_SUM, r);
	case ALLREDUCE:
		return pmx_allreduce(g, in, out, bytes / 8, PMX_INT64, PMX_ATOMIC_SUM, r);
	case WHATS:
		break;
	}
	return -EINVAL;
}

/* Run one collective at both members here. */
static int
once(struct perf_session *s, enum what what, uint32_t root, uint32_t bytes)
{
	pmx_request r[HERE];
	int e = 0;

	for (unsigned k = 0; k < HERE && e == 0; k++) {
		while ((e = perf_coll_begin(what, k, root, bytes, &r[k])) == -EAGAIN)
			session_idle(s);
	}
	return e == 0 ? members_wait(&members, s, r) : e;
}

/* `count` times; h gets how long each took, NULL: nothing. The first one also waits for the other
 * side. */
static int
repeat(struct perf_session *s, enum what what, uint32_t bytes, uint64_t count, struct hist *h)
{
	const bool rooted = what == BCAST || what == GATHER || what == SCATTER || what == REDUCE;
	int e = take_memory(bytes);

	for (uint64_t i = 0; i <= count && e == 0; i++) {
		const uint64_t start = rte_rdtsc();

		e = once(s, what, 0, bytes);
		if (rooted && e == 0)
			e = once(s, what, HERE, bytes);
		if (h != NULL && i > 0)
			hist_record(h, (uint64_t)perf_ns((rte_rdtsc() - start) / (rooted ? 2 : 1)));
	}
	return e;
}

/* ------------------------------------------------------------------ responder */

static int
perf_coll_answer(struct perf_session *s, struct pmx_message *m)
{
	struct order o;
	int e = 0;

	if (*(const uint8_t *)pmx_message_data(m) != KIND_COLL)
		return PERF_NOT_MINE;
	if (m->len < sizeof(o))
		return -EPROTO;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	switch (o.depth) {
	case OPEN:
		e = members_join(&members, s, m);
		break;
	case RUN:
		e = repeat(s, (enum what)o.private, o.size, o.count, NULL);
		break;
	case CLOSE:
		perf_coll_end(s);
		break;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder coll_responder = {.answer = perf_coll_answer, .end = perf_coll_end};

/* ------------------------------------------------------------------ initiator */

/* Send `count` messages there and back between the sides, one after the other. h gets the half of
 * each round trip; NULL: nothing is recorded. */
static int
trip(struct perf_session *s, const struct perf_options *o, uint64_t count, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		const uint64_t start = rte_rdtsc();

		e = perf_trip(s, o->to, SHORT);
		if (h != NULL)
			hist_record(h, (uint64_t)perf_ns((rte_rdtsc() - start) / 2));
	}
	return e;
}

/* ... and one way between the contexts of this side. */
static int
hop(struct perf_session *s, uint64_t count, struct hist *h)
{
	const uint64_t bytes = 0;
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		const uint64_t start = rte_rdtsc();
		struct pmx_message m;

		while ((e = pmx_send_copy(s->ctx, pmx_context_addr(members.contexts[1]), &bytes,
				SHORT, NULL)) == -ENOBUFS ||
			e == -EAGAIN)
			session_idle(s);
		while (e == 0 && (e = pmx_receive(members.contexts[1], &m)) == 0)
			session_polled(s);
		if (e > 0) {
			pmx_release_receive_buffer(members.contexts[1], &m);
			e = 0;
		}
		if (h != NULL)
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	return e;
}

static int
perf_coll_measure(struct perf_session *s, const struct perf_options *o, enum what what,
	uint32_t bytes, uint64_t count, struct hist *h)
{
	const struct order order = {
		.kind = KIND_COLL,
		.depth = RUN,
		.size = bytes,
		.count = count,
		.private = (uint8_t)what,
	};
	const int e = order_send(s, o->to, &order);

	return e == 0 ? repeat(s, what, bytes, count, h) : e;
}

static void
print(const struct perf_options *o, const char *what, uint32_t bytes, const struct hist *h)
{
	struct perf_row r = {.test = "latency", .size = bytes};

	snprintf(r.what, sizeof(r.what), "%s", what);
	row_latency(&r, h);
	row_print(o, &r);
}

static int
one_size(struct perf_session *s, const struct perf_options *o, uint32_t bytes)
{
	static struct hist h[WHATS];
	/* long ones take longer */
	const uint64_t rounds = o->rounds / (1 + bytes / 4096) + 1;
	int e = 0;

	for (unsigned w = 0; w < WHATS; w++)
		hist_init(&h[w]);
	/* in turns, so that what changes meanwhile concerns all */
	for (uint64_t done = 0; done < rounds && e == 0; done += BATCH) {
		const uint64_t n = rounds - done < BATCH ? rounds - done : BATCH;

		for (unsigned w = bytes == SHORT ? BARRIER : BCAST; w < WHATS && e == 0; w++)
			e = perf_coll_measure(s, o, (enum what)w, bytes, n,
				done > 0 || n < BATCH ? &h[w] : NULL);
	}
	for (unsigned w = bytes == SHORT ? BARRIER : BCAST; w < WHATS && e == 0; w++)
		print(o, names[w], w == BARRIER ? 0 : bytes, &h[w]);
	return e;
}

int
test_coll(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t defaults[] = {SHORT, 1024, 16384, 262144};
	static struct hist h[2];
	const unsigned sizes = o->size_count ? o->size_count
					     : sizeof(defaults) / sizeof(defaults[0]);
	const struct order close = {.kind = KIND_COLL, .depth = CLOSE};
	const struct order open = {.kind = KIND_COLL, .depth = OPEN, .size = HERE, .count = GROUP};
	int e = members_open(&members, s, o->to, &open);

	hist_init(&h[0]);
	hist_init(&h[1]);
	e = e == 0 ? trip(s, o, BATCH, NULL) : e;
	e = e == 0 ? trip(s, o, o->rounds, &h[0]) : e;
	e = e == 0 ? hop(s, BATCH, NULL) : e;
	e = e == 0 ? hop(s, o->rounds, &h[1]) : e;
	if (e == 0) {
		row_head(o);
		print(o, "one way", SHORT, &h[0]);
		print(o, "one way, here", SHORT, &h[1]);
	}
	for (unsigned i = 0; i < sizes && e == 0; i++)
		e = one_size(s, o, o->size_count ? o->sizes[i] : defaults[i]);
	e = e == 0 ? order_send(s, o->to, &close) : e;
	perf_coll_end(s);
	return e;
}
