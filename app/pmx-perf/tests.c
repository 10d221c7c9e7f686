/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tests over pmx: an initiator and a responder that answers what it is asked. Every message
 * begins with its kind; the rest is payload that both sides really write and read. Runs in the
 * application's thread (of an embedded node: the engine's too).
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "perf.h"
#include "plot.h"

enum kind {
	KIND_PING = 1, /* send it back */
	KIND_DATA = 2, /* count it */
	KIND_END = 3,  /* tell what was counted */
	KIND_QUIT = 4,
	KIND_BARE = 5, /* count it and leave it where it is; below remote.c's and match.c's
			* kinds */
};

struct counted {
	uint8_t kind;
	uint8_t pad[7];
	uint64_t messages, bytes, ns;
};

#define REPLY_PATIENCE_S 20
#define GREET_PATIENCE_S 5
#define AT_ONCE_S        0.5 /* no node that is down is given up so soon */
#define LAST_ACKS_MS     50
#define COPIES_TURNS     3 /* of each kind */

static uint8_t *user;
static uint32_t user_at;

static bool
make_user_buffer(void)
{
	user = user ? user : malloc(PERF_USER_BYTES);
	if (user == NULL)
		return false;
	memset(user, 0x5A, PERF_USER_BYTES);
	return true;
}

/* The next piece of the application's buffer, len bytes or what is left of it. */
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
write_payload(struct session *s, struct pmx_buffer *buf, uint8_t kind)
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

static void
read_payload(struct session *s, const struct pmx_message *m)
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

int
perf_complain(const char *doing, int error)
{
	fprintf(stderr, "pmx-perf: %s: %s\n", doing, pmx_strerror(error));
	return 1;
}

/* Write a message from the user's buffer and send it; waits for buffers. */
static int
send_message(struct session *s, struct pmx_addr to, uint8_t kind, uint32_t len)
{
	struct pmx_buffer buf;
	int e;

	while ((e = pmx_get_send_buffer(s->ctx, len, &buf)) == -ENOBUFS)
		session_idle(s);
	if (e != 0)
		return e;
	write_payload(s, &buf, kind);
	while ((e = pmx_send(s->ctx, to, &buf, &s->sent)) == -EAGAIN)
		session_idle(s);
	return e;
}

int
perf_send(struct session *s, struct pmx_addr to, const void *data, uint32_t len)
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
	struct timespec a, b, wait = {.tv_nsec = 20000000};

	if (hz != 0)
		return hz;
	hz = rte_get_tsc_hz();
	if (hz != 0)
		return hz;
	clock_gettime(CLOCK_MONOTONIC, &a);
	uint64_t start = rte_rdtsc();

	nanosleep(&wait, NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	uint64_t ticks = rte_rdtsc() - start;
	double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);

	hz = (uint64_t)((double)ticks * 1e9 / ns);
	return hz;
}

