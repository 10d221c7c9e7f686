/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Overlays: networks in which only some pairs of hosts may connect, so others relay between them
 * (contention-free adaptive collectives, SWoPP 2008, section 6.2, has them as future work). The
 * tree that messages follow is grown here, and here are the generators that need more than a tree;
 * those of bcast and reductions are in tree.c.
 *
 * Design notes
 * 1. The tree grows from the root: next comes whoever can have its first bytes earliest from one
 *    that has them (the earliest completing edge first: Bhat, Raghavendra, Prasanna, JPDC 2003).
 *    What is sent on to several takes its sender's line several times; so short messages grow a
 *    flat tree, and long ones, which are relayed piece by piece, one that is nearly a chain. Blocks
 *    of a gather or a scatter each go to one place only, and so take the shortest way.
 * 2. Relays have bounded scratch and cannot wait for each other in a circle: blocks have an order,
 *    which is the same in every rank's list, and scratch is a ring in that order. Of all blocks
 *    that have not come to their end, the first one has the beginning of every ring on its way,
 *    so it goes on; and then the next one does. In an alltoall the first relay of a block's way has
 *    one area, the second another one, and so on: what goes one way need not wait for what comes
 *    the other way.
 * 3. Pairs of an alltoall that may connect do; others have a shortest way, by those relays that
 *    have had the least to do so far.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/generate.h"

/* of one place, as each has an area of scratch, and what comes down the tree another one */
#define CHILDREN_MAX (COLL_AREAS_MAX - 1)
/* of more ranks, ways are looked for without regard to how busy lines are */
#define SPREAD_RANKS 1024
#define UNREACHED    1e300

static bool
may_talk(const struct coll_task *task, uint32_t rank, uint32_t other)
{
	return topology_may_talk(task->topology, coll_node(task, rank), coll_node(task, other));
}

/* ------------------------------------------------------------------ the tree */

/* The times that a hop takes: until the first piece is there, and of the sender's line. */
struct hop {
	float first_ns, line_ns;
};

/* A tree that grows. All by rank. */
struct growth {
	const struct coll_task *task;
	bool spreads;      /* a sender's line is busy while it sends (note 1) */
	double *free_ns;   /* of those in the tree: when the line, or the first bytes, are there */
	double *best_ns;   /* of the others: when they could have them first, at least */
	uint16_t *parent;  /* in the tree or not: from whom; COLL_NONE: nobody yet */
	uint16_t *members; /* of the tree, in the order in which they came */
	uint16_t *children;
	uint16_t *place;
	bool *is_in;
	struct hop *hops; /* from * ranks + to, if it spreads; first_ns = 0: not looked for yet */
	uint32_t count;
	/* bytes on the wire: of a piece, and of all that a hop carries */
	double piece_wire, wire;
};

static struct hop
hop_between(const struct growth *g, uint32_t from, uint32_t to)
{
	struct hop *known = g->hops != NULL ? &g->hops[(size_t)from * g->task->ranks + to] : NULL;

	if (known != NULL && known->first_ns > 0)
		return *known;
	const struct coll_path way = coll_path_between(g->task, from, to);
	const struct topology *t = g->task->topology;
	const uint32_t here = coll_node(g->task, from), there = coll_node(g->task, to);
	const double sends = coll_message_ns(t, here, (uint64_t)g->piece_wire, COLL_MESSAGE_NS);
	const double gets = coll_message_ns(t, there, (uint64_t)g->piece_wire, COLL_MESSAGE_NS);
	const double line = g->wire * way.ns_per_byte, works = sends * g->wire / g->piece_wire;
	const struct hop h = {
		.first_ns =
			(float)(sends + way.latency_ns + g->piece_wire * way.ns_per_byte + gets),
		.line_ns = (float)(line > works ? line : works),
	};

	if (known != NULL)
		*known = h;
	return h;
}

/* Make p the parent of x if it is better than the one that x would have. */
static void
offer(struct growth *g, uint32_t p, uint32_t x)
{
	if (!may_talk(g->task, p, x) || (g->spreads && g->children[p] >= CHILDREN_MAX))
		return;
	const double at = g->free_ns[p] + hop_between(g, p, x).first_ns;

	if (g->parent[x] == COLL_NONE || at < g->best_ns[x]) {
		g->best_ns[x] = at;
		g->parent[x] = (uint16_t)p;
	}
}

