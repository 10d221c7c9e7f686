/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What becomes of peers and links, said in the log. One thread calls it, and no lane.
 */
#ifndef PMX_SERVE_HEALTH_H
#define PMX_SERVE_HEALTH_H

struct node;

#define HEALTH_LOOK_MS 1000

/* Before the first look, and behind the last. 0, -ENOMEM. */
int health_begin(struct node *n);
void health_end(void);
/* Every HEALTH_LOOK_MS: says what changed. */
void health_look(struct node *n);

#endif
