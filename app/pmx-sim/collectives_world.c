/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in the simulator: plans of lib/coll, run by the executor at every node over the PM
 * core. A node has one context for each of its ranks, and rank r is at node r / world.per_node.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives.h"

/* of a piece's message, and all of a permit */
#define HEAD             ((uint32_t)sizeof(struct wire_coll))
#define ROOM             64 /* frames of a core that a message may need */
#define BACKGROUND_BYTES 20000
#define NO_TAG           (UINT32_MAX - 1)
/* tag of timers of messages within a node: and of the message */
#define LOCAL            0x80000000u
#define NONE             UINT32_MAX

struct coll_world world;

void
world_fail(const char *what)
{
	fprintf(stderr, "pmx-sim: at %.6f s: %s\n",
		world.sim ? (double)sim_now(world.sim) / 1e9 : 0, what);
	exit(1);
}

static uint32_t
node_of(uint32_t rank)
{
	return rank / world.per_node;
}

static uint16_t
ctx_of(uint32_t rank)
{
	return (uint16_t)(rank % world.per_node);
}

static uint32_t
new_tag(uint32_t run, uint32_t from, const struct coll_out *o)
{
	uint32_t tag = world.sent_free;

	if (tag != NONE) {
		world.sent_free = world.sent[tag].next_free;
	} else {
		if (world.sent_count == world.sent_cap) {
			world.sent_cap = world.sent_cap ? 2 * world.sent_cap : 1024;
			world.sent = realloc(world.sent, world.sent_cap * sizeof(*world.sent));
			if (world.sent == NULL)
				world_fail("out of memory");
		}
		tag = world.sent_count++;
	}
	world.sent[tag].out = *o;
	world.sent[tag].run = run;
	world.sent[tag].from = from;
	return tag;
}

/* Share a node's line between the collectives that run there, as an engine does. */
static void
share_line(uint32_t node)
{
	const uint32_t first = node * world.per_node, end = first + world.per_node;
	uint32_t in = 0, out = 0;

	for (uint32_t run = 0; run < RUNS; run++) {
		const struct coll_run *x = &world.runs[run];

		for (uint32_t r = first; x->plan != NULL && r < end; r++) {
			in += x->ranks[r].done ? 0 : x->plan->lists[r].load_in;
			out += x->ranks[r].done ? 0 : x->plan->lists[r].load_out;
		}
	}
	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t r = first; world.runs[run].plan != NULL && r < end; r++)
			coll_exec_share(world.runs[run].ranks[r].exec, coll_share(in, out),
				sim_now(world.sim));
	}
}

/* Send a message to another rank of the node, as the evaluator has it: one after the other. */
static void
send_local(uint32_t run, uint32_t rank, uint32_t len, const struct coll_out *o)
{
	double *free_ns = &world.runs[run].ranks[rank].local_free_ns;
	const double now = (double)sim_now(world.sim);

	*free_ns = (*free_ns > now ? *free_ns : now) + len * COLL_LOCAL_NS_PER_BYTE;
	sim_at(world.sim, (uint64_t)(*free_ns + COLL_LOCAL_NS), node_of(rank),
		LOCAL | new_tag(run, rank, o));
}

