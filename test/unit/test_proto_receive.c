/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: receiving, and room for what is received. One behaviour a test, named by requirement
 * (doc/requirements.md) where it has one. Virtual time, scripted network: see proto_pair.h, whose
 * harness judges every handle and message.
 */
#include "proto_cases.h"

/* --- PM-R --- */

static void
pm_r1__in_sequence_is_stored_and_acked(void **state)
{
	struct net *net = pair();
	uint32_t seq = net_flow(net, 0, 0, 1, 0)->snd_end;
	int m = net_send(net, 0, 0, 1, 0, 100);

	(void)state;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net->log[net->log_count - 1].type, WIRE_ACK);
	assert_int_equal(net->log[net->log_count - 1].ack, seq + 1);
	finish(net);
}

static void
pm_r2__no_room_is_nacked_and_arrives_later(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 2, 8);
	net->nodes[1].apps[1].paused = true;
	int m[6];

	for (int i = 0; i < 6; i++)
		m[i] = net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 100 * NET_MS);
	assert_true(net_delivered(net, m[1]));
	assert_false(net_delivered(net, m[2]));
	assert_true(net_count(net, 1, PROTO_drop_full) > 0);
	assert_true(net_logged(net, 1, WIRE_NACK, WIRE_F_FULL) > 0);
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	for (int i = 0; i < 6; i++)
		net_expect_delivered(net, m[i]);
	finish(net);
}

static void
pm_r2__a_full_receiver_is_no_timeout_error(void **state)
{
	struct net *net = pair();

	(void)state;
	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 70; i++)
		net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 20 * NET_SEC); /* far longer than all retries */
	assert_int_equal(net_count(net, 0, PROTO_messages_failed), 0);
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	finish(net);
}

/* For 12 s an application takes nothing. What it costs its node's other contexts: nothing. */
static void
pm_r2__a_full_receiver_is_no_congestion(void **state)
{
	struct net *net = pair();
	struct path *path = net_path(net, 0, 1);

	(void)state;
	net_settle(net, NET_SEC);
	uint32_t bytes = path->cc.window_bytes, frames = path->cc.window_frames;

	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 200; i++)
		net_send(net, 0, 0, 1, 1, 100);
	for (int i = 0; i < 120; i++) {
		int beside = net_send(net, 0, 0, 1, 0, 100);

		net_run(net, 100 * NET_MS);
		net_expect_delivered(net, beside);
	}
	assert_int_equal(net_count(net, 0, PROTO_window_cuts), 0);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	assert_true(path->cc.window_bytes >= bytes && path->cc.window_frames >= frames);
	assert_int_equal(path->inflight_frames, 0);
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	finish(net);
}

static enum net_verdict
count_refusals(struct net *net, struct net_frame *f)
{
	net->script_left += f->src == 1 && f->type == WIRE_NACK && f->flags & WIRE_F_FULL;
	return NET_PASS;
}

static void
pm_r2__questions_for_room_become_rare(void **state)
{
	struct net *net = pair();
	uint64_t rto_max = net_config().rto_max_us * NET_US;

	(void)state;
	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 100; i++)
		net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 8 * rto_max);
	net->script = count_refusals;
	net->script_left = 0;
	net_run(net, 8 * rto_max); /* as rare as they become, and no rarer */
	assert_in_range(net->script_left, 6, 9);
	net->nodes[1].apps[1].paused = false;
	net_give_room(net, 1, 1);
	int last = net_send(net, 0, 0, 1, 1, 100);

	/* the receiver says that there is room: nobody waits for a question */
	net_run(net, 2 * NET_MS);
	net_expect_delivered(net, last);
	/* once more: the interval begins small again */
	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 100; i++)
		net_send(net, 0, 0, 1, 1, 100);
	net->script_left = 0;
	net_run(net, 100 * NET_MS);
	assert_true(net->script_left >= 3);
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	finish(net);
}

static void
pm_r2__an_unanswered_question_is_a_timeout(void **state)
{
	struct net *net = pair();

	(void)state;
	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 70; i++)
		net_send(net, 0, 0, 1, 1, 100);
	int m = net_send(net, 0, 0, 1, 1, 100);

	net_run(net, 2 * NET_SEC);
	net->nodes[1].dead = true;
	net_settle(net, 60 * NET_SEC);
	net_expect_error(net, m, ETIMEDOUT);
	finish(net);
}

