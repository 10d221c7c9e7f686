/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Maps applications' memory for the links' devices, so that they can read it by themselves. Called
 * by the thread that makes or frees the memory. It is no error if a device cannot read it;
 * m->for_devices tells whether all can.
 */
#ifndef PMX_MEMORY_DEVICES_H
#define PMX_MEMORY_DEVICES_H

#include "memory/memory.h"

/* page: size of the memory's pages, bytes. */
void devices_map(const struct mappings *x, struct memory *m, uint64_t page);
void devices_unmap(const struct mappings *x, struct memory *m);

#endif
