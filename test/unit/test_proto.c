/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core, one behaviour a test, named by requirement (doc/requirements.md) where it has one.
 * Virtual time, scripted network: see proto_pair.h, whose harness judges every handle and message.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto_pair.h"

/* Two nodes whose flow 0.0 -> 1.0 is open. */
static struct net *
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

static struct net *
pair(void)
{
	struct proto_config c = net_config();

	return pair_of(&c);
}

static void
finish(struct net *net)
{
	net_check_clean(net);
	net_free(net);
}

/* --- scripts: net->script_left says how often --- */

static enum net_verdict
drop_data(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_DATA && f->src == 0 && net->script_left && net->script_left--
		? NET_DROP
		: NET_PASS;
}

static enum net_verdict
drop_all(struct net *net, struct net_frame *f)
{
	(void)net, (void)f;
	return NET_DROP;
}

static enum net_verdict
drop_acks(struct net *net, struct net_frame *f)
{
	return (f->type == WIRE_ACK || f->type == WIRE_NACK) && net->script_left &&
			net->script_left--
		? NET_DROP
		: NET_PASS;
}

static enum net_verdict
drop_hellos(struct net *net, struct net_frame *f)
{
	return f->type == WIRE_HELLO && net->script_left && net->script_left-- ? NET_DROP
									       : NET_PASS;
}

static enum net_verdict
dup_all(struct net *net, struct net_frame *f)
{
	(void)net, (void)f;
	return NET_DUP;
}

/* Lose the first transmission of sequence script_left. */
static enum net_verdict
drop_seq_once(struct net *net, struct net_frame *f)
{
	if (f->type != WIRE_DATA || f->src != 0 || f->seq != net->script_left)
		return NET_PASS;
	net->script_left = 0;
	return NET_DROP;
}

/* --- PM-S --- */

static void
pm_s1__sequence_is_consecutive_per_flow(void **state)
{
	struct net *net = pair();
	uint32_t next = net_flow(net, 0, 0, 1, 0)->snd_end;

	(void)state;
	for (int i = 0; i < 50; i++)
		net_send(net, 0, 0, 1, 0, (uint32_t)i * 100);
	net_settle(net, NET_SEC);
	for (uint32_t i = 0; i < net->log_count; i++) {
		if (net->log[i].type == WIRE_DATA && net->log[i].src == 0)
			assert_int_equal(net->log[i].seq, next++);
	}
	assert_int_equal(next, net_flow(net, 0, 0, 1, 0)->snd_end);
	finish(net);
}

static void
pm_s1__message_is_kept_until_its_ack(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_acks;
	net->script_left = 1;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 40 * NET_US);
	assert_true(net_delivered(net, m));
	assert_int_equal(net->nodes[0].tx_out, 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
pm_s2__one_ack_frees_all_it_covers(void **state)
{
	struct net *net = pair();

	(void)state;
	for (int i = 0; i < 10; i++)
		net_send(net, 0, 0, 1, 0, 100);
	net_run(net, NET_MS);
	assert_int_equal(net_logged(net, 1, WIRE_ACK, 0), 1);
	assert_int_equal(proto_tx_free(net->nodes[0].p), net->nodes[0].cfg.tx_frames_max);
	finish(net);
}

static void
nack_retransmits(enum proto_recovery recovery)
{
	struct proto_config c = net_config();

	c.recovery = recovery;
	struct net *net = pair_of(&c);

	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end + 3;
	for (int i = 0; i < 10; i++)
		net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	assert_true(net_count(net, 1, PROTO_tx_nacks) >= 1);
	if (recovery == PROTO_SELECTIVE)
		assert_int_equal(net_count(net, 0, PROTO_tx_retransmits), 1);
	else
		assert_in_range(net_count(net, 0, PROTO_tx_retransmits), 2, 7);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 11);
	finish(net);
}

static void
pm_s3__nack_retransmits_what_it_names_selective(void **state)
{
	(void)state;
	nack_retransmits(PROTO_SELECTIVE);
}

static void
pm_s3__nack_retransmits_what_it_names_go_back_n(void **state)
{
	(void)state;
	nack_retransmits(PROTO_GO_BACK_N);
}

/* A frame whose head does not say that it carries an Ack carries none, whatever stands there. */
static void
pm_s2__what_is_no_ack_frees_nothing(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 0, 0, 1, 0, 10);
	net_send(net, 1, 0, 0, 0, 10);
	net_settle(net, NET_SEC);
	net->script = drop_all;
	net_send(net, 0, 0, 1, 0, 10);
	net_run(net, 50 * NET_US);
	struct flow *f = net_flow(net, 0, 0, 1, 0);
	struct wire_hdr h = net_data(net, 1, 0, f->rcv_nxt - 1, 10, 0);

	assert_int_equal(f->snd_nxt, f->snd_una + 1);
	h.ack = wire_be32(f->snd_nxt);
	net_inject(net, 0, &h, sizeof(h) + 10);
	assert_int_equal(f->snd_nxt, f->snd_una + 1);
	net->script = NULL;
	net_settle(net, NET_SEC);
	finish(net);
}

static void
pm_s3__nack_has_an_echo_though_data_took_the_ack(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 1, 0, 0, 0, 10);
	net_settle(net, NET_SEC);
	net->log_count = 0;
	struct wire_hdr h = net_data(net, 0, 1, net_flow(net, 1, 0, 0, 0)->rcv_nxt + 1, 10, 0);

	net_send(net, 1, 0, 0, 0, 10);
	net_inject(net, 1, &h, sizeof(h) + 10);
	net_run(net, NET_US);
	assert_int_equal(net_logged(net, 1, WIRE_DATA, WIRE_F_ACK | WIRE_F_ECHO), 1);
	assert_int_equal(net_logged(net, 1, WIRE_NACK, WIRE_F_ACK | WIRE_F_ECHO), 1);
	net_settle(net, NET_SEC);
	net_close(net, 1, 0, false);
	net_run(net, NET_MS);
	finish(net);
}

static void
pm_s4__timeout_retransmits(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net->script_left = 4; /* it, and the probes */
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 1);
	assert_int_equal(net_count(net, 0, PROTO_tx_probes), 3);
	assert_int_equal(net_count(net, 0, PROTO_tx_retransmits), 4);
	finish(net);
}

static void
pm_adv__a_late_ack_gives_the_window_back(void **state)
{
	(void)state;
	for (int lost = 0; lost <= 1; lost++) {
		for (int delay = 0; delay <= 1; delay++) {
			struct proto_config c = net_config();

			c.cc = delay ? &cc_delay : &cc_pm;
			struct net *net = pair_of(&c);
			struct path *t = net_path(net, 0, 1);
			uint32_t window = t->cc.window_bytes, frames = t->cc.window_frames;

			if (lost) {
				net->script = drop_data;
				net->script_left = 4; /* it, and the probes */
			} else {
				/* not in the network: its host does not run */
				net->delay = 4 * NET_MS;
			}
			int m = net_send(net, 0, 0, 1, 0, 100);

			net_run(net, 2 * NET_MS);
			assert_true(net_count(net, 0, PROTO_timeouts) > 0);
			if (!lost)
				assert_true(t->cc.window_bytes < window ||
					t->cc.window_frames < frames);
			net_settle(net, NET_SEC);
			net_expect_delivered(net, m);
			assert_int_equal(net_count(net, 0, PROTO_cuts_undone), !lost);
			if (lost)
				assert_true(t->cc.window_bytes < window ||
					t->cc.window_frames < frames);
			else
				assert_true(t->cc.window_bytes >= window &&
					t->cc.window_frames == frames);
			finish(net);
		}
	}
}

/* Nothing comes after the last frames of a burst that could show that they are missing. */
static void
pm_s4__a_lost_tail_is_probed_for(void **state)
{
	struct net *net = pair();
	int m = 0;

	(void)state;
	for (int i = 0; i < 10; i++) {
		m = net_send(net, 0, 0, 1, 0, 100);
		net_settle(net, NET_SEC);
	}
	net->script = drop_data;
	net->script_left = 3;
	uint64_t start = net->now;

	for (int i = 0; i < 3; i++)
		m = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	assert_int_equal(net_count(net, 0, PROTO_tx_probes), 1);
	assert_in_range(net->messages[m].done_at - start, 0, 400 * NET_US); /* rto_min is 500 */
	finish(net);
}

/* What the peer holds out of order has left the network: it does not keep the hole from being
 * sent. */
static void
pm_adv__frames_kept_by_the_peer_are_not_in_flight(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.path_frames = 8;
	struct net *net = pair_of(&c);
	struct path *t = net_path(net, 0, 1);

	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	for (int i = 0; i < 8; i++)
		net_send(net, 0, 0, 1, 0, 100);
	for (int i = 0; i < 1000 && net_count(net, 0, PROTO_rx_nacks) == 0; i++)
		net_run(net, NET_US);
	assert_in_range(t->inflight_frames, 1, 7);
	assert_int_equal(net_count(net, 0, PROTO_tx_retransmits), 1);
	net_settle(net, NET_SEC);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	finish(net);
}

