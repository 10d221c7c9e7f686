/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of bcast and reduce, and of allreduce, allgather and reduce_scatter by way of one
 * place: trees over the places of the tour.
 *
 * Design notes
 * 1. A reduce is a bcast backwards: each place combines its own part with its children's, in the
 *    order of the list, and sends the result up piece by piece. So each element is combined in one
 *    order, the same in every run.
 * 2. Of the two trees, each carries half of the vector. Places that relay in one are leaves in the
 *    other, so each place sends and receives every byte once. The first is the in-order tree over
 *    places 1 .. m, whose leaves are the odd ones; the second is its mirror image if m is even,
 *    and else the same one place further (Sanders, Speck, Traeff 2009, section 3).
 * 3. Over several switches, each cluster has its own two trees, below its first place. Of all that
 *    a cluster's places can send, one vector is left over: two halves, by places with less than two
 *    children. These feed the next cluster, so every link between switches carries the vector once
 *    in each direction, and every host's line too (ours). Where clusters are far apart that adds up
 *    their latencies, so the root's cluster feeds all others: the root itself (COLL_TWO_LEVEL),
 *    which costs its line a vector each, or each other cluster is fed by two of its places
 *    (COLL_SPREAD, ours), whose lines carry half a vector more than the others'.
 * 4. An allreduce is a reduce to place 0 and a bcast of what is whole there, piece by piece; an
 *    allgather a gather and a bcast, a reduce_scatter a reduce and a scatter. All lines carry as
 *    much as in a ring, without a ring's steps, which each take as long as the longest of its ways.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/generate.h"

#define RUN_BYTES (64u << 10)
#define RUNS_MAX  32

/* Parents by place, in one tree or, for halves of the vector, in two. */
struct tree_shape {
	uint32_t n, halves;
	bool both;           /* a reduce and a bcast, at the same time */
	uint16_t *parent[2]; /* of place 0: 0 */
	uint16_t *children;  /* in all trees */
	bool *is_wide;       /* some are in other clusters */
	/* of place p in a tree: kids[kids_from[p]] to before kids[kids_from[p + 1]] */
	uint16_t *kids[2];
	uint32_t *kids_from[2];
};

static bool
shape_make(struct tree_shape *s, struct coll_builder *b, uint32_t halves)
{
	const uint32_t n = b->task->ranks;

	*s = (struct tree_shape){
		.n = n,
		.halves = halves,
		.children = calloc(n, sizeof(*s->children)),
		.is_wide = calloc(n, sizeof(*s->is_wide)),
	};
	if (s->children == NULL || s->is_wide == NULL)
		b->error = -ENOMEM;
	for (uint32_t h = 0; h < halves; h++) {
		s->parent[h] = calloc(n, sizeof(*s->parent[h]));
		s->kids[h] = calloc(n, sizeof(*s->kids[h]));
		s->kids_from[h] = calloc(n + 2, sizeof(*s->kids_from[h]));
		if (s->parent[h] == NULL || s->kids[h] == NULL || s->kids_from[h] == NULL)
			b->error = -ENOMEM;
	}
	return b->error == 0;
}

static void
shape_end(struct tree_shape *s)
{
	for (uint32_t h = 0; h < 2; h++) {
		free(s->parent[h]);
		free(s->kids[h]);
		free(s->kids_from[h]);
	}
	free(s->children);
	free(s->is_wide);
}

static bool
is_same_cluster(const struct coll_builder *b, uint32_t p, uint32_t q)
{
	const uint16_t *order = b->plan->order;

	return coll_cluster(b->task, order[p]) == coll_cluster(b->task, order[q]);
}

/* Let a place be fed by another one in one of the trees; in a reduce, it feeds that one. */
static void
adopt(struct coll_builder *b, struct tree_shape *s, uint32_t half, uint32_t child, uint32_t parent)
{
	s->parent[half][child] = (uint16_t)parent;
	s->children[parent]++;
	s->is_wide[parent] |= !is_same_cluster(b, parent, child);
}

