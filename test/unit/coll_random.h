/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of collectives have in common: random numbers that are the same in every run,
 * random networks, and plans as they are for networks that nobody has described.
 */
#ifndef PMX_TEST_COLL_RANDOM_H
#define PMX_TEST_COLL_RANDOM_H

#include <stdio.h>

#include "coll/plan.h"
#include "topology_text.h"

static uint64_t state_of_random = 1;

static inline uint32_t
random_below(uint32_t n)
{
	state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state_of_random >> 33) % n;
}

/* A random tree of at most so many switches, with so many hosts. */
static inline struct topology *
random_tree(uint32_t hosts, uint32_t switches_max)
{
	static char text[65536];
	static const char *const rates[] = {"100M", "1G", "1G", "10G"};
	static const char *const times[] = {"1us", "5us", "50us", "1ms"};
	const uint32_t switches = 1 + random_below(switches_max);
	int at = 0;

	for (uint32_t i = 0; i < switches; i++)
		at += sprintf(text + at, "switch s%u buffer=64K\n", i);
	for (uint32_t i = 1; i < switches; i++)
		at += sprintf(text + at, "link s%u s%u bandwidth=%s latency=%s\n", i,
			random_below(i), rates[random_below(4)], times[random_below(4)]);
	for (uint32_t i = 0; i < hosts; i++)
		at += sprintf(text + at, "host h%u\nlink h%u s%u bandwidth=%s latency=%s\n", i, i,
			random_below(switches), rates[random_below(4)], times[random_below(2)]);
	return parsed(text);
}

/* A random tree, of whose hosts only some may talk to each other. */
static inline struct topology *
random_overlay(uint32_t hosts)
{
	static char text[65536];
	const uint32_t switches = 1 + random_below(4), sites = 1 + random_below(4);
	int at = 0;

	for (uint32_t i = 0; i < switches; i++)
		at += sprintf(text + at, "switch s%u buffer=64K\n", i);
	for (uint32_t i = 1; i < switches; i++)
		at += sprintf(text + at, "link s%u s%u bandwidth=1G latency=50us\n", i,
			random_below(i));
	for (uint32_t i = 0; i < hosts; i++)
		at += sprintf(text + at, "host h%u\nlink h%u s%u bandwidth=1G latency=5us\n", i, i,
			random_below(switches));
	/* hosts of a site, which need not be at one switch, or only one of them with all others */
	for (uint32_t s = 0; s < sites; s++) {
		const bool star = random_below(2);

		for (uint32_t i = s; i < hosts; i += sites)
			at += !star      ? sprintf(text + at, i == s ? "talk h%u" : " h%u", i)
				: i == s ? 0
					 : sprintf(text + at, "talk h%u h%u\n", s, i);
		at += sprintf(text + at, "\n");
	}
	/* gateways: mostly enough of them */
	for (uint32_t s = 1; s < sites && s < hosts; s++) {
		if (random_below(16) != 0)
			at += sprintf(text + at, "talk h%u h%u\n", s, random_below(s));
	}
	for (uint32_t i = random_below(3); i > 0; i--)
		at += sprintf(text + at, "talk h%u h%u\n", random_below(hosts),
			random_below(hosts));
	return parsed(text);
}

/* Return where a block begins in a buffer of all blocks. */
static inline uint64_t
block_at(const struct coll_blocks *b, uint32_t block)
{
	return block == 0 ? 0 : b->ends ? b->ends[block - 1] : b->each * block;
}

/* Takes the timetable away, as lists have none for a network that nobody has described. */
static inline void
without_times(struct coll_plan *p, uint64_t window, uint32_t grain)
{
	for (uint64_t i = 0; i < p->step_count; i++)
		p->steps[i].at_us = p->steps[i].lead_ns = p->steps[i].pace = 0;
	for (uint32_t r = 0; r < p->ranks; r++) {
		p->lists[r].send_pace = 0;
		p->lists[r].window = window;
		p->lists[r].grain = grain;
	}
}

#endif
