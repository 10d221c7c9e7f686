/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory (fi_rma(3)): reads and writes of what other processes registered, and the messages
 * that atomic.c has done there. Any memory can be registered, also what the engine cannot reach, so
 * the target's own progress does it: bytes are copied by the process whose memory it is.
 *
 * Design notes
 * 1. An initiator asks by a message of COMM_CONTROL (struct rma_head) and gets one back. Up to
 *    OFI_INJECT_MAX bytes go with these; longer ones are a message of COMM_BULK from memory to
 *    memory, received where they belong, for which the request names the place.
 * 2. Requests of one initiator are done in the order in which they were made, since their receives
 *    are looked at in the order in which they were posted. Only what has a message of its own may
 *    come later: where an order was asked for, it waits until it is alone (endpoint.orders).
 * 3. A transfer ends when its target has answered, so a write is delivered-complete.
 * 4. Whatever finds no room in libpmx waits in a list of the endpoint. Nothing that waits there
 *    holds up messages, and what it waits for comes without the application: places are given back
 *    by engines, and by the other side's progress.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

#define POSTED      16 /* receives of messages about remote memory */
#define NUMBERS_MAX 0x8000u
#define ID_SHIFT    32 /* of the incarnation, in a bulk message's tag */
#define FEW         64 /* bytes that are copied rather than sent in pieces */

/* The steps of an own transfer; op->step is the next one. */
enum { TRANSFER_NUMBER, TRANSFER_RECEIVE, TRANSFER_REQUEST, TRANSFER_BULK, TRANSFER_BEGUN };

static inline bool
is_bulk(const struct ofi_op *op)
{
	return op->head.kind == RMA_WRITE_BULK || op->head.kind == RMA_READ_BULK;
}

/* ------------------------------------------------------------------ numbers */

/* Give the transfer a number, which is the id in its head. Return 0; -EAGAIN: all are in use, or
 * memory is short while some are; -ENOMEM: memory is short. */
static int
number_take(struct endpoint *ep, struct ofi_op *op)
{
	struct ofi_transfers *t = &ep->transfers;

	if (t->used + 1 >= t->room) {
		uint32_t room = t->room ? t->room * 2 : 64;

		if (room > NUMBERS_MAX)
			return -EAGAIN;
		struct ofi_op **ops = realloc(t->ops, room * sizeof(struct ofi_op *));

		t->ops = ops != NULL ? ops : t->ops;
		uint16_t *uses = ops != NULL ? realloc(t->uses, room * sizeof(*uses)) : NULL;

		t->uses = uses != NULL ? uses : t->uses;
		if (uses == NULL)
			return t->used != 0 ? -EAGAIN : -ENOMEM;
		for (uint32_t i = t->room; i < room; i++) {
			ops[i] = NULL;
			uses[i] = 0;
		}
		t->room = room;
	}
	do
		t->last = t->last + 1 < t->room ? t->last + 1 : 1;
	while (t->ops[t->last] != NULL);
	t->ops[t->last] = op;
	t->used++;
	t->bulks += is_bulk(op);
	op->head.id = t->last | (uint32_t)t->uses[t->last] << 16;
	return 0;
}

static void
number_put(struct endpoint *ep, const struct ofi_op *op)
{
	struct ofi_transfers *t = &ep->transfers;
	uint32_t place = op->head.id & 0xFFFF;

	t->ops[place] = NULL;
	t->uses[place]++;
	t->used--;
	t->bulks -= is_bulk(op);
}

static struct ofi_op *
number_find(const struct endpoint *ep, uint32_t id)
{
	struct ofi_op *op = (id & 0xFFFF) < ep->transfers.room ? ep->transfers.ops[id & 0xFFFF]
							       : NULL;

	return op != NULL && op->head.id == id ? op : NULL;
}

/* ------------------------------------------------------------------ own transfers */

static uint64_t
bulk_tag(const struct rma_head *h)
{
	return OFI_TAG_RMA | (uint64_t)h->incarnation << ID_SHIFT | h->id;
}

