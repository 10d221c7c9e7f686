/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: contexts that are parked and loaded, and go on (PM-PREEMPT). One behaviour a test.
 * Virtual time, scripted network: see proto_pair.h, whose harness judges every handle and message,
 * and what a parked context does.
 */
#include "proto_cases.h"
#include "proto_stops.h"

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
