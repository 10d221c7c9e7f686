/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See timetable.h.
 *
 * Design notes
 * 1. What a block's time hangs on are the slow links on its way: seen from the root, the root's
 *    line, the first link that is slower than that, the first that is slower than this one, and so
 *    on. Each is a lane, and its parent is the one before it. A block belongs to the last lane of
 *    its way.
 * 2. All lanes begin at once, and each carries its own blocks one after the other, at the rate that
 *    its children leave of it: so each link is full from its first arrival to its last, as long as
 *    there is anything that can arrive, and nothing waits in front of any. Children that together
 *    could carry more than their parent get parts of it by their blocks. (Ours; SWoPP 2008 fills
 *    the line with relays instead, which costs their hosts a copy, and a round trip each where they
 *    are far.)
 * 3. The nearest of a lane come first, because a far sender's permit takes long. Of a scatter the
 *    farthest leave first, as soon as their permits can be there.
 * 4. One flow alone may be slower than its lane: because its block is longer than what may be on
 *    its way and comes from far, or because some link lets no flow have more. Such blocks are in
 *    children of their own, as many as fill the lane (GAT-5).
 */
#include "coll/timetable.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NONE      UINT32_MAX
#define LANE_ROOT 0
#define LANE_NEAR (NONE - 1) /* the root's own node: no line is used */

struct timetable_lane {
	uint32_t child, sibling; /* the first child, the parent's next one; NONE */
	double ns_per_byte;
	double begin_ns; /* when its first block comes, or one of its children's */
	double clock_ns; /* when it has carried its own blocks */
	double first_ns; /* it carries none before */
	uint32_t blocks; /* of it and of those behind it */
	bool is_stream, is_cut;
};

struct making {
	const struct coll_task *task;
	struct coll_timetable *table;
	struct timetable_lane *lanes;
	uint32_t lane_count;
	uint32_t *lane_of; /* [edges]: NONE */
	uint32_t *way;     /* [vertices]: edges between the root and a place, from the root on */
	double wire;       /* bytes of a block */
	bool outwards;
};

/* ------------------------------------------------------------------ order */

static int
nearest_first(const void *a, const void *b)
{
	const struct coll_time *x = a, *y = b;

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
	const struct coll_time *x = a, *y = b;
	const double s = x->at_ns - x->lead_ns, t = y->at_ns - y->lead_ns;

	if (s != t)
		return s < t ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* ------------------------------------------------------------------ lanes */

static uint32_t
add_lane(struct making *m, uint32_t parent, double ns_per_byte)
{
	const uint32_t i = m->lane_count++;

	m->lanes[i] = (struct timetable_lane){
		.child = NONE,
		.sibling = parent == NONE ? NONE : m->lanes[parent].child,
		.ns_per_byte = ns_per_byte,
	};
	if (parent != NONE)
		m->lanes[parent].child = i;
	return i;
}

/* Find the edges between the root and a rank, in m->way. Return how many. */
static uint32_t
find_way(struct making *m, uint32_t rank)
{
	const struct topology *t = m->task->topology;
	const uint32_t root = coll_node(m->task, m->task->root), node = coll_node(m->task, rank);
	const uint32_t from = m->outwards ? root : node, to = m->outwards ? node : root;
	uint32_t n = 0;

	for (uint32_t v = t->hosts[from]; v != t->hosts[to]; v = t->edges[m->way[n - 1]].to)
		m->way[n++] = topology_route(t, v, to);
	for (uint32_t i = 0; !m->outwards && i < n / 2; i++) {
		const uint32_t e = m->way[i];

		m->way[i] = m->way[n - 1 - i];
		m->way[n - 1 - i] = e;
	}
	return n;
}

static uint32_t
lane_for(struct making *m, uint32_t rank)
{
	const uint32_t n = find_way(m, rank);
	uint32_t lane = LANE_ROOT;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t e = m->way[i];
		const double each = coll_slack(m->task, coll_edge_ns_per_byte(m->task->topology, e),
			false);

		if (each <= m->lanes[lane].ns_per_byte * 1.01)
			continue;
		if (m->lane_of[e] == NONE)
			m->lane_of[e] = add_lane(m, lane, each);
		lane = m->lane_of[e];
	}
	return n == 0 ? LANE_NEAR : lane;
}

