/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of plain messages: round trip, rate and bandwidth. Every message begins with its
 * kind; the rest is payload that both sides really write and read.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "perf.h"
#include "plot/plot.h"

struct counted {
	uint8_t kind;
	uint8_t pad[7];
	uint64_t messages, bytes, ns;
};

#define REPLY_PATIENCE_S 20
#define COPIES_TURNS     3 /* of each kind */

/* The application's own memory, which is walked through cyclically. */
static uint8_t user[PERF_USER_BYTES];
static uint32_t user_at;

/* Fill the buffer: memory that was never written is mapped to a single page of zeros. */
static void
user_fill(void)
{
	memset(user, 0x5A, sizeof(user));
}

/* Return the next piece of the application's buffer, *len bytes or what is left up to its end. */
static uint8_t *
user_piece(uint32_t *len)
{
	uint8_t *p;

	if (user_at + *len > PERF_USER_BYTES && user_at + 4096 > PERF_USER_BYTES)
		user_at = 0;
	if (*len > PERF_USER_BYTES - user_at)
		*len = PERF_USER_BYTES - user_at;
	p = user + user_at;
	user_at += (*len + 63) & ~63u;
	return p;
}

static void
write_payload(struct perf_session *s, struct pmx_buffer *buf, uint8_t kind)
{
	uint32_t off = 0, n;

	for (; off < buf->len; off += n) {
		n = buf->len - off;
		uint8_t *from = user_piece(&n);

		if (off == 0)
			from[0] = kind;
		if (kind == KIND_BARE)
			n = 1; /* the rest is what the buffer holds */
		if (buf->segments == 1)
			memcpy((uint8_t *)buf->data + off, from, n);
		else
			pmx_buffer_write(s->ctx, buf, off, from, n);
		if (kind == KIND_BARE)
			return;
	}
}

/* Write the payload as an application does that makes its bytes in the send buffers. The receiver's
 * application looks at each byte where it has come: read_in_place(). */
static void
write_in_place(struct perf_session *s, const struct pmx_buffer *buf, uint8_t kind)
{
	for (uint32_t i = 0, n; i < buf->segments; i++) {
		uint8_t *p = pmx_buffer_segment(s->ctx, buf, i, &n);

		memset(p, 0x5A, n);
		if (i == 0)
			p[0] = kind;
	}
}

static void
read_in_place(struct perf_session *s, const struct pmx_message *m)
{
	typedef uint64_t words __attribute__((vector_size(16), aligned(1)));
	words sum[4] = {{0}}; /* as many additions at once as a CPU begins */
	struct pmx_segment seg = {0};

	while (pmx_message_segment(s->ctx, m, &seg)) {
		const words *p = seg.data;

		for (uint32_t left = seg.len / sizeof(sum); left > 0; left--, p += 4) {
			for (unsigned k = 0; k < 4; k++)
				sum[k] += p[k];
		}
	}
	__asm__ volatile("" : : "m"(sum)); /* so that reading is not left out */
}

static void
read_payload(struct perf_session *s, const struct pmx_message *m)
{
	uint32_t off = 0, n;

	for (; off < m->len; off += n) {
		n = m->len - off;
		uint8_t *to = user_piece(&n);

		if (m->seg_len == m->len)
			memcpy(to, (const uint8_t *)pmx_message_data(m) + off, n);
		else
			pmx_message_read(s->ctx, m, off, to, n);
	}
}

/* Send a message from the user's buffer; waits for buffers. */
static int
send_message(struct perf_session *s, struct pmx_addr to, uint8_t kind, uint32_t len)
{
	struct pmx_buffer buf;
	uint32_t n = len;
	uint8_t *from = user_piece(&n);
	int e;

	if (kind != KIND_PLACE && kind != KIND_BARE && n == len) {
		from[0] = kind;
		while ((e = pmx_send_copy(s->ctx, to, from, len, NULL)) == -EAGAIN || e == -ENOBUFS)
			session_idle(s);
		return e;
	}
	while ((e = pmx_get_send_buffer(s->ctx, len, &buf)) == -ENOBUFS)
		session_idle(s);
	if (e != 0)
		return e;
	if (kind == KIND_PLACE)
		write_in_place(s, &buf, kind);
	else
		write_payload(s, &buf, kind);
	/* what becomes of it, perf_receive() counts */
	while ((e = pmx_send(s->ctx, to, &buf, NULL)) == -EAGAIN)
		session_idle(s);
	return e;
}

