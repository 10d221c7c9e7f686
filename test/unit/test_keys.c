/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lib/keys: vectors of the RFCs, keys as texts, files of secrets and what is refused of
 * them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keys_files.h"

/* Check that a secret is refused for that reason, and that nothing is written where it would go. */
static void
refused(enum key_kind kind, const char *name, int result, const char *why)
{
	uint8_t key[KEY_BYTES], before[KEY_BYTES];

	memset(key, 0xA5, sizeof(key));
	memset(before, 0xA5, sizeof(before));
	assert_int_equal(key_read(kind, at(name), key, KEYS_SAY), result);
	assert_memory_equal(key, before, sizeof(key));
	if (strstr(keys_error, why) == NULL || strstr(keys_error, name) == NULL)
		fail_msg("'%s' does not say '%s' of '%s'", keys_error, why, name);
}

/* ------------------------------------------------------------------ keys */

static void
key_public__vectors(void **state)
{
	static const struct {
		enum key_kind kind;
		const char *secret, *public_key;
	} vectors[] = {
		{KEY_NODE, ALICE, ALICE_PUBLIC},
		{KEY_NODE, BOB, BOB_PUBLIC},
		{KEY_AUTHORITY, SEED_1, PUBLIC_1},
		{KEY_AUTHORITY, SEED_2, PUBLIC_2},
		{KEY_AUTHORITY, SEED_3, PUBLIC_3},
	};
	uint8_t key[KEY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		assert_int_equal(key_public(vectors[i].kind, hex(vectors[i].secret), key), 0);
		assert_memory_equal(key, hex(vectors[i].public_key), KEY_BYTES);
	}
}

static void
key_public__a_cluster_has_none(void **state)
{
	uint8_t key[KEY_BYTES] = {7};

	(void)state;
	assert_int_equal(key_public(KEY_CLUSTER, hex(ALICE), key), -EINVAL);
	assert_int_equal(key[0], 7);
}

static void
key_generate__each_is_another(void **state)
{
	uint8_t keys[64][KEY_BYTES] = {0}, seen[KEY_BYTES] = {0};

	(void)state;
	for (int i = 0; i < 64; i++) {
		assert_int_equal(key_generate(keys[i]), 0);
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(keys[i], keys[j], KEY_BYTES);
		for (int b = 0; b < KEY_BYTES; b++)
			seen[b] |= keys[i][b];
	}
	for (int b = 0; b < KEY_BYTES; b++) /* none is left as it was: 1 in 2^64 a byte */
		assert_int_not_equal(seen[b], 0);
}

static void
key_to_text__and_back(void **state)
{
	uint8_t key[KEY_BYTES], again[KEY_BYTES];
	char text[KEY_TEXT_MAX];

	(void)state;
	key_to_text(hex(ALICE_PUBLIC), text);
	assert_string_equal(text, "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(key_generate(key), 0);
		key_to_text(key, text);
		assert_int_equal(strlen(text), KEY_TEXT_MAX - 1);
		assert_true(key_from_text(text, again));
		assert_memory_equal(key, again, KEY_BYTES);
	}
}

static void
key_from_text__takes_one_form_only(void **state)
{
	static const char *const wrong[] = {
		"",
		"=",
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo",   /* no padding */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo==", /* too much */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm\n=",
		" hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
		" SDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmp=", /* bits that mean nothing */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmoA", /* 33 bytes */
		"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm==", /* 31 bytes */
		"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo=", /* the alphabet of URLs */
		"hSDwCYkwp1R0i33ctD73Wg2=Og0mOBr066SpjqqbTmo=",
		"hSDwCYkwp1R0i33ctD73Wg2\xC3\xA9g0mOBr066SpjqqbTmo=",
		"--------------------------------------------",
		"============================================",
	};
	const char *good = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
	uint8_t key[KEY_BYTES], before[KEY_BYTES];
	char text[KEY_TEXT_MAX];

	(void)state;
	memset(key, 0xA5, sizeof(key));
	memset(before, 0xA5, sizeof(before));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (key_from_text(wrong[i], key))
			fail_msg("'%s' was read", wrong[i]);
		assert_memory_equal(key, before, sizeof(key));
	}
	/* any other character at any place is another key or none, but never the same one */
	assert_true(key_from_text(good, before));
	for (int i = 0; i < KEY_TEXT_MAX - 1; i++) {
		for (int c = 1; c < 256; c++) {
			strcpy(text, good);
			text[i] = (char)c;
			if (key_from_text(text, key) && c != (uint8_t)good[i])
				assert_memory_not_equal(key, before, KEY_BYTES);
		}
	}
}

