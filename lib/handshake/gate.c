/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See gate.h.
 */
#include "base/likely.h"
#include "handshake/gate.h"

#define WANT_MS 20 /* at least, between two wishes for keys of a peer */
#define SHOW_MS 20 /* ... between two frames that show a peer which keys there are */
#define INIT_MS 50 /* ... between two INITs of a peer that come without a cookie */
/* ... between two messages of one step of a peer that have no MAC1. Two nodes may ask each other at
 * once: then each gets a question, and at once the answer to its own. */
#define OPEN_MS 5

/* Return whether the time of something that may happen every `ms` has come, and note that it
 * happens. */
static bool
is_due(uint64_t *at, uint64_t ms, uint64_t now, uint64_t hz)
{
	if (now < *at)
		return false;
	*at = now + ms * (hz / 1000);
	return true;
}

bool
gate_may_want(struct gate *g, uint64_t now, uint64_t hz)
{
	return is_due(&g->want_at, WANT_MS, now, hz);
}

enum gate_message
gate_message(struct gate *g, const void *message, const uint64_t cookie[2], bool busy, uint64_t now,
	uint64_t hz)
{
	const enum handshake_step step = handshake_step_of(message);

	switch (step) {
	case HANDSHAKE_INIT:
		if (is_due(&g->init_at, INIT_MS, now, hz) && !busy)
			return GATE_PASS;
		if (handshake_mac2_ok(message, cookie))
			return GATE_PASS;
		return is_due(&g->open_at[step], OPEN_MS, now, hz) ? GATE_COOKIE : GATE_DROP;
	case HANDSHAKE_ANSWER:
		return GATE_PASS;
	default:
		return is_due(&g->open_at[step], OPEN_MS, now, hz) ? GATE_PASS : GATE_DROP;
	}
}

struct keyring_keys *
gate_keys_of(struct gate *g, const struct wire_hdr *h, uint64_t now, uint64_t hz,
	enum gate_stranger *why)
{
	const uint32_t index = wire_be32(h->session);
	struct keyring_keys *k = keyring_named(&g->keys, index, now, hz);
	bool wants;

	*why = GATE_KNOWN;
	if (likely(k != NULL))
		return k;
	/* it may have keys of a life of this node that has ended: notes 1 and 2; what shows keys is
	 * not answered by the same */
	if (h->type == WIRE_HELLO && index == 0)
		*why = GATE_UNSEALED;
	else if (keyring_sealing(&g->keys, now, hz, &wants) == NULL)
		*why = GATE_KEYLESS;
	else
		*why = h->type != WIRE_KEYS && is_due(&g->show_at, SHOW_MS, now, hz) ? GATE_SHOW
										     : GATE_NO_KEY;
	return NULL;
}

enum seal_verdict
gate_open(struct gate *g, struct keyring_keys *k, enum seal_mode mode, void *frame, uint32_t len,
	uint64_t now, bool *begun)
{
	const struct wire_hdr *h = frame;
	struct seal_rx *rx = &k->rx[wire_be32(h->session) % HANDSHAKE_LANES_MAX];
	const enum seal_verdict v = seal_open(k->cipher, rx, mode, frame, len);

	*begun = false;
	if (likely(v == SEAL_OK)) {
		g->heard_at = now;
		*begun = keyring_opened(&g->keys, k);
	}
	return v;
}

struct keyring_keys *
gate_keys_for(const struct gate *g, const struct wire_hdr *h, uint64_t now, uint64_t hz,
	bool *wants)
{
	struct keyring_keys *k = keyring_sealing(&g->keys, now, hz, wants);

	/* a core asks in this way when it has heard nothing: the peer may have lost the keys */
	if (unlikely(h->type == WIRE_HELLO || h->type == WIRE_PING) &&
		(int64_t)(now - g->heard_at) > (int64_t)hz)
		*wants = true;
	return k;
}

uint32_t
gate_seal(struct keyring_keys *k, enum seal_mode mode, const void *frame, uint32_t len, void *to,
	bool *wants)
{
	const struct wire_hdr *h = frame;
	struct seal_tx *tx = &k->tx[wire_be16(h->dst_ctx) % WIRE_CONTEXTS_MAX % k->lanes];
	const uint32_t sealed = seal_frame(k->cipher, tx, mode, frame, len, to);

	*wants = unlikely(tx->count > SEAL_COUNT_SOON);
	return sealed;
}
