/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Keys by which nodes know each other: secrets and their public keys, certificates in which an
 * authority says which node has which public key, lists of public keys that are revoked, and the
 * files of all of these. The curves are X25519 (RFC 7748) and Ed25519 (RFC 8032), by OpenSSL.
 *
 * A secret, a public key or a certificate is a file of one line of text: a word that says what it
 * is, a space, and base64; a public key has no word. Secrets are handed out in memory of the
 * caller, who wipes it by key_forget(); nothing else here keeps a copy.
 *
 * Thread safety: there is no state, so each function may run on any number of threads at once; two
 * that write the same file are told about there. Functions that take a path block on the file
 * system, and none of this belongs on a lane.
 *
 * Errors: functions with an error return 0 or a negative errno, and then have written a sentence
 * into error (error_len bytes, cut if it is longer, with its 0) that names the file and says what
 * to do. Outputs are written only with 0.
 */
#ifndef PMX_KEYS_KEYS_H
#define PMX_KEYS_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#define KEY_BYTES           32
#define KEY_TEXT_MAX        45 /* base64 of KEY_BYTES, with its 0 */
#define KEY_FINGERPRINT_MAX 40 /* with its 0 */

/* Each kind of secret. */
enum key_kind {
	KEY_NODE,      /* X25519: a node's */
	KEY_AUTHORITY, /* Ed25519, its seed: of who signs certificates */
	KEY_CLUSTER,   /* the same for all nodes of a cluster; it has no public key */
};

/* Each kind of file; the first three are the kinds of secrets. */
enum key_file {
	KEY_FILE_NODE = KEY_NODE,
	KEY_FILE_AUTHORITY = KEY_AUTHORITY,
	KEY_FILE_CLUSTER = KEY_CLUSTER,
	KEY_FILE_CERTIFICATE,
	KEY_FILE_PUBLIC, /* a public key alone, of a node or an authority */
	KEY_FILES
};

/* ------------------------------------------------------------------ keys */

/* Make a secret of any kind, by getrandom(). Return 0 or -errno. */
int key_generate(uint8_t secret[KEY_BYTES]);
/* Compute the public key of a secret. Return 0; -EINVAL for KEY_CLUSTER, which has none; or
 * -ENOTSUP if this host's OpenSSL is configured not to have the curve. */
int key_public(enum key_kind kind, const uint8_t secret[KEY_BYTES], uint8_t public_key[KEY_BYTES]);
/* Read exactly 44 characters of base64, in the only form that encodes the key. Return false, and
 * leave key as it is, if text is anything else. */
bool key_from_text(const char *text, uint8_t key[KEY_BYTES]);
void key_to_text(const uint8_t key[KEY_BYTES], char text[KEY_TEXT_MAX]);
/* Write what people compare keys by, as 1234:5678:...: the first 16 bytes of the SHA-256 of
 * "pmx-dpdk fingerprint 1" and the key, in hexadecimal. It does not tell the key, also if that is a
 * secret. Return 0 or -ENOTSUP. */
int key_fingerprint(const uint8_t key[KEY_BYTES], char text[KEY_FINGERPRINT_MAX]);
/* Wipe len bytes, in a way that no compiler takes out. */
void key_forget(void *bytes, size_t len);

/* ------------------------------------------------------------------ files of keys */

/* Find out what a file holds, by its first word, without reading the rest for good. Return 0;
 * -EINVAL if it is nothing of ours, or no regular file; or -errno. */
int key_file_look(const char *path, enum key_file *what, char *error, uint32_t error_len);
/* Read a secret of that kind. Return 0; -EPERM if group or others may read or write the file (mode
 * or ACL), or if it belongs to neither the effective user nor root; -EINVAL if it is no regular
 * file, of another kind or not as it was written; or -errno. Symbolic links are followed, and what
 * counts is the file that they lead to. Its line may end as one of Windows does. */
int key_read(enum key_kind kind, const char *path, uint8_t secret[KEY_BYTES], char *error,
	uint32_t error_len);
/* Read a file of a public key alone. Anyone may read and write it. Return 0, -EINVAL or -errno. */
int key_read_public(const char *path, uint8_t public_key[KEY_BYTES], char *error,
	uint32_t error_len);
/* Write a secret of that kind into a new file of mode 0600, whatever the umask is. Return 0;
 * -EEXIST if there is one, which stays as it is, also if it is a symbolic link; or -errno, and then
 * no file is left. Of two at once, one gets -EEXIST. */
int key_write(enum key_kind kind, const char *path, const uint8_t secret[KEY_BYTES], char *error,
	uint32_t error_len);

