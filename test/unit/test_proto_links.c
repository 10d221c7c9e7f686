/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core: frames of a node that come by several links and overtake each other there
 * (lib/core/proto/order.c). One behaviour a test. Virtual time; frames are handed to the core with
 * the link that they came by, and what it answers is looked at, so no network takes part.
 */
#include "proto_cases.h"

#define UNITS_OF(ns) ((uint32_t)((ns) / NET_US * UNITS_PER_US))

/* Two nodes as pair_of() has them; node 1 expects frames of node 0 by two links. */
static struct net *
pair_by(uint32_t links, uint32_t expected)
{
	struct proto_config c = net_config();

	c.links = links;
	struct net *net = pair_of(&c);

	proto_node_links(net->nodes[1].p, 0, expected);
	return net;
}

static uint32_t
next_of(struct net *net)
{
	return net_flow(net, 1, 0, 0, 0)->rcv_nxt;
}

/* A data frame of flow 0.ctx -> 1.0 comes to node 1. */
static enum proto_rx_result
come_to(struct net *net, unsigned link, uint16_t ctx, uint32_t seq, uint16_t flags)
{
	struct {
		struct wire_hdr h;
		uint8_t payload[8];
	} frame = {.h = net_data(net, 0, 1, seq, 8, flags)};

	frame.h.src_ctx = wire_be16(ctx);
	frame.h.tstamp = wire_be32((uint32_t)(net->now / NET_US * UNITS_PER_US));
	proto_rx_link(net->nodes[1].p, link);
	return net_inject(net, 1, &frame, WIRE_HDR_BYTES + 8);
}

static void
come(struct net *net, unsigned link, uint32_t seq)
{
	assert_int_not_equal(come_to(net, link, 0, seq, 0), PROTO_RX_DONE);
}

/* Get what the node says now. Return whether it says anything. */
static bool
says(struct net *net, unsigned node, struct proto_out *out)
{
	struct proto_out more;

	if (proto_tx(net->nodes[node].p, out, 1, net_ticks(net, node)) == 0)
		return false;
	assert_int_equal(proto_tx(net->nodes[node].p, &more, 1, net_ticks(net, node)), 0);
	return true;
}

static const struct wire_hdr *
head_of(const struct proto_out *o)
{
	return (const struct wire_hdr *)o->head;
}

/* Node 1 sends no Nack now. */
static void
expect_no_nack(struct net *net)
{
	struct proto_out o;

	if (says(net, 1, &o) && head_of(&o)->type == WIRE_NACK)
		fail_msg("a Nack of %u", wire_be32(head_of(&o)->ack));
}

/* Node 1 sends a Nack of what `holes` says, from `ack` on. Returns its link. */
static unsigned
expect_nack(struct net *net, uint32_t ack, uint8_t holes)
{
	struct proto_out o;

	assert_true(says(net, 1, &o));
	assert_int_equal(head_of(&o)->type, WIRE_NACK);
	assert_int_equal(wire_be32(head_of(&o)->ack), ack);
	assert_int_equal(wire_be16(head_of(&o)->payload_len), 1);
	assert_int_equal(o.head[WIRE_HDR_BYTES], holes);
	return o.link;
}

/* Return how long node 1 waits for what another link may bring. */
static uint64_t
wait_of(struct net *net)
{
	return order_wait(net_path(net, 1, 0)) * NET_US / UNITS_PER_US;
}

static void
end(struct net *net)
{
	struct proto_out o;

	while (proto_tx(net->nodes[1].p, &o, 1, net_ticks(net, 1)) != 0)
		;
	net_run(net, NET_MS);
	finish(net);
}

/* --- what is lost --- */

