/* SPDX-License-Identifier: BSD-3-Clause
 *
 * On which NUMA node (libnuma) memory of the EAL lies. What a lane and its contexts use is on the
 * node of the lane's CPU, packet buffers on that of the port which reads and writes them. Where
 * that node has no hugepages left, memory is taken from another, and the log says so. On a machine
 * with one node all of this means that one. Called in the starting thread.
 */
#ifndef PMX_MEMORY_NUMA_H
#define PMX_MEMORY_NUMA_H

#include <stddef.h>

#include <rte_mempool.h>
#include <rte_memzone.h>
#include <rte_ring.h>

/* Return the NUMA node that the lane's CPUs are on, or the EAL's choice if they are on several. The
 * CPUs of lane 0 are those of the calling thread, those of others are of the EAL's workers in their
 * order. */
int numa_of_lane(unsigned lane);
/* Return the NUMA node of a DPDK port, or `otherwise` if there is no such port yet, or it is on
 * none. */
int numa_of_port(const char *port, int otherwise);
/* Allocate as rte_zmalloc_socket(), rte_memzone_reserve_aligned(), rte_ring_create() and
 * rte_pktmbuf_pool_create() do, but from another node if that one has no memory left. */
void *numa_zmalloc(const char *name, size_t bytes, unsigned align, int numa);
const struct rte_memzone *numa_memzone(const char *name, size_t bytes, unsigned align, int numa);
struct rte_ring *numa_ring(const char *name, unsigned entries, unsigned flags, int numa);
struct rte_mempool *numa_pool(const char *name, unsigned count, unsigned cache, uint16_t priv,
	uint16_t room, int numa);
/* Until numa_prefer_as() the thread's new memory that is not of the EAL is on that node. */
struct numa_policy {
	int mode; /* -1: nothing is to be put back */
	unsigned long nodes[16];
};
void numa_prefer(int numa, struct numa_policy *before);
void numa_prefer_as(const struct numa_policy *before);

#endif
