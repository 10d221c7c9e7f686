/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lib/keys: certificates, with each bit changed and at each time, and lists of revoked
 * keys.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keys_files.h"

#define FROM  1700000000u
#define UNTIL 1702592000u

/* ------------------------------------------------------------------ certificates */

static struct certificate
sample(void)
{
	struct certificate c = {.node = 3, .name = "head", .from = FROM, .until = UNTIL};

	memcpy(c.public_key, hex(ALICE_PUBLIC), KEY_BYTES);
	return c;
}

static void
same_certificate(const struct certificate *a, const struct certificate *b)
{
	assert_int_equal(a->node, b->node);
	assert_memory_equal(a->name, b->name, sizeof(a->name));
	assert_memory_equal(a->public_key, b->public_key, KEY_BYTES);
	assert_int_equal(a->from, b->from);
	assert_int_equal(a->until, b->until);
}

static void
certificate_sign__golden(void **state)
{
	struct certificate c = sample(), out;
	uint8_t bytes[CERTIFICATE_BYTES];

	(void)state;
	assert_int_equal(CERTIFICATE_BYTES, 148);
	memcpy(c.name, "head\0rubbish", 12); /* what stands behind a name is not signed */
	assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), 0);
	assert_memory_equal(bytes, hex(GOLDEN), CERTIFICATE_BYTES);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_1), FROM, &out), CERTIFICATE_OK);
	c = sample();
	same_certificate(&out, &c);
	memset(&out, 0, sizeof(out));
	assert_true(certificate_parse(bytes, &out));
	same_certificate(&out, &c);
}

static void
certificate_sign__extremes(void **state)
{
	struct certificate c = sample(), out;
	uint8_t bytes[CERTIFICATE_BYTES];

	(void)state;
	c.node = 65534;
	memcpy(c.name, "ABCXYZabcxyz0189.-_ABCXYZabcxyz0", CERTIFICATE_NAME_MAX); /* no 0 behind */
	c.from = 0;
	c.until = CERTIFICATE_LATEST;
	assert_int_equal(certificate_sign(&c, hex(SEED_2), bytes), 0);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_2), 0, &out), CERTIFICATE_OK);
	same_certificate(&out, &c);
	c = (struct certificate){.node = 0, .from = 5, .until = 6};
	assert_int_equal(certificate_sign(&c, hex(SEED_2), bytes), 0);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_2), 5, &out), CERTIFICATE_OK);
	same_certificate(&out, &c);
}

static void
certificate_sign__refuses(void **state)
{
	static const char *const names[] = {"a b", "a/b", "a\nb", "\x1B[31m", "\xC3\xA9", "a:b"};
	uint8_t bytes[CERTIFICATE_BYTES] = {7};
	struct certificate c;

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		c = sample();
		strcpy(c.name, names[i]);
		assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), -EINVAL);
	}
	c = sample();
	c.node = 65535;
	assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), -EINVAL);
	c = sample();
	c.until = c.from;
	assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), -EINVAL);
	c.until = CERTIFICATE_LATEST + 1ull;
	assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), -EINVAL);
	c.until = UINT64_MAX;
	assert_int_equal(certificate_sign(&c, hex(SEED_1), bytes), -EINVAL);
	assert_int_equal(bytes[0], 7);
}

static void
certificate_check__times(void **state)
{
	const struct certificate c = sample();
	struct certificate out = {0};

	(void)state;
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), FROM - 1, &out),
		CERTIFICATE_NOT_YET);
	same_certificate(&out, &c); /* to be told of in a log */
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), 0, &out),
		CERTIFICATE_NOT_YET);
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), FROM, &out), CERTIFICATE_OK);
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), UNTIL - 1, &out),
		CERTIFICATE_OK);
	memset(&out, 0, sizeof(out));
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), UNTIL, &out),
		CERTIFICATE_EXPIRED);
	same_certificate(&out, &c);
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_1), UINT64_MAX, &out),
		CERTIFICATE_EXPIRED);
}

