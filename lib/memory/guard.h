/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handles SIGBUS in mapped memory of applications: where the application has punched a hole, or the
 * kernel finds no page, it maps a private page of this process instead, so that only that
 * application is harmed. Any thread may call these functions.
 */
#ifndef PMX_MEMORY_GUARD_H
#define PMX_MEMORY_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Install the signal handler. This is only for a primary, not for an application's process. */
void guard_begin(void);
bool guard_is_on(void);
/* Guard [base, base + len), which has pages of `page` bytes. Return false if the table is full. */
bool guard_add(void *base, size_t len, size_t page);
void guard_remove(const void *base);

#endif