/* When the timeout's retransmission leaves, after a warm-up at this one-way delay. Below rto_min
 * probes come before it. */
static uint64_t
first_timeout(uint64_t delay, uint64_t hz)
{
	struct proto_config c = net_config();
	uint64_t sent, again;

	c.ticks_per_sec = hz;
	struct net *net = pair_of(&c);

	net->delay = delay;
	for (int i = 0; i < 100; i++) {
		net_send(net, 0, 0, 1, 0, 100);
		net_settle(net, NET_SEC);
	}
	net->log_count = 0;
	net->script = drop_data;
	net->script_left = delay < 250 * NET_US ? 4 : 1;
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	sent = net->log[0].at;
	again = 0;
	for (uint32_t i = 1; i < net->log_count; i++) {
		if (net->log[i].type == WIRE_DATA)
			again = net->log[i].at - sent;
	}
	finish(net);
	return again;
}

static void
pm_s4__timeout_is_measured_from_rtt(void **state)
{
	static const uint64_t rates[] = {1000000, NET_SEC, 5000000000u};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t near = first_timeout(5 * NET_US, rates[i]);
		uint64_t far = first_timeout(5 * NET_MS, rates[i]);

		assert_in_range(near, 500 * NET_US, 1000 * NET_US); /* rto_min */
		assert_in_range(far, 10 * NET_MS, 25 * NET_MS);
	}
}

static void
pm_s4__timeout_is_measured_on_a_coarse_clock(void **state)
{
	(void)state;
	assert_in_range(first_timeout(5 * NET_MS, 1000), 10 * NET_MS, 40 * NET_MS);
}

static void
pm_s4__backed_off_timeout_ends_with_the_first_answer(void **state)
{
	struct net *net = pair();
	int first = 0, last = 0;

	(void)state;
	net->script = drop_all;
	for (int i = 0; i < 5; i++) {
		last = net_send(net, 0, 0, 1, 0, 100);
		first = i == 0 ? last : first;
	}
	net_run(net, 60 * NET_MS); /* the wait is now tens of ms */
	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end - 1;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, last);
	assert_true(net->messages[last].done_at - net->messages[first].done_at < 2 * NET_MS);
	finish(net);
}

static void
pm_s4__backs_off_then_etimedout(void **state)
{
	struct net *net = pair();
	uint64_t last = 0, gap = 0;
	uint32_t sent = 0;

	(void)state;
	net->script = drop_all;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, m, ETIMEDOUT);
	for (uint32_t i = 0; i < net->log_count; i++) {
		if (net->log[i].type != WIRE_DATA)
			continue;
		if (sent >= 6 && gap < 25 * NET_MS) /* three probes come first */
			assert_in_range(net->log[i].at - last, gap * 3 / 2, gap * 3);
		gap = net->log[i].at - last;
		last = net->log[i].at;
		sent++;
	}
	assert_int_equal(sent, 4 + net->nodes[0].cfg.retries); /* the first, and three probes */
	assert_true(gap <= 52 * NET_MS);                       /* rto_max and a slot */
	finish(net);
}

static void
pm_s4__retries_count_anew_after_an_answer(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	for (int i = 0; i < 4; i++) {
		net->script_left = net->nodes[0].cfg.retries;
		int m = net_send(net, 0, 0, 1, 0, 100);

		net_settle(net, 10 * NET_SEC);
		net_expect_delivered(net, m);
	}
	finish(net);
}

static void
pm_s4__econnrefused_when_the_context_never_opens(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open(net, 0, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, m, ECONNREFUSED);
	assert_true(net_count(net, 1, PROTO_drop_absent) > 0);
	finish(net);
}

static void
pm_s4__a_context_that_opens_late_gets_the_message(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open(net, 0, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 20 * NET_MS);
	net_open(net, 1, 0, 8, 8);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* Both ends hold frames for the other; the one at node 1 ends without a word and is followed by a
 * new life. */
static struct net *
pair_with_a_dead_one(bool established, int *stale)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	net_open(net, 0, 0, 8, 8);
	if (established) {
		net_open(net, 1, 0, 8, 8);
		int first = net_send(net, 0, 0, 1, 0, 100);

		net_settle(net, NET_SEC);
		net_expect_delivered(net, first);
		net_close(net, 1, 0, false);
	}
	*stale = net_send(net, 0, 0, 1, 0, 100);
	/* tried again, and the next try is far off */
	net_run(net, 80 * NET_MS);
	assert_true(net_flow(net, 0, 0, 1, 0)->flags & FLOW_REFUSED);
	assert_true(net_flow(net, 0, 0, 1, 0)->rto_at > net->now + 20 * NET_MS);
	net_open(net, 1, 0, 8, 8);
	return net;
}

static void
pm_s4__what_a_new_life_asks_is_answered_at_once(void **state)
{
	(void)state;
	for (int established = 0; established <= 1; established++) {
		int stale;
		struct net *net = pair_with_a_dead_one(established, &stale);
		int question = net_send(net, 1, 0, 0, 0, 100);

		net_run(net, 200 * NET_US);
		net_expect_delivered(net, question);
		if (established)
			net_expect_error(net, stale, ECONNRESET);
		else
			net_expect_delivered(net, stale);
		int answer = net_send(net, 0, 0, 1, 0, 100);

		net_run(net, 200 * NET_US);
		net_expect_delivered(net, answer);
		net_settle(net, NET_SEC);
		finish(net);
	}
}

static void
pm_s4__a_new_life_is_answered_though_nothing_was_in_flight(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 0, false);
	net_open(net, 1, 0, 8, 8);
	int question = net_send(net, 1, 0, 0, 0, 100);

	net_run(net, 200 * NET_US);
	net_expect_delivered(net, question);
	int answer = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 200 * NET_US);
	net_expect_delivered(net, answer);
	net_settle(net, NET_SEC);
	finish(net);
}

static void
pm_s4__a_late_refusal_of_a_frame_that_arrived_since_says_nothing(void **state)
{
	struct net *net = pair();
	struct flow *f = net_flow(net, 0, 0, 1, 0);
	struct wire_hdr h = net_data(net, 1, 0, f->snd_una - 1, 0, 0);

	(void)state;
	h.type = WIRE_NACK;
	h.flags = wire_be16(WIRE_F_ABSENT);
	h.ack = wire_be32(f->snd_una - 1);
	net_inject(net, 0, &h, sizeof(h));
	assert_false(f->flags & FLOW_REFUSED);
	h.ack = wire_be32(f->snd_nxt);
	net_inject(net, 0, &h, sizeof(h));
	assert_false(f->flags & FLOW_REFUSED);
	finish(net);
}

static void
pm_s4__ehostunreach_when_nobody_answers_hello(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	net->nodes[1].dead = true;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, m, EHOSTUNREACH);
	assert_int_equal(net_logged(net, 0, WIRE_HELLO, WIRE_F_ASK), 1 + c.retries);
	net->nodes[1].dead = false;
	m = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
