/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What Open MPI's header of threads includes, and the -dev package of Open MPI 5 does not have: how
 * a thread gives others a turn.
 */
#ifndef PMX_MPI_THREADS_THREADS_H
#define PMX_MPI_THREADS_THREADS_H

#include <sched.h>

static inline void
opal_thread_yield(void)
{
	sched_yield();
}

#endif
