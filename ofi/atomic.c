/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic operations (fi_atomic(3)): a target does them for its initiators (rma.c), and they are
 * atomic among themselves, to pmx_atomic(), and to the processors of the target's host.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

/* ------------------------------------------------------------------ elements */

static_assert((int)FI_MIN == (int)PMX_ATOMIC_MIN && (int)FI_BXOR == (int)PMX_ATOMIC_BXOR &&
		(int)FI_ATOMIC_READ == (int)PMX_ATOMIC_READ &&
		(int)FI_CSWAP == (int)PMX_ATOMIC_CSWAP && (int)FI_MSWAP == (int)PMX_ATOMIC_MSWAP,
	"libfabric's operations have libpmx's numbers");
static_assert((int)FI_INT8 == (int)PMX_INT8 && (int)FI_UINT64 == (int)PMX_UINT64 &&
		(int)FI_FLOAT == (int)PMX_FLOAT && (int)FI_DOUBLE == (int)PMX_DOUBLE,
	"and its types");

/* ------------------------------------------------------------------ what there is */

enum family { FAMILY_WRITE, FAMILY_FETCH, FAMILY_COMPARE };

static bool
is_of(enum family family, enum fi_op op)
{
	if (atomic_compares(op))
		return family == FAMILY_COMPARE;
	return family == FAMILY_FETCH || (family == FAMILY_WRITE && op != FI_ATOMIC_READ);
}

static int
valid(enum family family, enum fi_datatype type, enum fi_op op, size_t *count)
{
	const uint32_t each = atomic_bytes(op, type);

	if (each == 0 || !is_of(family, op))
		return -FI_EOPNOTSUPP;
	if (count != NULL)
		*count = OFI_ATOMIC_MAX / each;
	return 0;
}

static int
write_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(FAMILY_WRITE, type, op, count);
}

static int
fetch_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(FAMILY_FETCH, type, op, count);
}

static int
compare_valid(struct fid_ep *fid, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)fid;
	return valid(FAMILY_COMPARE, type, op, count);
}

int
atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
	struct fi_atomic_attr *attr, uint64_t flags)
{
	enum family family = flags & FI_FETCH_ATOMIC ? FAMILY_FETCH
		: flags & FI_COMPARE_ATOMIC          ? FAMILY_COMPARE
						     : FAMILY_WRITE;
	size_t count;