static void
certificate_check__each_bit_counts(void **state)
{
	struct certificate out, before;
	uint8_t bytes[CERTIFICATE_BYTES];

	(void)state;
	memset(&out, 0xA5, sizeof(out));
	before = out;
	for (unsigned bit = 0; bit < 8 * CERTIFICATE_BYTES; bit++) {
		memcpy(bytes, hex(GOLDEN), sizeof(bytes));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		const enum certificate_fault f = certificate_check(bytes, hex(PUBLIC_1), FROM,
			&out);

		if (f != CERTIFICATE_FORGED && f != CERTIFICATE_MALFORMED)
			fail_msg("bit %u changed: %d", bit, f);
		/* version and the byte behind it say that it is another form */
		assert_true(bit >= 16 || f == CERTIFICATE_MALFORMED);
		assert_memory_equal(&out, &before, sizeof(out));
	}
}

static void
certificate_check__of_another_authority(void **state)
{
	struct certificate out, c = sample();
	uint8_t bytes[CERTIFICATE_BYTES];

	(void)state;
	assert_int_equal(certificate_check(hex(GOLDEN), hex(PUBLIC_2), FROM, &out),
		CERTIFICATE_FORGED);
	/* keys that are no points, or of small order */
	assert_int_equal(certificate_check(hex(GOLDEN), hex(ALICE_PUBLIC), FROM, &out),
		CERTIFICATE_FORGED);
	memset(bytes, 0xFF, sizeof(bytes));
	assert_int_equal(certificate_check(hex(GOLDEN), bytes, FROM, &out), CERTIFICATE_FORGED);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(certificate_check(hex(GOLDEN), bytes, FROM, &out), CERTIFICATE_FORGED);
	assert_int_equal(certificate_sign(&c, hex(SEED_2), bytes), 0);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_1), FROM, &out), CERTIFICATE_FORGED);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_2), FROM, &out), CERTIFICATE_OK);
}

/* A signature whose second half is larger by the order of the group: equations hold for it
 * as well, and RFC 8032 forbids it. */
static void
certificate_check__a_signature_has_one_form(void **state)
{
	const uint8_t *const order = hex(
		"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
	struct certificate out;
	uint8_t bytes[CERTIFICATE_BYTES];
	unsigned carry = 0;

	(void)state;
	memcpy(bytes, hex(GOLDEN), sizeof(bytes));
	for (unsigned i = 0; i < 32; i++) {
		carry += bytes[CERTIFICATE_BYTES - 32 + i] + order[i];
		bytes[CERTIFICATE_BYTES - 32 + i] = (uint8_t)carry;
		carry >>= 8;
	}
	assert_int_equal(carry, 0);
	assert_int_equal(certificate_check(bytes, hex(PUBLIC_1), FROM, &out), CERTIFICATE_FORGED);
}

static void
certificate_parse__malformed(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} wrong[] = {{0, 0}, {0, 2}, {1, 1}, {4, 0}, {9, 'x'}, {5, '/'}, {5, 0x80}, {5, '\n'},
		{68, 1}, {76, 1}, {80, 0}};
	struct certificate out;
	uint8_t bytes[CERTIFICATE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(bytes, hex(GOLDEN), sizeof(bytes));
		bytes[wrong[i].at] = wrong[i].value;
		assert_false(certificate_parse(bytes, &out));
	}
	memcpy(bytes, hex(GOLDEN), sizeof(bytes));
	bytes[2] = bytes[3] = 0xFF;
	assert_false(certificate_parse(bytes, &out));
}

static void
certificate_check__random_bytes(void **state)
{
	struct certificate out;

	(void)state;
	srand(9);
	for (int i = 0; i < 20000; i++) {
		uint8_t *bytes = malloc(CERTIFICATE_BYTES); /* of its own, for sanitizers */

		memcpy(bytes, hex(GOLDEN), CERTIFICATE_BYTES);
		for (int changes = rand() % 8 + 1; changes > 0; changes--) {
			uint8_t *place = &bytes[rand() % CERTIFICATE_BYTES];

			*place = (uint8_t)(*place + 1 + rand() % 255);
		}
		if (memcmp(bytes, hex(GOLDEN), CERTIFICATE_BYTES) != 0)
			assert_in_range(certificate_check(bytes, hex(PUBLIC_1), FROM, &out),
				CERTIFICATE_MALFORMED, CERTIFICATE_FORGED);
		free(bytes);
	}
}

