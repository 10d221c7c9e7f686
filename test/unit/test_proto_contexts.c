/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: contexts that open late, belong to a domain, and close. One behaviour a test, named
 * by requirement (doc/requirements.md) where it has one. Virtual time, scripted network: see
 * proto_pair.h, whose harness judges every handle and message.
 */
#include "proto_cases.h"

/* --- contexts that are not open yet, and their next lives --- */

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

/* --- domains --- */

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

/* --- contexts that close --- */

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_wait__refused_within_a_round_trip_when_none_is_asked_for),
		cmocka_unit_test(open_wait__refused_when_it_is_over),
		cmocka_unit_test(open_wait__a_context_that_opens_late_gets_the_message),
		cmocka_unit_test(open_wait__a_node_that_starts_late_gets_the_message),
		cmocka_unit_test(pm_s4__what_a_new_life_asks_is_answered_at_once),
		cmocka_unit_test(pm_s4__a_new_life_is_answered_though_nothing_was_in_flight),
		cmocka_unit_test(pm_s4__a_late_refusal_of_a_frame_that_arrived_since_says_nothing),
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
