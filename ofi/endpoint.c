/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints: each is a context, which is opened when the endpoint is enabled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "op.h"

/* Endpoints have no connections, so a peer may be enabled later than it is sent to. */
#define OFI_OPEN_WAIT_US 10000000

/* ------------------------------------------------------------------ bind */

static bool
same_domain(const struct endpoint *ep, const struct domain *d)
{
	if (ep->domain != d)
		OFI_WARN(EP_CTRL, "what is bound to an endpoint must be of its domain\n");
	return ep->domain == d;
}

/* Sets one of an endpoint's places, which is set once. */
#define BIND(place, object)                                                                        \
	do {                                                                                       \
		if ((place) != NULL)                                                               \
			return -FI_EINVAL;                                                         \
		(place) = (object);                                                                \
		atomic_fetch_add(&(object)->users, 1);                                             \
	} while (0)

static int
bind_cq(struct endpoint *ep, struct cq *cq, uint64_t flags)
{
	if (!same_domain(ep, cq->domain) ||
		flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
		!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		BIND(ep->tx_cq, cq);
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (flags & FI_RECV) {
		BIND(ep->rx_cq, cq);
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

static int
bind_cntr(struct endpoint *ep, struct cntr *c, uint64_t flags)
{
	static const uint64_t kinds[CNTR_KINDS] = {
		[CNTR_SENDS] = FI_SEND,
		[CNTR_RECEIVES] = FI_RECV,
		[CNTR_WRITES] = FI_WRITE,
		[CNTR_READS] = FI_READ,
		[CNTR_REMOTE_WRITES] = FI_REMOTE_WRITE,
		[CNTR_REMOTE_READS] = FI_REMOTE_READ,
	};
	uint64_t known = 0;

	for (unsigned i = 0; i < CNTR_KINDS; i++)
		known |= kinds[i];
	if (!same_domain(ep, c->domain) || flags == 0 || flags & ~known)
		return -FI_EINVAL;
	for (unsigned i = 0; i < CNTR_KINDS; i++) {
		if (flags & kinds[i])
			BIND(ep->cntrs[i], c);
	}
	return 0;
}

static int
endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct endpoint *ep = (struct endpoint *)fid;
	struct av *av = (struct av *)other;

	if (ep->ctx != NULL)
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_AV:
		if (!same_domain(ep, av->domain))
			return -FI_EINVAL;
		BIND(ep->av, av);
		return 0;
	case FI_CLASS_CQ:
		return bind_cq(ep, (struct cq *)other, flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, (struct cntr *)other, flags);
	case FI_CLASS_EQ:
		return 0; /* an endpoint has no events */
	default:
		return -FI_EINVAL;
	}
}

/* ------------------------------------------------------------------ enable */

/* Return a random number for an endpoint's incarnation, or 0 if there is no randomness. */
static uint32_t
new_incarnation(void)
{
	uint32_t n = 0;

	while (n == 0 || n == OFI_UNNAMED) {
		if (getrandom(&n, sizeof(n), 0) != sizeof(n))
			return 0;
		n &= OFI_INCARNATION_MAX;
	}
	return n;
}

/* Undo endpoint_watch(), and take the endpoint out of its domain's lists of enabled endpoints and
 * of targets. */
static void
unwatch(struct endpoint *ep)
{
	if (ep->tx_cq != NULL)
		cq_unwatch(ep->tx_cq, ep);
	if (ep->rx_cq != NULL && ep->rx_cq != ep->tx_cq)
		cq_unwatch(ep->rx_cq, ep);
	reporters_remove(&ep->domain->targets, ep);
	reporters_remove(&ep->domain->enabled, ep);
	for (unsigned i = 0; i < CNTR_KINDS; i++) {
		if (ep->cntrs[i] != NULL)
			reporters_remove(&ep->cntrs[i]->endpoints, ep);
	}
}

/* Add the endpoint to its queues and counters: from now on, whoever reads these makes progress on
 * it. Return 0 or a negative error. */
static int
endpoint_watch(struct endpoint *ep)
{
	int result = 0;

	if (ep->tx_cq != NULL)
		result = cq_watch(ep->tx_cq, ep);
	if (result == 0 && ep->rx_cq != NULL)
		result = cq_watch(ep->rx_cq, ep);
	for (unsigned i = 0; i < CNTR_KINDS; i++) {
		if (result == 0 && ep->cntrs[i] != NULL)
			result = reporters_add(&ep->cntrs[i]->endpoints, ep);
	}
	return result;
}

static int
enable(struct endpoint *ep)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.open_wait_us = OFI_OPEN_WAIT_US,
	};

	if (ep->ctx != NULL)
		return 0;
	if (ep->av == NULL)
		return -FI_ENOAV;
	if ((ep->caps & FI_SEND && ep->tx_cq == NULL && ep->cntrs[CNTR_SENDS] == NULL) ||
		(ep->caps & FI_WRITE && ep->tx_cq == NULL && ep->cntrs[CNTR_WRITES] == NULL) ||
		(ep->caps & FI_READ && ep->tx_cq == NULL && ep->cntrs[CNTR_READS] == NULL) ||
		(ep->caps & FI_RECV && ep->rx_cq == NULL && ep->cntrs[CNTR_RECEIVES] == NULL))
		return -FI_ENOCQ;
	/* an address that the application chose whole is that of an endpoint that it had before */
	ep->incarnation = ep->wanted.incarnation != 0 ? ep->wanted.incarnation : new_incarnation();
	int result = ep->incarnation != 0
		? pmx_context_open(&ep->ctx, ep->domain->node, ep->wanted.context, &params)
		: -EIO;

	if (result != 0) {
		OFI_WARN(EP_CTRL, "no context: %s%s\n", pmx_strerror(result),
			result == -EBUSY && ep->wanted.context == PMX_ANY_CONTEXT
				? " (limits.contexts of the primary's configuration)"
				: "");
		ep->ctx = NULL;
		return result == -EBUSY && ep->wanted.context != PMX_ANY_CONTEXT ? -FI_EADDRINUSE
										 : result;
	}
	const struct pmx_addr own = pmx_context_addr(ep->ctx);

	ep->name = (struct address){own.node, own.context, ep->incarnation, 0};
	direct_enable(ep);
	result = endpoint_watch(ep);
	if (result == 0)
		result = reporters_add(&ep->domain->enabled, ep);
	if (result == 0 && ep->caps & (FI_RMA | FI_ATOMIC)) {
		result = rma_enable(ep);
		if (result == 0)
			result = reporters_add(&ep->domain->targets, ep);
	}
	if (result != 0) {
		unwatch(ep);
		pmx_context_close(ep->ctx);
		ep->ctx = NULL;
	}
	return result;
}