hello__is_repeated_though_a_stranger_was_greeted_first(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	struct wire_hdr h = net_data(net, 1, 0, 5, 0, 0);

	(void)state;
	net_open_all(net, 8, 8);
	net->script = drop_hellos;
	net->script_left = 1;
	net_inject(net, 0, &h, sizeof(h)); /* is answered by a HELLO, which is lost */
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

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

static void
pm_r2__held_frames_are_delivered_when_room_comes(void **state)
{
	struct net *net = pair();
	int a[3];

	(void)state;
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

/* Who comes again before he is told that there are descriptors waits no more, and no room is kept
 * for him. */
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

/* --- PM-ADV --- */

static uint32_t most_frames, most_bytes;

static enum net_verdict
watch_flight(struct net *net, struct net_frame *f)
{
	struct proto_path_stat s;

	if (f->src == 0 && proto_path_stat(net->nodes[0].p, 1, &s)) {
		most_frames = s.inflight_frames > most_frames ? s.inflight_frames : most_frames;
		most_bytes = s.inflight_bytes > most_bytes ? s.inflight_bytes : most_bytes;
	}
	return NET_PASS;
}

static void
pm_adv__window_in_frames(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.path_frames = 7;
	struct net *net = pair_of(&c);

	most_frames = 0;
	net->script = watch_flight;
	for (int i = 0; i < 50; i++)
		net_send(net, 0, i % 3, 1, 0, 10);
	net_settle(net, NET_SEC);
	assert_int_equal(most_frames, 7);
	finish(net);
}

static void
pm_adv__window_in_bytes(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.path_bytes = 10000;
	struct net *net = pair_of(&c);

	most_bytes = 0;
	net->script = watch_flight;
	for (int i = 0; i < 50; i++)
		net_send(net, 0, i % 3, 1, 0, 1024);
	net_settle(net, NET_SEC);
	assert_in_range(most_bytes, 9000, 10000 + 1024 + WIRE_HDR_BYTES);
	finish(net);
}

static void
shrink_and_restore(const struct cc_ops *cc)
{
	struct proto_config c = net_config();

	c.cc = cc;
	c.path_bytes = 64 * 1024;
	c.cc_target_us = 1000;
	struct net *net = pair_of(&c);
	struct path *t = net_path(net, 0, 1);
	uint32_t before = t->cc.window_bytes, low;

	net->script = drop_seq_once;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	net_send(net, 0, 0, 1, 0, 1000);
	net_send(net, 0, 0, 1, 0, 1000);
	for (int i = 0; i < 1000 && net_count(net, 0, PROTO_rx_nacks) == 0; i++)
		net_run(net, NET_US);
	assert_int_equal(net_count(net, 0, PROTO_window_cuts), 1);
	low = t->cc.window_bytes;
	assert_in_range(low, before / 2 - 10, before / 2 + 10);
	net_settle(net, NET_SEC);
	while (t->cc.window_bytes < before) {
		uint32_t last = t->cc.window_bytes;

		/* half a window and more in flight, or it would not grow */
		for (int i = 0; i < 48; i++)
			net_send(net, 0, 0, 1, 0, 1024);
		net_settle(net, NET_SEC);
		assert_in_range(t->cc.window_bytes - last, 0, 3 * t->cc.step); /* gradually */
		assert_true(net->now < 20 * NET_SEC);
	}
	finish(net);
}

static void
pm_adv__nack_shrinks_acks_restore_cc_pm(void **state)
{
	(void)state;
	shrink_and_restore(&cc_pm);
}

/* ... also if a few frames that are all that may go are far fewer bytes than may go. */
static void
pm_adv__small_messages_restore_the_window_too(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.cc = &cc_pm;
	c.path_bytes = 3000;
	struct net *net = pair_of(&c);
	struct path *t = net_path(net, 0, 1);

	t->cc.window_frames = 2;
	for (int i = 0; i < 200; i++) {
		for (int k = 0; k < 32; k++)
			net_send(net, 0, 0, 1, 0, 32);
		net_settle(net, NET_SEC);
	}
	assert_true(t->cc.window_frames > 2);
	finish(net);
}

static void
pm_adv__cc_delay_starts_slowly(void **state)
{
	struct net *net = pair();
	struct path *t = net_path(net, 0, 1);
	uint32_t start = t->cc.window_bytes;

	(void)state;
	assert_in_range(start, 10 * t->cc.step, 11 * t->cc.step);
	for (int i = 0; i < 100; i++)
		net_send(net, 0, 0, 1, 0, 1024);
	net_settle(net, NET_SEC);
	/* while half of it is in flight */
	assert_in_range(t->cc.window_bytes, start + 60 * 1024, start + 120 * 1100);
	finish(net);
}

/* A window that nobody fills says nothing about the network. */
static void
pm_adv__a_window_grows_by_use_only(void **state)
{
	struct net *net = pair();
	struct path *t = net_path(net, 0, 1);
	uint32_t start = t->cc.window_bytes;

	(void)state;
	for (int i = 0; i < 100; i++) {
		net_send(net, 0, 0, 1, 0, 1024);
		net_send(net, 0, 0, 1, 0, 1024);
		net_settle(net, NET_SEC);
	}
	assert_int_equal(t->cc.window_bytes, start);
	finish(net);
}

/* As if others sent to node 1 as well: its Acks tell a share. */
static uint16_t told_share;

static enum net_verdict
watch_share(struct net *net, struct net_frame *f)
{
	struct share *s = &net->nodes[1].p->share;

	s->each = told_share;
	s->look_ts = net->nodes[1].p->stamp;
	return watch_flight(net, f);
}

static struct net *
pair_with_share(uint16_t share)
{
	struct net *net = pair();

	told_share = share;
	net->script = watch_share;
	net_send(net, 0, 0, 1, 0, 100);
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	most_frames = 0;
	return net;
}

/* What an Ack allows is what may be in flight; the last frame of it asks for the next Ack. */
static void
share__bounds_the_flight(void **state)
{
	struct net *net = pair_with_share(3);

	(void)state;
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->share, 3);
	for (int i = 0; i < 50; i++)
		net_send(net, 0, 0, 1, 0, 1000);
	net_settle(net, NET_SEC);
	assert_int_equal(most_frames, 3);
	assert_in_range(net_count(net, 0, PROTO_rx_acks), 50 / 3, 50 / 3 + 5);
	finish(net);
}

static void
share__lost_frames_keep_within_it(void **state)
{
	struct net *net = pair_with_share(2);

	(void)state;
	net->loss = 30;
	for (int i = 0; i < 200; i++)
		net_send(net, 0, 0, 1, 0, 1000);
	net_settle(net, 100 * NET_SEC);
	assert_in_range(most_frames, 2, 3); /* and a probe */
	finish(net);
}

static enum net_verdict
lose_most_of_the_first_burst(struct net *net, struct net_frame *f)
{
	watch_share(net, f);
	return f->src == 0 && f->type == WIRE_DATA && f->seq - net->script_left >= 2 &&
			f->seq - net->script_left < 20 &&
			net_count(net, 0, PROTO_tx_retransmits) == 0
		? NET_DROP
		: NET_PASS;
}

/* A gather's beginning: most of a burst is lost, and what arrived tells a share that the rest,
 * believed to be in flight, exceeds. Probes find out, not the timeout. */
static void
share__a_smaller_share_does_not_stop_probes(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	told_share = 2;
	net->script_left = net_flow(net, 0, 0, 1, 0)->snd_end;
	net->script = lose_most_of_the_first_burst;
	for (int i = 0; i < 20; i++)
		net_send(net, 0, 0, 1, 0, 500);
	net_settle(net, NET_SEC);
	assert_true(net_count(net, 0, PROTO_tx_retransmits) >= 18);
	assert_int_equal(net_count(net, 0, PROTO_timeouts), 0);
	finish(net);
}

/* Frames that are dropped as old say nothing of how many send. */
static void
share__old_frames_are_no_senders(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 64, 256);
	for (int i = 0; i < 4; i++) {
		net_send(net, 0, 0, 2, 0, 100);
		net_send(net, 1, 0, 2, 0, 100);
		net_settle(net, NET_SEC);
	}
	struct share before = net->nodes[2].p->share;

	for (int i = 0; i < 100; i++) {
		for (unsigned from = 0; from < 2; from++) {
			struct wire_hdr h = net_data(net, from, 2,
				net_flow(net, from, 0, 2, 0)->snd_una - 1, 0, 0);

			assert_int_equal(net_inject(net, 2, &h, sizeof(h)), PROTO_RX_DONE);
		}
	}
	assert_int_equal(net->nodes[2].p->share.senders, before.senders);
	assert_int_equal(net->nodes[2].p->share.samples, before.samples);
	finish(net);
}

/* One look at a frame of a path's flow that left `ago` time stamp units before now. */
static void
look(struct net *net, unsigned from, uint32_t ago)
{
	struct proto *p = net->nodes[2].p;
	const struct wire_hdr h = {.tstamp = wire_be32(p->stamp - ago)};

	share_look(p, net_flow(net, 2, 0, from, 0), &h);
}

/* A receiver that comes back after a pause finds frames that waited for it, or not: neither that
 * nor two flows of one node are a queue. */
static void
share__what_is_taken_for_a_wait(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 64, 256);
	for (unsigned from = 0; from < 2; from++) {
		net_send(net, from, 0, 2, 0, 100);
		net_settle(net, NET_SEC);
	}
	struct proto *p = net->nodes[2].p;

	for (int i = 0; i < 4; i++) { /* an empty network: 100 units, whatever the clocks say */
		p->stamp += 10;
		look(net, 0, 100);
		look(net, 1, 100);
	}
	assert_int_equal(p->share.wait, 0);
	p->waited = ticks_of(p, 5000); /* it was away; these came just before it returned */
	p->stamp += 5000;
	look(net, 0, 100);
	look(net, 1, 100);
	assert_int_equal(p->share.wait, 0);
	p->waited = 0;
	p->stamp += 10;
	look(net, 0, 100);
	look(net, 1, 100);
	assert_int_equal(p->share.wait, 0);
	look(net, 0, 900); /* a queue: both see it */
	look(net, 1, 900);
	assert_in_range(p->share.wait, 790, 810);
	look(net, 0, 100); /* node 0 knows of none, so it was node 1's own */
	look(net, 1, 900);
	look(net, 1, 900);
	assert_int_equal(p->share.wait, 0);
	net_free(net);
}

static void
share__one_sender_is_told_no_bound(void **state)
{
	struct net *net = pair();

	(void)state;
	for (int i = 0; i < 2000; i++)
		net_send(net, 0, 0, 1, 0, 1000);
	net_settle(net, NET_SEC);
	assert_int_equal(net_flow(net, 0, 0, 1, 0)->share, 0);
	finish(net);
}

