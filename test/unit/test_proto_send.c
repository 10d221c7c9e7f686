/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: sending, Acks, messages. One behaviour a test, named by requirement
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

/* A flow whose Acks wait longer than its window lasts asks for one after a quarter of the
 * window. */
static void
pm_ackc__is_asked_for_before_the_window_is_used_up(void **state)
{
	struct proto_config c = net_config();
	const uint32_t frame = c.payload_max + WIRE_HDR_BYTES;
	uint32_t frames = 0, unasked = 0, most = 0;

	(void)state;
	c.ack_every = 1000;
	c.ack_delay_us = 100000;
	c.path_bytes = 40 * frame;
	c.cc = &cc_pm; /* begins with all of its window */
	struct net *net = pair_of(&c);
	int m = net_send(net, 0, 0, 1, 0, 400 * c.payload_max);

	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	for (uint32_t i = 0; i < net->log_count; i++) {
		const struct net_frame *f = &net->log[i];

		if (f->type != WIRE_DATA || f->src != 0)
			continue;
		frames++;
		unasked = f->flags & WIRE_F_ASK ? 0 : unasked + 1;
		most = unasked > most ? unasked : most;
	}
	assert_int_equal(frames, 400);
	assert_in_range(most, 5, 10);
	finish(net);
}

/* --- who sends next --- */

/* Two nodes with a window of one frame, so that each frame waits for the Ack of the one before it;
 * the flows between contexts 0 and between contexts 1 are open. */
static struct net *
narrow_pair(void)
{
	struct proto_config c = net_config();

	c.path_frames = 1;
	struct net *net = pair_of(&c);

	net_send(net, 0, 1, 1, 1, 10);
	net_settle(net, NET_SEC);
	net->log_count = 0;
	return net;
}

/* Return how many of the data frames from the log's entry `from` on are of context `ctx` of node 0,
 * and how many there are. */
static uint32_t
frames_of(const struct net *net, uint32_t from, unsigned ctx, uint32_t *all)
{
	uint32_t n = 0;

	*all = 0;
	for (uint32_t i = from; i < net->log_count; i++) {
		const struct net_frame *f = &net->log[i];

		if (f->type != WIRE_DATA || f->src != 0)
			continue;
		n += f->src_ctx == ctx;
		++*all;
	}
	return n;
}

static void
proto_turns__a_short_message_goes_before_a_long_one(void **state)
{
	struct net *net = narrow_pair();
	uint32_t all, from;

	(void)state;
	net_send(net, 0, 0, 1, 0, 60 * net_config().payload_max);
	while (frames_of(net, 0, 0, &all) < 5)
		net_run(net, NET_US);
	from = net->log_count;
	net_send(net, 0, 1, 1, 1, 100);
	while (frames_of(net, from, 1, &all) == 0)
		net_run(net, NET_US);
	assert_int_equal(all, 1);
	net_settle(net, NET_SEC);
	finish(net);
}

/* However many short messages there are, a long one has a quarter of the frames. */
static void
proto_turns__short_messages_leave_a_quarter(void **state)
{
	struct net *net = narrow_pair();
	uint32_t all, longs, shorts = 0;

	(void)state;
	net_send(net, 0, 0, 1, 0, 30 * net_config().payload_max);
	do {
		longs = frames_of(net, 0, 0, &all);
		while (shorts < all - longs + 4) {
			net_send(net, 0, 1, 1, 1, 100);
			shorts++;
		}
		net_run(net, NET_US);
	} while (all < 100);
	assert_in_range(longs, 24, 26);
	net_settle(net, NET_SEC);
	finish(net);
}

/* A message of which little is left is short, however long it was. */
static void
proto_turns__the_end_of_a_message_goes_before_another_one(void **state)
{
	struct net *net = narrow_pair();
	const uint32_t frame = net_config().payload_max;
	uint32_t all;

	(void)state;
	int longer = net_send(net, 0, 0, 1, 0, 60 * frame),
	    shorter = net_send(net, 0, 1, 1, 1, 20 * frame);

	while (!net_delivered(net, shorter))
		net_run(net, NET_US);
	/* they took turns until 8 frames were left of the shorter one */
	assert_in_range(frames_of(net, 0, 0, &all), 12, 15);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, longer);
	finish(net);
}

/* --- messages that are taken back --- */

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
		cmocka_unit_test(pm_adv__frames_kept_by_the_peer_are_not_in_flight),
		cmocka_unit_test(pm_s4__a_lost_tail_is_probed_for),
		cmocka_unit_test(pm_ackc__one_ack_for_a_run),
		cmocka_unit_test(pm_ackc__frames_one_by_one_are_acked_by_their_number),
		cmocka_unit_test(pm_ackc__ack_rides_on_reverse_data),
		cmocka_unit_test(pm_ackc__delay_is_bounded),
		cmocka_unit_test(pm_ackc__delay_is_bounded_while_data_fills_every_burst),
		cmocka_unit_test(pm_ackc__is_asked_for_before_the_window_is_used_up),
		cmocka_unit_test(pm_mtu__8192_bytes_in_one_piece),
		cmocka_unit_test(pm_mtu__8_mib_fragmented),
		cmocka_unit_test(proto_send__zero_length),
		cmocka_unit_test(proto_send__refuses_what_can_never_go),
		cmocka_unit_test(proto_send__to_oneself),
		cmocka_unit_test(proto_turns__a_short_message_goes_before_a_long_one),
		cmocka_unit_test(proto_turns__short_messages_leave_a_quarter),
		cmocka_unit_test(proto_turns__the_end_of_a_message_goes_before_another_one),
		cmocka_unit_test(proto_withdraw__what_has_not_left_is_not_sent),
		cmocka_unit_test(proto_withdraw__the_only_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
