/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the links that need no port: loop, udp over 127.0.0.1, and the fault link around the
 * loop. One thread plays both engines. Each test ends with both pools as full as they were at
 * its start, so a lost or doubly freed mbuf fails it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include "fault.h"
#include "link.h"

#define MBUFS 1023
#define MTU   1500
#define BURST 32
#define LEN   100 /* of a test frame: its number, then bytes made from it */
#define IP    0x7f000001u

static struct rte_mempool *pool_a, *pool_b;
static struct link a, b;

/* Byte i of frame `number`, behind the number itself; of all bits of the number. */
static uint8_t
byte_of(uint32_t number, uint32_t i)
{
	return (uint8_t)((number ^ number >> 8 ^ number >> 16 ^ number >> 24) + i);
}

static struct rte_mbuf *
make_frame(uint32_t number, uint16_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool_a);
	uint8_t *data;
	uint16_t i;

	assert_non_null(m);
	data = (uint8_t *)rte_pktmbuf_append(m, len);
	assert_non_null(data);
	for (i = 0; i < len; i++)
		data[i] = byte_of(number, i);
	memcpy(data, &number, sizeof(number));
	return m;
}

/* Bits in which a frame differs from what make_frame(number, its length) made. */
static int
wrong_bits(const struct rte_mbuf *m, uint32_t number)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *);
	uint8_t head[sizeof(number)];
	int i, wrong = 0;

	memcpy(head, &number, sizeof(number));
	for (i = 0; i < m->data_len; i++)
		wrong += __builtin_popcount(
			data[i] ^ (i < (int)sizeof(head) ? head[i] : byte_of(number, (uint32_t)i)));
	return wrong;
}

static uint32_t
number_of(const struct rte_mbuf *m)
{
	uint32_t number;

	memcpy(&number, rte_pktmbuf_mtod(m, const void *), sizeof(number));
	return number;
}

/* Send frames first..first + n - 1 from a to node `to`; returns how many were taken. */
static uint16_t
send_frames(uint32_t first, uint16_t n, uint16_t len, uint16_t to)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t i, taken;

	for (i = 0; i < n; i++) {
		bufs[i] = make_frame(first + i, len);
		bufs[i]->port = to;
	}
	taken = a.ops->tx(&a, 0, bufs, n);
	assert_in_range(taken, 0, n);
	for (i = taken; i < n; i++)
		rte_pktmbuf_free(bufs[i]);
	return taken;
}

/* Receive at b, poll by poll, until n frames came or a second passed. */
static uint16_t
receive_frames(struct rte_mbuf **bufs, uint16_t n)
{
	const uint64_t end = rte_rdtsc() + rte_get_tsc_hz();
	struct rte_mbuf *none[1];
	uint16_t got = 0;

	while (got < n && rte_rdtsc() < end) {
		got = (uint16_t)(got + b.ops->rx(&b, 0, bufs + got, (uint16_t)(n - got)));
		assert_int_equal(a.ops->rx(&a, 0, none, 1), 0);
	}
	return got;
}

/* Expect frames first..first + n - 1 at b, in order and whole, in mbufs of b's pool. */
static void
expect_frames(uint32_t first, uint16_t n, uint16_t len)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t i;

	assert_int_equal(receive_frames(bufs, n), n);
	for (i = 0; i < n; i++) {
		assert_ptr_equal(bufs[i]->pool, pool_b);
		assert_int_equal(bufs[i]->data_len, len);
		assert_int_equal(bufs[i]->pkt_len, len);
		assert_int_equal(wrong_bits(bufs[i], first + i), 0);
		rte_pktmbuf_free(bufs[i]);
	}
}

static struct link_stats
stats_of(struct link *l)
{
	struct link_stats stats;

	l->ops->stats(l, &stats);
	return stats;
}

static struct link_config
loop_config(const char *name, const char *fault)
{
	struct link_config config = {.driver = "loop", .mtu = MTU, .queues = 1};

	snprintf(config.port, sizeof(config.port), "%s", name);
	snprintf(config.fault, sizeof(config.fault), "%s", fault);
	return config;
}

