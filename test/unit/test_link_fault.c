/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the fault link, around the loop link and around udp: what it loses, doubles, corrupts,
 * holds and counts, and that a seed decides it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>

#include "fault.h"
#include "link_pair.h"

static struct fault_link_counters
faults_of_a(void)
{
	struct fault_link_counters counters;

	assert_int_equal(fault_link_counters(&a, 0, &counters), 0);
	return counters;
}

static uint64_t
dropped(const struct fault_link_counters *c)
{
	uint64_t sum = c->heap_full + c->no_mbuf;
	int i;

	for (i = 0; i < FAULT_CAUSES; i++)
		sum += c->model.dropped[i];
	return sum;
}

struct flow {
	uint64_t taken, received, corrupted; /* frames */
	uint32_t backwards;                  /* frames received with a lower number than before */
};

/* Poll both ends once; b takes at most n. */
static void
poll_flow(struct flow *flow, uint16_t n, uint32_t *last)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t i, got;
	int wrong;

	assert_int_equal(a.ops->rx(&a, 0, bufs, BURST), 0);
	got = b.ops->rx(&b, 0, bufs, n);
	for (i = 0; i < got; i++) {
		/* A flip in the number makes most of the other bytes wrong. */
		wrong = frame_wrong_bits(bufs[i], frame_number(bufs[i]));
		if (wrong == 0) {
			flow->backwards += frame_number(bufs[i]) < *last;
			*last = frame_number(bufs[i]);
		}
		flow->corrupted += wrong != 0;
	}
	rte_pktmbuf_free_bulk(bufs, got);
	flow->received += got;
}

/* Offer `frames` frames by the faults given, what is not taken again; then wait for the rest. */
static struct flow
run_flow(const char *fault, uint32_t descriptors, uint32_t frames, uint16_t drain)
{
	struct flow flow = {0};
	uint32_t number = 0, last = 0;
	uint16_t n;
	int idle;

	link_pair_open_loop(fault, descriptors);
	while (number < frames) {
		n = (uint16_t)(1 + number % BURST);
		n = frames_transmit(number, (uint16_t)RTE_MIN(n, frames - number), LEN, 2);
		number += n;
		poll_flow(&flow, drain, &last);
	}
	flow.taken = number;
	/* 100 empty polls in a row after nothing was held back any more */
	for (idle = 0; idle < 100; idle++) {
		uint64_t before = flow.received;

		poll_flow(&flow, drain, &last);
		if (flow.received != before || faults_of_a().held > 0)
			idle = -1;
	}
	return flow;
}

static void
assert_flow_conserved(const struct flow *flow)
{
	const struct fault_link_counters c = faults_of_a();

	assert_int_equal(c.held, 0);
	assert_int_equal(flow->taken, c.model.frames - c.pending);
	assert_int_equal(flow->taken + c.model.duplicated, flow->received + dropped(&c));
	assert_int_equal(link_stats_of(&a).tx_frames, flow->received);
	assert_int_equal(link_stats_of(&b).rx_frames, flow->received);
	assert_int_equal(link_stats_of(&b).rx_no_mbuf, 0);
	assert_int_equal(link_stats_of(&a).tx_refused, c.heap_full + c.no_mbuf);
}

static void
fault_tx__undisturbed_passes_in_order(void **state)
{
	struct flow flow;

	(void)state;
	flow = run_flow("seed=1", 0, 10000, BURST);
	assert_int_equal(flow.received, 10000);
	assert_int_equal(flow.backwards, 0);
	assert_int_equal(link_stats_of(&a).faults, 0);
	assert_flow_conserved(&flow);
}

static void
fault_tx__loss_doubles_corrupts_in_order(void **state)
{
	struct flow flow;

	(void)state;
	flow = run_flow("loss=5%,burst=0.5%x4,duplicate=3%,corrupt=2%", 0, 20000, BURST);
	assert_int_equal(flow.backwards, 0);
	assert_int_equal(flow.corrupted, faults_of_a().model.corrupted);
	assert_in_range(faults_of_a().model.dropped[FAULT_LOSS], 800, 1200);
	assert_flow_conserved(&flow);
}

