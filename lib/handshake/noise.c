/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See noise.h. The names of the steps are the specification's: MixHash, MixKey and so on.
 */
#include <string.h>

#include "handshake/noise.h"

static const char name[] = "Noise_IKpsk2_25519_AESGCM_SHA256"; /* 32 bytes: it is its own hash */

_Static_assert(sizeof(name) - 1 == HASH_BYTES, "the name would have to be hashed");

static void
mix_hash(struct noise *s, const void *data, size_t len)
{
	primitive_hash(s->hash, s->hash, HASH_BYTES, data, len);
}

static void
mix_key(struct noise *s, const uint8_t *input)
{
	uint8_t out[2][HASH_BYTES];

	primitive_hkdf(s->chain, input, DH_BYTES, 2, out);
	memcpy(s->chain, out[0], HASH_BYTES);
	memcpy(s->key, out[1], HASH_BYTES);
	s->n = 0;
	primitive_forget(out, sizeof(out));
}

static void
mix_key_and_hash(struct noise *s, const uint8_t psk[32])
{
	uint8_t out[3][HASH_BYTES];

	primitive_hkdf(s->chain, psk, 32, 3, out);
	memcpy(s->chain, out[0], HASH_BYTES);
	mix_hash(s, out[1], HASH_BYTES);
	memcpy(s->key, out[2], HASH_BYTES);
	s->n = 0;
	primitive_forget(out, sizeof(out));
}

static bool
mix_dh(struct noise *s, const uint8_t secret[DH_BYTES], const uint8_t public_key[DH_BYTES])
{
	uint8_t shared[DH_BYTES];
	const bool ok = primitive_dh(shared, secret, public_key);

	if (ok)
		mix_key(s, shared);
	primitive_forget(shared, sizeof(shared));
	return ok;
}

static void
encrypt_and_hash(struct noise *s, const void *from, size_t len, uint8_t *to)
{
	primitive_seal(s->key, s->n++, s->hash, HASH_BYTES, from, len, to);
	mix_hash(s, to, len + TAG_BYTES);
}

/* len: with the tag. `to` and `from` differ. */
static bool
decrypt_and_hash(struct noise *s, const uint8_t *from, size_t len, uint8_t *to)
{
	if (!primitive_open(s->key, s->n++, s->hash, HASH_BYTES, from, len, to))
		return false;
	mix_hash(s, from, len);
	return true;
}

/* Mix in an ephemeral key; with a pre-shared one it is mixed into the chain as well (9.2). */
static void
mix_ephemeral(struct noise *s, const uint8_t public_key[DH_BYTES])
{
	mix_hash(s, public_key, DH_BYTES);
	mix_key(s, public_key);
}

static void
noise_begin(struct noise *s, const void *prologue, size_t len, const uint8_t responder[DH_BYTES])
{
	memcpy(s->hash, name, HASH_BYTES);
	memcpy(s->chain, name, HASH_BYTES);
	mix_hash(s, prologue, len);
	mix_hash(s, responder, DH_BYTES); /* the pre-message "<- s" */
}

static void
split(struct noise *s, struct noise_keys *keys)
{
	uint8_t out[2][HASH_BYTES];

	primitive_hkdf(s->chain, NULL, 0, 2, out);
	memcpy(keys->to_responder, out[0], HASH_BYTES);
	memcpy(keys->to_initiator, out[1], HASH_BYTES);
	primitive_forget(out, sizeof(out));
}

bool
noise_first(struct noise *s, const uint8_t secret[DH_BYTES], const uint8_t peer[DH_BYTES],
	const uint8_t ephemeral[DH_BYTES], const void *prologue, size_t prologue_len,
	const void *payload, size_t len, uint8_t *out)
{
	uint8_t own[DH_BYTES];

	*s = (struct noise){0};
	memcpy(s->ephemeral, ephemeral, DH_BYTES);
	memcpy(s->peer, peer, DH_BYTES);
	noise_begin(s, prologue, prologue_len, peer);
	primitive_public(out, ephemeral);
	mix_ephemeral(s, out);
	if (!mix_dh(s, ephemeral, peer)) /* es */
		return false;
	primitive_public(own, secret);
	encrypt_and_hash(s, own, DH_BYTES, out + DH_BYTES); /* s */
	if (!mix_dh(s, secret, peer))                       /* ss */
		return false;
	encrypt_and_hash(s, payload, len, out + DH_BYTES + DH_BYTES + TAG_BYTES);
	return true;
}

bool
noise_first_open(struct noise *s, const uint8_t secret[DH_BYTES], const void *prologue,
	size_t prologue_len, const uint8_t *in, size_t len, uint8_t *payload)
{
	uint8_t own[DH_BYTES];

	*s = (struct noise){0};
	primitive_public(own, secret);
	noise_begin(s, prologue, prologue_len, own);
	memcpy(s->peer_ephemeral, in, DH_BYTES);
	mix_ephemeral(s, in);
	return mix_dh(s, secret, in) && /* es */
		decrypt_and_hash(s, in + DH_BYTES, DH_BYTES + TAG_BYTES, s->peer) &&
		mix_dh(s, secret, s->peer) && /* ss */
		decrypt_and_hash(s, in + DH_BYTES + DH_BYTES + TAG_BYTES, len + TAG_BYTES, payload);
}

bool
noise_second(struct noise *s, const uint8_t psk[32], const uint8_t ephemeral[DH_BYTES],
	const void *payload, size_t len, uint8_t *out, struct noise_keys *keys)
{
	primitive_public(out, ephemeral);
	mix_ephemeral(s, out);
	if (!mix_dh(s, ephemeral, s->peer_ephemeral) || /* ee */
		!mix_dh(s, ephemeral, s->peer))         /* se */
		return false;
	mix_key_and_hash(s, psk);
	encrypt_and_hash(s, payload, len, out + DH_BYTES);
	split(s, keys);
	return true;
}

bool
noise_second_open(struct noise *s, const uint8_t secret[DH_BYTES], const uint8_t psk[32],
	const uint8_t *in, size_t len, uint8_t *payload, struct noise_keys *keys)
{
	struct noise after = *s;
	bool ok;

	mix_ephemeral(&after, in);
	ok = mix_dh(&after, after.ephemeral, in) && /* ee */
		mix_dh(&after, secret, in);         /* se */
	if (ok) {
		mix_key_and_hash(&after, psk);
		ok = decrypt_and_hash(&after, in + DH_BYTES, len + TAG_BYTES, payload);
	}
	if (ok)
		split(&after, keys);
	noise_forget(&after);
	return ok;
}

void
noise_forget(struct noise *s)
{
	primitive_forget(s, sizeof(*s));
}
