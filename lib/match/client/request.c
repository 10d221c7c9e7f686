/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive requests that have a message, whether this thread or the engine matched it: see match.h.
 */
#include <errno.h>
#include <string.h>

#include "match/client/match.h"

int
receive_place(struct match_request *r, const uint8_t *bytes, uint64_t len)
{
	const struct match_layout *l = &r->layout;
	struct cursor c;

	if (unlikely(r->flags & WIRE_M_RUNS)) {
		if (l->iov != NULL || (l->part != NULL && l->part->kind != PMX_PART_TWIN))
			return -EOPNOTSUPP;
		return layout_place(l, bytes, len, &r->status.len);
	}
	cursor_begin(&c, l);
	return cursor_scatter(&c, bytes, len) < len ? -EMSGSIZE : 0;
}

void
receive_complete(struct pmx_context *ctx, struct match_request *r, int error)
{
	const struct match_layout *l = &r->layout;

	if (l->part != NULL && l->part->kind == PMX_PART_TWIN && (error == 0 || error == -EMSGSIZE))
		memcpy(l->part->twin, l->data, l->len);
	request_end(ctx, r, error);
}
