/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan: which way a collective would take on a network that a topology file describes, how long
 * each generator's plan would take there, and what each rank would do. Needs no running primary.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/text.h"
#include "coll/tour.h"
#include "ctl.h"
#include "core/wire/wire.h"

#define FRAME_PAYLOAD (1500 - WIRE_HDR_BYTES)

static int
unknown(const char *option, const char *value, const char *const *names, unsigned count)
{
	char list[512] = "";

	for (unsigned i = 0, at = 0; i < count && at < sizeof(list); i++)
		at += (unsigned)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "",
			names[i]);
	complain("%s '%s': there are %s", option, value, list);
	return 2;
}

static const char *
plan_name_of(const struct coll_task *task, uint32_t rank)
{
	const struct topology *t = task->topology;

	return t->vertices[t->hosts[coll_node(task, rank)]].name;
}

/* Read an option's value: a rank, or the name of a host, which stands for its first rank. Return 0,
 * or the exit code 2 after saying what is wrong. */
static int
read_rank(const struct coll_task *task, const char *option, const char *value, uint32_t *out)
{
	char *end;
	const unsigned long n = strtoul(value, &end, 10);

	if (*value != 0 && *end == 0 && n < task->ranks) {
		*out = (uint32_t)n;
		return 0;
	}
	for (uint32_t i = 0; i < task->ranks; i++) {
		if (strcmp(plan_name_of(task, i), value) == 0) {
			*out = i;
			return 0;
		}
	}
	complain("%s '%s': neither a rank from 0 to %u nor the name of a host", option, value,
		task->ranks - 1);
	return 2;
}

/* Place as many ranks on each host as the option says, with neighbouring numbers. Return 0, or an
 * exit code. The caller frees *out, which the task refers to. */
static int
place_ranks(const struct plan_options *o, struct coll_task *task, uint16_t **out)
{
	const uint32_t hosts = task->topology->host_count;
	char *end = NULL;
	const unsigned long each = o->ranks_per_host ? strtoul(o->ranks_per_host, &end, 10) : 1;

	if (each == 0 || (end != NULL && *end != 0) || each > COLL_RANKS_MAX ||
		each * hosts > COLL_RANKS_MAX) {
		complain("--ranks-per-host '%s': 1 or more, and at most %u ranks of %u hosts",
			o->ranks_per_host ? o->ranks_per_host : "1", COLL_RANKS_MAX, hosts);
		return 2;
	}
	task->ranks = hosts * (uint32_t)each;
	*out = calloc(task->ranks, sizeof(**out));
	if (*out == NULL)
		return complain("no memory");
	for (uint32_t r = 0; r < task->ranks; r++)
		(*out)[r] = (uint16_t)(r / each);
	task->nodes = *out;
	return 0;
}

/* "s0 > s1", the port where most waited; the caller frees it. */
static char *
port_name(const struct topology *t, const struct coll_cost *c)
{
	const struct topology_edge *e = &t->edges[c->backlog_edge];

	return c->backlog_bytes == 0
		? text("-")
		: text("%s > %s", t->vertices[e->from].name, t->vertices[e->to].name);
}

static json_t *
json_step(const struct coll_step *s, uint32_t i)
{
	const bool moves = s->op == COLL_SEND || s->op == COLL_RECV;
	json_t *j = json_pack("{s:i, s:s, s:i, s:i, s:b, s:i, s:i}", "step", (int)i, "op",
		coll_op_name[s->op], "block", (int)s->block, "blocks", (int)s->blocks, "eager",
		(s->flags & COLL_EAGER) != 0, "at_us", (int)s->at_us, "lead_ns", (int)s->lead_ns);

	if (moves)
		json_object_set_new(j, "peer", json_integer(s->peer));
	for (unsigned k = 0; k < 2; k++) {
		if (s->after[k] != COLL_NONE)
			json_object_set_new(j, k ? "after_1" : "after_0",
				json_integer(s->after[k]));
	}
	if (s->op != COLL_RECV)
		json_object_set_new(j, "from", json_string(coll_buffer_name[s->from]));
	if (s->op != COLL_SEND)
		json_object_set_new(j, "to", json_string(coll_buffer_name[s->to]));
	return j;
}

/* Write the numbers of the steps that a step waits for, as in "3, 5 by pieces". */
static void
write_afters(const struct coll_step *s, char *list, size_t size)
{
	size_t at = 0;

	*list = 0;
	for (unsigned k = 0; k < 2; k++) {
		if (s->after[k] != COLL_NONE)
			at += (size_t)snprintf(list + at, size - at, "%s%u%s", at ? ", " : "",
				s->after[k],
				s->flags & (k ? COLL_STREAM_1 : COLL_STREAM_0) ? " by pieces" : "");
	}
}

