/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scans over the arrays of unexpected messages. Private to lib/match.
 */
#ifndef PMX_MATCH_SCAN_H
#define PMX_MATCH_SCAN_H

#include <stdint.h>

#define SCAN_SLACK 64 /* elements behind the end of an array that may be read */

struct match_scan {
	const char *name;
	/* Returns the first i in from..end - 1 with a[i] == want, or `end` if there is none. */
	uint32_t (*equal)(const uint16_t *a, uint32_t from, uint32_t end, uint16_t want);
	/* Returns the first such i with (tags[i] ^ tag) & care == 0, or `end`. */
	uint32_t (*masked)(const uint16_t *a, const uint64_t *tags, uint32_t from, uint32_t end,
		uint16_t want, uint64_t tag, uint64_t care);
};

/* Return the widest scan of at most `bits` bits that this CPU supports. */
const struct match_scan *match_scan_for(unsigned bits);

#endif
