/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: timers, other lives of the peer, its death. One behaviour a test, named by
 * requirement (doc/requirements.md) where it has one. Virtual time, scripted network: see
 * proto_pair.h, whose harness judges every handle and message.
 */
#include "proto_cases.h"

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
		old_hello = (struct wire_hello){
			.epoch = wire_be32(old_epoch),
			.nonce = wire_be32(77),
			.echo = wire_be32(78),
			.payload_max = wire_be16(1024),
			.window = wire_be16(256),
		};
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

/* --- timers --- */

static void
timers__the_nearest_counts_also_after_one_beyond_the_wheel(void **state)
{
	(void)state;
	struct proto_config c = net_config();
	struct net *net = net_new(2, &c, 1);
	struct proto *p = net->nodes[0].p;
	const uint64_t slot = 1ull << p->wheel.shift, now = p->wheel.cursor * slot;
	const uint64_t beyond = now + (WHEEL_SLOTS + 10) * slot, near = now + 20 * slot + 1;

	assert_int_equal(proto_deadline(p), UINT64_MAX);
	timer_arm(p, 0, beyond);
	assert_in_range(proto_deadline(p), now + (WHEEL_SLOTS - 2) * slot, beyond);
	for (unsigned i = 0; i < 2; i++) {
		timer_arm(p, 0, i == 0 ? near : beyond); /* later, it changes nothing */
		assert_in_range(proto_deadline(p), near, near + slot);
	}
	timer_arm(p, 1, now - 3 * slot); /* past: not before the next turn */
	assert_in_range(proto_deadline(p), now + 1, now + slot);
	timer_stop(p, 1);
	timer_stop(p, 1);
	assert_in_range(proto_deadline(p), near, near + slot);
	timer_stop(p, 0);
	assert_int_equal(proto_deadline(p), UINT64_MAX);
	net_free(net);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers__the_nearest_counts_also_after_one_beyond_the_wheel),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
