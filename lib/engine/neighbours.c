/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See neighbours.h. A frame for a next hop whose address is not known is not sent, as if the
 * network had lost it: the protocol sends it again, and HELLO, the first one, soon.
 */
#include <errno.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "base/bytes.h"
#include "engine/neighbours.h"

int
neighbours_make(struct node *n)
{
	uint32_t links = 0;

	for (unsigned i = 0; i < n->link_count; i++) {
		const struct link *l = &n->links[i];

		if (l->config.encap != LINK_ENCAP_UDP)
			continue;
		n->arp_port[i] = (struct arp_port){get_be(l->mac.addr_bytes, RTE_ETHER_ADDR_LEN),
			l->config.net.ip, (uint8_t)i};
		links++;
	}
	if (links == 0)
		return 0;
	/* a peer that moves has its old and its new next hop for a moment */
	const uint32_t size = n->config.nodes_max * links + 1;
	void *memory = rte_zmalloc("pmx_neighbours", arp_bytes(size), 0);

	if (memory == NULL)
		return -ENOMEM;
	arp_init(&n->arp, memory, size, rte_get_tsc_hz() / 1000);
	return 0;
}

void
neighbours_free(struct node *n)
{
	rte_free(n->arp.all);
}

int
neighbour_of(struct node *n, struct peer *peer, unsigned link, const struct link_addr *to,
	struct rte_ether_addr *mac)
{
	const struct link_config *c = &n->links[link].config;
	const bool near = link_is_near(&c->net, to->ip);

	neighbour_leave(n, peer);
	*mac = !rte_is_zero_ether_addr(&to->mac) || near ? to->mac : c->gateway.mac;
	if (!rte_is_zero_ether_addr(mac))
		return 0;
	if (!near && c->gateway.ip == 0)
		return -ENETUNREACH;
	peer->neighbour = arp_use(&n->arp, (uint8_t)link, near ? to->ip : c->gateway.ip);
	return peer->neighbour != 0 ? 0 : -ENOSPC;
}

void
neighbour_leave(struct node *n, struct peer *peer)
{
	if (peer->neighbour != 0)
		arp_unuse(&n->arp, peer->neighbour);
	peer->neighbour = 0;
}

struct next_hop
neighbour_hop(const struct node *n, const struct peer *peer)
{
	struct next_hop hop = {0};

	if (peer->neighbour == 0) {
		memcpy(&hop.mac, peer->encap + LINK_ENCAP_MAX - peer->encap_len, sizeof(hop.mac));
		return hop;
	}
	const struct arp_neighbour *to = arp_neighbour(&n->arp, peer->neighbour);
	const uint64_t mac = atomic_load(&to->mac);

	put_be(hop.mac.addr_bytes, mac, RTE_ETHER_ADDR_LEN);
	hop.ip = to->ip;
	hop.unanswered = mac == 0 && atomic_load(&to->asked) != 0;
	return hop;
}

/* Send a frame of ARP. If there is no room or no buffer now, it counts as lost. */
static void
engine_neighbours_send(struct engine *e, unsigned link, const uint8_t frame[ARP_FRAME_BYTES])
{
	struct tx_queue *q = &e->txq[link];
	struct rte_mbuf *m = q->n < TX_QUEUE - BURST_MAX ? rte_pktmbuf_alloc(e->node->pool) : NULL;

	if (m == NULL)
		return;
	memcpy(rte_pktmbuf_append(m, ARP_FRAME_BYTES), frame, ARP_FRAME_BYTES);
	m->port = WIRE_NOBODY;
	q->m[q->n++] = m;
	e->tx_waiting = true;
}

static __rte_noinline void
neighbours_ask(struct engine *e, const struct arp_neighbour *to)
{
	uint8_t frame[ARP_FRAME_BYTES];

	arp_question(frame, &e->node->arp_port[to->link], to->ip);
	engine_neighbours_send(e, to->link, frame);
}

bool
neighbour_ready(struct engine *e, const struct peer *peer)
{
	const struct arp_neighbour *to = arp_neighbour(&e->node->arp, peer->neighbour);

	if (arp_question_due(&e->node->arp, peer->neighbour, e->now))
		neighbours_ask(e, to);
	if (atomic_load_explicit(&to->mac, memory_order_relaxed) != 0)
		return true;
	ENGINE_COUNT(e, tx_no_neighbour);
	return false;
}

void
neighbour_frame(struct engine *e, const struct link *l, const struct rte_mbuf *m)
{
	const unsigned link = (unsigned)(l - e->node->links);
	uint8_t answer[ARP_FRAME_BYTES];
	uint64_t from;

	ENGINE_COUNT(e, rx_arp);
	switch (arp_in(&e->node->arp, &e->node->arp_port[link],
		rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, e->now, answer, &from)) {
	case ARP_ANSWER:
		engine_neighbours_send(e, link, answer);
		break;
	case ARP_TAKEN:
		atomic_store(&e->node->address_taken[link], from);
		break;
	case ARP_LEARNT:
	case ARP_IGNORED:
		break;
	}
}

void
neighbour_announce(struct engine *e, unsigned link)
{
	const struct arp_port *own = &e->node->arp_port[link];
	uint8_t frame[ARP_FRAME_BYTES];

	if (own->ip == 0)
		return;
	arp_question(frame, own, own->ip);
	engine_neighbours_send(e, link, frame);
}
