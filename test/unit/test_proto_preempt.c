/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: contexts that are frozen, held, parked and go on (PM-PREEMPT). One behaviour a test.
 * Virtual time, scripted network: see proto_pair.h, whose harness judges every handle and message,
 * and what a frozen context does.
 */
#include "proto_cases.h"

/* Longer than ten times all retries, a receiver's patience, and flow_idle: net_config(). */
#define LONG (10 * NET_SEC)

static void
freeze_and_hold(struct net *net, unsigned node, unsigned ctx)
{
	net_freeze(net, node, ctx);
	net_hold(net, node, ctx);
}

static void
park(struct net *net, unsigned node, unsigned ctx)
{
	freeze_and_hold(net, node, ctx);
	assert_true(net_park(net, node, ctx));
}

static bool
is_settled(const struct net *net, unsigned node, unsigned ctx)
{
	return proto_ctx_settled(net->nodes[node].p, (uint16_t)ctx);
}

static uint32_t
data_frames(const struct net *net, unsigned src)
{
	return net_logged(net, src, WIRE_DATA, 0);
}

/* Sends n messages; the number of the first, the others follow. */
static int
send_some(struct net *net, unsigned src, unsigned dst, int n, uint32_t len)
{
	int first = net_send(net, src, 0, dst, 0, len);

	for (int i = 1; i < n; i++)
		net_send(net, src, 0, dst, 0, len);
	return first;
}

static void
expect_some(struct net *net, int first, int n)
{
	for (int i = 0; i < n; i++)
		net_expect_delivered(net, first + i);
}

/* Nobody gave up, and no window was cut. */
static void
expect_no_harm(const struct net *net, unsigned node)
{
	assert_int_equal(net_count(net, node, PROTO_messages_failed), 0);
	assert_int_equal(net_count(net, node, PROTO_timeouts), 0);
	assert_int_equal(net_count(net, node, PROTO_window_cuts), 0);
}

/* --- a sender is frozen --- */

static void
pm_preempt__what_is_in_flight_is_acked_and_nothing_begins(void **state)
{
	struct net *net = pair();
	const int n = 400;
	int first = send_some(net, 0, 1, n, 1000);

	(void)state;
	net_run(net, NET_US);
	net_freeze(net, 0, 0);
	uint32_t begun = data_frames(net, 0);

	assert_in_range(begun, 1, n - 1);
	assert_false(is_settled(net, 0, 0));
	net_run(net, 100 * NET_MS);
	assert_true(is_settled(net, 0, 0));
	assert_int_equal(data_frames(net, 0), begun);
	assert_int_equal(net->nodes[0].tx_out, n - (int)begun);
	expect_some(net, first, (int)begun);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, n);
	expect_no_harm(net, 0);
	finish(net);
}

/* From half of flow_idle on the sender opens a flow anew, even a watched one. */
static void
pm_preempt__a_flow_is_watched_after_a_silence(void **state)
{
	struct net *net = pair();
	struct proto *p = net->nodes[0].p;
	int a = net_send(net, 0, 0, 1, 0, 100);

	(void)state;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_run(net, net->nodes[0].cfg.flow_idle_us * 3ull / 4 * NET_US);
	const uint32_t life = proto_flow_watch(p, 0, 1, 0, net_ticks(net, 0));

	a = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	assert_int_equal(proto_flow_life(p, 0, 1, 0), life);
	proto_flow_unwatch(p, 0, 1, 0);
	finish(net);
}

static void
pm_preempt__a_watched_flow_is_kept(void **state)
{
	for (int parks = 0; parks < 2; parks++) {
		struct net *net = pair();
		int a = net_send(net, 0, 0, 1, 0, 100);

		(void)state;
		net_settle(net, NET_SEC);
		net_expect_delivered(net, a);
		struct proto *p = net->nodes[0].p;
		const uint32_t life = proto_flow_watch(p, 0, 1, 0, net_ticks(net, 0));

		freeze_and_hold(net, 0, 0);
		if (parks)
			net_park(net, 0, 0);
		net_run(net, LONG);
		net_thaw(net, 0, 0);
		a = net_send(net, 0, 0, 1, 0, 100);
		net_settle(net, NET_SEC);
		net_expect_delivered(net, a);
		assert_int_equal(proto_flow_life(p, 0, 1, 0), life);
		proto_flow_unwatch(p, 0, 1, 0);
		finish(net);
	}
}

static void
pm_preempt__what_is_lost_in_flight_is_sent_again(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net->script_left = 3; /* the probe as well */
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_US);
	net_freeze(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_true(is_settled(net, 0, 0));
	net_thaw(net, 0, 0);
	finish(net);
}

static void
pm_preempt__unanswered_frames_end_no_frozen_flow(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_all;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_US);
	net_freeze(net, 0, 0);
	net_run(net, 1500 * NET_MS); /* longer than all retries */
	assert_int_equal(net->nodes[0].tx_out, 1);
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->retries, 0);
	assert_false(is_settled(net, 0, 0));
	net->script = NULL;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* The ways in which a context is stopped, each of which goes further than the one before it. */
enum stop { FROZEN, HELD, PARKED };

static void
stop(struct net *net, unsigned node, unsigned ctx, enum stop how)
{
	net_freeze(net, node, ctx);
	if (how >= HELD)
		net_hold(net, node, ctx);
	if (how == PARKED)
		assert_true(net_park(net, node, ctx));
}

static void
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

static void
pm_preempt__what_is_sent_while_frozen_waits(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		waits_while_frozen(i & 1, i & 2 ? HELD : FROZEN, i & 4);
}

static void
pm_preempt__the_rest_of_a_message_goes_on_the_next_does_not(void **state)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 300 * 1024), b = net_send(net, 0, 0, 1, 0, 300 * 1024);

	(void)state;
	net_run(net, NET_US);
	net_freeze(net, 0, 0);
	assert_in_range(data_frames(net, 0), 1, 299);
	net_run(net, 100 * NET_MS);
	net_expect_delivered(net, a);
	assert_true(is_settled(net, 0, 0));
	assert_int_equal(data_frames(net, 0), 300);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__hello_is_not_answered_yet(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	for (int held = 0; held < 2; held++) {
		struct net *net = net_new(2, &c, 1);

		net_open_all(net, 64, 1000);
		net->script = drop_hellos;
		net->script_left = 2;
		int m = net_send(net, 0, 0, 1, 0, 3000);

		net_run(net, NET_US);
		assert_int_equal(net_path(net, 0, 1)->state, PATH_NEW);
		net_freeze(net, 0, 0);
		if (held)
			net_hold(net, 0, 0);
		assert_true(is_settled(net, 0, 0));
		net_run(net, held ? LONG : NET_SEC);
		assert_int_equal(net_path(net, 0, 1)->state, PATH_OPEN);
		assert_int_equal(data_frames(net, 0), 0);
		net_thaw(net, 0, 0);
		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
		finish(net);
	}
}

