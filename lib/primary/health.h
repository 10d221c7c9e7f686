/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Logs changes of the state of peers and links. Called by one thread, which is not a lane.
 */
#ifndef PMX_SERVE_HEALTH_H
#define PMX_SERVE_HEALTH_H

struct node;

#define HEALTH_LOOK_MS 1000

/* To be called before the first look and after the last. 0, or -ENOMEM. */
int health_begin(struct node *n);
void health_end(void);
/* Logs what has changed. To be called every HEALTH_LOOK_MS. */
void health_look(struct node *n);

#endif
