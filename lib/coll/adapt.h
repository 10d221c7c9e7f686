/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When the network is to be measured again (contention-free adaptive collectives, SWoPP 2008): when
 * collectives take longer than was predicted, several times one after the other; and now and then
 * after it was found to be slower, since who sends at a measured pace cannot see that more would
 * go. All members are told the same, so all come to the same answers. Pure.
 */
#ifndef PMX_COLL_ADAPT_H
#define PMX_COLL_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPT_SLOW  1.12 /* of what is usual */
#define ADAPT_TIMES 3
#define ADAPT_LOOK  64 /* collectives after a change until it is looked whether more goes again */
#define ADAPT_MOST  4096

/* All 0 at first. */
struct adapt {
	double usual; /* time over the predicted that no measuring changes; 0: 1 */
	double last;
	uint32_t slow;
	uint32_t since, look; /* collectives since it was measured; when to look; 0: never */
};

/* Note how long a collective took, and how long it was predicted to take. Return whether the
 * network is to be measured now. */
static inline bool
adapt_took(struct adapt *a, uint64_t predicted_ns, uint64_t took_ns)
{
	const double ratio = (double)took_ns / (double)predicted_ns;

	a->since++;
	a->slow = ratio > ADAPT_SLOW * (a->usual > 1 ? a->usual : 1) ? a->slow + 1 : 0;
	a->last = ratio;
	return a->slow >= ADAPT_TIMES || (a->look > 0 && a->since >= a->look);
}

/* Note that the network was measured. changed: something was found to carry more or less than was
 * known. */
static inline void
adapt_measured(struct adapt *a, bool changed)
{
	if (changed) {
		a->usual = 0;
		a->look = ADAPT_LOOK;
	} else {
		if (a->slow > 0)
			a->usual = a->last;
		a->look = a->look < ADAPT_MOST ? 2 * a->look : a->look;
	}
	a->slow = a->since = 0;
}

#endif
