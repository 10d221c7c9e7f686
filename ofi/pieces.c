/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long messages between nodes in pieces: while one is on the wire, another is copied to or from the
 * memory that the engine reaches, and none needs as much of that memory as the message has bytes.
 *
 * Design notes
 * 1. Both sides know by its length and the sender's node that a message is in pieces. It is
 *    promised (promise.c), and its receiver asks for it; then PIECES_OUT pieces at a time are
 *    messages of their own, which match in their order.
 * 2. A piece is an operation of its own, of the role MESSAGE_PIECE, whose `whole` is that of the
 *    message. That one ends when no piece is under way and none is left.
 * 3. A piece that does not fit the receive any more is received as far as it does.
 * 4. What fails at one side is told there at the end: until then the side that failed goes on with
 *    pieces of no bytes, so that the other one ends as well. A receiver that gets fewer bytes of a
 *    piece than it has fails, too.
 */
#include <errno.h>

#include "op.h"

#define PIECE_BYTES (16u << 20)
#define PIECES_OUT  2
#define LEAST       (2 * PIECE_BYTES)

bool
pieces_apply(const struct endpoint *ep, uint16_t node, uint64_t len)
{
	return len >= LEAST && node != ep->name.node;
}

static bool
is_send(const struct ofi_op *op)
{
	return (op->flags & FI_SEND) != 0;
}

static uint64_t
bytes_in_all(const struct ofi_op *op)
{
	return is_send(op) ? op->len : op->promise.len;
}

/* Set the place of a piece: [at, at + len) of the message, as far as it has one here. */
static void
pieces_place(const struct ofi_op *op, uint64_t at, uint64_t len, struct ofi_op *piece)
{
	const struct iovec one = {is_send(op) ? op->m.data : op->buf, op->len};
	const struct iovec *all = &one;
	unsigned count = 1, n = 0;

	if (is_send(op) && op->m.iov != NULL) {
		all = op->m.iov;
		count = op->m.iov_count;
	} else if (!is_send(op) && op->pieces != 0) {
		all = op->iov;
		count = op->pieces;
	}
	for (unsigned i = 0; op->error == 0 && i < count && len != 0; i++) {
		const uint64_t skipped = at < all[i].iov_len ? at : all[i].iov_len;
		const uint64_t left = all[i].iov_len - skipped, used = left < len ? left : len;

		at -= skipped;
		len -= used;
		if (used != 0)
			piece->iov[n++] = (struct iovec){(uint8_t *)all[i].iov_base + skipped,
				used};
	}
	piece->m.iov = piece->iov;
	piece->m.iov_count = n;
	if (n <= 1) {
		piece->m.iov = NULL;
		piece->m.data = n != 0 ? piece->iov[0].iov_base : NULL;
		piece->m.len = n != 0 ? piece->iov[0].iov_len : 0;
	}
}

/* Begin the next piece. Return 0, or an error: is_busy() says whether there is only no room now. */
static int
begin_one(struct endpoint *ep, struct ofi_op *op)
{
	const uint64_t left = bytes_in_all(op) - op->pieces_at;
	const uint64_t len = left < PIECE_BYTES ? left : PIECE_BYTES;
	struct ofi_op *piece = op_take(ep);

	if (piece == NULL)
		return -EAGAIN;
	piece->role = MESSAGE_PIECE;
	piece->whole = op;
	piece->silent = true;
	piece->flags = op->flags;
	piece->context = NULL;
	piece->m = (struct pmx_matched){
		.peer = is_send(op) ? op->m.peer : op->promise.source,
		.comm = is_send(op) ? op->m.comm : comm_of(ep->incarnation, COMM_BULK),
		.tag = is_send(op) ? op->m.tag : op->bulk_tag,
		.flags = PMX_QUEUED | (is_send(op) ? op->m.flags & ~PMX_SYNC : 0),
		.cookie = (uintptr_t)piece,
	};
	piece->len = len;
	pieces_place(op, op->pieces_at, len, piece);
	const int result = is_send(op) ? pmx_isend(ep->ctx, &piece->m, &piece->request)
				       : pmx_irecv(ep->ctx, &piece->m, &piece->request);

	if (result != 0) {
		op_free(ep, piece);
		return result;
	}
	piece->begun = true;
	op->pieces_at += len;
	op->pieces_out++;
	return 0;
}

bool
pieces_begin(struct endpoint *ep, struct ofi_op *op)
{
	op->pieces_wait = false;
	while (op->pieces_out < PIECES_OUT && op->pieces_at < bytes_in_all(op)) {
		const int result = begin_one(ep, op);

		if (result == 0)
			continue;
		if (is_busy(result) || op->error != 0) {
			op->pieces_wait = true;
			return false;
		}
		op->error = result; /* the rest has no bytes */
	}
	return true;
}

/* Return how a piece has ended: 0, or a negative errno. What is cut is told of the whole. */
static int
result_of(const struct ofi_op *piece, const struct pmx_status *status)
{
	if (status->error != 0)
		return status->error == -EMSGSIZE ? 0 : status->error;
	return is_send(piece) || status->len == piece->len ? 0 : -ECONNABORTED;
}

bool
piece_ended(struct endpoint *ep, struct ofi_op *piece, const struct pmx_status *status)
{
	struct ofi_op *op = piece->whole;
	const int error = result_of(piece, status);

	op_free(ep, piece);
	op->pieces_out--;
	if (error != 0 && op->error == 0)
		op->error = error;
	if (ep->gone)
		return op->pieces_out == 0;
	if (!op->pieces_wait && !pieces_begin(ep, op))
		op_append(is_send(op) ? &ep->ready : &ep->late, op);
	return op->pieces_out == 0 && !op->pieces_wait && op->pieces_at == bytes_in_all(op);
}

static void
cancel_one(struct endpoint *ep, struct ofi_op *op, void *whole)
{
	if (op->role == MESSAGE_PIECE && op->whole == whole)
		pmx_cancel(ep->ctx, op->request);
}

void
pieces_cancel(struct endpoint *ep, struct ofi_op *op)
{
	/* nobody will send the rest */
	op->pieces_at = bytes_in_all(op);
	op_each(ep, cancel_one, op);
}
