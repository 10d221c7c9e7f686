/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Design notes
 * 1. net_memif frees what its interrupt callbacks use when its port closes, and does not wait for
 *    the thread that may be running one, since the other end closes too. rte_eal_cleanup()
 *    unmaps all memory under that thread. So the thread is kept in a callback of ours, where it
 *    touches nothing that is freed. An alarm's would not do: rte_eal_cleanup() waits until no
 *    alarm's callback runs.
 * 2. Other PMDs' ports close with interrupts, since they may need them: net_iavf waits for answers.
 * 3. Of events that it had fetched before, it looks up the callback by the descriptor when it goes
 *    on, and finds none where the port is closed.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_intr_instance_alloc */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_log.h>

#include "base/clock.h"
#include "interrupts.h"

#define PATIENCE_S 2 /* for a callback that is running */
#define MEMIF_LOG  "pmd.net.memif"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int call; /* eventfd that calls the thread here; -1: none yet */
	unsigned holders;
	bool kept; /* the thread is here */
} interrupts = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.call = -1,
};

static void
keep(void *arg)
{
	eventfd_t unused;

	(void)arg;
	pthread_mutex_lock(&interrupts.lock);
	eventfd_read(interrupts.call, &unused);
	interrupts.kept = true;
	pthread_cond_broadcast(&interrupts.changed);
	while (interrupts.holders > 0)
		pthread_cond_wait(&interrupts.changed, &interrupts.lock);
	interrupts.kept = false;
	pthread_cond_broadcast(&interrupts.changed);
	pthread_mutex_unlock(&interrupts.lock);
}

/* Make the interrupt that calls the thread here. Return whether there is one. */
static bool
can_call(void)
{
	if (interrupts.call >= 0)
		return true;
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (handle != NULL && fd >= 0 && rte_intr_fd_set(handle, fd) == 0 &&
		rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
		rte_intr_callback_register(handle, keep, NULL) == 0) {
		interrupts.call = fd; /* and the handle, for good */
		return true;
	}
	rte_intr_instance_free(handle);
	if (fd >= 0)
		close(fd);
	return false;
}

/* Wait until the interrupt thread runs no callback, and keep it so until as many calls of
 * interrupts_release(). Return whether it is kept: it is not if a callback runs for too long. */
static bool
interrupts_hold(void)
{
	const struct timespec until = clock_moment(PATIENCE_S * 1000000);
	int result = 0;
	bool kept;

	pthread_mutex_lock(&interrupts.lock);
	if (interrupts.holders++ == 0)
		result = can_call() ? eventfd_write(interrupts.call, 1) : -1;
	while (result == 0 && !interrupts.kept)
		result = pthread_cond_clockwait(&interrupts.changed, &interrupts.lock,
			CLOCK_MONOTONIC, &until);
	kept = interrupts.kept;
	pthread_mutex_unlock(&interrupts.lock);
	return kept;
}

static void
interrupts_release(void)
{
	pthread_mutex_lock(&interrupts.lock);
	if (--interrupts.holders == 0)
		pthread_cond_broadcast(&interrupts.changed);
	while (interrupts.holders == 0 && interrupts.kept)
		pthread_cond_wait(&interrupts.changed, &interrupts.lock);
	pthread_mutex_unlock(&interrupts.lock);
}

void
interrupts_close_port(uint16_t port, bool started)
{
	struct rte_eth_dev_info info;
	const bool holds = rte_eth_dev_info_get(port, &info) == 0 &&
		strcmp(info.driver_name, "net_memif") == 0;

	if (holds)
		interrupts_hold();
	if (started)
		rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	if (holds)
		interrupts_release();
}

int
interrupts_restart_port(uint16_t port, bool started)
{
	const int type = rte_log_register(MEMIF_LOG), level = rte_log_get_level((uint32_t)type);
	int e = -EAGAIN;

	if (interrupts_hold()) {
		rte_log_set_level((uint32_t)type, RTE_LOG_CRIT);
		if (started)
			rte_eth_dev_stop(port);
		e = rte_eth_dev_start(port);
		rte_log_set_level((uint32_t)type, (uint32_t)level);
	}
	interrupts_release();
	return e;
}

void
interrupts_end_eal(void)
{
	interrupts_hold();
	rte_eal_cleanup();
}
