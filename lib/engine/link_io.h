/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between links and the core: frames in and out, encapsulation, checksums. All functions but
 * peer_set run on the lane.
 */
#ifndef PMX_ENGINE_LINK_IO_H
#define PMX_ENGINE_LINK_IO_H

#include "engine/lane.h"

/* Passes frames from this lane's receive queues to the core, and what other lanes put into its
 * inbox to whom it is for. Returns how much it moved. */
unsigned engine_rx(struct engine *e);
/* Passes frames from the core to the links. Returns how many. */
unsigned engine_tx(struct engine *e);
/* Prepares what is needed to send to that node, such as the encapsulation of its frames. Called
 * before lanes poll. Returns 0, or the link's -errno. */
int peer_set(struct node *n, uint16_t node, const struct config_peer *p);

#endif
