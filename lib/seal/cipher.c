/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See cipher.h.
 *
 * Design note: ipsec-mb is called directly, one frame at a time, since a lane has frames of many
 * keys and its 1.3 has no burst call for AEAD. Its functions are chosen once for the CPU.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef PMX_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "seal/cipher.h"

#ifdef PMX_IPSEC_MB
static IMB_MGR *manager; /* only its table of functions is used, which nobody changes */

static void
make_manager(void)
{
	IMB_ARCH arch;

	manager = alloc_mb_mgr(0);
	if (manager == NULL)
		return;
	init_mb_mgr_auto(manager, &arch);
	if (imb_get_errno(manager) == 0 && manager->features & IMB_FEATURE_AESNI)
		return;
	free_mb_mgr(manager);
	manager = NULL;
}

static bool
ipsec_mb_works(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_manager);
	return manager != NULL;
}

static bool
ipsec_mb_key_make(void *key, const uint8_t secret[CIPHER_KEY_BYTES])
{
	IMB_AES128_GCM_PRE(manager, secret, key);
	return true;
}

static void
ipsec_mb_key_end(void *key)
{
	OPENSSL_cleanse(key, sizeof(struct gcm_key_data));
}

static void
ipsec_mb_seal(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, uint8_t tag[CIPHER_TAG_BYTES])
{
	struct gcm_context_data c;

	IMB_AES128_GCM_ENC(manager, key, &c, to, from, len, nonce, aad, aad_len, tag,
		CIPHER_TAG_BYTES);
}

static bool
ipsec_mb_open(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, const uint8_t tag[CIPHER_TAG_BYTES])
{
	struct gcm_context_data c;
	uint8_t own[CIPHER_TAG_BYTES];

	IMB_AES128_GCM_DEC(manager, key, &c, to, from, len, nonce, aad, aad_len, own,
		CIPHER_TAG_BYTES);
	return CRYPTO_memcmp(own, tag, sizeof(own)) == 0;
}

const struct cipher cipher_ipsec_mb = {
	.name = "ipsec-mb",
	.works = ipsec_mb_works,
	.key_bytes = sizeof(struct gcm_key_data),
	.key_make = ipsec_mb_key_make,
	.key_end = ipsec_mb_key_end,
	.seal = ipsec_mb_seal,
	.open = ipsec_mb_open,
};
#else
static bool
ipsec_mb_works(void)
{
	return false;
}

const struct cipher cipher_ipsec_mb = {.name = "ipsec-mb", .works = ipsec_mb_works};
#endif

/* A key of OpenSSL's is a context for each direction, with the key in it. */
struct openssl_key {
	EVP_CIPHER_CTX *seals, *opens;
};

static bool
openssl_works(void)
{
	return true;
}

static bool
openssl_key_make(void *key, const uint8_t secret[CIPHER_KEY_BYTES])
{
	struct openssl_key *k = key;

	k->seals = EVP_CIPHER_CTX_new();
	k->opens = EVP_CIPHER_CTX_new();
	return k->seals != NULL && k->opens != NULL &&
		EVP_EncryptInit_ex(k->seals, EVP_aes_128_gcm(), NULL, secret, NULL) == 1 &&
		EVP_DecryptInit_ex(k->opens, EVP_aes_128_gcm(), NULL, secret, NULL) == 1;
}

static void
openssl_key_end(void *key)
{
	struct openssl_key *k = key;

	EVP_CIPHER_CTX_free(k->seals);
	EVP_CIPHER_CTX_free(k->opens);
	*k = (struct openssl_key){0};
}

static void
openssl_seal(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, uint8_t tag[CIPHER_TAG_BYTES])
{
	EVP_CIPHER_CTX *c = ((struct openssl_key *)key)->seals;
	int done;

	if (EVP_EncryptInit_ex(c, NULL, NULL, NULL, nonce) != 1 ||
		EVP_EncryptUpdate(c, NULL, &done, aad, (int)aad_len) != 1 ||
		(len != 0 && EVP_EncryptUpdate(c, to, &done, from, (int)len) != 1) ||
		EVP_EncryptFinal_ex(c, tag, &done) != 1 ||
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, CIPHER_TAG_BYTES, tag) != 1)
		abort(); /* only a broken library: a frame must not leave without its tag */
}

static bool
openssl_open(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, const uint8_t tag[CIPHER_TAG_BYTES])
{
	EVP_CIPHER_CTX *c = ((struct openssl_key *)key)->opens;
	uint8_t expected[CIPHER_TAG_BYTES], rest[CIPHER_TAG_BYTES];
	int done;

	memcpy(expected, tag, sizeof(expected));
	return EVP_DecryptInit_ex(c, NULL, NULL, NULL, nonce) == 1 &&
		EVP_DecryptUpdate(c, NULL, &done, aad, (int)aad_len) == 1 &&
		(len == 0 || EVP_DecryptUpdate(c, to, &done, from, (int)len) == 1) &&
		EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, CIPHER_TAG_BYTES, expected) == 1 &&
		EVP_DecryptFinal_ex(c, rest, &done) == 1;
}

const struct cipher cipher_openssl = {
	.name = "OpenSSL",
	.works = openssl_works,
	.key_bytes = sizeof(struct openssl_key),
	.key_make = openssl_key_make,
	.key_end = openssl_key_end,
	.seal = openssl_seal,
	.open = openssl_open,
};

const struct cipher *
cipher_best(void)
{
	return cipher_ipsec_mb.works() ? &cipher_ipsec_mb : &cipher_openssl;
}
