/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Discovery of a primary: its socket and thread, and what it finds made known to the node.
 */
#ifndef PMX_PRIMARY_DISCOVER_H
#define PMX_PRIMARY_DISCOVER_H

#include "node/node.h"

struct rte_tel_data;

/* Begin, if the configuration wants discovery, with a thread of its own. waits: another primary,
 * which ends soon, has the socket still. Return 0, or -errno with a sentence. */
int discover_begin(struct node *n, bool waits, char *error, uint32_t error_len);
/* End. leaves: tell the others that this node ends, and forget what was found. */
void discover_end(bool leaves);
/* Let found nodes be taken from now on: the lanes are about to run. waits: until all seeds have
 * answered or this node was refused, but not long, so that who starts this primary hears of a
 * number that is taken. */
void discover_settle(bool waits);
/* Remove the file of what an earlier primary of that name has found. */
void discover_forget(const struct config *c);
/* Report what discovery knows, into an empty dictionary: nothing if it does not run. */
void discover_tell(struct rte_tel_data *d);

#endif
