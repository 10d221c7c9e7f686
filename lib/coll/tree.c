/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of bcast, reduce and allreduce: trees over the places of the tour.
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
 * 4. An allreduce is a reduce to place 0 and a bcast of what is whole there, piece by piece.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/generate.h"

/* Parents by place, in one tree or, for halves of the vector, in two. */
struct shape {
	uint32_t n, halves;
	uint16_t *parent[2]; /* of place 0: 0 */
	uint16_t *children;  /* in all trees */
	bool *is_wide;       /* some are in other clusters */
};

static bool
shape_make(struct shape *s, struct coll_builder *b, uint32_t halves)
{
	const uint32_t n = b->task->ranks;

	*s = (struct shape){
		.n = n,
		.halves = halves,
		.children = calloc(n, sizeof(*s->children)),
		.is_wide = calloc(n, sizeof(*s->is_wide)),
	};
	if (s->children == NULL || s->is_wide == NULL)
		b->error = -ENOMEM;
	for (uint32_t h = 0; h < halves; h++) {
		s->parent[h] = calloc(n, sizeof(*s->parent[h]));
		if (s->parent[h] == NULL)
			b->error = -ENOMEM;
	}
	return b->error == 0;
}

static void
shape_end(struct shape *s)
{
	free(s->parent[0]);
	free(s->parent[1]);
	free(s->children);
	free(s->is_wide);
}

static bool
is_same_cluster(const struct coll_builder *b, uint32_t p, uint32_t q)
{
	const uint16_t *order = b->plan->order;

	return coll_cluster(b->task, order[p]) == coll_cluster(b->task, order[q]);
}

/* In one of the trees a place is fed by another one, or feeds it in a reduce. */
static void
adopt(struct coll_builder *b, struct shape *s, uint32_t half, uint32_t child, uint32_t parent)
{
	s->parent[half][child] = (uint16_t)parent;
	s->children[parent]++;
	s->is_wide[parent] |= !is_same_cluster(b, parent, child);
}

/* The right child of i, of height k: the top of what is left of the subtree there; 0 = none. */
static uint32_t
right_child(uint32_t i, uint32_t k, uint32_t m)
{
	while (k > 0 && i + k > m)
		k /= 2;
	return k ? i + k : 0;
}

/* Parents of an in-order tree over 1 .. m, by number; 0: the top. */
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

/* The place of number i of the second tree, and the number of a place. */
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

/* Two trees below place `first` over the m places after it. */
static void
two_trees(struct coll_builder *b, struct shape *s, uint32_t first, uint32_t m)
{
	for (uint32_t i = 1; i <= m; i++) {
		const uint32_t above = in_order_parent(second_number(i, m), m);

		adopt(b, s, 0, first + i, first + in_order_parent(i, m));
		adopt(b, s, 1, first + i, first + (above ? second(above, m) : 0));
	}
}

/* Who of the places first .. last can send one more half: who has the fewest children in both
 * trees. */
static uint32_t
with_least_children(const struct shape *s, uint32_t first, uint32_t last)
{
	uint32_t best = first;

	for (uint32_t p = first; p <= last; p++)
		best = s->children[p] < s->children[best] ? p : best;
	return best;
}

/* ------------------------------------------------------------------ steps */

/* The pace of one of so many streams from a place to another one, which share the line there. What
 * has waited for a permit from far away would come all at once otherwise. */
static uint32_t
pace_of_streams(const struct coll_builder *b, uint32_t from, uint32_t to, uint32_t streams)
{
	const uint16_t *order = b->plan->order;
	const struct coll_path way = coll_path_between(b->task, order[from], order[to]);

	return coll_pace(b->plan, b->task, streams * way.ns_per_byte * LINE_SLACK);
}

/* whole: the step by which place 0 has the half in OUT. */
static void
bcast_place(struct coll_builder *b, const struct shape *s, uint32_t p, uint32_t half,
	uint16_t whole)
{
	const uint16_t *order = b->plan->order, *parent = s->parent[half];
	uint16_t got = whole;

	if (p != 0) {
		struct coll_step r = coll_recv(order[parent[p]], COLL_OUT, half, 1);

		r.flags = coll_is_eager(b) ? COLL_EAGER : 0;
		got = coll_add(b, order[p], &r);
	}
	/* the farthest, and in a binomial tree the largest subtree, first */
	for (uint32_t c = s->n; c-- > 1;) {
		struct coll_step x = coll_send(order[c], COLL_OUT, half, 1);

		if (parent[c] != p)
			continue;
		x.after[0] = got;
		x.flags = COLL_STREAM_0 | (coll_is_eager(b) ? COLL_EAGER : COLL_TURNS);
		if (!coll_is_eager(b) && !is_same_cluster(b, p, c))
			x.pace = pace_of_streams(b, p, c, s->halves);
		coll_add(b, order[p], &x);
	}
}

/* Combine what came from a child: at the root into OUT, elsewhere with the own part into the first
 * child's scratch. */
