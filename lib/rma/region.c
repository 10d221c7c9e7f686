/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma/region.h"

#include <errno.h>

#define PLACE(key) ((uint32_t)(0xFFFF & (key)))

void
region_table_init(struct region_table *t, struct region *regions, uint32_t count)
{
	*t = (struct region_table){.regions = regions, .count = count < 65535 ? count : 65535};
}

static struct region *
find_area(const struct region_table *t, uint16_t ctx, uint32_t area, uint32_t group)
{
	uint32_t at = 0;
	struct region *r;

	while ((r = region_of(t, ctx, &at)) != NULL) {
		if (r->area == area && r->group == group)
			return r;
	}
	return NULL;
}

int
region_add(struct region_table *t, struct region *r, uint64_t random)
{
	if (r->len == 0 || r->len > REGION_BYTES_MAX || r->base + r->len < r->base ||
		!(r->rights & (REGION_READ | REGION_WRITE)) ||
		r->rights & ~(REGION_READ | REGION_WRITE | REGION_ANYONE))
		return -EINVAL;
	if (r->area != REGION_NO_AREA && find_area(t, r->ctx, r->area, r->group) != NULL)
		return -EEXIST;
	while (t->free_from < t->count && t->regions[t->free_from].key != 0)
		t->free_from++;
	if (t->free_from == t->count)
		return -ENOSPC;
	r->key = random << 16 | t->free_from;
	if (r->key < 1 << 16) /* a key is never 0, and its random bits are never all 0 */
		r->key |= 1 << 16;
	t->regions[t->free_from++] = *r;
	return 0;
}

struct region *
region_find(const struct region_table *t, uint64_t key)
{
	uint32_t place = PLACE(key);

	return key != 0 && place < t->count && t->regions[place].key == key ? &t->regions[place]
									    : NULL;
}

void
region_remove(struct region_table *t, struct region *r)
{
	uint32_t place = (uint32_t)(r - t->regions);

	r->key = 0;
	if (place < t->free_from)
		t->free_from = place;
}

struct region *
region_of(const struct region_table *t, uint16_t ctx, uint32_t *at)
{
	while (*at < t->count) {
		struct region *r = &t->regions[(*at)++];

		if (r->key != 0 && r->ctx == ctx)
			return r;
	}
	return NULL;
}

struct region *
region_named(const struct region_table *t, const struct region_access *a)
{
	if (a->key != 0)
		return region_find(t, a->key);
	return a->area != REGION_NO_AREA ? find_area(t, a->ctx, a->area, a->group) : NULL;
}

enum region_verdict
region_check(const struct region_table *t, const struct region_access *a, const struct region **r,
	uint64_t *offset)
{
	const struct region *found = region_named(t, a);
	uint64_t at;

	if (found == NULL)
		return REGION_UNKNOWN;
	if (found->ctx != a->ctx)
		return REGION_STRANGER;
	if (a->right == 0 || a->right & ~found->rights)
		return REGION_RIGHTS;
	if (a->key == 0 && !a->insider && !(found->rights & REGION_ANYONE))
		return a->group != 0 ? REGION_OUTSIDER : REGION_RIGHTS;
	/* an address below the base wraps around and so lies beyond the end */
	at = a->key ? a->at - found->base : a->at;
	if (at > found->len || a->len > found->len - at)
		return REGION_BOUNDS;
	*r = found;
	*offset = at;
	return REGION_OK;
}
