/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See layout.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "match/client/layout.h"
#include "rma/client/rma.h"
#include "core/wire/wire.h"

int
layout_make(struct match_layout *l, const struct pmx_matched *m, bool send)
{
	*l = (struct match_layout){
		.data = m->data,
		.len = m->len,
		.total = m->len,
		.part = m->part,
	};
	if (m->iov != NULL) {
		if (m->part != NULL)
			return -EINVAL;
		l->iov = m->iov;
		l->iov_count = m->iov_count;
		l->total = 0;
		for (uint32_t i = 0; i < m->iov_count; i++) {
			if (m->iov[i].iov_len > PART_BYTES_MAX - l->total ||
				(m->iov[i].iov_base == NULL && m->iov[i].iov_len > 0))
				return -EINVAL;
			l->total += m->iov[i].iov_len;
		}
		return 0;
	}
	if (m->len > PART_BYTES_MAX || (m->data == NULL && m->len > 0))
		return -EINVAL;
	if (m->part == NULL)
		return 0;
	if (m->part->kind == (send ? PMX_PART_TWIN : PMX_PART_DIFF))
		return -EOPNOTSUPP;
	/* the distance between runs must fit 32 bits */
	if (pmx_part_problem(m->part, m->len) != NULL ||
		(m->part->kind == PMX_PART_DIFF && m->len > UINT32_MAX))
		return -EINVAL;
	if (m->part->kind == PMX_PART_STRIDE || m->part->kind == PMX_PART_BITMAP) {
		struct part p;

		layout_part(m->part, m->data, m->len, &p);
		l->total = part_total(&p);
	}
	return 0;
}

/* ------------------------------------------------------------------ piece by piece */

void
cursor_begin(struct cursor *c, const struct match_layout *l)
{
	c->l = l;
	c->i = 0;
	c->at = l->data;
	c->left = l->len;
	if (l->iov != NULL) {
		c->left = 0;
	} else if (l->part != NULL && l->part->kind != PMX_PART_TWIN) {
		struct part p;

		layout_part(l->part, l->data, l->len, &p);
		part_begin(&c->it, &p);
		c->left = 0;
	}
}

/* Go to the next piece if the current one is used up. false: there is none. */
static bool
next(struct cursor *c)
{
	const struct match_layout *l = c->l;

	while (c->left == 0) {
		struct part_run run;

		if (l->iov != NULL) {
			if (c->i == l->iov_count)
				return false;
			c->at = l->iov[c->i].iov_base;
			c->left = l->iov[c->i++].iov_len;
		} else if (l->part != NULL && l->part->kind != PMX_PART_TWIN &&
			part_next(&c->it, &run)) {
			c->at = l->data + run.offset;
			c->left = run.len;
		} else {
			return false;
		}
	}
	return true;
}

static inline uint64_t
layout_take(struct cursor *c, uint64_t n)
{
	n = n < c->left ? n : c->left;
	c->at += n;
	c->left -= n;
	return n;
}

uint64_t
cursor_gather(struct cursor *c, void *bytes, uint64_t n)
{
	uint64_t done = 0;

	while (done < n && next(c)) {
		const uint8_t *from = c->at;
		uint64_t k = layout_take(c, n - done);

		memcpy((uint8_t *)bytes + done, from, k);
		done += k;
	}
	return done;
}

uint64_t
cursor_scatter(struct cursor *c, const void *bytes, uint64_t n)
{
	uint64_t done = 0;

	while (done < n && next(c)) {
		uint8_t *to = c->at;
		uint64_t k = layout_take(c, n - done);

		memcpy(to, (const uint8_t *)bytes + done, k);
		done += k;
	}
	return done;
}

/* ------------------------------------------------------------------ diff */

int64_t
layout_diff(const struct match_layout *l, uint8_t **runs)
{
	uint8_t *out = NULL;
	uint64_t used = 0, room = 0, end = 0;
	struct part_iterator it;
	struct part_run run;
	struct part p;

	layout_part(l->part, l->data, l->len, &p);
	part_begin(&it, &p);
	while (part_next(&it, &run)) {
		const struct wire_run head = {wire_be32((uint32_t)(run.offset - end)),
			wire_be32((uint32_t)run.len)};

		if (used + sizeof(head) + run.len > room) {
			room = 2 * room + sizeof(head) + run.len;
			uint8_t *more = realloc(out, room);

			if (more == NULL) {
				free(out);
				return -ENOMEM;
			}
			out = more;
		}
		memcpy(out + used, &head, sizeof(head));
		memcpy(out + used + sizeof(head), l->data + run.offset, run.len);
		used += sizeof(head) + run.len;
		end = run.offset + run.len;
	}
	*runs = out;
	if (used <= UINT32_MAX)
		return (int64_t)used;
	free(out);
	return -EINVAL;
}

void
layout_sent(const struct match_layout *l, const void *runs, uint64_t len)
{
	struct wire_runs r = {runs, (uint32_t)len, 0, 0, 0};
	const uint8_t *bytes;

	while ((bytes = wire_run_next(&r)) != NULL)
		memcpy((uint8_t *)l->part->twin + r.at, bytes, r.len);
}

int
layout_place(const struct match_layout *l, const void *runs, uint64_t len, uint64_t *span)
{
	struct wire_runs r = {runs, (uint32_t)len, 0, 0, 0};
	const uint8_t *bytes;

	*span = 0;
	while ((bytes = wire_run_next(&r)) != NULL) {
		*span = r.end;
		if (r.end > l->len)
			return -EMSGSIZE;
		memcpy(l->data + r.at, bytes, r.len);
	}
	return r.left == 0 ? 0 : -EPROTO;
}
