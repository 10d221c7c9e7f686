/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A secondary holds DPDK's lock of memory (rte_mcfg_mem_*) for reading while its EAL maps the
 * primary's memory, which takes tens of milliseconds. If it is killed then, nobody gives the lock
 * back, and whoever next takes it for writing waits for ever, and with him all who begin: the
 * primary as it ends, or as it maps an application's memory for a device. So the primary gives it
 * back for the dead.
 *
 * Design notes
 * 1. Secondaries begin one after the other: instance_turn_take(). While the primary has the turn,
 *    none of them is beginning, so a lock that stays held is a dead one's.
 * 2. DPDK does not tell how many hold the lock. So a thread takes it for writing, and as long as
 *    that thread has to wait, one more reader is taken off. If a writer died, taking off one
 *    reader frees the lock as well, by how DPDK counts.
 * 3. The descriptor of the EAL's configuration file stays open: closing one would give back the
 *    EAL's own lock of that file (fcntl), and with it the primary's claim to its prefix.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>

#include <rte_eal.h>
#include <rte_eal_memconfig.h>
#include <rte_log.h>

#include "base/clock.h"
#include "channel/instance.h"
#include "log/log.h"
#include "primary/memory_lock.h"

#define STUCK_MS 1000 /* other programs of DPDK, which take no turn, hold the lock for less */
#define AGAIN_MS 20
#define HELD_MAX RTE_MAX_LCORE /* each secondary has an lcore number of its own */

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* at a time */
static int turn = -1;
static atomic_bool asked; /* for a thread that has not yet begun to look */

static void *
take_for_writing(void *arg)
{
	rte_mcfg_mem_write_lock();
	rte_mcfg_mem_write_unlock();
	return arg;
}

/* Return whether that thread has ended, and wait so long for it. */
static bool
has_ended(pthread_t thread, unsigned ms)
{
	const struct timespec until = clock_moment(ms * INT64_C(1000));

	return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

/* Take off readers until the lock can be taken for writing. */
static bool
take_off_readers(void)
{
	unsigned held = 0;
	pthread_t writer;

	if (pthread_create(&writer, NULL, take_for_writing, NULL) != 0)
		return false;
	while (!has_ended(writer, held == 0 ? STUCK_MS : AGAIN_MS)) {
		if (held++ == HELD_MAX) {
			pthread_detach(writer);
			return false;
		}
		rte_mcfg_mem_read_unlock();
	}
	if (held > 0)
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"secondaries were killed while they held DPDK's lock of memory, %u times: "
			"it is free again",
			held);
	return true;
}

bool
memory_lock_free(void)
{
	char path[PATH_MAX];
	bool free = true;

	pthread_mutex_lock(&one);
	snprintf(path, sizeof(path), "%s/config", rte_eal_get_runtime_dir());
	if (turn < 0)
		turn = open(path, O_RDONLY | O_CLOEXEC);
	/* without such a file there are no secondaries */
	if (turn >= 0) {
		free = instance_turn_take(turn) && take_off_readers();
		flock(turn, LOCK_UN);
	}
	pthread_mutex_unlock(&one);
	return free;
}

static void *
memory_lock_look(void *arg)
{
	atomic_store(&asked, false);
	memory_lock_free();
	return arg;
}

void
memory_lock_free_soon(void)
{
	pthread_t thread;

	if (atomic_exchange(&asked, true))
		return;
	if (pthread_create(&thread, NULL, memory_lock_look, NULL) == 0)
		pthread_detach(thread);
	else
		atomic_store(&asked, false);
}
