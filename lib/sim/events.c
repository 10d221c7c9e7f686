/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulator's event queue, pools, clocks and random numbers.
 */
#include <stdlib.h>

#include "base/mix.h"
#include "sim/internal.h"

void *
sim_grown(struct sim *s, void *array, uint32_t count, uint32_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? 2 * *cap : 256;
	array = realloc(array, *cap * size);
	if (array == NULL)
		sim_violation(s, "out of memory");
	return array;
}

uint64_t
sim_random(struct sim *s)
{
	return mix64_next(&s->random);
}

void
sim_digest_add(struct sim *s, uint64_t value)
{
	s->digest = (s->digest ^ value) * 0x9E3779B97F4A7C15u;
	s->digest ^= s->digest >> 29;
}

uint64_t
sim_ticks(const struct sim *s, const struct sim_node *n)
{
	if (n->rate == NS_PER_SEC)
		return n->offset + s->now;
	return n->offset + (uint64_t)((unsigned __int128)s->now * n->rate / NS_PER_SEC);
}

uint64_t
sim_moment(const struct sim_node *n, uint64_t ticks)
{
	if (ticks == UINT64_MAX)
		return SIM_NEVER;
	ticks = ticks > n->offset ? ticks - n->offset : 0;
	if (n->rate == NS_PER_SEC)
		return ticks;
	return (uint64_t)(((unsigned __int128)ticks * NS_PER_SEC + n->rate - 1) / n->rate);
}

static inline bool
sooner(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : (int32_t)(a->order - b->order) < 0;
}

void
sim_schedule(struct sim *s, uint64_t at, enum event_kind kind, uint32_t index)
{
	const struct sim_event e = {at, s->event_order++, index, (uint8_t)kind};
	uint32_t i = s->event_count;

	s->events = sim_grown(s, s->events, s->event_count, &s->event_cap, sizeof(*s->events));
	s->event_count++;
	while (i > 0 && sooner(&e, &s->events[(i - 1) / 4])) {
		s->events[i] = s->events[(i - 1) / 4];
		i = (i - 1) / 4;
	}
	s->events[i] = e;
}

struct sim_event
sim_next_event(struct sim *s)
{
	const struct sim_event first = s->events[0], last = s->events[--s->event_count];
	uint32_t i = 0, n = s->event_count;

	for (;;) {
		uint32_t child = 4 * i + 1, best = child;

		if (child >= n)
			break;
		for (uint32_t c = child + 1; c < child + 4 && c < n; c++) {
			if (sooner(&s->events[c], &s->events[best]))
				best = c;
		}
		if (!sooner(&s->events[best], &last))
			break;
		s->events[i] = s->events[best];
		i = best;
	}
	s->events[i] = last;
	return first;
}
