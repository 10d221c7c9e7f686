/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scans over the arrays of unexpected messages. Private to lib/match.
 */
#ifndef PMX_MATCH_SCAN_H
#define PMX_MATCH_SCAN_H

#include <stdint.h>

#define SCAN_SLACK 64 /* elements behind an array that may be read */

struct match_scan {
	const char *name;
	/* The first i in from..end - 1 with a[i] == want; end: none. */
	uint32_t (*equal)(const uint16_t *a, uint32_t from, uint32_t end, uint16_t want);
	/* ... and (tags[i] ^ tag) & care == 0 */
	uint32_t (*masked)(const uint16_t *a, const uint64_t *tags, uint32_t from, uint32_t end,
		uint16_t want, uint64_t tag, uint64_t care);
};

/* The widest of at most so many bits that this CPU has. */
const struct match_scan *match_scan_for(unsigned bits);

#endif
