/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random histories of the PM core by seed: several nodes and contexts, a network that loses,
 * duplicates and reorders, applications with little room. The harness (proto_pair.c) judges; a seed
 * that fails is printed and becomes a named scenario in test_proto.c.
 *
 *   test_proto_random [seeds [first_seed]]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto_pair.h"

#ifndef FEWER /* an emulator's build says how many */
#define FEWER 1
#endif

static unsigned seeds = 1500 / FEWER;
static uint64_t first_seed = 1;

static struct proto_config
random_config(uint64_t seed)
{
	static const uint32_t payloads[] = {64, 200, 1024, 4096};
	struct proto_config c = net_config();
	uint32_t r = (uint32_t)(seed * 2654435761u);

	c.recovery = seed & 1 ? PROTO_GO_BACK_N : PROTO_SELECTIVE;
	c.cc = seed & 2 ? &cc_pm : &cc_delay;
	c.payload_max = payloads[r >> 4 & 3];
	c.window_frames = 1u << (2 + (r >> 6) % 8);
	c.path_frames = 4 + (r >> 9) % 300;
	c.path_bytes = 20000 + (r >> 12) % 300000;
	c.rx_frames_max = 64 + (r >> 15) % 8 * 400;
	c.ack_every = 1 + (r >> 18) % 16;
	c.retries = 100;
	c.hello_us = 5000000;
	c.rto_min_us = 200;
	c.rto_max_us = 5000;
	c.keepalive_us = r >> 21 & 1 ? 20000 : 0;
	c.flow_idle_us = r >> 22 & 1 ? 40000 : 2000000;
	c.ticks_per_sec = r >> 23 & 1 ? 5000000000u : r >> 24 & 1 ? 1000000 : NET_SEC;
	return c;
}

static void
random_sends(struct net *net, uint32_t largest)
{
	unsigned n = net_random(net, 6);

	while (n-- > 0) {
		unsigned src = net_random(net, net->count), ctxs = 1 + net_random(net, NET_CTXS);
		uint32_t len = net_random(net, 4) ? net_random(net, 300)
						  : net_random(net, largest + 1);
		int rc = net_send(net, src, net_random(net, ctxs), net_random(net, net->count),
			net_random(net, ctxs), len);

		if (rc < 0 && rc != -11)
			net_fail(net, "proto_send said %d", rc);
	}
}

/* A message that was taken back has not arrived, in no part. */
static bool
was_withdrawn(const struct net *net, const struct net_message *m)
{
	if (m->error != ECANCELED)
		return false;
	if (m->arrived != 0 || m->begun || m->completed != m->frags)
		net_fail(net, "a message that was taken back: %u arrived", m->arrived);
	return true;
}

static void
check_history(struct net *net)
{
	for (uint32_t i = 0; i < net->message_count; i++) {
		const struct net_message *m = &net->messages[i];

		if (m->completed != m->frags)
			net_fail(net, "message %u never completed", i);
		if (was_withdrawn(net, m))
			continue;
		if (m->error)
			net_fail(net, "message %u ended in error %u", i, m->error);
		if (m->arrived != m->frags)
			net_fail(net, "message %u was Acked and not delivered", i);
	}
	net_check_clean(net);
}

/* Takes some of the last messages back, of those that have not ended. */
static void
random_withdrawals(struct net *net)
{
	for (unsigned n = net_random(net, 4); n > 0 && net->message_count > 0; n--) {
		uint32_t most = net->message_count < 30 ? net->message_count : 30;

		net_withdraw(net, (int)(net->message_count - 1 - net_random(net, most)));
	}
}

