/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generators of what has no root: allgather, alltoall, allreduce, reduce_scatter, barrier. Places
 * are those of the tour, so that a ring crosses each link of the tree once in each direction.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/generate.h"

static uint32_t
around(const struct coll_builder *b, int64_t place)
{
	const int64_t n = b->task->ranks;

	return (uint32_t)((place % n + n) % n);
}

/* Send whole blocks around the ring, from step `got` on, which made a place's own block whole in
 * OUT: each place sends on what came in the step before. */
static void
gather_ring(struct coll_builder *b, uint32_t p, uint16_t got)
{
	const uint16_t *order = b->plan->order;
	const uint32_t rank = order[p], to = order[around(b, (int64_t)p + 1)];
	const uint32_t from = order[around(b, (int64_t)p - 1)];

	for (uint32_t k = 0; k + 1 < b->task->ranks; k++) {
		struct coll_step s = coll_send(to, COLL_OUT, around(b, (int64_t)p - k), 1);
		const struct coll_step r = coll_recv(from, COLL_OUT, around(b, (int64_t)p - k - 1),
			1);

		s.after[0] = got;
		s.flags = COLL_STREAM_0;
		coll_add(b, rank, &s);
		got = coll_add(b, rank, &r);
	}
}

/* ------------------------------------------------------------------ allgather */

void
coll_allgather_ring(struct coll_builder *b)
{
	for (uint32_t p = 0; p < b->task->ranks; p++)
		gather_ring(b, p, coll_add_own(b, b->plan->order[p], p));
}

/* Return whether n is a power of two. If it is, rounds of doubling can be of pairs that exchange:
 * the first rounds stay within hosts then, and runs do not go around. */
static bool
is_power_of_two(uint32_t n)
{
	return (n & (n - 1)) == 0;
}

/* Gather in rounds of doubling: each place sends the run that it has to the place so far before it,
 * or pairs exchange theirs. */
void
coll_allgather_bruck(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	const bool pairs = is_power_of_two(n);

	for (uint32_t p = 0; p < n; p++) {
		const uint32_t rank = order[p];
		/* who has sent has had all that came before that */
		uint16_t have = coll_add_own(b, rank, p), sent = COLL_NONE;

		for (uint32_t k = 1; k < n; k *= 2) {
			const uint32_t size = k < n - k ? k : n - k;
			const uint32_t to = pairs ? p ^ k : around(b, (int64_t)p - k);
			const uint32_t from = pairs ? p ^ k : around(b, (int64_t)p + k);
			struct coll_step s = coll_send(order[to], COLL_OUT,
				pairs ? p & ~(k - 1) : p, size);
			struct coll_step r = coll_recv(order[from], COLL_OUT,
				pairs ? from & ~(k - 1) : from, size);

			s.after[0] = have;
			s.after[1] = sent;
			s.flags = r.flags = coll_run_is_eager(b, size) ? COLL_EAGER : 0;
			sent = coll_add(b, rank, &s);
			have = coll_add(b, rank, &r);
		}
	}
}

/* ------------------------------------------------------------------ alltoall */

/* The phases in which each edge is taken, a bit each. An edge that is several times as fast as the
 * slowest one takes as many pairs a phase: it has a row of bits for each. */
struct phases {
	uint64_t *taken; /* [row][words] */
	uint32_t *first; /* [edge]: its first row; [edge + 1]: the next edge's */
	uint32_t *load;  /* [edge]: pairs whose way leads over it */
	uint32_t words;
	uint32_t used;  /* phases so far */
	double slowest; /* ns a byte of the slowest edge that is used */
};

#define WAY_MAX  64
#define ROWS_MAX 16

static uint32_t
way_of(const struct coll_builder *b, uint32_t from, uint32_t to, uint32_t *way)
{
	const struct topology *t = b->task->topology;
	const uint32_t node = coll_node(b->task, b->plan->order[to]);
	uint32_t at = t->hosts[coll_node(b->task, b->plan->order[from])], n = 0, e;

	while (n < WAY_MAX && (e = topology_route(t, at, node)) != TOPOLOGY_NONE) {
		way[n++] = e;
		at = t->edges[e].to;
	}
	return n;
}