/* Return the receive, for pmx_irecv(), of the bytes that an own transfer reads, or that others
 * write here. */
static struct pmx_matched
bulk_receive(const struct endpoint *ep, const struct ofi_op *op)
{
	return (struct pmx_matched){
		.peer = op->m.peer,
		.comm = comm_of(ep->incarnation, COMM_BULK),
		.flags = PMX_QUEUED,
		.tag = bulk_tag(&op->head),
		.data = op->buf,
		.len = op->len,
		.iov = op->pieces ? op->iov : NULL,
		.iov_count = op->pieces,
		.cookie = (uintptr_t)op,
	};
}

/* Return the message, for pmx_isend(), with the bytes that an own transfer writes, or that others
 * read here. */
static struct pmx_matched
bulk_send(const struct ofi_op *op)
{
	struct pmx_matched m = op->m;

	m.comm = comm_kind(op->m.comm, COMM_BULK);
	/* what others read has its receive already */
	m.flags = PMX_QUEUED | (op->role == RMA_SERVICE ? PMX_EXPECTED : 0);
	m.tag = bulk_tag(&op->head);
	m.cookie = (uintptr_t)op;
	return m;
}

/* Send a message about remote memory to the peer of *m: its head, and the bytes of *m behind it.
 * Return 0 or an error as of pmx_isend(). */
static int
rma_tell(struct endpoint *ep, const struct rma_head *head, const struct pmx_matched *m)
{
	struct iovec iov[1 + OFI_IOV_MAX] = {{(void *)(uintptr_t)head, sizeof(*head)}};
	uint8_t few[sizeof(*head) + FEW];
	struct pmx_matched message = {
		.peer = m->peer,
		.comm = comm_kind(m->comm, COMM_CONTROL),
		.flags = PMX_COPY,
		.tag = OFI_TAG_RMA,
	};

	if (likely(m->iov == NULL && m->len <= FEW)) {
		/* what is in one piece takes the shortest way */
		memcpy(few, head, sizeof(*head));
		if (m->len != 0)
			memcpy(few + sizeof(*head), m->data, m->len);
		message.data = few;
		message.len = sizeof(*head) + m->len;
		return pmx_isend(ep->ctx, &message, NULL);
	}
	message.iov = iov;
	message.iov_count = 2;
	if (m->iov != NULL) {
		memcpy(iov + 1, m->iov, m->iov_count * sizeof(*iov));
		message.iov_count = 1 + m->iov_count;
	} else {
		iov[1] = (struct iovec){m->data, m->len};
	}
	return pmx_isend(ep->ctx, &message, NULL);
}

static bool
must_wait(const struct endpoint *ep, const struct ofi_op *op)
{
	return ep->orders && op->step == TRANSFER_NUMBER &&
		(ep->transfers.bulks != 0 || (is_bulk(op) && ep->transfers.used != 0));
}

/* Begin as much of an own transfer as there is room for. Return 0 if all of it has begun, otherwise
 * an error as of pmx_isend(). */
static int
transfer_step(struct endpoint *ep, struct ofi_op *op)
{
	int result = must_wait(ep, op) ? -EAGAIN : 0;

	if (result == 0 && op->step == TRANSFER_NUMBER) {
		result = number_take(ep, op);
		op->step += result == 0;
	}
	if (result == 0 && op->step == TRANSFER_RECEIVE) {
		const struct pmx_matched m = bulk_receive(ep, op);

		if (op->head.kind == RMA_READ_BULK)
			result = pmx_irecv(ep->ctx, &m, &op->request);
		op->step += result == 0;
	}
	if (result == 0 && op->step == TRANSFER_REQUEST) {
		const struct pmx_matched nothing = {.peer = op->m.peer, .comm = op->m.comm};

		result = rma_tell(ep, &op->head,
			op->head.kind == RMA_WRITE_BULK ? &nothing : &op->m);
		op->step += result == 0;
	}
	if (result == 0 && op->step == TRANSFER_BULK) {
		const struct pmx_matched m = bulk_send(op);

		if (op->head.kind == RMA_WRITE_BULK)
			result = pmx_isend(ep->ctx, &m, &op->request);
		op->step += result == 0;
	}
	return result;
}

