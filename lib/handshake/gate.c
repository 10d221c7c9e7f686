/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See gate.h.
 */
#include "base/likely.h"
#include "handshake/gate.h"

#define WANT_MS     20  /* at least, between two wishes for keys of a peer */
#define CLAIM_MS    500 /* ... between two claims to be the peer that people are told of */
#define SHOW_MS     20  /* ... between two frames that show a peer which keys there are */
#define INIT_MS     50  /* ... between two INITs of a peer that come without a cookie */
#define ALL_MS      2   /* ... of all peers */
#define ANSWERS_MAX 8   /* to one INIT: whoever sees it can forge some, which cost curves */
#define COOKIE_MS   5   /* ... with one */

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

void
gate_asks(struct gate *g, const void *message)
{
	const struct handshake_init *init = message;
	const struct handshake_tell *ask = message;

	if (init->head.step == HANDSHAKE_INIT) {
		g->asked_index = init->head.index;
		g->asked_mac1 = init->mac1;
		g->answers = 0;
	} else if (ask->head.step == HANDSHAKE_ASK) {
		g->asked_nonce = ask->nonce;
	}
}

/* Return whether *asked is awaited, and what an answer has. It is awaited no more. */
static bool
is_awaited(uint64_t *asked, uint64_t answered)
{
	if (*asked == 0 || answered != *asked)
		return false;
	*asked = 0;
	return true;
}

/* Return whether a message answers what the peer was asked: note 3. */
static bool
is_answer(struct gate *g, const void *message)
{
	switch (handshake_step_of(message)) {
	case HANDSHAKE_ANSWER:
		return g->asked_index != 0 &&
			((const struct handshake_answer *)message)->to_index == g->asked_index &&
			g->answers++ < ANSWERS_MAX;
	case HANDSHAKE_COOKIE:
		return is_awaited(&g->asked_mac1, ((const struct handshake_cookie *)message)->mac1);
	case HANDSHAKE_TELL:
		return is_awaited(&g->asked_nonce, ((const struct handshake_tell *)message)->nonce);
	default:
		return false;
	}
}

enum gate_message
gate_message(struct gate *g, uint64_t *any_at, const void *message, const uint64_t cookie[2],
	bool busy, uint64_t now, uint64_t hz)
{
	bool may;

	switch (handshake_step_of(message)) {
	case HANDSHAKE_INIT:
		if (!busy && now >= *any_at && is_due(&g->init_at, INIT_MS, now, hz)) {
			*any_at = now + ALL_MS * (hz / 1000);
			return GATE_PASS;
		}
		if (!handshake_mac2_ok(message, cookie))
			return GATE_COOKIE;
		may = is_due(&g->cookie_at, COOKIE_MS, now, hz);
		break;
	case HANDSHAKE_ASK:
		return GATE_TELL;
	default:
		may = is_answer(g, message);
		break;
	}
	return may ? GATE_PASS : GATE_DROP;
}

enum gate_message
gate_sealed_message(struct gate *g, const void *message, bool busy, uint64_t now, uint64_t hz)
{
	const bool init = handshake_step_of(message) == HANDSHAKE_INIT;

	return (init ? !busy && is_due(&g->cookie_at, COOKIE_MS, now, hz) : is_answer(g, message))
		? GATE_PASS
		: GATE_DROP;
}

struct keyring_keys *
gate_keys_of(struct gate *g, const struct wire_hdr *h, uint16_t own, uint64_t now, uint64_t hz,
	enum gate_stranger *why)
{
	const uint32_t index = wire_be32(h->session);
	struct keyring_keys *k = keyring_named(&g->keys, index, now, hz);
	bool wants;

	*why = GATE_KNOWN;
	if (likely(k != NULL))
		return k;
	/* it may have keys of a life of this node that has ended: notes 1 and 2; what shows keys is
	 * not answered by the same, and frames to others say nothing */
	*why = GATE_NO_KEY;
	if (h->dst_node != wire_be16(own))
		return NULL;
	if (keyring_sealing(&g->keys, now, hz, &wants) == NULL)
		*why = h->type == WIRE_HELLO && index == 0 ? GATE_UNSEALED : GATE_KEYLESS;
	else if (h->type == WIRE_HELLO && index == 0 && now - g->heard_at > hz &&
		is_due(&g->claim_at, CLAIM_MS, now, hz))
		*why = GATE_CLAIMED;
	else if (h->type != WIRE_KEYS && index != 0 && is_due(&g->show_at, SHOW_MS, now, hz))
		*why = GATE_SHOW;
	return NULL;
}

bool
gate_lacks(const struct gate *g, const struct keyring_keys *k)
{
	return k != g->keys.current;
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
		g->unheard = 0;
		*begun = keyring_opened(&g->keys, k);
	}
	return v;
}

struct keyring_keys *
gate_keys_for(struct gate *g, const struct wire_hdr *h, uint64_t now, uint64_t hz, bool *wants)
{
	struct keyring_keys *k = keyring_sealing(&g->keys, now, hz, wants);

	/* a core asks in this way when it has heard nothing: if no answer comes to one question,
	 * the peer may have lost the keys */
	if (unlikely(h->type == WIRE_HELLO || h->type == WIRE_PING) &&
		(int64_t)(now - g->heard_at) > (int64_t)hz && ++g->unheard >= 2) {
		g->unheard = 0;
		*wants = true;
	}
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
