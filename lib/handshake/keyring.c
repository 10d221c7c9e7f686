/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keyring.h.
 */
#include <string.h>

#include "base/likely.h"
#include "base/secret.h"
#include "handshake/keyring.h"

static size_t
keyring_rounded(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

struct keyring_keys *
keyring_keys_make(const struct cipher *c, const struct handshake_result *agreed, unsigned own_lane,
	uint64_t now)
{
	const uint8_t *sends = agreed->initiated ? agreed->keys.to_responder
						 : agreed->keys.to_initiator;
	const uint8_t *receives = agreed->initiated ? agreed->keys.to_initiator
						    : agreed->keys.to_responder;
	const size_t lanes = agreed->peer_lanes, each = keyring_rounded(c->key_bytes);
	const size_t head = keyring_rounded(sizeof(struct keyring_keys)),
		     windows = keyring_rounded(lanes * sizeof(struct seal_rx));
	const size_t bytes = head + windows + 2 * lanes * each;
	struct keyring_keys *k = secret_alloc(bytes);
	uint8_t secret[CIPHER_KEY_BYTES], *at = (uint8_t *)k + head + windows;
	bool ok = true;

	if (k == NULL)
		return NULL;
	*k = (struct keyring_keys){
		.initiated = agreed->initiated,
		.lanes = agreed->peer_lanes,
		.own_index = agreed->own_index,
		.made_at = now,
		.bytes = bytes,
		.cipher = c,
		.rx = (struct seal_rx *)((uint8_t *)k + head),
	};
	for (unsigned i = 0; i < lanes; i++, at += 2 * each) {
		k->tx[i] = (struct seal_tx){at, 1, agreed->peer_index | own_lane};
		k->rx[i].key = at + each;
		handshake_lane_key(sends, own_lane, i, secret);
		ok &= c->key_make(k->tx[i].key, secret);
		handshake_lane_key(receives, i, own_lane, secret);
		ok &= c->key_make(k->rx[i].key, secret);
	}
	primitive_forget(secret, sizeof(secret));
	if (ok)
		return k;
	keyring_keys_free(k);
	return NULL;
}

void
keyring_keys_free(struct keyring_keys *k)
{
	if (k == NULL)
		return;
	for (unsigned i = 0; i < k->lanes; i++) {
		k->cipher->key_end(k->tx[i].key);
		k->cipher->key_end(k->rx[i].key);
	}
	secret_free(k, k->bytes);
}

void
keyring_free_old(struct keyring_keys *const old[KEYRING_OLD_MAX])
{
	for (unsigned i = 0; i < KEYRING_OLD_MAX; i++)
		keyring_keys_free(old[i]);
}

/* Return the age of keys, which is below 0 if who made them has a clock that is before the
 * lane's. */
static inline int64_t
age_of(const struct keyring_keys *k, uint64_t now)
{
	return (int64_t)(now - k->made_at);
}

static inline bool
is_dead(const struct keyring_keys *k, uint64_t now, uint64_t hz)
{
	return age_of(k, now) >= (int64_t)(KEYRING_DEAD_S * hz);
}

void
keyring_add(struct keyring *r, struct keyring_keys *k, struct keyring_keys *old[KEYRING_OLD_MAX])
{
	memset(old, 0, KEYRING_OLD_MAX * sizeof(*old));
	old[0] = r->oldest;
	r->oldest = NULL;
	if (k->initiated) {
		old[1] = r->previous;
		r->previous = r->current;
		r->current = k;
	} else {
		old[1] = r->next;
		r->next = k;
	}
}

void
keyring_take(struct keyring *r, bool all, uint64_t now, uint64_t hz,
	struct keyring_keys *old[KEYRING_OLD_MAX])
{
	struct keyring_keys **const each[KEYRING_OLD_MAX] = {&r->current, &r->previous, &r->next,
		&r->oldest};

	for (unsigned i = 0; i < KEYRING_OLD_MAX; i++) {
		old[i] = NULL;
		if (*each[i] == NULL || (!all && !is_dead(*each[i], now, hz)))
			continue;
		old[i] = *each[i];
		*each[i] = NULL;
	}
}

static inline bool
is_named(const struct keyring_keys *k, uint32_t index)
{
	return k != NULL && k->own_index == (index & ~(HANDSHAKE_LANES_MAX - 1u)) &&
		index % HANDSHAKE_LANES_MAX < k->lanes;
}

struct keyring_keys *
keyring_named(const struct keyring *r, uint32_t index, uint64_t now, uint64_t hz)
{
	struct keyring_keys *k = likely(is_named(r->current, index)) ? r->current
		: is_named(r->previous, index)                       ? r->previous
		: is_named(r->next, index)                           ? r->next
								     : NULL;

	return likely(k != NULL && !is_dead(k, now, hz)) ? k : NULL;
}

bool
keyring_opened(struct keyring *r, const struct keyring_keys *k)
{
	if (likely(k != r->next))
		return false;
	/* there are no oldest ones: others come here only by keyring_add(), which takes them out */
	r->oldest = r->previous;
	r->previous = r->current;
	r->current = r->next;
	r->next = NULL;
	return true;
}

struct keyring_keys *
keyring_sealing(const struct keyring *r, uint64_t now, uint64_t hz, bool *wants)
{
	struct keyring_keys *k = r->current;
	const int64_t age = k != NULL ? age_of(k, now) : INT64_MAX;

	*wants = false;
	if (likely(age < (int64_t)(KEYRING_SOON_S * hz)))
		return k;
	*wants = k == NULL || k->initiated || age >= (int64_t)(KEYRING_LATER_S * hz);
	return k != NULL && !is_dead(k, now, hz) ? k : NULL;
}
