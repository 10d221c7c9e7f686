/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A core that another program wants all the time, as a computation does. A yield gives such a
 * program its whole time slice, 2 to 4 ms on Linux, while who sleeps has the core again as soon as
 * something came or the time is over. So who polls on such a core sleeps shortly instead of
 * yielding, for a while; the while doubles as long as yields that look whether it is over take long
 * too. Used by lanes and by the library, each thread for itself, with a clock of any unit.
 *
 * Single yields take long on any machine. A core counts as contended when long yields have taken
 * half of the time for some ms: the level of what they took, which drains by half of all time.
 */
#ifndef PMX_BASE_CONTENDED_H
#define PMX_BASE_CONTENDED_H

#include <stdbool.h>
#include <stdint.h>

/* A yield that took longer may have given the core to such a program: two processes that poll in
 * turns have it back sooner. */
#define CONTENDED_YIELD_US    1000
#define CONTENDED_LEVEL_US    4000
/* So long the core counts as contended, at first and at most. */
#define CONTENDED_LEAST_US    20000
#define CONTENDED_MOST_US     400000
/* A sleep in place of a yield. Linux adds its timer slack, 50 us by default. The library's double
 * up to a bound while nothing comes: a hundred processes that look every 100 us fill a CPU. */
#define CONTENDED_NAP_US      50
#define CONTENDED_NAP_MOST_US 1000

/* {0} at first. */
struct contended {
	uint64_t until, lasts;
	uint64_t level, level_at;
};

static inline bool
is_contended(const struct contended *c, uint64_t now)
{
	return now < c->until;
}

/* Learn from a yield that took from `begin` to `end`. */
static inline void
contended_learn(struct contended *c, uint64_t begin, uint64_t end, uint64_t ticks_per_us)
{
	const uint64_t least = CONTENDED_LEAST_US * ticks_per_us;
	const uint64_t most = CONTENDED_MOST_US * ticks_per_us;
	const uint64_t drained = (end - c->level_at) / 2;

	c->level = c->level > drained ? c->level - drained : 0;
	c->level_at = end;
	if (end - begin <= CONTENDED_YIELD_US * ticks_per_us) {
		c->lasts /= 2; /* by chance, it may be */
		return;
	}
	c->level += end - begin;
	if (c->level < CONTENDED_LEVEL_US * ticks_per_us && c->lasts == 0)
		return;
	c->level = 0;
	c->lasts = c->lasts * 2 < least ? least : c->lasts * 2;
	c->lasts = c->lasts < most ? c->lasts : most;
	c->until = end + c->lasts;
}

#endif