/* --- a receiver is frozen --- */

static void
pm_preempt__a_frozen_receiver_refuses_and_takes_in_order_later(void **state)
{
	struct net *net = pair();
	uint64_t questions;

	(void)state;
	freeze_and_hold(net, 1, 0);
	int first = send_some(net, 0, 1, 20, 100), large = net_send(net, 0, 0, 1, 0, 5000);

	net_run(net, LONG);
	questions = net_count(net, 0, PROTO_room_questions);
	assert_in_range(questions, 10, 400); /* one per rto_max, and a few before */
	net_run(net, LONG);
	assert_true(net_count(net, 0, PROTO_room_questions) > questions + 10);
	expect_no_harm(net, 0);
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->retries, 0);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 1);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 20);
	net_expect_delivered(net, large);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	finish(net);
}

/* If some of them counted as kept or in flight, they would leave a hole, for which the window is
 * cut. */
static void
pm_preempt__what_was_refused_comes_again_without_a_hole(void **state)
{
	const int counts[] = {2, 5, 20, 60};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		struct net *net = pair();
		const int n = counts[i / 2];

		freeze_and_hold(net, 1, 0);
		int first = send_some(net, 0, 1, n, 1000);

		net_run(net, i & 1 ? 15 * NET_US : LONG); /* with and without a question before */
		net_thaw(net, 1, 0);
		net_settle(net, NET_SEC);
		expect_some(net, first, n);
		expect_no_harm(net, 0);
		finish(net);
	}
}

static void
pm_preempt__a_frozen_receiver_refuses_an_opening_frame(void **state)
{
	struct net *net = pair();

	(void)state;
	net_freeze(net, 1, 1);
	int first = net_send(net, 0, 0, 1, 1, 100), other = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, LONG);
	assert_int_equal(net->nodes[0].tx_out, 1);
	net_expect_delivered(net, other); /* the neighbour */
	net_thaw(net, 1, 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, first);
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__the_rest_of_a_half_received_message_is_taken(void **state)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 300 * 1024), b = net_send(net, 0, 0, 1, 0, 100);

	(void)state;
	net_run(net, 7 * NET_US);
	assert_in_range(net_flow(net, 1, 0, 0, 0)->frags_left, 1, 299);
	net_freeze(net, 1, 0);
	net_run(net, 100 * NET_MS);
	net_expect_delivered(net, a);
	assert_int_equal(net->nodes[0].tx_out, 1);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__room_given_back_while_frozen_is_told_later(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 2, 2);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, 4, 1000);

	net_run(net, 10 * NET_MS);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 2);
	net_freeze(net, 1, 0);
	net_give_room(net, 1, 0);
	net_run(net, NET_SEC);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 2);
	net_thaw(net, 1, 0);
	net->nodes[1].apps[0].paused = false;
	net_settle(net, NET_SEC);
	expect_some(net, first, 4);
	finish(net);
}

/* Room was set aside for a message, then the context froze. */
static void
pm_preempt__a_grant_is_kept_by_a_frozen_receiver(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 1, 8);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, 2, 1000);

	net_run(net, 100 * NET_MS);
	net->script = drop_acks;
	net->script_left = 1; /* the news of the grant */
	net->nodes[1].apps[0].paused = false;
	net_run(net, 1);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_GRANTED);
	net_freeze(net, 1, 0);
	net->log_count = 0;
	net_run(net, NET_SEC);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_GRANTED);
	assert_in_range(data_frames(net, 0), 1, 60); /* asks as rarely as others */
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 2);
	finish(net);
}

static void
pm_preempt__local_senders_get_no_room(void **state)
{
	struct net *net = pair();
	struct proto *p = net->nodes[1].p;
	uint64_t now = net_ticks(net, 1);

	(void)state;
	net_freeze(net, 1, 0);
	assert_false(proto_ctx_take(p, 0, 1, 1, false));
	assert_false(proto_ctx_take(p, 0, 1, 1, true));
	net_hold(net, 1, 0);
	assert_false(proto_ctx_take(p, 0, 1, 1, true));
	assert_true(proto_ctx_take(p, 1, 1, 1, false)); /* another context */
	proto_ctx_room(p, 1, 1, 1, now);
	net_thaw(net, 1, 0);
	assert_true(proto_ctx_take(p, 0, 64, 1000, false));
	net_freeze(net, 1, 0);
	proto_ctx_room(p, 0, 64, 1000, now);
	assert_false(proto_ctx_take(p, 0, 1, 0, true));
	net_thaw(net, 1, 0);
	assert_true(proto_ctx_take(p, 0, 64, 1000, false));
	proto_ctx_room(p, 0, 64, 1000, now);
	net_settle(net, NET_SEC);
	finish(net);
}

/* --- a sender is held --- */

static enum net_verdict
drop_data_or_all_acks(struct net *net, struct net_frame *f)
{
	if (f->type == WIRE_DATA && f->src == 0 && f->seq == net->script_left)
		return NET_DROP;
	return (net->script_left == 0 && f->src == 1) || f->type == WIRE_NACK ? NET_DROP : NET_PASS;
}

/* Frames are lost, or all Acks are (lost_frame < 0), the sender is held for long, and goes on.
 * open: whether the flow was open before. */
static void
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

static void
lost_then_held(bool open, int lost_frame, uint32_t len)
{
	lost_then(HELD, open, lost_frame, len);
}

static void
pm_preempt__a_lost_opening_frame_then_held(void **state)
{
	(void)state;
	lost_then_held(false, 0, 100);
	lost_then_held(false, 0, 20 * 1024);
}

static void
pm_preempt__a_lost_later_frame_then_held(void **state)
{
	(void)state;
	lost_then_held(true, 0, 100);
}

static void
pm_preempt__held_in_the_midst_of_a_message(void **state)
{
	(void)state;
	lost_then_held(true, 0, 20 * 1024);
	lost_then_held(true, 3, 20 * 1024);
	lost_then_held(true, 19, 20 * 1024);
	lost_then_held(false, 3, 20 * 1024);
}

static void
pm_preempt__lost_acks_then_held(void **state)
{
	(void)state;
	lost_then_held(true, -1, 100);
	lost_then_held(true, -1, 20 * 1024);
	lost_then_held(false, -1, 100);
	lost_then_held(false, -1, 20 * 1024);
}

