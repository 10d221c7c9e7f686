/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the udp link, over 127.0.0.1 and ::1, and of its addresses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_pair.h"

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
	addr = link_addr_of(&b);
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

static void
frames_arrive_single_and_in_bursts(const char *listen)
{
	uint32_t number = 0;
	uint16_t n;

	open_udp_at(listen, 1);
	for (n = 1; n <= BURST; n++) {
		assert_int_equal(frames_transmit(number, n, LEN, 2), n);
		frames_expect(number, n, LEN);
		number += n;
		assert_int_equal(frames_transmit(number, 1, MTU, 2), 1);
		frames_expect(number++, 1, MTU);
	}
	assert_int_equal(link_stats_of(&a).tx_frames, number);
	assert_int_equal(link_stats_of(&b).rx_frames, number);
	assert_int_equal(link_stats_of(&b).rx_bytes, link_stats_of(&a).tx_bytes);
	assert_int_equal(link_stats_of(&a).tx_refused, 0);
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
		bufs[i] = frame_make(to[i] == 2 ? 7 : 8, LEN), bufs[i]->port = to[i];
	assert_int_equal(a.ops->tx(&a, 0, bufs, 5), 5);
	assert_int_equal(link_stats_of(&a).tx_refused, 2);
	assert_int_equal(link_stats_of(&a).tx_frames, 3);
	for (i = 0; i < 3; i++)
		frames_expect(7, 1, LEN);
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
		taken = (uint16_t)(taken + frames_transmit(i, 1, LEN, 2));
	assert_int_equal(taken, link_stats_of(&a).tx_frames + link_stats_of(&a).tx_refused);
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
		bufs[i] = frame_make(7, LEN), bufs[i]->port = to[i];
	assert_int_equal(a.ops->tx(&a, 0, bufs, 3), 3);
	assert_int_equal(link_stats_of(&a).tx_refused, 1);
	assert_int_equal(link_stats_of(&a).tx_frames, 2);
	frames_expect(7, 1, LEN);
	frames_expect(7, 1, LEN);
}

/* Frames of any lengths, the next number each: as many as the bursts' lengths say, to nodes 2 and
 * 3 if there are two, which are both b. */
static uint32_t
burst_transmit(uint32_t first, uint16_t n, unsigned *seed, unsigned nodes)
{
	static const uint16_t lens[] = {50, LEN, LEN, LEN, 700, MTU, MTU, MTU, MTU};
	struct rte_mbuf *bufs[64];
	uint16_t len = LEN, taken;

	for (uint16_t i = 0; i < n; i++) {
		if (i == 0 || rand_r(seed) % 8 == 0)
			len = lens[(unsigned)rand_r(seed) % (sizeof(lens) / sizeof(lens[0]))];
		bufs[i] = frame_make(first + i, len);
		bufs[i]->port = (uint16_t)(2 + (first + i) % nodes);
	}
	taken = a.ops->tx(&a, 0, bufs, n);
	assert_int_equal(taken, n);
	return first + n;
}

/* The lengths change when the receiver does not expect it, bursts are longer than what it asks for,
 * and every way of receiving takes its turn. */
