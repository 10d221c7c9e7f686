/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What all parts of sealed frames use: see seal.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "sim/seal.h"

uint64_t
seal_hz(const struct sim *s)
{
	return HZ / s->seals->cfg.speed;
}

uint64_t
seal_ticks(const struct sim *s, uint32_t node)
{
	return s->now + s->seals->nodes[node].boot;
}

void
seal_random(void *seals, void *bytes, size_t len)
{
	struct seals *x = seals;
	uint8_t *b = bytes;

	for (size_t i = 0; i < len; i += 8) {
		const uint64_t word = mix64_next(&x->random);

		memcpy(b + i, &word, len - i < 8 ? len - i : 8);
	}
}

uint8_t *
seal_bytes(struct sim *s, uint32_t packet)
{
	if (packet >= s->wire_cap) {
		s->wire_cap = s->packet_cap;
		s->wires = realloc(s->wires, s->wire_cap * sizeof(*s->wires));
		if (s->wires == NULL)
			sim_violation(s, "out of memory");
	}
	return s->wires[packet].b;
}

/* Set what a node is told of a peer's key. */
static void
keeper_tell_key(struct sim *s, uint32_t node, uint32_t peer)
{
	struct seal_pair *p = s->seals->nodes[node].pairs[peer];

	if (!s->seals->cfg.certificates)
		handshake_peer_key(&p->handshake, p->told_key);
}

struct seal_pair *
seal_pair_of(struct sim *s, uint32_t node, uint32_t peer)
{
	struct seal_pair **at = &s->seals->nodes[node].pairs[peer];

	if (*at == NULL) {
		*at = calloc(1, sizeof(**at));
		if (*at == NULL)
			sim_violation(s, "out of memory");
		(*at)->held = NIL;
		(*at)->starving = (*at)->deaf = SIM_NEVER;
		(*at)->handshake.node = (uint16_t)peer;
		memcpy((*at)->told_key, s->seals->nodes[peer].self.public_key, KEY_BYTES);
		keeper_tell_key(s, node, peer);
	}
	return *at;
}

void
keeper_plan(struct sim *s, uint32_t node, uint64_t at)
{
	struct seal_node *n = &s->seals->nodes[node];

	at = at < s->now ? s->now : at;
	if (at >= n->keeper_at)
		return;
	n->keeper_at = at;
	sim_schedule(s, at, EVENT_KEEPER, node);
}

bool
keeper_post(struct sim *s, uint32_t node, uint32_t peer, const void *message, uint32_t len)
{
	struct seals *x = s->seals;
	struct seal_node *n = &x->nodes[node];
	struct seal_mail *m = &n->mail[n->written % MAIL_MAX];

	if (n->written - n->read == MAIL_MAX)
		return false;
	m->node = (uint16_t)peer;
	m->len = (uint16_t)len;
	if (len != 0)
		memcpy(m->message, message, len);
	n->written++;
	if (!n->works)
		keeper_plan(s, node,
			s->now +
				(x->cfg.keeper_ns ? mix64_next(&x->random) % x->cfg.keeper_ns : 0));
	return true;
}
