/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Local contexts: opened, closed, and what is special about them. Owner thread only.
 */
#include <errno.h>

#include "core/proto/internal.h"

int
proto_ctx_open(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, uint32_t inline_max,
	uint64_t now)
{
	(void)now;
	if (ctx >= p->cfg.contexts_max)
		return -EINVAL;
	struct context *c = &p->ctxs[ctx];

	if (c->open)
		return -EBUSY;
	*c = (struct context){
		.open = true,
		.entries = entries,
		.bulks = bulks,
		.bulks_max = bulks,
		.inline_max = inline_max,
		.blocked = {NIL, NIL},
		.pending = c->pending,
		.flows = c->flows,
	};
	/* a new life of the context: what it sends opens its flows anew, whatever became of the
	 * receivers of its last life */
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->ctx != ctx)
			continue;
		f->flags &= ~FLOW_CLOSING;
		if (f->tx_head == NIL && f->tx_state != FLOW_TX_IDLE)
			flow_fail(p, f, 0); /* no message is pending, so the error is not used */
	}
	return 0;
}

void
proto_ctx_close(struct proto *p, uint16_t ctx, bool linger, uint64_t now)
{
	struct context *c = &p->ctxs[ctx];

	PROTO_ASSERT(ctx < p->cfg.contexts_max);
	/* who waits for what lingers may say it in every turn, and there are many flows to look
	 * at */
	if (!c->open && (!c->closing || linger))
		return;
	linger = linger && c->frozen != CONTEXT_PARKED; /* the payloads are out of reach */
	c->open = false;
	c->closing = true;
	flow_thaw_all(p, ctx, now);
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->ctx != ctx)
			continue;
		f->flags |= FLOW_CLOSING;
		flow_forbid_now(f);
		if (f->rx_state == FLOW_RX_OPEN && f->acks_owed)
			flow_say(p, f, WIRE_ACK, WIRE_F_ACK, f->rcv_nxt);
		flow_abort_rx(p, f, FLOW_RX_CLOSED);
		if (linger || f->tx_head == NIL)
			continue;
		flow_fail(p, f, ECONNRESET);
		/* so that the peer need not wait for the rest */
		flow_say(p, f, WIRE_RESET, WIRE_F_SENDER, f->snd_end);
	}
	c->entries = c->bulks = 0;
	c->blocked = (struct proto_list){NIL, NIL};
}

uint32_t
proto_ctx_pending(const struct proto *p, uint16_t ctx)
{
	return p->ctxs[ctx].pending;
}

void
proto_ctx_copied(struct proto *p, uint16_t ctx)
{
	PROTO_ASSERT(p->ctxs[ctx].bulks_max <= p->cfg.assembly_frames_max);
	p->ctxs[ctx].copied = true;
}

void
proto_ctx_permits(struct proto *p, uint16_t ctx)
{
	p->ctxs[ctx].permits = true;
}

void
proto_ctx_open_wait(struct proto *p, uint16_t ctx, uint32_t wait_us)
{
	uint64_t units = (uint64_t)wait_us * UNITS_PER_US;

	PROTO_ASSERT(wait_us <= PROTO_OPEN_WAIT_MAX_US);
	if (p->ctxs[ctx].open)
		p->ctxs[ctx].open_wait = (uint16_t)((units + COARSE_MAX) >> COARSE_SHIFT);
}

void
proto_ctx_domain(struct proto *p, uint16_t ctx, uint32_t domain)
{
	if (p->ctxs[ctx].open)
		p->ctxs[ctx].domain = domain;
}
