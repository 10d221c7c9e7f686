/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the test of remote memory between processes have in common; see remote.c.
 */
#ifndef PMX_TEST_REMOTE_H
#define PMX_TEST_REMOTE_H

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define WORD_MAX   256 /* what a process says, or is told */
#define OPEN_S     10  /* a context number is free again */
#define TRANSFER_S 30  /* a transfer ends */
#define WORK_S     60  /* an application does what it was told */
#define CONTEXT    1   /* of the application on either node, but for the lanes */

#define GUARD     (64ull << 10)
#define LONG      (64ull << 20) /* of one long transfer */
#define SMALL     (8ull << 20)  /* for transfers of all sizes */
#define WRITE_AT  GUARD
#define READ_AT   (WRITE_AT + LONG + GUARD)
#define SMALL_AT  (READ_AT + LONG + GUARD)
#define MEMORY    (SMALL_AT + SMALL + GUARD)
#define LONG_SALT 1000000

enum where { BY_ENGINE, BY_KERNEL, PLACES }; /* pmx_alloc, malloc */

struct hello {
	uint32_t pid; /* of whose memory it is */
	struct pmx_remote remote[PLACES];
};

#define SIZES 15 /* of transfers */
extern const uint64_t sizes[SIZES];

#define MANY      48u
#define MANY_STEP 30000u

enum phase { PING = 1, UNORDERED, FLOOD, ORDERED_SHORT, ORDERED, PHASES };

enum pairs { OTHER_NODE, SAME_LANE, OTHER_LANE, ANY, PAIRS };

extern const char *const pairs_name[PAIRS];

extern struct pmx_node *node;
extern struct pmx_context *ctx;
extern int control;
extern uint8_t *memory[PLACES], *local[PLACES];
extern struct pmx_remote mine[PLACES], theirs[PLACES];
extern const char *const where_name[PLACES];
extern const char *instances[2];
extern unsigned rounds;
extern bool told;

void fill(uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at);
int64_t differs(const uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at);
int64_t differs_from_all(const uint8_t *p, uint64_t len, unsigned where, uint64_t from, uint64_t to,
	uint64_t at);
bool word_waits(void);
void next_word(char *word);
void expect_word(const char *wanted);
void attach(unsigned number);
struct pmx_context *open_context(uint16_t number);
unsigned access_to(unsigned where);
void get_pages(struct pmx_context *c, uint8_t **pages, uint64_t len);
void get_memory(uint64_t len);
int wait_for(struct pmx_context *c, pmx_transfer_id id);
int issue(struct pmx_context *c, bool pull, const struct pmx_transfer *t, pmx_transfer_id *id);
int transfer(bool pull, const struct pmx_transfer *t);
uint64_t slice_at(unsigned k);
void all_sizes(uint64_t salt);
void answer_hellos(void);
unsigned sleep_till_told(void);
void target(bool sleeps);
void say_hello(uint32_t pid);
void many(unsigned round);
void initiator(bool unused);
void notify_target(bool unused);
void notify_initiator(bool unused);
void introduce(void);
void lanes_node_0(bool unused);
void lanes_node_1(bool unused);
struct app start(const char *what, void (*role)(bool), bool argument);
void asleep(void);
void lanes(void);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void app_fails(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void leave(void) __attribute__((noreturn));

#endif
