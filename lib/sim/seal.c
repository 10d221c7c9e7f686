/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's part of sealed frames, in virtual time: see seal.h, and lib/engine/sealed.c, which it
 * mirrors.
 */
#include <stdlib.h>

#include "base/mix.h"
#include "sim/seal.h"

static void
seal_twin(struct sim *s, uint32_t twin, uint32_t packet)
{
	seal_bytes(s, twin);
	s->wires[twin] = s->wires[packet];
}

static void
seal_flip(struct sim *s, uint32_t packet, uint32_t bit)
{
	bit %= s->packets[packet].sealed_len * 8u;
	s->wires[packet].b[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Tell the keeper that keys are wanted. */
static void
want(struct sim *s, uint32_t node, uint32_t peer)
{
	if (gate_may_want(&seal_pair_of(s, node, peer)->gate, seal_ticks(s, node), HZ))
		keeper_post(s, node, peer, NULL, 0);
}

/* ------------------------------------------------------------------ send */

/* Write what is sealed of a packet: seal.h, note 1. Return its length. */
static uint32_t
write_plain(const struct packet *k, uint8_t *out)
{
	uint32_t len = k->head_len;

	memcpy(out, k->head, len);
	if (k->id.message != NIL) {
		memcpy(out + len, &k->id, sizeof(k->id));
		len += sizeof(k->id);
	}
	return len;
}

static void
seal_hold(struct sim *s, struct seal_pair *p, uint32_t link, uint32_t packet)
{
	if (p->held != NIL)
		net_drop(s, p->held);
	p->held = packet;
	p->held_link = link;
}

/* Return keys for a frame to the peer, or NULL. */
static struct keyring_keys *
keys_for(struct sim *s, uint32_t node, uint32_t peer, const struct wire_hdr *h)
{
	bool wants;
	struct seal_pair *p = seal_pair_of(s, node, peer);
	struct keyring_keys *k = gate_keys_for(&p->gate, h, seal_ticks(s, node), seal_hz(s),
		&wants);

	if (wants)
		want(s, node, peer);
	if (k == NULL) {
		watch_starving(s, node, peer);
		return NULL;
	}
	p->starving = SIM_NEVER;
	watch_sealing(s, node, peer, k);
	return k;
}

static bool
seal_packet(struct sim *s, uint32_t node, uint32_t packet, struct keyring_keys *keys)
{
	struct packet *k = &s->packets[packet];
	uint8_t plain[sizeof(k->head) + sizeof(k->id)], *to = seal_bytes(s, packet);
	const uint32_t peer = k->dst, len = write_plain(k, plain);
	const uint64_t count = keys->tx[0].count;
	bool wants;

	watch_acts(s->seals, node);
	const uint32_t sealed = gate_seal(keys, s->seals->cfg.mode, plain, len, to, &wants);

	if (wants)
		want(s, node, peer);
	if (sealed == 0)
		return false;
	watch_sealed(s, node, peer, count, to, sealed);
	k->sealed_len = (uint16_t)sealed;
	k->len += SEAL_TRAILER_BYTES;
	return true;
}

/* Seal a packet of a node's core. Return false if it does not leave now: then it is taken. */
static bool
seal_out(struct sim *s, uint32_t node, uint32_t link, uint32_t packet)
{
	struct packet *k = &s->packets[packet];
	const uint32_t peer = k->dst;
	const struct wire_hdr *h = (const struct wire_hdr *)k->head;
	struct keyring_keys *keys = keys_for(s, node, peer, h);

	if (keys == NULL && h->type == WIRE_HELLO) {
		seal_hold(s, seal_pair_of(s, node, peer), link, packet);
		return false;
	}
	if (keys != NULL && seal_packet(s, node, packet, keys))
		return true;
	net_drop(s, packet);
	return false;
}

/* Keep some messages of handshakes back, for longer than their repetitions take. */
static bool
is_withheld(struct sim *s)
{
	struct seals *x = s->seals;

	return x->healed_at == SIM_NEVER && mix64_next(&x->random) % 1000000 < x->cfg.withheld_ppm;
}

/* Check that a packet may leave its node, and let the thief see it. */
static void
seal_leaves(struct sim *s, uint32_t node, uint32_t packet)
{
	watch_leaves(s, node, packet);
	thief_sees(s, node, packet);
}

void
seal_say(struct sim *s, uint32_t node, uint32_t peer, uint32_t link, const void *message,
	uint32_t len)
{
	const struct wire_fields w = {
		.type = WIRE_KEYS,
		.src_node = (uint16_t)node,
		.dst_node = (uint16_t)peer,
		.payload_len = (uint16_t)len,
	};
	struct proto_out o = {
		.handle = PROTO_NO_HANDLE,
		.node = (uint16_t)peer,
		.head_len = WIRE_HDR_BYTES,
	};

	wire_put(o.head, &w);
	if (len == 0) {
		net_transmit(s, node, &o, link);
		return;
	}
	const uint32_t packet = net_packet(s);
	uint8_t *to = seal_bytes(s, packet);
	struct packet *k = &s->packets[packet];

	k->id.message = NIL;
	k->dst = peer;
	k->len = WIRE_HDR_BYTES + len;
	k->head_len = WIRE_HDR_BYTES;
	k->sealed_len = (uint16_t)k->len;
	k->judged_out = k->judged_in = false;
	memcpy(k->head, o.head, WIRE_HDR_BYTES);
	memcpy(to, o.head, WIRE_HDR_BYTES);
	memcpy(to + WIRE_HDR_BYTES, message, len);
	s->seals->counts.messages++;
	if (s->cfg.trace != NULL)
		net_trace(s, "sent", k);
	const uint32_t edge = s->nodes[node].uplink + link * s->edge_count;

	if (!is_withheld(s)) {
		net_leave(s, node, edge, packet);
		return;
	}
	seal_leaves(s, node, packet);
	k = &s->packets[packet];
	k->edge = edge;
	k->taken = false;
	sim_schedule(s, s->now + mix64_next(&s->seals->random) % (s->seals->cfg.withheld_ns + 1),
		EVENT_LEAVES, packet);
}

/* ------------------------------------------------------------------ receive */

/* Take in a message of a handshake. */
static void
handshake_in(struct sim *s, uint32_t node, uint32_t peer, const struct wire_hdr *h, uint32_t len)
{
	struct seal_node *n = &s->seals->nodes[node];
	struct seal_pair *p = seal_pair_of(s, node, peer);
	const bool busy = n->written - n->read >= MAIL_MAX / 2;
	const bool was_due = seal_ticks(s, node) >= p->gate.init_at &&
		seal_ticks(s, node) >= n->any_at && !busy;
	uint8_t out[sizeof(struct handshake_cookie)];
	uint64_t cookie[2];

	len -= WIRE_HDR_BYTES;
	if (wire_be16(h->dst_node) != node || wire_be16(h->payload_len) != len ||
		!handshake_check(h + 1, len, n->self.mac1_key))
		return;
	handshake_cookie_of(n->cookie_secret, (uint16_t)peer, cookie);
	switch (gate_message(&p->gate, &n->any_at, h + 1, cookie, busy, seal_ticks(s, node), HZ)) {
	case GATE_TELL: /* by the keeper, here */
	case GATE_PASS:
		if (handshake_step_of(h + 1) == HANDSHAKE_INIT)
			watch_init(s, node, peer, h + 1, was_due);
		keeper_post(s, node, peer, h + 1, len);
		break;
	case GATE_COOKIE:
		memcpy(p->cookies[p->cookie_count++ % COOKIES_NOTED], cookie, sizeof(cookie));
		handshake_cookie_put(h + 1, cookie, out);
		seal_say(s, node, peer, 0, out, sizeof(out));
		break;
	case GATE_DROP:
		break;
	}
}

/* Return the keys that a frame names, or NULL. */
static struct keyring_keys *
keys_of(struct sim *s, uint32_t node, uint32_t peer, const uint8_t *frame, uint32_t len)
{
	enum gate_stranger why;
	struct keyring_keys *k = gate_keys_of(&seal_pair_of(s, node, peer)->gate,
		(const struct wire_hdr *)frame, (uint16_t)node, seal_ticks(s, node), seal_hz(s),
		&why);

	if (k != NULL)
		return k;
	s->seals->counts.unknown++;
	if (why == GATE_NO_KEY || why == GATE_SHOW || why == GATE_CLAIMED)
		watch_deaf(s, node, peer, frame, len);
	else
		want(s, node, peer);
	if (why == GATE_SHOW)
		seal_say(s, node, peer, 0, NULL, 0);
	return NULL;
}

/* Note that the peer has used keys that it asked for. */
static void
keys_begin(struct seal_pair *p, struct keyring_keys *k)
{
	if (k == p->answer) {
		p->newest = k;
		p->answer = NULL;
	}
}

/* Open a sealed frame, which lies at `frame`, where it lies. */
static bool
open_frame(struct sim *s, uint32_t node, uint32_t peer, uint8_t *frame, uint32_t len)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);
	struct keyring_keys *k = keys_of(s, node, peer, frame, len);
	struct wire_bytes as_it_came;
	bool begun;

	if (k == NULL)
		return false;
	memcpy(as_it_came.b, frame, len);
	const uint64_t highest = k->rx[0].highest;

	watch_acts(s->seals, node);
	const enum seal_verdict v = gate_open(&p->gate, k, s->seals->cfg.mode, frame, len,
		seal_ticks(s, node), &begun);

	watch_opened(s, node, peer, k, highest, v, as_it_came.b, len);
	if (v == SEAL_OK)
		keys_begin(p, k);
	watch_ring(s, node, peer);
	const struct wire_hdr *h = (const struct wire_hdr *)frame;

	if (v == SEAL_OK && h->type == WIRE_KEYS && h->payload_len == 0 && gate_lacks(&p->gate, k))
		want(s, node, peer);
	return v == SEAL_OK && h->type != WIRE_KEYS;
}