static void
show_steps(const struct coll_task *task, const struct coll_plan *p, uint32_t rank)
{
	struct table table;

	printf("\nSteps of rank %u (%s); blocks are those of ranks in the plan's order\n", rank,
		plan_name_of(task, rank));
	table_begin(&table, ">step|what|peer|>block|>blocks|>at us|after|way");
	for (uint32_t i = 0; i < p->lists[rank].count; i++) {
		const struct coll_step *s = &p->lists[rank].steps[i];
		const bool moves = s->op == COLL_SEND || s->op == COLL_RECV;
		char after[64];

		write_afters(s, after, sizeof(after));
		table_row(&table, "%u\t%s\t%s\t%u\t%u\t%u\t%s\t%s", i, coll_op_name[s->op],
			moves ? plan_name_of(task, s->peer) : "", s->block, s->blocks, s->at_us,
			after,
			!moves                          ? ""
				: s->flags & COLL_EAGER ? "at once"
							: "when permitted");
	}
	table_end(&table, stdout);
}

static void
show_costs(const struct topology *t, const struct coll_plan *p, const struct coll_cost *costs)
{
	struct table table;

	table_begin(&table, "plan|>ms|>of the bound|>queue bytes|at|>senders there|loses frames|");
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		if (costs[g].ns == 0)
			continue;
		char *port = port_name(t, &costs[g]);

		table_row(&table, "%s\t%.3f\t%.2f\t%lu\t%s\t%u\t%s\t%s", coll_generator_name[g],
			(double)costs[g].ns / 1e6, (double)costs[g].ns / (double)p->bound_ns,
			costs[g].backlog_bytes, port, costs[g].senders_most,
			costs[g].fits ? "no" : "perhaps", g == p->generator ? "taken" : "");
		free(port);
	}
	table_end(&table, stdout);
}

static json_t *
json_costs(const struct topology *t, const struct coll_plan *p, const struct coll_cost *costs)
{
	json_t *list = json_array();

	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		if (costs[g].ns == 0)
			continue;
		char *port = port_name(t, &costs[g]);

		json_array_append_new(list,
			json_pack("{s:s, s:I, s:f, s:I, s:s, s:i, s:b, s:b}", "generator",
				coll_generator_name[g], "ns", (json_int_t)costs[g].ns,
				"of_the_bound", (double)costs[g].ns / (double)p->bound_ns,
				"queue_bytes", (json_int_t)costs[g].backlog_bytes, "port", port,
				"senders", (int)costs[g].senders_most, "fits", costs[g].fits,
				"taken", g == p->generator));
		free(port);
	}
	return list;
}

static int
show(const struct plan_options *o, const struct coll_task *task, const struct coll_plan *p,
	const struct coll_cost *costs, uint32_t steps_of, bool json)
{
	const struct topology *t = task->topology;

	if (!json) {
		printf("%s of %lu bytes, %u ranks, root %s: the busiest link and the longest path "
		       "take %.3f ms\n"
		       "\n",
			coll_kind_name[p->kind], p->bytes, p->ranks, plan_name_of(task, p->root),
			(double)p->bound_ns / 1e6);
		show_costs(t, p, costs);
		if (o->steps != NULL)
			show_steps(task, p, steps_of);
		return 0;
	}
	json_t *j = json_pack("{s:s, s:I, s:i, s:i, s:s, s:I, s:I, s:o}", "kind",
		coll_kind_name[p->kind], "bytes", (json_int_t)p->bytes, "ranks", (int)p->ranks,
		"root", (int)p->root, "taken", coll_generator_name[p->generator], "bound_ns",
		(json_int_t)p->bound_ns, "steps", (json_int_t)p->step_count, "plans",
		json_costs(t, p, costs));

	if (o->steps != NULL) {
		json_t *list = json_array();

		for (uint32_t i = 0; i < p->lists[steps_of].count; i++)
			json_array_append_new(list, json_step(&p->lists[steps_of].steps[i], i));
		json_object_set_new(j, "rank", json_integer(steps_of));
		json_object_set_new(j, "list", list);
	}
	return print_json(j);
}

/* Make one generator's plan and evaluate its cost. Return 0, or a negative errno without a plan. */
static int
only(enum coll_generator g, const struct coll_task *task, struct coll_plan **p,
	struct coll_cost *costs)
{
	int e = coll_plan_make(g, task, p);

	if (e != 0)
		return e;
	e = coll_plan_evaluate(*p, task, &costs[g]);
	if (e != 0)
		coll_plan_free(*p);
	return e;
}

static int
save(const struct coll_plan *p, const char *path)
{
	FILE *f = fopen(path, "w");
	int e = f != NULL ? coll_plan_write(p, f) : -errno;

	if (f != NULL && fclose(f) != 0 && e == 0)
		e = -errno;
	return e != 0 ? complain("%s: %s", path, strerror(-e)) : 0;
}