static void
pm_r4__what_another_link_may_bring_is_not_lost(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);

	struct proto_out o;

	(void)state;
	come(net, 0, seq + 2);
	assert_false(says(net, 1, &o));
	come(net, 0, seq + 3);
	assert_false(says(net, 1, &o));
	come(net, 1, seq);
	expect_no_nack(net); /* link 1 is just before the one that is missing */
	come(net, 1, seq + 1);
	expect_no_nack(net);
	assert_int_equal(next_of(net), seq + 4);
	assert_int_equal(net_count(net, 1, PROTO_tx_nacks), 0);
	end(net);
}

/* The flow has gone on since its other link brought anything. */
static void
pm_r4__a_link_far_behind_passes_nothing(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);

	(void)state;
	come(net, 0, seq + 2);
	come(net, 0, seq);
	come(net, 0, seq + 4);
	expect_no_nack(net);
	come(net, 1, seq + 5);
	expect_nack(net, seq + 1, 1 | 1 << 2);
	come(net, 1, seq + 1);
	come(net, 1, seq + 3);
	end(net);
}

static void
pm_r4__what_is_sent_again_takes_nothing_back(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);

	(void)state;
	come(net, 0, seq + 3);
	come(net, 1, seq + 4);
	expect_nack(net, seq, 7);
	come(net, 1, seq + 1);
	/* the sender asks */
	assert_int_equal(come_to(net, 1, 0, seq + 4, 0), PROTO_RX_DONE);
	expect_nack(net, seq, 1 | 1 << 2);
	come(net, 0, seq);
	come(net, 0, seq + 2);
	end(net);
}

/* A Nack waits to be sent. */
static void
pm_r4__what_came_meanwhile_is_not_nacked(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);
	struct proto_out o;

	(void)state;
	come(net, 0, seq + 1);
	come(net, 1, seq + 2);
	come(net, 0, seq + 4);
	come(net, 0, seq);
	assert_true(says(net, 1, &o));
	assert_int_equal(head_of(&o)->type, WIRE_ACK);
	assert_int_equal(wire_be32(head_of(&o)->ack), seq + 3);
	come(net, 1, seq + 3);
	end(net);
}

static void
pm_r4__what_each_link_has_passed_is_lost(void **state)
{
	struct net *net = pair_by(3, 7);
	const uint32_t seq = next_of(net);

	(void)state;
	come(net, 0, seq + 1);
	expect_no_nack(net);
	come(net, 2, seq + 3);
	expect_no_nack(net);
	come(net, 1, seq + 4);
	/* link 0 may yet bring seq + 2 */
	assert_int_equal(expect_nack(net, seq, 1), 1);
	come(net, 0, seq + 5);
	assert_int_equal(expect_nack(net, seq, 1 | 1 << 2), 0);
	come(net, 1, seq + 2);
	come(net, 1, seq);
	end(net);
}

/* One link brings all, as if the other had died or had nothing to send. */
static void
pm_r4__what_was_passed_a_while_ago_is_lost(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);
	const uint64_t wait = wait_of(net);

	(void)state;
	come(net, 0, seq + 1);
	net->now += wait * 9 / 10;
	come(net, 0, seq + 3);
	expect_no_nack(net);
	net->now += wait * 2 / 10;
	come(net, 0, seq + 4);
	expect_nack(net, seq, 1); /* not seq + 2 */
	net->now += wait * 12 / 10;
	come(net, 0, seq + 5);
	expect_nack(net, seq, 1 | 1 << 2);
	come(net, 1, seq);
	come(net, 1, seq + 2);
	end(net);
}

/* Nothing comes any more but a frame that the sender sends again in order to learn what is lost. */
static void
pm_r4__a_probe_learns_what_is_lost(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);
	struct proto_out o;

	(void)state;
	come(net, 0, seq + 1);
	come(net, 0, seq + 3);
	expect_no_nack(net);
	assert_int_equal(come_to(net, 0, 0, seq + 3, 0), PROTO_RX_DONE);
	assert_true(says(net, 1, &o)); /* too early: an Ack */
	assert_int_equal(head_of(&o)->type, WIRE_ACK);
	net->now += wait_of(net) * 11 / 10;
	assert_int_equal(come_to(net, 0, 0, seq + 3, 0), PROTO_RX_DONE);
	expect_nack(net, seq, 1);
	net->now += wait_of(net);
	assert_int_equal(come_to(net, 0, 0, seq + 3, 0), PROTO_RX_DONE);
	expect_nack(net, seq, 1 | 1 << 2);
	come(net, 1, seq);
	come(net, 1, seq + 2);
	end(net);
}