static void
certificate_write__and_read(void **state)
{
	uint8_t bytes[CERTIFICATE_BYTES];
	enum key_file what;

	(void)state;
	umask(077);
	assert_int_equal(certificate_write(at("cert"), hex(GOLDEN), KEYS_SAY), 0);
	assert_int_equal(mode_of("cert"), S_IFREG | 0644);
	assert_memory_equal(content("cert"), "pmx-certificate AQAAA2hlYWQA", 28);
	assert_int_equal(strlen(content("cert")), 16 + 200 + 1);
	assert_int_equal(key_file_look(at("cert"), &what, KEYS_SAY), 0);
	assert_int_equal(what, KEY_FILE_CERTIFICATE);
	assert_int_equal(certificate_read(at("cert"), bytes, KEYS_SAY), 0);
	assert_memory_equal(bytes, hex(GOLDEN), CERTIFICATE_BYTES);
	/* the next one takes its place, and nothing else is left in the folder */
	bytes[4]++;
	umask(0);
	assert_int_equal(certificate_write(at("cert"), bytes, KEYS_SAY), 0);
	assert_int_equal(mode_of("cert"), S_IFREG | 0644);
	assert_int_equal(certificate_read(at("cert"), bytes, KEYS_SAY), 0);
	assert_int_equal(bytes[4], 'i');
	/* but not that of another node */
	bytes[3]++;
	assert_int_equal(certificate_write(at("cert"), bytes, KEYS_SAY), -EEXIST);
	assert_int_equal(unlink(at("cert")), 0);
	assert_int_equal(rmdir(keys_dir), 0);
	assert_int_equal(mkdir(keys_dir, 0700), 0);
}

static void
certificate_write__over_nothing_else(void **state)
{
	(void)state;
	assert_int_equal(key_write(KEY_NODE, at("key"), hex(ALICE), KEYS_SAY), 0);
	assert_int_equal(certificate_write(at("key"), hex(GOLDEN), KEYS_SAY), -EEXIST);
	assert_non_null(strstr(keys_error, "something else than a certificate"));
	assert_memory_equal(content("key"), "pmx-node-secret ", 16);
	assert_int_equal(mkdir(at("folder"), 0700), 0);
	assert_int_equal(certificate_write(at("folder"), hex(GOLDEN), KEYS_SAY), -EEXIST);
	assert_int_equal(certificate_write(at("no/folder"), hex(GOLDEN), KEYS_SAY), -ENOENT);
	assert_int_equal(certificate_write(at("key/cert"), hex(GOLDEN), KEYS_SAY), -ENOTDIR);
	/* a link is replaced, not followed */
	assert_int_equal(symlink("elsewhere", at("link")), 0);
	assert_int_equal(certificate_write(at("link"), hex(GOLDEN), KEYS_SAY), 0);
	assert_int_equal(mode_of("link"), S_IFREG | 0644);
	assert_int_equal(access(at("elsewhere"), F_OK), -1);
}

static void
certificate_read__what_is_none(void **state)
{
	uint8_t bytes[CERTIFICATE_BYTES] = {7};
	char text[512];

	(void)state;
	assert_int_equal(certificate_read(at("nothing"), bytes, KEYS_SAY), -ENOENT);
	assert_int_equal(key_write(KEY_NODE, at("key"), hex(ALICE), KEYS_SAY), 0);
	assert_int_equal(certificate_read(at("key"), bytes, KEYS_SAY), -EINVAL);
	assert_non_null(
		strstr(keys_error, "it is the secret of a node, and a certificate is needed"));
	assert_int_equal(certificate_write(at("cert"), hex(GOLDEN), KEYS_SAY), 0);
	strcpy(text, content("cert"));
	text[100] = 0;
	put("cert", text, 0644);
	assert_int_equal(certificate_read(at("cert"), bytes, KEYS_SAY), -EINVAL);
	assert_non_null(strstr(keys_error, "it was cut or changed"));
	assert_int_equal(bytes[0], 7);
	/* one that was cut is a certificate still, and may be replaced */
	assert_int_equal(certificate_write(at("cert"), hex(GOLDEN), KEYS_SAY), 0);
	assert_int_equal(certificate_read(at("cert"), bytes, KEYS_SAY), 0);
}

