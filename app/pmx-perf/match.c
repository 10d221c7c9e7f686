/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of matched messages: isend and irecv on both sides, what the responder does on the
 * orders that it gets in plain messages, and what matching adds to a round trip.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "match.h"

#define BATCH 500

/* ------------------------------------------------------------------ both sides */

int
perf_isend(struct perf_session *s, struct pmx_addr to, uint32_t comm, uint64_t tag, void *data,
	uint64_t len, pmx_request *r)
{
	const struct pmx_matched m = {
		.peer = to,
		.comm = comm,
		.tag = tag,
		.data = data,
		.len = len,
	};
	int e;

	while ((e = pmx_isend(s->ctx, &m, r)) == -EAGAIN || e == -ENOBUFS)
		session_idle(s);
	return e;
}

int
perf_irecv(struct perf_session *s, struct pmx_addr from, uint32_t comm, uint64_t tag, void *data,
	uint64_t len, pmx_request *r)
{
	const struct pmx_matched m = {
		.peer = from,
		.comm = comm,
		.tag = tag,
		.data = data,
		.len = len,
	};

	return pmx_irecv(s->ctx, &m, r);
}

int
request_wait(struct perf_session *s, pmx_request *r)
{
	uint64_t end = rte_rdtsc() + PATIENCE_S * perf_hz();
	int e;

	for (unsigned i = 1; (e = pmx_test(s->ctx, r, NULL)) == 0; i++) {
		session_polled(s);
		if (i % 1024 == 0 && rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return e == 1 ? 0 : e;
}

int
perf_trip(struct perf_session *s, struct pmx_addr to, uint32_t size)
{
	const uint8_t bytes[64] = {KIND_PING};
	struct pmx_message m;
	int e = perf_send(s, to, bytes, size);

	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	pmx_release_receive_buffer(s->ctx, &m);
	return 0;
}

/* Return how many buffers of `size` bytes the messages under way have. They have buffers of their
 * own up to 1 MiB in total, like pushes (remote.c), because the two are compared; otherwise all
 * share one. */
static uint32_t
places_of(uint32_t size, uint32_t depth)
{
	return (uint64_t)size * depth <= 1u << 20 ? depth : 1;
}

int
order_send(struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	return perf_send(s, to, o, sizeof(*o));
}

/* ------------------------------------------------------------------ responder */

static int
echo(struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	uint8_t *data = memory_take(s, o->size, o->private);
	pmx_request r, sent = 0;
	int e = data ? 0 : -ENOMEM;

	/* post each receive before its message can come */
	if (e == 0)
		e = perf_irecv(s, to, COMM, 1, data, o->size, &r);
	for (uint64_t i = 0; i < o->count && e == 0; i++) {
		e = request_wait(s, &r);
		if (e == 0)
			e = perf_isend(s, to, COMM, 2, data, o->size,
				i + 1 < o->count ? NULL : &sent);
		if (e == 0 && i + 1 < o->count)
			e = perf_irecv(s, to, COMM, 1, data, o->size, &r);
	}
	/* the sender of the last offer learns when it has been fetched */
	while (e == 0 && (e = pmx_test(s->ctx, &sent, NULL)) == 0)
		session_polled(s);
	e = e == 1 ? 0 : e;
	while (e == 0 && pmx_sends_pending(s->ctx) != 0)
		session_idle(s);
	if (data != NULL)
		memory_put(s, data, o->private);
	return e;
}

static int
fill(struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	uint64_t word = 7;
	int e = 0;

	for (uint64_t i = 0; i < o->count && e == 0; i++)
		e = perf_isend(s, to, COMM, i, &word, sizeof(word), NULL);
	if (e == 0)
		e = perf_isend(s, to, LAST, 0, &word, sizeof(word), NULL);
	while (e == 0 && pmx_sends_pending(s->ctx) != 0)
		session_idle(s);
	return e == 0 ? order_send(s, to, o) : e;
}

static int
sink(struct perf_session *s, struct pmx_addr from, const struct order *o)
{
	uint32_t places = places_of(o->size, o->depth);
	uint8_t *data = memory_take(s, (uint64_t)places * o->size, o->private);
	pmx_request r[64];
	uint64_t posted = 0, ended = 0;
	int e = data ? 0 : -ENOMEM;

	for (; ended < o->count && e == 0; ended++) {
		for (; posted < o->count && posted < ended + o->depth && e == 0; posted++)
			e = perf_irecv(s, from, COMM, 3, data + posted % places * o->size, o->size,
				&r[posted % o->depth]);
		if (e == 0)
			e = request_wait(s, &r[ended % o->depth]);
	}
	if (data != NULL)
		memory_put(s, data, o->private);
	return e == 0 ? order_send(s, from, o) : e;
}

/* Send or receive one message, as the order says, which the other side's computation shall hide. */
static int
one(struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	static uint8_t *data;
	static uint64_t room;
	pmx_request r;
	int e;

	if (o->size > room) {
		if (data != NULL)
			memory_put(s, data, false);
		data = memory_take(s, o->size, false);
		room = data ? o->size : 0;
	}
	if (data == NULL)
		return -ENOMEM;
	e = o->kind == KIND_OFFER ? perf_isend(s, to, COMM, 4, data, o->size, &r)
				  : perf_irecv(s, to, COMM, 5, data, o->size, &r);
	if (e == 0 && o->kind == KIND_TAKE)
		e = order_send(s, to, o); /* it is posted */
	return e == 0 ? request_wait(s, &r) : e;
}

/* The context of flood(). It stays open until the responder ends, because what a context sent last
 * may still be under way when it closes. */
static struct pmx_context *second;

static void
match_end(struct perf_session *s)
{
	(void)s;
	if (second != NULL)
		pmx_context_close(second);
	second = NULL;
}

/* Send bulk data from a second context while this one echoes. */
static int
flood(struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	struct perf_session other = *s;
	uint64_t word;
	uint8_t *bulk;
	pmx_request r, sent[8] = {0};
	struct pmx_message stop;
	int e = second == NULL ? pmx_context_open(&second, s->node, PMX_ANY_CONTEXT, NULL) : 0, got;

	if (e != 0)
		return e;
	other.ctx = second;
	bulk = memory_take(&other, o->size, false);
	e = bulk ? perf_irecv(s, to, COMM, 1, &word, sizeof(word), &r) : -ENOMEM;
	while (e == 0 && (got = pmx_receive(s->ctx, &stop)) == 0) {
		for (unsigned i = 0; i < 8 && o->count && e == 0; i++) {
			const struct pmx_matched m = {
				.peer = to,
				.comm = COMM,
				.tag = 6,
				.data = bulk,
				.len = o->size,
			};

			if (sent[i] != 0 && (e = pmx_test(other.ctx, &sent[i], NULL)) == 0)
				continue;
			e = e < 0 ? e : pmx_isend(other.ctx, &m, &sent[i]);
			e = e == -EAGAIN || e == -ENOBUFS ? 0 : e;
		}
		if (e == 0 && (e = pmx_test(s->ctx, &r, NULL)) == 1) {
			e = perf_isend(s, to, COMM, 2, &word, sizeof(word), NULL);
			if (e == 0)
				e = perf_irecv(s, to, COMM, 1, &word, sizeof(word), &r);
		}
		session_idle(s);
	}
	if (e == 0) {
		pmx_release_receive_buffer(s->ctx, &stop);
		pmx_cancel(s->ctx, r);
		pmx_test(s->ctx, &r, NULL);
	}
	for (unsigned i = 0; i < 8 && e == 0; i++)
		e = sent[i] != 0 ? request_wait(&other, &sent[i]) : 0;
	if (bulk != NULL)
		memory_put(&other, bulk, false);
	return e == 0 ? order_send(s, to, o) : e;
}

static int
match_answer(struct perf_session *s, struct pmx_message *m)
{
	struct order o;
	int e;

	if (m->len != sizeof(o))
		return PERF_NOT_MINE;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	switch (o.kind) {
	case KIND_ECHO:
		e = echo(s, m->source, &o);
		break;
	case KIND_FILL:
		e = fill(s, m->source, &o);
		break;
	case KIND_SINK:
		e = sink(s, m->source, &o);
		break;
	case KIND_OFFER:
	case KIND_TAKE:
		e = one(s, m->source, &o);
		break;
	case KIND_FLOOD:
		e = flood(s, m->source, &o);
		break;
	default:
		return PERF_NOT_MINE;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder match_responder = {.answer = match_answer, .end = match_end};

/* Report to the initiator that the order is done. */
int
order_done(struct perf_session *s)
{
	struct pmx_message m;
	int e = perf_receive(s, &m, rte_rdtsc() + PATIENCE_S * perf_hz());

	if (e < 0)
		return e;
	pmx_release_receive_buffer(s->ctx, &m);
	return 0;
}

/* ------------------------------------------------------------------ round trips */

static int
plain_ping(struct perf_session *s, const struct perf_options *o, uint8_t *data, uint32_t size)
{
	struct pmx_message m;
	int e;

	data[0] = KIND_PING;
	while ((e = pmx_send_copy(s->ctx, o->to, data, size, NULL)) == -ENOBUFS || e == -EAGAIN)
		session_idle(s);
	if (e == 0)
		e = perf_receive(s, &m, UINT64_MAX);
	if (e < 0)
		return e;
	if (m.seg_len == size)
		memcpy(data, pmx_message_data(&m), size);
	else
		pmx_message_read(s->ctx, &m, 0, data, size);
	pmx_release_receive_buffer(s->ctx, &m);
	return 0;
}

static int
matched_ping(struct perf_session *s, const struct perf_options *o, uint8_t *data, uint32_t size)
{
	pmx_request r;
	int e = perf_irecv(s, o->to, COMM, 2, data, size, &r);

	if (e == 0)
		e = perf_isend(s, o->to, COMM, 1, data, size, NULL);
	return e == 0 ? request_wait(s, &r) : e;
}

static int
pings(struct perf_session *s, const struct perf_options *o, uint32_t size, uint64_t rounds,
	bool matched, struct hist *h)
{
	const struct order order = {
		.kind = KIND_ECHO,
		.private = o->remote_private,
		.size = size,
		.count = rounds,
	};
	uint8_t *data = memory_take(s, size, o->local_private);
	int e = data == NULL ? -ENOMEM : matched ? order_send(s, o->to, &order) : 0;

	for (uint64_t i = 0; i < rounds && e == 0; i++) {
		uint64_t start = rte_rdtsc();

		e = matched ? matched_ping(s, o, data, size) : plain_ping(s, o, data, size);
		if (h != NULL && (i > 10 || rounds < 100))
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

int
round_trips(struct perf_session *s, const struct perf_options *o, uint32_t size, bool plain,
	struct hist h[2])
{
	uint64_t rounds = size > 65536 ? o->rounds / 20 + 1 : o->rounds,
		 batch = rounds < BATCH ? rounds : BATCH;
	int e = 0;

	hist_init(&h[0]);
	hist_init(&h[1]);
	for (uint64_t i = 0; i < rounds + batch && e == 0; i += batch) {
		if (plain)
			e = pings(s, o, size, batch, false, i ? &h[0] : NULL);
		if (e == 0)
			e = pings(s, o, size, batch, true, i ? &h[1] : NULL);
	}
	return e;
}

static int
latency(struct perf_session *s, const struct perf_options *o, uint32_t size)
{
	bool plain = size <= pmx_get_max_message(s->ctx);
	struct hist h[2];
	int e = round_trips(s, o, size, plain, h);

	for (unsigned i = plain ? 0 : 1; i < 2 && e == 0; i++) {
		struct perf_row r = {.test = "latency", .size = size};

		snprintf(r.what, sizeof(r.what), "%s", i ? "matched" : "plain");
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	return e;
}

/* Measure the bandwidth of offers into posted receives. */
static int
bandwidth(struct perf_session *s, const struct perf_options *o, uint32_t size)
{
	struct order order = {
		.kind = KIND_SINK,
		.private = o->remote_private,
		.depth = (uint16_t)o->depth,
		.size = size,
	};
	uint32_t places = places_of(size, o->depth);
	uint8_t *data = memory_take(s, (uint64_t)places * size, o->local_private);
	struct perf_row row = {.what = "matched", .test = "bandwidth", .size = size};
	pmx_request r[64];
	uint64_t begun = 0, start = 0;
	int e = data ? 0 : -ENOMEM;

	/* the first turn tells how many messages are enough */
	for (unsigned turn = 0; turn < 2 && e == 0; turn++) {
		uint64_t n = turn == 0
			? 64
			: 1 + (uint64_t)(o->seconds * 1e9 / (perf_ns(rte_rdtsc() - start) / 64));

		order.count = n;
		e = order_send(s, o->to, &order);
		start = rte_rdtsc();
		for (begun = 0; begun < n && e == 0; begun++) {
			if (begun >= o->depth)
				e = request_wait(s, &r[begun % o->depth]);
			if (e == 0)
				e = perf_isend(s, o->to, COMM, 3, data + begun % places * size,
					size, &r[begun % o->depth]);
			if (s->embedded)
				pmx_node_poll(s->node);
		}
		for (uint64_t i = begun < o->depth ? 0 : begun - o->depth; i < begun && e == 0; i++)
			e = request_wait(s, &r[i % o->depth]);
		if (e == 0)
			e = order_done(s);
	}
	double ns = perf_ns(rte_rdtsc() - start);

	row.per_second = (double)begun * 1e9 / ns;
	row.gbits = row.per_second * size * 8 / 1e9;
	if (e == 0)
		row_print(o, &row);
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

int
test_matched(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t sizes[] = {8, 64, 1024, 8192, 65536, 1048576};
	const uint32_t *all = o->size_count ? o->sizes : sizes;
	unsigned n = o->size_count ? o->size_count : 6;
	int e = 0;

	row_head(o);
	for (unsigned i = 0; i < n && e == 0; i++)
		e = latency(s, o, all[i]);
	for (unsigned i = 0; i < n && e == 0; i++)
		e = all[i] >= 8192 ? bandwidth(s, o, all[i]) : 0;
	return e;
}
