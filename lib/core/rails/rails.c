/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See rails.h.
 */
#include "core/rails/rails.h"

#define RUN           8192   /* bytes, at most */
#define RUNS          8      /* of all rails together, that may be in flight */
#define OVERDUE_US    2000   /* silence of a rail that was sent something, until all are asked */
#define CHECK_US      100000 /* note 2 */
#define MISSES        3
#define ROUNDS_LATE   16   /* an answer may be late by so many rounds */
#define ANSWER_US     1000 /* least time for the others' answers after the first one */
#define PATIENCE_US   4000 /* until all are asked again, when none answers; grows to the next */
#define PATIENCE_MOST 256000

uint32_t
rails_up(const struct rails *r)
{
	uint32_t up = 0;

	for (unsigned i = 0; i < RAILS_MAX; i++)
		up |= (uint32_t)!r->rail[i].down << i;
	return up & r->all;
}

uint32_t
rails_usable(const struct rails *r)
{
	uint32_t answer = 0, up = rails_up(r);

	for (unsigned i = 0; i < RAILS_MAX; i++)
		answer |= (uint32_t)(!r->rail[i].down && r->rail[i].misses == 0) << i;
	answer &= r->all;
	return answer ? answer : up ? up : r->all;
}

/* Return the next usable rail after that one, in turn. */
static unsigned
next(uint32_t usable, unsigned rail)
{
	const uint32_t later = usable & ~((2u << rail) - 1);

	return (unsigned)__builtin_ctz(later ? later : usable);
}

static inline uint32_t
usable(struct rails *r)
{
	if (__builtin_expect(r->usable == 0, 0))
		r->usable = (uint8_t)rails_usable(r);
	return r->usable;
}

unsigned
rails_choose(struct rails *r, const struct rails_config *c)
{
	const uint32_t rails = usable(r);

	if (!c->spread)
		return (unsigned)__builtin_ctz(rails);
	if (r->left <= 0 || !(rails >> r->data & 1)) {
		r->data = (uint8_t)next(rails, r->data);
		r->left = r->run != 0 ? (int32_t)r->run : RUN;
	}
	return r->data;
}

void
rails_window(struct rails *r, uint32_t bytes)
{
	const uint32_t run = bytes / RUNS;

	r->run = run > RUN ? RUN : run != 0 ? run : 1;
}

unsigned
rails_answer(struct rails *r, unsigned rail)
{
	const uint32_t rails = usable(r);

	return rails >> rail & 1 ? rail : (unsigned)__builtin_ctz(rails);
}

bool
rails_answered(struct rails *r, unsigned rail, uint32_t round, uint64_t now)
{
	struct rail *a = &r->rail[rail];

	if (r->asked_at == 0 || r->round - round >= ROUNDS_LATE)
		return false; /* no question of ours */
	a->sent_at = 0;
	if (round == r->round) {
		if (r->answered == 0) { /* maybe too late: the next round lasts longer */
			r->answered_at = now;
			r->taken = now - r->asked_at;
		}
		r->answered |= (uint8_t)(1u << rail);
	}
	if (!a->down)
		return false;
	a->down = false;
	a->misses = 0;
	r->usable = 0;
	return true;
}

/* End the round: a rail that did not answer has missed it. Return whether a rail went down. */
static bool
end_round(struct rails *r)
{
	bool changed = false;

	for (unsigned i = 0; i < RAILS_MAX; i++) {
		struct rail *a = &r->rail[i];

		if (!(r->all >> i & 1) || a->down)
			continue;
		if (r->answered >> i & 1) {
			a->misses = 0;
		} else if (++a->misses >= MISSES) {
			a->down = changed = true;
			a->sent_at = 0;
		}
	}
	r->asking = false;
	r->usable = 0;
	return changed;
}

static bool
is_overdue(const struct rails *r, const struct rails_config *c, uint64_t now)
{
	const uint64_t after = OVERDUE_US * c->ticks_per_us + 4 * r->taken;

	for (unsigned i = 0; i < RAILS_MAX; i++) {
		const struct rail *a = &r->rail[i];

		if (!a->down && (a->misses != 0 || (a->sent_at != 0 && now - a->sent_at >= after)))
			return true;
	}
	return false;
}

/* Look at the round that is under way. Return whether a rail went down. */
static bool
watch_round(struct rails *r, const struct rails_config *c, uint64_t now)
{
	const uint64_t least = ANSWER_US * c->ticks_per_us;
	const uint64_t patience = r->patience_us * c->ticks_per_us;

	if (r->answered == 0) {
		if (now - r->asked_at >= (2 * r->taken > patience ? 2 * r->taken : patience))
			r->asking = false;
		return false;
	}
	r->patience_us = 0;
	if (r->answered == rails_up(r))
		return end_round(r);
	return now - r->answered_at >= (2 * r->taken > least ? 2 * r->taken : least) &&
		end_round(r);
}

static uint32_t
ask_all(struct rails *r, uint64_t now)
{
	r->answered = 0;
	r->asking = true;
	r->round++;
	r->asked_at = now;
	r->patience_us = r->patience_us == 0     ? PATIENCE_US
		: r->patience_us < PATIENCE_MOST ? 2 * r->patience_us
						 : PATIENCE_MOST;
	return r->all;
}

/* Return whether the round may yet show something. */
static bool
is_open(const struct rails *r, const struct rails_config *c, uint64_t now)
{
	return r->asking && (r->answered != 0 || now - r->asked_at < CHECK_US * c->ticks_per_us);
}

static void
forget(struct rails *r)
{
	for (unsigned i = 0; i < RAILS_MAX; i++)
		r->rail[i].sent_at = 0;
	r->asking = r->active = false;
	r->patience_us = 0;
}

uint64_t
rails_deadline(const struct rails *r, const struct rails_config *c, uint64_t now)
{
	bool waits = r->asking;

	for (unsigned i = 0; i < RAILS_MAX; i++)
		waits |= r->rail[i].sent_at != 0;
	return waits ? now + RAILS_STEP_US * c->ticks_per_us : r->check_at;
}

uint32_t
rails_step(struct rails *r, const struct rails_config *c, uint64_t now, bool *changed)
{
	bool check = now >= r->check_at;

	if (r->asking && watch_round(r, c, now))
		*changed = true;
	if (check) {
		r->check_at = now + CHECK_US * c->ticks_per_us;
		if (!r->used && rails_up(r) == r->all && !is_open(r, c, now)) {
			forget(r); /* a peer that nothing is sent to is not asked any more */
			return 0;
		}
		r->used = false;
	}
	return !r->asking && (check || is_overdue(r, c, now)) ? ask_all(r, now) : 0;
}
