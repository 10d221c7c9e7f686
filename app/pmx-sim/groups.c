/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups in the simulator (lib/group at every node): how long a barrier takes, and a multicast by
 * the network beside one by a list.
 */
#include <stdlib.h>
#include <string.h>

#include "group/group.h"
#include "plot/plot.h"
#include "sims.h"

#define MEMBERS_MAX 256
#define SENDS_MAX   4096
#define ID          1
#define GROUP_CTX   0 /* of each node: what engines tell each other */
#define BYTES_CTX   1 /* ... and pushes */

/* A message of a group that the core has. */
struct group_sent {
	struct group_frame *frame; /* NULL: bytes of a push */
	struct wire_group message;
	uint32_t len;
};

struct groups_member {
	struct groups *groups;
	uint64_t counters[GROUP_COUNTERS];
	int place;
	uint64_t tick_at; /* of its timer */
};

/* Frames of the multicast that is under way, by the tag of the simulator. */
struct air {
	uint8_t head[WIRE_MULTI_HEAD(MEMBERS_MAX)];
	uint32_t len;
};

static struct {
	struct sim *sim;
	uint32_t count;
	struct groups_member members[MEMBERS_MAX];
	struct group_sent sent[SENDS_MAX];
	uint32_t used; /* of sent; they are used in turn */
	uint32_t opened, passed;
	struct air *air;
	uint32_t air_count, air_max;
	uint32_t unit;
	uint32_t rest;  /* pushes of the multicast that are not completed */
	bool cast_over; /* all have answered */
	/* by a list: bytes that are not sent yet, to each */
	uint64_t left[MEMBERS_MAX];
	uint32_t list_open; /* messages that are not completed */
} w;

static void
groups_fail(const char *what)
{
	fprintf(stderr, "pmx-sim: at %.6f s: %s\n", (double)sim_now(w.sim) / 1e9, what);
	exit(1);
}

static void
groups_run(uint64_t until)
{
	if (!sim_run(w.sim, until))
		groups_fail(sim_error(w.sim));
}

/* ------------------------------------------------------------------ what nodes send */

static uint32_t
new_tag(const struct group_sent *s)
{
	for (uint32_t k = 0; k < SENDS_MAX; k++) {
		struct group_sent *at = &w.sent[w.used++ % SENDS_MAX];

		if (at->len != 0)
			continue;
		*at = *s;
		return (uint32_t)(at - w.sent);
	}
	groups_fail("too many messages under way");
	return 0;
}

/* Begin a push of bytes, which are not written down. false: not now. */
static bool
push(uint32_t from, uint32_t to, uint32_t len)
{
	const uint32_t tag = new_tag(&(struct group_sent){.len = len});

	if (sim_send(w.sim, from, BYTES_CTX, to, BYTES_CTX, len, tag) == 0)
		return true;
	w.sent[tag].len = 0;
	return false;
}

static void
send_messages(uint32_t node)
{
	struct groups *g = w.members[node].groups;
	struct group_frame *f;

	while ((f = groups_tx(g)) != NULL) {
		if (f->to.node == node) {
			const struct wire_group message = f->message;

			groups_sent(g, f, 0);
			groups_message(g, GROUP_CTX, (struct group_addr){(uint16_t)node, GROUP_CTX},
				0, &message, sizeof(message));
			groups_acked(g, f, 0);
			continue;
		}
		const uint32_t tag = new_tag(
			&(struct group_sent){f, f->message, sizeof(f->message)});
		const int result = sim_send(w.sim, node, GROUP_CTX, f->to.node, GROUP_CTX,
			sizeof(f->message), tag);

		if (result != 0)
			w.sent[tag].len = 0;
		groups_sent(g, f, (uint8_t)-result);
		if (result != 0)
			return;
	}
}

static void
send_frames(uint32_t node)
{
	struct group_cast_frame f;

	/* the engine asks its link for room first: a frame that cannot go is asked for again */
	while (w.air_count < w.air_max) {
		if (sim_port_is_full(w.sim, node)) {
			sim_at(w.sim, sim_now(w.sim) + 10 * US, node, 0);
			return;
		}
		if (!groups_cast_tx(w.members[node].groups, &f, sim_now(w.sim)))
			return;
		struct air *a = &w.air[w.air_count];

		memcpy(a->head, f.head, f.head_len);
		a->len = f.head_len + f.len;
		if (sim_multicast(w.sim, node, GROUP_CTX | WIRE_GROUP, a->len, w.air_count) != 0)
			groups_fail("a port without room");
		w.air_count++;
	}
}