static void
key_fingerprint__golden(void **state)
{
	char text[KEY_FINGERPRINT_MAX];

	(void)state;
	assert_int_equal(key_fingerprint(hex(ALICE_PUBLIC), text), 0);
	assert_string_equal(text, "3801:ecb9:f920:4bea:7b12:5a01:3754:aa63");
}

static void
key_forget__leaves_nothing(void **state)
{
	uint8_t key[KEY_BYTES], nothing[KEY_BYTES] = {0};

	(void)state;
	memset(key, 0xA5, sizeof(key));
	key_forget(key, sizeof(key));
	assert_memory_equal(key, nothing, sizeof(key));
}

/* ------------------------------------------------------------------ files of secrets */

static void
key_write__and_read(void **state)
{
	static const char *const words[] = {"pmx-node-secret ", "pmx-authority-secret ",
		"pmx-cluster-secret "};
	enum key_file what;

	(void)state;
	for (unsigned kind = KEY_NODE; kind <= KEY_CLUSTER; kind++) {
		uint8_t secret[KEY_BYTES], again[KEY_BYTES];
		char text[KEY_TEXT_MAX], line[128];

		assert_int_equal(key_generate(secret), 0);
		assert_int_equal(key_write(kind, at(words[kind]), secret, KEYS_SAY), 0);
		assert_int_equal(mode_of(words[kind]), S_IFREG | 0600);
		key_to_text(secret, text);
		snprintf(line, sizeof(line), "%s%s\n", words[kind], text);
		assert_string_equal(content(words[kind]), line);
		assert_int_equal(key_file_look(at(words[kind]), &what, KEYS_SAY), 0);
		assert_int_equal(what, kind);
		assert_int_equal(key_read(kind, at(words[kind]), again, KEYS_SAY), 0);
		assert_memory_equal(secret, again, KEY_BYTES);
		/* an editor that leaves out the end of the line does no harm */
		line[strlen(line) - 1] = 0;
		put(words[kind], line, 0400);
		assert_int_equal(key_read(kind, at(words[kind]), again, KEYS_SAY), 0);
	}
}

static void
key_write__whatever_the_umask(void **state)
{
	static const mode_t masks[] = {0, 077, 0177, 0777, 0277, 027};
	char name[16];

	(void)state;
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		uint8_t again[KEY_BYTES];

		umask(masks[i]);
		snprintf(name, sizeof(name), "mask%u", i);
		assert_int_equal(key_write(KEY_NODE, at(name), hex(ALICE), KEYS_SAY), 0);
		assert_int_equal(mode_of(name), S_IFREG | 0600);
		assert_int_equal(key_read(KEY_NODE, at(name), again, KEYS_SAY), 0);
	}
}

static void
key_write__never_over_what_is_there(void **state)
{
	(void)state;
	put("there", "mine\n", 0644);
	assert_int_equal(key_write(KEY_NODE, at("there"), hex(ALICE), KEYS_SAY), -EEXIST);
	assert_non_null(strstr(keys_error, "it is there"));
	assert_string_equal(content("there"), "mine\n");
	assert_int_equal(mode_of("there"), S_IFREG | 0644);
	/* a link that leads nowhere does not make a file elsewhere */
	assert_int_equal(symlink(at("elsewhere"), at("link")), 0);
	assert_int_equal(key_write(KEY_NODE, at("link"), hex(ALICE), KEYS_SAY), -EEXIST);
	assert_int_equal(access(at("elsewhere"), F_OK), -1);
	assert_int_equal(key_write(KEY_NODE, at("no/folder"), hex(ALICE), KEYS_SAY), -ENOENT);
	assert_non_null(strstr(keys_error, "no/folder: No such file"));
}

