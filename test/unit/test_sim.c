/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Named scenarios on the simulated network: what random histories found becomes one of these, and
 * what a network can do to the core is tried here by itself. The simulator's oracle judges each.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sim/sim.h"

#define MS  1000000ull
#define SEC 1000000000ull

struct heard {
	uint32_t delivered, completed, errors;
	int error; /* last */
	uint64_t last_at;
};

static struct topology *net;
static struct heard heard;

static void
delivered(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	(void)arg, (void)d, (void)tag;
	heard.delivered++;
	heard.last_at = sim_now(s);
}

static void
completed(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	(void)arg, (void)s, (void)node, (void)tag;
	heard.completed++;
	heard.errors += error != 0;
	heard.error = error ? error : heard.error;
}

static struct sim_config
config(const char *network)
{
	char error[256];

	memset(&heard, 0, sizeof(heard));
	if (topology_parse(network, &net, error, sizeof(error)) != 0)
		fail_msg("%s", error);
	struct proto_config core = sim_defaults(net->host_count, 1500);

	core.flows_max = 256;
	core.rto_max_us = 100000;
	core.flow_idle_us = 1000000;
	return (struct sim_config){
		.topology = net,
		.proto = core,
		.entries = 1024,
		.bulks = 2048,
		.inline_max = 40,
		.nic_bytes = 30000,
		.audit = true,
		.seed = 1,
		.delivered = delivered,
		.completed = completed,
	};
}

static const char pair[] = "switch s buffer=256K\nhost h[0-1]\n"
			   "link h[0-1] s bandwidth=10G latency=2us\n";

static struct sim *
started(const struct sim_config *c)
{
	struct sim *s = sim_new(c);

	for (uint32_t i = 0; i < net->host_count; i++) {
		for (uint16_t k = 0; k < c->proto.contexts_max; k++)
			assert_int_equal(sim_open(s, i, k), 0);
	}
	return s;
}

static void
end(struct sim *s)
{
	if (sim_error(s) != NULL)
		fail_msg("at %.3f ms: %s", (double)sim_now(s) / 1e6, sim_error(s));
	sim_free(s);
	topology_free(net);
}

/* Everything that was sent arrives, and nothing is left. */
static void
settle_whole(struct sim *s, uint32_t sent)
{
	if (!sim_settle(s, 60 * SEC))
		fail_msg("%s", sim_error(s));
	assert_int_equal(heard.delivered, sent);
	assert_int_equal(heard.errors, 0);
	end(s);
}

static uint32_t
send_mixed(struct sim *s, uint32_t n)
{
	static const uint32_t lengths[] = {0, 1, 40, 41, 1450, 1451, 60000};
	uint32_t sent = 0;

	for (uint32_t i = 0; i < n; i++)
		sent += sim_send(s, i & 1, i % 4, ~i & 1, i / 2 % 4, lengths[i % 7], i) == 0;
	return sent;
}

static uint64_t
digest_of(uint64_t seed)
{
	struct sim_config c = config(pair);

	c.seed = seed;
	c.fault = (struct fault_config){.loss_ppm = 50000, .jitter_ns = 20000};
	struct sim *s = started(&c);

	send_mixed(s, 200);
	assert_true(sim_settle(s, 60 * SEC));
	uint64_t d = sim_digest(s);

	end(s);
	return d;
}

static void
sim__a_seed_is_a_history(void **state)
{
	(void)state;
	assert_true(digest_of(1) == digest_of(1));
	assert_true(digest_of(1) != digest_of(2));
}

static void
sim__a_frame_takes_its_time(void **state)
{
	struct sim_config c = config(pair);
	struct sim *s = started(&c);

	(void)state;
	assert_int_equal(sim_send(s, 0, 0, 1, 0, 1, 0), 0); /* shakes hands, opens the flow */
	assert_true(sim_settle(s, SEC));
	uint64_t start = sim_now(s);

	assert_int_equal(sim_send(s, 0, 0, 1, 0, 1000, 0), 0);
	assert_true(sim_settle(s, SEC));
	/* two cables of 2 us, two serialisations of 1088 bytes at 10 Gb/s */
	assert_in_range(heard.last_at - start, 4000 + 2 * 870, 4000 + 2 * 871);
	end(s);
}