/* error: 0 or a negative errno. */
static void
transfer_ends(struct endpoint *ep, struct ofi_op *op, int error)
{
	if (op->step != TRANSFER_NUMBER)
		number_put(ep, op);
	if (error == 0)
		op_succeeds(ep, op);
	else
		op_fails(ep, op, error);
}

void
rma_fails(struct endpoint *ep, struct ofi_op *op, int error)
{
	bool reads = op->head.kind == RMA_READ_BULK && op->step > TRANSFER_RECEIVE;

	if (!op->moved &&
		(reads || (op->head.kind == RMA_WRITE_BULK && op->step == TRANSFER_BEGUN))) {
		op->answered = true;
		op->error = error;
		if (reads)
			pmx_cancel(ep->ctx, op->request);
		return;
	}
	transfer_ends(ep, op, error);
}

/* Begin the own transfers that wait, until there is no room. */
static void
begin_waiting(struct endpoint *ep)
{
	struct ofi_op_list *waiting = &ep->transfers.waiting;

	for (struct ofi_op *op; (op = waiting->head) != NULL;) {
		int result = transfer_step(ep, op);

		if (is_busy(result))
			return;
		waiting->head = op->next;
		op->begun = true;
		if (result != 0)
			rma_fails(ep, op, result);
	}
}

ssize_t
rma_begin(struct endpoint *ep, struct ofi_op *op, bool injected)
{
	op->role = RMA_TRANSFER;
	op->head.incarnation = ep->incarnation;
	if (unlikely(comm_is_unnamed(op->m.comm))) {
		if (injected && !op_keep_bytes(op)) {
			op_free(ep, op);
			return -FI_ENOMEM;
		}
		ask_await(ep, op);
		return 0;
	}
	if (ep->transfers.waiting.head != NULL)
		begin_waiting(ep);
	int result = ep->transfers.waiting.head != NULL ? -EAGAIN : transfer_step(ep, op);

	op->begun = !is_busy(result);
	if (result == 0)
		return 0;
	if (!is_busy(result)) {
		rma_fails(ep, op, result);
		return 0;
	}
	if (injected && op->copy == NULL && !op_keep_bytes(op)) {
		if (op->step != TRANSFER_NUMBER)
			number_put(ep, op);
		op_free(ep, op);
		return -FI_ENOMEM;
	}
	op_append(&ep->transfers.waiting, op);
	return 0;
}

/* Note that the bytes of an own transfer have come, or gone, in a message of their own. End the
 * transfer if that failed, or if no answer is still to come. */
static void
transfer_moved(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	int error = status->error;

	op->moved = true;
	if (op->head.kind == RMA_READ_BULK && error == 0 && status->len != op->len)
		error = -EIO;
	if (error == -ECANCELED && op->answered)
		error = op->error;
	if (ep->gone || error != 0 || op->head.kind == RMA_READ_BULK)
		transfer_ends(ep, op, error);
	else if (op->answered)
		transfer_ends(ep, op, op->error);
}

/* Copy the bytes that came with an answer to where the own transfer wants them. */
static void
scatter(const struct ofi_op *op, const uint8_t *bytes)
{
	const struct iovec one = {op->buf, op->len};
	const struct iovec *iov = op->pieces ? op->iov : &one;

	for (unsigned i = 0; i < (op->pieces ? op->pieces : 1u); i++) {
		if (iov[i].iov_len != 0)
			memcpy(iov[i].iov_base, bytes, iov[i].iov_len);
		bytes += iov[i].iov_len;
	}
}

