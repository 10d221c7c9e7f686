/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of gather and scatter. See plan.h for what each is.
 *
 * Design notes
 * 1. A gather through a tree of relays is a list of blocks in the order of their arrival, and each
 *    rank's parent; coll_gather_by() makes the steps.
 * 2. The times of COLL_PERMITS are those of timetable.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/timetable.h"

/* ------------------------------------------------------------------ gather by relays */

bool
coll_hops_make(struct coll_hops *h, struct coll_builder *b, bool turns)
{
	const size_t n = (size_t)b->task->ranks * COLL_HOP_AREAS;

	*h = (struct coll_hops){
		.b = b,
		.turns = turns,
		.last = malloc(n * sizeof(*h->last)),
		.from = calloc(n, sizeof(*h->from)),
	};
	if (h->last == NULL || h->from == NULL)
		return false;
	memset(h->last, 0xFF, n * sizeof(*h->last));
	return true;
}

void
coll_hops_end(struct coll_hops *h)
{
	free(h->last);
	free(h->from);
}

uint16_t
coll_hop(struct coll_hops *h, uint32_t p, uint32_t q, uint32_t sent, uint32_t kept, uint16_t got,
	bool stays, uint32_t area)
{
	const uint16_t *order = h->b->plan->order;
	const size_t at = (size_t)q * COLL_HOP_AREAS + area;
	struct coll_step s = coll_send(order[q], got == COLL_NONE ? COLL_IN : COLL_SCRATCH, sent,
		1);
	struct coll_step r = coll_recv(order[p], stays ? COLL_OUT : COLL_SCRATCH, kept, 1);

	if (got != COLL_NONE) {
		s.after[0] = s.source = got;
		s.flags = COLL_STREAM_0;
	}
	coll_add(h->b, order[p], &s);
	r.area = (uint8_t)area;
	if (h->last[at] != COLL_NONE && (h->turns || h->from[at] == p)) {
		r.after[0] = h->last[at];
		if (h->from[at] == p)
			r.early = coll_early(&h->b->plan->lists[order[q]]);
	}
	h->last[at] = coll_add(h->b, order[q], &r);
	h->from[at] = (uint16_t)p;
	return h->last[at];
}

/* Gather the blocks of the first n places by relays, and copy the root's own block. */
static void
gather_first(struct coll_builder *b, uint32_t n, const uint16_t *parent, bool turns, uint16_t *got)
{
	const uint16_t *order = b->plan->order;
	struct coll_hops h;

	if (!coll_hops_make(&h, b, turns)) {
		b->error = -ENOMEM;
		coll_hops_end(&h);
		return;
	}
	for (uint32_t p = 1; p < n; p++)
		coll_widen_area(b, order[parent[p]], order[p], UINT64_MAX);
	const uint16_t own = coll_add_own(b, order[0], 0);

	for (uint32_t x = 0; x < n; x++) {
		uint16_t at = COLL_NONE;

		for (uint32_t c = x; c != 0; c = parent[c])
			at = coll_hop(&h, c, parent[c], x, x, at, parent[c] == 0, 0);
		if (got != NULL)
			got[x] = x == 0 ? own : at;
	}
	coll_hops_end(&h);
}

void
coll_gather_by(struct coll_builder *b, const uint16_t *parent, bool turns, uint16_t *got)
{
	gather_first(b, b->task->ranks, parent, turns, got);
}

/* Send the block of place i directly to the root, without a permit, when that place likes. */
static void
come_directly(struct coll_builder *b, uint32_t i)
{
	const uint16_t *order = b->plan->order;
	struct coll_step s = coll_send(order[0], COLL_IN, i, 1);
	struct coll_step r = coll_recv(order[i], COLL_OUT, i, 1);

	s.flags = r.flags = COLL_EAGER;
	coll_add(b, order[i], &s);
	coll_add(b, order[0], &r);
}

void
coll_gather_chain(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	uint16_t *parent = calloc(n, sizeof(*parent));

	if (parent == NULL) {
		b->error = -ENOMEM;
		return;
	}
	for (uint32_t i = 1; i < n; i++)
		parent[i] = (uint16_t)(i - 1);
	coll_gather_by(b, parent, false, NULL);
	free(parent);
}

