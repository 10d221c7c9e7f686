/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Experiments on the simulated network: E1 gather (SWoPP 2008, figures 1 and 2), E2 alltoall
 * (PM/UDP, IPSJ 1999, figure 7), E3 loss, E4 short messages alongside long ones, E5 fairness.
 * Tables go to stdout, CSV and SVG files into the directory of --out.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plot/plot.h"
#include "sims.h"

/* ------------------------------------------------------------------ what is compared */

struct setting {
	const char *label;
	enum proto_recovery recovery;
	const struct cc_ops *cc;
	uint32_t rto_min_us;
	bool shares;  /* the receiver divides its window */
	bool in_turn; /* E1: one sender after the other */
};

static const struct setting settings[] = {
	{"go-back-n fixed", PROTO_GO_BACK_N, &cc_fixed, 4000, false},
	{"cc = pm", PROTO_SELECTIVE, &cc_pm, 4000, false},
	{"cc = delay, no shares", PROTO_SELECTIVE, &cc_delay, 4000, false},
	{"cc = delay", PROTO_SELECTIVE, &cc_delay, 4000, true},
	{"TCP-like, 200 ms", PROTO_SELECTIVE, &cc_tcp, 200000, false},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))
#define OURS     3
#define TCP      4

static void
apply(const struct setting *set, struct proto_config *c)
{
	if (set->cc == &cc_tcp) {
		tcp_apply(c);
		return;
	}
	c->recovery = set->recovery;
	c->cc = set->cc;
	c->rto_min_us = set->rto_min_us;
	if (!set->shares)
		c->share_target_us = 0;
	if (c->rto_max_us < 4 * c->rto_min_us)
		c->rto_max_us = 4 * c->rto_min_us;
}

static struct proto_config
configured(const struct setting *set, uint32_t nodes)
{
	struct proto_config c = sim_defaults(nodes, 1500);

	apply(set, &c);
	return c;
}

/* Return the part of a link's rate that frames of full size leave to payload. */
static double
payload_part(uint32_t mtu)
{
	return (double)(mtu - WIRE_HDR_BYTES) / (mtu + WIRE_FRAME_EXTRA);
}

/* Name a curve of the plot for each of n settings. */
static void
name_curves(struct plot *p, const struct setting *set, unsigned n)
{
	p->curves = n;
	for (unsigned i = 0; i < n; i++)
		snprintf(p->label[i], sizeof(p->label[i]), "%s", set[i].label);
}

/* ------------------------------------------------------------------ E1: gather */

#define E1_BYTES 1000000u
#define E1_PIECE 62500u /* bytes of a message: 16 messages for each sender */

/* bytes of the root's message to the next sender (the paper's section 4.2.1) */
#define E1_GO 1u

struct gather {
	uint64_t received, total, end; /* bytes, bytes, ns */
	uint32_t pieces;               /* messages that each sender sends */
	bool in_turn;
};

static void
send_pieces(struct sim *s, uint32_t node, uint32_t pieces)
{
	for (uint32_t k = 0; k < pieces; k++) {
		if (sim_send(s, node, 0, 0, 0, E1_PIECE, 0) != 0)
			break;
	}
}

static void
gathered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct gather *g = arg;
	uint64_t each = (uint64_t)g->pieces * E1_PIECE;

	(void)tag;
	if (d->msg_len == E1_GO)
		send_pieces(s, sim_here(s), g->pieces);
	if (d->msg_len != E1_PIECE)
		return;
	g->received += E1_PIECE;
	if (g->received == g->total)
		g->end = sim_now(s);
	else if (g->in_turn && g->received % each == 0)
		sim_send(s, 0, 0, (uint32_t)(g->received / each) + 1, 0, E1_GO, 0);
}

/* The results of one gather. */
struct gathering {
	double rate;    /* part of what the link can carry as payload */
	double idle_ms; /* longest time that the receiver's line was idle */
	uint64_t drops; /* frames dropped at its port ... */
	uint64_t late;  /* ... after the first ms */
};

