/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A child of fork() has its parent's contexts in its memory, but they are the parent's alone. So in
 * the child each node becomes foreign: its calls return -EPIPE, and closing it frees what is the
 * child's own. The parent notices nothing. Runs on the thread that forks.
 *
 * Design notes
 * 1. Both processes map the same channels. The child replaces its mappings of them by empty memory
 *    at the same addresses, so whatever a call still writes or reads there is the child's own, and
 *    no call needs a check for this case.
 * 2. The child has none of the parent's threads, and its locks are as they were when it was made.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/pairs.h"

static struct {
	pthread_mutex_t lock;
	struct pmx_node *first; /* all of this process, linked */
	bool registered;
} nodes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
close_own(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void
leave_channel(struct pmx_context *ctx)
{
	uint64_t page = ctx->node->way->page(ctx->shm), begin = (uintptr_t)ctx->shm & ~(page - 1);
	/* not shm->bytes: another context's channel may have been in the same page */
	uint64_t bytes = ctx->mapped != 0 ? ctx->mapped : ctx->bytes;
	uint64_t len = ((uintptr_t)ctx->shm + bytes - begin + page - 1) & ~(page - 1);

	/* rather no memory there than the parent's */
	if (mmap((void *)(uintptr_t)begin, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		mprotect((void *)(uintptr_t)begin, len, PROT_NONE);
	else
		atomic_store(&ctx->shm->state, CHANNEL_DEAD);
	close_own(&ctx->event_fd);
	close_own(&ctx->doorbell);
	close_own(&ctx->alarm);
	ctx->engine_may_sleep = false;
	pairs_forget(ctx);
}

static void
in_child(void)
{
	for (struct pmx_node *n = nodes.first; n != NULL; n = n->next) {
		n->foreign = true;
		n->gone = true;
		pthread_mutex_init(&n->lock, NULL);
		pthread_mutex_init(&n->asking, NULL);
		for (struct pmx_context *ctx = n->contexts; ctx != NULL; ctx = ctx->next)
			leave_channel(ctx);
		if (n->watched) {
			n->watched = false;
			close_own(&n->wake);
			if (n->life != n->socket)
				close_own(&n->life);
		}
		if (n->embedded == NULL)
			close_own(&n->socket);
	}
	pthread_mutex_init(&nodes.lock, NULL);
}

static void
before(void)
{
	pthread_mutex_lock(&nodes.lock);
	for (const struct pmx_node *n = nodes.first; n != NULL; n = n->next) {
		if (n->way->forks != NULL && !n->foreign)
			n->way->forks();
	}
}

static void
in_parent(void)
{
	pthread_mutex_unlock(&nodes.lock);
}

void
fork_adds(struct pmx_node *node)
{
	pthread_mutex_lock(&nodes.lock);
	node->next = nodes.first;
	nodes.first = node;
	if (!nodes.registered)
		nodes.registered = pthread_atfork(before, in_parent, in_child) == 0;
	pthread_mutex_unlock(&nodes.lock);
}

void
fork_drops(const struct pmx_node *node)
{
	struct pmx_node **link = &nodes.first;

	pthread_mutex_lock(&nodes.lock);
	while (*link != NULL && *link != node)
		link = &(*link)->next;
	if (*link != NULL)
		*link = node->next;
	pthread_mutex_unlock(&nodes.lock);
}
