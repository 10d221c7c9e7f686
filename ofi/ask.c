/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Questions to other endpoints, whether they are there and which incarnation they have, and the
 * answers to those of others. life.c and names.c say what they are for.
 *
 * Design note
 * 1. A question goes to a communicator that all endpoints have, and names an incarnation, or 0:
 * any. If no context is there, or no node, the engine says so. Another endpoint that has the
 * context's number now answers that it is not the one; who is asked for any answers with its own.
 */
#include "op.h"

#define COMM_ALL comm_of(0, COMM_CONTROL)

/* ------------------------------------------------------------------ asking */

void
ask_send(struct endpoint *ep, struct pmx_addr peer, uint32_t incarnation)
{
	struct ofi_op *op = op_new(ep);

	if (op == NULL)
		return;
	op->role = LIFE_PING;
	op->m.peer = peer;
	op->m.comm = comm_of(incarnation, COMM_CONTROL);
	const struct pmx_matched m = {
		.peer = peer,
		.comm = COMM_ALL,
		.flags = PMX_QUEUED | PMX_COPY | PMX_DELIVERED | PMX_IMMEDIATE,
		.tag = OFI_TAG_PING,
		.immediate = (uint64_t)incarnation << 32 | ep->incarnation,
		.cookie = (uintptr_t)op,
	};

	if (pmx_isend(ep->ctx, &m, &op->request) != 0)
		op_free(ep, op); /* another time */
}

/* Say whether the operation is the first one that waits for its peer. */
static bool
is_first(const struct endpoint *ep, const struct ofi_op *op)
{
	const struct ofi_op *first = ep->unnamed.head;

	while (!same_peer(first->m.peer, op->m.peer))
		first = first->next;
	return first == op;
}

void
ask_await(struct endpoint *ep, struct ofi_op *op)
{
	op_append(&ep->unnamed, op);
	if (is_first(ep, op))
		ask_send(ep, op->m.peer, 0);
}

void
ask_again(struct endpoint *ep)
{
	for (const struct ofi_op *op = ep->unnamed.head; op != NULL; op = op->next) {
		if (is_first(ep, op))
			ask_send(ep, op->m.peer, 0);
	}
}

/* ------------------------------------------------------------------ answering */

bool
ask_take(struct endpoint *ep, const struct pmx_matched *what, struct pmx_status *status)
{
	struct pmx_matched m = *what;

	if (pmx_iprobe(ep->ctx, what, status) != 1)
		return false;
	m.flags = PMX_QUEUED;
	m.cookie = OFI_COOKIE_NONE;
	m.peer = status->source;
	return pmx_irecv(ep->ctx, &m, NULL) == 0;
}

void
ask_answer(struct endpoint *ep)
{
	const struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.comm = COMM_ALL,
		.tag = OFI_TAG_PING,
	};
	struct pmx_status status;

	while (ask_take(ep, &any, &status)) {
		uint32_t wanted = (uint32_t)(status.immediate >> 32);
		const struct pmx_matched m = {
			.peer = status.source,
			.comm = comm_of((uint32_t)status.immediate & OFI_INCARNATION_MAX,
				COMM_CONTROL),
			.flags = PMX_COPY | PMX_IMMEDIATE,
			.tag = wanted != 0 ? OFI_TAG_GONE : OFI_TAG_HERE,
			.immediate = wanted != 0 ? wanted : ep->incarnation,
		};

		/* if it does not go now, it will be asked for again */
		if (wanted != ep->incarnation)
			pmx_isend(ep->ctx, &m, NULL);
	}
}