static void
pm_r4__a_node_with_one_link_is_nacked_at_once(void **state)
{
	(void)state;
	for (uint32_t expected = 0; expected <= 2; expected++) {
		struct net *net = pair_by(2, expected);
		const uint32_t seq = next_of(net);
		const uint64_t again = net_path(net, 1, 0)->srtt / 4 * NET_US / UNITS_PER_US +
			50 * NET_US;

		come(net, 0, seq + 1);
		expect_nack(net, seq, 1);
		come(net, 1, seq + 2);
		expect_no_nack(net);
		/* the Nack may be lost: as soon as where no node has several links */
		net->now += again - NET_US;
		come(net, 0, seq + 3);
		expect_no_nack(net);
		net->now += 2 * NET_US;
		come(net, 0, seq + 4);
		expect_nack(net, seq, 1);
		come(net, 0, seq);
		end(net);
	}
}

/* Nothing is held there, so what is discarded has to be sent again anyway. */
/* Nothing is missing, but there was no room. The Nack names all that is not held. */
static void
pm_r2__a_refusal_is_said_by_a_node_of_several_links(void **state)
{
	struct net *net = pair_by(2, 3);
	struct proto_out o;

	(void)state;
	net_freeze(net, 1, 0);
	assert_int_equal(come_to(net, 0, 0, next_of(net), 0), PROTO_RX_DONE);
	assert_true(says(net, 1, &o));
	assert_int_equal(head_of(&o)->type, WIRE_NACK);
	assert_int_equal(wire_be16(head_of(&o)->flags) & WIRE_F_FULL, WIRE_F_FULL);
	assert_int_equal(wire_be16(head_of(&o)->credit), 0);
	assert_int_equal(wire_be16(head_of(&o)->payload_len), 1);
	assert_int_equal(o.head[WIRE_HDR_BYTES], 0xFF);
	net_free(net);
}

static void
pm_r5__go_back_n_does_not_wait_for_another_link(void **state)
{
	struct proto_config c = net_config();

	(void)state;
	c.links = 2;
	c.recovery = PROTO_GO_BACK_N;
	struct net *net = pair_of(&c);
	const uint32_t seq = next_of(net);

	proto_node_links(net->nodes[1].p, 0, 3);
	assert_int_equal(come_to(net, 0, 0, seq + 1, 0), PROTO_RX_DONE);
	expect_nack(net, seq, 1);
	end(net);
}

static void
pm_r4__sequences_of_links_wrap(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = UINT32_MAX - 2;

	(void)state;
	assert_int_not_equal(come_to(net, 0, 1, seq, WIRE_F_FIRST), PROTO_RX_DONE);
	expect_no_nack(net);
	come_to(net, 0, 1, seq + 2, 0);
	come_to(net, 0, 1, seq + 4, 0);
	expect_no_nack(net);
	come_to(net, 1, 1, seq + 5, 0);
	expect_nack(net, seq + 1, 1 | 1 << 2);
	come_to(net, 0, 1, seq + 1, 0);
	come_to(net, 0, 1, seq + 3, 0);
	assert_int_equal(net_flow(net, 1, 0, 0, 1)->rcv_nxt, 3);
	end(net);
}

/* --- lives --- */

/* A flow whose held frames go, with their links' sequences far ahead: its next frames may have
 * those sequences again. */