static void
result(uint32_t node, const struct group_result *r)
{
	switch (r->kind) {
	case GROUP_OPENED:
		w.opened += r->error == 0;
		break;
	case GROUP_BARRIER:
		if (r->error != 0)
			groups_fail("a barrier ended with an error");
		w.passed++;
		break;
	case GROUP_LACKS:
		for (uint32_t i = 0, n; i < 32; i += n + 1) {
			for (n = 0; i + n < 32 && r->bits >> (i + n) & 1;)
				n++;
			if (n == 0)
				continue;
			if (!push(node, r->rank, n * w.unit))
				groups_fail("a push that cannot begin");
			w.rest++;
		}
		break;
	case GROUP_CAST:
		w.cast_over = true;
		break;
	}
}

static void
pump(uint32_t node)
{
	struct groups_member *m = &w.members[node];
	struct group_result r;

	if (sim_now(w.sim) >= groups_deadline(m->groups))
		groups_tick(m->groups, sim_now(w.sim));
	send_messages(node);
	send_frames(node);
	while (group_result(m->groups, GROUP_CTX, &r))
		result(node, &r);
	const uint64_t at = groups_deadline(m->groups);

	if (at != UINT64_MAX && (m->tick_at <= sim_now(w.sim) || at < m->tick_at)) {
		m->tick_at = at > sim_now(w.sim) ? at : sim_now(w.sim) + 1;
		sim_at(w.sim, m->tick_at, node, 0);
	}
}

/* ------------------------------------------------------------------ what happens */

static void
delivered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	const uint32_t node = sim_here(s);

	(void)arg;
	if (d->ctx == GROUP_CTX)
		groups_message(w.members[node].groups, GROUP_CTX,
			(struct group_addr){d->src_node, GROUP_CTX}, 1, &w.sent[tag].message,
			sizeof(w.sent[tag].message));
	pump(node);
}

/* The list: a piece to each in turns, some ahead. */
#define PIECE 65536u
#define AHEAD 2

static void
list_next(uint32_t to)
{
	const uint32_t n = w.left[to] < PIECE ? (uint32_t)w.left[to] : PIECE;

	if (n == 0)
		return;
	if (!push(0, to, n))
		groups_fail("a push that cannot begin");
	w.left[to] -= n;
	w.list_open++;
}

static void
completed(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	struct group_sent *was = &w.sent[tag];
	struct group_frame *f = was->frame;

	(void)arg;
	(void)s;
	if (error != 0)
		groups_fail("a message was not delivered");
	was->len = 0;
	if (f != NULL)
		groups_acked(w.members[node].groups, f, 0);
	else if (w.list_open > 0)
		w.list_open--;
	else
		w.rest--;
	pump(node);
}

static void
timer(void *arg, struct sim *s, uint32_t node, uint32_t tag)
{
	(void)arg, (void)s, (void)tag;
	pump(node);
}

static void
multicast(void *arg, struct sim *s, uint32_t src, uint32_t tag)
{
	const uint32_t node = sim_here(s);
	const struct air *a = &w.air[tag];
	struct groups *g = w.members[node].groups;
	struct group_cast_place p;

	(void)arg;
	for (uint32_t at = 0;
		groups_cast_heard(g, &at, (struct group_addr){(uint16_t)src, GROUP_CTX}, a->head,
			a->len, &p, sim_now(s));)
		group_cast_placed(g, &p);
	pump(node);
}

/* ------------------------------------------------------------------ a cluster */

static void
cluster_end(struct topology *t)
{
	for (uint32_t i = 0; i < w.count; i++)
		free(w.members[i].groups);
	free(w.air);
	sim_free(w.sim);
	topology_free(t);
}

/* Give a node the lane of groups that its member is in. */
static void
member_begin(uint32_t node, struct groups_config *c)
{
	struct groups_member *m = &w.members[node];

	sim_open(w.sim, node, GROUP_CTX);
	sim_open(w.sim, node, BYTES_CTX);
	c->counters = m->counters;
	const size_t bytes = groups_memsize(c);
	void *memory = aligned_alloc(64, bytes);

	if (memory == NULL)
		groups_fail("out of memory");
	memset(memory, 0, bytes);
	m->groups = groups_init(memory, c);
}

