/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: sending, Acks, messages, contexts. One behaviour a test, named by requirement
 * (doc/requirements.md) where it has one. Virtual time, scripted network: see proto_pair.h, whose
 * harness judges every handle and message.
 */
#include "proto_cases.h"

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

/* Check that what the peer holds out of order has left the network: it does not keep the hole from
 * being sent. */
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

/* Context 0 of node 0 is open, and waits for receivers that are not for that long. */
static struct net *
waits_for(uint32_t open_wait_us)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	net_open(net, 0, 0, 8, 8);
	proto_ctx_open_wait(net->nodes[0].p, 0, open_wait_us);
	return net;
}

static void
open_wait__refused_within_a_round_trip_when_none_is_asked_for(void **state)
{
	struct net *net = waits_for(0);

	(void)state;
	for (int again = 0; again < 2; again++) {
		int m = net_send(net, 0, 0, 1, 0, 5000);

		net_run(net, 200 * NET_US);
		net_expect_error(net, m, ECONNREFUSED);
		assert_int_equal(net_count(net, 1, PROTO_drop_absent), 1 + again);
		assert_int_equal(net_count(net, 0, PROTO_tx_retransmits), 0);
	}
	finish(net);
}

static void
open_wait__refused_when_it_is_over(void **state)
{
	(void)state;
	/* the last for longer than all retries take */
	for (uint32_t ms = 10; ms <= 20000; ms *= 20) {
		struct net *net = waits_for(ms * 1000);
		int m = net_send(net, 0, 0, 1, 0, 100);
		uint64_t most = (ms + 50 + 35) * NET_MS; /* rto_max, and twice 16 ms */

		net_settle(net, 60 * NET_SEC);
		net_expect_error(net, m, ECONNREFUSED);
		assert_in_range(net->messages[m].done_at - net->messages[m].sent_at, ms * NET_MS,
			most);
		finish(net);
	}
}

static void
open_wait__a_context_that_opens_late_gets_the_message(void **state)
{
	(void)state;
	for (uint64_t ms = 20; ms <= 8000; ms *= 20) {
		struct net *net = waits_for(10000000);
		int m = net_send(net, 0, 0, 1, 0, 5000);

		net_run(net, ms * NET_MS);
		net_open(net, 1, 0, 8, 8);
		net_run(net, 60 * NET_MS); /* rto_max */
		net_expect_delivered(net, m);
		net_settle(net, NET_SEC);
		finish(net);
	}
}

static void
open_wait__a_node_that_starts_late_gets_the_message(void **state)
{
	struct net *net = waits_for(2000000);

	(void)state;
	net_open(net, 0, 1, 8, 8); /* does not wait */
	net->nodes[1].dead = true;
	int waits = net_send(net, 0, 0, 1, 0, 100), does_not = net_send(net, 0, 1, 1, 0, 100);

	net_run(net, NET_SEC);
	net_expect_error(net, does_not, EHOSTUNREACH);
	assert_int_equal(net->messages[waits].completed, 0);
	net_restart(net, 1);
	net->nodes[1].dead = false;
	net_open(net, 1, 0, 8, 8);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, waits);
	finish(net);
}

/* Both ends hold frames for the other; the one at node 1 ends without a word and is followed by a
 * new life. */
static struct net *
pair_with_a_dead_one(bool established, int *stale)
{
	struct net *net = waits_for(1000000);

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
	h.seq = wire_be32(f->snd_una - 1);
	net_inject(net, 0, &h, sizeof(h));
	assert_false(f->flags & FLOW_REFUSED);
	h.seq = wire_be32(f->snd_nxt);
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
	assert_in_range(net->messages[m].done_at - net->messages[m].sent_at, c.hello_us * NET_US,
		c.hello_us * NET_US * 11 / 10);
	assert_in_range(net_logged(net, 0, WIRE_HELLO, WIRE_F_ASK), 8, 20);
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

/* --- contexts --- */

/* ------------------------------------------------------------------ nodes that go */

static void
proto_node_gone__ends_what_is_sent_to_it(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	int before = net_send(net, 0, 0, 1, 0, 100), stays = net_send(net, 0, 0, 2, 0, 100);

	net_settle(net, NET_SEC);
	net->loss = 1000;
	int part = net_send(net, 0, 0, 1, 0, 50000), other = net_send(net, 0, 0, 2, 0, 100);

	net_run(net, NET_MS);
	proto_node_gone(net->nodes[0].p, 1);
	proto_node_gone(net->nodes[0].p, 1); /* once more does no harm */
	net->loss = 0;
	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, before);
	net_expect_delivered(net, stays);
	net_expect_delivered(net, other);
	net_expect_error(net, part, EHOSTUNREACH);
	finish(net);
}