/* A loss with a queue cuts, and says how long the queue may be; one without is the cable's. */
static void
pm_adv__cc_delay_tells_congestion_from_a_bad_cable(void **state)
{
	struct cc cc = {
		.window_bytes = 100000,
		.max_bytes = 100000,
		.min_bytes = 2000,
		.step = 1000,
		.window_frames = 8,
		.max_frames = 8,
		.target = 3200,
		.target_max = 3200,
	};

	(void)state;
	cc_delay.on_ack(&cc, 1000, 320, 320, 1000); /* base: 20 us */
	cc.last_rtt = 330;
	assert_false(cc_delay.on_nack(&cc, false, 320, 2000));
	assert_int_equal(cc.window_bytes, 100000);
	cc.last_rtt = 320 + 800;
	assert_true(cc_delay.on_nack(&cc, false, 320, 2000));
	assert_int_equal(cc.window_bytes, 75000);
	assert_int_equal(cc.target, 400);
	assert_false(cc_delay.on_nack(&cc, true, 320, 2100)); /* once a round trip */
	for (int i = 0; i < 75; i++) /* a window is Acked, and the target goes back a little */
		cc_delay.on_ack(&cc, 1000, 320, 320, 3000);
	assert_int_equal(cc.window_bytes, 76000);
	assert_in_range(cc.target, 401, 410);
}

static void
pm_adv__cc_delay_follows_the_delay(void **state)
{
	struct cc cc = {
		.window_bytes = 100000,
		.max_bytes = 100000,
		.min_bytes = 2000,
		.window_frames = 8,
		.max_frames = 8,
		.step = 1000,
		.target = 100,
	};

	(void)state;
	cc_delay.on_ack(&cc, 1000, 50, 50, 1000); /* base = 50 */
	cc_delay.on_ack(&cc, 1000, 149, 60, 2000);
	assert_int_equal(cc.window_bytes, 100000);
	cc.samples = 0;
	for (uint32_t i = 0; i < 7; i++) /* too few to know whether all frames are late */
		cc_delay.on_ack(&cc, 1000, 300, 60, 3000 + i);
	assert_int_equal(cc.window_bytes, 100000);
	cc_delay.on_ack(&cc, 1000, 300, 60, 3007); /* half of it is excess */
	assert_in_range(cc.window_bytes, 49000, 51000);
	for (uint32_t i = 0; i < 20; i++) /* once a round trip */
		cc_delay.on_ack(&cc, 1000, 300, 60, 3008 + i);
	assert_in_range(cc.window_bytes, 49000, 51000);
}

/* A host that lost its CPU delays some frames; a queue in the network delays them all. */
static void
pm_adv__cc_delay_ignores_single_late_frames(void **state)
{
	struct cc cc = {
		.window_bytes = 100000,
		.max_bytes = 100000,
		.min_bytes = 2000,
		.window_frames = 8,
		.max_frames = 8,
		.step = 1000,
		.target = 100,
	};

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		cc_delay.on_ack(&cc, 1000, i % 8 ? 3000 : 50, 60, 1000 + 100 * i);
	assert_int_equal(cc.window_bytes, 100000);
}

static void
pm_adv__cc_delay_without_any_measurement(void **state)
{
	struct cc cc = {.window_bytes = 5000, .max_bytes = 9000, .min_bytes = 2000, .step = 1000};

	(void)state;
	cc_delay.on_ack(&cc, 1000, 0, 0, 1000); /* no echo, no average, target 0 */
	assert_in_range(cc.window_bytes, 5000, 6000);
}

/* --- PM-ACKC --- */

static void
pm_ackc__one_ack_for_a_run(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.ack_every = 4;
	struct net *net = pair_of(&c);

	for (int i = 0; i < 30; i++) /* one burst: they arrive in one poll */
		net_send(net, 0, 0, 1, 0, 10);
	net_settle(net, NET_SEC);
	assert_int_equal(net_logged(net, 1, WIRE_ACK, 0), 1);
	finish(net);
}

/* ... and of a run that comes frame by frame, each ack_every'th is Acked at once. */
static void
pm_ackc__frames_one_by_one_are_acked_by_their_number(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.ack_every = 4;
	c.ack_delay_us = 400;
	struct net *net = pair_of(&c);

	for (int i = 0; i < 8; i++) {
		net_send(net, 0, 0, 1, 0, 10);
		net_run(net, NET_US);
	}
	net_run(net, 2 * net->delay + NET_US);
	assert_int_equal(net->nodes[0].tx_out, 0); /* long before the delay is over */
	assert_int_equal(net_logged(net, 1, WIRE_ACK, 0), 2);
	finish(net);
}

static void
pm_ackc__ack_rides_on_reverse_data(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 1, 0, 0, 0, 10);
	net_settle(net, NET_SEC);
	net->log_count = 0;
	net_send(net, 0, 0, 1, 0, 10);
	net_run(net, 20 * NET_US); /* arrived, within ack_delay */
	int b = net_send(net, 1, 0, 0, 0, 10);

	net_run(net, 10 * NET_US);
	assert_int_equal(net_logged(net, 1, WIRE_DATA, WIRE_F_ACK | WIRE_F_ECHO), 1);
	assert_int_equal(net_logged(net, 1, WIRE_ACK, 0), 0);
	assert_int_equal(net->nodes[0].tx_out, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, b);
	finish(net);
}

static void
pm_ackc__delay_is_bounded(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 0, 0, 1, 0, 10);
	net_run(net, NET_MS);
	assert_int_equal(net->log_count, 2);
	assert_in_range(net->log[1].at - net->log[0].at, net->delay + 50 * NET_US,
		net->delay + 51 * NET_US);
	finish(net);
}

static void
pm_ackc__delay_is_bounded_while_data_fills_every_burst(void **state)
{
	struct proto_config c = net_config();
	struct proto_out out[4];
	bool acked = false;

	(void)state;
	c.path_frames = 4096;
	struct net *net = pair_of(&c);

	net_send(net, 1, 1, 0, 1, 10);
	net_settle(net, NET_SEC);
	net_send(net, 1, 1, 0, 1, 10);
	net_run(net, 10 * NET_US); /* arrived; its Ack is not due yet */
	for (int i = 0; i < 60; i++)
		net_send(net, 0, 0, 1, 0, 10);
	for (int i = 0; i < 8 && !acked; i++) {
		unsigned k = proto_tx(net->nodes[0].p, out, 4, net_ticks(net, 0) + 60 * NET_US);

		for (unsigned j = 0; j < k; j++)
			acked |= out[j].head[1] == WIRE_ACK;
		assert_true(k == 4);
	}
	assert_true(acked);
	net_free(net);
}

/* --- messages --- */

static void
pm_mtu__8192_bytes_in_one_piece(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.payload_max = 8192;
	struct net *net = pair_of(&c);
	int m = net_send(net, 0, 0, 1, 0, 8192);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net->messages[m].frags, 1);
	finish(net);
}

static void
pm_mtu__8_mib_fragmented(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.tx_frames_max = c.rx_frames_max = 8192;
	struct net *net = net_new(2, &c, 1);

	net_open_all(net, 4, 8192);
	net->audit = net->logging = false;
	net->loss = 10;
	int m = net_send(net, 0, 0, 1, 0, WIRE_MESSAGE_MAX);

	assert_int_equal(net_send(net, 0, 0, 1, 0, WIRE_MESSAGE_MAX + 1), -EMSGSIZE);
	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
proto_send__zero_length(void **state)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 1, 0, 0), b = net_send(net, 0, 0, 1, 0, 0);

	(void)state;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	finish(net);
}

static void
proto_send__refuses_what_can_never_go(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.tx_frames_max = 8;
	struct net *net = pair_of(&c);

	assert_int_equal(net_send(net, 0, NET_CTXS, 1, 0, 1), -EINVAL);
	assert_int_equal(net_send(net, 0, 0, NET_NODES, 0, 1), -EHOSTUNREACH);
	assert_int_equal(net_send(net, 0, 0, 1, 0, 9 * 1024), -EMSGSIZE);
	net_close(net, 0, 1, false);
	assert_int_equal(net_send(net, 0, 1, 1, 0, 1), -EINVAL);
	assert_true(net_send(net, 0, 0, 1, 0, 8 * 1024) >= 0);
	assert_int_equal(net_send(net, 0, 0, 1, 0, 1), -EAGAIN);
	net_settle(net, NET_SEC);
	finish(net);
}

static void
proto_send__to_oneself(void **state)
{
	struct net *net = pair();
	int a = net_send(net, 0, 0, 0, 1, 5000), b = net_send(net, 0, 2, 0, 2, 5000);

	(void)state;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	finish(net);
}

/* --- epochs --- */