/* Have a node join the group. */
static void
member_joins(uint32_t node)
{
	const struct group_params p = {
		.id = ID,
		.rank = (uint16_t)node,
		.count = (uint16_t)w.count,
		.random = 0x1234567,
		.give_up = 10 * SEC,
	};
	const struct group_addr own = {(uint16_t)node, GROUP_CTX};
	struct groups_member *m = &w.members[node];

	m->place = group_open(m->groups, GROUP_CTX, &p);
	for (uint32_t k = 0; k < w.count; k++) {
		const struct group_addr a = {(uint16_t)k, GROUP_CTX};

		if (group_list(m->groups, GROUP_CTX, (uint32_t)m->place, &own, &a, 1, 0))
			groups_fail("the list of members is refused");
	}
	pump(node);
}

/* Let all nodes of the topology join a group, and run until it is open. */
static void
cluster_begin(struct topology *t, uint32_t mtu, double loss)
{
	struct groups_config c = {
		.groups_max = 1,
		.members_max = MEMBERS_MAX,
		.frames_max = 256,
		.join_ticks = 5 * MS,
		.wait_ticks = 50 * US,
		.round_ticks = MS,
	};
	struct sim_config sc = {
		.topology = t,
		.proto = sim_defaults(t->host_count, mtu),
		.entries = 4096,
		.bulks = 65536,
		.inline_max = 40,
		.nic_bytes = 65536,
		/* on each of the two cables */
		.fault = {.loss_ppm = (uint32_t)(loss * 1e4 / 2), .seed = 3},
		.seed = 1,
		.delivered = delivered,
		.completed = completed,
		.timer = timer,
		.multicast = multicast,
	};

	memset(&w, 0, sizeof(w));
	w.count = t->host_count;
	sc.proto.rx_frames_max = sc.proto.tx_frames_max = 16384;
	w.sim = sim_new(&sc);
	if (w.sim == NULL)
		exit(1);
	for (uint32_t i = 0; i < w.count; i++)
		member_begin(i, &c);
	for (uint32_t i = 0; i < w.count; i++)
		member_joins(i);
	for (uint64_t at = MS; w.opened < w.count; at += MS) {
		if (at > 10 * SEC)
			groups_fail("the group does not open");
		groups_run(at);
	}
	groups_run(sim_now(w.sim) + 10 * MS);
}

/* ------------------------------------------------------------------ experiments */

/* Return the nanoseconds of a frame with so many bytes of payload on a line. */
static double
frame_ns(uint32_t payload, double bps)
{
	return (payload + WIRE_HDR_BYTES + WIRE_FRAME_EXTRA) * 8 / bps * 1e9;
}

#define BARRIERS 100

int
e6(const struct sim_options *o)
{
	static const unsigned counts[] = {2, 4, 8, 16, 32, 64, 128, 193};
	static struct plot p;

	p = (struct plot){
		.name = "e6",
		.x_label = "members",
		.y_label = "us",
		.curves = 2,
		.label = {"a barrier", "two latencies and the frames at rank 0"},
		.title = "E6: barrier, 10 Gb/s, 5 us a cable, one switch",
	};
	for (unsigned k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		const unsigned n = counts[k];

		if (o->quick && n != 8 && n != 64)
			continue;
		struct topology *t = star(n, "10G", "5us", "256K");

		cluster_begin(t, 1500, 0);
		uint64_t took = 0;

		for (unsigned b = 0; b < BARRIERS; b++) {
			const uint64_t from = sim_now(w.sim);

			w.passed = 0;
			for (uint32_t i = 0; i < n; i++) {
				if (group_barrier(w.members[i].groups, GROUP_CTX,
					    (uint32_t)w.members[i].place) < 0)
					groups_fail("a barrier is refused");
				pump(i);
			}
			while (w.passed < n)
				groups_run(sim_now(w.sim) + US / 10);
			took += sim_now(w.sim) - from;
			groups_run(sim_now(w.sim) + 100 * US); /* the Acks */
		}
		const double line = frame_ns(sizeof(struct wire_group), 10e9);
		/* two cables each way, on each of which the frame is sent anew */
		const double bound = 2 * (2 * 5000 + line + (n - 1) * line);
		double *y = plot_row(&p, n);

		y[0] = (double)took / BARRIERS / 1e3;
		y[1] = bound / 1e3;
		cluster_end(t);
	}
	plot_print(&p);
	for (unsigned i = 0; i < p.rows; i++)
		printf("E6: %3.0f members: %.3f of the bound\n", p.x[i], p.y[i][0] / p.y[i][1]);
	printf("\n");
	return o->out && !plot_write(&p, o->out);
}

#define CAST_BYTES (1u << 20)
#define CAST_BPS   1e9

