/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of how links are opened, and of the loop link. Of the udp link: test_link_udp.c; of the
 * fault link: test_link_fault.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "link_pair.h"

static void
link_open__unknown_driver_names_the_known(void **state)
{
	const struct link_config config = {.driver = "token-ring", .mtu = MTU};

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
	assert_non_null(strstr(a.error, "\"token-ring\""));
	assert_non_null(strstr(a.error, "ethdev, udp, loop"));
	link_close(&a); /* closing what did not open is harmless */
}

static void
link_open__bad_fault_option_is_reported(void **state)
{
	const struct link_config config = loop_config("pair", "loss=200%");

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
	assert_non_null(strstr(a.error, "loss=200%"));
}

static void
link_open__inner_error_is_reported_through_fault(void **state)
{
	const struct link_config config = loop_config("", "loss=2%");

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
	assert_non_null(strstr(a.error, "port is not set"));
}

static void
loop_tx__frames_arrive_in_order(void **state)
{
	uint32_t first;

	(void)state;
	link_pair_open_loop("", 0);
	for (first = 0; first < 3200; first += BURST) {
		assert_int_equal(frames_transmit(first, BURST, LEN, 2), BURST);
		frames_expect(first, BURST, LEN);
	}
	assert_int_equal(link_stats_of(&a).tx_frames, 3200);
	assert_int_equal(link_stats_of(&a).tx_bytes, 3200 * LEN);
	assert_int_equal(link_stats_of(&b).rx_frames, 3200);
	assert_int_equal(link_stats_of(&b).rx_bytes, 3200 * LEN);
	assert_int_equal(a.ops->rx_fd(&a, 0), -1);
	assert_int_equal(a.config.encap, LINK_ENCAP_NONE);
}

static void
loop_tx__without_peer_is_refused(void **state)
{
	const struct link_config config = loop_config("alone", "");

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	assert_int_equal(frames_transmit(0, 5, LEN, 2), 5);
	assert_int_equal(link_stats_of(&a).tx_refused, 5);
	assert_int_equal(link_stats_of(&a).tx_frames, 0);
}

static void
loop_tx__full_inbox_is_backpressure(void **state)
{
	(void)state;
	link_pair_open_loop("", 8);
	assert_int_equal(frames_transmit(0, 20, LEN, 2), 8);
	assert_int_equal(frames_transmit(8, 1, LEN, 2), 0);
	frames_expect(0, 3, LEN);
	assert_int_equal(frames_transmit(8, 20, LEN, 2), 3);
	frames_expect(3, 8, LEN);
	assert_int_equal(link_stats_of(&a).tx_frames, 11);
}

static void
loop_tx__empty_pool_of_receiver_is_counted(void **state)
{
	static struct rte_mbuf *hog[MBUFS];

	(void)state;
	link_pair_open_loop("", 0);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool_b, hog, MBUFS - 3), 0);
	assert_int_equal(frames_transmit(0, 10, LEN, 2), 10);
	frames_expect(0, 3, LEN);
	assert_int_equal(link_stats_of(&a).tx_frames, 10);
	assert_int_equal(link_stats_of(&b).rx_frames, 3);
	assert_int_equal(link_stats_of(&b).rx_no_mbuf, 7);
	rte_pktmbuf_free_bulk(hog, MBUFS - 3);
}

static void
loop_tx__receiver_sees_no_later_change(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	link_pair_open_loop("", 0);
	m = frame_make(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	memset(rte_pktmbuf_mtod(m, void *), 0xff, LEN);
	frames_expect(1, 1, LEN);
	rte_pktmbuf_free(m);
}

static void
loop_tx__too_long_for_receiver_is_counted(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	link_pair_open_loop("", 0);
	m = frame_make(1, LEN);
	assert_non_null(rte_pktmbuf_prepend(m, RTE_PKTMBUF_HEADROOM));
	assert_non_null(rte_pktmbuf_append(m, rte_pktmbuf_tailroom(m)));
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(link_stats_of(&b).rx_too_long, 1);
	assert_int_equal(frames_transmit(2, 1, LEN, 2), 1);
	frames_expect(2, 1, LEN);
}

static void
loop_open__third_end_is_busy(void **state)
{
	const struct link_config config = loop_config("pair", "");
	struct link third;

	(void)state;
	link_pair_open_loop("", 0);
	assert_int_equal(link_open(&third, &config, 3, pool_a), -EBUSY);
	assert_non_null(strstr(third.error, "pair"));
}

static void
loop_open__other_queue_count_is_invalid(void **state)
{
	struct link_config config = loop_config("pair", "");

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	config.queues = 2;
	assert_int_equal(link_open(&b, &config, 2, pool_b), -EINVAL);
	assert_non_null(strstr(b.error, "queues"));
}

static void
loop_open__mtu_beyond_mbuf_is_invalid(void **state)
{
	struct link_config config = loop_config("pair", "");

	(void)state;
	config.mtu = 5000;
	assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
	assert_non_null(strstr(a.error, "5000"));
}

/* Frames wait in b's inbox when it closes; a goes on, alone, and meets the next b. */
static void
loop_close__first_or_second_with_frames_waiting(void **state)
{
	const struct link_config config = loop_config("pair", "");
	struct rte_mbuf *bufs[BURST];

	(void)state;
	link_pair_open_loop("", 0);
	assert_int_equal(frames_transmit(0, 10, LEN, 2), 10);
	link_close(&b);
	assert_int_equal(frames_transmit(0, 10, LEN, 2), 10);
	assert_int_equal(link_stats_of(&a).tx_refused, 10);
	assert_int_equal(link_open(&b, &config, 2, pool_b), 0);
	assert_int_equal(frames_transmit(20, 10, LEN, 2), 10);
	link_close(&a);
	assert_int_equal(b.ops->rx(&b, 0, bufs, BURST), 10);
	rte_pktmbuf_free_bulk(bufs, 10);
}

/* ------------------------------------------------------------------ */

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LINK_TEST(link_open__unknown_driver_names_the_known),
		LINK_TEST(link_open__bad_fault_option_is_reported),
		LINK_TEST(link_open__inner_error_is_reported_through_fault),
		LINK_TEST(loop_tx__frames_arrive_in_order),
		LINK_TEST(loop_tx__without_peer_is_refused),
		LINK_TEST(loop_tx__full_inbox_is_backpressure),
		LINK_TEST(loop_tx__empty_pool_of_receiver_is_counted),
		LINK_TEST(loop_tx__receiver_sees_no_later_change),
		LINK_TEST(loop_tx__too_long_for_receiver_is_counted),
		LINK_TEST(loop_open__third_end_is_busy),
		LINK_TEST(loop_open__other_queue_count_is_invalid),
		LINK_TEST(loop_open__mtu_beyond_mbuf_is_invalid),
		LINK_TEST(loop_close__first_or_second_with_frames_waiting),
	};
	int failed;

	if (link_pair_begin("test_link") != 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	link_pair_end();
	return failed;
}