static void
scenario(struct fault_config fault, enum proto_recovery recovery)
{
	struct sim_config c = config(pair);

	c.fault = fault;
	c.proto.recovery = recovery;
	c.proto.retries = 200; /* a burst of losses may last for 100 frames, and each be a retry */
	struct sim *s = started(&c);
	uint32_t sent = 0;

	for (int i = 0; i < 20; i++) {
		sent += send_mixed(s, 40);
		assert_true(sim_run(s, sim_now(s) + MS));
	}
	settle_whole(s, sent);
}

#define WEATHER(name, ...)                                                                         \
	static void sim_weather__##name(void **state)                                              \
	{                                                                                          \
		(void)state;                                                                       \
		scenario((struct fault_config){__VA_ARGS__}, PROTO_SELECTIVE);                     \
		scenario((struct fault_config){__VA_ARGS__}, PROTO_GO_BACK_N);                     \
	}
WEATHER(fair, 0)
WEATHER(loss_20_percent, .loss_ppm = 100000)
WEATHER(bursts_of_loss, .burst_ppm = 5000, .burst_frames = 30)
WEATHER(duplicates, .duplicate_ppm = 300000)
WEATHER(reordered_by_a_window, .reorder_ppm = 200000, .reorder_ns = 500000)
WEATHER(corruption, .corrupt_ppm = 50000)
WEATHER(delay_above_the_timeout, .delay_ns = 3 * MS, .jitter_ns = 6 * MS)
WEATHER(flapping, .blackout_period_ns = 10 * MS, .blackout_ns = 4 * MS)
WEATHER(everything, .loss_ppm = 30000, .burst_ppm = 1000, .burst_frames = 10,
	.duplicate_ppm = 50000, .reorder_ppm = 50000, .corrupt_ppm = 20000, .jitter_ns = 100000)

static void
blackout(bool out, bool in)
{
	struct sim_config c = config(pair);

	c.proto.retries = 100;
	struct sim *s = started(&c);
	uint32_t sent = send_mixed(s, 50);

	assert_true(sim_run(s, MS / 50));
	sim_cut(s, 1, out, in);
	sent += send_mixed(s, 50);
	assert_true(sim_run(s, 500 * MS));
	sim_cut(s, 1, false, false);
	settle_whole(s, sent);
}

static void
sim__blackouts_of_half_a_second(void **state)
{
	(void)state;
	blackout(true, true);
	blackout(true, false);
	blackout(false, true);
}

static void
sim__a_dead_peer_ends_in_errors(void **state)
{
	struct sim_config c = config(pair);
	struct sim *s = started(&c);
	uint32_t sent = send_mixed(s, 50);

	(void)state;
	assert_true(sim_settle(s, SEC));
	sim_cut(s, 1, true, true);
	for (int i = 0; i < 10; i++)
		sent += sim_send(s, 0, 0, 1, 0, 100, 0) == 0;
	/* 16 retries of 100 ms at most */
	assert_true(sim_settle(s, 3 * SEC));
	assert_int_equal(heard.errors, 10);
	assert_int_equal(heard.error, ETIMEDOUT);
	assert_int_equal(heard.completed, sent);
	end(s);
}

static void
sim__restarts_at_any_moment(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < 200; at++) {
		struct sim_config c = config(pair);
		struct sim *s = started(&c);

		send_mixed(s, 60);
		assert_true(sim_run(s, at * 1000));
		sim_restart(s, at & 1);
		for (uint16_t k = 0; k < 4; k++)
			sim_open(s, at & 1, k);
		send_mixed(s, 20);
		if (!sim_settle(s, 60 * SEC))
			fail_msg("restart at %lu us: %s", at, sim_error(s));
		end(s);
	}
}

static void
sim__a_reader_that_pauses_for_seconds(void **state)
{
	struct sim_config c = config(pair);

	(void)state;
	c.entries = 8;
	c.bulks = 64;
	struct sim *s = started(&c);

	sim_pause(s, 1, 0, true);
	for (int i = 0; i < 100; i++)
		assert_int_equal(sim_send(s, 0, 0, 1, 0, i % 3 ? 30 : 50000, 0), 0);
	assert_true(sim_run(s, 5 * SEC));
	assert_int_equal(heard.errors, 0); /* full is not dead */
	sim_pause(s, 1, 0, false);
	settle_whole(s, 100);
}

