/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of the PM core have in common: a pair of nodes, and scripts for its network.
 */
#ifndef PMX_TEST_PROTO_CASES_H
#define PMX_TEST_PROTO_CASES_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto_pair.h"

/* Two nodes whose flow 0.0 -> 1.0 is open. */
static inline struct net *
pair_of(const struct proto_config *c)
{
	struct net *net = net_new(2, c, 1);

	net_open_all(net, 64, 1000);
	int first = net_send(net, 0, 0, 1, 0, 10);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, first);
	net->log_count = 0;
	return net;
}

static inline struct net *
pair(void)
{
	struct proto_config c = net_config();

	return pair_of(&c);
}

static inline void
finish(struct net *net)
{
	net_check_clean(net);
	net_free(net);
}

/* --- scripts: net->script_left says how often --- */

static inline enum net_verdict
drop_data(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_DATA && f->src == 0 && net->script_left && net->script_left--
		? NET_DROP
		: NET_PASS;
}

static inline enum net_verdict
drop_all(struct net *net, struct net_frame *f)
{
	(void)net, (void)f;
	return NET_DROP;
}

static inline enum net_verdict
drop_acks(struct net *net, struct net_frame *f)
{
	return (f->type == WIRE_ACK || f->type == WIRE_NACK) && net->script_left &&
			net->script_left--
		? NET_DROP
		: NET_PASS;
}

static inline enum net_verdict
drop_hellos(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_HELLO && net->script_left && net->script_left-- ? NET_DROP
									       : NET_PASS;
}

static inline enum net_verdict
dup_all(struct net *net, struct net_frame *f)
{
	(void)net, (void)f;
	return NET_DUP;
}

/* Lose the first transmission of sequence script_left. */
static inline enum net_verdict
drop_seq_once(struct net *net, struct net_frame *f)
{
	if (f->type != WIRE_DATA || f->src != 0 || f->seq != net->script_left)
		return NET_PASS;
	net->script_left = 0;
	return NET_DROP;
}

#endif
