/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: contexts that are frozen and go on, also where being held makes no difference
 * (PM-PREEMPT). One behaviour a test. Virtual time, scripted network: see proto_pair.h, whose
 * harness judges every handle and message, and what a frozen context does.
 */
#include "proto_cases.h"
#include "proto_stops.h"

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

/* --- both, and others --- */

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

static void
pm_preempt__frozen_contexts_move(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		moves(i & 1, i & 2 ? HELD : FROZEN);
}

static void
pm_preempt__a_peer_begins_a_new_life(void **state)
{
	(void)state;
	new_life_of_a_peer(HELD);
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
		cmocka_unit_test(pm_preempt__both_sides_in_any_order),
		cmocka_unit_test(pm_preempt__closes_while_frozen),
		cmocka_unit_test(pm_preempt__closes_while_held),
		cmocka_unit_test(pm_preempt__each_step_is_idempotent),
		cmocka_unit_test(pm_preempt__frozen_again_and_again),
		cmocka_unit_test(pm_preempt__frozen_contexts_move),
		cmocka_unit_test(pm_preempt__a_peer_begins_a_new_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
