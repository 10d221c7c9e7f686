/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Soak: two embedded nodes in one process, joined by a link that loses, reorders, doubles and
 * corrupts frames. Every context of a node sends to every context of the other, messages of 1 B to
 * 64 KiB whose length and bytes follow from (seed, flow, sequence); receivers check each byte, that
 * each message comes exactly once and in order. At the end: all sends done without an error, all
 * mbufs back, counters add up. soak.sh runs it; alone: soak [options] [-- EAL arguments].
 *
 * Design notes
 * 1. Messages carry nothing but payload: what a receiver expects next of a source is all it needs
 *    to tell a lost, doubled, overtaken, torn or foreign message from the right one.
 * 2. --threads 2 polls each node in a thread of its own, with its contexts.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_mempool.h>

#include "client/client.h"
#include "helpers.h"
#include "engine/lane.h"
#include "pmx/pmx.h"

#define NODES        2
#define CONTEXTS     2                     /* of a node */
#define FLOWS        (CONTEXTS * CONTEXTS) /* of a direction */
#define LEN_MAX      65536u
#define SENDS_MAX    512 /* outstanding messages of a context */
#define STUCK_S      60  /* without a message: something hangs */
#define DRIVER_HOLDS 32  /* mbufs */
#define TURN         16  /* messages sent or received before the node is polled again */

struct endpoint {
	struct pmx_context *ctx;
	uint64_t left[CONTEXTS];     /* to send, by destination context */
	uint64_t sent[CONTEXTS];     /* next sequence to send */
	uint64_t expected[CONTEXTS]; /* next sequence, by source context */
	pmx_send_id ids[SENDS_MAX];
	unsigned outstanding;
	uint64_t rng;
};

struct side {
	struct pmx_node *node;
	struct endpoint ends[CONTEXTS];
	uint64_t received, bytes; /* this side's; each thread writes its own */
	unsigned pool_before;
};

static struct side sides[NODES];
static uint64_t messages = 100000;
static _Atomic uint64_t done_receiving; /* messages received, all */
static _Atomic bool stop;

/* ------------------------------------------------------------------ what messages hold */

static uint64_t
message_key(unsigned src_node, unsigned src, unsigned dst, uint64_t sequence)
{
	return mix64(seed * 0x9E3779B97F4A7C15u + (src_node << 16 | src << 8 | dst) +
		mix64(sequence + 0x1234567));
}

/* Mostly evenly spread over the orders of magnitude, now and then one of the edges. */
static uint32_t
message_len(uint64_t key, uint32_t frag_len, uint32_t split)
{
	const uint32_t edges[] = {1, split, split + 1, frag_len - 1, frag_len, frag_len + 1,
		2 * frag_len, LEN_MAX};
	uint64_t r = mix64(key + 1);

	if (r % 16 == 0)
		return edges[(r >> 8) % (sizeof(edges) / sizeof(edges[0]))];
	uint32_t top = 2u << (r >> 8) % 16; /* 2 .. 65536 */

	return 1 + (uint32_t)((r >> 16) % top);
}

static inline uint64_t
word_at(uint64_t key, uint32_t word)
{
	return key + word * 0x9E3779B97F4A7C15u;
}

/* off is a multiple of 8 */
static void
fill(uint8_t *to, uint64_t key, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t w = word_at(key, (off + i) / 8);

		memcpy(to + i, &w, len - i < 8 ? len - i : 8);
	}
}

static bool
same(const uint8_t *from, uint64_t key, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t w = word_at(key, (off + i) / 8);

		if (memcmp(from + i, &w, len - i < 8 ? len - i : 8) != 0)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ sending */

/* Ask after what was sent, forget what is done. */
static void
collect(struct endpoint *e)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < e->outstanding; i++) {
		int r = pmx_is_send_done(e->ctx, e->ids[i]);

		if (r == 0)
			e->ids[keep++] = e->ids[i];
		else if (r != 1)
			fail("a send ended in: %s", pmx_strerror(r));
	}
	e->outstanding = keep;
}

