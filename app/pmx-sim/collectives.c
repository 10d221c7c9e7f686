/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in the simulator: plans of lib/coll, run by the executor at every node over the PM
 * core, beside the bound and beside what the planner predicts. A node has one context for each of
 * its ranks, and rank r is at node r / w.per_node.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/adapt.h"
#include "coll/survey.h"
#include "coll/tour.h"
#include "plot/plot.h"
#include "sims.h"

#define HEAD ((uint32_t)sizeof(struct wire_coll)) /* of a piece's message, and all of a permit */
#define MTU  1500u
#define ROOM 64 /* frames of a core that a message may need */

#define RUNS             2    /* collectives at once */
#define BACKGROUND       1000 /* tag of timers of other traffic */
#define BACKGROUND_BYTES 20000
#define NO_TAG           (UINT32_MAX - 1)
/* tag of timers of messages within a node: and of the message */
#define LOCAL            0x80000000u
#define PER_HOST_MAX     64

struct sent {
	struct coll_out out;
	uint32_t run, from;
	uint32_t next_free;
};

struct rank {
	struct coll_exec *exec;
	uint64_t tick_at; /* of its timer */
	uint64_t done_at;
	double local_free_ns; /* when it can give its node the next message for another one there */
	bool done;
};

/* A collective that runs. */
struct run {
	const struct coll_plan *plan; /* NULL: none */
	struct rank *ranks;
	uint32_t left; /* ranks that are not done */
	uint64_t done_at;
};

static struct {
	struct sim *sim;
	uint32_t per_node;
	struct run runs[RUNS];
	struct sent *sent; /* by tag */
	uint32_t sent_count, sent_cap, sent_free;
	uint32_t left;             /* collectives that are not done */
	uint64_t background_ns;    /* 0: nothing else; otherwise between two messages of a host */
	const uint32_t *neighbour; /* [hosts]: to whom it sends these */
} w;

#define NONE UINT32_MAX

static void
fail(const char *what)
{
	fprintf(stderr, "pmx-sim: at %.6f s: %s\n", w.sim ? (double)sim_now(w.sim) / 1e9 : 0, what);
	exit(1);
}

static uint32_t
node_of(uint32_t rank)
{
	return rank / w.per_node;
}

static uint16_t
ctx_of(uint32_t rank)
{
	return (uint16_t)(rank % w.per_node);
}

static uint32_t
new_tag(uint32_t run, uint32_t from, const struct coll_out *o)
{
	uint32_t tag = w.sent_free;

	if (tag != NONE) {
		w.sent_free = w.sent[tag].next_free;
	} else {
		if (w.sent_count == w.sent_cap) {
			w.sent_cap = w.sent_cap ? 2 * w.sent_cap : 1024;
			w.sent = realloc(w.sent, w.sent_cap * sizeof(*w.sent));
			if (w.sent == NULL)
				fail("out of memory");
		}
		tag = w.sent_count++;
	}
	w.sent[tag].out = *o;
	w.sent[tag].run = run;
	w.sent[tag].from = from;
	return tag;
}

/* The collectives that run at a node share its line, as in an engine. */
static void
share_line(uint32_t node)
{
	const uint32_t first = node * w.per_node, end = first + w.per_node;
	uint32_t in = 0, out = 0;

	for (uint32_t run = 0; run < RUNS; run++) {
		const struct run *x = &w.runs[run];

		for (uint32_t r = first; x->plan != NULL && r < end; r++) {
			in += x->ranks[r].done ? 0 : x->plan->lists[r].load_in;
			out += x->ranks[r].done ? 0 : x->plan->lists[r].load_out;
		}
	}
	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t r = first; w.runs[run].plan != NULL && r < end; r++)
			coll_exec_share(w.runs[run].ranks[r].exec, coll_share(in, out),
				sim_now(w.sim));
	}
}

/* A message to another rank of the node, as the evaluator has it: one after the other. */
static void
send_local(uint32_t run, uint32_t rank, uint32_t len, const struct coll_out *o)
{
	double *free_ns = &w.runs[run].ranks[rank].local_free_ns;
	const double now = (double)sim_now(w.sim);

	*free_ns = (*free_ns > now ? *free_ns : now) + len * COLL_LOCAL_NS_PER_BYTE;
	sim_at(w.sim, (uint64_t)(*free_ns + COLL_LOCAL_NS), node_of(rank),
		LOCAL | new_tag(run, rank, o));
}

static void
pump(uint32_t run, uint32_t rank)
{
	struct run *x = &w.runs[run];

	if (x->plan == NULL)
		return;
	struct rank *r = &x->ranks[rank];
	struct coll_out o;

	/* the core has room for a message, or completed() asks again */
	while (proto_tx_free(sim_core(w.sim, node_of(rank))) > ROOM &&
		coll_next(r->exec, &o, sim_now(w.sim))) {
		if (o.go == COLL_GO_LOCAL)
			continue;
		const uint32_t len = HEAD + (o.go == COLL_GO_PIECE ? (uint32_t)o.len : 0);

		if (node_of(o.peer) == node_of(rank)) {
			send_local(run, rank, len, &o);
			continue;
		}
		if (o.go == COLL_GO_PIECE &&
			!(x->plan->lists[rank].steps[o.step].flags & COLL_EAGER))
			sim_permitted(w.sim, node_of(rank), node_of(o.peer), len);
		if (sim_send(w.sim, node_of(rank), ctx_of(rank), node_of(o.peer), ctx_of(o.peer),
			    len, new_tag(run, rank, &o)) != 0)
			fail(sim_error(w.sim) ? sim_error(w.sim) : "a message cannot be sent");
	}
	if (!r->done && coll_is_done(r->exec)) {
		r->done = true;
		r->done_at = sim_now(w.sim);
		share_line(node_of(rank));
		if (--x->left == 0) {
			x->done_at = r->done_at;
			w.left--;
		}
	}
	const uint64_t at = coll_deadline(r->exec);

	if (at != COLL_NEVER && (r->tick_at <= sim_now(w.sim) || at < r->tick_at)) {
		r->tick_at = at > sim_now(w.sim) ? at : sim_now(w.sim) + 1;
		sim_at(w.sim, r->tick_at, node_of(rank), run * PER_HOST_MAX + ctx_of(rank));
	}
}

