/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Noise_IKpsk2_25519_AESGCM_SHA256 (the Noise Protocol Framework, revision 34): two messages, after
 * which both ends know each other's static key and share two keys that nobody else has, also not
 * who learns the static keys later. The initiator knows the responder's static key before. No I/O,
 * no clock, no random numbers: the caller brings them. One thread for each struct noise.
 */
#ifndef PMX_HANDSHAKE_NOISE_H
#define PMX_HANDSHAKE_NOISE_H

#include "handshake/primitives.h"

/* Bytes of the two messages beside their payloads. */
#define NOISE_FIRST_BYTES  (DH_BYTES + DH_BYTES + TAG_BYTES + TAG_BYTES)
#define NOISE_SECOND_BYTES (DH_BYTES + TAG_BYTES)

/* Secret; noise_forget() when it is no longer needed. */
struct noise {
	uint8_t hash[HASH_BYTES], chain[HASH_BYTES], key[HASH_BYTES];
	uint64_t n;
	uint8_t ephemeral[DH_BYTES];      /* own secret */
	uint8_t peer[DH_BYTES];           /* public: the other's static key */
	uint8_t peer_ephemeral[DH_BYTES]; /* public */
};

/* The keys of the two directions. */
struct noise_keys {
	uint8_t to_responder[HASH_BYTES], to_initiator[HASH_BYTES];
};

/* Write the first message, NOISE_FIRST_BYTES + len bytes. ephemeral: random bytes that are used
 * for this alone. Return false if the responder's key cannot be one. */
bool noise_first(struct noise *s, const uint8_t secret[DH_BYTES], const uint8_t peer[DH_BYTES],
	const uint8_t ephemeral[DH_BYTES], const void *prologue, size_t prologue_len,
	const void *payload, size_t len, uint8_t *out);
/* Read the first message of NOISE_FIRST_BYTES + len bytes, as the responder. s->peer is its
 * sender's key. Return false if it is not authentic. */
bool noise_first_open(struct noise *s, const uint8_t secret[DH_BYTES], const void *prologue,
	size_t prologue_len, const uint8_t *in, size_t len, uint8_t *payload);
/* Write the second message, NOISE_SECOND_BYTES + len bytes, and the keys. */
bool noise_second(struct noise *s, const uint8_t psk[32], const uint8_t ephemeral[DH_BYTES],
	const void *payload, size_t len, uint8_t *out, struct noise_keys *keys);
/* Read the second message, as the initiator whose static secret this is. Return false, leaving *s
 * as it was, if it is not authentic, so that a forged one does not end the handshake. */
bool noise_second_open(struct noise *s, const uint8_t secret[DH_BYTES], const uint8_t psk[32],
	const uint8_t *in, size_t len, uint8_t *payload, struct noise_keys *keys);
void noise_forget(struct noise *s);

#endif
