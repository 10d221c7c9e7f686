/* SPDX-License-Identifier: BSD-3-Clause
 *
 * E15: a data centre under load. Every host sends messages to random others, at random moments
 * (Poisson), of the sizes of a workload. What is measured is the slowdown: the time from sending a
 * message to its arrival as a whole, over the time that this would take if nothing else were sent.
 * It is shown by size: a tenth of all messages is in each class (as in Homa, SIGCOMM 2018, figures
 * 8 and 12).
 */
#include "workloads.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "plot/plot.h"
#include "sims.h"

#define RACKS       9
#define RACK_HOSTS  16
#define HOSTS       (RACKS * RACK_HOSTS)
#define MTU         1500
#define PAYLOAD     (MTU - WIRE_HDR_BYTES)
/* of each host; a message goes from a random one to a random one */
#define CONTEXTS    4
#define PIECE       (1u << 19) /* a longer message is sent in pieces, ... */
#define PIECES      2          /* ... so many at a time */
#define FRAME_BYTES (MTU + WIRE_FRAME_EXTRA)
#define PACE_FRAMES 2    /* that wait in a host's port if link.rate_mbps is known */
#define RING_FRAMES 1024 /* ... and if it is not: link.tx_descriptors */
#define CLASSES     10
#define TAG_NEXT    0 /* of timers: a host sends its next message */
#define NOBODY      UINT32_MAX

/* The network, as in Homa's simulations (section 5.2) but for its core, which is one switch that
 * can carry all that the hosts send: queues are at the ports of the hosts. */
#define HOST_BPS  10e9
#define TRUNK_BPS 160e9
#define HOST_NS   750 /* of a link */
#define TRUNK_NS  250
static const char fabric[] = "switch core buffer=256K\nswitch leaf[0-8] buffer=256K\n"
			     "host h[0-143]\nlink leaf[0-8] core bandwidth=160G latency=250ns\n";

/* A message, from the moment at which it is sent. */
struct load_message {
	uint64_t at;
	uint32_t bytes, sent, arrived;
	uint32_t src, dst, waits; /* waits: the next one that waits for room at its host */
	uint16_t src_ctx, dst_ctx;
	bool measured, is_waiting;
};

struct load_sample {
	uint32_t bytes, order; /* order: of being sent */
	float slowdown;
};

struct load_run {
	const struct workload *workload;
	double gap_ns; /* mean time between two messages of a host */
	struct load_message *messages;
	uint32_t count, cap;
	struct load_sample *samples;
	uint32_t sample_count, measured;
	struct {
		uint32_t head, tail;
	} waiting[HOSTS];
	uint64_t from, until;   /* messages sent in that time are measured */
	uint64_t offered, came; /* bytes, in that time */
	uint64_t random;
};

/* ------------------------------------------------------------------ in an empty network */

static double
frame_bits(uint32_t payload)
{
	return 8.0 * fmax(payload + WIRE_HDR_BYTES + WIRE_FRAME_EXTRA, 84);
}

/* Return the bits of a message on a cable, with those of one Ack. */
static double
message_bits(uint32_t bytes)
{
	const uint32_t full = bytes / PAYLOAD, rest = bytes % PAYLOAD;

	return full * frame_bits(PAYLOAD) + (rest || full == 0 ? frame_bits(rest) : 0) +
		frame_bits(0);
}

/* Return the time that a message takes alone, ns. Its frames follow one right after the other, and
 * are stored and forwarded at each switch. */
static double
alone_ns(uint32_t bytes, bool same_rack)
{
	const double rates[] = {HOST_BPS, same_rack ? HOST_BPS : TRUNK_BPS, TRUNK_BPS, HOST_BPS};
	const double latency = 2.0 * HOST_NS + (same_rack ? 0 : 2.0 * TRUNK_NS);
	const uint32_t hops = same_rack ? 2 : 4;
	const uint32_t frames = bytes == 0 ? 1 : (bytes + PAYLOAD - 1) / PAYLOAD;
	const uint32_t last = bytes - (frames - 1) * PAYLOAD;
	double full_at = (frames - 1) * frame_bits(PAYLOAD) * 1e9 / rates[0];
	double last_at = full_at + frame_bits(last) * 1e9 / rates[0];

	/* the last full frame, and the last of all, which may have to wait for it */
	for (uint32_t i = 1; i < hops; i++) {
		if (frames > 1)
			full_at += frame_bits(PAYLOAD) * 1e9 / rates[i];
		last_at = fmax(last_at, full_at) + frame_bits(last) * 1e9 / rates[i];
	}
	return last_at + latency;
}

static bool
same_rack(const struct load_message *m)
{
	return m->src / RACK_HOSTS == m->dst / RACK_HOSTS;
}

/* ------------------------------------------------------------------ the hosts' applications */

