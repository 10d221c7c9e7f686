/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Numbers that look random and are the same in every run, for the simulator and tests: SplitMix64
 * (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014). Whoever
 * knows one knows all that follow, so nothing secret is made of them. Pure, any thread.
 */
#ifndef PMX_BASE_MIX_H
#define PMX_BASE_MIX_H

#include <stdint.h>

/* Return a number that each bit of `z` changes half of. */
static inline uint64_t
mix64(uint64_t z)
{
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* Return the next number of the sequence that *state, any number, began. */
static inline uint64_t
mix64_next(uint64_t *state)
{
	return mix64(*state += 0x9E3779B97F4A7C15u);
}

#endif