/* Return the milliseconds of a multicast by the network to all others. *sent gets the bytes that
 * leave the sender. */
static double
by_network(unsigned receivers, uint32_t mtu, double loss, double *sent)
{
	struct topology *t = star(receivers + 1, "1G", "5us", "128K");
	const uint32_t up = t->vertices[t->hosts[0]].first_edge;
	struct groups_member *m = &w.members[0];

	cluster_begin(t, mtu, loss);
	w.unit = mtu - WIRE_HDR_BYTES - (uint32_t)WIRE_MULTI_HEAD(w.count);
	w.air_max = (CAST_BYTES - 1) / w.unit + 1;
	w.air = calloc(w.air_max, sizeof(*w.air));
	if (w.air == NULL)
		groups_fail("out of memory");
	const struct group_cast c = {.len = CAST_BYTES, .unit = w.unit};
	const uint64_t from = sim_now(w.sim), before = sim_edge(w.sim, up)->bytes;

	for (uint32_t i = 1; i < w.count; i++) {
		if (group_cast_to(m->groups, GROUP_CTX, (uint32_t)m->place, i / 32, 1u << i % 32))
			groups_fail("a receiver is refused");
	}
	if (group_cast(m->groups, GROUP_CTX, (uint32_t)m->place, &c) != 0)
		groups_fail("a multicast is refused");
	pump(0);
	while (!w.cast_over || w.rest > 0)
		groups_run(sim_now(w.sim) + US);
	const double ms = (double)(sim_now(w.sim) - from) / 1e6;

	*sent = (double)(sim_edge(w.sim, up)->bytes - before);
	cluster_end(t);
	return ms;
}

static double
by_list(unsigned receivers, uint32_t mtu)
{
	struct topology *t = star(receivers + 1, "1G", "5us", "128K");

	cluster_begin(t, mtu, 0);
	const uint64_t from = sim_now(w.sim);
	bool done = false;

	for (uint32_t i = 1; i < w.count; i++)
		w.left[i] = CAST_BYTES;
	/* a piece to each, so the list is gone through again and again */
	while (!done) {
		done = w.list_open == 0;
		for (uint32_t i = 1; i < w.count && w.list_open < AHEAD * receivers; i++) {
			done &= w.left[i] == 0;
			list_next(i);
		}
		if (!done)
			groups_run(sim_now(w.sim) + US);
	}
	const double ms = (double)(sim_now(w.sim) - from) / 1e6;

	cluster_end(t);
	return ms;
}

int
e7(const struct sim_options *o)
{
	static const unsigned counts[] = {1, 2, 4, 8, 16, 32, 64, 100};
	static const uint32_t mtus[] = {1500, 9000};
	static struct plot p;
	int result = 0;

	for (unsigned j = 0; j < 2; j++) {
		const uint32_t mtu = mtus[j];
		double part[8], list[8];

		p = (struct plot){
			.name = mtu == 1500 ? "e7" : "e7_jumbo",
			.y_label = "ms",
			.x_label = "receivers",
			.y_log = true,
			.curves = 4,
			.label = {"by the network", "by the network, 1 % loss", "by a list",
				"1 MiB at 1 Gb/s"},
		};
		snprintf(p.title, sizeof(p.title),
			"E7: multicast of 1 MiB, 1 Gb/s, 5 us a cable, MTU %u", mtu);
		for (unsigned k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			const unsigned n = counts[k];
			double lossy;

			if (o->quick && n != 8 && n != 16)
				continue;
			double *y = plot_row(&p, n);

			y[0] = by_network(n, mtu, 0, &part[p.rows - 1]);
			y[1] = by_network(n, mtu, 1, &lossy);
			y[2] = by_list(n, mtu);
			y[3] = CAST_BYTES * 8 / CAST_BPS * 1e3;
			list[p.rows - 1] = y[2];
		}
		plot_print(&p);
		for (unsigned i = 0; i < p.rows; i++)
			printf("E7: MTU %u, %3.0f receivers: %.3f of 1 MiB leave the sender; %.2f "
			       "of its time, with 1 %% loss %.2f; the list takes %.2f times as "
			       "long, %.3f of so many times 1 MiB\n",
				mtu, p.x[i], part[i] / CAST_BYTES, p.y[i][0] / p.y[i][3],
				p.y[i][1] / p.y[i][3], list[i] / p.y[i][0],
				list[i] / p.y[i][3] / p.x[i]);
		printf("\n");
		result |= o->out && !plot_write(&p, o->out);
	}
	return result;
}