static double
uniform(struct load_run *l)
{
	return (double)(mix64_next(&l->random) >> 11) * 0x1p-53;
}

/* Send the next piece of a message. Return false if its host has no room now. */
static bool
send_piece(struct load_run *l, struct sim *s, uint32_t index)
{
	struct load_message *m = &l->messages[index];
	const uint32_t left = m->bytes - m->sent, len = left < PIECE ? left : PIECE;

	if (sim_send(s, m->src, m->src_ctx, m->dst, m->dst_ctx, len, index) != 0)
		return false;
	m->sent += len;
	return true;
}

static void
send_or_wait(struct load_run *l, struct sim *s, uint32_t index)
{
	struct load_message *m = &l->messages[index];
	const uint32_t src = m->src;

	if (m->is_waiting || (l->waiting[src].head == NOBODY && send_piece(l, s, index)))
		return;
	m->is_waiting = true;
	m->waits = NOBODY;
	if (l->waiting[src].head == NOBODY)
		l->waiting[src].head = index;
	else
		l->messages[l->waiting[src].tail].waits = index;
	l->waiting[src].tail = index;
}

static void
new_message(struct load_run *l, struct sim *s, uint32_t node)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 1u << 16;
		l->messages = realloc(l->messages, l->cap * sizeof(*l->messages));
		if (l->messages == NULL)
			exit(1);
	}
	const uint32_t index = l->count++;
	const uint64_t random = mix64_next(&l->random);
	struct load_message *m = &l->messages[index];

	*m = (struct load_message){
		.at = sim_now(s),
		.bytes = workload_size(l->workload, uniform(l)),
		.src = node,
		.dst = (node + 1 + (uint32_t)(random >> 32) % (HOSTS - 1)) % HOSTS,
		.src_ctx = random % CONTEXTS,
		.dst_ctx = random / CONTEXTS % CONTEXTS,
		.measured = sim_now(s) >= l->from && sim_now(s) < l->until,
	};
	if (m->measured) {
		l->measured++;
		l->offered += m->bytes;
	}
	const uint32_t pieces = m->bytes > PIECE ? PIECES : 1;

	for (uint32_t i = 0; i < pieces; i++)
		send_or_wait(l, s, index);
}

static void
load_timer(void *arg, struct sim *s, uint32_t node, uint32_t tag)
{
	struct load_run *l = arg;

	(void)tag;
	new_message(l, s, node);
	sim_at(s, sim_now(s) + (uint64_t)(-log(1 - uniform(l)) * l->gap_ns), node, TAG_NEXT);
}

static void
load_completed(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	struct load_run *l = arg;

	if (error != 0) {
		fprintf(stderr, "pmx-sim: a message failed: %s\n", strerror(error));
		exit(1);
	}
	if (tag != NOBODY && l->messages[tag].sent < l->messages[tag].bytes)
		send_or_wait(l, s, tag);
	for (uint32_t head; (head = l->waiting[node].head) != NOBODY && send_piece(l, s, head);) {
		l->messages[head].is_waiting = false;
		l->waiting[node].head = l->messages[head].waits;
	}
}

static void
load_delivered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct load_run *l = arg;

	if (tag == NOBODY)
		return;
	struct load_message *m = &l->messages[tag];

	if (sim_now(s) >= l->from && sim_now(s) < l->until)
		l->came += d->msg_len;
	m->arrived += d->msg_len;
	if (m->arrived < m->bytes || !m->measured)
		return;
	l->samples[l->sample_count++] = (struct load_sample){m->bytes, tag,
		(float)((double)(sim_now(s) - m->at) / alone_ns(m->bytes, same_rack(m)))};
}

/* ------------------------------------------------------------------ what came of it */

struct load_class {
	uint32_t most; /* bytes of its longest message */
	double p50, p99, mean;
};

struct load_result {
	struct load_class classes[CLASSES], shortest; /* shortest: below 1 KB, or the first class */
	double goodput;                               /* part of what was offered */
	uint64_t drops, queue_max;
};

static int
by_size(const void *a, const void *b)
{
	const struct load_sample *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes)
				    : (x->order > y->order) - (x->order < y->order);
}

static int
by_slowdown(const void *a, const void *b)
{
	const struct load_sample *x = a, *y = b;

	return (x->slowdown > y->slowdown) - (x->slowdown < y->slowdown);
}

/* Judge some samples, whose order it changes. */
static struct load_class
judge(struct load_sample *samples, uint32_t count)
{
	struct load_class c = {0};

	for (uint32_t i = 0; i < count; i++) {
		c.most = samples[i].bytes > c.most ? samples[i].bytes : c.most;
		c.mean += samples[i].slowdown / count;
	}
	qsort(samples, count, sizeof(*samples), by_slowdown);
	c.p50 = count ? samples[count / 2].slowdown : NAN;
	c.p99 = count ? samples[(uint64_t)count * 99 / 100].slowdown : NAN;
	return c;
}

