/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event queues. The provider has no events of its own: address vectors and domains end all within
 * their calls. So a queue holds what its user writes.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

struct eq_event {
	struct eq_event *next;
	uint32_t kind;
	size_t len;
	uint8_t bytes[];
};

struct eq {
	struct fid_eq fid;
	struct fabric *fabric;
	pthread_mutex_t lock;
	struct eq_event *head, *tail;
	enum fi_wait_obj wait;
	int fd; /* eventfd that is readable while there are events, or -1 */
};

/* Take the first event, or with FI_PEEK only look at it. Return the number of its bytes;
 * -FI_EAGAIN: there is none; -FI_ETOOSMALL: it has more bytes than `len`. */
static ssize_t
eq_take(struct eq *eq, uint32_t *kind, void *buf, size_t len, uint64_t flags)
{
	struct eq_event *e = eq->head;
	uint64_t unused;

	if (e == NULL)
		return -FI_EAGAIN;
	if (len < e->len)
		return -FI_ETOOSMALL;
	*kind = e->kind;
	memcpy(buf, e->bytes, e->len);
	ssize_t n = (ssize_t)e->len;

	if (flags & FI_PEEK)
		return n;
	eq->head = e->next;
	free(e);
	if (eq->head == NULL && eq->fd >= 0 && read(eq->fd, &unused, sizeof(unused)) < 0)
		return n; /* it was not readable: nothing to take back */
	return n;
}

static ssize_t
eq_read(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, uint64_t flags)
{
	struct eq *eq = (struct eq *)fid;

	pthread_mutex_lock(&eq->lock);
	ssize_t n = eq_take(eq, kind, buf, len, flags);

	pthread_mutex_unlock(&eq->lock);
	return n;
}

static ssize_t
eq_read_error(struct fid_eq *fid, struct fi_eq_err_entry *e, uint64_t flags)
{
	(void)fid;
	(void)e;
	(void)flags;
	return -FI_EAGAIN; /* there are no errors */
}

static ssize_t
eq_write(struct fid_eq *fid, uint32_t kind, const void *buf, size_t len, uint64_t flags)
{
	struct eq *eq = (struct eq *)fid;
	struct eq_event *e = flags == 0 ? malloc(sizeof(*e) + len) : NULL;

	if (e == NULL)
		return flags == 0 ? -FI_ENOMEM : -FI_EINVAL;
	e->next = NULL;
	e->kind = kind;
	e->len = len;
	memcpy(e->bytes, buf, len);
	pthread_mutex_lock(&eq->lock);
	if (eq->head == NULL)
		eq->head = e;
	else
		eq->tail->next = e;
	eq->tail = e;
	if (eq->fd >= 0)
		eventfd_write(eq->fd, 1);
	pthread_mutex_unlock(&eq->lock);
	return (ssize_t)len;
}

static ssize_t
eq_wait(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, int timeout_ms, uint64_t flags)
{
	const struct eq *eq = (const struct eq *)fid;
	struct pollfd p = {.fd = eq->fd, .events = POLLIN};

	if (eq->fd < 0)
		return -FI_EINVAL;
	ssize_t n = eq_read(fid, kind, buf, len, flags);

	if (n != -FI_EAGAIN)
		return n;
	if (poll(&p, 1, timeout_ms) < 0)
		return -errno;
	return eq_read(fid, kind, buf, len, flags);
}

static const char *
eq_strerror(struct fid_eq *fid, int error, const void *data, char *buf, size_t len)
{
	(void)fid;
	(void)data;
	return error_text(error, buf, len);
}

static int
eq_control(struct fid *fid, int command, void *arg)
{
	const struct eq *eq = (const struct eq *)fid;

	return wait_control(eq->wait, eq->fd, command, arg);
}

static int
eq_close(struct fid *fid)
{
	struct eq *eq = (struct eq *)fid;

	for (struct eq_event *e = eq->head, *next; e != NULL; e = next) {
		next = e->next;
		free(e);
	}
	if (eq->fd >= 0)
		close(eq->fd);
	pthread_mutex_destroy(&eq->lock);
	atomic_fetch_sub(&eq->fabric->users, 1);
	free(eq);
	return 0;
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = none_bind,
	.control = eq_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_read_error,
	.write = eq_write,
	.sread = eq_wait,
	.strerror = eq_strerror,
};

int
eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	if (attr == NULL || attr->wait_set != NULL)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
		attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	struct eq *eq = calloc(1, sizeof(*eq));

	if (eq == NULL)
		return -FI_ENOMEM;
	eq->wait = attr->wait_obj;
	eq->fd = eq->wait != FI_WAIT_NONE ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	if (eq->wait != FI_WAIT_NONE && eq->fd < 0) {
		free(eq);
		return -errno;
	}
	pthread_mutex_init(&eq->lock, NULL);
	eq->fabric = (struct fabric *)fabric;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	atomic_fetch_add(&eq->fabric->users, 1);
	*out = &eq->fid;
	return 0;
}
