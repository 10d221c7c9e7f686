/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See encap.h.
 */
#include <string.h>

#include <rte_ip.h>
#include <rte_udp.h>

#include "engine/encap.h"
#include "engine/neighbours.h"

/* Write what precedes the PM header of a frame to that address. node: for its UDP source port.
 * Return 0; -ENOSPC: there are too many next hops. */
static int
encap_set(struct node *n, struct peer *peer, uint8_t link, const struct link_addr *to,
	uint16_t node)
{
	const struct link *l = &n->links[link];
	const struct link_config *c = &l->config;
	struct rte_ether_addr mac = to->mac;
	int result = 0;

	peer->known = true;
	peer->link = link;
	peer->encap_len = (uint8_t)config_encap_bytes(c->encap);
	peer->plain = peer->encap_len <= 16 && !n->config.checksum;
	struct rte_ether_hdr *eth =
		(struct rte_ether_hdr *)(peer->encap + LINK_ENCAP_MAX - peer->encap_len);

	if (c->encap == LINK_ENCAP_NONE)
		return 0;
	if (c->encap == LINK_ENCAP_UDP)
		result = neighbour_of(n, peer, link, to, &mac);
	rte_ether_addr_copy(&mac, &eth->dst_addr);
	rte_ether_addr_copy(&l->mac, &eth->src_addr);
	eth->ether_type = rte_cpu_to_be_16(c->ethertype);
	if (c->encap == LINK_ENCAP_VLAN) {
		struct rte_vlan_hdr *v = (struct rte_vlan_hdr *)(eth + 1);

		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN);
		v->vlan_tci = rte_cpu_to_be_16(c->vlan);
		v->eth_proto = rte_cpu_to_be_16(c->ethertype);
	}
	if (c->encap == LINK_ENCAP_UDP) {
		struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(eth + 1);
		struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

		eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		ip->version_ihl = RTE_IPV4_VHL_DEF;
		/* never fragmented, so it needs no identification (RFC 6864) */
		ip->fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
		ip->time_to_live = 64;
		ip->next_proto_id = IPPROTO_UDP;
		ip->src_addr = rte_cpu_to_be_32(c->net.ip);
		ip->dst_addr = rte_cpu_to_be_32(to->ip);
		/* each path has its own source port, by which ECMP and RSS spread the paths */
		udp->src_port = rte_cpu_to_be_16(
			(uint16_t)(49152 + (n->config.id * 251u + node * 17u) % 16384));
		udp->dst_port = rte_cpu_to_be_16(to->port);
	}
	return result;
}

int
peer_set(struct node *n, uint16_t node, const struct config_peer *p)
{
	const uint32_t first = config_peer_link(p);

	for (uint32_t left = p->links; left != 0; left &= left - 1) {
		const uint32_t link = rte_bsf32(left);
		struct link *l = &n->links[link];
		int result = l->ops->add_peer != NULL ? l->ops->add_peer(l, node, &p->addr[link])
						      : 0;

		if (result == 0 && n->peers_by_link != NULL)
			result = encap_set(n, node_peer(n, node, link), (uint8_t)link,
				&p->addr[link], node);
		if (result != 0)
			return result;
	}
	const int result = encap_set(n, &n->peers[node], (uint8_t)first, &p->addr[first], node);

	if (result != 0)
		return result;
	n->peers[node].several = p->links != 1u << first;
	n->peers[node].plain &= !n->peers[node].several;
	return 0;
}

void
peer_unset(struct node *n, uint16_t node)
{
	n->peers[node].known = n->peers[node].plain = n->peers[node].several = false;
	neighbour_leave(n, &n->peers[node]);
	for (unsigned i = 0; n->peers_by_link != NULL && i < n->link_count; i++)
		neighbour_leave(n, node_peer(n, node, i));
}

/* Frames to several nodes at once have one of the Ethernet addresses 03:50:4D:xx:xx:xx, by their
 * group; with encap = udp an IPv4 group of 239.80.0.0/16, and its Ethernet address (RFC 1112,
 * 6.4). */
#define MULTICAST_IP 0xEF500000u

void
encap_multicast(struct node *n, uint8_t link)
{
	const struct link_config *c = &n->links[link].config;
	struct link_addr to = {
		.mac = {{0x03, 0x50, 0x4D, 0, 0, 0}},
		.ip = MULTICAST_IP,
		.port = c->udp_port,
	};

	if (c->encap == LINK_ENCAP_UDP)
		to.mac = (struct rte_ether_addr){{0x01, 0x00, 0x5E, 80, 0, 0}};
	encap_set(n, &n->multicast[link], link, &to, n->config.id);
}

