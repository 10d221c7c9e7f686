/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Somebody who sees all frames of the network and sends what he likes, but has no key: he sends
 * frames again, to others, back, changed, and put together of several, and INITs with the cookies
 * of others. See seal.h.
 */
#include "base/mix.h"
#include "core/wire/siphash.h"
#include "sim/seal.h"

void
thief_sees(struct sim *s, uint32_t node, uint32_t packet)
{
	struct seals *x = s->seals;
	const struct packet *k = &s->packets[packet];
	const bool asks = s->wires[packet].h.session == 0;
	uint32_t *count = asks ? &x->asked_count : &x->seen_count;
	uint32_t at = (*count)++;

	if (at >= THIEF_FRAMES) { /* some of old lives stay */
		if (mix64_next(&x->random) % 4 != 0)
			return;
		at = (uint32_t)(mix64_next(&x->random) % THIEF_FRAMES);
	}
	if (asks) {
		x->asked[at].src = node;
		x->asked[at].dst = k->dst;
		x->asked[at].len = k->sealed_len;
		x->asked[at].bytes = s->wires[packet];
	} else {
		x->seen[at].src = node;
		x->seen[at].dst = k->dst;
		x->seen[at].len = k->sealed_len;
		x->seen[at].bytes = s->wires[packet];
	}
}

/* Send bytes to a node from the cable of another one. */
static void
seal_thief_send(struct sim *s, uint32_t from, uint32_t to, const void *bytes, uint32_t len)
{
	const uint32_t links = s->cfg.links > 1 ? s->cfg.links : 1;
	const uint32_t link = (uint32_t)(mix64_next(&s->seals->random) % links);

	if (from == to)
		from = (to + 1) % s->node_count;
	const uint32_t packet = net_packet(s);
	struct packet *k = &s->packets[packet];

	memcpy(seal_bytes(s, packet), bytes, len);
	k = &s->packets[packet];
	k->id.message = NIL;
	k->dst = to;
	k->len = len;
	k->head_len = WIRE_HDR_BYTES;
	k->sealed_len = (uint16_t)len;
	k->judged_out = k->judged_in = false;
	k->taken = false;
	memcpy(k->head, bytes, WIRE_HDR_BYTES);
	net_enter(s, s->nodes[from].uplink + link * s->edge_count, packet);
}

/* Change a frame: a bit, its session, the key that it names, its length, its sender. */
static uint32_t
change(struct seals *x, struct wire_bytes *f, uint32_t len)
{
	struct wire_hdr *h = &f->h;
	const uint64_t r = mix64_next(&x->random);
	const uint32_t other = (uint32_t)(r >> 32) % THIEF_FRAMES % (x->seen_count + 1);
	const struct wire_hdr *of = &x->seen[other].bytes.h;

	switch (r % 6) {
	case 0:
		f->b[(r >> 8) % len] ^= (uint8_t)(1u << (r >> 4) % 8);
		break;
	case 1:
		if (len >= WIRE_HDR_BYTES + SEAL_TRAILER_BYTES)
			f->b[len - SEAL_TRAILER_BYTES + (r >> 8) % 4] ^= (uint8_t)(1 + r % 255);
		break;
	case 2:
		h->session = of->session;
		break;
	case 3:
		if (len > WIRE_HDR_BYTES)
			len -= 1 + (uint32_t)(r >> 8) % (len - WIRE_HDR_BYTES);
		break;
	case 4:
		h->src_node = wire_be16((uint16_t)((r >> 8) % x->node_count));
		break;
	default:
		h->crc = of->crc;
		break;
	}
	return len;
}

/* Send an INIT again, with MAC2 of a cookie that another node was sent. */
static void
steal_cookie(struct sim *s, uint32_t from, uint32_t to)
{
	struct seals *x = s->seals;
	uint32_t count = x->asked_count < THIEF_FRAMES ? x->asked_count : THIEF_FRAMES, at;
	const uint32_t start = (uint32_t)(mix64_next(&x->random) % (count + 1));
	struct handshake_cookie cookie = {0};
	struct wire_bytes f;
	uint64_t key[2], words[sizeof(struct handshake_init) / 8 + 1], mac2;
	const size_t mac2_at = offsetof(struct handshake_init, mac2);

	for (uint32_t i = 0; i < count; i++) {
		const void *m = x->asked[i].bytes.b + WIRE_HDR_BYTES;

		if (x->asked[i].src == to && handshake_step_of(m) == HANDSHAKE_COOKIE)
			memcpy(&cookie, m, sizeof(cookie));
	}
	for (uint32_t i = 0; i < count; i++) {
		at = (start + i) % count;
		if (x->asked[at].dst != to ||
			handshake_step_of(x->asked[at].bytes.b + WIRE_HDR_BYTES) != HANDSHAKE_INIT)
			continue;
		f = x->asked[at].bytes;
		memcpy(key, cookie.cookie, sizeof(key));
		memcpy(words, f.b + WIRE_HDR_BYTES, mac2_at);
		mac2 = siphash(key, words, (uint32_t)(mac2_at / 8));
		memcpy(f.b + WIRE_HDR_BYTES + mac2_at, &mac2, sizeof(mac2));
		seal_thief_send(s, from, to, f.b, x->asked[at].len);
		/* one may pass without */
		seal_thief_send(s, from, to, f.b, x->asked[at].len);
		return;
	}
}

static void
send_one(struct sim *s, uint32_t from, uint32_t to, bool asked)
{
	struct seals *x = s->seals;
	const uint32_t seen = asked ? x->asked_count : x->seen_count;
	const uint32_t count = seen < THIEF_FRAMES ? seen : THIEF_FRAMES;
	const uint64_t r = mix64_next(&x->random);

	if (count == 0)
		return;
	const uint32_t at = (uint32_t)(r >> 40) % count;
	struct wire_bytes f = asked ? x->asked[at].bytes : x->seen[at].bytes;
	uint32_t len = asked ? x->asked[at].len : x->seen[at].len;
	const uint32_t dst = asked ? x->asked[at].dst : x->seen[at].dst;

	if (r % 10 < 4)
		len = change(x, &f, len);
	seal_thief_send(s, from, r / 16 % 10 < 8 ? dst : to, f.b, len);
}

void
thief_acts(struct sim *s, uint32_t from, uint32_t to)
{
	const uint64_t r = mix64_next(&s->seals->random);

	if (r % 4 == 0) {
		steal_cookie(s, from, to);
		return;
	}
	for (uint64_t i = 0; i <= r / 8 % 16; i++)
		send_one(s, from, to, r / 256 % 3 == 0);
}
