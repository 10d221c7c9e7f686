/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages between contexts of one node. All functions run on the lane.
 */
#ifndef PMX_ENGINE_LOCAL_H
#define PMX_ENGINE_LOCAL_H

#include "engine/lane.h"

void local_send(struct engine *e, struct channel *src, uint16_t dst_ctx, uint16_t endpoint,
	uint32_t len, const uint16_t *bufs, unsigned count);
void local_arrive(struct engine *e, struct rte_mbuf *m);
void local_drain(struct engine *e, struct inlet *in, uint32_t *entries, uint32_t *bulks);
/* Take back a message that src has sent and that waits for room, or for its receiver to be opened,
 * at a context of this lane. It is the one whose last buffer is `last`, and it ends with `error`.
 * Return whether there was such a message. */
bool local_withdraw(struct engine *e, const struct channel *src, const struct send_slot *last,
	uint8_t error);
void local_housekeep(struct engine *e);
/* Take the messages that src has sent and that found no room out of the queues of this lane's
 * contexts, in src's order for each of these. take gets the chain of each message's mbufs. */
void local_recall(struct engine *e, const struct channel *src,
	void (*take)(void *arg, struct rte_mbuf *first), void *arg);
/* Refuse the messages that wait for contexts that are not open. */
void local_refuse(struct engine *e);

#endif
