/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fi_getinfo: what the provider can do, and whether that is what was asked for. Every process that
 * has libfabric calls it, so it attaches to nothing and starts nothing: it looks which primaries
 * listen.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define INSTANCES_MAX 16

#define TX_CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS                                                                                    \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |    \
		FI_RMA_EVENT | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CAPS        (TX_CAPS | RX_CAPS | DOMAIN_CAPS)
/* those that an endpoint has even if they were not asked for, since they cost nothing */
#define FREE_CAPS   (DOMAIN_CAPS)
#define TX_OP_FLAGS                                                                                \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
		FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MORE)
#define RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_MORE)
#define MSG_ORDER                                                                                  \
	(FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW |                \
		FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |        \
		FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |                  \
		FI_ORDER_ATOMIC_WAW)

/* Log what the caller asked for in vain (FI_LOG_LEVEL=info), and return false. The checks stop at
 * the first such thing, so each call of the application logs one at most. */
static bool
lacks(const char *what, uint64_t asked, uint64_t has)
{
	FI_INFO(&ofi_provider, FI_LOG_CORE, "%s: asked for %#llx, has %#llx\n", what,
		(unsigned long long)asked, (unsigned long long)has);
	return false;
}

static bool
bits_fit(const char *what, uint64_t asked, uint64_t has)
{
	return (asked & ~has) == 0 || lacks(what, asked, has);
}

static bool
size_fits(const char *what, uint64_t asked, uint64_t has)
{
	return asked <= has || lacks(what, asked, has);
}

static bool
one_of(const char *what, uint64_t asked, uint64_t unspec, uint64_t has)
{
	return asked == unspec || asked == has || lacks(what, asked, has);
}

static bool
tx_fits(const struct fi_tx_attr *tx)
{
	return tx == NULL ||
		(bits_fit("tx_attr.caps", tx->caps, TX_CAPS | DOMAIN_CAPS) &&
			bits_fit("tx_attr.op_flags", tx->op_flags, TX_OP_FLAGS) &&
			bits_fit("tx_attr.msg_order", tx->msg_order, MSG_ORDER) &&
			bits_fit("tx_attr.comp_order", tx->comp_order, 0) &&
			size_fits("tx_attr.inject_size", tx->inject_size, OFI_INJECT_MAX) &&
			size_fits("tx_attr.size", tx->size, OFI_QUEUE) &&
			size_fits("tx_attr.iov_limit", tx->iov_limit, OFI_IOV_MAX) &&
			size_fits("tx_attr.rma_iov_limit", tx->rma_iov_limit, 1));
}

static bool
rx_fits(const struct fi_rx_attr *rx)
{
	return rx == NULL ||
		(bits_fit("rx_attr.caps", rx->caps, RX_CAPS | DOMAIN_CAPS) &&
			bits_fit("rx_attr.op_flags", rx->op_flags, RX_OP_FLAGS) &&
			bits_fit("rx_attr.msg_order", rx->msg_order, MSG_ORDER) &&
			bits_fit("rx_attr.comp_order", rx->comp_order, 0) &&
			size_fits("rx_attr.size", rx->size, OFI_QUEUE) &&
			size_fits("rx_attr.iov_limit", rx->iov_limit, OFI_IOV_MAX));
}

