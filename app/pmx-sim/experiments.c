/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The published experiments on the simulated network: E1 gather (SWoPP 2008, figures 1 and 2). Tables to
 * stdout; CSV and SVG into --out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "sims.h"

/* ------------------------------------------------------------------ what is compared */

/* No control at all: the window is what the configuration says (PM without section 3's windows). */
static void
fixed_on_ack(struct cc *c, uint32_t acked, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	(void)c, (void)acked, (void)rtt, (void)srtt, (void)now;
}

static bool
fixed_on_nack(struct cc *c, uint32_t srtt, uint32_t now)
{
	(void)c, (void)srtt, (void)now;
	return false;
}

static bool
fixed_on_timeout(struct cc *c, uint32_t now)
{
	(void)c, (void)now;
	return false;
}

static const struct cc_ops cc_fixed = {
	.name = "fixed",
	.on_ack = fixed_on_ack,
	.on_nack = fixed_on_nack,
	.on_timeout = fixed_on_timeout,
};

/* TCP as the gather paper met it: slow start, halving by loss, one segment after a timeout
 * (Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988); its minimum timeout is 200 ms. */
static void
tcp_on_ack(struct cc *c, uint32_t acked, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	(void)rtt, (void)srtt, (void)now;
	if (c->slow == 0) { /* the first Ack: ten segments (RFC 6928), no threshold yet */
		c->slow = c->max_bytes;
		c->window_bytes = 10 * c->step;
	}
	c->acc += c->window_bytes < c->slow ? c->window_bytes : acked;
	if (c->window_bytes < c->slow) {
		c->window_bytes += acked;
	} else if (c->acc >= c->window_bytes) {
		c->acc = 0;
		c->window_bytes += c->step;
	}
	if (c->window_bytes > c->max_bytes)
		c->window_bytes = c->max_bytes;
}

static bool
tcp_on_nack(struct cc *c, uint32_t srtt, uint32_t now)
{
	if (now - c->last_cut < srtt)
		return false;
	c->slow = c->window_bytes / 2 > 2 * c->step ? c->window_bytes / 2 : 2 * c->step;
	c->window_bytes = c->slow;
	c->acc = 0;
	c->last_cut = now;
	return true;
}

static bool
tcp_on_timeout(struct cc *c, uint32_t now)
{
	c->slow = c->window_bytes / 2 > 2 * c->step ? c->window_bytes / 2 : 2 * c->step;
	c->window_bytes = c->step;
	c->acc = 0;
	c->last_cut = now;
	return true;
}

static const struct cc_ops cc_tcp = {
	.name = "tcp",
	.on_ack = tcp_on_ack,
	.on_nack = tcp_on_nack,
	.on_timeout = tcp_on_timeout,
};

struct setting {
	const char *label;
	enum proto_recovery recovery;
	const struct cc_ops *cc;
	uint32_t rto_min_us;
};

static const struct setting settings[] = {
	{"go-back-n fixed", PROTO_GO_BACK_N, &cc_fixed, 4000},
	{"cc = pm", PROTO_SELECTIVE, &cc_pm, 4000},
	{"cc = delay", PROTO_SELECTIVE, &cc_delay, 4000},
	{"TCP-like, 200 ms", PROTO_SELECTIVE, &cc_tcp, 200000},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static struct proto_config
configured(const struct setting *set, uint32_t nodes)
{
	struct proto_config c = sim_defaults(nodes, 1500);

	c.recovery = set->recovery;
	c.cc = set->cc;
	c.rto_min_us = set->rto_min_us;
	if (c.rto_max_us < 4 * c.rto_min_us)
		c.rto_max_us = 4 * c.rto_min_us;
	return c;
}

/* Part of a link that frames of full size leave to payloads. */
static double
payload_part(uint32_t mtu)
{
	return (double)(mtu - WIRE_HDR_BYTES) / (mtu + SIM_FRAME_EXTRA);
}

static _Noreturn void
give_up(struct sim *s)
{
	fprintf(stderr, "pmx-sim: at %.6f s: %s\n", (double)sim_now(s) / 1e9, sim_error(s));
	exit(1);
}

/* ------------------------------------------------------------------ E1: gather */

#define E1_BYTES 1000000u
#define E1_PIECE 62500u /* of a message: 16 a sender */

struct gather {
	uint64_t received, total, begin, end, last, longest; /* bytes; ns */
	uint32_t senders;
	struct plot *over_time;
	unsigned curve;
	uint64_t slot;
};

static void
gathered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct gather *g = arg;

	(void)tag;
	if (d->msg_len != E1_PIECE)
		return;
	g->received += E1_PIECE;
	if (sim_now(s) - g->last > g->longest)
		g->longest = sim_now(s) - g->last;
	g->last = sim_now(s);
	if (g->received == g->total)
		g->end = sim_now(s);
}

/* What one gather showed. */
struct gathering {
	double rate;      /* of what the link can carry as payload */
	double stall_ms;  /* longest silence between two messages */
	uint64_t drops;
	double last_drop_ms;
};

