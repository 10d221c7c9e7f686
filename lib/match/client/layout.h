/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the bytes of a matched message come from or go to: one piece, several (iovec), or parts of
 * one. A cursor walks it piece by piece. Used by one thread.
 */
#ifndef PMX_LAYOUT_H
#define PMX_LAYOUT_H

#include <sys/uio.h>

#include "client/client.h"
#include "rma/part.h"

struct match_layout {
	uint8_t *data;
	uint64_t len;   /* bytes that it spans */
	uint64_t total; /* bytes of the message that it holds or has room for; DIFF: not known */
	const struct iovec *iov;
	uint32_t iov_count;
	const struct pmx_part *part; /* NULL: all bytes; a TWIN is all bytes, too */
};

struct cursor {
	const struct match_layout *l;
	struct part_iterator it;
	uint32_t i;
	uint8_t *at; /* the rest of the current piece */
	uint64_t left;
};

/* Make a layout of what an application describes. 0, or -EINVAL or -EOPNOTSUPP for the caller of
 * the verb. */
int layout_make(struct match_layout *l, const struct pmx_matched *m, bool send);
/* Return whether the layout is one piece without any part. */
static inline bool
layout_is_plain(const struct match_layout *l)
{
	return l->iov == NULL && l->part == NULL;
}
void cursor_begin(struct cursor *c, const struct match_layout *l);
/* Copy the next n bytes, or as many as there are, to or from `bytes`. Return how many. */
uint64_t cursor_gather(struct cursor *c, void *bytes, uint64_t n);
uint64_t cursor_scatter(struct cursor *c, const void *bytes, uint64_t n);
/* Collect what differs from the twin, as runs. Return how many bytes these have, and in *runs
 * malloc()ed memory that the caller frees; -ENOMEM; or -EINVAL if they are more than 4 GiB. */
int64_t layout_diff(const struct match_layout *l, uint8_t **runs);
/* Update the twin by those runs, whatever the local bytes are by now. */
void layout_sent(const struct match_layout *l, const void *runs, uint64_t len);
/* Copy runs to their places. Return 0 and in *span how far they reach; -EPROTO if they are
 * malformed, -EMSGSIZE if one does not fit. */
int layout_place(const struct match_layout *l, const void *runs, uint64_t len, uint64_t *span);

#endif
