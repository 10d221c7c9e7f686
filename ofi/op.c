/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations of an endpoint, and their completions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

#define CHUNK_OPS   64
#define NUMBERS_MAX 0x8000u /* of promises: labels have 15 bits for them */

struct op_chunk {
	struct op_chunk *next;
	struct ofi_op ops[CHUNK_OPS];
};

/* ------------------------------------------------------------------ operations */

bool
op_chunk_new(struct endpoint *ep)
{
	struct op_chunk *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return false;
	c->next = ep->chunks;
	ep->chunks = c;
	for (unsigned i = 0; i < CHUNK_OPS; i++) {
		c->ops[i].next = ep->free;
		ep->free = &c->ops[i];
	}
	return true;
}

struct ofi_op *
op_new(struct endpoint *ep)
{
	struct ofi_op *op = op_take(ep);

	if (likely(op != NULL)) {
		*op = (struct ofi_op){.used = true};
	}
	return op;
}

bool
op_number(struct endpoint *ep, struct ofi_op *op)
{
	struct promises *p = &ep->promises;

	if (p->used + 1 >= p->room) {
		uint32_t room = p->room ? p->room * 2 : 64;
		struct ofi_op **ops = room <= NUMBERS_MAX
			? realloc(p->ops, room * sizeof(struct ofi_op *))
			: NULL;

		if (ops == NULL)
			return false;
		for (uint32_t i = p->room; i < room; i++)
			ops[i] = NULL;
		p->ops = ops;
		p->room = room;
	}
	/* more than one is free, and 0 is none */
	do
		p->last = p->last + 1 < p->room ? p->last + 1 : 1;
	while (p->ops[p->last] != NULL);
	p->ops[p->last] = op;
	p->used++;
	op->number = (uint16_t)p->last;
	return true;
}

void
op_unnumber(struct endpoint *ep, struct ofi_op *op)
{
	struct promises *p = &ep->promises;

	p->ops[op->number] = NULL;
	p->used--;
	op->number = 0;
	/* matching is fastest where nothing else is posted */
	if (p->used == 0 && p->awaits)
		pmx_cancel(ep->ctx, p->asks);
}

void
op_free_all(struct endpoint *ep)
{
	for (struct op_chunk *c = ep->chunks, *next; c != NULL; c = next) {
		next = c->next;
		for (unsigned i = 0; i < CHUNK_OPS; i++) {
			if (!c->ops[i].used)
				continue;
			free(c->ops[i].copy);
			if (c->ops[i].role == RMA_SERVICE && c->ops[i].mr != NULL)
				c->ops[i].mr->users--;
		}
		free(c);
	}
	free(ep->promises.ops);
	free(ep->transfers.ops);
	free(ep->transfers.uses);
}

void
op_each(struct endpoint *ep, void (*call)(struct endpoint *, struct ofi_op *, void *), void *arg)
{
	for (struct op_chunk *c = ep->chunks; c != NULL; c = c->next) {
		for (unsigned i = 0; i < CHUNK_OPS; i++) {
			if (c->ops[i].used)
				call(ep, &c->ops[i], arg);
		}
	}
}

struct ofi_op *
op_find_receive(const struct endpoint *ep, const void *context)
{
	for (struct op_chunk *c = ep->chunks; c != NULL; c = c->next) {
		for (unsigned i = 0; i < CHUNK_OPS; i++) {
			struct ofi_op *op = &c->ops[i];

			if (op->used && !op->silent && op->context == context &&
				op->flags & FI_RECV)
				return op;
		}
	}
	return NULL;
}

void
op_append(struct ofi_op_list *l, struct ofi_op *op)
{
	op->next = NULL;
	if (l->head == NULL)
		l->head = op;
	else
		l->tail->next = op;
	l->tail = op;
}

void
op_prepend(struct ofi_op_list *l, struct ofi_op *op)
{
	op->next = l->head;
	if (l->head == NULL)
		l->tail = op;
	l->head = op;
}

void
op_remove(struct ofi_op_list *l, struct ofi_op *op)
{
	struct ofi_op *before = NULL, *at = l->head;

	for (; at != NULL && at != op; at = at->next)
		before = at;
	if (at == NULL)
		return;
	if (before == NULL)
		l->head = op->next;
	else
		before->next = op->next;
	if (l->tail == op)
		l->tail = before;
}

void
op_keep(struct ofi_op *op, const struct pmx_matched *m)
{
	op->m = *m;
	if (m->iov != NULL) {
		memcpy(op->iov, m->iov, m->iov_count * sizeof(*m->iov));
		op->m.iov = op->iov;
	}
}

bool
op_keep_bytes(struct ofi_op *op)
{
	const struct iovec one = {op->m.data, op->m.len};
	const struct iovec *iov = op->m.iov != NULL ? op->m.iov : &one;
	size_t count = op->m.iov != NULL ? op->m.iov_count : 1;
	uint64_t len = bytes_of(iov, count);
	uint8_t *to = malloc(len ? len : 1);

	if (to == NULL)
		return false;
	op->copy = to;
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len != 0)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	op->m.iov = NULL;
	op->m.iov_count = 0;
	op->m.data = op->copy;
	op->m.len = len;
	return true;
}

/* ------------------------------------------------------------------ completions */

static bool
ring_grow(struct cq *cq)
{
	uint32_t places = (cq->mask + 1) * 2;
	struct ofi_completion *ring = malloc(places * sizeof(*ring));

	if (ring == NULL)
		return false;
	for (uint32_t at = cq->tail; at != cq->head; at++)
		ring[at & (places - 1)] = cq->ring[at & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = places - 1;
	return true;
}

struct ofi_completion *
completion_new(struct cq *cq)
{
	if (unlikely(cq->head - cq->tail > cq->mask) && !ring_grow(cq))
		return NULL;
	return &cq->ring[cq->head++ & cq->mask];
}

void
completion_lost(void)
{
	OFI_WARN(CQ, "out of memory: a completion is lost\n");
}

void
completion_fail(const struct endpoint *ep, uint64_t flags, void *context, void *buf, size_t room,
	const struct pmx_status *status, int error)
{
	struct cq *cq = completion_cq(ep, flags);
	struct ofi_completion *c = cq != NULL ? completion_new(cq) : NULL;
	bool truncated = error == -EMSGSIZE && flags & FI_RECV;

	completion_count(ep, flags, true);
	if (c == NULL)
		return;
	*c = (struct ofi_completion){
		.entry.op_context = context,
		.entry.flags = flags,
		.entry.buf = buf,
		.entry.len = truncated ? room : 0,
		.entry.tag = status != NULL ? status->tag : 0,
		.source = FI_ADDR_NOTAVAIL,
		.olen = truncated ? status->len - room : 0,
		.err = truncated           ? FI_ETRUNC
			: error == -ENOKEY ? FI_ENOKEY
					   : -error,
		.prov_errno = -error,
	};
}

void
op_succeeds(struct endpoint *ep, struct ofi_op *op)
{
	completion_count(ep, op->flags, false);
	if (op->reports)
		completion_put(ep, op->flags, op->context, NULL, NULL);
	op_free(ep, op);
}

void
op_fails(struct endpoint *ep, struct ofi_op *op, int error)
{
	completion_fail(ep, op->flags, op->context, NULL, 0, NULL, error);
	op_free(ep, op);
}
