/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How long a search among unexpected messages takes (IPSJ 2007, figure 6; Underwood's benchmark),
 * and a round trip with receives posted in advance.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "core/lhs/lhs.h"
#include "match.h"
#include "plot/plot.h"

#define FAR             (1ull << 62) /* tags from here on are never sent */
#define FILL_PATIENCE_S 3
#define COLD_BYTES      (8u << 20)

static uint32_t
largest(const uint32_t *sizes, unsigned n)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < n; i++)
		most = sizes[i] > most ? sizes[i] : most;
	return most;
}

/* ------------------------------------------------------------------ among unexpected messages */

static uint8_t *other;

struct envelope {
	uint64_t tag;
	uint32_t comm, source;
	struct envelope *next; /* in bulk buffers only */
};

/* The paper's queues (IPSJ 2007, section 5.1.3): envelopes in LHS entries, which are searched in
 * order, and envelopes at the beginning of bulk buffers, which are linked. Buffers are reused in
 * any order, so neighbours in the list are not neighbours in memory. */
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
		double ns = perf_ns(rte_rdtsc() - start);

		best = ns < best ? ns : best;
	}
	return best;
}

enum want { EXACT, ANY_SOURCE, ANY_TAG, ONE_BIT, WANTS };

/* Curves of the figure that follow those of the wants (warm and cold), and two figures that are no
 * curves. */
enum { DRAIN = 2 * WANTS, YOUNGEST, WALK, BULK_LIST, CURVES, AROUND, REVERSE };

static struct pmx_matched
want_of(const struct perf_options *o, enum want w, uint32_t n)
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
probe_ns(struct perf_session *s, const struct perf_options *o, enum want w, uint32_t n, bool cold,
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
		double ns = (perf_ns(rte_rdtsc() - start) - clock_ns) / times;

		best = ns < best ? ns : best;
	}
	return best;
}

/* Return the time, in ns, of a probe that finds nothing because nothing waits: the overhead of each
 * search. */
static double
empty_ns(struct perf_session *s, const struct perf_options *o)
{
	const struct pmx_matched m = want_of(o, EXACT, 1);
	double best = INFINITY;

	for (unsigned turn = 0; turn < 9; turn++) {
		uint64_t start = rte_rdtsc();

		for (unsigned i = 0; i < 2000; i++)
			pmx_iprobe(s->ctx, &m, NULL);
		double ns = perf_ns(rte_rdtsc() - start) / 2000;

		best = ns < best ? ns : best;
	}
	return best;
}

static double
clock_cost_ns(void)
{
	uint64_t start = rte_rdtsc();

	for (unsigned i = 0; i < 1000; i++)
		found += rte_rdtsc();
	return perf_ns(rte_rdtsc() - start) / 1000;
}

static int
receive_one(struct perf_session *s, const struct perf_options *o, uint32_t comm, uint64_t tag)
{
	uint64_t word;
	pmx_request r;
	int e = perf_irecv(s, o->to, comm, tag, &word, sizeof(word), &r);

	return e == 0 ? request_wait(s, &r) : e;
}

/* Make n messages wait. *untouched: none of them has been taken into the index. The ring of
 * arrivals may be too small for that (limits.matched_entries); then they are taken into the index
 * as they come, up to limits.unexpected. */
static int
fill_up(struct perf_session *s, const struct perf_options *o, uint32_t n, bool *untouched)
{
	const struct order order = {.kind = KIND_FILL, .count = n};
	const struct pmx_matched none = {.peer = o->to, .comm = 99};
	struct pmx_message m;
	uint64_t hz = perf_hz(), end;
	int e = order_send(s, o->to, &order);

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

/* Receive all messages in reverse order, except the youngest, which is alone in its communicator,
 * at the end. *last: the fastest of the first few. */
static int
receive_back(struct perf_session *s, const struct perf_options *o, uint32_t n, double tick,
	double *last, double *each)
{
	uint64_t begin = rte_rdtsc(), start;
	int e = 0;

	for (uint32_t i = n; i-- > 0 && e == 0;) {
		start = rte_rdtsc();
		e = receive_one(s, o, COMM, i);
		if (i + 16 >= n) {
			double ns = perf_ns(rte_rdtsc() - start) - tick;

			*last = ns < *last ? ns : *last;
		}
	}
	double ns = perf_ns(rte_rdtsc() - begin) / n;

	*each = ns < *each ? ns : *each;
	return e == 0 ? receive_one(s, o, LAST, 0) : e;
}

static void
depth_print(const struct perf_options *o, uint32_t n, double around, double reverse,
	const double *y)
{
	static const struct {
		const char *key;
		int curve, width, decimals; /* curve: index in y, but not for AROUND and REVERSE */
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
depth_row(struct perf_session *s, const struct perf_options *o, uint32_t n, double *y)
{
	double tick = clock_cost_ns(), around = empty_ns(s, o), drain = INFINITY, last = INFINITY,
	       reverse = INFINITY;
	const struct pmx_matched none = {.peer = o->to, .comm = 99};
	int e = 0;

	/* the first turn touches memory for the first time */
	for (unsigned turn = 0; turn < 4; turn++) {
		bool untouched;

		e = fill_up(s, o, n, &untouched);
		if (e != 0)
			return e;
		uint64_t start = rte_rdtsc();

		pmx_iprobe(s->ctx, &none, NULL);
		double ns = (perf_ns(rte_rdtsc() - start) - around) / (n + 1);

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

/* Print what each additional waiting message costs: up to the paper's depth, and beyond it. A jump
 * would show as a difference between the two. */
#define PAPERS_DEPTH 256

static void
slopes_print(const struct perf_options *o, const struct plot *p)
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

int
test_unexpected(struct perf_session *s, const struct perf_options *o)
{
	/* the paper's measurements end at 256 */
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

int
test_posted(struct perf_session *s, const struct perf_options *o)
{
	static const uint32_t all[] = {1, 10, 100, 1000, 10000, 100000};
	static uint8_t nowhere[8];
	const uint32_t *depths = o->size_count ? o->sizes : all;
	unsigned n = o->size_count ? o->size_count : sizeof(all) / sizeof(all[0]);
	uint32_t most = largest(depths, n), have = 0;
	pmx_request *r = calloc(most, sizeof(*r));
	int e = r ? 0 : -ENOMEM;

	row_head(o);
	for (unsigned i = 0; i < n && e == 0; i++) {
		struct perf_row row = {.what = "posted", .test = "latency"};
		struct hist h[2];

		for (; have < depths[i] && e == 0; have++)
			e = perf_irecv(s, o->to, COMM, FAR + have, nowhere, sizeof(nowhere),
				&r[have]);
		if (e == -EAGAIN) {
			fprintf(stderr,
				"pmx-perf: %u receives are posted; limits.receives allows no "
				"more\n",
				have);
			e = 0;
			break;
		}
		if (e == 0)
			e = round_trips(s, o, 8, false, h);
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