static int
endpoint_control(struct fid *fid, int command, void *arg)
{
	struct endpoint *ep = (struct endpoint *)fid;
	const uint64_t *flags = arg;
	int result = 0;

	domain_lock(ep->domain);
	switch (command) {
	case FI_ENABLE:
		result = enable(ep);
		break;
	case FI_GETOPSFLAG:
		*(uint64_t *)arg = *flags & FI_TRANSMIT ? ep->tx_flags : ep->rx_flags;
		break;
	case FI_SETOPSFLAG:
		if (*flags & FI_TRANSMIT)
			ep->tx_flags = *flags & ~FI_TRANSMIT;
		else if (*flags & FI_RECV)
			ep->rx_flags = *flags & ~FI_RECV;
		else
			result = -FI_EINVAL;
		break;
	default:
		result = -FI_ENOSYS;
	}
	domain_unlock(ep->domain);
	return result;
}

/* ------------------------------------------------------------------ names, options */

static int
endpoint_get_name(fid_t fid, void *to, size_t *len)
{
	const struct endpoint *ep = (const struct endpoint *)fid;
	size_t room = *len;

	if (ep->ctx == NULL)
		return -FI_EOPBADSTATE;
	const struct address a = ep->name;

	*len = sizeof(a);
	if (room > 0 && to != NULL)
		memcpy(to, &a, room < sizeof(a) ? room : sizeof(a));
	return room < sizeof(a) ? -FI_ETOOSMALL : 0;
}

static int
no_set_name(fid_t fid, void *to, size_t len)
{
	(void)fid;
	(void)to;
	(void)len;
	return -FI_ENOSYS;
}

static int
no_get_peer(struct fid_ep *ep, void *to, size_t *len)
{
	(void)ep;
	(void)to;
	(void)len;
	return -FI_ENOSYS;
}

static int
no_connect(struct fid_ep *ep, const void *to, const void *param, size_t len)
{
	(void)ep;
	(void)to;
	(void)param;
	(void)len;
	return -FI_ENOSYS;
}

static int
no_listen(struct fid_pep *ep)
{
	(void)ep;
	return -FI_ENOSYS;
}

static int
no_accept(struct fid_ep *ep, const void *param, size_t len)
{
	(void)ep;
	(void)param;
	(void)len;
	return -FI_ENOSYS;
}

static int
no_reject(struct fid_pep *ep, fid_t handle, const void *param, size_t len)
{
	(void)ep;
	(void)handle;
	(void)param;
	(void)len;
	return -FI_ENOSYS;
}

static int
no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep;
	(void)flags;
	return -FI_ENOSYS;
}

