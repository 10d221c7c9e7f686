/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long buffers that a program uses again and again become memory that the engine reaches directly
 * (PMX_ADOPT), which saves a copy of them at each use, if PMX_MPICOLL_ADOPT=on says that the
 * program's memory may: not if it gives pages back by madvise() and relies on zeros, as allocators
 * do, nor if children of fork() write to such memory before exec(). Only whole pages of the
 * program's, so that nothing else moves with them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpicoll.h"

#define LEAST   (64u << 10) /* bytes */
#define USES    3           /* before it is adopted */
#define BUFFERS 32          /* looked at */

static struct seen {
	const void *at;
	uint64_t bytes;
	unsigned uses;
} seen[BUFFERS];

static bool
is_on(void)
{
	static int on = -1;

	if (on < 0) {
		const char *text = getenv("PMX_MPICOLL_ADOPT");

		on = text != NULL && strcmp(text, "on") == 0;
	}
	return on;
}

void
adopt_used(const void *at, uint64_t bytes)
{
	static uint64_t page;
	static unsigned oldest;
	unsigned i = 0;

	if (bytes < LEAST || !is_on())
		return;
	if (page == 0)
		page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (((uintptr_t)at | bytes) & (page - 1))
		return;
	while (i < BUFFERS && (seen[i].at != at || seen[i].bytes != bytes))
		i++;
	if (i == BUFFERS) {
		i = oldest++ % BUFFERS;
		seen[i] = (struct seen){at, bytes, 0};
	}
	if (++seen[i].uses != USES)
		return;
	/* if it cannot be, it is copied as before */
	comm_adopt(at, bytes);
}
