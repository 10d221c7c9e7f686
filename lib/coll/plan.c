/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Making plans: the table of generators, the bound, and the choice; see plan.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/generate.h"
#include "core/wire/wire.h"

/* parts of a vector begin at multiples of this, whatever its elements */
#define VECTOR_ALIGN   64
/* on the wire: preamble, header, checksum and gap; and the shortest frame with these */
#define ETHERNET_EXTRA 38
#define ETHERNET_LEAST 84
/* proto.window_frames of an engine that is not told otherwise, less what waits for its Ack */
#define FLIGHT_FRAMES  (512 - 32)

const char *const coll_kind_name[COLL_KINDS] = {"gather", "scatter", "bcast", "reduce", "allgather",
	"alltoall", "allreduce", "reduce_scatter", "barrier"};
const char *const coll_generator_name[COLL_GENERATORS] = {"at_once", "in_turn", "permits", "paper",
	"chain", "binomial", "two_level", "two_trees", "ring", "bruck", "phases", "doubling",
	"spread", "earliest", "near"};

typedef void (*generator)(struct coll_builder *);

static const generator generators[COLL_GENERATORS][COLL_KINDS] = {
	[COLL_AT_ONCE] =
		{
			[COLL_GATHER] = coll_gather_at_once,
			[COLL_SCATTER] = coll_scatter_at_once,
			[COLL_ALLGATHER] = coll_allgather_at_once,
			[COLL_ALLTOALL] = coll_alltoall_at_once,
			[COLL_ALLREDUCE] = coll_allreduce_at_once,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_at_once,
		},
	[COLL_IN_TURN] = {[COLL_GATHER] = coll_gather_in_turn},
	[COLL_PERMITS] =
		{
			[COLL_GATHER] = coll_gather_permits,
			[COLL_SCATTER] = coll_scatter_permits,
		},
	[COLL_PAPER] = {[COLL_GATHER] = coll_gather_paper},
	[COLL_PAPER_NEAR] = {[COLL_GATHER] = coll_gather_near},
	[COLL_CHAIN] =
		{
			[COLL_GATHER] = coll_gather_chain,
			[COLL_BCAST] = coll_bcast_chain,
			[COLL_REDUCE_TO] = coll_reduce_chain,
		},
	[COLL_BINOMIAL] =
		{
			[COLL_GATHER] = coll_gather_binomial,
			[COLL_SCATTER] = coll_scatter_binomial,
			[COLL_BCAST] = coll_bcast_binomial,
			[COLL_REDUCE_TO] = coll_reduce_binomial,
			[COLL_ALLREDUCE] = coll_allreduce_binomial,
		},
	[COLL_TWO_LEVEL] =
		{
			[COLL_GATHER] = coll_gather_two_level,
			[COLL_BCAST] = coll_bcast_two_level,
			[COLL_REDUCE_TO] = coll_reduce_two_level,
			[COLL_ALLREDUCE] = coll_allreduce_two_level,
		},
	[COLL_TWO_TREES] =
		{
			[COLL_BCAST] = coll_bcast_two_trees,
			[COLL_REDUCE_TO] = coll_reduce_two_trees,
			[COLL_ALLGATHER] = coll_allgather_two_trees,
			[COLL_ALLREDUCE] = coll_allreduce_two_trees,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_two_trees,
		},
	[COLL_RING] =
		{
			[COLL_ALLGATHER] = coll_allgather_ring,
			[COLL_ALLREDUCE] = coll_allreduce_ring,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_ring,
		},
	[COLL_BRUCK] =
		{
			[COLL_ALLGATHER] = coll_allgather_bruck,
			[COLL_BARRIER] = coll_barrier_bruck,
		},
	[COLL_PHASES] = {[COLL_ALLTOALL] = coll_alltoall_phases},
	[COLL_DOUBLING] =
		{
			[COLL_ALLREDUCE] = coll_allreduce_doubling,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_doubling,
		},
	[COLL_SPREAD] =
		{
			[COLL_BCAST] = coll_bcast_spread,
			[COLL_REDUCE_TO] = coll_reduce_spread,
			[COLL_ALLGATHER] = coll_allgather_spread,
			[COLL_ALLREDUCE] = coll_allreduce_spread,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_spread,
		},
	[COLL_EARLIEST] =
		{
			[COLL_GATHER] = coll_gather_overlay,
			[COLL_SCATTER] = coll_scatter_overlay,
			[COLL_BCAST] = coll_bcast_overlay,
			[COLL_REDUCE_TO] = coll_reduce_overlay,
			[COLL_ALLGATHER] = coll_allgather_overlay,
			[COLL_ALLTOALL] = coll_alltoall_overlay,
			[COLL_ALLREDUCE] = coll_allreduce_overlay,
			[COLL_REDUCE_SCATTER] = coll_reduce_scatter_overlay,
			[COLL_BARRIER] = coll_barrier_overlay,
		},
};