/* Note in a plot how much had come by a time. */
static void
note_received(struct plot *p, unsigned curve, uint64_t ns, uint64_t received)
{
	const unsigned row = (unsigned)(ns / (2 * MS));

	if (p == NULL || row >= PLOT_ROWS)
		return;
	while (p->rows <= row)
		plot_row(p, (double)p->rows * 2);
	p->y[row][curve] = (double)received / 1e6;
}

static struct gathering
gather(const struct setting *set, unsigned senders, const char *bandwidth, double bps,
	const char *buffer, struct plot *over_time, unsigned curve)
{
	struct topology *t = star(senders + 1, bandwidth, "5us", buffer);
	uint32_t pieces = (uint32_t)(bps / 1e9) * (E1_BYTES / E1_PIECE);
	uint32_t port = t->edges[t->vertices[t->hosts[0]].first_edge].reverse;
	struct gather g = {
		.total = (uint64_t)senders * pieces * E1_PIECE,
		.pieces = pieces,
		.in_turn = set->in_turn,
	};
	uint64_t begin, early;
	struct sim_config c = {
		.topology = t,
		.proto = configured(set, senders + 1),
		.entries = 4096,
		.bulks = 65536,
		.inline_max = 40,
		.nic_bytes = 65536,
		.seed = 1,
		.delivered = gathered,
		.arg = &g,
	};
	struct sim *s;

	c.proto.rx_frames_max = 65536;
	c.proto.tx_frames_max = pieces * (E1_PIECE / c.proto.payload_max + 1) + 1;
	s = sim_new(&c);
	for (uint32_t i = 0; i <= senders; i++)
		sim_open(s, i, 0);
	/* open the flows first, as MPI's processes are connected */
	for (uint32_t i = 1; i <= senders; i++)
		sim_send(s, i, 0, 0, 0, 8, 0);
	sim_run(s, SEC / 10);
	begin = sim_now(s);
	sim_edge_reset(s, port);
	for (uint32_t i = 1; i <= (set->in_turn ? 1 : senders); i++)
		send_pieces(s, i, pieces);
	must_run(s, begin + MS);
	early = sim_edge(s, port)->drops;
	for (uint64_t at = begin + 2 * MS; g.end == 0; at += 2 * MS) {
		must_run(s, at);
		note_received(over_time, curve, at - begin, g.received);
	}
	struct gathering r = {
		.rate = (double)g.total * 8 / ((double)(g.end - begin) / 1e9) / bps /
			payload_part(1500),
		.idle_ms = (double)sim_edge(s, port)->idle_max / 1e6,
		.drops = sim_edge(s, port)->drops,
		.late = sim_edge(s, port)->drops - early,
	};

	sim_free(s);
	topology_free(t);
	return r;
}

/* Make one plot: rate against senders. */
static bool
e1_rates(const struct sim_options *o, const char *rate, double bps, const char *buffer,
	bool compare)
{
	static const unsigned numbers[] = {2, 4, 8, 12, 16, 24, 32, 40, 48};
	static struct plot p;
	char name[64];
	double lowest = 1, idle = 0;
	uint64_t drops = 0, late = 0;

	snprintf(name, sizeof(name), "e1-%s-%s", rate, buffer);
	p = (struct plot){
		.name = name,
		.x_label = "senders",
		.y_label = "part of the link rate",
		.y_max = 1,
	};
	snprintf(p.title, sizeof(p.title), "E1: N senders of 1 MB to one, %sb/s, %s of port buffer",
		rate, buffer);
	name_curves(&p, settings, SETTINGS);
	for (unsigned n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
		double *y = plot_row(&p, numbers[n]);

		for (unsigned i = 0; i < SETTINGS; i++) {
			/* a collapse takes long to simulate */
			if (i != OURS && (!compare || (o->quick && i == 0 && numbers[n] > 8)))
				continue;
			struct gathering g = gather(&settings[i], numbers[n], rate, bps, buffer,
				NULL, 0);

			y[i] = g.rate;
			if (i != OURS)
				continue;
			lowest = fmin(lowest, g.rate);
			idle = fmax(idle, g.idle_ms);
			drops += g.drops;
			late += g.late;
		}
	}
	plot_print(&p);
	printf("%s: at least %.3f of the rate, line idle for at most %.3f ms, %lu frames lost, %lu "
	       "of them after the first ms\n"
	       "\n",
		settings[OURS].label, lowest, idle, drops, late);
	return !o->out || plot_write(&p, o->out);
}