/* ------------------------------------------------------------------ initiator */

static int
ping(struct perf_session *s, const struct perf_options *o, uint32_t size, uint64_t *ns)
{
	struct pmx_message m;
	uint64_t hz = perf_hz(), start = rte_rdtsc();
	int e = send_message(s, o->to, KIND_PING, size);

	if (e == 0)
		e = perf_receive(s, &m, start + REPLY_PATIENCE_S * hz);
	if (e < 0)
		return e;
	uint64_t ticks = rte_rdtsc() - start;

	*ns = (uint64_t)((double)ticks * 1e9 / (double)hz);
	if (m.len != size) {
		fprintf(stderr, "pmx-perf: %u bytes came back for %u\n", m.len, size);
		e = -EPROTO;
	}
	pmx_release_receive_buffer(s->ctx, &m);
	return e < 0 ? e : 0;
}

static int
latency(struct perf_session *s, const struct perf_options *o, uint32_t size)
{
	struct hist h;
	struct perf_row r = {.what = "pmx", .test = "latency", .size = size};
	uint64_t ns, rounds = o->rounds, warmup = o->warmup, begin = rte_rdtsc();
	const uint64_t within = (uint64_t)(o->within * (double)perf_hz());
	int e;

	if (size > 65536) {
		rounds = rounds / 20 + 1;
		warmup = warmup / 20 + 1;
	}
	hist_init(&h);
	for (uint64_t i = 0; i < rounds + warmup; i++) {
		uint64_t passed = within ? rte_rdtsc() - begin : 0;

		if (passed > within / 10 && i < warmup)
			warmup = i;
		if (passed > within && i > warmup)
			break;
		e = ping(s, o, size, &ns);
		if (e != 0)
			return perf_complain("latency test", e);
		if (i >= warmup)
			hist_record(&h, ns);
		if (o->progress && i % (1 << 16) == 0)
			fprintf(stderr, "\rlatency %u B: %3.0f%%", size,
				100.0 * (double)i / (double)(rounds + warmup));
	}
	if (o->progress)
		fprintf(stderr, "\r%40s\r", "");
	row_latency(&r, &h);
	row_print(o, &r);
	return 0;
}

/* Ask what arrived. Data and the question are in one flow, so by then all data has arrived. */
static int
ask_counted(struct perf_session *s, const struct perf_options *o, struct counted *c)
{
	struct pmx_message m;
	int e = send_message(s, o->to, KIND_END, 64);

	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + REPLY_PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	e = m.len == sizeof(*c) ? pmx_message_read(s->ctx, &m, 0, c, sizeof(*c)) : -EPROTO;
	pmx_release_receive_buffer(s->ctx, &m);
	return e;
}

/* Measure messages of KIND_DATA, which both ends copy, of KIND_PLACE or of KIND_BARE. */
static int
flow(struct perf_session *s, const struct perf_options *o, const char *test, uint32_t size,
	enum perf_kind kind, struct perf_row *r)
{
	struct counted c;
	uint64_t hz = perf_hz();
	uint64_t end = rte_rdtsc() + (uint64_t)(o->seconds * (double)hz), sent = 0;
	unsigned burst = size > 65536 ? 1 : size > 4096 ? 8 : o->burst; /* messages per poll */
	int e = 0;

	*r = (struct perf_row){.what = "pmx", .size = size};
	snprintf(r->test, sizeof(r->test), "%s", test);
	while (e == 0 && rte_rdtsc() < end) {
		for (unsigned i = 0; i < burst && e == 0; i++)
			e = send_message(s, o->to, kind, size);
		sent += burst;
		if (s->embedded)
			pmx_node_poll(s->node);
	}
	if (e == 0)
		e = ask_counted(s, o, &c);
	if (e != 0)
		return perf_complain(test, e);
	if (c.messages != sent) {
		fprintf(stderr, "pmx-perf: %lu messages sent, %lu arrived\n", sent, c.messages);
		return 1;
	}
	r->per_second = (double)c.messages * 1e9 / (double)c.ns;
	r->gbits = (double)c.bytes * 8 / (double)c.ns;
	r->seconds = (double)c.ns / 1e9;
	return 0;
}

