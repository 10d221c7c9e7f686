/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Setting up the ends of an LHS ring. Called once by each side before it uses the ring.
 */
#include "core/lhs/lhs.h"

bool
lhs_config_ok(const struct lhs_config *c)
{
	uint32_t room = c->entry_bytes - LHS_ENVELOPE_BYTES;

	if (c->entry_bytes != 64 && c->entry_bytes != LHS_ENTRY_MAX)
		return false;
	if (c->entries == 0 || c->entries > 1u << 20 || (c->entries & (c->entries - 1)))
		return false;
	if (c->size_offset == LHS_SIZE_OFFSET)
		return c->split <= room;
	return c->size_offset % 4 == 0 && c->size_offset >= LHS_ENVELOPE_BYTES &&
		c->size_offset <= c->entry_bytes - 4 &&
		c->split <= c->size_offset - LHS_ENVELOPE_BYTES;
}

void
lhs_end_init(struct lhs_end *end, const struct lhs_config *c, void *memory)
{
	*end = (struct lhs_end){
		.base = memory,
		.mask = c->entries - 1,
		.shift = c->entry_bytes == 64 ? 6 : 7,
		.split = c->split,
		.size_offset = c->size_offset,
	};
}
