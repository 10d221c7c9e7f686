/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registration and deregistration of the contexts' regions (RHI-REG; RHiNET, 1999, section 2.2).
 */
#include "rma/internal.h"

static bool
reads_region(const struct rma_request *r, const void *key)
{
	return !r->of_offer && r->key == *(const uint64_t *)key;
}

static bool
reads_memory(const struct rma_request *r, const void *memory)
{
	return r->source.memory == memory;
}

void
registration_memory_gone(struct rma *r, struct rma_context *c, const void *memory)
{
	struct region *region;
	uint32_t at = 0;

	while ((region = region_of(&r->regions, c->ctx, &at)) != NULL) {
		if (region->memory != memory)
			continue;
		remote_pins_end(r, c, region->key);
		region_remove(&r->regions, region);
		c->kept.regions--;
	}
	requests_fail(r, c, reads_memory, memory, ENOKEY);
}

int
rma_register(struct rma *r, uint16_t ctx, const struct region *region, uint64_t random,
	uint64_t *key)
{
	struct rma_context *c = r->contexts[ctx];
	struct region copy = *region;

	/* so that one context cannot take all places */
	if (c->kept.regions >= (r->cfg.regions_max + 1) / 2)
		return -ENOSPC;
	copy.ctx = ctx;
	int result = region_add(&r->regions, &copy, random);

	c->kept.regions += result == 0;
	*key = copy.key;
	return result;
}

/* Mark the answers under way that read this memory in place, and return how many there are: the
 * deregistration waits for them. */
static uint32_t
mark_readers(struct rma *r, const struct rma_context *c, const void *memory)
{
	uint32_t n = 0;

	for (uint32_t i = 0; memory != NULL && i < r->cfg.frames_max; i++) {
		struct rma_frame *f = &r->frames[i];

		if (f->out && !f->own && f->in_place && f->source.memory == memory &&
			f->src % WIRE_CONTEXTS_MAX == c->ctx) {
			f->marked = true;
			n++;
		}
	}
	return n;
}

int
rma_deregister(struct rma *r, uint16_t ctx, uint64_t key, uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];
	struct region *region = region_find(&r->regions, key);

	if (region == NULL || region->ctx != ctx)
		return -ENOKEY;
	if (unlikely(c->pins != 0) && remote_pins_of_others(r, c, key, now))
		return -EBUSY;
	c->readers = mark_readers(r, c, region->memory);
	region_remove(&r->regions, region);
	c->kept.regions--;
	requests_fail(r, c, reads_region, &key, ENOKEY);
	return c->readers != 0;
}

void
registration_close(struct rma *r, struct rma_context *c)
{
	struct region *region;
	uint32_t at = 0;

	remote_pins_end(r, c, 0);
	while ((region = region_of(&r->regions, c->ctx, &at)) != NULL)
		region_remove(&r->regions, region);
	c->kept.regions = 0;
}

bool
rma_area(const struct rma *r, uint16_t ctx, uint32_t group, uint32_t area, struct rma_bytes *bytes)
{
	const struct region_access named = {.area = area, .group = group, .ctx = ctx};
	const struct region *region = region_named(&r->regions, &named);

	if (region == NULL)
		return false;
	*bytes = (struct rma_bytes){region->memory, region->base, region->len, ctx};
	return true;
}

bool
rma_area_writable(const struct rma *r, uint16_t ctx, const struct rma_area_range *range,
	struct rma_bytes *bytes)
{
	const struct region_access a = {
		.area = range->area,
		.group = range->group,
		.insider = true,
		.ctx = ctx,
		.right = REGION_WRITE,
		.at = range->at,
		.len = range->len,
	};
	const struct region *region;
	uint64_t offset;

	if (region_check(&r->regions, &a, &region, &offset) != REGION_OK)
		return false;
	*bytes = (struct rma_bytes){region->memory, region->base + offset, range->len, ctx};
	return true;
}
