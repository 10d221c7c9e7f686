/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between links and the core: frames in and out, encapsulation, checksums. On the lane, but for
 * peer_set.
 */
#ifndef PMX_ENGINE_LINK_IO_H
#define PMX_ENGINE_LINK_IO_H

#include "engine/lane.h"

/* Frames of this lane's queues, and what other lanes put into its inbox, go to the core. */
unsigned engine_rx(struct engine *e);
/* Frames of the core go to the links. */
unsigned engine_tx(struct engine *e);
/* What must be known to reach that node; before lanes poll. */
int peer_set(struct node *n, uint16_t node, const struct config_peer *p);

#endif
