/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of bcast and reduce: trees over the places of the tour, and the barrier's rounds.
 *
 * Design notes
 * 1. A reduce is a bcast backwards: each place combines its own part with its children's, in the
 *    order of the list, and sends the result up piece by piece. So each element is combined in one
 *    order, the same in every run.
 * 2. Of the two trees, each carries half of the vector. Places that relay in one are leaves in the
 *    other, so each place sends and receives every byte once. The first is the in-order tree over
 *    places 1 .. n-1, whose leaves are the odd ones; the second is its mirror image if n-1 is even,
 *    and else the same one place further (Sanders, Speck, Traeff 2009, section 3).
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/generate.h"

#define CHILDREN_MAX 16

/* A place's parent and children, in the order in which it serves them. */
struct family {
	uint32_t parent;
	uint32_t children[CHILDREN_MAX];
	uint32_t count;
};

typedef struct family (*tree)(uint32_t place, uint32_t n);

static struct family
binomial(uint32_t p, uint32_t n)
{
	struct family f = {.parent = p ? p - (p & -p) : 0};
	uint32_t k = p ? p & -p : 1;

	while (p == 0 && k < n)
		k *= 2;
	for (k /= 2; k > 0; k /= 2) {
		if (p + k < n)
			f.children[f.count++] = p + k;
	}
	return f;
}

static struct family
chain(uint32_t p, uint32_t n)
{
	struct family f = {.parent = p ? p - 1 : 0};

	if (p + 1 < n)
		f.children[f.count++] = p + 1;
	return f;
}

/* The in-order tree over 1 .. m: i has i's lowest bit as its height. */
static uint32_t
in_order_top(uint32_t low, uint32_t m)
{
	/* the highest of the subtree of width 2 low - 1 that is there at all */
	while (low > m)
		low /= 2;
	return low;
}

/* The right child of i, of height k: the top of what is left of the subtree there; 0 = none. */
static uint32_t
right_child(uint32_t i, uint32_t k, uint32_t m)
{
	while (k > 0 && i + k > m)
		k /= 2;
	return k ? i + k : 0;
}

static struct family
in_order(uint32_t i, uint32_t m)
{
	struct family f = {0};
	const uint32_t low = i & -i;
	uint32_t top = 1;

	while (2 * top <= m)
		top *= 2;
	if (low > 1)
		f.children[f.count++] = i - low / 2;
	const uint32_t right = low > 1 ? right_child(i, low / 2, m) : 0;

	if (right)
		f.children[f.count++] = right;
	if (i == top)
		return f; /* below the root */
	/* the parent is the nearest one whose child this is */
	for (uint32_t k = low; f.parent == 0; k *= 2) {
		const uint32_t left = i - (i & (2 * k - 1)), above = left + k;

		if (above <= m && above != i && (i < above || right_child(above, k / 2, m) == i))
			f.parent = above;
		else if (left > 0 && (left & -left) > k && right_child(left, (left & -left) / 2, m) == i)
			f.parent = left;
	}
	return f;
}

/* Place of number i of the second tree. */
static uint32_t
second(uint32_t i, uint32_t m)
{
	if (m % 2 == 0)
		return m + 1 - i;
	return i % m + 1;
}

/* The number of a place in the second tree. */
static uint32_t
second_number(uint32_t place, uint32_t m)
{
	if (m % 2 == 0)
		return m + 1 - place;
	return (place + m - 2) % m + 1;
}

static struct family
first_tree(uint32_t p, uint32_t n)
{
	if (p > 0)
		return in_order(p, n - 1);
	struct family f = {0};

	if (n > 1)
		f.children[f.count++] = in_order_top(1u << 15, n - 1);
	return f;
}

static struct family
second_tree(uint32_t p, uint32_t n)
{
	const uint32_t m = n - 1;
	struct family f = {0};

	if (n < 2)
		return f;
	if (p == 0) {
		f.children[f.count++] = second(in_order_top(1u << 15, m), m);
		return f;
	}
	f = in_order(second_number(p, m), m);
	if (f.parent)
		f.parent = second(f.parent, m);
	for (uint32_t k = 0; k < f.count; k++)
		f.children[k] = second(f.children[k], m);
	return f;
}

