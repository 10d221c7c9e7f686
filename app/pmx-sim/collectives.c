/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Experiments with collectives: what runs, beside the bound and beside what the planner predicts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/survey.h"
#include "collectives.h"
#include "plot/plot.h"

/* ------------------------------------------------------------------ networks */

/* Return the topology of the paper's figure 7: 56 hosts at three switches; the root is at the
 * middle one. */
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

/* Return the topology of the paper's figures 8 and 9: nine clusters, far from each other. */
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
collectives_measure(const struct method *m, const struct coll_task *task)
{
	struct coll_plan *p = coll_planned(m->generator, task);

	if (p == NULL)
		return (struct outcome){.generator = COLL_GENERATORS};
	const struct proto_config tcp = tcp_like(task->ranks);
	struct outcome o = run_plan(p, task->topology, m->tcp ? &tcp : NULL);
	struct coll_cost cost;

	if (coll_plan_evaluate(p, task, &cost) != 0)
		world_fail("a plan cannot be evaluated");
	o.generator = p->generator;
	o.predicted_ns = (double)cost.ns;
	o.part = o.ns / (double)p->bound_ns;
	coll_plan_free(p);
	return o;
}

/* Print an outcome as the rest of a line, without the line's end. */
static void
print_outcome(const struct outcome *o)
{
	printf("%6.2f of the bound, predicted %5.2f of that; %6lu frames lost, queue %7lu", o->part,
		o->predicted_ns / o->ns, o->drops, o->queue_bytes);
}

