/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Heads of unexpected messages, in the ring or in the store; see heads.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "match/heads.h"

int
match_heads_init(struct match_heads *h, const struct lhs_config *c, void *memory, uint32_t max)
{
	*h = (struct match_heads){.entry_bytes = c->entry_bytes, .max = max, .free = MATCH_NONE};
	lhs_end_init(&h->ring, c, memory);
	h->done = calloc((c->entries + 63) / 64, sizeof(*h->done));
	h->store = mmap(NULL, (size_t)max * c->entry_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (h->store == MAP_FAILED)
		h->store = NULL;
	if (h->done != NULL && h->store != NULL)
		return 0;
	match_heads_free(h);
	return -ENOMEM;
}

void
match_heads_free(struct match_heads *h)
{
	free(h->done);
	if (h->store != NULL)
		munmap(h->store, (size_t)h->max * h->entry_bytes);
	h->done = NULL;
	h->store = NULL;
}

void
match_heads_clear(struct match_heads *h)
{
	memset(h->done, 0, (h->ring.mask + 64) / 64 * sizeof(*h->done));
	h->ring.pos = h->given = h->stored = h->used = h->cursor = 0;
	h->free = MATCH_NONE;
	h->evacuated = 0;
}

const struct lhs_entry *
match_head_next(struct match_heads *h, uint32_t *where)
{
	const struct lhs_entry *e = lhs_peek(&h->ring);

	if (e != NULL)
		*where = h->ring.pos++ & h->ring.mask;
	return e;
}

/* ------------------------------------------------------------------ back */

static inline bool
is_done(const struct match_heads *h, uint32_t place)
{
	return h->done[place / 64] >> place % 64 & 1;
}

static void
give_back(struct match_heads *h, uint32_t place)
{
	h->done[place / 64] |= 1ull << place % 64;
	while (h->given != h->ring.pos && is_done(h, h->given & h->ring.mask)) {
		place = h->given++ & h->ring.mask;
		h->done[place / 64] &= ~(1ull << place % 64);
	}
}

static void
give_store_back(struct match_heads *h, uint32_t place)
{
	memcpy(h->store + (size_t)place * h->entry_bytes, &h->free, sizeof(h->free));
	h->free = place;
	h->stored--;
}

void
match_head_done(struct match_heads *h, uint32_t where)
{
	if (where & MATCH_STORED)
		give_store_back(h, where & ~MATCH_STORED);
	else
		give_back(h, where);
}

/* ------------------------------------------------------------------ into the store */

/* Take a place of the store. Returns MATCH_NONE if it is full. */
static uint32_t
take_place(struct match_heads *h)
{
	uint32_t place = h->free;

	if (place != MATCH_NONE)
		memcpy(&h->free, h->store + (size_t)place * h->entry_bytes, sizeof(h->free));
	else if (h->used < h->max)
		place = h->used++;
	else
		return MATCH_NONE;
	h->stored++;
	return place;
}

uint32_t
match_head_add(struct match_heads *h, const struct lhs_entry *e)
{
	uint32_t place = take_place(h);

	if (place == MATCH_NONE)
		return MATCH_NONE;
	memcpy(h->store + (size_t)place * h->entry_bytes, e, h->entry_bytes);
	return place | MATCH_STORED;
}

uint32_t
match_head_keep(struct match_heads *h, uint32_t where)
{
	if (where & MATCH_STORED)
		return where;
	uint32_t kept = match_head_add(h, lhs_at(&h->ring, where));

	if (kept != MATCH_NONE)
		give_back(h, where);
	return kept;
}

bool
match_heads_spare(struct match_heads *h, struct match_unexpected *u, uint32_t most)
{
	if (h->renumbered != u->renumbered)
		h->cursor = 0;
	h->renumbered = u->renumbered;
	for (; match_heads_held(h) > most; h->cursor++) {
		uint32_t at = match_unexpected_next(u, h->cursor), kept;

		if (at == MATCH_NONE)
			return false;
		h->cursor = at;
		uint32_t *where = &u->places[at].where;

		if (*where & MATCH_STORED)
			continue;
		kept = match_head_keep(h, *where);
		if (kept == MATCH_NONE)
			return false;
		*where = kept;
		h->evacuated++;
	}
	return true;
}
