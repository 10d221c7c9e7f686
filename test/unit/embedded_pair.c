/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See embedded_pair.h.
 */
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_mempool.h>

#include "embedded_pair.h"

struct pmx_node *nodes[NODES];
struct pmx_context *ctx[NODES][CONTEXTS];
const char *only_second = "";
unsigned pair_contexts = CONTEXTS;
unsigned keep_and_lose;
unsigned sent_ops[NODES][WIRE_TRANSFER_OPS];
static struct link_ops tapped;
static unsigned pool_before[NODES];

int
pair_eal(const char *program)
{
	char *eal[] = {(char *)(uintptr_t)program, "--no-huge", "-m", "512", "--no-pci",
		"--no-telemetry", "--no-shconf", "--log-level=*:error", NULL};

	return rte_eal_init(8, eal);
}

void
pair_poll(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

/* The frames that a node's port still has. It gives mbufs back late, and whoever sends one again
 * before that must not write to it. */
static struct late {
	struct rte_mbuf *sent[64];
	unsigned frames;
} late[NODES];

static uint16_t
tx_late(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct late *d = &late[l->node];

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf **place = &d->sent[d->frames % RTE_DIM(d->sent)], *m = bufs[i];

		for (struct rte_mbuf *s = m; s != NULL; s = s->next)
			rte_mbuf_refcnt_update(s, 1);
		if (++d->frames % keep_and_lose == 0) {
			rte_pktmbuf_free(m);
		} else if (link_loop_ops.tx(l, queue, &m, 1) == 0) {
			for (struct rte_mbuf *s = m; s != NULL; s = s->next)
				rte_mbuf_refcnt_update(s, -1);
			return i;
		}
		rte_pktmbuf_free(*place);
		*place = bufs[i];
	}
	return n;
}

static void
late_flush(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned i = 0; i < RTE_DIM(late[n].sent); i++)
			rte_pktmbuf_free(late[n].sent[i]);
	}
	memset(late, 0, sizeof(late));
	keep_and_lose = 0;
}

/* Count the transfer messages that a node sends, by their operations, and send all on: frames begin
 * with the header here. */
static uint16_t
tap_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		const struct wire_hdr *h = rte_pktmbuf_mtod(bufs[i], const struct wire_hdr *);
		uint16_t endpoint = wire_endpoint(wire_be16(h->dst_ctx));
		const struct wire_transfer *t = (const struct wire_transfer *)(h + 1);

		if (h->type == WIRE_DATA &&
			(endpoint == WIRE_TARGET || endpoint == WIRE_INITIATOR) &&
			t->op < WIRE_TRANSFER_OPS)
			sent_ops[l->node][t->op]++;
	}
	return keep_and_lose ? tx_late(l, queue, bufs, n) : link_loop_ops.tx(l, queue, bufs, n);
}

void
pair_start(const char *matching, const char *limits)
{
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = verbs%u\n[engine]\nmatching = %s\n[link 0]\n"
			"driver = loop\nport = verbs\nencap = none\n"
			"[nodes]\n0 = auto\n1 = auto\n[limits]\ncontexts = %u\nmbufs = 8192\n%s\n"
			"%s\n",
			n, n, matching, pair_contexts, limits, n == 1 ? only_second : "");
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
		tapped = link_loop_ops;
		tapped.tx = tap_tx;
		nodes[n]->embedded->links[0].ops = &tapped;
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
		for (uint16_t c = 0; c < CONTEXTS; c++) {
			assert_int_equal(pmx_context_open(&ctx[n][c], nodes[n], c, NULL), 0);
		}
	}
	memset(sent_ops, 0, sizeof(sent_ops));
}

bool
pair_is_quiet(void)
{
	int64_t end = now_us() + 10 * 1000 * 1000;
	unsigned quiet = 0;

	while (quiet < 100 && now_us() < end) {
		unsigned work = pmx_node_poll(nodes[0]) + pmx_node_poll(nodes[1]);

		for (unsigned n = 0; n < NODES; n++)
			work += nodes[n]->embedded->engines[0].dirty_count;
		quiet = work ? 0 : quiet + 1;
	}
	return quiet >= 100;
}

/* Polls both nodes until nothing that was sent awaits an Ack, for at most a second: a context that
 * closes polls its own node only, and then waits for all retries. */
static void
await_acks(void)
{
	int64_t end = now_us() + 1000 * 1000;
	unsigned waiting;

	do {
		waiting = 0;
		pair_poll();
		for (unsigned n = 0; n < NODES; n++) {
			for (unsigned c = 0; c < CONTEXTS; c++)
				waiting += nodes[n]->embedded->channels[c].busy_slots;
		}
	} while (waiting != 0 && now_us() < end);
}

int
pair_stop(void **state)
{
	bool quiet = nodes[0] != NULL && nodes[1] != NULL && pair_is_quiet();

	(void)state;
	if (quiet)
		await_acks();
	else
		print_error("a lane still has something to do\n");
	for (unsigned n = 0; quiet && n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			pmx_context_close(ctx[n][c]);
			ctx[n][c] = NULL;
		}
	}
	late_flush();
	quiet = quiet && pair_is_quiet();
	for (unsigned n = 0; quiet && n < NODES; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool);

		if (have != pool_before[n]) {
			print_error("node %u has %u mbufs of %u\n", n, have, pool_before[n]);
			quiet = false;
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	pair_contexts = CONTEXTS;
	return quiet ? 0 : -1;
}

void
bytes_fill(uint8_t *p, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + salt);
}

void
pair_take(struct pmx_message *msg)
{
	UNTIL(pmx_receive(ctx[1][0], msg) == 1);
}