static void
proto_node_gone__comes_back(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	int before = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	proto_node_gone(net->nodes[0].p, 1);
	int after = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, before);
	net_expect_delivered(net, after);
	/* the other side's flow of before is not known here any more, and opens anew */
	int back = net_send(net, 1, 0, 0, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, back);
	finish(net);
}

/* ------------------------------------------------------------------ domains */

static void
proto_ctx_domain__strangers_are_refused(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	proto_ctx_domain(net->nodes[1].p, 0, 77);
	proto_ctx_domain(net->nodes[0].p, 1, 78);
	int none = net_send(net, 0, 0, 1, 0, 100), other = net_send(net, 0, 1, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, none, ECONNREFUSED);
	net_expect_error(net, other, ECONNREFUSED);
	assert_true(net_count(net, 1, PROTO_drop_domain) > 1);
	assert_int_equal(proto_flows_used(net->nodes[1].p), 0);
	finish(net);
}

static void
proto_ctx_domain__the_same_domain_delivers(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	for (unsigned n = 0; n < 2; n++)
		proto_ctx_domain(net->nodes[n].p, 0, 77);
	net->loss = 200;
	int a = net_send(net, 0, 0, 1, 0, 100), b = net_send(net, 1, 0, 0, 0, 5000);
	/* who is in a domain may send to who is in none */
	int out = net_send(net, 0, 0, 1, 1, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, a);
	net_expect_delivered(net, b);
	net_expect_delivered(net, out);
	assert_int_equal(net_count(net, 0, PROTO_drop_domain), 0);
	assert_int_equal(net_count(net, 1, PROTO_drop_domain), 0);
	finish(net);
}

/* The number of a context passes to another job's: its flows of before do not let it in. */
static void
proto_ctx_domain__a_later_life_is_looked_at_again(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	for (unsigned n = 0; n < 2; n++)
		proto_ctx_domain(net->nodes[n].p, 0, 77);
	int before = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, before);
	net_close(net, 0, 0, true);
	net_settle(net, NET_SEC);
	net_open(net, 0, 0, 8, 8);
	proto_ctx_domain(net->nodes[0].p, 0, 78);
	int after = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, after, ECONNREFUSED);
	finish(net);
}

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

/* Check that what a closing context had received is Acked, though nobody asks it any more: its
 * sender must not take a delivered message for a refused one. */
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
	net_expect_delivered(net, m);
	finish(net);
}

/* script_left - 1 data frames reach node 1, and no more; nothing comes from it. 0: all passes. */
static enum net_verdict
a_few_data_and_no_answer(struct net *net, struct net_frame *f)
{
	if (net->script_left == 0)
		return NET_PASS;
	if (f->src == 1 || (f->type == WIRE_DATA && net->script_left == 1))
		return NET_DROP;
	net->script_left -= f->type == WIRE_DATA;
	return NET_PASS;
}

/* Check that the old life of a receiver tells what it got of three messages: the first, part of the
 * second, and nothing of the third. It tells so to the frames that come after its end. */
static void
proto_ctx_close__what_its_life_had_is_told(void **state)
{
	(void)state;
	for (int opens = 0; opens < 2; opens++) {
		struct net *net = pair();

		net->script = a_few_data_and_no_answer;
		net->script_left = 4;
		int first = net_send(net, 0, 0, 1, 0, 100), rest = net_send(net, 0, 0, 1, 0, 6000),
		    third = net_send(net, 0, 0, 1, 0, 100);

		net_run(net, 100 * NET_US);
		net_close(net, 1, 0, false);
		if (opens)
			net_open(net, 1, 0, 8, 8);
		net->script_left = 0;
		net_settle(net, NET_SEC);
		net_expect_delivered(net, first);
		net_expect_error(net, rest, opens ? ECONNRESET : ECONNREFUSED);
		if (opens)
			net_expect_delivered(net, third);
		else
			net_expect_error(net, third, ECONNREFUSED);
		finish(net);
	}
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

/* Frames that the peer does not take are never sent, also not those that waited for its HELLO. */
static void
proto_send__longer_than_the_peer_takes(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	struct proto_path_stat s;

	(void)state;
	net->nodes[1].cfg.payload_max = 512;
	net_restart(net, 1);
	net_open_all(net, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 1000);

	net_run(net, 10 * NET_MS);
	net_expect_error(net, m, EMSGSIZE);
	assert_int_equal(net_send(net, 0, 0, 1, 0, 1000), -EMSGSIZE);
	m = net_send(net, 0, 0, 1, 0, 500);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_int_equal(net_count(net, 1, PROTO_drop_oversized), 0);
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.payload_max, 512);
	finish(net);
}

