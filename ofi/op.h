/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations of an endpoint, and the completions in which they end. All functions are called with
 * the domain's lock (design note 4 of provider.h).
 *
 * Design notes
 * 1. Operations are in chunks that never move, so that libpmx's cookie can be an operation's
 *    address, and fi_cancel() can find one by its caller's context. That is a walk over all of
 *    them, which is rare; posting and ending need no list.
 * 2. What is on the way of each message is inline here.
 */
#ifndef OFI_OP_H
#define OFI_OP_H

#include <stdlib.h>

#include "provider.h"

/* ------------------------------------------------------------------ operations */

/* Add a chunk of free operations to the endpoint; false if memory is short. */
bool op_chunk_new(struct endpoint *ep);

/* Take a free operation for a message, with the fields reset that a message of the application
 * does not set, or NULL if memory is short. */
static inline struct ofi_op *
op_take(struct endpoint *ep)
{
	if (unlikely(ep->free == NULL) && !op_chunk_new(ep))
		return NULL;
	struct ofi_op *op = ep->free;

	ep->free = op->next;
	op->used = true;
	op->begun = op->is_long = op->multi = op->silent = op->asked = op->late = op->cancelled =
		false;
	op->number = 0;
	op->role = 0;
	op->error = 0;
	op->seen = false;
	op->pieces = 0;
	op->pieces_at = 0;
	op->pieces_out = 0;
	op->pieces_wait = false;
	op->request = 0;
	op->copy = NULL;
	return op;
}

/* Return an operation with nothing set but `used`, or NULL if memory is short. */
struct ofi_op *op_new(struct endpoint *ep);
/* Free all memory of the endpoint's operations. */
void op_free_all(struct endpoint *ep);
/* Give a send a number by which it can be promised; false if all are in use, or memory is short. */
bool op_number(struct endpoint *ep, struct ofi_op *op);
/* Give the number back. */
void op_unnumber(struct endpoint *ep, struct ofi_op *op);

/* Give back an operation, with its copied bytes and the number by which it was promised. */
static inline void
op_free(struct endpoint *ep, struct ofi_op *op)
{
	if (unlikely(op->copy != NULL))
		free(op->copy);
	ep->longs -= op->is_long;
	if (unlikely(op->number != 0))
		op_unnumber(ep, op);
	op->used = false;
	op->next = ep->free;
	ep->free = op;
}

/* Call `call` for each operation that is in use; it may end the operation. */
void op_each(struct endpoint *ep, void (*call)(struct endpoint *, struct ofi_op *, void *),
	void *arg);
/* Return a receive that the application posted with that context, or NULL. */
struct ofi_op *op_find_receive(const struct endpoint *ep, const void *context);

/* Put an operation at the end of a list, or at its beginning, or take it out if it is there. */
void op_append(struct ofi_op_list *l, struct ofi_op *op);
void op_prepend(struct ofi_op_list *l, struct ofi_op *op);
void op_remove(struct ofi_op_list *l, struct ofi_op *op);

/* Count the bytes of a message's pieces. */
static inline uint64_t
bytes_of(const struct iovec *iov, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* Copy the message into the operation, with the list of its pieces: libpmx borrows that until the
 * operation has ended, and what waits is begun later. */
void op_keep(struct ofi_op *op, const struct pmx_matched *m);
/* Gather the bytes of op->m in a copy, since the caller may change them; false if memory is
 * short. */
bool op_keep_bytes(struct ofi_op *op);

/* Say whether libpmx may take later what it refused now. */
static inline bool
is_busy(int result)
{
	return result == -EAGAIN || result == -ENOBUFS;
}

/* ------------------------------------------------------------------ completions */

/* Return a place at the end of the queue, whose fields the caller sets, or NULL if memory is
 * short. */
struct ofi_completion *completion_new(struct cq *cq);

/* Return the queue to which operations with those flags report, or NULL. */
static inline struct cq *
completion_cq(const struct endpoint *ep, uint64_t flags)
{
	return flags & (FI_RECV | FI_REMOTE_WRITE) ? ep->rx_cq : ep->tx_cq;
}

/* Count an operation with those flags that ended. */
static inline void
completion_count(const struct endpoint *ep, uint64_t flags, bool error)
{
	enum cntr_kind kind = flags & FI_SEND ? CNTR_SENDS
		: flags & FI_RECV             ? CNTR_RECEIVES
		: flags & FI_WRITE            ? CNTR_WRITES
					      : CNTR_READS;

	cntr_count(ep->cntrs[kind], error);
}

/* Warn that memory is short for a completion. */
void completion_lost(void);

/* Write the completion of a success to the queue of those flags. status: what it says of a received
 * message, or NULL for a send, whose completion has its context alone. */
static inline void
completion_put(const struct endpoint *ep, uint64_t flags, void *context, void *buf,
	const struct pmx_status *status)
{
	struct cq *cq = completion_cq(ep, flags);
	struct ofi_completion *c = cq != NULL ? completion_new(cq) : NULL;

	if (unlikely(c == NULL)) {
		if (cq != NULL)
			completion_lost();
		return;
	}
	c->err = 0;
	c->entry.op_context = context;
	c->entry.flags = flags;
	c->entry.buf = buf;
	c->entry.data = 0;
	if (status == NULL) {
		c->entry.len = 0;
		c->entry.tag = 0;
		c->source = FI_ADDR_NOTAVAIL;
		return;
	}
	c->entry.len = status->len;
	c->entry.tag = status->tag;
	if (status->flags & PMX_IMMEDIATE) {
		c->entry.flags |= FI_REMOTE_CQ_DATA;
		c->entry.data = status->immediate;
	}
	c->source = ep->caps & FI_SOURCE ? av_find(ep->av, status->source) : FI_ADDR_NOTAVAIL;
}

/* Count and write a failure. room: bytes that the receive could take. status: what is known of the
 * message, or NULL. error: negative errno of libpmx, as fi_cq_readerr() tells it in prov_errno. */
void completion_fail(const struct endpoint *ep, uint64_t flags, void *context, void *buf,
	size_t room, const struct pmx_status *status, int error);

/* End the operation with a success, or with an error (negative errno of libpmx). */
void op_succeeds(struct endpoint *ep, struct ofi_op *op);
void op_fails(struct endpoint *ep, struct ofi_op *op, int error);

#endif
