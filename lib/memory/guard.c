/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See guard.h. A signal handler reads the table, so a place is taken and given back by one atomic
 * word.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "memory/guard.h"

#define GUARDED_MAX 8192

static struct {
	bool on;
	struct {
		_Atomic uintptr_t base; /* 0: the place is free */
		size_t len, page;
	} maps[GUARDED_MAX];
} guard;

/* Map a page where there was none at an address, if the address is guarded. */
static void
on_sigbus(int number, siginfo_t *info, void *context)
{
	/* other causes, such as a wrong alignment, would only recur */
	uintptr_t at = info->si_code == BUS_ADRERR ? (uintptr_t)info->si_addr : 0;

	(void)context;
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		uintptr_t base = atomic_load_explicit(&guard.maps[i].base, memory_order_acquire);

		if (base == 0 || at < base || at - base >= guard.maps[i].len)
			continue;
		void *page = (void *)(at & ~(guard.maps[i].page - 1));

		if (mmap(page, guard.maps[i].page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page)
			return;
	}
	/* not guarded: on return the signal recurs, and ends the process */
	signal(number, SIG_DFL);
}

void
guard_begin(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	guard.on = sigaction(SIGBUS, &action, NULL) == 0;
}

bool
guard_add(void *base, size_t len, size_t page)
{
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		uintptr_t none = 0;

		/* 1 marks a place as taken while it is filled in; it matches no address */
		if (atomic_load_explicit(&guard.maps[i].base, memory_order_relaxed) != 0 ||
			!atomic_compare_exchange_strong(&guard.maps[i].base, &none, 1))
			continue;
		guard.maps[i].len = len;
		guard.maps[i].page = page;
		atomic_store_explicit(&guard.maps[i].base, (uintptr_t)base, memory_order_release);
		return true;
	}
	return false;
}

void
guard_remove(const void *base)
{
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		if (atomic_load_explicit(&guard.maps[i].base, memory_order_relaxed) ==
			(uintptr_t)base)
			atomic_store_explicit(&guard.maps[i].base, 0, memory_order_release);
	}
}

bool
guard_is_on(void)
{
	return guard.on;
}
