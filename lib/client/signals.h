/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals belong to the application: the library's threads, and those of DPDK, begin with all of
 * them blocked, and what cannot go on after an interruption is not interrupted.
 */
#ifndef PMX_CLIENT_SIGNALS_H
#define PMX_CLIENT_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* Block all signals in this thread but those of its own faults. Return what was blocked before, for
 * signals_restore(). */
static inline sigset_t
signals_block(void)
{
	sigset_t most, before;

	sigfillset(&most);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGFPE);
	sigdelset(&most, SIGABRT);
	pthread_sigmask(SIG_SETMASK, &most, &before);
	return before;
}

static inline void
signals_restore(sigset_t before)
{
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