/* a with faults, b without. */
static void
open_loop(const char *fault, uint32_t descriptors)
{
	struct link_config config_a = loop_config("pair", fault);
	struct link_config config_b = loop_config("pair", "");

	config_a.rx_descriptors = config_b.rx_descriptors = descriptors;
	if (link_open(&a, &config_a, 1, pool_a) != 0)
		fail_msg("%s", a.error);
	if (link_open(&b, &config_b, 2, pool_b) != 0)
		fail_msg("%s", b.error);
}

static struct link_config
udp_config(uint32_t queues)
{
	return (struct link_config){
		.driver = "udp",
		.listen = "127.0.0.1:0",
		.mtu = MTU,
		.queues = queues,
	};
}

/* Where an open link listens: its text has the port that the kernel chose. */
static struct link_addr
addr_of(const struct link *l)
{
	struct link_addr addr = {0};

	assert_int_equal(link_addr_parse(l->config.listen, &addr), 1);
	assert_int_not_equal(addr.port, 0);
	return addr;
}

static uint16_t
port_of(const struct link *l)
{
	return addr_of(l).port;
}

/* a knows b as node 2; b's socket for a frame to arrive at when it has several is the kernel's. */
static void
open_udp_at(const char *listen, uint32_t queues_b)
{
	struct link_config config_a = udp_config(1), config_b = udp_config(queues_b);
	struct link_addr addr;

	snprintf(config_a.listen, sizeof(config_a.listen), "%s", listen);
	snprintf(config_b.listen, sizeof(config_b.listen), "%s", listen);
	if (link_open(&a, &config_a, 1, pool_a) != 0)
		fail_msg("%s", a.error);
	if (link_open(&b, &config_b, 2, pool_b) != 0)
		fail_msg("%s", b.error);
	addr = addr_of(&b);
	assert_int_equal(a.ops->add_peer(&a, 2, &addr), 0);
}

static void
open_udp(uint32_t queues_b)
{
	open_udp_at("127.0.0.1:0", queues_b);
}

/* Has the host IPv6 on its loopback? Otherwise a test of it says so and is skipped. */
static void
need_ip6(void)
{
	const struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0;

	if (fd >= 0)
		close(fd);
	if (!has) {
		print_message("no IPv6 on this host's loopback\n");
		skip();
	}
}

static int
setup(void **state)
{
	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	link_close(&a);
	link_close(&b);
	assert_int_equal(rte_mempool_avail_count(pool_a), MBUFS);
	assert_int_equal(rte_mempool_avail_count(pool_b), MBUFS);
	return 0;
}

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
	open_loop("", 0);
	for (first = 0; first < 3200; first += BURST) {
		assert_int_equal(send_frames(first, BURST, LEN, 2), BURST);
		expect_frames(first, BURST, LEN);
	}
	assert_int_equal(stats_of(&a).tx_frames, 3200);
	assert_int_equal(stats_of(&a).tx_bytes, 3200 * LEN);
	assert_int_equal(stats_of(&b).rx_frames, 3200);
	assert_int_equal(stats_of(&b).rx_bytes, 3200 * LEN);
	assert_int_equal(a.ops->rx_fd(&a, 0), -1);
	assert_int_equal(a.config.encap, LINK_ENCAP_NONE);
}

static void
loop_tx__without_peer_is_refused(void **state)
{
	const struct link_config config = loop_config("alone", "");

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	assert_int_equal(send_frames(0, 5, LEN, 2), 5);
	assert_int_equal(stats_of(&a).tx_refused, 5);
	assert_int_equal(stats_of(&a).tx_frames, 0);
}

static void
loop_tx__full_inbox_is_backpressure(void **state)
{
	(void)state;
	open_loop("", 8);
	assert_int_equal(send_frames(0, 20, LEN, 2), 8);
	assert_int_equal(send_frames(8, 1, LEN, 2), 0);
	expect_frames(0, 3, LEN);
	assert_int_equal(send_frames(8, 20, LEN, 2), 3);
	expect_frames(3, 8, LEN);
	assert_int_equal(stats_of(&a).tx_frames, 11);
}

