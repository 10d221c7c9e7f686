/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of a channel's region: the parts lie inside, aligned and apart; a new life begins
 * empty with another generation; what a client must refuse. Where sockets are looked for, which
 * names are allowed, whose the files of hugepages are, and how descriptors are passed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "channel/passing.h"

static const struct channel_geometry small = {
	.submissions = 4,
	.completions = 64,
	.send_buffers = 1,
	.transfers = 2,
	.events = 1,
	.lhs = {1, 64, 40, 4},
};
static const struct channel_geometry large = {
	.submissions = 32768,
	.completions = 64,
	.send_buffers = 32768,
	.transfers = 4096,
	.events = 32768,
	.lhs = {1u << 20, 128, 104, 4},
};

static struct channel_shm *
make(const struct channel_geometry *g)
{
	uint64_t bytes = channel_bytes(g);
	struct channel_shm *shm = aligned_alloc(64, bytes);

	assert_non_null(shm);
	memset(shm, 0, bytes);
	channel_format(shm, g, 3, 7, 1);
	return shm;
}

static void
check_parts(const struct channel_geometry *g)
{
	struct channel_shm *shm = make(g);

	assert_int_equal(shm->bytes, channel_bytes(g));
	assert_true(shm->submissions_off >= sizeof(*shm));
	assert_true(shm->completions_off >=
		shm->submissions_off + (uint64_t)g->submissions * SLOT_BYTES);
	assert_true(shm->lhs_off >= shm->completions_off + (uint64_t)g->completions * SLOT_BYTES);
	assert_true(
		shm->send_off_off >= shm->lhs_off + (uint64_t)g->lhs.entries * g->lhs.entry_bytes);
	assert_true(shm->transfers_off >= shm->send_off_off + g->send_buffers * sizeof(int64_t));
	assert_true(shm->events_off >=
		shm->transfers_off + g->transfers * sizeof(struct transfer_desc));
	assert_true(shm->bytes >= shm->events_off + (uint64_t)g->events * SLOT_BYTES);
	assert_int_equal(shm->transfers_off % 64, 0);
	assert_int_equal(shm->events_off % 64, 0);
	assert_int_equal(shm->submissions_off % 64, 0);
	assert_int_equal(shm->completions_off % 64, 0);
	assert_int_equal(shm->lhs_off % 64, 0);
	assert_int_equal(shm->send_off_off % 8, 0);
	assert_int_equal(shm->bytes % 64, 0);
	assert_ptr_equal(channel_lhs(shm), (uint8_t *)shm + shm->lhs_off);
	free(shm);
}

static void
channel_format__parts_lie_apart(void **state)
{
	(void)state;
	check_parts(&small);
	check_parts(&large);
}

static void
channel_format__says_whose_it_is(void **state)
{
	struct channel_shm *shm = make(&small);

	(void)state;
	assert_int_equal(shm->node, 3);
	assert_int_equal(shm->ctx, 7);
	assert_int_equal(shm->abi, CHANNEL_ABI);
	assert_int_equal(shm->lhs.entry_bytes, 64);
	free(shm);
}

static void
channel_format__new_life_is_empty(void **state)
{
	struct channel_shm *shm = make(&small);
	uint32_t generation = shm->generation;

	(void)state;
	memset(channel_submissions(shm), 0xFF, 4 * SLOT_BYTES);
	atomic_store(&shm->lhs_pos, 99);
	atomic_store(&shm->wake_client, 1);
	channel_format(shm, &small, 3, 7, generation + 1);
	assert_int_equal(shm->generation, generation + 1);
	assert_int_equal(atomic_load(&shm->lhs_pos), 0);
	assert_int_equal(atomic_load(&shm->wake_client), 0);
	for (unsigned i = 0; i < 4 * SLOT_BYTES; i++)
		assert_int_equal(((uint8_t *)channel_submissions(shm))[i], 0);
	free(shm);
}

static void
channel_check__refuses(void **state)
{
	struct channel_shm *shm = make(&small);

	(void)state;
	assert_non_null(channel_check(shm)); /* closed */
	atomic_store(&shm->state, CHANNEL_OPEN);
	assert_null(channel_check(shm));
	shm->abi++;
	assert_non_null(channel_check(shm));
	shm->abi--;
	shm->magic++;
	assert_non_null(channel_check(shm));
	shm->magic--;
	atomic_store(&shm->state, CHANNEL_DEAD);
	assert_non_null(channel_check(shm));
	free(shm);
}

static void
channel_shm__positions_have_lines_of_their_own(void **state)
{
	(void)state;
	const size_t at[] = {offsetof(struct channel_shm, engine_sleeps),
		offsetof(struct channel_shm, submissions_pos),
		offsetof(struct channel_shm, completions_pos),
		offsetof(struct channel_shm, lhs_pos), offsetof(struct channel_shm, wake_client)};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		assert_int_equal(at[i] % 64, 0);
}

