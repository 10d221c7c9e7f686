/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: windows, shares, flows. One behaviour a test, named by requirement
 * (doc/requirements.md) where it has one. Virtual time, scripted network: see proto_pair.h, whose
 * harness judges every handle and message.
 */
#include "proto_cases.h"

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

/* The share that the Acks of node 1 tell, as if others sent to it as well. */
static uint16_t told_share;

static enum net_verdict
watch_share(struct net *net, struct net_frame *f)
{
	struct proto_share *s = &net->nodes[1].p->share;

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

/* Check that what an Ack allows is what may be in flight; the last frame of it asks for the next
 * Ack. */
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
	struct proto_share before = net->nodes[2].p->share;

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

/* After its host was away, an Ack says that the network took nothing: not what it takes at least,
 * by which all later round trips would look like a queue. */
static void
pm_adv__an_absence_is_no_short_round_trip(void **state)
{
	struct net *net = pair();
	const struct cc *cc = &net_path(net, 0, 1)->cc;

	(void)state;
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	uint32_t base = cc->base_rtt;

	assert_int_not_equal(base, 0);
	net->nodes[0].p->waited = ticks_of(net->nodes[0].p, 1000000);
	net_send(net, 0, 0, 1, 0, 100);
	net_settle(net, NET_SEC);
	assert_int_equal(cc->last_rtt, 1);
	assert_int_equal(cc->base_rtt, base);
	net_free(net);
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
		.base_rtt = 320, /* 20 us */
	};

	(void)state;
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

/* Whoever takes over may have other targets of queues, and they hold at once. */
static void
proto_adopt__takes_other_targets(void **state)
{
	struct net *net = pair();
	struct net_node *n = &net->nodes[0];

	(void)state;
	n->cfg.cc_target_us = 7;
	n->cfg.share_target_us = 9;
	net_move(net, 0);
	assert_int_equal(net_path(net, 0, 1)->cc.target_max, 7 * UNITS_PER_US);
	assert_int_equal(n->p->share.target, 9 * UNITS_PER_US);
	net_send(net, 0, 0, 1, 0, 20000);
	net_settle(net, NET_SEC);
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

/* A receiver that had no room for longer than flow_idle says that it has some, and that renews
 * nothing: its peer has forgotten what it once sent to it. */
static void
flow_forget__an_ack_is_no_news_of_a_peer_that_has_forgotten(void **state)
{
	struct net *net = pair();

	(void)state;
	net_close(net, 1, 1, false);
	net_open(net, 1, 1, 1, 8);
	net_send(net, 1, 1, 0, 0, 100);
	net_settle(net, NET_SEC);
	net->nodes[1].apps[1].paused = true;
	net_send(net, 0, 0, 1, 1, 100);
	net_run(net, 2 * net->nodes[0].cfg.flow_idle_us * NET_US);
	assert_int_equal(proto_flows_used(net->nodes[0].p), 0);
	assert_int_equal(proto_flows_used(net->nodes[1].p), 1);
	const uint64_t acks = net_count(net, 1, PROTO_tx_acks);

	net_give_room(net, 1, 1);
	net_run(net, NET_MS);
	assert_int_equal(net_count(net, 1, PROTO_tx_acks), acks + 1);
	int m = net_send(net, 1, 1, 0, 0, 100);

	net->nodes[1].apps[1].paused = false;
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
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
	EXPECT_DROP(h.version = WIRE_VERSION + 1, len, drop_version);
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
		proto_begin(p, now - 2 * p->rto_min, now);
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
	REFUSED(c.hello_us = 0);
	REFUSED(c.cc = NULL);
#undef REFUSED
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(pm_adv__an_absence_is_no_short_round_trip),
		cmocka_unit_test(pm_adv__cc_delay_tells_congestion_from_a_bad_cable),
		cmocka_unit_test(pm_adv__cc_delay_follows_the_delay),
		cmocka_unit_test(pm_adv__cc_delay_ignores_single_late_frames),
		cmocka_unit_test(pm_adv__cc_delay_without_any_measurement),
		cmocka_unit_test(proto_adopt__goes_on_in_the_midst_of_a_message),
		cmocka_unit_test(proto_adopt__takes_other_targets),
		cmocka_unit_test(proto_adopt__refuses_another_configuration),
		cmocka_unit_test(flow_make__pool_exhausted_then_reclaimed),
		cmocka_unit_test(flow_make__one_context_has_its_share),
		cmocka_unit_test(flow_forget__idle_flows_go_and_open_again),
		cmocka_unit_test(flow_forget__receiver_remembers_while_its_acks_renew_the_sender),
		cmocka_unit_test(flow_forget__an_ack_is_no_news_of_a_peer_that_has_forgotten),
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
