/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of test_script have in common: the two nodes of a step, and turns of them. A step
 * starts them, lets its applications act, and ends with script_judge(); see test_script.c. The
 * steps are in script_messages.c, script_matched.c and script_memory.c. One thread.
 */
#ifndef PMX_TEST_SCRIPT_STEPS_H
#define PMX_TEST_SCRIPT_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/client.h"
#include "pmx/pmx.h"
#include "script_record.h"

#define NODES    2
#define CONTEXTS 2
#define REGION   (1u << 18)
#define LONG     50000u
#define PATIENCE 2000000 /* polls */

extern struct pmx_node *nodes[NODES];
extern struct pmx_context *ctx[NODES][CONTEXTS];
extern unsigned lose_every; /* every so many'th frame is lost, 0: none */
extern uint8_t bytes_out[REGION], bytes_in[REGION];

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		unsigned polls_ = 0;                                                               \
		while (!(condition)) {                                                             \
			assert_true(++polls_ < PATIENCE);                                          \
			script_turn();                                                             \
		}                                                                                  \
	} while (0)

/* matching: client or engine. more: lines of the section of limits, and whatever follows. */
void script_start(const char *step, const char *matching, const char *more);
void script_open_context(unsigned node, uint16_t context);
/* Each node is polled once; how much it did. */
unsigned script_turn(void);
void script_turns(unsigned n);
/* Turns until nothing is under way. */
void script_settle(void);
/* The step's lines are written, or are those that were. */
void script_judge(const char *step);
void bytes_fill(uint8_t *p, uint32_t len, unsigned salt);

/* script_messages.c */
void plain__short_and_bulk(void **state);
void plain__chains(void **state);
void plain__bursts_both_ways(void **state);
void full__entries(void **state);
void full__entries_of_own_node(void **state);
void full__buffers(void **state);
void full__chains(void **state);
void lost__every_fifth_frame(void **state);
void closed__a_message_to_it_ends(void **state);
void reopened__its_peers_go_on(void **state);

/* script_matched.c */
void matched__both_orders_client(void **state);
void matched__both_orders_engine(void **state);
void matched__verbs_client(void **state);
void matched__verbs_engine(void **state);
void matched__full_client(void **state);
void matched__full_engine(void **state);
void matched__reopened_client(void **state);
void matched__reopened_engine(void **state);
void matched__reopened_with_a_short_memory(void **state);

/* script_memory.c */
void transfers__lengths(void **state);
void transfers__lengths_on_own_node(void **state);
void transfers__parts(void **state);
void transfers__order_and_events(void **state);
void transfers__regions_that_end(void **state);
void transfers__lost_frames(void **state);
void pins__count_and_end(void **state);

#endif
