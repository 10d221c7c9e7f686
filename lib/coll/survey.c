/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measuring a network: the rounds, and what their times tell. See survey.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/generate.h"
#include "coll/survey.h"

#define PINGS         8  /* exchanges of short messages in a round */
#define PING_BYTES    8
#define PING_REPEATS  3  /* the first one also opens flows */
#define WAYS_WAITED   4 /* at most, for each other, in a round: somebody has begun, a permit, a block */
#define WAYS_FILLED   8 /* by a long block of a switch's round, at the rate of a host */
#define LOAD_ROUNDS   4
#define WAYS          2 /* long blocks go there, and then back */
#define LINK_REPEATS  2 /* of rounds of a switch's link */
#define AHEAD         (32u << 10) /* bytes permitted beside what is on its way */
#define GRAIN         (8u << 10)  /* of a permit */
#define BYTES_LEAST   (16u << 10)
#define BYTES_MOST    (4u << 20)
#define SHORTER       4    /* blocks of two lengths tell a rate: one is so many times the other */
#define SPLIT         1.3  /* pairs across take so much longer than those on either side */
#define ENOUGH        0.85 /* of what the hosts' lines carry: the link above holds nobody up */
#define NEAR          0.15 /* of its hosts' links: so short a link above may be none */
#define ALIKE_RATE    0.10 /* rates of a switch's hosts that differ by less are the same ... */
#define ALIKE_LATENCY 0.25 /* ... and latencies */
#define LINK_NS       2    /* at least, of a link */
#define BUFFER        "128K" /* of a switch's port: this is not measured */
#define NONE          UINT32_MAX

enum phase {
	PHASE_PINGS,
	PHASE_LOAD, /* how long the long blocks are to be */
	PHASE_LONG,
	PHASE_LINKS, /* of switches, upwards */
	PHASE_DONE
};

/* A switch, or a host: the first ones are the hosts. */
struct vertex {
	uint32_t parent; /* NONE: the highest */
	double up_ns;    /* latency of the link to it */
	double rate;     /* ... bytes of payload a ns */
	bool is_none;    /* a switch that turned out to be none */
};

struct survey {
	uint32_t ranks, hosts;
	uint16_t *nodes;    /* [hosts], ascending */
	uint16_t *speakers; /* [hosts]: the rank that measures */
	uint32_t *host_of;  /* [ranks]: or NONE */
	struct coll_params params;
	uint64_t target_ns; /* of a round of long blocks */
	enum phase phase;
	uint64_t bytes; /* of a long block */
	double rate;    /* bytes a ns that a host has been seen to send */
	/* [hosts * hosts] */
	double *ping_ns;  /* one way */
	double *long_ns;  /* of a long block, both ways at once ... */
	double *short_ns; /* ... and of one that is SHORTER */
	double near_ns;   /* of all hosts' nearest ones, the middle one */
	/* the tree */
	uint32_t count; /* vertices */
	struct vertex *vertices;
	/* PHASE_LINKS, [switches but the highest] */
	uint16_t *partners;   /* ... [hosts]; COLL_NONE: idle */
	uint64_t *link_bytes; /* of a long block: more where the way is far */
};

/* ------------------------------------------------------------------ rounds */

static double *
at(const struct survey *s, double *matrix, uint32_t x, uint32_t y)
{
	return &matrix[(size_t)x * s->hosts + y];
}

/* The child of `of` below which a vertex is; NONE: it is not below. */
static uint32_t
child_above(const struct survey *s, uint32_t vertex, uint32_t of)
{
	while (vertex != NONE && s->vertices[vertex].parent != of)
		vertex = s->vertices[vertex].parent;
	return vertex;
}

static bool
is_below(const struct survey *s, uint32_t vertex, uint32_t of)
{
	return child_above(s, vertex, of) != NONE;
}

/* Rounds of a tournament in which every pair of hosts meets once. */
static uint32_t
tournament(const struct survey *s)
{
	return s->hosts < 2 ? 0 : s->hosts - 1 + s->hosts % 2;
}