static void
loop_tx__empty_pool_of_receiver_is_counted(void **state)
{
	static struct rte_mbuf *hog[MBUFS];

	(void)state;
	open_loop("", 0);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool_b, hog, MBUFS - 3), 0);
	assert_int_equal(send_frames(0, 10, LEN, 2), 10);
	expect_frames(0, 3, LEN);
	assert_int_equal(stats_of(&a).tx_frames, 10);
	assert_int_equal(stats_of(&b).rx_frames, 3);
	assert_int_equal(stats_of(&b).rx_no_mbuf, 7);
	rte_pktmbuf_free_bulk(hog, MBUFS - 3);
}

static void
loop_tx__receiver_sees_no_later_change(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	open_loop("", 0);
	m = make_frame(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	memset(rte_pktmbuf_mtod(m, void *), 0xff, LEN);
	expect_frames(1, 1, LEN);
	rte_pktmbuf_free(m);
}

static void
loop_tx__too_long_for_receiver_is_counted(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	open_loop("", 0);
	m = make_frame(1, LEN);
	assert_non_null(rte_pktmbuf_prepend(m, RTE_PKTMBUF_HEADROOM));
	assert_non_null(rte_pktmbuf_append(m, rte_pktmbuf_tailroom(m)));
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(stats_of(&b).rx_too_long, 1);
	assert_int_equal(send_frames(2, 1, LEN, 2), 1);
	expect_frames(2, 1, LEN);
}

static void
loop_open__third_end_is_busy(void **state)
{
	const struct link_config config = loop_config("pair", "");
	struct link third;

	(void)state;
	open_loop("", 0);
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
	open_loop("", 0);
	assert_int_equal(send_frames(0, 10, LEN, 2), 10);
	link_close(&b);
	assert_int_equal(send_frames(0, 10, LEN, 2), 10);
	assert_int_equal(stats_of(&a).tx_refused, 10);
	assert_int_equal(link_open(&b, &config, 2, pool_b), 0);
	assert_int_equal(send_frames(20, 10, LEN, 2), 10);
	link_close(&a);
	assert_int_equal(b.ops->rx(&b, 0, bufs, BURST), 10);
	rte_pktmbuf_free_bulk(bufs, 10);
}

static void
frames_arrive_single_and_in_bursts(const char *listen)
{
	uint32_t number = 0;
	uint16_t n;

	open_udp_at(listen, 1);
	for (n = 1; n <= BURST; n++) {
		assert_int_equal(send_frames(number, n, LEN, 2), n);
		expect_frames(number, n, LEN);
		number += n;
		assert_int_equal(send_frames(number, 1, MTU, 2), 1);
		expect_frames(number++, 1, MTU);
	}
	assert_int_equal(stats_of(&a).tx_frames, number);
	assert_int_equal(stats_of(&b).rx_frames, number);
	assert_int_equal(stats_of(&b).rx_bytes, stats_of(&a).tx_bytes);
	assert_int_equal(stats_of(&a).tx_refused, 0);
}

static void
udp_tx__frames_arrive_single_and_in_bursts(void **state)
{
	(void)state;
	frames_arrive_single_and_in_bursts("127.0.0.1:0");
}

static void
udp_tx__frames_arrive_by_ip6_too(void **state)
{
	(void)state;
	need_ip6();
	frames_arrive_single_and_in_bursts("[::1]:0");
	assert_memory_equal(a.config.listen, "[::1]:", 6);
}

static void
udp_tx__unknown_peer_is_refused(void **state)
{
	struct rte_mbuf *bufs[5];
	const uint16_t to[5] = {2, 65535, 2, 2, 0};
	uint32_t i;

	(void)state;
	open_udp(1);
	for (i = 0; i < 5; i++)
		bufs[i] = make_frame(to[i] == 2 ? 7 : 8, LEN), bufs[i]->port = to[i];
	assert_int_equal(a.ops->tx(&a, 0, bufs, 5), 5);
	assert_int_equal(stats_of(&a).tx_refused, 2);
	assert_int_equal(stats_of(&a).tx_frames, 3);
	for (i = 0; i < 3; i++)
		expect_frames(7, 1, LEN);
}

/* Nobody listens there: the kernel takes the frame, and our count says sent. */
static void
udp_tx__closed_port_loses_no_count(void **state)
{
	uint16_t i, taken = 0;

	(void)state;
	open_udp(1);
	link_close(&b);
	for (i = 0; i < 100; i++)
		taken = (uint16_t)(taken + send_frames(i, 1, LEN, 2));
	assert_int_equal(taken, stats_of(&a).tx_frames + stats_of(&a).tx_refused);
}

/* 255.255.255.255 needs SO_BROADCAST: an error that will come again, for one frame of three. */
static void
udp_tx__hopeless_frame_is_refused(void **state)
{
	const struct link_addr addr = {.ip = 0xffffffff, .port = 9};
	const uint16_t to[3] = {2, 9, 2};
	struct rte_mbuf *bufs[3];
	uint32_t i;

	(void)state;
	open_udp(1);
	assert_int_equal(a.ops->add_peer(&a, 9, &addr), 0);
	for (i = 0; i < 3; i++)
		bufs[i] = make_frame(7, LEN), bufs[i]->port = to[i];
	assert_int_equal(a.ops->tx(&a, 0, bufs, 3), 3);
	assert_int_equal(stats_of(&a).tx_refused, 1);
	assert_int_equal(stats_of(&a).tx_frames, 2);
	expect_frames(7, 1, LEN);
	expect_frames(7, 1, LEN);
}

static void
udp_rx__too_long_is_counted(void **state)
{
	static char data[4000];
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(IP)};
	struct rte_mbuf *bufs[BURST];
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i;

	(void)state;
	open_udp(1);
	addr.sin_port = htons(port_of(&b));
	/* Enough for both ways of receiving. */
	for (i = 0; i < 10; i++)
		assert_int_equal(
			sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&addr, sizeof(addr)),
			sizeof(data));
	close(fd);
	assert_int_equal(send_frames(3, 2, LEN, 2), 2);
	assert_int_equal(receive_frames(bufs, 2), 2);
	assert_int_equal(wrong_bits(bufs[0], 3) + wrong_bits(bufs[1], 4), 0);
	rte_pktmbuf_free_bulk(bufs, 2);
	assert_int_equal(stats_of(&b).rx_too_long, 10);
	assert_int_equal(stats_of(&b).rx_frames, 2);
}