static int
plan_on(const struct plan_options *o, struct coll_task task, bool json)
{
	const struct topology *t = task.topology;
	struct coll_cost costs[COLL_GENERATORS] = {{0}};
	struct coll_plan *p = NULL;
	uint32_t steps_of = 0;
	const enum coll_generator g = o->generator ? coll_generator_named(o->generator)
						   : COLL_GENERATORS;

	task.kind = coll_kind_named(o->kind);
	if (task.kind == COLL_KINDS)
		return unknown("--kind", o->kind, coll_kind_name, COLL_KINDS);
	if (o->generator != NULL && g == COLL_GENERATORS)
		return unknown("--generator", o->generator, coll_generator_name, COLL_GENERATORS);
	if (o->size != NULL && !topology_size(o->size, &task.bytes)) {
		complain("--size '%s': not a number of bytes, with K, M or G, up to 1e12", o->size);
		return 2;
	}
	if ((o->root != NULL && read_rank(&task, "--root", o->root, &task.root) != 0) ||
		(o->steps != NULL && read_rank(&task, "--steps", o->steps, &steps_of) != 0))
		return 2;
	const int e = g == COLL_GENERATORS ? coll_plan_best(&task, &p, costs)
					   : only(g, &task, &p, costs);

	if (e == -EOPNOTSUPP)
		return complain("%s makes no plan of a %s%s", o->generator, o->kind,
			t->talks != NULL ? " that keeps to the topology's talk lines" : "");
	if (e == -E2BIG || e == -EINVAL)
		return complain("%u ranks are too many: at most %u, and %u steps of each",
			task.ranks, COLL_RANKS_MAX, COLL_STEPS_MAX);
	if (e == -EHOSTUNREACH)
		return complain("some hosts may not connect, and cannot reach each other by way of "
				"others: see the talk lines of %s",
			o->topology);
	if (e != 0)
		return complain("no plan: %s", strerror(-e));
	int result = o->save != NULL ? save(p, o->save) : 0;

	if (result == 0)
		result = show(o, &task, p, costs, steps_of, json);
	coll_plan_free(p);
	return result;
}

/* Read a plan that was saved, evaluate it on the task's network and show it. Return the exit
 * code. */
static int
plan_read(const struct plan_options *o, struct coll_task task, bool json)
{
	const uint32_t most = task.ranks;
	struct coll_cost costs[COLL_GENERATORS] = {{0}};
	char error[CTL_ERROR_MAX], *saved;
	struct coll_plan *p;
	uint32_t steps_of = 0;
	int e = coll_text_read(o->load, &saved);

	if (e != 0)
		return complain("%s: %s", o->load, strerror(-e));
	e = coll_plan_read(saved, &p, error, sizeof(error));
	free(saved);
	if (e != 0)
		return complain("%s: %s", o->load, error);
	task.kind = p->kind;
	task.ranks = p->ranks;
	task.root = p->root;
	task.bytes = p->bytes;
	if (p->ranks > most)
		e = complain("%s: %u ranks, but the network has %u hosts, and so %u", o->load,
			p->ranks, task.topology->host_count, most);
	else if (o->steps != NULL && read_rank(&task, "--steps", o->steps, &steps_of) != 0)
		e = 2;
	else if ((e = coll_plan_evaluate(p, &task, &costs[p->generator])) != 0)
		e = complain("%s: %s", o->load,
			e == -EDEADLK          ? "the plan does not come to its end"
				: e == -EINVAL ? "what a rank receives into scratch is emptied by "
						 "no step, or by two"
					       : strerror(-e));
	if (e == 0) {
		p->bound_ns = coll_bound_ns(&task);
		e = show(o, &task, p, costs, steps_of, json);
	}
	coll_plan_free(p);
	return e;
}

int
show_plan(const struct ctl_options *options)
{
	const struct plan_options *o = &options->plan;
	const bool json = options->json;
	char error[CTL_ERROR_MAX];
	struct topology *t;

	if (o->topology == NULL || (o->kind == NULL) == (o->load == NULL)) {
		complain("plan needs --topology FILE, and --kind KIND or --plan FILE");
		return 2;
	}
	if (topology_read(o->topology, &t, error, sizeof(error)) != 0)
		return complain("%s", error);
	struct coll_task task = {
		.topology = t,
		.params = coll_params_of_engines(coll_piece_in(FRAME_PAYLOAD)),
		.only = COLL_NONE,
	};
	uint16_t *nodes = NULL;
	int result = place_ranks(o, &task, &nodes);

	if (result == 0)
		result = o->load != NULL ? plan_read(o, task, json) : plan_on(o, task, json);
	free(nodes);
	topology_free(t);
	return result;
}
