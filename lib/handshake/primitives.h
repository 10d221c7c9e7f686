/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The primitives of a Noise handshake, by OpenSSL: SHA-256, HMAC, AES-256-GCM, X25519. Functions of
 * their arguments alone; any thread. They take microseconds, some 50 of them a dh(), and allocate:
 * no lane calls them.
 */
#ifndef PMX_HANDSHAKE_PRIMITIVES_H
#define PMX_HANDSHAKE_PRIMITIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_BYTES     32
#define DH_BYTES       32
#define TAG_BYTES      16
#define HMAC_BYTES_MAX 256

/* Write SHA-256 of a followed by b. */
void primitive_hash(uint8_t out[HASH_BYTES], const void *a, size_t a_len, const void *b,
	size_t b_len);
/* Write HMAC-SHA-256 of a followed by b, together up to HMAC_BYTES_MAX. */
void primitive_hmac(uint8_t out[HASH_BYTES], const uint8_t key[HASH_BYTES], const void *a,
	size_t a_len, const void *b, size_t b_len);
/* Write the first `count` (1 to 3) outputs of HKDF, as Noise's section 4.3 defines it. */
void primitive_hkdf(const uint8_t key[HASH_BYTES], const void *input, size_t len, unsigned count,
	uint8_t out[][HASH_BYTES]);
/* Encrypt len bytes and append the tag: AES-256-GCM with the nonce `n`, as Noise's section 12.4
 * writes it. `to` may be `from`. */
void primitive_seal(const uint8_t key[32], uint64_t n, const void *ad, size_t ad_len,
	const void *from, size_t len, uint8_t *to);
/* Decrypt len bytes, the last TAG_BYTES of which are the tag. Return false, leaving nothing in
 * `to`, if they are not authentic. */
bool primitive_open(const uint8_t key[32], uint64_t n, const void *ad, size_t ad_len,
	const void *from, size_t len, uint8_t *to);
/* Write the public key of a secret one. */
void primitive_public(uint8_t out[DH_BYTES], const uint8_t secret[DH_BYTES]);
/* Write what both ends share. Return false if the public key is of low order: then the result is
 * known to everybody. */
bool primitive_dh(uint8_t out[DH_BYTES], const uint8_t secret[DH_BYTES],
	const uint8_t public_key[DH_BYTES]);
/* Overwrite a secret, so that the compiler does not leave it out. */
void primitive_forget(void *bytes, size_t len);

#endif