/* Times of SWoPP 2008 with the design's mended indexes; ns, of whole blocks. */
struct paper {
	const struct coll_task *task;
	const uint16_t *order;
	double *end; /* T: a rank's block is at the root; by place */
	double *at;  /* the block that was last to come through a rank is there */
	uint16_t *parent;
	uint8_t *has_child;
	double wire;
};

static struct coll_path
between(const struct paper *w, uint32_t a, uint32_t b)
{
	return coll_path_between(w->task, w->order[a], w->order[b]);
}

/* Return how long a block's way from a relay to its parent takes, ns. */
static double
hop_ns(const struct paper *w, uint32_t p)
{
	const struct coll_path up = between(w, p, w->parent[p]);

	return up.latency_ns + w->wire * up.ns_per_byte;
}

static double
paper_time(const struct paper *w, uint32_t x, uint32_t p)
{
	const struct coll_path up = between(w, x, p);
	const double sends = up.latency_ns + w->wire * up.ns_per_byte;

	if (!w->has_child[p]) {
		if (p == 0)
			return sends;
		const double on = w->wire * between(w, p, w->parent[p]).ns_per_byte;

		return w->end[p] + (sends > on ? sends : on);
	}
	return w->at[p] + 2 * up.latency_ns + w->wire * up.ns_per_byte + w->end[p];
}

static void
paper_schedule(struct paper *w, uint32_t n)
{
	for (uint32_t x = 1; x < n; x++) {
		double best = 0;

		for (uint32_t p = 0; p < x; p++) {
			const double t = paper_time(w, x, p);

			if (p == 0 || t < best) {
				best = t;
				w->parent[x] = (uint16_t)p;
			}
		}
		w->end[x] = best;
		/* when its block is at each relay on the way */
		double rest = 0;

		for (uint32_t q = w->parent[x]; q != 0; q = w->parent[q])
			rest += hop_ns(w, q);
		for (uint32_t q = w->parent[x]; q != 0; q = w->parent[q]) {
			w->at[q] = best - rest;
			rest -= hop_ns(w, q);
		}
		w->at[0] = best;
		w->has_child[w->parent[x]] = 1;
	}
}

/* Gather the blocks of the first n places as the paper does; the others' blocks come directly. */
static void
gather_paper(struct coll_builder *b, uint32_t n)
{
	struct paper w = {
		.task = b->task,
		.order = b->plan->order,
		.end = calloc(n, sizeof(*w.end)),
		.at = calloc(n, sizeof(*w.at)),
		.parent = calloc(n, sizeof(*w.parent)),
		.has_child = calloc(n, sizeof(*w.has_child)),
		.wire = (double)coll_block_wire(&b->task->params, b->plan->lists[0].piece,
			b->task->bytes),
	};

	if (w.end && w.at && w.parent && w.has_child) {
		paper_schedule(&w, n);
		for (uint32_t i = 0; b->plan->paper_ns && i < n; i++)
			b->plan->paper_ns[b->plan->order[i]] = (uint64_t)(w.end[i] + 0.5);
		gather_first(b, n, w.parent, true, NULL);
		for (uint32_t i = n; i < b->task->ranks; i++)
			come_directly(b, i);
	} else {
		b->error = -ENOMEM;
	}
	free(w.end);
	free(w.at);
	free(w.parent);
	free(w.has_child);
}

void
coll_gather_paper(struct coll_builder *b)
{
	gather_paper(b, b->task->ranks);
}

void
coll_gather_near(struct coll_builder *b)
{
	gather_paper(b, coll_cluster_end(b, 0) + 1);
}

/* ------------------------------------------------------------------ gather by runs of blocks */

/* Gather along a binomial tree: a place receives the run [c, c + size) of each child c, then sends
 * its own run on. A relay's OUT is its scratch, as that has to hold whole runs. */
void
coll_gather_binomial(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		uint32_t low = p ? p & -p : n;

		uint16_t have = coll_add_own(b, order[p], p);

		for (uint32_t k = 1; k < low && p + k < n; k *= 2) {
			const uint32_t size = k < n - p - k ? k : n - p - k;
			const struct coll_step r = coll_recv(order[p + k], COLL_OUT, p + k, size);

			have = coll_add_join(b, order[p], have, coll_add(b, order[p], &r));
		}
		if (p == 0)
			continue;
		struct coll_step s = coll_send(order[p - low], COLL_OUT, p,
			low < n - p ? low : n - p);

		s.after[0] = have;
		coll_add(b, order[p], &s);
	}
}