static void
answer_arrives(struct endpoint *ep, const struct rma_head *h, const uint8_t *bytes, size_t n,
	struct pmx_addr source)
{
	struct ofi_op *op = number_find(ep, h->id);
	int error = -h->error;

	if (op == NULL || op->answered || op->step < TRANSFER_BULK ||
		!same_peer(source, op->m.peer))
		return;
	if (op->head.kind == RMA_WRITE_BULK) {
		op->answered = true;
		op->error = error;
		if (op->moved)
			transfer_ends(ep, op, error);
		return;
	}
	if (op->head.kind == RMA_READ_BULK) {
		if (error != 0) /* otherwise its bytes are the answer */
			rma_fails(ep, op, error);
		return;
	}
	if (error == 0 && n != op->len)
		error = -EPROTO;
	if (error == 0)
		scatter(op, bytes);
	transfer_ends(ep, op, error);
}

/* ------------------------------------------------------------------ for others */

int
mr_by_key(const void *a, const void *b)
{
	uint64_t x = ((const struct mr *)a)->fid.key, y = ((const struct mr *)b)->fid.key;

	return x < y ? -1 : x > y;
}

/* Return the region, if [at, at + len) is in it and may be accessed so (FI_REMOTE_READ,
 * FI_REMOTE_WRITE), and set *bytes to where its bytes are; otherwise NULL, and *error is a positive
 * errno. */
static struct mr *
region_access(const struct domain *d, const struct rma_head *h, uint64_t right, uint8_t **bytes,
	int *error)
{
	const struct mr name = {.fid.key = h->key};
	struct mr *const *found = tfind(&name, (void *const *)&d->regions, mr_by_key);
	struct mr *mr = found != NULL ? *found : NULL;
	/* an address below the region wraps around, and so lies beyond its end */
	uint64_t at = mr != NULL && d->by_address ? h->at - (uintptr_t)mr->base : h->at;

	*error = mr == NULL                             ? ENOKEY
		: (right & ~mr->access) != 0            ? EACCES
		: at > mr->len || h->len > mr->len - at ? ERANGE
							: 0;
	if (*error != 0)
		return NULL;
	*bytes = mr->base + at;
	return mr;
}

/* Answer a request, whose head is *h, now or when there is room. error: 0 or a positive errno. The
 * bytes go with the answer only if it is 0. */
static void
reply(struct endpoint *ep, const struct rma_head *h, struct pmx_addr to, int error,
	const void *bytes, size_t n)
{
	const struct rma_head head = {.kind = RMA_ANSWER, .id = h->id, .error = error};
	const struct pmx_matched m = {
		.peer = to,
		.comm = comm_of(h->incarnation, COMM_CONTROL),
		.data = (void *)(uintptr_t)bytes,
		.len = error == 0 ? n : 0,
	};

	if (likely(!is_busy(rma_tell(ep, &head, &m))))
		return; /* an error means that the initiator, or the engine, is gone */
	struct ofi_op *op = op_new(ep);

	if (op == NULL) {
		OFI_WARN(EP_DATA, "out of memory: a transfer of another is not answered\n");
		return;
	}
	op->role = RMA_REPLY;
	op->head = head;
	op->m = m;
	if (op_keep_bytes(op))
		op_append(&ep->transfers.serving, op);
	else
		op_free(ep, op);
}

/* Tell those who asked for it that a transfer of another has been done: the counters of the region
 * and of the endpoint, and the completion queue if it came with data. */
static void
served(struct endpoint *ep, const struct rma_head *h, const struct mr *mr, struct pmx_addr source)
{
	bool writes = h->kind != RMA_READ && h->kind != RMA_READ_BULK && h->kind != RMA_FETCH;
	const struct pmx_status status = {
		.source = source,
		.flags = PMX_IMMEDIATE,
		.immediate = h->data,
		.len = h->len,
	};

	cntr_count(writes ? mr->written : mr->read, false);
	cntr_count(ep->cntrs[writes ? CNTR_REMOTE_WRITES : CNTR_REMOTE_READS], false);
	if (h->with_data)
		completion_put(ep, FI_RMA | FI_REMOTE_WRITE, NULL, NULL, &status);
}