/* Put the places into the lists of those that feed them, in order. */
static void
list_kids(struct tree_shape *s)
{
	for (uint32_t h = 0; h < s->halves; h++) {
		uint32_t *from = s->kids_from[h];

		for (uint32_t c = 1; c < s->n; c++)
			from[s->parent[h][c] + 2]++;
		for (uint32_t p = 0; p < s->n; p++)
			from[p + 2] += from[p + 1];
		for (uint32_t c = 1; c < s->n; c++)
			s->kids[h][from[s->parent[h][c] + 1]++] = (uint16_t)c;
	}
}

/* Return the right child of i, of height k: the top of what is left of the subtree there; 0:
 * none. */
static uint32_t
right_child(uint32_t i, uint32_t k, uint32_t m)
{
	while (k > 0 && i + k > m)
		k /= 2;
	return k ? i + k : 0;
}

/* Return the parent of i in an in-order tree over 1 .. m, by number; 0: i is the top. */
static uint32_t
in_order_parent(uint32_t i, uint32_t m)
{
	const uint32_t low = i & -i;
	uint32_t top = 1;

	while (2 * top <= m)
		top *= 2;
	/* the nearest one whose child this is */
	for (uint32_t k = low; i != top; k *= 2) {
		const uint32_t left = i - (i & (2 * k - 1)), above = left + k;

		if (above <= m && above != i && (i < above || right_child(above, k / 2, m) == i))
			return above;
		if (left > 0 && (left & -left) > k && right_child(left, (left & -left) / 2, m) == i)
			return left;
	}
	return 0;
}

/* Return the place of number i of the second tree; second_number() returns the number of a
 * place. */
static uint32_t
second(uint32_t i, uint32_t m)
{
	return m % 2 == 0 ? m + 1 - i : i % m + 1;
}

static uint32_t
second_number(uint32_t place, uint32_t m)
{
	return m % 2 == 0 ? m + 1 - place : (place + m - 2) % m + 1;
}

/* Make two trees below place `first` over the m places after it. */
static void
two_trees(struct coll_builder *b, struct tree_shape *s, uint32_t first, uint32_t m)
{
	for (uint32_t i = 1; i <= m; i++) {
		const uint32_t above = in_order_parent(second_number(i, m), m);

		adopt(b, s, 0, first + i, first + in_order_parent(i, m));
		adopt(b, s, 1, first + i, first + (above ? second(above, m) : 0));
	}
}

/* Return which of the places first .. last can send one more half: the one with the fewest children
 * in both trees. */
static uint32_t
with_least_children(const struct tree_shape *s, uint32_t first, uint32_t last)
{
	uint32_t best = first;

	for (uint32_t p = first; p <= last; p++)
		best = s->children[p] < s->children[best] ? p : best;
	return best;
}

/* ------------------------------------------------------------------ steps */

/* Blocks that go through one of the trees together. */
struct tree_run {
	uint32_t block, blocks;
	uint32_t tree;
	bool eager;
};

/* Return run i of the `runs` into which all blocks are cut; runs take turns in the trees. */
static struct tree_run
run_of(const struct coll_builder *b, uint32_t i, uint32_t runs, uint32_t trees)
{
	const uint32_t n = b->task->ranks, first = (uint32_t)((uint64_t)n * i / runs);
	const uint32_t blocks = (uint32_t)((uint64_t)n * (i + 1) / runs) - first;

	return (struct tree_run){first, blocks, i % trees, coll_run_is_eager(b, blocks)};
}

/* Return into how many runs blocks are cut: so many that place 0 sends nearly as early as it gets
 * blocks, but each is worth a message. */
static uint32_t
count_runs(const struct coll_builder *b)
{
	const uint64_t all = b->task->bytes * b->task->ranks;
	const uint64_t runs = all / RUN_BYTES < RUNS_MAX ? all / RUN_BYTES / 2 * 2 : RUNS_MAX;

	return b->task->ranks < 2       ? 1
		: runs < 2              ? 2
		: runs < b->task->ranks ? (uint32_t)runs
					: b->task->ranks;
}

/* Return a half of a vector as a run. */
static struct tree_run
half_of(const struct coll_builder *b, uint32_t half)
{
	return (struct tree_run){half, 1, half, coll_is_eager(b)};
}

/* Return the pace of one of so many streams from a place to another one, which share the line
 * there. What has waited for a permit from far away would come all at once otherwise. */
