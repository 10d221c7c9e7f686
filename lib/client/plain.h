/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain messages by the memory that two contexts of a host share: plain.c.
 */
#ifndef PMX_CLIENT_PLAIN_H
#define PMX_CLIENT_PLAIN_H

#include "client/client.h"

struct plain;

/* Send a message of this node by a pair, if one leads to its receiver. Its bytes are at `data`, or
 * in the buffers of `buf` if that is not NULL. Return 1: it is at its receiver; 0: it is to be sent
 * by the engine; -EAGAIN: there is no room now; -EPIPE: the engine is gone. */
int plain_send(struct pmx_context *ctx, struct pmx_addr to, const void *data,
	const struct pmx_buffer *buf, uint32_t len);
/* Send the mark of the pair of that ID by the engine: pairs.h, note 1. 0, or an error of a send. */
int plain_mark(struct pmx_context *ctx, struct pmx_addr to, uint64_t id);
/* Receive up to n messages from pairs. Return how many. */
unsigned plain_receive(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n);
/* Take `e`, the next entry of ctx->lhs, which came from this node in a bulk buffer, if it is a
 * mark: pairs.h, note 1. Return whether it was one. */
bool plain_takes_mark(struct pmx_context *ctx, const struct lhs_entry *e);
/* Give back the memory of a message that came by a pair; do nothing for any other. */
void plain_give_back(struct pmx_context *ctx, const struct pmx_message *msg);
/* A service's landed(). */
bool plain_landed(struct pmx_context *ctx);
void plain_free(struct plain *x);

#endif