static bool
send_one(unsigned node, unsigned src, struct endpoint *e)
{
	struct pmx_buffer buf;
	unsigned dst = mix64(e->rng++) % CONTEXTS;
	uint32_t len, n;

	while (e->left[dst] == 0)
		dst = (dst + 1) % CONTEXTS;
	uint64_t key = message_key(node, src, dst, e->sent[dst]);

	len = message_len(key, pmx_get_mtu(e->ctx), sides[0].node->embedded->config.lhs_split);
	int r = pmx_get_send_buffer(e->ctx, len, &buf);

	if (r == -ENOBUFS)
		return false;
	if (r != 0) {
		fail("a buffer of %u bytes: %s", len, pmx_strerror(r));
		return false;
	}
	for (uint32_t i = 0, off = 0; i < buf.segments; i++, off += n) {
		uint8_t *to = pmx_buffer_segment(e->ctx, &buf, i, &n);

		fill(to, key, off, n);
	}
	r = pmx_send(e->ctx, (struct pmx_addr){(uint16_t)(1 - node), (uint16_t)dst}, &buf,
		&e->ids[e->outstanding]);
	if (r != 0) {
		pmx_discard_buffer(e->ctx, &buf);
		if (r != -EAGAIN)
			fail("pmx_send: %s", pmx_strerror(r));
		return false;
	}
	e->outstanding++;
	e->sent[dst]++;
	e->left[dst]--;
	return true;
}

static unsigned
send_some(unsigned node, unsigned src, struct endpoint *e)
{
	unsigned n = 0;
	uint64_t left = 0;

	collect(e);
	for (unsigned i = 0; i < CONTEXTS; i++)
		left += e->left[i];
	while (n < TURN && n < left && e->outstanding < SENDS_MAX && send_one(node, src, e))
		n++;
	return n;
}

/* ------------------------------------------------------------------ receiving */

static void
check(unsigned node, unsigned dst, struct endpoint *e, const struct pmx_message *m)
{
	unsigned src = m->source.context;
	struct pmx_segment seg = {0};
	uint32_t off = 0;

	if (m->source.node != 1 - node || src >= CONTEXTS) {
		fail("node %u: a message of node %u context %u", node, m->source.node, src);
		return;
	}
	uint64_t sequence = e->expected[src]++, key = message_key(1 - node, src, dst, sequence);
	uint32_t len = message_len(key, pmx_get_mtu(e->ctx),
		sides[0].node->embedded->config.lhs_split);
	bool good = len == m->len;

	while (good && pmx_message_segment(e->ctx, m, &seg)) {
		good = off + seg.len <= len && same(seg.data, key, off, seg.len);
		off += seg.len;
	}
	if (!good || off != len)
		fail("node %u context %u: message %lu of %u:%u is not the one that was sent: %u "
		     "bytes, right for %u of %u",
			node, dst, sequence, 1 - node, src, m->len, off, len);
	sides[node].received++;
	sides[node].bytes += len;
}

static unsigned
receive_some(unsigned node, unsigned dst, struct endpoint *e)
{
	struct pmx_message m[TURN];
	int n = pmx_receive_burst(e->ctx, m, TURN);

	if (n < 0)
		fail("pmx_receive: %s", pmx_strerror(n));
	for (int i = 0; i < n; i++) {
		check(node, dst, e, &m[i]);
		pmx_release_receive_buffer(e->ctx, &m[i]);
	}
	if (n > 0)
		atomic_fetch_add_explicit(&done_receiving, (uint64_t)n, memory_order_relaxed);
	return n > 0 ? (unsigned)n : 0;
}

/* ------------------------------------------------------------------ running */

/* One turn of a node and its contexts. */
static unsigned
step(unsigned node)
{
	struct side *s = &sides[node];
	unsigned work = 0;

	for (unsigned c = 0; c < CONTEXTS; c++) {
		work += send_some(node, c, &s->ends[c]);
		work += receive_some(node, c, &s->ends[c]);
	}
	return work + pmx_node_poll(s->node);
}

static bool
all_sent(void)
{
	for (unsigned i = 0; i < NODES * CONTEXTS; i++) {
		struct endpoint *e = &sides[i / CONTEXTS].ends[i % CONTEXTS];

		if (e->outstanding != 0 || pmx_sends_pending(e->ctx) != 0)
			return false;
	}
	return true;
}

static void *
run_side(void *arg)
{
	unsigned node = (unsigned)(uintptr_t)arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (step(node) == 0)
			sched_yield();
	}
	return NULL;
}

/* Progress, or fail. */
static void
watch(uint64_t *seen, double *since)
{
	uint64_t n = atomic_load_explicit(&done_receiving, memory_order_relaxed);

	if (n != *seen) {
		*seen = n;
		*since = now_s();
	} else if (now_s() - *since > STUCK_S) {
		fail("no message for %d s: %lu of %lu arrived", STUCK_S, n, 2 * messages);
	}
}