static void
pm_r2__a_lost_credit_update_is_asked_for(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 1, 8);
	net->nodes[1].apps[1].paused = true;
	int a = net_send(net, 0, 0, 1, 1, 100), b = net_send(net, 0, 0, 1, 1, 100);

	net_run(net, 300 * NET_US); /* a is Acked with credit 0, b waits and was never sent */
	assert_true(net_delivered(net, a));
	assert_int_equal(net_flow(net, 0, 0, 1, 1)->snd_una, net_flow(net, 0, 0, 1, 1)->snd_nxt);
	net->script = drop_all;
	net->nodes[1].apps[1].paused = false;
	net_run(net, 100 * NET_US);
	net->script = NULL;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	finish(net);
}

static void
pm_r2__credit_closed_while_nothing_waits_is_asked_for(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 1, 8);
	net->nodes[1].apps[1].paused = true;
	net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 300 * NET_US);
	net->script = drop_all;
	net->nodes[1].apps[1].paused = false;
	net_run(net, 100 * NET_US);
	net->script = NULL;
	int b = net_send(net, 0, 0, 1, 1, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	finish(net);
}

static uint32_t lost_seq;

static enum net_verdict
drop_lost_seq(struct net *net, struct net_frame *f)
{
	(void)net;
	return f->type == WIRE_DATA && f->src == 0 && f->src_ctx == 0 && f->seq == lost_seq
		? NET_DROP
		: NET_PASS;
}

/* Make a pair and send three messages, which go to a[]: the first takes the last room, and the
 * receiver holds the others. */
static struct net *
two_are_held(int a[3])
{
	struct net *net = pair();

	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 4, 8);
	for (unsigned i = 0; i < 2; i++) /* both flows are known */
		net_send(net, 0, i, 1, 1, 100);
	net_settle(net, NET_SEC);
	net_run(net, NET_MS);
	net->nodes[1].apps[1].paused = true;
	lost_seq = net_flow(net, 0, 0, 1, 1)->snd_nxt;
	net->script = drop_lost_seq;
	for (int i = 0; i < 3; i++) /* the first is lost, the others wait for it */
		a[i] = net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 100 * NET_US);
	for (int i = 0; i < 3; i++) /* another flow takes the room meanwhile */
		net_send(net, 0, 1, 1, 1, 100);
	net_run(net, 100 * NET_US);
	net->script = NULL;
	net_run(net, NET_MS);
	assert_true(net_delivered(net, a[0]));
	assert_false(net_delivered(net, a[1]));
	return net;
}

/* Its sender asks with a frame that is there already, and is heard all the same. */
static void
pm_r2__who_waits_with_held_frames_is_not_given_up(void **state)
{
	const struct proto_config c = net_config();
	int a[3];

	(void)state;
	struct net *net = two_are_held(a);

	for (uint32_t i = 0; i < c.retries + 10; i++) {
		net_run(net, c.rto_max_us * NET_US);
		assert_false(net_delivered(net, a[1]));
	}
	net->nodes[1].apps[1].paused = false;
	net_give_room(net, 1, 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a[1]);
	net_expect_delivered(net, a[2]);
	finish(net);
}

static void
pm_r2__held_frames_are_delivered_when_room_comes(void **state)
{
	int a[3];

	(void)state;
	struct net *net = two_are_held(a);

	net->script = drop_all;
	net_give_room(net, 1, 1);
	net_run(net, 50 * NET_US);
	assert_true(net_delivered(net, a[1]));
	assert_true(net_delivered(net, a[2]));
	net->script = NULL;
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	finish(net);
}

static void
pm_r2__opening_frame_goes_alone_after_a_refusal(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 2, 8);
	net->nodes[1].apps[1].paused = true;
	net_send(net, 0, 0, 1, 1, 100);
	net_send(net, 0, 0, 1, 1, 100); /* these take all room */
	net_run(net, 200 * NET_US);
	int b = net_send(net, 0, 1, 1, 1, 100), c = net_send(net, 0, 1, 1, 1, 100);

	net_run(net, 200 * NET_US); /* b opens its flow and is refused */
	assert_false(net_delivered(net, b));
	/* Room for both comes. b is lost on its second way: c must not open the flow. */
	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 1, 1, 1)->snd_una;
	net_give_room(net, 1, 1);
	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	net_expect_delivered(net, c);
	finish(net);
}