void
encap_to_group(uint8_t *encap, uint32_t encap_len, uint32_t group)
{
	const uint32_t hash = (group * 0x9E3779B1u) >> 8;
	struct rte_ether_hdr *eth = (struct rte_ether_hdr *)encap;

	if (encap_len == 0)
		return;
	eth->dst_addr.addr_bytes[4] = (uint8_t)(hash >> 8);
	eth->dst_addr.addr_bytes[5] = (uint8_t)hash;
	if (encap_len == 42)
		((struct rte_ipv4_hdr *)(eth + 1))->dst_addr = rte_cpu_to_be_32(
			MULTICAST_IP | (hash & 0xFFFF));
	else
		eth->dst_addr.addr_bytes[3] = (uint8_t)(hash >> 16);
}

void
encap_finish(uint8_t *encap, uint32_t payload)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(encap + sizeof(struct rte_ether_hdr));
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	udp->dgram_len = rte_cpu_to_be_16((uint16_t)(payload + sizeof(*udp)));
	udp->dgram_cksum = 0;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(payload + sizeof(*udp) + sizeof(*ip)));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
}

/* Return whether a frame is addressed to this port. Ports are promiscuous, so a switch may flood
 * frames for other ports to them, even with this node's IP address: those arrive again through the
 * router that they are on their way to. */
static bool
for_this_port(const struct link *l, const struct rte_ether_addr *dst)
{
	struct rte_ether_addr made_up;

	config_made_up_mac(l->node, &made_up);
	return rte_is_same_ether_addr(dst, &l->mac) || rte_is_same_ether_addr(dst, &made_up);
}

/* encap_bytes() for encap = udp. Checks what a host's IP and UDP must check (RFC 1122, 3.2.1 and
 * 4.1.3), except UDP's checksum: the peers send none, and proto.checksum covers more. Shortens the
 * mbuf to the datagram's own length, since padding of a short frame may follow. */
static uint32_t
udp_encap_of(struct engine *e, const struct link *l, struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(eth + 1);
	uint32_t room = m->data_len - (uint32_t)sizeof(*eth), head, len, bytes;

	if (eth->ether_type == rte_cpu_to_be_16(ARP_ETHERTYPE)) {
		neighbour_frame(e, l, m);
		return 0;
	}
	if (eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
		ENGINE_COUNT(e, drop_foreign);
		return 0;
	}
	head = (ip->version_ihl & 15u) * 4; /* with options, which are skipped */
	len = rte_be_to_cpu_16(ip->total_length);
	if (room < sizeof(*ip) || ip->version_ihl >> 4 != 4 || head < sizeof(*ip) || len < head ||
		len > room || rte_ipv4_cksum(ip) != 0) {
		ENGINE_COUNT(e, drop_bad_ip);
		return 0;
	}
	const bool to_group = (rte_be_to_cpu_32(ip->dst_addr) & 0xFFFF0000) == MULTICAST_IP;

	if (ip->next_proto_id != IPPROTO_UDP ||
		(ip->dst_addr != rte_cpu_to_be_32(l->config.net.ip) && !to_group)) {
		ENGINE_COUNT(e, drop_foreign);
		return 0;
	}
	if (!to_group && !for_this_port(l, &eth->dst_addr)) {
		ENGINE_COUNT(e, drop_other_mac);
		return 0;
	}
	if (ip->fragment_offset &
		rte_cpu_to_be_16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) {
		ENGINE_COUNT(e, drop_fragment);
		return 0;
	}
	const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)((const uint8_t *)ip + head);

	bytes = len < head + sizeof(*udp) ? 0 : rte_be_to_cpu_16(udp->dgram_len);
	if (bytes < sizeof(*udp) || bytes > len - head) {
		ENGINE_COUNT(e, drop_bad_ip);
		return 0;
	}
	if (udp->dst_port != rte_cpu_to_be_16(l->config.udp_port)) {
		ENGINE_COUNT(e, drop_foreign);
		return 0;
	}
	m->data_len = (uint16_t)(sizeof(*eth) + head + bytes);
	return (uint32_t)(sizeof(*eth) + head + sizeof(*udp));
}

uint32_t
encap_bytes(struct engine *e, const struct link *l, struct rte_mbuf *m)
{
	const struct link_config *c = &l->config;
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_vlan_hdr *v = (const struct rte_vlan_hdr *)(eth + 1);

	if (likely(m->data_len >= RTE_ETHER_HDR_LEN)) {
		if (c->encap == LINK_ENCAP_UDP)
			return udp_encap_of(e, l, m);
		if (c->encap == LINK_ENCAP_ETHER &&
			eth->ether_type == rte_cpu_to_be_16(c->ethertype))
			return sizeof(*eth);
		if (c->encap == LINK_ENCAP_VLAN && m->data_len >= sizeof(*eth) + sizeof(*v) &&
			eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN) &&
			v->eth_proto == rte_cpu_to_be_16(c->ethertype) &&
			(v->vlan_tci & rte_cpu_to_be_16(0x0FFF)) == rte_cpu_to_be_16(c->vlan))
			return sizeof(*eth) + sizeof(*v);
	}
	ENGINE_COUNT(e, drop_foreign);
	return 0;
}