static int
sweep(const struct sim_options *o, const char *name, const char *title, const struct topology *t,
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
		const struct coll_task task = coll_task_of(COLL_GATHER, t, sizes[k]);
		double *y = plot_row(&p, (double)sizes[k]);

		for (unsigned i = 0; i < count; i++) {
			const struct outcome out = collectives_measure(&methods[i], &task);

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

/* Measure and print gathers on a network where some links are slower: the design's goals are
 * 1.05. */
static void
unequal(const char *trunk, const char *host)
{
	struct topology *t = three_switches("64K", trunk, host);
	const struct coll_task task = coll_task_of(COLL_GATHER, t, 100000);

	for (unsigned i = 1; i < GATHERS; i++) {
		const struct outcome out = collectives_measure(&gathers[i], &task);

		printf("e8: trunks %s, a host %s: %-12s ", trunk, host, gathers[i].label);
		print_outcome(&out);
		printf(", senders %u\n", out.senders);
	}
	topology_free(t);
}

/* Print how long the root's line is idle in a gather from N = 16 others, each at the end of a cable
 * with that latency, beside what the paper's section 4.3 says: 2LN in turn, 2L log N by a binomial
 * tree, and by a pipeline 0, or (L - T)N if a block's time T is shorter than L. */
static void
gaps(const char *latency, double latency_ns)
{
	enum { N = 16, LOG_N = 4 };
	static const uint64_t sizes[] = {1000, 20000, 100000};
	struct topology *t = star(N + 1, "1G", latency, "4M");

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct coll_task task = coll_task_of(COLL_GATHER, t, sizes[i]);
		const double block =
			(double)coll_block_wire(&task.params, task.params.piece, sizes[i]) * 8;
		const double l = 2 * latency_ns; /* two cables */
		const double formulas[] = {2 * l * N, 2 * l * LOG_N,
			l <= block ? 0 : (l - block) * N};

		for (unsigned k = 0; k < 3; k++) {
			static const struct method methods[] = {{COLL_IN_TURN, "in turn", false},
				{COLL_BINOMIAL, "binomial", false},
				{COLL_CHAIN, "pipeline", false}};
			const struct outcome out = collectives_measure(&methods[k], &task);

			printf("e8: gaps, L %s, T %.0f us: %-9s %9.1f us, by the formula %9.1f\n",
				latency, block / 1e3, methods[k].label, (out.ns - block * N) / 1e3,
				formulas[k] / 1e3);
		}
	}
	topology_free(t);
}

int
e8(const struct sim_options *o)
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
e9(const struct sim_options *o)
{
	static const uint64_t sizes[] = {1000, 20000, 100000, 1000000};
	struct topology *t = nine_clusters(160, "128K");
	int result = sweep(o, "e9", "E9: gather, 160 hosts in 9 clusters", t, gathers, GATHERS,
		sizes, o->quick ? 3 : 4);

	topology_free(t);
	return result;
}

/* Measure every collective beside its bound, with the plan that the planner takes. Return the exit
 * code. */
int
e10(const struct sim_options *o)
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
				const struct coll_task task = coll_task_of(k, t, sizes[i]);
				const struct method best = {.generator = COLL_GENERATORS};
				const struct outcome out = collectives_measure(&best, &task);

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

/* Run the rounds of a survey that come before it looks at their times, and give it these. Return
 * how long the rounds take, in ns. */
static uint64_t
run_rounds(struct survey *s, const struct topology *t)
{
	const uint32_t rounds = survey_rounds(s), ranks = t->host_count;
	uint64_t *ns = calloc((size_t)rounds * ranks, sizeof(*ns));
	uint64_t *took = calloc(ranks, sizeof(*took)), all = 0;

	if (ns == NULL || took == NULL)
		world_fail("out of memory");
	for (uint32_t round = 0; round < rounds; round++) {
		struct coll_plan *p;

		if (survey_plan(s, round, COLL_NONE, &p) != 0)
			world_fail("out of memory");
		all += run_once(p, took);
		for (uint32_t r = 0; r < ranks; r++)
			ns[(size_t)r * rounds + round] = took[r];
		coll_plan_free(p);
	}
	if (survey_measured(s, ns) != 0)
		world_fail("out of memory");
	free(ns);
	free(took);
	return all;
}

/* ------------------------------------------------------------------ a network that changes */

#define CHANGES_AT 3  /* after so many collectives */
#define COUNT      12 /* of collectives */

/* Return the edge from switch a to switch b, which must exist: one direction of their link. */
static uint32_t
edge_between(const struct topology *t, const char *a, const char *b)
{
	uint32_t e = 0;

	while (strcmp(t->vertices[t->edges[e].from].name, a) != 0 ||
		strcmp(t->vertices[t->edges[e].to].name, b) != 0)
		e++;
	return e;
}

/* Measure the rates of a known topology again, and correct them there. *ns gets how long measuring
 * takes. Return whether a rate has changed. */
static bool
measure_again(struct topology *known, const struct coll_task *task, uint64_t *ns)
{
	const struct survey_config c = {.ranks = task->ranks, .params = task->params};
	struct survey *s;

	if (survey_again(&s, &c, known) != 0)
		world_fail("out of memory");
	*ns = 0;
	while (survey_rounds(s) > 0)
		*ns += run_rounds(s, known);
	const bool changed = survey_rates(s, known);

	survey_close(s);
	return changed;
}

/* Run one collective again and again; meanwhile a trunk's rate is divided by two. parts gets the
 * time of each run over that of a plan that knows the rate. */
static void
adapt(enum coll_kind kind, uint64_t bytes, double parts[COUNT])
{
	struct topology *known = three_switches("128K", "1G", "1G");
	struct topology *real = three_switches("128K", "1G", "1G");
	const uint32_t trunk = edge_between(real, "s1", "s0");
	struct coll_task task = coll_task_of(kind, real, bytes);
	struct adapt a = {0};
	const struct method best = {.generator = COLL_GENERATORS};
	const double before = collectives_measure(&best, &task).ns;

	real->edges[trunk].bandwidth_bps /= 2;
	real->edges[real->edges[trunk].reverse].bandwidth_bps /= 2;
	const double fresh = collectives_measure(&best, &task).ns;
	struct coll_plan *p = NULL;
	struct coll_cost cost = {0};

	task.topology = known;
	world_open(known, 1, NULL, true);
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t survey_ns = 0;

		if (p == NULL) {
			p = coll_planned(COLL_GENERATORS, &task);
			if (coll_plan_evaluate(p, &task, &cost) != 0)
				world_fail("a plan cannot be evaluated");
		}
		if (i == CHANGES_AT) {
			sim_edge_rate(world.sim, trunk, real->edges[trunk].bandwidth_bps);
			sim_edge_rate(world.sim, known->edges[trunk].reverse,
				real->edges[trunk].bandwidth_bps);
		}
		const double ns = (double)run_once(p, NULL);

		parts[i] = ns / (i < CHANGES_AT ? before : fresh);
		if (!sim_run(world.sim, sim_now(world.sim) + 10 * MS))
			world_fail(sim_error(world.sim));
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
e11(const struct sim_options *o)
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

struct coll_shape {
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
run_together(const struct topology *t, const struct coll_shape *shapes, uint32_t count,
	bool planned_ones, uint64_t background_ns, const uint32_t *neighbour)
{
	struct together out = {0};
	struct coll_plan *plans[RUNS];

	world_open(t, 1, NULL, planned_ones);
	for (uint32_t k = 0; k < count; k++) {
		struct coll_task task = coll_task_of(shapes[k].kind, t, shapes[k].bytes);

		task.root = shapes[k].root;
		plans[k] = coll_planned(planned_ones ? COLL_GENERATORS : COLL_AT_ONCE, &task);
		world_connect(plans[k]);
	}
	for (uint32_t e = 0; e < t->edge_count; e++)
		sim_edge_reset(world.sim, e);
	world.background_ns = background_ns;
	world.neighbour = neighbour;
	for (uint32_t r = 0; background_ns > 0 && r < t->host_count; r++)
		sim_at(world.sim, sim_now(world.sim) + r * background_ns / t->host_count + 1, r,
			BACKGROUND);
	if (background_ns > 0 && !sim_run(world.sim, sim_now(world.sim) + 5 * MS))
		world_fail(sim_error(world.sim));
	const uint64_t begin = sim_now(world.sim);

	for (uint32_t k = 0; k < count; k++)
		run_begin(k, plans[k]);
	run_all();
	for (uint32_t k = 0; k < count; k++) {
		out.ns[k] = (double)(world.runs[k].done_at - begin);
		run_end(k);
		coll_plan_free(plans[k]);
	}
	for (uint32_t e = 0; e < t->edge_count; e++)
		out.drops += sim_edge(world.sim, e)->drops;
	world_close();
	return out;
}

static uint32_t
switch_of(const struct topology *t, uint32_t host)
{
	return t->edges[t->vertices[t->hosts[host]].first_edge].to;
}

/* Measure several collectives at once, which the paper excludes (section 4.1). Each pair begins
 * together: print how long the later one takes, over one after the other, and over the longer one
 * alone. Then print how long one collective takes beside other traffic, which takes a fifth of each
 * host's line, within its switch, over alone. */
int
e12(const struct sim_options *o)
{
	static const struct {
		const char *name;
		struct coll_shape shapes[RUNS];
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
		world_fail("out of memory");
	for (uint32_t i = 0; i < t->host_count; i++) {
		neighbour[i] = i;
		do
			neighbour[i] = (neighbour[i] + 1) % t->host_count;
		while (switch_of(t, neighbour[i]) != switch_of(t, i));
	}
	for (unsigned planned_ones = 0; planned_ones < 2; planned_ones++) {
		for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
			const struct coll_shape *s = pairs[i].shapes;
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
			static const struct coll_shape alone[] = {{COLL_GATHER, 100000, 0},
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

/* Measure overlays: what it costs that only some pairs may connect, so others relay between them.
 * Print the time of each collective over its bound, and over that of the planner's plan where all
 * may connect. */
int
e13(const struct sim_options *o)
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
				const struct coll_task task = coll_task_of(k, t, bytes);
				const struct coll_task all = coll_task_of(k, open, bytes);
				const struct outcome a = collectives_measure(&best, &task);
				const struct outcome b = collectives_measure(&best, &all);

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

/* Print each generator's plan of the task, predicted and simulated, or that of one. Return whether
 * that one makes no plan. */
static bool
print_plans(const struct coll_task *task, enum coll_generator only)
{
	bool none = false;

	printf("%-10s %12s %12s %12s %12s %12s %8s\n", "plan", "predicted ms", "simulated ms",
		"of the bound", "frames lost", "queue bytes", "senders");
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		if (!coll_generator_does(g, task->kind) || (only != COLL_GENERATORS && g != only))
			continue;
		const struct method m = {.generator = g};
		const struct outcome out = collectives_measure(&m, task);

		if (out.generator == COLL_GENERATORS) {
			none |= g == only;
			continue;
		}
		printf("%-10s %12.3f %12.3f %12.2f %12lu %12lu %8u\n", coll_generator_name[g],
			out.predicted_ns / 1e6, out.ns / 1e6, out.part, out.drops, out.queue_bytes,
			out.senders);
	}
	return none;
}

/* Run one collective on a topology of the user's: predict and simulate each generator's plan.
 * Return the exit code. */
int
run_collective(const struct sim_options *o)
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
	struct coll_task task = coll_task_of(kind, t, o->size);
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
	const bool none = print_plans(&task, only);

	if (none)
		fprintf(stderr, "pmx-sim: %s makes no plan of a %s of %lu bytes here\n",
			coll_generator_name[only], coll_kind_name[kind], o->size);
	free(nodes);
	topology_free(t);
	return none;
}

/* Survey a topology in the simulator, and print what measuring finds out as a topology's text.
 * Return the exit code. */
int
run_survey(const struct sim_options *o)
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
		.params = coll_task_of(COLL_ALLTOALL, t, 0).params,
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
		world_fail("out of memory");
	printf("# in %.3f s\n%s", (double)ns / 1e9, text);
	free(text);
	world_close();
	survey_close(s);
	topology_free(t);
	return 0;
}