/* One sender after the other; the root tells each when the previous one has finished. */
static const struct setting turns[] = {
	{"TCP-like, in turn", PROTO_SELECTIVE, &cc_tcp, 200000, false, true},
	{"cc = delay, in turn", PROTO_SELECTIVE, &cc_delay, 4000, true, true},
};
#define TURNS (sizeof(turns) / sizeof(turns[0]))

/* Simulate the paper's figure 1, with all senders at once and in turn. The number of senders from
 * which TCP collapses depends on the port's buffer, so three sizes are simulated. */
static int
e1_figure1(const struct sim_options *o)
{
	static const struct {
		const struct setting *set;
		const char *buffer, *label;
	} curves[] = {{&settings[TCP], "32K", "TCP-like at once, 32K"},
		{&settings[TCP], "64K", "TCP-like at once, 64K"},
		{&settings[TCP], "128K", "TCP-like at once, 128K"},
		{&turns[0], "32K", "TCP-like in turn, 32K"},
		{&settings[OURS], "32K", "cc = delay at once, 32K"},
		{&turns[1], "32K", "cc = delay in turn, 32K"}};
	static const unsigned numbers[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 31};
	static struct plot p;

	p = (struct plot){
		.name = "e1-figure1",
		.x_label = "senders",
		.y_label = "part of the link rate",
		.y_max = 1,
		.curves = sizeof(curves) / sizeof(curves[0]),
		.title = "E1, figure 1: N senders of 1 MB to one, 1 Gb/s, at once and in turn",
	};
	for (unsigned c = 0; c < p.curves; c++)
		snprintf(p.label[c], sizeof(p.label[c]), "%s", curves[c].label);
	for (unsigned n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
		double *y = plot_row(&p, numbers[n]);

		for (unsigned c = 0; c < p.curves; c++)
			y[c] = gather(curves[c].set, numbers[n], "1G", 1e9, curves[c].buffer, NULL,
				0)
				       .rate;
	}
	plot_print(&p);
	return o->out && !plot_write(&p, o->out);
}

static int
e1(const struct sim_options *o)
{
	static const struct {
		const char *name;
		double bps;
	} rates[] = {{"1G", 1e9}, {"10G", 1e10}, {"25G", 2.5e10}, {"100G", 1e11}};
	static const char *const buffers[] = {"64K", "128K", "256K", "512K", "1M"};
	static struct plot p;

	for (unsigned r = 0; r < 4; r++) {
		for (unsigned b = 0; b < 5; b++) {
			if (o->quick && b != 1 && b != 4)
				continue;
			if (!e1_rates(o, rates[r].name, rates[r].bps, buffers[b],
				    !o->quick || (r == 0 && b == 1)))
				return 1;
		}
	}
	if (e1_figure1(o) != 0)
		return 1;
	/* its figure 2 */
	p = (struct plot){
		.name = "e1-time",
		.x_label = "ms",
		.y_label = "MB received",
		.title = "E1, figure 2: bytes received over time, 31 senders of 1 MB, 1 Gb/s, 64K "
			 "of port buffer",
	};
	name_curves(&p, settings, SETTINGS);
	for (unsigned i = 0; i < TURNS; i++)
		snprintf(p.label[p.curves++], sizeof(p.label[0]), "%s", turns[i].label);
	for (unsigned i = 0; i < SETTINGS + TURNS; i++) {
		if (!o->quick || i != 0) /* this one takes long to simulate */
			gather(i < SETTINGS ? &settings[i] : &turns[i - SETTINGS], 31, "1G", 1e9,
				"64K", &p, i);
	}
	return o->out && !plot_write(&p, o->out);
}

