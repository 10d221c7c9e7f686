/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: nodes that do not answer, go, are wanted, or do not agree with this one; and frames
 * that are too long for the way to them. One behaviour a test, named by requirement
 * (doc/requirements.md) where it has one. Virtual time, scripted network: see proto_pair.h, whose
 * harness judges every handle and message.
 */
#include "proto_cases.h"

/* --- nodes that do not answer yet --- */

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

/* --- nodes that go, and that are wanted --- */

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

/* --- nodes that do not agree --- */

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

/* --- frames that do not pass --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proto_send__longer_than_the_peer_takes),
		cmocka_unit_test(proto_send__to_a_peer_of_another_setting),
		cmocka_unit_test(proto_send__to_a_peer_of_another_version),
		cmocka_unit_test(proto_announce__is_heard_by_twins),
		cmocka_unit_test(pm_s4__ehostunreach_when_nobody_answers_hello),
		cmocka_unit_test(hello__is_repeated_though_a_stranger_was_greeted_first),
		cmocka_unit_test(proto_node_gone__ends_what_is_sent_to_it),
		cmocka_unit_test(proto_node_gone__comes_back),
		cmocka_unit_test(proto_send__longer_than_the_network_passes),
		cmocka_unit_test(proto_send__longer_than_a_full_queue_takes),
		cmocka_unit_test(proto_node_wanted__is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
