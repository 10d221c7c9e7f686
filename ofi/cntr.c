/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counters of operations that ended. Reading one makes progress on the endpoints that report to it.
 */
#include <sched.h>
#include <stdlib.h>

#include "provider.h"

uint64_t
cntr_total(struct cntr *c)
{
	for (unsigned i = 0; i < c->endpoints.count; i++)
		endpoint_progress(c->endpoints.list[i]);
	for (unsigned i = 0; c->of_regions && i < c->domain->targets.count; i++)
		endpoint_progress(c->domain->targets.list[i]);
	return atomic_load(&c->value) + atomic_load(&c->errors);
}

static void
cntr_progress(struct cntr *c)
{
	domain_lock(c->domain);
	cntr_total(c);
	domain_unlock(c->domain);
}

static uint64_t
cntr_read(struct fid_cntr *fid)
{
	struct cntr *c = (struct cntr *)fid;

	cntr_progress(c);
	return atomic_load(&c->value);
}

static uint64_t
cntr_read_errors(struct fid_cntr *fid)
{
	struct cntr *c = (struct cntr *)fid;

	cntr_progress(c);
	return atomic_load(&c->errors);
}

static int
cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&((struct cntr *)fid)->value, value);
	return 0;
}

static int
cntr_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&((struct cntr *)fid)->value, value);
	return 0;
}

static int
cntr_add_errors(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&((struct cntr *)fid)->errors, value);
	return 0;
}

static int
cntr_set_errors(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&((struct cntr *)fid)->errors, value);
	return 0;
}

static int
cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
	struct cntr *c = (struct cntr *)fid;
	uint64_t errors = atomic_load(&c->errors);
	int64_t end = timeout_ms < 0 ? INT64_MAX : now_ns() + timeout_ms * 1000000ll;

	while (cntr_read(fid) < threshold) {
		if (atomic_load(&c->errors) != errors)
			return -FI_EAVAIL;
		if (now_ns() >= end)
			return -FI_ETIMEDOUT;
		if (c->endpoints.count == 0) /* none whose polls yield */
			sched_yield();
	}
	return 0;
}

static int
cntr_close(struct fid *fid)
{
	struct cntr *c = (struct cntr *)fid;

	if (atomic_load(&c->users) != 0)
		return -FI_EBUSY;
	atomic_fetch_sub(&c->domain->users, 1);
	free(c->endpoints.list);
	free(c);
	return 0;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_read_errors,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_add_errors,
	.seterr = cntr_set_errors,
};

int
cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
	void *context)
{
	if (attr == NULL || attr->events != FI_CNTR_EVENTS_COMP || attr->wait_set != NULL ||
		attr->flags != 0)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
		attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	struct cntr *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -FI_ENOMEM;
	c->domain = (struct domain *)domain;
	c->fid.fid.fclass = FI_CLASS_CNTR;
	c->fid.fid.context = context;
	c->fid.fid.ops = &cntr_fid_ops;
	c->fid.ops = &cntr_ops;
	atomic_fetch_add(&c->domain->users, 1);
	*out = &c->fid;
	return 0;
}