static void
bursts_of_any_lengths_arrive(unsigned nodes)
{
	struct rte_mbuf *bufs[64];
	uint32_t sent = 0, next[2] = {0, 1};
	unsigned seed = 7;

	open_udp(1);
	const struct link_addr addr = link_addr_of(&b);

	assert_int_equal(a.ops->add_peer(&a, 3, &addr), 0);
	for (unsigned round = 0; round < 400; round++) {
		uint16_t n = (uint16_t)(round % 40 < 8 ? 1 : 1 + rand_r(&seed) % 64);
		uint16_t got, ask = (uint16_t)(1 + rand_r(&seed) % 64);
		uint32_t end = burst_transmit(sent, n, &seed, nodes);

		for (; sent < end; sent += got) {
			got = frames_receive(bufs, (uint16_t)(end - sent < ask ? end - sent : ask));
			assert_int_not_equal(got, 0);
			for (uint16_t i = 0; i < got; i++) {
				uint32_t number = frame_number(bufs[i]),
					 *expected = &next[nodes == 1 ? 0 : number % 2];

				assert_ptr_equal(bufs[i]->pool, pool_b);
				assert_int_equal(number, *expected);
				assert_int_equal(frame_wrong_bits(bufs[i], number), 0);
				*expected += nodes;
				rte_pktmbuf_free(bufs[i]);
			}
		}
		/* sometimes it falls back to the way of few frames */
		for (unsigned polls = round % 50 == 0 ? 300 : 0; polls > 0; polls--)
			assert_int_equal(b.ops->rx(&b, 0, bufs, 1), 0);
	}
	assert_int_equal(link_stats_of(&a).tx_frames, sent);
	assert_int_equal(link_stats_of(&b).rx_frames, sent);
	assert_int_equal(link_stats_of(&b).rx_bytes, link_stats_of(&a).tx_bytes);
	assert_int_equal(link_stats_of(&b).rx_too_long + link_stats_of(&b).rx_no_mbuf, 0);
}

static void
udp_tx__bursts_of_any_lengths_arrive(void **state)
{
	(void)state;
	bursts_of_any_lengths_arrive(1);
}

static void
udp_tx__frames_to_a_peer_keep_their_order(void **state)
{
	(void)state;
	bursts_of_any_lengths_arrive(2);
}

/* Bring b to receive datagrams that the kernel has joined. */
static uint32_t
join(uint32_t number)
{
	for (unsigned i = 0; i < 10; i++, number += BURST) {
		assert_int_equal(frames_transmit(number, BURST, LEN, 2), BURST);
		frames_expect(number, BURST, LEN);
	}
	return number;
}

/* A frame that finds no mbuf is lost and counted, wherever in a joined datagram it stands. */
static void
udp_rx__frames_without_mbufs_are_counted(void **state)
{
	static struct rte_mbuf *hog[MBUFS];
	struct rte_mbuf *bufs[64];
	uint32_t number, lost = 0;

	(void)state;
	open_udp(1);
	number = join(0);
	for (uint16_t left = 1; left < 40; left += 7) {
		uint16_t hogged = 0, got = 0;

		while (rte_mempool_avail_count(pool_b) > left &&
			(hog[hogged] = rte_pktmbuf_alloc(pool_b)) != NULL)
			hogged++;
		/* of another length than expected, so each needs an mbuf of its own */
		uint16_t len = left % 2 ? 300 : 200;

		assert_int_equal(frames_transmit(number, BURST, len, 2), BURST);
		for (unsigned polls = 0; polls < 100; polls++) {
			uint16_t k = b.ops->rx(&b, 0, bufs, BURST);

			for (uint16_t i = 0; i < k; i++)
				assert_int_equal(frame_wrong_bits(bufs[i], frame_number(bufs[i])),
					0);
			rte_pktmbuf_free_bulk(bufs, k);
			got = (uint16_t)(got + k);
		}
		rte_pktmbuf_free_bulk(hog, hogged);
		lost += BURST - got;
		assert_int_equal(link_stats_of(&b).rx_no_mbuf, lost);
		number = join(number + BURST);
	}
	assert_int_not_equal(lost, 0);
}