/* Whom a host meets there; NONE: it has nobody. */
static uint32_t
opponent(const struct survey *s, uint32_t round, uint32_t host)
{
	const uint32_t n = tournament(s); /* odd; host n stays at its place, if there is one */
	uint32_t other = host == n ? round * ((n + 1) / 2) % n : (round + n - host) % n;

	if (other == host)
		other = n;
	return other < s->hosts ? other : NONE;
}

static uint32_t
switches_below_the_highest(const struct survey *s)
{
	return s->count > s->hosts ? s->count - s->hosts - 1 : 0;
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
	case PHASE_LINKS:
		return 2 * WAYS * LINK_REPEATS * switches_below_the_highest(s);
	case PHASE_DONE:
		break;
	}
	return 0;
}

uint64_t
survey_bytes(const struct survey *s)
{
	uint64_t most = s->phase == PHASE_PINGS ? PING_BYTES : s->bytes;

	for (uint32_t i = 0; s->phase == PHASE_LINKS && i < switches_below_the_highest(s); i++)
		most = s->link_bytes[i] > most ? s->link_bytes[i] : most;
	return most;
}

/* Which of the tournament's rounds, or of the switches below the highest, a round is for; their
 * number goes to *of. */
static uint32_t
subject(const struct survey *s, uint32_t round, uint32_t *of)
{
	const bool links = s->phase == PHASE_LINKS, lengths = links || s->phase == PHASE_LONG;

	*of = links ? switches_below_the_highest(s) : tournament(s);
	return (lengths ? round / 2 : round) % *of;
}

/* Rounds of two lengths alternate; even ones are the shorter. */
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

/* With whom a host exchanges blocks; NONE: with nobody. */
static uint32_t
partner(const struct survey *s, uint32_t round, uint32_t host)
{
	uint32_t count;
	const uint32_t i = subject(s, round, &count);

	if (s->phase != PHASE_LINKS)
		return opponent(s, i, host);
	const uint16_t p = s->partners[(size_t)i * s->hosts + host];

	return p != COLL_NONE ? p : NONE;
}

/* Whether a long block goes from this one to the other. */
static bool
sends(const struct survey *s, uint32_t round, uint32_t host, uint32_t other)
{
	uint32_t count;
	const uint32_t i = subject(s, round, &count);
	const bool back = s->phase != PHASE_LOAD && round / 2 / count % WAYS;
	const bool first = s->phase == PHASE_LINKS ? is_below(s, host, s->hosts + 1 + i)
						   : host < other;

	return first != back;
}

/* Bytes that a host permits before they are there: what is on its way there and back at the rate
 * that was seen so far, twice, and some. More would wait in the sender's own port. */