static void
completion_item__holds_buffer_and_error(void **state)
{
	(void)state;
	assert_int_equal(COMPLETION_ITEM(32767, 110) & 0xFFFFFF, 32767);
	assert_int_equal(COMPLETION_ITEM(32767, 200) >> 24, 200);
}

static void
eal_base__is_where_the_eal_of_this_user_looks(void **state)
{
	(void)state;
	setenv("RUNTIME_DIRECTORY", "/somewhere", 1);
	assert_string_equal(eal_base(), "/somewhere");
	unsetenv("RUNTIME_DIRECTORY");
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_string_equal(eal_base(), getuid() == 0 ? "/var/run" : "/run/user/7");
	unsetenv("XDG_RUNTIME_DIR");
	assert_string_equal(eal_base(), getuid() == 0 ? "/var/run" : "/tmp");
}

/* Check as an ordinary user that own sockets are only in a directory that is this user's. */
static void
own_sockets__are_in_a_directory_of_this_user_only(void **state)
{
	char home[] = "/tmp/pmx-test-channel.XXXXXX", link[64], dir[64], at[128];
	const bool root = geteuid() == 0;

	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	if (root) {
		run_dir(at, sizeof(at));
		assert_string_equal(at, "/run/pmx-dpdk");
		assert_false(own_sockets(at, sizeof(at))); /* those are where all look */
		assert_return_code(seteuid(65534), errno);
	}
	run_dir(at, sizeof(at));
	snprintf(dir, sizeof(dir), "/tmp/pmx-dpdk-%u", geteuid());
	assert_string_equal(at, dir);
	assert_non_null(mkdtemp(home));
	setenv("XDG_RUNTIME_DIR", home, 1);
	snprintf(dir, sizeof(dir), "%s/pmx-dpdk", home);
	snprintf(link, sizeof(link), "%s/other", home);
	assert_false(own_sockets(at, sizeof(at)));
	assert_return_code(mkdir(dir, 0755), errno);
	assert_true(own_sockets(at, sizeof(at)));
	assert_string_equal(at, dir);
	assert_false(own_sockets(at, strlen(dir)));
	assert_return_code(rename(dir, link), errno);
	assert_return_code(symlink(link, dir), errno);
	assert_false(own_sockets(at, sizeof(at)));
	unlink(dir);
	if (root) {
		assert_return_code(seteuid(0), errno);
		assert_return_code(mkdir(dir, 0777), errno);
		assert_return_code(seteuid(65534), errno);
		assert_false(own_sockets(at, sizeof(at)));
		assert_return_code(seteuid(0), errno);
		rmdir(dir);
	}
	rmdir(link);
	rmdir(home);
	unsetenv("XDG_RUNTIME_DIR");
}

/* Nobody else can look into it, or has made it before, whatever the umask says. */
static void
run_dir_make__makes_what_others_cannot_enter(void **state)
{
	char home[] = "/tmp/pmx-test-channel.XXXXXX", dir[64], at[128];
	const bool root = geteuid() == 0;
	struct stat st;

	(void)state;
	if (root)
		assert_return_code(seteuid(65534), errno);
	assert_non_null(mkdtemp(home));
	setenv("XDG_RUNTIME_DIR", home, 1);
	snprintf(dir, sizeof(dir), "%s/pmx-dpdk", home);
	for (unsigned i = 0; i < 2; i++) {
		const mode_t before = umask(i == 0 ? 0777 : 0);

		assert_int_equal(run_dir_make(at, sizeof(at)), 0);
		umask(before);
		assert_string_equal(at, dir);
		assert_return_code(stat(dir, &st), errno);
		assert_int_equal(st.st_mode & 07777, 0700);
		assert_return_code(chmod(dir, 0777), errno); /* of an earlier version */
	}
	rmdir(dir);
	assert_return_code(symlink("/", dir), errno);
	assert_true(run_dir_make(at, sizeof(at)) < 0);
	unlink(dir);
	if (root) {
		assert_return_code(seteuid(0), errno);
		assert_return_code(mkdir(dir, 0777), errno);
		assert_return_code(seteuid(65534), errno);
		assert_int_equal(run_dir_make(at, sizeof(at)), -EPERM);
		assert_return_code(seteuid(0), errno);
	}
	rmdir(dir);
	rmdir(home);
	unsetenv("XDG_RUNTIME_DIR");
}