static void
run_both(unsigned threads)
{
	pthread_t thread[NODES];
	uint64_t seen = 0, turn = 0;
	double since = now_s();

	for (unsigned i = 0; threads > 1 && i < NODES; i++)
		pthread_create(&thread[i], NULL, run_side, (void *)(uintptr_t)i);
	while (!failed && atomic_load(&done_receiving) < 2 * messages) {
		if (threads > 1) {
			struct timespec t = {.tv_nsec = 10000000};

			nanosleep(&t, NULL);
			watch(&seen, &since);
		} else {
			/* the nodes' load is not the same: sometimes one polls more */
			unsigned extra = mix64(turn + seed) % 8 == 0;

			step(0);
			step(1);
			if (extra)
				step(turn & 1);
			if (++turn % 1024 == 0)
				watch(&seen, &since);
		}
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; threads > 1 && i < NODES; i++)
		pthread_join(thread[i], NULL);
	/* the last Acks */
	for (since = now_s(); !failed && !all_sent();) {
		step(0);
		step(1);
		if (now_s() - since > STUCK_S)
			fail("all messages arrived, but sends are not done with");
	}
	if (!failed && atomic_load(&done_receiving) != 2 * messages)
		fail("%lu messages arrived of %lu", atomic_load(&done_receiving), 2 * messages);
}

/* ------------------------------------------------------------------ the end */

static void
check_counters(unsigned node)
{
	const struct engine *e = &sides[node].node->embedded->engines[0];
	const uint64_t *p = proto_counters(e->proto), *c = e->counters;
	uint64_t drops = 0;

	for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
		if (strncmp(proto_counter_info[i].name, "drop_", 5) == 0)
			drops += p[i];
	}
	if (p[PROTO_rx_frames] != p[PROTO_rx_accepted] + drops)
		fail("node %u: %lu frames received, but %lu accepted and %lu dropped", node,
			p[PROTO_rx_frames], p[PROTO_rx_accepted], drops);
	drops = 0;
	for (unsigned i = 0; i < ENGINE_COUNTER_COUNT; i++) {
		if (strncmp(engine_counter_info[i].name, "drop_", 5) == 0)
			drops += c[i];
	}
	if (c[ENGINE_rx_frames] != p[PROTO_rx_frames] + drops)
		fail("node %u: %lu frames of the link, but %lu given to the protocol and %lu "
		     "dropped",
			node, c[ENGINE_rx_frames], p[PROTO_rx_frames], drops);
	if (p[PROTO_messages_failed] || p[PROTO_messages_aborted] || p[PROTO_peer_deaths])
		fail("node %u: messages failed or were aborted", node);
	if (p[PROTO_messages_sent] != messages || p[PROTO_messages_delivered] != messages)
		fail("node %u: the protocol sent %lu and delivered %lu messages, not %lu", node,
			p[PROTO_messages_sent], p[PROTO_messages_delivered], messages);
	if (c[ENGINE_bad_submissions] || c[ENGINE_bad_releases] || c[ENGINE_bad_positions])
		fail("node %u: the engine found its client malformed", node);
}

/* Contexts closed, nothing in flight: every mbuf is in its pool again. The udp driver holds a burst
 * of empty ones, sometimes fewer. */
static void
check_pools(void)
{
	double end = now_s() + 20;
	unsigned have[NODES];

	do {
		pmx_node_poll(sides[0].node);
		pmx_node_poll(sides[1].node);
		for (unsigned i = 0; i < NODES; i++)
			have[i] = rte_mempool_avail_count(sides[i].node->embedded->pool);
		if (have[0] - sides[0].pool_before <= DRIVER_HOLDS &&
			have[1] - sides[1].pool_before <= DRIVER_HOLDS)
			return;
	} while (now_s() < end);
	fail("mbufs are missing: %u of %u on node 0, %u of %u on node 1", have[0],
		sides[0].pool_before, have[1], sides[1].pool_before);
}

static void
print_counters(unsigned node)
{
	const struct engine *e = &sides[node].node->embedded->engines[0];
	const uint64_t *p = proto_counters(e->proto);
	struct link_stats s;

	e->node->links[0].ops->stats(&e->node->links[0], &s);
	printf("# node %u: frames rx %lu (checksum %lu, old %lu, gap %lu, beyond %lu, full %lu), "
	       "tx %lu (again %lu, acks %lu, nacks %lu), timeouts %lu, faults %lu\n",
		node, p[PROTO_rx_frames], e->counters[ENGINE_drop_checksum], p[PROTO_drop_old],
		p[PROTO_drop_gap], p[PROTO_drop_beyond], p[PROTO_drop_full], p[PROTO_tx_frames],
		p[PROTO_tx_retransmits], p[PROTO_tx_acks], p[PROTO_tx_nacks], p[PROTO_timeouts],
		s.faults);
}

