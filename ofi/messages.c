/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of an endpoint, tagged and untagged: posting, peeks, cancelling.
 *
 * Design notes
 * 1. A message of up to OFI_INJECT_MAX bytes in one piece is copied by the library within the call,
 *    and so has ended: it takes no operation, and its completion is written at once. Everything
 *    else has an operation (op.h), which is libpmx's cookie.
 * 2. A send is delivered-complete when the receiving node has Acked it (PMX_DELIVERED); the same
 *    is transmit-complete. It is match-complete when a receive has taken it (PMX_SYNC).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

/* Flags of sends that do not end when the library has copied their bytes. */
#define ENDS_LATER (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

/* ------------------------------------------------------------------ send */

/* Send any message, by an operation that ends later: begin it now, or let it wait until libpmx has
 * room, or until the peer's incarnation is known. Return 0 or a negative error. */
static __attribute__((noinline)) ssize_t
send_general(struct endpoint *ep, struct pmx_matched *m, uint64_t flags, uint64_t kind,
	void *context, bool reports)
{
	if (ep->ctx == NULL)
		return -FI_EOPBADSTATE;
	if (ep->gone)
		return -FI_ECONNABORTED;
	struct ofi_op *op = op_take(ep);

	if (op == NULL)
		return -FI_ENOMEM;
	op->context = context;
	op->flags = FI_SEND | kind;
	op->buf = NULL;
	op->len = m->iov != NULL ? bytes_of(m->iov, m->iov_count) : m->len;
	op->reports = reports;
	m->cookie = (uintptr_t)op;
	m->flags = PMX_QUEUED | (m->flags & PMX_IMMEDIATE) | (flags & FI_INJECT ? PMX_COPY : 0) |
		(flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE) ? PMX_DELIVERED : 0) |
		(flags & FI_MATCH_COMPLETE ? PMX_SYNC : 0);
	op_keep(op, m);
	if (unlikely(comm_is_unnamed(m->comm)) && (!(flags & FI_INJECT) || op_keep_bytes(op))) {
		ask_await(ep, op);
		return 0;
	}
	if (ep->sends.head != NULL) {
		/* others wait: they are given a chance first, and whoever sends faster than the
		 * engine can is slowed down */
		op_begin_waiting(ep, &ep->sends);
		pmx_progress(ep->ctx);
	}
	int result = ep->sends.head != NULL || comm_is_unnamed(m->comm) ? -EAGAIN : op_try(ep, op);

	if (likely(result == 0)) {
		op->begun = true;
		return 0;
	}
	if (is_busy(result) && (!(flags & FI_INJECT) || op_keep_bytes(op))) {
		op_append(&ep->sends, op);
		return 0;
	}
	op_free(ep, op);
	return is_busy(result) ? -FI_ENOMEM : result == -EPIPE ? -FI_ECONNABORTED : result;
}

/* flags: of the operation. kind: FI_MSG or FI_TAGGED. reports: a success is a completion. */
static inline ssize_t
send_to(struct endpoint *ep, struct pmx_matched *m, fi_addr_t to, uint64_t flags, uint64_t kind,
	void *context, bool reports)
{
	ssize_t result;

	domain_lock(ep->domain);
	const struct av_entry *peer = ep->av != NULL ? av_at(ep->av, to) : NULL;

	if (unlikely(peer == NULL || (flags & FI_INJECT && m->len > OFI_INJECT_MAX))) {
		domain_unlock(ep->domain);
		return -FI_EINVAL;
	}
	m->peer = peer->to;
	m->comm = peer->comm | (kind == FI_TAGGED ? COMM_TAGGED : COMM_UNTAGGED);
	m->flags |= PMX_COPY;
	if (likely(m->iov == NULL && m->len <= OFI_INJECT_MAX && !(flags & ENDS_LATER) &&
		    ep->ctx != NULL && ep->sends.head == NULL && !comm_is_unnamed(m->comm) &&
		    pmx_isend(ep->ctx, m, NULL) == 0)) {
		completion_count(ep, FI_SEND, false);
		if (reports)
			completion_put(ep, FI_SEND | kind, context, NULL, NULL);
		result = 0;
	} else {
		result = send_general(ep, m, flags, kind, context, reports);
	}
	if (flags & FI_MORE)
		domain_unlock(ep->domain);
	else
		domain_posted(ep->domain);
	return result;
}

