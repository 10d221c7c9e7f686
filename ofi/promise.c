/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long messages that libpmx cannot offer now, since all places or buffers for that are taken: they
 * are promised. So they hold up nothing that is sent after them, and keep their place in the order
 * in which messages match (PM-MPI: posting never deadlocks).
 *
 * Design notes
 * 1. A promise is a message without bytes, of the communicator and tag of the promised one, whose
 *    label is a number of its sender's. Before it comes, to the communicator COMM_CONTROL, what
 *    else there is to say: the length and the sender's incarnation. Both are in one flow, so that
 *    who has the promise has that as well.
 * 2. The receive that takes a promise posts another one for the bytes (COMM_BULK, tagged with the
 *    number and the sender's incarnation), and tells the sender, which sends them then
 *    (PMX_EXPECTED). A long message whose receive is posted needs its sender's places only for a
 *    while, so those that are ready can wait for each other.
 * 3. Between processes of one host the first message also says where the bytes are in the sender's
 *    memory. If the receiver can read them there (direct.c), it does, and tells the sender that it
 *    has them. So long messages between such processes are promised always.
 * 4. Other control messages have no bytes, and a tag of their own: their number, the incarnation of
 *    a promise's sender, and OFI_TAG_GO in those that ask for the bytes.
 */
#include <errno.h>
#include <stdlib.h>

#include "op.h"

#define TAG_NUMBER 0x7FFFull
#define TAG_DONE   (1ull << 61)
#define TAG_SHIFT  16 /* of the incarnation */

/* ------------------------------------------------------------------ sender */

/* Post the receive of messages that ask for what was promised, unless it is posted. Return 0 or an
 * error as of pmx_irecv(). */
static int
await_go(struct endpoint *ep)
{
	const struct pmx_matched m = {
		.peer = PMX_ANY_SOURCE,
		.comm = comm_of(ep->incarnation, COMM_CONTROL),
		.flags = PMX_QUEUED,
		.tag = OFI_TAG_GO,
		.ignore = OFI_TAG_GO - 1,
		.cookie = OFI_COOKIE_GO,
	};
	int result = ep->promises.awaits ? 0 : pmx_irecv(ep->ctx, &m, &ep->promises.asks);

	ep->promises.awaits |= result == 0;
	return result;
}

bool
promise_is_direct(const struct endpoint *ep, const struct ofi_op *op)
{
	return op->is_long && ep->longs > 1 && op->number == 0 && !op->asked &&
		op->m.peer.node == ep->name.node && op->m.peer.context < 1024 &&
		ep->domain->apart[op->m.peer.context] != op->m.comm >> 2;
}

int
promise_send(struct endpoint *ep, struct ofi_op *op)
{
	struct direct_offer offer;
	struct pmx_matched control = {
		.peer = op->m.peer,
		.comm = comm_kind(op->m.comm, COMM_CONTROL),
		.flags = PMX_IMMEDIATE | PMX_COPY,
		.immediate = op->len,
		.data = &offer,
	};
	struct pmx_matched m = {
		.peer = op->m.peer,
		.comm = op->m.comm,
		.flags = PMX_IMMEDIATE,
		.tag = op->m.tag,
		.immediate = op->m.immediate,
	};
	int result = await_go(ep);

	if (result != 0)
		return result;
	if (op->number == 0) {
		if (!op_number(ep, op))
			return -EAGAIN;
		control.tag = (uint64_t)ep->incarnation << TAG_SHIFT | op->number;
		direct_describe(ep, &op->m, &offer);
		control.len = offer.pieces != 0
			? offsetof(struct direct_offer, iov) + offer.pieces * sizeof(*offer.iov)
			: 0;
		result = pmx_isend(ep->ctx, &control, NULL);
		if (result != 0) {
			op_unnumber(ep, op);
			return result;
		}
	}
	m.label = op->number | (op->m.flags & PMX_IMMEDIATE ? OFI_LABEL_DATA : 0);
	return pmx_isend(ep->ctx, &m, NULL);
}

void
promise_go(struct endpoint *ep, const struct pmx_status *status)
{
	uint32_t number = status->tag & TAG_NUMBER;
	struct ofi_op *op = number < ep->promises.room ? ep->promises.ops[number] : NULL;

	ep->promises.awaits = false;
	if (status->error == 0 && op != NULL && !op->asked && op->begun &&
		op->m.peer.node == status->source.node &&
		op->m.peer.context == status->source.context) {
		if (status->tag & TAG_DONE) {
			op_succeeds(ep, op);
			if (ep->promises.used != 0)
				await_go(ep);
			return;
		}
		if (op->m.peer.node == ep->name.node && op->m.peer.context < 1024)
			ep->domain->apart[op->m.peer.context] = op->m.comm >> 2;
		op->asked = true;
		op->begun = false;
		op->m.comm = comm_kind(op->m.comm, COMM_BULK);
		op->m.tag = (uint64_t)ep->incarnation << TAG_SHIFT | number;
		op->m.flags = (op->m.flags & ~PMX_IMMEDIATE) | PMX_EXPECTED;
		op_append(&ep->ready, op);
	}
	/* if there is no room for it now, the next progress posts it */
	if (ep->promises.used != 0)
		await_go(ep);
}

/* ------------------------------------------------------------------ receiver */

/* Return what to match for the message that a promise's sender sent before the promise (design note
 * 1), so as to probe for it or to receive it. */
static struct pmx_matched
details_of(const struct endpoint *ep, const struct pmx_status *promise)
{
	return (struct pmx_matched){
		.peer = promise->source,
		.comm = comm_of(ep->incarnation, COMM_CONTROL),
		.tag = promise->label & TAG_NUMBER,
		.ignore = (uint64_t)OFI_INCARNATION_MAX << TAG_SHIFT,
	};
}

bool
promise_details(struct endpoint *ep, struct pmx_status *promise, uint32_t *incarnation)
{
	const struct pmx_matched m = details_of(ep, promise);
	struct pmx_status details;

	if (pmx_iprobe(ep->ctx, &m, &details) != 1)
		return false;
	promise->len = details.immediate;
	*incarnation = (uint32_t)(details.tag >> TAG_SHIFT) & OFI_INCARNATION_MAX;
	return true;
}

/* The steps of a receive that has taken a promise; op->step is the next one. If the bytes were read
 * from the sender's memory, TELL and THERE take the place of POST, ASK and WAIT. */
enum { STEP_TAKE, STEP_POST, STEP_ASK, STEP_WAIT, STEP_TELL, STEP_THERE };

/* Take the message that came before the promise. If its sender is on this host, read the bytes from
 * its memory as well, where that can be. Return 0, or an error as of pmx_irecv(). */
static int
take_details(struct endpoint *ep, struct ofi_op *op)
{
	struct direct_offer offer = {.pieces = 0};
	struct pmx_matched m = details_of(ep, &op->promise);
	bool near = ep->direct != 0 && op->promise.source.node == ep->name.node;
	pmx_request request;
	int result;

	if (near) {
		m.data = &offer;
		m.len = sizeof(offer);
	} else { /* nobody waits for its end */
		m.flags = PMX_QUEUED;
		m.cookie = OFI_COOKIE_NONE;
	}
	result = pmx_irecv(ep->ctx, &m, near ? &request : NULL);
	if (result != 0)
		return result;
	/* it is there already, and its engine is ours */
	while (near && request != 0 && (result = pmx_test(ep->ctx, &request, NULL)) == 0)
		;
	if (result < 0)
		offer.pieces = 0;
	bool there = near &&
		direct_read(ep, op, op->promise.source, op->incarnation, op->promise.len, &offer);

	op->step = there ? STEP_TELL : STEP_POST;
	return 0;
}

bool
promise_is_awaited(const struct ofi_op *op)
{
	return op->late && op->step == STEP_WAIT;
}

/* Do what is next for a late receive; false if there is no room for it now. */
static bool
step(struct endpoint *ep, struct ofi_op *op)
{
	struct pmx_matched m;
	int result = 0;

	if (op->step == STEP_TAKE)
		result = take_details(ep, op);
	if (op->pieces_wait ||
		(op->step == STEP_POST && result == 0 &&
			pieces_apply(ep, op->promise.source.node, op->promise.len))) {
		pieces_begin(ep, op);
		/* with a piece posted the sender can begin, and make room for the others */
		if (op->step == STEP_POST && op->pieces_out != 0)
			op->step = STEP_ASK;
		result = op->step == STEP_POST ? -EAGAIN : 0;
	} else if (op->step == STEP_POST && result == 0) {
		m = (struct pmx_matched){
			.peer = op->promise.source,
			.comm = comm_of(ep->incarnation, COMM_BULK),
			.flags = PMX_QUEUED,
			.tag = op->bulk_tag,
			.data = op->buf,
			.len = op->len,
			.iov = op->pieces ? op->iov : NULL,
			.iov_count = op->pieces,
			.cookie = (uintptr_t)op,
		};
		result = pmx_irecv(ep->ctx, &m, &op->request);
		op->step += result == 0;
	}
	if (op->step == STEP_ASK && result == 0) {
		m = (struct pmx_matched){
			.peer = op->promise.source,
			.comm = comm_of(op->incarnation, COMM_CONTROL),
			.flags = PMX_COPY,
			.tag = OFI_TAG_GO | (op->promise.label & TAG_NUMBER),
		};
		result = pmx_isend(ep->ctx, &m, NULL);
		op->step += result == 0;
	}
	if (op->step == STEP_TELL && result == 0) {
		m = (struct pmx_matched){
			.peer = op->promise.source,
			.comm = comm_of(op->incarnation, COMM_CONTROL),
			.flags = PMX_COPY,
			.tag = OFI_TAG_GO | TAG_DONE | (op->promise.label & TAG_NUMBER),
		};
		result = pmx_isend(ep->ctx, &m, NULL);
		op->step += result == 0;
	}
	return !op->pieces_wait && (op->step == STEP_WAIT || op->step == STEP_THERE);
}

enum promise
promise_take(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	op->promise = *status;
	if (!promise_details(ep, &op->promise, &op->incarnation))
		return PROMISE_NONE;
	op->bulk_tag = (uint64_t)op->incarnation << TAG_SHIFT | (op->promise.label & TAG_NUMBER);
	op->step = STEP_TAKE;
	op->late = true;
	op->pieces_at = 0;
	ep->life.waiting++;
	if (ep->late.head != NULL || !step(ep, op)) {
		op_append(&ep->late, op);
		return PROMISE_AWAITED;
	}
	return op->step == STEP_THERE ? PROMISE_THERE : PROMISE_AWAITED;
}

struct ofi_op *
promise_progress(struct endpoint *ep)
{
	if (unlikely(ep->promises.used != 0 && !ep->promises.awaits))
		await_go(ep);
	for (struct ofi_op *op; (op = ep->late.head) != NULL && step(ep, op);) {
		ep->late.head = op->next;
		if (op->step == STEP_THERE)
			return op;
	}
	return NULL;
}
