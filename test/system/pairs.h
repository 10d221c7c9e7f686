/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the cases of pairs.c and pairs_plain.c share.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/client.h"

#define ROUNDS 200

extern struct pmx_node *node;
extern uint32_t buffers; /* of each kind, of contexts that are opened */

struct pmx_context *open_context(uint16_t number);
struct pmx_addr addr(uint16_t context);
/* Wait until that process has opened that context. */
void wait_for(uint16_t context, pid_t pid);
/* After a primary's end attach to the next; after any other error end the process. */
void go_on(int result);
/* Return whether standard input has a line, or has ended. */
bool line_waits(void);
/* fork(); the child ends with its parent. */
pid_t child(void);
/* Wait for a child, which must end well. */
void reap(pid_t pid);

/* Run in_child in a child, and in_parent, which is given the child, in this process. */
void in_two(void (*in_child)(void), void (*in_parent)(pid_t child));
/* Check that this process slept between messages, and was woken. */
void check_sleeps(void);

/* Run a case of plain messages. Return false if there is none of that name. */
bool plain(const char *name, int argc, char **argv);

#endif
