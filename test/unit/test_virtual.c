/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rates in virtual time: the whole engine, of many nodes in one process, behind switch ports that
 * have a rate and a drop-tail queue (drivers/fault_model.h). Engine and client are compiled with a
 * clock of the test's own (script_clock.h), which moves by TICK_NS while all nodes have a turn.
 * So a rate is that of the protocol, on any machine, and the same in each run.
 *
 * Design notes
 * 1. Each node opens loop links that have no peer; their functions are replaced. A frame that a
 *    node sends is copied, decided about by the model of its destination's port, and is copied
 *    again into an mbuf of the receiver when its time has come.
 * 2. A frame is behind those before it at the same port, since all have the same delay: a port is a
 *    queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_eal.h>

#include "client/client.h"
#include "engine/lane.h"
#include "fault_model.h"
#include "script_clock.h"

#define TICK_NS    1000
#define DELAY_NS   5000
#define NODES_MAX  17
#define LINKS_MAX  2
#define WAITING    4096
#define FRAME_MAX  2048
#define RATE       UINT64_C(1000000000)
#define QUEUE      131072
#define PIECE      62500u
#define PIECES     16u
#define CONTEXTS   32
#define PATIENCE_S 20 /* virtual */

static struct pmx_node *nodes[NODES_MAX];
static unsigned count, link_count;

/* ------------------------------------------------------------------ the network */

/* The port of a switch to one link of one node. */
static struct port {
	struct fault_model model;
	struct link *link;
	struct {
		uint64_t at;
		uint32_t len;
		uint8_t bytes[FRAME_MAX];
	} waiting[WAITING];
	uint32_t head, tail;
} * ports; /* by node and link */

static struct link_ops switched;

static struct port *
port_of(unsigned node, const struct link *l)
{
	return &ports[node * LINKS_MAX + (unsigned)(l - nodes[l->node]->embedded->links)];
}

static uint16_t
switch_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	(void)queue;
	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = bufs[i];
		struct fault_verdict v;

		assert_true(m->port < count && m->nb_segs == 1 && m->data_len <= FRAME_MAX);
		struct port *p = port_of(m->port, l);

		fault_model_frame(&p->model, script_now, m->data_len, &v);
		if (v.copies != 0) {
			assert_true(p->tail - p->head < WAITING);
			p->waiting[p->tail % WAITING].at = v.copy[0].release_ns;
			p->waiting[p->tail % WAITING].len = m->data_len;
			memcpy(p->waiting[p->tail++ % WAITING].bytes,
				rte_pktmbuf_mtod(m, const void *), m->data_len);
		}
		rte_pktmbuf_free(bufs[i]);
	}
	return n;
}

static uint16_t
switch_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct port *p = port_of(l->node, l);
	uint16_t i;

	(void)queue;
	script_now += TICK_NS / (count * link_count);
	for (i = 0; i < n && p->head != p->tail && p->waiting[p->head % WAITING].at <= script_now;
		i++) {
		const uint32_t k = p->head++ % WAITING;

		bufs[i] = rte_pktmbuf_alloc(l->pool);
		assert_non_null(bufs[i]);
		memcpy(rte_pktmbuf_append(bufs[i], (uint16_t)p->waiting[k].len),
			p->waiting[k].bytes, p->waiting[k].len);
	}
	return i;
}

static bool rate_is_known; /* link.rate_mbps is set */

