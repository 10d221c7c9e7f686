/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses by number: whoever has the node and context number of an endpoint that was opened at a
 * chosen number (fi_getinfo() with FI_SOURCE and a service) can send to it without fi_getname() of
 * the other side.
 *
 * Design notes
 * 1. All messages name the incarnation of the endpoint that they are for. So the first one to a
 *    number waits, and a question goes out in its place, as those of life.c, to the communicator
 *    that all endpoints have; the answer is the incarnation. Then what waits begins, in order.
 * 2. What is sent to others meanwhile is not held up.
 * 3. If the endpoint ends, and its end is noticed, the number means its successor.
 */
#include "op.h"

/* Take the operations to that peer out of those that wait for an incarnation, and return them in
 * order. */
static struct ofi_op_list
take_those_of(struct endpoint *ep, struct pmx_addr peer)
{
	struct ofi_op_list all = ep->unnamed, taken = {NULL, NULL};

	ep->unnamed = taken;
	for (struct ofi_op *op = all.head, *next; op != NULL; op = next) {
		next = op->next;
		op_append(same_peer(op->m.peer, peer) ? &taken : &ep->unnamed, op);
	}
	return taken;
}

void
names_fail(struct endpoint *ep, struct pmx_addr peer, int error)
{
	struct ofi_op_list failed = take_those_of(ep, peer);

	for (struct ofi_op *op = failed.head, *next; op != NULL; op = next) {
		next = op->next;
		if (op->role == RMA_TRANSFER)
			rma_fails(ep, op, error);
		else
			op_fails(ep, op, error);
	}
}

void
names_progress(struct endpoint *ep)
{
	const struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.comm = comm_of(ep->incarnation, COMM_CONTROL),
		.tag = OFI_TAG_HERE,
	};
	struct pmx_status status;

	while (ask_take(ep, &any, &status)) {
		uint32_t incarnation = (uint32_t)status.immediate;

		if (incarnation == 0 || incarnation >= OFI_UNNAMED)
			continue;
		struct ofi_op_list known = take_those_of(ep, status.source);

		av_name(ep->av, status.source, incarnation);
		for (struct ofi_op *op = known.head, *next; op != NULL; op = next) {
			next = op->next;
			op->m.comm = comm_of(incarnation, op->m.comm & 3);
			if (op->role == RMA_TRANSFER)
				rma_begin(ep, op, false);
			else
				op_begin(ep, op, &ep->sends);
		}
	}
}
