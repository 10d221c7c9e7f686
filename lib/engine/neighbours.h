/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The next hops of links with encap = udp: a lane asks for their Ethernet addresses when it has
 * frames for them, and answers what others ask. lib/core/arp has the rules.
 */
#ifndef PMX_ENGINE_NEIGHBOURS_H
#define PMX_ENGINE_NEIGHBOURS_H

#include "base/bytes.h"
#include "engine/lane.h"

/* Make the node's table, if a link needs one. Called when the links are open, before peers are
 * known. Return 0 or -ENOMEM. */
int neighbours_make(struct node *n);
void neighbours_free(struct node *n);
/* Find the peer's next hop: set peer->neighbour, or *mac if the configuration gives the address.
 * While no lane polls. Return 0, -ENOSPC, or -ENETUNREACH: no router is known. */
int neighbour_of(struct node *n, struct peer *peer, unsigned link, const struct link_addr *to,
	struct rte_ether_addr *mac);
/* Forget the peer's next hop. While no lane polls. */
void neighbour_leave(struct node *n, struct peer *peer);
/* Return whether frames for the peer, which has a neighbour, can be sent. Ask for the address if it
 * is time. */
bool neighbour_ready(struct engine *e, const struct peer *peer);
/* Write the address of the peer's next hop into a frame that begins there. */
static inline void
neighbour_put(const struct engine *e, const struct peer *peer, uint8_t *frame)
{
	const uint64_t mac = atomic_load_explicit(
		&arp_neighbour(&e->node->arp, peer->neighbour)->mac, memory_order_relaxed);

	put_be(frame, mac, RTE_ETHER_ADDR_LEN);
}
/* The place that frames to a peer with encap = udp go to first. */
struct next_hop {
	struct rte_ether_addr mac; /* zero: not known */
	uint32_t ip;               /* host order; 0: the configuration gives mac */
	bool unanswered;           /* asked for, and nobody has answered */
};
/* Return the peer's next hop. Any thread. */
struct next_hop neighbour_hop(const struct node *n, const struct peer *peer);
/* Take in a frame of EtherType ARP, which stays the caller's. */
void neighbour_frame(struct engine *e, const struct link *l, const struct rte_mbuf *m);
/* Tell all on the link that its IP address is here. */
void neighbour_announce(struct engine *e, unsigned link);

#endif
