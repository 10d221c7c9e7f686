/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the times of a survey's rounds tell: notes 3 to 5 of survey.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/survey_internal.h"

#define WAYS_FILLED   8    /* by a long block of a switch's round, at the rate of a host */
#define SPLIT         1.3  /* pairs across take so much longer than those on either side */
#define SLOW          2    /* times what half of the hosts take for a block */
#define ENOUGH        0.85 /* of what the hosts' lines carry: the link above holds nobody up */
#define NEAR          0.15 /* of its hosts' links: so short a link above may be none */
#define ALIKE_LATENCY 0.25 /* as ALIKE_RATE */
#define LINK_NS       2    /* at least, of a link */

/* ------------------------------------------------------------------ switches */

static int
by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double
survey_quantile(double *values, uint32_t count, uint32_t part)
{
	qsort(values, count, sizeof(*values), by_value);
	return count > 0 ? values[count / part] : 0;
}

/* Return the least value of a host's row, but for the one with itself. */
static double
best(const struct survey *s, double *matrix, uint32_t x)
{
	double least = 0;

	for (uint32_t y = 0; y < s->hosts; y++) {
		if (y != x && (least == 0 || *survey_at(s, matrix, x, y) < least))
			least = *survey_at(s, matrix, x, y);
	}
	return least;
}

/* Write how much longer each pair takes than its hosts do elsewhere: 1, or more if something is
 * between. A part of all latencies is added to both sides, so that what is short is not taken for
 * far by chance. Return 0 or -ENOMEM. */
