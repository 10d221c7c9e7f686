/* SPDX-License-Identifier: BSD-3-Clause
 *
 * DPDK's lock of memory, which lies in shared memory, when a secondary was killed that held it.
 */
#ifndef PMX_SERVE_MEMORY_LOCK_H
#define PMX_SERVE_MEMORY_LOCK_H

#include <stdbool.h>

/* Give the lock back for those who are dead. Waits until no secondary's EAL begins. Return false if
 * that took too long, or the lock was not free even then: who takes it for writing would wait for
 * ever. Any thread. */
bool memory_lock_free(void);
/* Have a thread do that, and return at once. */
void memory_lock_free_soon(void);

#endif
