/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What precedes the PM header of a frame: Ethernet, a VLAN tag, IPv4 and UDP. It is made for each
 * peer when that becomes known, and taken off what comes.
 */
#ifndef PMX_ENGINE_ENCAP_H
#define PMX_ENGINE_ENCAP_H

#include "engine/lane.h"

/* Prepare what is needed to send to that node, such as the encapsulation of its frames. Called
 * while no lane polls: before they start, and while they are paused for a reload. Return 0, or the
 * link's -errno. */
int peer_set(struct node *n, uint16_t node, const struct config_peer *p);
void peer_unset(struct node *n, uint16_t node);
/* Make node.multicast of a link, for frames to several nodes at once. */
void encap_multicast(struct node *n, uint8_t link);
/* Complete the address in what encap_multicast wrote, by the group's number. */
void encap_to_group(uint8_t *encap, uint32_t encap_len, uint32_t group);
/* Complete the lengths and the checksum of IPv4 and UDP in front of so many bytes. */
void encap_finish(uint8_t *encap, uint32_t payload);
/* Return the bytes of encapsulation in front of the PM header of a frame that came. 0: the frame
 * must be dropped, and was counted; or it was of ARP, and was taken in. */
uint32_t encap_bytes(struct engine *e, const struct link *l, struct rte_mbuf *m);

#endif