/* A node with another proto.checksum gets no session, and both know why. */
static void
proto_send__to_a_peer_of_another_setting(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	struct proto_path_stat s;

	(void)state;
	net->nodes[1].cfg.checksum = true;
	net_restart(net, 1);
	net_open_all(net, 8, 8);
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_run(net, 2 * NET_SEC);
	net_expect_error(net, m, EHOSTUNREACH);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(proto_path_stat(net->nodes[i].p, (uint16_t)!i, &s));
		assert_true(s.unlike && !s.established && s.checksum == (i == 0));
		assert_true(net_count(net, i, PROTO_drop_setting) > 0);
	}
	finish(net);
}

/* A peer of another version is named; what it says later in ours takes that back. */
static void
proto_send__to_a_peer_of_another_version(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	struct wire_hdr h = net_data(net, 1, 0, 1, 0, 0);
	struct proto_path_stat s;

	(void)state;
	net_open_all(net, 8, 8);
	h.version = WIRE_VERSION + 1;
	net_inject(net, 0, &h, sizeof(h));
	assert_false(proto_path_stat(net->nodes[0].p, 1, &s)); /* nobody asked for it */
	int m = net_send(net, 0, 0, 1, 0, 100);

	net_inject(net, 0, &h, sizeof(h));
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.other_version, WIRE_VERSION + 1);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.other_version, 0);
	finish(net);
}

/* Another node of the same number is told of, and which others there are, but not this node's own
 * announcement. */
static void
proto_announce__is_heard_by_twins(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(3, &c, 1);
	uint8_t frame[WIRE_HDR_BYTES + sizeof(struct wire_hello)];

	(void)state;
	proto_announce(net->nodes[0].p, frame, net_ticks(net, 0));
	assert_int_equal(net_inject(net, 1, frame, sizeof(frame)), PROTO_RX_ANNOUNCED);
	assert_int_equal(net_inject(net, 0, frame, sizeof(frame)), PROTO_RX_DONE);
	((struct wire_hello *)(frame + WIRE_HDR_BYTES))->epoch ^= 1;
	assert_int_equal(net_inject(net, 0, frame, sizeof(frame)), PROTO_RX_TWIN);
	((struct wire_hdr *)frame)->src_node = ((struct wire_hdr *)frame)->dst_node = wire_be16(
		(uint16_t)c.nodes_max);
	assert_int_equal(net_inject(net, 1, frame, sizeof(frame)), PROTO_RX_DONE);
	for (unsigned i = 0; i < 2; i++)
		net_check_books(net, i);
	net_free(net);
}

/* A network that passes no frame above some size. */
static enum net_verdict
short_frames_pass(struct net *net, struct net_frame *f)
{
	(void)net;
	return f->len > 3000 ? NET_DROP : NET_PASS;
}

/* Check that it is found out when long frames do not pass, and that what needs them ends by that,
 * long before all retries; short messages arrive. Where long ones pass, losses are not taken for
 * it. */