static void
leave_held(struct net *net, uint32_t seq)
{
	struct wire_hdr reset = net_data(net, 0, 1, seq, 0, WIRE_F_SENDER);

	come(net, 0, seq + 100);
	come(net, 1, seq + 101);
	struct proto_out o;

	assert_true(says(net, 1, &o));
	assert_int_equal(head_of(&o)->type, WIRE_NACK);
	reset.type = WIRE_RESET;
	assert_int_equal(net_inject(net, 1, &reset, WIRE_HDR_BYTES), PROTO_RX_DONE);
	assert_true(list_empty(&net_flow(net, 1, 0, 0, 0)->ooo));
}

static void
pm_r4__a_flow_opened_anew_knows_nothing_of_before(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);

	(void)state;
	leave_held(net, seq);
	assert_int_not_equal(come_to(net, 0, 0, seq + 1, WIRE_F_FIRST), PROTO_RX_DONE);
	expect_no_nack(net);
	come(net, 0, seq + 3);
	expect_no_nack(net);
	come(net, 1, seq + 5);
	expect_nack(net, seq + 2, 1);
	come(net, 1, seq + 2);
	come(net, 1, seq + 4);
	end(net);
}

static void
pm_r4__another_flow_in_its_place_knows_nothing_of_it(void **state)
{
	struct net *net = pair_by(2, 3);
	struct proto *p = net->nodes[1].p;
	const uint32_t place = flow_index(p, net_flow(net, 1, 0, 0, 0)), seq = next_of(net);

	(void)state;
	leave_held(net, seq);
	net_run(net, 5 * NET_SEC);
	assert_null(net_flow(net, 1, 0, 0, 0));
	assert_int_not_equal(come_to(net, 0, 1, seq, WIRE_F_FIRST), PROTO_RX_DONE);
	assert_int_equal(flow_index(p, net_flow(net, 1, 0, 0, 1)), place);
	expect_no_nack(net);
	come_to(net, 0, 1, seq + 2, 0);
	expect_no_nack(net);
	come_to(net, 1, 1, seq + 1, 0);
	end(net);
}

static void
proto_adopt__what_came_by_each_link_goes_with_it(void **state)
{
	struct net *net = pair_by(2, 3);
	const uint32_t seq = next_of(net);
	struct proto_config other = net->nodes[1].cfg;

	(void)state;
	come(net, 0, seq + 1);
	expect_no_nack(net);
	other.links = 3;
	assert_null(proto_adopt(net->nodes[1].p, &other));
	net_move(net, 1);
	come(net, 1, seq + 2);
	expect_nack(net, seq, 1);
	come(net, 0, seq);
	end(net);
}

/* --- links of answers --- */

static void
proto_out__an_answer_takes_the_link_of_its_frame(void **state)
{
	struct net *net = pair_by(3, 7);
	const uint32_t seq = next_of(net);
	struct wire_hdr ping = net_data(net, 0, 1, 0, 0, 0);
	struct proto_out o;

	(void)state;
	ping.type = WIRE_PING;
	for (unsigned link = 0; link < 3; link++) {
		assert_int_not_equal(come_to(net, link, 0, seq + link, WIRE_F_ASK), PROTO_RX_DONE);
		assert_true(says(net, 1, &o));
		assert_int_equal(head_of(&o)->type, WIRE_ACK);
		assert_int_equal(o.link, link);
		assert_int_equal(net_inject(net, 1, &ping, WIRE_HDR_BYTES), PROTO_RX_DONE);
		assert_true(says(net, 1, &o));
		assert_int_equal(head_of(&o)->type, WIRE_PONG);
		assert_int_equal(o.link, link);
		/* an old one: no round trip is measured with it */
		assert_int_equal(come_to(net, (link + 1) % 3, 0, seq, 0), PROTO_RX_DONE);
		assert_true(says(net, 1, &o));
		assert_false(head_of(&o)->flags & wire_be16(WIRE_F_ECHO));
		assert_int_equal(o.link, (link + 1) % 3);
	}
	/* what came after the frame whose time stamp goes back is old */
	come(net, 2, seq + 3);
	assert_int_equal(come_to(net, 0, 0, seq, 0), PROTO_RX_DONE);
	assert_true(says(net, 1, &o));
	assert_true(head_of(&o)->flags & wire_be16(WIRE_F_ECHO));
	assert_int_equal(o.link, 2);
	end(net);
}