/* A message has come. */
static void
arrived(uint32_t tag)
{
	const struct coll_out o = w.sent[tag].out;
	const uint32_t run = w.sent[tag].run, from = w.sent[tag].from, rank = o.peer;
	struct coll_exec *c = w.runs[run].ranks[rank].exec;

	w.sent[tag].next_free = w.sent_free;
	w.sent_free = tag;
	if (o.go == COLL_GO_PERMIT) {
		if (coll_permitted(c, from, o.ordinal, o.len) < 0)
			fail("a permit that nobody expects");
	} else {
		const int step = coll_heard(c, from, o.ordinal, o.offset, o.len);

		if (step < 0)
			fail("a piece that nobody permitted");
		coll_arrived(c, (uint32_t)step, o.len);
	}
	pump(run, rank);
}

static void
delivered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	(void)arg, (void)s, (void)d;
	if (tag < w.sent_count) /* otherwise it opens a flow, or is none of ours */
		arrived(tag);
}

static void
completed(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	(void)arg, (void)s, (void)tag;
	if (error != 0)
		fail("a message was not delivered");
	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t k = 0; k < w.per_node; k++)
			pump(run, node * w.per_node + k);
	}
}

static void
timer(void *arg, struct sim *s, uint32_t node, uint32_t tag)
{
	(void)arg;
	if (tag & LOCAL) {
		arrived(tag & ~LOCAL);
	} else if (tag != BACKGROUND) {
		pump(tag / PER_HOST_MAX, node * w.per_node + tag % PER_HOST_MAX);
	} else if (w.background_ns > 0) {
		if (sim_send(s, node, 0, w.neighbour[node], 0, BACKGROUND_BYTES, NO_TAG) != 0)
			fail("other traffic cannot be sent");
		sim_at(s, sim_now(s) + w.background_ns, node, BACKGROUND);
	}
}

/* What a run shows. */
struct outcome {
	enum coll_generator generator;
	double ns, predicted_ns, part; /* part: ns over the bound */
	uint64_t drops;                /* frames lost in ports */
	uint64_t queue_bytes;          /* the longest queue of a switch's port */
	uint32_t senders;              /* sim_edge_stat.senders_max of all ports */
};

static struct sim *
cluster(const struct topology *t, const struct proto_config *proto, bool permits)
{
	struct sim_config c = {
		.topology = t,
		.proto = proto ? *proto : sim_defaults(t->host_count, MTU),
		.entries = 65535,
		.bulks = 65536,
		.inline_max = 40,
		.nic_bytes = 65536,
		.permits = permits,
		.seed = 1,
		.delivered = delivered,
		.completed = completed,
		.timer = timer,
	};

	c.proto.rx_frames_max = c.proto.tx_frames_max = t->host_count > 100 ? 32768 : 65536;
	c.proto.contexts_max = w.per_node;
	return sim_new(&c);
}

/* A flow that stays open. */
static void
open_flow(uint32_t from, uint32_t to)
{
	if (node_of(from) == node_of(to))
		return;
	if (sim_send(w.sim, node_of(from), ctx_of(from), node_of(to), ctx_of(to), 8, NO_TAG) != 0)
		fail("a flow cannot be opened");
	sim_watch(w.sim, node_of(from), ctx_of(from), node_of(to), ctx_of(to), true);
}

/* Open the flows that the plan uses, both ways, as MPI's processes are connected. */
static void
connect(const struct coll_plan *p)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		for (uint32_t i = 0; i < p->lists[r].count; i++) {
			const struct coll_step *s = &p->lists[r].steps[i];

			if (s->op == COLL_SEND) {
				open_flow(r, s->peer);
				open_flow(s->peer, r);
			}
		}
		if (!sim_run(w.sim, sim_now(w.sim) + 200 * US))
			fail(sim_error(w.sim));
	}
	if (!sim_run(w.sim, sim_now(w.sim) + 100 * MS))
		fail(sim_error(w.sim));
}

static void
world_open(const struct topology *t, uint32_t per_node, const struct proto_config *proto,
	bool permits)
{
	memset(&w, 0, sizeof(w));
	w.per_node = per_node;
	w.sent_free = NONE;
	w.sim = cluster(t, proto, permits);
	if (w.sim == NULL)
		fail("out of memory");
	for (uint32_t r = 0; r < t->host_count * per_node; r++)
		sim_open(w.sim, node_of(r), ctx_of(r));
}

static void
world_close(void)
{
	free(w.sent);
	sim_free(w.sim);
}