static void
epoch__restart_of_the_receiver_ends_what_is_in_flight(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_all;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 100 * NET_US);
	net->script = NULL;
	net_restart(net, 1);
	net_open(net, 1, 0, 8, 8);
	net_settle(net, NET_SEC);
	net_expect_error(net, m, ECONNRESET);
	assert_int_equal(net->messages[m].arrived, 0);
	assert_int_equal(net_count(net, 0, PROTO_peer_restarts), 1);
	m = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
epoch__frames_of_the_senders_old_life_are_not_delivered(void **state)
{
	struct net *net = pair();

	(void)state;
	net->delay = 2 * NET_MS;
	for (int i = 0; i < 20; i++)
		net_send(net, 0, 0, 1, 0, 100);
	net_run(net, NET_MS); /* on their way */
	net_restart(net, 0);
	net->delay = 5 * NET_US;
	net_open(net, 0, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 10 * NET_MS);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), 2);
	assert_true(net_count(net, 1, PROTO_drop_session) > 0);
	finish(net);
}

static void
epoch__half_received_message_of_a_restarted_peer_gives_its_room_back(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net_send(net, 0, 0, 1, 0, 10 * 1024);
	net->nodes[0].burst = 5;
	struct proto_out out[5];

	assert_int_equal(proto_tx(net->nodes[0].p, out, 5, net_ticks(net, 0)), 5);
	for (int i = 0; i < 5; i++)
		net_inject(net, 1, out[i].head, out[i].head_len + out[i].len);
	assert_int_equal(net->nodes[1].p->rxd_reserved, 5);
	net->script = NULL;
	net_restart(net, 0);
	net_open(net, 0, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 1);
	finish(net);
}

static struct wire_hdr old_hello_hdr;
static struct wire_hello old_hello;

/* ... of a peer that was dead in between, too: then nothing else ends its flows. */
static void
epoch__frames_held_of_an_old_life_go_at_once(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.keepalive_us = 10000;
	struct net *net = pair_of(&c);

	net_send(net, 0, 0, 1, 0, 10);
	net_settle(net, NET_SEC);
	net->script = drop_data;
	net->script_left = 1;
	for (unsigned i = 0; i < 4; i++)
		net_send(net, 0, 0, 1, 0, 10);
	net_run(net, 8 * NET_US);
	assert_true(net->nodes[1].rx_out > 0); /* behind the one that was lost */
	net->script = drop_all;
	net_run(net, 100 * NET_MS);
	assert_true(net_path(net, 1, 0)->dead);
	net_restart(net, 0);
	net->script = NULL;
	net_open(net, 0, 2, 8, 8);
	net_send(net, 1, 2, 0, 2, 10); /* another flow tells node 1 of the new life */
	net_run(net, 20 * NET_MS);
	assert_int_equal(net->nodes[1].rx_out, 0);
	net_settle(net, NET_SEC);
	finish(net);
}

/* A flow that ended with its peer's death remembers a sequence. It is the former life's: the new
 * one begins anywhere. */
static void
epoch__a_new_life_after_a_death_begins_at_any_sequence(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.keepalive_us = 10000;
	for (uint64_t seed = 1; seed <= 16; seed++) {
		struct net *net = net_new(2, &c, seed);
		int m;

		net_open_all(net, 8, 8);
		net_send(net, 0, 0, 1, 0, 10);
		net_settle(net, NET_SEC);
		net->script = drop_all;
		net_run(net, 100 * NET_MS);
		assert_true(net_path(net, 1, 0)->dead);
		assert_int_equal(net_flow(net, 1, 0, 0, 0)->rx_state, FLOW_RX_CLOSED);
		net_restart(net, 0);
		net->script = NULL;
		net_open(net, 0, 0, 8, 8);
		m = net_send(net, 0, 0, 1, 0, 10);
		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
		finish(net);
	}
}

static void
epoch__replayed_hello_of_an_old_life_changes_nothing(void **state)
{
	struct net *net = pair();
	uint32_t old_epoch = net->nodes[0].cfg.epoch;

	(void)state;
	net_restart(net, 0);
	net_open(net, 0, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	uint32_t session = net_path(net, 1, 0)->session;

	for (int asks = 0; asks < 2; asks++) {
		uint8_t frame[WIRE_HDR_BYTES + sizeof(struct wire_hello)];

		old_hello_hdr = net_data(net, 0, 1, 0, sizeof(old_hello), asks ? WIRE_F_ASK : 0);
		old_hello_hdr.type = WIRE_HELLO;
		old_hello_hdr.session = old_hello_hdr.msg_len = 0;
		old_hello = (struct wire_hello){wire_be32(old_epoch), wire_be32(77), wire_be32(78),
			wire_be16(1024), wire_be16(256)};
		memcpy(frame, &old_hello_hdr, sizeof(old_hello_hdr));
		memcpy(frame + WIRE_HDR_BYTES, &old_hello, sizeof(old_hello));
		net_inject(net, 1, frame, sizeof(frame));
		m = net_send(net, 0, 0, 1, 0, 100);
		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
		assert_int_equal(net_path(net, 1, 0)->session, session);
	}
	assert_int_equal(net_count(net, 1, PROTO_drop_nonce), 1);
	assert_int_equal(net_count(net, 1, PROTO_peer_restarts), 1);
	finish(net);
}

static void
epoch__lost_hellos_are_repeated(void **state)
{
	(void)state;
	for (uint32_t lost = 1; lost <= 6; lost++) {
		struct proto_config c = net_config();
		struct net *net = net_new(2, &c, lost);

		net_open_all(net, 8, 8);
		net->script = drop_hellos;
		net->script_left = lost;
		int a = net_send(net, 0, 0, 1, 0, 100), b = net_send(net, 1, 0, 0, 0, 100);

		net_settle(net, 5 * NET_SEC);
		net_expect_delivered(net, a);
		net_expect_delivered(net, b);
		finish(net);
	}
}

static void
epoch__duplicated_frames_change_nothing(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 100);
	net->script = dup_all;
	net->jitter = 20 * NET_US;
	for (int i = 0; i < 20; i++) {
		net_send(net, 0, 0, 1, 0, 3000);
		net_send(net, 1, 0, 0, 0, 3000);
	}
	net_settle(net, NET_SEC);
	for (int i = 0; i < 40; i++)
		net_expect_delivered(net, i);
	finish(net);
}

/* --- keepalive --- */

static struct net *
keepalive_pair(void)
{
	struct proto_config c = net_config();

	c.keepalive_us = 1000000; /* far beyond the timer wheel's horizon */
	c.flow_idle_us = 60000000;
	return pair_of(&c);
}

static void
keepalive__a_silent_peer_is_asked_and_answers(void **state)
{
	struct net *net = keepalive_pair();

	(void)state;
	net_run(net, 5500 * NET_MS);
	assert_in_range(net_logged(net, 0, WIRE_PING, 0) + net_logged(net, 1, WIRE_PING, 0), 4, 10);
	assert_int_equal(net_logged(net, 0, WIRE_PING, 0), net_logged(net, 1, WIRE_PONG, 0));
	assert_int_equal(net_count(net, 0, PROTO_peer_deaths), 0);
	finish(net);
}

static void
keepalive__death_takes_four_silent_periods(void **state)
{
	struct net *net = keepalive_pair();

	(void)state;
	net->nodes[1].dead = true;
	net_run(net, 3900 * NET_MS);
	assert_int_equal(net_count(net, 0, PROTO_peer_deaths), 0);
	assert_int_equal(net_logged(net, 0, WIRE_PING, 0), 3);
	net_run(net, 300 * NET_MS);
	assert_int_equal(net_count(net, 0, PROTO_peer_deaths), 1);
	net->nodes[1].dead = false;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
keepalive__goes_on_after_all_flows_were_forgotten(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.keepalive_us = 100000;
	c.flow_idle_us = 50000;
	struct net *net = pair_of(&c);

	net_run(net, NET_SEC);
	assert_int_equal(proto_flows_used(net->nodes[0].p), 0);
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	assert_int_equal(proto_flows_used(net->nodes[0].p), 1);
	net->nodes[0].p->flow_idle = 60 * NET_SEC;
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net->nodes[1].dead = true;
	net_run(net, NET_SEC);
	assert_int_equal(net_count(net, 0, PROTO_peer_deaths), 1);
	finish(net);
}

/* --- contexts --- */

static void
proto_ctx_close__linger_delivers(void **state)
{
	struct net *net = pair();

	(void)state;
	for (int i = 0; i < 20; i++)
		net_send(net, 0, 0, 1, 0, 2000);
	net_close(net, 0, 0, true);
	assert_true(proto_ctx_pending(net->nodes[0].p, 0) > 0);
	net_settle(net, NET_SEC);
	assert_int_equal(proto_ctx_pending(net->nodes[0].p, 0), 0);
	for (int i = 1; i <= 20; i++)
		net_expect_delivered(net, i);
	finish(net);
}

/* What a closing context had received is Acked, though nobody asks it any more: its sender must not
 * take a delivered message for a refused one. */
static void
proto_ctx_close__acks_what_it_had(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 1, 0, 0, 0, 10);
	net_settle(net, NET_SEC);
	int second = net_send(net, 1, 0, 0, 0, 10);

	for (int i = 0; i < 1000 && !net_delivered(net, second); i++)
		net_run(net, NET_US); /* delivered, but the Ack still waits for company */
	net_close(net, 0, 0, true);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, second);
	assert_int_equal(net_count(net, 1, PROTO_messages_failed), 0);
	assert_int_equal(net_count(net, 1, PROTO_timeouts), 0);
	finish(net);
}

