/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of an endpoint: ends what libpmx has ended, and begins what waits for room.
 */
#include <errno.h>

#include "op.h"

#define ENDED_BURST 16

/* ------------------------------------------------------------------ ends */

/* End one message of a FI_MULTI_RECV operation, which goes on with the rest of its memory. */
static void
multi_ended(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	size_t got = status->len < op->len ? status->len : op->len;
	void *buf = op->buf;
	bool last;

	op->buf = (uint8_t *)op->buf + got;
	op->len -= got;
	last = op->len < ep->min_multi_recv || op->len == 0 || op->cancelled ||
		(status->error != 0 && status->error != -EMSGSIZE);
	uint64_t flags = op->flags | (last ? FI_MULTI_RECV : 0);

	if (status->error != 0) {
		completion_fail(ep, flags, op->context, buf, got, status, status->error);
	} else {
		completion_count(ep, op->flags, false);
		if (op->reports || last)
			completion_put(ep, flags, op->context, buf, status);
	}
	if (last) {
		op_free(ep, op);
		return;
	}
	op->m.data = op->buf;
	op->m.len = op->len;
	op->begun = false;
	op_begin(ep, op, &ep->receives);
}

static void late_ended(struct endpoint *ep, struct ofi_op *op);
static void whole_ended(struct endpoint *ep, struct ofi_op *op);

/* End an operation that is no plain one. false: it is to end as others do, with *status. */
static __attribute__((noinline)) bool
special_ended(struct endpoint *ep, struct ofi_op *op, struct pmx_status *status)
{
	if (op->role == LIFE_PING) {
		life_asked(ep, op, status);
		return true;
	}
	if (op->role == MESSAGE_PIECE) {
		struct ofi_op *whole = op->whole;

		if (piece_ended(ep, op, status))
			whole_ended(ep, whole);
		return true;
	}
	if (op->role != 0) {
		rma_ended(ep, op, status);
		return true;
	}
	if (op->flags & FI_RECV && !op->late && status->error == 0 && status->label != 0) {
		switch (promise_take(ep, op, status)) {
		case PROMISE_THERE:
			late_ended(ep, op);
			return true;
		case PROMISE_AWAITED:
			return true;
		case PROMISE_NONE:
			status->error = -EPROTO;
		}
	}
	if (op->late) { /* its bytes may come unasked for */
		op_remove(&ep->late, op);
		ep->life.waiting--;
	}
	if (op->silent) {
		op_free(ep, op);
		return true;
	}
	if (!op->late)
		return false;
	/* what the promise said of its message */
	status->tag = op->promise.tag;
	status->flags = op->promise.label & OFI_LABEL_DATA ? PMX_IMMEDIATE : 0;
	status->immediate = op->promise.immediate;
	if (status->error == -ECANCELED && op->error != 0)
		status->error = op->error; /* its sender is gone */
	op->late = false;
	return false;
}

/* End an operation as libpmx says, by a completion if it reports. */
static inline void
op_ended(struct endpoint *ep, struct ofi_op *op, struct pmx_status *status)
{
	if (unlikely((status->flags & PMX_IMMEDIATE || op->late || op->silent || op->role != 0)) &&
		special_ended(ep, op, status))
		return;
	if (unlikely(op->multi)) {
		multi_ended(ep, op, status);
		return;
	}
	if (unlikely(status->error != 0)) {
		completion_fail(ep, op->flags, op->context, op->buf, op->len, status,
			status->error);
	} else {
		completion_count(ep, op->flags, false);
		if (op->reports)
			completion_put(ep, op->flags, op->context, op->buf,
				op->flags & FI_RECV ? status : NULL);
	}
	op_free(ep, op);
}

/* End a receive whose message was a promise, and whose bytes are there now. */
static void
late_ended(struct endpoint *ep, struct ofi_op *op)
{
	struct pmx_status status = {
		.source = op->promise.source,
		.len = op->promise.len,
		.error = op->promise.len > op->len ? -EMSGSIZE : 0,
	};

	op_ended(ep, op, &status);
}

/* End a message all of whose pieces have ended. */
static void
whole_ended(struct endpoint *ep, struct ofi_op *op)
{
	struct pmx_status status = {.error = op->error};

	if (op->error == 0 && op->late)
		late_ended(ep, op);
	else
		op_ended(ep, op, &status);
}

/* End an operation for op_each(). error: points to an int, a positive FI_ errno. */
static void
fail_one(struct endpoint *ep, struct ofi_op *op, void *error)
{
	struct pmx_status status = {.error = -*(const int *)error};

	if (op->pieces_out == 0) /* otherwise it ends with its pieces */
		op_ended(ep, op, &status);
}

/* End everything with an error, a positive FI_ errno. */
static void
endpoint_fail(struct endpoint *ep, int error)
{
	ep->gone = true;
	ep->sends.head = ep->receives.head = ep->ready.head = ep->late.head = NULL;
	ep->unnamed.head = NULL;
	ep->transfers.waiting.head = ep->transfers.serving.head = NULL;
	ep->transfers.posted.head = ep->transfers.idle.head = NULL;
	op_each(ep, fail_one, &error);
}

/* ------------------------------------------------------------------ progress */

bool
endpoint_arm(struct endpoint *ep)
{
	if (ep->ctx == NULL)
		return true;
	ask_answer(ep);
	/* what waits to begin needs room, of which nothing tells */
	if (ep->sends.head != NULL || ep->receives.head != NULL || ep->ready.head != NULL ||
		ep->late.head != NULL || (ep->promises.used != 0 && !ep->promises.awaits) ||
		ep->gone || rma_waits(ep) || pmx_before_select(ep->ctx) != 0)
		return false;
	ep->armed = true;
	return true;
}

void
endpoint_progress(struct endpoint *ep)
{
	struct pmx_ended ended[ENDED_BURST];

	if (unlikely(ep->ctx == NULL || ep->gone))
		return;
	if (unlikely(ep->armed)) {
		ep->armed = false;
		pmx_after_select(ep->ctx);
	}
	if (unlikely(ep->domain->embedded))
		ep->domain->engine.posts = 0;
	int n = pmx_poll_ended(ep->ctx, ended, ENDED_BURST);

	if (unlikely(n == -EPIPE)) {
		OFI_WARN(EP_CTRL, "%s\n", pmx_strerror(n));
		endpoint_fail(ep, FI_ECONNABORTED);
		return;
	}
	for (int i = 0; i < n; i++) {
		if (likely(ended[i].cookie > OFI_COOKIE_GO))
			op_ended(ep, (struct ofi_op *)(uintptr_t)ended[i].cookie, &ended[i].status);
		else if (ended[i].cookie == OFI_COOKIE_GO)
			promise_go(ep, &ended[i].status);
	}
	life_look(ep);
	if (unlikely(ep->unnamed.head != NULL))
		names_progress(ep);
	if (unlikely(ep->late.head != NULL || ep->promises.used != 0)) {
		for (struct ofi_op *op; (op = promise_progress(ep)) != NULL;)
			late_ended(ep, op);
	}
	if (unlikely(rma_waits(ep)))
		rma_progress(ep);
	if (unlikely(ep->ready.head != NULL))
		op_begin_waiting(ep, &ep->ready);
	if (unlikely(ep->receives.head != NULL))
		op_begin_waiting(ep, &ep->receives);
	if (unlikely(ep->sends.head != NULL))
		op_begin_waiting(ep, &ep->sends);
}