/* Return how long a byte takes at least in one flow, ns. */
static double
stream_of(const struct making *m, const struct coll_path *way, double there_and_back_ns)
{
	const struct coll_params *p = &m->task->params;
	const double flight = (double)p->flight_frames * (p->frame_payload + p->frame_overhead);
	const double shaped = coll_slack(m->task, way->stream, false);
	const double far = flight > 0 && m->wire > flight ? there_and_back_ns / flight : 0;

	return far > shaped ? far : shaped;
}

/* Note 4, of one lane. */
static void
add_streams(struct making *m, uint32_t lane)
{
	const struct coll_timetable *t = m->table;
	const double each = m->lanes[lane].ns_per_byte;
	double slowest = 0, first = INFINITY, begin = 0;
	uint32_t blocks = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		const struct coll_time *e = &t->times[i];

		if (e->lane != lane || e->stream == 0)
			continue;
		blocks++;
		slowest = e->stream > slowest ? e->stream : slowest;
		first = e->ready_ns < first ? e->ready_ns : first;
	}
	/* others come before it can be their turn */
	for (uint32_t i = 0; i < t->count && blocks > 0; i++) {
		const struct coll_time *e = &t->times[i];

		if (e->lane == lane && e->stream == 0 && begin < first)
			begin = (begin < e->ready_ns ? e->ready_ns : begin) + m->wire * each;
	}
	const double fill = ceil(slowest / each);
	const uint32_t streams = fill < blocks ? (uint32_t)fill : blocks;

	for (uint32_t i = 0; i < streams; i++) {
		const double slow = each * streams > slowest ? each * streams : slowest;
		struct timetable_lane *l = &m->lanes[add_lane(m, lane, slow)];

		l->is_stream = true;
		l->clock_ns = l->first_ns = begin;
	}
}

/* Count the blocks of a lane and of those behind it. Return how many. */
static uint32_t
count_blocks(struct making *m, uint32_t lane)
{
	struct timetable_lane *l = &m->lanes[lane];

	for (uint32_t c = l->child; c != NONE; c = m->lanes[c].sibling)
		l->blocks += count_blocks(m, c);
	return l->blocks;
}

/* Children get no more than their parent has, so that all are done at the same time, but for those
 * that take longer anyway: these have all that they can take. */
static void
share_out(struct making *m, uint32_t lane)
{
	double rate = 1 / m->lanes[lane].ns_per_byte, all = 0, blocks = 0;
	bool found = true;

	for (uint32_t c = m->lanes[lane].child; c != NONE; c = m->lanes[c].sibling) {
		all += 1 / m->lanes[c].ns_per_byte;
		blocks += m->lanes[c].blocks;
		m->lanes[c].is_cut = true;
	}
	while (all > rate && blocks > 0 && found) {
		found = false;
		for (uint32_t c = m->lanes[lane].child; c != NONE; c = m->lanes[c].sibling) {
			struct timetable_lane *l = &m->lanes[c];

			if (!l->is_cut || 1 / l->ns_per_byte > rate / blocks * l->blocks)
				continue;
			l->is_cut = false;
			found = true;
			all -= 1 / l->ns_per_byte;
			rate -= 1 / l->ns_per_byte;
			blocks -= l->blocks;
		}
	}
	for (uint32_t c = m->lanes[lane].child; c != NONE; c = m->lanes[c].sibling) {
		if (all > rate && m->lanes[c].is_cut)
			m->lanes[c].ns_per_byte = blocks / rate / m->lanes[c].blocks;
		share_out(m, c);
	}
}

/* ------------------------------------------------------------------ times */

static double left_of(const struct making *m, uint32_t lane, double now, double *until);

/* Return what a lane carries at that time, bytes a ns. *until becomes the time when that changes,
 * if that is sooner. */