static struct load_result
judge_all(struct load_run *l, const struct sim *s)
{
	struct load_result r = {
		.goodput = (double)l->came / (double)l->offered,
	};
	uint32_t below = 0;

	for (uint32_t i = 0; i < l->count; i++) { /* what has not come yet is at least so slow */
		const struct load_message *m = &l->messages[i];

		if (m->measured && m->arrived < m->bytes)
			l->samples[l->sample_count++] = (struct load_sample){m->bytes, i,
				(float)((double)(sim_now(s) - m->at) /
					alone_ns(m->bytes, same_rack(m)))};
	}
	qsort(l->samples, l->sample_count, sizeof(*l->samples), by_size);
	while (below < l->sample_count && l->samples[below].bytes < 1024)
		below++;
	struct load_sample *copy = malloc((below + 1) * sizeof(*copy));

	memcpy(copy, l->samples, below * sizeof(*copy));
	if (below > 0)
		r.shortest = judge(copy, below);
	free(copy);
	for (uint32_t i = 0; i < CLASSES; i++) {
		const uint32_t first = (uint32_t)((uint64_t)l->sample_count * i / CLASSES);
		const uint32_t end = (uint32_t)((uint64_t)l->sample_count * (i + 1) / CLASSES);

		r.classes[i] = judge(l->samples + first, end - first);
	}
	if (below == 0)
		r.shortest = r.classes[0];
	return r;
}

/* ------------------------------------------------------------------ a run */

/* One of several configurations that are compared under the same load. */
struct load_setting {
	const char *label;
	void (*apply)(struct sim_config *c);
};

static struct topology *
tree(void)
{
	char text[4096];
	int at = snprintf(text, sizeof(text), "%s", fabric);

	for (uint32_t i = 0; i < RACKS; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			"link h[%u-%u] leaf%u bandwidth=10G latency=750ns\n", i * RACK_HOSTS,
			(i + 1) * RACK_HOSTS - 1, i);
	return parsed(text);
}

/* Open all flows, a peer after the other, as those of processes are that have run for a while. */
static void
open_flows(struct sim *s)
{
	for (uint32_t i = 0; i < HOSTS; i++) {
		for (uint16_t k = 0; k < CONTEXTS; k++)
			sim_open(s, i, k);
	}
	for (uint32_t peer = 1; peer < HOSTS; peer++) {
		for (uint32_t i = 0; i < HOSTS; i++) {
			for (uint32_t k = 0; k < CONTEXTS * CONTEXTS; k++)
				sim_send(s, i, k % CONTEXTS, (i + peer) % HOSTS,
					(uint16_t)(k / CONTEXTS), 8, NOBODY);
		}
		must_run(s, sim_now(s) + 20 * US);
	}
	must_run(s, sim_now(s) + 5 * MS);
}

static struct sim *
load_network(const struct load_setting *set, struct topology *t, struct load_run *l)
{
	struct sim_config c = {
		.topology = t,
		.proto = sim_defaults(HOSTS, MTU),
		.entries = 4096,
		.bulks = 65536,
		.inline_max = 40,
		.nic_bytes = PACE_FRAMES * FRAME_BYTES,
		.seed = 1,
		.delivered = load_delivered,
		.completed = load_completed,
		.timer = load_timer,
		.arg = l,
	};

	c.proto.flows_max = HOSTS * CONTEXTS * CONTEXTS + 16;
	c.proto.tx_frames_max = 32768;
	c.proto.rx_frames_max = 32768;
	set->apply(&c);
	return sim_new(&c);
}

/* Begin to send at all hosts, measure so many messages, and wait for them, but not for ever. */
static void
load_measure(struct load_run *l, struct sim *s, uint32_t messages)
{
	const uint64_t span = (uint64_t)(l->gap_ns * messages / HOSTS);

	l->from = sim_now(s) + span / 2;
	l->until = l->from + span;
	for (uint32_t i = 0; i < HOSTS; i++)
		sim_at(s, sim_now(s) + (uint64_t)(uniform(l) * l->gap_ns), i, TAG_NEXT);
	must_run(s, l->until);
	for (uint32_t i = 0; i < 4 && l->sample_count < l->measured; i++)
		must_run(s, sim_now(s) + span / 2);
}