/* Its Ack comes only after it was held. */
static void
pm_preempt__acks_count_while_held(void **state)
{
	struct net *net = pair();
	int first = send_some(net, 0, 1, 3, 100);

	(void)state;
	net_run(net, NET_US);
	freeze_and_hold(net, 0, 0);
	net_settle(net, 10 * NET_MS);
	expect_some(net, first, 3);
	net_run(net, LONG);
	assert_int_equal(net_logged(net, 0, WIRE_ACK, WIRE_F_ASK), 0); /* there is nothing more */
	net_thaw(net, 0, 0);
	first = send_some(net, 0, 1, 3, 100);
	net_settle(net, 10 * NET_MS);
	expect_some(net, first, 3);
	finish(net);
}

/* A receiver that is held answers its senders as ever, and it sends Acks. */
static void
pm_preempt__a_held_context_acks(void **state)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024);

	(void)state;
	net_run(net, 7 * NET_US);
	freeze_and_hold(net, 1, 0);
	net_settle(net, 100 * NET_MS);
	net_expect_delivered(net, a);
	net_thaw(net, 1, 0);
	finish(net);
}

/* The part of a message that a stopped sender has sent keeps its room for any time, but not when
 * others want it for longer than a silent sender would keep it. */
static void
pm_preempt__half_a_message_gives_way_in_the_end(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 8, 300);
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	int a = net_send(net, 0, 0, 1, 0, 300 * 1024);

	net_run(net, 7 * NET_US);
	park(net, 0, 0);
	net_run(net, LONG);
	assert_in_range(net_flow(net, 1, 0, 0, 0)->frags_left, 1, 299);
	int b = net_send(net, 2, 0, 1, 0, 3000);

	net_run(net, 100 * NET_MS);
	assert_false(net_delivered(net, b));
	net_run(net, LONG);
	net_expect_delivered(net, b);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 1);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_error(net, a, ECONNRESET);
	finish(net);
}

/* Two senders of which one is `big`, and a receiver with one entry that is taken. */
static struct net *
two_wait(int *a, int *b)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 1, 4);
	net->nodes[1].apps[0].paused = true;
	int first = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 10 * NET_MS);
	net_expect_delivered(net, first);
	*a = net_send(net, 0, 0, 1, 0, 3000);
	net_run(net, 100 * NET_MS);
	*b = net_send(net, 2, 0, 1, 0, 100);
	net_run(net, 100 * NET_MS);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_DEMAND);
	assert_true(net_flow(net, 1, 0, 2, 0)->flags & FLOW_DEMAND);
	return net;
}

/* granted: the frozen sender was granted room before, or it is the first in the queue for it */
static void
gives_way(bool granted)
{
	int a, b;
	struct net *net = two_wait(&a, &b);

	if (granted) {
		net->script = drop_acks;
		net->script_left = 1; /* it is not told */
	} else {
		freeze_and_hold(net, 0, 0);
	}
	net->nodes[1].apps[0].paused = false;
	net_run(net, 1);
	assert_int_equal(net_flow(net, 1, 0, 0, 0)->flags & FLOW_GRANTED, FLOW_GRANTED);
	if (granted)
		freeze_and_hold(net, 0, 0);
	net_run(net, 100 * NET_MS); /* much less than the receiver's patience */
	net_expect_delivered(net, b);
	net_run(net, LONG);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	finish(net);
}

static void
pm_preempt__the_grant_of_a_held_sender_goes_to_another(void **state)
{
	(void)state;
	gives_way(true);
}

static void
pm_preempt__room_that_comes_goes_to_another_than_a_held_sender(void **state)
{
	(void)state;
	gives_way(false);
}

static void
pm_preempt__a_held_sender_leaves_the_queue_for_room(void **state)
{
	int a, b;
	struct net *net = two_wait(&a, &b);

	(void)state;
	freeze_and_hold(net, 0, 0);
	net_run(net, 100 * NET_MS);
	assert_false(net_flow(net, 1, 0, 0, 0)->flags & (FLOW_DEMAND | FLOW_BLOCKED));
	net_run(net, LONG);
	net->nodes[1].apps[0].paused = false;
	net_run(net, NET_MS);
	net_expect_delivered(net, b);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	finish(net);
}

/* The receiver had no room when its sender was frozen, and has some when that goes on. late: the
 * message is sent meanwhile. */
static void
goes_on_without_credit(bool held, bool late)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	net_open_all(net, 1, 4);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, late ? 1 : 2, 100);

	net_run(net, late ? NET_MS : 100 * NET_MS); /* so that the flow is not opened anew */
	net_freeze(net, 0, 0);
	net_run(net, NET_MS);
	assert_true(is_settled(net, 0, 0)); /* what was refused waits */
	if (held)
		net_hold(net, 0, 0);
	if (late)
		net_send(net, 0, 0, 1, 0, 100);
	net->log_count = 0;
	net_run(net, 300 * NET_MS);
	assert_int_equal(data_frames(net, 0), 0); /* it does not ask */
	net->script = drop_acks;
	net->script_left = UINT32_MAX;
	net->nodes[1].apps[0].paused = false;
	net_run(net, 100 * NET_MS);
	net->script = NULL;
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 2);
	finish(net);
}

static void
pm_preempt__a_sender_without_credit_asks_when_it_goes_on(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		goes_on_without_credit(i & 1, i & 2);
}

static void
pm_preempt__the_time_held_is_no_retry(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net->script_left = UINT32_MAX;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_US);
	freeze_and_hold(net, 0, 0);
	net_run(net, LONG);
	net_thaw(net, 0, 0);
	net->script_left = 6; /* more than the probes */
	net_settle(net, NET_SEC);
	assert_true(net_count(net, 0, PROTO_timeouts) > 0);
	net_expect_delivered(net, m);
	finish(net);
}

/* Frozen for long though nobody holds it. */
static void
pm_preempt__frozen_for_long_and_not_held(void **state)
{
	struct net *net = pair();

	(void)state;
	net_freeze(net, 0, 0);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, LONG);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* A refused message, a frozen sender that does not ask, and a patient receiver. */
static void
pm_preempt__frozen_without_credit_and_not_held(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 1, 4);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, 2, 100);

	net_run(net, 100 * NET_MS);
	net_freeze(net, 0, 0);
	net_run(net, NET_SEC);
	net->nodes[1].apps[0].paused = false;
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 2);
	finish(net);
}

/* A question for room is on its way, and lost, when its sender is frozen. It takes no window for
 * long, though the sender does not ask again. */
