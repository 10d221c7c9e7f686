/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages measured: what matching adds to a round trip, how long a search takes among
 * messages that nobody waits for (IPSJ 2007, figure 6; Underwood's benchmark), receives that are
 * posted ahead, how much of a transfer hides behind computation, and short messages beside bulk.
 * The responder does what it is told by plain messages.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_cycles.h>

#include "lhs/lhs.h"
#include "perf.h"
#include "plot.h"

#define KIND_ECHO  32 /* `count` times: receive, and send it back */
/* send `count` messages, tags from 0 on, then one of another communicator; then say so */
#define KIND_FILL  33
/* receive `count` messages into `depth` places of `size` bytes; then say so */
#define KIND_SINK  34
#define KIND_OFFER 35 /* send one message of `size` bytes */
#define KIND_TAKE  36 /* receive one */
/* from a second context send messages of `size` bytes until KIND_STOP, beside echoes */
#define KIND_FLOOD 37
#define KIND_STOP  38

#define COMM            1
#define LAST            2            /* communicator of the youngest message */
#define FAR             (1ull << 62) /* tags that nobody sends */
#define PATIENCE_S      60
#define FILL_PATIENCE_S 3
#define COLD_BYTES      (8u << 20)
#define BATCH           500

struct order {
	uint8_t kind;
	uint8_t private;
	uint16_t depth;
	uint32_t size;
	uint64_t count;
};

static double
ns_of(uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)perf_hz();
}

static uint32_t
largest(const uint32_t *sizes, unsigned n)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < n; i++)
		most = sizes[i] > most ? sizes[i] : most;
	return most;
}

/* ------------------------------------------------------------------ both sides */

static int
isend(struct session *s, struct pmx_addr to, uint32_t comm, uint64_t tag, void *data, uint64_t len,
	pmx_request *r)
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