/* Return who comes next into the tree, or COLL_NONE if nobody else can be reached. The time that a
 * rank could have was right when it was found; its parent may be busier now, or full, so it is
 * looked for again before it counts. */
static uint16_t
next_to_come(struct growth *g)
{
	for (;;) {
		uint16_t x = COLL_NONE;

		for (uint32_t r = 0; r < g->task->ranks; r++) {
			if (!g->is_in[r] && g->parent[r] != COLL_NONE &&
				(x == COLL_NONE || g->best_ns[r] < g->best_ns[x]))
				x = (uint16_t)r;
		}
		if (x == COLL_NONE || !g->spreads)
			return x;
		const double before = g->best_ns[x];

		g->parent[x] = COLL_NONE;
		for (uint32_t i = 0; i < g->count; i++)
			offer(g, g->members[i], x);
		if (g->parent[x] != COLL_NONE && g->best_ns[x] <= before)
			return x;
	}
}

static void
enter(struct growth *g, uint32_t x)
{
	g->is_in[x] = true;
	g->members[g->count++] = (uint16_t)x;
	g->free_ns[x] = g->parent[x] == COLL_NONE ? 0 : g->best_ns[x];
	if (g->parent[x] != COLL_NONE) {
		g->children[g->parent[x]]++;
		if (g->spreads)
			g->free_ns[g->parent[x]] += hop_between(g, g->parent[x], x).line_ns;
	}
	for (uint32_t r = 0; r < g->task->ranks; r++) {
		if (!g->is_in[r])
			offer(g, x, r);
	}
}

/* Write the tree in depth-first order: whoever came last to a parent has the lowest place among its
 * children, as each sends to those of high places first. */
static void
write_places(const struct growth *g, uint16_t *order, uint16_t *parent)
{
	const uint32_t n = g->task->ranks, root = g->task->root;
	/* child of a rank that came last; not needed otherwise now */
	uint16_t *first = g->children;
	uint16_t *next = g->members; /* ... and the one before it, by rank */
	uint16_t *came = parent;     /* a copy of members: parents are written behind it */

	memcpy(came, g->members, n * sizeof(*came));
	memset(first, 0xFF, n * sizeof(*first));
	for (uint32_t i = 1; i < n; i++) {
		const uint16_t p = g->parent[came[i]];

		next[came[i]] = first[p];
		first[p] = came[i];
	}
	uint32_t count = 0, r = root;

	next[root] = COLL_NONE;
	for (;;) {
		g->place[r] = (uint16_t)count;
		parent[count] = r == root ? 0 : g->place[g->parent[r]];
		order[count++] = (uint16_t)r;
		if (first[r] != COLL_NONE) {
			r = first[r];
			continue;
		}
		while (r != root && next[r] == COLL_NONE)
			r = g->parent[r];
		if (r == root)
			return;
		r = next[r];
	}
}

static bool
is_spread(enum coll_kind kind)
{
	return kind != COLL_GATHER && kind != COLL_SCATTER && kind != COLL_ALLTOALL;
}

int
coll_overlay_tree(const struct coll_task *task, uint32_t piece, uint16_t *order, uint16_t *parent)
{
	const uint32_t n = task->ranks;
	const bool all = task->kind == COLL_ALLGATHER || task->kind == COLL_REDUCE_SCATTER;
	const uint64_t bytes = task->bytes < piece ? task->bytes : piece;
	struct growth g = {
		.task = task,
		.spreads = is_spread(task->kind) && n <= SPREAD_RANKS,
		.free_ns = calloc(n, sizeof(*g.free_ns)),
		.best_ns = calloc(n, sizeof(*g.best_ns)),
		.parent = malloc(n * sizeof(*g.parent)),
		.members = calloc(n, sizeof(*g.members)),
		.children = calloc(n, sizeof(*g.children)),
		.place = calloc(n, sizeof(*g.place)),
		.is_in = calloc(n, sizeof(*g.is_in)),
		.piece_wire = (double)coll_wire_bytes(&task->params, bytes),
		.wire = (double)coll_block_wire(&task->params, piece, task->bytes) * (all ? n : 1),
	};
	int e = -ENOMEM;

	if (g.spreads)
		g.hops = calloc((size_t)n * n, sizeof(*g.hops));
	if (g.free_ns && g.best_ns && g.parent && g.members && g.children && g.place && g.is_in &&
		(g.hops || !g.spreads)) {
		memset(g.parent, 0xFF, n * sizeof(*g.parent));
		enter(&g, task->root);
		for (uint16_t x; g.count < n && (x = next_to_come(&g)) != COLL_NONE;)
			enter(&g, x);
		e = g.count == n ? 0 : -EHOSTUNREACH;
	}
	if (e == 0)
		write_places(&g, order, parent);
	free(g.free_ns);
	free(g.best_ns);
	free(g.parent);
	free(g.members);
	free(g.children);
	free(g.place);
	free(g.is_in);
	free(g.hops);
	return e;
}