/* An inbox of eight frames and a slow reader: most bursts are taken in part or not at all. */
static void
fault_tx__backpressure_keeps_counts_and_order(void **state)
{
	struct flow flow;

	(void)state;
	flow = run_flow("loss=5%,duplicate=10%,corrupt=10%", 8, 20000, 3);
	assert_int_equal(flow.backwards, 0);
	assert_int_equal(flow.corrupted, faults_of_a().model.corrupted);
	assert_flow_conserved(&flow);
}

static void
fault_tx__everything_conserves(void **state)
{
	struct flow flow;

	(void)state;
	flow = run_flow("loss=5%,reorder=5%+30us,duplicate=2%,corrupt=1%,delay=10us,jitter=5us,"
			"rate=2G,queue=8K,blackout=1ms/10ms,burst=0.1%x8,seed=7",
		64, 50000, 8);
	assert_true(flow.backwards > 0);
	assert_true(faults_of_a().model.dropped[FAULT_LOSS] > 0);
	assert_true(faults_of_a().model.delayed > 0);
	assert_flow_conserved(&flow);
}

/* The refusals of the inner link must not change what the seed says of the frames. */
static void
fault_tx__same_losses_with_and_without_backpressure(void **state)
{
	struct flow free_flow, slow_flow;
	uint64_t lost;

	(void)state;
	free_flow = run_flow("loss=5%,duplicate=5%", 0, 5000, BURST);
	lost = faults_of_a().model.dropped[FAULT_LOSS];
	link_close(&a);
	link_close(&b);
	slow_flow = run_flow("loss=5%,duplicate=5%", 8, 5000, 3);
	assert_int_equal(faults_of_a().pending, 0);
	assert_int_equal(faults_of_a().model.dropped[FAULT_LOSS], lost);
	assert_int_equal(free_flow.received, slow_flow.received);
}

static void
fault_tx__delay_holds_frames_back(void **state)
{
	const uint64_t start = rte_rdtsc();
	struct rte_mbuf *bufs[BURST];

	(void)state;
	link_pair_open_loop("delay=2ms", 0);
	assert_int_equal(frames_transmit(0, 10, LEN, 2), 10);
	assert_int_equal(b.ops->rx(&b, 0, bufs, BURST), 0);
	frames_expect(0, 10, LEN);
	assert_true(rte_rdtsc() - start >= rte_get_tsc_hz() / 500);
	assert_int_equal(link_stats_of(&a).faults, 10);
	assert_int_equal(a.ops->rx_fd(&a, 0), -1);
}

static void
fault_tx__held_copy_sees_no_later_change(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	link_pair_open_loop("delay=100us", 0);
	m = frame_make(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	memset(rte_pktmbuf_mtod(m, void *), 0xff, LEN);
	frames_expect(1, 1, LEN);
	rte_pktmbuf_free(m);
}

/* The engine will send the frame that it holds again: a flip must not be in it. */
static void
fault_tx__corruption_flips_one_bit_of_a_copy(void **state)
{
	struct rte_mbuf *m, *got;

	(void)state;
	link_pair_open_loop("corrupt=100%", 0);
	m = frame_make(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(frames_receive(&got, 1), 1);
	assert_int_equal(frame_wrong_bits(got, 1), 1);
	assert_int_equal(frame_wrong_bits(m, 1), 0);
	rte_pktmbuf_free(m);
	rte_pktmbuf_free(got);
}

static void
fault_tx__empty_pool_is_counted(void **state)
{
	static struct rte_mbuf *hog[MBUFS];

	(void)state;
	link_pair_open_loop("duplicate=100%", 0);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool_a, hog, MBUFS - 5), 0);
	assert_int_equal(frames_transmit(0, 5, LEN, 2), 5);
	/* Each frame frees itself, so that the later ones find room for a copy. */
	assert_true(faults_of_a().no_mbuf > 0);
	assert_int_equal(link_stats_of(&a).tx_frames, 10 - faults_of_a().no_mbuf);
	assert_int_equal(link_stats_of(&a).tx_refused, faults_of_a().no_mbuf);
	rte_pktmbuf_free_bulk(hog, MBUFS - 5);
}

