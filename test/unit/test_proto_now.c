/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that leave at once: proto_send_now(), which spares the common message the way through
 * proto_tx(). When it may, and when it may not.
 */
#include "proto_cases.h"

static struct net *
pair_at_once(void)
{
	struct net *net = pair();

	net->at_once = true;
	return net;
}

static void
proto_send_now__needs_no_turn(void **state)
{
	struct net *net = pair_at_once();
	uint64_t log = net->log_count;

	(void)state;
	int m = net_send(net, 0, 0, 1, 0, 100);

	assert_int_equal(net->left_at_once, 1);
	assert_int_equal(net->log_count, log + 1);
	assert_int_equal(proto_has(net->nodes[0].p, net_ticks(net, 0)), 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
proto_send_now__not_the_first_of_a_flow(void **state)
{
	struct net *net = pair_at_once();

	(void)state;
	int m = net_send(net, 0, 0, 1, 1, 100);

	assert_int_equal(net->left_at_once, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, m);
	finish(net);
}

static void
proto_send_now__not_before_what_waits(void **state)
{
	struct net *net = pair_at_once();

	(void)state;
	int of_many = net_send(net, 0, 0, 1, 0, 20000), after = net_send(net, 0, 0, 1, 0, 100),
	    of_other = net_send(net, 0, 1, 1, 0, 100);

	assert_int_equal(net->left_at_once, 0);
	net_settle(net, NET_SEC);
	net_expect_delivered(net, of_many);
	net_expect_delivered(net, after);
	net_expect_delivered(net, of_other);
	net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, 1);
	net_settle(net, NET_SEC);
	finish(net);
}

/* The last frame of a window asks for an Ack, and so it is proto_tx's. */
static void
proto_send_now__not_the_last_of_a_window(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.window_frames = 8;
	struct net *net = pair_of(&c);

	net->at_once = true;
	for (int i = 0; i < 20; i++)
		net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, 7);
	net_settle(net, NET_SEC);
	assert_int_equal(proto_tx_free(net->nodes[0].p), c.tx_frames_max);
	net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, 8);
	net_settle(net, NET_SEC);
	finish(net);
}

static void
proto_send_now__not_while_frames_are_lost(void **state)
{
	struct net *net = pair_at_once();

	(void)state;
	net->script = drop_data;
	net->script_left = 1;
	net_send(net, 0, 0, 1, 0, 100);
	net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, 2);
	while (net_logged(net, 1, WIRE_NACK, 0) == 0)
		net_run(net, NET_US);
	net_run(net, net->delay + NET_US);
	net->script = drop_all; /* what is sent again does not arrive */
	net_send(net, 0, 0, 1, 0, 100);
	unsigned left = net->left_at_once;

	net->script = NULL;
	net_settle(net, NET_SEC);
	assert_int_equal(left, net->left_at_once);
	net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, left + 1);
	net_settle(net, NET_SEC);
	finish(net);
}

static void
proto_send_now__not_from_a_context_that_closes(void **state)
{
	struct net *net = pair_at_once();

	(void)state;
	net_send(net, 0, 0, 1, 0, 100);
	assert_int_equal(net->left_at_once, 1);
	net_close(net, 0, 0, true);
	assert_int_equal(net_send(net, 0, 0, 1, 0, 100), -EINVAL);
	assert_int_equal(net->left_at_once, 1);
	net_settle(net, NET_SEC);
	finish(net);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proto_send_now__needs_no_turn),
		cmocka_unit_test(proto_send_now__not_the_first_of_a_flow),
		cmocka_unit_test(proto_send_now__not_before_what_waits),
		cmocka_unit_test(proto_send_now__not_the_last_of_a_window),
		cmocka_unit_test(proto_send_now__not_while_frames_are_lost),
		cmocka_unit_test(proto_send_now__not_from_a_context_that_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