static int
no_join(struct fid_ep *ep, const void *to, uint64_t flags, struct fid_mc **mc, void *context)
{
	(void)ep;
	(void)to;
	(void)flags;
	(void)mc;
	(void)context;
	return -FI_ENOSYS;
}

static int
endpoint_get_option(fid_t fid, int level, int name, void *value, size_t *len)
{
	const struct endpoint *ep = (const struct endpoint *)fid;
	size_t size = 0;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_MIN_MULTI_RECV:
		size = ep->min_multi_recv;
		break;
	case FI_OPT_CM_DATA_SIZE:
		break;
	case FI_OPT_TX_SIZE:
	case FI_OPT_RX_SIZE:
		size = OFI_QUEUE;
		break;
	default:
		return -FI_ENOPROTOOPT;
	}
	if (*len < sizeof(size))
		return -FI_ETOOSMALL;
	memcpy(value, &size, sizeof(size));
	*len = sizeof(size);
	return 0;
}

static int
endpoint_set_option(fid_t fid, int level, int name, const void *value, size_t len)
{
	struct endpoint *ep = (struct endpoint *)fid;
	size_t size;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (len != sizeof(size))
		return -FI_EINVAL;
	memcpy(&size, value, sizeof(size));
	ep->min_multi_recv = size;
	return 0;
}

static int
no_tx_context(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
	void *context)
{
	(void)sep;
	(void)index;
	(void)attr;
	(void)ep;
	(void)context;
	return -FI_ENOSYS;
}

static int
no_rx_context(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
	void *context)
{
	(void)sep;
	(void)index;
	(void)attr;
	(void)ep;
	(void)context;
	return -FI_ENOSYS;
}

static ssize_t
size_left(struct fid_ep *ep)
{
	(void)ep;
	return OFI_QUEUE;
}

/* ------------------------------------------------------------------ life */

#define UNBIND(place)                                                                              \
	do {                                                                                       \
		if ((place) != NULL)                                                               \
			atomic_fetch_sub(&(place)->users, 1);                                      \
	} while (0)

static int
endpoint_close(struct fid *fid)
{
	struct endpoint *ep = (struct endpoint *)fid;
	struct domain *d = ep->domain;

	domain_lock(d);
	if (ep->ctx != NULL) {
		unwatch(ep);
		pmx_context_close(ep->ctx);
	}
	op_free_all(ep);
	UNBIND(ep->av);
	UNBIND(ep->tx_cq);
	UNBIND(ep->rx_cq);
	for (unsigned i = 0; i < CNTR_KINDS; i++)
		UNBIND(ep->cntrs[i]);
	domain_unlock(d);
	atomic_fetch_sub(&d->users, 1);
	free(ep);
	return 0;
}

static struct fi_ops endpoint_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = endpoint_close,
	.bind = endpoint_bind,
	.control = endpoint_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_ep endpoint_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = endpoint_cancel,
	.getopt = endpoint_get_option,
	.setopt = endpoint_set_option,
	.tx_ctx = no_tx_context,
	.rx_ctx = no_rx_context,
	.rx_size_left = size_left,
	.tx_size_left = size_left,
};

static struct fi_ops_cm endpoint_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_set_name,
	.getname = endpoint_get_name,
	.getpeer = no_get_peer,
	.connect = no_connect,
	.listen = no_listen,
	.accept = no_accept,
	.reject = no_reject,
	.shutdown = no_shutdown,
	.join = no_join,
};

int
endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
	if (info_check(info) != 0)
		return -FI_EINVAL;
	struct endpoint *ep = calloc(1, sizeof(*ep));

	if (ep == NULL)
		return -FI_ENOMEM;
	ep->domain = (struct domain *)domain;
	ep->caps = info->caps;
	ep->wanted.context = PMX_ANY_CONTEXT;
	if (info->src_addr != NULL && info->src_addrlen == sizeof(ep->wanted))
		memcpy(&ep->wanted, info->src_addr, sizeof(ep->wanted));
	ep->tx_flags = info->tx_attr->op_flags;
	ep->rx_flags = info->rx_attr->op_flags;
	ep->orders = info->tx_attr->msg_order & ~FI_ORDER_SAS;
	ep->min_multi_recv = 64;
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &endpoint_fid_ops;
	ep->fid.ops = &endpoint_ops;
	ep->fid.cm = &endpoint_cm_ops;
	ep->fid.msg = &messages_ops;
	ep->fid.tagged = &tagged_ops;
	ep->fid.rma = &rma_ops;
	ep->fid.atomic = &atomic_ops;
	atomic_fetch_add(&ep->domain->users, 1);
	*out = &ep->fid;
	return 0;
}