static void
sim__thousands_of_flows(void **state)
{
	static const char many[] =
		"switch s buffer=1M\nhost h[0-39]\nlink h[0-39] s bandwidth=10G latency=2us\n";
	struct sim_config c = config(many);
	uint32_t sent = 0;

	(void)state;
	c.proto.flows_max = 4096;
	c.audit = false;
	struct sim *s = started(&c);

	for (uint32_t i = 0; i < 40; i++) {
		for (uint32_t k = 0; k < 40; k++) {
			for (uint16_t x = 0; x < 4 && i != k; x++)
				sent += sim_send(s, i, x, k, (uint16_t)(3 - x), 200, 0) == 0;
		}
	}
	assert_int_equal(sent, 40 * 39 * 4);
	settle_whole(s, sent);
}

/* Found by seed 18: a duplicate of an opening frame came after its flow was forgotten. */
static void
sim_seed_18__an_opening_frame_is_remembered(void **state)
{
	struct sim_config c = config(pair);

	(void)state;
	c.proto.flow_idle_us = 1; /* four rto_max count */
	c.fault = (struct fault_config){.duplicate_ppm = 1000000, .jitter_ns = 50 * MS};
	settle_whole(started(&c), 0);
	c = config(pair);
	c.proto.flow_idle_us = 1;
	c.fault = (struct fault_config){.duplicate_ppm = 1000000, .jitter_ns = 50 * MS};
	struct sim *s = started(&c);

	settle_whole(s, send_mixed(s, 100));
}

/* Found by seed 62: room granted to a sender that had given up was never given to another. */
static void
sim_seed_62__room_of_a_vanished_sender_comes_back(void **state)
{
	static const char three[] = "switch s\nhost h[0-2]\n"
				    "link h[0-2] s bandwidth=10G latency=2us\n";
	struct sim_config c = config(three);

	(void)state;
	c.entries = 2;
	c.bulks = 8;
	c.proto.retries = 4;
	c.proto.rto_max_us = 20000;
	struct sim *s = started(&c);

	sim_pause(s, 0, 0, true);
	for (int i = 0; i < 4; i++)
		sim_send(s, 1, 0, 0, 0, 8 * 1450, 0);
	assert_true(sim_run(s, 10 * MS));
	/* node 1 gives up while the room is promised to it, and nobody hears that it did */
	sim_cut(s, 1, true, true);
	sim_close(s, 1, 0, false);
	sim_pause(s, 0, 0, false);
	assert_true(sim_run(s, 20 * MS));
	uint32_t before = heard.delivered;

	for (int i = 0; i < 4; i++)
		sim_send(s, 2, 0, 0, 0, 8 * 1450, 0);
	assert_true(sim_settle(s, 30 * SEC));
	assert_int_equal(heard.delivered - before, 4);
	end(s);
}

/* Found by seed 14986: what was held out of order took the one descriptor that the refused message
 * before it waited for, again and again. */
static void
sim_seed_14986__held_frames_do_not_starve_what_is_before_them(void **state)
{
	struct sim_config c = config(pair);
	uint32_t sent = 0;

	(void)state;
	c.proto.rx_frames_max = 1;
	c.fault = (struct fault_config){.loss_ppm = 100000};
	c.proto.retries = 100;
	struct sim *s = started(&c);

	for (int i = 0; i < 60; i++)
		sent += sim_send(s, 0, 0, 1, 0, i % 5 ? 1000 : 0, 0) == 0;
	settle_whole(s, sent);
}

/* Found by seed 840: a round in which only first frames of new flows came divided by their
 * number. */
static void
sim_seed_840__rounds_of_new_flows(void **state)
{
	static const char three[] = "switch s\nhost h[0-2]\n"
				    "link h[0-2] s bandwidth=10G latency=2us\n";

	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++) { /* clocks begin anywhere */
		struct sim_config c = config(three);
		uint32_t sent = 0;

		c.seed = seed;
		c.proto.contexts_max = 200;
		c.proto.flows_max = 1000;
		struct sim *s = started(&c);

		for (uint16_t i = 0; i < 200; i++) {
			for (uint32_t from = 1; from < 3; from++)
				sent += sim_send(s, from, i, 0, i, 100, 0) == 0;
			if (i % 40 == 39)
				assert_true(sim_run(s, (i + 1) * 2000ull));
		}
		settle_whole(s, sent);
	}
}

