/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of no flow: HELLO, PING, what a node announces of itself, answers to strangers. Owner
 * thread only.
 */
#include <string.h>

#include "core/proto/internal.h"

#define CTL_LINK(i) p->paths[i].ctl_next

/* Write a frame that belongs to no flow. A Nack written here names one sequence. */
static void
emit_stray(struct proto *p, const struct stray *s, struct proto_out *o, uint32_t now_ts)
{
	struct wire_fields w = {
		.type = s->type,
		.flags = s->flags,
		.src_node = p->cfg.node,
		.dst_node = s->node,
		.src_ctx = s->src_ctx,
		.dst_ctx = s->dst_ctx,
		.session = s->session,
		.seq = s->seq,
		.ack = s->ack,
		.echo = s->echo,
		.tstamp = now_ts,
	};

	if (s->type == WIRE_ACK) {
		w.seq = 0;
		COUNT(p, tx_acks);
	} else if (s->type == WIRE_NACK) {
		w.payload_len = 1;
		o->head[WIRE_HDR_BYTES] = 1;
		COUNT(p, tx_nacks);
	}
	if (s->type == WIRE_HELLO)
		w.payload_len = sizeof(struct wire_hello);
	o->head_len = (uint16_t)(WIRE_HDR_BYTES + w.payload_len);
	w.payload_len += s->len;
	wire_put(o->head, &w);
	o->handle = PROTO_NO_HANDLE;
	o->len = s->len;
	o->node = s->node;
	o->again = false;
	o->link = s->link;
}

uint32_t
proto_age_ms(const struct proto *p)
{
	const uint64_t ms = (p->begun_at - p->born_at) / (p->cfg.ticks_per_sec / 1000);

	return ms < INT32_MAX ? (uint32_t)ms : INT32_MAX; /* 24 days: longer makes no odds */
}

/* Write what this node tells the peer of that number. nonce 0: write what it tells all. */
static void
put_hello(const struct proto *p, uint16_t node, uint32_t nonce, uint32_t echo, void *to)
{
	struct wire_hello hello = {
		.epoch = wire_be32(p->cfg.epoch),
		.nonce = wire_be32(nonce),
		.echo = wire_be32(echo),
		.payload_max = wire_be16((uint16_t)p->cfg.payload_max),
		.window = wire_be16((uint16_t)p->cfg.window_frames),
		.secret = nonce != 0 ? wire_be64(proto_secret(p, node)) : 0,
		.age = wire_be32(proto_age_ms(p)),
		.lanes = p->cfg.lanes,
		.flags = p->cfg.checksum ? WIRE_H_CHECKSUM : 0,
	};

	memcpy(hello.name, p->cfg.name, sizeof(hello.name));
	memcpy(to, &hello, sizeof(hello));
}

static void
emit_hello(struct proto *p, struct path *t, struct proto_out *o, uint32_t now_ts)
{
	const struct stray s = {
		.type = WIRE_HELLO,
		.node = t->node,
		.src_ctx = t->hello_src,
		.dst_ctx = t->hello_dst,
		.flags = t->hello_asks ? WIRE_F_ASK : 0,
	};

	emit_stray(p, &s, o, now_ts);
	put_hello(p, t->node, t->nonce, t->peer_nonce, o->head + WIRE_HDR_BYTES);
	if (t->hello_ts == 0)
		t->hello_ts = now_ts | 1;
	t->hello_due = t->hello_asks = false;
}

void
proto_announce(struct proto *p, void *head, uint64_t now)
{
	const struct wire_fields w = {
		.type = WIRE_HELLO,
		.src_node = p->cfg.node,
		.dst_node = p->cfg.node,
		.payload_len = sizeof(struct wire_hello),
		.tstamp = stamp_of(p, now),
	};

	wire_put(head, &w);
	put_hello(p, p->cfg.node, 0, 0, (uint8_t *)head + WIRE_HDR_BYTES);
}

/* seq, len: 0 asks for life; a length, twice: whether such frames pass. */
static void
emit_ping(struct proto *p, const struct path *t, struct proto_out *o, uint32_t now_ts, uint32_t seq,
	uint16_t len)
{
	const struct stray s = {
		.type = WIRE_PING,
		.node = t->node,
		.src_ctx = t->hello_src,
		.dst_ctx = t->hello_dst,
		.session = t->session,
		.seq = seq,
		.len = len,
	};

	emit_stray(p, &s, o, now_ts);
}

unsigned
control_tx(struct proto *p, struct proto_out *out, unsigned n, uint32_t now_ts)
{
	unsigned k = 0;

	while (k < n && !list_empty(&p->ctl)) {
		struct path *t = &p->paths[p->ctl.head];

		if (t->hello_due) {
			emit_hello(p, t, &out[k++], now_ts);
		} else if (t->ping_due) {
			emit_ping(p, t, &out[k++], now_ts, 0, 0);
			t->ping_due = false;
		} else if (t->probes_due != 0) {
			/* first one that surely passes, then one as long as those that may not */
			const uint16_t len = --t->probes_due == 0 ? t->probe_len : PAYLOAD_SURE;

			emit_ping(p, t, &out[k++], now_ts, len, len);
		}
		if (t->hello_due || t->ping_due || t->probes_due != 0)
			continue;
		LIST_POP(&p->ctl, CTL_LINK);
		t->ctl_queued = false;
	}
	while (k < n && p->stray_head != p->stray_tail)
		emit_stray(p, &p->strays[p->stray_head++ % STRAYS], &out[k++], now_ts);
	return k;
}
