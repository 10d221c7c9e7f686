/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a REDUCE does to elements. Pure; any thread.
 */
#ifndef PMX_COLL_COMBINE_H
#define PMX_COLL_COMBINE_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/wire.h"

/* Whether there is such an operation (enum wire_atomic_op: MIN to BXOR) on such a type (enum
 * wire_atomic_type); bits of float and double have none. */
bool coll_combines(unsigned op, unsigned type);
/* Bytes of an element. */
unsigned coll_element(unsigned type);
/* to[i] = to[i] op from[i], for len bytes of elements; no alignment is needed. */
void coll_combine(unsigned op, unsigned type, void *to, const void *from, size_t len);

#endif
