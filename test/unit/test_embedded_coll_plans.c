/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans of collectives between embedded nodes: the network is surveyed, and surveyed again when it
 * is slower than it was; the environment says which generators make them, and files what they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embedded_team.h"

/* ------------------------------------------------------------------ surveys */

/* All members find out the same about their network, and plan by it; meanwhile nobody begins
 * anything else. */
static void
coll__survey(void **state)
{
	struct pmx_survey *survey[ALL], *another;
	int results[ALL] = {0};
	char *texts[ALL] = {NULL}, error[200];
	pmx_request r;
	unsigned left = ALL;

	(void)state;
	team_open(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_coll_survey(group[n], &survey[n]), 0);
	assert_int_equal(pmx_coll_survey(group[0], &another), -EBUSY);
	assert_int_equal(pmx_coll_barrier(group[0], &r), -EBUSY);
	for (const time_t end = time(NULL) + PATIENCE_S; left > 0;) {
		assert_true(time(NULL) < end);
		team_poll();
		for (unsigned n = 0; n < ALL; n++) {
			if (results[n] != 0)
				continue;
			results[n] = pmx_coll_survey_test(survey[n], &texts[n]);
			left -= results[n] != 0;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(results[n], 1);
		assert_string_equal(texts[n], texts[0]);
		assert_int_equal(pmx_coll_topology(group[n], texts[n], error, sizeof(error)), 0);
	}
	assert_non_null(strstr(texts[0], "host n[0-1]"));
	for (unsigned n = 0; n < ALL; n++)
		free(texts[n]);
	team_barriers(0);
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(parts[0][n].ended, 0);
}

/* A group that is closed, or of which a member's node goes, ends a survey. */
static void
coll__survey_ends_with_its_group(void **state)
{
	struct pmx_survey *survey[ALL];
	char *text;
	int e;

	(void)state;
	team_open(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_coll_survey(group[n], &survey[n]), 0);
	for (unsigned i = 0; i < 50; i++) {
		team_poll();
		for (unsigned n = 0; n < ALL; n++)
			assert_int_equal(pmx_coll_survey_test(survey[n], &text), 0);
	}
	pmx_group_close(group[1]);
	group[1] = NULL;
	assert_int_equal(pmx_coll_survey_test(survey[1], &text), -ECANCELED);
	UNTIL((e = pmx_coll_survey_test(survey[2], &text)) != 0);
	assert_int_equal(e, -ENOTCONN);
	for (unsigned n = 0; n < ALL; n++) {
		if (n == 1 || n == 2)
			continue;
		UNTIL((e = pmx_coll_survey_test(survey[n], &text)) != 0);
		assert_int_equal(e, -ENOTCONN);
	}
}

/* ------------------------------------------------------------------ adaptation */

/* Begins an allreduce at all members, as soon as each one's adaptation lets it. */
static void
allreduces(uint64_t *in, uint64_t *out, uint64_t count)
{
	bool begun[ALL] = {false};

	for (unsigned left = members; left > 0; team_poll()) {
		for (unsigned n = 0; n < members; n++) {
			struct share *p = &parts[0][n];

			if (begun[n])
				continue;
			*p = (struct share){.ended = 1};
			const int e = pmx_allreduce(group[n], in, &out[n * count], count,
				PMX_UINT64, PMX_ATOMIC_SUM, &p->request);

			assert_true(e == 0 || e == -EAGAIN);
			begun[n] = e == 0;
			left -= begun[n];
		}
	}
}

/* A network that is slower than it is said to be: all members measure it, and plan anew. */
static void
coll__adapts(void **state)
{
	static uint64_t in[200000], out[ALL * 200000];
	const uint64_t count = sizeof(in) / sizeof(*in);
	unsigned rounds = 0;

	(void)state;
	team_open(ALL);
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(pmx_coll_topology(group[n],
					 "switch s\nhost h[0-1]\n"
					 "link h[0-1] s bandwidth=20G latency=1us\n",
					 NULL, 0),
			0);
		assert_int_equal(pmx_coll_adapted(group[n]), 0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
	}
	for (uint64_t i = 0; i < count; i++)
		in[i] = i;
	while (pmx_coll_adapted(group[0]) == 0) {
		assert_true(rounds++ < 200);
		allreduces(in, out, count);
		UNTIL(team_all_ended(0));
		for (uint64_t i = 0; i < count; i++) {
			assert_int_equal(out[i], ALL * i);
			assert_int_equal(out[(ALL - 1) * count + i], ALL * i);
		}
	}
	for (unsigned n = 1; n < ALL; n++)
		assert_int_equal(pmx_coll_adapted(group[n]), 1);
	allreduces(in, out, count);
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(parts[0][n].ended, 0);
}

/* Begins the next one at a member that waits for none, if it may. Returns whether it may not
 * yet. */
static bool
goes_on(unsigned n, const uint64_t *in, uint64_t *out, uint64_t count)
{
	struct share *p = &parts[0][n];

	if (p->ended == 1 && p->request != 0)
		return false;
	*p = (struct share){.ended = 1};
	const int e = pmx_allreduce(group[n], in, &out[n * count], count, PMX_UINT64,
		PMX_ATOMIC_SUM, &p->request);

	assert_true(e == 0 || e == -EAGAIN);
	return e == -EAGAIN;
}

/* A member goes when the others have tried so often to begin one, while they tell each other, or
 * measure: what they begin then ends with the error that tells so. */
static void
adapts_until(unsigned most)
{
	static uint64_t in[100000], out[ALL * 100000];
	const uint64_t count = sizeof(in) / sizeof(*in);
	unsigned agains = 0, left = ALL - 1;

	team_open(ALL);
	for (unsigned n = 0; n < ALL; n++) {
		assert_int_equal(pmx_coll_topology(group[n],
					 "switch s\nhost h[0-1]\n"
					 "link h[0-1] s bandwidth=5G latency=1us\n",
					 NULL, 0),
			0);
		assert_int_equal(pmx_coll_adapt(group[n]), 0);
	}
	for (const time_t end = time(NULL) + PATIENCE_S; agains < most; team_poll()) {
		assert_true(time(NULL) < end);
		for (unsigned n = 0; n < ALL; n++)
			agains += goes_on(n, in, out, count);
	}
	pmx_group_close(group[ALL - 1]);
	group[ALL - 1] = NULL;
	for (const time_t end = time(NULL) + PATIENCE_S; left > 0; team_poll()) {
		assert_true(time(NULL) < end);
		left = ALL - 1;
		for (unsigned n = 0; n < ALL - 1; n++) {
			const bool is_over = parts[0][n].ended < 0;

			left -= is_over;
			if (!is_over)
				goes_on(n, in, out, count);
		}
	}
	for (unsigned n = 0; n < ALL - 1; n++)
		assert_int_equal(parts[0][n].ended, -ENOTCONN);
}

static void
coll__adapts_until_a_member_leaves_at_once(void **state)
{
	(void)state;
	adapts_until(1);
}

static void
coll__adapts_until_a_member_leaves_soon(void **state)
{
	(void)state;
	adapts_until(300);
}

static void
coll__adapts_until_a_member_leaves_late(void **state)
{
	(void)state;
	adapts_until(3000);
}

/* ------------------------------------------------------------------ the environment */

/* Check what the environment says of plans: what is wrong is refused, and then may be mended. */
static void
coll__environment(void **state)
{
	static const char *const wrong[] = {"barrier", "barrier=", "barrier=chain", "gather=trees",
		"all=ring", "gather=chain,bcast"};
	char error[200] = "";
	pmx_request r;

	(void)state;
	team_open(2);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		setenv("PMX_COLL_GENERATORS", wrong[i], 1);
		assert_int_equal(pmx_coll_topology(group[0], NULL, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, "PMX_COLL_GENERATORS"));
		assert_int_equal(pmx_coll_barrier(group[0], &r), -EINVAL);
	}
	setenv("PMX_COLL_GENERATORS", "gather=chain,barrier=bruck", 1);
	setenv("PMX_TOPOLOGY", "/nowhere/at/all", 1);
	assert_int_equal(pmx_coll_barrier(group[0], &r), -EINVAL);
	unsetenv("PMX_TOPOLOGY");
	team_barriers(0);
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < members; n++)
		assert_int_equal(parts[0][n].ended, 0);
	unsetenv("PMX_COLL_GENERATORS");
}

