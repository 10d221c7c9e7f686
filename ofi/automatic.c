/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Automatic progress (FI_PROGRESS_AUTO): a thread of the domain does what is to be done while the
 * application calls nothing: sends what waited, copies for others, ends operations.
 *
 * Design notes
 * 1. While the application calls, the thread looks once in a LOOK_MS and keeps out of its way. When
 *    it has called nothing for so long, the thread arms the endpoints' descriptors and sleeps on
 *    them. The next call wakes it: that may have disarmed them (pmx_after_select), or left
 *    something that waits for room, of which nothing tells.
 * 2. What the thread ends is in the queues before anybody who sleeps on one is woken, by a
 *    descriptor of the queue's own: those of the contexts say nothing any more.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

#define LOOK_MS  1    /* between looks while the application makes progress */
#define SLEEP_MS 1000 /* most at once: peers that are waited for are looked after (life.c) */

static void
wake_reader(struct cq *cq)
{
	if (cq == NULL || cq->ready_fd < 0 || cq->ready || cq->head == cq->tail)
		return;
	cq->ready = true;
	eventfd_write(cq->ready_fd, 1);
}

/* Take one turn: make progress on all enabled endpoints, and arm them if the application has not
 * called since the last turn. Write the descriptors to sleep on behind fds[0], and the number of
 * all to *count. Return how long to sleep at most, in ms. */
static int
automatic_turn(struct domain *d, struct pollfd *fds, unsigned *count)
{
	bool quiet = !d->automatic.called;

	d->automatic.called = false;
	for (unsigned i = 0; i < d->enabled.count; i++) {
		struct endpoint *ep = d->enabled.list[i];

		endpoint_progress(ep);
		wake_reader(ep->tx_cq);
		wake_reader(ep->rx_cq);
	}
	for (unsigned i = 0; i < d->enabled.count && quiet; i++)
		quiet = endpoint_arm(d->enabled.list[i]);
	d->automatic.sleeps = quiet;
	*count = 1;
	for (unsigned i = 0; i < d->enabled.count && quiet; i++)
		fds[(*count)++] = (struct pollfd){
			.fd = pmx_get_fd(d->enabled.list[i]->ctx),
			.events = POLLIN,
		};
	return quiet ? SLEEP_MS : LOOK_MS;
}

static void *
automatic_run(void *domain)
{
	struct domain *d = domain;
	struct pollfd *fds = d->automatic.fds;
	eventfd_t unused;
	unsigned count;

	fds[0] = (struct pollfd){.fd = d->automatic.wake_fd, .events = POLLIN};
	for (;;) {
		/* not by domain_unlock(), which is for calls of the application */
		pthread_mutex_lock(&d->lock);
		bool ends = d->automatic.ends;
		int ms = ends ? 0 : automatic_turn(d, fds, &count);

		pthread_mutex_unlock(&d->lock);
		if (ends)
			return NULL;
		poll(fds, count, ms);
		if (fds[0].revents != 0)
			eventfd_read(d->automatic.wake_fd, &unused);
	}
}

int
automatic_begin(struct domain *d)
{
	sigset_t all, before;
	int result;

	d->automatic.on = true;
	d->automatic.fds = calloc(OFI_CONTEXTS + 1, sizeof(*d->automatic.fds));
	d->automatic.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (d->automatic.fds == NULL || d->automatic.wake_fd < 0)
		result = ENOMEM;
	else {
		/* signals are the application's threads' */
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &before);
		result = pthread_create(&d->automatic.thread, NULL, automatic_run, d);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (result == 0)
		return 0;
	if (d->automatic.wake_fd >= 0)
		close(d->automatic.wake_fd);
	free(d->automatic.fds);
	d->automatic.on = false;
	return -result;
}

void
automatic_end(struct domain *d)
{
	if (!d->automatic.on)
		return;
	domain_lock(d);
	d->automatic.ends = true;
	domain_unlock(d); /* ... wakes it */
	pthread_join(d->automatic.thread, NULL);
	close(d->automatic.wake_fd);
	free(d->automatic.fds);
	d->automatic.on = false;
}