static int
stream(struct perf_session *s, const struct perf_options *o, const char *test, uint32_t size)
{
	struct perf_row r;
	int e = flow(s, o, test, size, o->in_place ? KIND_PLACE : KIND_DATA, &r);

	if (o->in_place)
		snprintf(r.what, sizeof(r.what), "in place");
	if (e == 0)
		row_print(o, &r);
	return e;
}

/* Return whether a message may be that long, and say so if it may not and was asked for. */
static bool
fits(const struct perf_session *s, const struct perf_options *o, uint32_t size)
{
	const uint32_t most = pmx_get_max_message(s->ctx);

	if (size > most && o->size_count != 0)
		fprintf(stderr,
			"pmx-perf: %u bytes are left out: the longest message of this context has "
			"%u (limits.message_max, and its send buffers); matched sends longer "
			"ones\n",
			size, most);
	return size <= most;
}

/* SWoPP 1997, figure 2: bandwidth by size, from buffer to buffer and with a copy at each end,
 * alternating. */
static int
copies(struct perf_session *s, const struct perf_options *o, const uint32_t *sizes, unsigned n)
{
	static struct plot p = {
		.name = "copies",
		.title = "Bandwidth of messages with and without copies",
		.x_label = "bytes",
		.y_label = "Gb/s",
		.x_log = true,
		.curves = 2,
		.label = {"from buffer to buffer", "copied at both ends"},
	};

	for (unsigned i = 0; i < n; i++) {
		double *y, got[2][COPIES_TURNS];

		if (!fits(s, o, sizes[i]))
			continue;
		for (unsigned turn = 0; turn < 2 * COPIES_TURNS; turn++) {
			struct perf_row r;
			int e = flow(s, o, "bandwidth", sizes[i], turn % 2 ? KIND_DATA : KIND_BARE,
				&r);

			if (e != 0)
				return e;
			got[turn % 2][turn / 2] = r.gbits;
		}
		y = plot_row(&p, sizes[i]);
		for (unsigned k = 0; k < 2; k++) {
			struct perf_row r = {.test = "bandwidth", .size = sizes[i]};

			qsort(got[k], COPIES_TURNS, sizeof(got[k][0]), compare_figures);
			y[k] = r.gbits = got[k][COPIES_TURNS / 2];
			r.per_second = r.gbits * 1e9 / 8 / sizes[i];
			snprintf(r.what, sizeof(r.what), "%s", k ? "copied" : "bare");
			row_print(o, &r);
		}
	}
	return !plot_write(&p, o->figure);
}

static int
latencies(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t defaults[] = {8, 64, 1024, 8192, 65536, 1048576};
	const uint32_t *sizes = o->size_count ? o->sizes : defaults;
	unsigned n = o->size_count ? o->size_count : 6;
	int e = 0;

	for (unsigned i = 0; i < n && e == 0; i++)
		e = fits(s, o, sizes[i]) ? latency(s, o, sizes[i]) : 0;
	return e;
}

static int
bandwidths(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t defaults[] = {64, 1024, 8192, 65536, 1048576};
	static const uint32_t figure[] = {8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
		65536, 262144, 1048576};
	const uint32_t *sizes = o->size_count ? o->sizes : defaults;
	unsigned n = o->size_count ? o->size_count : 5;
	int e = 0;

	if (o->figure != NULL)
		return o->size_count ? copies(s, o, o->sizes, o->size_count)
				     : copies(s, o, figure, sizeof(figure) / sizeof(figure[0]));
	for (unsigned i = 0; i < n && e == 0; i++)
		e = fits(s, o, sizes[i]) ? stream(s, o, "bandwidth", sizes[i]) : 0;
	return e;
}

#define WARM_BYTES 67108864u
#define WARM_S     0.5

/* Send messages of the longest size that is asked for (1 MiB) there and back until packet buffers
 * of both nodes were used once, or the time is over; none with --warmup 0. On a virtual machine the
 * first use of a page can take longer than a message. */