static double
carried(const struct making *m, uint32_t lane, double now, double *until)
{
	const struct timetable_lane *l = &m->lanes[lane];
	const double next = now < l->begin_ns ? l->begin_ns : l->clock_ns;

	if (now < next) {
		*until = next < *until ? next : *until;
		return next == l->begin_ns ? 0 : 1 / l->ns_per_byte;
	}
	return 1 / l->ns_per_byte - left_of(m, lane, now, until);
}

/* Return what the children of a lane leave of it at that time; *until as above. */
static double
left_of(const struct making *m, uint32_t lane, double now, double *until)
{
	const double rate = 1 / m->lanes[lane].ns_per_byte;
	double left = rate;

	for (uint32_t c = m->lanes[lane].child; c != NONE; c = m->lanes[c].sibling)
		left -= carried(m, c, now, until);
	return left > 0.02 * rate ? left : 0;
}

/* Return whether a lane has that rate left as long as a block takes from then on. It may have
 * more. */
static bool
stays(const struct making *m, uint32_t lane, double at, double rate)
{
	const double end = at + m->wire / rate;

	for (double until; at < end; at = until) {
		until = INFINITY;
		if (left_of(m, lane, at, &until) < rate)
			return false;
	}
	return true;
}

/* Return when a block comes that cannot come before `now`, so that all of it has come as soon as
 * can be, also if that means to wait until others have. *rate: what is left of the lane until it
 * has come. */
static double
first_room(const struct making *m, uint32_t lane, double now, double *rate)
{
	double best = now, end = INFINITY, until;

	*rate = 1 / m->lanes[lane].ns_per_byte; /* it has all when its children are done */
	for (double at = now; at < end; at = until) {
		until = INFINITY;
		const double left = left_of(m, lane, at, &until);

		if (left > 0 && at + m->wire / left < end && stays(m, lane, at, left)) {
			best = at;
			*rate = left;
			end = at + m->wire / left;
		}
	}
	return best;
}

/* Return a lane's next block: the first one in the table that is ready, or else the one that will
 * be first. NULL: all have their times. */
static struct coll_time *
next_of(const struct making *m, uint32_t lane)
{
	struct coll_time *first = NULL;

	for (uint32_t i = 0; i < m->table->count; i++) {
		struct coll_time *e = &m->table->times[i];

		if (e->lane != lane || e->each > 0)
			continue;
		if (e->ready_ns <= m->lanes[lane].clock_ns)
			return e;
		if (first == NULL || e->ready_ns < first->ready_ns)
			first = e;
	}
	return first;
}

/* Set the times of a lane's blocks, after those of its children. */
static void
time_lane(struct making *m, uint32_t lane)
{
	struct timetable_lane *l = &m->lanes[lane];

	l->begin_ns = INFINITY;
	for (uint32_t c = l->child; c != NONE; c = m->lanes[c].sibling) {
		time_lane(m, c);
		if (m->lanes[c].begin_ns < l->begin_ns)
			l->begin_ns = m->lanes[c].begin_ns;
	}
	for (struct coll_time *e; (e = next_of(m, lane)) != NULL;) {
		double rate;

		if (l->clock_ns < e->ready_ns)
			l->clock_ns = e->ready_ns;
		e->at_ns = first_room(m, lane, l->clock_ns, &rate);
		e->each = 1 / rate;
		l->clock_ns = e->at_ns + m->wire * e->each;
		if (e->at_ns < l->begin_ns)
			l->begin_ns = e->at_ns;
	}
}

/* Set the times of the blocks of the root's node, which take nothing of any lane. */
static void
time_near(struct making *m)
{
	double clock = 0;

	for (uint32_t i = 0; i < m->table->count; i++) {
		struct coll_time *e = &m->table->times[i];

		if (e->lane != LANE_NEAR)
			continue;
		e->each = COLL_LOCAL_NS_PER_BYTE;
		e->at_ns = clock > e->ready_ns ? clock : e->ready_ns;
		clock = e->at_ns + m->wire * e->each;
	}
}

/* Give each block whose flow is slower than its lane to that stream of the lane that is free
 * first. */