static bool
ep_fits(const struct fi_ep_attr *ep)
{
	return ep == NULL ||
		(one_of("ep_attr.type", ep->type, FI_EP_UNSPEC, FI_EP_RDM) &&
			one_of("ep_attr.protocol", ep->protocol, FI_PROTO_UNSPEC,
				OFI_ADDRESS_FORMAT) &&
			size_fits("ep_attr.max_msg_size", ep->max_msg_size, OFI_MESSAGE_MAX) &&
			size_fits("ep_attr.max_order_raw_size", ep->max_order_raw_size,
				OFI_MESSAGE_MAX) &&
			size_fits("ep_attr.max_order_war_size", ep->max_order_war_size,
				OFI_MESSAGE_MAX) &&
			size_fits("ep_attr.max_order_waw_size", ep->max_order_waw_size,
				OFI_MESSAGE_MAX) &&
			size_fits("ep_attr.msg_prefix_size", ep->msg_prefix_size, 0) &&
			size_fits("ep_attr.tx_ctx_cnt", ep->tx_ctx_cnt, 1) &&
			size_fits("ep_attr.rx_ctx_cnt", ep->rx_ctx_cnt, 1) &&
			size_fits("ep_attr.auth_key_size", ep->auth_key_size, 0));
}

/* Return whether the process attaches to a node of its own (PMX_ATTACH=embedded). */
static bool
is_embedded(void)
{
	const char *attach = getenv("PMX_ATTACH");

	return attach != NULL && strcmp(attach, "embedded") == 0;
}

/* Return whether the provider can make progress in the way that is asked for. A node in this
 * process moves only in the process's calls, so with that progress is not automatic. */
static bool
progress_fits(const char *what, enum fi_progress asked)
{
	return asked == FI_PROGRESS_UNSPEC || asked == FI_PROGRESS_MANUAL ||
		(asked == FI_PROGRESS_AUTO && !is_embedded()) ||
		lacks(what, asked, FI_PROGRESS_MANUAL);
}

static bool
domain_fits(const struct fi_domain_attr *d)
{
	return d == NULL ||
		(progress_fits("domain_attr.control_progress", d->control_progress) &&
			progress_fits("domain_attr.data_progress", d->data_progress) &&
			size_fits("domain_attr.threading", d->threading, FI_THREAD_ENDPOINT) &&
			size_fits("domain_attr.av_type", d->av_type, FI_AV_TABLE) &&
			size_fits("domain_attr.mr_key_size", d->mr_key_size, sizeof(uint64_t)) &&
			size_fits("domain_attr.mr_iov_limit", d->mr_iov_limit, 1) &&
			size_fits("domain_attr.cq_data_size", d->cq_data_size, sizeof(uint64_t)) &&
			bits_fit("domain_attr.caps", d->caps, DOMAIN_CAPS) &&
			size_fits("domain_attr.max_ep_stx_ctx", d->max_ep_stx_ctx, 0) &&
			size_fits("domain_attr.max_ep_srx_ctx", d->max_ep_srx_ctx, 0) &&
			size_fits("domain_attr.auth_key_size", d->auth_key_size, 0));
}

static bool
fits(const struct fi_info *info)
{
	return bits_fit("caps", info->caps, CAPS) &&
		one_of("addr_format", info->addr_format, FI_FORMAT_UNSPEC, OFI_ADDRESS_FORMAT) &&
		ep_fits(info->ep_attr) && domain_fits(info->domain_attr) &&
		tx_fits(info->tx_attr) && rx_fits(info->rx_attr);
}

int
info_check(const struct fi_info *info)
{
	return info != NULL && info->ep_attr != NULL && info->tx_attr != NULL &&
			info->rx_attr != NULL && info->domain_attr != NULL && fits(info)
		? 0
		: -FI_EINVAL;
}

/* Return the capabilities of an endpoint: those that were asked for, so that others cost nothing,
 * or all if none were asked for. Where no direction was named, all directions are meant. */
