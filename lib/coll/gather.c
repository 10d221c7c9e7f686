/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of gather and scatter. See plan.h for what each is.
 *
 * Design notes
 * 1. A gather through a tree of relays is a list of blocks in the order of their arrival, and each
 *    rank's parent; relay_tree() makes the steps.
 * 2. The timetable of COLL_PERMITS has one clock for the root's line and one for each edge that is
 *    slower. Slow edges begin at once and carry their blocks one after the other at their own rate;
 *    what they leave of the root's line is for the others, the nearest first, because a far
 *    sender's permit takes long. So the root's line is full from the first arrival to the last, as
 *    long as there is anything that can arrive (ours; SWoPP 2008 fills the line with relays
 *    instead, which costs their hosts a copy, and a round trip each where they are far).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/generate.h"

/* ------------------------------------------------------------------ gather by relays */

/* parent[] by place; blocks come in the order of places. turns: a relay lets a child begin when the
 * child before it has sent its last block, and otherwise all send as relays have room. */
static void
relay_tree(struct coll_builder *b, const uint16_t *parent, bool turns)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	/* of each place: its newest RECV, and from whom */
	uint16_t *last = malloc(n * sizeof(*last)), *from = malloc(n * sizeof(*from));

	if (last == NULL || from == NULL) {
		b->error = -ENOMEM;
		goto out;
	}
	memset(last, 0xFF, n * sizeof(*last));
	for (uint32_t p = 1; p < n; p++)
		coll_widen_area(b, order[parent[p]], order[p], UINT64_MAX);
	coll_add_own(b, order[0], 0);
	for (uint32_t x = 1; x < n; x++) {
		uint16_t got = COLL_NONE;

		for (uint32_t c = x; c != 0; c = parent[c]) {
			const uint32_t p = parent[c];
			struct coll_step s = coll_send(order[p], c == x ? COLL_IN : COLL_SCRATCH, x,
				1);
			struct coll_step r = coll_recv(order[c], p == 0 ? COLL_OUT : COLL_SCRATCH,
				x, 1);

			if (c != x) {
				s.after[0] = s.source = got;
				s.flags = COLL_STREAM_0;
			}
			coll_add(b, order[c], &s);
			if (last[p] != COLL_NONE && (turns || from[p] == c)) {
				r.after[0] = last[p];
				if (from[p] == c)
					r.early = coll_early(&b->plan->lists[order[p]]);
			}
			got = coll_add(b, order[p], &r);
			last[p] = got;
			from[p] = (uint16_t)c;
		}
	}
out:
	free(last);
	free(from);
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
	relay_tree(b, parent, false);
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

/* A block's way from a relay to its parent. */
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

void
coll_gather_paper(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
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
		relay_tree(b, w.parent, true);
	} else {
		b->error = -ENOMEM;
	}
	free(w.end);
	free(w.at);
	free(w.parent);
	free(w.has_child);
}

/* ------------------------------------------------------------------ gather by runs of blocks */

/* A place receives the run [c, c + size) of each child, then sends its own run on. OUT of a relay
 * is its scratch: areas hold whole runs. */
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

/* The tour keeps the hosts of a cluster together; the first of each receives the others' blocks at
 * once, and then sends all of them to the root. */
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
	const uint16_t *order = b->plan->order;

	coll_add_own(b, order[0], 0);
	for (uint32_t i = 1; i < b->task->ranks; i++) {
		struct coll_step s = coll_send(order[0], COLL_IN, i, 1);
		struct coll_step r = coll_recv(order[i], COLL_OUT, i, 1);

		s.flags = r.flags = COLL_EAGER;
		coll_add(b, order[i], &s);
		coll_add(b, order[0], &r);
	}
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

#define LANE_NEAR   (TOPOLOGY_NONE - 1) /* the root's own node: no line is used */
#define LANE_STREAM (TOPOLOGY_NONE - 2) /* one of those for streams, later */

/* A line of the timetable. */
struct entry {
	uint32_t place;
	uint32_t lane;      /* index in lanes; TOPOLOGY_NONE: the root's line sets the rate;
			     * LANE_NEAR, LANE_STREAM */
	double latency_ns;  /* from the sender to the root, or from the root to the receiver */
	double lead_ns;     /* there and back */
	double at_ns, each; /* the result: when, and how long a byte takes */
};

/* A slow link, or one of as many streams from afar as it takes to fill the line (GAT-5). */
struct lane {
	uint32_t edge; /* LANE_STREAM: any */
	double ns_per_byte;
	double begin_ns, clock_ns; /* when its first block comes, and when it is free again */
};

struct timetable {
	struct entry *entries;
	struct lane *lanes;
	uint32_t count, lane_count;
	double line;   /* ns a byte of the root's */
	double wire;   /* bytes of a block */
	bool outwards; /* scatter */
};

static int
nearest_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->latency_ns != y->latency_ns)
		return x->latency_ns < y->latency_ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static int
