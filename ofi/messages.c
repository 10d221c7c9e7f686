/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of an endpoint, tagged and untagged: posting, progress, peeks, cancelling.
 *
 * Design notes
 * 1. A message of up to OFI_INJECT_MAX bytes in one piece is copied by the library within the call,
 *    and so has ended: it takes no operation, and its completion is written at once.
 * 2. Everything else has an operation (struct op), which is libpmx's cookie. Operations are in
 *    chunks that are never moved, so that fi_cancel() can find one by its caller's context. That is
 *    a walk over all of them, which is rare; posting and ending need no list.
 * 3. A send is delivered-complete when the receiving node has Acked it (PMX_DELIVERED); the same
 *    is transmit-complete.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define CHUNK_OPS   64
#define ENDED_BURST 16
#define MANY        1024 /* so many operations that wait slow down their caller */

struct op_chunk {
	struct op_chunk *next;
	struct op ops[CHUNK_OPS];
};

/* ------------------------------------------------------------------ operations */

static __attribute__((noinline)) bool
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

static inline struct op *
op_take(struct endpoint *ep)
{
	if (unlikely(ep->free == NULL) && !op_chunk_new(ep))
		return NULL;
	struct op *op = ep->free;

	ep->free = op->next;
	op->used = true;
	op->begun = op->is_long = op->multi = op->silent = op->asked = op->late = op->cancelled =
		false;
	op->number = 0;
	op->role = 0;
	op->error = 0;
	op->seen = false;
	op->pieces = 0;
	op->request = 0;
	op->copy = NULL;
	return op;
}

struct op *
op_new(struct endpoint *ep)
{
	struct op *op = op_take(ep);

	if (likely(op != NULL)) {
		*op = (struct op){.used = true};
	}
	return op;
}

void
op_free(struct endpoint *ep, struct op *op)
{
	if (unlikely(op->copy != NULL))
		free(op->copy);
	ep->longs -= op->is_long;
	if (unlikely(op->number != 0))
		promise_free(ep, op);
	op->used = false;
	op->next = ep->free;
	ep->free = op;
}

void
op_append(struct op_list *l, struct op *op)
{
	op->next = NULL;
	if (l->head == NULL)
		l->head = op;
	else
		l->tail->next = op;
	l->tail = op;
}

void
op_prepend(struct op_list *l, struct op *op)
{
	op->next = l->head;
	if (l->head == NULL)
		l->tail = op;
	l->head = op;
}