static inline ssize_t
post_send(struct endpoint *ep, struct pmx_matched *m, fi_addr_t to, uint64_t flags, uint64_t kind,
	void *context)
{
	return send_to(ep, m, to, flags, kind, context, !ep->tx_selective || flags & FI_COMPLETION);
}

/* Set the pieces of a message. Return false if there are too many. */
static inline bool
set_pieces(struct pmx_matched *m, const struct iovec *iov, size_t count)
{
	if (count == 1) {
		m->data = iov->iov_base;
		m->len = iov->iov_len;
	} else {
		m->iov = iov;
		m->iov_count = (uint32_t)count;
	}
	return count <= OFI_IOV_MAX;
}

/* fi_tsendmsg() and fi_sendmsg(). */
static ssize_t
send_pieces(struct endpoint *ep, const struct iovec *iov, size_t count, fi_addr_t to, uint64_t tag,
	uint64_t data, uint64_t flags, uint64_t kind, void *context)
{
	struct pmx_matched m = {
		.tag = tag,
		.flags = flags & FI_REMOTE_CQ_DATA ? PMX_IMMEDIATE : 0,
		.immediate = data,
	};

	if (!set_pieces(&m, iov, count) ||
		(flags & FI_INJECT && bytes_of(iov, count) > OFI_INJECT_MAX))
		return -FI_EINVAL;
	return post_send(ep, &m, to, flags, kind, context);
}

/* fi_tinject() and fi_inject(): no completion at all. */
static inline ssize_t
inject(struct endpoint *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
	const uint64_t *data, uint64_t kind)
{
	struct pmx_matched m = {
		.tag = tag,
		.data = (void *)(uintptr_t)buf,
		.len = len,
		.flags = data != NULL ? PMX_IMMEDIATE : 0,
		.immediate = data != NULL ? *data : 0,
	};

	if (len > OFI_INJECT_MAX)
		return -FI_EINVAL;
	return send_to(ep, &m, to, FI_INJECT, kind, NULL, false);
}

/* ------------------------------------------------------------------ receive */

/* Set whose messages the receive *m takes, and of which kind (FI_MSG or FI_TAGGED). Return 0 or a
 * negative error. */
static inline ssize_t
set_source(const struct endpoint *ep, struct pmx_matched *m, fi_addr_t from, uint64_t kind)
{
	bool directed = from != FI_ADDR_UNSPEC && ep->caps & FI_DIRECTED_RECV;
	const struct av_entry *peer = directed && ep->av != NULL ? av_at(ep->av, from) : NULL;

	if (unlikely(ep->ctx == NULL || ep->gone))
		return ep->gone ? -FI_ECONNABORTED : -FI_EOPBADSTATE;
	if (unlikely(directed && peer == NULL))
		return -FI_EINVAL;
	m->peer = peer != NULL ? peer->to : PMX_ANY_SOURCE;
	m->comm = comm_of(ep->incarnation, kind == FI_TAGGED ? COMM_TAGGED : COMM_UNTAGGED);
	return 0;
}

/* Take a free operation for the receive *m, and make it the cookie of *m. Return the operation, or
 * NULL if memory is short. */
static inline struct ofi_op *
op_take_receive(struct endpoint *ep, struct pmx_matched *m, uint64_t flags, uint64_t kind,
	void *context)
{
	struct ofi_op *op = op_take(ep);

	if (unlikely(op == NULL))
		return NULL;
	m->flags = PMX_QUEUED;
	m->cookie = (uintptr_t)op;
	op->context = context;
	op->flags = FI_RECV | kind;
	op->reports = !ep->rx_selective || flags & FI_COMPLETION;
	op->buf = m->data;
	op->len = m->iov != NULL ? bytes_of(m->iov, m->iov_count) : m->len;
	op->pieces = (uint8_t)m->iov_count;
	return op;
}

