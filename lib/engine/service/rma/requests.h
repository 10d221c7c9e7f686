/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What contexts of this lane owe the initiators of others' transfers. On the lane.
 */
#ifndef PMX_RMA_REQUESTS_H
#define PMX_RMA_REQUESTS_H

#include "engine/service/rma/rma.h"

/* The entry that a message to a target took is free again. */
static inline void
request_room(struct engine *e, struct channel *ch)
{
	proto_ctx_room(e->proto, ch->ctx | WIRE_TARGET, 1, 0, e->now);
}

/* A request of the message at hand, whose entry it keeps: in the list of those to be answered.
 * NULL: none is free. */
struct request *request_take(struct engine *e, struct channel *ch, const struct arrival *a,
	enum request_kind kind);
/* The message's transfer ended, with that errno or 0 (wire_ended). */
void request_answer(struct engine *e, struct channel *ch, const struct arrival *a, uint32_t error);
/* ... when the application has room for its notification. */
void request_event(struct engine *e, struct channel *ch, const struct arrival *a,
	const struct event_slot *event);
/* The application is notified; false: its ring is full. */
bool event_put(struct engine *e, struct channel *ch, const struct event_slot *event);
/* Answers go out: returns how many. */
unsigned requests_step(struct engine *e);
/* Requests of `ch` that `gone` says have lost what they read end with an error. */
void requests_fail(struct engine *e, struct channel *ch,
	bool (*gone)(const struct request *, const void *), const void *what, uint8_t error);
/* Nobody fetches that offer any more. */
void requests_offer_ends(struct engine *e, struct channel *ch, uint32_t id);
/* Of the context, whose list begins anew. */
void requests_close(struct engine *e, struct channel *ch);

#endif