/* ------------------------------------------------------------------ loads that keep going */

/* The message that a sender of a load sends again when one is completed. */
struct flow_load {
	uint32_t dst, len;
	uint16_t ctx, dst_ctx;
	bool stopped;
};

#define LOADS_MAX 1024

struct loads {
	struct flow_load flow[LOADS_MAX]; /* by tag */
	uint64_t bytes[LOADS_MAX];        /* delivered */
	uint64_t started[LOADS_MAX];      /* round trips: when the current ping was sent */
	uint64_t *trips;                  /* ns; NULL: no round trips */
	uint32_t trip_count, trip_cap;
};

static void
load_again(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	struct loads *l = arg;

	(void)error;
	if (tag < LOADS_MAX && !l->flow[tag].stopped)
		sim_send(s, node, l->flow[tag].ctx, l->flow[tag].dst, l->flow[tag].dst_ctx,
			l->flow[tag].len, tag);
}

static void
load_arrived(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct loads *l = arg;

	(void)s;
	if (tag < LOADS_MAX)
		l->bytes[tag] += d->msg_len;
}

/* Round trips alongside the loads: each Pong starts the next Ping. */
#define PING 1000 /* tags */
#define PONG 1001

static void
ping_arrived(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct loads *l = arg;

	if (tag == PING) {
		sim_send(s, sim_here(s), d->ctx, d->src_node, d->src_ctx, 64, PONG);
	} else if (tag == PONG) {
		if (l->trip_count < l->trip_cap)
			l->trips[l->trip_count++] = sim_now(s) - l->started[0];
		l->started[0] = sim_now(s);
		sim_send(s, sim_here(s), d->ctx, d->src_node, d->src_ctx, 64, PING);
	} else {
		load_arrived(arg, s, d, tag);
	}
}

/* Start a load: `deep` messages of the flow at once, for as long as the run lasts. */
static void
load_start(struct loads *l, struct sim *s, uint32_t node, uint32_t tag, struct flow_load flow,
	unsigned deep)
{
	l->flow[tag] = flow;
	while (deep-- > 0)
		sim_send(s, node, flow.ctx, flow.dst, flow.dst_ctx, flow.len, tag);
}

static struct sim *
network(const struct setting *set, struct topology *t, uint32_t nic,
	const struct fault_config *fault, struct loads *l)
{
	uint32_t nodes = t->host_count;
	struct sim_config c = {
		.topology = t,
		.proto = configured(set, nodes),
		.entries = 4096,
		.bulks = 65536,
		.inline_max = 40,
		.nic_bytes = nic,
		.seed = 1,
		.delivered = l->trips ? ping_arrived : load_arrived,
		.completed = load_again,
		.arg = l,
	};

	c.proto.rx_frames_max = c.proto.tx_frames_max = 65536 / (nodes > 16 ? 4 : 1);
	if (fault != NULL)
		c.fault = *fault;
	struct sim *s = sim_new(&c);

	for (uint32_t i = 0; i < nodes; i++) {
		for (uint16_t k = 0; k < 4; k++)
			sim_open(s, i, k);
	}
	return s;
}

/* ------------------------------------------------------------------ E2: alltoall */