/* All ranks begin one at the same time. */
static void
run_begin(uint32_t run, const struct coll_plan *p)
{
	struct coll_blocks blocks[COLL_BUFFERS];
	struct run *x = &w.runs[run];

	coll_plan_blocks(p, blocks);
	*x = (struct run){p, calloc(p->ranks, sizeof(*x->ranks)), p->ranks, 0};
	if (x->ranks == NULL)
		fail("out of memory");
	w.left++;
	for (uint32_t r = 0; r < p->ranks; r++) {
		void *memory = aligned_alloc(16, coll_exec_bytes(&p->lists[r]));

		if (memory == NULL)
			fail("out of memory");
		x->ranks[r].exec = coll_exec_init(memory, &p->lists[r], blocks, sim_now(w.sim));
	}
	for (uint32_t r = 0; r < p->ranks; r += w.per_node)
		share_line(node_of(r));
}

static void
run_end(uint32_t run)
{
	struct run *x = &w.runs[run];

	for (uint32_t r = 0; r < x->plan->ranks; r++)
		free(x->ranks[r].exec);
	free(x->ranks);
	x->plan = NULL;
}

/* Until all that has begun is done. */
static void
run_all(void)
{
	const uint64_t begin = sim_now(w.sim);

	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t r = 0; w.runs[run].plan != NULL && r < w.runs[run].plan->ranks; r++)
			pump(run, r);
	}
	while (w.left > 0) {
		if (!sim_run(w.sim, sim_now(w.sim) + US))
			fail(sim_error(w.sim));
		if (sim_now(w.sim) - begin > 1000 * SEC)
			fail("a collective does not end");
	}
}

/* Run the plan. Returns how long it takes, ns. ns: NULL, or how long each rank's part takes. */
static uint64_t
run_once(const struct coll_plan *p, uint64_t *ns)
{
	const uint64_t begin = sim_now(w.sim);

	run_begin(0, p);
	run_all();
	const uint64_t end = sim_now(w.sim);

	for (uint32_t r = 0; ns != NULL && r < p->ranks; r++)
		ns[r] = w.runs[0].ranks[r].done_at - begin;
	/* the next one begins when all that was sent has been Acked */
	if (ns != NULL && !sim_run(w.sim, end + 10 * MS))
		fail(sim_error(w.sim));
	run_end(0);
	return end - begin;
}

static struct outcome
run_plan(const struct coll_plan *p, const struct topology *t, const struct proto_config *proto)
{
	struct outcome o = {0};

	/* what is sent without permits needs the shares */
	world_open(t, p->ranks / t->host_count, proto,
		p->generator != COLL_AT_ONCE && p->generator != COLL_TWO_LEVEL);
	connect(p);
	for (uint32_t e = 0; e < t->edge_count; e++)
		sim_edge_reset(w.sim, e);
	o.ns = (double)run_once(p, NULL);
	for (uint32_t e = 0; e < t->edge_count; e++) {
		const struct sim_edge_stat *stat = sim_edge(w.sim, e);

		o.drops += stat->drops;
		if (t->vertices[t->edges[e].from].host != TOPOLOGY_NONE)
			continue;
		if (stat->queue_max > o.queue_bytes)
			o.queue_bytes = stat->queue_max;
		if (stat->senders_max > o.senders)
			o.senders = stat->senders_max;
	}
	world_close();
	return o;
}

static struct coll_task
task_of(enum coll_kind kind, const struct topology *t, uint64_t bytes)
{
	return (struct coll_task){
		.kind = kind,
		.topology = t,
		.ranks = t->host_count,
		.bytes = bytes,
		.params = coll_params_of_engines(coll_piece_in(MTU - WIRE_HDR_BYTES)),
		.only = COLL_NONE,
	};
}

/* As the library plans. A method that sends more unasked than engines take is there to be compared
 * with: its receivers take all. Returns NULL if it cannot be done that way: between hosts
 * that may not connect, or at that length. */
static struct coll_plan *
planned(enum coll_generator g, const struct coll_task *task)
{
	struct coll_task any = *task;
	struct coll_plan *p = NULL;
	int e = g == COLL_GENERATORS ? coll_plan_best(task, &p, NULL) : coll_plan_make(g, task, &p);

	any.params.eager = 0;
	if (e == -EOPNOTSUPP)
		e = coll_plan_make(g, &any, &p);
	if (e == -EOPNOTSUPP && g != COLL_GENERATORS)
		return NULL;
	if (e != 0) {
		fprintf(stderr, "pmx-sim: %s %s: %s\n", coll_kind_name[task->kind],
			g == COLL_GENERATORS ? "plan" : coll_generator_name[g], strerror(-e));
		exit(1);
	}
	return p;
}

/* ------------------------------------------------------------------ networks */

/* The paper's figure 7: 56 hosts at three switches; the root is at the middle one. */
static struct topology *
three_switches(const char *buffer, const char *trunk, const char *slow_host)
{
	char text[1024];

	snprintf(text, sizeof(text),
		"switch s[0-2] buffer=%s\n"
		"host a[0-18]\nhost x\nhost b[0-17]\nhost c[0-17]\n"
		"link a[0-18] s0 bandwidth=1G latency=5us\n"
		"link x s0 bandwidth=%s latency=5us\n"
		"link b[0-17] s1 bandwidth=1G latency=5us\n"
		"link c[0-17] s2 bandwidth=1G latency=5us\n"
		"link s[1-2] s0 bandwidth=%s latency=5us\n",
		buffer, slow_host, trunk);
	return parsed(text);
}