/* Return 64 phases as bits: those that are set are phases in which the edge takes no more. */
static uint64_t
full(const struct phases *f, uint32_t edge, uint32_t word)
{
	uint64_t taken = UINT64_MAX;

	for (uint32_t row = f->first[edge]; row < f->first[edge + 1]; row++)
		taken &= f->taken[(uint64_t)row * f->words + word];
	return taken;
}

static void
exchange_take(struct phases *f, uint32_t edge, uint32_t word, uint64_t bit)
{
	uint64_t *at = &f->taken[(uint64_t)f->first[edge] * f->words + word];

	while (*at & bit)
		at += f->words;
	*at |= bit;
}

/* Take one more pair in the first phase in which all edges of its way can. Return that phase. */
static uint32_t
take_phase(struct phases *f, const uint32_t *way, uint32_t n)
{
	for (uint32_t i = 0; i < f->words; i++) {
		uint64_t taken = 0;

		for (uint32_t k = 0; k < n; k++)
			taken |= full(f, way[k], i);
		if (taken == UINT64_MAX)
			continue;
		const uint32_t bit = (uint32_t)__builtin_ctzll(~taken);

		for (uint32_t k = 0; k < n; k++)
			exchange_take(f, way[k], i, 1ull << bit);
		if (64 * i + bit >= f->used)
			f->used = 64 * i + bit + 1;
		return 64 * i + bit;
	}
	return f->used; /* more phases than were thought of: at the end, together with others */
}

/* Count the pairs of each edge, and make its rows. Returns false if there is no memory. */
static bool
phases_make(struct coll_builder *b, struct phases *f)
{
	const struct topology *t = b->task->topology;
	const uint32_t n = b->task->ranks;
	uint32_t way[WAY_MAX], most = 1;

	f->load = calloc(t->edge_count + 1, sizeof(*f->load));
	f->first = calloc(t->edge_count + 1, sizeof(*f->first));
	if (f->load == NULL || f->first == NULL)
		return false;
	for (uint32_t k = 1; k < n; k++) {
		for (uint32_t p = 0; p < n; p++) {
			for (uint32_t i = way_of(b, p, around(b, (int64_t)p + k), way); i-- > 0;)
				f->load[way[i]]++;
		}
	}
	for (uint32_t e = 0; e < t->edge_count; e++) {
		const double each = f->load[e] ? coll_edge_ns_per_byte(t, e) : 0;

		f->slowest = each > f->slowest ? each : f->slowest;
	}
	for (uint32_t e = 0; e < t->edge_count; e++) {
		const double times = f->slowest / coll_edge_ns_per_byte(t, e);
		const uint32_t rows = times >= ROWS_MAX ? ROWS_MAX
			: times > 1                     ? (uint32_t)(times + 0.01)
							: 1;

		f->first[e + 1] = f->first[e] + rows;
		most = f->load[e] / rows > most ? f->load[e] / rows : most;
	}
	f->words = most * 5 / 4 / 64 + 2;
	f->taken = calloc((size_t)f->words * (f->first[t->edge_count] + 1), sizeof(*f->taken));
	return f->taken != NULL;
}

static void
phases_end(struct phases *f)
{
	free(f->taken);
	free(f->first);
	free(f->load);
}

/* A message of the alltoall. */
struct exchange_pair {
	uint32_t phase;
	uint32_t from, to; /* places */
};

static int
by_phase(const void *a, const void *b)
{
	const struct exchange_pair *x = a, *y = b;

	return x->phase < y->phase ? -1 : x->phase > y->phase;
}

/* Return how many phases an edge needs at least. */
static uint32_t
busy(const struct phases *f, uint32_t edge)
{
	const uint32_t rows = f->first[edge + 1] - f->first[edge];

	return (f->load[edge] + rows - 1) / rows;
}

static uint32_t
busiest(const struct coll_builder *b, const struct phases *f)
{
	uint32_t worst = 1;

	for (uint32_t e = 0; e < b->task->topology->edge_count; e++)
		worst = busy(f, e) > worst ? busy(f, e) : worst;
	return worst;
}

/* Give each pair a phase in which no other pair takes an edge of its way: first those whose way has
 * the busiest edge, then the others into the gaps. The pairs of one distance in the tour meet at no
 * host, so they are taken together. */