static int
warm(struct perf_session *s, const struct perf_options *o)
{
	const uint32_t most = pmx_get_max_message(s->ctx);
	const uint64_t end = rte_rdtsc() + (uint64_t)(WARM_S * (double)perf_hz());
	uint32_t size = o->size_count ? 0 : 1048576;
	uint64_t unused;
	int e = 0;

	for (unsigned i = 0; i < o->size_count; i++)
		size = RTE_MAX(size, o->sizes[i]);
	size = RTE_MIN(size, most);
	for (uint64_t bytes = 0;
		o->warmup != 0 && bytes < WARM_BYTES && e == 0 && rte_rdtsc() < end; bytes += size)
		e = ping(s, o, size, &unused);
	return e == 0 ? 0 : perf_complain("warming up", e);
}

/* Fill what is sent, print the table's head, and warm up. */
static int
perf_messages_begin(struct perf_session *s, const struct perf_options *o)
{
	user_fill();
	row_head(o);
	return o->warmup != 0 ? warm(s, o) : 0;
}

int
test_latency(struct perf_session *s, const struct perf_options *o)
{
	const int e = perf_messages_begin(s, o);

	return e == 0 ? latencies(s, o) : e;
}

int
test_rate(struct perf_session *s, const struct perf_options *o)
{
	const int e = perf_messages_begin(s, o);

	return e == 0 ? stream(s, o, "rate", o->size_count ? o->sizes[0] : 64) : e;
}

int
test_bandwidth(struct perf_session *s, const struct perf_options *o)
{
	const int e = perf_messages_begin(s, o);

	return e == 0 ? bandwidths(s, o) : e;
}

int
test_all(struct perf_session *s, const struct perf_options *o)
{
	int e = perf_messages_begin(s, o);

	if (e == 0)
		e = latencies(s, o);
	if (e == 0)
		e = stream(s, o, "rate", 64);
	return e == 0 ? bandwidths(s, o) : e;
}

/* ------------------------------------------------------------------ responder */

static int
send_back(struct perf_session *s, struct pmx_message *m)
{
	struct pmx_buffer buf;
	struct pmx_segment seg = {0};
	uint32_t off = 0;
	int e;

	while ((e = pmx_get_send_buffer(s->ctx, m->len, &buf)) == -ENOBUFS)
		session_idle(s);
	if (e != 0)
		return e;
	if (buf.segments == 1) {
		memcpy(buf.data, pmx_message_data(m), m->len);
	} else {
		while (pmx_message_segment(s->ctx, m, &seg)) {
			pmx_buffer_write(s->ctx, &buf, off, seg.data, seg.len);
			off += seg.len;
		}
	}
	while ((e = pmx_send(s->ctx, m->source, &buf, NULL)) == -EAGAIN)
		session_idle(s);
	return e;
}

/* The messages of KIND_DATA, KIND_PLACE and KIND_BARE that were counted since the last question. */
static struct counted counted;
static uint64_t counted_first, counted_last; /* ticks */

static void
count_data(struct perf_session *s, const struct pmx_message *m, uint8_t kind)
{
	if (counted.messages++ == 0)
		counted_first = rte_rdtsc();
	counted.bytes += m->len;
	if (kind == KIND_DATA)
		read_payload(s, m);
	else if (kind == KIND_PLACE)
		read_in_place(s, m);
	counted_last = rte_rdtsc();
}

static int
tell_counted(struct perf_session *s, struct pmx_addr to)
{
	int e;

	counted.kind = KIND_END;
	counted.ns = (uint64_t)perf_ns(counted_last - counted_first);
	counted.ns += counted.ns == 0;
	e = perf_send(s, to, &counted, sizeof(counted));
	counted = (struct counted){0};
	return e;
}

static int
message_answer(struct perf_session *s, struct pmx_message *m)
{
	uint8_t kind = m->len ? *(const uint8_t *)pmx_message_data(m) : 0;
	int e;

	switch (kind) {
	case KIND_PING:
		e = send_back(s, m);
		break;
	case KIND_DATA:
	case KIND_PLACE:
	case KIND_BARE:
		count_data(s, m, kind);
		return PERF_ANSWERED;
	case KIND_END:
		e = tell_counted(s, m->source);
		break;
	case KIND_QUIT:
		return PERF_QUIT;
	default:
		return PERF_NOT_MINE;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder message_responder = {.answer = message_answer};
