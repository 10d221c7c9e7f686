/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Holes in mapped memory of applications, and pages that the kernel does not find for them, harm
 * these applications alone: a page of this process's own takes the place (SIGBUS). Any thread.
 */
#ifndef PMX_MEMORY_GUARD_H
#define PMX_MEMORY_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* From here on; for a process that is nobody's but ours. */
void guard_begin(void);
bool guard_is_on(void);
/* [base, base + len), of pages of `page` bytes. false: the table is full. */
bool guard_add(void *base, size_t len, size_t page);
void guard_remove(const void *base);

#endif