/* ------------------------------------------------------------------ revoked keys */

#define ALICE_TEXT "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="

static void
revoked_add__and_read(void **state)
{
	uint8_t(*keys)[KEY_BYTES];
	uint32_t count;
	char before[4096];

	(void)state;
	umask(077);
	assert_int_equal(revoked_add(at("list"), hex(ALICE_PUBLIC), KEYS_SAY), 0);
	assert_int_equal(mode_of("list"), S_IFREG | 0644);
	assert_int_equal(revoked_add(at("list"), hex(BOB_PUBLIC), KEYS_SAY), 0);
	strcpy(before, content("list"));
	assert_int_equal(revoked_add(at("list"), hex(ALICE_PUBLIC), KEYS_SAY), 0);
	assert_string_equal(content("list"), before);
	assert_int_equal(revoked_read(at("list"), &keys, &count, KEYS_SAY), 0);
	assert_int_equal(count, 2);
	assert_memory_equal(keys[0], hex(ALICE_PUBLIC), KEY_BYTES);
	assert_memory_equal(keys[1], hex(BOB_PUBLIC), KEY_BYTES);
	free(keys);
	assert_int_equal(unlink(at("list")), 0);
	assert_int_equal(rmdir(keys_dir), 0); /* nothing else was left */
	assert_int_equal(mkdir(keys_dir, 0700), 0);
}

static void
revoked_add__keeps_what_people_wrote(void **state)
{
	(void)state;
	put("list", "# lost on Monday\n\n  " ALICE_TEXT " \t# node 7", 0600);
	assert_int_equal(revoked_add(at("list"), hex(ALICE_PUBLIC), KEYS_SAY), 0);
	assert_string_equal(content("list"), "# lost on Monday\n\n  " ALICE_TEXT " \t# node 7");
	assert_int_equal(revoked_add(at("list"), hex(BOB_PUBLIC), KEYS_SAY), 0);
	assert_string_equal(content("list"),
		"# lost on Monday\n\n  " ALICE_TEXT " \t# node 7\n"
		"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\n");
}