/* ------------------------------------------------------------------ certificates */

#define CERTIFICATE_NAME_MAX        32
#define CERTIFICATE_SIGNATURE_BYTES 64
/* On the wire, and below the base64 of a file, a certificate is these, numbers big-endian: version,
 * 0, node, name, public key, from, until, and the Ed25519 signature of "pmx-dpdk certificate 1",
 * which is not sent, and all before the signature. */
#define CERTIFICATE_BYTES                                                                          \
	(1 + 1 + 2 + CERTIFICATE_NAME_MAX + KEY_BYTES + 8 + 8 + CERTIFICATE_SIGNATURE_BYTES)
#define CERTIFICATE_VERSION 1
/* The end of the year 9999, in seconds since 1970: until is no later, so that it can be shown. */
#define CERTIFICATE_LATEST  253402300799u

struct certificate {
	uint16_t node;
	char name[CERTIFICATE_NAME_MAX]; /* letters, digits, '.', '-', '_'; 0 behind it if there is
					  * room; "": none */
	uint8_t public_key[KEY_BYTES];
	uint64_t from, until; /* seconds since 1970, UTC; valid from the one to before the other */
};

enum certificate_fault {
	CERTIFICATE_OK,
	CERTIFICATE_MALFORMED, /* of another version, or with fields that nobody signs */
	CERTIFICATE_FORGED,    /* not signed by that authority, or changed since */
	CERTIFICATE_NOT_YET,   /* signed well, but from is in the future: is a clock wrong? */
	CERTIFICATE_EXPIRED,   /* signed well, but until has come */
};

/* Sign a certificate by the authority's secret. Return 0; -EINVAL if node is 65535, name has other
 * characters, or until is not behind from or is after CERTIFICATE_LATEST; or -ENOTSUP as
 * key_public(). */
int certificate_sign(const struct certificate *c, const uint8_t authority[KEY_BYTES],
	uint8_t out[CERTIFICATE_BYTES]);
/* Check a certificate of anyone: form, signature, and time in seconds since 1970. *out is written
 * if the signature is the authority's: with CERTIFICATE_OK, CERTIFICATE_NOT_YET and
 * CERTIFICATE_EXPIRED. Takes no memory but OpenSSL's for the time of the call. If this host's
 * OpenSSL does not have the curve, every certificate is CERTIFICATE_FORGED. */
enum certificate_fault certificate_check(const uint8_t in[CERTIFICATE_BYTES],
	const uint8_t authority_public[KEY_BYTES], uint64_t now, struct certificate *out);
/* Read the fields of a certificate without looking at its signature: to show them, never to trust
 * them. Return false, and leave *out as it is, if it is malformed. */
bool certificate_parse(const uint8_t in[CERTIFICATE_BYTES], struct certificate *out);
/* Read a file. Its owner and mode do not matter, and its form and signature are not checked. Return
 * 0, -EINVAL if it holds no certificate, or -errno. */
int certificate_read(const char *path, uint8_t out[CERTIFICATE_BYTES], char *error,
	uint32_t error_len);
/* Write a file of mode 0644, whatever the umask is. A certificate that is there is replaced by a
 * rename: who reads sees the one or the other, and a symbolic link becomes a file. Return 0;
 * -EEXIST if something else than a certificate of that node is there, which stays; or -errno. Of
 * two at once the later one stays. */
int certificate_write(const char *path, const uint8_t in[CERTIFICATE_BYTES], char *error,
	uint32_t error_len);

/* ------------------------------------------------------------------ revoked keys */

#define REVOKED_FILE_MAX (1 << 20) /* bytes of a list: more than 20,000 keys */

/* Read a list of public keys that are revoked: one a line, in base64; a # begins a comment. *keys
 * are as many as *count, in the order of the file, and the caller frees them, also if there are
 * none. Return 0; -ENOENT if there is no file, so that a list that is lost is not an empty one;
 * -EPERM if others than its owner may write it, or its owner is neither the effective user nor
 * root; -EINVAL with the number of a line that is no key; -EFBIG if it has more than
 * REVOKED_FILE_MAX bytes; or -errno. */
int revoked_read(const char *path, uint8_t (**keys)[KEY_BYTES], uint32_t *count, char *error,
	uint32_t error_len);
/* Add a key to a list, which is made if there is none, and whose comments stay. The file gets mode
 * 0644 and is replaced by a rename; one that has the key already stays as it is. Of two at once, in
 * any processes, both are added. Return 0 or an error as of revoked_read(). */
int revoked_add(const char *path, const uint8_t public_key[KEY_BYTES], char *error,
	uint32_t error_len);

#endif
