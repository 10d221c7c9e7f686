/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma/client/pin_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum pin_slot_state {
	SLOT_FREE,
	SLOT_LIVE,    /* an entry: in `order`, and can be found */
	SLOT_FORWARD, /* merged: slot `link` has its pages, and holds a reference for each one of
		       * this slot */
	SLOT_STALE,   /* invalidated in use: `link` is the list of pieces that are left, each
		       * referenced once */
};

struct pin_slot {
	uint64_t begin, end; /* LIVE: page aligned */
	uint64_t used;       /* LIVE: last use, by pin_cache.clock */
	uint32_t refs;
	uint32_t link;       /* see above; FREE: next free */
	uint32_t next_piece; /* next piece of the STALE slot that holds this one */
	uint8_t state;       /* enum pin_slot_state */
};

struct pin_cache {
	struct pin_cache_config cfg;
	struct pin_cache_stat stat;
	uint64_t clock;
	struct pin_slot *slots;
	uint64_t *begins;    /* of LIVE slots, ascending */
	uint32_t *order;     /* ... and their slots */
	uint32_t count;      /* of LIVE slots */
	uint32_t slot_count; /* size of the three arrays */
	uint32_t slot_free;
};

struct pin_cache *
pin_cache_new(const struct pin_cache_config *config)
{
	if (config->page_bytes == 0 || config->page_bytes & (config->page_bytes - 1) ||
		config->entries_max == 0 || config->ops.pin == NULL || config->ops.unpin == NULL)
		return NULL;
	struct pin_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->cfg = *config;
	c->slot_free = PIN_NONE;
	return c;
}

/* ------------------------------------------------------------------ slots and their order */

/* Make sure that n slots are free. Return false if there is no memory. */
static bool
slots_ready(struct pin_cache *c, uint32_t n)
{
	uint32_t have = 0, more = c->slot_count ? 2 * c->slot_count : 64;

	for (uint32_t i = c->slot_free; i != PIN_NONE && have < n; i = c->slots[i].link)
		have++;
	if (have == n)
		return true;
	struct pin_slot *slots = realloc(c->slots, more * sizeof(*slots));

	c->slots = slots ? slots : c->slots;
	uint64_t *begins = realloc(c->begins, more * sizeof(*begins));

	c->begins = begins ? begins : c->begins;
	uint32_t *order = realloc(c->order, more * sizeof(*order));

	c->order = order ? order : c->order;
	if (!slots || !begins || !order)
		return false;
	for (uint32_t i = c->slot_count; i < more; i++) {
		slots[i] = (struct pin_slot){.link = c->slot_free};
		c->slot_free = i;
	}
	c->slot_count = more;
	return true;
}

static uint32_t
slot_take(struct pin_cache *c, uint64_t begin, uint64_t end)
{
	uint32_t i = c->slot_free;

	c->slot_free = c->slots[i].link;
	c->slots[i] = (struct pin_slot){
		.begin = begin,
		.end = end,
		.link = PIN_NONE,
		.next_piece = PIN_NONE,
		.state = SLOT_LIVE,
	};
	return i;
}

static void
slot_give(struct pin_cache *c, uint32_t i)
{
	c->slots[i].state = SLOT_FREE;
	c->slots[i].link = c->slot_free;
	c->slot_free = i;
}

/* Return the number of entries that begin at or before addr. */
static inline uint32_t
rank_of(const struct pin_cache *c, uint64_t addr)
{
	const uint64_t *at = c->begins;
	uint32_t n = c->count;

	if (n == 0)
		return 0;
	while (n > 1) {
		uint32_t half = n / 2;

		at += at[half] <= addr ? half : 0;
		n -= half;
	}
	return (uint32_t)(at - c->begins) + (*at <= addr);
}

/* Return the index in `order` of the first entry that ends after addr. */
static uint32_t
first_after(const struct pin_cache *c, uint64_t addr)
{
	uint32_t i = rank_of(c, addr);

	return i > 0 && c->slots[c->order[i - 1]].end > addr ? i - 1 : i;
}

static void
order_remove(struct pin_cache *c, uint32_t at, uint32_t n)
{
	memmove(&c->begins[at], &c->begins[at + n], (c->count - at - n) * sizeof(*c->begins));
	memmove(&c->order[at], &c->order[at + n], (c->count - at - n) * sizeof(*c->order));
	c->count -= n;
}

static void
order_insert(struct pin_cache *c, uint32_t slot)
{
	uint64_t begin = c->slots[slot].begin;
	uint32_t at = rank_of(c, begin);

	memmove(&c->begins[at + 1], &c->begins[at], (c->count - at) * sizeof(*c->begins));
	memmove(&c->order[at + 1], &c->order[at], (c->count - at) * sizeof(*c->order));
	c->begins[at] = begin;
	c->order[at] = slot;
	c->count++;
}

/* ------------------------------------------------------------------ pinning */

static void
unpin(struct pin_cache *c, uint64_t begin, uint64_t end)
{
	c->cfg.ops.unpin(c->cfg.ops.arg, begin, end - begin);
	c->stat.pinned_bytes -= end - begin;
}

