/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Translates parts of memory from the application's description to that of lib/rma/part.h, and
 * packs them.
 */
#include "rma/client/rma.h"
#include "core/wire/wire.h"

void
layout_part(const struct pmx_part *from, const void *local, uint64_t len, struct part *p)
{
	*p = (struct part){.kind = PART_BASIC, .bytes = len};
	switch (from->kind) {
	case PMX_PART_STRIDE:
		p->kind = PART_STRIDE;
		p->stride.dims = from->dims;
		p->stride.block = from->block;
		memcpy(p->stride.interval, from->interval, sizeof(p->stride.interval));
		memcpy(p->stride.count, from->count, sizeof(p->stride.count));
		break;
	case PMX_PART_BITMAP:
		p->kind = PART_BITMAP;
		p->bitmap.unit = from->unit;
		p->bitmap.bits = from->bits;
		break;
	case PMX_PART_DIFF:
		p->kind = PART_DIFF;
		p->diff.now = local;
		p->diff.twin = from->twin;
		break;
	case PMX_PART_TWIN:
		break;
	}
}

const char *
pmx_part_problem(const struct pmx_part *part, uint64_t len)
{
	struct part p;

	if (part->kind < PMX_PART_STRIDE || part->kind > PMX_PART_TWIN)
		return "no such kind of part";
	if (part->kind == PMX_PART_TWIN)
		return part->twin ? NULL : "there is no place for a twin";
	/* part_check() wants local bytes: any address that is not NULL will do */
	layout_part(part, part->twin, len, &p);
	return part_check(&p);
}

/* ------------------------------------------------------------------ packing */

void
runs_begin(struct runs *r, const struct pmx_part *part, const void *local, uint64_t len,
	const struct part_run *within)
{
	struct part p = {.kind = PART_BASIC, .bytes = len};

	if (part != NULL)
		layout_part(part, local, len, &p);
	r->local = local;
	r->from = within != NULL ? within->offset : 0;
	r->until = within != NULL ? within->offset + within->len : len;
	r->run = (struct part_run){0, 0};
	part_begin(&r->it, &p);
	part_seek(&r->it, r->from);
}

bool
runs_next(struct runs *r, uint64_t *at)
{
	while (r->run.len == 0) {
		if (!part_next(&r->it, &r->run) || r->run.offset >= r->until) {
			r->run.len = 0;
			r->it.done = true;
			return false;
		}
		const uint64_t end = r->run.offset + r->run.len,
			       first = r->run.offset > r->from ? r->run.offset : r->from,
			       last = end < r->until ? end : r->until;

		r->run = (struct part_run){first, last > first ? last - first : 0};
	}
	*at = r->run.offset;
	return true;
}

uint32_t
runs_pack(struct runs *r, uint8_t *to, uint32_t room, uint64_t *end)
{
	uint32_t used = 0;
	uint64_t at;

	while (room - used > sizeof(struct wire_run) && runs_next(r, &at) &&
		at - *end <= UINT32_MAX) {
		const uint32_t left = room - used - (uint32_t)sizeof(struct wire_run);
		const uint32_t len = r->run.len < left ? (uint32_t)r->run.len : left;
		const struct wire_run head = {wire_be32((uint32_t)(at - *end)), wire_be32(len)};

		if (to != NULL) {
			memcpy(to + used, &head, sizeof(head));
			memcpy(to + used + sizeof(head), r->local + at, len);
		}
		used += (uint32_t)sizeof(head) + len;
		*end = r->run.offset += len;
		r->run.len -= len;
	}
	return used;
}
