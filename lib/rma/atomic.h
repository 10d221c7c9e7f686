/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic operations on elements of memory (PM-MPI): what pmx_atomic() has the owner's engine do.
 * Pure; any thread.
 *
 * Design note
 * 1. An element is read, changed and put in place by compare and exchange. So operations are atomic
 *    to each other, whichever threads and processes have the same memory, and to the processors'
 *    own atomic instructions.
 */
#ifndef PMX_RMA_ATOMIC_H
#define PMX_RMA_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

/* Return the bytes of an element of a type (enum wire_atomic_type): 1, 2, 4, 8; 0: there is no such
 * type. */
uint32_t atomic_bytes(unsigned type);
/* Return whether the operation (enum wire_atomic_op) compares, and so has a second operand. */
bool atomic_compares(unsigned op);
/* Return whether there is such an operation on such a type: float and double have none on bits. */
bool atomic_is_valid(unsigned op, unsigned type);
/* Return whether `len` bytes are elements of that type, and not more than one request may have. */
bool atomic_len_is_valid(unsigned type, uint64_t len);
/* Return the bytes of the operands, and of those compared with, for `len` bytes of elements. */
uint32_t atomic_operands(unsigned op, uint32_t len);
/* Apply the operation to each element of [at, at + len). at: aligned to an element; len: a multiple
 * of an element. operands: as many elements, NULL for READ; compared: likewise, for those that
 * compare. before: NULL, or where the elements as they were are put. */
void atomic_apply(unsigned op, unsigned type, void *at, size_t len, const void *operands,
	const void *compared, void *before);

#endif