/* Its figures 8 and 9: nine clusters, far from each other. */
static struct topology *
nine_clusters(uint32_t hosts, const char *buffer)
{
	static const char *const latencies[] = {"50us", "500us", "1ms", "1500us", "2ms", "2500us",
		"3ms", "4ms", "5ms"};
	char text[4096];
	int at = snprintf(text, sizeof(text), "switch wide buffer=4M\n");

	for (uint32_t k = 0; k < 9; k++) {
		const uint32_t n = hosts / 9 + (k < hosts % 9);

		if (n == 0)
			continue;
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			"switch s%u buffer=%s\nlink s%u wide bandwidth=10G latency=%s\n"
			"host h%u_[0-%u]\nlink h%u_[0-%u] s%u bandwidth=1G latency=5us\n",
			k, buffer, k, latencies[k], k, n - 1, k, n - 1, k);
	}
	return parsed(text);
}

/* ------------------------------------------------------------------ experiments */

struct method {
	enum coll_generator generator; /* COLL_GENERATORS: the planner's choice */
	const char *label;
	bool tcp;
};

/* TCP-like endpoints, as in e1. */
static struct proto_config
tcp_like(uint32_t nodes)
{
	struct proto_config c = sim_defaults(nodes, MTU);

	tcp_apply(&c);
	return c;
}

static struct outcome
measure(const struct method *m, const struct coll_task *task)
{
	struct coll_plan *p = planned(m->generator, task);

	if (p == NULL)
		return (struct outcome){.generator = COLL_GENERATORS};
	const struct proto_config tcp = tcp_like(task->ranks);
	struct outcome o = run_plan(p, task->topology, m->tcp ? &tcp : NULL);
	struct coll_cost cost;

	if (coll_plan_evaluate(p, task, &cost) != 0)
		fail("a plan cannot be evaluated");
	o.generator = p->generator;
	o.predicted_ns = (double)cost.ns;
	o.part = o.ns / (double)p->bound_ns;
	coll_plan_free(p);
	return o;
}

/* The rest of a line. */
static void
print_outcome(const struct outcome *o)
{
	printf("%6.2f of the bound, predicted %5.2f of that; %6lu frames lost, queue %7lu", o->part,
		o->predicted_ns / o->ns, o->drops, o->queue_bytes);
}

static int
sweep(const struct options *o, const char *name, const char *title, const struct topology *t,
	const struct method *methods, unsigned count, const uint64_t *sizes, unsigned size_count)
{
	static struct plot p;

	p = (struct plot){
		.name = name,
		.x_label = "bytes",
		.y_label = "of the bound",
		.x_log = true,
		.y_log = true,
		.curves = count,
	};
	snprintf(p.title, sizeof(p.title), "%s", title);
	for (unsigned i = 0; i < count; i++)
		snprintf(p.label[i], sizeof(p.label[i]), "%s", methods[i].label);
	for (unsigned k = 0; k < size_count; k++) {
		const struct coll_task task = task_of(COLL_GATHER, t, sizes[k]);
		double *y = plot_row(&p, (double)sizes[k]);

		for (unsigned i = 0; i < count; i++) {
			const struct outcome out = measure(&methods[i], &task);

			y[i] = out.part;
			printf("%s: %7lu bytes, %-24s ", name, sizes[k], methods[i].label);
			print_outcome(&out);
			printf(", senders %u\n", out.senders);
			fflush(stdout);
		}
	}
	plot_print(&p);
	return o->out && !plot_write(&p, o->out);
}

static const struct method gathers[] = {
	{COLL_AT_ONCE, "TCP-like at once", true},
	{COLL_AT_ONCE, "at once", false},
	{COLL_IN_TURN, "in turn", false},
	{COLL_BINOMIAL, "binomial", false},
	{COLL_TWO_LEVEL, "two-level", false},
	{COLL_PAPER, "paper", false},
	{COLL_CHAIN, "chain", false},
	{COLL_PAPER_NEAR, "near", false},
	{COLL_PERMITS, "permits", false},
	{COLL_GENERATORS, "planned", false},
};
#define GATHERS (sizeof(gathers) / sizeof(gathers[0]))

/* Where some links are slower: the design's goals are 1.05. */
static void
unequal(const char *trunk, const char *host)
{
	struct topology *t = three_switches("64K", trunk, host);
	const struct coll_task task = task_of(COLL_GATHER, t, 100000);

	for (unsigned i = 1; i < GATHERS; i++) {
		const struct outcome out = measure(&gathers[i], &task);

		printf("e8: trunks %s, a host %s: %-12s ", trunk, host, gathers[i].label);
		print_outcome(&out);
		printf(", senders %u\n", out.senders);
	}
	topology_free(t);
}

/* How long the root's line is idle in a gather by 16 others, each so far away, beside what the
 * paper's section 4.3 says: 2LN in turn, 2L log N by a binomial tree, and by a pipeline 0, or (L -
 * T)N if a block's time T is shorter than L. */