/* ------------------------------------------------------------------ steps */

static bool
eager(const struct coll_builder *b)
{
	return b->task->bytes <= b->plan->lists[0].piece;
}

static void
bcast_over(struct coll_builder *b, tree shape, uint32_t block)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		const struct family f = shape(p, n);
		uint16_t got = COLL_NONE;

		if (p == 0) {
			const struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, block,
				1);

			got = coll_add(b, order[0], &s);
		} else {
			struct coll_step r = coll_recv(order[f.parent], COLL_OUT, block, 1);

			r.flags = eager(b) ? COLL_EAGER : 0;
			got = coll_add(b, order[p], &r);
		}
		for (uint32_t k = 0; k < f.count; k++) {
			struct coll_step s = coll_send(order[f.children[k]], COLL_OUT, block, 1);

			s.after[0] = got;
			s.flags = COLL_STREAM_0 | (eager(b) ? COLL_EAGER : COLL_TURNS);
			coll_add(b, order[p], &s);
		}
	}
}

/* area: of the first child of a place. */
static void
reduce_over(struct coll_builder *b, tree shape, uint32_t block, uint32_t area)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		const struct family f = shape(p, n);
		uint16_t sum = COLL_NONE, first = COLL_NONE;

		if (p == 0) {
			const struct coll_step s = coll_local(COLL_COPY, COLL_IN, COLL_OUT, block,
				1);

			sum = coll_add(b, order[0], &s);
		}
		/* the deepest subtree of a binomial tree comes last */
		for (uint32_t k = f.count; k-- > 0;) {
			struct coll_step r = coll_recv(order[f.children[k]], COLL_SCRATCH, block,
				1);
			struct coll_step c = coll_local(COLL_REDUCE, COLL_SCRATCH, COLL_OUT, block,
				1);

			r.area = (uint8_t)(area + k);
			r.flags = eager(b) ? COLL_EAGER : 0;
			const uint16_t got = coll_add(b, order[p], &r);

			c.source = got;
			c.flags = COLL_STREAM_0;
			c.after[0] = got;
			if (p != 0 && first == COLL_NONE) {
				c.from = COLL_IN;
				c.source = 0;
				first = got;
			}
			if (p != 0) {
				c.to = COLL_SCRATCH;
				c.target = first;
			}
			if (sum != COLL_NONE) {
				c.after[1] = sum;
				c.flags |= COLL_STREAM_1;
			}
			sum = coll_add(b, order[p], &c);
		}
		if (p == 0)
			continue;
		struct coll_step s = coll_send(order[f.parent], first == COLL_NONE ? COLL_IN
										   : COLL_SCRATCH,
			block, 1);

		s.flags = (sum == COLL_NONE ? 0 : COLL_STREAM_0) | (eager(b) ? COLL_EAGER : 0);
		s.after[0] = sum;
		s.source = first == COLL_NONE ? 0 : first;
		coll_add(b, order[p], &s);
	}
}

void
coll_bcast_binomial(struct coll_builder *b)
{
	bcast_over(b, binomial, 0);
}

void
coll_bcast_chain(struct coll_builder *b)
{
	bcast_over(b, chain, 0);
}

void
coll_bcast_two_trees(struct coll_builder *b)
{
	bcast_over(b, first_tree, 0);
	bcast_over(b, second_tree, 1);
}

void
coll_reduce_binomial(struct coll_builder *b)
{
	reduce_over(b, binomial, 0, 0);
}

void
coll_reduce_chain(struct coll_builder *b)
{
	reduce_over(b, chain, 0, 0);
}

void
coll_reduce_two_trees(struct coll_builder *b)
{
	reduce_over(b, first_tree, 0, 0);
	reduce_over(b, second_tree, 1, 2);
}
