/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds a CPU of this host on which few processes poll.
 */
#ifndef PMX_POLLERS_H
#define PMX_POLLERS_H

#include <sched.h>

/* Return the CPU, among the allowed ones, on which the fewest other processes poll. If there are
 * several, it is the lowest; -1: none is allowed. Not thread safe. */
int poller_cpu(const cpu_set_t *allowed);

#endif