static void
gaps(const char *latency, double latency_ns)
{
	enum { N = 16, LOG_N = 4 };
	static const uint64_t sizes[] = {1000, 20000, 100000};
	struct topology *t = star(N + 1, "1G", latency, "4M");

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct coll_task task = task_of(COLL_GATHER, t, sizes[i]);
		const double block =
			(double)coll_block_wire(&task.params, task.params.piece, sizes[i]) * 8;
		const double l = 2 * latency_ns; /* two cables */
		const double formulas[] = {2 * l * N, 2 * l * LOG_N,
			l <= block ? 0 : (l - block) * N};

		for (unsigned k = 0; k < 3; k++) {
			static const struct method methods[] = {{COLL_IN_TURN, "in turn", false},
				{COLL_BINOMIAL, "binomial", false},
				{COLL_CHAIN, "pipeline", false}};
			const struct outcome out = measure(&methods[k], &task);

			printf("e8: gaps, L %s, T %.0f us: %-9s %9.1f us, by the formula %9.1f\n",
				latency, block / 1e3, methods[k].label, (out.ns - block * N) / 1e3,
				formulas[k] / 1e3);
		}
	}
	topology_free(t);
}

int
e8(const struct options *o)
{
	static const uint64_t sizes[] = {8, 64, 1000, 4000, 20000, 100000, 1000000};
	const unsigned count = o->quick ? 5 : 7;
	struct topology *t = three_switches("64K", "1G", "1G");
	int result = sweep(o, "e8", "E8: gather, 56 hosts, 3 switches, 64K ports", t, gathers,
		GATHERS, sizes, count);

	unequal("200M", "1G");
	unequal("1G", "100M");
	unequal("10G", "1G");
	gaps("5us", 5e3);
	gaps("50us", 5e4);
	gaps("500us", 5e5);
	topology_free(t);
	return result;
}

int
e9(const struct options *o)
{
	static const uint64_t sizes[] = {1000, 20000, 100000, 1000000};
	struct topology *t = nine_clusters(160, "128K");
	int result = sweep(o, "e9", "E9: gather, 160 hosts in 9 clusters", t, gathers, GATHERS,
		sizes, o->quick ? 3 : 4);

	topology_free(t);
	return result;
}

/* Every collective beside its bound, with the plan that the planner takes. */
int
e10(const struct options *o)
{
	static const uint64_t sizes[] = {8, 1024, 8192, 65536, 1048576};
	static struct plot p;
	int result = 0;

	for (unsigned n = 0; n < (o->quick ? 1 : 3); n++) {
		struct topology *t = n == 0 ? star(16, "1G", "5us", "128K")
			: n == 1            ? three_switches("128K", "1G", "1G")
					    : nine_clusters(193, "128K");
		static const char *const names[] = {"e10-16", "e10-56", "e10-193"};

		p = (struct plot){
			.name = names[n],
			.x_label = "bytes",
			.y_label = "of the bound",
			.x_log = true,
			.y_log = true,
			.curves = COLL_KINDS - 1,
		};
		snprintf(p.title, sizeof(p.title), "E10: collectives of %u hosts", t->host_count);
		for (unsigned k = 0; k < COLL_KINDS - 1; k++)
			snprintf(p.label[k], sizeof(p.label[k]), "%s", coll_kind_name[k]);
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			double *y = plot_row(&p, (double)sizes[i]);

			for (unsigned k = 0; k < COLL_KINDS - 1; k++) {
				const bool everyone = k == COLL_ALLTOALL || k == COLL_ALLGATHER ||
					k == COLL_REDUCE_SCATTER;

				/* some hundred GB would take too long to simulate */
				if (everyone &&
					sizes[i] * t->host_count * t->host_count > 1500000000)
					continue;
				const struct coll_task task = task_of(k, t, sizes[i]);
				const struct method best = {.generator = COLL_GENERATORS};
				const struct outcome out = measure(&best, &task);

				y[k] = out.part;
				printf("%s: %-14s %7lu bytes, %-9s ", names[n], coll_kind_name[k],
					sizes[i], coll_generator_name[out.generator]);
				print_outcome(&out);
				printf("\n");
				fflush(stdout);
			}
		}
		plot_print(&p);
		result |= o->out && !plot_write(&p, o->out);
		topology_free(t);
	}
	return result;
}

/* The rounds of a survey up to the next look at what they took. Returns how long they take, ns. */
static uint64_t
run_rounds(struct survey *s, const struct topology *t)
{
	const uint32_t rounds = survey_rounds(s), ranks = t->host_count;
	uint64_t *ns = calloc((size_t)rounds * ranks, sizeof(*ns));
	uint64_t *took = calloc(ranks, sizeof(*took)), all = 0;

	if (ns == NULL || took == NULL)
		fail("out of memory");
	for (uint32_t round = 0; round < rounds; round++) {
		struct coll_plan *p;

		if (survey_plan(s, round, COLL_NONE, &p) != 0)
			fail("out of memory");
		all += run_once(p, took);
		for (uint32_t r = 0; r < ranks; r++)
			ns[(size_t)r * rounds + round] = took[r];
		coll_plan_free(p);
	}
	if (survey_measured(s, ns) != 0)
		fail("out of memory");
	free(ns);
	free(took);
	return all;
}

/* ------------------------------------------------------------------ a network that changes */

#define CHANGES_AT 3  /* after so many collectives */
#define COUNT      12 /* of collectives */

/* Both directions of the link between two switches. */
static uint32_t
edge_between(const struct topology *t, const char *a, const char *b)
{
	uint32_t e = 0;

	while (strcmp(t->vertices[t->edges[e].from].name, a) != 0 ||
		strcmp(t->vertices[t->edges[e].to].name, b) != 0)
		e++;
	return e;
}