static int
irecv(struct session *s, struct pmx_addr from, uint32_t comm, uint64_t tag, void *data,
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

static int
wait_for(struct session *s, pmx_request *r)
{
	uint64_t end = rte_rdtsc() + PATIENCE_S * perf_hz();
	int e;

	for (unsigned i = 1; (e = pmx_test(s->ctx, r, NULL)) == 0; i++) {
		session_idle(s);
		if (i % 1024 == 0 && rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return e == 1 ? 0 : e;
}

static uint8_t *
memory_take(struct session *s, uint64_t len, bool private)
{
	void *p = NULL;

	if (private)
		p = aligned_alloc(4096, (len + 4095) & ~4095ull);
	else if (pmx_alloc(s->ctx, len, &p) != 0)
		p = NULL;
	if (p != NULL)
		memset(p, 3, len);
	return p;
}

static void
memory_put(struct session *s, uint8_t *p, bool private)
{
	if (private)
		free(p);
	else
		pmx_free(s->ctx, p);
}

/* Messages under way have places of their own as far as 1 MiB goes, as pushes have (remote.c): the
 * two are compared. */
static uint32_t
places_of(uint32_t size, uint32_t depth)
{
	return (uint64_t)size * depth <= 1u << 20 ? depth : 1;
}

static int
say(struct session *s, struct pmx_addr to, const struct order *o)
{
	return perf_send(s, to, o, sizeof(*o));
}

/* ------------------------------------------------------------------ responder */

static int
echo(struct session *s, struct pmx_addr to, const struct order *o)
{
	uint8_t *data = memory_take(s, o->size, o->private);
	pmx_request r, sent = 0;
	int e = data ? 0 : -ENOMEM;

	/* the receive is posted when its message comes */
	if (e == 0)
		e = irecv(s, to, COMM, 1, data, o->size, &r);
	for (uint64_t i = 0; i < o->count && e == 0; i++) {
		e = wait_for(s, &r);
		if (e == 0)
			e = isend(s, to, COMM, 2, data, o->size, i + 1 < o->count ? NULL : &sent);
		if (e == 0 && i + 1 < o->count)
			e = irecv(s, to, COMM, 1, data, o->size, &r);
	}
	/* the last offer was fetched when its sender has it */
	while (e == 0 && (e = pmx_test(s->ctx, &sent, NULL)) == 0)
		session_idle(s);
	e = e == 1 ? 0 : e;
	while (e == 0 && pmx_sends_pending(s->ctx) != 0)
		session_idle(s);
	if (data != NULL)
		memory_put(s, data, o->private);
	return e;
}

static int
fill(struct session *s, struct pmx_addr to, const struct order *o)
{
	uint64_t word = 7;
	int e = 0;

	for (uint64_t i = 0; i < o->count && e == 0; i++)
		e = isend(s, to, COMM, i, &word, sizeof(word), NULL);
	if (e == 0)
		e = isend(s, to, LAST, 0, &word, sizeof(word), NULL);
	while (e == 0 && pmx_sends_pending(s->ctx) != 0)
		session_idle(s);
	return e == 0 ? say(s, to, o) : e;
}

static int
sink(struct session *s, struct pmx_addr from, const struct order *o)
{
	uint32_t places = places_of(o->size, o->depth);
	uint8_t *data = memory_take(s, (uint64_t)places * o->size, o->private);
	pmx_request r[64];
	uint64_t posted = 0, ended = 0;
	int e = data ? 0 : -ENOMEM;

	for (; ended < o->count && e == 0; ended++) {
		for (; posted < o->count && posted < ended + o->depth && e == 0; posted++)
			e = irecv(s, from, COMM, 3, data + posted % places * o->size, o->size,
				&r[posted % o->depth]);
		if (e == 0)
			e = wait_for(s, &r[ended % o->depth]);
	}
	if (data != NULL)
		memory_put(s, data, o->private);
	return e == 0 ? say(s, from, o) : e;
}

/* One message each way that shall hide behind the other side's computation. */
static int
one(struct session *s, struct pmx_addr to, const struct order *o)
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
	e = o->kind == KIND_OFFER ? isend(s, to, COMM, 4, data, o->size, &r)
				  : irecv(s, to, COMM, 5, data, o->size, &r);
	if (e == 0 && o->kind == KIND_TAKE)
		e = say(s, to, o); /* it is posted */
	return e == 0 ? wait_for(s, &r) : e;
}

/* Of flood(): open until the responder ends, for what a context sent last may still be on its way
 * when it closes. */
static struct pmx_context *second;

void
match_end(void)
{
	if (second != NULL)
		pmx_context_close(second);
	second = NULL;
}

/* Bulk from another context, beside echoes from this one. */
static int
flood(struct session *s, struct pmx_addr to, const struct order *o)
{
	const struct pmx_context_params params = {.context = PMX_ANY_CONTEXT};
	struct session other = *s;
	uint64_t word;
	uint8_t *bulk;
	pmx_request r, sent[8] = {0};
	struct pmx_message stop;
	int e = second == NULL ? pmx_context_open(&second, s->node, &params) : 0, got;

	if (e != 0)
		return e;
	other.ctx = second;
	bulk = memory_take(&other, o->size, false);
	e = bulk ? irecv(s, to, COMM, 1, &word, sizeof(word), &r) : -ENOMEM;
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
			e = isend(s, to, COMM, 2, &word, sizeof(word), NULL);
			if (e == 0)
				e = irecv(s, to, COMM, 1, &word, sizeof(word), &r);
		}
		session_idle(s);
	}
	if (e == 0) {
		pmx_release_receive_buffer(s->ctx, &stop);
		pmx_cancel(s->ctx, r);
		pmx_test(s->ctx, &r, NULL);
	}
	for (unsigned i = 0; i < 8 && e == 0; i++)
		e = sent[i] != 0 ? wait_for(&other, &sent[i]) : 0;
	if (bulk != NULL)
		memory_put(&other, bulk, false);
	return e == 0 ? say(s, to, o) : e;
}

bool
match_answer(struct session *s, const struct pmx_message *m, int *error)
{
	struct order o;

	if (m->len != sizeof(o))
		return false;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	switch (o.kind) {
	case KIND_ECHO:
		*error = echo(s, m->source, &o);
		break;
	case KIND_FILL:
		*error = fill(s, m->source, &o);
		break;
	case KIND_SINK:
		*error = sink(s, m->source, &o);
		break;
	case KIND_OFFER:
	case KIND_TAKE:
		*error = one(s, m->source, &o);
		break;
	case KIND_FLOOD:
		*error = flood(s, m->source, &o);
		break;
	default:
		return false;
	}
	return true;
}

