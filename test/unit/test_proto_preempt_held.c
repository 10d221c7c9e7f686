/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: contexts that are held once they are frozen, and go on (PM-PREEMPT). One behaviour a
 * test. Virtual time, scripted network: see proto_pair.h, whose harness judges every handle and
 * message, and what a held context does.
 */
#include "proto_cases.h"
#include "proto_stops.h"

/* --- a sender is held --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
