/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See keys.h: certificates.
 *
 * Design notes
 * 1. A certificate is fixed in size and in the place of each field, so that nothing is parsed that
 *    is not signed, and two certificates that say the same are the same bytes.
 * 2. The label before what is signed is in no other signature of ours: so none of those can be
 *    shown as a certificate, also if the authority's key signs other things one day.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/bytes.h"
#include "keys/files.h"
#include "keys/keys.h"

#define LABEL       "pmx-dpdk certificate 1"
#define LABEL_BYTES (sizeof(LABEL) - 1)

/* Offsets in a certificate. */
enum {
	AT_VERSION = 0,
	AT_ZERO = 1,
	AT_NODE = 2,
	AT_NAME = 4,
	AT_PUBLIC = AT_NAME + CERTIFICATE_NAME_MAX,
	AT_FROM = AT_PUBLIC + KEY_BYTES,
	AT_UNTIL = AT_FROM + 8,
	AT_SIGNATURE = AT_UNTIL + 8,
};

_Static_assert(AT_SIGNATURE + CERTIFICATE_SIGNATURE_BYTES == CERTIFICATE_BYTES, "no gaps");

/* Return whether a name has nothing but what a node's name may have, and 0 behind it: it is
 * printed, and written into logs. */
static bool
is_name(const char name[CERTIFICATE_NAME_MAX])
{
	bool ended = false;

	for (unsigned i = 0; i < CERTIFICATE_NAME_MAX; i++) {
		const char c = name[i];

		if (c == 0)
			ended = true;
		else if (ended ||
			!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				(c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_'))
			return false;
	}
	return true;
}

/* Return whether somebody may sign those fields. */
static bool
is_sound(const struct certificate *c)
{
	return c->node != UINT16_MAX && is_name(c->name) && c->from < c->until &&
		c->until <= CERTIFICATE_LATEST;
}

/* Write what is signed: the label, and the certificate as far as its signature. */
static void
put_signed(uint8_t said[LABEL_BYTES + AT_SIGNATURE], const uint8_t in[CERTIFICATE_BYTES])
{
	memcpy(said, LABEL, LABEL_BYTES);
	memcpy(said + LABEL_BYTES, in, AT_SIGNATURE);
}

int
certificate_sign(const struct certificate *c, const uint8_t authority[KEY_BYTES],
	uint8_t out[CERTIFICATE_BYTES])
{
	uint8_t made[CERTIFICATE_BYTES] = {[AT_VERSION] = CERTIFICATE_VERSION};
	uint8_t said[LABEL_BYTES + AT_SIGNATURE];
	struct certificate plain = *c;
	size_t len = CERTIFICATE_SIGNATURE_BYTES;

	/* what stands behind the 0 of a name is the caller's rubbish */
	memset(plain.name, 0, sizeof(plain.name));
	memcpy(plain.name, c->name, strnlen(c->name, sizeof(c->name)));
	if (!is_sound(&plain))
		return -EINVAL;
	put_be(made + AT_NODE, c->node, 2);
	memcpy(made + AT_NAME, plain.name, CERTIFICATE_NAME_MAX);
	memcpy(made + AT_PUBLIC, c->public_key, KEY_BYTES);
	put_be(made + AT_FROM, c->from, 8);
	put_be(made + AT_UNTIL, c->until, 8);
	put_signed(said, made);

	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, authority, KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const bool good = key != NULL && ctx != NULL &&
		EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
		EVP_DigestSign(ctx, made + AT_SIGNATURE, &len, said, sizeof(said)) == 1 &&
		len == CERTIFICATE_SIGNATURE_BYTES;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	if (!good) {
		ERR_clear_error();
		return -ENOTSUP;
	}
	memcpy(out, made, sizeof(made));
	return 0;
}

bool
certificate_parse(const uint8_t in[CERTIFICATE_BYTES], struct certificate *out)
{
	struct certificate c = {
		.node = (uint16_t)get_be(in + AT_NODE, 2),
		.from = get_be(in + AT_FROM, 8),
		.until = get_be(in + AT_UNTIL, 8),
	};

	memcpy(c.name, in + AT_NAME, sizeof(c.name));
	memcpy(c.public_key, in + AT_PUBLIC, sizeof(c.public_key));
	if (in[AT_VERSION] != CERTIFICATE_VERSION || in[AT_ZERO] != 0 || !is_sound(&c))
		return false;
	*out = c;
	return true;
}

/* Return whether the authority signed it. */
static bool
is_signed(const uint8_t in[CERTIFICATE_BYTES], const uint8_t authority_public[KEY_BYTES])
{
	uint8_t said[LABEL_BYTES + AT_SIGNATURE];
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, authority_public,
		KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	put_signed(said, in);
	const bool good = key != NULL && ctx != NULL &&
		EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		EVP_DigestVerify(ctx, in + AT_SIGNATURE, CERTIFICATE_SIGNATURE_BYTES, said,
			sizeof(said)) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	if (!good)
		ERR_clear_error();
	return good;
}

enum certificate_fault
certificate_check(const uint8_t in[CERTIFICATE_BYTES], const uint8_t authority_public[KEY_BYTES],
	uint64_t now, struct certificate *out)
{
	struct certificate c;

	if (!certificate_parse(in, &c))
		return CERTIFICATE_MALFORMED;
	if (!is_signed(in, authority_public))
		return CERTIFICATE_FORGED;
	*out = c;
	return now < c.from     ? CERTIFICATE_NOT_YET
		: now < c.until ? CERTIFICATE_OK
				: CERTIFICATE_EXPIRED;
}

int
certificate_read(const char *path, uint8_t out[CERTIFICATE_BYTES], char *error, uint32_t error_len)
{
	return key_file_line(KEY_FILE_CERTIFICATE, path, out, CERTIFICATE_BYTES, error, error_len);
}

int
certificate_write(const char *path, const uint8_t in[CERTIFICATE_BYTES], char *error,
	uint32_t error_len)
{
	uint8_t before[CERTIFICATE_BYTES];
	char line[KEY_LINE_MAX], why[1];
	struct certificate old, new;
	enum key_file what;
	const int there = key_file_look(path, &what, why, sizeof(why));

	if (there != -ENOENT && there != -ENOTDIR && (there != 0 || what != KEY_FILE_CERTIFICATE))
		return key_fail(-EEXIST, error, error_len,
			"%s: something else than a certificate is there, and is not replaced: take "
			"another name, or remove it",
			path);
	if (there == 0 && certificate_read(path, before, why, sizeof(why)) == 0 &&
		certificate_parse(before, &old) && certificate_parse(in, &new) &&
		old.node != new.node)
		return key_fail(-EEXIST, error, error_len,
			"%s: the certificate of node %u is there, and that of node %u does not "
			"replace it: take another name, or remove it",
			path, old.node, new.node);
	key_line(KEY_FILE_CERTIFICATE, in, CERTIFICATE_BYTES, line);
	return key_file_replace(path, line, strlen(line), error, error_len);
}
