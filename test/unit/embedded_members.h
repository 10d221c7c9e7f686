/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two embedded nodes whose loop link loses frames, with three contexts each, which are the members
 * of a group, for test_embedded_group*.c: members_start() and members_stop() are the setup and the
 * teardown of a test. A node moves only when it is polled. One thread.
 */
#ifndef PMX_TEST_EMBEDDED_MEMBERS_H
#define PMX_TEST_EMBEDDED_MEMBERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "client/client.h"
#include "pmx/group.h"
#include "pmx/pmx.h"

#define NODES      2
#define CTXS       3 /* of a node */
#define ALL        (NODES * CTXS)
#define PATIENCE_S 60
#define NUMBER     77
#define AREA_BYTES 20000

extern struct pmx_node *nodes[NODES];
extern struct pmx_context *ctx[ALL];
extern struct pmx_group *group[ALL];
/* of each context: its last request, how it ended (1: it has not), and what it said */
extern pmx_request request[ALL];
extern int ended[ALL];
extern struct pmx_status said[ALL];
extern struct pmx_event event[ALL];
extern unsigned events[ALL]; /* so many came */
extern unsigned takes_none;  /* a context whose application takes no events */
extern uint8_t areas[ALL][AREA_BYTES];

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE_S;                                             \
		while (!(condition)) {                                                             \
			assert_true(time(NULL) < end_);                                            \
			poll_all();                                                                \
		}                                                                                  \
	} while (0)

/* Starts the EAL; negative: it does not. */
int members_eal(const char *program);
int members_start(void **state);
int members_stop(void **state);
/* Polls the nodes, takes an event of each context, and tests its request. */
void poll_all(void);
/* Polls so a thousand times. */
void poll_some(void);
/* The address of a member, and whether an address is that. */
struct pmx_addr member(unsigned n);
bool is_member(struct pmx_addr a, unsigned n);
/* A context opens the group of the first so many contexts; what pmx_group_open said. */
int opens(unsigned n, uint32_t count, int64_t timeout_us);
/* The first so many contexts open their group, and it is open for all. */
void all_open(uint32_t count);
/* A member enters a barrier; asks for a lock; closes the group. */
void enters(unsigned n);
void asks(unsigned n, uint32_t lock, unsigned flags);
void closes(unsigned n);
/* Pushes to an area, and returns how that ended. */
int pushes(unsigned n, unsigned to, uint64_t key);
/* Makes a set of ranks for multicasts of that member. */
struct pmx_group_set *set_of(unsigned n, uint32_t count, const uint32_t *ranks);
/* Fills AREA_BYTES with bytes that the salt changes. */
void fill(uint8_t *bytes, unsigned salt);

#endif