/* The rates of what is known, measured again. */
static bool
measure_again(struct topology *known, const struct coll_task *task, uint64_t *ns)
{
	const struct survey_config c = {.ranks = task->ranks, .params = task->params};
	struct survey *s;

	if (survey_again(&s, &c, known) != 0)
		fail("out of memory");
	*ns = 0;
	while (survey_rounds(s) > 0)
		*ns += run_rounds(s, known);
	const bool changed = survey_rates(s, known);

	survey_close(s);
	return changed;
}

/* One collective again and again, while a trunk's rate is divided by two: times over that of a plan
 * that knows. */
static void
adapt(enum coll_kind kind, uint64_t bytes, double parts[COUNT])
{
	struct topology *known = three_switches("128K", "1G", "1G");
	struct topology *real = three_switches("128K", "1G", "1G");
	const uint32_t trunk = edge_between(real, "s1", "s0");
	struct coll_task task = task_of(kind, real, bytes);
	struct adapt a = {0};
	const struct method best = {.generator = COLL_GENERATORS};
	const double before = measure(&best, &task).ns;

	real->edges[trunk].bandwidth_bps /= 2;
	real->edges[real->edges[trunk].reverse].bandwidth_bps /= 2;
	const double fresh = measure(&best, &task).ns;
	struct coll_plan *p = NULL;
	struct coll_cost cost = {0};

	task.topology = known;
	world_open(known, 1, NULL, true);
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t survey_ns = 0;

		if (p == NULL) {
			p = planned(COLL_GENERATORS, &task);
			if (coll_plan_evaluate(p, &task, &cost) != 0)
				fail("a plan cannot be evaluated");
		}
		if (i == CHANGES_AT) {
			sim_edge_rate(w.sim, trunk, real->edges[trunk].bandwidth_bps);
			sim_edge_rate(w.sim, known->edges[trunk].reverse,
				real->edges[trunk].bandwidth_bps);
		}
		const double ns = (double)run_once(p, NULL);

		parts[i] = ns / (i < CHANGES_AT ? before : fresh);
		if (!sim_run(w.sim, sim_now(w.sim) + 10 * MS))
			fail(sim_error(w.sim));
		const bool asked = adapt_took(&a, cost.ns, (uint64_t)ns);

		if (asked) {
			adapt_measured(&a, measure_again(known, &task, &survey_ns));
			coll_plan_free(p);
			p = NULL;
		}
		printf("e11: %-10s %7lu bytes, number %2u: %5.2f of a plan that knows%s",
			coll_kind_name[kind], bytes, i, parts[i], asked ? "" : "\n");
		if (asked)
			printf("; measured again in %.0f ms, %.1f times such a collective\n",
				(double)survey_ns / 1e6, (double)survey_ns / fresh);
		fflush(stdout);
	}
	coll_plan_free(p);
	world_close();
	topology_free(known);
	topology_free(real);
}