static void
evict(struct pin_cache *c, uint32_t at)
{
	uint32_t slot = c->order[at];

	order_remove(c, at, 1);
	unpin(c, c->slots[slot].begin, c->slots[slot].end);
	slot_give(c, slot);
	c->stat.evictions++;
}

/* PIN-2. Entries that overlap [begin, end) are evicted last, since they would have to be pinned
 * again. */
static bool
evict_one(struct pin_cache *c, uint64_t begin, uint64_t end)
{
	uint32_t best = PIN_NONE;
	bool best_overlaps = true;

	for (uint32_t i = 0; i < c->count; i++) {
		const struct pin_slot *s = &c->slots[c->order[i]];
		bool overlaps = s->begin < end && s->end > begin;

		if (s->refs)
			continue;
		if (best == PIN_NONE || overlaps < best_overlaps ||
			(overlaps == best_overlaps && s->used < c->slots[c->order[best]].used)) {
			best = i;
			best_overlaps = overlaps;
		}
	}
	if (best == PIN_NONE)
		return false;
	evict(c, best);
	return true;
}

/* Find the first pages of [*at, end) that no entry has: [*at, *until). Return false if there are
 * none. */
static bool
next_gap(const struct pin_cache *c, uint64_t *at, uint64_t end, uint64_t *until)
{
	uint32_t i = first_after(c, *at);

	while (i < c->count && c->begins[i] <= *at)
		*at = c->slots[c->order[i++]].end;
	*until = i < c->count && c->begins[i] < end ? c->begins[i] : end;
	return *at < end;
}

static uint64_t
missing_bytes(const struct pin_cache *c, uint64_t begin, uint64_t end)
{
	uint64_t missing = 0, until;

	for (uint64_t at = begin; next_gap(c, &at, end, &until); at = until)
		missing += until - at;
	return missing;
}

/* Pin the pages of [begin, end) that no entry has: all of them or, with an error, none. */
static int
pin_missing(struct pin_cache *c, uint64_t begin, uint64_t end)
{
	uint64_t until, failed;
	int result = 0;

	for (uint64_t at = begin; next_gap(c, &at, end, &until); at = until) {
		result = c->cfg.ops.pin(c->cfg.ops.arg, at, until - at);
		failed = at;
		if (result != 0)
			break;
		c->stat.pinned_bytes += until - at;
	}
	if (result == 0)
		return 0;
	for (uint64_t at = begin; next_gap(c, &at, failed, &until); at = until)
		unpin(c, at, until);
	return result;
}

/* Make one entry of [begin, end), which is pinned, and its neighbours (note 1 of pin_cache.h).
 * Return its slot. */
static uint32_t
merge(struct pin_cache *c, uint64_t begin, uint64_t end)
{
	uint32_t first = first_after(c, begin), last = first, slot;

	while (last < c->count && c->begins[last] < end) {
		const struct pin_slot *s = &c->slots[c->order[last++]];

		begin = s->begin < begin ? s->begin : begin;
		end = s->end > end ? s->end : end;
	}
	if (first > 0) {
		const struct pin_slot *s = &c->slots[c->order[first - 1]];

		if (s->end == begin && end - s->begin <= c->cfg.merge_bytes) {
			begin = s->begin;
			first--;
		}
	}
	if (last < c->count && c->begins[last] == end) {
		const struct pin_slot *s = &c->slots[c->order[last]];

		if (s->end - begin <= c->cfg.merge_bytes) {
			end = s->end;
			last++;
		}
	}
	slot = slot_take(c, begin, end);
	for (uint32_t i = first; i < last; i++) {
		struct pin_slot *s = &c->slots[c->order[i]];

		if (s->refs == 0) {
			slot_give(c, c->order[i]);
			continue;
		}
		c->slots[slot].refs += s->refs;
		s->state = SLOT_FORWARD;
		s->link = slot;
	}
	order_remove(c, first, last - first);
	order_insert(c, slot);
	return slot;
}

/* ------------------------------------------------------------------ use */

static inline bool
pin_cache_find(struct pin_cache *c, uint64_t addr, uint64_t end, uint32_t *ref)
{
	uint32_t i = rank_of(c, addr);

	if (i == 0)
		return false;
	struct pin_slot *s = &c->slots[c->order[i - 1]];

	if (end > s->end)
		return false;
	s->refs++;
	s->used = ++c->clock;
	*ref = c->order[i - 1];
	return true;
}

static int
get_missing(struct pin_cache *c, uint64_t addr, uint64_t end, uint32_t *ref)
{
	uint64_t page = c->cfg.page_bytes, begin = addr & ~(page - 1);

	if (end <= addr || end > UINT64_MAX - page)
		return -EFAULT;
	end = (end + page - 1) & ~(page - 1);
	c->stat.misses++;
	for (;;) {
		/* merging may save an entry, but that cannot be relied on */
		bool room = c->count < c->cfg.entries_max &&
			c->stat.pinned_bytes + missing_bytes(c, begin, end) <= c->cfg.bytes_max;

		if (!slots_ready(c, 1))
			return -ENOMEM;
		int result = room ? pin_missing(c, begin, end) : -ENOMEM;

		if (result == 0)
			break;
		if (result != -ENOMEM && result != -EAGAIN)
			return result;
		if (!evict_one(c, begin, end)) {
			c->stat.refusals++;
			return -ENOMEM;
		}
	}
	*ref = merge(c, begin, end);
	c->slots[*ref].refs++;
	c->slots[*ref].used = ++c->clock;
	return 0;
}