static struct load_result
load_run(const struct load_setting *set, const struct workload *w, double part, uint32_t messages)
{
	struct topology *t = tree();
	struct load_run l = {
		.workload = w,
		.gap_ns = workload_mean(w, message_bits) * 1e9 / (part * HOST_BPS),
		.from = UINT64_MAX,
		.until = UINT64_MAX,
		.random = 7,
		.samples = malloc((size_t)messages * 2 * sizeof(*l.samples)),
	};
	struct sim *s = load_network(set, t, &l);

	for (uint32_t i = 0; i < HOSTS; i++)
		l.waiting[i].head = NOBODY;
	open_flows(s);
	for (uint32_t i = 0; i < t->edge_count; i++)
		sim_edge_reset(s, i);
	load_measure(&l, s, messages);
	struct load_result r = judge_all(&l, s);

	for (uint32_t i = 0; i < t->edge_count; i++) {
		const struct sim_edge_stat *e = sim_edge(s, i);

		r.drops += e->drops;
		r.queue_max = e->queue_max > r.queue_max ? e->queue_max : r.queue_max;
	}
	free(l.messages);
	free(l.samples);
	sim_free(s);
	topology_free(t);
	return r;
}

/* ------------------------------------------------------------------ E15 */

static void
shipped(struct sim_config *c)
{
	(void)c;
}

static void
rate_unknown(struct sim_config *c)
{
	c->proto.port_bps = 0;
	c->nic_bytes = RING_FRAMES * FRAME_BYTES;
}

static void
senders_only(struct sim_config *c)
{
	c->proto.port_bps = 0;
	c->proto.share_target_us = 0;
}

static void
pm(struct sim_config *c)
{
	senders_only(c);
	c->proto.cc = &cc_pm;
}

static void
dctcp(struct sim_config *c)
{
	senders_only(c);
	c->proto.cc = &cc_dctcp;
}

static void
windows_only(struct sim_config *c)
{
	senders_only(c);
	c->proto.cc = &cc_fixed;
	c->proto.path_bytes = 65536;
}

static const struct load_setting settings[] = {
	{"rate known", shipped},
	{"rate not known", rate_unknown},
	{"cc = delay only", senders_only},
	{"cc = pm", pm},
	{"DCTCP-like", dctcp},
	{"windows of 64 KiB", windows_only},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* So many messages of each workload are measured. */
static const uint32_t load_messages[WORKLOADS] = {200000, 200000, 200000, 20000, 4000};

static void
print_result(const char *label, const struct load_result *r)
{
	printf("%-18s %6.2f %6.2f", label, r->shortest.p50, r->shortest.p99);
	for (unsigned i = 0; i < CLASSES; i++)
		printf(" %6.1f", r->classes[i].p99);
	printf(" %6.1f %7.3f %7.0f %7lu\n", r->classes[CLASSES - 1].mean, r->goodput,
		(double)r->queue_max / 1e3, r->drops);
	fflush(stdout);
}

/* Run one workload at one load with all settings: a table, and a curve for each setting. */
static bool
e15_workload(const struct sim_options *o, unsigned w, unsigned percent)
{
	static struct plot p;
	char name[32];

	snprintf(name, sizeof(name), "e15-%s-%u", workloads[w].name, percent);
	p = (struct plot){
		.name = name,
		.x_label = "messages up to this size, %",
		.y_label = "slowdown, 99th percentile",
		.y_log = true,
		.curves = SETTINGS,
	};
	snprintf(p.title, sizeof(p.title), "E15: %s at %u %% of 10 Gb/s, 144 hosts",
		workloads[w].name, percent);
	for (unsigned k = 0; k < CLASSES; k++)
		plot_row(&p, (k + 1) * 100.0 / CLASSES);
	printf("E15: %s at %u %% load, slowdown: below 1 KB, or the shortest tenth (p50, p99); by "
	       "tenths (p99), the longest tenth (mean)\n",
		workloads[w].name, percent);
	for (unsigned i = 0; i < SETTINGS; i++) {
		snprintf(p.label[i], sizeof(p.label[i]), "%s", settings[i].label);
		if (o->quick && i > 0)
			continue;
		const struct load_result r = load_run(&settings[i], &workloads[w], percent / 100.0,
			load_messages[w] / (o->quick ? 10 : 1));

		if (i == 0) {
			printf("%-18s %13s", "bytes", "");
			for (unsigned k = 0; k < CLASSES; k++)
				printf(" %6u", r.classes[k].most);
			printf(" %6s %7s %7s %7s\n", "mean", "arrived", "queue K", "lost");
		}
		print_result(settings[i].label, &r);
		for (unsigned k = 0; k < CLASSES; k++)
			p.y[k][i] = r.classes[k].p99;
	}
	printf("\n");
	return !o->out || plot_write(&p, o->out);
}

int
e15(const struct sim_options *o)
{
	for (unsigned w = 0; w < WORKLOADS; w++) {
		if (!e15_workload(o, w, 80) || (!o->quick && !e15_workload(o, w, 50)))
			return 1;
	}
	return 0;
}
