/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Paths and the tour of a topology; see tour.h. Called by generators, planner and evaluator.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/tour.h"

uint32_t
coll_node(const struct coll_task *task, uint32_t rank)
{
	return task->nodes ? task->nodes[rank] : rank;
}

double
coll_edge_ns_per_byte(const struct topology *t, uint32_t edge)
{
	return 8e9 / (double)t->edges[edge].bandwidth_bps;
}

uint64_t
coll_wire_bytes(const struct coll_params *p, uint64_t bytes)
{
	const uint64_t all = bytes + p->message_head;
	const uint64_t frames = (all + p->frame_payload - 1) / p->frame_payload;
	const uint64_t wire = all + frames * p->frame_overhead;

	return wire < p->frame_least ? p->frame_least : wire;
}

uint64_t
coll_block_wire(const struct coll_params *p, uint32_t piece, uint64_t bytes)
{
	const uint64_t whole = bytes / piece, rest = bytes % piece;

	return whole * coll_wire_bytes(p, piece) +
		(rest || whole == 0 ? coll_wire_bytes(p, rest) : 0);
}

/* Return the bytes of a piece: a block has a few dozen pieces, so that relays are quick. Blocks
 * that are not relayed have longer pieces, to spare permits. */
uint32_t
coll_piece(const struct coll_task *task, uint64_t bytes)
{
	const struct coll_params *p = &task->params;
	const bool direct = task->kind == COLL_GATHER || task->kind == COLL_SCATTER ||
		task->kind == COLL_ALLTOALL;
	const uint64_t least = direct ? 4 : 1, frames = bytes / 32 / p->frame_payload;

	if (p->piece)
		return p->piece;
	return (uint32_t)((frames < least              ? least
					  : frames > 4 ? 4
						       : frames) *
		       p->frame_payload) -
		p->message_head;
}

struct coll_path
coll_path_between(const struct coll_task *task, uint32_t from, uint32_t to)
{
	const struct topology *t = task->topology;
	const uint32_t node = coll_node(task, to);
	struct coll_path p = {.slowest = TOPOLOGY_NONE};
	const uint64_t wire = coll_wire_bytes(&task->params, task->bytes);
	const uint32_t full = task->params.frame_payload + task->params.frame_overhead;
	const double frame = wire < full ? (double)wire : (double)full;
	uint32_t at = t->hosts[coll_node(task, from)], e;

	while ((e = topology_route(t, at, node)) != TOPOLOGY_NONE) {
		const double each = coll_edge_ns_per_byte(t, e);

		p.latency_ns += (double)t->edges[e].latency_ns + frame * each;
		if (t->edges[e].stream_bps > 0 && 8e9 / (double)t->edges[e].stream_bps > p.stream)
			p.stream = 8e9 / (double)t->edges[e].stream_bps;
		if (p.slowest == TOPOLOGY_NONE || each >= p.ns_per_byte) {
			p.slowest = e;
			p.ns_per_byte = each;
		}
		at = t->edges[e].to;
	}
	if (p.slowest == TOPOLOGY_NONE)
		return (struct coll_path){
			.latency_ns = COLL_LOCAL_NS,
			.ns_per_byte = COLL_LOCAL_NS_PER_BYTE,
			.slowest = TOPOLOGY_NONE,
		};
	p.latency_ns -= frame * p.ns_per_byte;
	return p;
}

uint32_t
coll_cluster(const struct coll_task *task, uint32_t rank)
{
	const struct topology *t = task->topology;
	const struct topology_vertex *host = &t->vertices[t->hosts[coll_node(task, rank)]];

	return host->edge_count ? t->edges[host->first_edge].to : t->hosts[0];
}

