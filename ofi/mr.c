/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory regions. Any memory can be sent and received, so registering it for that does nothing.
 * Memory that others may access is found by its key.
 */
#include <sched.h>
#include <search.h>
#include <stdlib.h>
#include <sys/random.h>

#include "provider.h"

#define REMOTE      (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define LOCAL       (FI_SEND | FI_RECV | FI_READ | FI_WRITE)
/* so often progress is made before a region is said to be busy: some 100 ms */
#define SETTLES_MAX 100000

/* Make progress until the transfers of others that use the region have ended: their initiators may
 * know already that they have. Return false if they did not end in SETTLES_MAX tries. */
static bool
mr_settle(struct mr *mr)
{
	const struct reporters *targets = &mr->domain->targets;

	for (unsigned tries = 0; mr->users != 0 && tries < SETTLES_MAX; tries++) {
		for (unsigned i = 0; i < targets->count; i++)
			endpoint_progress(targets->list[i]);
		if (mr->users != 0)
			sched_yield();
	}
	return mr->users == 0;
}

static int
mr_close(struct fid *fid)
{
	struct mr *mr = (struct mr *)fid;
	struct domain *d = mr->domain;

	domain_lock(d);
	bool busy = !mr_settle(mr);

	if (!busy && mr->access != 0)
		tdelete(mr, &d->regions, mr_by_key);
	domain_unlock(d);
	if (busy) {
		OFI_WARN(MR,
			"others still read or write a region that is to be closed: try again\n");
		return -FI_EBUSY;
	}
	if (mr->written != NULL)
		atomic_fetch_sub(&mr->written->users, 1);
	if (mr->read != NULL)
		atomic_fetch_sub(&mr->read->users, 1);
	atomic_fetch_sub(&d->users, 1);
	free(mr);
	return 0;
}

/* Bind a counter of others' transfers to the region. An endpoint may be bound too, but that changes
 * nothing: any endpoint of the domain gives access. */
static int
mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct mr *mr = (struct mr *)fid;
	struct cntr *c = (struct cntr *)other;

	if (other->fclass == FI_CLASS_EP)
		return flags == 0 ? 0 : -FI_EINVAL;
	if (other->fclass != FI_CLASS_CNTR || flags == 0 || flags & ~REMOTE ||
		c->domain != mr->domain || (flags & FI_REMOTE_WRITE && mr->written != NULL) ||
		(flags & FI_REMOTE_READ && mr->read != NULL))
		return -FI_EINVAL;
	domain_lock(mr->domain);
	c->of_regions = true;
	if (flags & FI_REMOTE_WRITE) {
		mr->written = c;
		atomic_fetch_add(&c->users, 1);
	}
	if (flags & FI_REMOTE_READ) {
		mr->read = c;
		atomic_fetch_add(&c->users, 1);
	}
	domain_unlock(mr->domain);
	return 0;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

/* Make the region known to others, by the key that was asked for or, if the domain chooses the
 * keys, by one that cannot be guessed. Return 0 or a negative error. */
static int
publish(struct mr *mr, uint64_t key)
{
	struct domain *d = mr->domain;

	mr->fid.key = key;
	if (d->own_keys && getrandom(&mr->fid.key, sizeof(key), 0) != sizeof(key))
		return -FI_EAGAIN;
	if (mr->fid.key == FI_KEY_NOTAVAIL)
		return -FI_EKEYREJECTED;
	domain_lock(d);
	struct mr *const *found = tsearch(mr, &d->regions, mr_by_key);

	domain_unlock(d);
	if (found == NULL)
		return -FI_ENOMEM;
	return *found == mr ? 0 : -FI_ENOKEY;
}

static int
mr_register_attr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
	struct fid_mr **out)
{
	if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count == 0 ||
		attr->iov_count > OFI_IOV_MAX || attr->access & ~(REMOTE | LOCAL) ||
		attr->iface != FI_HMEM_SYSTEM || flags != 0 ||
		(attr->access & REMOTE && attr->iov_count != 1))
		return -FI_EINVAL;
	struct mr *mr = calloc(1, sizeof(*mr));

	if (mr == NULL)
		return -FI_ENOMEM;
	mr->domain = (struct domain *)fid;
	mr->base = attr->mr_iov->iov_base;
	mr->len = attr->mr_iov->iov_len;
	mr->access = attr->access & REMOTE;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.key = FI_KEY_NOTAVAIL;
	int result = mr->access != 0 ? publish(mr, attr->requested_key) : 0;

	if (result != 0) {
		free(mr);
		return result;
	}
	atomic_fetch_add(&mr->domain->users, 1);
	*out = &mr->fid;
	return 0;
}

static int
mr_register_pieces(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
	uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = key,
		.context = context,
	};

	return mr_register_attr(fid, &attr, flags, mr);
}

static int
mr_register(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return mr_register_pieces(fid, &iov, 1, access, offset, key, flags, mr, context);
}

struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_register,
	.regv = mr_register_pieces,
	.regattr = mr_register_attr,
};
