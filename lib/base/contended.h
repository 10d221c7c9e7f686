/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A core that another program wants all the time, as a computation does. A yield gives such a
 * program its whole time slice, 2 to 4 ms on Linux, while who sleeps has the core again as soon as
 * something came or the time is over. So who polls on such a core sleeps shortly instead of
 * yielding, for a while; the while doubles as long as yields that look whether it is over take long
 * too. Used by lanes and by the library, each thread for itself, with a clock of any unit.
 *
 * Single yields take long on any machine. A core counts as contended when long yields have taken
 * half of the time for some ms: the level of what they took, which drains by half of all time. Nor
 * does it where a crowd wants each CPU, as many nodes of one host do: they would wake each other
 * for little at a time, and a yield lets all of them do much.
 */
#ifndef PMX_BASE_CONTENDED_H
#define PMX_BASE_CONTENDED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A yield that took longer may have given the core to such a program, whose slices are some 2 ms at
 * least: processes that poll in turns have it back sooner. */
#define CONTENDED_YIELD_US    1800
#define CONTENDED_LEVEL_US    4000
/* More that can run, for each CPU, are a crowd. */
#define CONTENDED_CROWD       5
/* So long the core counts as contended, at first and at most. */
#define CONTENDED_LEAST_US    20000
#define CONTENDED_MOST_US     400000
/* A sleep in place of a yield. Linux adds its timer slack, 50 us by default. The library's double
 * up to a bound while nothing comes: a hundred processes that look every 100 us fill a CPU. */
#define CONTENDED_NAP_US      50
#define CONTENDED_NAP_MOST_US 1000

/* {0} at first. */
struct contended {
	uint64_t until, lasts;
	uint64_t level, level_at;
};

static inline bool
is_contended(const struct contended *c, uint64_t now)
{
	return now < c->until;
}

/* Return how many processes and threads of the machine can run, by a line of /proc/loadavg:
 * "0.50 0.40 0.30 RUN/ALL PID". 0: it says nothing. */
static inline unsigned
contended_runnable(const char *line)
{
	for (unsigned words = 0; words < 3; words++) {
		line = strchr(line, ' ');
		if (line == NULL)
			return 0;
		line++;
	}
	return (unsigned)strtoul(line, NULL, 10);
}

/* Return whether a crowd wants the CPUs of this machine. It takes some 20 us. */
static inline bool
contended_by_crowd(void)
{
	char line[128] = "";
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	const ssize_t n = read(fd, line, sizeof(line) - 1);

	close(fd);
	return n > 0 && contended_runnable(line) > CONTENDED_CROWD * (cpus > 0 ? cpus : 1);
}

/* Learn from a yield that took from `begin` to `end`. Return whether the core counts as contended
 * from now on, unless contended_by_crowd(). */
static inline bool
contended_learn(struct contended *c, uint64_t begin, uint64_t end, uint64_t ticks_per_us)
{
	const uint64_t least = CONTENDED_LEAST_US * ticks_per_us;
	const uint64_t most = CONTENDED_MOST_US * ticks_per_us;
	const uint64_t drained = (end - c->level_at) / 2;

	c->level = c->level > drained ? c->level - drained : 0;
	c->level_at = end;
	if (end - begin <= CONTENDED_YIELD_US * ticks_per_us) {
		c->lasts /= 2; /* by chance, it may be */
		return false;
	}
	c->level += end - begin;
	if (c->level < CONTENDED_LEVEL_US * ticks_per_us && c->lasts == 0)
		return false;
	c->level = 0;
	c->lasts = c->lasts * 2 < least ? least : c->lasts * 2;
	c->lasts = c->lasts < most ? c->lasts : most;
	c->until = end + c->lasts;
	return true;
}

/* Learn from a yield, and forget at once if there is a crowd. */
static inline void
contended_yielded(struct contended *c, uint64_t begin, uint64_t end, uint64_t ticks_per_us)
{
	if (contended_learn(c, begin, end, ticks_per_us) && contended_by_crowd())
		*c = (struct contended){.level_at = end};
}

#endif
