/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When each block of a gather comes to its root, and when each of a scatter leaves there:
 * COLL_PERMITS.
 */
#ifndef PMX_COLL_TIMETABLE_H
#define PMX_COLL_TIMETABLE_H

#include "coll/generate.h"

struct coll_time {
	uint32_t place;
	uint32_t lane;     /* of timetable.c */
	double stream;     /* ns a byte, if one flow is slower than the lane; 0 */
	double latency_ns; /* from the sender to the root, or from the root to the receiver */
	double ready_ns;   /* it cannot come, or leave, before */
	double lead_ns;    /* gather: there and back */
	double at_ns;      /* when its first byte comes, or leaves */
	double each;       /* ns a byte */
};

struct coll_timetable {
	struct coll_time *times; /* of all places but the root's, what may go first comes first */
	uint32_t count;
	double line;    /* ns a byte of the root's */
	uint32_t lanes; /* most that come or leave at a time */
};

/* outwards: of a scatter. Returns false, with b->error, if out of memory. To be freed in any
 * case. */
bool coll_timetable_make(struct coll_timetable *t, struct coll_builder *b, bool outwards);
void coll_timetable_free(struct coll_timetable *t);

#endif
