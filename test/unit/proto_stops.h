/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of contexts that are frozen, held and parked have in common: short names for what
 * they do and expect, and cases that are told how far the context is stopped.
 */
#ifndef PMX_TEST_PROTO_STOPS_H
#define PMX_TEST_PROTO_STOPS_H

#include "proto_pair.h"

/* Longer than ten times all retries, a receiver's patience, and flow_idle: net_config(). */
#define LONG (10 * NET_SEC)

/* The ways in which a context is stopped, each of which goes further than the one before it. */
enum stop { FROZEN, HELD, PARKED };

void freeze_and_hold(struct net *net, unsigned node, unsigned ctx);
/* Freeze, hold and park. */
void park(struct net *net, unsigned node, unsigned ctx);
void stop(struct net *net, unsigned node, unsigned ctx, enum stop how);
bool is_settled(const struct net *net, unsigned node, unsigned ctx);
/* Data frames in the log of this source. */
uint32_t data_frames(const struct net *net, unsigned src);
/* Sends n messages; the number of the first, the others follow. */
int send_some(struct net *net, unsigned src, unsigned dst, int n, uint32_t len);
void expect_some(struct net *net, int first, int n);
/* Nobody gave up, and no window was cut. */
void expect_no_harm(const struct net *net, unsigned node);

/* A stopped context sends nothing until it goes on. open: whether the flow was open before;
 * at_once: whether each message tries to leave at once. */
void waits_while_frozen(bool open, enum stop how, bool at_once);
/* Frames are lost, or all Acks are (lost_frame < 0), the sender is stopped for long, and goes on.
 * open: whether the flow was open before. */
void lost_then(enum stop how, bool open, int lost_frame, uint32_t len);
/* Two contexts that send to each other are stopped, `first` before the other, and go on. */
void both_frozen(unsigned first, unsigned thawed_first, enum stop how, uint32_t len);
/* Another process takes over the node of a stopped context: 0, which sends, or 1. */
void moves(unsigned frozen, enum stop how);
/* The peer of a stopped context has begun a new life meanwhile. */
void new_life_of_a_peer(enum stop how);

#endif