/* Nodes 0 to n - 1, each with so many links, whose ports have a rate and a queue. */
static void
start(unsigned n, unsigned links, uint64_t rate_bps, const char *more)
{
	script_now = SCRIPT_HZ;
	script_randoms = 1;
	count = n;
	link_count = links;
	ports = calloc(NODES_MAX * LINKS_MAX, sizeof(*ports));
	assert_non_null(ports);
	switched = link_loop_ops;
	switched.tx = switch_tx;
	switched.rx = switch_rx;
	for (unsigned i = 0; i < n; i++) {
		char text[4096], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};
		int at = snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = virtual%u\n[engine]\nidle = spin\n"
			"[limits]\nmbufs = %u\ncontexts = %u\nsend_buffers = 1024\n"
			"receive_buffers = %u\nnodes = 64\npeers = 64\npin_watch = off\n%s\n",
			i, i, i == 0 || links > 1 ? 12288 : 4096, n == 1 ? CONTEXTS : 2,
			i == 0 && n > 1 ? 8192 : 64, more);

		for (unsigned l = 0; l < links; l++)
			at += snprintf(text + at, sizeof(text) - (size_t)at,
				"[link %u]\ndriver = loop\nport = virtual%u.%u\nencap = none\n"
				"rx_descriptors = 1024\ntx_descriptors = 256\nrate_mbps = %lu\n",
				l, i, l, rate_is_known ? (unsigned long)(rate_bps / 1000000) : 0);
		at += snprintf(text + at, sizeof(text) - (size_t)at, "[nodes]\n");
		for (unsigned k = 0; k < n; k++)
			at += snprintf(text + at, sizeof(text) - (size_t)at, "%u = auto%s\n", k,
				links > 1 ? " link=0,1" : "");
		if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
		for (unsigned l = 0; l < links; l++) {
			const struct fault_config config = {
				.rate_bps = rate_bps,
				.queue_bytes = QUEUE,
				.delay_ns = DELAY_NS,
			};

			nodes[i]->embedded->links[l].ops = &switched;
			fault_model_init(&ports[i * LINKS_MAX + l].model, &config);
		}
	}
}

static int
stop(void **state)
{
	(void)state;
	for (unsigned i = 0; i < count; i++) {
		pmx_node_close(nodes[i]);
		nodes[i] = NULL;
	}
	free(ports);
	ports = NULL;
	return 0;
}

static void
turn(void)
{
	for (unsigned i = 0; i < count; i++)
		pmx_node_poll(nodes[i]);
}

static uint64_t
counter(unsigned node, enum proto_counter which)
{
	return proto_counters(nodes[node]->embedded->engines[0].proto)[which];
}

/* ------------------------------------------------------------------ many to one */

static struct pmx_context *ctxs[NODES_MAX];

static void
open_all(void)
{
	const struct pmx_context_params p = {.size = sizeof(p), .idle = PMX_IDLE_SPIN};

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(pmx_context_open(&ctxs[i], nodes[i], 0, &p), 0);
}

/* All but node 0 send `pieces` of `len` bytes to it. Virtual seconds until all have come. */
static double
gather(uint32_t len, unsigned pieces)
{
	static uint8_t data[PIECE];
	unsigned left[NODES_MAX], missing = pieces * (count - 1);
	const uint64_t begun = script_now;

	for (unsigned i = 1; i < count; i++)
		left[i] = pieces;
	while (missing > 0) {
		struct pmx_message m;

		for (unsigned i = 1; i < count; i++) {
			const struct pmx_addr to = {0, 0};

			if (left[i] && pmx_send_copy(ctxs[i], to, data, len, NULL) == 0)
				left[i]--;
			pmx_sends_pending(ctxs[i]);
		}
		turn();
		while (pmx_receive(ctxs[0], &m) == 1) {
			assert_int_equal(m.len, len);
			missing--;
			pmx_release_receive_buffer(ctxs[0], &m);
		}
		if (script_now - begun > PATIENCE_S * (uint64_t)SCRIPT_HZ)
			fail_msg("%u messages of %u have not come within %d s", missing,
				pieces * (count - 1), PATIENCE_S);
	}
	const double s = (double)(script_now - begun) / SCRIPT_HZ;

	for (unsigned i = 1; i < count; i++) { /* their last Acks */
		while (pmx_sends_pending(ctxs[i]) != 0)
			turn();
	}
	return s;
}

/* The rate of so many senders of 1 MB each to one node, as a part of its port's. */
static double
gather_rate(unsigned senders, const char *more)
{
	uint64_t failed = 0, again = 0, first = 0;

	start(senders + 1, 1, RATE, more);
	open_all();
	gather(8, 1); /* all are connected */
	const double s = gather(PIECE, PIECES);

	for (unsigned i = 1; i < count; i++) {
		failed += counter(i, PROTO_messages_failed);
		again += counter(i, PROTO_tx_retransmits);
		first += counter(i, PROTO_tx_data);
	}
	const double rate = senders * PIECES * (double)PIECE * 8 / s / (double)RATE;

	print_message("%u senders: %.3f of the rate, %lu of %lu frames lost, %lu sent again\n",
		senders, rate, (unsigned long)ports[0].model.counters.dropped[FAULT_QUEUE],
		(unsigned long)ports[0].model.counters.frames, (unsigned long)again);
	assert_int_equal(failed, 0);
	assert_true(first > 0);
	return rate;
}

static void
gather__one_sender_fills_the_port(void **state)
{
	(void)state;
	assert_true(gather_rate(1, "") >= 0.9);
}

