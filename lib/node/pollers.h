/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who polls on which CPU of this host.
 */
#ifndef PMX_POLLERS_H
#define PMX_POLLERS_H

#include <sched.h>

/* The one of these CPUs that has the fewest pollers of other processes; the lowest of several; -1:
 * there is none. Not thread safe. */
int poller_cpu(const cpu_set_t *allowed);

#endif
