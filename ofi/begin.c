/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Beginning of sends and receives, now or when libpmx has room for them (design note 3 of
 * provider.h).
 */
#include <errno.h>

#include "op.h"

int
op_try(struct endpoint *ep, struct ofi_op *op)
{
	if (op->flags & FI_RECV)
		return pmx_irecv(ep->ctx, &op->m, &op->request);
	if (ep->direct != 0 && op->len >= ep->direct && !op->is_long) {
		op->is_long = true;
		ep->longs++;
	}
	if (unlikely(pieces_apply(ep, op->m.peer.node, op->len))) {
		if (!op->asked)
			return promise_send(ep, op);
		return pieces_begin(ep, op) ? 0 : -EAGAIN;
	}
	if (promise_is_direct(ep, op))
		return promise_send(ep, op);
	/* what was promised in part is promised */
	int result = op->number == 0 || op->asked ? pmx_isend(ep->ctx, &op->m, &op->request)
						  : -EAGAIN;

	const bool may_wait_long = op->len > OFI_INJECT_MAX || op->m.flags & PMX_SYNC;

	return is_busy(result) && may_wait_long && !op->asked ? promise_send(ep, op) : result;
}

void
op_refused(struct endpoint *ep, struct ofi_op *op, int error)
{
	const struct pmx_status status = {.error = error};

	completion_fail(ep, op->flags | (op->multi ? FI_MULTI_RECV : 0), op->context, op->buf,
		op->multi ? 0 : op->len, &status, error);
	op_free(ep, op);
}

void
op_begin(struct endpoint *ep, struct ofi_op *op, struct ofi_op_list *waiting)
{
	int result = waiting->head != NULL ? -EAGAIN : op_try(ep, op);

	if (result == 0)
		op->begun = true;
	else if (is_busy(result))
		op_append(waiting, op);
	else
		op_refused(ep, op, result);
}

void
op_begin_waiting(struct endpoint *ep, struct ofi_op_list *waiting)
{
	for (struct ofi_op *op; (op = waiting->head) != NULL;) {
		int result = op_try(ep, op);

		if (is_busy(result))
			return;
		waiting->head = op->next;
		op->begun = true;
		if (result != 0)
			op_refused(ep, op, result);
	}
}