static double
alltoall(const struct setting *set, uint32_t size)
{
	enum { NODES = 16 };
	static struct loads l;
	struct topology *t = star(NODES, "10G", "2us", "256K");
	struct sim *s;
	uint32_t rounds = size < 1000 ? 200 : size < 100000 ? 40 : 6;

	memset(&l, 0, sizeof(l));
	for (int i = 0; i < LOADS_MAX; i++)
		l.flow[i].stopped = true;
	s = network(set, t, 65536, NULL, &l);
	for (uint32_t i = 0; i < NODES; i++) {
		for (uint32_t k = 1; k < NODES; k++)
			sim_send(s, i, 0, (i + k) % NODES, 0, 8, LOADS_MAX);
	}
	must_run(s, SEC / 10);
	uint64_t begin = sim_now(s);

	for (uint32_t r = 0; r < rounds; r++) {
		for (uint32_t k = 1; k < NODES; k++) {
			for (uint32_t i = 0; i < NODES; i++)
				sim_send(s, i, 0, (i + k) % NODES, 0, size, 0);
		}
		while (sim_pending(s) > 0)
			must_run(s, sim_now(s) + US);
	}
	double gbits = (double)l.bytes[0] * 8 / (double)(sim_now(s) - begin) / NODES;

	sim_free(s);
	topology_free(t);
	return gbits;
}

static int
e2(const struct sim_options *o)
{
	static struct plot p;
	double best_fall = 1;

	p = (struct plot){
		.name = "e2",
		.x_label = "bytes",
		.y_label = "Gb/s a node",
		.x_log = true,
		.y_log = true,
		.title = "E2: alltoall of 16 nodes, 10 Gb/s, 256K of port buffer",
	};
	name_curves(&p, settings, SETTINGS);
	for (uint32_t size = 4; size <= 1 << 20; size *= o->quick ? 16 : 2) {
		double *y = plot_row(&p, size);

		for (unsigned i = 0; i < SETTINGS; i++)
			y[i] = o->quick && i != OURS ? NAN : alltoall(&settings[i], size);
	}
	for (unsigned i = 1; i < p.rows; i++)
		best_fall = fmin(best_fall, p.y[i][OURS] / p.y[i - 1][OURS]);
	plot_print(&p);
	printf("cc = delay: the largest fall from a size to the next is to %.3f\n\n", best_fall);
	return o->out && !plot_write(&p, o->out);
}

/* ------------------------------------------------------------------ E3: loss */

static double
lossy(const struct setting *set, double loss)
{
	static struct loads l;
	struct topology *t = star(2, "10G", "5us", "1M");
	/* half of the loss on each of two cables */
	struct fault_config f = {.loss_ppm = (uint32_t)(loss * 1e4 / 2), .seed = 7};
	struct sim *s;

	memset(&l, 0, sizeof(l));
	s = network(set, t, 65536, &f, &l);
	load_start(&l, s, 0, 0, (struct flow_load){.dst = 1, .len = 65536}, 32);
	must_run(s, SEC / 50);
	uint64_t before = l.bytes[0];

	must_run(s, SEC / 50 + SEC / 10);
	double part = (double)(l.bytes[0] - before) * 8 / 0.1 / 1e10 / payload_part(1500);

	sim_free(s);
	topology_free(t);
	return part;
}

static int
e3(const struct sim_options *o)
{
	static const double losses[] = {0, 0.1, 0.5, 1, 2, 3, 5, 7, 10};
	static const struct setting both[] = {{"selective", PROTO_SELECTIVE, &cc_delay, 4000, true},
		{"go-back-n", PROTO_GO_BACK_N, &cc_delay, 4000, true},
		{"selective, cc = pm", PROTO_SELECTIVE, &cc_pm, 4000, false}};
	static struct plot p;

	p = (struct plot){
		.name = "e3",
		.x_label = "loss %",
		.y_label = "part of the link rate",
		.y_max = 1,
		.title = "E3: goodput against loss, 10 Gb/s, round trip 20 us",
	};
	name_curves(&p, both, 3);
	for (unsigned k = 0; k < sizeof(losses) / sizeof(losses[0]); k++) {
		double *y = plot_row(&p, losses[k]);

		for (unsigned i = 0; i < 3; i++)
			y[i] = lossy(&both[i], losses[k]);
	}
	plot_print(&p);
	printf("selective keeps %.3f of the lossless goodput at 1 %%, %.3f at 5 %%\n\n",
		p.y[3][0] / p.y[0][0], p.y[6][0] / p.y[0][0]);
	return o->out && !plot_write(&p, o->out);
}

