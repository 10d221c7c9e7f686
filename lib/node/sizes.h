/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a configuration takes, before anything is made of it. Pure, but for descriptors_raise.
 */
#ifndef PMX_NODE_SIZES_H
#define PMX_NODE_SIZES_H

#include "config/config.h"
#include "proto/proto.h"

struct config_memory {
	uint64_t mbufs, channels, cores, rest, all; /* bytes of the EAL's memory */
};
/* What the links' queues may hold, and some for frames being handled. */
uint32_t node_config_link_buffers(const struct config *c);
/* How limits.mbufs are divided among what is not a link's. */
struct buffer_shares {
	uint32_t hold, assembly; /* of each lane: for frames out of order, for unfinished messages
				  * to thin clients */
	int64_t contexts;        /* for all contexts together */
	uint32_t context_least;  /* of them, kept back for each that is not open */
};
void node_config_divide_buffers(const struct config *c, struct buffer_shares *s);
/* limits.mbufs = auto: so many that every context may have all of a default one's; as few as are of
 * use, for links and two contexts; and the most between these two with which all that the node
 * takes is `bytes` or less. */
uint32_t node_config_buffers_wanted(const struct config *c);
uint32_t node_config_buffers_least(const struct config *c);
uint32_t node_config_buffers_fit(const struct config *c, uint64_t bytes, uint64_t page_bytes);
/* Bytes of a data room behind the headroom. */
uint32_t node_config_frame_room(const struct config *c);
uint32_t node_config_inbox_entries(const struct config *c);
struct channel_geometry node_config_geometry(const struct config *c);
/* A lane's core, without what is known at its start only; its bytes, 0: the configuration is
 * wrong. */
struct proto_config node_config_core(const struct config *c);
size_t node_config_core_bytes(const struct config *c);
/* page_bytes: of the memory's pages, which no packet buffer crosses. */
void node_config_memory(const struct config *c, uint64_t page_bytes, struct config_memory *m);
/* Descriptors that a start takes, without those of hugepages. */
uint64_t node_config_descriptors(const struct config *c);
/* This process may have them from now on; otherwise as many as it may have. Returns how many. */
uint64_t descriptors_raise(uint64_t want);

#endif
