/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ground on which the provider's files stand: its identity, the defaults of objects'
 * operations, and what every call on a domain ends with.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "provider.h"

/* fi_prov_ini() adds the functions by which libfabric enters. */
struct fi_provider ofi_provider = {
	.version = OFI_VERSION,
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "pmx",
};

int
none_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid;
	(void)other;
	(void)flags;
	return -FI_ENOSYS;
}

int
none_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	(void)command;
	(void)arg;
	return -FI_ENOSYS;
}

int
none_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid;
	(void)name;
	(void)flags;
	(void)ops;
	(void)context;
	return -FI_ENOSYS;
}

const char *
error_text(int error, char *buf, size_t len)
{
	const char *text = pmx_strerror(error);

	if (buf != NULL && len > 0)
		snprintf(buf, len, "%s", text);
	return text;
}

int
wait_control(enum fi_wait_obj wait, int fd, int command, void *arg)
{
	switch (command) {
	case FI_GETWAIT:
		if (wait != FI_WAIT_FD)
			return -FI_ENODATA;
		*(int *)arg = fd;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = wait;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

/* ------------------------------------------------------------------ domain */

/* Run the engine, since what was posted has to be sent at once: the process may compute for long
 * before it calls again. The first FEW posts since the last progress each run it. In a longer burst
 * it gets at most half of the time, so that it sends several messages together; the rest is sent by
 * the call that waits for them. */
void
domain_run(struct domain *d)
{
	enum { FEW = 8 };
	const int64_t begin = now_ns();

	if (d->engine.posts++ >= FEW && begin - d->engine.at_ns < d->engine.ran_ns)
		return;
	pmx_node_poll(d->node);
	d->engine.at_ns = now_ns();
	d->engine.ran_ns = d->engine.at_ns - begin;
}

void
domain_called(struct domain *d)
{
	d->automatic.called = true;
	if (!d->automatic.sleeps)
		return;
	d->automatic.sleeps = false;
	eventfd_write(d->automatic.wake_fd, 1);
}

int
reporters_add(struct reporters *r, struct endpoint *ep)
{
	for (unsigned i = 0; i < r->count; i++) {
		if (r->list[i] == ep)
			return 0;
	}
	struct endpoint **list = realloc(r->list, (r->count + 1) * sizeof(*list));

	if (list == NULL)
		return -FI_ENOMEM;
	r->list = list;
	r->list[r->count++] = ep;
	return 0;
}

void
reporters_remove(struct reporters *r, const struct endpoint *ep)
{
	for (unsigned i = 0; i < r->count; i++) {
		if (r->list[i] != ep)
			continue;
		r->list[i] = r->list[--r->count];
		return;
	}
}
