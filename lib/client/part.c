/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Translates parts of memory from the application's description to that of lib/rma/part.h.
 */
#include "client/client.h"

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