/* Begin the message with the bytes of another's transfer, or send an answer that waits. Return true
 * if it needs no more room. */
static bool
serve_step(struct endpoint *ep, struct ofi_op *op)
{
	int result;

	if (op->role == RMA_REPLY) {
		result = rma_tell(ep, &op->head, &op->m);
		if (!is_busy(result))
			op_free(ep, op);
		return !is_busy(result);
	}
	const struct pmx_matched m = op->head.kind == RMA_READ_BULK ? bulk_send(op)
								    : bulk_receive(ep, op);

	result = op->head.kind == RMA_READ_BULK ? pmx_isend(ep->ctx, &m, &op->request)
						: pmx_irecv(ep->ctx, &m, &op->request);
	if (result != 0 && !is_busy(result)) {
		const struct pmx_status status = {.error = result};

		rma_ended(ep, op, &status);
	}
	return !is_busy(result);
}

/* Move the bytes of another's transfer by a message of their own. If mr is NULL, the bytes that
 * come are thrown away, because of the error (a positive errno). */
static void
serve_bulk(struct endpoint *ep, const struct rma_head *h, struct pmx_addr source, struct mr *mr,
	void *bytes, int error)
{
	struct ofi_op *op = op_new(ep);

	if (op == NULL) {
		OFI_WARN(EP_DATA, "out of memory: a transfer of another is not done\n");
		return;
	}
	op->role = RMA_SERVICE;
	op->head = *h;
	op->error = error;
	op->mr = mr;
	op->m.peer = source;
	op->m.comm = comm_of(h->incarnation, COMM_BULK);
	op->buf = op->m.data = bytes;
	op->len = op->m.len = mr != NULL ? h->len : 0;
	ep->life.waiting++;
	if (mr != NULL)
		mr->users++;
	if (ep->transfers.serving.head != NULL || !serve_step(ep, op))
		op_append(&ep->transfers.serving, op);
}

static void
service_ended(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	int error = op->error != 0 ? op->error : -status->error;

	ep->life.waiting--;
	if (op->head.kind == RMA_WRITE_BULK && error == 0 && status->len != op->len)
		error = EPROTO;
	if (op->mr != NULL) {
		op->mr->users--;
		if (error == 0)
			served(ep, &op->head, op->mr, op->m.peer);
	}
	if (!ep->gone && (op->head.kind == RMA_WRITE_BULK || error != 0))
		reply(ep, &op->head, op->m.peer, error, NULL, 0);
	op_free(ep, op);
}

/* Do an atomic operation for another on the memory at `at`, and write what was there before to
 * `was` unless that is NULL. Return 0 or a positive errno. */
static int
serve_atomic(const struct rma_head *h, uint8_t *at, const uint8_t *operands, size_t n, uint8_t *was)
{
	size_t each = atomic_bytes((enum fi_op)h->atomic, (enum fi_datatype)h->type);
	bool compares = atomic_compares((enum fi_op)h->atomic);
	size_t needed = h->atomic == FI_ATOMIC_READ ? 0 : h->len * (compares ? 2 : 1);

	if (each == 0 || h->len > OFI_ATOMIC_MAX || h->len % each != 0 || n != needed)
		return EPROTO;
	if ((uintptr_t)at % each != 0)
		return EINVAL;
	return -pmx_atomic_here((enum pmx_atomic_op)h->atomic, (enum pmx_atomic_type)h->type, at,
		h->len / each, operands, operands + h->len, was);
}

