/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory regions for messages: any memory can be sent and received, so registering it costs
 * nothing and does nothing. Regions that others may access are not there yet.
 */
#include <stdlib.h>

#include "provider.h"

struct mr {
	struct fid_mr fid;
	struct domain *domain;
};

static int
mr_close(struct fid *fid)
{
	struct mr *mr = (struct mr *)fid;

	atomic_fetch_sub(&mr->domain->users, 1);
	free(mr);
	return 0;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static int
mr_register_attr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
	struct fid_mr **out)
{
	if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count == 0 ||
		attr->iov_count > OFI_IOV_MAX || attr->access & ~(FI_SEND | FI_RECV) ||
		attr->iface != FI_HMEM_SYSTEM || flags != 0)
		return -FI_EINVAL;
	struct mr *mr = calloc(1, sizeof(*mr));

	if (mr == NULL)
		return -FI_ENOMEM;
	mr->domain = (struct domain *)fid;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.key = FI_KEY_NOTAVAIL;
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
