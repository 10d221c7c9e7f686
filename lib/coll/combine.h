/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a REDUCE does to elements. Pure; any thread.
 */
#ifndef PMX_COLL_COMBINE_H
#define PMX_COLL_COMBINE_H

#include <stddef.h>

#include "core/wire/wire.h"

/* The last operation (enum wire_atomic_op) that combines. */
#define COLL_COMBINES_LAST WIRE_A_BXOR
/* to[i] = to[i] op from[i], for len bytes of elements of a type (enum wire_atomic_type); no
 * alignment is needed. There is such an operation on that type (atomic_is_valid). */
void coll_combine(unsigned op, unsigned type, void *to, const void *from, size_t len);

#endif