static inline ssize_t
receive_locked(struct endpoint *ep, struct pmx_matched *m, fi_addr_t from, uint64_t flags,
	uint64_t kind, void *context)
{
	ssize_t result = set_source(ep, m, from, kind);
	struct ofi_op *op = result == 0 ? op_take_receive(ep, m, flags, kind, context) : NULL;

	if (unlikely(op == NULL))
		return result != 0 ? result : -FI_ENOMEM;
	op->multi = flags & FI_MULTI_RECV;
	if (unlikely(m->iov != NULL || op->multi))
		op_keep(op, m);
	result = ep->receives.head != NULL
		? -EAGAIN
		: pmx_irecv(ep->ctx, m->iov != NULL ? &op->m : m, &op->request);
	if (likely(result == 0)) {
		op->begun = true;
		return 0;
	}
	if (is_busy((int)result)) {
		op_keep(op, m);
		op_append(&ep->receives, op);
		return 0;
	}
	op_free(ep, op);
	return result;
}

/* m: tag, ignore, bytes. */
static inline ssize_t
post_receive(struct endpoint *ep, struct pmx_matched *m, fi_addr_t from, uint64_t flags,
	uint64_t kind, void *context)
{
	domain_lock(ep->domain);
	ssize_t result = receive_locked(ep, m, from, flags, kind, context);

	domain_unlock(ep->domain);
	return result;
}

/* ------------------------------------------------------------------ peek, claim, discard */

/* Return the place in the caller's struct fi_context that remembers a message which FI_PEEK |
 * FI_CLAIM took. */
static pmx_request *
claimed(void *context)
{
	return (pmx_request *)((struct fi_context *)context)->internal;
}

/* Receive a message that a peek took. Return 0 or a negative error. */
static ssize_t
receive_claimed(struct endpoint *ep, struct pmx_matched *m, pmx_request message, uint64_t flags,
	uint64_t kind, void *context)
{
	struct ofi_op *op = op_take_receive(ep, m, flags, kind, context);

	if (op == NULL)
		return -FI_ENOMEM;
	op->silent = context == NULL; /* discard() */
	op->begun = true;
	op->request = message;
	op_keep(op, m);
	int result = pmx_imrecv(ep->ctx, &op->m, &op->request);

	if (result != 0)
		op_free(ep, op);
	return is_busy(result) ? -FI_EAGAIN : result;
}

/* Receive nothing of a message that a peek took, so that its sender's operation ends. Return 0,
 * -FI_EAGAIN or another negative error. */
static ssize_t
discard(struct endpoint *ep, pmx_request message, uint64_t kind)
{
	struct pmx_matched nothing = {.len = 0};
	ssize_t result = receive_claimed(ep, &nothing, message, 0, kind, NULL);

	return is_busy((int)result) ? -FI_EAGAIN : result;
}

static ssize_t
peek(struct endpoint *ep, struct pmx_matched *m, uint64_t flags, uint64_t kind, void *context)
{
	struct pmx_status status;
	pmx_request message = 0;
	uint32_t unused;
	int result = flags & (FI_CLAIM | FI_DISCARD) ? pmx_improbe(ep->ctx, m, &message, &status)
						     : pmx_iprobe(ep->ctx, m, &status);

	if (is_busy(result))
		return -FI_EAGAIN;
	if (result < 0)
		return result == -EPIPE ? -FI_ECONNABORTED : result;
	if (result == 0) {
		status = (struct pmx_status){.tag = m->tag};
		completion_fail(ep, FI_RECV | kind, context, NULL, 0, &status, -FI_ENOMSG);
		return 0;
	}
	if (status.label != 0 && promise_details(ep, &status, &unused) &&
		!(status.label & OFI_LABEL_DATA))
		status.flags = 0;
	if (flags & FI_CLAIM) {
		*claimed(context) = message;
	} else if (flags & FI_DISCARD) {
		ssize_t discarded = discard(ep, message, kind);

		if (discarded != 0)
			return discarded;
	}
	completion_put(ep, FI_RECV | kind, context, NULL, &status);
	return 0;
}