static uint32_t
pace_of_streams(const struct coll_builder *b, uint32_t from, uint32_t to, uint32_t streams)
{
	const uint16_t *order = b->plan->order;
	const struct coll_path way = coll_path_between(b->task, order[from], order[to]);

	return coll_pace(b->plan, b->task, streams * coll_slack(b->task, way.ns_per_byte, true));
}

/* whole: the step by which place 0 has the run in OUT. */
static void
bcast_place(struct coll_builder *b, const struct tree_shape *s, uint32_t p,
	const struct tree_run *run, uint16_t whole)
{
	const uint16_t *order = b->plan->order;
	const uint32_t *from = s->kids_from[run->tree];
	uint16_t got = whole;

	if (p != 0) {
		struct coll_step r = coll_recv(order[s->parent[run->tree][p]], COLL_OUT, run->block,
			run->blocks);

		r.flags = run->eager ? COLL_EAGER : 0;
		got = coll_add(b, order[p], &r);
	}
	/* the farthest, and in a binomial tree the largest subtree, first */
	for (uint32_t i = from[p + 1]; i-- > from[p];) {
		const uint32_t c = s->kids[run->tree][i];
		struct coll_step x = coll_send(order[c], COLL_OUT, run->block, run->blocks);

		x.after[0] = got;
		x.flags = (run->eager ? COLL_EAGER : COLL_TURNS) |
			(p || run->blocks == 1 ? COLL_STREAM_0 : 0);
		if (!run->eager && !is_same_cluster(b, p, c))
			x.pace = pace_of_streams(b, p, c,
				s->halves + (s->both ? s->children[c] : 0));
		coll_add(b, order[p], &x);
	}
}

/* The steps that a place's sums are made of. */
struct tree_sums {
	uint16_t got[COLL_AREAS_MAX]; /* the last RECV to each area */
	uint16_t sent[2];             /* the last SEND in each tree: one at a time keeps its pace */
};

static void
sums_begin(struct tree_sums *u)
{
	u->sent[0] = u->sent[1] = COLL_NONE;
	for (uint32_t i = 0; i < COLL_AREAS_MAX; i++)
		u->got[i] = COLL_NONE;
}

/* Combine what came from a child: into OUT, or with the own part into the first child's scratch. */
static uint16_t
combine(struct coll_builder *b, uint32_t p, const struct tree_run *run, bool in_out, uint16_t got,
	uint16_t first, uint16_t sum)
{
	struct coll_step c = coll_local(COLL_REDUCE, COLL_SCRATCH, COLL_OUT, run->block,
		run->blocks);

	c.source = c.after[0] = got;
	c.flags = COLL_STREAM_0;
	if (!in_out) {
		c.to = COLL_SCRATCH;
		c.target = first;
	}
	if (!in_out && first == got) {
		c.from = COLL_IN;
		c.source = 0;
	}
	if (sum != COLL_NONE) {
		c.after[1] = sum;
		c.flags |= COLL_STREAM_1;
	}
	return coll_add(b, b->plan->order[p], &c);
}

/* Receive a run from place c into an area. Each child has one, those of the second tree behind
 * those of the first; runs take turns in it. Return the step. */
static uint16_t
recv_to_area(struct coll_builder *b, uint32_t p, uint32_t c, const struct tree_run *run,
	uint32_t area, struct tree_sums *u)
{
	const uint32_t rank = b->plan->order[p];
	struct coll_step r = coll_recv(b->plan->order[c], COLL_SCRATCH, run->block, run->blocks);

	if (area >= COLL_AREAS_MAX) {
		b->error = -E2BIG;
		return COLL_NONE;
	}
	coll_widen_area(b, rank, b->plan->order[c], b->task->bytes * b->plan->block_count);
	r.area = (uint8_t)area;
	r.flags = run->eager ? COLL_EAGER : 0;
	r.after[0] = u->got[area];
	r.early = u->got[area] == COLL_NONE ? 0 : coll_early(&b->plan->lists[rank]);
	return u->got[area] = coll_add(b, rank, &r);
}

/* Send what a place has of the sum, from the first child's scratch or, if it is a leaf, its own
 * part. Return the step. */
