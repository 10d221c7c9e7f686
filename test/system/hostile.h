/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the hostile thin clients have in common; see hostile.c.
 */
#ifndef PMX_TEST_HOSTILE_H
#define PMX_TEST_HOSTILE_H

#include <stdbool.h>

#include "helpers.h"

#define PAGE   4096u
#define LIFE_S 280 /* nothing here runs longer */

struct attach_reply;
struct attach_request;

/* Say a line, and stay until somebody kills this process. */
void stay(const char *line) __attribute__((noreturn));
/* Connect to the socket of a primary, and return the connection. */
int dial_or_die(const char *path);
/* Ask a primary, with a descriptor if `give` is none below 0, and return the answer's result or a
 * negative errno. got: NULL, or room for two descriptors, -1 where none came. */
int ask(int sock, struct attach_request *request, int give, struct attach_reply *reply, int *got);
void set_blocking(int fd, bool blocking);
/* Pass descriptors that are slow to close, as `how` says, with some tries at once. It works when
 * the primary has the last of a descriptor, and not we. */
void slow_close(const char *instance, const char *how) __attribute__((noreturn));

#endif
