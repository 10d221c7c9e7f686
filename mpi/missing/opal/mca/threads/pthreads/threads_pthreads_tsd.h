/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What Open MPI's header of threads' data includes, and the -dev package of Open MPI 5 does not
 * have: keys of data that each thread has its own of, which are those of POSIX threads.
 */
#ifndef PMX_MPI_THREADS_TSD_H
#define PMX_MPI_THREADS_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

#endif