static void
key_write__no_room_leaves_no_file(void **state)
{
	int status;

	(void)state;
	/* in a process of its own, whose files may have no byte */
	const pid_t child = fork();

	if (child == 0) {
		const struct rlimit none = {0, 0};

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &none);
		_exit(key_write(KEY_NODE, at("full"), hex(ALICE), KEYS_SAY) == -EFBIG ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(access(at("full"), F_OK), -1);
}

static void
key_read__others_may_touch_it(void **state)
{
	static const mode_t wrong[] = {0640, 0620, 0604, 0602, 0660, 0666, 0644, 0440, 0444};
	static const mode_t right[] = {0600, 0400, 0700, 0711};
	uint8_t secret[KEY_BYTES];
	char why[32];

	(void)state;
	assert_int_equal(key_write(KEY_NODE, at("key"), hex(ALICE), KEYS_SAY), 0);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(chmod(at("key"), wrong[i]), 0);
		snprintf(why, sizeof(why), "(mode %04o): chmod 600", wrong[i]);
		refused(KEY_NODE, "key", -EPERM, why);
	}
	for (unsigned i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_int_equal(chmod(at("key"), right[i]), 0);
		assert_int_equal(key_read(KEY_NODE, at("key"), secret, KEYS_SAY), 0);
		assert_memory_equal(secret, hex(ALICE), KEY_BYTES);
	}
}

static void
key_read__of_another_user(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip(); /* only root can give a file away */
	assert_int_equal(key_write(KEY_NODE, at("key"), hex(ALICE), KEYS_SAY), 0);
	assert_int_equal(chown(at("key"), 65534, 65534), 0);
	refused(KEY_NODE, "key", -EPERM, "it belongs to user 65534, and must to user 0");
}

static void
key_read__what_is_no_file(void **state)
{
	char target[PATH_MAX];

	(void)state;
	refused(KEY_NODE, "nothing", -ENOENT, "No such file");
	assert_int_equal(symlink("nothing", at("link")), 0);
	refused(KEY_NODE, "link", -ENOENT, "No such file");
	assert_int_equal(mkdir(at("folder"), 0700), 0);
	refused(KEY_NODE, "folder", -EINVAL, "no regular file");
	assert_int_equal(mkfifo(at("pipe"), 0600), 0);
	refused(KEY_NODE, "pipe", -EINVAL, "no regular file");
	refused(KEY_NODE, "/../../../../dev/zero", -EINVAL, "no regular file");
	/* a link to a good one is good, and to one that others may read is not */
	assert_int_equal(key_write(KEY_NODE, at("key"), hex(ALICE), KEYS_SAY), 0);
	unlink(at("link"));
	assert_int_equal(symlink("key", at("link")), 0);
	assert_int_equal(key_read(KEY_NODE, at("link"), (uint8_t *)target, KEYS_SAY), 0);
	chmod(at("key"), 0640);
	refused(KEY_NODE, "link", -EPERM, "mode 0640");
}