static void
deal_out_streams(struct making *m)
{
	for (uint32_t i = 0; i < m->table->count; i++) {
		struct coll_time *e = &m->table->times[i];
		struct timetable_lane *best = NULL;

		if (e->stream == 0)
			continue;
		for (uint32_t c = m->lanes[e->lane].child; c != NONE; c = m->lanes[c].sibling) {
			struct timetable_lane *l = &m->lanes[c];

			if (l->is_stream && (best == NULL || l->clock_ns < best->clock_ns))
				best = l;
		}
		e->lane = (uint32_t)(best - m->lanes);
		if (best->clock_ns < e->ready_ns)
			best->clock_ns = e->ready_ns;
		best->clock_ns += m->wire * best->ns_per_byte;
	}
	for (uint32_t k = 0; k < m->lane_count; k++)
		m->lanes[k].clock_ns = m->lanes[k].first_ns;
}

/* ------------------------------------------------------------------ making */

static bool
timetable_make(struct making *m, struct coll_builder *b)
{
	const struct coll_task *task = b->task;
	const struct topology *top = task->topology;
	struct coll_timetable *t = m->table;
	const uint32_t n = task->ranks;
	const uint32_t up = top->vertices[top->hosts[coll_node(task, task->root)]].first_edge;

	m->lanes = calloc(1 + top->edge_count + n, sizeof(*m->lanes));
	m->lane_of = malloc((top->edge_count + 1) * sizeof(*m->lane_of));
	m->way = calloc(top->vertex_count, sizeof(*m->way));
	t->times = calloc(n, sizeof(*t->times));
	if (m->lanes == NULL || m->lane_of == NULL || m->way == NULL || t->times == NULL)
		return false;
	for (uint32_t e = 0; e < top->edge_count; e++)
		m->lane_of[e] = NONE;
	t->line = n > 1 && top->edge_count
		? coll_slack(task,
			  coll_edge_ns_per_byte(top, m->outwards ? up : top->edges[up].reverse),
			  false)
		: COLL_LOCAL_NS_PER_BYTE;
	m->wire = (double)coll_block_wire(&task->params, b->plan->lists[0].piece, task->bytes);
	add_lane(m, NONE, t->line);
	for (uint32_t i = 1; i < n; i++) {
		const uint32_t rank = b->plan->order[i];
		const struct coll_path in = coll_path_between(task, rank, task->root);
		const struct coll_path out = coll_path_between(task, task->root, rank);
		const double both_ns = in.latency_ns + out.latency_ns;
		struct coll_time *e = &t->times[t->count++];

		*e = (struct coll_time){
			.place = i,
			.lane = lane_for(m, rank),
			.latency_ns = m->outwards ? out.latency_ns : in.latency_ns,
			.ready_ns = m->outwards ? in.latency_ns : both_ns,
			.lead_ns = m->outwards ? 0 : both_ns,
		};
		const double stream = stream_of(m, m->outwards ? &out : &in, both_ns);

		if (e->lane != LANE_NEAR && stream > m->lanes[e->lane].ns_per_byte * 1.01)
			e->stream = stream;
	}
	qsort(t->times, t->count, sizeof(*t->times), m->outwards ? farthest_first : nearest_first);
	for (uint32_t lane = 0, count = m->lane_count; lane < count; lane++)
		add_streams(m, lane);
	return true;
}

bool
coll_timetable_make(struct coll_timetable *t, struct coll_builder *b, bool outwards)
{
	struct making m = {.task = b->task, .table = t, .outwards = outwards};

	*t = (struct coll_timetable){.count = 0};
	if (!timetable_make(&m, b))
		b->error = -ENOMEM;
	if (b->error == 0) {
		t->lanes = m.lane_count;
		deal_out_streams(&m);
		for (uint32_t i = 0; i < t->count; i++) {
			if (t->times[i].lane != LANE_NEAR)
				m.lanes[t->times[i].lane].blocks++;
		}
		count_blocks(&m, LANE_ROOT);
		share_out(&m, LANE_ROOT);
		time_near(&m);
		time_lane(&m, LANE_ROOT);
		qsort(t->times, t->count, sizeof(*t->times), first_to_go);
	}
	free(m.lanes);
	free(m.lane_of);
	free(m.way);
	return b->error == 0;
}

void
coll_timetable_free(struct coll_timetable *t)
{
	free(t->times);
}
