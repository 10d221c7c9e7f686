/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory and descriptors that a node with a configuration needs. Pure functions, except for
 * descriptors_raise().
 */
#ifndef PMX_NODE_SIZES_H
#define PMX_NODE_SIZES_H

#include "channel/channel.h"
#include "config/config.h"
#include "core/proto/proto.h"

struct config_memory {
	uint64_t mbufs, channels, cores, rest, all; /* bytes of the EAL's memory, by use */
};
/* Return the mbufs that the links' queues may hold, mempool caches and transfer frames included. */
uint32_t node_config_link_buffers(const struct config *c);
/* The shares of the mbufs that are not for links. */
struct buffer_shares {
	uint32_t hold, assembly; /* per lane: for frames out of order, and for unfinished messages
				  * to thin clients */
	int64_t contexts;        /* for all contexts together */
	uint32_t context_least;  /* of these, kept back for each context that is not open */
};
/* Send slots of a channel: the client's, and the engine's own for inline messages. */
static inline uint32_t
node_send_slots(const struct config *c)
{
	return c->send_buffers + channel_inline_sends(c->send_buffers);
}
void node_config_divide_buffers(const struct config *c, struct buffer_shares *s);
/* Return a number of mbufs for limits.mbufs = auto. ...wanted(): every context can have all buffers
 * of a default one; ...least(): enough for links and two contexts; ...fit(): the most between these
 * two with which all that the node takes is `bytes` or less. */
uint32_t node_config_buffers_wanted(const struct config *c);
uint32_t node_config_buffers_least(const struct config *c);
uint32_t node_config_buffers_fit(const struct config *c, uint64_t bytes, uint64_t page_bytes);
/* Return the bytes of an mbuf's data room behind the headroom. */
uint32_t node_config_frame_room(const struct config *c);
uint32_t node_config_inbox_entries(const struct config *c);
struct channel_geometry node_config_geometry(const struct config *c);
/* Return the configuration of a lane's core, without what is known only at its start; and the
 * core's bytes, 0 if the configuration is wrong. */
struct proto_config node_config_core(const struct config *c);
size_t node_config_core_bytes(const struct config *c);
/* page_bytes: size of the memory's pages, whose borders no packet buffer crosses. */
void node_config_memory(const struct config *c, uint64_t page_bytes, struct config_memory *m);
/* Return the descriptors that a node needs at its start, without those of hugepages. */
uint64_t node_config_descriptors(const struct config *c);
/* Raise the limit of this process's descriptors to so many, or as far as possible. Return the
 * limit, at most `want`. */
uint64_t descriptors_raise(uint64_t want);

#endif
