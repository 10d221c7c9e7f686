/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See proto_stops.h.
 */
#include "proto_cases.h"
#include "proto_stops.h"

void
freeze_and_hold(struct net *net, unsigned node, unsigned ctx)
{
	net_freeze(net, node, ctx);
	net_hold(net, node, ctx);
}

void
park(struct net *net, unsigned node, unsigned ctx)
{
	freeze_and_hold(net, node, ctx);
	assert_true(net_park(net, node, ctx));
}

bool
is_settled(const struct net *net, unsigned node, unsigned ctx)
{
	return proto_ctx_settled(net->nodes[node].p, (uint16_t)ctx);
}

uint32_t
data_frames(const struct net *net, unsigned src)
{
	return net_logged(net, src, WIRE_DATA, 0);
}

int
send_some(struct net *net, unsigned src, unsigned dst, int n, uint32_t len)
{
	int first = net_send(net, src, 0, dst, 0, len);

	for (int i = 1; i < n; i++)
		net_send(net, src, 0, dst, 0, len);
	return first;
}

void
expect_some(struct net *net, int first, int n)
{
	for (int i = 0; i < n; i++)
		net_expect_delivered(net, first + i);
}

void
expect_no_harm(const struct net *net, unsigned node)
{
	assert_int_equal(net_count(net, node, PROTO_messages_failed), 0);
	assert_int_equal(net_count(net, node, PROTO_timeouts), 0);
	assert_int_equal(net_count(net, node, PROTO_window_cuts), 0);
}

void
stop(struct net *net, unsigned node, unsigned ctx, enum stop how)
{
	net_freeze(net, node, ctx);
	if (how >= HELD)
		net_hold(net, node, ctx);
	if (how == PARKED)
		assert_true(net_park(net, node, ctx));
}

void
waits_while_frozen(bool open, enum stop how, bool at_once)
{
	struct net *net = pair();
	unsigned dst = open ? 0 : 1;

	net->at_once = at_once;
	stop(net, 0, 0, how);
	int a = net_send(net, 0, 0, 1, dst, 100), b = net_send(net, 0, 0, 1, dst, 3000);

	net_run(net, how ? LONG : 50 * NET_MS);
	int c = net_send(net, 0, 0, 1, dst, 100);

	net_run(net, 50 * NET_MS);
	assert_int_equal(data_frames(net, 0), 0);
	assert_true(is_settled(net, 0, 0));
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	net_expect_delivered(net, c);
	expect_no_harm(net, 0);
	assert_int_equal(net->left_at_once, 0);
	net_send(net, 0, 0, 1, dst, 100);
	assert_int_equal(net->left_at_once, at_once);
	net_settle(net, NET_SEC);
	finish(net);
}

static enum net_verdict
drop_data_or_all_acks(struct net *net, struct net_frame *f)
{
	if (f->type == WIRE_DATA && f->src == 0 && f->seq == net->script_left)
		return NET_DROP;
	return (net->script_left == 0 && f->src == 1) || f->type == WIRE_NACK ? NET_DROP : NET_PASS;
}

void
lost_then(enum stop how, bool open, int lost_frame, uint32_t len)
{
	struct net *net = pair();
	unsigned dst = open ? 0 : 1;

	net->script = drop_data_or_all_acks;
	int a = net_send(net, 0, 0, 1, dst, len);
	uint32_t seq = net_flow(net, 0, 0, 1, dst)->snd_una;
	int b = net_send(net, 0, 0, 1, dst, 100);

	net->script_left = lost_frame < 0 ? 0 : seq + (uint32_t)lost_frame;
	net_run(net, 20 * NET_US);
	net_freeze(net, 0, 0);
	net_run(net, 100 * NET_US);
	assert_false(is_settled(net, 0, 0));
	stop(net, 0, 0, how);
	assert_true(is_settled(net, 0, 0));
	net->script = NULL;
	net->log_count = 0;
	net_run(net, LONG);
	assert_int_equal(data_frames(net, 0), 0);
	assert_in_range(net_logged(net, 0, WIRE_ACK, WIRE_F_ASK), 150, 210); /* one per rto_max */
	assert_true(net->messages[a].completed < net->messages[a].frags);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 0);
	finish(net);
}

void
both_frozen(unsigned first, unsigned thawed_first, enum stop how, uint32_t len)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, len), b = net_send(net, 1, 0, 0, 0, len);

	net_run(net, 7 * NET_US);
	net_freeze(net, first, 0);
	net_run(net, 3 * NET_US);
	net_freeze(net, !first, 0);
	int c = net_send(net, 0, 0, 1, 0, len), d = net_send(net, 1, 0, 0, 0, len);

	net_run(net, 3 * NET_US);
	for (unsigned i = 0; i < 2; i++)
		stop(net, i, 0, how);
	net_run(net, how ? LONG : 50 * NET_MS);
	assert_true(is_settled(net, 0, 0) && is_settled(net, 1, 0));
	net_thaw(net, thawed_first, 0);
	net_run(net, how ? LONG : 50 * NET_MS);
	net_thaw(net, !thawed_first, 0);
	net_settle(net, NET_SEC);
	for (int m = a; m <= d; m++)
		net_expect_delivered(net, m);
	assert_true(a < b && b < c && c < d);
	finish(net);
}

void
moves(unsigned frozen, enum stop how)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024), b = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 7 * NET_US);
	stop(net, frozen, 0, how);
	net_move(net, frozen);
	net_run(net, how ? LONG : 50 * NET_MS);
	net_move(net, frozen);
	assert_true(is_settled(net, frozen, 0));
	net_thaw(net, frozen, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	finish(net);
}

void
new_life_of_a_peer(enum stop how)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024), b = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 7 * NET_US);
	stop(net, 0, 0, how);
	net_restart(net, 1);
	net_open(net, 1, 0, 64, 1000);
	net_run(net, LONG);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_error(net, a, ECONNRESET);
	net_expect_error(net, b, ECONNRESET);
	int c = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, c);
	finish(net);
}
