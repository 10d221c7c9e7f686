/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keys.h: keys, and keys as texts.
 *
 * Design notes
 * 1. Base64 of 32 bytes has two bits that mean nothing, and decoders differ in what they let pass.
 *    Here a text is what the encoder makes of the bytes, or it is refused: so a key has one text,
 *    and lists of texts can be searched by people and by grep.
 * 2. An error of OpenSSL stays in the thread's queue, where it would be found by who uses OpenSSL
 *    for something else; so it is taken out.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "keys/files.h"
#include "keys/keys.h"

#define FINGERPRINT_LABEL "pmx-dpdk fingerprint 1"
#define FINGERPRINT_BYTES 16

/* Return how many characters of base64 that many bytes make. */
static size_t
encoded(size_t bytes)
{
	return (bytes + 2) / 3 * 4;
}

void
key_forget(void *bytes, size_t len)
{
	OPENSSL_cleanse(bytes, len);
}

int
key_generate(uint8_t secret[KEY_BYTES])
{
	uint8_t made[KEY_BYTES];
	ssize_t n;

	do
		n = getrandom(made, sizeof(made), 0); /* so few bytes come at once or not at all */
	while (n < 0 && errno == EINTR);
	if (n != sizeof(made))
		return n < 0 ? -errno : -EIO;
	memcpy(secret, made, sizeof(made));
	key_forget(made, sizeof(made));
	return 0;
}

int
key_public(enum key_kind kind, const uint8_t secret[KEY_BYTES], uint8_t public_key[KEY_BYTES])
{
	const int type = kind == KEY_NODE ? EVP_PKEY_X25519
		: kind == KEY_AUTHORITY   ? EVP_PKEY_ED25519
					  : EVP_PKEY_NONE;
	uint8_t made[KEY_BYTES];
	size_t len = sizeof(made);

	if (type == EVP_PKEY_NONE)
		return -EINVAL;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(type, NULL, secret, KEY_BYTES);
	const bool good = key != NULL && EVP_PKEY_get_raw_public_key(key, made, &len) == 1 &&
		len == sizeof(made);

	EVP_PKEY_free(key);
	if (!good) {
		ERR_clear_error();
		return -ENOTSUP;
	}
	memcpy(public_key, made, sizeof(made));
	return 0;
}

bool
key_decode(const char *text, size_t len, uint8_t *out, size_t bytes)
{
	uint8_t plain[CERTIFICATE_BYTES + 2];
	char again[KEY_LINE_MAX];
	bool good = false;

	if (len == encoded(bytes) && bytes <= CERTIFICATE_BYTES &&
		EVP_DecodeBlock(plain, (const uint8_t *)text, (int)len) == (int)(len / 4 * 3)) {
		EVP_EncodeBlock((uint8_t *)again, plain, (int)bytes);
		good = CRYPTO_memcmp(again, text, len) == 0;
	}
	if (good)
		memcpy(out, plain, bytes);
	key_forget(plain, sizeof(plain));
	key_forget(again, sizeof(again));
	return good;
}

bool
key_from_text(const char *text, uint8_t key[KEY_BYTES])
{
	return key_decode(text, strnlen(text, KEY_TEXT_MAX), key, KEY_BYTES);
}

void
key_to_text(const uint8_t key[KEY_BYTES], char text[KEY_TEXT_MAX])
{
	EVP_EncodeBlock((uint8_t *)text, key, KEY_BYTES);
}

int
key_fingerprint(const uint8_t key[KEY_BYTES], char text[KEY_FINGERPRINT_MAX])
{
	uint8_t digest[EVP_MAX_MD_SIZE], said[sizeof(FINGERPRINT_LABEL) - 1 + KEY_BYTES];

	memcpy(said, FINGERPRINT_LABEL, sizeof(FINGERPRINT_LABEL) - 1);
	memcpy(said + sizeof(FINGERPRINT_LABEL) - 1, key, KEY_BYTES);
	const bool good = EVP_Digest(said, sizeof(said), digest, NULL, EVP_sha256(), NULL) == 1;

	key_forget(said, sizeof(said));
	if (!good) {
		ERR_clear_error();
		return -ENOTSUP;
	}
	for (int i = 0; i < FINGERPRINT_BYTES; i += 2)
		text += sprintf(text, "%s%02x%02x", i > 0 ? ":" : "", digest[i], digest[i + 1]);
	return 0;
}
