/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands key generate, public, certify, show and revoke: files of keys (lib/keys). They need
 * no running primary, and print no secret.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "ctl.h"
#include "keys/keys.h"

#define DAY_S     86400
#define EARLIER_S 3600 /* validity begins so long before now, for clocks that are behind */
#define DAYS      30
#define DAYS_MOST 3650

/* Options beside the words, a bit each. */
enum given {
	GIVEN_KIND = 1,
	GIVEN_AUTHORITY = 2,
	GIVEN_NODE = 4,
	GIVEN_NAME = 8,
	GIVEN_DAYS = 16,
	GIVEN_FILE = 32,
};

static const char *const kind_names[KEY_FILES] = {"node secret", "authority secret",
	"cluster secret", "certificate", "public key"};

/* A file, as far as it may be shown. */
struct shown {
	enum key_file what;
	uint8_t key[KEY_BYTES]; /* public */
	bool has_key;
	char fingerprint[KEY_FINGERPRINT_MAX];
	struct certificate c;
	enum certificate_fault fault; /* by the clock alone if there is no authority */
	const char *signature;
};

/* ------------------------------------------------------------------ reading */

static int
no_curves(void)
{
	return complain("this host's OpenSSL has no X25519, Ed25519 or SHA-256: 'openssl list "
			"-providers' tells how it is configured");
}

/* Read the secret of a file and compute its public key and what it is compared by. Return 0, or the
 * exit code after saying what is wrong. */
static int
read_secret(enum key_kind kind, const char *path, struct shown *s)
{
	char error[CTL_ERROR_MAX];
	uint8_t secret[KEY_BYTES];
	int result = 0;

	if (key_read(kind, path, secret, error, sizeof(error)) != 0)
		return complain("%s", error);
	s->has_key = kind != KEY_CLUSTER;
	if ((s->has_key && key_public(kind, secret, s->key) != 0) ||
		key_fingerprint(s->has_key ? s->key : secret, s->fingerprint) != 0)
		result = no_curves();
	key_forget(secret, sizeof(secret));
	return result;
}

/* Read a certificate and check it, by an authority's public key unless that is NULL. Return 0, or
 * the exit code after saying what is wrong. */
static int
read_certificate(const char *path, const uint8_t *authority, struct shown *s)
{
	uint8_t bytes[CERTIFICATE_BYTES];
	const uint64_t now = (uint64_t)time(NULL);
	char error[CTL_ERROR_MAX];

	if (certificate_read(path, bytes, error, sizeof(error)) != 0)
		return complain("%s", error);
	if (!certificate_parse(bytes, &s->c))
		return complain("%s: this certificate is of another version, or was changed", path);
	s->signature = "not checked: --authority KEY checks it";
	s->fault = now < s->c.from ? CERTIFICATE_NOT_YET
		: now < s->c.until ? CERTIFICATE_OK
				   : CERTIFICATE_EXPIRED;
	if (authority != NULL) {
		s->fault = certificate_check(bytes, authority, now, &s->c);
		s->signature = s->fault == CERTIFICATE_FORGED ? "forged: not of that authority"
							      : "good";
	}
	memcpy(s->key, s->c.public_key, sizeof(s->key));
	s->has_key = true;
	return key_fingerprint(s->key, s->fingerprint) == 0 ? 0 : no_curves();
}

/* Read what a file holds. Return 0, or the exit code after saying what is wrong. */
static int
read_file(const char *path, const uint8_t *authority, struct shown *s)
{
	char error[CTL_ERROR_MAX];

	if (key_file_look(path, &s->what, error, sizeof(error)) != 0)
		return complain("%s", error);
	if (s->what == KEY_FILE_CERTIFICATE)
		return read_certificate(path, authority, s);
	if (s->what != KEY_FILE_PUBLIC)
		return read_secret((enum key_kind)s->what, path, s);
	s->has_key = true;
	if (key_read_public(path, s->key, error, sizeof(error)) != 0)
		return complain("%s", error);
	return key_fingerprint(s->key, s->fingerprint) == 0 ? 0 : no_curves();
}

/* Read a public key of a node or an authority: itself, or a file that has it. A certificate is to
 * be of `authority`, unless that is NULL. Return 0, or the exit code after saying what is wrong. */
