/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the links' devices may read of applications' memory. Runs where memory is made and freed.
 * m->for_devices tells; it is no error if they cannot.
 */
#ifndef PMX_MEMORY_DEVICES_H
#define PMX_MEMORY_DEVICES_H

#include "memory/memory.h"

/* page: bytes of each of its pages. */
void devices_map(const struct mappings *x, struct memory *m, uint64_t page);
void devices_unmap(const struct mappings *x, struct memory *m);

#endif