static uint64_t
window(const struct survey *s, uint32_t host, uint32_t other)
{
	return AHEAD + (uint64_t)(4 * *at(s, s->ping_ns, host, other) * s->rate);
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

/* ------------------------------------------------------------------ switches */

/* The least of a host's row. */
static double
best(const struct survey *s, double *matrix, uint32_t x)
{
	double least = 0;

	for (uint32_t y = 0; y < s->hosts; y++) {
		if (y != x && (least == 0 || *at(s, matrix, x, y) < least))
			least = *at(s, matrix, x, y);
	}
	return least;
}

static int
by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the values. */
static double
median(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return count > 0 ? values[count / 2] : 0;
}

/* How much longer a pair takes than the hosts do elsewhere: 1, or more if something is between. A
 * part of all latencies is added to both sides, so that what is short is not taken for far by
 * chance. */
static int
differences(struct survey *s, double *d)
{
	double *near = calloc(2ull * s->hosts, sizeof(*near)), *fast = near + s->hosts;

	if (near == NULL)
		return -ENOMEM;
	for (uint32_t x = 0; x < s->hosts; x++)
		fast[x] = best(s, s->ping_ns, x);
	s->near_ns = median(fast, s->hosts);

	for (uint32_t x = 0; x < s->hosts; x++) {
		near[x] = best(s, s->ping_ns, x);
		fast[x] = best(s, s->long_ns, x);
	}
	for (uint32_t x = 0; x < s->hosts; x++) {
		for (uint32_t y = 0; y < s->hosts; y++) {
			const double n = near[x] > near[y] ? near[x] : near[y];
			const double f = fast[x] > fast[y] ? fast[x] : fast[y];

			*at(s, d, x, y) = x == y ? 0
						 : (*at(s, s->ping_ns, x, y) + s->near_ns / 2) /
					(n + s->near_ns / 2) *
					*at(s, s->long_ns, x, y) / f;
		}
	}
	free(near);
	return 0;
}

/* Two sets of hosts that are one from a height on. */
struct merge {
	uint32_t parts[2]; /* hosts, or hosts + number of an earlier merge */
	double height;
};

/* Average linkage by chains of nearest neighbours. d is written to. names: [hosts] to work with. */
static void
link_all(const struct survey *s, double *d, struct merge *merges, uint32_t *names, uint32_t *sizes,
	uint32_t *chain)
{
	uint32_t length = 0, done = 0;

	for (uint32_t i = 0; i < s->hosts; i++) {
		names[i] = i;
		sizes[i] = 1;
	}
	while (done + 1 < s->hosts) {
		for (uint32_t i = 0; length == 0; i++) {
			if (names[i] != NONE)
				chain[length++] = i;
		}
		const uint32_t x = chain[length - 1];
		const uint32_t before = length > 1 ? chain[length - 2] : NONE;
		uint32_t nearest = before;

		for (uint32_t y = 0; y < s->hosts; y++) {
			if (y != x && names[y] != NONE &&
				(nearest == NONE || *at(s, d, x, y) < *at(s, d, x, nearest)))
				nearest = y;
		}
		if (nearest != before) {
			chain[length++] = nearest;
			continue;
		}
		length -= 2;
		merges[done] = (struct merge){
			.parts = {names[x], names[nearest]}, .height = *at(s, d, x, nearest)};
		for (uint32_t y = 0; y < s->hosts; y++) {
			if (names[y] == NONE || y == x || y == nearest)
				continue;
			*at(s, d, x, y) = *at(s, d, y, x) =
				(*at(s, d, x, y) * sizes[x] + *at(s, d, nearest, y) * sizes[nearest]) /
				(sizes[x] + sizes[nearest]);
		}
		sizes[x] += sizes[nearest];
		names[x] = s->hosts + done++;
		names[nearest] = NONE;
	}
}

/* The parts of a merge are at the switch of the merge above, unless that one is so much higher that
 * there must be something between. So switches above have lower numbers than those below. */
static int
make_switches(struct survey *s, const struct merge *merges)
{
	const uint32_t count = s->hosts - 1;
	uint32_t *is_at = calloc(count, sizeof(*is_at));

	if (is_at == NULL)
		return -ENOMEM;
	s->count = s->hosts;
	s->vertices[s->count].parent = NONE;
	is_at[count - 1] = s->count++;
	for (uint32_t i = count; i-- > 0;) {
		for (unsigned k = 0; k < 2; k++) {
			const uint32_t part = merges[i].parts[k];

			if (part < s->hosts) {
				s->vertices[part].parent = is_at[i];
				continue;
			}
			uint32_t *below = &is_at[part - s->hosts];

			*below = is_at[i];
			if (merges[i].height > SPLIT * merges[part - s->hosts].height) {
				*below = s->count++;
				s->vertices[*below].parent = is_at[i];
			}
		}
	}
	free(is_at);
	return 0;
}

static int
find_switches(struct survey *s)
{
	double *d = calloc((size_t)s->hosts * s->hosts, sizeof(*d));
	struct merge *merges = calloc(s->hosts, sizeof(*merges));
	uint32_t *work = calloc(3ull * s->hosts, sizeof(*work));
	int e = d != NULL && merges != NULL && work != NULL ? differences(s, d) : -ENOMEM;

	if (e == 0) {
		link_all(s, d, merges, work, work + s->hosts, work + 2ull * s->hosts);
		e = make_switches(s, merges);
	}
	free(d);
	free(merges);
	free(work);
	return e;
}

/* ------------------------------------------------------------------ links */

/* What a switch's links are fitted from. */
struct star {
	uint32_t hosts, children; /* below it */
	uint32_t *below;          /* [hosts] */
	uint32_t *under;          /* [hosts]: the number of the child that it is below */
	uint32_t *names;          /* [children]: vertices */
	double *sizes, *sums;     /* [children]: hosts below it; its distances from the others */
	double *distances;        /* [children * children] */
	double *reach;            /* [all hosts]: how far one is from the child above it */
};

static void
star_free(struct star *t)
{
	free(t->below);
	free(t->sizes);
	free(t->distances);
	free(t->reach);
}

static int
star_open(const struct survey *s, struct star *t)
{
	*t = (struct star){
		.below = calloc(3ull * s->hosts, sizeof(*t->below)),
		.sizes = calloc(2ull * s->hosts, sizeof(*t->sizes)),
		.distances = calloc((size_t)s->hosts * s->hosts, sizeof(*t->distances)),
		.reach = calloc(s->hosts, sizeof(*t->reach)),
	};
	if (!t->below || !t->sizes || !t->distances || !t->reach) {
		star_free(t);
		return -ENOMEM;
	}
	t->under = t->below + s->hosts;
	t->names = t->under + s->hosts;
	t->sums = t->sizes + s->hosts;
	return 0;
}

/* Who is below a switch, and how far the children are from each other on the average. */
static void
star_look(const struct survey *s, struct star *t, uint32_t of)
{
	t->hosts = t->children = 0;
	for (uint32_t x = 0; x < s->hosts; x++) {
		const uint32_t child = child_above(s, x, of);
		uint32_t i = 0;

		if (child == NONE)
			continue;
		while (i < t->children && t->names[i] != child)
			i++;
		if (i == t->children) {
			t->sizes[i] = 0;
			t->names[t->children++] = child;
		}
		t->sizes[i]++;
		t->under[t->hosts] = i;
		t->below[t->hosts++] = x;
	}
	memset(t->distances, 0, (size_t)t->children * t->children * sizeof(*t->distances));
	for (uint32_t i = 0; i < t->hosts; i++) {
		for (uint32_t k = 0; k < t->hosts; k++) {
			const uint32_t a = t->under[i], b = t->under[k];
			const uint32_t x = t->below[i], y = t->below[k];

			if (a != b)
				t->distances[a * t->children + b] +=
					(*at(s, s->ping_ns, x, y) - t->reach[x] - t->reach[y]) /
					(t->sizes[a] * t->sizes[b]);
		}
	}
}

/* Fit the links below that switch by least squares. Returns by which part the worst of the sums is
 * off. */
static double
fit(struct survey *s, struct star *t)
{
	const uint32_t n = t->children;
	double all = 0, worst = 0;

	for (uint32_t i = 0; i < n; i++) {
		t->sums[i] = 0;
		for (uint32_t k = 0; k < n; k++)
			t->sums[i] += t->distances[i * n + k];
		all += t->sums[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		const double up = n == 2 ? t->sums[i] / 2
					 : (t->sums[i] - all / (2 * (n - 1))) / (n - 2);

		s->vertices[t->names[i]].up_ns = up < LINK_NS ? LINK_NS : up;
	}
	for (uint32_t i = 0; i < t->hosts; i++)
		t->reach[t->below[i]] += s->vertices[t->names[t->under[i]]].up_ns;
	for (uint32_t i = 0; i < n * n; i++) {
		const double sum = s->vertices[t->names[i / n]].up_ns +
			s->vertices[t->names[i % n]].up_ns;
		const double off = sum - t->distances[i];
		const double part = (off < 0 ? -off : off) / (t->distances[i] + s->near_ns);

		if (i / n != i % n && part > worst)
			worst = part;
	}
	return worst;
}

/* Bytes a ns, by how long blocks of so many bytes took, and such that are SHORTER. The difference knows
 * nothing of what comes before and after, but much of chance, and a block waits for some ways
 * at most. */
static double
rate_of(double bytes, double long_ns, double short_ns, double ping_ns)
{
	const double least = bytes / long_ns;
	const double ways = WAYS_WAITED * ping_ns;
	const double most = long_ns > 2 * ways ? bytes / (long_ns - ways) : 2 * least;
	const double rate = long_ns > short_ns
		? bytes * (SHORTER - 1) / SHORTER / (long_ns - short_ns)
		: most;

	return rate < least ? least : rate > most ? most : rate;
}

static void
rate_hosts(struct survey *s)
{
	for (uint32_t x = 0; x < s->hosts; x++) {
		uint32_t with = x == 0;

		for (uint32_t y = 0; y < s->hosts; y++) {
			if (y != x && *at(s, s->long_ns, x, y) < *at(s, s->long_ns, x, with))
				with = y;
		}
		s->vertices[x].rate = rate_of((double)s->bytes, *at(s, s->long_ns, x, with),
			*at(s, s->short_ns, x, with), *at(s, s->ping_ns, x, with));
	}
}

/* What the pairs of a switch's rounds could carry at most; far: how far they are. */
static double
possible(const struct survey *s, uint32_t i, uint32_t *pairs, double *far_ns)
{
	const uint16_t *partners = &s->partners[(size_t)i * s->hosts];
	double sum = 0;

	*pairs = 0;
	*far_ns = 0;
	for (uint32_t x = 0; x < s->hosts; x++) {
		const uint16_t y = partners[x];

		if (y == COLL_NONE || y < x)
			continue;
		const double a = s->vertices[x].rate, b = s->vertices[y].rate;

		sum += a < b ? a : b;
		++*pairs;
		if (*at(s, s->ping_ns, x, y) > *far_ns)
			*far_ns = *at(s, s->ping_ns, x, y);
	}
	return sum;
}

/* The hosts below a switch, or all others. Those whose lines are much slower than their neighbours'
 * would only be waited for. Returns how many. */
static uint32_t
fast_ones(const struct survey *s, uint32_t v, bool below, uint16_t *hosts)
{
	double fastest = 0;
	uint32_t n = 0;

	for (uint32_t x = 0; x < s->hosts; x++) {
		if (is_below(s, x, v) == below && s->vertices[x].rate > fastest)
			fastest = s->vertices[x].rate;
	}
	for (uint32_t x = 0; x < s->hosts; x++) {
		if (is_below(s, x, v) == below && s->vertices[x].rate > fastest / 2)
			hosts[n++] = (uint16_t)x;
	}
	return n;
}

/* For each switch but the highest: who below it meets whom outside. */
static int
pair_across(struct survey *s)
{
	const uint32_t count = switches_below_the_highest(s);
	uint16_t *sides = calloc(2ull * s->hosts, sizeof(*sides));

	s->partners = malloc(((size_t)count * s->hosts + 1) * sizeof(*s->partners));
	s->link_bytes = calloc(count + 1, sizeof(*s->link_bytes));
	if (s->partners == NULL || s->link_bytes == NULL || sides == NULL) {
		free(sides);
		return -ENOMEM;
	}
	memset(s->partners, 0xFF, (size_t)count * s->hosts * sizeof(*s->partners));
	for (uint32_t i = 0; i < count; i++) {
		uint16_t *partners = &s->partners[(size_t)i * s->hosts];
		uint16_t *below = sides, *others = sides + s->hosts;
		const uint32_t n = fast_ones(s, s->hosts + 1 + i, true, below);
		uint32_t m = fast_ones(s, s->hosts + 1 + i, false, others);
		const uint32_t pairs = n < m ? n : m;

		for (uint32_t k = 0; k < pairs; k++) {
			const uint16_t x = below[k * n / pairs], y = others[k * m / pairs];

			partners[x] = y;
			partners[y] = x;
		}
		double far;

		possible(s, i, &m, &far);
		const double bytes = (double)s->bytes + WAYS_FILLED * far * s->rate;

		s->link_bytes[i] = bytes < BYTES_MOST ? (uint64_t)bytes : BYTES_MOST;
	}
	free(sides);
	return 0;
}

/* Fit all links, from below. which: a switch, whose fit's error goes to *worst. */
static void
fit_all(struct survey *s, struct star *t, uint32_t which, double *worst)
{
	memset(t->reach, 0, s->hosts * sizeof(*t->reach));
	for (uint32_t v = s->count; v-- > s->hosts;) {
		if (s->vertices[v].is_none)
			continue;
		star_look(s, t, v);
		const double off = fit(s, t);

		if (v == which)
			*worst = off;
	}
}

/* What everything else at the switch above can take. */
static double
beside(const struct survey *s, uint32_t v)
{
	const uint32_t above = s->vertices[v].parent;
	double sum = s->vertices[above].parent != NONE ? s->vertices[above].rate : 0;

	for (uint32_t c = 0; c < s->count; c++) {
		if (c != v && s->vertices[c].parent == above)
			sum += s->vertices[c].rate;
	}
	return sum;
}

/* Whether a switch's link upwards carries less than what is below it, or above it, could. */
static bool
holds_up(const struct survey *s, uint32_t v)
{
	const double outside = beside(s, v);
	uint32_t pairs;
	double far, most = possible(s, v - s->hosts - 1, &pairs, &far), inside = 0;

	for (uint32_t c = 0; c < s->count; c++)
		inside += s->vertices[c].parent == v ? s->vertices[c].rate : 0;
	most = outside < most ? outside : most;
	most = inside < most ? inside : most;
	return s->vertices[v].rate < ENOUGH * most;
}

static bool
has_switch_below(const struct survey *s, uint32_t v)
{
	for (uint32_t c = s->hosts; c < s->count; c++) {
		if (s->vertices[c].parent == v)
			return true;
	}
	return false;
}

/* A switch is none: what is below it is below the one above. moved: [vertices]: what was. */
static void
dissolve(struct survey *s, uint32_t v, bool *moved)
{
	for (uint32_t c = 0; c < s->count; c++) {
		moved[c] = s->vertices[c].parent == v;
		if (!moved[c])
			continue;
		s->vertices[c].parent = s->vertices[v].parent;
		s->vertices[c].up_ns += s->vertices[v].up_ns;
	}
	s->vertices[v].is_none = true;
	s->vertices[v].parent = NONE;
}

/* Switches that join others are only guessed by average linkage, which takes a star of unlike links
 * for several switches one above the other. What holds nobody up is left out where one star has
 * nearly the same latencies. */
static void
leave_out_joints(struct survey *s, struct star *t, bool *moved)
{
	for (uint32_t v = s->count; v-- > s->hosts + 1;) {
		const uint32_t above = s->vertices[v].parent;
		double worst = 0;

		if (!has_switch_below(s, v) || holds_up(s, v))
			continue;
		dissolve(s, v, moved);
		fit_all(s, t, above, &worst);
		if (worst < ALIKE_LATENCY)
			continue;
		s->vertices[v].is_none = false;
		s->vertices[v].parent = above;
		for (uint32_t c = 0; c < s->count; c++) {
			if (moved[c])
				s->vertices[c].parent = v;
		}
	}
	fit_all(s, t, NONE, NULL);
}

/* What is no farther than its hosts, and holds nobody up, is no switch of its own. */
static void
leave_out_near_ones(struct survey *s, bool *moved)
{
	for (uint32_t v = s->count; v-- > s->hosts + 1;) {
		const struct vertex *x = &s->vertices[v];

		if (!x->is_none && x->up_ns < NEAR * s->near_ns && !holds_up(s, v))
			dissolve(s, v, moved);
	}
}

/* ns: what each switch's rounds took, the shorter length first. */
static int
rate_switches(struct survey *s, const double *ns)
{
	bool *moved = calloc(s->count, sizeof(*moved));
	struct star t;

	if (moved == NULL || star_open(s, &t) != 0) {
		free(moved);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < switches_below_the_highest(s); i++) {
		uint32_t pairs;
		double far;

		possible(s, i, &pairs, &far);
		s->vertices[s->hosts + 1 + i].rate =
			rate_of((double)s->link_bytes[i] * pairs, ns[2 * i + 1],
				ns[2 * i], far);
	}
	leave_out_joints(s, &t, moved);
	leave_out_near_ones(s, moved);
	star_free(&t);
	free(moved);
	return 0;
}

/* ------------------------------------------------------------------ times */

/* How long a pair took in a round: the longer side. 0: the host has met nobody. */
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

/* Keeps each pair's least. */
static void
keep_least(const struct survey *s, const uint64_t *ns, uint32_t round, double *matrix, double part)
{
	for (uint32_t x = 0; x < s->hosts; x++) {
		uint32_t y;
		const double t = of_pair(s, ns, round, x, &y) * part;

		if (y == NONE)
			continue;
		double *best_so_far = at(s, matrix, x, y);

		if (*best_so_far == 0 || t < *best_so_far)
			*best_so_far = t > 1 ? t : 1;
	}
}

/* Whether blocks are as long as they shall be now. A tenth of the pairs have nothing in their way, or
 * all have; those that are so far that they mostly wait tell nothing. */
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
		const double ways = WAYS_WAITED * *at(s, s->ping_ns, i / rounds, other);

		if (t > 2 * ways)
			times[count++] = t - ways;
	}
	if (times != NULL)
		qsort(times, count, sizeof(*times), by_value);
	const double took = times != NULL && count > 0 ? times[count / 10] : 0;

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

/* What the rounds of switches took, of each length: the slowest host's part, the least of all
 * repeats, and the slower way. */
static int
links_took(struct survey *s, const uint64_t *ns)
{
	const uint32_t rounds = survey_rounds(s), there = 2 * switches_below_the_highest(s);
	const uint32_t each = WAYS * there;
	double *least = calloc(each + 1, sizeof(*least));

	if (least == NULL)
		return -ENOMEM;
	for (uint32_t round = 0; round < rounds; round++) {
		double most = 0;

		for (uint32_t x = 0; x < s->hosts; x++) {
			const double t = (double)ns[(size_t)s->speakers[x] * rounds + round];

			if (partner(s, round, x) != NONE && t > most)
				most = t;
		}
		if (least[round % each] == 0 || most < least[round % each])
			least[round % each] = most;
	}
	for (uint32_t i = 0; i < there; i++) {
		if (least[there + i] > least[i])
			least[i] = least[there + i];
	}
	const int e = rate_switches(s, least);

	free(least);
	return e;
}

/* What differs by less than that from the median of a switch's hosts is the same. */
static int
even_out(struct survey *s)
{
	double *rates = calloc(2ull * s->hosts, sizeof(*rates)), *ups = rates + s->hosts;

	if (rates == NULL)
		return -ENOMEM;
	for (uint32_t v = s->hosts; v < s->count; v++) {
		uint32_t n = 0;

		for (uint32_t x = 0; x < s->hosts; x++) {
			if (s->vertices[x].parent == v) {
				rates[n] = s->vertices[x].rate;
				ups[n++] = s->vertices[x].up_ns;
			}
		}
		const double rate = median(rates, n), up = median(ups, n);

		for (uint32_t x = 0; x < s->hosts; x++) {
			struct vertex *h = &s->vertices[x];

			if (h->parent != v)
				continue;
			if (h->rate > rate * (1 - ALIKE_RATE) && h->rate < rate * (1 + ALIKE_RATE))
				h->rate = rate;
			if (h->up_ns > up * (1 - ALIKE_LATENCY) &&
				h->up_ns < up * (1 + ALIKE_LATENCY))
				h->up_ns = up;
		}
	}
	free(rates);
	return 0;
}

int
survey_measured(struct survey *s, const uint64_t *ns)
{
	const uint32_t rounds = survey_rounds(s);
	const enum phase was = s->phase;
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
		for (uint32_t r = 0; r < rounds; r++)
			keep_least(s, ns, r, r % 2 ? s->long_ns : s->short_ns, 1);
		e = find_switches(s);
		if (e != 0)
			break;
		rate_hosts(s);
		e = pair_across(s);
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
		if (e == 0)
			e = even_out(s);
		s->phase = PHASE_DONE;
	}
	return e;
}