static void
pump(uint32_t run, uint32_t rank)
{
	struct coll_run *x = &world.runs[run];

	if (x->plan == NULL)
		return;
	struct coll_rank *r = &x->ranks[rank];
	struct coll_out o;

	/* the core has room for a message, or completed() asks again */
	while (proto_tx_free(sim_core(world.sim, node_of(rank))) > ROOM &&
		coll_next(r->exec, &o, sim_now(world.sim))) {
		if (o.go == COLL_GO_LOCAL)
			continue;
		const uint32_t len = HEAD + (o.go == COLL_GO_PIECE ? (uint32_t)o.len : 0);

		if (node_of(o.peer) == node_of(rank)) {
			send_local(run, rank, len, &o);
			continue;
		}
		if (o.go == COLL_GO_PIECE &&
			!(x->plan->lists[rank].steps[o.step].flags & COLL_EAGER))
			sim_permitted(world.sim, node_of(rank), node_of(o.peer), len);
		if (sim_send(world.sim, node_of(rank), ctx_of(rank), node_of(o.peer),
			    ctx_of(o.peer), len, new_tag(run, rank, &o)) != 0)
			world_fail(sim_error(world.sim) ? sim_error(world.sim)
							: "a message cannot be sent");
	}
	if (!r->done && coll_is_done(r->exec)) {
		r->done = true;
		r->done_at = sim_now(world.sim);
		share_line(node_of(rank));
		if (--x->left == 0) {
			x->done_at = r->done_at;
			world.left--;
		}
	}
	const uint64_t at = coll_deadline(r->exec);

	if (at != COLL_NEVER && (r->tick_at <= sim_now(world.sim) || at < r->tick_at)) {
		r->tick_at = at > sim_now(world.sim) ? at : sim_now(world.sim) + 1;
		sim_at(world.sim, r->tick_at, node_of(rank), run * PER_HOST_MAX + ctx_of(rank));
	}
}

/* Take a message that has come: give its permit or its piece to the rank that it is for. */
static void
arrived(uint32_t tag)
{
	const struct coll_out o = world.sent[tag].out;
	const uint32_t run = world.sent[tag].run, from = world.sent[tag].from, rank = o.peer;
	struct coll_exec *c = world.runs[run].ranks[rank].exec;

	world.sent[tag].next_free = world.sent_free;
	world.sent_free = tag;
	if (o.go == COLL_GO_PERMIT) {
		if (coll_permitted(c, from, o.ordinal, o.len) < 0)
			world_fail("a permit that nobody expects");
	} else {
		const int step = coll_heard(c, from, o.ordinal, o.offset, o.len);

		if (step < 0)
			world_fail("a piece that nobody permitted");
		coll_arrived(c, (uint32_t)step, o.len);
	}
	pump(run, rank);
}

static void
delivered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	(void)arg, (void)s, (void)d;
	if (tag < world.sent_count) /* otherwise it opens a flow, or is none of ours */
		arrived(tag);
}

static void
completed(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	(void)arg, (void)s, (void)tag;
	if (error != 0)
		world_fail("a message was not delivered");
	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t k = 0; k < world.per_node; k++)
			pump(run, node * world.per_node + k);
	}
}

static void
timer(void *arg, struct sim *s, uint32_t node, uint32_t tag)
{
	(void)arg;
	if (tag & LOCAL) {
		arrived(tag & ~LOCAL);
	} else if (tag != BACKGROUND) {
		pump(tag / PER_HOST_MAX, node * world.per_node + tag % PER_HOST_MAX);
	} else if (world.background_ns > 0) {
		if (sim_send(s, node, 0, world.neighbour[node], 0, BACKGROUND_BYTES, NO_TAG) != 0)
			world_fail("other traffic cannot be sent");
		sim_at(s, sim_now(s) + world.background_ns, node, BACKGROUND);
	}
}

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
	c.proto.contexts_max = world.per_node;
	return sim_new(&c);
}

/* Open a flow that stays open, unless both ranks are of one node. */
static void
open_flow(uint32_t from, uint32_t to)
{
	if (node_of(from) == node_of(to))
		return;
	if (sim_send(world.sim, node_of(from), ctx_of(from), node_of(to), ctx_of(to), 8, NO_TAG) !=
		0)
		world_fail("a flow cannot be opened");
	sim_watch(world.sim, node_of(from), ctx_of(from), node_of(to), ctx_of(to), true);
}

/* Open the flows that the plan uses, both ways, as MPI's processes are connected. */
void
world_connect(const struct coll_plan *p)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		for (uint32_t i = 0; i < p->lists[r].count; i++) {
			const struct coll_step *s = &p->lists[r].steps[i];

			if (s->op == COLL_SEND) {
				open_flow(r, s->peer);
				open_flow(s->peer, r);
			}
		}
		if (!sim_run(world.sim, sim_now(world.sim) + 200 * US))
			world_fail(sim_error(world.sim));
	}
	if (!sim_run(world.sim, sim_now(world.sim) + 100 * MS))
		world_fail(sim_error(world.sim));
}

