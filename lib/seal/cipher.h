/* SPDX-License-Identifier: BSD-3-Clause
 *
 * AES-128-GCM, by one of the libraries that have it. A key is used by one thread at a time; the
 * table and what it points to by any.
 */
#ifndef PMX_SEAL_CIPHER_H
#define PMX_SEAL_CIPHER_H

#include <stdbool.h>
#include <stdint.h>

#define CIPHER_KEY_BYTES   16
#define CIPHER_NONCE_BYTES 12
#define CIPHER_TAG_BYTES   16

struct cipher {
	const char *name;
	/* Return whether this host can do it. */
	bool (*works)(void);
	uint32_t key_bytes; /* of a key as it is used, which lies at an address that 64 divides */
	bool (*key_make)(void *key, const uint8_t secret[CIPHER_KEY_BYTES]);
	void (*key_end)(void *key);
	/* Encrypt len bytes, and write the tag of these and of aad. `to` may be `from`. No nonce
	 * may be used twice with a key. */
	void (*seal)(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad,
		uint32_t aad_len, const void *from, uint32_t len, void *to,
		uint8_t tag[CIPHER_TAG_BYTES]);
	/* Decrypt len bytes. `to` may be `from`. Return false if they are not authentic: then what
	 * is in `to` means nothing. */
	bool (*open)(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad,
		uint32_t aad_len, const void *from, uint32_t len, void *to,
		const uint8_t tag[CIPHER_TAG_BYTES]);
};

extern const struct cipher cipher_ipsec_mb; /* for CPUs with instructions for AES */
extern const struct cipher cipher_openssl;  /* for all others, and to compare with */

/* Return the fastest one that works on this host. */
const struct cipher *cipher_best(void);

#endif