static void
pm_preempt__a_lost_question_leaves_the_window_to_others(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.path_frames = 1;
	struct net *net = net_new(2, &c, 1);

	net_open_all(net, 1, 4);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, 2, 100);

	net_run(net, 10 * NET_MS);
	net->script = drop_data;
	net->script_left = 1;
	for (unsigned i = 0; i < 1000 && net->script_left; i++)
		net_run(net, 100 * NET_US);
	net_freeze(net, 0, 0);
	assert_true(is_settled(net, 0, 0));
	assert_int_equal(net_path(net, 0, 1)->inflight_frames, 1);
	int other = net_send(net, 0, 1, 1, 1, 100);

	net_run(net, 200 * NET_MS);
	net_expect_delivered(net, other);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	net->nodes[1].apps[0].paused = false;
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 2);
	finish(net);
}

/* Its frames were refused, the first of several and of a message's. */
static void
pm_preempt__what_was_refused_is_settled(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct net *net = pair();
		int n = i ? 1 : 30;

		net_freeze(net, 1, 0);
		int first = send_some(net, 0, 1, n, i ? 100 * 1024 : 100);

		net_run(net, NET_US);
		net_freeze(net, 0, 0);
		net_run(net, 100 * NET_MS);
		assert_true(is_settled(net, 0, 0));
		net_thaw(net, 1, 0);
		net_thaw(net, 0, 0);
		net_settle(net, NET_SEC);
		expect_some(net, first, n);
		finish(net);
	}
}

/* There are more flows than a node queues answers for. */
static void
pm_preempt__all_of_many_held_flows_are_kept(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.flows_max = 512;
	struct net *net = net_new(NET_NODES, &c, 1);
	const unsigned all = NET_CTXS * NET_NODES * NET_CTXS;

	net_open_all(net, 64, 1000);
	for (unsigned i = 0; i < 2 * all; i++) {
		if (i == all) {
			net_settle(net, NET_SEC);
			for (unsigned k = 0; k < NET_CTXS; k++)
				freeze_and_hold(net, 0, k);
		}
		assert_true(net_send(net, 0, i % NET_CTXS, i / NET_CTXS % NET_NODES,
				    i / NET_CTXS / NET_NODES % NET_CTXS, 10) >= 0);
	}
	net_run(net, LONG);
	for (unsigned k = 0; k < NET_CTXS; k++)
		net_thaw(net, 0, k);
	net_settle(net, NET_SEC);
	expect_some(net, 0, (int)(2 * all));
	finish(net);
}

/* --- both, and others --- */

static void
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

static void
pm_preempt__both_sides_in_any_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		both_frozen(i & 1, i >> 1 & 1, i & 4 ? HELD : FROZEN, 100);
		both_frozen(i & 1, i >> 1 & 1, i & 4 ? HELD : FROZEN, 100 * 1024);
	}
}

static void
closes(bool held, bool linger)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024);

	net_run(net, 7 * NET_US);
	net_freeze(net, 0, 0);
	if (held)
		net_hold(net, 0, 0);
	int b = net_send(net, 0, 0, 1, 0, 100);
	int c = net_send(net, 1, 0, 0, 0, 100);

	net_run(net, held ? LONG : NET_MS);
	net_close(net, 0, 0, linger);
	net_run(net, 100 * NET_MS);
	assert_int_equal(proto_ctx_pending(net->nodes[0].p, 0), 0);
	if (!linger) {
		net_expect_error(net, b, ECONNRESET);
		assert_true(held || net_delivered(net, a));
	} else {
		net_expect_delivered(net, a);
		net_expect_delivered(net, b);
	}
	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, c, ECONNREFUSED);
	net_open(net, 0, 0, 64, 1000);
	assert_true(is_settled(net, 0, 0));
	int d = net_send(net, 0, 0, 1, 0, 3000);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, d);
	finish(net);
}

static void
pm_preempt__closes_while_frozen(void **state)
{
	(void)state;
	closes(false, false);
	closes(false, true);
}

static void
pm_preempt__closes_while_held(void **state)
{
	(void)state;
	closes(true, false);
	closes(true, true);
}

static void
pm_preempt__each_step_is_idempotent(void **state)
{
	struct net *net = pair();
	struct proto *p = net->nodes[0].p;
	uint64_t now = net_ticks(net, 0);

	(void)state;
	net_thaw(net, 0, 0);
	net_hold(net, 0, 0); /* of what is not frozen */
	assert_int_equal(p->ctxs[0].frozen, CONTEXT_GOES);
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024);

	net_run(net, 7 * NET_US);
	net_freeze(net, 0, 0);
	net_freeze(net, 0, 0);
	net_hold(net, 0, 0);
	net_hold(net, 0, 0);
	net_freeze(net, 0, 0);
	assert_int_equal(p->ctxs[0].frozen, CONTEXT_HELD);
	net_check_books(net, 0);
	net_run(net, NET_SEC);
	net_thaw(net, 0, 0);
	net_thaw(net, 0, 0);
	net_check_books(net, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_close(net, 0, 0, false);
	proto_ctx_freeze(p, 0, now);
	proto_ctx_hold(p, 0, now);
	assert_true(proto_ctx_settled(p, 0));
	proto_ctx_thaw(p, 0, now);
	net_open(net, 0, 0, 64, 1000);
	a = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	finish(net);
}

static void
pm_preempt__frozen_again_and_again(void **state)
{
	struct net *net = pair();

	(void)state;
	net->loss = 50;
	int first = send_some(net, 0, 1, 40, 5000);

	for (unsigned i = 0; i < 200; i++) {
		unsigned node = net_random(net, 2);

		net_run(net, net_random(net, 200) * NET_US);
		net_freeze(net, node, 0);
		net_run(net, net_random(net, 200) * NET_US);
		if (i & 1)
			net_hold(net, node, 0);
		net_run(net, net_random(net, 200) * NET_MS * (i & 1));
		net_thaw(net, node, 0);
	}
	net_settle(net, NET_SEC);
	expect_some(net, first, 40);
	finish(net);
}

/* Another process takes over. */
static void
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

static void
pm_preempt__frozen_contexts_move(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		moves(i & 1, i & 2 ? HELD : FROZEN);
}

/* Its peer has begun a new life while it was held or parked. */
static void
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

static void
pm_preempt__a_peer_begins_a_new_life(void **state)
{
	(void)state;
	new_life_of_a_peer(HELD);
}

/* --- a sender is parked; what the harness judges is in proto_pair.h --- */

static void
pm_preempt__parked_with_frames_unsent(void **state)
{
	struct net *net = pair();
	const int n = 400;
	int first = send_some(net, 0, 1, n, 1000);

	(void)state;
	net_run(net, NET_US);
	net_freeze(net, 0, 0);
	net_run(net, 100 * NET_MS);
	uint32_t begun = data_frames(net, 0);

	assert_in_range(begun, 1, n - 1);
	stop(net, 0, 0, PARKED);
	net_run(net, LONG);
	assert_int_equal(data_frames(net, 0), begun);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, n);
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__parked_with_lost_frames_in_flight(void **state)
{
	(void)state;
	lost_then(PARKED, false, 0, 100);
	lost_then(PARKED, false, 0, 20 * 1024);
	lost_then(PARKED, true, 0, 100);
	lost_then(PARKED, true, 0, 20 * 1024);
	lost_then(PARKED, true, 19, 20 * 1024);
}