/* Gather within each cluster, and then from each to the root. The tour keeps the hosts of a cluster
 * together; the first of each receives the others' blocks at once, and then sends all of them to
 * the root. */
void
coll_gather_two_level(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t first = 0, last; first < n; first = last + 1) {
		uint16_t have = coll_add_own(b, order[first], first);

		last = coll_cluster_end(b, first);
		for (uint32_t i = first + 1; i <= last; i++) {
			struct coll_step s = coll_send(order[first], COLL_IN, i, 1);
			struct coll_step r = coll_recv(order[i], COLL_OUT, i, 1);

			s.flags = r.flags = COLL_EAGER;
			coll_add(b, order[i], &s);
			have = coll_add_join(b, order[first], have, coll_add(b, order[first], &r));
		}
		if (first == 0)
			continue;
		struct coll_step s = coll_send(order[0], COLL_OUT, first, last + 1 - first);
		struct coll_step r = coll_recv(order[first], COLL_OUT, first, last + 1 - first);

		s.after[0] = have;
		s.flags = r.flags = COLL_EAGER;
		coll_add(b, order[first], &s);
		coll_add(b, order[0], &r);
	}
}

/* ------------------------------------------------------------------ gather without relays */

void
coll_gather_at_once(struct coll_builder *b)
{
	coll_add_own(b, b->plan->order[0], 0);
	for (uint32_t i = 1; i < b->task->ranks; i++)
		come_directly(b, i);
}

void
coll_gather_in_turn(struct coll_builder *b)
{
	const uint16_t *order = b->plan->order;
	uint16_t last = COLL_NONE;

	coll_add_own(b, order[0], 0);
	for (uint32_t i = 1; i < b->task->ranks; i++) {
		const struct coll_step s = coll_send(order[0], COLL_IN, i, 1);
		struct coll_step r = coll_recv(order[i], COLL_OUT, i, 1);

		r.after[0] = last;
		coll_add(b, order[i], &s);
		last = coll_add(b, order[0], &r);
	}
}

#define UNASKED INFINITY /* a block's time, that comes without a permit */

/* Return how many blocks may be on their way without permits: as many as fit half of any port. */
static uint32_t
unasked_most(const struct coll_builder *b)
{
	const struct topology *t = b->task->topology;
	uint64_t least = UINT64_MAX;

	for (uint32_t v = 0; v < t->vertex_count; v++) {
		if (t->vertices[v].host == TOPOLOGY_NONE && t->vertices[v].buffer_bytes > 0 &&
			t->vertices[v].buffer_bytes < least)
			least = t->vertices[v].buffer_bytes;
	}
	const uint64_t blocks = least / 2 / coll_wire_bytes(&b->task->params, b->task->bytes);

	return !coll_is_eager(b) ? 0 : blocks < b->task->ranks ? (uint32_t)blocks : b->task->ranks;
}

static int
farthest_first(const void *a, const void *b)
{
	const struct coll_time *x = *(struct coll_time *const *)a,
			       *y = *(struct coll_time *const *)b;

	return x->lead_ns != y->lead_ns ? (x->lead_ns > y->lead_ns ? -1 : 1)
					: (x->place < y->place ? -1 : x->place > y->place);
}

/* Short blocks whose permits would take longer than all that is to come need none: at_ns is
 * UNASKED, of the farthest, as many as ports can hold. */
static void
let_come(struct coll_builder *b, struct coll_timetable *t)
{
	const uint32_t most = unasked_most(b);
	const double all_ns = t->line * t->count *
		(double)coll_wire_bytes(&b->task->params, b->task->bytes);
	struct coll_time **far = most > 0 ? calloc(t->count + 1, sizeof(*far)) : NULL;

	if (most > 0 && far == NULL)
		b->error = -ENOMEM;
	if (far == NULL)
		return;
	for (uint32_t i = 0; i < t->count; i++)
		far[i] = &t->times[i];
	qsort(far, t->count, sizeof(*far), farthest_first);
	for (uint32_t i = 0; i < t->count && i < most && far[i]->lead_ns > all_ns; i++)
		far[i]->at_ns = UNASKED;
	free(far);
}