static void
share_out(struct coll_builder *b, struct phases *f, struct exchange_pair *pairs)
{
	const uint32_t n = b->task->ranks;
	uint32_t way[WAY_MAX], count = 0;

	for (uint32_t limit = busiest(b, f); limit > 0;) {
		uint32_t next = 0;

		for (uint32_t k = 1; k < n; k++) {
			for (uint32_t p = 0; p < n; p++) {
				const uint32_t to = around(b, (int64_t)p + k);
				const uint32_t hops = way_of(b, p, to, way);
				uint32_t most = 1;

				for (uint32_t i = 0; i < hops; i++)
					most = busy(f, way[i]) > most ? busy(f, way[i]) : most;
				if (most == limit)
					pairs[count++] = (struct exchange_pair){
						take_phase(f, way, hops),
						p,
						to,
					};
				else if (most < limit && most > next)
					next = most;
			}
		}
		limit = next;
	}
}

/* Return how many bytes a permit adds. A link that is faster than the slowest carries several
 * blocks at a time, and grains of all of them may come to its port together. */
static uint32_t
phase_grain(const struct coll_builder *b, const struct phases *f, double under_way)
{
	const struct topology *t = b->task->topology;
	const uint32_t piece = b->plan->lists[0].piece;
	uint32_t grain = coll_grain(b, coll_node(b->task, 0), under_way);

	for (uint32_t e = 0; e < t->edge_count; e++) {
		const double several = f->slowest / coll_edge_ns_per_byte(t, e);
		const double at_a_time = several < b->task->ranks ? several : b->task->ranks;
		const double room = (double)t->vertices[t->edges[e].from].buffer_bytes / 2;

		while (f->load[e] > 0 && room > 0 && grain > piece && at_a_time * grain > room)
			grain -= piece;
	}
	return grain;
}

/* Return how many times longer than a block a phase takes: a permit and an Ack for each grain go
 * the other way, whose line is as busy; and what came late must be able to catch up, on a trunk
 * many at a time. */
static double
phase_slack(const struct coll_builder *b, const struct phases *f)
{
	const struct coll_task *task = b->task;
	const struct topology *t = task->topology;
	const uint32_t piece = b->plan->lists[0].piece, grain = phase_grain(b, f, 0);
	const uint64_t bytes = task->bytes < grain ? task->bytes : grain;
	uint32_t most = 0;
	bool trunk = false;

	for (uint32_t e = 0; e < t->edge_count; e++) {
		if (busy(f, e) > most) {
			most = busy(f, e);
			trunk = t->vertices[t->edges[e].from].host == TOPOLOGY_NONE &&
				t->vertices[t->edges[e].to].host == TOPOLOGY_NONE;
		}
	}
	return (trunk ? 1.07 : 1.015) +
		2.0 * task->params.frame_least /
		(double)coll_block_wire(&task->params, piece, bytes);
}

/* Return whether all that crosses an edge fits the port before it, for every edge. */
static bool
all_fits(const struct coll_builder *b, const struct phases *f)
{
	const struct topology *t = b->task->topology;
	const double wire = (double)coll_wire_bytes(&b->task->params, b->task->bytes);

	for (uint32_t e = 0; e < t->edge_count; e++) {
		const uint64_t buffer = t->vertices[t->edges[e].from].buffer_bytes;

		if (buffer && f->load[e] * wire > (double)buffer)
			return false;
	}
	return true;
}

/* Keep all together from sending more at once than a trunk takes: where one is the busiest edge,
 * and a port cannot hold it all, each rank's line goes as slowly as its share of that. */
static void
pace_trunks(struct coll_builder *b)
{
	const struct coll_task *task = b->task;
	const uint32_t n = task->ranks;
	struct phases f = {0};

	if (!phases_make(b, &f)) {
		b->error = -ENOMEM;
	} else if (busiest(b, &f) > n - 1 && !all_fits(b, &f)) {
		const double slow = (double)busiest(b, &f) / (n - 1);

		for (uint32_t r = 0; r < n; r++)
			b->plan->lists[r].send_pace = coll_pace(b->plan, task,
				slow * coll_slack(task, f.slowest, true));
	}
	phases_end(&f);
}