/* Check that a parked sender goes on when its frames were received, and all Acks were lost. */
static void
pm_preempt__parked_with_received_frames_in_flight(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		lost_then(PARKED, i & 1, -1, i & 2 ? 20 * 1024 : 100);
}

static void
pm_preempt__frames_are_acked_while_parked(void **state)
{
	struct net *net = pair();
	int first = send_some(net, 0, 1, 3, 100);

	(void)state;
	net_run(net, NET_US);
	park(net, 0, 0);
	assert_int_equal(net->nodes[0].tx_out, 3);
	net_settle(net, 10 * NET_MS);
	expect_some(net, first, 3);
	net_run(net, LONG);
	assert_int_equal(net_logged(net, 0, WIRE_ACK, WIRE_F_ASK), 0); /* there is nothing more */
	net_thaw(net, 0, 0);
	first = send_some(net, 0, 1, 3, 100);
	net_settle(net, 10 * NET_MS);
	expect_some(net, first, 3);
	finish(net);
}

static void
pm_preempt__parked_in_the_midst_of_a_message(void **state)
{
	struct net *net = pair();
	int m = net_send(net, 0, 0, 1, 0, 300 * 1024);

	(void)state;
	net_run(net, 7 * NET_US);
	park(net, 0, 0);
	uint32_t sent = data_frames(net, 0);

	assert_in_range(sent, 1, 299);
	net_run(net, LONG);
	assert_int_equal(data_frames(net, 0), sent);
	assert_in_range(net_flow(net, 1, 0, 0, 0)->frags_left, 1, 299); /* its receiver waits */
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 0);
	finish(net);
}

static void
pm_preempt__what_is_sent_while_parked_waits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		waits_while_frozen(i & 1, PARKED, i & 2);
}

static void
pm_preempt__what_is_sent_while_parked_is_sent_after_loading(void **state)
{
	struct net *net = pair();

	(void)state;
	park(net, 0, 0);
	int a = net_send(net, 0, 0, 1, 0, 100), b = net_send(net, 0, 0, 1, 1, 3000);

	assert_int_equal(net_load(net, 0, 0), 0);
	net_run(net, LONG);
	assert_int_equal(data_frames(net, 0), 0); /* it is held still */
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__a_peer_begins_a_new_life_while_parked(void **state)
{
	(void)state;
	new_life_of_a_peer(PARKED);
}

/* --- a receiver is parked --- */

static void
pm_preempt__a_parked_receiver_refuses_and_takes_in_order_later(void **state)
{
	struct net *net = pair();

	(void)state;
	park(net, 1, 0);
	int first = send_some(net, 0, 1, 20, 100), large = net_send(net, 0, 0, 1, 0, 5000);
	int opening = net_send(net, 0, 1, 1, 0, 100);

	net_run(net, LONG);
	assert_in_range(net_count(net, 0, PROTO_room_questions), 10, 600);
	assert_int_equal(net->nodes[0].tx_out, 26);
	assert_int_equal(net->nodes[1].rx_out, 0);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 20);
	net_expect_delivered(net, large);
	net_expect_delivered(net, opening);
	expect_no_harm(net, 0);
	finish(net);
}

/* A frame is lost, those behind it are held, and the receiver is parked; with its sender, or before
 * that is told what was lost. */
static void
held_then_parked(bool both, bool told)
{
	struct net *net = pair();

	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	int first = send_some(net, 0, 1, 6, 1000);

	net_run(net, told ? 11 * NET_US : 7 * NET_US);
	assert_in_range(net->nodes[1].p->held, 1, 5);
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->kept != 0, told);
	park(net, 1, 0);
	if (both)
		park(net, 0, 0);
	net_run(net, NET_US);
	assert_int_equal(net->nodes[1].p->held, 0);
	assert_int_equal(net->nodes[1].rx_out, 0);
	net_run(net, LONG);
	net_thaw(net, 1, 0);
	if (both)
		net_thaw(net, 0, 0);
	net_run(net, NET_MS);
	expect_some(net, first, 6);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	finish(net);
}

static void
pm_preempt__what_a_parked_receiver_held_is_sent_again(void **state)
{
	(void)state;
	held_then_parked(false, false);
	held_then_parked(false, true);
}

static void
pm_preempt__what_a_receiver_held_is_sent_again_by_a_parked_sender(void **state)
{
	(void)state;
	held_then_parked(true, false);
	held_then_parked(true, true);
}

/* Make a pair in which some frames of a message to node 1 have arrived when its context is parked.
 * Set *m to the message. */
static struct net *
parked_in_a_message(int *m)
{
	struct net *net = pair();

	*m = net_send(net, 0, 0, 1, 0, 300 * 1024);
	net_run(net, 7 * NET_US);
	assert_in_range(net_flow(net, 1, 0, 0, 0)->frags_left, 1, 299);
	park(net, 1, 0);
	return net;
}

static void
pm_preempt__the_rest_of_a_message_is_refused_while_parked(void **state)
{
	int m;
	struct net *net = parked_in_a_message(&m);
	uint32_t had = net->nodes[1].rx_out, left = net_flow(net, 1, 0, 0, 0)->frags_left;

	(void)state;
	net_run(net, 100 * NET_MS);
	assert_int_equal(net->nodes[1].rx_out, had);
	assert_int_equal(net_flow(net, 1, 0, 0, 0)->frags_left, left);
	assert_true(net_logged(net, 1, WIRE_NACK, WIRE_F_FULL) > 0);
	assert_int_equal(net->log[net->log_count - 1].src, 1);
	assert_int_equal(net->log[net->log_count - 1].credit, 0);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* The sender asks at growing intervals, and counts no retry. */
static void
pm_preempt__the_rest_of_a_message_is_asked_for_ever_more_rarely(void **state)
{
	int m;
	struct net *net = parked_in_a_message(&m);
	uint64_t questions;

	(void)state;
	net_run(net, 200 * NET_MS);
	questions = net_count(net, 0, PROTO_room_questions);
	assert_in_range(questions, 5, 20);
	net_run(net, LONG);
	assert_in_range(net_count(net, 0, PROTO_room_questions) - questions, 190, 210);
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->retries, 0);
	expect_no_harm(net, 0);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	expect_no_harm(net, 0);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 0);
	finish(net);
}