/* ------------------------------------------------------------------ E4: short beside long */

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

#define PHASES    16
#define TRIPS_MAX 200000

/* Measure pings from node 0 to node 1 for SEC / 2 / PHASES, with bulk messages of 1 MB from node 0
 * (and others) as the arguments say. Each further sender begins by `phase` / PHASES of a frame's
 * time at the switch later. Return how many round trips were written to trips, ns. */
static uint32_t
mixed_phase(const struct setting *set, unsigned bulk_senders, uint32_t bulk_to, unsigned phase,
	uint64_t *trips, uint32_t room)
{
	static struct loads l;
	struct topology *t = star(6, "10G", "2us", "256K");

	memset(&l, 0, sizeof(l));
	l.trips = trips;
	l.trip_cap = room;
	l.flow[PING].stopped = l.flow[PONG].stopped = true;
	struct sim *s = network(set, t, 3000, NULL, &l);

	for (uint32_t i = 0; i < bulk_senders; i++) {
		load_start(&l, s, i == 0 ? 0 : i + 2, i,
			(struct flow_load){.dst = bulk_to, .len = 1000000}, 4);
		must_run(s, sim_now(s) + 1 + 1230 * phase / PHASES);
	}
	must_run(s, SEC / 20);
	l.started[0] = sim_now(s);
	sim_send(s, 0, 1, 1, 1, 64, PING);
	must_run(s, SEC / 20 + SEC / 2 / PHASES);
	sim_free(s);
	topology_free(t);
	return l.trip_count;
}

/* Find the percentiles of the round trips of all phases, us. In a simulator senders keep the phase
 * in which they began, so one phase alone would say how those happened to meet. */
static void
mixed(const struct setting *set, unsigned bulk_senders, uint32_t bulk_to, double *p50, double *p99,
	double *p999)
{
	static uint64_t trips[TRIPS_MAX];
	uint32_t count = 0;

	for (unsigned phase = 0; phase < PHASES; phase++)
		count += mixed_phase(set, bulk_senders, bulk_to, phase, trips + count,
			TRIPS_MAX - count);
	qsort(trips, count, sizeof(trips[0]), by_value);
	*p50 = (double)trips[count / 2] / 1e3;
	*p99 = (double)trips[count / 100 * 99] / 1e3;
	*p999 = (double)trips[(uint64_t)count * 999 / 1000] / 1e3;
}

static int
e4(const struct sim_options *o)
{
	static const struct {
		const char *what;
		unsigned senders;
		uint32_t to;
	} cases[] = {{"no bulk", 0, 0}, {"bulk to the same receiver", 1, 1},
		{"bulk to another receiver", 1, 2}, {"3 bulk senders to the same", 3, 1},
		{"3 bulk senders to another", 3, 2}};
	double idle = 0, frame = 1538 * 8 / 10e3; /* us at 10 Gb/s */

	printf("E4: 64-byte round trips beside 1 MB messages, 10 Gb/s, us\n%-28s %9s %9s %9s "
	       "%12s\n",
		"", "p50", "p99", "p99.9", "bound");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double a, b, c;

		mixed(&settings[OURS], cases[i].senders, cases[i].to, &a, &b, &c);
		if (i == 0)
			idle = c;
		/* a round trip passes the switch twice */
		printf("%-28s %9.2f %9.2f %9.2f %12.2f\n", cases[i].what, a, b, c,
			3 * idle + 2 * frame);
	}
	printf("\n");
	(void)o;
	return 0;
}

/* ------------------------------------------------------------------ E5: fairness */