/* Everyone to all others: the fewest rounds there are, and the most messages. same: one's own block
 * to all, from where it is in OUT; otherwise another one to each. */
static void
everyone_to_all(struct coll_builder *b, bool same)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		const uint16_t own = coll_add_own(b, order[p], p);

		for (uint32_t k = 1; k < n; k++) {
			const uint32_t to = around(b, (int64_t)p + k);
			const uint32_t from = around(b, (int64_t)p - k);
			struct coll_step s = same ? coll_send(order[to], COLL_OUT, p, 1)
						  : coll_send(order[to], COLL_IN, to, 1);
			struct coll_step r = coll_recv(order[from], COLL_OUT, from, 1);

			s.after[0] = same ? own : COLL_NONE;
			s.flags = COLL_EAGER | COLL_TURNS;
			r.flags = COLL_EAGER;
			coll_add(b, order[p], &s);
			coll_add(b, order[p], &r);
		}
	}
}

void
coll_alltoall_at_once(struct coll_builder *b)
{
	pace_trunks(b);
	everyone_to_all(b, false);
}

void
coll_allgather_at_once(struct coll_builder *b)
{
	if (coll_is_eager(b))
		everyone_to_all(b, true);
	else
		b->error = -EOPNOTSUPP;
}

/* Exchange blocks between pairs in phases on a tree of switches, as in Faraj and Yuan (IPDPS 2005,
 * section 4), but find the phases by trying, which takes any tree: within some per cent of their
 * number. A phase is the time that a block takes on the busiest edge; receivers permit by that
 * timetable, so no barriers are needed. */
void
coll_alltoall_phases(struct coll_builder *b)
{
	const struct coll_task *task = b->task;
	const uint32_t n = task->ranks;
	const uint16_t *order = b->plan->order;
	const double wire = (double)coll_block_wire(&task->params, b->plan->lists[0].piece,
		task->bytes);
	struct phases f = {0};
	struct exchange_pair *pairs = calloc((size_t)n * n, sizeof(*pairs));
	double longest = 0;

	if (pairs == NULL || !phases_make(b, &f)) {
		b->error = -ENOMEM;
		goto out;
	}
	/* none is used if all ranks are on one host */
	const double slowest = f.slowest > 0 ? f.slowest : COLL_LOCAL_NS_PER_BYTE;

	share_out(b, &f, pairs);
	qsort(pairs, (size_t)n * (n - 1), sizeof(*pairs), by_phase);
	const double slot = wire * phase_slack(b, &f);

	for (uint32_t p = 1; p < n; p++) {
		const struct coll_path way = coll_path_between(task, order[0], order[p]);

		longest = way.latency_ns > longest ? way.latency_ns : longest;
	}
	const double under_way = 2 * longest / slowest;
	const uint32_t grain = phase_grain(b, &f, under_way);

	for (uint32_t p = 0; p < n; p++) {
		struct coll_list *l = &b->plan->lists[order[p]];

		coll_add_own(b, order[p], p);
		l->grain = grain;
		l->window = (uint64_t)under_way + 4ull * (l->grain + l->piece);
	}
	for (uint32_t i = 0; i < n * (n - 1); i++) {
		const struct exchange_pair *x = &pairs[i];
		const uint32_t from = order[x->from], to = order[x->to];
		const struct coll_path there = coll_path_between(task, from, to);
		const struct coll_path back = coll_path_between(task, to, from);
		const struct coll_step s = coll_send(to, COLL_IN, x->to, 1);
		struct coll_step r = coll_recv(from, COLL_OUT, x->from, 1);

		r.at_us = (uint32_t)((2 * longest + x->phase * slot * slowest) / 1e3);
		/* two pieces more than the way, so that no sender waits for a permit that does */
		r.lead_ns = (uint32_t)(there.latency_ns + back.latency_ns +
			2 * b->plan->lists[0].piece * slowest);
		r.pace = coll_pace(b->plan, task, coll_slack(task, slowest, true));
		coll_add(b, from, &s);
		coll_add(b, to, &r);
	}
out:
	free(pairs);
	phases_end(&f);
}

/* ------------------------------------------------------------------ reductions */

