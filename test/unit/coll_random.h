/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of collectives have in common: random numbers that are the same in every run,
 * random networks, and plans as they are for networks that nobody has described. A program that
 * includes it has included cmocka.h before.
 */
#ifndef PMX_TEST_COLL_RANDOM_H
#define PMX_TEST_COLL_RANDOM_H

#include "coll/plan.h"
#include "topology_text.h"

/* Frames as those of Ethernet, and a message's head. */
extern const struct coll_params params;
/* A test that sets it gets the same numbers from then on. */
extern uint64_t state_of_random;

uint32_t random_below(uint32_t n);
/* A random tree of at most so many switches, with so many hosts. */
struct topology *random_tree(uint32_t hosts, uint32_t switches_max);
/* A random tree, of whose hosts only some may talk to each other. */
struct topology *random_overlay(uint32_t hosts);
/* Takes the timetable away, as lists have none for a network that nobody has described. */
void without_times(struct coll_plan *p, uint64_t window, uint32_t grain);

/* Return where a block begins in a buffer of all blocks. */
static inline uint64_t
block_at(const struct coll_blocks *b, uint32_t block)
{
	return block == 0 ? 0 : b->ends ? b->ends[block - 1] : b->each * block;
}

#endif