int
e11(const struct options *o)
{
	enum { SHAPES = 6 };
	static const struct {
		enum coll_kind kind;
		uint64_t bytes;
	} shapes[SHAPES] = {{COLL_GATHER, 100000}, {COLL_SCATTER, 100000}, {COLL_ALLGATHER, 65536},
		{COLL_ALLTOALL, 16384}, {COLL_BCAST, 4194304}, {COLL_ALLREDUCE, 4194304}};
	static struct plot p = {
		.name = "e11",
		.title = "E11: a trunk halves its rate after 3 collectives; 56 hosts",
		.x_label = "collective",
		.y_label = "of a plan that knows",
		.curves = SHAPES,
	};

	static double parts[SHAPES][COUNT];

	for (unsigned k = 0; k < SHAPES; k++) {
		snprintf(p.label[k], sizeof(p.label[k]), "%s", coll_kind_name[shapes[k].kind]);
		adapt(shapes[k].kind, shapes[k].bytes, parts[k]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		double *y = plot_row(&p, i);

		for (unsigned k = 0; k < SHAPES; k++)
			y[k] = parts[k][i];
	}
	plot_print(&p);
	return o->out && !plot_write(&p, o->out);
}

/* ------------------------------------------------------------------ several at once */

struct shape {
	enum coll_kind kind;
	uint64_t bytes;
	uint32_t root;
};

/* Times of one or two collectives that begin together, ns, and frames lost. */
struct together {
	double ns[RUNS];
	uint64_t drops;
};

static struct together
run_together(const struct topology *t, const struct shape *shapes, uint32_t count,
	bool planned_ones, uint64_t background_ns, const uint32_t *neighbour)
{
	struct together out = {0};
	struct coll_plan *plans[RUNS];

	world_open(t, 1, NULL, planned_ones);
	for (uint32_t k = 0; k < count; k++) {
		struct coll_task task = task_of(shapes[k].kind, t, shapes[k].bytes);

		task.root = shapes[k].root;
		plans[k] = planned(planned_ones ? COLL_GENERATORS : COLL_AT_ONCE, &task);
		connect(plans[k]);
	}
	for (uint32_t e = 0; e < t->edge_count; e++)
		sim_edge_reset(w.sim, e);
	w.background_ns = background_ns;
	w.neighbour = neighbour;
	for (uint32_t r = 0; background_ns > 0 && r < t->host_count; r++)
		sim_at(w.sim, sim_now(w.sim) + r * background_ns / t->host_count + 1, r,
			BACKGROUND);
	if (background_ns > 0 && !sim_run(w.sim, sim_now(w.sim) + 5 * MS))
		fail(sim_error(w.sim));
	const uint64_t begin = sim_now(w.sim);

	for (uint32_t k = 0; k < count; k++)
		run_begin(k, plans[k]);
	run_all();
	for (uint32_t k = 0; k < count; k++) {
		out.ns[k] = (double)(w.runs[k].done_at - begin);
		run_end(k);
		coll_plan_free(plans[k]);
	}
	for (uint32_t e = 0; e < t->edge_count; e++)
		out.drops += sim_edge(w.sim, e)->drops;
	world_close();
	return out;
}

static uint32_t
switch_of(const struct topology *t, uint32_t host)
{
	return t->edges[t->vertices[t->hosts[host]].first_edge].to;
}

/* The paper excludes several at once (section 4.1). Each pair begins together: how long the later
 * one takes, over one after the other, and over the longer one alone; and beside other traffic,
 * which takes a fifth of each host's line, within its switch. */
int
e12(const struct options *o)
{
	static const struct {
		const char *name;
		struct shape shapes[RUNS];
	} pairs[] = {
		{"two gathers, one root", {{COLL_GATHER, 100000, 0}, {COLL_GATHER, 100000, 0}}},
		{"two gathers, roots apart", {{COLL_GATHER, 100000, 0}, {COLL_GATHER, 100000, 40}}},
		{"gather and scatter", {{COLL_GATHER, 100000, 0}, {COLL_SCATTER, 100000, 0}}},
		{"gather and alltoall", {{COLL_GATHER, 100000, 0}, {COLL_ALLTOALL, 4096, 0}}},
		{"two alltoalls", {{COLL_ALLTOALL, 4096, 0}, {COLL_ALLTOALL, 4096, 0}}},
	};
	struct topology *t = three_switches("128K", "1G", "1G");
	uint32_t *neighbour = calloc(t->host_count, sizeof(*neighbour));

	(void)o;
	if (neighbour == NULL)
		fail("out of memory");
	for (uint32_t i = 0; i < t->host_count; i++) {
		neighbour[i] = i;
		do
			neighbour[i] = (neighbour[i] + 1) % t->host_count;
		while (switch_of(t, neighbour[i]) != switch_of(t, i));
	}
	for (unsigned planned_ones = 0; planned_ones < 2; planned_ones++) {
		for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
			const struct shape *s = pairs[i].shapes;
			const struct together a = run_together(t, &s[0], 1, planned_ones, 0, NULL);
			const struct together b = run_together(t, &s[1], 1, planned_ones, 0, NULL);
			const struct together ab = run_together(t, s, 2, planned_ones, 0, NULL);
			const double last = ab.ns[0] > ab.ns[1] ? ab.ns[0] : ab.ns[1];
			const double longer = a.ns[0] > b.ns[0] ? a.ns[0] : b.ns[0];

			printf("e12: %-8s %-24s %6.2f of one after the other, %5.2f of the longer "
			       "one; %5lu frames lost\n",
				planned_ones ? "planned" : "at once", pairs[i].name,
				last / (a.ns[0] + b.ns[0]), last / longer, ab.drops);
			fflush(stdout);
		}
		for (unsigned i = 0; i < 3; i++) {
			static const struct shape alone[] = {{COLL_GATHER, 100000, 0},
				{COLL_SCATTER, 100000, 0}, {COLL_ALLTOALL, 16384, 0}};
			const struct together a = run_together(t, &alone[i], 1, planned_ones, 0,
				NULL);
			const struct together b = run_together(t, &alone[i], 1, planned_ones,
				800000, neighbour);

			printf("e12: %-8s %-24s %6.2f of alone, beside other traffic;           "
			       "    %5lu frames lost\n",
				planned_ones ? "planned" : "at once", coll_kind_name[alone[i].kind],
				b.ns[0] / a.ns[0], b.drops);
			fflush(stdout);
		}
	}
	free(neighbour);
	topology_free(t);
	return 0;
}

/* Overlays: what it costs that only some pairs may connect, so others relay between them. Each
 * collective over its bound, and over what the planner takes where all may connect. */
