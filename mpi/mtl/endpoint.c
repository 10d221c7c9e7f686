/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process's endpoint, and the addresses of the others.
 */
#include "mtl_pmx.h"

#include <ompi/proc/proc.h>
#if OMPI_MAJOR_VERSION >= 5
#include <opal/mca/pmix/pmix-internal.h>
#define EVERYONE PMIX_GLOBAL
#else
#include <opal/mca/pmix/pmix.h>
#define EVERYONE OPAL_PMIX_GLOBAL
#endif
#include <opal/util/output.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_prov.h>

#include <string.h>

#define ADDRESS_BYTES 16
#define API           FI_VERSION(1, 9)

struct mtl_endpoint mtl;
static const mca_base_component_t *published; /* under whose name addresses are */

/* Return what the provider offers for these hints, or NULL. */
static struct fi_info *
endpoint_ask(bool threads)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;

	if (hints == NULL)
		return NULL;
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->threading = threads ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->av_type = FI_AV_TABLE;
	if (fi_prov_ini()->getinfo(API, NULL, NULL, 0, hints, &found) != 0)
		found = NULL;
	fi_freeinfo(hints);
	return found;
}

bool
mtl_can_open(void)
{
	struct fi_info *found = endpoint_ask(false);

	fi_freeinfo(found);
	return found != NULL;
}

int
mtl_open(bool threads)
{
	struct mtl_endpoint *e = &mtl;
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

	e->info = endpoint_ask(threads);
	if (e->info == NULL)
		return -FI_ENODATA;
	int result = fi_prov_ini()->fabric(e->info->fabric_attr, &e->fabric, NULL);

	if (result == 0)
		result = fi_domain(e->fabric, e->info, &e->domain, NULL);
	if (result == 0)
		result = fi_av_open(e->domain, &av, &e->av, NULL);
	if (result == 0)
		result = fi_cq_open(e->domain, &cq, &e->cq, NULL);
	if (result == 0)
		result = fi_endpoint(e->domain, e->info, &e->ep, NULL);
	if (result == 0)
		result = fi_ep_bind(e->ep, &e->av->fid, 0);
	if (result == 0)
		result = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV);
	if (result == 0)
		result = fi_enable(e->ep);
	if (result != 0)
		mtl_close();
	return result;
}

void
mtl_close(void)
{
	struct mtl_endpoint *e = &mtl;

	if (e->ep != NULL)
		fi_close(&e->ep->fid);
	if (e->cq != NULL)
		fi_close(&e->cq->fid);
	if (e->av != NULL)
		fi_close(&e->av->fid);
	if (e->domain != NULL)
		fi_close(&e->domain->fid);
	if (e->fabric != NULL)
		fi_close(&e->fabric->fid);
	fi_freeinfo(e->info);
	*e = (struct mtl_endpoint){0};
}

/* ------------------------------------------------------------------ addresses */

int
mtl_publish(const mca_base_component_t *component)
{
	uint8_t name[ADDRESS_BYTES];
	size_t bytes = sizeof(name);
	int result = OMPI_ERROR;

	published = component;
	if (fi_getname(&mtl.ep->fid, name, &bytes) == 0)
		OPAL_MODEX_SEND(result, EVERYONE, component, name, bytes);
	return result;
}

int
mtl_learn(struct ompi_proc_t **procs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void **place = &procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL], *name = NULL;
		fi_addr_t at;
		size_t bytes;
		int result;

		if (*place != NULL)
			continue;
		OPAL_MODEX_RECV(result, published, &procs[i]->super.proc_name, &name, &bytes);
		if (result != OMPI_SUCCESS || bytes != ADDRESS_BYTES) {
			opal_output(0,
				"mtl/pmx: a process has no address: it runs without mtl/pmx, or "
				"its host has no primary; `--mca pml ob1` leaves pmx out");
			free(name);
			return OMPI_ERR_NOT_FOUND;
		}
		result = fi_av_insert(mtl.av, name, 1, &at, 0, NULL);
		free(name);
		if (result != 1)
			return OMPI_ERR_OUT_OF_RESOURCE;
		*place = (void *)(uintptr_t)(at + 1);
	}
	return OMPI_SUCCESS;
}

fi_addr_t
mtl_address(struct ompi_communicator_t *comm, int rank)
{
	struct ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
	void *const *place = &proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];

	if (*place == NULL && mtl_learn(&proc, 1) != OMPI_SUCCESS)
		return FI_ADDR_UNSPEC;
	return (fi_addr_t)(uintptr_t)*place - 1;
}