/* The responder says that it is done. */
static int
hear(struct session *s)
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
plain_ping(struct session *s, const struct options *o, uint8_t *data, uint32_t size)
{
	struct pmx_message m;
	int e;

	data[0] = 1; /* a ping of tests.c */
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
matched_ping(struct session *s, const struct options *o, uint8_t *data, uint32_t size)
{
	pmx_request r;
	int e = irecv(s, o->to, COMM, 2, data, size, &r);

	if (e == 0)
		e = isend(s, o->to, COMM, 1, data, size, NULL);
	return e == 0 ? wait_for(s, &r) : e;
}

static int
pings(struct session *s, const struct options *o, uint32_t size, uint64_t rounds, bool matched,
	struct hist *h)
{
	const struct order order = {
		.kind = KIND_ECHO,
		.private = o->remote_private,
		.size = size,
		.count = rounds,
	};
	uint8_t *data = memory_take(s, size, o->local_private);
	int e = data == NULL ? -ENOMEM : matched ? say(s, o->to, &order) : 0;

	for (uint64_t i = 0; i < rounds && e == 0; i++) {
		uint64_t start = rte_rdtsc();

		e = matched ? matched_ping(s, o, data, size) : plain_ping(s, o, data, size);
		if (h != NULL && (i > 10 || rounds < 100))
			hist_record(h, (uint64_t)ns_of(rte_rdtsc() - start));
	}
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

/* Batches of round trips, the first one for nothing; h[0] plain messages, h[1] matched ones, in
 * turns: what disturbs one disturbs the other. Plain messages may be too long for it. */
static int
batches(struct session *s, const struct options *o, uint32_t size, bool plain, struct hist h[2])
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
latency(struct session *s, const struct options *o, uint32_t size)
{
	bool plain = size <= pmx_get_max_message(s->ctx);
	struct hist h[2];
	int e = batches(s, o, size, plain, h);

	for (unsigned i = plain ? 0 : 1; i < 2 && e == 0; i++) {
		struct row r = {.test = "latency", .size = size};

		snprintf(r.what, sizeof(r.what), "%s", i ? "matched" : "plain");
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	return e;
}

/* Offers into receives that are posted. */
static int
bandwidth(struct session *s, const struct options *o, uint32_t size)
{
	struct order order = {
		.kind = KIND_SINK,
		.private = o->remote_private,
		.depth = (uint16_t)o->depth,
		.size = size,
	};
	uint32_t places = places_of(size, o->depth);
	uint8_t *data = memory_take(s, (uint64_t)places * size, o->local_private);
	struct row row = {.what = "matched", .test = "bandwidth", .size = size};
	pmx_request r[64];
	uint64_t begun = 0, start = 0;
	int e = data ? 0 : -ENOMEM;

	/* the first tells how many are enough */
	for (unsigned turn = 0; turn < 2 && e == 0; turn++) {
		uint64_t n = turn == 0
			? 64
			: 1 + (uint64_t)(o->seconds * 1e9 / (ns_of(rte_rdtsc() - start) / 64));

		order.count = n;
		e = say(s, o->to, &order);
		start = rte_rdtsc();
		for (begun = 0; begun < n && e == 0; begun++) {
			if (begun >= o->depth)
				e = wait_for(s, &r[begun % o->depth]);
			if (e == 0)
				e = isend(s, o->to, COMM, 3, data + begun % places * size, size,
					&r[begun % o->depth]);
			if (s->embedded)
				pmx_node_poll(s->node);
		}
		for (uint64_t i = begun < o->depth ? 0 : begun - o->depth; i < begun && e == 0; i++)
			e = wait_for(s, &r[i % o->depth]);
		if (e == 0)
			e = hear(s);
	}
	double ns = ns_of(rte_rdtsc() - start);

	row.per_second = (double)begun * 1e9 / ns;
	row.gbits = row.per_second * size * 8 / 1e9;
	if (e == 0)
		row_print(o, &row);
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

static int
matched(struct session *s, const struct options *o)
{
	static const uint32_t sizes[] = {8, 64, 1024, 8192, 65536, 1048576};
	const uint32_t *all = o->size_count ? o->sizes : sizes;
	unsigned n = o->size_count ? o->size_count : 6;
	int e = 0;

	for (unsigned i = 0; i < n && e == 0; i++)
		e = latency(s, o, all[i]);
	for (unsigned i = 0; i < n && e == 0; i++)
		e = all[i] >= 8192 ? bandwidth(s, o, all[i]) : 0;
	return e;
}

/* ------------------------------------------------------------------ among unexpected messages */

static uint8_t *other;

struct envelope {
	uint64_t tag;
	uint32_t comm, source;
	struct envelope *next; /* in bulk buffers only */
};

/* The paper's queues (IPSJ 2007, section 5.1.3): envelopes in LHS entries walked in order, and at
 * the beginning of the bulk buffers, linked. Buffers come back in any order: neighbours in time are
 * none in memory. */
#define BULK_BYTES 2304u
static uint8_t *entries, *bulk;
static uint32_t bulk_room;

static struct envelope *
entry_at(uint32_t i)
{
	return (struct envelope *)(void *)(entries + (size_t)i * 64 + LHS_ENVELOPE_BYTES);
}

static bool
walks_make(uint32_t most)
{
	struct envelope *before = NULL;

	entries = aligned_alloc(64, (size_t)most * 64);
	bulk = aligned_alloc(64, (size_t)most * BULK_BYTES / 64 * 64 + 64);
	if (entries == NULL || bulk == NULL)
		return false;
	bulk_room = most;
	for (uint32_t i = 0; i < most; i++) {
		struct envelope *b = (struct envelope *)(void *)(bulk +
			(size_t)((uint64_t)i * 61803 % most) * BULK_BYTES);

		*b = (struct envelope){.tag = i, .comm = COMM, .source = 1};
		entry_at(i)->tag = i;
		entry_at(i)->comm = COMM;
		if (before != NULL)
			before->next = b;
		before = b;
	}
	return true;
}

static volatile uint64_t found;

static double
walk_ns(uint32_t n, bool in_bulk)
{
	double best = INFINITY;

	for (unsigned turn = 0; turn < 5; turn++) {
		uint64_t start = rte_rdtsc(), tag = n - 1;

		if (in_bulk) {
			const struct envelope *b = (const struct envelope *)(const void *)bulk;

			while (b != NULL && (b->tag != tag || b->comm != COMM))
				b = b->next;
			found += (uintptr_t)b;
		} else {
			uint32_t i = 0;

			while (i < n && (entry_at(i)->tag != tag || entry_at(i)->comm != COMM))
				i++;
			found += i;
		}
		double ns = ns_of(rte_rdtsc() - start);

		best = ns < best ? ns : best;
	}
	return best;
}

enum want { EXACT, ANY_SOURCE, ANY_TAG, ONE_BIT, WANTS };

/* Curves of the figure after those of the wants, warm and cold; and two figures that are no
 * curves. */
enum { DRAIN = 2 * WANTS, YOUNGEST, WALK, BULK_LIST, CURVES, AROUND, REVERSE };

static struct pmx_matched
want_of(const struct options *o, enum want w, uint32_t n)
{
	struct pmx_matched m = {.peer = o->to, .comm = COMM, .tag = n - 1};

	if (w == ANY_SOURCE)
		m.peer = PMX_ANY_SOURCE;
	if (w == ANY_TAG) {
		m.comm = LAST;
		m.ignore = PMX_ANY_TAG;
	}
	if (w == ONE_BIT) {
		m.peer = PMX_ANY_SOURCE;
		m.ignore = 1ull << 40;
	}
	return m;
}

static double
probe_ns(struct session *s, const struct options *o, enum want w, uint32_t n, bool cold,
	double clock_ns)
{
	const struct pmx_matched m = want_of(o, w, n);
	unsigned times = cold ? 1 : n < 1000 ? 2000 : 200;
	double best = INFINITY;

	for (unsigned turn = 0; turn < (cold ? 15 : 9); turn++) {
		for (uint32_t i = 0; cold && i < COLD_BYTES; i += 64)
			other[i]++;
		uint64_t start = rte_rdtsc();

		for (unsigned i = 0; i < times; i++) {
			if (pmx_iprobe(s->ctx, &m, NULL) != 1)
				return NAN;
		}
		double ns = (ns_of(rte_rdtsc() - start) - clock_ns) / times;

		best = ns < best ? ns : best;
	}
	return best;
}

/* Of a probe that finds nothing because nothing waits: what is around each search. */
static double
empty_ns(struct session *s, const struct options *o)
{
	const struct pmx_matched m = want_of(o, EXACT, 1);
	double best = INFINITY;

	for (unsigned turn = 0; turn < 9; turn++) {
		uint64_t start = rte_rdtsc();

		for (unsigned i = 0; i < 2000; i++)
			pmx_iprobe(s->ctx, &m, NULL);
		double ns = ns_of(rte_rdtsc() - start) / 2000;

		best = ns < best ? ns : best;
	}
	return best;
}

static double
clock_ns(void)
{
	uint64_t start = rte_rdtsc();

	for (unsigned i = 0; i < 1000; i++)
		found += rte_rdtsc();
	return ns_of(rte_rdtsc() - start) / 1000;
}

static int
receive_one(struct session *s, const struct options *o, uint32_t comm, uint64_t tag)
{
	uint64_t word;
	pmx_request r;
	int e = irecv(s, o->to, comm, tag, &word, sizeof(word), &r);

	return e == 0 ? wait_for(s, &r) : e;
}

/* n messages wait; *untouched: nothing of them was looked at. The ring of arrivals may be too small
 * for that (limits.matched_entries): then they are taken into the index as they come, as far as
 * limits.unexpected goes. */
static int
fill_up(struct session *s, const struct options *o, uint32_t n, bool *untouched)
{
	const struct order order = {.kind = KIND_FILL, .count = n};
	const struct pmx_matched none = {.peer = o->to, .comm = 99};
	struct pmx_message m;
	uint64_t hz = perf_hz(), end;
	int e = say(s, o->to, &order);

	*untouched = true;
	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + FILL_PATIENCE_S * hz);
	end = rte_rdtsc() + FILL_PATIENCE_S * hz;
	while (e == -ETIMEDOUT && rte_rdtsc() < end) {
		*untouched = false;
		pmx_iprobe(s->ctx, &none, NULL);
		e = perf_receive(s, &m, rte_rdtsc() + hz / 1000);
	}
	if (e == -ETIMEDOUT)
		fprintf(stderr,
			"pmx-perf: %u messages shall wait, and so many do not find room here: "
			"raise limits.unexpected, and what limits.matched_entries is below that\n",
			n + 1);
	if (e == 1)
		pmx_release_receive_buffer(s->ctx, &m);
	return e == 1 ? 0 : e;
}

/* All in reverse, the youngest of both communicators first; *last: the fastest of the first few. */
static int
receive_back(struct session *s, const struct options *o, uint32_t n, double tick, double *last,
	double *each)
{
	uint64_t begin = rte_rdtsc(), start;
	int e = 0;

	for (uint32_t i = n; i-- > 0 && e == 0;) {
		start = rte_rdtsc();
		e = receive_one(s, o, COMM, i);
		if (i + 16 >= n) {
			double ns = ns_of(rte_rdtsc() - start) - tick;

			*last = ns < *last ? ns : *last;
		}
	}
	double ns = ns_of(rte_rdtsc() - begin) / n;

	*each = ns < *each ? ns : *each;
	return e == 0 ? receive_one(s, o, LAST, 0) : e;
}

static void
depth_print(const struct options *o, uint32_t n, double around, double reverse, const double *y)
{
	static const struct {
		const char *key;
		int curve, width, decimals; /* curve: of y; AROUND and REVERSE are none */
	} figures[] = {{"around_ns", AROUND, 7, 1}, {"exact_ns", 0, 7, 1},
		{"any_source_ns", 1, 7, 1}, {"any_tag_ns", 2, 8, 1}, {"one_bit_ns", 3, 9, 1},
		{"cold_exact_ns", 4, 7, 0}, {"cold_any_source_ns", 5, 7, 0},
		{"cold_any_tag_ns", 6, 8, 0}, {"cold_one_bit_ns", 7, 9, 0},
		{"drain_ns", DRAIN, 7, 1}, {"last_ns", YOUNGEST, 7, 0},
		{"reverse_ns", REVERSE, 8, 1}, {"lhs_walk_ns", WALK, 9, 0},
		{"bulk_list_ns", BULK_LIST, 11, 0}};
	json_t *line = o->json
		? json_pack("{s:s, s:I}", "what", "unexpected", "depth", (json_int_t)n)
		: NULL;

	if (line == NULL)
		printf("%7u", n);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		int c = figures[i].curve;
		double v = c == AROUND ? around : c == REVERSE ? reverse : y[c];

		if (line != NULL)
			json_object_set_new(line, figures[i].key, json_figure(v));
		else
			printf(" %s", figure_text(v, figures[i].width, figures[i].decimals));
	}
	if (line != NULL)
		json_line(line);
	else
		printf(" %s\n", figure_text(y[BULK_LIST] / y[ANY_SOURCE], 7, 0));
	fflush(stdout);
}

static int
depth_row(struct session *s, const struct options *o, uint32_t n, double *y)
{
	double tick = clock_ns(), around = empty_ns(s, o), drain = INFINITY, last = INFINITY,
	       reverse = INFINITY;
	const struct pmx_matched none = {.peer = o->to, .comm = 99};
	int e = 0;

	/* the first time touches memory for the first time */
	for (unsigned turn = 0; turn < 4; turn++) {
		bool untouched;

		e = fill_up(s, o, n, &untouched);
		if (e != 0)
			return e;
		uint64_t start = rte_rdtsc();

		pmx_iprobe(s->ctx, &none, NULL);
		double ns = (ns_of(rte_rdtsc() - start) - around) / (n + 1);

		drain = !untouched ? NAN : ns < drain ? ns : drain;
		for (int w = 0; w < WANTS && turn == 0; w++) {
			y[w] = probe_ns(s, o, (enum want)w, n, false, tick);
			y[WANTS + w] = probe_ns(s, o, (enum want)w, n, true, tick);
		}
		e = receive_back(s, o, n, tick, &last, &reverse);
		if (e != 0)
			return e;
	}
	y[DRAIN] = drain;
	y[YOUNGEST] = last;
	y[WALK] = walk_ns(n, false);
	y[BULK_LIST] = walk_ns(n, true);
	if (e == 0)
		depth_print(o, n, around, reverse, y);
	return e;
}

/* What one more message that waits costs: up to the paper's depth, and beyond it. A cliff would
 * stand between the two. */
#define PAPERS_DEPTH 256

static void
slopes_print(const struct options *o, const struct plot *p)
{
	static const int curves[] = {EXACT, ANY_SOURCE, ANY_TAG, ONE_BIT, WALK, BULK_LIST};
	unsigned middle = 0, last = p->rows - 1;

	while (middle < last && p->x[middle + 1] <= PAPERS_DEPTH)
		middle++;
	if (!o->json)
		printf("ns for one more message that waits: from %.0f to %.0f, from there to "
		       "%.0f\n",
			p->x[0], p->x[middle], p->x[last]);
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
		int c = curves[i];
		double to = middle > 0 ? (p->y[middle][c] - p->y[0][c]) / (p->x[middle] - p->x[0])
				       : NAN;
		double beyond = last > middle
			? (p->y[last][c] - p->y[middle][c]) / (p->x[last] - p->x[middle])
			: NAN;

		if (o->json)
			json_line(json_pack("{s:s, s:s, s:I, s:o, s:I, s:o}", "what", "slope",
				"curve", p->label[c], "depth", (json_int_t)p->x[middle], "ns",
				json_figure(to), "last_depth", (json_int_t)p->x[last], "beyond_ns",
				json_figure(beyond)));
		else
			printf("  %-26s %s %s\n", p->label[c], figure_text(to, 10, 4),
				figure_text(beyond, 10, 4));
	}
}

static int
unexpected(struct session *s, const struct options *o)
{
	/* the paper's end at 256 */
	static const uint32_t all[] = {1, 8, 32, 64, 128, 192, 256, 1000, 4096, 10000, 32768,
		100000};
	static const char *const names[] = {"exact", "any source", "any tag", "one bit ignored",
		"exact, cold", "any source, cold", "any tag, cold", "one bit ignored, cold",
		"drain and index", "the youngest received", "LHS entries walked",
		"envelopes in bulk buffers"};
	const uint32_t *depths = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : sizeof(all) / sizeof(all[0]);
	struct plot *p = calloc(1, sizeof(*p));
	int e = 0;

	other = malloc(COLD_BYTES);
	if (p == NULL || other == NULL || !walks_make(largest(depths, n)))
		return -ENOMEM;
	memset(other, 0, COLD_BYTES);
	*p = (struct plot){
		.name = "unexpected",
		.x_label = "messages that wait",
		.y_label = "ns",
		.x_log = true,
		.y_log = true,
		.curves = CURVES,
	};
	snprintf(p->title, sizeof(p->title),
		"Searching for the youngest of the messages that nobody waits for");
	for (unsigned i = 0; i < CURVES; i++)
		snprintf(p->label[i], sizeof(p->label[i]), "%s", names[i]);
	if (!o->json)
		printf("ns; around: a probe of nothing, in all that follow; cold: after 8 MiB of "
		       "other memory; walk, bulk list: the paper's queues\n"
		       "%7s %7s %7s %7s %8s %9s %7s %7s %8s %9s %7s %7s %8s %9s %11s %7s\n",
			"depth", "around", "exact", "any src", "any tag", "one bit", "cold ex",
			"cold an", "cold tag", "cold bit", "drain", "last", "reverse", "walk",
			"bulk list", "/ any");
	for (unsigned i = 0; i < n && e == 0; i++)
		e = depth_row(s, o, depths[i], plot_row(p, depths[i]));
	if (e == 0)
		slopes_print(o, p);
	if (e == 0 && o->figure != NULL)
		e = plot_write(p, o->figure) ? 0 : -EIO;
	free(p);
	free(other);
	free(entries);
	free(bulk);
	return e;
}

/* ------------------------------------------------------------------ receives posted ahead */

static int
posted(struct session *s, const struct options *o)
{
	static const uint32_t all[] = {1, 10, 100, 1000, 10000, 100000};
	static uint8_t nowhere[8];
	const uint32_t *depths = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : sizeof(all) / sizeof(all[0]);
	uint32_t most = largest(depths, n), have = 0;
	pmx_request *r = calloc(most, sizeof(*r));
	int e = r ? 0 : -ENOMEM;

	for (unsigned i = 0; i < n && e == 0; i++) {
		struct row row = {.what = "posted", .test = "latency"};
		struct hist h[2];

		for (; have < depths[i] && e == 0; have++)
			e = irecv(s, o->to, COMM, FAR + have, nowhere, sizeof(nowhere), &r[have]);
		if (e == -EAGAIN) {
			fprintf(stderr,
				"pmx-perf: %u receives are posted; limits.receives allows no "
				"more\n",
				have);
			e = 0;
			break;
		}
		if (e == 0)
			e = batches(s, o, 8, false, h);
		row.size = have;
		row_latency(&row, &h[1]);
		if (e == 0)
			row_print(o, &row);
	}
	for (uint32_t i = 0; r != NULL && i < have; i++) {
		pmx_cancel(s->ctx, r[i]);
		pmx_test(s->ctx, &r[i], NULL);
	}
	free(r);
	return e;
}

/* ------------------------------------------------------------------ overlap */

static void
compute(uint64_t ticks)
{
	uint64_t end = rte_rdtsc() + ticks;

	while (rte_rdtsc() < end)
		found++;
}

/* One message of `size`, received or sent, with so much computation in between. Ticks in all. What
 * is sent finds its receive posted; what is received is sent when the other side is told to. */
static int
exchange(struct session *s, const struct options *o, uint8_t *data, uint32_t size, bool receive,
	uint64_t ticks, uint64_t *all)
{
	const struct order order = {.kind = receive ? KIND_OFFER : KIND_TAKE, .size = size};
	pmx_request r;
	int e = receive ? 0 : say(s, o->to, &order);

	if (e == 0 && !receive)
		e = hear(s);
	uint64_t start = rte_rdtsc();

	if (e == 0)
		e = receive ? irecv(s, o->to, COMM, 4, data, size, &r)
			    : isend(s, o->to, COMM, 5, data, size, &r);
	if (e == 0 && receive)
		e = say(s, o->to, &order);
	compute(ticks);
	if (e == 0)
		e = wait_for(s, &r);
	*all = rte_rdtsc() - start;
	return e;
}

static int
compare_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The share of a transfer that hides: 1 if computing and transferring takes as long as
 * computing. */
static int
hidden(struct session *s, const struct options *o, uint32_t size, bool receive, double *share,
	double *alone_us)
{
	enum { TURNS = 101 };
	uint8_t *data = memory_take(s, size, o->local_private);
	uint64_t alone[TURNS], both[TURNS], ticks = 0;
	int e = data ? 0 : -ENOMEM;

	for (unsigned i = 0; i < 10 && e == 0; i++)
		e = exchange(s, o, data, size, receive, 0, &alone[i]);
	for (unsigned i = 0; i < TURNS && e == 0; i++)
		e = exchange(s, o, data, size, receive, 0, &alone[i]);
	qsort(alone, TURNS, sizeof(alone[0]), compare_ticks);
	ticks = alone[TURNS / 2] * 3 / 2; /* more than enough to hide it */
	for (unsigned i = 0; i < TURNS && e == 0; i++)
		e = exchange(s, o, data, size, receive, ticks, &both[i]);
	qsort(both, TURNS, sizeof(both[0]), compare_ticks);
	*alone_us = ns_of(alone[TURNS / 2]) / 1e3;
	*share = 1 - ((double)both[TURNS / 2] - (double)ticks) / (double)alone[TURNS / 2];
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

static int
overlap(struct session *s, const struct options *o)
{
	static const uint32_t all[] = {1024, 16384, 65536, 262144, 1048576, 4194304};
	const uint32_t *sizes = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : sizeof(all) / sizeof(all[0]);
	struct plot *p = calloc(1, sizeof(*p));
	int e = p ? 0 : -ENOMEM;

	if (p != NULL) {
		*p = (struct plot){
			.name = "overlap",
			.x_label = "bytes",
			.y_label = "share hidden",
			.x_log = true,
			.y_max = 1,
			.curves = 2,
		};
		snprintf(p->title, sizeof(p->title),
			"Share of a transfer that hides behind computation");
		snprintf(p->label[0], sizeof(p->label[0]), "received");
		snprintf(p->label[1], sizeof(p->label[1]), "sent");
	}
	if (!o->json)
		printf("share of a transfer that hides behind computation half as long again; us: "
		       "the transfer alone\n"
		       "%10s %10s %10s %10s %10s\n",
			"bytes", "received", "us", "sent", "us");
	for (unsigned i = 0; i < n && e == 0; i++) {
		double *y = plot_row(p, sizes[i]), us[2];

		e = hidden(s, o, sizes[i], true, &y[0], &us[0]);
		if (e == 0)
			e = hidden(s, o, sizes[i], false, &y[1], &us[1]);
		if (e != 0)
			break;
		if (o->json)
			json_line(json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "what", "overlap",
				"size", (json_int_t)sizes[i], "received", json_figure(y[0]),
				"receive_us", json_figure(us[0]), "sent", json_figure(y[1]),
				"send_us", json_figure(us[1])));
		else
			printf("%10u %s %s %s %s\n", sizes[i], figure_text(y[0], 10, 3),
				figure_text(us[0], 10, 2), figure_text(y[1], 10, 3),
				figure_text(us[1], 10, 2));
		fflush(stdout);
	}
	if (e == 0 && o->figure != NULL)
		e = plot_write(p, o->figure) ? 0 : -EIO;
	free(p);
	return e;
}

/* ------------------------------------------------------------------ short beside bulk */

static int
mixed_one(struct session *s, const struct options *o, uint32_t size)
{
	struct order order = {.kind = KIND_FLOOD, .size = size ? size : 1, .count = size};
	const struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.comm = COMM,
		.tag = 6,
		.len = order.size,
	};
	uint8_t *data = memory_take(s, 8ull * order.size, false);
	uint64_t bulk_bytes = 0, start, word = 1;
	struct pmx_matched m = any;
	pmx_request r[8];
	struct row row = {.test = "latency", .size = 8};
	struct hist h;
	int e = data ? say(s, o->to, &order) : -ENOMEM;

	hist_init(&h);
	for (unsigned i = 0; i < 8 && e == 0; i++) {
		m.data = data + (uint64_t)i * order.size;
		e = pmx_irecv(s->ctx, &m, &r[i]);
	}
	start = rte_rdtsc();
	for (uint64_t k = 0; k < o->rounds && e == 0; k++) {
		pmx_request ping;
		uint64_t begin = rte_rdtsc();

		e = irecv(s, o->to, COMM, 2, &word, sizeof(word), &ping);
		if (e == 0)
			e = isend(s, o->to, COMM, 1, &word, sizeof(word), NULL);
		while (e == 0 && (e = pmx_test(s->ctx, &ping, NULL)) == 0)
			session_idle(s);
		if (e == 1 && (k > 20 || o->rounds < 100))
			hist_record(&h, (uint64_t)ns_of(rte_rdtsc() - begin));
		e = e == 1 ? 0 : e;
		for (unsigned i = 0; i < 8 && e == 0; i++) {
			e = pmx_test(s->ctx, &r[i], NULL);
			if (e != 1)
				continue;
			bulk_bytes += order.size;
			m.data = data + (uint64_t)i * order.size;
			e = pmx_irecv(s->ctx, &m, &r[i]);
		}
	}
	double ns = ns_of(rte_rdtsc() - start);

	order.kind = KIND_STOP;
	if (e == 0)
		e = say(s, o->to, &order);
	/* what is on its way still wants its receives */
	struct pmx_message done;
	int got = 0;

	while (e == 0 && (got = pmx_receive(s->ctx, &done)) == 0) {
		for (unsigned i = 0; i < 8 && e == 0; i++) {
			if (r[i] == 0 || pmx_test(s->ctx, &r[i], NULL) != 1)
				continue;
			m.data = data + (uint64_t)i * order.size;
			e = pmx_irecv(s->ctx, &m, &r[i]);
		}
		session_idle(s);
	}
	e = e == 0 && got < 0 ? got : e;
	if (e == 0)
		pmx_release_receive_buffer(s->ctx, &done);
	for (unsigned i = 0; i < 8 && e == 0; i++) {
		pmx_cancel(s->ctx, r[i]);
		pmx_test(s->ctx, &r[i], NULL);
	}
	snprintf(row.what, sizeof(row.what), size ? "with %u" : "alone", size);
	row_latency(&row, &h);
	if (e == 0)
		row_print(o, &row);
	row = (struct row){
		.test = "bandwidth",
		.size = size,
		.per_second = size ? (double)bulk_bytes / size * 1e9 / ns : 0,
		.gbits = (double)bulk_bytes * 8 / ns,
	};
	snprintf(row.what, sizeof(row.what), "bulk");
	if (e == 0 && size)
		row_print(o, &row);
	if (data != NULL)
		memory_put(s, data, false);
	return e;
}

static int
mixed(struct session *s, const struct options *o)
{
	static const uint32_t all[] = {8192, 65536, 1048576};
	const uint32_t *sizes = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : 3;
	int e = mixed_one(s, o, 0);

	for (unsigned i = 0; i < n && e == 0; i++)
		e = mixed_one(s, o, sizes[i]);
	return e;
}

/* ------------------------------------------------------------------ dispatch */

static const struct {
	const char *command;
	int (*run)(struct session *s, const struct options *o);
	bool own_head;
} tests[] = {
	{"matched", matched, false},
	{"unexpected", unexpected, true},
	{"posted", posted, false},
	{"overlap", overlap, true},
	{"mixed", mixed, false},
};

bool
is_match(const char *command)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(command, tests[i].command) == 0)
			return true;
	}
	return false;
}

int
run_match(struct session *s, const struct options *o)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(o->command, tests[i].command) != 0)
			continue;
		if (!tests[i].own_head)
			row_head(o, o->command);
		int e = tests[i].run(s, o);

		return e == 0 ? 0 : perf_complain(o->command, e);
	}
	return 1;
}