static void
gather__four_senders_do_not_collapse(void **state)
{
	(void)state;
	assert_true(gather_rate(4, "") >= 0.9);
}

static void
gather__sixteen_senders_do_not_collapse(void **state)
{
	(void)state;
	assert_true(gather_rate(16, "") >= 0.9);
}

/* ------------------------------------------------------------------ links */

/* The rate of one node to another by so many links, as a part of one link's. */
static double
links_rate(unsigned links)
{
	start(2, links, RATE / 10, "");
	open_all();
	gather(8, 1);
	/* a link is known to be alive when it has answered */
	for (uint64_t until = script_now + SCRIPT_HZ; script_now < until;)
		turn();
	const double s = gather(8192, 600);
	const double rate = 600 * 8192.0 * 8 / s / (double)(RATE / 10);

	print_message("%u links of 0.1 Gb/s: %.3f of the rate of one\n", links, rate);
	return rate;
}

static void
links__two_carry_twice_as_much(void **state)
{
	(void)state;
	const double one = links_rate(1);

	stop(NULL);
	const double two = links_rate(2);

	assert_true(one >= 0.9);
	assert_true(two >= 1.85 * one);
}

/* ------------------------------------------------------------------ short beside long */

#define TRIPS 500

/* The results: what round trips of 8 bytes take, and what part of the rate long messages get. */
struct mixture {
	double p50_us, p99_us, bulk;
};

static int
by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Send messages of 62,500 bytes from node 1's context 0, as many as can be; return their bytes that
 * have come to node 0. */
static uint64_t
bulk_turn(void)
{
	static uint8_t data[PIECE];
	const struct pmx_addr to = {0, 0};
	struct pmx_message m;
	uint64_t bytes = 0;

	while (pmx_send_copy(ctxs[1], to, data, PIECE, NULL) == 0)
		;
	pmx_sends_pending(ctxs[1]);
	while (pmx_receive(ctxs[0], &m) == 1) {
		bytes += m.len;
		pmx_release_receive_buffer(ctxs[0], &m);
	}
	return bytes;
}

/* Let one message arrive that `from` sent to `to`; return the bytes of bulk meanwhile. */
static uint64_t
one_way(struct pmx_context *from, struct pmx_context *to, struct pmx_addr at, bool bulk)
{
	struct pmx_message m;
	uint64_t bytes = 0, word = 0;

	assert_int_equal(pmx_send_copy(from, at, &word, sizeof(word), NULL), 0);
	while (pmx_receive(to, &m) != 1) {
		bytes += bulk ? bulk_turn() : 0;
		pmx_sends_pending(from);
		turn();
	}
	pmx_release_receive_buffer(to, &m);
	return bytes;
}

/* Measure round trips between node `pinger` and node 0, with or without bulk. */
static struct mixture
mix(unsigned pinger, uint64_t rate, bool bulk)
{
	static uint64_t trips[TRIPS];
	const struct pmx_context_params p = {
		.size = sizeof(p),
		.send_buffers = 16,
		.receive_buffers = 16,
		.idle = PMX_IDLE_SPIN,
	};
	struct pmx_context *ping, *pong;
	uint64_t bytes = 0, begun;

	start(3, 1, rate, "");
	open_all();
	gather(8, 1); /* all are connected */
	assert_int_equal(pmx_context_open(&ping, nodes[pinger], 1, &p), 0);
	assert_int_equal(pmx_context_open(&pong, nodes[0], 1, &p), 0);
	one_way(ping, pong, (struct pmx_addr){0, 1}, false);
	one_way(pong, ping, (struct pmx_addr){(uint16_t)pinger, 1}, false);
	for (uint64_t until = script_now + SCRIPT_HZ / 50; script_now < until; turn())
		bytes += bulk ? bulk_turn() : 0;
	bytes = 0;
	begun = script_now;
	for (unsigned i = 0; i < TRIPS; i++) {
		const uint64_t at = script_now;

		bytes += one_way(ping, pong, (struct pmx_addr){0, 1}, bulk);
		bytes += one_way(pong, ping, (struct pmx_addr){(uint16_t)pinger, 1}, bulk);
		trips[i] = script_now - at;
	}
	const double s = (double)(script_now - begun) / SCRIPT_HZ;

	qsort(trips, TRIPS, sizeof(trips[0]), by_value);
	stop(NULL);
	return (struct mixture){
		.p50_us = (double)trips[TRIPS / 2] * 1e6 / SCRIPT_HZ,
		.p99_us = (double)trips[TRIPS * 99 / 100] * 1e6 / SCRIPT_HZ,
		.bulk = (double)bytes * 8 / s / (double)rate,
	};
}

