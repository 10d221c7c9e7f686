/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measuring again what is known: a topology's tree stays, and only what its lines and links carry
 * is measured. See survey.h, note 6.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/survey_internal.h"
#include "coll/tour.h"

/* Return how many bits a second on the wire are one byte of payload a ns. */
static double
wire_bps(const struct survey *s)
{
	const struct coll_task task = {.params = s->params};
	const uint64_t bytes = BYTES_MOST;

	return 8e9 * (double)coll_block_wire(&s->params, coll_piece(&task, bytes), bytes) /
		(double)bytes;
}

/* Return the host of a vertex of the topology, or NONE: it is a switch, or has no rank. */
static uint32_t
host_at(const struct survey *s, const struct topology *t, uint32_t vertex)
{
	const uint32_t node = t->vertices[vertex].host;

	return node != TOPOLOGY_NONE ? survey_host_of(s, (uint16_t)node) : NONE;
}

static void
set_vertex(struct survey *s, const struct topology *t, uint32_t v, uint32_t parent, uint32_t up)
{
	s->ups[v] = up;
	s->vertices[v] = (struct vertex){
		.parent = parent,
		.rate = up != NONE ? (double)t->edges[up].bandwidth_bps / wire_bps(s) : 0,
	};
}

/* Copy the topology's tree, from a switch on, into the survey, in an order in which what is above
 * comes first. queue: [3][vertices] to work with. */
static void
walk(struct survey *s, const struct topology *t, uint32_t first, uint32_t *queue)
{
	uint32_t *ups = queue + t->vertex_count, *above = ups + t->vertex_count, tail = 0;

	s->count = s->hosts;
	queue[tail] = first;
	ups[tail] = above[tail] = NONE;
	tail++;
	for (uint32_t head = 0; head < tail; head++) {
		const struct topology_vertex *x = &t->vertices[queue[head]];
		const uint32_t v = s->count++;

		set_vertex(s, t, v, above[head], ups[head]);
		for (uint32_t e = x->first_edge; e < x->first_edge + x->edge_count; e++) {
			const uint32_t to = t->edges[e].to, host = host_at(s, t, to);

			if (e == ups[head])
				continue;
			if (host != NONE) {
				set_vertex(s, t, host, v, t->edges[e].reverse);
			} else if (t->vertices[to].host == TOPOLOGY_NONE) {
				queue[tail] = to;
				ups[tail] = t->edges[e].reverse;
				above[tail++] = v;
			}
		}
	}
}

/* Choose who meets whom, so that most meet a neighbour: one after the other by their switches, and
 * then the other neighbour. Return 0 or -ENOMEM. */
static int
pair_neighbours(struct survey *s, const struct topology *t)
{
	uint32_t *order = calloc(s->hosts, sizeof(*order)), n = 0;

	s->partners = malloc((size_t)NEIGHBOURS * s->hosts * sizeof(*s->partners));
	if (order == NULL || s->partners == NULL) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t v = s->hosts; v < s->count; v++) {
		for (uint32_t x = 0; x < s->hosts; x++) {
			if (s->vertices[x].parent == v)
				order[n++] = x;
		}
	}
	memset(s->partners, 0xFF, (size_t)NEIGHBOURS * s->hosts * sizeof(*s->partners));
	for (uint32_t k = 0; k < NEIGHBOURS; k++) {
		uint16_t *partners = &s->partners[(size_t)k * s->hosts];

		for (uint32_t i = k; i + 1 < n + k; i += 2) {
			const uint32_t x = order[i % n], y = order[(i + 1) % n];

			if (partners[x] != COLL_NONE || partners[y] != COLL_NONE || x == y ||
				!topology_may_talk(t, s->nodes[x], s->nodes[y]))
				continue;
			partners[x] = (uint16_t)y;
			partners[y] = (uint16_t)x;
		}
	}
	free(order);
	return 0;
}

/* Set the latencies between all hosts to those that the topology says. */
static void
set_ways(struct survey *s, const struct topology *t)
{
	for (uint32_t x = 0; x < s->hosts; x++) {
		for (uint32_t y = 0; y < s->hosts; y++) {
			double ns = 1;

			for (uint32_t v = t->hosts[s->nodes[x]]; v != t->hosts[s->nodes[y]];) {
				const struct topology_edge *e =
					&t->edges[topology_route(t, v, s->nodes[y])];

				ns += (double)e->latency_ns;
				v = e->to;
			}
			*survey_at(s, s->ping_ns, x, y) = ns;
		}
	}
}

static int
set_bytes(struct survey *s)
{
	double *rates = calloc(s->hosts, sizeof(*rates));

	if (rates == NULL)
		return -ENOMEM;
	for (uint32_t x = 0; x < s->hosts; x++) {
		rates[x] = s->vertices[x].rate;
		s->rate = rates[x] > s->rate ? rates[x] : s->rate;
	}
	const double bytes = survey_quantile(rates, s->hosts, 2) * (double)s->target_ns;

	s->bytes = bytes < BYTES_LEAST ? BYTES_LEAST
		: bytes > BYTES_MOST   ? BYTES_MOST
				       : (uint64_t)bytes;
	free(rates);
	return 0;
}

int
survey_again(struct survey **out, const struct survey_config *c, const struct topology *t)
{
	struct survey *s;
	int e = survey_open(&s, c);

	if (e != 0)
		return e;
	const struct topology_vertex *first = &t->vertices[t->hosts[s->nodes[0]]];
	const uint32_t above = first->edge_count > 0 ? t->edges[first->first_edge].to : NONE;
	const size_t vertices = s->hosts + t->vertex_count;

	if (s->hosts < 2 || above == NONE || t->vertices[above].host != TOPOLOGY_NONE) {
		s->phase = PHASE_DONE; /* nothing that can be measured */
		s->count = s->hosts;
		*out = s;
		return 0;
	}
	uint32_t *queue = calloc(3ull * t->vertex_count, sizeof(*queue));

	free(s->vertices);
	s->vertices = calloc(vertices, sizeof(*s->vertices));
	s->ups = calloc(vertices, sizeof(*s->ups));
	e = queue != NULL && s->vertices != NULL && s->ups != NULL ? 0 : -ENOMEM;
	if (e == 0) {
		walk(s, t, above, queue);
		set_ways(s, t);
		e = set_bytes(s);
	}
	if (e == 0)
		e = pair_neighbours(s, t);
	free(queue);
	if (e != 0) {
		survey_close(s);
		return e;
	}
	s->phase = PHASE_LINES;
	*out = s;
	return 0;
}

bool
survey_rates(const struct survey *s, struct topology *t)
{
	bool changed = false;

	for (uint32_t v = 0; s->ups != NULL && v < s->count; v++) {
		if (s->ups[v] == NONE)
			continue;
		struct topology_edge *up = &t->edges[s->ups[v]];
		const double said = (double)up->bandwidth_bps;
		const double is = s->vertices[v].rate * wire_bps(s);

		/* what nobody could fill is at least as fast as it is said to be */
		if ((is < said && v >= s->hosts && !survey_holds_up(s, v)) ||
			(is > said * (1 - ALIKE_RATE) && is < said * (1 + ALIKE_RATE)))
			continue;
		up->bandwidth_bps = t->edges[up->reverse].bandwidth_bps = (uint64_t)is;
		changed = true;
	}
	return changed;
}
