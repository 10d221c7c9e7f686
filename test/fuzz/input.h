/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The bytes of a fuzzer's input, taken from the front; zeros after their end.
 */
#ifndef PMX_FUZZ_INPUT_H
#define PMX_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const uint8_t *at;
	size_t left;
};

static inline void
take(struct input *in, void *to, size_t n)
{
	size_t k = n < in->left ? n : in->left;

	memset(to, 0, n);
	memcpy(to, in->at, k);
	in->at += k;
	in->left -= k;
}

static inline uint8_t
take8(struct input *in)
{
	uint8_t v;

	take(in, &v, sizeof(v));
	return v;
}

static inline uint16_t
take16(struct input *in)
{
	uint16_t v;

	take(in, &v, sizeof(v));
	return v;
}

static inline uint32_t
take32(struct input *in)
{
	uint32_t v;

	take(in, &v, sizeof(v));
	return v;
}

/* A rule was broken: what libFuzzer takes for a crash. */
#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);          \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