/* A file with that text, by which plans are made at a member, or not. */
static int
with_plan(unsigned n, const char *text, char *error, uint32_t error_len)
{
	char path[] = "/tmp/pmx_plan_XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("PMX_COLL_PLANS", path, 1);
	const int e = pmx_coll_topology(group[n], NULL, error, error_len);

	unlink(path);
	return e;
}

/* Plans from files: what is there is done, and what cannot be here is said. */
static void
coll__plans_from_files(void **state)
{
	static const char head[] = "plan bcast chain ranks=3 root=0 bytes=1100 blocks=1\n"
				   "order 0 1 2\n";
	static const char *const wrong[][2] = {
		{"plan bcast chain ranks=2 root=0 bytes=1100 blocks=1\norder 0 1\n"
		 "rank 0 piece=1100\nrank 1 piece=1100\n",
			"a plan of 2 ranks, but the group has 3"},
		{"rank 0 piece=100000\nrank 1 piece=100000\nrank 2 piece=100000\n",
			"pieces of 100000 bytes, but frames take"},
		{"rank 0 piece=1100\nsend peer=1 from=in eager\nrank 1 piece=1100\n"
		 "receive peer=0 to=out eager\nrank 2 piece=1100\n",
			"step 0 sends more than 1024 bytes unasked"},
		{"rank 0\n", "rank 0: its numbers cannot be"},
	};
	/* what no generator makes: rank 2 is forgotten */
	static const char odd[] = "rank 0 piece=1100\ncopy from=in to=out\nsend peer=1 from=in\n"
				  "rank 1 piece=1100\nreceive peer=0 to=out\nrank 2 piece=1100\n";
	uint8_t bytes[3][1100];
	char text[600], error[300] = "";

	(void)state;
	team_open(3);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(text, sizeof(text), "%s%s", i > 0 ? head : "", wrong[i][0]);
		if (i == 3)
			strcat(text, "rank 1\nrank 2\n");
		assert_int_equal(with_plan(0, text, error, sizeof(error)), -EINVAL);
		if (strstr(error, wrong[i][1]) == NULL)
			fail_msg("'%s', not '%s'", error, wrong[i][1]);
	}
	setenv("PMX_COLL_PLANS", "/nowhere/at/all", 1);
	assert_int_equal(pmx_coll_topology(group[0], NULL, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "/nowhere/at/all: No such file"));
	snprintf(text, sizeof(text), "%s%s", head, odd);
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(with_plan(n, text, error, sizeof(error)), 0);
		memset(bytes[n], (int)(n + 1), sizeof(bytes[n]));
		parts[0][n] = (struct share){.ended = 1};
		assert_int_equal(pmx_bcast(group[n], 0, bytes[n], 1100, &parts[0][n].request), 0);
	}
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(parts[0][n].ended, 0);
		assert_int_equal(bytes[n][1099] == 1, n < 2);
	}
	/* other lengths are planned as ever */
	for (unsigned n = 0; n < 3; n++) {
		parts[0][n] = (struct share){.ended = 1};
		assert_int_equal(pmx_bcast(group[n], 0, bytes[n], 1099, &parts[0][n].request), 0);
	}
	UNTIL(team_all_ended(0));
	for (unsigned n = 0; n < 3; n++)
		assert_int_equal(bytes[n][1098], 1);
	unsetenv("PMX_COLL_PLANS");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(coll__survey, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__survey_ends_with_its_group, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__adapts, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_at_once,
			team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_soon, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__adapts_until_a_member_leaves_late, team_start,
			team_stop),
		cmocka_unit_test_setup_teardown(coll__environment, team_start, team_stop),
		cmocka_unit_test_setup_teardown(coll__plans_from_files, team_start, team_stop),
	};

	if (team_eal("embedded_coll_plans") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_coll_plans", tests, NULL, NULL);
}
