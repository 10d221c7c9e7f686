/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What needs DPDK in a client: attaching as a secondary, and embedded nodes. libpmx.so has none of
 * it, and opens libpmx-dpdk.so when a node is attached in one of these ways; so a thin client needs
 * no DPDK, and starts without it. Programs that are linked with the engine have that part in them.
 */
#ifndef PMX_CLIENT_DPDK_H
#define PMX_CLIENT_DPDK_H

#include <stdint.h>

#include "pmx/pmx.h"

/* Follows the declaration of each function that one part has and the other one calls: exports it by
 * a name that no application has. */
#define DPDK_PART(name) __asm__("pmxprivate_" #name) __attribute__((visibility("default")))

struct dpdk_part {
	const char *version; /* PMX_VERSION: both parts share structures that change with it */
	/* Attach to the primary of that name as a secondary, and move this thread to the CPU, if
	 * that is not -1. Return 0, or -errno; -ENOENT: there is none for this user. */
	int (*attach)(struct pmx_node *node, const char *instance, int cpu);
	/* Start an engine for the node, as pmx_node_start() does. */
	int (*start)(struct pmx_node *node, const struct pmx_node_params *params, char *error,
		uint32_t error_len);
};

/* Return the part, or NULL, with a sentence, if it cannot be opened. */
const struct dpdk_part *dpdk_open(char *error, uint32_t error_len);

/* embedded.c: the part where it is linked. */
extern const struct dpdk_part dpdk_part DPDK_PART(dpdk_part);

/* secondary.c */
int secondary_attach(struct pmx_node *node, const char *instance, int cpu);
/* Return the bytes of a page, for channels in memory of DPDK: way.page. */
uint64_t way_dpdk_page(const void *shm);

#endif