/* Make the packet what was opened of it. */
static void
read_plain(struct sim *s, uint32_t packet, const uint8_t *plain, uint32_t len)
{
	struct packet *k = &s->packets[packet];
	const bool data = ((const struct wire_hdr *)plain)->type == WIRE_DATA;

	k->id.message = NIL;
	if (data)
		memcpy(&k->id, plain + len - sizeof(k->id), sizeof(k->id));
	k->head_len = (uint16_t)(len - (data ? sizeof(k->id) : 0));
	memcpy(k->head, plain, k->head_len);
	k->len -= SEAL_TRAILER_BYTES;
	k->sealed_len = 0;
}

bool
seal_in(struct sim *s, uint32_t packet)
{
	const uint32_t node = s->packets[packet].dst, len = s->packets[packet].sealed_len;
	struct wire_bytes frame = s->wires[packet];
	const struct wire_hdr *h = &frame.h;
	const uint32_t peer = wire_be16(h->src_node);

	if (h->version != WIRE_VERSION || peer >= s->node_count || h->type == WIRE_MULTI)
		return false;
	if (h->type == WIRE_KEYS && h->session == 0) {
		handshake_in(s, node, peer, h, len);
		return false;
	}
	if (!open_frame(s, node, peer, frame.b, len))
		return false;
	read_plain(s, packet, frame.b, len - SEAL_TRAILER_BYTES);
	return true;
}

