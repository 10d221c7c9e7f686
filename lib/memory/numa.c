/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See numa.h.
 */
#include <sched.h>

#include <numa.h>
#include <numaif.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "memory/numa.h"

static bool
has_several(void)
{
	return numa_available() >= 0 && numa_max_node() > 0;
}

int
numa_of_lane(unsigned lane)
{
	const int eal = (int)rte_socket_id();
	unsigned lcore = UINT32_MAX;
	rte_cpuset_t cpus;
	int numa = SOCKET_ID_ANY;

	if (!has_several())
		return eal;
	for (unsigned i = 0; i < lane && lcore != RTE_MAX_LCORE; i++)
		lcore = rte_get_next_lcore(lcore, 1, 0);
	if (lcore == RTE_MAX_LCORE || (lane == 0 && sched_getaffinity(0, sizeof(cpus), &cpus) != 0))
		return eal;
	if (lane != 0)
		cpus = rte_lcore_cpuset(lcore);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		const int of = numa_node_of_cpu(cpu);

		if (of < 0 || (numa >= 0 && of != numa))
			return eal;
		numa = of;
	}
	return numa >= 0 ? numa : eal;
}

int
numa_of_port(const char *port, int otherwise)
{
	uint16_t number;

	if (!has_several() || rte_eth_dev_get_port_by_name(port, &number) != 0)
		return otherwise;
	const int numa = rte_eth_dev_socket_id(number);

	return numa >= 0 && numa <= numa_max_node() ? numa : otherwise;
}

void
numa_prefer(int numa, struct numa_policy *before)
{
	before->mode = -1;
	if (!has_several() || numa < 0 ||
		get_mempolicy(&before->mode, before->nodes, 8 * sizeof(before->nodes), NULL, 0) !=
			0)
		return;
	numa_set_preferred(numa);
}

void
numa_prefer_as(const struct numa_policy *before)
{
	if (before->mode >= 0)
		set_mempolicy(before->mode, before->nodes, 8 * sizeof(before->nodes));
}

/* Say in the log that a NUMA node has no memory left for `what`. Return whether there is another
 * node to take it from. */
static bool
is_elsewhere(const char *what, int numa)
{
	if (!has_several())
		return false;
	RTE_LOG(WARNING, USER1,
		"pmx: NUMA node %d has no memory left for %s, which is taken from another node and "
		"is slower there: reserve more hugepages (dpdk-config/hugepages.sh), or give the "
		"EAL more of that node (--socket-mem)\n",
		numa, what);
	return true;
}

void *
numa_zmalloc(const char *name, size_t bytes, unsigned align, int numa)
{
	void *at = rte_zmalloc_socket(name, bytes, align, numa);

	if (at == NULL && is_elsewhere(name, numa))
		at = rte_zmalloc_socket(name, bytes, align, SOCKET_ID_ANY);
	return at;
}

const struct rte_memzone *
numa_memzone(const char *name, size_t bytes, unsigned align, int numa)
{
	const struct rte_memzone *zone = rte_memzone_reserve_aligned(name, bytes, numa, 0, align);

	if (zone == NULL && is_elsewhere(name, numa))
		zone = rte_memzone_reserve_aligned(name, bytes, SOCKET_ID_ANY, 0, align);
	return zone;
}

struct rte_ring *
numa_ring(const char *name, unsigned entries, unsigned flags, int numa)
{
	struct rte_ring *ring = rte_ring_create(name, entries, numa, flags);

	if (ring == NULL && is_elsewhere(name, numa))
		ring = rte_ring_create(name, entries, SOCKET_ID_ANY, flags);
	return ring;
}

struct rte_mempool *
numa_pool(const char *name, unsigned count, unsigned cache, uint16_t priv, uint16_t room, int numa)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, count, cache, priv, room, numa);

	if (pool == NULL && is_elsewhere(name, numa))
		pool = rte_pktmbuf_pool_create(name, count, cache, priv, room, SOCKET_ID_ANY);
	return pool;
}
