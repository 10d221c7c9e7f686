/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long buffers that a program uses again and again become memory that the engine reaches directly
 * (PMX_ADOPT), which saves a copy of them at each use, if coll_pmx_adopt says that the program's
 * memory may: not if it gives pages back by madvise() and relies on zeros, as allocators
 * do, nor if children of fork() write to such memory before exec(). Only whole pages of the
 * program's, so that nothing else moves with them.
 */
#include "coll_pmx.h"

#include <unistd.h>

#define LEAST   (64u << 10) /* bytes */
#define USES    3           /* before it is adopted */
#define BUFFERS 32          /* looked at */

static struct adopt_seen {
	const void *at;
	uint64_t bytes;
	unsigned uses;
} seen[BUFFERS];

static bool is_on;

void
adopt_set(bool on)
{
	is_on = on;
}

/* Count a use. Return whether it is the one at which the buffer is to be adopted. */
static bool
is_due(const void *at, uint64_t bytes)
{
	static unsigned oldest;
	unsigned i = 0;

	while (i < BUFFERS && (seen[i].at != at || seen[i].bytes != bytes))
		i++;
	if (i == BUFFERS) {
		i = oldest++ % BUFFERS;
		seen[i] = (struct adopt_seen){at, bytes, 0};
	}
	return ++seen[i].uses == USES;
}

void
adopt_used(const void *at, uint64_t bytes)
{
	struct pmx_remote unused;

	if (bytes < LEAST || !is_on || ((uintptr_t)at | bytes) % (uint64_t)sysconf(_SC_PAGESIZE))
		return;
	context_lock();
	/* if it cannot be, it is copied as before */
	if (is_due(at, bytes))
		pmx_register(context_get(), (void *)(uintptr_t)at, bytes, PMX_ADOPT, &unused);
	context_unlock();
}
