/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues. Reading one that has not as much as is asked for makes progress on the
 * endpoints that report to it.
 *
 * Design note
 * 1. The ring grows when it is full, so that no completion is ever lost or held back. Successes and
 *    errors are in one ring, in the order in which operations ended.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

#define RING_FIRST 256
#define SPIN_NS    50000 /* a waiting reader polls for so long before it sleeps */
#define SLEEP_MS   100   /* longest sleep without a look */

/* ------------------------------------------------------------------ progress */

int
cq_watch(struct cq *cq, struct endpoint *ep)
{
	struct epoll_event event = {.events = EPOLLIN};
	int result = reporters_add(&cq->endpoints, ep);

	if (result == 0 && cq->wait_fd >= 0 &&
		epoll_ctl(cq->wait_fd, EPOLL_CTL_ADD, pmx_get_fd(ep->ctx), &event) != 0 &&
		errno != EEXIST)
		result = -errno;
	return result;
}

void
cq_unwatch(struct cq *cq, struct endpoint *ep)
{
	reporters_remove(&cq->endpoints, ep);
	if (cq->wait_fd >= 0 && ep->ctx != NULL)
		epoll_ctl(cq->wait_fd, EPOLL_CTL_DEL, pmx_get_fd(ep->ctx), NULL);
}

static void
cq_progress(struct cq *cq)
{
	for (unsigned i = 0; i < cq->endpoints.count; i++)
		endpoint_progress(cq->endpoints.list[i]);
}

bool
cq_has_some(struct cq *cq)
{
	if (cq->tail == cq->head)
		cq_progress(cq);
	return cq->tail != cq->head;
}

/* ------------------------------------------------------------------ reading */

/* Take up to `count` successes, and leave an error for cq_read_error(). Return how many were taken;
 * -FI_EAGAIN: there are none; -FI_EAVAIL: an error is the first. */
static ssize_t
cq_take(struct cq *cq, uint8_t *to, size_t count, fi_addr_t *sources)
{
	size_t n = 0;

	for (; n < count && cq->tail != cq->head; n++) {
		const struct ofi_completion *c = &cq->ring[cq->tail & cq->mask];

		if (unlikely(c->err != 0))
			return n != 0 ? (ssize_t)n : -FI_EAVAIL;
		/* each format is the beginning of the next one */
		memcpy(to, &c->entry, cq->entry_bytes);
		to += cq->entry_bytes;
		if (sources != NULL)
			sources[n] = c->source;
		cq->tail++;
	}
	return n != 0 || count == 0 ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t
cq_read_from(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources)
{
	struct cq *cq = (struct cq *)fid;

	domain_lock(cq->domain);
	/* who asks for nothing asks for progress */
	if (cq->head - cq->tail < count || count == 0)
		cq_progress(cq);
	ssize_t n = cq_take(cq, buf, count, sources);

	domain_unlock(cq->domain);
	return n;
}

static ssize_t
cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_read_from(fid, buf, count, NULL);
}

static ssize_t
cq_read_error(struct fid_cq *fid, struct fi_cq_err_entry *e, uint64_t flags)
{
	struct cq *cq = (struct cq *)fid;
	ssize_t result = -FI_EAGAIN;

	(void)flags;
	domain_lock(cq->domain);
	const struct ofi_completion *c = &cq->ring[cq->tail & cq->mask];

	if (cq->tail != cq->head && c->err != 0) {
		e->op_context = c->entry.op_context;
		e->flags = c->entry.flags;
		e->len = c->entry.len;
		e->buf = c->entry.buf;
		e->data = c->entry.data;
		e->tag = c->entry.tag;
		e->olen = c->olen;
		e->err = c->err;
		e->prov_errno = c->prov_errno;
		e->err_data_size = 0;
		cq->tail++;
		result = 1;
	}
	domain_unlock(cq->domain);
	return result;
}

static const char *
cq_strerror(struct fid_cq *fid, int error, const void *data, char *buf, size_t len)
{
	(void)fid;
	(void)data;
	return error_text(error, buf, len);
}

/* ------------------------------------------------------------------ waiting */

/* Arm the queue's descriptor: it becomes readable when there is something to look at. Return false
 * if there is something already, or if something waits of which no descriptor tells. */
static bool
arm(struct cq *cq)
{
	for (unsigned i = 0; i < cq->endpoints.count; i++) {
		if (!endpoint_arm(cq->endpoints.list[i]))
			return false;
	}
	return true;
}

int
cq_trywait(struct cq *cq)
{
	eventfd_t unused;

	domain_lock(cq->domain);
	if (cq->ready) { /* what it told of was read, or is in the queue still */
		cq->ready = false;
		eventfd_read(cq->ready_fd, &unused);
	}
	/* an embedded node moves only while somebody reads */
	bool quiet = !cq_has_some(cq) && cq->wait_fd >= 0 && !cq->domain->embedded && arm(cq);

	domain_unlock(cq->domain);
	return quiet ? 0 : -FI_EAGAIN;
}

