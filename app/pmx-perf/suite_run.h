/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Running the programs of a suite: one at a time is measured, with others beside it. Each is ended
 * in time, and when pmx-perf ends. Single-threaded.
 */
#ifndef PMX_PERF_SUITE_RUN_H
#define PMX_PERF_SUITE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#define RUN_WORDS    64
#define RUN_SETTINGS 4

/* A command line in words. */
struct command_line {
	char text[1024];
	char *set[RUN_SETTINGS]; /* NAME=VALUE of its environment, before the program */
	unsigned set_count;
	char *word[RUN_WORDS + 2]; /* NULL behind the last */
	char program[4096];        /* path of word[0], or "" if it is not there */
};

/* Take a command line apart at blanks, add --json if it is of pmx-perf, and find its program: those
 * of pmx-dpdk beside this one first, others by PATH. Return 0, or 1 after printing why. */
int command_parse(struct command_line *c, const char *text);
/* Start it, on that CPU (-1: any), with its output in files. Return its process, or -1 after
 * printing why. */
pid_t command_start(const struct command_line *c, int cpu, const char *out, const char *err);
/* Wait until a process ends, for so many seconds; then end it. Return its exit status, 128 +
 * signal; -1: it was ended. */
int command_end(pid_t pid, double seconds);
/* Wait until a file exists, for so many seconds, or the process has ended. Return whether it
 * exists. */
bool command_ready(pid_t pid, const char *path, double seconds);
/* Append what a program printed as results: lines of pmx-perf --json, or what ucx_perftest or
 * fi_pingpong print for messages of that size. Return how many. */
unsigned command_results(const struct command_line *c, const char *out, unsigned size,
	json_t *results);

#endif