static uint16_t
send_sum(struct coll_builder *b, uint32_t p, uint32_t to, const struct tree_run *run,
	uint16_t first, uint16_t sum, uint16_t last, uint32_t pace)
{
	struct coll_step x = coll_send(b->plan->order[to],
		first == COLL_NONE ? COLL_IN : COLL_SCRATCH, run->block, run->blocks);

	x.flags = (sum == COLL_NONE ? 0 : COLL_STREAM_0) | (run->eager ? COLL_EAGER : 0);
	x.after[0] = sum;
	x.after[1] = last;
	x.source = first == COLL_NONE ? 0 : first;
	x.pace = run->eager ? 0 : pace;
	return coll_add(b, b->plan->order[p], &x);
}

/* Add the steps by which a place reduces a run. Return the step by which it has its sum: in OUT
 * (in_out, at place 0), or in *first's scratch, as all others have it. COLL_NONE: it is a leaf,
 * which has its own part alone. */
static uint16_t
reduce_place(struct coll_builder *b, const struct tree_shape *s, uint32_t p,
	const struct tree_run *run, bool in_out, struct tree_sums *u, uint16_t *first)
{
	const uint32_t *from = s->kids_from[run->tree], parent = s->parent[run->tree][p];
	uint16_t sum = in_out ? coll_add_own(b, b->plan->order[0], run->block) : COLL_NONE;
	uint32_t area = run->tree ? s->kids_from[0][p + 1] - s->kids_from[0][p] : 0;

	*first = COLL_NONE;
	for (uint32_t i = from[p]; i < from[p + 1] && b->error == 0; i++) {
		const uint16_t got = recv_to_area(b, p, s->kids[run->tree][i], run, area++, u);

		*first = *first == COLL_NONE ? got : *first;
		sum = combine(b, p, run, in_out, got, *first, sum);
	}
	if (p != 0)
		u->sent[run->tree] = send_sum(b, p, parent, run, *first, sum, u->sent[run->tree],
			s->is_wide[parent]
				? pace_of_streams(b, p, parent,
					  s->children[parent] + (s->both ? s->halves : 0))
				: 0);
	return sum;
}

/* ------------------------------------------------------------------ shapes */

static void
binomial(struct coll_builder *b, struct tree_shape *s)
{
	if (!shape_make(s, b, 1))
		return;
	for (uint32_t p = 1; p < s->n; p++)
		adopt(b, s, 0, p, p - (p & -p));
}

static void
chain(struct coll_builder *b, struct tree_shape *s)
{
	if (!shape_make(s, b, 1))
		return;
	for (uint32_t p = 1; p < s->n; p++)
		adopt(b, s, 0, p, p - 1);
}

/* The place that feeds the first place of another cluster than the root's. */
enum feeder { BY_LAST, BY_ROOT, BY_ROOTS_CLUSTER };

static void
trees_of_clusters(struct coll_builder *b, struct tree_shape *s, enum feeder by)
{
	/* of the cluster that feeds */
	uint32_t from = 0, to = 0;

	if (!shape_make(s, b, 2))
		return;
	for (uint32_t first = 0, last; first < s->n; first = last + 1) {
		last = coll_cluster_end(b, first);
		for (uint32_t h = 0; first > 0 && h < 2; h++)
			adopt(b, s, h, first, by == BY_ROOT ? 0 : with_least_children(s, from, to));
		two_trees(b, s, first, last - first);
		if (first == 0 || by == BY_LAST) {
			from = first;
			to = last;
		}
	}
}

static void
two_trees_each(struct coll_builder *b, struct tree_shape *s)
{
	trees_of_clusters(b, s, BY_LAST);
}

static void
two_level(struct coll_builder *b, struct tree_shape *s)
{
	trees_of_clusters(b, s, BY_ROOT);
}

static void
spread(struct coll_builder *b, struct tree_shape *s)
{
	trees_of_clusters(b, s, BY_ROOTS_CLUSTER);
}

/* Make the shape of an overlay's tree. */
static void
overlay(struct coll_builder *b, struct tree_shape *s)
{
	if (!shape_make(s, b, 1))
		return;
	for (uint32_t p = 1; p < s->n; p++)
		adopt(b, s, 0, p, b->parent[p]);
}