static int
read_public(enum key_kind kind, const char *word, const uint8_t *authority, uint8_t key[KEY_BYTES])
{
	struct shown s = {0};

	if (key_from_text(word, key))
		return 0;
	if (access(word, F_OK) != 0)
		return complain("'%s': neither a public key, which has 44 characters of base64, "
				"nor a file: %s",
			word, strerror(errno));
	if (read_file(word, authority, &s) != 0)
		return 1;
	if (s.what != KEY_FILE_PUBLIC && s.what != (enum key_file)kind &&
		(kind != KEY_NODE || s.what != KEY_FILE_CERTIFICATE))
		return complain("'%s': its kind is %s, and the public key of %s is needed", word,
			kind_names[s.what], kind == KEY_NODE ? "a node" : "an authority");
	if (s.fault == CERTIFICATE_FORGED)
		return complain("'%s': another authority signed this certificate, so nothing says "
				"whose key it has: give the key itself, if you know",
			word);
	memcpy(key, s.key, KEY_BYTES);
	return 0;
}

/* ------------------------------------------------------------------ printing */

/* Format a time of a certificate, for people or for programs. */
static const char *
date_text(uint64_t when, bool json, char text[32])
{
	const time_t t = (time_t)when;
	struct tm parts;

	gmtime_r(&t, &parts);
	strftime(text, 32, json ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S UTC", &parts);
	return text;
}

/* Return the whole days that a certificate is still valid for; below 0: since when it is not. */
static int64_t
days_left(const struct certificate *c)
{
	const int64_t left = (int64_t)c->until - (int64_t)time(NULL);

	return left >= 0 ? left / DAY_S : -((-left + DAY_S - 1) / DAY_S);
}

static const char *
state_of(const struct shown *s)
{
	return s->fault == CERTIFICATE_FORGED     ? "forged"
		: s->fault == CERTIFICATE_NOT_YET ? "not valid yet"
		: s->fault == CERTIFICATE_EXPIRED ? "expired"
						  : "valid";
}

static int
show_json(const char *path, const struct shown *s)
{
	char text[KEY_TEXT_MAX], date[32];
	json_t *o = json_object();

	json_object_set_new(o, "file", json_string(path));
	json_object_set_new(o, "kind", json_string(kind_names[s->what]));
	if (s->has_key) {
		key_to_text(s->key, text);
		json_object_set_new(o, "public_key", json_string(text));
	}
	json_object_set_new(o, "fingerprint", json_string(s->fingerprint));
	if (s->what == KEY_FILE_CERTIFICATE) {
		const struct certificate *c = &s->c;

		json_object_set_new(o, "node", json_integer(c->node));
		json_object_set_new(o, "name",
			json_stringn(c->name, strnlen(c->name, sizeof(c->name))));
		json_object_set_new(o, "from", json_string(date_text(c->from, true, date)));
		json_object_set_new(o, "until", json_string(date_text(c->until, true, date)));
		json_object_set_new(o, "from_s", json_integer((json_int_t)c->from));
		json_object_set_new(o, "until_s", json_integer((json_int_t)c->until));
		json_object_set_new(o, "days_left", json_integer(days_left(c)));
		json_object_set_new(o, "state", json_string(state_of(s)));
		json_object_set_new(o, "signature", json_string(s->signature));
	}
	return print_json(o);
}

static int
show_text(const struct shown *s)
{
	char text[KEY_TEXT_MAX], date[32];
	const struct certificate *c = &s->c;

	printf("kind         %s\n", kind_names[s->what]);
	if (s->what == KEY_FILE_CERTIFICATE)
		printf("node         %u\nname         %.*s\n", c->node, (int)sizeof(c->name),
			c->name[0] != 0 ? c->name : "-");
	if (s->has_key) {
		key_to_text(s->key, text);
		printf("public key   %s\n", text);
	}
	printf("fingerprint  %s\n", s->fingerprint);
	if (s->what == KEY_FILE_CERTIFICATE) {
		printf("from         %s\n", date_text(c->from, false, date));
		printf("until        %s\n", date_text(c->until, false, date));
		printf("days left    %" PRId64 "\n", days_left(c));
		printf("state        %s\nsignature    %s\n", state_of(s), s->signature);
	}
	return 0;
}

/* ------------------------------------------------------------------ commands */

/* Say what is wrong with the command line. Return the exit code. */
static int
misused(const char *what, const char *value, const char *allowed)
{
	complain("%s '%s': %s", what, value, allowed);
	fputs("Try 'pmx-ctl --help'.\n", stderr);
	return 2;
}

/* Read a decimal number. Return false if it is none, or not in those limits. */
static bool
read_number(const char *text, unsigned long least, unsigned long most, unsigned long *out)
{
	char *end;

	*out = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == 0 && *out >= least && *out <= most;
}

static int
generate(const struct ctl_options *o, char **words)
{
	static const char *const names[] = {"node", "authority", "cluster"};
	const char *const name = o->plan.kind != NULL ? o->plan.kind : names[KEY_NODE];
	char error[CTL_ERROR_MAX], text[KEY_TEXT_MAX];
	struct shown s = {0};
	uint8_t secret[KEY_BYTES];
	unsigned kind = 0;

	while (kind <= KEY_CLUSTER && strcmp(names[kind], name) != 0)
		kind++;
	if (kind > KEY_CLUSTER)
		return misused("--kind", name, "there are node, authority and cluster");
	int result = key_generate(secret);

	if (result != 0)
		return complain("the kernel gives no random numbers: %s", strerror(-result));
	result = key_write(kind, words[0], secret, error, sizeof(error));
	key_forget(secret, sizeof(secret));
	if (result != 0)
		return complain("%s", error);
	/* what is said of it is read from the file, as a node will read it */
	if (read_file(words[0], NULL, &s) != 0)
		return 1;
	if (o->json)
		return show_json(words[0], &s);
	if (kind == KEY_CLUSTER) {
		printf("%s: every node of the cluster needs this same file: copy it as a secret, "
		       "and compare fingerprints by pmx-ctl key show: %s\n",
			words[0], s.fingerprint);
		return 0;
	}
	key_to_text(s.key, text);
	puts(text);
	return 0;
}

static int
print_public(const struct ctl_options *o, char **words)
{
	struct shown s = {0};
	char text[KEY_TEXT_MAX];

	if (read_file(words[0], NULL, &s) != 0)
		return 1;
	if (!s.has_key)
		return complain("%s: a cluster's secret has no public key; 'pmx-ctl key show' "
				"gives its fingerprint",
			words[0]);
	if (o->json)
		return show_json(words[0], &s);
	key_to_text(s.key, text);
	puts(text);
	return 0;
}

/* Sign a certificate and write its file. Return 0, or the exit code after saying what is wrong. */
static int
sign_into(const char *path, const struct certificate *c, const char *authority)
{
	uint8_t bytes[CERTIFICATE_BYTES], secret[KEY_BYTES];
	char error[CTL_ERROR_MAX];
	int result = key_read(KEY_AUTHORITY, authority, secret, error, sizeof(error));

	if (result != 0)
		return complain("%s", error);
	result = certificate_sign(c, secret, bytes);
	key_forget(secret, sizeof(secret));
	if (result != 0)
		return result == -EINVAL ? complain("this host's clock says no year that a "
						    "certificate may have: set it")
					 : no_curves();
	return certificate_write(path, bytes, error, sizeof(error)) == 0 ? 0
									 : complain("%s", error);
}

/* Fill in what the options say of a certificate. Return 0, or the exit code 2 after saying what is
 * wrong. */
static int
read_terms(const struct ctl_options *o, struct certificate *c)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    ".-_";
	const struct key_options *k = &o->key;
	const char *const name = k->name != NULL ? k->name : "";
	const uint64_t now = (uint64_t)time(NULL);
	unsigned long node, days = DAYS;

	if (k->authority == NULL || k->node == NULL || o->file == NULL)
		return misused("command", "key certify",
			"it needs --authority FILE, --node N, PUBLIC and -w FILE");
	if (!read_number(k->node, 0, WIRE_NODES_MAX - 1, &node))
		return misused("--node", k->node, "not a number from 0 to 65534");
	if (strlen(name) > CERTIFICATE_NAME_MAX || name[strspn(name, plain)] != 0)
		return misused("--name", name,
			"a name has at most 32 letters, digits, dots, hyphens and underscores");
	if (k->days != NULL && !read_number(k->days, 1, DAYS_MOST, &days))
		return misused("--days", k->days, "not a number from 1 to 3650");
	memcpy(c->name, name, strlen(name));
	c->node = (uint16_t)node;
	c->from = now - EARLIER_S;
	c->until = now + days * DAY_S;
	return 0;
}