	(void)domain;
	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ||
		(flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	int result = valid(family, type, op, &count);

	if (result == 0)
		*attr = (struct fi_atomic_attr){count, atomic_bytes(op, type)};
	return result;
}

/* ------------------------------------------------------------------ verbs */

/* An operation as its caller has it. */
struct atomic_call {
	enum family family;
	const struct fi_ioc *operands, *compared;
	size_t operands_count, compared_count;
	const struct fi_ioc *results;
	size_t results_count;
	fi_addr_t peer;
	uint64_t at, key, flags;
	enum fi_datatype type;
	enum fi_op op;
	void *context;
	bool reports;
};

/* Copy the pieces, whose elements have `each` bytes, to `to` one behind the other, unless `to` is
 * NULL. Return how many elements they have together. */
static size_t
gather(uint8_t *to, const struct fi_ioc *pieces, size_t count, size_t each)
{
	size_t elements = 0;

	for (size_t i = 0; i < count; i++) {
		if (to != NULL && pieces[i].count != 0)
			memcpy(to + elements * each, pieces[i].addr, pieces[i].count * each);
		elements += pieces[i].count;
	}
	return elements;
}

static ssize_t
post(struct endpoint *ep, const struct atomic_call *c)
{
	const struct av_entry *peer = ep->av != NULL ? av_at(ep->av, c->peer) : NULL;
	size_t each = atomic_bytes(c->op, c->type);
	const struct fi_ioc *shape = c->op == FI_ATOMIC_READ ? c->results : c->operands;
	size_t shape_count = c->op == FI_ATOMIC_READ ? c->results_count : c->operands_count;

	if (each == 0 || !is_of(c->family, c->op) || !(ep->caps & FI_ATOMIC))
		return -FI_EOPNOTSUPP;
	if (peer == NULL || shape_count > OFI_IOV_MAX || c->results_count > OFI_IOV_MAX ||
		c->compared_count > OFI_IOV_MAX)
		return -FI_EINVAL;
	if (ep->ctx == NULL || ep->gone)
		return ep->gone ? -FI_ECONNABORTED : -FI_EOPBADSTATE;
	size_t elements = gather(NULL, shape, shape_count, each), len = elements * each;
	size_t sent = c->op == FI_ATOMIC_READ ? 0 : c->family == FAMILY_COMPARE ? 2 * len : len;

	if (elements == 0 || len > OFI_ATOMIC_MAX ||
		(c->family == FAMILY_COMPARE &&
			gather(NULL, c->compared, c->compared_count, each) != elements) ||
		(c->family != FAMILY_WRITE &&
			gather(NULL, c->results, c->results_count, each) != elements))
		return -FI_EINVAL;
	struct ofi_op *op = op_new(ep);

	if (op == NULL || (sent > sizeof(op->few) && (op->copy = malloc(sent)) == NULL)) {
		if (op != NULL)
			op_free(ep, op);
		return -FI_ENOMEM;
	}
	op->m = (struct pmx_matched){
		.peer = peer->to,
		.comm = peer->comm,
		.data = op->copy != NULL ? op->copy : op->few,
		.len = sent,
	};
	if (sent != 0)
		gather(op->m.data, c->operands, c->operands_count, each);
	if (c->family == FAMILY_COMPARE)
		gather((uint8_t *)op->m.data + len, c->compared, c->compared_count, each);
	if (c->family != FAMILY_WRITE) {
		op->len = len;
		op->pieces = (uint8_t)c->results_count;
		for (size_t i = 0; i < c->results_count; i++)
			op->iov[i] = (struct iovec){c->results[i].addr, c->results[i].count * each};
	}
	op->context = c->context;
	op->flags = FI_ATOMIC | (c->family == FAMILY_WRITE ? FI_WRITE : FI_READ);
	op->reports = c->reports;
	op->head = (struct rma_head){
		.kind = c->family == FAMILY_WRITE ? RMA_ATOMIC : RMA_FETCH,
		.type = (uint8_t)c->type,
		.atomic = (uint8_t)c->op,
		.key = c->key,
		.at = c->at,
		.len = len,
	};
	return rma_begin(ep, op, false);
}

/* Post the operation with the domain locked. c.flags are the flags of this operation, and c.reports
 * is set here. */
static ssize_t
post_locked(struct fid_ep *fid, struct atomic_call c)
{
	struct endpoint *ep = (struct endpoint *)fid;

	c.reports = !ep->tx_selective || c.flags & FI_COMPLETION;
	domain_lock(ep->domain);
	ssize_t result = post(ep, &c);

	domain_posted(ep->domain);
	return result;
}

static uint64_t
flags_of(const struct fid_ep *fid)
{
	return ((const struct endpoint *)fid)->tx_flags;
}

static ssize_t
write_pieces(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t at, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc;
	return post_locked(fid,
		(struct atomic_call){
			.family = FAMILY_WRITE,
			.operands = iov,
			.operands_count = count,
			.peer = to,
			.at = at,
			.key = key,
			.flags = flags_of(fid),
			.type = type,
			.op = op,
			.context = context,
		});
}

static ssize_t
write_one(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t to, uint64_t at,
	uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	const struct fi_ioc iov = {(void *)(uintptr_t)buf, count};

	return write_pieces(fid, &iov, &desc, 1, to, at, key, type, op, context);
}

static ssize_t
write_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t to, uint64_t at,
	uint64_t key, enum fi_datatype type, enum fi_op op)
{
	struct endpoint *ep = (struct endpoint *)fid;
	const struct fi_ioc iov = {(void *)(uintptr_t)buf, count};
	const struct atomic_call c = {
		.family = FAMILY_WRITE,
		.operands = &iov,
		.operands_count = 1,
		.peer = to,
		.at = at,
		.key = key,
		.type = type,
		.op = op,
	};

	domain_lock(ep->domain);
	ssize_t result = post(ep, &c);

	domain_unlock(ep->domain);
	return result;
}