/* ------------------------------------------------------------------ keys */

void
seal_free_old(struct seal_pair *p, struct keyring_keys *old[KEYRING_OLD_MAX])
{
	for (unsigned i = 0; i < KEYRING_OLD_MAX; i++) {
		if (old[i] == NULL)
			continue;
		if (old[i] == p->newest)
			p->newest = NULL;
		if (old[i] == p->answer)
			p->answer = NULL;
		p->sets--;
		keyring_keys_free(old[i]);
	}
}

void
seal_take_keys(struct sim *s, uint32_t node, uint32_t peer, struct keyring_keys *k)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);
	struct keyring_keys *old[KEYRING_OLD_MAX];

	keyring_add(&p->gate.keys, k, old);
	p->sets++;
	seal_free_old(p, old);
	if (k->initiated)
		p->newest = k;
	else
		p->answer = k;
	watch_ring(s, node, peer);
	if (!k->initiated)
		return;
	if (mix64_next(&s->seals->random) % 1000000 >= s->seals->cfg.unbegun_ppm)
		seal_say(s, node, peer, 0, NULL, 0);
	const uint32_t held = p->held, link = p->held_link;

	p->held = NIL;
	if (held != NIL && seal_out(s, node, link, held))
		net_leave(s, node, s->nodes[node].uplink + link * s->edge_count, held);
}

void
seal_give_up(struct sim *s, uint32_t node, uint32_t peer, bool all)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);
	struct keyring_keys *old[KEYRING_OLD_MAX];

	keyring_take(&p->gate.keys, all, seal_ticks(s, node), seal_hz(s), old);
	seal_free_old(p, old);
	if (all && p->held != NIL) {
		net_drop(s, p->held);
		p->held = NIL;
	}
	watch_ring(s, node, peer);
}

/* ------------------------------------------------------------------ for the network */

const struct sim_wrapping seal_wrapping = {
	.enter = watch_enter,
	.out = seal_out,
	.leaves = seal_leaves,
	.twin = seal_twin,
	.flip = seal_flip,
};