static void
pm_r2__large_message_is_not_starved_by_small_ones(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 16, 16);
	net->nodes[2].apps[0].hold = 200 * NET_US;
	int warm = net_send(net, 1, 0, 2, 0, 10), last;

	net_settle(net, NET_SEC);
	net_expect_delivered(net, warm);
	for (int i = 0; i < 40; i++) /* each takes a bulk buffer */
		net_send(net, 0, 0, 2, 0, 1000);
	net_run(net, 100 * NET_US);
	int large = net_send(net, 1, 0, 2, 0, 15 * 1024); /* nearly all bulk buffers */

	for (int i = 0; i < 400; i++) {
		last = net_send(net, 0, 0, 2, 0, 1000);
		net_run(net, 20 * NET_US);
	}
	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, large);
	assert_true(net->messages[large].done_at + 2 * NET_MS < net->messages[last].done_at);
	finish(net);
}

static void
lhs_6__short_messages_pass_long_ones_of_others_that_wait(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);
	int first = 0, last = 0;

	(void)state;
	net_open_all(net, 64, 4);
	net->nodes[2].apps[0].hold = 500 * NET_MS;
	int warm = net_send(net, 1, 0, 2, 0, 10);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, warm);
	for (int i = 0; i < 8; i++) { /* a bulk buffer each, and there are 4 */
		last = net_send(net, 0, 0, 2, 0, 1000);
		first = i == 4 ? last : first;
	}
	net_run(net, 10 * NET_MS);
	int one = net_send(net, 1, 0, 2, 0, 10);

	net_run(net, 20 * NET_MS);
	assert_int_not_equal(net->messages[one].done_at, 0);
	assert_int_equal(net->messages[first].done_at, 0);
	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, last);
	finish(net);
}

static void
pm_r2__waits_for_descriptors_end_without_new_room(void **state)
{
	struct proto_config c = net_config();

	c.rx_frames_max = 8;
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 8, 100);
	/* Two messages that need 6 of 8 descriptors each, in two contexts. */
	int a = net_send(net, 0, 0, 2, 0, 6 * 1024), b = net_send(net, 1, 0, 2, 1, 6 * 1024);
	int d = net_send(net, 1, 1, 2, 0, 8 * 1024);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	net_expect_delivered(net, d);
	finish(net);
}

/* Check that a sender who comes again before he is told that there are descriptors waits no more,
 * and that no room is kept for him. */
static void
pm_r2__who_waited_for_descriptors_has_one_place(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.rx_frames_max = 8;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct net *net = net_new(3, &c, seed);
		int m[12];

		net->jitter = 20 * NET_US;
		net_open_all(net, 8, 100);
		for (unsigned i = 0; i < 12; i++)
			m[i] = net_send(net, i % 2, i / 2 % 2, 2, i / 4 % 2, (4 + i % 4) * 1024);
		net_settle(net, NET_SEC);
		for (unsigned i = 0; i < 12; i++)
			net_expect_delivered(net, m[i]);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(net->nodes[2].p->ctxs[i].entries, 8);
			assert_int_equal(net->nodes[2].p->ctxs[i].bulks, 100);
			assert_true(list_empty(&net->nodes[2].p->ctxs[i].blocked));
		}
		finish(net);
	}
}

/* Two contexts whose messages are copied out of their frames, and frames for one message at a
 * time. */
static void
pm_r2__copied_contexts_share_frames(void **state)
{
	struct proto_config c = net_config();
	int m[4], beside = 0;

	(void)state;
	c.assembly_frames_max = 8;
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 64, 8);
	proto_ctx_copied(net->nodes[2].p, 0);
	proto_ctx_copied(net->nodes[2].p, 1);
	net->audit = true;
	for (unsigned i = 0; i < 4; i++)
		net_send(net, i / 2, 0, 2, i % 2, 10);
	net_send(net, 1, 1, 2, 1, 10);
	net_settle(net, NET_SEC);
	net->script = drop_seq_once; /* the second fragment: the first message takes a while */
	net->script_left = net_flow(net, 0, 0, 2, 0)->snd_end + 1;
	for (unsigned i = 0; i < 4; i++)
		m[i] = net_send(net, i / 2, 0, 2, i % 2, 8 * 1024);
	for (unsigned i = 0; i < 100 && net->nodes[2].p->assembling == 0; i++)
		net_run(net, 5 * NET_US);
	assert_int_equal(net->nodes[2].p->assembling, 8);
	beside = net_send(net, 1, 1, 2, 1, 60); /* whole in its frame: it needs none of them */
	net_settle(net, NET_SEC);
	net_expect_delivered(net, beside);
	for (unsigned i = 0; i < 4; i++)
		net_expect_delivered(net, m[i]);
	finish(net);
}