static int
certify(const struct ctl_options *o, char **words)
{
	struct certificate c = {0};
	struct shown s = {0};
	uint8_t authority[KEY_BYTES];
	char date[32];
	int result = read_terms(o, &c);

	if (result != 0)
		return result;
	if (read_secret(KEY_AUTHORITY, o->key.authority, &s) != 0)
		return 1;
	memcpy(authority, s.key, sizeof(authority));
	if (read_public(KEY_NODE, words[0], authority, c.public_key) != 0)
		return 1;
	if (memcmp(c.public_key, authority, sizeof(authority)) == 0)
		return complain("'%s': it is the authority's own public key, and a node needs one "
				"of its own: pmx-ctl key generate",
			words[0]);
	if (sign_into(o->file, &c, o->key.authority) != 0)
		return 1;
	if (o->json) {
		s = (struct shown){.what = KEY_FILE_CERTIFICATE};
		return read_certificate(o->file, authority, &s) != 0 || show_json(o->file, &s);
	}
	printf("%s: node %u%s%.*s has this public key until %s\n", o->file, c.node,
		c.name[0] != 0 ? ", " : "", (int)sizeof(c.name), c.name,
		date_text(c.until, false, date));
	return 0;
}

static int
show(const struct ctl_options *o, char **words)
{
	const char *const by = o->key.authority;
	struct shown s = {0};
	uint8_t authority[KEY_BYTES];

	if (by != NULL && read_public(KEY_AUTHORITY, by, NULL, authority) != 0)
		return 1;
	if (read_file(words[0], by != NULL ? authority : NULL, &s) != 0)
		return 1;
	if (by != NULL && s.what != KEY_FILE_CERTIFICATE)
		return complain("%s: --authority checks certificates, and its kind is %s", words[0],
			kind_names[s.what]);
	const int result = o->json ? show_json(words[0], &s) : show_text(&s);

	return result != 0 || (by != NULL && s.fault != CERTIFICATE_OK);
}