void
world_open(const struct topology *t, uint32_t per_node, const struct proto_config *proto,
	bool permits)
{
	memset(&world, 0, sizeof(world));
	world.per_node = per_node;
	world.sent_free = NONE;
	world.sim = cluster(t, proto, permits);
	if (world.sim == NULL)
		world_fail("out of memory");
	for (uint32_t r = 0; r < t->host_count * per_node; r++)
		sim_open(world.sim, node_of(r), ctx_of(r));
}

void
world_close(void)
{
	free(world.sent);
	sim_free(world.sim);
}

/* Let all ranks begin one collective at the same time. */
void
run_begin(uint32_t run, const struct coll_plan *p)
{
	struct coll_blocks blocks[COLL_BUFFERS];
	struct coll_run *x = &world.runs[run];

	coll_plan_blocks(p, blocks);
	*x = (struct coll_run){p, calloc(p->ranks, sizeof(*x->ranks)), p->ranks, 0};
	if (x->ranks == NULL)
		world_fail("out of memory");
	world.left++;
	for (uint32_t r = 0; r < p->ranks; r++) {
		void *memory = aligned_alloc(16, coll_exec_bytes(&p->lists[r]));

		if (memory == NULL)
			world_fail("out of memory");
		x->ranks[r].exec = coll_exec_init(memory, &p->lists[r], blocks, sim_now(world.sim));
	}
	for (uint32_t r = 0; r < p->ranks; r += world.per_node)
		share_line(node_of(r));
}

void
run_end(uint32_t run)
{
	struct coll_run *x = &world.runs[run];

	for (uint32_t r = 0; r < x->plan->ranks; r++)
		free(x->ranks[r].exec);
	free(x->ranks);
	x->plan = NULL;
}

/* Run the simulator until all collectives that have begun are done. */
void
run_all(void)
{
	const uint64_t begin = sim_now(world.sim);

	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t r = 0;
			world.runs[run].plan != NULL && r < world.runs[run].plan->ranks; r++)
			pump(run, r);
	}
	while (world.left > 0) {
		if (!sim_run(world.sim, sim_now(world.sim) + US))
			world_fail(sim_error(world.sim));
		if (sim_now(world.sim) - begin > 1000 * SEC)
			world_fail("a collective does not end");
	}
}

/* Run the plan. Returns how long it takes, ns. ns: NULL, or how long each rank's part takes. */
uint64_t
run_once(const struct coll_plan *p, uint64_t *ns)
{
	const uint64_t begin = sim_now(world.sim);

	run_begin(0, p);
	run_all();
	const uint64_t end = sim_now(world.sim);

	for (uint32_t r = 0; ns != NULL && r < p->ranks; r++)
		ns[r] = world.runs[0].ranks[r].done_at - begin;
	/* the next one begins when all that was sent has been Acked */
	if (ns != NULL && !sim_run(world.sim, end + 10 * MS))
		world_fail(sim_error(world.sim));
	run_end(0);
	return end - begin;
}

struct outcome
run_plan(const struct coll_plan *p, const struct topology *t, const struct proto_config *proto)
{
	struct outcome o = {0};

	/* what is sent without permits needs the shares */
	world_open(t, p->ranks / t->host_count, proto,
		p->generator != COLL_AT_ONCE && p->generator != COLL_TWO_LEVEL);
	world_connect(p);
	for (uint32_t e = 0; e < t->edge_count; e++)
		sim_edge_reset(world.sim, e);
	o.ns = (double)run_once(p, NULL);
	for (uint32_t e = 0; e < t->edge_count; e++) {
		const struct sim_edge_stat *stat = sim_edge(world.sim, e);

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

struct coll_task
coll_task_of(enum coll_kind kind, const struct topology *t, uint64_t bytes)
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

/* Make a plan as the library does. A method that sends more unasked than engines take is there to
 * be compared with: its receivers take all. Return NULL if it cannot be done that way: between
 * hosts that may not connect, or at that length. */
struct coll_plan *
coll_planned(enum coll_generator g, const struct coll_task *task)
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