/* FI_PEEK, FI_CLAIM, FI_DISCARD. */
static ssize_t
receive_special(struct endpoint *ep, struct pmx_matched *m, fi_addr_t from, uint64_t flags,
	uint64_t kind, void *context)
{
	/* what was claimed is remembered there */
	if (flags & FI_CLAIM && context == NULL)
		return -FI_EINVAL;
	domain_lock(ep->domain);
	ssize_t result = set_source(ep, m, from, kind);

	if (result != 0) {
		/* nobody to look for */
	} else if (flags & FI_PEEK) {
		result = peek(ep, m, flags, kind, context);
	} else if (flags & FI_DISCARD) {
		struct pmx_status status = {.len = 0};

		result = discard(ep, *claimed(context), kind);
		if (result == 0)
			completion_put(ep, FI_RECV | kind, context, NULL, &status);
	} else {
		result = receive_claimed(ep, m, *claimed(context), flags, kind, context);
	}
	domain_unlock(ep->domain);
	return result;
}

/* fi_trecvmsg() and fi_recvmsg(). */
static ssize_t
receive_pieces(struct endpoint *ep, struct pmx_matched *m, const struct iovec *iov, size_t count,
	fi_addr_t from, uint64_t flags, uint64_t kind, void *context)
{
	if (!set_pieces(m, iov, count) || (flags & FI_MULTI_RECV && count != 1))
		return -FI_EINVAL;
	if (unlikely(flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)))
		return receive_special(ep, m, from, flags, kind, context);
	return post_receive(ep, m, from, flags, kind, context);
}

/* ------------------------------------------------------------------ cancel */

ssize_t
endpoint_cancel(fid_t fid, void *context)
{
	struct endpoint *ep = (struct endpoint *)fid;

	domain_lock(ep->domain);
	struct ofi_op *found = op_find_receive(ep, context);

	if (found != NULL && !found->begun) {
		op_remove(&ep->receives, found);
		op_refused(ep, found, -ECANCELED);
	} else if (found != NULL) {
		/* it ends by itself, with -ECANCELED or, if that is too late, with its message */
		found->cancelled = true;
		if (!found->late)
			pmx_cancel(ep->ctx, found->request);
	}
	domain_unlock(ep->domain);
	return found != NULL ? 0 : -FI_ENOENT;
}

/* ------------------------------------------------------------------ verbs */

static inline struct endpoint *
endpoint_of(struct fid_ep *fid)
{
	return (struct endpoint *)fid;
}

static ssize_t
tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag,
	uint64_t ignore, void *context)
{
	struct pmx_matched m = {.tag = tag, .ignore = ignore, .data = buf, .len = len};

	(void)desc;
	return post_receive(endpoint_of(fid), &m, from, endpoint_of(fid)->rx_flags, FI_TAGGED,
		context);
}

static ssize_t
tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
	uint64_t tag, uint64_t ignore, void *context)
{
	struct pmx_matched m = {.tag = tag, .ignore = ignore};

	(void)desc;
	return receive_pieces(endpoint_of(fid), &m, iov, count, from, endpoint_of(fid)->rx_flags,
		FI_TAGGED, context);
}

static ssize_t
tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct pmx_matched m = {.tag = msg->tag, .ignore = msg->ignore};

	return receive_pieces(endpoint_of(fid), &m, msg->msg_iov, msg->iov_count, msg->addr, flags,
		FI_TAGGED, msg->context);
}