/* When the receiver goes on, it says so. entries: all its room; the message may take all of it. */
static void
comes_at_once(uint32_t entries)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	net_open_all(net, entries, 1000);
	net_send(net, 0, 0, 1, 0, 10);
	net_settle(net, NET_SEC);
	for (unsigned i = 0; i < 10; i++) {
		int m = net_send(net, 0, 0, 1, 0, 300 * 1024);

		net_run(net, 7 * NET_US);
		assert_in_range(net_flow(net, 1, 0, 0, 0)->frags_left, 1, 299);
		park(net, 1, 0);
		net_run(net, LONG + i * 7 * NET_MS);
		uint64_t questions = net_count(net, 0, PROTO_room_questions);

		assert_int_equal(net_load(net, 1, 0), 0);
		net_thaw(net, 1, 0);
		net_run(net, 500 * NET_US);
		assert_int_equal(net_count(net, 0, PROTO_room_questions), questions);
		net_expect_delivered(net, m);
		net_run(net, NET_MS);
	}
	expect_no_harm(net, 0);
	finish(net);
}

static void
pm_preempt__the_rest_of_a_message_comes_at_once_after_the_thaw(void **state)
{
	(void)state;
	comes_at_once(64);
	comes_at_once(1);
}

/* Once it is loaded, it is like a held one. */
static void
pm_preempt__the_rest_of_a_message_is_taken_when_loaded(void **state)
{
	int m;
	struct net *net = parked_in_a_message(&m);
	int next = net_send(net, 0, 0, 1, 0, 100);

	(void)state;
	net_run(net, LONG);
	assert_int_equal(net_load(net, 1, 0), 0);
	net_run(net, 100 * NET_MS);
	net_expect_delivered(net, m);
	assert_int_equal(net->nodes[0].tx_out, 1);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, next);
	expect_no_harm(net, 0);
	finish(net);
}

/* A sender that is frozen is settled, though the rest of its message was refused. */
static void
pm_preempt__a_sender_to_a_parked_receiver_settles(void **state)
{
	int m;
	struct net *net = parked_in_a_message(&m);

	(void)state;
	net_freeze(net, 0, 0);
	net_run(net, 50 * NET_MS);
	assert_true(is_settled(net, 0, 0));
	net_thaw(net, 1, 0);
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
pm_preempt__a_grant_is_kept_by_a_parked_receiver(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 1, 8);
	net->nodes[1].apps[0].paused = true;
	int first = send_some(net, 0, 1, 2, 1000);

	net_run(net, 100 * NET_MS);
	net->script = drop_acks;
	net->script_left = 1; /* the news of the grant */
	net->nodes[1].apps[0].paused = false;
	net_run(net, 1);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_GRANTED);
	park(net, 1, 0);
	net_run(net, LONG);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_GRANTED);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 1);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	expect_some(net, first, 2);
	finish(net);
}

/* --- a sender ends while its message is parked --- */

enum end { CLOSES, RESTARTS, GONE };

static void
ends_while_parked(enum end how, bool copied)
{
	struct proto_config c = net_config();

	c.assembly_frames_max = 1000;
	struct net *net = pair_of(&c);

	if (copied)
		proto_ctx_copied(net->nodes[1].p, 0);
	int m = net_send(net, 0, 0, 1, 0, 300 * 1024);

	net_run(net, 7 * NET_US);
	assert_int_equal(net->nodes[1].p->assembling, copied ? 300 : 0);
	park(net, 1, 0);
	net_run(net, 100 * NET_MS);
	assert_int_equal(net->nodes[1].p->assembling, 0);
	if (how == CLOSES) {
		net_close(net, 0, 0, false);
		net_run(net, NET_MS);
		net_expect_error(net, m, ECONNRESET);
		net_open(net, 0, 0, 64, 1000);
	} else {
		if (how == GONE)
			proto_node_gone(net->nodes[1].p, 0);
		net_restart(net, 0);
		net_open(net, 0, 0, 64, 1000);
		net_send(net, 0, 0, 1, 1, 100); /* by which its peer hears of it */
		net_settle(net, NET_SEC);
	}
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 1);
	assert_int_equal(net->nodes[1].rx_out, 0);
	m = net_send(net, 0, 0, 1, 0, 5000);
	net_run(net, LONG);
	assert_int_equal(net->nodes[0].tx_out, 5);
	assert_int_equal(net->nodes[1].p->assembling, 0);
	net_thaw(net, 1, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net->nodes[1].p->assembling, 0);
	m = net_send(net, 1, 0, 0, 0, 5000);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
pm_preempt__a_sender_closes_while_its_message_is_parked(void **state)
{
	(void)state;
	ends_while_parked(CLOSES, false);
	ends_while_parked(CLOSES, true);
}

static void
pm_preempt__a_sender_restarts_while_its_message_is_parked(void **state)
{
	(void)state;
	ends_while_parked(RESTARTS, false);
	ends_while_parked(RESTARTS, true);
}

static void
pm_preempt__a_sender_is_gone_while_its_message_is_parked(void **state)
{
	(void)state;
	ends_while_parked(GONE, false);
	ends_while_parked(GONE, true);
}

/* Nobody is left who could send the rest. The room comes back once the context goes on. */
static void
pm_preempt__a_sender_that_is_silent_after_parking_is_given_up(void **state)
{
	int m;
	struct net *net = parked_in_a_message(&m);

	(void)state;
	net->nodes[0].dead = true;
	net_run(net, LONG);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 0);
	net_thaw(net, 1, 0);
	net_run(net, LONG);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 1);
	assert_int_equal(net->nodes[1].p->ctxs[0].bulks, 1000);
	finish(net);
}

/* --- copied contexts share frames for their messages --- */

/* Lose node 0's data from that sequence on. */
static enum net_verdict
drop_from_seq(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_DATA && f->src == 0 && f->seq - net->script_left < 1000 ? NET_DROP
										       : NET_PASS;
}

/* Lose node 1's, and all of node 0. */
static enum net_verdict
drop_others_from_seq(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_DATA && (f->src == 0 || f->seq - net->script_left < 1000) ? NET_DROP
											 : NET_PASS;
}

/* Context 2.0 has half of a message from 0.0 that takes all the shared frames. */
static struct net *
copied_and_half_full(int *m)
{
	struct proto_config c = net_config();

	c.assembly_frames_max = 8;
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 64, 8);
	proto_ctx_copied(net->nodes[2].p, 0);
	proto_ctx_copied(net->nodes[2].p, 1);
	net_send(net, 0, 0, 2, 0, 10);
	net_send(net, 1, 0, 2, 1, 10);
	net_settle(net, NET_SEC);
	net->script = drop_from_seq;
	net->script_left = net_flow(net, 0, 0, 2, 0)->snd_end + 4;
	*m = net_send(net, 0, 0, 2, 0, 8 * 1024);
	net_run(net, 50 * NET_US);
	assert_int_equal(net->nodes[2].p->assembling, 8);
	return net;
}

