/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two embedded nodes whose loop link loses and reorders frames, with three contexts each, which are
 * the members of a group, and random collectives among them. A node moves only when it is polled.
 * For test_embedded_coll*.c: team_start() and team_stop() are the setup and the teardown of a test.
 * One thread.
 */
#ifndef PMX_TEST_EMBEDDED_TEAM_H
#define PMX_TEST_EMBEDDED_TEAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "pmx/coll.h"
#include "coll_random.h"

#define NODES      2
#define CTXS       3 /* of a node */
#define ALL        (NODES * CTXS)
#define PATIENCE_S 60
#define NUMBER     78
#define AT_ONCE    3 /* collectives */

extern struct pmx_node *nodes[NODES];
extern struct pmx_context *ctx[ALL];
extern struct pmx_group *group[ALL];
extern uint32_t members; /* of the group */

/* One collective at one member. */
struct share {
	pmx_request request;
	int ended; /* 1: it has not */
	struct pmx_status said;
	uint8_t *in, *out, *want;
	uint64_t in_bytes, out_bytes, want_from, want_bytes;
	bool shared; /* of pmx_alloc */
};

extern struct share parts[AT_ONCE][ALL];

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE_S;                                             \
		while (!(condition)) {                                                             \
			assert_true(time(NULL) < end_);                                            \
			team_poll();                                                               \
		}                                                                                  \
	} while (0)

/* Starts the EAL; negative: it does not. */
int team_eal(const char *program);
int team_start(void **state);
int team_stop(void **state);
/* Polls the nodes, and tests the requests of all parts. */
void team_poll(void);
/* The address of a member. */
struct pmx_addr team_addr(unsigned n);
/* Opens a group of the first so many contexts, and returns when all have. */
void team_open(uint32_t count);
/* So many collectives, several at once, which each member begins in the order of their numbers, but
 * at any time. */
void team_random_calls(unsigned calls);
/* All members from that one on begin a barrier, whose parts are those of number 0. */
void team_barriers(unsigned from);
/* Return whether the parts of number 0 of all members from that one on have ended. */
bool team_all_ended(unsigned from);

#endif