static void
udp_rx__empty_pool_leaves_frames_in_socket(void **state)
{
	static struct rte_mbuf *hog[MBUFS];
	struct rte_mbuf *bufs[64];
	uint16_t i;

	(void)state;
	open_udp(1);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool_b, hog, MBUFS - BURST), 0);
	assert_int_equal(send_frames(0, BURST, LEN, 2), BURST);
	assert_int_equal(send_frames(BURST, BURST, LEN, 2), BURST);
	assert_int_equal(receive_frames(bufs, BURST), BURST);
	assert_int_equal(b.ops->rx(&b, 0, bufs + BURST, BURST), 0);
	rte_pktmbuf_free_bulk(hog, MBUFS - BURST);
	assert_int_equal(receive_frames(bufs + BURST, BURST), BURST);
	for (i = 0; i < 64; i++)
		assert_int_equal(wrong_bits(bufs[i], i), 0);
	rte_pktmbuf_free_bulk(bufs, 64);
	assert_int_equal(stats_of(&b).rx_no_mbuf, 0);
}

static void
udp_rx_fd__readable_when_a_frame_waits(void **state)
{
	struct pollfd fd = {.events = POLLIN};

	(void)state;
	open_udp(1);
	fd.fd = b.ops->rx_fd(&b, 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(send_frames(0, 1, LEN, 2), 1);
	assert_int_equal(poll(&fd, 1, 1000), 1);
	expect_frames(0, 1, LEN);
	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void
queues_share_the_port(const char *listen)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t q, n, got = 0, used = 0;
	int polls;

	open_udp_at(listen, 4);
	assert_int_equal(b.rx_queues, 4);
	assert_int_equal(send_frames(0, 20, LEN, 2), 20);
	for (q = 0; q < 4; q++) {
		uint16_t before = got;

		for (polls = 0; polls < 10; polls++) {
			n = b.ops->rx(&b, q, bufs, BURST);
			rte_pktmbuf_free_bulk(bufs, n);
			got = (uint16_t)(got + n);
		}
		used += got > before;
	}
	assert_int_equal(got, 20);
	assert_int_equal(used, 1); /* one flow stays in one queue */
}

static void
udp_open__queues_share_the_port(void **state)
{
	(void)state;
	queues_share_the_port("127.0.0.1:0");
}

static void
udp_open__queues_share_the_port_of_ip6(void **state)
{
	(void)state;
	need_ip6();
	queues_share_the_port("[::1]:0");
}

/* [::] leaves the port of all IPv4 addresses to another link. */
static void
udp_open__ip6_hears_no_ip4(void **state)
{
	struct link_config config = udp_config(1);

	(void)state;
	need_ip6();
	snprintf(config.listen, sizeof(config.listen), "[::]:0");
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	snprintf(config.listen, sizeof(config.listen), "0.0.0.0:%u", port_of(&a));
	if (link_open(&b, &config, 2, pool_b) != 0)
		fail_msg("%s", b.error);
}

static void
udp_open__bad_config_is_named(void **state)
{
	static const char *const bad[] = {
		"",
		"127.0.0.1",
		":5",
		"localhost:5",
		"1.2.3:5",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:5x",
		"127.0.0.1:-5",
		"[::1]",
		"::1:5",
		"[::1]:65536",
		"[::1:5",
		"[127.0.0.1]:5",
		"[::ffff:127.0.0.1]:5",
		"[::1%lo]:5",
		"[fe80::1]:5",
		"[fe80::1%nosuchif]:5",
	};
	struct link_config config = udp_config(1);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(config.listen, sizeof(config.listen), "%s", bad[i]);
		assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
		assert_non_null(strstr(a.error, bad[i]));
	}
	config = udp_config(1);
	config.mtu = 65508;
	assert_int_equal(link_open(&a, &config, 1, pool_a), -EINVAL);
	assert_non_null(strstr(a.error, "65508"));
}

