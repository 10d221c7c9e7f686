/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a client promises while its primaries end and follow each other. A case starts primaries,
 * stops, kills and replaces them at the moment that it is about, and looks at what every call says
 * before, between and after; lives.sh runs all of them.
 *
 *   lives CASE BUILD_DIR DIR INSTANCE PORT exit code 0: it holds; otherwise it says what does not
 *   lives list prints "CASE plain" or "CASE huge" (needs hugepages), a line each
 *
 * The primaries' output is appended to DIR/INSTANCE.log. All that a case starts ends with it,
 * however it ends.
 */
#include "lives.h"

static const struct {
	const char *name;
	void (*run)(void);
	bool huge;
} cases[] = {
/* clang-format off */
#define CASE(name, huge) {#name, name, huge}
	/* clang-format on */
	CASE(unread_messages_come_once, false),
	CASE(unread_matched_messages_come_once, false),
	CASE(all_calls_tell_and_begin_nothing, false),
	CASE(failed_offer_takes_no_request, false),
	CASE(one_context_is_told_first, false),
	CASE(late_answers_are_nobodys, false),
	CASE(threads_ask_at_once, false),
	CASE(full_queues_do_not_hold_waits, false),
	CASE(status_words_are_set, false),
	CASE(frames_may_be_of_another_size, false),
	CASE(stops_under_a_secondary_that_sleeps, true),
	CASE(stops_under_a_secondary_that_polls, true),
	CASE(refused_take_over_changes_nothing, true),
	CASE(refused_after_a_take_over_changes_nothing, true),
	CASE(waiting_messages_are_not_lost, false),
	CASE(clients_die_in_a_take_over, false),
	CASE(primaries_that_sleep_follow_each_other, false),
	CASE(several_lanes_are_not_taken_over, false),
	CASE(heirs_that_do_not_wait_get_nothing, false),
	CASE(regions_and_room_stay_what_they_are, false),
	CASE(groups_go_on, false),
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < CASES; i++)
			printf("%s %s\n", cases[i].name, cases[i].huge ? "huge" : "plain");
		return 0;
	}
	for (size_t i = 0; argc == 6 && i < CASES; i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		build = argv[2];
		dir = argv[3];
		instance = argv[4];
		port = atoi(argv[5]);
		huge = cases[i].huge;
		snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", dir, instance);
		signal(SIGALRM, on_alarm);
		signal(SIGPIPE, SIG_IGN);
		alarm(CASE_S);
		atexit(clean_up);
		configure(&usual);
		cases[i].run();
		return 0;
	}
	fputs("Usage: see the head of lives.c\n", stderr);
	return 2;
}