static ssize_t
post_message(struct fid_ep *fid, struct atomic_call c, const struct fi_msg_atomic *msg)
{
	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	c.operands = msg->msg_iov;
	c.operands_count = msg->iov_count;
	c.peer = msg->addr;
	c.at = msg->rma_iov->addr;
	c.key = msg->rma_iov->key;
	c.type = msg->datatype;
	c.op = msg->op;
	c.context = msg->context;
	return post_locked(fid, c);
}

static ssize_t
write_message(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return post_message(fid, (struct atomic_call){.family = FAMILY_WRITE, .flags = flags}, msg);
}

static ssize_t
fetch_pieces(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
	struct fi_ioc *results, void **result_desc, size_t result_count, fi_addr_t to, uint64_t at,
	uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc;
	(void)result_desc;
	return post_locked(fid,
		(struct atomic_call){
			.family = FAMILY_FETCH,
			.operands = iov,
			.operands_count = count,
			.results = results,
			.results_count = result_count,
			.peer = to,
			.at = at,
			.key = key,
			.flags = flags_of(fid),
			.type = type,
			.op = op,
			.context = context,
		});
}

static ssize_t
fetch_one(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t to, uint64_t at, uint64_t key, enum fi_datatype type,
	enum fi_op op, void *context)
{
	const struct fi_ioc iov = {(void *)(uintptr_t)buf, count};
	struct fi_ioc to_here = {result, count};

	return fetch_pieces(fid, &iov, &desc, 1, &to_here, &result_desc, 1, to, at, key, type, op,
		context);
}

static ssize_t
fetch_message(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *results,
	void **result_desc, size_t result_count, uint64_t flags)
{
	(void)result_desc;
	return post_message(fid,
		(struct atomic_call){
			.family = FAMILY_FETCH,
			.results = results,
			.results_count = result_count,
			.flags = flags,
		},
		msg);
}

static ssize_t
compare_pieces(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
	const struct fi_ioc *compared, void **compare_desc, size_t compare_count,
	struct fi_ioc *results, void **result_desc, size_t result_count, fi_addr_t to, uint64_t at,
	uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc;
	(void)compare_desc;
	(void)result_desc;
	return post_locked(fid,
		(struct atomic_call){
			.family = FAMILY_COMPARE,
			.operands = iov,
			.operands_count = count,
			.compared = compared,
			.compared_count = compare_count,
			.results = results,
			.results_count = result_count,
			.peer = to,
			.at = at,
			.key = key,
			.flags = flags_of(fid),
			.type = type,
			.op = op,
			.context = context,
		});
}

static ssize_t
compare_one(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compared,
	void *compare_desc, void *result, void *result_desc, fi_addr_t to, uint64_t at,
	uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	const struct fi_ioc iov = {(void *)(uintptr_t)buf, count};
	const struct fi_ioc with = {(void *)(uintptr_t)compared, count};
	struct fi_ioc to_here = {result, count};

	return compare_pieces(fid, &iov, &desc, 1, &with, &compare_desc, 1, &to_here, &result_desc,
		1, to, at, key, type, op, context);
}

static ssize_t
compare_message(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *compared,
	void **compare_desc, size_t compare_count, struct fi_ioc *results, void **result_desc,
	size_t result_count, uint64_t flags)
{
	(void)compare_desc;
	(void)result_desc;
	return post_message(fid,
		(struct atomic_call){
			.family = FAMILY_COMPARE,
			.compared = compared,
			.compared_count = compare_count,
			.results = results,
			.results_count = result_count,
			.flags = flags,
		},
		msg);
}

struct fi_ops_atomic atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = write_one,
	.writev = write_pieces,
	.writemsg = write_message,
	.inject = write_inject,
	.readwrite = fetch_one,
	.readwritev = fetch_pieces,
	.readwritemsg = fetch_message,
	.compwrite = compare_one,
	.compwritev = compare_pieces,
	.compwritemsg = compare_message,
	.writevalid = write_valid,
	.readwritevalid = fetch_valid,
	.compwritevalid = compare_valid,
};
