/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measuring a network: the rounds, and who measures. See survey.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/generate.h"
#include "coll/survey_internal.h"

#define PINGS        8 /* exchanges of short messages in a round */
#define PING_BYTES   8
#define PING_REPEATS 3 /* the first one also opens flows */
#define LOAD_ROUNDS  4
#define WAYS         2           /* long blocks go there, and then back */
#define LINK_REPEATS 2           /* of rounds of a switch's link */
#define AHEAD        (32u << 10) /* bytes permitted beside what is on its way */
#define GRAIN        (8u << 10)  /* of a permit */

/* ------------------------------------------------------------------ rounds */

/* Return how many rounds a tournament has in which every pair of hosts meets once. */
static uint32_t
tournament(const struct survey *s)
{
	return s->hosts < 2 ? 0 : s->hosts - 1 + s->hosts % 2;
}

/* Return whom a host meets in that round of the tournament; NONE: it has nobody. */
static uint32_t
opponent(const struct survey *s, uint32_t round, uint32_t host)
{
	const uint32_t n = tournament(s); /* odd; host n stays at its place, if there is one */
	uint32_t other = host == n ? round * ((n + 1) / 2) % n : (round + n - host) % n;

	if (other == host)
		other = n;
	return other < s->hosts ? other : NONE;
}

uint32_t
survey_rounds(const struct survey *s)
{
	switch (s->phase) {
	case PHASE_PINGS:
		return PING_REPEATS * tournament(s);
	case PHASE_LOAD:
		return tournament(s) < LOAD_ROUNDS ? tournament(s) : LOAD_ROUNDS;
	case PHASE_LONG:
		return 2 * WAYS * tournament(s);
	case PHASE_LINES:
		return 2 * WAYS * NEIGHBOURS;
	case PHASE_LINKS:
		return 2 * WAYS * LINK_REPEATS * survey_switches_below_the_highest(s);
	case PHASE_DONE:
		break;
	}
	return 0;
}

uint64_t
survey_bytes(const struct survey *s)
{
	uint64_t most = s->phase == PHASE_PINGS ? PING_BYTES : s->bytes;

	for (uint32_t i = 0; s->phase == PHASE_LINKS && i < survey_switches_below_the_highest(s);
		i++)
		most = s->link_bytes[i] > most ? s->link_bytes[i] : most;
	return most;
}

/* Return which of the tournament's rounds, of a host's neighbours, or of the switches below the
 * highest, a round is for; their number goes to *of. */
static uint32_t
subject(const struct survey *s, uint32_t round, uint32_t *of)
{
	const bool lengths = s->phase != PHASE_PINGS && s->phase != PHASE_LOAD;

	*of = s->phase == PHASE_LINKS     ? survey_switches_below_the_highest(s)
		: s->phase == PHASE_LINES ? NEIGHBOURS
					  : tournament(s);
	return (lengths ? round / 2 : round) % *of;
}

/* Return the bytes of a block in that round. Rounds of two lengths alternate; even ones are the
 * shorter. */
static uint64_t
bytes_in(const struct survey *s, uint32_t round)
{
	uint32_t count;
	const uint32_t i = subject(s, round, &count);
	const uint64_t bytes = s->phase == PHASE_LINKS ? s->link_bytes[i] : s->bytes;

	if (s->phase == PHASE_PINGS)
		return PING_BYTES;
	return s->phase == PHASE_LOAD || round % 2 ? bytes : bytes / SHORTER;
}

/* Return with whom a host exchanges blocks in that round; NONE: with nobody. */
static uint32_t
partner(const struct survey *s, uint32_t round, uint32_t host)
{
	uint32_t count;
	const uint32_t i = subject(s, round, &count);

	if (s->phase != PHASE_LINKS && s->phase != PHASE_LINES)
		return opponent(s, i, host);
	const uint16_t p = s->partners[(size_t)i * s->hosts + host];

	return p != COLL_NONE ? p : NONE;
}

/* Return whether the long block of a round goes from `host` to `other`. */
static bool
sends(const struct survey *s, uint32_t round, uint32_t host, uint32_t other)
{
	uint32_t count;
	const uint32_t i = subject(s, round, &count);
	const bool back = s->phase != PHASE_LOAD && round / 2 / count % WAYS;
	const bool first = s->phase == PHASE_LINKS ? survey_is_below(s, host, s->hosts + 1 + i)
						   : host < other;

	return first != back;
}