static void
proto_send__longer_than_the_network_passes(void **state)
{
	struct proto_config c = net_config();
	struct proto_path_stat s;

	c.payload_max = 8000;
	c.retries = 16;
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 40);
	net->script = short_frames_pass;
	int first = net_send(net, 0, 0, 1, 0, 100), is_long = net_send(net, 0, 0, 1, 0, 20000);
	int other = net_send(net, 0, 1, 1, 1, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, first);
	net_expect_delivered(net, other);
	net_expect_error(net, is_long, EMSGSIZE);
	assert_in_range(net_count(net, 0, PROTO_timeouts), 12, 14);
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.too_long, 8000);
	assert_int_equal(net_send(net, 0, 0, 1, 0, 20000), -EMSGSIZE);
	int again = net_send(net, 0, 0, 1, 0, 1000);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, again);
	/* in the peer's next life it may be otherwise */
	net->script = NULL;
	net_restart(net, 1);
	net_open(net, 1, 0, 8, 40);
	net_send(net, 0, 0, 1, 0, 10); /* may be what finds it out */
	net_settle(net, 10 * NET_SEC);
	int late = net_send(net, 0, 0, 1, 0, 20000);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, late);
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.too_long, 0);
	finish(net);
	/* a lossy one that passes all */
	for (uint64_t seed = 1; seed < 30; seed++) {
		net = net_new(2, &c, seed);
		net_open_all(net, 8, 40);
		net->loss = 250;
		for (unsigned i = 0; i < 10; i++)
			net_send(net, 0, 0, 1, 0, 20000);
		net_settle(net, 100 * NET_SEC);
		for (int i = 0; i < 10; i++)
			net_expect_delivered(net, i);
		finish(net);
	}
}

/* A full queue lets short frames in and no long ones. Where long ones have passed before, it is not
 * the path that does not take them. */
static void
proto_send__longer_than_a_full_queue_takes(void **state)
{
	struct proto_config c = net_config();
	struct proto_path_stat s;

	c.payload_max = 8000;
	c.retries = 100;
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 40);
	const int first = net_send(net, 0, 0, 1, 0, 20000);

	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, first);
	net->script = short_frames_pass;
	const int second = net_send(net, 0, 0, 1, 0, 20000);

	net_run(net, NET_SEC);
	assert_true(net_count(net, 0, PROTO_timeouts) > 6);
	net->script = NULL;
	net_settle(net, 10 * NET_SEC);
	net_expect_delivered(net, second);
	assert_true(proto_path_stat(net->nodes[0].p, 1, &s));
	assert_int_equal(s.too_long, 0);
	finish(net);
}

/* Check that some of the messages can be taken back that wait behind a window that is used up: the
 * others arrive, in order, and nothing is lost. */
static void
proto_withdraw__what_has_not_left_is_not_sent(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	int m[12], away;

	(void)state;
	net_open_all(net, 4, 4);
	away = net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	net->nodes[1].apps[0].paused = true; /* gives no room back */
	for (unsigned i = 0; i < 12; i++)
		m[i] = net_send(net, 0, 0, 1, 0, i % 3 == 2 ? 3 * c.payload_max : 100);
	net_run(net, 20 * NET_MS);
	assert_false(net_withdraw(net, m[0]));
	assert_false(net_withdraw(net, away));
	assert_true(net_withdraw(net, m[11])); /* the last */
	assert_true(net_withdraw(net, m[8]));  /* in the middle, of three frames */
	assert_false(net_withdraw(net, m[8]));
	net->nodes[1].apps[0].paused = false;
	net_give_room(net, 1, 0);
	net_settle(net, 10 * NET_SEC);
	for (unsigned i = 0; i < 12; i++) {
		if (i == 8 || i == 11)
			net_expect_error(net, m[i], ECANCELED);
		else
			net_expect_delivered(net, m[i]);
	}
	finish(net);
}

/* All that waits for a node that does not answer yet is taken back: nothing is left to be done, and
 * what is sent later arrives. */
static void
proto_withdraw__the_only_ones(void **state)
{
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
	net->loss = 1000;
	int one = net_send(net, 0, 0, 1, 0, 100), two = net_send(net, 0, 0, 1, 0, 5000);

	net_run(net, NET_MS);
	assert_true(net_withdraw(net, one));
	assert_true(net_withdraw(net, two));
	net_run(net, 100 * NET_MS);
	net->loss = 0;
	int later = net_send(net, 0, 0, 1, 0, 100);

	net_settle(net, 10 * NET_SEC);
	net_expect_error(net, one, ECANCELED);
	net_expect_error(net, two, ECANCELED);
	net_expect_delivered(net, later);
	finish(net);
}

/* A node that is wanted is asked, though nothing is sent to it: its death is noticed, and that it
 * is there again. */