static void
fault_close__frees_what_is_held(void **state)
{
	(void)state;
	link_pair_open_loop("delay=4s", 0);
	assert_int_equal(frames_transmit(0, BURST, LEN, 2), BURST);
	assert_int_equal(faults_of_a().held, BURST);
	link_close(&a);
	assert_int_equal(rte_mempool_avail_count(pool_a), MBUFS);
}

static void
fault_tx__queues_have_their_own_model(void **state)
{
	struct link_config config = loop_config("pair", "loss=50%");
	struct fault_link_counters c[2];
	struct rte_mbuf *m;
	uint16_t q;
	uint32_t i;

	(void)state;
	config.queues = 2;
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	for (i = 0; i < 1000; i++) {
		for (q = 0; q < 2; q++) {
			m = frame_make(i, LEN);
			assert_int_equal(a.ops->tx(&a, q, &m, 1), 1);
		}
	}
	for (q = 0; q < 2; q++) {
		assert_int_equal(fault_link_counters(&a, q, &c[q]), 0);
		assert_int_equal(c[q].model.frames, 1000);
	}
	assert_int_not_equal(c[0].model.dropped[FAULT_LOSS], c[1].model.dropped[FAULT_LOSS]);
	assert_int_equal(fault_link_counters(&a, 2, &c[0]), -EINVAL);
}

static void
fault_link_counters__of_a_plain_link(void **state)
{
	struct fault_link_counters counters;

	(void)state;
	link_pair_open_loop("", 0);
	assert_int_equal(fault_link_counters(&a, 0, &counters), -ENOTSUP);
}

static void
fault_tx__wraps_udp(void **state)
{
	struct link_config config = udp_config(1);
	struct link_addr addr = {.ip = IP};

	(void)state;
	assert_int_equal(link_open(&b, &config, 2, pool_b), 0);
	snprintf(config.fault, sizeof(config.fault), "loss=0%%");
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	addr.port = link_port_of(&b);
	assert_int_equal(a.ops->add_peer(&a, 2, &addr), 0);
	assert_true(a.ops->rx_fd(&a, 0) >= 0);
	assert_int_equal(frames_transmit(0, BURST, LEN, 2), BURST);
	frames_expect(0, BURST, LEN);
}

/* ------------------------------------------------------------------ */

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LINK_TEST(fault_tx__undisturbed_passes_in_order),
		LINK_TEST(fault_tx__loss_doubles_corrupts_in_order),
		LINK_TEST(fault_tx__backpressure_keeps_counts_and_order),
		LINK_TEST(fault_tx__everything_conserves),
		LINK_TEST(fault_tx__same_losses_with_and_without_backpressure),
		LINK_TEST(fault_tx__delay_holds_frames_back),
		LINK_TEST(fault_tx__held_copy_sees_no_later_change),
		LINK_TEST(fault_tx__corruption_flips_one_bit_of_a_copy),
		LINK_TEST(fault_tx__empty_pool_is_counted),
		LINK_TEST(fault_close__frees_what_is_held),
		LINK_TEST(fault_tx__queues_have_their_own_model),
		LINK_TEST(fault_link_counters__of_a_plain_link),
		LINK_TEST(fault_tx__wraps_udp),
	};
	int failed;

	if (link_pair_begin("test_link_fault") != 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	link_pair_end();
	return failed;
}
