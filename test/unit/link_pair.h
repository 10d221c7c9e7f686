/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two links, the ends a and b, for test_link*.c, and numbered frames whose bytes are known, from a
 * to b. One thread plays both engines. Each test ends with both pools as full as they were at its
 * start, so a lost or doubly freed mbuf fails it.
 */
#ifndef PMX_TEST_LINK_PAIR_H
#define PMX_TEST_LINK_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "link.h"

#define MBUFS 1023
#define MTU   1500
#define BURST 32
#define LEN   100 /* of a test frame: its number, then bytes made from it */
#define IP    0x7f000001u

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, link_pair_setup, link_pair_teardown)

extern struct rte_mempool *pool_a, *pool_b;
extern struct link a, b;

/* Starts the EAL and makes the pools; 0: done, otherwise it says why not. */
int link_pair_begin(const char *program);
void link_pair_end(void);
int link_pair_setup(void **state);
int link_pair_teardown(void **state);
struct link_config loop_config(const char *name, const char *fault);
/* a with faults, b without. */
void link_pair_open_loop(const char *fault, uint32_t descriptors);
struct link_config udp_config(uint32_t queues);
/* Return the address at which an open link listens: its text has the port that the kernel chose. */
struct link_addr link_addr_of(const struct link *l);
uint16_t link_port_of(const struct link *l);
struct link_stats link_stats_of(struct link *l);
struct rte_mbuf *frame_make(uint32_t number, uint16_t len);
/* Bits in which a frame differs from what frame_make(number, its length) made. */
int frame_wrong_bits(const struct rte_mbuf *m, uint32_t number);
uint32_t frame_number(const struct rte_mbuf *m);
/* Send frames first..first + n - 1 from a to node `to`; returns how many were taken. */
uint16_t frames_transmit(uint32_t first, uint16_t n, uint16_t len, uint16_t to);
/* Receive at b, poll by poll, until n frames came or a second passed. */
uint16_t frames_receive(struct rte_mbuf **bufs, uint16_t n);
/* Expect frames first..first + n - 1 at b, in order and whole, in mbufs of b's pool. */
void frames_expect(uint32_t first, uint16_t n, uint16_t len);

#endif
