/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions of this lane's contexts: registered, and gone. Runs on the lane.
 */
#include <errno.h>
#include <sys/random.h>

#include "engine/service/rma/dma.h"
#include "engine/service/rma/pinned.h"
#include "engine/service/rma/regions.h"
#include "engine/service/rma/requests.h"

static bool
reads_region(const struct request *r, const void *key)
{
	return !r->of_offer && r->key == *(const uint64_t *)key;
}

static bool
reads_memory(const struct request *r, const void *memory)
{
	return r->source.memory == memory;
}

void
regions_memory_gone(struct engine *e, struct channel *ch, const struct memory *m)
{
	struct region *region;
	uint32_t at = 0;

	while ((region = region_of(&rma_lane(e)->regions, ch->ctx, &at)) != NULL) {
		if (region->memory != m)
			continue;
		pinned_ends(e, ch, region->key);
		region_remove(&rma_lane(e)->regions, region);
		rma_context(ch)->regions--;
	}
	requests_fail(e, ch, reads_memory, m, ENOKEY);
}

static int
region_register(struct engine *e, struct channel *ch, const struct submission *s, uint64_t *key)
{
	struct region region = {
		.base = s->region.addr,
		.len = s->region.len,
		.area = s->region.area,
		.ctx = ch->ctx,
		.rights = s->region.rights < 4 ? (uint8_t)s->region.rights : 0,
		.method = MEMORY_BY_KERNEL,
		.watched = s->region.watched,
	};

	if (s->region.memory != MEMORY_COPIED) {
		const struct memory *m = space_at(&ch->space, s->region.memory, region.base,
			region.len);

		if (m == NULL)
			return -EFAULT;
		region.memory = (void *)(uintptr_t)m;
		region.method = memory_method(m);
		region.watched = m->watched;
	}
	/* one context never takes all places */
	if (rma_context(ch)->regions >= (e->node->config.regions + 1) / 2)
		return -ENOSPC;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	int result = region_add(&rma_lane(e)->regions, &region, random);

	rma_context(ch)->regions += result == 0;
	*key = region.key;
	return result;
}

/* Answers that are on their way and refer to that memory: the end of a registration waits for
 * them. */
static uint32_t
region_mark_readers(struct engine *e, const struct channel *ch, const struct memory *m)
{
	struct rma_lane *x = rma_lane(e);
	uint32_t n = 0;

	for (uint32_t i = 0; m != NULL && i < x->frames_max; i++) {
		struct frame *f = &x->frames[i];

		if (f->out && !f->own && f->memory == m && f->src % WIRE_CONTEXTS_MAX == ch->ctx) {
			f->marked = true;
			n++;
		}
	}
	return n;
}

/* One of them came back. */
void
registration_unmarked(struct engine *e, struct channel *ch)
{
	struct rma_context *r = rma_context(ch);

	if (r->region.waits == 0 || --r->region.waits != 0)
		return;
	r->region.due = true;
	service_has_results(e, ch, RMA_SERVICE);
}

/* A client registers a region, or ends it. */
void
registration_submit(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct rma_context *remote = rma_context(ch);
	uint64_t key = s->region.key;
	int result = 0;

	if (s->op == SUBMIT_REGISTER) {
		result = region_register(e, ch, s, &key);
	} else {
		struct region *region = region_find(&rma_lane(e)->regions, key);

		if (region == NULL || region->ctx != ch->ctx) {
			result = -ENOKEY;
		} else if (unlikely(remote->pins != 0) && pinned_by_others(e, ch, key)) {
			result = -EBUSY;
		} else {
			dma_drain(e);
			remote->region.waits = region_mark_readers(e, ch, region->memory);
			region_remove(&rma_lane(e)->regions, region);
			remote->regions--;
			requests_fail(e, ch, reads_region, &key, ENOKEY);
		}
	}
	remote->region.due = remote->region.waits == 0;
	remote->region.ticket = s->region.ticket;
	remote->region.error = (uint32_t)-result;
	remote->region.key = key;
	if (remote->region.due)
		service_has_results(e, ch, RMA_SERVICE);
}

void
regions_close(struct engine *e, struct channel *ch)
{
	struct region *region;
	uint32_t at = 0;

	pinned_ends(e, ch, 0);
	while ((region = region_of(&rma_lane(e)->regions, ch->ctx, &at)) != NULL)
		region_remove(&rma_lane(e)->regions, region);
	rma_context(ch)->regions = 0;
}
