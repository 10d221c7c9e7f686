/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The initiator's side of remote memory: what the contexts of this lane asked for. On the lane.
 */
#ifndef PMX_RMA_TRANSFERS_H
#define PMX_RMA_TRANSFERS_H

#include "engine/service/rma/rma.h"

bool transfer_submit(struct engine *e, struct channel *ch, uint32_t place);
/* The lane's own: op->d and op->local are set. */
void transfer_begin(struct engine *e, struct channel *ch, struct op *op);
void transfer_answer(struct engine *e, struct channel *ch, const struct arrival *a);
void transfer_end(struct engine *e, struct channel *ch, struct op *op, uint8_t error);
/* The transfer that a message with WIRE_T_OFFER names, if it is one that its sender may name: what
 * was offered to it, or what it was told to push to. NULL. */
struct op *transfer_named(struct channel *ch, const struct arrival *a, uint8_t kind);
/* What was offered, and not taken by an ACCEPT. */
static inline bool
is_offer(const struct op *op)
{
	return op->d.kind == TRANSFER_OFFER && !(op->d.flags & TRANSFER_OFFERED);
}
void transfer_accepted(struct engine *e, struct op *op, uint32_t id, uint64_t len);
struct op *transfer_find(struct channel *ch, uint32_t id);
void transfer_close(struct engine *e, struct channel *ch);
void transfer_memory_gone(struct engine *e, struct channel *ch, const struct memory *m);
void transfer_packed(struct engine *e, struct channel *ch, uint16_t place, bool last);
int transfer_copy(struct engine *e, struct channel *ch, const struct rte_mbuf *m,
	const struct proto_message *message);
void transfer_packed_failed(struct engine *e, struct channel *ch, const struct rte_mbuf *m,
	uint8_t error);
bool transfer_is_packed(const struct channel *ch, uint16_t place);
void transfer_cancel(struct engine *e, struct channel *ch, uint32_t place);
unsigned transfer_step(struct engine *e);
void transfer_look(struct engine *e);

#endif