static unsigned
find_name(const char *const *names, unsigned count, const char *name)
{
	unsigned i = 0;

	while (i < count && strcmp(names[i], name) != 0)
		i++;
	return i;
}

enum coll_kind
coll_kind_named(const char *name)
{
	return (enum coll_kind)find_name(coll_kind_name, COLL_KINDS, name);
}

enum coll_generator
coll_generator_named(const char *name)
{
	return (enum coll_generator)find_name(coll_generator_name, COLL_GENERATORS, name);
}

bool
coll_generator_does(enum coll_generator g, enum coll_kind kind)
{
	return g < COLL_GENERATORS && kind < COLL_KINDS && generators[g][kind] != NULL;
}

uint32_t
coll_piece_in(uint32_t frame_payload)
{
	return (frame_payload - (uint32_t)sizeof(struct wire_coll)) & ~63u;
}

struct coll_params
coll_params_of_engines(uint32_t piece)
{
	return (struct coll_params){
		.frame_payload = piece + (uint32_t)sizeof(struct wire_coll),
		.frame_overhead = WIRE_HDR_BYTES + ETHERNET_EXTRA,
		.frame_least = ETHERNET_LEAST,
		.message_head = sizeof(struct wire_coll),
		.piece = piece,
		.eager = WIRE_COLL_EAGER,
		.flight_frames = FLIGHT_FRAMES,
	};
}

/* ------------------------------------------------------------------ blocks */

static uint32_t
blocks_of(enum coll_generator g, const struct coll_task *task)
{
	const bool halves = g == COLL_TWO_TREES || g == COLL_TWO_LEVEL || g == COLL_SPREAD;

	switch (task->kind) {
	case COLL_BCAST:
	case COLL_REDUCE_TO:
	case COLL_ALLREDUCE:
		return halves ? 2 : g == COLL_RING ? task->ranks : 1;
	case COLL_BARRIER:
		return 1;
	case COLL_GATHER:
	case COLL_SCATTER:
	case COLL_ALLGATHER:
	case COLL_ALLTOALL:
	case COLL_REDUCE_SCATTER:
	case COLL_KINDS:
		break;
	}
	return task->ranks;
}

/* Return the bytes of the largest block. */
static uint64_t
block_bytes(const struct coll_plan *p)
{
	return p->ends ? p->ends[0] : p->bytes;
}