/* The frames that a sender's unfinished message had are free again when the sender closes, begins
 * anew, or is gone. */
static void
pm_r2__frames_of_an_aborted_message_are_free_again(void **state)
{
	enum { CLOSES, RESTARTS, GONE, WAYS };

	(void)state;
	for (unsigned how = 0; how < WAYS; how++) {
		struct proto_config c = net_config();

		c.assembly_frames_max = 1000;
		struct net *net = net_new(3, &c, 1);

		net_open_all(net, 64, 1000);
		proto_ctx_copied(net->nodes[1].p, 0);
		net->audit = true;
		for (unsigned i = 0; i < 3; i++) {
			net_send(net, 0, 0, 1, 0, 300 * 1024);
			for (unsigned us = 0; us < 100 && net->nodes[1].p->assembling == 0; us++)
				net_run(net, NET_US);
			assert_int_equal(net->nodes[1].p->assembling, 300);
			if (how == CLOSES) {
				net_close(net, 0, 0, false);
			} else {
				if (how == GONE)
					proto_node_gone(net->nodes[1].p, 0);
				net_restart(net, 0);
				net_open(net, 0, 1, 64, 1000);
			}
			net_run(net, NET_MS);
			net_open(net, 0, 0, 64, 1000);
			net_send(net, 0, 0, 1, 1, 100); /* by which its peer hears of it */
			net_settle(net, NET_SEC);
			assert_int_equal(net_count(net, 1, PROTO_messages_aborted), i + 1);
			assert_int_equal(net->nodes[1].p->assembling, 0);
		}
		int m = net_send(net, 2, 0, 1, 0, 300 * 1024);

		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
		finish(net);
	}
}

/* Lose node 2's data from that sequence on. */
static enum net_verdict
drop_of_node_2(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_DATA && f->src == 2 && f->seq - net->script_left < 1000 ? NET_DROP
										       : NET_PASS;
}

/* A message was granted room, and all descriptors are set aside for another's. */
static void
pm_r2__a_granted_message_without_descriptors_asks_rarely(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.rx_frames_max = 16;
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 1, 64);
	net->nodes[1].apps[0].paused = true;
	int first = net_send(net, 0, 0, 1, 0, 100), other = net_send(net, 2, 0, 1, 1, 10);

	net_run(net, 10 * NET_MS);
	net_expect_delivered(net, first);
	net_expect_delivered(net, other);
	int waits = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_MS);
	assert_true(net_flow(net, 1, 0, 0, 0)->flags & FLOW_DEMAND);
	net->script = drop_of_node_2;
	net->script_left = net_flow(net, 2, 0, 1, 1)->snd_end + 8;
	other = net_send(net, 2, 0, 1, 1, 16 * 1024);
	net_run(net, NET_MS);
	assert_int_equal(net->nodes[1].p->rxd_reserved, 8);
	net->log_count = 0;
	net->nodes[1].apps[0].paused = false;
	net_run(net, 100 * NET_MS);
	assert_int_equal(net->nodes[0].tx_out, 1);
	assert_in_range(net_logged(net, 0, WIRE_DATA, 0), 1, 20);
	net->script = NULL;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, other);
	net_expect_delivered(net, waits);
	finish(net);
}

/* A sender that waits for room was silent for longer than its receiver waits for it, since others
 * used its path all the time. */