/* Return how many bytes a host permits before they are there: what is on its way there and back at
 * the rate that was seen so far, twice, and some. More would wait in the sender's own port. */
static uint64_t
window(const struct survey *s, uint32_t host, uint32_t other)
{
	return AHEAD + (uint64_t)(4 * *survey_at(s, s->ping_ns, host, other) * s->rate);
}

/* Short messages back and forth: each side sends after it has got. */
static uint32_t
write_pings(struct coll_step *steps, uint16_t peer)
{
	for (uint16_t i = 0; i < 2 * PINGS; i += 2) {
		steps[i] = coll_send(peer, COLL_IN, 0, 1);
		steps[i + 1] = coll_recv(peer, COLL_OUT, 0, 1);
		steps[i].flags = steps[i + 1].flags = COLL_EAGER;
		if (i > 0)
			steps[i].after[0] = i - 1u;
	}
	return 2 * PINGS;
}

int
survey_plan(const struct survey *s, uint32_t round, uint32_t only, struct coll_plan **out)
{
	struct coll_plan *p = calloc(1, sizeof(*p));
	const bool pings = s->phase == PHASE_PINGS;
	const uint32_t lists = only == COLL_NONE ? s->hosts : 1;
	const struct coll_task task = {.params = s->params};

	if (p == NULL)
		return -ENOMEM;
	p->kind = COLL_ALLTOALL;
	p->generator = COLL_PHASES;
	p->ranks = s->ranks;
	p->bytes = bytes_in(s, round);
	p->block_count = 1;
	p->order = calloc(p->ranks, sizeof(*p->order));
	p->lists = calloc(p->ranks, sizeof(*p->lists));
	p->steps = calloc((pings ? 2ull * PINGS : 1) * lists, sizeof(*p->steps));
	if (p->order == NULL || p->lists == NULL || p->steps == NULL) {
		coll_plan_free(p);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < p->ranks; r++) {
		struct coll_list *l = &p->lists[r];
		const uint32_t host = s->host_of[r];
		const uint32_t other = host != NONE ? partner(s, round, host) : NONE;

		p->order[r] = (uint16_t)r;
		*l = (struct coll_list){
			.steps = &p->steps[p->step_count],
			.ranks = p->ranks,
			.rank = r,
			.piece = coll_piece(&task, p->bytes),
			.area_bytes = p->bytes,
		};
		if (other == NONE || (only != COLL_NONE && only != r))
			continue;
		struct coll_step *steps = &p->steps[p->step_count];
		const uint16_t peer = s->speakers[other];

		if (pings) {
			l->count = write_pings(steps, peer);
		} else {
			*steps = sends(s, round, host, other) ? coll_send(peer, COLL_IN, 0, 1)
							      : coll_recv(peer, COLL_OUT, 0, 1);
			l->count = 1;
			l->window = window(s, host, other);
			l->grain = GRAIN;
		}
		p->step_count += l->count;
	}
	p->hash = ((uint64_t)s->phase << 32 | round) * 0x9E3779B97F4A7C15u + p->bytes;
	*out = p;
	return 0;
}

/* ------------------------------------------------------------------ times */

/* Return how long a host and the one that it meets took in a round: the longer side, ns; 0: the
 * host has met nobody, and *other is NONE. */
static double
of_pair(const struct survey *s, const uint64_t *ns, uint32_t round, uint32_t host, uint32_t *other)
{
	const uint32_t rounds = survey_rounds(s);

	*other = partner(s, round, host);
	if (*other == NONE)
		return 0;
	const uint64_t a = ns[(size_t)s->speakers[host] * rounds + round];
	const uint64_t b = ns[(size_t)s->speakers[*other] * rounds + round];

	return (double)(a > b ? a : b);
}

/* Keep each pair's least time. part: so much of a round's time counts. */
static void
keep_least(const struct survey *s, const uint64_t *ns, uint32_t round, double *matrix, double part)
{
	for (uint32_t x = 0; x < s->hosts; x++) {
		uint32_t y;
		const double t = of_pair(s, ns, round, x, &y) * part;

		if (y == NONE)
			continue;
		double *best_so_far = survey_at(s, matrix, x, y);

		if (*best_so_far == 0 || t < *best_so_far)
			*best_so_far = t > 1 ? t : 1;
	}
}