static void
one_history(uint64_t seed)
{
	struct proto_config c = random_config(seed);
	uint32_t largest = 200000, frames = (c.rx_frames_max < 2000 ? c.rx_frames_max : 2000);

	if (largest > frames * c.payload_max)
		largest = frames * c.payload_max;
	c.assembly_frames_max = largest / c.payload_max + 41; /* as many as one context may have */
	c.hold_frames_max = seed % 5 ? 0 : 1 + (uint32_t)(seed / 5 % 100);
	struct net *net = net_new(1 + (unsigned)(seed % 4), &c, seed);
	uint32_t room = 1 + net_random(net, 40);

	net->at_once = net_random(net, 2) != 0;
	net->logging = false;
	net->audit = seed % 8 == 0;
	net->loss = net_random(net, 3) ? net_random(net, 200) : 0;
	net->dup = net_random(net, 2) ? net_random(net, 100) : 0;
	net->jitter = net_random(net, 2) ? net_random(net, 100000) : 0;
	net_open_all(net, room, largest / c.payload_max + 1 + net_random(net, 40));
	for (unsigned i = 0; i < net->count; i++) {
		net->nodes[i].burst = 1 + net_random(net, 40);
		for (unsigned k = 0; k < NET_CTXS; k++) {
			if (seed / 4 % 2)
				proto_ctx_copied(net->nodes[i].p, (uint16_t)k);
			net->nodes[i].apps[k].hold = net_random(net, 2) * net_random(net, 1000000);
		}
	}
	for (unsigned round = 0; round < 9; round++) {
		random_sends(net, largest);
		if (seed % 2 != 0)
			random_withdrawals(net);
		/* now and then another process takes over, in the midst of it all */
		if (seed % 3 == 0 && net_random(net, 2))
			net_move(net, net_random(net, net->count));
		net_run(net,
			net_random(net, 2) ? net_random(net, 200000)
					   : net_random(net, 20) * NET_MS / 4);
	}
	net_settle(net, 100 * NET_SEC);
	net_run(net, 10 * NET_MS);
	check_history(net);
	net_free(net);
}

static void
pm__random_histories_deliver_everything_once(void **state)
{
	(void)state;
	for (uint64_t s = first_seed; s < first_seed + seeds; s++)
		one_history(s);
}

/* Contexts close at any time, and open again. Each message ends: it has arrived, once, in a life of
 * its receiver; or its sender is told that it has not, or may not have (ECONNRESET). */
static void
one_history_of_lives(uint64_t seed)
{
	struct proto_config c = random_config(seed);

	c.payload_max = 256;
	struct net *net = net_new(2 + (unsigned)(seed % 2), &c, seed);

	net->logging = false;
	net->at_once = net_random(net, 2) != 0;
	net->loss = net_random(net, 2) * net_random(net, 200);
	net->jitter = net_random(net, 2) * net_random(net, 100000);
	net_open_all(net, 40, 40);
	for (unsigned round = 0; round < 40; round++) {
		unsigned node = net_random(net, net->count), ctx = net_random(net, 2);

		if (net->nodes[node].apps[ctx].open && net_random(net, 2)) {
			net_close(net, node, ctx, net_random(net, 2) != 0);
		} else if (!net->nodes[node].apps[ctx].open &&
			proto_ctx_pending(net->nodes[node].p, (uint16_t)ctx) == 0) {
			net_open(net, node, ctx, 40, 40);
			proto_ctx_open_wait(net->nodes[node].p, (uint16_t)ctx,
				net_random(net, 2) * net_random(net, 50000));
		}
		for (unsigned n = net_random(net, 6); n > 0; n--) {
			unsigned src = net_random(net, net->count), from = net_random(net, 2);

			if (net->nodes[src].apps[from].open)
				net_send(net, src, from, net_random(net, net->count),
					net_random(net, 2), net_random(net, 1000));
		}
		if (seed % 4 == 0)
			random_withdrawals(net);
		net_run(net,
			net_random(net, 2) ? net_random(net, 200000)
					   : net_random(net, 20) * NET_MS / 4);
	}
	net_settle(net, 100 * NET_SEC);
	for (uint32_t i = 0; i < net->message_count; i++) {
		const struct net_message *m = &net->messages[i];

		if (m->completed != m->frags)
			net_fail(net, "message %u never completed", i);
		if (was_withdrawn(net, m))
			continue;
		if (m->error ? m->error != ECONNREFUSED && m->error != ECONNRESET
			     : m->arrived != m->frags)
			net_fail(net, "message %u: %u of %u arrived, error %u", i, m->arrived,
				m->frags, m->error);
	}
	net_free(net);
}

static void
pm__random_lives_of_contexts(void **state)
{
	(void)state;
	for (uint64_t s = first_seed; s < first_seed + seeds; s++)
		one_history_of_lives(s);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pm__random_histories_deliver_everything_once),
		cmocka_unit_test(pm__random_lives_of_contexts),
	};

	if (argc > 1)
		seeds = (unsigned)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