static void
key_read__of_another_kind(void **state)
{
	(void)state;
	assert_int_equal(key_write(KEY_NODE, at("n"), hex(ALICE), KEYS_SAY), 0);
	assert_int_equal(key_write(KEY_AUTHORITY, at("a"), hex(SEED_1), KEYS_SAY), 0);
	assert_int_equal(key_write(KEY_CLUSTER, at("c"), hex(BOB), KEYS_SAY), 0);
	refused(KEY_AUTHORITY, "n", -EINVAL,
		"it is the secret of a node, and the secret of an authority is needed");
	refused(KEY_CLUSTER, "n", -EINVAL, "the secret of a cluster is needed");
	refused(KEY_NODE, "a", -EINVAL, "it is the secret of an authority");
	refused(KEY_NODE, "c", -EINVAL, "it is the secret of a cluster");
	assert_int_equal(certificate_write(at("cert"), hex(GOLDEN), KEYS_SAY), 0);
	chmod(at("cert"), 0600);
	refused(KEY_NODE, "cert", -EINVAL, "it is a certificate");
	put("public", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n", 0600);
	refused(KEY_NODE, "public", -EINVAL, "it is a public key");
	/* of a wrong file its mode is not what is wrong */
	chmod(at("public"), 0644);
	refused(KEY_NODE, "public", -EINVAL, "it is a public key");
}

static void
key_read__a_line_of_windows(void **state)
{
	uint8_t secret[KEY_BYTES];

	(void)state;
	put("key", "pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\r\n", 0600);
	assert_int_equal(key_read(KEY_NODE, at("key"), secret, KEYS_SAY), 0);
}

static void
key_read__what_was_cut_or_changed(void **state)
{
	static const char *const wrong[] = {
		"",
		"\n",
		"pmx-node-secret",
		"pmx-node-secret ",
		"pmx-node-secret\n",
		" pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"Pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"pmx-node-secrets hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"pmx-node-secret  hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"pmx-node-secret\thSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo= \n",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\r\r\n",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n\n",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n# mine\n",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo",
		"pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmp=\n",
		"pmx-something hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n",
		"-----BEGIN PRIVATE KEY-----\n",
	};
	const char *whole = "pmx-node-secret hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
	char part[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put("key", wrong[i], 0600);
		refused(KEY_NODE, "key", -EINVAL, "");
		assert_null(strstr(keys_error, "hSDw")); /* it is never quoted */
	}
	for (size_t len = 0; len < strlen(whole); len++) {
		snprintf(part, sizeof(part), "%.*s", (int)len, whole);
		put("key", part, 0600);
		refused(KEY_NODE, "key", -EINVAL, "");
	}
	/* too long for any of ours, in one line and in many */
	memset(part, 'A', sizeof(part));
	part[sizeof(part) - 1] = 0;
	memcpy(part, whole, strlen(whole));
	put("key", part, 0600);
	refused(KEY_NODE, "key", -EINVAL, "no file of pmx-ctl key");
	/* a 0 ends no text here */
	FILE *f = fopen(at("key"), "w");

	assert_non_null(f);
	fwrite(whole, 1, strlen(whole) + 1, f);
	fclose(f);
	refused(KEY_NODE, "key", -EINVAL, "it is no text");
}

static void
key_read__a_short_place_for_the_error(void **state)
{
	char small[8] = "1234567";
	uint8_t key[KEY_BYTES];

	(void)state;
	assert_int_equal(key_read(KEY_NODE, at("nothing"), key, small, 5), -ENOENT);
	assert_string_equal(small, "/tmp");
	assert_memory_equal(small + 5, "67", 3);
}

static void
key_read_public__alone(void **state)
{
	uint8_t key[KEY_BYTES];
	enum key_file what;

	(void)state;
	put("public", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n", 0666);
	assert_int_equal(key_file_look(at("public"), &what, KEYS_SAY), 0);
	assert_int_equal(what, KEY_FILE_PUBLIC);
	assert_int_equal(key_read_public(at("public"), key, KEYS_SAY), 0);
	assert_memory_equal(key, hex(ALICE_PUBLIC), KEY_BYTES);
	assert_int_equal(key_write(KEY_NODE, at("n"), hex(ALICE), KEYS_SAY), 0);
	assert_int_equal(key_read_public(at("n"), key, KEYS_SAY), -EINVAL);
	assert_non_null(
		strstr(keys_error, "it is the secret of a node, and a public key is needed"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		KEYS_CASE(key_public__vectors),
		KEYS_CASE(key_public__a_cluster_has_none),
		KEYS_CASE(key_generate__each_is_another),
		KEYS_CASE(key_to_text__and_back),
		KEYS_CASE(key_from_text__takes_one_form_only),
		KEYS_CASE(key_fingerprint__golden),
		KEYS_CASE(key_forget__leaves_nothing),
		KEYS_CASE(key_write__and_read),
		KEYS_CASE(key_write__whatever_the_umask),
		KEYS_CASE(key_write__never_over_what_is_there),
		KEYS_CASE(key_write__no_room_leaves_no_file),
		KEYS_CASE(key_read__others_may_touch_it),
		KEYS_CASE(key_read__of_another_user),
		KEYS_CASE(key_read__what_is_no_file),
		KEYS_CASE(key_read__of_another_kind),
		KEYS_CASE(key_read__a_line_of_windows),
		KEYS_CASE(key_read__what_was_cut_or_changed),
		KEYS_CASE(key_read__a_short_place_for_the_error),
		KEYS_CASE(key_read_public__alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