/* Make blocks longer or shorter by what the last rounds took. Return whether they are as long as
 * they shall be now. The fastest tenth of the pairs tells that: they have nothing in their way, or
 * all pairs have something. Pairs that are so far apart that they mostly wait tell nothing. */
static bool
load(struct survey *s, const uint64_t *ns)
{
	const uint32_t rounds = survey_rounds(s);
	double *times = calloc((size_t)s->hosts * rounds, sizeof(*times));
	uint32_t count = 0, other;

	for (uint32_t i = 0; times != NULL && i < s->hosts * rounds; i++) {
		const double t = of_pair(s, ns, i % rounds, i / rounds, &other);

		if (other == NONE)
			continue;
		const double ways = WAYS_WAITED * *survey_at(s, s->ping_ns, i / rounds, other);

		if (t > 2 * ways)
			times[count++] = t - ways;
	}
	const double took = times != NULL ? survey_quantile(times, count, 10) : 0;

	free(times);
	if (took > 0 && (double)s->bytes / took > s->rate)
		s->rate = (double)s->bytes / took;
	if (took < (double)s->target_ns / 2 && s->bytes < BYTES_MOST) {
		s->bytes *= 2;
		return false;
	}
	if (took > (double)s->target_ns) {
		const double bytes = (double)s->bytes * (double)s->target_ns / took;

		s->bytes = bytes > BYTES_LEAST ? (uint64_t)bytes : BYTES_LEAST;
	}
	return true;
}

/* Write how long the blocks of a switch's pairs took, each beside all others, in one of the
 * repeats, without the time that passes besides. Return how many pairs there are. */
static uint32_t
times_beside(const struct survey *s, const uint64_t *ns, uint32_t i, uint32_t repeat, double *times)
{
	const uint32_t round = (repeat * survey_switches_below_the_highest(s) + i) * 2;
	const double bytes = (double)s->link_bytes[i];
	uint32_t count = 0, other;

	for (uint32_t x = 0; x < s->hosts; x++) {
		const double shorter = of_pair(s, ns, round, x, &other);
		const double longer = of_pair(s, ns, round + 1, x, &other);

		if (other != NONE && x < other)
			times[count++] = bytes /
				survey_rate_of(bytes, longer, shorter,
					*survey_at(s, s->ping_ns, x, other));
	}
	return count;
}

/* Return what all pairs carry together, bytes a ns, until half of them have ended: the others may
 * be held up elsewhere, or have what these had before. */
static double
carried(double *times, uint32_t count, double bytes)
{
	const double half = survey_quantile(times, count, 2);
	double sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += times[i] > half ? bytes / times[i] : bytes / half;
	return sum;
}

/* Set the rates of the switches' links: of the better of the repeats, that of the slower way.
 * Return 0 or -ENOMEM. */
static int
links_took(struct survey *s, const uint64_t *ns)
{
	double *times = calloc(s->hosts, sizeof(*times));

	if (times == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < survey_switches_below_the_highest(s); i++) {
		double rate[WAYS] = {0};

		for (uint32_t k = 0; k < WAYS * LINK_REPEATS; k++) {
			const uint32_t count = times_beside(s, ns, i, k, times);
			const double all = carried(times, count, (double)s->link_bytes[i]);

			if (all > rate[k % WAYS])
				rate[k % WAYS] = all;
		}
		const double slower = rate[0] < rate[1] ? rate[0] : rate[1];

		if (slower > 0) /* who is below it, and who is not, has met */
			s->vertices[s->hosts + 1 + i].rate = slower;
	}
	free(times);
	return 0;
}

int
survey_measured(struct survey *s, const uint64_t *ns)
{
	const uint32_t rounds = survey_rounds(s);
	const enum survey_phase was = s->phase;
	int e = 0;

	switch (s->phase) {
	case PHASE_PINGS:
		for (uint32_t r = 0; r < rounds; r++)
			keep_least(s, ns, r, s->ping_ns, 1.0 / PINGS);
		s->phase = PHASE_LOAD;
		break;
	case PHASE_LOAD:
		if (load(s, ns))
			s->phase = PHASE_LONG;
		break;
	case PHASE_LONG:
	case PHASE_LINES:
		for (uint32_t r = 0; r < rounds; r++)
			keep_least(s, ns, r, r % 2 ? s->long_ns : s->short_ns, 1);
		if (was == PHASE_LONG)
			e = survey_find_switches(s);
		if (e != 0)
			break;
		survey_rate_hosts(s);
		e = survey_pair_across(s);
		s->phase = PHASE_LINKS;
		break;
	case PHASE_LINKS:
		break;
	case PHASE_DONE:
		return 0;
	}
	/* there may be no further round */
	if (e == 0 && s->phase == PHASE_LINKS && (was == PHASE_LINKS || survey_rounds(s) == 0)) {
		e = links_took(s, ns);
		if (e == 0 && s->ups == NULL)
			e = survey_simplify(s);
		s->phase = PHASE_DONE;
	}
	return e;
}