/* --- round trips --- */

/* An answer comes to node 0 by that link after a round trip of so many units: an Ack, or data if
 * `seq` is not 0. */
static void
answer(struct net *net, unsigned link, uint32_t rtt, uint32_t seq)
{
	struct {
		struct wire_hdr h;
		uint8_t payload[8];
	} frame = {.h = net_data(net, 1, 0, seq, seq != 0 ? 8 : 0, WIRE_F_ACK | WIRE_F_ECHO)};
	const struct flow *f = net_flow(net, 0, 0, 1, 0);

	if (seq == 0)
		frame.h.type = WIRE_ACK;
	if (seq != 0 && f->rx_state != FLOW_RX_OPEN)
		frame.h.flags |= wire_be16(WIRE_F_FIRST);
	frame.h.ack = wire_be32(f->snd_una);
	frame.h.credit = wire_be16(64);
	frame.h.echo = wire_be32(stamp_of(net->nodes[0].p, net_ticks(net, 0)) - rtt);
	proto_rx_link(net->nodes[0].p, link);
	net_inject(net, 0, &frame, WIRE_HDR_BYTES + (seq != 0 ? 8 : 0));
}

#define SHORT UNITS_OF(10 * NET_US)
#define LONG  UNITS_OF(500 * NET_US)
#define QUEUE UNITS_OF(50 * NET_US)

/* Node 0 sends to node 1 by two links, of which the second is longer than what congestion control
 * takes for a queue. */
static struct net *
pair_of_unlike_links(void)
{
	struct net *net = pair_by(2, 3);

	proto_node_links(net->nodes[0].p, 1, 3);
	net_path(net, 0, 1)->cc.base_rtt = 0;
	order_forget(net->nodes[0].p, 1);
	answer(net, 0, SHORT, 0);
	assert_int_equal(net_path(net, 0, 1)->cc.base_rtt, SHORT);
	return net;
}

static void
rtt__a_longer_link_is_no_queue(void **state)
{
	struct net *net = pair_of_unlike_links();
	const struct cc *cc = &net_path(net, 0, 1)->cc;

	(void)state;
	answer(net, 1, LONG, 0);
	assert_int_equal(cc->last_rtt, SHORT);
	answer(net, 1, LONG + QUEUE, 0);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	answer(net, 0, SHORT + QUEUE, 0);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	assert_int_equal(cc->base_rtt, SHORT);
	net_run(net, NET_MS);
	finish(net);
}

/* An Ack on data may have gone by another link than the frame that it answers. */
static void
rtt__two_ways_by_the_shorter_link_are_no_shorter_than_one(void **state)
{
	struct net *net = pair_of_unlike_links();
	const struct cc *cc = &net_path(net, 0, 1)->cc;

	(void)state;
	answer(net, 1, LONG, 0);
	answer(net, 1, SHORT, 1);
	assert_int_equal(cc->base_rtt, SHORT);
	assert_int_equal(cc->last_rtt, SHORT);
	answer(net, 0, (SHORT + LONG) / 2, 2);
	assert_int_equal(cc->last_rtt, SHORT);
	answer(net, 0, LONG + QUEUE, 3);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	answer(net, 0, SHORT - 2, 4); /* the route has changed */
	assert_int_equal(cc->base_rtt, SHORT - 2);
	net_run(net, NET_MS);
	finish(net);
}