static void
proto_ctx_close__linger_hears_acks_on_data_for_it(void **state)
{
	struct net *net = pair();

	(void)state;
	net_send(net, 1, 0, 0, 0, 10);
	net_settle(net, NET_SEC);
	net_send(net, 0, 0, 1, 0, 100);
	net_run(net, 20 * NET_US);
	net_close(net, 0, 0, true);
	net_send(net, 1, 0, 0, 0, 10); /* takes the Ack along, to a closing context */
	net_run(net, 20 * NET_US);
	assert_int_equal(proto_ctx_pending(net->nodes[0].p, 0), 0);
	net_settle(net, 5 * NET_SEC);
	finish(net);
}

static void
proto_ctx_close__abort_ends_at_once(void **state)
{
	struct net *net = pair();
	int m = net_send(net, 0, 0, 1, 0, 10 * 1024);
	struct proto_out out[5];

	(void)state;
	assert_int_equal(proto_tx(net->nodes[0].p, out, 5, net_ticks(net, 0)), 5);
	for (int i = 0; i < 5; i++)
		net_inject(net, 1, out[i].head, out[i].head_len + out[i].len);
	net_close(net, 0, 0, false);
	net_run(net, 100 * NET_US);
	net_expect_error(net, m, ECONNRESET);
	assert_int_equal(net_count(net, 1, PROTO_messages_aborted), 1);
	net_open(net, 0, 0, 8, 8);
	m = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
proto_ctx_close__receiver_closes_and_opens_again(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 0, false);
	net_open(net, 1, 0, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_error(net, m, ECONNRESET); /* the flow to the old opening */
	assert_int_equal(net->messages[m].arrived, 0);
	m = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
proto_ctx_close__nothing_is_delivered_to_it(void **state)
{
	struct net *net = pair();
	struct proto_delivery d[8];

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 1, 4);
	net->nodes[1].apps[1].paused = true;
	for (int i = 0; i < 3; i++) /* three flows, so that one waits when another is ended */
		net_send(net, 0, (unsigned)i, 1, 1, 100);
	net_run(net, NET_MS);
	for (int i = 0; i < 3; i++)
		net_send(net, 0, (unsigned)i, 1, 1, 100);
	net_run(net, NET_MS);
	uint64_t before = net_count(net, 1, PROTO_messages_delivered);

	proto_ctx_close(net->nodes[1].p, 1, false, net_ticks(net, 1));
	assert_int_equal(proto_deliver(net->nodes[1].p, d, 8), 0);
	assert_int_equal(net_count(net, 1, PROTO_messages_delivered), before);
	net->nodes[1].apps[1].open = false;
	net_settle(net, 10 * NET_SEC);
	net_free(net);
}

/* --- moving --- */

static void
proto_adopt__goes_on_in_the_midst_of_a_message(void **state)
{
	struct net *net = pair();

	(void)state;
	int m = net_send(net, 0, 0, 1, 0, 20000);

	net_run(net, 12 * NET_US);
	net_move(net, 0);
	net_move(net, 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	/* to its peer it is the same: nothing was greeted again */
	assert_int_equal(net_count(net, 1, PROTO_peer_restarts), 0);
	finish(net);
}

static void
proto_adopt__refuses_another_configuration(void **state)
{
	struct net *net = pair();
	struct proto_config c = net->nodes[0].cfg;

	(void)state;
	c.rto_min_us++;
	assert_null(proto_adopt(net->nodes[0].p, &c));
	c = net->nodes[0].cfg;
	c.flows_max *= 2;
	assert_null(proto_adopt(net->nodes[0].p, &c));
	c = net->nodes[0].cfg;
	c.node++;
	assert_null(proto_adopt(net->nodes[0].p, &c));
	finish(net);
}

/* --- flows --- */

static void
flow_make__pool_exhausted_then_reclaimed(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.flows_max = 4;
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 8, 8);
	for (unsigned i = 0; i < 4; i++)
		net_send(net, 0, i, 1, 0, 10);
	assert_int_equal(net_send(net, 0, 0, 2, 0, 10), -EAGAIN);
	net_settle(net, NET_SEC);
	net_run(net, 250 * NET_MS); /* idle for 4 rto_max */
	int m = net_send(net, 0, 0, 2, 0, 10);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_true(net_count(net, 0, PROTO_flows_reclaimed) >= 1);
	finish(net);
}

/* One that sends to all the world leaves flows for others, and goes on as its own come free. */
static void
flow_make__one_context_has_its_share(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.context_flows = 2;
	struct net *net = net_new(3, &c, 1);

	net_open_all(net, 8, 8);
	net_send(net, 0, 0, 1, 0, 10);
	net_send(net, 0, 0, 1, 1, 10);
	assert_int_equal(net_send(net, 0, 0, 2, 0, 10), -EAGAIN);
	assert_int_equal(net_count(net, 0, PROTO_flow_quota), 1);
	int other = net_send(net, 0, 1, 2, 0, 10);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, other);
	net_run(net, 250 * NET_MS); /* idle for 4 rto_max: its own may be forgotten */
	int m = net_send(net, 0, 0, 2, 0, 10);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
flow_forget__idle_flows_go_and_open_again(void **state)
{
	struct net *net = pair();

	(void)state;
	for (int i = 0; i < 5; i++) {
		net_run(net, (i & 1 ? 5000 : 1500) * NET_MS);
		if (i & 1)
			assert_int_equal(proto_flows_used(net->nodes[1].p), 0);
		int m = net_send(net, 0, 0, 1, 0, 10);

		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
	}
	finish(net);
}

static void
flow_forget__receiver_remembers_while_its_acks_renew_the_sender(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 1, 8);
	net->nodes[1].apps[1].paused = true;
	net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 1900 * NET_MS); /* flow_idle is 2 s; room comes, and an Ack with it */
	net_give_room(net, 1, 1);
	net_run(net, 900 * NET_MS);
	int m = net_send(net, 0, 0, 1, 1, 100);

	net_settle(net, NET_SEC);
	assert_int_equal(net->messages[m].error, 0);
	finish(net);
}

static void
flow__sequence_wraps(void **state)
{
	(void)state;
	for (int recovery = 0; recovery < 2; recovery++) {
		struct proto_config c = net_config();

		c.recovery = recovery ? PROTO_GO_BACK_N : PROTO_SELECTIVE;
		struct net *net = pair_of(&c);

		/* A new flow starts just before the wrap. */
		net_path(net, 0, 1)->isn_floor = UINT32_MAX - 40;
		net->loss = 50;
		for (int i = 0; i < 60; i++)
			net_send(net, 0, 1, 1, 1, 3000);
		net_settle(net, 5 * NET_SEC);
		assert_true(net_flow(net, 0, 1, 1, 1)->snd_end < 1000);
		for (int i = 1; i <= 60; i++)
			net_expect_delivered(net, i);
		finish(net);
	}
}

static void
flow__unopened_is_reset(void **state)
{
	struct net *net = pair();
	struct wire_hdr h = net_data(net, 0, 1, 4711, 10, 0);

	(void)state;
	h.src_ctx = wire_be16(3);
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_DONE);
	net_run(net, NET_US);
	assert_int_equal(net_count(net, 1, PROTO_drop_unopened), 1);
	assert_int_equal(net_logged(net, 1, WIRE_RESET, 0), 1);
	assert_int_equal(net->log[0].seq, 4711);
	net_run(net, NET_MS);
	finish(net);
}