/* ------------------------------------------------------------------ beginning and end */

/* Make the result for one host: a switch, and nothing to measure. */
static void
alone(struct survey *s)
{
	s->vertices[0] = (struct vertex){.parent = 1, .up_ns = 1000, .rate = 1};
	s->vertices[1].parent = NONE;
	s->count = 2;
	s->bytes = BYTES_LEAST;
	s->phase = PHASE_DONE;
}

static int
by_node(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

uint32_t
survey_host_of(const struct survey *s, uint16_t node)
{
	const uint16_t *found = bsearch(&node, s->nodes, s->hosts, sizeof(*s->nodes), by_node);

	return found != NULL ? (uint32_t)(found - s->nodes) : NONE;
}

/* Choose which ranks measure: the lowest of each node. */
static void
choose_speakers(struct survey *s, const uint16_t *nodes)
{
	for (uint32_t r = 0; r < s->ranks; r++)
		s->nodes[r] = nodes != NULL ? nodes[r] : (uint16_t)r;
	qsort(s->nodes, s->ranks, sizeof(*s->nodes), by_node);
	for (uint32_t r = 0; r < s->ranks; r++) {
		if (s->hosts == 0 || s->nodes[s->hosts - 1] != s->nodes[r])
			s->nodes[s->hosts++] = s->nodes[r];
	}
	memset(s->speakers, 0xFF, s->hosts * sizeof(*s->speakers));
	for (uint32_t r = 0; r < s->ranks; r++) {
		const uint32_t host = survey_host_of(s, nodes != NULL ? nodes[r] : (uint16_t)r);
		uint16_t *speaker = &s->speakers[host];

		s->host_of[r] = *speaker == COLL_NONE ? host : NONE;
		if (*speaker == COLL_NONE)
			*speaker = (uint16_t)r;
	}
}

int
survey_open(struct survey **out, const struct survey_config *c)
{
	if (c->ranks == 0 || c->ranks > COLL_RANKS_MAX)
		return -EINVAL;
	struct survey *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	s->ranks = c->ranks;
	s->params = c->params;
	s->nodes = calloc(c->ranks, sizeof(*s->nodes));
	s->speakers = calloc(c->ranks, sizeof(*s->speakers));
	s->host_of = calloc(c->ranks, sizeof(*s->host_of));
	int e = s->nodes != NULL && s->speakers != NULL && s->host_of != NULL ? 0 : -ENOMEM;

	if (e == 0) {
		choose_speakers(s, c->nodes);
		if (s->hosts > SURVEY_HOSTS_MAX ||
			s->nodes[s->hosts - 1] + s->hosts >= TOPOLOGY_VERTICES_MAX)
			e = -E2BIG;
	}
	const size_t pairs = (size_t)s->hosts * s->hosts;
	const uint64_t us = c->round_us ? c->round_us : SURVEY_ROUND_US;

	if (e == 0) {
		s->target_ns = us * 1000 * 8 / (s->hosts > 8 ? s->hosts : 8);
		s->bytes = BYTES_LEAST;
		s->ping_ns = calloc(3 * pairs, sizeof(*s->ping_ns));
		s->vertices = calloc(2ull * s->hosts, sizeof(*s->vertices));
		e = s->ping_ns != NULL && s->vertices != NULL ? 0 : -ENOMEM;
	}
	if (e != 0) {
		survey_close(s);
		return e;
	}
	s->long_ns = s->ping_ns + pairs;
	s->short_ns = s->long_ns + pairs;
	if (s->hosts == 1)
		alone(s);
	*out = s;
	return 0;
}

void
survey_close(struct survey *s)
{
	if (s == NULL)
		return;
	free(s->nodes);
	free(s->speakers);
	free(s->host_of);
	free(s->ping_ns);
	free(s->vertices);
	free(s->partners);
	free(s->link_bytes);
	free(s->ups);
	free(s);
}
