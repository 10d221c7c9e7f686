/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hints for the compiler: which way is the common one, and what stays out of it. DPDK's headers
 * define the first two in the same way.
 */
#ifndef PMX_BASE_LIKELY_H
#define PMX_BASE_LIKELY_H

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* Kept out of line, so that the fast path in the caller need not save registers for it. */
#define APART __attribute__((noinline))

#endif