/* Partial sums go around the ring, each place adds its own part, and after n-1 hops the block of a
 * place is whole there. in_out: sums are made in OUT, which has all blocks; otherwise in scratch,
 * of which two whole blocks are needed, as all places wait for each other in a circle. Returns the
 * step at which the place's own block is whole. */
static uint16_t
reduce_ring(struct coll_builder *b, uint32_t p, bool in_out)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	const uint32_t rank = order[p], to = order[around(b, (int64_t)p + 1)];
	const uint32_t from = order[around(b, (int64_t)p - 1)];
	uint16_t got = COLL_NONE, sum = COLL_NONE;

	for (uint32_t k = 0; k + 1 < n; k++) {
		const uint32_t block = around(b, (int64_t)p - 2 - k);
		const bool stays = in_out || k + 2 == n;
		/* the sum of the step before goes on, the first time our own part */
		struct coll_step s = coll_send(to,
			k == 0           ? COLL_IN
				: in_out ? COLL_OUT
					 : COLL_SCRATCH,
			around(b, (int64_t)p - 1 - k), 1);
		struct coll_step r = coll_recv(from, COLL_SCRATCH, block, 1);
		struct coll_step c = coll_local(COLL_REDUCE, stays ? COLL_SCRATCH : COLL_IN,
			stays ? COLL_OUT : COLL_SCRATCH, block, 1);

		if (k > 0) {
			s.after[0] = sum;
			s.flags = COLL_STREAM_0;
			s.source = in_out ? 0 : got;
		}
		coll_add(b, rank, &s);
		r.after[0] = got;
		r.early = got == COLL_NONE ? 0 : coll_early(&b->plan->lists[rank]);
		got = coll_add(b, rank, &r);
		if (stays) {
			c.source = got;
			c.after[1] = coll_add_own(b, rank, block);
		} else {
			c.target = got;
		}
		c.after[0] = got;
		c.flags = COLL_STREAM_0;
		sum = coll_add(b, rank, &c);
	}
	return n == 1 ? coll_add_own(b, rank, p) : sum;
}

void
coll_reduce_scatter_ring(struct coll_builder *b)
{
	const uint64_t two = 2 * b->task->bytes;

	for (uint32_t p = 0; p < b->task->ranks; p++) {
		struct coll_list *l = &b->plan->lists[b->plan->order[p]];

		if (l->area_bytes < two)
			l->area_bytes = two;
		reduce_ring(b, p, false);
	}
}

void
coll_allreduce_ring(struct coll_builder *b)
{
	for (uint32_t p = 0; p < b->task->ranks; p++)
		gather_ring(b, p, reduce_ring(b, p, true));
}

/* Add up in rounds of pairs that exchange all they have, which is so many blocks. Places beyond a
 * power of two give theirs to a partner before, and get the result after. */
static void
doubling(struct coll_builder *b, uint32_t blocks)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;
	uint32_t power = 1;

	while (2 * power <= n)
		power *= 2;
	const uint8_t flags = coll_run_is_eager(b, blocks) ? COLL_EAGER : 0;

	for (uint32_t p = 0; p < n; p++) {
		const uint32_t rank = order[p];

		if (p >= power) {
			struct coll_step s = coll_send(order[p - power], COLL_IN, 0, blocks);
			struct coll_step r = coll_recv(order[p - power], COLL_OUT, 0, blocks);

			s.flags = r.flags = flags;
			coll_add(b, rank, &s);
			coll_add(b, rank, &r);
			continue;
		}
		const struct coll_step own = coll_local(COLL_COPY, COLL_IN, COLL_OUT, 0, blocks);
		uint16_t sum = coll_add(b, rank, &own), sent = COLL_NONE;
		uint8_t area = 0;

		for (uint32_t k = p + power < n ? 0 : 1; k < power; k = k ? 2 * k : 1) {
			const uint32_t peer = order[k ? p ^ k : p + power];
			struct coll_step r = coll_recv(peer, COLL_SCRATCH, 0, blocks);
			struct coll_step c = coll_local(COLL_REDUCE, COLL_SCRATCH, COLL_OUT, 0,
				blocks);

			r.flags = flags;
			r.area = area++;
			if (k) {
				struct coll_step s = coll_send(peer, COLL_OUT, 0, blocks);

				s.flags = flags | COLL_STREAM_0;
				s.after[0] = sum;
				sent = coll_add(b, rank, &s);
			} else {
				sent = sum;
			}
			c.source = c.after[0] = coll_add(b, rank, &r);
			c.after[1] = sent;
			c.flags = COLL_STREAM_0 | COLL_STREAM_1;
			sum = coll_add(b, rank, &c);
		}
		if (p + power < n) {
			struct coll_step s = coll_send(order[p + power], COLL_OUT, 0, blocks);

			s.flags = flags | COLL_STREAM_0;
			s.after[0] = sum;
			coll_add(b, rank, &s);
		}
	}
}