static void
pm_r2__a_sender_that_could_not_ask_in_time_is_answered(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 1, 1);
	net->nodes[1].apps[0].paused = true;
	int first = net_send(net, 2, 0, 1, 0, 100);

	net_run(net, 10 * NET_MS);
	int waits = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 10 * NET_MS);
	struct flow *f = net_flow(net, 1, 0, 0, 0);

	assert_true(f->flags & FLOW_DEMAND);
	net->script = drop_data;
	net->script_left = UINT32_MAX;
	f->heard_ts -= net->nodes[1].p->patience;
	net_run(net, 5 * 50 * NET_MS);
	assert_false(f->flags & FLOW_DEMAND);
	net->script = NULL;
	net_run(net, 2 * 50 * NET_MS);
	assert_true(f->flags & FLOW_DEMAND);
	net->nodes[1].apps[0].paused = false;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, first);
	net_expect_delivered(net, waits);
	finish(net);
}

static void
pm_r5__frames_held_out_of_order_are_bounded(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.hold_frames_max = 10;
	struct net *net = pair_of(&c);

	net->audit = true;
	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	for (unsigned i = 0; i < 40; i++)
		net_send(net, 0, 0, 1, 0, 100);
	net_run(net, 20 * NET_US);
	net_settle(net, NET_SEC);
	assert_true(net_count(net, 1, PROTO_drop_no_hold) > 0);
	finish(net);
}

static void
pm_r2__held_frames_do_not_block_their_own_message(void **state)
{
	struct proto_config c = net_config();

	c.rx_frames_max = 16;
	struct net *net = pair_of(&c);

	(void)state;
	net->script = drop_seq_once; /* the first fragment: the rest is held */
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	int m = net_send(net, 0, 0, 1, 0, 16 * 1024);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
pm_r3__old_sequence_is_discarded_and_acked_again(void **state)
{
	struct net *net = pair();
	uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt;
	struct wire_hdr h = net_data(net, 0, 1, seq - 1, 10, 0);

	(void)state;
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_DONE);
	net_run(net, 10 * NET_US);
	assert_int_equal(net_count(net, 1, PROTO_drop_old), 1);
	assert_int_equal(net_logged(net, 1, WIRE_ACK, WIRE_F_ACK), 1);
	assert_int_equal(net->log[0].ack, seq);
	finish(net);
}

static void
pm_r4__gap_is_nacked_naming_the_expected(void **state)
{
	struct net *net = pair();
	uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt;
	struct wire_hdr h = net_data(net, 0, 1, seq + 2, 10, 0);

	(void)state;
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_KEPT);
	net_run(net, NET_US);
	assert_int_equal(net_logged(net, 1, WIRE_NACK, WIRE_F_ACK | WIRE_F_ECHO), 1);
	assert_int_equal(net->log[0].ack, seq);
	/* The flow ends: what is held comes back. */
	net_close(net, 1, 0, false);
	net_run(net, NET_US);
	finish(net);
}

static void
pm_r4__nack_does_not_wait_behind_another_flows_ack(void **state)
{
	struct proto_config c = net_config();

	c.ack_delay_us = 5000;
	struct net *net = pair_of(&c);

	(void)state;
	net_send(net, 0, 1, 1, 1, 10);
	net_settle(net, NET_SEC);
	net_send(net, 0, 1, 1, 1, 10); /* its Ack waits 5 ms at the head of the list */
	net_run(net, 10 * NET_US);
	net_send(net, 0, 0, 1, 0, 10); /* its Ack waits behind */
	net_run(net, 10 * NET_US);
	net->log_count = 0;
	struct wire_hdr h = net_data(net, 0, 1, net_flow(net, 1, 0, 0, 0)->rcv_nxt + 1, 10, 0);

	net_inject(net, 1, &h, sizeof(h) + 10);
	net_run(net, NET_US);
	assert_int_equal(net_logged(net, 1, WIRE_NACK, 0), 1);
	net_close(net, 1, 0, false);
	net_settle(net, NET_SEC);
	net_free(net);
}

static void
pm_r5__go_back_n_discards_until_the_nacked_arrives(void **state)
{
	struct proto_config c = net_config();

	c.recovery = PROTO_GO_BACK_N;
	struct net *net = pair_of(&c);
	uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt;

	(void)state;
	for (uint32_t i = 1; i < 5; i++) {
		struct wire_hdr h = net_data(net, 0, 1, seq + i, 10, 0);

		assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_DONE);
	}
	net_run(net, NET_US);
	assert_int_equal(net_count(net, 1, PROTO_drop_gap), 4);
	assert_int_equal(net_logged(net, 1, WIRE_NACK, 0), 1);
	struct wire_hdr h = net_data(net, 0, 1, seq, 10, 0);

	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_MESSAGE);
	net_run(net, NET_MS);
	finish(net);
}