int
pin_cache_get(struct pin_cache *c, uint64_t addr, uint64_t len, uint32_t *ref)
{
	if (addr + len > addr && pin_cache_find(c, addr, addr + len, ref)) {
		c->stat.hits++;
	} else {
		int result = get_missing(c, addr, addr + len, ref);

		if (result != 0)
			return result;
	}
	c->stat.in_use++;
	return 0;
}

/* Return whether an unused entry stays pinned (PIN-3). */
static inline bool
idle_stays(const struct pin_cache *c)
{
	return !c->cfg.off && c->count <= c->cfg.entries_max;
}

static void
pin_cache_release(struct pin_cache *c, uint32_t ref)
{
	while (ref != PIN_NONE) {
		struct pin_slot *s = &c->slots[ref];
		uint32_t next = PIN_NONE;

		s->refs--;
		if (s->state == SLOT_FORWARD) {
			next = s->link;
		} else if (s->state == SLOT_STALE && s->refs == 0) {
			uint32_t piece = s->link;

			while (piece != PIN_NONE) {
				uint32_t after = c->slots[piece].next_piece;

				pin_cache_release(c, piece);
				piece = after;
			}
		}
		if (s->refs == 0 && s->state != SLOT_LIVE)
			slot_give(c, ref);
		else if (s->refs == 0 && !idle_stays(c))
			evict(c, first_after(c, s->begin));
		ref = next;
	}
}

void
pin_cache_put(struct pin_cache *c, uint32_t ref)
{
	struct pin_slot *s = &c->slots[ref];

	c->stat.in_use--;
	if (__builtin_expect(s->state == SLOT_LIVE && (s->refs > 1 || idle_stays(c)), 1))
		s->refs--;
	else
		pin_cache_release(c, ref);
}

/* ------------------------------------------------------------------ invalidation */

/* Keep the rest of an entry of which a part was invalidated. `holder` is the slot of an entry in
 * use, or PIN_NONE for an idle one. If there is no memory for a slot, the pages stay pinned and are
 * forgotten. */
static void
keep_piece(struct pin_cache *c, uint64_t begin, uint64_t end, uint64_t used, uint32_t holder)
{
	if (begin >= end)
		return;
	if (holder == PIN_NONE && c->count >= c->cfg.entries_max) {
		unpin(c, begin, end);
		return;
	}
	if (!slots_ready(c, 1))
		return;
	uint32_t piece = slot_take(c, begin, end);

	c->slots[piece].used = used;
	if (holder != PIN_NONE) {
		c->slots[piece].refs = 1;
		c->slots[piece].next_piece = c->slots[holder].link;
		c->slots[holder].link = piece;
	}
	order_insert(c, piece);
}

void
pin_cache_invalidate(struct pin_cache *c, uint64_t addr, uint64_t len, bool gone)
{
	uint64_t page = c->cfg.page_bytes, begin = addr & ~(page - 1), end = addr + len;

	if (len == 0)
		return;
	end = end < addr || end > UINT64_MAX - page ? UINT64_MAX & ~(page - 1)
						    : (end + page - 1) & ~(page - 1);
	for (;;) {
		uint32_t at = first_after(c, begin);

		if (at == c->count || c->begins[at] >= end)
			return;
		uint32_t slot = c->order[at];
		struct pin_slot s = c->slots[slot];
		uint64_t from = s.begin > begin ? s.begin : begin, to = s.end < end ? s.end : end;

		order_remove(c, at, 1);
		if (gone)
			c->stat.pinned_bytes -= to - from;
		else
			unpin(c, from, to);
		if (s.refs) {
			c->slots[slot].state = SLOT_STALE;
			c->slots[slot].link = PIN_NONE;
		} else {
			slot_give(c, slot);
		}
		keep_piece(c, s.begin, from, s.used, s.refs ? slot : PIN_NONE);
		keep_piece(c, to, s.end, s.used, s.refs ? slot : PIN_NONE);
		c->stat.invalidations++;
	}
}

void
pin_cache_flush(struct pin_cache *c)
{
	for (uint32_t i = c->count; i-- > 0;) {
		if (c->slots[c->order[i]].refs == 0)
			evict(c, i);
	}
}

void
pin_cache_free(struct pin_cache *c)
{
	if (c == NULL)
		return;
	pin_cache_flush(c);
	free(c->slots);
	free(c->begins);
	free(c->order);
	free(c);
}

void
pin_cache_stat(const struct pin_cache *c, struct pin_cache_stat *out)
{
	*out = c->stat;
	out->entries = c->count;
}
