/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two nodes in one process, joined by two net_ring ports that are each other's other end. Its rings
 * pass the sender's own mbufs on, so this is what proves that the ethdev driver takes no foreign
 * mbuf into the node (link.h, note 2). Random messages, every byte checked, both ways.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "pmx/pmx.h"

#define MESSAGES 20000
#define LEN_MAX  20000

static struct pmx_node *nodes[2];
static struct pmx_context *ctxs[2];

static int
start(unsigned i)
{
	char text[512], error[256];
	const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = ring%u\n[engine]\nidle = spin\n"
		"[link 0]\ndriver = ethdev\nport = net_ring_pmx%u\n"
		"[limits]\nmbufs = 8192\ncontexts = 2\n[nodes]\n0 = auto\n1 = auto\n",
		i, i, i);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "net_ring: %s\n", error);
		return 1;
	}
	return pmx_context_open(&ctxs[i], nodes[i], i, NULL);
}

static uint8_t
byte_of(unsigned from, uint32_t number, uint32_t i)
{
	return (uint8_t)(from * 101 + number * 31 + i * 7 + (i >> 8));
}

static uint32_t
length_of(unsigned from, uint32_t number)
{
	return (number * 2654435761u + from) % LEN_MAX + 1;
}

static void
send_next(unsigned from, uint32_t *sent)
{
	static uint8_t data[LEN_MAX];
	uint32_t len = length_of(from, *sent);

	if (*sent == MESSAGES)
		return;
	for (uint32_t i = 0; i < len; i++)
		data[i] = byte_of(from, *sent, i);
	if (pmx_send_copy(ctxs[from], (struct pmx_addr){(uint16_t)!from, (uint16_t)!from}, data,
		    len, NULL) == 0)
		(*sent)++;
}

static int
check_next(unsigned to, uint32_t *received)
{
	static uint8_t data[LEN_MAX];
	struct pmx_message m;

	while (pmx_receive(ctxs[to], &m) == 1) {
		if (m.len != length_of(!to, *received)) {
			fprintf(stderr, "net_ring: message %u has %u bytes\n", *received, m.len);
			return 1;
		}
		pmx_message_read(ctxs[to], &m, 0, data, m.len);
		for (uint32_t i = 0; i < m.len; i++) {
			if (data[i] != byte_of(!to, *received, i)) {
				fprintf(stderr, "net_ring: message %u, byte %u\n", *received, i);
				return 1;
			}
		}
		pmx_release_receive_buffer(ctxs[to], &m);
		(*received)++;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "-m", "256", "--no-pci", "--no-telemetry",
		"--no-shconf", "-l", "0", "--log-level=*:error", NULL};
	uint32_t sent[2] = {0}, received[2] = {0};

	(void)argc;
	if (rte_eal_init(10, eal) < 0)
		return 1;
	struct rte_ring *a = rte_ring_create("a", 1024, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
	struct rte_ring *b = rte_ring_create("b", 1024, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);

	if (a == NULL || b == NULL || rte_eth_from_rings("pmx0", &a, 1, &b, 1, 0) < 0 ||
		rte_eth_from_rings("pmx1", &b, 1, &a, 1, 0) < 0 || start(0) || start(1))
		return 1;
	for (unsigned long turn = 0; received[0] + received[1] < 2 * MESSAGES; turn++) {
		for (unsigned i = 0; i < 2; i++) {
			send_next(i, &sent[i]);
			pmx_node_poll(nodes[i]);
			if (check_next(i, &received[i]) != 0)
				return 1;
		}
		if (turn > 100000000ul) {
			fprintf(stderr, "net_ring: %u and %u of %u arrived\n", received[0],
				received[1], MESSAGES);
			return 1;
		}
	}
	printf("net_ring: %u messages each way\n", MESSAGES);
	return 0;
}
