/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lives of primaries: what the files of the test have in common. A case is one process, and starts
 * what it needs; see lives.c.
 */
#ifndef PMX_TEST_LIVES_H
#define PMX_TEST_LIVES_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "clock.h"
#include "pmx/group.h"

#define PATIENCE_US  30000000 /* for what must come; generous, for slow machines */
#define NOTICE_S     20.0     /* until a call tells that its primary is gone; 0.1 is promised */
#define WAIT_US      80000000 /* of a wait that must end before, since its primary is gone */
#define CASE_S       120      /* a case that takes longer hangs */
#define MESSAGE_MAX  4000
#define PIECE        65536u
#define LONG         200000u /* a matched message that waits for its receive */
#define SEND_BUFFERS 64
#define UNEXPECTED   8

/* The settings of the configuration that differ between cases. */
struct settings {
	unsigned mtu, rto_max_us, retries;
	const char *idle;         /* NULL: adaptive */
	unsigned lanes, requests; /* 0: 1; 512 */
};

/* A process of the case, and a descriptor of lines to and from it. */
struct child {
	pid_t pid;
	int fd;
};

extern const struct settings usual;
extern const char *build, *dir, *instance;
extern int port;
extern bool huge;
extern unsigned lanes;
extern char socket_path[200];
extern pid_t primary;
extern struct pmx_node *node;
extern volatile sig_atomic_t at_line;

#define MUST(holds, ...)                                                                           \
	do {                                                                                       \
		at_line = __LINE__;                                                                \
		if (!(holds))                                                                      \
			wrong(__FILE_NAME__, __LINE__, __VA_ARGS__);                               \
	} while (0)

/* The call gives that number. */
#define GIVES(wanted, call)                                                                        \
	do {                                                                                       \
		at_line = __LINE__;                                                                \
		const int given_ = (call), wanted_ = (wanted);                                     \
		if (given_ != wanted_)                                                             \
			wrong(__FILE_NAME__, __LINE__, "%s gives %d (%s), not %d", #call, given_,  \
				given_ < 0 ? strerror(-given_) : "", wanted_);                     \
	} while (0)

#define EPIPES(call) GIVES(-EPIPE, call)

void wrong(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
void on_alarm(int number);
void configure(const struct settings *s);
pid_t spawn(bool take_over, int *ready);
int until_ready(int ready);
void begin(void);
int ended(pid_t pid);
void end(int signal_number);
bool takes_over(void);
void clean_up(void);
void say(int fd, const char *line);
void hear(int fd, const char *line);
struct child child(void (*what)(int fd, unsigned number), unsigned number);
void ended_well(struct child *c);
void attach(const char *way);
struct pmx_context *opened(unsigned number);
struct pmx_addr own(unsigned number);
void until_gone(struct pmx_context *ctx);
void kill_it(struct pmx_context *ctx);
void reattach(void);
uint32_t length_of(uint32_t number);
void fill(uint8_t *bytes, uint32_t number);
void send_number(struct pmx_context *ctx, unsigned to, uint32_t number);
void is_number(struct pmx_context *ctx, const struct pmx_message *m, uint32_t number);
void take_number(struct pmx_context *ctx, uint32_t number);
void nothing_comes(struct pmx_context *ctx, int wanted);
void pull(struct pmx_context *ctx, struct pmx_remote from, void *to);
void all_are(const uint8_t *bytes, uint64_t len, uint8_t value);
void all_works(struct pmx_context *a, unsigned na, struct pmx_context *b, unsigned nb);
void echo(struct pmx_context *ctx, unsigned number);

/* cases */
void unread_messages_come_once(void);
void unread_matched_messages_come_once(void);
void all_calls_tell_and_begin_nothing(void);
void failed_offer_takes_no_request(void);
void one_context_is_told_first(void);
void late_answers_are_nobodys(void);
void threads_ask_at_once(void);
void full_queues_do_not_hold_waits(void);
void status_words_are_set(void);
void frames_may_be_of_another_size(void);
void stops_under_a_secondary_that_sleeps(void);
void stops_under_a_secondary_that_polls(void);
void refused_take_over_changes_nothing(void);
void refused_after_a_take_over_changes_nothing(void);
void waiting_messages_are_not_lost(void);
void clients_die_in_a_take_over(void);
void primaries_that_sleep_follow_each_other(void);
void several_lanes_are_not_taken_over(void);
void heirs_that_do_not_wait_get_nothing(void);
void regions_and_room_stay_what_they_are(void);
void groups_go_on(void);

#endif
