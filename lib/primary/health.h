/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Logs changes of the state of peers and links. Called by one thread, which is not a lane.
 */
#ifndef PMX_SERVE_HEALTH_H
#define PMX_SERVE_HEALTH_H

struct node;

#define HEALTH_LOOK_MS 1000

/* Begin the looks, and end them: call health_begin() before the first look and health_end() after
 * the last. Return 0 or -ENOMEM. */
int health_begin(struct node *n);
void health_end(void);
/* Log what has changed. Call this every HEALTH_LOOK_MS. */
void health_look(struct node *n);
/* End the node, which has the number of another one, unless it has run for a while: then it goes
 * on, since anybody can say that he is older. */
void health_end_young(struct node *n);

#endif