static void
request_arrives(struct endpoint *ep, const struct rma_head *h, const uint8_t *bytes, size_t n,
	struct pmx_addr source)
{
	static const uint64_t rights[RMA_KINDS] = {
		[RMA_WRITE] = FI_REMOTE_WRITE,
		[RMA_WRITE_BULK] = FI_REMOTE_WRITE,
		[RMA_READ] = FI_REMOTE_READ,
		[RMA_READ_BULK] = FI_REMOTE_READ,
		[RMA_ATOMIC] = FI_REMOTE_WRITE,
		[RMA_FETCH] = FI_REMOTE_READ | FI_REMOTE_WRITE,
	};
	uint64_t right = h->atomic == FI_ATOMIC_READ && h->kind == RMA_FETCH ? FI_REMOTE_READ
									     : rights[h->kind];
	uint8_t *at = NULL, *answer = NULL, was[OFI_ATOMIC_MAX];
	int error;
	struct mr *mr = region_access(ep->domain, h, right, &at, &error);

	switch ((enum rma_kind)h->kind) {
	case RMA_WRITE:
		if (error == 0 && n != h->len)
			error = EPROTO;
		if (error == 0)
			memcpy(at, bytes, n);
		break;
	case RMA_READ:
		if (error == 0 && h->len > OFI_INJECT_MAX)
			error = EPROTO;
		answer = at;
		break;
	case RMA_WRITE_BULK:
		serve_bulk(ep, h, source, mr, at, error);
		return;
	case RMA_READ_BULK:
		if (error == 0) {
			serve_bulk(ep, h, source, mr, at, 0);
			return;
		}
		break;
	case RMA_ATOMIC:
		if (error == 0)
			error = serve_atomic(h, at, bytes, n, NULL);
		break;
	default:
		if (error == 0)
			error = serve_atomic(h, at, bytes, n, was);
		answer = was;
	}
	if (error == 0)
		served(ep, h, mr, source);
	reply(ep, h, source, error, answer, answer != NULL ? h->len : 0);
}

/* ------------------------------------------------------------------ messages that come */

/* Post the receive of a message about remote memory. Return false if there is no room now. */
static bool
message_post(struct endpoint *ep, struct ofi_op *op)
{
	const struct pmx_matched m = {
		.peer = PMX_ANY_SOURCE,
		.comm = comm_of(ep->incarnation, COMM_CONTROL),
		.flags = PMX_QUEUED,
		.tag = OFI_TAG_RMA,
		.data = op->copy,
		.len = sizeof(struct rma_head) + OFI_INJECT_MAX,
		.cookie = (uintptr_t)op,
	};

	op->moved = false;
	return pmx_irecv(ep->ctx, &m, &op->request) == 0;
}

static void
messages_post(struct endpoint *ep)
{
	for (struct ofi_op *op; (op = ep->transfers.idle.head) != NULL && message_post(ep, op);) {
		ep->transfers.idle.head = op->next;
		op_append(&ep->transfers.posted, op);
	}
}

int
rma_enable(struct endpoint *ep)
{
	for (unsigned i = 0; i < POSTED; i++) {
		struct ofi_op *op = op_new(ep);

		if (op == NULL)
			return -FI_ENOMEM;
		op->role = RMA_MESSAGE;
		op->copy = malloc(sizeof(struct rma_head) + OFI_INJECT_MAX);
		if (op->copy == NULL)
			return -FI_ENOMEM;
		op_append(&ep->transfers.idle, op);
	}
	messages_post(ep);
	return 0;
}

static void
message_arrives(struct endpoint *ep, const struct ofi_op *op)
{
	const struct pmx_status *status = &op->promise;
	const uint8_t *bytes = (const uint8_t *)op->copy + sizeof(struct rma_head);
	struct rma_head h;

	/* what is no such message comes from no provider of this version */
	if (status->error != 0 || status->len < sizeof(h))
		return;
	memcpy(&h, op->copy, sizeof(h));
	size_t n = status->len - sizeof(h);

	if (h.kind == RMA_ANSWER)
		answer_arrives(ep, &h, bytes, n, status->source);
	else if (h.kind != 0 && h.kind < RMA_ANSWER && h.incarnation != 0 &&
		h.incarnation <= OFI_INCARNATION_MAX)
		request_arrives(ep, &h, bytes, n, status->source);
}