static void
revoked_add__many_at_once(void **state)
{
	uint8_t(*keys)[KEY_BYTES];
	uint32_t count;
	int status;

	(void)state;
	for (uint8_t i = 0; i < 8; i++) {
		if (fork() != 0)
			continue;
		for (uint8_t k = 0; k < 8; k++) {
			const uint8_t key[KEY_BYTES] = {i, k};

			if (revoked_add(at("list"), key, KEYS_SAY) != 0)
				_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < 8; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(revoked_read(at("list"), &keys, &count, KEYS_SAY), 0);
	assert_int_equal(count, 64);
	free(keys);
}

static void
revoked_read__lists(void **state)
{
	static const struct {
		const char *text;
		uint32_t count;
	} lists[] = {
		{"", 0},
		{"\n\n", 0},
		{"# none yet", 0},
		{"  # none yet\r\n\t\r\n", 0},
		{ALICE_TEXT, 1},
		{ALICE_TEXT "\r\n" ALICE_TEXT "# twice\n", 2},
	};
	uint8_t(*keys)[KEY_BYTES];
	uint32_t count;

	(void)state;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		put("list", lists[i].text, 0644);
		assert_int_equal(revoked_read(at("list"), &keys, &count, KEYS_SAY), 0);
		assert_int_equal(count, lists[i].count);
		for (uint32_t k = 0; k < count; k++)
			assert_memory_equal(keys[k], hex(ALICE_PUBLIC), KEY_BYTES);
		free(keys);
	}
}

static void
list_refused(int result, const char *why)
{
	uint8_t(*keys)[KEY_BYTES] = NULL;
	uint32_t count = 77;

	assert_int_equal(revoked_read(at("list"), &keys, &count, KEYS_SAY), result);
	assert_null(keys);
	assert_int_equal(count, 77);
	if (strstr(keys_error, why) == NULL)
		fail_msg("'%s' does not say '%s'", keys_error, why);
}

static void
revoked_read__refuses(void **state)
{
	static const char *const wrong[] = {ALICE_TEXT "\nnode 7\n", ALICE_TEXT "\n" ALICE_TEXT "x",
		"# one\nhSDw\n", "\n" ALICE_TEXT " " ALICE_TEXT "\n",
		"\npmx-node-secret " ALICE_TEXT "\n"};

	(void)state;
	list_refused(-ENOENT, "No such file"); /* a list that is lost is not an empty one */
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put("list", wrong[i], 0644);
		list_refused(-EINVAL, "list:2: it is no public key");
		assert_int_equal(revoked_add(at("list"), hex(BOB_PUBLIC), KEYS_SAY), -EINVAL);
		assert_string_equal(content("list"), wrong[i]);
	}
	put("list", ALICE_TEXT "\n", 0664);
	list_refused(-EPERM, "others than its owner may write it (mode 0664)");
	assert_int_equal(truncate(at("list"), REVOKED_FILE_MAX + 1), 0);
	assert_int_equal(chmod(at("list"), 0644), 0);
	list_refused(-EFBIG, "1048577 bytes or more");
	assert_int_equal(truncate(at("list"), REVOKED_FILE_MAX), 0);
	list_refused(-EINVAL, "it is no text");
	if (geteuid() == 0) {
		put("list", ALICE_TEXT "\n", 0644);
		assert_int_equal(chown(at("list"), 65534, 65534), 0);
		list_refused(-EPERM, "it belongs to user 65534");
	}
}

static void
revoked_read__as_long_as_it_may_be(void **state)
{
	const size_t line = KEY_TEXT_MAX, fit = REVOKED_FILE_MAX / line;
	uint8_t(*keys)[KEY_BYTES];
	char *text = malloc(REVOKED_FILE_MAX + 1);
	uint32_t count;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < fit; i++)
		memcpy(text + i * line, ALICE_TEXT "\n", line);
	memset(text + fit * line, '#', REVOKED_FILE_MAX - fit * line);
	text[REVOKED_FILE_MAX] = 0;
	put("list", text, 0644);
	assert_int_equal(revoked_read(at("list"), &keys, &count, KEYS_SAY), 0);
	assert_int_equal(count, fit);
	free(keys);
	assert_int_equal(revoked_add(at("list"), hex(BOB_PUBLIC), KEYS_SAY), -EFBIG);
	assert_non_null(strstr(keys_error, "take out keys"));
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		KEYS_CASE(certificate_sign__golden),
		KEYS_CASE(certificate_sign__extremes),
		KEYS_CASE(certificate_sign__refuses),
		KEYS_CASE(certificate_check__times),
		KEYS_CASE(certificate_check__each_bit_counts),
		KEYS_CASE(certificate_check__of_another_authority),
		KEYS_CASE(certificate_check__a_signature_has_one_form),
		KEYS_CASE(certificate_parse__malformed),
		KEYS_CASE(certificate_check__random_bytes),
		KEYS_CASE(certificate_write__and_read),
		KEYS_CASE(certificate_write__over_nothing_else),
		KEYS_CASE(certificate_read__what_is_none),
		KEYS_CASE(revoked_add__and_read),
		KEYS_CASE(revoked_add__keeps_what_people_wrote),
		KEYS_CASE(revoked_add__many_at_once),
		KEYS_CASE(revoked_read__lists),
		KEYS_CASE(revoked_read__refuses),
		KEYS_CASE(revoked_read__as_long_as_it_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