/* ------------------------------------------------------------------ gather, scatter */

/* Bound what is under way to a place that gets from several. longest_ns: there and back, to its
 * farthest sender. */
static void
bound_inflow(struct coll_builder *b, uint32_t place, double longest_ns)
{
	const struct topology *t = b->task->topology;
	const uint32_t rank = b->plan->order[place], node = coll_node(b->task, rank);
	const struct topology_vertex *host = &t->vertices[t->hosts[node]];
	struct coll_list *l = &b->plan->lists[rank];
	const double line = host->edge_count
		? coll_edge_ns_per_byte(t, t->edges[host->first_edge].reverse)
		: COLL_LOCAL_NS_PER_BYTE;
	const double under_way = longest_ns / line;

	l->grain = coll_grain(b, node, under_way);
	l->window = (uint64_t)under_way + 4ull * l->grain;
}

static double
there_and_back_ns(const struct coll_builder *b, uint32_t place, uint32_t other)
{
	const uint16_t *order = b->plan->order;

	return coll_path_between(b->task, order[place], order[other]).latency_ns +
		coll_path_between(b->task, order[other], order[place]).latency_ns;
}

/* Gather by the tree. What a relay gets is bounded by its scratch; the root has room for all, so
 * bound what is under way to it. */
void
coll_overlay_collect(struct coll_builder *b, uint16_t *got)
{
	double longest = 0;

	for (uint32_t p = 1; p < b->task->ranks; p++) {
		const double ns = b->parent[p] == 0 ? there_and_back_ns(b, 0, p) : 0;

		longest = ns > longest ? ns : longest;
	}
	coll_gather_by(b, b->parent, false, got);
	bound_inflow(b, 0, longest);
}

void
coll_overlay_areas(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;

	for (uint32_t p = 0; p < n; p++) {
		struct coll_list *l = &b->plan->lists[b->plan->order[p]];
		uint32_t children = 0;

		for (uint32_t c = p + 1; c < n; c++)
			children += b->parent[c] == p;
		if (children <= 2)
			continue;
		const uint64_t most = 2 * l->area_bytes / children;

		l->area_bytes = most > 2ull * l->piece ? most : 2ull * l->piece;
	}
}

void
coll_gather_overlay(struct coll_builder *b)
{
	coll_overlay_collect(b, NULL);
}

void
coll_scatter_overlay(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	uint16_t *way = calloc(n, sizeof(*way));
	struct coll_hops h;

	if (coll_hops_make(&h, b, false) && way != NULL) {
		for (uint32_t p = 1; p < n; p++)
			coll_widen_area(b, b->plan->order[p], b->plan->order[b->parent[p]],
				UINT64_MAX);
		coll_add_own(b, b->plan->order[0], 0);
		/* the block of the highest place, at the end of a chain, first */
		for (uint32_t x = n; x-- > 1;) {
			uint16_t got = COLL_NONE;
			uint32_t hops = 0;

			for (uint32_t p = x; p != 0; p = b->parent[p])
				way[hops++] = (uint16_t)p;
			for (uint32_t k = hops; k-- > 0;)
				got = coll_hop(&h, k + 1 < hops ? way[k + 1] : 0, way[k], x, x, got,
					k == 0, 0);
		}
	} else {
		b->error = -ENOMEM;
	}
	free(way);
	coll_hops_end(&h);
}

/* ------------------------------------------------------------------ barrier */

void
coll_barrier_overlay(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		uint16_t here = COLL_NONE;

		for (uint32_t c = p + 1; c < n; c++) {
			struct coll_step r = coll_recv(order[c], COLL_OUT, 0, 0);

			if (b->parent[c] != p)
				continue;
			r.flags = COLL_EAGER;
			const uint16_t got = coll_add(b, order[p], &r);

			here = here == COLL_NONE ? got : coll_add_join(b, order[p], here, got);
		}
		if (p > 0) {
			struct coll_step s = coll_send(order[b->parent[p]], COLL_IN, 0, 0);
			struct coll_step r = coll_recv(order[b->parent[p]], COLL_OUT, 0, 0);

			s.flags = r.flags = COLL_EAGER;
			s.after[0] = here;
			coll_add(b, order[p], &s);
			here = coll_add(b, order[p], &r);
		}
		for (uint32_t c = n; c-- > p + 1;) {
			struct coll_step s = coll_send(order[c], COLL_IN, 0, 0);

			if (b->parent[c] != p)
				continue;
			s.flags = COLL_EAGER;
			s.after[0] = here;
			coll_add(b, order[p], &s);
		}
	}
}