/* Look at the messages about remote memory that have come, in the order in which they were sent,
 * and post their receives again. */
static void
messages_look(struct endpoint *ep)
{
	for (struct ofi_op *op; (op = ep->transfers.posted.head) != NULL && op->moved;) {
		ep->transfers.posted.head = op->next;
		message_arrives(ep, op);
		op_append(&ep->transfers.idle, op);
	}
	messages_post(ep);
}

/* ------------------------------------------------------------------ progress */

void
rma_ended(struct endpoint *ep, struct ofi_op *op, const struct pmx_status *status)
{
	switch ((enum op_role)op->role) {
	case RMA_TRANSFER:
		if (ep->gone) {
			op->moved = true;
			transfer_ends(ep, op, status->error);
		} else {
			transfer_moved(ep, op, status);
		}
		break;
	case RMA_MESSAGE:
		op->promise = *status;
		op->moved = true;
		if (!ep->gone)
			messages_look(ep);
		break;
	case RMA_SERVICE:
		service_ended(ep, op, status);
		break;
	case RMA_REPLY:
		op_free(ep, op);
		break;
	case LIFE_PING:     /* of life.c */
	case MESSAGE_PIECE: /* of pieces.c */
		break;
	}
}

void
rma_progress(struct endpoint *ep)
{
	struct ofi_op_list *serving = &ep->transfers.serving;

	if (unlikely(ep->transfers.idle.head != NULL))
		messages_post(ep);
	for (struct ofi_op *op; (op = serving->head) != NULL;) {
		serving->head = op->next;
		if (serve_step(ep, op))
			continue;
		op_prepend(serving, op);
		break;
	}
	if (ep->transfers.waiting.head != NULL)
		begin_waiting(ep);
}

/* ------------------------------------------------------------------ verbs */

/* An own transfer as its caller has it, without its bytes. */
struct access {
	fi_addr_t peer;
	uint64_t at, key, flags, data;
	void *context;
	bool reports; /* a success is a completion */
};

static ssize_t
transfer(struct endpoint *ep, const struct iovec *iov, size_t count, const struct access *a,
	bool reads)
{
	const struct av_entry *peer = ep->av != NULL ? av_at(ep->av, a->peer) : NULL;
	uint64_t len = 0;

	if (unlikely(peer == NULL || count > OFI_IOV_MAX || !(ep->caps & FI_RMA)))
		return peer == NULL || count > OFI_IOV_MAX ? -FI_EINVAL : -FI_EOPNOTSUPP;
	if (unlikely(ep->ctx == NULL || ep->gone))
		return ep->gone ? -FI_ECONNABORTED : -FI_EOPBADSTATE;
	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	if (unlikely((a->flags & FI_INJECT && len > OFI_INJECT_MAX) || len > OFI_MESSAGE_MAX))
		return -FI_EINVAL;
	struct ofi_op *op = op_new(ep);

	if (unlikely(op == NULL))
		return -FI_ENOMEM;
	bool bulk = len > OFI_INJECT_MAX;

	op->context = a->context;
	op->flags = FI_RMA | (reads ? FI_READ : FI_WRITE);
	op->reports = a->reports;
	op->head = (struct rma_head){
		.kind = (uint8_t)(reads ? bulk ? RMA_READ_BULK : RMA_READ
				: bulk  ? RMA_WRITE_BULK
					: RMA_WRITE),
		.with_data = a->flags & FI_REMOTE_CQ_DATA ? 1 : 0,
		.key = a->key,
		.at = a->at,
		.len = len,
		.data = a->data,
	};
	op->m.peer = peer->to;
	op->m.comm = peer->comm;
	if (count > 1)
		memcpy(op->iov, iov, count * sizeof(*iov));
	if (reads) {
		op->buf = count == 1 ? iov->iov_base : NULL;
		op->len = len;
		op->pieces = count > 1 ? (uint8_t)count : 0;
	} else if (count > 1) {
		op->m.iov = op->iov;
		op->m.iov_count = (uint32_t)count;
	} else if (count == 1) {
		op->m.data = iov->iov_base;
		op->m.len = len;
	}
	return rma_begin(ep, op, a->flags & FI_INJECT);
}