static uint16_t
combine(struct coll_builder *b, uint32_t p, uint32_t half, uint16_t got, uint16_t first,
	uint16_t sum)
{
	struct coll_step c = coll_local(COLL_REDUCE, COLL_SCRATCH, COLL_OUT, half, 1);

	c.source = c.after[0] = got;
	c.flags = COLL_STREAM_0;
	if (p != 0) {
		c.to = COLL_SCRATCH;
		c.target = first;
	}
	if (p != 0 && first == got) {
		c.from = COLL_IN;
		c.source = 0;
	}
	if (sum != COLL_NONE) {
		c.after[1] = sum;
		c.flags |= COLL_STREAM_1;
	}
	return coll_add(b, b->plan->order[p], &c);
}

/* Returns the step by which place 0 has the sum of the half in OUT. */
static uint16_t
reduce_place(struct coll_builder *b, const struct shape *s, uint32_t p, uint32_t half,
	uint8_t *area)
{
	const uint16_t *order = b->plan->order, *parent = s->parent[half];
	uint16_t sum = p == 0 ? coll_add_own(b, order[0], half) : COLL_NONE, first = COLL_NONE;

	for (uint32_t c = 1; c < s->n; c++) {
		struct coll_step r = coll_recv(order[c], COLL_SCRATCH, half, 1);

		if (parent[c] != p)
			continue;
		if (*area == COLL_AREAS_MAX) {
			b->error = -E2BIG;
			return COLL_NONE;
		}
		r.area = (*area)++;
		r.flags = coll_is_eager(b) ? COLL_EAGER : 0;
		coll_widen_area(b, order[p], order[c], b->task->bytes);
		const uint16_t got = coll_add(b, order[p], &r);

		first = first == COLL_NONE ? got : first;
		sum = combine(b, p, half, got, first, sum);
	}
	if (p == 0)
		return sum;
	struct coll_step x = coll_send(order[parent[p]],
		first == COLL_NONE ? COLL_IN : COLL_SCRATCH, half, 1);

	x.flags = (sum == COLL_NONE ? 0 : COLL_STREAM_0) | (coll_is_eager(b) ? COLL_EAGER : 0);
	x.after[0] = sum;
	x.source = first == COLL_NONE ? 0 : first;
	if (!coll_is_eager(b) && s->is_wide[parent[p]])
		x.pace = pace_of_streams(b, p, parent[p], s->children[parent[p]]);
	coll_add(b, order[p], &x);
	return COLL_NONE;
}

/* ------------------------------------------------------------------ shapes */

static void
binomial(struct coll_builder *b, struct shape *s)
{
	if (!shape_make(s, b, 1))
		return;
	for (uint32_t p = 1; p < s->n; p++)
		adopt(b, s, 0, p, p - (p & -p));
}

static void
chain(struct coll_builder *b, struct shape *s)
{
	if (!shape_make(s, b, 1))
		return;
	for (uint32_t p = 1; p < s->n; p++)
		adopt(b, s, 0, p, p - 1);
}

/* Who feeds the first place of another cluster than the root's. */
enum feeder { BY_LAST, BY_ROOT, BY_ROOTS_CLUSTER };

static void
trees_of_clusters(struct coll_builder *b, struct shape *s, enum feeder by)
{
	/* of the cluster that feeds */
	uint32_t from = 0, to = 0;

	if (!shape_make(s, b, 2))
		return;
	for (uint32_t first = 0, last; first < s->n; first = last + 1) {
		last = coll_cluster_end(b, first);
		for (uint32_t h = 0; first > 0 && h < 2; h++)
			adopt(b, s, h, first,
				by == BY_ROOT ? 0 : with_least_children(s, from, to));
		two_trees(b, s, first, last - first);
		if (first == 0 || by == BY_LAST) {
			from = first;
			to = last;
		}
	}
}

static void
two_trees_each(struct coll_builder *b, struct shape *s)
{
	trees_of_clusters(b, s, BY_LAST);
}

static void
two_level(struct coll_builder *b, struct shape *s)
{
	trees_of_clusters(b, s, BY_ROOT);
}

static void
spread(struct coll_builder *b, struct shape *s)
{
	trees_of_clusters(b, s, BY_ROOTS_CLUSTER);
}

/* ------------------------------------------------------------------ generators */

typedef void (*shape_of)(struct coll_builder *b, struct shape *s);

static void
bcast_over(struct coll_builder *b, shape_of make)
{
	struct shape s;

	make(b, &s);
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		for (uint32_t h = 0; h < s.halves; h++)
			bcast_place(b, &s, p, h,
				p == 0 ? coll_add_own(b, b->plan->order[0], h) : COLL_NONE);
	}
	shape_end(&s);
}

static void
reduce_over(struct coll_builder *b, shape_of make)
{
	struct shape s;

	make(b, &s);
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		uint8_t area = 0;

		for (uint32_t h = 0; h < s.halves; h++)
			reduce_place(b, &s, p, h, &area);
	}
	shape_end(&s);
}

static void
allreduce_over(struct coll_builder *b, shape_of make)
{
	struct shape s;

	make(b, &s);
	for (uint32_t p = 0; p < s.n && b->error == 0; p++) {
		uint16_t whole[2] = {COLL_NONE, COLL_NONE};
		uint8_t area = 0;

		for (uint32_t h = 0; h < s.halves; h++)
			whole[h] = reduce_place(b, &s, p, h, &area);
		for (uint32_t h = 0; h < s.halves; h++)
			bcast_place(b, &s, p, h, whole[h]);
	}
	shape_end(&s);
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
