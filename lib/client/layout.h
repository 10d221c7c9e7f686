/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the bytes of a matched message come from or go to: one piece, several (iovec), or parts of
 * one. Walked piece by piece. Belongs to one thread.
 */
#ifndef PMX_LAYOUT_H
#define PMX_LAYOUT_H

#include <sys/uio.h>

#include "client/client.h"

struct layout {
	uint8_t *data;
	uint64_t len;   /* that it spans */
	uint64_t total; /* bytes of the message that it has, or has room for; DIFF: not
			 * known */
	const struct iovec *iov;
	uint32_t iov_count;
	const struct pmx_part *part; /* NULL: all bytes. TWIN is all bytes, too */
};

struct cursor {
	const struct layout *l;
	struct part_iterator it;
	uint32_t i;
	uint8_t *at; /* what is left of the piece at hand */
	uint64_t left;
};

/* 0, or -EINVAL, -EOPNOTSUPP: what a verb's caller is told. */
int layout_make(struct layout *l, const struct pmx_matched *m, bool send);
/* All of it is one piece, and that is all there is to do. */
static inline bool
layout_is_plain(const struct layout *l)
{
	return l->iov == NULL && l->part == NULL;
}
void cursor_begin(struct cursor *c, const struct layout *l);
/* The next n bytes, or as many as there are, to or from `bytes`; how many. */
uint64_t cursor_gather(struct cursor *c, void *bytes, uint64_t n);
uint64_t cursor_scatter(struct cursor *c, const void *bytes, uint64_t n);
/* What differs from the twin, as runs, in memory of malloc: their bytes; -ENOMEM, -EINVAL: more
 * than 4 GiB. */
int64_t layout_diff(const struct layout *l, uint8_t **runs);
/* The twin becomes what those runs say, whatever the bytes are by now. */
void layout_sent(const struct layout *l, const void *runs, uint64_t len);
/* Runs go to their places. 0 and what they span, or -EPROTO, -EMSGSIZE: one does not fit. */
int layout_place(const struct layout *l, const void *runs, uint64_t len, uint64_t *span);

#endif
