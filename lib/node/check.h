/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Checks whether a node with this configuration would start.
 */
#ifndef PMX_NODE_CHECK_H
#define PMX_NODE_CHECK_H

#include "config/config.h"

/* A fault of the configuration: section, key ("": the whole section), and what is wrong. */
struct config_fault {
	char section[32], key[32], text[384];
};
/* Check the configuration by itself. Return 0, or -1 with *f set: no node would start with it
 * anywhere. node_config_read() calls this. */
int node_config_check(const struct config *c, struct config_fault *f);
/* Check whether a node with this configuration can reach that peer by the links that it has. Return
 * 0, or -1 with *f set. */
int node_config_check_peer(const struct config *c, uint32_t node, const struct config_peer *peer,
	struct config_fault *f);

/* The resources that the host and the EAL arguments provide for a node. */
struct config_host {
	unsigned lcores;
	uint64_t descriptors; /* most descriptors of this process */
	uint64_t page_files;  /* descriptors that the EAL keeps open for hugepages */
	uint64_t memory_most; /* bytes that the EAL can get if no other process takes any */
	uint64_t memory_free; /* bytes that it can get now */
	uint64_t page_bytes;
	const char *memory_of;   /* "hugepages" */
	const char *memory_more; /* how to provide more: end of a sentence */
};
/* Check the configuration on this host, without touching devices. Return 0: a node would start;
 * -EINVAL: it cannot; -EAGAIN: it cannot now. Both errors come with a message in error. */
int node_config_check_start(const struct config *c, const struct config_host *h, char *error,
	uint32_t error_len);

#endif
