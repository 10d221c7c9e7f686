/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests about memory of others that move no memory of the application's own: pins, and atomic
 * operations. Run in the context's thread.
 */
#include <errno.h>

#include "rma/client/rma.h"
#include "rma/atomic.h"

int
pmx_remote_pin(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	return transfers_ask(ctx, t, TRANSFER_PIN, NULL, id);
}

int
pmx_remote_unpin(struct pmx_context *ctx, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	return transfers_ask(ctx, t, TRANSFER_UNPIN, NULL, id);
}

/* ------------------------------------------------------------------ atomic operations */

static_assert((int)PMX_ATOMIC_MIN == (int)WIRE_A_MIN && (int)PMX_ATOMIC_BXOR == (int)WIRE_A_BXOR &&
		(int)PMX_ATOMIC_READ == (int)WIRE_A_READ &&
		(int)PMX_ATOMIC_CSWAP == (int)WIRE_A_CSWAP &&
		(int)PMX_ATOMIC_MSWAP == (int)WIRE_A_MSWAP,
	"operations have the numbers of the wire");
static_assert((int)PMX_INT8 == (int)WIRE_A_INT8 && (int)PMX_UINT64 == (int)WIRE_A_UINT64 &&
		(int)PMX_FLOAT == (int)WIRE_A_FLOAT && (int)PMX_DOUBLE == (int)WIRE_A_DOUBLE,
	"types have the numbers of the wire");
static_assert(PMX_ATOMIC_BYTES == WIRE_ATOMIC_BYTES, "as many bytes as the wire takes");

uint32_t
pmx_atomic_bytes(enum pmx_atomic_op op, enum pmx_atomic_type type)
{
	return atomic_is_valid(op, type) ? atomic_bytes(type) : 0;
}

/* Check an atomic operation and its arguments. Return 0, or -EOPNOTSUPP or -EINVAL. */
static int
atomic_check(unsigned op, unsigned type, const void *operands, const void *compared,
	const void *before)
{
	if (!atomic_is_valid(op, type))
		return -EOPNOTSUPP;
	return (operands == NULL && op != WIRE_A_READ) ||
			(compared == NULL && atomic_compares(op)) ||
			(before == NULL && op == WIRE_A_READ)
		? -EINVAL
		: 0;
}

int
pmx_atomic(struct pmx_context *ctx, const struct pmx_atomic_transfer *a, pmx_transfer_id *id)
{
	const uint32_t each = atomic_bytes(a->type);
	const int result = atomic_check(a->op, a->type, a->operands, a->compared, a->before);

	if (result != 0)
		return result;
	if (a->count == 0 || a->count > PMX_ATOMIC_BYTES / each)
		return -EINVAL;
	const struct pmx_transfer t = {
		.peer = a->peer,
		.flags = a->flags,
		.key = a->key,
		.remote = a->remote,
		.len = (uint64_t)a->count * each,
		.cookie = a->cookie,
		.status = a->status,
	};
	struct pmx_atomic_transfer mine = *a;

	if (a->op == PMX_ATOMIC_READ)
		mine.operands = NULL;
	if (!atomic_compares(a->op))
		mine.compared = NULL;
	return transfers_ask(ctx, &t, TRANSFER_ATOMIC, &mine, id);
}

int
pmx_atomic_here(enum pmx_atomic_op op, enum pmx_atomic_type type, void *at, uint64_t count,
	const void *operands, const void *compared, void *before)
{
	const int result = atomic_check(op, type, operands, compared, before);

	if (result != 0)
		return result;
	if ((uintptr_t)at % atomic_bytes(type) != 0)
		return -EINVAL;
	atomic_apply(op, type, at, count * atomic_bytes(type), operands, compared, before);
	return 0;
}
