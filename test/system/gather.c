/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many to one over real links: nodes embedded in one process, each with a memif port behind the
 * fault link (delay), all joined by a switch in another process. The switch's port to node 0 has a
 * rate and a drop-tail queue (the fault model's). Each sender has 1 MB for node 0; how long does
 * that take?
 *
 *   gather switch SENDERS SOCKET RATE_MBITS QUEUE_BYTES: says "ready"; at SIGTERM "drops N frames
 *   N" gather nodes SENDERS SOCKET RATE_MBITS CONFIG_LINES: "senders N rate PART silence_ms X
 *   timeouts N failed N"
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "client/client.h"
#include "engine/lane.h"
#include "fault_model.h"
#include "pmx/pmx.h"

#define NODES_MAX 32 /* DPDK's limit of ports in a process */
#define PIECE     62500u
#define PIECES    16u
#define BURST     32
#define WAITING   4096 /* frames in the queue of the port to node 0 */
#define PATIENCE  90   /* s */
#define MTU       1500u

static struct pmx_node *nodes[NODES_MAX];
static struct pmx_context *ctxs[NODES_MAX];
static uint16_t ports[NODES_MAX]; /* of the switch, by node */
static unsigned count;            /* of nodes */

/* ------------------------------------------------------------------ the switch */

static struct fault_model bottleneck;
static struct {
	struct rte_mbuf *mbuf;
	uint64_t at;
} waiting[WAITING];
static uint32_t waiting_head, waiting_tail;
static atomic_bool stop;

static uint64_t
now_ns(void)
{
	return rte_rdtsc() * 1000 / (rte_get_tsc_hz() / 1000000);
}

static void
queue_to_receiver(struct rte_mbuf *m)
{
	struct fault_verdict v;

	fault_model_frame(&bottleneck, now_ns(), m->pkt_len, &v);
	if (v.copies == 0 || waiting_tail - waiting_head == WAITING) {
		rte_pktmbuf_free(m);
		return;
	}
	waiting[waiting_tail % WAITING].mbuf = m;
	waiting[waiting_tail++ % WAITING].at = v.copy[0].release_ns;
}

static void
send_or_drop(uint16_t port, struct rte_mbuf **m, uint16_t n)
{
	uint16_t sent = n ? rte_eth_tx_burst(port, 0, m, n) : 0;

	while (sent < n)
		rte_pktmbuf_free(m[sent++]);
}

static void
drain_queue(void)
{
	struct rte_mbuf *out[BURST];
	uint16_t n = 0;
	uint64_t now = now_ns();

	while (n < BURST && waiting_head != waiting_tail &&
		waiting[waiting_head % WAITING].at <= now)
		out[n++] = waiting[waiting_head++ % WAITING].mbuf;
	send_or_drop(ports[0], out, n);
}

static void
run_switch(void)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (unsigned i = 0; i < count; i++) {
			struct rte_mbuf *in[BURST];
			uint16_t n = rte_eth_rx_burst(ports[i], 0, in, BURST);

			for (uint16_t k = 0; k < n; k++) {
				const struct rte_ether_hdr *h = rte_pktmbuf_mtod(in[k],
					struct rte_ether_hdr *);
				/* auto: 02:50:4d:00:node */
				unsigned to = h->dst_addr.addr_bytes[5];

				if (to == 0)
					queue_to_receiver(in[k]);
				else if (to < count)
					send_or_drop(ports[to], &in[k], 1);
				else
					rte_pktmbuf_free(in[k]);
			}
		}
		drain_queue();
	}
}

static int
open_port(unsigned node)
{
	const struct rte_eth_conf conf = {0};
	char name[32];
	struct rte_mempool *pool;

	snprintf(name, sizeof(name), "net_memif%u", node);
	if (rte_eth_dev_get_port_by_name(name, &ports[node]) != 0)
		return 1;
	snprintf(name, sizeof(name), "switch%u", node);
	pool = rte_pktmbuf_pool_create(name, 4095, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	return pool == NULL || rte_eth_dev_configure(ports[node], 1, 1, &conf) != 0 ||
		rte_eth_rx_queue_setup(ports[node], 0, 1024, SOCKET_ID_ANY, NULL, pool) != 0 ||
		rte_eth_tx_queue_setup(ports[node], 0, 1024, SOCKET_ID_ANY, NULL) != 0 ||
		rte_eth_dev_start(ports[node]) != 0;
}

/* ------------------------------------------------------------------ the nodes */

static int
start_node(unsigned i, const char *more)
{
	char text[4096], error[256];
	const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};
	int at = snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = gather%u\n[engine]\nidle = spin\n"
		"[link 0]\ndriver = ethdev\nport = net_memif%u\nmtu = %u\nrx_descriptors = 1024\n"
		"tx_descriptors = 256\nfault = delay=5us\n"
		"[limits]\nmbufs = %u\ncontexts = 1\nsend_buffers = 1024\nreceive_buffers = %u\n"
		"nodes = 64\npeers = 64\n"
		"[proto]\nretries = 100\n%s\n[nodes]\n",
		i, i, i, MTU, i == 0 ? 12288 : 4096, i == 0 ? 8192 : 64, more);

	for (unsigned k = 0; k < count; k++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%u = 02:50:4d:00:00:%02x\n",
			k, k);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "gather: %s\n", error);
		return 1;
	}
	return pmx_context_open(&ctxs[i], nodes[i], 0, NULL);
}

