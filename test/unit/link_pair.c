/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See link_pair.h.
 */
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include "link_pair.h"

struct rte_mempool *pool_a, *pool_b;
struct link a, b;

int
link_pair_begin(const char *program)
{
	char *eal[] = {
		(char *)(uintptr_t)program,
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

	if (rte_eal_init(RTE_DIM(eal), eal) < 0) {
		fprintf(stderr, "EAL: %s\n", rte_strerror(rte_errno));
		return -1;
	}
	pool_a = rte_pktmbuf_pool_create("a", MBUFS, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	pool_b = rte_pktmbuf_pool_create("b", MBUFS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	if (pool_a == NULL || pool_b == NULL) {
		fprintf(stderr, "mbuf pools: %s\n", rte_strerror(rte_errno));
		return -1;
	}
	return 0;
}

void
link_pair_end(void)
{
	rte_mempool_free(pool_a);
	rte_mempool_free(pool_b);
	rte_eal_cleanup();
}

/* Byte i of frame `number`, behind the number itself; of all bits of the number. */
static uint8_t
byte_of(uint32_t number, uint32_t i)
{
	return (uint8_t)((number ^ number >> 8 ^ number >> 16 ^ number >> 24) + i);
}

struct rte_mbuf *
frame_make(uint32_t number, uint16_t len)
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

int
frame_wrong_bits(const struct rte_mbuf *m, uint32_t number)
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

uint32_t
frame_number(const struct rte_mbuf *m)
{
	uint32_t number;

	memcpy(&number, rte_pktmbuf_mtod(m, const void *), sizeof(number));
	return number;
}

uint16_t
frames_transmit(uint32_t first, uint16_t n, uint16_t len, uint16_t to)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t i, taken;

	for (i = 0; i < n; i++) {
		bufs[i] = frame_make(first + i, len);
		bufs[i]->port = to;
	}
	taken = a.ops->tx(&a, 0, bufs, n);
	assert_in_range(taken, 0, n);
	for (i = taken; i < n; i++)
		rte_pktmbuf_free(bufs[i]);
	return taken;
}

uint16_t
frames_receive(struct rte_mbuf **bufs, uint16_t n)
{
	const uint64_t end = rte_rdtsc() + 20 * rte_get_tsc_hz(); /* if some do not come */
	struct rte_mbuf *none[1];
	uint16_t got = 0;

	while (got < n && rte_rdtsc() < end) {
		got = (uint16_t)(got + b.ops->rx(&b, 0, bufs + got, (uint16_t)(n - got)));
		assert_int_equal(a.ops->rx(&a, 0, none, 1), 0);
	}
	return got;
}

void
frames_expect(uint32_t first, uint16_t n, uint16_t len)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t i;

	assert_int_equal(frames_receive(bufs, n), n);
	for (i = 0; i < n; i++) {
		assert_ptr_equal(bufs[i]->pool, pool_b);
		assert_int_equal(bufs[i]->data_len, len);
		assert_int_equal(bufs[i]->pkt_len, len);
		assert_int_equal(frame_wrong_bits(bufs[i], first + i), 0);
		rte_pktmbuf_free(bufs[i]);
	}
}

struct link_stats
link_stats_of(struct link *l)
{
	struct link_stats stats;

	l->ops->stats(l, &stats);
	return stats;
}

struct link_config
loop_config(const char *name, const char *fault)
{
	struct link_config config = {.driver = "loop", .mtu = MTU, .queues = 1};

	snprintf(config.port, sizeof(config.port), "%s", name);
	snprintf(config.fault, sizeof(config.fault), "%s", fault);
	return config;
}

void
link_pair_open_loop(const char *fault, uint32_t descriptors)
{
	struct link_config config_a = loop_config("pair", fault);
	struct link_config config_b = loop_config("pair", "");

	config_a.rx_descriptors = config_b.rx_descriptors = descriptors;
	if (link_open(&a, &config_a, 1, pool_a) != 0)
		fail_msg("%s", a.error);
	if (link_open(&b, &config_b, 2, pool_b) != 0)
		fail_msg("%s", b.error);
}

struct link_config
udp_config(uint32_t queues)
{
	return (struct link_config){
		.driver = "udp",
		.listen = "127.0.0.1:0",
		.mtu = MTU,
		.queues = queues,
	};
}

struct link_addr
link_addr_of(const struct link *l)
{
	struct link_addr addr = {0};

	assert_int_equal(link_addr_parse(l->config.listen, &addr), 1);
	assert_int_not_equal(addr.port, 0);
	return addr;
}

uint16_t
link_port_of(const struct link *l)
{
	return link_addr_of(l).port;
}

int
link_pair_setup(void **state)
{
	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	return 0;
}

int
link_pair_teardown(void **state)
{
	(void)state;
	link_close(&a);
	link_close(&b);
	assert_int_equal(rte_mempool_avail_count(pool_a), MBUFS);
	assert_int_equal(rte_mempool_avail_count(pool_b), MBUFS);
	return 0;
}