static void
udp_open__taken_port_is_an_error(void **state)
{
	struct link_config config = udp_config(1);

	(void)state;
	assert_int_equal(link_open(&a, &config, 1, pool_a), 0);
	memcpy(config.listen, a.config.listen, sizeof(config.listen));
	assert_int_equal(link_open(&b, &config, 2, pool_b), -EADDRINUSE);
	assert_non_null(strstr(b.error, config.listen));
}

static void
udp_add_peer__no_address_is_invalid(void **state)
{
	const struct link_addr no_port = {.ip = IP}, no_ip = {.port = 5};

	(void)state;
	open_udp(1);
	assert_int_equal(a.ops->add_peer(&a, 3, &no_port), -EINVAL);
	assert_int_equal(a.ops->add_peer(&a, 3, &no_ip), -EINVAL);
}

static void
udp_add_peer__of_the_other_family_is_refused(void **state)
{
	const struct link_addr ip6 = {.v6 = true, .ip6 = {[15] = 1}, .port = 5},
			       none = {.v6 = true, .port = 5};
	const struct link_addr ip4 = {.ip = IP, .port = 5};

	(void)state;
	open_udp(1);
	assert_int_equal(a.ops->add_peer(&a, 3, &ip6), -EAFNOSUPPORT);
	assert_int_equal(a.ops->add_peer(&a, 3, &none), -EINVAL);
	link_close(&a);
	link_close(&b);
	need_ip6();
	open_udp_at("[::1]:0", 1);
	assert_int_equal(a.ops->add_peer(&a, 3, &ip4), -EAFNOSUPPORT);
	assert_int_equal(a.ops->add_peer(&a, 3, &ip6), 0);
}