/* ------------------------------------------------------------------ the text */

/* A number with three digits. */
static void
write_number(FILE *f, double value, const char *unit)
{
	fprintf(f, "%.*f%s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, unit);
}

static void
write_link(const struct survey *s, FILE *f, double rate, double up_ns)
{
	const struct coll_task task = {.params = s->params};
	const uint32_t piece = coll_piece(&task, s->bytes);
	const double bits = rate * 8e9 * (double)coll_block_wire(&s->params, piece, s->bytes) /
		(double)s->bytes;

	fprintf(f, " bandwidth=");
	if (bits >= 1e9)
		write_number(f, bits / 1e9, "G");
	else
		write_number(f, bits / 1e6 > 0.01 ? bits / 1e6 : 0.01, "M");
	fprintf(f, " latency=");
	if (up_ns >= 1e6)
		write_number(f, up_ns / 1e6, "ms\n");
	else if (up_ns >= 1e3)
		write_number(f, up_ns / 1e3, "us\n");
	else
		fprintf(f, "%.0fns\n", up_ns);
}

/* n3, or n[3-5]. */
static void
write_hosts(FILE *f, const char *word, uint32_t first, uint32_t last)
{
	if (first == last)
		fprintf(f, "%s n%u", word, first);
	else
		fprintf(f, "%s n[%u-%u]", word, first, last);
}

/* The highest switch, if it joins two others and nothing else: then these have one link. NONE. */
static uint32_t
mere_joint(const struct survey *s)
{
	uint32_t children = 0, highest = s->hosts;

	for (uint32_t c = 0; c < s->count; c++) {
		if (s->vertices[c].parent == highest) {
			if (c < s->hosts)
				return NONE;
			children++;
		}
	}
	return children == 2 ? highest : NONE;
}

/* How a node's host is linked: as it was measured, or, if it has no rank, to the highest switch like
 * the first host. */
static struct vertex
link_of(const struct survey *s, uint32_t node, uint32_t *host, uint32_t highest)
{
	while (*host < s->hosts && s->nodes[*host] < node)
		++*host;
	if (*host < s->hosts && s->nodes[*host] == node)
		return s->vertices[*host];
	return (struct vertex){
		.parent = highest, .up_ns = s->vertices[0].up_ns, .rate = s->vertices[0].rate};
}

static void
write_host_links(const struct survey *s, FILE *f, uint32_t joint)
{
	uint32_t first = 0, host = 0, highest = s->hosts;

	while (joint != NONE && s->vertices[highest].parent != joint)
		highest++;
	struct vertex v = link_of(s, 0, &host, highest);

	for (uint32_t node = 1; node <= s->nodes[s->hosts - 1] + 1u; node++) {
		struct vertex next = {0};

		if (node <= s->nodes[s->hosts - 1]) {
			next = link_of(s, node, &host, highest);
			if (next.parent == v.parent && next.rate == v.rate && next.up_ns == v.up_ns)
				continue;
		}
		write_hosts(f, "link", first, node - 1);
		fprintf(f, " s%u", v.parent - s->hosts);
		write_link(s, f, v.rate, v.up_ns);
		v = next;
		first = node;
	}
}

static void
write_switch_links(const struct survey *s, FILE *f, uint32_t joint)
{
	const struct vertex *other = NULL;

	for (uint32_t v = s->hosts; v < s->count; v++) {
		const struct vertex *x = &s->vertices[v];

		if (x->is_none || x->parent == NONE)
			continue;
		if (x->parent != joint) {
			fprintf(f, "link s%u s%u", v - s->hosts, x->parent - s->hosts);
			write_link(s, f, x->rate, x->up_ns);
		} else if (other == NULL) {
			other = x;
		} else {
			fprintf(f, "link s%u s%u", v - s->hosts,
				(uint32_t)(other - s->vertices) - s->hosts);
			write_link(s, f, x->rate < other->rate ? x->rate : other->rate,
				x->up_ns + other->up_ns);
		}
	}
}

int
survey_text(const struct survey *s, char **out)
{
	const uint32_t joint = mere_joint(s);
	size_t len;
	FILE *f = open_memstream(out, &len);

	if (f == NULL)
		return -ENOMEM;
	fprintf(f, "# measured between %u nodes, in blocks of %lu bytes\n", s->hosts, s->bytes);
	for (uint32_t v = s->hosts; v < s->count; v++) {
		if (!s->vertices[v].is_none && v != joint)
			fprintf(f, "switch s%u buffer=" BUFFER "\n", v - s->hosts);
	}
	write_hosts(f, "host", 0, s->nodes[s->hosts - 1]);
	fputc('\n', f);
	write_host_links(s, f, joint);
	write_switch_links(s, f, joint);
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

/* ------------------------------------------------------------------ beginning and end */

/* One host: a switch and nothing to measure. */
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

/* Which ranks measure: the lowest of each node. */
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
		const uint16_t node = nodes != NULL ? nodes[r] : (uint16_t)r;
		const uint16_t *found =
			bsearch(&node, s->nodes, s->hosts, sizeof(*s->nodes), by_node);
		uint16_t *speaker = &s->speakers[found - s->nodes];

		s->host_of[r] = *speaker == COLL_NONE ? (uint32_t)(found - s->nodes) : NONE;
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
	free(s);
}
