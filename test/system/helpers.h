/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What system tests in C have in common: the time, the first failure, numbers that a seed decides.
 * Included by one program's one file, which sets PROGRAM before.
 */
#ifndef PMX_TEST_HELPERS_H
#define PMX_TEST_HELPERS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"

static bool failed;
static uint64_t seed = 1;

/* Only the first is told. */
static inline __attribute__((format(printf, 1, 2))) void
fail(const char *fmt, ...)
{
	va_list args;

	if (failed)
		return;
	failed = true;
	fputs(PROGRAM ": ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static inline uint64_t
draw(void)
{
	static uint64_t x;
	uint64_t z = (x += 0x9E3779B97F4A7C15u) + seed * 0x1234567u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static inline void *
must(void *p)
{
	if (p == NULL) {
		fputs(PROGRAM ": no memory\n", stderr);
		exit(2);
	}
	return p;
}

#endif