/* ------------------------------------------------------------------ generators */

typedef void (*shape_of)(struct coll_builder *b, struct tree_shape *s);

static void
shape_by(struct coll_builder *b, struct tree_shape *s, shape_of make)
{
	make(b, s);
	if (b->error == 0)
		list_kids(s);
}

static void
bcast_over(struct coll_builder *b, shape_of make)
{
	struct tree_shape s;

	shape_by(b, &s, make);
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		for (uint32_t h = 0; h < s.halves; h++) {
			const struct tree_run run = half_of(b, h);

			bcast_place(b, &s, p, &run,
				p == 0 ? coll_add_own(b, b->plan->order[0], h) : COLL_NONE);
		}
	}
	shape_end(&s);
}

/* bcast: and then what is whole at place 0 goes to all, piece by piece. */
static void
reduce_and_bcast(struct coll_builder *b, shape_of make, bool bcast)
{
	struct tree_shape s;
	struct tree_sums u;

	shape_by(b, &s, make);
	s.both = bcast;
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		uint16_t whole[2] = {COLL_NONE, COLL_NONE}, first;

		sums_begin(&u);
		for (uint32_t h = 0; h < s.halves; h++) {
			const struct tree_run run = half_of(b, h);

			whole[h] = reduce_place(b, &s, p, &run, p == 0, &u, &first);
		}
		for (uint32_t h = 0; bcast && h < s.halves; h++) {
			const struct tree_run run = half_of(b, h);

			bcast_place(b, &s, p, &run, whole[h]);
		}
	}
	shape_end(&s);
}

static void
reduce_over(struct coll_builder *b, shape_of make)
{
	reduce_and_bcast(b, make, false);
}

static void
allreduce_over(struct coll_builder *b, shape_of make)
{
	reduce_and_bcast(b, make, true);
}

/* Gather all blocks at place 0 by its timetable, or by relays, and send them from there to all, as
 * soon as a run of them is there. */
static void
allgather_over(struct coll_builder *b, shape_of make)
{
	const uint32_t n = b->task->ranks, runs = count_runs(b);
	uint16_t *got = calloc(n, sizeof(*got));
	struct tree_shape s;

	shape_by(b, &s, make);
	if (got == NULL)
		b->error = -ENOMEM;
	if (b->error == 0 && b->parent != NULL)
		coll_overlay_collect(b, got);
	else if (b->error == 0)
		coll_collect(b, got);
	for (uint32_t p = 0; p < n && b->error == 0; p++) {
		if (p > 0)
			coll_add_own(b, b->plan->order[p], p);
		for (uint32_t i = 0; i < runs; i++) {
			const struct tree_run run = run_of(b, i, runs, s.halves);
			uint16_t whole = p == 0 ? got[run.block] : COLL_NONE;

			for (uint32_t k = 1; p == 0 && k < run.blocks; k++)
				whole = coll_add_join(b, b->plan->order[0], whole,
					got[run.block + k]);
			bcast_place(b, &s, p, &run, whole);
		}
	}
	shape_end(&s);
	free(got);
}

/* Reduce each block through one of the trees to place 0, and send it from there to its rank, piece
 * by piece. */
static void
reduce_scatter_over(struct coll_builder *b, shape_of make)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	struct tree_shape s;
	struct tree_sums u;

	shape_by(b, &s, make);
	for (uint32_t p = 0; p < n && b->error == 0; p++) {
		uint16_t first;

		sums_begin(&u);
		for (uint32_t i = 0; i < n; i++) {
			const struct tree_run run = {i, 1, i % s.halves, false};

			const uint16_t sum = reduce_place(b, &s, p, &run, p == 0 && i == 0, &u,
				&first);

			if (p == 0 && i > 0)
				send_sum(b, 0, i, &run, first, sum, COLL_NONE, 0);
		}
		if (p > 0) {
			const struct coll_step r = coll_recv(order[0], COLL_OUT, p, 1);

			coll_add(b, order[p], &r);
		}
	}
	shape_end(&s);
}

/* Send a block that is whole at place 0 by step `sum`, in the scratch of step `first`, on its way
 * down the tree to its rank, as far as place p has to do with it. */