/* What is read is written as it was, ports and zones with it. */
static void
link_addr_parse__reads_what_link_addr_text_writes(void **state)
{
	static const char *const texts[] = {"10.0.0.1:1", "255.255.255.255:65535", "0.0.0.0:0",
		"[::]:0", "[2001:db8::2]:18515", "[fe80::1%lo]:18515",
		"[fe80:1111:2222:3333:4444:5555:6666:7777%4000000]:65535"};
	char text[LINK_ADDR_MAX];

	(void)state;
	for (size_t i = 0; i < RTE_DIM(texts); i++) {
		struct link_addr addr = {.port = 7};

		assert_int_equal(link_addr_parse(texts[i], &addr), 1);
		link_addr_text(&addr, text);
		if (strchr(texts[i], '%') == NULL || strstr(texts[i], "%lo") != NULL ||
			addr.zone == 4000000)
			assert_string_equal(text, texts[i]);
	}
	struct link_addr addr = {.port = 7};

	assert_int_equal(link_addr_parse("2001:db8::2", &addr), 0);
	assert_true(addr.v6);
	assert_int_equal(addr.port, 7);
	assert_int_equal(addr.ip6[0], 0x20);
	assert_int_equal(link_addr_parse("[2001:db8::3]", &addr), 0);
	assert_int_equal(addr.ip6[15], 3);
	assert_int_equal(link_addr_parse("10.0.0.1", &addr), 0);
	assert_false(addr.v6);
	assert_int_equal(addr.ip, 0x0A000001);
}