static void
flow__stale_reset_is_ignored(void **state)
{
	struct net *net = pair();
	struct flow *f = net_flow(net, 0, 0, 1, 0);
	struct wire_hdr h = net_data(net, 1, 0, f->snd_una - 1, 0, 0);

	(void)state;
	h.type = WIRE_RESET;
	net->script = drop_data;
	net->script_left = 1;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_US);
	net_inject(net, 0, &h, sizeof(h));
	h.seq = wire_be32(f->snd_nxt);
	net_inject(net, 0, &h, sizeof(h));
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
fragments__that_do_not_fit_end_their_flow_only(void **state)
{
	static const struct {
		uint32_t msg_len, off;
		uint16_t len;
	} second[] = {
		{5000, 0, 1000},    /* starts again */
		{5000, 2000, 1000}, /* leaves one out */
		{5001, 1000, 1000}, /* of another message */
		{5000, 1000, 999},  /* of another size */
		{5000, 1000, 1024}, /* of another size */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
		struct net *net = pair();
		uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt;
		struct wire_hdr h = net_data(net, 0, 1, seq, 1000, 0);

		h.msg_len = wire_be32(5000);
		assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 1000), PROTO_RX_KEPT);
		h = net_data(net, 0, 1, seq + 1, second[i].len, 0);
		h.msg_len = wire_be32(second[i].msg_len);
		h.frag_off = wire_be32(second[i].off);
		assert_int_equal(net_inject(net, 1, &h, sizeof(h) + second[i].len), PROTO_RX_DONE);
		assert_int_equal(net_count(net, 1, PROTO_drop_field), 1);
		int m = net_send(net, 0, 1, 1, 0, 5000);

		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
		assert_int_equal(net_logged(net, 1, WIRE_RESET, 0), 1);
		assert_int_equal(net->nodes[1].rx_out, 0);
		finish(net);
	}
}

static void
fragments__held_ones_that_do_not_fit_end_their_flow(void **state)
{
	struct net *net = pair();
	uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt;
	struct wire_hdr h = net_data(net, 0, 1, seq + 1, 500, 0);

	(void)state;
	h.msg_len = wire_be32(5000);
	h.frag_off = wire_be32(4500);
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 500), PROTO_RX_KEPT);
	h = net_data(net, 0, 1, seq, 1000, 0);
	h.msg_len = wire_be32(5000);
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 1000), PROTO_RX_KEPT);
	net_run(net, NET_US);
	assert_int_equal(net->nodes[1].rx_out, 0); /* both came back */
	assert_int_equal(net_logged(net, 1, WIRE_RESET, 0), 1);
	net_run(net, NET_MS);
	finish(net);
}

static void
proto_rx__sequence_beyond_the_window_is_dropped(void **state)
{
	struct net *net = pair();
	uint32_t seq = net_flow(net, 1, 0, 0, 0)->rcv_nxt, window = net->nodes[1].cfg.window_frames;
	struct wire_hdr h = net_data(net, 0, 1, seq + window, 10, 0);

	(void)state;
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_DONE);
	assert_int_equal(net_count(net, 1, PROTO_drop_beyond), 1);
	h.seq = wire_be32(seq + window - 1);
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_KEPT);
	assert_int_equal(net_inject(net, 1, &h, sizeof(h) + 10), PROTO_RX_DONE);
	assert_int_equal(net_count(net, 1, PROTO_drop_old), 1);
	net_close(net, 1, 0, false);
	net_run(net, NET_MS);
	finish(net);
}