farthest_first(const void *a, const void *b)
{
	return nearest_first(b, a);
}

static int
first_to_go(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	const double s = x->at_ns - x->lead_ns, t = y->at_ns - y->lead_ns;

	if (s != t)
		return s < t ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static uint32_t
lane_of(struct timetable *t, const struct coll_path *p)
{
	uint32_t i = 0;

	if (p->slowest == TOPOLOGY_NONE)
		return LANE_NEAR;
	if (p->ns_per_byte <= t->line * 1.01)
		return TOPOLOGY_NONE;
	while (i < t->lane_count && t->lanes[i].edge != p->slowest)
		i++;
	if (i == t->lane_count)
		t->lanes[t->lane_count++] = (struct lane){
			.edge = p->slowest,
			.ns_per_byte = p->ns_per_byte,
		};
	return i;
}

/* How long a byte takes at least in one flow to or from afar: no more than so many bytes may be on
 * their way before an Ack comes back. 0: the block is not longer than that. */
static double
stream_of(const struct coll_task *task, double wire, double there_and_back_ns)
{
	const double flight = (double)task->params.flight_frames *
		(task->params.frame_payload + task->params.frame_overhead);

	return flight > 0 && wire > flight ? there_and_back_ns / flight : 0;
}

/* Lanes for blocks that come from so far that one alone does not fill the line. slowest: of these,
 * ns a byte; nearest: the least time there and back. */
static void
add_streams(struct timetable *t, double slowest, double nearest)
{
	uint32_t blocks = 0;

	for (uint32_t i = 0; i < t->count; i++)
		blocks += t->entries[i].lane == LANE_STREAM;
	const double fill = ceil(slowest / t->line), each = t->wire * t->line;
	const uint32_t streams = fill < blocks ? (uint32_t)fill : blocks;
	double begin = 0;

	/* near ones come before it can be their turn */
	for (uint32_t i = 0; i < t->count; i++) {
		const struct entry *e = &t->entries[i];

		if (e->lane == TOPOLOGY_NONE && !t->outwards && begin < nearest)
			begin = (begin < e->lead_ns ? e->lead_ns : begin) + each;
	}

	for (uint32_t i = 0; i < streams; i++)
		t->lanes[t->lane_count++] = (struct lane){
			.edge = LANE_STREAM,
			.ns_per_byte = t->line * streams > slowest ? t->line * streams : slowest,
			.begin_ns = begin,
			.clock_ns = begin,
		};
}

/* The stream that is free first. */
static uint32_t
free_stream(const struct timetable *t)
{
	uint32_t best = LANE_STREAM;

	for (uint32_t i = 0; i < t->lane_count; i++) {
		if (t->lanes[i].edge == LANE_STREAM &&
			(best == LANE_STREAM || t->lanes[i].clock_ns < t->lanes[best].clock_ns))
			best = i;
	}
	return best;
}

/* Slow lanes carry their blocks one after the other from the beginning on. If together they could
 * carry more than the line, each gets its part of that. So does the node, which takes nothing of
 * it. */
static void
time_lanes(struct timetable *t)
{
	double all = 0, near_ns = 0;

	for (uint32_t i = 0; i < t->lane_count; i++)
		all += 1 / t->lanes[i].ns_per_byte;
	const double slower = all * t->line > 1 ? all * t->line : 1;

	for (uint32_t i = 0; i < t->count; i++) {
		struct entry *e = &t->entries[i];

		if (e->lane == LANE_NEAR) {
			e->each = COLL_LOCAL_NS_PER_BYTE;
			e->at_ns = t->outwards || near_ns > e->lead_ns ? near_ns : e->lead_ns;
			near_ns = e->at_ns + t->wire * e->each;
			continue;
		}
		if (e->lane == TOPOLOGY_NONE)
			continue;
		if (e->lane == LANE_STREAM)
			e->lane = free_stream(t);
		struct lane *l = &t->lanes[e->lane];

		e->each = l->ns_per_byte * slower;
		e->at_ns = t->outwards || l->clock_ns > e->lead_ns ? l->clock_ns : e->lead_ns;
		if (l->clock_ns == l->begin_ns)
			l->begin_ns = e->at_ns;
		l->clock_ns = e->at_ns + t->wire * e->each;
	}
}

/* What the slow lanes leave of the line at a time, bytes a ns; *until: when that changes. */
static double
left_of_line(const struct timetable *t, double now, double *until)
{
	double rate = 1 / t->line;

	*until = 1e300;
	for (uint32_t i = 0; i < t->lane_count; i++) {
		const struct lane *l = &t->lanes[i];

		if (l->clock_ns <= now)
			continue;
		const double next = l->begin_ns > now ? l->begin_ns : l->clock_ns;

		if (next == l->clock_ns)
			rate -= 1 / l->ns_per_byte;
		if (next < *until)
			*until = next;
	}
	return rate > 0.02 / t->line ? rate : 0;
}

/* Whether a block that begins now is done before less of the line is left. */
static bool
fits_before_less(const struct timetable *t, double now, double rate)
{
	double left = t->wire, until;

	for (double next = rate; next >= rate; next = left_of_line(t, now, &until)) {
		rate = next;
		left_of_line(t, now, &until);
		left -= (until - now) * rate;
		if (left <= 0)
			return true;
		now = until;
	}
	return false;
}

static void
time_line(struct timetable *t)
{
	double clock = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		struct entry *e = &t->entries[i];
		double left = t->wire, until, rate;

		if (e->lane != TOPOLOGY_NONE) /* it has its time */
			continue;
		if (!t->outwards && clock < e->lead_ns)
			clock = e->lead_ns;
		while ((rate = left_of_line(t, clock, &until)) == 0 ||
			!fits_before_less(t, clock, rate))
			clock = until;
		e->at_ns = clock;
		e->each = 1 / rate;
		for (; clock + left / rate > until; rate = left_of_line(t, clock, &until)) {
			left -= (until - clock) * rate;
			clock = until;
		}
		clock += left / rate;
	}
}