/* Cut a vector into blocks. */
static bool
plan_cut(struct coll_plan *p)
{
	const bool vector = p->kind == COLL_BCAST || p->kind == COLL_REDUCE_TO ||
		p->kind == COLL_ALLREDUCE;

	if (!vector || p->block_count == 1)
		return true;
	p->ends = calloc(p->block_count, sizeof(*p->ends));
	if (p->ends == NULL)
		return false;
	const uint64_t even = (p->bytes + p->block_count - 1) / p->block_count;
	const uint64_t each = (even + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;

	for (uint32_t i = 0; i < p->block_count; i++) {
		const uint64_t end = (i + 1) * each;

		p->ends[i] = end < p->bytes ? end : p->bytes;
	}
	return true;
}

void
coll_plan_blocks(const struct coll_plan *p, struct coll_blocks blocks[COLL_BUFFERS])
{
	for (unsigned i = 0; i < COLL_BUFFERS; i++)
		blocks[i] = (struct coll_blocks){p->block_count, p->bytes, p->ends};
}

/* ------------------------------------------------------------------ the bound */

/* Return how many ranks are behind this edge, seen from its beginning; *root: whether the root
 * is. */
static uint32_t
ranks_behind(const struct coll_task *task, uint32_t edge, bool *root)
{
	const struct topology *t = task->topology;
	uint32_t n = 0;

	*root = false;
	for (uint32_t r = 0; r < task->ranks; r++) {
		if (topology_route(t, t->edges[edge].from, coll_node(task, r)) != edge)
			continue;
		n++;
		*root |= r == task->root;
	}
	return n;
}

/* Return how many bytes have to cross an edge, with n of all ranks behind it. root: the root is one
 * of these; host: the edge is a host's line. */
static double
bytes_across(const struct coll_task *task, uint32_t n, bool root, bool host)
{
	const uint32_t all = task->ranks;
	const double wire = (double)coll_block_wire(&task->params, coll_piece(task, task->bytes),
		task->bytes);

	switch (task->kind) {
	case COLL_GATHER:
		return root ? (all - n) * wire : 0;
	case COLL_SCATTER:
		return root ? 0 : n * wire;
	case COLL_BCAST:
		return root ? 0 : wire;
	case COLL_REDUCE_TO:
		return root ? wire : 0;
	case COLL_ALLGATHER:
		return (all - n) * wire;
	case COLL_ALLTOALL:
		return (double)n * (all - n) * wire;
	case COLL_ALLREDUCE:
		return host ? 2.0 * (all - 1) / all * wire : wire;
	case COLL_REDUCE_SCATTER:
		return n * wire;
	case COLL_BARRIER:
	case COLL_KINDS:
		break;
	}
	return task->params.frame_least;
}

/* Return whether an edge is a host's line. */
static bool
is_line(const struct topology *t, uint32_t edge)
{
	return t->vertices[t->edges[edge].from].host != TOPOLOGY_NONE ||
		t->vertices[t->edges[edge].to].host != TOPOLOGY_NONE;
}

/* Return how long an edge takes for what has to cross it, ns. */
static double
edge_ns(const struct coll_task *task, uint32_t edge)
{
	bool root;
	const uint32_t n = ranks_behind(task, edge, &root);

	if (n == 0 || n == task->ranks)
		return 0;
	return bytes_across(task, n, root, is_line(task->topology, edge)) *
		coll_edge_ns_per_byte(task->topology, edge);
}

uint64_t
coll_bound_ns(const struct coll_task *task)
{
	double worst = 0, longest = 0;

	for (uint32_t e = 0; e < task->topology->edge_count; e++) {
		const double ns = edge_ns(task, e);

		worst = ns > worst ? ns : worst;
	}
	/* the longest path that some byte has to go, one way */
	const bool outwards = task->kind == COLL_SCATTER || task->kind == COLL_BCAST;

	for (uint32_t r = 0; r < task->ranks; r++) {
		const struct coll_path way = outwards ? coll_path_between(task, task->root, r)
						      : coll_path_between(task, r, task->root);

		if (r != task->root && way.latency_ns > longest)
			longest = way.latency_ns;
	}
	return (uint64_t)(worst + longest);
}

/* ------------------------------------------------------------------ making */

static uint64_t
hashed(uint64_t h, const void *data, size_t len)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * 0x100000001B3u;
	return h;
}

/* Return a hash of what all ranks have to agree on, whichever lists were made. */
static uint64_t
hash_of(const struct coll_plan *p, const struct coll_task *task)
{
	const uint64_t numbers[] = {p->kind, p->generator, p->ranks, p->root, p->bytes,
		p->lists[0].piece};
	const struct topology *t = task->topology;
	uint64_t h = hashed(0xCBF29CE484222325u, numbers, sizeof(numbers));

	for (uint32_t e = 0; e < t->edge_count; e++) {
		const uint64_t edge[] = {t->edges[e].from, t->edges[e].to,
			t->edges[e].bandwidth_bps, t->edges[e].latency_ns, t->edges[e].stream_bps};

		h = hashed(h, edge, sizeof(edge));
	}
	if (t->talks != NULL)
		h = hashed(h, t->talks,
			(size_t)t->host_count * topology_talk_words(t) * sizeof(*t->talks));
	for (uint32_t r = 0; r < p->ranks; r++) {
		const uint32_t node = coll_node(task, r);
		const struct topology_vertex *host = &t->vertices[t->hosts[node]];

		h = hashed(h, &node, sizeof(node));
		if (host->message_ns > 0 || host->copy_bps > 0) {
			h = hashed(h, &host->message_ns, sizeof(host->message_ns));
			h = hashed(h, &host->copy_bps, sizeof(host->copy_bps));
		}
	}
	return h;
}

static int
plan_check(const struct coll_task *task)
{
	if (task->ranks == 0 || task->ranks > COLL_RANKS_MAX || task->root >= task->ranks ||
		task->params.frame_payload <= task->params.message_head)
		return -EINVAL;
	for (uint32_t r = 0; r < task->ranks; r++) {
		if (coll_node(task, r) >= task->topology->host_count)
			return -EINVAL;
	}
	return 0;
}

