/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread that notices the end of the primary, so that every call then returns -EPIPE. Not on the
 * data path.
 *
 * Design notes
 * 1. The thread sleeps on something that ends with the primary (a thin client's connection, a
 *    secondary's pidfd) and then writes into the channels what a primary that stops in good order
 *    writes there itself. So calls need no check of their own.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "client/signals.h"

/* Make the context's descriptor readable, for a thread that sleeps on it and for later ones. */
static void
wake(struct pmx_context *ctx)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (ctx->alarm < 0)
		ctx->alarm = eventfd(1, EFD_CLOEXEC);
	if (ctx->alarm >= 0)
		epoll_ctl(ctx->event_fd, EPOLL_CTL_ADD, ctx->alarm, &event);
}

static void
declare_dead(struct pmx_node *node)
{
	pthread_mutex_lock(&node->lock);
	node->gone = true;
	for (struct pmx_context *ctx = node->contexts; ctx != NULL; ctx = ctx->next) {
		if (ctx->adrift)
			continue;
		atomic_store(&ctx->shm->state, CHANNEL_DEAD);
		wake(ctx);
	}
	pthread_mutex_unlock(&node->lock);
}

static void *
primary_end_watch(void *arg)
{
	struct pmx_node *node = arg;
	struct pollfd p[2] = {{.fd = node->life, .events = node->life_events},
		{.fd = node->wake, .events = POLLIN}};

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents == 0)
		declare_dead(node);
	return NULL;
}

bool
life_is_over(const struct pmx_node *node)
{
	struct pollfd p = {.fd = node->life, .events = node->life_events};

	return node->gone || poll(&p, 1, 0) > 0;
}

int
life_begin(struct pmx_node *node, int fd, short events)
{
	node->life = fd;
	node->life_events = events;
	node->gone = false;
	node->wake = eventfd(0, EFD_CLOEXEC);
	if (node->wake < 0)
		return -errno;
	sigset_t before = signals_block();
	int error = pthread_create(&node->watcher, NULL, primary_end_watch, node);

	if (error == 0)
		pthread_setname_np(node->watcher, "pmx-life");
	signals_restore(before);
	node->watched = error == 0;
	if (error != 0)
		close(node->wake);
	return -error;
}

void
life_end(struct pmx_node *node)
{
	if (!node->watched)
		return;
	eventfd_write(node->wake, 1);
	pthread_join(node->watcher, NULL);
	close(node->wake);
	node->watched = false;
}