static void
link_addr_parse__what_is_none_changes_nothing(void **state)
{
	static const char *const bad[] = {"", "[", "]", "[]", "[]:5", ":5", "1.2.3",
		"1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536", "1.2.3.4:01", "[1.2.3.4]", "[::1]5",
		"[::1]:", "::1%", "::1%lo", "::g", "::ffff:1.2.3.4", "2001:db8::2:18515x",
		"[2001:db8::2]:18515x", "02:00:00:00:00:01", "fe80::1%nosuchif", "fe80::1%0",
		"fe80::1%",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"};
	const struct link_addr before = {
		.mac = {{1, 2, 3, 4, 5, 6}},
		.ip = 7,
		.port = 8,
		.zone = 9,
		.ip6 = {10},
	};

	(void)state;
	for (size_t i = 0; i < RTE_DIM(bad); i++) {
		struct link_addr addr = before;

		if (link_addr_parse(bad[i], &addr) >= 0)
			fail_msg("'%s' is taken for an address", bad[i]);
		assert_memory_equal(&addr, &before, sizeof(addr));
	}
}

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
		wrong = wrong_bits(bufs[i], number_of(bufs[i]));
		if (wrong == 0) {
			flow->backwards += number_of(bufs[i]) < *last;
			*last = number_of(bufs[i]);
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

	open_loop(fault, descriptors);
	while (number < frames) {
		n = (uint16_t)(1 + number % BURST);
		n = send_frames(number, (uint16_t)RTE_MIN(n, frames - number), LEN, 2);
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
	assert_int_equal(stats_of(&a).tx_frames, flow->received);
	assert_int_equal(stats_of(&b).rx_frames, flow->received);
	assert_int_equal(stats_of(&b).rx_no_mbuf, 0);
	assert_int_equal(stats_of(&a).tx_refused, c.heap_full + c.no_mbuf);
}

static void
fault_tx__undisturbed_passes_in_order(void **state)
{
	struct flow flow;

	(void)state;
	flow = run_flow("seed=1", 0, 10000, BURST);
	assert_int_equal(flow.received, 10000);
	assert_int_equal(flow.backwards, 0);
	assert_int_equal(stats_of(&a).faults, 0);
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
	open_loop("delay=2ms", 0);
	assert_int_equal(send_frames(0, 10, LEN, 2), 10);
	assert_int_equal(b.ops->rx(&b, 0, bufs, BURST), 0);
	expect_frames(0, 10, LEN);
	assert_true(rte_rdtsc() - start >= rte_get_tsc_hz() / 500);
	assert_int_equal(stats_of(&a).faults, 10);
	assert_int_equal(a.ops->rx_fd(&a, 0), -1);
}

static void
fault_tx__held_copy_sees_no_later_change(void **state)
{
	struct rte_mbuf *m;

	(void)state;
	open_loop("delay=100us", 0);
	m = make_frame(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(rte_mbuf_refcnt_read(m), 1);
	memset(rte_pktmbuf_mtod(m, void *), 0xff, LEN);
	expect_frames(1, 1, LEN);
	rte_pktmbuf_free(m);
}

/* The engine will send the frame that it holds again: a flip must not be in it. */
static void
fault_tx__corruption_flips_one_bit_of_a_copy(void **state)
{
	struct rte_mbuf *m, *got;

	(void)state;
	open_loop("corrupt=100%", 0);
	m = make_frame(1, LEN);
	rte_mbuf_refcnt_update(m, 1);
	assert_int_equal(a.ops->tx(&a, 0, &m, 1), 1);
	assert_int_equal(receive_frames(&got, 1), 1);
	assert_int_equal(wrong_bits(got, 1), 1);
	assert_int_equal(wrong_bits(m, 1), 0);
	rte_pktmbuf_free(m);
	rte_pktmbuf_free(got);
}

static void
fault_tx__empty_pool_is_counted(void **state)
{
	static struct rte_mbuf *hog[MBUFS];

	(void)state;
	open_loop("duplicate=100%", 0);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool_a, hog, MBUFS - 5), 0);
	assert_int_equal(send_frames(0, 5, LEN, 2), 5);
	/* Each frame frees itself, so that the later ones find room for a copy. */
	assert_true(faults_of_a().no_mbuf > 0);
	assert_int_equal(stats_of(&a).tx_frames, 10 - faults_of_a().no_mbuf);
	assert_int_equal(stats_of(&a).tx_refused, faults_of_a().no_mbuf);
	rte_pktmbuf_free_bulk(hog, MBUFS - 5);
}

static void
fault_close__frees_what_is_held(void **state)
{
	(void)state;
	open_loop("delay=4s", 0);
	assert_int_equal(send_frames(0, BURST, LEN, 2), BURST);
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
			m = make_frame(i, LEN);
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
	open_loop("", 0);
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
	addr.port = port_of(&b);
	assert_int_equal(a.ops->add_peer(&a, 2, &addr), 0);
	assert_true(a.ops->rx_fd(&a, 0) >= 0);
	assert_int_equal(send_frames(0, BURST, LEN, 2), BURST);
	expect_frames(0, BURST, LEN);
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int
all_tests(void)
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
		LINK_TEST(udp_tx__frames_arrive_single_and_in_bursts),
		LINK_TEST(udp_tx__frames_arrive_by_ip6_too),
		LINK_TEST(udp_add_peer__of_the_other_family_is_refused),
		LINK_TEST(link_addr_parse__reads_what_link_addr_text_writes),
		LINK_TEST(link_addr_parse__what_is_none_changes_nothing),
		LINK_TEST(udp_tx__unknown_peer_is_refused),
		LINK_TEST(udp_tx__closed_port_loses_no_count),
		LINK_TEST(udp_tx__hopeless_frame_is_refused),
		LINK_TEST(udp_rx__too_long_is_counted),
		LINK_TEST(udp_rx__empty_pool_leaves_frames_in_socket),
		LINK_TEST(udp_rx_fd__readable_when_a_frame_waits),
		LINK_TEST(udp_open__queues_share_the_port),
		LINK_TEST(udp_open__queues_share_the_port_of_ip6),
		LINK_TEST(udp_open__ip6_hears_no_ip4),
		LINK_TEST(udp_open__bad_config_is_named),
		LINK_TEST(udp_open__taken_port_is_an_error),
		LINK_TEST(udp_add_peer__no_address_is_invalid),
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

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int
main(void)
{
	char *eal[] = {
		"test_link",
		"--no-huge",
		"-m",
		"128",
		"--no-pci",
		"--no-telemetry",
		"--no-shconf",
		"-l",
		"0",
		"--log-level",
		"error",
	};
	int failed;

	if (rte_eal_init(RTE_DIM(eal), eal) < 0) {
		fprintf(stderr, "EAL: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	pool_a = rte_pktmbuf_pool_create("a", MBUFS, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	pool_b = rte_pktmbuf_pool_create("b", MBUFS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	if (pool_a == NULL || pool_b == NULL) {
		fprintf(stderr, "mbuf pools: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	failed = all_tests();
	rte_mempool_free(pool_a);
	rte_mempool_free(pool_b);
	rte_eal_cleanup();
	return failed;
}