static void
channel_name_ok__takes_what_the_rule_allows(void **state)
{
	char longest[ATTACH_NAME_MAX + 1];

	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[ATTACH_NAME_MAX] = '\0';
	assert_false(channel_name_ok(longest));
	longest[ATTACH_NAME_MAX - 1] = '\0';
	assert_true(channel_name_ok(longest));
	for (unsigned c = 1; c < 256; c++) {
		const char text[] = {'a', (char)c, '\0'};
		const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';

		assert_int_equal(channel_name_ok(text), allowed);
	}
	assert_false(channel_name_ok(""));
	assert_false(channel_name_ok("12"));
	assert_false(channel_name_ok(".a"));
	assert_false(channel_name_ok("-a"));
	assert_true(channel_name_ok("_a"));
}

static void
is_map_of__needs_the_whole_prefix(void **state)
{
	(void)state;
	assert_int_equal(eal_map_owner("pmx0map_12"), 4);
	assert_int_equal(eal_map_owner("pmx0map_1map_0"), 9);
	assert_int_equal(eal_map_owner("map_3"), 0);
	assert_int_equal(eal_map_owner("ap_3"), 0);
	assert_int_equal(eal_map_owner("pmx0map_"), 0);
	assert_int_equal(eal_map_owner("pmx0mop_1"), 0);
	assert_int_equal(eal_map_owner("17"), 0);
	assert_int_equal(eal_map_owner(""), 0);
	assert_true(is_map_of("pmx0map_12", "pmx0"));
	assert_false(is_map_of("pmx0map_12", "pmx"));
	assert_false(is_map_of("pmx0map_12", "pmx1"));
	assert_false(is_map_of("pmx0map_1map_0", "pmx0"));
	assert_false(is_map_of("map_3", ""));
}

/* Return how many descriptors this process has. */
static size_t
descriptors(void)
{
	return files_that("/proc/self/fd", is_any, NULL, false);
}

static void
files_that__are_counted_and_removed(void **state)
{
	static const char *const names[] = {"pmx0map_0", "pmx0map_1", "other"};
	char dir[] = "/tmp/pmx-test-files.XXXXXX", path[64];
	size_t before = descriptors();

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(files_that(dir, is_any, NULL, false), 0);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fclose(f);
	}
	assert_int_equal(files_that(dir, is_any, NULL, false), 3);
	assert_int_equal(files_that(dir, is_map_of, "pmx0", true), 2);
	assert_int_equal(files_that(dir, is_any, NULL, true), 1);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(files_that(dir, is_any, NULL, false), 0);
	assert_int_equal(descriptors(), before);
}

/* ------------------------------------------------------------------ descriptors */

static void
passing__more_than_wanted_are_closed(void **state)
{
	const int give[] = {0, 1, 2};
	size_t before = descriptors();
	int ends[2], got[2];
	unsigned n;
	char c = 'a';

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(passing_send(ends[0], &c, 1, give, 3, 0), 1);
	assert_int_equal(passing_send(ends[0], "bc", 2, NULL, 0, 0), 2);
	assert_int_equal(passing_receive(ends[1], &c, 1, got, 2, &n), 1);
	assert_int_equal(n, 2);
	assert_int_equal(descriptors(), before + 4);
	assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	close(got[0]);
	close(got[1]);
	/* none, and how long the message was */
	assert_int_equal(passing_receive(ends[1], &c, 1, got, 2, &n), 2);
	assert_int_equal(n, 0);
	close(ends[0]);
	assert_int_equal(passing_receive(ends[1], &c, 1, got, 2, &n), 0);
	close(ends[1]);
	assert_int_equal(descriptors(), before);
}

static void
passing__to_nobody_or_one_who_is_full_is_an_error(void **state)
{
	const char bytes[1000] = "";
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	while (passing_send(ends[0], bytes, sizeof(bytes), NULL, 0, MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	close(ends[1]);
	/* no signal */
	assert_int_equal(passing_send(ends[0], bytes, sizeof(bytes), NULL, 0, 0), -1);
	assert_int_equal(errno, EPIPE);
	close(ends[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channel_format__parts_lie_apart),
		cmocka_unit_test(channel_format__says_whose_it_is),
		cmocka_unit_test(channel_format__new_life_is_empty),
		cmocka_unit_test(channel_check__refuses),
		cmocka_unit_test(channel_shm__positions_have_lines_of_their_own),
		cmocka_unit_test(completion_item__holds_buffer_and_error),
		cmocka_unit_test(eal_base__is_where_the_eal_of_this_user_looks),
		cmocka_unit_test(run_dir_make__makes_what_others_cannot_enter),
		cmocka_unit_test(channel_name_ok__takes_what_the_rule_allows),
		cmocka_unit_test(is_map_of__needs_the_whole_prefix),
		cmocka_unit_test(files_that__are_counted_and_removed),
		cmocka_unit_test(passing__more_than_wanted_are_closed),
		cmocka_unit_test(passing__to_nobody_or_one_who_is_full_is_an_error),
		cmocka_unit_test(own_sockets__are_in_a_directory_of_this_user_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
