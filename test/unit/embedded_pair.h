/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two embedded nodes in one process, joined by the loop link, for test_embedded*.c. A node moves
 * only when it is polled, so what cannot have happened yet is known. The link counts the frames of
 * remote memory that each node gave to it, and can be as a port that loses frames and gives mbufs
 * back late. A test starts the nodes with pair_start(), and its teardown is pair_stop(), which
 * fails if a lane still has something to do or an mbuf is missing. One thread.
 */
#ifndef PMX_TEST_EMBEDDED_PAIR_H
#define PMX_TEST_EMBEDDED_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../system/clock.h"
#include "client/client.h"
#include "engine/lane.h"
#include "node/node.h"
#include "pmx/pmx.h"
#include "core/wire/wire.h"

#define NODES       2
#define CONTEXTS    2
#define PATIENCE_US 20000000

/* With these lines in a configuration, who does not answer is given up after 10 ms, not 4 s. */
#define GIVES_UP_SOON "[proto]\nrto_min_us = 200\nrto_max_us = 5000\nretries = 6"

extern struct pmx_node *nodes[NODES];
extern struct pmx_context *ctx[NODES][CONTEXTS];
extern unsigned pair_contexts;  /* limits.contexts of both nodes; CONTEXTS again after the test */
extern const char *only_second; /* of node 1's configuration */
/* The link of both nodes holds what it sent for a while, and loses every so many'th frame; 0: it
 * does neither. */
extern unsigned keep_and_lose;
/* Frames of remote memory that a node gave to its link. */
extern unsigned sent_ops[NODES][WIRE_TRANSFER_OPS];

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		int64_t end_ = now_us() + PATIENCE_US;                                             \
		while (!(condition)) {                                                             \
			assert_true(now_us() < end_);                                              \
			pair_poll();                                                               \
		}                                                                                  \
	} while (0)

/* Starts the EAL; negative: it does not. */
int pair_eal(const char *program);
/* matching: client or engine. limits: lines of the section of that name, and whatever follows. */
void pair_start(const char *matching, const char *limits);
int pair_stop(void **state);
void pair_poll(void);
/* Once all is done a lane has nothing to look at, turn after turn. */
bool pair_is_quiet(void);
/* The next message at context 0 of node 1. */
void pair_take(struct pmx_message *msg);
void bytes_fill(uint8_t *p, uint32_t len, unsigned salt);

#endif
