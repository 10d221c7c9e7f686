/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The clock and the random numbers that script_clock.h gives to an engine and its clients: a test
 * moves script_now, and the seed of script_randoms decides all that follows.
 */
#include "script_clock.h"

uint64_t script_now, script_randoms;

uint64_t
script_rdtsc(void)
{
	return script_now;
}

uint64_t
script_hz(void)
{
	return SCRIPT_HZ;
}

uint64_t
script_rand(void)
{
	uint64_t x = (script_randoms += 0x9E3779B97F4A7C15u);

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	return x ^ x >> 27;
}

ssize_t
script_getrandom(void *to, size_t len, unsigned flags)
{
	uint8_t *at = to;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(script_rand() >> 32);
	return (ssize_t)len;
}