void
coll_allreduce_doubling(struct coll_builder *b)
{
	doubling(b, 1);
}

/* Make the whole sum at all places, of which each needs only its block. This is worth it only if it
 * needs no permits. */
void
coll_reduce_scatter_doubling(struct coll_builder *b)
{
	const uint64_t all = b->task->ranks * b->task->bytes;

	if (coll_run_is_eager(b, b->task->ranks) && all <= b->plan->lists[0].piece)
		doubling(b, b->task->ranks);
	else
		b->error = -EOPNOTSUPP;
}

/* Everyone sends what each one sums up to it at once: block `to` of to's sums, or all the same
 * vector. All sum up in the order of places, so all have the same bits. */
static void
sum_at_once(struct coll_builder *b, bool vector)
{
	const uint32_t n = b->task->ranks;
	const uint16_t *order = b->plan->order;

	if (!coll_is_eager(b) || n - 1 > COLL_AREAS_MAX) {
		b->error = -EOPNOTSUPP;
		return;
	}
	for (uint32_t p = 0; p < n; p++) {
		const uint32_t rank = order[p], block = vector ? 0 : p;
		uint16_t sum = COLL_NONE;

		b->plan->lists[rank].area_bytes = b->plan->lists[rank].piece;
		for (uint32_t k = 1; k < n; k++) {
			const uint32_t to = around(b, (int64_t)p + k);
			struct coll_step s = coll_send(order[to], COLL_IN, vector ? 0 : to, 1);

			s.flags = COLL_EAGER | COLL_TURNS;
			coll_add(b, rank, &s);
		}
		for (uint32_t q = 0; q < n; q++) {
			struct coll_step c = coll_local(q == 0 ? COLL_COPY : COLL_REDUCE,
				q == p ? COLL_IN : COLL_SCRATCH, COLL_OUT, block, 1);

			if (q != p) {
				struct coll_step r = coll_recv(order[q], COLL_SCRATCH, block, 1);

				r.flags = COLL_EAGER;
				r.area = (uint8_t)(q < p ? q : q - 1);
				c.source = c.after[0] = coll_add(b, rank, &r);
				c.flags = COLL_STREAM_0;
			}
			c.after[1] = sum;
			sum = coll_add(b, rank, &c);
		}
	}
}

void
coll_allreduce_at_once(struct coll_builder *b)
{
	sum_at_once(b, true);
}

void
coll_reduce_scatter_at_once(struct coll_builder *b)
{
	sum_at_once(b, false);
}

/* ------------------------------------------------------------------ barrier */

/* Let each place tell, in round k, the 2^k'th after it that it, and those before it, are there; or
 * let pairs tell each other. */
void
coll_barrier_bruck(struct coll_builder *b)
{
	const uint32_t n = b->task->ranks;
	const bool pairs = is_power_of_two(n);
	const uint16_t *order = b->plan->order;

	for (uint32_t p = 0; p < n; p++) {
		const uint32_t rank = order[p];
		uint16_t here = COLL_NONE, sent = COLL_NONE;

		for (uint32_t k = 1; k < n; k *= 2) {
			const uint32_t to = pairs ? p ^ k : around(b, (int64_t)p + k);
			const uint32_t from = pairs ? p ^ k : around(b, (int64_t)p - k);
			struct coll_step s = coll_send(order[to], COLL_IN, 0, 0);
			struct coll_step r = coll_recv(order[from], COLL_OUT, 0, 0);

			s.after[0] = here;
			s.after[1] = sent;
			s.flags = r.flags = COLL_EAGER;
			sent = coll_add(b, rank, &s);
			here = coll_add(b, rank, &r);
		}
	}
}