static void
poll_all(void)
{
	for (unsigned i = 0; i < count; i++)
		pmx_node_poll(nodes[i]);
}

/* Messages that came, of `len` bytes. */
static unsigned
receive(uint32_t len)
{
	struct pmx_message m;
	unsigned n = 0;

	while (pmx_receive(ctxs[0], &m) == 1) {
		n += m.len == len;
		pmx_release_receive_buffer(ctxs[0], &m);
	}
	return n;
}

/* `pieces` of `len` bytes from everybody; seconds, or 0: not in time. */
static double
gather(uint32_t len, unsigned pieces, double *silence)
{
	static uint8_t data[PIECE];
	unsigned left[NODES_MAX], missing = pieces * (count - 1);
	uint64_t hz = rte_get_tsc_hz(), begin = rte_rdtsc(), last = begin, longest = 0;

	for (unsigned i = 1; i < count; i++)
		left[i] = pieces;
	while (missing > 0) {
		for (unsigned i = 1; i < count; i++) {
			if (left[i] &&
				pmx_send_copy(ctxs[i], (struct pmx_addr){0, 0}, data, len, NULL) ==
					0)
				left[i]--;
			pmx_sends_pending(ctxs[i]);
		}
		poll_all();
		unsigned n = receive(len);
		uint64_t now = rte_rdtsc();

		if (n > 0) {
			missing -= n;
			longest = now - last > longest ? now - last : longest;
			last = now;
		}
		if (now - begin > PATIENCE * hz)
			return 0;
	}
	*silence = (double)longest / (double)hz;
	return (double)(last - begin) / (double)hz;
}

/* ------------------------------------------------------------------ */

/* EAL arguments with a memif port a node; the switch's are the servers. */
static int
start_eal(char *program, const char *role, const char *socket, const char *cpu)
{
	char *eal[16 + NODES_MAX] = {program, "--no-pci", "--in-memory", "-m", "640",
		"--no-telemetry", "-l", strdup(cpu), "--log-level=*:error"};
	int n = 9;

	for (unsigned i = 0; i < count; i++) {
		char text[256];

		snprintf(text, sizeof(text),
			"--vdev=net_memif%u,role=%s,id=%u,socket=%s,socket-abstract=no", i, role, i,
			socket);
		eal[n++] = strdup(text);
	}
	return rte_eal_init(n, eal) < 0;
}

static void
on_term(int signal)
{
	(void)signal;
	atomic_store(&stop, true);
}

static int
switch_main(char **argv)
{
	const struct fault_config port = {
		.rate_bps = strtoull(argv[4], NULL, 0) * 1000000,
		.queue_bytes = strtoull(argv[5], NULL, 0),
	};

	signal(SIGTERM, on_term);
	if (start_eal(argv[0], "server", argv[3], "1") != 0)
		return 1;
	for (unsigned i = 0; i < count; i++) {
		if (open_port(i) != 0) {
			fprintf(stderr, "gather: the switch's port %u does not start\n", i);
			return 1;
		}
	}
	fault_model_init(&bottleneck, &port);
	puts("ready");
	fflush(stdout);
	run_switch();
	printf("drops %lu frames %lu\n", bottleneck.counters.dropped[FAULT_QUEUE],
		bottleneck.counters.frames);
	return 0;
}

static int
nodes_main(char **argv)
{
	double silence, seconds, bps = atof(argv[4]) * 1e6;
	double part = (double)(MTU - WIRE_HDR_BYTES) / (MTU + RTE_ETHER_HDR_LEN);
	uint64_t timeouts = 0, failed = 0;

	if (start_eal(argv[0], "client", argv[3], "0") != 0)
		return 1;
	for (unsigned i = 0; i < count; i++) {
		if (start_node(i, argv[5]) != 0)
			return 1;
	}
	/* connected, as MPI's processes are */
	if (gather(8, 1, &silence) == 0 || (seconds = gather(PIECE, PIECES, &silence)) == 0) {
		fprintf(stderr, "gather: not all arrived within %d s\n", PATIENCE);
		return 1;
	}
	for (unsigned i = 1; i < count; i++) {
		const uint64_t *c = proto_counters(nodes[i]->embedded->engines[0].proto);

		timeouts += c[PROTO_timeouts];
		failed += c[PROTO_messages_failed];
	}
	printf("senders %u rate %.3f silence_ms %.2f timeouts %lu failed %lu\n", count - 1,
		(count - 1) * PIECES * (double)PIECE * 8 / seconds / bps / part, silence * 1e3,
		timeouts, failed);
	fflush(stdout);
	while (true) /* until it is killed: the switch ends first */
		pause();
}

int
main(int argc, char **argv)
{
	count = argc == 6 ? (unsigned)atoi(argv[2]) + 1 : 0;
	if (count < 2 || count > NODES_MAX) {
		fputs("Usage: gather switch SENDERS SOCKET RATE_MBITS QUEUE_BYTES\n"
		      "       gather nodes SENDERS SOCKET RATE_MBITS CONFIG_LINES\n",
			stderr);
		return 2;
	}
	return strcmp(argv[1], "switch") == 0 ? switch_main(argv) : nodes_main(argv);
}
