/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Design notes
 * 1. When its peer goes, net_memif writes that its link is down, unmaps the regions that both
 *    shared, and frees what describes them. rx and tx read what describes a region before they look
 *    whether there is a peer. So the first munmap() is where the driver has to wait for the lanes
 *    that are inside, and no lane may enter from then on before the link is up.
 * 2. A lane notes the count of losses, then looks at the link: if that is lost in between, the
 *    counts differ at its next turn, and in this one it is waited for.
 * 3. Only the driver's munmap() waits; all others are the C library's.
 * 4. A lane's mark is a plain store. membarrier() is the fence that each lane would need else:
 *    after it, a lane is seen inside, or it sees what was written before.
 * 5. The driver connects on a socket that blocks, and the thread that connects again holds the
 *    interrupt thread: a server that accepts nobody would stop both. So what this thread calls on
 *    such a socket ends after a while.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "import.h"
#include "memif_lanes.h"

#define DRIVER     "librte_net_memif"
#define LOOK_NS    10000  /* between two looks at a lane */
#define CONNECT_US 200000 /* for a server that does not answer */

static struct {
	pthread_mutex_t lock;
	struct memif_lanes *first;
	bool registered; /* for membarrier() */
	bool waits;      /* the driver's calls are ours */
} ports = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct memif_lanes *
memif_lanes_new(uint16_t port, uint16_t count)
{
	const size_t bytes = sizeof(struct memif_lanes) + count * sizeof(struct memif_lane);
	struct memif_lanes *lanes = aligned_alloc(_Alignof(struct memif_lanes), bytes);

	if (lanes != NULL) {
		memset(lanes, 0, bytes);
		lanes->port = port;
		lanes->count = count;
	}
	return lanes;
}

/* ------------------------------------------------------------------ waiting */

bool
memif_lanes_up(const struct memif_lanes *lanes)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(lanes->port, &link) == 0 &&
		link.link_status == RTE_ETH_LINK_UP;
}

bool
memif_lane_sees_link(const struct memif_lanes *lanes, struct memif_lane *lane)
{
	const uint32_t downs = atomic_load(&lanes->downs);

	if (!memif_lanes_up(lanes))
		return false;
	atomic_thread_fence(memory_order_acquire);
	lane->downs = downs;
	return true;
}

static void
make_marks_visible(void)
{
	const struct timespec longer_than_a_store = {.tv_nsec = 1000000};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
		nanosleep(&longer_than_a_store, NULL);
}

static void
lanes_wait(const struct memif_lanes *lanes)
{
	const struct timespec look = {.tv_nsec = LOOK_NS};

	for (uint16_t i = 0; i < lanes->count; i++) {
		const uint32_t turns = atomic_load(&lanes->lane[i].turns);

		while (turns % 2 == 1 && atomic_load(&lanes->lane[i].turns) == turns)
			nanosleep(&look, NULL);
	}
}

void
memif_lanes_shut(struct memif_lanes *lanes)
{
	atomic_fetch_add(&lanes->downs, 1);
	make_marks_visible();
	lanes_wait(lanes);
}

/* Unmap memory of the driver when no lane is inside any more: note 1. */
static int
munmap_without_lanes(void *address, size_t length)
{
	pthread_mutex_lock(&ports.lock);
	for (struct memif_lanes *lanes = ports.first; lanes != NULL; lanes = lanes->next) {
		if (!memif_lanes_up(lanes))
			memif_lanes_shut(lanes);
	}
	pthread_mutex_unlock(&ports.lock);
	return munmap(address, length);
}

/* Connect a socket of the driver: note 5. */
static int
connect_for_a_while(int fd, const struct sockaddr *address, socklen_t length)
{
	const struct timeval limit = {.tv_usec = CONNECT_US};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return connect(fd, address, length);
}

/* ------------------------------------------------------------------ lists of lanes */

bool
memif_lanes_add(struct memif_lanes *lanes)
{
	bool waits;

	pthread_mutex_lock(&ports.lock);
	if (!ports.registered)
		ports.registered = syscall(SYS_membarrier,
					   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
	if (!ports.waits)
		ports.waits = import_replace(DRIVER, "munmap", (void *)munmap_without_lanes) &&
			import_replace(DRIVER, "connect", (void *)connect_for_a_while);
	atomic_store(&lanes->downs, 1); /* it is down until its peer comes */
	lanes->next = ports.first;
	ports.first = lanes;
	waits = ports.waits;
	pthread_mutex_unlock(&ports.lock);
	return waits;
}

void
memif_lanes_free(struct memif_lanes *lanes)
{
	struct memif_lanes **at;

	pthread_mutex_lock(&ports.lock);
	for (at = &ports.first; *at != NULL && *at != lanes; at = &(*at)->next)
		;
	if (*at != NULL)
		*at = lanes->next;
	pthread_mutex_unlock(&ports.lock);
	free(lanes);
}