/* ------------------------------------------------------------------ alltoall */

/* Ways of an alltoall, by place. */
struct overlay_ways {
	uint32_t n;
	uint16_t *far;   /* to * n + from: hops */
	uint32_t *loads; /* blocks that a place has to relay so far */
};

static bool
may_places_talk(const struct coll_builder *b, uint32_t p, uint32_t q)
{
	return may_talk(b->task, b->plan->order[p], b->plan->order[q]);
}

/* Find how many hops it is from all places to one, wave by wave. */
static void
measure_to(const struct coll_builder *b, uint16_t *far, uint32_t to, uint16_t *wave)
{
	const uint32_t n = b->task->ranks;
	uint32_t head = 0, tail = 0;

	memset(far, 0xFF, n * sizeof(*far));
	far[to] = 0;
	wave[tail++] = (uint16_t)to;
	while (head < tail && tail < n) {
		const uint16_t p = wave[head++];

		for (uint32_t q = 0; q < n; q++) {
			if (far[q] != COLL_NONE || !may_places_talk(b, p, q))
				continue;
			far[q] = (uint16_t)(far[p] + 1);
			wave[tail++] = (uint16_t)q;
		}
	}
}

static bool
ways_make(struct overlay_ways *w, const struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	uint16_t *wave = calloc(n, sizeof(*wave));

	w->n = n;
	w->far = calloc((size_t)n * n, sizeof(*w->far));
	w->loads = calloc(n, sizeof(*w->loads));
	const bool ok = wave != NULL && w->far != NULL && w->loads != NULL;

	for (uint32_t to = 0; ok && to < n; to++)
		measure_to(b, &w->far[(size_t)to * n], to, wave);
	free(wave);
	return ok;
}

static void
ways_end(struct overlay_ways *w)
{
	free(w->far);
	free(w->loads);
}

/* Return the place to which a block at place `from` goes next on its way to place `to`. Count it
 * there if it is relayed. */
static uint32_t
next_hop(struct overlay_ways *w, const struct coll_builder *b, uint32_t from, uint32_t to)
{
	const uint16_t *far = &w->far[(size_t)to * w->n];
	uint32_t best = to;

	if (far[from] == 1)
		return to;
	for (uint32_t q = 0; q < w->n; q++) {
		if (far[q] + 1 == far[from] && may_places_talk(b, from, q) &&
			(best == to || w->loads[q] < w->loads[best]))
			best = q;
	}
	w->loads[best]++;
	return best;
}

void
coll_alltoall_overlay(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	struct overlay_ways w = {0};
	struct coll_hops h;
	double longest = 0;

	if (!coll_hops_make(&h, b, false) || !ways_make(&w, b)) {
		b->error = -ENOMEM;
		goto out;
	}
	for (uint32_t p = 0; p < n; p++)
		coll_add_own(b, order[p], p);
	/* by distance, so that all send and get at any time */
	for (uint32_t k = 1; k < n; k++) {
		for (uint32_t p = 0; p < n; p++) {
			const uint32_t to = p + k < n ? p + k : p + k - n;
			uint16_t got = COLL_NONE;
			uint32_t hops = 0;

			for (uint32_t at = p, next; at != to; at = next) {
				next = next_hop(&w, b, at, to);
				if (next != to)
					coll_widen_area(b, order[next], order[at], UINT64_MAX);
				got = coll_hop(&h, at, next, to, next == to ? p : to, got,
					next == to, hops);
				hops += hops + 1 < COLL_HOP_AREAS;
			}
		}
	}
	for (uint32_t p = 1; p < n; p++) {
		const double ns = there_and_back_ns(b, 0, p);

		longest = ns > longest ? ns : longest;
	}
	for (uint32_t p = 0; p < n; p++)
		bound_inflow(b, p, longest);
out:
	ways_end(&w);
	coll_hops_end(&h);
}