static struct gathering
gather(const struct setting *set, unsigned senders, const char *bandwidth, double bps, const char *buffer,
	struct plot *over_time, unsigned curve)
{
	struct topology *t = star(senders + 1, bandwidth, "5us", buffer);
	uint32_t pieces = (uint32_t)(bps / 1e9) * (E1_BYTES / E1_PIECE);
	struct gather g = {.senders = senders, .over_time = over_time, .curve = curve,
		.total = (uint64_t)senders * pieces * E1_PIECE};
	struct sim_config c = {.topology = t, .proto = configured(set, senders + 1), .entries = 4096,
		.bulks = 65536, .inline_max = 40, .nic_bytes = 65536, .seed = 1, .delivered = gathered,
		.arg = &g};
	struct sim *s;

	c.proto.rx_frames_max = 65536;
	c.proto.tx_frames_max = pieces * (E1_PIECE / c.proto.payload_max + 1) + 1;
	s = sim_new(&c);
	for (uint32_t i = 0; i <= senders; i++)
		sim_open(s, i, 0);
	/* connected, as MPI's processes are */
	for (uint32_t i = 1; i <= senders; i++)
		sim_send(s, i, 0, 0, 0, 8, 0);
	sim_run(s, SEC / 10);
	g.begin = g.last = sim_now(s);
	for (uint32_t i = 1; i <= senders; i++) {
		for (uint32_t k = 0; k < pieces; k++) {
			if (sim_send(s, i, 0, 0, 0, E1_PIECE, 0) != 0)
				break;
		}
	}
	for (uint64_t at = g.begin; g.end == 0; at += SEC / 500) {
		if (!sim_run(s, at))
			give_up(s);
		if (over_time != NULL && at - g.begin < SEC / 500 * PLOT_ROWS) {
			unsigned row = (unsigned)((at - g.begin) / (SEC / 500));

			while (over_time->rows <= row)
				plot_row(over_time, (double)over_time->rows * 2);
			over_time->y[row][curve] = (double)g.received / 1e6;
		}
	}
	uint32_t port = t->edges[t->vertices[t->hosts[0]].first_edge].reverse;
	const struct sim_edge_stat *e = sim_edge(s, port);
	struct gathering r = {
		.rate = (double)g.total * 8 / ((double)(g.end - g.begin) / 1e9) / bps / payload_part(1500),
		.stall_ms = (double)g.longest / 1e6,
		.drops = e->drops,
		.last_drop_ms = e->drops ? (double)(e->last_drop - g.begin) / 1e6 : 0,
	};

	sim_free(s);
	topology_free(t);
	return r;
}

static int
e1(const struct options *o)
{
	static const struct {
		const char *name;
		double bps;
	} rates[] = {{"1G", 1e9}, {"10G", 1e10}, {"25G", 2.5e10}, {"100G", 1e11}};
	static const char *const buffers[] = {"64K", "128K", "256K", "512K", "1M"};
	static const unsigned numbers[] = {2, 4, 8, 12, 16, 24, 32, 40, 48};
	static struct plot p, q;

	for (unsigned r = 0; r < 4; r++) {
		for (unsigned b = 0; b < 5; b++) {
			if (o->quick && b != 1 && b != 4)
				continue;
			char name[64];

			snprintf(name, sizeof(name), "e1-%s-%s", rates[r].name, buffers[b]);
			p = (struct plot){.name = name, .x_label = "senders", .y_label = "part of the link rate",
				.y_max = 1, .curves = SETTINGS};
			snprintf(p.title, sizeof(p.title), "E1: N senders of 1 MB to one, %sb/s, %s of port buffer",
				rates[r].name, buffers[b]);
			for (unsigned i = 0; i < SETTINGS; i++)
				snprintf(p.label[i], sizeof(p.label[i]), "%s", settings[i].label);
			for (unsigned n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
				double *y = plot_row(&p, numbers[n]);

				for (unsigned i = 0; i < SETTINGS; i++) {
					struct gathering g = gather(&settings[i], numbers[n],
						rates[r].name, rates[r].bps, buffers[b], NULL, 0);

					y[i] = g.rate;
					if (o->trace)
						printf("%s N %u %s: rate %.3f stall %.2f ms drops %lu last %.2f ms\n", name,
							numbers[n], settings[i].label, g.rate, g.stall_ms, g.drops, g.last_drop_ms);
				}
			}
			plot_print(&p);
			if (o->out && !plot_write(&p, o->out))
				return 1;
		}
	}
	q = (struct plot){.name = "e1-time", .x_label = "ms", .y_label = "MB received", .curves = SETTINGS,
		.title = "E1: bytes received over time, 32 senders of 1 MB, 1 Gb/s, 128K of port buffer"};
	for (unsigned i = 0; i < SETTINGS; i++) {
		snprintf(q.label[i], sizeof(q.label[i]), "%s", settings[i].label);
		gather(&settings[i], 32, "1G", 1e9, "128K", &q, i);
	}
	return o->out && !plot_write(&q, o->out);
}

int
run_experiments(const struct options *o)
{
	static const struct {
		const char *name;
		int (*run)(const struct options *);
	} all[] = {{"e1", e1}};
	int result = 0, found = 0;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (o->name == NULL || strcmp(o->name, all[i].name) == 0) {
			result |= all[i].run(o);
			found = 1;
		}
	}
	if (!found)
		fprintf(stderr, "pmx-sim: there is no experiment '%s': e1 to e5\n", o->name);
	return found ? result : 2;
}
