/* SPDX-License-Identifier: BSD-3-Clause
 *
 * SipHash-2-4 of whole words (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012):
 * what it gives for a message is unknown to who does not have the key. Pure; any thread.
 */
#ifndef PMX_WIRE_SIPHASH_H
#define PMX_WIRE_SIPHASH_H

#include <stdint.h>

static inline uint64_t
siphash_rotl(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void
siphash_rounds(uint64_t v[4], unsigned rounds)
{
	while (rounds-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = siphash_rotl(v[1], 13) ^ v[0];
		v[3] = siphash_rotl(v[3], 16) ^ v[2];
		v[0] = siphash_rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = siphash_rotl(v[1], 17) ^ v[2];
		v[3] = siphash_rotl(v[3], 21) ^ v[0];
		v[2] = siphash_rotl(v[2], 32);
	}
}

/* Return SipHash-2-4 of the 8 n bytes that the words are in little-endian order. */
static inline uint64_t
siphash(const uint64_t key[2], const uint64_t *words, uint32_t n)
{
	uint64_t v[4] = {key[0] ^ 0x736F6D6570736575u, key[1] ^ 0x646F72616E646F6Du,
		key[0] ^ 0x6C7967656E657261u, key[1] ^ 0x7465646279746573u};
	const uint64_t end = (uint64_t)n * 8 << 56;

	for (uint32_t i = 0; i <= n; i++) {
		const uint64_t word = i < n ? words[i] : end;

		v[3] ^= word;
		siphash_rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xFF;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