static bool
timetable_make(struct timetable *t, struct coll_builder *b, bool outwards)
{
	const struct coll_task *task = b->task;
	const uint32_t n = task->ranks;
	const struct topology *top = task->topology;
	const uint32_t up = top->vertices[top->hosts[coll_node(task, task->root)]].first_edge;

	*t = (struct timetable){
		.entries = calloc(n, sizeof(*t->entries)),
		.lanes = calloc(n, sizeof(*t->lanes)),
		.line = n > 1 && top->edge_count
			? coll_slack(task,
				  coll_edge_ns_per_byte(top,
					  outwards ? up : top->edges[up].reverse),
				  false)
			: COLL_LOCAL_NS_PER_BYTE,
		.wire = (double)coll_block_wire(&task->params, b->plan->lists[0].piece,
			task->bytes),
		.outwards = outwards,
	};
	if (t->entries == NULL || t->lanes == NULL) {
		b->error = -ENOMEM;
		return false;
	}
	double slowest = 0, nearest = INFINITY;

	for (uint32_t i = 1; i < n; i++) {
		const uint32_t rank = b->plan->order[i];
		const struct coll_path in = coll_path_between(task, rank, task->root);
		const struct coll_path out = coll_path_between(task, task->root, rank);
		const struct coll_path *p = outwards ? &out : &in;
		struct entry *e = &t->entries[t->count++];

		*e = (struct entry){
			.place = i,
			.lane = lane_of(t, p),
			.latency_ns = p->latency_ns,
			.lead_ns = outwards ? 0 : in.latency_ns + out.latency_ns,
		};
		const double stream = stream_of(task, t->wire, in.latency_ns + out.latency_ns);

		if (e->lane == TOPOLOGY_NONE && stream > t->line * 1.01) {
			e->lane = LANE_STREAM;
			slowest = stream > slowest ? stream : slowest;
			nearest = e->lead_ns < nearest ? e->lead_ns : nearest;
		}
	}
	qsort(t->entries, t->count, sizeof(*t->entries), outwards ? farthest_first : nearest_first);
	add_streams(t, slowest, nearest);
	time_lanes(t);
	time_line(t);
	qsort(t->entries, t->count, sizeof(*t->entries), first_to_go);
	return true;
}

static void
timetable_end(struct timetable *t)
{
	free(t->entries);
	free(t->lanes);
}

void
coll_collect(struct coll_builder *b, uint16_t *got)
{
	const uint16_t *order = b->plan->order;
	struct timetable t;
	double longest = 0;

	if (!timetable_make(&t, b, false))
		goto out;
	got[0] = coll_add_own(b, order[0], 0);
	for (uint32_t i = 0; i < t.count; i++) {
		const struct entry *e = &t.entries[i];
		const struct coll_step s = coll_send(order[0], COLL_IN, e->place, 1);
		struct coll_step r = coll_recv(order[e->place], COLL_OUT, e->place, 1);

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
	/* what is under way, and what a port can hold if somebody was late */
	l->window = (uint64_t)under_way + 4ull * l->grain;
out:
	timetable_end(&t);
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
	struct timetable t;

	if (!timetable_make(&t, b, true))
		goto out;
	coll_add_own(b, order[0], 0);
	for (uint32_t i = 0; i < t.count; i++) {
		const struct entry *e = &t.entries[i];
		struct coll_step s = coll_send(order[e->place], COLL_IN, e->place, 1);
		const struct coll_step r = coll_recv(order[0], COLL_OUT, e->place, 1);

		s.at_us = (uint32_t)(e->at_ns / 1e3);
		if (e->lane != TOPOLOGY_NONE)
			s.pace = coll_pace(b->plan, b->task, e->each);
		coll_add(b, order[0], &s);
		coll_add(b, order[e->place], &r);
	}
out:
	timetable_end(&t);
}

/* A place gets the run of its subtree, and sends each child its part of it. */
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
