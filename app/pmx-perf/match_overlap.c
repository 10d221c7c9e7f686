/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much of a matched transfer can be hidden behind computation, and the round trip of short
 * messages alongside bulk traffic.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "match.h"
#include "plot/plot.h"

#define BULK 8 /* posted receives for bulk */

/* ------------------------------------------------------------------ overlap */

static void
compute(uint64_t ticks)
{
	uint64_t end = rte_rdtsc() + ticks;

	while (rte_rdtsc() < end)
		__asm__ volatile("" : : : "memory");
}

/* Receive or send one message of `size`, with so many ticks of computation in between; *all is the
 * total, in ticks. A message sent finds its receive posted; a message to receive is sent when the
 * other side is told to. */
static int
exchange(struct perf_session *s, const struct perf_options *o, uint8_t *data, uint32_t size,
	bool receive, uint64_t ticks, uint64_t *all)
{
	const struct order order = {.kind = receive ? KIND_OFFER : KIND_TAKE, .size = size};
	pmx_request r;
	int e = receive ? 0 : order_send(s, o->to, &order);

	if (e == 0 && !receive)
		e = order_done(s);
	uint64_t start = rte_rdtsc();

	if (e == 0)
		e = receive ? perf_irecv(s, o->to, COMM, 4, data, size, &r)
			    : perf_isend(s, o->to, COMM, 5, data, size, &r);
	if (e == 0 && receive)
		e = order_send(s, o->to, &order);
	compute(ticks);
	if (e == 0)
		e = request_wait(s, &r);
	*all = rte_rdtsc() - start;
	return e;
}

static int
compare_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Measure which share of a transfer is hidden: 1 if computing and transferring together take no
 * longer than computing alone. */
static int
hidden(struct perf_session *s, const struct perf_options *o, uint32_t size, bool receive,
	double *share, double *alone_us)
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
	ticks = alone[TURNS / 2] * 3 / 2; /* more than enough to hide the transfer */
	for (unsigned i = 0; i < TURNS && e == 0; i++)
		e = exchange(s, o, data, size, receive, ticks, &both[i]);
	qsort(both, TURNS, sizeof(both[0]), compare_ticks);
	*alone_us = perf_ns(alone[TURNS / 2]) / 1e3;
	*share = 1 - ((double)both[TURNS / 2] - (double)ticks) / (double)alone[TURNS / 2];
	if (data != NULL)
		memory_put(s, data, o->local_private);
	return e;
}

int
test_overlap(struct perf_session *s, const struct perf_options *o)
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

/* Post receives that have ended again, and add up their bytes. */
static int
bulk_turn(struct perf_session *s, struct pmx_matched *m, uint8_t *data, pmx_request r[BULK],
	uint64_t *bytes)
{
	for (unsigned i = 0; i < BULK; i++) {
		int e = pmx_test(s->ctx, &r[i], NULL);

		if (e == 0)
			continue;
		m->data = data + i * m->len;
		if (e == 1)
			e = pmx_irecv(s->ctx, m, &r[i]);
		if (e < 0)
			return e;
		*bytes += m->len;
	}
	return 0;
}

/* Go on receiving until the responder reports that it has stopped, because what is under way still
 * needs receives. */
static int
bulk_end(struct perf_session *s, struct pmx_matched *m, uint8_t *data, pmx_request r[BULK])
{
	struct pmx_message done;
	uint64_t bytes = 0;
	int e = 0, got = 0;

	while (e == 0 && (got = pmx_receive(s->ctx, &done)) == 0) {
		e = bulk_turn(s, m, data, r, &bytes);
		session_idle(s);
	}
	e = e == 0 && got < 0 ? got : e;
	if (e == 0)
		pmx_release_receive_buffer(s->ctx, &done);
	for (unsigned i = 0; i < BULK && e == 0; i++) {
		pmx_cancel(s->ctx, r[i]);
		pmx_test(s->ctx, &r[i], NULL);
	}
	return e;
}

/* Exchange one short message with the other side, and record its round trip if it counts. */
static int
ping(struct perf_session *s, const struct perf_options *o, struct hist *h, bool counts)
{
	pmx_request request;
	uint64_t begin = rte_rdtsc(), word = 1;
	int e = perf_irecv(s, o->to, COMM, 2, &word, sizeof(word), &request);

	if (e == 0)
		e = perf_isend(s, o->to, COMM, 1, &word, sizeof(word), NULL);
	while (e == 0 && (e = pmx_test(s->ctx, &request, NULL)) == 0)
		session_polled(s);
	if (e == 1 && counts)
		hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - begin));
	return e == 1 ? 0 : e;
}

static int
mixed_one(struct perf_session *s, const struct perf_options *o, uint32_t size)
{
	struct order order = {.kind = KIND_FLOOD, .size = size ? size : 1, .count = size};
	struct pmx_matched m = {
		.peer = PMX_ANY_SOURCE,
		.comm = COMM,
		.tag = 6,
		.len = order.size,
	};
	uint8_t *data = memory_take(s, (uint64_t)BULK * order.size, false);
	uint64_t bulk_bytes = 0, start;
	pmx_request r[BULK];
	struct perf_row row = {.test = "latency", .size = 8};
	struct hist h;
	int e = data ? order_send(s, o->to, &order) : -ENOMEM;

	hist_init(&h);
	for (unsigned i = 0; i < BULK && e == 0; i++) {
		m.data = data + (uint64_t)i * order.size;
		e = pmx_irecv(s->ctx, &m, &r[i]);
	}
	start = rte_rdtsc();
	for (uint64_t k = 0; k < o->rounds && e == 0; k++) {
		e = ping(s, o, &h, k > 20 || o->rounds < 100);
		if (e == 0)
			e = bulk_turn(s, &m, data, r, &bulk_bytes);
	}
	double ns = perf_ns(rte_rdtsc() - start);

	order.kind = KIND_STOP;
	if (e == 0)
		e = order_send(s, o->to, &order);
	if (e == 0)
		e = bulk_end(s, &m, data, r);
	snprintf(row.what, sizeof(row.what), size ? "with %u" : "alone", size);
	row_latency(&row, &h);
	if (e == 0)
		row_print(o, &row);
	row = (struct perf_row){
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

int
test_mixed(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t all[] = {8192, 65536, 1048576};
	const uint32_t *sizes = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : 3;
	int e;

	row_head(o);
	e = mixed_one(s, o, 0);

	for (unsigned i = 0; i < n && e == 0; i++)
		e = mixed_one(s, o, sizes[i]);
	return e;
}
