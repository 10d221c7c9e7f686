/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What Open MPI's header of locks includes, and the -dev package of Open MPI 5 does not have: the
 * locks and conditions that Open MPI is built with, which are those of POSIX threads.
 */
#ifndef PMX_MPI_THREADS_MUTEX_H
#define PMX_MPI_THREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER           PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER            PTHREAD_COND_INITIALIZER

static inline int
opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *m, bool recursive)
{
	const pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	const pthread_mutex_t again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	*m = recursive ? again : once;
	return 0;
}

#define opal_thread_internal_mutex_lock(m)    pthread_mutex_lock(m)
#define opal_thread_internal_mutex_trylock(m) pthread_mutex_trylock(m)
#define opal_thread_internal_mutex_unlock(m)  pthread_mutex_unlock(m)
#define opal_thread_internal_mutex_destroy(m) pthread_mutex_destroy(m)
#define opal_thread_internal_cond_init(c)     pthread_cond_init(c, NULL)
#define opal_thread_internal_cond_signal(c)   pthread_cond_signal(c)
#define opal_thread_internal_cond_destroy(c)  pthread_cond_destroy(c)

#endif