/* The goal is three times of what the 99th percentile is alone. On a slow link the frames that may
 * always wait are more. */
static void
short_beside_long(unsigned pinger, uint64_t rate, unsigned frames)
{
	const double frame_us = 1500 * 8 * 1e6 / (double)rate;
	const struct mixture alone = mix(pinger, rate, false), both = mix(pinger, rate, true);

	print_message("node %u, %lu Mb/s: alone %.1f, %.1f us (p50, p99); beside bulk %.1f, %.1f "
		      "us; the bulk has %.3f of the rate\n",
		pinger, (unsigned long)(rate / 1000000), alone.p50_us, alone.p99_us, both.p50_us,
		both.p99_us, both.bulk);
	assert_true(
		both.p99_us <= 3 * alone.p99_us || both.p99_us <= alone.p99_us + frames * frame_us);
	assert_true(both.bulk >= 0.85);
}

static void
mixed__of_one_sender(void **state)
{
	(void)state;
	short_beside_long(1, 10 * RATE, 8);
	short_beside_long(1, RATE, 8);
}

static void
mixed__of_two_senders(void **state)
{
	(void)state;
	short_beside_long(2, 10 * RATE, 8);
	short_beside_long(2, RATE, 8);
}

/* A sender that knows the rate of its port keeps what is long out of it. */
static void
mixed__with_known_rates(void **state)
{
	(void)state;
	rate_is_known = true;
	short_beside_long(1, 10 * RATE, 4);
	short_beside_long(1, RATE, 4);
	short_beside_long(2, 10 * RATE, 8);
	short_beside_long(2, RATE, 8);
	rate_is_known = false;
}

/* ------------------------------------------------------------------ contexts of one node */

/* All contexts of a node send all that they can to the next one: how many messages each has. */
static void
engine__serves_all_contexts_alike(void **state)
{
	struct pmx_context *c[CONTEXTS];
	uint64_t got[CONTEXTS] = {0}, least = UINT64_MAX, sum = 0;

	(void)state;
	start(1, 1, RATE, "");
	for (uint16_t i = 0; i < CONTEXTS; i++) {
		const struct pmx_context_params p = {
			.size = sizeof(p),
			.send_buffers = 64,
			.receive_buffers = 64,
			.idle = PMX_IDLE_SPIN,
		};

		assert_int_equal(pmx_context_open(&c[i], nodes[0], i, &p), 0);
	}
	for (unsigned n = 0; n < 300; n++) {
		for (uint16_t i = 0; i < CONTEXTS; i++) {
			const struct pmx_addr to = {0, (uint16_t)((i + 1) % CONTEXTS)};
			struct pmx_message m;

			while (pmx_send_copy(c[i], to, &n, sizeof(n), NULL) == 0)
				;
			while (pmx_receive(c[i], &m) == 1) {
				got[m.source.context]++;
				pmx_release_receive_buffer(c[i], &m);
			}
		}
		turn();
	}
	for (unsigned i = 0; i < CONTEXTS; i++) {
		least = got[i] < least ? got[i] : least;
		sum += got[i];
		pmx_context_close(c[i]);
	}
	print_message("the slowest of %d contexts has %lu messages, the mean is %lu\n", CONTEXTS,
		(unsigned long)least, (unsigned long)(sum / CONTEXTS));
	assert_true(sum > 0 && (double)least * CONTEXTS >= 0.9 * (double)sum);
}

int
main(void)
{
	char *eal[] = {"test_virtual", "--no-huge", "-m", "1024", "--no-pci", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(gather__one_sender_fills_the_port, stop),
		cmocka_unit_test_teardown(gather__four_senders_do_not_collapse, stop),
		cmocka_unit_test_teardown(gather__sixteen_senders_do_not_collapse, stop),
		cmocka_unit_test_teardown(links__two_carry_twice_as_much, stop),
		cmocka_unit_test(mixed__of_one_sender),
		cmocka_unit_test(mixed__of_two_senders),
		cmocka_unit_test(mixed__with_known_rates),
		cmocka_unit_test_teardown(engine__serves_all_contexts_alike, stop),
	};

	if (rte_eal_init(8, eal) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
