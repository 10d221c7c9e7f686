/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Design notes
 * 1. When its peer goes, net_memif writes into its port's flags that it is not connected, unmaps
 *    the regions that both shared, and frees what describes them. Its rx and tx read the flags
 *    first. So who enters after the flags are written touches nothing of that, and the first
 *    munmap() is where the driver has to wait for who entered before.
 * 2. Only the driver's munmap() waits; all others are the C library's.
 * 3. A lane's mark is a plain store. membarrier() is the fence that each lane would need else:
 *    after it, a lane is seen inside, or it sees what was written before.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "import.h"
#include "memif_lanes.h"

#define LOOK_NS 10000 /* between two looks at a lane */

static struct {
	pthread_mutex_t lock;
	struct memif_lanes *first;
	bool registered; /* for membarrier() */
	bool waits;      /* the driver's munmap() is ours */
} ports = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct memif_lanes *
memif_lanes_new(uint16_t count)
{
	const size_t bytes = sizeof(struct memif_lanes) + count * sizeof(struct memif_lane);
	struct memif_lanes *lanes = aligned_alloc(_Alignof(struct memif_lanes), bytes);

	if (lanes != NULL) {
		memset(lanes, 0, bytes);
		lanes->count = count;
	}
	return lanes;
}

/* ------------------------------------------------------------------ waiting */

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
memif_lanes_wait(const struct memif_lanes *lanes)
{
	make_marks_visible();
	lanes_wait(lanes);
}

/* Unmap memory of the driver when no lane is inside any more: note 1. */
static int
munmap_without_lanes(void *address, size_t length)
{
	pthread_mutex_lock(&ports.lock);
	make_marks_visible();
	for (const struct memif_lanes *lanes = ports.first; lanes != NULL; lanes = lanes->next)
		lanes_wait(lanes);
	pthread_mutex_unlock(&ports.lock);
	return munmap(address, length);
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
		ports.waits = import_replace("librte_net_memif", "munmap",
			(void *)munmap_without_lanes);
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
