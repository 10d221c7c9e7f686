/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See primitives.h. A call of OpenSSL fails only where memory has run out or the library is broken:
 * then there is no way to go on safely, and the process ends.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "handshake/primitives.h"

static void
must(bool ok)
{
	if (!ok)
		abort();
}

void
primitive_hash(uint8_t out[HASH_BYTES], const void *a, size_t a_len, const void *b, size_t b_len)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();

	must(c != NULL && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1 &&
		EVP_DigestUpdate(c, a, a_len) == 1 && EVP_DigestUpdate(c, b, b_len) == 1 &&
		EVP_DigestFinal_ex(c, out, NULL) == 1);
	EVP_MD_CTX_free(c);
}

void
primitive_hmac(uint8_t out[HASH_BYTES], const uint8_t key[HASH_BYTES], const void *a, size_t a_len,
	const void *b, size_t b_len)
{
	uint8_t both[HMAC_BYTES_MAX];

	must(a_len <= sizeof(both) && b_len <= sizeof(both) - a_len);
	if (a_len != 0)
		memcpy(both, a, a_len);
	if (b_len != 0)
		memcpy(both + a_len, b, b_len);
	must(HMAC(EVP_sha256(), key, HASH_BYTES, both, a_len + b_len, out, NULL) != NULL);
	primitive_forget(both, a_len + b_len);
}

void
primitive_hkdf(const uint8_t key[HASH_BYTES], const void *input, size_t len, unsigned count,
	uint8_t out[][HASH_BYTES])
{
	uint8_t temp[HASH_BYTES];

	primitive_hmac(temp, key, input, len, NULL, 0);
	for (uint8_t i = 1; i <= count; i++)
		primitive_hmac(out[i - 1], temp, i > 1 ? out[i - 2] : NULL, i > 1 ? HASH_BYTES : 0,
			&i, 1);
	primitive_forget(temp, sizeof(temp));
}

static void
write_nonce(uint8_t nonce[12], uint64_t n)
{
	memset(nonce, 0, 4);
	n = __builtin_bswap64(n);
	memcpy(nonce + 4, &n, sizeof(n));
}

void
primitive_seal(const uint8_t key[32], uint64_t n, const void *ad, size_t ad_len, const void *from,
	size_t len, uint8_t *to)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	uint8_t nonce[12];
	int done;

	write_nonce(nonce, n);
	must(c != NULL && EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
		EVP_EncryptUpdate(c, NULL, &done, ad, (int)ad_len) == 1 &&
		(len == 0 || EVP_EncryptUpdate(c, to, &done, from, (int)len) == 1) &&
		EVP_EncryptFinal_ex(c, to + len, &done) == 1 &&
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, to + len) == 1);
	EVP_CIPHER_CTX_free(c);
}

bool
primitive_open(const uint8_t key[32], uint64_t n, const void *ad, size_t ad_len, const void *from,
	size_t len, uint8_t *to)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	uint8_t nonce[12], tag[TAG_BYTES];
	int done;

	if (len < TAG_BYTES) {
		EVP_CIPHER_CTX_free(c);
		return false;
	}
	len -= TAG_BYTES;
	memcpy(tag, (const uint8_t *)from + len, sizeof(tag));
	write_nonce(nonce, n);
	must(c != NULL && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
		EVP_DecryptUpdate(c, NULL, &done, ad, (int)ad_len) == 1 &&
		(len == 0 || EVP_DecryptUpdate(c, to, &done, from, (int)len) == 1) &&
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag) == 1);
	const bool authentic = EVP_DecryptFinal_ex(c, tag, &done) == 1;

	EVP_CIPHER_CTX_free(c);
	if (!authentic)
		primitive_forget(to, len);
	return authentic;
}

void
primitive_public(uint8_t out[DH_BYTES], const uint8_t secret[DH_BYTES])
{
	EVP_PKEY *k = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, DH_BYTES);
	size_t len = DH_BYTES;

	must(k != NULL && EVP_PKEY_get_raw_public_key(k, out, &len) == 1);
	EVP_PKEY_free(k);
}

bool
primitive_dh(uint8_t out[DH_BYTES], const uint8_t secret[DH_BYTES],
	const uint8_t public_key[DH_BYTES])
{
	EVP_PKEY *mine = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, DH_BYTES);
	EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, public_key, DH_BYTES);
	EVP_PKEY_CTX *c = mine != NULL ? EVP_PKEY_CTX_new(mine, NULL) : NULL;
	size_t len = DH_BYTES;

	must(c != NULL && theirs != NULL && EVP_PKEY_derive_init(c) == 1);
	/* OpenSSL refuses a result that is all zeros (RFC 7748, 6.1) */
	const bool ok = EVP_PKEY_derive_set_peer(c, theirs) == 1 &&
		EVP_PKEY_derive(c, out, &len) == 1;

	EVP_PKEY_CTX_free(c);
	EVP_PKEY_free(mine);
	EVP_PKEY_free(theirs);
	return ok;
}

void
primitive_forget(void *bytes, size_t len)
{
	OPENSSL_cleanse(bytes, len);
}