/* Make room for the steps that were counted. Return 0 or -ENOMEM. */
static int
make_room(struct coll_builder *b)
{
	struct coll_plan *p = b->plan;
	uint64_t at = 0;

	for (uint32_t r = 0; r < p->ranks; r++) {
		if (b->task->only == COLL_NONE || b->task->only == r)
			p->step_count += b->used[r];
	}
	p->steps = calloc(p->step_count + 1, sizeof(*p->steps));
	if (p->steps == NULL)
		return -ENOMEM;
	for (uint32_t r = 0; r < p->ranks; r++) {
		p->lists[r].steps = &p->steps[at];
		p->lists[r].count = b->task->only == COLL_NONE || b->task->only == r ? b->used[r]
										     : 0;
		at += p->lists[r].count;
		b->used[r] = 0;
	}
	return 0;
}

static int
generate(struct coll_builder *b, generator g)
{
	b->counting = true;
	g(b);
	int e = b->error ? b->error : make_room(b);

	if (e != 0)
		return e;
	b->counting = false;
	g(b);
	return b->error;
}

/* Let a rank's pieces leave at the rate of its host's line, or of a slower link that all of them
 * cross, and those that go a slower way than others at the rate of that. What waits in the host's
 * own port would look like a queue in the network, and what waits before a slower link may be lost,
 * even if nobody else sends. */
static void
pace_line(struct coll_plan *p, const struct coll_task *task, uint32_t rank)
{
	const struct topology *t = task->topology;
	const struct topology_vertex *host = &t->vertices[t->hosts[coll_node(task, rank)]];
	struct coll_list *l = &p->lists[rank];
	struct coll_step *steps = &p->steps[l->steps - p->steps];
	struct coll_path all = {.slowest = TOPOLOGY_NONE};
	bool does[COLL_OPS] = {false}, one_way = true;

	if (host->edge_count == 0)
		return;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct coll_step *s = &steps[i];

		does[s->op] = true;
		if (s->op != COLL_SEND || s->flags & (COLL_EAGER | COLL_NEAR))
			continue;
		const struct coll_path way = coll_path_between(task, rank, s->peer);

		one_way &= all.slowest == TOPOLOGY_NONE || all.slowest == way.slowest;
		all = way;
	}
	const double line = all.slowest != TOPOLOGY_NONE && one_way
		? all.ns_per_byte
		: coll_edge_ns_per_byte(t, host->first_edge);
	const bool both = does[COLL_SEND] && does[COLL_RECV];

	l->send_pace = coll_pace(p, task, coll_slack(task, line, both));
	for (uint32_t i = 0; i < l->count && !one_way; i++) {
		struct coll_step *s = &steps[i];

		if (s->op != COLL_SEND || s->pace > 0 || s->flags & (COLL_EAGER | COLL_NEAR))
			continue;
		const double way = coll_path_between(task, rank, s->peer).ns_per_byte;

		if (way > line * 1.01)
			s->pace = coll_pace(p, task, coll_slack(task, way, both));
	}
}

static uint16_t
part_of(double busy_ns, uint64_t all_ns)
{
	const double part = all_ns > 0 ? COLL_WHOLE * busy_ns / (double)all_ns : 0;

	return part < COLL_WHOLE ? (uint16_t)part : COLL_WHOLE;
}

/* Return how long the busiest link between switches on the way from one node to another one takes,
 * ns. inner_ns: how long each edge takes, with 0 for hosts' lines. */
static double
way_ns(const struct topology *t, const double *inner_ns, uint32_t from, uint32_t to)
{
	double most = 0;

	for (uint32_t v = t->hosts[from], e; v != t->hosts[to]; v = t->edges[e].to) {
		e = topology_route(t, v, to);
		most = inner_ns[e] > most ? inner_ns[e] : most;
	}
	return most;
}

/* Note how busy a rank's line is, or the busiest link between switches on the way to or from it: a
 * host's line at the other end is for that host to look after. What goes without permits is short,
 * and counts as nothing. */