static void
rtt__a_longer_link_that_is_left_alone_is_no_queue(void **state)
{
	struct net *net = pair_of_unlike_links();
	const struct cc *cc = &net_path(net, 0, 1)->cc;

	(void)state;
	answer(net, 1, LONG, 0);
	proto_node_links(net->nodes[0].p, 1, 2);
	answer(net, 1, LONG, 0);
	assert_int_equal(cc->last_rtt, SHORT);
	answer(net, 1, LONG + QUEUE, 1);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	/* the shorter one again: it has no queue that the longer one would hide */
	proto_node_links(net->nodes[0].p, 1, 1);
	answer(net, 0, SHORT + QUEUE, 2);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	/* a node that uses one at a time, the longer one now */
	proto_node_links(net->nodes[0].p, 1, 0);
	answer(net, 1, LONG + QUEUE, 3);
	assert_int_equal(cc->last_rtt, SHORT + QUEUE);
	net_run(net, NET_MS);
	finish(net);
}

static void
rtt__a_new_life_of_the_node_may_be_elsewhere(void **state)
{
	struct net *net = pair_of_unlike_links();
	const struct node_links *n = &net->nodes[0].p->links_of[1];

	(void)state;
	answer(net, 1, LONG, 0);
	assert_int_equal(n->base[1], LONG);
	net_restart(net, 1);
	net_open(net, 1, 0, 64, 1000);
	proto_rx_link(net->nodes[0].p, 0);
	int m = net_send(net, 0, 0, 1, 0, 10);

	net_settle(net, NET_SEC);
	assert_true(m >= 0);
	assert_int_equal(n->base[1], 0);
	finish(net);
}

/* --- questions whether a link works --- */

static void
proto_rx__questions_of_links_are_told(void **state)
{
	struct net *net = pair_by(2, 3);
	struct {
		struct wire_hdr h;
		uint8_t more;
	} frame = {.h = net_data(net, 0, 1, 7, 0, WIRE_F_ASK)};
	struct proto_out o;

	(void)state;
	frame.h.type = WIRE_LINK;
	assert_int_not_equal(frame.h.session, 0);
	assert_int_equal(net_inject(net, 1, &frame, WIRE_HDR_BYTES), PROTO_RX_LINK);
	frame.h.flags = 0;
	assert_int_equal(net_inject(net, 1, &frame, WIRE_HDR_BYTES), PROTO_RX_LINK);
	assert_int_equal(net_count(net, 1, PROTO_rx_link), 2);
	assert_false(says(net, 1, &o)); /* whoever has the links answers */
	net_check_books(net, 1);
	finish(net);
}

/* Whoever is no peer learns no session, and so cannot say that a link works. A peer that was
 * restarted may ask by a link that works, and is told to shake hands. */
static void
proto_rx__answers_of_links_are_of_the_session(void **state)
{
	struct net *net = pair_by(2, 3);
	struct wire_hdr h = net_data(net, 0, 1, 7, 0, 0);
	struct proto_out o;

	(void)state;
	h.type = WIRE_LINK;
	for (unsigned i = 0; i < 2; i++) {
		h.session = i == 0 ? 0 : ~h.session;
		assert_int_equal(net_inject(net, 1, &h, WIRE_HDR_BYTES), PROTO_RX_DONE);
		assert_int_equal(net_count(net, 1, PROTO_drop_session), i + 1);
	}
	assert_int_equal(net_count(net, 1, PROTO_rx_link), 0);
	while (says(net, 1, &o))
		;
	h.flags = wire_be16(WIRE_F_ASK);
	h.session = 0;
	assert_int_equal(net_inject(net, 1, &h, WIRE_HDR_BYTES), PROTO_RX_LINK);
	assert_false(says(net, 1, &o));
	net_settle(net, NET_SEC);
	h.session = wire_be32(4711);
	assert_int_equal(net_inject(net, 1, &h, WIRE_HDR_BYTES), PROTO_RX_LINK);
	assert_true(says(net, 1, &o));
	assert_int_equal(((struct wire_hdr *)o.head)->type, WIRE_HELLO);
	net_check_books(net, 1);
	finish(net);
}