static int
revoke_key(const struct ctl_options *o, char **words)
{
	char error[CTL_ERROR_MAX], text[KEY_TEXT_MAX];
	uint8_t key[KEY_BYTES];

	if (read_public(KEY_NODE, words[1], NULL, key) != 0)
		return 1;
	if (revoked_add(words[0], key, error, sizeof(error)) != 0)
		return complain("%s", error);
	key_to_text(key, text);
	if (o->json)
		return print_json(json_pack("{ssss}", "file", words[0], "public_key", text));
	printf("%s: has %s; 'pmx-ctl reload' makes a running node take it\n", words[0], text);
	return 0;
}

/* ------------------------------------------------------------------ which of them */

static const struct {
	const char *name, *usage;
	int (*run)(const struct ctl_options *o, char **words);
	int words;
	unsigned may; /* which options it has */
} subs[] = {
	{"generate", "FILE [--kind node|authority|cluster]", generate, 1, GIVEN_KIND},
	{"public", "FILE", print_public, 1, 0},
	{"certify", "--authority FILE --node N [--name NAME] [--days N] PUBLIC -w FILE", certify, 1,
		GIVEN_AUTHORITY | GIVEN_NODE | GIVEN_NAME | GIVEN_DAYS | GIVEN_FILE},
	{"show", "FILE [--authority KEY]", show, 1, GIVEN_AUTHORITY},
	{"revoke", "FILE PUBLIC", revoke_key, 2, 0},
};

int
key_command(const struct ctl_options *o, int count, char **words)
{
	const struct key_options *k = &o->key;
	const unsigned given = (o->plan.kind != NULL ? GIVEN_KIND : 0) |
		(k->authority != NULL ? GIVEN_AUTHORITY : 0) | (k->node != NULL ? GIVEN_NODE : 0) |
		(k->name != NULL ? GIVEN_NAME : 0) | (k->days != NULL ? GIVEN_DAYS : 0) |
		(o->file != NULL ? GIVEN_FILE : 0);

	for (size_t i = 0; count > 0 && i < sizeof(subs) / sizeof(subs[0]); i++) {
		if (strcmp(subs[i].name, words[0]) != 0)
			continue;
		if (count - 1 == subs[i].words && (given & ~subs[i].may) == 0)
			return subs[i].run(o, words + 1);
		complain("wrong words or options: pmx-ctl key %s %s", subs[i].name, subs[i].usage);
		return 2;
	}
	return misused("command", count > 0 ? words[0] : "key",
		"key what? There are generate, public, certify, show and revoke");
}