bool
coll_may_all_talk(const struct coll_task *task)
{
	const struct topology *t = task->topology;

	for (uint32_t r = 0; t->talks != NULL && r < task->ranks; r++) {
		for (uint32_t q = 0; q < r; q++) {
			if (!topology_may_talk(t, coll_node(task, r), coll_node(task, q)))
				return false;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ the tour */

/* The merit of a host: more bandwidth to the root is better, then less latency, then a lower
 * number. */
struct merit {
	double ns_per_byte, latency_ns;
	uint32_t node;
};

struct walk {
	const struct topology *t;
	uint32_t *parent; /* edge towards the root, by vertex */
	uint32_t *wave;   /* vertices, those nearer to the root first */
	struct merit *to_root, *best;
	uint32_t *stack;
};

static int
tour_compare(const struct merit *a, const struct merit *b)
{
	if (a->ns_per_byte != b->ns_per_byte)
		return a->ns_per_byte < b->ns_per_byte ? -1 : 1;
	if (a->latency_ns != b->latency_ns)
		return a->latency_ns < b->latency_ns ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

/* Find from the root outwards what merit a host there would have, and then inwards the best of each
 * subtree. */
static void
tour_judge(struct walk *w, uint32_t root)
{
	const struct topology *t = w->t;
	uint32_t head = 0, tail = 0;

	w->wave[tail++] = root;
	w->parent[root] = TOPOLOGY_NONE;
	w->to_root[root] = (struct merit){0, 0, TOPOLOGY_NONE};
	while (head < tail) {
		const uint32_t v = w->wave[head++];
		const struct topology_vertex *x = &t->vertices[v];

		for (uint32_t e = x->first_edge; e < x->first_edge + x->edge_count; e++) {
			const uint32_t u = t->edges[e].to, back = t->edges[e].reverse;

			if (e == w->parent[v])
				continue;
			const double each = coll_edge_ns_per_byte(t, back);
			const struct merit *m = &w->to_root[v];

			w->parent[u] = back;
			w->to_root[u] = (struct merit){
				each > m->ns_per_byte ? each : m->ns_per_byte,
				m->latency_ns + (double)t->edges[back].latency_ns,
				t->vertices[u].host,
			};
			w->wave[tail++] = u;
		}
	}
	for (uint32_t v = 0; v < t->vertex_count; v++)
		w->best[v] = (struct merit){1e300, 1e300, TOPOLOGY_NONE};
	while (tail-- > 0) {
		const uint32_t v = w->wave[tail];

		if (t->vertices[v].host != TOPOLOGY_NONE)
			w->best[v] = w->to_root[v];
		if (w->parent[v] == TOPOLOGY_NONE)
			continue;
		struct merit *above = &w->best[t->edges[w->parent[v]].to];

		if (tour_compare(&w->best[v], above) < 0)
			*above = w->best[v];
	}
}

/* Put the subtrees of a vertex onto the stack, the best on top. */
static uint32_t
push_subtrees(const struct walk *w, uint32_t v, uint32_t depth)
{
	const struct topology_vertex *x = &w->t->vertices[v];
	const uint32_t from = depth;

	for (uint32_t e = x->first_edge; e < x->first_edge + x->edge_count; e++) {
		const uint32_t u = w->t->edges[e].to;

		if (e == w->parent[v])
			continue;
		uint32_t at = depth++;

		for (; at > from && tour_compare(&w->best[u], &w->best[w->stack[at - 1]]) > 0; at--)
			w->stack[at] = w->stack[at - 1];
		w->stack[at] = u;
	}
	return depth;
}

/* Write the ranks by the order of their hosts, the root first; several on one host keep their
 * order. */
static void
write_order(const struct coll_task *task, const struct walk *w, uint16_t *order, uint32_t *first_of,
	uint32_t *next_of)
{
	const struct topology *t = w->t;
	uint32_t depth = 1, n = 0;

	for (uint32_t node = 0; node < t->host_count; node++)
		first_of[node] = TOPOLOGY_NONE;
	for (uint32_t r = task->ranks; r-- > 0;) {
		next_of[r] = first_of[coll_node(task, r)];
		first_of[coll_node(task, r)] = r;
	}
	order[n++] = (uint16_t)task->root;
	w->stack[0] = t->hosts[coll_node(task, task->root)];
	while (depth > 0) {
		const uint32_t v = w->stack[--depth], host = t->vertices[v].host;

		if (host != TOPOLOGY_NONE) {
			for (uint32_t r = first_of[host]; r != TOPOLOGY_NONE; r = next_of[r]) {
				if (r != task->root)
					order[n++] = (uint16_t)r;
			}
		}
		depth = push_subtrees(w, v, depth);
	}
}

int
coll_tour(const struct coll_task *task, uint16_t *order)
{
	const struct topology *t = task->topology;
	const uint32_t n = t->vertex_count;
	struct walk w = {
		.t = t,
		.parent = calloc(n, sizeof(*w.parent)),
		.wave = calloc(n, sizeof(*w.wave)),
		.to_root = calloc(n, sizeof(*w.to_root)),
		.best = calloc(n, sizeof(*w.best)),
		.stack = calloc(n + 1, sizeof(*w.stack)),
	};
	uint32_t *first_of = calloc(t->host_count, sizeof(*first_of));
	uint32_t *next_of = calloc(task->ranks, sizeof(*next_of));
	const bool ok = w.parent && w.wave && w.to_root && w.best && w.stack && first_of && next_of;

	if (ok) {
		tour_judge(&w, t->hosts[coll_node(task, task->root)]);
		write_order(task, &w, order, first_of, next_of);
	}
	free(w.parent);
	free(w.wave);
	free(w.to_root);
	free(w.best);
	free(w.stack);
	free(first_of);
	free(next_of);
	return ok ? 0 : -ENOMEM;
}