static ssize_t
tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
	void *context)
{
	struct pmx_matched m = {.tag = tag, .data = (void *)(uintptr_t)buf, .len = len};

	(void)desc;
	return post_send(endpoint_of(fid), &m, to, endpoint_of(fid)->tx_flags, FI_TAGGED, context);
}

static ssize_t
tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t tag, void *context)
{
	(void)desc;
	return send_pieces(endpoint_of(fid), iov, count, to, tag, 0, endpoint_of(fid)->tx_flags,
		FI_TAGGED, context);
}

static ssize_t
tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return send_pieces(endpoint_of(fid), msg->msg_iov, msg->iov_count, msg->addr, msg->tag,
		msg->data, flags, FI_TAGGED, msg->context);
}

static ssize_t
tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
	return inject(endpoint_of(fid), buf, len, to, tag, NULL, FI_TAGGED);
}

static ssize_t
tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t to, uint64_t tag, void *context)
{
	struct pmx_matched m = {
		.tag = tag,
		.data = (void *)(uintptr_t)buf,
		.len = len,
		.flags = PMX_IMMEDIATE,
		.immediate = data,
	};

	(void)desc;
	return post_send(endpoint_of(fid), &m, to, endpoint_of(fid)->tx_flags, FI_TAGGED, context);
}

static ssize_t
tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to,
	uint64_t tag)
{
	return inject(endpoint_of(fid), buf, len, to, tag, &data, FI_TAGGED);
}

struct fi_ops_tagged tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};

static ssize_t
untagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	struct pmx_matched m = {.data = buf, .len = len};

	(void)desc;
	return post_receive(endpoint_of(fid), &m, from, endpoint_of(fid)->rx_flags, FI_MSG,
		context);
}

static ssize_t
untagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
	fi_addr_t from, void *context)
{
	struct pmx_matched m = {.tag = 0};

	(void)desc;
	return receive_pieces(endpoint_of(fid), &m, iov, count, from, endpoint_of(fid)->rx_flags,
		FI_MSG, context);
}

static ssize_t
untagged_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct pmx_matched m = {.tag = 0};

	return receive_pieces(endpoint_of(fid), &m, msg->msg_iov, msg->iov_count, msg->addr, flags,
		FI_MSG, msg->context);
}

static ssize_t
untagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
	void *context)
{
	struct pmx_matched m = {.data = (void *)(uintptr_t)buf, .len = len};

	(void)desc;
	return post_send(endpoint_of(fid), &m, to, endpoint_of(fid)->tx_flags, FI_MSG, context);
}

static ssize_t
untagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	void *context)
{
	(void)desc;
	return send_pieces(endpoint_of(fid), iov, count, to, 0, 0, endpoint_of(fid)->tx_flags,
		FI_MSG, context);
}

static ssize_t
untagged_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return send_pieces(endpoint_of(fid), msg->msg_iov, msg->iov_count, msg->addr, 0, msg->data,
		flags, FI_MSG, msg->context);
}

static ssize_t
untagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
	return inject(endpoint_of(fid), buf, len, to, 0, NULL, FI_MSG);
}

static ssize_t
untagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t to, void *context)
{
	struct pmx_matched m = {
		.data = (void *)(uintptr_t)buf,
		.len = len,
		.flags = PMX_IMMEDIATE,
		.immediate = data,
	};

	(void)desc;
	return post_send(endpoint_of(fid), &m, to, endpoint_of(fid)->tx_flags, FI_MSG, context);
}

static ssize_t
untagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
	return inject(endpoint_of(fid), buf, len, to, 0, &data, FI_MSG);
}

struct fi_ops_msg messages_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = untagged_recv,
	.recvv = untagged_recvv,
	.recvmsg = untagged_recvmsg,
	.send = untagged_send,
	.sendv = untagged_sendv,
	.sendmsg = untagged_sendmsg,
	.inject = untagged_inject,
	.senddata = untagged_senddata,
	.injectdata = untagged_injectdata,
};