void
coll_collect(struct coll_builder *b, uint16_t *got)
{
	const uint16_t *order = b->plan->order;
	struct coll_timetable t;
	double longest = 0;

	if (!coll_timetable_make(&t, b, false))
		goto out;
	let_come(b, &t);
	got[0] = coll_add_own(b, order[0], 0);
	for (uint32_t i = 0; i < t.count; i++) {
		const struct coll_time *e = &t.times[i];
		struct coll_step s = coll_send(order[0], COLL_IN, e->place, 1);
		struct coll_step r = coll_recv(order[e->place], COLL_OUT, e->place, 1);

		if (e->at_ns == UNASKED) {
			s.flags = r.flags = COLL_EAGER;
			coll_add(b, order[e->place], &s);
			got[e->place] = coll_add(b, order[0], &r);
			continue;
		}
		r.at_us = (uint32_t)(e->at_ns / 1e3);
		r.lead_ns = (uint32_t)e->lead_ns;
		r.pace = coll_pace(b->plan, b->task, e->each);
		longest = e->lead_ns > longest ? e->lead_ns : longest;
		coll_add(b, order[e->place], &s);
		got[e->place] = coll_add(b, order[0], &r);
	}
	struct coll_list *l = &b->plan->lists[order[0]];
	const double under_way = longest / t.line;

	l->grain = coll_grain(b, coll_node(b->task, b->task->root), under_way);
	/* what is under way, a permit of each lane, and what a port can hold if somebody was
	 * late */
	l->window = (uint64_t)under_way + (3ull + t.lanes) * l->grain;
out:
	coll_timetable_free(&t);
}

void
coll_gather_permits(struct coll_builder *b)
{
	uint16_t *got = calloc(b->task->ranks, sizeof(*got));

	if (got == NULL)
		b->error = -ENOMEM;
	else
		coll_collect(b, got);
	free(got);
}

/* ------------------------------------------------------------------ scatter */

void
coll_scatter_at_once(struct coll_builder *b)
{
	const uint16_t *order = b->plan->order;

	coll_add_own(b, order[0], 0);
	for (uint32_t i = 1; i < b->task->ranks; i++) {
		struct coll_step s = coll_send(order[i], COLL_IN, i, 1);
		struct coll_step r = coll_recv(order[0], COLL_OUT, i, 1);

		s.flags = COLL_EAGER | COLL_TURNS;
		r.flags = COLL_EAGER;
		coll_add(b, order[0], &s);
		coll_add(b, order[i], &r);
	}
}

void
coll_scatter_permits(struct coll_builder *b)
{
	const uint16_t *order = b->plan->order;
	struct coll_timetable t;

	if (!coll_timetable_make(&t, b, true))
		goto out;
	coll_add_own(b, order[0], 0);
	for (uint32_t i = 0; i < t.count; i++) {
		const struct coll_time *e = &t.times[i];
		struct coll_step s = coll_send(order[e->place], COLL_IN, e->place, 1);
		const struct coll_step r = coll_recv(order[0], COLL_OUT, e->place, 1);

		s.at_us = (uint32_t)(e->at_ns / 1e3);
		/* they share the line, and none may take another one's part */
		if (t.lanes > 1)
			s.pace = coll_pace(b->plan, b->task, e->each);
		coll_add(b, order[0], &s);
		coll_add(b, order[e->place], &r);
	}
out:
	coll_timetable_free(&t);
}

/* Scatter along a binomial tree: a place gets the run of its subtree, and sends each child its part
 * of it. */
void
coll_scatter_binomial(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		uint32_t low = p ? p & -p : 1;
		uint16_t got = COLL_NONE;

		if (p == 0) {
			while (low < n)
				low *= 2;
			coll_add_own(b, order[0], 0);
		} else {
			const struct coll_step r = coll_recv(order[p - low], COLL_OUT, p,
				low < n - p ? low : n - p);

			got = coll_add(b, order[p], &r);
		}
		for (uint32_t k = low / 2; k > 0; k /= 2) {
			if (p + k >= n)
				continue;
			struct coll_step s = coll_send(order[p + k], p ? COLL_OUT : COLL_IN, p + k,
				k < n - p - k ? k : n - p - k);

			s.after[0] = got;
			coll_add(b, order[p], &s);
		}
	}
}