static uint64_t
caps_of(const struct fi_info *hints)
{
	const uint64_t remote = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	uint64_t caps = hints != NULL && hints->caps != 0 ? hints->caps : CAPS;

	if (caps & (FI_MSG | FI_TAGGED) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if (caps & (FI_RMA | FI_ATOMIC) && !(caps & remote))
		caps |= remote;
	return caps | FREE_CAPS;
}

/* Return the mr_mode of a domain, which says how regions are named. It asks as little as possible
 * of the application. */
static int
mr_mode_of(uint32_t version, const struct fi_info *hints)
{
	int asked = hints != NULL && hints->domain_attr != NULL ? hints->domain_attr->mr_mode : 0;

	if (asked == OFI_MR_BASIC || asked == OFI_MR_SCALABLE)
		return asked;
	return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? OFI_MR_SCALABLE : 0;
}

/* Set an address of the answer, which is *to with *len bytes, to a copy of *a. Return false if
 * memory is short. */
static bool
set_address(void **to, size_t *len, const struct address *a)
{
	*to = malloc(sizeof(*a));
	if (*to == NULL)
		return false;
	memcpy(*to, a, sizeof(*a));
	*len = sizeof(*a);
	return true;
}

/* Set the address that the endpoints are to have, and that of the peer whom they are for, if one is
 * named. Return 0; -FI_ENODATA: there is no such node; -FI_EINVAL; or -FI_ENOMEM. */
static int
set_addresses(struct fi_info *info, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints)
{
	/* an endpoint gets its context when it is enabled, and its incarnation */
	const struct address any = {.node = OFI_THIS_NODE, .context = PMX_ANY_CONTEXT}, *own = &any;
	const struct address *other = NULL;
	struct address named;

	if (hints != NULL && hints->src_addrlen == sizeof(*own))
		own = hints->src_addr;
	if (hints != NULL && hints->dest_addrlen == sizeof(*other))
		other = hints->dest_addr;
	if (node != NULL || service != NULL) {
		int result = address_find(&named, info->domain_attr->name, node, service);

		if (result != 0)
			return result;
		if (flags & FI_SOURCE && service == NULL)
			named.context = PMX_ANY_CONTEXT;
		*(flags & FI_SOURCE ? &own : &other) = &named;
	}
	if (!set_address(&info->src_addr, &info->src_addrlen, own) ||
		(other != NULL && !set_address(&info->dest_addr, &info->dest_addrlen, other)))
		return -FI_ENOMEM;
	return 0;
}

static enum fi_progress
progress_of(enum fi_progress asked)
{
	return asked == FI_PROGRESS_AUTO ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
}

/* Describe a domain but for its name and registrations. hints: what is asked of it, or NULL. */
static void
describe_domain(struct fi_domain_attr *d, const struct fi_domain_attr *hints)
{
	d->threading = hints != NULL && hints->threading != FI_THREAD_UNSPEC ? hints->threading
									     : FI_THREAD_SAFE;
	/* a thread for it costs, so it is to be asked for; control operations end in their calls */
	d->control_progress = hints != NULL ? progress_of(hints->control_progress)
					    : FI_PROGRESS_MANUAL;
	d->data_progress = hints != NULL ? progress_of(hints->data_progress) : FI_PROGRESS_MANUAL;
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = hints != NULL ? hints->av_type : FI_AV_UNSPEC;
	d->mr_key_size = sizeof(uint64_t);
	d->mr_iov_limit = 1;
	d->mr_cnt = 1u << 20;
	d->cq_data_size = sizeof(uint64_t);
	d->cq_cnt = d->cntr_cnt = 65535;
	d->ep_cnt = d->tx_ctx_cnt = d->rx_ctx_cnt = 1024;
	d->max_ep_tx_ctx = d->max_ep_rx_ctx = 1;
	d->caps = DOMAIN_CAPS;
}

/* Return a new description of what one primary offers, or NULL if memory is short. */
static struct fi_info *
info_describe(const char *instance, uint32_t version, const struct fi_info *hints)
{
	const struct fi_tx_attr *tx = hints != NULL ? hints->tx_attr : NULL;
	const struct fi_rx_attr *rx = hints != NULL ? hints->rx_attr : NULL;
	const struct fi_domain_attr *domain = hints != NULL ? hints->domain_attr : NULL;
	struct fi_info *info = fi_allocinfo();

	if (info == NULL)
		return NULL;
	info->caps = caps_of(hints);
	info->addr_format = OFI_ADDRESS_FORMAT;
	info->tx_attr->caps = info->caps & TX_CAPS;
	info->tx_attr->op_flags = tx != NULL ? tx->op_flags : 0;
	/* an order of transfers that nobody needs would cost */
	info->tx_attr->msg_order = FI_ORDER_SAS | (tx != NULL ? tx->msg_order : 0);
	info->tx_attr->inject_size = OFI_INJECT_MAX;
	info->tx_attr->size = OFI_QUEUE;
	info->tx_attr->iov_limit = OFI_IOV_MAX;
	info->tx_attr->rma_iov_limit = 1;
	info->rx_attr->caps = info->caps & RX_CAPS;
	info->rx_attr->op_flags = rx != NULL ? rx->op_flags : 0;
	info->rx_attr->msg_order = FI_ORDER_SAS | (rx != NULL ? rx->msg_order : 0);
	info->rx_attr->size = OFI_QUEUE;
	info->rx_attr->iov_limit = OFI_IOV_MAX;
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->protocol = OFI_ADDRESS_FORMAT;
	info->ep_attr->protocol_version = 1;
	info->ep_attr->max_msg_size = OFI_MESSAGE_MAX;
	info->ep_attr->max_order_raw_size = info->ep_attr->max_order_war_size =
		info->ep_attr->max_order_waw_size = OFI_MESSAGE_MAX;
	info->ep_attr->mem_tag_format = UINT64_MAX;
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	describe_domain(info->domain_attr, domain);
	info->domain_attr->name = strdup(instance);
	info->domain_attr->mr_mode = mr_mode_of(version, hints);
	info->fabric_attr->name = strdup("pmx");
	info->fabric_attr->prov_version = OFI_VERSION;
	info->fabric_attr->api_version = version;
	if (info->domain_attr->name == NULL || info->fabric_attr->name == NULL) {
		fi_freeinfo(info);
		return NULL;
	}
	return info;
}

static bool
asked_by_name(const char *asked, const char *name)
{
	return asked == NULL || strcmp(asked, name) == 0;
}

/* Find the primaries that listen, or only the one that the parameter "instance" names. Write them
 * to found[], which has room for INSTANCES_MAX, and return their number. If the node is embedded,
 * it is the only one. */
static int
find_instances(struct pmx_found *found)
{
	char *instance = NULL;

	fi_param_get_str(&ofi_provider, "instance", &instance);
	if (is_embedded()) {
		/* no primary: a node of this process's own */
		strcpy(found[0].instance, "embedded");
		return 1;
	}
	int n = pmx_node_find(found, INSTANCES_MAX), kept = 0;

	for (int i = 0; i < n; i++) {
		if (asked_by_name(instance, found[i].instance))
			found[kept++] = found[i];
	}
	return kept;
}

int
info_get(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **info)
{
	struct pmx_found found[INSTANCES_MAX];
	struct fi_info *first = NULL, **last = &first;

	if (hints != NULL &&
		(!fits(hints) ||
			(hints->fabric_attr != NULL &&
				!asked_by_name(hints->fabric_attr->name, "pmx"))))
		return -FI_ENODATA;
	int n = find_instances(found);

	for (int i = 0; i < n; i++) {
		if (hints != NULL && hints->domain_attr != NULL &&
			!asked_by_name(hints->domain_attr->name, found[i].instance))
			continue;
		*last = info_describe(found[i].instance, version, hints);
		int result = *last != NULL ? set_addresses(*last, node, service, flags, hints)
					   : -FI_ENOMEM;

		if (result == -FI_ENODATA) {
			fi_freeinfo(*last);
			*last = NULL;
			continue;
		}
		if (result != 0) {
			fi_freeinfo(first);
			return result;
		}
		last = &(*last)->next;
	}
	*info = first;
	return first != NULL ? 0 : -FI_ENODATA;
}
