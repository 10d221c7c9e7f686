/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See helpers.h.
 */
#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "helpers.h"
#include "pmx/pmx.h"

_Atomic bool failed;
uint64_t seed = 1;
death_hook at_death;

static void
tell(const char *fmt, va_list args)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

void
fail(const char *fmt, ...)
{
	va_list args;

	if (atomic_exchange(&failed, true))
		return;
	va_start(args, fmt);
	tell(fmt, args);
	va_end(args);
}

void
die(const char *fmt, ...)
{
	char why[256];
	va_list args;

	va_start(args, fmt);
	tell(fmt, args);
	va_end(args);
	if (at_death != NULL) {
		va_start(args, fmt);
		vsnprintf(why, sizeof(why), fmt, args);
		va_end(args);
		at_death(why);
	}
	exit(1);
}

void
die_of(const char *what, int result)
{
	die("%s: %s", what, pmx_strerror(result));
}

void
must_succeed(const char *what, int result)
{
	if (result < 0)
		die_of(what, result);
}

void *
must(void *p)
{
	if (p == NULL) {
		fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
		exit(2);
	}
	return p;
}

static volatile sig_atomic_t interrupt_us;

/* Ask for the next signal. A timer that repeats could leave a slow machine no time between two. */
static void
interrupted(int signal)
{
	const struct itimerval once = {.it_value = {0, interrupt_us}};

	(void)signal;
	setitimer(ITIMER_REAL, &once, NULL);
}

void
interrupt_every(int us)
{
	const struct sigaction handled = {.sa_handler = interrupted};

	interrupt_us = us;
	sigaction(SIGALRM, &handled, NULL);
	interrupted(0);
}

uint64_t
draw(void)
{
	static uint64_t x;

	return mix64((x += 0x9E3779B97F4A7C15u) + seed * 0x1234567u);
}