/* ------------------------------------------------------------------ many to one */

#define GATHER_MAX 16

/* Senders that always have something for node 0, and what came of each. */
struct gather {
	uint64_t bytes[GATHER_MAX + 1];
	bool rest_stop; /* all but node 1 */
};

static void
gather_again(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	const struct gather *g = arg;

	(void)error;
	if (node == 1 || !g->rest_stop)
		sim_send(s, node, 0, 0, 0, 16384, tag);
}

static void
gather_heard(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct gather *g = arg;

	(void)s, (void)tag;
	g->bytes[d->src_node] += d->msg_len;
}

/* Return the configuration of a network whose nodes have room for all that is sent to them. */
static struct sim_config
config_roomy(const char *text)
{
	struct sim_config c = config(text);

	c.audit = false;
	c.bulks = 65536;
	c.entries = 4096;
	c.proto.tx_frames_max = c.proto.rx_frames_max = 32768;
	return c;
}

/* Return the port by which frames come to node 0. */
static uint32_t
port_of_0(void)
{
	return net->edges[net->vertices[net->hosts[0]].first_edge].reverse;
}

/* `senders` of 10 Gb/s to one port of 128K. */
static void
gather(uint32_t senders, uint32_t drift_ppm, uint64_t how_long)
{
	char text[160];
	struct gather g = {0}, before;

	snprintf(text, sizeof(text),
		"switch s buffer=128K\nhost h[0-%u]\n"
		"link h[0-%u] s bandwidth=10G latency=5us\n",
		senders, senders);
	struct sim_config c = config_roomy(text);

	c.delivered = gather_heard;
	c.completed = gather_again;
	c.drift_ppm = drift_ppm;
	c.arg = &g;
	struct sim *s = started(&c);
	const uint32_t port = port_of_0();

	for (uint32_t i = 1; i <= senders; i++) {
		for (int k = 0; k < 16; k++)
			sim_send(s, i, 0, 0, 0, 16384, 0);
	}
	assert_true(sim_run(s, 10 * MS));
	uint64_t drops = sim_edge(s, port)->drops, sum = 0, least = UINT64_MAX, most = 0;

	before = g;
	assert_true(sim_run(s, 10 * MS + how_long));
	for (uint32_t i = 1; i <= senders; i++) {
		uint64_t n = g.bytes[i] - before.bytes[i];

		sum += n;
		least = n < least ? n : least;
		most = n > most ? n : most;
	}
	assert_int_equal(sim_edge(s, port)->drops, drops); /* none but in the first round trips */
	/* of what frames of 1538 bytes leave to payloads */
	assert_true((double)sum * 8 > 0.96 * 10e9 * 1450 / 1538 * (double)how_long / 1e9);
	assert_true(least * 10 > most * 8);
	/* the last one has all: 5 ms later at the latest */
	g.rest_stop = true;
	while (sim_pending(s) > 16)
		assert_true(sim_run(s, sim_now(s) + MS));
	assert_true(sim_run(s, sim_now(s) + 5 * MS));
	before = g;
	assert_true(sim_run(s, sim_now(s) + 10 * MS));
	assert_true((double)(g.bytes[1] - before.bytes[1]) * 8 > 0.96 * 10e9 * 1450 / 1538 * 0.01);
	end(s);
}

static void
sim_gather__fair_full_and_without_loss(void **state)
{
	(void)state;
	gather(2, 0, 50 * MS);
	gather(5, 0, 50 * MS);
	gather(16, 0, 50 * MS);
}

/* Delays are measured between two clocks: the smallest must not grow old. */
static void
sim_gather__clocks_drift(void **state)
{
	(void)state;
	gather(2, 100, SEC);
	gather(6, 100, SEC);
}

/* ------------------------------------------------------------------ several long messages */

#define LONG_SENDERS 3
#define LONG_FRAMES  100 /* of the shortest; each is twice as long as the one before */

