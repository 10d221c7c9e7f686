/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors that exec() closes: see inherit.h.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/inherit.h"

#define MOST 65536 /* descriptors below this are looked at */

/* A bit for each that was open at the begin and to be inherited. */
static uint64_t open_before[MOST / 64];

/* Call `f` for each open descriptor; without /proc for none. */
static void
each_open(void (*f)(unsigned fd))
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		unsigned long fd = strtoul(e->d_name, NULL, 10);

		if (e->d_name[0] != '.' && fd < MOST && (int)fd != dirfd(d))
			f((unsigned)fd);
	}
	if (d != NULL)
		closedir(d);
}

static void
note(unsigned fd)
{
	int flags = fcntl((int)fd, F_GETFD);

	if (flags >= 0 && !(flags & FD_CLOEXEC))
		open_before[fd / 64] |= 1ull << fd % 64;
}

static void
mark(unsigned fd)
{
	int flags = fcntl((int)fd, F_GETFD);

	if (flags >= 0 && !(open_before[fd / 64] >> fd % 64 & 1))
		fcntl((int)fd, F_SETFD, flags | FD_CLOEXEC);
}

static void
mark_epoll(unsigned fd)
{
	static const char kind[] = "anon_inode:[eventpoll]";
	char path[32], what[sizeof(kind)];

	snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
	if (readlink(path, what, sizeof(what)) == sizeof(kind) - 1 &&
		memcmp(what, kind, sizeof(kind) - 1) == 0)
		mark(fd);
}

void
inherit_begin(void)
{
	memset(open_before, 0, sizeof(open_before));
	each_open(note);
}

void
inherit_end(void)
{
	each_open(mark);
}

void
inherit_forks(void)
{
	each_open(mark_epoll);
}