static void
send_down(struct coll_builder *b, const struct tree_shape *s, uint32_t p,
	const struct tree_run *run, uint16_t first, uint16_t sum, struct tree_sums *u)
{
	const uint16_t *order = b->plan->order;
	const uint32_t area = s->kids_from[0][p + 1] - s->kids_from[0][p];
	uint32_t to = run->block;

	while (to > p && s->parent[0][to] != p)
		to = s->parent[0][to];
	if (p == 0 && to > 0) {
		send_sum(b, 0, to, run, first, sum, COLL_NONE, 0);
	} else if (p > 0 && to > p) {
		const uint16_t got = recv_to_area(b, p, s->parent[0][p], run, area, u);

		send_sum(b, p, to, run, got, got, COLL_NONE, 0);
	} else if (p > 0 && run->block == p) {
		const struct coll_step r = coll_recv(order[s->parent[0][p]], COLL_OUT, p, 1);

		coll_add(b, order[p], &r);
	}
}

/* Reduce each block to place 0, and send it from there to its rank, both by the tree. */
void
coll_reduce_scatter_overlay(struct coll_builder *b)
{
	struct tree_shape s;
	struct tree_sums u;

	shape_by(b, &s, overlay);
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		sums_begin(&u);
		for (uint32_t i = 0; i < s.n; i++) {
			const struct tree_run run = {i, 1, 0, false};
			uint16_t first;
			const uint16_t sum = reduce_place(b, &s, p, &run, p == 0 && i == 0, &u,
				&first);

			send_down(b, &s, p, &run, first, sum, &u);
		}
	}
	coll_overlay_areas(b);
	shape_end(&s);
}

void
coll_bcast_overlay(struct coll_builder *b)
{
	bcast_over(b, overlay);
}

void
coll_reduce_overlay(struct coll_builder *b)
{
	reduce_over(b, overlay);
	coll_overlay_areas(b);
}

void
coll_allreduce_overlay(struct coll_builder *b)
{
	allreduce_over(b, overlay);
	coll_overlay_areas(b);
}

void
coll_allgather_overlay(struct coll_builder *b)
{
	allgather_over(b, overlay);
}

void
coll_bcast_binomial(struct coll_builder *b)
{
	bcast_over(b, binomial);
}

void
coll_bcast_chain(struct coll_builder *b)
{
	bcast_over(b, chain);
}

void
coll_bcast_two_trees(struct coll_builder *b)
{
	bcast_over(b, two_trees_each);
}

void
coll_bcast_two_level(struct coll_builder *b)
{
	bcast_over(b, two_level);
}

void
coll_bcast_spread(struct coll_builder *b)
{
	bcast_over(b, spread);
}

void
coll_reduce_binomial(struct coll_builder *b)
{
	reduce_over(b, binomial);
}

void
coll_reduce_chain(struct coll_builder *b)
{
	reduce_over(b, chain);
}

void
coll_reduce_two_trees(struct coll_builder *b)
{
	reduce_over(b, two_trees_each);
}

void
coll_reduce_two_level(struct coll_builder *b)
{
	reduce_over(b, two_level);
}

void
coll_reduce_spread(struct coll_builder *b)
{
	reduce_over(b, spread);
}

void
coll_allreduce_binomial(struct coll_builder *b)
{
	allreduce_over(b, binomial);
}

void
coll_allreduce_two_trees(struct coll_builder *b)
{
	allreduce_over(b, two_trees_each);
}

void
coll_allreduce_two_level(struct coll_builder *b)
{
	allreduce_over(b, two_level);
}

void
coll_allreduce_spread(struct coll_builder *b)
{
	allreduce_over(b, spread);
}

void
coll_allgather_two_trees(struct coll_builder *b)
{
	allgather_over(b, two_trees_each);
}

void
coll_allgather_spread(struct coll_builder *b)
{
	allgather_over(b, spread);
}

void
coll_reduce_scatter_two_trees(struct coll_builder *b)
{
	reduce_scatter_over(b, two_trees_each);
}

void
coll_reduce_scatter_spread(struct coll_builder *b)
{
	reduce_scatter_over(b, spread);
}