static int
open_all(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		sides[i].pool_before = rte_mempool_avail_count(sides[i].node->embedded->pool);
		for (unsigned c = 0; c < CONTEXTS; c++) {
			struct endpoint *e = &sides[i].ends[c];
			int r = pmx_context_open(&e->ctx, sides[i].node, c, NULL);

			if (r != 0) {
				fail("context %u of node %u: %s", c, i, pmx_strerror(r));
				return 1;
			}
			for (unsigned d = 0; d < CONTEXTS; d++)
				e->left[d] = messages / FLOWS + (c + d == 0 ? messages % FLOWS : 0);
			e->rng = seed * 1000 + i * 10 + c;
		}
	}
	return 0;
}

static int
start(unsigned i, unsigned port, const char *more, int argc, char **argv)
{
	char text[2048], link[256], nodes[128], error[256];
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = text,
		.eal_argc = argc,
		.eal_argv = argv,
	};

	snprintf(link, sizeof(link), "driver = loop\nport = soak");
	snprintf(nodes, sizeof(nodes), "0 = auto\n1 = auto");
	if (port != 0) {
		snprintf(link, sizeof(link), "driver = udp\nlisten = 127.0.0.1:%u", port + i);
		snprintf(nodes, sizeof(nodes), "0 = 127.0.0.1:%u\n1 = 127.0.0.1:%u", port,
			port + 1);
	}
	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = soak%u\n[engine]\nidle = yield\n"
		"[link 0]\n%s\nmtu = 1500\n"
		"fault = loss=5%%,reorder=5%%,duplicate=2%%,corrupt=1%%,seed=%lu\n"
		"[limits]\nmbufs = 8192\ncontexts = %u\n"
		"[proto]\nchecksum = on\nrto_min_us = 200\nretries = 50\n%s\n[nodes]\n%s\n",
		i, i, link, seed, CONTEXTS, more, nodes);
	if (pmx_node_start(&sides[i].node, &params, error, sizeof(error)) == 0)
		return 0;
	fail("node %u: %s", i, error);
	return 1;
}

static const char usage[] =
	"Usage: soak [--messages N] [--seed N] [--threads 1|2] [--udp PORT] [--proto LINES]\n"
	"            [-- EAL arguments]\n"
	"N messages each way (100000) between two embedded nodes over a bad link; --udp: over\n"
	"sockets on 127.0.0.1, PORT and PORT + 1. LINES go into [proto].\n";

struct options {
	char **eal_argv;
	int eal_argc;
	unsigned threads, port; /* port 0: no sockets */
	const char *more;       /* lines of [proto] */
};

/* Return whether they are right. */
static bool
read_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {{"messages", 1, NULL, 'm'}, {"seed", 1, NULL, 's'},
		{"threads", 1, NULL, 't'}, {"udp", 1, NULL, 'u'}, {"proto", 1, NULL, 'p'}, {0}};
	int opt;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			o->eal_argc = argc - i;
			o->eal_argv = argv + i;
			argv[i] = argv[0];
			argc = i;
		}
	}
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'm':
			messages = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			o->threads = (unsigned)atoi(optarg);
			break;
		case 'u':
			o->port = (unsigned)atoi(optarg);
			break;
		case 'p':
			o->more = optarg;
			break;
		default:
			return false;
		}
	}
	return true;
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "-m", "256", "--no-pci", "--no-telemetry",
		"--no-shconf", "-l", "0-1", "--log-level=*:error", NULL};
	struct options o = {.eal_argc = 10, .eal_argv = eal, .threads = 1, .more = ""};

	if (!read_options(argc, argv, &o)) {
		fputs(usage, stderr);
		return 2;
	}
	for (unsigned i = 0; i < NODES; i++) {
		if (start(i, o.port, o.more, i == 0 ? o.eal_argc : 0, o.eal_argv) != 0)
			return 1;
	}
	if (open_all() != 0)
		return 1;
	double began = now_s();

	run_both(o.threads);
	double took = now_s() - began;

	for (unsigned i = 0; i < NODES; i++) {
		if (!failed)
			check_counters(i);
		print_counters(i);
	}
	printf("# %lu messages, %.1f MB in %.1f s: %.0f messages/s, %.1f MB/s\n",
		atomic_load(&done_receiving), (double)(sides[0].bytes + sides[1].bytes) / 1e6, took,
		(double)atomic_load(&done_receiving) / took,
		(double)(sides[0].bytes + sides[1].bytes) / 1e6 / took);
	if (failed)
		return 1;
	for (unsigned i = 0; i < NODES * CONTEXTS; i++)
		pmx_context_close(sides[i / CONTEXTS].ends[i % CONTEXTS].ctx);
	check_pools();
	pmx_node_close(sides[1].node);
	pmx_node_close(sides[0].node);
	return failed ? 1 : 0;
}