static double
jain(const uint64_t *now, const uint64_t *before, unsigned n)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < n; i++) {
		double x = (double)(now[i] - before[i]);

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

/* Return how long a sender that joins n others needs until it has 0.8 of its share in 1 ms, ns; 0:
 * longer than 200 ms. */
static uint64_t
late_comer(struct loads *l, struct sim *s, unsigned n)
{
	const uint64_t came = sim_now(s);

	load_start(l, s, n + 1, n, (struct flow_load){.dst = 0, .len = 16384}, 64);
	for (unsigned ms = 0; ms < 200; ms++) {
		uint64_t all = 0, was = l->bytes[n];

		for (unsigned i = 0; i <= n; i++)
			all -= l->bytes[i];
		must_run(s, sim_now(s) + MS);
		for (unsigned i = 0; i <= n; i++)
			all += l->bytes[i];
		if ((double)(l->bytes[n] - was) * (n + 1) >= 0.8 * (double)all)
			return sim_now(s) - came;
	}
	return 0;
}

static int
e5(const struct sim_options *o)
{
	static const unsigned numbers[] = {2, 4, 8, 16, 32, 64};
	static struct plot p;
	static struct loads l;
	static uint64_t before[LOADS_MAX];

	p = (struct plot){
		.name = "e5",
		.x_label = "ms",
		.y_label = "Jain index of 10 ms",
		.y_max = 1,
		.curves = 6,
		.title = "E5: fairness of N senders to one receiver, 10 Gb/s",
	};
	for (unsigned k = 0; k < 6; k++) {
		unsigned n = numbers[k];
		struct topology *t = star(n + 2, "10G", "2us", "256K");
		double worst = 1;

		memset(&l, 0, sizeof(l));
		snprintf(p.label[k], sizeof(p.label[k]), "%u flows", n);
		struct sim *s = network(&settings[OURS], t, 30000, NULL, &l);

		for (unsigned i = 0; i < n; i++)
			load_start(&l, s, i + 1, i, (struct flow_load){.dst = 0, .len = 16384}, 64);
		must_run(s, MS); /* the first 20 round trips and more */
		memcpy(before, l.bytes, sizeof(before));
		for (unsigned w = 0; w < 20; w++) {
			must_run(s, MS + (w + 1) * 10 * MS);
			double j = jain(l.bytes, before, n);

			if (p.rows <= w)
				plot_row(&p, (w + 1) * 10);
			p.y[w][k] = j;
			worst = fmin(worst, j);
			memcpy(before, l.bytes, sizeof(before));
		}
		const uint64_t got = late_comer(&l, s, n);

		printf("E5: %2u flows: worst Jain index of 10 ms %.3f; a late comer has 0.8 of its "
		       "share after %.0f ms\n",
			n, worst, got ? (double)got / 1e6 : 200.0);
		sim_free(s);
		topology_free(t);
	}
	printf("\n");
	return o->out && !plot_write(&p, o->out);
}

int
run_experiments(const struct sim_options *o)
{
	static const struct {
		const char *name;
		int (*run)(const struct sim_options *);
	} all[] = {{"e1", e1}, {"e2", e2}, {"e3", e3}, {"e4", e4}, {"e5", e5}, {"e6", e6},
		{"e7", e7}, {"e8", e8}, {"e9", e9}, {"e10", e10}, {"e11", e11}, {"e12", e12},
		{"e13", e13}, {"e14", e14}, {"e15", e15}};
	int result = 0, found = 0;

	if (o->out && mkdir(o->out, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "pmx-sim: --out %s: %s\n", o->out, strerror(errno));
		return 1;
	}
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (o->name == NULL || strcmp(o->name, all[i].name) == 0) {
			result |= all[i].run(o);
			found = 1;
		}
	}
	if (!found)
		fprintf(stderr, "pmx-sim: there is no experiment '%s': e1 to e15\n", o->name);
	return found ? result : 2;
}