static void
pm_r5__selective_keeps_what_arrived(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net->script_left = 1;
	for (int i = 0; i < 64; i++)
		net_send(net, 0, 0, 1, 0, 10);
	net_settle(net, NET_SEC);
	assert_int_equal(net_count(net, 0, PROTO_tx_retransmits), 1);
	finish(net);
}

/* 400 messages to a receiver that keeps each buffer for a while: what is sent again for want of
 * room is bounded, and no sign of congestion. mixed: every other one needs no buffer. */
static void
overload(uint32_t bulks, uint64_t hold, bool mixed)
{
	enum { MESSAGES = 400 };
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	const uint64_t began = net->now;

	net_open(net, 0, 0, 64, 64);
	net_open(net, 1, 0, 256, bulks);
	net->nodes[1].apps[0].hold = hold;
	for (int i = 0; i < MESSAGES; i++)
		net_send(net, 0, 0, 1, 0, mixed && i % 2 ? 16 : 1000);
	net_settle(net, 20 * NET_SEC);
	assert_in_range(net_count(net, 0, PROTO_tx_retransmits), 0, 2 * MESSAGES);
	assert_in_range(net_count(net, 0, PROTO_window_cuts), 0, 4);
	assert_in_range(net->now - began, 0, MESSAGES / bulks * hold * 2 + 5 * NET_MS);
	net_check_clean(net);
	net_free(net);
}

static void
pm_r2__a_full_receiver_is_not_flooded(void **state)
{
	(void)state;
	for (uint32_t bulks = 1; bulks <= 64; bulks *= 4) {
		for (uint64_t hold = 10 * NET_US; hold <= NET_MS; hold *= 10) {
			overload(bulks, hold, false);
			overload(bulks, hold, true);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pm_r1__in_sequence_is_stored_and_acked),
		cmocka_unit_test(pm_r2__no_room_is_nacked_and_arrives_later),
		cmocka_unit_test(pm_r2__a_full_receiver_is_no_timeout_error),
		cmocka_unit_test(pm_r2__a_full_receiver_is_no_congestion),
		cmocka_unit_test(pm_r2__questions_for_room_become_rare),
		cmocka_unit_test(pm_r2__an_unanswered_question_is_a_timeout),
		cmocka_unit_test(pm_r2__a_lost_credit_update_is_asked_for),
		cmocka_unit_test(pm_r2__credit_closed_while_nothing_waits_is_asked_for),
		cmocka_unit_test(pm_r2__held_frames_are_delivered_when_room_comes),
		cmocka_unit_test(pm_r2__who_waits_with_held_frames_is_not_given_up),
		cmocka_unit_test(pm_r2__opening_frame_goes_alone_after_a_refusal),
		cmocka_unit_test(pm_r2__large_message_is_not_starved_by_small_ones),
		cmocka_unit_test(lhs_6__short_messages_pass_long_ones_of_others_that_wait),
		cmocka_unit_test(pm_r2__waits_for_descriptors_end_without_new_room),
		cmocka_unit_test(pm_r2__who_waited_for_descriptors_has_one_place),
		cmocka_unit_test(pm_r2__copied_contexts_share_frames),
		cmocka_unit_test(pm_r2__frames_of_an_aborted_message_are_free_again),
		cmocka_unit_test(pm_r2__a_granted_message_without_descriptors_asks_rarely),
		cmocka_unit_test(pm_r2__a_sender_that_could_not_ask_in_time_is_answered),
		cmocka_unit_test(pm_r5__frames_held_out_of_order_are_bounded),
		cmocka_unit_test(pm_r2__held_frames_do_not_block_their_own_message),
		cmocka_unit_test(pm_r3__old_sequence_is_discarded_and_acked_again),
		cmocka_unit_test(pm_r4__gap_is_nacked_naming_the_expected),
		cmocka_unit_test(pm_r4__nack_does_not_wait_behind_another_flows_ack),
		cmocka_unit_test(pm_r5__go_back_n_discards_until_the_nacked_arrives),
		cmocka_unit_test(pm_r5__selective_keeps_what_arrived),
		cmocka_unit_test(pm_r2__a_full_receiver_is_not_flooded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
