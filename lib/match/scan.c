/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The scans, for AVX-512, AVX2 and any CPU. Arrays are aligned to 64 bytes; a scan begins with the
 * block that contains `from` and masks out what is before it; hits behind `end` are discarded.
 */
#include "match/scan.h"

static uint32_t
equal_any(const uint16_t *a, uint32_t from, uint32_t end, uint16_t want)
{
	while (from < end && a[from] != want)
		from++;
	return from;
}

static uint32_t
masked_any(const uint16_t *a, const uint64_t *tags, uint32_t from, uint32_t end, uint16_t want,
	uint64_t tag, uint64_t care)
{
	while (from < end && (a[from] != want || (tags[from] ^ tag) & care))
		from++;
	return from;
}

static const struct match_scan scan_any = {"portable", equal_any, masked_any};

#ifdef __x86_64__

#include <immintrin.h>

static inline uint32_t
at_most(uint32_t at, uint32_t end)
{
	return at < end ? at : end;
}

__attribute__((target("avx512f,avx512bw"))) static uint32_t
equal_512(const uint16_t *a, uint32_t from, uint32_t end, uint16_t want)
{
	const __m512i w = _mm512_set1_epi16((short)want);
	uint32_t i = from & ~31u;
	uint32_t hits = i < end
		? _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i), w) & ~0u << (from & 31)
		: 0;

	while (hits == 0) {
		i += 32;
		/* four vectors at a time, as long as there are so many */
		for (; i + 128 <= end; i += 128) {
			__mmask32 m0 = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i), w);
			__mmask32 m1 = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i + 32), w);
			__mmask32 m2 = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i + 64), w);
			__mmask32 m3 = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i + 96), w);

			if (m0 | m1 | m2 | m3)
				break;
		}
		if (i >= end)
			return end;
		hits = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i), w);
	}
	return at_most(i + (uint32_t)__builtin_ctz(hits), end);
}

__attribute__((target("avx512f,avx512bw"))) static uint32_t
masked_512(const uint16_t *a, const uint64_t *tags, uint32_t from, uint32_t end, uint16_t want,
	uint64_t tag, uint64_t care)
{
	const __m512i w = _mm512_set1_epi16((short)want);
	const __m512i t = _mm512_set1_epi64((long long)tag), c = _mm512_set1_epi64((long long)care);
	uint32_t before = ~0u << (from & 31);

	for (uint32_t i = from & ~31u; i < end; i += 32, before = ~0u) {
		uint32_t hits = _mm512_cmpeq_epi16_mask(_mm512_load_si512(a + i), w) & before;

		if (hits == 0)
			continue;
		uint32_t tags_hit = 0;

		for (unsigned k = 0; k < 4; k++) {
			__m512i x = _mm512_xor_si512(_mm512_load_si512(tags + i + 8 * k), t);

			tags_hit |= (uint32_t)_mm512_testn_epi64_mask(x, c) << (8 * k);
		}
		hits &= tags_hit;
		if (hits != 0)
			return at_most(i + (uint32_t)__builtin_ctz(hits), end);
	}
	return end;
}

static const struct match_scan scan_512 = {"AVX-512", equal_512, masked_512};

__attribute__((target("avx2"))) static inline uint32_t
equal_32(const uint16_t *a, __m256i w)
{
	__m256i low = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)a), w);
	__m256i high = _mm256_cmpeq_epi16(_mm256_load_si256((const __m256i *)a + 1), w);
	/* packing works within 128-bit halves: put the four quarters in order */
	__m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);

	return (uint32_t)_mm256_movemask_epi8(bytes);
}

__attribute__((target("avx2"))) static uint32_t
equal_256(const uint16_t *a, uint32_t from, uint32_t end, uint16_t want)
{
	const __m256i w = _mm256_set1_epi16((short)want);
	uint32_t before = ~0u << (from & 31);

	for (uint32_t i = from & ~31u; i < end; i += 32, before = ~0u) {
		uint32_t hits = equal_32(a + i, w) & before;

		if (hits != 0)
			return at_most(i + (uint32_t)__builtin_ctz(hits), end);
	}
	return end;
}

__attribute__((target("avx2"))) static uint32_t
masked_256(const uint16_t *a, const uint64_t *tags, uint32_t from, uint32_t end, uint16_t want,
	uint64_t tag, uint64_t care)
{
	const __m256i w = _mm256_set1_epi16((short)want), zero = _mm256_setzero_si256();
	const __m256i t = _mm256_set1_epi64x((long long)tag),
		      c = _mm256_set1_epi64x((long long)care);
	uint32_t before = ~0u << (from & 31);

	for (uint32_t i = from & ~31u; i < end; i += 32, before = ~0u) {
		uint32_t hits = equal_32(a + i, w) & before, tags_hit = 0;

		if (hits == 0)
			continue;
		for (unsigned k = 0; k < 8; k++) {
			__m256i x = _mm256_load_si256((const __m256i *)(tags + i + 4 * k));
			__m256i equal = _mm256_cmpeq_epi64(
				_mm256_and_si256(_mm256_xor_si256(x, t), c), zero);

			tags_hit |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal))
				<< (4 * k);
		}
		hits &= tags_hit;
		if (hits != 0)
			return at_most(i + (uint32_t)__builtin_ctz(hits), end);
	}
	return end;
}

static const struct match_scan scan_256 = {"AVX2", equal_256, masked_256};

const struct match_scan *
match_scan_for(unsigned bits)
{
	if (bits >= 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		return &scan_512;
	if (bits >= 256 && __builtin_cpu_supports("avx2"))
		return &scan_256;
	return &scan_any;
}

#else

const struct match_scan *
match_scan_for(unsigned bits)
{
	(void)bits;
	return &scan_any;
}

#endif