static int
differences(struct survey *s, double *d)
{
	double *near = calloc(2ull * s->hosts, sizeof(*near)), *fast = near + s->hosts;

	if (near == NULL)
		return -ENOMEM;
	for (uint32_t x = 0; x < s->hosts; x++)
		fast[x] = best(s, s->ping_ns, x);
	s->near_ns = survey_quantile(fast, s->hosts, 2);

	for (uint32_t x = 0; x < s->hosts; x++) {
		near[x] = best(s, s->ping_ns, x);
		fast[x] = best(s, s->long_ns, x);
	}
	for (uint32_t x = 0; x < s->hosts; x++) {
		for (uint32_t y = 0; y < s->hosts; y++) {
			const double n = near[x] > near[y] ? near[x] : near[y];
			const double f = fast[x] > fast[y] ? fast[x] : fast[y];

			*survey_at(s, d, x, y) = x == y
				? 0
				: (*survey_at(s, s->ping_ns, x, y) + s->near_ns / 2) /
					(n + s->near_ns / 2) * *survey_at(s, s->long_ns, x, y) / f;
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

/* Average linkage by chains of nearest neighbours, of `count` hosts. d is written to; names: NONE
 * for a host that is left out; sizes, chain: [hosts] to work with. */
static void
link_all(const struct survey *s, double *d, uint32_t count, struct merge *merges, uint32_t *names,
	uint32_t *sizes, uint32_t *chain)
{
	uint32_t length = 0, done = 0;

	for (uint32_t i = 0; i < s->hosts; i++)
		sizes[i] = 1;
	while (done + 1 < count) {
		for (uint32_t i = 0; length == 0; i++) {
			if (names[i] != NONE)
				chain[length++] = i;
		}
		const uint32_t x = chain[length - 1];
		const uint32_t before = length > 1 ? chain[length - 2] : NONE;
		uint32_t nearest = before;

		for (uint32_t y = 0; y < s->hosts; y++) {
			if (y != x && names[y] != NONE &&
				(nearest == NONE ||
					*survey_at(s, d, x, y) < *survey_at(s, d, x, nearest)))
				nearest = y;
		}
		if (nearest != before) {
			chain[length++] = nearest;
			continue;
		}
		length -= 2;
		merges[done] = (struct merge){
			.parts = {names[x], names[nearest]},
			.height = *survey_at(s, d, x, nearest),
		};
		for (uint32_t y = 0; y < s->hosts; y++) {
			if (names[y] == NONE || y == x || y == nearest)
				continue;
			*survey_at(s, d, x, y) = *survey_at(s, d, y,
				x) = (*survey_at(s, d, x, y) * sizes[x] +
					     *survey_at(s, d, nearest, y) * sizes[nearest]) /
				(sizes[x] + sizes[nearest]);
		}
		sizes[x] += sizes[nearest];
		names[x] = s->hosts + done++;
		names[nearest] = NONE;
	}
}

/* Make switches of the merges. The parts of a merge are at the switch of the merge above, unless
 * that one is so much higher that there must be something between. So switches above have lower
 * numbers than those below. Return 0 or -ENOMEM. */
static int
make_switches(struct survey *s, const struct merge *merges, uint32_t count)
{
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

/* Leave out each host whose line is much slower than the others', as it seems near to all of them.
 * names: NONE for these, the host's number for others, of which there are *count, two at least.
 * Return 0 or -ENOMEM. */
static int
leave_out_slow_ones(struct survey *s, uint32_t *names, uint32_t *count)
{
	double *all = calloc(s->hosts, sizeof(*all));

	if (all == NULL)
		return -ENOMEM;
	for (uint32_t x = 0; x < s->hosts; x++)
		all[x] = best(s, s->long_ns, x);
	const double usual = survey_quantile(all, s->hosts, 2);

	*count = 0;
	for (uint32_t x = 0; x < s->hosts; x++) {
		names[x] = best(s, s->long_ns, x) > SLOW * usual ? NONE : x;
		*count += names[x] != NONE;
	}
	free(all);
	return 0;
}

/* Return the switch of the hosts that are nearest to this one, on the average. is_out: whom to
 * leave out. */
static uint32_t
nearest_switch(const struct survey *s, uint32_t host, const bool *is_out)
{
	double least = 0;
	uint32_t nearest = NONE;

	for (uint32_t v = s->hosts; v < s->count; v++) {
		double sum = 0;
		uint32_t count = 0;

		for (uint32_t y = 0; y < s->hosts; y++) {
			if (is_out[y] || s->vertices[y].parent != v)
				continue;
			sum += *survey_at(s, s->ping_ns, host, y);
			count++;
		}
		if (count > 0 && (nearest == NONE || sum / count < least)) {
			nearest = v;
			least = sum / count;
		}
	}
	return nearest;
}

int
survey_find_switches(struct survey *s)
{
	double *d = calloc((size_t)s->hosts * s->hosts, sizeof(*d));
	struct merge *merges = calloc(s->hosts, sizeof(*merges));
	uint32_t *names = calloc(3ull * s->hosts, sizeof(*names)), count = 0;
	bool *is_out = calloc(s->hosts, sizeof(*is_out));
	int e = d && merges && names && is_out ? differences(s, d) : -ENOMEM;

	if (e == 0)
		e = leave_out_slow_ones(s, names, &count);
	for (uint32_t x = 0; e == 0 && x < s->hosts; x++)
		is_out[x] = names[x] == NONE;
	if (e == 0) {
		link_all(s, d, count, merges, names, names + s->hosts, names + 2ull * s->hosts);
		e = make_switches(s, merges, count - 1);
	}
	for (uint32_t x = 0; e == 0 && x < s->hosts; x++) {
		if (is_out[x])
			s->vertices[x].parent = nearest_switch(s, x, is_out);
	}
	free(d);
	free(merges);
	free(names);
	free(is_out);
	return e;
}

/* ------------------------------------------------------------------ links */

/* The numbers that a switch's links are fitted from. */
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

/* Note who is below a switch, and how far the children are from each other on the average. */
static void
star_look(const struct survey *s, struct star *t, uint32_t of)
{
	t->hosts = t->children = 0;
	for (uint32_t x = 0; x < s->hosts; x++) {
		const uint32_t child = survey_child_above(s, x, of);
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
					(*survey_at(s, s->ping_ns, x, y) - t->reach[x] -
						t->reach[y]) /
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

double
survey_rate_of(double bytes, double long_ns, double short_ns, double ping_ns)
{
	const double least = bytes / long_ns;
	const double ways = WAYS_WAITED * ping_ns;
	const double most = long_ns > 2 * ways ? bytes / (long_ns - ways) : 2 * least;
	const double rate = long_ns > short_ns
		? bytes * (SHORTER - 1) / SHORTER / (long_ns - short_ns)
		: most;

	return rate < least ? least : rate > most ? most : rate;
}

void
survey_rate_hosts(struct survey *s)
{
	for (uint32_t x = 0; x < s->hosts; x++) {
		uint32_t with = x;

		for (uint32_t y = 0; y < s->hosts; y++) {
			const double took = *survey_at(s, s->long_ns, x, y);

			if (took > 0 && (with == x || took < *survey_at(s, s->long_ns, x, with)))
				with = y;
		}
		if (with != x)
			s->vertices[x].rate = survey_rate_of((double)s->bytes,
				*survey_at(s, s->long_ns, x, with),
				*survey_at(s, s->short_ns, x, with),
				*survey_at(s, s->ping_ns, x, with));
	}
}

/* Return what the pairs of a switch's rounds could carry at most, bytes a ns. */
static double
possible(const struct survey *s, uint32_t i)
{
	const uint16_t *partners = &s->partners[(size_t)i * s->hosts];
	double sum = 0;

	for (uint32_t x = 0; x < s->hosts; x++) {
		const uint16_t y = partners[x];

		if (y == COLL_NONE || y < x)
			continue;
		const double a = s->vertices[x].rate, b = s->vertices[y].rate;

		sum += a < b ? a : b;
	}
	return sum;
}

/* List the hosts below a switch, or all others, without those whose lines are much slower than
 * their neighbours': these would only be waited for. Return how many. */
static uint32_t
fast_ones(const struct survey *s, uint32_t v, bool below, uint16_t *hosts)
{
	double fastest = 0;
	uint32_t n = 0;

	for (uint32_t x = 0; x < s->hosts; x++) {
		if (survey_is_below(s, x, v) == below && s->vertices[x].rate > fastest)
			fastest = s->vertices[x].rate;
	}
	for (uint32_t x = 0; x < s->hosts; x++) {
		if (survey_is_below(s, x, v) == below && s->vertices[x].rate > fastest / 2)
			hosts[n++] = (uint16_t)x;
	}
	return n;
}

/* Choose for each switch but the highest who below it meets whom outside. */
int
survey_pair_across(struct survey *s)
{
	const uint32_t count = survey_switches_below_the_highest(s);
	uint16_t *sides = calloc(2ull * s->hosts, sizeof(*sides));

	free(s->partners);
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
		const uint32_t m = fast_ones(s, s->hosts + 1 + i, false, others);
		const uint32_t pairs = n < m ? n : m;
		double far = 0;

		for (uint32_t k = 0; k < pairs; k++) {
			const uint16_t x = below[k * n / pairs], y = others[k * m / pairs];

			partners[x] = y;
			partners[y] = x;
			if (*survey_at(s, s->ping_ns, x, y) > far)
				far = *survey_at(s, s->ping_ns, x, y);
		}
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

/* Return what everything else at the switch above can take, bytes a ns. */
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

/* Return whether a switch's link upwards carries less than what is below it, or above it, could. */
bool
survey_holds_up(const struct survey *s, uint32_t v)
{
	const double outside = beside(s, v);
	double most = possible(s, v - s->hosts - 1), inside = 0;

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

/* Remove a switch: what is below it is then below the one above. moved: [vertices]: whether each
 * was below it. */
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

/* Leave out switches that join others and hold nobody up, where one star has nearly the same
 * latencies. These are only guessed by average linkage, which takes a star of unlike links for
 * several switches one above the other. */
static void
leave_out_joints(struct survey *s, struct star *t, bool *moved)
{
	for (uint32_t v = s->count; v-- > s->hosts + 1;) {
		const uint32_t above = s->vertices[v].parent;
		double worst = 0;

		if (!has_switch_below(s, v) || survey_holds_up(s, v))
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

/* Leave out what is no farther than its hosts, and holds nobody up: it is no switch of its own. */
static void
leave_out_near_ones(struct survey *s, bool *moved)
{
	for (uint32_t v = s->count; v-- > s->hosts + 1;) {
		const struct vertex *x = &s->vertices[v];

		if (!x->is_none && x->up_ns < NEAR * s->near_ns && !survey_holds_up(s, v))
			dissolve(s, v, moved);
	}
}

/* Make alike a switch's hosts: rates that differ from the median by less than ALIKE_RATE become the
 * median, and so do latencies by less than ALIKE_LATENCY. Return 0 or -ENOMEM. */
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
		const double rate = survey_quantile(rates, n, 2), up = survey_quantile(ups, n, 2);

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
survey_simplify(struct survey *s)
{
	bool *moved = calloc(s->count, sizeof(*moved));
	struct star t;
	int e = moved != NULL ? star_open(s, &t) : -ENOMEM;

	if (e == 0) {
		leave_out_joints(s, &t, moved);
		leave_out_near_ones(s, moved);
		star_free(&t);
		e = even_out(s);
	}
	free(moved);
	return e;
}