static void
pm_preempt__the_frames_of_parked_messages_are_for_others(void **state)
{
	int parked;
	struct net *net = copied_and_half_full(&parked);
	int other = net_send(net, 1, 0, 2, 1, 8 * 1024);

	(void)state;
	net_run(net, 50 * NET_MS);
	assert_int_equal(net->nodes[1].tx_out, 8);
	park(net, 2, 0);
	net->script = NULL;
	net_run(net, 100 * NET_MS);
	net_expect_delivered(net, other);
	assert_int_equal(net->nodes[2].p->assembling, 0);
	net_run(net, LONG);
	net_thaw(net, 2, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, parked);
	finish(net);
}

static void
pm_preempt__loading_waits_for_frames_that_others_have(void **state)
{
	int parked;
	struct net *net = copied_and_half_full(&parked);

	(void)state;
	park(net, 2, 0);
	net->script = drop_others_from_seq;
	net->script_left = net_flow(net, 1, 0, 2, 1)->snd_end + 4;
	int other = net_send(net, 1, 0, 2, 1, 8 * 1024);

	net_run(net, 50 * NET_US);
	assert_int_equal(net->nodes[2].p->assembling, 8);
	struct context before = net->nodes[2].p->ctxs[0];

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(net_load(net, 2, 0), -ENOSPC);
	assert_memory_equal(&before, &net->nodes[2].p->ctxs[0], sizeof(before));
	assert_int_equal(net->nodes[2].p->assembling, 8);
	net->script = NULL;
	net_run(net, 100 * NET_MS);
	net_expect_delivered(net, other);
	assert_int_equal(net_load(net, 2, 0), 0);
	assert_int_equal(net->nodes[2].p->assembling, 8);
	net_thaw(net, 2, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, parked);
	finish(net);
}

/* It has no unfinished message, so it needs none of the frames that others have. */
static void
pm_preempt__loading_without_messages_needs_no_frames(void **state)
{
	int m;
	struct net *net = copied_and_half_full(&m);

	(void)state;
	park(net, 2, 1);
	assert_int_equal(net_load(net, 2, 1), 0);
	net_thaw(net, 2, 1);
	net->script = NULL;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* --- parking, in general --- */

static void
pm_preempt__only_what_is_held_is_parked(void **state)
{
	struct net *net = pair();
	struct proto *p = net->nodes[0].p;
	uint64_t now = net_ticks(net, 0);
	int m = net_send(net, 0, 0, 1, 0, 100 * 1024);

	(void)state;
	assert_false(net_park(net, 0, 0));
	assert_int_equal(net_load(net, 0, 0), 0);
	net_freeze(net, 0, 0);
	assert_false(net_park(net, 0, 0));
	assert_int_equal(net_load(net, 0, 0), 0);
	assert_int_equal(p->ctxs[0].frozen, CONTEXT_DRAINS);
	net_hold(net, 0, 0);
	assert_int_equal(net_load(net, 0, 0), 0);
	assert_true(net_park(net, 0, 0));
	assert_false(net_park(net, 0, 0));
	proto_ctx_freeze(p, 0, now);
	proto_ctx_hold(p, 0, now);
	proto_ctx_thaw(p, 0, now);
	assert_int_equal(p->ctxs[0].frozen, CONTEXT_PARKED);
	assert_true(is_settled(net, 0, 0));
	net_check_books(net, 0);
	assert_int_equal(net_load(net, 0, 0), 0);
	assert_int_equal(p->ctxs[0].frozen, CONTEXT_HELD);
	assert_true(net_park(net, 0, 0));
	net_thaw(net, 0, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	net_close(net, 0, 0, false);
	assert_false(net_park(net, 0, 0));
	assert_int_equal(net_load(net, 0, 0), 0);
	finish(net);
}

static void
closes_while_parked(bool linger, bool copied)
{
	struct proto_config config = net_config();

	config.assembly_frames_max = 1000;
	struct net *net = pair_of(&config);

	if (copied)
		proto_ctx_copied(net->nodes[0].p, 0);
	int a = net_send(net, 0, 0, 1, 0, 100 * 1024), b = net_send(net, 0, 0, 1, 0, 100);
	int c = net_send(net, 1, 0, 0, 0, 300 * 1024);

	net_run(net, 11 * NET_US);
	assert_in_range(net->nodes[0].rx_out, 1, 299);
	park(net, 0, 0);
	int d = net_send(net, 0, 0, 1, 1, 100);

	net_run(net, LONG);
	net->log_count = 0;
	net_close(net, 0, 0, linger);
	net_run(net, NET_MS);
	assert_int_equal(proto_ctx_pending(net->nodes[0].p, 0), 0);
	net_expect_error(net, a, ECONNRESET);
	net_expect_error(net, b, ECONNRESET);
	net_expect_error(net, d, ECONNRESET);
	assert_int_equal(data_frames(net, 0), 0);
	assert_int_equal(net->nodes[0].rx_out, 0);
	assert_int_equal(net->nodes[0].p->assembling, 0);
	assert_int_equal(net->nodes[1].rx_out, 0); /* its peer does not wait for the rest */
	net_settle(net, LONG);
	net_expect_error(net, c, ECONNREFUSED);
	net_open(net, 0, 0, 64, 1000);
	a = net_send(net, 0, 0, 1, 0, 3000);
	b = net_send(net, 1, 0, 0, 0, 3000);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	finish(net);
}

static void
pm_preempt__closes_while_parked(void **state)
{
	(void)state;
	closes_while_parked(false, false);
	closes_while_parked(false, true);
}

/* The payloads are out of reach, so nothing can linger. */
static void
pm_preempt__closes_while_parked_and_nothing_lingers(void **state)
{
	(void)state;
	closes_while_parked(true, false);
	closes_while_parked(true, true);
}

static void
pm_preempt__both_sides_parked_in_any_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		both_frozen(i & 1, i >> 1, PARKED, 100);
		both_frozen(i & 1, i >> 1, PARKED, 100 * 1024);
	}
}

static void
pm_preempt__parked_contexts_move(void **state)
{
	(void)state;
	moves(0, PARKED);
	moves(1, PARKED);
}