/* Sleep until something may have ended, for at most left_ns (-1: no limit), and never longer than
 * SLEEP_MS. Return false if somebody called fi_cq_signal(). */
static bool
cq_sleep(struct cq *cq, int64_t left_ns)
{
	struct pollfd p = {.fd = cq->wait_fd, .events = POLLIN};
	int64_t ms = left_ns < 0 || left_ns > SLEEP_MS * 1000000ll ? SLEEP_MS : left_ns / 1000000;
	uint64_t signals;

	if (cq->wait_fd < 0 || cq->domain->embedded || ms == 0 || cq_trywait(cq) != 0) {
		sched_yield();
	} else {
		/* an interrupted poll is a look in vain */
		poll(&p, 1, (int)ms);
	}
	return cq->signal_fd < 0 || read(cq->signal_fd, &signals, sizeof(signals)) < 0;
}

static ssize_t
cq_wait_from(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources, const void *cond,
	int timeout_ms)
{
	struct cq *cq = (struct cq *)fid;
	int64_t began = now_ns(), limit = timeout_ms < 0 ? -1 : timeout_ms * 1000000ll, passed;

	(void)cond; /* a threshold is a hint */
	for (;;) {
		ssize_t n = cq_read_from(fid, buf, count, sources);

		if (n != -FI_EAGAIN)
			return n;
		passed = now_ns() - began;
		if (limit >= 0 && passed >= limit)
			return -FI_EAGAIN;
		if (passed < SPIN_NS)
			continue;
		if (!cq_sleep(cq, limit < 0 ? -1 : limit - passed))
			return -FI_EAGAIN;
	}
}

static ssize_t
cq_wait(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout_ms)
{
	return cq_wait_from(fid, buf, count, NULL, cond, timeout_ms);
}

static int
cq_signal(struct fid_cq *fid)
{
	struct cq *cq = (struct cq *)fid;

	if (cq->signal_fd < 0)
		return -FI_EINVAL;
	/* an error means that the counter is full: it is readable all the same */
	eventfd_write(cq->signal_fd, 1);
	return 0;
}

/* ------------------------------------------------------------------ life */

static int
cq_control(struct fid *fid, int command, void *arg)
{
	const struct cq *cq = (const struct cq *)fid;

	return wait_control(cq->wait, cq->wait_fd, command, arg);
}

static void
cq_free(struct cq *cq)
{
	if (cq->wait_fd >= 0)
		close(cq->wait_fd);
	if (cq->signal_fd >= 0)
		close(cq->signal_fd);
	if (cq->ready_fd >= 0)
		close(cq->ready_fd);
	free(cq->endpoints.list);
	free(cq->ring);
	free(cq);
}

static int
cq_close(struct fid *fid)
{
	struct cq *cq = (struct cq *)fid;

	if (atomic_load(&cq->users) != 0)
		return -FI_EBUSY;
	atomic_fetch_sub(&cq->domain->users, 1);
	cq_free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = none_bind,
	.control = cq_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_read_from,
	.readerr = cq_read_error,
	.sread = cq_wait,
	.sreadfrom = cq_wait_from,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

/* Make the descriptors for waiting. Return 0 or a negative error. */
static int
open_wait(struct cq *cq)
{
	struct epoll_event event = {.events = EPOLLIN};

	cq->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	cq->signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (cq->wait_fd < 0 || cq->signal_fd < 0 ||
		epoll_ctl(cq->wait_fd, EPOLL_CTL_ADD, cq->signal_fd, &event) != 0)
		return -errno;
	if (!cq->domain->automatic.on)
		return 0;
	cq->ready_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (cq->ready_fd < 0 || epoll_ctl(cq->wait_fd, EPOLL_CTL_ADD, cq->ready_fd, &event) != 0)
		return -errno;
	return 0;
}

int
cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	static const size_t bytes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_tagged_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	if (attr == NULL || attr->format > FI_CQ_FORMAT_TAGGED || attr->wait_set != NULL)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
		attr->wait_obj != FI_WAIT_FD && attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	struct cq *cq = calloc(1, sizeof(*cq));

	if (cq == NULL)
		return -FI_ENOMEM;
	cq->wait_fd = cq->signal_fd = cq->ready_fd = -1;
	cq->domain = (struct domain *)domain;
	cq->wait = attr->wait_obj;
	cq->ring = malloc(RING_FIRST * sizeof(*cq->ring));
	int result = cq->ring == NULL                                  ? -FI_ENOMEM
		: cq->wait == FI_WAIT_FD || cq->wait == FI_WAIT_UNSPEC ? open_wait(cq)
								       : 0;

	if (result != 0) {
		cq_free(cq);
		return result;
	}
	cq->mask = RING_FIRST - 1;
	cq->entry_bytes = bytes[attr->format];
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_TAGGED;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	atomic_fetch_add(&cq->domain->users, 1);
	*out = &cq->fid;
	return 0;
}

int
fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		int result = fids[i]->fclass == FI_CLASS_CQ ? cq_trywait((struct cq *)fids[i]) : 0;

		if (result != 0)
			return result;
	}
	return 0;
}
