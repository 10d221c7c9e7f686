/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handles that become others, since their buffers do: when a context is parked or loaded, and in
 * another process. Owner thread only.
 */
#include "core/proto/internal.h"

static void
swap_tx(struct proto *p, uint32_t first, proto_swap swap, void *arg)
{
	for (uint32_t i = first; i != NIL; i = p->txds[i].next) {
		struct txd *d = &p->txds[i];

		d->done.handle = swap(arg, d->done.handle, d->len, true);
	}
}

static void
swap_rx(struct proto *p, uint32_t first, proto_swap swap, void *arg)
{
	for (uint32_t i = first; i != NIL; i = p->rxds[i].next) {
		struct rxd *r = &p->rxds[i];

		r->handle = swap(arg, r->handle, r->len, false);
	}
}

void
flow_swap_handles(struct proto *p, const struct flow *f, proto_swap swap, void *arg)
{
	swap_tx(p, f->tx_head, swap, arg);
	swap_rx(p, f->ooo.head, swap, arg);
	swap_rx(p, f->frags.head, swap, arg);
}

void
proto_swap_handles(struct proto *p, proto_swap swap, void *arg)
{
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		const struct flow *f = &p->flows[i];

		if (f->key != 0)
			flow_swap_handles(p, f, swap, arg);
	}
	swap_tx(p, p->done.head, swap, arg);
	swap_rx(p, p->delivered.head, swap, arg);
	swap_rx(p, p->released.head, swap, arg);
}
