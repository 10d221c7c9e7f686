/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Faults in shared memory: SIGSEGV in the thread that accesses it. What is not of such memory is
 * passed on to the handler that was there before.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "dsm/dsm.h"

#define MEMORIES 16

static _Atomic(struct pmx_dsm *) memories[MEMORIES];
static struct sigaction before;
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

/* Return whether the access was a write. Where the processor does not say, take a second fault on
 * the same page for a write. */
static bool
was_write(const struct pmx_dsm *d, uint32_t page, const void *context)
{
#ifdef __x86_64__
	(void)d, (void)page;
	return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
	(void)context;
	return d->state[page] != PAGE_INVALID && d->state[page] != PAGE_FETCHED;
#endif
}

static void
say(const struct pmx_dsm *d, uint32_t page, int error)
{
	char text[240];
	int n = snprintf(text, sizeof(text),
		"pmx-dsm: page %u of the shared memory, whose home is rank %u, cannot be had: %s\n",
		page, d->home[page], pmx_strerror(error));

	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		return;
}

/* Handle a fault at an address of this memory. Return false if the address is not of this memory,
 * or the page could not be had. */
static bool
handle(struct pmx_dsm *d, const uint8_t *at, const void *context)
{
	if (at < d->view || at >= d->view + d->allocated || pthread_mutex_lock(&d->mutex) != 0)
		return false;
	const uint32_t page = (uint32_t)((uint64_t)(at - d->view) / d->page_bytes);
	const bool writes = was_write(d, page, context);
	int result = dsm_access(d, page, 1, writes);

	d->stat.writes += writes;
	d->stat.reads += !writes;
	if (result != 0)
		say(d, page, result);
	pthread_mutex_unlock(&d->mutex);
	return result == 0;
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
	const int saved = errno;
	bool handled = false;

	for (unsigned i = 0; i < MEMORIES && !handled; i++) {
		struct pmx_dsm *d = atomic_load_explicit(&memories[i], memory_order_acquire);

		handled = d != NULL && info->si_code == SEGV_ACCERR &&
			handle(d, info->si_addr, context);
	}
	errno = saved;
	if (handled)
		return;
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(number, info, context);
	else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
		signal(number, SIG_DFL); /* the access faults again, which ends the process */
	else
		before.sa_handler(number);
}

static int
install(void)
{
	static bool installed;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	int result = 0;

	pthread_mutex_lock(&installing);
	if (!installed && sigaction(SIGSEGV, &action, &before) != 0)
		result = -errno;
	installed = result == 0;
	pthread_mutex_unlock(&installing);
	return result;
}

int
dsm_watch(struct pmx_dsm *d)
{
	int result = install();

	for (unsigned i = 0; i < MEMORIES && result == 0; i++) {
		struct pmx_dsm *none = NULL;

		if (atomic_compare_exchange_strong(&memories[i], &none, d))
			return 0;
	}
	return result == 0 ? -EEXIST : result;
}

void
dsm_unwatch(struct pmx_dsm *d)
{
	for (unsigned i = 0; i < MEMORIES; i++) {
		struct pmx_dsm *expected = d;

		atomic_compare_exchange_strong(&memories[i], &expected, NULL);
	}
}