/* When the message of each node came. */
struct long_messages {
	uint64_t at[LONG_SENDERS + 1];
};

static void
long_came(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	struct long_messages *l = arg;

	(void)tag;
	if (d->msg_len > 8)
		l->at[d->src_node] = sim_now(s);
}

static uint32_t
long_bytes(uint32_t sender, uint32_t payload)
{
	return (LONG_FRAMES << (sender - 1)) * payload;
}

/* Send a message from each of some nodes to node 0 at once, the longest first. Return when they
 * came, and what waited in its port at most, bytes. */
static struct long_messages
send_long(uint64_t port_bps, uint64_t *queue_max)
{
	struct long_messages l = {0};
	struct sim_config c = config_roomy("switch s buffer=1M\nhost h[0-3]\n"
					   "link h[0-3] s bandwidth=10G latency=1us\n");

	c.delivered = long_came;
	c.arg = &l;
	c.proto.port_bps = port_bps;
	struct sim *s = started(&c);
	const uint32_t port = port_of_0();

	for (uint32_t i = 1; i <= LONG_SENDERS; i++)
		sim_send(s, i, 0, 0, 0, 8, 0);
	assert_true(sim_run(s, MS));
	sim_edge_reset(s, port);
	for (uint32_t i = LONG_SENDERS; i >= 1; i--)
		sim_send(s, i, 0, 0, 0, long_bytes(i, c.proto.payload_max), 0);
	assert_true(sim_run(s, 10 * MS));
	for (uint32_t i = 1; i <= LONG_SENDERS; i++) {
		assert_true(l.at[i] != 0);
		l.at[i] -= MS;
	}
	*queue_max = sim_edge(s, port)->queue_max;
	end(s);
	return l;
}

/* A message goes the sooner the less is left of it, and the port is never without a frame. */
static void
sim_grants__the_shortest_goes_first(void **state)
{
	const double frame_ns = 1538 * 0.8;
	uint64_t queue, queue_without;

	(void)state;
	const struct long_messages with = send_long(SIM_RATE_OF_LINK, &queue);
	const struct long_messages without = send_long(0, &queue_without);

	/* half of the link was its own, where each of the three had a third */
	assert_true((double)with.at[1] < 2.1 * LONG_FRAMES * frame_ns);
	assert_true((double)without.at[1] > 2.7 * LONG_FRAMES * frame_ns);
	assert_true((double)with.at[2] < 0.9 * (double)without.at[2]);
	/* the last one has to wait for little but the port */
	assert_true((double)with.at[3] < 1.15 * 7 * LONG_FRAMES * frame_ns);
	assert_true(queue < 32 * 1538);
	assert_true(queue_without > queue);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim__a_seed_is_a_history),
		cmocka_unit_test(sim__a_frame_takes_its_time),
		cmocka_unit_test(sim_weather__fair),
		cmocka_unit_test(sim_weather__loss_20_percent),
		cmocka_unit_test(sim_weather__bursts_of_loss),
		cmocka_unit_test(sim_weather__duplicates),
		cmocka_unit_test(sim_weather__reordered_by_a_window),
		cmocka_unit_test(sim_weather__corruption),
		cmocka_unit_test(sim_weather__delay_above_the_timeout),
		cmocka_unit_test(sim_weather__flapping),
		cmocka_unit_test(sim_weather__everything),
		cmocka_unit_test(sim__blackouts_of_half_a_second),
		cmocka_unit_test(sim__a_dead_peer_ends_in_errors),
		cmocka_unit_test(sim__restarts_at_any_moment),
		cmocka_unit_test(sim__a_reader_that_pauses_for_seconds),
		cmocka_unit_test(sim__thousands_of_flows),
		cmocka_unit_test(sim_seed_18__an_opening_frame_is_remembered),
		cmocka_unit_test(sim_seed_62__room_of_a_vanished_sender_comes_back),
		cmocka_unit_test(sim_seed_14986__held_frames_do_not_starve_what_is_before_them),
		cmocka_unit_test(sim_seed_840__rounds_of_new_flows),
		cmocka_unit_test(sim_gather__fair_full_and_without_loss),
		cmocka_unit_test(sim_gather__clocks_drift),
		cmocka_unit_test(sim_grants__the_shortest_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