static void
list_remove(struct op_list *l, struct op *op)
{
	struct op *before = NULL, *at = l->head;

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
endpoint_forget(struct endpoint *ep)
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

/* ------------------------------------------------------------------ ends */

static inline struct cq *
cq_of(const struct endpoint *ep, uint64_t flags)
{
	return flags & (FI_RECV | FI_REMOTE_WRITE) ? ep->rx_cq : ep->tx_cq;
}

static inline void
count_one(const struct endpoint *ep, uint64_t flags, bool error)
{
	enum cntr_kind kind = flags & FI_SEND ? CNTR_SENDS
		: flags & FI_RECV             ? CNTR_RECEIVES
		: flags & FI_WRITE            ? CNTR_WRITES
					      : CNTR_READS;

	cntr_count(ep->cntrs[kind], error);
}

/* A success. What it says of a send is its context alone. */
static inline void
put_success(const struct endpoint *ep, uint64_t flags, void *context, void *buf,
	const struct pmx_status *status)
{
	struct cq *cq = cq_of(ep, flags);
	struct completion *c = cq != NULL ? cq_put(cq) : NULL;

	if (unlikely(c == NULL)) {
		if (cq != NULL)
			OFI_WARN(CQ, "out of memory: a completion is lost\n");
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

/* error: negative errno of libpmx, as it is told by fi_cq_readerr() in prov_errno. */
static void
put_error(const struct endpoint *ep, uint64_t flags, void *context, void *buf, size_t room,
	const struct pmx_status *status, int error)
{
	struct cq *cq = cq_of(ep, flags);
	struct completion *c = cq != NULL ? cq_put(cq) : NULL;
	bool truncated = error == -EMSGSIZE && flags & FI_RECV;

	count_one(ep, flags, true);
	if (c == NULL)
		return;
	*c = (struct completion){
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
completion_put(const struct endpoint *ep, uint64_t flags, void *context, void *buf,
	const struct pmx_status *status)
{
	put_success(ep, flags, context, buf, status);
}

void
op_succeeds(struct endpoint *ep, struct op *op)
{
	count_one(ep, op->flags, false);
	if (op->reports)
		put_success(ep, op->flags, op->context, NULL, NULL);
	op_free(ep, op);
}

void
op_fails(struct endpoint *ep, struct op *op, int error)
{
	put_error(ep, op->flags, op->context, NULL, 0, NULL, error);
	op_free(ep, op);
}

/* One message came into the memory of a FI_MULTI_RECV operation, which goes on with the rest of
 * it. */
static void
multi_ended(struct endpoint *ep, struct op *op, const struct pmx_status *status)
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
		put_error(ep, flags, op->context, buf, got, status, status->error);
	} else {
		count_one(ep, op->flags, false);
		if (op->reports || last)
			put_success(ep, flags, op->context, buf, status);
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

/* An operation has ended that is no plain one. false: it is to end as others do, with *status. */
static __attribute__((noinline)) bool
special_ended(struct endpoint *ep, struct op *op, struct pmx_status *status)
{
	if (op->role != 0) {
		rma_ended(ep, op, status);
		return true;
	}
	if (op->flags & FI_RECV && !op->late && status->error == 0 && status->label != 0) {
		if (promise_taken(ep, op, status))
			return true;
		status->error = -EPROTO; /* nothing was promised */
	}
	if (op->late) { /* its bytes may come unasked for */
		list_remove(&ep->late, op);
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

static inline void
op_ended(struct endpoint *ep, struct op *op, struct pmx_status *status)
{
	if (unlikely((status->flags & PMX_IMMEDIATE || op->late || op->silent || op->role != 0)) &&
		special_ended(ep, op, status))
		return;
	if (unlikely(op->multi)) {
		multi_ended(ep, op, status);
		return;
	}
	if (unlikely(status->error != 0)) {
		put_error(ep, op->flags, op->context, op->buf, op->len, status, status->error);
	} else {
		count_one(ep, op->flags, false);
		if (op->reports)
			put_success(ep, op->flags, op->context, op->buf,
				op->flags & FI_RECV ? status : NULL);
	}
	op_free(ep, op);
}

void
op_each(struct endpoint *ep, void (*call)(struct endpoint *, struct op *, void *), void *arg)
{
	for (struct op_chunk *c = ep->chunks; c != NULL; c = c->next) {
		for (unsigned i = 0; i < CHUNK_OPS; i++) {
			if (c->ops[i].used)
				call(ep, &c->ops[i], arg);
		}
	}
}

void
op_late_ended(struct endpoint *ep, struct op *op, int error)
{
	struct pmx_status status = {
		.source = op->promise.source,
		.len = op->promise.len,
		.error = error != 0                 ? error
			: op->promise.len > op->len ? -EMSGSIZE
						    : 0,
	};

	op_ended(ep, op, &status);
}

void
endpoint_fail(struct endpoint *ep, int error)
{
	ep->gone = true;
	ep->sends.head = ep->receives.head = ep->ready.head = ep->late.head = NULL;
	ep->unnamed.head = NULL;
	ep->transfers.waiting.head = ep->transfers.serving.head = NULL;
	ep->transfers.posted.head = ep->transfers.idle.head = NULL;
	for (struct op_chunk *c = ep->chunks; c != NULL; c = c->next) {
		for (unsigned i = 0; i < CHUNK_OPS; i++) {
			struct pmx_status status = {.error = -error};

			if (c->ops[i].used)
				op_ended(ep, &c->ops[i], &status);
		}
	}
}

/* ------------------------------------------------------------------ begin */

static inline int
begin(struct endpoint *ep, struct op *op)
{
	if (op->flags & FI_RECV)
		return pmx_irecv(ep->ctx, &op->m, &op->request);
	if (ep->direct != 0 && op->len >= ep->direct && !op->is_long) {
		op->is_long = true;
		ep->longs++;
	}
	if (promise_is_direct(ep, op))
		return promise_send(ep, op);
	/* what was promised in part is promised */
	int result = op->number == 0 || op->asked ? pmx_isend(ep->ctx, &op->m, &op->request)
						  : -EAGAIN;

	return is_busy(result) && op->len > OFI_INJECT_MAX && !op->asked ? promise_send(ep, op)
									 : result;
}

void
op_begin(struct endpoint *ep, struct op *op, struct op_list *waiting)
{
	int result = waiting->head != NULL ? -EAGAIN : begin(ep, op);
	struct pmx_status status = {.error = result};

	if (result == 0)
		op->begun = true;
	else if (is_busy(result))
		op_append(waiting, op);
	else
		op_ended(ep, op, &status);
}

/* Begins what waits, until libpmx takes no more. */
static void
begin_waiting(struct endpoint *ep, struct op_list *waiting)
{
	for (struct op *op; (op = waiting->head) != NULL;) {
		int result = begin(ep, op);
		struct pmx_status status = {.error = result};

		if (is_busy(result))
			return;
		waiting->head = op->next;
		op->begun = true;
		if (result != 0)
			op_ended(ep, op, &status);
	}
}

bool
endpoint_arm(struct endpoint *ep)
{
	if (ep->ctx == NULL)
		return true;
	life_answer(ep);
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
			op_ended(ep, (struct op *)(uintptr_t)ended[i].cookie, &ended[i].status);
		else if (ended[i].cookie == OFI_COOKIE_GO)
			promise_go(ep, &ended[i].status);
	}
	life_look(ep);
	if (unlikely(ep->unnamed.head != NULL))
		names_progress(ep);
	if (unlikely(ep->late.head != NULL || ep->promises.used != 0))
		promise_progress(ep);
	if (unlikely(rma_waits(ep)))
		rma_progress(ep);
	if (unlikely(ep->ready.head != NULL))
		begin_waiting(ep, &ep->ready);
	if (unlikely(ep->receives.head != NULL))
		begin_waiting(ep, &ep->receives);
	if (unlikely(ep->sends.head != NULL))
		begin_waiting(ep, &ep->sends);
}

/* Copies what libpmx borrows until the operation has ended, or what begins it later. */
static void
op_keep(struct op *op, const struct pmx_matched *m)
{
	op->m = *m;
	if (m->iov != NULL) {
		memcpy(op->iov, m->iov, m->iov_count * sizeof(*m->iov));
		op->m.iov = op->iov;
	}
}

static inline uint64_t
bytes_of(const struct iovec *iov, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

bool
op_keep_bytes(struct op *op)
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

/* ------------------------------------------------------------------ send */

/* The general send. */
static __attribute__((noinline)) ssize_t
send_general(struct endpoint *ep, struct pmx_matched *m, uint64_t flags, uint64_t kind,
	void *context, bool reports)
{
	if (ep->ctx == NULL)
		return -FI_EOPBADSTATE;
	if (ep->gone)
		return -FI_ECONNABORTED;
	struct op *op = op_take(ep);

	if (op == NULL)
		return -FI_ENOMEM;
	op->context = context;
	op->flags = FI_SEND | kind;
	op->buf = NULL;
	op->len = m->iov != NULL ? bytes_of(m->iov, m->iov_count) : m->len;
	op->reports = reports;
	m->cookie = (uintptr_t)op;
	m->flags = PMX_QUEUED | (m->flags & PMX_IMMEDIATE) | (flags & FI_INJECT ? PMX_COPY : 0) |
		(flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE) ? PMX_DELIVERED : 0);
	op_keep(op, m);
	if (unlikely(comm_is_unnamed(m->comm)) && (!(flags & FI_INJECT) || op_keep_bytes(op))) {
		names_await(ep, op);
		return 0;
	}
	if (ep->sends.head != NULL) {
		/* others wait: they are given a chance first, and whoever sends faster than the
		 * engine can is slowed down */
		begin_waiting(ep, &ep->sends);
		sched_yield();
	}
	int result = ep->sends.head != NULL || comm_is_unnamed(m->comm) ? -EAGAIN : begin(ep, op);

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
	if (likely(m->iov == NULL && m->len <= OFI_INJECT_MAX &&
		    !(flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) && ep->ctx != NULL &&
		    ep->sends.head == NULL && !comm_is_unnamed(m->comm) &&
		    pmx_isend(ep->ctx, m, NULL) == 0)) {
		count_one(ep, FI_SEND, false);
		if (reports)
			put_success(ep, FI_SEND | kind, context, NULL, NULL);
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

/* The pieces of a message; false if there are too many, or too many bytes. */
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

/* Sets whose messages are meant, and of which kind. 0 or a negative error. */
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

/* Takes an operation for a receive, and makes it m's; NULL if memory is short. */
static inline struct op *
op_take_receive(struct endpoint *ep, struct pmx_matched *m, uint64_t flags, uint64_t kind,
	void *context)
{
	struct op *op = op_take(ep);

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
	struct op *op = result == 0 ? op_take_receive(ep, m, flags, kind, context) : NULL;

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

/* A message that FI_PEEK | FI_CLAIM took is remembered in the caller's struct fi_context. */
static pmx_request *
claimed(void *context)
{
	return (pmx_request *)((struct fi_context *)context)->internal;
}

/* Receives a message that a peek took. */
static ssize_t
receive_claimed(struct endpoint *ep, struct pmx_matched *m, pmx_request message, uint64_t flags,
	uint64_t kind, void *context)
{
	struct op *op = op_take_receive(ep, m, flags, kind, context);

	if (op == NULL)
		return -FI_ENOMEM;
	op->silent = context == NULL; /* discard() */
	op->begun = true;
	op->request = message;
	op_keep(op, m);
	int result = pmx_imrecv(ep->ctx, &op->m, &op->request);

	if (result != 0)
		op_free(ep, op);
	return result;
}

/* Receives nothing of a message that a peek took, so that its sender's operation ends. */
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
		put_error(ep, FI_RECV | kind, context, NULL, 0, &status, -FI_ENOMSG);
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
	put_success(ep, FI_RECV | kind, context, NULL, &status);
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
			put_success(ep, FI_RECV | kind, context, NULL, &status);
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
	struct pmx_status cancelled = {.error = -ECANCELED};
	struct op *found = NULL;

	domain_lock(ep->domain);
	for (struct op_chunk *c = ep->chunks; c != NULL && found == NULL; c = c->next) {
		for (unsigned i = 0; i < CHUNK_OPS && found == NULL; i++) {
			struct op *op = &c->ops[i];

			if (op->used && !op->silent && op->context == context &&
				op->flags & FI_RECV)
				found = op;
		}
	}
	if (found != NULL && !found->begun) {
		list_remove(&ep->receives, found);
		op_ended(ep, found, &cancelled);
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
