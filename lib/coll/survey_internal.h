/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A survey's private parts: the rounds (survey.c), what their times tell (survey_tree.c), the text
 * (survey_text.c), and measuring again what is known (survey_again.c).
 */
#ifndef PMX_COLL_SURVEY_INTERNAL_H
#define PMX_COLL_SURVEY_INTERNAL_H

#include "coll/survey.h"

#define BYTES_LEAST (16u << 10) /* of a long block */
#define BYTES_MOST  (4u << 20)
#define SHORTER     4 /* blocks of two lengths tell a rate: one is so many times the other */
/* at most, for each other, in a round: somebody has begun, a permit, a block */
#define WAYS_WAITED 4
#define ALIKE_RATE  0.10 /* what differs by less is the same */
#define NEIGHBOURS  2    /* with whom a host's line is measured again */
#define NONE        UINT32_MAX

enum survey_phase {
	PHASE_PINGS,
	PHASE_LOAD, /* how long the long blocks are to be */
	PHASE_LONG,
	PHASE_LINES, /* of hosts; again */
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
	enum survey_phase phase;
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
	uint32_t *ups; /* [vertices]: the topology's edges upwards, or NONE; NULL: nothing is
			* known */
	/* PHASE_LINES: [NEIGHBOURS][hosts]; PHASE_LINKS: [switches but the highest][hosts];
	 * COLL_NONE: idle */
	uint16_t *partners;
	uint64_t *link_bytes; /* [switches but the highest]: of a long block: more where the way is
			       * far */
};

static inline double *
survey_at(const struct survey *s, double *matrix, uint32_t x, uint32_t y)
{
	return &matrix[(size_t)x * s->hosts + y];
}

/* Return the child of `of` that is the vertex, or is above it; NONE: the vertex is not below
 * `of`. */
static inline uint32_t
survey_child_above(const struct survey *s, uint32_t vertex, uint32_t of)
{
	while (vertex != NONE && s->vertices[vertex].parent != of)
		vertex = s->vertices[vertex].parent;
	return vertex;
}

static inline bool
survey_is_below(const struct survey *s, uint32_t vertex, uint32_t of)
{
	return survey_child_above(s, vertex, of) != NONE;
}

static inline uint32_t
survey_switches_below_the_highest(const struct survey *s)
{
	return s->count > s->hosts ? s->count - s->hosts - 1 : 0;
}

/* ---------------------------------------------------------------- survey.c */

/* Return the host that a node is; NONE: it has no rank. */
uint32_t survey_host_of(const struct survey *s, uint16_t node);

/* ---------------------------------------------------------------- survey_tree.c */

/* Sort the values, and return the one below which one part of so many of them is; 0: there are
 * none. */
double survey_quantile(double *values, uint32_t count, uint32_t part);
/* Find the switches from the pairs' times. Return 0 or -ENOMEM. survey_rate_hosts() finds the
 * hosts' rates, and survey_simplify() their links' latencies. */
int survey_find_switches(struct survey *s);
void survey_rate_hosts(struct survey *s);
/* Choose for each switch but the highest who below it meets whom outside. Return 0 or -ENOMEM. */
int survey_pair_across(struct survey *s);
/* Return the rate, bytes a ns, by how long blocks of so many bytes took, and such that are SHORTER,
 * and how far it is. The difference of the times knows nothing of what comes before and after, but
 * much of chance, so it is bounded: a block waits for some ways at most. */
double survey_rate_of(double bytes, double long_ns, double short_ns, double ping_ns);
/* Return whether a switch's link upwards carries less than what is below it, or above it, could. */
bool survey_holds_up(const struct survey *s, uint32_t v);
/* Leave out what is no switch, fit the links' latencies, and make alike what nearly is. Return 0 or
 * -ENOMEM. */
int survey_simplify(struct survey *s);

#endif