/* flags: of the operation. */
static ssize_t
transfer_locked(struct fid_ep *fid, const struct iovec *iov, size_t count, struct access a,
	bool reads)
{
	struct endpoint *ep = (struct endpoint *)fid;

	a.reports = !ep->tx_selective || a.flags & FI_COMPLETION;
	domain_lock(ep->domain);
	ssize_t result = transfer(ep, iov, count, &a, reads);

	domain_posted(ep->domain);
	return result;
}

/* Return the default flags of a write. FI_INJECT among them means what is short enough for it. */
static uint64_t
write_flags(const struct fid_ep *fid, const struct iovec *iov, size_t count)
{
	const uint64_t flags = ((const struct endpoint *)fid)->tx_flags;

	return bytes_of(iov, count) > OFI_INJECT_MAX ? flags & ~FI_INJECT : flags;
}

static ssize_t
rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
	uint64_t at, uint64_t key, void *context)
{
	(void)desc;
	return transfer_locked(fid, iov, count,
		(struct access){from, at, key,
			((const struct endpoint *)fid)->tx_flags & ~FI_INJECT, 0, context, false},
		true);
}

static ssize_t
rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t at,
	uint64_t key, void *context)
{
	const struct iovec iov = {buf, len};

	return rma_readv(fid, &iov, &desc, 1, from, at, key, context);
}

static ssize_t
rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t at, uint64_t key, void *context)
{
	(void)desc;
	return transfer_locked(fid, iov, count,
		(struct access){to, at, key, write_flags(fid, iov, count), 0, context, false},
		false);
}

static ssize_t
rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t at,
	uint64_t key, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return rma_writev(fid, &iov, &desc, 1, to, at, key, context);
}

static ssize_t
rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
	fi_addr_t to, uint64_t at, uint64_t key, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return transfer_locked(fid, &iov, 1,
		(struct access){to, at, key, write_flags(fid, &iov, 1) | FI_REMOTE_CQ_DATA, data,
			context, false},
		false);
}

/* fi_readmsg() and fi_writemsg(). */
static ssize_t
transfer_message(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags, bool reads)
{
	uint64_t len = 0;

	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	for (size_t i = 0; i < msg->iov_count; i++)
		len += msg->msg_iov[i].iov_len;
	if (len != msg->rma_iov->len)
		return -FI_EINVAL;
	return transfer_locked(fid, msg->msg_iov, msg->iov_count,
		(struct access){msg->addr, msg->rma_iov->addr, msg->rma_iov->key, flags, msg->data,
			msg->context, false},
		reads);
}

static ssize_t
rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return transfer_message(fid, msg, flags & ~FI_INJECT, true);
}

static ssize_t
rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return transfer_message(fid, msg, flags, false);
}

/* fi_inject_write() and fi_inject_writedata(): no completion of a success. */
static ssize_t
inject(struct fid_ep *fid, const void *buf, size_t len, const struct access *a)
{
	struct endpoint *ep = (struct endpoint *)fid;
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	domain_lock(ep->domain);
	ssize_t result = transfer(ep, &iov, 1, a, false);

	domain_posted(ep->domain);
	return result;
}

static ssize_t
rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to, uint64_t at, uint64_t key)
{
	return inject(fid, buf, len, &(struct access){to, at, key, FI_INJECT, 0, NULL, false});
}

static ssize_t
rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t to,
	uint64_t at, uint64_t key)
{
	return inject(fid, buf, len,
		&(struct access){to, at, key, FI_INJECT | FI_REMOTE_CQ_DATA, data, NULL, false});
}

struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