static void
proto_node_wanted__is_looked_for(void **state)
{
	struct proto_config c = net_config();
	struct proto_path_stat s;

	c.keepalive_us = 50000;
	c.hello_us = 100000;
	struct net *net = net_new(2, &c, 1);

	(void)state;
	net_open_all(net, 8, 8);
#define WAIT_FOR(condition)                                                                        \
	for (unsigned i_ = 0;; i_++) {                                                             \
		assert_true(i_ < 200);                                                             \
		proto_node_wanted(net->nodes[0].p, 0, 1, net_ticks(net, 0) + c.ticks_per_sec,      \
			net_ticks(net, 0));                                                        \
		net_run(net, 10 * NET_MS);                                                         \
		assert_true(proto_path_stat(net->nodes[0].p, 1, &s));                              \
		if (condition)                                                                     \
			break;                                                                     \
	}
	WAIT_FOR(s.established)
	net->nodes[1].dead = true;
	WAIT_FOR(s.dead && !s.established)
	const uint64_t asked = net_logged(net, 0, WIRE_HELLO, 0);

	for (unsigned i = 0; i < 100; i++) /* asked now and then, not without end */
		WAIT_FOR(true)
	assert_in_range(net_logged(net, 0, WIRE_HELLO, 0) - asked, 1, 60);
	net->nodes[1].dead = false;
	net_restart(net, 1);
	net_open(net, 1, 0, 8, 8);
	WAIT_FOR(s.established)
#undef WAIT_FOR
	/* nobody wants it any more */
	net_run(net, 10 * NET_SEC);
	const uint32_t frames = net->log_count;

	net_run(net, 10 * NET_SEC);
	assert_int_equal(net->log_count, frames);
	finish(net);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proto_send__longer_than_the_peer_takes),
		cmocka_unit_test(proto_send__to_a_peer_of_another_setting),
		cmocka_unit_test(proto_send__to_a_peer_of_another_version),
		cmocka_unit_test(proto_announce__is_heard_by_twins),
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
		cmocka_unit_test(open_wait__refused_within_a_round_trip_when_none_is_asked_for),
		cmocka_unit_test(open_wait__refused_when_it_is_over),
		cmocka_unit_test(open_wait__a_context_that_opens_late_gets_the_message),
		cmocka_unit_test(open_wait__a_node_that_starts_late_gets_the_message),
		cmocka_unit_test(pm_s4__what_a_new_life_asks_is_answered_at_once),
		cmocka_unit_test(pm_s4__a_new_life_is_answered_though_nothing_was_in_flight),
		cmocka_unit_test(pm_s4__a_late_refusal_of_a_frame_that_arrived_since_says_nothing),
		cmocka_unit_test(pm_s4__ehostunreach_when_nobody_answers_hello),
		cmocka_unit_test(hello__is_repeated_though_a_stranger_was_greeted_first),
		cmocka_unit_test(pm_adv__frames_kept_by_the_peer_are_not_in_flight),
		cmocka_unit_test(pm_s4__a_lost_tail_is_probed_for),
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
		cmocka_unit_test(proto_node_gone__ends_what_is_sent_to_it),
		cmocka_unit_test(proto_node_gone__comes_back),
		cmocka_unit_test(proto_send__longer_than_the_network_passes),
		cmocka_unit_test(proto_send__longer_than_a_full_queue_takes),
		cmocka_unit_test(proto_withdraw__what_has_not_left_is_not_sent),
		cmocka_unit_test(proto_withdraw__the_only_ones),
		cmocka_unit_test(proto_node_wanted__is_looked_for),
		cmocka_unit_test(proto_ctx_domain__strangers_are_refused),
		cmocka_unit_test(proto_ctx_domain__the_same_domain_delivers),
		cmocka_unit_test(proto_ctx_domain__a_later_life_is_looked_at_again),
		cmocka_unit_test(proto_ctx_close__linger_delivers),
		cmocka_unit_test(proto_ctx_close__acks_what_it_had),
		cmocka_unit_test(proto_ctx_close__linger_hears_acks_on_data_for_it),
		cmocka_unit_test(proto_ctx_close__abort_ends_at_once),
		cmocka_unit_test(proto_ctx_close__receiver_closes_and_opens_again),
		cmocka_unit_test(proto_ctx_close__what_its_life_had_is_told),
		cmocka_unit_test(proto_ctx_close__nothing_is_delivered_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