static void
proto_rx__every_drop_has_its_counter(void **state)
{
	struct net *net = pair();
	struct wire_hdr good = net_data(net, 0, 1, 1, 10, 0), h;
	uint32_t len = sizeof(good) + 10;

	(void)state;
#define EXPECT_DROP(change, length, counter)                                                       \
	do {                                                                                       \
		h = good;                                                                          \
		change;                                                                            \
		assert_int_equal(net_inject(net, 1, &h, (length)), PROTO_RX_DONE);                 \
		assert_int_equal(net_count(net, 1, PROTO_##counter), 1);                           \
		net_check_books(net, 1);                                                           \
	} while (0)
	EXPECT_DROP((void)0, len - 1, drop_truncated);
	EXPECT_DROP((void)0, len + 1, drop_oversized);
	EXPECT_DROP(h.version = 2, len, drop_version);
	EXPECT_DROP(h.type = 99, len, drop_type);
	EXPECT_DROP(h.flags = 0xFFFF, len, drop_flags);
	EXPECT_DROP(h.frag_off = wire_be32(11), len, drop_field);
	EXPECT_DROP(h.dst_node = 0, len, drop_not_mine);
	EXPECT_DROP(h.src_node = wire_be16(NET_NODES), len, drop_no_node);
	EXPECT_DROP(h.session ^= 1, len, drop_session);
	EXPECT_DROP(h.dst_ctx = wire_be16(NET_CTXS), len, drop_absent);
	EXPECT_DROP(h.src_ctx = wire_be16(3), len, drop_unopened);
#undef EXPECT_DROP
	net_run(net, NET_MS);
	finish(net);
}

static void
proto_rx__ack_without_its_flag_is_no_ack(void **state)
{
	struct net *net = pair();

	(void)state;
	net->script = drop_data;
	net->script_left = 1;
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, NET_US);
	struct wire_hdr h = net_data(net, 1, 0, 0, 0, 0);

	h.type = WIRE_ACK;
	h.ack = wire_be32(net_flow(net, 0, 0, 1, 0)->snd_nxt);
	net_inject(net, 0, &h, sizeof(h));
	net_run(net, NET_US);
	assert_int_equal(net->nodes[0].tx_out, 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

/* --- sizes --- */

static void
proto_flow_bytes__at_most_256(void **state)
{
	(void)state;
	assert_true(proto_flow_bytes() <= 256);
}

static void
proto_init__pools_of_size_one(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.flows_max = c.paths_max = c.tx_frames_max = c.rx_frames_max = 1;
	c.window_frames = c.path_frames = c.path_bytes = c.ack_every = 1;
	struct net *net = net_new(2, &c, 1);

	net->nodes[0].burst = net->nodes[1].burst = 1;
	net_open_all(net, 1, 1);
	for (int i = 0; i < 20; i++) {
		int m = net_send(net, 0, 0, 1, 0, (uint32_t)i * 50);

		net_settle(net, NET_SEC);
		net_expect_delivered(net, m);
	}
	finish(net);
}

/* A thread whose every turn comes late is granted time to look before its timers run, but not again
 * and again: a send to nobody ends. */
static void
timers__of_a_thread_that_is_always_slow(void **state)
{
	struct proto_config c = net_config();
	struct proto_out out[8];
	struct proto_completion done;
	struct proto_message m = {.dst_node = 1, .len = 10, .frag_len = 100};
	const uint64_t handle = 7;

	(void)state;
	c.node = 0;
	c.epoch = 1;
	void *memory = aligned_alloc(64, proto_memsize(&c));

	memset(memory, 0, proto_memsize(&c));
	uint64_t ms = c.ticks_per_sec / 1000, now = 1000 * ms;
	struct proto *p = proto_init(memory, &c, now);

	assert_int_equal(proto_ctx_open(p, 0, 8, 8, 40, now), 0);
	assert_int_equal(proto_send(p, &m, &handle, now), 0);
	for (int turns = 0; proto_complete(p, &done, 1) == 0; turns++) {
		assert_in_range(turns, 0, 100000);
		now += 2 * p->rto_min;
		proto_begin(p, now);
		while (proto_tx(p, out, 8, now) > 0)
			;
		proto_tick(p, now);
	}
	assert_int_equal(done.handle, 7);
	assert_true(done.error != 0);
	free(memory);
}

static void
proto_init__clock_rates(void **state)
{
	static const uint64_t rates[] = {1000, 999983, NET_SEC, 5000000000u};

	(void)state;
	for (unsigned r = 0; r < 4; r++) {
		struct proto_config c = net_config();

		c.ticks_per_sec = rates[r];
		struct net *net = pair_of(&c);

		net->loss = 100;
		net->jitter = 100 * NET_US;
		for (int i = 0; i < 100; i++) {
			net_send(net, 0, 0, 1, 0, (uint32_t)i * 40);
			net_send(net, 1, 0, 0, 0, (uint32_t)i * 40);
			net_run(net, 100 * NET_US);
		}
		net_settle(net, 20 * NET_SEC);
		for (int i = 0; i <= 200; i++)
			net_expect_delivered(net, i);
		finish(net);
	}
}

static void
proto_memsize__refuses_wrong_configurations(void **state)
{
	const struct proto_config good = net_config();
	struct proto_config c;

	(void)state;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		c = good;                                                                          \
		c.epoch = 1;                                                                       \
		assert_true(proto_memsize(&c) > 0);                                                \
		change;                                                                            \
		assert_int_equal(proto_memsize(&c), 0);                                            \
	} while (0)
	REFUSED(c.node = (uint16_t)c.nodes_max);
	REFUSED(c.epoch = 0);
	REFUSED(c.ticks_per_sec = 999);
	REFUSED(c.ticks_per_sec = 5000000001u);
	REFUSED(c.flows_max = 0);
	REFUSED(c.paths_max = 0);
	REFUSED(c.tx_frames_max = 0);
	REFUSED(c.rx_frames_max = 0);
	REFUSED(c.window_frames = WIRE_WINDOW_MAX + 1);
	REFUSED(c.payload_max = WIRE_HOLES_MAX - 1); /* could not take a Nack */
	REFUSED(c.payload_max = WIRE_PAYLOAD_MAX + 1);
	REFUSED(c.rto_max_us = c.rto_min_us - 1);
	REFUSED(c.retries = 0);
	REFUSED(c.cc = NULL);
#undef REFUSED
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pm_s1__sequence_is_consecutive_per_flow),
		cmocka_unit_test(pm_s1__message_is_kept_until_its_ack),
		cmocka_unit_test(pm_s2__one_ack_frees_all_it_covers),
		cmocka_unit_test(pm_s3__nack_retransmits_what_it_names_selective),
		cmocka_unit_test(pm_s3__nack_retransmits_what_it_names_go_back_n),
		cmocka_unit_test(pm_s2__what_is_no_ack_frees_nothing),
		cmocka_unit_test(pm_s3__nack_has_an_echo_though_data_took_the_ack),
		cmocka_unit_test(pm_s4__timeout_retransmits),
		cmocka_unit_test(pm_adv__a_late_ack_gives_the_window_back),
		cmocka_unit_test(pm_s4__timeout_is_measured_from_rtt),
		cmocka_unit_test(pm_s4__timeout_is_measured_on_a_coarse_clock),
		cmocka_unit_test(pm_s4__backed_off_timeout_ends_with_the_first_answer),
		cmocka_unit_test(pm_s4__backs_off_then_etimedout),
		cmocka_unit_test(pm_s4__retries_count_anew_after_an_answer),
		cmocka_unit_test(pm_s4__econnrefused_when_the_context_never_opens),
		cmocka_unit_test(pm_s4__a_context_that_opens_late_gets_the_message),
		cmocka_unit_test(pm_s4__what_a_new_life_asks_is_answered_at_once),
		cmocka_unit_test(pm_s4__a_new_life_is_answered_though_nothing_was_in_flight),
		cmocka_unit_test(pm_s4__a_late_refusal_of_a_frame_that_arrived_since_says_nothing),
		cmocka_unit_test(pm_s4__ehostunreach_when_nobody_answers_hello),
		cmocka_unit_test(hello__is_repeated_though_a_stranger_was_greeted_first),
		cmocka_unit_test(pm_r1__in_sequence_is_stored_and_acked),
		cmocka_unit_test(pm_r2__no_room_is_nacked_and_arrives_later),
		cmocka_unit_test(pm_r2__a_full_receiver_is_no_timeout_error),
		cmocka_unit_test(pm_r2__a_full_receiver_is_no_congestion),
		cmocka_unit_test(pm_r2__questions_for_room_become_rare),
		cmocka_unit_test(pm_r2__an_unanswered_question_is_a_timeout),
		cmocka_unit_test(pm_r2__a_lost_credit_update_is_asked_for),
		cmocka_unit_test(pm_r2__credit_closed_while_nothing_waits_is_asked_for),
		cmocka_unit_test(pm_r2__held_frames_are_delivered_when_room_comes),
		cmocka_unit_test(pm_r2__opening_frame_goes_alone_after_a_refusal),
		cmocka_unit_test(pm_r2__large_message_is_not_starved_by_small_ones),
		cmocka_unit_test(lhs_6__short_messages_pass_long_ones_of_others_that_wait),
		cmocka_unit_test(pm_r2__waits_for_descriptors_end_without_new_room),
		cmocka_unit_test(pm_r2__who_waited_for_descriptors_has_one_place),
		cmocka_unit_test(pm_r2__copied_contexts_share_frames),
		cmocka_unit_test(pm_r5__frames_held_out_of_order_are_bounded),
		cmocka_unit_test(pm_r2__held_frames_do_not_block_their_own_message),
		cmocka_unit_test(pm_r3__old_sequence_is_discarded_and_acked_again),
		cmocka_unit_test(pm_r4__gap_is_nacked_naming_the_expected),
		cmocka_unit_test(pm_r4__nack_does_not_wait_behind_another_flows_ack),
		cmocka_unit_test(pm_r5__go_back_n_discards_until_the_nacked_arrives),
		cmocka_unit_test(pm_r5__selective_keeps_what_arrived),
		cmocka_unit_test(pm_adv__window_in_frames),
		cmocka_unit_test(pm_adv__window_in_bytes),
		cmocka_unit_test(pm_adv__nack_shrinks_acks_restore_cc_pm),
		cmocka_unit_test(pm_adv__cc_delay_starts_slowly),
		cmocka_unit_test(pm_adv__a_window_grows_by_use_only),
		cmocka_unit_test(share__bounds_the_flight),
		cmocka_unit_test(share__lost_frames_keep_within_it),
		cmocka_unit_test(share__one_sender_is_told_no_bound),
		cmocka_unit_test(share__a_smaller_share_does_not_stop_probes),
		cmocka_unit_test(share__old_frames_are_no_senders),
		cmocka_unit_test(share__what_is_taken_for_a_wait),
		cmocka_unit_test(pm_adv__small_messages_restore_the_window_too),
		cmocka_unit_test(pm_adv__cc_delay_tells_congestion_from_a_bad_cable),
		cmocka_unit_test(pm_adv__frames_kept_by_the_peer_are_not_in_flight),
		cmocka_unit_test(pm_s4__a_lost_tail_is_probed_for),
		cmocka_unit_test(pm_adv__cc_delay_follows_the_delay),
		cmocka_unit_test(pm_adv__cc_delay_ignores_single_late_frames),
		cmocka_unit_test(pm_adv__cc_delay_without_any_measurement),
		cmocka_unit_test(pm_ackc__one_ack_for_a_run),
		cmocka_unit_test(pm_ackc__frames_one_by_one_are_acked_by_their_number),
		cmocka_unit_test(pm_ackc__ack_rides_on_reverse_data),
		cmocka_unit_test(pm_ackc__delay_is_bounded),
		cmocka_unit_test(pm_ackc__delay_is_bounded_while_data_fills_every_burst),
		cmocka_unit_test(pm_mtu__8192_bytes_in_one_piece),
		cmocka_unit_test(pm_mtu__8_mib_fragmented),
		cmocka_unit_test(proto_send__zero_length),
		cmocka_unit_test(proto_send__refuses_what_can_never_go),
		cmocka_unit_test(proto_send__to_oneself),
		cmocka_unit_test(epoch__restart_of_the_receiver_ends_what_is_in_flight),
		cmocka_unit_test(epoch__frames_of_the_senders_old_life_are_not_delivered),
		cmocka_unit_test(
			epoch__half_received_message_of_a_restarted_peer_gives_its_room_back),
		cmocka_unit_test(epoch__frames_held_of_an_old_life_go_at_once),
		cmocka_unit_test(epoch__a_new_life_after_a_death_begins_at_any_sequence),
		cmocka_unit_test(epoch__replayed_hello_of_an_old_life_changes_nothing),
		cmocka_unit_test(epoch__lost_hellos_are_repeated),
		cmocka_unit_test(epoch__duplicated_frames_change_nothing),
		cmocka_unit_test(keepalive__a_silent_peer_is_asked_and_answers),
		cmocka_unit_test(keepalive__death_takes_four_silent_periods),
		cmocka_unit_test(keepalive__goes_on_after_all_flows_were_forgotten),
		cmocka_unit_test(proto_ctx_close__linger_delivers),
		cmocka_unit_test(proto_ctx_close__acks_what_it_had),
		cmocka_unit_test(proto_ctx_close__linger_hears_acks_on_data_for_it),
		cmocka_unit_test(proto_ctx_close__abort_ends_at_once),
		cmocka_unit_test(proto_ctx_close__receiver_closes_and_opens_again),
		cmocka_unit_test(proto_ctx_close__nothing_is_delivered_to_it),
		cmocka_unit_test(proto_adopt__goes_on_in_the_midst_of_a_message),
		cmocka_unit_test(proto_adopt__refuses_another_configuration),
		cmocka_unit_test(flow_make__pool_exhausted_then_reclaimed),
		cmocka_unit_test(flow_make__one_context_has_its_share),
		cmocka_unit_test(flow_forget__idle_flows_go_and_open_again),
		cmocka_unit_test(flow_forget__receiver_remembers_while_its_acks_renew_the_sender),
		cmocka_unit_test(flow__sequence_wraps),
		cmocka_unit_test(flow__unopened_is_reset),
		cmocka_unit_test(flow__stale_reset_is_ignored),
		cmocka_unit_test(fragments__that_do_not_fit_end_their_flow_only),
		cmocka_unit_test(fragments__held_ones_that_do_not_fit_end_their_flow),
		cmocka_unit_test(proto_rx__sequence_beyond_the_window_is_dropped),
		cmocka_unit_test(proto_rx__every_drop_has_its_counter),
		cmocka_unit_test(proto_rx__ack_without_its_flag_is_no_ack),
		cmocka_unit_test(proto_flow_bytes__at_most_256),
		cmocka_unit_test(proto_init__pools_of_size_one),
		cmocka_unit_test(timers__of_a_thread_that_is_always_slow),
		cmocka_unit_test(proto_init__clock_rates),
		cmocka_unit_test(proto_memsize__refuses_wrong_configurations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
