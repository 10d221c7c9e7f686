/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether those on whom operations wait are still there (PM-MPI: nothing ends silently). The engine
 * tells of messages that cannot be delivered; of what was delivered, and awaits something in
 * return, it knows nothing. So who waits for long asks.
 *
 * Design notes
 * 1. The question goes to a communicator that all endpoints have, and names an incarnation. If no
 *    context is there, or no node, the engine says so. If another endpoint has the context's number
 *    now, it answers that it is not the one. An endpoint that is there, and only slow, says
 *    nothing.
 * 2. All operations are looked at once a second while something waits; those that have waited
 *    since the look before are asked about, each peer once.
 */
#include <stdlib.h>
#include <time.h>

#include "op.h"

#define PERIOD_MS 1000
#define TURNS     64 /* of progress, after which it is looked whether somebody asks */
#define ASKED_MAX 64 /* peers that are asked at once */

/* An endpoint on which an operation waits. */
struct life_peer {
	struct pmx_addr at;
	uint32_t incarnation;
};

/* Return whether the operation waits for something of another endpoint, and set *p to that
 * endpoint. */
static bool
waits_for(const struct ofi_op *op, struct life_peer *p)
{
	if (op->role == RMA_TRANSFER && op->begun) {
		*p = (struct life_peer){op->m.peer, op->m.comm >> 2};
		return true;
	}
	if (op->role == RMA_SERVICE && op->head.kind == RMA_WRITE_BULK) {
		*p = (struct life_peer){op->m.peer, op->head.incarnation};
		return true;
	}
	if (op->role == 0 && op->number != 0 && !op->asked) {
		*p = (struct life_peer){op->m.peer, op->m.comm >> 2};
		return true;
	}
	if (op->role == 0 && promise_is_awaited(op)) {
		*p = (struct life_peer){op->promise.source, op->incarnation};
		return true;
	}
	return false;
}

static inline bool
same(const struct life_peer *a, const struct life_peer *b)
{
	return same_peer(a->at, b->at) && a->incarnation == b->incarnation;
}

/* ------------------------------------------------------------------ asking */

/* Peers that were asked in this look. */
struct asked {
	struct life_peer list[ASKED_MAX];
	unsigned count;
};

static void
look_at(struct endpoint *ep, struct ofi_op *op, void *arg)
{
	struct asked *asked = arg;
	struct life_peer p;

	if (!waits_for(op, &p))
		return;
	if (!op->seen) {
		op->seen = true;
		return;
	}
	for (unsigned i = 0; i < asked->count; i++) {
		if (same(&asked->list[i], &p))
			return;
	}
	if (asked->count == ASKED_MAX)
		return;
	asked->list[asked->count++] = p;
	ask_send(ep, p.at, p.incarnation);
}

/* ------------------------------------------------------------------ what comes of it */

struct loss {
	struct life_peer peer;
	int error; /* negative errno */
};

static void
lose(struct endpoint *ep, struct ofi_op *op, void *arg)
{
	const struct loss *loss = arg;
	struct life_peer p;

	if (!waits_for(op, &p) || !same(&p, &loss->peer))
		return;
	if (op->role == RMA_TRANSFER) {
		rma_fails(ep, op, loss->error);
	} else if (op->role == RMA_SERVICE || op->late) {
		/* it ends when its receive has, with this error */
		op->error = op->role == RMA_SERVICE ? -loss->error : loss->error;
		if (op->pieces_out != 0)
			pieces_cancel(ep, op);
		else
			pmx_cancel(ep->ctx, op->request);
	} else if (op->begun) {
		op_fails(ep, op, loss->error);
	}
}

static void
peer_is_gone(struct endpoint *ep, struct life_peer peer, int error)
{
	struct loss loss = {peer, error};

	if (peer.incarnation == 0) {
		names_fail(ep, peer.at, error);
		return;
	}
	OFI_WARN(EP_DATA, "node %u, context %u: %s; what waits for it ends\n", peer.at.node,
		peer.at.context, pmx_strerror(error));
	op_each(ep, lose, &loss);
	/* an address by number means its successor from now on */
	av_unname(ep->av, peer.at, peer.incarnation);
}

void
life_asked(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	const struct life_peer peer = {op->m.peer, op->m.comm >> 2};

	op_free(ep, op);
	if (status->error != 0 && !ep->gone)
		peer_is_gone(ep, peer, status->error);
}

/* Take the answers of endpoints that are not the ones that were asked for. Fail what waits for
 * those that were asked for, with -ECONNRESET. */
static void
life_hear(struct endpoint *ep)
{
	const struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.comm = comm_of(ep->incarnation, COMM_CONTROL),
		.tag = OFI_TAG_GONE,
	};
	struct pmx_status status;

	while (ask_take(ep, &any, &status)) {
		const struct life_peer peer = {status.source, (uint32_t)status.immediate};

		peer_is_gone(ep, peer, -ECONNRESET);
	}
}

void
life_look(struct endpoint *ep)
{
	struct asked asked; /* long: set only where it is used */
	struct timespec t;

	if (++ep->life.turns % TURNS == 0)
		ask_answer(ep);
	if (ep->life.waiting == 0 && ep->promises.used == 0 && ep->transfers.used == 0 &&
		ep->unnamed.head == NULL)
		return;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	int64_t now = t.tv_sec * 1000ll + t.tv_nsec / 1000000;

	if (now < ep->life.next)
		return;
	ep->life.next = now + PERIOD_MS;
	ask_answer(ep);
	life_hear(ep);
	ask_again(ep);
	asked.count = 0;
	op_each(ep, look_at, &asked);
}
