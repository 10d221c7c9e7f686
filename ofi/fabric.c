/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where libfabric enters the provider; fabrics and domains.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

/* ------------------------------------------------------------------ domain */

static int
domain_close(struct fid *fid)
{
	struct domain *d = (struct domain *)fid;

	if (atomic_load(&d->users) != 0)
		return -FI_EBUSY;
	automatic_end(d);
	pmx_node_close(d->node);
	free(d->targets.list);
	free(d->enabled.list);
	pthread_mutex_destroy(&d->lock);
	atomic_fetch_sub(&d->fabric->users, 1);
	free(d);
	return 0;
}

/* Accept an event queue, and refuse anything else. The queue gets no events of a domain, since all
 * that is done with a domain ends within its call. */
static int
domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static int
no_scalable_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
	void *context)
{
	(void)domain;
	(void)info;
	(void)ep;
	(void)context;
	return -FI_ENOSYS;
}

static int
no_shared_tx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
	void *context)
{
	(void)domain;
	(void)attr;
	(void)stx;
	(void)context;
	return -FI_ENOSYS;
}

static int
no_shared_rx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
	(void)domain;
	(void)attr;
	(void)ep;
	(void)context;
	return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = av_open,
	.cq_open = cq_open,
	.endpoint = endpoint_open,
	.scalable_ep = no_scalable_endpoint,
	.cntr_open = cntr_open,
	.poll_open = poll_open,
	.stx_ctx = no_shared_tx,
	.srx_ctx = no_shared_rx,
	.query_atomic = atomic_query,
};

static int
domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
	void *context)
{
	const char *attach = getenv("PMX_ATTACH");

	if (info_check(info) != 0 || info->domain_attr->name == NULL)
		return -FI_EINVAL;
	struct domain *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return -FI_ENOMEM;
	snprintf(d->instance, sizeof(d->instance), "%s", info->domain_attr->name);
	/* thin, unless the user says otherwise: without DPDK, which takes long to start */
	const struct pmx_attach_params params = {
		.size = sizeof(params),
		.how = getenv("PMX_ATTACH") != NULL ? PMX_ATTACH_AUTO : PMX_ATTACH_THIN,
	};
	int result = pmx_node_attach(&d->node, info->domain_attr->name, &params);

	if (result != 0) {
		OFI_WARN(DOMAIN, "%s: %s\n", info->domain_attr->name, pmx_strerror(result));
		free(d);
		return result == -ENOENT ? -FI_ENODATA : result;
	}
	d->fabric = (struct fabric *)fabric;
	d->embedded = attach != NULL && strcmp(attach, "embedded") == 0;
	d->by_address = info->domain_attr->mr_mode == OFI_MR_BASIC ||
		info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	d->own_keys = info->domain_attr->mr_mode == OFI_MR_BASIC ||
		info->domain_attr->mr_mode & FI_MR_PROV_KEY;
	const bool automatic = info->domain_attr->data_progress == FI_PROGRESS_AUTO;

	d->locks = automatic || info->domain_attr->threading != FI_THREAD_DOMAIN;
	pthread_mutex_init(&d->lock, NULL);
	result = automatic ? automatic_begin(d) : 0;
	if (result != 0) {
		pmx_node_close(d->node);
		free(d);
		return result;
	}
	d->fid.fid.fclass = FI_CLASS_DOMAIN;
	d->fid.fid.context = context;
	d->fid.fid.ops = &domain_fid_ops;
	d->fid.ops = &domain_ops;
	d->fid.mr = &mr_ops;
	atomic_fetch_add(&d->fabric->users, 1);
	*domain = &d->fid;
	return 0;
}

/* ------------------------------------------------------------------ fabric */

static int
fabric_close(struct fid *fid)
{
	struct fabric *f = (struct fabric *)fid;

	if (atomic_load(&f->users) != 0)
		return -FI_EBUSY;
	free(f);
	return 0;
}

static int
no_passive_endpoint(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **ep,
	void *context)
{
	(void)fabric;
	(void)info;
	(void)ep;
	(void)context;
	return -FI_ENOSYS;
}

static int
no_wait_set(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **wait)
{
	(void)fabric;
	(void)attr;
	(void)wait;
	return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = domain_open,
	.passive_ep = no_passive_endpoint,
	.eq_open = eq_open,
	.wait_open = no_wait_set,
	.trywait = fabric_trywait,
};

int
fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	if (attr != NULL && attr->name != NULL && strcmp(attr->name, "pmx") != 0)
		return -FI_EINVAL;
	struct fabric *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -FI_ENOMEM;
	f->fid.fid.fclass = FI_CLASS_FABRIC;
	f->fid.fid.context = context;
	f->fid.fid.ops = &fabric_fid_ops;
	f->fid.ops = &fabric_ops;
	f->fid.api_version = attr != NULL ? attr->api_version : 0;
	*fabric = &f->fid;
	return 0;
}

__attribute__((visibility("default"))) struct fi_provider *
fi_prov_ini(void)
{
	ofi_provider.getinfo = info_get;
	ofi_provider.fabric = fabric_open;
	fi_param_define(&ofi_provider, "direct", FI_PARAM_SIZE_T,
		"Messages of so many bytes and more between processes of one host, several of "
		"which are under way, are copied from memory to memory, where the kernel permits "
		"it (process_vm_readv); 0: none. Default: 65536");
	fi_param_define(&ofi_provider, "instance", FI_PARAM_STRING,
		"Name of the primary to use (node.name of its configuration). Default: all that "
		"run");
	return &ofi_provider;
}
