/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions that others have pinned, and what contexts of this lane have pinned elsewhere. On the
 * lane, but for pinned_count.
 */
#ifndef PMX_RMA_PINNED_H
#define PMX_RMA_PINNED_H

#include "engine/service/rma/rma.h"

/* a: the asker's message, or its answer. */
/* 0, or ENOSPC. */
uint8_t pinned_grant(struct engine *e, struct channel *ch, const struct arrival *a, uint64_t key);
/* For the answer: 0, ENOKEY, WIRE_NONE_LEFT. key 0: there is no such region. */
uint32_t pinned_release(struct engine *e, struct channel *ch, const struct arrival *a,
	uint64_t key);
/* An asker ended, or is out of reach. */
void pinned_lost(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer);
/* The region ends, whoever has pinned it; key 0: all of the context's. */
void pinned_ends(struct engine *e, struct channel *ch, uint64_t key);
/* Does somebody who is still there pin it? */
bool pinned_by_others(struct engine *e, struct channel *ch, uint64_t key);
/* How often it is pinned; any thread, for information. */
uint32_t pinned_count(const struct rma_lane *x, uint64_t key);
/* ... and what a context of ours has pinned elsewhere. false: at too many others. */
bool pinning_begins(struct channel *ch, struct op *op);
/* A PIN or UNPIN ended. */
void pinning_ends(struct channel *ch, struct op *op, uint8_t error);
/* ... and none is left where op went. */
void pinning_none_left(struct channel *ch, const struct op *op);
bool pinning_any(const struct channel *ch);
/* The context ended: those who may have pinned for it are told. true: all of them are. */
bool pinning_leaves(struct engine *e, struct channel *ch);

#endif