static void
load_line(struct coll_plan *p, const struct coll_task *task, const double *inner_ns, uint32_t rank)
{
	struct coll_list *l = &p->lists[rank];
	const uint32_t here = coll_node(task, rank);
	struct coll_blocks blocks[COLL_BUFFERS];
	double line_ns[2] = {0, 0}, most_ns[2] = {0, 0}; /* out, in */

	coll_plan_blocks(p, blocks);
	for (uint32_t i = 0; i < l->count; i++) {
		const struct coll_step *s = &l->steps[i];
		const bool in = s->op == COLL_RECV;

		if (s->op > COLL_RECV || s->flags & COLL_EAGER)
			continue;
		const uint32_t there = coll_node(task, s->peer);

		if (there == here)
			continue;
		const double way = way_ns(task->topology, inner_ns, in ? there : here,
			in ? here : there);

		most_ns[in] = way > most_ns[in] ? way : most_ns[in];
		line_ns[in] += (double)coll_run_bytes(&blocks[in ? s->to : s->from], s->block,
				       s->blocks) *
			l->send_pace / 65536;
	}
	/* Acks and permits of what comes */
	line_ns[0] += line_ns[1] * task->params.frame_least /
		(task->params.frame_payload + task->params.frame_overhead);
	for (unsigned k = 0; k < 2; k++)
		most_ns[k] = line_ns[k] > most_ns[k] ? line_ns[k] : most_ns[k];
	l->load_out = part_of(most_ns[0], p->bound_ns);
	l->load_in = part_of(most_ns[1], p->bound_ns);
}

/* Set the pace of all ranks' lines, and note how busy these are. Return 0 or -ENOMEM. */
static int
lines(struct coll_plan *p, const struct coll_task *task)
{
	const struct topology *t = task->topology;
	double *inner_ns = calloc(t->edge_count + 1, sizeof(*inner_ns));

	if (inner_ns == NULL)
		return -ENOMEM;
	for (uint32_t e = 0; e < t->edge_count; e++)
		inner_ns[e] = is_line(t, e) ? 0 : edge_ns(task, e);
	for (uint32_t r = 0; r < p->ranks; r++) {
		pace_line(p, task, r);
		load_line(p, task, inner_ns, r);
	}
	free(inner_ns);
	return 0;
}

/* Return a plan without steps, to be freed with coll_plan_free, or NULL if memory is short. */
static struct coll_plan *
plan_new(enum coll_generator g, const struct coll_task *task)
{
	struct coll_plan *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->kind = task->kind;
	p->generator = g;
	p->ranks = task->ranks;
	p->root = task->root;
	p->bytes = task->bytes;
	p->block_count = blocks_of(g, task);
	p->order = calloc(p->ranks, sizeof(*p->order));
	p->lists = calloc(p->ranks, sizeof(*p->lists));
	if (g == COLL_PAPER)
		p->paper_ns = calloc(p->ranks, sizeof(*p->paper_ns));
	if (p->order != NULL && p->lists != NULL && plan_cut(p))
		return p;
	coll_plan_free(p);
	return NULL;
}

int
coll_plan_make(enum coll_generator g, const struct coll_task *task, struct coll_plan **out)
{
	if (!coll_generator_does(g, task->kind))
		return -EOPNOTSUPP;
	int e = plan_check(task);

	if (e != 0)
		return e;
	struct coll_plan *p = plan_new(g, task);
	uint16_t *parent = calloc(task->ranks, sizeof(*parent));
	struct coll_builder b = {
		.plan = p,
		.task = task,
		.used = calloc(task->ranks, sizeof(*b.used)),
	};

	e = -ENOMEM;
	if (p == NULL || b.used == NULL || parent == NULL)
		goto fail;
	const uint32_t piece = coll_piece(task, block_bytes(p));

	b.blocks = (struct coll_blocks){p->block_count, p->bytes, p->ends};
	if (g == COLL_EARLIEST)
		b.parent = parent;
	e = g == COLL_EARLIEST ? coll_overlay_tree(task, piece, p->order, parent)
			       : coll_tour(task, p->order);
	if (e != 0)
		goto fail;
	for (uint32_t r = 0; r < p->ranks; r++)
		p->lists[r] = (struct coll_list){
			.ranks = p->ranks,
			.rank = r,
			.piece = piece,
			.area_bytes = AREA_PIECES * piece,
		};
	e = generate(&b, generators[g][task->kind]);
	p->bound_ns = coll_bound_ns(task);
	if (e == 0 && g != COLL_AT_ONCE)
		e = lines(p, task);
	if (e != 0)
		goto fail;
	p->hash = hash_of(p, task);
	free(b.used);
	free(parent);
	*out = p;
	return 0;
fail:
	free(b.used);
	free(parent);
	coll_plan_free(p);
	return e;
}

void
coll_plan_free(struct coll_plan *p)
{
	if (p == NULL)
		return;
	free(p->order);
	free(p->ends);
	free(p->lists);
	free(p->steps);
	free(p->paper_ns);
	free(p);
}