static void
proto_rx__bad_questions_of_links_are_refused(void **state)
{
	struct net *net = pair_by(2, 3);
	static const struct {
		enum proto_counter why;
		uint16_t src_node, dst_node, flags, payload_len;
		uint32_t len;
	} bad[] = {
		{PROTO_drop_truncated, 0, 1, WIRE_F_ASK, 0, WIRE_HDR_BYTES - 1},
		{PROTO_drop_oversized, 0, 1, WIRE_F_ASK, 0, WIRE_HDR_BYTES + 1},
		{PROTO_drop_field, 0, 1, WIRE_F_ASK, 1, WIRE_HDR_BYTES + 1},
		{PROTO_drop_flags, 0, 1, 0x8000, 0, WIRE_HDR_BYTES},
		{PROTO_drop_not_mine, 0, 2, WIRE_F_ASK, 0, WIRE_HDR_BYTES},
		{PROTO_drop_not_mine, 0, WIRE_NOBODY, WIRE_F_ASK, 0, WIRE_HDR_BYTES},
		{PROTO_drop_no_node, NET_NODES, 1, WIRE_F_ASK, 0, WIRE_HDR_BYTES},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct {
			struct wire_hdr h;
			uint8_t more;
		} frame = {.h = net_data(net, 0, 1, 7, 0, bad[i].flags)};
		const uint64_t before = net_count(net, 1, bad[i].why);

		frame.h.type = WIRE_LINK;
		frame.h.src_node = wire_be16(bad[i].src_node);
		frame.h.dst_node = wire_be16(bad[i].dst_node);
		frame.h.payload_len = wire_be16(bad[i].payload_len);
		assert_int_equal(net_inject(net, 1, &frame, bad[i].len), PROTO_RX_DONE);
		assert_int_equal(net_count(net, 1, bad[i].why), before + 1);
	}
	assert_int_equal(net_count(net, 1, PROTO_rx_link), 0);
	net_check_books(net, 1);
	finish(net);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pm_r4__what_another_link_may_bring_is_not_lost),
		cmocka_unit_test(pm_r4__a_link_far_behind_passes_nothing),
		cmocka_unit_test(pm_r4__what_is_sent_again_takes_nothing_back),
		cmocka_unit_test(pm_r4__what_came_meanwhile_is_not_nacked),
		cmocka_unit_test(pm_r4__what_each_link_has_passed_is_lost),
		cmocka_unit_test(pm_r4__what_was_passed_a_while_ago_is_lost),
		cmocka_unit_test(pm_r4__a_probe_learns_what_is_lost),
		cmocka_unit_test(pm_r4__a_node_with_one_link_is_nacked_at_once),
		cmocka_unit_test(pm_r2__a_refusal_is_said_by_a_node_of_several_links),
		cmocka_unit_test(pm_r5__go_back_n_does_not_wait_for_another_link),
		cmocka_unit_test(pm_r4__sequences_of_links_wrap),
		cmocka_unit_test(pm_r4__a_flow_opened_anew_knows_nothing_of_before),
		cmocka_unit_test(pm_r4__another_flow_in_its_place_knows_nothing_of_it),
		cmocka_unit_test(proto_adopt__what_came_by_each_link_goes_with_it),
		cmocka_unit_test(proto_out__an_answer_takes_the_link_of_its_frame),
		cmocka_unit_test(rtt__a_longer_link_is_no_queue),
		cmocka_unit_test(rtt__two_ways_by_the_shorter_link_are_no_shorter_than_one),
		cmocka_unit_test(rtt__a_longer_link_that_is_left_alone_is_no_queue),
		cmocka_unit_test(rtt__a_new_life_of_the_node_may_be_elsewhere),
		cmocka_unit_test(proto_rx__questions_of_links_are_told),
		cmocka_unit_test(proto_rx__answers_of_links_are_of_the_session),
		cmocka_unit_test(proto_rx__bad_questions_of_links_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
