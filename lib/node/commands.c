/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Commands of other threads to lanes, by a mailbox that the lane looks into once a turn.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "base/clock.h"
#include "engine/contexts.h"
#include "node/node.h"

/* A lane that shares its CPU with many others may get none for seconds. Whoever asked for the
 * command waits longer (ATTACH_PATIENCE_S); lanes that are paused already do not. */
#define PATIENCE_US       20000000
#define PAUSE_PATIENCE_US 2000000

/* Have the lane carry out a command, and wait for it. With the lock. */
static int
command_lane(struct node *n, struct command *cmd)
{
	struct engine *e = node_lane(n, cmd->ctx);
	const int64_t deadline = clock_deadline(
		cmd->op == COMMAND_PAUSE ? PAUSE_PATIENCE_US : PATIENCE_US);
	struct command *expected = NULL;
	int result = -ETIMEDOUT;

	atomic_store(&cmd->done, false);
	atomic_store(&e->command, cmd);
	/* an error means that the counter is full: the lane wakes all the same */
	eventfd_write(e->doorbell, 1);
	while (!atomic_load(&cmd->done) && !atomic_load(&e->stop) && clock_us() < deadline)
		usleep(100);
	if (atomic_load(&e->stop))
		result = -ESHUTDOWN;
	expected = cmd;
	/* withdraw it; if the lane has just taken it, wait, since it uses the caller's memory */
	if (!atomic_load(&cmd->done) &&
		!atomic_compare_exchange_strong(&e->command, &expected, NULL)) {
		while (!atomic_load(&cmd->done))
			usleep(100);
	}
	if (atomic_load(&cmd->done))
		result = cmd->result;
	return result;
}

int
node_command(struct node *n, struct command *cmd, bool wait)
{
	struct engine *e = node_lane(n, cmd->ctx);

	if (!wait) {
		e->now = rte_rdtsc();
		engine_command(e, cmd);
		return cmd->result;
	}
	pthread_mutex_lock(&n->command_lock);
	const int result = command_lane(n, cmd);

	pthread_mutex_unlock(&n->command_lock);
	return result;
}

void
node_resume(struct node *n)
{
	for (uint32_t lane = 0; lane < n->config.lanes; lane++)
		atomic_store(&n->engines[lane].paused, 0);
}

/* Pause all lanes, by a command to each. No other command comes between these: it would wait for a
 * lane that is paused already, and these for it. Each pause has a ticket of its own: a lane that
 * has not seen the end of the one before must not take the next one for it, since it could not take
 * that one's command. */
int
node_pause(struct node *n)
{
	static _Atomic uint32_t last;
	const uint32_t ticket = (atomic_fetch_add(&last, 1) & INT32_MAX) + 1;

	int result = 0;

	pthread_mutex_lock(&n->command_lock);
	for (uint32_t lane = 0; result == 0 && lane < n->config.lanes; lane++) {
		struct command cmd = {
			.op = COMMAND_PAUSE,
			.ctx = (uint16_t)lane,
			.ticket = ticket,
		};

		atomic_store(&n->engines[lane].paused, ticket);
		result = command_lane(n, &cmd);
	}
	pthread_mutex_unlock(&n->command_lock);
	if (result != 0)
		node_resume(n);
	return result;
}

int
node_map_memory(struct node *n, struct command *cmd, bool wait, int fd, uint64_t len,
	uint64_t client, uint16_t adopted)
{
	const struct channel *ch = &n->channels[cmd->ctx];

	/* the lane checks this too, but mapping in vain would delay other clients on this thread */
	if (len > ch->space.most - ch->space.bytes)
		return -ENOMEM;
	cmd->op = COMMAND_MEMORY;
	cmd->memory = memory_make(&n->mappings, fd, len, client, adopted,
		ch->thin != NULL ? MEMORY_OF_THIN : 0);
	if (cmd->memory == NULL)
		return errno == EINVAL ? -EINVAL : -ENOMEM;
	int result = node_command(n, cmd, wait);

	if (result < 0)
		memory_discard(&n->mappings, cmd->memory);
	return result;
}