static void
pm_preempt__parked_again_and_again(void **state)
{
	struct net *net = pair();
	int first[2];

	(void)state;
	net->loss = 50;
	first[0] = send_some(net, 0, 1, 40, 5000);
	first[1] = send_some(net, 1, 0, 40, 5000);
	for (unsigned i = 0; i < 200; i++) {
		unsigned node = net_random(net, 2);

		net_run(net, net_random(net, 200) * NET_US);
		net_freeze(net, node, 0);
		net_run(net, net_random(net, 200) * NET_US);
		stop(net, node, 0, PARKED);
		net_run(net, net_random(net, 200) * NET_MS);
		assert_int_equal(net_load(net, node, 0), 0);
		net_run(net, net_random(net, 200) * NET_MS * (i & 1));
		net_thaw(net, node, 0);
	}
	net_settle(net, NET_SEC);
	expect_some(net, first[0], 40);
	expect_some(net, first[1], 40);
	finish(net);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pm_preempt__what_is_in_flight_is_acked_and_nothing_begins),
		cmocka_unit_test(pm_preempt__a_flow_is_watched_after_a_silence),
		cmocka_unit_test(pm_preempt__a_watched_flow_is_kept),
		cmocka_unit_test(pm_preempt__what_is_lost_in_flight_is_sent_again),
		cmocka_unit_test(pm_preempt__unanswered_frames_end_no_frozen_flow),
		cmocka_unit_test(pm_preempt__what_is_sent_while_frozen_waits),
		cmocka_unit_test(pm_preempt__the_rest_of_a_message_goes_on_the_next_does_not),
		cmocka_unit_test(pm_preempt__hello_is_not_answered_yet),
		cmocka_unit_test(pm_preempt__a_frozen_receiver_refuses_and_takes_in_order_later),
		cmocka_unit_test(pm_preempt__what_was_refused_comes_again_without_a_hole),
		cmocka_unit_test(pm_preempt__a_frozen_receiver_refuses_an_opening_frame),
		cmocka_unit_test(pm_preempt__the_rest_of_a_half_received_message_is_taken),
		cmocka_unit_test(pm_preempt__room_given_back_while_frozen_is_told_later),
		cmocka_unit_test(pm_preempt__a_grant_is_kept_by_a_frozen_receiver),
		cmocka_unit_test(pm_preempt__local_senders_get_no_room),
		cmocka_unit_test(pm_preempt__a_lost_opening_frame_then_held),
		cmocka_unit_test(pm_preempt__a_lost_later_frame_then_held),
		cmocka_unit_test(pm_preempt__held_in_the_midst_of_a_message),
		cmocka_unit_test(pm_preempt__lost_acks_then_held),
		cmocka_unit_test(pm_preempt__acks_count_while_held),
		cmocka_unit_test(pm_preempt__a_held_context_acks),
		cmocka_unit_test(pm_preempt__half_a_message_gives_way_in_the_end),
		cmocka_unit_test(pm_preempt__the_grant_of_a_held_sender_goes_to_another),
		cmocka_unit_test(pm_preempt__room_that_comes_goes_to_another_than_a_held_sender),
		cmocka_unit_test(pm_preempt__a_held_sender_leaves_the_queue_for_room),
		cmocka_unit_test(pm_preempt__a_sender_without_credit_asks_when_it_goes_on),
		cmocka_unit_test(pm_preempt__the_time_held_is_no_retry),
		cmocka_unit_test(pm_preempt__frozen_for_long_and_not_held),
		cmocka_unit_test(pm_preempt__frozen_without_credit_and_not_held),
		cmocka_unit_test(pm_preempt__a_lost_question_leaves_the_window_to_others),
		cmocka_unit_test(pm_preempt__what_was_refused_is_settled),
		cmocka_unit_test(pm_preempt__all_of_many_held_flows_are_kept),
		cmocka_unit_test(pm_preempt__both_sides_in_any_order),
		cmocka_unit_test(pm_preempt__closes_while_frozen),
		cmocka_unit_test(pm_preempt__closes_while_held),
		cmocka_unit_test(pm_preempt__each_step_is_idempotent),
		cmocka_unit_test(pm_preempt__frozen_again_and_again),
		cmocka_unit_test(pm_preempt__frozen_contexts_move),
		cmocka_unit_test(pm_preempt__a_peer_begins_a_new_life),
		cmocka_unit_test(pm_preempt__parked_with_frames_unsent),
		cmocka_unit_test(pm_preempt__parked_with_lost_frames_in_flight),
		cmocka_unit_test(pm_preempt__parked_with_received_frames_in_flight),
		cmocka_unit_test(pm_preempt__frames_are_acked_while_parked),
		cmocka_unit_test(pm_preempt__parked_in_the_midst_of_a_message),
		cmocka_unit_test(pm_preempt__what_is_sent_while_parked_waits),
		cmocka_unit_test(pm_preempt__what_is_sent_while_parked_is_sent_after_loading),
		cmocka_unit_test(pm_preempt__a_peer_begins_a_new_life_while_parked),
		cmocka_unit_test(pm_preempt__a_parked_receiver_refuses_and_takes_in_order_later),
		cmocka_unit_test(pm_preempt__what_a_parked_receiver_held_is_sent_again),
		cmocka_unit_test(pm_preempt__what_a_receiver_held_is_sent_again_by_a_parked_sender),
		cmocka_unit_test(pm_preempt__the_rest_of_a_message_is_refused_while_parked),
		cmocka_unit_test(pm_preempt__the_rest_of_a_message_is_asked_for_ever_more_rarely),
		cmocka_unit_test(pm_preempt__the_rest_of_a_message_comes_at_once_after_the_thaw),
		cmocka_unit_test(pm_preempt__the_rest_of_a_message_is_taken_when_loaded),
		cmocka_unit_test(pm_preempt__a_sender_to_a_parked_receiver_settles),
		cmocka_unit_test(pm_preempt__a_grant_is_kept_by_a_parked_receiver),
		cmocka_unit_test(pm_preempt__a_sender_closes_while_its_message_is_parked),
		cmocka_unit_test(pm_preempt__a_sender_restarts_while_its_message_is_parked),
		cmocka_unit_test(pm_preempt__a_sender_is_gone_while_its_message_is_parked),
		cmocka_unit_test(pm_preempt__a_sender_that_is_silent_after_parking_is_given_up),
		cmocka_unit_test(pm_preempt__the_frames_of_parked_messages_are_for_others),
		cmocka_unit_test(pm_preempt__loading_waits_for_frames_that_others_have),
		cmocka_unit_test(pm_preempt__loading_without_messages_needs_no_frames),
		cmocka_unit_test(pm_preempt__only_what_is_held_is_parked),
		cmocka_unit_test(pm_preempt__closes_while_parked),
		cmocka_unit_test(pm_preempt__closes_while_parked_and_nothing_lingers),
		cmocka_unit_test(pm_preempt__both_sides_parked_in_any_order),
		cmocka_unit_test(pm_preempt__parked_contexts_move),
		cmocka_unit_test(pm_preempt__parked_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