/* Others may have the kernel join datagrams as well, of which each is too long for an mbuf. */
static void
udp_rx__joined_frames_that_are_too_long_are_counted(void **state)
{
	static char data[3 * 3000];
	const uint16_t each = 3000;
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(IP)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i;
	struct rte_mbuf *bufs[BURST];
	uint32_t number;

	(void)state;
	open_udp(1);
	addr.sin_port = htons(link_port_of(&b));
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &(int){each}, sizeof(int)), 0);
	number = join(0);
	for (i = 0; i < 5; i++)
		assert_int_equal(
			sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&addr, sizeof(addr)),
			sizeof(data));
	close(fd);
	for (i = 0; i < 20; i++)
		assert_int_equal(b.ops->rx(&b, 0, bufs, BURST), 0);
	assert_int_equal(link_stats_of(&b).rx_too_long, 15);
	join(number);
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
	addr.sin_port = htons(link_port_of(&b));
	/* Enough for both ways of receiving. */
	for (i = 0; i < 10; i++)
		assert_int_equal(
			sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&addr, sizeof(addr)),
			sizeof(data));
	close(fd);
	assert_int_equal(frames_transmit(3, 2, LEN, 2), 2);
	assert_int_equal(frames_receive(bufs, 2), 2);
	assert_int_equal(frame_wrong_bits(bufs[0], 3) + frame_wrong_bits(bufs[1], 4), 0);
	rte_pktmbuf_free_bulk(bufs, 2);
	assert_int_equal(link_stats_of(&b).rx_too_long, 10);
	assert_int_equal(link_stats_of(&b).rx_frames, 2);
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
	assert_int_equal(frames_transmit(0, BURST, LEN, 2), BURST);
	assert_int_equal(frames_transmit(BURST, BURST, LEN, 2), BURST);
	assert_int_equal(frames_receive(bufs, BURST), BURST);
	assert_int_equal(b.ops->rx(&b, 0, bufs + BURST, BURST), 0);
	rte_pktmbuf_free_bulk(hog, MBUFS - BURST);
	assert_int_equal(frames_receive(bufs + BURST, BURST), BURST);
	for (i = 0; i < 64; i++)
		assert_int_equal(frame_wrong_bits(bufs[i], i), 0);
	rte_pktmbuf_free_bulk(bufs, 64);
	assert_int_equal(link_stats_of(&b).rx_no_mbuf, 0);
}

static void
udp_rx_fd__readable_when_a_frame_waits(void **state)
{
	struct pollfd fd = {.events = POLLIN};

	(void)state;
	open_udp(1);
	fd.fd = b.ops->rx_fd(&b, 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(frames_transmit(0, 1, LEN, 2), 1);
	assert_int_equal(poll(&fd, 1, 20000), 1);
	frames_expect(0, 1, LEN);
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
	assert_int_equal(frames_transmit(0, 20, LEN, 2), 20);
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
	snprintf(config.listen, sizeof(config.listen), "0.0.0.0:%u", link_port_of(&a));
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

/* Check that what is read is written as it was, ports and zones with it. */
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
/* ------------------------------------------------------------------ */

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LINK_TEST(udp_tx__frames_arrive_single_and_in_bursts),
		LINK_TEST(udp_tx__frames_arrive_by_ip6_too),
		LINK_TEST(udp_add_peer__of_the_other_family_is_refused),
		LINK_TEST(link_addr_parse__reads_what_link_addr_text_writes),
		LINK_TEST(link_addr_parse__what_is_none_changes_nothing),
		LINK_TEST(udp_tx__unknown_peer_is_refused),
		LINK_TEST(udp_tx__closed_port_loses_no_count),
		LINK_TEST(udp_tx__hopeless_frame_is_refused),
		LINK_TEST(udp_tx__bursts_of_any_lengths_arrive),
		LINK_TEST(udp_tx__frames_to_a_peer_keep_their_order),
		LINK_TEST(udp_rx__frames_without_mbufs_are_counted),
		LINK_TEST(udp_rx__joined_frames_that_are_too_long_are_counted),
		LINK_TEST(udp_rx__too_long_is_counted),
		LINK_TEST(udp_rx__empty_pool_leaves_frames_in_socket),
		LINK_TEST(udp_rx_fd__readable_when_a_frame_waits),
		LINK_TEST(udp_open__queues_share_the_port),
		LINK_TEST(udp_open__queues_share_the_port_of_ip6),
		LINK_TEST(udp_open__ip6_hears_no_ip4),
		LINK_TEST(udp_open__bad_config_is_named),
		LINK_TEST(udp_open__taken_port_is_an_error),
		LINK_TEST(udp_add_peer__no_address_is_invalid),
	};
	int failed;

	if (link_pair_begin("test_link_udp") != 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	link_pair_end();
	return failed;
}