int
e13(const struct options *o)
{
	static const struct {
		const char *name, *talk;
		bool hub; /* sixteen hosts at one switch */
	} overlays[] = {
		{"3 sites, a gateway each", "talk s0\ntalk s1\ntalk s2\ntalk a0 b0 c0\n"},
		{"3 sites, 3 gateways each",
			"talk s0\ntalk s1\ntalk s2\ntalk a[0-2] b[0-2] c[0-2]\n"},
		{"hub and 15 spokes", NULL, true},
	};
	static const char sites[] = "switch s[0-2] buffer=128K\nhost a[0-15]\nhost b[0-15]\n"
				    "host c[0-15]\nlink a[0-15] s0 bandwidth=1G latency=5us\n"
				    "link b[0-15] s1 bandwidth=1G latency=5us\n"
				    "link c[0-15] s2 bandwidth=1G latency=5us\n"
				    "link s[1-2] s0 bandwidth=1G latency=200us\n";
	static const char spokes[] = "switch s buffer=128K\nhost h[0-15]\n"
				     "link h[0-15] s bandwidth=1G latency=5us\n";
	static const uint64_t sizes[] = {8, 4096, 65536};
	const struct method best = {.generator = COLL_GENERATORS};

	(void)o;
	for (unsigned i = 0; i < sizeof(overlays) / sizeof(overlays[0]); i++) {
		char text[1024];
		int at = snprintf(text, sizeof(text), "%s", overlays[i].hub ? spokes : sites);
		struct topology *open = parsed(text), *t;

		if (!overlays[i].hub)
			snprintf(text + at, sizeof(text) - (size_t)at, "%s", overlays[i].talk);
		for (unsigned h = 1; overlays[i].hub && h < 16; h++)
			at += snprintf(text + at, sizeof(text) - (size_t)at, "talk h0 h%u\n", h);
		t = parsed(text);
		for (unsigned k = 0; k < COLL_KINDS; k++) {
			for (unsigned s = 0; s < (k == COLL_BARRIER ? 1 : 3); s++) {
				const uint64_t bytes = k == COLL_BARRIER ? 0 : sizes[s];
				const struct coll_task task = task_of(k, t, bytes);
				const struct coll_task all = task_of(k, open, bytes);
				const struct outcome a = measure(&best, &task);
				const struct outcome b = measure(&best, &all);

				printf("e13: %-24s %-14s %6lu bytes, %-9s ", overlays[i].name,
					coll_kind_name[k], bytes, coll_generator_name[a.generator]);
				print_outcome(&a);
				printf("; %.2f of what all may\n",
					(double)a.ns / (double)(b.ns > 0 ? b.ns : 1));
				fflush(stdout);
			}
		}
		topology_free(open);
		topology_free(t);
	}
	return 0;
}

/* One collective on a topology of the user's: each generator's plan, predicted and simulated. */
int
run_collective(const struct options *o)
{
	char error[512];
	struct topology *t;
	const enum coll_kind kind = o->kind ? coll_kind_named(o->kind) : COLL_KINDS;
	const enum coll_generator only = o->generator ? coll_generator_named(o->generator)
						      : COLL_GENERATORS;

	if (!o->topology || kind == COLL_KINDS || (o->generator && only == COLL_GENERATORS)) {
		fprintf(stderr,
			"pmx-sim: collective needs --topology FILE and --kind gather, scatter, "
			"bcast, reduce, allgather, alltoall, allreduce, reduce_scatter or barrier; "
			"generators are those of pmx-ctl plan\n");
		return 2;
	}
	if (topology_read(o->topology, &t, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-sim: %s\n", error);
		return 1;
	}
	const uint32_t per_host = o->per_host ? o->per_host : 1;
	struct coll_task task = task_of(kind, t, o->size);
	uint16_t *nodes = calloc((size_t)t->host_count * per_host, sizeof(*nodes));

	task.root = o->root;
	task.ranks = t->host_count * per_host;
	task.nodes = nodes;
	for (uint32_t r = 0; nodes != NULL && r < task.ranks; r++)
		nodes[r] = (uint16_t)(r / per_host);
	if (nodes == NULL || per_host > PER_HOST_MAX || task.ranks > COLL_RANKS_MAX ||
		o->root >= task.ranks) {
		fprintf(stderr,
			"pmx-sim: --root %u, --ranks-per-host %u: %u ranks of at most %u, %u a "
			"host at most\n",
			o->root, per_host, task.ranks, COLL_RANKS_MAX, PER_HOST_MAX);
		free(nodes);
		topology_free(t);
		return 2;
	}
	bool none = false;

	printf("%-10s %12s %12s %12s %12s %12s %8s\n", "plan", "predicted ms", "simulated ms",
		"of the bound", "frames lost", "queue bytes", "senders");
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		if (!coll_generator_does(g, kind) || (only != COLL_GENERATORS && g != only))
			continue;
		const struct method m = {.generator = g};
		const struct outcome out = measure(&m, &task);

		if (out.generator == COLL_GENERATORS) {
			none |= g == only;
			continue;
		}
		printf("%-10s %12.3f %12.3f %12.2f %12lu %12lu %8u\n", coll_generator_name[g],
			out.predicted_ns / 1e6, out.ns / 1e6, out.part, out.drops, out.queue_bytes,
			out.senders);
	}
	if (none)
		fprintf(stderr, "pmx-sim: %s makes no plan of a %s of %lu bytes here\n",
			coll_generator_name[only], coll_kind_name[kind], o->size);
	free(nodes);
	topology_free(t);
	return none;
}

/* What measuring finds out about a topology: a topology's text. */
int
run_survey(const struct options *o)
{
	char error[512], *text;
	struct topology *t;
	struct survey *s;

	if (o->topology == NULL) {
		fprintf(stderr, "pmx-sim: survey needs --topology FILE\n");
		return 2;
	}
	if (topology_read(o->topology, &t, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-sim: %s\n", error);
		return 1;
	}
	const struct survey_config c = {
		.ranks = t->host_count,
		.params = task_of(COLL_ALLTOALL, t, 0).params,
	};
	const int e = survey_open(&s, &c);

	if (e != 0) {
		fprintf(stderr, "pmx-sim: %u hosts: %s (at most %u)\n", t->host_count, strerror(-e),
			SURVEY_HOSTS_MAX);
		topology_free(t);
		return 1;
	}
	uint64_t ns = 0;

	world_open(t, 1, NULL, true);
	while (survey_rounds(s) > 0)
		ns += run_rounds(s, t);
	if (survey_text(s, &text) != 0)
		fail("out of memory");
	printf("# in %.3f s\n%s", (double)ns / 1e9, text);
	free(text);
	world_close();
	survey_close(s);
	topology_free(t);
	return 0;
}