int
perf_receive(struct session *s, struct pmx_message *m, uint64_t end)
{
	int e;

	for (unsigned i = 1; (e = pmx_receive(s->ctx, m)) == 0; i++) {
		session_idle(s);
		/* the clock costs as much as a poll */
		if (i % 256 != 0)
			continue;
		e = pmx_is_send_done(s->ctx, s->sent);
		if (e < 0)
			return e;
		if (rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return e;
}

/* ------------------------------------------------------------------ initiator */

static int
ping(struct session *s, const struct options *o, uint32_t size, uint64_t *ns)
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
latency(struct session *s, const struct options *o, uint32_t size)
{
	struct hist h;
	struct row r = {.what = "pmx", .test = "latency", .size = size};
	uint64_t ns, rounds = o->rounds, warmup = o->warmup;
	int e;

	if (size > 65536) {
		rounds = rounds / 20 + 1;
		warmup = warmup / 20 + 1;
	}
	hist_init(&h);
	for (uint64_t i = 0; i < rounds + warmup; i++) {
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

/* Ask what arrived. Data and the question are in one flow, so all of it has. */
static int
ask_counted(struct session *s, const struct options *o, struct counted *c)
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

/* Messages of KIND_DATA, which both ends copy, or of KIND_BARE. */
static int
flow(struct session *s, const struct options *o, const char *test, uint32_t size, enum kind kind,
	struct row *r)
{
	struct counted c;
	uint64_t hz = perf_hz();
	uint64_t end = rte_rdtsc() + (uint64_t)(o->seconds * (double)hz), sent = 0;
	unsigned burst = size > 65536 ? 1 : size > 4096 ? 8 : o->burst; /* messages a poll */
	int e = 0;

	*r = (struct row){.what = "pmx", .size = size};
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
	return 0;
}

static int
stream(struct session *s, const struct options *o, const char *test, uint32_t size)
{
	struct row r;
	int e = flow(s, o, test, size, KIND_DATA, &r);

	if (e == 0)
		row_print(o, &r);
	return e;
}

/* SWoPP 1997, figure 2: bandwidth by size, from buffer to buffer and with a copy at each end, in
 * turns. */
static int
copies(struct session *s, const struct options *o, const uint32_t *sizes, unsigned n)
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
	uint32_t most = pmx_get_max_message(s->ctx);

	for (unsigned i = 0; i < n; i++) {
		double *y, got[2][COPIES_TURNS];

		if (sizes[i] > most)
			continue;
		for (unsigned turn = 0; turn < 2 * COPIES_TURNS; turn++) {
			struct row r;
			int e = flow(s, o, "bandwidth", sizes[i], turn % 2 ? KIND_DATA : KIND_BARE,
				&r);

			if (e != 0)
				return e;
			got[turn % 2][turn / 2] = r.gbits;
		}
		y = plot_row(&p, sizes[i]);
		for (unsigned k = 0; k < 2; k++) {
			struct row r = {.test = "bandwidth", .size = sizes[i]};

			qsort(got[k], COPIES_TURNS, sizeof(got[k][0]), compare_figures);
			y[k] = r.gbits = got[k][COPIES_TURNS / 2];
			r.per_second = r.gbits * 1e9 / 8 / sizes[i];
			snprintf(r.what, sizeof(r.what), "%s", k ? "copied" : "bare");
			row_print(o, &r);
		}
	}
	return !plot_write(&p, o->figure);
}

/* That a node is unknown and that it does not answer are one error, but an engine says the first at
 * once, and the second after all of its retries. Asked again, for a busy machine may have slept
 * meanwhile. */
static bool
is_unknown(struct session *s, const struct options *o, double waited)
{
	for (unsigned i = 0; i < 3 && waited >= AT_ONCE_S; i++) {
		struct pmx_message m;
		uint64_t start = rte_rdtsc();

		if (send_message(s, o->to, KIND_PING, 64) != 0 ||
			perf_receive(s, &m, start + (uint64_t)(AT_ONCE_S * (double)perf_hz())) !=
				-EHOSTUNREACH)
			continue;
		waited = (double)(rte_rdtsc() - start) / (double)perf_hz();
	}
	return waited < AT_ONCE_S;
}

static int
greet(struct session *s, const struct options *o)
{
	struct pmx_message m;
	uint64_t hz = perf_hz(), start = rte_rdtsc(), end = start + REPLY_PATIENCE_S * hz;
	int e = send_message(s, o->to, KIND_PING, 64);

	/* the engine gives up by its own clock; what was delivered is answered soon */
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
	if (e == -EHOSTUNREACH && is_unknown(s, o, waited))
		fprintf(stderr, "node %u is not in [nodes] of this node's configuration\n",
			o->to.node);
	else if (e == -EHOSTUNREACH || (e == -ETIMEDOUT && pmx_is_send_done(s->ctx, s->sent) != 1))
		fprintf(stderr,
			"node %u did not answer for %.1f s: does it run, and is its address in "
			"[nodes] right?\n",
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
run_initiator(struct session *s, const struct options *o)
{
	static const uint32_t latency_sizes[] = {8, 64, 1024, 8192, 65536, 1048576};
	static const uint32_t bandwidth_sizes[] = {64, 1024, 8192, 65536, 1048576};
	bool all = strcmp(o->command, "all") == 0;
	int e = make_user_buffer() ? greet(s, o) : 1;
	uint32_t most = pmx_get_max_message(s->ctx);

	if (e == 0 && !is_match(o->command))
		row_head(o, "pmx");
	if (all || strcmp(o->command, "latency") == 0) {
		const uint32_t *sizes = o->size_count ? o->sizes : latency_sizes;
		unsigned n = o->size_count ? o->size_count : 6;

		for (unsigned i = 0; i < n && e == 0; i++)
			e = sizes[i] <= most ? latency(s, o, sizes[i]) : 0;
	}
	if (e == 0 && (all || strcmp(o->command, "rate") == 0))
		e = stream(s, o, "rate", o->size_count && !all ? o->sizes[0] : 64);
	if (e == 0 && is_remote(o->command))
		e = run_remote(s, o);
	if (e == 0 && is_match(o->command))
		e = run_match(s, o);
	if (all || strcmp(o->command, "bandwidth") == 0) {
		const uint32_t *sizes = o->size_count ? o->sizes : bandwidth_sizes;
		unsigned n = o->size_count ? o->size_count : 5;

		if (o->figure != NULL && e == 0) {
			static const uint32_t figure[] = {8, 32, 64, 128, 256, 512, 1024, 2048,
				4096, 8192, 16384, 65536, 262144, 1048576};

			e = o->size_count
				? copies(s, o, o->sizes, o->size_count)
				: copies(s, o, figure, sizeof(figure) / sizeof(figure[0]));
			n = 0;
		}
		for (unsigned i = 0; i < n && e == 0; i++)
			e = sizes[i] <= most ? stream(s, o, "bandwidth", sizes[i]) : 0;
	}
	if (e == 0) {
		e = send_message(s, o->to, KIND_QUIT, 64);
		if (e == 0)
			e = pmx_send_wait(s->ctx, 2000000);
		e = e == 0 ? 0 : perf_complain("ending the responder", e);
		/* an embedded responder polls LAST_ACKS_MS more, and waits as long again twice
		 * before it closes: ports whose peer closes while they poll (memif), or before them
		 * (vhost's clients), can end their process */
		if (s->embedded)
			usleep(2 * LAST_ACKS_MS * 1000);
	}
	return e;
}

/* ------------------------------------------------------------------ responder */

static int
send_back(struct session *s, struct pmx_message *m)
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

static int
tell_counted(struct session *s, struct pmx_addr to, struct counted *c, uint64_t first,
	uint64_t last)
{
	int e;

	c->kind = KIND_END;
	c->ns = (uint64_t)((double)(last - first) * 1e9 / (double)perf_hz());
	c->ns += c->ns == 0;
	while ((e = pmx_send_copy(s->ctx, to, c, sizeof(*c), NULL)) == -ENOBUFS || e == -EAGAIN)
		session_idle(s);
	memset(c, 0, sizeof(*c));
	return e;
}

static void
count_data(struct session *s, struct pmx_message *m, uint8_t kind, struct counted *c)
{
	c->messages++;
	c->bytes += m->len;
	if (kind == KIND_DATA)
		read_payload(s, m);
}

int
run_responder(struct session *s, const struct options *o)
{
	struct pmx_message m[32];
	struct counted c = {0};
	uint64_t first = 0, last = 0;
	bool quit = false;
	int e = 0, n;

	(void)o;
	if (!make_user_buffer())
		return 1;
	while (!quit && e == 0) {
		n = pmx_receive_burst(s->ctx, m, 32);
		if (n < 0)
			return perf_complain("receiving", n);
		if (n == 0) {
			session_idle(s);
			continue;
		}
		for (int i = 0; i < n && e == 0; i++) {
			uint8_t kind = m[i].len ? *(const uint8_t *)pmx_message_data(&m[i]) : 0;

			if (remote_answer(s, &m[i], &e) || match_answer(s, &m[i], &e)) {
				pmx_release_receive_buffer(s->ctx, &m[i]);
				continue;
			}
			if (kind == KIND_PING) {
				e = send_back(s, &m[i]);
			} else if (kind == KIND_DATA || kind == KIND_BARE) {
				if (c.messages == 0)
					first = rte_rdtsc();
				count_data(s, &m[i], kind, &c);
				last = rte_rdtsc();
			} else if (kind == KIND_END) {
				e = tell_counted(s, m[i].source, &c, first, last);
			} else if (kind == KIND_QUIT) {
				quit = true;
			}
			pmx_release_receive_buffer(s->ctx, &m[i]);
		}
		if (s->embedded)
			pmx_node_poll(s->node);
	}
	remote_end(s);
	match_end();
	if (e != 0)
		return perf_complain("answering", e);
	/* an embedded engine still owes the last Acks */
	uint64_t end = rte_rdtsc() + perf_hz() / 1000 * LAST_ACKS_MS;

	while (s->embedded && rte_rdtsc() < end)
		pmx_node_poll(s->node);
	if (s->embedded)
		usleep(3 * LAST_ACKS_MS * 1000);
	return 0;
}
