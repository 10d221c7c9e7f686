/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What system tests in C have in common: the time, the first failure, the end of a program that
 * cannot go on, numbers that a seed decides. What is told begins with the program's name.
 */
#ifndef PMX_TEST_HELPERS_H
#define PMX_TEST_HELPERS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../lib/base/mix.h"
#include "clock.h"

extern _Atomic bool failed; /* fail() was called */
extern uint64_t seed;       /* of draw(): 1, if the program sets none */
/* die() calls it with what it told; NULL: it does not. */
typedef void (*death_hook)(const char *why);
extern death_hook at_death;

/* Something is wrong, and the program goes on. Only the first is told, of all threads. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The program cannot go on. That is told, and its exit code is 1. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Tell that the program cannot go on because of what a verb gave, and exit with code 1. */
void die_of(const char *what, int result) __attribute__((noreturn));
/* A verb that fails ends the program. */
void must_succeed(const char *what, int result);
/* No memory ends the program, with exit code 2. */
void *must(void *p);
/* From now on this process handles a signal every `us`; 0: no longer. */
void interrupt_every(int us);
uint64_t draw(void);

#endif
