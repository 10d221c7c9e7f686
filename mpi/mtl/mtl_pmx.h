/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mtl/pmx: a component of Open MPI that gives its messages to pmx. It has the provider for
 * libfabric (ofi/) in itself, and calls it without libfabric, of which no other provider is opened.
 *
 * Design notes
 * 1. A message's tag says its communicator (16 bits), its source's rank there (16 bits), and MPI's
 *    tag (32 bits). A receive of any tag takes those that are not negative: the others are Open
 *    MPI's own.
 * 2. Each process has one endpoint, whose address (16 bytes) the others get by PMIx, with what Open
 *    MPI exchanges at the beginning anyway, and look up at their first message to it.
 * 3. A synchronous send ends when a receive has matched it (FI_MATCH_COMPLETE), which is the
 *    library's own knowledge: nothing is sent for it here.
 */
#ifndef PMX_MPI_MTL_H
#define PMX_MPI_MTL_H

#include <ompi_config.h>

#include <mpi.h>
#include <ompi/communicator/communicator.h>
#include <ompi/mca/mtl/base/base.h>
#include <ompi/mca/mtl/mtl.h>
#include <ompi/request/request.h>

#include <rdma/fabric.h>
#include <rdma/fi_tagged.h>

#include <stdbool.h>
#include <stdint.h>

/* Return the provider, as for libfabric: ofi/fabric.c. */
struct fi_provider *fi_prov_ini(void);

/* ---------------------------------------------------------------- endpoint.c */

struct mtl_endpoint {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

extern struct mtl_endpoint mtl;

/* Return whether there is a primary that this user may attach to. */
bool mtl_can_open(void);
/* Open the endpoint. threads: of the program call at once. Return 0, or a negative error of
 * libfabric's. */
int mtl_open(bool threads);
void mtl_close(void);
/* Return the address of a rank of a communicator; FI_ADDR_UNSPEC: it has none that can be used. */
fi_addr_t mtl_address(struct ompi_communicator_t *comm, int rank);
/* Tell the other processes the endpoint's address. Return an error of Open MPI's. */
int mtl_publish(const mca_base_component_t *component);
/* Learn the addresses of these processes. Return an error of Open MPI's. */
int mtl_learn(struct ompi_proc_t **procs, size_t count);

/* ---------------------------------------------------------------- messages.c */

/* Let Open MPI's requests go on. Return how many have ended. */
int messages_progress(void);
/* Set the functions of the module that are of messages. */
void messages_set(mca_mtl_base_module_t *m);

#endif
